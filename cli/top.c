/*
 * `muster top`: all runtimes of this user's processes, their devices and jobs, drawn again and again in
 * place.
 */
#include "command.h"
#include "live_json.h"
#include "message.h"
#include "terminal.h"
#include "top_frame.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { ONCE, SORT, INTERVAL, JSON };

#define INTERVAL_MS_DEFAULT 1000u
#define INTERVAL_MS_MIN 50u
#define INTERVAL_MS_MAX 3600000u
/* Rates of a single frame are taken over so long. */
#define ONCE_MS 200

static const struct option options[] = {
    [ONCE] = { .name = "once", .kind = OPTION_FLAG, .help = "print one frame and end" },
    [SORT] = { .name = "sort",
               .kind = OPTION_TEXT,
               .value = "KEY",
               .help = "id, busy, rate, retries or memory, largest first (id)" },
    [INTERVAL] = { .name = "interval",
                   .kind = OPTION_NUMBER,
                   .value = "MS",
                   .help = "milliseconds between two frames, 50 to 3600000 (1000)" },
    [JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print one JSON object per frame" },
};

static volatile sig_atomic_t caught;

static void note_signal(int number)
{
    caught = number;
}

/* The keyboard without lines and echo, as long as top runs. */
struct keyboard {
    bool is_ours;
    struct termios before;
};

static void keyboard_begin(struct keyboard *keyboard)
{
    struct termios raw;
    keyboard->is_ours = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp() &&
                        tcgetattr(STDIN_FILENO, &keyboard->before) == 0;
    if (!keyboard->is_ours)
        return;
    raw = keyboard->before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    keyboard->is_ours = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void keyboard_end(const struct keyboard *keyboard)
{
    if (keyboard->is_ours)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &keyboard->before);
}

/* Waits, or reads a key; 0: there was none. */
static char wait_for_key(const struct keyboard *keyboard, int ms)
{
    struct pollfd ready = { .fd = keyboard->is_ours ? STDIN_FILENO : -1, .events = POLLIN };
    char key = 0;
    if (poll(&ready, 1, ms) > 0 && (ready.revents & POLLIN) && read(STDIN_FILENO, &key, 1) != 1)
        key = 'q'; /* the terminal is gone */
    return key;
}

static bool look(struct muster_live **out)
{
    struct muster_error problem = { .size = sizeof problem };
    if (muster_live_look(out, &problem) == MUSTER_OK)
        return true;
    message_library(NULL, &problem);
    return false;
}

static enum exit_code print_json(bool is_once, int ms, struct output *out)
{
    const struct keyboard none = { .is_ours = false };
    do {
        struct muster_live *live;
        if (!look(&live))
            return EXIT_FAILED;
        live_json(live, out);
        muster_live_destroy(live);
        output_flush(out);
        if (!is_once && !output_failed(out))
            wait_for_key(&none, ms);
    } while (!is_once && !output_failed(out) && !caught);
    return EXIT_DONE;
}

static enum exit_code print_once(enum top_sort sort, struct output *out)
{
    static struct progress_frame frame;
    struct muster_live *before, *now;
    const struct timespec pause = { 0, ONCE_MS * 1000000L };
    if (!look(&before))
        return EXIT_FAILED;
    nanosleep(&pause, NULL);
    if (!look(&now)) {
        muster_live_destroy(before);
        return EXIT_FAILED;
    }
    /* For a file or a pipe: as wide and long as frames can be. */
    const struct progress_style style = { .columns = PROGRESS_COLUMNS_MAX + 1,
                                          .rows = PROGRESS_LINES_MAX + 1 };
    const struct top top = { .now = now, .before = before, .sort = sort };
    top_format(&top, &style, &frame);
    for (size_t i = 0; i < frame.line_count; i++) {
        size_t bytes = frame.lines[i].bytes;
        while (bytes > 0 && frame.lines[i].text[bytes - 1] == ' ')
            bytes--;
        output_bytes(out, frame.lines[i].text, bytes);
        output_text(out, "\n");
    }
    muster_live_destroy(now);
    muster_live_destroy(before);
    return EXIT_DONE;
}

static void draw_until_told(enum top_sort sort, int ms, struct terminal *terminal,
                            const struct keyboard *keyboard, bool *has_failed)
{
    static struct progress_frame frame;
    struct muster_live *before = NULL, *now;
    char key = 0;
    while (!caught && key != 'q' && key != 'Q') {
        *has_failed = !look(&now);
        if (*has_failed)
            break;
        const struct top top = {
            .now = now, .before = before, .sort = sort, .has_keys = keyboard->is_ours
        };
        struct progress_style style = terminal_style(terminal);
        top_format(&top, &style, &frame);
        if (terminal_is_ours(terminal))
            terminal_draw(terminal, &frame);
        key = wait_for_key(keyboard, before ? ms : ms < ONCE_MS ? ms : ONCE_MS);
        /* Another order is shown at once, of the same two looks. */
        if (key == 's' || key == 'S') {
            sort = (enum top_sort)((sort + 1) % TOP_SORTS);
            muster_live_destroy(now);
            continue;
        }
        muster_live_destroy(before);
        before = now;
    }
    muster_live_destroy(before);
}

static enum exit_code draw(enum top_sort sort, int ms)
{
    static struct terminal terminal;
    struct keyboard keyboard;
    bool has_failed = false;
    if (!terminal_open(&terminal, STDOUT_FILENO)) {
        message_error("standard output is no terminal");
        message_detail("fix: add --once or --json");
        return EXIT_USAGE;
    }
    /* The mode of the terminal is put right before the signal does what it does. */
    static const int deadly[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction action = { .sa_handler = note_signal }, before[4];
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        if (sigaction(deadly[i], NULL, &before[i]) == 0 && before[i].sa_handler != SIG_IGN)
            sigaction(deadly[i], &action, NULL);
    keyboard_begin(&keyboard);
    draw_until_told(sort, ms, &terminal, &keyboard, &has_failed);
    keyboard_end(&keyboard);
    terminal_leave(&terminal);
    terminal_close(&terminal);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        sigaction(deadly[i], &before[i], NULL);
    if (caught)
        raise(caught);
    return has_failed ? EXIT_FAILED : EXIT_DONE;
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    (void)argument;
    size_t sort = 0;
    while (values[SORT].given && sort < TOP_SORTS &&
           strcmp(values[SORT].text, top_sort_names[sort]) != 0)
        sort++;
    if (sort == TOP_SORTS) {
        message_usage("top", "unknown key '%s'; known: id, busy, rate, retries, memory",
                      values[SORT].text);
        return EXIT_USAGE;
    }
    uint64_t ms = values[INTERVAL].given ? values[INTERVAL].number : INTERVAL_MS_DEFAULT;
    if (ms < INTERVAL_MS_MIN || ms > INTERVAL_MS_MAX) {
        message_usage("top", "--interval is %llu; from %u to %u milliseconds",
                      (unsigned long long)ms, INTERVAL_MS_MIN, INTERVAL_MS_MAX);
        return EXIT_USAGE;
    }
    if (values[JSON].given)
        return print_json(values[ONCE].given, (int)ms, out);
    if (values[ONCE].given)
        return print_once((enum top_sort)sort, out);
    return draw((enum top_sort)sort, (int)ms);
}

const struct command command_top = {
    .name = "top",
    .summary = "show the running jobs of all this user's processes, live",
    .details =
        "Shows all open runtimes of this user's processes (docs/live.md): devices with their "
        "health,\n"
        "load, queues and memory; jobs with their progress, their lanes and where their time "
        "goes.\n"
        "BUSY is the share of the time since the last frame in which the device had work. A "
        "finished\n"
        "job stays for 5 seconds.\n"
        "\n"
        "Keys: s changes the order, q ends. Pages of processes that have ended are removed.\n"
        "A process with MUSTER_LIVE=0 in its environment is not shown.\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
