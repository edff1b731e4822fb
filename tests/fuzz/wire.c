/*
 * Messages of workers and submitters on any bytes: what is read is written again as the same bytes, and a
 * submitter and a worker that are given it keep their invariants.
 */
#include "core/fleet/fleet.h"
#include "core/fleet/worker.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static _Alignas(64) char memory[1 << 18];

/* Each line is a request; the first word of it may be of another version. */
static void submit(struct fleet *fleet, const char *line, size_t bytes, uint64_t now_ns)
{
    struct wire_request request;
    struct fleet_reply reply;
    struct muster_range grains;
    char text[WIRE_BYTES_MAX];
    uint64_t version;
    if (wire_read_request(line, bytes, &request, &version) != WIRE_OK)
        return;
    require(wire_print_request(&request, text) == bytes && memcmp(text, line, bytes) == 0);
    fleet_look(fleet, now_ns);
    fleet_request(fleet, &request, now_ns, &reply);
    while (fleet_next_reply(fleet, now_ns, &reply))
        require(reply.place < 8);
    if (fleet_next_result(fleet, &grains))
        fleet_delivered(fleet, 1, now_ns);
    require(fleet_check(fleet) == NULL);
}

static void answer(struct worker *worker, const char *line, size_t bytes, uint64_t now_ns)
{
    struct wire_reply reply;
    struct wire_request request;
    struct muster_range grains;
    char text[WIRE_BYTES_MAX];
    uint64_t version;
    uint32_t slot;
    if (wire_read_reply(line, bytes, &reply, &version) != WIRE_OK)
        return;
    require(wire_print_reply(&reply, text) == bytes && memcmp(text, line, bytes) == 0);
    if (!worker_next_request(worker, now_ns, &request))
        return;
    worker_reply(worker, &request, &reply, now_ns);
    if (worker_next_run(worker, &slot, &grains)) {
        require(grains.begin < grains.end && slot < 2);
        worker_stored(worker, slot, now_ns);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct fleet_options options = {
        .grains = 64, .lane_count = 4, .slots = 2, .tries = 2, .epoch = 2
    };
    const char *at = (const char *)data, *end = at + size;
    struct worker worker;
    uint64_t now_ns = 1;
    require(fleet_bytes(&options) <= sizeof memory);
    struct fleet *fleet = fleet_init(memory, &options, now_ns);
    worker_init(&worker, 7, 2, now_ns);
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        now_ns += 300000000;
        submit(fleet, at, (size_t)(line_end - at), now_ns);
        answer(&worker, at, (size_t)(line_end - at), now_ns);
        at = line_end < end ? line_end + 1 : end;
    }
    return 0;
}
