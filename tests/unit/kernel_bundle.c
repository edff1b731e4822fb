/*
 * Bundles as bundle.h has them: which file is of which kind, what becomes of what, in which order, and
 * that a call that fails changes nothing. What is compiled is compiled by a script that gives an
 * empty object, so that it takes no time. Memory is counted, and may end: allocator_take and
 * allocator_give are wrapped (CMakeLists.txt).
 */
#include "base/allocator.h"
#include "kernel/elf.h"
#include "kernel/format.h"
#include "kernel_support.h"

#include <elf.h>
#include <limits.h>
#include <muster/bundle.h>

static const char one[] = "MUSTER_KERNEL void one(uint64_t i) { }\n";
static const char two[] = "MUSTER_KERNEL void one(uint64_t i) { }\n"
                          "MUSTER_KERNEL void two(uint64_t i) { }\n";

static struct muster_bundle *bundle;

void *__real_allocator_take(const struct muster_allocator *allocator, size_t count, size_t size);
void __real_allocator_give(const struct muster_allocator *allocator, void *memory, size_t count,
                           size_t size);
void *__wrap_allocator_take(const struct muster_allocator *allocator, size_t count, size_t size);
void __wrap_allocator_give(const struct muster_allocator *allocator, void *memory, size_t count,
                           size_t size);

static size_t taken_bytes, taken_pieces;
static unsigned takes_left = UINT_MAX; /* before one fails, and all after it */

void *__wrap_allocator_take(const struct muster_allocator *allocator, size_t count, size_t size)
{
    if (takes_left == 0)
        return NULL;
    takes_left -= takes_left < UINT_MAX;
    void *memory = __real_allocator_take(allocator, count, size);
    taken_pieces += memory != NULL;
    taken_bytes += memory ? count * size : 0;
    return memory;
}

void __wrap_allocator_give(const struct muster_allocator *allocator, void *memory, size_t count,
                           size_t size)
{
    taken_pieces -= memory != NULL;
    taken_bytes -= memory ? count * size : 0;
    __real_allocator_give(allocator, memory, count, size);
}

static void begin(void)
{
    bundle = NULL;
    MUST(muster_bundle_create(&bundle, &problem));
    CHECK(muster_bundle_form(bundle, 0) == NULL);
}

static void end(void)
{
    muster_bundle_destroy(bundle);
    bundle = NULL;
    CHECK_EQUAL(0, taken_pieces);
    CHECK_EQUAL(0, taken_bytes);
}

/* The forms as "kind entry compute file;", to be compared. */
static const char *forms_of(const struct muster_bundle *of)
{
    static char text[4096];
    size_t used = 0;
    const struct muster_kernel_form *form;
    text[0] = '\0';
    for (size_t i = 0; (form = muster_bundle_form(of, i)); i++) {
        CHECK_EQUAL(sizeof *form, form->size);
        CHECK(form->code != NULL && form->code_bytes > 0);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s %u.%u %s;",
                                 muster_kernel_kind_name(form->kind), form->entry, form->compute[0],
                                 form->compute[1], form->file ? form->file : "-");
    }
    return text;
}

static const char *put_file(const char *name, const void *bytes, size_t size)
{
    static char path[KERNEL_PATH_BYTES];
    path_in(path, name);
    unlink(path);
    write_whole(path, bytes, size, 0600);
    return path;
}

/* A whole shared object of this architecture (or of `machine`) without anything in it. */
static size_t make_elf(uint16_t machine, char out[256])
{
    Elf64_Ehdr head;
    Elf64_Phdr segment = { .p_type = PT_LOAD };
    FILE *self = fopen("/proc/self/exe", "rb");
    CHECK(self && fread(&head, sizeof head, 1, self) == 1);
    fclose(self);
    head.e_type = ET_DYN;
    head.e_machine = machine ? machine : head.e_machine;
    head.e_phoff = sizeof head;
    head.e_phnum = 1;
    head.e_phentsize = sizeof segment;
    head.e_shnum = 0;
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head, &segment, sizeof segment);
    return sizeof head + sizeof segment;
}

static void a_file_s_kind_is_told_by_its_content_and_then_by_its_name(void)
{
    char ours[256], cubin[256], other[256];
    size_t ours_bytes = make_elf(0, ours), cubin_bytes = make_elf(190, cubin),
           other_bytes = make_elf(EM_68K, other);
    static const char fat[] = "\x50\xed\x55\xba"
                              "0123456789abcdef",
                      wrapped[] = "\xb1\x43\x62\x46"
                                  "0123456789abcdef";
    const struct {
        const char *name, *text;
        size_t bytes; /* 0: of the text */
        const char *entry;
        const char *forms; /* "": refused with */
        muster_status status;
    } files[] = {
        { "a.c", one, 0, NULL, "portable one 0.0 a.c;", MUSTER_OK },
        { "a.txt", two, 0, NULL, "portable one 0.0 a.txt;portable two 0.0 a.txt;", MUSTER_OK },
        { "a.cu", two, 0, "two", "portable two 0.0 a.cu;", MUSTER_OK },
        { "a.c", two, 0, "three", "", MUSTER_E_NOT_FOUND },
        { "a.c", "int x;", 0, NULL, "", MUSTER_E_PARSE },
        { "a.cu", "__global__ void f(int a) { }", 0, NULL, "CUDA C++ f 0.0 a.cu;", MUSTER_OK },
        { "a", "__global__ void f(int a) { }", 0, NULL, "CUDA C++ f 0.0 a;", MUSTER_OK },
        { "a.cu", "__global__ void f(int a) { }", 0, "g", "CUDA C++ g 0.0 a.cu;", MUSTER_OK },
        { "a.cu", "int x;", 0, NULL, "", MUSTER_E_NOT_FOUND },
        { "a.cl", "kernel void f(int a) { }", 0, NULL, "OpenCL C f 0.0 a.cl;", MUSTER_OK },
        { "a", "kernel void f(int a) { }", 0, NULL, "OpenCL C f 0.0 a;", MUSTER_OK },
        { "a", "__kernel int f(int a) { }", 0, NULL, "OpenCL C f 0.0 a;", MUSTER_OK },
        { "a.ptx", ".entry f()", 0, NULL, "PTX f 0.0 a.ptx;", MUSTER_OK },
        { "a.txt", ".version 8\n.target sm_80\n.entry f()", 0, NULL, "PTX f 0.0 a.txt;",
          MUSTER_OK },
        { "a.txt", ".version 8\n.entry f()", 0, NULL, "", MUSTER_E_PARSE },
        { "a.txt", ".version 8\n.target sm_80\n", 0, NULL, "", MUSTER_E_PARSE },
        { "a.ptx", ".entry f()", 11, NULL, "PTX f 0.0 a.ptx;", MUSTER_OK },
        { "a.ptx", ".entry\0f()", 10, "f", "", MUSTER_E_PARSE },
        { "a.cu", "x\0y", 3, "f", "", MUSTER_E_PARSE },
        { "a.cl", "x\0y", 3, "f", "", MUSTER_E_PARSE },
        { "a.so", ours, ours_bytes, "f", "shared object f 0.0 a.so;", MUSTER_OK },
        { "a.c", ours, ours_bytes, "f", "shared object f 0.0 a.c;", MUSTER_OK },
        { "a.so", other, other_bytes, "f", "shared object f 0.0 a.so;", MUSTER_OK },
        { "a.so", ours, ours_bytes, NULL, "", MUSTER_E_INVALID },
        { "a.so", ours, ours_bytes - 1, "f", "", MUSTER_E_PARSE },
        { "a.so", "text", 0, "f", "", MUSTER_E_PARSE },
        { "a.cubin", cubin, cubin_bytes, "f", "cubin f 0.0 a.cubin;", MUSTER_OK },
        { "a", cubin, cubin_bytes, "f", "cubin f 0.0 a;", MUSTER_OK },
        { "a.cubin", "text", 0, "f", "", MUSTER_E_PARSE },
        { "a.fatbin", "text", 0, "f", "", MUSTER_E_PARSE },
        { "a", fat, sizeof fat - 1, "f", "cubin f 0.0 a;", MUSTER_OK },
        { "a", wrapped, sizeof wrapped - 1, "f", "cubin f 0.0 a;", MUSTER_OK },
        { "a", fat, 16, "f", "", MUSTER_E_PARSE },
        { "a", fat, 17, "f", "cubin f 0.0 a;", MUSTER_OK },
        { "a", "", 0, "f", "", MUSTER_E_PARSE },
        { ".c", "int x;", 0, "f", "", MUSTER_E_PARSE },
        { "a.jpg", "text", 0, "f", "", MUSTER_E_PARSE },
        { "a.c", one, 0, "", "", MUSTER_E_INVALID },
        { "a.cu", "x", 0, "n23456789012345678901234567890123456789012345678901234567890123",
          "CUDA C++ n23456789012345678901234567890123456789012345678901234567890123 0.0 a.cu;",
          MUSTER_OK },
        { "a.cu", "x", 0, "n234567890123456789012345678901234567890123456789012345678901234", "",
          MUSTER_E_INVALID },
    };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        begin();
        const char *path = put_file(files[i].name, files[i].text,
                                    files[i].bytes ? files[i].bytes : strlen(files[i].text));
        problem = (struct muster_error){ .text = "" };
        muster_status status = muster_bundle_add_file(bundle, path, files[i].entry, &problem);
        if (status != files[i].status || strcmp(files[i].forms, forms_of(bundle)) != 0)
            test_fail(__FILE__, __LINE__, "file %zu: %s: %s; %s", i, muster_status_name(status),
                      problem.text, forms_of(bundle));
        CHECK_EQUAL(status != MUSTER_OK, problem.text[0] != '\0');
        end();
    }
}

static void an_image_may_be_of_the_only_kernel_there_is(void)
{
    char ours[256];
    size_t bytes = make_elf(0, ours);
    begin();
    MUST(muster_bundle_add_file(bundle, put_file("a.c", one, strlen(one)), NULL, &problem));
    MUST(muster_bundle_add_file(bundle, put_file("b.so", ours, bytes), NULL, &problem));
    CHECK_TEXT("portable one 0.0 a.c;shared object one 0.0 b.so;", forms_of(bundle));
    MUST(muster_bundle_add_file(bundle, put_file("b.so", ours, bytes), NULL, &problem));
    CHECK_TEXT("portable one 0.0 a.c;shared object one 0.0 b.so;shared object one 0.0 b.so;",
               forms_of(bundle));
    end();
    begin();
    MUST(muster_bundle_add_file(bundle, put_file("c.c", two, strlen(two)), NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_bundle_add_file(bundle, put_file("b.so", ours, bytes), NULL, &problem));
    end();
    begin();
    MUST(muster_bundle_add_file(bundle, put_file("a.c", one, strlen(one)), NULL, &problem));
    MUST(muster_bundle_add_file(bundle, put_file("b.so", ours, bytes), NULL, &problem));
    MUST(muster_bundle_add_file(bundle, put_file("c.c", two, strlen(two)), "two", &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_bundle_add_file(bundle, put_file("b.so", ours, bytes), NULL, &problem));
    CHECK_TEXT("portable one 0.0 a.c;shared object one 0.0 b.so;portable two 0.0 c.c;",
               forms_of(bundle));
    end();
}

static void arguments_are_checked(void)
{
    const uint16_t compute[2] = { 9, 0 };
    const struct muster_kernel_form form = portable_form(one, "one");
    struct muster_kernel_form wrong = form;
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_create(NULL, &problem));
    begin();
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_add_file(NULL, "x", NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_add_file(bundle, NULL, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_add_form(NULL, &form, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_add_form(bundle, NULL, &problem));
    wrong.code = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_add_form(bundle, &wrong, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_build(NULL, MUSTER_KERNEL_PTX, compute, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_build(bundle, MUSTER_KERNEL_PTX, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_bundle_build(bundle, MUSTER_KERNEL_CUBIN, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_write(NULL, "x", &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_write(bundle, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_bundle_write(bundle, "/nonexistent/x", &problem));
    CHECK_TEXT("", forms_of(bundle));
    CHECK(muster_bundle_form(NULL, 0) == NULL);
    end();
    muster_bundle_destroy(NULL);
}

/* All is copied; names of files are cut off where they would not fit a bundle's file. */
static void what_is_added_is_copied(void)
{
    char code[] = "the code", entry[] = "entry", name[301], path[KERNEL_PATH_BYTES];
    struct muster_kernel_form form = portable_form(code, entry);
    memset(name, 'n', 300);
    name[300] = '\0';
    form.file = name;
    form.threads = 77;
    form.compute[0] = 3;
    begin();
    MUST(muster_bundle_add_form(bundle, &form, &problem));
    memset(code, 'x', strlen(code));
    memset(entry, 'x', strlen(entry));
    memset(name, 'x', strlen(name));
    const struct muster_kernel_form *kept = muster_bundle_form(bundle, 0);
    CHECK(memcmp(kept->code, "the code", 9) == 0 && kept->threads == 77 && kept->compute[0] == 3);
    CHECK_TEXT("entry", kept->entry);
    CHECK(strlen(kept->file) == strspn(kept->file, "n") && strlen(kept->file) > 0);
    /* What is written is read again, whatever the name's length was. */
    path_in(path, "copied.bundle");
    MUST(muster_bundle_write(bundle, path, &problem));
    MUST(muster_bundle_add_file(bundle, path, NULL, &problem));
    kept = muster_bundle_form(bundle, 1);
    CHECK(kept->threads == 77 && kept->compute[0] == 3);
    CHECK_TEXT(muster_bundle_form(bundle, 0)->file, kept->file);
    end();
}

static void a_bundle_has_at_most_4096_forms(void)
{
    struct muster_kernel_form form = portable_form("x", "f");
    begin();
    for (size_t i = 0; i < FORMAT_FORMS_MAX; i++) {
        form.threads = (uint32_t)i;
        MUST(muster_bundle_add_form(bundle, &form, &problem));
    }
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_bundle_add_form(bundle, &form, &problem));
    char ours[256], path[KERNEL_PATH_BYTES];
    size_t bytes = make_elf(0, ours);
    CHECK_STATUS(MUSTER_E_TOO_LARGE,
                 muster_bundle_add_file(bundle, put_file("a.so", ours, bytes), "f", &problem));
    CHECK_STATUS(MUSTER_E_TOO_LARGE,
                 muster_bundle_add_file(bundle, put_file("a.cu", "x", 1), "f", &problem));
    CHECK_STATUS(MUSTER_E_TOO_LARGE,
                 muster_bundle_add_file(bundle, put_file("a.c", two, strlen(two)), NULL, &problem));
    CHECK_STATUS(MUSTER_E_PARSE, muster_bundle_build(bundle, MUSTER_KERNEL_OPENCL, NULL, &problem));
    for (size_t i = 0; i < FORMAT_FORMS_MAX; i++)
        CHECK_EQUAL(i, muster_bundle_form(bundle, i)->threads);
    CHECK(!muster_bundle_form(bundle, FORMAT_FORMS_MAX));
    path_in(path, "full.bundle");
    MUST(muster_bundle_write(bundle, path, &problem));
    end();
    begin();
    MUST(muster_bundle_add_file(bundle, path, NULL, &problem));
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_bundle_add_form(bundle, &form, &problem));
    end();
    /* One is left: a file with two kernels does not fit, not even in part. */
    begin();
    for (size_t i = 1; i < FORMAT_FORMS_MAX; i++)
        MUST(muster_bundle_add_form(bundle, &form, &problem));
    CHECK_STATUS(MUSTER_E_TOO_LARGE,
                 muster_bundle_add_file(bundle, put_file("a.c", two, strlen(two)), NULL, &problem));
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_bundle_add_file(bundle, path, NULL, &problem));
    CHECK(muster_bundle_form(bundle, FORMAT_FORMS_MAX - 2));
    CHECK(!muster_bundle_form(bundle, FORMAT_FORMS_MAX - 1));
    MUST(muster_bundle_add_form(bundle, &form, &problem));
    end();
}

/* A compiler that gives that object, and says how often. */
static void use_compiler(const char *text)
{
    char path[KERNEL_PATH_BYTES], script[2048], object[256];
    size_t bytes = make_elf(0, object);
    put_file("object", object, bytes);
    path_in(path, "cc");
    snprintf(script, sizeof script,
             "#!/bin/sh\necho x >>'%s/asked'\n%s\nwhile [ \"$1\" != -o ]; do shift; done\n"
             "cp '%s/object' \"$2\"\n",
             folder, text, folder);
    unlink(path);
    write_whole(path, script, strlen(script), 0700);
    setenv("MUSTER_CC", path, 1);
    path_in(path, "asked");
    unlink(path);
}

static long times_asked(void)
{
    char path[KERNEL_PATH_BYTES];
    struct stat facts;
    path_in(path, "asked");
    return stat(path, &facts) == 0 ? (long)facts.st_size / 2 : 0;
}

static void add_text(const char *name, const char *text)
{
    MUST(muster_bundle_add_file(bundle, put_file(name, text, strlen(text)), NULL, &problem));
}

/* New forms stand before all others, for each kernel of each source, each source compiled once. */
static void what_is_built_goes_to_the_front(void)
{
    setenv("MUSTER_CACHE", "", 1);
    use_compiler("");
    begin();
    add_text("two.c", two);
    add_text("x.cl", "kernel void f(int a) { }");
    add_text("one.c", one);
    MUST(muster_bundle_build(bundle, MUSTER_KERNEL_SHARED_OBJECT, NULL, &problem));
    CHECK_TEXT(
        "shared object one 0.0 two.c;shared object two 0.0 two.c;shared object one 0.0 one.c;"
        "portable one 0.0 two.c;portable two 0.0 two.c;OpenCL C f 0.0 x.cl;"
        "portable one 0.0 one.c;",
        forms_of(bundle));
    CHECK_EQUAL(2, times_asked());
    const struct muster_kernel_form *third = muster_bundle_form(bundle, 2);
    CHECK(muster_bundle_form(bundle, 0)->code == muster_bundle_form(bundle, 1)->code &&
          muster_bundle_form(bundle, 0)->code != third->code);
    CHECK_EQUAL(ELF_OURS, elf_look(third->code, third->code_bytes));
    MUST(muster_bundle_build(bundle, MUSTER_KERNEL_OPENCL, NULL, &problem));
    CHECK_TEXT(
        "OpenCL C one 0.0 two.c;OpenCL C two 0.0 two.c;OpenCL C one 0.0 one.c;"
        "shared object one 0.0 two.c;shared object two 0.0 two.c;shared object one 0.0 one.c;"
        "portable one 0.0 two.c;portable two 0.0 two.c;OpenCL C f 0.0 x.cl;"
        "portable one 0.0 one.c;",
        forms_of(bundle));
    CHECK_EQUAL(2, times_asked());
    CHECK_CONTAINS("kernel void two(", (const char *)muster_bundle_form(bundle, 0)->code);
    /* Each keeps the threads that its source was given. */
    end();
    struct muster_kernel_form form = portable_form(one, "one");
    form.threads = 96;
    begin();
    MUST(muster_bundle_add_form(bundle, &form, &problem));
    MUST(muster_bundle_build(bundle, MUSTER_KERNEL_OPENCL, NULL, &problem));
    CHECK_EQUAL(96, muster_bundle_form(bundle, 0)->threads);
    end();
}

static void what_cannot_be_built_changes_nothing(void)
{
    static const char before[] =
        "portable one 0.0 one.c;OpenCL C f 0.0 x.cl;portable two 0.0 bad.c;";
    static const char bad[] = "MUSTER_KERNEL void two(uint64_t i) { bad }\n";
    setenv("MUSTER_CACHE", "", 1);
    begin();
    add_text("one.c", one);
    add_text("x.cl", "kernel void f(int a) { }");
    add_text("bad.c", bad);
    /* The first is compiled, the second is not. */
    use_compiler("grep -q bad \"$(dirname \"$0\")\"/temporary/*/kernel.c && "
                 "{ echo 'error: bad' >&2; exit 1; }");
    CHECK_STATUS(MUSTER_E_PARSE,
                 muster_bundle_build(bundle, MUSTER_KERNEL_SHARED_OBJECT, NULL, &problem));
    CHECK_CONTAINS("error: bad", problem.text);
    CHECK_EQUAL(2, times_asked());
    CHECK_TEXT(before, forms_of(bundle));
    setenv("MUSTER_CC", "/nonexistent/cc", 1);
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED,
                 muster_bundle_build(bundle, MUSTER_KERNEL_SHARED_OBJECT, NULL, &problem));
    CHECK_TEXT(before, forms_of(bundle));
    /* Kinds that nothing becomes. */
    const uint16_t compute[2] = { 9, 0 };
    CHECK_STATUS(MUSTER_E_NOT_FOUND,
                 muster_bundle_build(bundle, MUSTER_KERNEL_CUDA, compute, &problem));
    CHECK_STATUS(MUSTER_E_NOT_FOUND,
                 muster_bundle_build(bundle, MUSTER_KERNEL_PORTABLE, compute, &problem));
    CHECK_STATUS(MUSTER_E_NOT_FOUND,
                 muster_bundle_build(bundle, MUSTER_KERNEL_FUNCTION, compute, &problem));
    CHECK_TEXT(before, forms_of(bundle));
    end();
    begin();
    add_text("x.cl", "kernel void f(int a) { }");
    add_text("x.cu", "__global__ void f(int a) { }");
    CHECK_STATUS(MUSTER_E_NOT_FOUND,
                 muster_bundle_build(bundle, MUSTER_KERNEL_SHARED_OBJECT, NULL, &problem));
    CHECK_CONTAINS("shared object", problem.text);
    CHECK_STATUS(MUSTER_E_NOT_FOUND,
                 muster_bundle_build(bundle, MUSTER_KERNEL_OPENCL, NULL, &problem));
    CHECK_CONTAINS("OpenCL C", problem.text);
    end();
}

static void a_bundle_of_bundles_has_all_that_is_asked_for(void)
{
    char path[KERNEL_PATH_BYTES], copy[KERNEL_PATH_BYTES];
    path_in(path, "inner.bundle");
    begin();
    add_text("two.c", two);
    add_text("x.cl", "kernel void two(int a) { }");
    MUST(muster_bundle_write(bundle, path, &problem));
    end();
    begin();
    MUST(muster_bundle_add_file(bundle, path, "two", &problem));
    CHECK_TEXT("portable two 0.0 two.c;OpenCL C two 0.0 x.cl;", forms_of(bundle));
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_bundle_add_file(bundle, path, "three", &problem));
    MUST(muster_bundle_add_file(bundle, path, NULL, &problem));
    CHECK_TEXT("portable two 0.0 two.c;OpenCL C two 0.0 x.cl;"
               "portable one 0.0 two.c;portable two 0.0 two.c;OpenCL C two 0.0 x.cl;",
               forms_of(bundle));
    /* Written and read again it is the same, also over itself. */
    char expected[4096];
    snprintf(expected, sizeof expected, "%s", forms_of(bundle));
    path_in(copy, "outer.bundle");
    for (int i = 0; i < 2; i++)
        MUST(muster_bundle_write(bundle, copy, &problem));
    end();
    begin();
    MUST(muster_bundle_add_file(bundle, copy, NULL, &problem));
    CHECK_TEXT(expected, forms_of(bundle));
    CHECK_STATUS(MUSTER_E_IO, muster_bundle_write(bundle, "/nonexistent/x.bundle", &problem));
    CHECK_STATUS(MUSTER_E_IO, muster_bundle_write(bundle, folder, &problem));
    end();
}

/* Everything that is done with a bundle; gives the first failure. */
static muster_status do_all(const char *path, const char *inner, const char *out)
{
    struct muster_kernel_form form = portable_form("x", "f");
    form.kind = MUSTER_KERNEL_CUDA;
    muster_status status = muster_bundle_create(&bundle, &problem);
    if (status == MUSTER_OK)
        status = muster_bundle_add_file(bundle, path, NULL, &problem);
    if (status == MUSTER_OK)
        status = muster_bundle_add_file(bundle, inner, NULL, &problem);
    for (int i = 0; i < 20 && status == MUSTER_OK; i++)
        status = muster_bundle_add_form(bundle, &form, &problem);
    if (status == MUSTER_OK)
        status = muster_bundle_build(bundle, MUSTER_KERNEL_SHARED_OBJECT, NULL, &problem);
    if (status == MUSTER_OK)
        status = muster_bundle_build(bundle, MUSTER_KERNEL_OPENCL, NULL, &problem);
    return status == MUSTER_OK ? muster_bundle_write(bundle, out, &problem) : status;
}

/* Each allocation fails once, with all after it: told, with the bundle as it was, nothing left. */
static void memory_may_end_anywhere(void)
{
    char path[KERNEL_PATH_BYTES], inner[KERNEL_PATH_BYTES], out[KERNEL_PATH_BYTES];
    setenv("MUSTER_CACHE", "", 1);
    use_compiler("");
    snprintf(path, sizeof path, "%s", put_file("two.c", two, strlen(two)));
    path_in(inner, "inner.bundle");
    path_in(out, "out.bundle");
    begin();
    add_text("x.cl", "kernel void f(int a) { }");
    MUST(muster_bundle_write(bundle, inner, &problem));
    end();
    muster_status status = MUSTER_E_NO_MEMORY;
    unsigned failures = 0;
    for (unsigned n = 0; status != MUSTER_OK; n++) {
        unlink(out);
        bundle = NULL;
        takes_left = n;
        status = do_all(path, inner, out);
        failures += takes_left == 0 && status != MUSTER_OK;
        takes_left = UINT_MAX;
        CHECK(status == MUSTER_OK || status == MUSTER_E_NO_MEMORY);
        CHECK_EQUAL(status == MUSTER_OK, access(out, F_OK) == 0);
        if (bundle && status == MUSTER_OK)
            CHECK_CONTAINS("OpenCL C one 0.0 two.c;OpenCL C two 0.0 two.c;", forms_of(bundle));
        end();
    }
    CHECK(failures > 30);
}

/* Sizes that no memory has are refused before anything is copied. */
static void code_may_not_be_larger_than_memory(void)
{
    struct muster_kernel_form form = portable_form(one, "one");
    begin();
    for (size_t less = 0; less <= 16; less++) {
        form.code_bytes = SIZE_MAX - less;
        CHECK_STATUS(MUSTER_E_NO_MEMORY, muster_bundle_add_form(bundle, &form, &problem));
    }
    CHECK_TEXT("", forms_of(bundle));
    end();
}

static void kinds_have_names(void)
{
    static const char *const names[] = { "function", "portable", "shared object", "OpenCL C",
                                         "CUDA C++", "PTX",      "cubin",         "unknown" };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        CHECK_TEXT(names[i], muster_kernel_kind_name((enum muster_kernel_kind)(1u << i)));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_file_s_kind_is_told_by_its_content_and_then_by_its_name),
        TEST(an_image_may_be_of_the_only_kernel_there_is),
        TEST(arguments_are_checked),
        TEST(what_is_added_is_copied),
        TEST(a_bundle_has_at_most_4096_forms),
        TEST(what_is_built_goes_to_the_front),
        TEST(what_cannot_be_built_changes_nothing),
        TEST(a_bundle_of_bundles_has_all_that_is_asked_for),
        TEST(memory_may_end_anywhere),
        TEST(code_may_not_be_larger_than_memory),
        TEST(kinds_have_names),
    };
    return kernel_test_main(argc, argv, tests, COUNT_OF(tests));
}
