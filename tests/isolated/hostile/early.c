/* An object that would run code of its own while it is loaded. */
#include <stdint.h>

static volatile uint32_t ran;

__attribute__((constructor)) static void run_early(void)
{
    ran = 1;
}

__attribute__((visibility("default"))) int early(uint64_t begin, uint64_t end, void *const *args);
int early(uint64_t begin, uint64_t end, void *const *args)
{
    for (uint64_t i = begin; i < end; i++)
        (*(uint32_t *const *)args[1])[i] = ran;
    return 0;
}
