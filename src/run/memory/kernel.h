/*
 * Kernels: the forms that a user gave, and what devices have built of them.
 */
#ifndef RUN_KERNEL_H
#define RUN_KERNEL_H

#include "run/device/device.h"

#include <muster/job.h>

bool kernel_is_of(const struct muster_kernel *kernel, const struct muster *m);
/* No other kernel or pipeline of the runtime ever has it. */
uint64_t kernel_number(const struct muster_kernel *kernel);
/* Whether the kernel has a form that the device can use. Cheap after kernel_find_compilers. */
bool kernel_has_form_locked(const struct muster_kernel *kernel, const struct run_device *device);
/*
 * The kernel's state on the device, built by the first who asks, while others wait. May take long.
 */
muster_status kernel_get_built(struct muster_kernel *kernel, struct run_device *device, void **out,
                               struct muster_error *err);
/* The same if it is there already, else NULL. */
void *kernel_state_locked(const struct muster_kernel *kernel, const struct run_device *device);
/* Looks, with no lock held, for what its forms may need on the devices that it is not built for. */
void kernel_find_compilers(const struct muster_kernel *kernel);
/* Says why not: MUSTER_E_NOT_SUPPORTED. */
muster_status kernel_explain_no_form(const struct muster_kernel *kernel,
                                     const struct run_device *device, struct muster_error *err);
/* Builds it for the device before it is first needed there; how that went is told by the launch. */
void kernel_prepare(struct muster_kernel *kernel, struct run_device *device);
/* Whether a form takes the device's own mathematics: MUSTER_FAST_MATH. */
bool kernel_has_own_mathematics(const struct muster_kernel *kernel);
/* Whether it is known what the kernel takes. */
bool kernel_knows_arguments(const struct muster_kernel *kernel);
/* One argument as the caller gives it, as far as that is known: zeros are compared with nothing. */
struct kernel_argument {
    bool is_block;
    size_t bytes;    /* of the value, or of an item in the block */
    uint32_t access; /* enum muster_access: what the caller says is done with the block */
    enum muster_element element; /* of the value, or in the block */
    /* For kernel_check_reach: */
    bool is_cut;    /* a unit has its own items of it, and not all there are */
    uint64_t halo;  /* items in memory before and after them */
    uint64_t cells; /* of a grid: the halo in cells */
};
/* What a kernel's items are, for kernel_check_reach. */
struct kernel_items {
    uint64_t count; /* or MUSTER_ITEMS_UNKNOWN */
    uint64_t
        together; /* that many are always in one unit, from a multiple of it on; 1: each alone */
    bool is_grid, has_depth;
    uint32_t reach; /* of a grid: the largest halo in cells */
};
/* MUSTER_E_INVALID if the kernel's source is known and takes something else. */
muster_status kernel_check_arguments(const struct muster_kernel *kernel,
                                     const struct kernel_argument *args, size_t count,
                                     struct muster_error *err);
/*
 * Whether each item stays within what the arguments give it, as far as the kernel's source shows
 * (kernel/reach.h). MUSTER_E_INVALID with the line, and with the halo that it would take.
 */
muster_status kernel_check_reach(const struct muster_kernel *kernel,
                                 const struct kernel_argument *args, size_t count,
                                 const struct kernel_items *items, struct muster_error *err);
/* What the kernel's source says it takes; NULL if no form of it is portable source. */
struct kernel_entry;
const struct kernel_entry *kernel_entry(const struct muster_kernel *kernel);
const char *kernel_name(const struct muster_kernel *kernel);
/* The same as kernel_check_arguments for the arguments of a reduction, which that refuses. */
muster_status kernel_check_reduction(const struct muster_kernel *kernel,
                                     const struct kernel_argument *args, size_t count,
                                     struct muster_error *err);
/* Built as a function of this process, whatever devices there are; stays as long as the kernel. */
struct kernel_image;
muster_status kernel_get_host_image(struct muster_kernel *kernel, const struct kernel_image **out,
                                    struct muster_error *err);
/* The kernel as a function of this process, as it was given or built of another form. */
muster_status kernel_get_function(struct muster_kernel *kernel, muster_kernel_function *out,
                                  struct muster_error *err);
/* Its first form of the portable kind; NULL: there is none. */
const struct muster_kernel_form *kernel_portable_form(const struct muster_kernel *kernel);
/* A kernel that is held stays, with all that devices have built of it, when its user destroys it. */
void kernel_hold_locked(struct muster_kernel *kernel);
void kernel_let_go(struct muster_kernel *kernel);
void kernels_destroy_all(struct muster *m);
/* After a hung device was closed: what it might have run until then. */
void kernels_free_left(struct run_device *device);

#endif
