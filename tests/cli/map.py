#!/usr/bin/env python3
"""muster map: results beside plain Python's, from and to files and pipes; what is refused; what is left when it is ended."""
import array
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from lib.check import ROOT, Check, Run, clean_environment  # noqa: E402

SEED = int(os.environ.get("MUSTER_TEST_SEED", "1"))
TIME_LIMIT_S = 120
EDGES = os.path.join(ROOT, "examples", "kernels", "edges.c")
# One device that takes its time, so that something can happen meanwhile; one that hangs, and one that is lost.
SLOW = {"MUSTER_SIM": '[{"name":"slow","items_per_s":2e6}]'}
HUNG = {"MUSTER_SIM": '[{"name":"a","items_per_s":4e6,"faults":[{"kind":"hang","at_launch":3}]},{"name":"b","items_per_s":1e6}]'}
LOST = {"MUSTER_SIM": '[{"name":"a","items_per_s":4e6,"faults":[{"kind":"lost","at_launch":9}]},{"name":"b","items_per_s":1e6}]'}

INVERT = """
MUSTER_KERNEL void invert(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out, uint8_t top)
{ out[i] = (uint8_t)(top - in[i]); }
"""
# What it is given, and the neighbours on both sides.
NEIGHBOURS = """
MUSTER_KERNEL void neighbours(uint64_t i, MUSTER_GLOBAL const uint16_t *in, MUSTER_GLOBAL uint32_t *out, uint64_t first,
                              const uint64_t items, int32_t weight)
{ MUSTER_GLOBAL const uint16_t *at = in + i;
  out[i] = (uint32_t)(*(at - 2) + at[0] * weight + at[2]) + (uint32_t)(first + i) * 3 + (uint32_t)items; }
"""
# An item has three bytes; two come out of it.
PAIRS = """
MUSTER_KERNEL void pairs(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out)
{ out[2 * i] = in[3 * i] ^ in[3 * i + 2]; out[2 * i + 1] = in[3 * i + 1]; }
"""
# How a frame differs from the one before it.
CHANGES = """
MUSTER_KERNEL void changes(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out, uint64_t frame)
{ MUSTER_GLOBAL const uint8_t *at = in + i; out[i] = (uint8_t)(at[0] - *(at - frame)); }
"""


class Bench:
    """A folder with kernels, and the command in it."""

    def __init__(self, check, folder):
        self.check = check
        self.folder = folder
        self.cache = {"MUSTER_CACHE": os.path.join(folder, "cache")}
        self.random = random.Random(SEED)
        for name, text in [("invert.c", INVERT), ("neighbours.c", NEIGHBOURS), ("pairs.c", PAIRS), ("changes.c", CHANGES)]:
            self.write(name, text.encode())

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        try:
            with open(self.path(name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def environment(self, environment=None):
        # ThreadSanitizer would wait a second at the end of each, where a driver has threads of its own.
        options = os.environ.get("TSAN_OPTIONS", "") + " atexit_sleep_ms=0"
        return clean_environment(**self.cache, **(environment or {}), TSAN_OPTIONS=options)

    def map(self, *words, environment=None, given=None, **options):
        """Like check.run, with bytes on stdin and stdout."""
        done = subprocess.run([self.check.muster, "map", "--quiet", *words], input=given, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, cwd=self.folder, env=self.environment(environment),
                              timeout=TIME_LIMIT_S, **options)
        return Run(done.returncode, done.stdout, done.stderr.decode())

    def start(self, *words, environment=None, **options):
        return subprocess.Popen([self.check.muster, "map", "--quiet", *words], stderr=subprocess.PIPE, cwd=self.folder,
                                env=self.environment(environment), **options)

    def same(self, what, run, actual, expected):
        if run.code == 0 and actual == expected:
            self.check.passed += 1
            return
        at = next((i for i, (a, b) in enumerate(zip(actual or b"", expected)) if a != b), None)
        self.check.true(what, False, f"exit {run.code} {run.err!r}, {len(actual or b'')} bytes instead of {len(expected)}, "
                        f"different at {at}")

    def every_way(self, what, kernel, data, expected, *words, **options):
        """From a file and a pipe, to a file and a pipe."""
        self.write("in", data)
        for source, sink in [("in", "out"), ("-", "out"), ("in", "-"), ("-", "-")]:
            if os.path.exists(self.path("out")):
                os.remove(self.path("out"))
            run = self.map("-k", kernel, "-i", source, "-o", sink, *words, given=data if source == "-" else b"", **options)
            self.same(f"{what}, {source} to {sink}", run, run.out if sink == "-" else self.read("out"), expected)


def inverted(data, top=255):
    return data.translate(bytes((top - i) & 255 for i in range(256)))


def neighbours(words, weight):
    padded = [0, 0, *words, 0, 0]
    total = len(words)
    return array.array("I", [(padded[i] + padded[i + 2] * weight + padded[i + 4] + i * 3 + total) & 0xffffffff
                             for i in range(total)]).tobytes()


def records(check, bench):
    for size in [0, 1, 8, 9, 10, 4096, 100003, 3000000]:
        data = bench.random.randbytes(size)
        bench.every_way(f"{size} bytes", "invert.c", data, inverted(data, 200), "-a", "top=200", "--devices", "cpu")
    words = array.array("H", bench.random.randbytes(2 * 30011))
    # How many items there are is not known of a pipe.
    for unit in [[], ["--unit", "7"], ["--unit", "1000", "--window", "64KiB"]]:
        bench.write("in", words.tobytes())
        run = bench.map("-k", "neighbours.c", "-i", "in", "-o", "out", "-a", "weight=-3", "--halo", "2", "--devices", "cpu", *unit)
        bench.same(f"neighbours {unit}", run, bench.read("out"), neighbours(words, -3))
    data = bench.random.randbytes(3 * 5003)
    expected = b"".join(bytes((data[i] ^ data[i + 2], data[i + 1])) for i in range(0, len(data), 3))
    bench.every_way("items of 3 bytes", "pairs.c", data, expected, "--item", "3", "--out-item", "2", "--devices", "cpu")
    run = bench.map("-k", "pairs.c", "-i", "in", "-o", "out", "--item", "3", "--out-item", "2", "--unordered", "--policy",
                    "round-robin", environment=SLOW)
    bench.same("unordered, on two devices", run, bench.read("out"), expected)
    run = bench.map("-k", "pairs.c", "-i", "in", "-o", "out", "--item", "3", "--out-item", "2", "--policy", "sticky", "--affinity",
                    "7", environment=SLOW)
    bench.same("sticky", run, bench.read("out"), expected)


def itself(check, bench):
    """The output is written aside, so it may be the input."""
    data = bench.random.randbytes(70001)
    bench.write("both", data)
    run = bench.map("-k", "invert.c", "-i", "both", "-o", "both", "-a", "top=255", "--devices", "cpu")
    bench.same("the input is the output", run, bench.read("both"), inverted(data))


def values(check, bench):
    for kind, size, good, bad in [
            ("int8_t", 1, ["-128", "127", "0x7f", "-0x80"], ["128", "-129", "", "1 ", " 1", "+1", "1.0", "0x", "x"]),
            ("uint8_t", 1, ["0", "255"], ["256", "-1", "1e2"]),
            ("const int16_t", 2, ["-32768", "32767"], ["32768"]),
            ("uint32_t", 4, ["4294967295"], ["4294967296"]),
            ("int64_t", 8, ["-9223372036854775808", "9223372036854775807"], ["9223372036854775808", "-9223372036854775809"]),
            ("uint64_t", 8, ["18446744073709551615", "0xffffffffffffffff"], ["18446744073709551616"])]:
        bench.write("value.c", f"MUSTER_KERNEL void value(uint64_t i, {kind} it, MUSTER_GLOBAL const uint8_t *in, "
                    f"MUSTER_GLOBAL {kind.replace('const ', '')} *out) {{ out[i] = it; (void)in; }}".encode())
        for text in good:
            run = bench.map("-k", "value.c", "-i", "-", "-o", "-", "--item", "1", f"--arg=it={text}", "--devices", "cpu", given=b"x")
            number = int(text, 16 if "x" in text else 10)
            bench.same(f"{kind} {text}", run, run.out, number.to_bytes(size, "little", signed=number < 0))
        for text in bad:
            run = bench.map("-k", "value.c", "-i", "-", "-o", "-", f"--arg=it={text}", "--devices", "cpu", given=b"x")
            check.refused(f"{kind} {text!r}", Run(run.code, run.out.decode(), run.err), 2, "is no value for it")
    bench.write("value.c", b"MUSTER_KERNEL void value(uint64_t i, float it, double that, MUSTER_GLOBAL const uint8_t *in, "
                b"MUSTER_GLOBAL double *out) { out[i] = (double)it + that; (void)in; }")
    run = bench.map("-k", "value.c", "-i", "-", "-o", "-", "-a", "it=0.5", "-a", "that=-1.25e3", "--devices", "cpu", given=b"x")
    bench.same("float and double", run, run.out, array.array("d", [-1249.5]).tobytes())
    for text in ["1e39", "nothing", "", "0.5x", "1e999"]:
        run = bench.map("-k", "value.c", "-i", "-", "-o", "-", "-a", f"it={text}", "-a", "that=1", "--devices", "cpu", given=b"x")
        check.equal(f"float {text!r}", (run.code, run.out), (2, b""))


def planes(width, height, colour):
    across, down = {"420jpeg": (2, 2), "420mpeg2": (2, 2), "420paldv": (2, 2), "411": (4, 1), "422": (2, 1), "444": (1, 1),
                    "mono": (0, 0)}[colour]
    return 2 * (-(-width // across) * -(-height // down)) if across else 0


def video(rng, width, height, colour, count, header="", lines=()):
    """The bytes of a video, and its frames."""
    size = width * height + planes(width, height, colour)
    frames = [rng.randbytes(size) for _ in range(count)]
    first = f"YUV4MPEG2 W{width} H{height} F30000:1001{header} C{colour}\n".encode()
    return assemble(first, frames, lines), first, frames


def assemble(first, frames, lines=()):
    lines = list(lines) + [b"FRAME\n"] * (len(frames) - len(lines))
    return first + b"".join(line + frame for line, frame in zip(lines, frames))


def edges(frame, width, height):
    """What examples/kernels/edges.c does, pixel by pixel."""
    out = bytearray(b"\x10" * (width * height)) + b"\x80" * (len(frame) - width * height)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            a, b, c = ((y + k) * width + x for k in (-1, 0, 1))
            across = frame[a + 1] + 2 * frame[b + 1] + frame[c + 1] - frame[a - 1] - 2 * frame[b - 1] - frame[c - 1]
            down = frame[c - 1] + 2 * frame[c] + frame[c + 1] - frame[a - 1] - 2 * frame[a] - frame[a + 1]
            out[b] = min(235, 16 + (abs(across) + abs(down)) // 2)
    return bytes(out)


def videos(check, bench):
    for width, height, colour, count, header in [
            (32, 24, "420jpeg", 9, " Ip A1:1"), (17, 11, "420mpeg2", 5, " It A0:0 XYSCSS=420MPEG2"), (7, 5, "420paldv", 3, ""),
            (13, 4, "411", 3, ""), (9, 6, "422", 4, " I?"), (8, 8, "444", 2, ""), (31, 3, "mono", 6, ""), (1, 1, "420jpeg", 2, ""),
            (64, 40, "444", 0, "")]:
        data, first, frames = video(bench.random, width, height, colour, count, header)
        expected = assemble(first, [edges(frame, width, height) for frame in frames])
        bench.every_way(f"{colour} {width}x{height}", EDGES, data, expected, "--devices", "cpu")
    lines = [b"FRAME Ippp XA=b\n", b"FRAME\n", b"FRAME \n"]
    data, first, frames = video(bench.random, 20, 10, "420jpeg", 40, "", lines)
    expected = assemble(first, [edges(frame, 20, 10) for frame in frames], lines)
    for words in [["--unit", "1"], ["--unit", "3"], ["--window", "4KiB", "--policy", "least-loaded"], ["--y4m"]]:
        bench.every_way(f"lines of frames {words}", EDGES, data, expected, *words, environment=LOST)
    changed = [bytes((a - b) & 255 for a, b in zip(frame, before)) for frame, before in zip(frames, [bytes(len(frames[0])), *frames])]
    for words in [["--unit", "1"], []]:
        bench.every_way(f"the frame before {words}", "changes.c", data, assemble(first, changed, lines), "--halo", "1", "--devices",
                        "cpu", *words)


def live_records(check, bench):
    """What is there comes out, though more does not come."""
    process = bench.start("-k", "invert.c", "-i", "-", "-o", "-", "-a", "top=255", "--item", "1", "--devices", "cpu",
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for part in [b"a", b"bc", bytes(range(100))]:
        process.stdin.write(part)
        process.stdin.flush()
        check.equal("records of a live pipe", process.stdout.read(len(part)), inverted(part))
    process.stdin.close()
    check.equal("and nothing else", (process.stdout.read(), process.wait(TIME_LIMIT_S)), (b"", 0))
    process.stderr.close()


def live_video(check, bench):
    """A frame that is there comes out, though the next one is not."""
    data, first, frames = video(bench.random, 20, 10, "420jpeg", 3)
    process = bench.start("-k", EDGES, "-i", "-", "-o", "-", "--devices", "cpu", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdin.write(first + b"FRAME\n" + frames[0])
    process.stdin.flush()
    expected = first + b"FRAME\n" + edges(frames[0], 20, 10)
    check.equal("the first frame comes out", process.stdout.read(len(expected)), expected)
    process.stdin.write(b"FRAME\n" + frames[1])
    process.stdin.close()
    check.equal("and the second", process.stdout.read(), b"FRAME\n" + edges(frames[1], 20, 10))
    check.equal("and it ends", process.wait(TIME_LIMIT_S), 0)
    process.stderr.close()


def refused(check, bench, what, words, code, *parts, data=b"", **options):
    bench.write("out", b"before")
    run = bench.map(*words, given=data, **options)
    check.refused(what, Run(run.code, run.out.decode(errors="replace"), run.err), code, *parts)
    check.equal(f"{what}: the output is as it was", bench.read("out"), b"before")


def mistakes(check, bench):
    bench.write("in", bytes(1000))
    usual = ["-k", "invert.c", "-i", "in", "-o", "out"]
    top = ["-a", "top=1"]
    bench.write("two.c", INVERT.encode() + PAIRS.encode())
    bench.write("blank.c", b"int x;\n")
    bench.write("broken.c", b"MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const char *in, MUSTER_GLOBAL char *out) { wrong }")
    bench.write("update.c", b"MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL uint8_t *x) { x[i] = 1; }")
    bench.write("mix.c", b"MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const uint8_t *x, MUSTER_GLOBAL const uint8_t *y, "
                b"MUSTER_GLOBAL uint8_t *z) { z[i] = x[i] + y[i]; }")
    bench.write("own.c", b"struct s { long a; };\nMUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const struct s *in, MUSTER_GLOBAL "
                b"uint8_t *out) { out[i] = 1; }")
    bench.write("structure.c", b"struct s { int a; };\nMUSTER_KERNEL void f(uint64_t i, struct s v, MUSTER_GLOBAL const uint8_t *in, "
                b"MUSTER_GLOBAL uint8_t *out) { out[i] = 1; }")
    bench.write("own.so.cl", b"kernel void f(ulong begin, ulong items) {}")
    bench.write("small.y4m", b"YUV4MPEG2 W4 H4 Cmono\nFRAME\n" + bytes(16))
    pipe = ["-k", "neighbours.c", "-i", "-", "-o", "-", "-a", "weight=1"]
    for what, words, code, parts in [
            ("no kernel", ["-i", "in", "-o", "out"], 2, ["--kernel"]),
            ("no input", ["-k", "invert.c", "-o", "out"], 2, ["--in"]),
            ("a missing value", usual, 2, ["a value for top (uint8_t)", "first, items"]),
            ("an unknown value", [*usual, *top, "-a", "x=1"], 2, ["no value 'x'", "it has top"]),
            ("a value twice", [*usual, *top, *top], 2, ["twice"]),
            ("a value of Muster's", [*usual, *top, "-a", "first=1"], 2, ["first is set by Muster"]),
            ("a value without a name", [*usual, "-a", "=1"], 2, ["has no name"]),
            ("a value without a value", [*usual, "-a", "top"], 2, ["has no value"]),
            ("a structure", ["-k", "structure.c", "-i", "in", "-o", "out", "-a", "v=1"], 2, ["struct s"]),
            ("too many values", [*usual, *sum((["-a", f"x{i}=1"] for i in range(17)), [])], 2, ["16"]),
            ("an input that is not there", ["-k", "invert.c", "-i", "none", "-o", "out", *top], 2, ["none"]),
            ("a folder as input", ["-k", "invert.c", "-i", ".", "-o", "out", *top], 2, ["directory"]),
            ("a folder as output", ["-k", "invert.c", "-i", "in", "-o", ".", *top], 1, ["directory"]),
            ("an output that cannot be", ["-k", "invert.c", "-i", "in", "-o", "none/out", *top], 1, ["none/out"]),
            ("a kernel that is not there", ["-k", "none.c", "-i", "in", "-o", "out"], 2, ["none.c"]),
            ("no kernel in it", ["-k", "blank.c", "-i", "in", "-o", "out"], 2, ["blank.c"]),
            ("one of two", ["-k", "two.c", "-i", "in", "-o", "out", *top], 2, ["invert"]),
            ("an entry that is not there", ["-k", "two.c", "--entry", "x", "-i", "in", "-o", "out", *top], 2, ["x"]),
            ("a kernel that does not compile", ["-k", "broken.c", "-i", "in", "-o", "out", "--item", "1", "--devices", "cpu"], 2,
             ["broken.c"]),
            ("no input pointer", ["-k", "update.c", "-i", "in", "-o", "out"], 2, ["no input"]),
            ("two input pointers", ["-k", "mix.c", "-i", "in", "-o", "out"], 2, ["pointer y is an input"]),
            ("a type of its own", ["-k", "own.c", "-i", "in", "-o", "out"], 2, ["size of an item", "--item"]),
            ("no source", ["-k", "own.so.cl", "--entry", "f", "-i", "in", "-o", "out"], 2, ["--item"]),
            ("a value without a type", ["-k", "own.so.cl", "--entry", "f", "-i", "in", "-o", "out", "--item", "1", *top], 2,
             ["needs a type"]),
            ("items that do not fit", [*usual, *top, "--item", "7"], 2, ["7 bytes", "remain"]),
            ("items of parts of elements", ["-k", "neighbours.c", "-i", "in", "-o", "out", "-a", "weight=1", "--item", "5"], 2,
             ["an item of 5 bytes"]),
            ("no items", [*usual, *top, "--item", "0"], 2, ["cannot be 0"]),
            ("a number of items of a pipe", pipe, 2, ["items", "unknown"]),
            ("video and records", [*usual, *top, "--y4m", "--item", "1"], 2, ["--y4m"]),
            ("no video", ["-k", EDGES, "-i", "in", "-o", "out", "--y4m"], 2, ["YUV4MPEG2"]),
            ("video's values of records", ["-k", EDGES, "-i", "in", "-o", "out"], 2, ["width"]),
            ("video without order", ["-k", EDGES, "-i", "small.y4m", "-o", "out", "--unordered"], 2, ["order"]),
            ("a window less than a frame", ["-k", EDGES, "-i", "small.y4m", "-o", "out", "--window", "31"], 2, ["window", "frame"]),
            ("a huge unit of frames", ["-k", EDGES, "-i", "small.y4m", "-o", "out", "--unit", str(2 ** 64 - 1)], 2, ["frames"]),
            ("a huge halo", [*usual, *top, "--halo", str(2 ** 64 - 1)], 2, ["halo"]),
            ("huge items", [*usual, *top, "--item", str(2 ** 64 - 1)], 2, ["remain"]),
            ("no units", [*usual, *top, "--unit", "0"], 2, ["--unit"]),
            ("no window", [*usual, *top, "--window", "none"], 2, ["--window", "none"]),
            ("a policy", [*usual, *top, "--policy", "none"], 2, ["unknown policy 'none'; known: claim, round-robin"]),
            ("devices and a backend", [*usual, *top, "--devices", "cpu", "--backend", "cpu"], 2, ["--devices is given twice"]),
            ("a device that is not there", [*usual, *top, "--devices", "cpu:99"], 3, ["cpu:99"]),
            ("a backend that is not there", [*usual, *top, "--backend", "none"], 3, ["none"]),
            ("a trace over the output", [*usual, *top, "--trace", "out"], 1, ["out"])]:
        refused(check, bench, what, words, code, *parts)
    for what, data, parts in [
            ("a header's end", b"YUV4MPEG2 W4 H4", ["header"]), ("a long header", b"YUV4MPEG2 X" + b"x" * 5000, ["header"]),
            ("no width", b"YUV4MPEG2 H4\n", ["width"]), ("no height", b"YUV4MPEG2 W4\n", ["height"]),
            ("width 0", b"YUV4MPEG2 W0 H4\n", ["'W0'"]), ("a huge width", b"YUV4MPEG2 W4294967297 H4\n", ["W4294967297"]),
            ("two widths", b"YUV4MPEG2 W4 W4 H4\n", ["W4"]), ("a rate", b"YUV4MPEG2 W4 H4 F25\n", ["'F25'"]),
            ("interlacing", b"YUV4MPEG2 W4 H4 Ix\n", ["'Ix'"]), ("a letter", b"YUV4MPEG2 W4 H4 Q1\n", ["'Q1'"]),
            ("eleven bits", b"YUV4MPEG2 W4 H4 C420p11\n", ["420p11", "16 bits"]), ("alpha", b"YUV4MPEG2 W4 H4 C444alpha\n", ["444alpha"]),
            ("another magic", b"YUV4MPEG22 W4 H4\n", ["YUV4MPEG2"]),
            ("no frame", b"YUV4MPEG2 W4 H4 Cmono\nFRAMX\n", ["frame 0"]),
            ("a frame's line", b"YUV4MPEG2 W4 H4 Cmono\nFRAME " + b"x" * 3000, ["line"]),
            ("half a line", b"YUV4MPEG2 W4 H4 Cmono\nFRAME\n" + bytes(16) + b"FRA", ["frame 1"]),
            ("half a frame", b"YUV4MPEG2 W4 H4 Cmono\n" + (b"FRAME\n" + bytes(16)) * 3 + b"FRAME\n" + bytes(5),
             ["frame 3", "11 bytes"])]:
        bench.write("bad.y4m", data)
        refused(check, bench, what, ["-k", EDGES, "-i", "bad.y4m", "-o", "out", "--devices", "cpu"], 2, *parts)
        refused(check, bench, f"{what}, from a pipe", ["-k", EDGES, "-i", "-", "-o", "out", "--devices", "cpu"], 2, *parts, data=data)
    if os.geteuid() != 0:
        os.chmod(bench.path("in"), 0)
        refused(check, bench, "an unreadable input", [*usual, *top], 2, "ermission")
        os.chmod(bench.path("in"), 0o644)


def lost_device(check, bench):
    data = bench.random.randbytes(2000003)
    bench.write("in", data)
    run = check.run("map", "--kernel", "invert.c", "--in", "in", "--out", "out", "--arg", "top=255", "--devices", "sim", "--json",
                    "--unit", "20000", environment={**bench.cache, **LOST}, cwd=bench.folder)
    check.equal("a device is lost: exit code", (run.code, run.err), (0, ""))
    report = json.loads(run.out)
    check.equal("it is told", [device["health"] for device in report["devices"]], ["lost", "ok"])
    check.true("it had done a part", report["devices"][0]["units"] > 0 and report["devices"][1]["units"] > 0, run.out)
    check.true("the output is whole", bench.read("out") == inverted(data))
    check.equal("nothing is copied but to look at its beginning", report["files"][0]["copied_by_muster"], 0)


def read_text(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def begun(process):
    """Waits until the job runs."""
    while process.poll() is None:
        try:
            tasks = [read_text(f"/proc/{process.pid}/task/{task}/comm").strip() for task in os.listdir(f"/proc/{process.pid}/task")]
        except OSError:
            continue
        if "muster-source" in tasks:
            return
        time.sleep(0.005)


def seconds_worked(process):
    fields = read_text(f"/proc/{process.pid}/stat").rsplit(")", 1)[1].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def works_for(process, seconds):
    """Until it has used so much of a processor, itself and not a compiler that it runs."""
    begin = seconds_worked(process)
    while process.poll() is None and seconds_worked(process) < begin + seconds:
        time.sleep(0.01)


def signals(check, bench):
    data = bytes(20000000)
    bench.write("in", data)
    words = ["-k", "invert.c", "-i", "in", "-o", "out", "-a", "top=255", "--devices", "sim", "--unit", "100000"]
    for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]:
        bench.write("out", b"before")
        files = sorted(os.listdir(bench.folder))
        process = bench.start(*words, environment=SLOW)
        begun(process)
        process.send_signal(number)
        err = process.communicate(timeout=TIME_LIMIT_S)[1].decode()
        check.equal(f"{number!r}: it dies of it", process.returncode, -number)
        check.equal(f"{number!r}: the output is as it was", bench.read("out"), b"before")
        check.equal(f"{number!r}: nothing else is left", sorted(os.listdir(bench.folder)), files)
        if number != signal.SIGKILL:
            check.equal(f"{number!r}: what is said", err, f"muster: ended by {number.name}; out is as it was before\n")
    # Nothing comes from the pipe, and nothing is to be waited for.
    process = bench.start("-k", "invert.c", "-i", "-", "-o", "out", "-a", "top=1", "--item", "1", "--devices", "cpu", stdin=subprocess.PIPE)
    begun(process)
    process.send_signal(signal.SIGINT)
    check.equal("waiting for a pipe", process.wait(TIME_LIMIT_S), -signal.SIGINT)
    check.true("waiting for a pipe: nothing is abandoned", b"abandoned" not in process.stderr.read())
    process.communicate()
    # The pipe is full, and nobody reads it.
    process = bench.start("-k", "invert.c", "-i", "in", "-o", "-", "-a", "top=1", "--devices", "cpu", stdout=subprocess.PIPE)
    process.stdout.read(1)
    process.send_signal(signal.SIGTERM)
    check.equal("waiting for a reader", process.wait(TIME_LIMIT_S), -signal.SIGTERM)
    process.communicate()
    # A kernel that does not end keeps a device; a second signal does not wait for it.
    bench.write("forever.c", b"MUSTER_KERNEL void forever(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out)\n"
                b"{ MUSTER_GLOBAL volatile uint8_t *at = out; while (at[i] != 7) at[i] = in[i]; }")
    process = bench.start("-k", "forever.c", "-i", "in", "-o", "out", "--devices", "cpu")
    begun(process)
    works_for(process, 0.2)
    process.send_signal(signal.SIGINT)
    works_for(process, 0.02)
    process.send_signal(signal.SIGINT)
    check.equal("two signals", process.wait(TIME_LIMIT_S), -signal.SIGINT)
    process.communicate()
    check.equal("nothing was written", bench.read("out"), b"before")
    bench.write("in", bytes(1000000))
    process = bench.start(*words, environment=SLOW, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
    begun(process)
    process.send_signal(signal.SIGINT)
    check.equal("a signal that is ignored stays so", process.wait(TIME_LIMIT_S), 0)
    process.communicate()


def stuck(check, bench):
    """A kernel that does not return, and a device that hangs: the command ends by itself."""
    bench.write("in", bytes(400000))
    bench.write("out", b"before")
    files = sorted(os.listdir(bench.folder))
    process = bench.start("-k", "forever.c", "-i", "in", "-o", "out", "--devices", "cpu,sim", environment=SLOW)
    begun(process)
    works_for(process, 0.2)
    process.send_signal(signal.SIGTERM)
    err = process.communicate(timeout=TIME_LIMIT_S)[1].decode()
    check.equal("a kernel without end: it dies of the signal", process.returncode, -signal.SIGTERM)
    check.true("what it waits for", "muster: waiting for " in err and "cpu:0" in err, err)
    check.true("what it has given up", "muster: no answer from " in err, err)
    check.true("what is left", "muster: ended by SIGTERM; out is as it was before\n" in err, err)
    check.equal("the output is as it was", bench.read("out"), b"before")
    check.equal("nothing else is left", sorted(os.listdir(bench.folder)), files)
    data = bench.random.randbytes(400000)
    bench.write("in", data)
    # On a busy machine the other device may be done before this one has begun the unit over which it hangs.
    for _ in range(5):
        run = bench.map("-k", "invert.c", "-i", "in", "-o", "out", "-a", "top=255", "--devices", "sim", "--unit", "20000",
                        environment=HUNG)
        if run.code != 0 or run.err:
            break
    bench.same("others have done what a device that hangs did not", run, bench.read("out"), inverted(data))
    check.true("it is named", "no answer from sim:0" in run.err, run.err)


def outputs(check, bench):
    data = bytes(3000000)
    bench.write("in", data)
    words = ["-k", "invert.c", "-a", "top=255", "--devices", "cpu"]
    process = bench.start(*words, "-i", "in", "-o", "-", stdout=subprocess.PIPE)
    process.stdout.read(1)
    process.stdout.close()
    err = process.stderr.read().decode()
    check.equal("a closed pipe: exit code", process.wait(TIME_LIMIT_S), 1)
    check.contains("a closed pipe: what is said", err, "Broken pipe")
    process.stderr.close()
    # The same while nothing comes in.
    reading, writing = os.pipe()
    process = bench.start(*words, "-i", "-", "-o", "-", stdin=reading, stdout=subprocess.PIPE)
    process.stdout.close()
    os.write(writing, bytes(60000))
    check.equal("a closed pipe, and an idle input: exit code", process.wait(TIME_LIMIT_S), 1)
    # Reading is cancelled; it is not given up after a while.
    check.true("a closed pipe, and an idle input: nothing is abandoned", b"abandoned" not in process.stderr.read())
    process.stderr.close()
    os.close(reading)
    os.close(writing)
    with open("/dev/full", "wb") as full:
        done = subprocess.run([check.muster, "map", "-q", *words, "-i", "in", "-o", "-"], stdout=full, stderr=subprocess.PIPE,
                              cwd=bench.folder, env=bench.environment(), timeout=TIME_LIMIT_S, check=False)
    check.equal("a full disk: exit code", done.returncode, 1)
    check.contains("a full disk: what is said", done.stderr.decode(), "No space left")
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000000, 1000000))  # noqa: E731
    for what, source in [("known", "in"), ("unknown", "-")]:
        refused(check, bench, f"a limit on files, {what}", [*words, "-i", source, "-o", "out"], 1, "File too large", data=data,
                preexec_fn=limit)


def inputs_that_change(check, bench):
    size = 8000000
    words = ["-k", "invert.c", "-i", "in", "-o", "out", "-a", "top=255", "--devices", "sim", "--unit", "100000", "--window", "2MiB"]
    bench.write("out", b"before")
    for what, change, code in [("shrinks", lambda: os.truncate(bench.path("in"), 3000000), 1),
                               ("grows", lambda: os.truncate(bench.path("in"), 2 * size), 0)]:
        # Unless a busy machine lets the job read so far before the change: then the device is slower.
        for rate in ["6e6", "1e6", "2e5"]:
            bench.write("in", bytes(size))
            process = bench.start(*words, environment={"MUSTER_SIM": f'[{{"items_per_s":{rate}}}]'})
            begun(process)
            change()
            err = process.communicate(timeout=TIME_LIMIT_S)[1].decode()
            if process.returncode == code:
                break
            bench.write("out", b"before")
        check.equal(f"an input that {what}: exit code", (process.returncode, bool(err)), (code, code != 0))
        check.true(f"an input that {what}: the output", bench.read("out") == (b"before" if code else b"\xff" * size))


def sparse(check, bench):
    """Memory does not grow with the input."""
    with open(bench.path("sparse"), "wb") as file:
        file.truncate(100 << 30)
    if shutil.disk_usage(bench.folder).free < 100 << 30:
        refused(check, bench, "a disk that is too small", ["-k", "invert.c", "-i", "sparse", "-o", "out", "-a", "top=1", "--devices",
                                                           "cpu"], 1, "no room for 107374182400 bytes")
    with open(os.devnull, "wb") as null:
        process = bench.start("-k", "invert.c", "-i", "sparse", "-o", "-", "-a", "top=1", "--devices", "cpu", stdout=null)
        peak = 0
        for _ in range(10):
            time.sleep(0.02)
            with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
                peak = max([peak] + [int(line.split()[1]) for line in status if line.startswith("VmHWM")])
        process.send_signal(signal.SIGTERM)
        check.equal("100 GiB, ended", process.wait(TIME_LIMIT_S), -signal.SIGTERM)
        process.communicate()
    check.true("100 GiB in little memory", peak < (4 << 20 if "san" in check.muster else 200 << 10), f"{peak} KiB")
    os.remove(bench.path("sparse"))


def fuzz(check, bench):
    """Whatever is asked, the answer is an exit code, and words where it is not 0."""
    bench.write("in", bytes(1000))
    bench.write("clip", b"YUV4MPEG2 W4 H4\n" + (b"FRAME\n" + bytes(24)) * 5)
    kept = set(os.listdir(bench.folder)) | {"x", "y"}
    pieces = [["-k", "invert.c"], ["-k", EDGES], ["-k", "pairs.c"], ["--entry", "invert"], ["-i", "in"], ["-i", "clip"], ["-i", "-"],
              ["-o", "x"], ["-o", "-"], ["--item", "1"], ["--item", "8"], ["--out-item", "3"], ["--y4m"], ["--halo", "1"],
              ["--halo", "100000"], ["-a", "top=1"], ["-a", "top=x"], ["--devices", "cpu"], ["--backend", "cpu"], ["--policy", "adaptive"],
              ["--unit", "1"], ["--unit", "77"], ["--window", "100"], ["--window", "1MiB"], ["--unordered"], ["--json"], ["--quiet"],
              ["--trace", "y"], ["--timeline", "y"], ["--"], ["-"], [""], ["-k"], ["-qi", "in"], ["--in=clip"], ["--arg=top=0x10"]]
    for number in range(120):
        words = ["-k", "invert.c", "-i", "in", "-o", "x", "-a", "top=9"] if number % 2 else []
        for piece in bench.random.sample(pieces, bench.random.randint(1, 5 if number % 2 else 9)):
            words += piece
        try:
            done = subprocess.run([check.muster, "map", *words], input=bytes(300), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  cwd=bench.folder, env=bench.environment(), timeout=TIME_LIMIT_S, check=False)
        except subprocess.TimeoutExpired:
            check.true("it ends", False, f"{words}")
            continue
        err = done.stderr.decode()
        is_told = done.returncode == 0 or "muster: " in err
        if not 0 <= done.returncode <= 3 or not is_told or "anitizer" in err or set(os.listdir(bench.folder)) - kept:
            check.true("an exit code and words", False, f"{words}: {done.returncode} {err[:300]!r} {set(os.listdir(bench.folder)) - kept}")
        else:
            check.passed += 1


def ffmpeg(check, bench):
    if not shutil.which("ffmpeg"):
        print("not tested: beside ffmpeg, which is not installed")
        return
    clip = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=96x64:rate=25:duration=1", "-pix_fmt", "yuv420p", "-f",
            "yuv4mpegpipe", "-"]
    data = subprocess.run(clip, stdout=subprocess.PIPE, check=True, timeout=TIME_LIMIT_S).stdout
    first, rest = data.split(b"\n", 1)
    size = 6 + 96 * 64 * 3 // 2
    frames = [rest[at + 6:at + size] for at in range(0, len(rest), size)]
    expected = b"".join(edges(frame, 96, 64) for frame in frames)
    source = subprocess.Popen(clip, stdout=subprocess.PIPE)
    middle = bench.start("-k", EDGES, "-i", "-", "-o", "-", stdin=source.stdout, stdout=subprocess.PIPE)
    sink = subprocess.run(["ffmpeg", "-v", "error", "-f", "yuv4mpegpipe", "-i", "-", "-f", "rawvideo", "-"], stdin=middle.stdout,
                          stdout=subprocess.PIPE, timeout=TIME_LIMIT_S, check=False)
    for process in [source, middle]:
        process.stdout.close()
        check.equal("between two ffmpegs: exit code", process.wait(TIME_LIMIT_S), 0)
    middle.stderr.close()
    check.equal("between two ffmpegs: frames", len(frames), 25)
    check.true("between two ffmpegs: the same as a plain program's", sink.stdout == expected)


def main():
    check = Check()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(check, os.path.realpath(folder))
        for test in [records, itself, values, videos, live_records, live_video, mistakes, lost_device, signals, stuck, outputs, inputs_that_change, sparse,
                     fuzz, ffmpeg]:
            begin = time.monotonic()
            test(check, bench)
            print(f"{test.__name__}: {time.monotonic() - begin:.1f} s")
    check.finish()


main()
