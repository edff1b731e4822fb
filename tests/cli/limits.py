#!/usr/bin/env python3
"""The command where the system gives little: a stack of 16 KiB, which `ulimit -s 16` leaves."""
import os
import resource
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import ROOT, TIME_LIMIT_S, Check  # noqa: E402

SIM = '[{"items_per_s": 1e9, "memory": "64MiB"}]'


def little_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (16 << 10, 16 << 10))


def stack(check, folder):
    path = os.path.join(folder, "input")
    with open(path, "w") as file:
        file.write("hello world\n" * 1000)
    scenario = os.path.join(ROOT, "examples", "scenarios", "unequal.json")
    calls = [["version"], ["help"], ["partition", "--total", "100", "--devices", "4"], ["devices", "--json"], ["pick"],
             ["exec", "--device", "cpu:0", "--", "true"], ["sim", scenario, "--json"], ["scan", "-c", "-e", "hello", path],
             ["frobnicate"]]
    # The environment lies on the stack too: a small one, the same everywhere.
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MUSTER_SIM": SIM, "XDG_RUNTIME_DIR": folder}
    for arguments in calls:
        plain, run = (subprocess.run([check.muster, *arguments], env=environment, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, timeout=TIME_LIMIT_S, preexec_fn=limit)
                      for limit in (None, little_stack))
        check.equal(f"{arguments}: exit code", run.returncode, plain.returncode)
        if arguments[0] != "devices":  # free memory changes
            check.equal(f"{arguments}: output", (run.stdout, run.stderr), (plain.stdout, plain.stderr))


def main():
    check = Check()
    if check.is_sanitized():
        print("skipped: a sanitizer needs more stack than that")
        check.true("a sanitizer", True)
    else:
        with tempfile.TemporaryDirectory() as folder:
            stack(check, folder)
    check.finish()


main()
