/*
 * A shared object as a user might name it for a backend, good or bad in one way: FLAW says in
 * which. The good one finds no devices.
 */
#include <muster/backend.h>
#include <unistd.h>

#define FLAW_NONE 0
#define FLAW_ENTRY 1   /* exports nothing */
#define FLAW_TABLE 2   /* returns no table */
#define FLAW_VERSION 3 /* was built for another interface */
#define FLAW_SLOTS 4   /* leaves out what it must have */
#define FLAW_ANSWER 5  /* says that it is slow, and never opens */

static muster_status find_nothing(void *backend, const struct muster_services *services,
                                  uint32_t *device_count, struct muster_error *err)
{
    (void)backend, (void)services, (void)device_count;
    while (FLAW == FLAW_ANSWER)
        pause();
    /* Not muster_error_fill: the program that loads this has it in itself. */
    if (err)
        *err = (struct muster_error){ .size = sizeof *err,
                                      .status = MUSTER_E_NOT_FOUND,
                                      .text = "there is nothing to find" };
    return MUSTER_E_NOT_FOUND;
}

static int is_slow(uint32_t *device_count)
{
    *device_count = 1;
    return 1;
}

static void close_nothing(void *backend)
{
    (void)backend;
}

/* Never called: without devices there is nothing to call them for. */
static muster_status never(void)
{
    return MUSTER_E_INTERNAL;
}

#define NEVER(type) ((type)(void (*)(void))never)

static const struct muster_backend table = {
    .size = sizeof table,
    .abi = FLAW == FLAW_VERSION ? MUSTER_BACKEND_ABI + 1 : MUSTER_BACKEND_ABI,
    .name = "loaded",
    .open = FLAW == FLAW_SLOTS ? 0 : find_nothing,
    .close = close_nothing,
    .device_open = NEVER(muster_status(*)(void *, uint32_t, void *, struct muster_device_info *,
                                          struct muster_error *)),
    .device_close = NEVER(muster_status(*)(void *)),
    .device_sample =
        NEVER(muster_status(*)(void *, struct muster_device_sample *, struct muster_error *)),
    .memory_allocate = NEVER(
        muster_status(*)(void *, void *, uint64_t, struct muster_memory *, struct muster_error *)),
    .memory_free =
        NEVER(muster_status(*)(void *, void *, struct muster_memory *, struct muster_error *)),
    .stream_open = NEVER(muster_status(*)(void *, int32_t, int, void *, struct muster_error *)),
    .stream_close = NEVER(void (*)(void *)),
    .stream_native = NEVER(void *(*)(void *)),
    .stream_wait = NEVER(muster_status(*)(void *, void *, struct muster_error *)),
    .stream_query = NEVER(muster_status(*)(void *, struct muster_error *)),
    .event_init = NEVER(muster_status(*)(void *, uint32_t, void *, struct muster_error *)),
    .event_deinit = NEVER(void (*)(void *)),
    .event_record = NEVER(muster_status(*)(void *, void *, struct muster_error *)),
    .event_query = NEVER(muster_status(*)(void *, struct muster_error *)),
    .event_wait = NEVER(muster_status(*)(void *, uint64_t, struct muster_error *)),
    .copy = NEVER(muster_status(*)(void *, const struct muster_copy_desc *, struct muster_error *)),
    .fill = NEVER(muster_status(*)(void *, const struct muster_place *, uint8_t, uint64_t,
                                   struct muster_error *)),
    .is_slow = FLAW == FLAW_ANSWER ? is_slow : 0,
};

#if FLAW == FLAW_TABLE
MUSTER_API const struct muster_backend *muster_backend_entry(void);
const struct muster_backend *muster_backend_entry(void)
{
    (void)&table;
    return 0;
}
#elif FLAW == FLAW_ENTRY
MUSTER_API const struct muster_backend *muster_backend_another_entry(void);
const struct muster_backend *muster_backend_another_entry(void)
{
    return &table;
}
#else
MUSTER_BACKEND_EXPORT(table)
#endif
