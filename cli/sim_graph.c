#include "sim_graph.h"

#include "figures.h"
#include "json.h"
#include "message.h"
#include "table.h"

#include <stdio.h>

static void print_json(const struct muster_graph_simulation *simulation, struct output *out)
{
    struct json json;
    json_init(&json, out);
    json_begin_object(&json, NULL);
    json_number(&json, "seed", simulation->seed);
    json_text(&json, "status", simulation->status == MUSTER_OK ? "ok" : "failed");
    json_number(&json, "makespan_ns", simulation->makespan_ns);
    json_number(&json, "bound_ns", simulation->bound_ns);
    json_real(&json, "ratio", simulation->ratio);
    json_number(&json, "critical_path_ns", simulation->critical_path_ns);
    json_number(&json, "area_ns", simulation->area_ns);
    json_number(&json, "tasks", simulation->tasks);
    json_number(&json, "ended", simulation->ended);
    json_number(&json, "failed", simulation->failed);
    json_number(&json, "cancelled", simulation->cancelled);
    json_number(&json, "moved", simulation->moved);
    json_number(&json, "copies", simulation->copies);
    json_number(&json, "copied_bytes", simulation->copied_bytes);
    json_number(&json, "evictions", simulation->evictions);
    json_number(&json, "written_back_bytes", simulation->written_back_bytes);
    json_number(&json, "wrong", simulation->wrong);
    json_begin_array(&json, "devices");
    for (size_t i = 0; i < simulation->device_count && !output_failed(out); i++) {
        const struct muster_graph_simulation_device *device = simulation->devices[i];
        json_begin_object(&json, NULL);
        json_text(&json, "id", device->id);
        json_text(&json, "name", device->name);
        json_number(&json, "tasks", device->tasks);
        json_number(&json, "busy_ns", device->busy_ns);
        json_number(&json, "bytes_in", device->bytes_in);
        json_number(&json, "bytes_out", device->bytes_out);
        json_text(&json, "health", device->health);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    output_text(out, "\n");
}

static void print_line(struct output *out, const char *name, const char *figure, const char *words)
{
    output_column(out, name, 14, false);
    output_column(out, figure, 12, true);
    output_text(out, *words ? "  " : "");
    output_column(out, words, 0, false);
    output_text(out, "\n");
}

static void print_head(const struct muster_graph_simulation *simulation, struct output *out)
{
    char figure[FIGURE_BYTES], other[2][FIGURE_BYTES], words[160];
    figure_time(simulation->makespan_ns, figure);
    print_line(out, "makespan", figure, "");
    figure_time(simulation->critical_path_ns, figure);
    print_line(out, "critical path", figure, "each task on the fastest device");
    figure_time(simulation->area_ns, figure);
    print_line(out, "area", figure, "all work over all rates");
    snprintf(figure, sizeof figure, "%.4f", simulation->ratio);
    print_line(out, "ratio", figure, "makespan over the larger of the two");
    figure_count(simulation->tasks, figure);
    figure_count(simulation->failed, other[0]);
    figure_count(simulation->cancelled, other[1]);
    snprintf(words, sizeof words, "%s failed, %s cancelled", other[0], other[1]);
    print_line(out, "tasks", figure, words);
    figure_count(simulation->copies, figure);
    figure_count(simulation->evictions, other[0]);
    snprintf(words, sizeof words, "of %.1f MB; %s evictions",
             (double)simulation->copied_bytes / 1e6, other[0]);
    print_line(out, "copies", figure, words);
}

enum { DEVICE, NAME, TASKS, SHARE, BUSY, IN, OUT, HEALTH, COLUMN_COUNT };
_Static_assert(COLUMN_COUNT <= TABLE_COLUMNS_MAX, "every column has a cell");

static void device_row(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES])
{
    const struct muster_graph_simulation *simulation = rows;
    const struct muster_graph_simulation_device *device = simulation->devices[index];
    snprintf(cells[DEVICE], TABLE_CELL_BYTES, "%s", device->id);
    snprintf(cells[NAME], TABLE_CELL_BYTES, "%s", device->name);
    figure_count(device->tasks, cells[TASKS]);
    figure_share(device->tasks, simulation->ended, cells[SHARE]);
    figure_share(device->busy_ns, simulation->makespan_ns, cells[BUSY]);
    snprintf(cells[IN], TABLE_CELL_BYTES, "%.1f", (double)device->bytes_in / 1e6);
    snprintf(cells[OUT], TABLE_CELL_BYTES, "%.1f", (double)device->bytes_out / 1e6);
    snprintf(cells[HEALTH], TABLE_CELL_BYTES, "%s", device->health);
}

static void print_text(const struct muster_graph_simulation *simulation, struct output *out)
{
    static const struct table_column columns[COLUMN_COUNT] = {
        [DEVICE] = { "DEVICE", false, false }, [NAME] = { "NAME", false, false },
        [TASKS] = { "TASKS", true, false },    [SHARE] = { "SHARE", true, false },
        [BUSY] = { "BUSY", true, false },      [IN] = { "MB IN", true, false },
        [OUT] = { "MB OUT", true, false },     [HEALTH] = { "HEALTH", false, false },
    };
    print_head(simulation, out);
    output_text(out, "\n");
    table_print(columns, COLUMN_COUNT, device_row, simulation, simulation->device_count, out);
}

enum exit_code sim_graph_report(const char *name, const struct muster_graph_simulation *simulation,
                                bool as_json, struct output *out)
{
    if (as_json)
        print_json(simulation, out);
    else
        print_text(simulation, out);
    if (simulation->status == MUSTER_OK)
        return EXIT_DONE;
    output_flush(out);
    if (simulation->broken || simulation->wrong > 0)
        message_error("%s: Muster broke a rule of its own: %s", name,
                      simulation->broken ? simulation->broken : "a tile has the wrong content");
    else
        message_error("%s: %llu tasks failed and %llu were cancelled", name,
                      (unsigned long long)simulation->failed,
                      (unsigned long long)simulation->cancelled);
    return EXIT_FAILED;
}
