/*
 * Resident lanes: a few kernels that stay on a device and take small tasks from a ring, without a
 * launch for each (docs/resident.md).
 *
 * A lane is made of some kernels, its opcodes. On a CUDA device they become one kernel that stays there, on
 * a slice of its own where the driver can cut one, and looks at a ring in host memory; on `cpu` and `sim`
 * threads do the same. Work is given by muster_submit, to tasks with `resident` set.
 */
#ifndef MUSTER_RESIDENT_H
#define MUSTER_RESIDENT_H

#include <muster/task.h>

#ifdef __cplusplus
MUSTER_SAME_NAMES_BEGIN
extern "C" {
#endif

struct muster_resident;

/* Most kernels of a lane, and most blocks that are attached to one. */
#define MUSTER_RESIDENT_KERNELS_MAX 64
#define MUSTER_RESIDENT_BLOCKS_MAX 256
/* Most tasks that a lane has at once. */
#define MUSTER_RESIDENT_ENTRIES_MAX 4096u
/* Most steps of one task, and most arguments of one that has steps. */
#define MUSTER_RESIDENT_STEPS_MAX 64
#define MUSTER_RESIDENT_ARGS_MAX 64
/* Most bytes of a task's arrays in host memory, all together: they travel in the ring. */
#define MUSTER_RESIDENT_DATA_MAX 2048

/* Zero means the default everywhere. */
struct muster_resident_options {
    size_t size;
    /*
     * Multiprocessors, of which each runs one task or a part of one; on `cpu` and `sim` threads. 0: the
     * smallest slice that the device allows, or all of a slice, or one thread. On a GPU that cannot be
     * cut, 0 is one multiprocessor's worth of blocks.
     */
    uint32_t cores;
    uint32_t threads; /* of each multiprocessor, a multiple of 32 up to 1,024, or 1; 0: 256 */
    uint32_t entries; /* tasks that the lane has at most, a power of two; 0: 1,024 */
    /* Without work for so long the lane parks: it leaves the device until the next task. 0: 10 ms */
    uint64_t idle_ns;
    /* A lane with work that gives no sign of life for so long counts as hung. 0: 500 ms */
    uint64_t hang_ns;
};
#ifdef __cplusplus
}
inline struct muster_resident_options muster_resident_options_init()
{
    struct muster_resident_options options = {};
    options.size = sizeof options;
    return options;
}
#define MUSTER_RESIDENT_OPTIONS_INIT muster_resident_options_init()
extern "C" {
#else
/* clang-format off */
#define MUSTER_RESIDENT_OPTIONS_INIT { .size = sizeof(struct muster_resident_options) }
/* clang-format on */
#endif

/*
 * One step of a task: a kernel of the lane over items [0, items), with some of the task's arguments.
 * Steps run one after the other, each over what those before it have written, and give the same bits as
 * tasks with one step each.
 */
struct muster_resident_step {
    size_t size;
    struct muster_kernel *kernel;
    uint64_t items;
    const uint8_t *args; /* copied: which of the task's arguments, in the kernel's order */
    size_t arg_count;
    uint32_t repeat; /* runs at most so often; 0: once */
    /*
     * Not 0: after each run the uint32_t at byte `until_offset` of the task's argument `until`, an
     * array, is looked at; the step is over when it is not 0.
     */
    int has_until;
    uint32_t until;
    uint64_t until_offset;
};

enum muster_resident_state {
    MUSTER_RESIDENT_PARKED = 0,  /* off the device; the next task starts it */
    MUSTER_RESIDENT_RUNNING = 1, /* looks at the ring */
    MUSTER_RESIDENT_LOST = 2     /* hung, or its device is lost: refuses work for ever */
};

/* What a lane is and did. The caller sets `size`. */
struct muster_resident_report {
    size_t size;
    enum muster_resident_state state;
    uint32_t cores, threads;
    uint32_t entries; /* tasks that it has at most */
    uint32_t posted;  /* tasks in the ring now */
    uint64_t tasks;   /* posted so far */
    uint64_t steps;   /* of these, as given: repeats are not counted */
    uint64_t starts, parks;
    uint64_t full;     /* times a task had to wait for room */
    uint64_t leave_ns; /* what the slowest leaving took, from the request to the end */
};

/*
 * Makes a lane of `count` kernels for the device, and builds them, which may take seconds. The kernels
 * are borrowed until muster_resident_destroy. It begins to run with the first task. `options` may be
 * NULL. On `cpu` and `sim` kernels of the portable form, shared objects and C functions will do; on
 * `cuda` only the portable form. MUSTER_E_NOT_SUPPORTED says why a device has no lanes, or which kernel
 * cannot be part of one: reductions and kernels that look at neighbours cannot.
 */
MUSTER_API muster_status muster_resident_create(struct muster *m, muster_device device,
                                                struct muster_kernel *const *kernels, size_t count,
                                                const struct muster_resident_options *options,
                                                struct muster_resident **out,
                                                struct muster_error *err);

/*
 * Waits until all its tasks have ended and it has left the device, then frees it. Detaches its blocks.
 * NULL is allowed. MUSTER_E_DEVICE_HUNG: it did not leave; what the device may still touch is kept until the
 * process ends. MUSTER_E_ORDER: called within a task or a kernel.
 */
MUSTER_API muster_status muster_resident_destroy(struct muster_resident *lane,
                                                 struct muster_error *err);

/*
 * Blocks of the lane's device that its tasks may use, by MUSTER_DEVICE_IN and so on: all `count` or none.
 * Waits for what uses them now. Until muster_resident_detach every other use of them fails with
 * MUSTER_E_BUSY, so what is in them stays on the device; order among the lane's tasks is the caller's,
 * by `after`. Not while another call attaches or detaches blocks of the lane.
 */
MUSTER_API muster_status muster_resident_attach(struct muster_resident *lane,
                                                const muster_block *blocks, size_t count,
                                                struct muster_error *err);
/* Gives the blocks back, all or none. MUSTER_E_BUSY: a task that uses one has not ended. */
MUSTER_API muster_status muster_resident_detach(struct muster_resident *lane,
                                                const muster_block *blocks, size_t count,
                                                struct muster_error *err);

/* Leaves the device until the next task. MUSTER_E_BUSY: it has tasks that have not ended. */
MUSTER_API muster_status muster_resident_park(struct muster_resident *lane,
                                              struct muster_error *err);

/* Any thread. */
MUSTER_API muster_status muster_resident_report(struct muster_resident *lane,
                                                struct muster_resident_report *report,
                                                struct muster_error *err);

#ifdef __cplusplus
}
MUSTER_SAME_NAMES_END
#endif

#endif
