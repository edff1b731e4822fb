#!/usr/bin/env python3
"""muster exec --from: a list of commands over the devices, its log, resuming, and what ends it."""
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from lib.check import Check, clean_environment  # noqa: E402

SIM = '[{"items_per_s": 1e6, "count": 2}]'
TIME_LIMIT_S = 60
HEADER = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand"


class Room:
    """A folder with a list, and leases of its own."""

    def __init__(self, check, folder):
        self.check, self.folder = check, folder
        self.environment = clean_environment(MUSTER_SIM=SIM, MUSTER_LEASES=os.path.join(folder, "leases"))
        self.log = os.path.join(folder, "log")

    def list(self, *lines):
        path = os.path.join(self.folder, "list")
        with open(path, "w") as file:
            file.write("".join(line + "\n" for line in lines))
        return path

    def words(self, *words):
        return [self.check.muster, "exec", "--devices", "sim", *words]

    def run(self, *words, **options):
        done = subprocess.run(self.words(*words), env=self.environment, cwd=self.folder, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=TIME_LIMIT_S, **options)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def rows(self):
        with open(self.log) as file:
            lines = file.read().splitlines()
        self.check.equal("the log's header", lines[0], HEADER)
        return [line.split("\t") for line in lines[1:]]


def commands(check, room):
    numbers = [str(number) for number in range(1, 21)]
    path = room.list(*numbers)
    code, out, err = room.run("--from", path, "--joblog", room.log, "--", "sh", "-c", "echo a {} $MUSTER_DEVICES; echo b {}; echo c {} >&2")
    check.equal("exit code", code, 0)
    lines = out.splitlines()
    check.equal("each once", sorted(line.split()[1] for line in lines if line.startswith("a")), sorted(numbers))
    check.true("output stays together", all(lines[i + 1] == "b " + lines[i].split()[1] for i in range(0, len(lines), 2)), out)
    check.equal("stderr too", sorted(err.splitlines()), sorted(f"c {number}" for number in numbers))
    rows = room.rows()
    check.equal("log: numbers", sorted(int(row[0]) for row in rows), list(range(1, 21)))
    check.equal("log: devices", {row[1] for row in rows}, {"sim:0", "sim:1"})
    device = {line.split()[1]: line.split()[2] for line in lines if line.startswith("a")}
    check.true("log: the devices that they had", all(device[row[0]] == row[1] for row in rows), str(rows))
    check.true("log: the commands", all(f"echo a {row[0]} $MUSTER_DEVICES" in row[8] for row in rows), str(rows[0]))
    code, out, _ = room.run("--from", path, "-k", "-j", "3", "--", "sh", "-c", "sleep 0.$((20 - {})); echo {#} $MUSTER_JOB")
    check.equal("in order", (code, out), (0, "".join(f"{number} {number}\n" for number in numbers)))
    check.equal("the line comes last", room.run("--from", path, "-k", "--", "echo", "x")[1], "".join(f"x {number}\n" for number in numbers))
    code, out, _ = room.run("--from", room.list("a b", "", "it's $HOME"), "-k", "printf '%s|' {} | tr a-z A-Z; echo")
    check.equal("one word is the shell's, and lines stay whole", (code, out), (0, "A B|\nIT'S $HOME|\n"))
    code, out, _ = room.run("--from", "-", "-k", input=b"echo one; exit 0\necho two | tr t T\n")
    check.equal("lines are commands", (code, out), (0, "one\nTwo\n"))
    check.equal("a dry run", room.run("--from", room.list("1", "2"), "--dry-run", "--", "echo", "x{}y"), (0, "echo x1y\necho x2y\n", ""))
    check.equal("no lines, nothing to do", room.run("--from", room.list(), "--", "false"), (0, "", ""))


def leases(check, room):
    """All of them are leased meanwhile, and given back."""
    script = f"{check.muster} exec --list | grep -c '^sim:'"
    check.equal("both are leased", room.run("--from", room.list("1"), "--", "sh", "-c", script)[1], "2\n")
    check.equal("and given back", room.run("--list")[1], "nothing is leased\n")
    holder = subprocess.Popen([check.muster, "exec", "--devices", "sim:0", "--", "sh", "-c", "echo; read line"], env=room.environment,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    check.equal("what others have is left alone", room.run("--from", room.list("1", "2"), "--", "sh", "-c", "echo $MUSTER_DEVICES")[1],
                "sim:1\nsim:1\n")
    holder.communicate(b"\n", timeout=TIME_LIMIT_S)


def failures(check, room):
    lines = ["exit 0", "exit 3", "exit 0", "kill -9 $$", "nothing-of-this-name"]
    path = room.list(*lines)
    code, _, err = room.run("--from", path, "--joblog", room.log)
    check.equal("some failed", (code, err.splitlines()[-1]), (1, "muster: 3 of 5 commands failed"))
    ends = {int(row[0]): (row[6], row[7]) for row in room.rows()}
    check.equal("log: how they ended", ends, {1: ("0", "0"), 2: ("3", "0"), 3: ("0", "0"), 4: ("0", "9"), 5: ("127", "0")})
    code, _, err = room.run("--from", room.list("1"), "--", "/no/such/program")
    check.true("no such program", code == 1 and "cannot be run: there is no such program" in err, err)
    before = len(room.rows())
    path = room.list(*lines)
    check.equal("resume: all are in the log", room.run("--from", path, "--joblog", room.log, "--resume"), (0, "", ""))
    code, _, _ = room.run("--from", path, "--joblog", room.log, "--resume-failed")
    check.equal("resume-failed: those again", (code, len(room.rows()) - before), (1, 3))
    path = room.list(*["7"] * 50)
    code, _, err = room.run("--from", path, "--halt", "--", "sh", "-c", "exit {}")
    check.true("--halt", code == 1 and "of 2 commands failed" in err or "1 of 1 commands failed" in err, err)


def resumed(check, room):
    """A log that is cut off in a line, and one that is of another list."""
    path = room.list(*[str(number) for number in range(10)])
    command = ["--", "sh", "-c", "echo {} >> done"]
    room.run("--from", path, "--joblog", room.log, *command)
    with open(room.log) as file:
        lines = file.read().splitlines(keepends=True)
    with open(room.log, "w") as file:
        file.write("".join(lines[:5]) + lines[5][:-4])
    os.unlink(os.path.join(room.folder, "done"))
    code, out, err = room.run("--from", path, "--joblog", room.log, "--resume", *command)
    check.equal("a log that is cut off", (code, out, err), (0, "", ""))
    there = {line.split("\t")[0] for line in lines[1:5]}
    with open(os.path.join(room.folder, "done")) as file:
        check.equal("the others are run", sorted(file.read().split()), sorted(str(n - 1) for n in range(1, 11) if str(n) not in there))
    check.equal("then all are in it, once", sorted(int(row[0]) for row in room.rows()), list(range(1, 11)))
    code, _, err = room.run("--from", room.list("other"), "--joblog", room.log, "--resume", *command)
    check.true("another list", code == 1 and "command 1 of the log differs from" in err, err)
    for words, part in [(["--from", "none"], "none cannot be read"), (["--from", path, "--resume"], "--joblog"),
                        (["--from", path, "--jobs", "0"], "--jobs"), (["--halt", "--", "true"], "--halt goes with --from"),
                        (["--from", path, "--joblog", "/no/such/folder/log"], "log cannot be opened")]:
        code, out, err = room.run(*words)
        check.true(f"{words}: refused", (code, out) == (2, "") and part in err, err)


def interrupted(check, room):
    path = room.list("1", "2", "3", "4")
    # A shell that waits for a command which ends well goes on after SIGINT, so it has none.
    for number in [signal.SIGINT, signal.SIGTERM]:
        process = subprocess.Popen(room.words("--from", path, "--joblog", room.log, "--", "sh", "-c",
                                              "case {} in 1) ;; *) : >began; exec sleep 600;; esac"),
                                   env=room.environment, cwd=room.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        end = time.monotonic() + TIME_LIMIT_S
        began = os.path.join(room.folder, "began")
        while not (os.path.exists(began) and os.path.exists(room.log) and len(room.rows()) == 1) and time.monotonic() < end:
            time.sleep(0.01)
        sent = time.monotonic()
        process.send_signal(number)
        process.communicate(timeout=TIME_LIMIT_S)
        check.equal(f"{number.name}: dies of it", process.returncode, -number)
        check.true(f"{number.name}: at once", time.monotonic() - sent < 10)
        check.equal(f"{number.name}: only what ended by itself is in the log", [row[0] for row in room.rows()], ["1"])
        os.unlink(began)
        check.equal(f"{number.name}: nothing is left leased", room.run("--list")[1], "nothing is leased\n")


check = Check()
check.muster = os.path.abspath(check.muster)
for part in [commands, leases, failures, resumed, interrupted]:
    with tempfile.TemporaryDirectory() as folder:
        part(check, Room(check, folder))
check.finish()
