/*
 * Which user code the calling thread runs: a task, a job's sink or stage, a kernel, a policy. A
 * public call that would wait for its own caller finds that out here and refuses. Frames lie on the
 * thread's stack; only that thread sees them.
 */
#ifndef PLATFORM_FRAME_H
#define PLATFORM_FRAME_H

#include <stdbool.h>

enum platform_frame_kind { FRAME_TASK, FRAME_JOB, FRAME_KERNEL, FRAME_POLICY };

struct platform_frame {
    enum platform_frame_kind kind;
    const void *runtime; /* the runtime that called the user code; NULL: unknown */
    const void *object;  /* of a job: the job; of a task: chosen by run/task/task.c */
    const struct platform_frame *outer;
};

/* Call these before and after the user code. The frame entered last is left first. */
void platform_frame_enter(struct platform_frame *frame);
void platform_frame_leave(const struct platform_frame *frame);

/* The innermost frame; NULL if the thread runs no user code. */
const struct platform_frame *platform_frame_now(void);
/* Whether the thread is in a frame of that kind and object; `object` NULL: of any object. */
bool platform_frame_is_in(enum platform_frame_kind kind, const void *object);

#endif
