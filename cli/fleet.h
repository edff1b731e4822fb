/*
 * What the commands for many machines have in common: where the servers are, and a job that this
 * process feeds, from its progress to its end.
 */
#ifndef CLI_FLEET_H
#define CLI_FLEET_H

#include "command.h"
#include "interrupt.h"

#include <muster/cluster.h>

/* Where the cluster is: rows from values[FLEET_URL] on. */
enum { FLEET_URL, FLEET_KEY, FLEET_CREDENTIALS, FLEET_CA, FLEET_REPLICAS, FLEET_OPTIONS };
/* clang-format off */
#define FLEET_OPTION_ROWS                                                                          \
    { .name = "cluster", .kind = OPTION_TEXT, .value = "URL",                                      \
      .help = "the servers: nats://host:4222, several with commas; else MUSTER_CLUSTER" },         \
    { .name = "key", .kind = OPTION_TEXT, .value = "FILE",                                         \
      .help = "this user's key, which signs what is submitted; else MUSTER_CLUSTER_KEY" },         \
    { .name = "credentials", .kind = OPTION_TEXT, .value = "FILE",                                 \
      .help = "a .creds file, for servers that know users by it" },                                \
    { .name = "ca", .kind = OPTION_TEXT, .value = "FILE",                                          \
      .help = "certificates of the servers' authority: TLS; else MUSTER_CLUSTER_CA" },             \
    { .name = "replicas", .kind = OPTION_NUMBER, .value = "N",                                     \
      .help = "of what the servers store: 1, 3 or 5 (1)" }
/* clang-format on */

/*
 * Connects; `waits` also for servers that are not there yet. False: stderr has said why not, and `*code`
 * is what the command ends with.
 */
bool fleet_open(const struct option_value *values, const char *command, bool waits,
                struct muster_cluster **out, enum exit_code *code);

/*
 * Waits for the job and shows its progress where stderr is a terminal. A signal cancels the job.
 * `report`: a table of the machines at the end.
 */
muster_status fleet_wait(struct muster_cluster *cluster, struct muster_cluster_job *job,
                         struct interrupt *interrupt, bool is_quiet, bool report,
                         struct muster_error *error);
/* The same for a job whose output is a file; what it came to is told. */
enum exit_code fleet_follow(struct muster_cluster *cluster, struct muster_cluster_job *job,
                            struct interrupt *interrupt, bool is_quiet, bool report);

/* A failure of the cluster's as an exit code, told. */
enum exit_code fleet_refuse(const struct muster_error *error);

/*
 * The rest of the command goes on in a process of its own, without a terminal. Gives 0 there; in this
 * one what it ends with once fleet_detached was called there, or the process has ended: then the
 * output has the job's name. -1: it cannot be, which was reported.
 */
int fleet_detach(enum exit_code *code, struct output *out);
/* The job exists: its name goes to the waiting process, messages from now on to the file `log`. */
void fleet_detached(const char *name, const char *log);

#endif
