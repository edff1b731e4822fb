"""Functions of Python's as kernels. They run on Muster's threads, one at a time as far as they hold the interpreter's lock:
worth it where they call what releases that, as NumPy does for large arrays."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Sequence, Tuple

from . import _c
from ._library import lib
from .arguments import IS_WRITTEN, Argument, Bound, in_, out
from .arguments import bind as bind_kernel
from .arrays import is_array, np, view
from .errors import Error, Status, invalid, of
from .kernels import Kernel

if TYPE_CHECKING:
    from .runtime import Runtime


class Shape:
    """How an argument's items look to the function."""

    def __init__(self, array: Any, items: Optional[int]) -> None:
        seen = view(array)
        if seen.device is not None:
            raise invalid("a function of Python's cannot read device memory")
        self.code = array.dtype if np is not None and isinstance(array, np.ndarray) else memoryview(array).format
        self.itemsize = seen.itemsize
        # Without a number of items each element is one.
        self.inner: Tuple[int, ...] = () if items is None else tuple(seen.shape[1:]) if seen.shape[0] == items else (-1,)
        self.bytes = seen.itemsize if not items else seen.nbytes // items

    def at(self, address: int, begin: int, end: int, is_written: bool) -> Any:
        size = (end - begin) * self.bytes
        memory = (ctypes.c_char * size).from_address(address + begin * self.bytes)
        if np is None:
            return memoryview(memory).cast("B").cast(self.code)
        made = np.frombuffer(memory, self.code)
        if self.inner:
            made = made.reshape(end - begin, *self.inner)
        made.flags.writeable = is_written
        return made


class Function:
    """What the library calls, and what the function has raised."""

    def __init__(self, function: Callable[..., Any], shapes: List[Shape], written: List[bool]) -> None:
        self.thrown: List[BaseException] = []

        def call(begin: int, end: int, args: Any) -> int:
            try:
                places = [ctypes.c_void_p.from_address(args[i]).value or 0 for i in range(len(shapes))]
                function(*[shape.at(place, begin, end, w) for shape, place, w in zip(shapes, places, written)])
                return 0
            except BaseException as failure:  # pylint: disable=broad-except
                self.thrown.append(failure)
                return failure.status if isinstance(failure, Error) else Status.FAILED

        self.pointer = _c.kernel_function(call)


def bind(runtime: Runtime, function: Callable[..., Any], given: Sequence[Any], items: Optional[int], is_map: bool,
         targets: Any) -> Tuple[Kernel, Bound, List[BaseException]]:
    """A kernel for one call. Arrays are only read unless marked; a map adds one result, like the first array."""
    marked: List[Argument] = []
    for value in given:
        if not isinstance(value, Argument):
            if not is_array(value):
                raise invalid(f"a function of Python's is given arrays, and not {type(value).__name__}",
                              "let the function use the value from where it is defined")
            value = in_(value)
        marked.append(value)
    results: List[Any] = []
    if is_map:
        if not marked:
            raise invalid("a map without arrays")
        results = [targets if targets is not None else like(marked[0].value)]
        marked.append(out(results[0]))
    shapes = [Shape(one.value, items) for one in marked]
    made = Function(function, shapes, [one.kind in IS_WRITTEN for one in marked])
    name = getattr(function, "__name__", "function")
    form = _c.muster_kernel_form(kind=_c.MUSTER_KERNEL_FUNCTION, function=made.pointer)
    handle, err = ctypes.c_void_p(), _c.muster_error()
    if lib.muster_kernel_from(runtime.handle, name.encode(), ctypes.byref(form), 1, ctypes.byref(handle),
                              ctypes.byref(err)):
        raise of(err)
    kernel = Kernel(runtime, handle, name, made)
    bound = bind_kernel(runtime, kernel, marked, items)
    bound.results = results
    return kernel, bound, made.thrown


def like(array: Any) -> Any:
    """A new array of the same shape and elements."""
    if np is not None and isinstance(array, np.ndarray):
        return np.empty(array.shape, array.dtype)
    from .arrays import new
    return new(memoryview(array).format, (len(array),))
