/* Graphs in virtual time: what a scenario may say, and what the simulation makes of it. */
#include "model/graph.h"
#include "support.h"

#include <muster/simulate.h>

#define ONE "\"devices\":[{\"items_per_s\":1000}]"
#define GRAPH(keys) "{" ONE ",\"graph\":{" keys "}}"

static struct muster_graph_simulation *simulate(const char *text)
{
    struct muster_graph_simulation *out = NULL;
    struct muster_simulation_options options = { .size = sizeof options, .seed = 1, .check = 1 };
    MUST(muster_simulate_graph(text, strlen(text), &options, &out, &problem));
    return out;
}

static void what_is_left_out_has_its_default(void)
{
    struct model_device device;
    struct graph_scenario graph;
    size_t count;
    const char *text = GRAPH("\"kind\":\"lu\",\"tiles\":7");
    MUST(graph_scenario_read(text, strlen(text), &device, 1, &count, &graph, &problem));
    CHECK_EQUAL(1, count);
    CHECK_EQUAL(GRAPH_LU, graph.kind);
    CHECK_EQUAL(GRAPH_EARLIEST_FINISH, graph.policy);
    CHECK_EQUAL(7, graph.tiles);
    CHECK_EQUAL(2097152, graph.tile_bytes);
    CHECK_EQUAL(2, graph.ahead);
    CHECK(graph.priorities && graph.costs[GRAPH_GEMM] == 1.0 && graph.costs[GRAPH_TRSM] == 0.5);
}

static void every_key_is_read(void)
{
    struct model_device device;
    struct graph_scenario graph;
    size_t count;
    const char *text = GRAPH("\"kind\":\"stencil\",\"tiles\":3,\"steps\":4,\"tile_bytes\":\"1MiB\","
                             "\"policy\":\"eager\",\"priorities\":false,\"ahead\":5,"
                             "\"costs\":{\"step\":2.5}");
    MUST(graph_scenario_read(text, strlen(text), &device, 1, &count, &graph, &problem));
    CHECK_EQUAL(GRAPH_STENCIL, graph.kind);
    CHECK_EQUAL(GRAPH_EAGER, graph.policy);
    CHECK(graph.tiles == 3 && graph.steps == 4 && graph.ahead == 5 && !graph.priorities);
    CHECK_EQUAL(1 << 20, graph.tile_bytes);
    CHECK(graph.costs[GRAPH_STEP] == 2.5);
}

static void what_is_wrong_is_told_with_its_place(void)
{
    static const struct {
        const char *text, *words;
    } wrong[] = {
        { "{\"graph\":{\"kind\":\"lu\",\"tiles\":2}}", "\"devices\" is missing" },
        { "{" ONE ",\"graph\":[]}", "\"graph\" must be an object" },
        { "{" ONE ",\"graph\":{},\"job\":{}}", "a graph needs a \"kind\"" },
        { "{" ONE ",\"job\":{},\"graph\":{\"kind\":\"lu\",\"tiles\":2}}", "\"job\"" },
        { GRAPH("\"tiles\":2"), "a graph needs a \"kind\"" },
        { GRAPH("\"kind\":\"qr\",\"tiles\":2"), "\"kind\"" },
        { GRAPH("\"kind\":\"lu\""), "a graph needs \"tiles\"" },
        { GRAPH("\"kind\":\"lu\",\"tiles\":0"), "\"tiles\"" },
        { GRAPH("\"kind\":\"lu\",\"tiles\":2,\"steps\":3"), "\"steps\" belongs to" },
        { GRAPH("\"kind\":\"stencil\",\"tiles\":2"), "\"steps\" belongs to" },
        { GRAPH("\"kind\":\"random\",\"tiles\":2"), "\"tasks\" belongs to" },
        { GRAPH("\"kind\":\"fork_join\",\"tiles\":61,\"steps\":1"), "at most 60 tiles" },
        { GRAPH("\"kind\":\"cholesky\",\"tiles\":2000"), "more than 1048576 tasks" },
        { GRAPH("\"kind\":\"lu\",\"tiles\":2,\"costs\":{\"gemm\":0}"), "\"gemm\"" },
        { GRAPH("\"kind\":\"lu\",\"tiles\":2,\"costs\":{\"qr\":1}"), "qr" },
        { "{\"devices\":[{\"items_per_s\":1,\"count\":65}],\"graph\":{\"kind\":\"lu\",\"tiles\":1}"
          "}",
          "at most 64 devices" },
        { "{\"devices\":[{\"items_per_s\":1,\"opens_ms\":4}],\"graph\":{\"kind\":\"lu\",\"tiles\":"
          "1}}",
          "there from the start" },
        { "{\"devices\":[{\"items_per_s\":1,\"faults\":[{\"kind\":\"memory\"}]}],"
          "\"graph\":{\"kind\":\"lu\",\"tiles\":1}}",
          "\"memory\" are not for graphs" },
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct muster_graph_simulation *out = NULL;
        CHECK_STATUS(MUSTER_E_PARSE, muster_simulate_graph(wrong[i].text, strlen(wrong[i].text),
                                                           NULL, &out, &problem));
        CHECK(!out);
        CHECK_CONTAINS(wrong[i].words, problem.text);
        CHECK_CONTAINS("line 1, column", problem.text);
    }
}

static void what_is_no_graph_or_not_for_graphs_is_refused(void)
{
    struct muster_graph_simulation *out = NULL;
    const char *job = "{" ONE ",\"job\":{\"items\":3}}",
               *graph = GRAPH("\"kind\":\"lu\",\"tiles\":2");
    struct muster_simulation_options options = { .size = sizeof options, .runs = 2 };
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED,
                 muster_simulate_graph(job, strlen(job), NULL, &out, &problem));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, muster_simulate_graph("[1", 2, NULL, &out, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_simulate_graph(graph, strlen(graph), &options, &out, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_simulate_graph(graph, strlen(graph), NULL, NULL, &problem));
    const char *large = "{\"devices\":[{\"items_per_s\":1,\"memory\":\"5MiB\"}],"
                        "\"graph\":{\"kind\":\"cholesky\",\"tiles\":3}}";
    CHECK_STATUS(MUSTER_E_TOO_LARGE,
                 muster_simulate_graph(large, strlen(large), NULL, &out, &problem));
    CHECK(!out);
}

/* One device does one task after another: the sum of the costs, which is the bound. */
static void one_device_takes_the_sum(void)
{
    static const struct {
        const char *text;
        uint64_t tasks, ns;
    } known[] = {
        { GRAPH("\"kind\":\"cholesky\",\"tiles\":3,\"costs\":{\"potrf\":1,\"trsm\":1,\"syrk\":1}"),
          10, 10000000 },
        { GRAPH("\"kind\":\"lu\",\"tiles\":3,\"costs\":{\"getrf\":1,\"trsm\":1}"), 14, 14000000 },
        { GRAPH("\"kind\":\"stencil\",\"tiles\":4,\"steps\":5"), 20, 20000000 },
        { GRAPH(
              "\"kind\":\"fork_join\",\"tiles\":60,\"steps\":2,\"costs\":{\"fork\":1,\"join\":1}"),
          124, 124000000 },
    };
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        struct muster_graph_simulation *result = simulate(known[i].text);
        CHECK_STATUS(MUSTER_OK, result->status);
        CHECK_EQUAL(known[i].tasks, result->tasks);
        CHECK_EQUAL(known[i].tasks, result->ended);
        CHECK_EQUAL(known[i].ns, result->makespan_ns);
        CHECK_EQUAL(known[i].ns, result->area_ns);
        CHECK_EQUAL(0, result->wrong + result->failed + result->cancelled);
        CHECK_EQUAL(known[i].ns, result->devices[0]->busy_ns);
        muster_graph_simulation_destroy(result);
    }
}

/* The second of two devices is lost in the middle: what it had goes on, or is named. */
static void a_loss_leaves_nothing_open(void)
{
    struct muster_graph_simulation *result = simulate(
        "{\"devices\":[{\"items_per_s\":1000},{\"items_per_s\":1000,\"faults\":[{\"kind\":\"lost\","
        "\"at_ms\":20}]}],\"graph\":{\"kind\":\"cholesky\",\"tiles\":10}}");
    CHECK(!result->broken);
    CHECK_EQUAL(0, result->wrong);
    CHECK_EQUAL(result->tasks, result->ended + result->failed + result->cancelled);
    CHECK_TEXT("lost", result->devices[1]->health);
    CHECK_TEXT("ok", result->devices[0]->health);
    CHECK(result->devices[1]->tasks > 0 && result->devices[1]->busy_ns <= 20000000);
    muster_graph_simulation_destroy(result);
}

static void a_device_that_does_not_answer_is_given_up(void)
{
    struct muster_graph_simulation *result = simulate(
        "{\"devices\":[{\"items_per_s\":1000},{\"items_per_s\":1000,\"faults\":[{\"kind\":\"hang\","
        "\"at_ms\":5}]}],\"graph\":{\"kind\":\"random\",\"tiles\":50,\"tasks\":60}}");
    CHECK_TEXT("lost", result->devices[1]->health);
    CHECK_EQUAL(result->tasks, result->ended + result->cancelled);
    CHECK(result->makespan_ns >= 1005000000);
    muster_graph_simulation_destroy(result);
}

struct ending {
    struct counting counting;
    unsigned left;
};

static void *take_some(void *user, size_t bytes, size_t alignment)
{
    struct ending *ending = user;
    return ending->left == 0
               ? NULL
               : (ending->left--, counting_allocate(&ending->counting, bytes, alignment));
}

static void give_back(void *user, void *memory, size_t bytes)
{
    struct ending *ending = user;
    counting_release(&ending->counting, memory, bytes);
}

static void memory_may_end_anywhere(void)
{
    struct ending ending = { .counting = COUNTING_INIT };
    const struct muster_allocator allocator = { sizeof allocator, take_some, give_back, &ending };
    const struct muster_simulation_options options = { .size = sizeof options,
                                                       .allocator = &allocator };
    const char *text = GRAPH("\"kind\":\"random\",\"tiles\":9,\"tasks\":90");
    muster_status status = MUSTER_E_NO_MEMORY;
    unsigned n = 0;
    for (; status == MUSTER_E_NO_MEMORY; n++) {
        struct muster_graph_simulation *result = NULL;
        ending.left = n;
        status = muster_simulate_graph(text, strlen(text), &options, &result, &problem);
        CHECK(status == MUSTER_OK || !result);
        muster_graph_simulation_destroy(result);
        CHECK_EQUAL(0, ending.counting.bytes);
        CHECK_EQUAL(0, ending.counting.wrong);
    }
    CHECK_STATUS(MUSTER_OK, status);
    CHECK(n > 10);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_is_left_out_has_its_default),
        TEST(every_key_is_read),
        TEST(what_is_wrong_is_told_with_its_place),
        TEST(what_is_no_graph_or_not_for_graphs_is_refused),
        TEST(one_device_takes_the_sum),
        TEST(a_loss_leaves_nothing_open),
        TEST(a_device_that_does_not_answer_is_given_up),
        TEST(memory_may_end_anywhere),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
