#!/usr/bin/env python3
"""muster scan --cluster beside grep -aF and one machine's scan: words across the borders of items and grains, several files,
every kind of output, workers that die meanwhile, and what is refused.

With --large instead: 1 GiB with three servers and six workers of unequal speed, a worker killed and another added every 2 s, and a
server killed.
"""
import os
import random
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from fleet import Fleet, until  # noqa: E402
from lib.check import Check, clean_environment  # noqa: E402

ITEM = 1024
GRAIN = 256 * ITEM
WORDS = ["needle", "Haystack", "e in the h", "zz", "x" * 70]
# A worker that is to be killed, or interrupted, takes so long for all.
SLOW_S = 30


def make_text(size, seed):
    """Lines of random letters with words at the borders of items and grains, and no newline at the end."""
    draw = random.Random(seed)
    text = bytearray(draw.choices(b"abcdehinstxz      \n", k=size))
    for _ in range(size // 2000):
        put(text, draw.randrange(size), draw.choice(WORDS))
    for border in range(ITEM, size, ITEM):
        if draw.random() < 0.2:
            put(text, border - draw.randrange(1, 70), draw.choice(WORDS))
    for border in range(GRAIN, size, GRAIN):
        put(text, border - 3, WORDS[0])
        put(text, border + ITEM - 40, WORDS[4])
    text[-6:] = b"needle"
    return bytes(text)


def put(text, at, word):
    word = word.encode()[:max(0, len(text) - at)]
    text[at:at + len(word)] = word


def grep(fleet, words):
    done = subprocess.run(["grep", "-aF", *words], cwd=fleet.folder, capture_output=True, check=False,
                          env=clean_environment(LC_ALL="C", GREP_COLORS=""))
    return done.returncode, done.stdout


def scan(check, fleet, words, *more):
    done = subprocess.run([check.muster, "scan", "--grep-status", "--cluster", fleet.url, *more, *words], cwd=fleet.folder,
                          capture_output=True, check=False, env=clean_environment(**fleet.environment), timeout=120)
    return done.returncode, done.stdout, done.stderr.decode()


def patterns():
    return [part for word in WORDS for part in ("-e", word)]


def same(check, fleet, words, *more):
    want = grep(fleet, words)
    code, out, err = scan(check, fleet, words, *more)
    first = next((i for i, (a, b) in enumerate(zip(out, want[1])) if a != b), min(len(out), len(want[1])))
    check.true(f"as grep: {words} {more}", (code, out) == want,
               f"exit {code} and {want[0]}, {len(out)} and {len(want[1])} bytes, at {first}; {err}")


def outputs_are_greps(check, fleet):
    for words in [(), ("-n",), ("-c",), ("-bo",), ("-i", "-n"), ("-w",), ("-v", "-c"), ("-l",), ("-q",), ("--color=always", "-n")]:
        same(check, fleet, [*words, *patterns(), "text"])
    same(check, fleet, ["-c", *patterns(), "text"], "--through", "--name", "mine")
    same(check, fleet, ["-x", "-c", "-e", "nothing of this", "text"])
    check.equal("nothing of the jobs is left", fleet.jobs()["jobs"], [])


def several_files(check, fleet):
    for words in [("-nH",), ("-c",), ("-l",), ("-L",), ("-o", "-b")]:
        same(check, fleet, [*words, *patterns(), "text", "empty", "small", "second"])
    same(check, fleet, ["-rn", *patterns(), "folder"])
    same(check, fleet, ["-n", *patterns(), "small"])
    same(check, fleet, ["-c", *patterns(), "empty"])
    code, out, err = scan(check, fleet, ["-c", *patterns(), "small", "not there"])
    check.equal("a file that is not there", (code, out), (2, b"small:1\n"))
    check.contains("its name", err, "not there: No such file")


def a_worker_dies(check, fleet, slow):
    with open(fleet.path("found"), "wb") as out:
        job = subprocess.Popen([check.muster, "scan", "--cluster", fleet.url, "--name", "dies", *patterns(), "text"], stdout=out,
                               stderr=subprocess.PIPE, cwd=fleet.folder, env=clean_environment(**fleet.environment))
    fleet.processes.append(job)
    fleet.until_begun("dies", 1)
    slow.kill()
    fleet.worker()
    check.equal("a worker killed", job.wait(timeout=60), 0)
    check.true("the same matches", fleet.read("found") == grep(fleet, [*patterns(), "text"])[1])


def a_scan_is_interrupted(check, fleet):
    job = fleet.start("scan", "--cluster", fleet.url, "--name", "cut", "needle", fleet.path("text"), log="cut.messages")
    until("the job", lambda: fleet.delivered("cut") is not None)
    job.send_signal(signal.SIGINT)
    check.equal("it dies of the signal", job.wait(timeout=60), -signal.SIGINT)
    check.equal("the job is gone", fleet.jobs()["jobs"], [])


def what_is_refused(check, fleet):
    for words, part in [(["needle"], "standard input is none"), (["-z", "needle", "text"], "without --search-zip"),
                        (["--devices", "cpu", "needle", "text"], "--devices is for one machine"),
                        (["--json", "needle", "text"], "--json is for one machine"), (["needle", "/dev/null"], "/dev/null is none")]:
        code, out, err = scan(check, fleet, words)
        # With --json what is wrong is said there too.
        check.equal(f"refused: {words}", (code, out[:10]), (2, b'{"status":' if words[0] == "--json" else b""))
        check.contains(f"refused: {words}", err, part)
    check.refused("without a cluster", fleet.muster("scan", "--through", "needle", fleet.path("text")), 2, "--through goes with --cluster")


def a_large_scan(check):
    with Fleet(check) as fleet:
        fleet.server(3)
        piece = make_text(4 << 20, 1)
        with open(fleet.path("text"), "wb") as file:
            for _ in range(256):
                file.write(piece)
        workers = [fleet.worker(rate=rate) for rate in (8e3, 16e3, 32e3, 64e3, 8e3, 16e3)]
        want = grep(fleet, ["-n", *patterns(), "text"])[1]
        began = time.monotonic()
        with open(fleet.path("found"), "wb") as out:
            job = subprocess.Popen([check.muster, "scan", "--cluster", fleet.url, *fleet.replicas, "--name", "large", "-n", *patterns(),
                                    "text"], stdout=out, cwd=fleet.folder, env=clean_environment(**fleet.environment))
        fleet.processes.append(job)
        fleet.until_begun("large", 1)
        killed = 0
        while job.poll() is None and time.monotonic() < began + 300:
            try:
                job.wait(2)
            except subprocess.TimeoutExpired:
                workers.pop(0).kill()
                workers.append(fleet.worker(rate=32e3))
                killed += 1
                if killed == 2:
                    fleet.servers[0].kill()
                    fleet.servers[0].start()
        check.equal("1 GiB: exit code", job.poll(), 0)
        check.true("1 GiB: the same matches", fleet.read("found") == want)
        print(f"1 GiB, {len(want)} bytes found, {killed} workers killed: {time.monotonic() - began:.1f} s")


def main():
    is_large = "--large" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--large"]
    # It is run in the fleet's folder.
    sys.argv[1:2] = [os.path.abspath(word) for word in sys.argv[1:2]]
    check = Check()
    if is_large:
        a_large_scan(check)
        check.finish()
        return
    with Fleet(check) as fleet:
        fleet.server()
        size = 3 * GRAIN + 5000 if check.is_sanitized() else 20 * GRAIN + 5000
        fleet.write("text", make_text(size, 1))
        fleet.write("second", make_text(2 * GRAIN, 2))
        fleet.write("small", "a needle in the haystack\nzip")
        fleet.write("empty", "")
        os.makedirs(fleet.path("folder/inner"))
        for i in range(40):
            fleet.write(f"folder/{'inner/' if i % 3 else ''}{i}", make_text(100 + 997 * i, i))
        worker = fleet.worker()
        outputs_are_greps(check, fleet)
        several_files(check, fleet)
        what_is_refused(check, fleet)
        worker.send_signal(signal.SIGTERM)
        worker.wait()
        slow = fleet.worker(rate=size / ITEM / SLOW_S)
        a_scan_is_interrupted(check, fleet)
        a_worker_dies(check, fleet, slow)
    check.finish()


if __name__ == "__main__":
    main()
