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

static struct input *make_input(char *path, bool is_operand)
{
    struct input *input = calloc(1, sizeof *input);
    if (!input)
        return NULL;
    atomic_init(&input->next, NULL);
    atomic_init(&input->end, UINT64_MAX);
    input->is_operand = is_operand;
    input->path = path;
    return input;
}

static void destroy_input(struct input *input)
{
    free(input->path);
    free(input);
}

bool inputs_init(struct inputs *inputs, struct muster *m, const struct inputs_options *options)
{
    const struct tree_options *tree = &options->tree;
    *inputs = (struct inputs){ .m = m,
                               .descriptor = -1,
                               .item_bytes = options->item_bytes,
                               .is_unpacked = options->is_unpacked,
                               .is_only = tree->operand_count == 1 && !tree->is_recursive };
    tree_init(&inputs->tree, tree);
    /* Before the first there is one that is none, so that the first has one before it too. */
    inputs->last = inputs->given = make_input(NULL, false);
    inputs->rest = malloc(options->item_bytes);
    if (!inputs->last || !inputs->rest) {
        inputs_deinit(inputs);
        return false;
    }
    return true;
}

static void close_current(struct inputs *inputs)
{
    muster_file_close(inputs->file);
    unpack_close(inputs->unpack);
    inputs->file = NULL;
    inputs->unpack = NULL;
    if (inputs->descriptor > STDIN_FILENO)
        close(inputs->descriptor);
    inputs->descriptor = -1;
}

void inputs_deinit(struct inputs *inputs)
{
    close_current(inputs);
    tree_deinit(&inputs->tree);
    for (struct input *input = inputs->given, *next; input; input = next) {
        next = atomic_load(&input->next);
        destroy_input(input);
    }
    free(inputs->rest);
    inputs->given = inputs->last = NULL;
    inputs->rest = NULL;
}

struct input *inputs_next(struct inputs *inputs)
{
    /* Acquire: pairs with the release in add_input. */
    struct input *next = atomic_load_explicit(&inputs->given->next, memory_order_acquire);
    if (!next)
        return NULL;
    /* The reading thread is done with one that has another after it. */
    destroy_input(inputs->given);
    inputs->given = next;
    return next;
}

/* Takes the path. False: no memory. */
static bool add_input(struct inputs *inputs, char *path, bool is_operand)
{
    struct input *input = make_input(path, is_operand);
    if (!input) {
        free(path);
        return false;
    }
    atomic_store_explicit(&inputs->last->next, input, memory_order_release);
    inputs->last = input;
    inputs->has_current = true;
    return true;
}

/* The next input becomes the current one. False: there is none. */
static bool begin_next(struct inputs *inputs)
{
    struct tree_entry entry;
    while (!inputs->is_over) {
        enum tree_result result = tree_next(&inputs->tree, &entry);
        if (result == TREE_ENTRY && entry.trouble) {
            if (inputs->trouble)
                inputs->trouble(inputs->user, entry.path, entry.trouble);
            free(entry.path);
            continue;
        }
        if (result == TREE_ENTRY && add_input(inputs, entry.path, entry.is_operand))
            return true;
        inputs->is_over = true;
        inputs->has_no_memory = result != TREE_END;
    }
    return false;
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

/*
 * A compressed input is read through `unpack`, and so is a pipe, whose first bytes are read here. All
 * three give whether it went well, and else say why not.
 */
static bool look_for_compression(struct inputs *inputs, struct muster_error *why)
{
    uint8_t begin[UNPACK_MAGIC_BYTES];
    size_t known = 0;
    ssize_t got = 1;
    off_t at = inputs->is_regular ? lseek(inputs->descriptor, 0, SEEK_CUR) : 0;
    while (known < sizeof begin && got != 0) {
        got = read(inputs->descriptor, begin + known, sizeof begin - known);
        /* The error will come again. */
        if (got < 0 && errno != EINTR)
            break;
        known += got > 0 ? (size_t)got : 0;
    }
    enum unpack_kind kind = unpack_kind(begin, known);
    if (kind == UNPACK_NOT && inputs->is_regular && lseek(inputs->descriptor, at, SEEK_SET) == at)
        return true;
    inputs->unpack =
        unpack_open(inputs->descriptor, kind, begin, known, why->text, sizeof why->text);
    return inputs->unpack != NULL;
}

static bool open_current(struct inputs *inputs, struct muster_error *why)
{
    struct stat facts;
    const char *path = inputs->last->path;
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
    if (inputs->is_unpacked && !look_for_compression(inputs, why))
        return false;
    if (inputs->unpack)
        return true;
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
    } else if (inputs->unpack) {
        result = unpack_read(inputs->unpack, to, bytes, why->text, sizeof why->text);
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

/*
 * The current input is over, at this place of the text. `why`: it could not be opened, or not be read to
 * its end; NULL: it was.
 */
static void end_current(struct inputs *inputs, uint64_t end, bool is_open, const char *why)
{
    struct input *input = inputs->last;
    atomic_store(&input->is_unread, !is_open);
    if (why && inputs->trouble)
        inputs->trouble(inputs->user, input->path, why);
    /* A thread that is given text from after it has passed the runtime's lock since. */
    atomic_store_explicit(&input->end, end, memory_order_relaxed);
    close_current(inputs);
    inputs->has_current = false;
}

/* Some more text of the current input, at least a byte: the newline behind it, if nothing else. */
static size_t read_some(struct inputs *inputs, unsigned char *to, size_t bytes, uint64_t at)
{
    struct muster_error why = { .size = sizeof why };
    size_t got = 0;
    if (atomic_load_explicit(&inputs->last->is_enough, memory_order_relaxed)) {
        end_current(inputs, at, true, NULL);
        *to = '\n';
        return 1;
    }
    bool is_open = inputs->descriptor >= 0 || open_current(inputs, &why);
    bool is_good = is_open && read_current(inputs, to, bytes, &got, &why);
    if (got > 0)
        return got;
    end_current(inputs, at, is_open, is_good ? NULL : why.text);
    *to = '\n';
    return 1;
}

uint32_t inputs_calls(struct inputs *inputs)
{
    struct stat facts;
    struct muster_error why;
    const char *path = inputs->tree.options.operands[0];
    if (!inputs->is_only || strcmp(path, "-") == 0 || stat(path, &facts) != 0 ||
        !S_ISREG(facts.st_mode) || facts.st_size < LARGE_BYTES || !begin_next(inputs))
        return 1;
    /* What is wrong is told by the thread that reads. */
    if (!open_current(inputs, &why))
        close_current(inputs);
    /* Many direct requests are under way at a time already. */
    inputs->is_shared =
        inputs->descriptor >= 0 && inputs->is_regular && !inputs->file && !inputs->unpack;
    inputs->size = (uint64_t)facts.st_size;
    return inputs->is_shared ? CALLS : 1;
}

/* The file ends there, as one of several threads sees it; the first of all places counts. */
static void end_shared(struct inputs *inputs, uint64_t end, const char *why)
{
    struct input *input = inputs->last;
    if (why && !atomic_exchange(&inputs->is_troubled, true) && inputs->trouble)
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
    bool is_enough = atomic_load_explicit(&inputs->last->is_enough, memory_order_relaxed);
    if (base > atomic_load(&inputs->last->end))
        return 0;
    while (filled < bytes && step > 0 && !is_enough) {
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
    while (filled < bytes && (inputs->has_current || begin_next(inputs))) {
        filled += read_some(inputs, to + filled, bytes - filled, base + filled);
        /* What comes through a pipe may be long in coming: what is there is passed on. */
        if (!inputs->is_regular && filled >= inputs->item_bytes)
            break;
    }
    size_t over = filled % inputs->item_bytes;
    if (inputs->has_no_memory)
        return MUSTER_E_NO_MEMORY;
    if (inputs->is_over && !inputs->has_current && over > 0) {
        memset(to + filled, '\n', inputs->item_bytes - over);
        filled += inputs->item_bytes - over;
        over = 0;
    }
    inputs->rest_bytes = over;
    memcpy(inputs->rest, to + filled - over, over);
    return (int64_t)((filled - over) / inputs->item_bytes);
}
