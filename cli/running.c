#include "running.h"

#include "log.h"
#include "message.h"

/* How long a command waits, at its end, for a device or driver that does not answer. */
#define PATIENCE_NS 2000000000u

static const char *kernel_words[RUNNING_KERNELS_MAX], *argument_words[2 * MUSTER_ARGS_MAX];
struct arguments running_kernels = { kernel_words, 0, RUNNING_KERNELS_MAX },
                 running_arguments = { argument_words, 0, 2 * MUSTER_ARGS_MAX };

bool running_read(const struct option_value *values, const char *command,
                  struct muster_run_options *run)
{
    if (values[RUNNING_UNIT].given && values[RUNNING_UNIT].number == 0)
        message_usage(command, "--unit cannot be 0");
    else if (values[RUNNING_WINDOW].given && values[RUNNING_WINDOW].number == 0)
        message_usage(command, "--window cannot be 0");
    else {
        run->unit_items = values[RUNNING_UNIT].number;
        run->policy = values[RUNNING_POLICY].text;
        run->affinity = values[RUNNING_AFFINITY].number;
        run->window_bytes = values[RUNNING_WINDOW].number;
        run->no_copies = values[RUNNING_NO_SPECULATION].given;
        run->everyone = values[RUNNING_EVERYONE].given;
        return true;
    }
    return false;
}

muster_status running_open(const struct option_value *devices, struct muster **m,
                           struct muster_error *error)
{
    struct muster_options opening = MUSTER_OPTIONS_INIT;
    opening.devices = devices->text;
    opening.close_ns = PATIENCE_NS;
    log_set(&opening);
    return muster_open(m, &opening, error);
}
