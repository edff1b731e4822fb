/*
 * The devices of this machine as `muster exec` sees them: whom the hints allow, who has leased what, and
 * taking one or all of those that are free.
 */
#ifndef CLI_OFFER_H
#define CLI_OFFER_H

#include "lease.h"
#include "placement.h"

/* What is leased to the command that this process is part of. */
#define OFFER_LEASE_VARIABLE "MUSTER_LEASE"

/* One device of this machine, and why it is not available, if that is so. */
struct offer {
    struct muster_device_info info;
    char key[LEASE_KEY_BYTES];
    char refusal[160];                /* "" unless a hint refuses it */
    char spoiled[LEASE_REASON_BYTES]; /* why its lease file cannot be used; "": it can */
    bool is_held;
    bool is_waited_for; /* held, and would do if it were not */
    struct lease_holder holder;
    int lease; /* of offers_lease_all; -1: none */
};

struct offers {
    struct offer *each; /* owns */
    size_t count;
    /* The one that was leased. */
    size_t chosen;
    int lease;           /* -1: none yet */
    const char *command; /* borrowed: shown to those that ask who has the device */
};

/*
 * Leases one device, the one that the policy picks among those that are free; with `wait` given waits for
 * one, at most that long. `hints`: PLACEMENT_POLICY to PLACEMENT_DEVICES. EXIT_DONE: offers->chosen is
 * leased. Else it has been told why not.
 */
enum exit_code offers_lease_one(struct offers *offers, const struct option_value *hints,
                                const struct option_value *wait, const struct lease_folder *folder);

/* The same, and then every other device that the hints allow and that is free: offers->each[i].lease. */
enum exit_code offers_lease_all(struct offers *offers, const struct option_value *hints,
                                const struct option_value *wait, const struct lease_folder *folder);

/* Says which devices were left out because of what lies in the place of their lease. */
void offers_tell_spoiled(const struct offers *offers);

/* Processors among them: a command that has one must be kept off the others. */
size_t offers_processors(const struct offers *offers);

/* Gives the leases back that were not handed down, and the list. */
void offers_deinit(struct offers *offers);

#endif
