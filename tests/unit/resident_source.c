/*
 * The CUDA C++ that a resident lane is made of. MUSTER_TEST_SOURCE and MUSTER_TEST_CUBIN name files for it, and for
 * what the NVRTC of a CUDA toolkit makes of it where there is one.
 */
#include "support.h"

#include "kernel/resident.h"
#include "platform/machine.h"

static const char source[] =
    "#include \"muster_kernel.h\"\n"
    "#define TWICE(x) (2 * (x))\n"
    "static const uint32_t unused_here = 1;\n"
    "struct pair { float a; uint32_t b; };\n"
    "MUSTER_CONSTANT uint32_t primes[4] = { 2, 3, 5, 7 };\n"
    "MUSTER_KERNEL void nothing(uint64_t i) { (void)i; }\n"
    "MUSTER_KERNEL void scale(uint64_t i, uint32_t a, MUSTER_GLOBAL uint32_t *x)\n"
    "{ x[i] = TWICE(x[i]) * a + primes[i % 4]; }\n"
    "MUSTER_KERNEL void pairs(uint64_t i, struct pair p, MUSTER_GLOBAL const float *x, "
    "MUSTER_GLOBAL float *y)\n"
    "{ y[i] = muster_exp(x[i]) * p.a + (float)p.b; }\n";
static const char own[] = "#define MUSTER_FAST_MATH\n#include \"muster_kernel.h\"\n"
                          "MUSTER_KERNEL void quick(uint64_t i, MUSTER_GLOBAL float *x)\n"
                          "{ x[i] = muster_exp(x[i]); }\n";
static const char plain[] = "#include \"muster_kernel.h\"\n"
                            "static uint32_t helper(uint32_t x) { return x + 1; }\n"
                            "MUSTER_KERNEL void scale(uint64_t i, MUSTER_GLOBAL uint32_t *x)\n"
                            "{ x[i] = helper(x[i]); }\n";

static struct muster_kernel_form form_of(const char *code, const char *entry)
{
    return (struct muster_kernel_form){ .size = sizeof(struct muster_kernel_form),
                                        .kind = MUSTER_KERNEL_PORTABLE,
                                        .code = code,
                                        .code_bytes = strlen(code),
                                        .entry = entry };
}

static char *source_of(const struct muster_kernel_form *const *forms, size_t count, size_t *bytes)
{
    char *text = NULL;
    MUST(kernel_resident_source(forms, count, 256, &platform_heap, &text, bytes, &problem));
    CHECK_EQUAL(*bytes, strlen(text));
    return text;
}

static const struct muster_kernel_form *all_forms(size_t i)
{
    static struct muster_kernel_form forms[4];
    forms[0] = form_of(source, "nothing");
    forms[1] = form_of(source, "scale");
    forms[2] = form_of(source, "pairs");
    /* Of the same name, with a function of its own. */
    forms[3] = form_of(plain, "scale");
    return &forms[i];
}

static void the_source_has_all_opcodes(void)
{
    const struct muster_kernel_form *forms[] = { all_forms(0), all_forms(1), all_forms(2),
                                                 all_forms(3) };
    size_t bytes;
    char *text = source_of(forms, 4, &bytes);
    CHECK(strstr(text, "case 3: muster_opcode_3::muster_run") != NULL);
    CHECK(strstr(text, "case 4:") == NULL);
    CHECK(strstr(text, "muster_resident(") != NULL);
    const char *path = getenv("MUSTER_TEST_SOURCE");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (path)
        CHECK(file && fwrite(text, 1, bytes, file) == bytes && fclose(file) == 0);
    platform_heap.release(platform_heap.user, text, bytes + 1);
}

static void mathematics_are_of_one_kind(void)
{
    const struct muster_kernel_form quick = form_of(own, "quick");
    const struct muster_kernel_form *forms[] = { all_forms(2), &quick };
    char *text;
    size_t bytes;
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED,
                 kernel_resident_source(forms, 2, 256, &platform_heap, &text, &bytes, &problem));
    CHECK_CONTAINS("MUSTER_FAST_MATH", problem.text);
    /* One without mathematics goes with either kind. */
    forms[0] = all_forms(3);
    text = source_of(forms, 2, &bytes);
    platform_heap.release(platform_heap.user, text, bytes + 1);
}

static void nvrtc_compiles_it(void)
{
    const struct muster_kernel_form *forms[] = { all_forms(0), all_forms(1), all_forms(2),
                                                 all_forms(3) };
    const struct kernel_target target = { MUSTER_KERNEL_CUBIN | MUSTER_KERNEL_PTX,
                                          { 9, 0 },
                                          false };
    struct kernel_image image;
    if (!nvrtc_can_build(target.compute, false)) {
        printf("no NVRTC here\n");
        return;
    }
    MUST(kernel_resident_build(forms, 4, 256, &target, &platform_heap, NULL, &image, &problem));
    CHECK_TEXT(KERNEL_RESIDENT_ENTRY, image.form.entry);
    CHECK(image.form.code_bytes > 1000);
    const char *path = getenv("MUSTER_TEST_CUBIN");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (path)
        CHECK(file &&
              fwrite(image.form.code, 1, image.form.code_bytes, file) == image.form.code_bytes &&
              fclose(file) == 0);
    kernel_image_release(&image, &platform_heap);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(the_source_has_all_opcodes),
        TEST(mathematics_are_of_one_kind),
        TEST(nvrtc_compiles_it),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
