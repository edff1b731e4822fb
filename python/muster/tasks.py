"""Tasks: functions and kernels, one after the other where asked for."""
from __future__ import annotations

import ctypes
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence

from . import _c
from ._library import lib
from .arguments import Bound
from .errors import Error, Status, invalid, make, of
from .jobs import TICK_NS, KernelLike
from .kernels import Kernel
from .plans import bind_call

if TYPE_CHECKING:
    from .devices import Hints
    from .runtime import Runtime

# Tasks that have not ended, by the number that the library hands back.
_tasks: Dict[int, "Task"] = {}
_numbers = itertools.count(1)
_here = threading.local()  # `depth`: how many tasks this thread is running


def _run(number: int) -> int:
    """Called by the library to run a function."""
    task = _tasks[number]
    _here.depth = getattr(_here, "depth", 0) + 1
    try:
        assert task._call is not None
        task._value = task._call()
        return 0
    except BaseException as failure:  # pylint: disable=broad-except
        task._thrown = failure
        return failure.status if isinstance(failure, Error) and failure.status else Status.FAILED
    finally:
        _here.depth -= 1


def _done(number: int, _: Any, status: int) -> None:
    """Called by the library when a task has ended, well or not."""
    task = _tasks.pop(number)
    task._call = None
    task._status = status
    if task._bound is not None and status != Status.DEVICE_HUNG:
        task._bound.keep.clear()
        task.runtime.finished.append(task._bound)
    elif task._bound is not None:
        task.runtime.hung.append((task._bound,))
    task._running.release()


_run_pointer = _c.task_function(_run)
_done_pointer = _c.done_function(_done)


class Task:
    """A task that was submitted: Runtime.submit makes it. It goes on without a reference to this object."""

    def __init__(self, runtime: Runtime, call: Optional[Callable[[], Any]], kernel: Optional[Kernel],
                 bound: Optional[Bound], after: Sequence[Task], hints: Optional[Hints], timeout: float) -> None:
        self.runtime, self.kernel = runtime, kernel
        self._call, self._bound = call, bound
        self._value: Any = None
        self._thrown: Optional[BaseException] = None
        self._status: Optional[int] = None
        self._running = threading.Lock()  # held until it has ended
        self._running.acquire()  # pylint: disable=consider-using-with
        self.handle = _c.muster_task()
        desc = _c.muster_task_desc(done=_done_pointer, timeout_ns=int(timeout * 1e9))
        if call is not None:
            desc.fn = _run_pointer
        if kernel is not None and bound is not None:
            desc.kernel, desc.args, desc.arg_count, desc.items = kernel.handle, bound.args, len(bound.args), bound.items
        if after:
            if any(one.runtime is not runtime for one in after):
                raise invalid("a task can only be after tasks of its own runtime")
            desc.after, desc.after_count = (_c.muster_task * len(after))(*[one.handle for one in after]), len(after)
        if hints is not None:
            desc.hints = ctypes.pointer(hints.made())
        desc.user = number = next(_numbers)
        _tasks[number] = self
        err = _c.muster_error()
        if lib.muster_submit(runtime.handle, ctypes.byref(desc), 1, ctypes.byref(self.handle), ctypes.byref(err)):
            del _tasks[number]
            if bound is not None:
                bound.close()
            raise of(err)

    @property
    def status(self) -> Optional[Status]:
        """How it ended; None: it has not."""
        return None if self._status is None else Status(self._status)

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Waits for its end, at most `timeout` seconds, and gives what the function returned (a kernel: None). Raises what the
        function raised, or an Error. Within a task this thread runs others meanwhile."""
        wait([self], timeout)
        return self._value

    def cancel(self) -> bool:
        """False: it has begun, or has ended. Otherwise it ends as CANCELLED, and so do those after it."""
        err = _c.muster_error()
        status = lib.muster_cancel(self.runtime.handle, self.handle, ctypes.byref(err))
        if status not in (0, Status.BUSY, Status.STALE):
            raise of(err)
        return bool(status == 0)

    def __repr__(self) -> str:
        return f"<muster.Task {'running' if self.status is None else self.status.name}>"


def wait(tasks: Sequence[Task], timeout: Optional[float] = None) -> None:
    """Waits for all of them and raises the first failure in the order given. Ctrl-C ends the wait; the tasks go on."""
    if not tasks:
        return
    if getattr(_here, "depth", 0):
        _wait_within(tasks, timeout)
    else:
        _wait_outside(tasks, timeout)
    runtime = tasks[0].runtime
    runtime.sweep()
    for one in tasks:
        if one._thrown is not None:
            # A second wait raises the same.
            raise one._thrown
        if one._status:
            raise make(one._status, _text_of(one), "")


def _wait_outside(tasks: Sequence[Task], timeout: Optional[float]) -> None:
    """Lets Muster's threads run the tasks. muster_wait would run them here, others too, and what it runs is not cut short."""
    end = None if timeout is None else time.monotonic() + timeout
    for one in tasks:
        while one._status is None:
            left = TICK_NS / 1e9 if end is None else min(TICK_NS / 1e9, max(0.0, end - time.monotonic()))
            if one._running.acquire(timeout=left):  # pylint: disable=consider-using-with
                one._running.release()
            elif end is not None and time.monotonic() >= end:
                raise make(Status.TIMEOUT, f"{_name_of(one)} has not ended within {timeout} s")


def _wait_within(tasks: Sequence[Task], timeout: Optional[float]) -> None:
    """In a task: all threads may be in such waits, so this one helps. The library refuses what would wait for itself."""
    err = _c.muster_error()
    handles = (_c.muster_task * len(tasks))(*[one.handle for one in tasks])
    limit = _c.NEVER_NS if timeout is None else max(0, int(timeout * 1e9))
    status = lib.muster_wait(tasks[0].runtime.handle, handles, len(tasks), limit, ctypes.byref(err))
    if status in (Status.ORDER, Status.TIMEOUT):
        raise of(err)
    for one in tasks:
        # The library reports the end after it has let this thread go.
        with one._running:
            pass


def _name_of(task: Task) -> str:
    return f"kernel {task.kernel.name}" if task.kernel is not None else "the task"


def _text_of(task: Task) -> str:
    return f"{_name_of(task)} ended: {lib.muster_status_message(task._status).decode()}"


def submit(runtime: Runtime, what: KernelLike, given: Sequence[Any], items: Optional[int], after: Sequence[Task],
           hints: Optional[Hints], timeout: float) -> Task:
    if callable(what) and not isinstance(what, Kernel):
        function = what
        return Task(runtime, lambda: function(*given), None, None, after, hints, timeout)
    found = runtime.kernels.find(what)
    return Task(runtime, None, found, bind_call(runtime, found, given, items, False, None), after, hints, timeout)


__all__: List[str] = ["Task", "submit", "wait"]
