#include "runtime.h"

#include "message.h"

static bool is_left;

void runtime_close(struct muster *m)
{
    struct muster_counters counters = { .size = sizeof counters };
    struct muster_error error;
    if (muster_counters(m, &counters, NULL) == MUSTER_OK && counters.opening > 0) {
        is_left = true;
        return;
    }
    /* The fix would be to restart the process, which ends anyway. */
    if (muster_close(m, &error) != MUSTER_OK)
        message_error("%s", error.text);
}

bool runtime_is_left(void)
{
    return is_left;
}
