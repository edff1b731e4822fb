#!/usr/bin/env python3
"""muster reduce: results beside plain Python's, from files and pipes, on devices that fail; what is refused."""
import array
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import ROOT, Check  # noqa: E402

KERNELS = os.path.join(ROOT, "examples", "kernels")
LOST = {"MUSTER_SIM": '[{"name":"a","items_per_s":1e4,"faults":[{"kind":"lost","at_launch":3}]},{"name":"b","items_per_s":1e4}]'}
SIGNED = """
struct all { int8_t least; int64_t sum; uint64_t count; };
MUSTER_KERNEL void signs(uint64_t i, MUSTER_GLOBAL const int8_t *x, int64_t by, uint64_t items, MUSTER_PARTIAL struct all *p)
{ p->sum += x[i] * by; p->least = x[i] < p->least ? x[i] : p->least; p->count = items; }
MUSTER_COMBINE void signs_combine(MUSTER_PARTIAL struct all *a, MUSTER_PARTIAL const struct all *b)
{ a->sum += b->sum; a->least = b->least < a->least ? b->least : a->least; a->count = a->count > b->count ? a->count : b->count; }
"""
SQUARES = """
MUSTER_KERNEL void squares(uint64_t i, uint64_t first, MUSTER_PARTIAL uint64_t *p) { *p += (first + i) * (first + i); }
MUSTER_COMBINE void squares_combine(MUSTER_PARTIAL uint64_t *a, MUSTER_PARTIAL const uint64_t *b) { *a += *b; }
"""


class Bench:
    def __init__(self, check, folder):
        self.check = check
        self.folder = folder
        self.cache = {"MUSTER_CACHE": os.path.join(folder, "cache")}

    def write(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def run(self, kernel, *words, environment=None, **options):
        path = kernel if os.path.isabs(kernel) else os.path.join(KERNELS, kernel)
        return self.check.run("reduce", "-k", path, *words, environment={**self.cache, **(environment or {})}, **options)

    def fields(self, what, run):
        self.check.equal(f"{what}: exit code", (run.code, run.err if run.code else ""), (0, ""))
        return dict(line.rsplit(" ", 1) for line in run.out.splitlines())


def results_are_right(bench):
    check, draw = bench.check, random.Random(1)
    numbers = array.array("f", [draw.choice([1e5, 1e-3]) * draw.random() for _ in range(150001)])
    path = bench.write("x.f32", numbers.tobytes())
    first = bench.run("sum.c", "-q", "-i", path)
    check.true("a sum", abs(float(first.out) - math.fsum(numbers)) < 1e-3, first.out)
    for words, environment in [(("--unit", "1"), None), (("--unit", "50000", "--devices", "sim"), LOST),
                               (("--devices", "cpu,sim"), LOST), (("--window", "64KiB"), None)]:
        again = bench.run("sum.c", "-q", "-i", path, *words, environment=environment)
        check.equal(f"the same text with {words}", (again.code, again.out), (0, first.out))
    with open(path, "rb") as file:
        check.equal("from standard input", bench.run("sum.c", "-q", "-i", "-", stdin=file).out, first.out)
    cat = subprocess.Popen(["cat", path], stdout=subprocess.PIPE)
    check.equal("from a pipe", bench.run("sum.c", "-q", "-i", "-", stdin=cat.stdout).out, first.out)
    cat.wait()
    other = bench.write("y.f32", array.array("f", [1.0] * len(numbers)).tobytes())
    check.equal("dot with ones is the sum", bench.run("dot.c", "-q", "-i", path, "-i", other).out, first.out)
    got = bench.fields("extremes", bench.run("extremes.c", "-q", "-i", path))
    check.equal("the lowest is the first of its kind", int(got["lowest_at"]), numbers.index(min(numbers)))
    check.equal("the highest likewise", int(got["highest_at"]), numbers.index(max(numbers)))
    check.equal("its value", struct.pack("f", float(got["highest"])), struct.pack("f", max(numbers)))
    data = bytes(draw.randrange(7) ** 3 % 256 for _ in range(140000))
    counts = [data.count(k) for k in range(256)]
    run = bench.run("histogram.c", "--json", "-i", bench.write("bytes", data))
    check.equal("a histogram as JSON", json.loads(run.out)["result"]["bins"], counts)
    check.equal("its items", json.loads(run.out)["items"], len(data))
    raw = os.path.join(bench.folder, "raw")
    check.equal("raw: nothing on stdout", bench.run("histogram.c", "-q", "-i", bench.folder + "/bytes", "-o", raw).out, "")
    with open(raw, "rb") as file:
        check.equal("raw bytes", list(struct.unpack("256Q", file.read())), counts)
    check.equal("no report where nobody reads it", bench.run("sum.c", "-i", path).err, "")
    report = bench.run("sum.c", "-i", path, "--report")
    check.contains("with --report there is one, on stderr", report.err, "DEVICE")
    check.equal("and the result on stdout", report.out, first.out)


def kinds_of_kernels(bench):
    check = bench.check
    signs = bench.write("signs.c", SIGNED.encode())
    data = bench.write("signed", array.array("b", [-100, 3, 7] * 3000).tobytes())
    got = bench.fields("signs", bench.run(signs, "-q", "-i", data, "-a", "by=-9000000000000"))
    check.equal("signed numbers", got, {"least": "-100", "sum": str(-90 * 3000 * -9000000000000), "count": "9000"})
    run = bench.run(signs, "--json", "-i", data, "-a", "by=-1")
    check.equal("as JSON", json.loads(run.out)["result"], {"least": -100, "sum": 270000, "count": 9000})
    squares = bench.write("squares.c", SQUARES.encode())
    check.equal("without a file", bench.run(squares, "-q", "--items", "10001").out, f"{sum(i * i for i in range(10001))}\n")
    check.equal("of nothing", bench.run(squares, "-q", "--items", "0").out, "0\n")
    empty = bench.write("empty", b"")
    check.equal("of an empty file", bench.run("sum.c", "-q", "-i", empty).out, "0\n")
    check.equal("of two", bench.run("dot.c", "-q", "-i", empty, "-i", empty).out, "0\n")


def bundles_need_no_compiler(bench):
    check = bench.check
    path = bench.write("ones.f32", array.array("f", [1.0] * 5000).tobytes())
    bundle, bare = os.path.join(bench.folder, "sum.bundle"), os.path.join(bench.folder, "bare.bundle")
    for words in ((bundle,), (bare, "--no-source")):
        made = check.run("kernel", "build", os.path.join(KERNELS, "sum.c"), "--no-cuda", "-o", *words, environment=bench.cache)
        check.equal("a bundle", (made.code, made.err), (0, ""))
    nothing = {"MUSTER_CC": "/nonexistent", "MUSTER_CACHE": ""}
    check.equal("without a compiler", bench.run(bundle, "-q", "-i", path, environment=nothing).out, "5000\n")
    check.refused("without the source", bench.run(bare, "-i", path), 2, "portable source")
    check.refused("source without a compiler", bench.run("sum.c", "-i", path, environment=nothing), 3, "compiler")


def what_is_refused(bench):
    check = bench.check
    odd = bench.write("odd", b"12345")
    four, eight = bench.write("four", b"1234"), bench.write("eight", b"12345678")
    squares = bench.write("squares.c", SQUARES.encode())
    check.refused("no reduction", bench.run("saxpy.c", "-i", four), 2, "saxpy is no reduction", "MUSTER_PARTIAL")
    check.refused("part of an item", bench.run("sum.c", "-i", odd), 2, "1 bytes remain")
    check.refused("part of an item, mapped", bench.run("dot.c", "-i", odd, "-i", odd), 2, "5 bytes")
    check.refused("no such file", bench.run("sum.c", "-i", bench.folder + "/none"), 2, "none")
    check.refused("no input", bench.run("sum.c"), 2, "no input for 'x'")
    check.refused("one of two", bench.run("dot.c", "-i", four), 2, "no input for 'y'")
    check.refused("two of one", bench.run("sum.c", "-i", four, "-i", four), 2, "takes 1")
    check.refused("of other lengths", bench.run("dot.c", "-i", four, "-i", eight), 2, "2 items", "first input 1")
    check.refused("no number of items", bench.run(squares), 2, "--items")
    check.refused("items of a file", bench.run("sum.c", "-i", four, "--items", "1"), 2, "--items")
    check.refused("a value nobody takes", bench.run("sum.c", "-i", four, "-a", "z=1"), 2, "no value 'z=1'")
    check.refused("a device that is not there", bench.run("sum.c", "-i", four, "--devices", "cuda:9"), 3, "cuda:9")
    check.refused("--unit 0", bench.run("sum.c", "-i", four, "--unit", "0"), 2, "--unit")
    run = check.run("kernel", "check", squares, "--devices", "cpu", "--no-cuda", environment=bench.cache)
    check.equal("kernel check of it", (run.code, "nothing wrong" in run.out), (0, True))
    half = bench.write("half.c", SQUARES.split("MUSTER_COMBINE")[0].encode())
    check.refused("without a combine", bench.run(half, "--items", "5"), 2, "squares_combine")
    check.refused("muster map of it", check.run("map", "-k", squares, "-i", four, "-o", bench.folder + "/out",
                                                "--item", "1", "--out-item", "1", environment=bench.cache), 2)


def main():
    check = Check()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(check, folder)
        results_are_right(bench)
        kinds_of_kernels(bench)
        bundles_need_no_compiler(bench)
        what_is_refused(bench)
    check.finish()


main()
