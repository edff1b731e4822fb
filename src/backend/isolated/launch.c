/*
 * Kernels and launches: what is sent, which launches are followed, and who is to blame when a helper ends.
 */
#include "backend/isolated/state.h"

#include "base/allocator.h"
#include "platform/helper.h"
#include "platform/sandbox.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define RESULT_REST_NS 1000000u

/* Following launches. */

static void pop_locked(struct link *link, struct isolated_stream *stream)
{
    uint32_t number = stream->first_awaited;
    stream->first_awaited = link->awaited[number].next;
    if (stream->first_awaited == WIRE_NONE)
        stream->last_awaited = WIRE_NONE;
    link->awaited[number] = (struct awaited){ .next = link->awaited_free };
    link->awaited_free = number;
}

static void write_result(struct awaited *awaited, muster_status status)
{
    if (awaited->result)
        __atomic_store_n(awaited->result, status, __ATOMIC_RELEASE);
    awaited->result = NULL;
}

static void note_failure_locked(struct link *link, uint32_t number)
{
    if (number >= WIRE_RESULTS || !link->awaited[number].is_used)
        return;
    /* What a kernel returns may be any number. */
    muster_status status = atomic_load_explicit(&link->page->results[number], memory_order_relaxed);
    if (status != MUSTER_OK)
        write_result(&link->awaited[number], status);
}

uint64_t stream_done(const struct isolated_stream *stream)
{
    uint64_t done =
        atomic_load_explicit(&stream->link->page->streams[stream->id].done, memory_order_acquire);
    return done < stream->issued ? done : stream->issued;
}

void awaited_look_locked(struct link *link)
{
    struct wire_page *page = link->page;
    uint64_t seen = atomic_load_explicit(&link->failures_seen, memory_order_relaxed);
    uint64_t count = atomic_load_explicit(&page->failure_count, memory_order_acquire);
    if (count != seen && count - seen <= WIRE_FAILURES)
        for (; seen != count; seen++)
            note_failure_locked(link, atomic_load_explicit(&page->failures[seen % WIRE_FAILURES],
                                                           memory_order_relaxed));
    else if (count != seen)
        for (uint32_t i = 0; i < WIRE_RESULTS; i++)
            note_failure_locked(link, i);
    /* Release: a thread that sees that nothing is new sees what was written, too. */
    atomic_store_explicit(&link->failures_seen, count, memory_order_release);
}

void awaited_look(struct link *link)
{
    if (atomic_load_explicit(&link->page->failure_count, memory_order_acquire) ==
        atomic_load_explicit(&link->failures_seen, memory_order_acquire))
        return;
    platform_mutex_lock(&link->lock);
    awaited_look_locked(link);
    platform_mutex_unlock(&link->lock);
}

/* Those of the stream that have ended are not followed any more. */
static void forget_ended_locked(struct link *link, struct isolated_stream *stream)
{
    uint64_t done = stream_done(stream);
    if (stream->first_awaited == WIRE_NONE || link->awaited[stream->first_awaited].number > done)
        return;
    /* What they have to say was written before the stream got there. */
    awaited_look_locked(link);
    while (stream->first_awaited != WIRE_NONE &&
           link->awaited[stream->first_awaited].number <= done)
        pop_locked(link, stream);
}

uint32_t awaited_add_locked(struct isolated_stream *stream, muster_status *result)
{
    struct link *link = stream->link;
    forget_ended_locked(link, stream);
    if (link->awaited_free == WIRE_NONE)
        for (struct isolated_stream *at = link->streams; at; at = at->next)
            forget_ended_locked(link, at);
    uint32_t number = link->awaited_free;
    if (number == WIRE_NONE)
        return number;
    link->awaited_free = link->awaited[number].next;
    link->awaited[number] =
        (struct awaited){ .result = result, .next = WIRE_NONE, .is_used = true };
    atomic_store_explicit(&link->page->results[number], MUSTER_OK, memory_order_relaxed);
    if (stream->first_awaited == WIRE_NONE)
        stream->first_awaited = number;
    else
        link->awaited[stream->last_awaited].next = number;
    stream->last_awaited = number;
    return number;
}

/* Blame. */

/* The launch that the crashed thread says it was in; WIRE_NONE if it says nothing that can be. */
static uint32_t find_culprit_locked(const struct link *link)
{
    const struct wire_page *page = link->page;
    uint32_t thread = atomic_load_explicit(&page->crash.thread, memory_order_relaxed);
    if (atomic_load_explicit(&page->crash.signal, memory_order_relaxed) == 0 ||
        thread >= WIRE_THREADS)
        return WIRE_NONE;
    uint32_t number = atomic_load_explicit(&page->threads[thread].result, memory_order_relaxed) - 1;
    return number < WIRE_RESULTS && link->awaited[number].is_used ? number : WIRE_NONE;
}

/* Launches that some thread was executing; a helper that was stopped did not crash. */
static bool is_executed(const struct link *link, uint32_t number)
{
    for (uint32_t i = 0; i < WIRE_THREADS; i++) {
        const struct wire_thread *thread = &link->page->threads[i];
        if (atomic_load_explicit(&thread->is_busy, memory_order_relaxed) == WIRE_BUSY &&
            atomic_load_explicit(&thread->result, memory_order_relaxed) == number + 1)
            return true;
    }
    return false;
}

static const char *signal_name(int number)
{
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV";
    case SIGBUS:
        return "SIGBUS";
    case SIGFPE:
        return "SIGFPE";
    case SIGILL:
        return "SIGILL";
    case SIGABRT:
        return "SIGABRT";
    case SIGTRAP:
        return "SIGTRAP";
    case SIGSYS:
        return "SIGSYS";
    case SIGKILL:
        return "SIGKILL";
    default:
        return NULL;
    }
}

/* What a sandbox has refused. */
static void describe_call(uint64_t number, char *text, size_t bytes)
{
    const char *name = platform_sandbox_call_name(number);
    if (name)
        snprintf(text, bytes, "the sandbox refused the system call %s (SIGSYS)", name);
    else
        snprintf(text, bytes, "the sandbox refused system call %u (SIGSYS)", (unsigned)number);
}

static void describe_locked(struct link *link, const struct platform_child_end *end,
                            uint32_t culprit)
{
    const struct wire_page *page = link->page;
    int number = (int)atomic_load_explicit(&page->crash.signal, memory_order_relaxed);
    uint64_t address = atomic_load_explicit(&page->crash.address, memory_order_relaxed);
    /* One that blocked the signal, or spoke for another processor, has no last words. */
    bool is_told = number > 0 && number < 65;
    number = is_told ? number : end->signal;
    char how[96], where[96] = "";
    /* Not ours: it ends where its place does. */
    link->page->crash.text[sizeof link->page->crash.text - 1] = 0;
    const char *name = signal_name(number);
    if (link->was_stopped)
        snprintf(how, sizeof how, "stopped after its time-out");
    else if (name && (number == SIGSEGV || number == SIGBUS))
        snprintf(how, sizeof how, "%s at 0x%llx", name, (unsigned long long)address);
    else if (number == SIGSYS && is_told)
        describe_call(address, how, sizeof how);
    else if (name)
        snprintf(how, sizeof how, "%s", name);
    else if (number == 0 && end->code == WIRE_EXIT_LOST)
        snprintf(how, sizeof how, "the device was lost: %.40s", link->page->crash.text);
    else if (number > 0)
        snprintf(how, sizeof how, "signal %d", number);
    else
        snprintf(how, sizeof how, "exit status %d", end->code);
    if (culprit != WIRE_NONE && link->awaited[culprit].kernel) {
        const struct awaited *launch = &link->awaited[culprit];
        const struct muster_kernel_form *form = launch->kernel->form;
        snprintf(where, sizeof where, " in %.63s", form->entry ? form->entry : "a kernel");
    }
    snprintf(link->crash, sizeof link->crash, "%s%s", how, where);
}

/*
 * A launch that is certainly to blame, or may be: one that a thread of the helper was in. Where the helper does not
 * know what its device executes, the first launch of each stream that has not ended.
 */
static bool is_suspect_locked(const struct link *link, const struct isolated_stream *stream,
                              uint32_t number, uint32_t culprit, bool knows)
{
    if (culprit != WIRE_NONE)
        return number == culprit;
    return knows ? is_executed(link, number) : number == stream->first_awaited;
}

void awaited_fail_locked(struct link *link, const struct platform_child_end *end)
{
    uint32_t culprit = link->was_stopped ? WIRE_NONE : find_culprit_locked(link);
    muster_status verdict = link->was_stopped ? MUSTER_E_TIMEOUT : MUSTER_E_CRASHED;
    /* A helper whose threads say what they execute has at least one that has said it. */
    /* Killed from outside: nobody in it is to blame. */
    bool is_killed = !link->was_stopped && end->signal == SIGKILL &&
                     atomic_load_explicit(&link->page->crash.signal, memory_order_relaxed) == 0;
    bool knows = atomic_load_explicit(&link->page->threads[0].is_busy, memory_order_relaxed) !=
                 WIRE_BUSY_NEVER;
    describe_locked(link, end, culprit);
    awaited_look_locked(link);
    for (struct isolated_stream *stream = link->streams; stream; stream = stream->next) {
        uint64_t done = stream_done(stream);
        while (stream->first_awaited != WIRE_NONE &&
               link->awaited[stream->first_awaited].number <= done)
            pop_locked(link, stream);
        for (uint32_t at = stream->first_awaited; at != WIRE_NONE; at = link->awaited[at].next)
            write_result(&link->awaited[at],
                         !is_killed && is_suspect_locked(link, stream, at, culprit, knows)
                             ? verdict
                             : MUSTER_E_STREAM_FAILED);
        while (stream->first_awaited != WIRE_NONE)
            pop_locked(link, stream);
    }
}

/* Kernels. */

static struct isolated_kernel *kernel_of(void *state)
{
    return ((struct isolated_kernel_state *)state)->kernel;
}

static void keep_built_locked(struct link *link, void *user)
{
    struct isolated_kernel *kernel = user;
    /* That helper may have ended since, and the next one has not built it. */
    kernel->generation = link->asked;
    kernel->checked = 0;
}

/* Sends the kernel's code to the helper and has it built there. The lock is not held. */
static muster_status kernel_build_there(struct isolated_kernel *kernel, struct muster_error *err)
{
    const struct muster_kernel_form *form = kernel->form;
    struct wire_form body = { .kind = (uint32_t)form->kind,
                              .threads = form->threads,
                              .code_bytes = form->code_bytes,
                              .compute = { form->compute[0], form->compute[1] } };
    const char *function =
        form->kind == MUSTER_KERNEL_FUNCTION ? platform_helper_name_of(form->function) : NULL;
    snprintf(body.entry, sizeof body.entry, "%s",
             function      ? function
             : form->entry ? form->entry
                           : "");
    snprintf(body.file, sizeof body.file, "%s", form->file ? form->file : "");
    const struct link_question question = { .kind = WIRE_KERNEL_INIT,
                                            .a = kernel->id,
                                            .b = kernel->device,
                                            .body = &body,
                                            .body_bytes = sizeof body,
                                            .code = form->code,
                                            .code_bytes = form->code_bytes,
                                            .keep_locked = keep_built_locked,
                                            .user = kernel };
    return link_ask_again(kernel->link, &question, err);
}

muster_status isolated_kernel_init(void *device_state, const struct muster_kernel_form *form,
                                   void *state, struct muster_error *err)
{
    struct isolated_device *device = device_state;
    struct link *link = device->link;
    const struct muster_allocator *allocator = link->backend->services->allocator;
    bool is_function = form->kind == MUSTER_KERNEL_FUNCTION;
    if (is_function && !platform_helper_name_of(form->function))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "give its source or a shared object, or do not isolate the device",
                                 "a C function of the program cannot run in a helper");
    if (!is_function && (!form->code || form->code_bytes == 0 || !form->entry))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "give the kernel's code",
                                 "the kernel's form has no code");
    struct isolated_kernel *kernel = allocator_take(allocator, 1, sizeof *kernel);
    if (!kernel)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a kernel");
    muster_status status = link_lock(link, err);
    if (status == MUSTER_OK) {
        *kernel = (struct isolated_kernel){ .link = link,
                                            .id = bits_take(link->kernel_used, KERNELS_MAX / 64),
                                            .device = device->id,
                                            .form = &kernel->own,
                                            .own = *form };
        if (kernel->id == WIRE_NONE)
            status =
                muster_error_fill(err, MUSTER_E_CAPACITY, 0, "destroy kernels that are not used",
                                  "a helper has room for %u kernels", KERNELS_MAX);
        link_unlock(link);
    }
    if (status != MUSTER_OK) {
        allocator_give(allocator, kernel, 1, sizeof *kernel);
        return status;
    }
    status = kernel_build_there(kernel, err);
    platform_mutex_lock(&link->lock);
    if (status == MUSTER_OK) {
        kernel->next = link->kernels;
        link->kernels = kernel;
    } else {
        bits_give(link->kernel_used, kernel->id);
    }
    platform_mutex_unlock(&link->lock);
    if (status == MUSTER_OK)
        ((struct isolated_kernel_state *)state)->kernel = kernel;
    else
        allocator_give(allocator, kernel, 1, sizeof *kernel);
    return status;
}

void isolated_kernel_deinit(void *state)
{
    struct isolated_kernel *kernel = kernel_of(state);
    struct link *link = kernel->link;
    bool is_up = link_lock(link, NULL) == MUSTER_OK;
    if (is_up)
        link_say(link, WIRE_KERNEL_DEINIT, kernel->id, 0, 0);
    else
        platform_mutex_lock(&link->lock);
    struct isolated_kernel **at = &link->kernels;
    while (*at != kernel)
        at = &(*at)->next;
    *at = kernel->next;
    for (uint32_t i = 0; i < WIRE_RESULTS; i++)
        if (link->awaited[i].kernel == kernel)
            link->awaited[i].kernel = NULL;
    bits_give(link->kernel_used, kernel->id);
    platform_mutex_unlock(&link->lock);
    allocator_give(link->backend->services->allocator, kernel, 1, sizeof *kernel);
}

/* Launches. */

static size_t launch_bytes(const struct muster_launch_desc *launch)
{
    size_t bytes = sizeof(struct wire_launch);
    for (size_t i = 0; i < launch->arg_count; i++)
        bytes += sizeof(struct wire_arg) +
                 (launch->args[i].memory ? 0 : (launch->args[i].bytes + 7) & ~(size_t)7);
    return bytes;
}

/* Device memory, or shared host memory by its address; false if it is neither. */
static bool find_memory_locked(const struct link *link, const struct muster_launch_arg *arg,
                               struct wire_place *out)
{
    const struct muster_memory *memory = arg->memory;
    uint64_t bytes = memory->bytes;
    *out = (struct wire_place){ .memory = WIRE_HOST };
    if (memory->object || memory->address == 0) {
        out->memory = memory_find_locked(link, memory, arg->offset, 0);
        out->offset = arg->offset;
        return out->memory != WIRE_NONE;
    }
    bool is_shared =
        arg->offset <= bytes && bytes > 0 &&
        host_find(link, (const void *)(uintptr_t)memory->address, bytes, &out->offset) == bytes;
    out->offset += arg->offset;
    return is_shared;
}

static muster_status check_launch_locked(const struct link *link,
                                         const struct muster_launch_desc *launch,
                                         struct muster_error *err)
{
    size_t values = 0;
    if (launch->arg_count > MUSTER_ARGS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL, "%zu arguments; %d are allowed",
                                 launch->arg_count, MUSTER_ARGS_MAX);
    if (launch->pieces)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "look at the device's capabilities first",
                                 "a device in a helper does not run in pieces");
    for (size_t i = 0; i < launch->arg_count; i++) {
        const struct muster_launch_arg *arg = &launch->args[i];
        values += arg->memory ? 0 : arg->bytes;
        if (values > MUSTER_ARG_BYTES_MAX)
            return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                     "values of more than %d bytes", MUSTER_ARG_BYTES_MAX);
        struct wire_place place;
        if (arg->memory && !find_memory_locked(link, arg, &place))
            return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                     "use memory that the device allocated",
                                     "argument %zu is not memory of the device", i);
    }
    return MUSTER_OK;
}

static unsigned char *write_launch_locked(const struct link *link, unsigned char *to,
                                          const struct muster_launch_desc *launch, uint32_t result)
{
    const struct wire_launch head = { .begin = launch->begin,
                                      .items = launch->items,
                                      .result = result,
                                      .flags = launch->flags,
                                      .arg_count = (uint32_t)launch->arg_count,
                                      .is_asked = launch->result != NULL };
    memcpy(to, &head, sizeof head);
    to += sizeof head;
    for (size_t i = 0; i < launch->arg_count; i++) {
        const struct muster_launch_arg *arg = &launch->args[i];
        struct wire_place place = { .memory = WIRE_NONE };
        if (arg->memory)
            find_memory_locked(link, arg, &place);
        const struct wire_arg written = { .memory = place.memory,
                                          .bytes = arg->memory ? 0 : (uint32_t)arg->bytes,
                                          .offset = place.offset };
        memcpy(to, &written, sizeof written);
        to += sizeof written;
        if (!arg->memory && arg->bytes > 0)
            memcpy(to, arg->value, arg->bytes);
        to += arg->memory ? 0 : (arg->bytes + 7) & ~(size_t)7;
    }
    return to;
}

/* What decides whether a driver takes a launch at all: how many arguments, of which kind and size. */
static uint64_t hash_of(const struct muster_launch_desc *launch)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15) ^ launch->arg_count;
    for (size_t i = 0; i < launch->arg_count; i++) {
        uint64_t size = launch->args[i].memory ? UINT64_MAX : launch->args[i].bytes;
        hash = (hash ^ size) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return hash | 1;
}

/* How many of the launches one message takes, and its bytes. */
static size_t count_fitting(const struct muster_launch_desc *launches, size_t count, size_t *bytes)
{
    size_t fitting = 0;
    *bytes = 0;
    while (fitting < count) {
        size_t more = launch_bytes(&launches[fitting]);
        if (fitting > 0 && *bytes + more > WIRE_MESSAGE_BYTES_MAX - sizeof(struct wire_head))
            break;
        *bytes += more;
        fitting++;
    }
    return fitting;
}

static void follow_locked(struct isolated_stream *stream, struct isolated_kernel *kernel,
                          const struct muster_launch_desc *launch, uint32_t number)
{
    struct awaited *awaited = &stream->link->awaited[number];
    awaited->number = stream->issued;
    awaited->kernel = kernel;
    awaited->begin = launch->begin;
    awaited->items = launch->items;
    awaited->is_suspect = launch->flags & MUSTER_LAUNCH_SUSPECT;
}

static void skip(const struct muster_launch_desc *launches, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (launches[i].result)
            *launches[i].result = MUSTER_E_STREAM_FAILED;
}

static bool use_host(const struct muster_launch_desc *launches, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < launches[i].arg_count; k++)
            if (launches[i].args[k].memory && !launches[i].args[k].memory->object)
                return true;
    return false;
}

/*
 * Writes one message with as many launches as fit. With the lock. `sent` 0: there are no places for results now, and
 * the caller waits.
 */
static muster_status send_locked(struct isolated_stream *stream, struct isolated_kernel *kernel,
                                 const struct muster_launch_desc *launches, size_t count,
                                 uint64_t answer, size_t *sent, struct muster_error *err)
{
    struct link *link = stream->link;
    size_t bytes, fitting = count_fitting(launches, count, &bytes);
    enum wire_kind kind = answer ? WIRE_LAUNCH_CHECKED : WIRE_LAUNCH;
    *sent = 0;
    if (stream->has_calls && use_host(launches, fitting)) {
        muster_status fenced = stream_fence_locked(stream, err);
        if (fenced != MUSTER_OK)
            return fenced;
    }
    struct wire_head *head =
        answer ? link_begin_asking(link, kind, bytes) : link_begin(link, kind, bytes);
    /* Of one that asks nothing was sent yet, and it tries again. */
    if (!head)
        return answer && link->state != LINK_DEAD ? MUSTER_OK : link_say_lost(link, err);
    if (stream->has_failed) {
        skip(launches, fitting);
        *sent = fitting;
        return MUSTER_OK;
    }
    unsigned char *to = (unsigned char *)(head + 1);
    for (; *sent < fitting; (*sent)++) {
        const struct muster_launch_desc *launch = &launches[*sent];
        muster_status status = check_launch_locked(link, launch, err);
        if (status != MUSTER_OK) {
            /* Those before it are given. */
            if (*sent > 0)
                break;
            return status;
        }
        uint32_t number = awaited_add_locked(stream, launch->result);
        if (number == WIRE_NONE)
            break;
        stream->issued++;
        follow_locked(stream, kernel, launch, number);
        to = write_launch_locked(link, to, launch, number);
    }
    if (*sent == 0)
        return MUSTER_OK;
    head->bytes = wire_round((size_t)(to - (unsigned char *)head));
    head->a = stream->id;
    head->b = kernel->id;
    head->c = *sent;
    head->answer = answer;
    link_send(link, head);
    return MUSTER_OK;
}

/* The first launch with arguments of these kinds is answered, so that what the driver refuses is refused here. */
static muster_status launch_checked(struct isolated_stream *stream, struct isolated_kernel *kernel,
                                    const struct muster_launch_desc *launch, size_t *sent,
                                    struct muster_error *err)
{
    struct link *link = stream->link;
    const struct link_question question = { .kind = WIRE_LAUNCH_CHECKED };
    muster_status status = link_lock_asking(link, err);
    if (status != MUSTER_OK)
        return status;
    uint64_t generation = link->generation;
    bool is_there = kernel->generation == generation || stream->has_failed;
    link->answers++;
    if (is_there)
        status = send_locked(stream, kernel, launch, 1, link->answers, sent, err);
    bool is_asked = status == MUSTER_OK && *sent == 1 && !stream->has_failed;
    uint32_t number = is_asked ? stream->last_awaited : WIRE_NONE;
    link_unlock(link);
    if (is_asked)
        status = link_await(link, &question, err);
    platform_mutex_unlock(&link->call_lock);
    if (number == WIRE_NONE)
        return status;
    if (status == MUSTER_E_DEVICE_LOST)
        link_has_ended(link, generation);
    platform_mutex_lock(&link->lock);
    /* A helper that ended meanwhile has failed the stream, and the launch with it: it was accepted. */
    if (stream->has_failed) {
        status = MUSTER_OK;
    } else if (status != MUSTER_OK) {
        link->awaited[number].result = NULL;
    } else {
        kernel->checked = hash_of(launch);
    }
    platform_mutex_unlock(&link->lock);
    return status;
}

static bool is_built(struct isolated_kernel *kernel)
{
    platform_mutex_lock(&kernel->link->lock);
    bool is_built = kernel->generation == kernel->link->generation;
    platform_mutex_unlock(&kernel->link->lock);
    return is_built;
}

/* Builds the kernel in a helper that was started since. */
static muster_status build_again(struct isolated_kernel *kernel, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    while (status == MUSTER_OK && !is_built(kernel))
        status = kernel_build_there(kernel, err);
    return status;
}

/* Places for results come back when streams say how far they are. */
static void await_room(struct link *link)
{
    uint32_t seen = atomic_load(&link->page->done_word);
    if (link_lock(link, NULL) != MUSTER_OK)
        return;
    for (struct isolated_stream *stream = link->streams; stream; stream = stream->next)
        stream_mark_locked(stream);
    link_unlock(link);
    link_rest(link, seen, RESULT_REST_NS);
}

muster_status isolated_launch(void *stream_state, void *kernel_state,
                              const struct muster_launch_desc *launches, size_t count,
                              struct muster_error *err)
{
    struct isolated_stream *stream = ((struct isolated_stream_state *)stream_state)->stream;
    struct isolated_kernel *kernel = kernel_of(kernel_state);
    struct link *link = stream->link;
    muster_status status = MUSTER_OK;
    if (kernel->device != stream->device || kernel->link != link)
        return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                 "build the kernel for the stream's device",
                                 "the kernel was built for another device");
    for (size_t at = 0; status == MUSTER_OK && at < count;) {
        size_t sent = 0;
        if (!is_built(kernel)) {
            status = build_again(kernel, err);
            if (status != MUSTER_OK)
                return status;
        }
        if (kernel->checked != hash_of(&launches[at])) {
            status = launch_checked(stream, kernel, &launches[at], &sent, err);
        } else {
            /* Only a run of launches that are alike goes unchecked. */
            size_t alike = 1;
            while (at + alike < count && hash_of(&launches[at + alike]) == kernel->checked)
                alike++;
            status = link_lock(link, err);
            if (status != MUSTER_OK)
                return status;
            if (kernel->generation == link->generation || stream->has_failed)
                status = send_locked(stream, kernel, launches + at, alike, 0, &sent, err);
            link_unlock(link);
        }
        at += sent;
        if (sent == 0 && status == MUSTER_OK)
            await_room(link);
    }
    return status;
}
