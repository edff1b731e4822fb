"""What Muster's interface does not say of memory that other libraries have on CUDA devices: on which device it is, and when
what its owner has queued is done. Asks libcuda
directly."""
import ctypes
from typing import Any, Optional

from .errors import Status, invalid, make

DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
# The special streams have the same numbers in libcuda and in __cuda_array_interface__.
LEGACY_STREAM = 1

_driver: Any = None


def driver() -> Any:
    """libcuda, started."""
    global _driver
    if _driver is None:
        try:
            found = ctypes.CDLL("libcuda.so.1")
        except OSError as failure:
            raise make(Status.NOT_FOUND, f"an array of a CUDA device, and no driver: {failure}",
                       "install NVIDIA's driver") from None
        _call(found.cuInit, ctypes.c_uint(0))
        _driver = found
    return _driver


def _call(function: Any, *arguments: Any) -> None:
    result = function(*arguments)
    if result != 0:
        raise make(Status.DRIVER, f"{function.__name__} failed with code {result}", driver_code=result)


class _Context:
    """The primary context of a device, current for as long as this is entered."""

    def __init__(self, device: int) -> None:
        self.device = device

    def __enter__(self) -> None:
        context = ctypes.c_void_p()
        _call(driver().cuDevicePrimaryCtxRetain, ctypes.byref(context), self.device)
        try:
            _call(driver().cuCtxPushCurrent_v2, context)
        except BaseException:
            driver().cuDevicePrimaryCtxRelease_v2(self.device)
            raise

    def __exit__(self, *_: object) -> None:
        driver().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))
        driver().cuDevicePrimaryCtxRelease_v2(self.device)


def device_of(address: int) -> int:
    """The number of the device that has this memory."""
    ordinal = ctypes.c_int(-1)
    # Any context will do for the question.
    with _Context(0):
        result = driver().cuPointerGetAttribute(ctypes.byref(ordinal), DEVICE_ORDINAL, ctypes.c_uint64(address))
    if result != 0:
        raise make(Status.INVALID, f"the driver knows no memory at {address:#x} (code {result})",
                   "give an array that lives and is on a CUDA device", driver_code=result)
    return ordinal.value


def synchronise(device: int, stream: Optional[int]) -> None:
    """Waits until what its owner has queued for an array is done. None: nothing is queued."""
    if stream is None:
        return
    if stream == 0:
        raise invalid("__cuda_array_interface__ has stream 0, which is ambiguous", "use 1, 2 or a stream's handle")
    with _Context(device):
        _call(driver().cuStreamSynchronize, ctypes.c_void_p(stream))
