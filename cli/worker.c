/*
 * `muster worker`: this machine's devices work for a cluster, until they are told to stop.
 */
#include "fleet.h"
#include "interrupt.h"
#include "log.h"
#include "message.h"
#include "running.h"
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    CLUSTER,
    DEVICES = CLUSTER + FLEET_OPTIONS,
    UNIT,
    SLOTS,
    TRUST,
    ONCE,
    QUIET,
    LOG,
    OPTION_COUNT = LOG + LOG_OPTIONS
};

#define SLOTS_MAX 4
#define FOR_EVER UINT64_MAX

static const struct option options[] = {
    FLEET_OPTION_ROWS,
    [DEVICES] = RUNNING_DEVICES_ROW,
    [UNIT] = { .name = "unit",
               .kind = OPTION_NUMBER,
               .value = "U",
               .help = "items in a unit of a device (by its speed)" },
    [SLOTS] = { .name = "slots",
                .kind = OPTION_NUMBER,
                .value = "N",
                .help = "pieces of each job that are held at a time, 1 to 4 (2)" },
    [TRUST] = { .name = "trust",
                .kind = OPTION_TEXT,
                .value = "WHOM",
                .help = "whose jobs to run: public keys with commas, a file of them, or any; else "
                        "MUSTER_CLUSTER_TRUST" },
    [ONCE] = { .name = "once",
               .kind = OPTION_FLAG,
               .help = "end when there was work and there is none left, for batch systems" },
    [QUIET] = { .name = "quiet",
                .letter = 'q',
                .kind = OPTION_FLAG,
                .help = "say nothing of jobs" },
    LOG_OPTION_ROWS,
};
_Static_assert(sizeof options / sizeof *options == OPTION_COUNT && OPTION_COUNT <= OPTIONS_MAX,
               "each option has its row");

static void say(void *user, const char *line)
{
    (void)user;
    message_error("%s", line);
}

static void stop(void *worker)
{
    muster_cluster_worker_stop(worker);
}

static enum exit_code work(const struct option_value *values, struct muster *m,
                           struct muster_cluster *cluster, struct interrupt *interrupt)
{
    const struct muster_run_options run = { .size = sizeof run, .unit_items = values[UNIT].number };
    const char *trust = values[TRUST].given ? values[TRUST].text : getenv("MUSTER_CLUSTER_TRUST");
    const struct muster_cluster_worker_options asked = { .size = sizeof asked,
                                                         .run = &run,
                                                         .once = values[ONCE].given,
                                                         .slots = (uint32_t)values[SLOTS].number,
                                                         .log = values[QUIET].given ? NULL : say,
                                                         .trust = trust && *trust ? trust : NULL };
    struct muster_cluster_worker *worker = NULL;
    struct muster_error error;
    if (muster_cluster_worker_start(cluster, m, &asked, &worker, &error) != MUSTER_OK)
        return fleet_refuse(&error);
    interrupt_set(interrupt, stop, NULL, worker);
    if (!values[QUIET].given)
        message_error("working");
    (void)muster_cluster_worker_wait(worker, FOR_EVER, NULL);
    interrupt_set(interrupt, NULL, NULL, NULL);
    muster_cluster_worker_destroy(worker);
    return EXIT_DONE;
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    struct interrupt interrupt;
    struct muster_cluster *cluster = NULL;
    struct muster *m = NULL;
    struct muster_error error;
    enum exit_code code;
    (void)argument, (void)out;
    if (values[SLOTS].given && (values[SLOTS].number == 0 || values[SLOTS].number > SLOTS_MAX)) {
        message_usage("worker", "--slots is 1 to %d", SLOTS_MAX);
        return EXIT_USAGE;
    }
    if (!log_begin(values + LOG, "worker"))
        return EXIT_USAGE;
    /* Kernels come from others: unless it is told otherwise, none of them runs in this process. */
    if (setenv("MUSTER_ISOLATE", "all", 0) != 0)
        return EXIT_FAILED;
    if (!interrupt_begin(&interrupt))
        return EXIT_FAILED;
    if (running_open(&values[DEVICES], &m, &error) != MUSTER_OK) {
        message_library(NULL, &error);
        code = EXIT_NO_DEVICE;
    } else {
        if (fleet_open(values + CLUSTER, "worker", true, &cluster, &code))
            code = work(values, m, cluster, &interrupt);
        muster_cluster_close(cluster);
        runtime_close(m);
    }
    interrupt_end(&interrupt);
    return code;
}

const struct command command_worker = {
    .name = "worker",
    .summary = "let this machine's devices work for a cluster",
    .details =
        "All devices of the machine, or those of --devices, work on the jobs that others submit\n"
        "with `muster map --cluster URL`. A worker takes any number of jobs, waits for servers "
        "that\n"
        "are not there, and may come and go at any time: what it held is run by others.\n"
        "\n"
        "Kernels run in helper processes (docs/isolation.md): MUSTER_ISOLATE or --isolate names "
        "the\n"
        "backends, of which the default here is all. That is no sandbox: trusted submitters run\n"
        "code as this worker's user. With servers on other machines --trust must say who that is:\n"
        "  FILE     submitters' public keys, one in each line, read again for each job\n"
        "  U...     public keys, with commas between them\n"
        "  any      everybody whom the servers let submit, signed or not\n"
        "Jobs of others are refused, with a message here and at the submitter. Where all servers\n"
        "are on this machine the default is any.\n"
        "\n"
        "SIGTERM and SIGINT: it takes nothing more, stores what it holds, says so and ends. A "
        "second\n"
        "one ends it at once.\n"
        "\n"
        "Exit status: 0 done (--once), 1 failed, 2 wrong usage, 3 no eligible device. After a\n"
        "signal it ends by that signal.\n",
    .options = options,
    .option_count = OPTION_COUNT,
    .run = run,
};
