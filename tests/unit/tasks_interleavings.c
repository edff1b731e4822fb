/*
 * The table of tasks in every interleaving of its steps, for small cases: up to four tasks, every
 * graph among them, each task submitted step by step while all others go on. A state of the table
 * that was reached before is not gone through again, since what follows is the same; its
 * interleavings are counted all the same.
 */
#include "tasks_model.h"

#include <stdio.h>

#define TASKS_MOST 4u
#define STATES_MOST (1u << 22)

/* What may happen beside add, follow, release, take and end. */
struct liberties {
    bool may_put_back, may_doom, may_fail, may_withdraw;
    uint32_t aside; /* bits: tasks that are set aside */
};

/* How far each task has come. Its number here is not its place in the table. */
struct progress {
    uint32_t place, generation;
    uint8_t followed;   /* of its list */
    uint8_t unfollowed; /* of those, bits */
    bool is_added, is_withdrawn, is_refused, was_put_back, was_doomed;
};

static struct {
    uint32_t count, befores[TASKS_MOST][TASKS_MOST], before_count[TASKS_MOST];
    struct liberties liberties;
} plan;
static struct progress progress[TASKS_MOST];

struct moment {
    struct progress progress[TASKS_MOST];
    struct tasks table;
    unsigned char memory[512];
};
static _Alignas(64) unsigned char saved_model[32][sizeof model];

/* States that were gone through, by a hash of 128 bits, with the number of ways to the end. */
static struct seen {
    uint64_t key[2];
    double ways;
} seen[STATES_MOST];
static uint32_t seen_count, case_count; /* a case's states are its own */

static void hash(const void *data, size_t bytes, uint64_t key[2])
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word;
        memcpy(&word, at + i, 8);
        key[0] = (key[0] ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        key[0] ^= key[0] >> 29;
        key[1] = (key[1] + word) * UINT64_C(0xc2b2ae3d27d4eb4f);
        key[1] ^= key[1] >> 31;
    }
}

static struct seen *find_seen(const uint64_t key[2])
{
    uint32_t i = (uint32_t)key[0] & (STATES_MOST - 1);
    while ((seen[i].key[0] | seen[i].key[1]) != 0 &&
           (seen[i].key[0] != key[0] || seen[i].key[1] != key[1]))
        i = (i + 1) & (STATES_MOST - 1);
    return &seen[i];
}

static void save(struct moment *moment, unsigned depth)
{
    memset(moment, 0, sizeof *moment);
    memcpy(moment->progress, progress, sizeof progress);
    moment->table = table;
    memcpy(moment->memory, table_memory, sizeof moment->memory);
    CHECK(depth < sizeof saved_model / sizeof *saved_model);
    memcpy(saved_model[depth], &model, sizeof model);
}

static void restore(const struct moment *moment, unsigned depth)
{
    memcpy(progress, moment->progress, sizeof progress);
    table = moment->table;
    memcpy(table_memory, moment->memory, sizeof moment->memory);
    memcpy(&model, saved_model[depth], sizeof model);
}

/* Steps. Each does one thing to the table and the model, if it is allowed now; false if it is not. */

enum step {
    ADD,
    FOLLOW,
    RELEASE,
    REFUSE,
    UNFOLLOW_FIRST, /* one step for each entry of the list */
    UNFOLLOW_LAST = UNFOLLOW_FIRST + TASKS_MOST - 1,
    WITHDRAW,
    TAKE,
    TAKE_THIS,
    PUT_BACK,
    DOOM,
    END,
    FAIL,
    STEP_COUNT
};

/* Whether the place is still the task's, open or ended. */
static bool is_there(const struct progress *at)
{
    return at->is_added && !at->is_withdrawn &&
           tasks_find(&table, at->place, at->generation) == MUSTER_OK;
}

static bool is_draft(const struct progress *at)
{
    return is_there(at) && !model.tasks[at->place].is_released;
}

static bool has_state(const struct progress *at, enum tasks_state state)
{
    return is_there(at) && model.tasks[at->place].state == state;
}

static bool add(uint32_t number)
{
    struct progress *at = &progress[number];
    if (at->is_added || model.spare.count == 0)
        return false;
    /* With too few places those that are followed come first, or nobody could go on. */
    if (model.capacity < plan.count && number > 0 && !progress[number - 1].is_added)
        return false;
    at->is_added = true;
    at->place = step_add();
    at->generation = model.tasks[at->place].generation;
    if (plan.liberties.aside >> number & 1)
        step_set_aside(at->place);
    return true;
}

static bool follow(uint32_t number)
{
    struct progress *at = &progress[number];
    if (!is_draft(at) || at->is_refused || at->followed == plan.before_count[number])
        return false;
    const struct progress *before = &progress[plan.befores[number][at->followed]];
    bool is_gone = before->is_withdrawn || (before->is_added && !is_there(before));
    if (!is_gone && (!before->is_added || !model.tasks[before->place].is_released))
        return false;
    if (!is_gone && !step_follow(at->place, before->place))
        at->is_refused = true;
    else
        at->followed++;
    return true;
}

static bool unfollow(uint32_t number, uint32_t which)
{
    struct progress *at = &progress[number];
    if (!at->is_refused || at->is_withdrawn || which >= at->followed ||
        (at->unfollowed >> which & 1))
        return false;
    at->unfollowed |= (uint8_t)(1u << which);
    const struct progress *before = &progress[plan.befores[number][which]];
    if (is_there(before))
        step_unfollow(at->place, before->place);
    return true;
}

static bool release(uint32_t number)
{
    const struct progress *at = &progress[number];
    if (!is_draft(at) || at->is_refused || at->followed < plan.before_count[number])
        return false;
    step_release(at->place);
    return true;
}

static bool refuse(uint32_t number)
{
    if (!plan.liberties.may_withdraw || !is_draft(&progress[number]) || progress[number].is_refused)
        return false;
    return progress[number].is_refused = true;
}

/* One that was not released, when it follows nobody any more; or one that was, at once. */
static bool withdraw(uint32_t number)
{
    struct progress *at = &progress[number];
    bool is_whole = at->unfollowed + 1u == 1u << at->followed;
    if (is_draft(at)) {
        if (!at->is_refused || !is_whole)
            return false;
    } else {
        if (!plan.liberties.may_withdraw ||
            (!has_state(at, TASKS_READY) && !has_state(at, TASKS_WAITING)) ||
            model.tasks[at->place].followers.count > 0)
            return false;
        at->is_refused = true;
        for (uint32_t i = 0; i < at->followed; i++)
            unfollow(number, i);
    }
    step_withdraw(at->place);
    return at->is_withdrawn = true;
}

static bool take(uint32_t number)
{
    const struct progress *at = &progress[number];
    bool is_aside = is_there(at) && model.tasks[at->place].is_aside;
    const struct model_list *list = is_aside ? &model.aside : &model.ready;
    uint32_t out;
    if (!has_state(at, TASKS_READY) || list->at[0] != at->place)
        return false;
    return step_take(is_aside, 1, &out) == 1;
}

static bool take_this(uint32_t number)
{
    const struct progress *at = &progress[number];
    if (!has_state(at, TASKS_READY) ||
        (model.tasks[at->place].is_aside ? &model.aside : &model.ready)->at[0] == at->place)
        return false;
    step_take_this(at->place);
    return true;
}

static bool put_back(uint32_t number)
{
    struct progress *at = &progress[number];
    if (!plan.liberties.may_put_back || at->was_put_back || !has_state(at, TASKS_TAKEN))
        return false;
    step_put_back(at->place);
    return at->was_put_back = true;
}

static bool doom(uint32_t number)
{
    struct progress *at = &progress[number];
    if (!plan.liberties.may_doom || at->was_doomed || !has_state(at, TASKS_WAITING))
        return false;
    step_doom(at->place);
    return at->was_doomed = true;
}

static bool end(uint32_t number, muster_status status)
{
    if ((status != MUSTER_OK && !plan.liberties.may_fail) ||
        !has_state(&progress[number], TASKS_TAKEN))
        return false;
    step_end(progress[number].place, status);
    return true;
}

static bool do_step(enum step step, uint32_t number)
{
    switch (step) {
    case ADD:
        return add(number);
    case FOLLOW:
        return follow(number);
    case RELEASE:
        return release(number);
    case REFUSE:
        return refuse(number);
    case WITHDRAW:
        return withdraw(number);
    case TAKE:
        return take(number);
    case TAKE_THIS:
        return take_this(number);
    case PUT_BACK:
        return put_back(number);
    case DOOM:
        return doom(number);
    case END:
        return end(number, MUSTER_OK);
    case FAIL:
        return end(number, MUSTER_E_FAILED);
    default:
        return unfollow(number, step - UNFOLLOW_FIRST);
    }
}

static void check_all_ended(void)
{
    for (uint32_t i = 0; i < plan.count; i++)
        CHECK(progress[i].is_withdrawn || (progress[i].is_added && !is_draft(&progress[i])));
    CHECK_EQUAL(0, table.open_count);
    CHECK_EQUAL(table.edge_capacity, table.free_edge_count);
}

/* In how many ways it can go on from here to the end. */
static double go_on(unsigned depth)
{
    struct moment moment;
    uint64_t key[2] = { case_count, case_count };
    double ways = 0;
    save(&moment, depth);
    hash(&moment, sizeof moment, key);
    struct seen *place = find_seen(key);
    if (place->ways > 0)
        return place->ways;
    bool is_over = true;
    for (uint32_t number = 0; number < plan.count; number++)
        for (enum step step = 0; step < STEP_COUNT; step++)
            if (do_step(step, number)) {
                is_over = false;
                compare();
                ways += go_on(depth + 1);
                restore(&moment, depth);
            }
    if (is_over) {
        check_all_ended();
        ways = 1;
    }
    CHECK(++seen_count < STATES_MOST / 4 * 3);
    place = find_seen(key);
    memcpy(place->key, key, sizeof key);
    place->ways = ways;
    return ways;
}
_Static_assert(sizeof(struct moment) % 8 == 0, "hashed in words");

/* Every graph over this many tasks, each after some of those before it; bit by bit in `graph`. */
static void plan_graph(uint32_t count, uint32_t graph, struct liberties liberties)
{
    memset(&plan, 0, sizeof plan);
    memset(progress, 0, sizeof progress);
    plan.count = count;
    plan.liberties = liberties;
    for (uint32_t task = 1; task < count; task++)
        for (uint32_t before = 0; before < task; before++, graph >>= 1)
            if (graph & 1)
                plan.befores[task][plan.before_count[task]++] = before;
}

static uint32_t edges_of_plan(void)
{
    uint32_t edges = 0;
    for (uint32_t i = 0; i < plan.count; i++)
        edges += plan.before_count[i];
    return edges;
}

/* One graph, with this many `places` and `edges` fewer than it could use at once. */
static double go_through(uint32_t count, uint32_t graph, struct liberties liberties,
                         uint32_t places, uint32_t edges)
{
    plan_graph(count, graph, liberties);
    if (edges > edges_of_plan())
        return 0;
    model_init(count - places, edges_of_plan() - edges);
    CHECK(tasks_bytes(count, edges_of_plan()) <= sizeof((struct moment *)0)->memory);
    if (case_count++ > 0 && seen_count > STATES_MOST / 4) {
        memset(seen, 0, sizeof seen);
        seen_count = 0;
    }
    compare();
    return go_on(0);
}

static double go_through_all(uint32_t count, struct liberties liberties, uint32_t places,
                             uint32_t edges)
{
    double ways = 0;
    for (uint32_t graph = 0; graph < 1u << count * (count - 1) / 2; graph++)
        ways += go_through(count, graph, liberties, places, edges);
    return ways;
}

static const struct liberties strict, free_to_fail = { .may_fail = true },
                                      free_to_withdraw = { .may_withdraw = true },
                                      free_to_return = { .may_put_back = true, .may_doom = true },
                                      unbound = { true, true, true, true, .aside = 2 };

/* The more than a minute that all of it takes is for those who ask to repeat. */
static bool is_long(void)
{
    return test_repetitions(1) > 1;
}

static void tell(double ways)
{
    printf("    %.0f interleavings\n", ways);
}

static void two_tasks_in_every_way(void)
{
    double ways = 0;
    for (uint32_t edges = 0; edges < 2; edges++)
        for (uint32_t places = 0; places < 2; places++)
            ways += go_through_all(2, unbound, places, edges);
    tell(ways);
}

static void three_tasks_in_every_graph(void)
{
    tell(go_through_all(3, strict, 0, 0) + go_through_all(3, strict, 1, 0) +
         go_through_all(3, free_to_fail, 0, 0) +
         (is_long() ? go_through_all(3, free_to_return, 0, 0) : 0));
}

/* The second one is for others to run. */
static void three_tasks_of_which_one_is_aside(void)
{
    struct liberties liberties = free_to_fail;
    liberties.aside = 2;
    tell(go_through_all(3, liberties, 0, 0));
}

static void three_tasks_that_may_be_refused(void)
{
    tell(go_through_all(3, free_to_withdraw, 0, 0) + go_through_all(3, free_to_withdraw, 1, 0) +
         go_through_all(3, free_to_withdraw, 0, 1));
}

/* One after two others, with everything that may happen meanwhile. */
static void a_task_after_two_others_in_every_way(void)
{
    tell(is_long() ? go_through_all(3, unbound, 0, 0)
                   : go_through(3, 6, (struct liberties){ .may_put_back = true }, 0, 0));
}

/* Of 64 graphs that in which the last is after all others, or all of them. */
static void a_task_after_three_others(void)
{
    tell(is_long() ? go_through_all(4, strict, 0, 0) + go_through_all(4, strict, 1, 1)
                   : go_through(4, 7u << 3, strict, 0, 0));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(two_tasks_in_every_way),
                                         TEST(three_tasks_in_every_graph),
                                         TEST(three_tasks_of_which_one_is_aside),
                                         TEST(three_tasks_that_may_be_refused),
                                         TEST(a_task_after_two_others_in_every_way),
                                         TEST(a_task_after_three_others) };
    /* There is one thread, in which ThreadSanitizer sees nothing: it gets the first ones. */
    enum { ALL = sizeof tests / sizeof *tests };
    return test_main(argc, argv, tests, TEST_BY_SANITIZER(ALL, ALL, 2));
}
