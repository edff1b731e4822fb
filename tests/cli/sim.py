#!/usr/bin/env python3
"""muster sim: its answer, its exit codes, the same bytes twice, and the files it writes beside."""
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

sys.dont_write_bytecode = True
from lib.check import ROOT, Check, clean_environment  # noqa: E402

SCENARIOS = os.path.join(ROOT, "examples", "scenarios")
KEYS = ["seed", "status", "makespan_ns", "bound_ns", "ratio", "units", "items_delivered", "lost", "duplicated",
        "out_of_order", "retries", "window_max", "devices"]
DEVICE_KEYS = ["id", "name", "items", "units", "busy_ns", "health", "faster_without"]
# makespan / bound that a scenario may take with seed 1; the link scenario's bound knows no pipeline.
RATIOS = {"unequal": 1.03, "one-fast": 1.03, "one-slow": 1.03, "two-classes": 1.01, "pareto": 1.08, "slow-down": 1.08,
          "loss": 1.08, "links": 1.6}
# The same of scenarios with machines; None: faults that the bound does not know.
MACHINE_RATIOS = {"ten": 1.05, "hundred": 1.05, "thousand": 1.05, "two-jobs": 1.05, "storm": None}
MACHINE_KEYS = ["jobs", "claims", "adopted", "missing", "workers_lost", "resumes"]
SVG = "{http://www.w3.org/2000/svg}"


def scenario(devices, **job):
    return json.dumps({"devices": devices, "job": {"items": 10000, **job}}).encode()


PLAIN = scenario([{"name": "fast", "items_per_s": 8e6, "jitter": 0.1, "launch_ns": 4000},
                  {"name": "slow", "count": 2, "items_per_s": 1e6, "jitter": 0.1, "launch_ns": 4000}])
LOST = scenario([{"items_per_s": 1e6, "faults": [{"kind": "lost", "at_ms": 1}]}], unit=300)
FLAKY = scenario([{"name": "flaky", "count": 3, "items_per_s": 1e6, "faults":
                   [{"kind": "unit_error", "probability": 0.1}]}], unit=50, tries=20)


def sim(check, text, *arguments, **options):
    return check.run("sim", "-", *arguments, input=text, **options)


def answer_of(check, what, run, code=0):
    check.equal(f"{what}: exit code", run.code, code)
    check.true(f"{what}: one line", run.out.endswith("}\n") and run.out.count("\n") == 1)
    answer = json.loads(run.out)
    check.equal(f"{what}: keys", list(answer), KEYS + (["failed"] if code else []))
    for device in answer["devices"]:
        check.equal(f"{what}: keys of a device", list(device), DEVICE_KEYS)
    return answer


def machines(check):
    folder = os.path.join(SCENARIOS, "machines")
    check.equal("the examples with machines are those that are known here",
                sorted(name[:-5] for name in os.listdir(folder)), sorted(MACHINE_RATIOS))
    for name, ratio in MACHINE_RATIOS.items():
        run = check.run("sim", os.path.join(folder, f"{name}.json"), "--json")
        check.equal(f"{name}: exit code", run.code, 0)
        answer = json.loads(run.out)
        check.equal(f"{name}: keys", list(answer), KEYS + MACHINE_KEYS)
        check.equal(f"{name}: once and in order", (answer["status"], answer["lost"], answer["duplicated"], answer["out_of_order"]),
                    ("ok", 0, 0, 0))
        check.true(f"{name}: ratio", ratio is None or 0.99 <= answer["ratio"] <= ratio, str(answer["ratio"]))
        if name == "storm":
            check.true("storm: all that was to happen did", all(answer[key] > 0 for key in MACHINE_KEYS[1:]), run.out[-300:])
            text = check.run("sim", os.path.join(folder, "storm.json"))
            check.true("storm: told in words", "2 submitters resumed" in text.out, text.out[:600])
    poison = {"machines": [{"count": 3, "devices": [{"items_per_s": 1e5}]}],
              "job": {"items": 100000, "grain": 100, "poison": [{"item": 12345, "kind": "fails"}]}}
    run = check.run("sim", "-", "--json", input=json.dumps(poison).encode())
    check.equal("poison: exit code", run.code, 1)
    check.equal("poison: that grain alone", json.loads(run.out)["failed"], [[12300, 12400]])


def examples(check):
    names = sorted(name[:-5] for name in os.listdir(SCENARIOS) if name.endswith(".json"))
    check.equal("the examples are those that are known here", names, sorted(RATIOS))
    for name in names:
        path = os.path.join(SCENARIOS, f"{name}.json")
        run = check.run("sim", path, "--json")
        answer = answer_of(check, name, run)
        check.equal(f"{name}: stderr", run.err, "")
        check.equal(f"{name}: every item once, in order",
                    (answer["status"], answer["items_delivered"], answer["lost"], answer["duplicated"],
                     answer["out_of_order"]), ("ok", 1000000, 0, 0, 0))
        check.true(f"{name}: ratio", 0.99 <= answer["ratio"] <= RATIOS[name], str(answer["ratio"]))
        check.equal(f"{name}: ratio is what it says", answer["ratio"], answer["makespan_ns"] / answer["bound_ns"])
        check.equal(f"{name}: items by device", sum(device["items"] for device in answer["devices"]), 1000000)
        check.equal(f"{name}: units by device", sum(device["units"] for device in answer["devices"]), answer["units"])
        check.true(f"{name}: nobody is busier than the time there was",
                   all(device["busy_ns"] <= answer["makespan_ns"] for device in answer["devices"]))


GRAPH_KEYS = ["seed", "status", "makespan_ns", "bound_ns", "ratio", "critical_path_ns", "area_ns", "tasks", "ended", "failed",
              "cancelled", "moved", "copies", "copied_bytes", "evictions", "written_back_bytes", "wrong", "devices"]


GRAPH_DEVICE_KEYS = ["id", "name", "tasks", "busy_ns", "bytes_in", "bytes_out", "health"]


def graph_of(check, what, run, code=0):
    check.equal(f"{what}: exit code", run.code, code)
    check.true(f"{what}: one line", run.out.endswith("}\n") and run.out.count("\n") == 1)
    answer = json.loads(run.out)
    check.equal(f"{what}: keys", list(answer), GRAPH_KEYS)
    for device in answer["devices"]:
        check.equal(f"{what}: keys of a device", list(device), GRAPH_DEVICE_KEYS)
    return answer


def graphs(check):
    path = os.path.join(SCENARIOS, "graphs", "cholesky.json")
    run = check.run("sim", path, "--json")
    answer = graph_of(check, "a graph", run)
    check.equal("a graph: all is well", (answer["status"], answer["ended"], answer["wrong"]), ("ok", 2600, 0))
    check.equal("a graph: bound", answer["bound_ns"], max(answer["critical_path_ns"], answer["area_ns"]))
    check.equal("a graph: ratio", answer["ratio"], answer["makespan_ns"] / answer["bound_ns"])
    check.true("a graph: ratio", 1 <= answer["ratio"] <= 1.06, str(answer["ratio"]))
    check.equal("a graph: tasks by device", sum(device["tasks"] for device in answer["devices"]), 2600)
    check.equal("a graph: bytes by device", sum(device["bytes_in"] + device["bytes_out"] for device in answer["devices"]),
                answer["copied_bytes"])
    check.equal("a graph: the same bytes again", check.run("sim", path, "--json").out, run.out)
    text = check.run("sim", path)
    check.equal("a graph, as text: exit code", text.code, 0)
    check.contains("a graph, as text", text.out, "critical path")
    with open(path, encoding="utf-8") as file:
        description = json.load(file)
    ratios = {}
    for policy in ("earliest-finish", "eager", "round-robin"):
        description["graph"]["policy"] = policy
        ratios[policy] = graph_of(check, policy, sim(check, json.dumps(description).encode(), "--json"))["ratio"]
    check.true("who knows more is faster", ratios["earliest-finish"] < ratios["eager"] < ratios["round-robin"], str(ratios))
    description["devices"] = [{"items_per_s": 1000, "faults": [{"kind": "unit_error", "at_launch": 1}]}]
    run = sim(check, json.dumps(description).encode(), "--json")
    answer = graph_of(check, "a graph that fails", run, 1)
    check.equal("a graph that fails: all of it follows the first", (answer["status"], answer["failed"], answer["cancelled"]),
                ("failed", 1, 2599))
    check.contains("a graph that fails: told", run.err, "1 tasks failed and 2599 were cancelled")
    for option in (["--runs", "2"], ["--everyone"], ["--trace", "x.json"], ["--timeline", "x.svg"]):
        run = check.run("sim", path, *option)
        check.equal(f"a graph with {option[0]}: exit code", run.code, 2)
        check.contains(f"a graph with {option[0]}", run.err, "are not for graphs")
    run = sim(check, b'{"devices": [{"items_per_s": 1}], "graph": {"kind": "qr", "tiles": 2}}')
    check.equal("an unknown kind: exit code", run.code, 2)
    check.contains("an unknown kind", run.err, "line 1, column")


def known_answer(check):
    """One device without jitter: everything can be worked out."""
    answer = answer_of(check, "one device", sim(check, scenario([{"name": "one", "items_per_s": 1e6}], unit=2500), "--json"))
    check.equal("one device", answer, {
        "seed": 1, "status": "ok", "makespan_ns": 10000000, "bound_ns": 10000000, "ratio": 1, "units": 4,
        "items_delivered": 10000, "lost": 0, "duplicated": 0, "out_of_order": 0, "retries": 0, "window_max": 5000,
        "devices": [{"id": "sim:0", "name": "one", "items": 10000, "units": 4, "busy_ns": 10000000, "health": "ok",
                     "faster_without": 0}]})
    run = sim(check, scenario([{"name": "one", "items_per_s": 1e6}], unit=2500))
    check.equal("one device, as text", run.out, """\
makespan      10.00 ms
bound         10.00 ms  the least time any schedule could take
ratio           1.0000
items           10,000  delivered; 0 lost, 0 twice, 0 out of order
units                4  with 0 retries
window           5,000  items claimed and not delivered at most

DEVICE  NAME   ITEMS    SHARE  UNITS     BUSY       RATE  RETRIES  HEALTH
sim:0   one   10,000  100.0 %      4  100.0 %  1.000 M/s        0  ok
""")


def repeatable(check, folder):
    runs = []
    for name in ["a", "b"]:
        trace, timeline = os.path.join(folder, f"{name}.json"), os.path.join(folder, f"{name}.svg")
        run = sim(check, PLAIN, "--json", "--seed", "7", "--trace", trace, "--timeline", timeline)
        runs.append((run, open(trace, "rb").read(), open(timeline, "rb").read()))
    check.equal("the same seed: the same bytes", runs[0], runs[1])
    check.equal("--seed is in the answer", json.loads(runs[0][0].out)["seed"], 7)
    check.equal("without --seed it is 1", sim(check, PLAIN, "--json"), sim(check, PLAIN, "--json", "--seed=1"))
    makespans = {json.loads(sim(check, PLAIN, "--json", "--seed", str(seed)).out)["makespan_ns"]
                 for seed in [0, 1, 2, 3, 2**64 - 1]}
    check.equal("other seeds: other runs", len(makespans), 5)
    german = sim(check, PLAIN, environment={"LC_ALL": "de_DE.UTF-8"})
    check.equal("no locale changes it", german, sim(check, PLAIN))


def failures(check):
    run = sim(check, LOST, "--json")
    answer = answer_of(check, "a loss", run, 1)
    check.equal("a loss: status", (answer["status"], answer["items_delivered"], answer["lost"]), ("failed", 900, 9100))
    check.equal("a loss: failed ranges", answer["failed"], [[900, 10000]])
    check.equal("a loss: no bound", (answer["bound_ns"], answer["ratio"]), (0, 0))
    check.equal("a loss: health", answer["devices"][0]["health"], "lost")
    check.contains("a loss: told", run.err, "muster: standard input: the job failed and 9100 items were not delivered")
    check.contains("a loss: told", run.err, "[900, 10000)")
    run = sim(check, LOST)
    check.equal("a loss, as text: exit code", run.code, 1)
    check.contains("a loss, as text", run.out, "until it failed")
    answer = answer_of(check, "unit errors", sim(check, FLAKY, "--json"))
    check.true("unit errors are retried", answer["retries"] > 0 and answer["lost"] == 0)


def refusals(check, folder):
    def path_of(name, content):
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    path = path_of("tries.json", b'{"devices": [{"items_per_s": 1e6}],\n "job": {"items": 1, "tires": 3}}')
    for more in [[], ["--json"]]:
        check.refused("an unknown key", check.run("sim", path, *more), 2,
                      f"muster: {path}: line 2, column 22: unknown key \"tires\" of the job\n  fix: ")
    for text, part in [(b"", "line 1, column 1: "), (b"{", "line 1, column 2: "),
                       (b'{"devices":[{"items_per_s":-1}],"job":{"items":1}}', "line 1, column 28: \"items_per_s\""),
                       (b'{"devices":[{"items_per_s":0}],"job":{"items":1}}', "must be a number above 0, not 0"),
                       (b'{"devices":[{"items_per_s":1}],"job":{"items":"x"}}', "line 1, column 47: \"items\" must be"),
                       (b'{"devices":[{"items_per_s":1}]}', '"job" is missing'),
                       (b"\xff", "line 1, column 1: ")]:
        check.refused(f"{text}", sim(check, text), 2, "muster: standard input: line ", part)
    check.refused("no file", check.run("sim", os.path.join(folder, "none")), 2, os.strerror(2))
    check.refused("a folder", check.run("sim", folder), 2, os.strerror(21))
    check.refused("a file that does not end", check.run("sim", "/dev/zero"), 2, "/dev/zero: ")
    run = sim(check, scenario([{"items_per_s": 1, "memory": "1GiB", "count": 2},
                               {"items_per_s": 1, "compute": [7, 5]}], hints={"min_free": "2GiB", "min_compute": [8, 0]}))
    check.refused("hints refuse all", run, 3, "sim:0 to sim:1 by min_free", "sim:2 by min_compute", "fix: ")
    run = sim(check, scenario([{"items_per_s": 1e6, "memory": "1GiB", "name": "small"}, {"items_per_s": 1e6}],
                              hints={"min_free": "2GiB"}))
    check.equal("hints refuse one: exit code", run.code, 0)
    check.contains("hints refuse one", run.out, "refused by min_free")
    for arguments, part in [([], "sim needs a FILE"), (["-", "x"], "'x'"), (["-", "--seed"], "--seed needs a value"),
                            (["-", "--seed", "-1"], "negative"), (["-", "--trace"], "--trace needs a value"),
                            (["-", "--trace="], "--trace cannot be empty"), (["-", "--trace", "-"], "not '-'"),
                            (["-", "--timeline=-"], "not '-'"), (["-", "--trace", "x", "--trace", "y"], "twice"),
                            (["-", "--trace", "x", "--timeline", "x"], "must name two files"),
                            ([path, "--trace", path], "would overwrite the scenario"),
                            ([path, "--timeline", path], "would overwrite the scenario")]:
        check.refused(f"sim {arguments}", check.run("sim", *arguments, stdin=subprocess.DEVNULL), 2, part,
                      "muster sim --help")


def check_tracks(check, what, events):
    """No two events of a track overlap, or viewers would draw nonsense."""
    tracks = {}
    for event in events:
        begin = round(event["ts"] * 1000)
        tracks.setdefault(event["tid"], []).append((begin, begin + round(event["dur"] * 1000)))
    for spans in tracks.values():
        spans.sort()
        check.true(f"{what}: events of a track follow each other",
                   all(after[0] >= before[1] for before, after in zip(spans, spans[1:])))


def check_job(check, what, events, answer):
    """The job is a span around its deliveries, which are in order; a lost device says so."""
    jobs = [event for event in events if event.get("cat") == "job"]
    deliveries = [event for event in events if event.get("cat") == "delivery"]
    lost = [event for event in events if event.get("cat") == "device lost"]
    check.equal(f"{what}: one job", [(event["pid"], event["tid"], event["ts"], event["args"]["outcome"]) for event in jobs],
                [(2, 1, 0, "done" if answer["status"] == "ok" else "failed")])
    check.equal(f"{what}: the job's length", round(jobs[0]["dur"] * 1000), answer["makespan_ns"])
    ranges = [(event["args"]["begin"], event["args"]["end"]) for event in deliveries]
    check.equal(f"{what}: what was delivered", sum(end - begin for begin, end in ranges), answer["items_delivered"])
    check.true(f"{what}: in order, without holes", all(a[1] == b[0] for a, b in zip([(0, 0)] + ranges, ranges)))
    check.equal(f"{what}: lost devices", [event["tid"] - 1 for event in lost],
                [i for i, device in enumerate(answer["devices"]) if device["health"] == "lost"])


def traces(check, folder):
    for name, text in [("plain", PLAIN), ("flaky", FLAKY), ("lost", LOST), ("links", None)]:
        path = os.path.join(folder, f"{name}.trace")
        source = os.path.join(SCENARIOS, "links.json")
        run = check.run("sim", source, "--json", "--trace", path) if text is None else sim(check, text, "--json",
                                                                                           "--trace", path)
        answer = json.loads(run.out)
        with open(path) as file:
            trace = json.load(file)
        events = trace["traceEvents"]
        check.equal(f"{name}: nothing is missing", trace["otherData"]["dropped"], 0)
        spans = [event for event in events if event["ph"] == "X" and event["cat"] == "unit"]
        check_job(check, name, events, answer)
        names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == 1}
        check_tracks(check, name, spans)
        check.true(f"{name}: every track is named", {event["tid"] for event in spans} <= set(names))
        for i, device in enumerate(answer["devices"]):
            label = f"{device['id']} {device['name']}"
            own = [event for event in spans if re.fullmatch(re.escape(label) + r"( \(\d+\))?", names[event["tid"]])]
            done = [event["args"] for event in own if event["args"]["outcome"] == "done"]
            check.equal(f"{name}: first track of device {i}", names[i + 1], label)
            check.equal(f"{name}: units of device {i}", len(done), device["units"])
            check.equal(f"{name}: items of device {i}", sum(a["end"] - a["begin"] for a in done), device["items"])
        ranges = sorted((event["args"]["begin"], event["args"]["end"]) for event in spans
                        if event["args"]["outcome"] == "done")
        check.true(f"{name}: what is done is done once", all(a[1] <= b[0] for a, b in zip(ranges, ranges[1:])))
        outcomes = {event["args"]["outcome"] for event in spans}
        check.true(f"{name}: outcomes", outcomes <= {"done", "late", "failed", "lost"}, str(outcomes))
        check.equal(f"{name}: failed units are there", "failed" in outcomes, name == "flaky")
        check.equal(f"{name}: retries are marked", any(event["args"]["retry"] for event in spans), name == "flaky")
        check.equal(f"{name}: lost units are there", "lost" in outcomes, name == "lost")


def texts_of(root):
    return ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def timelines(check, folder):
    path = os.path.join(folder, "picture.svg")
    awkward = scenario([{"name": "a<b>&\"c\u00e9", "items_per_s": 1e6},
                        {"name": "x" * 60, "items_per_s": 1e6, "faults": [{"kind": "lost", "at_ms": 2}]}], unit=300)
    check.equal("a picture: exit code", sim(check, awkward, "--timeline", path).code, 0)
    root = xml.parse(path).getroot()
    texts = texts_of(root)
    check.true("a picture: names", any(text == "a<b>&\"c\u00e9" for text in texts), str(texts))
    check.true("a picture: long names are cut", any(re.fullmatch("x+\u2026", text) for text in texts), str(texts))
    for word in ["bound", "done", "done in a second run", "lost: never came back", "lost"]:
        check.true(f"a picture: says {word}", word in texts, str(texts))
    check.true("a picture: has bars", len(list(root.iter(f"{SVG}path"))) >= 4)

    # More devices than rows, and units far thinner than a pixel.
    many = scenario([{"name": "many", "count": 500, "items_per_s": 1e6, "jitter": 0.9, "launch_ns": 1000}],
                    items=300000, unit=1)
    check.equal("many devices: exit code", sim(check, many, "--timeline", path).code, 0)
    check.true("many devices: a small file", os.path.getsize(path) < 1 << 20, str(os.path.getsize(path)))
    texts = texts_of(xml.parse(path).getroot())
    check.equal("many devices: rows", sum(text.startswith("sim:") for text in texts), 64)
    check.true("many devices: first and last", "sim:0" in texts and "sim:499" in texts)
    check.true("many devices: the rest in words", any("64 of 500 devices are shown" in text for text in texts))
    check.equal("a failed job is drawn too", sim(check, LOST, "--timeline", path).code, 1)
    check.true("a failed job says so", any("failed: 9,100 items" in text for text in texts_of(xml.parse(path).getroot())))


def who_takes_part(check):
    """A processor that takes the cores that feed a GPU is left out, and the report says so."""
    shared = json.dumps({
        "resources": [{"name": "cores", "capacity": 16}],
        "devices": [{"name": "gpu", "items_per_s": 1e8, "launch_ns": 4000, "feeds": {"cores": 1.5}, "sensitive": 8},
                    {"name": "cpu", "items_per_s": 1e7, "launch_ns": 4000, "uses": {"cores": 16}}],
        "job": {"items": 50000000}}).encode()
    answers = {name: json.loads(sim(check, shared, "--json", *options).out)
               for name, options in [("all", ["--everyone"]), ("first", []), ("third", ["--runs", "3"])]}
    check.equal("everyone: nobody is left out", [d["faster_without"] for d in answers["all"]["devices"]], [0, 0])
    for name in ["first", "third"]:
        factors = [device["faster_without"] for device in answers[name]["devices"]]
        check.true(f"{name}: the cpu is left out", factors[0] == 0 and factors[1] > 1.5, str(factors))
        check.true(f"{name}: that is faster", answers[name]["makespan_ns"] * 1.5 < answers["all"]["makespan_ns"])
    out = sim(check, shared).out
    check.true("the report says so", re.search(r"^sim:1 \(cpu\) left out: the job is \d\.\d\d times faster without it$",
                                               out, re.MULTILINE) is not None, out)
    check.true("and of nobody else", out.count("left out") == 1 and "left out" not in sim(check, shared, "--everyone").out)
    for wrong in ["0", "1001"]:
        check.refused(f"--runs {wrong}", sim(check, shared, "--runs", wrong), 2, "--runs must be from 1 to 1000")


def grouped_rows(check):
    many = scenario([{"name": "a", "count": 60, "items_per_s": 1e6}, {"name": "b", "count": 40, "items_per_s": 2e6}])
    out = sim(check, many).out
    check.contains("many devices are told of kind by kind", out, "sim:0 to sim:59   a ")
    check.contains("many devices are told of kind by kind", out, "sim:60 to sim:99  b ")
    check.equal("many devices: rows", sum(line.startswith("sim:") for line in out.splitlines()), 2)


def files_are_whole_or_not_there(check, folder):
    kept = os.path.join(folder, "kept")
    os.mkdir(kept)
    old = os.path.join(kept, "old.json")
    with open(old, "w") as file:
        file.write("old")
    os.chmod(old, 0o640)
    bad = b'{"devices":[]}'
    for arguments in [["--trace", old], ["--timeline", old], ["--trace", old, "--timeline", os.path.join(kept, "n.svg")]]:
        check.equal("a bad scenario: exit code", sim(check, bad, *arguments).code, 2)
        check.equal("a bad scenario leaves files alone", (os.listdir(kept), open(old).read()), (["old.json"], "old"))
    missing = os.path.join(kept, "none", "x")
    for arguments in [["--trace", missing], ["--timeline", missing], ["--trace", old, "--timeline", missing]]:
        run = sim(check, PLAIN, *arguments)
        check.refused(f"{arguments}", run, 1, f"{missing} could not be written: {os.strerror(2)}")
        check.equal("what cannot be written leaves files alone", (os.listdir(kept), open(old).read()),
                    (["old.json"], "old"))
    link = os.path.join(kept, "link.json")
    os.symlink("old.json", link)
    check.equal("through a link: exit code", sim(check, PLAIN, "--trace", link).code, 0)
    check.true("through a link: it stays one", os.path.islink(link) and sorted(os.listdir(kept)) == ["link.json", "old.json"])
    check.equal("an old file keeps its mode", os.stat(old).st_mode & 0o777, 0o640)
    check.true("an old file is replaced", open(old).read(1) == "{")
    run = sim(check, PLAIN, "--trace", "/dev/stdout", "--timeline", os.path.join(kept, "p.svg"))
    check.true("a pipe is written in place", run.code == 0 and run.out.startswith('{"displayTimeUnit"'))
    new = os.path.join(kept, "new.json")
    done = subprocess.run([check.muster, "sim", "-", "--trace", new], input=PLAIN, stdout=subprocess.DEVNULL,
                          env=clean_environment(), preexec_fn=lambda: os.umask(0o027), check=False)
    check.equal("a new file's mode is the umask's", (done.returncode, os.stat(new).st_mode & 0o777), (0, 0o640))
    if os.path.exists("/dev/full"):
        for option in ["--trace", "--timeline"]:
            run = sim(check, PLAIN, "--json", option, "/dev/full")
            check.equal(f"{option} on a full disk: exit code", run.code, 1)
            check.contains(f"{option} on a full disk", run.err, f"/dev/full could not be written: {os.strerror(28)}")
            check.true(f"{option} on a full disk: the answer is there", run.out.startswith('{"seed":1,'))
        with open("/dev/full", "wb") as full:
            check.equal("the answer on a full disk", sim(check, PLAIN, "--json", stdout=full).code, 1)


def killed_halfway(check, folder):
    """Whatever ends the command, nothing half done is left where files without a name exist."""
    place = os.path.join(folder, "killed")
    os.mkdir(place)
    slow = scenario([{"items_per_s": 1e6, "count": 4}], items=100000000, unit=10)
    process = subprocess.Popen([check.muster, "sim", "-", "--trace", os.path.join(place, "t.json")],
                               stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=clean_environment())
    process.stdin.write(slow)
    process.stdin.close()
    descriptors = f"/proc/{process.pid}/fd"
    try:
        while process.poll() is None and not any(place in os.readlink(os.path.join(descriptors, fd))
                                                 for fd in os.listdir(descriptors)):
            pass
    except OSError:
        pass
    process.kill()
    process.wait()
    check.true("a killed run leaves no file under its name", "t.json" not in os.listdir(place))


def flat_memory(check, folder):
    """Ten times the units, the same memory: the trace is written as it comes."""
    peaks = []
    for items in [300000, 3000000]:
        text = scenario([{"items_per_s": 1e6, "count": 8}], items=items, unit=10)
        script = ("import resource, subprocess, sys; "
                  "code = subprocess.run(sys.argv[1:], stdin=sys.stdin, stdout=subprocess.DEVNULL).returncode; "
                  "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = subprocess.run([sys.executable, "-c", script, check.muster, "sim", "-", "--trace", "/dev/null",
                               "--timeline", os.path.join(folder, "flat.svg")], input=text, capture_output=True,
                              env=clean_environment(), check=True)
        code, peak = map(int, done.stdout.split())
        check.equal("a long run: exit code", code, 0)
        peaks.append(peak)
    check.true("memory does not grow with the units", peaks[1] - peaks[0] < 4096, f"{peaks} KiB")


check = Check()
with tempfile.TemporaryDirectory() as temporary:
    examples(check)
    machines(check)
    graphs(check)
    known_answer(check)
    repeatable(check, temporary)
    failures(check)
    refusals(check, temporary)
    traces(check, temporary)
    timelines(check, temporary)
    grouped_rows(check)
    who_takes_part(check)
    files_are_whole_or_not_there(check, temporary)
    killed_halfway(check, temporary)
    flat_memory(check, temporary)
check.finish()
