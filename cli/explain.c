/*
 * `muster explain`: what a pick looks at, device by device, and why it falls as it does.
 */
#include "json.h"
#include "placement.h"
#include "table.h"

#include <stdio.h>

static void fill_row(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES])
{
    const struct placement *placement = rows;
    uint32_t i = (uint32_t)index;
    bool is_eligible = placement->decision.devices[i].refusal == MUSTER_REFUSED_NOT;
    placement_id(placement, i, cells[0], TABLE_CELL_BYTES);
    snprintf(cells[1], TABLE_CELL_BYTES, "-");
    if (is_eligible)
        snprintf(cells[1], TABLE_CELL_BYTES, "%.6g", placement->decision.devices[i].score);
    if (placement->decision.chosen == (int32_t)i)
        snprintf(cells[2], TABLE_CELL_BYTES, "picked");
    else if (is_eligible)
        snprintf(cells[2], TABLE_CELL_BYTES, "eligible");
    else
        placement_reason(placement, i, cells[2], TABLE_CELL_BYTES);
}

static void print_text(const struct placement *placement, struct output *out)
{
    static const struct table_column columns[] = { { .title = "ID" },
                                                   { .title = "SCORE", .right = true },
                                                   { .title = "OUTCOME" } };
    output_text(out, "policy ");
    output_column(out, placement->decision.policy, 0, false);
    output_text(out, "\n");
    table_print(columns, 3, fill_row, placement, placement->decision.device_count, out);
}

static void print_json(const struct placement *placement, struct output *out)
{
    struct json json;
    char id[24];
    json_init(&json, out);
    json_begin_object(&json, NULL);
    json_text(&json, "policy", placement->decision.policy);
    json_begin_array(&json, "devices");
    for (uint32_t i = 0; i < placement->decision.device_count; i++) {
        bool is_eligible = placement->decision.devices[i].refusal == MUSTER_REFUSED_NOT;
        placement_id(placement, i, id, sizeof id);
        json_begin_object(&json, NULL);
        json_text(&json, "id", id);
        if (is_eligible) {
            json_real(&json, "score", placement->decision.devices[i].score);
            json_null(&json, "refused");
        } else {
            json_null(&json, "score");
            json_text(&json, "refused",
                      muster_refusal_name(placement->decision.devices[i].refusal));
        }
        json_text(&json, "outcome",
                  placement->decision.chosen == (int32_t)i ? "picked"
                  : is_eligible                            ? "eligible"
                                                           : "refused");
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    output_text(out, "\n");
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    struct placement placement;
    (void)argument;
    enum exit_code code = placement_open(&placement, "explain", values);
    if (code != EXIT_DONE)
        return code;
    if (values[PLACEMENT_JSON].given)
        print_json(&placement, out);
    else
        print_text(&placement, out);
    code = placement.status == MUSTER_OK ? EXIT_DONE : EXIT_NO_DEVICE;
    placement_close(&placement);
    return code;
}

const struct command command_explain = {
    .name = "explain",
    .summary = "show how `muster pick` decides, and why",
    .details =
        "Makes the same pick as `muster pick` with the same options, and shows every device with "
        "its\n"
        "score (the largest wins) or the hint that refused it. The exit status is that of\n"
        "`muster pick`.\n"
        "\n"
        "Policies: " PLACEMENT_POLICIES ".\n"
        "\n"
        "JSON: {\"policy\":P,\"devices\":[{\"id\",\"score\",\"refused\",\"outcome\"},...]}\n",
    .options = placement_options,
    .option_count = PLACEMENT_OPTION_COUNT,
    .run = run,
};
