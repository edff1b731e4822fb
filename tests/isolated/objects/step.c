/*
 * The kernel of isolated_fatal for the CPU: a function that a helper loads, and that can do what portable source cannot.
 */
#include <muster/kernel.h>
#include <stdlib.h>

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
muster_status
fatal_step(uint64_t begin, uint64_t end, void *const *args);

muster_status fatal_step(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(void *const *)args[0];
    uint32_t *out = *(void *const *)args[1];
    for (uint64_t i = begin; i < end; i++) {
        uint32_t x = in[i];
        if (x == 0xffff0001u)
            *(volatile uint32_t *)(uintptr_t)0xdead0000 = 1;
        while (x == 0xffff0002u)
            x = ((volatile const uint32_t *)in)[i];
        if (x == 0xffff0003u)
            abort();
        out[i] = x + 1;
    }
    return MUSTER_OK;
}
