#include "map_state.h"

#include <muster/backend.h>
#include <stdlib.h>
#include <string.h>

/* Results that are being written at a time. */
#define KEPT_MAX 16
/* What direct requests begin and end on, and how large a unit may be made for their sake. */
#define PAGE_BYTES 4096
#define PAGES_BYTES_MAX ((size_t)1 << 20)

/* The input. */

/*
 * Looks at how the input begins. A file is left where it stands; of a pipe these bytes are gone, and
 * kept.
 */
static muster_status look(struct map *map, bool is_pipe, uint64_t at, struct muster_error *err)
{
    size_t got;
    muster_status status =
        is_pipe ? muster_file_read(map->in, map->begin, sizeof map->begin, &got, err)
                : muster_file_read_at(map->in, at, map->begin, sizeof map->begin, &got, err);
    if (status == MUSTER_OK)
        map->begin_bytes = got;
    return status;
}

static bool begins_like_video(const struct map *map)
{
    return map->begin_bytes == sizeof map->begin &&
           memcmp(map->begin, Y4M_MAGIC, sizeof map->begin) == 0;
}

/* Which pointer of the kernel's the file is for, by the name before its path, and that path. */
const char *map_split_name(const struct muster_kernel *kernel, const char *text,
                           struct binding_file *file)
{
    struct muster_kernel_parameter parameter = { .size = sizeof parameter };
    const char *equals = strchr(text, '=');
    *file = (struct binding_file){ .name = NULL };
    for (size_t i = 0; equals && muster_kernel_parameter(kernel, i, &parameter, NULL) == MUSTER_OK;
         i++)
        if (parameter.is_block && strlen(parameter.name) == (size_t)(equals - text) &&
            memcmp(parameter.name, text, (size_t)(equals - text)) == 0) {
            file->name = text;
            file->name_bytes = (size_t)(equals - text);
            return equals + 1;
        }
    return text;
}

static bool has_name(const struct binding_file *file, const char *name)
{
    return file->name && strlen(name) == file->name_bytes &&
           memcmp(file->name, name, file->name_bytes) == 0;
}

/* The size of a record, as the pointer has it that the first input is for. */
static size_t find_item_bytes(const struct map *map, size_t asked)
{
    struct muster_kernel_parameter parameter = { .size = sizeof parameter };
    for (size_t i = 0;
         asked == 0 && muster_kernel_parameter(map->kernel, i, &parameter, NULL) == MUSTER_OK;
         i++) {
        bool is_other = !parameter.is_block || !parameter.is_const;
        for (size_t k = 0; k < map->table_count; k++)
            is_other = is_other || has_name(&map->named_tables[k], parameter.name);
        for (size_t k = 1; k < map->input_count; k++)
            is_other = is_other || has_name(&map->inputs[k], parameter.name);
        if (map->inputs[0].name)
            is_other = !has_name(&map->inputs[0], parameter.name);
        if (!is_other)
            return parameter.bytes > 0 ? parameter.bytes : 1;
    }
    return asked > 0 ? asked : 1;
}

/* What files begin with that people give by mistake. */
static const char *name_input(const char *begin, size_t bytes)
{
    static const struct {
        const char *begin;
        size_t offset, bytes;
        const char *name;
    } known[] = { { "\x89PNG", 0, 4, "a PNG picture" },
                  { "\xff\xd8\xff", 0, 3, "a JPEG picture" },
                  { "GIF8", 0, 4, "a GIF picture" },
                  { "\x1f\x8b", 0, 2, "compressed with gzip" },
                  { "BZh", 0, 3, "compressed with bzip2" },
                  { "\xfd"
                    "7zXZ",
                    0, 5, "compressed with xz" },
                  { "\x28\xb5\x2f\xfd", 0, 4, "compressed with zstd" },
                  { "PK\x03\x04", 0, 4, "a zip archive (or .npz: unpack it)" },
                  { "RIFF", 0, 4, "a RIFF file (WAV or AVI)" },
                  { "ftyp", 4, 4, "an MP4 video: decode it, ffmpeg -i FILE -f yuv4mpegpipe -" },
                  { "\x1a\x45\xdf\xa3", 0, 4,
                    "a Matroska video: decode it, ffmpeg -i FILE -f yuv4mpegpipe -" },
                  { "\x89HDF", 0, 4, "an HDF5 file" },
                  { "II*", 0, 3, "a TIFF picture" },
                  { "%PDF", 0, 4, "a PDF document" },
                  { "\x7f"
                    "ELF",
                    0, 4, "a program" } };
    if (bytes == 0)
        return "empty";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (bytes >= known[i].offset + known[i].bytes &&
            memcmp(begin + known[i].offset, known[i].begin, known[i].bytes) == 0)
            return known[i].name;
    return "neither a video (YUV4MPEG2) nor a .npy file";
}

static muster_status skip_bytes(struct map *map, uint64_t bytes, struct muster_error *err)
{
    char dropped[4096];
    muster_status status = MUSTER_OK;
    for (uint64_t left = bytes; left > 0 && status == MUSTER_OK;) {
        size_t wanted = left < sizeof dropped ? (size_t)left : sizeof dropped, got;
        status = muster_file_read(map->in, dropped, wanted, &got, err);
        uint64_t had = bytes - left + got;
        if (status == MUSTER_OK && got < wanted)
            status = muster_error_fill(err, MUSTER_E_INVALID, 0, "give a smaller --skip",
                                       "the input has %llu bytes, and %llu are to be skipped",
                                       (unsigned long long)had, (unsigned long long)bytes);
        left -= got;
    }
    return status;
}

/* Of a .npy file, which begins as was seen: its header, so that the file stands behind it. */
static muster_status begin_array(struct map *map, size_t item_bytes, struct muster_error *err)
{
    static char header[NPY_HEADER_MAX];
    size_t used = map->begin_bytes, got, bytes;
    memcpy(header, map->begin, used);
    map->begin_bytes = 0;
    muster_status status =
        muster_file_read(map->in, header + used, NPY_BEGIN_BYTES - used, &got, err);
    if (status == MUSTER_OK)
        status = npy_header_bytes(header, used + got, &bytes, err);
    if (status != MUSTER_OK)
        return status;
    status =
        muster_file_read(map->in, header + NPY_BEGIN_BYTES, bytes - NPY_BEGIN_BYTES, &got, err);
    if (status == MUSTER_OK)
        status = npy_read(&map->npy, header, NPY_BEGIN_BYTES + got, err);
    if (status != MUSTER_OK)
        return status;
    uint64_t left = 0, all;
    map->is_npy = true;
    if (map->rest != MAP_REST_REFUSED)
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, "leave out --rest",
            "the input is a .npy file, whose header says how long it is: there "
            "is no rest");
    if (__builtin_mul_overflow(map->npy.elements, (uint64_t)map->npy.element_bytes, &all))
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, "write it again with numpy.save",
            "the .npy file says %llu elements of %zu bytes, more than any file "
            "has",
            (unsigned long long)map->npy.elements, map->npy.element_bytes);
    if (all % item_bytes != 0)
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, "give --item as it is, or a kernel for such elements",
            "the .npy file has %llu elements of %zu bytes, which is no whole "
            "number of items of %zu bytes",
            (unsigned long long)map->npy.elements, map->npy.element_bytes, item_bytes);
    /* Of a file that is no whole number of items no number is known. */
    status = muster_file_items(map->in, &left, err);
    map->is_npy_pipe = status == MUSTER_OK && left == MUSTER_ITEMS_UNKNOWN;
    if (!map->is_npy_pipe && (status != MUSTER_OK || left != all / item_bytes))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "write it again with numpy.save",
                                 "the .npy file says %llu elements of %zu bytes, and %s follow its "
                                 "header",
                                 (unsigned long long)map->npy.elements, map->npy.element_bytes,
                                 status == MUSTER_OK && left < all / item_bytes
                                     ? "fewer bytes"
                                     : "another number of bytes");
    map->items = all / item_bytes;
    map->in_bytes = all;
    return MUSTER_OK;
}

/* Opens it and decides what it is. */
static muster_status open_input(struct map *map, const struct map_options *options,
                                struct muster_error *err)
{
    const struct muster_file_options opening = { .size = sizeof opening,
                                                 .item_bytes =
                                                     find_item_bytes(map, options->item_bytes) };
    const char *path = map_split_name(map->kernel, options->in, &map->inputs[0]);
    muster_status status = muster_file_read_open(map->m, path, &opening, &map->in, err);
    if (status == MUSTER_OK)
        status = skip_bytes(map, options->skip, err);
    if (status != MUSTER_OK)
        return status;
    /* A number of bytes that is wrong for records may be right for video. */
    muster_status counted = muster_file_items(map->in, &map->items, err);
    bool is_pipe = counted == MUSTER_OK && map->items == MUSTER_ITEMS_UNKNOWN;
    map->in_bytes =
        counted == MUSTER_OK && !is_pipe ? map->items * opening.item_bytes : MUSTER_ITEMS_UNKNOWN;
    struct muster_error remainder = { .status = MUSTER_OK };
    if (counted != MUSTER_OK && err)
        remainder = *err;
    /* Live records must not wait until there are enough bytes to look at. */
    if (options->format != MAP_RECORDS || !is_pipe)
        status = look(map, is_pipe, options->skip, err);
    if (status != MUSTER_OK)
        return status;
    map->is_video =
        options->format == MAP_VIDEO || (options->format == MAP_DETECTED && begins_like_video(map));
    bool is_npy = options->format != MAP_VIDEO && map->begin_bytes >= NPY_MAGIC_BYTES &&
                  memcmp(map->begin, NPY_MAGIC, NPY_MAGIC_BYTES) == 0;
    if (!map->is_video && !is_npy && options->format == MAP_DETECTED)
        map->input_is = name_input(map->begin, map->begin_bytes);
    if (!is_pipe)
        map->begin_bytes = 0;
    if (!map->is_video && !is_npy) {
        map->reads_in_order =
            options->rest != MAP_REST_REFUSED && (is_pipe || counted != MUSTER_OK);
        if (map->reads_in_order)
            map->items = MUSTER_ITEMS_UNKNOWN;
        else if (counted != MUSTER_OK && err)
            *err = remainder;
        return map->reads_in_order ? MUSTER_OK : counted;
    }
    if (!is_pipe)
        /* The same bytes again, so that the file stands behind them. */
        status = muster_file_read(map->in, map->begin, sizeof map->begin, &map->begin_bytes, err);
    if (status != MUSTER_OK)
        return status;
    if (is_npy)
        return begin_array(map, opening.item_bytes, err);
    map->has_video = true;
    map->items = MUSTER_ITEMS_UNKNOWN;
    status = video_init(&map->video, map->in, map->begin, map->begin_bytes, err);
    map->video.planes = options->planes;
    map->begin_bytes = 0;
    return status;
}

/* The other inputs and the tables. */
static muster_status open_more(struct map *map, const struct map_options *options,
                               struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < options->more_in_count && status == MUSTER_OK; i++) {
        struct mapped *mapped = &map->mapped[i];
        const char *path = map_split_name(map->kernel, options->more_ins[i], &map->inputs[i + 1]);
        status = mapped_open(mapped, path, err);
        map->inputs[i + 1].memory = mapped->bytes;
        map->inputs[i + 1].bytes = mapped->count;
    }
    for (size_t i = 0; i < options->table_count && status == MUSTER_OK; i++) {
        struct mapped *mapped = &map->mapped[options->more_in_count + i];
        const char *equals = strchr(options->tables[i], '=');
        if (!equals || equals == options->tables[i])
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "write --table NAME=FILE",
                                     "the table '%.60s' has no name", options->tables[i]);
        status = mapped_open(mapped, equals + 1, err);
        if (status == MUSTER_OK && mapped->count == 0)
            status = muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "the table %.120s is empty",
                                       equals + 1);
        if (status == MUSTER_OK)
            status =
                muster_data_create(map->m, mapped->bytes, mapped->count, 0, &map->tables[i], err);
        map->named_tables[i].data = map->tables[i];
    }
    return status;
}

/* Names are known before anything is opened: they say how large records are. */
static muster_status name_files(struct map *map, const struct map_options *options,
                                struct muster_error *err)
{
    if (options->more_in_count + options->more_out_count + options->table_count + 2 >
        MUSTER_ARGS_MAX)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "a kernel takes at most %d files and values", MUSTER_ARGS_MAX);
    map->rest = options->rest;
    map->input_count = 1 + options->more_in_count;
    map->out_count = 1 + options->more_out_count;
    map->table_count = options->table_count;
    map_split_name(map->kernel, options->in, &map->inputs[0]);
    for (size_t i = 0; i < options->more_in_count; i++)
        map_split_name(map->kernel, options->more_ins[i], &map->inputs[i + 1]);
    map_split_name(map->kernel, options->out, &map->outputs[0]);
    for (size_t i = 0; i < options->more_out_count; i++)
        map_split_name(map->kernel, options->more_outs[i], &map->outputs[i + 1]);
    for (size_t i = 0; i < options->table_count; i++) {
        map->named_tables[i].name = options->tables[i];
        map->named_tables[i].name_bytes = strcspn(options->tables[i], "=");
    }
    return MUSTER_OK;
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

/* The next bytes, of which the first may have been looked at. */
static muster_status read_on(struct map *map, char *to, size_t bytes, size_t *got)
{
    size_t kept = map->begin_bytes < bytes ? map->begin_bytes : bytes;
    memcpy(to, map->begin, kept);
    map->begin_bytes -= kept;
    memmove(map->begin, map->begin + kept, map->begin_bytes);
    muster_status status = muster_file_read(map->in, to + kept, bytes - kept, got, &map->problem);
    *got += kept;
    return status;
}

/* Whole records; what is left of the last one is kept, dropped or made a record. */
static int64_t give_in_order(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct map *map = user;
    size_t item = map->binding.item_bytes, got;
    (void)begin;
    (void)bytes;
    muster_status status = read_on(map, to, (size_t)items * item, &got);
    if (status != MUSTER_OK)
        return status;
    size_t rest = got % item;
    if (rest > 0 && map->rest == MAP_REST_PADDED) {
        memset((char *)to + got, 0, item - rest);
        got += item - rest;
    } else if (rest > 0 && map->rest == MAP_REST_KEPT) {
        map->tail = malloc(rest);
        if (!map->tail)
            return muster_error_fill(&map->problem, MUSTER_E_NO_MEMORY, 0, NULL,
                                     "no memory for the rest of the input");
        memcpy(map->tail, (char *)to + got - rest, rest);
        map->tail_bytes = rest;
    }
    return (int64_t)(got / item);
}

/* Of a pipe: a file is the source itself, so that it can be read in several places at once. */
static int64_t give_records(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct map *map = user;
    return map->begin_bytes > 0 ? begin_records(map, items, to)
                                : muster_file_source(map->in, begin, items, to, bytes);
}

/* Of a .npy file through a pipe, whose header says how many there are. */
static int64_t give_array(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct map *map = user;
    int64_t given = muster_file_source(map->in, begin, items, to, bytes);
    /* Within an item, or between two. */
    if ((given != 0 && given != MUSTER_E_INVALID) || items == 0)
        return given;
    muster_error_fill(&map->problem, MUSTER_E_INVALID, 0, "write it again with numpy.save",
                      "the .npy file ends after %llu of its %llu items", (unsigned long long)begin,
                      (unsigned long long)map->items);
    return map->problem.status;
}

/* Whether nothing follows the array of a pipe. Waits for its end. */
static muster_status check_end(struct map *map, struct muster_error *err)
{
    char byte;
    size_t got = 0;
    muster_status status = muster_file_read(map->in, &byte, 1, &got, err);
    if (status == MUSTER_OK && got > 0)
        status =
            muster_error_fill(err, MUSTER_E_INVALID, 0, "give one array, as numpy.save writes it",
                              "more bytes follow the %llu items that the .npy file's header says",
                              (unsigned long long)map->items);
    return status;
}

static int64_t give_frames(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct map *map = user;
    return video_source(&map->video, begin, items, to, bytes);
}

/* The output. */

static struct muster_file *output_at(const struct map *map, size_t index)
{
    return index == 0 ? map->out : map->more_outs[index - 1];
}

/* Who reads a pipe must not be waited for when nobody takes the results any more. */
static muster_status take_records(void *user, const struct muster_result *result)
{
    struct map *map = user;
    muster_status status = MUSTER_OK;
    if (map->out_count == 1)
        status = muster_file_sink(map->out, result);
    /* In the order of the arguments, which need not be that of the files. */
    for (size_t i = 0; map->out_count > 1 && i < map->out_count && status == MUSTER_OK; i++) {
        size_t at = 0;
        for (size_t k = 0; k < map->out_count; k++)
            at += map->binding.outputs[k] < map->binding.outputs[i];
        status = muster_file_write(output_at(map, i), result->outputs[at], result->output_bytes[at],
                                   NULL);
    }
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

bool map_ends_in_npy(const char *path)
{
    size_t bytes = strlen(path);
    return bytes > 4 && strcmp(path + bytes - 4, ".npy") == 0;
}

/* What a .npy file is to hold: items of the output's elements, in the shape of the input. */
muster_status map_describe_output(const struct map *map, size_t index, struct npy *npy,
                                  struct muster_error *err)
{
    size_t at = map->binding.outputs[index], bytes = map->binding.args[at].bytes;
    if (map->items == MUSTER_ITEMS_UNKNOWN || map->is_video)
        return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                 "give a file as input, or another name to the output",
                                 "a .npy file begins with its number of elements, which is not "
                                 "known of this input");
    if (!npy_of_type(map->binding.types[at], npy))
        npy->element_bytes = bytes;
    if (map->is_npy && map->items == map->npy.elements) {
        memcpy(npy->shape, map->npy.shape, sizeof npy->shape);
        npy->dimensions = map->npy.dimensions;
    } else {
        npy->shape[0] = map->items;
        npy->dimensions = 1;
    }
    if (bytes > npy->element_bytes && npy->dimensions < NPY_DIMENSIONS_MAX)
        npy->shape[npy->dimensions++] = bytes / npy->element_bytes;
    return MUSTER_OK;
}

static muster_status open_output(struct map *map, const char *text, size_t index,
                                 struct muster_error *err)
{
    static char header[NPY_HEADER_MAX];
    const char *path = map_split_name(map->kernel, text, &map->outputs[index]);
    size_t bytes = map->binding.args[map->binding.outputs[index]].bytes, header_bytes = 0;
    struct muster_file_options opening = { .size = sizeof opening, .item_bytes = bytes };
    struct muster_file **file = index == 0 ? &map->out : &map->more_outs[index - 1];
    struct npy npy;
    if (map->items != MUSTER_ITEMS_UNKNOWN &&
        __builtin_mul_overflow(map->items, (uint64_t)bytes, &opening.bytes))
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                 "%llu items of %zu bytes are more than any file has",
                                 (unsigned long long)map->items, bytes);
    muster_status status = MUSTER_OK;
    if (map_ends_in_npy(path)) {
        status = map_describe_output(map, index, &npy, err);
        header_bytes = status == MUSTER_OK ? npy_write(&npy, header) : 0;
        opening.bytes += header_bytes;
    }
    if (status == MUSTER_OK)
        status = muster_file_write_open(map->m, path, &opening, file, err);
    if (status == MUSTER_OK && header_bytes > 0)
        status = muster_file_write(*file, header, header_bytes, err);
    return status == MUSTER_OK && map->is_video ? video_begin(&map->video, *file, err) : status;
}

static muster_status open_outputs(struct map *map, const struct map_options *options,
                                  struct muster_error *err)
{
    muster_status status = open_output(map, options->out, 0, err);
    for (size_t i = 1; i < map->out_count && status == MUSTER_OK; i++)
        status = open_output(map, options->more_outs[i - 1], i, err);
    return status;
}

/* The kernel. */

#define FACTS_MAX 8

/* Samples of a frame, which are its items. */
static uint64_t frame_items(const struct map *map)
{
    return map->is_video ? map->video.y4m.frame_bytes / video_sample_bytes(&map->video) : 0;
}

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
        { "frame", frame_items(map), false },
        { "bits", y4m->bits, false },
    };
    memcpy(facts, known, sizeof known);
    return map->is_video ? FACTS_MAX : 1;
}

static muster_status check_grid(struct map *map, const struct map_options *options,
                                struct muster_error *err)
{
    uint64_t cells = (uint64_t)options->width * options->height, all;
    if (__builtin_mul_overflow(cells, (uint64_t)(options->depth > 0 ? options->depth : 1), &all) ||
        (map->items != MUSTER_ITEMS_UNKNOWN && all != map->items))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give the size that the input has",
                                 "the input has %llu items, and a grid of %u x %u x %u has others",
                                 (unsigned long long)map->items, options->width, options->height,
                                 options->depth > 0 ? options->depth : 1);
    map->items = all;
    return MUSTER_OK;
}

/* What cells there are: as asked for, or as the input's header has it. */
static struct muster_arg find_grid(const struct map *map, const struct map_options *options)
{
    const struct npy *npy = &map->npy;
    struct muster_arg grid = MUSTER_GRID_3D(options->width, options->height, options->depth);
    if (map->is_video) {
        grid.kind = MUSTER_ARG_PICTURES;
        grid.width = map->video.y4m.width;
        grid.height = map->video.y4m.height;
        grid.depth = 0;
        grid.chroma_width = map->video.y4m.chroma_width;
        grid.chroma_height = map->video.y4m.chroma_height;
    } else if (options->width == 0) {
        bool fits = map->is_npy && map->items == npy->elements &&
                    (npy->dimensions == 2 || npy->dimensions == 3);
        for (size_t i = 0; i < npy->dimensions; i++)
            fits = fits && npy->shape[i] <= UINT32_MAX;
        if (!fits)
            return (struct muster_arg){ .kind = 0 };
        /* An array with a side of 0 has no cells, and no grid has such a side. */
        if (npy->elements == 0)
            return (struct muster_arg)MUSTER_GRID_3D(1, 1, npy->dimensions == 3);
        grid.width = (uint32_t)npy->shape[npy->dimensions - 1];
        grid.height = (uint32_t)npy->shape[npy->dimensions - 2];
        grid.depth = npy->dimensions == 3 ? (uint32_t)npy->shape[0] : 0;
    }
    return grid;
}

/* That each array is as long as the first, and has the elements that its pointer points to. */
static muster_status check_arrays(const struct map *map, struct muster_error *err)
{
    char found[16];
    for (size_t i = 0; i < map->binding.input_count; i++) {
        size_t at = map->binding.inputs[i], bytes = map->binding.args[at].bytes;
        const struct mapped *mapped = i > 0 ? &map->mapped[i - 1] : NULL;
        const struct npy *npy = mapped ? &mapped->npy : &map->npy;
        const char *type = map->binding.types[at];
        if (mapped ? mapped->is_npy : map->is_npy) {
            npy_describe(npy, found);
            if (!npy_is_type(npy, type))
                return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                         "change the kernel's pointer, or convert with a.astype",
                                         "input %zu has elements of type %s, and the kernel takes "
                                         "%.60s",
                                         i + 1, found, type);
        }
        if (mapped && (mapped->count % bytes != 0 || mapped->count / bytes != map->items))
            return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                     "give inputs of as many items, and the first as a file",
                                     "input %zu has %zu bytes, which is not %llu items of %zu "
                                     "bytes, as many as the first input has",
                                     i + 1, mapped->count, (unsigned long long)map->items, bytes);
    }
    return MUSTER_OK;
}

/* Kernels for 8 bits must not be run over samples of two bytes. */
static muster_status check_samples(const struct map *map, struct muster_error *err)
{
    uint32_t sample = video_sample_bytes(&map->video);
    const size_t ends[] = { map->binding.inputs[0], map->binding.outputs[0] };
    for (size_t i = 0; i < 2; i++) {
        struct npy npy;
        if (npy_of_type(map->binding.types[ends[i]], &npy) && npy.element_bytes != sample)
            return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                     sample == 2 ? "use pointers to uint16_t"
                                                 : "use pointers to uint8_t",
                                     "the video has %u bits a sample, %u bytes each, and the "
                                     "kernel takes %.60s",
                                     map->video.y4m.bits, sample, map->binding.types[ends[i]]);
    }
    return MUSTER_OK;
}

static const char *wrong_with_video(const struct map *map, const struct map_options *options)
{
    if (options->item_bytes > 0 || options->out_item_bytes > 0)
        return "the items of a video are its samples: leave out --item and --out-item";
    if (options->run.unordered)
        return "the frames of a video have an order: leave out --unordered";
    if (map->input_count > 1 || map->out_count > 1)
        return "a video has one input and one output";
    if (options->width > 0)
        return "the grid of a video is that of its planes: leave out --grid";
    return NULL;
}

static muster_status bind(struct map *map, const struct map_options *options,
                          struct muster_error *err)
{
    struct binding_fact facts[FACTS_MAX];
    size_t sample = map->is_video ? video_sample_bytes(&map->video) : 0;
    const char *wrong = map->is_video ? wrong_with_video(map, options) : NULL;
    muster_status status = MUSTER_OK;
    if (!map->is_video && options->planes != 0)
        wrong = "--planes is for video, and the input is none";
    if (map->out_count > 1 && options->run.unordered)
        wrong = "several outputs are written in order: leave out --unordered";
    if (map->reads_in_order && (map->input_count > 1 || options->run.unordered))
        wrong = "--rest needs a single input, and results in order";
    if (wrong)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "%s", wrong);
    if (options->width > 0)
        status = check_grid(map, options, err);
    if (status != MUSTER_OK)
        return status;
    const struct binding_options binding = {
        .item_bytes = map->is_video ? sample : options->item_bytes,
        .out_item_bytes = map->is_video ? sample : options->out_item_bytes,
        .arguments = options->arguments,
        .argument_count = options->argument_count,
        .facts = facts,
        .fact_count = list_facts(map, facts),
        .inputs = map->inputs,
        .input_count = map->input_count,
        .outputs = map->outputs,
        .output_count = map->out_count,
        .tables = map->named_tables,
        .table_count = map->table_count,
        .is_grid_asked = options->width > 0,
        .grid = find_grid(map, options),
        .input_is = map->input_is,
    };
    status = binding_init(&map->binding, map->kernel, &binding, err);
    if (status == MUSTER_OK && map->is_video)
        status = check_samples(map, err);
    return status == MUSTER_OK ? check_arrays(map, err) : status;
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

/* This many items are whole pages of the input and of the output; 1 where that would be too many. */
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

bool map_takes_cells(const struct map *map)
{
    size_t i = 0;
    while (i < map->binding.count && map->binding.args[i].kind != MUSTER_ARG_GRID &&
           map->binding.args[i].kind != MUSTER_ARG_PICTURES)
        i++;
    return i < map->binding.count;
}

/* Frames become samples. */
static muster_status scale(const struct map *map, struct muster_run_options *run, uint64_t *halo,
                           struct muster_error *err)
{
    uint64_t frame = frame_items(map), unit = run->unit_items;
    run->unit_multiple = frame;
    if (__builtin_mul_overflow(unit, frame, &run->unit_items))
        return too_many("a unit", unit, err);
    /* Of cells it is one already. */
    if (!map_takes_cells(map) && __builtin_mul_overflow(*halo, frame, halo))
        return too_many("a halo", *halo, err);
    frame = map->video.y4m.frame_bytes;
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
    else if (run.unit_items == 0 && map->items != MUSTER_ITEMS_UNKNOWN && !map_takes_cells(map))
        /* What comes from a pipe must not wait for more. */
        run.unit_multiple = page_items(&map->binding);
    run.multiple_is_for_speed = !map->is_video;
    if (status != MUSTER_OK)
        return status;
    run.kept_max = map->is_video || map->out_count > 1 ? 0 : KEPT_MAX;
    for (size_t i = 0; i < map->binding.input_count; i++) {
        map->binding.args[map->binding.inputs[i]].halo = halo;
        map->binding.args[map->binding.inputs[i]].border =
            halo > 0 ? options->border : MUSTER_BORDER_ZERO;
    }
    bool is_file =
        !map->is_video && !map->is_npy_pipe && map->begin_bytes == 0 && !map->reads_in_order;
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .kernel = map->kernel,
                                          .items = map->items,
                                          .args = map->binding.args,
                                          .arg_count = map->binding.count,
                                          .source = map->is_video         ? give_frames
                                                    : map->is_npy_pipe    ? give_array
                                                    : map->reads_in_order ? give_in_order
                                                    : is_file             ? muster_file_source
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
    status = name_files(map, options, err);
    if (status != MUSTER_OK)
        return status;
    *part = MAP_INPUT;
    status = open_input(map, options, err);
    if (status == MUSTER_OK)
        status = open_more(map, options, err);
    if (status != MUSTER_OK)
        return status;
    *part = MAP_KERNEL;
    status = bind(map, options, err);
    if (status != MUSTER_OK)
        return status;
    *part = MAP_OUTPUT;
    return options->is_for_cluster ? MUSTER_OK : open_outputs(map, options, err);
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

static void cancel_outputs(struct map *map)
{
    for (size_t i = 0; i < map->out_count; i++)
        muster_file_cancel(output_at(map, i));
}

void map_cancel(struct map *map)
{
    atomic_store(&map->is_cancelled, true);
    muster_job_cancel(atomic_load(&map->job));
    muster_file_cancel(map->in);
    cancel_outputs(map);
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
    cancel_outputs(map);
    const struct muster_error *problem = map->is_video ? &map->video.problem : &map->problem;
    if (problem->status != MUSTER_OK && problem->status != MUSTER_E_CANCELLED) {
        *part = MAP_INPUT;
        *err = *problem;
    } else if (has_failed(map->in, err)) {
        *part = MAP_INPUT;
    }
    for (size_t i = 0; i < map->out_count; i++)
        if (has_failed(output_at(map, i), err))
            *part = MAP_OUTPUT;
    return err->status;
}

muster_status map_finish(struct map *map, enum map_part *part, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    *part = MAP_INPUT;
    if (map->is_npy_pipe)
        status = check_end(map, err);
    if (status != MUSTER_OK) {
        cancel_outputs(map);
        return status;
    }
    *part = MAP_OUTPUT;
    if (map->tail)
        status = muster_file_write(map->out, map->tail, map->tail_bytes, err);
    /* All that can fail comes first: then each is there, or none. */
    for (size_t i = 0; i < map->out_count && map->out_count > 1 && status == MUSTER_OK; i++)
        status = muster_file_prepare(output_at(map, i), err);
    if (status != MUSTER_OK)
        cancel_outputs(map);
    for (size_t i = 0; i < map->out_count && status == MUSTER_OK; i++)
        status = muster_file_finish(output_at(map, i), err);
    return status;
}

void map_destroy(struct map *map)
{
    if (!map)
        return;
    /* Results that are kept are given back by the file. */
    cancel_outputs(map);
    for (size_t i = 0; i < map->out_count; i++)
        if (output_at(map, i))
            (void)muster_file_finish(output_at(map, i), NULL);
    muster_job_destroy(map->job);
    for (size_t i = 0; i < map->out_count; i++)
        muster_file_close(output_at(map, i));
    muster_file_close(map->in);
    for (size_t i = 0; i < map->table_count; i++)
        if (map->tables[i].generation != 0)
            (void)muster_data_destroy(map->m, map->tables[i], NULL);
    for (size_t i = 0; i < MUSTER_ARGS_MAX; i++)
        mapped_close(&map->mapped[i]);
    free(map->tail);
    if (map->has_video)
        video_deinit(&map->video);
    muster_kernel_destroy(map->kernel);
    free(map);
}
