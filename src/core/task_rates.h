/*
 * How long tasks take: learned for each body, size class and device from the tasks that ran. Robust:
 * the estimate is the median of the last five samples, so one outlier changes nothing and a device
 * that has become slow is noticed after three; the first sample of a body on a device, which may have
 * compiled or warmed up, counts only until there is a second. Pure.
 */
#ifndef CORE_TASK_RATES_H
#define CORE_TASK_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TASK_RATES_KEPT 5u

/* A size class: sizes within a factor of two are alike. */
uint32_t task_rates_class(uint64_t size);

struct task_rates;
/* Room for this many pairs of body and size class on each of the devices. */
size_t task_rates_bytes(uint32_t pairs, uint32_t devices);
struct task_rates *task_rates_init(void *memory, uint32_t pairs, uint32_t devices);

/* A row for the pair, made if there is none; the least used one is forgotten when there is no room. */
uint32_t task_rates_row(struct task_rates *rates, uint32_t body, uint32_t size_class);
void task_rates_sample(struct task_rates *rates, uint32_t row, uint32_t device,
                       uint64_t elapsed_ns);
/*
 * What a task should take; 0 if it was never measured there. Where the pair was not measured but the
 * body was, at another size, it is still 0: task_rates_guess_ns says what that leads one to expect.
 */
double task_rates_ns(const struct task_rates *rates, uint32_t row, uint32_t device);
/* From the body's other size classes on the device, or from other devices' ratio; 0: nothing known. */
double task_rates_guess_ns(const struct task_rates *rates, uint32_t row, uint32_t device);

/* What is known, to keep it: one line of a file is one of these. */
struct task_rates_line {
    uint32_t body, size_class, device;
    double ns;
};
/* The first line at or after `*place` (which begins as 0); false at the end. */
bool task_rates_next(const struct task_rates *rates, uint32_t *place, struct task_rates_line *out);
/* What was known once: counts until two samples of this run have come. */
void task_rates_restore(struct task_rates *rates, const struct task_rates_line *line);

#endif
