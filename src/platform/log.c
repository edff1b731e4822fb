#include "platform/log.h"

#include "platform/machine.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 640

static const char *file_name(void)
{
    const char *name = platform_environment("MUSTER_LOG");
    return name && *name ? name : NULL;
}

bool platform_log_is_wanted(void)
{
    return file_name() != NULL;
}

void platform_log(const char *word, const char *text)
{
    const char *name = file_name();
    char line[LINE_BYTES];
    if (!name)
        return;
    int length = snprintf(line, sizeof line - 1, "muster %ld %s: %s", (long)getpid(), word, text);
    if (length < 0)
        return;
    size_t bytes = (size_t)length < sizeof line - 1 ? (size_t)length : sizeof line - 2;
    line[bytes++] = '\n';
    bool is_file = strcmp(name, "-") != 0;
    int file =
        is_file ? open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : STDERR_FILENO;
    if (file < 0)
        return;
    (void)!write(file, line, bytes);
    if (is_file)
        close(file);
}
