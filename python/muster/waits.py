"""Waits that Ctrl-C ends: a blocking call of the library runs on a thread of its own, and who asked waits for that thread."""
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Callable, List, Optional

from .errors import Status, make

if TYPE_CHECKING:
    from .runtime import Runtime

# Of each thread: `depth`, how many functions of tasks it is running, and `graph`, which it records.
here = threading.local()


def is_in_task() -> bool:
    return bool(getattr(here, "depth", 0))


def refuse_in_task(what: str) -> None:
    if is_in_task():
        raise make(Status.ORDER, f"{what} within a task, which could wait for itself",
                   "do it where the tasks are submitted, or name the data as an access of the task")


class Blocking:
    """One blocking call. Its place among tasks that are submitted is kept, as it would not be by asking again and again. If
    the wait for it is interrupted, `undo` is given its result when it has one."""

    def __init__(self, runtime: Runtime, function: Callable[[], int], undo: Callable[[int], None]) -> None:
        self._function, self._undo = function, undo
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._is_abandoned = False
        self._result: Optional[int] = None
        self._runtime = runtime
        self._thread = threading.Thread(target=self._run, name="muster-wait", daemon=True)

    def _run(self) -> None:
        result = self._function()
        with self._lock:
            self._result = result
            is_abandoned = self._is_abandoned
        if is_abandoned:
            self._undo(result)
        self._runtime.blocking.remove(self)
        self._over.set()

    def wait(self, timeout: Optional[float] = None) -> Optional[int]:
        """What the call returned; None: nothing in the time allowed, and what it returns then is undone."""
        self._runtime.blocking.append(self)
        try:
            try:
                self._thread.start()
            except RuntimeError:
                self._runtime.blocking.remove(self)  # no thread could be made
                raise
            if not self._over.wait(timeout):
                self._abandon()
                return None
        except BaseException:
            self._abandon()
            raise
        return self._result

    def _abandon(self) -> None:
        with self._lock:
            self._is_abandoned = True
            result = self._result
        if result is not None:
            self._undo(result)

    def join(self) -> None:
        self._over.wait()


def join_all(blocking: List[Blocking]) -> None:
    """Of a runtime that closes: its tasks have ended, so these calls return."""
    for one in list(blocking):
        one.join()
