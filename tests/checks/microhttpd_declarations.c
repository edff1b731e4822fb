/*
 * Our declarations of libmicrohttpd, beside its own.
 */
#include "http_library.h"

#include "harness.h"

#include <microhttpd.h>

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
SAME(MICROHTTPD_USE_INTERNAL_POLLING_THREAD, MHD_USE_INTERNAL_POLLING_THREAD);
SAME(MICROHTTPD_USE_AUTO, MHD_USE_AUTO);
SAME(MICROHTTPD_OPTION_END, MHD_OPTION_END);
SAME(MICROHTTPD_OPTION_CONNECTION_MEMORY_LIMIT, MHD_OPTION_CONNECTION_MEMORY_LIMIT);
SAME(MICROHTTPD_OPTION_CONNECTION_LIMIT, MHD_OPTION_CONNECTION_LIMIT);
SAME(MICROHTTPD_OPTION_CONNECTION_TIMEOUT, MHD_OPTION_CONNECTION_TIMEOUT);
SAME(MICROHTTPD_OPTION_LISTEN_SOCKET, MHD_OPTION_LISTEN_SOCKET);
SAME(MICROHTTPD_HEADER_KIND, MHD_HEADER_KIND);
SAME(MICROHTTPD_GET_ARGUMENT_KIND, MHD_GET_ARGUMENT_KIND);
SAME(MICROHTTPD_NO, MHD_NO);
SAME(MICROHTTPD_YES, MHD_YES);
SAME(sizeof(enum MHD_Result), sizeof(int));
SAME(sizeof(enum MHD_ValueKind), sizeof(int));
SAME(sizeof(enum MHD_OPTION), sizeof(int));

/* Theirs are taken where ours are expected, but for enumerations, which are ints. */
static void the_functions_have_their_types(void)
{
    static struct MHD_Response *(*const create)(size_t, int) = MHD_create_response_from_fd;
    static void (*const destroy)(struct MHD_Response *) = MHD_destroy_response;
    static const struct microhttpd ours = { .create_response_from_fd = MHD_create_response_from_fd,
                                            .destroy_response = MHD_destroy_response };
    CHECK(ours.create_response_from_fd == create && ours.destroy_response == destroy);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(the_functions_have_their_types) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
