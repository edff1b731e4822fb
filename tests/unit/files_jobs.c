/*
 * Jobs from file to file: byte for byte what the kernel makes of the input, whichever way the files
 * are read and written, however results come, and whatever happens half way.
 */
#include "files_support.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>

#define KIB ((size_t)1024)
#define FILE_BYTES (4096 * (size_t)TEST_BY_SANITIZER(2000, 1000, 400))

/* Arguments: SOURCE, VALUE size_t, OUT. Inverts every byte. */
static muster_status invert(uint64_t begin, uint64_t end, void *const *args)
{
    size_t item_bytes = *(const size_t *)args[1];
    const unsigned char *in = *(const unsigned char *const *)args[0] + begin * item_bytes;
    unsigned char *out = *(unsigned char *const *)args[2] + begin * item_bytes;
    size_t bytes = (end - begin) * item_bytes, i = 0;
    /* By words, for the sake of the sanitizers. */
    for (; i + sizeof(uint64_t) <= bytes; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, in + i, sizeof word);
        word = ~word;
        memcpy(out + i, &word, sizeof word);
    }
    for (; i < bytes; i++)
        out[i] = in[i] ^ 0xff;
    return MUSTER_OK;
}

/* A job and its files. */
struct flow {
    struct muster *m;
    size_t item_bytes;
    struct muster_file *in, *out;
    struct muster_kernel *kernel;
    struct muster_arg args[3];
    struct muster_job_desc desc;
    struct muster_run_options how;
};

static void describe(struct flow *flow)
{
    const struct muster_arg args[] = {
        { MUSTER_ARG_OF(MUSTER_ARG_SOURCE), .bytes = flow->item_bytes },
        MUSTER_VALUE(flow->item_bytes),
        { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = flow->item_bytes }
    };
    memcpy(flow->args, args, sizeof args);
    flow->kernel = kernel_of(flow->m, invert);
    flow->desc = (struct muster_job_desc){ .size = sizeof flow->desc,
                                           .kernel = flow->kernel,
                                           .items = MUSTER_ITEMS_UNKNOWN,
                                           .args = flow->args,
                                           .arg_count = COUNT_OF(flow->args),
                                           .sink = muster_file_sink,
                                           .sink_user = flow->out,
                                           .source = muster_file_source,
                                           .source_user = flow->in,
                                           .options = &flow->how };
    flow->how =
        (struct muster_run_options){ .size = sizeof flow->how, .devices = "cpu:0", .kept_max = 8 };
}

static muster_status run_flow(struct flow *flow)
{
    struct muster_job *job;
    MUST(muster_start(flow->m, &flow->desc, &job, &problem));
    muster_status status = muster_job_wait(job, NULL, &problem);
    muster_job_destroy(job);
    return status;
}

/* Bytes [from, from + bytes) of the file are the pattern's first, inverted. */
UNWATCHED static void check_inverted(const char *path, size_t from, size_t bytes, size_t total)
{
    size_t found;
    unsigned char *content = load_file(path, &found);
    CHECK_EQUAL(total, found);
    for (size_t i = 0; i < bytes; i++)
        content[from + i] ^= 0xff;
    check_bytes(content + from, 0, bytes);
    free(content);
}

struct setting {
    size_t item_bytes, items;
    uint32_t kept_max;
    uint64_t unit_items, window;
    int unordered;
};

static const struct setting settings[] = {
    { 4096, 700, 8, 0, 0, 0 },   { 512, 3000, 8, 100, 1000, 0 }, { 4096, 600, 0, 16, 64, 0 },
    { 7, 30011, 4, 1000, 0, 0 }, { 4096, 700, 8, 16, 128, 1 },   { 100, 5003, 100, 10, 300, 1 },
    { 1 << 20, 5, 2, 1, 3, 0 },  { 65536, 40, 8, 4, 16, 1 },     { 1, 3, 8, 0, 0, 0 },
};

static void run_setting(struct muster *m, const struct setting *setting, const struct way *way)
{
    struct flow flow = { .m = m, .item_bytes = setting->item_bytes };
    struct muster_file_options options = options_of(way, setting->item_bytes);
    size_t bytes = setting->item_bytes * setting->items;
    uint64_t items;
    options.piece_bytes = 64 * KIB;
    options.depth = 8;
    options.no_sync = 1;
    flow.in = open_way(m, in_folder("in"), false, &options);
    options.bytes = setting->unordered ? bytes : 0;
    flow.out = open_way(m, in_folder("out"), true, &options);
    if (flow.in && flow.out) {
        MUST(muster_file_items(flow.in, &items, &problem));
        CHECK_EQUAL(setting->items, items);
        describe(&flow);
        flow.desc.items = setting->kept_max > 0 ? items : MUSTER_ITEMS_UNKNOWN;
        flow.how.kept_max = setting->kept_max;
        flow.how.unit_items = setting->unit_items;
        flow.how.window = setting->window;
        flow.how.unordered = setting->unordered;
        CHECK_STATUS(MUSTER_OK, run_flow(&flow));
        MUST(muster_file_finish(flow.in, &problem));
        MUST(muster_file_finish(flow.out, &problem));
        check_inverted(in_folder("out"), 0, bytes, bytes);
        muster_kernel_destroy(flow.kernel);
        unlink(in_folder("out"));
    }
    muster_file_close(flow.in);
    muster_file_close(flow.out);
}

static void from_file_to_file_every_byte_is_right(void)
{
    struct muster *m = open_plain();
    make_folder();
    for (size_t s = 0; s < COUNT_OF(settings); s++) {
        make_file("in", settings[s].item_bytes * settings[s].items);
        for (size_t w = 0; w < COUNT_OF(ways); w++)
            for (unsigned i = 0; i < test_repetitions(1); i++)
                run_setting(m, &settings[s], &ways[w]);
    }
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void open_flow(struct flow *flow, struct muster *m, size_t item_bytes)
{
    *flow = (struct flow){ .m = m, .item_bytes = item_bytes };
    flow->in = open_reading(m, in_folder("in"), item_bytes);
    flow->out = open_writing(m, in_folder("out"), item_bytes);
    describe(flow);
}

static void close_flow(struct flow *flow)
{
    muster_file_close(flow->in);
    muster_file_close(flow->out);
    MUST(muster_close(flow->m, &problem));
    remove_folder();
}

/* A lost device, headers, and one job behind the other into the same file. */

static void headers_and_jobs_follow_each_other_in_a_file(void)
{
    struct flow flow;
    make_folder();
    make_file("in", 100000);
    open_flow(&flow, open_plain(), 1000);
    MUST(muster_file_write(flow.out, "head", 4, &problem));
    CHECK_STATUS(MUSTER_OK, run_flow(&flow));
    MUST(muster_file_write(flow.out, "middle", 6, &problem));
    muster_file_close(flow.in);
    flow.in = open_reading(flow.m, in_folder("in"), 1000);
    flow.desc.source_user = flow.in;
    CHECK_STATUS(MUSTER_OK, run_flow(&flow));
    MUST(muster_file_write(flow.out, "end", 3, &problem));
    MUST(muster_file_finish(flow.out, &problem));
    check_inverted(in_folder("out"), 4, 100000, 200013);
    check_inverted(in_folder("out"), 100010, 100000, 200013);
    size_t bytes;
    unsigned char *content = load_file(in_folder("out"), &bytes);
    CHECK(memcmp(content, "head", 4) == 0 && memcmp(content + 100004, "middle", 6) == 0 &&
          memcmp(content + 200010, "end", 3) == 0);
    free(content);
    close_flow(&flow);
}

/* However many calls read at once, a job begins where the file stands and leaves it after its items. */
static void jobs_and_reads_follow_each_other_in_a_file(void)
{
    static const uint32_t calls[] = { 0, 1, 3, 64 };
    const size_t items = 3000, item_bytes = 100, bytes = 10 + items * item_bytes + 5;
    make_folder();
    make_file("in", 2 * bytes);
    for (size_t w = 0; w < COUNT_OF(ways); w++)
        for (size_t c = 0; c < COUNT_OF(calls); c++) {
            struct flow flow = { .m = open_plain(), .item_bytes = item_bytes };
            struct muster_file_options options = options_of(&ways[w], item_bytes);
            unsigned char head[10], tail[5];
            size_t got;
            options.no_sync = 1;
            options.piece_bytes = 8 * KIB;
            flow.in = open_way(flow.m, in_folder("in"), false, &options);
            flow.out = flow.in ? open_way(flow.m, in_folder("out"), true, &options) : NULL;
            for (size_t half = 0; half < 2 && flow.out; half++) {
                MUST(muster_file_read(flow.in, head, sizeof head, &got, &problem));
                CHECK_EQUAL(sizeof head, got);
                check_bytes(head, half * bytes, sizeof head);
                describe(&flow);
                flow.desc.items = items;
                flow.desc.source_calls = calls[c];
                flow.how.window = 2000;
                flow.how.unit_items = 50;
                CHECK_STATUS(MUSTER_OK, run_flow(&flow));
                MUST(muster_file_read(flow.in, tail, sizeof tail, &got, &problem));
                CHECK_EQUAL(sizeof tail, got);
                check_bytes(tail, (half + 1) * bytes - sizeof tail, sizeof tail);
                muster_kernel_destroy(flow.kernel);
            }
            if (flow.out) {
                MUST(muster_file_finish(flow.out, &problem));
                size_t found;
                unsigned char *content = load_file(in_folder("out"), &found);
                CHECK_EQUAL(2 * items * item_bytes, found);
                for (size_t i = 0; i < found; i++)
                    content[i] ^= 0xff;
                check_bytes(content, 10, items * item_bytes);
                check_bytes(content + items * item_bytes, bytes + 10, items * item_bytes);
                free(content);
            }
            muster_file_close(flow.in);
            muster_file_close(flow.out);
            MUST(muster_close(flow.m, &problem));
        }
    remove_folder();
}

static void a_lost_device_does_not_show_in_the_file(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct flow flow;
    options.cpu_workers = 2;
    options.sim = "[{\"count\": 1, \"items_per_s\": 1e6, \"memory\": \"64MiB\","
                  "  \"faults\": [{\"kind\": \"lost\", \"at_ms\": 2}]}]";
    make_folder();
    make_file("in", FILE_BYTES);
    open_flow(&flow, open_with(options), 4096);
    flow.how.devices = NULL;
    flow.how.unit_items = 8;
    CHECK_STATUS(MUSTER_OK, run_flow(&flow));
    MUST(muster_file_finish(flow.out, &problem));
    check_inverted(in_folder("out"), 0, FILE_BYTES, FILE_BYTES);
    close_flow(&flow);
}

static void a_remainder_is_refused_padded_or_ignored(void)
{
    static const int64_t ends_at[] = { -1, 1100, 1000 };
    make_folder();
    make_file("in", 1050);
    for (size_t i = 0; i < COUNT_OF(ends_at); i++) {
        struct muster *m = open_plain();
        struct flow flow = { .m = m, .item_bytes = 100 };
        struct muster_file_options options = options_of(NULL, 100);
        uint64_t items = 77;
        options.remainder = (enum muster_remainder)i;
        flow.in = open_way(m, in_folder("in"), false, &options);
        flow.out = open_way(m, in_folder("out"), true, &options);
        describe(&flow);
        muster_status status = muster_file_items(flow.in, &items, &problem);
        if (ends_at[i] < 0) {
            CHECK_STATUS(MUSTER_E_INVALID, status);
            CHECK_CONTAINS("no whole number of items of 100 bytes: 50 bytes remain", problem.text);
            CHECK_STATUS(MUSTER_E_INVALID, run_flow(&flow));
            CHECK_STATUS(MUSTER_E_INVALID, muster_file_finish(flow.in, &problem));
            CHECK_CONTAINS("50 bytes remain", problem.text);
        } else {
            CHECK_STATUS(MUSTER_OK, status);
            CHECK_EQUAL(ends_at[i] / 100, items);
            flow.desc.items = items;
            CHECK_STATUS(MUSTER_OK, run_flow(&flow));
            MUST(muster_file_finish(flow.out, &problem));
            check_inverted(in_folder("out"), 0, ends_at[i] == 1100 ? 1050 : 1000,
                           (size_t)ends_at[i]);
        }
        muster_file_close(flow.in);
        muster_file_close(flow.out);
        MUST(muster_close(m, &problem));
    }
    CHECK_EQUAL(2, count_files());
    remove_folder();
}

/* Memory of one job is not taken for that of the next. */

static void run_registered(size_t piece_bytes, uint64_t window, uint64_t unit_items)
{
    const struct way way = { "io_uring", MUSTER_DIRECT_ALWAYS };
    const size_t half = TEST_BY_SANITIZER(12, 12, 6) << 20, bytes = 2 * half;
    struct muster *m = open_plain();
    struct muster_file_options options = options_of(&way, 4096);
    struct rlimit locked;
    CHECK(getrlimit(RLIMIT_MEMLOCK, &locked) == 0);
    make_folder();
    make_file("in", bytes);
    for (unsigned i = 0; i < 2; i++) {
        struct flow flow = { .m = m, .item_bytes = 4096 };
        options.no_sync = 1;
        options.piece_bytes = piece_bytes;
        flow.in = open_way(m, in_folder("in"), false, &options);
        flow.out = open_way(m, in_folder("out"), true, &options);
        if (flow.in && flow.out) {
            describe(&flow);
            flow.desc.items = half / 4096;
            flow.how.window = window;
            flow.how.unit_items = unit_items;
            CHECK_STATUS(MUSTER_OK, run_flow(&flow));
            /* The same files, and memory that is likely to lie where the first job's was. */
            CHECK_STATUS(MUSTER_OK, run_flow(&flow));
            MUST(muster_file_finish(flow.out, &problem));
            check_inverted(in_folder("out"), 0, bytes, bytes);
            struct muster_file_report in = report_of(flow.in), out = report_of(flow.out);
            CHECK_EQUAL(0, in.copied_by_system + in.copied_by_muster);
            CHECK_EQUAL(0, out.copied_by_system + out.copied_by_muster);
            CHECK(locked.rlim_cur < 8 << 20 || (in.memory_fixed > 0 && out.memory_fixed > 0));
            /* No more than the job has; the window lies there twice, one round after the other. */
            uint64_t job_bytes;
            MUST(muster_job_memory_estimate(m, &flow.desc, &job_bytes, &problem));
            CHECK(in.memory_fixed <= 2 * window * 4096 && out.memory_fixed <= job_bytes);
            CHECK_TEXT("io_uring direct", in.engine);
            CHECK_TEXT("io_uring direct", out.engine);
            muster_kernel_destroy(flow.kernel);
        }
        muster_file_close(flow.in);
        muster_file_close(flow.out);
    }
    remove_folder();
    MUST(muster_close(m, &problem));
}

static void memory_of_a_job_is_forgotten_with_it(void)
{
    run_registered(0, 1024, 512);
}

/* Memory is registered by the mebibyte, and a request may have more. */
static void requests_may_be_larger_than_what_is_registered_at_a_time(void)
{
    run_registered(3 << 20, 4096, 1024);
}

/* Pipes. */

struct feeder {
    int to;
    size_t bytes;
};

static void *feed_pipe(void *argument)
{
    const struct feeder *feeder = argument;
    unsigned char bytes[5000];
    for (size_t done = 0; done < feeder->bytes;) {
        size_t count = sizeof bytes < feeder->bytes - done ? sizeof bytes : feeder->bytes - done;
        fill_bytes(bytes, done, count);
        ssize_t step = write(feeder->to, bytes, count);
        if (step <= 0)
            break;
        done += (size_t)step;
    }
    close(feeder->to);
    return NULL;
}

struct drain {
    int from;
    size_t bytes, until; /* closes its end after this many */
    bool is_wrong;
};

static void *drain_pipe(void *argument)
{
    struct drain *drain = argument;
    unsigned char bytes[3000];
    ssize_t step;
    while (drain->bytes < drain->until && (step = read(drain->from, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < step; i++, drain->bytes++)
            drain->is_wrong |= (bytes[i] ^ 0xff) != byte_at(drain->bytes);
    close(drain->from);
    return NULL;
}

static void run_pipes(size_t until, muster_status expected)
{
    struct flow flow = { .m = open_plain(), .item_bytes = 300 };
    struct muster_file_options options = options_of(NULL, 300);
    int in[2], out[2];
    pthread_t threads[2];
    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    struct feeder feeder = { in[1], 300 * 10000 };
    struct drain drain = { .from = out[0], .until = until };
    options.descriptor = in[0];
    MUST(muster_file_read_open(flow.m, NULL, &options, &flow.in, &problem));
    options.descriptor = out[1];
    MUST(muster_file_write_open(flow.m, NULL, &options, &flow.out, &problem));
    describe(&flow);
    CHECK(pthread_create(&threads[0], NULL, feed_pipe, &feeder) == 0);
    CHECK(pthread_create(&threads[1], NULL, drain_pipe, &drain) == 0);
    CHECK_STATUS(expected, run_flow(&flow));
    CHECK_STATUS(expected, muster_file_finish(flow.out, &problem));
    if (expected != MUSTER_OK)
        CHECK_CONTAINS("Broken pipe", problem.text);
    muster_file_close(flow.out);
    muster_file_close(flow.in);
    close(out[1]);
    close(in[0]);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    CHECK(!drain.is_wrong);
    CHECK(expected != MUSTER_OK || drain.bytes == 300 * 10000);
    MUST(muster_close(flow.m, &problem));
}

static void from_pipe_to_pipe_every_byte_is_right(void)
{
    signal(SIGPIPE, SIG_IGN); /* the feeder's own */
    run_pipes(SIZE_MAX, MUSTER_OK);
}

/* What is written comes out before more is given, of a job and beside it. */
struct live {
    int out;
    unsigned given, missing;
};

static bool comes(int descriptor, char expected)
{
    struct pollfd ready = { .fd = descriptor, .events = POLLIN };
    char got = 0;
    return poll(&ready, 1, 10000) == 1 && read(descriptor, &got, 1) == 1 && got == expected;
}

static int64_t give_one(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct live *live = user;
    (void)begin;
    (void)items;
    (void)bytes;
    live->missing += live->given > 0 && !comes(live->out, (char)~live->given);
    *(char *)to = (char)++live->given;
    return live->given <= 5 ? 1 : 0;
}

static void a_result_does_not_wait_for_the_next_one(void)
{
    struct flow flow = { .m = open_plain(), .item_bytes = 1 };
    struct muster_file_options options = options_of(NULL, 1);
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    struct live live = { .out = ends[0] };
    options.descriptor = ends[1];
    MUST(muster_file_write_open(flow.m, NULL, &options, &flow.out, &problem));
    MUST(muster_file_write(flow.out, "x", 1, &problem));
    MUST(muster_file_flush(flow.out, &problem));
    CHECK(comes(ends[0], 'x'));
    describe(&flow);
    flow.desc.source = give_one;
    flow.desc.source_user = &live;
    CHECK_STATUS(MUSTER_OK, run_flow(&flow));
    CHECK_EQUAL(0, live.missing);
    CHECK_EQUAL(6, live.given);
    MUST(muster_file_finish(flow.out, &problem));
    muster_file_close(flow.out);
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_flush(NULL, &problem));
    close(ends[0]);
    close(ends[1]);
    muster_kernel_destroy(flow.kernel);
    MUST(muster_close(flow.m, &problem));
}

static void a_pipe_that_closes_half_way_fails_the_job(void)
{
    signal(SIGPIPE, SIG_IGN);
    run_pipes(100000, MUSTER_E_IO);
}

static void a_job_that_waits_for_a_pipe_can_be_stopped(void)
{
    for (unsigned i = 0; i < test_repetitions(6); i++) {
        struct flow flow = { .m = open_plain(), .item_bytes = 8 };
        struct muster_file_options options = options_of(NULL, 8);
        struct muster_job *job;
        int ends[2];
        make_folder();
        CHECK(pipe2(ends, O_CLOEXEC) == 0);
        options.descriptor = ends[0];
        MUST(muster_file_read_open(flow.m, NULL, &options, &flow.in, &problem));
        flow.out = open_writing(flow.m, in_folder("out"), 8);
        describe(&flow);
        MUST(muster_start(flow.m, &flow.desc, &job, &problem));
        CHECK(write(ends[1], "12345678", 8) == 8);
        /* By hand, or with the runtime. */
        if (i % 2 == 0) {
            muster_file_cancel(flow.in);
            CHECK_STATUS(MUSTER_E_CANCELLED, muster_job_wait(job, NULL, &problem));
            muster_job_destroy(job);
            muster_file_close(flow.out);
            muster_file_close(flow.in);
        }
        MUST(muster_close(flow.m, &problem));
        CHECK_EQUAL(0, count_files());
        close(ends[0]);
        close(ends[1]);
        remove_folder();
    }
}

/* A disk that is full half way: the job fails, and nothing is left. */
static void a_write_that_fails_fails_the_job(void)
{
    struct rlimit before, limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        struct flow flow = { .m = open_plain(), .item_bytes = 4096 };
        struct muster_file_options options = options_of(&ways[w], 4096);
        make_folder();
        make_file("in", 4096 * 1000);
        limit = before;
        limit.rlim_cur = 4096 * 300;
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        flow.in = open_way(flow.m, in_folder("in"), false, &options);
        flow.out = open_way(flow.m, in_folder("out"), true, &options);
        if (flow.in && flow.out) {
            describe(&flow);
            flow.how.unit_items = 10;
            CHECK_STATUS(MUSTER_E_IO, run_flow(&flow));
            CHECK_STATUS(MUSTER_E_IO, muster_file_finish(flow.out, &problem));
            CHECK_EQUAL(EFBIG, problem.driver_code);
            CHECK_CONTAINS("the old content stays", problem.text);
            CHECK_EQUAL(1, count_files());
        }
        CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
        close_flow(&flow);
    }
}

static void *finish_file(void *argument)
{
    muster_file_finish(argument, NULL);
    return NULL;
}

/* Two threads wait for the same writes. */
static void a_file_is_finished_while_its_job_goes(void)
{
    for (unsigned i = 0; i < test_repetitions(8); i++) {
        struct flow flow = { .m = open_plain(), .item_bytes = 4096 };
        struct muster_file_options options = options_of(&ways[i % COUNT_OF(ways)], 4096);
        struct muster_job *job;
        pthread_t thread;
        make_folder();
        make_file("in", 125 * 4096);
        options.piece_bytes = 8 * KIB;
        flow.in = open_way(flow.m, in_folder("in"), false, &options);
        flow.out = open_way(flow.m, in_folder("out"), true, &options);
        if (flow.in && flow.out) {
            describe(&flow);
            flow.how.unit_items = 20;
            flow.how.kept_max = 60;
            MUST(muster_start(flow.m, &flow.desc, &job, &problem));
            CHECK_STATUS(MUSTER_OK, muster_job_wait(job, NULL, &problem));
            CHECK(pthread_create(&thread, NULL, finish_file, flow.out) == 0);
            muster_job_destroy(job);
            pthread_join(thread, NULL);
            check_inverted(in_folder("out"), 0, 125 * 4096, 125 * 4096);
        }
        close_flow(&flow);
    }
}

/* A job is destroyed, and its file closed or not, while results are being written. */
static void a_job_may_go_while_its_results_are_written(void)
{
    for (unsigned i = 0; i < test_repetitions(8); i++) {
        struct flow flow = { .m = open_plain(), .item_bytes = 4096 };
        struct muster_file_options options = options_of(&ways[i % COUNT_OF(ways)], 4096);
        struct muster_job *job;
        make_folder();
        make_file("in", FILE_BYTES);
        flow.in = open_way(flow.m, in_folder("in"), false, &options);
        flow.out = open_way(flow.m, in_folder("out"), true, &options);
        if (flow.in && flow.out) {
            describe(&flow);
            flow.how.unit_items = 20;
            flow.how.kept_max = 60;
            MUST(muster_start(flow.m, &flow.desc, &job, &problem));
            if (i % 3 > 0)
                CHECK_STATUS(MUSTER_OK, muster_job_wait(job, NULL, &problem));
            if (i % 3 < 2)
                muster_job_destroy(job);
            if (i % 3 == 1) {
                MUST(muster_file_finish(flow.out, &problem));
                check_inverted(in_folder("out"), 0, FILE_BYTES, FILE_BYTES);
            }
        }
        if (i % 2) {
            MUST(muster_close(flow.m, &problem));
            remove_folder();
        } else {
            close_flow(&flow);
        }
    }
}

static void a_sink_that_does_not_fit_its_file_is_told(void)
{
    struct flow flow;
    make_folder();
    make_file("in", 10000);
    open_flow(&flow, open_plain(), 100);
    muster_file_close(flow.out);
    struct muster_file_options options = options_of(NULL, 100);
    options.output = 1;
    flow.out = open_way(flow.m, in_folder("out"), true, &options);
    flow.desc.sink_user = flow.out;
    CHECK_STATUS(MUSTER_E_INVALID, run_flow(&flow));
    CHECK_STATUS(MUSTER_E_INVALID, muster_file_finish(flow.out, &problem));
    CHECK_CONTAINS("no such output", problem.text);
    close_flow(&flow);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(from_file_to_file_every_byte_is_right),
        TEST(headers_and_jobs_follow_each_other_in_a_file),
        TEST(jobs_and_reads_follow_each_other_in_a_file),
        TEST(a_lost_device_does_not_show_in_the_file),
        TEST(a_remainder_is_refused_padded_or_ignored),
        TEST(memory_of_a_job_is_forgotten_with_it),
        TEST(requests_may_be_larger_than_what_is_registered_at_a_time),
        TEST(from_pipe_to_pipe_every_byte_is_right),
        TEST(a_result_does_not_wait_for_the_next_one),
        TEST(a_pipe_that_closes_half_way_fails_the_job),
        TEST(a_job_that_waits_for_a_pipe_can_be_stopped),
        TEST(a_write_that_fails_fails_the_job),
        TEST(a_file_is_finished_while_its_job_goes),
        TEST(a_job_may_go_while_its_results_are_written),
        TEST(a_sink_that_does_not_fit_its_file_is_told),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
