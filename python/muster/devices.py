"""Devices: what they are, what they do, which one a piece of work should go to and why."""
from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _c, html
from ._library import lib
from .errors import Status, invalid, of

if TYPE_CHECKING:
    from .runtime import Runtime

CAPABILITIES = {_c.MUSTER_CAN_WAIT_VALUE: "wait_value", _c.MUSTER_CAN_STREAM_MEMORY: "stream_memory",
                _c.MUSTER_CAN_GRAPHS: "graphs", _c.MUSTER_CAN_SLICE: "slice", _c.MUSTER_CAN_PRIORITIES: "priorities",
                _c.MUSTER_CAN_USE_HOST_MEMORY: "use_host_memory", _c.MUSTER_CAN_RUN_IN_PIECES: "run_in_pieces",
                _c.MUSTER_CAN_DOUBLE: "double", _c.MUSTER_CAN_USE_SHARED_MEMORY: "use_shared_memory"}


class Load(NamedTuple):
    """What a device is doing now; `utilisation` and `temperature_c` None: unknown."""
    health: str
    memory_free: int
    memory_total: int
    memory_used: int
    streams_active: int
    queue_depth: int
    bytes_in_flight: int
    dispatched: int
    completed: int
    failed: int
    items_per_s: float
    bytes_per_s: float
    utilisation: Optional[float]
    temperature_c: Optional[float]


class Device:
    """One device of a runtime, with what is fixed of it: id, name, backend, kind, cores, memory_total and so on."""

    def __init__(self, runtime: Runtime, handle: Any) -> None:
        self.runtime, self.handle = runtime, handle
        info, err = _c.muster_device_info(), _c.muster_error()
        if lib.muster_device_info(runtime.handle, handle, ctypes.byref(info), ctypes.byref(err)):
            raise of(err)
        self.index = int(handle.index)
        self.id: str = info.id.decode()
        self.name: str = info.name.decode()
        self.backend: str = info.backend.decode()
        self.parent: str = info.parent.decode()
        self.kind: str = lib.muster_device_kind_name(info.kind).decode()
        self.pci: str = info.pci.decode()
        self.uuid: str = info.uuid.decode()
        self.domain = int(info.domain)
        self.compute: Tuple[int, int] = (info.compute[0], info.compute[1])
        self.cores = int(info.cores)
        self.numa_node = int(info.numa_node)
        self.streams_max = int(info.streams_max)
        self.memory_total = int(info.memory_total)
        self.weight = float(info.weight)
        self.capabilities = frozenset(name for bit, name in CAPABILITIES.items() if info.capabilities & bit)

    def load(self) -> Load:
        """What it does now. Waits for the driver's first answer, at most a second."""
        one, err = _c.muster_device_load(), _c.muster_error()
        if lib.muster_device_load(self.runtime.handle, self.handle, ctypes.byref(one), ctypes.byref(err)):
            raise of(err)
        return Load(lib.muster_health_name(one.health).decode(), one.memory_free, one.memory_total, one.memory_used,
                    one.streams_active, one.queue_depth, one.bytes_in_flight, one.dispatched, one.completed, one.failed,
                    one.items_per_s, one.bytes_per_s, one.utilisation if one.utilisation >= 0 else None,
                    one.temperature_c if one.temperature_c >= -273 else None)

    def slice(self, *sizes: int) -> Devices:
        """Cuts it into slices of this many multiprocessors or cores each, which stand in its place."""
        made, err = (_c.muster_device * len(sizes))(), _c.muster_error()
        if lib.muster_device_slice(self.runtime.handle, self.handle, (ctypes.c_uint32 * len(sizes))(*sizes), len(sizes),
                                   made, ctypes.byref(err)):
            raise of(err)
        return Devices(Device(self.runtime, one) for one in made)

    def __repr__(self) -> str:
        return f"<muster.Device {self.id}: {self.name}>"


class Devices(List[Device]):
    """Devices, as a list that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        rows = []
        for one in self:
            load = one.load()
            rows.append([one.id, one.name, str(one.cores), ".".join(map(str, one.compute)) if any(one.compute) else "-",
                         f"{one.memory_total / 2**30:.1f} GiB", f"{load.memory_free / 2**30:.1f} GiB", f"{one.weight:g}",
                         load.health])
        return html.box("devices", html.table(["id", "name", "cores", "compute", "memory", "free", "weight", "health"], rows))


class Backend(NamedTuple):
    """What became of a backend; `status` OK: usable, NOT_FOUND: none of its kind is here."""
    name: str
    device_count: int
    hidden: str
    status: Status
    text: str
    fix: str


def list_devices(runtime: Runtime) -> Devices:
    count, err, capacity = ctypes.c_size_t(), _c.muster_error(), 16
    while True:
        found = (_c.muster_device * capacity)()
        status = lib.muster_device_list(runtime.handle, found, capacity, ctypes.byref(count), ctypes.byref(err))
        if status == 0:
            return Devices(Device(runtime, one) for one in found[:count.value])
        if status != Status.CAPACITY:
            raise of(err)
        capacity = count.value


def list_backends(runtime: Runtime) -> List[Backend]:
    count, err, capacity = ctypes.c_size_t(), _c.muster_error(), 16
    while True:
        found = (_c.muster_backend_report * capacity)()
        for one in found:
            one.size = ctypes.sizeof(one)
        status = lib.muster_backend_list(runtime.handle, found, capacity, ctypes.byref(count), ctypes.byref(err))
        if status == 0:
            return [Backend(one.name.decode(), one.device_count, one.hidden.decode(), Status(one.error.status),
                            one.error.text.decode(), one.error.fix.decode()) for one in found[:count.value]]
        if status != Status.CAPACITY:
            raise of(err)
        capacity = count.value


class Hints(NamedTuple):
    """What a piece of work needs; what is left out does not matter."""
    min_free: Union[int, str] = 0  # bytes, or "1GiB"
    min_cc: Tuple[int, int] = (0, 0)
    backends: Union[str, Sequence[str]] = ""
    devices: Union[str, Sequence[str]] = ""
    affinity: int = 0
    items: int = 0
    bytes: int = 0

    def made(self) -> Any:
        hints = _c.muster_hints(min_free=size_of(self.min_free), affinity=self.affinity, items=self.items, bytes=self.bytes)
        hints.min_cc[:] = self.min_cc
        hints.backends, hints.devices = listed(self.backends), listed(self.devices)
        return hints


def listed(names: Union[str, Sequence[str]]) -> Optional[bytes]:
    text = names if isinstance(names, str) else ",".join(names)
    return text.encode() if text else None


def size_of(text: Union[int, str]) -> int:
    if isinstance(text, int):
        return text
    made, err = ctypes.c_uint64(), _c.muster_error()
    if lib.muster_size_parse(text.encode(), ctypes.byref(made), ctypes.byref(err)):
        raise of(err)
    return made.value


class Lease:
    """A device that was picked; the choice counts against it until release(), or the end of a with block."""

    def __init__(self, runtime: Runtime, policy: Optional[str], hints: Hints) -> None:
        named = lib.muster_policy_named(policy.encode()) if policy else None
        if policy and not named:
            raise invalid(f"unknown policy '{policy}'; known: round-robin, least-loaded, weighted, adaptive, "
                          "earliest-finish, sticky")
        self.runtime = runtime
        self._handle: Optional[Any] = None
        lease, device, err = _c.muster_lease(), _c.muster_device(), _c.muster_error()
        if lib.muster_pick(runtime.handle, named, ctypes.byref(hints.made()), ctypes.byref(lease), ctypes.byref(device),
                           ctypes.byref(err)):
            raise of(err)
        self._handle = lease
        self.device = Device(runtime, device)

    def release(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None and self.runtime.is_open:
            lib.muster_lease_release(self.runtime.handle, handle, None)

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.release()

    def __repr__(self) -> str:
        return f"<muster.Lease {self.device.id}>"


class Decision(NamedTuple):
    """What one pick looked at: for each device its id, the hint that refused it ("" if none) and its score."""
    number: int
    policy: str
    chosen: Optional[str]
    devices: List[Tuple[str, str, float]]


def decisions(runtime: Runtime, count: int) -> List[Decision]:
    made, found, err = (_c.muster_decision * count)(), ctypes.c_size_t(), _c.muster_error()
    for one in made:
        one.size = ctypes.sizeof(one)
    if lib.muster_explain(runtime.handle, made, count, ctypes.byref(found), ctypes.byref(err)):
        raise of(err)
    names = {device.index: device.id for device in list_devices(runtime)}
    answer = []
    for one in made[:min(count, found.value)]:
        seen = [(names.get(each.device.index, "?"),
                 lib.muster_refusal_name(each.refusal).decode() if each.refusal else "", each.score)
                for each in one.devices[:one.device_count]]
        answer.append(Decision(one.number, one.policy.decode(), seen[one.chosen][0] if one.chosen >= 0 else None, seen))
    return answer
