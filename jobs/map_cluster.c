/*
 * A map as other machines must know it: what is not for many machines is refused by name.
 */
#include "map_state.h"

#include <errno.h>
#include <muster/backend.h>
#include <string.h>
#include <sys/stat.h>

static const char *only_here(const struct map *map, const struct map_options *options)
{
    if (map->is_video)
        return "video";
    if (map->input_count > 1 || map->out_count > 1)
        return "several inputs or outputs";
    if (options->halo > 0 || map_takes_cells(map))
        return "neighbours and grids";
    if (options->rest != MAP_REST_REFUSED)
        return "--rest";
    if (map->items == MUSTER_ITEMS_UNKNOWN || map->in_bytes == MUSTER_ITEMS_UNKNOWN)
        return "an input that is a pipe";
    if (options->run.unordered || options->run.policy || options->run.window_bytes > 0)
        return "--unordered, --policy and --window";
    return NULL;
}

muster_status map_describe(struct map *map, const struct map_options *options,
                           struct map_cluster *out, struct muster_error *err)
{
    struct binding_file named;
    struct stat facts;
    struct npy npy;
    const char *wrong = only_here(map, options);
    const char *in = map_split_name(map->kernel, options->in, &named);
    const char *path = map_split_name(map->kernel, options->out, &named);
    if (!wrong && (strcmp(in, "-") == 0 || strcmp(path, "-") == 0))
        wrong = "standard input and output";
    if (wrong)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "run it without --cluster",
                                 "a cluster runs maps without %s", wrong);
    if (map->items == 0)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "run it without --cluster",
                                 "the input is empty: nothing to share out");
    if (stat(in, &facts) != 0 || (uint64_t)facts.st_size < map->in_bytes)
        return muster_error_fill(err, MUSTER_E_IO, errno, NULL, "%.120s has changed", in);
    size_t head = 0;
    memset(&npy, 0, sizeof npy);
    if (map_ends_in_npy(path)) {
        muster_status status = map_describe_output(map, 0, &npy, err);
        if (status != MUSTER_OK)
            return status;
        head = npy_write(&npy, out->head);
    }
    memcpy(out->args, map->binding.args, sizeof out->args);
    for (size_t i = 0; i < map->binding.count; i++)
        for (size_t k = 0; k < map->table_count && out->args[i].kind == MUSTER_ARG_ALL; k++)
            if (map->tables[k].index == out->args[i].data.index &&
                map->tables[k].generation == out->args[i].data.generation) {
                out->args[i].in = map->mapped[options->more_in_count + k].bytes;
                out->args[i].bytes = map->mapped[options->more_in_count + k].count;
            }
    out->desc = (struct muster_cluster_desc){ .size = sizeof out->desc,
                                              .kernels = options->kernels,
                                              .kernel_count = options->kernel_count,
                                              .entry = options->entry,
                                              .items = map->items,
                                              .args = out->args,
                                              .arg_count = map->binding.count,
                                              .in = in,
                                              .in_offset = (uint64_t)facts.st_size - map->in_bytes,
                                              .out = path,
                                              .out_head = out->head,
                                              .out_offset = head };
    return MUSTER_OK;
}
