/*
 * One pick as asked for on the command line, and what it looked at: shared by `muster pick` and
 * `muster explain`.
 */
#ifndef CLI_PLACEMENT_H
#define CLI_PLACEMENT_H

#include "command.h"

#include <muster/policy.h>

enum {
    PLACEMENT_POLICY,
    PLACEMENT_MIN_FREE,
    PLACEMENT_MIN_CC,
    PLACEMENT_BACKEND,
    PLACEMENT_DEVICES,
    PLACEMENT_SLICES,
    PLACEMENT_JSON,
    PLACEMENT_OPTION_COUNT
};
/* The hints, in the order above: the first rows of the tables of pick, explain and exec. */
/* clang-format off */
#define PLACEMENT_HINT_ROWS(policy_help)                                                           \
    [PLACEMENT_POLICY] = { .name = "policy", .kind = OPTION_TEXT, .value = "P",                    \
                           .help = policy_help },                                                  \
    [PLACEMENT_MIN_FREE] = { .name = "min-free", .kind = OPTION_SIZE, .value = "SIZE",             \
                             .help = "free memory that the device must have: 512MiB, 1.5G, 80GB" },             \
    [PLACEMENT_MIN_CC] = { .name = "min-cc", .kind = OPTION_TEXT, .value = "X.Y",                  \
                           .help = "the least compute capability: 8.0" },                                 \
    [PLACEMENT_BACKEND] = { .name = "backend", .kind = OPTION_TEXT, .value = "LIST",               \
                            .help = "only devices of these backends: cuda,opencl" },       \
    [PLACEMENT_DEVICES] = { .name = "devices", .old_name = "device", .kind = OPTION_TEXT,          \
                            .value = "LIST",                                                       \
                            .help = "use only these, by id or backend: cpu,cuda:0" }
/* clang-format on */
/* For the details of the commands, and for who names another. */
#define PLACEMENT_POLICIES "adaptive, round-robin, least-loaded, weighted, earliest-finish, sticky"
extern const struct option placement_options[PLACEMENT_OPTION_COUNT];

struct placement {
    struct muster *m;                   /* owns */
    const struct muster_policy *policy; /* NULL: the library's choice */
    struct muster_hints hints;
    struct muster_decision decision;
    muster_status status; /* of the pick: MUSTER_OK or MUSTER_E_NO_DEVICE */
    struct muster_error error;
};

/* EXIT_DONE: the pick was made, or refused, and placement_close must follow. Else it was told why. */
enum exit_code placement_open(struct placement *placement, const char *command,
                              const struct option_value *values);
/* The same in two steps: only opens the runtime, and only picks, which may be done again. */
enum exit_code placement_prepare(struct placement *placement, const char *command,
                                 const struct option_value *values);
enum exit_code placement_pick(struct placement *placement);
void placement_close(struct placement *placement);

/* The id of the decision's device number `index`. */
void placement_id(const struct placement *placement, uint32_t index, char *id, size_t bytes);

/* What the hint asks for and what the device has, in words: "needs 2.0 TiB, has 23.1 GiB". */
void placement_reason(const struct placement *placement, uint32_t index, char *words, size_t bytes);

/* A compute capability as "9.0", in [text, end). */
bool placement_read_version(const char *text, const char *end, uint16_t version[2]);

#endif
