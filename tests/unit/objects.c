/*
 * Shared objects that are loaded without the system: what is loaded runs, and no bytes at all do harm.
 */
#include "harness.h"

#include "base/random.h"
#include "kernel/compile.h"
#include "platform/machine.h"
#include "platform/object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char source[] =
    "#include <math.h>\n"
    "#include <string.h>\n"
    "#define SHOWN __attribute__((visibility(\"default\")))\n"
    "static int (*const steps[])(const char *, const char *) = { strcmp };\n"
    "static double factor = 3;\n"
    "static char zeros[20000];\n"
    "SHOWN double *where = &factor;\n"
    "SHOWN double scaled(double x) { return *where * floor(x) + zeros[19999]; }\n"
    "SHOWN int compared(const char *a, const char *b) { return steps[0](a, b); }\n";

static struct kernel_blob build(const char *text)
{
    struct kernel_blob blob = { .memory = NULL };
    struct muster_error err = { .size = sizeof err };
    muster_status status = compiler_build(text, strlen(text), 0, &platform_heap, NULL, &blob, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    return blob;
}

static void what_is_loaded_runs(void)
{
    struct platform_object object, other;
    struct muster_error err = { .size = sizeof err };
    struct kernel_blob blob = build(source);
    CHECK_STATUS(MUSTER_OK, platform_object_load(&object, blob.data, blob.size, &err));
    CHECK_STATUS(MUSTER_OK, platform_object_load(&other, blob.data, blob.size, &err));
    double (*scaled)(double);
    int (*compared)(const char *, const char *);
    void *symbol = platform_object_symbol(&object, "scaled");
    CHECK(symbol && symbol != platform_object_symbol(&other, "scaled"));
    memcpy(&scaled, &symbol, sizeof symbol);
    symbol = platform_object_symbol(&other, "compared");
    memcpy(&compared, &symbol, sizeof symbol);
    CHECK(scaled(2.5) == 6);
    CHECK(compared("one", "one") == 0 && compared("one", "two") != 0);
    CHECK(!platform_object_symbol(&object, "factor"));
    CHECK(!platform_object_symbol(&object, "floor"));
    CHECK(!platform_object_symbol(&object, ""));
    platform_object_unload(&object);
    /* Its place is taken again. */
    size_t place = object.place;
    CHECK_STATUS(MUSTER_OK, platform_object_load(&object, blob.data, blob.size, &err));
    CHECK_EQUAL(place, object.place);
    platform_object_unload(&object);
    platform_object_unload(&other);
    platform_object_unload(&other);
    kernel_blob_release(&blob, &platform_heap);
}

static void there_is_room_for_so_many(void)
{
    enum { MANY = 4096 };
    static struct platform_object objects[MANY];
    struct muster_error err = { .size = sizeof err };
    struct kernel_blob blob = build(source);
    int count = 0;
    muster_status status = MUSTER_OK;
    while (count < MANY && status == MUSTER_OK) {
        status = platform_object_load(&objects[count], blob.data, blob.size, &err);
        count += status == MUSTER_OK;
    }
    CHECK_STATUS(MUSTER_E_CAPACITY, status);
    CHECK(count > 1000);
    for (int i = 0; i < count; i++)
        platform_object_unload(&objects[i]);
    CHECK_STATUS(MUSTER_OK, platform_object_load(&objects[0], blob.data, blob.size, &err));
    CHECK_EQUAL(0, objects[0].place);
    platform_object_unload(&objects[0]);
    kernel_blob_release(&blob, &platform_heap);
}

static void what_is_not_there_is_named(void)
{
    struct platform_object object;
    struct muster_error err = { .size = sizeof err };
    struct kernel_blob blob = build(source);
    char *name = memmem(blob.memory, blob.memory_bytes, "strcmp", sizeof "strcmp");
    CHECK(name);
    memcpy(name, "nobody", sizeof "nobody");
    CHECK_STATUS(MUSTER_E_NOT_FOUND, platform_object_load(&object, blob.data, blob.size, &err));
    CHECK_CONTAINS("nobody", err.text);
    kernel_blob_release(&blob, &platform_heap);
}

/* Changed here and there, cut off, and no object at all: a status, and nothing outside is touched. */
static void any_bytes_are_refused_or_loaded(void)
{
    struct kernel_blob blob = build(source);
    struct random random;
    unsigned loaded = 0, rounds = test_repetitions(TEST_BY_SANITIZER(4000, 1500, 300));
    random_init(&random, test_seed());
    for (unsigned i = 0; i < rounds; i++) {
        struct platform_object object;
        size_t size = i % 8 == 0 ? random_next(&random) % blob.size : blob.size;
        /* Of its own size, so that AddressSanitizer sees each byte too many. */
        unsigned char *code = malloc(size > 0 ? size : 1);
        memcpy(code, blob.data, size);
        for (uint64_t k = random_next(&random) % 8; size > 0 && i > 0 && k > 0; k--) {
            uint64_t value = random_next(&random);
            bool is_head = value & 1;
            size_t at = (value >> 1) % (is_head && size > 1024 ? 1024 : size);
            code[at] = (unsigned char)(value >> 40);
        }
        if (platform_object_load(&object, code, size, NULL) == MUSTER_OK) {
            platform_object_symbol(&object, "scaled");
            platform_object_unload(&object);
            loaded++;
        }
        free(code);
    }
    CHECK(loaded > 0 && loaded < rounds);
    kernel_blob_release(&blob, &platform_heap);
}

static const struct test tests[] = {
    TEST(what_is_loaded_runs),
    TEST(there_is_room_for_so_many),
    TEST(what_is_not_there_is_named),
    TEST(any_bytes_are_refused_or_loaded),
};

int main(int argc, char **argv)
{
    struct muster_error err = { .size = sizeof err };
    if (platform_objects_prepare(&err) != MUSTER_OK) {
        printf("%s\n", err.text);
        return 1;
    }
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
