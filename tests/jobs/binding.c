/*
 * How the parameters of a kernel are bound by `map`, and which maps are refused: every rule of
 * binding.h, value.h, y4m.h and map.h that a caller can meet before a job is started. Memory is
 * counted, and can be refused.
 */
#include "binding.h"

#include "backward.h"
#include "finder.h"
#include "inputs.h"
#include "map.h"
#include "unit/files_support.h"
#include "y4m.h"

/* Memory of the jobs' own, by pieces: the n-th from now on is refused. */
static _Atomic size_t pieces;
static _Atomic size_t refused_at = SIZE_MAX; /* other threads run only while it is that */

static bool is_refused(void)
{
    return refused_at != SIZE_MAX && refused_at-- == 0;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
    void *memory = is_refused() ? NULL : __real_malloc(bytes);
    pieces += memory != NULL;
    return memory;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes)
{
    void *memory = is_refused() ? NULL : __real_calloc(count, bytes);
    pieces += memory != NULL;
    return memory;
}

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
    if (is_refused())
        return NULL;
    void *moved = __real_realloc(memory, bytes);
    pieces += moved && !memory;
    return moved;
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    pieces -= memory != NULL;
    __real_free(memory);
}

/* Values. */

static void numbers_are_read_to_the_ends_of_their_types(void)
{
    static const struct {
        const char *type, *text;
        int64_t number;
        bool is_good;
    } cases[] = {
        { "int8_t", "127", 127, true },
        { "int8_t", "128", 0, false },
        { "int8_t", "-128", -128, true },
        { "int8_t", "-129", 0, false },
        { "uint8_t", "255", 255, true },
        { "uint8_t", "256", 0, false },
        { "uint8_t", "-1", 0, false },
        { "uint8_t", "0xff", 255, true },
        { "uint8_t", "0Xfe", 254, true },
        { "uint8_t", "0x100", 0, false },
        { "int16_t", "32767", 32767, true },
        { "int16_t", "-32768", -32768, true },
        { "int16_t", "32768", 0, false },
        { "uint16_t", "65535", 65535, true },
        { "uint16_t", "65536", 0, false },
        { "int32_t", "2147483647", 2147483647, true },
        { "int32_t", "2147483648", 0, false },
        { "int32_t", "-2147483648", -2147483648ll, true },
        { "int", "-5", -5, true },
        { "int", "2147483648", 0, false },
        { "unsigned", "4294967295", 4294967295ll, true },
        { "unsigned", "4294967296", 0, false },
        { "uint32_t", "4294967295", 4294967295ll, true },
        { "uint32_t", "4294967296", 0, false },
        { "int64_t", "9223372036854775807", INT64_MAX, true },
        { "int64_t", "9223372036854775808", 0, false },
        { "int64_t", "-9223372036854775808", INT64_MIN, true },
        { "int64_t", "-9223372036854775809", 0, false },
        { "uint64_t", "18446744073709551615", -1, true },
        { "uint64_t", "18446744073709551616", 0, false },
        { "const uint64_t", "7", 7, true },
        { "uint64_t const", "7", 7, true },
        { "uint64_t", "", 0, false },
        { "uint64_t", "-", 0, false },
        { "uint64_t", "0x", 0, false },
        { "uint64_t", "0xg", 0, false },
        { "uint64_t", "+1", 0, false },
        { "uint64_t", " 1", 0, false },
        { "uint64_t", "1 ", 0, false },
        { "int64_t", "--1", 0, false },
        { "int64_t", "- 1", 0, false },
        { "uint64_t", "10a", 0, false },
        { "uint64_t", "1.0", 0, false },
        { "long", "1", 0, false },
        { "const", "1", 0, false },
        { " const", "1", 0, false },
        { "uint64", "1", 0, false },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        unsigned char out[VALUE_BYTES] = { 0 };
        size_t bytes = 77;
        muster_status status = value_read("it", cases[i].type, cases[i].text, out, &problem);
        if (status != (cases[i].is_good ? MUSTER_OK : MUSTER_E_INVALID))
            test_fail(__FILE__, __LINE__, "%s %s: %d", cases[i].type, cases[i].text, status);
        if (!cases[i].is_good)
            continue;
        CHECK(value_is_type(cases[i].type, &bytes) && bytes >= 1 && bytes <= VALUE_BYTES);
        CHECK(memcmp(&cases[i].number, out, bytes) == 0);
    }
}

static void real_numbers_are_read_where_they_fit(void)
{
    static const struct {
        const char *type, *text;
        double number;
        bool is_good;
    } cases[] = {
        { "float", "1.5", 1.5, true },
        { "double", "-2e300", -2e300, true },
        { "float", "2e300", 0, false },
        { "float", "inf", __builtin_inf(), true },
        { "double", "1e999", 0, false },
        { "double", "1e-999", 0, true },
        { "float", "3e38", 3e38f, true },
        { "float", " 1", 0, false },
        { "float", "\t1", 0, false },
        { "float", "1 ", 0, false },
        { "float", "", 0, false },
        { "double", "1.5x", 0, false },
        { "const float", "0.25", .25, true },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        unsigned char out[VALUE_BYTES] = { 0 };
        float narrow = (float)cases[i].number;
        bool is_float = strstr(cases[i].type, "float") != NULL;
        CHECK_STATUS(cases[i].is_good ? MUSTER_OK : MUSTER_E_INVALID,
                     value_read("it", cases[i].type, cases[i].text, out, &problem));
        if (cases[i].is_good)
            CHECK(is_float ? memcmp(&narrow, out, sizeof narrow) == 0
                           : memcmp(&cases[i].number, out, sizeof cases[i].number) == 0);
    }
    unsigned char out[VALUE_BYTES];
    size_t bytes;
    float four = 4;
    CHECK_STATUS(MUSTER_OK, value_set("it", "uint8_t", 255, out, &problem));
    CHECK_EQUAL(255, out[0]);
    CHECK_STATUS(MUSTER_E_INVALID, value_set("it", "uint8_t", 256, out, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, value_set("it", "int64_t", UINT64_MAX, out, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, value_set("it", "nothing", 1, out, &problem));
    CHECK_STATUS(MUSTER_OK, value_set("it", "float", 4, out, &problem));
    CHECK(memcmp(&four, out, sizeof four) == 0);
    CHECK(!value_is_type("nothing", &bytes) && bytes == 0);
    CHECK(value_is_type("float", &bytes) && bytes == 4);
    CHECK(value_is_type("double", &bytes) && bytes == 8);
}

/* Bindings. */

static struct muster *m;

static void write_text(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static struct muster_kernel *load(const char *name, const char *text, const char *entry)
{
    struct muster_kernel *kernel = NULL;
    write_text(name, text);
    MUST(muster_kernel_load(m, in_folder(name), entry, &kernel, &problem));
    return kernel;
}

static void begin(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    options.devices = "cpu";
    m = open_with(options);
    make_folder();
}

static void end(void)
{
    remove_folder();
    MUST(muster_close(m, &problem));
}

#define SOURCE(parameters)                                                                         \
    "MUSTER_KERNEL void k(uint64_t i" parameters ")\n{\n    out[i] = in[i];\n}\n"

static const struct binding_fact facts[] = { { "items", 1000, false },
                                             { "width", 300, false },
                                             { "nothing", 0, true } };

static muster_status bind(struct binding *binding, const struct muster_kernel *kernel,
                          size_t item_bytes, size_t out_item_bytes, size_t count,
                          const char *const *arguments)
{
    const struct binding_options options = { .item_bytes = item_bytes,
                                             .out_item_bytes = out_item_bytes,
                                             .arguments = arguments,
                                             .argument_count = count,
                                             .facts = facts,
                                             .fact_count = COUNT_OF(facts) };
    problem.text[0] = 0;
    return binding_init(binding, kernel, &options, &problem);
}

static void parameters_are_bound_by_their_names(void)
{
    static const char source[] = SOURCE(
        ", float gain, MUSTER_GLOBAL const float *in, uint64_t first, MUSTER_GLOBAL double *out,"
        " uint16_t width, const uint64_t items, int8_t n");
    const char *const good[] = { "n=-3", "gain=1.5" };
    struct binding binding;
    begin();
    struct muster_kernel *kernel = load("k.c", source, NULL);
    MUST(bind(&binding, kernel, 0, 0, 2, good));
    CHECK_EQUAL(7, binding.count);
    static const int kinds[] = { MUSTER_ARG_VALUE, MUSTER_ARG_SOURCE, MUSTER_ARG_FIRST,
                                 MUSTER_ARG_OUT,   MUSTER_ARG_VALUE,  MUSTER_ARG_VALUE,
                                 MUSTER_ARG_VALUE };
    static const size_t sizes[] = { 4, 4, 0, 8, 2, 8, 1 };
    for (size_t i = 0; i < binding.count; i++) {
        CHECK_EQUAL(kinds[i], binding.args[i].kind);
        CHECK_EQUAL(sizes[i], binding.args[i].bytes);
        CHECK(kinds[i] != MUSTER_ARG_VALUE || binding.args[i].in == binding.values[i]);
    }
    float gain;
    uint16_t width;
    uint64_t items;
    memcpy(&gain, binding.values[0], sizeof gain);
    memcpy(&width, binding.values[4], sizeof width);
    memcpy(&items, binding.values[5], sizeof items);
    CHECK(gain == 1.5f && width == 300 && items == 1000);
    CHECK_EQUAL(253, binding.values[6][0]);
    CHECK_EQUAL(4, binding.item_bytes);
    CHECK_EQUAL(8, binding.out_item_bytes);
    /* As many elements come out as go in; unless somebody says otherwise. */
    MUST(bind(&binding, kernel, 12, 0, 2, good));
    CHECK_EQUAL(12, binding.item_bytes);
    CHECK_EQUAL(24, binding.out_item_bytes);
    MUST(bind(&binding, kernel, 12, 16, 2, good));
    CHECK_EQUAL(16, binding.out_item_bytes);
    CHECK_EQUAL(16, binding.args[3].bytes);
    CHECK_STATUS(MUSTER_E_INVALID, bind(&binding, kernel, 6, 8, 2, good));
    CHECK_STATUS(MUSTER_E_INVALID, bind(&binding, kernel, 8, 12, 2, good));
    CHECK_EQUAL(4, binding_item_bytes(kernel, 0));
    CHECK_EQUAL(9, binding_item_bytes(kernel, 9));
    static const struct {
        const char *arguments[3];
        size_t count;
        const char *words;
    } bad[] = {
        { { "gain=1" }, 1, "a value for n" },
        { { "n=1" }, 1, "a value for gain" },
        { { "n=1", "gain=x" }, 2, "'x' is no value for gain" },
        { { "n=128", "gain=1" }, 2, "'128' is no value for n" },
        { { "n", "gain=1" }, 2, "has no value" },
        { { "n=1", "gain=1", "other=1" }, 3, "no value 'other'" },
        { { "n=1", "gain=1", "gai=1" }, 3, "no value 'gai'" },
        { { "n=1", "gain=1", "gain=2" }, 3, "given twice" },
        { { "n=1", "gain=1", "=2" }, 3, "has no name" },
        { { "n=1", "gain=1", "" }, 3, "has no name" },
        { { "n=1", "gain=1", "first=2" }, 3, "first is set by Muster" },
        { { "n=1", "gain=1", "width=2" }, 3, "width is set by Muster" },
        { { "n=1", "gain=1", "in=2" }, 3, "no value 'in'" },
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK_STATUS(MUSTER_E_INVALID,
                     bind(&binding, kernel, 0, 0, bad[i].count, bad[i].arguments));
        CHECK_CONTAINS(bad[i].words, problem.text);
    }
    muster_kernel_destroy(kernel);
    end();
}

/* What a pointer points to may be known to the compiler alone. */
static void sizes_that_the_source_does_not_tell_are_asked_for(void)
{
    static const char in_unknown[] =
        "typedef struct { long a; } one;\n" SOURCE(", MUSTER_GLOBAL const one *in,"
                                                   " MUSTER_GLOBAL float *out");
    static const char out_unknown[] =
        "typedef struct { long a; } one;\n" SOURCE(", MUSTER_GLOBAL const float *in,"
                                                   " MUSTER_GLOBAL one *out");
    struct binding binding;
    begin();
    struct muster_kernel *kernel = load("k.c", in_unknown, NULL);
    CHECK_STATUS(MUSTER_E_INVALID, bind(&binding, kernel, 0, 0, 0, NULL));
    CHECK_CONTAINS("size of an item is unknown", problem.text);
    MUST(bind(&binding, kernel, 12, 0, 0, NULL));
    CHECK_EQUAL(12, binding.args[0].bytes);
    CHECK_EQUAL(12, binding.args[1].bytes);
    CHECK_EQUAL(1, binding_item_bytes(kernel, 0));
    muster_kernel_destroy(kernel);
    kernel = load("k.c", out_unknown, NULL);
    MUST(bind(&binding, kernel, 0, 0, 0, NULL));
    CHECK_EQUAL(4, binding.args[0].bytes);
    CHECK_EQUAL(4, binding.args[1].bytes);
    MUST(bind(&binding, kernel, 8, 20, 0, NULL));
    CHECK_EQUAL(8, binding.args[0].bytes);
    CHECK_EQUAL(20, binding.args[1].bytes);
    muster_kernel_destroy(kernel);
    end();
}

/* An item of the input is what the pointer to const points to, wherever that stands. */
static void the_input_s_size_is_found_among_the_others(void)
{
    static const char *const sources[] = {
        SOURCE(", MUSTER_GLOBAL double *out, MUSTER_GLOBAL const float *in"),
        SOURCE(", const uint64_t items, MUSTER_GLOBAL const float *in, MUSTER_GLOBAL double *out"),
        SOURCE(", uint8_t n, const uint8_t k, MUSTER_GLOBAL double *out, MUSTER_GLOBAL const float "
               "*in"),
    };
    begin();
    for (size_t i = 0; i < COUNT_OF(sources); i++) {
        struct muster_kernel *kernel = load("k.c", sources[i], NULL);
        CHECK_EQUAL(4, binding_item_bytes(kernel, 0));
        CHECK_EQUAL(1, binding_item_bytes(kernel, 1));
        muster_kernel_destroy(kernel);
    }
    struct muster_kernel *kernel =
        load("k.c",
             "MUSTER_KERNEL void k(uint64_t i, MUSTER_GLOBAL double *out)\n{\n    out[i] = 1;\n}\n",
             NULL);
    CHECK_EQUAL(1, binding_item_bytes(kernel, 0));
    muster_kernel_destroy(kernel);
    end();
}

static void kernels_that_cannot_be_bound_are_refused(void)
{
    static const struct {
        const char *source, *words;
    } cases[] = {
        { SOURCE(", MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *out, uint32_t first"),
          "cannot be a uint32_t" },
        { SOURCE(", MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *out, uint8_t width"),
          "width is 300" },
        { SOURCE(", MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *out, uint64_t nothing"),
          "unknown for this input" },
        { SOURCE(", MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *out,"
                 " MUSTER_GLOBAL float *more"),
          "pointer more is an output" },
        { SOURCE(", MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *out,"
                 " MUSTER_GLOBAL const float *more"),
          "pointer more is an input" },
        { "MUSTER_KERNEL void k(uint64_t i, MUSTER_GLOBAL float *out)\n{\n    out[i] = 1;\n}\n",
          "has no input" },
        { "MUSTER_KERNEL void k(uint64_t i, MUSTER_GLOBAL const float *in)\n{\n    "
          "(void)in[i];\n}\n",
          "has no output" },
    };
    struct binding binding;
    begin();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct muster_kernel *kernel = load("k.c", cases[i].source, NULL);
        CHECK_STATUS(MUSTER_E_INVALID, bind(&binding, kernel, 0, 0, 0, NULL));
        CHECK_CONTAINS(cases[i].words, problem.text);
        muster_kernel_destroy(kernel);
    }
    end();
}

static void without_a_source_the_order_and_the_types_are_given(void)
{
    struct binding binding;
    begin();
    struct muster_kernel *kernel =
        load("k.cl",
             "__kernel void k(__global const float *a, __global float *b) { b[0] = a[0]; }\n", "k");
    const char *const good[] = { "gain=float:1.5", "first", "width", "n=int8_t:-1" };
    MUST(bind(&binding, kernel, 12, 0, 4, good));
    CHECK_EQUAL(6, binding.count);
    CHECK_EQUAL(12, binding.item_bytes);
    CHECK_EQUAL(12, binding.out_item_bytes);
    static const int kinds[] = { MUSTER_ARG_SOURCE, MUSTER_ARG_OUT,   MUSTER_ARG_VALUE,
                                 MUSTER_ARG_FIRST,  MUSTER_ARG_VALUE, MUSTER_ARG_VALUE };
    static const size_t sizes[] = { 12, 12, 4, 0, 8, 1 };
    for (size_t i = 0; i < binding.count; i++) {
        CHECK_EQUAL(kinds[i], binding.args[i].kind);
        CHECK_EQUAL(sizes[i], binding.args[i].bytes);
    }
    float gain;
    uint64_t width;
    memcpy(&gain, binding.values[2], sizeof gain);
    memcpy(&width, binding.values[4], sizeof width);
    CHECK(gain == 1.5f && width == 300 && binding.values[5][0] == 255);
    MUST(bind(&binding, kernel, 12, 16, 0, NULL));
    CHECK_EQUAL(2, binding.count);
    CHECK_EQUAL(16, binding.args[1].bytes);
    CHECK_EQUAL(1, binding_item_bytes(kernel, 0));
    static const struct {
        const char *argument, *words;
    } bad[] = { { "gain=1.5", "needs a type" },
                { "gain=long:1", "needs a type" },
                { "gain", "needs a type" },
                { "gain=float:x", "is no value" },
                { "nothing", "unknown" },
                { "first=uint64_t:1", "set by Muster" },
                { "width=uint64_t:1", "set by Muster" } };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK_STATUS(MUSTER_E_INVALID, bind(&binding, kernel, 12, 0, 1, &bad[i].argument));
        CHECK_CONTAINS(bad[i].words, problem.text);
        /* Also before others that are good. */
        const char *const two[] = { bad[i].argument, "n=int8_t:1" };
        CHECK_STATUS(MUSTER_E_INVALID, bind(&binding, kernel, 12, 0, 2, two));
    }
    CHECK_STATUS(MUSTER_E_INVALID, bind(&binding, kernel, 0, 4, 0, NULL));
    CHECK_CONTAINS("size of an item", problem.text);
    /* As many arguments as there can be, and one more. */
    char text[MUSTER_ARGS_MAX + 1][24];
    const char *many[MUSTER_ARGS_MAX + 1];
    for (size_t i = 0; i <= MUSTER_ARGS_MAX; i++) {
        snprintf(text[i], sizeof text[i], "v%zu=uint8_t:1", i);
        many[i] = text[i];
    }
    MUST(bind(&binding, kernel, 12, 0, MUSTER_ARGS_MAX - 2, many));
    CHECK_EQUAL(MUSTER_ARGS_MAX, binding.count);
    CHECK_STATUS(MUSTER_E_INVALID, bind(&binding, kernel, 12, 0, MUSTER_ARGS_MAX - 1, many));
    CHECK_STATUS(MUSTER_E_INVALID, bind(&binding, kernel, 12, 0, MUSTER_ARGS_MAX, many));
    CHECK_STATUS(MUSTER_E_INVALID, bind(&binding, kernel, 12, 0, MUSTER_ARGS_MAX + 1, many));
    muster_kernel_destroy(kernel);
    end();
}

/* Maps. */

#define BYTES_SOURCE SOURCE(", MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out")

static char kernel_path[128], in_path[128], out_path[128];
static const char *kernel_list = kernel_path;

static struct map_options usual(void)
{
    return (struct map_options){ .kernels = &kernel_list,
                                 .kernel_count = 1,
                                 .in = in_path,
                                 .out = out_path,
                                 .run = { .size = sizeof(struct muster_run_options) } };
}

/* Two frames of 4 x 2, the second with a line of its own. */
#define VIDEO "YUV4MPEG2 W4 H2 Cmono\nFRAME\n01234567FRAME Ip\n89abcdef"

static void begin_map(const char *input)
{
    begin();
    snprintf(kernel_path, sizeof kernel_path, "%s", in_folder("k.c"));
    snprintf(in_path, sizeof in_path, "%s", in_folder("in"));
    snprintf(out_path, sizeof out_path, "%s", in_folder("out"));
    write_text("k.c", BYTES_SOURCE);
    write_text("in", input);
}

/* The kernel for items of this many bytes. */
static void write_kernel_of(size_t bytes)
{
    char source[400];
    snprintf(source, sizeof source,
             "#include <muster_kernel.h>\n"
             "MUSTER_KERNEL void k(uint64_t i, MUSTER_GLOBAL const uint8_t *in,\n"
             "                     MUSTER_GLOBAL uint8_t *out)\n"
             "{\n"
             "    for (uint32_t k = 0; k < %zu; k++)\n"
             "        out[i * %zu + k] = in[i * %zu + k];\n"
             "}\n",
             bytes, bytes, bytes);
    write_text("k.c", source);
}

static muster_status run(const struct map_options *options, enum map_part *part)
{
    struct map *map = NULL;
    muster_status status = map_create(m, options, &map, part, &problem);
    if (status == MUSTER_OK) {
        *part = MAP_DEVICES;
        status = map_start(map, options, &problem);
        if (status == MUSTER_OK)
            status = map_wait(map, NULL, part, &problem);
        if (status == MUSTER_OK)
            status = map_finish(map, part, &problem);
    }
    map_destroy(map);
    return status;
}

static void check_text(const char *path, const char *expected)
{
    size_t bytes;
    unsigned char *content = load_file(path, &bytes);
    CHECK_EQUAL(strlen(expected), bytes);
    CHECK(memcmp(expected, content, bytes) == 0);
    free(content);
    CHECK(unlink(path) == 0);
}

static void a_video_is_mapped_frame_by_frame(void)
{
    begin_map(VIDEO);
    enum map_part part;
    struct map_options options = usual();
    MUST(run(&options, &part));
    check_text(out_path, VIDEO);
    options.format = MAP_VIDEO;
    options.run.unit_items = 1;
    options.run.window_bytes = 16;
    MUST(run(&options, &part));
    check_text(out_path, VIDEO);
    /* The same as records, if it is said to be. */
    options = usual();
    options.format = MAP_RECORDS;
    options.item_bytes = 1;
    MUST(run(&options, &part));
    check_text(out_path, VIDEO);
    struct map *map = NULL;
    struct map_facts known;
    options = usual();
    MUST(map_create(m, &options, &map, &part, &problem));
    map_facts(map, &known);
    CHECK(known.is_video && known.width == 4 && known.height == 2);
    CHECK_EQUAL(16, known.bytes);
    CHECK_EQUAL(1, known.item_bytes);
    CHECK(map_file(map, true) != map_file(map, false) && !map_job(map));
    map_destroy(map);
    CHECK_EQUAL(2, count_files());
    end();
}

static void what_does_not_fit_a_video_is_refused(void)
{
    begin_map(VIDEO);
    enum { ITEM, OUT_ITEM, UNORDERED, WINDOW, HALO, UNIT, WAYS };
    static const enum map_part parts[WAYS] = { MAP_KERNEL,  MAP_KERNEL,  MAP_KERNEL,
                                               MAP_DEVICES, MAP_DEVICES, MAP_DEVICES };
    static const muster_status statuses[WAYS] = { MUSTER_E_INVALID,   MUSTER_E_INVALID,
                                                  MUSTER_E_INVALID,   MUSTER_E_INVALID,
                                                  MUSTER_E_TOO_LARGE, MUSTER_E_TOO_LARGE };
    for (int way = 0; way < WAYS; way++) {
        enum map_part part = MAP_OUTPUT;
        struct map_options options = usual();
        options.item_bytes = way == ITEM ? 1 : 0;
        options.out_item_bytes = way == OUT_ITEM ? 1 : 0;
        options.run.unordered = way == UNORDERED;
        options.run.window_bytes = way == WINDOW ? 15 : 0;
        options.halo = way == HALO ? UINT64_MAX / 8 + 1 : 0;
        options.run.unit_items = way == UNIT ? UINT64_MAX / 8 + 1 : 0;
        CHECK_STATUS(statuses[way], run(&options, &part));
        CHECK_EQUAL(statuses[way], problem.status);
        CHECK_EQUAL(parts[way], part);
        CHECK_EQUAL(2, count_files());
    }
    static const struct {
        const char *text, *words;
    } damaged[] = {
        { "YUV4MPEG2 W4 H2 Cmono", "header has no end within 21 bytes" },
        { "YUV4MPEG2 W4 H2 C420jpeg Cmono\n", "has 'Cmono', which is unknown, or has it twice" },
        { "YUV4MPEG2 W4 H2 Cmono\nFRAME\n0123", "within frame 0, counted from 0: 4 bytes" },
        { "YUV4MPEG2 W4 H2 Cmono\nFRAME\n01234567FRAME\n0",
          "within frame 1, counted from 0: 7 bytes" },
        { "YUV4MPEG2 W4 H2 Cmono\nFRAM", "within frame 0, counted from 0: 10 bytes" },
        { "YUV4MPEG2 W4 H2 Cmono\nFRAMES\n01234567", "where frame 0" },
        { "YUV4MPEG2 W4 H2 Cmono\nGRAME\n01234567", "where frame 0" },
        { "YUV4MPEG2 W4 H2 Cmono\nFRAME\n01234567FRAME x", "line of frame 1" },
    };
    for (size_t i = 0; i < COUNT_OF(damaged); i++) {
        enum map_part part = MAP_OUTPUT;
        struct map_options options = usual();
        write_text("in", damaged[i].text);
        CHECK_STATUS(MUSTER_E_PARSE, run(&options, &part));
        CHECK_EQUAL(MAP_INPUT, part);
        CHECK_CONTAINS(damaged[i].words, problem.text);
        CHECK_EQUAL(2, count_files());
    }
    write_text("in", "no video");
    enum map_part part = MAP_OUTPUT;
    struct map_options options = usual();
    options.format = MAP_VIDEO;
    CHECK_STATUS(MUSTER_E_PARSE, run(&options, &part));
    CHECK_EQUAL(MAP_INPUT, part);
    end();
}

static void records_need_a_whole_number_of_items(void)
{
    begin_map("0123456789");
    enum map_part part;
    struct map_options options = usual();
    options.item_bytes = 5;
    options.out_item_bytes = 5;
    /* The kernel is for items of one byte. */
    CHECK_STATUS(MUSTER_E_INVALID, run(&options, &part));
    CHECK_CONTAINS("an item has 5", problem.text);
    write_kernel_of(5);
    MUST(run(&options, &part));
    unlink(out_path);
    options.item_bytes = 3;
    CHECK_STATUS(MUSTER_E_INVALID, run(&options, &part));
    CHECK_EQUAL(MAP_INPUT, part);
    CHECK_EQUAL(2, count_files());
    /* What the runtime does not start. */
    write_text("k.c", BYTES_SOURCE);
    options = usual();
    options.run.policy = "nonsense";
    struct map *map = NULL;
    MUST(map_create(m, &options, &map, &part, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, map_start(map, &options, &problem));
    CHECK_CONTAINS("nonsense", problem.text);
    CHECK(!map_job(map));
    map_destroy(map);
    CHECK_EQUAL(2, count_files());
    /* A cancel before the start is not lost. */
    map = NULL;
    options = usual();
    MUST(map_create(m, &options, &map, &part, &problem));
    struct map_facts known;
    map_facts(map, &known);
    CHECK(!known.is_video && known.bytes == 10 && known.item_bytes == 1);
    map_cancel(map);
    muster_status status = map_start(map, &options, &problem);
    if (status == MUSTER_OK)
        status = map_wait(map, NULL, &part, &problem);
    if (status == MUSTER_OK)
        status = map_finish(map, &part, &problem);
    CHECK_STATUS(MUSTER_E_CANCELLED, status);
    map_destroy(map);
    CHECK_EQUAL(2, count_files());
    end();
}

/* The last that can go wrong: the output has no place any more. */
static void an_output_that_cannot_be_put_in_place_is_told(void)
{
    begin_map("0123456789");
    char inner[128], path[512];
    enum map_part part;
    struct map *map = NULL;
    struct map_options options = usual();
    snprintf(inner, sizeof inner, "%s", in_folder("inner"));
    CHECK_EQUAL(0, mkdir(inner, 0700));
    snprintf(out_path, sizeof out_path, "%s/out", inner);
    MUST(map_create(m, &options, &map, &part, &problem));
    MUST(map_start(map, &options, &problem));
    MUST(map_wait(map, NULL, &part, &problem));
    DIR *directory = opendir(inner);
    for (const struct dirent *entry; (entry = readdir(directory));) {
        snprintf(path, sizeof path, "%s/%s", inner, entry->d_name);
        unlink(path);
    }
    closedir(directory);
    CHECK_EQUAL(0, rmdir(inner));
    CHECK_STATUS(MUSTER_E_IO, map_finish(map, &part, &problem));
    CHECK_EQUAL(MAP_OUTPUT, part);
    map_destroy(map);
    CHECK_EQUAL(2, count_files());
    end();
}

/* Removes a folder with all that is in it. */
static void remove_inner(const char *which)
{
    char path[400];
    DIR *directory = opendir(which);
    for (const struct dirent *entry; directory && (entry = readdir(directory));) {
        snprintf(path, sizeof path, "%s/%s", which, entry->d_name);
        unlink(path);
    }
    closedir(directory);
    CHECK_EQUAL(0, rmdir(which));
}

/* Of several outputs each is put in its place, or none: what was there before stays. */
static void if_one_of_two_outputs_fails_neither_is_there(void)
{
    char inner[128], second[160];
    const char *more = second;
    begin_map("0123456789");
    write_text("k.c", "#include <muster_kernel.h>\n"
                      "MUSTER_KERNEL void k(uint64_t i, MUSTER_GLOBAL const uint8_t *in,\n"
                      "MUSTER_GLOBAL uint8_t *a, MUSTER_GLOBAL uint8_t *b)\n"
                      "{ a[i] = in[i]; b[i] = in[i]; }\n");
    snprintf(inner, sizeof inner, "%s", in_folder("inner"));
    snprintf(second, sizeof second, "%s/out", inner);
    for (int fails = 0; fails < 2; fails++) {
        enum map_part part = MAP_KERNEL;
        struct map *map = NULL;
        struct map_options options = usual();
        options.more_outs = &more;
        options.more_out_count = 1;
        CHECK_EQUAL(0, mkdir(inner, 0700));
        write_text("out", "before");
        MUST(map_create(m, &options, &map, &part, &problem));
        MUST(map_start(map, &options, &problem));
        MUST(map_wait(map, NULL, &part, &problem));
        if (fails)
            remove_inner(inner);
        CHECK_STATUS(fails ? MUSTER_E_IO : MUSTER_OK, map_finish(map, &part, &problem));
        map_destroy(map);
        check_text(out_path, fails ? "before" : "0123456789");
        if (!fails) {
            check_text(second, "0123456789");
            remove_inner(inner);
        }
        /* Of the first output no temporary one is left; check_text has removed it. */
        CHECK_EQUAL(2, count_files());
    }
    end();
}

struct feed {
    int descriptor;
    size_t bytes;
};

static const char text[] = "0123456789abcdefghijklmnopqrst";

static void *feed(void *argument)
{
    const struct feed *feed = argument;
    ssize_t written = write(feed->descriptor, text, feed->bytes);
    (void)written;
    close(feed->descriptor);
    return NULL;
}

/* Of a pipe the first bytes are looked at, and are gone: they still come first. */
static void what_was_looked_at_of_a_pipe_is_not_lost(void)
{
    begin_map("");
    int standard = dup(STDIN_FILENO);
    for (size_t item = 1; item <= 13; item += 3) {
        write_kernel_of(item);
        for (size_t bytes = 0; bytes <= 30; bytes += bytes < 12 ? 2 : 9) {
            int ends[2];
            CHECK(pipe(ends) == 0);
            CHECK_EQUAL(STDIN_FILENO, dup2(ends[0], STDIN_FILENO));
            close(ends[0]);
            struct feed what = { ends[1], bytes };
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, feed, &what) == 0);
            struct map_options options = usual();
            options.in = "-";
            options.item_bytes = options.out_item_bytes = item;
            options.run.unit_items = item % 2;
            enum map_part part;
            muster_status status = run(&options, &part);
            pthread_join(thread, NULL);
            CHECK_STATUS(bytes % item ? MUSTER_E_INVALID : MUSTER_OK, status);
            CHECK(status == MUSTER_OK || part == MAP_INPUT);
            struct stat about;
            CHECK_EQUAL(status == MUSTER_OK ? 0 : -1, stat(out_path, &about));
            CHECK(status != MUSTER_OK || (size_t)about.st_size == bytes);
            if (status == MUSTER_OK) {
                size_t found;
                unsigned char *content = load_file(out_path, &found);
                CHECK(memcmp(text, content, found) == 0);
                free(content);
            }
            unlink(out_path);
        }
    }
    CHECK_EQUAL(STDIN_FILENO, dup2(standard, STDIN_FILENO));
    close(standard);
    end();
}

/* Memory. */

static void memory_is_given_back_wherever_it_ends(void)
{
    static const char list[] = "needle\nneedles\nab\nnee\n\nx";
    static const char *const paths[] = { "/none", "-" };
    static const struct inputs_options reading = { .tree = { paths, 2, false, false },
                                                   .item_bytes = 64 };
    unsigned refused = 0;
    for (size_t n = 0; n < 40; n++) {
        size_t before = pieces;
        struct words words = { 0 };
        struct automaton automaton;
        struct backward backward = { 0 };
        struct inputs inputs;
        bool is_made = false, is_backward = false, has_inputs = false;
        refused_at = n;
        enum words_result added = words_add(&words, list, sizeof list - 1);
        CHECK(added == WORDS_ADDED || added == WORDS_NO_MEMORY);
        if (added == WORDS_ADDED) {
            CHECK_EQUAL(5, words.count);
            CHECK(words.has_empty);
            words_sort(&words);
            is_made = automaton_init(&automaton, &words, false);
        }
        if (is_made) {
            is_backward = backward_init(&backward, &automaton);
            CHECK_EQUAL(is_backward, backward.nodes != NULL && backward.lengths != NULL);
        }
        if (is_backward)
            has_inputs = inputs_init(&inputs, NULL, &reading);
        refused += refused_at == SIZE_MAX;
        refused_at = SIZE_MAX;
        CHECK_EQUAL(added == WORDS_ADDED && is_made && is_backward && has_inputs, refused <= n);
        if (has_inputs)
            inputs_deinit(&inputs);
        backward_deinit(&backward);
        backward_deinit(&backward);
        if (is_made)
            automaton_deinit(&automaton);
        words_deinit(&words);
        words_deinit(&words);
        CHECK_EQUAL(before, pieces);
    }
    CHECK(refused >= 6 && refused < 40);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(numbers_are_read_to_the_ends_of_their_types),
        TEST(real_numbers_are_read_where_they_fit),
        TEST(parameters_are_bound_by_their_names),
        TEST(sizes_that_the_source_does_not_tell_are_asked_for),
        TEST(the_input_s_size_is_found_among_the_others),
        TEST(kernels_that_cannot_be_bound_are_refused),
        TEST(without_a_source_the_order_and_the_types_are_given),
        TEST(a_video_is_mapped_frame_by_frame),
        TEST(what_does_not_fit_a_video_is_refused),
        TEST(records_need_a_whole_number_of_items),
        TEST(an_output_that_cannot_be_put_in_place_is_told),
        TEST(if_one_of_two_outputs_fails_neither_is_there),
        TEST(what_was_looked_at_of_a_pipe_is_not_lost),
        TEST(memory_is_given_back_wherever_it_ends),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
