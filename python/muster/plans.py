"""Calls that look like an earlier one: the same kernel, numbers and NumPy arrays of the same types in the same places.

The first such call goes through arguments.bind. What that made is kept, and later calls only put other addresses and numbers
into a copy of it, which takes a few microseconds. Anything unusual - a mark, a number that does not fit, an array that is not
contiguous - goes the long way, which also has the words for what is wrong.
"""
from __future__ import annotations

import ctypes
import struct
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

from . import _c
from .arguments import OMITTED, Bound, bind, slots_of
from .arrays import np

if TYPE_CHECKING:
    from .kernels import Kernel
    from .runtime import Runtime

ARG = ctypes.sizeof(_c.muster_arg)
IN, OUT = _c.muster_arg.in_.offset, _c.muster_arg.out.offset
VALUE = 8  # bytes for each number, after the arguments
PLANS_MAX = 64  # of one kernel
_address = struct.Struct("@P").pack_into
_one = ctypes.c_char.from_buffer
_addressof = ctypes.addressof


class Plan:
    """How the memory of a call's arguments differs from that of an earlier one."""

    def __init__(self, kernel: Kernel, given: Sequence[Any], is_map: bool, bound: Bound) -> None:
        slots = slots_of(kernel, given, is_map, None)
        self.count = len(slots)
        self.template = bytes(bound.args) + bytes(VALUE * self.count)
        self.make = (_c.muster_arg * self.count).from_buffer
        self.numbers: List[Tuple[int, Any, int, int]] = []  # which value, how it is packed, where, where its address goes
        self.arrays: List[Tuple[int, int, int, bool]] = []  # which value, where its addresses go, whether it is changed
        self.copied: List[Tuple[int, int]] = []  # which value a result begins as, and its argument
        self.results: List[Tuple[Any, int]] = []  # of what type, and where its address goes
        left = 0
        for index, slot in enumerate(slots):
            at, parameter = index * ARG, slot.parameter
            assert parameter is not None
            if slot.value is OMITTED:
                self.results.append((np.dtype(parameter.code), at + OUT))
                continue
            if not parameter.is_array:
                packed = struct.Struct(parameter.code).pack_into
                self.numbers.append((left, packed, self.count * ARG + index * VALUE, at + IN))
            elif slot.is_result:
                self.copied.append((left, at))
            else:
                self.arrays.append((left, at + IN, -1 if parameter.is_const else at + OUT, not parameter.is_const))
            left += 1
        self.counted = (self.arrays or self.copied)[0][0]  # the array that says how many items there are

    def fill(self, given: Sequence[Any]) -> Optional[Bound]:
        """None: these arguments need the long way."""
        memory = bytearray(self.template)
        arrays = self.arrays
        items = given[self.counted].size
        if items == 0:
            return None
        bound = Bound(self.make(memory), items)
        keep = bound.keep
        keep.append(memory)
        for which, place, other, is_changed in arrays:
            array = given[which]
            flags = array.flags
            if array.size != items or not flags.c_contiguous:
                return None
            if flags.writeable:
                address = _addressof(_one(array))
            elif is_changed:
                return None
            else:
                address = array.__array_interface__["data"][0]
            _address(memory, place, address)
            if other >= 0:
                _address(memory, other, address)
            keep.append(array)
        if self.numbers:
            base = _addressof(bound.args)
            for which, pack, place, pointer in self.numbers:
                try:
                    pack(memory, place, given[which])
                except (struct.error, OverflowError):
                    return None
                _address(memory, pointer, base + place)
        for which, at in self.copied:
            if given[which].size != items or not given[which].flags.c_contiguous:
                return None
            made = given[which].copy()
            address = _addressof(_one(made))
            _address(memory, at + IN, address)
            _address(memory, at + OUT, address)
            bound.results.append(made)
        for dtype, place in self.results:
            made = np.empty(given[self.counted].shape, dtype)
            _address(memory, place, _addressof(_one(made)))
            bound.results.append(made)
        return bound


def bind_call(runtime: Runtime, kernel: Kernel, given: Sequence[Any], items: Optional[int], is_map: bool,
              targets: Any) -> Bound:
    """As arguments.bind, by an earlier call where there is one."""
    if items is not None or targets is not None or np is None or kernel.parameters is None:
        return bind(runtime, kernel, given, items, is_map, targets)
    kinds: List[Any] = [is_map]
    for value in given:
        kind = type(value)
        if kind is np.ndarray:
            kinds.append(value.dtype)
        elif kind is float or kind is int:
            kinds.append(kind)
        else:
            return bind(runtime, kernel, given, items, is_map, targets)
    key = tuple(kinds)
    plan: Optional[Plan] = kernel.plans.get(key)
    if plan is not None:
        filled = plan.fill(given)
        if filled is not None:
            return filled
    bound = bind(runtime, kernel, given, items, is_map, targets)
    if plan is None and is_plain(kernel, given, bound) and len(kernel.plans) < PLANS_MAX:
        kernel.plans[key] = Plan(kernel, given, is_map, bound)
    return bound


def is_plain(kernel: Kernel, given: Sequence[Any], bound: Bound) -> bool:
    """Whether each item is one element of every array, and nothing was made but results."""
    arrays = [value for value in given if type(value) is np.ndarray]
    parameters = [p for p in kernel.parameters or () if "MUSTER_PARTIAL" not in p.type]
    known = [bool(p.code) for p in parameters]
    return bool(arrays) and all(known) and not bound.release and all(
        arg.bytes == np.dtype(p.code).itemsize for arg, p in zip(bound.args, parameters))
