"""DLPack, https://dmlc.github.io/dlpack/latest/c_api.html: the structs from before version 1.0, which every producer gives."""
import ctypes
from typing import Any

from . import _c, cuda, memory
from .errors import invalid


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class DLManagedTensor(ctypes.Structure):
    pass


_deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(DLManagedTensor))
DLManagedTensor._fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", _deleter)]

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13
# Type codes: integers with and without a sign, floats, booleans.
KINDS = {0: "i", 1: "i", 2: "f", 6: "i"}

_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes, _rename.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
USED = b"used_dltensor"  # the capsule keeps the pointer


class _Held:
    """A tensor that is given back with its last reference."""

    def __init__(self, capsule: Any) -> None:
        self.managed = ctypes.cast(_pointer(capsule, b"dltensor"), ctypes.POINTER(DLManagedTensor))
        _rename(capsule, USED)

    def __del__(self) -> None:
        if self.managed.contents.deleter:
            self.managed.contents.deleter(self.managed)


def of_dlpack(x: Any) -> memory.View:
    """The memory behind x.__dlpack__(). On CUDA its owner is asked to have it ready on the default stream."""
    kind, number = x.__dlpack_device__()
    is_cuda = int(kind) == CUDA
    if int(kind) not in (CPU, CUDA, CUDA_HOST):
        raise invalid(f"an array on a device of DLPack's kind {int(kind)}, number {number}",
                      "give one in host memory or on a CUDA device")
    held = _Held(x.__dlpack__(stream=cuda.LEGACY_STREAM) if is_cuda else x.__dlpack__())
    tensor = held.managed.contents.tensor
    if tensor.bits % 8 != 0 or tensor.lanes != 1:
        raise invalid(f"elements of {tensor.bits} bits and {tensor.lanes} lanes")
    itemsize = tensor.bits // 8
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides:
        memory.require_contiguous(shape, [tensor.strides[i] * itemsize for i in range(tensor.ndim)], itemsize)
    if is_cuda:
        cuda.synchronise(tensor.device_id, cuda.LEGACY_STREAM)
    element = memory.ELEMENTS.get((KINDS.get(tensor.code, ""), itemsize), _c.MUSTER_ELEMENT_UNKNOWN)
    return memory.View((tensor.data or 0) + tensor.byte_offset, memory.count_of(shape) * itemsize, itemsize, element, False, shape,
                       tensor.device_id if is_cuda else None, (held, x))
