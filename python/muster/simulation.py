"""Jobs in virtual time, on devices that you do not have."""
from __future__ import annotations

import ctypes
import json
import os
import threading
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

from . import _c, html
from ._library import lib
from .errors import Status, of
from .trace import Event, draw, event_of


class SimulatedDevice(NamedTuple):
    """What one simulated device has done; `refused`: the hint that kept it out, or None."""
    id: str
    name: str
    refused: Optional[str]
    items: int
    units: int
    retries: int
    busy_s: float
    health: str
    faster_without: float


class Simulation:
    """How a simulated job went, in virtual seconds."""

    def __init__(self, made: Any, events: List[Event]) -> None:
        self.seed = int(made.seed)
        self.status = Status(made.status)
        self.makespan_s, self.bound_s, self.ratio = made.makespan_ns / 1e9, made.bound_ns / 1e9, float(made.ratio)
        self.units, self.items_delivered, self.lost = int(made.units), int(made.items_delivered), int(made.lost)
        self.duplicated, self.out_of_order = int(made.duplicated), int(made.out_of_order)
        self.retries, self.window_max = int(made.retries), int(made.window_max)
        self.failed: List[Tuple[int, int]] = [(one.begin, one.end) for one in made.failed[:made.failed_count]]
        self.devices: List[SimulatedDevice] = []
        for index in range(made.device_count):
            one = made.devices[index].contents
            self.devices.append(SimulatedDevice(one.id.decode(), one.name.decode(), one.refused and one.refused.decode(),
                                                one.items, one.units, one.retries, one.busy_ns / 1e9, one.health.decode(),
                                                one.faster_without))
        names = dict(enumerate(one.id for one in self.devices))
        self.events = [one._replace(device=names.get(int(one.device), one.device)) for one in events]

    def __repr__(self) -> str:
        return (f"<muster.Simulation {self.status.name}: {self.items_delivered} items in {self.makespan_s:.6f} s, "
                f"{self.ratio:.4f} of the bound>")

    def _repr_html_(self) -> str:
        rows = [[one.id, one.name, f"{one.items:,}", f"{one.units:,}", f"{one.busy_s * 1e3:,.3f} ms", f"{one.retries}",
                 one.refused and f"refused: {one.refused}" or one.health] for one in self.devices]
        title = (f"{self.status.name}: {self.items_delivered:,} items in {self.makespan_s * 1e3:,.3f} ms of virtual time, "
                 f"{self.ratio:.4f} of the least that any schedule could take")
        body = html.table(["device", "name", "items", "units", "busy", "retries", "health"], rows)
        return html.box(title, body + (draw(self.events) if self.events else ""))


def simulate(scenario: Union[str, bytes, Dict[str, Any], "os.PathLike[str]"], seed: int = 1, runs: int = 0,
             everyone: bool = False, check: bool = False, timeline: bool = False) -> Simulation:
    """Runs a scenario (docs/simulation.md): a dictionary, JSON text, or the path of a file of it. The same scenario and seed
    give the same answer. timeline: keeps every event, and shows them in a notebook. check: checks every invariant, slowly."""
    if isinstance(scenario, dict):
        text = json.dumps(scenario).encode()
    elif isinstance(scenario, bytes):
        text = scenario
    elif isinstance(scenario, str) and scenario.lstrip().startswith("{"):
        text = scenario.encode()
    else:
        with open(scenario, "rb") as file:
            text = file.read()
    events: List[Event] = []
    options = _c.muster_simulation_options(seed=seed, runs=runs, everyone=everyone, check=check)
    if timeline:
        options.event = _c.event_function(lambda _, one: events.append(event_of(one.contents, {})))
    made, err, status = ctypes.POINTER(_c.muster_simulation)(), _c.muster_error(), []

    def run() -> None:
        status.append(lib.muster_simulate(text, len(text), ctypes.byref(options), ctypes.byref(made), ctypes.byref(err)))

    # On a thread of its own, so that Ctrl-C ends the wait; the call itself cannot be ended, and goes on without us.
    thread = threading.Thread(target=run, daemon=True, name="muster.simulate")
    thread.start()
    while thread.is_alive():
        thread.join(0.05)
    if status[0]:
        raise of(err)
    try:
        return Simulation(made.contents, events)
    finally:
        lib.muster_simulation_destroy(made)
