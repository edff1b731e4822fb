/*
 * Jobs on many machines in virtual time: the state of the simulation, shared by machines.c (what happens
 * when), machine.c (what a machine does), submitters.c (who gives out the work) and machines_report.c.
 *
 * Both ends of the protocol are those of real jobs (core/fleet). What is simulated are machines with
 * devices, links that lose and delay messages, an engine that carries messages and keeps results, and
 * submitters that die.
 */
#ifndef SIMULATE_MACHINES_H
#define SIMULATE_MACHINES_H

#include "base/allocator.h"
#include "core/fleet/fleet.h"
#include "core/fleet/shares.h"
#include "core/fleet/worker.h"
#include "model/machines.h"
#include "simulate/agenda.h"
#include "simulate/cost.h"

#include <muster/simulate.h>

/* Submitters of one job that are alive at a time. */
#define SUBMITTERS_MAX 4
#define NO_RECORD UINT32_MAX

enum machines_kind {
    MACHINES_REQUEST,  /* slot: a record, which arrives at the submitters */
    MACHINES_REPLY,    /* likewise, at its machine */
    MACHINES_WORKER,   /* lane: machine, slot: job: its worker has something to send */
    MACHINES_COMPUTED, /* lane: machine, slot: device, serial: the device's */
    MACHINES_STORED,   /* slot: a record: results arrive at the engine */
    MACHINES_LOOK,     /* lane: job, slot: submitter, serial: its generation */
    MACHINES_FAULT,    /* lane: machine, slot: fault */
    MACHINES_MENDED,   /* likewise: it is over */
    MACHINES_BACK,     /* lane: machine: it starts again, serial: if it has not since */
    MACHINES_DIES,     /* the newest submitters die */
    MACHINES_RESUMES,  /* submitters take up jobs that have none; slot 1: beside those that live */
    MACHINES_PROGRESS  /* lane: job: what was delivered is made durable */
};

/* Something on its way: a message, or results. */
struct record {
    uint32_t next_free;
    uint32_t machine, job, slot, incarnation, serial;
    struct muster_range grains; /* results */
    uint64_t wait_ns;           /* results: until they are sent again */
    struct wire_request request;
    struct wire_reply reply;
};

/* A super-unit on a machine. */
struct machine_run {
    bool is_used;
    uint32_t serial;
    uint64_t order, begin_ns;
    struct muster_range grains;
    uint64_t next;       /* grains before it were given to devices */
    uint64_t stored;     /* how many are in the engine */
    uint64_t arrival_ns; /* when its first byte comes */
};

struct machine_worker {
    struct worker worker;
    struct machine_run runs[WIRE_SLOTS_MAX];
    uint64_t planned_ns; /* of the next MACHINES_WORKER in the agenda */
};

struct machine_device {
    const struct model_device *model; /* borrowed */
    struct model_state state;
    bool is_busy, fails;
    uint32_t serial, job, slot, run_serial;
    struct muster_range grains;
    uint64_t begin_ns, busy_ns;
};

struct machine {
    const struct machine_model *model;
    struct machine_device *devices;
    struct machine_worker *workers; /* one for each job */
    struct shares shares;
    struct share share_room[MACHINES_JOBS_MAX];
    double rate;                      /* of all its devices */
    uint64_t in_free_ns, out_free_ns; /* of its link */
    uint32_t incarnation, cuts;
    bool is_here, leaves, was_here;
    uint64_t items, units, retries;
};

struct submitter {
    struct fleet *fleet; /* owns; NULL: this place is free */
    size_t bytes;
    uint32_t generation;
    uint64_t epoch, planned_ns;
    uint64_t expected; /* the grain to be delivered next */
    uint64_t noted;    /* grains before it were noted as progress, and their results purged */
    uint32_t *parked;  /* owns: for each place the record of its claim, or NO_RECORD */
};

struct machines_job {
    const struct machine_job *model;
    struct cost cost;
    uint64_t grains, epoch;  /* the newest */
    uint64_t durable;        /* grains noted as progress */
    struct grain_set stored; /* what the engine has */
    struct submitter submitters[SUBMITTERS_MAX];
    bool is_over;
    enum fleet_state end;
    struct fleet_failure failure;
    uint64_t end_ns, delivered, busy_ns;
};

struct machines_sim {
    struct muster_allocator allocator;
    struct muster_simulation_options options;
    struct machines scenario;
    struct machine_model *models;
    struct model_device *device_models;
    size_t machine_count, model_count, device_count;
    struct machine *machines;
    struct machine_device *devices;
    struct machine_worker *workers;
    struct machines_job jobs[MACHINES_JOBS_MAX];
    struct agenda agenda;
    struct record *records;
    uint32_t record_count, record_free;
    struct random random;
    uint64_t now_ns, moved_ns; /* when something was last stored or delivered */
    uint32_t coming;           /* machines that will be there, or there again */
    uint32_t here, open_jobs;
    uint64_t next_order;
    uint32_t next_serial;
    bool has_no_memory;
    struct muster_simulation *result; /* its numbers are kept up; borrowed */
    const char *broken;
};

/* What happens when: machines.c. */

void machines_plan(struct machines_sim *sim, struct happening happening);
/* A record of its own; NULL if there is no memory, which ends the simulation. */
struct record *machines_record(struct machines_sim *sim, uint32_t *index);
void machines_forget(struct machines_sim *sim, uint32_t index);
/* Whether nothing gets from or to the machine now. */
bool machines_are_cut(const struct machines_sim *sim, uint32_t machine);
/* When the engine works again, now_ns if it does. */
uint64_t machines_engine_up_ns(const struct machines_sim *sim);
/* Sends a record: it arrives, or is lost on the way. */
void machines_send(struct machines_sim *sim, uint32_t record, enum machines_kind kind);
uint64_t machines_later(uint64_t at_ns, double ns);
void machines_tell(const struct machines_sim *sim, const struct muster_trace_event *event);

/* A machine: machine.c. */

void machine_start(struct machines_sim *sim, uint32_t index);
/* It is gone, with all it was doing. */
void machine_stop(struct machines_sim *sim, uint32_t index);
void machine_leave(struct machines_sim *sim, uint32_t index);
/* Sends what is due, begins what was given, and feeds the devices. */
void machine_pump(struct machines_sim *sim, uint32_t index, uint32_t job);
void machine_replied(struct machines_sim *sim, uint32_t record);
void machine_computed(struct machines_sim *sim, const struct happening *happening);
void machine_stored(struct machines_sim *sim, uint32_t record);

/* Submitters: submitters.c. */

/* A new submitter for the job: reads what is durable and stored. */
void submitter_start(struct machines_sim *sim, uint32_t job);
void submitter_stop(struct machines_sim *sim, uint32_t job, uint32_t index);
void submitter_requested(struct machines_sim *sim, uint32_t record);
void submitter_look(struct machines_sim *sim, const struct happening *happening);
void submitter_note_progress(struct machines_sim *sim, uint32_t job);
const char *submitters_check(const struct machines_sim *sim);

#endif
