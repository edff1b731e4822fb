#include "core/fleet/wire.h"

#include "base/random.h"
#include "core/grains.h"
#include "support.h"

static uint64_t version;

static enum wire_read read_request(const char *text, struct wire_request *out)
{
    return wire_read_request(text, strlen(text), out, &version);
}

static enum wire_read read_reply(const char *text, struct wire_reply *out)
{
    return wire_read_reply(text, strlen(text), out, &version);
}

/* Reads it, and writes the same text again. */
static struct wire_request request(const char *text)
{
    struct wire_request out;
    char again[WIRE_BYTES_MAX];
    CHECK_EQUAL(WIRE_OK, read_request(text, &out));
    CHECK_EQUAL(strlen(text), wire_print_request(&out, again));
    CHECK_TEXT(text, again);
    return out;
}

static struct wire_reply reply(const char *text)
{
    struct wire_reply out;
    char again[WIRE_BYTES_MAX];
    CHECK_EQUAL(WIRE_OK, read_reply(text, &out));
    CHECK_EQUAL(strlen(text), wire_print_reply(&out, again));
    CHECK_TEXT(text, again);
    return out;
}

static void requests_are_read_as_they_were_written(void)
{
    struct wire_request claim = request("1 claim 3 2a 1 77");
    CHECK(claim.kind == WIRE_CLAIM && claim.epoch == 3 && claim.worker == 42);
    CHECK(claim.held_count == 1 && claim.held[0].slot == 1 && claim.held[0].seq == 77);
    struct wire_request done = request("1 done 3 2a 0 5 2 9 8 100 200");
    CHECK(done.kind == WIRE_DONE && done.held[0].run.epoch == 2 && done.held[0].run.attempt == 9);
    CHECK(done.held[0].run.generation == 8 && done.held[0].run.grains.begin == 100);
    CHECK_EQUAL(200, done.held[0].run.grains.end);
    struct wire_request fail = request("1 fail 3 2a 0 5 3 9 8 100 200 user 150");
    CHECK(fail.class_ == WIRE_CLASS_USER && fail.at == 150);
    fail = request("1 fail 3 2a 0 5 3 9 8 100 200 store -");
    CHECK(fail.class_ == WIRE_CLASS_STORE && fail.at == WIRE_NO_GRAIN);
    struct wire_request beat = request("1 beat 0 ffffffffffffffff 0 1 1 2 3 4 5 2 6 1 7 8 9 10");
    CHECK(beat.held_count == 2 && beat.held[1].slot == 2 && beat.held[1].run.grains.end == 10);
    CHECK_EQUAL(0, request("1 beat 0 1").held_count);
    CHECK(request("1 gone 4 1").kind == WIRE_GONE);
}

static void answers_are_read_as_they_were_written(void)
{
    struct wire_reply run = reply("1 run 3 1 77 3 5 6 10 20");
    CHECK(run.kind == WIRE_RUN && run.epoch == 3 && run.held[0].slot == 1);
    CHECK(run.held[0].seq == 77 && run.held[0].run.attempt == 5);
    CHECK(reply("1 over 3 failed").end == WIRE_END_FAILED);
    CHECK(reply("1 ok 3").kind == WIRE_HEARD && reply("1 late 3").kind == WIRE_LATE);
    CHECK(reply("1 full 3").kind == WIRE_FULL);
    struct wire_reply slots = reply("1 slots 3 0 5 drop 1 6 run 3 1 2 3 4");
    CHECK(slots.held_count == 2 && slots.drops[0] && !slots.drops[1]);
    CHECK_EQUAL(4, slots.held[1].run.grains.end);
    CHECK_EQUAL(0, reply("1 slots 3").held_count);
}

static void another_version_is_told_by_its_number(void)
{
    struct wire_request out = { .worker = 7 };
    struct wire_reply answer;
    CHECK_EQUAL(WIRE_VERSION_OTHER, read_request("2 claim in some other way", &out));
    CHECK(version == 2 && out.worker == 7);
    CHECK_EQUAL(WIRE_VERSION_OTHER, read_reply("12 ok", &answer));
    CHECK_EQUAL(12, version);
    CHECK_EQUAL(WIRE_BAD, read_request("", &out));
    CHECK_EQUAL(WIRE_BAD, read_request("one claim", &out));
}

static void what_is_not_a_request_is_refused(void)
{
    static const char *const texts[] = {
        "1",
        "1 ",
        "1 claim",
        "1 claim 3",
        "1 claim 3 2a",
        "1 claim 3 2a 1",
        "1 claim 3 2a 1 77 ",
        " 1 claim 3 2a 1 77",
        "1  claim 3 2a 1 77",
        "1 claim 3 2a 1 77 1",
        "1 claim 3 0 1 77",
        "1 claim 3 2A 1 77",
        "1 claim 3 2a 16 77",
        "1 claim 3 2a 01 77",
        "1 claim -3 2a 1 77",
        "1 claim +3 2a 1 77",
        "1 claim 3 2a 1 18446744073709551616",
        "1 claim 3 10000000000000000 1 77",
        "1 clam 3 2a 1 77",
        "1 claims 3 2a 1 77",
        "1 claim 3 2a 1 77\n",
        "1\tclaim 3 2a 1 77",
        "1 claim 3.0 2a 1 77",
        /* runs: no epoch, empty, backwards, too large */
        "1 done 3 2a 0 5 0 9 8 100 200",
        "1 done 3 2a 0 5 2 9 8 100 100",
        "1 done 3 2a 0 5 2 9 8 200 100",
        "1 done 3 2a 0 5 2 9 8 100 67108865",
        "1 done 3 2a 0 5 2 4294967296 8 100 200",
        "1 done 3 2a 0 5 2 9 8 100",
        /* fail: no class, another one, a grain that is not of the run */
        "1 fail 3 2a 0 5 3 9 8 100 200",
        "1 fail 3 2a 0 5 3 9 8 100 200 user",
        "1 fail 3 2a 0 5 3 9 8 100 200 users -",
        "1 fail 3 2a 0 5 3 9 8 100 200 user 99",
        "1 fail 3 2a 0 5 3 9 8 100 200 user 200",
        "1 fail 3 2a 0 5 3 9 8 100 200 user --",
        "1 fail 3 2a 0 5 3 9 8 100 200 user - ",
        "1 fail 3 2a 0 5 3 9 8 100 200 user - -",
        /* a slot twice, and half a slot */
        "1 beat 0 1 0 1 1 2 3 4 5 0 6 1 7 8 9 10",
        "1 beat 0 1 0 1 1 2 3 4",
        "1 beat 0 1 0",
        "1 beat 0 1 ",
        "1 gone 4 1 1",
        "1 gone 4",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct wire_request out = { .worker = 7 };
        if (read_request(texts[i], &out) != WIRE_BAD || out.worker != 7)
            test_fail(__FILE__, __LINE__, "taken: '%s'", texts[i]);
    }
}

static void what_is_not_an_answer_is_refused(void)
{
    static const char *const texts[] = {
        "1 ok",
        "1 ok 0",
        "1 ok 3 3",
        "1 over 3",
        "1 over 3 gone",
        "1 run 3",
        "1 run 3 1 77",
        "1 run 3 1 77 3 5 6 10 20 1",
        "1 run 3 16 77 3 5 6 10 20",
        "1 slots 3 0 5",
        "1 slots 3 0 5 stop",
        "1 slots 3 0 5 drop 0 6 drop",
        "1 slots 3 0 5 run",
        "1 slots 3 0 5 drop ",
        "1 claim 3 2a 1 77",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct wire_reply out = { .epoch = 7 };
        if (read_reply(texts[i], &out) != WIRE_BAD || out.epoch != 7)
            test_fail(__FILE__, __LINE__, "taken: '%s'", texts[i]);
    }
}

static void the_longest_messages_fit(void)
{
    struct wire_request beat = {
        .kind = WIRE_BEAT, .epoch = UINT64_MAX, .worker = UINT64_MAX, .held_count = WIRE_SLOTS_MAX
    };
    struct wire_reply slots = { .kind = WIRE_SLOTS,
                                .epoch = UINT64_MAX,
                                .held_count = WIRE_SLOTS_MAX };
    struct wire_request read;
    struct wire_reply answer;
    char text[WIRE_BYTES_MAX];
    for (uint32_t i = 0; i < WIRE_SLOTS_MAX; i++)
        beat.held[i] = slots.held[i] = (struct wire_held){
            i, UINT64_MAX, { UINT64_MAX, UINT32_MAX, UINT32_MAX, { GRAINS_MAX - 1, GRAINS_MAX } }
        };
    CHECK_EQUAL(WIRE_OK, wire_read_request(text, wire_print_request(&beat, text), &read, &version));
    CHECK_EQUAL(WIRE_SLOTS_MAX, read.held_count);
    CHECK_EQUAL(WIRE_OK, wire_read_reply(text, wire_print_reply(&slots, text), &answer, &version));
    CHECK_EQUAL(UINT64_MAX, answer.held[15].seq);
    size_t bytes = wire_print_request(&beat, text);
    strcpy(text + bytes, " 0 1 1 2 3 4 5");
    CHECK_EQUAL(WIRE_BAD, read_request(text, &read));
}

/* Whatever is read can be written, and is then read as the same. */
static void mangled_messages_are_refused_or_mean_what_they_say(void)
{
    static const char *const seeds[] = {
        "1 claim 3 2a 1 77",
        "1 fail 3 2a 0 5 3 9 8 100 200 user 150",
        "1 beat 0 1 0 1 1 2 3 4 5 2 6 1 7 8 9 10",
        "1 slots 3 0 5 drop 1 6 run 3 1 2 3 4",
        "1 run 3 1 77 3 5 6 10 20",
    };
    static const char letters[] = " 0123456789abcdef-unstorerclaim\n";
    struct random random;
    unsigned taken = 0;
    random_init(&random, test_seed());
    for (unsigned i = 0; i < 30000; i++) {
        char text[128], again[WIRE_BYTES_MAX];
        struct wire_request asked;
        struct wire_reply answer;
        strcpy(text, seeds[random_below(&random, COUNT_OF(seeds))]);
        for (uint64_t n = random_below(&random, 3); n > 0; n--)
            text[random_below(&random, strlen(text))] =
                letters[random_below(&random, sizeof letters - 1)];
        size_t bytes = random_below(&random, 4) > 0 ? strlen(text) : random_below(&random, 60);
        bytes = bytes < strlen(text) ? bytes : strlen(text);
        if (wire_read_request(text, bytes, &asked, &version) == WIRE_OK) {
            CHECK_EQUAL(bytes, wire_print_request(&asked, again));
            CHECK(memcmp(text, again, bytes) == 0);
            taken++;
        }
        if (wire_read_reply(text, bytes, &answer, &version) == WIRE_OK) {
            CHECK_EQUAL(bytes, wire_print_reply(&answer, again));
            CHECK(memcmp(text, again, bytes) == 0);
            taken++;
        }
    }
    CHECK(taken > 1000);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(requests_are_read_as_they_were_written),
        TEST(answers_are_read_as_they_were_written),
        TEST(another_version_is_told_by_its_number),
        TEST(what_is_not_a_request_is_refused),
        TEST(what_is_not_an_answer_is_refused),
        TEST(the_longest_messages_fit),
        TEST(mangled_messages_are_refused_or_mean_what_they_say),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
