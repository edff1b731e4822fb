/*
 * Kernels: their forms, what each device has made of them, and launching them.
 */
#include "run/memory/kernel.h"
#include "run/memory/memory.h"

#include "base/allocator.h"
#include "kernel/build.h"
#include "kernel/check.h"
#include "kernel/mathematics.h"
#include "kernel/signature.h"
#include "platform/helper.h"

#include <muster/bundle.h>
#include <stdio.h>
#include <string.h>

/* A kernel as one device has it. */
struct built {
    struct built *next;
    struct run_device *device;
    void *state;               /* owns; NULL before it is built, and if that failed */
    struct kernel_image image; /* what `state` was made of */
    bool is_building;
    bool is_refused; /* a compiler said no, which it would say again */
    struct muster_error why;
};

struct muster_kernel {
    struct muster *m;
    struct muster_kernel *next, *previous;
    uint64_t number; /* no other kernel or pipeline of the runtime ever has it */
    char name[64];
    struct muster_kernel_form *forms; /* owns */
    size_t form_count;
    char *memory; /* owns: what the forms point to */
    size_t memory_bytes;
    struct kernel_entry *entry; /* owns: what it takes; NULL if its source does not say */
    struct built *built;        /* owns */
    struct kernel_image
        *host;      /* owns: as a function of this process, for reductions; NULL: not built */
    uint32_t holds; /* of jobs and tasks that may run it */
    bool is_gone;   /* for its user: the last that holds it frees it */
    bool has_own_mathematics;
};

static void free_kernel(struct muster_kernel *kernel)
{
    const struct muster_allocator *allocator = &kernel->m->allocator;
    allocator_give(allocator, kernel->entry, 1, sizeof *kernel->entry);
    allocator_give(allocator, kernel->memory, kernel->memory_bytes, 1);
    allocator_give(allocator, kernel->forms, kernel->form_count, sizeof *kernel->forms);
    allocator_give(allocator, kernel, 1, sizeof *kernel);
}

/* With a zero byte behind it. */
static const char *copy_to(char **to, const void *bytes, size_t size)
{
    char *copy = *to;
    memcpy(copy, bytes, size);
    *to += size + 1;
    return copy;
}

/* All that the forms point to, but functions. */
static muster_status copy_forms(struct muster_kernel *kernel,
                                const struct muster_kernel_form *forms, struct muster_error *err)
{
    const struct muster_allocator *allocator = &kernel->m->allocator;
    size_t total = 0, count = kernel->form_count;
    kernel->forms = allocator_take(allocator, count, sizeof *kernel->forms);
    if (!kernel->forms)
        return run_no_memory(err, "a kernel");
    for (size_t i = 0; i < count; i++) {
        struct muster_kernel_form *form = &kernel->forms[i];
        layout_complete(LAYOUT(muster_kernel_form), (const char *)forms + i * forms->size, form);
        if (form->kind == MUSTER_KERNEL_FUNCTION)
            continue;
        size_t names = strlen(form->entry) + 3 + (form->file ? strlen(form->file) : 0);
        if (__builtin_add_overflow(total, form->code_bytes, &total) ||
            __builtin_add_overflow(total, names, &total))
            return run_no_memory(err, "a kernel");
    }
    kernel->memory = allocator_take(allocator, total, 1);
    kernel->memory_bytes = total;
    if (!kernel->memory)
        return run_no_memory(err, "a kernel");
    char *to = kernel->memory;
    for (size_t i = 0; i < count; i++) {
        struct muster_kernel_form *copy = &kernel->forms[i];
        if (copy->kind == MUSTER_KERNEL_FUNCTION)
            continue;
        copy->code = copy_to(&to, copy->code, copy->code_bytes);
        copy->entry = copy_to(&to, copy->entry, strlen(copy->entry));
        if (copy->file)
            copy->file = copy_to(&to, copy->file, strlen(copy->file));
    }
    return MUSTER_OK;
}

/* Every portable form must be one; the first says what the kernel takes. */
static muster_status read_signatures(struct muster_kernel *kernel, struct muster_error *err)
{
    const struct muster_allocator *allocator = &kernel->m->allocator;
    struct kernel_signature *signature = NULL;
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < kernel->form_count && status == MUSTER_OK; i++) {
        const struct muster_kernel_form *form = &kernel->forms[i];
        if (form->kind != MUSTER_KERNEL_PORTABLE)
            continue;
        if (!signature)
            signature = allocator_take(allocator, 1, sizeof *signature);
        if (!signature)
            return run_no_memory(err, "a kernel");
        const struct mathematics found = mathematics_read(form->code, form->code_bytes);
        kernel->has_own_mathematics |= found.is_own && found.is_named;
        const char *file = form->file ? form->file : form->entry;
        status = kernel_signature_read(signature, form->code, form->code_bytes, file, err);
        if (status != MUSTER_OK)
            break;
        const struct kernel_entry *entry = kernel_signature_find(signature, form->entry);
        if (!entry)
            status = muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, "ask for one that it has",
                                       "%s has no kernel %s; its first is %s", file, form->entry,
                                       signature->entries[0].name);
        else if (!kernel->entry) {
            kernel->entry = allocator_take(allocator, 1, sizeof *kernel->entry);
            if (kernel->entry)
                *kernel->entry = *entry;
            else
                status = run_no_memory(err, "a kernel");
        }
    }
    allocator_give(allocator, signature, 1, sizeof *signature);
    return status;
}

muster_status muster_kernel_from(struct muster *m, const char *name,
                                 const struct muster_kernel_form *forms, size_t count,
                                 struct muster_kernel **out, struct muster_error *err)
{
    if (!m || !forms || !out || count == 0)
        return run_bad_argument(err, "muster_kernel_from", "an argument is NULL, or count is 0");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = layout_check_all(LAYOUT(muster_kernel_form), forms, count, err);
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        struct muster_kernel_form copy;
        status = kernel_form_check(layout_at(LAYOUT(muster_kernel_form), forms, i, &copy),
                                   "muster_kernel_from", err);
    }
    if (status != MUSTER_OK)
        return status;
    struct muster_kernel *kernel = allocator_take(&m->allocator, 1, sizeof *kernel);
    if (!kernel)
        return run_no_memory(err, "a kernel");
    kernel->m = m;
    kernel->form_count = count;
    snprintf(kernel->name, sizeof kernel->name, "%s", name ? name : "kernel");
    status = copy_forms(kernel, forms, err);
    if (status == MUSTER_OK)
        status = read_signatures(kernel, err);
    if (status != MUSTER_OK) {
        free_kernel(kernel);
        return status;
    }
    run_lock(m);
    kernel->number = ++m->next_token;
    kernel->next = m->kernels;
    if (m->kernels)
        m->kernels->previous = kernel;
    m->kernels = kernel;
    run_unlock(m);
    *out = kernel;
    return MUSTER_OK;
}

/* All forms must be of one kernel. */
static muster_status from_bundle(struct muster *m, const struct muster_bundle *bundle,
                                 const char *path, struct muster_kernel **out,
                                 struct muster_error *err)
{
    /* The forms of a bundle lie in a row. */
    const struct muster_kernel_form *first = muster_bundle_form(bundle, 0), *form;
    size_t count = 0;
    for (; (form = muster_bundle_form(bundle, count)); count++)
        if (strcmp(form->entry, first->entry) != 0)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "name the entry",
                                     "%s has several kernels, %s and %s among them", path,
                                     first->entry, form->entry);
    return muster_kernel_from(m, first->entry, first, count, out, err);
}

muster_status muster_kernel_load_files(struct muster *m, const char *const *paths, size_t count,
                                       const char *entry, struct muster_kernel **out,
                                       struct muster_error *err)
{
    if (!m || !paths || !out || count == 0)
        return run_bad_argument(err, "muster_kernel_load", "an argument is NULL, or count is 0");
    if (run_is_forked(m))
        return run_say_forked(err);
    struct muster_bundle *bundle;
    muster_status status = muster_bundle_create(&bundle, err);
    if (status != MUSTER_OK)
        return status;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        status = muster_bundle_add_file(bundle, paths[i], entry, err);
    if (status == MUSTER_OK)
        status = from_bundle(m, bundle, paths[0], out, err);
    muster_bundle_destroy(bundle);
    return status;
}

muster_status muster_kernel_load(struct muster *m, const char *path, const char *entry,
                                 struct muster_kernel **out, struct muster_error *err)
{
    return muster_kernel_load_files(m, &path, 1, entry, out, err);
}

static void free_built(struct built *built)
{
    struct run_device *device = built->device;
    const struct muster_backend *table = &device->backend->table;
    /* A hung driver is not asked for anything more, nor is code unloaded that it may still run. */
    if (device->is_hung) {
        run_lock(device->m);
        built->next = device->built_left;
        device->built_left = built;
        run_unlock(device->m);
        return;
    }
    if (built->state) {
        table->kernel_deinit(built->state);
        allocator_give(&device->m->allocator, built->state, 1, table->kernel_bytes);
    }
    kernel_image_release(&built->image, &device->m->allocator);
    allocator_give(&device->m->allocator, built, 1, sizeof *built);
}

void kernels_free_left(struct run_device *device)
{
    const struct muster_allocator *allocator = &device->m->allocator;
    while (device->built_left) {
        struct built *built = device->built_left;
        device->built_left = built->next;
        allocator_give(allocator, built->state, 1, device->backend->table.kernel_bytes);
        kernel_image_release(&built->image, allocator);
        allocator_give(allocator, built, 1, sizeof *built);
    }
}

static void free_host_image(struct muster_kernel *kernel, struct kernel_image *image)
{
    if (image)
        kernel_image_release(image, &kernel->m->allocator);
    allocator_give(&kernel->m->allocator, image, 1, sizeof *image);
}

static void free_all(struct muster_kernel *kernel)
{
    while (kernel->built) {
        struct built *built = kernel->built;
        kernel->built = built->next;
        free_built(built);
    }
    free_host_image(kernel, kernel->host);
    free_kernel(kernel);
}

void muster_kernel_destroy(struct muster_kernel *kernel)
{
    if (!kernel || run_is_forked(kernel->m))
        return;
    struct muster *m = kernel->m;
    run_lock(m);
    atomic_fetch_add_explicit(&m->epoch, 1, memory_order_relaxed);
    if (kernel->previous)
        kernel->previous->next = kernel->next;
    else
        m->kernels = kernel->next;
    if (kernel->next)
        kernel->next->previous = kernel->previous;
    kernel->is_gone = true;
    bool is_held = kernel->holds > 0;
    run_unlock(m);
    if (!is_held)
        free_all(kernel);
}

void kernel_hold_locked(struct muster_kernel *kernel)
{
    kernel->holds++;
}

void kernel_let_go(struct muster_kernel *kernel)
{
    struct muster *m = kernel->m;
    run_lock(m);
    bool is_last = --kernel->holds == 0 && kernel->is_gone;
    run_unlock(m);
    if (is_last)
        free_all(kernel);
}

void kernels_destroy_all(struct muster *m)
{
    while (m->kernels)
        muster_kernel_destroy(m->kernels);
}

bool kernel_is_of(const struct muster_kernel *kernel, const struct muster *m)
{
    return kernel->m == m;
}

bool kernel_has_own_mathematics(const struct muster_kernel *kernel)
{
    return kernel->has_own_mathematics;
}

uint64_t kernel_number(const struct muster_kernel *kernel)
{
    return kernel->number;
}

static struct kernel_target target_of(const struct run_device *device)
{
    return (struct kernel_target){ device->info.forms,
                                   { device->info.compute[0], device->info.compute[1] },
                                   !(device->info.capabilities & MUSTER_CAN_DOUBLE) };
}

/* What nobody trusts runs in sandboxes alone. */
static bool is_refused_untrusted(const struct run_device *device)
{
    return device->m->options.untrusted && !device->backend->is_sandboxed;
}

/* A function of the program that the device's helper has, too. */
static bool is_shared(const struct muster_kernel_form *form, const struct run_device *device)
{
    return form->kind == MUSTER_KERNEL_FUNCTION && device->backend->table.device_stop &&
           device->info.forms & MUSTER_KERNEL_SHARED_OBJECT &&
           platform_helper_name_of(form->function);
}

/* The first form that the device takes, else the first that can be made into one; NULL if none. */
static const struct muster_kernel_form *choose_form(const struct muster_kernel *kernel,
                                                    const struct run_device *device)
{
    const struct kernel_target target = target_of(device);
    if (is_refused_untrusted(device))
        return NULL;
    for (size_t i = 0; i < kernel->form_count; i++)
        if (kernel_is_taken(&kernel->forms[i], &target) || is_shared(&kernel->forms[i], device))
            return &kernel->forms[i];
    for (size_t i = 0; i < kernel->form_count; i++)
        if (kernel_can_build(&kernel->forms[i], &target))
            return &kernel->forms[i];
    return NULL;
}

static struct built *find_built_locked(const struct muster_kernel *kernel,
                                       const struct run_device *device)
{
    struct built *built = kernel->built;
    while (built && built->device != device)
        built = built->next;
    return built;
}

void *kernel_state_locked(const struct muster_kernel *kernel, const struct run_device *device)
{
    const struct built *built = find_built_locked(kernel, device);
    return built && !built->is_building ? built->state : NULL;
}

static void *find_state(const struct muster_kernel *kernel, const struct run_device *device)
{
    run_lock(kernel->m);
    void *state = kernel_state_locked(kernel, device);
    run_unlock(kernel->m);
    return state;
}

bool kernel_has_form_locked(const struct muster_kernel *kernel, const struct run_device *device)
{
    return kernel_state_locked(kernel, device) || choose_form(kernel, device);
}

void kernel_find_compilers(const struct muster_kernel *kernel)
{
    struct muster *m = kernel->m;
    struct kernel_target all = { 0, { 0, 0 }, false };
    run_lock(m);
    for (uint32_t i = 0; i < m->device_count; i++)
        if (!kernel_state_locked(kernel, m->devices[i]))
            all.forms |= m->devices[i]->info.forms;
    run_unlock(m);
    /* Each kind of device by itself: what serves one would end the search for another. */
    static const uint32_t kinds[] = { MUSTER_KERNEL_FUNCTION | MUSTER_KERNEL_SHARED_OBJECT,
                                      MUSTER_KERNEL_CUBIN | MUSTER_KERNEL_PTX };
    for (size_t i = 0; i < kernel->form_count; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const struct kernel_target one = { all.forms & kinds[k], { 0, 0 }, false };
            kernel_can_build(&kernel->forms[i], &one);
        }
}

/* The reason is that of the first form which something could be made of elsewhere. */
muster_status kernel_explain_no_form(const struct muster_kernel *kernel,
                                     const struct run_device *device, struct muster_error *err)
{
    const struct kernel_target target = target_of(device);
    struct muster_error why = { .text = "" };
    struct kernel_image image;
    if (is_refused_untrusted(device))
        muster_error_fill(&why, MUSTER_E_NOT_SUPPORTED, 0,
                          "use cpu or sim, or leave out untrusted if you trust the kernel",
                          "its helper is no sandbox, and the kernel is untrusted");
    for (size_t i = 0; i < kernel->form_count && !why.text[0]; i++) {
        if (kernel->forms[i].kind == MUSTER_KERNEL_FUNCTION) {
            if (device->backend->table.device_stop)
                muster_error_fill(
                    &why, MUSTER_E_NOT_SUPPORTED, 0,
                    "add its source or a shared object, or leave the device out of isolate",
                    "a C function of the program cannot run in a helper");
            continue;
        }
        if (kernel_build(&kernel->forms[i], &target, &kernel->m->allocator, &image, &why) ==
            MUSTER_OK)
            kernel_image_release(&image, &kernel->m->allocator);
    }
    muster_status status =
        muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                          why.fix[0] ? why.fix : "give the kernel in a form the device takes",
                          "%s has no form of kernel %s that it can run%s%s", device->info.id,
                          kernel->name, why.text[0] ? ": " : "", why.text);
    run_error_device(err, device);
    return status;
}

static void say_line(void *user, enum muster_log_level level, const char *line)
{
    const struct muster_kernel *kernel = user;
    run_log(kernel->m, level, "kernel %s: %s", kernel->name, line);
}

/* Whether the same would be said again: the kernel or the device would have to change. */
static bool is_final(muster_status status)
{
    return status == MUSTER_E_PARSE || status == MUSTER_E_NOT_FOUND || status == MUSTER_E_INVALID;
}

/* Makes a form into what the device's backend takes, and that into what its driver runs. */
static muster_status build(struct muster_kernel *kernel, struct built *built,
                           struct muster_error *err)
{
    struct muster *m = kernel->m;
    struct run_device *device = built->device;
    const struct muster_backend *table = &device->backend->table;
    const struct muster_kernel_form *form = choose_form(kernel, device);
    if (!form)
        return kernel_explain_no_form(kernel, device, err);
    const struct kernel_target target = target_of(device);
    const struct kernel_log log = { say_line, kernel };
    muster_status status = MUSTER_OK;
    if (is_shared(form, device))
        built->image = (struct kernel_image){ .form = *form };
    else
        status = (m->options.untrusted ? kernel_build_untrusted : kernel_build_logged)(
            form, &target, &m->allocator, &log, &built->image, &built->why);
    if (status != MUSTER_OK) {
        built->is_refused = is_final(status);
        if (err)
            *err = built->why;
        run_error_device(err, device);
        return status;
    }
    void *state = allocator_take(&m->allocator, 1, table->kernel_bytes);
    status =
        state
            ? device_note(device,
                          table->kernel_init(device->state, &built->image.form, state, &built->why),
                          &built->why)
            : run_no_memory(&built->why, "a kernel");
    if (status != MUSTER_OK) {
        /* A driver that compiles says it once, and not again for each unit. */
        built->is_refused = is_final(status);
        if (err)
            *err = built->why;
        allocator_give(&m->allocator, state, 1, table->kernel_bytes);
        kernel_image_release(&built->image, &m->allocator);
        return status;
    }
    run_count(&m->counts.kernels_built, 1);
    built->state = state;
    return MUSTER_OK;
}

/* Built by the first who asks, while the others wait. */
static muster_status make_built(struct muster_kernel *kernel, struct run_device *device,
                                struct muster_error *err)
{
    struct muster *m = kernel->m;
    struct built *fresh = NULL;
    run_lock(m);
    struct built *built = find_built_locked(kernel, device);
    if (!built) {
        run_unlock(m);
        fresh = allocator_take(&m->allocator, 1, sizeof *fresh);
        if (!fresh)
            return run_no_memory(err, "a kernel");
        run_lock(m);
        built = find_built_locked(kernel, device);
        if (!built) {
            *fresh = (struct built){ .next = kernel->built, .device = device };
            kernel->built = built = fresh;
            fresh = NULL;
        }
    }
    while (built->is_building)
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    bool mine = !built->state && !built->is_refused;
    built->is_building = mine;
    run_unlock(m);
    allocator_give(&m->allocator, fresh, 1, sizeof *fresh);
    if (built->is_refused) {
        if (err)
            *err = built->why;
        run_error_device(err, device);
        return built->why.status;
    }
    if (!mine)
        return MUSTER_OK;
    muster_status status = build(kernel, built, err);
    run_lock(m);
    built->is_building = false;
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
    return status;
}

void kernel_prepare(struct muster_kernel *kernel, struct run_device *device)
{
    if (find_state(kernel, device))
        return;
    const struct muster_kernel_form *form = choose_form(kernel, device);
    /* A function is there already. How it went is told by the first launch. */
    if (form && form->kind != MUSTER_KERNEL_FUNCTION)
        make_built(kernel, device, NULL);
}

muster_status kernel_get_built(struct muster_kernel *kernel, struct run_device *device, void **out,
                               struct muster_error *err)
{
    *out = find_state(kernel, device);
    muster_status status = *out ? MUSTER_OK : make_built(kernel, device, err);
    if (!*out && status == MUSTER_OK)
        *out = find_state(kernel, device);
    return status;
}

muster_status muster_kernel_parameter(const struct muster_kernel *kernel, size_t index,
                                      struct muster_kernel_parameter *out, struct muster_error *err)
{
    if (!kernel || !out)
        return run_bad_argument(err, "muster_kernel_parameter", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_kernel_parameter), out, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(kernel->m))
        return run_say_forked(err);
    const struct kernel_entry *entry = kernel->entry;
    if (!entry)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "give portable source too",
                                 "no form of kernel %s is portable source, which would say what it "
                                 "takes",
                                 kernel->name);
    if (index >= entry->parameter_count)
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, NULL,
                                 "kernel %s has %zu parameters after the item's number",
                                 kernel->name, entry->parameter_count);
    const struct kernel_parameter *parameter = &entry->parameters[index];
    struct muster_kernel_parameter found = { .is_block = parameter->is_block,
                                             .is_const = parameter->is_const,
                                             .bytes = parameter->is_block ? parameter->element_bytes
                                                                          : parameter->bytes };
    memcpy(found.name, parameter->name, sizeof found.name);
    memcpy(found.type, parameter->type, sizeof found.type);
    layout_write(LAYOUT(muster_kernel_parameter), out, &found);
    return MUSTER_OK;
}
_Static_assert(sizeof((struct muster_kernel_parameter *)0)->name == KERNEL_NAME_BYTES &&
                   sizeof((struct muster_kernel_parameter *)0)->type == KERNEL_TYPE_BYTES,
               "what is known of a parameter fits");

bool kernel_knows_arguments(const struct muster_kernel *kernel)
{
    return kernel->entry != NULL;
}

static const char *element_name(enum muster_element element)
{
    static const char *const names[] = { "unknown",         "8-bit integers",  "16-bit integers",
                                         "32-bit integers", "64-bit integers", "float",
                                         "double" };
    return names[element];
}

/* Whether the caller's C type and the source's type are the same, but for the sign of integers. */
static bool is_same_element(const struct kernel_parameter *wanted, enum muster_element given)
{
    static const size_t bytes[] = { 0, 1, 2, 4, 8, 4, 8 };
    size_t wanted_bytes = wanted->is_block ? wanted->element_bytes : wanted->bytes;
    bool is_float = given == MUSTER_ELEMENT_FLOAT || given == MUSTER_ELEMENT_DOUBLE;
    if (given == MUSTER_ELEMENT_UNKNOWN || wanted_bytes == 0 ||
        (size_t)given >= sizeof bytes / sizeof *bytes)
        return true;
    return wanted_bytes == bytes[given] && wanted->is_float == is_float;
}

static muster_status say_element(const struct muster_kernel *kernel, size_t index,
                                 const struct kernel_argument *arg, struct muster_error *err)
{
    const struct kernel_parameter *wanted = &kernel->entry->parameters[index];
    return muster_error_fill(err, MUSTER_E_INVALID, 0,
                             "give the type that the kernel's source names, or cast the pointer",
                             "parameter '%.40s' of kernel %s is %.60s, and was given %s",
                             wanted->name, kernel->name, wanted->type, element_name(arg->element));
}

static muster_status check_value(const struct muster_kernel *kernel, size_t index,
                                 const struct kernel_argument *arg, struct muster_error *err)
{
    const struct kernel_parameter *wanted = &kernel->entry->parameters[index];
    if (wanted->bytes > 0 && wanted->bytes != arg->bytes)
        return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                 "give a value of the type that the kernel's source names",
                                 "argument %zu of kernel %s has %zu bytes (%s), and was given %zu",
                                 index, kernel->name, wanted->bytes, wanted->type, arg->bytes);
    return is_same_element(wanted, arg->element) ? MUSTER_OK : say_element(kernel, index, arg, err);
}

/* What the source says of a pointer, const and the type, against what the caller says. */
static muster_status check_block(const struct muster_kernel *kernel, size_t index,
                                 const struct kernel_argument *arg, struct muster_error *err)
{
    const struct kernel_parameter *wanted = &kernel->entry->parameters[index];
    if (arg->access == MUSTER_READS && !wanted->is_const)
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0,
            "make it const in the kernel, or pass it as what is written: MUSTER_OUT, MUSTER_INOUT",
            "kernel %s may write '%.40s' (%.60s), which was given as only read", kernel->name,
            wanted->name, wanted->type);
    if (arg->access & MUSTER_WRITES && wanted->is_const)
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, "pass it as what is read, MUSTER_IN, or take the const away",
            "kernel %s cannot write '%.40s' (%.60s), which was given as written", kernel->name,
            wanted->name, wanted->type);
    if (!is_same_element(wanted, arg->element))
        return say_element(kernel, index, arg, err);
    if (wanted->element_bytes > 0 && arg->bytes % wanted->element_bytes != 0)
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, "an item has one or more whole elements",
            "parameter '%.40s' of kernel %s is %.60s, and was given items of %zu bytes",
            wanted->name, kernel->name, wanted->type, arg->bytes);
    return MUSTER_OK;
}

muster_status kernel_check_reduction(const struct muster_kernel *kernel,
                                     const struct kernel_argument *args, size_t count,
                                     struct muster_error *err)
{
    const struct kernel_entry *entry = kernel->entry;
    if (!entry)
        return MUSTER_OK;
    if (count != entry->parameter_count)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give what the kernel's source names",
                                 "kernel %s takes %zu arguments, and was given %zu", kernel->name,
                                 entry->parameter_count, count);
    for (size_t i = 0; i < count; i++) {
        const struct kernel_parameter *wanted = &entry->parameters[i];
        if (wanted->is_block != args[i].is_block)
            return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                     "give what the kernel's source names",
                                     "argument %zu of kernel %s is a %s (%s), and was given a %s",
                                     i, kernel->name, wanted->is_block ? "block" : "value",
                                     wanted->type, args[i].is_block ? "block" : "value");
        muster_status status = wanted->is_block ? check_block(kernel, i, &args[i], err)
                                                : check_value(kernel, i, &args[i], err);
        if (status != MUSTER_OK)
            return status;
    }
    return MUSTER_OK;
}

muster_status kernel_check_arguments(const struct muster_kernel *kernel,
                                     const struct kernel_argument *args, size_t count,
                                     struct muster_error *err)
{
    if (kernel->entry && kernel_entry_reduces(kernel->entry))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "run it with muster_reduce",
                                 "kernel %s is a reduction, which has no result for each item",
                                 kernel->name);
    return kernel_check_reduction(kernel, args, count, err);
}

const struct kernel_entry *kernel_entry(const struct muster_kernel *kernel)
{
    return kernel->entry;
}

const char *kernel_name(const struct muster_kernel *kernel)
{
    return kernel->name;
}

static const struct muster_kernel_form *find_form(const struct muster_kernel *kernel,
                                                  enum muster_kernel_kind kind)
{
    for (size_t i = 0; i < kernel->form_count; i++)
        if (kernel->forms[i].kind == kind)
            return &kernel->forms[i];
    return NULL;
}

/* The first form that a compiler of this machine, or none, makes a function of. */
static muster_status build_host_image(struct muster_kernel *kernel, struct kernel_image *out,
                                      struct muster_error *err)
{
    const struct kernel_target target = { .forms = MUSTER_KERNEL_FUNCTION };
    const struct kernel_log log = { say_line, kernel };
    const struct muster_kernel_form *form = NULL;
    for (size_t i = 0; i < kernel->form_count; i++) {
        const struct muster_kernel_form *other = &kernel->forms[i];
        bool is_ours =
            other->kind == MUSTER_KERNEL_PORTABLE || other->kind == MUSTER_KERNEL_SHARED_OBJECT;
        /* Where none can be built, the portable one says why. */
        if (is_ours && (!form || !kernel_can_build(form, &target)))
            form = other;
    }
    return kernel_build_logged(form, &target, &kernel->m->allocator, &log, out, err);
}

muster_status kernel_get_host_image(struct muster_kernel *kernel, const struct kernel_image **out,
                                    struct muster_error *err)
{
    struct muster *m = kernel->m;
    if (m->options.untrusted)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "leave out untrusted, if you trust the kernel",
                                 "kernel %s is untrusted, and partial results of a reduction are "
                                 "joined by its own code in the program itself",
                                 kernel->name);
    run_lock(m);
    *out = kernel->host;
    run_unlock(m);
    if (*out)
        return MUSTER_OK;
    struct kernel_image *image = allocator_take(&m->allocator, 1, sizeof *image);
    if (!image)
        return run_no_memory(err, "a kernel");
    muster_status status = build_host_image(kernel, image, err);
    if (status != MUSTER_OK) {
        allocator_give(&m->allocator, image, 1, sizeof *image);
        return status;
    }
    run_lock(m);
    /* Another thread may have been faster. */
    struct kernel_image *spare = kernel->host ? image : NULL;
    if (!kernel->host)
        kernel->host = image;
    *out = kernel->host;
    run_unlock(m);
    free_host_image(kernel, spare);
    return MUSTER_OK;
}

muster_status kernel_get_function(struct muster_kernel *kernel, muster_kernel_function *out,
                                  struct muster_error *err)
{
    const struct kernel_image *image;
    for (size_t i = 0; i < kernel->form_count; i++)
        if (kernel->forms[i].kind == MUSTER_KERNEL_FUNCTION) {
            *out = kernel->forms[i].function;
            return MUSTER_OK;
        }
    if (!find_form(kernel, MUSTER_KERNEL_PORTABLE) &&
        !find_form(kernel, MUSTER_KERNEL_SHARED_OBJECT))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "give it in the portable form, or as a C function",
                                 "the kernel %s has no form that a processor runs", kernel->name);
    muster_status status = kernel_get_host_image(kernel, &image, err);
    if (status == MUSTER_OK)
        *out = image->form.function;
    return status;
}

const struct muster_kernel_form *kernel_portable_form(const struct muster_kernel *kernel)
{
    return find_form(kernel, MUSTER_KERNEL_PORTABLE);
}

static muster_status read_operands(const struct muster_operand *args, size_t count,
                                   struct muster_use *uses, size_t *use_count,
                                   struct muster_error *err)
{
    size_t bytes = 0;
    *use_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (args[i].access != 0) {
            uses[(*use_count)++] =
                (struct muster_use)MUSTER_USE(args[i].block, (enum muster_access)args[i].access);
            bytes += sizeof(void *);
        } else if (!args[i].value || args[i].bytes == 0) {
            return run_bad_argument(err, "muster_launch",
                                    "an argument is neither a block nor a value");
        } else {
            /* One that is too large by itself stands for itself: the sum must not wrap. */
            bytes = args[i].bytes > MUSTER_ARG_BYTES_MAX ? args[i].bytes : bytes + args[i].bytes;
        }
        if (bytes > MUSTER_ARG_BYTES_MAX)
            return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "put large arguments into a block",
                                     "the arguments have more than %d bytes", MUSTER_ARG_BYTES_MAX);
    }
    return MUSTER_OK;
}

static muster_status resolve_operands(const struct operation_run *run,
                                      const struct muster_operand *args, size_t count,
                                      struct muster_launch_arg *out, struct muster_error *err)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (struct muster_launch_arg){ .value = args[i].value, .bytes = args[i].bytes };
        if (args[i].access == 0)
            continue;
        out[i] = (struct muster_launch_arg){ .memory = operation_memory(run, args[i].block),
                                             .offset = args[i].offset };
        if (args[i].offset >= out[i].memory->bytes)
            return run_bad_argument(err, "muster_launch", "an offset beyond the end of its block");
    }
    return MUSTER_OK;
}

static muster_status check_operands(const struct muster_kernel *kernel,
                                    const struct muster_operand *args, size_t count,
                                    struct muster_error *err)
{
    struct kernel_argument given[MUSTER_ARGS_MAX];
    if (!kernel->entry)
        return MUSTER_OK;
    for (size_t i = 0; i < count; i++)
        given[i] = (struct kernel_argument){ .is_block = args[i].access != 0,
                                             .bytes = args[i].access != 0 ? 0 : args[i].bytes,
                                             .access = args[i].access };
    return kernel_check_arguments(kernel, given, count, err);
}

/* Builds the kernel for the stream's device with nothing held: a compiler may run for seconds. */
static muster_status build_for_stream(struct muster *m, muster_stream handle,
                                      struct muster_kernel *kernel, struct muster_error *err)
{
    struct run_stream *stream;
    muster_status status = stream_pin(m, handle, &stream, err);
    if (status != MUSTER_OK)
        return status;
    status = make_built(kernel, stream->device, err);
    stream_unpin(stream);
    return status;
}

/* Begins the operation; on success the kernel is built, as `*state`. */
static muster_status begin_launch(struct muster *m, muster_stream stream,
                                  struct muster_kernel *kernel, const struct muster_use *uses,
                                  size_t use_count, struct operation_run *run, void **state,
                                  struct muster_error *err)
{
    muster_status status = operation_begin(m, stream, uses, use_count, HOLDER_OPERATION, run, err);
    if (status != MUSTER_OK)
        return status;
    *state = find_state(kernel, run->stream->device);
    if (*state)
        return MUSTER_OK;
    operation_abandon(run);
    status = build_for_stream(m, stream, kernel, err);
    if (status == MUSTER_OK)
        status = operation_begin(m, stream, uses, use_count, HOLDER_OPERATION, run, err);
    if (status == MUSTER_OK)
        *state = find_state(kernel, run->stream->device);
    return status;
}

muster_status muster_launch(struct muster *m, muster_stream stream, struct muster_kernel *kernel,
                            uint64_t begin, uint64_t items, const struct muster_operand *given,
                            size_t arg_count, muster_status *result, struct muster_error *err)
{
    struct muster_operand copies[MUSTER_ARGS_MAX];
    if (!m || !kernel || kernel->m != m || (!given && arg_count > 0))
        return run_bad_argument(err, "muster_launch",
                                "an argument is NULL, or the kernel is another runtime's");
    if (run_is_forked(m))
        return run_say_forked(err);
    if (items > UINT64_MAX - begin)
        return run_bad_argument(err, "muster_launch", "begin + items does not fit");
    if (arg_count > MUSTER_ARGS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "pack values into a struct",
                                 "%zu arguments; at most %d", arg_count, MUSTER_ARGS_MAX);
    struct muster_use uses[MUSTER_ARGS_MAX] = { { .size = 0 } };
    size_t use_count;
    muster_status status;
    const struct muster_operand *args =
        layout_read_all(LAYOUT(muster_operand), given, arg_count, copies, &status, err);
    if (status == MUSTER_OK)
        status = read_operands(args, arg_count, uses, &use_count, err);
    if (status == MUSTER_OK)
        status = check_operands(kernel, args, arg_count, err);
    if (status != MUSTER_OK)
        return status;
    struct operation_run run;
    void *state;
    status = begin_launch(m, stream, kernel, uses, use_count, &run, &state, err);
    if (status != MUSTER_OK)
        return status;
    struct run_device *device = run.stream->device;
    struct muster_launch_arg resolved[MUSTER_ARGS_MAX];
    status = resolve_operands(&run, args, arg_count, resolved, err);
    if (status == MUSTER_OK && result)
        *result = MUSTER_OK;
    if (status == MUSTER_OK && items > 0) {
        run.flight->user_result = result;
        const struct muster_launch_desc launch = { .begin = begin,
                                                   .items = items,
                                                   .args = resolved,
                                                   .arg_count = arg_count,
                                                   .result = result ? &run.flight->result : NULL };
        status = device_note(
            device, device->backend->table.launch(run.stream->state, state, &launch, 1, err), err);
    }
    if (status != MUSTER_OK) {
        operation_abandon(&run);
        return status;
    }
    return operation_end(&run, true, items, err);
}
