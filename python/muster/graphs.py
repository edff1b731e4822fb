"""Recorded graphs: tasks that were submitted once and run again as one."""
from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Set, Tuple

from . import _c
from ._library import lib
from .accesses import Body
from .data import Data
from .errors import Error, Status, invalid, make, of
from .waits import here, refuse_in_task

if TYPE_CHECKING:
    from .runtime import Runtime
    from .tasks import Task

# Bodies of graphs that are not closed, by the number that the library hands back.
_bodies: Dict[int, "Recorded"] = {}
_numbers = itertools.count(1)


class Recorded:
    """One task of a graph."""

    def __init__(self, body: Body, name: str, thrown: List[Tuple[BaseException, str]]) -> None:
        self.body, self.name, self.thrown = body, name, thrown


def _enqueue(number: int, native: Any) -> int:
    """Called by the library to run a function of a graph."""
    one = _bodies[number]
    here.depth = getattr(here, "depth", 0) + 1
    try:
        one.body.run(native.contents)
        return 0
    except BaseException as failure:  # pylint: disable=broad-except
        one.body.uses.note_failure(failure)
        one.thrown.append((failure, one.name))
        return failure.status if isinstance(failure, Error) and failure.status else Status.FAILED
    finally:
        here.depth -= 1


enqueue_pointer = _c.enqueue_function(_enqueue)


def recording(runtime: Runtime) -> Optional[Graph]:
    """The graph that this thread records."""
    found: Optional[Graph] = getattr(here, "graph", None)
    return found if found is not None and found.runtime is runtime else None


class Graph:
    """Tasks that were recorded: `with muster.record() as graph: ...`, in which the block's muster.submit calls of this thread keep
    tasks and run none. Recorded tasks are functions with accesses; they run on the host."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.handle = ctypes.c_void_p()
        self.thrown: List[Tuple[BaseException, str]] = []  # by functions of runs that were not waited for yet
        self.data: Dict[int, Data] = {}  # all that it accesses, which stays with it
        self.written: Set[int] = set()
        self.runs: Dict[int, Task] = {}  # that have not ended
        self._numbers: List[int] = []
        self._is_recorded = False

    def __enter__(self) -> Graph:
        if self._is_recorded or getattr(here, "graph", None) is not None:
            raise make(Status.ORDER, "the graph is recorded already, or this thread records another")
        err = _c.muster_error()
        if lib.muster_graph_begin(self.runtime.handle, ctypes.byref(err)):
            raise of(err)
        here.graph = self
        return self

    def __exit__(self, kind: Optional[type], *_: object) -> None:
        here.graph = None
        err = _c.muster_error()
        status = lib.muster_graph_end(self.runtime.handle, ctypes.byref(self.handle), ctypes.byref(err))
        if kind is None and status == 0:
            self._is_recorded = True
            self.runtime.owned.add(self)
            return
        self._forget()
        if kind is None:
            raise of(err)

    def add(self, body: Body, name: str) -> int:
        """A task's number, for the library."""
        number = next(_numbers)
        _bodies[number] = Recorded(body, name, self.thrown)
        self._numbers.append(number)
        for data, mode in zip(body.uses.data, body.uses.modes):
            self.data[id(data)] = data
            if mode != _c.MUSTER_READ:
                self.written.add(id(data))
        return number

    def run(self, changes: Optional[Mapping[Data, Data]] = None) -> Task:
        """Submits all tasks of the graph as one. `changes`: data of the graph, and what takes its place in this run, of the
        same shape. The run is in order with other tasks by what it accesses."""
        from .tasks import Task
        if not self.handle:
            raise make(Status.STALE, "the graph is closed, or was not recorded", "with muster.record() as graph: ...")
        self.runtime.sweep()
        given = dict(changes or {})
        made = (_c.muster_graph_change * len(given))()
        for one, (old, new) in zip(made, given.items()):
            if id(old) not in self.data:
                raise invalid("a change of data that the graph does not access", "change what its tasks name")
            if new.is_readonly and id(old) in self.written:
                raise invalid("the graph writes data whose array is read-only")
            one.size, one.from_, one.to = ctypes.sizeof(one), old.handle, new.handle
            new.root.is_accessed = True
        return Task.of_run(self, made, list(given.values()))

    def close(self) -> None:
        """Waits for its runs. What they access may then be closed."""
        if not self.handle or not self.runtime.is_open:
            return
        if self.runs:
            refuse_in_task("closing a graph that runs")
        while self.runs:
            _, run = next(iter(self.runs.items()))
            run.await_end()
        self._forget()

    def _forget(self) -> None:
        handle, self.handle = self.handle, ctypes.c_void_p()
        if handle and self.runtime.is_open:
            lib.muster_graph_destroy(handle)
        while self._numbers:
            _bodies.pop(self._numbers.pop(), None)

    # A run that has not ended holds the graph, so this waits for nobody.
    def __del__(self) -> None:
        self._forget()

    def __repr__(self) -> str:
        return f"<muster.Graph of {len(self._numbers)} tasks{'' if self.handle else ', closed'}>"
