"""What is known of an array's memory, wherever it came from."""
import ctypes
import sys
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from . import _c
from .errors import invalid

# What Muster calls the elements, by kind ("i" with or without a sign, "f") and bytes.
ELEMENTS = {("i", 1): _c.MUSTER_ELEMENT_INT8, ("i", 2): _c.MUSTER_ELEMENT_INT16, ("i", 4): _c.MUSTER_ELEMENT_INT32,
            ("i", 8): _c.MUSTER_ELEMENT_INT64, ("f", 4): _c.MUSTER_ELEMENT_FLOAT, ("f", 8): _c.MUSTER_ELEMENT_DOUBLE}
OTHER_ORDER = ">" if sys.byteorder == "little" else "<"
CONTIGUOUS = "give a contiguous array, for example numpy.ascontiguousarray(x)"

# From this size on a copy is worth letting other threads of Python's run meanwhile.
LARGE = 1 << 16
_memcpy = ctypes.CDLL(None).memcpy
_memcpy.argtypes, _memcpy.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_void_p


class View(NamedTuple):
    """Where an array's items are. `owner` keeps them there."""
    address: int
    nbytes: int
    itemsize: int
    element: int
    is_readonly: bool
    shape: Tuple[int, ...]
    device: Optional[int]  # the number of a CUDA device; None: the host
    owner: Any


def element_of(typestr: str, itemsize: int) -> int:
    """Of NumPy's "<f4" and so on. Refuses the other order of bytes."""
    if typestr[:1] == OTHER_ORDER and itemsize > 1:
        raise invalid(f"the array's numbers ({typestr}) have the bytes in another order than this machine",
                      "convert it: x.astype(x.dtype.newbyteorder('='))")
    kind = {"u": "i", "b": "i"}.get(typestr[1:2], typestr[1:2])
    return ELEMENTS.get((kind, itemsize), _c.MUSTER_ELEMENT_UNKNOWN)


def count_of(shape: Sequence[int]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


def require_contiguous(shape: Tuple[int, ...], strides: Sequence[int], itemsize: int) -> None:
    """Strides in bytes. An array without elements is contiguous whatever they are."""
    expected = itemsize
    for length, stride in zip(reversed(shape), reversed(tuple(strides))):
        if length > 1 and stride != expected and 0 not in shape:
            raise invalid(f"an array of shape {shape} with strides {tuple(strides)} is not contiguous", CONTIGUOUS)
        expected *= length


def copy(to: int, source: int, nbytes: int) -> None:
    if nbytes >= LARGE:
        _memcpy(to, source, nbytes)
    else:
        ctypes.memmove(to, source, nbytes)
