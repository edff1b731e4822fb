/*
 * Picking a device: the hints as the core wants them, choice and reservation under one lock, users'
 * policies on a snapshot with no lock held, and the ring of what was decided.
 */
#include "run/device/device.h"
#include "run/place/place.h"

#include "base/allocator.h"
#include "base/invariant.h"
#include "base/text.h"
#include "core/placement.h"

#include <stdio.h>
#include <string.h>

/* Decisions that are kept, a power of two. */
#define DECISIONS_KEPT 1024u
/* How often a user's policy is asked for one pick. */
#define POLICY_TRIES 3

_Static_assert((DECISIONS_KEPT & (DECISIONS_KEPT - 1)) == 0, "the ring is indexed by masking");
_Static_assert(BACKENDS_MAX <= 32, "a set of backends is one word");

static const struct muster_policy built_in[PLACEMENT_POLICY_COUNT] = {
    [PLACEMENT_ROUND_ROBIN] = { .size = sizeof(struct muster_policy), .name = "round-robin" },
    [PLACEMENT_LEAST_LOADED] = { .size = sizeof(struct muster_policy), .name = "least-loaded" },
    [PLACEMENT_WEIGHTED] = { .size = sizeof(struct muster_policy), .name = "weighted" },
    [PLACEMENT_ADAPTIVE] = { .size = sizeof(struct muster_policy), .name = "adaptive" },
    [PLACEMENT_EARLIEST_FINISH] = { .size = sizeof(struct muster_policy),
                                    .name = "earliest-finish" },
    [PLACEMENT_STICKY] = { .size = sizeof(struct muster_policy), .name = "sticky" },
};

const struct muster_policy *muster_policy_named(const char *name)
{
    for (size_t i = 0; name && i < PLACEMENT_POLICY_COUNT; i++)
        if (strcmp(built_in[i].name, name) == 0)
            return &built_in[i];
    return NULL;
}

const char *muster_refusal_name(enum muster_refusal refusal)
{
    switch (refusal) {
    case MUSTER_REFUSED_NOT:
        return "not refused";
    case MUSTER_REFUSED_HEALTH:
        return "health";
    case MUSTER_REFUSED_BACKENDS:
        return "backends";
    case MUSTER_REFUSED_DEVICES:
        return "devices";
    case MUSTER_REFUSED_MIN_CC:
        return "min_cc";
    case MUSTER_REFUSED_MIN_FREE:
        return "min_free";
    }
    return "?";
}

muster_status muster_size_parse(const char *text, uint64_t *bytes, struct muster_error *err)
{
    if (text && bytes && text_parse_size(text, bytes))
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_PARSE, 0, "write 4096, 64K, 512MiB, 1.5GiB, 80GB",
                             "\"%.32s\" is not a number of bytes", text ? text : "");
}

/* One pick under way. */
struct picking {
    struct muster *m;
    const struct muster_policy *policy; /* a user's, or one of built_in */
    const struct muster_hints *given;   /* borrowed from the caller; NULL: none */
    struct placement_hints hints;
    uint64_t *devices; /* owns: the set the hints point to */
    size_t words;
    uint32_t capacity; /* a user's policy: how many candidates there is room for */
};

bool policy_is_built_in(const struct muster_policy *policy)
{
    return policy >= built_in && policy < built_in + PLACEMENT_POLICY_COUNT;
}

static enum placement_policy number_of(const struct muster_policy *policy)
{
    return (enum placement_policy)(policy - built_in);
}

/* An entry of a list that nothing is called; NULL if there is none. */
static const char *find_unknown_locked(struct muster *m, const char *list, bool is_backend,
                                       size_t *length)
{
    for (const char *at = list; *at;) {
        *length = strcspn(at, ",");
        bool found = *length == 0 || backends_find(m, at, *length);
        for (uint32_t i = 0; !is_backend && i < m->device_count && !found; i++)
            found = strlen(m->devices[i]->info.id) == *length &&
                    memcmp(m->devices[i]->info.id, at, *length) == 0;
        if (!found)
            return at;
        at += *length + (at[*length] == ',');
    }
    return NULL;
}

static muster_status read_lists_locked(struct picking *picking, struct muster_error *err)
{
    struct muster *m = picking->m;
    const struct muster_hints *given = picking->given;
    const char *unknown = NULL;
    size_t length = 0;
    if (given->backends)
        unknown = find_unknown_locked(m, given->backends, true, &length);
    if (!unknown && given->devices)
        unknown = find_unknown_locked(m, given->devices, false, &length);
    char fix[sizeof err->fix];
    if (unknown)
        return muster_error_fill(
            err, MUSTER_E_NOT_FOUND, 0, device_fix_locked(m, unknown, length, fix, sizeof fix),
            "the hints name \"%.*s\", which does not exist", (int)length, unknown);
    if (given->backends)
        picking->hints.backends = 0;
    for (uint32_t i = 0; given->backends && i < m->backend_count; i++)
        if (run_list_names(given->backends, m->backends[i]->table.name))
            picking->hints.backends |= 1u << i;
    for (uint32_t i = 0; given->devices && i < m->device_count && i / 64 < picking->words; i++)
        if (run_list_names(given->devices, m->devices[i]->info.id) ||
            run_list_names(given->devices, m->devices[i]->info.backend))
            picking->devices[i / 64] |= (uint64_t)1 << (i % 64);
    return MUSTER_OK;
}

/*
 * What one pick saw. Kept raw, since a pick must be quick; what it means is worked out when somebody
 * asks.
 */
struct decision {
    uint64_t time_ns;
    const struct muster_policy *policy; /* built in, else NULL and `name` */
    char name[24];
    struct placement_hints hints; /* without the set of devices, which `allowed` keeps */
    uint32_t allowed;             /* bit i: entry i was among the devices of the hints */
    int32_t chosen;
    uint32_t count;
    uint32_t apart; /* the chosen device, if it is not among the first ones */
    bool is_apart;  /* the last entry is that one */
    struct placement_device views[MUSTER_DECISION_DEVICES_MAX];
};

/* The first pick probes all backends and makes the ring. */
static muster_status make_ready(struct muster *m, struct muster_error *err)
{
    muster_status status = device_probe_all(m, err);
    if (status == MUSTER_OK)
        status = device_check_slices(m, err);
    if (status != MUSTER_OK)
        return status;
    struct decision *ring = allocator_take(&m->allocator, DECISIONS_KEPT, sizeof *ring);
    if (!ring)
        return run_no_memory(err, "the ring of decisions");
    run_lock(m);
    if (!m->decisions) {
        m->decisions = ring;
        ring = NULL;
    }
    run_unlock(m);
    /* Release pairs with the acquire in look_at_devices: the ring is there for a thread that sees this. */
    atomic_store_explicit(&m->is_ready_to_pick, true, memory_order_release);
    allocator_give(&m->allocator, ring, DECISIONS_KEPT, sizeof *ring);
    return MUSTER_OK;
}

/* Probes what may be wanted, and makes sure that free memory is known where it is asked for. */
static muster_status look_at_devices(struct picking *picking, struct muster_error *err)
{
    struct muster *m = picking->m;
    muster_status status = MUSTER_OK;
    if (!atomic_load_explicit(&m->is_ready_to_pick, memory_order_acquire))
        status = make_ready(m, err);
    if (status != MUSTER_OK)
        return status;
    if (!picking->given || picking->given->min_free == 0)
        return MUSTER_OK;
    for (uint32_t i = 0;; i++) {
        run_lock(m);
        struct run_device *device = i < m->device_count ? m->devices[i] : NULL;
        bool is_wanted = device && device_check_locked(device, NULL) == MUSTER_OK;
        if (is_wanted)
            device->pins++;
        run_unlock(m);
        if (!device)
            return MUSTER_OK;
        if (!is_wanted)
            continue;
        status = poller_ask(device, err);
        device_unpin(device);
        if (status != MUSTER_OK)
            return status;
    }
}

static muster_status read_hints(struct picking *picking, struct muster_error *err)
{
    struct muster *m = picking->m;
    const struct muster_hints *given = picking->given;
    picking->hints = (struct placement_hints){ .backends = UINT32_MAX };
    if (!given)
        return MUSTER_OK;
    picking->hints.min_free = given->min_free;
    picking->hints.min_compute[0] = given->min_cc[0];
    picking->hints.min_compute[1] = given->min_cc[1];
    picking->hints.affinity = given->affinity;
    picking->hints.items = given->items;
    picking->hints.bytes = given->bytes;
    if (!given->backends && !given->devices)
        return MUSTER_OK;
    if (given->devices) {
        picking->words = PICK_WORDS;
        picking->devices = allocator_take(&m->allocator, picking->words, sizeof *picking->devices);
        if (!picking->devices)
            return run_no_memory(err, "the hints");
        picking->hints.devices = picking->devices;
    }
    run_lock(m);
    muster_status status = read_lists_locked(picking, err);
    run_unlock(m);
    return status;
}

muster_status pick_read_hints(struct muster *m, const struct muster_hints *given, uint64_t *devices,
                              struct placement_hints *out, struct muster_error *err)
{
    struct picking picking = { .m = m, .given = given };
    struct muster_hints asked;
    muster_status status = MUSTER_OK;
    if (given) {
        status = layout_read(LAYOUT(muster_hints), given, &asked, err);
        picking.given = &asked;
    }
    if (status == MUSTER_OK)
        status = look_at_devices(&picking, err);
    if (status == MUSTER_OK)
        status = read_hints(&picking, err);
    if (status == MUSTER_OK && picking.devices)
        memcpy(devices, picking.devices, PICK_WORDS * sizeof *devices);
    if (picking.devices)
        picking.hints.devices = devices;
    *out = picking.hints;
    allocator_give(&m->allocator, picking.devices, picking.words, sizeof *picking.devices);
    return status;
}

static uint32_t device_of(const struct decision *decision, uint32_t entry)
{
    return decision->is_apart && entry + 1 == decision->count ? decision->apart : entry;
}

static void record_locked(struct picking *picking, uint32_t chosen)
{
    struct muster *m = picking->m;
    struct decision *decision = &m->decisions[m->decision_count++ & (DECISIONS_KEPT - 1)];
    uint32_t count = m->device_count < MUSTER_DECISION_DEVICES_MAX ? m->device_count
                                                                   : MUSTER_DECISION_DEVICES_MAX;
    decision->time_ns = platform_clock_coarse_ns();
    if (chosen < m->device_count)
        trace_device_locked(m->devices[chosen], MUSTER_TRACE_PICK, 0, 0);
    decision->policy = policy_is_built_in(picking->policy) ? picking->policy : NULL;
    if (!decision->policy)
        snprintf(decision->name, sizeof decision->name, "%s", picking->policy->name);
    decision->hints = picking->hints;
    decision->count = count;
    decision->is_apart = chosen != PLACEMENT_NONE && chosen >= count;
    decision->apart = chosen;
    decision->chosen = chosen == PLACEMENT_NONE ? -1
                       : decision->is_apart     ? (int32_t)count - 1
                                                : (int32_t)chosen;
    for (uint32_t i = 0; i < count; i++)
        decision->views[i] = m->views[i];
    if (decision->is_apart)
        decision->views[count - 1] = m->views[chosen];
    decision->allowed = UINT32_MAX;
    for (uint32_t i = 0; picking->devices && i < count; i++) {
        uint32_t device = device_of(decision, i);
        if (!(picking->devices[device / 64] >> (device % 64) & 1))
            decision->allowed &= ~(1u << i);
    }
}
_Static_assert(MUSTER_DECISION_DEVICES_MAX <= 32, "a set of entries is one word");

/* What a kept decision says, in the caller's terms. */
static void tell_locked(struct muster *m, const struct decision *decision, uint64_t number,
                        struct muster_decision *out)
{
    *out = (struct muster_decision){
        .size = sizeof *out, .number = number, .time_ns = decision->time_ns, .chosen = -1
    };
    snprintf(out->policy, sizeof out->policy, "%s",
             decision->policy ? decision->policy->name : decision->name);
    struct placement_hints hints = decision->hints;
    enum muster_refusal refusals[MUSTER_DECISION_DEVICES_MAX];
    float best_items_per_s = 0, best_bytes_per_s = 0;
    hints.devices = NULL;
    for (uint32_t i = 0; i < decision->count; i++) {
        const struct placement_device *view = &decision->views[i];
        refusals[i] = placement_refusal(view, i, &hints);
        if (refusals[i] == MUSTER_REFUSED_NOT && !(decision->allowed >> i & 1))
            refusals[i] = MUSTER_REFUSED_DEVICES;
        if (refusals[i] != MUSTER_REFUSED_NOT)
            continue;
        if (view->items_per_s > best_items_per_s)
            best_items_per_s = view->items_per_s;
        if (view->bytes_per_s > best_bytes_per_s)
            best_bytes_per_s = view->bytes_per_s;
    }
    for (uint32_t i = 0; i < decision->count; i++) {
        struct run_device *device = m->devices[device_of(decision, i)];
        uint32_t at = out->device_count;
        if (device->is_sliced)
            continue;
        out->devices[at].device = device_handle_locked(device);
        out->devices[at].refusal = refusals[i];
        if (decision->policy && refusals[i] == MUSTER_REFUSED_NOT)
            out->devices[at].score =
                placement_score(number_of(decision->policy), &decision->views[i], &hints,
                                best_items_per_s, best_bytes_per_s);
        if (decision->chosen == (int32_t)i)
            out->chosen = (int32_t)at;
        out->device_count++;
    }
}

/* Counts the choice against the device: from here on others see it. */
static muster_status reserve_locked(struct picking *picking, uint32_t chosen, muster_lease *lease,
                                    muster_device *device, struct muster_error *err)
{
    struct muster *m = picking->m;
    muster_status status =
        table_add_locked(m, &m->leases, m->devices[chosen], &lease->index, &lease->generation, err);
    if (status != MUSTER_OK)
        return status;
    record_locked(picking, chosen);
    m->devices[chosen]->leases++;
    m->views[chosen].queued++;
    *device = device_handle_locked(m->devices[chosen]);
    return MUSTER_OK;
}

static muster_status say_none_locked(struct picking *picking, struct muster_error *err)
{
    struct muster *m = picking->m;
    char words[200] = "";
    record_locked(picking, PLACEMENT_NONE);
    for (uint32_t i = 0; i < m->device_count; i++) {
        if (m->devices[i]->is_sliced || strlen(words) + 40 > sizeof words)
            continue;
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s: %s",
                 *words ? ", " : "", m->devices[i]->info.id,
                 muster_refusal_name(placement_refusal(&m->views[i], i, &picking->hints)));
    }
    return muster_error_fill(err, MUSTER_E_NO_DEVICE, 0, "ask for less, or see `muster explain`",
                             "no device is eligible; refused by: %s",
                             *words ? words : "there is none");
}

static muster_status pick_built_in(struct picking *picking, muster_lease *lease,
                                   muster_device *device, struct muster_error *err)
{
    struct muster *m = picking->m;
    run_lock(m);
    uint32_t chosen = placement_choose(number_of(picking->policy), m->views, m->device_count,
                                       &picking->hints, &m->turn);
    muster_status status = chosen != PLACEMENT_NONE
                               ? reserve_locked(picking, chosen, lease, device, err)
                               : say_none_locked(picking, err);
    run_unlock(m);
    return status;
}

/* What a user's policy is shown. */
struct snapshot {
    struct candidate *candidates;          /* owns */
    const struct muster_candidate **shown; /* owns */
};

/* The candidates as they are now; gives how many. */
static size_t snapshot_locked(struct picking *picking, struct snapshot *out)
{
    struct muster *m = picking->m;
    size_t count = 0;
    /* Devices that came after the room was made are for the next pick. */
    for (uint32_t i = 0; i < picking->capacity; i++) {
        if (placement_refusal(&m->views[i], i, &picking->hints) != MUSTER_REFUSED_NOT)
            continue;
        candidate_fill_locked(m->devices[i], m->views[i].queued, &out->candidates[count]);
        out->shown[count] = &out->candidates[count].shown;
        count++;
    }
    return count;
}

/* Takes the user's choice, unless it was overtaken; true if that settles it. */
static bool commit(struct picking *picking, const struct muster_candidate *choice,
                   muster_lease *lease, muster_device *device, muster_status *status,
                   struct muster_error *err)
{
    struct muster *m = picking->m;
    uint32_t index = choice->device.index;
    run_lock(m);
    bool still_holds =
        placement_refusal(&m->views[index], index, &picking->hints) == MUSTER_REFUSED_NOT &&
        m->views[index].queued <= choice->load->queue_depth;
    if (still_holds)
        *status = reserve_locked(picking, index, lease, device, err);
    run_unlock(m);
    return still_holds;
}

static muster_status ask_policy(struct picking *picking, struct snapshot *snapshot,
                                muster_lease *lease, muster_device *device,
                                struct muster_error *err)
{
    struct muster *m = picking->m;
    const struct muster_policy *policy = picking->policy;
    const struct muster_hints none = { .size = sizeof none };
    for (int try = 0; try < POLICY_TRIES; try++) {
        run_lock(m);
        size_t count = snapshot_locked(picking, snapshot);
        muster_status status = count == 0 ? say_none_locked(picking, err) : MUSTER_OK;
        run_unlock(m);
        if (status != MUSTER_OK)
            return status;
        int choice = policy->choose(policy->state, picking->given ? picking->given : &none,
                                    snapshot->shown, count);
        if (choice < 0)
            return muster_error_fill(err, MUSTER_E_NO_DEVICE, 0, NULL,
                                     "policy %s chose none of %zu candidates", policy->name, count);
        if ((size_t)choice >= count)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "return a number below count",
                                     "policy %s chose %d of %zu candidates", policy->name, choice,
                                     count);
        if (commit(picking, snapshot->shown[choice], lease, device, &status, err))
            return status;
    }
    return muster_error_fill(err, MUSTER_E_BUSY, 0, "pick again",
                             "policy %s was overtaken %d times", policy->name, POLICY_TRIES);
}

static muster_status pick_by_user(struct picking *picking, muster_lease *lease,
                                  muster_device *device, struct muster_error *err)
{
    struct muster *m = picking->m;
    struct platform_frame frame = { .kind = FRAME_POLICY, .runtime = m, .object = m };
    struct policy_call call = { .policy = picking->policy };
    if (platform_frame_is_in(FRAME_POLICY, m))
        return run_say_stuck(err, "muster_pick");
    run_lock(m);
    picking->capacity = m->device_count;
    run_unlock(m);
    struct snapshot snapshot = {
        .candidates = allocator_take(&m->allocator, picking->capacity, sizeof *snapshot.candidates),
        .shown = allocator_take(&m->allocator, picking->capacity, sizeof *snapshot.shown)
    };
    muster_status status = MUSTER_E_NO_MEMORY;
    if (!snapshot.candidates || !snapshot.shown) {
        run_no_memory(err, "the candidates");
        goto no_memory;
    }
    run_lock(m);
    policy_begin_locked(m, &call, NULL);
    run_unlock(m);
    platform_frame_enter(&frame);
    status = ask_policy(picking, &snapshot, lease, device, err);
    platform_frame_leave(&frame);
    run_lock(m);
    policy_end_locked(m, &call);
    run_unlock(m);
no_memory:
    allocator_give(&m->allocator, snapshot.shown, picking->capacity, sizeof *snapshot.shown);
    allocator_give(&m->allocator, snapshot.candidates, picking->capacity,
                   sizeof *snapshot.candidates);
    return status;
}

muster_status muster_pick(struct muster *m, const struct muster_policy *policy,
                          const struct muster_hints *hints, muster_lease *lease,
                          muster_device *device, struct muster_error *err)
{
    struct picking picking = { .m = m,
                               .policy = policy ? policy : &built_in[PLACEMENT_ADAPTIVE],
                               .given = hints };
    if (!m || !lease || !device)
        return run_bad_argument(err, "muster_pick", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    struct muster_policy users;
    struct muster_hints asked;
    muster_status status = MUSTER_OK;
    if (!policy_is_built_in(picking.policy)) {
        status = policy_read(policy, "muster_pick", &users, err);
        picking.policy = &users;
    }
    if (status == MUSTER_OK && hints) {
        status = layout_read(LAYOUT(muster_hints), hints, &asked, err);
        picking.given = &asked;
    }
    if (status == MUSTER_OK)
        status = look_at_devices(&picking, err);
    if (status == MUSTER_OK)
        status = read_hints(&picking, err);
    if (status == MUSTER_OK)
        status = policy_is_built_in(picking.policy) ? pick_built_in(&picking, lease, device, err)
                                                    : pick_by_user(&picking, lease, device, err);
    allocator_give(&m->allocator, picking.devices, picking.words, sizeof *picking.devices);
    return status;
}

muster_status muster_lease_release(struct muster *m, muster_lease lease, struct muster_error *err)
{
    void *entry;
    if (!m)
        return run_bad_argument(err, "muster_lease_release", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    run_lock(m);
    muster_status status =
        table_find_locked(&m->leases, lease.index, lease.generation, "lease", &entry, err);
    if (status == MUSTER_OK) {
        struct run_device *device = entry;
        INVARIANT(device->leases > 0);
        device->leases--;
        m->views[device->index].queued--;
        table_remove_locked(&m->leases, lease.index);
    }
    run_unlock(m);
    return status;
}

muster_status muster_explain(struct muster *m, struct muster_decision *out, size_t capacity,
                             size_t *count, struct muster_error *err)
{
    if (!m || !count || (!out && capacity > 0))
        return run_bad_argument(err, "muster_explain", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = layout_check_rooms(LAYOUT(muster_decision), out, capacity, err);
    if (status != MUSTER_OK)
        return status;
    run_lock(m);
    size_t kept = m->decision_count < DECISIONS_KEPT ? (size_t)m->decision_count : DECISIONS_KEPT;
    for (size_t i = 0; i < kept && i < capacity; i++) {
        struct muster_decision decision;
        tell_locked(m, &m->decisions[(m->decision_count - 1 - i) & (DECISIONS_KEPT - 1)],
                    m->decision_count - i, &decision);
        layout_write_at(LAYOUT(muster_decision), out, i, &decision);
    }
    run_unlock(m);
    *count = kept;
    return MUSTER_OK;
}

void decisions_destroy(struct muster *m)
{
    allocator_give(&m->allocator, m->decisions, DECISIONS_KEPT, sizeof *m->decisions);
    m->decisions = NULL;
}
