"""The runtime: opened once, owns devices and threads."""
from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

from . import _c, accesses, devices, jobs, streams, tasks
from ._library import lib
from .accesses import Used
from .data import Acquired, Data, Reduction, form_of_size
from .devices import Backend, Decision, Devices, Hints, Lease
from .errors import Error, Status, invalid, make, of
from .graphs import Graph
from .jobs import Job, KernelLike, RunOptions, Running
from .kernels import Kernel, Kernels, Path
from .reports import Report
from .tasks import Task
from .trace import Trace
from .waits import Blocking, is_in_task, join_all

if TYPE_CHECKING:
    from typing_extensions import Unpack

LEVELS = {"error": _c.MUSTER_LOG_ERROR, "warning": _c.MUSTER_LOG_WARNING, "info": _c.MUSTER_LOG_INFO,
          "debug": _c.MUSTER_LOG_DEBUG}
NAMES = {number: name for name, number in LEVELS.items()}


class Runtime:
    """Muster, open. Most programs need no more than the functions of the module, which use one that is opened when it is
    first wanted. All methods may be called from any thread.

    devices: ids and backends that may be used, comma separated ("cpu", "cuda:0"); sim: simulated devices, as JSON or a file of it;
    slices: devices to cut, "cuda:0=16,32,84"; isolate: backends whose devices live in processes of their own, "cpu,cuda";
    untrusted: the kernels are not trusted, and are compiled and run in sandboxes alone (docs/isolation.md);
    live: whether `muster top` and `muster serve` see it; log: called as log(level, text) from any thread, and must not call Muster."""

    def __init__(self, devices: Optional[str] = None, sim: Optional[str] = None, slices: Optional[str] = None,
                 streams_max: int = 0, cpu_workers: int = 0, memory_limit: int = 0, kept_bytes: int = 0,
                 close_s: float = 0, live: bool = True, log: Optional[Callable[[str, str], None]] = None, log_level: str = "warning",
                 isolate: Optional[str] = None, untrusted: bool = False) -> None:
        self._handle = ctypes.c_void_p()
        self.pid: int = _pid
        self.kernels: Kernels = Kernels(self)
        self.jobs: Dict[int, weakref.ref[Running]] = {}  # those that are not given back yet
        self.owned: weakref.WeakSet[Any] = weakref.WeakSet()  # kernels and data, which must go before the runtime
        self.abandoned: List[Running] = []
        self.finished: List[Any] = []  # of tasks that have ended: blocks and data to give back
        self.unfinished: Set[Task] = set()
        self.held: weakref.WeakSet[Acquired] = weakref.WeakSet()
        self.blocking: List[Blocking] = []  # calls of the library on threads of their own
        self.failed: Optional[Task] = None  # the first that failed and whose failure no wait has raised
        self.hung: List[Any] = []  # what a hung device may still use stays until the runtime is closed
        how = _c.muster_options(streams_max=streams_max, cpu_workers=cpu_workers, memory_limit=memory_limit,
                                kept_bytes=kept_bytes, close_ns=int(close_s * 1e9), no_live=not live, untrusted=untrusted)
        for name, text in (("devices", devices), ("sim", sim), ("slices", slices), ("isolate", isolate)):
            setattr(how, name, text.encode() if text is not None else None)
        self._log: Any = None
        if log is not None:
            said = log
            self._log = _c.log_function(lambda _, level, text: said(NAMES.get(level, "error"), text.decode(errors="replace")))
            how.log, how.log_level = self._log, LEVELS[log_level]
        err = _c.muster_error()
        if lib.muster_open(ctypes.byref(self._handle), ctypes.byref(how), ctypes.byref(err)):
            raise of(err)
        _open.add(self)

    @property
    def handle(self) -> ctypes.c_void_p:
        """struct muster *, for the library's calls."""
        if not self._handle:
            raise make(Status.STALE, "the runtime is closed", "open another one")
        return self._handle

    @property
    def is_open(self) -> bool:
        return bool(self._handle) and self.pid == _pid

    def close(self) -> None:
        """Cancels its jobs, waits for what runs and frees all of it. An Error with status DEVICE_HUNG names what has not
        returned; the arrays given to it stay then."""
        if not self._handle:
            return
        if self.pid != _pid:
            self._handle = ctypes.c_void_p()
            return
        # In steps, so that Ctrl-C ends these waits too; the runtime stays open then.
        left = [job for job in (known() for known in list(self.jobs.values())) if job is not None]
        for job in left:
            job.cancel()
        while any(job.wait(jobs.TICK_NS) == Status.TIMEOUT for job in left if not job.is_over):
            pass
        for held in list(self.held):
            held.release()
        while lib.muster_wait(self._handle, None, 0, jobs.TICK_NS, None) == Status.TIMEOUT:
            pass
        join_all(self.blocking)
        self.sweep()
        for one in [*left, *self.owned]:
            try:
                one.close()
            except Error:
                pass  # data that a task should have written, which a wait has said or could have
        handle, self._handle = self._handle, ctypes.c_void_p()
        err = _c.muster_error()
        status = lib.muster_close(handle, ctypes.byref(err))
        if status == Status.ORDER:
            self._handle = handle
        elif status == Status.DEVICE_HUNG:
            _for_ever.append((self.hung, self.kernels, self._log))
        if status:
            raise of(err)
        self.hung.clear()

    def sweep(self) -> None:
        """Forgets what was abandoned and is over by now, and gives back what tasks had."""
        if self.abandoned:
            self.abandoned = [job for job in self.abandoned if not job.is_over and job.wait(0) == Status.TIMEOUT]
        if self.finished and not is_in_task():
            # What cannot go yet is added again.
            for _ in range(len(self.finished)):
                try:
                    self.finished.pop(0).close()
                except IndexError:
                    break  # another thread does the same

    def trim(self) -> None:
        """Gives back what is kept between jobs: memory and threads."""
        lib.muster_trim(self.handle)

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<muster.Runtime {'open' if self._handle else 'closed'}>"

    # Kernels and jobs.

    def kernel(self, what: Union[Kernel, Path, Sequence[Path]], entry: Optional[str] = None) -> Kernel:
        """A kernel of a file, of several files with forms of one kernel, or of portable source (a text with a line break or a
        brace). `entry` None: the only one there is. What was loaded before is given again, unless the file has changed."""
        return self.kernels.find(what, entry)

    def for_(self, kernel: KernelLike, *args: Any, items: Optional[int] = None, each_status: Any = None,
             timeline: bool = False, **options: Unpack[RunOptions]) -> Report:
        """Runs a kernel over all items on all devices; what it writes is written into the arrays that are given.

        Arguments are those of the kernel's source, in order: numbers, and arrays of one element for each item. Those that the
        source does not declare const are read and written; muster.out(y) says that one is only written. With `items`
        an item has as many elements of each array as there are for it. each_status: an array of int32 that is given how each
        item ended; a failing item then fails alone. timeline: the report shows what each device did when.
        """
        return jobs.run(self, kernel, args, items, options, each_status, timeline)

    def map(self, kernel: KernelLike, *args: Any, items: Optional[int] = None, out: Any = None,
            **options: Unpack[RunOptions]) -> Any:
        """Runs a kernel over all items on all devices and gives its result: one array, or a tuple of several. No argument is
        changed. Arrays that the kernel only writes are left out; those that it reads and writes may be given.
        Results are new arrays, or those of `out`. Nothing is copied.
        """
        return jobs.run_map(self, kernel, args, items, options, out)

    def reduce(self, kernel: Union[Kernel, Path], *args: Any, items: Optional[int] = None,
               **options: Unpack[RunOptions]) -> Any:
        """One result of all items, with the same bits whatever devices take part: a number, or a named tuple of what the
        kernel's struct has."""
        return jobs.reduce(self, kernel, args, items, options)

    def start(self, kernel: KernelLike, *args: Any, items: Optional[int] = None, each_status: Any = None,
              **options: Unpack[RunOptions]) -> Job:
        """As for_, but the job runs beside the program; the arrays are in use until it is over."""
        return Job(jobs.begin(self, kernel, args, items, options, each_status=each_status))

    def stream(self, kernel: KernelLike, frames: Iterable[Any], *args: Any, items: Optional[int] = None, ahead: int = 0,
               halo: int = 0, border: str = "zero", like: Any = None, **options: Unpack[RunOptions]) -> Iterator[Any]:
        """The results of a kernel over frames, in order: for edges in muster.stream("edges.c", camera()): ...

        Frames are arrays of one size and type. The iterable is advanced on the caller's thread, when a result is asked for,
        and is at most `ahead` frames ahead of the results (0: chosen by their size). A frame has been read when the next one
        is taken. `args` are the kernel's other arguments; whole numbers called width, height, luma and frame may
        be left out. Results are new arrays with one element for each item, or as `like` is. What the iterable or a function raises is raised here, after the results before it.
        """
        return streams.stream(self, kernel, frames, args, items, ahead, halo, border, like, options)

    def share(self, array: Any) -> Data:
        """Makes an array known that many calls read whole, so that it stays on devices: muster.all(data)."""
        return Data(self, array)

    # Tasks.

    def submit(self, what: KernelLike, *args: Any, items: Optional[int] = None, after: Sequence[Task] = (),
               hints: Optional[Hints] = None, timeout: float = 0, reads: Used = (), writes: Used = (), updates: Used = (),
               commutes: Used = (), reduces: Used = (), name: Optional[str] = None, priority: int = 0) -> Task:
        """A function, called with `args` on one of Muster's threads, or a kernel on one device with arguments as for_ has
        them. It begins when those in `after` have ended; if one of them fails, this one is cancelled. `timeout`: seconds
        after which a kernel's device counts as hung; 0: never.

        reads, writes (all of it), updates, commutes (updates that may change places) and reduces name data that the task accesses:
        it goes after the tasks before it that access the same otherwise than to read it. Data among the arguments need not be
        named there: muster.in_, out and inout say what it is for, else the kernel's source does, and a function reads it. A
        function is given arrays for data, which are valid until it returns. `name`: for errors and traces; of ready tasks those of
        the highest priority, -16 to 15, begin first."""
        self.sweep()
        return tasks.submit(self, what, args, items, after, hints, timeout,
                            accesses.uses_of(self, reads, writes, updates, commutes, reduces), name, priority)

    def wait(self, waited: Optional[Iterable[Task]] = None, timeout: Optional[float] = None) -> None:
        """Waits for all these tasks, and raises the first failure in the order given. Without tasks it waits for all of the
        runtime, and raises the first failure that no other wait has raised."""
        if waited is None:
            tasks.wait_all(self, timeout)
        else:
            tasks.wait(list(waited), timeout)

    # Data that tasks access.

    def data(self, array: Any = None, *, nbytes: Optional[int] = None, shape: Union[int, Sequence[int], None] = None,
             dtype: Any = None, reduction: Optional[Reduction] = None) -> Data:
        """An array as data that tasks say they read and write; nothing is copied, and until it is acquired or closed the array
        belongs to them. Instead of an array nbytes=, or shape= and dtype=, for data whose memory is made when a task first
        writes it. reduction: how tasks that reduce into it are combined (Data.reduction)."""
        self.sweep()
        if array is not None and (nbytes is not None or shape is not None or dtype is not None):
            raise invalid("data with an array has its size, shape and type")
        made = Data(self, array, None if array is not None else form_of_size(nbytes, shape, dtype))
        return made if reduction is None else made.reduction(reduction)

    def token(self) -> Data:
        """Data of no bytes, which orders the tasks that name it and nothing else."""
        return Data(self, None, form_of_size(0, None, None))

    def record(self) -> Graph:
        """`with muster.record() as graph:` keeps the tasks that this thread submits in the block; graph.run() submits all of them
        as one, as often as it is called."""
        return Graph(self)

    # Devices.

    def devices(self) -> Devices:
        """The devices that may be used. Opens their drivers."""
        return devices.list_devices(self)

    def backends(self) -> List[Backend]:
        """What became of each backend, for those who miss a device."""
        return devices.list_backends(self)

    def pick(self, policy: Optional[str] = None, min_free: Union[int, str] = 0, min_cc: Tuple[int, int] = (0, 0),
             backends: Union[str, Sequence[str]] = "", devices: Union[str, Sequence[str]] = "", affinity: int = 0,
             items: int = 0, bytes: int = 0) -> Lease:  # pylint: disable=redefined-builtin,redefined-outer-name
        """Picks a device for a piece of work; `with muster.pick(min_free="1GiB") as lease: lease.device`."""
        return Lease(self, policy, Hints(min_free, min_cc, backends, devices, affinity, items, bytes))

    def explain(self, count: int = 16) -> List[Decision]:
        """What the last picks looked at, newest first."""
        return devices.decisions(self, count)

    def counters(self) -> Dict[str, int]:
        """Totals since the runtime was opened."""
        made, err = _c.muster_counters(), _c.muster_error()
        if lib.muster_counters(self.handle, ctypes.byref(made), ctypes.byref(err)):
            raise of(err)
        return {name: getattr(made, name) for name, *_ in made._fields_[1:]}

    def trace(self, capacity: int = 0) -> Trace:
        """Records what each device does when: `with muster.trace() as t: ...`, and t shows it in a notebook."""
        return Trace(self, capacity)

    def declare(self, number: int, address: int, nbytes: int) -> Tuple[Any, Callable[[], None]]:
        """Makes memory of a CUDA device known as a block; also gives what forgets it."""
        device, stream, block, err = _c.muster_device(), _c.muster_stream(), _c.muster_block(), _c.muster_error()
        handle = self.handle
        if (lib.muster_device_find(handle, f"cuda:{number}".encode(), ctypes.byref(device), ctypes.byref(err)) or
                lib.muster_stream_default(handle, device, ctypes.byref(stream), ctypes.byref(err)) or
                lib.muster_block_declare(handle, device, address, None, nbytes, ctypes.byref(block), ctypes.byref(err))):
            raise of(err)

        def forget() -> None:
            if self.is_open:
                lib.muster_block_free(handle, stream, block, None)

        return block, forget


_open: weakref.WeakSet[Runtime] = weakref.WeakSet()
_for_ever: List[Any] = []  # what hung devices may still use after their runtime is closed
_lock = threading.Lock()
_pid = os.getpid()  # of this process: a runtime belongs to the one that opened it
_default: Optional[Runtime] = None


def default() -> Runtime:
    """The runtime of the module's functions."""
    global _default
    found = _default
    if found is None or not found.is_open:
        with _lock:
            if _default is None or not _default.is_open:
                _default = Runtime()
            found = _default
    return found


def _close_all() -> None:
    """Before the interpreter goes: threads of the library must not call it any more."""
    for runtime in list(_open):
        try:
            runtime.close()
        except Exception:  # pylint: disable=broad-except
            pass


def _forget_after_fork() -> None:
    global _lock, _pid
    _lock, _pid = threading.Lock(), os.getpid()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_after_fork)
