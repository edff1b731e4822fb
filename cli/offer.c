#include "offer.h"

#include "inventory.h"
#include "message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/*
 * The name under which the device is leased: the same for all who can use it, whichever backend and
 * number they know it by. Parts of a partitioned GPU have one address and are leased one by one.
 */
static void name_key(const struct muster_device_info *info, char key[LEASE_KEY_BYTES])
{
    bool is_part = strncmp(info->uuid, "MIG-", 4) == 0;
    const char *name = is_part          ? info->uuid
                       : *info->pci     ? info->pci
                       : *info->same_as ? info->same_as
                                        : info->id;
    snprintf(key, LEASE_KEY_BYTES, "%s", name);
}

/* At once, so that a command that finds the device leased does not name the one before. */
static void write_down(const struct offers *offers, const struct offer *offer, int lease)
{
    struct lease_holder holder = { .pid = (uint64_t)getpid(),
                                   .uid = (uint64_t)getuid(),
                                   .since = (uint64_t)time(NULL) };
    snprintf(holder.device, sizeof holder.device, "%s", offer->info.id);
    snprintf(holder.command, sizeof holder.command, "%s", offers->command);
    for (char *at = holder.command; *at; at++)
        if (*at == '\n')
            *at = ' ';
    lease_sign(lease, &holder);
}

/* Looking at devices. */

static bool list_names(const char *list, const char *id)
{
    size_t length = strlen(id);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, id, length) == 0)
            return true;
    return false;
}

static void look_at_offer(struct offer *offer, const struct placement *placement,
                          const struct lease_folder *folder, uint64_t memory_total)
{
    const char *own = getenv(OFFER_LEASE_VARIABLE);
    name_key(&offer->info, offer->key);
    offer->is_held = lease_look(folder, offer->key, &offer->holder);
    enum muster_refusal refusal = MUSTER_REFUSED_NOT;
    for (uint32_t i = 0; i < placement->decision.device_count; i++) {
        char id[24];
        placement_id(placement, i, id, sizeof id);
        if (strcmp(id, offer->info.id) != 0)
            continue;
        refusal = placement->decision.devices[i].refusal;
        if (refusal != MUSTER_REFUSED_NOT)
            placement_reason(placement, i, offer->refusal, sizeof offer->refusal);
    }
    /* Memory that the holder has taken comes back. */
    bool would_do = refusal == MUSTER_REFUSED_NOT || (refusal == MUSTER_REFUSED_MIN_FREE &&
                                                      memory_total >= placement->hints.min_free);
    offer->is_waited_for = offer->is_held && would_do && !(own && strcmp(own, offer->key) == 0);
}

/* After a pick by the hints alone, which says whom they refuse. */
static enum exit_code look(struct offers *offers, const struct placement *placement,
                           const struct lease_folder *folder)
{
    struct inventory inventory;
    struct muster_error error;
    if (inventory_init(&inventory, placement->m, &error) != MUSTER_OK) {
        message_library(NULL, &error);
        return EXIT_FAILED;
    }
    enum exit_code code = EXIT_DONE;
    struct offer *larger = realloc(offers->each, (inventory.device_count + 1) * sizeof *larger);
    if (larger) {
        offers->each = larger;
        offers->count = inventory.device_count;
        for (size_t i = 0; i < offers->count; i++) {
            offers->each[i] = (struct offer){ .info = inventory.devices[i].info, .lease = -1 };
            look_at_offer(&offers->each[i], placement, folder,
                          inventory.devices[i].info.memory_total);
        }
    } else {
        message_error("no memory for the list of devices");
        code = EXIT_FAILED;
    }
    inventory_deinit(&inventory);
    return code;
}

/* Ids that the hints name, or all, without those that cannot be leased; NULL without memory. */
static char *free_ids(const struct offers *offers, const char *asked, int only)
{
    size_t bytes = offers->count * sizeof offers->each->info.id + 1;
    char *list = malloc(bytes);
    if (!list) {
        message_error("no memory for the list of devices");
        return NULL;
    }
    list[0] = '\0';
    for (size_t i = 0; i < offers->count; i++) {
        const struct offer *offer = &offers->each[i];
        if (offer->is_held || *offer->spoiled ||
            (asked && !list_names(asked, offer->info.id) &&
             !list_names(asked, offer->info.backend)) ||
            (only >= 0 && (size_t)only != i))
            continue;
        size_t length = strlen(list);
        snprintf(list + length, bytes - length, "%s%s", length > 0 ? "," : "", offer->info.id);
    }
    return list;
}

static size_t find_offer(const struct offers *offers, const char *id)
{
    size_t i = 0;
    while (i < offers->count && strcmp(offers->each[i].info.id, id) != 0)
        i++;
    return i;
}

/*
 * Picks among those that are free and takes what was picked, until that succeeds or none is left:
 * between the look and the lock another may have come.
 */
static enum exit_code take_one(struct offers *offers, struct placement *placement,
                               const struct lease_folder *folder)
{
    const char *asked = placement->hints.devices;
    enum exit_code code = EXIT_DONE;
    while (code == EXIT_DONE && offers->lease < 0) {
        char *ids = free_ids(offers, asked, -1);
        if (!ids)
            return EXIT_FAILED;
        placement->hints.devices = ids;
        code = *ids ? placement_pick(placement) : EXIT_NO_DEVICE;
        placement->hints.devices = asked;
        free(ids);
        if (code != EXIT_DONE)
            return code;
        if (placement->status != MUSTER_OK)
            return EXIT_NO_DEVICE;
        char id[24];
        placement_id(placement, (uint32_t)placement->decision.chosen, id, sizeof id);
        size_t index = find_offer(offers, id);
        if (index == offers->count)
            return EXIT_FAILED;
        struct offer *offer = &offers->each[index];
        switch (lease_take(folder, offer->key, &offers->lease, offer->spoiled)) {
        case LEASE_TAKEN:
            offers->chosen = index;
            write_down(offers, offer, offers->lease);
            break;
        case LEASE_HELD:
            offer->is_held = offer->is_waited_for = true;
            lease_look(folder, offer->key, &offer->holder);
            break;
        case LEASE_SPOILED:
        case LEASE_FAILED:
            /* Any user can spoil one device's file; the other devices can still be leased. */
            break;
        }
    }
    return code;
}

/* Whether the device whose lease is held already meets the hints now. */
static enum exit_code check_taken(struct offers *offers, struct placement *placement)
{
    struct offer *offer = &offers->each[offers->chosen];
    const char *asked = placement->hints.devices;
    offer->is_held = false;
    char *id = free_ids(offers, asked, (int)offers->chosen);
    if (!id)
        return EXIT_FAILED;
    placement->hints.devices = id;
    enum exit_code code = placement_pick(placement);
    placement->hints.devices = asked;
    free(id);
    if (code == EXIT_DONE && placement->status != MUSTER_OK) {
        /* Others than holders of leases use it: there is nothing to wait for. */
        offer->is_waited_for = false;
        close(offers->lease);
        offers->lease = -1;
    }
    return code;
}

/*
 * One look at the machine, with a runtime that is closed again before anything is waited for or
 * run: a GPU's memory is not kept meanwhile. EXIT_DONE with a lease, or EXIT_NO_DEVICE without one.
 */
static enum exit_code try_once(struct offers *offers, const struct option_value *hints,
                               const struct lease_folder *folder, const char *taken_key)
{
    struct placement placement;
    enum exit_code code = placement_prepare(&placement, "exec", hints);
    if (code != EXIT_DONE)
        return code;
    code = placement_pick(&placement);
    if (code == EXIT_DONE)
        code = look(offers, &placement, folder);
    if (code == EXIT_DONE && offers->lease >= 0) {
        size_t i = 0;
        while (i < offers->count && strcmp(offers->each[i].key, taken_key) != 0)
            i++;
        offers->chosen = i;
        if (i < offers->count) {
            code = check_taken(offers, &placement);
        } else {
            close(offers->lease);
            offers->lease = -1;
        }
    }
    if (code == EXIT_DONE && offers->lease < 0)
        code = take_one(offers, &placement, folder);
    placement_close(&placement);
    return code;
}

/* Waiting and telling. */

/* Another device was leased; say all the same why these were left out. */
void offers_tell_spoiled(const struct offers *offers)
{
    for (size_t i = 0; i < offers->count; i++)
        if (*offers->each[i].spoiled)
            message_error("%s is left out: %s", offers->each[i].info.id, offers->each[i].spoiled);
}

static void tell_refusals(const struct offers *offers, bool was_waited)
{
    const char *own = getenv(OFFER_LEASE_VARIABLE);
    bool is_held = false, is_waited_for = false;
    for (size_t i = 0; i < offers->count; i++) {
        is_held |= offers->each[i].is_held && !*offers->each[i].refusal;
        is_waited_for |= offers->each[i].is_waited_for;
    }
    message_error(is_held || is_waited_for ? "every eligible device is leased"
                                           : "no device is eligible");
    for (size_t i = 0; i < offers->count; i++) {
        const struct offer *offer = &offers->each[i];
        char since[LEASE_TIME_BYTES], user[48];
        if (offer->is_held && (offer->is_waited_for || !*offer->refusal)) {
            lease_time(&offer->holder, since);
            lease_user(&offer->holder, user, sizeof user);
            message_detail("%s leased%s since %s UTC by %s, pid %llu: %s", offer->info.id,
                           own && strcmp(own, offer->key) == 0 ? " to what this runs in," : "",
                           since, user, (unsigned long long)offer->holder.pid,
                           offer->holder.command);
        } else if (*offer->spoiled) {
            message_detail("%s refused: %s", offer->info.id, offer->spoiled);
        } else {
            message_detail("%s refused by %s", offer->info.id,
                           *offer->refusal ? offer->refusal : "the hints");
        }
    }
    if (is_waited_for)
        message_detail("fix: %s", was_waited
                                      ? "wait longer, or ask those who have them"
                                      : "wait for one with --wait, or ask those who have them");
}

/* LEASE_TAKEN: of `key`. */
static enum lease_result wait_for_one(struct offers *offers, const struct lease_folder *folder,
                                      uint64_t end_ns, char key[LEASE_KEY_BYTES])
{
    struct timespec clock;
    size_t count = 0, which = 0;
    clock_gettime(CLOCK_MONOTONIC, &clock);
    uint64_t now = (uint64_t)clock.tv_sec * 1000000000u + (uint64_t)clock.tv_nsec;
    const char **keys = calloc(offers->count + 1, sizeof *keys);
    if (!keys) {
        message_error("no memory for the list of devices");
        return LEASE_FAILED;
    }
    for (size_t i = 0; i < offers->count; i++)
        if (offers->each[i].is_waited_for)
            keys[count++] = offers->each[i].key;
    enum lease_result result = LEASE_HELD;
    if (count > 0)
        result = lease_wait(folder, keys, count,
                            end_ns == UINT64_MAX ? UINT64_MAX
                            : end_ns > now       ? end_ns - now
                                                 : 0,
                            &which, &offers->lease);
    for (size_t i = 0; result == LEASE_TAKEN && i < offers->count; i++)
        if (offers->each[i].key == keys[which])
            write_down(offers, &offers->each[i], offers->lease);
    if (result == LEASE_TAKEN)
        snprintf(key, LEASE_KEY_BYTES, "%s", keys[which]);
    free(keys);
    return result;
}

static uint64_t end_of_wait(const struct option_value *wait)
{
    struct timespec now;
    if (!wait->given)
        return 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t seconds = (uint64_t)now.tv_sec + wait->number;
    return !wait->text || wait->number > UINT64_MAX / 4000000000u
               ? UINT64_MAX
               : seconds * 1000000000u + (uint64_t)now.tv_nsec;
}

static void complete_hints(const struct option_value *given, struct option_value *hints)
{
    memcpy(hints, given, (PLACEMENT_DEVICES + 1) * sizeof *hints);
    if (!hints[PLACEMENT_POLICY].given)
        hints[PLACEMENT_POLICY] = (struct option_value){ .given = true, .text = "weighted" };
    /* Whole devices are leased; the command may cut its own. */
    hints[PLACEMENT_SLICES] = (struct option_value){ .given = true, .text = "" };
}

enum exit_code offers_lease_one(struct offers *offers, const struct option_value *given,
                                const struct option_value *wait, const struct lease_folder *folder)
{
    struct option_value hints[PLACEMENT_OPTION_COUNT] = { 0 };
    complete_hints(given, hints);
    uint64_t end_ns = end_of_wait(wait);
    char key[LEASE_KEY_BYTES] = "";
    for (;;) {
        enum exit_code code = try_once(offers, hints, folder, key);
        if (code != EXIT_NO_DEVICE)
            return code;
        enum lease_result result =
            wait->given ? wait_for_one(offers, folder, end_ns, key) : LEASE_HELD;
        if (result == LEASE_FAILED)
            return EXIT_FAILED;
        if (result != LEASE_TAKEN) {
            tell_refusals(offers, wait->given);
            return EXIT_NO_DEVICE;
        }
    }
}

/* Each alone, since a pick tells of few devices why it refuses them. */
static enum exit_code take_others(struct offers *offers, struct placement *placement,
                                  const struct lease_folder *folder)
{
    const char *asked = placement->hints.devices;
    enum exit_code code = EXIT_DONE;
    for (size_t i = 0; i < offers->count && code == EXIT_DONE; i++) {
        struct offer *offer = &offers->each[i];
        if (i == offers->chosen)
            continue;
        char *id = free_ids(offers, asked, (int)i);
        if (!id)
            return EXIT_FAILED;
        placement->hints.devices = id;
        bool is_free = *id;
        if (is_free)
            code = placement_pick(placement);
        placement->hints.devices = asked;
        free(id);
        if (code == EXIT_DONE && is_free && placement->status == MUSTER_OK &&
            lease_take(folder, offer->key, &offer->lease, offer->spoiled) == LEASE_TAKEN)
            write_down(offers, offer, offer->lease);
    }
    return code;
}

enum exit_code offers_lease_all(struct offers *offers, const struct option_value *given,
                                const struct option_value *wait, const struct lease_folder *folder)
{
    struct option_value hints[PLACEMENT_OPTION_COUNT] = { 0 };
    struct placement placement;
    enum exit_code code = offers_lease_one(offers, given, wait, folder);
    if (code != EXIT_DONE)
        return code;
    offers->each[offers->chosen].lease = offers->lease;
    complete_hints(given, hints);
    code = placement_prepare(&placement, "exec", hints);
    if (code != EXIT_DONE)
        return code;
    code = take_others(offers, &placement, folder);
    placement_close(&placement);
    return code;
}

size_t offers_processors(const struct offers *offers)
{
    size_t processors = 0;
    for (size_t i = 0; i < offers->count; i++)
        processors += strcmp(offers->each[i].info.backend, "cpu") == 0;
    return processors;
}

void offers_deinit(struct offers *offers)
{
    for (size_t i = 0; i < offers->count; i++)
        if (offers->each[i].lease >= 0)
            close(offers->each[i].lease);
    free(offers->each);
    offers->each = NULL;
    offers->count = 0;
}
