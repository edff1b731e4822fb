"""Tasks: functions and kernels, one after the other where asked for."""
from __future__ import annotations

import ctypes
import itertools
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence

from . import _c, graphs
from ._library import lib
from .accesses import Body, Uses, bind_kernel, has_data, is_flow
from .arguments import Bound
from .errors import Error, Status, invalid, make, of
from .jobs import TICK_NS, KernelLike
from .kernels import Kernel
from .plans import bind_call
from .waits import here as _here
from .waits import is_in_task

if TYPE_CHECKING:
    from .devices import Hints
    from .runtime import Runtime

# Tasks that have not ended, by the number that the library hands back.
_tasks: Dict[int, "Task"] = {}
_numbers = itertools.count(1)


def _call(number: int, native: Any) -> int:
    """Runs the function of a task: `native` says where its data is, None if it accesses none."""
    task = _tasks[number]
    if task._thrown is not None:
        # Of a device that has it run again: it would raise the same.
        return Status.FAILED
    _here.depth = getattr(_here, "depth", 0) + 1
    try:
        assert task._call is not None
        task._value = task._call() if native is None else task._call(native.contents)
        return 0
    except BaseException as failure:  # pylint: disable=broad-except
        task._thrown = failure
        return failure.status if isinstance(failure, Error) and failure.status else Status.FAILED
    finally:
        _here.depth -= 1


def _run(number: int) -> int:
    """Called by the library to run a function."""
    return _call(number, None)


def _nothing(_: int) -> int:
    """Of the task after a graph's run."""
    return 0


def _done(number: int, _: Any, status: int) -> None:
    """Called by the library when a task has ended, well or not."""
    _here.depth = getattr(_here, "depth", 0) + 1
    try:
        _tasks.pop(number)._end(status)
    finally:
        _here.depth -= 1


_run_pointer = _c.task_function(_run)
_nothing_pointer = _c.task_function(_nothing)
_call_pointer = _c.enqueue_function(_call)
# Where a function of Python's can work on data: in the host's memory, and in that of simulated devices.
_BACKENDS = (b"cpu", b"sim")
_bodies = (_c.muster_body * len(_BACKENDS))(*[_c.muster_body(backend=name, enqueue=_call_pointer) for name in _BACKENDS])
_recorded = _c.muster_body(backend=b"cpu", enqueue=graphs.enqueue_pointer)
NAME_MAX = 47
_done_pointer = _c.done_function(_done)


class Task:
    """A task that was submitted: Runtime.submit makes it. It goes on without a reference to this object."""

    def __init__(self, runtime: Runtime, name: str = "") -> None:
        self.runtime, self.name = runtime, name
        self.kernel: Optional[Kernel] = None
        self.handle = _c.muster_task()
        self._call: Optional[Callable[..., Any]] = None
        self._bound: Optional[Bound] = None
        self._uses: Optional[Uses] = None
        self._keep: List[Any] = []  # until it has ended
        self._graph: Optional[graphs.Graph] = None  # of which it is a run
        self._value: Any = None
        self._thrown: Optional[BaseException] = None
        self._error: Optional[Error] = None
        self._status: Optional[int] = None
        self._is_recorded = False
        self._running = threading.Lock()  # held until it has ended
        self._running.acquire()  # pylint: disable=consider-using-with

    def _submit(self, desc: Any, after: Sequence[Task], hints: Optional[Hints], timeout: float, priority: int) -> None:
        """Of what is in the description already the caller has seen to that it stays."""
        runtime = self.runtime
        desc.timeout_ns, desc.priority, desc.name = int(timeout * 1e9), priority, self.name.encode() or None
        if after:
            if any(one.runtime is not runtime for one in after):
                raise invalid("a task can only be after tasks of its own runtime")
            if any(one._is_recorded for one in after):
                raise invalid("a task after a recorded one", "the order of a graph's tasks is that of their accesses")
            desc.after, desc.after_count = (_c.muster_task * len(after))(*[one.handle for one in after]), len(after)
        if hints is not None:
            desc.hints = ctypes.pointer(hints.made())
        if self._uses is not None:
            made = self._uses.made()
            desc.accesses, desc.access_count = made, len(made)
            self._keep.extend(self._uses.data)
        if self._is_recorded:
            self._give(desc, None)
            return
        desc.done, number = _done_pointer, next(_numbers)
        desc.user = number
        _tasks[number] = self
        runtime.unfinished.add(self)
        self._give(desc, number)

    def _give(self, desc: Any, number: Optional[int]) -> None:
        err = _c.muster_error()
        if lib.muster_submit(self.runtime.handle, ctypes.byref(desc), 1, ctypes.byref(self.handle), ctypes.byref(err)):
            if number is not None:
                del _tasks[number]
                self.runtime.unfinished.discard(self)
            if self._bound is not None:
                self._bound.close()
            raise of(err)

    @classmethod
    def of_run(cls, graph: graphs.Graph, changes: Any, keep: List[Any]) -> Task:
        """A run of a graph: the library tells of its end by a task after it."""
        runtime = graph.runtime
        made, err, handle = cls(runtime, "a run of a graph"), _c.muster_error(), _c.muster_task()
        made._graph, made._keep = graph, keep
        if lib.muster_graph_run(runtime.handle, graph.handle, changes, len(changes), ctypes.byref(handle), ctypes.byref(err)):
            raise of(err)
        made.handle = handle
        graph.runs[id(made)] = made
        number = next(_numbers)
        desc = _c.muster_task_desc(fn=_nothing_pointer, done=_done_pointer, user=number, after=ctypes.pointer(handle),
                                   after_count=1)
        _tasks[number] = made
        runtime.unfinished.add(made)
        last = _c.muster_task()
        if lib.muster_submit(runtime.handle, ctypes.byref(desc), 1, ctypes.byref(last), ctypes.byref(err)):
            # It goes on, and nobody would hear of its end.
            del _tasks[number], graph.runs[id(made)]
            runtime.unfinished.discard(made)
            runtime.hung.append((graph, keep))
            raise of(err)
        return made

    def _end(self, status: int) -> None:
        """It has ended, well or not. Called by one of the library's threads, or by one within a call of it."""
        runtime = self.runtime
        if self._graph is not None:
            self._end_run(status)
            status = self._status or 0
        self._call = None
        if status and self._uses is not None and self._thrown is not None:
            self._uses.note_failure(self._thrown)
        if self._bound is not None and status != Status.DEVICE_HUNG:
            self._bound.keep.clear()
            runtime.finished.append(self._bound)
        elif status == Status.DEVICE_HUNG:
            runtime.hung.append((self._bound, self._keep))
        # Data goes where the library is called next, not on this thread.
        self._uses, self._keep = None, []
        if status and runtime.failed is None:
            runtime.failed = self
        self._status = status
        runtime.unfinished.discard(self)
        self._running.release()

    def _end_run(self, status: int) -> None:
        """Of a run of a graph, after which this is: what it was cancelled with is how that ended."""
        graph, err = self._graph, _c.muster_error()
        assert graph is not None
        if status:
            known = lib.muster_wait(self.runtime.handle, ctypes.byref(self.handle), 1, 0, ctypes.byref(err))
            self._error = of(err) if known else None
            if graph.thrown:
                self._thrown, name = graph.thrown.pop(0)
                self.name = name or self.name
            status = known or status
        self._status = status
        graph.runs.pop(id(self), None)
        self._graph = None

    def await_end(self) -> None:
        """Waits, and raises nothing of the task's."""
        _await_end([self], None)

    def error(self) -> Error:
        """Of one that has failed: what the library says of it, with its name and that of the task because of which it was
        cancelled."""
        if self._error is None:
            err = _c.muster_error()
            assert self._status
            known, end = int(Status.TIMEOUT), time.monotonic() + 1
            while known == Status.TIMEOUT and time.monotonic() < end:
                # The library calls _done shortly before it counts the task as ended.
                known = lib.muster_wait(self.runtime.handle, ctypes.byref(self.handle), 1, 0, ctypes.byref(err))
                time.sleep(0 if known != Status.TIMEOUT else 0.0005)
            # It is kept for some ten thousand tasks more.
            self._error = of(err) if known == self._status else make(self._status, _text_of(self))
        return self._error

    def raise_failure(self) -> None:
        """If it has failed: raises what its function raised, or an Error."""
        if not self._status:
            return
        if self.runtime.failed is self:
            self.runtime.failed = None
        if self._thrown is None:
            raise self.error()
        # A second wait raises the same.
        if self.name and not getattr(self._thrown, "__notes__", None):
            text = self.error().text
            _add_note(self._thrown, text if self.name in text else f"task '{self.name}': {text}")
        raise self._thrown

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
    _await_end(tasks, timeout)
    tasks[0].runtime.sweep()
    for one in tasks:
        one.raise_failure()


def wait_all(runtime: Runtime, timeout: Optional[float] = None) -> None:
    """Waits for all tasks of the runtime and raises the first failure that no wait has raised."""
    if is_in_task():
        err = _c.muster_error()
        if lib.muster_wait(runtime.handle, None, 0, _c.NEVER_NS, ctypes.byref(err)):
            raise of(err)
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        left = list(runtime.unfinished)
        if not left:
            break
        _await_end(left, None if end is None else max(0.0, end - time.monotonic()))
    runtime.sweep()
    failed = runtime.failed
    if failed is not None:
        failed.raise_failure()


def _await_end(tasks: Sequence[Task], timeout: Optional[float]) -> None:
    if any(one._is_recorded for one in tasks):
        raise make(Status.ORDER, "a recorded task runs with its graph", "wait for what graph.run() gives")
    if is_in_task():
        _wait_within(tasks, timeout)
    else:
        _wait_outside(tasks, timeout)


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
    return f"task '{task.name}'" if task.name else f"kernel {task.kernel.name}" if task.kernel is not None else "the task"


def _add_note(thrown: BaseException, text: str) -> None:
    """Shown with the exception from Python 3.11 on; __notes__ is there before that."""
    try:
        add = getattr(thrown, "add_note", None)
        if add is not None:
            add(text)
        else:
            thrown.__notes__ = [text]  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        pass  # an exception without room for it


def _text_of(task: Task) -> str:
    return f"{_name_of(task)} ended: {lib.muster_status_message(task._status).decode()}"


def submit(runtime: Runtime, what: KernelLike, given: Sequence[Any], items: Optional[int], after: Sequence[Task],
           hints: Optional[Hints], timeout: float, uses: Uses, name: Optional[str], priority: int) -> Task:
    desc = _c.muster_task_desc()
    graph = graphs.recording(runtime)
    if name is not None and len(name.encode()) > NAME_MAX:
        raise invalid(f"a task's name has at most {NAME_MAX} characters")
    made = Task(runtime, name or "")
    made._is_recorded = graph is not None
    if callable(what) and not isinstance(what, Kernel):
        if uses.data or graph is not None or has_data(given):
            _set_body(made, desc, Body(what, given, uses), graph)
        else:
            function = what
            made._call = lambda: function(*given)
            desc.fn = _run_pointer
    else:
        found = runtime.kernels.find(what)
        if uses.data or is_flow(found, given):
            made._bound = bind_kernel(runtime, found, given, items, uses)
            made._uses = uses
        else:
            made._bound = bind_call(runtime, found, given, items, False, None)
        made.kernel, bound = found, made._bound
        desc.kernel, desc.args, desc.arg_count, desc.items = found.handle, bound.args, len(bound.args), bound.items
    made._submit(desc, after, hints, timeout, priority)
    return made


def _set_body(task: Task, desc: Any, body: Body, graph: Optional[graphs.Graph]) -> None:
    """A function with accesses."""
    task._uses = body.uses
    if graph is not None:
        desc.bodies, desc.body_count, desc.user = ctypes.pointer(_recorded), 1, graph.add(body, task.name)
        return
    task._call = body.run
    desc.bodies, desc.body_count = _bodies, len(_BACKENDS)


__all__: List[str] = ["Task", "submit", "wait", "wait_all"]
