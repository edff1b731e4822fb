#include "backend/registry.h"

#include "backend/cpu/cpu.h"
#include "support.h"

static void built_in_backends_are_complete(void)
{
    size_t count;
    const struct muster_backend *const *built_in = registry_built_in(&count);
    struct muster_backend table;
    CHECK(count >= 2);
    CHECK_TEXT("cpu", built_in[0]->name);
    for (size_t i = 0; i < count; i++) {
        MUST(registry_complete(built_in[i], &table, &problem));
        CHECK_TEXT(built_in[i]->name, table.name);
        CHECK(table.open == built_in[i]->open);
        CHECK(table.copy == built_in[i]->copy);
    }
}

/* The slots without which nothing works, one after the other left out. */
#define REQUIRED(X)                                                                                \
    X(open)                                                                                        \
    X(close)                                                                                       \
    X(device_open)                                                                                 \
    X(device_close)                                                                                \
    X(device_sample)                                                                               \
    X(memory_allocate)                                                                             \
    X(memory_free)                                                                                 \
    X(stream_open)                                                                                 \
    X(stream_close)                                                                                \
    X(stream_native)                                                                               \
    X(stream_wait)                                                                                 \
    X(stream_query)                                                                                \
    X(event_init)                                                                                  \
    X(event_deinit)                                                                                \
    X(event_record)                                                                                \
    X(event_query)                                                                                 \
    X(event_wait)                                                                                  \
    X(copy)                                                                                        \
    X(fill)

static void a_table_without_a_required_slot_is_refused_by_name(void)
{
    struct muster_backend out = { .abi = 77 }, given;
#define LEAVE_OUT(slot)                                                                            \
    given = backend_cpu;                                                                           \
    given.slot = NULL;                                                                             \
    CHECK_STATUS(MUSTER_E_INVALID, registry_complete(&given, &out, &problem));                     \
    CHECK_CONTAINS("leaves out " #slot, problem.text);                                             \
    CHECK_EQUAL(77, out.abi);
    REQUIRED(LEAVE_OUT)
#undef LEAVE_OUT
}

static void optional_slots_answer_that_they_are_not_there(void)
{
    struct muster_backend given = backend_cpu, table;
    given.slice_plan = NULL;
    given.slice_open = NULL;
    given.slice_unplan = NULL;
    given.host_register = NULL;
    given.host_unregister = NULL;
    given.event_elapsed = NULL;
    given.gate_init = NULL;
    given.gate_deinit = NULL;
    given.gate_publish = NULL;
    given.gate_wait = NULL;
    given.host_call = NULL;
    given.kernel_init = NULL;
    given.kernel_deinit = NULL;
    given.launch = NULL;
    MUST(registry_complete(&given, &table, &problem));
    uint64_t ns;
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, table.slice_plan(NULL, NULL, 0, &problem));
    CHECK_CONTAINS("slices", problem.text);
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, table.slice_open(NULL, 0, NULL, NULL, &problem));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, table.event_elapsed(NULL, NULL, &ns, &problem));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, table.gate_init(NULL, NULL, &problem));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, table.gate_publish(NULL, 1, &problem));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, table.gate_wait(NULL, NULL, 1, &problem));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, table.host_call(NULL, NULL, NULL, &problem));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, table.kernel_init(NULL, NULL, NULL, &problem));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, table.launch(NULL, NULL, NULL, 0, NULL));
    /* Copies work without registering, so that is no refusal. */
    MUST(table.host_register(NULL, NULL, 0, &problem));
    table.host_unregister(NULL, NULL);
    table.slice_unplan(NULL);
    table.gate_deinit(NULL);
    table.kernel_deinit(NULL);
}

static void tables_of_other_versions_are_told_apart(void)
{
    struct muster_backend given = backend_cpu, table;
    given.abi = MUSTER_BACKEND_ABI + 1;
    CHECK_STATUS(MUSTER_E_VERSION, registry_complete(&given, &table, &problem));
    given.abi = 0;
    CHECK_STATUS(MUSTER_E_VERSION, registry_complete(&given, &table, &problem));
    CHECK_STATUS(MUSTER_E_VERSION, registry_complete(NULL, &table, &problem));
    given = backend_cpu;
    given.size = 8;
    CHECK_STATUS(MUSTER_E_VERSION, registry_complete(&given, &table, &problem));
    given.size = offsetof(struct muster_backend, fill);
    CHECK_STATUS(MUSTER_E_INVALID, registry_complete(&given, &table, &problem));
    /* A newer one, with more at the end. */
    struct {
        struct muster_backend known;
        void *later[4];
    } newer = { .known = backend_cpu, .later = { &given } };
    newer.known.size = sizeof newer;
    CHECK_STATUS(MUSTER_E_VERSION, registry_complete(&newer.known, &table, &problem));
    newer.later[0] = NULL;
    MUST(registry_complete(&newer.known, &table, &problem));
    CHECK_EQUAL(sizeof table, table.size);
}

static void names_are_short_and_plain(void)
{
    static const char *const good[] = { "a", "cuda", "opencl2", "abcdefghijklmno" };
    static const char *const bad[] = { "",           "2fast",      "Cuda",
                                       "my-backend", "my backend", "cpu:",
                                       "a/b",        "a,b",        "abcdefghijklmnop",
                                       "\xc3\xa9",   "a_b",        "a\n",
                                       " cuda",      NULL };
    struct muster_backend given = backend_cpu, table;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        given.name = good[i];
        MUST(registry_complete(&given, &table, &problem));
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        given.name = bad[i];
        CHECK_STATUS(MUSTER_E_INVALID, registry_complete(&given, &table, &problem));
    }
}

static void a_bad_table_is_refused_at_open(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster_backend table = backend_cpu;
    const struct muster_backend *tables[2] = { &table, NULL };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster *m = NULL;
    options.allocator = counting_allocator(&counting);
    options.backends = tables;
    options.backend_count = 1;
    table.name = "Bad Name";
    CHECK_STATUS(MUSTER_E_INVALID, muster_open(&m, &options, &problem));
    table.name = "good";
    table.abi++;
    CHECK_STATUS(MUSTER_E_VERSION, muster_open(&m, &options, &problem));
    table.abi--;
    table.fill = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_open(&m, &options, &problem));
    table.fill = backend_cpu.fill;
    options.backend_count = 2;
    CHECK_STATUS(MUSTER_E_VERSION, muster_open(&m, &options, &problem));
    CHECK(m == NULL);
    CHECK_EQUAL(0, counting.bytes);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(built_in_backends_are_complete),
        TEST(a_table_without_a_required_slot_is_refused_by_name),
        TEST(optional_slots_answer_that_they_are_not_there),
        TEST(tables_of_other_versions_are_told_apart),
        TEST(names_are_short_and_plain),
        TEST(a_bad_table_is_refused_at_open),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
