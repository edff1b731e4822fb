#include "platform/object.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <muster/backend.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__aarch64__)
#define MACHINE EM_AARCH64
#define IS_RELATIVE R_AARCH64_RELATIVE
#define IS_ADDRESS R_AARCH64_ABS64
#define IS_SLOT R_AARCH64_JUMP_SLOT
#define IS_DATA R_AARCH64_GLOB_DAT
#else
#define MACHINE EM_X86_64
#define IS_RELATIVE R_X86_64_RELATIVE
#define IS_ADDRESS R_X86_64_64
#define IS_SLOT R_X86_64_JUMP_SLOT
#define IS_DATA R_X86_64_GLOB_DAT
#endif
#ifndef SHT_RELR
#define SHT_RELR 19
#endif

#define PAGE ((size_t)4096)
#define ALIGNMENT_MAX ((size_t)2 << 20)

static struct {
    unsigned char *memory;
    struct platform_object *first;
} room;

/* What a file is made of, as far as it is needed. */
struct parts {
    const unsigned char *code;
    size_t bytes;
    Elf64_Ehdr head;
    Elf64_Shdr symbols, names; /* sh_size 0: there are none */
    unsigned char *base;
    size_t span; /* bytes from `base` on */
};

muster_status platform_objects_prepare(struct muster_error *err)
{
    /* Can be written and run at the same time: who writes it is the code that is not trusted in any case. */
    void *memory = mmap(NULL, OBJECTS_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, errno,
                                 "allow the program memory that can be written and run",
                                 "the system gives no memory for kernels in a sandbox: %s",
                                 strerror(errno));
    room.memory = memory;
    /* What kernels may call, and so never closed. */
    (void)dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
    return MUSTER_OK;
}

static muster_status refuse(struct muster_error *err, const char *what)
{
    return muster_error_fill(err, MUSTER_E_INVALID, 0,
                             "give its source, or build it as muster kernel build does",
                             "the shared object cannot be loaded in a sandbox: %s", what);
}

static bool lies_within(uint64_t offset, uint64_t bytes, size_t size)
{
    return offset <= size && bytes <= size - offset;
}

static bool read_segment(const struct parts *parts, unsigned number, Elf64_Phdr *out)
{
    uint64_t at = parts->head.e_phoff + (uint64_t)number * sizeof *out;
    if (!lies_within(at, sizeof *out, parts->bytes))
        return false;
    memcpy(out, parts->code + at, sizeof *out);
    return true;
}

static bool read_section(const struct parts *parts, unsigned number, Elf64_Shdr *out)
{
    uint64_t at = parts->head.e_shoff + (uint64_t)number * sizeof *out;
    if (number >= parts->head.e_shnum || parts->head.e_shoff > parts->bytes ||
        !lies_within(at, sizeof *out, parts->bytes))
        return false;
    memcpy(out, parts->code + at, sizeof *out);
    return out->sh_type == SHT_NOBITS || lies_within(out->sh_offset, out->sh_size, parts->bytes);
}

/* Its head, and the symbols that other objects can see. */
static const char *open_parts(struct parts *parts, const unsigned char *code, size_t bytes)
{
    *parts = (struct parts){ .code = code, .bytes = bytes };
    if (bytes < sizeof parts->head)
        return "it is no ELF file";
    memcpy(&parts->head, code, sizeof parts->head);
    const Elf64_Ehdr *head = &parts->head;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_ident[EI_CLASS] != ELFCLASS64 ||
        head->e_machine != MACHINE || head->e_type != ET_DYN)
        return "it is no shared object for this processor";
    if (head->e_phentsize != sizeof(Elf64_Phdr) || head->e_shentsize != sizeof(Elf64_Shdr) ||
        head->e_phoff > bytes)
        return "its tables cannot be read";
    for (unsigned i = 0; i < head->e_shnum; i++) {
        Elf64_Shdr section;
        if (!read_section(parts, i, &section))
            return "a section lies outside it";
        if (section.sh_type == SHT_DYNSYM)
            parts->symbols = section;
    }
    bool has_names = parts->symbols.sh_size == 0 ||
                     (read_section(parts, parts->symbols.sh_link, &parts->names) &&
                      parts->names.sh_type == SHT_STRTAB && parts->names.sh_size > 0 &&
                      code[parts->names.sh_offset + parts->names.sh_size - 1] == 0);
    return has_names ? NULL : "its symbols have no names";
}

/* How much memory it takes, and where it may lie. */
static const char *measure(struct parts *parts, size_t *alignment)
{
    uint64_t end = 0;
    *alignment = PAGE;
    for (unsigned i = 0; i < parts->head.e_phnum; i++) {
        Elf64_Phdr segment;
        if (!read_segment(parts, i, &segment))
            return "its segments cannot be read";
        if (segment.p_type == PT_TLS)
            return "it has variables of a thread";
        if (segment.p_type != PT_LOAD)
            continue;
        if (!lies_within(segment.p_offset, segment.p_filesz, parts->bytes) ||
            segment.p_filesz > segment.p_memsz ||
            !lies_within(segment.p_vaddr, segment.p_memsz, OBJECT_BYTES_MAX))
            return "a segment lies outside it, or it is too large";
        if (segment.p_align > ALIGNMENT_MAX || (segment.p_align & (segment.p_align - 1)) != 0)
            return "a segment asks for an impossible place";
        if (segment.p_align > *alignment)
            *alignment = segment.p_align;
        if (segment.p_vaddr + segment.p_memsz > end)
            end = segment.p_vaddr + segment.p_memsz;
    }
    parts->span = (end + PAGE - 1) & ~(PAGE - 1);
    return end > 0 ? NULL : "it has nothing to load";
}

static void copy_segments(const struct parts *parts)
{
    memset(parts->base, 0, parts->span);
    for (unsigned i = 0; i < parts->head.e_phnum; i++) {
        Elf64_Phdr segment;
        if (read_segment(parts, i, &segment) && segment.p_type == PT_LOAD)
            memcpy(parts->base + segment.p_vaddr, parts->code + segment.p_offset, segment.p_filesz);
    }
}

static bool read_symbol(const struct parts *parts, uint64_t number, Elf64_Sym *out,
                        const char **name)
{
    if (number >= parts->symbols.sh_size / sizeof *out)
        return false;
    memcpy(out, parts->code + parts->symbols.sh_offset + number * sizeof *out, sizeof *out);
    if (out->st_name >= parts->names.sh_size)
        return false;
    *name = (const char *)parts->code + parts->names.sh_offset + out->st_name;
    return true;
}

/* What a symbol stands for; false if nothing does that must. */
static bool find_value(const struct parts *parts, uint64_t number, uint64_t *value,
                       const char **name)
{
    Elf64_Sym symbol;
    *value = 0;
    *name = "a symbol that it lacks";
    if (number == 0)
        return true;
    if (!read_symbol(parts, number, &symbol, name))
        return false;
    if (symbol.st_shndx != SHN_UNDEF) {
        *value = (uintptr_t)parts->base + symbol.st_value;
        return symbol.st_value <= parts->span && ELF64_ST_TYPE(symbol.st_info) != STT_GNU_IFUNC;
    }
    *value = (uintptr_t)dlsym(RTLD_DEFAULT, *name);
    return *value != 0 || ELF64_ST_BIND(symbol.st_info) == STB_WEAK;
}

static bool put(const struct parts *parts, uint64_t offset, uint64_t value)
{
    if (!lies_within(offset, sizeof value, parts->span))
        return false;
    memcpy(parts->base + offset, &value, sizeof value);
    return true;
}

static muster_status relocate(const struct parts *parts, const Elf64_Rela *change,
                              struct muster_error *err)
{
    uint64_t kind = ELF64_R_TYPE(change->r_info), value = (uintptr_t)parts->base;
    const char *name = "";
    bool is_known = kind == IS_RELATIVE || kind == IS_ADDRESS || kind == IS_SLOT || kind == IS_DATA;
    if (kind == 0)
        return MUSTER_OK;
    if (!is_known)
        return refuse(err,
                      "it has variables of a thread, or functions that are chosen at run time");
    if (kind != IS_RELATIVE && !find_value(parts, ELF64_R_SYM(change->r_info), &value, &name))
        return muster_error_fill(
            err, MUSTER_E_NOT_FOUND, 0, "use functions of the C library and its mathematics alone",
            "the shared object needs %.80s, which a sandbox does not have", name);
    if (kind == IS_RELATIVE || kind == IS_ADDRESS)
        value += (uint64_t)change->r_addend;
    return put(parts, change->r_offset, value) ? MUSTER_OK
                                               : refuse(err, "it changes places that it lacks");
}

/* Addresses of the object itself, in a row or as bits of the words that follow. */
static bool relocate_packed(const struct parts *parts, const Elf64_Shdr *section)
{
    uint64_t at = 0;
    for (uint64_t i = 0; i + 8 <= section->sh_size; i += 8) {
        uint64_t entry, value;
        memcpy(&entry, parts->code + section->sh_offset + i, sizeof entry);
        uint64_t bits = entry & 1 ? entry >> 1 : 1;
        at = entry & 1 ? at : entry;
        for (uint64_t word = at; bits != 0; bits >>= 1, word += 8) {
            if (!(bits & 1))
                continue;
            if (!lies_within(word, sizeof value, parts->span))
                return false;
            memcpy(&value, parts->base + word, sizeof value);
            put(parts, word, value + (uintptr_t)parts->base);
        }
        at += entry & 1 ? 63 * 8 : 8;
    }
    return true;
}

static muster_status relocate_section(const struct parts *parts, const Elf64_Shdr *section,
                                      struct muster_error *err)
{
    if (!(section->sh_flags & SHF_ALLOC))
        return MUSTER_OK;
    if (section->sh_type == SHT_REL)
        return refuse(err, "its addresses have an unknown form");
    if (section->sh_type == SHT_RELR)
        return relocate_packed(parts, section) ? MUSTER_OK
                                               : refuse(err, "it changes places that it lacks");
    /* One function that the compiler's own start-up brings, and which has nothing to do here. */
    if ((section->sh_type == SHT_INIT_ARRAY && section->sh_size > sizeof(uint64_t)) ||
        section->sh_type == SHT_PREINIT_ARRAY)
        return refuse(err, "it has functions that run when it is loaded");
    muster_status status = MUSTER_OK;
    for (uint64_t i = 0; section->sh_type == SHT_RELA && status == MUSTER_OK &&
                         i + sizeof(Elf64_Rela) <= section->sh_size;
         i += sizeof(Elf64_Rela)) {
        Elf64_Rela change;
        memcpy(&change, parts->code + section->sh_offset + i, sizeof change);
        status = relocate(parts, &change, err);
    }
    return status;
}

/* The first gap that is large enough, and where in the list it is. */
static bool find_place(struct platform_object *object, size_t alignment)
{
    struct platform_object **at = &room.first;
    size_t place = 0;
    for (;; at = &(*at)->next) {
        size_t from = (uintptr_t)room.memory + place;
        place += ((from + alignment - 1) & ~(alignment - 1)) - from;
        size_t end = *at ? (*at)->place : OBJECTS_BYTES;
        if (place <= end && object->bytes <= end - place)
            break;
        if (!*at)
            return false;
        place = (*at)->place + (*at)->bytes;
    }
    object->place = place;
    object->next = *at;
    *at = object;
    return true;
}

muster_status platform_object_load(struct platform_object *object, const void *code, size_t bytes,
                                   struct muster_error *err)
{
    struct parts parts;
    size_t alignment;
    *object = (struct platform_object){ .code = code, .code_bytes = bytes };
    const char *why = open_parts(&parts, code, bytes);
    if (!why)
        why = measure(&parts, &alignment);
    if (why)
        return refuse(err, why);
    object->bytes = parts.span;
    if (!find_place(object, alignment)) {
        object->bytes = 0;
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "destroy kernels that are not used",
                                 "the kernels of a sandbox have %zu MiB together",
                                 OBJECTS_BYTES >> 20);
    }
    parts.base = room.memory + object->place;
    copy_segments(&parts);
    muster_status status = MUSTER_OK;
    for (unsigned i = 0; i < parts.head.e_shnum && status == MUSTER_OK; i++) {
        Elf64_Shdr section;
        if (read_section(&parts, i, &section))
            status = relocate_section(&parts, &section, err);
    }
    if (status != MUSTER_OK) {
        platform_object_unload(object);
        return status;
    }
    __builtin___clear_cache((char *)parts.base, (char *)parts.base + parts.span);
    return MUSTER_OK;
}

void *platform_object_symbol(const struct platform_object *object, const char *name)
{
    struct parts parts;
    Elf64_Sym symbol;
    const char *own;
    if (object->bytes == 0 || open_parts(&parts, object->code, object->code_bytes))
        return NULL;
    for (uint64_t i = 1; read_symbol(&parts, i, &symbol, &own); i++)
        if (symbol.st_shndx != SHN_UNDEF && symbol.st_value < object->bytes &&
            strcmp(own, name) == 0)
            return room.memory + object->place + symbol.st_value;
    return NULL;
}

void platform_object_unload(struct platform_object *object)
{
    struct platform_object **at = &room.first;
    if (object->bytes == 0)
        return;
    while (*at != object)
        at = &(*at)->next;
    *at = object->next;
    object->bytes = 0;
}
