"""Recordings of what each device did, and when."""
from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional

from . import _c, html
from ._library import lib
from .errors import of

if TYPE_CHECKING:
    from .kernels import Path
    from .runtime import Runtime

KINDS = {1: "unit", 2: "delivery", 3: "job", 4: "task", 5: "data", 6: "pick", 7: "device lost", 8: "device hung",
         9: "device back", 10: "stage", 11: "stall"}
OUTCOMES = {_c.MUSTER_TRACE_DONE: "done", _c.MUSTER_TRACE_LATE: "late", _c.MUSTER_TRACE_FAILED: "failed",
            _c.MUSTER_TRACE_LOST: "lost"}


class Event(NamedTuple):
    """One thing that happened; equal times: not a span."""
    kind: str
    outcome: str
    device: str
    begin_s: float
    end_s: float
    items: range
    job: int
    is_retry: bool
    is_copy: bool


def event_of(one: Any, names: Dict[int, str]) -> Event:
    return Event(KINDS.get(one.kind, str(one.kind)), OUTCOMES.get(one.outcome, str(one.outcome)),
                 names.get(one.device, str(one.device)), one.begin_ns / 1e9, one.end_ns / 1e9,
                 range(one.range.begin, one.range.end), one.job, bool(one.is_retry), bool(one.is_copy))


def draw(events: List[Event], dropped: int = 0) -> str:
    """The units of jobs and kernels of tasks, as a timeline."""
    spans = []
    for one in events:
        if one.kind in ("unit", "task") and one.device:
            kind = "retry" if one.outcome == "done" and one.is_retry else one.outcome
            spans.append(html.Span(one.device, one.begin_s, one.end_s, kind,
                                   f"items {one.items.start} to {one.items.stop}, {one.outcome}"))
    return html.timeline(spans, dropped)


class Trace:
    """Records while it is entered: `with muster.trace() as t: ...`. Then `t.events`, `t.save(path)` for Perfetto if asked
    for within the block, and a timeline in a notebook."""

    def __init__(self, runtime: Runtime, capacity: int = 0) -> None:
        self.runtime, self.capacity = runtime, capacity
        self.events: List[Event] = []
        self.dropped = 0
        self._path: Optional[bytes] = None

    def __enter__(self) -> Trace:
        err = _c.muster_error()
        how = _c.muster_trace_options(capacity=self.capacity)
        if lib.muster_trace_start(self.runtime.handle, ctypes.byref(how), ctypes.byref(err)):
            raise of(err)
        return self

    def save(self, path: Path) -> None:
        """Writes the recording to this file at the end of the block, for ui.perfetto.dev."""
        self._path = os.fsencode(path)

    def __exit__(self, *_: object) -> None:
        runtime, err = self.runtime, _c.muster_error()
        if not runtime.is_open:
            return
        names = {one.index: one.id for one in runtime.devices()}
        events: List[Event] = []

        def add(_: Any, one: Any) -> None:
            events.append(event_of(one.contents, names))

        dropped = ctypes.c_uint64()
        status = lib.muster_trace_events(runtime.handle, _c.event_function(add), None, ctypes.byref(dropped),
                                         ctypes.byref(err))
        self.events, self.dropped = events, dropped.value
        status = status or lib.muster_trace_stop(runtime.handle, self._path, ctypes.byref(err))
        if status:
            lib.muster_trace_stop(runtime.handle, None, None)
            raise of(err)

    def timeline(self) -> str:
        """SVG, with a row for each device."""
        return draw(self.events, self.dropped)

    def _repr_html_(self) -> str:
        return html.box(f"{len(self.events):,} events", self.timeline())
