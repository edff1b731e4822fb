/*
 * Any bytes as a task in a resident lane's ring: what is let pass stays within its body and the lane's blocks.
 */
#include "core/resident.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BLOCK_BYTES 256u

static unsigned runs;

static muster_status touch(void *user, uint32_t opcode, uint64_t items, void *const *args)
{
    void *body = user;
    const struct resident_head *head = body;
    runs++;
    for (size_t s = 0; s < head->step_count; s++) {
        const struct resident_step *step = &resident_steps(body)[s];
        if (step->opcode != opcode || step->items != items)
            continue;
        unsigned char sum = 0;
        for (uint32_t i = 0; i < step->arg_count; i++) {
            const struct resident_operand *operand = &resident_operands(body)[step->args[i]];
            bool is_value = operand->kind == RESIDENT_VALUE;
            const unsigned char *at = is_value ? args[i] : *(void *const *)args[i];
            uint64_t bytes = is_value ? operand->bytes : items * operand->bytes;
            for (uint64_t k = 0; k < bytes; k++)
                sum ^= ((const volatile unsigned char *)at)[k];
        }
        return sum == 0xff ? MUSTER_E_FAILED : MUSTER_OK;
    }
    abort();
}

static bool go_on(void *user)
{
    (void)user;
    return runs < 100;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > RESIDENT_BODY_MAX)
        return 0;
    unsigned char *block = calloc(1, BLOCK_BYTES);
    unsigned char *body = aligned_alloc(16, (size + 16) / 16 * 16);
    if (!block || !body)
        abort();
    memcpy(body, data, size);
    const struct resident_block blocks[] = { { (uintptr_t)block, BLOCK_BYTES, 1 } };
    const struct resident_opcode opcodes[] = { { true, 2, 2, 2, { 4, 4 } }, { .is_known = false } };
    const struct resident_table table = { opcodes, 2, blocks, 1 };
    if (resident_check(body, size, &table, NULL, NULL) == RESIDENT_RIGHT) {
        runs = 0;
        resident_find(body, &table);
        /* Two steps that are alike but for their arguments would be told apart wrongly above. */
        if (((struct resident_head *)(void *)body)->step_count == 1)
            resident_run(body, touch, go_on, body);
    }
    free(body);
    free(block);
    return 0;
}
