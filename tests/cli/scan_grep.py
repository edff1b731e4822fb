#!/usr/bin/env python3
"""muster scan with grep's own options beside grep -aF: random trees, words and options, and trees of this machine.

`--cases N` (default 60, fewer under a sanitizer) random cases; `--trees FOLDER,...` compares on these too; soak runs 5,000 cases
and /usr/include. What both print must be the same bytes, and the exit status the same.
"""
import argparse
import gzip
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import ROOT, Check, clean_environment  # noqa: E402
from lib.screen import on_terminal  # noqa: E402

SEED = int(os.environ.get("MUSTER_TEST_SEED", "1"))
TIME_LIMIT_S = 300
FLAGS = ["-i", "-w", "-x", "-v"]
OUTPUTS = [[], [], [], ["-c"], ["-l"], ["-L"], ["-o"], ["-n"], ["-b"], ["-on"], ["-bo"], ["-nb"], ["-q"], ["--color=always"],
           ["--color=always", "-on"], ["--color=always", "-c"], ["--color=always", "-l"]]
NAMES = [[], [], ["-H"], ["-h"]]


def run(command, folder, **options):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIME_LIMIT_S,
                          env=clean_environment(LC_ALL="C", GREP_COLORS="", TERM="xterm"), **options)
    return done.returncode, done.stdout, done.stderr


class Two:
    """The two commands, in a folder."""

    def __init__(self, check, folder):
        self.check, self.folder = check, folder

    def same(self, what, arguments, **options):
        expected = run(["grep", "-aF", *arguments], self.folder, **options)
        actual = run([self.check.muster, "scan", "--grep-status", "--devices", given.devices, *arguments], self.folder, **options)
        if actual[:2] == expected[:2]:
            self.check.passed += 1
            return True
        first = next((i for i, (a, b) in enumerate(zip(actual[1], expected[1])) if a != b), min(len(actual[1]), len(expected[1])))
        return self.check.true(what, False, f"{arguments}: exit {actual[0]} and {expected[0]}, {len(actual[1])} and {len(expected[1])} "
                               f"bytes, at {first}: {actual[1][first:first + 60]!r} and {expected[1][first:first + 60]!r} "
                               f"{actual[2][:200]!r}; kept in {self.keep()}")

    def keep(self):
        if not self.folder.startswith(tempfile.gettempdir()):
            return self.folder
        kept = tempfile.mkdtemp(prefix="scan-failed-")
        return shutil.copytree(self.folder, os.path.join(kept, "tree"), symlinks=True)


def random_letters(random_):
    """Few letters, in both cases, and bytes that are of no word, so that everything is found somewhere and nothing everywhere."""
    return random_.choice([b"ab", b"aAbB", b"aA_ ", b"ab -_0", b"abcABC \t.", bytes(range(1, 10)) + b"aA", bytes(b for b in range(256) if b != 10)])


def random_text(random_, letters, most):
    lines = []
    while sum(map(len, lines)) < most and random_.random() < 0.97:
        lines.append(bytes(random_.choices(letters, k=random_.choice([0, 0, 1, 2, 3, 5, 9, 30, 200]))))
    end = random_.choice([b"\n", b"\n", b""])
    return b"\n".join(lines) + end if lines else random_.choice([b"", b"\n"])


def make_tree(random_, folder, letters):
    """Some files, of which some lie in folders; gives the operands there are."""
    files = []
    for i in range(random_.randint(1, 5)):
        place = random_.choice(["", "", "sub", "sub/deep", "other"])
        os.makedirs(os.path.join(folder, place), exist_ok=True)
        name = os.path.join(place, f"text{i}")
        with open(os.path.join(folder, name), "wb") as file:
            file.write(random_text(random_, letters, random_.choice([0, 10, 300, 300, 3000, 60000])))
        files.append(name)
    if random_.random() < 0.2:
        os.symlink(files[0], os.path.join(folder, "link"))
    return files


def random_words(random_, folder, letters, files):
    words = []
    for _ in range(random_.choice([0, 1, 1, 1, 2, 5, 40])):
        with open(os.path.join(folder, random_.choice(files)), "rb") as file:
            text = file.read()
        if text and random_.random() < 0.6:
            at = random_.randrange(len(text))
            word = text[at:at + random_.choice([1, 2, 3, 4, 5, 8, 33])].split(b"\n")[0]
            words.append(word.swapcase() if random_.random() < 0.3 else word)
        elif text and random_.random() < 0.4:
            words.append(random_.choice(text.split(b"\n")))
        else:
            words.append(bytes(random_.choices(letters, k=random_.choice([0, 1, 1, 2, 3, 4, 6]))))
    return words


def random_case(two, random_, number):
    for entry in os.scandir(two.folder):
        shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
    letters = random_letters(random_)
    files = make_tree(random_, two.folder, letters)
    words = random_words(random_, two.folder, letters, files)
    arguments = random_.sample(FLAGS, random_.choice([0, 1, 1, 1, 2, 2, 3])) + random_.choice(OUTPUTS) + random_.choice(NAMES)
    if "-x" in arguments and "--color=always" in arguments:
        arguments.remove("--color=always")  # grep may take the newline for a part of what it has found
    if "-x" in arguments and "-w" in arguments:
        arguments.remove("-w")  # likewise with -o
    recursive = random_.random() < 0.4
    usual = all(b"\0" not in word for word in words)
    if len(words) == 1 and usual and words[0][:1] != b"-" and random_.random() < 0.5:
        pattern = [os.fsdecode(words[0])]
    elif words and usual and random_.random() < 0.5:
        pattern = [part for word in words for part in ("-e", os.fsdecode(word))]
    else:
        with open(os.path.join(two.folder, ".words"), "wb") as file:
            file.write(b"\n".join(words) + (b"\n" if words else b""))
        # Outside the tree that is searched: grep would search its own list too.
        pattern = ["-f", shutil.move(os.path.join(two.folder, ".words"), two.folder + ".words")]
    if recursive:
        arguments.append("-r")
        operands = random_.choice([[], ["."], ["./"], ["sub", files[0]], [files[0]], ["sub/", "other"], ["link"]])
    else:
        operands = random_.choice([files, files[:1], files[:1], files + ["none"], ["-"], [], files + [".", "link"]])
    if pattern[0] not in ("-e", "-f"):
        arguments += pattern
    else:
        arguments = pattern + arguments
    options = {}
    if not recursive and (not operands or "-" in operands):
        with open(os.path.join(two.folder, files[0]), "rb") as file:
            options["input"] = file.read()
    two.same(f"seed {SEED}, case {number}", arguments + operands, **options)


def at_random(check, cases):
    random_ = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        inner = os.path.join(folder, "tree")
        os.mkdir(inner)
        for number in range(cases):
            random_case(Two(check, inner), random_, number)


def on_trees(check, trees):
    """Words of the tree itself, few and many, in every way."""
    random_ = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        for tree in trees:
            known = set()
            for base, _, names in os.walk(tree):
                for name in random_.sample(names, min(len(names), 5)):
                    path = os.path.join(base, name)
                    if os.path.isfile(path) and not os.path.islink(path):
                        with open(path, "rb") as file:
                            known.update(re.findall(rb"[A-Za-z_0-9]{4,30}", file.read(100000)))
            known = sorted(known)
            random_.shuffle(known)
            for count in [1, 30, 1000] if given.trees else [30]:
                words = os.path.join(folder, "words")
                with open(words, "wb") as file:
                    file.write(b"\n".join(known[:count]) + b"\n")
                for flags in [["-i"], ["-w"], ["-x"], ["-v", "-c"], ["-l"], ["-n"], ["-i", "-w", "-o"], ["-iwvl"], ["-v", "-i", "-L"], []]:
                    Two(check, tree).same(f"{tree}, {count} words", ["-r", *flags, "-f", words])
                    Two(check, "/").same(f"{tree}, {count} words", ["-r", *flags, "-f", words, tree])


def habits(check):
    """What grep has no other half for."""
    with tempfile.TemporaryDirectory() as folder:
        text = b"some words\nFoo bar\n" * 2000 + b"foo at the end"
        for name, data in [("plain", text), ("two.gz", gzip.compress(text[:5000]) + gzip.compress(text[5000:])),
                           ("short.gz", gzip.compress(text)[:-20]), ("empty.gz", gzip.compress(b""))]:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
        muster = [check.muster, "scan", "--devices", "cpu"]
        expected = run(["grep", "-ainF", "foo", "plain"], folder)[1]
        check.equal("gzip, two members", run([*muster, "-zin", "foo", "two.gz"], folder), (0, expected, b""))
        with open(os.path.join(folder, "two.gz"), "rb") as file:
            check.equal("gzip through a pipe", run([*muster, "-zin", "foo"], folder, input=file.read()), (0, expected, b""))
        check.equal("plain text through a pipe", run([*muster, "-zin", "foo"], folder, input=text), (0, expected, b""))
        check.equal("nothing in it", run([*muster, "-zc", "foo", "empty.gz"], folder), (0, b"0\n", b""))
        code, _, err = run([*muster, "-zc", "foo", "short.gz", "plain"], folder)
        check.true("a gzip file without its end", code == 2 and b"short.gz: it is compressed, and its end is missing" in err, str(err))
        check.equal("without -z it is bytes", run([*muster, "-c", "foo", "two.gz"], folder)[:2],
                    (0, run(["grep", "-acF", "foo", "two.gz"], folder)[1]))
        if shutil.which("zstd"):
            subprocess.run(["zstd", "-q", "plain", "-o", "text.zst"], cwd=folder, check=True)
            check.equal("zstd", run([*muster, "-zin", "foo", "text.zst"], folder), (0, expected, b""))
            with open(os.path.join(folder, "text.zst"), "rb") as file:
                data = file.read()
            with open(os.path.join(folder, "broken.zst"), "wb") as file:
                file.write(data[:40] + b"\xff\xff\xff" + data[43:])
            code, _, err = run([*muster, "-zc", "foo", "broken.zst"], folder)
            check.true("a zstd file that is damaged", code == 2 and b"broken.zst: " in err, str(err))
        else:
            print("not tested: zstd, without its command")
        # A library of that name that has nothing in it, and no other: as where it is not installed.
        os.mkdir(os.path.join(folder, "libs"))
        for name in ["libz.so.1", "libzstd.so.1"]:
            with open(os.path.join(folder, "libs", name), "wb"):
                pass
        environment = clean_environment(LD_LIBRARY_PATH=os.path.join(folder, "libs"))
        if not check.is_sanitized():
            done = subprocess.run([*muster, "-zc", "foo", "two.gz", "plain"], cwd=folder, env=environment, capture_output=True, check=False)
            check.equal("without zlib the others are searched", (done.returncode, done.stdout), (2, b"plain:1\n"))
            check.contains("without zlib", done.stderr.decode(), "two.gz: compressed with gzip, and libz.so.1 is not there; install zlib1g")
        seen = on_terminal([*muster, "foo"], environment=clean_environment(TERM="xterm"), stdin=open(os.path.join(folder, "plain"), "rb"))
        check.true("stdout is a pipe: no colour", b"\x1b" not in seen.stdout, repr(seen.stdout))
        code, out, err = run([*muster, "--colour=red", "foo", "plain"], folder)
        check.true("a colour that is none", (code, out) == (2, b"") and b"always, never or auto" in err, str(err))
        code, out, err = run(muster, folder)
        check.true("no pattern", (code, out) == (2, b"") and b"needs a PATTERN" in err, str(err))
        check.equal("-q says nothing", run([*muster, "-q", "foo", "none", "plain"], folder)[:2], (0, b""))
        check.equal("-s does not tell", run([*muster, "-s", "foo", "none"], folder), (2, b"", b""))


arguments = argparse.ArgumentParser()
arguments.add_argument("muster")
arguments.add_argument("--cases", type=int)
arguments.add_argument("--trees", default="")
arguments.add_argument("--no-trees", action="store_true")
arguments.add_argument("--devices", default="cpu")
given = arguments.parse_args()
sys.argv = [sys.argv[0], os.path.abspath(given.muster)]
check = Check()
print(f"seed {SEED}")
habits(check)
sanitized = check.is_sanitized()
at_random(check, given.cases if given.cases is not None else 20 if sanitized else 60)
on_trees(check, [os.path.abspath(tree) for tree in given.trees.split(",") if tree] or ([] if sanitized or given.no_trees else [os.path.join(ROOT, "docs")]))
check.finish()
