/*
 * A program that ends while a driver may still be opening: leave HOW MS. It runs a job that names no
 * devices, does something else for so many milliseconds, and ends by exit() with the runtime as it is, or by
 * closing it first. Exit status 0 unless something is wrong. Run by scripts/late-check, many times.
 */
#include <muster/muster.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ITEMS 4096

static muster_status twice(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(const uint32_t *const *)args[0];
    uint32_t *out = *(uint32_t *const *)args[1];
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
    struct muster_error error = { .size = sizeof error };
    struct muster_kernel *kernel = NULL;
    struct muster *m = NULL;
    if (argc != 3 || (strcmp(argv[1], "exit") != 0 && strcmp(argv[1], "close") != 0)) {
        fprintf(stderr, "usage: leave exit|close MS\n");
        return 2;
    }
    for (uint32_t i = 0; i < ITEMS; i++)
        in[i] = i;
    if (muster_open(&m, NULL, &error) != MUSTER_OK ||
        muster_kernel_from(m, "twice", &form, 1, &kernel, &error) != MUSTER_OK ||
        muster_for(m, kernel, ITEMS, args, 2, NULL, NULL, &error) != MUSTER_OK) {
        fprintf(stderr, "leave: %s\n", error.text);
        return 1;
    }
    for (uint32_t i = 0; i < ITEMS; i++)
        if (out[i] != 2 * i)
            return 1;
    long ms = strtol(argv[2], NULL, 10);
    nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
    if (strcmp(argv[1], "close") == 0 && muster_close(m, &error) != MUSTER_OK) {
        fprintf(stderr, "leave: %s\n", error.text);
        return 1;
    }
    exit(0);
}
