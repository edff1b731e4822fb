/*
 * What was learned of how long tasks take, as a text that one run keeps for the next: JSON, one line for each
 * body, device and size class. What is read is checked to its last byte. Pure.
 */
#ifndef CORE_RATES_FILE_H
#define CORE_RATES_FILE_H

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RATES_FILE_VERSION 1u
/* Lines of one file; more are refused. */
#define RATES_FILE_LINES_MAX 8192u
/* A file with as many lines as there may be is smaller. */
#define RATES_FILE_BYTES_MAX (RATES_FILE_LINES_MAX * 1280u)
/* No task takes longer: eleven days. */
#define RATES_FILE_NS_MAX UINT64_C(1000000000000000)
#define RATES_FILE_CLASS_MAX 64u

struct rates_file_line {
    char body[48];   /* the name of its tasks, or of its kernel */
    char device[24]; /* its id */
    char model[96];  /* what it is: on another one the line says nothing */
    uint32_t size_class;
    uint64_t ns;
};

/*
 * Writes as much as there is room for, with a zero byte, and gives the bytes that all of it takes without that.
 * Lines whose names are not UTF-8 are left out.
 */
size_t rates_file_write(const struct rates_file_line *lines, size_t count, char *text, size_t room);

/*
 * `out` has room for RATES_FILE_LINES_MAX. MUSTER_E_PARSE, MUSTER_E_VERSION: `err` says where and why, and
 * `*count` is untouched. Of two lines for the same the last one counts; both are given.
 */
muster_status rates_file_read(const char *text, size_t bytes, struct rates_file_line *out,
                              size_t *count, struct muster_error *err);

#endif
