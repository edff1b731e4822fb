#!/usr/bin/env python3
"""`muster top` and `muster serve`: what they show of other processes, to whom, and what is left of those that were killed."""
import atexit
import http.client
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time

sys.dont_write_bytecode = True
from lib.check import ROOT, TIME_LIMIT_S, Check, clean_environment  # noqa: E402

JOB = os.environ.get("LIVE_JOB", os.path.join(ROOT, "build", "dev", "tests", "cli", "live_job"))
TWO = json.dumps([{"name": "fast", "items_per_s": 1e6}, {"name": "slow", "items_per_s": 1e6}])
LOSES = json.dumps([{"name": "fast", "items_per_s": 4e6},
                    {"name": "fragile", "items_per_s": 4e6, "faults": [{"kind": "lost", "at_launch": 5}]}])


class Place:
    """A runtime folder of its own, so that other tests are not seen."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="muster-live-")
        atexit.register(shutil.rmtree, self.path, True)
        self.folder = os.path.join(self.path, "muster")
        self.environment = clean_environment(MUSTER_LIVE=self.folder)

    def files(self):
        return [os.path.join(self.folder, name) for name in os.listdir(self.folder)] if os.path.isdir(self.folder) else []

    def job(self, devices, *words):
        return subprocess.Popen([JOB, devices, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment,
                                text=True)


def end(process):
    process.stdin.close()
    process.wait(timeout=TIME_LIMIT_S)
    process.stdout.close()


def look(check, place):
    run = check.run("top", "--once", "--json", environment=place.environment)
    check.equal("top --json: exit code", run.code, 0)
    return json.loads(run.out)


def until(check, what, holds):
    """Something that comes in a moment."""
    deadline = time.monotonic() + TIME_LIMIT_S
    while not (found := holds()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return check.true(what, found)


def nobody(check):
    place = Place()
    check.equal("nobody: runtimes", look(check, place)["runtimes"], [])
    run = check.run("top", "--once", environment=place.environment)
    check.equal("nobody: text", run.out.splitlines()[1], "no process of this user has a runtime open")


def a_job_at_work(check):
    place = Place()
    job = place.job(TWO, "tasks:1000", "start:1000000000", "say:begun", "wait")
    job.stdout.readline()
    until(check, "at work: items are delivered",
          lambda: any(j["delivered"] > 0 for r in look(check, place)["runtimes"] for j in r["jobs"]))
    seen = look(check, place)["runtimes"][0]
    check.equal("at work: process", (seen["pid"], seen["program"]), (job.pid, os.path.basename(JOB)))
    check.equal("at work: tasks", (seen["tasks_submitted"], seen["tasks_ended"]), (1000, 1000))
    check.equal("at work: devices", [d["id"] for d in seen["devices"]], ["sim:0", "sim:1"])
    running = seen["jobs"][0]
    check.equal("at work: job", (running["name"], running["state"], running["items"]), ("edges", "running", 1000000000))
    check.equal("at work: lanes", [lane["device"] for lane in running["lanes"]], ["sim:0", "sim:1"])
    text = check.run("top", "--once", "--sort", "busy", environment=place.environment).out
    for pattern in [r"live_job +pid %d " % job.pid, r"^   sim:0 +ok +(\d+) %", r"#1 edges +\d+ % ", r"time: work [\d.]+ %",
                    r"sorted by busy"]:
        check.true(f"at work: top has {pattern}", re.search(pattern, text, re.M), text)
    check.true("at work: no escape sequences", "\033" not in text)
    # Killed, it is not shown, and nothing of it is kept.
    check.equal("at work: one file", len(place.files()), 1)
    job.kill()
    job.wait()
    after = look(check, place)
    check.equal("killed: shown", after["runtimes"], [])
    check.equal("killed: swept", after["swept"], 1)
    check.equal("killed: kept", place.files(), [])
    end(job)


def a_loss(check):
    place = Place()
    job = place.job(LOSES, "job:1000000", "say:done", "wait")
    job.stdout.readline()
    seen = look(check, place)["runtimes"][0]
    check.equal("loss: devices", [d["health"] for d in seen["devices"]], ["ok", "lost"])
    check.equal("loss: lanes", [lane["health"] for lane in seen["jobs"][0]["lanes"]], ["ok", "lost"])
    check.equal("loss: counted", seen["devices_lost"], 1)
    check.equal("loss: the job", seen["jobs"][0]["state"], "done")
    text = check.run("top", "--once", environment=place.environment).out
    check.true("loss: top", re.search(r"sim:1 +lost", text) and "devices lost: 1" in text, text)
    end(job)
    check.equal("loss: closed, gone", place.files(), [])


def a_child(check):
    """A child of fork() neither keeps its dead parent alive nor takes its page away."""
    place = Place()
    job = place.job(TWO, "fork", "say:here", "wait")
    child = int(job.stdout.readline())
    job.stdout.readline()
    check.equal("fork: shown", len(look(check, place)["runtimes"]), 1)
    job.kill()
    job.wait()
    os.kill(child, 0)
    check.equal("fork: the parent is gone", look(check, place)["runtimes"], [])
    check.equal("fork: nothing is kept", place.files(), [])
    end(job)


def another_user(check):
    """Root's business: another user sees nothing."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return
    place = Place()
    job = place.job(TWO, "say:here", "wait")
    job.stdout.readline()
    path = place.files()[0]
    # The folder above is opened to all, so that only Muster's own is in the way.
    os.chmod(place.path, 0o755)
    as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    for command in (["cat", path], ["ls", os.path.dirname(path)]):
        done = subprocess.run([*as_nobody, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place.environment)
        check.true(f"another user: {command[0]} is refused", done.returncode != 0 and b"Permission denied" in done.stderr,
                   repr(done))
        check.equal(f"another user: {command[0]} shows nothing", done.stdout, b"")
    with tempfile.TemporaryDirectory(prefix="muster-live-") as shared:
        command = os.path.join(shared, "muster")
        shutil.copy(check.muster, command)
        os.chmod(shared, 0o755)
        done = subprocess.run([*as_nobody, command, "top", "--once", "--json"], stdout=subprocess.PIPE, env=place.environment)
    shown = json.loads(done.stdout)["runtimes"]
    check.true("another user: top does not show it", all(r["pid"] != job.pid for r in shown), repr(shown))
    os.chmod(place.path, 0o700)
    end(job)


def on_a_terminal(check):
    place = Place()
    job = place.job(TWO, "say:here", "wait")
    job.stdout.readline()
    main, terminal = pty.openpty()
    before = termios.tcgetattr(terminal)
    top = subprocess.Popen([check.muster, "top", "--interval", "50"], stdin=terminal, stdout=terminal, stderr=terminal,
                           env=dict(place.environment, TERM="xterm", LC_ALL="C.UTF-8"),
                           preexec_fn=lambda: (os.setsid(), __import__("fcntl").ioctl(0, termios.TIOCSCTTY, 0)))
    got = b""

    def read_until(what):
        nonlocal got
        deadline = time.monotonic() + TIME_LIMIT_S
        while what not in got and time.monotonic() < deadline and select.select([main], [], [], 1)[0] is not None:
            if select.select([main], [], [], 0.05)[0]:
                got += os.read(main, 65536)
        return what in got

    check.true("terminal: sorted by id", read_until(b"sorted by id"), repr(got[:300]))
    check.true("terminal: drawn in place", read_until(b"\033["), repr(got[:300]))
    os.write(main, b"s")
    check.true("terminal: s sorts", read_until(b"sorted by busy"), repr(got[-300:]))
    check.true("terminal: the keyboard is raw", not termios.tcgetattr(terminal)[3] & termios.ECHO)
    os.write(main, b"q")
    check.equal("terminal: q ends", top.wait(timeout=TIME_LIMIT_S), 0)
    check.equal("terminal: its mode is as before", termios.tcgetattr(terminal), before)
    os.close(main)
    os.close(terminal)
    end(job)


def usage(check):
    place = Place()
    for arguments in (["--sort", "size"], ["--interval", "1"], ["--interval", "99999999999"]):
        check.equal(f"usage: {arguments}", check.run("top", *arguments, environment=place.environment).code, 2)
    run = check.run("top", environment=place.environment)
    check.true("usage: no terminal", run.code == 2 and "--once" in run.err, run.err)


class Server:
    def __init__(self, check, place, *arguments):
        self.process = subprocess.Popen([check.muster, "serve", "--json", "--listen", "127.0.0.1:0", *arguments],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place.environment, text=True)
        line = self.process.stdout.readline()
        self.where = json.loads(line) if line else {"listen": "127.0.0.1:1", "token": "", "address": ""}
        self.host, self.port = self.where["listen"].rsplit(":", 1)

    def ask(self, path, method="GET", token=True, **headers):
        connection = http.client.HTTPConnection(self.host, int(self.port), timeout=TIME_LIMIT_S)
        address = path + (("?token=" + self.where["token"]) if token is True else ("?token=" + token) if token else "")
        connection.request(method, address, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body, answer.headers

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=TIME_LIMIT_S)
        self.process.stdout.close()
        self.process.stderr.close()


def has_library():
    return subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libmicrohttpd.so.12')"],
                          stderr=subprocess.DEVNULL).returncode == 0


def without_the_library(check, place):
    """The message names the package. Where the library is there it is hidden, which takes root."""
    command = [check.muster, "serve", "--listen", "127.0.0.1:0"]
    if has_library():
        hide = 'for f in $(ldconfig -p | sed -n "s/.*libmicrohttpd.so.12 .*=> //p"); do mount --bind /dev/null "$f"; done; exec "$@"'
        command = ["unshare", "-m", "sh", "-c", hide, "sh", *command]
        if subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode != 0:
            return
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=place.environment, text=True,
                          timeout=TIME_LIMIT_S)
    check.true("no library: refused, and the package is named", done.returncode == 1 and "libmicrohttpd12" in done.stderr,
               repr(done))


METRIC = re.compile(r'^([a-z_]+)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? (-?[0-9.e+-]+)$')


def check_metrics(check, text):
    kinds = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            check.true(f"metrics: {name} once", name not in kinds)
            check.equal(f"metrics: {name} is named after its kind", kind == "counter", name.endswith("_total"))
            kinds[name] = kind
        elif not line.startswith("# HELP "):
            found = METRIC.match(line)
            check.true(f"metrics: {line}", found and found[1] in kinds)
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        check.equal("metrics: promtool", (done.returncode, done.stdout), (0, ""))


def serve_requests(check):
    place = Place()
    without_the_library(check, place)
    if not has_library():
        return
    job = place.job(LOSES, "job:1000000", "say:done", "start:1000000000", "wait")
    job.stdout.readline()
    server = Server(check, place)
    check.true("serve: the token is in the address", f"/?token={server.where['token']}" in server.where["address"])
    for path in ("/", "/json", "/metrics", "/nothing"):
        check.equal(f"serve: {path} without the token", server.ask(path, token=False)[0], 401)
        check.equal(f"serve: {path} with another", server.ask(path, token=server.where["token"][:-1] + "x")[0], 401)
        check.equal(f"serve: {path} with half of it", server.ask(path, token=server.where["token"][:16])[0], 401)
    bearer = {"Authorization": "Bearer " + server.where["token"]}
    check.equal("serve: as a header", server.ask("/json", token=False, **bearer)[0], 200)
    check.equal("serve: another header", server.ask("/json", token=False, Authorization="Bearer x")[0], 401)
    for host, status in (("evil.example", 421), ("evil.example:80", 421), ("127.0.0.1.evil.example", 421), ("", 421),
                         (f"localhost:{server.port}", 200), ("[::1]:1", 200), ("10.1.2.3", 200), ("127.0.0.1:x", 421)):
        check.equal(f"serve: Host {host!r}", server.ask("/json", Host=host)[0], status)
    check.equal("serve: POST", server.ask("/json", method="POST")[0], 405)
    check.equal("serve: HEAD", server.ask("/json", method="HEAD")[:2], (200, ""))
    check.equal("serve: another path", server.ask("/etc/passwd")[0], 404)
    status, body, headers = server.ask("/json")
    seen = json.loads(body)["runtimes"][0]
    check.equal("serve: the same as top", [d["health"] for d in seen["devices"]], ["ok", "lost"])
    check.equal("serve: never stored", (headers["Cache-Control"], headers["Referrer-Policy"]), ("no-store", "no-referrer"))
    check.true("serve: not for other sites", "Access-Control-Allow-Origin" not in headers)
    status, body, headers = server.ask("/metrics")
    check.equal("metrics: type", headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
    check_metrics(check, body)
    check.true("metrics: the loss", re.search(r'muster_device_lost\{.*device="sim:1"\} 1\n', body), body[-500:])
    check.true("metrics: the running job", 'muster_job_items{' in body)
    status, body, headers = server.ask("/")
    nonce = re.search(r"script-src 'nonce-([0-9a-f]+)'", headers["Content-Security-Policy"])
    check.true("page: only its own script", nonce and f'<script nonce="{nonce[1]}">' in body and "@NONCE@" not in body)
    outside = [address for address in re.findall(r"https?://[^\s\"'<>)]+", body) if address != "http://www.w3.org/2000/svg"]
    check.equal("page: nothing from outside", outside, [])
    for rubbish in (b"\0" * 100000, b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"/" * 70000, b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"):
        with socket.create_connection((server.host, int(server.port)), timeout=TIME_LIMIT_S) as raw:
            try:
                raw.sendall(rubbish)
                raw.shutdown(socket.SHUT_WR)
                raw.recv(65536)
            except OSError:
                pass
    check.equal("serve: after rubbish", server.ask("/json")[0], 200)
    server.end()
    end(job)


def serve_options(check):
    place = Place()
    if not has_library():
        return
    for address in ("127.0.0.1", "x:y", ":9464", "127.0.0.1:99999", "[::1", "a:b:1"):
        check.equal(f"listen: {address}", check.run("serve", "--listen", address, environment=place.environment).code, 2)
    path = os.path.join(place.path, "token")
    first = Server(check, place, "--token-file", path, "--host", "watch.example,other.example")
    check.equal("token file: made, for the user alone", os.stat(path).st_mode & 0o777, 0o600)
    check.equal("token file: what it has", open(path).read(), first.where["token"] + "\n")
    for host, status in (("watch.example:1", 200), ("OTHER.example", 200), ("watch.example.evil", 421)):
        check.equal(f"names: {host}", first.ask("/json", Host=host)[0], status)
    run = check.run("serve", "--listen", first.where["listen"], environment=place.environment)
    check.true("listen: in use", run.code == 1 and "--listen 127.0.0.1:0" in run.err, run.err)
    first.end()
    second = Server(check, place, "--token-file", path)
    check.equal("token file: read again", second.where["token"], first.where["token"])
    second.end()
    for mode, text in ((0o644, first.where["token"]), (0o600, "short"), (0o600, "with a space in it, too")):
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        run = check.run("serve", "--listen", "127.0.0.1:0", "--token-file", path, environment=place.environment)
        check.true(f"token file: {mode:o} {text!r}", run.code == 1 and "fix:" in run.err and text not in run.err, run.err)


def main():
    signal.alarm(2 * TIME_LIMIT_S)
    check = Check()
    for test in (nobody, a_job_at_work, a_loss, a_child, another_user, on_a_terminal, usage, serve_requests, serve_options):
        test(check)
    check.finish()


if __name__ == "__main__":
    main()
