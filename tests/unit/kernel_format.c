/*
 * The file that a bundle is, byte by byte as format.h has it; what a shared object must have before
 * it is loaded; what each kind of form must have.
 */
#include "base/sha256.h"
#include "kernel/check.h"
#include "kernel/elf.h"
#include "kernel/format.h"
#include "support.h"

#include <elf.h>

#define FORM(kind_, code_, entry_)                                                                 \
    {                                                                                              \
        .size = sizeof(struct muster_kernel_form), .kind = (kind_), .code = (code_),               \
        .code_bytes = sizeof(code_) - 1, .entry = (entry_)                                         \
    }

static const char shared_code[] = "shared code";
static struct muster_kernel_form forms[3];
static uint8_t file[1024];
static size_t file_bytes;

static void make_file(void)
{
    const struct muster_kernel_form made[3] = {
        FORM(MUSTER_KERNEL_PORTABLE, shared_code, "first"),
        FORM(MUSTER_KERNEL_CUBIN, "cubin", "second_entry"),
        FORM(MUSTER_KERNEL_PORTABLE, shared_code, "third"),
    };
    memcpy(forms, made, sizeof made);
    forms[0].file = "first.c";
    forms[1].threads = 0x01020304;
    forms[1].compute[0] = 0x0a0b;
    forms[1].compute[1] = 0x0c0d;
    file_bytes = format_bytes(forms, 3);
    CHECK(file_bytes <= sizeof file);
    memset(file, 0xee, sizeof file);
    format_write(forms, 3, file);
    /* It wrote what it said and nothing after it. */
    for (size_t i = file_bytes; i < sizeof file; i++)
        CHECK(file[i] == 0xee);
}

static uint64_t number_at(size_t at, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = bytes; i-- > 0;)
        number = number << 8 | file[at + i];
    return number;
}

static void put_at(size_t at, size_t bytes, uint64_t number)
{
    for (size_t i = 0; i < bytes; i++)
        file[at + i] = (uint8_t)(number >> 8 * i);
}

/* Over all but itself. */
static void hash_file(uint8_t out[SHA256_BYTES])
{
    struct sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, file, 24);
    sha256_add(&hash, file + 56, file_bytes - 56);
    sha256_finish(&hash, out);
}

static muster_status check_file(void)
{
    size_t count = 77;
    problem = (struct muster_error){ .text = "" };
    muster_status status = format_check(file, file_bytes, "name.bundle", &count, &problem);
    CHECK_EQUAL(status == MUSTER_OK ? number_at(12, 4) : 77, count);
    CHECK_EQUAL(status != MUSTER_OK, problem.text[0] != '\0');
    if (status != MUSTER_OK)
        CHECK_CONTAINS("name.bundle", problem.text);
    return status;
}

/* With the right hash, so that it is the field that is refused. */
static muster_status check_hashed(void)
{
    hash_file(file + 24);
    return check_file();
}

static void a_file_is_as_the_header_says(void)
{
    uint8_t hash[SHA256_BYTES];
    make_file();
    CHECK(memcmp(file, "MUSTERKB", 8) == 0 && format_is_bundle(file, 8));
    CHECK(!format_is_bundle(file, 7) && !format_is_bundle("MUSTERKC", 8));
    CHECK_EQUAL(1, number_at(8, 4));
    CHECK_EQUAL(3, number_at(12, 4));
    CHECK_EQUAL(file_bytes, number_at(16, 8));
    hash_file(hash);
    CHECK(memcmp(hash, file + 24, sizeof hash) == 0);
    format_hash(file, file_bytes, hash);
    CHECK(memcmp(hash, file + 24, sizeof hash) == 0);
    for (size_t i = 0; i < 3; i++) {
        size_t at = 56 + 48 * i;
        CHECK_EQUAL(forms[i].kind, number_at(at, 4));
        CHECK_EQUAL(forms[i].threads, number_at(at + 4, 4));
        CHECK_EQUAL(forms[i].compute[0], number_at(at + 8, 2));
        CHECK_EQUAL(forms[i].compute[1], number_at(at + 10, 2));
        CHECK_EQUAL(0, number_at(at + 12, 4));
        CHECK_EQUAL(forms[i].code_bytes, number_at(at + 24, 8));
        CHECK(number_at(at + 16, 8) >= 56 + 3 * 48);
        CHECK(memcmp(file + number_at(at + 16, 8), forms[i].code, forms[i].code_bytes) == 0);
        CHECK_TEXT(forms[i].entry, (const char *)file + number_at(at + 32, 8));
        if (forms[i].file)
            CHECK_TEXT(forms[i].file, (const char *)file + number_at(at + 40, 8));
        else
            CHECK_EQUAL(0, number_at(at + 40, 8));
    }
    /* Code that forms share stands there once. */
    CHECK_EQUAL(number_at(56 + 16, 8), number_at(56 + 96 + 16, 8));
    CHECK_EQUAL(56 + 3 * 48 + strlen(shared_code) + 5 + sizeof "first" + sizeof "first.c" +
                    sizeof "second_entry" + sizeof "third",
                file_bytes);
    CHECK_STATUS(MUSTER_OK, check_file());
    for (size_t i = 0; i < 3; i++) {
        const struct muster_kernel_form form = format_read(file, i);
        CHECK(form.size == sizeof form && form.kind == forms[i].kind);
        CHECK(form.threads == forms[i].threads && form.code_bytes == forms[i].code_bytes);
        CHECK(memcmp(form.compute, forms[i].compute, sizeof form.compute) == 0);
        CHECK(memcmp(form.code, forms[i].code, form.code_bytes) == 0);
        CHECK_TEXT(forms[i].entry, form.entry);
        CHECK(!form.file == !forms[i].file && form.function == NULL);
    }
}

static void damage_anywhere_is_noticed(void)
{
    make_file();
    size_t whole = file_bytes;
    for (size_t at = 0; at < whole; at++) {
        for (int bit = 1; bit < 256; bit <<= 1) {
            file[at] ^= (uint8_t)bit;
            CHECK_STATUS(at >= 8 && at < 12 ? MUSTER_E_VERSION : MUSTER_E_PARSE, check_file());
            file[at] ^= (uint8_t)bit;
        }
        file_bytes = at;
        CHECK_STATUS(MUSTER_E_PARSE, check_file());
        file_bytes = whole;
    }
    file_bytes = whole + 1;
    CHECK_STATUS(MUSTER_E_PARSE, check_file());
    file_bytes = whole;
    CHECK_STATUS(MUSTER_OK, check_file());
    /* A head and nothing else is a whole head. */
    file_bytes = 56;
    put_at(16, 8, 56);
    hash_file(file + 24);
    CHECK_STATUS(MUSTER_E_PARSE, check_file());
    CHECK_CONTAINS("number of kernels", problem.text);
}

/* A file whose hash is right and whose fields are not. */
static void each_field_is_checked(void)
{
    enum { FORM_AT = 56 + 48, BEGIN = 56 + 3 * 48 };
    make_file();
    const uint64_t size = file_bytes, entry = number_at(FORM_AT + 32, 8);
    const struct {
        size_t at, bytes;
        uint64_t value;
        bool is_right;
    } cases[] = {
        { 12, 4, 0, false },
        { 12, 4, 4, false },
        { 12, 4, 4097, false },
        { 12, 4, UINT32_MAX, false },
        { 12, 4, 2, true },
        { FORM_AT, 4, 0, false },
        { FORM_AT, 4, MUSTER_KERNEL_FUNCTION, false },
        { FORM_AT, 4, MUSTER_KERNEL_PTX | MUSTER_KERNEL_CUBIN, false },
        { FORM_AT, 4, MUSTER_KERNEL_CUBIN | MUSTER_KERNEL_FUNCTION, false },
        { FORM_AT, 4, MUSTER_KERNEL_CUBIN << 1, false },
        { FORM_AT, 4, UINT32_C(1) << 31, false },
        { FORM_AT, 4, MUSTER_KERNEL_PORTABLE, true },
        { FORM_AT, 4, MUSTER_KERNEL_SHARED_OBJECT, true },
        { FORM_AT, 4, MUSTER_KERNEL_OPENCL, true },
        { FORM_AT, 4, MUSTER_KERNEL_CUDA, true },
        { FORM_AT, 4, MUSTER_KERNEL_PTX, true },
        { FORM_AT + 16, 8, 0, false },
        { FORM_AT + 16, 8, BEGIN - 1, false },
        { FORM_AT + 16, 8, BEGIN, true },
        { FORM_AT + 16, 8, size - 5, true },
        { FORM_AT + 16, 8, size - 4, false },
        { FORM_AT + 16, 8, size, false },
        { FORM_AT + 16, 8, size + 1, false },
        { FORM_AT + 16, 8, UINT64_MAX, false },
        { FORM_AT + 16, 8, UINT64_MAX - 4, false },
        { FORM_AT + 24, 8, 0, false },
        { FORM_AT + 24, 8, 1, true },
        { FORM_AT + 24, 8, UINT64_MAX, false },
        { FORM_AT + 24, 8, size - number_at(FORM_AT + 16, 8), true },
        { FORM_AT + 24, 8, size - number_at(FORM_AT + 16, 8) + 1, false },
        { FORM_AT + 32, 8, 0, false },
        { FORM_AT + 32, 8, BEGIN - 1, false },
        { FORM_AT + 32, 8, entry + 1, true },
        { FORM_AT + 32, 8, entry + strlen("second_entry"), false },
        { FORM_AT + 32, 8, size - 1, false },
        { FORM_AT + 32, 8, size, false },
        { FORM_AT + 32, 8, UINT64_MAX, false },
        { FORM_AT + 40, 8, BEGIN - 1, false },
        { FORM_AT + 40, 8, 1, false },
        { FORM_AT + 40, 8, entry, true },
        { FORM_AT + 40, 8, size - 1, true },
        { FORM_AT + 40, 8, size, false },
        { FORM_AT + 40, 8, UINT64_MAX, false },
        { 8, 4, 0, false },
        { 8, 4, 2, false },
        { 16, 8, size - 1, false },
        { 16, 8, size + 1, false },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        make_file();
        put_at(cases[i].at, cases[i].bytes, cases[i].value);
        muster_status status = check_hashed();
        if ((status == MUSTER_OK) != cases[i].is_right)
            test_fail(__FILE__, __LINE__, "field at %zu, value %llu: %s", cases[i].at,
                      (unsigned long long)cases[i].value, muster_status_name(status));
        CHECK(status == MUSTER_OK ||
              status == (cases[i].at == 8 ? MUSTER_E_VERSION : MUSTER_E_PARSE));
    }
    /* The last byte of the file ends its last name. */
    make_file();
    file[file_bytes - 1] = 'x';
    CHECK_STATUS(MUSTER_E_PARSE, check_hashed());
}

static void names_have_their_limits(void)
{
    static char name[400];
    static const struct {
        size_t entry, file;
        muster_status status;
    } cases[] = { { 1, 0, MUSTER_OK },   { 63, 0, MUSTER_OK },   { 64, 0, MUSTER_E_PARSE },
                  { 1, 255, MUSTER_OK }, { 63, 255, MUSTER_OK }, { 1, 256, MUSTER_E_PARSE } };
    memset(name, 'n', sizeof name - 1);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct muster_kernel_form form =
            FORM(MUSTER_KERNEL_PTX, "ptx", name + sizeof name - 1 - cases[i].entry);
        form.file = cases[i].file > 0 ? name + sizeof name - 1 - cases[i].file : NULL;
        file_bytes = format_bytes(&form, 1);
        format_write(&form, 1, file);
        CHECK_STATUS(cases[i].status, check_file());
    }
    struct muster_kernel_form large[2] = { FORM(MUSTER_KERNEL_PTX, "a", "f"),
                                           FORM(MUSTER_KERNEL_PTX, "b", "f") };
    large[0].code_bytes = large[1].code_bytes = SIZE_MAX / 2 + 1;
    CHECK_EQUAL(0, format_bytes(large, 2));
    large[0].code_bytes = SIZE_MAX - 10;
    CHECK_EQUAL(0, format_bytes(large, 1));
}

/* A shared object of this processor with two segments, in memory of exactly its size. */
static struct {
    Elf64_Ehdr head;
    Elf64_Phdr segments[2];
    char bytes[160];
} object;

static void make_elf(void)
{
    Elf64_Ehdr own;
    FILE *self = fopen("/proc/self/exe", "rb");
    CHECK(self && fread(&own, sizeof own, 1, self) == 1);
    fclose(self);
    memset(&object, 0, sizeof object);
    memcpy(object.head.e_ident, own.e_ident, sizeof own.e_ident);
    object.head.e_machine = own.e_machine;
    object.head.e_type = ET_DYN;
    object.head.e_phoff = sizeof object.head;
    object.head.e_phnum = 2;
    object.head.e_phentsize = sizeof(Elf64_Phdr);
    object.segments[0].p_filesz = sizeof object;
    object.segments[1].p_offset = sizeof object - 8;
    object.segments[1].p_filesz = 8;
}

static enum elf_kind look(size_t bytes)
{
    void *exact = malloc(bytes > 0 ? bytes : 1);
    CHECK(exact != NULL);
    memcpy(exact, &object, bytes);
    enum elf_kind kind = elf_look(exact, bytes);
    free(exact);
    return kind;
}

#define ELF_WITH(kind_, field, value)                                                              \
    do {                                                                                           \
        make_elf();                                                                                \
        object.field = (value);                                                                    \
        CHECK_EQUAL(kind_, look(sizeof object));                                                   \
    } while (0)

static void a_shared_object_is_looked_at_before_it_is_loaded(void)
{
    make_elf();
    CHECK_EQUAL(ELF_OURS, look(sizeof object));
    for (size_t bytes = 0; bytes < sizeof object; bytes++)
        CHECK_EQUAL(ELF_NONE, look(bytes));
    for (size_t i = 0; i < SELFMAG; i++)
        ELF_WITH(ELF_NONE, head.e_ident[i], 'x');
    ELF_WITH(ELF_NONE, head.e_ident[EI_CLASS], ELFCLASS32);
    ELF_WITH(ELF_NONE, head.e_type, ET_EXEC);
    ELF_WITH(ELF_NONE, head.e_type, ET_REL);
    ELF_WITH(ELF_OTHER, head.e_machine, EM_68K);
    ELF_WITH(ELF_CUBIN, head.e_machine, 190);
    ELF_WITH(ELF_NONE, head.e_phentsize, sizeof(Elf64_Phdr) + 1);
    ELF_WITH(ELF_NONE, head.e_phentsize, 0);
    ELF_WITH(ELF_NONE, head.e_phnum, 0);
    ELF_WITH(ELF_OURS, head.e_phnum, 1);
    ELF_WITH(ELF_NONE, head.e_phnum, UINT16_MAX);
    ELF_WITH(ELF_NONE, head.e_phoff, UINT64_MAX);
    ELF_WITH(ELF_NONE, head.e_phoff, sizeof object);
    ELF_WITH(ELF_NONE, head.e_phoff, UINT64_MAX - 2 * sizeof(Elf64_Phdr) + 1);
    for (size_t i = 0; i < 2; i++) {
        ELF_WITH(ELF_NONE, segments[i].p_filesz, sizeof object + 1);
        ELF_WITH(ELF_NONE, segments[i].p_filesz, UINT64_MAX);
        ELF_WITH(ELF_NONE, segments[i].p_offset, sizeof object + 1);
        ELF_WITH(ELF_NONE, segments[i].p_offset, UINT64_MAX);
    }
    ELF_WITH(ELF_OURS, segments[1].p_filesz, 0);
    ELF_WITH(ELF_NONE, segments[1].p_filesz, 9);
    ELF_WITH(ELF_NONE, segments[1].p_offset, sizeof object - 7);
    make_elf();
    object.segments[1].p_offset = sizeof object;
    object.segments[1].p_filesz = 0;
    CHECK_EQUAL(ELF_OURS, look(sizeof object));
    /* The table may end with the file. */
    make_elf();
    object.head.e_phoff = sizeof object - 2 * sizeof(Elf64_Phdr);
    memcpy((char *)&object + object.head.e_phoff, object.segments, sizeof object.segments);
    CHECK_EQUAL(ELF_OURS, look(sizeof object));
    object.head.e_phoff++;
    CHECK_EQUAL(ELF_NONE, look(sizeof object));
}

static muster_status check_form(const struct muster_kernel_form *form)
{
    problem = (struct muster_error){ .text = "" };
    muster_status status = kernel_form_check(form, "the_function", &problem);
    if (status != MUSTER_OK)
        CHECK_CONTAINS("the_function: ", problem.text);
    return status;
}

static void each_kind_of_form_has_what_it_needs(void)
{
    static char long_name[65];
    memset(long_name, 'x', 64);
    for (uint32_t bit = 0; bit < 32; bit++) {
        struct muster_kernel_form form = FORM((enum muster_kernel_kind)(1u << bit), "x", "f");
        bool is_known = bit <= 6;
        if (bit == 0)
            form = (struct muster_kernel_form){ .size = sizeof form,
                                                .kind = MUSTER_KERNEL_FUNCTION,
                                                .function = do_nothing };
        CHECK_STATUS(is_known ? MUSTER_OK : MUSTER_E_INVALID, check_form(&form));
        if (bit == 0) {
            form.function = NULL;
            CHECK_STATUS(MUSTER_E_INVALID, check_form(&form));
            continue;
        }
        form.code = NULL;
        CHECK_STATUS(MUSTER_E_INVALID, check_form(&form));
        form.code = "x";
        form.code_bytes = 0;
        CHECK_STATUS(MUSTER_E_INVALID, check_form(&form));
        form.code_bytes = 1;
        form.entry = NULL;
        CHECK_STATUS(MUSTER_E_INVALID, check_form(&form));
        form.entry = "";
        CHECK_STATUS(MUSTER_E_INVALID, check_form(&form));
        form.entry = long_name;
        CHECK_STATUS(MUSTER_E_INVALID, check_form(&form));
        form.entry = long_name + 1;
        CHECK_STATUS(is_known ? MUSTER_OK : MUSTER_E_INVALID, check_form(&form));
    }
    struct muster_kernel_form none = FORM((enum muster_kernel_kind)0, "x", "f");
    CHECK_STATUS(MUSTER_E_INVALID, check_form(&none));
    none.kind = (enum muster_kernel_kind)(MUSTER_KERNEL_PTX | MUSTER_KERNEL_CUBIN);
    CHECK_STATUS(MUSTER_E_INVALID, check_form(&none));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_file_is_as_the_header_says),
        TEST(damage_anywhere_is_noticed),
        TEST(each_field_is_checked),
        TEST(names_have_their_limits),
        TEST(a_shared_object_is_looked_at_before_it_is_loaded),
        TEST(each_kind_of_form_has_what_it_needs),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
