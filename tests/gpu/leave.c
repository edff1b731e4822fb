/*
 * A program that ends while a driver may still be opening: leave HOW MS. It runs a job that names no
 * devices and takes so long that their driver is opened, does something else for this many milliseconds, and
 * ends by exit() with the runtime as it is, or by closing it first. Exit status 0 unless something is
 * wrong. Run by scripts/late-check, many times.
 */
#include <muster/muster.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ITEMS 4096
#define UNIT 64
/* Where no driver takes long to open the job goes on without. */
#define WAITS_MAX 600

static struct muster *m;

static void wait_ms(long ms)
{
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static void await_opening(void)
{
    struct muster_counters counters = { .size = sizeof counters };
    static atomic_int waits;
    while (atomic_fetch_add(&waits, 1) < WAITS_MAX) {
        if (muster_counters(m, &counters, NULL) != MUSTER_OK || counters.opening > 0)
            return;
        wait_ms(1);
    }
}

/* The first unit is done at once, the others take long. */
static muster_status twice(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(const uint32_t *const *)args[0];
    uint32_t *out = *(uint32_t *const *)args[1];
    if (begin < end && in[begin] >= UNIT)
        await_opening();
    for (uint64_t i = begin; i < end; i++)
        out[i] = 2 * in[i];
    return MUSTER_OK;
}

int main(int argc, char **argv)
{
    static uint32_t in[ITEMS], out[ITEMS];
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = twice };
    const struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    const struct muster_run_options how = { .size = sizeof how,
                                            .unit_items = UNIT,
                                            .no_copies = 1 };
    struct muster_error error = { .size = sizeof error };
    struct muster_kernel *kernel = NULL;
    if (argc != 3 || (strcmp(argv[1], "exit") != 0 && strcmp(argv[1], "close") != 0)) {
        fprintf(stderr, "usage: leave exit|close MS\n");
        return 2;
    }
    for (uint32_t i = 0; i < ITEMS; i++)
        in[i] = i;
    if (muster_open(&m, NULL, &error) != MUSTER_OK ||
        muster_kernel_from(m, "twice", &form, 1, &kernel, &error) != MUSTER_OK ||
        muster_for(m, kernel, ITEMS, args, 2, &how, NULL, &error) != MUSTER_OK) {
        fprintf(stderr, "leave: %s\n", error.text);
        return 1;
    }
    for (uint32_t i = 0; i < ITEMS; i++)
        if (out[i] != 2 * i)
            return 1;
    wait_ms(strtol(argv[2], NULL, 10));
    if (strcmp(argv[1], "close") == 0 && muster_close(m, &error) != MUSTER_OK) {
        fprintf(stderr, "leave: %s\n", error.text);
        return 1;
    }
    exit(0);
}
