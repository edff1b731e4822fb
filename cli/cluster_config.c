/*
 * `muster cluster config` and `muster cluster key`: who may do what at the servers of a fleet, as keys
 * and as the servers' configuration.
 */
#include "cluster_config.h"
#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/cluster.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LISTEN,
    SUBMITTERS,
    WORKERS,
    OPERATORS,
    VIEWERS,
    CERTIFICATE,
    CERTIFICATE_KEY,
    NO_TLS,
    STORE,
    MAX_FILE,
    OPTION_COUNT
};

#define LISTEN_DEFAULT "0.0.0.0:4222"
#define MAX_FILE_DEFAULT "50GB"
#define PATH_BYTES 1024
#define MEMBERS_MAX 1024
#define NAME_BYTES 48
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

static const struct option options[] = {
    [LISTEN] = { .name = "listen",
                 .kind = OPTION_TEXT,
                 .value = "ADDR",
                 .help = "where the server listens (" LISTEN_DEFAULT ")" },
    [SUBMITTERS] = { .name = "submitters",
                     .kind = OPTION_TEXT,
                     .value = "LIST",
                     .help =
                         "who may submit jobs: NAME or NAME=PUBLIC-KEY, with commas (submitter)" },
    [WORKERS] = { .name = "workers",
                  .kind = OPTION_TEXT,
                  .value = "LIST",
                  .help = "who may work (worker)" },
    [OPERATORS] = { .name = "operators",
                    .kind = OPTION_TEXT,
                    .value = "LIST",
                    .help = "who may look, and cancel any job (operator)" },
    [VIEWERS] = { .name = "viewers",
                  .kind = OPTION_TEXT,
                  .value = "LIST",
                  .help = "who may look (viewer)" },
    [CERTIFICATE] = { .name = "certificate",
                      .kind = OPTION_TEXT,
                      .value = "FILE",
                      .help = "the server's certificate, for TLS" },
    [CERTIFICATE_KEY] = { .name = "certificate-key",
                          .kind = OPTION_TEXT,
                          .value = "FILE",
                          .help = "its secret key" },
    [NO_TLS] = { .name = "no-tls",
                 .kind = OPTION_FLAG,
                 .help = "without TLS also where other machines can reach the server" },
    [STORE] = { .name = "store",
                .kind = OPTION_TEXT,
                .value = "DIR",
                .help = "where the server keeps things (FOLDER/store)" },
    [MAX_FILE] = { .name = "max-file",
                   .kind = OPTION_SIZE,
                   .value = "SIZE",
                   .help = "how much it may keep there (" MAX_FILE_DEFAULT ")" },
};
_Static_assert(sizeof options / sizeof *options == OPTION_COUNT, "each option has its row");

/*
 * What each role may send to and listen to; docs/cluster.md says what each line is for. Everything else
 * is refused. An inbox of its own comes to that for each member, so that nobody hears another's answers.
 *
 * Each role has an account of its own, and what is kept is in the submitters'. The server sends an
 * answer to whatever subject the request names, also to one that the asker may not send to: in an account
 * of its own such an answer meets nothing that the asker could not have written itself.
 *
 * Nobody may make a consumer ($JS.API.CONSUMER.>): the server would send what a stream has to any subject
 * that the consumer names, even if the consumer's maker may not send there. Wildcards stand for whole
 * words: MR_* is none, so streams of jobs are "*", and those that all jobs share are taken out again.
 */
#define MAY_LOOK                                                                                   \
    "$JS.API.INFO", "$JS.API.STREAM.INFO.KV_muster_jobs", "$JS.API.STREAM.INFO.KV_muster_workers", \
        "$JS.API.STREAM.INFO.MUSTER_OBJ", "$JS.API.DIRECT.GET.KV_muster_jobs.>",                   \
        "$JS.API.STREAM.MSG.GET.KV_muster_jobs"
#define MAY_SEE_WORKERS                                                                            \
    "$JS.API.DIRECT.GET.KV_muster_workers.>", "$JS.API.STREAM.MSG.GET.KV_muster_workers",          \
        "muster.c.*.ping"
#define MAY_REMOVE_JOBS                                                                            \
    "$JS.API.STREAM.PURGE.KV_muster_jobs", "$JS.API.STREAM.PURGE.MUSTER_OBJ",                      \
        "$JS.API.STREAM.DELETE.*", "muster.wake"
#define NEVER_REMOVES                                                                              \
    "$JS.API.STREAM.DELETE.KV_muster_jobs", "$JS.API.STREAM.DELETE.KV_muster_workers",             \
        "$JS.API.STREAM.DELETE.MUSTER_OBJ"
#define SUBJECTS_MAX 24

struct role {
    const char *name;
    const char *account;
    const char *sends[SUBJECTS_MAX], *never_sends[SUBJECTS_MAX], *hears[SUBJECTS_MAX];
    bool answers; /* requests, once each */
};

static const struct role roles[] = {
    { .name = "submitter",
      .account = "muster",
      .sends = { MAY_LOOK, MAY_SEE_WORKERS, MAY_REMOVE_JOBS, "$JS.API.STREAM.CREATE.*",
                 "$JS.API.STREAM.UPDATE.*", "$JS.API.STREAM.PURGE.*",
                 "$JS.API.DIRECT.GET.*.muster.r.>", "$JS.API.STREAM.MSG.GET.*", "$KV.muster_jobs.>",
                 "muster.o.*.*" },
      .never_sends = { NEVER_REMOVES, "$JS.API.STREAM.UPDATE.KV_muster_jobs",
                       "$JS.API.STREAM.UPDATE.KV_muster_workers",
                       "$JS.API.STREAM.UPDATE.MUSTER_OBJ",
                       "$JS.API.STREAM.PURGE.KV_muster_workers" },
      .hears = { "muster.c.*.*", "muster.i.*" },
      .answers = true },
    { .name = "worker",
      .account = "muster_workers",
      .sends = { MAY_LOOK, "$JS.API.DIRECT.GET.MUSTER_OBJ.>", "$JS.API.STREAM.MSG.GET.MUSTER_OBJ",
                 "$KV.muster_workers.*", "muster.r.*.*.*", "muster.c.*.ask", "muster.c.*.why",
                 "muster.i.*" },
      .hears = { "muster.wake" } },
    { .name = "operator",
      .account = "muster_operators",
      .sends = { MAY_LOOK, MAY_SEE_WORKERS, MAY_REMOVE_JOBS, "$KV.muster_jobs.*.cancel" },
      .never_sends = { NEVER_REMOVES } },
    { .name = "viewer", .account = "muster_viewers", .sends = { MAY_LOOK, MAY_SEE_WORKERS } },
};
#define ROLES (sizeof roles / sizeof *roles)

struct member {
    const struct role *role;
    char name[NAME_BYTES], key[MUSTER_CLUSTER_KEY_BYTES];
    bool is_ours; /* its secret lies in the folder */
};

struct fleet_config {
    char folder[PATH_BYTES];
    char certificate[PATH_BYTES], certificate_key[PATH_BYTES], store[PATH_BYTES];
    const char *listen, *max_file;
    bool is_misused;        /* what was asked for makes no sense */
    struct member *members; /* owns */
    size_t count;
};

/* Members. */

static void key_path(const struct fleet_config *config, const char *name, char path[2 * PATH_BYTES])
{
    snprintf(path, 2 * (size_t)PATH_BYTES, "%s/%s.key", config->folder, name);
}

/* The key that is there from an earlier call, or a new one. */
static bool find_key(const struct fleet_config *config, struct member *member)
{
    char path[2 * PATH_BYTES];
    struct muster_error error;
    key_path(config, member->name, path);
    muster_status status = access(path, F_OK) == 0
                               ? muster_cluster_key_read(path, member->key, &error)
                               : muster_cluster_key_create(path, member->key, &error);
    if (status != MUSTER_OK)
        message_library(NULL, &error);
    return status == MUSTER_OK;
}

/* "NAME" or "NAME=PUBLIC-KEY". */
static bool take_member(struct fleet_config *config, const struct role *role, const char *word)
{
    struct member *member = &config->members[config->count];
    size_t length = strcspn(word, "=");
    config->is_misused = true;
    if (config->count == MEMBERS_MAX) {
        message_usage("cluster config", "there are more than %d members", MEMBERS_MAX);
        return false;
    }
    if (length == 0 || length >= NAME_BYTES || strspn(word, NAME_LETTERS) < length) {
        message_usage("cluster config", "'%s' is no name: letters, digits, '-' and '_', at most %d",
                      word, NAME_BYTES - 1);
        return false;
    }
    *member = (struct member){ .role = role, .is_ours = word[length] == '\0' };
    memcpy(member->name, word, length);
    for (size_t i = 0; i < config->count; i++)
        if (strcmp(config->members[i].name, member->name) == 0) {
            message_usage("cluster config", "'%s' is named twice: each role has keys of its own",
                          member->name);
            return false;
        }
    const char *key = word + length + 1;
    if (!member->is_ours &&
        (*key != 'U' || muster_cluster_key_read(key, member->key, NULL) != MUSTER_OK)) {
        message_usage("cluster config", "'%s' is no public key: see muster cluster key FILE", key);
        return false;
    }
    if (member->is_ours && !find_key(config, member)) {
        config->is_misused = false;
        return false;
    }
    for (size_t i = 0; i < config->count; i++)
        if (strcmp(config->members[i].key, member->key) == 0) {
            message_usage("cluster config", "'%s' and '%s' have one key", config->members[i].name,
                          member->name);
            return false;
        }
    config->is_misused = false;
    config->count++;
    return true;
}

static bool take_members(struct fleet_config *config, const struct role *role,
                         const struct option_value *value)
{
    char *words = strdup(value->given ? value->text : role->name), *rest = NULL;
    bool is_good = words != NULL;
    for (char *word = is_good ? strtok_r(words, ",", &rest) : NULL; word && is_good;
         word = strtok_r(NULL, ",", &rest))
        is_good = take_member(config, role, word);
    free(words);
    return is_good;
}

/* The server's configuration. */

static void put_list(FILE *file, const char *what, const char *const *subjects, const char *inbox)
{
    const char *before = "";
    fprintf(file, "%s: [", what);
    if (inbox)
        fprintf(file, "\"_INBOX.%s.>\"", inbox);
    before = inbox ? ", " : "";
    for (size_t i = 0; i < SUBJECTS_MAX && subjects[i]; i++) {
        fprintf(file, "%s\"%s\"", before, subjects[i]);
        before = ", ";
    }
    fprintf(file, "]");
}

static void put_member(FILE *file, const struct member *member)
{
    const struct role *role = member->role;
    fprintf(file, "      # %s\n      { nkey: %s, permissions: {\n        publish: { ", member->name,
            member->key);
    put_list(file, "allow", role->sends, NULL);
    if (role->never_sends[0]) {
        fprintf(file, ", ");
        put_list(file, "deny", role->never_sends, NULL);
    }
    fprintf(file, " }\n        subscribe: { ");
    put_list(file, "allow", role->hears, member->key);
    fprintf(file, " }\n");
    if (role->answers)
        fprintf(file, "        allow_responses: { max: 1, expires: \"1m\" }\n");
    fprintf(file, "      } }\n");
}

static bool has_subject(const char *const *subjects, const char *subject)
{
    bool has = false;
    for (size_t i = 0; i < SUBJECTS_MAX && subjects[i] && !has; i++)
        has = strcmp(subjects[i], subject) == 0;
    return has;
}

/* The accounts whose role has the subject in the list that begins `offset` bytes into it. */
static void put_export(FILE *file, const char *kind, const char *subject, size_t offset)
{
    const char *before = "";
    fprintf(file, "      { %s: \"%s\", accounts: [", kind, subject);
    for (size_t i = 1; i < ROLES; i++)
        if (has_subject((const char *const *)((const char *)&roles[i] + offset), subject)) {
            fprintf(file, "%s%s", before, roles[i].account);
            before = ", ";
        }
    fprintf(file, "] }\n");
}

/* Each subject once, by the first role that has it. */
static void put_exports(FILE *file, const char *kind, size_t offset)
{
    for (size_t i = 1; i < ROLES; i++) {
        const char *const *list = (const char *const *)((const char *)&roles[i] + offset);
        for (size_t k = 0; k < SUBJECTS_MAX && list[k]; k++) {
            bool is_first = true;
            for (size_t j = 1; j < i; j++)
                if (has_subject((const char *const *)((const char *)&roles[j] + offset), list[k]))
                    is_first = false;
            if (is_first)
                put_export(file, kind, list[k], offset);
        }
    }
}

static void put_imports(FILE *file, const char *kind, const char *const *subjects)
{
    for (size_t i = 0; i < SUBJECTS_MAX && subjects[i]; i++)
        fprintf(file, "      { %s: { account: %s, subject: \"%s\" } }\n", kind, roles[0].account,
                subjects[i]);
}

static void put_account(FILE *file, const struct fleet_config *config, const struct role *role)
{
    fprintf(file, "  %s: {\n", role->account);
    if (role == &roles[0]) {
        fprintf(file, "    jetstream: enabled\n    exports: [\n");
        put_exports(file, "service", offsetof(struct role, sends));
        put_exports(file, "stream", offsetof(struct role, hears));
    } else {
        fprintf(file, "    imports: [\n");
        put_imports(file, "service", role->sends);
        put_imports(file, "stream", role->hears);
    }
    fprintf(file, "    ]\n    users: [\n");
    for (size_t i = 0; i < config->count; i++)
        if (config->members[i].role == role)
            put_member(file, &config->members[i]);
    fprintf(file, "    ]\n  }\n");
}

static void put_config(FILE *file, const struct fleet_config *config)
{
    fprintf(file,
            "# Written by `muster cluster config`: who may do what at the servers of a fleet.\n"
            "# docs/cluster.md says what each permission is for. The server refuses all others.\n"
            "listen: \"%s\"\n"
            "jetstream { store_dir: \"%s\", max_file: %s }\n",
            config->listen, config->store, config->max_file);
    if (*config->certificate)
        fprintf(file, "tls { cert_file: \"%s\", key_file: \"%s\", timeout: 10 }\n",
                config->certificate, config->certificate_key);
    fprintf(file, "accounts {\n");
    for (size_t i = 0; i < ROLES; i++)
        put_account(file, config, &roles[i]);
    fprintf(file, "}\n");
}

static void put_trust(FILE *file, const struct fleet_config *config)
{
    fprintf(file, "# Whose jobs workers run: muster worker --trust THIS-FILE\n");
    for (size_t i = 0; i < config->count; i++)
        if (config->members[i].role == &roles[0])
            fprintf(file, "%s %s\n", config->members[i].key, config->members[i].name);
}

/* Written aside and put in its place: a server that reads it meanwhile finds all of one. */
static bool write_file(const struct fleet_config *config, const char *name,
                       void (*put)(FILE *file, const struct fleet_config *config))
{
    char path[2 * PATH_BYTES], aside[2 * PATH_BYTES + 8];
    snprintf(path, sizeof path, "%s/%s", config->folder, name);
    snprintf(aside, sizeof aside, "%s.new", path);
    FILE *file = fopen(aside, "we");
    if (file)
        put(file, config);
    bool is_written = file && !ferror(file);
    if (file && fclose(file) != 0)
        is_written = false;
    if (is_written && rename(aside, path) == 0)
        return true;
    message_error("cannot write %s: %s", path, strerror(errno));
    return false;
}

/* What was asked for. */

static bool is_local(const char *listen)
{
    return strncmp(listen, "127.", 4) == 0 || strncmp(listen, "localhost:", 10) == 0 ||
           strncmp(listen, "[::1]:", 6) == 0;
}

static bool take_path(const struct option_value *value, char out[PATH_BYTES])
{
    char *whole = realpath(value->text, NULL);
    bool is_good = whole && strlen(whole) < PATH_BYTES && !strpbrk(whole, "\"\\\n");
    if (is_good)
        memcpy(out, whole, strlen(whole) + 1);
    else
        message_error("cannot use %s: %s", value->text,
                      whole ? "a quote or a backslash is in its path" : strerror(errno));
    free(whole);
    return is_good;
}

static bool take_tls(struct fleet_config *config, const struct option_value *values)
{
    bool has_both = values[CERTIFICATE].given && values[CERTIFICATE_KEY].given;
    if (!has_both && (values[CERTIFICATE].given || values[CERTIFICATE_KEY].given)) {
        message_usage("cluster config", "--certificate and --certificate-key go together");
        return false;
    }
    if (!has_both && !values[NO_TLS].given && !is_local(config->listen)) {
        message_usage("cluster config",
                      "a server for other machines needs TLS: give --certificate and "
                      "--certificate-key, or say --no-tls");
        return false;
    }
    return !has_both || (take_path(&values[CERTIFICATE], config->certificate) &&
                         take_path(&values[CERTIFICATE_KEY], config->certificate_key));
}

static bool take_folder(struct fleet_config *config, const char *name,
                        const struct option_value *store)
{
    const struct option_value folder = { .text = name };
    struct stat facts;
    if (mkdir(name, 0700) != 0 && errno != EEXIST) {
        message_error("cannot make %s: %s", name, strerror(errno));
        return false;
    }
    if (!take_path(&folder, config->folder))
        return false;
    if (stat(config->folder, &facts) != 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != geteuid() ||
        (facts.st_mode & 022) != 0) {
        message_error("%s is not a folder that this user alone can write to", name);
        message_detail("fix: give another one, or: chmod 700 FOLDER");
        return false;
    }
    int length = store->given ? snprintf(config->store, PATH_BYTES, "%s", store->text)
                              : snprintf(config->store, PATH_BYTES, "%s/store", config->folder);
    if (length < PATH_BYTES && !strpbrk(config->store, "\"\\\n"))
        return true;
    message_usage("cluster config", "--store is too long, or has a quote or a backslash");
    return false;
}

static void print_config(const struct fleet_config *config, struct output *out)
{
    char line[2 * PATH_BYTES + 200];
    snprintf(line, sizeof line,
             "%s/server.conf: nats-server -c FILE\n%s/trust: muster worker --trust FILE\n",
             config->folder, config->folder);
    output_text(out, line);
    for (size_t i = 0; i < config->count; i++) {
        const struct member *member = &config->members[i];
        snprintf(line, sizeof line, "%s %s %s%s%s%s%s\n", member->role->name, member->name,
                 member->key, member->is_ours ? " " : "", member->is_ours ? config->folder : "",
                 member->is_ours ? "/" : "", member->is_ours ? member->name : "");
        if (member->is_ours)
            snprintf(line + strlen(line) - 1, sizeof line - strlen(line), ".key\n");
        output_text(out, line);
    }
}

static enum exit_code run_config(const struct option_value *values, const char *argument,
                                 struct output *out)
{
    struct fleet_config config = {
        .listen = values[LISTEN].given ? values[LISTEN].text : LISTEN_DEFAULT,
        .max_file = values[MAX_FILE].given ? values[MAX_FILE].text : MAX_FILE_DEFAULT,
        .members = calloc(MEMBERS_MAX + 1, sizeof *config.members),
    };
    bool is_good = config.members != NULL;
    if (is_good && strpbrk(config.listen, "\"\\\n")) {
        message_usage("cluster config", "--listen is no address");
        is_good = false;
    }
    is_good = is_good && take_tls(&config, values);
    config.is_misused = !is_good;
    is_good = is_good && take_folder(&config, argument, &values[STORE]);
    for (size_t i = 0; i < ROLES && is_good; i++)
        is_good = take_members(&config, &roles[i], &values[SUBMITTERS + i]);
    is_good = is_good && write_file(&config, "trust", put_trust) &&
              write_file(&config, "server.conf", put_config);
    if (is_good)
        print_config(&config, out);
    free(config.members);
    return is_good ? EXIT_DONE : config.is_misused ? EXIT_USAGE : EXIT_FAILED;
}

static enum exit_code run_key(const struct option_value *values, const char *argument,
                              struct output *out)
{
    char key[MUSTER_CLUSTER_KEY_BYTES];
    struct muster_error error;
    (void)values;
    muster_status status = access(argument, F_OK) == 0
                               ? muster_cluster_key_read(argument, key, &error)
                               : muster_cluster_key_create(argument, key, &error);
    if (status != MUSTER_OK) {
        message_library(NULL, &error);
        return EXIT_FAILED;
    }
    output_text(out, key);
    output_text(out, "\n");
    return EXIT_DONE;
}

const struct command command_cluster_config = {
    .name = "cluster config",
    .summary = "write keys and a server's configuration for a fleet with roles",
    .argument = "FOLDER",
    .argument_required = true,
    .details =
        "Writes FOLDER/server.conf for nats-server, FOLDER/NAME.key for each member and\n"
        "FOLDER/trust with the submitters' public keys. Keys that are there stay; server.conf and\n"
        "trust are written again, so a member who is left out is refused from then on.\n"
        "\n"
        "Each member's key goes to its machine, and nowhere else: `muster worker --key FILE "
        "--trust\n"
        "FILE`, `muster map --key FILE`, `muster jobs --key FILE`. A member that made\n"
        "its own key (`muster cluster key FILE`) is named NAME=PUBLIC-KEY. Each member may use "
        "the\n"
        "subjects that its role needs, and has an inbox that no other can listen to; "
        "docs/cluster.md\n"
        "lists them. A server that runs takes a new file with: nats-server --signal reload\n",
    .options = options,
    .option_count = OPTION_COUNT,
    .run = run_config,
};

const struct command command_cluster_key = {
    .name = "cluster key",
    .summary = "make a key, or tell whose it is",
    .argument = "FILE",
    .argument_required = true,
    .details =
        "Makes a key in FILE, which only this user can read, unless there is one, and prints\n"
        "its public key. The public key is no secret; the file lets its owner in.\n",
    .run = run_key,
};
