#!/usr/bin/env python3
"""muster exec: who gets which device, for how long, and what the command sees of it."""
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from lib.check import ROOT, TIME_LIMIT_S, Check, clean_environment  # noqa: E402

SIM = json.dumps([{"name": "leased", "count": 2, "items_per_s": 1e6, "memory": "4GiB"}])
SHELLS = 20
RUNS_OF_A_SHELL = 2
OPTIONS = {"--policy", "--min-free", "--min-cc", "--backend", "--devices", "--wait", "--from", "--joblog", "--resume", "--resume-failed",
           "--jobs", "--keep-order", "--halt", "--dry-run", "--list", "--json", "--help"}
# Says whose device it is, and stays until its input ends.
HOLD = "echo $MUSTER_LEASE; read line"
# Another on the same device at the same time finds the folder there.
ALONE = 'mkdir "$ROOM/$MUSTER_LEASE" || echo "$MUSTER_LEASE" >> "$ROOM/clashes"; ' \
        'sleep 0.01; rmdir "$ROOM/$MUSTER_LEASE"; echo "$MUSTER_LEASE" >> "$ROOM/runs"'


class Room:
    """A folder of leases of its own, and commands that hold some."""

    def __init__(self, check, path):
        self.check, self.path, self.running = check, path, []
        self.environment = {"MUSTER_SIM": SIM, "MUSTER_LEASES": os.path.join(path, "leases")}

    def run(self, *words, environment=None, **options):
        return self.check.run("exec", *words, environment={**self.environment, **(environment or {})}, **options)

    def start(self, *words, environment=None, **options):
        process = subprocess.Popen(
            [self.check.muster, "exec", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=clean_environment(**{**self.environment, **(environment or {})}), text=True, **options)
        self.running.append(process)
        return process

    def hold(self, *words, script=HOLD, **options):
        """A command that has a lease, and which."""
        process = self.start(*words, "--", "sh", "-c", script, **options)
        return process, process.stdout.readline().strip()

    def leases(self):
        return json.loads(self.run("--list", "--json").out)["leases"]

    def close(self):
        for process in self.running:
            process.kill()
            process.wait()
            for stream in [process.stdin, process.stdout, process.stderr]:
                stream.close()


def what_the_command_sees(check, room):
    run = room.run("--device", "sim:1", "--", "sh", "-c", 'echo "$MUSTER_DEVICES $MUSTER_LEASE [$CUDA_VISIBLE_DEVICES]"')
    check.equal("variables", run, (0, "sim:1 sim:1 []\n", ""))
    run = room.run("--device", "sim:1", "--", check.muster, "devices", "--json")
    check.equal("a program that uses Muster has that device alone",
                [device["id"] for device in json.loads(run.out)["devices"]], ["sim:1"])
    run = room.run("--backend", "cpu", "--", "sh", "-c", "echo $MUSTER_DEVICES")
    check.true("a processor", run.code == 0 and run.out.startswith("cpu:"), str(run))
    run = room.run("--backend", "sim", "printf", "%s|", "--json", "a b", "", "--wait", "--")
    check.equal("words behind the command are its own", run, (0, "--json|a b||--wait|--|", ""))
    run = room.run("--device", "sim:1", "--", "sh", "-c", "echo $MUSTER_SLICES",
                   environment={"MUSTER_SLICES": "sim:0=2,6;sim:1=3/5"})
    check.equal("slices of what is leased", run, (0, "sim:1=3/5\n", ""))
    run = room.run("--device", "sim:1", "--", "sh", "-c", "echo ${MUSTER_SLICES-none}",
                   environment={"MUSTER_SLICES": "sim:0=2,6"})
    check.equal("slices of another", run, (0, "none\n", ""))
    run = room.run("--backend", "sim", "--", "cat", input=b"through")
    check.equal("standard input and output", run, (0, "through", ""))
    run = room.run("--backend", "sim", "--", "sh", "-c", "kill -PIPE $$; echo lives")
    check.equal("a closed pipe ends the command as it would", (run.code, run.out), (-signal.SIGPIPE, ""))


def exit_codes(check, room):
    for code in [0, 1, 3, 77, 255]:
        check.equal(f"exit code {code}", room.run("--backend", "sim", "--", "sh", "-c", f"exit {code}").code, code)
    for number in [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV]:
        script = f'"$0" exec --backend sim -- sh -c "ulimit -c 0; kill -{int(number)} \\$\\$"; exit $?'
        done = subprocess.run(["sh", "-c", script, check.muster], env=clean_environment(**room.environment),
                              stderr=subprocess.PIPE, check=False)
        check.equal(f"ended by signal {number}, a shell says", done.returncode, 128 + number)
    check.refused("no such command", room.run("--backend", "sim", "--", "/no/such/command"), 127, "/no/such/command")
    check.refused("not in PATH", room.run("--backend", "sim", "--", "no-such-command"), 127, "no-such-command")
    plain = os.path.join(room.path, "plain")
    with open(plain, "w"):
        pass
    check.refused("not executable", room.run("--backend", "sim", "--", plain), 126, plain)
    check.equal("what could not be run has no lease", room.leases(), [])


def signals(check, room):
    for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1]:
        script = f"trap 'exit {40 + number}' {int(number)}; echo ready; while :; do read line; done"
        process, _ = room.hold("--backend", "sim", script=script)
        process.send_signal(number)
        try:
            process.communicate("go on\n")
        except BrokenPipeError:
            pass
        check.equal(f"signal {number} arrives", process.wait(), 40 + number)
        process, _ = room.hold("--backend", "sim")
        process.send_signal(number)
        check.equal(f"signal {number} ends it", process.wait(), -number)
    # A job of its own, as of a shell: a group whose starter is in none of this session does not stop.
    process, _ = room.hold("--backend", "sim", preexec_fn=os.setpgrp)
    process.send_signal(signal.SIGTSTP)
    _, status = os.waitpid(process.pid, os.WUNTRACED)
    check.true("a stop is seen by who started it", os.WIFSTOPPED(status), str(status))
    check.equal("it is leased meanwhile", len(room.leases()), 1)
    process.send_signal(signal.SIGCONT)
    process.communicate("go on\n")
    check.equal("it goes on", process.returncode, 0)


def all_leased(check, room):
    first, one = room.hold("--backend", "sim")
    second, other = room.hold("--backend", "sim")
    check.equal("two commands, two devices", {one, other}, {"sim:0", "sim:1"})
    run = room.run("--backend", "sim", "--", "true")
    check.refused("none is left", run, 3, "leased", "--wait", f"pid {first.pid}", f"pid {second.pid}", HOLD,
                  f"sim:0 leased since {time.strftime('%Y-')}", "cpu:0 refused by backends")
    run = room.run("--device", one, "--", "true")
    check.refused("of those that would do", run, 3, f"{one} leased", f"{other} refused by devices")
    run = room.run("--min-free", "1TiB", "--backend", "sim", "--", "true")
    check.refused("a lease is not why", run, 3, "no device is eligible", "needs 1.0 TiB")
    leases = {lease["device"]: lease for lease in room.leases()}
    check.equal("the list", {id: (lease["pid"], lease["uid"], lease["key"]) for id, lease in leases.items()},
                {one: (first.pid, os.getuid(), one), other: (second.pid, os.getuid(), other)})
    check.contains("the list has commands", leases[one]["command"], "sh -c")
    check.true("and times", abs(leases[one]["since"] - time.time()) < 600, str(leases[one]["since"]))
    table = room.run("--list").out
    check.contains("as a table", table, str(first.pid))
    check.equal("with titles", table.split()[0], "DEVICE")
    first.communicate("")
    check.equal("the one that ended", [lease["device"] for lease in room.leases()], [other])
    check.equal("is available", room.run("--backend", "sim", "--", "sh", "-c", "echo $MUSTER_LEASE").out, f"{one}\n")
    second.communicate("")
    check.equal("nothing is leased", room.run("--list"), (0, "nothing is leased\n", ""))


def waiting(check, room):
    holder, device = room.hold("--device", "sim:0")
    begin = time.monotonic()
    run = room.run("--device", "sim:0", "--wait", "1", "--", "true")
    check.refused("none is free", run, 3, "leased", "wait longer")
    check.true("as long as it was told to", time.monotonic() - begin >= 1, "")
    check.refused("not at all", room.run("--device", "sim:0", "--wait=0", "--", "true"), 3, "leased")
    waiters = [room.start("--device", "sim:0", "--wait", "--", "sh", "-c", "echo $MUSTER_LEASE") for _ in range(4)]
    check.equal("they wait", [waiter.poll() for waiter in waiters], [None] * 4)
    check.equal("another is not kept from them", room.run("--backend", "sim", "--wait", "echo").code, 0)
    holder.communicate("")
    check.equal("then each has it", [waiter.communicate() for waiter in waiters], [(f"{device}\n", "")] * 4)
    check.equal("and ends well", [waiter.returncode for waiter in waiters], [0] * 4)
    check.refused("nothing to wait for", room.run("--min-cc", "99.0", "--wait", "--", "true"), 3, "min_cc")
    run = room.run("--device", "sim:0", "--", check.muster, "exec", "--wait", "--", "true")
    check.refused("waiting for oneself", run, 3, "sim:0 leased to what this runs in")


def killed(check, room):
    """However a holder ends, the next one has the lease."""
    process, _ = room.hold("--device", "sim:0")
    process.kill()
    process.wait()
    check.equal("killed", room.run("--device", "sim:0", "--", "echo").code, 0)
    process, pid = room.hold("--device", "sim:0", script="echo $$; read line")
    check.equal("the command is the process that was started", int(pid), process.pid)
    os.kill(int(pid), signal.SIGKILL)
    process.wait()
    check.equal("the command killed", room.run("--device", "sim:0", "--", "echo").code, 0)

    holder, _ = room.hold("--device", "sim:0")
    waiter = room.start("--device", "sim:0", "--wait", "--", "echo")
    waiter.kill()
    waiter.wait()
    check.refused("a killed waiter frees nothing", room.run("--device", "sim:0", "--", "true"), 3, "leased")
    holder.kill()
    holder.wait()
    check.equal("and keeps nothing", room.run("--device", "sim:0", "--wait", "60", "--", "echo").code, 0)

    process, left = room.hold("--device", "sim:0", script="sleep 1000 >/dev/null 2>&1 & echo $!")
    check.equal("a command that leaves something running", process.wait(), 0)
    check.refused("which has the lease still", room.run("--device", "sim:0", "--", "true"), 3, "leased")
    os.kill(int(left), signal.SIGKILL)
    check.equal("until it ends", room.run("--device", "sim:0", "--wait", "60", "--", "echo").code, 0)


def never_two_on_one(check, room):
    """Many shells, two devices: those that wait all come to their turn, and none meets another."""
    environment = clean_environment(**room.environment, ROOM=room.path, ALONE=ALONE)
    loop = f'for i in $(seq {RUNS_OF_A_SHELL}); do "$0" exec --backend sim --wait -- sh -c "$ALONE" || exit 1; done'
    once = '"$0" exec --backend sim -- sh -c "$ALONE" 2>/dev/null'
    # As long as one of the devices is held all have to use the other.
    holder, _ = room.hold("--device", "sim:0")
    shells = [subprocess.Popen(["sh", "-c", loop, check.muster], env=environment) for _ in range(SHELLS)]
    wait_until(lambda: os.path.exists(os.path.join(room.path, "runs")))
    holder.communicate("")
    check.equal("all that wait run", [shell.wait() for shell in shells], [0] * SHELLS)
    with open(os.path.join(room.path, "runs")) as file:
        runs = file.read().split()
    check.equal("as often as they should", len(runs), SHELLS * RUNS_OF_A_SHELL)
    check.equal("on both devices", set(runs), {"sim:0", "sim:1"})
    shells = [subprocess.Popen(["sh", "-c", once, check.muster], env=environment) for _ in range(SHELLS)]
    codes = [shell.wait() for shell in shells]
    check.true("of those that do not, some", 0 in codes and set(codes) <= {0, 3}, str(codes))
    check.true("never two on one", not os.path.exists(os.path.join(room.path, "clashes")), "")


def wait_until(holds):
    begin = time.monotonic()
    while not holds() and time.monotonic() < begin + TIME_LIMIT_S:
        time.sleep(0.005)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


def mischief(check, room):
    """A user who can write to the folder cannot have our files written to, nor hold us up."""
    leases, mine = room.environment["MUSTER_LEASES"], os.path.join(room.path, "mine")
    file = os.path.join(leases, "sim:1.lease")
    check.equal("the folder is everybody's", stat.S_IMODE(os.stat(leases).st_mode), 0o1777)
    with open(mine, "w") as out:
        out.write("mine")
    spoiled = os.path.join(leases, "sim:0.lease")
    for what, make, words in [("a link", os.symlink, "it is a link"), ("a second name", os.link, "second name"),
                              ("a pipe", lambda _, to: os.mkfifo(to), "not a regular file"),
                              ("a folder", lambda _, to: os.mkdir(to), "it is a folder")]:
        if os.path.exists(spoiled):
            os.remove(spoiled)
        make(mine, spoiled)
        check.refused(what, room.run("--device", "sim:0", "--", "true"), 3, "sim:0.lease cannot be used", words)
        run = room.run("--device", "sim:0,sim:1", "--", "sh", "-c", "echo $MUSTER_LEASE")
        check.equal(f"{what}: the other device", (run.code, run.out), (0, "sim:1\n"))
        check.contains(f"{what}: is told", run.err, "muster: sim:0 is left out: ")
        check.contains(f"{what}: with what to do", run.err, f"{spoiled} cannot be used as a lease: ")
        holder, _ = room.hold("--device", "sim:1")
        waiting = room.start("--wait", str(TIME_LIMIT_S), "--device", "sim:0,sim:1", "--", "sh", "-c", "echo $MUSTER_LEASE")
        wait_until(lambda: children(waiting.pid))
        holder.communicate("")
        out, err = waiting.communicate(timeout=TIME_LIMIT_S)
        check.equal(f"{what}: the other one is waited for", (waiting.returncode, out), (0, "sim:1\n"))
        holder, _ = room.hold("--device", "sim:1")
        check.refused(f"{what}: and the other is leased", room.run("--wait", "0", "--device", "sim:0,sim:1", "--", "true"), 3,
                      "sim:1 leased", "sim:0 refused: ", words, "to remove it")
        holder.communicate("")
        check.equal(f"{what}: the list goes on", room.run("--list").code, 0)
        with open(mine) as text:
            check.equal(f"{what}: my file is as it was", text.read(), "mine")
        os.rmdir(spoiled) if what == "a folder" else os.remove(spoiled)
    old = os.umask(0o077)
    check.equal("made again", room.run("--device", "sim:1", "--", "echo").code, 0)
    os.umask(old)
    check.equal("any user may have made it, it is everybody's", stat.S_IMODE(os.stat(file).st_mode), 0o666)
    with open(file, "w") as out:
        out.write("pid x\nuid 99999999999999999999\ncommand \x1b[31m" + "A" * 5000)
    check.equal("any text will do", room.run("--device", "sim:1", "--", "echo").code, 0)
    holder, _ = room.hold("--device", "sim:1")
    with open(file, "w") as out:
        out.write("command \x1b[31m" + "\x01" * 5000)
    run = room.run("--device", "sim:1", "--", "true")
    check.refused("text cannot steer the terminal", run, 3, "sim:1 leased")
    check.true("no escapes", "\x1b" not in run.err and "\x1b" not in room.run("--list").out, run.err)
    os.remove(file)
    check.equal("a file that was taken away", room.run("--device", "sim:1", "--", "echo").code, 0)
    holder.communicate("")

    link = os.path.join(room.path, "link")
    os.symlink(leases, link)
    check.refused("a folder that is a link", room.run("echo", environment={"MUSTER_LEASES": link}), 1, "a link",
                  "MUSTER_LEASES")
    check.refused("no folder", room.run("echo", environment={"MUSTER_LEASES": mine}), 1, mine)
    check.refused("nowhere", room.run("echo", environment={"MUSTER_LEASES": "/no/such/folder"}), 1, "/no/such/folder")
    check.refused("too long a name", room.run("echo", environment={"MUSTER_LEASES": "/x" * 200}), 1, "too long")
    loose = os.path.join(room.path, "loose")
    os.mkdir(loose)
    os.chmod(loose, 0o777)
    check.refused("a folder that is not sticky", room.run("echo", environment={"MUSTER_LEASES": loose}), 1, "sticky")
    check.equal("a list of nothing makes no folder", (room.run("--list", environment={"MUSTER_LEASES": "/no/such"}).code,
                                                      os.path.exists("/no/such")), (0, False))


def users(check, room):
    """A lease holds against other users, and theirs against us."""
    if os.geteuid() != 0 or sys.version_info < (3, 9):
        print("not tested: several users, since only root can be them")
        return
    os.chmod(room.path, 0o1777)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    if subprocess.run([check.muster, "version"], stdout=subprocess.DEVNULL, check=False, **nobody).returncode != 0:
        print("not tested: several users, since others cannot run this build")
        return
    environment = {"MUSTER_LEASES": os.path.join(room.path, "shared")}
    theirs, _ = room.hold("--device", "sim:0", environment=environment, **nobody)
    ours, _ = room.hold("--device", "sim:1", environment=environment)
    run = room.run("--backend", "sim", "--", "true", environment=environment)
    check.refused("theirs holds", run, 3, f"by nobody, pid {theirs.pid}", f"pid {ours.pid}")
    run = room.run("--backend", "sim", "--", "true", environment=environment, **nobody)
    check.refused("ours holds", run, 3, f"pid {theirs.pid}", f"pid {ours.pid}")
    theirs.communicate("")
    ours.communicate("")
    check.equal("what they made is ours", room.run("--device", "sim:0", "--", "echo", environment=environment).code, 0)
    run = room.run("--device", "sim:1", "--", "echo", environment=environment, **nobody)
    check.equal("what we made is theirs", run.code, 0)
    # A file of another user that may not be opened.
    file = os.path.join(environment["MUSTER_LEASES"], "sim:0.lease")
    os.chown(file, 54321, 54321)
    os.chmod(file, 0)
    run = room.run("--device", "sim:0", "--", "true", environment=environment, **nobody)
    check.refused("mode 000", run, 3, f"{file} cannot be used as a lease: Permission denied; ask 54321 or root to remove it")
    run = room.run("--backend", "sim", "--", "sh", "-c", "echo $MUSTER_LEASE", environment=environment, **nobody)
    check.equal("mode 000: the next device", (run.code, run.out), (0, "sim:1\n"))


def mistakes(check, room):
    for words, part in [([], "needs a command"), (["--"], "needs a command"), ([""], "needs a command"),
                        (["--list", "--", "true"], "--list takes no command"), (["--json", "true"], "--json needs"),
                        (["--frobnicate", "true"], "--frobnicate"), (["--wait=", "true"], "--wait"),
                        (["--wait=soon", "true"], "'soon'"), (["--policy", "none", "true"], "'none'"),
                        (["--min-free", "much", "true"], "--min-free"), (["--device", "sim:7", "true"], "sim:7")]:
        check.refused(f"exec {words}", room.run(*words), 2, part)
    text = check.run("exec", "--help").out
    check.true("--help fits a terminal", all(len(line) <= 100 for line in text.splitlines()), text)
    check.true("--help has all options", all(f"\n  {option}" in text for option in OPTIONS), text)


def completion(check, room):
    """What the command says to the shells; tests/cli/completion.py asks them."""
    del room

    def completed(*words):
        return {line.split("\t")[0] for line in check.run("__complete", "exec", *words).out.splitlines()}

    check.equal("options", completed(""), OPTIONS | {"--"})
    check.equal("options behind options", completed("--wait", "--min-free", "1", "--li"), {"--list"})
    check.equal("backends", completed("--wait", "30", "--backend", "cp"), {"cpu"})
    check.equal("commands", completed("--wait", "--", "mkfif"), {":command 3"})
    check.equal("commands without dashes", completed("--wait", "30", "mkfif"), {":command 3"})
    check.equal("a command's own words", completed("cat", "--wai"), {":command 1"})


def main():
    check = Check()
    with tempfile.TemporaryDirectory() as path:
        room = Room(check, path)
        try:
            for test in [what_the_command_sees, exit_codes, signals, all_leased, waiting, killed, never_two_on_one,
                         mischief, users, mistakes, completion]:
                test(check, room)
        finally:
            room.close()
    check.finish()


main()
