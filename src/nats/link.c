/*
 * libmuster-cluster.so: the table of cluster/transport.h on the C client of NATS. Nothing of Muster's
 * protocol is here.
 */
#include "link.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS_PER_S 1000
#define NS_PER_MS UINT64_C(1000000)
/* A link that is cut without a word is found after two pings. */
#define PING_MS 1000
#define PINGS_OUT 2
#define RECONNECT_MS 250
/* As long as a call waits, and a little more. */
#define DENIED_S (LINK_WAIT_MS / MS_PER_S + 1)
#define NONCES_MAX 16
#define PENDING_MESSAGES 65536
#define PENDING_BYTES (256 << 20)

struct transport_listen {
    natsSubscription *subscription;
};

static void put_text(char *out, size_t bytes, const char *text)
{
    snprintf(out, bytes, "%s", text ? text : "");
}

muster_status link_error(struct muster_error *err, muster_status status, int code, const char *fix,
                         const char *format, ...)
{
    if (!err)
        return status;
    memset(err, 0, sizeof *err);
    err->size = sizeof *err;
    err->status = status;
    err->driver_code = code;
    put_text(err->fix, sizeof err->fix, fix);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(err->text, sizeof err->text, format, arguments);
    va_end(arguments);
    return status;
}

/* The client's words, without the place in its source. */
static const char *last_words(natsStatus status)
{
    const char *words = nats_GetLastError(NULL);
    const char *end = words && *words == '(' ? strstr(words, "): ") : NULL;
    words = end ? end + 3 : words;
    return words && *words ? words : natsStatus_GetText(status);
}

/* A call that may not be made gets no answer; the reason comes by another way, while it waits. */
static bool was_denied(struct transport_link *link, char problem[LINK_PROBLEM_BYTES])
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&link->lock);
    memcpy(problem, link->problem, LINK_PROBLEM_BYTES);
    bool is = link->denied.tv_sec != 0 && now.tv_sec - link->denied.tv_sec <= DENIED_S;
    pthread_mutex_unlock(&link->lock);
    return is;
}

muster_status link_lacks(struct transport_link *link, const char *what, struct muster_error *err)
{
    return link_error(
        err, MUSTER_E_NOT_FOUND, 0, "let a submitter connect once: muster jobs --key FILE",
        "the servers at %s have no %s yet, and this key may not make it", link->url, what);
}

muster_status link_judge(struct transport_link *link, natsStatus status, jsErrCode code,
                         const char *what, struct muster_error *err)
{
    if (status == NATS_OK)
        return MUSTER_OK;
    if (status == NATS_NOT_FOUND || code == JSStreamNotFoundErr)
        return link_error(err, MUSTER_E_NOT_FOUND, (int)code, NULL, "%s: nothing is there", what);
    if (code == JSStreamWrongLastSequenceErr)
        return link_error(err, MUSTER_E_BUSY, (int)code, NULL, "%s: another was first", what);
    if (code == JSStreamStoreFailedErr || code == JSInsufficientResourcesErr ||
        code == JSStorageResourcesExceededErr)
        return link_error(err, MUSTER_E_CAPACITY, (int)code,
                          "give the server more storage (max_file_store), or end other jobs",
                          "%s: the servers at %s have no room left", what, link->url);
    /* Servers that choose a leader refuse in these words: the process that asks again is answered. */
    bool is_choosing = code == JSClusterNotAvailErr || code == JSClusterNotLeaderErr ||
                       code == JSClusterNoPeersErr || code == JSRaftGeneralErr ||
                       code == JSStreamOfflineErr;
    if (status == NATS_TIMEOUT || status == NATS_NO_RESPONDERS ||
        status == NATS_CONNECTION_DISCONNECTED || is_choosing) {
        char problem[LINK_PROBLEM_BYTES];
        if (was_denied(link, problem))
            return link_error(err, MUSTER_E_DENIED, (int)status,
                              "give the key of another role: docs/cluster.md, Who may do what",
                              "%s: this key may not do that: %s", link->url, problem);
        return link_error(err, MUSTER_E_TIMEOUT, (int)status, NULL, "%s: no answer from %s%s%s",
                          what, link->url, *problem ? "; the server said: " : "", problem);
    }
    return link_error(err, MUSTER_E_IO, code ? (int)code : (int)status, NULL, "%s: %s", what,
                      last_words(status));
}

/* On a thread of the client's. */
static void take_problem(natsConnection *connection, natsSubscription *subscription,
                         natsStatus status, void *user)
{
    struct transport_link *link = user;
    const char *words = NULL;
    (void)subscription;
    (void)natsConnection_GetLastError(connection, &words);
    pthread_mutex_lock(&link->lock);
    put_text(link->problem, sizeof link->problem,
             words && *words ? words : natsStatus_GetText(status));
    if (status == NATS_NOT_PERMITTED)
        clock_gettime(CLOCK_MONOTONIC, &link->denied);
    pthread_mutex_unlock(&link->lock);
}

static bool split_servers(char *text, const char **servers, int *count, int capacity)
{
    char *rest = NULL;
    *count = 0;
    for (char *at = strtok_r(text, ",", &rest); at; at = strtok_r(NULL, ",", &rest)) {
        if (*count == capacity)
            return false;
        servers[(*count)++] = at;
    }
    return *count > 0;
}

/*
 * On a thread of the client's, which frees the signature. Client 3.4.1 leaves out one that begins with a
 * zero byte, as one in 256 does: the server would refuse this user. Another try has another nonce.
 */
static natsStatus sign_nonce(char **text, unsigned char **signature, int *bytes, const char *nonce,
                             void *user)
{
    struct transport_link *link = user;
    unsigned char *made = malloc(TRANSPORT_SIGNATURE_BYTES);
    (void)text;
    bool is_made = made && link->sign(link->sign_user, nonce, made);
    atomic_store_explicit(&link->was_left_out, is_made && made[0] == 0, memory_order_relaxed);
    if (!is_made || made[0] == 0) {
        free(made);
        return NATS_ERR;
    }
    *signature = made;
    *bytes = TRANSPORT_SIGNATURE_BYTES;
    return NATS_OK;
}

static natsStatus set_security(natsOptions *options, const struct transport_options *asked,
                               struct transport_link *link)
{
    natsStatus status = NATS_OK;
    if (asked->credentials)
        status = natsOptions_SetUserCredentialsFromFiles(options, asked->credentials, NULL);
    if (status == NATS_OK && asked->sign)
        status = natsOptions_SetNKey(options, asked->nkey, sign_nonce, link);
    if (status == NATS_OK && (asked->ca || asked->certificate))
        status = natsOptions_SetSecure(options, true);
    if (status == NATS_OK && asked->ca)
        status = natsOptions_LoadCATrustedCertificates(options, asked->ca);
    if (status == NATS_OK && asked->certificate)
        status = natsOptions_LoadCertificatesChain(options, asked->certificate, asked->key);
    return status;
}

static natsStatus set_options(natsOptions *options, const struct transport_options *asked,
                              struct transport_link *link)
{
    const char *servers[16];
    char urls[sizeof link->url];
    int count = 0;
    memcpy(urls, link->url, sizeof urls);
    natsStatus status = split_servers(urls, servers, &count, 16) ? NATS_OK : NATS_INVALID_ARG;
    if (status == NATS_OK)
        status = natsOptions_SetServers(options, servers, count);
    if (status == NATS_OK)
        status = natsOptions_SetName(options, asked->name);
    if (status == NATS_OK)
        status = natsOptions_SetCustomInboxPrefix(options, asked->inbox);
    /* Without it each request waits for a thread that writes once a millisecond. */
    if (status == NATS_OK)
        status = natsOptions_SetSendAsap(options, true);
    if (status == NATS_OK)
        status = natsOptions_SetTimeout(options, LINK_WAIT_MS);
    if (status == NATS_OK)
        status = natsOptions_SetMaxReconnect(options, -1);
    if (status == NATS_OK)
        status = natsOptions_SetReconnectWait(options, RECONNECT_MS);
    if (status == NATS_OK)
        status = natsOptions_SetPingInterval(options, PING_MS);
    if (status == NATS_OK)
        status = natsOptions_SetMaxPingsOut(options, PINGS_OUT);
    if (status == NATS_OK)
        status = natsOptions_SetFailRequestsOnDisconnect(options, true);
    if (status == NATS_OK)
        status = natsOptions_SetErrorHandler(options, take_problem, link);
    return status == NATS_OK ? set_security(options, asked, link) : status;
}

/* Whether what is stored will be kept: a server without JetStream is found here, not later. */
static muster_status find_store(struct transport_link *link, struct muster_error *err)
{
    jsOptions options;
    jsAccountInfo *account = NULL;
    jsErrCode code = 0;
    natsStatus status = jsOptions_Init(&options);
    options.Wait = LINK_WAIT_MS;
    if (status == NATS_OK)
        status = natsConnection_JetStream(&link->js, link->connection, &options);
    if (status == NATS_OK)
        status = js_GetAccountInfo(&account, link->js, NULL, &code);
    jsAccountInfo_Destroy(account);
    if (status == NATS_NO_RESPONDERS || code == JSNotEnabledErr ||
        code == JSNotEnabledForAccountErr)
        return link_error(err, MUSTER_E_NOT_SUPPORTED, (int)status,
                          "start it with: nats-server --jetstream --store_dir DIRECTORY",
                          "the server at %s keeps nothing: it runs without JetStream", link->url);
    return link_judge(link, status, code, "looking for JetStream", err);
}

/* The address without its password. */
static void put_url(char *out, size_t bytes, const char *url)
{
    const char *at = strrchr(url, '@'), *slashes = strstr(url, "://");
    if (at && slashes && slashes < at)
        snprintf(out, bytes, "%.*s%s", (int)(slashes + 3 - url), url, at + 1);
    else
        put_text(out, bytes, url);
}

static muster_status bad_address(struct transport_link *link, natsStatus status,
                                 struct muster_error *err)
{
    return link_error(err, MUSTER_E_INVALID, (int)status,
                      "write it as nats://host:4222, several with commas",
                      "'%.100s' is no address of a cluster, or a key cannot be read: %s", link->url,
                      last_words(status));
}

static muster_status connect_link(struct transport_link *link,
                                  const struct transport_options *asked, struct muster_error *err)
{
    natsOptions *options = NULL;
    natsStatus status = natsOptions_Create(&options);
    if (status == NATS_OK)
        status = set_options(options, asked, link);
    put_url(link->url, sizeof link->url, asked->url);
    bool is_set = status == NATS_OK;
    if (is_set)
        status = natsConnection_Connect(&link->connection, options);
    for (int i = 0; is_set && status == NATS_ERR && i < NONCES_MAX &&
                    atomic_load_explicit(&link->was_left_out, memory_order_relaxed);
         i++)
        status = natsConnection_Connect(&link->connection, options);
    muster_status given = MUSTER_OK;
    if (!is_set || status == NATS_INVALID_ARG)
        given = bad_address(link, status, err);
    else if (status == NATS_CONNECTION_AUTH_FAILED)
        given = link_error(err, MUSTER_E_DENIED, (int)status,
                           "give the key of a user that the server knows: --key FILE",
                           "the server at %s does not let this user in: %s", link->url,
                           last_words(status));
    else if (status == NATS_SSL_ERROR || status == NATS_SECURE_CONNECTION_WANTED ||
             status == NATS_SECURE_CONNECTION_REQUIRED)
        given =
            link_error(err, MUSTER_E_IO, (int)status,
                       "--ca FILE has its authority's certificates, and the address is one that "
                       "its own certificate names",
                       "no TLS with the server at %s: %s", link->url, last_words(status));
    else if (status != NATS_OK)
        given = link_error(
            err, MUSTER_E_NOT_FOUND, (int)status,
            "start one: muster cluster up, or nats-server --jetstream (package nats-server)",
            "no nats-server answers at %s: %s", link->url, last_words(status));
    natsOptions_Destroy(options);
    return given;
}

static void close_link(struct transport_link *link)
{
    if (!link)
        return;
    for (size_t i = 0; i < link->store_count; i++)
        kvStore_Destroy(link->stores[i]);
    jsCtx_Destroy(link->js);
    if (link->connection) {
        natsConnection_Close(link->connection);
        natsConnection_Destroy(link->connection);
    }
    pthread_mutex_destroy(&link->lock);
    free(link);
}

static muster_status open_link(const struct transport_options *asked, struct transport_link **out,
                               struct muster_error *err)
{
    struct transport_link *link = calloc(1, sizeof *link);
    if (!link)
        return link_error(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a link");
    pthread_mutex_init(&link->lock, NULL);
    link->replicas = asked->replicas > 0 ? asked->replicas : 1;
    link->sign = asked->sign;
    link->sign_user = asked->sign_user;
    put_text(link->inbox, sizeof link->inbox, asked->inbox);
    muster_status status = MUSTER_OK;
    if (strlen(asked->url) >= sizeof link->url)
        status =
            link_error(err, MUSTER_E_INVALID, 0, NULL,
                       "the cluster's address is longer than %zu characters", sizeof link->url - 1);
    else
        memcpy(link->url, asked->url, strlen(asked->url) + 1);
    if (status == MUSTER_OK)
        status = connect_link(link, asked, err);
    if (status == MUSTER_OK)
        status = find_store(link, err);
    if (status == MUSTER_OK)
        *out = link;
    else
        close_link(link);
    return status;
}

static bool is_up(struct transport_link *link)
{
    return natsConnection_Status(link->connection) == NATS_CONN_STATUS_CONNECTED;
}

static void last_problem(struct transport_link *link, char *text, size_t bytes)
{
    pthread_mutex_lock(&link->lock);
    put_text(text, bytes, link->problem);
    pthread_mutex_unlock(&link->lock);
}

static size_t payload_max(struct transport_link *link)
{
    int64_t bytes = natsConnection_GetMaxPayload(link->connection);
    return bytes > 0 ? (size_t)bytes : (size_t)1 << 20;
}

/* Messages. */

void link_wrap(natsMsg *message, struct transport_message *out)
{
    *out = (struct transport_message){ .bytes = natsMsg_GetData(message),
                                       .size = (size_t)natsMsg_GetDataLength(message),
                                       .subject = natsMsg_GetSubject(message),
                                       .reply = natsMsg_GetReply(message),
                                       .owner = message };
}

static void release(struct transport_message *message)
{
    natsMsg_Destroy(message->owner);
    message->owner = NULL;
}

static muster_status send_message(struct transport_link *link, const char *subject,
                                  const char *reply, const void *bytes, size_t size,
                                  struct muster_error *err)
{
    natsStatus status =
        reply ? natsConnection_PublishRequest(link->connection, subject, reply, bytes, (int)size)
              : natsConnection_Publish(link->connection, subject, bytes, (int)size);
    return link_judge(link, status, 0, subject, err);
}

static muster_status ask(struct transport_link *link, const char *subject, const void *bytes,
                         size_t size, uint64_t timeout_ns, struct transport_message *out,
                         struct muster_error *err)
{
    natsMsg *message = NULL;
    natsStatus status = natsConnection_Request(&message, link->connection, subject, bytes,
                                               (int)size, (int64_t)(timeout_ns / NS_PER_MS));
    if (status == NATS_NO_RESPONDERS)
        return link_error(err, MUSTER_E_NOT_FOUND, 0, NULL, "nobody answers at %s", subject);
    if (status == NATS_OK)
        link_wrap(message, out);
    return link_judge(link, status, 0, subject, err);
}

static muster_status listen_to(struct transport_link *link, const char *subject,
                               struct transport_listen **out, struct muster_error *err)
{
    struct transport_listen *listen = calloc(1, sizeof *listen);
    if (!listen)
        return link_error(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory to listen");
    natsStatus status =
        natsConnection_SubscribeSync(&listen->subscription, link->connection, subject);
    if (status == NATS_OK)
        status = natsSubscription_SetPendingLimits(listen->subscription, PENDING_MESSAGES,
                                                   PENDING_BYTES);
    /* The server knows of it before anything that follows can be answered. */
    if (status == NATS_OK)
        status = natsConnection_FlushTimeout(link->connection, LINK_WAIT_MS);
    if (status == NATS_OK) {
        *out = listen;
        return MUSTER_OK;
    }
    natsSubscription_Destroy(listen->subscription);
    free(listen);
    return link_judge(link, status, 0, subject, err);
}

static muster_status next(struct transport_listen *listen, uint64_t timeout_ns,
                          struct transport_message *out)
{
    natsMsg *message = NULL;
    natsStatus status =
        natsSubscription_NextMsg(&message, listen->subscription, (int64_t)(timeout_ns / NS_PER_MS));
    if (status == NATS_TIMEOUT || status == NATS_NO_RESPONDERS)
        return MUSTER_E_TIMEOUT;
    if (status != NATS_OK)
        return MUSTER_E_IO;
    link_wrap(message, out);
    return MUSTER_OK;
}

static void unlisten(struct transport_listen *listen)
{
    if (!listen)
        return;
    natsSubscription_Unsubscribe(listen->subscription);
    natsSubscription_Destroy(listen->subscription);
    free(listen);
}

static void inbox(struct transport_link *link, char subject[TRANSPORT_SUBJECT_BYTES])
{
    snprintf(subject, TRANSPORT_SUBJECT_BYTES, "%s.x%llu", link->inbox,
             (unsigned long long)atomic_fetch_add(&link->inboxes, 1));
}

static struct transport table = {
    .size = sizeof table,
    .abi = TRANSPORT_ABI,
    .open = open_link,
    .close = close_link,
    .is_up = is_up,
    .last_problem = last_problem,
    .payload_max = payload_max,
    .release = release,
    .bucket = store_bucket,
    .get = store_get,
    .put = store_put,
    .create = store_create,
    .remove = store_remove,
    .keys = store_keys,
    .stream = store_stream,
    .stream_remove = store_stream_remove,
    .store = store_store,
    .fetch = store_fetch,
    .purge = store_purge,
    .send = send_message,
    .ask = ask,
    .listen = listen_to,
    .next = next,
    .unlisten = unlisten,
    .inbox = inbox,
};

__attribute__((visibility("default"))) const struct transport *
muster_cluster_transport(uint32_t abi);

const struct transport *muster_cluster_transport(uint32_t abi)
{
    static char client[48];
    if (abi != TRANSPORT_ABI)
        return NULL;
    snprintf(client, sizeof client, "NATS client %s", nats_GetVersion());
    table.client = client;
    return &table;
}
