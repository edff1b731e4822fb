#!/usr/bin/env python3
"""Output that does not arrive is a failure: full disks, closed pipes, closed descriptors; and memory stays flat."""
import errno
import os
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
from lib.check import TIME_LIMIT_S, Check  # noqa: E402

ENDLESS = ["partition", "--total", str(2**60), "--devices", str(2**60)]
MIB = 1 << 20
FLAT_KIB = 4096


def resident_kib(process):
    with open(f"/proc/{process.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def closed_pipe(check):
    for more in [[], ["--json"]]:
        process = check.start(*ENDLESS, *more)
        check.true("an endless stream begins", len(process.stdout.read(64)) == 64)
        process.stdout.close()
        errors = process.stderr.read()
        check.equal("a closed pipe: exit code", process.wait(TIME_LIMIT_S), 1)
        check.equal("a closed pipe: nothing is said", errors, b"")
        process.stderr.close()


def closed_by_head(check):
    script = '{ "$0" "$@"; echo "code $?" >&2; } | head -n 1'
    line = subprocess.run(["sh", "-c", script, check.muster, *ENDLESS], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=TIME_LIMIT_S)
    check.equal("| head -n 1", line.stdout, f"{2**60} units of 1 item\n".encode())
    check.equal("| head -n 1: exit code, and no message", line.stderr, b"code 1\n")


def flat_memory(check):
    process = check.start(*ENDLESS, "--json")
    process.stdout.read(MIB)
    before = resident_kib(process)
    for _ in range(24):
        process.stdout.read(MIB)
    after = resident_kib(process)
    process.stdout.close()
    process.stderr.close()
    process.wait(TIME_LIMIT_S)
    check.true("memory is flat over 24 MiB of units", after - before < FLAT_KIB, f"{before} to {after} KiB")


def full_disk(check):
    if not os.path.exists("/dev/full"):
        print("no /dev/full here")
        return
    for arguments in [["version"], ["version", "--json"], ["devices"], ["devices", "--json"], ["--help"], ["help"],
                      ["partition", "--help"], ["partition", "--total", "9", "--devices", "1"], ENDLESS]:
        with open("/dev/full", "wb") as full:
            run = check.run(*arguments, stdout=full)
        check.equal(f"{arguments} on a full disk: exit code", run.code, 1)
        check.contains(f"{arguments} on a full disk", run.err, "muster: the output could not be written completely")
        check.contains(f"{arguments} on a full disk", run.err, os.strerror(errno.ENOSPC))


def closed_descriptors(check):
    run = check.run("version", stdout=None, preexec_fn=lambda: os.close(1))
    check.equal("stdout closed: exit code", run.code, 1)
    check.contains("stdout closed", run.err, "muster: the output could not be written completely")
    run = check.run("devices", "--json", preexec_fn=lambda: (os.close(0), os.close(2)))
    check.equal("stdin and stderr closed: exit code", run.code, 0)
    check.true("stdin and stderr closed: output is whole", run.out.startswith("{") and run.out.endswith("}\n"))


def default_sigpipe(check):
    """The caller's setting of SIGPIPE does not matter."""
    process = subprocess.Popen([check.muster, *ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL))
    process.stdout.close()
    process.stderr.close()
    check.equal("no death by SIGPIPE", process.wait(TIME_LIMIT_S), 1)


check = Check()
closed_pipe(check)
closed_by_head(check)
flat_memory(check)
full_disk(check)
closed_descriptors(check)
default_sigpipe(check)
check.finish()
