"""How a job went: figures for programs, a table and a timeline for people."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Tuple

from . import _c, html
from ._library import lib
from .errors import Status

if TYPE_CHECKING:
    from .trace import Trace


class DeviceShare(NamedTuple):
    """What one device has done for a job."""
    id: str
    items: int
    units: int
    retries: int
    late: int
    busy_s: float
    items_per_s: float
    health: str
    shortage: str
    faster_without: float  # above 0: left out, since the job is this many times faster without it


class Report:
    """How a job went. Times are in seconds; bound_s and those after it together are makespan_s (muster/job.h)."""

    def __init__(self, made: Any, devices: Any, kernel: str) -> None:
        self._made, self._devices = made, devices
        self.kernel = kernel
        self.trace: Optional[Trace] = None  # of a call with timeline=True

    @property
    def status(self) -> Status:
        return Status(self._made.status)

    @property
    def items(self) -> Optional[int]:
        return None if self._made.items == _c.ITEMS_UNKNOWN else int(self._made.items)

    @property
    def delivered(self) -> int:
        return int(self._made.delivered)

    @property
    def units(self) -> int:
        return int(self._made.units)

    @property
    def retries(self) -> int:
        return int(self._made.retries)

    @property
    def makespan_s(self) -> float:
        return float(self._made.makespan_ns / 1e9)

    @property
    def bound_s(self) -> float:
        """What the kernels alone would have taken, had all devices worked at their rates and never paused."""
        return float(self._made.bound_ns / 1e9)

    @property
    def lost_s(self) -> Tuple[Tuple[str, float], ...]:
        """The rest of the makespan by what it went to."""
        return tuple((name, getattr(self._made, name + "_ns") / 1e9)
                     for name in ("startup", "transfer", "overhead", "starved", "tail"))

    @property
    def failed(self) -> List[Tuple[int, int]]:
        """Ranges of items that failed."""
        return [(one.begin, one.end) for one in self._made.failed[:self._made.failed_count]]

    @property
    def failed_items(self) -> int:
        return int(self._made.failed_items)

    @property
    def has_own_mathematics(self) -> bool:
        """A kernel takes its devices' own mathematics, so that results may have other bits on another device."""
        return bool(self._made.own_mathematics)

    @property
    def devices(self) -> List[DeviceShare]:
        return [DeviceShare(one.id.decode(), one.items, one.units, one.retries, one.late, one.busy_ns / 1e9,
                            one.items_per_s, lib.muster_health_name(one.health).decode(), one.shortage.decode(),
                            one.faster_without) for one in self._devices[:self._made.device_count]]

    def __repr__(self) -> str:
        shares = ", ".join(f"{one.id}: {one.items}" for one in self.devices)
        return (f"<muster.Report {self.kernel}: {self.delivered} items in {self.makespan_s:.6f} s, {self.units} units, "
                f"{self.retries} retries; {shares}>")

    def _repr_html_(self) -> str:
        total = max(1, self.delivered)
        rows = [[one.id, f"{one.items:,}", f"{100 * one.items / total:.1f} %", f"{one.units:,}", f"{one.items_per_s:,.0f}",
                 f"{one.busy_s * 1e3:,.3f} ms", f"{one.retries}", f"{one.late}", one.health,
                 one.shortage or (f"left out: {one.faster_without:.2f} times faster without it" if one.faster_without else "")]
                for one in self.devices]
        heads = ["device", "items", "share", "units", "items/s", "busy", "retries", "late", "health", ""]
        parts = [("work", self.bound_s), *self.lost_s]
        title = f"{self.kernel}: {self.delivered:,} items in {self.makespan_s * 1e3:,.3f} ms"
        if self.status != Status.OK:
            title += f", {self.status.name}"
        drawn = self.trace.timeline() if self.trace else ""
        return html.box(title, html.table(heads, rows) + html.bar(parts) + drawn)
