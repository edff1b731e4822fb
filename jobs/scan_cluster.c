/*
 * A scan on many machines: the automaton travels as a table, the kernel as its source, and what comes back
 * are the marks; this process reads the text beside them and settles what they mean, in order. What is
 * less than an item at the end has no marks of a machine's: every place of it may begin a word.
 */
#include "scan_state.h"

#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Text that is settled at a time where there are no marks of a machine's; all marks are set. */
#define REST_ITEMS 64u
#define ITEM_MARK_BYTES (SCAN_ITEM_MARKS * sizeof(uint64_t))

static muster_status cannot_read(const struct scan *scan, uint64_t at, const char *why,
                                 struct muster_error *err)
{
    const char *path = "the input";
    for (size_t i = 0; i < scan->texts.count; i++)
        if (scan->texts.list[i]->begin <= at)
            path = scan->texts.list[i]->input.path;
    return muster_error_fill(err, MUSTER_E_IO, 0, NULL, "%.120s: %.80s", path, why);
}

/* Items for machines that cannot read the input themselves. */
static int64_t give(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct scan *scan = user;
    (void)bytes;
    const char *wrong =
        texts_read(&scan->texts, &scan->giving, begin * SCAN_ITEM, to, (size_t)items * SCAN_ITEM);
    return wrong ? MUSTER_E_IO : (int64_t)items;
}

static muster_status read_text(struct scan *scan, uint64_t at, size_t bytes,
                               struct muster_error *err)
{
    if (bytes > scan->text_bytes) {
        uint8_t *larger = realloc(scan->text, bytes);
        if (!larger)
            return scan_no_memory(err, "text");
        scan->text = larger;
        scan->text_bytes = bytes;
    }
    const char *wrong = texts_read(&scan->texts, &scan->reading, at, scan->text, bytes);
    return wrong ? cannot_read(scan, at, wrong, err) : MUSTER_OK;
}

/* The sink of the cluster's job. */
static muster_status take(void *user, uint64_t begin, uint64_t items, const void *marks)
{
    struct scan *scan = user;
    uint64_t at = begin * SCAN_ITEM;
    size_t bytes = (size_t)items * SCAN_ITEM;
    muster_status status = read_text(scan, at, bytes, &scan->problem);
    if (status == MUSTER_OK && items > scan->mark_items) {
        uint64_t *larger = realloc(scan->marks, (size_t)items * ITEM_MARK_BYTES);
        if (!larger)
            return scan_no_memory(&scan->problem, "marks");
        scan->marks = larger;
        scan->mark_items = items;
    }
    if (status != MUSTER_OK)
        return status;
    /* In a message they lie anywhere, and are read as words. */
    memcpy(scan->marks, marks, (size_t)items * ITEM_MARK_BYTES);
    return scan_settle(scan, at, at + bytes, scan->text, scan->marks);
}

static muster_status write_kernel(struct scan *scan, struct muster_error *err)
{
    const char *folder = getenv("TMPDIR");
    int length = snprintf(scan->kernel_folder, sizeof scan->kernel_folder, "%s/muster-scan-XXXXXX",
                          folder && *folder ? folder : "/tmp");
    if (length >= (int)sizeof scan->kernel_folder)
        snprintf(scan->kernel_folder, sizeof scan->kernel_folder, "/tmp/muster-scan-XXXXXX");
    if (!mkdtemp(scan->kernel_folder)) {
        scan->kernel_folder[0] = '\0';
        return muster_error_fill(err, MUSTER_E_IO, 0, NULL, "no folder for temporary files");
    }
    snprintf(scan->kernel_path, sizeof scan->kernel_path, "%s/scan.c", scan->kernel_folder);
    FILE *file = fopen(scan->kernel_path, "we");
    bool is_good = file && fputs(scan_kernel_source, file) >= 0;
    is_good = file && fclose(file) == 0 && is_good;
    return is_good
               ? MUSTER_OK
               : muster_error_fill(err, MUSTER_E_IO, 0, NULL, "cannot write %s", scan->kernel_path);
}

static void describe(struct scan *scan, struct muster_cluster_desc *desc)
{
    const struct texts *texts = &scan->texts;
    /* Machines may read one file themselves, which has no newline behind it. */
    bool is_one = texts->count == 1;
    scan->items = (texts->bytes - (is_one ? 1 : 0)) / SCAN_ITEM;
    scan->kernels[0] = scan->kernel_path;
    scan->flags = scan_flags(&scan->options);
    scan->args[0] = (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_SOURCE), .bytes = SCAN_ITEM };
    scan->args[1] =
        (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_ALL), .in = scan->automaton.memory,
                             .bytes = scan->automaton.bytes };
    scan->args[2] = (struct muster_arg)MUSTER_VALUE(scan->flags);
    scan->args[3] = (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = ITEM_MARK_BYTES };
    *desc = (struct muster_cluster_desc){ .size = sizeof *desc,
                                          .kernels = scan->kernels,
                                          .kernel_count = 1,
                                          .entry = "scan",
                                          .items = scan->items,
                                          .args = scan->args,
                                          .arg_count = sizeof scan->args / sizeof *scan->args,
                                          .in = is_one ? texts->list[0]->input.path : NULL,
                                          .source = is_one ? NULL : give,
                                          .sink = take,
                                          .user = scan };
}

static muster_status prepare(struct scan *scan, struct words *words,
                             struct muster_cluster_desc *desc, struct muster_error *err)
{
    const struct scan_options *options = &scan->options;
    char name[120];
    if (options->is_unpacked)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "run it without --cluster",
                                 "a cluster's scan does without --search-zip");
    muster_status status = texts_init(&scan->texts, &options->tree, options->output,
                                      options->trouble, options->user, name, sizeof name);
    if (status == MUSTER_E_NOT_SUPPORTED)
        return muster_error_fill(err, status, 0, "run it without --cluster",
                                 "a cluster's scan reads files, and %s is none",
                                 strcmp(name, "-") == 0 ? "standard input" : name);
    if (status != MUSTER_OK)
        return scan_no_memory(err, "the list of inputs");
    status = scan_begin(scan, words, err);
    if (status == MUSTER_OK)
        status = write_kernel(scan, err);
    if (status == MUSTER_OK)
        describe(scan, desc);
    return status;
}

muster_status scan_describe(struct words *words, const struct scan_options *options,
                            struct scan **out, struct muster_cluster_desc *desc,
                            struct muster_error *err)
{
    struct scan *scan = calloc(1, sizeof *scan);
    if (!scan)
        return scan_no_memory(err, "a scan");
    scan->options = *options;
    scan->is_far = true;
    scan->reading.descriptor = scan->giving.descriptor = -1;
    muster_status status = prepare(scan, words, desc, err);
    if (status == MUSTER_OK)
        *out = scan;
    else
        scan_destroy(scan);
    return status;
}

/* What no machine was given. */
static muster_status settle_rest(struct scan *scan, struct muster_error *err)
{
    uint64_t marks[REST_ITEMS * SCAN_ITEM_MARKS];
    uint64_t at = scan->items * SCAN_ITEM;
    muster_status status = MUSTER_OK;
    memset(marks, 0xff, sizeof marks);
    while (at < scan->texts.bytes && status == MUSTER_OK) {
        uint64_t left = scan->texts.bytes - at;
        size_t bytes = left < REST_ITEMS * SCAN_ITEM ? (size_t)left : REST_ITEMS * SCAN_ITEM;
        status = read_text(scan, at, bytes, err);
        if (status == MUSTER_OK)
            status = scan_settle(scan, at, at + bytes, scan->text, marks);
        if (status == MUSTER_E_NO_MEMORY)
            scan_no_memory(err, "a line");
        at += bytes;
    }
    return status;
}

muster_status scan_finish(struct scan *scan, muster_status status, struct muster_error *err)
{
    if (status == MUSTER_OK)
        status = settle_rest(scan, err);
    else if (scan->problem.status != MUSTER_OK && err)
        *err = scan->problem;
    return scan->is_stopped ? MUSTER_E_CANCELLED : status;
}

void scan_leave_cluster(struct scan *scan)
{
    text_reader_close(&scan->reading);
    text_reader_close(&scan->giving);
    texts_deinit(&scan->texts);
    free(scan->text);
    free(scan->marks);
    if (!*scan->kernel_folder)
        return;
    unlink(scan->kernel_path);
    rmdir(scan->kernel_folder);
}
