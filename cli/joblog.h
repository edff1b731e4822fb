/*
 * The log of a list of commands, in the columns of GNU parallel's --joblog: a line for each command that
 * has ended. A line is written at once, so a log that was cut off lacks whole lines at its end, and the
 * last one if it is not whole is dropped.
 */
#ifndef CLI_JOBLOG_H
#define CLI_JOBLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct joblog_past;

struct joblog {
    int file;                 /* -1: none */
    struct joblog_past *past; /* owns: by number, what is known of commands that have ended */
    size_t past_count;
};

struct joblog_line {
    uint64_t number;    /* of the command in the list, from 1 */
    const char *device; /* the column Host */
    double began_s, took_s;
    uint64_t output_bytes;
    int exit_code, signal;
    const char *command; /* newlines and tabs are written as blanks */
};

enum joblog_result {
    JOBLOG_NEW,    /* it is to be run */
    JOBLOG_GOOD,   /* it has ended with 0 */
    JOBLOG_FAILED, /* it has ended otherwise */
    JOBLOG_OTHER   /* the log has another command of that number */
};

/* With `is_resumed` reads what there is and goes on after it, else begins again. False: stderr has said why not. */
bool joblog_open(struct joblog *log, const char *path, bool is_resumed);
void joblog_close(struct joblog *log);

enum joblog_result joblog_find(const struct joblog *log, uint64_t number, const char *command);

/* False: stderr has said why it cannot be written. */
bool joblog_write(struct joblog *log, const struct joblog_line *line);

#endif
