#include "placement.h"

#include "bytes.h"
#include "message.h"
#include "slices.h"

#include <stdio.h>
#include <string.h>

const struct option placement_options[PLACEMENT_OPTION_COUNT] = {
    PLACEMENT_HINT_ROWS("one of the policies above (adaptive)"),
    [PLACEMENT_SLICES] = SLICES_OPTION,
    [PLACEMENT_JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print JSON" },
};

/* Digits up to `end`, below 65536. */
static bool read_part(const char *text, const char *end, uint16_t *out)
{
    uint32_t number = 0;
    if (text == end)
        return false;
    for (; text < end; text++) {
        if (*text < '0' || *text > '9' || number > UINT16_MAX)
            return false;
        number = number * 10 + (uint32_t)(*text - '0');
    }
    *out = (uint16_t)number;
    return number <= UINT16_MAX;
}

bool placement_read_version(const char *text, const char *end, uint16_t version[2])
{
    const char *point = memchr(text, '.', (size_t)(end - text));
    return point && read_part(text, point, &version[0]) && read_part(point + 1, end, &version[1]);
}

static bool read_values(struct placement *placement, const char *command,
                        const struct option_value *values, const struct muster_policy **policy)
{
    struct muster_hints *hints = &placement->hints;
    *hints = (struct muster_hints){ .size = sizeof *hints };
    *policy = NULL;
    if (values[PLACEMENT_POLICY].given) {
        *policy = muster_policy_named(values[PLACEMENT_POLICY].text);
        if (!*policy) {
            message_usage(command, "unknown policy '%s'; known: " PLACEMENT_POLICIES,
                          values[PLACEMENT_POLICY].text);
            return false;
        }
    }
    hints->min_free = values[PLACEMENT_MIN_FREE].number;
    if (values[PLACEMENT_MIN_CC].given &&
        !placement_read_version(values[PLACEMENT_MIN_CC].text,
                                strchr(values[PLACEMENT_MIN_CC].text, '\0'), hints->min_cc)) {
        message_usage(command, "--min-cc takes two numbers as in 8.0, not '%s'",
                      values[PLACEMENT_MIN_CC].text);
        return false;
    }
    hints->backends = values[PLACEMENT_BACKEND].text;
    hints->devices = values[PLACEMENT_DEVICES].text;
    return true;
}

/* A pick among other devices than were asked for is none. Told, if it is so. */
static enum exit_code check_slices(struct muster *m, const struct option_value *slices,
                                   struct muster_error *error)
{
    struct inventory inventory;
    if (!slices_asked(slices))
        return EXIT_DONE;
    if (inventory_init(&inventory, m, error) != MUSTER_OK) {
        message_library(NULL, error);
        return EXIT_FAILED;
    }
    bool are_cut = slices_check(slices, &inventory);
    inventory_deinit(&inventory);
    return are_cut ? EXIT_DONE : EXIT_USAGE;
}

enum exit_code placement_prepare(struct placement *placement, const char *command,
                                 const struct option_value *values)
{
    if (!read_values(placement, command, values, &placement->policy))
        return EXIT_USAGE;
    struct muster_error *error = &placement->error;
    struct muster_options how = MUSTER_OPTIONS_INIT;
    how.slices = values[PLACEMENT_SLICES].text;
    if (muster_open(&placement->m, &how, error) != MUSTER_OK) {
        message_library(NULL, error);
        return error->status == MUSTER_E_NO_MEMORY ? EXIT_FAILED : EXIT_USAGE;
    }
    enum exit_code code = check_slices(placement->m, &values[PLACEMENT_SLICES], error);
    if (code != EXIT_DONE)
        placement_close(placement);
    return code;
}

enum exit_code placement_pick(struct placement *placement)
{
    muster_lease lease;
    muster_device device;
    size_t count;
    struct muster_error *error = &placement->error;
    placement->status =
        muster_pick(placement->m, placement->policy, &placement->hints, &lease, &device, error);
    if (placement->status != MUSTER_OK && placement->status != MUSTER_E_NO_DEVICE) {
        message_library(NULL, error);
        return error->status == MUSTER_E_NOT_FOUND ? EXIT_USAGE : EXIT_FAILED;
    }
    placement->decision.size = sizeof placement->decision;
    muster_explain(placement->m, &placement->decision, 1, &count, error);
    /* It must not count against its device if there is another pick. */
    if (placement->status == MUSTER_OK)
        muster_lease_release(placement->m, lease, error);
    return EXIT_DONE;
}

enum exit_code placement_open(struct placement *placement, const char *command,
                              const struct option_value *values)
{
    enum exit_code code = placement_prepare(placement, command, values);
    if (code != EXIT_DONE)
        return code;
    code = placement_pick(placement);
    if (code != EXIT_DONE)
        placement_close(placement);
    return code;
}

void placement_close(struct placement *placement)
{
    struct muster_error error;
    if (muster_close(placement->m, &error) != MUSTER_OK)
        message_library(NULL, &error);
}

void placement_id(const struct placement *placement, uint32_t index, char *id, size_t bytes)
{
    struct muster_device_info info = { .size = sizeof info };
    if (muster_device_info(placement->m, placement->decision.devices[index].device, &info, NULL) !=
        MUSTER_OK)
        info.id[0] = 0;
    snprintf(id, bytes, "%s", info.id);
}

void placement_reason(const struct placement *placement, uint32_t index, char *words, size_t bytes)
{
    muster_device device = placement->decision.devices[index].device;
    enum muster_refusal refusal = placement->decision.devices[index].refusal;
    struct muster_device_info info = { .size = sizeof info };
    struct muster_device_load load = { .size = sizeof load };
    char needs[32], has[32];
    muster_device_info(placement->m, device, &info, NULL);
    muster_device_load(placement->m, device, &load, NULL);
    snprintf(words, bytes, "%s", muster_refusal_name(refusal));
    if (refusal == MUSTER_REFUSED_MIN_FREE) {
        bytes_format(placement->hints.min_free, needs, sizeof needs);
        bytes_format(load.memory_free, has, sizeof has);
        snprintf(words, bytes, "min_free: needs %s, has %s", needs, has);
    } else if (refusal == MUSTER_REFUSED_MIN_CC) {
        snprintf(words, bytes, "min_cc: needs %u.%u, has %u.%u", placement->hints.min_cc[0],
                 placement->hints.min_cc[1], info.compute[0], info.compute[1]);
    } else if (refusal == MUSTER_REFUSED_HEALTH) {
        snprintf(words, bytes, "health: %s", muster_health_name(load.health));
    } else if (refusal == MUSTER_REFUSED_BACKENDS) {
        snprintf(words, bytes, "backends: %s is not among %s", info.backend,
                 placement->hints.backends);
    } else if (refusal == MUSTER_REFUSED_DEVICES) {
        snprintf(words, bytes, "devices: not among %s", placement->hints.devices);
    }
}
