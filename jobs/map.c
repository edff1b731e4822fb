#include "map.h"

#include "binding.h"
#include "video.h"

#include <muster/backend.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Results that are being written at a time. */
#define KEPT_MAX 16
/* What direct requests begin and end on, and how large a unit may be made for their sake. */
#define PAGE_BYTES 4096
#define PAGES_BYTES_MAX ((size_t)1 << 20)

struct map {
    struct muster *m;             /* borrowed */
    struct muster_kernel *kernel; /* owns, as all that follows */
    struct muster_file *in, *out;
    _Atomic(struct muster_job *) job; /* set by map_start, which map_cancel may come before */
    atomic_bool is_cancelled;
    struct binding binding;
    uint64_t items;    /* as the job counts them */
    uint64_t in_bytes; /* of the input; MUSTER_ITEMS_UNKNOWN */
    bool is_video, has_video;
    struct video video;
    /* What was read of the input to see what it is, and stands before the rest. */
    char begin[sizeof Y4M_MAGIC - 1];
    size_t begin_bytes;
    struct muster_error problem; /* with records; its status is 0 if there was none */
};

/* The input. */

/*
 * Looks at how the input begins. A file is left where it stands; of a pipe these bytes are gone, and
 * kept.
 */
static muster_status look(struct map *map, bool is_pipe, struct muster_error *err)
{
    size_t got;
    muster_status status =
        is_pipe ? muster_file_read(map->in, map->begin, sizeof map->begin, &got, err)
                : muster_file_read_at(map->in, 0, map->begin, sizeof map->begin, &got, err);
    if (status == MUSTER_OK)
        map->begin_bytes = got;
    return status;
}

static bool begins_like_video(const struct map *map)
{
    return map->begin_bytes == sizeof map->begin &&
           memcmp(map->begin, Y4M_MAGIC, sizeof map->begin) == 0;
}

/* Opens it and decides what it is. */
static muster_status open_input(struct map *map, const struct map_options *options,
                                struct muster_error *err)
{
    const struct muster_file_options opening = {
        .size = sizeof opening, .item_bytes = binding_item_bytes(map->kernel, options->item_bytes)
    };
    muster_status status = muster_file_read_open(map->m, options->in, &opening, &map->in, err);
    if (status != MUSTER_OK)
        return status;
    /* A number of bytes that is wrong for records may be right for video. */
    muster_status counted = muster_file_items(map->in, &map->items, err);
    bool is_pipe = counted == MUSTER_OK && map->items == MUSTER_ITEMS_UNKNOWN;
    map->in_bytes =
        counted == MUSTER_OK && !is_pipe ? map->items * opening.item_bytes : MUSTER_ITEMS_UNKNOWN;
    if (options->format != MAP_RECORDS)
        status = look(map, is_pipe, err);
    if (status != MUSTER_OK)
        return status;
    map->is_video = options->format == MAP_VIDEO || begins_like_video(map);
    if (!is_pipe)
        map->begin_bytes = 0;
    if (!map->is_video)
        return counted;
    if (!is_pipe)
        /* The same bytes again, so that the file stands behind them. */
        status = muster_file_read(map->in, map->begin, sizeof map->begin, &map->begin_bytes, err);
    if (status != MUSTER_OK)
        return status;
    map->has_video = true;
    map->items = MUSTER_ITEMS_UNKNOWN;
    status = video_init(&map->video, map->in, map->begin, map->begin_bytes, err);
    map->begin_bytes = 0;
    return status;
}

/* The records of a pipe whose first bytes were looked at: the first of them are put together. */
static int64_t begin_records(struct map *map, uint64_t items, char *to)
{
    size_t item = map->binding.item_bytes, got;
    size_t count = (map->begin_bytes + item - 1) / item;
    if (count > items)
        count = (size_t)items;
    size_t whole = count * item, kept = map->begin_bytes < whole ? map->begin_bytes : whole;
    memcpy(to, map->begin, kept);
    map->begin_bytes -= kept;
    memmove(map->begin, map->begin + kept, map->begin_bytes);
    muster_status status = muster_file_read(map->in, to + kept, whole - kept, &got, NULL);
    if (status != MUSTER_OK)
        return status;
    got += kept;
    if (got == whole)
        return (int64_t)count;
    muster_error_fill(&map->problem, MUSTER_E_INVALID, 0,
                      "give --item as it is, or a whole number of items",
                      "the input ends within an item: %zu bytes of %zu", got % item, item);
    return map->problem.status;
}

/* Of a pipe: a file is the source itself, so that it can be read in several places at once. */
static int64_t give_records(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct map *map = user;
    return map->begin_bytes > 0 ? begin_records(map, items, to)
                                : muster_file_source(map->in, begin, items, to, bytes);
}

static int64_t give_frames(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct map *map = user;
    return video_source(&map->video, begin, items, to, bytes);
}

/* The output. */

/* Who reads a pipe must not be waited for when nobody takes the results any more. */
static muster_status take_records(void *user, const struct muster_result *result)
{
    struct map *map = user;
    muster_status status = muster_file_sink(map->out, result);
    if (status != MUSTER_OK)
        muster_file_cancel(map->in);
    return status;
}

static muster_status take_frames(void *user, const struct muster_result *result)
{
    struct map *map = user;
    muster_status status = video_sink(&map->video, result);
    if (status != MUSTER_OK)
        muster_file_cancel(map->in);
    return status;
}

static muster_status open_output(struct map *map, const struct map_options *options,
                                 struct muster_error *err)
{
    struct muster_file_options opening = { .size = sizeof opening,
                                           .item_bytes = map->binding.out_item_bytes };
    if (map->items != MUSTER_ITEMS_UNKNOWN &&
        __builtin_mul_overflow(map->items, (uint64_t)map->binding.out_item_bytes, &opening.bytes))
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                 "%llu items of %zu bytes are more than any file has",
                                 (unsigned long long)map->items, map->binding.out_item_bytes);
    muster_status status = muster_file_write_open(map->m, options->out, &opening, &map->out, err);
    return status == MUSTER_OK && map->is_video ? video_begin(&map->video, map->out, err) : status;
}

/* The kernel. */

#define FACTS_MAX 7

static size_t list_facts(const struct map *map, struct binding_fact facts[FACTS_MAX])
{
    const struct y4m *y4m = &map->video.y4m;
    const struct binding_fact known[] = {
        { "items", map->items, map->items == MUSTER_ITEMS_UNKNOWN },
        { "width", y4m->width, false },
        { "height", y4m->height, false },
        { "chroma_width", y4m->chroma_width, false },
        { "chroma_height", y4m->chroma_height, false },
        { "luma", (uint64_t)y4m->width * y4m->height, false },
        { "frame", y4m->frame_bytes, false },
    };
    memcpy(facts, known, sizeof known);
    return map->is_video ? FACTS_MAX : 1;
}

static muster_status bind(struct map *map, const struct map_options *options,
                          struct muster_error *err)
{
    struct binding_fact facts[FACTS_MAX];
    const struct binding_options binding = { .item_bytes = map->is_video ? 1 : options->item_bytes,
                                             .out_item_bytes =
                                                 map->is_video ? 1 : options->out_item_bytes,
                                             .arguments = options->arguments,
                                             .argument_count = options->argument_count,
                                             .facts = facts,
                                             .fact_count = list_facts(map, facts) };
    if (map->is_video && (options->item_bytes > 0 || options->out_item_bytes > 0))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "leave out --item and --out-item",
                                 "the items of a video are its bytes");
    if (map->is_video && options->run.unordered)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "leave out --unordered",
                                 "the frames of a video have an order");
    return binding_init(&map->binding, map->kernel, &binding, err);
}

/* The job. */

static size_t greatest_divisor(size_t a, size_t b)
{
    while (b > 0) {
        size_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* So many items are whole pages of the input and of the output; 1 where that would be too many. */
static uint64_t page_items(const struct binding *binding)
{
    size_t in = PAGE_BYTES / greatest_divisor(PAGE_BYTES, binding->item_bytes);
    size_t out = PAGE_BYTES / greatest_divisor(PAGE_BYTES, binding->out_item_bytes);
    /* Both are powers of two. */
    size_t items = in > out ? in : out;
    bool is_small = binding->item_bytes <= PAGES_BYTES_MAX / items &&
                    binding->out_item_bytes <= PAGES_BYTES_MAX / items;
    return is_small ? items : 1;
}

static muster_status too_many(const char *what, uint64_t count, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                             "%s of %llu frames has more bytes than there can be", what,
                             (unsigned long long)count);
}

/* Frames become bytes. */
static muster_status scale(const struct map *map, struct muster_run_options *run, uint64_t *halo,
                           struct muster_error *err)
{
    uint64_t frame = map->video.y4m.frame_bytes, unit = run->unit_items;
    run->unit_multiple = frame;
    if (__builtin_mul_overflow(unit, frame, &run->unit_items))
        return too_many("a unit", unit, err);
    if (__builtin_mul_overflow(*halo, frame, halo))
        return too_many("a halo", *halo, err);
    if (run->window_bytes > 0 && run->window_bytes / 2 < frame)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give more, or leave out --window",
                                 "the window has %llu bytes, and one frame needs %llu, half of "
                                 "them for its result",
                                 (unsigned long long)run->window_bytes,
                                 (unsigned long long)frame * 2);
    return MUSTER_OK;
}

muster_status map_start(struct map *map, const struct map_options *options,
                        struct muster_error *err)
{
    struct muster_run_options run = options->run;
    uint64_t halo = options->halo;
    muster_status status = MUSTER_OK;
    run.size = sizeof run;
    if (map->is_video)
        status = scale(map, &run, &halo, err);
    else if (run.unit_items == 0 && map->items != MUSTER_ITEMS_UNKNOWN)
        /* What comes from a pipe must not wait for more. */
        run.unit_multiple = page_items(&map->binding);
    if (status != MUSTER_OK)
        return status;
    run.kept_max = map->is_video ? 0 : KEPT_MAX;
    for (size_t i = 0; i < map->binding.count; i++)
        if (map->binding.args[i].kind == MUSTER_ARG_SOURCE)
            map->binding.args[i].halo = halo;
    bool is_file = !map->is_video && map->begin_bytes == 0;
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .kernel = map->kernel,
                                          .items = map->items,
                                          .args = map->binding.args,
                                          .arg_count = map->binding.count,
                                          .source = map->is_video ? give_frames
                                                    : is_file     ? muster_file_source
                                                                  : give_records,
                                          .source_user = is_file ? (void *)map->in : map,
                                          .sink = map->is_video ? take_frames : take_records,
                                          .sink_user = map,
                                          .options = &run };
    struct muster_job *job;
    status = muster_start(map->m, &desc, &job, err);
    if (status != MUSTER_OK)
        return status;
    /* Sequentially consistent with map_cancel: one of the two sees what the other has set. */
    atomic_store(&map->job, job);
    if (atomic_load(&map->is_cancelled))
        muster_job_cancel(job);
    return MUSTER_OK;
}

static muster_status open_all(struct map *map, const struct map_options *options,
                              enum map_part *part, struct muster_error *err)
{
    *part = MAP_KERNEL;
    muster_status status = muster_kernel_load_files(map->m, options->kernels, options->kernel_count,
                                                    options->entry, &map->kernel, err);
    if (status != MUSTER_OK)
        return status;
    *part = MAP_INPUT;
    status = open_input(map, options, err);
    if (status != MUSTER_OK)
        return status;
    *part = MAP_KERNEL;
    status = bind(map, options, err);
    if (status != MUSTER_OK)
        return status;
    *part = MAP_OUTPUT;
    return open_output(map, options, err);
}

muster_status map_create(struct muster *m, const struct map_options *options, struct map **out,
                         enum map_part *part, struct muster_error *err)
{
    struct map *map = calloc(1, sizeof *map);
    *part = MAP_KERNEL;
    if (!map)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a map");
    map->m = m;
    muster_status status = open_all(map, options, part, err);
    if (status == MUSTER_OK)
        *out = map;
    else
        map_destroy(map);
    return status;
}

/* As it is if no frame's line has more than it needs. */
static uint64_t video_bytes(const struct map *map)
{
    uint64_t frame = map->video.y4m.frame_bytes;
    return map->in_bytes == MUSTER_ITEMS_UNKNOWN
               ? MUSTER_ITEMS_UNKNOWN
               : (map->in_bytes - map->video.header_bytes) / (frame + sizeof Y4M_FRAME) * frame;
}

void map_facts(const struct map *map, struct map_facts *out)
{
    *out = (struct map_facts){ .is_video = map->is_video,
                               .width = map->video.y4m.width,
                               .height = map->video.y4m.height,
                               .bytes = map->is_video ? video_bytes(map) : map->in_bytes,
                               .item_bytes = map->binding.item_bytes,
                               .out_item_bytes = map->binding.out_item_bytes };
}

struct muster_job *map_job(const struct map *map)
{
    return map->job;
}

struct muster_file *map_file(const struct map *map, bool is_output)
{
    return is_output ? map->out : map->in;
}

void map_cancel(struct map *map)
{
    atomic_store(&map->is_cancelled, true);
    muster_job_cancel(atomic_load(&map->job));
    muster_file_cancel(map->in);
    muster_file_cancel(map->out);
}

/* Whether a file failed by itself: it then knows more than the job, which failed because of it. */
static bool has_failed(struct muster_file *file, struct muster_error *err)
{
    struct muster_error problem;
    if (muster_file_finish(file, &problem) == MUSTER_OK || problem.status == MUSTER_E_CANCELLED)
        return false;
    *err = problem;
    return true;
}

bool map_is_complete(muster_status status, const struct muster_report *report)
{
    return status == MUSTER_E_DEVICE_HUNG && report->delivered == report->items;
}

muster_status map_wait(struct map *map, struct muster_report *report, enum map_part *part,
                       struct muster_error *err)
{
    muster_status status = muster_job_wait(map->job, report, err);
    *part = MAP_DEVICES;
    if (status == MUSTER_OK || map_is_complete(status, report))
        return status;
    /* Not a part of the output may be put in its place. */
    muster_file_cancel(map->out);
    const struct muster_error *problem = map->is_video ? &map->video.problem : &map->problem;
    if (problem->status != MUSTER_OK && problem->status != MUSTER_E_CANCELLED) {
        *part = MAP_INPUT;
        *err = *problem;
    } else if (has_failed(map->in, err)) {
        *part = MAP_INPUT;
    }
    if (has_failed(map->out, err))
        *part = MAP_OUTPUT;
    return err->status;
}

muster_status map_finish(struct map *map, enum map_part *part, struct muster_error *err)
{
    *part = MAP_OUTPUT;
    return muster_file_finish(map->out, err);
}

void map_destroy(struct map *map)
{
    if (!map)
        return;
    /* Results that are kept are given back by the file. */
    muster_file_cancel(map->out);
    if (map->out)
        (void)muster_file_finish(map->out, NULL);
    muster_job_destroy(map->job);
    muster_file_close(map->out);
    muster_file_close(map->in);
    if (map->has_video)
        video_deinit(&map->video);
    muster_kernel_destroy(map->kernel);
    free(map);
}
