/*
 * What `muster serve` uses of libmicrohttpd, declared here so that neither building nor loading the command
 * needs it. tests/checks/microhttpd_declarations.c compares this with the library's own header where that is installed.
 */
#ifndef CLI_HTTP_LIBRARY_H
#define CLI_HTTP_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

#define MICROHTTPD_LIBRARY "libmicrohttpd.so.12"
#define MICROHTTPD_PACKAGE "libmicrohttpd12"

#define MICROHTTPD_USE_INTERNAL_POLLING_THREAD 8u
#define MICROHTTPD_USE_AUTO 65536u
#define MICROHTTPD_OPTION_END 0
#define MICROHTTPD_OPTION_CONNECTION_MEMORY_LIMIT 1
#define MICROHTTPD_OPTION_CONNECTION_LIMIT 2
#define MICROHTTPD_OPTION_CONNECTION_TIMEOUT 3
#define MICROHTTPD_OPTION_LISTEN_SOCKET 12
#define MICROHTTPD_HEADER_KIND 1
#define MICROHTTPD_GET_ARGUMENT_KIND 8
#define MICROHTTPD_NO 0
#define MICROHTTPD_YES 1

struct MHD_Daemon;
struct MHD_Connection;
struct MHD_Response;

typedef int (*microhttpd_handler)(void *user, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **of_request);

struct microhttpd {
    struct MHD_Daemon *(*start_daemon)(unsigned flags, uint16_t port, void *accept,
                                       void *accept_user, microhttpd_handler handler, void *user,
                                       ...);
    const char *(*lookup_connection_value)(struct MHD_Connection *connection, int kind,
                                           const char *key);
    struct MHD_Response *(*create_response_from_fd)(size_t bytes, int file);
    int (*add_response_header)(struct MHD_Response *response, const char *name, const char *value);
    int (*queue_response)(struct MHD_Connection *connection, unsigned status,
                          struct MHD_Response *response);
    void (*destroy_response)(struct MHD_Response *response);
};

#endif
