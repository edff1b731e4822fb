#include "inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool inputs_init(struct inputs *inputs, const char *const *paths, size_t count, size_t item_bytes)
{
    *inputs = (struct inputs){ .count = count, .descriptor = -1, .item_bytes = item_bytes };
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

static int open_current(struct inputs *inputs)
{
    struct stat facts;
    const char *path = inputs->list[inputs->current].path;
    bool is_standard = strcmp(path, "-") == 0;
    do
        inputs->descriptor = is_standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    while (inputs->descriptor < 0 && errno == EINTR);
    if (inputs->descriptor < 0)
        return errno;
    inputs->is_regular = fstat(inputs->descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
    if (inputs->is_regular)
        (void)posix_fadvise(inputs->descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
}

/*
 * What follows in the current input, straight to where it is wanted; 0: it has ended. The only place
 * that reads.
 */
static ssize_t read_current(struct inputs *inputs, unsigned char *to, size_t bytes)
{
    ssize_t got;
    do
        got = read(inputs->descriptor, to, bytes);
    while (got < 0 && errno == EINTR);
    return got;
}

/* The current input is over, at this place of the text. */
static void end_current(struct inputs *inputs, uint64_t end, int error)
{
    struct input *input = &inputs->list[inputs->current];
    input->is_unread = error != 0;
    if (error != 0 && inputs->trouble)
        inputs->trouble(inputs->user, input->path, error);
    /* Whoever is given text from behind it has passed the runtime's lock since. */
    atomic_store_explicit(&input->end, end, memory_order_relaxed);
    close_current(inputs);
    inputs->current++;
}

/* Some more text, at least a byte of it unless all inputs are over. */
static size_t read_some(struct inputs *inputs, unsigned char *to, size_t bytes, uint64_t at)
{
    int error = inputs->descriptor < 0 ? open_current(inputs) : 0;
    ssize_t got = error == 0 ? read_current(inputs, to, bytes) : 0;
    if (got > 0)
        return (size_t)got;
    end_current(inputs, at, got < 0 ? errno : error);
    *to = '\n';
    return 1;
}

int64_t inputs_read(void *user, uint64_t begin, uint64_t items, void *memory, size_t bytes)
{
    struct inputs *inputs = user;
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
