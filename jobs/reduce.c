#include "reduce.h"

#include "value.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/backend.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST "first"
#define ITEMS "items"

/* A file whose pages are memory. */
struct mapped {
    void *memory;
    size_t bytes;
};

struct reduce {
    struct muster *m;
    struct muster_kernel *kernel;
    struct muster_partial partial;
    struct muster_arg args[MUSTER_ARGS_MAX];
    size_t arg_count;
    unsigned char values[MUSTER_ARGS_MAX][VALUE_BYTES];
    struct muster_file *in; /* the only input */
    struct mapped mapped[MUSTER_ARGS_MAX];
    uint64_t items;
    size_t item_bytes; /* of all inputs together */
    void *result;
    _Atomic(struct muster_job *) job;
    atomic_bool is_cancelled;
};

static const char *value_of(const struct reduce_options *options, const char *name, size_t *which)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < options->argument_count; i++)
        if (strncmp(options->arguments[i], name, length) == 0 &&
            options->arguments[i][length] == '=') {
            *which = i;
            return options->arguments[i] + length + 1;
        }
    return NULL;
}

static muster_status map_file_at(struct reduce *reduce, const char *path, size_t index,
                                 size_t item_bytes, struct muster_error *err)
{
    struct stat facts;
    struct mapped *mapped = &reduce->mapped[index];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool is_file = file >= 0 && fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
    int error = errno;
    if (is_file && facts.st_size > 0) {
        void *memory = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        error = errno;
        is_file = memory != MAP_FAILED;
        *mapped = (struct mapped){ is_file ? memory : NULL, (size_t)facts.st_size };
    }
    bool was_open = file >= 0;
    if (was_open)
        close(file);
    if (!is_file)
        return muster_error_fill(
            err, MUSTER_E_IO, error, "give regular files where a kernel takes several arrays",
            "cannot read %.120s: %s", path, was_open ? "not a regular file" : strerror(error));
    if (mapped->bytes % item_bytes != 0)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give a whole number of items",
                                 "%.120s has %zu bytes, which is no multiple of %zu", path,
                                 mapped->bytes, item_bytes);
    uint64_t items = mapped->bytes / item_bytes;
    if (index > 0 && items != reduce->items)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give files of as many items each",
                                 "%.120s has %llu items, and the first input %llu", path,
                                 (unsigned long long)items, (unsigned long long)reduce->items);
    reduce->items = items;
    return MUSTER_OK;
}

static muster_status open_input(struct reduce *reduce, const char *path, size_t item_bytes,
                                struct muster_error *err)
{
    const struct muster_file_options opening = { .size = sizeof opening, .item_bytes = item_bytes };
    muster_status status = muster_file_read_open(reduce->m, path, &opening, &reduce->in, err);
    return status == MUSTER_OK ? muster_file_items(reduce->in, &reduce->items, err) : status;
}

/* The input of the next pointer. */
static muster_status bind_input(struct reduce *reduce, const struct reduce_options *options,
                                const struct muster_kernel_parameter *parameter, size_t index,
                                struct muster_arg *arg, struct muster_error *err)
{
    size_t bytes =
        options->item_bytes > 0 && options->in_count == 1 ? options->item_bytes : parameter->bytes;
    if (index >= options->in_count)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give --in for each pointer, in order",
                                 "there is no input for '%s'", parameter->name);
    if (bytes == 0)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give --item BYTES",
                                 "the size of '%s' (%s) is not known", parameter->name,
                                 parameter->type);
    reduce->item_bytes += bytes;
    if (options->in_count == 1) {
        *arg = (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_SOURCE), .bytes = bytes };
        return open_input(reduce, options->ins[0], bytes, err);
    }
    muster_status status = map_file_at(reduce, options->ins[index], index, bytes, err);
    /* Of no items any place will do. */
    *arg = (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_IN),
                                .in = reduce->mapped[index].memory ? reduce->mapped[index].memory
                                                                   : (const void *)reduce,
                                .bytes = bytes };
    return status;
}

static muster_status bind_value(struct reduce *reduce, const struct reduce_options *options,
                                const struct muster_kernel_parameter *parameter, size_t index,
                                bool *is_used, struct muster_error *err)
{
    struct muster_arg *arg = &reduce->args[index];
    size_t which = 0, bytes = 0;
    const char *text = value_of(options, parameter->name, &which);
    muster_status status;
    if (!text && strcmp(parameter->name, FIRST) == 0 && parameter->bytes == sizeof(uint64_t)) {
        *arg = (struct muster_arg)MUSTER_FIRST;
        return MUSTER_OK;
    }
    if (text)
        is_used[which] = true;
    bool is_items = !text && strcmp(parameter->name, ITEMS) == 0;
    if (!text && (!is_items || reduce->items == MUSTER_ITEMS_UNKNOWN))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give --arg NAME=VALUE",
                                 "there is no value for '%s' (%s)%s", parameter->name,
                                 parameter->type,
                                 is_items ? ": the items of a pipe are not counted before" : "");
    status =
        is_items
            ? value_set(parameter->name, parameter->type, reduce->items, reduce->values[index], err)
            : value_read(parameter->name, parameter->type, text, reduce->values[index], err);
    if (status == MUSTER_OK && !value_is_type(parameter->type, &bytes))
        bytes = parameter->bytes;
    *arg = (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_VALUE), .in = reduce->values[index],
                                .bytes = bytes };
    return status;
}

/* Inputs before values: `items` may be one of those. */
static muster_status bind(struct reduce *reduce, const struct reduce_options *options,
                          enum map_part *part, struct muster_error *err)
{
    struct muster_kernel_parameter parameters[MUSTER_ARGS_MAX];
    bool is_used[MUSTER_ARGS_MAX] = { false };
    size_t inputs = 0;
    muster_status status = MUSTER_OK;
    for (; reduce->arg_count < MUSTER_ARGS_MAX; reduce->arg_count++) {
        parameters[reduce->arg_count].size = sizeof *parameters;
        if (muster_kernel_parameter(reduce->kernel, reduce->arg_count,
                                    &parameters[reduce->arg_count], NULL) != MUSTER_OK)
            break;
    }
    *part = MAP_INPUT;
    for (size_t i = 0; i < reduce->arg_count && status == MUSTER_OK; i++)
        if (parameters[i].is_block)
            status = bind_input(reduce, options, &parameters[i], inputs++, &reduce->args[i], err);
    if (status == MUSTER_OK && inputs < options->in_count)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "leave out --in",
                                 "%zu inputs are given, and the kernel takes %zu",
                                 options->in_count, inputs);
    if (status == MUSTER_OK && (inputs == 0) != options->has_items)
        return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                 inputs == 0 ? "give --items N" : "leave out --items",
                                 inputs == 0 ? "the kernel reads nothing, so the number of items "
                                               "must be given"
                                             : "the number of items is that of the input");
    if (inputs == 0)
        reduce->items = options->items;
    for (size_t i = 0; i < reduce->arg_count && status == MUSTER_OK; i++) {
        *part = MAP_KERNEL;
        if (!parameters[i].is_block)
            status = bind_value(reduce, options, &parameters[i], i, is_used, err);
    }
    for (size_t i = 0; i < options->argument_count && status == MUSTER_OK; i++)
        if (i >= MUSTER_ARGS_MAX || !is_used[i])
            status = muster_error_fill(err, MUSTER_E_INVALID, 0, "leave it out",
                                       "the kernel takes no value '%.60s'", options->arguments[i]);
    return status;
}

muster_status reduce_create(struct muster *m, const struct reduce_options *options,
                            struct reduce **out, enum map_part *part, struct muster_error *err)
{
    struct reduce *reduce = calloc(1, sizeof *reduce);
    *part = MAP_KERNEL;
    if (!reduce)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a reduction");
    reduce->m = m;
    reduce->partial.size = sizeof reduce->partial;
    muster_status status = muster_kernel_load_files(m, options->kernels, options->kernel_count,
                                                    options->entry, &reduce->kernel, err);
    if (status == MUSTER_OK)
        status = muster_kernel_partial(reduce->kernel, &reduce->partial, err);
    if (status == MUSTER_OK && !(reduce->result = calloc(1, reduce->partial.bytes)))
        status = muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a result");
    if (status == MUSTER_OK)
        status = bind(reduce, options, part, err);
    if (status == MUSTER_OK)
        *out = reduce;
    else
        reduce_destroy(reduce);
    return status;
}

muster_status reduce_start(struct reduce *reduce, const struct reduce_options *options,
                           struct muster_error *err)
{
    struct muster_run_options run = options->run;
    run.size = sizeof run;
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .kernel = reduce->kernel,
                                          .items = reduce->items,
                                          .args = reduce->args,
                                          .arg_count = reduce->arg_count,
                                          .source = reduce->in ? muster_file_source : NULL,
                                          .source_user = reduce->in,
                                          .result = reduce->result,
                                          .result_bytes = reduce->partial.bytes,
                                          .options = &run };
    struct muster_job *job;
    muster_status status = muster_start(reduce->m, &desc, &job, err);
    if (status != MUSTER_OK)
        return status;
    /* Sequentially consistent with reduce_cancel: one of the two sees what the other has set. */
    atomic_store(&reduce->job, job);
    if (atomic_load(&reduce->is_cancelled))
        muster_job_cancel(job);
    return MUSTER_OK;
}

muster_status reduce_wait(struct reduce *reduce, struct muster_report *report, enum map_part *part,
                          struct muster_error *err)
{
    struct muster_error problem;
    muster_status status = muster_job_wait(reduce->job, report, err);
    *part = MAP_DEVICES;
    if (status == MUSTER_OK || map_is_complete(status, report) || !reduce->in)
        return status;
    /* A file that failed knows more than the job, which failed because of it. */
    if (muster_file_finish(reduce->in, &problem) != MUSTER_OK &&
        problem.status != MUSTER_E_CANCELLED) {
        *part = MAP_INPUT;
        *err = problem;
        status = problem.status;
    }
    return status;
}

void reduce_cancel(struct reduce *reduce)
{
    atomic_store(&reduce->is_cancelled, true);
    muster_job_cancel(atomic_load(&reduce->job));
    muster_file_cancel(reduce->in);
}

const struct muster_kernel *reduce_kernel(const struct reduce *reduce)
{
    return reduce->kernel;
}

const void *reduce_result(const struct reduce *reduce, size_t *bytes)
{
    *bytes = reduce->partial.bytes;
    return reduce->result;
}

uint64_t reduce_bytes(const struct reduce *reduce, size_t *item_bytes)
{
    *item_bytes = reduce->item_bytes;
    return reduce->items == MUSTER_ITEMS_UNKNOWN ? MUSTER_ITEMS_UNKNOWN
                                                 : reduce->items * reduce->item_bytes;
}

struct muster_job *reduce_job(const struct reduce *reduce)
{
    return reduce->job;
}

struct muster_file *reduce_file(const struct reduce *reduce)
{
    return reduce->in;
}

void reduce_destroy(struct reduce *reduce)
{
    if (!reduce)
        return;
    muster_job_destroy(reduce->job);
    muster_file_close(reduce->in);
    muster_kernel_destroy(reduce->kernel);
    for (size_t i = 0; i < MUSTER_ARGS_MAX; i++)
        if (reduce->mapped[i].memory)
            munmap(reduce->mapped[i].memory, reduce->mapped[i].bytes);
    free(reduce->result);
    free(reduce);
}
