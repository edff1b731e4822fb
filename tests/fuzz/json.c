/*
 * The JSON reader on any bytes: skipping over a text and walking through it agree on whether it is
 * sound and, if not, where and why; whatever is read can be asked for all that it is not as well.
 */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void look_at_string(const struct json *json, const struct json_value *value)
{
    char whole[4096], tight[8];
    require(value->end - value->begin >= 2);
    if (json_copy(json, value, whole, sizeof whole)) {
        require(json_equals(json, value, whole));
        require(strlen(whole) <= value->end - value->begin - 2);
    }
    if (json_copy(json, value, tight, sizeof tight))
        require(strcmp(tight, whole) == 0);
    else
        require(tight[0] == '\0');
    require(!json_copy(json, value, NULL, 0));
}

static void look_at_number(const struct json *json, const struct json_value *value)
{
    double number = 0;
    uint64_t whole = 0, scaled = 0;
    if (json_double(json, value, &number))
        require(number - number == 0); /* finite */
    if (json_u64(json, value, &whole)) {
        require((double)whole == number);
        require(json_scaled_u64(json, value, 0, &scaled) && scaled == whole);
    }
    if (json_scaled_u64(json, value, 3, &scaled) && scaled < UINT64_C(1) << 50)
        require(number * 1000 > (double)scaled * 0.999999 - 1 &&
                number * 1000 < (double)scaled * 1.000001 + 1.001);
}

static void walk(struct json *json)
{
    struct json_value value, key;
    bool objects[JSON_DEPTH_MAX];
    require(json_read(json, &value) == !json->problem);
    for (;;) {
        if (json->problem)
            return;
        require(value.begin < value.end && value.end <= json->bytes && *json_type_name(value.type));
        if (value.type == JSON_STRING)
            look_at_string(json, &value);
        if (value.type == JSON_NUMBER)
            look_at_number(json, &value);
        if (value.type == JSON_OBJECT || value.type == JSON_ARRAY)
            objects[json->depth - 1] = value.type == JSON_OBJECT;
        for (;;) {
            if (json->depth == 0)
                return;
            bool object = objects[json->depth - 1];
            if (object ? json_next_key(json, &key) : json_next_element(json)) {
                if (object)
                    look_at_string(json, &key);
                break;
            }
            if (json->problem)
                return;
        }
        json_read(json, &value);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json skipped, walked;
    json_init(&skipped, (const char *)data, size);
    json_init(&walked, (const char *)data, size);
    bool sound = json_skip(&skipped) && json_finish(&skipped);
    walk(&walked);
    require(sound == json_finish(&walked) && skipped.at == walked.at);
    require(sound ||
            (skipped.problem == walked.problem && skipped.problem_at == walked.problem_at));
    struct json_place place = json_place(&skipped, sound ? size : skipped.problem_at);
    require(place.line >= 1 && place.column >= 1 && place.line + place.column <= size + 2);
    return 0;
}
