/*
 * The reader of live pages on any page: it stays within its bounds, and what it gives is sound whatever the
 * page says. The input is a list of changes to a page that is in order, since nothing is read of others:
 * 4 bytes say where, 8 what. The sequence numbers may change while a record is read.
 */
#include "observe/live_read.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct live_page page;
static struct seen_runtime seen;
static uint64_t reads, torn_every;

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool read_page(void *user, uint64_t offset, void *to, size_t bytes)
{
    (void)user;
    require(offset <= sizeof page && bytes <= sizeof page - offset);
    memcpy(to, (const char *)&page + offset, bytes);
    /* Somebody writes meanwhile. */
    if (torn_every > 0 && ++reads % torn_every == 0)
        ((unsigned char *)to)[0] ^= 2;
    return true;
}

static void require_text(const char *text, size_t bytes)
{
    const char *end = memchr(text, '\0', bytes);
    require(end != NULL);
    for (; text < end; text++)
        require((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void require_number(double value)
{
    require(isfinite(value));
}

static void look_at_job(size_t index)
{
    const struct muster_live_job *job = &seen.jobs[index];
    require_text(job->name, sizeof job->name);
    require(job->lanes <= LIVE_LANES && job->delivered <= job->items && job->number > 0);
    require(job->state <= MUSTER_LIVE_CANCELLED && job->status <= 0);
    require_number(job->items_per_s);
    for (size_t i = 0; i < job->lanes; i++) {
        const struct muster_live_lane *lane = &seen.lanes[index][i];
        require_text(lane->device, sizeof lane->device);
        require(lane->health <= MUSTER_HEALTH_LOST);
        require_number(lane->items_per_s);
        require_number(lane->faster_without);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct live_source source = { read_page, NULL, sizeof page };
    memset((void *)&page, 0, sizeof page);
    torn_every = size > 0 ? data[0] % 16 : 0;
    for (size_t at = 1; at + 12 <= size; at += 12) {
        uint32_t where;
        memcpy(&where, data + at, sizeof where);
        memcpy((char *)&page + where % (sizeof page - 8), data + at + 4, 8);
    }
    page.magic = LIVE_MAGIC;
    page.facts.layout = LIVE_LAYOUT;
    page.facts.bytes = sizeof page;
    reads = 0;
    if (live_read(&source, UINT64_C(1) << 40, &seen) != NULL)
        return 0;
    require_text(seen.figures.program, sizeof seen.figures.program);
    require_text(seen.figures.version, sizeof seen.figures.version);
    require(seen.figures.devices <= LIVE_DEVICES && seen.figures.jobs <= LIVE_JOBS);
    require(seen.figures.tasks_ended <= seen.figures.tasks_submitted);
    for (size_t i = 0; i < seen.figures.devices; i++) {
        const struct muster_live_device *device = &seen.devices[i];
        require_text(device->id, sizeof device->id);
        require_text(device->name, sizeof device->name);
        require(device->health <= MUSTER_HEALTH_LOST && device->is_hung <= 1);
        require_number(device->items_per_s);
        require_number(device->utilisation);
        require_number(device->temperature_c);
    }
    for (size_t i = 0; i < seen.figures.jobs; i++)
        look_at_job(i);
    return 0;
}
