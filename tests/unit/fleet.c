/*
 * The submitter's side: claims and their answers, reports and which of them count, workers that come, go and
 * fall silent, submitters that follow each other, and results on their way out.
 */
#include "core/fleet/fleet.h"

#include "base/random.h"
#include "support.h"

static _Alignas(64) char memory[1 << 20], later_memory[1 << 20];
static struct fleet *fleet;
static uint64_t now_ns;
static struct fleet_reply reply;

static struct fleet_options plain(uint64_t grains)
{
    return (struct fleet_options){
        .grains = grains, .lane_count = 4, .slots = 2, .tries = 3, .epoch = 1
    };
}

static void check_sound(void)
{
    const char *broken = fleet_check(fleet);
    if (broken)
        test_fail(__FILE__, __LINE__, "%s", broken);
}

static void begin(struct fleet_options options)
{
    size_t bytes = fleet_bytes(&options);
    CHECK(bytes > 0 && bytes <= sizeof memory);
    now_ns = SECOND;
    fleet = fleet_init(memory, &options, now_ns);
    check_sound();
}

/* A submitter that goes on; now_ns is when it gives out work. */
static void resume(struct fleet_options options)
{
    CHECK(fleet_bytes(&options) <= sizeof later_memory);
    fleet = fleet_init(later_memory, &options, now_ns);
    check_sound();
}

static enum fleet_answer send(struct wire_request request)
{
    enum fleet_answer answer = fleet_request(fleet, &request, now_ns, &reply);
    check_sound();
    return answer;
}

static struct wire_request request_of(enum wire_request_kind kind, uint64_t worker)
{
    return (struct wire_request){ .kind = kind, .worker = worker, .at = WIRE_NO_GRAIN };
}

static enum fleet_answer claim(uint64_t worker, uint32_t slot, uint64_t seq)
{
    struct wire_request request = request_of(WIRE_CLAIM, worker);
    request.held[0] = (struct wire_held){ .slot = slot, .seq = seq };
    request.held_count = 1;
    return send(request);
}

/* The claim is answered with a run, which it gives. */
static struct wire_held get(uint64_t worker, uint32_t slot, uint64_t seq)
{
    CHECK_EQUAL(FLEET_ANSWERED, claim(worker, slot, seq));
    CHECK_EQUAL(WIRE_RUN, reply.reply.kind);
    CHECK(reply.reply.held[0].slot == slot && reply.reply.held[0].seq == seq);
    return reply.reply.held[0];
}

static enum fleet_answer report(enum wire_request_kind kind, uint64_t worker, struct wire_held held)
{
    struct wire_request request = request_of(kind, worker);
    request.held[0] = held;
    request.held_count = 1;
    return send(request);
}

static void done(uint64_t worker, struct wire_held held)
{
    CHECK_EQUAL(FLEET_ANSWERED, report(WIRE_DONE, worker, held));
    CHECK_EQUAL(WIRE_HEARD, reply.reply.kind);
}

static void fail(uint64_t worker, struct wire_held held, enum wire_class class_, uint64_t at)
{
    struct wire_request request = request_of(WIRE_FAIL, worker);
    request.held[0] = held;
    request.held_count = 1;
    request.class_ = class_;
    request.at = at;
    CHECK_EQUAL(FLEET_ANSWERED, send(request));
    CHECK_EQUAL(WIRE_HEARD, reply.reply.kind);
}

/* A beat that speaks of one run; gives the answer. */
static struct wire_reply beat(uint64_t worker, const struct wire_held *held)
{
    struct wire_request request = request_of(WIRE_BEAT, worker);
    if (held)
        request.held[request.held_count++] = *held;
    CHECK_EQUAL(FLEET_ANSWERED, send(request));
    CHECK_EQUAL(WIRE_SLOTS, reply.reply.kind);
    return reply.reply;
}

static struct fleet_counts counts(void)
{
    struct fleet_counts out;
    fleet_counts(fleet, &out);
    return out;
}

/* All that is reported as stored leaves; gives how many grains. */
static uint64_t deliver(void)
{
    struct muster_range grains;
    uint64_t count = 0;
    while (fleet_next_result(fleet, &grains)) {
        count += grains.end - grains.begin;
        fleet_delivered(fleet, grains.end - grains.begin, now_ns);
        check_sound();
    }
    return count;
}

/* The worker runs all there is on slot 0; gives the SEQ after. */
static uint64_t run_all(uint64_t worker, uint64_t seq)
{
    while (fleet_state(fleet) == FLEET_RUNNING && claim(worker, 0, seq) == FLEET_ANSWERED) {
        struct wire_held held = reply.reply.held[0];
        CHECK_EQUAL(WIRE_RUN, reply.reply.kind);
        now_ns += MS;
        done(worker, held);
        deliver();
        seq++;
    }
    return seq;
}

/* Claims. */

static void a_job_is_run_from_the_first_grain_to_the_last(void)
{
    begin(plain(1000));
    run_all(7, 1);
    CHECK_EQUAL(FLEET_DONE, fleet_state(fleet));
    CHECK_EQUAL(1000, fleet_delivered_until(fleet));
    CHECK_EQUAL(FLEET_ANSWERED, claim(7, 0, 99));
    CHECK(reply.reply.kind == WIRE_OVER && reply.reply.end == WIRE_END_DONE);
}

static void the_same_claim_gets_the_same_answer(void)
{
    begin(plain(1000));
    struct wire_held first = get(7, 0, 1), again = get(7, 0, 1), other = get(7, 1, 1);
    CHECK_EQUAL(first.run.attempt, again.run.attempt);
    CHECK_EQUAL(first.run.generation, again.run.generation);
    CHECK_EQUAL(first.run.grains.begin, again.run.grains.begin);
    CHECK_EQUAL(first.run.grains.end, again.run.grains.end);
    CHECK(other.run.grains.begin >= first.run.grains.end);
    CHECK_EQUAL(1, counts().repeats);
    CHECK_EQUAL(2, counts().claims);
}

static void a_claim_that_was_answered_long_ago_is_late(void)
{
    begin(plain(1000));
    struct wire_held first = get(7, 0, 1);
    done(7, first);
    CHECK_EQUAL(FLEET_ANSWERED, claim(7, 0, 1));
    CHECK_EQUAL(WIRE_LATE, reply.reply.kind);
    get(7, 0, 2);
    CHECK_EQUAL(FLEET_ANSWERED, claim(7, 0, 1));
    CHECK_EQUAL(WIRE_LATE, reply.reply.kind);
}

/* Its answer was lost, and the worker has given up to wait for it. */
static void a_later_claim_gives_back_what_the_earlier_got(void)
{
    begin(plain(1000));
    struct wire_held first = get(7, 0, 1), next = get(7, 0, 3);
    CHECK_EQUAL(first.run.grains.begin, next.run.grains.begin);
    CHECK_EQUAL(0, fleet_retries(fleet));
}

static void a_claim_without_work_waits_for_it(void)
{
    struct fleet_reply answer;
    begin(plain(1));
    struct wire_held only = get(7, 0, 1);
    CHECK_EQUAL(FLEET_PARKED, claim(8, 0, 1));
    uint32_t place = reply.place;
    CHECK_EQUAL(FLEET_PARKED, claim(8, 0, 1));
    CHECK_EQUAL(place, reply.place);
    CHECK(!fleet_next_reply(fleet, now_ns, &answer));
    fail(7, only, WIRE_CLASS_UNIT, WIRE_NO_GRAIN);
    CHECK(fleet_next_reply(fleet, now_ns, &answer));
    CHECK_EQUAL(place, answer.place);
    CHECK(answer.reply.kind == WIRE_RUN && answer.reply.held[0].seq == 1);
    CHECK(!fleet_next_reply(fleet, now_ns, &answer));
    check_sound();
}

static void claims_that_wait_hear_of_the_end(void)
{
    struct fleet_reply answer;
    begin(plain(1));
    struct wire_held only = get(7, 0, 1);
    CHECK_EQUAL(FLEET_PARKED, claim(8, 0, 1));
    done(7, only);
    CHECK_EQUAL(1, deliver());
    CHECK(fleet_next_reply(fleet, now_ns, &answer));
    CHECK(answer.reply.kind == WIRE_OVER && answer.reply.end == WIRE_END_DONE);
    CHECK(!fleet_next_reply(fleet, now_ns, &answer));
}

static void there_is_room_for_so_many_workers(void)
{
    begin(plain(1000));
    for (uint64_t worker = 1; worker <= 4; worker++)
        get(worker, 0, 1);
    CHECK_EQUAL(FLEET_ANSWERED, claim(5, 0, 1));
    CHECK_EQUAL(WIRE_FULL, reply.reply.kind);
    CHECK_EQUAL(FLEET_ANSWERED, send(request_of(WIRE_GONE, 2)));
    CHECK_EQUAL(WIRE_HEARD, reply.reply.kind);
    get(5, 0, 1);
    CHECK_EQUAL(4, fleet_workers(fleet));
}

static void requests_that_make_no_sense_have_no_answer(void)
{
    struct wire_held held = { 0, 1, { 1, 0, 1, { 0, 1001 } } };
    begin(plain(1000));
    CHECK_EQUAL(FLEET_SILENT, claim(7, 2, 1));
    CHECK_EQUAL(FLEET_SILENT, report(WIRE_DONE, 7, held));
    held.run.grains.end = 1000;
    held.run.epoch = 2;
    CHECK_EQUAL(FLEET_SILENT, report(WIRE_DONE, 7, held));
    CHECK_EQUAL(3, counts().refused);
    CHECK_EQUAL(0, fleet_workers(fleet));
}

/* Reports. */

static void a_report_counts_with_its_ticket_alone(void)
{
    begin(plain(1000));
    struct wire_held held = get(7, 0, 1), forged = held;
    forged.run.generation++;
    forged.run.grains = (struct muster_range){ 500, 501 };
    done(7, forged);
    CHECK_EQUAL(1, counts().late);
    CHECK_EQUAL(0, deliver());
    /* Another worker's slot is another place. */
    done(8, held);
    CHECK_EQUAL(0, deliver());
    done(7, held);
    CHECK_EQUAL(1, deliver());
    done(7, held);
    CHECK_EQUAL(0, deliver());
}

static void the_grain_that_fails_is_named(void)
{
    struct fleet_failure failure;
    struct fleet_options options = plain(1);
    begin(options);
    for (uint64_t i = 1; i <= 3; i++) {
        now_ns += SECOND;
        fleet_look(fleet, now_ns);
        fail(7, get(7, 0, i), WIRE_CLASS_STORE, 0);
    }
    CHECK_EQUAL(FLEET_FAILED, fleet_state(fleet));
    fleet_failure(fleet, &failure);
    CHECK(failure.grains.begin == 0 && failure.grains.end == 1);
    CHECK(failure.worker == 7 && failure.class_ == WIRE_CLASS_STORE && !failure.is_loss);
    CHECK_EQUAL(FLEET_ANSWERED, claim(7, 0, 9));
    CHECK(reply.reply.kind == WIRE_OVER && reply.reply.end == WIRE_END_FAILED);
}

static void what_is_not_the_grains_fault_costs_no_try(void)
{
    begin(plain(1));
    for (uint64_t i = 1; i <= 20; i++)
        fail(7, get(7, 0, i), i % 2 ? WIRE_CLASS_BACK : WIRE_CLASS_MEMORY, WIRE_NO_GRAIN);
    CHECK_EQUAL(FLEET_RUNNING, fleet_state(fleet));
}

/* Silence. */

static void a_silent_worker_is_lost_and_its_work_done_elsewhere(void)
{
    begin(plain(1));
    get(7, 0, 1);
    for (unsigned i = 0; i < 6; i++) {
        now_ns += SECOND / 2;
        CHECK_EQUAL(FLEET_RUNNING, fleet_state(fleet));
        beat(8, NULL);
        fleet_look(fleet, now_ns);
    }
    CHECK_EQUAL(1, counts().lost);
    CHECK_EQUAL(1, fleet_workers(fleet));
    struct wire_held held = get(8, 0, 1);
    done(8, held);
    CHECK_EQUAL(1, deliver());
}

static void the_look_is_due_when_a_worker_is_to_be_lost(void)
{
    begin(plain(1));
    get(7, 0, 1);
    for (unsigned i = 0; i < 5; i++) {
        now_ns += SECOND / 2;
        beat(8, NULL);
    }
    CHECK_EQUAL(now_ns + SECOND / 2, fleet_look_due(fleet));
}

static void nobody_is_lost_while_the_link_is_down(void)
{
    begin(plain(1));
    get(7, 0, 1);
    beat(8, NULL);
    fleet_link(fleet, false, now_ns);
    now_ns += 100 * SECOND;
    fleet_look(fleet, now_ns);
    fleet_link(fleet, true, now_ns);
    now_ns += 2 * SECOND;
    fleet_look(fleet, now_ns);
    CHECK_EQUAL(0, counts().lost);
}

static void a_worker_that_was_lost_reports_what_it_did(void)
{
    begin(plain(100));
    struct wire_held held = get(7, 0, 1);
    for (unsigned i = 0; i < 6; i++) {
        now_ns += SECOND / 2;
        beat(8, NULL);
        fleet_look(fleet, now_ns);
    }
    CHECK_EQUAL(1, counts().lost);
    /* All its grains are stored: that no worker has to do them again, or another was slower. */
    done(7, held);
    CHECK_EQUAL(FLEET_ANSWERED, claim(8, 0, 1));
    CHECK(reply.reply.held[0].run.grains.begin != held.run.grains.begin);
}

static void a_worker_that_was_lost_goes_on_with_what_nobody_took(void)
{
    begin(plain(1));
    struct wire_held held = get(7, 0, 1);
    fleet_link(fleet, true, now_ns);
    CHECK_EQUAL(FLEET_ANSWERED, send(request_of(WIRE_GONE, 7)));
    struct wire_reply told = beat(7, &held);
    CHECK(told.held_count == 1 && !told.drops[0]);
    CHECK(told.held[0].run.generation != held.run.generation);
    CHECK_EQUAL(1, counts().adopted);
    /* The answer was lost: it is told again, and may report under either name. */
    CHECK_EQUAL(told.held[0].run.generation, beat(7, &held).held[0].run.generation);
    CHECK_EQUAL(1, counts().adopted);
    done(7, held);
    CHECK_EQUAL(1, deliver());
}

/* Beats. */

static void a_beat_of_what_is_wanted_has_nothing_to_tell(void)
{
    begin(plain(100));
    struct wire_held held = get(7, 0, 1);
    CHECK_EQUAL(0, beat(7, &held).held_count);
}

static void what_nobody_wants_is_to_be_dropped(void)
{
    begin(plain(1));
    struct wire_held held = get(7, 0, 1), other = held;
    other.run.generation += 5;
    struct wire_reply told = beat(8, &other);
    CHECK(told.held_count == 1 && told.drops[0] && told.held[0].seq == 1);
}

static void an_old_beat_drops_nothing(void)
{
    begin(plain(100));
    struct wire_held first = get(7, 0, 1);
    done(7, first);
    struct wire_held next = get(7, 0, 2);
    CHECK_EQUAL(0, beat(7, &first).held_count);
    CHECK_EQUAL(0, beat(7, &next).held_count);
}

static void a_run_that_no_beat_speaks_of_is_anybodys(void)
{
    begin(plain(1));
    get(7, 0, 1);
    CHECK_EQUAL(FLEET_PARKED, claim(8, 0, 1));
    for (unsigned i = 0; i < FLEET_BEATS_MISSED; i++) {
        CHECK_EQUAL(FLEET_PARKED, claim(8, 0, 1));
        beat(7, NULL);
    }
    get(8, 0, 1);
}

/* Epochs. */

static void a_later_submitter_adopts_what_workers_hold(void)
{
    struct fleet_options options = plain(100);
    begin(options);
    struct wire_held a = get(7, 0, 1), b = get(8, 0, 1);
    options.epoch = 2;
    resume(options);
    /* It waits for beats before it gives anything out. */
    CHECK_EQUAL(FLEET_PARKED, claim(9, 0, 1));
    struct wire_reply told = beat(7, &a);
    CHECK(told.held_count == 1 && !told.drops[0] && told.held[0].run.epoch == 2);
    a.run = told.held[0].run;
    CHECK_EQUAL(now_ns + FLEET_GATHER_NS, fleet_look_due(fleet));
    now_ns += FLEET_GATHER_NS;
    fleet_look(fleet, now_ns);
    struct fleet_reply answer;
    CHECK(fleet_next_reply(fleet, now_ns, &answer));
    /* Worker 8 has not been heard, and its grain is given out again. */
    CHECK_EQUAL(b.run.grains.begin, answer.reply.held[0].run.grains.begin);
    CHECK(beat(8, &b).drops[0]);
    done(7, a);
    CHECK_EQUAL(1, deliver());
}

static void a_report_for_an_earlier_submitter_spares_the_work(void)
{
    struct fleet_options options = plain(2);
    begin(options);
    struct wire_held held = get(7, 0, 1);
    options.epoch = 2;
    resume(options);
    done(7, held);
    now_ns += FLEET_GATHER_NS;
    fleet_look(fleet, now_ns);
    CHECK_EQUAL(1, get(7, 0, 2).run.grains.begin);
    CHECK_EQUAL(1, deliver());
}

/* Both number their tickets from the same one on. */
static void a_ticket_of_an_earlier_submitter_is_another(void)
{
    struct fleet_options options = plain(100);
    begin(options);
    struct wire_held earlier = get(7, 0, 1);
    options.epoch = 2;
    options.begin = 50;
    resume(options);
    now_ns += FLEET_GATHER_NS;
    fleet_look(fleet, now_ns);
    struct wire_held later = get(7, 0, 1);
    CHECK_EQUAL(earlier.run.attempt, later.run.attempt);
    CHECK_EQUAL(earlier.run.generation, later.run.generation);
    done(7, earlier);
    CHECK_EQUAL(0, deliver());
    done(7, later);
    CHECK_EQUAL(1, deliver());
}

static void a_later_submitter_goes_on_where_the_output_ends(void)
{
    struct fleet_options options = plain(100);
    options.begin = 40;
    options.epoch = 3;
    begin(options);
    fleet_note_stored(fleet, (struct muster_range){ 0, 60 }, now_ns);
    fleet_note_stored(fleet, (struct muster_range){ 90, 100 }, now_ns);
    check_sound();
    CHECK_EQUAL(20, deliver());
    now_ns += FLEET_GATHER_NS;
    fleet_look(fleet, now_ns);
    run_all(7, 1);
    CHECK_EQUAL(FLEET_DONE, fleet_state(fleet));
}

static void an_older_submitter_hears_of_a_newer_one(void)
{
    begin(plain(100));
    struct wire_request request = request_of(WIRE_BEAT, 7);
    request.epoch = 5;
    CHECK_EQUAL(0, fleet_epoch_told(fleet));
    CHECK_EQUAL(FLEET_SILENT, send(request));
    CHECK_EQUAL(5, fleet_epoch_told(fleet));
    /* A message alone proves nothing. */
    CHECK_EQUAL(FLEET_RUNNING, fleet_state(fleet));
    get(7, 0, 1);
    fleet_supersede(fleet);
    CHECK_EQUAL(FLEET_SUPERSEDED, fleet_state(fleet));
    CHECK_EQUAL(FLEET_SILENT, claim(7, 0, 2));
    CHECK_EQUAL(UINT64_MAX, fleet_look_due(fleet));
}

/* Results. */

static void a_result_that_vanished_is_run_again(void)
{
    struct muster_range grains;
    begin(plain(3));
    done(7, get(7, 0, 1));
    CHECK(fleet_next_result(fleet, &grains));
    fleet_missing(fleet, grains.end - grains.begin, now_ns);
    check_sound();
    CHECK_EQUAL(0, deliver());
    CHECK_EQUAL(0, get(7, 0, 2).run.grains.begin);
    CHECK_EQUAL(1, counts().missing);
}

static void the_window_holds_back_what_is_not_delivered(void)
{
    struct fleet_options options = plain(100);
    options.window = 3;
    begin(options);
    for (uint64_t i = 1; i <= 3; i++)
        done(7, get(7, 0, i));
    CHECK_EQUAL(3, fleet_window_used(fleet));
    CHECK_EQUAL(FLEET_PARKED, claim(7, 0, 4));
    CHECK_EQUAL(3, deliver());
    struct fleet_reply answer;
    CHECK(fleet_next_reply(fleet, now_ns, &answer));
}

static void a_job_can_be_ended_from_outside(void)
{
    begin(plain(100));
    get(7, 0, 1);
    fleet_cancel(fleet);
    CHECK_EQUAL(FLEET_CANCELLED, fleet_state(fleet));
    CHECK_EQUAL(FLEET_ANSWERED, claim(7, 1, 1));
    CHECK(reply.reply.kind == WIRE_OVER && reply.reply.end == WIRE_END_CANCELLED);
    begin(plain(100));
    get(7, 0, 1);
    fleet_fail(fleet);
    CHECK_EQUAL(FLEET_FAILED, fleet_state(fleet));
}

static void options_that_make_no_sense_are_refused(void)
{
    const struct fleet_options good = plain(10);
    struct fleet_options bad[9];
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        bad[i] = good;
    bad[0].grains = 0;
    bad[1].grains = GRAINS_MAX + 1;
    bad[2].begin = 11;
    bad[3].lane_count = 0;
    bad[4].lane_count = FLEET_LANES_MAX + 1;
    bad[5].slots = 0;
    bad[6].slots = WIRE_SLOTS_MAX + 1;
    bad[7].tries = 0;
    bad[8].epoch = 0;
    CHECK(fleet_bytes(&good) > 0);
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        CHECK_EQUAL(0, fleet_bytes(&bad[i]));
}

/* Any request at any time: nothing breaks. */
static void random_requests_break_nothing(void)
{
    struct random random;
    struct wire_held given[64] = { { 0 } };
    struct fleet_reply answer;
    uint32_t given_count = 0;
    random_init(&random, test_seed());
    struct fleet_options options = plain(300);
    options.window = 50;
    begin(options);
    for (unsigned i = 0; i < 20000; i++) {
        struct wire_request request =
            request_of((enum wire_request_kind)random_below(&random, WIRE_REQUEST_KINDS),
                       1 + random_below(&random, 6));
        request.held_count = request.kind == WIRE_GONE ? 0 : 1;
        request.held[0] = given_count > 0 ? given[random_below(&random, given_count)]
                                          : (struct wire_held){ 0, 1, { 1, 0, 0, { 0, 1 } } };
        if (random_below(&random, 3) == 0) {
            uint64_t from = random_below(&random, 300);
            request.held[0].seq = random_below(&random, 50);
            request.held[0].slot = (uint32_t)random_below(&random, 2);
            request.held[0].run.grains =
                (struct muster_range){ from, from + 1 + random_below(&random, 300 - from) };
        }
        if (request.kind == WIRE_CLAIM)
            request.held[0].seq = i / 8;
        request.class_ = random_below(&random, 2) ? WIRE_CLASS_BACK : WIRE_CLASS_MEMORY;
        now_ns += random_below(&random, SECOND / 8);
        fleet_look(fleet, now_ns);
        if (send(request) == FLEET_ANSWERED && reply.reply.kind == WIRE_RUN)
            given[given_count < 64 ? given_count++ : random_below(&random, 64)] =
                reply.reply.held[0];
        while (fleet_next_reply(fleet, now_ns, &answer))
            check_sound();
        struct muster_range grains;
        if (random_below(&random, 4) == 0 && fleet_next_result(fleet, &grains))
            random_below(&random, 2) ? fleet_delivered(fleet, 1, now_ns)
                                     : fleet_missing(fleet, 1, now_ns);
        check_sound();
        if (fleet_state(fleet) != FLEET_RUNNING)
            begin(options);
    }
}

static void deliver_unchecked(void)
{
    struct muster_range grains;
    while (fleet_next_result(fleet, &grains))
        fleet_delivered(fleet, grains.end - grains.begin, now_ns);
}

/* What a claim costs does not depend on how many workers there are: a measure, and a generous limit. */
static void a_thousand_workers_cost_no_more_than_ten(void)
{
    double ns[2];
    for (unsigned k = 0; k < 2; k++) {
        struct fleet_options options = plain(2000000);
        uint64_t workers = k == 0 ? 10 : 1000, rounds = k == 0 ? 20000 : 200;
        struct timespec begin_time, end_time;
        options.lane_count = (uint32_t)workers;
        options.unit_ns = 1;
        void *room = aligned_alloc(64, (fleet_bytes(&options) + 63) & ~(size_t)63);
        CHECK(room);
        now_ns = SECOND;
        fleet = fleet_init(room, &options, now_ns);
        clock_gettime(CLOCK_MONOTONIC, &begin_time);
        for (uint64_t i = 0; i < rounds; i++)
            for (uint64_t worker = 1; worker <= workers; worker++) {
                struct wire_request request = request_of(WIRE_CLAIM, worker);
                request.held[0].seq = i + 1;
                request.held_count = 1;
                now_ns += 1000 + worker % 100;
                if (fleet_request(fleet, &request, now_ns, &reply) != FLEET_ANSWERED)
                    continue;
                request.kind = WIRE_DONE;
                request.held[0] = reply.reply.held[0];
                fleet_request(fleet, &request, now_ns + 500, &reply);
                deliver_unchecked();
            }
        clock_gettime(CLOCK_MONOTONIC, &end_time);
        CHECK(fleet_state(fleet) == FLEET_RUNNING);
        ns[k] = ((double)(end_time.tv_sec - begin_time.tv_sec) * 1e9 +
                 (double)(end_time.tv_nsec - begin_time.tv_nsec)) /
                (double)(rounds * workers);
        printf("    %llu workers: %.0f ns for a claim and its report\n",
               (unsigned long long)workers, ns[k]);
        free(room);
    }
    CHECK(ns[1] < 20 * ns[0] + 100000);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_job_is_run_from_the_first_grain_to_the_last),
        TEST(the_same_claim_gets_the_same_answer),
        TEST(a_claim_that_was_answered_long_ago_is_late),
        TEST(a_later_claim_gives_back_what_the_earlier_got),
        TEST(a_claim_without_work_waits_for_it),
        TEST(claims_that_wait_hear_of_the_end),
        TEST(there_is_room_for_so_many_workers),
        TEST(requests_that_make_no_sense_have_no_answer),
        TEST(a_report_counts_with_its_ticket_alone),
        TEST(the_grain_that_fails_is_named),
        TEST(what_is_not_the_grains_fault_costs_no_try),
        TEST(a_silent_worker_is_lost_and_its_work_done_elsewhere),
        TEST(the_look_is_due_when_a_worker_is_to_be_lost),
        TEST(nobody_is_lost_while_the_link_is_down),
        TEST(a_worker_that_was_lost_reports_what_it_did),
        TEST(a_worker_that_was_lost_goes_on_with_what_nobody_took),
        TEST(a_beat_of_what_is_wanted_has_nothing_to_tell),
        TEST(what_nobody_wants_is_to_be_dropped),
        TEST(an_old_beat_drops_nothing),
        TEST(a_run_that_no_beat_speaks_of_is_anybodys),
        TEST(a_later_submitter_adopts_what_workers_hold),
        TEST(a_report_for_an_earlier_submitter_spares_the_work),
        TEST(a_ticket_of_an_earlier_submitter_is_another),
        TEST(a_later_submitter_goes_on_where_the_output_ends),
        TEST(an_older_submitter_hears_of_a_newer_one),
        TEST(a_result_that_vanished_is_run_again),
        TEST(the_window_holds_back_what_is_not_delivered),
        TEST(a_job_can_be_ended_from_outside),
        TEST(options_that_make_no_sense_are_refused),
        TEST(random_requests_break_nothing),
        TEST(a_thousand_workers_cost_no_more_than_ten),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
