#!/usr/bin/env python3
"""What a profiler is told by NVTX: of a job with its units and deliveries, and of tasks; by a tool of the tests.

    ranges.py LIVE_JOB TOOL [REFERENCE]
"""
import os
import re
import subprocess
import sys
import tempfile

LIVE_JOB, TOOL = sys.argv[1:3]
DEVICES = '[{"count": 2, "items_per_s": 4e6}]'
ITEMS, TASKS = 200000, 50
passed = failed = 0


def check(what, holds, detail=""):
    global passed, failed
    passed, failed = passed + bool(holds), failed + (not holds)
    if not holds:
        print(f"FAILED: {what} {detail}")


def run(command, tool=TOOL, **more):
    """What the tool was told, and what the program wrote."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        environment = dict(os.environ, NVTX_TOOL_LOG=log, MUSTER_LIVE="0", **more)
        environment.pop("NVTX_INJECTION64_PATH", None)
        if tool:
            environment["NVTX_INJECTION64_PATH"] = tool
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=environment, timeout=120)
        check(f"{os.path.basename(command[0])} ends well", done.returncode == 0, done.stdout)
        return open(log).read().splitlines() if os.path.exists(log) else []


def check_ranges(lines):
    starts = {found[1]: found for line in lines if (found := re.match(r"start (\d+) (\d+) (\d+) 1 (.*)", line))}
    ends = [found[1] for line in lines if (found := re.match(r"end (\d+) 1", line))]
    check("each range ends once", sorted(starts) == sorted(ends), f"{len(starts)} begin, {len(ends)} end")
    jobs = [found for found in starts.values() if found[2] == "1"]
    units = [found for found in starts.values() if found[2] == "2"]
    check("one job", [found[4] for found in jobs] == ["job 1 edges"] and jobs[0][3] == str(ITEMS), str(jobs))
    spans = {tuple(map(int, re.match(r"job 1, items (\d+) to (\d+), sim:[01]$", found[4]).groups())) for found in units}
    check("units have all items", sum(end - begin for begin, end in spans) == ITEMS, str(len(spans)))
    check("on both devices", {found[4][-5:] for found in units} == {"sim:0", "sim:1"})
    check("no other ranges", len(jobs) + len(units) == len(starts))


def check_pushed(lines):
    """On each thread what is pushed is popped, and deliveries and tasks are what they should be."""
    depth, items, tasks = {}, 0, 0
    for line in lines:
        if found := re.match(r"push (\d+) (\d+) (\d+) 1 (.*)", line):
            depth[found[1]] = depth.get(found[1], 0) + 1
            items += int(found[3]) if (found[2], found[4]) == ("4", "delivery of job 1") else 0
            tasks += (found[2], found[4]) == ("3", "task")
        elif found := re.match(r"pop (\d+) 1", line):
            depth[found[1]] = depth.get(found[1], 0) - 1
            check("popped after a push", depth[found[1]] >= 0)
    check("all is popped", not any(depth.values()), str(depth))
    check("all items are delivered", items == ITEMS, str(items))
    check("all tasks", tasks == TASKS, str(tasks))


def main():
    words = [LIVE_JOB, DEVICES, f"job:{ITEMS}", f"tasks:{TASKS}"]
    lines = run(words)
    check("the domain and its categories", lines[:5] == ["domain muster", "category 1 jobs 1", "category 2 units 1",
                                                         "category 3 tasks 1", "category 4 deliveries 1"], str(lines[:5]))
    check_ranges(lines)
    check_pushed(lines)
    check("without a profiler nothing is loaded", run(words, tool=None) == [])
    check("a tool that refuses is left alone", run(words, NVTX_TOOL_REFUSES="1") == [])
    check("one that is not there too", run(words, tool="/nonexistent.so") == [])
    check("nor one that is no tool", run(words, tool="libc.so.6") == [])
    if len(sys.argv) > 3:
        told = run([sys.argv[3]])
        check("NVIDIA's own header says the same", [re.sub(r"^(push|pop) \d+", r"\1", line) for line in told] == [
            "domain reference", "category 7 seven 1", "start 1 7 42 1 by the book", "end 1 1", "push 7 42 1 by the book", "pop 1"],
            str(told))
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
