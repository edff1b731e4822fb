/*
 * What `scan` finds, beside a search that is too plain to be wrong: random words and texts over small
 * alphabets, so that words overlap, begin each other and lie across every border; text given in
 * pieces of any size; marks by both forms of the kernel.
 */
#include "base/random.h"
#include "finder.h"
#include "harness.h"
#include "scan_function.h"
#include "scan_host.h"

#include <stdlib.h>

#define TEXT_MAX (8 * SCAN_ITEM)
#define WORDS_AT_MOST 400
#define HITS_MAX (TEXT_MAX + 1)

struct hit {
    uint64_t offset, line_number;
    size_t length;
};

struct hits {
    struct hit list[HITS_MAX];
    size_t count, wrong;
    uint64_t lines;
    const uint8_t *text; /* hits must say the same bytes */
};

/* A text with words to look for. */
struct problem {
    struct random random;
    struct words words;
    struct automaton automaton;
    uint8_t text[TEXT_MAX]; /* filled up with newlines */
    size_t length;
    uint64_t marks[TEXT_MAX / 64];
};

static struct problem problem;
/* How what is found has to stand in its line; all false in most tests. */
static struct {
    bool is_folded, is_word, is_whole, is_inverted;
} how;
static struct hits expected, found;

static size_t below(size_t bound)
{
    return (size_t)random_below(&problem.random, bound);
}

static uint8_t letter_of(uint8_t byte)
{
    return how.is_folded && byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + 'a' - 'A') : byte;
}

static bool is_word_byte(size_t place)
{
    uint8_t byte = place < problem.length ? problem.text[place] : ' ';
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_';
}

static void make_text(uint32_t letters, uint32_t newline_of)
{
    memset(problem.text, '\n', sizeof problem.text);
    problem.length = below(8) == 0 ? below(20) : below(TEXT_MAX);
    for (size_t i = 0; i < problem.length; i++) {
        bool is_newline = newline_of > 0 && below(newline_of) == 0;
        problem.text[i] =
            is_newline ? '\n' : (uint8_t)(letters > 26 ? below(256) : 'a' + below(letters));
    }
}

/* A word of the text, or one of the same letters; the first newline in it ends it. */
static void add_word(uint32_t letters, size_t shortest, size_t longest)
{
    uint8_t word[4096];
    size_t length = shortest + below(longest);
    size_t from =
        problem.length > length && below(3) > 0 ? below(problem.length - length) : SIZE_MAX;
    for (size_t i = 0; i < length; i++)
        word[i] = from != SIZE_MAX ? problem.text[from + i] : (uint8_t)('a' + below(letters));
    const uint8_t *newline = memchr(word, '\n', length);
    if (newline)
        length = (size_t)(newline - word);
    if (length >= shortest)
        CHECK_EQUAL(WORDS_ADDED, words_add(&problem.words, word, length));
}

static void make_problem(uint64_t seed)
{
    static const uint32_t alphabets[] = { 1, 2, 3, 8, 26, 256 };
    static const uint32_t newlines[] = { 0, 3, 40, 2000 };
    static const size_t lengths[] = { 1, 2, 3, 4, 5, 9, 40, 3000 };
    static const size_t counts[] = { 0, 1, 2, 10, WORDS_AT_MOST };
    random_init(&problem.random, seed);
    uint32_t letters = alphabets[below(6)];
    make_text(letters, newlines[below(4)]);
    size_t count = counts[below(5)], longest = lengths[below(8)];
    /* A short word is found almost anywhere, and hides what is wrong with longer ones. */
    size_t shortest = below(2) == 0 ? 1 : 4;
    for (size_t i = 0; i < count; i++)
        add_word(letters, shortest, below(4) == 0 ? 2 : longest);
    if (below(10) == 0)
        CHECK_EQUAL(WORDS_ADDED, words_add(&problem.words, "", 0));
    if (how.is_folded)
        words_fold(&problem.words);
    words_sort(&problem.words);
    CHECK(automaton_init(&problem.automaton, &problem.words, how.is_folded));
}

static void end_problem(void)
{
    automaton_deinit(&problem.automaton);
    words_deinit(&problem.words);
}

/* The plain search. */
static bool is_at(const struct word *word, size_t place)
{
    if (word->length > problem.length - place)
        return false;
    for (size_t i = 0; i < word->length; i++)
        if (letter_of(problem.text[place + i]) != problem.words.bytes[word->offset + i])
            return false;
    return true;
}

static size_t longest_at(size_t place)
{
    size_t longest = 0;
    for (size_t i = 0; i < problem.words.count; i++)
        if (problem.words.list[i].length > longest && is_at(&problem.words.list[i], place))
            longest = problem.words.list[i].length;
    return longest;
}

/* The longest that stands as it has to in the line [begin, end); `last` is where the match before ended. */
static size_t match_at(size_t place, size_t begin, size_t end, size_t last)
{
    size_t longest = 0;
    for (size_t i = 0; i < problem.words.count; i++) {
        const struct word *word = &problem.words.list[i];
        bool is_good = word->length > longest && is_at(word, place);
        if (how.is_whole)
            is_good = is_good && place == begin && place + word->length == end;
        else if (how.is_word)
            is_good = is_good && (place == begin || place == last || !is_word_byte(place - 1)) &&
                      (place + word->length == end || !is_word_byte(place + word->length));
        if (is_good)
            longest = word->length;
    }
    return longest;
}

static bool has_empty_match(size_t begin, size_t end)
{
    bool is_found = begin == end || (!how.is_whole && !how.is_word);
    for (size_t place = begin; !how.is_whole && place <= end && !is_found; place++)
        is_found =
            (place == begin || !is_word_byte(place - 1)) && (place == end || !is_word_byte(place));
    return problem.words.has_empty && is_found;
}

/* Whether a word begins so that is too long for the kernel to compare all of it. */
static bool begins_at(size_t place)
{
    for (size_t i = 0; i < problem.words.count; i++) {
        const struct word *word = &problem.words.list[i];
        if (word->length > SCAN_COMPARED_MAX && SCAN_COMPARED_MAX <= problem.length - place &&
            memcmp(problem.text + place, problem.words.bytes + word->offset, SCAN_COMPARED_MAX) ==
                0)
            return true;
    }
    return false;
}

static void expect_hits(enum finder_want want)
{
    uint64_t number = 1;
    expected.count = 0;
    expected.lines = 0;
    for (size_t begin = 0, end; begin < problem.length; begin = end + 1, number++) {
        for (end = begin; end < problem.length && problem.text[end] != '\n'; end++)
            ;
        bool has_word = has_empty_match(begin, end) && want != FINDER_MATCHES;
        for (size_t place = begin, last = SIZE_MAX; place < end && !has_word;) {
            size_t length = match_at(place, begin, end, last);
            has_word = length > 0 && want != FINDER_MATCHES;
            if (length > 0 && want == FINDER_MATCHES)
                expected.list[expected.count++] = (struct hit){ place, number, length };
            place += length > 0 ? length : 1;
            last = length > 0 ? place : last;
        }
        has_word = has_word != (how.is_inverted && want != FINDER_MATCHES);
        expected.lines += has_word;
        if (has_word && want == FINDER_LINES)
            expected.list[expected.count++] = (struct hit){ begin, number, end - begin };
    }
}

static bool note_hit(void *user, const struct finder_hit *hit)
{
    struct hits *hits = user;
    if (hits->count == HITS_MAX)
        return false;
    hits->wrong += memcmp(hits->text + hit->offset, hit->bytes, hit->length) != 0;
    hits->list[hits->count++] = (struct hit){ hit->offset, hit->line_number, hit->length };
    return true;
}

static void mark(size_t from_item, size_t to_item, uint32_t by_line, bool is_portable)
{
    uint32_t flags = (by_line ? SCAN_BY_LINE : 0) | (how.is_folded ? SCAN_FOLD : 0);
    const uint8_t *text = problem.text + from_item * SCAN_ITEM;
    const uint32_t *automaton = problem.automaton.memory;
    uint64_t *marks = problem.marks + from_item * SCAN_ITEM_MARKS;
    void *args[] = { &text, &automaton, &flags, &marks };
    if (!is_portable)
        CHECK_EQUAL(MUSTER_OK, scan_function(0, to_item - from_item, args));
    for (size_t i = 0; is_portable && i < to_item - from_item; i++)
        scan(i, text, automaton, flags, marks);
}

/* Units of any size, as a job would have them. */
static void mark_all(uint32_t by_line, bool is_portable)
{
    memset(problem.marks, 0xAA, sizeof problem.marks);
    for (size_t from = 0, to; from < TEXT_MAX / SCAN_ITEM; from = to) {
        to = from + 1 + below(TEXT_MAX / SCAN_ITEM - from);
        mark(from, to, by_line, is_portable);
    }
}

static void find_hits(enum finder_want want)
{
    struct finder finder = { .want = want,
                             .is_numbered = true,
                             .has_empty = problem.words.has_empty,
                             .is_word = how.is_word,
                             .is_whole = how.is_whole,
                             .is_inverted = how.is_inverted,
                             .automaton = &problem.automaton,
                             /* Read backward from the beginning, from somewhere on, or never. */
                             .patience = below(3) == 0   ? 0
                                         : below(2) == 0 ? 2000
                                                         : UINT64_MAX / 2,
                             .hit = note_hit,
                             .user = &found };
    found.count = found.wrong = 0;
    found.text = problem.text;
    finder_begin(&finder);
    for (size_t from = 0, to; from <= problem.length; from = to) {
        size_t most = below(3) == 0 ? 10 : below(2) == 0 ? 300 : TEXT_MAX;
        to = from + below(most);
        to = to < problem.length ? to : problem.length;
        bool is_end = to == problem.length && below(2) == 0;
        CHECK_EQUAL(FINDER_GOES_ON, finder_take(&finder, problem.text + from, to - from,
                                                problem.marks, from, is_end));
        if (is_end)
            break;
    }
    found.lines = finder.count;
    finder_deinit(&finder);
}

static void compare_hits(uint64_t seed, enum finder_want want)
{
    CHECK_EQUAL(0, found.wrong);
    if (want != FINDER_MATCHES && expected.lines != found.lines)
        test_fail(__FILE__, __LINE__, "seed %llu: %llu lines, not %llu", (unsigned long long)seed,
                  (unsigned long long)found.lines, (unsigned long long)expected.lines);
    for (size_t i = 0; want != FINDER_COUNTS && i < expected.count && i < found.count; i++) {
        const struct hit *a = &expected.list[i], *b = &found.list[i];
        if (a->offset != b->offset || a->length != b->length || a->line_number != b->line_number)
            test_fail(__FILE__, __LINE__,
                      "seed %llu: hit %zu is %zu bytes at %llu, not %zu at %llu",
                      (unsigned long long)seed, i, b->length, (unsigned long long)b->offset,
                      a->length, (unsigned long long)a->offset);
    }
    if (want != FINDER_COUNTS)
        CHECK_EQUAL(expected.count, found.count);
}

static void what_is_found_is_what_is_there(void)
{
    for (uint64_t i = 0; i < test_repetitions(TEST_BY_SANITIZER(600, 150, 150)); i++) {
        uint64_t seed = test_seed() * 1000003 + i;
        make_problem(seed);
        enum finder_want want = (enum finder_want)below(3);
        expect_hits(want);
        for (int form = 0; form < 2; form++) {
            mark_all(want != FINDER_MATCHES, form == 1);
            find_hits(want);
            compare_hits(seed, want);
        }
        end_problem();
    }
}

/* The same where case does not matter, or how a word stands in its line does, or lines without are wanted. */
static void what_is_found_stands_as_it_is_to(void)
{
    static const uint8_t others[] = "_ -09Z";
    for (uint64_t i = 0; i < test_repetitions(TEST_BY_SANITIZER(1500, 300, 300)); i++) {
        uint64_t seed = test_seed() * 1000033 + i;
        random_init(&problem.random, seed);
        enum finder_want want = (enum finder_want)below(3);
        how.is_folded = below(2) == 0;
        how.is_word = below(2) == 0;
        how.is_whole = below(4) == 0;
        how.is_inverted = want != FINDER_MATCHES && below(3) == 0;
        make_problem(seed);
        for (size_t k = 0; k < problem.length; k++)
            if (problem.text[k] >= 'a' && problem.text[k] <= 'z' && below(3) == 0)
                problem.text[k] = below(2) == 0 ? (uint8_t)(problem.text[k] - 'a' + 'A')
                                                : others[below(sizeof others - 1)];
        expect_hits(want);
        bool is_by_line = want != FINDER_MATCHES && !how.is_word && !how.is_whole;
        for (int form = 0; form < 2; form++) {
            mark_all(is_by_line, form == 1);
            find_hits(want);
            compare_hits(seed, want);
        }
        end_problem();
    }
    memset(&how, 0, sizeof how);
}

/* A mark more costs time and a mark less an answer. */
static void marks_are_exact_but_at_the_end(void)
{
    for (uint64_t i = 0; i < test_repetitions(TEST_BY_SANITIZER(200, 50, 50)); i++) {
        make_problem(test_seed() * 7919 + i);
        for (int form = 0; form < 2; form++) {
            size_t known = form == 1 ? SCAN_ITEM : TEXT_MAX;
            mark(0, known / SCAN_ITEM, 0, form == 1);
            for (size_t place = 0; place < problem.length && place < known; place++) {
                bool is_marked = problem.marks[place / 64] >> place % 64 & 1;
                bool is_word = longest_at(place) > 0;
                bool is_near_end = known - place < problem.automaton.reach;
                CHECK(!is_word || is_marked);
                CHECK(is_word || !is_marked || is_near_end || begins_at(place));
            }
        }
        end_problem();
    }
}

/* Words that each begin the next, and a text that goes on like the first alone. */
static void the_shortest_of_a_family_is_found(void)
{
    static const char endings[] = "\nabz";
    random_init(&problem.random, test_seed());
    for (size_t longest = 4; longest < 40; longest++)
        for (size_t e = 0; e < 4; e++) {
            uint8_t word[40];
            memset(word, 'a', sizeof word);
            memset(problem.text, '\n', sizeof problem.text);
            memset(problem.text, 'a', 4);
            problem.text[4] = (uint8_t)endings[e];
            problem.length = 6;
            for (size_t length = 4; length <= longest; length++)
                CHECK_EQUAL(WORDS_ADDED, words_add(&problem.words, word, length));
            words_sort(&problem.words);
            CHECK(automaton_init(&problem.automaton, &problem.words, false));
            expect_hits(FINDER_MATCHES);
            for (int form = 0; form < 2; form++) {
                mark_all(0, form == 1);
                find_hits(FINDER_MATCHES);
                compare_hits(longest, FINDER_MATCHES);
            }
            end_problem();
        }
}

/* Comparisons, of which a text that repeats what a word repeats must not need more than its length. */
static uint64_t work_for(size_t repeated, size_t text_bytes, size_t piece, enum finder_want want)
{
    static uint8_t text[1 << 18], word[1 << 13];
    static uint64_t all_marks[sizeof text / 64];
    struct words words = { 0 };
    struct automaton automaton;
    memset(text, 'a', sizeof text);
    memset(word, 'a', sizeof word);
    memset(all_marks, 0xff, sizeof all_marks);
    word[repeated] = 'b';
    CHECK_EQUAL(WORDS_ADDED, words_add(&words, word, repeated + 1));
    CHECK(automaton_init(&automaton, &words, false));
    struct finder finder = { .want = want, .automaton = &automaton, .patience = 1 << 16 };
    finder_begin(&finder);
    for (size_t from = 0; from < text_bytes; from += piece)
        CHECK_EQUAL(FINDER_GOES_ON, finder_take(&finder, text + from, piece, all_marks, from,
                                                from + piece == text_bytes));
    CHECK_EQUAL(0, finder.count);
    uint64_t work = finder.work;
    finder_deinit(&finder);
    automaton_deinit(&automaton);
    words_deinit(&words);
    return work;
}

static void what_repeats_itself_takes_no_longer(void)
{
    for (int want = FINDER_COUNTS; want <= FINDER_MATCHES; want++)
        for (size_t piece = 1 << 12; piece <= 1 << 18; piece <<= 3)
            CHECK(work_for(5000, 1 << 18, piece, (enum finder_want)want) < 1 << 17);
    /* Where the words are short nobody reads backward. */
    CHECK(work_for(20, 1 << 18, 1 << 16, FINDER_COUNTS) > 1 << 20);
}

/* A second input at whose places other words begin than at the first one's. */
static void each_input_is_read_anew(void)
{
    static const char *const texts[] = { "abcdefgh", "bcdefgha", "xxxxxxxx" };
    static const uint64_t offsets[] = { 0, 7, SIZE_MAX };
    struct words words = { 0 };
    struct automaton automaton;
    CHECK_EQUAL(WORDS_ADDED, words_add(&words, "abcdefgh\na", 10));
    words_sort(&words);
    CHECK(automaton_init(&automaton, &words, false));
    struct finder finder = {
        .want = FINDER_MATCHES, .automaton = &automaton, .hit = note_hit, .user = &found
    };
    for (size_t i = 0; i < 3; i++) {
        finder_begin(&finder);
        /* As if there had been much to compare. */
        finder.work = UINT64_MAX;
        found.count = found.wrong = 0;
        found.text = (const uint8_t *)texts[i];
        CHECK_EQUAL(FINDER_GOES_ON,
                    finder_take(&finder, (const uint8_t *)texts[i], 8, NULL, 0, true));
        CHECK(finder.is_backward && found.wrong == 0);
        CHECK_EQUAL(offsets[i] != SIZE_MAX, found.count);
        if (found.count > 0)
            CHECK_EQUAL(offsets[i], found.list[0].offset);
    }
    finder_deinit(&finder);
    automaton_deinit(&automaton);
    words_deinit(&words);
}

/* The kernel compares a few bytes at each place, however long words are. */
static void the_kernel_compares_a_few_bytes(void)
{
    static uint8_t word[3000];
    random_init(&problem.random, test_seed());
    memset(word, 'a', sizeof word);
    memset(problem.text, 'a', sizeof problem.text);
    problem.length = TEXT_MAX;
    word[SCAN_COMPARED_MAX] = 'b';
    CHECK_EQUAL(WORDS_ADDED, words_add(&problem.words, word, sizeof word));
    words_sort(&problem.words);
    CHECK(automaton_init(&problem.automaton, &problem.words, false));
    for (int form = 0; form < 2; form++) {
        mark_all(0, form == 1);
        CHECK(problem.marks[0] == UINT64_MAX);
    }
    end_problem();
    word[SCAN_COMPARED_MAX - 1] = 'b';
    CHECK_EQUAL(WORDS_ADDED, words_add(&problem.words, word, sizeof word));
    words_sort(&problem.words);
    CHECK(automaton_init(&problem.automaton, &problem.words, false));
    for (int form = 0; form < 2; form++) {
        mark_all(0, form == 1);
        CHECK(problem.marks[0] == 0);
    }
    end_problem();
}

static void a_line_is_as_long_as_it_likes(void)
{
    /* Nothing but the kernel's own answer is kept of a line that is only counted. */
    static uint8_t line[1 << 20];
    static uint64_t no_marks[sizeof line / 64];
    struct words words = { 0 };
    CHECK_EQUAL(WORDS_ADDED, words_add(&words, "needle", 6));
    struct automaton automaton;
    CHECK(automaton_init(&automaton, &words, false));
    struct finder finder = { .want = FINDER_COUNTS, .automaton = &automaton };
    finder_begin(&finder);
    memset(line, 'x', sizeof line);
    for (int i = 0; i < 64; i++)
        CHECK_EQUAL(FINDER_GOES_ON, finder_take(&finder, line, sizeof line, no_marks, 0, i == 63));
    CHECK_EQUAL(0, finder.count);
    CHECK(finder.kept_capacity <= 16);
    finder_deinit(&finder);
    automaton_deinit(&automaton);
    words_deinit(&words);
}

static void lists_are_read_as_grep_reads_them(void)
{
    struct words words = { 0 };
    CHECK_EQUAL(WORDS_ADDED, words_add_file(&words, "", 0));
    CHECK(!words.has_empty && words.count == 0);
    CHECK_EQUAL(WORDS_ADDED, words_add_file(&words, "b\r\na\nb\r\nab", 10));
    words_sort(&words);
    CHECK(!words.has_empty);
    CHECK_EQUAL(3, words.count);
    CHECK(memcmp(words.bytes + words.list[0].offset, "a", 1) == 0 && words.list[0].length == 1);
    CHECK(memcmp(words.bytes + words.list[1].offset, "ab", 2) == 0 && words.list[1].length == 2);
    CHECK(memcmp(words.bytes + words.list[2].offset, "b\r", 2) == 0 && words.list[2].length == 2);
    CHECK_EQUAL(WORDS_ADDED, words_add_file(&words, "x\n\ny\n", 5));
    CHECK(words.has_empty);
    words_deinit(&words);
    CHECK_EQUAL(WORDS_ADDED, words_add(&words, "x\n", 2));
    CHECK(words.has_empty && words.count == 1);
    words_deinit(&words);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_is_found_is_what_is_there),      TEST(what_is_found_stands_as_it_is_to),
        TEST(marks_are_exact_but_at_the_end),      TEST(the_shortest_of_a_family_is_found),
        TEST(what_repeats_itself_takes_no_longer), TEST(each_input_is_read_anew),
        TEST(the_kernel_compares_a_few_bytes),     TEST(a_line_is_as_long_as_it_likes),
        TEST(lists_are_read_as_grep_reads_them)
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
