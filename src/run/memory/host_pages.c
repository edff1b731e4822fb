#include "run/memory/host_pages.h"

#include "platform/machine.h"

static uint64_t find(const struct muster_services *services, const void *memory, uint64_t bytes,
                     uint64_t *offset)
{
    const struct muster *m =
        (const struct muster *)((const char *)services - offsetof(struct muster, services));
    return platform_arena_find(m->arena, memory, bytes, offset);
}

void host_pages_share(struct muster *m)
{
    struct muster_error problem = { .size = sizeof problem };
    if (!m->options.isolate)
        return;
    if (platform_arena_create(&m->allocator, &m->arena, &problem) != MUSTER_OK) {
        run_log(m, MUSTER_LOG_WARNING,
                "host memory is not shared with helpers, and copies are slower: %s; %s",
                problem.text, problem.fix);
        return;
    }
    m->services.host_file_find = find;
    m->services.host_file = platform_arena_file(m->arena);
    m->services.host_file_bytes = platform_arena_bytes(m->arena);
}

void *host_pages_map(struct muster *m, const struct platform_part *part)
{
    if (m->arena)
        return platform_arena_take(m->arena, part);
    void *memory =
        part->is_ring ? platform_ring_map(part->bytes) : platform_pages_map(part->bytes, -1);
    if (!memory)
        return NULL;
    platform_pages_place(memory, part->bytes, part->nodes);
    if (part->is_large)
        platform_pages_prefer_large(memory, part->bytes);
    return memory;
}

void host_pages_unmap(struct muster *m, void *memory, size_t bytes, bool is_ring)
{
    if (m->arena)
        platform_arena_give(m->arena, memory);
    else if (is_ring)
        platform_ring_unmap(memory, bytes);
    else
        platform_pages_unmap(memory, bytes);
}
