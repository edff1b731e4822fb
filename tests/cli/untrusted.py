#!/usr/bin/env python3
"""muster --untrusted: what runs, what is refused with which words, and what a hostile kernel comes to."""
import os
import struct
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import Check  # noqa: E402

ITEMS = 2000
KERNEL = """#include <muster_kernel.h>
MUSTER_KERNEL void step(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out)
{
    %s
    out[i] = in[i] + 1;
}
"""


def write(folder, name, data):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def runs(check, folder):
    """In the place before the command, among its options, and as the variable."""
    for words, environment in [(["--untrusted", "map"], {}), (["map", "--untrusted"], {}), (["map"], {"MUSTER_UNTRUSTED": "1"})]:
        run = check.run(*words, "--kernel", "step.c", "--in", "in", "--out", "out", "--item", "4", "--devices", "cpu",
                        environment=environment, cwd=folder)
        check.equal(f"{words} {environment}", (run.code, run.err), (0, ""))
        with open(os.path.join(folder, "out"), "rb") as file:
            check.equal("every item", file.read(), struct.pack(f"<{ITEMS}I", *range(1, ITEMS + 1)))
    run = check.run("devices", environment={"MUSTER_UNTRUSTED": "perhaps"}, cwd=folder)
    check.contains("another value of the variable", run.err, "MUSTER_UNTRUSTED is perhaps")


def hostile(check, folder):
    """A kernel that jumps into its own data, where a system call stands."""
    run = check.run("--untrusted", "map", "--kernel", "hostile.c", "--in", "in", "--out", "hostile", "--item", "4",
                    "--devices", "cpu", cwd=folder)
    check.equal("fails", run.code, 1)
    check.contains("the item is named", run.err, "item 777 failed on cpu:0: the kernel crashed")
    check.equal("no output is left", os.path.exists(os.path.join(folder, "hostile")), False)


def refused(check, folder):
    for words, text in [
        (["--untrusted", "exec", "--", "true"], "exec runs programs with your rights"),
        (["--untrusted", "kernel", "check", "step.c"], "a process that is no sandbox"),
        (["--untrusted", "reduce", "--kernel", "step.c"], "joined by its own code"),
    ]:
        run = check.run(*words, cwd=folder)
        check.equal(f"{words}: exit", run.code, 2)
        check.contains(f"{words}", run.err, text)


check = Check()
check.muster = os.path.abspath(check.muster)
with tempfile.TemporaryDirectory() as folder:
    write(folder, "step.c", (KERNEL % "").encode())
    write(folder, "hostile.c", (KERNEL % "const uint8_t code[3] = { 0x0f, 0x05, 0xc3 };\n    if (in[i] == 777)\n"
                                "        ((void (*)(uint64_t))(uint64_t)code)(0);").encode())
    write(folder, "in", struct.pack(f"<{ITEMS}I", *range(ITEMS)))
    probe = check.run("--untrusted", "devices", cwd=folder)
    if "the sandbox needs" in probe.err:
        print(f"skipped: {probe.err.strip()}")
        sys.exit(77)
    for part in [runs, hostile, refused]:
        part(check, folder)
check.finish()
