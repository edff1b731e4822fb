/*
 * What a simulated device does, in numbers: how long a launch and a copy take, and what goes wrong
 * when.
 *
 * Pure: time is a parameter, random numbers come from the state, and the arithmetic is done so that
 * every machine gives the same nanoseconds. The `sim` backend asks it in real time, where 0 is the
 * device's first operation; the simulator asks it in virtual time, where 0 is the start of the job.
 *
 * A device computes one launch at a time, so that its rate is what the description says however
 * many streams feed it: the caller begins a launch when the one before has finished. The two links
 * and the computing run beside each other.
 */
#ifndef MODEL_DEVICE_MODEL_H
#define MODEL_DEVICE_MODEL_H

#include "base/random.h"

#include <stdbool.h>
#include <stdint.h>

#define MODEL_NAME_MAX 64 /* with the terminator */
#define MODEL_FAULTS_MAX 16
#define MODEL_NEVER UINT64_MAX
#define MODEL_RESOURCES_MAX 8

/* Something that devices share: cores that compute and also feed other devices, a bus, one link. */
struct model_resource {
    char name[MODEL_NAME_MAX];
    double capacity; /* above 0, in any unit */
};

struct model_resources {
    struct model_resource list[MODEL_RESOURCES_MAX];
    uint32_t count;
};

enum model_fault_kind {
    MODEL_FAULT_SLOW, /* computes at `factor` of its rate; launch cost and copies keep theirs */
    MODEL_FAULT_LOST, /* gone for ever */
    MODEL_FAULT_UNIT_ERROR, /* launches that begin meanwhile report a failure, with `probability` */
    MODEL_FAULT_HANG,       /* neither computes nor copies; what it was doing goes on afterwards */
    MODEL_FAULT_MEMORY      /* allocations meanwhile are refused, with `probability` */
};

/*
 * Holds for for_ns from at_ns, or from the start of launch number at_launch. Slow ones that overlap
 * multiply.
 */
struct model_fault {
    enum model_fault_kind kind;
    uint64_t at_ns;
    uint64_t for_ns; /* 0: for ever; a unit error with at_launch: that launch alone. Not used by a
                        loss */
    uint64_t at_launch; /* 0: by time; else counted from 1, and at_ns is not used */
    double factor;      /* slow only: above 0 */
    double probability; /* unit errors and memory only: 0 to 1 */
};

struct model_device {
    char name[MODEL_NAME_MAX];
    double items_per_s; /* above 0 */
    uint64_t launch_ns; /* what each launch costs before its first item */
    uint64_t memory_bytes;
    uint16_t compute[2];    /* compute capability; {0, 0}: none */
    double h2d_bytes_per_s; /* 0: copies take no time */
    double d2h_bytes_per_s;
    double weight;
    double jitter; /* a launch takes its time x a number drawn evenly from 1 - jitter to 1 + jitter;
                      0 to below 1 */
    uint32_t cores; /* what slices are cut from */
    bool can_slice;
    /* What it takes of each resource: `uses` while it computes, `feeds` while it has work at all. */
    double uses[MODEL_RESOURCES_MAX], feeds[MODEL_RESOURCES_MAX];
    double sensitive;    /* how much a shortage slows it down: see model_share */
    uint64_t opens_ns;   /* it takes part from then on */
    bool is_unstoppable; /* a run that nobody wants any more goes on to its end */
    struct model_fault faults[MODEL_FAULTS_MAX];
    uint32_t fault_count;
};

/* Whether it uses or feeds anything. */
bool model_is_sharing(const struct model_device *device);

/*
 * What others leave it of its rate, above 0 to 1, when the demand of all devices for each resource is
 * `demand`. A resource that it takes something of, and of which more is wanted than there is,
 * multiplies the rate by (capacity / demand) to the power `sensitive`.
 */
double model_share(const struct model_device *device, const struct model_resources *resources,
                   const double *demand);

/* One per running device. A slice is a device of its own. */
struct model_state {
    struct random random; /* two numbers per launch, whatever faults there are, so they do not
                             disturb the jitter */
    struct random memory_random; /* apart, so that allocations do not disturb the launches */
    uint64_t launches;           /* begun so far */
    uint64_t
        triggered_ns[MODEL_FAULTS_MAX]; /* when a fault's launch began, MODEL_NEVER if not yet */
};

/* The same seed and index give the same numbers; other indices give unrelated ones. */
void model_state_init(struct model_state *state, uint64_t seed, uint32_t device_index);

struct model_run {
    uint64_t
        finish_ns; /* MODEL_NEVER: lost by then, hung for ever, or beyond what 64 bits can say */
    bool fails;    /* it finishes, and reports a failure */
};

/*
 * Launch number state->launches + 1 begins at start_ns with `work` items (times their relative
 * cost): counts it, lets it trigger faults, draws jitter and failure. The launch cost passes first,
 * then the work; a slow or hung spell that it meets is integrated over. Times are rounded up to
 * nanoseconds, so a device is never faster than its rate.
 */
struct model_run model_launch(const struct model_device *device, struct model_state *state,
                              uint64_t start_ns, double work);

/* The same in steps, for devices whose rate depends on others: a launch that has begun. */
struct model_work {
    uint64_t launch_ns, work_ns; /* what is left of it, at the device's full rate */
    bool fails;
};

/* Counts the launch, lets it trigger faults, draws jitter and failure. */
struct model_work model_begin(const struct model_device *device, struct model_state *state,
                              uint64_t start_ns, double work);
/* When the rest is done, if the device has `share` of its rate from now_ns on; MODEL_NEVER as above. */
uint64_t model_finish_ns(const struct model_device *device, const struct model_state *state,
                         const struct model_work *work, uint64_t now_ns, double share);
/* Takes off what was done from begin_ns to end_ns. */
void model_pass(const struct model_device *device, const struct model_state *state,
                struct model_work *work, uint64_t begin_ns, uint64_t end_ns, double share);

enum model_link { MODEL_LINK_H2D, MODEL_LINK_D2H };

/*
 * When a copy that begins at start_ns is done; MODEL_NEVER as for a launch. One link carries one
 * copy at a time.
 */
uint64_t model_copy_finish_ns(const struct model_device *device, const struct model_state *state,
                              enum model_link link, uint64_t start_ns, uint64_t bytes);

enum model_health { MODEL_OK, MODEL_HUNG, MODEL_LOST };

/*
 * Nothing finishes at an instant at which the device is not MODEL_OK. Finish times given before a
 * later launch triggered a loss or a hang do not know of it, so a caller with copies in flight
 * looks here before it lets them finish.
 */
enum model_health model_health_at(const struct model_device *device,
                                  const struct model_state *state, uint64_t now_ns);

/*
 * The first instant after now_ns at which model_health_at changes without a further launch;
 * MODEL_NEVER if none.
 */
uint64_t model_next_change_ns(const struct model_device *device, const struct model_state *state,
                              uint64_t now_ns);

/*
 * Is an allocation at now_ns to be refused though there is room? Draws a number if it is a matter
 * of chance.
 */
bool model_memory_fails(const struct model_device *device, struct model_state *state,
                        uint64_t now_ns);

#endif
