/*
 * A worker's side: what it asks and when, what it does with answers, and what it reports until it is heard.
 */
#include "core/fleet/worker.h"

#include "support.h"

static struct worker worker;
static uint64_t now_ns;

static void begin(uint32_t slots)
{
    now_ns = SECOND;
    worker_init(&worker, 42, slots, now_ns);
}

static bool next(struct wire_request *out)
{
    return worker_next_request(&worker, now_ns, out);
}

/* The next request, of this kind; beats are passed over. */
static struct wire_request expect(enum wire_request_kind kind)
{
    struct wire_request out = { .worker = 0 };
    while (next(&out) && out.kind == WIRE_BEAT && kind != WIRE_BEAT)
        ;
    CHECK(out.worker == 42 && out.kind == kind);
    return out;
}

static bool is_silent(void)
{
    struct wire_request out;
    bool asks = next(&out);
    while (asks && out.kind == WIRE_BEAT)
        asks = next(&out);
    return !asks;
}

static bool answer(const struct wire_request *request, enum wire_reply_kind kind)
{
    struct wire_reply reply = { .kind = kind, .epoch = 1 };
    return worker_reply(&worker, request, &reply, now_ns);
}

static struct wire_reply run_for(const struct wire_request *claim, uint64_t epoch)
{
    struct wire_reply reply = { .kind = WIRE_RUN, .epoch = epoch, .held_count = 1 };
    reply.held[0] = claim->held[0];
    reply.held[0].run = (struct wire_run){ epoch, 5, 6, { 10, 20 } };
    return reply;
}

/* Claims, and begins what it is given; gives the slot. */
static uint32_t run(void)
{
    struct wire_request claim = expect(WIRE_CLAIM);
    struct wire_reply reply = run_for(&claim, 1);
    struct muster_range grains;
    uint32_t slot;
    CHECK(worker_reply(&worker, &claim, &reply, now_ns));
    CHECK(worker_next_run(&worker, &slot, &grains));
    CHECK(grains.begin == 10 && grains.end == 20);
    return slot;
}

static void each_slot_claims_and_runs(void)
{
    struct muster_range grains;
    uint32_t slot;
    begin(2);
    struct wire_request first = expect(WIRE_CLAIM), second = expect(WIRE_CLAIM);
    CHECK(is_silent());
    CHECK(first.held[0].slot != second.held[0].slot);
    struct wire_reply later = run_for(&second, 1), earlier = run_for(&first, 1);
    CHECK(worker_reply(&worker, &second, &later, now_ns));
    CHECK(worker_reply(&worker, &first, &earlier, now_ns));
    /* In the order of the answers. */
    CHECK(worker_next_run(&worker, &slot, &grains));
    CHECK_EQUAL(second.held[0].slot, slot);
    CHECK(worker_next_run(&worker, &slot, &grains));
    CHECK_EQUAL(first.held[0].slot, slot);
    CHECK(!worker_next_run(&worker, &slot, &grains));
    CHECK(is_silent());
    CHECK_EQUAL(2, worker_used(&worker));
}

static void a_claim_without_an_answer_is_repeated(void)
{
    begin(1);
    struct wire_request first = expect(WIRE_CLAIM);
    now_ns += WORKER_CLAIM_AGAIN_NS - 1;
    CHECK(is_silent());
    now_ns++;
    struct wire_request again = expect(WIRE_CLAIM);
    CHECK_EQUAL(first.held[0].seq, again.held[0].seq);
}

static void a_second_answer_changes_nothing(void)
{
    struct muster_range grains;
    uint32_t slot;
    begin(1);
    struct wire_request claim = expect(WIRE_CLAIM);
    struct wire_reply reply = run_for(&claim, 1);
    CHECK(worker_reply(&worker, &claim, &reply, now_ns));
    reply.held[0].run.grains.end = 30;
    CHECK(!worker_reply(&worker, &claim, &reply, now_ns));
    CHECK(worker_next_run(&worker, &slot, &grains));
    CHECK_EQUAL(20, grains.end);
    /* Also not after it was reported. */
    worker_stored(&worker, slot, now_ns);
    struct wire_request done = expect(WIRE_DONE);
    CHECK(answer(&done, WIRE_HEARD));
    CHECK(!worker_reply(&worker, &claim, &reply, now_ns));
}

static void a_report_is_repeated_until_it_is_heard(void)
{
    begin(1);
    uint32_t slot = run();
    worker_stored(&worker, slot, now_ns);
    struct wire_request done = expect(WIRE_DONE);
    CHECK(done.held[0].run.attempt == 5 && done.held[0].run.grains.end == 20);
    CHECK(is_silent());
    now_ns += WORKER_REPORT_AGAIN_NS;
    done = expect(WIRE_DONE);
    now_ns += WORKER_REPORT_AGAIN_NS;
    CHECK(is_silent());
    now_ns += WORKER_REPORT_AGAIN_NS;
    done = expect(WIRE_DONE);
    CHECK(answer(&done, WIRE_HEARD));
    CHECK_EQUAL(2, expect(WIRE_CLAIM).held[0].seq);
}

static void a_failure_says_what_failed(void)
{
    begin(1);
    worker_failed(&worker, run(), WIRE_CLASS_STORE, 15, now_ns);
    struct wire_request fail = expect(WIRE_FAIL);
    CHECK(fail.class_ == WIRE_CLASS_STORE && fail.at == 15);
}

static void beats_speak_of_what_is_run(void)
{
    struct wire_request beat;
    begin(1);
    uint32_t slot = run();
    CHECK_EQUAL(1, expect(WIRE_BEAT).held_count);
    CHECK_EQUAL(now_ns + WORKER_BEAT_NS, worker_due(&worker));
    now_ns += WORKER_BEAT_NS;
    beat = expect(WIRE_BEAT);
    CHECK(beat.held_count == 1 && beat.held[0].slot == slot && beat.held[0].run.attempt == 5);
    worker_stored(&worker, slot, now_ns);
    now_ns += WORKER_BEAT_NS;
    expect(WIRE_DONE);
    CHECK_EQUAL(0, expect(WIRE_BEAT).held_count);
}

static void a_run_gets_another_name_or_is_dropped(void)
{
    struct wire_reply slots = { .kind = WIRE_SLOTS, .epoch = 2, .held_count = 1 };
    begin(1);
    uint32_t slot = run();
    now_ns += WORKER_BEAT_NS;
    struct wire_request beat = expect(WIRE_BEAT);
    slots.held[0] = beat.held[0];
    slots.held[0].run = (struct wire_run){ 2, 8, 9, { 10, 15 } };
    CHECK(worker_reply(&worker, &beat, &slots, now_ns));
    CHECK(!worker_should_drop(&worker, slot));
    slots.drops[0] = true;
    CHECK(worker_reply(&worker, &beat, &slots, now_ns));
    CHECK(worker_should_drop(&worker, slot));
    worker_stored(&worker, slot, now_ns);
    struct wire_request done = expect(WIRE_DONE);
    CHECK(done.epoch == 2 && done.held[0].run.epoch == 2 && done.held[0].run.attempt == 8);
    /* All that it ran is stored, not only what was asked for last. */
    CHECK_EQUAL(20, done.held[0].run.grains.end);
}

static void a_submitter_of_the_past_is_ignored(void)
{
    begin(1);
    struct wire_request claim = expect(WIRE_CLAIM);
    struct wire_reply reply = { .kind = WIRE_FULL, .epoch = 3 };
    worker_reply(&worker, &claim, &reply, now_ns);
    reply = run_for(&claim, 2);
    CHECK(!worker_reply(&worker, &claim, &reply, now_ns));
    reply = (struct wire_reply){ .kind = WIRE_OVER, .epoch = 2 };
    CHECK(!worker_reply(&worker, &claim, &reply, now_ns));
    reply = run_for(&claim, 3);
    CHECK(worker_reply(&worker, &claim, &reply, now_ns));
    CHECK_EQUAL(3, worker.epoch);
}

static void answers_that_make_no_sense_are_ignored(void)
{
    begin(1);
    struct wire_request claim = expect(WIRE_CLAIM);
    struct wire_reply reply = run_for(&claim, 1);
    reply.held[0].slot = 9;
    CHECK(!worker_reply(&worker, &claim, &reply, now_ns));
    reply.held[0].slot = 0;
    reply.held[0].seq++;
    CHECK(!worker_reply(&worker, &claim, &reply, now_ns));
    CHECK(!answer(&claim, WIRE_HEARD));
    CHECK(!answer(&claim, WIRE_SLOTS));
    CHECK(is_silent());
}

static void a_late_claim_is_made_anew(void)
{
    begin(1);
    struct wire_request claim = expect(WIRE_CLAIM);
    CHECK(answer(&claim, WIRE_LATE));
    CHECK_EQUAL(claim.held[0].seq + 1, expect(WIRE_CLAIM).held[0].seq);
    CHECK(!answer(&claim, WIRE_LATE));
}

static void fewer_slots_may_be_wanted(void)
{
    begin(4);
    worker_want(&worker, 1);
    expect(WIRE_CLAIM);
    CHECK(is_silent());
    worker_want(&worker, 9);
    expect(WIRE_CLAIM);
    expect(WIRE_CLAIM);
    expect(WIRE_CLAIM);
    CHECK(is_silent());
}

static void who_leaves_finishes_and_says_so(void)
{
    begin(2);
    uint32_t slot = run();
    worker_leave(&worker);
    CHECK(is_silent());
    worker_stored(&worker, slot, now_ns);
    struct wire_request done = expect(WIRE_DONE);
    CHECK(answer(&done, WIRE_HEARD));
    struct wire_request gone = expect(WIRE_GONE);
    CHECK(!worker_is_gone(&worker));
    CHECK(answer(&gone, WIRE_HEARD));
    CHECK(worker_is_gone(&worker));
    CHECK_EQUAL(UINT64_MAX, worker_due(&worker));
}

static void who_leaves_gives_back_what_comes_after(void)
{
    begin(1);
    struct wire_request claim = expect(WIRE_CLAIM);
    worker_leave(&worker);
    struct wire_reply reply = run_for(&claim, 1);
    CHECK(worker_reply(&worker, &claim, &reply, now_ns));
    struct wire_request fail = expect(WIRE_FAIL);
    CHECK(fail.class_ == WIRE_CLASS_BACK && fail.at == WIRE_NO_GRAIN);
}

static void nobody_need_hear_that_it_is_gone(void)
{
    begin(1);
    worker_leave(&worker);
    for (unsigned i = 0; i < 20 && !worker_is_gone(&worker); i++) {
        struct wire_request out;
        next(&out);
        now_ns += WORKER_REPORT_AGAIN_NS;
    }
    CHECK(worker_is_gone(&worker));
}

static void the_end_of_the_job_is_the_end(void)
{
    struct wire_reply over = { .kind = WIRE_OVER, .epoch = 1, .end = WIRE_END_FAILED };
    enum wire_end end;
    begin(2);
    uint32_t slot = run();
    struct wire_request claim = expect(WIRE_CLAIM);
    CHECK(worker_reply(&worker, &claim, &over, now_ns));
    CHECK(worker_is_over(&worker, &end) && end == WIRE_END_FAILED);
    CHECK(worker_should_drop(&worker, slot));
    CHECK(is_silent());
    CHECK_EQUAL(UINT64_MAX, worker_due(&worker));
}

static void a_hurried_worker_asks_at_once(void)
{
    struct wire_request out;
    begin(1);
    struct wire_request claim = expect(WIRE_CLAIM);
    CHECK(is_silent());
    worker_hurry(&worker, now_ns);
    CHECK_EQUAL(now_ns, worker_due(&worker));
    CHECK(next(&out) && out.kind == WIRE_CLAIM && out.held[0].seq == claim.held[0].seq);
    CHECK(next(&out) && out.kind == WIRE_BEAT);
    CHECK(!next(&out));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(each_slot_claims_and_runs),
        TEST(a_claim_without_an_answer_is_repeated),
        TEST(a_second_answer_changes_nothing),
        TEST(a_report_is_repeated_until_it_is_heard),
        TEST(a_failure_says_what_failed),
        TEST(beats_speak_of_what_is_run),
        TEST(a_run_gets_another_name_or_is_dropped),
        TEST(a_submitter_of_the_past_is_ignored),
        TEST(answers_that_make_no_sense_are_ignored),
        TEST(a_late_claim_is_made_anew),
        TEST(fewer_slots_may_be_wanted),
        TEST(who_leaves_finishes_and_says_so),
        TEST(who_leaves_gives_back_what_comes_after),
        TEST(nobody_need_hear_that_it_is_gone),
        TEST(the_end_of_the_job_is_the_end),
        TEST(a_hurried_worker_asks_at_once),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
