#include "core/fleet/wire.h"

#include "base/invariant.h"
#include "base/text.h"
#include "core/grains.h"

#include <inttypes.h>
#include <string.h>

static const char *const request_words[] = { "claim", "done", "fail", "beat", "gone" };
static const char *const reply_words[] = { "run", "over", "ok", "late", "full", "slots" };
static const char *const class_words[] = { "unit", "user", "memory", "store", "back" };
static const char *const end_words[] = { "done", "failed", "cancelled" };
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
_Static_assert(COUNT_OF(request_words) == WIRE_REQUEST_KINDS, "each request has its word");
_Static_assert(COUNT_OF(reply_words) == WIRE_REPLY_KINDS, "each answer has its word");
_Static_assert(COUNT_OF(class_words) == WIRE_CLASSES, "each class has its word");
_Static_assert(COUNT_OF(end_words) == WIRE_ENDS, "each end has its word");

/* The longest: a beat, or the answer to one. Numbers of 64 bits take 20 digits, of 32 bits 10. */
#define HEAD_BYTES (2 + 6 + 21 + 17)
#define HELD_BYTES (3 + 21 + 5 + 21 + 11 + 11 + 21 + 21)
_Static_assert(HEAD_BYTES + WIRE_SLOTS_MAX * HELD_BYTES < WIRE_BYTES_MAX, "every message fits");

/* Writing. */

static void put_slot(struct text_room *room, const struct wire_held *held)
{
    text_put(room, " %" PRIu32 " %" PRIu64, held->slot, held->seq);
}

static void put_run(struct text_room *room, const struct wire_run *run)
{
    text_put(room, " %" PRIu64 " %" PRIu32 " %" PRIu32 " %" PRIu64 " %" PRIu64, run->epoch,
             run->attempt, run->generation, run->grains.begin, run->grains.end);
}

size_t wire_print_request(const struct wire_request *request, char text[WIRE_BYTES_MAX])
{
    struct text_room room = { text, WIRE_BYTES_MAX, 0 };
    text_put(&room, "%d %s %" PRIu64 " %" PRIx64, WIRE_VERSION, request_words[request->kind],
             request->epoch, request->worker);
    for (uint32_t i = 0; i < request->held_count; i++) {
        put_slot(&room, &request->held[i]);
        if (request->kind != WIRE_CLAIM)
            put_run(&room, &request->held[i].run);
    }
    if (request->kind == WIRE_FAIL)
        text_put(&room, " %s", class_words[request->class_]);
    if (request->kind == WIRE_FAIL && request->at == WIRE_NO_GRAIN)
        text_put(&room, " -");
    else if (request->kind == WIRE_FAIL)
        text_put(&room, " %" PRIu64, request->at);
    INVARIANT(room.length < WIRE_BYTES_MAX);
    return room.length;
}

size_t wire_print_reply(const struct wire_reply *reply, char text[WIRE_BYTES_MAX])
{
    struct text_room room = { text, WIRE_BYTES_MAX, 0 };
    text_put(&room, "%d %s %" PRIu64, WIRE_VERSION, reply_words[reply->kind], reply->epoch);
    if (reply->kind == WIRE_OVER)
        text_put(&room, " %s", end_words[reply->end]);
    for (uint32_t i = 0; i < reply->held_count; i++) {
        put_slot(&room, &reply->held[i]);
        if (reply->kind == WIRE_SLOTS)
            text_put(&room, reply->drops[i] ? " drop" : " run");
        if (reply->kind == WIRE_RUN || !reply->drops[i])
            put_run(&room, &reply->held[i].run);
    }
    INVARIANT(room.length < WIRE_BYTES_MAX);
    return room.length;
}

/* Reading. The first thing that is wrong sticks: everything read after it is 0. */

struct reader {
    const char *at, *end;
    bool is_bad;
};

struct word {
    const char *text;
    size_t bytes;
};

/* The next word: one space before it, but before the first. Empty words are wrong. */
static struct word next_word(struct reader *reader)
{
    struct word word = { reader->at, 0 };
    while (word.text + word.bytes < reader->end && word.text[word.bytes] != ' ')
        word.bytes++;
    if (reader->is_bad || word.bytes == 0) {
        reader->is_bad = true;
        return (struct word){ "", 0 };
    }
    reader->at = word.text + word.bytes;
    if (reader->at < reader->end)
        reader->at++;
    /* A space at the end, after which nothing comes. */
    if (reader->at == reader->end && reader->at[-1] == ' ')
        reader->is_bad = true;
    return word;
}

static bool has_more(const struct reader *reader)
{
    return !reader->is_bad && reader->at < reader->end;
}

static uint64_t digit_of(char c)
{
    return c >= '0' && c <= '9'   ? (uint64_t)(c - '0')
           : c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a') + 10
                                  : UINT64_MAX;
}

/* A number up to `most`, without a sign and without leading zeros: each has one form. */
static uint64_t next_number(struct reader *reader, uint64_t base, uint64_t most)
{
    struct word word = next_word(reader);
    uint64_t number = 0;
    bool is_bad = word.bytes == 0 || (word.bytes > 1 && word.text[0] == '0');
    for (size_t i = 0; i < word.bytes && !is_bad; i++) {
        uint64_t digit = digit_of(word.text[i]);
        is_bad = digit >= base || __builtin_mul_overflow(number, base, &number) ||
                 __builtin_add_overflow(number, digit, &number);
    }
    if (is_bad || number > most) {
        reader->is_bad = true;
        return 0;
    }
    return number;
}

static bool is_word(struct word word, const char *text)
{
    return word.bytes == strlen(text) && memcmp(word.text, text, word.bytes) == 0;
}

static uint32_t next_choice(struct reader *reader, const char *const *words, size_t count)
{
    struct word word = next_word(reader);
    for (size_t i = 0; i < count; i++)
        if (is_word(word, words[i]))
            return (uint32_t)i;
    reader->is_bad = true;
    return 0;
}

static void read_slot(struct reader *reader, struct wire_held *held)
{
    held->slot = (uint32_t)next_number(reader, 10, WIRE_SLOTS_MAX - 1);
    held->seq = next_number(reader, 10, UINT64_MAX);
}

static void read_run(struct reader *reader, struct wire_run *run)
{
    run->epoch = next_number(reader, 10, UINT64_MAX);
    run->attempt = (uint32_t)next_number(reader, 10, UINT32_MAX);
    run->generation = (uint32_t)next_number(reader, 10, UINT32_MAX);
    run->grains.begin = next_number(reader, 10, GRAINS_MAX);
    run->grains.end = next_number(reader, 10, GRAINS_MAX);
    if (run->epoch == 0 || run->grains.begin >= run->grains.end)
        reader->is_bad = true;
}

/* Its slot must be none of those before. */
static void check_slot(struct reader *reader, const struct wire_held *held, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (held[i].slot == held[index].slot)
            reader->is_bad = true;
}

/* The version, as the first word of any message of any version is one. */
static enum wire_read read_version(struct reader *reader, uint64_t *version)
{
    uint64_t number = next_number(reader, 10, UINT64_MAX);
    if (reader->is_bad)
        return WIRE_BAD;
    *version = number;
    return number == WIRE_VERSION ? WIRE_OK : WIRE_VERSION_OTHER;
}

static void read_fail(struct reader *reader, struct wire_request *request)
{
    struct muster_range grains = request->held[0].run.grains;
    request->class_ = (enum wire_class)next_choice(reader, class_words, COUNT_OF(class_words));
    request->at = WIRE_NO_GRAIN;
    if (has_more(reader) && *reader->at == '-') {
        reader->is_bad = !is_word(next_word(reader), "-") || reader->is_bad;
        return;
    }
    request->at = next_number(reader, 10, GRAINS_MAX);
    if (request->at < grains.begin || request->at >= grains.end)
        reader->is_bad = true;
}

enum wire_read wire_read_request(const char *text, size_t bytes, struct wire_request *out,
                                 uint64_t *version)
{
    struct reader reader = { text, text + bytes, false };
    struct wire_request request = { .at = WIRE_NO_GRAIN };
    enum wire_read read = read_version(&reader, version);
    if (read != WIRE_OK)
        return read;
    request.kind =
        (enum wire_request_kind)next_choice(&reader, request_words, COUNT_OF(request_words));
    request.epoch = next_number(&reader, 10, UINT64_MAX);
    request.worker = next_number(&reader, 16, UINT64_MAX);
    if (request.worker == 0)
        return WIRE_BAD;
    bool is_beat = request.kind == WIRE_BEAT;
    uint32_t most = is_beat ? WIRE_SLOTS_MAX : request.kind == WIRE_GONE ? 0 : 1;
    while (request.held_count < most && (!is_beat || has_more(&reader)) && !reader.is_bad) {
        struct wire_held *held = &request.held[request.held_count];
        read_slot(&reader, held);
        if (request.kind != WIRE_CLAIM)
            read_run(&reader, &held->run);
        check_slot(&reader, request.held, request.held_count++);
    }
    if (request.kind == WIRE_FAIL)
        read_fail(&reader, &request);
    if (reader.is_bad || has_more(&reader))
        return WIRE_BAD;
    *out = request;
    return WIRE_OK;
}

enum wire_read wire_read_reply(const char *text, size_t bytes, struct wire_reply *out,
                               uint64_t *version)
{
    static const char *const verdicts[] = { "run", "drop" };
    struct reader reader = { text, text + bytes, false };
    struct wire_reply reply = { .epoch = 0 };
    enum wire_read read = read_version(&reader, version);
    if (read != WIRE_OK)
        return read;
    reply.kind = (enum wire_reply_kind)next_choice(&reader, reply_words, COUNT_OF(reply_words));
    reply.epoch = next_number(&reader, 10, UINT64_MAX);
    if (reply.epoch == 0)
        return WIRE_BAD;
    if (reply.kind == WIRE_OVER)
        reply.end = (enum wire_end)next_choice(&reader, end_words, COUNT_OF(end_words));
    bool are_slots = reply.kind == WIRE_SLOTS;
    uint32_t most = are_slots ? WIRE_SLOTS_MAX : reply.kind == WIRE_RUN ? 1 : 0;
    while (reply.held_count < most && (!are_slots || has_more(&reader)) && !reader.is_bad) {
        uint32_t index = reply.held_count++;
        read_slot(&reader, &reply.held[index]);
        reply.drops[index] = are_slots && next_choice(&reader, verdicts, 2) == 1;
        if (!reply.drops[index])
            read_run(&reader, &reply.held[index].run);
        check_slot(&reader, reply.held, index);
    }
    if (reader.is_bad || has_more(&reader))
        return WIRE_BAD;
    *out = reply;
    return WIRE_OK;
}
