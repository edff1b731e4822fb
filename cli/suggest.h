/*
 * What a user may have meant by a name that nothing has.
 */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stddef.h>

/* The name that is nearest so far. Zero-initialised there is none. */
struct suggestion {
    const char *name; /* borrowed from suggest_offer; NULL: nothing is near */
    size_t distance;
};

/*
 * Offers a name for `word`, of which `bytes` count. It is kept if it is nearer than those before and
 * differs in at most a third of its letters, two at most (one letter of a short name).
 */
void suggest_offer(struct suggestion *suggestion, const char *word, size_t bytes, const char *name);

#endif
