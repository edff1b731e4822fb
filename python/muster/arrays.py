"""Memory of others without copies: NumPy arrays, buffers, __cuda_array_interface__ and DLPack.

NumPy is used where it is installed. Without it everything works on buffers, and new arrays are array.array.
"""
import array
import ctypes
import sys
from typing import Any, Dict, Tuple

from . import _c, cuda, dlpack
from .errors import invalid
from .memory import CONTIGUOUS, ELEMENTS, View, count_of, element_of, require_contiguous

np: Any
try:
    import numpy as np
except ImportError:
    np = None


def new(code: str, shape: Tuple[int, ...]) -> Any:
    """A new array of numbers, by the code of the modules struct and array."""
    if np is not None:
        return np.empty(shape, code)
    return array.array(code, bytes(count_of(shape) * array.array(code).itemsize))


def is_array(x: Any) -> bool:
    """Whether `x` is memory, and not a number."""
    if np is not None and isinstance(x, (np.ndarray, np.generic)):
        return isinstance(x, np.ndarray) and x.ndim > 0
    if isinstance(x, (int, float, complex, str)):
        return False
    if hasattr(x, "__cuda_array_interface__") or hasattr(x, "__dlpack__"):
        return True
    try:
        memoryview(x)
        return True
    except TypeError:
        return False


def view(x: Any) -> View:
    """Finds the memory of `x`. Nothing is copied; what is not contiguous is refused."""
    if np is not None and type(x) is np.ndarray:
        return of_numpy(x)
    if hasattr(x, "__cuda_array_interface__"):
        return of_cuda_array(x)
    try:
        return of_buffer(x)
    except TypeError:
        pass
    if hasattr(x, "__dlpack__"):
        return dlpack.of_dlpack(x)
    raise invalid(f"{type(x).__name__} is no array: it is no buffer and has neither __cuda_array_interface__ nor __dlpack__")


# A dtype's code, found once: numpy makes a new string for every question.
_dtypes: Dict[Any, int] = {}


def of_numpy(x: Any) -> View:
    flags = x.flags
    if not flags.c_contiguous:
        raise invalid(f"an array of shape {x.shape} with strides {x.strides} is not contiguous", CONTIGUOUS)
    dtype = x.dtype
    known = _dtypes.get(dtype)
    if known is None:
        known = _dtypes[dtype] = element_of(dtype.str, dtype.itemsize)
        if dtype.hasobject:
            del _dtypes[dtype]
            raise invalid("an array of Python objects has no items that a kernel could read")
    itemsize = dtype.itemsize
    return View(x.__array_interface__["data"][0], x.size * itemsize, itemsize, known, not flags.writeable, x.shape, None, x)


class Buffer(ctypes.Structure):
    """Py_buffer, of objects that have the buffer protocol: it gives the address of read-only memory too."""
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]

    def __del__(self) -> None:
        if self.len >= 0:
            _release(ctypes.byref(self))


_get = ctypes.pythonapi.PyObject_GetBuffer
_get.argtypes, _get.restype = [ctypes.py_object, ctypes.c_void_p, ctypes.c_int], ctypes.c_int
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes, _release.restype = [ctypes.c_void_p], None
PyBUF_STRIDED_RO = 0x10 | 0x8 | 0x4


def of_buffer(x: Any) -> View:
    # A memoryview knows the shape and the format, and fails with TypeError for what is no buffer.
    seen = memoryview(x)
    if not seen.c_contiguous:
        raise invalid(f"a buffer of shape {seen.shape} with strides {seen.strides} is not contiguous", CONTIGUOUS)
    held = Buffer()
    held.len = -1
    _get(seen, ctypes.addressof(held), PyBUF_STRIDED_RO)
    code = seen.format.lstrip("@=<" if sys.byteorder == "little" else "@=>")
    kind = "f" if code in ("f", "d") else "i" if len(code) == 1 and code in "bBchHiIlLqQ?" else ""
    # Plain bytes may be anything.
    is_plain = isinstance(x, (bytes, bytearray))
    element = ELEMENTS.get((kind, seen.itemsize), _c.MUSTER_ELEMENT_UNKNOWN) if not is_plain else _c.MUSTER_ELEMENT_UNKNOWN
    return View(held.buf or 0, seen.nbytes, seen.itemsize, element, seen.readonly, tuple(seen.shape or ()), None, (held, x))


def of_cuda_array(x: Any) -> View:
    """https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, versions 0 to 3."""
    said = x.__cuda_array_interface__
    shape, typestr = tuple(said["shape"]), said["typestr"]
    address, is_readonly = said["data"]
    itemsize = int(typestr[2:])
    count = count_of(shape)
    if said.get("strides") is not None:
        require_contiguous(shape, said["strides"], itemsize)
    if said.get("mask") is not None:
        raise invalid("a device array with a mask has items that do not count", "give it without the mask")
    device = cuda.device_of(address) if count > 0 else 0
    cuda.synchronise(device, said.get("stream"))
    return View(address or 0, count * itemsize, itemsize, element_of(typestr, itemsize), bool(is_readonly), shape, device, x)

