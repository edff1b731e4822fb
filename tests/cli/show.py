"""Progress, reports, traces and pictures of commands that run jobs (cli/show.h), through show_program: on terminals of several
kinds, and without one."""
import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

from lib.check import TIME_LIMIT_S, Check, Run, clean_environment
from lib.screen import on_terminal, set_size

PROGRAM = sys.argv[1]
# Two devices of which the first does three quarters; an item takes 0.25 us on both together.
TWO = '[{"name":"fast","items_per_s":3e6},{"name":"slow","items_per_s":1e6}]'
LOST = '[{"items_per_s":4e6,"faults":[{"kind":"lost","at_ms":200}]}]'
HALF_LOST = '[{"items_per_s":2e6},{"items_per_s":2e6,"faults":[{"kind":"lost","at_launch":2}]}]'
MANY = '[{"count":20,"items_per_s":2e5}]'
ITEMS_PER_S = 4000000
# Before that a run draws nothing.
FIRST_FRAME_S = 0.3
# Enough for a dozen frames.
LONG = ITEMS_PER_S * 5 // 4


def environment(**extra):
    base = {"MUSTER_DEVICES": "sim", "MUSTER_SIM": TWO, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    base.update(extra)
    kept = clean_environment(**base)
    if "NO_COLOR" not in extra:
        kept.pop("NO_COLOR", None)
    return kept


def shown(*arguments, columns=80, rows=24, at=None, before="", typed=b"", **extra):
    return on_terminal([PROGRAM, *arguments], columns, rows, environment(**extra), before=before, at=at, typed=typed)


def shown_until(enough, *arguments, **options):
    """A run of which enough was seen. A busy machine draws and reads fewer frames: then there are more items. The number of
    items comes first."""
    for items in (LONG, 4 * LONG, 16 * LONG):
        seen = shown("--items", str(items), *arguments, **options)
        if enough(seen):
            break
    return items, seen


def plain(*arguments, **extra):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, env=environment(**extra), timeout=TIME_LIMIT_S)
    return Run(done.returncode, done.stdout.decode(), done.stderr.decode())


def frames(seen):
    """Screens with the display on them."""
    return [screen for screen, _ in timed_frames(seen)]


def timed_frames(seen):
    """The same, each with the time at which it was read, in seconds from before the program was started."""
    report = ["DEVICE", "before a device's", "of this process"]
    texts = [(screen, at, "".join(screen)) for screen, at in zip(seen.screens, seen.times)]
    return [(screen, at) for screen, at, text in texts if " %" in text and not any(part in text for part in report)]


def percents(seen):
    """Of the frames that are whole."""
    return [float(frame[2].split("%")[0]) for frame in frames(seen) if len(frame) == 5]


def block(check):
    items, seen = shown_until(lambda seen: len(set(percents(seen))) >= 3, before="$ show\r\n")
    check.equal("block: exit code", seen.code, 0)
    check.equal("block: what the terminal does not know", seen.screen.unknown, [])
    check.true("block: nothing at first", seen.times[0] >= FIRST_FRAME_S, seen.times[:1])
    full = [frame for frame in frames(seen) if len(frame) == 5]
    check.true("block: drawn several times", len(full) >= 3, len(full))
    frame = full[len(full) // 2]
    check.equal("block: what was there stays", frame[0], "$ show")
    check.equal("block: title", frame[1], "time over nothing")
    for part in ["%", "\u2501", f" of {items:,}", "/s", " left"]:
        check.contains("block: the whole", frame[2], part)
    for line, device in zip(frame[3:], ["sim:0", "sim:1"]):
        for part in [device, "\u2501", " %", "/s"]:
            check.contains("block: a device", line, part)
    check.true("block: in place", seen.screen.scrolled == 0 and seen.screen.row < 20, seen.screen.row)
    check.true("block: erased before the report", seen.final[1].startswith("DEVICE"), seen.final)
    check.true("block: nothing of it left", not any("\u2501" in line or "left" in line for line in seen.final), seen.final)
    check.contains("block: colours", seen.output, "\x1b[32m")
    for sequence in ["\x1b[?25l", "\x1b[?1049h", "\x1b[2J"]:
        check.true("block: modes are left alone", sequence not in seen.output, sequence)
    writes = seen.output.count("time over nothing")
    check.true("block: at most ten a second", writes <= 10 * seen.times[-1] + 1, f"{writes} in {seen.times[-1]} s")
    seen_percents = percents(seen)
    check.true("block: goes up", seen_percents == sorted(seen_percents) and seen_percents[0] < seen_percents[-1], seen_percents)


def at_the_bottom(check):
    _, seen = shown_until(lambda seen: len(frames(seen)) >= 3, rows=8, before="\r\n" * 7 + "$ show\r\n")
    check.true("bottom: in place after scrolling", seen.screen.scrolled < 20, seen.screen.scrolled)
    check.true("bottom: nothing left over", "left" not in "".join(seen.final), seen.final)


def without_colour(check):
    _, seen = shown_until(lambda seen: any(len(frame) == 4 for frame in frames(seen)), NO_COLOR="1")
    check.true("NO_COLOR: none", "\x1b[3" not in seen.output and "\x1b[1m" not in seen.output and "\x1b[2m" not in seen.output)
    check.true("NO_COLOR: a block all the same", any(len(frame) == 4 for frame in frames(seen)))


def ascii_alone(check):
    def has_bar(seen):
        return any("#####" in "".join(frame) and "....." in "".join(frame) for frame in frames(seen))

    _, seen = shown_until(has_bar, LC_ALL="C")
    check.true("ASCII: nothing else", seen.output.isascii())
    check.true("ASCII: a bar", has_bar(seen))


def narrow(check):
    def has_rate(seen):
        return any("/s" in frame[0] and " left" in frame[0] for frame in frames(seen))

    _, seen = shown_until(has_rate, columns=40, rows=10)
    lines = frames(seen)
    check.true("narrow: one line", lines and all(len(frame) == 1 for frame in lines), lines)
    check.true("narrow: rate and time", has_rate(seen), lines[:2])


def dumb(check):
    def has_shares(seen):
        return any("sim:0 " in frame[0] and "sim:1 " in frame[0] for frame in frames(seen))

    _, seen = shown_until(has_shares, TERM="dumb")
    lines = frames(seen)
    check.true("dumb: no sequences", "\x1b" not in seen.output)
    check.true("dumb: one line", lines and all(len(frame) == 1 for frame in lines), lines[:2])
    check.true("dumb: shares too", has_shares(seen), lines[:2])
    check.true("dumb: erased", seen.final[0].startswith("DEVICE"), seen.final[:2])


def many_devices(check):
    def has_rest(seen):
        return any("and 15 more devices" in frame[-1] for frame in frames(seen))

    _, seen = shown_until(has_rest, rows=10, MUSTER_SIM=MANY)
    check.true("many devices: as many as fit", has_rest(seen), frames(seen)[-1:])
    check.equal("many devices: no scrolling but by the report", max(len(frame) for frame in frames(seen)), 8)


def short(check):
    """A run that is over before the first frame is due shows only its report. On a busy machine a short job can take longer, so
    what is checked is when frames come, not that there are none."""
    seen = shown("--items", str(ITEMS_PER_S // 5))
    early = [(screen, at) for screen, at in timed_frames(seen) if at < FIRST_FRAME_S]
    check.equal("short: nothing but the report", early, [])
    check.true("short: the report", seen.final[0].startswith("DEVICE"), seen.final)


def quiet(check):
    seen = shown("--items", str(LONG), "--quiet")
    check.equal("quiet: silent", (seen.code, seen.output), (0, ""))


def no_terminal(check):
    check.equal("no terminal: nothing that was not asked for", plain("--items", "1000"), Run(0, "", ""))
    run = plain("--items", str(LONG), "--report")
    check.true("no terminal: no progress", "\x1b" not in run.err and "\r" not in run.err and "left" not in run.err, run.err)
    check.true("no terminal: the report", run.err.startswith("DEVICE") and not run.out, run.err)
    check.equal("no terminal, quiet", plain("--items", "1000", "-q"), Run(0, "", ""))


def resized(check):
    # On a busy machine there may be too few frames before or after: then there are more items.
    for times in (1, 4, 16):
        state = {"done": False}

        def narrow(process, descriptor, screen, elapsed):
            if elapsed > 0.6 * times and not state["done"]:
                state["done"] = True
                set_size(descriptor, 40, 24)

        seen = shown("--items", str(LONG * times), columns=80, at=narrow)
        if "\x1b[4A" in seen.output and "\x1b[1A" in seen.output:
            break
    check.equal("resized: exit code", seen.code, 0)
    check.true("resized: the block, then a line", "\x1b[4A" in seen.output and "\x1b[1A" in seen.output)
    # The terminal has wrapped each line of 77 columns into two.
    check.true("resized: goes back over what was wrapped", "\x1b[7A" in seen.output or "\x1b[8A" in seen.output,
               [part[:4] for part in seen.output.split("\x1b") if part[2:3] == "A"])


def interrupted(check):
    """Between two frames. The job would take much longer than the terminal is watched."""
    sent = []

    def interrupt(process, descriptor, screen, elapsed):
        if elapsed > 0.7 and screen.column == 0 and not sent:
            sent.append(elapsed)
            os.write(descriptor, b"\x03")

    seen = shown("--items", str(200 * ITEMS_PER_S), at=interrupt)
    check.equal("interrupted: by the signal", (len(sent), seen.pid_signal), (1, signal.SIGINT))
    check.true("interrupted: at once, without a report", "DEVICE" not in seen.output, seen.final)
    check.true("interrupted: the cursor is at the beginning of a line", seen.screen.column in (0, 2), seen.screen.column)


def message(check):
    """A message while the display stands there: it is erased first, and the message is whole."""
    _, seen = shown_until(lambda seen: len(frames(seen)) > 2, "--timeline", "/dev/full")
    check.equal("message: exit code", seen.code, 1)
    check.true("message: the display was there", len(frames(seen)) > 2)
    check.true("message: at the top, whole", seen.final[0].startswith("muster: ") and "/dev/full" in seen.final[0], seen.final)
    check.true("message: then the report", any(line.startswith("DEVICE") for line in seen.final), seen.final)
    check.true("message: nothing left of the display", not any("\u2501" in line for line in seen.final), seen.final)


def stopped_terminal(check, folder):
    """Ctrl-S before the first frame: the job ends all the same, though nobody takes what is drawn."""
    done = os.path.join(folder, "stopped.bin")
    source = os.path.join(folder, "stopped.in")
    with open(source, "wb") as file:
        file.truncate(64 * 2000000)
    state = {}

    def stop(process, descriptor, screen, elapsed):
        if "written" not in state and os.path.exists(done):
            state["written"] = elapsed
        if "written" in state and elapsed > state["written"] + 0.3 and "resumed" not in state:
            state["resumed"] = elapsed
            os.write(descriptor, b"\x11")

    seen = shown("--in", source, "--out", done, at=stop, typed=b"\x13", MUSTER_SIM='[{"items_per_s":2e6}]')
    check.true("stopped: the work was done meanwhile", "written" in state and "resumed" in state, state)
    check.equal("stopped: exit code", seen.code, 0)
    check.true("stopped: the report comes when it may", any(line.startswith("DEVICE") for line in seen.final), seen.final)


def full_pipe(check, folder):
    """stderr is a pipe that nobody reads and that is full: the output is there all the same."""
    done, source = os.path.join(folder, "pipe.bin"), os.path.join(folder, "pipe.in")
    with open(source, "wb") as file:
        file.write(os.urandom(64 * 1000))
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        pass
    fcntl.fcntl(writer, fcntl.F_SETFL, 0)
    process = subprocess.Popen([PROGRAM, "--in", source, "--out", done], stderr=writer, env=environment())
    os.close(writer)
    until = time.monotonic() + TIME_LIMIT_S
    while not os.path.exists(done) and time.monotonic() < until:
        time.sleep(0.01)
    check.true("full pipe: the output is there", os.path.exists(done) and open(done, "rb").read() == open(source, "rb").read())
    os.close(reader)
    check.equal("full pipe: then closed, and the work counts", process.wait(timeout=TIME_LIMIT_S), 0)


def text_reports(check, folder):
    run = plain("--items", "1000000", "--report")
    lines = run.err.splitlines()
    check.equal("table: columns", lines[0].split(), ["DEVICE", "ITEMS", "SHARE", "UNITS", "BUSY", "RATE", "RETRIES", "LATE"])
    check.equal("table: devices", [line.split()[0] for line in lines[1:3]], ["sim:0", "sim:1"])
    names = [line[:11].strip() for line in lines[4:]]
    check.equal("lines: names", names, ["time", "work", "start-up", "transfer", "overhead", "starved", "tail", "memory"])
    check.true("lines: within 80 columns", all(len(line) <= 80 for line in lines), run.err)

    # It is lost at its second launch, which a busy machine may come to late.
    for items in (2000000, 8000000, 32000000):
        run = plain("--items", str(items), "--report", MUSTER_SIM=HALF_LOST)
        if "HEALTH" in run.err:
            break
    check.equal("a device lost: exit code", run.code, 0)
    check.contains("a device lost: health is shown", run.err.splitlines()[0], "HEALTH")
    check.true("a device lost: which", any(line.startswith("sim:1") and line.endswith("lost") for line in run.err.splitlines()), run.err)

    run = plain("--items", "4000000", "--report", MUSTER_SIM=LOST)
    check.equal("failed: exit code", run.code, 1)
    check.contains("failed: the report", run.err, "until it failed")
    check.true("failed: the message comes last", run.err.splitlines()[-1].startswith(("muster: ", "  fix: ")), run.err)

    path, out = os.path.join(folder, "in.bin"), os.path.join(folder, "out.bin")
    with open(path, "wb") as file:
        file.write(os.urandom(64 * 50000))
    run = plain("--in", path, "--out", out, "--report")
    check.contains("bytes: a column", run.err.splitlines()[0], "BYTES")
    for part in ["input         3.1 MiB", "output        3.1 MiB", "copied by the CPU"]:
        check.contains("files: told", run.err, part)


def json_reports(check, folder):
    run = plain("--items", "300000", "--jobs", "3", "--json")
    check.equal("json: stderr", run.err, "")
    report = json.loads(run.out)
    check.equal("json: all jobs", (report["status"], report["jobs"], report["items"]), ("MUSTER_OK", 3, 900000))
    check.equal("json: devices have it all", sum(device["items"] for device in report["devices"]), 900000)
    check.equal("json: members of a device", sorted(report["devices"][0]),
                ["busy_ns", "faster_without", "health", "id", "items", "items_per_s", "late", "retries", "units"])
    parts = sum(report[part + "_ns"] for part in ["bound", "startup", "transfer", "overhead", "starved", "tail"])
    check.true("json: parts are the makespan", abs(parts - report["makespan_ns"]) < 50, (parts, report["makespan_ns"]))
    path = os.path.join(folder, "in.bin")
    with open(path, "wb") as file:
        file.write(os.urandom(64 * 1000))
    run = subprocess.run([PROGRAM, "--in", path, "--out", "-", "--json"], capture_output=True, env=environment(), timeout=TIME_LIMIT_S)
    check.equal("json: beside the data", run.stdout, open(path, "rb").read())
    report = json.loads(run.stderr)
    check.equal("json: files", [(file["role"], file["bytes"]) for file in report["files"]], [("input", 64000), ("output", 64000)])
    run = plain("--items", "4000000", "--json", MUSTER_SIM=LOST)
    check.equal("json: failed", run.code, 1)
    check.true("json: what failed", json.loads(run.out)["status"] != "MUSTER_OK" and json.loads(run.out)["failed"], run.out)
    items, seen = shown_until(lambda seen: len(frames(seen)) > 2, "--json")
    check.true("json: progress all the same", len(frames(seen)) > 2)
    check.equal("json: then an empty terminal", seen.final, [])
    check.equal("json: on stdout", json.loads(seen.stdout)["items"], items)


def pictures(check, folder):
    trace, picture = os.path.join(folder, "t.json"), os.path.join(folder, "t.svg")
    run = plain("--items", "1000000", "--jobs", "2", "--trace", trace, "--timeline", picture)
    check.equal("pictures: exit code", run.code, 0)
    events = json.load(open(trace))["traceEvents"]
    check.true("trace: units", sum(event.get("cat") == "unit" or "unit" in str(event.get("args", "")) for event in events) > 10)
    text = open(picture).read()
    xml.fromstring(text)
    for part in ["sim:0", "sim:1", "fast", "slow", "time over nothing", "2,000,000 items", "done"]:
        check.contains("timeline: says", text, part)
    check.true("timeline: no bound of two jobs", ">bound<" not in text)
    devices = '[{"name":"GPU","count":2,"items_per_s":1e6,"h2d_bytes_per_s":4e7,"d2h_bytes_per_s":3e7}]'
    # On a busy machine one of the devices may have begun too late for any of few items.
    for items in (40000, 400000, 4000000):
        run = plain("pipeline", "--items", str(items), "--timeline", picture, MUSTER_SIM=devices)
        check.equal("stages: exit code", run.code, 0)
        text = open(picture).read()
        if text.count(">stream 1<") == 2:
            break
    xml.fromstring(text)
    for part in ["stream 1", "stream 2", "stream 3", ">up<", "&lt;work&gt; &amp; more", ">down<", ">bound<", f"{items:,} items"]:
        check.contains("stages: drawn", text, part)
    check.equal("stages: of both devices", text.count(">stream 1<"), 2)

    other = os.path.join(folder, "in.bin")
    with open(other, "wb") as file:
        file.write(bytes(64))
    for arguments, words in [(["--trace", "-"], "not '-'"), (["--trace", picture, "--timeline", picture], "two files"),
                             (["--in", other, "--out", "-", "--timeline", other], "would overwrite"),
                             (["--trace", os.path.join(folder, "no", "where")], "where")]:
        run = plain("--items", "10", *arguments)
        check.true(f"refused: {arguments}", run.code != 0 and words in run.err and not run.out, run)
    check.equal("refused: the input is whole", open(other, "rb").read(), bytes(64))
    xml.fromstring(open(picture).read())
    leftovers = [name for name in os.listdir(folder) if name.startswith(".") or "tmp" in name]
    check.equal("nothing half done", leftovers, [])


CASES = [block, at_the_bottom, without_colour, ascii_alone, narrow, dumb, many_devices, short, quiet, no_terminal, resized, interrupted,
         message, stopped_terminal, full_pipe, text_reports, json_reports, pictures]


def start(case):
    """In a process of its own, since most of the time is spent waiting for simulated devices."""
    child = os.fork()
    if child == 0:
        check = Check()
        with tempfile.TemporaryDirectory() as folder:
            case(*(check, folder)[:case.__code__.co_argcount])
        print(f"{case.__name__}: ", end="")
        check.finish()
    return child


def main():
    check = Check()
    children = [start(case) for case in CASES]
    for case, child in zip(CASES, children):
        check.equal(case.__name__, os.waitpid(child, 0)[1], 0)
    check.finish()


main()
