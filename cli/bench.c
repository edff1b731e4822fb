#include "command.h"
static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    (void)values;
    (void)argument;
    (void)out;
    return EXIT_DONE;
}
const struct command command_bench = { .name = "bench", .summary = "", .details = "", .run = run };
