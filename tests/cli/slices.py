#!/usr/bin/env python3
"""--slices of devices, pick and explain: the variable's twin, and no other devices in place of slices that do not exist."""
import json
import sys

sys.dont_write_bytecode = True
from lib.check import Check  # noqa: E402

SIM = json.dumps([{"items_per_s": 1e6, "cores": 8, "slices": True, "weight": 4}, {"items_per_s": 1e6}])
HALVES = "sim:0=2,6"


def ids(run):
    return [device["id"] for device in json.loads(run.out)["devices"] if device["id"].startswith("sim:")]


def cut(check):
    sim = {"MUSTER_SIM": SIM}
    expected = ["sim:0/0", "sim:0/1", "sim:1"]
    for spec in [HALVES, "sim:0=2/6", ";sim:0=2,6;"]:
        run = check.run("devices", "--json", "--slices", spec, environment=sim)
        check.equal(f"{spec}: exit code", (run.code, run.err), (0, ""))
        check.equal(f"{spec}: devices", ids(run), expected)
    slices = [device for device in json.loads(run.out)["devices"] if device["parent"] == "sim:0"]
    check.equal("their sizes", [device["cores"] for device in slices], [2, 6])
    check.equal("their weights", [device["weight"] for device in slices], [1, 3])
    run = check.run("devices", "--json", environment={**sim, "MUSTER_SLICES": HALVES})
    check.equal("the variable does the same", ids(run), expected)
    run = check.run("devices", "--json", "--slices=sim:0=8", environment={**sim, "MUSTER_SLICES": HALVES})
    check.equal("the option goes before the variable", ids(run), ["sim:0/0", "sim:1"])
    run = check.run("devices", "--json", "--devices", "sim:0/1", "--slices", HALVES, environment=sim)
    check.equal("one slice of them", ids(run), ["sim:0/1"])


def picked(check):
    arguments = ["--slices", HALVES, "--backend", "sim", "--policy", "weighted"]
    run = check.run("pick", *arguments, environment={"MUSTER_SIM": SIM})
    check.equal("the largest slice", run, (0, "sim:0/1\n", ""))
    run = check.run("explain", "--json", *arguments, environment={"MUSTER_SIM": SIM})
    outcome = {device["id"]: device["outcome"] for device in json.loads(run.out)["devices"]}
    check.equal("explained", (outcome["sim:0/1"], outcome["sim:0/0"]), ("picked", "eligible"))


def refused(check):
    sim = {"MUSTER_SIM": SIM}
    # What cannot be understood, and what is not there, is refused before anything is listed.
    for spec, part in [("rubbish", "rubbish"), ("sim:0", "sim:0"), ("sim:0=", "sim:0="), ("sim:0=0", "sim:0=0"),
                       ("sim:0=99999999999", "sim:0=9"), ("nope:0=1", "unknown backend"), ("\x1b[31m", "slices"),
                       ("sim:0=2;sim:0=6", "twice")]:
        for command in ["devices", "pick", "explain"]:
            check.refused(f"{command} {spec!r}", check.run(command, "--slices", spec, environment=sim), 2, part, "fix:")
            run = check.run(command, environment={**sim, "MUSTER_SLICES": spec})
            check.refused(f"{command} with the variable {spec!r}", run, 2, part, "fix:")
    # What the devices refuse takes their backend away; the rest of the machine is listed, and not picked instead.
    for spec, part in [("sim:1=1", "sim:1 cannot be cut"), ("sim:9=1", "sim has 2 devices"), ("sim:0=4,5", "8 cores"),
                       ("cpu:0=1", "cpu:0 cannot be cut")]:
        for where in ["option", "variable"]:
            arguments = ["--slices", spec] if where == "option" else []
            environment = {**sim, "MUSTER_SLICES": spec} if where == "variable" else sim
            run = check.run("devices", *arguments, environment=environment)
            check.equal(f"{where} {spec}: exit code", run.code, 2)
            check.contains(f"{where} {spec}: told", run.err, part)
            check.equal(f"{where} {spec}: told once", run.err.count("muster: "), 1)
            check.refused(f"pick, {where} {spec}", check.run("pick", *arguments, environment=environment), 2, part)
            check.refused(f"explain, {where} {spec}", check.run("explain", *arguments, environment=environment), 2, part)
    check.refused("an empty option", check.run("devices", "--slices="), 2, "cannot be empty")
    check.equal("an empty variable asks for nothing", check.run("pick", environment={"MUSTER_SLICES": ""}).code, 0)


check = Check()
cut(check)
picked(check)
refused(check)
check.finish()
