#include "grid.h"

#include <stddef.h>

bool grid_read_text(const char *text, uint32_t sides[3])
{
    size_t count = 0;
    for (; count < 3; count++) {
        uint64_t number = 0;
        const char *begin = text;
        while (*text >= '0' && *text <= '9' && number <= UINT32_MAX)
            number = number * 10 + (uint64_t)(*text++ - '0');
        if (text == begin || number == 0 || number > UINT32_MAX)
            return false;
        sides[count] = (uint32_t)number;
        if (*text != 'x')
            break;
        text++;
    }
    return *text == '\0' && (count == 1 || count == 2);
}
