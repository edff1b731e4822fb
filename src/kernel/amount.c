#include "kernel/amount.h"

#include <string.h>

/* Values and operators that wait for their other side. */
#define STACK_MAX 32
/* Larger constants are unknown, so that sums of them fit. */
#define NUMBER_MAX ((int64_t)1 << 40)

/* Words. */

bool words_are_same(const struct word *a, const struct word *b)
{
    return a->bytes == b->bytes && (a->bytes == 0 || memcmp(a->text, b->text, a->bytes) == 0);
}

bool word_is_name(const struct word *word)
{
    return word->kind == WORD_NAME && (word->text[0] < '0' || word->text[0] > '9');
}

bool word_is_type(const struct word *word)
{
    static const char *const types[] = {
        "int8_t",  "uint8_t",  "int16_t",  "uint16_t",     "int32_t", "int",      "uint32_t",
        "int64_t", "uint64_t", "unsigned", "signed",       "char",    "short",    "long",
        "float",   "double",   "bool",     "size_t",       "const",   "volatile", "_Bool",
        "void",    "restrict", "struct",   "MUSTER_GLOBAL"
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (word_is(word, types[i]))
            return true;
    return false;
}

uint32_t words_find_close(const struct word *words, uint32_t open, uint32_t end)
{
    uint32_t depth = 0;
    for (uint32_t i = open; i < end; i++) {
        if (words[i].kind != WORD_SIGN)
            continue;
        if (strchr("([{", words[i].text[0]))
            depth++;
        else if (strchr(")]}", words[i].text[0]) && --depth == 0)
            return i;
    }
    return end;
}

static bool is_sign(const struct word *words, uint32_t at, uint32_t end, char sign)
{
    return at < end && words[at].kind == WORD_SIGN && words[at].text[0] == sign;
}

/* Amounts. */

struct amount amount_constant(int64_t number)
{
    return (struct amount){ true, AMOUNT_NO_ARRAY, 0, number, number };
}

struct amount amount_unknown(void)
{
    return (struct amount){ .array = AMOUNT_NO_ARRAY };
}

bool amount_is_constant(const struct amount *amount)
{
    return amount->is_known && amount->array == AMOUNT_NO_ARRAY && amount->step == 0;
}

static bool is_one_number(const struct amount *amount)
{
    return amount_is_constant(amount) && amount->low == amount->high;
}

static bool is_small(int64_t number)
{
    return number <= NUMBER_MAX && number >= -NUMBER_MAX;
}

/* The amount, or unknown if it got too large to go on with. */
static struct amount checked(struct amount amount)
{
    return is_small(amount.step) && is_small(amount.low) && is_small(amount.high)
               ? amount
               : amount_unknown();
}

struct amount amount_add(const struct amount *a, const struct amount *b)
{
    if (!a->is_known || !b->is_known ||
        (a->array != AMOUNT_NO_ARRAY && b->array != AMOUNT_NO_ARRAY))
        return amount_unknown();
    return checked((struct amount){ true, a->array > b->array ? a->array : b->array,
                                    a->step + b->step, a->low + b->low, a->high + b->high });
}

static struct amount negated(const struct amount *a)
{
    if (!a->is_known || a->array != AMOUNT_NO_ARRAY)
        return amount_unknown();
    return (struct amount){ true, a->array, -a->step, -a->high, -a->low };
}

static struct amount multiply(const struct amount *a, const struct amount *b)
{
    int64_t ends[4], step = 0;
    if (!a->is_known || !b->is_known || a->array != AMOUNT_NO_ARRAY || b->array != AMOUNT_NO_ARRAY)
        return amount_unknown();
    if (a->step != 0 || b->step != 0) {
        const struct amount *number = b->step != 0 ? a : b, *other = b->step != 0 ? b : a;
        if (!is_one_number(number) || __builtin_mul_overflow(other->step, number->low, &step))
            return amount_unknown();
    }
    if (__builtin_mul_overflow(a->low, b->low, &ends[0]) ||
        __builtin_mul_overflow(a->low, b->high, &ends[1]) ||
        __builtin_mul_overflow(a->high, b->low, &ends[2]) ||
        __builtin_mul_overflow(a->high, b->high, &ends[3]))
        return amount_unknown();
    struct amount product = { true, AMOUNT_NO_ARRAY, step, ends[0], ends[0] };
    for (int i = 1; i < 4; i++) {
        product.low = ends[i] < product.low ? ends[i] : product.low;
        product.high = ends[i] > product.high ? ends[i] : product.high;
    }
    return checked(product);
}

/* Names. */

static struct amount_name *find(struct amount_names *names, const struct word *name)
{
    for (uint32_t i = 0; i < names->count; i++)
        if (words_are_same(&names->all[i].name, name))
            return &names->all[i];
    return NULL;
}

static struct amount_name *find_or_add(struct amount_names *names, const struct word *name)
{
    struct amount_name *found = find(names, name);
    if (found || names->count == AMOUNT_NAMES_MAX) {
        names->is_full = names->is_full || !found;
        return found;
    }
    found = &names->all[names->count++];
    *found = (struct amount_name){ .name = *name, .amount = amount_unknown() };
    return found;
}

void amount_name_give(struct amount_names *names, const struct word *name,
                      const struct amount *amount)
{
    struct amount_name *found = find_or_add(names, name);
    if (!found)
        return;
    found->amount = found->is_given ? amount_unknown() : *amount;
    found->is_given = true;
}

struct amount amount_name_find(const struct amount_names *names, const struct word *name)
{
    for (uint32_t i = 0; i < names->count; i++)
        if (words_are_same(&names->all[i].name, name))
            return names->all[i].amount;
    return amount_unknown();
}

/* Whether what follows may be left out in some rounds of a loop: then the ends of its range may be, too. */
static bool has_condition(const struct word *words, uint32_t begin, uint32_t end)
{
    static const char *const names[] = { "if",    "while",  "switch", "continue",
                                         "break", "return", "goto" };
    for (uint32_t at = begin; at < end; at++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (word_is(&words[at], names[i]))
                return true;
        if (is_sign(words, at, end, '?') ||
            (at + 1 < end && words[at].kind == WORD_SIGN && strchr("&|", words[at].text[0]) &&
             is_sign(words, at + 1, end, words[at].text[0])))
            return true;
    }
    return false;
}

/* The same for word `at`: of a loop's variable, in the innermost loop around it. */
static struct amount find_at(const struct amount_names *names, const struct word *words,
                             uint32_t at)
{
    const struct amount_loop *inner = NULL;
    for (uint32_t i = 0; i < names->loop_count; i++) {
        const struct amount_loop *loop = &names->loops[i];
        if (at >= loop->begin && at < loop->end && words_are_same(&loop->variable, &words[at]) &&
            (!inner || loop->begin > inner->begin))
            inner = loop;
    }
    if (inner && has_condition(words, inner->begin, at))
        return amount_unknown();
    return inner ? inner->range : amount_name_find(names, &words[at]);
}

/* Numbers: decimal, hexadecimal or octal, with the letters that C allows behind them. */
static struct amount read_number(const struct word *word)
{
    int64_t number = 0, base = 10;
    size_t at = 0, end = word->bytes;
    while (end > 0 && strchr("uUlL", word->text[end - 1]))
        end--;
    if (end > 1 && word->text[0] == '0') {
        bool is_hex = word->text[1] == 'x' || word->text[1] == 'X';
        base = is_hex ? 16 : 8;
        at = is_hex ? 2 : 1;
    }
    if (at == end)
        return amount_unknown();
    for (; at < end; at++) {
        static const char digits[] = "0123456789abcdef";
        char c = word->text[at];
        const char *digit = strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
        if (!c || !digit || digit - digits >= base || number > NUMBER_MAX)
            return amount_unknown();
        number = number * base + (digit - digits);
    }
    return checked(amount_constant(number));
}

/* An expression while it is read: operators wait until what binds more closely is done. */
struct expression {
    struct amount values[STACK_MAX];
    char operators[STACK_MAX]; /* + - *, n for a minus sign, ( */
    uint32_t value_count, operator_count;
    uint32_t begin; /* its first word */
    bool is_wrong;  /* it is none that can be followed */
};

static int rank(char operator)
{
    return operator== '(' ? 0 : operator== '+' || operator== '-' ? 1 : operator== '*' ? 2 : 3;
}

static void apply(struct expression *made)
{
    char operator= made->operators[--made->operator_count];
    uint32_t needed = operator== 'n' ? 1 : 2;
    if (made->value_count < needed) {
        made->is_wrong = true;
        return;
    }
    struct amount *last = &made->values[made->value_count - 1];
    if (operator== 'n') {
        *last = negated(last);
        return;
    }
    struct amount right = *last, *left = last - 1;
    if (operator== '-')
        right = negated(&right);
    *left = operator== '*' ? multiply(left, &right) : amount_add(left, &right);
    made->value_count--;
}

static void push_operator(struct expression *made, char operator)
{
    /* What stands before a value waits for it; the others bind to the left. */
    while (operator!= '(' && operator!= 'n' && made->operator_count> 0 && !made->is_wrong &&
           rank(made->operators[made->operator_count - 1]) >= rank(operator))
        apply(made);
    made->is_wrong = made->is_wrong || made->operator_count == STACK_MAX;
    if (!made->is_wrong)
        made->operators[made->operator_count++] = operator;
}

static void push_value(struct expression *made, struct amount value)
{
    made->is_wrong = made->is_wrong || made->value_count == STACK_MAX || !value.is_known;
    if (!made->is_wrong)
        made->values[made->value_count++] = value;
}

static void close_parenthesis(struct expression *made)
{
    while (made->operator_count > 0 && made->operators[made->operator_count - 1] != '(' &&
           !made->is_wrong)
        apply(made);
    made->is_wrong = made->is_wrong || made->operator_count == 0;
    made->operator_count -= made->operator_count > 0;
}

/* Whether words (open, close) are a type of integers, so that the parentheses are a cast. */
static bool is_cast(const struct word *words, uint32_t open, uint32_t close)
{
    for (uint32_t i = open + 1; i < close; i++)
        if (!word_is_type(&words[i]) || word_is(&words[i], "float") || word_is(&words[i], "double"))
            return false;
    return close > open + 1;
}

/* Whether the word stands in the expression already: of k - k the ends of k's range say nothing. */
static bool is_repeated(const struct expression *made, const struct word *words, uint32_t at)
{
    uint32_t before = made->begin;
    while (before < at && !words_are_same(&words[before], &words[at]))
        before++;
    return before < at;
}

/* One word, or a cast; gives the next. */
static uint32_t take(struct expression *made, const struct amount_names *names,
                     const struct word *words, uint32_t at, uint32_t end, bool *is_value_next)
{
    const struct word *word = &words[at];
    if (word->kind == WORD_NAME) {
        bool is_used = is_sign(words, at + 1, end, '(') || is_sign(words, at + 1, end, '[') ||
                       is_sign(words, at + 1, end, '.');
        made->is_wrong = made->is_wrong || !*is_value_next || is_used;
        struct amount value = word_is_name(word) ? find_at(names, words, at) : read_number(word);
        if (value.low != value.high && is_repeated(made, words, at))
            value = amount_unknown();
        push_value(made, value);
        *is_value_next = false;
        return at + 1;
    }
    char sign = word->kind == WORD_SIGN ? word->text[0] : '?';
    if (sign == '(' && *is_value_next) {
        uint32_t close = words_find_close(words, at, end);
        if (is_cast(words, at, close))
            return close + 1;
        push_operator(made, '(');
    } else if (sign == ')' && !*is_value_next) {
        close_parenthesis(made);
    } else if (strchr("+-*", sign) && sign && !*is_value_next &&
               !is_sign(words, at + 1, end, sign)) {
        push_operator(made, sign);
        *is_value_next = true;
    } else if (sign == '-' && *is_value_next) {
        push_operator(made, 'n');
    } else {
        made->is_wrong = made->is_wrong || sign != '+' || !*is_value_next;
    }
    return at + 1;
}

struct amount amount_of(const struct amount_names *names, const struct word *words, uint32_t begin,
                        uint32_t end)
{
    struct expression made = { .begin = begin };
    bool is_value_next = true;
    for (uint32_t at = begin; at < end && !made.is_wrong;)
        at = take(&made, names, words, at, end, &is_value_next);
    while (made.operator_count > 0 && !made.is_wrong) {
        made.is_wrong = made.operators[made.operator_count - 1] == '(';
        apply(&made);
    }
    return made.is_wrong || made.value_count != 1 ? amount_unknown() : made.values[0];
}

/* Variables. */

/* The three parts of for (first; test; step), each [begin, end). */
struct loop {
    uint32_t first, test, step, close;
    struct word variable;
};

static uint32_t find_end(const struct word *words, uint32_t begin, uint32_t end, const char *signs)
{
    uint32_t at = begin;
    while (at < end && !(words[at].kind == WORD_SIGN && strchr(signs, words[at].text[0])))
        at = words[at].kind == WORD_SIGN && strchr("([{", words[at].text[0])
                 ? words_find_close(words, at, end) + 1
                 : at + 1;
    return at < end ? at : end;
}

/* `at`: the word after `for`. False: it has no one variable. */
static bool read_loop(const struct word *words, uint32_t at, uint32_t end, struct loop *loop)
{
    if (!is_sign(words, at, end, '('))
        return false;
    loop->close = words_find_close(words, at, end);
    loop->first = at + 1;
    uint32_t semicolon = find_end(words, loop->first, loop->close, ";");
    loop->test = semicolon + 1;
    uint32_t second = semicolon < loop->close ? find_end(words, loop->test, loop->close, ";") : at;
    loop->step = second + 1;
    if (semicolon >= loop->close || second >= loop->close)
        return false;
    uint32_t equals = find_end(words, loop->first, semicolon, "=,");
    if (equals == semicolon || words[equals].text[0] != '=' || equals == loop->first ||
        find_end(words, equals + 1, semicolon, "=,") != semicolon)
        return false;
    loop->variable = words[equals - 1];
    return word_is_name(&loop->variable);
}

/* How the variable goes on: by how much each time; 0: not known. */
static int64_t find_stride(const struct amount_names *names, const struct word *words,
                           const struct loop *loop)
{
    uint32_t at = loop->step, end = loop->close;
    const struct word *variable = &loop->variable;
    if (end - at == 3) {
        bool is_after = words_are_same(&words[at], variable);
        uint32_t sign = is_after ? at + 1 : at;
        if ((is_after || words_are_same(&words[at + 2], variable)) &&
            words[sign].kind == WORD_SIGN && words[sign].text[0] == words[sign + 1].text[0])
            return words[sign].text[0] == '+' ? 1 : words[sign].text[0] == '-' ? -1 : 0;
    }
    if (end - at > 3 && words_are_same(&words[at], variable) && is_sign(words, at + 2, end, '=') &&
        (is_sign(words, at + 1, end, '+') || is_sign(words, at + 1, end, '-'))) {
        struct amount by = amount_of(names, words, at + 3, end);
        bool is_up = words[at + 1].text[0] == '+';
        return is_one_number(&by) && by.low > 0 ? (is_up ? by.low : -by.low) : 0;
    }
    return 0;
}

/* The values of a loop's variable; unknown unless its first, its test and its step are constants. */
static struct amount find_range(const struct amount_names *names, const struct word *words,
                                const struct loop *loop)
{
    uint32_t equals = find_end(words, loop->first, loop->test - 1, "=");
    uint32_t at = loop->test, end = loop->step - 1;
    struct amount first = amount_of(names, words, equals + 1, loop->test - 1);
    int64_t stride = find_stride(names, words, loop);
    char sign = stride > 0 ? '<' : '>';
    if (!is_one_number(&first) || stride == 0 || end - at < 3 ||
        !words_are_same(&words[at], &loop->variable) || !is_sign(words, at + 1, end, sign))
        return amount_unknown();
    bool is_strict = !is_sign(words, at + 2, end, '=');
    struct amount last = amount_of(names, words, at + (is_strict ? 2 : 3), end);
    if (!is_one_number(&last))
        return amount_unknown();
    int64_t limit = last.low - (is_strict ? (stride > 0 ? 1 : -1) : 0);
    int64_t rounds = (limit - first.low) / stride;
    if ((stride > 0 ? limit < first.low : limit > first.low))
        return amount_unknown();
    int64_t final = first.low + rounds * stride;
    return (struct amount){ true, AMOUNT_NO_ARRAY, 0, stride > 0 ? first.low : final,
                            stride > 0 ? final : first.low };
}

/* Whether the sign before or after a name changes what it has: ++, --, +=, or takes its address. */
static bool is_changed_at(const struct word *words, uint32_t at, uint32_t begin, uint32_t end)
{
    static const char operators[] = "+-*/%&|^";
    for (size_t i = 0; i < 2; i++)
        if ((is_sign(words, at + 1, end, operators[i]) &&
             is_sign(words, at + 2, end, operators[i])) ||
            (at >= begin + 2 && is_sign(words, at - 1, end, operators[i]) &&
             is_sign(words, at - 2, end, operators[i])))
            return true;
    for (size_t i = 0; operators[i]; i++)
        if (is_sign(words, at + 1, end, operators[i]) && is_sign(words, at + 2, end, '='))
            return true;
    /* <<= and >>=, and &name where that is no operator between two values. */
    if ((is_sign(words, at + 1, end, '<') || is_sign(words, at + 1, end, '>')) &&
        is_sign(words, at + 2, end, words[at + 1].text[0]) && is_sign(words, at + 3, end, '='))
        return true;
    return at >= begin + 2 && is_sign(words, at - 1, end, '&') && words[at - 2].kind == WORD_SIGN &&
           !strchr(")]&", words[at - 2].text[0]);
}

static bool is_assigned_at(const struct word *words, uint32_t at, uint32_t begin, uint32_t end)
{
    bool is_member =
        at > begin &&
        (is_sign(words, at - 1, end, '.') ||
         (is_sign(words, at - 1, end, '>') && at > begin + 1 && is_sign(words, at - 2, end, '-')));
    return !is_member && is_sign(words, at + 1, end, '=') && !is_sign(words, at + 2, end, '=');
}

/* Counts in which ways each name gets its value. */
static void count_assignments(struct amount_names *names, const struct word *words, uint32_t begin,
                              uint32_t end)
{
    struct loop loop = { 0 };
    for (uint32_t at = begin; at < end; at++) {
        if (word_is(&words[at], "for") && read_loop(words, at + 1, end, &loop)) {
            struct amount_name *name = find_or_add(names, &loop.variable);
            if (name)
                name->loop_count++;
            continue;
        }
        if (!word_is_name(&words[at]))
            continue;
        bool is_in_head = at < loop.close && (at < loop.test || at >= loop.step) &&
                          words_are_same(&words[at], &loop.variable);
        bool is_assigned = is_assigned_at(words, at, begin, end);
        bool is_changed = is_changed_at(words, at, begin, end);
        if (is_in_head || (!is_assigned && !is_changed))
            continue;
        struct amount_name *name = find_or_add(names, &words[at]);
        if (name) {
            name->assigned += is_assigned;
            name->is_changed = name->is_changed || is_changed;
        }
    }
}

/* Whether the name has one meaning wherever it stands. */
static bool has_one_meaning(const struct amount_name *name)
{
    return !name->is_changed && (name->is_given ? name->assigned == 0 && name->loop_count == 0
                                 : name->assigned == 1 ? name->loop_count == 0
                                                       : name->assigned == 0);
}

/* Where the statement after a loop's head ends. */
static uint32_t find_body_end(const struct word *words, uint32_t begin, uint32_t end)
{
    uint32_t at = begin;
    while (at < end && !is_sign(words, at, end, ';')) {
        if (is_sign(words, at, end, '{'))
            return words_find_close(words, at, end);
        at = is_sign(words, at, end, '(') ? words_find_close(words, at, end) + 1 : at + 1;
    }
    return at < end ? at : end;
}

static void set_loop(struct amount_names *names, const struct word *words, const struct loop *loop,
                     uint32_t begin, uint32_t end)
{
    const struct amount_name *name = find(names, &loop->variable);
    if (!name || !has_one_meaning(name) || names->loop_count == AMOUNT_LOOPS_MAX)
        return;
    names->loops[names->loop_count] =
        (struct amount_loop){ .variable = loop->variable,
                              .range = find_range(names, words, loop),
                              .begin = begin,
                              .end = find_body_end(words, loop->close + 1, end) };
    names->loop_count++;
}

void amount_learn(struct amount_names *names, const struct word *words, uint32_t begin,
                  uint32_t end)
{
    struct loop loop;
    count_assignments(names, words, begin, end);
    for (uint32_t i = 0; i < names->count; i++)
        if (!has_one_meaning(&names->all[i]))
            names->all[i].amount = amount_unknown();
    for (uint32_t at = begin; at < end; at++) {
        if (word_is(&words[at], "for") && read_loop(words, at + 1, end, &loop)) {
            set_loop(names, words, &loop, at, end);
            continue;
        }
        if (!word_is_name(&words[at]) || !is_assigned_at(words, at, begin, end))
            continue;
        struct amount_name *name = find(names, &words[at]);
        if (name && has_one_meaning(name) && name->assigned == 1)
            name->amount = amount_of(names, words, at + 2, find_end(words, at + 2, end, ",;)]}"));
    }
}

/* Constants. */

static void learn_define(struct amount_names *names, const struct word *directive)
{
    struct scanner scanner;
    struct word word, name, body[STACK_MAX];
    uint32_t count = 0;
    scanner_init_within(&scanner, directive->text + 1, directive->bytes - 1, directive->line);
    if (!scanner_next(&scanner, &word) || !word_is(&word, "define") ||
        !scanner_next(&scanner, &name) || !word_is_name(&name))
        return;
    while (count < STACK_MAX && scanner_next(&scanner, &word))
        body[count++] = word;
    bool has_parameters =
        count > 0 && word_is(&body[0], "(") && body[0].text == name.text + name.bytes;
    struct amount amount =
        has_parameters || count == STACK_MAX ? amount_unknown() : amount_of(names, body, 0, count);
    amount_name_give(names, &name, &amount);
}

static void learn_enum(struct amount_names *names, const struct word *words, uint32_t open,
                       uint32_t close)
{
    struct amount next = amount_constant(0);
    const struct amount one = amount_constant(1);
    for (uint32_t at = open + 1; at < close;) {
        uint32_t end = find_end(words, at, close, ",");
        if (is_sign(words, at + 1, end, '='))
            next = amount_of(names, words, at + 2, end);
        if (word_is_name(&words[at]))
            amount_name_give(names, &words[at], &next);
        next = amount_add(&next, &one);
        at = end + 1;
    }
}

void amount_learn_constants(struct amount_names *names, const struct word *words, uint32_t count)
{
    for (uint32_t at = 0; at < count; at++) {
        if (words[at].kind == WORD_DIRECTIVE)
            learn_define(names, &words[at]);
        uint32_t open = at + 1;
        if (!word_is(&words[at], "enum"))
            continue;
        open += open < count && word_is_name(&words[open]);
        if (is_sign(words, open, count, '{'))
            learn_enum(names, words, open, words_find_close(words, open, count));
    }
}
