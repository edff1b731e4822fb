/*
 * The same scenario and seed give the same answer on every machine and in every build: each decision of
 * 400 storms, with its time, is compared with what was recorded. A compiler, an option or a C library
 * that changes a bit of the arithmetic shows here, and so does a change of the scheduler that nobody
 * meant.
 *
 *     sim_same [--count N]
 *     sim_same --record         after a change that is meant to decide otherwise
 */
#include "base/sha256.h"
#include "storm.h"

#include <inttypes.h>
#include <muster/simulate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STORMS 400u
#define NAMED_MAX 5u /* storms that differ, each on a line */

static void add_number(struct sha256 *hash, uint64_t number)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(number >> 8 * i);
    sha256_add(hash, bytes, sizeof bytes);
}

static void add_event(void *user, const struct muster_trace_event *event)
{
    struct sha256 *hash = user;
    const uint64_t numbers[] = { event->kind,        event->outcome,
                                 event->begin_ns,    event->end_ns,
                                 event->range.begin, event->range.end,
                                 event->bytes,       event->device,
                                 event->job,         (uint64_t)(int64_t)event->status,
                                 event->is_retry,    event->is_copy };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add_number(hash, numbers[i]);
}

static void add_answer(struct sha256 *hash, const struct muster_simulation *answer)
{
    uint64_t ratio;
    memcpy(&ratio, &answer->ratio, sizeof ratio);
    const uint64_t numbers[] = { (uint64_t)(int64_t)answer->status,
                                 answer->makespan_ns,
                                 answer->bound_ns,
                                 ratio,
                                 answer->units,
                                 answer->items_delivered,
                                 answer->lost,
                                 answer->duplicated,
                                 answer->out_of_order,
                                 answer->retries,
                                 answer->window_max,
                                 answer->failed_count };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add_number(hash, numbers[i]);
    for (size_t i = 0; i < answer->failed_count; i++) {
        add_number(hash, answer->failed[i].begin);
        add_number(hash, answer->failed[i].end);
    }
    for (size_t i = 0; i < answer->device_count; i++) {
        const struct muster_simulation_device *device = answer->devices[i];
        sha256_add_text(hash, device->id);
        sha256_add_text(hash, device->name);
        sha256_add_text(hash, device->refused ? device->refused : "");
        sha256_add_text(hash, device->health);
        add_number(hash, device->items);
        add_number(hash, device->units);
        add_number(hash, device->retries);
        add_number(hash, device->busy_ns);
    }
}

/* One storm on a line: what a person can compare first, then a digest of all the rest. */
static void describe(uint64_t seed, char *line, size_t bytes)
{
    static char text[STORM_TEXT_MAX];
    struct storm storm;
    struct sha256 hash;
    uint8_t digest[SHA256_BYTES];
    struct muster_simulation *answer = NULL;
    storm_make(&storm, seed);
    sha256_init(&hash);
    struct muster_simulation_options options = {
        .size = sizeof options, .seed = storm.seed, .event = add_event, .event_user = &hash
    };
    size_t length = storm_print(&storm, text);
    muster_status status = muster_simulate(text, length, &options, &answer, NULL);
    if (answer)
        add_answer(&hash, answer);
    sha256_finish(&hash, digest);
    snprintf(line, bytes,
             "%" PRIu64 " %s makespan %" PRIu64 " units %" PRIu64 " retries %" PRIu64
             " %02x%02x%02x%02x%02x%02x\n",
             seed, muster_status_name(answer ? answer->status : status),
             answer ? answer->makespan_ns : 0, answer ? answer->units : 0,
             answer ? answer->retries : 0, digest[0], digest[1], digest[2], digest[3], digest[4],
             digest[5]);
    muster_simulation_destroy(answer);
}

static int record(void)
{
    char line[160];
    FILE *out = fopen(SAME_FILE, "w");
    for (uint64_t seed = 1; out && seed <= STORMS; seed++) {
        describe(seed, line, sizeof line);
        fputs(line, out);
    }
    if (!out || fclose(out) != 0) {
        perror(SAME_FILE);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t count = STORMS, differ = 0;
    char line[160], expected[160];
    if (argc == 2 && strcmp(argv[1], "--record") == 0)
        return record();
    if (argc == 3 && strcmp(argv[1], "--count") == 0)
        count = strtoull(argv[2], NULL, 10);
    FILE *in = fopen(SAME_FILE, "r");
    if (!in || argc == 2 || argc > 3 || count == 0 || count > STORMS) {
        perror(SAME_FILE);
        fprintf(stderr, "usage: %s [--count N | --record]\n", argv[0]);
        return 2;
    }
    for (uint64_t seed = 1; seed <= count; seed++) {
        describe(seed, line, sizeof line);
        if (fgets(expected, sizeof expected, in) && strcmp(line, expected) == 0)
            continue;
        if (++differ <= NAMED_MAX)
            printf("recorded: %sis:       %s", expected, line);
    }
    fclose(in);
    printf("%" PRIu64 " storms, %" PRIu64 " differ from what was recorded in %s\n", count, differ,
           SAME_FILE);
    if (differ > 0)
        printf("if they are meant to: sim_same --record\n");
    return differ > 0;
}
