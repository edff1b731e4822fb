#include "suggest.h"

#include <string.h>

/* Longer words are no slips of the finger. */
#define WORD_MAX 48

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many letters must be changed, added, removed or swapped with their neighbour. */
static size_t distance(const char *word, size_t bytes, const char *name, size_t name_bytes)
{
    size_t rows[3][WORD_MAX + 1];
    for (size_t j = 0; j <= name_bytes; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= bytes; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= name_bytes; j++) {
            row[j] = above[j - 1] + (word[i - 1] != name[j - 1]);
            row[j] = least(row[j], least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && word[i - 1] == name[j - 2] && word[i - 2] == name[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[bytes % 3][name_bytes];
}

void suggest_offer(struct suggestion *suggestion, const char *word, size_t bytes, const char *name)
{
    size_t name_bytes = strlen(name);
    if (bytes == 0 || bytes > WORD_MAX || name_bytes > WORD_MAX)
        return;
    size_t apart = distance(word, bytes, name, name_bytes);
    if (apart <= least(2, (name_bytes + 2) / 3) &&
        (!suggestion->name || apart < suggestion->distance)) {
        suggestion->name = name;
        suggestion->distance = apart;
    }
}
