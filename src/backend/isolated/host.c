/*
 * Host memory that the helper maps too: the runtime's file. Copies name a place in it, and no byte passes through this
 * process. What the runtime registers is pinned by the helper's driver; after a restart it is pinned again when it is next
 * copied from or to.
 */
#include "backend/isolated/state.h"

#include "base/allocator.h"

/* What the runtime has registered. */
struct isolated_host {
    struct isolated_host *next;
    const void *memory;
    uint32_t device;
    uint64_t offset, bytes;
    uint64_t generation; /* of the link, when its helper was last told */
};

uint64_t host_find(const struct link *link, const void *memory, uint64_t bytes, uint64_t *offset)
{
    const struct muster_services *services = link->backend->services;
    /* Acquire: a thread that sees that the helper has the file may name places in it. */
    if (atomic_load_explicit(&link->has_host, memory_order_acquire) == 0)
        return 0;
    return services->host_file_find(services, memory, bytes, offset);
}

static void keep_host_locked(struct link *link, void *user)
{
    struct isolated_host *host = user;
    host->generation = link->asked;
    host->next = link->hosts;
    link->hosts = host;
}

muster_status isolated_host_register(void *device_state, void *memory, size_t bytes,
                                     struct muster_error *err)
{
    struct isolated_device *device = device_state;
    struct link *link = device->link;
    const struct muster_allocator *allocator = link->backend->services->allocator;
    uint64_t offset = 0;
    /* A ring's second view is of the same bytes. */
    uint64_t together = host_find(link, memory, bytes, &offset);
    /* Other memory is the program's alone, and passes through stages. */
    if (together == 0)
        return MUSTER_OK;
    struct isolated_host *host = allocator_take(allocator, 1, sizeof *host);
    if (!host)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for pinned memory");
    *host = (struct isolated_host){
        .memory = memory, .device = device->id, .offset = offset, .bytes = together
    };
    const struct wire_host body = { .offset = offset, .bytes = together };
    const struct link_question question = { .kind = WIRE_HOST_REGISTER,
                                            .b = device->id,
                                            .body = &body,
                                            .body_bytes = sizeof body,
                                            .keep_locked = keep_host_locked,
                                            .user = host };
    muster_status status = link_ask_again(link, &question, err);
    if (status != MUSTER_OK)
        allocator_give(allocator, host, 1, sizeof *host);
    return status;
}

static bool say_host_locked(struct link *link, enum wire_kind kind,
                            const struct isolated_host *host)
{
    const struct wire_host body = { .offset = host->offset, .bytes = host->bytes };
    uint32_t device = host->device;
    struct wire_head *head = link_begin(link, kind, sizeof body);
    if (!head)
        return false;
    head->b = device;
    *(struct wire_host *)(head + 1) = body;
    link_send(link, head);
    return true;
}

void isolated_host_unregister(void *device_state, void *memory)
{
    struct isolated_device *device = device_state;
    struct link *link = device->link;
    bool is_up = link_lock(link, NULL) == MUSTER_OK;
    if (!is_up)
        platform_mutex_lock(&link->lock);
    struct isolated_host **at = &link->hosts;
    while (*at && ((*at)->memory != memory || (*at)->device != device->id))
        at = &(*at)->next;
    struct isolated_host *host = *at;
    if (host) {
        *at = host->next;
        if (is_up && host->generation == link->generation)
            say_host_locked(link, WIRE_HOST_UNREGISTER, host);
        allocator_give(link->backend->services->allocator, host, 1, sizeof *host);
    }
    platform_mutex_unlock(&link->lock);
}

/* One that the helper of now has not been told of, and that these bytes are of. */
static struct isolated_host *find_forgotten_locked(const struct link *link, uint32_t device,
                                                   uint64_t offset, uint64_t bytes)
{
    struct isolated_host *host = link->hosts;
    while (host && (host->generation == link->generation || host->device != device ||
                    host->offset >= offset + bytes || offset >= host->offset + host->bytes))
        host = host->next;
    return host;
}

void host_renew_locked(struct link *link, uint32_t device, uint64_t offset, uint64_t bytes)
{
    struct isolated_host *host;
    /* From the first again: the lock is not held while the ring is full. */
    while (link->state == LINK_UP && link->generation > 1 &&
           (host = find_forgotten_locked(link, device, offset, bytes))) {
        host->generation = link->generation;
        say_host_locked(link, WIRE_HOST_AGAIN, host);
    }
}

void host_free_all(struct link *link)
{
    while (link->hosts) {
        struct isolated_host *host = link->hosts;
        link->hosts = host->next;
        allocator_give(link->backend->services->allocator, host, 1, sizeof *host);
    }
}

int isolated_host_is_fast(void *device_state, const void *memory, size_t bytes)
{
    uint64_t offset;
    return host_find(((struct isolated_device *)device_state)->link, memory, bytes, &offset) > 0;
}
