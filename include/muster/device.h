/*
 * Devices: what they are (info, fixed) and what they are doing (load, live).
 */
#ifndef MUSTER_DEVICE_H
#define MUSTER_DEVICE_H

#include <muster/runtime.h>

#ifdef __cplusplus
MUSTER_SAME_NAMES_BEGIN
extern "C" {
#endif

/* A device of one runtime. Goes stale when the device is cut into slices. */
typedef struct {
    uint32_t index, generation;
} muster_device;

enum muster_capability {
    MUSTER_CAN_WAIT_VALUE = 1 << 0,      /* a stream can wait for a generation counter */
    MUSTER_CAN_STREAM_MEMORY = 1 << 1,   /* memory is allocated and freed in stream order */
    MUSTER_CAN_GRAPHS = 1 << 2,          /* many launches can be given as one */
    MUSTER_CAN_SLICE = 1 << 3,           /* the device can be cut */
    MUSTER_CAN_PRIORITIES = 1 << 5,      /* streams can have priorities other than 0 */
    MUSTER_CAN_USE_HOST_MEMORY = 1 << 6, /* kernels can be given plain host pointers */
    MUSTER_CAN_RUN_IN_PIECES = 1 << 7,   /* kernels can change arrays piece by piece, in order */
    MUSTER_CAN_DOUBLE = 1 << 8,          /* kernels can compute in double */
    /* Kernels can be given pointers into what muster_host_allocate gives, though to no other host memory. */
    MUSTER_CAN_USE_SHARED_MEMORY = 1 << 9
};

enum muster_health {
    MUSTER_HEALTH_OK = 0,
    /*
     * A wait on it has timed out, and it has not finished anything since; or it hangs: it answers
     * MUSTER_E_DEVICE_HUNG until its driver and its work have come back.
     */
    MUSTER_HEALTH_SUSPECT = 1,
    /* Works, but another device of its failure domain was lost: answers MUSTER_E_DEVICE_LOST. */
    MUSTER_HEALTH_QUARANTINED = 2,
    MUSTER_HEALTH_LOST = 3
};

/* What a device is, whichever backend drives it. */
enum muster_device_kind {
    MUSTER_KIND_OTHER = 0,
    MUSTER_KIND_CPU = 1,
    MUSTER_KIND_GPU = 2,
    MUSTER_KIND_ACCELERATOR = 3,
    MUSTER_KIND_SIMULATED = 4
};

/* Fixed facts. The caller sets `size`. Text is always terminated. */
struct muster_device_info {
    size_t size;
    char id[24];         /* "cpu:0", "cuda:0/1" */
    char name[96];       /* as the vendor calls it */
    char backend[16];    /* "cpu" */
    char parent[24];     /* the id of the device this is a slice of, "" if it is whole */
    char pci[16];        /* "0000:3b:00.0", "" if it has none */
    uint32_t domain;     /* devices with the same number fail together */
    uint16_t compute[2]; /* compute capability, {0, 0} where there is no such thing */
    uint32_t cores;      /* multiprocessors, or cores */
    uint32_t copy_engines;
    int32_t numa_node;     /* -1: unknown or none */
    uint32_t capabilities; /* enum muster_capability, or-ed */
    int32_t priority_least,
        priority_greatest; /* smaller is more urgent, as in CUDA; both 0 without priorities */
    uint32_t streams_max;  /* how many streams muster_stream_acquire gives at once */
    uint32_t forms;        /* enum muster_kernel_kind (kernel.h), as bits: the kernels it can run */
    uint64_t memory_total; /* bytes */
    double weight; /* how much work it should get beside others, before anything is measured */
    enum muster_device_kind kind;
    /* The device of another backend that is the same silicon, "" if none is known. */
    char same_as[24];
    /* NVIDIA's "GPU-..." or "MIG-...", as CUDA_VISIBLE_DEVICES takes it; "" if none. */
    char uuid[48];
};

/*
 * Live figures. The caller sets `size`. Counters are exact at the time of the call. What must be
 * asked of the driver was sampled at `sampled_ns` by the runtime's poller, which sleeps while
 * no caller asks.
 */
struct muster_device_load {
    size_t size;
    uint64_t memory_free;        /* sampled: on the device, whichever program uses the rest */
    uint64_t memory_total;       /* sampled */
    uint64_t memory_used;        /* held by this runtime, less what it keeps between jobs */
    uint64_t memory_reserved;    /* promised by this runtime, not yet allocated */
    uint64_t memory_unreclaimed; /* freed, but the device has not finished with it */
    uint32_t streams_active;     /* streams with work in flight */
    uint32_t streams_acquired;
    uint64_t queue_depth;     /* units given and not finished */
    uint64_t bytes_in_flight; /* of copies given and not finished */
    /* Units; dispatched = queue_depth + completed + failed. */
    uint64_t dispatched, completed, failed;
    /* Moving averages (first sample seeds, then 0.1), concurrency counted; 0: none yet. */
    double items_per_s, bytes_per_s;
    enum muster_health health;
    double utilisation;   /* sampled: 0 to 1, negative if unknown */
    double temperature_c; /* sampled: below -273 if unknown */
    uint64_t sampled_ns;  /* monotonic clock; 0: the driver has not answered yet */
};

/* What became of a backend: for people who ask why a device is missing. The caller sets `size`. */
struct muster_backend_report {
    size_t size;
    char name[16];
    char path[128]; /* the shared object it came from, "" if built in; cut off if longer */
    uint32_t device_count;
    /* Devices that are left out, since another backend has the same silicon. */
    uint32_t hidden_count;
    char hidden[128]; /* "1 device hidden: the same silicon as cpu:0", "" if none */
    /* error.status 0: usable; MUSTER_E_NOT_FOUND: none of its kind here */
    struct muster_error error;
};

/*
 * Gives the devices that may be used, in the order of their ids within each backend. Probes every
 * backend that was not probed yet. The same silicon is given once: an OpenCL device that is a GPU
 * or the processor of another backend is hidden unless the option `devices` names it or its
 * backend, or `slices` names it. `*count` is set to how many there are; with `capacity` too small
 * the status is MUSTER_E_CAPACITY and nothing else is written. A backend that fails its probe
 * contributes no device: see muster_backend_list. MUSTER_E_NOT_FOUND: the option `devices` names
 * one that this machine does not have.
 */
MUSTER_API muster_status muster_device_list(struct muster *m, muster_device *out, size_t capacity,
                                            size_t *count, struct muster_error *err);

/* The device with this id. Probes only its backend. MUSTER_E_NOT_FOUND says which there are. */
MUSTER_API muster_status muster_device_find(struct muster *m, const char *id, muster_device *out,
                                            struct muster_error *err);

/* Any thread, also of a lost device; MUSTER_E_STALE: it was cut. */
MUSTER_API muster_status muster_device_info(struct muster *m, muster_device device,
                                            struct muster_device_info *info,
                                            struct muster_error *err);

/* Waits for the driver's first answer at most one second, then never again. */
MUSTER_API muster_status muster_device_load(struct muster *m, muster_device device,
                                            struct muster_device_load *load,
                                            struct muster_error *err);

/*
 * Cuts a whole device into `count` slices of `sizes[i]` multiprocessors or cores each. The device
 * leaves the pool and its handle goes stale; `out[i]` are its slices, "cuda:0/0" and so on, which
 * share its failure domain. `sizes` may add up to less than the device. A size the driver would
 * round is refused with the size that fits. All or nothing; refused with MUSTER_E_BUSY while
 * streams, blocks or resident data of the device are in use.
 */
MUSTER_API muster_status muster_device_slice(struct muster *m, muster_device device,
                                             const uint32_t *sizes, size_t count,
                                             muster_device *out, struct muster_error *err);

/*
 * Probes every backend and reports on each; counts as muster_device_list does. The caller sets each
 * out[i].size. A backend that the option `devices` leaves out is not probed and has no devices.
 */
MUSTER_API muster_status muster_backend_list(struct muster *m, struct muster_backend_report *out,
                                             size_t capacity, size_t *count,
                                             struct muster_error *err);

/* "gpu", "lost" and so on; never NULL. */
MUSTER_API const char *muster_device_kind_name(enum muster_device_kind kind);
MUSTER_API const char *muster_health_name(enum muster_health health);

#ifdef __cplusplus
}
MUSTER_SAME_NAMES_END
#endif

#endif
