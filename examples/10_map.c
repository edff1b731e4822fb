/*
 * A map with a shared table, and a status for each item: base64 is decoded four characters at a time
 * on every device there is. Characters that mean nothing fail their own item, and no other.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <string.h>

#define COUNT 100000

struct quad {
    unsigned char letters[4];
};
struct triple {
    unsigned char bytes[3];
};

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static struct quad in[COUNT];
static struct triple out[COUNT];
static muster_status each[COUNT];

/* Arguments: the quads, the table with the value of each character, the triples. */
static muster_status decode(uint64_t begin, uint64_t end, void *const *args)
{
    const struct quad *from = *(const struct quad *const *)args[0];
    const signed char *table = *(const signed char *const *)args[1];
    struct triple *to = *(struct triple *const *)args[2];
    for (uint64_t i = begin; i < end; i++) {
        uint32_t bits = 0;
        for (int k = 0; k < 4; k++) {
            signed char value = table[from[i].letters[k]];
            if (value < 0)
                return MUSTER_E_PARSE;
            bits = bits << 6 | (uint32_t)value;
        }
        for (int k = 0; k < 3; k++)
            to[i].bytes[k] = (unsigned char)(bits >> (16 - 8 * k));
    }
    return MUSTER_OK;
}

/* Item i is the number i, in three bytes. */
static void encode_all(void)
{
    for (uint32_t i = 0; i < COUNT; i++)
        for (int k = 0; k < 4; k++)
            in[i].letters[k] = (unsigned char)alphabet[i >> (18 - 6 * k) & 63];
    in[123].letters[2] = '?';
    in[COUNT - 1].letters[0] = '\n';
}

static muster_status run(struct muster *m, struct muster_error *err)
{
    static signed char table[256];
    memset(table, -1, sizeof table);
    for (int i = 0; i < 64; i++)
        table[(unsigned char)alphabet[i]] = (signed char)i;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = decode };
    struct muster_kernel *kernel;
    muster_data values;
    muster_status status = muster_kernel_from(m, "decode", &form, 1, &kernel, err);
    if (status || (status = muster_data_create(m, table, sizeof table, 0, &values, err)))
        return status;
    const struct muster_arg args[] = { MUSTER_IN(in), MUSTER_ALL(values), MUSTER_OUT(out) };
    return muster_for_each_status(m, kernel, COUNT, args, 3, each, NULL, NULL, err);
}

int main(void)
{
    struct muster *m = NULL;
    struct muster_error err;
    int failed = 0, wrong = 0;
    encode_all();
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK)
        status = run(m, &err);
    if (status != MUSTER_OK)
        printf("%s\n", err.text);
    muster_close(m, NULL);
    for (int i = 0; i < COUNT; i++) {
        const unsigned char *bytes = out[i].bytes;
        failed += each[i] != MUSTER_OK;
        wrong += each[i] == MUSTER_OK && (bytes[0] << 16 | bytes[1] << 8 | bytes[2]) != i;
    }
    printf("%d of %d failed, %d are wrong\n", failed, COUNT, wrong);
    return status != MUSTER_E_FAILED || failed != 2 || each[123] != MUSTER_E_PARSE || wrong > 0;
}
