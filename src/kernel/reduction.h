/*
 * The wrapper of a reduction in each of the languages. A launch has `lanes` items for each block, so
 * that a GPU has a thread for each lane; elsewhere the first of them does the whole block. After the
 * kernel's own arguments come where the partials of the blocks go, and the number of items.
 *
 * Item k of a block goes to lane k modulo lanes; each lane takes its items in order. Then lanes l and
 * l + w are joined, for w = lanes / 2, lanes / 4 ... 1. Every language does exactly that.
 */
#ifndef KERNEL_REDUCTION_H
#define KERNEL_REDUCTION_H

#include "kernel/translate.h"
#include "kernel/writer.h"

/* A name for the partial's type that the wrapper can use. */
void reduction_put_type(struct writer *writer, const struct kernel_entry *entry);
void reduction_put(struct writer *writer, const struct kernel_entry *entry,
                   enum kernel_language language);

#endif
