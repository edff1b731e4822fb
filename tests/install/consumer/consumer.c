/*
 * A foreign program: finds the installed library, and is not disturbed by what the
 * library calls its insides.
 */
#include <muster/backend.h>
#include <muster/muster.h>
#include <stdio.h>
#include <string.h>

/* Names that Muster uses inside. Linked with libmuster.a these must stay two different things. */
int random_init(void);
int random_init(void)
{
    return 7;
}
int handle_issue(void);
int handle_issue(void)
{
    return 8;
}

static int failed(const char *what, const struct muster_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, muster_status_name(err->status), err->text);
    return 1;
}

int main(void)
{
    struct muster_error err;
    struct muster *m;
    muster_device device;
    muster_stream stream;
    struct muster_device_info info = { .size = sizeof info };
    struct muster_options options = MUSTER_OPTIONS_INIT;

    if (strcmp(muster_version(), MUSTER_VERSION_STRING) != 0) {
        fprintf(stderr, "the library says %s, the header %s\n", muster_version(),
                MUSTER_VERSION_STRING);
        return 1;
    }
    options.devices = "cpu";
    if (muster_open(&m, &options, &err))
        return failed("muster_open", &err);
    if (muster_device_find(m, "cpu:0", &device, &err) ||
        muster_device_info(m, device, &info, &err) ||
        muster_stream_acquire(m, device, 0, &stream, &err) ||
        muster_stream_release(m, stream, &err)) {
        muster_close(m, NULL);
        return failed("cpu:0", &err);
    }
    printf("%s %s\n", info.id, info.name);
    if (muster_close(m, &err))
        return failed("muster_close", &err);
    return random_init() == 7 && handle_issue() == 8 ? 0 : 1;
}
