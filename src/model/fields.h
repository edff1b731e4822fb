/*
 * Typed reading of JSON objects: which keys there are, what their values may be, and messages that
 * say where in the text something is wrong. Every failure is MUSTER_E_PARSE with "line L, column C:
 * ..." as the text; outputs are written only on success.
 *
 *     struct fields fields = { .names = names, .count = COUNT, .of = "a device", .fix = fix };
 *     while (fields_next(json, &fields, &key, err))
 *         fields.status = ... one of the field_ calls, by key
 *     if (fields.status)
 *         return fields.status;
 */
#ifndef MODEL_FIELDS_H
#define MODEL_FIELDS_H

#include "base/json.h"

#include <muster/status.h>

#define FIELDS_MAX 32

/* An object being read. The first four are the caller's and borrowed; the rest begins as 0. */
struct fields {
    const char *const *names;
    uint32_t count;        /* at most FIELDS_MAX */
    const char *of;        /* what the object is, for messages: "a device" */
    const char *fix;       /* for an unknown key */
    uint32_t seen;         /* bit i: names[i] was given */
    size_t at[FIELDS_MAX]; /* where */
    muster_status status;  /* of the last read; anything but MUSTER_OK ends the reading */
};

/*
 * Is there another key? Its value is then to be read. False at the end, and at an unknown or
 * repeated key or a flaw.
 */
bool fields_next(struct json *json, struct fields *fields, uint32_t *key, struct muster_error *err);

bool fields_given(const struct fields *fields, uint32_t key);

/* What a number may be; an end that is `out` is itself not allowed. */
struct field_range {
    double least, most;
    bool least_out, most_out;
    const char *words; /* "a number above 0" */
};

extern const struct field_range field_above_zero, field_not_negative, field_below_one,
    field_probability;

/* Each reads the value that comes next, which is that of `key`. */
muster_status field_double(struct json *json, const char *key, const struct field_range *range,
                           double *out, struct muster_error *err);
muster_status field_u64(struct json *json, const char *key, uint64_t least, uint64_t most,
                        uint64_t *out, struct muster_error *err);
/* A time in milliseconds, rounded down to nanoseconds. */
muster_status field_ms(struct json *json, const char *key, uint64_t least_ns, uint64_t *out_ns,
                       struct muster_error *err);
/* A number of bytes, or a text that text_parse_size knows; not 0. */
muster_status field_size(struct json *json, const char *key, uint64_t *out,
                         struct muster_error *err);
/* A text of 1 to capacity - 1 bytes, without control characters; `out` is empty on failure. */
muster_status field_text(struct json *json, const char *key, char *out, size_t capacity,
                         struct muster_error *err);
/* One of `count` words; gives which. */
muster_status field_choice(struct json *json, const char *key, const char *const *words,
                           uint32_t count, uint32_t *out, struct muster_error *err);
muster_status field_bool(struct json *json, const char *key, bool *out, struct muster_error *err);
/* Two whole numbers, as [9, 0]. */
muster_status field_version(struct json *json, const char *key, uint16_t out[2],
                            struct muster_error *err);
/* Enters an array or an object. */
muster_status field_enter(struct json *json, const char *key, enum json_type type,
                          struct muster_error *err);

/* Enters the object that is the value of `key`; `*at` is where it begins. */
muster_status field_enter_object(struct json *json, const char *key, size_t *at,
                                 struct muster_error *err);

/* Says what is wrong at `at`. */
muster_status field_error(const struct json *json, size_t at, struct muster_error *err,
                          const char *fix, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Says what is wrong with a value: "`what` must be `wanted`, not ..." */
muster_status field_wrong(const struct json *json, const struct json_value *value, const char *key,
                          const char *wanted, struct muster_error *err);
/* Says what the reader's problem is, which it has. */
muster_status field_json_error(const struct json *json, struct muster_error *err);

#endif
