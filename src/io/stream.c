/*
 * What can only be read or written in order: pipes, terminals, sockets. Each wait is for the other
 * end or for the file's own wake-up, whichever comes first, so that a file can be cancelled.
 */
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIPE_WANTED (1 << 20)
#define READ_AT_ONCE ((size_t)1 << 30)

/*
 * A descriptor of our own to the same pipe, on which a write takes what there is room for and comes
 * back. The one we were given may be shared with other processes, which would notice.
 */
static void become_impatient(struct io_file *file)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file->descriptor);
    int descriptor = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0)
        return;
    if (file->is_owner)
        close(file->descriptor);
    file->descriptor = descriptor;
    file->is_owner = true;
    file->is_patient = false;
}

void stream_open(struct io_file *file)
{
    struct stat facts;
    if (fstat(file->descriptor, &facts) != 0)
        return;
    file->is_socket = S_ISSOCK(facts.st_mode);
    file->is_patient = S_ISFIFO(facts.st_mode) || isatty(file->descriptor);
    if (S_ISFIFO(facts.st_mode)) {
        /* More at a time; a limit of the system may refuse it. */
        fcntl(file->descriptor, F_SETPIPE_SZ, PIPE_WANTED);
        if (file->is_write)
            become_impatient(file);
    }
}

/*
 * Until the descriptor is ready: 1; 0 if it is not and must not be waited for, -1 if the file is
 * cancelled.
 */
static int wait_ready(struct io_file *file, bool may_wait)
{
    struct pollfd both[2] = {
        { .fd = file->descriptor, .events = file->is_write ? POLLOUT : POLLIN },
        { .fd = file->wake, .events = POLLIN },
    };
    uint64_t begin_ns = platform_clock_ns();
    int ready;
    do
        ready = poll(both, 2, may_wait ? -1 : 0);
    while (ready < 0 && errno == EINTR);
    platform_mutex_lock(&file->lock);
    file->waited_ns += platform_clock_ns() - begin_ns;
    platform_mutex_unlock(&file->lock);
    if (atomic_load_explicit(&file->is_cancelled, memory_order_relaxed))
        return -1;
    /* What cannot be polled is always ready, and a hang-up is told by the call itself. */
    return ready != 0;
}

static muster_status fail(struct io_file *file, int code)
{
    platform_mutex_lock(&file->lock);
    if (code == ECANCELED)
        transfer_cancelled_locked(file);
    else
        transfer_fail_locked(file, code, file->is_write ? file->bytes : file->position);
    muster_status status = file->failure.status;
    platform_mutex_unlock(&file->lock);
    return status;
}

static void count(struct io_file *file, size_t bytes)
{
    platform_mutex_lock(&file->lock);
    file->bytes += bytes;
    file->copied_by_system += bytes;
    file->operations++;
    if (!file->is_write)
        file->position += bytes;
    platform_mutex_unlock(&file->lock);
}

muster_status stream_read(struct io_file *file, char *to, size_t bytes, size_t enough, size_t *got)
{
    *got = 0;
    while (*got < bytes) {
        /* With whole items in hand, only what is there already. */
        bool may_wait = enough == 0 || *got == 0 || *got % enough != 0;
        int ready = wait_ready(file, may_wait);
        if (ready < 0)
            return fail(file, ECANCELED);
        if (ready == 0)
            break;
        size_t left = bytes - *got;
        ssize_t step = read(file->descriptor, to + *got, left < READ_AT_ONCE ? left : READ_AT_ONCE);
        if (step < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (step < 0)
            return fail(file, errno);
        if (step == 0)
            break;
        *got += (size_t)step;
        count(file, (size_t)step);
    }
    return MUSTER_OK;
}

static ssize_t write_some(const struct io_file *file, const char *from, size_t bytes)
{
    if (file->is_socket)
        return send(file->descriptor, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    /* So much fits a pipe that is ready, without waiting for room. */
    if (file->is_patient && bytes > PIPE_BUF)
        bytes = PIPE_BUF;
    return write(file->descriptor, from, bytes < READ_AT_ONCE ? bytes : READ_AT_ONCE);
}

muster_status stream_write(struct io_file *file, const char *from, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        if (wait_ready(file, true) < 0)
            return fail(file, ECANCELED);
        ssize_t step = write_some(file, from + done, bytes - done);
        if (step < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (step <= 0)
            return fail(file, step < 0 ? errno : EIO);
        done += (size_t)step;
        count(file, (size_t)step);
    }
    return MUSTER_OK;
}
