#!/usr/bin/env python3
"""muster pick and muster explain: whom they choose among described devices, and what they say of the others."""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import ROOT, Check  # noqa: E402

POLICIES = ["round-robin", "least-loaded", "weighted", "adaptive", "earliest-finish", "sticky"]
OPTIONS = {"--policy", "--min-free", "--min-cc", "--backend", "--devices", "--slices", "--json", "--help"}
COMMANDS = ["pick", "explain"]
MACHINE = [
    {"name": "fast", "count": 2, "items_per_s": 8e6, "memory": "80GiB", "compute": [9, 0], "weight": 2.5},
    {"name": "slow", "items_per_s": 1e6, "memory": "4GiB", "compute": [7, 5], "weight": 0.25},
]
SIM = {"MUSTER_SIM": json.dumps(MACHINE)}
# GPUs of the machine that the test runs on are not to be picked.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["OCL_ICD_VENDORS"] = "/nonexistent"
SIM_IDS = ["sim:0", "sim:1", "sim:2"]


def cpu_ids(check):
    """A machine has one for each NUMA node, and they come first."""
    run = check.run("devices", "--json", environment=SIM)
    return [device["id"] for device in json.loads(run.out)["devices"] if device["backend"] == "cpu"]


def pick(check, *options, environment=None):
    return check.run("pick", *options, environment=SIM if environment is None else environment)


def explain(check, *options, environment=None):
    return check.run("explain", *options, environment=SIM if environment is None else environment)


def refusals(*lines):
    return "muster: no device is eligible\n" + "".join(f"  {id} refused by {words}\n" for id, words in lines)


def the_machine_itself(check):
    """Without simulated devices there is the cpu, for every policy."""
    for policy in [[], *(["--policy", name] for name in POLICIES)]:
        run = pick(check, *policy, environment={})
        check.equal(f"pick {policy}: exit code, stderr", (run.code, run.err), (0, ""))
        check.true(f"pick {policy}", re.fullmatch(r"cpu:\d+\n", run.out) is not None, run.out)


def by_policy(check, cpus):
    everything = [*cpus, *SIM_IDS]
    check.equal("the first of those left", pick(check), (0, f"{cpus[0]}\n", ""))
    for policy in ["round-robin", "least-loaded", "adaptive", "earliest-finish"]:
        for hints, expected in [([], cpus[0]), (["--backend", "sim"], "sim:0"), (["--devices", "sim:2,sim:1"], "sim:1")]:
            run = pick(check, "--policy", policy, *hints)
            check.equal(f"{policy} {hints}: nothing is measured or queued, the first", run, (0, f"{expected}\n", ""))
    check.equal("weighted takes the heaviest", pick(check, "--policy", "weighted"), (0, "sim:0\n", ""))
    check.equal("weighted among what is left", pick(check, "--policy", "weighted", "--devices", f"{cpus[0]},sim:2"),
                (0, f"{cpus[0]}\n", ""))
    home = pick(check, "--policy", "sticky")
    check.true("sticky picks one of them", home.code == 0 and home.out.strip() in everything, str(home))
    check.equal("sticky picks it again", pick(check, "--policy", "sticky"), home)
    moved = pick(check, "--policy", "sticky", "--devices", ",".join(id for id in everything if id != home.out.strip()))
    check.true("sticky without its device picks another", moved.code == 0 and moved.out != home.out, str(moved))
    for name in POLICIES:
        answer = json.loads(pick(check, "--policy", name, "--json").out)
        check.equal(f"{name}: JSON says which it was", answer["policy"], name)
    check.equal("adaptive is what is used", json.loads(pick(check, "--json").out)["policy"], "adaptive")


def by_hints(check, cpus):
    for hints, expected in [(["--backend", "sim"], "sim:0"), (["--backend", "sim,cpu"], cpus[0]),
                            (["--backend=cpu"], cpus[0]), (["--devices", "sim:2"], "sim:2"),
                            (["--device=sim:2,sim:1"], "sim:1"), (["--min-cc", "7.5"], "sim:0"),
                            (["--min-cc", "0.0"], cpus[0]), (["--min-cc", "9.0"], "sim:0"),
                            (["--min-cc=7.5", "--device=sim:2"], "sim:2"), (["--min-free", "0"], cpus[0]),
                            (["--min-free", "4GiB", "--devices", "sim:2"], "sim:2"),
                            (["--min-free", "4294967296", "--devices", "sim:2"], "sim:2"),
                            (["--min-free", "4294967297", "--devices", "sim:1,sim:2"], "sim:1"),
                            (["--min-free", "85899345920", "--backend", "sim"], "sim:0"),
                            (["--min-free", "0.5GiB", "--min-cc", "7.0", "--backend", "sim", "--devices", "sim:1",
                              "--policy", "weighted"], "sim:1")]:
        run = pick(check, *hints)
        check.equal(f"pick {hints}", run, (0, f"{expected}\n", ""))
        check.equal(f"pick {hints}: JSON", json.loads(pick(check, *hints, "--json").out)["device"], expected)


def as_json(check, cpus):
    check.equal("JSON: nobody refused", pick(check, "--json").out,
                f'{{"device":"{cpus[0]}","policy":"adaptive","refused":[]}}\n')
    refused = ",".join(f'{{"id":"{id}","hint":"backends"}}' for id in cpus)
    check.equal("JSON: some refused", pick(check, "--json", "--backend", "sim", "--min-free", "8GiB"),
                (0, f'{{"device":"sim:0","policy":"adaptive","refused":[{refused},'
                    '{"id":"sim:2","hint":"min_free"}]}\n', ""))


def none_left(check, cpus):
    """Exit code 3, and for each device the first hint it does not meet, with what is asked and what there is."""
    for hints, words in [
        (["--min-cc", "10.1"], {**{id: "min_cc: needs 10.1, has 0.0" for id in cpus},
                                "sim:0": "min_cc: needs 10.1, has 9.0", "sim:1": "min_cc: needs 10.1, has 9.0",
                                "sim:2": "min_cc: needs 10.1, has 7.5"}),
        (["--min-cc", "9.1", "--backend", "sim"], {**{id: "backends: cpu is not among sim" for id in cpus},
                                                   "sim:0": "min_cc: needs 9.1, has 9.0",
                                                   "sim:1": "min_cc: needs 9.1, has 9.0",
                                                   "sim:2": "min_cc: needs 9.1, has 7.5"}),
        (["--min-free", "1PiB", "--backend", "sim"], {**{id: "backends: cpu is not among sim" for id in cpus},
                                                      "sim:0": "min_free: needs 1.0 PiB, has 80.0 GiB",
                                                      "sim:1": "min_free: needs 1.0 PiB, has 80.0 GiB",
                                                      "sim:2": "min_free: needs 1.0 PiB, has 4.0 GiB"}),
        (["--min-free", "5GiB", "--devices", "sim:2"], {**{id: "devices: not among sim:2" for id in cpus},
                                                       "sim:0": "devices: not among sim:2",
                                                       "sim:1": "devices: not among sim:2",
                                                       "sim:2": "min_free: needs 5.0 GiB, has 4.0 GiB"}),
        (["--backend", "cpu", "--devices", "sim:0"], {**{id: "devices: not among sim:0" for id in cpus},
                                                     **{id: "backends: sim is not among cpu" for id in SIM_IDS}}),
    ]:
        run = pick(check, *hints)
        expected = refusals(*words.items())
        check.refused(f"pick {hints}", run, 3)
        check.equal(f"pick {hints}: stderr", run.err, expected)
        run = pick(check, *hints, "--json")
        check.equal(f"pick {hints} --json: exit code, stderr", (run.code, run.err), (3, expected))
        check.equal(f"pick {hints} --json", json.loads(run.out),
                    {"device": None, "policy": "adaptive",
                     "refused": [{"id": id, "hint": said.split(":")[0]} for id, said in words.items()]})
        run = explain(check, *hints)
        check.equal(f"explain {hints}: exit code, stderr", (run.code, run.err), (3, ""))
        rows = [re.split(r" {2,}", line, maxsplit=2) for line in run.out.splitlines()[2:]]
        check.equal(f"explain {hints}", rows, [[id, "-", said] for id, said in words.items()])
        run = explain(check, *hints, "--json")
        check.equal(f"explain {hints} --json: exit code, stderr", (run.code, run.err), (3, ""))
        check.equal(f"explain {hints} --json", json.loads(run.out)["devices"],
                    [{"id": id, "score": None, "refused": said.split(":")[0], "outcome": "refused"}
                     for id, said in words.items()])


def explained(check, cpus):
    run = explain(check, "--policy", "weighted", "--min-free", "8GiB", "--devices", "sim:1,sim:2,sim:0")
    out = [["ID", "SCORE", "OUTCOME"], *[[id, "-", "devices: not among sim:1,sim:2,sim:0"] for id in cpus],
           ["sim:0", "2.5", "picked"], ["sim:1", "2.5", "eligible"],
           ["sim:2", "-", "min_free: needs 8.0 GiB, has 4.0 GiB"]]
    check.equal("explain: exit code, stderr", (run.code, run.err), (0, ""))
    lines = run.out.splitlines()
    check.equal("explain: the policy", lines[0], "policy weighted")
    check.equal("explain: the table", [re.split(r" {2,}", line, maxsplit=2) for line in lines[1:]], out)
    check.true("explain: no spaces at the ends", all(line == line.rstrip() for line in lines), run.out)
    column = lines[1].index("OUTCOME")
    check.true("explain: columns are aligned", all(line[column - 1] == " " != line[column] for line in lines[1:]),
               run.out)

    run = explain(check, "--policy", "weighted", "--json")
    check.true("explain --json: one line", run.out.count("\n") == 1 and run.out.endswith("\n"))
    answer = json.loads(run.out)
    check.equal("explain --json: keys", list(answer), ["policy", "devices"])
    check.equal("explain --json", [(device["id"], device["score"], device["refused"], device["outcome"])
                                   for device in answer["devices"]],
                [*[(id, 1, None, "eligible") for id in cpus], ("sim:0", 2.5, None, "picked"),
                 ("sim:1", 2.5, None, "eligible"), ("sim:2", 0.25, None, "eligible")])
    for device in answer["devices"]:
        check.equal("explain --json: keys of a device", list(device), ["id", "score", "refused", "outcome"])

    # Nobody has work or was measured: one is as good as the other, and the lowest id is taken.
    for policy, score in [("round-robin", 0), ("least-loaded", 0), ("adaptive", 1), ("earliest-finish", -1)]:
        devices = json.loads(explain(check, "--policy", policy, "--json").out)["devices"]
        check.equal(f"explain {policy}: scores", [device["score"] for device in devices], [score] * (len(cpus) + 3))
    # A weight of nothing still counts as a hundredth.
    light = {"MUSTER_SIM": '[{"items_per_s":1,"weight":0}]'}
    run = explain(check, "--policy", "weighted", "--devices", "sim:0", environment=light)
    check.true("explain: the least weight", re.search(r"^sim:0 +0\.01 +picked$", run.out, re.MULTILINE) is not None,
               run.out)


def the_same_pick(check):
    """What explain marks as picked is what pick prints, and whom it refuses pick refuses."""
    for policy in POLICIES:
        for hints in [[], ["--backend", "sim"], ["--min-free", "8GiB"], ["--min-cc", "7.5"], ["--devices", "sim:2"],
                      ["--min-cc", "99.0"]]:
            options = ["--policy", policy, *hints]
            picked, shown = pick(check, *options, "--json"), explain(check, *options, "--json")
            check.equal(f"{options}: exit codes", shown.code, picked.code)
            devices = json.loads(shown.out)["devices"]
            marked = [device["id"] for device in devices if device["outcome"] == "picked"]
            answer = json.loads(picked.out)
            check.equal(f"{options}: the device", marked, [answer["device"]] if answer["device"] else [])
            check.equal(f"{options}: those refused", answer["refused"],
                        [{"id": device["id"], "hint": device["refused"]} for device in devices if device["refused"]])


def many_devices(check):
    """A decision keeps 16 devices, the chosen one always among them."""
    many = {"MUSTER_SIM": '[{"items_per_s":1e6,"count":40},{"items_per_s":1e6,"weight":9}]'}
    check.equal("the last of many", pick(check, "--devices", "sim:40", environment=many), (0, "sim:40\n", ""))
    check.equal("the heaviest of many", pick(check, "--policy", "weighted", environment=many), (0, "sim:40\n", ""))
    devices = json.loads(explain(check, "--policy", "weighted", "--json", environment=many).out)["devices"]
    check.equal("16 are shown", len(devices), 16)
    check.equal("the chosen one is the last of them", devices[-1],
                {"id": "sim:40", "score": 9, "refused": None, "outcome": "picked"})


def described_in_a_file(check):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"devices": MACHINE}, file)
        file.flush()
        run = pick(check, "--min-cc", "9.0", environment={"MUSTER_SIM": file.name})
    check.equal("a machine from a file", run, (0, "sim:0\n", ""))


def wrong_values(check):
    version = "--min-cc takes two numbers as in 8.0, not"
    for options, part in [
        (["--policy", "claim"], "unknown policy 'claim'; known: adaptive, round-robin, least-loaded, weighted, earliest-finish, sticky"),
        (["--policy", "Weighted"], "unknown policy 'Weighted'"),
        (["--policy", "adaptive,sticky"], "unknown policy 'adaptive,sticky'"),
        (["--policy="], "--policy cannot be empty"),
        (["--min-free", "much"], '--min-free: "much" is not a number of bytes'),
        (["--min-free", "-1"], '"-1" is not a number of bytes'), (["--min-free", "1.5"], "is not a number of bytes"),
        (["--min-free", "0.1GiB"], '"0.1GiB" is not a number of bytes'), (["--min-free", "1 GiB"], "is not a number"),
        (["--min-free", "1gib"], "is not a number of bytes"), (["--min-free", "16EiB"], "is not a number of bytes"),
        (["--min-free="], "--min-free cannot be empty"),
        (["--min-cc", "8"], f"{version} '8'"), (["--min-cc", "8."], f"{version} '8.'"),
        (["--min-cc", ".0"], f"{version} '.0'"), (["--min-cc", "8.0.1"], f"{version} '8.0.1'"),
        (["--min-cc", "-8.0"], f"{version} '-8.0'"), (["--min-cc", "8,0"], f"{version} '8,0'"),
        (["--min-cc", "65536.0"], f"{version} '65536.0'"), (["--min-cc", "8.65536"], f"{version} '8.65536'"),
        (["--min-cc", f"{2**64 + 8}.0"], version), (["--min-cc", " 8.0"], f"{version} ' 8.0'"),
        (["--min-cc="], "--min-cc cannot be empty"), (["--backend="], "--backend cannot be empty"),
        (["--devices="], "--devices cannot be empty"), (["--device="], "--devices cannot be empty"),
        (["--policy"], "--policy needs a value"), (["--min-free", "--json"], "--min-free needs a value"),
        (["--json", "--json"], "--json is given twice"),
        (["--min-cc", "8.0", "--min-cc=8.0"], "--min-cc is given twice"),
        (["--json=yes"], "--json takes no value"), (["--dveices", "cpu:0"], "has no option --dveices; did you mean --devices?"),
        (["cpu:0"], "does not take the argument 'cpu:0'"), (["-p"], "has no option -p"),
    ]:
        for command in COMMANDS:
            run = check.run(command, *options, environment=SIM)
            check.refused(f"{command} {options}", run, 2, part, f"\n  fix: muster {command} --help\n")
    for options, name in [(["--backend", "gpu"], "gpu"), (["--backend", "cpu,gpu"], "gpu"),
                          (["--backend", "cpu sim"], "cpu sim"), (["--devices", "sim:3"], "sim:3"),
                          (["--devices", "sim:0,sim:00"], "sim:00"), (["--devices", "smi"], "smi"),
                          (["--devices", "cpu:999999"], "cpu:999999")]:
        for command in COMMANDS:
            run = check.run(command, *options, environment=SIM)
            check.refused(f"{command} {options}", run, 2, f'the hints name "{name}", which does not exist',
                          "`muster devices`")
    check.contains("a slip", pick(check, "--devices", "smi", environment=SIM).err, "did you mean sim?")
    check.equal("ids and backends", pick(check, "--devices", "sim", environment=SIM).out[:4], "sim:")
    run = pick(check, "--min-cc", "65535.65535", "--min-free", str(2**64 - 1))
    check.equal("the largest numbers there are", run.code, 3)


def wrong_machines(check):
    for sim, part in [("[", "MUSTER_SIM: line 1, column 2"), ("/nonexistent/sim.json", "/nonexistent/sim.json"),
                      ('[{"items_per_s":-1}]', "items_per_s")]:
        for command in COMMANDS:
            for more in [[], ["--json"]]:
                run = check.run(command, *more, environment={"MUSTER_SIM": sim})
                check.refused(f"{command} with MUSTER_SIM={sim}", run, 2, part)
    for command in COMMANDS:
        run = check.run(command, environment={"MUSTER_BACKENDS": "/nonexistent/backend.so"})
        check.true(f"{command}: a backend that is not there is no success", run.code in (1, 2), str(run.code))
        check.contains(f"{command}: a backend that is not there is named", run.err, "/nonexistent/backend.so")


def lost_output(check):
    if not os.path.exists("/dev/full"):
        print("no /dev/full here")
        return
    for arguments in [["pick"], ["pick", "--json"], ["explain"], ["explain", "--json"]]:
        with open("/dev/full", "wb") as full:
            run = check.run(*arguments, stdout=full)
        check.equal(f"{arguments} on a full disk: exit code", run.code, 1)
        check.contains(f"{arguments} on a full disk", run.err, "muster: the output could not be written completely")


def documents(check):
    with open(os.path.join(ROOT, "docs", "man", "muster.1")) as file:
        page = file.read().replace("\\-", "-")
    with open(os.path.join(ROOT, "docs", "policies.md")) as file:
        policies = file.read()
    for command in COMMANDS:
        run = check.run(command, "--help")
        check.equal(f"{command} --help: options", set(re.findall(r"^  (--[a-z-]+)", run.out, re.MULTILINE)), OPTIONS)
        check.contains("the manual has it", page, f"muster {command}")
    for option in OPTIONS:
        check.contains("the manual has the option", page, option)
    for name in POLICIES:
        check.contains("help knows the policy", check.run("pick", "--help").out, name)
        check.contains("the manual knows the policy", page, name)
        check.contains("the document knows the policy", policies, f"`{name}`")


check = Check()
cpus = cpu_ids(check)
the_machine_itself(check)
by_policy(check, cpus)
by_hints(check, cpus)
as_json(check, cpus)
none_left(check, cpus)
explained(check, cpus)
the_same_pick(check)
many_devices(check)
described_in_a_file(check)
wrong_values(check)
wrong_machines(check)
lost_output(check)
documents(check)
check.finish()
