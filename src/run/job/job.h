/*
 * A job as it runs: the core's decisions (core/job.h) carried out by a lane thread for each device
 * and a conductor, which delivers. All of it is guarded by the runtime's lock. The core says who has
 * something to do after each call (job_news), and only those are woken.
 *
 * An attempt works in a slot of its lane and writes its results into the caller's arrays, where that can
 * be (direct.c), or into a buffer of the job. When it is accepted the buffer passes to the unit until
 * that is delivered; otherwise it comes back when the device has really finished with it. There is one
 * for each unit that may be undelivered and one for each slot, so that there is always one: no more
 * units than that can hold one.
 */
#ifndef RUN_JOB_H
#define RUN_JOB_H

#include "base/invariant.h"
#include "run/job/jobs.h"
#include "run/lane/kernel_plan.h"
#include "run/lane/lane.h"
#include "run/memory/pages.h"
#include "run/memory/partial.h"
#include "run/place/place.h"
#include "run/threads/threads.h"

/* A device that hangs may go on reading at any time: what it reads from is left alone from then on. */
#define RINGS_MAX 8

#define SOURCE_CALLS_MAX 64u

/* A thread that calls a job's source. All but its thread's atomics is guarded by the lock. */
struct source_caller {
    struct job_thread thread;
    struct muster_job *job;
    uint64_t at, end; /* the items it still has to ask for; empty: it has none */
};

/*
 * Items that a job's source has supplied, in a ring of bytes: item i lies at i x item size, modulo the
 * ring's. They stay until no attempt needs them any more.
 */
struct run_source {
    struct platform_condition changed; /* there may be room, or something to hand in */
    struct source_caller *callers;     /* owns: one for each call at a time */
    uint32_t caller_count;
    struct muster_file *file;       /* NULL: the user's own function; else read at any place */
    uint64_t file_offset;           /* where its first item lies */
    char *rings[RINGS_MAX];         /* the one that is filled, and those left to hung devices */
    struct pages *pages[RINGS_MAX]; /* own: what they lie in */
    uint32_t ring_count;
    char *ring;        /* the one that is filled; NULL: the job has no source */
    size_t ring_bytes; /* of each; a multiple of the page */
    size_t item_bytes;
    uint64_t capacity; /* items that are asked for and not delivered; 0: the job has no source */
    uint64_t piece;    /* items that are asked for in one call */
    uint64_t halo;     /* items around a unit that may be read too */
    uint64_t line; /* that are repeated before the first item and after the last; 0: zeros are */
    uint64_t room; /* items the ring holds: beside those the halo behind, ahead, and past the end */
    /* With the lock, as what follows. Items before `asked` are there or are a caller's. */
    uint64_t asked, arrived;
    uint64_t ends_at;      /* the first item instead of which something else was answered */
    int64_t answer;        /* what that was */
    uint64_t answer_items; /* and how many items had been asked for */
    bool is_concluded;     /* the core knows of the end or of the failure */
    bool is_moving;        /* items are being copied to another ring */
    uint64_t leave_ns;     /* when the ring is left to attempts that have lost; UINT64_MAX: not */
    /* Of the callers that wait for room one waits for the job's changes, the others for their turn. */
    bool has_first;
    struct platform_condition turn;
    bool has_turn;
};

/* The user's policy of a job, and the thread that asks it where each new unit is to go. */
struct run_asker {
    struct job_thread thread;
    struct muster_policy policy;           /* without a function: the job has none */
    struct platform_condition changed;     /* there may be something to place */
    struct job_lane_view *views;           /* owns, as the others: one for each lane */
    struct candidate *candidates;          /* what the policy is shown of them */
    const struct muster_candidate **shown; /* pointers to it */
};

/*
 * Devices that are not open when the job starts, and the thread that has them opened when that is worth it,
 * and waits for them. The core has a lane for each that is expected; those of the job's own lanes that come
 * are added to them.
 */
struct run_joining {
    struct job_thread thread;
    uint32_t late;     /* backends that had not answered when the job started, bits */
    uint32_t opening;  /* of these, those whose devices may still join; 0: nobody is waited for */
    uint32_t expected; /* lanes that the core was told to expect */
    bool has_asked;    /* that they be opened */
};

struct kernel_plan;

/* A written argument, or an output of the pipeline. */
struct job_result_place {
    size_t offset;     /* within a buffer */
    size_t stride;     /* from one of the caller's units to the next */
    size_t item_bytes; /* for the array */
    uint64_t group;    /* items that share one of them, as in lane_piece */
    char *array;       /* the caller's; NULL: none */
};

/* Of a job that reduces: the partials of the blocks that were delivered so far. The conductor's. */
struct job_reduction {
    struct kernel_fold with; /* without a partial: the job does not reduce */
    uint64_t blocks;
    char *levels; /* owns: FOLD_LEVELS partials, and one more for the result */
};

/* What jobs have in common that learn from each other (lessons.h). */
struct job_kind {
    uint64_t work;       /* the kernel's or pipeline's number */
    uint32_t size_class; /* jobs of twice as many items are of another kind */
    uint32_t device_count;
    uint64_t devices; /* a hash of which they are, in their order; 0: the job does not learn */
};

/* What the live page has of a job. */
struct job_live {
    bool has_place;
    uint32_t place;       /* LIVE_JOBS: there was no room */
    uint64_t reported_ns; /* when the job's report was brought up to date for it */
    uint64_t shown_ns;    /* when its record was written last, with this many retries */
    uint64_t retries;
    char name[LIVE_NAME_BYTES];
};

struct muster_job {
    struct lane_work work; /* what its lanes share */
    struct muster *m;
    struct muster_job *next;           /* on one of the runtime's lists */
    struct muster_job_desc desc;       /* its pointers are to what follows */
    struct muster_run_options options; /* as this library has them */
    struct muster_arg args[MUSTER_ARGS_MAX];
    unsigned char values[MUSTER_ARG_BYTES_MAX]; /* of scalars */
    struct job_result_place outputs[MUSTER_ARGS_MAX];
    uint32_t output_count;
    struct grid grid;                        /* what the items are */
    uint64_t seam;                           /* the largest halo of an array, in items */
    uint64_t cells[MUSTER_ARGS_MAX];         /* the halos of a grid's arrays as they were given */
    uint64_t together;                       /* items that kernels may rely on to be in one unit */
    struct margins margins[MUSTER_ARGS_MAX]; /* own: of each argument; [0] of a pipeline's input */
    size_t status_offset;                    /* of the items' statuses, likewise */
    enum job_policy policy;
    bool places;            /* by `policy`; else lanes take */
    enum job_output output; /* where attempts write their results */
    bool shares_arrays;     /* all arrays lie in memory that devices in other processes can use */
    bool needs_buffers;     /* some of them may write into result buffers */
    struct job_options core_options;
    struct job *core;                  /* owns */
    struct platform_condition news;    /* for who delivers and looks */
    struct platform_condition changed; /* for who waits for the job, or for its threads to leave */
    uint64_t looked_ns;                /* when somebody last looked for what is overdue */
    struct job_thread conductor;
    struct run_lane *lanes; /* owns */
    uint32_t lane_count;    /* with the lock: joiners are added */
    uint32_t lane_room;     /* lanes of the core: those at the start and those expected */
    /* Devices that take no part from the start, by what was learned; their reports follow the lanes'. */
    uint32_t aside_count;
    uint64_t aside;       /* the same by bits, of the devices of `kind` */
    bool leaves_out_more; /* of the others some are lanes that are left out, likewise */
    float aside_faster
        [TAKE_PART_LANES_MAX]; /* by what factor the job is without them; 0: not known */
    struct job_kind kind;
    const struct run_device *only; /* whose memory arguments are in; NULL: any may run it */
    uint32_t lanes_max;            /* that there is room for, here and below */
    char (*lane_ids)[24];          /* owns: for the report, when the lanes are gone */
    struct muster_job_device *lane_reports; /* owns: as they were last, and when the job was over */
    uint64_t unit_max;       /* items a buffer holds; 0: any number, nothing is written */
    uint32_t halvings;       /* of the usual size of units: no device has memory for larger ones */
    uint32_t vain;           /* how often lanes have tried to get what nobody will give back */
    uint64_t short_since_ns; /* since when no job has anything on the devices of lanes that wait */
    /*
     * Where the job's memory should lie, for platform_pages_place: near its GPUs, since they copy all of
     * it; else near the devices it has at the start. Of several nodes pages come in turn.
     */
    uint64_t nodes;
    size_t buffer_bytes;
    /*
     * Own: what the buffers lie in, this many in each; none if nothing is written. In several, so that a
     * device's driver is told of those alone that the device uses.
     */
    struct pages *pages[LANE_RESULTS_MAX];
    uint32_t pages_count, pages_buffers;
    uint32_t buffer_count;
    struct muster_kept *kept; /* owns: those that a sink may keep */
    struct muster_kept *kept_free;
    struct muster_kept *kept_now; /* the result that is with the sink, if that has kept it */
    uint64_t window;              /* items, from the options' items and bytes; 0: any number */
    uint32_t *free_buffers;       /* owns: a stack */
    uint32_t free_count;
    uint32_t *unit_buffers;              /* owns: whose results a unit's are, by unit */
    muster_status *unit_failures;        /* owns: why a unit has no result, by unit */
    uint64_t delivery_bytes;             /* of the unit that was delivered last; the conductor's */
    uint64_t part_items;                 /* of one of the caller's units */
    uint32_t parts_max;                  /* of the caller's units in one of the lanes' */
    struct kernel_plan *kernel_plans[2]; /* own; on the device, on host memory; NULL: not needed */
    /* Of a job with a pipeline: */
    struct muster_pipeline *pipeline; /* NULL: it has a kernel and arguments */
    bool has_fixed_units;
    size_t strides[MUSTER_BUFFERS_MAX]; /* bytes of one of the caller's units in each buffer */
    size_t *result_bytes;               /* owns: by buffer, output and part */
    struct job_reduction reduction;
    struct run_source source;
    struct run_asker asker;
    struct run_joining joining;
    /* Items that were delivered as failed. The conductor's alone until the job is over. */
    struct muster_range failed[MUSTER_JOB_FAILED_MAX];
    size_t failed_count;
    uint64_t failed_items;
    struct muster_error first_failed; /* the first of them that was delivered */
    uint32_t users;                   /* who wait for it without owning it: it is not freed */
    bool is_known;                    /* muster_start has given it out: the sink may cancel it */
    bool is_over;
    bool was_told;  /* the log has its end */
    bool is_ending; /* a thread waits for the lanes: the conductor, or muster_job_wait */
    /* Data that it reads and that tasks write (data_hooks), until it is over. */
    uint64_t held[MUSTER_ARGS_MAX];
    uint32_t held_count;
    bool is_unwanted;    /* destroyed by its own callback: goes when it is over */
    uint64_t give_up_ns; /* when threads that are away are given up; UINT64_MAX: the job runs */
    struct kernel_hold *kernels; /* owns: those that attempts may run */
    bool has_own_mathematics;    /* one of them does */
    uint64_t start_ns, end_ns;
    uint64_t start_faults; /* lessons_page_faults then */
    muster_status status;
    struct muster_error error;   /* what made the job fail */
    struct muster_report report; /* as it was last, and when the job was over */
    struct job_live live;
    uint64_t range; /* that a profiler sees; 0: none */
};

static inline char *job_buffer(const struct muster_job *job, uint32_t buffer)
{
    if (job->pages_count == 0)
        return NULL;
    return job->pages[buffer / job->pages_buffers]->memory +
           (size_t)(buffer % job->pages_buffers) * job->buffer_bytes;
}

/* Instead of a buffer: the results are in the caller's arrays. */
#define JOB_NO_BUFFER UINT32_MAX

/* There is one for each unit that is not delivered and for each slot, so there always is one. */
static inline uint32_t job_take_buffer_locked(struct muster_job *job)
{
    INVARIANT(job->free_count > 0);
    return job->free_buffers[--job->free_count];
}

/* The statuses of a unit's items, NULL if nobody wants them. */
static inline muster_status *job_statuses(const struct muster_job *job, uint32_t buffer)
{
    return job->desc.each_status
               ? (muster_status *)(void *)(job_buffer(job, buffer) + job->status_offset)
               : NULL;
}

/* Something that anybody may wait for: the job starts, ends, is cancelled, a thread has left. */
static inline void job_wake_locked(struct muster_job *job)
{
    platform_condition_wake_all(&job->changed);
    platform_condition_wake_all(&job->news);
    platform_condition_wake_all(&job->source.changed);
    platform_condition_wake_all(&job->asker.changed);
    for (uint32_t i = 0; i < job->lane_count; i++)
        lane_wake_locked(&job->lanes[i]);
}

/* How many bytes of an output count, of a pipeline's job. */
static inline size_t *job_result_bytes(const struct muster_job *job, uint32_t buffer,
                                       uint32_t output, uint32_t part)
{
    return &job->result_bytes[((size_t)buffer * MUSTER_ARGS_MAX + output) * job->parts_max + part];
}

/* live.c: what the live page is told; nothing where there is none. */
void live_job_begin_locked(struct muster_job *job);
/* What a job is called: its kernel, or its pipeline's stages that are no copies. */
void job_name(const struct muster_job *job, char *out, size_t bytes);
/* A lane has taken units, of which this many are about to start, or handed some in. */
void live_lane_locked(struct muster_job *job, uint32_t lane, uint32_t starting, uint64_t now_ns);
/* Something was delivered. */
void live_delivered_locked(const struct muster_job *job);
/* It is over, and its report is made. */
void live_job_end_locked(struct muster_job *job);

/* check.c */
/* Reads and checks what the caller gave: then `desc` points into the job alone. */
muster_status job_read_desc(struct muster_job *job, const struct muster_job_desc *given,
                            struct muster_error *err);

/* halo.c */
/* The grid and the halos, once the arguments were read: then these are in items. */
muster_status halo_read(struct muster_job *job, struct muster_error *err);
/* What lies around arrays, and how many bytes that takes. */
muster_status halo_set_up(struct muster_job *job, struct muster_error *err);
size_t halo_bytes(const struct muster_job *job);
/* Items at each end of arrays that have margins; 0: none has. */
uint64_t halo_seam(const struct muster_job *job);
void halo_free(struct muster_job *job);

/* reduce.c */
/* Reads what is special of a reduction: it gets its own arguments and sink, and units of whole blocks. */
muster_status reduction_read(struct muster_job *job, struct muster_error *err);
/* Joins what is left when all was delivered; the result is the caller's to take. No lock is held. */
void reduction_finish(struct muster_job *job);
/* Writes what reduction_finish made to where the caller wants it. */
void reduction_write(const struct muster_job *job);
void reduction_free(struct muster_job *job);
static inline bool job_reduces(const struct muster_job *job)
{
    return job->reduction.with.partial != NULL;
}

/* policy.c */
/* Which policy is meant, by name or the user's own. */
muster_status job_find_policy(struct muster_job *job, struct muster_error *err);
/* Of "sticky", once the devices are known: the lane of the key's home. */
uint32_t job_home(const struct muster_job *job);
/* What asking the user's policy takes, if there is one, and the thread that does it. */
muster_status asker_set_up(struct muster_job *job, struct muster_error *err);
muster_status asker_start(struct muster_job *job, struct muster_error *err);
void asker_free(struct muster_job *job);

/* sizes.c */
/*
 * Whether a GPU takes part from the start: then units are as large as suit it. And whether one takes part
 * or may join: then lanes are as deep as suits it. Units stay small where none may come before the end.
 */
bool job_has_gpu(const struct muster_job *job);
bool job_may_have_gpu(const struct muster_job *job);
/* What a unit moves in one direction, where a GPU takes part and an item is not larger than that. */
size_t job_unit_bytes_gpu(const struct muster_job *job);
/*
 * How many of the caller's units, whose items have this many bytes on the way to the device or back, share
 * copies and launches; 1: each goes alone.
 */
uint64_t job_find_merge(const struct muster_job *job, size_t item_bytes);
/* Rounded down to what units are whole numbers of; one at least, where there is any. */
uint64_t job_of_multiples(const struct muster_job *job, uint64_t items);
/* How many items a unit has that is this many of the caller's, each of this many items at most. */
void job_set_units(struct muster_job *job, uint64_t part_items, uint64_t parts);
/* Adds an output to the buffers; false if no memory is that large. */
bool job_add_output(struct muster_job *job, const struct job_result_place *output);
/* How large units are, and where each written argument lies in a buffer. */
muster_status job_lay_out(struct muster_job *job, struct muster_error *err);
void job_set_core_options(struct muster_job *job);

/* direct.c */
/* Where attempts write results; once the devices are known. */
void job_find_output(struct muster_job *job);
/* Whether kernels on the device are given the caller's arrays and the job's buffers as they are. */
bool job_works_on_host(const struct muster_job *job, const struct run_device *device);
/* Whether they write into the caller's arrays on the device. */
bool job_is_direct_on(const struct muster_job *job, const struct run_device *device);

/* devices.c */
/*
 * Pins the devices of the job; each has a lane. `may_start_early`: devices that are not open yet are not
 * waited for, if the job names none and has others; room is made for them.
 */
muster_status job_find_devices(struct muster_job *job, bool may_start_early,
                               struct muster_error *err);
/* Whether the device takes part in the job, as it is now. */
bool job_takes_locked(const struct muster_job *job, const struct run_device *device);
/* Looks, with no lock held, for what the job's kernels need on the devices there are. */
void job_find_compilers(const struct muster_job *job);
/* Adds a lane for the device, which is pinned; the plan, which may come later, becomes the lane's. */
muster_status job_add_lane_locked(struct muster_job *job, struct run_device *device,
                                  struct lane_plan *plan, struct muster_error *err);

/* start.c */
/* What the job compiles to on the device. */
muster_status job_make_plan(struct muster_job *job, const struct run_device *device,
                            struct lane_plan **out, struct muster_error *err);
muster_status job_start_lane(struct run_lane *lane, struct muster_error *err);

/* join.c: devices that come when the job is under way. */
muster_status joining_start(struct muster_job *job, struct muster_error *err);
/*
 * Whether setting up the job's lane on the device takes long and others need not wait for it: the first
 * lane on a GPU, whose driver has to get to know the job's memory and kernels.
 */
bool joining_is_slow_locked(const struct muster_job *job, const struct run_device *device);
/* The lane, whose plan is made, is set up by its own thread and joins then. Before the first claim. */
void joining_put_off(struct run_lane *lane);
/* Starts the threads of those among the job's first `count` lanes that were put off. */
void joining_start_lanes(struct muster_job *job, uint32_t count);
/* The job is over: what it took without those that had not answered by now counts for the next one. */
void joining_end_locked(struct muster_job *job);
/* Whether some may still come. */
bool joining_has_hope_locked(const struct muster_job *job);
/* Whether a thread is still at it, which the job's end does not wait for. */
bool joining_is_inside_locked(const struct muster_job *job);
void job_joined_locked(struct run_lane *lane, bool takes_part);

/* memory.c */
void job_copy_values(struct muster_job *job);
muster_status job_allocate_buffers(struct muster_job *job, struct muster_error *err);
/* What the lane's device copies: the result buffers, and the ring, NULL if there is none. */
void job_lend_memory(struct muster_job *job, struct run_lane *lane, struct pages *ring);
muster_status job_make_core(struct muster_job *job, struct muster_error *err);
/* Tells the core what the lane's device is. */
void job_describe_lane(struct muster_job *job, uint32_t lane);
/* The kernel stays loaded as long as the job's memory. */
muster_status job_hold_kernel(struct muster_job *job, struct muster_kernel *kernel,
                              struct muster_error *err);
/* The same for those that are known from the start. */
muster_status job_hold_kernels(struct muster_job *job, struct muster_error *err);
void job_let_kernels_go(struct muster_job *job);
/* Frees the job's own memory; its lanes are torn down and nothing of it is under way. */
void job_free(struct muster_job *job);

/* deliver.c */
/* The conductor's thread. */
void job_conduct(void *job);
/*
 * Adds a range to MUSTER_JOB_FAILED_MAX of them at most, which stay in item order and apart. One for
 * which there is no room is joined with its neighbour, and so is what lies between.
 */
void job_add_failed(struct muster_range *ranges, size_t *count, struct muster_range range);

/* end.c */
/* A look at threads that will leave by themselves, where nobody says that they went away. */
#define JOB_LOOK_AGAIN_NS 1000000u
#define JOB_MISSING_BYTES 128
/* Notes the failure that the job ended with; a later one does not count. */
void job_note_locked(struct muster_job *job, const struct muster_error *error);
/*
 * What the job's end waits for, or has given up: devices, drivers' calls, the user's code. False if
 * there is nothing. `text` has JOB_MISSING_BYTES; `device` is the first of the devices, or NULL.
 */
bool job_name_missing_locked(const struct muster_job *job, char *text, struct run_device **device);
void job_cancel_locked(struct muster_job *job);
/* Looks for what is overdue. */
void job_look_locked(struct muster_job *job, uint64_t now_ns);
/* Looks if it is time to, and else waits until it is or something changes. */
void job_look_or_wait_locked(struct muster_job *job);
/*
 * The end of the job: waits until lanes and source have left or are given up, and concludes. Looks
 * on meanwhile: a lane whose device hangs would never leave. Called with the lock, by one thread.
 */
void job_end_locked(struct muster_job *job);
/* Data that tasks write: held from the start to the end. No lock. */
muster_status job_hold_data(struct muster_job *job, struct muster_error *err);
/* What it holds is the caller's, who lets it go with no lock held; how many there are. */
uint32_t job_take_held_locked(struct muster_job *job, uint64_t held[MUSTER_ARGS_MAX]);
void job_let_go(struct muster *m, const uint64_t *held, uint32_t count);
/* Waits until the job is over. Its sink has as much time as all others, and is then given up. */
void job_wait_until_over_locked(struct muster_job *job, uint64_t deadline_ns);
/* Ends threads that were started though not all could be. */
void job_stop_threads(struct muster_job *job);
/* Whether the job's end has to wait for what this thread is in. */
bool job_is_within(const struct muster_job *job);

/* close.c */
/* The job is over: leaves it to those threads that were given up, or frees it. */
void job_leave(struct muster_job *job);

/* report.c */
void job_make_report_locked(const struct muster_job *job, uint64_t end_ns,
                            struct muster_report *report);
/* Before anything is waited for: what the caller has room for. NULL is allowed. */
muster_status job_check_report(const struct muster_report *report, struct muster_error *err);
void job_write_report_locked(struct muster_job *job, struct muster_report *report);

/* kept.c */
muster_status kept_set_up(struct muster_job *job, struct muster_error *err);
void kept_free(struct muster_job *job);

/* source.c */
/* The size of the ring, once the core's options are known. */
void source_plan(struct muster_job *job);
muster_status source_set_up(struct muster_job *job, struct muster_error *err);
/* Starts the threads, if there is a source. */
muster_status source_start(struct muster_job *job, struct muster_error *err);
/* The thread of a call, counted from 0; NULL past the last. */
struct job_thread *source_thread(const struct muster_job *job, uint32_t index);
/* Whether that is so of any of them. */
bool source_has_thread(const struct muster_job *job,
                       bool (*is_so)(const struct job_thread *thread));
void source_free(struct muster_job *job);
/* Where in the ring an item lies, with the halo before it; the ring goes on for a second round. */
size_t source_offset(const struct run_source *source, uint64_t item);

/* file.c */
/*
 * How many calls at once a job's source takes if that is the file: `asked`, or as many as suit it for
 * 0; 1 of a pipe. More than 1: file_source_at is to be called, with item 0 at `*offset`.
 */
uint32_t file_source_calls(struct muster_file *file, uint32_t asked, uint64_t *offset);
/* As a job's source, of items anywhere in the source's file. Any number of threads at once. */
int64_t file_source_at(const struct run_source *source, uint64_t begin, uint64_t items, void *to,
                       size_t bytes);

/* kernel_job.c: what a job with a kernel and arguments compiles to. */
#define JOB_DEPTH_DEFAULT 2
/* Units that a lane holds at most. */
uint32_t kernel_job_depth(const struct muster_job *job);
/* Bytes of an item on the way to the device or back, whichever is more. */
size_t kernel_job_item_bytes(const struct muster_job *job);
muster_status kernel_job_compile(struct muster_job *job, const struct run_device *device,
                                 struct lane_plan *plan, struct muster_error *err);
void kernel_job_free(struct muster_job *job);

/* units.c: how lanes take units and hand them back. */
extern const struct lane_calls job_lane_calls;
/* The core was told something: wakes those who have something to do now. */
void job_tell_locked(struct muster_job *job);
void job_thread_left_locked(struct thread_group *group);
/* Whether a lane of the job has all it needs, or another job may give it back what is missing. */
bool job_has_hope_locked(const struct muster_job *job);

/* trace.c */
/* `begin_ns` is of trace_clock. */
void trace_delivery_locked(struct muster_job *job, struct muster_range range, uint64_t begin_ns,
                           muster_status status);
void trace_job_locked(const struct muster_job *job);

#endif
