/*
 * The text of a trace: names of any bytes, tracks of a device that has several units, times before
 * the origin, and writers that fail.
 */
#include "trace_support.h"

static struct muster_error problem;

static struct muster_trace_writer *make(struct text *text, uint64_t origin_ns)
{
    const struct muster_trace_writer_options options = { .size = sizeof options,
                                                         .title = "a \"title\"\n",
                                                         .write = keep_text,
                                                         .user = text,
                                                         .origin_ns = origin_ns };
    struct muster_trace_writer *writer = NULL;
    CHECK_STATUS(MUSTER_OK, muster_trace_writer_create(&options, &writer, &problem));
    return writer;
}

static struct shown_trace end(struct muster_trace_writer *writer, struct text *text,
                              uint64_t dropped)
{
    CHECK_STATUS(MUSTER_OK, muster_trace_writer_end(writer, dropped, &problem));
    muster_trace_writer_destroy(writer);
    struct shown_trace trace = read_trace(text);
    free(text->bytes);
    return trace;
}

static void add_unit(struct muster_trace_writer *writer, uint32_t device, uint64_t begin_ns,
                     uint64_t end_ns)
{
    muster_trace_writer_add(writer,
                            &(struct muster_trace_event){ .size = sizeof(struct muster_trace_event),
                                                          .kind = MUSTER_TRACE_UNIT,
                                                          .begin_ns = begin_ns,
                                                          .end_ns = end_ns,
                                                          .range = { begin_ns, end_ns },
                                                          .device = device });
}

#define REPLACED "\xef\xbf\xbd"

static void any_name_makes_valid_text(void)
{
    static const struct {
        const char *given, *shown;
    } names[] = {
        { "plain", "plain" },
        { "a \"b\" \\c\t", "a \"b\" \\c\t" },
        { "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
          "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80" },
        { "cut \xe2\x82", "cut \xef\xbf\xbd\xef\xbf\xbd" },
        /* The first and the last characters of each length, and what lies just beyond. */
        { "\x1f\x20\x7e\x7f\xc2\x80\xdf\xbf", "\x1f\x20\x7e\x7f\xc2\x80\xdf\xbf" },
        { "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf",
          "\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf" },
        { "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf" },
        { "\xf4\x90\x80\x80.", REPLACED REPLACED REPLACED REPLACED "." },
        { "\xf0\x8f\xbf\xbf.", REPLACED REPLACED REPLACED REPLACED "." },
        { "\xe0\x9f\xbf.", REPLACED REPLACED REPLACED "." },
        { "\xc1\xbf.", REPLACED REPLACED "." },
        { "\xed\xbf\xbf.", REPLACED REPLACED REPLACED "." },
        { "\xf8\x88\x80\x80.", REPLACED REPLACED REPLACED REPLACED "." },
        { "\x80\xbf\xc3.", REPLACED REPLACED REPLACED "." },
        { "\xff\xc0\xaf\xed\xa0\x80",
          "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
    };
    struct text text = { NULL, 0 };
    struct muster_trace_writer *writer = make(&text, 0);
    for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
        muster_trace_writer_name(writer, i, "x", names[i].given);
    struct shown_trace trace = end(writer, &text, 0);
    size_t found = 0;
    for (size_t i = 0; i < trace.count; i++) {
        if (strcmp(trace.events[i].name, "thread_name") != 0)
            continue;
        CHECK_TEXT(names[trace.events[i].tid - 1].shown, trace.events[i].label + 2);
        found++;
    }
    CHECK_EQUAL(sizeof names / sizeof *names, found);
    free(trace.events);
}

static void units_at_the_same_time_have_tracks_of_their_own(void)
{
    struct text text = { NULL, 0 };
    struct muster_trace_writer *writer = make(&text, 0);
    /* In the order in which they end, ever more of them at a time. */
    for (uint64_t i = 0; i < 500; i++)
        add_unit(writer, 3, 100 * i, 100 * i + 150 + 3 * i);
    struct shown_trace trace = end(writer, &text, 7);
    CHECK_EQUAL(7, trace.dropped);
    CHECK_EQUAL(500, count_kind(&trace, "unit"));
    check_tracks(&trace);
    size_t named = 0;
    for (size_t i = 0; i < trace.count; i++)
        named += strcmp(trace.events[i].name, "thread_name") == 0;
    CHECK(named > 10 && named < 30);
    free(trace.events);
}

static void what_began_before_the_origin_is_cut(void)
{
    struct text text = { NULL, 0 };
    struct muster_trace_writer *writer = make(&text, 1000);
    add_unit(writer, 0, 950, 1300);
    add_unit(writer, 0, 1300, 1500);
    struct shown_trace trace = end(writer, &text, 0);
    check_tracks(&trace);
    CHECK_EQUAL(0, trace.events[0].begin_ns);
    for (size_t i = 0; i < trace.count; i++)
        if (trace.events[i].first == 950)
            CHECK_EQUAL(300, trace.events[i].length_ns);
    free(trace.events);
}

static void add_stage(struct muster_trace_writer *writer, uint32_t job, uint32_t stream,
                      uint64_t begin_ns, uint64_t end_ns)
{
    muster_trace_writer_add(writer,
                            &(struct muster_trace_event){ .size = sizeof(struct muster_trace_event),
                                                          .kind = MUSTER_TRACE_STAGE,
                                                          .begin_ns = begin_ns,
                                                          .end_ns = end_ns,
                                                          .range = { begin_ns, end_ns },
                                                          .device = 2,
                                                          .job = job,
                                                          .thread = stream,
                                                          .name = "a \"b\" \xe2\x82" });
}

static size_t count_tracks(const struct shown_trace *trace, const char *label)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->count; i++)
        count += strcmp(trace->events[i].name, "thread_name") == 0 && trace->events[i].pid == 4 &&
                 strcmp(trace->events[i].label, label) == 0;
    return count;
}

static void streams_of_a_job_have_tracks_of_their_own(void)
{
    struct text text = { NULL, 0 };
    struct muster_trace_writer *writer = make(&text, 0);
    /* Two jobs at once, then one that takes over what the first had. */
    for (uint64_t i = 0; i < 100; i++) {
        add_stage(writer, 1, 1, 100 * i, 100 * i + 60);
        add_stage(writer, 1, 2, 100 * i + 30, 100 * i + 130);
        add_stage(writer, 2, 1, 100 * i + 70, 100 * i + 90);
        /* Host stages run at the same time. */
        add_stage(writer, 1, 0, 100 * i, 100 * i + 150);
    }
    muster_trace_writer_add(writer,
                            &(struct muster_trace_event){ .size = sizeof(struct muster_trace_event),
                                                          .kind = MUSTER_TRACE_JOB,
                                                          .end_ns = 10200,
                                                          .job = 1 });
    add_stage(writer, 3, 1, 10300, 10400);
    add_stage(writer, 3, 2, 10300, 10400);
    muster_trace_writer_name(writer, 2, "x", "y");
    struct shown_trace trace = end(writer, &text, 0);
    check_tracks(&trace);
    CHECK_EQUAL(402, count_kind(&trace, "stage"));
    CHECK_EQUAL(2, count_tracks(&trace, "x stream 1"));
    CHECK_EQUAL(1, count_tracks(&trace, "x stream 2"));
    CHECK_EQUAL(2, count_tracks(&trace, "x host"));
    for (size_t i = 0; i < trace.count; i++)
        if (is_kind(&trace.events[i], "stage"))
            CHECK_TEXT("a \"b\" \xef\xbf\xbd\xef\xbf\xbd", trace.events[i].name);
    free(trace.events);
}

static void an_empty_trace_is_text_too(void)
{
    struct text text = { NULL, 0 };
    struct shown_trace trace = end(make(&text, 0), &text, 0);
    CHECK_EQUAL(1, trace.count); /* the title */
    CHECK_TEXT("a \"title\"\n", trace.events[0].label);
    free(trace.events);
}

static muster_status refuse(void *user, const char *text, size_t bytes)
{
    unsigned *calls = user;
    (void)text, (void)bytes;
    ++*calls;
    return MUSTER_E_DRIVER;
}

static void the_first_failure_sticks(void)
{
    unsigned calls = 0;
    struct muster_trace_writer_options options = { .size = sizeof options,
                                                   .write = refuse,
                                                   .user = &calls };
    struct muster_trace_writer *writer;
    CHECK_STATUS(MUSTER_OK, muster_trace_writer_create(&options, &writer, &problem));
    for (uint64_t i = 0; i < 10000; i++)
        add_unit(writer, 0, i, i + 1);
    CHECK_EQUAL(1, calls);
    CHECK_STATUS(MUSTER_E_DRIVER, muster_trace_writer_end(writer, 0, &problem));
    CHECK_EQUAL(1, calls);
    muster_trace_writer_destroy(writer);

    struct text text = { NULL, 0 };
    const struct muster_trace_event wrong[] = {
        { .size = sizeof *wrong, .kind = 0 },
        { .size = sizeof *wrong, .kind = 77 },
        { .size = sizeof *wrong, .kind = MUSTER_TRACE_UNIT, .outcome = 9 },
        { .size = sizeof *wrong, .kind = MUSTER_TRACE_UNIT, .begin_ns = 2, .end_ns = 1 },
        { .size = sizeof *wrong,
          .kind = MUSTER_TRACE_STAGE,
          .name = "no zero byte, so that it would be read beyond --" },
    };
    CHECK(wrong[4].name[sizeof wrong[4].name - 1] == '-');
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        writer = make(&text, 0);
        muster_trace_writer_add(writer, &wrong[i]);
        CHECK_STATUS(MUSTER_E_INVALID, muster_trace_writer_end(writer, 0, &problem));
        muster_trace_writer_destroy(writer);
    }
    writer = make(&text, 0);
    add_unit(writer, UINT32_MAX, 0, 1);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_trace_writer_end(writer, 0, &problem));
    muster_trace_writer_destroy(writer);
    free(text.bytes);
    options.write = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_trace_writer_create(&options, &writer, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_trace_writer_end(NULL, 0, &problem));
    muster_trace_writer_destroy(NULL);
}

/* Memory that is counted, and ends after this many pieces. */
struct ending {
    size_t bytes, pieces;
    unsigned left;
};

static void *take_some(void *user, size_t bytes, size_t alignment)
{
    struct ending *ending = user;
    if (ending->left == 0)
        return NULL;
    ending->left--;
    ending->pieces++;
    ending->bytes += bytes;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void give_back(void *user, void *memory, size_t bytes)
{
    struct ending *ending = user;
    ending->pieces--;
    ending->bytes -= bytes;
    free(memory);
}

static muster_status drop_text(void *user, const char *text, size_t bytes)
{
    (void)user, (void)text, (void)bytes;
    return MUSTER_OK;
}

/* Many devices, tracks and streams, so that every list grows more than once. */
static muster_status write_much(struct muster_trace_writer *writer)
{
    for (uint32_t device = 0; device < 300; device += 7)
        muster_trace_writer_name(writer, device, "x", "y");
    for (uint64_t i = 0; i < 40; i++)
        add_unit(writer, 400, i, 1000 + i);
    for (uint32_t stream = 0; stream < 40; stream++)
        add_stage(writer, 1, stream, 10 * stream, 10 * stream + 5);
    muster_trace_writer_name(writer, 900, "x", "y");
    return muster_trace_writer_end(writer, 0, &problem);
}

static void all_memory_is_given_back(void)
{
    struct ending ending = { .left = 0 };
    const struct muster_trace_writer_options options = {
        .size = sizeof options,
        .write = drop_text,
        .allocator = &(const struct muster_allocator){ sizeof(struct muster_allocator), take_some,
                                                       give_back, &ending },
    };
    muster_status status = MUSTER_E_NO_MEMORY;
    for (unsigned n = 0; status != MUSTER_OK; n++) {
        struct muster_trace_writer *writer = NULL;
        ending.left = n;
        status = muster_trace_writer_create(&options, &writer, &problem);
        CHECK_EQUAL(n == 0, status != MUSTER_OK);
        if (status == MUSTER_OK)
            status = write_much(writer);
        CHECK(status == MUSTER_OK || status == MUSTER_E_NO_MEMORY);
        muster_trace_writer_destroy(writer);
        CHECK_EQUAL(0, ending.pieces);
        CHECK_EQUAL(0, ending.bytes);
        CHECK(n > 8 || status != MUSTER_OK);
    }
}

static void *take_little(void *user, size_t bytes, size_t alignment)
{
    return bytes < 1 << 20 ? take_some(user, bytes, alignment) : NULL;
}

/* The tracks of a device are numbered so that no two devices share one: up to 2^21 - 1 devices. */
static void devices_have_a_limit(void)
{
    static const struct {
        uint32_t device;
        muster_status status;
    } cases[] = { { (1 << 21) - 2, MUSTER_E_NO_MEMORY },
                  { (1 << 21) - 1, MUSTER_E_TOO_LARGE },
                  { 1 << 21, MUSTER_E_TOO_LARGE },
                  { UINT32_MAX, MUSTER_E_TOO_LARGE } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ending ending = { .left = 100 };
        const struct muster_trace_writer_options options = {
            .size = sizeof options,
            .write = drop_text,
            .allocator = &(const struct muster_allocator){ sizeof(struct muster_allocator),
                                                           take_little, give_back, &ending },
        };
        struct muster_trace_writer *writer = NULL;
        CHECK_STATUS(MUSTER_OK, muster_trace_writer_create(&options, &writer, &problem));
        add_unit(writer, cases[i].device, 0, 1);
        CHECK_STATUS(cases[i].status, muster_trace_writer_end(writer, 0, &problem));
        muster_trace_writer_destroy(writer);
        CHECK_EQUAL(0, ending.pieces);
    }
}

/* What an event does not have is not shown of it. */
static void an_event_shows_what_it_has(void)
{
    struct text text = { NULL, 0 };
    struct muster_trace_event event = { .size = sizeof event,
                                        .kind = MUSTER_TRACE_UNIT,
                                        .end_ns = 5 };
    struct muster_trace_writer *writer = make(&text, 0);
    muster_trace_writer_add(NULL, &event);
    muster_trace_writer_add(writer, NULL);
    muster_trace_writer_add(writer, &event);
    CHECK_STATUS(MUSTER_OK, muster_trace_writer_end(writer, 0, &problem));
    muster_trace_writer_destroy(writer);
    CHECK(!strstr(text.bytes, "\"job\"") && !strstr(text.bytes, "\"bytes\"") &&
          !strstr(text.bytes, "\"status\""));
    CHECK_CONTAINS("\"retry\":false,\"copy\":false", text.bytes);
    free(text.bytes);
    text = (struct text){ NULL, 0 };
    writer = make(&text, 0);
    event.job = 1;
    event.bytes = 1;
    event.status = MUSTER_E_PARSE;
    event.is_retry = event.is_copy = true;
    muster_trace_writer_add(writer, &event);
    CHECK_STATUS(MUSTER_OK, muster_trace_writer_end(writer, 0, &problem));
    muster_trace_writer_destroy(writer);
    CHECK_CONTAINS("\"retry\":true,\"copy\":true", text.bytes);
    CHECK_CONTAINS("\"bytes\":1,\"job\":1}", text.bytes);
    CHECK_CONTAINS("\"status\":\"MUSTER_E_PARSE\"", text.bytes);
    free(text.bytes);
}

/* A name that cannot be given is a failure like any other. */
static void a_device_that_cannot_be_named_is_told(void)
{
    struct text text = { NULL, 0 };
    struct muster_trace_writer *writer = make(&text, 0);
    muster_trace_writer_name(writer, 0, NULL, "y");
    muster_trace_writer_name(writer, 0, "x", NULL);
    muster_trace_writer_name(NULL, 0, "x", "y");
    muster_trace_writer_name(writer, UINT32_MAX, "x", "y");
    size_t bytes = text.count;
    muster_trace_writer_name(writer, 0, "x", "y");
    add_unit(writer, 0, 0, 1);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_trace_writer_end(writer, 0, &problem));
    CHECK_EQUAL(bytes, text.count);
    muster_trace_writer_destroy(writer);
    free(text.bytes);
}

/* A trace with every kind of event, to the byte: what readers of it rely on. */
static void the_text_is_as_it_was(void)
{
    static const char expected[] =
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":0.000,\"dur\":1.999,\"name\":\"[0, "
        "8)\",\"cat\":\"unit\",\"args\":{\"outcome\":\"done\",\"begin\":0,\"end\":8,\"retry\":"
        "false,\"copy\":false,\"bytes\":64,\"job\":1}},\n"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":2097154,\"ts\":1.000,\"dur\":2.001,\"name\":\"[8, "
        "9)\",\"cat\":\"unit\",\"args\":{\"outcome\":\"late\",\"begin\":8,\"end\":9,\"retry\":"
        "false,\"copy\":true,\"job\":1}},\n"
        "{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":2.000,\"dur\":0.500,\"name\":\"[0, "
        "8)\",\"cat\":\"delivery\",\"args\":{\"outcome\":\"done\",\"begin\":0,\"end\":8,\"job\":1}}"
        ",\n"
        "{\"ph\":\"X\",\"pid\":3,\"tid\":5,\"ts\":2.000,\"dur\":0.100,\"name\":\"task\",\"cat\":"
        "\"task\",\"args\":{\"outcome\":\"failed\",\"status\":\"MUSTER_E_FAILED\"}},\n"
        "{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":1.999,\"dur\":0.101,\"name\":\"task\",\"cat\":"
        "\"task\",\"args\":{\"outcome\":\"done\"}},\n"
        "{\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":2,\"ts\":2.000,\"name\":\"data\",\"cat\":"
        "\"data\",\"args\":{\"device\":1,\"bytes\":5}},\n"
        "{\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":71,\"ts\":2.000,\"name\":\"pick\",\"cat\":"
        "\"pick\",\"args\":{\"device\":70}},\n"
        "{\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":2,\"ts\":2.000,\"name\":\"device "
        "lost\",\"cat\":\"device lost\",\"args\":{\"device\":1,\"job\":1}},\n"
        "{\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":2,\"ts\":2.000,\"name\":\"device "
        "hung\",\"cat\":\"device hung\",\"args\":{\"device\":1}},\n"
        "{\"ph\":\"i\",\"s\":\"t\",\"pid\":1,\"tid\":2,\"ts\":2.000,\"name\":\"device "
        "back\",\"cat\":\"device back\",\"args\":{\"device\":1}},\n"
        "{\"ph\":\"X\",\"pid\":4,\"tid\":2,\"ts\":2.000,\"dur\":0.200,\"name\":\"up\",\"cat\":"
        "\"stage\",\"args\":{\"outcome\":\"done\",\"begin\":0,\"end\":8,\"job\":2}},\n"
        "{\"ph\":\"X\",\"pid\":4,\"tid\":2,\"ts\":2.200,\"dur\":0.100,\"name\":\"wait\",\"cat\":"
        "\"stall\",\"args\":{\"outcome\":\"done\",\"job\":2}},\n"
        "{\"ph\":\"X\",\"pid\":4,\"tid\":2097154,\"ts\":2.000,\"dur\":0.200,\"name\":\"host\","
        "\"cat\":\"stage\",\"args\":{\"outcome\":\"done\",\"begin\":0,\"end\":8,\"job\":2}},\n"
        "{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":0.000,\"dur\":4.000,\"name\":\"job "
        "1\",\"cat\":\"job\",\"args\":{\"outcome\":\"lost\",\"status\":\"MUSTER_E_FAILED\","
        "\"begin\":0,\"end\":9,\"job\":1}},\n"
        "{\"ph\":\"M\",\"pid\":1,\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":\"sim:1 "
        "fast\"}},\n"
        "{\"ph\":\"M\",\"pid\":1,\"tid\":2,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":"
        "64}},\n"
        "{\"ph\":\"M\",\"pid\":1,\"tid\":2097154,\"name\":\"thread_name\",\"args\":{\"name\":\"sim:"
        "1 fast (2)\"}},\n"
        "{\"ph\":\"M\",\"pid\":1,\"tid\":2097154,\"name\":\"thread_sort_index\",\"args\":{\"sort_"
        "index\":65}},\n"
        "{\"ph\":\"M\",\"pid\":4,\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":\"sim:1 "
        "stream 1\"}},\n"
        "{\"ph\":\"M\",\"pid\":4,\"tid\":2,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":"
        "64}},\n"
        "{\"ph\":\"M\",\"pid\":4,\"tid\":2097154,\"name\":\"thread_name\",\"args\":{\"name\":\"sim:"
        "1 host\"}},\n"
        "{\"ph\":\"M\",\"pid\":4,\"tid\":2097154,\"name\":\"thread_sort_index\",\"args\":{\"sort_"
        "index\":65}},\n"
        "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"a "
        "\\u0022title\\u0022\\u000a\"}},\n"
        "{\"ph\":\"M\",\"pid\":2,\"name\":\"process_name\",\"args\":{\"name\":\"jobs\"}},\n"
        "{\"ph\":\"M\",\"pid\":3,\"name\":\"process_name\",\"args\":{\"name\":\"threads\"}},\n"
        "{\"ph\":\"M\",\"pid\":4,\"name\":\"process_name\",\"args\":{\"name\":\"pipelines\"}},\n"
        "{\"ph\":\"M\",\"pid\":1,\"tid\":71,\"name\":\"thread_name\",\"args\":{\"name\":\"device "
        "\"}},\n"
        "{\"ph\":\"M\",\"pid\":1,\"tid\":71,\"name\":\"thread_sort_index\",\"args\":{\"sort_"
        "index\":4480}}\n"
        "],\"otherData\":{\"writer\":\"muster " MUSTER_VERSION_STRING "\",\"dropped\":3}}\n";
    static const struct muster_trace_event events[] = {
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_UNIT,
          .begin_ns = 1000,
          .end_ns = 2999,
          .range = { 0, 8 },
          .bytes = 64,
          .device = 1,
          .job = 1 },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_UNIT,
          .outcome = MUSTER_TRACE_LATE,
          .begin_ns = 2000,
          .end_ns = 4001,
          .range = { 8, 9 },
          .device = 1,
          .job = 1,
          .is_copy = true },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_DELIVERY,
          .begin_ns = 3000,
          .end_ns = 3500,
          .range = { 0, 8 },
          .job = 1 },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_TASK,
          .outcome = MUSTER_TRACE_FAILED,
          .begin_ns = 3000,
          .end_ns = 3100,
          .thread = 5,
          .status = MUSTER_E_FAILED },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_TASK,
          .begin_ns = 2999,
          .end_ns = 3100,
          .device = 1 },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_DATA,
          .begin_ns = 3000,
          .end_ns = 3000,
          .bytes = 5,
          .device = 1 },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_PICK,
          .begin_ns = 3000,
          .end_ns = 3000,
          .device = 70 },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_DEVICE_LOST,
          .begin_ns = 3000,
          .end_ns = 3000,
          .device = 1,
          .job = 1 },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_DEVICE_HUNG,
          .begin_ns = 3000,
          .end_ns = 3000,
          .device = 1 },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_DEVICE_BACK,
          .begin_ns = 3000,
          .end_ns = 3000,
          .device = 1 },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_STAGE,
          .begin_ns = 3000,
          .end_ns = 3200,
          .range = { 0, 8 },
          .device = 1,
          .job = 2,
          .thread = 1,
          .name = "up" },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_STALL,
          .begin_ns = 3200,
          .end_ns = 3300,
          .device = 1,
          .job = 2,
          .thread = 1,
          .name = "wait" },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_STAGE,
          .begin_ns = 3000,
          .end_ns = 3200,
          .range = { 0, 8 },
          .device = 1,
          .job = 2,
          .name = "host" },
        { .size = sizeof *events,
          .kind = MUSTER_TRACE_JOB,
          .outcome = MUSTER_TRACE_LOST,
          .begin_ns = 0,
          .end_ns = 5000,
          .range = { 0, 9 },
          .job = 1,
          .status = MUSTER_E_FAILED },
    };
    struct text text = { NULL, 0 };
    struct muster_trace_writer *writer = make(&text, 1000);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        muster_trace_writer_add(writer, &events[i]);
    muster_trace_writer_name(writer, 1, "sim:1", "fast");
    CHECK_STATUS(MUSTER_OK, muster_trace_writer_end(writer, 3, &problem));
    muster_trace_writer_destroy(writer);
    CHECK_TEXT(expected, text.bytes);
    free(text.bytes);
}

struct pieces {
    struct text text;
    size_t largest, count;
};

static muster_status keep_piece(void *user, const char *text, size_t bytes)
{
    struct pieces *pieces = user;
    pieces->largest = bytes > pieces->largest ? bytes : pieces->largest;
    pieces->count++;
    return keep_text(&pieces->text, text, bytes);
}

/* Much text comes in large pieces, and nothing of it is lost or comes twice between them. */
static void much_text_comes_in_pieces(void)
{
    struct pieces pieces = { .count = 0 };
    const struct muster_trace_writer_options options = { .size = sizeof options,
                                                         .write = keep_piece,
                                                         .user = &pieces };
    struct muster_trace_writer *writer = NULL;
    CHECK_STATUS(MUSTER_OK, muster_trace_writer_create(&options, &writer, &problem));
    for (uint64_t i = 0; i < 3000; i++)
        add_unit(writer, 0, i, i + 1);
    CHECK(pieces.count > 0);
    CHECK_STATUS(MUSTER_OK, muster_trace_writer_end(writer, 0, &problem));
    muster_trace_writer_destroy(writer);
    CHECK(pieces.largest > 8192 && pieces.largest <= 65536);
    CHECK(pieces.count < 3000 * 256 / 8192);
    struct shown_trace trace = read_trace(&pieces.text);
    CHECK_EQUAL(3000, count_kind(&trace, "unit"));
    check_tracks(&trace);
    free(trace.events);
    free(pieces.text.bytes);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(any_name_makes_valid_text),
        TEST(units_at_the_same_time_have_tracks_of_their_own),
        TEST(what_began_before_the_origin_is_cut),
        TEST(streams_of_a_job_have_tracks_of_their_own),
        TEST(an_empty_trace_is_text_too),
        TEST(all_memory_is_given_back),
        TEST(devices_have_a_limit),
        TEST(a_device_that_cannot_be_named_is_told),
        TEST(an_event_shows_what_it_has),
        TEST(the_first_failure_sticks),
        TEST(the_text_is_as_it_was),
        TEST(much_text_comes_in_pieces),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
