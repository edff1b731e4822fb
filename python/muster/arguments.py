"""From Python values to the arguments of a kernel.

A kernel's source says which parameters are numbers and which are arrays, and which arrays are only read, so plain values
suffice: muster.for_("saxpy.c", 2.0, x, y). The functions of this file say what the source cannot.
"""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _c
from .arrays import is_array, new, np, view
from .data import Data
from .errors import InvalidError, invalid
from .kernels import Kernel, Parameter
from .memory import View, copy, count_of

if TYPE_CHECKING:
    from .runtime import Runtime

BORDERS = {"zero": _c.MUSTER_BORDER_ZERO, "clamp": _c.MUSTER_BORDER_CLAMP, "wrap": _c.MUSTER_BORDER_WRAP}
ON_DEVICE = {_c.MUSTER_ARG_IN: _c.MUSTER_ARG_DEVICE_IN, _c.MUSTER_ARG_OUT: _c.MUSTER_ARG_DEVICE_OUT,
             _c.MUSTER_ARG_INOUT: _c.MUSTER_ARG_DEVICE_INOUT}
IS_WRITTEN = (_c.MUSTER_ARG_OUT, _c.MUSTER_ARG_INOUT)
NUMBERS: Dict[str, Any] = {"f": ctypes.c_float, "d": ctypes.c_double, "b": ctypes.c_int8, "B": ctypes.c_uint8, "h": ctypes.c_int16,
           "H": ctypes.c_uint16, "i": ctypes.c_int32, "I": ctypes.c_uint32, "q": ctypes.c_int64, "Q": ctypes.c_uint64}
LIMITS = {code: (-(1 << 8 * ctypes.sizeof(kind) - 1), (1 << 8 * ctypes.sizeof(kind) - 1) - 1) if code.islower()
          else (0, (1 << 8 * ctypes.sizeof(kind)) - 1) for code, kind in NUMBERS.items() if code not in "fd"}


class Argument(NamedTuple):
    """One argument with what is said of it: in_, out and their siblings make it."""
    kind: int
    value: Any = None
    halo: int = 0
    border: int = 0
    size: Tuple[int, ...] = ()


def in_(array: Any, halo: int = 0, border: str = "zero") -> Argument:
    """An array that is only read. With a halo the kernel may read this many items before and after its own, in a grid this many
    cells in every direction; outside the data is what `border` says: "zero", "clamp" (the nearest) or "wrap"."""
    return Argument(_c.MUSTER_ARG_IN, array, halo, border_of(border))


def out(array: Any) -> Argument:
    """An array that is only written. What the kernel does not write is unspecified afterwards."""
    return Argument(_c.MUSTER_ARG_OUT, array)


def inout(array: Any) -> Argument:
    """An array whose items are read and then written."""
    return Argument(_c.MUSTER_ARG_INOUT, array)


def all(table: Union[Data, Any]) -> Argument:  # pylint: disable=redefined-builtin
    """An array, or data made by muster.share, that every item sees whole. It is only read."""
    return Argument(_c.MUSTER_ARG_ALL, table)


def pitch(data: Data) -> Argument:
    """The bytes from one row of a tile to the next where the task runs, for a parameter `uint64_t pitch` of its kernel."""
    return Argument(_c.MUSTER_ARG_PITCH, data)


first = Argument(_c.MUSTER_ARG_FIRST)
"""The number of the unit's first item, for a parameter `uint64_t first`."""


def grid(*size: Any) -> Argument:
    """Items are cells: grid(width, height), grid(width, height, depth), or grid(array) for the shape of a NumPy array, whose
    last axis is the width. For a parameter `struct muster_cell`."""
    if len(size) == 1:
        size = tuple(reversed(size[0].shape))
    if len(size) not in (2, 3):
        raise invalid(f"a grid of {len(size)} dimensions", "give width and height, or width, height and depth")
    return Argument(_c.MUSTER_ARG_GRID, size=tuple(map(int, size)))


def border_of(name: str) -> int:
    if name not in BORDERS:
        raise invalid(f"unknown border '{name}'; known: {', '.join(BORDERS)}")
    return BORDERS[name]


class Bound:
    """Arguments in the library's form, and all that must stay until nothing uses them."""

    __slots__ = ("args", "items", "keep", "results", "release")

    def __init__(self, args: Any, items: int) -> None:
        self.args, self.items = args, items
        self.keep: List[Any] = []
        self.results: List[Any] = []
        self.release: List[Callable[[], None]] = []  # of blocks and data that were made for the call

    def close(self) -> None:
        release, self.release = self.release, []
        for one in release:
            one()


class Slot(NamedTuple):
    """What goes to one parameter: the value, and in a map where its result goes."""
    parameter: Optional[Parameter]
    value: Any
    target: Any = None
    is_result: bool = False


OMITTED = object()
MADE = object()


def slots_of(kernel: Kernel, given: Sequence[Any], is_map: bool, targets: Any) -> List[Slot]:
    """Which value belongs to which parameter. In a map results may be left out: they are made, or given as `targets`."""
    parameters = kernel.parameters
    if parameters is None:
        if is_map:
            raise invalid(f"the results of {kernel.name} are unknown: none of its forms is portable source",
                          "use for_ with muster.in_(x) and muster.out(y)")
        return [Slot(None, value) for value in given]
    taken = [p for p in parameters if "MUSTER_PARTIAL" not in p.type]
    written = [p for p in taken if p.is_array and not p.is_const]
    if is_map and len(given) == len(taken) - len(written) < len(taken):
        rest = iter(given)
        given = [OMITTED if p.is_array and not p.is_const else next(rest) for p in taken]
    if len(given) != len(taken):
        raise invalid(f"kernel {kernel.name} takes {len(taken)} arguments ({', '.join(map(str, taken))}), and "
                      f"{len(given)} were given" + (f"; {len(written)} may be left out" if is_map and written else ""))
    if not is_map:
        return [Slot(p, value) for p, value in zip(taken, given)]
    if targets is None:
        where = [MADE] * len(written)
    else:
        where = list(targets) if isinstance(targets, (tuple, list)) else [targets]
    if len(where) != len(written):
        raise invalid(f"kernel {kernel.name} has {len(written)} results, and {len(where)} arrays were given as out")
    left = iter(where)
    return [Slot(p, value, next(left), True) if p.is_array and not p.is_const else Slot(p, value)
            for p, value in zip(taken, given)]


def bind(runtime: Runtime, kernel: Kernel, given: Sequence[Any], items: Optional[int] = None, is_map: bool = False,
         targets: Any = None) -> Bound:
    """Finds the memory of every argument and the number of items. Nothing is copied but numbers."""
    slots = slots_of(kernel, given, is_map, targets)
    if len(slots) > _c.MUSTER_ARGS_MAX:
        raise invalid(f"{len(slots)} arguments; a kernel takes at most {_c.MUSTER_ARGS_MAX}")
    found = [_look(slot) for slot in slots]
    bound = Bound((_c.muster_arg * len(slots))(), _count(kernel, slots, found, items))
    try:
        for arg, slot, (marked, seen) in zip(bound.args, slots, found):
            arg.size = ctypes.sizeof(arg)
            arg.kind = marked.kind
            if marked.kind in ON_DEVICE:
                _set_array(runtime, bound, arg, slot, marked, seen, items is not None or _has_grid(found), found)
            else:
                _set_marked(runtime, bound, arg, slot.parameter, marked)
    except BaseException:
        bound.close()
        raise
    return bound


def set_other(runtime: Runtime, bound: Bound, arg: Any, parameter: Parameter, value: Any) -> None:
    """An argument that is no array cut by item."""
    marked, _ = _look(Slot(parameter, value))
    if marked.kind in ON_DEVICE:
        raise invalid(f"parameter {parameter}: an array that is cut by item has no place here", "give muster.all(x)")
    _set_marked(runtime, bound, arg, parameter, marked)


def _set_marked(runtime: Runtime, bound: Bound, arg: Any, parameter: Optional[Parameter], marked: Argument) -> None:
    arg.kind = marked.kind
    if marked.kind == _c.MUSTER_ARG_VALUE:
        _set_value(bound, arg, parameter, marked.value)
    elif marked.kind == _c.MUSTER_ARG_ALL:
        _set_data(runtime, bound, arg, marked.value)
    elif marked.kind in (_c.MUSTER_ARG_GRID, _c.MUSTER_ARG_PICTURES):
        arg.width, arg.height, arg.depth = (*marked.size, 0)[:3]


def _look(slot: Slot) -> Tuple[Argument, Optional[View]]:
    """What an argument is, and its memory."""
    value, parameter = slot.value, slot.parameter
    marked = value if isinstance(value, Argument) else None
    if marked is None:
        if value is OMITTED:
            return Argument(_c.MUSTER_ARG_OUT), None
        if isinstance(value, Data):
            return Argument(_c.MUSTER_ARG_ALL, value), None
        if parameter is None:
            if is_array(value):
                raise invalid("what an array is for is unknown: no form of the kernel is portable source",
                              "say muster.in_(x), muster.out(x) or muster.inout(x)")
            return Argument(_c.MUSTER_ARG_VALUE, value), None
        if not parameter.is_array:
            return Argument(_c.MUSTER_ARG_VALUE, value), None
        marked = Argument(_c.MUSTER_ARG_IN if parameter.is_const else _c.MUSTER_ARG_INOUT, value)
    if marked.kind not in ON_DEVICE:
        return marked, None
    try:
        return marked, view(marked.value)
    except InvalidError as failure:
        if parameter is not None:
            raise invalid(f"parameter {parameter}: {failure.text}", failure.fix) from None
        raise


def _has_grid(found: Sequence[Tuple[Argument, Optional[View]]]) -> bool:
    for marked, _ in found:
        if marked.kind == _c.MUSTER_ARG_GRID:
            return True
    return False


def _count(kernel: Kernel, slots: Sequence[Slot], found: Sequence[Tuple[Argument, Optional[View]]],
           items: Optional[int]) -> int:
    if items is not None:
        if not 0 <= items < _c.ITEMS_UNKNOWN:
            raise invalid(f"{items} items")
        return items
    counts = []
    for slot, (marked, seen) in zip(slots, found):
        if marked.kind == _c.MUSTER_ARG_GRID:
            return count_of(marked.size)
        if seen is not None:
            counts.append(seen.nbytes // _natural(slot.parameter, seen))
    if not counts:
        raise invalid(f"kernel {kernel.name} was given no array, so the number of items is unknown", "give items=")
    if counts.count(counts[0]) != len(counts):
        named = ", ".join(f"{slot.parameter.name if slot.parameter else '?'} has {seen.nbytes // _natural(slot.parameter, seen)}"
                          for slot, (_, seen) in zip(slots, found) if seen is not None)
        raise invalid(f"the arrays of {kernel.name} have different numbers of elements: {named}",
                      "give items= if an item has several elements, muster.all(x) for an array that all items see whole")
    return counts[0]


def _natural(parameter: Optional[Parameter], seen: View) -> int:
    """Bytes of an item, unless the number of items says otherwise."""
    is_known = parameter is not None and parameter.code and seen.element != _c.MUSTER_ELEMENT_UNKNOWN
    if parameter is not None and parameter.nbytes and not is_known and seen.nbytes % parameter.nbytes == 0:
        return parameter.nbytes
    return seen.itemsize or 1


def _set_array(runtime: Runtime, bound: Bound, arg: Any, slot: Slot, marked: Argument, seen: Optional[View],
               is_counted: bool, found: Sequence[Tuple[Argument, Optional[View]]]) -> None:
    target: Optional[View] = None
    if slot.is_result:
        result = _make(bound, slot, found) if slot.target is MADE else slot.target
        target = view(result)
        bound.results.append(result)
        if seen is not None:
            _copy(slot, seen, target)
    shown = target or seen
    assert shown is not None
    bound.keep.append(shown.owner)
    arg.bytes = _item_bytes(bound.items, shown, slot.parameter, is_counted)
    arg.element, arg.halo, arg.border = shown.element, marked.halo, marked.border
    if marked.kind in IS_WRITTEN and shown.is_readonly:
        raise invalid(f"parameter {slot.parameter or ''} is written, and the array is read-only")
    if shown.device is not None:
        arg.kind = ON_DEVICE[marked.kind]
        if shown.nbytes > 0:
            arg.block, forget = runtime.declare(shown.device, shown.address, shown.nbytes)
            bound.release.append(forget)
        return
    if marked.kind != _c.MUSTER_ARG_OUT:
        arg.in_ = shown.address
    if marked.kind in IS_WRITTEN:
        arg.out = shown.address


def _copy(slot: Slot, seen: View, target: View) -> None:
    """Of what a map reads and writes: the result begins as what was given, and is then changed where it is. The library can
    read one array and write another, but that takes longer than this copy."""
    if (seen.device, seen.address) == (target.device, target.address):
        return
    if seen.device is not None or target.device is not None:
        raise invalid(f"parameter {slot.parameter} is read and written in device memory, and its result has another place",
                      "use for_, which changes the array, or give the same array as out=")
    if (seen.nbytes, seen.element) != (target.nbytes, target.element) or target.is_readonly:
        raise invalid(f"parameter {slot.parameter}: the array to read has {seen.nbytes} bytes, that to write "
                      f"{target.nbytes}, or it is read-only, or its elements are others")
    copy(target.address, seen.address, seen.nbytes)


def _item_bytes(items: int, shown: View, parameter: Optional[Parameter], is_counted: bool) -> int:
    if not is_counted or items == 0:
        return _natural(parameter, shown)
    if shown.nbytes % items != 0 or shown.nbytes == 0:
        raise invalid(f"parameter {parameter or ''}: {shown.nbytes} bytes are not a whole number for each of {items} items")
    return shown.nbytes // items


def _make(bound: Bound, slot: Slot, found: Sequence[Tuple[Argument, Optional[View]]]) -> Any:
    """A new array for a result: like the array it replaces, or like the first one that is read."""
    parameter = slot.parameter
    assert parameter is not None
    if slot.value is not OMITTED:
        source = slot.value.value if isinstance(slot.value, Argument) else slot.value
        old = view(source)
        if old.device is not None:
            raise invalid(f"parameter {parameter} is an array in device memory, and a map makes new arrays in the host's",
                          "give out=, or use for_, which changes the array")
        if np is not None and isinstance(source, np.ndarray):
            return np.empty(source.shape, source.dtype)
        return new(parameter.code, old.shape) if parameter.code else bytearray(old.nbytes)
    if not parameter.code:
        raise invalid(f"what elements {parameter} has is unknown", "give out=")
    shape: Tuple[int, ...] = (bound.items,)
    for _, seen in found:
        if seen is not None and seen.device is not None:
            raise invalid("a map makes new arrays in the host's memory, and its arguments are in device memory",
                          "give out=")
        if seen is not None and count_of(seen.shape) == bound.items:
            shape = seen.shape
            break
    return new(parameter.code, shape)


def _set_value(bound: Bound, arg: Any, parameter: Optional[Parameter], value: Any) -> None:
    code = parameter.code if parameter is not None else ""
    held: Any
    if code:
        held = number_of(parameter, code, value)
        arg.element = element_of_code(code)
    elif isinstance(value, (ctypes._SimpleCData, ctypes.Structure)):
        held = value
    elif isinstance(value, (int, float)) and type(value).__module__ == "builtins":
        raise invalid(f"how many bytes {value!r} has is unknown", "give a typed number, for example numpy.float32(2)")
    else:
        data = bytes(memoryview(value)) if np is None or not isinstance(value, np.generic) else value.tobytes()
        held = ctypes.create_string_buffer(data, len(data))
    arg.in_, arg.bytes = ctypes.addressof(held), ctypes.sizeof(held)
    bound.keep.append(held)


def number_of(parameter: Optional[Parameter], code: str, value: Any) -> Any:
    """A number as C has it; one that does not fit is refused."""
    kind = NUMBERS[code]
    try:
        if code in "fd":
            return kind(value)
        whole = value.__index__()
        low, high = LIMITS[code]
        if low <= whole <= high:
            return kind(whole)
        raise invalid(f"parameter {parameter}: {whole} is not between {low} and {high}")
    except (TypeError, AttributeError):
        wanted = "a number" if code in "fd" else "a whole number"
        raise invalid(f"parameter {parameter} is {wanted}, and {type(value).__name__} was given") from None


def element_of_code(code: str) -> int:
    if code in "fd":
        return _c.MUSTER_ELEMENT_FLOAT if code == "f" else _c.MUSTER_ELEMENT_DOUBLE
    return {1: _c.MUSTER_ELEMENT_INT8, 2: _c.MUSTER_ELEMENT_INT16, 4: _c.MUSTER_ELEMENT_INT32,
            8: _c.MUSTER_ELEMENT_INT64}[ctypes.sizeof(NUMBERS[code])]


def _set_data(runtime: Runtime, bound: Bound, arg: Any, table: Any) -> None:
    if not isinstance(table, Data):
        table = Data(runtime, table)
        bound.release.append(table.close)
    arg.data = table.handle
    bound.keep.append(table)
