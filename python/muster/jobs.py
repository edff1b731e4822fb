"""Jobs: a kernel over all items on all devices. for_, map and reduce are jobs from start to end."""
from __future__ import annotations

import ctypes
import struct
import weakref
from collections import namedtuple
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence, TypedDict, Union

from . import _c, functions
from ._library import lib
from .arguments import Bound
from .arrays import np
from .errors import Status, invalid, make, of
from .kernels import Kernel, Path
from .plans import bind_call
from .reports import Report

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .runtime import Runtime

# Python notices Ctrl-C between two calls: no call of the library takes longer than the first, and an interrupted job is
# waited for as long as the second.
TICK_NS = 10_000_000
FAREWELL_NS = 10_000_000
DEVICES = 8  # for this many a report has room at first
# Plain numbers, which are compared faster.
TIMEOUT, ORDER, NEVER = int(Status.TIMEOUT), int(Status.ORDER), _c.NEVER_NS
_byref = ctypes.byref

KernelLike = Union[Kernel, Path, Sequence[Path], Callable[..., Any]]


class RunOptions(TypedDict, total=False):
    """How to run a job; what is left out is the default (muster/job.h)."""
    devices: str  # ids or backends, comma separated
    policy: str  # "claim", "round-robin", ...
    unit_items: int
    unit_multiple: int
    multiple_is_for_speed: bool
    window: int  # most items that are claimed and not delivered
    window_bytes: int
    depth: int
    tries: int
    unit_timeout: float  # seconds after which a unit's device counts as hung
    unordered: bool
    no_copies: bool  # no unit is run twice to get ahead of a straggler
    affinity: int
    everyone: bool  # no device is left out because it costs more than it brings


def options_of(given: RunOptions) -> Optional[Any]:
    """In the library's form; None: the default everywhere."""
    if not given:
        return None
    made = _c.muster_run_options()
    for name, value in given.items():
        if name == "unit_timeout":
            made.timeout_ns = int(value * 1e9)  # type: ignore[operator]
        elif name in ("devices", "policy"):
            setattr(made, name, value.encode() if value is not None else None)  # type: ignore[attr-defined]
        elif name in RunOptions.__annotations__:
            if int(value) < 0:  # type: ignore[call-overload]
                raise invalid(f"option {name}: {value} is negative")
            setattr(made, name, int(value))  # type: ignore[call-overload]
        else:
            raise invalid(f"unknown option '{name}'; known: {', '.join(RunOptions.__annotations__)}")
    return made


class Running:
    """A job of the library's, and all that must stay as long as it runs. It is given back with the last reference to this object, so no
    thread can be in a call with it then."""

    __slots__ = ("runtime", "kernel", "handle", "bound", "keep", "thrown", "stop", "is_over", "__weakref__")

    def __init__(self, runtime: Runtime, kernel: Kernel, bound: Bound, desc: Any, keep: Any,
                 thrown: Optional[List[BaseException]] = None, stop: Optional[Callable[[], None]] = None) -> None:
        self.runtime, self.kernel, self.bound, self.keep = runtime, kernel, bound, keep
        self.thrown = thrown  # by callbacks
        self.stop = stop  # lets waiting callbacks return
        self.is_over = False
        self.handle = handle = ctypes.c_void_p()
        if runtime.abandoned or runtime.finished:
            runtime.sweep()
        err = _c.muster_error()
        desc.kernel, desc.items, desc.args, desc.arg_count = kernel.handle, bound.items, bound.args, len(bound.args)
        if lib.muster_start(runtime.handle, _byref(desc), _byref(handle), _byref(err)):
            bound.close()
            raise of(err)
        runtime.jobs[id(self)] = weakref.ref(self)

    def wait(self, timeout_ns: int, report: Any = None, err: Any = None) -> int:
        """How it ended, or TIMEOUT. Once it is over nothing uses the arrays any more, but for what hangs."""
        if not self.handle:
            raise make(Status.STALE, "the runtime of the job is closed")
        status: int = lib.muster_job_wait_for(self.handle, timeout_ns, report, err)
        if not self.is_over and status != TIMEOUT and status != ORDER:
            self.is_over = True
            if status == Status.DEVICE_HUNG:
                self.runtime.hung.append((self.kernel, self.bound.keep, self.keep))
            if self.bound.release:
                self.bound.close()
        return status

    def end(self, timeout: Optional[float] = None, has_report: bool = True) -> Optional[Report]:
        """Waits for the end, at most this many seconds, and raises how it failed. What else is raised meanwhile, by Ctrl-C for one,
        abandons it."""
        report = devices = place = None
        if has_report:
            report, devices = _report.from_buffer_copy(_new_report), new_devices(DEVICES)
            report.devices, report.device_capacity = devices, DEVICES
            place = _byref(report)
        err = _c.muster_error()
        left = NEVER if timeout is None else max(0, int(timeout * 1e9))
        try:
            while True:
                status = self.wait(min(left, TICK_NS), place, _byref(err))
                if status != TIMEOUT:
                    break
                left -= TICK_NS if left != NEVER else 0
                if left <= 0:
                    raise of(err)
        except TimeoutError:
            raise
        except BaseException:
            self.abandon()
            raise
        if status:
            raise self.thrown[0] if self.thrown else of(err)
        if report is None:
            return None
        if report.device_count > DEVICES:
            devices = new_devices(report.device_count)
            lib.muster_job_devices(self.handle, devices, len(devices), _byref(ctypes.c_size_t()), None)
        return Report(report, devices, self.kernel.name)

    def cancel(self) -> None:
        if self.handle:
            if self.stop is not None:
                self.stop()
            lib.muster_job_cancel(self.handle)

    def abandon(self) -> None:
        """Cancels it and waits shortly. If it still runs then, the runtime keeps it, and with it the arrays, until it is over."""
        if not self.is_over and self.handle:
            self.cancel()
            if self.wait(FAREWELL_NS) in (TIMEOUT, ORDER):
                self.runtime.abandoned.append(self)

    def close(self) -> None:
        handle, self.handle = self.handle, ctypes.c_void_p()
        if handle and self.runtime.is_open:
            lib.muster_job_destroy(handle)
        self.runtime.jobs.pop(id(self), None)

    __del__ = close


class Job:
    """A job that runs beside the program: Runtime.start makes it. Arrays stay in use until it is over. It is cancelled with
    the last reference to this object, and at the end of a with block."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._report: Optional[Report] = None

    def wait(self, timeout: Optional[float] = None) -> Report:
        """Waits for the end, at most `timeout` seconds, and raises how it failed: an exception of a callback, or an Error.
        Ctrl-C, or any other exception of a signal's handler, cancels the job."""
        if self._report is None:
            self._report = self._running.end(timeout)
        assert self._report is not None
        return self._report

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not; wait then returns or raises at once."""
        return self._running.is_over or self._running.wait(0) not in (TIMEOUT, ORDER)

    def cancel(self) -> None:
        """No more units are started; wait then raises an Error with status CANCELLED, unless all was done."""
        self._running.cancel()

    def progress(self) -> Progress:
        """How far it is."""
        made = self._progress()
        remaining = None if made.remaining_ns == _c.NEVER_NS else made.remaining_ns / 1e9
        return Progress(None if made.items == _c.ITEMS_UNKNOWN else made.items, made.delivered, made.elapsed_ns / 1e9,
                        remaining, made.items_per_s, bool(made.is_over))

    @property
    def is_ending(self) -> bool:
        """Whether it has failed, was cancelled or is over. It may still wait for callbacks to return."""
        made = self._progress()
        return bool(made.is_over or made.waits_for)

    def _progress(self) -> Any:
        made, err = _c.muster_progress(), _c.muster_error()
        if not self._running.handle:
            raise make(Status.STALE, "the runtime of the job is closed")
        if lib.muster_job_progress(self._running.handle, ctypes.byref(made), ctypes.byref(err)):
            raise of(err)
        return made

    def abandon(self) -> None:
        """Cancels it if it runs, and does not wait for what devices still do; the arrays stay until they have done it."""
        self._running.abandon()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.abandon()

    def __del__(self) -> None:
        running = self._running
        if not running.is_over and running.runtime.is_open:
            running.abandon()


class Progress(namedtuple("Progress", "items delivered elapsed_s remaining_s items_per_s is_over")):
    """How far a job is. `items` None: not known yet; `remaining_s` None: unknown."""


def new_devices(count: int) -> Any:
    """Room for this many, each with its size."""
    if count == DEVICES:
        return _devices.from_buffer_copy(_template)
    made = (_c.muster_job_device * count)()
    for one in made:
        one.size = ctypes.sizeof(one)
    return made


# What every wait needs, ready to be copied.
_report, _devices, _desc = _c.muster_report, _c.muster_job_device * DEVICES, _c.muster_job_desc
_new_report, _template, _new_desc = bytes(_c.muster_report()), bytes(_c.muster_job_device()) * DEVICES, bytes(_c.muster_job_desc())


def begin(runtime: Runtime, kernel: KernelLike, given: Sequence[Any], items: Optional[int], options: RunOptions,
          is_map: bool = False, targets: Any = None, each_status: Any = None) -> Running:
    """Starts a job with the arguments of a call."""
    found: Kernel
    thrown = None
    if callable(kernel) and not isinstance(kernel, Kernel):
        found, bound, thrown = functions.bind(runtime, kernel, given, items, is_map, targets)
        # What a function of Python's raises it would raise again.
        options.setdefault("tries", 1)
    else:
        found = runtime.kernels.find(kernel)
        bound = bind_call(runtime, found, given, items, is_map, targets)
    desc = _desc.from_buffer_copy(_new_desc)
    how = None
    if options or each_status is not None:
        try:
            how = options_of(options)
            desc.options = ctypes.pointer(how) if how is not None else None
            desc.each_status = statuses_of(bound, each_status) if each_status is not None else None
        except BaseException:
            bound.close()
            raise
    return Running(runtime, found, bound, desc, how, thrown)


def statuses_of(bound: Bound, array: Any) -> int:
    from .arrays import view
    seen = view(array)
    if seen.element != _c.MUSTER_ELEMENT_INT32 or seen.is_readonly or seen.nbytes != 4 * bound.items:
        raise invalid(f"each_status takes a writable array of {bound.items} numbers of 32 bits")
    bound.keep.append(seen.owner)
    return seen.address


def run(runtime: Runtime, kernel: KernelLike, given: Sequence[Any], items: Optional[int], options: RunOptions,
        each_status: Any, timeline: bool) -> Report:
    """A job, start to end."""
    if timeline:
        with runtime.trace() as trace:
            report = run(runtime, kernel, given, items, options, each_status, False)
        report.trace = trace
        return report
    made = begin(runtime, kernel, given, items, options, each_status=each_status).end()
    assert made is not None
    return made


def run_map(runtime: Runtime, kernel: KernelLike, given: Sequence[Any], items: Optional[int], options: RunOptions,
            targets: Any) -> Any:
    running = begin(runtime, kernel, given, items, options, True, targets)
    running.end(None, False)
    results = running.bound.results
    return results[0] if len(results) == 1 else tuple(results)


def reduce(runtime: Runtime, kernel: Union[Kernel, Path], given: Sequence[Any], items: Optional[int],
           options: RunOptions) -> Any:
    found = runtime.kernels.find(kernel)
    size, fields = found.partial()
    bound = bind_call(runtime, found, given, items, False, None)
    result = ctypes.create_string_buffer(size)
    desc = _c.muster_job_desc(result=ctypes.addressof(result), result_bytes=size)
    how = options_of(options)
    if how is not None:
        desc.options = ctypes.pointer(how)
    Running(runtime, found, bound, desc, (result, how)).end(None, False)
    values = []
    for field in fields:
        if not field.is_array:
            values.append(struct.unpack_from(field.code, result, field.offset)[0])
        elif np is not None:
            values.append(np.frombuffer(result, field.code, field.length, field.offset).copy())
        else:
            values.append(list(struct.unpack_from(f"{field.length}{field.code}", result, field.offset)))
    if len(fields) == 1 and not fields[0].name:
        return values[0]
    return namedtuple(found.name.split(".")[0].title(), [field.name for field in fields])(*values)
