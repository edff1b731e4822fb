/*
 * Callbacks that come late: some time after their event has completed, on a thread of the loader's
 * own. An event, its queue and its context must be there until then, so the process is stopped if
 * the program lets go of one, and if it calls the driver from within a callback.
 */
#ifndef DRIVER_OPENCL_LATE_H
#define DRIVER_OPENCL_LATE_H

#include "backend/opencl/driver.h"

/*
 * From the first on references are counted and callbacks are late; events that are there already are
 * not looked after. The driver is the real one, lent for good.
 */
void late_begin(const struct opencl_driver *driver);
void late_delay(bool delays);

/* Whether callbacks are to be given to late_callback. */
bool late_is_delaying(void);
void late_check_caller(void);
/* One more reference of the program's, and one less: the latter before the real one goes. */
void late_event_held(opencl_event event);
void late_event_released(opencl_event event);
void late_queue_released(opencl_queue queue);
void late_context_released(opencl_context context);
/* Without a function it stays due for ever. */
opencl_int late_callback(opencl_event event, void (*notify)(opencl_event, opencl_int, void *),
                         void *user);

#endif
