/*
 * The reader of kernel sources on any bytes: what it takes has sound entries and can be written in
 * all three languages; what it refuses is refused with words.
 */
#include "base/allocator.h"
#include "kernel/translate.h"
#include "platform/machine.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void look_at(const struct kernel_signature *signature)
{
    require(signature->count > 0 && signature->count <= KERNEL_ENTRIES_MAX);
    for (size_t i = 0; i < signature->count; i++) {
        const struct kernel_entry *entry = &signature->entries[i];
        require(kernel_signature_find(signature, entry->name) == entry);
        require(entry->parameter_count <= MUSTER_ARGS_MAX);
        for (size_t p = 0; p < entry->parameter_count; p++)
            require(entry->parameters[p].type[0] &&
                    entry->parameters[p].is_block ==
                        (strchr(entry->parameters[p].type, '*') != NULL));
    }
}

static void guess(const char *text, size_t size)
{
    char names[4][KERNEL_NAME_BYTES];
    static const enum muster_kernel_kind kinds[] = { MUSTER_KERNEL_CUDA, MUSTER_KERNEL_OPENCL,
                                                     MUSTER_KERNEL_PTX };
    for (size_t k = 0; k < 3; k++) {
        size_t count = kernel_entries_guess(kinds[k], text, size, names, 4);
        for (size_t i = 0; i < count && i < 4; i++)
            require(names[i][0] != '\0' && strlen(names[i]) < KERNEL_NAME_BYTES);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kernel_signature signature;
    struct muster_error err = { .text = "" };
    const char *text = (const char *)data;
    guess(text, size);
    if (kernel_signature_read(&signature, text, size, "fuzz\"\\\n.c", &err) != MUSTER_OK) {
        require(err.status == MUSTER_E_PARSE && err.text[0] && err.fix[0]);
        return 0;
    }
    look_at(&signature);
    for (int language = KERNEL_C; language <= KERNEL_OPENCL_C; language++) {
        char *out;
        size_t bytes;
        require(kernel_translate(&signature, text, size, "fuzz\"\\\n.c",
                                 (enum kernel_language)language, &platform_heap, &out, &bytes,
                                 &err) == MUSTER_OK);
        require(strlen(out) == bytes);
        allocator_give(&platform_heap, out, bytes + 1, 1);
    }
    return 0;
}
