/*
 * muster-helper: a process that owns the driver of one isolated device. The library starts it; people do not.
 */
#include <muster/muster.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int status = muster_helper_main(argc, argv);
    if (status >= 0)
        return status;
    fprintf(stderr, "muster-helper is started by programs that use Muster with isolate; see "
                    "docs/isolation.md\n");
    return 2;
}
