#!/usr/bin/env python3
"""muster bench: what it measures, and its verdicts on devices that are well, lost, wrong or without a compiler."""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import ROOT, Check  # noqa: E402

KEYS = ["id", "name", "health", "memory_total", "memory_free", "in_bytes_per_s", "out_bytes_per_s", "launch_ns",
        "kernel_items_per_s", "job_items_per_s", "items_checked", "items_wrong", "verdict"]
MEASURED = KEYS[5:11]
MACHINE = ["task_ns", "tasks_per_s", "job_devices", "job_sum_items_per_s", "job_together_items_per_s"]


def sim(**devices):
    described = [{"name": name, "items_per_s": 1e7, **more} for name, more in devices.items()]
    return {"MUSTER_SIM": json.dumps(described)}


def bench(check, environment=None):
    run = check.run("bench", "--quick", "--json", environment=environment)
    return run, {device["id"]: device for device in json.loads(run.out)["devices"]}


def well(check):
    run, devices = bench(check, sim(fast={}, slow={"items_per_s": 1e5}))
    answer = json.loads(run.out)
    check.equal("exit code, stderr", (run.code, run.err), (0, ""))
    check.equal("keys", list(answer), ["devices", "machine"])
    check.equal("keys of the machine", list(answer["machine"]), MACHINE)
    for id, device in devices.items():
        check.equal(f"{id}: keys", list(device), KEYS)
        check.true(f"{id}: all is measured", all(device[key] > 0 for key in MEASURED), str(device))
        check.equal(f"{id}: nothing is wrong", (device["items_wrong"], device["health"]), (0, "ok"))
    # On a busy machine a fast device may look slow once, and a simulated device that was held up makes up for it; a wrong
    # figure is wrong in every run.
    for _ in range(20):
        rates = [devices[id]["kernel_items_per_s"] for id in ["sim:0", "sim:1"]]
        if rates[0] > 10 * rates[1] and rates[1] < 1e6:
            break
        devices = bench(check, sim(fast={}, slow={"items_per_s": 1e5}))[1]
    check.true("rates are those of the devices", rates[0] > 10 * rates[1] and rates[1] < 1e6, str(rates))
    check.true("the machine is measured", all(answer["machine"][key] > 0 for key in MACHINE), str(answer["machine"]))
    check.equal("all take part", answer["machine"]["job_devices"], len(devices))
    run = check.run("bench", "--quick", environment=sim(one={}))
    check.equal("text: exit code, stderr", (run.code, run.err), (0, ""))
    lines = run.out.splitlines()
    check.equal("text: titles", lines[0].split(), ["ID", "NAME", "FREE", "IN", "OUT", "LAUNCH", "ITEMS", "VERDICT"])
    check.contains("text: the devices", run.out, "\nsim:0")
    check.contains("text: the machine", run.out, "\na job on all devices")
    check.true("text: no escapes where nobody looks", "\x1b" not in run.out + run.err, run.out)


def lost(check):
    run, devices = bench(check, sim(good={}, gone={"faults": [{"kind": "lost", "at_ms": 0}]}))
    check.equal("a lost device is no wrong result", run.code, 0)
    check.contains("a lost device", devices["sim:1"]["verdict"], "not usable: ")
    check.equal("what was not measured", devices["sim:1"]["kernel_items_per_s"], None)
    check.equal("the other is well", devices["sim:0"]["items_wrong"], 0)


def wrong(check, folder):
    """A backend whose kernels turn one bit of one item in a thousand."""
    with open(os.path.join(ROOT, "examples", "backend_inline.c")) as file:
        source = file.read()
    call = "return kernel->function(launch->begin, launch->begin + launch->items, args);"
    check.equal("the place to break", source.count(call), 1)
    broken = call.replace("return", "muster_status status =") + \
        " for (uint64_t i = launch->begin; i < launch->begin + launch->items; i += 1000)" \
        " (*(uint32_t *const *)args[1])[i] ^= 64;" \
        " return status;"
    paths = [os.path.join(folder, name) for name in ["wrong.c", "wrong.so"]]
    with open(paths[0], "w") as file:
        file.write(source.replace(call, broken))
    subprocess.run(["cc", "-std=c11", "-shared", "-fPIC", "-I", os.path.join(ROOT, "include"), "-o", paths[1], paths[0]],
                   check=True)
    run, devices = bench(check, {"MUSTER_BACKENDS": paths[1]})
    check.equal("wrong results: exit code", run.code, 1)
    check.contains("wrong results: the verdict", devices["inline:0"]["verdict"], "wrong results: ")
    check.true("wrong results: how many", 0 < devices["inline:0"]["items_wrong"] < devices["inline:0"]["items_checked"],
               str(devices["inline:0"]))
    check.equal("wrong results: the others", devices["cpu:0"]["items_wrong"], 0)
    check.equal("wrong results: text", check.run("bench", "--quick", environment={"MUSTER_BACKENDS": paths[1]}).code, 1)


def without_a_compiler(check):
    run, devices = bench(check, {"MUSTER_CC": "/no/such/compiler", "MUSTER_CACHE": "", "MUSTER_DEVICES": "cpu"})
    check.equal("no compiler: exit code", run.code, 0)
    device = devices["cpu:0"]
    check.contains("no compiler: it says so", device["verdict"], "kernels in source form are not available")
    check.true("no compiler: measured all the same", device["items_checked"] > 0 and not device["items_wrong"], str(device))


def mistakes(check):
    check.refused("no such device", check.run("bench", environment={"MUSTER_DEVICES": "sim:3"}), 2, "sim:3")
    check.refused("an argument", check.run("bench", "cpu:0"), 2, "'cpu:0'")
    text = check.run("bench", "--help").out
    check.true("--help fits a terminal", all(len(line) <= 100 for line in text.splitlines()), text)
    check.true("--help has the keys", all(f'"{key}"' in text for key in KEYS + MACHINE), text)


def main():
    check = Check()
    well(check)
    lost(check)
    with tempfile.TemporaryDirectory() as folder:
        wrong(check, folder)
    without_a_compiler(check)
    mistakes(check)
    check.finish()


main()
