#include "log.h"

#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_verbose;

bool log_begin(const struct option_value *values, const char *command)
{
    const char *path = values[LOG_FILE].text;
    is_verbose = values[LOG_VERBOSE].given;
    if (!values[LOG_FILE].given)
        return true;
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) {
        message_usage(command, "--log %s: %s", path, strerror(errno));
        return false;
    }
    close(file);
    setenv("MUSTER_LOG", path, 1);
    return true;
}

/* Without -v only what compilers say of kernels; the rest is in reports and messages. */
void log_line(void *user, enum muster_log_level level, const char *text)
{
    (void)user, (void)level;
    if (is_verbose || strncmp(text, "kernel ", 7) == 0)
        message_error("%s", text);
}

void log_set(struct muster_options *options)
{
    options->log = log_line;
    options->log_level = is_verbose ? MUSTER_LOG_INFO : MUSTER_LOG_WARNING;
}
