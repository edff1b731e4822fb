#include "serve_rules.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_BYTES 256

/* In a time that does not tell how much of it was right. */
static bool is_token(const struct serve_rules *rules, const char *given)
{
    size_t length = strlen(rules->token), count = strlen(given);
    unsigned char difference = count != length;
    for (size_t i = 0; i < count && i < SERVE_TOKEN_BYTES; i++)
        difference |= (unsigned char)(given[i] ^ rules->token[length > 0 ? i % length : 0]);
    return difference == 0 && length > 0;
}

static bool is_address(const char *name)
{
    unsigned char place[16];
    return inet_pton(AF_INET, name, place) == 1 || inet_pton(AF_INET6, name, place) == 1;
}

static bool is_digits(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == '\0' && strlen(text) <= 5;
}

static bool is_listed(const char *names, const char *name)
{
    for (const char *at = names; at && *at;) {
        size_t length = strcspn(at, ",");
        if (length == strlen(name) && strncasecmp(at, name, length) == 0)
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

/* The header without its port; false if it is none. */
static bool read_host(const char *header, char name[NAME_BYTES])
{
    bool is_bracketed = header[0] == '[';
    size_t length = is_bracketed ? strcspn(header + 1, "]") : strcspn(header, ":");
    const char *rest = header + length + (is_bracketed ? 1 : 0);
    if (length == 0 || length >= NAME_BYTES || (is_bracketed && *rest++ != ']'))
        return false;
    if (*rest && (*rest != ':' || !is_digits(rest + 1)))
        return false;
    memcpy(name, header + (is_bracketed ? 1 : 0), length);
    name[length] = '\0';
    return true;
}

static bool is_host(const struct serve_rules *rules, const char *header)
{
    char name[NAME_BYTES];
    return header && read_host(header, name) &&
           (is_address(name) || strcasecmp(name, "localhost") == 0 ||
            is_listed(rules->names, name));
}

/* "Bearer TOKEN", as Prometheus sends it. */
static bool is_bearer(const struct serve_rules *rules, const char *header)
{
    static const char word[] = "Bearer ";
    return header && strncasecmp(header, word, strlen(word)) == 0 &&
           is_token(rules, header + strlen(word) + strspn(header + strlen(word), " "));
}

unsigned serve_check(const struct serve_rules *rules, const struct serve_request *request,
                     const char **why)
{
    *why = "";
    if (!is_host(rules, request->host)) {
        *why = "unknown name in the Host header; use the address that muster serve printed, or "
               "--host\n";
        return 421;
    }
    if (!(request->token && is_token(rules, request->token)) &&
        !is_bearer(rules, request->authorization)) {
        *why = "the token is missing or wrong; use the address that muster serve printed\n";
        return 401;
    }
    if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0) {
        *why = "only GET and HEAD\n";
        return 405;
    }
    if (strcmp(request->path, "/") == 0 || strcmp(request->path, "/json") == 0 ||
        strcmp(request->path, "/metrics") == 0)
        return 200;
    *why = "there are /, /json and /metrics\n";
    return 404;
}

bool serve_split(const char *listen, char *host, size_t host_bytes, char *port, size_t port_bytes)
{
    const char *colon = strrchr(listen, ':');
    const char *digits = colon ? colon + 1 : listen;
    size_t length = colon ? (size_t)(colon - listen) : 0;
    const char *from = listen;
    if (!is_digits(digits) || (colon && length == 0))
        return false;
    if (length > 0 && listen[0] == '[') {
        if (length < 3 || listen[length - 1] != ']')
            return false;
        from++;
        length -= 2;
    } else if (length > 0 && memchr(listen, ':', length)) {
        return false;
    }
    if (length == 0) {
        from = "127.0.0.1";
        length = strlen(from);
    }
    return (size_t)snprintf(host, host_bytes, "%.*s", (int)length, from) < host_bytes &&
           (size_t)snprintf(port, port_bytes, "%s", digits) < port_bytes;
}

bool serve_token_is_good(const char *token)
{
    size_t length = strlen(token);
    return length >= 16 && length < SERVE_TOKEN_BYTES &&
           strspn(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
               length;
}
