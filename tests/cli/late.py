#!/usr/bin/env python3
"""The command on a machine with a driver that never answers: what the open devices can do is done, and nobody waits."""
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import ROOT, Check  # noqa: E402

WORDS = 5000
KERNEL = """
MUSTER_KERNEL void twice(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out)
{ out[i] = 2 * in[i]; }
"""


def scan(check, folder, late):
    path = os.path.join(folder, "input")
    with open(path, "w") as file:
        file.write("hello world\n" * WORDS)
    run = check.run("scan", "-c", "-e", "hello", path, environment=late)
    check.equal("scan ends", (run.code, run.out, run.err), (0, f"{WORDS}\n", ""))
    run = check.run("scan", "-o", "-b", "-e", "hello", path, environment=late)
    check.equal("all that it prints is written", (run.code, run.out),
                (0, "".join(f"{12 * i}:hello\n" for i in range(WORDS))))
    run = check.run("scan", "--json", "-e", "hello", path, environment=late)
    check.equal("exit code", run.code, 0)
    ids = [device["id"] for device in json.loads(run.out)["devices"]]
    check.true("who did it is told", ids and all(name.startswith("cpu:") for name in ids), str(ids))
    with open("/dev/full", "wb") as full:
        run = check.run("scan", "-o", "-e", "hello", path, environment=late, stdout=full)
    check.equal("a full disk is still told of", run.code, 1)


def map_file(check, folder, late):
    kernel, source, target = (os.path.join(folder, name) for name in ("twice.c", "in", "out"))
    with open(kernel, "w") as file:
        file.write(KERNEL)
    with open(source, "wb") as file:
        file.write(b"".join(i.to_bytes(4, "little") for i in range(WORDS)))
    run = check.run("map", "--kernel", kernel, "--item", "4", "--in", source, "--out", target, environment=late)
    if not check.equal("map ends", run.code, 0):
        print(run.err)
        return
    with open(target, "rb") as file:
        check.true("and its file is whole",
                   file.read() == b"".join((2 * i).to_bytes(4, "little") for i in range(WORDS)))


def main():
    check = Check()
    backend = os.environ.get("TEST_BACKEND", os.path.join(ROOT, "build", "dev", "tests", "fault",
                                                          "libfault_backend_without_answer.so"))
    with tempfile.TemporaryDirectory() as folder:
        late = {"MUSTER_BACKENDS": backend, "MUSTER_CACHE": os.path.join(folder, "cache")}
        scan(check, folder, late)
        map_file(check, folder, late)
    check.finish()


if __name__ == "__main__":
    main()
