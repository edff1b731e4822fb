#!/usr/bin/env python3
"""Arrays in a GPU's memory that another library has: by __cuda_array_interface__ and by DLPack, without copies.

    tests/python/cuda_arrays.py [--items N] [--device NUMBER]

The other library is libcuda itself, called by ctypes, so neither NumPy nor any package is needed. Prints what it did; exits
1 if something is not as it must be, 77 if there is no CUDA device. scripts/gpu-check runs it on a real GPU, the tests on the
driver of tests/driver.
"""
import argparse
import array
import ctypes
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "python"))

import muster  # noqa: E402
from muster import cuda  # noqa: E402
from muster.dlpack import CUDA, DLManagedTensor, _deleter  # noqa: E402

SAXPY = ROOT / "examples" / "kernels" / "saxpy.c"
SUM = ROOT / "examples" / "kernels" / "sum.c"


class Memory:
    """Bytes on a device, allocated by libcuda in its primary context, and a stream of their owner's."""

    def __init__(self, device, data):
        self.device, self.nbytes = device, len(data)
        self.address, self.stream = ctypes.c_uint64(), ctypes.c_void_p()
        # As the CUDA runtime does: its memory lives as long as the primary context.
        cuda._call(cuda.driver().cuDevicePrimaryCtxRetain, ctypes.byref(ctypes.c_void_p()), device)
        with cuda._Context(device):
            cuda._call(cuda.driver().cuMemAlloc_v2, ctypes.byref(self.address), ctypes.c_size_t(self.nbytes))
            cuda._call(cuda.driver().cuStreamCreateWithPriority, ctypes.byref(self.stream), 1, 0)
        self.write(data)

    def write(self, data):
        """On the owner's stream, and not waited for: who uses the array must."""
        self.pending = (ctypes.c_char * len(data)).from_buffer_copy(data)
        with cuda._Context(self.device):
            cuda._call(cuda.driver().cuMemcpyHtoDAsync_v2, self.address, self.pending, ctypes.c_size_t(len(data)), self.stream)

    def read(self):
        made = array.array("f", bytes(self.nbytes))
        place = (ctypes.c_char * self.nbytes).from_buffer(made)
        with cuda._Context(self.device):
            cuda._call(cuda.driver().cuMemcpyDtoHAsync_v2, place, self.address, ctypes.c_size_t(self.nbytes), self.stream)
            cuda._call(cuda.driver().cuStreamSynchronize, self.stream)
        return made

    def free(self):
        with cuda._Context(self.device):
            cuda._call(cuda.driver().cuMemFree_v2, self.address)
            cuda._call(cuda.driver().cuStreamDestroy_v2, self.stream)
        cuda._call(cuda.driver().cuDevicePrimaryCtxRelease_v2, self.device)


class CudaArray:
    """As CuPy, Numba and PyTorch show their arrays."""

    def __init__(self, memory, readonly=False, strides=None):
        self.memory = memory
        self.__cuda_array_interface__ = {"shape": (memory.nbytes // 4,), "typestr": "<f4", "version": 3, "strides": strides,
                                         "data": (memory.address.value, readonly), "stream": memory.stream.value}


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.argtypes, _new_capsule.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p], ctypes.py_object
NAME = b"dltensor"


class DlpackArray:
    """As those that have DLPack show theirs. The owner has its work done before it gives the tensor away."""

    def __init__(self, memory):
        self.memory, self.given, self.back, self.streams = memory, 0, 0, []

    def __dlpack_device__(self):
        return CUDA, self.memory.device

    def __dlpack__(self, stream=None):
        self.streams.append(stream)
        with cuda._Context(self.memory.device):
            cuda._call(cuda.driver().cuStreamSynchronize, self.memory.stream)
        self.shape = (ctypes.c_int64 * 1)(self.memory.nbytes // 4)
        self.delete = _deleter(self.take_back)
        made = self.made = DLManagedTensor(deleter=self.delete)
        made.tensor.data, made.tensor.shape = self.memory.address.value, self.shape
        made.tensor.device_type, made.tensor.device_id, made.tensor.ndim = CUDA, self.memory.device, 1
        made.tensor.code, made.tensor.bits, made.tensor.lanes = 2, 32, 1
        self.given += 1
        return _new_capsule(ctypes.addressof(made), NAME, None)

    def take_back(self, _):
        self.back += 1


failures = 0


def expect(what, holds):
    global failures
    failures += not holds
    print(f"{'ok    ' if holds else 'FAILED'}  {what}", flush=True)


def refused(call, words):
    try:
        call()
    except muster.Error as failure:
        return words in str(failure)
    return False


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--items", type=int, default=1 << 20)
    options.add_argument("--device", type=int, default=0)
    chosen = options.parse_args()
    m = muster.Runtime()
    names = [one.id for one in m.devices()]
    if f"cuda:{chosen.device}" not in names:
        print(f"no cuda:{chosen.device} among {', '.join(names)}")
        sys.exit(77)
    print(f"{m.devices()[names.index(f'cuda:{chosen.device}')]}, muster {muster.__version__}, {chosen.items} floats")
    n = chosen.items
    # Whole numbers that a float holds exactly.
    xs, ys = array.array("f", (k % 1000 for k in range(n))), array.array("f", (k % 77 for k in range(n)))
    wanted = array.array("f", (2 * a + b for a, b in zip(xs, ys)))
    x, y = Memory(chosen.device, xs.tobytes()), Memory(chosen.device, ys.tobytes())
    before = m.counters()

    report = m.for_(SAXPY, 2.0, CudaArray(x, readonly=True), CudaArray(y))
    after = m.counters()
    expect("saxpy in place through __cuda_array_interface__", y.read() == wanted)
    expect(f"ran where the arrays are: {report}", [one.id for one in report.devices if one.items] == [f"cuda:{chosen.device}"])
    expect("nothing was copied", (after["bytes_in"], after["bytes_out"]) == (before["bytes_in"], before["bytes_out"]))

    y.write(ys.tobytes())
    dx, dy = DlpackArray(x), DlpackArray(y)
    m.for_(SAXPY, 2.0, dx, dy)
    expect("saxpy in place through DLPack", y.read() == wanted)
    expect("both tensors were given back", (dx.given, dx.back, dy.given, dy.back) == (1, 1, 1, 1))
    expect("the owner was told which stream to be ready on", dx.streams == [cuda.LEGACY_STREAM])

    y.write(ys.tobytes())
    square = "MUSTER_KERNEL void square(uint64_t i, MUSTER_GLOBAL const float *x, MUSTER_GLOBAL float *y) { y[i] = x[i] * x[i]; }"
    given = CudaArray(y)
    made = m.map(square, CudaArray(x), out=given)
    expect("a map into out", made is given and y.read() == array.array("f", (a * a for a in xs)))
    expect("a reduction", m.reduce(SUM, CudaArray(x)) == float(sum(map(int, xs))))
    m.submit(square, CudaArray(x), muster.out(CudaArray(y))).wait()
    expect("a task", y.read() == array.array("f", (a * a for a in xs)))

    expect("a map does not make arrays on a device", refused(lambda: m.map(square, CudaArray(x)), "give out="))
    expect("a read-only array is not written", refused(lambda: m.for_(square, CudaArray(x), CudaArray(y, True)), "read-only"))
    expect("strides are refused", refused(lambda: m.for_(square, CudaArray(x, strides=(8,)), CudaArray(y)), "contiguous"))
    host = CudaArray(x)
    host.__cuda_array_interface__ = {**host.__cuda_array_interface__, "data": (ctypes.addressof(ctypes.c_int()), False)}
    expect("host memory is told from a device's", refused(lambda: m.for_(square, host, CudaArray(y)), "knows no memory"))

    best = min(timed(lambda: m.for_(SAXPY, 2.0, CudaArray(x), CudaArray(y))) for _ in range(20))
    print(f"saxpy of {n} floats where they are: {best * 1e6:.1f} us from Python, {3 * 4 * n / best / 1e9:.1f} GB/s")
    m.close()
    x.free()
    y.free()
    sys.exit(1 if failures else 0)


def timed(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


main()
