/*
 * `muster version`: the version of the command and of the library it runs with, which may be
 * another one.
 */
#include "command.h"
#include "json.h"

#include <muster/runtime.h>
#include <string.h>

enum { JSON };

static const struct option options[] = {
    [JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print JSON" },
};

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    (void)argument;
    if (values[JSON].given) {
        struct json json;
        json_init(&json, out);
        json_begin_object(&json, NULL);
        json_text(&json, "version", MUSTER_VERSION_STRING);
        json_text(&json, "library", muster_version());
        json_end_object(&json);
    } else {
        output_text(out, "muster " MUSTER_VERSION_STRING);
        if (strcmp(muster_version(), MUSTER_VERSION_STRING) != 0) {
            output_text(out, " with library ");
            output_text(out, muster_version());
        }
    }
    output_text(out, "\n");
    return EXIT_DONE;
}

const struct command command_version = {
    .name = "version",
    .summary = "print the version",
    .details = "Prints the version of the command and, where it differs, of the library it is "
               "running with.\n"
               "JSON: {\"version\":\"X.Y.Z\",\"library\":\"X.Y.Z\"}\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
