#include "inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* For smaller ones a queue of requests is not worth its making. */
#define LARGE_BYTES (8 << 20)
/* Threads that read one large file. */
#define CALLS 8

bool inputs_init(struct inputs *inputs, struct muster *m, const char *const *paths, size_t count,
                 size_t item_bytes)
{
    *inputs = (struct inputs){ .m = m, .count = count, .descriptor = -1, .item_bytes = item_bytes };
    inputs->list = calloc(count > 0 ? count : 1, sizeof *inputs->list);
    inputs->rest = malloc(item_bytes);
    if (!inputs->list || !inputs->rest) {
        inputs_deinit(inputs);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        inputs->list[i].path = paths[i];
        atomic_init(&inputs->list[i].end, UINT64_MAX);
    }
    return true;
}

static void close_current(struct inputs *inputs)
{
    muster_file_close(inputs->file);
    inputs->file = NULL;
    if (inputs->descriptor > STDIN_FILENO)
        close(inputs->descriptor);
    inputs->descriptor = -1;
}

void inputs_deinit(struct inputs *inputs)
{
    close_current(inputs);
    free(inputs->list);
    free(inputs->rest);
    inputs->list = NULL;
    inputs->rest = NULL;
}

/* What is in the system's cache is copied from there by this thread alone either way, sooner by read. */
static bool is_direct(struct muster_file *file)
{
    struct muster_file_report report = { .size = sizeof report };
    return muster_file_report(file, &report, NULL) == MUSTER_OK && strstr(report.engine, "direct");
}

static bool is_output(const struct inputs *inputs, const struct stat *facts)
{
    struct stat output;
    return inputs->output > 0 && fstat(inputs->output, &output) == 0 &&
           output.st_dev == facts->st_dev && output.st_ino == facts->st_ino;
}

/* Both give whether it went well, and else say why not. */
static bool open_current(struct inputs *inputs, struct muster_error *why)
{
    struct stat facts;
    const char *path = inputs->list[inputs->current].path;
    bool is_standard = strcmp(path, "-") == 0;
    do
        inputs->descriptor = is_standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    while (inputs->descriptor < 0 && errno == EINTR);
    if (inputs->descriptor < 0) {
        snprintf(why->text, sizeof why->text, "%s", strerror(errno));
        return false;
    }
    inputs->is_regular = fstat(inputs->descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
    if (inputs->is_regular && is_output(inputs, &facts)) {
        snprintf(why->text, sizeof why->text, "the input is also the output");
        return false;
    }
    /* Standard input may be read from its middle. */
    if (!inputs->is_regular || is_standard || facts.st_size < LARGE_BYTES)
        return true;
    const struct muster_file_options options = { .size = sizeof options,
                                                 .descriptor = inputs->descriptor,
                                                 .item_bytes = 1 };
    if (muster_file_read_open(inputs->m, NULL, &options, &inputs->file, why) != MUSTER_OK)
        return false;
    if (is_direct(inputs->file))
        return true;
    muster_file_close(inputs->file);
    inputs->file = NULL;
    return true;
}

/* What follows in the current input, straight to where it is wanted; 0 bytes: it has ended. */
static bool read_current(struct inputs *inputs, unsigned char *to, size_t bytes, size_t *got,
                         struct muster_error *why)
{
    int64_t result;
    if (inputs->file) {
        result = muster_file_source(inputs->file, 0, bytes, to, bytes);
        if (result < 0)
            muster_file_finish(inputs->file, why);
    } else {
        do
            result = read(inputs->descriptor, to, bytes);
        while (result < 0 && errno == EINTR);
        if (result < 0)
            snprintf(why->text, sizeof why->text, "%s", strerror(errno));
    }
    *got = result > 0 ? (size_t)result : 0;
    return result >= 0;
}

/* The current input is over, at this place of the text. `why`: it could not be read; NULL: it was. */
static void end_current(struct inputs *inputs, uint64_t end, const char *why)
{
    struct input *input = &inputs->list[inputs->current];
    atomic_store(&input->is_unread, why != NULL);
    if (why && inputs->trouble)
        inputs->trouble(inputs->user, input->path, why);
    /* Whoever is given text from behind it has passed the runtime's lock since. */
    atomic_store_explicit(&input->end, end, memory_order_relaxed);
    close_current(inputs);
    inputs->current++;
}

/* Some more text, at least a byte of it: the newline behind an input, if nothing else. */
static size_t read_some(struct inputs *inputs, unsigned char *to, size_t bytes, uint64_t at)
{
    struct muster_error why = { .size = sizeof why };
    size_t got = 0;
    bool is_open = inputs->descriptor >= 0 || open_current(inputs, &why);
    bool is_good = is_open && read_current(inputs, to, bytes, &got, &why);
    if (got > 0)
        return got;
    end_current(inputs, at, is_good ? NULL : why.text);
    *to = '\n';
    return 1;
}

uint32_t inputs_calls(struct inputs *inputs)
{
    struct stat facts;
    struct muster_error why;
    if (inputs->count != 1 || strcmp(inputs->list[0].path, "-") == 0 ||
        stat(inputs->list[0].path, &facts) != 0 || !S_ISREG(facts.st_mode) ||
        facts.st_size < LARGE_BYTES)
        return 1;
    /* What is wrong is told by the thread that reads. */
    if (!open_current(inputs, &why))
        close_current(inputs);
    /* Many direct requests are under way at a time already. */
    inputs->is_shared = inputs->descriptor >= 0 && inputs->is_regular && !inputs->file;
    inputs->size = (uint64_t)facts.st_size;
    return inputs->is_shared ? CALLS : 1;
}

/* The file ends there, as one of several threads sees it; the first of all places counts. */
static void end_shared(struct inputs *inputs, uint64_t end, const char *why)
{
    struct input *input = &inputs->list[0];
    if (why && !atomic_exchange(&input->is_unread, true) && inputs->trouble)
        inputs->trouble(inputs->user, input->path, why);
    uint64_t before = atomic_load(&input->end);
    while (end < before && !atomic_compare_exchange_weak(&input->end, &before, end)) {}
}

/*
 * Text of the only file. A thread that comes to the end gives the newline after it as well. If the
 * file has become shorter, others may see an end too, where they are: after the first there are then
 * only newlines.
 */
static int64_t read_shared(struct inputs *inputs, uint64_t base, unsigned char *to, size_t bytes)
{
    size_t filled = 0;
    ssize_t step = 1;
    if (base > atomic_load(&inputs->list[0].end))
        return 0;
    while (filled < bytes && step > 0) {
        do
            step = pread(inputs->descriptor, to + filled, bytes - filled, (off_t)(base + filled));
        while (step < 0 && errno == EINTR);
        filled += step > 0 ? (size_t)step : 0;
    }
    /* Another thread has come to the end, or will. */
    if (step == 0 && filled == 0 && base > inputs->size)
        return 0;
    if (filled < bytes) {
        end_shared(inputs, base + filled, step < 0 ? strerror(errno) : NULL);
        size_t until = filled / inputs->item_bytes * inputs->item_bytes + inputs->item_bytes;
        memset(to + filled, '\n', until - filled);
        filled = until;
    }
    return (int64_t)(filled / inputs->item_bytes);
}

int64_t inputs_read(void *user, uint64_t begin, uint64_t items, void *memory, size_t bytes)
{
    struct inputs *inputs = user;
    if (inputs->is_shared)
        return read_shared(inputs, begin * inputs->item_bytes, memory, bytes);
    unsigned char *to = memory;
    size_t filled = inputs->rest_bytes;
    (void)items;
    uint64_t base = begin * inputs->item_bytes;
    memcpy(to, inputs->rest, inputs->rest_bytes);
    while (inputs->current < inputs->count && filled < bytes) {
        filled += read_some(inputs, to + filled, bytes - filled, base + filled);
        /* What comes through a pipe may be long in coming: what is there is passed on. */
        if (!inputs->is_regular && filled >= inputs->item_bytes)
            break;
    }
    size_t over = filled % inputs->item_bytes;
    if (inputs->current == inputs->count && over > 0) {
        memset(to + filled, '\n', inputs->item_bytes - over);
        filled += inputs->item_bytes - over;
        over = 0;
    }
    inputs->rest_bytes = over;
    memcpy(inputs->rest, to + filled - over, over);
    return (int64_t)((filled - over) / inputs->item_bytes);
}
