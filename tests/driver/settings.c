/*
 * What machine the driver plays and what it fails, from the variable TEST_CUDA and from control.h.
 */
#include "inside.h"

#include <stdlib.h>
#include <string.h>

#define FAULTS_MAX 8
#define NAME_MAX_ 64

struct settings settings;

enum fault_kind { FAULT_CALL, FAULT_CALLS_FROM, FAULT_POISON, FAULT_HANG };

/* Read by any thread once `is_set`; the fields do not change before it is cleared. */
struct fault {
    _Atomic bool is_set;
    enum fault_kind kind;
    char function[NAME_MAX_]; /* or the kind of work */
    CUresult code;
    _Atomic uint64_t left; /* until it happens; 0: it has */
};

static struct fault faults[FAULTS_MAX];
static pthread_mutex_t settings_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct site *_Atomic sites;
/* Work that hangs keeps the number it was given; all up to the released one go on. */
static _Atomic unsigned hang_tickets, hangs_released;

static const struct settings settings_default = { .devices = 1,
                                                  .sms = 132,
                                                  .compute = 90,
                                                  .version = 13000,
                                                  .ptx = 90,
                                                  .grid = 2147483647,
                                                  .memory = UINT64_C(1) << 30,
                                                  .has_pools = true,
                                                  .has_gates = true,
                                                  .has_green = true,
                                                  .has_graphs = true };

/* A name is that of a function, or the same without the version that the library exports it under. */
static bool names(const char *wanted, const char *function)
{
    size_t length = strlen(wanted);
    return strcmp(wanted, "any") == 0 ||
           (strncmp(wanted, function, length) == 0 &&
            (function[length] == 0 || strncmp(function + length, "_v", 2) == 0));
}

static _Atomic uint64_t hits;

/* Counts down; true when this is the one. */
static bool is_hit(struct fault *fault)
{
    uint64_t left = atomic_load_explicit(&fault->left, memory_order_relaxed);
    while (left > 0 &&
           !atomic_compare_exchange_weak_explicit(&fault->left, &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed)) {}
    bool is_now = left == 1 || (left == 0 && fault->kind == FAULT_CALLS_FROM);
    if (is_now)
        atomic_fetch_add_explicit(&hits, 1, memory_order_relaxed);
    return is_now;
}

/* Errors that end a context, whatever call they come from. */
static bool ends_contexts(CUresult code)
{
    return code == 214 || code == 220 || code == 226 || code == 702 || code == 999 ||
           code == CUDA_ERROR_ILLEGAL_ADDRESS ||
           (code >= 709 && code <= 721 && code != 712 && code != 713);
}

static CUresult fault_of_call(const char *function)
{
    for (int i = 0; i < FAULTS_MAX; i++) {
        struct fault *fault = &faults[i];
        if (atomic_load_explicit(&fault->is_set, memory_order_acquire) &&
            (fault->kind == FAULT_CALL || fault->kind == FAULT_CALLS_FROM) &&
            names(fault->function, function) && is_hit(fault)) {
            for (int at = 0; at < DEVICES_MAX && ends_contexts(fault->code); at++) {
                device_poison(&devices[at], fault->code);
                device_come_to_rest(&devices[at]);
            }
            return fault->code;
        }
    }
    return CUDA_SUCCESS;
}

CUresult fault_of_work(enum work work, bool *hangs)
{
    const char *name = work == WORK_LAUNCH ? "launch" : work == WORK_COPY ? "copy" : "other";
    CUresult result = CUDA_SUCCESS;
    *hangs = false;
    for (int i = 0; i < FAULTS_MAX; i++) {
        struct fault *fault = &faults[i];
        if (!atomic_load_explicit(&fault->is_set, memory_order_acquire) ||
            (fault->kind != FAULT_POISON && fault->kind != FAULT_HANG) ||
            !names(fault->function, name) || !is_hit(fault))
            continue;
        if (fault->kind == FAULT_HANG)
            *hangs = true;
        else
            result = fault->code;
    }
    return result;
}

unsigned fault_hang_ticket(void)
{
    return atomic_fetch_add(&hang_tickets, 1) + 1;
}

bool fault_hang_is_released(unsigned ticket)
{
    return atomic_load(&hangs_released) >= ticket;
}

static void list_site(struct site *site, const char *name)
{
    if (atomic_exchange_explicit(&site->is_listed, true, memory_order_relaxed))
        return;
    site->name = name;
    site->next = atomic_load_explicit(&sites, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&sites, &site->next, site, memory_order_release,
                                                  memory_order_relaxed)) {}
}

CUresult site_begin(struct site *site, const char *name, enum check check)
{
    list_site(site, name);
    atomic_fetch_add_explicit(&site->calls, 1, memory_order_relaxed);
    if (in_host_function)
        return CUDA_ERROR_NOT_PERMITTED;
    CUresult result = fault_of_call(name);
    if (result != CUDA_SUCCESS)
        return result;
    if (check != CHECK_NOTHING && !atomic_load(&is_initialised))
        return CUDA_ERROR_NOT_INITIALIZED;
    if (check != CHECK_CONTEXT)
        return CUDA_SUCCESS;
    struct context *context = context_current();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    result = atomic_load_explicit(&context->device->sticky, memory_order_relaxed);
    if (result != CUDA_SUCCESS)
        device_come_to_rest(context->device);
    return result;
}

/* --- the text ---------------------------------------------------------------------------------- */

static bool add_fault(enum fault_kind kind, const char *text)
{
    struct fault *fault = NULL;
    for (int i = 0; i < FAULTS_MAX && !fault; i++)
        if (!atomic_load_explicit(&faults[i].is_set, memory_order_relaxed))
            fault = &faults[i];
    const char *colon = strchr(text, ':');
    if (!fault || !colon || colon - text >= NAME_MAX_)
        return false;
    char *end;
    uint64_t n = strtoull(colon + 1, &end, 10);
    long code = *end == ':' ? strtol(end + 1, &end, 10) : 0;
    if (*end != 0 || n == 0 || (kind != FAULT_HANG && code <= 0))
        return false;
    fault->kind = kind;
    memcpy(fault->function, text, (size_t)(colon - text));
    fault->function[colon - text] = 0;
    fault->code = (CUresult)code;
    atomic_store_explicit(&fault->left, n, memory_order_relaxed);
    atomic_store_explicit(&fault->is_set, true, memory_order_release);
    return true;
}

static bool set_number(const char *key, uint64_t value)
{
    if (strcmp(key, "devices") == 0 && value <= DEVICES_MAX)
        settings.devices = (uint32_t)value;
    else if (strcmp(key, "sms") == 0 && value > 0)
        settings.sms = (uint32_t)value;
    else if (strcmp(key, "grid") == 0 && value > 0)
        settings.grid = (uint32_t)value;
    else if (strcmp(key, "memory") == 0)
        settings.memory = value;
    else if (strcmp(key, "compute") == 0)
        settings.compute = (uint32_t)value;
    else if (strcmp(key, "init") == 0)
        settings.init = (int)value;
    else if (strcmp(key, "version") == 0)
        settings.version = (uint32_t)value;
    else if (strcmp(key, "ptx") == 0)
        settings.ptx = (uint32_t)value;
    else if (strcmp(key, "pools") == 0)
        settings.has_pools = value != 0;
    else if (strcmp(key, "gates") == 0)
        settings.has_gates = value != 0;
    else if (strcmp(key, "green") == 0)
        settings.has_green = value != 0;
    else if (strcmp(key, "graphs") == 0)
        settings.has_graphs = value != 0;
    else if (strcmp(key, "lost") == 0 && value > 0)
        for (uint32_t i = 0; i < DEVICES_MAX; i++)
            device_poison(&devices[i], (CUresult)value);
    else
        return false;
    return true;
}

static bool set_one(char *text)
{
    char *value = strchr(text, '=');
    if (!value)
        return false;
    *value++ = 0;
    if (strcmp(text, "fail") == 0)
        return add_fault(FAULT_CALL, value);
    if (strcmp(text, "fail_from") == 0)
        return add_fault(FAULT_CALLS_FROM, value);
    if (strcmp(text, "poison") == 0)
        return add_fault(FAULT_POISON, value);
    if (strcmp(text, "hang") == 0)
        return add_fault(FAULT_HANG, value);
    char *end;
    uint64_t number = strtoull(value, &end, 0);
    return end != value && *end == 0 && set_number(text, number);
}

static bool control_set(const char *text)
{
    char *copy = strdup(text), *rest = NULL;
    bool is_good = copy;
    pthread_mutex_lock(&settings_mutex);
    for (char *one = copy ? strtok_r(copy, " ;", &rest) : NULL; one && is_good;
         one = strtok_r(NULL, " ;", &rest))
        is_good = set_one(one);
    pthread_mutex_unlock(&settings_mutex);
    free(copy);
    return is_good;
}

static void control_release(void)
{
    for (int i = 0; i < FAULTS_MAX; i++)
        if (faults[i].kind == FAULT_HANG)
            atomic_store(&faults[i].is_set, false);
    atomic_store(&hangs_released, atomic_load(&hang_tickets));
}

static void control_reset(void)
{
    control_release();
    pthread_mutex_lock(&settings_mutex);
    for (int i = 0; i < FAULTS_MAX; i++)
        atomic_store(&faults[i].is_set, false);
    settings = settings_default;
    pthread_mutex_unlock(&settings_mutex);
    for (struct site *site = atomic_load(&sites); site; site = site->next)
        atomic_store(&site->calls, 0);
    /* What an earlier test has left must not begin to work again. */
    for (int i = 0; i < DEVICES_MAX; i++) {
        streams_kill(&devices[i]);
        atomic_store(&devices[i].sticky, CUDA_SUCCESS);
    }
    atomic_store(&objects_left_behind, 0);
    atomic_store(&hits, 0);
    const char *text = getenv("TEST_CUDA");
    if (text && !control_set(text))
        settings.devices = 0;
}

static uint64_t control_calls(const char *function)
{
    uint64_t calls = 0;
    for (struct site *site = atomic_load(&sites); site; site = site->next)
        if (!function || names(function, site->name))
            calls += atomic_load_explicit(&site->calls, memory_order_relaxed);
    return calls;
}

static uint64_t control_hits(void)
{
    return atomic_load(&hits);
}

static void count_object(const struct object *object, struct test_cuda_objects *objects)
{
    objects->green_contexts += object->kind == KIND_GREEN;
    objects->events += object->kind == KIND_EVENT;
    objects->modules += object->kind == KIND_MODULE;
    objects->allocations += object->kind == KIND_ALLOCATION;
    objects->registrations += object->kind == KIND_REGISTRATION;
    objects->pools += object->kind == KIND_POOL;
    objects->streams += object->kind == KIND_STREAM;
    objects->graphs += object->kind == KIND_GRAPH;
}

static void control_count(struct test_cuda_objects *objects)
{
    memset(objects, 0, sizeof *objects);
    for (int i = 0; i < DEVICES_MAX; i++) {
        pthread_mutex_lock(&devices[i].mutex);
        objects->contexts += devices[i].references;
        for (struct object *object = devices[i].objects; object; object = object->next)
            count_object(object, objects);
        pthread_mutex_unlock(&devices[i].mutex);
    }
}

static uint64_t control_left_behind(void)
{
    return atomic_load(&objects_left_behind);
}

EXPORT const struct test_cuda *test_cuda_control(void);
EXPORT const struct test_cuda *test_cuda_control(void)
{
    static const struct test_cuda control = { .set = control_set,
                                              .reset = control_reset,
                                              .release = control_release,
                                              .calls = control_calls,
                                              .hits = control_hits,
                                              .count = control_count,
                                              .left_behind = control_left_behind };
    return &control;
}

/* Runs once when the library is loaded, before any call. */
__attribute__((constructor)) static void load(void)
{
    for (int i = 0; i < DEVICES_MAX; i++) {
        devices[i].index = (uint32_t)i;
        pthread_mutex_init(&devices[i].lifecycle, NULL);
        pthread_mutex_init(&devices[i].mutex, NULL);
        pthread_mutex_init(&devices[i].memory_mutex, NULL);
    }
    control_reset();
}
