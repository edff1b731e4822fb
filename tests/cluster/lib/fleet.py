"""A cluster on this machine: nats-servers, workers and submitters as processes, which a test may kill.

    with Fleet(check) as fleet:
        fleet.server()
        fleet.worker(rate=1e6)
        done = fleet.map("out")
"""
import array
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "cli"))
from lib.check import Run, clean_environment  # noqa: E402

KERNEL = """
MUSTER_KERNEL void inv(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out, uint32_t by)
{ out[i] = in[i] * by + 7u; }
"""
ITEMS = 400000
WAIT_S = 60


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def until(what, holds, seconds=WAIT_S):
    """Looks again and again, for a bounded time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.02)
    raise TimeoutError(what)


class Network:
    """A network of its own (a namespace) for one worker, which can be cut and joined. Needs root and `ip`."""

    def __init__(self):
        number = os.getpid() % 16384
        self.name = f"muster-{os.getpid()}"
        self.here, there = f"10.213.{number // 64}.{number % 64 * 4 + 1}", f"10.213.{number // 64}.{number % 64 * 4 + 2}"
        self.made = False
        try:
            self.ip("netns", "add", self.name)
            self.made = True
            self.ip("link", "add", f"mus{number}", "type", "veth", "peer", "name", "out", "netns", self.name)
            self.ip("address", "add", f"{self.here}/30", "dev", f"mus{number}")
            self.ip("link", "set", f"mus{number}", "up")
            self.ip("-n", self.name, "address", "add", f"{there}/30", "dev", "out")
            self.join()
            self.ip("netns", "exec", self.name, "true")
        except (OSError, subprocess.SubprocessError):
            self.remove()
            raise

    @staticmethod
    def make():
        """None, and a message, where this machine gives none."""
        try:
            return Network()
        except (OSError, subprocess.SubprocessError) as error:
            print("left out: no network namespace here:", (getattr(error, "stderr", None) or str(error)).strip())
            return None

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=30, check=True)

    def cut(self):
        self.ip("-n", self.name, "link", "set", "out", "down")

    def join(self):
        self.ip("-n", self.name, "link", "set", "out", "up")

    def remove(self):
        if self.made:
            self.ip("netns", "del", self.name)
            self.made = False


class Disk:
    """A small file system of its own below `folder`. Needs root."""

    def __init__(self, folder, size):
        self.path = os.path.join(folder, "disk")
        os.mkdir(self.path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", self.path], stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, text=True, timeout=30, check=True)

    @staticmethod
    def make(folder, size):
        """None, and a message, where this machine gives none."""
        try:
            return Disk(folder, size)
        except (OSError, subprocess.SubprocessError) as error:
            print("left out: no small disk here:", (getattr(error, "stderr", None) or str(error)).strip())
            return None

    def remove(self):
        subprocess.run(["umount", "-l", self.path], timeout=30, check=True)


class Server:
    """One nats-server, of several or alone; its store outlives it."""

    def __init__(self, folder, name, port, route=0, routes=(), limit="1GB", host="127.0.0.1"):
        self.port, self.host, self.process = port, host, None
        self.log = os.path.join(folder, name + ".log")
        self.config = os.path.join(folder, name + ".conf")
        text = (f'server_name: {name}\nlisten: "{host}:{port}"\n'
                f'jetstream {{ store_dir: "{folder}/{name}", max_mem: 64MB, max_file: {limit} }}\n')
        if routes:
            peers = ", ".join(f'"nats-route://127.0.0.1:{other}"' for other in routes)
            text += f'cluster {{ name: test, listen: "127.0.0.1:{route}", routes: [{peers}] }}\n'
        with open(self.config, "w", encoding="ascii") as file:
            file.write(text)

    def start(self):
        with open(self.log, "a", encoding="ascii") as log:
            self.process = subprocess.Popen(["nats-server", "-c", self.config], stdout=log, stderr=log)

    def wait(self):
        def answers():
            try:
                socket.create_connection((self.host, self.port), 1).close()
                return True
            except OSError:
                return False
        until("a server that answers", answers)

    def kill(self, number=signal.SIGKILL):
        if self.process:
            self.process.send_signal(signal.SIGCONT)
            self.process.send_signal(number)
            self.process.wait()
            self.process = None


class Fleet:
    def __init__(self, check):
        self.check = check
        self.folder = tempfile.mkdtemp(prefix="muster-fleet-")
        self.servers, self.processes, self.replicas, self.url = [], [], [], None
        self.network = None
        self.environment = {"MUSTER_CACHE": os.environ.get("MUSTER_CACHE", os.path.join(self.folder, "cache")),
                            "MUSTER_ISOLATE": ""}
        # For a command that does not lie beside it.
        if "MUSTER_CLUSTER_LIBRARY" in os.environ:
            self.environment["MUSTER_CLUSTER_LIBRARY"] = os.environ["MUSTER_CLUSTER_LIBRARY"]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.tell()
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr):
                if pipe:
                    pipe.close()
        for server in self.servers:
            server.kill()
        if self.network:
            self.network.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tell(self):
        """What all processes said, of a test that came to no end."""
        for name in sorted(os.listdir(self.folder)):
            if name == "workers" or name.endswith(".messages"):
                print(f"-- {name}\n{self.messages(name)[-3000:]}")
        print("-- processes:", [(process.pid, process.poll()) for process in self.processes], self.jobs())

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    # Servers.

    def server(self, count=1, limit="1GB", network=None):
        """With a network that can be cut they listen where a worker in it can reach them."""
        self.network = network
        host = network.here if network else "127.0.0.1"
        ports = [free_port() for _ in range(2 * count)]
        for i in range(count):
            self.servers.append(Server(self.folder, f"s{i}", ports[i], ports[count + i],
                                       ports[count:] if count > 1 else (), limit, host))
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.wait()
        self.url = ",".join(f"nats://{host}:{server.port}" for server in self.servers)
        self.replicas = ["--replicas", "3"] if count == 3 else []
        if count > 1:
            until("a leader", lambda: self.muster("jobs", "--cluster", self.url, *self.replicas).code == 0)

    def store(self, subject, content):
        """As any client of the servers can."""
        with socket.create_connection((self.servers[0].host, self.servers[0].port), 5) as link:
            link.recv(4096)
            link.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nPUB ' + subject.encode() + b" %d\r\n" % len(content)
                         + content + b"\r\nPING\r\n")
            until("the server's word", lambda: b"PONG" in link.recv(4096), 5)

    # Muster.

    def input(self, items=ITEMS, seed=1):
        """Input and kernel, and what one machine makes of them."""
        numbers = array.array("I", random.Random(seed).randbytes(4 * items))
        self.write("in", numbers.tobytes())
        self.write("inv.c", KERNEL)
        run = self.muster("map", "-k", self.path("inv.c"), "-i", self.path("in"), "-o", self.path("want"), "--arg", "by=3", "-q",
                          "--devices", "cpu")
        self.check.equal("one machine's result", (run.code, run.err), (0, ""))
        self.want = self.read("want")

    def muster(self, *words, environment=None):
        done = subprocess.run([self.check.muster, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=WAIT_S * 2,
                              env=clean_environment(**{**self.environment, **(environment or {})}), check=False)
        return Run(done.returncode, done.stdout.decode(), done.stderr.decode())

    def start(self, *words, environment=None, log=None, before=(), file_limit=None):
        """A process of the command; its messages go to the file `log`. `file_limit`: no file of its becomes larger."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
        with open(self.path(log or "log"), "ab") as errors:
            process = subprocess.Popen([*before, self.check.muster, *words], stdout=subprocess.DEVNULL, stderr=errors,
                                       env=clean_environment(**{**self.environment, **(environment or {})}),
                                       preexec_fn=limit if file_limit else None)
        self.processes.append(process)
        return process

    def worker(self, rate=None, faults="", words=(), environment=None, apart=False, file_limit=None):
        """With simulated devices where a rate is given, which take their time and compute what is right; `apart`: in the
        network that can be cut."""
        more = dict(environment or {})
        devices = "cpu"
        if rate:
            more["MUSTER_SIM"] = f'[{{"name":"a","items_per_s":{rate}{faults}}}]'
            devices = "sim"
        # The address of the server is another machine's then.
        trust = ("--trust", "any") if self.network else ()
        return self.start("worker", "--cluster", self.url, *self.replicas, "--devices", devices, *trust, *words, environment=more,
                          log="workers", before=("ip", "netns", "exec", self.network.name) if apart else (), file_limit=file_limit)

    def words(self, out, *words, kernel="inv.c", source="in"):
        return ["map", "--cluster", self.url, *self.replicas, "-k", self.path(kernel), "-i", self.path(source), "-o",
                self.path(out), "--arg", "by=3", *words]

    def map(self, out, *words, **options):
        return self.muster(*self.words(out, *words, **options))

    def submit(self, out, *words, **options):
        return self.start(*self.words(out, *words, **options), log=out + ".messages")

    def messages(self, name):
        return self.read(name).decode()

    def jobs(self):
        run = self.muster("jobs", "--cluster", self.url, *self.replicas, "--json")
        return __import__("json").loads(run.out) if run.code == 0 else {"jobs": [], "machines": []}

    def delivered(self, name):
        found = [job for job in self.jobs()["jobs"] if job["name"] == name]
        return found[0]["delivered"] if found else None

    def until_begun(self, name, items=1):
        until(f"{items} items of {name}", lambda: (self.delivered(name) or 0) >= items)

    def ended_well(self, what, process, out):
        """The process ends with 0, the output is one machine's, and nothing is left beside it."""
        try:
            code = process.wait(timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            code = "still running"
        self.check.equal(f"{what}: exit code; {self.messages(out + '.messages')[-300:]}", code, 0)
        self.same(what, out)

    def same(self, what, out):
        there = os.path.exists(self.path(out))
        self.check.true(f"{what}: the same bytes as one machine's", there and self.read(out) == self.want,
                        "" if there else "no output")
        parts = [name for name in os.listdir(self.folder) if name.endswith(".part")]
        self.check.equal(f"{what}: nothing is left beside the output", parts, [])
