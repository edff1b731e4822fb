/*
 * The machine that a program of this folder runs its shapes on: a backend by its name, with devices
 * that are slow enough for several units to be under way.
 */
#ifndef PIPELINES_MACHINE_H
#define PIPELINES_MACHINE_H

#include "unit/support.h"

#define EXIT_SKIPPED 77

/* A launch takes some 100 us, and copies about as long as that. */
#define SIM_OVERLAPPING                                                                            \
    "[{\"items_per_s\": 2e6, \"launch_ns\": 20000, \"h2d_bytes_per_s\": 1e7,"                      \
    "  \"d2h_bytes_per_s\": 8e6, \"jitter\": 0.5}]"

static inline struct muster *machine_open(const char *backend)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = backend;
    options.sim = SIM_OVERLAPPING;
    /* More than streams have need of, however few cores there are: they are to run beside each other. */
    options.cpu_workers = 6;
    return open_with(options);
}

/* Takes an option and its value out of the arguments; NULL if it is not there. */
static inline const char *take_option(int *argc, char **argv, const char *option)
{
    for (int i = 1; i + 1 < *argc; i++) {
        if (strcmp(argv[i], option) != 0)
            continue;
        const char *value = argv[i + 1];
        memmove(argv + i, argv + i + 2, (size_t)(*argc - i - 1) * sizeof *argv);
        *argc -= 2;
        return value;
    }
    return NULL;
}

/* Whether there is a device of that backend; says why not. */
static inline bool machine_has(const char *backend)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster *m;
    size_t count = 0;
    options.devices = backend;
    options.sim = SIM_OVERLAPPING;
    if (muster_open(&m, &options, &problem) == MUSTER_OK) {
        muster_device_list(m, NULL, 0, &count, &problem);
        muster_close(m, NULL);
    }
    if (count == 0)
        printf("no device of %s here\n", backend);
    return count > 0;
}

#endif
