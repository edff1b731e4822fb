#include "backward.h"

#include <stdlib.h>

#define BLOCK_BYTES_MIN ((size_t)1 << 16)

/* Children are a list; 0 ends it, since nobody's child is the root. */
struct backward_node {
    uint32_t child, sibling;
    uint32_t fallback; /* the longest other node that what led here ends with */
    uint32_t longest;  /* word that what led here ends with, by its length; 0: none */
    uint8_t letter;
};

static uint32_t find_child(const struct backward_node *nodes, uint32_t node, uint8_t letter)
{
    uint32_t child = nodes[node].child;
    while (child != 0 && nodes[child].letter != letter)
        child = nodes[child].sibling;
    return child;
}

/* Adds a word; gives how many nodes there are. */
static uint32_t add_word(struct backward_node *nodes, uint32_t count, const uint8_t *letters,
                         uint32_t length)
{
    uint32_t node = 0;
    for (uint32_t i = length; i-- > 0;) {
        uint32_t child = find_child(nodes, node, letters[i]);
        if (child == 0) {
            child = count++;
            nodes[child] =
                (struct backward_node){ .sibling = nodes[node].child, .letter = letters[i] };
            nodes[node].child = child;
        }
        node = child;
    }
    nodes[node].longest = length;
    return count;
}

static uint32_t step(const struct backward_node *nodes, uint32_t node, uint8_t letter)
{
    for (;;) {
        uint32_t child = find_child(nodes, node, letter);
        if (child != 0 || node == 0)
            return child;
        node = nodes[node].fallback;
    }
}

/* Level by level: what a node falls back to is nearer to the root. */
static void link_nodes(struct backward_node *nodes, uint32_t *queue)
{
    uint32_t head = 0, tail = 0;
    queue[tail++] = 0;
    while (head < tail) {
        uint32_t node = queue[head++];
        for (uint32_t child = nodes[node].child; child != 0; child = nodes[child].sibling) {
            struct backward_node *one = &nodes[child];
            one->fallback = node == 0 ? 0 : step(nodes, nodes[node].fallback, one->letter);
            if (one->longest == 0)
                one->longest = nodes[one->fallback].longest;
            queue[tail++] = child;
        }
    }
}

bool backward_init(struct backward *backward, const struct automaton *automaton)
{
    size_t bytes = 1;
    uint32_t length, count = 1;
    for (uint32_t i = 0; i < automaton->word_count; i++) {
        automaton_word(automaton, i, &length);
        bytes += length;
    }
    size_t block = automaton->reach > BLOCK_BYTES_MIN ? automaton->reach : BLOCK_BYTES_MIN;
    *backward = (struct backward){ .block_bytes = block };
    backward->nodes = malloc(bytes * sizeof *backward->nodes);
    backward->lengths = malloc(block * sizeof *backward->lengths);
    uint32_t *queue = malloc(bytes * sizeof *queue);
    bool has_memory = backward->nodes && backward->lengths && queue;
    if (has_memory) {
        backward->nodes[0] = (struct backward_node){ 0 };
        for (uint32_t i = 0; i < automaton->word_count; i++) {
            const uint8_t *letters = automaton_word(automaton, i, &length);
            count = add_word(backward->nodes, count, letters, length);
        }
        link_nodes(backward->nodes, queue);
    } else {
        backward_deinit(backward);
    }
    free(queue);
    return has_memory;
}

void backward_deinit(struct backward *backward)
{
    free(backward->nodes);
    free(backward->lengths);
    *backward = (struct backward){ 0 };
}

void backward_forget(struct backward *backward)
{
    backward->begin = backward->end = 0;
}

uint32_t backward_longest(struct backward *backward, const struct automaton *automaton,
                          const uint8_t *text, size_t place, size_t length, uint64_t offset,
                          bool is_all)
{
    uint64_t wanted = offset + place;
    if (wanted < backward->begin || wanted >= backward->end) {
        size_t known = is_all ? length : length - automaton->reach + 1;
        size_t end = known - place < backward->block_bytes ? known : place + backward->block_bytes;
        size_t from = length - end < automaton->reach ? length : end + automaton->reach;
        uint32_t node = 0;
        for (size_t i = from; i-- > place;) {
            node = step(backward->nodes, node, automaton->fold[text[i]]);
            if (i < end)
                backward->lengths[i - place] = backward->nodes[node].longest;
        }
        backward->begin = wanted;
        backward->end = offset + end;
    }
    return backward->lengths[wanted - backward->begin];
}
