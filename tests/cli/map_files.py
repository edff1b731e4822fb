#!/usr/bin/env python3
"""muster map over real files: .npy, several inputs and outputs, tables, grids, headers, rests, video of more than 8 bits."""
import array
import os
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from lib.check import ROOT, Check, clean_environment  # noqa: E402

try:
    import numpy
except ImportError:
    # Debian's is for its own Python, which another one may stand before.
    if sys.executable != "/usr/bin/python3" and subprocess.run(["/usr/bin/python3", "-c", "import numpy"], check=False,
                                                               stderr=subprocess.DEVNULL).returncode == 0:
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    numpy = None

TIME_LIMIT_S = 120
SCALE = """
MUSTER_KERNEL void scale(uint64_t i, MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *out, float by) { out[i] = in[i] * by; }
"""
BLUR = """
MUSTER_KERNEL void blur(uint64_t i, struct muster_cell at, MUSTER_GLOBAL const uint16_t *in, MUSTER_GLOBAL uint16_t *out)
{
    uint32_t sum = 0;
    for (int y = -1; y <= 1; y++)
        for (int x = -1; x <= 1; x++)
            sum += muster_near(in, i, at, x, y);
    out[i] = (uint16_t)(sum / 9);
}
"""
# Three inputs, a table, two outputs of other types.
MIX = """
MUSTER_KERNEL void mix(uint64_t i, MUSTER_GLOBAL const uint8_t *a, MUSTER_GLOBAL const uint16_t *b, MUSTER_GLOBAL uint32_t *sum,
                       MUSTER_GLOBAL const int32_t *lut, MUSTER_GLOBAL const float *c, MUSTER_GLOBAL float *product, uint32_t more)
{
    sum[i] = (uint32_t)(a[i] + b[i]) + (uint32_t)lut[a[i]] + more;
    product[i] = c[i] * 2.0f;
}
"""
PAIRS = "MUSTER_KERNEL void pairs(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out) { out[i] = ~in[i]; }\n"
VOLUME = """
MUSTER_KERNEL void volume(uint64_t i, struct muster_cell at, MUSTER_GLOBAL const int32_t *in, MUSTER_GLOBAL int32_t *out)
{
    out[i] = 6 * in[i] - muster_near(in, i, at, -1, 0) - muster_near(in, i, at, 1, 0) - muster_near(in, i, at, 0, -1) -
             muster_near(in, i, at, 0, 1) - muster_near_3d(in, i, at, 0, 0, -1) - muster_near_3d(in, i, at, 0, 0, 1);
}
"""


class Bench:
    def __init__(self, check, folder):
        self.check, self.folder = check, folder
        for name, text in [("scale.c", SCALE), ("blur.c", BLUR), ("mix.c", MIX), ("pairs.c", PAIRS), ("volume.c", VOLUME)]:
            self.write(name, text.encode())

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def run(self, *words, devices="cpu,sim", **options):
        return self.check.run("map", "--quiet", "--devices", devices, *words, cwd=self.folder,
                              environment={"MUSTER_CACHE": self.path("cache"),
                                           "MUSTER_SIM": '[{"items_per_s":1e9,"h2d_bytes_per_s":1e10,"d2h_bytes_per_s":1e10}]'},
                              **options)

    def works(self, what, *words, **options):
        run = self.run(*words, **options)
        return self.check.true(what, run.code == 0, run.err)


def header(text, version=1):
    """A .npy header by the format's description."""
    body = text.encode()
    before = 10 if version == 1 else 12
    body += b" " * (-(before + len(body) + 1) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(body)) + body


def parse(data):
    """Descr, shape and the bytes that follow."""
    size = struct.unpack("<H", data[8:10])[0]
    found = eval(data[10:10 + size])  # pylint: disable=eval-used
    assert (10 + size) % 64 == 0 and not found["fortran_order"]
    return found["descr"], found["shape"], data[10 + size:]


def npy(check, bench):
    floats = array.array("f", [i / 8 for i in range(6000)])
    doubled = array.array("f", [x * 2 for x in floats]).tobytes()
    for version in (1, 2, 3):
        bench.write("in.npy", header("{'descr': '<f4', 'fortran_order': False, 'shape': (60, 100), }", version) + floats.tobytes())
        bench.works(f"version {version}", "-k", "scale.c", "-i", "in.npy", "-o", "out.npy", "-a", "by=2")
        check.equal(f"version {version}: the array", parse(bench.read("out.npy")), ("<f4", (60, 100), doubled))
    with open(bench.path("in.npy"), "rb") as pipe:
        bench.works("from a pipe", "-k", "scale.c", "-i", "-", "-o", "raw", "-a", "by=2", stdin=subprocess.Popen(
            ["cat"], stdin=pipe, stdout=subprocess.PIPE).stdout)
    check.true("from a pipe: the bytes", bench.read("raw") == doubled)
    bench.write("raw", floats.tobytes())
    bench.works("raw in", "-k", "scale.c", "-i", "raw", "-o", "out.npy", "-a", "by=2")
    check.equal("raw in: the array", parse(bench.read("out.npy")), ("<f4", (6000,), doubled))
    for what, text, word in [
            ("Fortran order", "{'descr': '<f4', 'fortran_order': True, 'shape': (60, 100), }", "ascontiguousarray"),
            ("byte order", "{'descr': '>f4', 'fortran_order': False, 'shape': (60, 100), }", "newbyteorder"),
            ("fields", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6000,), }", "fields"),
            ("type", "{'descr': '<i4', 'fortran_order': False, 'shape': (6000,), }", "<i4"),
            ("size", "{'descr': '<f8', 'fortran_order': False, 'shape': (3000,), }", "<f8"),
            ("complex", "{'descr': '<c8', 'fortran_order': False, 'shape': (3000,), }", "<c8"),
            ("shape", "{'descr': '<f4', 'fortran_order': False, 'shape': (6001,), }", "6001"),
            ("no shape", "{'descr': '<f4', 'fortran_order': False, }", "lacks")]:
        bench.write("bad.npy", header(text) + floats.tobytes())
        check.refused(what, bench.run("-k", "scale.c", "-i", "bad.npy", "-o", "bad", "-a", "by=2"), 2, word)
    bench.write("bad.npy", b"\x93NUMPY\x09\x00" + bytes(100))
    check.refused("version", bench.run("-k", "scale.c", "-i", "bad.npy", "-o", "bad", "-a", "by=2"), 2, "version 9")
    check.refused("a pipe of unknown length", bench.run("-k", "scale.c", "-i", "-", "-o", "x.npy", "-a", "by=2", stdin=subprocess.Popen(
        ["head", "-c", "64", "/dev/zero"], stdout=subprocess.PIPE).stdout), 1, ".npy")


def npy_lengths(check, bench):
    """A header that says more or less than what follows, as a file and through a pipe; sides of 0."""
    data = header("{'descr': '<f4', 'fortran_order': False, 'shape': (60, 100), }") + array.array("f", range(6000)).tobytes()
    words = ["-k", "scale.c", "-o", "lying.npy", "-a", "by=2"]

    def tried(given, is_pipe, *more):
        bench.write("lying.in", given)
        if not is_pipe:
            return bench.run("-i", "lying.in", *words, *more)
        return bench.run("-i", "-", *words, *more, stdin=subprocess.Popen(["cat", bench.path("lying.in")], stdout=subprocess.PIPE).stdout)

    for is_pipe in (False, True):
        way = "pipe" if is_pipe else "file"
        for what, given in [("an element more", data + bytes(4)), ("a byte more", data + bytes(1)), ("another array", data + data),
                            ("an element less", data[:-4]), ("a byte less", data[:-1]), ("no elements", data[:-24000])]:
            check.refused(f"{way}: {what}", tried(given, is_pipe), 2, ".npy", "6000", "numpy.save")
            check.true(f"{way}: {what}: nothing is written", not os.path.exists(bench.path("lying.npy")))
        for rest in ("keep", "drop", "pad"):
            check.refused(f"{way}: a rest that is {rest}", tried(data + bytes(4), is_pipe, "--rest", rest), 2, "--rest", ".npy")
        check.equal(f"{way}: as it should be", tried(data, is_pipe).code, 0)
        os.unlink(bench.path("lying.npy"))
    for shape in ("(0, 5)", "(5, 0)", "(3, 0, 2)"):
        empty = bench.write("empty.npy", header("{'descr': '<u2', 'fortran_order': False, 'shape': %s, }" % shape))
        bench.works(f"{shape}", "-k", "blur.c", "-i", empty, "-o", "empty.out.npy", "--halo", "1")
        check.equal(f"{shape}: stays so", parse(bench.read("empty.out.npy")), ("<u2", eval(shape), b""))  # pylint: disable=eval-used


def structs(check, bench):
    """Records that are structs need no --item: their size is in the source."""
    bench.write("structs.c", b"""
#define SIDE 2
typedef struct { float x[SIDE]; uint8_t tag; } point;
struct far { double all; uint16_t tag; };
MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const point *in, MUSTER_GLOBAL struct far *out)
{ out[i].all = in[i].x[0] + in[i].x[1]; out[i].tag = in[i].tag; }
""")
    points = [(i / 4, i / 2, i % 256) for i in range(500)]
    bench.write("points", b"".join(struct.pack("<ffBxxx", *point) for point in points))
    bench.works("structs", "-k", "structs.c", "-i", "points", "-o", "far")
    found = list(struct.iter_unpack("<dH6x", bench.read("far")))
    check.true("structs: the records", found == [(x + y, tag) for x, y, tag in points])
    check.refused("a part of one", bench.run("-k", "structs.c", "-i", "points", "-o", "far", "--item", "8"), 2, "8 bytes", "12")


def with_numpy(check, bench):
    if not numpy:
        print("not tested: beside NumPy, which is not installed")
        return
    for shape in [(7,), (3, 5), (2, 3, 4), (0,), ()]:
        data = numpy.arange(int(numpy.prod(shape)), dtype=numpy.float32).reshape(shape)
        numpy.save(bench.path("n.npy"), data)
        bench.works(f"NumPy's {shape}", "-k", "scale.c", "-i", "n.npy", "-o", "m.npy", "-a", "by=3")
        back = numpy.load(bench.path("m.npy"))
        check.true(f"NumPy's {shape}: as NumPy computes it", back.dtype == data.dtype and back.shape == shape
                   and numpy.array_equal(back, data * numpy.float32(3)))
    numpy.save(bench.path("n.npy"), numpy.asfortranarray(numpy.zeros((3, 4), numpy.float32)))
    check.refused("NumPy's Fortran order", bench.run("-k", "scale.c", "-i", "n.npy", "-o", "x", "-a", "by=3"), 2, "Fortran")
    cube = numpy.random.default_rng(1).integers(-1000, 1000, (9, 11, 13), dtype=numpy.int32)
    numpy.save(bench.path("n.npy"), cube)
    for border, mode in (("zero", "constant"), ("clamp", "edge")):
        around = numpy.pad(cube, 1, mode=mode)
        expected = 6 * cube - (around[:-2, 1:-1, 1:-1] + around[2:, 1:-1, 1:-1] + around[1:-1, :-2, 1:-1] + around[1:-1, 2:, 1:-1]
                               + around[1:-1, 1:-1, :-2] + around[1:-1, 1:-1, 2:])
        bench.works(f"a volume, {border}", "-k", "volume.c", "-i", "n.npy", "-o", "m.npy", "--halo", "1", "--border", border)
        check.true(f"a volume, {border}: as NumPy computes it", numpy.array_equal(numpy.load(bench.path("m.npy")), expected))


def several(check, bench):
    rng = random.Random(1)
    count = 5000
    a = array.array("B", [rng.randrange(256) for _ in range(count)])
    b = array.array("H", [rng.randrange(65536) for _ in range(count)])
    c = array.array("f", [rng.randrange(1000) / 4 for _ in range(count)])
    lut = array.array("i", [rng.randrange(100000) for _ in range(256)])
    for name, data in (("a", a), ("b", b), ("c", c), ("lut", lut)):
        bench.write(name, data.tobytes())
    sums = array.array("I", [a[i] + b[i] + lut[a[i]] + 5 for i in range(count)]).tobytes()
    products = array.array("f", [x * 2 for x in c]).tobytes()
    bench.works("in order", "-k", "mix.c", "-i", "a", "-i", "b", "-i", "c", "-o", "sum", "-o", "product", "--table", "lut=lut",
                "-a", "more=5")
    check.true("in order: both outputs", bench.read("sum") == sums and bench.read("product") == products)
    bench.works("by name", "-k", "mix.c", "-i", "c=c", "-i", "a=a", "-i", "b=b", "-o", "product=p.npy", "-o", "sum=s.npy",
                "--table", "lut=lut", "-a", "more=5", "--unit", "700")
    check.equal("by name: the first output", parse(bench.read("p.npy")), ("<f4", (count,), products))
    check.equal("by name: the second", parse(bench.read("s.npy")), ("<u4", (count,), sums))
    words = ["-k", "mix.c", "-o", "sum", "-o", "product", "-a", "more=5"]
    check.refused("too few inputs", bench.run(*words, "-i", "a", "-i", "b", "--table", "lut=lut"), 2, "--in NAME=FILE")
    check.refused("no such table", bench.run(*words, "-i", "a", "-i", "b", "-i", "c", "--table", "x=lut"), 2, "pointer c is an input")
    bench.write("short", b.tobytes()[:-2])
    check.refused("other lengths", bench.run(*words, "-i", "a", "-i", "short", "-i", "c", "--table", "lut=lut"), 2, "5000 items")
    check.refused("a table that is not there", bench.run(*words, "-i", "a", "-i", "b", "-i", "c", "--table", "lut=no"), 2, "no")
    check.refused("too many outputs", bench.run("-k", "pairs.c", "-i", "a", "-o", "x", "-o", "y"), 2, "no output")


def rests(check, bench):
    data = bytes(range(1, 12))
    inverted = bytes(x ^ 255 for x in data)
    bench.write("odd", data)
    check.refused("a rest", bench.run("-k", "pairs.c", "-i", "odd", "-o", "x"), 2, "3")
    for rest, expected in (("keep", inverted[:8] + data[8:]), ("drop", inverted[:8]), ("pad", inverted + b"\xff")):
        bench.works(rest, "-k", "pairs.c", "-i", "odd", "-o", "x", "--rest", rest)
        check.equal(f"{rest}: the bytes", bench.read("x"), expected)
        with open(bench.path("odd"), "rb") as odd:
            cat = subprocess.Popen(["cat"], stdin=odd, stdout=subprocess.PIPE)
            bench.works(f"{rest}, a pipe", "-k", "pairs.c", "-i", "-", "-o", "x", "--rest", rest, stdin=cat.stdout)
        check.equal(f"{rest}, a pipe: the bytes", bench.read("x"), expected)
    bench.write("headed", b"head!" + data[:8])
    bench.works("skip", "-k", "pairs.c", "-i", "headed", "-o", "x", "--skip", "5", "--no-speculation")
    check.equal("skip: the bytes", bench.read("x"), inverted[:8])
    check.refused("skip too much", bench.run("-k", "pairs.c", "-i", "headed", "-o", "x", "--skip", "50"), 2, "13 bytes")
    check.refused("rest", bench.run("-k", "pairs.c", "-i", "odd", "-o", "x", "--rest", "eat"), 2, "keep, drop or pad")


def mean(rows, x, y, clamp):
    """Of the 3x3 cells around one."""
    total = 0
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            u, v = x + dx, y + dy
            if clamp:
                u, v = min(max(u, 0), len(rows[0]) - 1), min(max(v, 0), len(rows) - 1)
            if 0 <= v < len(rows) and 0 <= u < len(rows[0]):
                total += rows[v][u]
    return total // 9


def blur(cells, width, height, clamp=False):
    rows = [cells[y * width:(y + 1) * width] for y in range(height)]
    return array.array("H", [mean(rows, x, y, clamp) for y in range(height) for x in range(width)])


def grids(check, bench):
    rng = random.Random(2)
    width, height = 37, 23
    cells = array.array("H", [rng.randrange(1024) for _ in range(width * height)])
    bench.write("grid", cells.tobytes())
    for border in ("zero", "clamp"):
        for unit in ([], ["--unit", str(width)], ["--unit", str(5 * width)]):
            bench.works(border, "-k", "blur.c", "-i", "grid", "-o", "x", "--grid", "37x23", "--halo", "1", "--border", border, *unit)
            check.true(f"{border} {unit}: the cells", bench.read("x") == blur(cells, width, height, border == "clamp").tobytes())
    check.refused("no halo", bench.run("-k", "blur.c", "-i", "grid", "-o", "x", "--grid", "37x23"), 2, "--halo 1")
    check.refused("no grid", bench.run("-k", "blur.c", "-i", "grid", "-o", "x", "--halo", "1"), 2, "--grid")
    check.refused("another grid", bench.run("-k", "blur.c", "-i", "grid", "-o", "x", "--grid", "37x24"), 2, "37 x 24")
    check.refused("no grid at all", bench.run("-k", "blur.c", "-i", "grid", "-o", "x", "--grid", "37"), 2, "640x480")
    bench.write("words", bytes(4 * width * height))
    check.refused("no cells", bench.run("-k", "pairs.c", "-i", "words", "-o", "x", "--grid", "37x23"), 2, "takes no cells")
    check.refused("wrap", bench.run("-k", "blur.c", "-i", "grid", "-o", "x", "--grid", "37x23", "--border", "wrap"), 2, "clamp")


def foreign(check, bench):
    bench.write("luma.c", b"MUSTER_KERNEL void luma(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out,\n"
                          b"uint32_t width) { out[i] = (uint8_t)(in[i] + width); }\n")
    for name, data, word in (("empty", b"", "the input is empty"), ("png", b"\x89PNG\r\n\x1a\n" + bytes(50), "a PNG picture"),
                             ("mp4", b"\0\0\0\x20ftypisom" + bytes(50), "ffmpeg"), ("text", b"hello world", "YUV4MPEG2")):
        bench.write(name, data)
        check.refused(name, bench.run("-k", "luma.c", "-i", name, "-o", "x"), 2, word)


def frames_of(data, size):
    first, rest = data.split(b"\n", 1)
    return first, [rest[at + 6:at + 6 + size] for at in range(0, len(rest), 6 + size)]


def blur_frame(frame, width, height, planes="yuv"):
    chroma_width, chroma_height = (width + 1) // 2, (height + 1) // 2
    at, parts = 0, []
    for name, (across, down) in zip("yuv", ((width, height), (chroma_width, chroma_height), (chroma_width, chroma_height))):
        plane = array.array("H", frame[at:at + 2 * across * down])
        parts.append((blur(plane, across, down, True) if name in planes else plane).tobytes())
        at += 2 * across * down
    return b"".join(parts)


def deep_video(check, bench):
    rng = random.Random(3)
    width, height, size = 19, 11, 2 * (19 * 11 + 2 * 10 * 6)
    frames = [array.array("H", [rng.randrange(1024) for _ in range(size // 2)]).tobytes() for _ in range(5)]
    start = b"YUV4MPEG2 W19 H11 F25:1 Ip A1:1 C420p10 XYSCSS=420P10\n"
    bench.write("v.y4m", start + b"".join(b"FRAME\n" + frame for frame in frames))
    for planes in ("yuv", "y", "u,v"):
        bench.works(f"10 bits, {planes}", "-k", "blur.c", "-i", "v.y4m", "-o", "w.y4m", "--halo", "1", "--border", "clamp", "--planes", planes)
        first, found = frames_of(bench.read("w.y4m"), size)
        check.true(f"10 bits, {planes}: the frames", first + b"\n" == start
                   and found == [blur_frame(frame, width, height, planes) for frame in frames])
    bench.write("bytes.c", b"MUSTER_KERNEL void b(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out) { out[i] = in[i]; }\n")
    check.refused("a kernel for 8 bits", bench.run("-k", "bytes.c", "-i", "v.y4m", "-o", "x"), 2, "10 bits a sample", "uint16_t")
    check.refused("planes of records", bench.run("-k", "bytes.c", "-i", "v.y4m", "--item", "1", "-o", "x", "--planes", "y"), 2, "--planes")


def ffmpeg(check, bench):
    if not shutil.which("ffmpeg"):
        print("not tested: beside ffmpeg, which is not installed")
        return
    clip = ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=48x32:rate=25:duration=0.4", "-pix_fmt", "yuv420p10le",
            "-strict", "-1", "-f", "yuv4mpegpipe", "-"]
    data = subprocess.run(clip, stdout=subprocess.PIPE, check=True, timeout=TIME_LIMIT_S).stdout
    _, frames = frames_of(data, 48 * 32 * 3)
    expected = b"".join(blur_frame(frame, 48, 32) for frame in frames)
    source = subprocess.Popen(clip, stdout=subprocess.PIPE)
    middle = subprocess.Popen([check.muster, "map", "--quiet", "--devices", "cpu", "-k", bench.path("blur.c"), "-i", "-", "-o", "-",
                               "--halo", "1", "--border", "clamp"], stdin=source.stdout, stdout=subprocess.PIPE,
                              env=clean_environment(MUSTER_CACHE=bench.path("cache")))
    sink = subprocess.run(["ffmpeg", "-v", "error", "-f", "yuv4mpegpipe", "-i", "-", "-f", "rawvideo", "-"], stdin=middle.stdout,
                          stdout=subprocess.PIPE, timeout=TIME_LIMIT_S, check=False)
    for process in [source, middle]:
        process.stdout.close()
        check.equal("between two ffmpegs: exit code", process.wait(TIME_LIMIT_S), 0)
    check.equal("between two ffmpegs: frames", len(frames), 10)
    check.true("between two ffmpegs: the same as a plain program's", sink.stdout == expected)


def recipes(check, bench):
    """What docs/cookbook.md says, as it stands there."""
    with open(os.path.join(ROOT, "docs", "cookbook.md"), encoding="utf-8") as file:
        text = file.read()
    floats = array.array("f", [i / 4 for i in range(1000)]).tobytes()
    bench.write("samples.npy", header("{'descr': '<f4', 'fortran_order': False, 'shape': (10, 100), }") + floats)
    bench.write("samples.wav", bytes(44) + floats + b"x")
    for name in ("samples.f32", "image.f32", "gain.f32"):
        bench.write(name, floats)
    bench.write("image.u8", bytes(i % 256 for i in range(1000)))
    bench.write("curve.f32", array.array("f", range(256)).tobytes())
    run = 0
    for title in ("NumPy's .npy, and other files with a header", "Several files and a table", "Neighbours"):
        section = text.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
        for kernel in re.findall(r"```c\n(.*?)```", section, re.S):
            bench.write(re.search(r"MUSTER_KERNEL void (\w+)", kernel)[1] + ".c", kernel.encode())
        for line in "".join(re.findall(r"```sh\n(.*?)```", section, re.S)).splitlines():
            words = shlex.split(line, comments=True)
            check.equal("a recipe runs muster map", words[:2], ["muster", "map"])
            bench.works(line, *words[2:])
            run += 1
    check.equal("recipes", run, 7)
    check.true("a recipe's result", parse(bench.read("louder.npy")) == (
        "<f4", (10, 100), array.array("f", [1.5 * i / 4 for i in range(1000)]).tobytes()))
    check.true("another's", bench.read("mask.u8") == bytes(1 if i % 256 == 255 else 0 for i in range(1000)))


def main():
    check = Check()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(check, os.path.realpath(folder))
        for test in [npy, npy_lengths, structs, with_numpy, several, rests, grids, foreign, deep_video, ffmpeg, recipes]:
            begin = time.monotonic()
            test(check, bench)
            print(f"{test.__name__}: {time.monotonic() - begin:.1f} s")
    check.finish()


main()
