/*
 * conformance --backend NAME|PATH [--isolated OBJECT | --sandboxed OBJECT] [--device NUMBER] [--slice SIZE,...]
 * [--hold nothing] [--list] [--seed N] [--time-limit SECONDS] [CASE...]
 *
 * Drives one backend through its table, not through the runtime. NAME is a built-in backend; what
 * has a slash in it is a shared object. With --slice every device is cut into slices of these sizes,
 * and the slices are what is driven. With --isolated the backend's devices live in helper processes, with --sandboxed in
 * those that are sandboxes, and OBJECT is the shared object with the suite's kernels, since the functions of this
 * program are not there. Exits 77 if the machine has no device for it, which ctest reports as skipped.
 */
#include "suite.h"

#include "backend/isolated/isolated.h"
#include "backend/registry.h"
#include "platform/arena.h"
#include "platform/sandbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_SKIPPED 77
#define CASES_MAX 128

/* Two devices, fast enough not to be waited for, with links so that copies take time. */
static const char sim_description[] =
    "[{\"name\": \"conformance\", \"count\": 2, \"items_per_s\": 1e12, \"launch_ns\": 1000,"
    "  \"memory\": \"1GiB\", \"h2d_bytes_per_s\": 2e10, \"d2h_bytes_per_s\": 2e10, \"cores\": 8,"
    "  \"slices\": true}]";

static struct {
    const struct muster_backend *given;
    const char *sim;
    uint32_t slices[RIG_DEVICES_MAX]; /* none: devices are driven whole */
    size_t slice_count;
    struct platform_library library; /* stays open: failed tests leave threads in it */
} backend;

struct rig *suite_open(void)
{
    return rig_open_slices(backend.given, backend.sim, backend.slices, backend.slice_count);
}

static muster_status select_backend(const char *name, bool is_isolated, bool is_sandboxed,
                                    struct muster_error *err)
{
    if (strchr(name, '/'))
        return registry_load(name, &backend.library, &backend.given, err);
    size_t count;
    const struct muster_backend *const *built_in = registry_built_in(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(built_in[i]->name, name) == 0)
            backend.given = is_sandboxed  ? isolated_find_sandboxed(name)
                            : is_isolated ? isolated_find(name)
                                          : built_in[i];
    if (strcmp(name, "sim") == 0)
        backend.sim = sim_description;
    if (!backend.given)
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, NULL,
                                 "no built-in backend is called %.32s", name);
    return MUSTER_OK;
}

/* Takes an option and its value out of the arguments; NULL if it is not there. */
static const char *take_option(int *argc, char **argv, const char *option)
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

static bool take_slices(const char *text)
{
    while (text && *text) {
        char *end;
        unsigned long size = strtoul(text, &end, 10);
        if (end == text || (*end && *end != ',') || backend.slice_count == RIG_DEVICES_MAX)
            return false;
        backend.slices[backend.slice_count++] = (uint32_t)size;
        text = *end ? end + 1 : end;
    }
    return true;
}

static bool only_lists(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "--list") == 0;
}

int main(int argc, char **argv)
{
    static const struct suite_part *const parts[] = {
        &suite_devices, &suite_memory,   &suite_copies,  &suite_streams,
        &suite_events,  &suite_gates,    &suite_calls,   &suite_launches,
        &suite_pieces,  &suite_failures, &suite_threads,
    };
    static struct test tests[CASES_MAX];
    size_t count = 0;
#ifndef CONFORMANCE_FUNCTIONS
    /* The rig has it only if the program needs it. */
    platform_arena_destroy(NULL);
    /* Without MUSTER_HELPER the program is its own helper. */
    int served = muster_helper_main(argc, argv);
    if (served >= 0)
        return served;
#endif
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i]->count > CASES_MAX - count) {
            fprintf(stderr, "more than %d cases\n", CASES_MAX);
            return 2;
        }
        memcpy(tests + count, parts[i]->tests, parts[i]->count * sizeof *tests);
        count += parts[i]->count;
    }

    struct muster_error err = { .size = sizeof err };
    const char *name = take_option(&argc, argv, "--backend");
    const char *slices = take_option(&argc, argv, "--slice");
    const char *device = take_option(&argc, argv, "--device");
    const char *functions = take_option(&argc, argv, "--isolated");
    const char *sandboxed = take_option(&argc, argv, "--sandboxed");
    const char *hold = take_option(&argc, argv, "--hold");
    if (only_lists(argc, argv))
        return test_main(argc, argv, tests, count);
    if (!name || !take_slices(slices)) {
        fprintf(stderr,
                "usage: %s --backend NAME|PATH [--isolated OBJECT | --sandboxed OBJECT] [--device "
                "NUMBER] [--slice "
                "SIZE,...] [--hold "
                "nothing] [--list] "
                "[--seed N] [CASE...]\n",
                argv[0]);
        return 2;
    }
    if (select_backend(name, functions != NULL, sandboxed != NULL, &err) != MUSTER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    if (functions || sandboxed)
        rig_load_functions(functions ? functions : sandboxed);
    if (sandboxed && platform_sandbox_check(&err) != MUSTER_OK) {
        printf("skipped: %s\n", err.text);
        return EXIT_SKIPPED;
    }
    if (hold && strcmp(hold, "nothing") == 0)
        rig_hold_nothing();
    rig_begin_with(device ? (uint32_t)strtoul(device, NULL, 10) : 0);
    muster_status status = rig_probe(backend.given, backend.sim, &err);
    if (status == MUSTER_E_NOT_FOUND) {
        printf("skipped: this machine has no device of %s: %s\n", name, err.text);
        return EXIT_SKIPPED;
    }
    if (status != MUSTER_OK) {
        printf("%s cannot be opened: %s: %s\n", name, muster_status_name(status), err.text);
        return 1;
    }
    int result = test_main(argc, argv, tests, count);
    rig_say_left_out();
    return result;
}
