#include "kernel/elf.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

#define MACHINE_CUDA 190

#if defined(__x86_64__)
#define MACHINE_OURS EM_X86_64
#elif defined(__aarch64__)
#define MACHINE_OURS EM_AARCH64
#elif defined(__riscv)
#define MACHINE_OURS EM_RISCV
#elif defined(__powerpc64__)
#define MACHINE_OURS EM_PPC64
#elif defined(__s390x__)
#define MACHINE_OURS EM_S390
#else
#define MACHINE_OURS EM_NONE
#endif

static bool lies_within(uint64_t offset, uint64_t bytes, size_t size)
{
    return offset <= size && bytes <= size - offset;
}

static bool has_all_segments(const Elf64_Ehdr *head, const char *bytes, size_t size)
{
    if (head->e_phentsize != sizeof(Elf64_Phdr) || head->e_phnum == 0 ||
        !lies_within(head->e_phoff, (uint64_t)head->e_phnum * sizeof(Elf64_Phdr), size))
        return false;
    for (uint16_t i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, bytes + head->e_phoff + i * sizeof segment, sizeof segment);
        if (!lies_within(segment.p_offset, segment.p_filesz, size))
            return false;
    }
    return true;
}

enum elf_kind elf_look(const void *bytes, size_t size)
{
    Elf64_Ehdr head;
    if (size < sizeof head)
        return ELF_NONE;
    memcpy(&head, bytes, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
        return ELF_NONE;
    if (head.e_machine == MACHINE_CUDA)
        return ELF_CUBIN;
    if (head.e_type != ET_DYN)
        return ELF_NONE;
    if (head.e_machine != MACHINE_OURS)
        return ELF_OTHER;
    return has_all_segments(&head, bytes, size) ? ELF_OURS : ELF_NONE;
}
