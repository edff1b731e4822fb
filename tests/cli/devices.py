#!/usr/bin/env python3
"""muster devices: the CPU as the operating system sees it, simulated devices as they were described."""
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import Check  # noqa: E402

KEYS = ["id", "backend", "name", "compute", "memory_total", "memory_free", "streams_max", "weight", "health", "cores",
        "copy_engines", "numa_node", "domain", "parent", "pci", "capabilities", "kind", "same_as", "uuid",
        "utilisation", "temperature_c"]
GIB = 1 << 30
NAME = 'quo"te \\ back/slash é 漢'
DESCRIPTION = [
    {"name": "fast", "count": 2, "items_per_s": 8e6, "memory": "80GiB", "compute": [9, 0], "weight": 2.5},
    {"name": NAME, "items_per_s": 1e6, "memory": "16GiB", "compute": [7, 5], "weight": 0.1},
]
HEADER = ["ID", "NAME", "CORES", "COMPUTE", "MEMORY", "FREE", "STREAMS", "WEIGHT", "HEALTH"]


def devices(check, sim=None):
    run = check.run("devices", "--json", environment={"MUSTER_SIM": sim} if sim else {})
    if not check.equal("exit code", run.code, 0):
        print(run.err)
        check.finish()
    check.true("one line", run.out.count("\n") == 1 and run.out.endswith("\n"))
    answer = json.loads(run.out)
    check.equal("keys of the answer", list(answer), ["devices", "backends"])
    for device in answer["devices"]:
        check.equal(f"keys of {device['id']}", list(device), KEYS)
        check.equal(f"backend of {device['id']}", device["backend"], device["id"].split(":")[0])
    return answer


def with_prefix(answer, prefix):
    return [device for device in answer["devices"] if device["id"].startswith(prefix)]


def the_cpu(check):
    answer = devices(check)
    cpus = with_prefix(answer, "cpu:")
    check.true("there is a cpu device", len(cpus) >= 1)
    check.equal("cores are those this process may use", sum(cpu["cores"] for cpu in cpus), len(os.sched_getaffinity(0)))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for cpu in cpus:
        check.true("memory is there", 0 < cpu["memory_total"] <= pages, str(cpu["memory_total"]))
        check.true("free memory is part of it", 0 <= cpu["memory_free"] <= cpu["memory_total"])
        check.equal("a cpu has no compute capability", cpu["compute"], [0, 0])
        check.equal("streams", cpu["streams_max"], 16)
        check.equal("health", cpu["health"], "ok")
        check.true("weight", cpu["weight"] > 0)
    reports = {report["name"]: report for report in answer["backends"]}
    check.equal("report on cpu", reports["cpu"], {"name": "cpu", "devices": len(cpus), "status": "MUSTER_OK"})
    check.equal("no simulated device unless asked for", with_prefix(answer, "sim:"), [])


def allowed_cores(check):
    allowed = sorted(os.sched_getaffinity(0))
    run = check.run("devices", "--json", preexec_fn=lambda: os.sched_setaffinity(0, allowed[:1]))
    cpus = with_prefix(json.loads(run.out), "cpu:")
    check.equal("one allowed core", [cpu["cores"] for cpu in cpus], [1])


def simulated(check):
    answer = devices(check, json.dumps(DESCRIPTION))
    found = with_prefix(answer, "sim:")
    check.equal("ids", [device["id"] for device in found], ["sim:0", "sim:1", "sim:2"])
    if len(found) != 3:
        return
    for device, name, memory, compute, weight in [(found[0], "fast", 80 * GIB, [9, 0], 2.5),
                                                  (found[1], "fast", 80 * GIB, [9, 0], 2.5),
                                                  (found[2], NAME, 16 * GIB, [7, 5], 0.1)]:
        check.equal("name", device["name"], name)
        check.equal("memory", device["memory_total"], memory)
        check.true("free memory", 0 < device["memory_free"] <= memory)
        check.equal("compute", device["compute"], compute)
        check.equal("weight", device["weight"], weight)
        check.equal("health", device["health"], "ok")
        check.equal("whole", device["parent"], None)
    check.true("the cpu is still there", len(with_prefix(answer, "cpu:")) >= 1)
    reports = {report["name"]: report for report in answer["backends"]}
    check.equal("report on sim", reports.get("sim"), {"name": "sim", "devices": 3, "status": "MUSTER_OK"})


def described_in_a_file(check):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"devices": DESCRIPTION}, file)
        file.flush()
        answer = devices(check, file.name)
    check.equal("a file: names", [device["name"] for device in with_prefix(answer, "sim:")], ["fast", "fast", NAME])


def as_text(check):
    run = check.run("devices", environment={"MUSTER_SIM": json.dumps(DESCRIPTION)})
    check.equal("text: exit code", run.code, 0)
    table, _, missing = run.out.partition("\n\n")
    lines = table.splitlines()
    backends = devices(check, json.dumps(DESCRIPTION))["backends"]
    not_found = [backend["name"] for backend in backends if backend["status"] == "MUSTER_E_NOT_FOUND"]
    told = missing.splitlines()
    check.equal("text: what was looked for and is not there", [line.split()[0] for line in told[1:] if line[2] != " "], not_found)
    check.true("text: and what would help", all(line.strip().startswith("fix: ") for line in told[1:] if line[2] == " "), missing)
    header = [word for word in lines[0].split() if word != "NUMA"]
    check.equal("text: header", header, HEADER)
    check.true("text: no control characters", not any(ord(c) < 32 for c in run.out if c != "\n"), repr(run.out))
    ids = [line.split()[0] for line in lines[1:]]
    check.equal("text: as many as in JSON", ids,
                [device["id"] for device in devices(check, json.dumps(DESCRIPTION))["devices"]])
    health = lines[0].index("HEALTH")
    check.true("text: columns are aligned", all(line[health:] == "ok" for line in lines[1:]), run.out)
    fast = next(line for line in lines if line.startswith("sim:0"))
    for part in [" fast ", " 9.0 ", " 80.0 GiB ", " 2.5 "]:
        check.contains("text: sim:0", fast, part)


def malformed(check):
    for sim, part in [("nonsense", "nonsense"), ("/nonexistent/sim.json", "/nonexistent/sim.json"),
                      ("[", ""), ("[]", ""), ("{}", ""), ('[{"items_per_s":0}]', ""),
                      ('[{"items_per_s":-1}]', ""), ('[{"items_per_s":1,"nonsense":1}]', "nonsense"),
                      ('[{"items_per_s":"fast"}]', ""), ('[{"items_per_s":1}] x', ""),
                      ('[{"items_per_s":1,"name":"\\u001b[31m"}]', "name"),
                      ('[{"items_per_s":1,"count":1000000}]', "1000000")]:
        for more in [[], ["--json"]]:
            run = check.run("devices", *more, environment={"MUSTER_SIM": sim})
            check.refused(f"MUSTER_SIM={sim}", run, 2, part)
    broken = os.fsdecode(b'[{"name":"\xff\xc3","items_per_s":1}]')
    run = check.run("devices", "--json", environment={"MUSTER_SIM": broken})
    if run.code == 0:
        check.contains("broken UTF-8 becomes readable", json.loads(run.out)["devices"][-1]["name"], "\ufffd")
    else:
        check.refused("broken UTF-8 is refused", run, 2)


def missing_backend(check):
    path = "/nonexistent/backend.so"
    run = check.run("devices", "--json", environment={"MUSTER_BACKENDS": path})
    check.true("a backend that is not there is no success", run.code in (1, 2), str(run.code))
    check.equal("a backend that is not there: the failure", json.loads(run.out)["status"], "MUSTER_E_NOT_FOUND")
    check.contains("a backend that is not there is named", run.err, path)


check = Check()
the_cpu(check)
allowed_cores(check)
simulated(check)
described_in_a_file(check)
as_text(check)
malformed(check)
missing_backend(check)
check.finish()
