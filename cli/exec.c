/*
 * `muster exec`: runs a command on a device that no other `muster exec` has.
 *
 * The command is run in the place of this process, holding the lease: its signals, its exit status
 * and its job control are its own, and nothing stands between it and whoever started it.
 */
#include "environment.h"
#include "json.h"
#include "lease.h"
#include "message.h"
#include "placement.h"
#include "slices.h"
#include "table.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What is leased to the command that this process is part of. */
#define LEASE_VARIABLE "MUSTER_LEASE"

/* The hints are those of pick and have their numbers. */
enum { WAIT = PLACEMENT_DEVICE + 1, LIST, JSON };
_Static_assert(PLACEMENT_POLICY == 0 && PLACEMENT_MIN_FREE == 1 && PLACEMENT_MIN_CC == 2 &&
                   PLACEMENT_BACKEND == 3 && PLACEMENT_DEVICE == 4,
               "the hints come first");

static const struct option options[] = {
    [PLACEMENT_POLICY] = { .name = "policy",
                           .kind = OPTION_TEXT,
                           .value = "P",
                           .help = "which of those that are free (weighted)" },
    [PLACEMENT_MIN_FREE] = { .name = "min-free",
                             .kind = OPTION_TEXT,
                             .value = "SIZE",
                             .help = "memory that must be free: 512MiB, 1.5GiB, 80GB" },
    [PLACEMENT_MIN_CC] = { .name = "min-cc",
                           .kind = OPTION_TEXT,
                           .value = "X.Y",
                           .help = "compute capability, as 8.0" },
    [PLACEMENT_BACKEND] = { .name = "backend",
                            .kind = OPTION_TEXT,
                            .value = "LIST",
                            .help = "only devices of these, comma separated: cuda,opencl" },
    [PLACEMENT_DEVICE] = { .name = "device",
                           .kind = OPTION_TEXT,
                           .value = "LIST",
                           .help = "only these, comma separated: cuda:0,cuda:1" },
    [WAIT] = { .name = "wait",
               .kind = OPTION_MAYBE_NUMBER,
               .value = "[SECONDS]",
               .help = "until one is free, at most so long" },
    [LIST] = { .name = "list", .kind = OPTION_FLAG, .help = "show who has leased what" },
    [JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print the list as JSON" },
};

static char *const *command_words;

/* One device of this machine, and why it is not to be had, if that is so. */
struct offer {
    struct muster_device_info info;
    char key[LEASE_KEY_BYTES];
    char refusal[160];                /* "" unless a hint refuses it */
    char spoiled[LEASE_REASON_BYTES]; /* why its lease file cannot be used; "": it can */
    bool is_held;
    bool is_waited_for; /* held, and would do if it were not */
    struct lease_holder holder;
};

struct offers {
    struct offer *each; /* owns */
    size_t count;
    /* The one that was leased. */
    size_t chosen;
    int lease; /* -1: none yet */
};

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

/* At once, so that whoever finds the device leased is not told of the one before. */
static void write_down(const struct offer *offer, int lease)
{
    struct lease_holder holder = { .pid = (uint64_t)getpid(),
                                   .uid = (uint64_t)getuid(),
                                   .since = (uint64_t)time(NULL) };
    snprintf(holder.device, sizeof holder.device, "%s", offer->info.id);
    size_t length = 0;
    for (char *const *word = command_words; *word && length + 1 < sizeof holder.command; word++)
        length += (size_t)snprintf(holder.command + length, sizeof holder.command - length, "%s%s",
                                   word == command_words ? "" : " ", *word);
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
    const char *own = getenv(LEASE_VARIABLE);
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
            offers->each[i] = (struct offer){ .info = inventory.devices[i].info };
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
        if (offer->is_held || *offer->spoiled || (asked && !list_names(asked, offer->info.id)) ||
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
            write_down(offer, offers->lease);
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
static void tell_spoiled(const struct offers *offers)
{
    for (size_t i = 0; i < offers->count; i++)
        if (*offers->each[i].spoiled)
            message_error("%s is left out: %s", offers->each[i].info.id, offers->each[i].spoiled);
}

static void tell_refusals(const struct offers *offers, bool was_waited)
{
    const char *own = getenv(LEASE_VARIABLE);
    bool is_held = false, is_waited_for = false;
    for (size_t i = 0; i < offers->count; i++) {
        is_held |= offers->each[i].is_held && !*offers->each[i].refusal;
        is_waited_for |= offers->each[i].is_waited_for;
    }
    message_error(is_held || is_waited_for ? "every device that would do is leased"
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
            write_down(&offers->each[i], offers->lease);
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

/* EXIT_DONE: offers->chosen is leased. Else it has been told why not. */
static enum exit_code lease_one(struct offers *offers, const struct option_value *values,
                                const struct lease_folder *folder)
{
    struct option_value hints[PLACEMENT_OPTION_COUNT] = { 0 };
    memcpy(hints, values, WAIT * sizeof *hints);
    if (!hints[PLACEMENT_POLICY].given)
        hints[PLACEMENT_POLICY] = (struct option_value){ .given = true, .text = "weighted" };
    /* Whole devices are leased; the command may cut its own. */
    hints[PLACEMENT_SLICES] = (struct option_value){ .given = true, .text = "" };
    uint64_t end_ns = end_of_wait(&values[WAIT]);
    char key[LEASE_KEY_BYTES] = "";
    for (;;) {
        enum exit_code code = try_once(offers, hints, folder, key);
        if (code != EXIT_NO_DEVICE)
            return code;
        enum lease_result result =
            values[WAIT].given ? wait_for_one(offers, folder, end_ns, key) : LEASE_HELD;
        if (result == LEASE_FAILED)
            return EXIT_FAILED;
        if (result != LEASE_TAKEN) {
            tell_refusals(offers, values[WAIT].given);
            return EXIT_NO_DEVICE;
        }
    }
}

/* Running the command. */

/* Returns only if it cannot be run. */
static enum exit_code run_command(void)
{
    signal(SIGPIPE, sigpipe_before);
    execvp(command_words[0], command_words);
    int error = errno;
    signal(SIGPIPE, SIG_IGN);
    message_error("%s cannot be run: %s", command_words[0],
                  error == ENOENT ? "there is no such program" : strerror(error));
    return error == ENOENT ? EXIT_NOT_THERE : EXIT_NOT_RUNNABLE;
}

static enum exit_code run_leased(const struct option_value *values)
{
    struct lease_folder folder;
    struct offers offers = { .lease = -1 };
    if (!lease_folder_open(&folder, true))
        return EXIT_FAILED;
    enum exit_code code = lease_one(&offers, values, &folder);
    if (code == EXIT_DONE) {
        const struct offer *offer = &offers.each[offers.chosen];
        size_t processors = 0;
        for (size_t i = 0; i < offers.count; i++)
            processors += strcmp(offers.each[i].info.backend, "cpu") == 0;
        tell_spoiled(&offers);
        lease_hand_down(&folder, offers.lease);
        if (environment_set(&offer->info, processors > 1) &&
            setenv(LEASE_VARIABLE, offer->key, 1) == 0) {
            code = run_command();
        } else {
            message_error("no memory for the command's environment");
            code = EXIT_FAILED;
        }
    }
    free(offers.each);
    lease_folder_close(&folder);
    return code;
}

/* The list. */

enum { DEVICE, KEY, PID, USER, SINCE, COMMAND, COLUMN_COUNT };

static void lease_row(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES])
{
    const struct lease_holder *holder = (const struct lease_holder *)rows + index;
    snprintf(cells[DEVICE], TABLE_CELL_BYTES, "%s", *holder->device ? holder->device : "-");
    snprintf(cells[KEY], TABLE_CELL_BYTES, "%s", holder->key);
    snprintf(cells[PID], TABLE_CELL_BYTES, "%llu", (unsigned long long)holder->pid);
    lease_user(holder, cells[USER], TABLE_CELL_BYTES);
    lease_time(holder, cells[SINCE]);
    snprintf(cells[COMMAND], TABLE_CELL_BYTES, "%.*s", TABLE_CELL_BYTES - 1, holder->command);
}

static void print_json(const struct lease_folder *folder, const struct lease_holder *holders,
                       size_t count, struct output *out)
{
    struct json json;
    json_init(&json, out);
    json_begin_object(&json, NULL);
    json_text(&json, "folder", folder->path);
    json_begin_array(&json, "leases");
    for (size_t i = 0; i < count; i++) {
        json_begin_object(&json, NULL);
        json_text(&json, "device", holders[i].device);
        json_text(&json, "key", holders[i].key);
        json_number(&json, "pid", holders[i].pid);
        json_number(&json, "uid", holders[i].uid);
        json_number(&json, "since", holders[i].since);
        json_text(&json, "command", holders[i].command);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    output_text(out, "\n");
}

static enum exit_code list(bool is_json, struct output *out)
{
    static const struct table_column columns[COLUMN_COUNT] = {
        [DEVICE] = { "DEVICE", false, false },
        [KEY] = { "LEASED AS", false, false },
        [PID] = { "PID", true, false },
        [USER] = { "USER", false, false },
        [SINCE] = { "SINCE (UTC)", false, false },
        [COMMAND] = { "COMMAND", false, false },
    };
    struct lease_folder folder;
    size_t count;
    if (!lease_folder_open(&folder, false))
        return EXIT_FAILED;
    struct lease_holder *holders = lease_list(&folder, &count);
    if (is_json)
        print_json(&folder, holders, count, out);
    else if (count > 0)
        table_print(columns, COLUMN_COUNT, lease_row, holders, count, out);
    else
        output_text(out, "nothing is leased\n");
    free(holders);
    lease_folder_close(&folder);
    return EXIT_DONE;
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    if (values[LIST].given && argument) {
        message_usage("exec", "--list runs no command, but there is '%s'", argument);
        return EXIT_USAGE;
    }
    if (values[LIST].given)
        return list(values[JSON].given, out);
    if (values[JSON].given) {
        message_usage("exec", "--json is for --list: what is printed otherwise is the command's");
        return EXIT_USAGE;
    }
    if (!argument || !*argument) {
        message_usage("exec", "exec needs a command to run");
        return EXIT_USAGE;
    }
    return run_leased(values);
}

const struct command command_exec = {
    .name = "exec",
    .summary = "run a command on a device that no other muster exec has",
    .argument = "-- COMMAND...",
    .rest = &command_words,
    .details =
        "Hints refuse devices, then the policy picks among those that are not leased, and the\n"
        "command runs in the place of this process while the device is leased to it. The lease\n"
        "ends with the command and what it leaves running, however they end; it holds among all\n"
        "users, but only against other runs of muster exec.\n"
        "The command finds CUDA_VISIBLE_DEVICES and MUSTER_DEVICES set, so that CUDA programs and\n"
        "programs that use Muster see that device alone, and MUSTER_LEASE, its name among leases.\n"
        "\nPolicies: " PLACEMENT_POLICIES ".\n\n"
        "Exit status: that of the command; 3 if no device is to be had (stderr says who has "
        "them),\n"
        "126 if the command cannot be run, 127 if there is none; 1 and 2 as always.\n"
        "\n"
        "JSON, of --list: "
        "{\"folder\":F,\"leases\":[{\"device\",\"key\",\"pid\",\"uid\",\"since\",\n"
        "\"command\"},...]}; since is in seconds since 1970.\n"
        "\n"
        "Environment: MUSTER_LEASES names the folder of the leases, which must be the same for\n"
        "all who share the devices (/run/muster if there is one, else /tmp/muster-leases).\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
