/*
 * `muster cluster`: servers and workers on this machine, for trying out and for one machine as a cluster.
 */
#include "cluster_config.h"
#include "command.h"
#include "message.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <muster/cluster.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FOLDER, PORT, SERVERS, WORKERS, OPTION_COUNT };

#define PORT_DEFAULT 4222
#define SERVERS_MAX 3
#define WORKERS_MAX 64
#define PATH_BYTES 1024
#define WAIT_STEPS 100
#define STEP_NS 100000000L

extern char **environ;

static const struct option options[] = {
    [FOLDER] = { .name = "folder",
                 .kind = OPTION_TEXT,
                 .value = "DIR",
                 .help =
                     "where the servers keep things (in the user's runtime directory, else /tmp)" },
    [PORT] = { .name = "port",
               .kind = OPTION_NUMBER,
               .value = "N",
               .help = "of the first server, on 127.0.0.1 (4222); of others and their links those "
                       "after it" },
    [SERVERS] = { .name = "servers",
                  .kind = OPTION_NUMBER,
                  .value = "N",
                  .help = "1 or 3; of three one may fail (--replicas 3 with all commands)" },
    [WORKERS] = { .name = "workers",
                  .kind = OPTION_NUMBER,
                  .value = "N",
                  .help = "workers to start, each with all devices (1)" },
};
_Static_assert(sizeof options / sizeof *options == OPTION_COUNT, "each option has its row");

static void sleep_a_step(void)
{
    const struct timespec step = { 0, STEP_NS };
    nanosleep(&step, NULL);
}

/* One for each user, which nobody else may write to. */
static bool find_folder(const struct option_value *value, char folder[PATH_BYTES])
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (value->given)
        snprintf(folder, PATH_BYTES, "%s", value->text);
    else if (runtime && *runtime)
        snprintf(folder, PATH_BYTES, "%s/muster-cluster", runtime);
    else
        snprintf(folder, PATH_BYTES, "/tmp/muster-cluster-%u", (unsigned)geteuid());
    struct stat facts;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        message_error("cannot make %s: %s", folder, strerror(errno));
        return false;
    }
    if (lstat(folder, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid())
        return true;
    message_error("%s is not this user's own folder", folder);
    message_detail("fix: give another one with --folder");
    return false;
}

/* A program whose messages go to a file beside its number, NAME.log and NAME.pid. */
static bool start(const char *folder, const char *name, char *const *words)
{
    char log[PATH_BYTES + 64], note[PATH_BYTES + 64];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    pid_t pid = 0;
    snprintf(log, sizeof log, "%s/%s.log", folder, name);
    snprintf(note, sizeof note, "%s/%s.pid", folder, name);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int code = posix_spawnp(&pid, words[0], &actions, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (code != 0) {
        message_error("cannot start %s: %s", words[0], strerror(code));
        if (strcmp(words[0], "nats-server") == 0)
            message_detail("fix: install the package nats-server");
        return false;
    }
    FILE *file = fopen(note, "w");
    bool is_noted = file && fprintf(file, "%ld\n", (long)pid) > 0;
    if (file && fclose(file) != 0)
        is_noted = false;
    if (!is_noted) {
        message_error("cannot write %s: %s", note, strerror(errno));
        kill(pid, SIGTERM);
    }
    return is_noted;
}

static bool write_config(const char *folder, uint64_t index, uint64_t port, uint64_t count,
                         char path[PATH_BYTES + 64])
{
    snprintf(path, PATH_BYTES + 64, "%s/server%llu.conf", folder, (unsigned long long)index);
    FILE *file = fopen(path, "w");
    if (!file) {
        message_error("cannot write %s: %s", path, strerror(errno));
        return false;
    }
    fprintf(file,
            "server_name: muster%llu\nlisten: \"127.0.0.1:%llu\"\n"
            "jetstream { store_dir: \"%s/store%llu\" }\n",
            (unsigned long long)index, (unsigned long long)(port + index), folder,
            (unsigned long long)index);
    if (count > 1) {
        fprintf(file, "cluster { name: muster, listen: \"127.0.0.1:%llu\", routes: [",
                (unsigned long long)(port + count + index));
        for (uint64_t i = 0; i < count; i++)
            fprintf(file, "%s\"nats-route://127.0.0.1:%llu\"", i > 0 ? ", " : "",
                    (unsigned long long)(port + count + i));
        fprintf(file, "] }\n");
    }
    return fclose(file) == 0;
}

static bool is_taken(uint64_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is = file >= 0 && connect(file, (struct sockaddr *)&address, sizeof address) == 0;
    if (file >= 0)
        close(file);
    return is;
}

/* Until the servers have agreed and keep things. */
static bool wait_for_servers(const char *url, uint32_t replicas)
{
    const struct muster_cluster_options asked = { .size = sizeof asked, .replicas = replicas };
    struct muster_cluster *cluster = NULL;
    struct muster_error error = { .text = "" };
    for (int i = 0; i < WAIT_STEPS; i++) {
        muster_status status = muster_cluster_open(url, &asked, &cluster, &error);
        if (status == MUSTER_OK) {
            muster_cluster_close(cluster);
            return true;
        }
        sleep_a_step();
    }
    message_library(NULL, &error);
    return false;
}

static bool start_servers(const char *folder, uint64_t port, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        char config[PATH_BYTES + 64], name[32];
        char *words[] = { "nats-server", "-c", config, NULL };
        snprintf(name, sizeof name, "server%llu", (unsigned long long)i);
        if (is_taken(port + i)) {
            message_error("something listens at 127.0.0.1:%llu already",
                          (unsigned long long)(port + i));
            message_detail("fix: muster cluster down, or give another --port");
            return false;
        }
        if (!write_config(folder, i, port, count, config) || !start(folder, name, words))
            return false;
    }
    return true;
}

static bool start_workers(const char *folder, const char *url, uint64_t count, bool has_three)
{
    char program[PATH_BYTES], address[256];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0)
        return false;
    program[length] = '\0';
    snprintf(address, sizeof address, "%s", url);
    for (uint64_t i = 0; i < count; i++) {
        char name[32];
        char *words[] = { program, "worker",     "--cluster",
                          address, "--replicas", has_three ? "3" : "1",
                          NULL };
        snprintf(name, sizeof name, "worker%llu", (unsigned long long)i);
        if (!start(folder, name, words))
            return false;
    }
    return true;
}

static enum exit_code stop_all(const char *folder);

static enum exit_code run_up(const struct option_value *values, const char *argument,
                             struct output *out)
{
    uint64_t port = values[PORT].given ? values[PORT].number : PORT_DEFAULT;
    uint64_t servers = values[SERVERS].given ? values[SERVERS].number : 1;
    uint64_t workers = values[WORKERS].given ? values[WORKERS].number : 1;
    char folder[PATH_BYTES], url[256] = "";
    size_t length = 0;
    (void)argument;
    if ((servers != 1 && servers != SERVERS_MAX) || workers > WORKERS_MAX || port == 0 ||
        port > 65000) {
        message_usage("cluster", "--servers is 1 or 3, --workers at most %d, --port at most 65000",
                      WORKERS_MAX);
        return EXIT_USAGE;
    }
    if (!find_folder(&values[FOLDER], folder))
        return EXIT_FAILED;
    for (uint64_t i = 0; i < servers; i++)
        length += (size_t)snprintf(url + length, sizeof url - length, "%snats://127.0.0.1:%llu",
                                   i > 0 ? "," : "", (unsigned long long)(port + i));
    if (!start_servers(folder, port, servers))
        return EXIT_FAILED;
    if (!wait_for_servers(url, (uint32_t)servers) ||
        !start_workers(folder, url, workers, servers == SERVERS_MAX)) {
        (void)stop_all(folder);
        return EXIT_FAILED;
    }
    output_text(out, url);
    output_text(out, "\n");
    return EXIT_DONE;
}

/* Whether the process is one that was started for this folder: numbers are used again. */
static bool is_ours(long pid, const char *folder)
{
    char path[64], words[4096];
    snprintf(path, sizeof path, "/proc/%ld/cmdline", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file >= 0 ? read(file, words, sizeof words - 1) : -1;
    if (file >= 0)
        close(file);
    if (length <= 0)
        return false;
    for (ssize_t i = 0; i < length; i++)
        words[i] = words[i] ? words[i] : ' ';
    words[length] = '\0';
    return strstr(words, folder) || strstr(words, " worker --cluster ");
}

/* Ends the process whose number is noted, and waits for it; kills it when it takes too long. */
static void stop(const char *folder, const char *name)
{
    char note[PATH_BYTES + 300];
    long pid = 0;
    snprintf(note, sizeof note, "%s/%s", folder, name);
    FILE *file = fopen(note, "r");
    if (file && fscanf(file, "%ld", &pid) == 1 && pid > 1 && is_ours(pid, folder)) {
        kill((pid_t)pid, SIGTERM);
        for (int i = 0; i < WAIT_STEPS && kill((pid_t)pid, 0) == 0 && is_ours(pid, folder); i++)
            sleep_a_step();
        if (is_ours(pid, folder))
            kill((pid_t)pid, SIGKILL);
    }
    if (file)
        fclose(file);
    unlink(note);
}

static void stop_each(const char *folder, const char *kind)
{
    DIR *all = opendir(folder);
    struct dirent *entry;
    while (all && (entry = readdir(all))) {
        size_t length = strlen(entry->d_name);
        if (strncmp(entry->d_name, kind, strlen(kind)) == 0 && length > 4 &&
            strcmp(entry->d_name + length - 4, ".pid") == 0)
            stop(folder, entry->d_name);
    }
    if (all)
        closedir(all);
}

static enum exit_code stop_all(const char *folder)
{
    /* Workers first: they say that they leave. */
    stop_each(folder, "worker");
    stop_each(folder, "server");
    return EXIT_DONE;
}

static enum exit_code run_down(const struct option_value *values, const char *argument,
                               struct output *out)
{
    char folder[PATH_BYTES];
    (void)argument, (void)out;
    return find_folder(&values[FOLDER], folder) ? stop_all(folder) : EXIT_FAILED;
}

static const struct command command_up = {
    .name = "cluster up",
    .summary = "start servers and workers on this machine, and print their address",
    .details =
        "They listen on 127.0.0.1 alone and let everybody on this machine in. Their messages, "
        "and\nwhat the servers keep, lie in the folder.\n",
    .options = options,
    .option_count = OPTION_COUNT,
    .run = run_up,
};
static const struct command command_down = {
    .name = "cluster down",
    .summary = "stop what `muster cluster up` has started",
    .details = "Workers store what they hold first. What the servers keep stays in the folder.\n",
    .options = options,
    .option_count = 1,
    .run = run_down,
};
static const struct command *const parts[] = { &command_up, &command_down, &command_cluster_config,
                                               &command_cluster_key };

static enum exit_code dispatch(char *const *words, size_t count, struct output *out)
{
    const char *word = count > 0 ? words[0] : "";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        help_print(&command_cluster, out);
        return EXIT_DONE;
    }
    const struct command *part = command_part(&command_cluster, word);
    if (!part) {
        message_usage("cluster",
                      *word ? "there is no 'cluster %s'" : "cluster needs up, down, config or key",
                      word);
        return EXIT_USAGE;
    }
    return command_run(part, words + 1, count - 1, out);
}

const struct command command_cluster = {
    .name = "cluster",
    .summary = "servers and workers on this machine, keys and a configuration for many",
    .argument = "up | down | config | key",
    .argument_required = true,
    .details = "muster cluster up             start them, and print the address for --cluster\n"
               "muster cluster down           stop them\n"
               "muster cluster config FOLDER  write keys and a server's configuration, with roles\n"
               "muster cluster key FILE       make a key, or tell whose it is\n"
               "\n"
               "`muster cluster up --help` and so on describe the options.\n",
    .parts = parts,
    .part_count = sizeof parts / sizeof *parts,
    .dispatch = dispatch,
};
