/*
 * Looking at a shared object before the loader does: the loader believes what a file says of its
 * own size, and a truncated one would end the process.
 */
#ifndef KERNEL_ELF_H
#define KERNEL_ELF_H

#include <stdbool.h>
#include <stddef.h>

enum elf_kind {
    ELF_NONE,  /* not such a file, or damaged */
    ELF_OURS,  /* a shared object of this processor's architecture, with all its segments */
    ELF_OTHER, /* one of another architecture */
    ELF_CUBIN  /* machine code of an NVIDIA device */
};

enum elf_kind elf_look(const void *bytes, size_t size);

#endif
