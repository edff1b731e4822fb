/*
 * Tasks in a lane's ring as the pure part sees them: what is let pass stays in its arrays and ends, whatever the
 * bytes are. Random changes are made to bodies that are right; what passes is run, and touches all that
 * it may, in memory that ends where the blocks do.
 */
#include "support.h"

#include "core/resident.h"

enum { VALUE, BLOCK, DATA, OPERANDS };
#define BLOCK_BYTES 160u
#define DATA_ITEMS 12u

static _Alignas(64) unsigned char body[RESIDENT_BODY_MAX];
static unsigned char *memory; /* of the block, from the heap: a sanitizer knows its end */
static struct resident_block blocks[4];
static struct resident_opcode opcodes[2];
static const struct resident_table table = { opcodes, 2, blocks, 4 };

static struct resident_head *head(void)
{
    return (struct resident_head *)body;
}
static struct resident_step *step(size_t i)
{
    return (struct resident_step *)(body + sizeof(struct resident_head)) + i;
}
static struct resident_operand *operand(size_t i)
{
    return resident_operands(body) + i;
}

/* Two steps: opcode 0 takes a value and an array that it writes, opcode 1 is not known. */
static void make_body(void)
{
    memset(body, 0, sizeof body);
    free(memory);
    memory = calloc(1, BLOCK_BYTES);
    blocks[2] = (struct resident_block){ (uintptr_t)memory, BLOCK_BYTES, 7 };
    opcodes[0] = (struct resident_opcode){ true, 2, 2, 2, { 4, 4 } };
    opcodes[1] = (struct resident_opcode){ .is_known = false };
    *head() = (struct resident_head){ .step_count = 2, .operand_count = OPERANDS };
    uint32_t values = sizeof(struct resident_head) + 2 * sizeof(struct resident_step) +
                      OPERANDS * sizeof(struct resident_operand);
    head()->data_at = values + 16;
    head()->bytes = values + 16 + 4 * DATA_ITEMS;
    *operand(VALUE) = (struct resident_operand){ .kind = RESIDENT_VALUE, .at = values, .bytes = 4 };
    *operand(BLOCK) = (struct resident_operand){ .kind = RESIDENT_BLOCK,
                                                 .access = RESIDENT_READS | RESIDENT_WRITES,
                                                 .slot = 2,
                                                 .generation = 7,
                                                 .bytes = 4,
                                                 .offset = 16 };
    *operand(DATA) = (struct resident_operand){ .kind = RESIDENT_DATA,
                                                .access = RESIDENT_READS,
                                                .at = values + 16,
                                                .bytes = 4,
                                                .offset = 4 * DATA_ITEMS };
    *step(0) = (struct resident_step){ .opcode = 0,
                                       .arg_count = 2,
                                       .items = 36,
                                       .repeat = 3,
                                       .until = BLOCK,
                                       .until_at = 8,
                                       .args = { VALUE, BLOCK } };
    *step(1) = (struct resident_step){ .opcode = 1,
                                       .arg_count = 1,
                                       .items = DATA_ITEMS,
                                       .repeat = 1,
                                       .until = RESIDENT_NO_OPERAND,
                                       .args = { DATA } };
}

static enum resident_wrong check(void)
{
    return resident_check(body, sizeof body, &table, NULL, NULL);
}

static void a_right_body_passes(void)
{
    make_body();
    CHECK_TEXT("it is right", resident_wrong_words(check()));
    CHECK_EQUAL(RESIDENT_BAD_SHAPE, resident_check(body, head()->bytes - 16, &table, NULL, NULL));
    CHECK_EQUAL(RESIDENT_RIGHT, resident_check(body, head()->bytes, &table, NULL, NULL));
    CHECK_EQUAL(RESIDENT_BAD_SHAPE, resident_check(body, 0, &table, NULL, NULL));
}

#define REFUSED(wrong, change)                                                                     \
    do {                                                                                           \
        make_body();                                                                               \
        change;                                                                                    \
        CHECK_TEXT(resident_wrong_words(wrong), resident_wrong_words(check()));                    \
    } while (0)

static void each_field_is_checked(void)
{
    REFUSED(RESIDENT_BAD_SHAPE, head()->step_count = 0);
    REFUSED(RESIDENT_BAD_SHAPE, head()->step_count = RESIDENT_STEPS_MAX + 1);
    REFUSED(RESIDENT_BAD_SHAPE, head()->operand_count = RESIDENT_OPERANDS_MAX + 1);
    REFUSED(RESIDENT_BAD_SHAPE, head()->bytes = RESIDENT_BODY_MAX + 16);
    REFUSED(RESIDENT_BAD_SHAPE, head()->bytes += 8);
    REFUSED(RESIDENT_BAD_SHAPE, head()->data_at = head()->bytes + 16);
    REFUSED(RESIDENT_BAD_SHAPE, head()->reserved = 1);
    REFUSED(RESIDENT_BAD_SHAPE, operand(VALUE)->kind = 0);
    REFUSED(RESIDENT_BAD_SHAPE, operand(VALUE)->kind = 4);
    REFUSED(RESIDENT_BAD_SHAPE, operand(VALUE)->at += 24);
    REFUSED(RESIDENT_BAD_SHAPE, operand(VALUE)->at -= 8);
    REFUSED(RESIDENT_BAD_SHAPE, operand(VALUE)->bytes = UINT32_MAX);
    REFUSED(RESIDENT_BAD_SHAPE, operand(VALUE)->bytes = 0);
    REFUSED(RESIDENT_BAD_SHAPE, operand(DATA)->at = head()->bytes + 16);
    REFUSED(RESIDENT_BAD_SHAPE, operand(DATA)->offset += 1);
    REFUSED(RESIDENT_BAD_SHAPE, operand(DATA)->offset = UINT64_MAX);
    REFUSED(RESIDENT_BAD_SHAPE, operand(DATA)->access = 0);
    REFUSED(RESIDENT_BAD_SHAPE, operand(DATA)->access = 4);
    REFUSED(RESIDENT_BAD_SHAPE, operand(BLOCK)->bytes = 0);
    REFUSED(RESIDENT_BAD_BLOCK, operand(BLOCK)->slot = 4);
    REFUSED(RESIDENT_BAD_BLOCK, operand(BLOCK)->slot = 1);
    REFUSED(RESIDENT_BAD_BLOCK, operand(BLOCK)->generation = 6);
    REFUSED(RESIDENT_BAD_BLOCK, (operand(BLOCK)->slot = 1, operand(BLOCK)->generation = 0));
    REFUSED(RESIDENT_BAD_RANGE, operand(BLOCK)->offset = BLOCK_BYTES + 1);
    REFUSED(RESIDENT_BAD_RANGE, operand(BLOCK)->offset = 20);
    REFUSED(RESIDENT_BAD_RANGE, operand(BLOCK)->offset = UINT64_MAX);
    REFUSED(RESIDENT_BAD_RANGE, step(0)->items = 37);
    REFUSED(RESIDENT_BAD_RANGE, step(0)->items = UINT32_MAX);
    REFUSED(RESIDENT_BAD_RANGE, step(1)->items = DATA_ITEMS + 1);
    REFUSED(RESIDENT_BAD_OPCODE, step(0)->opcode = 2);
    REFUSED(RESIDENT_BAD_ARGS, step(0)->arg_count = 1);
    REFUSED(RESIDENT_BAD_ARGS, step(1)->arg_count = RESIDENT_ARGS_MAX + 1);
    REFUSED(RESIDENT_BAD_ARGS, step(0)->args[1] = OPERANDS);
    REFUSED(RESIDENT_BAD_ARGS, step(0)->args[1] = VALUE);
    REFUSED(RESIDENT_BAD_ARGS, step(0)->args[1] = DATA); /* only for reading */
    REFUSED(RESIDENT_BAD_ARGS, operand(BLOCK)->bytes = 8);
    REFUSED(RESIDENT_BAD_SHAPE, step(0)->repeat = 0);
    REFUSED(RESIDENT_BAD_SHAPE, step(0)->reserved = 1);
    REFUSED(RESIDENT_BAD_SHAPE, step(1)->until_at = 4);
    REFUSED(RESIDENT_BAD_FLAG, step(0)->until = VALUE);
    REFUSED(RESIDENT_BAD_FLAG, step(0)->until = OPERANDS);
    REFUSED(RESIDENT_BAD_FLAG, step(0)->until_at = BLOCK_BYTES - 16 - 3);
    REFUSED(RESIDENT_BAD_FLAG, step(0)->until_at = 6);
    REFUSED(RESIDENT_BAD_FLAG, step(0)->until_at = UINT64_MAX - 3);
    REFUSED(RESIDENT_ENDLESS, (step(0)->repeat = UINT32_MAX, step(1)->repeat = 2));
    free(memory);
    memory = NULL;
}

static uint64_t calls;

/* Touches every item of every array, and all of each value. */
static muster_status touch(void *user, uint32_t opcode, uint64_t items, void *const *args)
{
    (void)user;
    calls++;
    CHECK(opcode < 2);
    const struct resident_step *at = step(0);
    /* Which step it is does not matter: the sizes are the operands'. */
    for (size_t s = 0; s < head()->step_count; s++)
        if (step(s)->opcode == opcode && step(s)->items == items)
            at = step(s);
    if (at->opcode != opcode || at->items != items)
        return MUSTER_OK;
    for (uint32_t i = 0; i < at->arg_count; i++) {
        const struct resident_operand *what = operand(at->args[i]);
        bool is_value = what->kind == RESIDENT_VALUE;
        const unsigned char *bytes = is_value ? args[i] : *(void *const *)args[i];
        uint64_t count = is_value ? what->bytes : items * what->bytes;
        unsigned sum = 0;
        for (uint64_t k = 0; k < count; k++)
            sum += *(const volatile unsigned char *)(bytes + k);
        (void)sum;
    }
    return MUSTER_OK;
}

static bool few_runs(void *user)
{
    (void)user;
    return calls < 1000;
}

static void random_bodies_do_no_harm(void)
{
    uint64_t state = test_seed(), passed = 0;
    unsigned rounds = TEST_BY_SANITIZER(200000u, 60000u, 20000u);
    for (unsigned round = 0; round < rounds; round++) {
        make_body();
        uint32_t size = head()->bytes, changes = 1 + (uint32_t)(round % 4);
        for (uint32_t i = 0; i < changes; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            uint32_t at = (uint32_t)(state >> 40) % size;
            body[at] =
                (unsigned char)(state >> 33 & 1 ? state >> 24 : (uint64_t)(state >> 20 & 15));
        }
        if (check() != RESIDENT_RIGHT)
            continue;
        passed++;
        calls = 0;
        resident_find(body, &table);
        muster_status status = resident_run(body, touch, few_runs, NULL);
        CHECK(status == MUSTER_OK || status == MUSTER_E_CANCELLED);
    }
    printf("%llu of %u passed\n", (unsigned long long)passed, rounds);
    CHECK(passed > rounds / 100 && passed < rounds);
    free(memory);
    memory = NULL;
}

static muster_status set_flag(void *user, uint32_t opcode, uint64_t items, void *const *args)
{
    (void)user, (void)items;
    calls++;
    if (opcode == 1)
        return MUSTER_E_FAILED;
    uint32_t *array = *(void *const *)args[1];
    array[2] = calls == 2;
    return MUSTER_OK;
}

static bool always(void *user)
{
    return user == NULL;
}

static void a_flag_ends_a_step_and_a_failure_all(void)
{
    make_body();
    resident_find(body, &table);
    calls = 0;
    CHECK_STATUS(MUSTER_E_FAILED, resident_run(body, set_flag, always, NULL));
    CHECK_EQUAL(3, calls);
    /* Asked to end, it does before the next run. */
    memset(memory, 0, BLOCK_BYTES);
    calls = 0;
    CHECK_STATUS(MUSTER_E_CANCELLED, resident_run(body, set_flag, always, &calls));
    CHECK_EQUAL(1, calls);
    free(memory);
    memory = NULL;
}

static void headers_tell_halves_apart(void)
{
    uint64_t first = resident_first_word(0x12345678, 0xabc, 0x3f, RESIDENT_HAS_BODY);
    uint64_t second = resident_second_word(0x12345678, 77, 12);
    CHECK_EQUAL(0x12345678, (int64_t)(first >> 32));
    CHECK_EQUAL(0xabc, (int64_t)(first >> 16 & 0xffff));
    CHECK_EQUAL(0x3f, (int64_t)(first >> 8 & 0xff));
    CHECK_EQUAL(first >> 32 & 0xffff, second & 0xffff);
    CHECK_EQUAL(77, (int64_t)(second >> 32));
    CHECK((resident_second_word(0x12345679, 77, 12) & 0xffff) != (second & 0xffff));
    CHECK_EQUAL(MUSTER_E_CANCELLED, (int32_t)resident_end(5, MUSTER_E_CANCELLED));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_right_body_passes),       TEST(each_field_is_checked),
        TEST(random_bodies_do_no_harm),  TEST(a_flag_ends_a_step_and_a_failure_all),
        TEST(headers_tell_halves_apart),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
