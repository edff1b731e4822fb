/*
 * The runtime: opened once, owns devices and threads, takes nothing down with it.
 *
 * Public structs begin with `size`, which the caller sets to sizeof the struct, so that a program and
 * a library of different ages understand each other within one soname (docs/abi.md):
 *
 * - Size 0, and one smaller than the struct's first layout, is MUSTER_E_INVALID.
 * - A smaller struct is an older program's: what it does not have counts as 0.
 * - A larger one is a newer program's: MUSTER_E_VERSION if a field is set that the library does not
 *   know. A struct that Muster fills is filled as far as both know it, and is 0 after that.
 * - All structs of one array have one size, which is how far they are apart.
 */
#ifndef MUSTER_RUNTIME_H
#define MUSTER_RUNTIME_H

#include <muster/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_VERSION_MAJOR 0
#define MUSTER_VERSION_MINOR 2
#define MUSTER_VERSION_PATCH 0
#define MUSTER_VERSION_STRING "0.2.0"

struct muster;
struct muster_backend;

enum muster_log_level {
    MUSTER_LOG_ERROR = 1,
    MUSTER_LOG_WARNING = 2,
    MUSTER_LOG_INFO = 3,
    MUSTER_LOG_DEBUG = 4
};

/*
 * Where a runtime's memory comes from. `allocate` returns NULL or `bytes` of memory aligned to
 * `alignment` (a power of two); `release` gets the same size back. Both are called from any thread
 * and must not call Muster. Device and pinned memory do not come from here.
 */
struct muster_allocator {
    size_t size;
    void *(*allocate)(void *user, size_t bytes, size_t alignment);
    void (*release)(void *user, void *memory, size_t bytes);
    void *user; /* borrowed until muster_close returns */
};

/*
 * How to open a runtime. Zero means the default everywhere, so MUSTER_OPTIONS_INIT and then the
 * fields that matter.
 */
struct muster_options {
    size_t size;
    const struct muster_allocator *allocator; /* copied; NULL: the C library's */
    void (*log)(void *user, enum muster_log_level level,
                const char *text);   /* any thread; must not call Muster */
    void *log_user;                  /* borrowed until muster_close returns */
    enum muster_log_level log_level; /* 0: warnings and errors */
    /* Ids and names of backends, comma separated ("cpu", "sim:0"); NULL: MUSTER_DEVICES, else all */
    const char *devices;
    /* Simulated devices, JSON or the name of a file of it (docs/simulation.md); NULL: MUSTER_SIM */
    const char *sim;
    /* Shared objects, colon separated; NULL: the variable MUSTER_BACKENDS */
    const char *backend_paths;
    const struct muster_backend *const *backends; /* borrowed until muster_close returns */
    size_t backend_count;
    uint32_t streams_max;  /* streams that can be acquired from one device; 0: 16, at most 255 */
    uint32_t cpu_workers;  /* threads of a cpu device; 0: one for each allowed core */
    uint64_t memory_limit; /* bytes Muster may take on one device; 0: all it has */
    uint64_t poll_ns;      /* between two looks at free memory and the like; 0: 250 ms */
    /*
     * How long muster_close, and a job that is over or cancelled, wait for what may never return: a
     * device's unfinished work, a driver call, a callback; 0: 5 s.
     */
    uint64_t close_ns;
    /*
     * Devices to cut when they are found, each named once: "cuda:0=16,32,84;cuda:1=64/68". As
     * muster_device_slice does, and what that would refuse is the error of the backend's probe: its
     * devices are then left out, and muster_backend_list says why. NULL: MUSTER_SLICES
     */
    const char *slices;
    /*
     * Bytes of host memory of jobs, pinned, that the runtime keeps for the next job; 0: a quarter of
     * the machine's memory, 4 GiB at most; 1: none. A job may take more; that is freed when it is over.
     * muster_trim gives back what is kept.
     */
    uint64_t kept_bytes;
    /* Not 0: other processes of the user do not see what the runtime does (live.h); so does MUSTER_LIVE=0. */
    uint32_t no_live;
    /*
     * Backends whose devices live in processes of their own (docs/isolation.md), comma separated: "cpu,cuda";
     * "all" for cpu, cuda, opencl and sim. NULL: MUSTER_ISOLATE, else none. A kernel or driver that crashes or is
     * stopped there costs a restart. C functions of the program cannot run there.
     */
    const char *isolate;
    /*
     * Not 0: the kernels are not trusted; MUSTER_UNTRUSTED=1 does the same. All devices live in processes of their own,
     * kernels run only where such a process is a sandbox (docs/isolation.md: cpu and sim), and their source is compiled
     * in one. muster_open fails with MUSTER_E_NOT_SUPPORTED where the system has no Landlock or seccomp. Reductions are
     * refused, since partial results are joined in this process.
     */
    uint32_t untrusted;
};
/*
 * C++17 has no designated initializers, so in C++ this and the macros of the other headers make the
 * struct by a function.
 */
#ifdef __cplusplus
}
inline struct muster_options muster_options_init()
{
    struct muster_options options = {};
    options.size = sizeof options;
    return options;
}
#define MUSTER_OPTIONS_INIT muster_options_init()
extern "C" {
#else
/* clang-format off */
#define MUSTER_OPTIONS_INIT { .size = sizeof(struct muster_options) }
/* clang-format on */
#endif

/*
 * Opens a runtime; `options` may be NULL and is copied. No device is touched yet: a backend is
 * probed when a device of its kind is first wanted or listed, one whose driver is slow on a thread
 * of its own where no call needs its devices at once (muster_start). What the caller asked for by name
 * and does not exist (a malformed `sim` or `slices`, a backend file that does not load) is an error
 * here. Any number of runtimes may be open at once.
 *
 * Drivers do not bear exit() while they open. A process that does not close its runtime waits there for
 * them, 5 seconds at most, if this or muster_start was called on its first thread and exit() is too. On
 * another thread exit() may come too late for a driver that has registered a clean-up: close first.
 *
 * A runtime belongs to the process that opened it. After fork() every call of the child on that
 * runtime, or on an object of it, fails at once with MUSTER_E_FORKED and changes nothing; a call
 * that returns no status does nothing. That holds for muster_close too: it frees nothing and
 * touches no device, and the parent's runtime goes on. The child may open a runtime of its own.
 */
MUSTER_API muster_status muster_open(struct muster **out, const struct muster_options *options,
                                     struct muster_error *err);

/*
 * For programs that are linked statically and bring no muster-helper: to be called first in main. In a process that
 * the library has started as a helper it serves until it is killed, and then gives the exit status. In any other it
 * gives -1 at once, and from then on the helpers of this process are the program itself.
 */
MUSTER_API int muster_helper_main(int argc, char **argv);

/*
 * Closes the runtime and frees all of it: streams, blocks, pinned memory, data. Cancels its jobs, also
 * those that tasks and callbacks start from then on; tasks and callbacks that still run may go on
 * using their own jobs. Waits up to `close_ns` for unfinished work of healthy devices and for
 * sources, sinks and host stages of jobs, as long again for drivers that are being opened, and as long as
 * it takes for tasks. Then waits as long
 * again, at least a second, for drivers to close.
 *
 * MUSTER_E_DEVICE_HUNG: a device, a driver call or a callback has not returned, and `err` names the
 * first. What they use is abandoned, not freed; the arrays, the callbacks' data and the backends that
 * the caller gave must stay until the process ends. MUSTER_E_ORDER: called within a task, a kernel or
 * a callback of the runtime, which close would have to wait for; the runtime stays open. With every
 * other status the runtime is gone. No other call on it may be running. NULL is allowed.
 */
MUSTER_API muster_status muster_close(struct muster *m, struct muster_error *err);

/*
 * Gives back what the runtime keeps between jobs and no job uses now: pinned host memory, device
 * memory, threads. The next job takes longer to start. Muster gives memory back by itself when an
 * allocation would fail otherwise. Calls drivers. Any thread; NULL is allowed.
 */
MUSTER_API void muster_trim(struct muster *m);

/* The version of the library that is loaded, as MUSTER_VERSION_STRING is that of the header. */
MUSTER_API const char *muster_version(void);

#ifdef __cplusplus
}
#endif

#endif
