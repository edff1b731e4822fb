#include "finder.h"

#include <stdlib.h>
#include <string.h>

/* Text with what is known of it. */
struct view {
    const uint8_t *text;
    size_t length; /* known */
    size_t limit;  /* places before it are looked at */
    bool is_all;   /* the input, or its last line, ends with what is known */
    const uint64_t *marks;
    size_t mark_at;
};

void finder_begin(struct finder *finder)
{
    finder->kept_bytes = 0;
    finder->at = finder->next = 0;
    finder->is_in_counted_line = false;
    finder->lines_told_to = 0;
    finder->match_end = UINT64_MAX;
    finder->work = 0;
    finder->is_backward = false;
    backward_forget(&finder->backward);
    finder->numbered_to = finder->lines_before = 0;
    finder->count = 0;
}

void finder_deinit(struct finder *finder)
{
    backward_deinit(&finder->backward);
    free(finder->kept);
    finder->kept = NULL;
    finder->kept_capacity = finder->kept_bytes = 0;
}

static bool keep(struct finder *finder, const uint8_t *text, size_t length)
{
    size_t needed = finder->kept_bytes + length;
    if (needed > finder->kept_capacity) {
        size_t capacity = finder->kept_capacity * 2 > needed ? finder->kept_capacity * 2 : needed;
        uint8_t *larger = realloc(finder->kept, capacity);
        if (!larger)
            return false;
        finder->kept = larger;
        finder->kept_capacity = capacity;
    }
    if (length > 0)
        memcpy(finder->kept + finder->kept_bytes, text, length);
    finder->kept_bytes = needed;
    return true;
}

static size_t count_newlines(const uint8_t *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += text[i] == '\n';
    return count;
}

/* Counts newlines up to text[to]. The text begins at offset finder->at. */
static void number_to(struct finder *finder, const struct view *view, size_t to)
{
    uint64_t end = finder->at + to;
    if (!finder->is_numbered || end <= finder->numbered_to)
        return;
    size_t from = (size_t)(finder->numbered_to - finder->at);
    finder->lines_before += count_newlines(view->text + from, to - from);
    finder->numbered_to = end;
}

static bool tell(struct finder *finder, const struct view *view, size_t from, size_t length)
{
    number_to(finder, view, from);
    const struct finder_hit hit = { finder->at + from,
                                    finder->is_numbered ? finder->lines_before + 1 : 0,
                                    view->text + from, length };
    return finder->hit(finder->user, &hit);
}

/* The first place from `from` on that has a mark. */
static size_t next_mark(const struct view *view, size_t from)
{
    size_t bit = view->mark_at + from, end = view->mark_at + view->limit;
    while (bit < end) {
        uint64_t bits = view->marks[bit / 64] >> (bit % 64);
        if (bits != 0)
            return bit + (size_t)__builtin_ctzll(bits) - view->mark_at;
        bit = (bit / 64 + 1) * 64;
    }
    return view->limit;
}

static size_t next_place(const struct finder *finder, const struct view *view, size_t from)
{
    size_t place = view->marks ? next_mark(view, from)
                               : automaton_next(finder->automaton, view->text, from, view->limit,
                                                view->length);
    return place < view->limit ? place : view->limit;
}

static size_t line_end(const struct view *view, size_t from)
{
    const uint8_t *newline = memchr(view->text + from, '\n', view->length - from);
    return newline ? (size_t)(newline - view->text) : view->length;
}

static size_t line_begin(const struct view *view, size_t from)
{
    const uint8_t *newline = from > 0 ? memrchr(view->text, '\n', from) : NULL;
    return newline ? (size_t)(newline - view->text) + 1 : 0;
}

static bool is_word_byte(uint8_t byte)
{
    uint8_t letter = byte | 0x20;
    return (letter >= 'a' && letter <= 'z') || (byte >= '0' && byte <= '9') || byte == '_';
}

/* Inverted: the lines from the last one that was reported or found up to `end` have no word. */
static bool tell_lines_before(struct finder *finder, const struct view *view, size_t end)
{
    bool goes_on = true;
    size_t begin = (size_t)(finder->lines_told_to - finder->at);
    while (begin < end && goes_on && !(finder->is_first_only && finder->count > 0)) {
        size_t line = line_end(view, begin);
        finder->count++;
        if (finder->want == FINDER_LINES)
            goes_on = tell(finder, view, begin, line - begin);
        begin = line + 1;
    }
    return goes_on;
}

/* What a word at `place` means; gives the place to go on from. */
static size_t deal_with(struct finder *finder, const struct view *view, size_t place,
                        uint32_t length, bool *goes_on)
{
    if (finder->is_inverted) {
        size_t line = line_end(view, place);
        *goes_on = tell_lines_before(finder, view, line_begin(view, place));
        finder->lines_told_to = finder->at + line + 1;
        return line + 1;
    }
    finder->count++;
    if (finder->want == FINDER_MATCHES) {
        finder->match_end = finder->at + place + length;
        *goes_on = tell(finder, view, place, length);
        return place + length;
    }
    size_t end = line_end(view, place);
    if (finder->want == FINDER_LINES) {
        size_t begin = line_begin(view, place);
        *goes_on = tell(finder, view, begin, end - begin);
    }
    finder->is_in_counted_line = end == view->length;
    return end + 1;
}

/* The longest word at a place, as automaton_longest has it. */
static uint32_t longest_at(struct finder *finder, const struct view *view, size_t place)
{
    const struct automaton *automaton = finder->automaton;
    uint64_t offset = finder->at + place;
    /* The work is bounded by the text's length, whatever the words are. */
    if (!finder->is_backward && !finder->has_no_memory &&
        finder->work > finder->patience + FINDER_WORK_PER_BYTE * offset) {
        finder->is_backward = finder->backward.nodes || backward_init(&finder->backward, automaton);
        finder->has_no_memory = !finder->is_backward;
    }
    if (!finder->is_backward)
        return automaton_longest(automaton, view->text + place, view->length - place, view->is_all,
                                 &finder->work);
    if (!view->is_all && view->length - place < automaton->reach)
        return AUTOMATON_UNKNOWN;
    return backward_longest(&finder->backward, automaton, view->text, place, view->length,
                            finder->at, view->is_all);
}

/*
 * The longest word at a place that stands in its line as is asked for; 0: none does. Where that is
 * asked for the view has whole lines.
 */
static uint32_t match_at(struct finder *finder, const struct view *view, size_t place)
{
    const uint8_t *text = view->text;
    if (place > 0 && finder->is_whole && text[place - 1] != '\n')
        return 0;
    if (place > 0 && finder->is_word && !finder->is_whole && is_word_byte(text[place - 1]) &&
        finder->at + place != finder->match_end)
        return 0;
    uint32_t length = longest_at(finder, view, place);
    if (length == AUTOMATON_UNKNOWN || length == 0)
        return length;
    if (finder->is_whole)
        return place + length == view->length || text[place + length] == '\n' ? length : 0;
    while (finder->is_word && length > 0 && place + length < view->length &&
           is_word_byte(text[place + length]))
        length =
            automaton_longest(finder->automaton, text + place, length - 1, true, &finder->work);
    return length;
}

/*
 * Looks at the places of a view whose text begins at finder->at. `*open` is the first that cannot be
 * told yet, or the limit.
 */
static enum finder_result look(struct finder *finder, const struct view *view, size_t *open)
{
    bool goes_on = true;
    size_t place = finder->next > finder->at ? (size_t)(finder->next - finder->at) : 0;
    if (finder->is_in_counted_line && view->length > 0) {
        size_t end = line_end(view, 0);
        finder->is_in_counted_line = end == view->length;
        place = end + 1;
    }
    *open = view->limit;
    while (goes_on && place < view->limit && !(finder->is_first_only && finder->count > 0)) {
        place = next_place(finder, view, place);
        if (place == view->limit)
            break;
        uint32_t length = match_at(finder, view, place);
        if (length == AUTOMATON_UNKNOWN) {
            *open = place;
            break;
        }
        place = length > 0 ? deal_with(finder, view, place, length, &goes_on) : place + 1;
    }
    finder->next = finder->at + place;
    return goes_on ? FINDER_GOES_ON : FINDER_STOPPED;
}

/* Whether the empty word is in a line as it is asked for: between two bytes that are of no word. */
static bool has_empty_match(const struct finder *finder, const uint8_t *line, size_t length)
{
    if (finder->is_whole || length == 0)
        return length == 0;
    if (!finder->is_word || !is_word_byte(line[0]) || !is_word_byte(line[length - 1]))
        return true;
    for (size_t i = 1; i < length; i++)
        if (!is_word_byte(line[i - 1]) && !is_word_byte(line[i]))
            return true;
    return false;
}

uint32_t finder_match(struct finder *finder, const uint8_t *line, size_t length, size_t *at)
{
    const struct view view = { line, length, length, true, NULL, 0 };
    uint32_t found = 0;
    /* Another text than the one that is being read. */
    const struct finder before = *finder;
    finder->at = finder->work = 0;
    finder->match_end = *at;
    finder->is_backward = false;
    for (; found == 0 && *at < length; *at += found == 0) {
        *at = next_place(finder, &view, *at);
        found = *at < length ? match_at(finder, &view, *at) : 0;
    }
    finder->at = before.at;
    finder->work = before.work;
    finder->match_end = before.match_end;
    finder->is_backward = before.is_backward;
    /* Another text has the same offsets. */
    backward_forget(&finder->backward);
    return found;
}

/* The empty word is found in these lines, though there is nothing of it to tell. */
static void note_empty(struct finder *finder, const struct view *view)
{
    for (size_t begin = 0, end; begin < view->length && finder->count == 0; begin = end + 1) {
        end = line_end(view, begin);
        finder->count += has_empty_match(finder, view->text + begin, end - begin);
    }
}

/* Each line of a view that ends with one, where the empty word is among the words. */
static enum finder_result take_each_line(struct finder *finder, const struct view *view)
{
    bool is_any = !finder->is_word && !finder->is_whole;
    for (size_t begin = 0, end; begin < view->length; begin = end + 1) {
        end = line_end(view, begin);
        size_t at = 0;
        bool is_found = is_any || has_empty_match(finder, view->text + begin, end - begin) ||
                        finder_match(finder, view->text + begin, end - begin, &at) > 0;
        if (is_found == finder->is_inverted || (finder->is_first_only && finder->count > 0))
            continue;
        finder->count++;
        if (finder->want == FINDER_LINES && !tell(finder, view, begin, end - begin))
            return FINDER_STOPPED;
    }
    return FINDER_GOES_ON;
}

static enum finder_result look_at_lines(struct finder *finder, const struct view *view)
{
    size_t open;
    bool is_each = finder->has_empty && finder->want != FINDER_MATCHES;
    enum finder_result result = is_each ? take_each_line(finder, view) : look(finder, view, &open);
    if (finder->has_empty && !is_each)
        note_empty(finder, view);
    if (result == FINDER_GOES_ON && finder->is_inverted && !is_each) {
        if (!tell_lines_before(finder, view, view->length))
            result = FINDER_STOPPED;
        finder->lines_told_to = finder->at + view->length;
    }
    number_to(finder, view, view->length);
    finder->at += view->length;
    finder->is_in_counted_line = false;
    return result;
}

/* Whole lines: what is left of the one before with what is here of it, then those that end here. */
static enum finder_result take_lines(struct finder *finder, struct view *view)
{
    enum finder_result result = FINDER_GOES_ON;
    if (finder->kept_bytes > 0) {
        size_t end = line_end(view, 0);
        bool is_whole = end < view->length || view->is_all;
        size_t head = end < view->length ? end + 1 : view->length;
        if (!keep(finder, view->text, head))
            return FINDER_NO_MEMORY;
        if (!is_whole)
            return FINDER_GOES_ON;
        const struct view joined = {
            finder->kept, finder->kept_bytes, finder->kept_bytes, true, NULL, 0
        };
        result = look_at_lines(finder, &joined);
        finder->kept_bytes = 0;
        view->text += head;
        view->length -= head;
        view->mark_at += head;
    }
    size_t whole = view->is_all ? view->length : line_begin(view, view->length);
    const struct view lines = { view->text, whole, whole, true, view->marks, view->mark_at };
    if (result == FINDER_GOES_ON && whole > 0)
        result = look_at_lines(finder, &lines);
    if (result == FINDER_GOES_ON && !keep(finder, view->text + whole, view->length - whole))
        result = FINDER_NO_MEMORY;
    return result;
}

/* Drops what has been dealt with of the text that is kept. */
static void drop(struct finder *finder, const struct view *view, size_t dealt)
{
    number_to(finder, view, dealt);
    memmove(finder->kept, finder->kept + dealt, finder->kept_bytes - dealt);
    finder->kept_bytes -= dealt;
    finder->at += dealt;
}

/* Text that was left open is looked at again, with as much of the piece as tells what it is. */
static enum finder_result take_kept(struct finder *finder, struct view *view, bool *is_used_up)
{
    size_t old = finder->kept_bytes, open;
    size_t reach = finder->automaton->reach;
    size_t head = view->length < reach ? view->length : reach;
    bool is_last = view->is_all && head == view->length;
    if (!keep(finder, view->text, head))
        return FINDER_NO_MEMORY;
    const struct view joined = { finder->kept, finder->kept_bytes, old, is_last, NULL, 0 };
    enum finder_result result = look(finder, &joined, &open);
    /* Where that was not enough the piece was short, and all of it is kept now. */
    *is_used_up = open < old;
    if (!*is_used_up)
        finder->kept_bytes = old;
    drop(finder, &joined, open);
    return result;
}

static enum finder_result take_places(struct finder *finder, struct view *view)
{
    size_t open;
    enum finder_result result = FINDER_GOES_ON;
    bool is_used_up = false;
    if (finder->kept_bytes > 0)
        result = take_kept(finder, view, &is_used_up);
    if (result != FINDER_GOES_ON || is_used_up)
        return result;
    result = look(finder, view, &open);
    number_to(finder, view, open);
    finder->at += open;
    if (result == FINDER_GOES_ON && !keep(finder, view->text + open, view->length - open))
        result = FINDER_NO_MEMORY;
    return result;
}

/* Lines of which nothing but their number is wanted. */
static void count_lines(struct finder *finder, const struct view *view)
{
    bool ends_open = view->length > 0 && view->text[view->length - 1] != '\n';
    finder->count += count_newlines(view->text, view->length);
    if (view->length > 0)
        finder->is_in_counted_line = ends_open;
    if (view->is_all && finder->is_in_counted_line)
        finder->count++;
}

enum finder_result finder_take(struct finder *finder, const uint8_t *text, size_t length,
                               const uint64_t *marks, size_t mark_at, bool is_end)
{
    struct view view = { text, length, length, is_end, marks, mark_at };
    bool is_placed = finder->is_word || finder->is_whole, has_empty = finder->has_empty;
    if (finder->is_first_only && finder->count > 0)
        return FINDER_GOES_ON;
    /* Every line has the empty word. */
    if (has_empty && !is_placed && finder->is_inverted)
        return FINDER_GOES_ON;
    if (has_empty && !is_placed && finder->want == FINDER_COUNTS) {
        count_lines(finder, &view);
        return FINDER_GOES_ON;
    }
    /* The empty word is found, though there is nothing of it to tell. */
    if (has_empty && !is_placed && finder->want == FINDER_MATCHES && length > 0)
        finder->count++;
    return finder->want == FINDER_LINES || is_placed || finder->is_inverted
               ? take_lines(finder, &view)
               : take_places(finder, &view);
}
