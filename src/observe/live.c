#include "observe/live.h"

#include <stdio.h>

muster_status live_open(struct live *live, uint64_t now_ns, struct muster_error *err)
{
    static _Atomic uint64_t number;
    *live = (struct live){ .page = NULL };
    muster_status status = platform_live_create(&live->file, sizeof *live->page, err);
    if (status != MUSTER_OK)
        return status;
    struct live_page *page = live->file.memory;
    struct live_facts *facts = &page->facts;
    facts->layout = LIVE_LAYOUT;
    facts->bytes = sizeof *page;
    facts->pid = platform_process_number();
    /* Relaxed: the numbers only have to differ. */
    facts->number = atomic_fetch_add_explicit(&number, 1, memory_order_relaxed) + 1;
    facts->opened_ns = now_ns;
    platform_process_name(facts->program, sizeof facts->program);
    snprintf(facts->version, sizeof facts->version, "%s", MUSTER_VERSION_STRING);
    /* Release: a reader that finds it finds the facts; the reader's file system calls are its partner. */
    atomic_store_explicit(&page->magic, LIVE_MAGIC, memory_order_release);
    live->page = page;
    return MUSTER_OK;
}

void live_hide(struct live *live)
{
    if (live->page)
        platform_live_hide(&live->file);
}

void live_close(struct live *live)
{
    if (live->page)
        platform_live_destroy(&live->file);
    live->page = NULL;
}

uint32_t live_take_place(struct live *live)
{
    uint32_t place = LIVE_JOBS;
    for (uint32_t i = 0; i < LIVE_JOBS; i++)
        if (!live->places[i].is_taken &&
            (place == LIVE_JOBS || live->places[i].ended_ns < live->places[place].ended_ns))
            place = i;
    if (place == LIVE_JOBS)
        live->jobs_unseen++;
    else
        live->places[place].is_taken = true;
    return place;
}

void live_leave_place(struct live *live, uint32_t place, uint64_t now_ns)
{
    if (place == LIVE_JOBS) {
        live->jobs_unseen--;
        return;
    }
    live->places[place].is_taken = false;
    live->places[place].ended_ns = now_ns;
}

/*
 * Each word is released, so that none is seen before the odd number is, nor the even one before them all.
 * Its partner is a reader in another process, which reads the number first and last.
 */
void live_begin(_Atomic uint64_t *record)
{
    uint64_t sequence = atomic_load_explicit(record, memory_order_relaxed);
    /* Sequentially consistent: a clock that is read next is read after readers could see this. */
    atomic_exchange_explicit(record, sequence + 1, memory_order_seq_cst);
}

void live_end(_Atomic uint64_t *record, const void *from, size_t count)
{
    uint64_t sequence = atomic_load_explicit(record, memory_order_relaxed);
    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, (const char *)from + i * sizeof word, sizeof word);
        atomic_store_explicit(record + 1 + i, word, memory_order_release);
    }
    atomic_store_explicit(record, (sequence | 1) + 1, memory_order_release);
}

void live_put(_Atomic uint64_t *record, const void *from, size_t count)
{
    live_begin(record);
    live_end(record, from, count);
}

void live_busy_show(struct live_busy *shown, uint64_t busy_ns, uint64_t since_ns, uint64_t now_ns)
{
    if (since_ns > 0 && since_ns == shown->span_ns)
        return; /* the same span still */
    uint64_t seen_ns = shown->busy_ns;
    if (shown->since_ns > 0 && now_ns > shown->since_ns)
        seen_ns += now_ns - shown->since_ns;
    uint64_t ahead_ns = seen_ns > busy_ns ? seen_ns - busy_ns : 0;
    *shown = (struct live_busy){ .busy_ns = busy_ns + ahead_ns,
                                 .since_ns = since_ns > 0 ? since_ns + ahead_ns : 0,
                                 .span_ns = since_ns };
}
