/*
 * The work of bench/together: words through a kernel, the cost of which is in the word itself. A run is
 * a job with a kernel, a pipeline of three stages, or the command `muster map` in a process of its own;
 * each run's results are compared byte by byte with what the host has computed.
 */
#ifndef BENCH_TOGETHER_WORK_H
#define BENCH_TOGETHER_WORK_H

#include "jobs.h"
#include "limit.h"
#include "together_rows.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define WORD sizeof(uint32_t)
/* A word is a number of VALUE_BITS, and above COST_SHIFT the binary logarithm of what it costs. */
#define VALUE_BITS 10
#define COST_SHIFT 28
#define COSTS 7
/* The mean of the costs, 1 to 64: each is half as frequent as the one before. */
#define COST_MEAN 4
/* An uneven job has this many stretches of items that cost the same. */
#define STRETCHES 512
/* A source repeats itself after this many words, and so do the results. */
#define PERIOD (UINT64_C(1) << 24)
#define ANSWER_MAX (1 << 20)
#define BATCH 16
/* Of threads that write and compare words between two runs, and of words for which it is worth while. */
#define HANDS_MAX 8
#define HANDS_WORDS (UINT64_C(1) << 18)

extern char **environ;

/* What a row does, at any size. */
struct work {
    const struct bench *bench;
    const struct row *row;
    struct muster *m;
    const char *command, *folder; /* of `muster map` */
    const char *sim, *slices;     /* for its environment; NULL: none */
    uint32_t rounds;              /* of an item, their mean if they are uneven */
    struct muster_kernel *kernel;
    struct muster_pipeline *pipeline;
    char source[1024]; /* the kernel's */
};

/* The words, what must become of them, and what has. As long as `capacity`; touched as far as used. */
static struct {
    uint32_t *in, *expected, *out;
    uint64_t capacity, items;
    uint32_t answers[COSTS][1 << VALUE_BITS];
} words;

/* One run. */
struct outcome {
    double seconds;
    size_t device_count;
    struct muster_job_device devices[REPORT_DEVICES_MAX];
};

static struct muster_error work_problem;

static inline bool is_level(const struct work *work, enum factor factor, int level)
{
    return work->row->level[factor] == level;
}

static inline void *words_memory(const struct bench *bench, uint64_t capacity)
{
    void *memory = malloc(capacity * WORD);
    if (!memory)
        stop(bench, "there is no memory for the words");
    return memory;
}

static inline void words_reserve(const struct bench *bench, uint64_t capacity)
{
    words.in = words_memory(bench, capacity);
    words.expected = words_memory(bench, capacity);
    words.out = words_memory(bench, capacity);
    words.capacity = capacity;
}

/* Several words at a time, so that the compiler may use vectors. */
static inline void change_batch(const uint32_t *in, uint32_t *out, uint32_t rounds)
{
    uint32_t batch[BATCH];
    memcpy(batch, in, sizeof batch);
    for (uint32_t r = 0; r < rounds; r++)
        for (int i = 0; i < BATCH; i++)
            batch[i] = (batch[i] ^ batch[i] >> 7) * 1664525u + 1013904223u;
    for (int i = 0; i < BATCH; i++)
        out[i] = batch[i] + 1;
}

static inline uint32_t work_rounds(const struct work *work, uint32_t cost)
{
    return is_level(work, ITEMS, UNEVEN) ? (work->rounds / COST_MEAN) << cost : work->rounds;
}

/* What becomes of each word that there is. */
static inline void words_answer(const struct work *work)
{
    for (uint32_t cost = 0; cost < COSTS; cost++)
        for (uint32_t value = 0; value < 1 << VALUE_BITS; value += BATCH) {
            uint32_t batch[BATCH];
            for (uint32_t i = 0; i < BATCH; i++)
                batch[i] = cost << COST_SHIFT | (value + i);
            change_batch(batch, &words.answers[cost][value], work_rounds(work, cost));
        }
}

static inline uint32_t words_look_up(uint32_t word)
{
    return words.answers[word >> COST_SHIFT][word & ((1u << VALUE_BITS) - 1)];
}

/* A range of the words, for one of several threads. */
struct hand {
    void (*work)(struct hand *hand);
    uint64_t begin, end;
    uint64_t stretch;
    bool is_wrong;
};

static inline void *hand_main(void *user)
{
    struct hand *hand = user;
    hand->work(hand);
    return NULL;
}

/* The first words, by several threads where there are many. Whether none found anything wrong. */
static inline bool words_each(void (*work)(struct hand *hand), uint64_t items, uint64_t stretch)
{
    struct hand hands[HANDS_MAX];
    pthread_t threads[HANDS_MAX];
    bool is_running[HANDS_MAX], is_right = true;
    uint64_t cores = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN), count = items / HANDS_WORDS + 1;
    count = count < cores ? count : cores;
    count = count < HANDS_MAX ? count : HANDS_MAX;
    for (uint64_t i = 0; i < count; i++) {
        hands[i] = (struct hand){ work, items / count * i,
                                  i + 1 < count ? items / count * (i + 1) : items, stretch, false };
        is_running[i] = i > 0 && pthread_create(&threads[i], NULL, hand_main, &hands[i]) == 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (is_running[i])
            pthread_join(threads[i], NULL);
        else
            work(&hands[i]);
        is_right = is_right && !hands[i].is_wrong;
    }
    return is_right;
}

static inline void hand_fill(struct hand *hand)
{
    for (uint64_t i = hand->begin; i < hand->end; i++) {
        uint64_t hash = (i / hand->stretch + 1) * 0x9e3779b97f4a7c15u;
        uint32_t cost = (uint32_t)__builtin_ctzll(hash >> 40 | 1u << (COSTS - 1));
        words.in[i] = cost << COST_SHIFT | (uint32_t)(i * 2654435761u) >> (32 - VALUE_BITS);
        words.expected[i] = words_look_up(words.in[i]);
    }
}

static inline void hand_clear(struct hand *hand)
{
    memset(words.out + hand->begin, 0xee, (hand->end - hand->begin) * WORD);
}

static inline void hand_compare(struct hand *hand)
{
    hand->is_wrong = memcmp(words.out + hand->begin, words.expected + hand->begin,
                            (hand->end - hand->begin) * WORD) != 0;
}

/* Words for a job of this many items, and their results; of a source its first period. */
static inline void words_fill(const struct work *work, uint64_t items)
{
    if (is_level(work, FROM, SOURCE) && !is_level(work, FORM, MAP) && items > PERIOD)
        items = PERIOD;
    if (items > words.capacity)
        stop(work->bench, "a row has more words than there is memory for");
    words_each(hand_fill, items, items / STRETCHES + 1);
    words.items = items;
}

/*
 * For rows whose items cost the same, where there are simulated devices: those look results up, so that
 * they take the time of their description and none of the processors'.
 */
static uint32_t function_rounds;

static inline muster_status work_function(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(void *const *)args[0];
    uint32_t *out = *(void *const *)args[1];
    bool is_looked_up = is_simulated();
    uint64_t i = begin;
    for (; !is_looked_up && i + BATCH <= end; i += BATCH)
        change_batch(in + i, out + i, function_rounds);
    for (; i < end; i++)
        out[i] = is_looked_up ? words_look_up(in[i]) : change(in[i], function_rounds);
    return MUSTER_OK;
}

static inline muster_status work_kernel(struct work *work)
{
    static const char form[] = "MUSTER_KERNEL void together(uint64_t i, MUSTER_GLOBAL const "
                               "uint32_t *in, MUSTER_GLOBAL uint32_t *out)\n"
                               "{\n"
                               "    uint32_t word = in[i];\n"
                               "    uint32_t rounds = %uu%s;\n"
                               "    for (uint32_t r = 0; r < rounds; r++)\n"
                               "        word = (word ^ word >> 7) * 1664525u + 1013904223u;\n"
                               "    out[i] = word + 1;\n"
                               "}\n";
    bool is_uneven = is_level(work, ITEMS, UNEVEN);
    snprintf(work->source, sizeof work->source, form, work_rounds(work, 0),
             is_uneven ? " << (word >> 28)" : "");
    struct muster_kernel_form kernel = { .size = sizeof kernel,
                                         .kind = MUSTER_KERNEL_PORTABLE,
                                         .code = work->source,
                                         .code_bytes = strlen(work->source),
                                         .entry = "together" };
    if (work->sim && !is_uneven) {
        function_rounds = work->rounds;
        kernel = (struct muster_kernel_form){ .size = sizeof kernel,
                                              .kind = MUSTER_KERNEL_FUNCTION,
                                              .function = work_function };
    }
    return muster_kernel_from(work->m, "together", &kernel, 1, &work->kernel, &work_problem);
}

static inline muster_status work_pipeline(struct work *work)
{
    enum { IN, D_IN, D_OUT, OUT, BUFFERS };
    const struct muster_buffer buffers[BUFFERS] = {
        [IN] = { sizeof *buffers, "in", MUSTER_HOST, WORD, 0, 0, MUSTER_INPUT },
        [D_IN] = { sizeof *buffers, "d_in", MUSTER_DEVICE, WORD, 0, 0, 0 },
        [D_OUT] = { sizeof *buffers, "d_out", MUSTER_DEVICE, WORD, 0, 0, 0 },
        [OUT] = { sizeof *buffers, "out", MUSTER_HOST, WORD, 0, 0, MUSTER_OUTPUT },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", 1u << IN, 1u << D_IN, .flags = MUSTER_COPY },
        { sizeof *stages, "change", "compute", 1u << D_IN, 1u << D_OUT, .kernel = work->kernel },
        { sizeof *stages, "down", "d2h", 1u << D_OUT, 1u << OUT, .flags = MUSTER_COPY },
    };
    return muster_pipeline_create(work->m, buffers, BUFFERS, stages, sizeof stages / sizeof *stages,
                                  NULL, &work->pipeline, &work_problem);
}

/* Stays until work_close. */
static inline void work_open(struct work *work)
{
    words.items = 0;
    words_answer(work);
    if (work_kernel(work) != MUSTER_OK ||
        (is_level(work, FORM, PIPELINE) && work_pipeline(work) != MUSTER_OK))
        stop(work->bench, work_problem.text);
}

static inline void work_close(struct work *work)
{
    muster_pipeline_destroy(work->pipeline);
    muster_kernel_destroy(work->kernel);
}

static inline int64_t work_supply(void *user, uint64_t begin, uint64_t items, void *to,
                                  size_t bytes)
{
    (void)user;
    (void)bytes;
    for (uint64_t done = 0; done < items;) {
        uint64_t at = (begin + done) % words.items, count = words.items - at;
        count = count < items - done ? count : items - done;
        memcpy((uint32_t *)to + done, words.in + at, count * WORD);
        done += count;
    }
    return (int64_t)items;
}

/* What a sink has seen. */
struct sunk {
    uint64_t items;
    bool is_ordered, is_wrong;
};

static inline muster_status work_sink(void *user, const struct muster_result *result)
{
    struct sunk *sunk = user;
    const uint32_t *out = result->outputs[0];
    uint64_t begin = result->range.begin, end = result->range.end;
    if (sunk->is_ordered && begin != sunk->items)
        sunk->is_wrong = true;
    for (uint64_t i = begin; i < end;) {
        uint64_t at = i % words.items, count = words.items - at;
        count = count < end - i ? count : end - i;
        if (memcmp(out + (i - begin), words.expected + at, count * WORD) != 0)
            sunk->is_wrong = true;
        i += count;
    }
    sunk->items += end - begin;
    return MUSTER_OK;
}

/* A job in this process, from the call that starts it to the return of the one that waits. */
static inline void work_run_here(const struct work *work, const char *devices, uint64_t items,
                                 struct outcome *outcome)
{
    bool has_source = is_level(work, FROM, SOURCE) && !is_level(work, FORM, MAP);
    struct sunk sunk = { .is_ordered = is_level(work, ORDER, ORDERED) };
    struct muster_run_options how = { .size = sizeof how,
                                      .devices = devices,
                                      .unordered = is_level(work, ORDER, UNORDERED) };
    struct muster_arg args[] = { { MUSTER_ARG_OF(has_source ? MUSTER_ARG_SOURCE : MUSTER_ARG_IN),
                                   .in = has_source ? NULL : words.in, .bytes = WORD },
                                 { MUSTER_ARG_OF(MUSTER_ARG_OUT),
                                   .out = has_source ? NULL : words.out, .bytes = WORD } };
    struct muster_job_desc desc = { .size = sizeof desc, .items = items, .options = &how };
    if (work->pipeline) {
        desc.pipeline = work->pipeline;
        desc.input = args[0].in;
        desc.output = args[1].out;
    } else {
        desc.kernel = work->kernel;
        desc.args = args;
        desc.arg_count = 2;
    }
    if (has_source) {
        desc.source = work_supply;
        desc.sink = work_sink;
        desc.sink_user = &sunk;
    } else {
        words_each(hand_clear, items, 1);
    }
    struct muster_report report = full_report(outcome->devices);
    struct muster_job *job;
    uint64_t begin_ns = clock_ns();
    if (muster_start(work->m, &desc, &job, &work_problem) != MUSTER_OK ||
        muster_job_wait(job, &report, &work_problem) != MUSTER_OK)
        stop(work->bench, work_problem.text);
    outcome->seconds = (double)(clock_ns() - begin_ns) / 1e9;
    outcome->device_count = report.device_count;
    muster_job_destroy(job);
    if (has_source ? sunk.is_wrong || sunk.items != items : !words_each(hand_compare, items, 1))
        stop(work->bench, "what was delivered is not in order, not all, or not right");
}

/* `muster map`: its files, its process, its report. */

static inline void work_path(const struct work *work, const char *name, char *path, size_t room)
{
    snprintf(path, room, "%s/%s", work->folder, name);
}

static inline void write_file(const struct work *work, const char *name, const void *bytes,
                              size_t size)
{
    char path[512];
    work_path(work, name, path, sizeof path);
    FILE *file = fopen(path, "w");
    bool is_written = file && fwrite(bytes, 1, size, file) == size;
    if (!file || fclose(file) != 0 || !is_written)
        stop(work->bench, path);
}

/* Once the words are there. */
static inline void work_write_files(const struct work *work, uint64_t items)
{
    write_file(work, "together.c", work->source, strlen(work->source));
    if (is_level(work, FROM, ARRAY))
        write_file(work, "in", words.in, items * WORD);
}

/* Writes the words to a pipe, whose reader may go away. */
struct feed {
    int to;
    uint64_t bytes;
};

static inline void *feed_main(void *user)
{
    struct feed *feed = user;
    for (uint64_t done = 0; done < feed->bytes;) {
        ssize_t count = write(feed->to, (const char *)words.in + done, feed->bytes - done);
        if (count < 0 && errno != EINTR)
            break;
        done += count > 0 ? (uint64_t)count : 0;
    }
    close(feed->to);
    return NULL;
}

/* This process's environment with the devices that are simulated or cut. */
static inline char **work_environment(const struct work *work, char (*own)[1024])
{
    size_t count = 0, filled = 0;
    while (environ[count])
        count++;
    char **all = malloc((count + 3) * sizeof *all);
    if (!all)
        stop(work->bench, "there is no memory for an environment");
    for (; filled < count; filled++)
        all[filled] = environ[filled];
    snprintf(own[0], sizeof own[0], "MUSTER_SIM=%s", work->sim ? work->sim : "");
    snprintf(own[1], sizeof own[1], "MUSTER_SLICES=%s", work->slices ? work->slices : "");
    if (work->sim)
        all[filled++] = own[0];
    if (work->slices)
        all[filled++] = own[1];
    all[filled] = NULL;
    return all;
}

/* Starts the command with these ends of pipes as its input (-1: none) and output. */
static inline pid_t work_spawn(const struct work *work, const char *devices, int in, int out)
{
    char kernel[512], from[512], to[512], own[2][1024];
    work_path(work, "together.c", kernel, sizeof kernel);
    work_path(work, "in", from, sizeof from);
    work_path(work, "out", to, sizeof to);
    const char *words_of[] = {
        work->command, "map",    "--kernel",
        kernel,        "--in",   in < 0 ? from : "-",
        "--out",       to,       "--devices",
        devices,       "--json", is_level(work, ORDER, UNORDERED) ? "--unordered" : NULL,
        NULL
    };
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (in >= 0)
        posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    char **environment = work_environment(work, own);
    pid_t process;
    if (posix_spawn(&process, work->command, &actions, NULL, (char **)(uintptr_t)words_of,
                    environment) != 0)
        stop(work->bench, "the command cannot be started; --muster says where it is");
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    return process;
}

/* All that comes out of it, with a terminator. */
static inline void read_answer(int from, char *answer)
{
    size_t filled = 0;
    for (ssize_t count = 1; count != 0 && filled + 1 < ANSWER_MAX;) {
        count = read(from, answer + filled, ANSWER_MAX - 1 - filled);
        if (count < 0 && errno != EINTR)
            break;
        filled += count > 0 ? (size_t)count : 0;
    }
    answer[filled] = 0;
}

static inline double answer_number(const struct work *work, const char *answer, const char *key)
{
    const char *at = strstr(answer, key);
    if (!at)
        stop(work->bench, "the report of muster map has not what it should have");
    return strtod(at + strlen(key), NULL);
}

static inline void read_report(const struct work *work, const char *answer, struct outcome *outcome)
{
    static const char id[] = "{\"id\":\"";
    outcome->seconds = answer_number(work, answer, "\"makespan_ns\":") / 1e9;
    outcome->device_count = 0;
    const char *at = strstr(answer, "\"devices\":[");
    while (at && (at = strstr(at, id)) && outcome->device_count < REPORT_DEVICES_MAX) {
        struct muster_job_device *device = &outcome->devices[outcome->device_count++];
        at += strlen(id);
        *device = (struct muster_job_device){ .size = sizeof *device };
        snprintf(device->id, sizeof device->id, "%.*s", (int)strcspn(at, "\""), at);
        device->items = (uint64_t)answer_number(work, at, "\"items\":");
    }
}

static inline void check_output(const struct work *work, uint64_t items)
{
    char path[512];
    work_path(work, "out", path, sizeof path);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    size_t bytes = items * WORD;
    bool is_right = file >= 0 && lseek(file, 0, SEEK_END) == (off_t)bytes;
    void *out = is_right ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    if (out == MAP_FAILED || memcmp(out, words.expected, bytes) != 0)
        stop(work->bench, "the output of muster map is not all, or not right");
    munmap(out, bytes);
    close(file);
    unlink(path);
}

static inline void work_run_command(const struct work *work, const char *devices, uint64_t items,
                                    struct outcome *outcome)
{
    static char answer[ANSWER_MAX];
    bool has_pipe = is_level(work, FROM, SOURCE);
    int in[2] = { -1, -1 }, out[2], status;
    struct feed feed = { .bytes = items * WORD };
    pthread_t feeder;
    if (pipe2(out, O_CLOEXEC) != 0 || (has_pipe && pipe2(in, O_CLOEXEC) != 0))
        stop(work->bench, "there is no pipe");
    pid_t process = work_spawn(work, devices, in[0], out[1]);
    close(out[1]);
    if (has_pipe) {
        close(in[0]);
        feed.to = in[1];
        if (pthread_create(&feeder, NULL, feed_main, &feed) != 0)
            stop(work->bench, "there is no thread to feed a pipe");
    }
    read_answer(out[0], answer);
    close(out[0]);
    if (has_pipe)
        pthread_join(feeder, NULL);
    if (waitpid(process, &status, 0) != process || status != 0)
        stop(work->bench, "muster map has failed");
    read_report(work, answer, outcome);
    check_output(work, items);
}

static inline void work_run(const struct work *work, const char *devices, uint64_t items,
                            struct outcome *outcome)
{
    if (is_level(work, FORM, MAP))
        work_run_command(work, devices, items, outcome);
    else
        work_run_here(work, devices, items, outcome);
}

#endif
