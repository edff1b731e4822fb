/*
 * Messages to a helper and its answers.
 */
#include "backend/isolated/state.h"

#include <string.h>

/* A thread looks so long without a pause before it sleeps: a wake costs more than most answers. */
#define SPIN_NS 30000u
#define SLEEP_NS 50000000u
/* The thread that starts a helper looks so often whether it still lives. */
#define START_SLEEP_NS 2000000u
#define FULL_SLEEP_NS 200000u
/* A helper that has served nothing for so long while it is asked something is ended. Compilers take long. */
#define ANSWER_NS UINT64_C(120000000000)
/* And one that serves what was before, but does not come to the question. */
#define ANSWERS_NS (5 * ANSWER_NS)
/* A kernel's code goes in pieces of this size. */
#define CODE_BYTES 32768u

_Static_assert(CODE_BYTES + sizeof(struct wire_head) <= WIRE_MESSAGE_BYTES_MAX,
               "a piece is a message");

muster_status wire_status(int32_t status)
{
    switch (status) {
#define KNOWN(name, code, message) case name:
        MUSTER_STATUS_LIST(KNOWN)
#undef KNOWN
        return status;
    default:
        return MUSTER_E_INTERNAL;
    }
}

uint32_t bits_take(uint64_t *words, uint32_t words_count)
{
    for (uint32_t i = 0; i < words_count; i++)
        if (words[i] != UINT64_MAX) {
            uint32_t bit = (uint32_t)__builtin_ctzll(~words[i]);
            words[i] |= (uint64_t)1 << bit;
            return 64 * i + bit;
        }
    return WIRE_NONE;
}

void bits_give(uint64_t *words, uint32_t bit)
{
    words[bit / 64] &= ~((uint64_t)1 << bit % 64);
}

muster_status link_say_lost(struct link *link, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_DEVICE_LOST, 0, "go on with other devices",
                             "the helper of %s:%u has ended too often: %s", link->backend->name,
                             link->index, *link->crash ? link->crash : "it cannot be started");
}

muster_status link_lock(struct link *link, struct muster_error *err)
{
    platform_mutex_lock(&link->lock);
    while (link->state == LINK_STARTING)
        platform_condition_wait(&link->changed, &link->lock, UINT64_MAX);
    if (link->state == LINK_UP)
        return MUSTER_OK;
    muster_status status = link_say_lost(link, err);
    platform_mutex_unlock(&link->lock);
    return status;
}

void link_unlock(struct link *link)
{
    platform_mutex_unlock(&link->lock);
}

void link_rest(struct link *link, uint32_t seen, uint64_t timeout_ns)
{
    struct wire_page *page = link->page;
    /* Sequentially consistent: the helper raises the word and then looks for sleepers. */
    atomic_fetch_add(&page->done_sleeps, 1);
    if (atomic_load(&page->done_word) == seen)
        platform_word_wait(&page->done_word, seen, timeout_ns);
    atomic_fetch_sub(&page->done_sleeps, 1);
}

/* The helper's own count may be anything: less room than there is, at worst none. */
static uint32_t room(const struct link *link)
{
    uint64_t tail = atomic_load_explicit(&link->page->down_tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&link->page->down_head, memory_order_acquire);
    uint64_t used = tail - head;
    return used <= WIRE_DOWN_BYTES ? WIRE_DOWN_BYTES - (uint32_t)used : 0;
}

static void ring_bell(struct link *link)
{
    struct wire_page *page = link->page;
    /* Sequentially consistent, as in link_rest. */
    if (atomic_load(&page->down_sleeps) != 0) {
        atomic_fetch_add(&page->down_word, 1);
        platform_word_wake(&page->down_word);
    }
}

static struct wire_head *try_begin(struct link *link, enum wire_kind kind, uint32_t bytes)
{
    struct wire_page *page = link->page;
    uint64_t tail = atomic_load_explicit(&page->down_tail, memory_order_relaxed);
    uint32_t at = (uint32_t)(tail % WIRE_DOWN_BYTES), rest = WIRE_DOWN_BYTES - at;
    if (room(link) < bytes + (rest < bytes ? rest : 0))
        return NULL;
    if (rest < bytes) {
        /* Lengths are multiples of 16: a pad of 16 bytes is the two first fields alone. */
        struct wire_head *pad = (struct wire_head *)(void *)(page->down + at);
        pad->bytes = rest;
        pad->kind = WIRE_PAD;
        atomic_store_explicit(&page->down_tail, tail + rest, memory_order_release);
        at = 0;
    }
    struct wire_head *head = (struct wire_head *)(void *)(page->down + at);
    *head = (struct wire_head){ .bytes = bytes, .kind = kind };
    return head;
}

/* `waits`: also for a helper that is being started. */
static struct wire_head *begin(struct link *link, enum wire_kind kind, size_t bytes, bool waits)
{
    uint32_t whole = wire_round(sizeof(struct wire_head) + bytes);
    struct wire_head *head = NULL;
    while (link->state == LINK_UP && !(head = try_begin(link, kind, whole))) {
        uint32_t seen = atomic_load(&link->page->done_word);
        platform_mutex_unlock(&link->lock);
        link_rest(link, seen, FULL_SLEEP_NS);
        platform_mutex_lock(&link->lock);
        while (waits && link->state == LINK_STARTING)
            platform_condition_wait(&link->changed, &link->lock, UINT64_MAX);
    }
    return head;
}

struct wire_head *link_begin(struct link *link, enum wire_kind kind, size_t bytes)
{
    return begin(link, kind, bytes, true);
}

struct wire_head *link_begin_asking(struct link *link, enum wire_kind kind, size_t bytes)
{
    return begin(link, kind, bytes, false);
}

muster_status link_lock_asking(struct link *link, struct muster_error *err)
{
    for (;;) {
        muster_status status = link_lock(link, err);
        if (status != MUSTER_OK)
            return status;
        link_unlock(link);
        /* Never waits for a start with this lock. */
        platform_mutex_lock(&link->call_lock);
        platform_mutex_lock(&link->lock);
        if (link->state != LINK_STARTING)
            return MUSTER_OK;
        platform_mutex_unlock(&link->lock);
        platform_mutex_unlock(&link->call_lock);
    }
}

void link_send(struct link *link, struct wire_head *message)
{
    struct wire_page *page = link->page;
    uint64_t tail = atomic_load_explicit(&page->down_tail, memory_order_relaxed);
    /* Sequentially consistent: the helper says that it sleeps and then looks at the tail. */
    atomic_store(&page->down_tail, tail + message->bytes);
    ring_bell(link);
}

bool link_say(struct link *link, enum wire_kind kind, uint32_t a, uint32_t b, uint64_t c)
{
    struct wire_head *head = link_begin(link, kind, 0);
    if (!head)
        return false;
    head->a = a;
    head->b = b;
    head->c = c;
    link_send(link, head);
    return true;
}

static void write_question(struct link *link, struct wire_head *head,
                           const struct link_question *question)
{
    head->a = question->a;
    head->b = question->b;
    head->c = question->c;
    head->answer = link->answers;
    if (question->body_bytes > 0)
        memcpy(head + 1, question->body, question->body_bytes);
    link_send(link, head);
}

/* The answer is there: takes it, as far as it can be what was asked for. */
static muster_status take_answer(struct link *link, const struct link_question *question,
                                 struct muster_error *err)
{
    struct wire_reply *reply = &link->page->reply;
    muster_status status = wire_status(reply->status);
    uint32_t bytes = reply->bytes;
    if (status == MUSTER_OK && question->answer) {
        if (bytes != question->answer_bytes || bytes > WIRE_REPLY_BYTES)
            return muster_error_fill(err, MUSTER_E_INTERNAL, 0, NULL,
                                     "the helper of %s:%u gave an unreadable answer",
                                     link->backend->name, link->index);
        memcpy(question->answer, reply->payload, question->answer_bytes);
    } else if (status != MUSTER_OK) {
        char text[sizeof reply->text], fix[sizeof reply->fix];
        memcpy(text, reply->text, sizeof text);
        memcpy(fix, reply->fix, sizeof fix);
        text[sizeof text - 1] = fix[sizeof fix - 1] = 0;
        muster_error_fill(err, status, reply->driver_code, *fix ? fix : NULL, "%s", text);
    }
    return status;
}

static bool has_answered(const struct link *link)
{
    return atomic_load_explicit(&link->page->reply.number, memory_order_acquire) == link->answers;
}

/* Waits for the answer; false if the helper has ended. `looks`: nobody else watches it. */
static bool await_answer(struct link *link, bool looks)
{
    struct wire_page *page = link->page;
    uint64_t begin_ns = platform_clock_ns(), moved_ns = begin_ns;
    uint64_t beats = atomic_load_explicit(&page->beats, memory_order_relaxed);
    while (!has_answered(link)) {
        uint32_t word = atomic_load(&page->reply_word);
        uint64_t now_ns = platform_clock_ns();
        uint64_t beat = atomic_load_explicit(&page->beats, memory_order_relaxed);
        if (has_answered(link))
            break;
        bool has_ended = looks
                             ? now_ns - begin_ns > SPIN_NS && platform_child_await(&link->child, 0)
                             : atomic_load_explicit(&link->ended, memory_order_acquire) != 0;
        if (has_ended)
            return has_answered(link);
        moved_ns = beat != beats ? now_ns : moved_ns;
        beats = beat;
        /* One that only pretends to serve is ended, too. */
        if (now_ns - moved_ns > ANSWER_NS || now_ns - begin_ns > ANSWERS_NS)
            platform_child_kill(&link->child);
        if (now_ns - begin_ns < SPIN_NS)
            platform_thread_yield();
        else
            platform_word_wait(&page->reply_word, word, looks ? START_SLEEP_NS : SLEEP_NS);
    }
    return true;
}

static muster_status say_ended(struct link *link, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_DEVICE_LOST, 0, NULL,
                             "the helper of %s:%u ended while it was asked", link->backend->name,
                             link->index);
}

muster_status link_await(struct link *link, const struct link_question *question,
                         struct muster_error *err)
{
    return await_answer(link, false) ? take_answer(link, question, err) : say_ended(link, err);
}

/* The code goes before the question, in pieces; false if there is no helper any more. With the lock. */
static bool send_code(struct link *link, const struct link_question *question)
{
    uint64_t generation = link->generation;
    for (size_t at = 0; at < question->code_bytes;) {
        size_t left = question->code_bytes - at, step = left < CODE_BYTES ? left : CODE_BYTES;
        struct wire_head *head = link_begin_asking(link, WIRE_CODE, step);
        if (!head || link->generation != generation)
            return false;
        head->a = at == 0;
        head->c = step;
        memcpy(head + 1, (const char *)question->code + at, step);
        link_send(link, head);
        at += step;
    }
    return true;
}

/* `generation` becomes that of the helper which the question was sent to. */
static muster_status ask(struct link *link, const struct link_question *question,
                         uint64_t *generation, struct muster_error *err)
{
    muster_status status = link_lock_asking(link, err);
    if (status != MUSTER_OK)
        return status;
    *generation = link->asked = link->generation;
    struct wire_head *head = send_code(link, question)
                                 ? link_begin_asking(link, question->kind, question->body_bytes)
                                 : NULL;
    if (head) {
        link->answers++;
        write_question(link, head, question);
    }
    link_unlock(link);
    status = head ? link_await(link, question, err) : say_ended(link, err);
    if (status == MUSTER_OK && question->keep_locked) {
        platform_mutex_lock(&link->lock);
        question->keep_locked(link, question->user);
        platform_mutex_unlock(&link->lock);
    }
    platform_mutex_unlock(&link->call_lock);
    return status;
}

bool link_has_ended(struct link *link, uint64_t generation)
{
    platform_mutex_lock(&link->lock);
    bool has_ended = generation != 0 && (link->generation != generation ||
                                         atomic_load(&link->ended) != 0 || link->state != LINK_UP);
    while (has_ended && (link->generation == generation || link->state == LINK_STARTING) &&
           link->state != LINK_DEAD && !link->must_end)
        platform_condition_wait(&link->changed, &link->lock, UINT64_MAX);
    platform_mutex_unlock(&link->lock);
    return has_ended;
}

muster_status link_ask(struct link *link, const struct link_question *question,
                       struct muster_error *err)
{
    uint64_t generation = 0;
    muster_status status = ask(link, question, &generation, err);
    if (status != MUSTER_E_DEVICE_LOST || !link_has_ended(link, generation) ||
        atomic_load_explicit(&link->is_dead, memory_order_acquire) != 0)
        return status;
    return muster_error_fill(err, MUSTER_E_STREAM_FAILED, 0, NULL,
                             "the helper of %s:%u ended and was started again", link->backend->name,
                             link->index);
}

muster_status link_ask_again(struct link *link, const struct link_question *question,
                             struct muster_error *err)
{
    muster_status status;
    uint64_t generation;
    /* As often as helpers are started; then the link says that it is lost. */
    do {
        generation = 0;
        status = ask(link, question, &generation, err);
    } while (status == MUSTER_E_DEVICE_LOST && link_has_ended(link, generation) && !link->must_end);
    return status;
}

static struct wire_head *begin_starting(struct link *link, enum wire_kind kind, size_t body_bytes)
{
    struct wire_head *head;
    uint32_t bytes = wire_round(sizeof *head + body_bytes);
    while (!(head = try_begin(link, kind, bytes)) && !platform_child_await(&link->child, 0))
        link_rest(link, atomic_load(&link->page->done_word), FULL_SLEEP_NS);
    return head;
}

muster_status link_ask_starting(struct link *link, const struct link_question *question,
                                struct muster_error *err)
{
    for (size_t at = 0; at < question->code_bytes;) {
        size_t left = question->code_bytes - at, step = left < CODE_BYTES ? left : CODE_BYTES;
        struct wire_head *head = begin_starting(link, WIRE_CODE, step);
        if (!head)
            return say_ended(link, err);
        head->a = at == 0;
        head->c = step;
        memcpy(head + 1, (const char *)question->code + at, step);
        link_send(link, head);
        at += step;
    }
    struct wire_head *head = begin_starting(link, question->kind, question->body_bytes);
    if (!head)
        return say_ended(link, err);
    link->answers++;
    write_question(link, head, question);
    return await_answer(link, true) ? take_answer(link, question, err) : say_ended(link, err);
}
