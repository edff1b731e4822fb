/*
 * The muster command: finds the subcommand, reads its options, runs it, and sees to it that all
 * output arrived.
 */
#include "command.h"
#include "message.h"
#include "runtime.h"
#include "scan.h"
#include "suggest.h"

#include <fcntl.h>
#include <muster/muster.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const struct command *const commands[] = { &command_devices, &command_pick,      &command_explain,
                                           &command_exec,    &command_partition, &command_sim,
                                           &command_kernel,  &command_map,       &command_reduce,
                                           &command_scan,    &command_worker,    &command_jobs,
                                           &command_cluster, &command_bench,     &command_top,
                                           &command_serve,   &command_version,   &command_help };
const size_t command_count = sizeof commands / sizeof *commands;

void (*sigpipe_before)(int) = SIG_DFL;

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

/* The value of --isolate at argv[at], and how many words it takes; 0: it is not that option. */
static int isolate_at(int argc, char **argv, int at, const char **value)
{
    static const char name[] = "--isolate";
    size_t length = sizeof name - 1;
    if (strncmp(argv[at], name, length) != 0 || (argv[at][length] && argv[at][length] != '='))
        return 0;
    bool is_apart = !argv[at][length];
    *value = !is_apart ? argv[at] + length + 1 : at + 1 < argc ? argv[at + 1] : "";
    return is_apart && at + 1 < argc ? 2 : 1;
}

static bool is_untrusted_given;

/* Whether what the command does with kernels can be closed in; if not, says so. */
static bool is_untrusted_possible(const char *name, const char *part)
{
    const char *why = NULL;
    /* With the variable alone a program that uses Muster takes it from there. */
    if (strcmp(name, "exec") == 0 && is_untrusted_given)
        why = "exec runs programs with your rights, which --untrusted does not take from them";
    else if (strcmp(name, "reduce") == 0)
        why =
            "the partial results of a reduction are joined by its own code in the command itself, "
            "which is no sandbox";
    else if (strcmp(name, "kernel") == 0 && part && strcmp(part, "check") == 0)
        why = "kernel check looks at each access of a kernel in a process that is no sandbox";
    if (why)
        message_usage(NULL, "%s", why);
    return !why;
}

/*
 * Takes --isolate and --untrusted out of the words: they are for every command, and stand before the command or among
 * its options. Words of exec and scan may be anything, so there only the place before the command counts.
 */
static bool take_isolate(int *argc, char **argv)
{
    bool is_free = false;
    for (int at = 1; at < *argc && strcmp(argv[at], "--") != 0;) {
        const char *value = "";
        bool is_untrusted = strcmp(argv[at], "--untrusted") == 0;
        is_untrusted_given = is_untrusted_given || is_untrusted;
        int words = is_untrusted ? 1 : isolate_at(*argc, argv, at, &value);
        if (words == 0 && !is_free &&
            (strcmp(argv[at], "exec") == 0 || strcmp(argv[at], "scan") == 0))
            return true;
        is_free = is_free || words == 0;
        if (words == 0) {
            at++;
            continue;
        }
        if (is_untrusted ? setenv("MUSTER_UNTRUSTED", "1", 1) != 0
                         : !*value || setenv("MUSTER_ISOLATE", value, 1) != 0) {
            message_usage(NULL, "--isolate wants backends: cpu, cuda, opencl, sim, or all");
            return false;
        }
        memmove(argv + at, argv + at + words, (size_t)(*argc - at - words + 1) * sizeof *argv);
        *argc -= words;
    }
    return true;
}

const struct command *command_part(const struct command *command, const char *name)
{
    for (size_t i = 0; i < command->part_count; i++)
        if (strcmp(strchr(command->parts[i]->name, ' ') + 1, name) == 0)
            return command->parts[i];
    return NULL;
}

enum exit_code command_run(const struct command *command, char *const *words, size_t count,
                           struct output *out)
{
    struct option_value values[OPTIONS_MAX];
    const char *argument;
    switch (option_parse(command, words, count, values, &argument)) {
    case OPTION_HELP:
        help_print(command, out);
        return EXIT_DONE;
    case OPTION_WRONG:
        return EXIT_USAGE;
    case OPTION_RUN:
        break;
    }
    return command->run(values, argument, out);
}

void command_tell_unknown(const char *name)
{
    struct suggestion suggestion = { .name = NULL };
    for (size_t i = 0; i < command_count; i++)
        suggest_offer(&suggestion, name, strlen(name), commands[i]->name);
    if (suggestion.name)
        message_usage(NULL, "there is no subcommand '%s'; did you mean %s?", name, suggestion.name);
    else
        message_usage(NULL, "there is no %s '%s'", name[0] == '-' ? "option" : "subcommand", name);
}

static enum exit_code run(int argc, char **argv, struct output *out)
{
    if (!take_isolate(&argc, argv))
        return EXIT_USAGE;
    if (argc < 2) {
        message_usage(NULL, "a subcommand is missing");
        return EXIT_USAGE;
    }
    const char *name = argv[1], *untrusted = getenv("MUSTER_UNTRUSTED");
    if (untrusted && strcmp(untrusted, "1") == 0 &&
        !is_untrusted_possible(name, argc > 2 ? argv[2] : NULL))
        return EXIT_USAGE;
    for (int i = 2; i < argc && !command_find(name); i++)
        if (strcmp(argv[i], "--json") == 0)
            message_want_json(false);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        help_print_all(out);
        return EXIT_DONE;
    }
    if (strcmp(name, "__complete") == 0)
        return complete_words(argv + 2, (size_t)argc - 2, out);
    const struct command *command =
        strcmp(name, "--version") == 0 ? &command_version : command_find(name);
    if (!command) {
        command_tell_unknown(name);
        return EXIT_USAGE;
    }
    if (command->dispatch)
        return command->dispatch(argv + 2, (size_t)argc - 2, out);
    return command_run(command, argv + 2, (size_t)argc - 2, out);
}

/*
 * A caller may have closed descriptors 0 to 2. Whatever file is opened next would get such a number
 * and then receive our output, so each is filled with one that refuses: reading from 0 fails, and
 * so does writing to 1 and 2.
 */
static void fill_standard_descriptors(void)
{
    for (int descriptor = 0; descriptor <= 2; descriptor++)
        if (fcntl(descriptor, F_GETFD) < 0)
            (void)!open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY);
}

/* Dies of the signal as if it had not been caught, and leaves nothing behind. */
static void die(int number)
{
    muster_process_cleanup();
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_deadly_signals(void)
{
    static const int deadly[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction action = { .sa_handler = die }, before;
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        if (sigaction(deadly[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(deadly[i], &action, NULL);
}

/* What drivers and compilers take for granted. A limit on the stack (ulimit -s) may be far below. */
#define STACK_BYTES ((size_t)8 << 20)
#define STACK_BYTES_MIN ((size_t)1 << 20)

struct invocation {
    int argc;
    char **argv;
    sigset_t signals; /* blocked before */
    enum exit_code code;
};

static void run_to_the_end(struct invocation *invocation)
{
    static struct output out;
    output_init(&out, STDOUT_FILENO);
    invocation->code = run(invocation->argc, invocation->argv, &out);
    message_tell_failure((int)invocation->code, &out);
    if (!output_finish(&out))
        invocation->code = EXIT_FAILED;
}

static bool has_little_stack(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < STACK_BYTES_MIN;
}

static void *run_apart(void *argument)
{
    struct invocation *invocation = argument;
    pthread_sigmask(SIG_SETMASK, &invocation->signals, NULL);
    run_to_the_end(invocation);
    return NULL;
}

/*
 * Runs on a thread with enough stack, and gives as much to all threads that follow. Signals are for
 * that thread, as if it were the only one. False if there can be none.
 */
static bool run_on_more_stack(struct invocation *invocation)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &invocation->signals);
    bool has_thread = pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
                      pthread_setattr_default_np(&attributes) == 0 &&
                      pthread_create(&thread, NULL, run_apart, invocation) == 0;
    pthread_attr_destroy(&attributes);
    if (has_thread)
        pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, &invocation->signals, NULL);
    return has_thread;
}

int main(int argc, char **argv)
{
    struct invocation invocation = { .argc = argc, .argv = argv };
    /* The command is its own helper. */
    scan_share();
    int served = muster_helper_main(argc, argv);
    if (served >= 0)
        return served;
    catch_deadly_signals();
    fill_standard_descriptors();
    /*
     * A closed pipe is then an error of write, which ends the command with a status instead of a
     * signal.
     */
    sigpipe_before = signal(SIGPIPE, SIG_IGN);
    if (!has_little_stack() || !run_on_more_stack(&invocation))
        run_to_the_end(&invocation);
    if (runtime_is_left()) {
        fflush(NULL);
        _exit((int)invocation.code);
    }
    return (int)invocation.code;
}
