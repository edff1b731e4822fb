#!/usr/bin/env python3
"""Files that the command writes: whose they are, where they go, and what is left when it is ended. Where it matters who one is, root
becomes another user; anybody else tests what is left. Under a sanitizer, where each run of the command takes long, there are fewer runs
of it: one for each piece of code."""
import json
import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from lib.check import Check, clean_environment  # noqa: E402

KERNEL = "MUSTER_KERNEL void invert(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out)\n" \
         "{ out[i] = (uint8_t)(255 - in[i]); }\n"
SCENARIO = {"devices": [{"name": "d", "count": 2, "items_per_s": 1e6}], "job": {"items": 10000}}
DATA = bytes(range(256)) * 400
INVERTED = bytes(255 - byte for byte in DATA)
ALICE = 54321  # neither need be known to the machine
BOB = 54322
END_S = 60  # by when everything has ended, however slow the machine
FEW = ["map -o", "kernel build -o", "sim --trace"]  # one of each piece of code that opens files
KILLS = int(os.environ.get("MUSTER_TEST_KILLS", "12"))
SEED = int(os.environ.get("MUSTER_TEST_SEED", "1"))


class Bench:
    def __init__(self, check, folder):
        self.check, self.folder = check, folder
        self.is_slow = check.is_sanitized()
        self.temporary = os.path.join(folder, "tmp")
        self.environment = {"MUSTER_CACHE": os.path.join(folder, "cache"), "TMPDIR": self.temporary}
        for name in ["tmp", "cache"]:
            os.mkdir(os.path.join(folder, name))
            os.chmod(os.path.join(folder, name), 0o700 if name == "cache" else 0o1777)
        self.write("k.c", KERNEL.encode())
        self.write("s.json", json.dumps(SCENARIO).encode())
        self.write("in", DATA)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def run(self, *words, environment=None, **options):
        return self.check.run(*words, environment={**self.environment, **(environment or {})}, cwd=self.folder, **options)

    def start(self, *words, environment=None, **options):
        return subprocess.Popen([self.check.muster, *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=self.folder,
                                env=clean_environment(**{**self.environment, **(environment or {})}), **options)

    def map(self, out, *words, **options):
        return self.run("map", "-k", "k.c", "-i", "in", "-o", out, "--item", "1", "--devices", "cpu", "--quiet", *words, **options)

    def commands(self, name):
        """Every way to write a file of that name, and what runs it."""
        ways = {"map -o": lambda: self.map(name),
                "map --trace": lambda: self.map("other", "--trace", name),
                "map --timeline": lambda: self.map("other", "--timeline", name),
                "kernel build -o": lambda: self.run("kernel", "build", "-o", name, "k.c"),
                "sim --trace": lambda: self.run("sim", "s.json", "--trace", name),
                "sim --timeline": lambda: self.run("sim", "s.json", "--timeline", name)}
        return [(what, ways[what]) for what in (FEW if self.is_slow else ways)]


def rights(check, bench):
    """Root that writes over the file of a user makes no file of root's that users can have run."""
    for what, run in bench.commands("out"):
        bench.write("out", b"#!/bin/sh\n")
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(bench.path("out"), ALICE, BOB)
        os.chmod(bench.path("out"), 0o6755)
        check.equal(f"{what}: exit code", run().code, 0)
        facts = os.stat(bench.path("out"))
        check.equal(f"{what}: mode", oct(stat.S_IMODE(facts.st_mode)), oct(0o755))
        if is_root:
            check.equal(f"{what}: owner and group", (facts.st_uid, facts.st_gid), (ALICE, BOB))
        check.true(f"{what}: it is new", bench.read("out") != b"#!/bin/sh\n")
        os.remove(bench.path("out"))
    for what, run in [each for each in bench.commands("out") if each[0] in FEW]:
        old = os.umask(0o027)
        check.equal(f"{what}, new: exit code", run().code, 0)
        os.umask(old)
        check.equal(f"{what}, new: mode", oct(stat.S_IMODE(os.stat(bench.path("out")).st_mode)), oct(0o640))
        os.remove(bench.path("out"))


def descriptors(check, bench):
    """What has a descriptor's name is written through that descriptor: what was before it and comes after it stays."""
    script = 'echo before; "$@"; echo after'

    def shell(*words):
        with open(bench.path("log"), "wb") as log:
            return subprocess.run(["sh", "-c", script, "sh", check.muster, *words], stdout=log, stderr=log, cwd=bench.folder, check=False,
                                  env=clean_environment(**bench.environment), timeout=END_S).returncode

    usual = ["map", "-k", "k.c", "-i", "in", "--item", "1", "--devices", "cpu", "--quiet"]
    for name in ["link", "/dev/fd/1"] if bench.is_slow else ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"]:
        os.symlink("/dev/stdout", bench.path("link"))
        check.equal(f"-o {name}: exit code", shell(*usual, "-o", name), 0)
        check.true(f"-o {name}: all is there", bench.read("log") == b"before\n" + INVERTED + b"after\n", str(bench.read("log")[:80]))
        check.true(f"-o {name}: a link stays", os.path.islink(bench.path("link")))
        os.remove(bench.path("link"))
    for words in [[*usual, "-o", "out", "--trace", "/dev/stderr"], ["sim", "s.json", "--trace", "/dev/stderr"],
                  ["sim", "s.json", "--timeline", "/dev/stdout"], [*usual, "-o", "out", "--timeline", "/dev/fd/2"],
                  ["kernel", "build", "-o", "/dev/stdout", "k.c"]][3 if bench.is_slow else 0:]:
        check.equal(f"{words}: exit code", shell(*words), 0)
        text = bench.read("log")
        check.true(f"{words}: all is there", text.startswith(b"before\n") and text.endswith(b"after\n") and len(text) > 100, str(text[-80:]))
    run = bench.run("map", "-k", "k.c", "-i", "in", "-o", "/dev/stdout", "--item", "1", "--devices", "cpu", "--json",
                    stdout=subprocess.DEVNULL)
    check.true("a report does not get into the data", run.code == 0 and run.err.startswith("{"), run.err)
    run = bench.map("/dev/fd/77")
    check.refused("a descriptor that is not open", run, 1, "/dev/fd/77 could not be written")
    run = bench.map("/dev/stdin", stdin=open("/dev/null", "rb"))
    check.refused("one that is open for reading", run, 1, "/dev/stdin could not be written")
    check.equal("a descriptor is not a name", sorted(name for name in os.listdir(bench.folder) if "muster" in name), [])


def names(check, bench):
    inner, long_name = bench.path("inner"), "x" * 255
    os.mkdir(inner)
    for what, run in bench.commands("dangling"):
        os.symlink("inner/target", bench.path("dangling"))
        check.equal(f"{what}: a link to what is not there: exit code", run().code, 0)
        check.true(f"{what}: it is followed", os.path.islink(bench.path("dangling")) and os.path.isfile(os.path.join(inner, "target")),
                   str(os.listdir(inner)))
        for path in [bench.path("dangling"), os.path.join(inner, "target")]:
            if os.path.lexists(path):
                os.remove(path)
    for what, run in [each for each in bench.commands(long_name) if each[0] in FEW]:
        done = run()
        check.true(f"{what}: the longest name", done.code == 0 and os.path.isfile(bench.path(long_name)), done.err)
        if os.path.exists(bench.path(long_name)):
            os.remove(bench.path(long_name))
    # Names of a process of the same number, that ran in another container or was killed.
    script = 'i=0; while [ $i -lt 20 ]; do : > inner/out.muster-$$-$i; i=$((i+1)); done; : > inner/out.muster-$$; exec "$@"'
    for words in [["map", "-k", "k.c", "-i", "in", "-o", "inner/out", "--item", "1", "--devices", "cpu", "--quiet"],
                  ["sim", "s.json", "--trace", "inner/out"], ["kernel", "build", "-o", "inner/out", "k.c"]]:
        done = subprocess.run(["sh", "-c", script, "sh", check.muster, *words], cwd=bench.folder, capture_output=True, check=False,
                              env=clean_environment(**bench.environment), timeout=END_S)
        # Without NVRTC `kernel build` says what it leaves out.
        check.true(f"{words[0]}: names that are taken", done.returncode == 0 and b"could not" not in done.stderr, str(done))
        check.equal(f"{words[0]}: they stay", len(os.listdir(inner)), 22)
        for name in os.listdir(inner):
            os.remove(os.path.join(inner, name))
    os.rmdir(inner)


def hostile(check, bench):
    """Places where nothing can be written, and an output that is the input."""
    files = sorted(os.listdir(bench.folder))
    os.mkdir(bench.path("folder"))
    for what, run in bench.commands("folder"):
        check.true(f"{what}: a folder", run().code == 1 and os.listdir(bench.path("folder")) == [], what)
    os.rmdir(bench.path("folder"))
    for what, run in bench.commands("/dev/full"):
        done = run()
        check.true(f"{what}: a full disk", done.code == 1 and os.strerror(28) in done.err, str(done))
    if os.path.exists(bench.path("other")):
        os.remove(bench.path("other"))
    check.equal("nothing is left", sorted(os.listdir(bench.folder)), files)
    # The input is a hard link of the output: it is read to its end, and stays what it was.
    bench.write("same", DATA)
    os.link(bench.path("same"), bench.path("same too"))
    done = bench.run("map", "-k", "k.c", "-i", "same", "-o", "same", "--item", "1", "--devices", "cpu", "--quiet")
    check.true("over its own input", done.code == 0 and bench.read("same") == INVERTED, str(done))
    check.true("another link of it", bench.read("same too") == DATA)
    if os.geteuid() != 0:
        return
    # Another user's file in a sticky folder, and one's own in a folder that cannot be written to.
    os.mkdir(bench.path("sticky"))
    os.chmod(bench.path("sticky"), 0o1777)
    bench.write("sticky/out", b"before")
    os.chown(bench.path("sticky/out"), ALICE, ALICE)
    os.chmod(bench.path("sticky/out"), 0o666)
    if not can_be(check, bench, BOB):
        return
    for mode, user in [(0o1777, BOB), (0o755, ALICE)]:
        os.chmod(bench.path("sticky"), mode)
        done = bench.map("sticky/out", user=user, group=user, extra_groups=[], environment={"MUSTER_CACHE": ""})
        check.refused(f"{oct(mode)}", done, 1, "sticky/out could not be written")
        check.equal(f"{oct(mode)}: it is as it was", (os.listdir(bench.path("sticky")), bench.read("sticky/out")), (["out"], b"before"))


def can_be(check, bench, user):
    os.chmod(bench.folder, 0o777)
    try:
        done = subprocess.run([check.muster, "version"], user=user, group=user, extra_groups=[], cwd=bench.folder, capture_output=True,
                              check=False)
    except (OSError, TypeError):
        done = None
    if done and done.returncode == 0:
        return True
    print("not tested: several users, since others cannot run this build")
    return False


def tasks_of(user):
    count = 0
    for process in os.listdir("/proc"):
        try:
            if process.isdigit() and os.stat(f"/proc/{process}").st_uid == user:
                count += len(os.listdir(f"/proc/{process}/task"))
        except OSError:
            continue
    return count


def thread_limit(check, bench):
    """Under a limit on threads it works or says why not, and ends: never waits for a thread that cannot be."""
    check.equal("a bundle, that needs no compiler", bench.run("kernel", "build", "-o", "k.mk", "k.c").code, 0)
    options, base = {}, 0
    if os.geteuid() == 0:
        if not can_be(check, bench, BOB):
            return
        options = {"user": BOB, "group": BOB, "extra_groups": []}
    else:
        base = tasks_of(os.geteuid())
    data = os.urandom(3 << 20)
    bench.write("in", data)
    expected = bytes(255 - byte for byte in data)
    codes = []
    for limit in range(base + 1, base + 60, 4 if bench.is_slow else 1):
        # The user changes after the limit is set, and then it holds.
        process = bench.start("map", "-k", "k.mk", "-i", "in", "-o", f"limited-{limit}", "--item", "1", "--devices", "cpu", "--quiet",
                              environment={"MUSTER_CACHE": ""}, **options,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit)))
        try:
            err = process.communicate(timeout=END_S)[1].decode()
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            check.true(f"{limit} threads: it ends", False)
            continue
        out = bench.path(f"limited-{limit}")
        codes.append(process.returncode)
        if process.returncode == 0:
            check.true(f"{limit} threads: the output", bench.read(f"limited-{limit}") == expected)
            os.remove(out)
        else:
            check.equal(f"{limit} threads: exit code", process.returncode, 1)
            check.true(f"{limit} threads: what is said, and no output", err.startswith("muster: ") and not os.path.exists(out), err)
        enough = 2 if bench.is_slow else 8
        if codes[-enough:] == [0] * enough:
            break
    check.true("few are too few, and many are enough", codes and codes[0] == 1 and codes[-1] == 0, str(codes))
    bench.write("in", DATA)


def marked(mark):
    """Processes that were started with this in their environment."""
    found = []
    for process in os.listdir("/proc"):
        try:
            if process.isdigit() and int(process) != os.getpid():
                with open(f"/proc/{process}/environ", "rb") as file, open(f"/proc/{process}/stat", "rb") as status:
                    if mark.encode() in file.read() and status.read().rsplit(b")", 1)[1].split()[0] != b"Z":
                        found.append(int(process))
        except OSError:
            continue
    return found


def left_of(mark):
    """Those of them that do not end; what was killed may need a moment."""
    until = time.monotonic() + END_S
    while (left := marked(mark)) and time.monotonic() < until:
        time.sleep(0.005)
    return left


def compiling(check, bench):
    """A signal while a compiler runs ends it, with what it started, and its files go."""
    bench.write("cc", b'#!/bin/sh\ntrap "" TERM INT HUP\n: > "$TMPDIR/cc.s"\nsleep 1000 & echo $TMPDIR > "$STARTED"\nwait\nsleep 1000\n')
    os.chmod(bench.path("cc"), 0o755)
    started = bench.path("started")
    environment = {"MUSTER_CC": bench.path("cc"), "STARTED": started, "MUSTER_CACHE": "", "MARK": bench.folder,
                   "MUSTER_DEVICES": "cpu"}
    for words in [["map", "-k", "k.c", "-i", "in", "-o", "out", "--item", "1"],
                  ["kernel", "build", "-o", "out", "k.c"], ["bench", "--quick"]][:2 if bench.is_slow else 3]:
        is_one_enough = words[0] != "map" or bench.is_slow
        for number in [signal.SIGTERM] if is_one_enough else [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]:
            bench.write("out", b"before")
            files = sorted(os.listdir(bench.folder))
            process = bench.start(*words, environment=environment)
            begin = time.monotonic()
            while not (os.path.exists(started) and os.path.getsize(started)) and process.poll() is None \
                    and time.monotonic() < begin + END_S:
                time.sleep(0.005)
            if process.poll() is not None:
                check.true(f"{words}: it compiles", False, process.communicate()[1].decode())
                break
            os.remove(started)
            process.send_signal(number)
            # As from a terminal: again, and again.
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
            try:
                process.communicate(timeout=END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            check.equal(f"{words} {number!r}: it dies of it", process.returncode, -number)
            left = left_of(f"MARK={bench.folder}")
            check.equal(f"{words} {number!r}: no compiler runs", left, [])
            for one in left:
                os.kill(one, signal.SIGKILL)
            check.equal(f"{words} {number!r}: no temporary files", os.listdir(bench.temporary), [])
            shutil.rmtree(bench.temporary)
            os.mkdir(bench.temporary)
            check.equal(f"{words} {number!r}: no other files", sorted(os.listdir(bench.folder)), files)
            check.equal(f"{words} {number!r}: the output is as it was", bench.read("out"), b"before")


def kills(check, bench):
    """Signals at any moment, once or twice: nothing is left behind."""
    chance = random.Random(SEED)
    print(f"seed {SEED}, {KILLS} kills")
    environment = {"MUSTER_CACHE": "", "MARK": bench.folder}
    bench.write("in", DATA * 20)
    commands = [["map", "-k", "k.c", "-i", "in", "-o", "out", "--item", "1", "--devices", "cpu", "--quiet", "--trace", "trace"],
                ["kernel", "build", "-o", "out", "k.c"], ["sim", "s.json", "--trace", "out", "--timeline", "trace"]]
    for name in ["out", "trace"]:
        bench.write(name, b"before")
    files = sorted(os.listdir(bench.folder))
    for i in range(KILLS):
        words, numbers = chance.choice(commands), [chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]) for _ in range(2)]
        process = bench.start(*words, environment=environment)
        for number in numbers:
            time.sleep(chance.random() ** 2 * 0.12)
            process.send_signal(number)
        try:
            process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        what = f"kill {i} of {words[:2]} with {numbers}"
        check.true(f"{what}: the exit status", -process.returncode in [0, *numbers], str(process.returncode))
        check.equal(f"{what}: no process is left", left_of(f"MARK={bench.folder}"), [])
        check.equal(f"{what}: no temporary files", os.listdir(bench.temporary), [])
        check.equal(f"{what}: no other files", sorted(os.listdir(bench.folder)), files)
    bench.write("in", DATA)


def main():
    check = Check()
    parts = [rights, descriptors, hostile, thread_limit, compiling]
    if not check.is_sanitized() or "MUSTER_TEST_KILLS" in os.environ:
        parts += [names, kills]
    for part in parts:
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            part(check, Bench(check, folder))
        print(f"{part.__name__}: {time.monotonic() - begin:.1f} s")
    check.finish()


main()
