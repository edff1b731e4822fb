/*
 * The C headers in C++: every macro, and every public type made and filled. That it compiles without a
 * warning is half of the test; the other half is that each macro sets what its C form does.
 */
#include "check.hpp"
#include <cstring>
#include <muster/backend.h>
#include <muster/muster.h>

/* Each public struct can be made empty, and begins with `size`. */
#define STRUCTS(X)                                                                                 \
    X(muster_allocator)                                                                            \
    X(muster_arg)                                                                                  \
    X(muster_backend)                                                                              \
    X(muster_backend_report)                                                                       \
    X(muster_block_info)                                                                           \
    X(muster_body)                                                                                 \
    X(muster_buffer)                                                                               \
    X(muster_candidate)                                                                            \
    X(muster_counters)                                                                             \
    X(muster_decision)                                                                             \
    X(muster_device_info)                                                                          \
    X(muster_device_load)                                                                          \
    X(muster_edge)                                                                                 \
    X(muster_edge_report)                                                                          \
    X(muster_error)                                                                                \
    X(muster_file_options)                                                                         \
    X(muster_file_report)                                                                          \
    X(muster_graph_change)                                                                         \
    X(muster_graph_simulation)                                                                     \
    X(muster_graph_simulation_device)                                                              \
    X(muster_hints)                                                                                \
    X(muster_job_desc)                                                                             \
    X(muster_job_device)                                                                           \
    X(muster_kernel_form)                                                                          \
    X(muster_kernel_parameter)                                                                     \
    X(muster_live_device)                                                                          \
    X(muster_cluster_desc)                                                                         \
    X(muster_cluster_entry)                                                                        \
    X(muster_cluster_machine)                                                                      \
    X(muster_cluster_options)                                                                      \
    X(muster_cluster_progress)                                                                     \
    X(muster_cluster_share)                                                                        \
    X(muster_cluster_worker_options)                                                               \
    X(muster_live_info)                                                                            \
    X(muster_live_job)                                                                             \
    X(muster_live_lane)                                                                            \
    X(muster_live_runtime)                                                                         \
    X(muster_native)                                                                               \
    X(muster_operand)                                                                              \
    X(muster_options)                                                                              \
    X(muster_partial)                                                                              \
    X(muster_partial_field)                                                                        \
    X(muster_pipeline_options)                                                                     \
    X(muster_policy)                                                                               \
    X(muster_progress)                                                                             \
    X(muster_reduction)                                                                            \
    X(muster_report)                                                                               \
    X(muster_resident_options)                                                                     \
    X(muster_resident_report)                                                                      \
    X(muster_resident_step)                                                                        \
    X(muster_result)                                                                               \
    X(muster_run_options)                                                                          \
    X(muster_services)                                                                             \
    X(muster_simulation)                                                                           \
    X(muster_simulation_device)                                                                    \
    X(muster_simulation_job)                                                                       \
    X(muster_simulation_options)                                                                   \
    X(muster_stage)                                                                                \
    X(muster_stream_info)                                                                          \
    X(muster_task_access)                                                                          \
    X(muster_task_decision)                                                                        \
    X(muster_task_desc)                                                                            \
    X(muster_trace_event)                                                                          \
    X(muster_trace_options)                                                                        \
    X(muster_trace_writer_options)                                                                 \
    X(muster_unit_arg)                                                                             \
    X(muster_use)                                                                                  \
    X(muster_view)

static void structs_begin_with_their_size()
{
#define BEGINS(name)                                                                               \
    {                                                                                              \
        struct name made = {};                                                                     \
        made.size = sizeof made;                                                                   \
        CHECK(offsetof(struct name, size) == 0);                                                   \
        CHECK(made.size >= sizeof(size_t));                                                        \
    }
    STRUCTS(BEGINS)
#undef BEGINS
}

/* Structs of fixed size, which backends exchange with the runtime or which never change. */
static void small_structs_can_be_made()
{
    struct muster_copy_desc copy = {};
    struct muster_device_sample sample = {};
    struct muster_launch_arg arg = {};
    struct muster_launch_desc launch = {};
    struct muster_memory memory = {};
    struct muster_pieces pieces = {};
    struct muster_place place = {};
    const struct muster_range range = { 3, 5 };
    CHECK(range.end - range.begin == 2);
    CHECK(sizeof copy && sizeof sample && sizeof arg && sizeof launch && sizeof memory);
    CHECK(sizeof pieces && sizeof place);
}

static void statuses_are_one_list()
{
#define NAMED(name, code, message)                                                                 \
    CHECK(std::strcmp(muster_status_name(code), #name) == 0);                                      \
    CHECK(std::strcmp(muster_status_message(name), message) == 0);
    MUSTER_STATUS_LIST(NAMED)
#undef NAMED
}

static void arguments_of_arrays()
{
    float in[4] = {};
    double out[4] = {};
    const uint16_t fixed[2] = {};
    uint64_t value = 3;
    struct record {
        int a, b;
    } records[2] = {};
    const struct muster_arg args[] = {
        MUSTER_IN(in),
        MUSTER_OUT(out),
        MUSTER_INOUT(records),
        MUSTER_VALUE(value),
        MUSTER_IN(fixed),
        MUSTER_IN_HALO(in, 2),
        MUSTER_IN_BORDER(in, 3, MUSTER_BORDER_CLAMP),
    };
    for (const struct muster_arg &arg : args)
        CHECK(arg.size == sizeof arg);
    CHECK(args[0].kind == MUSTER_ARG_IN && args[0].in == in && args[0].out == nullptr);
    CHECK(args[0].bytes == 4 && args[0].element == MUSTER_ELEMENT_FLOAT);
    CHECK(args[1].kind == MUSTER_ARG_OUT && args[1].out == out && args[1].in == nullptr);
    CHECK(args[1].bytes == 8 && args[1].element == MUSTER_ELEMENT_DOUBLE);
    CHECK(args[2].kind == MUSTER_ARG_INOUT && args[2].in == records && args[2].out == records);
    CHECK(args[2].bytes == sizeof(record) && args[2].element == MUSTER_ELEMENT_UNKNOWN);
    CHECK(args[3].kind == MUSTER_ARG_VALUE && args[3].in == &value && args[3].bytes == 8);
    CHECK(args[3].element == MUSTER_ELEMENT_INT64);
    CHECK(args[4].element == MUSTER_ELEMENT_INT16 && args[4].in == fixed);
    CHECK(args[5].halo == 2 && args[5].border == MUSTER_BORDER_ZERO && args[5].in == in);
    CHECK(args[6].halo == 3 && args[6].border == MUSTER_BORDER_CLAMP && args[6].bytes == 4);
}

/* Also of a type of the program's own, and what the compiler can tell of it. */
static_assert(MUSTER_ELEMENT_OF(static_cast<const float *>(nullptr)) == MUSTER_ELEMENT_FLOAT, "");
static_assert(MUSTER_ELEMENT_OF_TYPE(long long) == MUSTER_ELEMENT_INT64, "");
static_assert(MUSTER_ELEMENT_OF_TYPE(struct muster_range) == MUSTER_ELEMENT_UNKNOWN, "");
MUSTER_API extern const int declared_as_the_library_does;

static void other_arguments()
{
    const muster_data data = { 1, 2 };
    const muster_block block = { 3, 4 };
    const struct muster_arg args[] = {
        MUSTER_ALL(data),
        MUSTER_FIRST,
        MUSTER_SOURCE(float),
        MUSTER_SOURCE_HALO(int, 5),
        MUSTER_SOURCE_BORDER(int, 6, MUSTER_BORDER_CLAMP),
        MUSTER_DEVICE_IN(block, float),
        MUSTER_DEVICE_OUT(block, double),
        MUSTER_DEVICE_INOUT(block, char),
        MUSTER_GRID(7, 8),
        MUSTER_GRID_3D(7, 8, 9),
        MUSTER_PICTURES(10, 11),
        MUSTER_ARG_OF(MUSTER_ARG_OUT),
        { MUSTER_ARG_OF(MUSTER_ARG_OUT) },
    };
    for (const struct muster_arg &arg : args)
        CHECK(arg.size == sizeof arg);
    CHECK(args[0].kind == MUSTER_ARG_ALL && args[0].data.index == 1 &&
          args[0].data.generation == 2);
    CHECK(args[1].kind == MUSTER_ARG_FIRST);
    CHECK(args[2].kind == MUSTER_ARG_SOURCE && args[2].bytes == sizeof(float) && !args[2].halo);
    CHECK(args[2].element == MUSTER_ELEMENT_FLOAT);
    CHECK(args[3].kind == MUSTER_ARG_SOURCE && args[3].halo == 5);
    CHECK(args[4].halo == 6 && args[4].border == MUSTER_BORDER_CLAMP);
    CHECK(args[5].kind == MUSTER_ARG_DEVICE_IN && args[5].block.index == 3 && args[5].bytes == 4);
    CHECK(args[6].kind == MUSTER_ARG_DEVICE_OUT && args[6].element == MUSTER_ELEMENT_DOUBLE);
    CHECK(args[7].kind == MUSTER_ARG_DEVICE_INOUT && args[7].bytes == 1);
    CHECK(args[8].kind == MUSTER_ARG_GRID && args[8].width == 7 && args[8].height == 8);
    CHECK(args[8].depth == 0 && args[9].depth == 9 && args[9].kind == MUSTER_ARG_GRID);
    CHECK(args[10].kind == MUSTER_ARG_PICTURES && args[10].width == 10 && args[10].height == 11);
    CHECK(args[11].kind == MUSTER_ARG_OUT && args[12].kind == MUSTER_ARG_OUT);
}

static void operands_uses_and_unit_arguments()
{
    const muster_block block = { 3, 4 };
    const muster_data data = { 1, 2 };
    const int value = 5;
    const struct muster_operand operands[] = { MUSTER_BLOCK_READ(block), MUSTER_BLOCK_WRITE(block),
                                               MUSTER_BLOCK_UPDATE(block), MUSTER_SCALAR(value) };
    for (const struct muster_operand &operand : operands)
        CHECK(operand.size == sizeof operand);
    CHECK(operands[0].access == MUSTER_READS && operands[0].block.generation == 4);
    CHECK(operands[1].access == MUSTER_WRITES && operands[2].access == MUSTER_READS_WRITES);
    CHECK(operands[3].access == 0 && operands[3].value == &value && operands[3].bytes == 4);
    const struct muster_use use = MUSTER_USE(block, MUSTER_WRITES);
    CHECK(use.size == sizeof use && use.block.index == 3 && use.access == MUSTER_WRITES);
    const struct muster_unit_arg args[] = { MUSTER_VIEW(2), MUSTER_UNIT_VALUE(value),
                                            MUSTER_UNIT_DATA(data), MUSTER_UNIT_CELL };
    for (const struct muster_unit_arg &arg : args)
        CHECK(arg.size == sizeof arg);
    CHECK(args[0].buffer == 2 && args[0].bytes == 0);
    CHECK(args[1].value == &value && args[1].bytes == 4);
    CHECK(args[2].data.generation == 2 && args[3].is_cell == 1);
    const struct muster_options options = MUSTER_OPTIONS_INIT;
    CHECK(options.size == sizeof options && options.devices == nullptr);
    const struct muster_resident_options lane = MUSTER_RESIDENT_OPTIONS_INIT;
    CHECK(lane.size == sizeof lane);
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_READ);
    CHECK(access.size == sizeof access && access.data.generation == 2 &&
          access.mode == MUSTER_READ);
    const struct muster_arg accessed[] = { MUSTER_ACCESSED(3), MUSTER_PITCH(4) };
    CHECK(accessed[0].kind == MUSTER_ARG_ACCESS && accessed[0].offset == 3);
    CHECK(accessed[1].kind == MUSTER_ARG_PITCH && accessed[1].offset == 4);
}

static void numbers_are_numbers()
{
    CHECK(MUSTER_VERSION_MAJOR * 10000 + MUSTER_VERSION_MINOR * 100 + MUSTER_VERSION_PATCH > 0);
    CHECK(std::strcmp(MUSTER_VERSION_STRING, muster_version()) == 0);
    CHECK(MUSTER_ITEMS_UNKNOWN == UINT64_MAX && MUSTER_SKIPPED == 1);
    const unsigned limits[] = { MUSTER_ACCESSES_MAX,
                                MUSTER_ARGS_MAX,
                                MUSTER_ARG_BYTES_MAX,
                                MUSTER_BACKEND_ABI,
                                MUSTER_BODIES_MAX,
                                MUSTER_BUFFERS_MAX,
                                MUSTER_CLUSTER_KEY_BYTES,
                                MUSTER_DECISION_DEVICES_MAX,
                                MUSTER_EDGES_MAX,
                                MUSTER_EVERY_MAX,
                                MUSTER_GRAPH_TASKS_MAX,
                                MUSTER_HELD_STREAMS_MIN,
                                MUSTER_JOB_FAILED_MAX,
                                MUSTER_PIECES_SHIFT,
                                MUSTER_PIECES_STOPPED,
                                MUSTER_PIECE_ARGS_MAX,
                                MUSTER_PIECE_BYTES_MAX,
                                MUSTER_QUEUED_CALLS_MIN,
                                MUSTER_QUEUED_MIN,
                                MUSTER_REDUCE_PARTS,
                                MUSTER_RESIDENT_ARGS_MAX,
                                MUSTER_RESIDENT_BLOCKS_MAX,
                                MUSTER_RESIDENT_DATA_MAX,
                                MUSTER_RESIDENT_ENTRIES_MAX,
                                MUSTER_RESIDENT_KERNELS_MAX,
                                MUSTER_RESIDENT_STEPS_MAX,
                                MUSTER_ROLES_MAX,
                                MUSTER_SIMULATION_FAILED_MAX,
                                MUSTER_SLOTS_MAX,
                                MUSTER_STAGES_MAX,
                                MUSTER_SUBMIT_MAX,
                                MUSTER_TASKS_MAX,
                                MUSTER_TASK_DEVICES_MAX,
                                MUSTER_KERNEL_TASKS_MAX,
                                MUSTER_USES_MAX };
    for (unsigned limit : limits)
        CHECK(limit > 0);
}

/* A backend's entry has the name that the runtime looks for, also in C++. */
static struct muster_backend table;
MUSTER_BACKEND_EXPORT(table)
/* Does not compile if the macro has not given it C linkage. */
extern "C" const struct muster_backend *muster_backend_entry(void);

static void a_backend_is_exported_by_its_plain_name()
{
    table.size = sizeof table;
    CHECK(muster_backend_entry() == &table);
    CHECK(std::strcmp(MUSTER_BACKEND_ENTRY, "muster_backend_entry") == 0);
}

int main(int argc, char **argv)
{
    static const test tests[] = {
        TEST(structs_begin_with_their_size),
        TEST(small_structs_can_be_made),
        TEST(statuses_are_one_list),
        TEST(arguments_of_arrays),
        TEST(other_arguments),
        TEST(operands_uses_and_unit_arguments),
        TEST(numbers_are_numbers),
        TEST(a_backend_is_exported_by_its_plain_name),
    };
    return test_main(argc, argv, tests);
}
