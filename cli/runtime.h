/*
 * The end of the command's runtime.
 */
#ifndef CLI_RUNTIME_H
#define CLI_RUNTIME_H

#include <muster/muster.h>
#include <stdbool.h>

/*
 * Closes the runtime and tells of what went wrong. While a driver is being opened of which nobody wants
 * anything any more, the runtime is left as it is: the command ends without waiting for the driver.
 */
void runtime_close(struct muster *m);
/* Whether one was left: the process must end without the clean-up of libraries, which the driver is in. */
bool runtime_is_left(void);

#endif
