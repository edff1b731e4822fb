"""What a task does with data: found from the keywords of Runtime.submit, from muster.in_, out and inout, from the kernel's source,
and for a function of Python's in the end: it is read. Also what a task's function or kernel is given."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _c
from .arguments import Argument, Bound, _set_value, element_of_code, slots_of
from .arrays import is_array
from .data import Data, Form
from .errors import invalid
from .kernels import Kernel, Parameter

if TYPE_CHECKING:
    from .runtime import Runtime

# One piece of data, or several.
Used = Union[Data, Iterable[Data]]

BY_MARK = {_c.MUSTER_ARG_IN: _c.MUSTER_READ, _c.MUSTER_ARG_OUT: _c.MUSTER_WRITE, _c.MUSTER_ARG_INOUT: _c.MUSTER_READ_WRITE}
NAMES = {_c.MUSTER_READ: "reads", _c.MUSTER_WRITE: "writes", _c.MUSTER_READ_WRITE: "updates", _c.MUSTER_COMMUTE: "commutes",
         _c.MUSTER_REDUCE: "reduces"}
ALONE = (_c.MUSTER_COMMUTE, _c.MUSTER_REDUCE)  # modes that a task combines with no other of the same data


class Uses:
    """The accesses of one task, in order, each piece of data once."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.data: List[Data] = []
        self.modes: List[int] = []
        self._places: Dict[int, int] = {}

    def add(self, data: Any, mode: int) -> int:
        """Its number among the accesses."""
        if not isinstance(data, Data):
            raise invalid(f"{NAMES[mode]}= takes data, and {type(data).__name__} was given", "make it data: muster.data(array)")
        if data.runtime is not self.runtime:
            raise invalid("the data is another runtime's")
        if mode != _c.MUSTER_READ and data.is_readonly:
            raise invalid("a task writes data whose array is read-only")
        place = self._places.get(id(data))
        if place is None:
            place = self._places[id(data)] = len(self.data)
            self.data.append(data)
            self.modes.append(mode)
        elif self.modes[place] != mode:
            if mode in ALONE or self.modes[place] in ALONE:
                raise invalid(f"a task {NAMES[self.modes[place]]} and {NAMES[mode]} the same data")
            self.modes[place] = _c.MUSTER_READ_WRITE
        return place

    def place_of(self, data: Data) -> Optional[int]:
        return self._places.get(id(data))

    def made(self) -> Any:
        """In the library's form."""
        list_of = (_c.muster_task_access * len(self.data))()
        for one, data, mode in zip(list_of, self.data, self.modes):
            one.size, one.data, one.mode = ctypes.sizeof(one), data.handle, mode
            data.root.is_accessed = True
        return list_of

    def note_failure(self, thrown: BaseException) -> None:
        """For who acquires what was to be written."""
        for data, mode in zip(self.data, self.modes):
            if mode != _c.MUSTER_READ:
                data.root.failed = thrown


def uses_of(runtime: Runtime, reads: Used, writes: Used, updates: Used, commutes: Used, reduces: Used) -> Uses:
    uses = Uses(runtime)
    for used, mode in ((reads, _c.MUSTER_READ), (writes, _c.MUSTER_WRITE), (updates, _c.MUSTER_READ_WRITE),
                       (commutes, _c.MUSTER_COMMUTE), (reduces, _c.MUSTER_REDUCE)):
        for data in (used,) if isinstance(used, Data) else used:
            uses.add(data, mode)
    return uses


class Place(NamedTuple):
    """An argument of a function that is an array: which argument, of which access, what it looks like."""
    argument: int
    access: int
    form: Form
    is_written: bool


class Body:
    """A function of Python's as the body of a task with accesses: called with arrays where its data is."""

    def __init__(self, function: Callable[..., Any], given: Sequence[Any], uses: Uses) -> None:
        self.function, self.uses = function, uses
        self.given = list(given)
        found: List[Tuple[int, int, Form]] = []
        for index, value in enumerate(given):
            data = value.value if isinstance(value, Argument) and value.kind in BY_MARK else value
            if not isinstance(data, Data):
                continue
            mode = BY_MARK[value.kind] if isinstance(value, Argument) else None
            place = uses.place_of(data)
            if place is None or mode is not None:
                place = uses.add(data, _c.MUSTER_READ if mode is None else mode)
            found.append((index, place, data.form))
        self.places = [Place(index, place, form, uses.modes[place] != _c.MUSTER_READ) for index, place, form in found]

    def run(self, native: Any) -> Any:
        given = list(self.given)
        for argument, access, form, is_written in self.places:
            given[argument] = form.at(native.pointers[access], native.pitches[access], is_written)
        return self.function(*given)


def has_data(given: Sequence[Any]) -> bool:
    for value in given:
        if isinstance(value, Data) or (isinstance(value, Argument) and isinstance(value.value, Data) and value.kind in BY_MARK):
            return True
    return False


def is_flow(kernel: Kernel, given: Sequence[Any]) -> bool:
    """Whether a kernel's task that names no accesses has some: its arrays are all data. Data beside arrays is a table that
    is read whole, as in a job."""
    if not has_data(given) or kernel.parameters is None:
        return False
    return not any(isinstance(value, Argument) and not isinstance(value.value, Data) and value.value is not None or is_array(value)
                   for value in given if not isinstance(value, Data))


def bind_kernel(runtime: Runtime, kernel: Kernel, given: Sequence[Any], items: Optional[int], uses: Uses) -> Bound:
    """The arguments of a kernel whose arrays are accesses."""
    slots = slots_of(kernel, given, False, None)
    bound = Bound((_c.muster_arg * len(slots))(), 0)
    counts: List[Tuple[str, int]] = []
    for arg, slot in zip(bound.args, slots):
        arg.size = ctypes.sizeof(arg)
        marked = slot.value if isinstance(slot.value, Argument) else Argument(_c.MUSTER_ARG_VALUE, slot.value)
        if isinstance(marked.value, Data) and marked.kind == _c.MUSTER_ARG_PITCH:
            arg.kind, place = marked.kind, uses.place_of(marked.value)
            if place is None:
                raise invalid("muster.pitch of data that the task does not access", "give the data before it")
            arg.offset = place
        elif isinstance(marked.value, Data) and (marked.kind in BY_MARK or marked.kind == _c.MUSTER_ARG_VALUE):
            arg.kind = _c.MUSTER_ARG_ACCESS
            arg.offset = _access(uses, marked.value, BY_MARK.get(marked.kind), slot.parameter)
            counts.append((str(slot.parameter or "?"), _items_of(marked.value, slot.parameter)))
        elif marked.kind == _c.MUSTER_ARG_VALUE and not is_array(marked.value):
            arg.kind = marked.kind
            _set_value(bound, arg, slot.parameter, marked.value)
        elif marked.kind == _c.MUSTER_ARG_FIRST:
            arg.kind = marked.kind
        else:
            raise invalid(f"parameter {slot.parameter or '?'}: an argument of a task with accesses is an array",
                          "make it data that the task accesses: muster.data(x)")
    bound.items = _count(kernel, counts, items)
    bound.keep.extend(uses.data)
    return bound


def _access(uses: Uses, data: Data, mode: Optional[int], parameter: Optional[Parameter]) -> int:
    place = uses.place_of(data)
    if place is None or mode is not None:
        if mode is None:
            if parameter is None:
                raise invalid("what data is for is unknown: no form of the kernel is portable source",
                              "name it as reads=, writes=, updates=, commutes= or reduces=")
            mode = _c.MUSTER_READ if parameter.is_const else _c.MUSTER_READ_WRITE
        place = uses.add(data, mode)
    if parameter is not None:
        if not parameter.is_array:
            raise invalid(f"parameter {parameter} is a value, and data was given")
        if not parameter.is_const and uses.modes[place] == _c.MUSTER_READ:
            raise invalid(f"parameter {parameter} is written, and its data is only read", "name it as updates= or writes=")
        if parameter.code and data.form.element not in (_c.MUSTER_ELEMENT_UNKNOWN, element_of_code(parameter.code)):
            raise invalid(f"parameter {parameter}: the data has elements of type {data.dtype}")
    return place


def _items_of(data: Data, parameter: Optional[Parameter]) -> int:
    """-1: it does not say."""
    if data.form.is_tile:
        return -1
    size = parameter.nbytes if parameter is not None and parameter.nbytes else data.form.itemsize
    return data.nbytes // size


def _count(kernel: Kernel, counts: Sequence[Tuple[str, int]], items: Optional[int]) -> int:
    if items is not None:
        if not 0 <= items < _c.ITEMS_UNKNOWN:
            raise invalid(f"{items} items")
        return items
    known = {count for _, count in counts}
    if -1 in known or not known:
        raise invalid(f"how many items the task of {kernel.name} has is unknown",
                      "give items=; rows of a tile are muster.pitch(tile) bytes apart")
    if len(known) > 1:
        raise invalid(f"the data of {kernel.name} have different numbers of elements: "
                      + ", ".join(f"{name} has {count}" for name, count in counts), "give items=")
    return known.pop()
