/*
 * The page of `muster serve`, made of cli/page.html by the build.
 */
#ifndef CLI_SERVE_PAGE_H
#define CLI_SERVE_PAGE_H

/* Terminated; "@NONCE@" stands where the server puts its own. */
extern const char serve_page[];

#endif
