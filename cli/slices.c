#include "slices.h"

#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *slices_asked(const struct option_value *option)
{
    return option->given ? option->text : getenv("MUSTER_SLICES");
}

bool slices_ask_for(const struct option_value *option, const char *backend)
{
    const char *at = slices_asked(option);
    size_t length = strlen(backend);
    while (at && *at) {
        if (strncmp(at, backend, length) == 0 && at[length] == ':')
            return true;
        at += strcspn(at, ";");
        at += strspn(at, ";");
    }
    return false;
}

bool slices_check(const struct option_value *option, const struct inventory *inventory)
{
    bool are_cut = true;
    for (size_t i = 0; i < inventory->backend_count; i++) {
        const struct muster_backend_report *report = &inventory->backends[i];
        if (report->error.status == MUSTER_OK || !slices_ask_for(option, report->name))
            continue;
        char subject[48];
        snprintf(subject, sizeof subject, "slices of backend %s", report->name);
        message_library(subject, &report->error);
        are_cut = false;
    }
    return are_cut;
}
