/*
 * What user code the calling thread is in: a task, a job's sink or stage, a kernel, a policy. A call
 * that would wait for its own caller looks here and refuses. Frames lie on the thread's stack and are
 * seen by that thread alone.
 */
#ifndef PLATFORM_FRAME_H
#define PLATFORM_FRAME_H

#include <stdbool.h>

enum platform_frame_kind { FRAME_TASK, FRAME_JOB, FRAME_KERNEL, FRAME_POLICY };

struct platform_frame {
    enum platform_frame_kind kind;
    const void *runtime; /* whose code it is; NULL: not known */
    const void *object;  /* of a job: the job; of a task: what its owner says */
    const struct platform_frame *outer;
};

/* From here to platform_frame_leave the thread is in that code. Leaves the innermost first. */
void platform_frame_enter(struct platform_frame *frame);
void platform_frame_leave(const struct platform_frame *frame);

/* The innermost; NULL if the thread is in none. */
const struct platform_frame *platform_frame_now(void);
/* Whether the thread is in one of that kind; `object` NULL: of any. */
bool platform_frame_is_in(enum platform_frame_kind kind, const void *object);

#endif
