/*
 * Whether an index into an array is the item's own: made of the item's number, and not only of what
 * other arrays hold. Only what is certainly not is told.
 */
#ifndef KERNEL_OWN_H
#define KERNEL_OWN_H

#include "kernel/reach.h"

struct kernel_entry;

/* Notes in `entry->reach` which arrays the kernel's own body touches at places that are not the item's. */
void own_read(struct reach_room *room, const struct reach_function *function,
              struct kernel_entry *entry);

#endif
