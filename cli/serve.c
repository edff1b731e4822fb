/*
 * `muster serve`: the live view as a page for browsers, as metrics for Prometheus and as JSON.
 */
#include "command.h"
#include "http_library.h"
#include "json.h"
#include "live_json.h"
#include "message.h"
#include "serve_page.h"
#include "serve_rules.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LISTEN, TOKEN_FILE, HOST, JSON };

#define LISTEN_DEFAULT "127.0.0.1:9464"
#define NAME_BYTES 256
/* Those that are there at once, and how long one may keep quiet. */
#define CONNECTIONS_MAX 64u
#define QUIET_S 30u
#define CONNECTION_BYTES ((size_t)32 << 10)
#define NONCE_BYTES 32u

static const struct option options[] = {
    [LISTEN] = { .name = "listen",
                 .kind = OPTION_TEXT,
                 .value = "ADDRESS",
                 .help = "host:port or port (127.0.0.1:9464); port 0: a free port" },
    [TOKEN_FILE] = { .name = "token-file",
                     .kind = OPTION_TEXT,
                     .value = "FILE",
                     .help = "read the token from FILE; created if missing" },
    [HOST] = { .name = "host",
               .kind = OPTION_TEXT,
               .value = "NAMES",
               .help = "names of this machine that browsers may use, comma separated" },
    [JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print the address as JSON" },
};

static struct microhttpd http;
static struct serve_rules rules;
static char nonce[NONCE_BYTES + 1];

/* The library. */

static bool find(void *library, const char *name, void *to)
{
    void *symbol = dlsym(library, name);
    /* A pointer to a function is as large as one to data wherever there is dlsym. */
    memcpy(to, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool load_library(void)
{
    void *library = dlopen(MICROHTTPD_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    const char *words = library ? NULL : dlerror();
    bool has_all = library && find(library, "MHD_start_daemon", &http.start_daemon) &&
                   find(library, "MHD_lookup_connection_value", &http.lookup_connection_value) &&
                   find(library, "MHD_create_response_from_fd", &http.create_response_from_fd) &&
                   find(library, "MHD_add_response_header", &http.add_response_header) &&
                   find(library, "MHD_queue_response", &http.queue_response) &&
                   find(library, "MHD_destroy_response", &http.destroy_response);
    if (has_all)
        return true;
    message_error("muster serve needs libmicrohttpd: %s", library ? "the library lacks functions"
                                                          : words ? words
                                                                  : "not found");
    message_detail("fix: install the package " MICROHTTPD_PACKAGE
                   " (Debian, Ubuntu) or libmicrohttpd (Fedora, Arch)");
    return false;
}

/* Answers. */

static void print_page(struct output *out)
{
    /* Only what the page brings itself is run and drawn: its parts carry a word that nobody can guess. */
    const char *at = serve_page, *mark;
    while ((mark = strstr(at, "@NONCE@"))) {
        output_bytes(out, at, (size_t)(mark - at));
        output_text(out, nonce);
        at = mark + strlen("@NONCE@");
    }
    output_text(out, at);
}

/* Gives the status. */
static unsigned print_answer(const char *path, struct output *out)
{
    struct muster_live *live;
    if (strcmp(path, "/") == 0) {
        print_page(out);
        return 200;
    }
    if (muster_live_look(&live, NULL) != MUSTER_OK) {
        output_text(out, "no memory for a look\n");
        return 503;
    }
    if (strcmp(path, "/json") == 0)
        live_json(live, out);
    else
        live_metrics(live, out);
    muster_live_destroy(live);
    return 200;
}

static void add_headers(struct MHD_Response *response, const char *path, unsigned status)
{
    char policy[256];
    snprintf(policy, sizeof policy,
             "default-src 'none'; connect-src 'self'; script-src 'nonce-%s'; style-src 'nonce-%s'; "
             "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
             nonce, nonce);
    const char *type = status != 200                ? "text/plain; charset=utf-8"
                       : strcmp(path, "/") == 0     ? "text/html; charset=utf-8"
                       : strcmp(path, "/json") == 0 ? "application/json"
                                                    : "text/plain; version=0.0.4; charset=utf-8";
    http.add_response_header(response, "Content-Type", type);
    http.add_response_header(response, "Cache-Control", "no-store");
    http.add_response_header(response, "X-Content-Type-Options", "nosniff");
    http.add_response_header(response, "Referrer-Policy", "no-referrer");
    http.add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    http.add_response_header(response, "Content-Security-Policy", policy);
    if (status == 401)
        http.add_response_header(response, "WWW-Authenticate", "Bearer");
    if (status == 405)
        http.add_response_header(response, "Allow", "GET, HEAD");
}

/* On the server's one thread. */
static int answer(void *user, struct MHD_Connection *connection, const char *url,
                  const char *method, const char *version, const char *upload, size_t *upload_bytes,
                  void **of_request)
{
    static struct output out;
    const char *why;
    (void)user;
    (void)version;
    (void)upload;
    /* First come the headers alone. What a request brings along then is read and dropped. */
    if (!*of_request || *upload_bytes > 0) {
        *of_request = &rules;
        *upload_bytes = 0;
        return MICROHTTPD_YES;
    }
    const struct serve_request request = {
        .method = method,
        .path = url,
        .host = http.lookup_connection_value(connection, MICROHTTPD_HEADER_KIND, "Host"),
        .token = http.lookup_connection_value(connection, MICROHTTPD_GET_ARGUMENT_KIND, "token"),
        .authorization =
            http.lookup_connection_value(connection, MICROHTTPD_HEADER_KIND, "Authorization"),
    };
    unsigned status = serve_check(&rules, &request, &why);
    int file = memfd_create("muster-serve", MFD_CLOEXEC);
    if (file < 0)
        return MICROHTTPD_NO;
    output_init(&out, file);
    if (status == 200)
        status = print_answer(url, &out);
    else
        output_text(&out, why);
    output_flush(&out);
    struct stat facts;
    struct MHD_Response *response = NULL;
    if (!output_failed(&out) && fstat(file, &facts) == 0)
        response = http.create_response_from_fd((size_t)facts.st_size, file); /* which owns it */
    if (!response) {
        close(file);
        return MICROHTTPD_NO;
    }
    add_headers(response, url, status);
    int is_queued = http.queue_response(connection, status, response);
    http.destroy_response(response);
    return is_queued;
}

/* The token. */

static bool make_random(char *text, size_t characters)
{
    unsigned char bytes[64];
    size_t count = characters / 2;
    if (count > sizeof bytes || getrandom(bytes, count, 0) != (ssize_t)count) {
        message_error("no random numbers for a token: %s", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < count; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static bool write_token(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    size_t length = strlen(rules.token);
    bool is_written = file >= 0 && write(file, rules.token, length) == (ssize_t)length &&
                      write(file, "\n", 1) == 1;
    is_written = (file < 0 || close(file) == 0) && is_written;
    if (!is_written)
        message_error("cannot write %s: %s", path, strerror(errno));
    return is_written;
}

/* The first line of a file that belongs to the user alone. */
static bool read_token(int file, const char *path)
{
    struct stat facts;
    char text[SERVE_TOKEN_BYTES + 2];
    ssize_t bytes = -1;
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != geteuid() ||
        (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        message_error("others may read or change the token in %s", path);
        message_detail("fix: chmod 600 %s, as its owner", path);
        return false;
    }
    bytes = read(file, text, sizeof text - 1);
    text[bytes > 0 ? bytes : 0] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    if (serve_token_is_good(text)) {
        snprintf(rules.token, sizeof rules.token, "%s", text);
        return true;
    }
    message_error("no token in %s", path);
    message_detail("fix: a line of 16 to %d letters, digits, '-' or '_'; or remove the file",
                   SERVE_TOKEN_BYTES - 1);
    return false;
}

static bool find_token(const char *path)
{
    if (!path)
        return make_random(rules.token, 32);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0 && errno == ENOENT)
        return make_random(rules.token, 32) && write_token(path);
    if (file < 0) {
        message_error("cannot read %s: %s", path, strerror(errno));
        return false;
    }
    bool is_read = read_token(file, path);
    close(file);
    return is_read;
}

/* The socket. */

static int open_socket(const struct addrinfo *address)
{
    int on = 1;
    int file = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, address->ai_protocol);
    if (file < 0)
        return -1;
    setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(file, address->ai_addr, address->ai_addrlen) == 0 && listen(file, 64) == 0)
        return file;
    int code = errno;
    close(file);
    errno = code;
    return -1;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 ==
               127;
    return address->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

/* Where it listens, "127.0.0.1:9464" or "[::1]:9464". */
static void name_socket(int file, char *out, size_t bytes, bool *is_local)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[NAME_BYTES] = "?", port[16] = "?";
    struct sockaddr *named = (struct sockaddr *)(void *)&address;
    memset(&address, 0, sizeof address);
    if (getsockname(file, named, &length) == 0)
        getnameinfo(named, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, bytes, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
    *is_local = is_loopback(named);
}

static enum exit_code listen_at(const char *where, int *file)
{
    char host[NAME_BYTES], port[16];
    struct addrinfo hints = { .ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE | AI_NUMERICSERV },
                    *found;
    if (!serve_split(where, host, sizeof host, port, sizeof port) || atoi(port) > 65535) {
        message_usage("serve", "'%s' is not an address; for example 127.0.0.1:9464", where);
        return EXIT_USAGE;
    }
    int code = getaddrinfo(host, port, &hints, &found);
    if (code != 0) {
        message_error("cannot listen at %s: %s", where, gai_strerror(code));
        return EXIT_USAGE;
    }
    *file = -1;
    for (const struct addrinfo *at = found; at && *file < 0; at = at->ai_next)
        *file = open_socket(at);
    code = errno;
    freeaddrinfo(found);
    if (*file >= 0)
        return EXIT_DONE;
    message_error("cannot listen at %s: %s", where, strerror(code));
    if (code == EADDRINUSE)
        message_detail("fix: --listen 127.0.0.1:0 takes a free port");
    return EXIT_FAILED;
}

static void print_address(const char *where, bool as_json, struct output *out)
{
    char address[NAME_BYTES + SERVE_TOKEN_BYTES + 32];
    snprintf(address, sizeof address, "http://%s/?token=%s", where, rules.token);
    if (as_json) {
        struct json json;
        json_init(&json, out);
        json_begin_object(&json, NULL);
        json_text(&json, "address", address);
        json_text(&json, "listen", where);
        json_text(&json, "token", rules.token);
        json_end_object(&json);
    } else {
        output_text(out, address);
    }
    output_text(out, "\n");
    output_flush(out);
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    (void)argument;
    int file;
    bool is_local;
    char where[NAME_BYTES + 16];
    if (!load_library() || !make_random(nonce, NONCE_BYTES) ||
        !find_token(values[TOKEN_FILE].given ? values[TOKEN_FILE].text : NULL))
        return EXIT_FAILED;
    rules.names = values[HOST].given ? values[HOST].text : NULL;
    enum exit_code code =
        listen_at(values[LISTEN].given ? values[LISTEN].text : LISTEN_DEFAULT, &file);
    if (code != EXIT_DONE)
        return code;
    name_socket(file, where, sizeof where, &is_local);
    if (!http.start_daemon(
            MICROHTTPD_USE_AUTO | MICROHTTPD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, answer,
            NULL, MICROHTTPD_OPTION_LISTEN_SOCKET, file, MICROHTTPD_OPTION_CONNECTION_LIMIT,
            CONNECTIONS_MAX, MICROHTTPD_OPTION_CONNECTION_TIMEOUT, QUIET_S,
            MICROHTTPD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, MICROHTTPD_OPTION_END)) {
        message_error("libmicrohttpd does not start: %s", strerror(errno));
        return EXIT_FAILED;
    }
    if (!is_local)
        message_error("other machines can reach %s: data and token are not encrypted", where);
    print_address(where, values[JSON].given, out);
    /* A signal ends it. */
    while (!output_failed(out))
        pause();
    return EXIT_FAILED;
}

const struct command command_serve = {
    .name = "serve",
    .summary = "serve `muster top` to browsers and Prometheus",
    .details =
        "Prints an address and serves there, until the command is ended, what 'muster top' shows:\n"
        "\n"
        "  /          a live page: devices over time, jobs, lanes, where the time goes\n"
        "  /metrics   for Prometheus, with the token as '?token=' or 'Authorization: Bearer'\n"
        "  /json      the output of 'muster top --json --once'\n"
        "\n"
        "Requests without the token are refused, since every user of the machine can reach "
        "loopback.\n"
        "So are requests whose Host header is not an address, localhost or a name of --host.\n"
        "Needs libmicrohttpd (package " MICROHTTPD_PACKAGE "), which is loaded at the start.\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
