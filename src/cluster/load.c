#include "cluster/transport.h"

#include "platform/file.h"
#include "platform/installed.h"
#include "platform/library.h"
#include "platform/machine.h"
#include "platform/thread.h"

#include <muster/backend.h>
#include <muster/runtime.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libmuster-cluster.so"

static struct {
    struct platform_once once;
    const struct transport *transport;
    struct muster_error error;
} loaded = { .once = PLATFORM_ONCE_INIT };

/* MUSTER_CLUSTER_LIBRARY; what is installed with the command or the library; what the loader finds. */
static const char *find_library(char path[PLATFORM_PATH_BYTES])
{
    const char *named = platform_environment("MUSTER_CLUSTER_LIBRARY");
    if (named && *named)
        return named;
    return platform_installed_find(LIBRARY, false, path, PLATFORM_PATH_BYTES) ? path : LIBRARY;
}

static void load(void)
{
    char path[PLATFORM_PATH_BYTES];
    struct platform_library library = { NULL };
    struct muster_error why;
    const char *name = find_library(path);
    if (platform_library_open(&library, name, &why) != MUSTER_OK) {
        muster_error_fill(&loaded.error, MUSTER_E_NOT_FOUND, 0,
                          "install muster-cluster (Debian), or libnats3.4 or later (to build: "
                          "libnats-dev), or set MUSTER_CLUSTER_LIBRARY",
                          "many machines need libmuster-cluster.so: %.160s", why.text);
        return;
    }
    void *symbol = platform_library_symbol(&library, TRANSPORT_SYMBOL);
    transport_find find = NULL;
    /* A pointer to a function is as large as one to data wherever there is dlsym. */
    memcpy(&find, &symbol, sizeof find);
    const struct transport *transport = find ? find(TRANSPORT_ABI) : NULL;
    if (transport && transport->size == sizeof *transport) {
        loaded.transport = transport; /* stays loaded: its client has threads of its own */
        return;
    }
    platform_library_close(&library);
    muster_error_fill(&loaded.error, MUSTER_E_VERSION, 0, "install both of one version",
                      "%.120s is not of this version of Muster (%s)", name, MUSTER_VERSION_STRING);
}

muster_status transport_load(const struct transport **out, struct muster_error *err)
{
    platform_once_run(&loaded.once, load);
    if (!loaded.transport) {
        if (err)
            *err = loaded.error;
        return loaded.error.status;
    }
    *out = loaded.transport;
    return MUSTER_OK;
}
