/*
 * A scenario of many machines for the simulator (docs/simulation.md): machines with devices and links, the
 * engine that carries messages and keeps results, the submitter, and the jobs. Everything wrong with it is
 * MUSTER_E_PARSE with the place in the text.
 */
#ifndef MODEL_MACHINES_H
#define MODEL_MACHINES_H

#include "model/scenario.h"

#define MACHINES_MAX 10000u
#define MACHINES_DEVICES_MAX 65536u
#define MACHINES_GRAINS_MAX UINT64_C(67108864) /* as core has */
#define MACHINES_JOBS_MAX 4
#define MACHINES_POISONS_MAX 4
#define MACHINES_FAULTS_MAX 16
#define MACHINES_SPELLS_MAX 16

enum machine_fault_kind {
    MACHINE_PARTITION, /* no message gets through, either way, and no result */
    MACHINE_LOST,      /* it is gone, with all it was doing */
    MACHINE_JOINS,     /* it was not there before */
    MACHINE_LEAVES     /* it is told to go: it finishes what it holds, and says so */
};

struct machine_fault {
    enum machine_fault_kind kind;
    uint64_t at_ns,
        for_ns; /* for_ns: of a partition, 0: for ever; of a loss: back after it, 0: never */
};

struct machine_model {
    char name[MODEL_NAME_MAX];
    uint32_t first_device,
        device_count; /* in the array of devices; machines of one kind share them */
    uint64_t latency_ns;
    double bytes_per_s;   /* 0: bytes take no time */
    double loses, delays; /* probability that a message is lost, or comes up to 3 s late */
    struct machine_fault faults[MACHINES_FAULTS_MAX];
    uint32_t fault_count;
};

/* What an item does that nobody can run. */
enum machine_poison_kind {
    POISON_FAILS,         /* its run fails, and says at which grain */
    POISON_FAILS_UNNAMED, /* and cannot say */
    POISON_KILLS          /* the machine dies of it, and is back a second later */
};

struct machine_poison {
    uint64_t item;
    enum machine_poison_kind kind;
};

struct machine_job {
    struct scenario_job job; /* of which what concerns single devices is not used */
    uint64_t grain;          /* items */
    double weight;
    struct machine_poison poisons[MACHINES_POISONS_MAX];
    uint32_t poison_count;
};

struct machine_spell {
    uint64_t at_ns, for_ns;
};

struct machines {
    struct machine_job jobs[MACHINES_JOBS_MAX];
    uint32_t job_count, slots;
    /* While the engine stalls no message gets through, and nothing is stored. */
    struct machine_spell stalls[MACHINES_SPELLS_MAX];
    uint32_t stall_count;
    double loses_result; /* probability that a result which was stored is not there any more */
    uint64_t dies_ns[MACHINES_SPELLS_MAX], twins_ns[MACHINES_SPELLS_MAX];
    uint32_t death_count, twin_count;
    uint64_t back_ns; /* after its death */
};

/* Whether the text is such a scenario: an object with the key "machines". */
bool machines_are_in(const char *text, size_t bytes);

/*
 * Reads a whole text. The counts are set to how many machines and devices there are; where that is above a
 * capacity the status is MUSTER_E_CAPACITY, so both arrays may be NULL with capacities of 0.
 */
muster_status machines_read(const char *text, size_t bytes, struct machine_model *machines,
                            size_t machine_capacity, size_t *machine_count,
                            struct model_device *devices, size_t device_capacity,
                            size_t *device_count, struct machines *out, struct muster_error *err);

#endif
