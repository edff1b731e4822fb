/*
 * `muster pick`: the id of the device that a piece of work should go to, for scripts.
 */
#include "json.h"
#include "message.h"
#include "placement.h"

static void print_refusals(const struct placement *placement)
{
    char id[24], words[160];
    message_error("no device is eligible");
    for (uint32_t i = 0; i < placement->decision.device_count; i++) {
        placement_id(placement, i, id, sizeof id);
        placement_reason(placement, i, words, sizeof words);
        message_detail("%s refused by %s", id, words);
    }
}

static void print_json(const struct placement *placement, const char *id, struct output *out)
{
    struct json json;
    char other[24];
    json_init(&json, out);
    json_begin_object(&json, NULL);
    if (placement->status == MUSTER_OK)
        json_text(&json, "device", id);
    else
        json_null(&json, "device");
    json_text(&json, "policy", placement->decision.policy);
    json_begin_array(&json, "refused");
    for (uint32_t i = 0; i < placement->decision.device_count; i++) {
        if (placement->decision.devices[i].refusal == MUSTER_REFUSED_NOT)
            continue;
        placement_id(placement, i, other, sizeof other);
        json_begin_object(&json, NULL);
        json_text(&json, "id", other);
        json_text(&json, "hint", muster_refusal_name(placement->decision.devices[i].refusal));
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
    enum exit_code code = placement_open(&placement, "pick", values);
    if (code != EXIT_DONE)
        return code;
    bool is_picked = placement.status == MUSTER_OK;
    char id[24] = "";
    if (is_picked)
        placement_id(&placement, (uint32_t)placement.decision.chosen, id, sizeof id);
    if (values[PLACEMENT_JSON].given) {
        print_json(&placement, id, out);
    } else if (is_picked) {
        output_text(out, id);
        output_text(out, "\n");
    }
    if (!is_picked)
        print_refusals(&placement);
    placement_close(&placement);
    return is_picked ? EXIT_DONE : EXIT_NO_DEVICE;
}

const struct command command_pick = {
    .name = "pick",
    .summary = "print the device that work should go to",
    .details = "The hints (--min-free, --min-cc, --backend) refuse devices. The policy picks one "
               "of the rest.\n"
               "Exit status 3: every device was refused, and standard error names the hint for "
               "each; 2: wrong\n"
               "usage, or a device cannot be cut as --slices or MUSTER_SLICES asks.\n"
               "\n"
               "Policies: " PLACEMENT_POLICIES ".\n"
               "\n"
               "JSON: {\"device\":ID,\"policy\":P,\"refused\":[{\"id\",\"hint\"},...]}. A null "
               "device: all were refused.\n",
    .options = placement_options,
    .option_count = PLACEMENT_OPTION_COUNT,
    .run = run,
};
