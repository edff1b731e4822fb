#include "platform/installed.h"

#include "platform/child.h"
#include "platform/library.h"

#include <muster/runtime.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT(number) #number
#define VERSIONED(major, minor) "muster-" TEXT(major) "." TEXT(minor) "/"
/* As the soname: files of two versions are installed side by side. */
#define OWN VERSIONED(MUSTER_VERSION_MAJOR, MUSTER_VERSION_MINOR)
#define HERE_BYTES 4096

/* From the folder of a program, and from the folder of a library. Debian's libraries are in a folder for each architecture. */
static const char *const from_program[] = { "",
                                            OWN,
                                            "../libexec/muster/",
                                            "../lib/",
                                            "../lib64/",
                                            "../lib/" OWN,
                                            "../lib64/" OWN,
                                            "../lib/x86_64-linux-gnu/",
                                            "../lib/x86_64-linux-gnu/" OWN,
                                            "../lib/aarch64-linux-gnu/",
                                            "../lib/aarch64-linux-gnu/" OWN };
static const char *const from_library[] = { "", OWN, "../libexec/muster/",
                                            "../../libexec/muster/" };

static char own_symbol;

static bool find_below(const char *file, const char *const *folders, size_t count, const char *name,
                       bool is_program, char *path, size_t bytes)
{
    const char *slash = strrchr(file, '/');
    /* A name without a folder would be looked for in the working folder, which may be anybody's. */
    if (!slash)
        return false;
    for (size_t i = 0; i < count; i++) {
        int written =
            snprintf(path, bytes, "%.*s%s%s", (int)(slash - file) + 1, file, folders[i], name);
        if (written > 0 && (size_t)written < bytes &&
            (is_program ? platform_is_program(path) : access(path, R_OK) == 0))
            return true;
    }
    return false;
}

bool platform_installed_find(const char *name, bool is_program, char *path, size_t bytes)
{
    char here[HERE_BYTES];
    return (platform_program_path(here, sizeof here) &&
            find_below(here, from_program, sizeof from_program / sizeof *from_program, name,
                       is_program, path, bytes)) ||
           (platform_symbol_file(&own_symbol, here, sizeof here) &&
            find_below(here, from_library, sizeof from_library / sizeof *from_library, name,
                       is_program, path, bytes));
}
