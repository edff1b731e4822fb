/*
 * A filter: standard input through a kernel to standard output, as long as it may be, in memory that
 * the window bounds. The source asks for what there is, the sink is given the results in order.
 *
 *     ls | 11_filter
 */
#include <errno.h>
#include <muster/muster.h>
#include <stdio.h>
#include <unistd.h>

#define WINDOW 1048576

/* Arguments: the bytes that were read, the bytes to be written. */
static muster_status to_upper(uint64_t begin, uint64_t end, void *const *args)
{
    const char *from = *(const char *const *)args[0];
    char *to = *(char *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        to[i] = (char)(from[i] >= 'a' && from[i] <= 'z' ? from[i] - 'a' + 'A' : from[i]);
    return MUSTER_OK;
}

static int64_t read_some(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    (void)user, (void)begin, (void)items;
    ssize_t count;
    do
        count = read(STDIN_FILENO, to, bytes);
    while (count < 0 && errno == EINTR);
    return count < 0 ? MUSTER_E_IO : count;
}

static muster_status write_all(void *user, const struct muster_result *result)
{
    (void)user;
    size_t bytes = (size_t)(result->range.end - result->range.begin);
    return fwrite(result->outputs[0], 1, bytes, stdout) == bytes ? MUSTER_OK : MUSTER_E_IO;
}

static muster_status run(struct muster *m, struct muster_error *err)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = to_upper };
    const struct muster_arg args[] = { MUSTER_SOURCE(char),
                                       { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = 1 } };
    const struct muster_run_options how = { .size = sizeof how, .window = WINDOW };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .items = MUSTER_ITEMS_UNKNOWN,
                                    .args = args,
                                    .arg_count = 2,
                                    .source = read_some,
                                    .sink = write_all,
                                    .options = &how };
    struct muster_job *job;
    muster_status status = muster_kernel_from(m, "to_upper", &form, 1, &desc.kernel, err);
    if (status || (status = muster_start(m, &desc, &job, err)))
        return status;
    status = muster_job_wait(job, NULL, err);
    muster_job_destroy(job);
    return status;
}

int main(void)
{
    struct muster *m = NULL;
    struct muster_error err;
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK)
        status = run(m, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    return muster_close(m, NULL) || status != MUSTER_OK;
}
