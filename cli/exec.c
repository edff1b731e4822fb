/*
 * `muster exec`: runs a command on a device that no other `muster exec` has.
 *
 * The command is run in the place of this process, holding the lease: its signals, its exit status
 * and its job control are its own, and nothing stands between it and the process that started it.
 */
#include "environment.h"
#include "exec_list.h"
#include "json.h"
#include "message.h"
#include "table.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The hints are those of pick and have their numbers. */
enum {
    WAIT = PLACEMENT_DEVICES + 1,
    FROM,
    JOBLOG,
    RESUME,
    RESUME_FAILED,
    JOBS,
    KEEP_ORDER,
    HALT,
    DRY_RUN,
    LIST,
    JSON
};
_Static_assert(PLACEMENT_POLICY == 0 && PLACEMENT_MIN_FREE == 1 && PLACEMENT_MIN_CC == 2 &&
                   PLACEMENT_BACKEND == 3 && PLACEMENT_DEVICES == 4,
               "the hints come first");

static const struct option options[] = {
    PLACEMENT_HINT_ROWS("how to pick among the free devices (weighted)"),
    [WAIT] = { .name = "wait",
               .kind = OPTION_MAYBE_NUMBER,
               .value = "[SECONDS]",
               .help = "wait for a free device, at most SECONDS" },
    [FROM] = { .name = "from",
               .kind = OPTION_TEXT,
               .value = "FILE",
               .help = "run COMMAND for each line, or the lines themselves; - is standard input" },
    [JOBLOG] = { .name = "joblog",
                 .kind = OPTION_TEXT,
                 .value = "FILE",
                 .help = "append to FILE how each command ended" },
    [RESUME] = { .name = "resume",
                 .kind = OPTION_FLAG,
                 .help = "skip the commands that are in the log" },
    [RESUME_FAILED] = { .name = "resume-failed",
                        .kind = OPTION_FLAG,
                        .help = "the same, but run failed commands again" },
    [JOBS] = { .name = "jobs",
               .letter = 'j',
               .kind = OPTION_NUMBER,
               .value = "N",
               .help = "commands at a time on each device (1)" },
    [KEEP_ORDER] = { .name = "keep-order",
                     .letter = 'k',
                     .kind = OPTION_FLAG,
                     .help = "print output in the order of the lines" },
    [HALT] = { .name = "halt",
               .kind = OPTION_FLAG,
               .help = "start no command after one has failed" },
    [DRY_RUN] = { .name = "dry-run",
                  .kind = OPTION_FLAG,
                  .help = "print the commands without running them" },
    [LIST] = { .name = "list",
               .kind = OPTION_FLAG,
               .help = "show which process leases which device" },
    [JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print the list as JSON" },
};

static char *const *command_words;

/* Running the command. */

/* Returns only if it cannot be run. */
static enum exit_code run_command(void)
{
    signal(SIGPIPE, sigpipe_before);
    execvp(command_words[0], command_words);
    int error = errno;
    signal(SIGPIPE, SIG_IGN);
    message_error("%s cannot be run: %s", command_words[0],
                  error == ENOENT ? "there is no such program" : strerror(error));
    return error == ENOENT ? EXIT_NOT_THERE : EXIT_NOT_RUNNABLE;
}

/* For people who ask who has the device. */
static void describe_command(char *text, size_t bytes)
{
    size_t length = 0;
    text[0] = '\0';
    for (char *const *word = command_words; *word && length + 1 < bytes; word++)
        length += (size_t)snprintf(text + length, bytes - length, "%s%s",
                                   word == command_words ? "" : " ", *word);
}

static enum exit_code run_leased(const struct option_value *values)
{
    char command[LEASE_COMMAND_BYTES];
    struct lease_folder folder;
    struct offers offers = { .lease = -1, .command = command };
    describe_command(command, sizeof command);
    if (!lease_folder_open(&folder, true))
        return EXIT_FAILED;
    enum exit_code code = offers_lease_one(&offers, values, &values[WAIT], &folder);
    if (code == EXIT_DONE) {
        const struct offer *offer = &offers.each[offers.chosen];
        offers_tell_spoiled(&offers);
        lease_hand_down(&folder, offers.lease);
        if (environment_set(&offer->info, offers_processors(&offers) > 1) &&
            setenv(OFFER_LEASE_VARIABLE, offer->key, 1) == 0) {
            code = run_command();
        } else {
            message_error("no memory for the command's environment");
            code = EXIT_FAILED;
        }
    }
    offers_deinit(&offers);
    lease_folder_close(&folder);
    return code;
}

static enum exit_code run_list(const struct option_value *values, struct output *out)
{
    const struct exec_list_options asked = {
        .from = values[FROM].text,
        .log = values[JOBLOG].text,
        .words = command_words,
        .jobs = values[JOBS].given ? values[JOBS].number : 1,
        .is_resumed = values[RESUME].given || values[RESUME_FAILED].given,
        .is_failed_only = values[RESUME_FAILED].given,
        .is_ordered = values[KEEP_ORDER].given,
        .is_halted = values[HALT].given,
        .is_dry = values[DRY_RUN].given,
        .hints = values,
        .wait = &values[WAIT],
    };
    if (asked.is_resumed && !asked.log) {
        message_usage("exec", "--resume needs --joblog FILE");
        return EXIT_USAGE;
    }
    if (asked.jobs == 0) {
        message_usage("exec", "--jobs cannot be 0");
        return EXIT_USAGE;
    }
    return exec_list_run(&asked, out);
}

/* The list. */

enum { DEVICE, KEY, PID, USER, SINCE, COMMAND, COLUMN_COUNT };

static void lease_row(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES])
{
    const struct lease_holder *holder = (const struct lease_holder *)rows + index;
    snprintf(cells[DEVICE], TABLE_CELL_BYTES, "%s", *holder->device ? holder->device : "-");
    snprintf(cells[KEY], TABLE_CELL_BYTES, "%s", holder->key);
    snprintf(cells[PID], TABLE_CELL_BYTES, "%llu", (unsigned long long)holder->pid);
    lease_user(holder, cells[USER], TABLE_CELL_BYTES);
    lease_time(holder, cells[SINCE]);
    snprintf(cells[COMMAND], TABLE_CELL_BYTES, "%.*s", TABLE_CELL_BYTES - 1, holder->command);
}

static void print_json(const struct lease_folder *folder, const struct lease_holder *holders,
                       size_t count, struct output *out)
{
    struct json json;
    json_init(&json, out);
    json_begin_object(&json, NULL);
    json_text(&json, "folder", folder->path);
    json_begin_array(&json, "leases");
    for (size_t i = 0; i < count; i++) {
        json_begin_object(&json, NULL);
        json_text(&json, "device", holders[i].device);
        json_text(&json, "key", holders[i].key);
        json_number(&json, "pid", holders[i].pid);
        json_number(&json, "uid", holders[i].uid);
        json_number(&json, "since", holders[i].since);
        json_text(&json, "command", holders[i].command);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    output_text(out, "\n");
}

static enum exit_code list(bool is_json, struct output *out)
{
    static const struct table_column columns[COLUMN_COUNT] = {
        [DEVICE] = { "DEVICE", false, false },
        [KEY] = { "LEASED AS", false, false },
        [PID] = { "PID", true, false },
        [USER] = { "USER", false, false },
        [SINCE] = { "SINCE (UTC)", false, false },
        [COMMAND] = { "COMMAND", false, false },
    };
    struct lease_folder folder;
    size_t count;
    if (!lease_folder_open(&folder, false))
        return EXIT_FAILED;
    struct lease_holder *holders = lease_list(&folder, &count);
    if (is_json)
        print_json(&folder, holders, count, out);
    else if (count > 0)
        table_print(columns, COLUMN_COUNT, lease_row, holders, count, out);
    else
        output_text(out, "nothing is leased\n");
    free(holders);
    lease_folder_close(&folder);
    return EXIT_DONE;
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    if (values[LIST].given && argument) {
        message_usage("exec", "--list takes no command, but '%s' is given", argument);
        return EXIT_USAGE;
    }
    if (values[LIST].given)
        return list(values[JSON].given, out);
    if (values[JSON].given) {
        message_usage("exec", "--json needs --list: without it the command prints its own output");
        return EXIT_USAGE;
    }
    if (values[FROM].given)
        return run_list(values, out);
    for (size_t i = JOBLOG; i <= DRY_RUN; i++)
        if (values[i].given) {
            message_usage("exec", "--%s goes with --from", options[i].name);
            return EXIT_USAGE;
        }
    if (!argument || !*argument) {
        message_usage("exec", "exec needs a command to run");
        return EXIT_USAGE;
    }
    return run_leased(values);
}

const struct command command_exec = {
    .name = "exec",
    .summary = "lease a device and run a command on it",
    .argument = "-- COMMAND...",
    .rest = &command_words,
    .details =
        "The hints refuse devices, and the policy picks one of those that are not leased. The "
        "command\n"
        "then runs in place of this process, with a lease on the device. The lease ends when the\n"
        "command and all processes that it started have ended. It keeps away other runs of\n"
        "muster exec, of all users, and no other programs.\n"
        "The command finds CUDA_VISIBLE_DEVICES and MUSTER_DEVICES set: CUDA programs and "
        "programs\n"
        "that use Muster see that device alone. MUSTER_LEASE holds the name of the lease.\n"
        "\n"
        "With --from, all free devices that the hints allow are leased, and each runs one command\n"
        "after the other. In COMMAND, {} stands for a line of the file and {#} for its number; "
        "without\n"
        "{} the line is added at the end. sh runs a COMMAND of one word with blanks, and lines "
        "without\n"
        "a COMMAND. A command's output is printed when it has ended. The log has the columns of "
        "GNU\n"
        "parallel's, with the device as Host. Ctrl-C ends the running commands; --resume "
        "continues.\n"
        "Exit status with --from: 0 if all commands ended with 0, else 1.\n"
        "\n"
        "Policies: " PLACEMENT_POLICIES ".\n"
        "\n"
        "Exit status: that of the command; 3 if no device is available (standard error names the\n"
        "processes that lease them); 126 if the command cannot be run; 127 if it does not exist;\n"
        "1 and 2 as for every subcommand.\n"
        "\n"
        "JSON, with --list: "
        "{\"folder\":F,\"leases\":[{\"device\",\"key\",\"pid\",\"uid\",\"since\",\n"
        "\"command\"},...]}; since is in seconds since 1970.\n"
        "\n"
        "Environment: MUSTER_LEASES names the folder of the leases. All users who share the "
        "devices\n"
        "need the same one (/run/muster if it exists, else /tmp/muster-leases).\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
