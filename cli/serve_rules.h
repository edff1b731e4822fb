/*
 * Who may see what `muster serve` shows. Pure.
 *
 * Everybody on the machine reaches loopback, so each request needs the token. A page of another site, open in
 * the user's browser, reaches it too once its name is made to mean 127.0.0.1; then the Host header has that
 * name, and the request is refused.
 */
#ifndef CLI_SERVE_RULES_H
#define CLI_SERVE_RULES_H

#include <stdbool.h>
#include <stddef.h>

#define SERVE_TOKEN_BYTES 129 /* with the zero byte */

struct serve_rules {
    char token[SERVE_TOKEN_BYTES];
    const char
        *names; /* that Host may have beside addresses and localhost, comma separated; or NULL */
};

/* What was asked for; a text is NULL where the request has none. */
struct serve_request {
    const char *method, *path, *host, *token, *authorization;
};

/* 200, or the status to refuse it with; `why` says it for people. */
unsigned serve_check(const struct serve_rules *rules, const struct serve_request *request,
                     const char **why);

/* Splits "HOST:PORT", "[::1]:PORT" and "PORT"; false if it is none of them. */
bool serve_split(const char *listen, char *host, size_t host_bytes, char *port, size_t port_bytes);

/* Whether a token is fit for an address: 16 characters or more, letters, digits, '-' and '_'. */
bool serve_token_is_good(const char *token);

#endif
