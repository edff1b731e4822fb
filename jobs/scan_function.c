#include "scan_function.h"

#include "scan_host.h"

#include <stdbool.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* How far behind 64 places they look. */
#define SIFT_AHEAD 8
/* Text that is folded at a time; it stays in the first cache. */
#define FOLDED_BYTES 16384u
_Static_assert(FOLDED_BYTES % SCAN_ITEM == 0, "marks of a piece are whole words");

/* Text that one call has to do, and where it is in it. */
struct passage {
    const uint8_t *text;
    size_t length;
    const uint32_t *automaton;
    const uint8_t *nibbles; /* NULL: they are not to be used */
    bool is_wide;           /* the processor has AVX2 */
    bool is_by_line;
    size_t next; /* places before it do not matter */
};

/* Which of 64 places may begin a word, by their first 4 bytes. */
static uint64_t sift_rows(const uint32_t *automaton, const uint8_t *text)
{
    uint64_t bits = 0;
    /* No branch: what passes is as good as random where the words are many. */
    for (uint32_t i = 0; i < 64; i++)
        bits |= (uint64_t)scan_may_begin(automaton, scan_load(text + i)) << i;
    return bits;
}

/* Of those, which may by their first 8. What shorter words have passes. */
static uint64_t sift_starts(const uint32_t *automaton, const uint8_t *text, uint64_t bits)
{
    uint64_t kept = 0;
    for (; bits != 0; bits &= bits - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(bits), key = scan_load(text + i);
        uint64_t may = (scan_pair(automaton, key) != 0) |
                       scan_may_go_on(automaton, key, scan_load(text + i + 4));
        kept |= may << i;
    }
    return kept;
}

#if defined(__x86_64__)
#define SCAN_AVX2 __attribute__((target("avx2")))

static bool is_wide(void)
{
    return __builtin_cpu_supports("avx2");
}

/* As sift_rows. */
SCAN_AVX2 static uint64_t sift_rows_wide(const uint32_t *automaton, const uint8_t *text)
{
    const int *rows = (const int *)(automaton + automaton[SCAN_AT_ROWS]);
    /* The 4 bytes from each of 8 places on. */
    const __m256i spread = _mm256_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, 4, 5, 6,
                                            7, 5, 6, 7, 8, 6, 7, 8, 9, 7, 8, 9, 10);
    const __m256i factor = _mm256_set1_epi32((int)SCAN_ROW_FACTOR);
    uint64_t bits = 0;
    for (uint32_t i = 0; i < 64; i += 8) {
        __m256i keys = _mm256_shuffle_epi8(
            _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(text + i))), spread);
        __m256i bit =
            _mm256_srli_epi32(_mm256_mullo_epi32(_mm256_srli_epi32(keys, 16), factor), 26);
        __m256i pair = _mm256_and_si256(keys, _mm256_set1_epi32(0xffff));
        __m256i row = _mm256_i32gather_epi32(
            rows, _mm256_add_epi32(_mm256_slli_epi32(pair, 1), _mm256_srli_epi32(bit, 5)), 4);
        /* The row's bit becomes the sign. */
        row = _mm256_sllv_epi32(row, _mm256_andnot_si256(bit, _mm256_set1_epi32(31)));
        bits |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(row)) << i;
    }
    return bits;
}

SCAN_AVX2 static void fold_wide(uint8_t *to, const uint8_t *text, size_t length)
{
    /* Signed comparison: A to Z become the 26 lowest numbers. */
    const __m256i shift = _mm256_set1_epi8((char)(0x80 - 'A')), end = _mm256_set1_epi8(-128 + 26);
    const __m256i bit = _mm256_set1_epi8(0x20);
    for (size_t i = 0; i < length; i += 32) {
        __m256i letters = _mm256_loadu_si256((const __m256i *)(text + i));
        __m256i is_upper = _mm256_cmpgt_epi8(end, _mm256_add_epi8(letters, shift));
        _mm256_storeu_si256((__m256i *)(to + i),
                            _mm256_or_si256(letters, _mm256_and_si256(is_upper, bit)));
    }
}

/*
 * The same by the halves of the first 3 bytes, where words are few: what no bucket has in all six
 * does not pass.
 */
SCAN_AVX2 static uint64_t sift_nibbles(const uint8_t *nibbles, const uint8_t *text)
{
    const __m256i low_half = _mm256_set1_epi8(15);
    uint64_t bits = 0;
    for (int side = 0; side < 2; side++) {
        __m256i buckets = _mm256_set1_epi8(-1);
        for (int k = 0; k < 3; k++) {
            __m256i letters = _mm256_loadu_si256((const __m256i *)(text + side * 32 + k));
            __m256i low =
                _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(nibbles + k * 32)));
            __m256i high = _mm256_broadcastsi128_si256(
                _mm_loadu_si128((const __m128i *)(nibbles + k * 32 + 16)));
            __m256i upper = _mm256_and_si256(_mm256_srli_epi16(letters, 4), low_half);
            buckets = _mm256_and_si256(
                buckets, _mm256_shuffle_epi8(low, _mm256_and_si256(letters, low_half)));
            buckets = _mm256_and_si256(buckets, _mm256_shuffle_epi8(high, upper));
        }
        __m256i is_none = _mm256_cmpeq_epi8(buckets, _mm256_setzero_si256());
        bits |= (uint64_t) ~(uint32_t)_mm256_movemask_epi8(is_none) << (side * 32);
    }
    return bits;
}
#else
static bool is_wide(void)
{
    return false;
}

static uint64_t sift_rows_wide(const uint32_t *automaton, const uint8_t *text)
{
    return sift_rows(automaton, text);
}

static void fold_wide(uint8_t *to, const uint8_t *text, size_t length)
{
    (void)to, (void)text, (void)length;
}

static uint64_t sift_nibbles(const uint8_t *nibbles, const uint8_t *text)
{
    (void)nibbles, (void)text;
    return UINT64_MAX;
}
#endif

/* For the end, where fewer than 4 bytes may be left: nothing is known of such places. */
static uint64_t sift_end(const struct passage *passage, size_t at)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < 64; i++) {
        bool has_key = passage->length - at - i >= 4;
        if (!has_key || scan_may_begin(passage->automaton, scan_load(passage->text + at + i)))
            bits |= (uint64_t)1 << i;
    }
    return bits;
}

static uint64_t sift(const struct passage *passage, size_t at)
{
    const uint8_t *text = passage->text + at;
    if (passage->length - at < 64 + SIFT_AHEAD)
        return sift_end(passage, at);
    if (passage->nibbles)
        return sift_nibbles(passage->nibbles, text);
    uint64_t bits = passage->is_wide ? sift_rows_wide(passage->automaton, text)
                                     : sift_rows(passage->automaton, text);
    return sift_starts(passage->automaton, text, bits);
}

static uint32_t check(const struct passage *passage, size_t at)
{
    size_t left = passage->length - at;
    if (left < 4)
        return SCAN_UNKNOWN;
    uint32_t key = scan_load(passage->text + at);
    if (passage->nibbles && !scan_may_begin(passage->automaton, key))
        return SCAN_NO;
    return scan_check(passage->automaton, key, passage->text + at,
                      left < UINT32_MAX ? (uint32_t)left : UINT32_MAX, 0);
}

/* Of 64 places that may begin a word, those that do or of which it is not known. */
static uint64_t check_all(struct passage *passage, size_t at, uint64_t bits)
{
    uint64_t kept = 0;
    while (bits != 0) {
        uint32_t i = (uint32_t)__builtin_ctzll(bits);
        uint32_t found = check(passage, at + i);
        bits &= bits - 1;
        if (found == SCAN_NO)
            continue;
        kept |= (uint64_t)1 << i;
        if (found == SCAN_UNKNOWN || !passage->is_by_line)
            continue;
        const uint8_t *end = memchr(passage->text + at + i, '\n', passage->length - at - i);
        passage->next = end ? (size_t)(end - passage->text) : passage->length;
        if (passage->next >= at + 64)
            break;
        bits &= UINT64_MAX << (passage->next - at);
    }
    return kept;
}

static void mark(struct passage *passage, uint64_t *marks)
{
    passage->next = 0;
    for (size_t at = 0; at < passage->length; at += 64) {
        uint64_t bits = passage->next < at + 64 ? sift(passage, at) : 0;
        if (passage->next > at && bits != 0)
            bits &= UINT64_MAX << (passage->next - at);
        marks[at / 64] = bits != 0 ? check_all(passage, at, bits) : 0;
    }
}

/* `length` is a multiple of SCAN_ITEM. */
static void fold(uint8_t *to, const uint8_t *text, size_t length, bool is_wide)
{
    if (is_wide) {
        fold_wide(to, text, length);
        return;
    }
    for (size_t i = 0; i < length; i += 4) {
        uint32_t four;
        memcpy(&four, text + i, sizeof four);
        four = scan_fold(four);
        memcpy(to + i, &four, sizeof four);
    }
}

/* In pieces, each in lower case; where a piece ends little is known, as where an item ends. */
static void mark_folded(const struct passage *passage, uint64_t *marks)
{
    uint8_t folded[FOLDED_BYTES];
    struct passage piece = *passage;
    piece.text = folded;
    for (size_t at = 0; at < passage->length; at += FOLDED_BYTES) {
        size_t left = passage->length - at;
        piece.length = left < FOLDED_BYTES ? left : FOLDED_BYTES;
        fold(folded, passage->text + at, piece.length, piece.is_wide);
        mark(&piece, marks + at / 64);
    }
}

muster_status scan_function(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *automaton = *(const uint32_t *const *)args[1];
    const uint32_t flags = *(const uint32_t *)args[2];
    struct passage passage = { .text = *(const uint8_t *const *)args[0] + begin * SCAN_ITEM,
                               .length = (size_t)(end - begin) * SCAN_ITEM,
                               .automaton = automaton,
                               .is_wide = is_wide(),
                               .is_by_line = (flags & SCAN_BY_LINE) != 0 };
    uint64_t *marks = *(uint64_t *const *)args[3] + begin * SCAN_ITEM_MARKS;
    if (automaton[SCAN_AT_NIBBLES] != 0 && passage.is_wide)
        passage.nibbles = (const uint8_t *)(automaton + automaton[SCAN_AT_NIBBLES]);
    if (flags & SCAN_FOLD)
        mark_folded(&passage, marks);
    else
        mark(&passage, marks);
    return MUSTER_OK;
}
