/*
 * Leases of devices among processes: a locked file for each leased device, in a folder that all
 * users share.
 *
 * The lock is one of the open file (F_OFD_SETLK): a process that inherits the descriptor has it too, and
 * the kernel drops it when the last of them has closed it or has died, however that came about. The
 * text in the file says who holds it, for people; anybody may write it, and nothing is decided by
 * it. Files stay when they are not locked: one that is removed could be locked by two at once.
 */
#ifndef CLI_LEASE_H
#define CLI_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Names the folder; "/run/muster", if an administrator has made it, or "/tmp/muster-leases". */
#define LEASE_FOLDER_VARIABLE "MUSTER_LEASES"
#define LEASE_KEY_BYTES 64
#define LEASE_COMMAND_BYTES 192

struct lease_folder {
    int descriptor; /* owns; -1: there is none yet, and nothing is leased */
    char path[256];
};

struct lease_holder {
    char key[LEASE_KEY_BYTES];
    char device[24]; /* as the holder calls it */
    uint64_t pid, uid;
    uint64_t since; /* seconds since 1970; 0: the holder has not signed yet */
    char command[LEASE_COMMAND_BYTES];
};

/* LEASE_SPOILED: something else has the name of the device's file; only that device is affected. */
enum lease_result { LEASE_TAKEN, LEASE_HELD, LEASE_SPOILED, LEASE_FAILED };

/* Makes it if `is_made` and it is not there. False if it cannot be used; that has been reported. */
bool lease_folder_open(struct lease_folder *folder, bool is_made);
void lease_folder_close(struct lease_folder *folder);

/* Names the file, what is wrong with it, and who can put that right. */
#define LEASE_REASON_BYTES 512

/* Does not wait. LEASE_TAKEN: `*descriptor` is the lease. LEASE_SPOILED: `why` says why. */
enum lease_result lease_take(const struct lease_folder *folder, const char *key, int *descriptor,
                             char why[LEASE_REASON_BYTES]);

/*
 * Waits until one of the keys is free, and takes it: `*which`. LEASE_HELD: none was within
 * `timeout_ns` (UINT64_MAX: for ever). Spoiled ones are not waited for; LEASE_SPOILED: all are.
 * LEASE_FAILED has been reported. There must be no other threads.
 */
enum lease_result lease_wait(const struct lease_folder *folder, const char *const *keys,
                             size_t count, uint64_t timeout_ns, size_t *which, int *descriptor);

/* Writes down who has the lease. */
void lease_sign(int descriptor, const struct lease_holder *holder);

/*
 * From now on a program that is run in the place of this one has the lease, and keeps the folder
 * from being tidied away.
 */
void lease_hand_down(const struct lease_folder *folder, int descriptor);

/* Whether it is held, and by whom. Takes nothing, so that nobody is kept from taking it. */
bool lease_look(const struct lease_folder *folder, const char *key, struct lease_holder *holder);

/* All that are held, by key. NULL and a count of 0: none, or no memory. Given back with free. */
struct lease_holder *lease_list(const struct lease_folder *folder, size_t *count);

/* "2026-01-31 23:59:59", UTC; "an unknown time" before it is signed. */
#define LEASE_TIME_BYTES 32
void lease_time(const struct lease_holder *holder, char text[LEASE_TIME_BYTES]);

/* The name of the user, or the number. */
void lease_user(const struct lease_holder *holder, char *name, size_t bytes);

#endif
