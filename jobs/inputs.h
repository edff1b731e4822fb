/*
 * Files one after the other as one text, with a newline behind each: no word has one, so none is
 * found across the border. The text is read on one thread and spoken of on another, which is told
 * where each input ends when it has been given text from behind it. One large file alone is read on
 * several threads, each of which knows by the text's place where to read.
 */
#ifndef JOBS_INPUTS_H
#define JOBS_INPUTS_H

#include <muster/file.h>
#include <stdatomic.h>
#include <stdbool.h>

struct input {
    const char *path; /* borrowed; "-": standard input */
    /* Where it ends in the text; UINT64_MAX: not known yet. Written by the reading thread. */
    _Atomic uint64_t end;
    atomic_bool is_unread; /* not, or not all, could be read; written before `end` */
};

struct inputs {
    struct muster *m;   /* borrowed */
    struct input *list; /* owns */
    size_t count;
    /* Told of what cannot be read, on the reading thread; reading goes on with the next. */
    void (*trouble)(void *user, const char *path, const char *why);
    void *user;
    int output; /* a file that grows by what is found, and so is not read; 0: none */
    /* The reading thread's own. */
    size_t current;
    int descriptor;           /* -1: none is open */
    struct muster_file *file; /* a large file is read through it; else NULL */
    bool is_regular;
    bool is_shared; /* several threads read the only one, from where they want */
    uint64_t size;  /* then: of the file when it was opened */
    size_t item_bytes;
    unsigned char *rest; /* owns: what is less than an item */
    size_t rest_bytes;
};

/* False: no memory. */
bool inputs_init(struct inputs *inputs, struct muster *m, const char *const *paths, size_t count,
                 size_t item_bytes);
void inputs_deinit(struct inputs *inputs);

/* Of inputs_read, how many calls may be made at once. Before the first of them. */
uint32_t inputs_calls(struct inputs *inputs);

/*
 * The source of a job: text in whole items, the last filled up with newlines; 0 at its end.
 */
int64_t inputs_read(void *inputs, uint64_t begin, uint64_t items, void *to, size_t bytes);

#endif
