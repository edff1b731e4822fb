#include "core/rates_file.h"

#include "base/json.h"
#include "base/text.h"

#include <muster/backend.h>
#include <string.h>

/* A line as JSON is at most as long: six bytes for each of its names'. */
#define LINE_BYTES 1280u

/* ---- Writing ---- */

static void put_string(struct text_room *room, const char *string)
{
    text_put(room, "\"");
    for (; *string; string++) {
        unsigned char c = (unsigned char)*string;
        if (c < 0x20)
            text_put(room, "\\u%04x", c);
        else
            text_put(room, c == '"' || c == '\\' ? "\\%c" : "%c", c);
    }
    text_put(room, "\"");
}

/* What a reader would refuse is not written: a name may be any bytes. */
static bool is_readable(const char *text, size_t bytes)
{
    struct json json;
    json_init(&json, text, bytes);
    return json_skip(&json) && json_finish(&json);
}

size_t rates_file_write(const struct rates_file_line *lines, size_t count, char *text, size_t room)
{
    struct text_room output = { text, room, 0 };
    char space[LINE_BYTES];
    bool is_first = true;
    text_put(&output, "{\"muster_rates\": %u, \"rates\": [", RATES_FILE_VERSION);
    for (size_t i = 0; i < count; i++) {
        struct text_room line = { space, sizeof space, 0 };
        text_put(&line, "{\"body\": ");
        put_string(&line, lines[i].body);
        text_put(&line, ", \"device\": ");
        put_string(&line, lines[i].device);
        text_put(&line, ", \"model\": ");
        put_string(&line, lines[i].model);
        text_put(&line, ", \"size_class\": %u, \"ns\": %llu}", lines[i].size_class,
                 (unsigned long long)lines[i].ns);
        if (line.length >= sizeof space || !is_readable(space, line.length))
            continue;
        text_put(&output, "%s%s", is_first ? "\n" : ",\n", space);
        is_first = false;
    }
    text_put(&output, "\n]}\n");
    return output.length;
}

/* ---- Reading ---- */

static muster_status refuse(const struct json *json, size_t at, const char *what,
                            struct muster_error *err)
{
    struct json_place place = json_place(json, at);
    return muster_error_fill(err, MUSTER_E_PARSE, 0, "remove the file: it is learned again",
                             "learned rates, line %llu, column %llu: %s",
                             (unsigned long long)place.line, (unsigned long long)place.column,
                             what);
}

/* One field; false: `*what` says what is wrong with it. */
static bool read_field(struct json *json, const struct json_value *key,
                       struct rates_file_line *line, uint32_t *seen, const char **what)
{
    static const char *const names[] = { "body", "device", "model", "size_class", "ns" };
    struct json_value value;
    uint64_t number;
    uint32_t which = 0;
    while (which < 5 && !json_equals(json, key, names[which]))
        which++;
    *what = which == 5           ? "unknown field"
            : *seen >> which & 1 ? "a field that is there twice"
                                 : NULL;
    if (*what || !json_read(json, &value))
        return false;
    *seen |= 1u << which;
    *what = "a value that is not allowed here";
    if (which < 3) {
        char *to = which == 0 ? line->body : which == 1 ? line->device : line->model;
        size_t room = which == 0   ? sizeof line->body
                      : which == 1 ? sizeof line->device
                                   : sizeof line->model;
        return value.type == JSON_STRING && json_copy(json, &value, to, room) && to[0];
    }
    if (value.type != JSON_NUMBER || !json_u64(json, &value, &number))
        return false;
    if (which == 4) {
        line->ns = number;
        return number > 0 && number <= RATES_FILE_NS_MAX;
    }
    line->size_class = (uint32_t)number;
    return number <= RATES_FILE_CLASS_MAX;
}

/* One line; `*what` NULL: the text is no JSON. */
static bool read_line(struct json *json, struct rates_file_line *line, const char **what)
{
    struct json_value value, key;
    uint32_t seen = 0;
    *what = NULL;
    if (!json_read(json, &value))
        return false;
    *what = "a line is not an object";
    if (value.type != JSON_OBJECT)
        return false;
    memset(line, 0, sizeof *line);
    while (json_next_key(json, &key))
        if (!read_field(json, &key, line, &seen, what))
            return false;
    *what = "a line without all its fields";
    return !json->problem && seen == 31;
}

static bool read_lines(struct json *json, struct rates_file_line *out, size_t *count,
                       const char **what)
{
    struct json_value value;
    if (!json_read(json, &value))
        return false;
    *what = "the rates are not an array";
    if (value.type != JSON_ARRAY)
        return false;
    while (json_next_element(json)) {
        *what = "too many lines";
        if (*count == RATES_FILE_LINES_MAX || !read_line(json, &out[*count], what))
            return false;
        ++*count;
    }
    return !json->problem;
}

muster_status rates_file_read(const char *text, size_t bytes, struct rates_file_line *out,
                              size_t *count, struct muster_error *err)
{
    struct json json;
    struct json_value value, key;
    uint64_t version = 0;
    size_t found = 0;
    const char *what = "not an object";
    json_init(&json, text, bytes);
    bool is_right = json_read(&json, &value) && value.type == JSON_OBJECT;
    bool has_rates = false;
    while (is_right && json_next_key(&json, &key)) {
        if (json_equals(&json, &key, "muster_rates") && version == 0) {
            what = "no version";
            is_right = json_read(&json, &value) && value.type == JSON_NUMBER &&
                       json_u64(&json, &value, &version) && version > 0;
            if (is_right && version != RATES_FILE_VERSION)
                return muster_error_fill(err, MUSTER_E_VERSION, 0,
                                         "remove the file: it is learned again",
                                         "learned rates of version %llu; this library reads %u",
                                         (unsigned long long)version, RATES_FILE_VERSION);
        } else if (json_equals(&json, &key, "rates") && version > 0 && !has_rates) {
            has_rates = true;
            is_right = read_lines(&json, out, &found, &what);
        } else {
            what = "unknown field, or one that is in the wrong place";
            is_right = false;
        }
    }
    if (json.problem)
        return refuse(&json, json.problem_at, json.problem, err);
    if (!is_right)
        return refuse(&json, json.at, what, err);
    if (!json_finish(&json))
        return refuse(&json, json.problem_at, json.problem, err);
    if (!has_rates)
        return refuse(&json, json.at, "no rates", err);
    *count = found;
    return MUSTER_OK;
}
