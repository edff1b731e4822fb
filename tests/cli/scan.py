#!/usr/bin/env python3
"""muster scan beside grep -aF: every answer byte for byte, over word lists and inputs chosen to be awkward and at random."""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import ROOT, Check, clean_environment  # noqa: E402

SEED = int(os.environ.get("MUSTER_TEST_SEED", "1"))
REPEAT = int(os.environ.get("MUSTER_TEST_REPEAT", "1"))
ITEM = 1024
TIME_LIMIT_S = 120
MODES = [[], ["-c"], ["-b"], ["-o"], ["-bo"], ["-n"], ["-bon"], ["-H"], ["-cH"], ["-h"]]


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIME_LIMIT_S, **options)
    return done.returncode, done.stdout, done.stderr


class Bench:
    """A folder with a word list and inputs, and the two commands on it."""

    def __init__(self, check, folder):
        self.check = check
        self.folder = folder

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def muster(self, *arguments, environment=None, **options):
        environment = clean_environment(**(environment or {}))
        return run([self.check.muster, "scan", *arguments], cwd=self.folder, env=environment, **options)

    def grep(self, *arguments, **options):
        environment = dict(os.environ, LC_ALL="C")
        return run(["grep", "-aF", *arguments], cwd=self.folder, env=environment, **options)

    def same(self, what, arguments, devices=("--devices", "cpu"), **options):
        """The same bytes from both; with --grep-status also the same exit code."""
        expected = self.grep(*arguments, **options)
        actual = self.muster("--grep-status", *devices, *arguments, **options)
        if actual[:2] == expected[:2]:
            self.check.passed += 1
            return True
        first = next((i for i, (a, b) in enumerate(zip(actual[1], expected[1])) if a != b),
                     min(len(actual[1]), len(expected[1])))
        return self.check.true(what, False, f"{arguments}: exit {actual[0]} and {expected[0]}, {len(actual[1])} and "
                               f"{len(expected[1])} bytes, at {first}: {actual[1][first:first + 60]!r} and "
                               f"{expected[1][first:first + 60]!r} {actual[2][:200]!r}; kept in {self.keep()}")

    def keep(self):
        kept = tempfile.mkdtemp(prefix="scan-failed-")
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if os.path.isfile(path):
                with open(path, "rb") as source, open(os.path.join(kept, name), "wb") as copy:
                    copy.write(source.read())
        return kept


def word_lists():
    """Lists that are awkward by themselves."""
    yield "none", b""
    yield "the empty word", b"\n"
    yield "empty lines among others", b"foo\n\nbar\n"
    yield "duplicates", b"foo\nfoo\nfoo\nbar\nfoo\n"
    yield "prefixes of each other", b"a\nab\nabc\nabcd\nabcde\nabcdef\n"
    yield "prefixes, the long ones first", b"abcdefgh\nabcdefg\nabcd\nabc\n"
    yield "suffixes of each other", b"bcd\ncd\nabcd\nd\n"
    yield "overlapping", b"abab\nbaba\nab\n"
    yield "one byte", b"x\n"
    yield "two bytes", b"ab\nba\n"
    yield "three bytes", b"abc\nbca\ncab\n"
    yield "carriage returns", b"foo\r\nbar\r\n\r\n"
    yield "no newline at the end", b"foo\nbar"
    yield "bytes above 127", bytes(range(128, 256)) + b"\n\xff\xfe\n\x80\n"
    yield "NUL", b"a\0b\n\0\0\nfoo\0\n"
    yield "longer than an item", b"ab" * 700 + b"\n" + b"ab" * 1500 + b"\nfoo\n"


def texts():
    yield "nothing", b""
    yield "a newline", b"\n"
    yield "newlines", b"\n\n\n"
    yield "no newline", b"foo"
    yield "short", b"foo\nbar abcdefgh abab ababab\r\nfoo\r\nx\n\xff\xfe\x80 a\0b \0\0\0\nlast abc"
    yield "all bytes", bytes(range(256)) * 20
    yield "periods", b"abc" * 3000 + b"\n" + b"ab" * 4000
    yield "a long line", b"foo " * 5000 + b"\n" + b"bar\n"
    yield "NULs", b"\0" * 5000 + b"a\0b\n"
    # A word across every border of an item, at every distance.
    yield "borders", b"".join(b"." * (ITEM - 8 + i) + b"abcdefgh foo" + b"." * (ITEM - 12 - i) for i in range(12))


def awkward(bench):
    """Each list in some of the modes, so that each mode meets several; all of them where there is time."""
    names = []
    for number, (_, text) in enumerate(texts()):
        names.append(os.path.basename(bench.write(f"text{number}", text)))
    for number, (name, words) in enumerate(word_lists()):
        bench.write("words", words)
        for way in range(len(MODES) if REPEAT > 1 else 3):
            mode = MODES[(number + way * 3) % len(MODES)]
            unit = ["--unit", "1K"] if (number + way) % 2 else []
            bench.same(name, [*mode, "-f", "words", *names], devices=["--devices", "cpu", *unit])
        one = names[number % len(names)]
        bench.same(f"{name}, {one}", ["-bo", "-f", "words", one])


def random_text(random_, alphabet, length, newline):
    letters = bytearray(random_.choices(alphabet, k=length))
    for _ in range(int(length * newline)):
        letters[random_.randrange(length)] = 10
    return bytes(letters)


def at_random(bench):
    for number in range(REPEAT * 15):
        seed = SEED * 1000003 + number
        random_ = random.Random(seed)
        alphabet = random_.choice([b"ab", b"abc", b"abcdefgh", bytes(range(97, 123)) + b"   ", bytes(range(256))])
        longest = random_.choice([2, 3, 4, 5, 8, 20, 3000])
        words = [bytes(random_.choices(alphabet, k=random_.randint(1, longest)))
                 for _ in range(random_.choice([1, 2, 5, 30, 300]))]
        text = random_text(random_, alphabet, random_.randint(1, 40000), random_.choice([0, 0.0005, 0.02, 0.2]))
        # Words that are there, whole, cut short and spoilt.
        for _ in range(random_.randint(0, 20)):
            begin = random_.randrange(len(text))
            part = text[begin:begin + random_.randint(1, longest)]
            words.append(part.replace(b"\n", b"") + random_.choice([b"", b"", b"!"]) or b"x")
        if random_.random() < 0.1:
            words.append(b"")
        bench.write("words", random_.choice([b"\n", b"\n", b"\r\n"]).join(words) + random_.choice([b"", b"\n"]))
        bench.write("text", text)
        bench.write("other", text[len(text) // 2:] + random_.choice([b"", b"\n"]))
        unit = random_.choice(["1K", "2K", "7K", "1000K"])
        for mode in random_.sample(MODES, 2):
            inputs = random_.choice([["text"], ["text"], ["text", "other"], ["other", "text", "other"]])
            bench.same(f"seed {seed}", [*mode, "-f", "words", *inputs], devices=("--devices", "cpu", "--unit", unit))


def standard_input(bench):
    text = b"foo\n" * 3000 + b"bar"
    bench.write("words", b"foo\nbar\n")
    bench.write("text", text)
    for mode in MODES[::3]:
        bench.same("standard input", [*mode, "-f", "words"], input=text)
        bench.same("standard input among files", [*mode, "-f", "words", "text", "-", "text"], input=text)
    bench.same("words from standard input", ["-c", "-f", "-", "text"], input=b"bar\n")
    bench.same("several lists", ["-bo", "-f", "words", "-e", "oo", "-e", "", "-e", "a\nr", "text"])
    bench.same("a word that looks like an option", ["-c", "-e", "--x", "-e", "-y", "text"])
    bench.same("a word in the same argument", ["-boefoo", "text"])


def many_words(bench):
    """100,000 words, all of which are there."""
    random_ = random.Random(SEED)
    words = [b"%x" % random_.getrandbits(48) for _ in range(100000)]
    bench.write("words", b"\n".join(words) + b"\n")
    bench.write("text", b"".join(word[random_.randint(0, 3):] + b"-" + word + b"\n" for word in words))
    bench.same("100,000 words", ["-bo", "-f", "words", "text"])
    # grep takes seconds for such a list; what it would say is known.
    code, out, err = bench.muster("--devices", "cpu", "-c", "-f", "words", "text")
    bench.check.equal("lines with one of 100,000 words", (code, out, err), (0, b"100000\n", b""))


def large_files(bench):
    """Large enough to be read by requests side by side, and beginning anywhere in a job's memory."""
    random_ = random.Random(SEED)
    part = random_text(random_, b"abcdefgh  ", 100003, 0.02)
    bench.write("words", b"abcd\nhgfe\nbad\n")
    bench.write("small", part[:1000])
    bench.write("large", part * 90)
    for mode in [["-c"], ["-bo"]]:
        # What the system has not in its cache is read past it, where the file system can do that.
        with open(os.path.join(bench.folder, "large"), "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        answer = bench.muster("--devices", "cpu", *mode, "-f", "words", "small", "large", "small", "large")
        expected = bench.grep(*mode, "-f", "words", "small", "large", "small", "large")
        bench.check.true(f"{mode}: large files that are not cached", answer[:2] == expected[:2], answer[2])
        bench.same("large files", [*mode, "-f", "words", "small", "large", "small", "large"])
    with open(os.path.join(bench.folder, "large"), "rb") as file:
        file.seek(5000)
        code, out, err = bench.muster("--devices", "cpu", "-c", "-f", "words", stdin=file)
    with open(os.path.join(bench.folder, "large"), "rb") as file:
        file.seek(5000)
        bench.check.equal("from the middle", (code, out), bench.grep("-c", "-f", "words", stdin=file)[:2])


def real_text(bench):
    """Every source file of the tree, by name, with words that are in them and some that are not."""
    names = sorted(os.path.join(base, name) for base, _, files in os.walk(os.path.join(ROOT, "src")) for name in files)
    random_ = random.Random(SEED)
    known = set()
    for name in names:
        with open(name, "rb") as file:
            known.update(re.findall(rb"\w{3,}", file.read()))
    known = sorted(known)
    random_.shuffle(known)
    for count in [1, 10, 1000]:
        bench.write("words", b"\n".join(known[:count] + [known[-1][:-1] + b"?"]) + b"\n")
        for mode in [["-c"], ["-bo"], ["-n"]]:
            bench.same(f"{count} words", [*mode, "-f", "words", *names])


def trouble(bench):
    check = bench.check
    bench.write("words", b"foo\n")
    bench.write("text", b"foo\nbar\n")
    os.mkdir(os.path.join(bench.folder, "folder"))
    for arguments in [["-c", "-f", "words", "text", "missing", "text"], ["-n", "-f", "words", "folder", "text"]]:
        expected = bench.grep(*arguments)
        code, out, err = bench.muster("--devices", "cpu", *arguments)
        check.equal(f"{arguments}: as grep", out, expected[1])
        check.equal(f"{arguments}: exit code", code, 2)
        check.true(f"{arguments}: says which", b"missing: No such file" in err or b"folder: Is a directory" in err, err)
    for arguments, parts in [([], ["PATTERN", "--word", "--file"]), (["-f", "missing", "text"], ["missing"]),
                             (["-f", "folder", "text"], ["folder"]), (["-e"], ["--word needs a value"]),
                             (["-cX", "-e", "foo"], ["no option -cX"]), (["--ignore-caes", "foo"], ["did you mean --ignore-case?"]), (["-hH", "-e", "foo"], ["exclude"]),
                             (["--json", "-o", "-e", "foo"], ["--json"]), (["--unit", "0", "-e", "foo"], ["--unit"])]:
        check.refused(f"scan {arguments}", check.run("scan", *arguments, cwd=bench.folder, stdin=subprocess.DEVNULL), 2,
                      *parts)
    check.refused("no device", check.run("scan", "--devices", "sim", "-e", "foo", cwd=bench.folder,
                                         stdin=subprocess.DEVNULL), 3, "device")
    code, out, err = bench.muster("--devices", "cpu", "-e", "nowhere", "text")
    check.equal("not found is done", (code, out, err), (0, b"", b""))
    code, out, err = bench.muster("--devices", "cpu", "-e", "f", "text", stdin=subprocess.DEVNULL)
    check.equal("found is done", (code, out, err), (0, b"foo\n", b""))
    with open("/dev/full", "wb") as full:
        done = subprocess.run([check.muster, "scan", "--devices", "cpu", "-e", "o", "text"], cwd=bench.folder, stdout=full,
                              stderr=subprocess.PIPE, timeout=TIME_LIMIT_S)
    check.true("a full disk is told", done.returncode == 1 and b"No space left" in done.stderr, done.stderr)
    with open(os.path.join(bench.folder, "text"), "ab") as itself:
        done = subprocess.run([check.muster, "scan", "--devices", "cpu", "-e", "o", "text"], cwd=bench.folder, stdout=itself,
                              stderr=subprocess.PIPE, timeout=TIME_LIMIT_S)
    check.true("an input that is the output", done.returncode == 2 and b"also the output" in done.stderr, done.stderr)
    bench.write("long", b"foo\n" * 500000)
    process = subprocess.Popen([check.muster, "scan", "--devices", "cpu", "-e", "foo", "long"], cwd=bench.folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(10)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    check.equal("a closed pipe ends it", (process.wait(TIME_LIMIT_S), err), (1, b""))


def reports(bench):
    check = bench.check
    bench.write("text", b"foo\nbar\n" * 1000)
    code, out, err = bench.muster("--devices", "cpu", "--json", "-e", "foo", "text", "text")
    report = json.loads(out)
    check.equal("JSON: exit", (code, err), (0, b""))
    check.equal("JSON: counts", (report["inputs"], report["lines"]), ([{"path": "text", "lines": 1000}] * 2, 2000))
    check.equal("JSON: devices", [device["id"].split(":")[0] for device in report["devices"]], ["cpu"])
    check.equal("JSON: items", sum(device["items"] for device in report["devices"]), report["items"])


def lost_half_way(bench):
    """Two simulated devices and the processor; one of them fails while it has work: nothing is missing or twice."""
    random_ = random.Random(SEED)
    words = [bytes(random_.choices(b"abcdefgh", k=random_.randint(2, 8))) for _ in range(200)]
    bench.write("words", b"\n".join(words) + b"\n")
    bench.write("text", random_text(random_, b"abcdefgh ", 3000000, 0.02))
    sim = {"devices": [{"name": "good", "count": 1, "items_per_s": 8000},
                       {"name": "bad", "count": 1, "items_per_s": 8000, "faults": [{"kind": "lost", "at_launch": 3}]}]}
    environment = {"MUSTER_SIM": json.dumps(sim)}
    arguments = ["--devices", "sim", "--unit", "40K"]
    for mode in [["-bo"], ["-c"], ["-n"]]:
        expected = bench.grep(*mode, "-f", "words", "text")
        code, out, err = bench.muster(*arguments, *mode, "-f", "words", "text", environment=environment)
        bench.check.true(f"{mode}: the same bytes with a device lost", (code, out) == (0, expected[1]), f"{code} {err}")
    # On a busy machine the other may have done all before it has begun its third unit.
    for _ in range(5):
        _, out, _ = bench.muster(*arguments, "--json", "-f", "words", "text", environment=environment)
        report = json.loads(out)
        healths = sorted(device["health"] for device in report["devices"])
        if healths != ["ok", "ok"] and all(device["busy_ns"] > 0 for device in report["devices"]):
            break
    bench.check.equal("one was lost, one was not", healths, ["lost", "ok"])
    bench.check.true("both had work", all(device["busy_ns"] > 0 for device in report["devices"]), str(out))


def isolated(bench):
    """In a helper, which is the command itself and has its functions: there is no compiler here for the portable form."""
    random_ = random.Random(SEED)
    words = [bytes(random_.choices(b"abcdefgh", k=random_.randint(2, 8))) for _ in range(60)]
    bench.write("words", b"\n".join(words) + b"\n")
    bench.write("text", random_text(random_, b"abcdefgh  ", 300000, 0.02))
    environment = {"MUSTER_CC": "/nonexistent/cc"}
    expected = bench.grep("-bo", "-f", "words", "text")
    for variables in [{"MUSTER_ISOLATE": "cpu"}, {"MUSTER_UNTRUSTED": "1"}]:
        code, out, err = bench.muster("--devices", "cpu", "-bo", "-f", "words", "text",
                                      environment=dict(environment, **variables))
        if b"the sandbox needs" in err:
            print("not tested: untrusted, " + err.decode().strip())
            continue
        bench.check.true(f"{variables}: the same bytes", (code, out) == (0, expected[1]), f"{code} {err}")


def on_a_gpu(bench):
    """The portable form, on the driver of tests/driver: alone, and beside the processor."""
    drivers = os.environ.get("TEST_DRIVERS")
    if not drivers:
        print("not tested: the portable form, without TEST_DRIVERS")
        return
    random_ = random.Random(SEED)
    words = [bytes(random_.choices(b"abcdefgh", k=random_.randint(1, 8))) for _ in range(60)]
    bench.write("words", b"\n".join(words) + b"\n")
    bench.write("text", random_text(random_, b"abcdefgh  ", 300000, 0.02))
    environment = {"LD_LIBRARY_PATH": os.path.join(drivers, "full"), "MUSTER_CACHE": os.path.join(drivers, "cache"),
                   # As for other tests whose kernels come and go: see tests/driver/CMakeLists.txt.
                   "LSAN_OPTIONS": "use_tls=0:suppressions=" + os.path.join(ROOT, "tests", "driver", "leaks.suppressions")}
    for devices, mode in [("cuda", "-bo"), ("cuda", "-c"), ("cpu,cuda", "-n")]:
        expected = bench.grep(mode, "-f", "words", "text")
        code, out, err = bench.muster("--devices", devices, mode, "-f", "words", "text", environment=environment)
        if code == 3 and devices == "cuda":
            print("not tested: the portable form, without a compiler for the tests' NVRTC")
            return
        bench.check.true(f"{devices} {mode}: the same bytes", (code, out) == (0, expected[1]), f"{code} {err}")


check = Check()
check.muster = os.path.abspath(check.muster)
print(f"seed {SEED}")
for part in [awkward, at_random, standard_input, many_words, large_files, real_text, trouble, reports, lost_half_way, isolated, on_a_gpu]:
    with tempfile.TemporaryDirectory() as folder:
        part(Bench(check, folder))
check.finish()
