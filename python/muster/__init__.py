"""Muster keeps the processors of one machine - GPUs, slices of a GPU, CPU cores - busy on one stream of work.

    y = muster.map("saxpy.c", 2.0, x, y)                # on all devices, in order
    total = muster.reduce("sum.c", x)
    for edges in muster.stream("edges.c", camera()):    # lazy, ordered, with back-pressure
        show(edges)

Functions of this module use one runtime, which is opened when it is first wanted; muster.Runtime(...) opens others.
"""
import functools
import inspect
from typing import TYPE_CHECKING

from ._library import __version__
from .arguments import Argument, all, first, grid, in_, inout, out, pitch  # pylint: disable=redefined-builtin
from .data import Acquired, Data
from .devices import Backend, Decision, Device, Devices, Hints, Lease, Load
from .errors import (DeviceError, Error, InvalidError, LibraryError, NoDeviceError, NoMemoryError, NotFoundError, Status,
                     WaitTimeoutError)
from .graphs import Graph
from .jobs import Job, Progress, RunOptions
from .kernels import Kernel, Parameter
from .reports import DeviceShare, Report
from .runtime import Runtime, default
from .simulation import SimulatedDevice, Simulation, simulate
from .tasks import Task
from .trace import Event, Trace

__all__ = [
    "Acquired", "Argument", "Backend", "Data", "Decision", "Device", "DeviceError", "DeviceShare", "Devices", "Error", "Event",
    "Graph", "Hints", "InvalidError", "Job", "Kernel", "Lease", "LibraryError", "Load", "NoDeviceError", "NoMemoryError",
    "NotFoundError", "Parameter", "Progress", "Report", "RunOptions", "Runtime", "SimulatedDevice", "Simulation", "Status", "Task",
    "Trace", "WaitTimeoutError", "all", "backends", "counters", "data", "default", "devices", "explain", "first", "for_", "grid",
    "in_", "inout", "kernel", "map", "out", "pick", "pitch", "record", "reduce", "share", "simulate", "start", "stream", "submit",
    "token", "trace", "wait", "__version__",
]

if TYPE_CHECKING:
    _it = default()
    backends, counters, devices, explain, for_, kernel = _it.backends, _it.counters, _it.devices, _it.explain, _it.for_, _it.kernel
    map, pick, reduce, share, start, stream = _it.map, _it.pick, _it.reduce, _it.share, _it.start, _it.stream
    submit, trace, wait = _it.submit, _it.trace, _it.wait
    data, record, token = _it.data, _it.record, _it.token
else:
    def _of_default(name):
        """A method of the runtime that is opened when it is first wanted, as a function."""
        method = getattr(Runtime, name)

        @functools.wraps(method)
        def function(*args, **options):
            return method(default(), *args, **options)

        signature = inspect.signature(method)
        function.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
        function.__qualname__ = name
        return function

    for _name in ("backends", "counters", "data", "devices", "explain", "for_", "kernel", "map", "pick", "record", "reduce",
                  "share", "start", "stream", "submit", "token", "trace", "wait"):
        globals()[_name] = _of_default(_name)
    del _name
