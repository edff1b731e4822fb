/*
 * For sandbox*.c alone: filters of system calls, and Landlock.
 */
#ifndef PLATFORM_SANDBOX_FILTER_H
#define PLATFORM_SANDBOX_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdint.h>

#define FILTER_MAX 250u

/* A program that decides on each call. What it does not name gets the action that ends it. */
struct filter {
    struct sock_filter code[FILTER_MAX];
    unsigned count;
};

/* Whether filters can be made for this processor. */
bool filter_is_possible(void);
/* Other architectures' calls have other numbers, and so have those of x32: they end the process. */
void filter_begin(struct filter *filter);
void filter_decide(struct filter *filter, long number, uint32_t action);
/* Of the call's argument: lets it be if it is `value`; else, and the other way round, `action`. */
void filter_decide_equal(struct filter *filter, long number, unsigned argument, uint32_t value,
                         uint32_t action);
void filter_decide_other(struct filter *filter, long number, unsigned argument, uint32_t value,
                         uint32_t action);
/* `action` if the argument has one of these bits, else lets it be. */
void filter_decide_bits(struct filter *filter, long number, unsigned argument, uint32_t bits,
                        uint32_t action);
/* Memory that is private, of no file, and cannot be run. */
void filter_decide_memory(struct filter *filter, uint32_t action);
/* Lets a futex be waited for and woken, and nothing else. */
void filter_decide_futex(struct filter *filter, uint32_t action);
/* Takes it for all threads of the process; false with errno set. */
bool filter_set(struct filter *filter, uint32_t action);

/* Which Landlock the system has; 0, with errno set, if it has none. */
int landlock_version(void);
/* No file may be opened any more but those below the folders of `words` (words[0] also written, the others also run). */
bool landlock_close(const char *const *words);
/* No new privileges, and no capabilities, also of what is run after this. */
bool sandbox_drop_rights(void);

#endif
