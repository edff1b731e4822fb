/*
 * The live page of a runtime: a file in which it shows its figures to other processes of the user
 * (include/muster/live.h, docs/live.md). This is its layout, and how it is written.
 *
 * Totals are single words, each exact by itself. What belongs together - a device, a job, a lane - is a
 * record: a sequence number, odd while the record is written, and words. The writer of a record holds
 * the runtime's lock already. Readers take no lock and trust nothing: they read a record again until they
 * find the same even number before and after it.
 *
 * LIVE_LAYOUT changes with every change of what is declared here.
 */
#ifndef OBSERVE_LIVE_H
#define OBSERVE_LIVE_H

#include "platform/live_file.h"

#include <muster/live.h>
#include <stdatomic.h>
#include <string.h>

#define LIVE_MAGIC 0x6576696c7274736du /* "mstrlive" in memory, lower byte first */
#define LIVE_LAYOUT 1u
#define LIVE_DEVICES 64u
#define LIVE_JOBS 16u
#define LIVE_LANES 32u
#define LIVE_NAME_BYTES 64u

/* Records as they are written and read: whole words, without padding. */
struct live_device {
    char id[24], name[64], backend[16];
    uint64_t health, is_hung, is_cut;
    uint64_t queue_depth, queued_items, streams_active, lanes;
    uint64_t dispatched, completed, failed, bytes_in_flight;
    uint64_t busy_ns, busy_since_ns; /* before, and since when it is now; 0: it is not */
    double items_per_s, bytes_per_s;
    uint64_t memory_total, memory_used, memory_reserved, memory_unreclaimed, memory_kept;
    uint64_t memory_free, sampled_ns;
    double utilisation, temperature_c;
};

struct live_job {
    uint64_t number; /* 0: there was none in this place */
    char name[64];
    uint64_t state;
    int64_t status;
    uint64_t items, delivered, units, retries, running;
    uint64_t started_ns, ended_ns; /* 0: it is not over */
    uint64_t memory_bytes, lanes;
    uint64_t makespan_ns, bound_ns, startup_ns, transfer_ns, overhead_ns, starved_ns, tail_ns;
};

struct live_lane {
    uint64_t job; /* its number: the place may be another job's by now */
    char device[24];
    uint64_t health, items, units, retries, late, running;
    uint64_t busy_ns, busy_since_ns;
    double faster_without;
};

#define LIVE_WORDS(struct_) (sizeof(struct struct_) / sizeof(uint64_t))
_Static_assert(sizeof(struct live_device) % sizeof(uint64_t) == 0, "whole words");
_Static_assert(sizeof(struct live_job) % sizeof(uint64_t) == 0, "whole words");
_Static_assert(sizeof(struct live_lane) % sizeof(uint64_t) == 0, "whole words");

/* Words that are written one by one. */
struct live_totals {
    _Atomic uint64_t devices, devices_lost, jobs_unseen, kept_bytes;
    _Atomic uint64_t jobs_started, jobs_done, jobs_failed;
    _Atomic uint64_t units_started, units_done, units_late, units_failed;
    _Atomic uint64_t items_delivered, bytes_delivered, bytes_in, bytes_out, kernels_built;
};

/*
 * Tasks are many. Those who submit write one line, those who run tasks the other, so that neither fetches it
 * from the other's core.
 */
struct live_tasks {
    _Alignas(64) _Atomic uint64_t submitted;
    _Alignas(64) _Atomic uint64_t ended;
};

/* What the file is, written once; `magic` last. */
struct live_facts {
    uint64_t layout, bytes;
    uint64_t pid, number, opened_ns;
    char program[64], version[16];
};

struct live_page {
    _Atomic uint64_t magic;
    struct live_facts facts;
    struct live_totals totals;
    struct live_tasks tasks;
    struct {
        _Alignas(64) _Atomic uint64_t words[1 + LIVE_WORDS(live_device)];
    } devices[LIVE_DEVICES];
    struct {
        _Alignas(64) _Atomic uint64_t words[1 + LIVE_WORDS(live_job)];
        /* Items, written at each delivery, on a line that lanes do not write; the record's may be older. */
        _Alignas(64) _Atomic uint64_t delivered;
        struct {
            _Alignas(64) _Atomic uint64_t words[1 + LIVE_WORDS(live_lane)];
        } lanes[LIVE_LANES];
    } jobs[LIVE_JOBS];
};

/* A runtime's own. */
struct live {
    struct platform_live_file file;
    struct live_page *page; /* the file's memory */
    /* With the runtime's lock: jobs that run and have no place, and what jobs the places have. */
    uint64_t jobs_unseen, devices_lost;
    struct {
        bool is_taken;
        uint64_t ended_ns; /* 0: none was there yet */
    } places[LIVE_JOBS];
};

/* MUSTER_E_IO: the file could not be made, and the runtime does without. */
muster_status live_open(struct live *live, uint64_t now_ns, struct muster_error *err);
/* Nobody sees it from here on; it can still be written to. */
void live_hide(struct live *live);
void live_close(struct live *live);

/* A place for a job, the one that was over first; LIVE_JOBS: all have jobs that run. */
uint32_t live_take_place(struct live *live);
/* The job is over: its place may be another's, though not at once. LIVE_JOBS is allowed. */
void live_leave_place(struct live *live, uint32_t place, uint64_t now_ns);

static inline void live_set(_Atomic uint64_t *word, uint64_t value)
{
    /* Relaxed: nothing is read by way of it. */
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* Writes a record of `count` words; one thread at a time. */
void live_put(_Atomic uint64_t *record, const void *from, size_t count);
/* The same in two calls: from the first on readers wait for the second. */
void live_begin(_Atomic uint64_t *record);
void live_end(_Atomic uint64_t *record, const void *from, size_t count);

/*
 * Busy time as a record shows it. Readers count a span that goes on by their own clocks; one that looked
 * just before the span's end is written may have counted more than the span lasted. So what is shown is
 * ahead of the device by that much, until the next span has caught up: it never goes back.
 */
struct live_busy {
    uint64_t busy_ns, since_ns; /* as in the record */
    uint64_t span_ns;           /* the device's own since_ns then */
};
/* `now_ns` was taken after live_begin: readers of the old record had earlier clocks. */
void live_busy_show(struct live_busy *shown, uint64_t busy_ns, uint64_t since_ns, uint64_t now_ns);

#endif
