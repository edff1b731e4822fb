#include "platform/frame.h"

#include "base/invariant.h"

#include <stddef.h>

static _Thread_local const struct platform_frame *innermost;

void platform_frame_enter(struct platform_frame *frame)
{
    frame->outer = innermost;
    innermost = frame;
}

void platform_frame_leave(const struct platform_frame *frame)
{
    INVARIANT(innermost == frame);
    innermost = frame->outer;
}

const struct platform_frame *platform_frame_now(void)
{
    return innermost;
}

bool platform_frame_is_in(enum platform_frame_kind kind, const void *object)
{
    const struct platform_frame *frame = innermost;
    while (frame && (frame->kind != kind || (object && frame->object != object)))
        frame = frame->outer;
    return frame != NULL;
}
