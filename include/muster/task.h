/*
 * Tasks: single pieces of work, many or few, with an order among them where it is asked for. A task
 * is a function on the host, or a kernel on a device that is chosen when it is ready.
 */
#ifndef MUSTER_TASK_H
#define MUSTER_TASK_H

#include <muster/data.h>
#include <muster/job.h>
#include <muster/policy.h>
#include <muster/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A task that was submitted. How it ended is kept until its place is needed again, at least for the
 * next MUSTER_TASKS_MAX / 2 submissions.
 */
typedef struct {
    uint32_t index, generation;
} muster_task;

/*
 * Most tasks that are submitted and not ended. With half of them muster_submit begins to wait, and
 * help. Within a task it does not wait, since the others may be after that one: with all of them it
 * gives MUSTER_E_CAPACITY.
 */
#define MUSTER_TASKS_MAX 65536u
/* Of them: most that run kernels; with all of them muster_submit waits likewise. */
#define MUSTER_KERNEL_TASKS_MAX 8192u
/* Most tasks in one call. */
#define MUSTER_SUBMIT_MAX 1024u

struct muster_resident;
struct muster_resident_step;

/* The caller sets `size`, the same in all of one call. */
struct muster_task_desc {
    size_t size;
    /* Either a function, run by a thread of Muster's or by one in muster_wait, or `kernel`, or `steps`. */
    muster_status (*fn)(void *user);
    void *user;
    /*
     * Tasks that must end before, any number of them. If one of them failed or was cancelled, this one
     * is cancelled. One whose place was used again has ended long ago, and counts as ended well.
     */
    const muster_task *after; /* copied */
    size_t after_count;
    /*
     * Called once, when the task has ended, well or not; may be NULL. No lock is held. The caller is a
     * thread of Muster's that runs tasks, or one within muster_wait, muster_submit or muster_cancel.
     */
    void (*done)(void *user, muster_task task, muster_status status);
    /*
     * Runs over items [0, items), of which there may be none, on one device. Borrowed until the
     * task has ended. It may be run more than once: elsewhere, when its device fails or it returns
     * MUSTER_E_FAILED, three times in all; not if that had an array in its hands that it reads and
     * writes (MUSTER_INOUT, MUSTER_DEVICE_INOUT). What else it returns is how the task ends.
     */
    struct muster_kernel *kernel;
    /*
     * Arrays are whole, `items` of them each, and borrowed until the task has ended. Copied to the
     * device and back where it cannot use them in place. With arguments in device memory
     * (MUSTER_DEVICE_IN and so on) the task runs on that device alone.
     */
    const struct muster_arg *args; /* copied, values too */
    size_t arg_count;
    uint64_t items;
    const struct muster_hints *hints; /* copied; NULL: any device will do */
    /*
     * A device that takes longer counts as hung, also if its driver does not return from a call.
     * The task is run elsewhere, or ends with MUSTER_E_DEVICE_HUNG: then the device may still read
     * and write the task's arrays, and read its data. The device refuses work until the attempt has
     * ended after all, and then takes it as before. Muster notices about 10 ms late; a driver call
     * is given at least 100 ms. Up to a minute of building the kernel does not count. 0: no limit.
     */
    uint64_t timeout_ns;
    /*
     * Not 0: the caller is about to wait for it, and no thread is woken for it, which costs more
     * than a small task. One without a waiter begins when another is submitted or waited
     * for, or when the runtime is closed.
     */
    int is_awaited;
    const char *name; /* copied, 47 characters at most: errors and traces have it. NULL: none */
    /*
     * What it accesses (data.h): it is after those before it that access the same otherwise than to
     * read it. A piece of data is named once; parts of one may overlap if all are only read. Arguments
     * of its kernel name them: MUSTER_ACCESSED(i). Copied.
     */
    const struct muster_task_access *accesses;
    size_t access_count; /* at most MUSTER_ACCESSES_MAX */
    /*
     * Forms of its body for devices, each for another backend, beside or instead of `fn`, which is the
     * form for the host; not with a kernel. Copied.
     */
    const struct muster_body *bodies;
    size_t body_count;
    /* Of tasks that are ready at the same time those with the highest begin first; -16 to 15. */
    int32_t priority;
    /*
     * Not NULL: the task is given to this lane (resident.h), with `kernel`, one of the lane's, or with
     * `steps`. Its arguments are values, arrays in host memory of few bytes, and blocks that are attached to
     * the lane. `hints`, `timeout_ns`, `accesses` and `bodies` are not for such a task: the lane's hang_ns is.
     */
    struct muster_resident *resident;
    const struct muster_resident_step *steps; /* copied; instead of `kernel` */
    size_t step_count;
};

/*
 * Submits all `count` tasks or none. A task may be after an earlier one of the same call: its
 * handle is in `out`, which is filled before `after` is read. `out` may be NULL; what it holds
 * after a failure names nothing. Any thread, also from within a task. Starts the threads that run
 * tasks, one for each allowed core, the first time. Kernels that may run at once are given to their
 * devices by this thread, those of one call that differ only in their values as one launch: a
 * driver call that does not return holds this thread, and no other. Within a task the device's own
 * thread does that, and muster_submit returns in any case. MUSTER_E_NO_DEVICE: no device may run
 * one of the kernels; `err` says why not.
 */
MUSTER_API muster_status muster_submit(struct muster *m, const struct muster_task_desc *descs,
                                       size_t count, muster_task *out, struct muster_error *err);

/*
 * Blocks until all the tasks have ended, at most `timeout_ns` (UINT64_MAX: for ever). Meanwhile the calling
 * thread runs these tasks, or others that are ready; a task that it runs is not cut short. Without a
 * time-out the calling thread itself asks the device whether it has finished, which is the quickest
 * way. With a time-out, or while kernels with a `timeout_ns` are unfinished, it calls no driver,
 * since that might not return, and notices the end some microseconds later. Gives the first failure
 * among the tasks in the order given; MUSTER_E_STALE for one whose status is not kept any more.
 * Without tasks (`count` 0) it waits for all tasks of the runtime.
 *
 * MUSTER_E_ORDER: the call would wait for its own caller. Within a task, or its `done`, these fail:
 * a wait for all tasks, for the task itself, for a task that is after it, and for a task that this
 * thread has begun and not ended. So a task should wait only for tasks that it has submitted.
 * Within a kernel every wait fails.
 */
MUSTER_API muster_status muster_wait(struct muster *m, const muster_task *tasks, size_t count,
                                     uint64_t timeout_ns, struct muster_error *err);

/*
 * A task that has not begun ends as MUSTER_E_CANCELLED, and so do those after it. MUSTER_E_BUSY: it
 * has begun, or was given to a device.
 */
MUSTER_API muster_status muster_cancel(struct muster *m, muster_task task,
                                       struct muster_error *err);

/* Devices that an explanation has figures of: the first ones. */
#define MUSTER_TASK_DEVICES_MAX 16

/* Why a task with accesses is where it is. The caller sets `size`. */
struct muster_task_decision {
    size_t size;
    char name[48];    /* the task's; "": none */
    uint64_t time_ns; /* of the last choice, monotonic clock; 0: none yet, all is as of now */
    uint32_t moves; /* how often it was placed again, or taken by a device that had nothing to do */
    int32_t chosen; /* which of `devices`; -1: none, or one beyond the first 16 */
    int32_t has_ended;
    muster_status status; /* these three of a task that has ended */
    uint64_t took_ns;     /* its body; 0: it was not run */
    uint64_t after_ns;    /* from the choice to the end: to be compared with finish_ns */
    uint32_t device_count;
    struct {
        muster_device device;
        int32_t may_run;     /* 0: no form for it, not named, too small or lost; the rest is 0 */
        int32_t is_measured; /* the body was run there: run_ns is learned, else a guess */
        uint64_t queue_ns;   /* until what is queued there is done */
        uint64_t copy_bytes; /* what would have to be brought */
        uint64_t copies_ns;  /* how long, after what the links have to bring already */
        uint64_t run_ns;
        uint64_t finish_ns; /* the later of the first two, and the run */
    } devices[MUSTER_TASK_DEVICES_MAX];
};

/*
 * For a task with accesses what each device was expected to take when one was chosen for it, and how it went.
 * Kept for the last 1024 choices. Any thread; does not block. MUSTER_E_NOT_FOUND: nothing was chosen, since all
 * tasks so far run on the host, or it is forgotten.
 */
MUSTER_API muster_status muster_task_explain(struct muster *m, muster_task task,
                                             struct muster_task_decision *out,
                                             struct muster_error *err);

/*
 * How long tasks with accesses take is learned for each body, size and device while they run. This keeps it
 * for the next run: what is loaded counts until the body has been run there twice. A body is known by the name
 * of its kernel (muster_kernel_from), or else by the name of the first of its tasks that was submitted; bodies
 * without a name are not saved, and those of one name count as one. Devices are known by their id and name.
 *
 * Saved are what was learned and, of what was loaded, what was not learned again. The file is a text, put in its
 * place whole. To load replaces what was loaded before; before the first task or later. Any thread; both read or
 * write a file. MUSTER_E_PARSE, MUSTER_E_VERSION: it is not such a file, and nothing has changed.
 */
MUSTER_API muster_status muster_rates_save(struct muster *m, const char *path,
                                           struct muster_error *err);
MUSTER_API muster_status muster_rates_load(struct muster *m, const char *path,
                                           struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
