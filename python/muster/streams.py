"""Frames through a kernel, lazily and in order.

The library asks for frames and hands out results on threads of its own. The source waits there with the place where the next
frame shall go; the caller's thread takes the frame from the iterable and copies it there. So the iterable is only ever
advanced by the caller, and a frame may be changed as soon as the next one is asked for.
"""
from __future__ import annotations

import ctypes
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from . import _c, arguments, tasks
from .accesses import Uses
from .arrays import new, view
from .errors import Status, invalid
from .jobs import Job, KernelLike, RunOptions, Running, options_of
from .kernels import Kernel, Parameter
from .memory import View, copy, count_of

if TYPE_CHECKING:
    from .runtime import Runtime

# How far ahead of the results frames are taken: as many as keep devices busy, unless they are large.
AHEAD_MAX, AHEAD_MIN, AHEAD_BYTES = 32, 4, 256 << 20
LOOK_S = 0.05

def stream(runtime: Runtime, kernel: KernelLike, frames: Iterable[Any], given: Sequence[Any], items: Optional[int],
           ahead: int, halo: int, border: str, like: Any, options: RunOptions) -> Iterator[Any]:
    if ahead < 0:
        raise invalid(f"{ahead} frames ahead")
    if callable(kernel) and not isinstance(kernel, Kernel):
        if options or items is not None or halo or like is not None:
            raise invalid("a stream through a function takes no options but ahead")
        return through_function(runtime, kernel, frames, given, ahead or AHEAD_MAX)
    found = runtime.kernels.find(kernel)
    if found.parameters is None:
        raise invalid(f"what {found.name} takes is unknown: none of its forms is portable source")
    return through_kernel(runtime, found, iter(frames), given, items, ahead, halo, arguments.border_of(border), like, options)


def through_function(runtime: Runtime, function: Callable[..., Any], frames: Iterable[Any], given: Sequence[Any],
                     ahead: int) -> Iterator[Any]:
    """Each frame is a task. What the function returns may be anything."""
    pending: Deque[tasks.Task] = deque()
    try:
        for frame in frames:
            pending.append(tasks.submit(runtime, function, (frame, *given), None, (), None, 0, Uses(runtime), None, 0))
            if len(pending) == ahead:
                yield pending.popleft().wait()
        while pending:
            yield pending.popleft().wait()
    finally:
        for task in pending:
            task.cancel()


class Result:
    """What one output of a frame looks like."""

    def __init__(self, parameter: Parameter, like: Any, items: int, frame: View) -> None:
        if like is None:
            if not parameter.code:
                raise invalid(f"what elements {parameter} has is unknown", "give like=, an array as a result shall be")
            self._code: Any = parameter.code
            self._shape = frame.shape if count_of(frame.shape) == items else (items,)
        else:
            self._code = like.dtype if hasattr(like, "dtype") else memoryview(like).format
            self._shape = view(like).shape
        seen = view(self.make())
        if seen.nbytes % items != 0:
            raise invalid(f"{parameter}: {seen.nbytes} bytes are not a whole number for each of {items} items")
        self.bytes, self.element = seen.nbytes // items, seen.element

    def make(self) -> Any:
        return new(self._code, self._shape)


class Feed:
    """What the library's threads and the caller's tell each other. All of it is used with the lock held."""

    def __init__(self, frame_items: int, results: List[Result]) -> None:
        self.frame_items, self.kinds = frame_items, results
        self.changed = threading.Condition()
        self.room: Optional[Tuple[int, int]] = None  # where the source waits for items, and for how many
        self.answer = 0  # how many it was given
        self.is_copying = False  # the caller is writing there, and the source must not leave
        self.results: Deque[Any] = deque()
        self.is_ended = False  # there will be no more frames
        self.thrown: List[BaseException] = []
        self._parts: List[Any] = []  # the result that is being put together
        self.source_pointer = _c.source_function(self._source)
        self.sink_pointer = _c.sink_function(self._sink)

    def _source(self, _: Any, _begin: int, items: int, to: int, _bytes: int) -> int:
        with self.changed:
            if self.is_ended:
                return 0
            self.room, self.answer = (to, items), 0
            self.changed.notify_all()
            while self.is_copying or (self.room is not None and not self.is_ended):
                self.changed.wait()
            self.room = None
            return self.answer

    def _sink(self, _: Any, result: Any) -> int:
        try:
            made = result.contents
            begin, end, outputs = made.range.begin, made.range.end, made.outputs
            at = begin
            while at < end:
                within = at % self.frame_items
                count = min(end - at, self.frame_items - within)
                if within == 0:
                    self._parts = [kind.make() for kind in self.kinds]
                for index, (kind, part) in enumerate(zip(self.kinds, self._parts)):
                    copy(view(part).address + within * kind.bytes, outputs[index] + (at - begin) * kind.bytes,
                         count * kind.bytes)
                at += count
                if within + count == self.frame_items:
                    whole = self._parts[0] if len(self._parts) == 1 else tuple(self._parts)
                    with self.changed:
                        self.results.append(whole)
                        self.changed.notify_all()
            return 0
        except BaseException as failure:  # pylint: disable=broad-except
            with self.changed:
                self.thrown.append(failure)
                self.changed.notify_all()
            return Status.FAILED

    def fill(self, source: int, item_bytes: int, items: int) -> int:
        """Copies at most this many items to where the source waits, and lets it go on. 0: it has left."""
        count = 0
        try:
            with self.changed:
                if self.room is None or self.is_ended:
                    return 0
                to, wanted = self.room
                self.is_copying = True
            copy(to, source, min(wanted, items) * item_bytes)
            count = min(wanted, items)
        finally:
            # Also when Ctrl-C comes just here: the source must be able to leave.
            with self.changed:
                if self.is_copying:
                    self.room, self.answer, self.is_copying = None, count, False
                    self.changed.notify_all()
        return count

    def end(self) -> None:
        with self.changed:
            self.is_ended = True
            self.changed.notify_all()


def through_kernel(runtime: Runtime, kernel: Kernel, frames: Iterator[Any], given: Sequence[Any], items: Optional[int],
                   ahead: int, halo: int, border: int, like: Any, options: RunOptions) -> Iterator[Any]:
    try:
        frame = next(frames)
    except StopIteration:
        return
    first = view(frame)
    feed, bound = prepare(runtime, kernel, first, given, items, halo, border, like)
    frame_items = feed.frame_items
    if ahead == 0:
        ahead = max(AHEAD_MIN, min(AHEAD_MAX, AHEAD_BYTES // max(1, first.nbytes)))
    # With neighbours a frame waits for those after it.
    ahead = max(ahead, 1 + -(-halo // frame_items))
    how: Any = options_of(options) or _c.muster_run_options()
    how.unit_items = how.unit_items or frame_items
    how.unit_multiple = how.unit_multiple or frame_items
    how.window = how.window or (ahead + 1) * frame_items
    desc = _c.muster_job_desc(source=feed.source_pointer, sink=feed.sink_pointer, options=ctypes.pointer(how))
    job = Job(Running(runtime, kernel, bound, desc, (feed, how), feed.thrown, feed.end))
    item_bytes = first.nbytes // frame_items
    failure: Optional[BaseException] = None
    taken, offset, received = 0, 0, 0  # frames; items of the frame in hand that the source has; results
    seen: Optional[View] = first
    try:
        while True:
            result: Any = None
            is_wanted = False
            with feed.changed:
                is_full = taken - received >= ahead
                if feed.results and (feed.room is None or feed.is_ended or is_full or taken - received > ahead // 2):
                    result = feed.results.popleft()
                elif feed.room is not None and not feed.is_ended and not is_full:
                    is_wanted = True
                elif feed.thrown or (feed.is_ended and received == taken):
                    break
                elif not feed.changed.wait(LOOK_S) and not feed.results and job.is_ending:
                    break
            if result is not None:
                received += 1
                yield result
            elif is_wanted:
                if seen is None:
                    try:
                        seen = view(next(frames))
                        if (seen.nbytes, seen.element, seen.device) != (first.nbytes, first.element, None):
                            raise invalid(f"frame {taken} has shape {seen.shape} and {seen.nbytes} bytes, the first one "
                                          f"{first.shape} and {first.nbytes}, or its elements are others")
                    except BaseException as thrown:  # pylint: disable=broad-except
                        # Results that are under way come first.
                        failure = None if isinstance(thrown, StopIteration) else thrown
                        feed.end()
                        if isinstance(thrown, (KeyboardInterrupt, SystemExit)):
                            raise
                        continue
                offset += feed.fill(seen.address + offset * item_bytes, item_bytes, frame_items - offset)
                if offset == frame_items:
                    seen, offset, taken = None, 0, taken + 1
        feed.end()
        job.wait()
        if failure is not None:
            raise failure
    finally:
        feed.end()
        job.abandon()


def prepare(runtime: Runtime, kernel: Kernel, frame: View, given: Sequence[Any], items: Optional[int], halo: int,
            border: int, like: Any) -> Tuple[Feed, arguments.Bound]:
    """The arguments: the first array that is read is the frame, those that are written are results, others are given."""
    parameters = kernel.parameters
    assert parameters is not None
    if frame.device is not None:
        raise invalid("a stream takes frames in the host's memory")
    frame_items = items if items is not None else count_of(frame.shape)
    if frame_items <= 0 or frame.nbytes % frame_items != 0:
        raise invalid(f"a frame of {frame.nbytes} bytes and {frame_items} items")
    source = next((p for p in parameters if p.is_array and p.is_const), None)
    written = [p for p in parameters if p.is_array and not p.is_const]
    if source is None or not written:
        raise invalid(f"kernel {kernel.name} reads no array or writes none", "a stream needs both")
    templates = like if isinstance(like, (tuple, list)) else [like] * len(written)
    if len(templates) != len(written):
        raise invalid(f"kernel {kernel.name} has {len(written)} results, and {len(templates)} arrays were given as like")
    results = [Result(p, template, frame_items, frame) for p, template in zip(written, templates)]
    values = values_of(kernel, [p for p in parameters if p is not source and p not in written], given, frame)
    bound = arguments.Bound((_c.muster_arg * len(parameters))(), _c.ITEMS_UNKNOWN)
    left = iter(results)
    try:
        for arg, p in zip(bound.args, parameters):
            arg.size = ctypes.sizeof(arg)
            if p is source:
                arg.kind, arg.bytes, arg.element = _c.MUSTER_ARG_SOURCE, frame.nbytes // frame_items, frame.element
                arg.halo, arg.border = halo, border
            elif p in written:
                kind = next(left)
                arg.kind, arg.bytes, arg.element = _c.MUSTER_ARG_OUT, kind.bytes, kind.element
            else:
                arguments.set_other(runtime, bound, arg, p, values[p.name])
    except BaseException:
        bound.close()
        raise
    return Feed(frame_items, results), bound


def values_of(kernel: Kernel, others: List[Parameter], given: Sequence[Any], frame: View) -> Any:
    """The kernel's other arguments by name. A picture's size is known from its shape."""
    known = {}
    if len(frame.shape) >= 2:
        height, width = frame.shape[-2:]
        known = {"width": width, "height": height, "luma": width * height, "frame": count_of(frame.shape)}
    found: Dict[str, Any] = {p.name: known[p.name] for p in others if p.name in known and p.code and p.code not in "fd"}
    if len(frame.shape) >= 2:
        size = tuple(frame.shape[:-3:-1])
        found.update((p.name, arguments.Argument(_c.MUSTER_ARG_PICTURES, size=size)) for p in others if "muster_cell" in p.type)
    if len(given) == len(others):
        found = {}
    asked = [p for p in others if p.name not in found]
    if len(asked) != len(given):
        raise invalid(f"kernel {kernel.name} takes {len(asked)} arguments beside its frames and results "
                      f"({', '.join(map(str, asked))}), and {len(given)} were given")
    return {**found, **{p.name: value for p, value in zip(asked, given)}}
