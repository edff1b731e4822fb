#include "joblog.h"

#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What stands first; --resume takes logs of GNU parallel too. */
#define HEADER "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"
#define COLUMNS_BEFORE_COMMAND 8
/* More commands than a list can sensibly have; a number beyond is a damaged line. */
#define NUMBER_MAX ((uint64_t)1 << 28)

struct joblog_past {
    bool is_known, is_good;
    uint64_t hash; /* of the command */
};

/* A command as it stands in the log. */
static char plain(char letter)
{
    return letter == '\n' || letter == '\t' || letter == '\r' ? ' ' : letter;
}

static uint64_t hash_of(const char *command, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)plain(command[i])) * 0x100000001b3u;
    return hash;
}

static bool note(struct joblog *log, uint64_t number, bool is_good, uint64_t hash)
{
    if (number >= log->past_count) {
        size_t count =
            (size_t)number + 1 > log->past_count * 2 ? (size_t)number + 1 : log->past_count * 2;
        struct joblog_past *larger = realloc(log->past, count * sizeof *larger);
        if (!larger)
            return false;
        memset(larger + log->past_count, 0, (count - log->past_count) * sizeof *larger);
        log->past = larger;
        log->past_count = count;
    }
    log->past[number] = (struct joblog_past){ true, is_good, hash };
    return true;
}

/* One line without its newline. A line that is none of a command's is passed over. */
static bool read_line(struct joblog *log, const char *line, size_t length)
{
    const char *columns[COLUMNS_BEFORE_COMMAND + 1] = { line };
    size_t count = 1;
    for (size_t i = 0; i < length && count <= COLUMNS_BEFORE_COMMAND; i++)
        if (line[i] == '\t')
            columns[count++] = line + i + 1;
    char *end;
    uint64_t number = strtoull(line, &end, 10);
    if (count <= COLUMNS_BEFORE_COMMAND || end == line || *end != '\t' || number == 0 ||
        number > NUMBER_MAX)
        return true;
    const char *command = columns[COLUMNS_BEFORE_COMMAND];
    bool is_good = atoi(columns[6]) == 0 && atoi(columns[7]) == 0;
    return note(log, number, is_good, hash_of(command, length - (size_t)(command - line)));
}

/* Reads all of it; what is cut off at its end is cut off. */
static bool read_past(struct joblog *log, const char *path)
{
    int copy = dup(log->file);
    FILE *file = copy >= 0 ? fdopen(copy, "r") : NULL;
    char *line = NULL;
    size_t room = 0;
    off_t whole = 0;
    bool is_good = file != NULL;
    ssize_t length = 0;
    while (is_good && (length = getline(&line, &room, file)) > 0 && line[length - 1] == '\n') {
        whole += length;
        is_good = read_line(log, line, (size_t)length - 1);
    }
    if (!is_good || ftruncate(log->file, whole) != 0) {
        message_error("the log %s cannot be read: %s", path, strerror(errno));
        is_good = false;
    }
    free(line);
    if (file)
        fclose(file);
    else if (copy >= 0)
        close(copy);
    return is_good;
}

static bool write_all(int file, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(file, text, length);
        if (written < 0 && errno != EINTR)
            return false;
        text += written > 0 ? written : 0;
        length -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

bool joblog_open(struct joblog *log, const char *path, bool is_resumed)
{
    *log = (struct joblog){ .file = -1 };
    if (!path)
        return true;
    log->file =
        open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | (is_resumed ? 0 : O_TRUNC), 0666);
    if (log->file < 0) {
        message_error("the log %s cannot be opened: %s", path, strerror(errno));
        return false;
    }
    bool is_good = !is_resumed || read_past(log, path);
    if (is_good && lseek(log->file, 0, SEEK_END) == 0 &&
        !write_all(log->file, HEADER, strlen(HEADER))) {
        message_error("the log %s cannot be written: %s", path, strerror(errno));
        is_good = false;
    }
    if (!is_good)
        joblog_close(log);
    return is_good;
}

void joblog_close(struct joblog *log)
{
    if (log->file >= 0)
        close(log->file);
    free(log->past);
    *log = (struct joblog){ .file = -1 };
}

enum joblog_result joblog_find(const struct joblog *log, uint64_t number, const char *command)
{
    if (number >= log->past_count || !log->past[number].is_known)
        return JOBLOG_NEW;
    const struct joblog_past *past = &log->past[number];
    if (past->hash != hash_of(command, strlen(command)))
        return JOBLOG_OTHER;
    return past->is_good ? JOBLOG_GOOD : JOBLOG_FAILED;
}

bool joblog_write(struct joblog *log, const struct joblog_line *line)
{
    size_t room = strlen(line->command) + 256;
    char *text = log->file >= 0 ? malloc(room) : NULL;
    if (log->file < 0)
        return true;
    bool is_good = text != NULL;
    if (text) {
        int head =
            snprintf(text, room, "%llu\t%s\t%.3f\t%10.3f\t0\t%llu\t%d\t%d\t",
                     (unsigned long long)line->number, line->device, line->began_s, line->took_s,
                     (unsigned long long)line->output_bytes, line->exit_code, line->signal);
        size_t length = (size_t)head;
        for (const char *at = line->command; *at; at++)
            text[length++] = plain(*at);
        text[length++] = '\n';
        is_good = write_all(log->file, text, length);
    }
    if (!is_good)
        message_error("the log cannot be written: %s", strerror(text ? errno : ENOMEM));
    free(text);
    return is_good;
}
