/*
 * `scan` on any words and text, beside a plain search: both forms of the kernel, pieces of any size.
 * The first byte says what is wanted and how large pieces are; words go up to the first empty line.
 */
#include "finder.h"
#include "scan_function.h"
#include "scan_host.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX (4 * SCAN_ITEM)

static uint8_t text[TEXT_MAX];
static size_t text_length;
static uint64_t marks[TEXT_MAX / 64];
static struct words words;

static void require(bool condition)
{
    if (!condition)
        abort();
}

static size_t longest_at(size_t place)
{
    size_t longest = 0;
    for (size_t i = 0; i < words.count; i++) {
        const struct word *word = &words.list[i];
        if (word->length > longest && word->length <= text_length - place &&
            memcmp(text + place, words.bytes + word->offset, word->length) == 0)
            longest = word->length;
    }
    return longest;
}

/* The words that must be found, in order: each hit asks for the next. */
static size_t expected_place;

static bool expect_match(void *user, const struct finder_hit *hit)
{
    (void)user;
    while (expected_place < text_length && longest_at(expected_place) == 0)
        expected_place++;
    require(hit->offset == expected_place && hit->length == longest_at(expected_place));
    require(memcmp(hit->bytes, text + expected_place, hit->length) == 0);
    expected_place += hit->length;
    return true;
}

static uint64_t count_lines(void)
{
    uint64_t lines = 0;
    for (size_t begin = 0, end; begin < text_length; begin = end + 1) {
        bool has_word = words.has_empty;
        for (end = begin; end < text_length && text[end] != '\n'; end++)
            has_word = has_word || longest_at(end) > 0;
        lines += has_word;
    }
    return lines;
}

static void find(const struct automaton *automaton, enum finder_want want, size_t piece,
                 uint64_t patience)
{
    struct finder finder = { .want = want,
                             .has_empty = words.has_empty,
                             .automaton = automaton,
                             .patience = patience,
                             .hit = expect_match };
    finder_begin(&finder);
    expected_place = 0;
    for (size_t from = 0; from <= text_length; from += piece) {
        size_t left = text_length - from, length = left < piece ? left : piece;
        require(finder_take(&finder, text + from, length, marks, from, left < piece) ==
                FINDER_GOES_ON);
    }
    if (want == FINDER_COUNTS)
        require(finder.count == count_lines());
    while (want == FINDER_MATCHES && expected_place < text_length)
        require(longest_at(expected_place++) == 0);
    finder_deinit(&finder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const uint8_t *gap = memmem(data + 2, size - 2, "\n\n", 2);
    size_t word_bytes = gap ? (size_t)(gap - data) - 2 : (size - 2) / 2;
    size_t from = gap ? word_bytes + 4 : word_bytes + 2;
    text_length = size - from < TEXT_MAX ? size - from : TEXT_MAX;
    memset(text, '\n', sizeof text);
    memcpy(text, data + from, text_length);
    require(words_add_file(&words, data + 2, word_bytes) == WORDS_ADDED);
    words_sort(&words);
    struct automaton automaton;
    require(automaton_init(&automaton, &words, false));
    enum finder_want want = data[0] & 1 ? FINDER_MATCHES : FINDER_COUNTS;
    uint32_t by_line = want == FINDER_COUNTS;
    const uint8_t *texts = text;
    const uint32_t *memory = automaton.memory;
    uint64_t *to = marks;
    void *args[] = { &texts, &memory, &by_line, &to };
    require(scan_function(0, TEXT_MAX / SCAN_ITEM, args) == MUSTER_OK);
    /* Compared at each place, and then read backward from the first comparison on. */
    find(&automaton, want, 1 + data[1], UINT64_MAX / 2);
    for (uint64_t i = 0; i < TEXT_MAX / SCAN_ITEM; i++)
        scan(i, text, memory, by_line, marks);
    find(&automaton, want, 1 + data[1], 0);
    automaton_deinit(&automaton);
    words_deinit(&words);
    return 0;
}
