#include "exec_list.h"

#include "environment.h"
#include "joblog.h"
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/file.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS_MAX 1024u
/* With output in the order of the list: commands that have ended and wait for one before them. */
#define HELD_BACK_MAX 64u

/* One command that runs, or has ended and whose output waits for its turn. */
struct job {
    uint64_t number; /* in the list, from 1; 0: the place is free */
    const struct offer *offer;
    pid_t process; /* 0: it has ended */
    int out, err;  /* owns: files without a name, with what it wrote */
    char *command; /* owns: as the log has it */
    struct timespec began;
    double began_s;
};

struct list {
    const struct exec_list_options *options;
    struct output *out;
    struct offers offers;
    struct lease_folder folder;
    struct joblog log;
    FILE *from; /* owns, unless it is stdin */
    char *line; /* owns */
    size_t line_room;
    uint64_t number; /* of the last command that was read */
    struct job *jobs;
    size_t slot_count, job_count; /* that may run; places of `jobs` */
    size_t running;
    uint64_t run, failed;
    bool is_over;    /* nothing more is started */
    bool is_lost;    /* the log or the output could not be written */
    int signal;      /* that ends it; 0: none */
    sigset_t before; /* the caller's signals */
};

/* The commands. */

/* Text that grows. False: no memory. */
static bool append(char **text, size_t *length, const char *more, size_t bytes)
{
    char *larger = realloc(*text, *length + bytes + 1);
    if (!larger)
        return false;
    memcpy(larger + *length, more, bytes);
    larger[*length + bytes] = '\0';
    *text = larger;
    *length += bytes;
    return true;
}

/* In quotes, as a shell takes for one word whatever is in it. */
static bool append_quoted(char **text, size_t *length, const char *word)
{
    bool is_good = append(text, length, "'", 1);
    for (const char *at = word; *at && is_good; at++)
        is_good = *at == '\'' ? append(text, length, "'\\''", 4) : append(text, length, at, 1);
    return is_good && append(text, length, "'", 1);
}

/* A word of the command with {} and {#} filled in; NULL: no memory. */
static char *fill_in(const char *word, const char *line, uint64_t number, bool is_quoted)
{
    char *text = NULL, digits[24];
    size_t length = 0;
    bool is_good = append(&text, &length, "", 0);
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    while (*word && is_good) {
        if (strncmp(word, "{}", 2) == 0) {
            is_good = is_quoted ? append_quoted(&text, &length, line)
                                : append(&text, &length, line, strlen(line));
            word += 2;
        } else if (strncmp(word, "{#}", 3) == 0) {
            is_good = append(&text, &length, digits, strlen(digits));
            word += 3;
        } else {
            is_good = append(&text, &length, word++, 1);
        }
    }
    if (!is_good)
        free(text);
    return is_good ? text : NULL;
}

static void free_words(char **words)
{
    for (size_t i = 0; words && words[i]; i++)
        free(words[i]);
    free(words);
}

/*
 * What is run for a line: the line itself by a shell; a single word by a shell, with the line in quotes; or
 * the command's words, with the line after them if none has {}. NULL: no memory.
 */
static char **make_words(const struct exec_list_options *options, const char *line, uint64_t number)
{
    static const char *const shell[] = { "sh", "-c" };
    size_t given = 0, made = 0;
    bool has_place = false;
    for (; options->words && options->words[given]; given++)
        has_place |= strstr(options->words[given], "{}") != NULL;
    bool is_shell = !options->words || (given == 1 && strpbrk(options->words[0], " \t|&;<>()$`"));
    char **words = calloc(given + 5, sizeof *words);
    if (!words)
        return NULL;
    bool is_good = true;
    for (size_t i = 0; is_shell && i < 2 && is_good; i++)
        is_good = (words[made++] = strdup(shell[i])) != NULL;
    if (!options->words && is_good)
        is_good = (words[made++] = strdup(line)) != NULL;
    for (size_t i = 0; i < given && is_good; i++)
        is_good = (words[made++] = fill_in(options->words[i], line, number, is_shell)) != NULL;
    if (options->words && !has_place && is_good && is_shell) {
        size_t length = strlen(words[made - 1]);
        is_good = append(&words[made - 1], &length, " ", 1) &&
                  append_quoted(&words[made - 1], &length, line);
    } else if (options->words && !has_place && is_good) {
        is_good = (words[made++] = strdup(line)) != NULL;
    }
    if (is_good)
        return words;
    free_words(words);
    return NULL;
}

/* The command in a line, for the log and for people. */
static char *as_text(char *const *words)
{
    char *text = NULL;
    size_t length = 0;
    bool is_shell = words[0] && words[1] && strcmp(words[0], "sh") == 0 &&
                    strcmp(words[1], "-c") == 0 && words[2] && !words[3];
    for (size_t i = is_shell ? 2 : 0; words[i]; i++)
        if (!append(&text, &length, " ", length > 0 ? 1 : 0) ||
            !append(&text, &length, words[i], strlen(words[i]))) {
            free(text);
            return NULL;
        }
    return text;
}

/* The next line that is not empty, without its newline; false at the end. */
static bool read_line(struct list *list)
{
    ssize_t length;
    while ((length = getline(&list->line, &list->line_room, list->from)) > 0) {
        if (list->line[length - 1] == '\n')
            list->line[--length] = '\0';
        if (length > 0)
            return true;
    }
    if (ferror(list->from)) {
        message_error("%s cannot be read: %s", list->options->from, strerror(errno));
        list->is_lost = true;
    }
    return false;
}

/* Running. */

static int nameless_file(void)
{
    const char *folder = getenv("TMPDIR");
    folder = folder && *folder ? folder : "/tmp";
    int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) {
        char path[4096];
        snprintf(path, sizeof path, "%s/muster-exec-XXXXXX", folder);
        file = mkostemp(path, O_CLOEXEC);
        if (file >= 0)
            unlink(path);
    }
    if (file < 0)
        message_error("no file for a command's output can be made in %s: %s", folder,
                      strerror(errno));
    return file;
}

/* In the new process; does not return. */
static void become(const struct list *list, const struct job *job, char *const *words)
{
    char number[24];
    int nothing = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    /* A signal that waits already must end this process at once: main.c's handler is for the parent. */
    static const int deadly[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    struct sigaction action;
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        if (sigaction(deadly[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            signal(deadly[i], SIG_DFL);
    sigprocmask(SIG_SETMASK, &list->before, NULL);
    signal(SIGPIPE, sigpipe_before);
    snprintf(number, sizeof number, "%llu", (unsigned long long)job->number);
    bool is_set = dup2(nothing, STDIN_FILENO) == STDIN_FILENO &&
                  dup2(job->out, STDOUT_FILENO) == STDOUT_FILENO &&
                  dup2(job->err, STDERR_FILENO) == STDERR_FILENO &&
                  environment_set(&job->offer->info, offers_processors(&list->offers) > 1) &&
                  setenv(OFFER_LEASE_VARIABLE, job->offer->key, 1) == 0 &&
                  setenv("MUSTER_JOB", number, 1) == 0;
    if (is_set) {
        lease_hand_down(&list->folder, job->offer->lease);
        execvp(words[0], words);
    }
    int error = errno;
    message_error("%s cannot be run: %s", words[0],
                  error == ENOENT ? "there is no such program" : strerror(error));
    fflush(NULL);
    _exit(error == ENOENT ? EXIT_NOT_THERE : EXIT_NOT_RUNNABLE);
}

static void release_job(struct job *job)
{
    if (job->out >= 0)
        close(job->out);
    if (job->err >= 0)
        close(job->err);
    free(job->command);
    *job = (struct job){ .out = -1, .err = -1 };
}

/* A device with the fewest commands, of those that take another. */
static const struct offer *free_device(const struct list *list)
{
    const struct offer *best = NULL;
    uint64_t least = list->options->jobs;
    for (size_t i = 0; i < list->offers.count; i++) {
        const struct offer *offer = &list->offers.each[i];
        uint64_t has = 0;
        for (size_t k = 0; k < list->job_count; k++)
            has += list->jobs[k].process > 0 && list->jobs[k].offer == offer;
        if (offer->lease >= 0 && has < least) {
            least = has;
            best = offer;
        }
    }
    return best;
}

static struct job *free_place(const struct list *list)
{
    for (size_t i = 0; i < list->job_count; i++)
        if (list->jobs[i].number == 0)
            return &list->jobs[i];
    return NULL;
}

/* Starts the command; takes its text. False: it could not be started, which was reported. */
static bool start(struct list *list, struct job *job, char **words, char *text)
{
    struct timespec now;
    job->number = list->number;
    job->command = text;
    job->offer = free_device(list);
    job->out = nameless_file();
    job->err = job->out >= 0 ? nameless_file() : -1;
    clock_gettime(CLOCK_MONOTONIC, &job->began);
    clock_gettime(CLOCK_REALTIME, &now);
    job->began_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    fflush(NULL);
    job->process = job->err >= 0 ? fork() : -1;
    if (job->process == 0)
        become(list, job, words);
    if (job->process < 0) {
        if (job->err >= 0)
            message_error("no process can be started: %s", strerror(errno));
        job->process = 0;
        release_job(job);
        return false;
    }
    /* Also here: whichever process is first, the group is there before a signal is passed on. */
    setpgid(job->process, job->process);
    list->running++;
    list->run++;
    return true;
}

/* What the log says of a command. */
static bool is_left_out(struct list *list, const char *text)
{
    enum joblog_result past =
        list->options->is_resumed ? joblog_find(&list->log, list->number, text) : JOBLOG_NEW;
    if (past == JOBLOG_OTHER) {
        message_error("command %llu of the log differs from %s; give the list that the log belongs "
                      "to, or another log",
                      (unsigned long long)list->number, list->options->from);
        list->is_over = list->is_lost = true;
        return true;
    }
    return past == JOBLOG_GOOD || (past == JOBLOG_FAILED && !list->options->is_failed_only);
}

/* Takes the next line and starts what it says, or leaves it out. */
static void take_line(struct list *list, struct job *place)
{
    if (!read_line(list)) {
        list->is_over = true;
        return;
    }
    list->number++;
    char **words = make_words(list->options, list->line, list->number);
    char *text = words ? as_text(words) : NULL;
    if (!text) {
        message_error("no memory for a command");
        list->is_over = list->is_lost = true;
    } else if (is_left_out(list, text)) {
        free(text);
    } else if (list->options->is_dry) {
        output_text(list->out, text);
        output_text(list->out, "\n");
        free(text);
    } else if (!start(list, place, words, text)) {
        list->is_over = list->is_lost = true;
    }
    free_words(words);
}

/* Ending. */

static bool copy_to(int from, int to)
{
    char bytes[65536];
    ssize_t got;
    if (lseek(from, 0, SEEK_SET) != 0)
        return false;
    while ((got = read(from, bytes, sizeof bytes)) != 0) {
        if (got < 0 && errno != EINTR)
            return false;
        for (ssize_t done = 0; done < got;) {
            ssize_t written = write(to, bytes + done, (size_t)(got - done));
            if (written < 0 && errno != EINTR)
                return false;
            done += written > 0 ? written : 0;
        }
    }
    return true;
}

static void print_output(struct list *list, struct job *job)
{
    bool is_written = copy_to(job->out, STDOUT_FILENO);
    int error = errno;
    copy_to(job->err, STDERR_FILENO);
    if (!is_written && !list->is_lost) {
        if (error != EPIPE)
            message_error("the output could not be written completely: %s", strerror(error));
        list->is_over = list->is_lost = true;
    }
    release_job(job);
}

/* All that has ended and whose turn it is. */
static void print_outputs(struct list *list)
{
    for (bool is_found = true; is_found;) {
        uint64_t first = UINT64_MAX;
        struct job *next = NULL;
        is_found = false;
        for (size_t i = 0; i < list->job_count; i++) {
            struct job *job = &list->jobs[i];
            if (job->number > 0 && job->number < first) {
                first = job->number;
                next = job;
            }
        }
        /* Numbers are given in order: the least that is there is the one whose turn it is. */
        if (next && next->process == 0) {
            print_output(list, next);
            is_found = true;
        }
    }
}

static void end_job(struct list *list, struct job *job, int status)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    bool is_good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    off_t bytes = lseek(job->out, 0, SEEK_END);
    const struct joblog_line line = {
        .number = job->number,
        .device = job->offer->info.id,
        .began_s = job->began_s,
        .took_s = (double)(now.tv_sec - job->began.tv_sec) +
                  (double)(now.tv_nsec - job->began.tv_nsec) / 1e9,
        .output_bytes = bytes > 0 ? (uint64_t)bytes : 0,
        .exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
        .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
        .command = job->command,
    };
    job->process = 0;
    list->running--;
    /* What did not end by itself is run again when the list is resumed. */
    if (list->signal && !is_good) {
        release_job(job);
        return;
    }
    list->failed += !is_good;
    if (!joblog_write(&list->log, &line))
        list->is_over = list->is_lost = true;
    if (!is_good && list->options->is_halted)
        list->is_over = true;
    if (!list->options->is_ordered)
        print_output(list, job);
    else
        print_outputs(list);
}

static void reap(struct list *list)
{
    int status;
    pid_t process;
    while ((process = waitpid(-1, &status, WNOHANG)) > 0)
        for (size_t i = 0; i < list->job_count; i++)
            if (list->jobs[i].process == process)
                end_job(list, &list->jobs[i], status);
}

/* The first signal goes to all commands; the second ends them. */
static void pass_on(struct list *list, int number)
{
    int sent = list->signal ? SIGKILL : number;
    list->is_over = true;
    if (!list->signal)
        list->signal = number;
    for (size_t i = 0; i < list->job_count; i++)
        if (list->jobs[i].process > 0)
            kill(-list->jobs[i].process, sent);
}

static void run_all(struct list *list, const sigset_t *awaited)
{
    for (;;) {
        struct job *place;
        while (!list->is_over && list->running < list->slot_count && (place = free_place(list)))
            take_line(list, place);
        if (list->running == 0)
            break;
        int number = sigwaitinfo(awaited, NULL);
        if (number > 0 && number != SIGCHLD)
            pass_on(list, number);
        reap(list);
    }
    print_outputs(list);
}

/* The whole. */

static enum exit_code lease(struct list *list)
{
    enum exit_code code =
        offers_lease_all(&list->offers, list->options->hints, list->options->wait, &list->folder);
    if (code != EXIT_DONE)
        return code;
    offers_tell_spoiled(&list->offers);
    for (size_t i = 0; i < list->offers.count; i++)
        list->slot_count += list->offers.each[i].lease >= 0 ? list->options->jobs : 0;
    list->job_count = list->slot_count + (list->options->is_ordered ? HELD_BACK_MAX : 0);
    list->jobs = calloc(list->job_count, sizeof *list->jobs);
    for (size_t i = 0; list->jobs && i < list->job_count; i++)
        list->jobs[i].out = list->jobs[i].err = -1;
    if (!list->jobs)
        message_error("no memory for the commands that run");
    return list->jobs ? EXIT_DONE : EXIT_FAILED;
}

static bool open_list(struct list *list)
{
    bool is_standard = strcmp(list->options->from, "-") == 0;
    list->from = is_standard ? stdin : fopen(list->options->from, "re");
    if (!list->from)
        message_error("%s cannot be read: %s", list->options->from, strerror(errno));
    return list->from != NULL;
}

static enum exit_code judge(const struct list *list)
{
    if (list->signal)
        message_error("ended by %s; commands that did not end well are not in the log",
                      strsignal(list->signal));
    else if (list->failed > 0)
        message_error("%llu of %llu commands failed", (unsigned long long)list->failed,
                      (unsigned long long)list->run);
    return list->failed > 0 || list->is_lost || list->signal ? EXIT_FAILED : EXIT_DONE;
}

static void run_dry(struct list *list)
{
    while (!list->is_over && !output_failed(list->out))
        take_line(list, NULL);
}

enum exit_code exec_list_run(const struct exec_list_options *options, struct output *out)
{
    static const int deadly[] = { SIGINT, SIGTERM, SIGHUP };
    struct list list = { .options = options,
                         .out = out,
                         .offers = { .lease = -1, .command = "muster exec --from" },
                         .folder = { .descriptor = -1 },
                         .log = { .file = -1 } };
    enum exit_code code = EXIT_USAGE;
    sigset_t awaited;
    /* What is only printed leaves the log alone. */
    const char *log = options->is_dry && !options->is_resumed ? NULL : options->log;
    if (options->jobs > JOBS_MAX) {
        message_usage("exec", "--jobs is at most %u", JOBS_MAX);
        return code;
    }
    /* Before any thread is made, so that none of them takes a signal. */
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        sigaddset(&awaited, deadly[i]);
    sigprocmask(SIG_BLOCK, &awaited, &list.before);
    if (open_list(&list) && joblog_open(&list.log, log, options->is_resumed)) {
        code = options->is_dry                         ? EXIT_DONE
               : lease_folder_open(&list.folder, true) ? lease(&list)
                                                       : EXIT_FAILED;
        if (code == EXIT_DONE && options->is_dry)
            run_dry(&list);
        else if (code == EXIT_DONE)
            run_all(&list, &awaited);
        if (code == EXIT_DONE)
            code = judge(&list);
    }
    for (size_t i = 0; i < list.job_count; i++)
        release_job(&list.jobs[i]);
    free(list.jobs);
    free(list.line);
    if (list.from && list.from != stdin)
        fclose(list.from);
    joblog_close(&list.log);
    offers_deinit(&list.offers);
    lease_folder_close(&list.folder);
    sigprocmask(SIG_SETMASK, &list.before, NULL);
    /* The handler of main.c cleans up and dies of it. */
    if (list.signal)
        raise(list.signal);
    return code;
}
