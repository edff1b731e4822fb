"""Data: arrays that many calls read whole, and that tasks say they read and write (docs/dataflow.md)."""
from __future__ import annotations

import ctypes
import weakref
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _c
from ._library import lib
from .arrays import np, view
from .errors import Error, Status, invalid, of
from .memory import View, count_of
from .waits import Blocking, is_in_task, refuse_in_task

if TYPE_CHECKING:
    from types import TracebackType

    from .runtime import Runtime

MODES = {"r": _c.MUSTER_READ, "w": _c.MUSTER_WRITE, "rw": _c.MUSTER_READ_WRITE}
KEPT = (Status.TIMEOUT, Status.BUSY, Status.ORDER)  # with these muster_data_destroy has left the data as it was
GRACE = 0.005  # seconds that the library has beyond a limit
Reduction = Union[str, Tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]]
Index = Union[int, slice, Tuple[Union[int, slice], ...]]


class Form(NamedTuple):
    """How the bytes of data look as an array; of a tile each row, shape[0] of them, is a piece of its own."""
    code: Any  # a dtype of NumPy's, or a code of the module struct
    itemsize: int
    element: int
    shape: Tuple[int, ...]
    is_tile: bool = False

    @property
    def nbytes(self) -> int:
        return self.itemsize * count_of(self.shape)

    def at(self, address: Optional[int], pitch: int, is_written: bool, owner: Any = None) -> Any:
        """The array at an address, where rows of a tile are `pitch` bytes apart."""
        if not self.nbytes or not address:
            return None
        rows = self.shape[0] if self.is_tile else 1
        row_bytes = self.nbytes // rows
        memory = (ctypes.c_char * ((rows - 1) * pitch + row_bytes)).from_address(address)
        memory.owner = owner  # stays as long as the array does
        if np is None:
            flat = memoryview(memory).cast("B")
            flat = flat if is_written else flat.toreadonly()
            if not self.is_tile:
                return flat.cast(self.code)
            return [flat[row * pitch:row * pitch + row_bytes].cast(self.code) for row in range(rows)]
        strides = [self.itemsize * count_of(self.shape[axis + 1:]) for axis in range(len(self.shape))]
        if self.is_tile:
            strides[0] = pitch
        made = np.ndarray(self.shape, self.code, memory, strides=strides)
        made.flags.writeable = is_written
        return made

    def of_bytes(self, nbytes: int, is_aligned: bool) -> Form:
        """Of a range, or of a row."""
        if is_aligned and nbytes % self.itemsize == 0:
            return Form(self.code, self.itemsize, self.element, (nbytes // self.itemsize,))
        return Form("B", 1, _c.MUSTER_ELEMENT_UNKNOWN, (nbytes,))


def form_of(array: Any, seen: View) -> Form:
    if np is not None and isinstance(array, np.ndarray):
        return Form(array.dtype, seen.itemsize, seen.element, tuple(array.shape) or (1,))
    code = memoryview(array).format
    return Form(code if np is None else np.dtype(code), seen.itemsize, seen.element, tuple(seen.shape) or (1,))


def form_of_size(nbytes: Optional[int], shape: Union[int, Sequence[int], None], dtype: Any) -> Form:
    if (nbytes is None) == (shape is None):
        raise invalid("data without an array has nbytes= or shape=, and one of them",
                      "for example muster.data(shape=(64, 64), dtype=numpy.float32)")
    if shape is None:
        assert nbytes is not None
        if nbytes < 0 or dtype is not None:
            raise invalid(f"data of {nbytes} bytes" if nbytes < 0 else "dtype= without shape=")
        return Form("B", 1, _c.MUSTER_ELEMENT_UNKNOWN, (nbytes,))
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if np is None:
        raise invalid("shape= needs NumPy", "give nbytes=")
    like = np.empty(0, dtype if dtype is not None else np.float64)
    if like.dtype.hasobject or not sizes or min(sizes) < 1:
        raise invalid(f"data of shape {sizes} and type {like.dtype}")
    return Form(like.dtype, like.itemsize, view(like).element, sizes)


class Data:
    """An array, or a size alone, that the library knows: muster.data, muster.share and muster.token make it. From the first
    task that accesses it until acquire or close the array belongs to the tasks. The array stays as long as this does."""

    def __init__(self, runtime: Runtime, array: Any = None, form: Optional[Form] = None) -> None:
        self.runtime, self.array = runtime, array
        self.whole: Optional[Data] = None
        self.handle = _c.muster_data()
        self.host_pitch = 0  # of a tile, where the array is
        self.failed: Optional[BaseException] = None  # what a function raised that was to write it
        self._is_there = self.is_accessed = False
        self._reduction: Any = None
        self._thrown: List[BaseException] = []
        self.parts: weakref.WeakSet[Data] = weakref.WeakSet()
        self._seen: Optional[View] = view(array) if form is None else None
        address, is_readonly = None, False
        if self._seen is not None:
            if self._seen.device is not None:
                raise invalid("an array that is shared, or data of tasks, must be in the host's memory", "copy it to the host")
            form, address, is_readonly = form_of(array, self._seen), self._seen.address, self._seen.is_readonly
        assert form is not None
        self.form, self.is_readonly = form, is_readonly
        err = _c.muster_error()
        if lib.muster_data_create(runtime.handle, address, form.nbytes, 0, ctypes.byref(self.handle), ctypes.byref(err)):
            raise of(err)
        self._is_there = True
        runtime.owned.add(self)

    @property
    def nbytes(self) -> int:
        return self.form.nbytes

    @property
    def shape(self) -> Tuple[int, ...]:
        return self.form.shape

    @property
    def dtype(self) -> Any:
        """Of its elements: NumPy's, or a code of the module struct."""
        return self.form.code

    def __len__(self) -> int:
        return self.form.shape[0]

    # Parts.

    def part(self, offset: int, nbytes: int) -> Data:
        """A range of its bytes as data of its own. Parts are in conflict with each other exactly where they overlap."""
        form = self.form.of_bytes(nbytes, offset % self.form.itemsize == 0)
        return self._part(form, lib.muster_data_part, offset, nbytes)

    def tile(self, row: int, rows: int, column_bytes: int, row_bytes: int, pitch: int) -> Data:
        """A tile: `rows` rows of `row_bytes` bytes, the first at byte `column_bytes` of row `row`, where rows of the whole are
        `pitch` bytes apart."""
        one = self.form.of_bytes(row_bytes, column_bytes % self.form.itemsize == 0 and pitch % self.form.itemsize == 0)
        form = one._replace(shape=(rows, *one.shape), is_tile=True)
        return self._part(form, lib.muster_data_tile, row, rows, column_bytes, row_bytes, pitch)

    def __getitem__(self, index: Index) -> Data:
        """d[a:b] is a range of it along the first axis; d[r0:r1, c0:c1] a tile of an array of two axes or more."""
        shape, form = self.form.shape, self.form
        keys = index if isinstance(index, tuple) else (index,)
        if len(keys) > min(2, len(shape)) or not keys:
            raise invalid(f"an index of {len(keys)} axes in data of shape {shape}", "at most two axes are cut")
        bounds = [_bounds(key, length) for key, length in zip(keys, shape)]
        left = tuple(end - begin for (begin, end), key in zip(bounds, keys) if not isinstance(key, int)) + shape[len(keys):]
        if form.is_tile:
            raise invalid("a part of a tile", "cut the whole")
        (first, last), inner = bounds[0], form.itemsize * count_of(shape[1:])
        start, stop = bounds[1] if len(keys) == 2 else (0, 1)
        width = shape[1] if len(keys) == 2 else 1
        cell = inner // width
        if stop - start == width or last - first == 1:
            offset = first * inner + start * cell
            nbytes = (last - first) * inner if stop - start == width else (stop - start) * cell
            return self._part(form._replace(shape=left or (1,)), lib.muster_data_part, offset, nbytes)
        if len(left) == len(shape):
            made = form._replace(shape=left, is_tile=True)
        else:  # a column: rows of one cell each
            made = form._replace(shape=(last - first, 1, *shape[2:]), is_tile=True)
        return self._part(made, lib.muster_data_tile, first, last - first, start * cell, (stop - start) * cell, inner)

    def _part(self, form: Form, make_it: Any, *numbers: int) -> Data:
        if min(numbers) < 0:
            raise invalid("a part with a negative place or size")
        made = Data.__new__(Data)
        made.runtime, made.array, made.whole, made.form = self.runtime, None, self, form
        made.handle, made.is_readonly, made.failed = _c.muster_data(), self.is_readonly, None
        made.host_pitch = numbers[-1] if form.is_tile else 0
        made._is_there, made.is_accessed, made._seen = False, False, None
        made._reduction, made._thrown, made.parts = None, [], weakref.WeakSet()
        err = _c.muster_error()
        if make_it(self.runtime.handle, self.handle, *numbers, ctypes.byref(made.handle), ctypes.byref(err)):
            raise of(err)
        made._is_there = True
        self.parts.add(made)
        self.runtime.owned.add(made)
        return made

    # Access by the host.

    def acquire(self, mode: str = "r", timeout: Optional[float] = None) -> Acquired:
        """Accesses it on the host as a task would that is submitted now: waits for the tasks before, at most `timeout` seconds,
        and holds up those after it that conflict until release: `with d.acquire("rw") as array: ...`. Modes are "r", "w" (what
        was there is not brought) and "rw"."""
        if mode not in MODES:
            raise invalid(f"unknown mode '{mode}'; known: r, w, rw")
        if self.is_readonly and mode != "r":
            raise invalid("the array is read-only, and was to be acquired for writing")
        refuse_in_task("acquiring data")
        self.runtime.sweep()
        pointer, err = ctypes.c_void_p(), _c.muster_error()
        limit = _c.NEVER_NS if timeout is None else max(0, int(timeout * 1e9))
        status = self._acquire(MODES[mode], limit, pointer, err)
        self._raise_thrown(status == 0)
        if status:
            raise of(err) from self.root.failed if status != Status.TIMEOUT else None
        self.root.is_accessed = True
        return Acquired(self, self.form.at(pointer.value, self.host_pitch, mode != "r", self))

    def _acquire(self, mode: int, limit: int, pointer: Any, err: Any) -> int:
        """Without a thread if there is nothing to wait for: the library runs tasks while it waits, which are not cut short."""
        handle, runtime, own = self.runtime.handle, self.runtime, self.handle

        def acquire(place: Any, said: Any) -> int:
            return int(lib.muster_data_acquire(handle, own, mode, limit, ctypes.byref(place), ctypes.byref(said)))

        def undo(result: int) -> None:
            if result == 0:
                lib.muster_data_release(handle, own, None)

        if limit == 0 or not runtime.unfinished:
            return acquire(pointer, err)
        place, said = ctypes.c_void_p(), _c.muster_error()
        wait = None if limit == _c.NEVER_NS else limit / 1e9 + GRACE
        status = Blocking(runtime, lambda: acquire(place, said), undo).wait(wait)
        if status is None:
            said.status, said.text = Status.TIMEOUT, b"the data is not free in the time allowed"
            status = int(Status.TIMEOUT)
        pointer.value = place.value
        ctypes.memmove(ctypes.byref(err), ctypes.byref(said), ctypes.sizeof(err))
        return status

    def _raise_thrown(self, must_release: bool) -> None:
        """What a function of its reduction has raised."""
        if self._thrown:
            if must_release:
                lib.muster_data_release(self.runtime.handle, self.handle, None)
            raise self._thrown.pop(0)

    @property
    def root(self) -> Data:
        found = self
        while found.whole is not None:
            found = found.whole
        return found

    # Reductions.

    def reduction(self, how: Reduction) -> Data:
        """How contributions of tasks that reduce into it are combined: "sum", "prod", "min", "max", or two functions, begin(to),
        which writes the neutral element, and combine(into, other). They are given arrays of one axis. Gives the data itself."""
        begin, combine = _named(how, self.form) if isinstance(how, str) else how
        form, thrown = self.form, self._thrown

        def flat(address: int, nbytes: int, is_written: bool) -> Any:
            return form.of_bytes(nbytes, True).at(address, nbytes, is_written)

        def call_begin(_: Any, to: int, nbytes: int) -> None:
            try:
                begin(flat(to, nbytes, True))
            except BaseException as failure:  # pylint: disable=broad-except
                thrown.append(failure)

        def call_combine(_: Any, into: int, other: int, nbytes: int) -> None:
            try:
                combine(flat(into, nbytes, True), flat(other, nbytes, False))
            except BaseException as failure:  # pylint: disable=broad-except
                thrown.append(failure)

        made = _c.muster_reduction(begin=_c.begin_function(call_begin), combine=_c.combine_function(call_combine))
        err = _c.muster_error()
        if lib.muster_data_reduction(self.runtime.handle, self.handle, ctypes.byref(made), ctypes.byref(err)):
            raise of(err)
        self._reduction = made
        return self

    # The end.

    def changed(self) -> None:
        """The array has other contents now, or will: drops the copies on devices. Waits for those who access it."""
        err = _c.muster_error()
        self._settle(err)
        if lib.muster_data_invalidate(self.runtime.handle, self.handle, ctypes.byref(err)):
            raise of(err)

    def close(self) -> None:
        """Waits for those who access it and brings it home; the array is the caller's alone again. Its parts are closed with it.
        Raises the failure of a task that should have written it."""
        if not self._is_there or not self.runtime.is_open:
            return
        for part in list(self.parts):
            part.close()
        err = _c.muster_error()
        self._settle(err)
        destroyed = lib.muster_data_destroy(self.runtime.handle, self.handle, ctypes.byref(err))
        self._is_there = destroyed in KEPT
        self._raise_thrown(False)
        if destroyed:
            raise of(err) from self.root.failed

    def _settle(self, err: Any) -> None:
        """Waits for the tasks that access it. The library's own wait here has a limit, and Ctrl-C would not end it."""
        if self.root.is_accessed:
            refuse_in_task("waiting for all that access data")
            if self._acquire(_c.MUSTER_READ_WRITE, _c.NEVER_NS, ctypes.c_void_p(), err) == 0:
                lib.muster_data_release(self.runtime.handle, self.handle, None)

    @property
    def is_open(self) -> bool:
        return self._is_there and self.runtime.is_open

    def __enter__(self) -> Data:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_there", False) or not self.runtime.is_open:
            return
        if self.root.is_accessed or is_in_task():
            # Perhaps on a thread that must not wait: the next call of the program's does it.
            self.runtime.finished.append(Left(self))
        else:
            lib.muster_data_destroy(self.runtime.handle, self.handle, None)

    def __repr__(self) -> str:
        kind = "token" if self.nbytes == 0 else "tile" if self.form.is_tile else "data" if self.whole is None else "part"
        return f"<muster.Data {kind} of {self.nbytes} bytes{'' if self.is_open else ', closed'}>"


class Left:
    """Data that is not referenced any more and still to be destroyed."""

    def __init__(self, data: Data) -> None:
        self.runtime, self.handle = data.runtime, data.handle
        self.keep = (data.array, data._seen, data.whole, data._reduction)

    def close(self) -> None:
        if self.runtime.is_open and lib.muster_data_destroy(self.runtime.handle, self.handle, None) in KEPT:
            self.runtime.finished.append(self)


class Acquired:
    """Data that the host accesses, until release() or the end of a with block; `array` is where it is, None for a token."""

    def __init__(self, data: Data, array: Any) -> None:
        self.data, self.array = data, array
        self._is_held = True
        data.runtime.held.add(self)

    def release(self) -> None:
        """Once; the array is not to be used any more."""
        is_held, self._is_held = self._is_held, False
        if is_held and self.data.is_open:
            err = _c.muster_error()
            if lib.muster_data_release(self.data.runtime.handle, self.data.handle, ctypes.byref(err)):
                raise of(err)

    def __enter__(self) -> Any:
        return self.array

    def __exit__(self, kind: Optional[type], value: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.release()

    def __del__(self) -> None:
        try:
            self.release()
        except Error:
            pass


def _bounds(key: Union[int, slice], length: int) -> Tuple[int, int]:
    """Where a cut along one axis begins and ends."""
    if isinstance(key, slice):
        begin, end, step = key.indices(length)
        if step != 1 or end <= begin:
            raise invalid(f"a part from {key.start} to {key.stop} by {key.step or 1} of {length}",
                          "parts are not empty and have no gaps")
        return begin, end
    at = key.__index__()
    at += length if at < 0 else 0
    if not 0 <= at < length:
        raise IndexError(f"{key} of {length}")
    return at, at + 1


def _named(how: str, form: Form) -> Tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]:
    if np is None:
        raise invalid(f"reduction '{how}' needs NumPy", "give two functions, begin and combine")
    known = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
    dtype = np.dtype(form.code)
    if how not in known or dtype.kind not in "iufc":
        raise invalid(f"no reduction '{how}' of {dtype}; known: {', '.join(known)}", "give two functions, begin and combine")
    limits = np.iinfo(dtype) if dtype.kind in "iu" else None
    neutral = {"sum": 0, "prod": 1, "min": limits.max if limits else np.inf, "max": limits.min if limits else -np.inf}[how]
    ufunc = known[how]
    return (lambda to: to.fill(neutral)), (lambda into, other: ufunc(into, other, out=into))


__all__ = ["Acquired", "Data", "Form", "Left", "form_of_size"]
