/*
 * What the built-in jobs take they give back, however they end: memory of the runtime, descriptors
 * and files.
 */
#include "map.h"
#include "scan.h"
#include "unit/files_support.h"

#define TEXT_BYTES (TEST_BY_SANITIZER(3u, 3u, 1u) << 20)
#define ROUNDS 6
#define KEPT_BYTES_MAX 65536u

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static struct muster *open_counting(struct counting *counting)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    options.devices = "cpu";
    options.allocator = counting_allocator(counting);
    return open_with(options);
}

/* Lines of "needle" among others, each 16 bytes. */
static void make_text(const char *name)
{
    FILE *file = fopen(in_folder(name), "w");
    CHECK(file);
    for (unsigned i = 0; i < TEXT_BYTES / 16; i++)
        fprintf(file, "%-9s%06u\n", i % 1000 == 0 ? "needle" : "hay", i);
    CHECK(fclose(file) == 0);
}

enum ending { ENDS_WELL, ENDS_BY_HIT, ENDS_BY_CANCEL, ENDS_UNREADABLE, ENDINGS };

struct seen {
    enum ending ending;
    uint64_t hits, lines;
    unsigned troubles;
    char why[128]; /* the last */
};

static bool see_hit(void *user, const struct input *input, struct finder *finder,
                    const struct finder_hit *hit)
{
    struct seen *seen = user;
    (void)input, (void)finder, (void)hit;
    seen->hits++;
    return seen->ending != ENDS_BY_HIT;
}

static bool see_end(void *user, const struct input *input, uint64_t lines)
{
    (void)input;
    ((struct seen *)user)->lines += lines;
    return true;
}

static void see_trouble(void *user, const char *path, const char *why)
{
    struct seen *seen = user;
    seen->troubles++;
    snprintf(seen->why, sizeof seen->why, "%s: %s", path, why);
}

static void run_scan(struct muster *m, enum ending ending)
{
    const char *paths[] = { in_folder(ending == ENDS_UNREADABLE ? "none" : "text"),
                            in_folder("text") };
    struct seen seen = { .ending = ending };
    const struct scan_options options = { .want = FINDER_LINES,
                                          .tree = { paths, 2, false, false },
                                          .run = { .size = sizeof options.run },
                                          .hit = see_hit,
                                          .end = see_end,
                                          .trouble = see_trouble,
                                          .user = &seen };
    struct words words = { 0 };
    struct scan *scan;
    CHECK_EQUAL(WORDS_ADDED, words_add(&words, "needle", 6));
    MUST(scan_start(m, &words, &options, &scan, &problem));
    if (ending == ENDS_BY_CANCEL)
        muster_job_cancel(scan_job(scan));
    muster_status status = scan_wait(scan, NULL, &problem);
    scan_destroy(scan);
    words_deinit(&words);
    uint64_t lines = (TEXT_BYTES / 16 + 999) / 1000 * (ending == ENDS_UNREADABLE ? 1 : 2);
    if (ending == ENDS_WELL || ending == ENDS_UNREADABLE) {
        CHECK_STATUS(MUSTER_OK, status);
        CHECK_EQUAL(lines, seen.hits);
        CHECK_EQUAL(lines, seen.lines);
    } else if (ending == ENDS_BY_HIT) {
        CHECK_STATUS(MUSTER_E_CANCELLED, status);
        CHECK_EQUAL(1, seen.hits);
    } else {
        /* It may have come too late. */
        CHECK(status == MUSTER_E_CANCELLED || (status == MUSTER_OK && seen.hits == lines));
    }
    CHECK_EQUAL(ending == ENDS_UNREADABLE ? 1 : 0, seen.troubles);
    if (ending == ENDS_UNREADABLE) {
        CHECK_CONTAINS(in_folder("none"), seen.why);
        CHECK_CONTAINS(strerror(ENOENT), seen.why);
    }
}

/* What a runtime keeps for its next job is there after the first, but for some events and operations. */
static void check_steady(const struct counting *counting, int round, uint64_t *first)
{
    if (round == 0)
        *first = counting->bytes;
    if (counting->bytes > *first + KEPT_BYTES_MAX)
        test_fail(__FILE__, __LINE__, "%llu bytes more are held after round %d",
                  (unsigned long long)(counting->bytes - *first), round);
}

static void a_scan_gives_back_what_it_took(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    make_folder();
    make_text("text");
    for (int ending = 0; ending < ENDINGS; ending++) {
        uint64_t bytes = 0;
        unsigned descriptors = 0;
        for (int round = 0; round < ROUNDS; round++) {
            run_scan(m, (enum ending)ending);
            if (round == 0)
                descriptors = count_descriptors();
            CHECK_EQUAL(descriptors, count_descriptors());
            check_steady(&counting, round, &bytes);
        }
    }
    remove_folder();
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, counting.wrong);
}

static const char kernel_text[] =
    "MUSTER_KERNEL void invert(uint64_t i, MUSTER_GLOBAL const uint8_t *in,\n"
    "                          MUSTER_GLOBAL uint8_t *out)\n"
    "{\n"
    "    out[i] = in[i] ^ 255u;\n"
    "}\n";

enum map_ending {
    MAP_WELL,
    MAP_CANCELLED,
    MAP_NOT_STARTED,
    MAP_NO_INPUT,
    MAP_NO_OUTPUT,
    MAP_ENDINGS
};

static void run_map(struct muster *m, enum map_ending ending)
{
    const char *kernel = in_folder("invert.c");
    char in[128], out[128];
    snprintf(in, sizeof in, "%s", in_folder(ending == MAP_NO_INPUT ? "none" : "text"));
    snprintf(out, sizeof out, "%s", in_folder(ending == MAP_NO_OUTPUT ? "no/out" : "out"));
    const struct map_options options = { .kernels = &kernel,
                                         .kernel_count = 1,
                                         .in = in,
                                         .out = out,
                                         .format = MAP_RECORDS,
                                         .run = { .size = sizeof options.run } };
    struct map *map = NULL;
    enum map_part part;
    muster_status status = map_create(m, &options, &map, &part, &problem);
    if (ending == MAP_NO_INPUT || ending == MAP_NO_OUTPUT) {
        CHECK(status != MUSTER_OK && !map);
        CHECK_EQUAL(ending == MAP_NO_INPUT ? MAP_INPUT : MAP_OUTPUT, part);
        return;
    }
    MUST(status);
    if (ending == MAP_WELL || ending == MAP_CANCELLED) {
        MUST(map_start(map, &options, &problem));
        if (ending == MAP_CANCELLED)
            map_cancel(map);
        status = map_wait(map, NULL, &part, &problem);
        if (status == MUSTER_OK)
            status = map_finish(map, &part, &problem);
        CHECK_STATUS(ending == MAP_WELL ? MUSTER_OK : MUSTER_E_CANCELLED, status);
    }
    map_destroy(map);
    struct stat facts;
    CHECK_EQUAL(ending == MAP_WELL ? 0 : -1, stat(out, &facts));
    CHECK(ending != MAP_WELL || (facts.st_size == TEXT_BYTES / 16 * 16 && unlink(out) == 0));
}

static void a_map_gives_back_what_it_took(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    make_folder();
    make_text("text");
    FILE *kernel = fopen(in_folder("invert.c"), "w");
    CHECK(kernel && fputs(kernel_text, kernel) >= 0 && fclose(kernel) == 0);
    for (int ending = 0; ending < MAP_ENDINGS; ending++) {
        uint64_t bytes = 0;
        unsigned descriptors = 0;
        for (int round = 0; round < ROUNDS; round++) {
            run_map(m, (enum map_ending)ending);
            if (round == 0)
                descriptors = count_descriptors();
            CHECK_EQUAL(descriptors, count_descriptors());
            check_steady(&counting, round, &bytes);
            CHECK_EQUAL(2, count_files());
        }
    }
    remove_folder();
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, counting.wrong);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(a_scan_gives_back_what_it_took),
                                         TEST(a_map_gives_back_what_it_took) };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
