/*
 * JSON, written as it comes: no tree, so its memory does not grow with what it writes. Keys are
 * NULL inside arrays.
 */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "output.h"

struct json {
    struct output *out; /* borrowed */
    bool comma;         /* a value precedes the next one */
};

void json_init(struct json *json, struct output *out);

void json_begin_object(struct json *json, const char *key);
void json_end_object(struct json *json);
void json_begin_array(struct json *json, const char *key);
void json_end_array(struct json *json);

/* What is not valid UTF-8 becomes replacement characters, so that any reader takes the document. */
void json_text(struct json *json, const char *key, const char *text);
void json_number(struct json *json, const char *key, uint64_t number);
void json_integer(struct json *json, const char *key, int64_t number);
/* In as few digits as read back the same; null for what is no finite number. */
void json_real(struct json *json, const char *key, double number);
void json_null(struct json *json, const char *key);

#endif
