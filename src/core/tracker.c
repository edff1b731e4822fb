#include "core/tracker.h"

#include "base/invariant.h"

#include <string.h>

static void add(struct tracker_marks *marks, struct tracker_mark mark)
{
    INVARIANT(marks->count < TRACKER_READERS_MAX + 1);
    marks->marks[marks->count++] = mark;
}

static uint32_t find_reader(const struct tracker *tracker, uint64_t stream)
{
    uint32_t i = 0;
    while (i < tracker->reader_count && tracker->readers[i].stream != stream)
        i++;
    return i;
}

void tracker_plan(const struct tracker *tracker, uint64_t stream, enum muster_access access,
                  struct tracker_marks *waits)
{
    waits->count = 0;
    if (access & MUSTER_WRITES)
        for (uint32_t i = 0; i < tracker->reader_count; i++)
            if (tracker->readers[i].stream != stream)
                add(waits, tracker->readers[i]);
    /* Every reader followed the writer, so a write that follows a reader follows the writer too. */
    bool follows_a_reader = (access & MUSTER_WRITES) && tracker->reader_count > 0;
    if (!follows_a_reader && tracker->writer.stream != 0 && tracker->writer.stream != stream)
        add(waits, tracker->writer);
    if (!(access & MUSTER_WRITES) && tracker->reader_count == TRACKER_READERS_MAX &&
        find_reader(tracker, stream) == TRACKER_READERS_MAX)
        add(waits, tracker->readers[0]);
}

static void remove_reader(struct tracker *tracker, uint32_t index, struct tracker_marks *dropped)
{
    add(dropped, tracker->readers[index]);
    tracker->reader_count--;
    memmove(&tracker->readers[index], &tracker->readers[index + 1],
            (tracker->reader_count - index) * sizeof tracker->readers[0]);
}

void tracker_commit(struct tracker *tracker, struct tracker_mark mark, enum muster_access access,
                    struct tracker_marks *dropped)
{
    INVARIANT(mark.stream != 0);
    if (access & MUSTER_WRITES) {
        tracker_clear(tracker, dropped);
        tracker->writer = mark;
        return;
    }
    dropped->count = 0;
    uint32_t mine = find_reader(tracker, mark.stream);
    if (mine < tracker->reader_count)
        remove_reader(tracker, mine, dropped);
    else if (tracker->reader_count == TRACKER_READERS_MAX)
        remove_reader(tracker, 0, dropped);
    tracker->readers[tracker->reader_count++] = mark;
}

void tracker_clear(struct tracker *tracker, struct tracker_marks *dropped)
{
    dropped->count = 0;
    if (tracker->writer.stream != 0)
        add(dropped, tracker->writer);
    for (uint32_t i = 0; i < tracker->reader_count; i++)
        add(dropped, tracker->readers[i]);
    *tracker = (struct tracker){ .reader_count = 0 };
}
