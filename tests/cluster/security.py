#!/usr/bin/env python3
"""A fleet with keys: what `muster cluster config` writes, that the right keys do the whole job, and that nobody else can do any
of it: without a key, with a key nobody knows, with that of each other role. Workers run what a trusted submitter has signed, and
nothing that was changed since."""
import base64
import json
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from fleet import Fleet, Server, free_port, until  # noqa: E402
from lib.check import ROOT, Check  # noqa: E402
from raw import Denied, Key, Raw  # noqa: E402

ROLES = {"submitter": "alice", "worker": "one", "operator": "op", "viewer": "eye"}
MEMBERS = ["--submitters", "alice,bob", "--workers", "one,two", "--operators", "op", "--viewers", "eye"]
RATE = 4e4


class Secured(Fleet):
    """Servers with the configuration that the command writes; TLS where there is an openssl to make certificates with."""

    def key(self, name):
        return self.path(f"fleet/{name}.key")

    def public(self, name):
        return Key(self.key(name)).public

    def certificate(self, name, hosts):
        """Signed by an authority that is made for the test, and thrown away."""
        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)
        new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", name + ".pem.key", "-subj", "/CN=" + name]
        if not hosts:
            openssl("req", "-x509", *new, "-out", name + ".pem", "-days", "3")
            return
        self.write("hosts", f"subjectAltName={hosts}\n")
        openssl("req", *new, "-out", name + ".csr")
        openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.pem.key", "-CAcreateserial", "-days", "3",
                "-out", name + ".pem", "-extfile", "hosts")

    def secure(self):
        self.port = free_port()
        self.tls, certificate = [], []
        with open(self.check.muster, "rb") as program:
            # ThreadSanitizer does not see how libssl, which is built without it, orders its threads.
            is_seen = b"__tsan_init" not in program.read()
        if shutil.which("openssl") and is_seen:
            self.certificate("ca", None)
            self.certificate("stranger", None)
            self.certificate("server", "DNS:localhost,IP:127.0.0.1,IP:0.0.0.0")
            self.tls = ["--ca", self.path("ca.pem")]
            certificate = ["--certificate", self.path("server.pem"), "--certificate-key", self.path("server.pem.key")]
        self.config = ["cluster", "config", self.path("fleet"), "--listen", f"127.0.0.1:{self.port}", "--max-file", "1GB", *certificate]
        run = self.muster(*self.config, *MEMBERS)
        self.check.equal("cluster config", (run.code, run.err), (0, ""))
        self.told = run.out
        server = Server(self.folder, "secured", self.port)
        server.config = self.path("fleet/server.conf")
        self.servers.append(server)
        server.start()
        server.wait()
        self.url = f"nats://127.0.0.1:{self.port}"

    def as_(self, name, *words):
        """A command of the member, or of nobody."""
        return self.muster(*words, "--cluster", self.url, *self.tls, *(["--key", self.key(name)] if name else []))

    def raw(self, name=None, key=None):
        return Raw(self.port, Key(self.key(name)) if name else key, self.path("ca.pem") if self.tls else None)

    def words(self, out, *words, kernel="inv.c", source="in", name="alice"):
        return super().words(out, *words, *self.tls, *(["--key", self.key(name)] if name else []), kernel=kernel, source=source)

    def secured_worker(self, name="one", trust=None, words=(), rate=None, log="workers"):
        environment = {"MUSTER_SIM": f'[{{"name":"a","items_per_s":{rate}}}]'} if rate else {}
        return self.start("worker", "--cluster", self.url, *self.tls, "--key", self.key(name), "--trust", trust or self.path("fleet/trust"),
                          "--devices", "sim" if rate else "cpu", *words, environment=environment, log=log)

    def jobs(self):
        run = self.as_("eye", "jobs", "--json")
        return json.loads(run.out) if run.code == 0 else {"jobs": [], "machines": []}


def end(process):
    process.kill()
    process.wait()


def children(process):
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                if int(file.read().rsplit(")", 1)[1].split()[1]) == process.pid:
                    found.append(int(name))
        except (OSError, ValueError):
            continue
    return found


def stored(raw, key):
    """What the servers keep under the key; None if nothing is there."""
    answer = json.loads(raw.ask("$JS.API.STREAM.MSG.GET.KV_muster_jobs", json.dumps({"last_by_subj": "$KV.muster_jobs." + key}).encode())[1])
    return base64.b64decode(answer["message"].get("data", "")) if "message" in answer else None


# What is written.

def keys_and_configuration(check, fleet):
    for name in ["alice", "bob", "one", "two", "op", "eye"]:
        check.equal(f"{name}'s key is its own", os.stat(fleet.key(name)).st_mode & 0o777, 0o600)
        check.equal("its public key", fleet.muster("cluster", "key", fleet.key(name)).out, fleet.public(name) + "\n")
        check.contains("and is told", fleet.told, fleet.public(name))
    check.equal("whom to trust", re.findall("^U.*", fleet.read("fleet/trust").decode(), re.M),
                [f"{fleet.public(name)} {name}" for name in ("alice", "bob")])
    before, config = fleet.read("fleet/alice.key"), fleet.read("fleet/server.conf")
    check.true("no consumer can be made", b"CONSUMER" not in config)
    check.true("nothing is allowed whole", b'"$JS.API.>"' not in config and b'">"' not in config)
    mine = fleet.muster("cluster", "key", fleet.path("mine.key")).out.strip()
    again = fleet.path("again")
    shutil.copytree(fleet.path("fleet"), again, ignore=shutil.ignore_patterns("store"))
    words = ["cluster", "config", again, "--listen", "127.0.0.1:4222"]
    run = fleet.muster(*words, "--submitters", f"alice,carol={mine}")
    check.equal("again", (run.code, run.err), (0, ""))
    check.equal("keys that are there stay", fleet.read("again/alice.key"), before)
    check.contains("a key that is brought is let in", fleet.read("again/server.conf").decode(), mine)
    check.true("and has no file", not os.path.exists(fleet.path("again/carol.key")))
    check.true("who is not named is out", fleet.public("bob") not in fleet.read("again/server.conf").decode())
    run = subprocess.run(["nats-server", "-t", "-c", fleet.path("again/server.conf")], capture_output=True, text=True, check=False)
    check.contains("the server takes it", run.stdout + run.stderr, "is valid")
    for what, more, part in [("a name twice", ("--submitters", "alice", "--workers", "alice"), "is named twice"),
                             ("no name", ("--workers", "a/b"), "is no name"),
                             ("no key", ("--workers", "x=UABC"), "is no public key"),
                             ("a seed for a key", ("--workers", "x=" + before.decode().strip()), "is no public key"),
                             ("one key twice", ("--workers", f"x={mine},y={mine}"), "have one key")]:
        check.refused(what, fleet.muster(*words, *more), 2, part)
    check.refused("no TLS", fleet.muster("cluster", "config", again, "--listen", "0.0.0.0:4222"), 2, "needs TLS")
    check.equal("no TLS, and wanted so", fleet.muster("cluster", "config", again, "--listen", "0.0.0.0:4222", "--no-tls").code, 0)


def the_document_says_what_is_written(check, fleet):
    """The permissions in docs/cluster.md are those of the file, for each role."""
    with open(os.path.join(ROOT, "docs", "cluster.md"), encoding="utf-8") as file:
        document = file.read()
    config = fleet.read("fleet/server.conf").decode()
    roles = re.findall(r"^\| (?:publishes|subscribes to) \| (\w+) \| (\w+) \| (\w+) \| (\w+) \|", document, re.M)
    check.equal("the columns", roles, [tuple(ROLES)] * 2)
    tables = document[document.index("| publishes |"):], document[document.index("| subscribes to |"):]
    for kind, table in zip(("publish", "subscribe"), tables):
        rows = re.findall(r"^\| `([^`]+)`[^|]*\|((?: x? ?\|){4})", table.split("\n\n")[0], re.M)
        for column, (role, name) in enumerate(ROLES.items()):
            want = {subject.replace("KEY", fleet.public(name)) for subject, marks in rows if "x" in marks.split("|")[column]}
            member = config[config.index(f"# {name}\n"):]
            found = re.search(kind + r": { allow: \[([^]]*)\]", member).group(1)
            check.equal(f"what a {role} may {kind}", sorted(re.findall('"([^"]+)"', found)), sorted(want))


def bad_keys_are_named(check, fleet):
    with open(fleet.key("alice"), encoding="ascii") as file:
        seed = file.read().strip()
    for name, content, mode in [("open.key", seed, 0o644), ("slip.key", seed[:20] + ("A" if seed[20] != "A" else "B") + seed[21:], 0o600),
                                ("empty.key", "", 0o600), ("public.key", fleet.public("alice"), 0o600)]:
        fleet.write(name, content + "\n")
        os.chmod(fleet.path(name), mode)
    for name, code, part in [("open.key", 1, "others than its owner may read"), ("slip.key", 2, "has no user's seed"),
                             ("empty.key", 2, "has no user's seed"), ("public.key", 2, "has no user's seed"),
                             ("gone.key", 1, "cannot read the key")]:
        run = fleet.muster("jobs", "--cluster", fleet.url, *fleet.tls, "--key", fleet.path(name))
        check.refused(name, run, code, part, fleet.path(name))
        check.true(f"{name}: no secret is shown", seed[5:30] not in run.err, run.err)
    run = fleet.muster("jobs", "--cluster", fleet.url, *fleet.tls, "--key", fleet.key("alice"),
                       environment={"MUSTER_CRYPTO_LIBRARY": fleet.path("gone.so")})
    check.refused("no libcrypto", run, 1, "keys of a cluster need libcrypto", "libssl3")
    run = fleet.muster("jobs", "--cluster", fleet.url, *fleet.tls, environment={"MUSTER_CLUSTER_KEY": fleet.key("eye")})
    check.equal("a key from the environment", run.code, 0)


def others_certificates_are_refused(check, fleet):
    if not fleet.tls:
        print("no openssl, or threads are watched: TLS is not tested")
        return
    key = ["--key", fleet.key("eye")]
    check.refused("no authority", fleet.muster("jobs", "--cluster", fleet.url, *key), 1, "no TLS with the server", "--ca FILE")
    check.refused("another authority", fleet.muster("jobs", "--cluster", fleet.url, *key, "--ca", fleet.path("stranger.pem")), 1,
                  "no TLS with the server")
    # Another name of this machine, which the certificate does not have.
    check.refused("another host's certificate", fleet.muster("jobs", "--cluster", f"nats://0:{fleet.port}", *key, *fleet.tls), 1,
                  "no TLS with the server at nats://0:")
    check.equal("the right one", fleet.as_("eye", "jobs").code, 0)


# The right keys.

def the_right_keys_do_the_whole_job(check, fleet):
    workers = [fleet.secured_worker("one"), fleet.secured_worker("two")]
    until("two workers", lambda: len(fleet.jobs()["machines"]) == 2)
    check.equal("kernels run in helpers, unless told otherwise", [len(children(worker)) > 0 for worker in workers], [True, True])
    for words in [(), ("--through", "--grain", "7777")]:
        run = fleet.map("out", *words)
        check.equal(f"map {words}", (run.code, run.err), (0, ""))
        fleet.same(f"map {words}", "out")
    check.equal("nothing of the jobs is left", fleet.jobs()["jobs"], [])
    for worker in workers:
        worker.terminate()
        worker.wait()
    check.equal("workers that left are not listed", fleet.jobs()["machines"], [])


def a_job_is_stopped_and_resumed(check, fleet, worker):
    job = fleet.submit("out", "--name", "resumed")
    fleet.until_begun("resumed")
    end(job)
    check.refused("another submitter's job", fleet.as_("bob", "jobs", "resume", "resumed"), 1, "this key cannot go on with 'resumed'",
                  fleet.public("alice"))
    run = fleet.as_("alice", "jobs", "resume", "resumed")
    check.equal("the submitter's own", (run.code, run.err), (0, ""))
    fleet.same("resumed", "out")
    job = fleet.submit("stopped", "--name", "stopped")
    fleet.until_begun("stopped")
    check.equal("an operator stops a job", fleet.as_("op", "jobs", "cancel", "stopped").code, 0)
    check.equal("which ends", job.wait(timeout=60), 1)
    job = fleet.submit("stopped", "--name", "left")
    fleet.until_begun("left")
    end(job)
    check.equal("and one that nobody feeds", fleet.as_("op", "jobs", "cancel", "left").code, 0)
    check.equal("nothing is left", ([n for n in os.listdir(fleet.folder) if n == "stopped" or n.endswith(".part")], fleet.jobs()["jobs"]),
                ([], []))
    check.equal("the worker works on", worker.poll(), None)


# Everybody else.

COMMANDS = {
    "submit": ["map", "-k", "inv.c", "-i", "in", "-o", "never", "--arg", "by=3"],
    "look": ["jobs"],
    "stop": ["jobs", "cancel", "target"],
    "resume": ["jobs", "resume", "target"],
    "work": ["worker", "--trust", "any", "--devices", "cpu", "--once"],
}
MAY = {"submit": ["submitter"], "look": list(ROLES), "stop": ["submitter", "operator"], "resume": ["submitter"], "work": ["worker"]}


def nobody_else_can(check, fleet):
    """By the command: without a key, with one that nobody knows, with that of another role."""
    fleet.muster("cluster", "key", fleet.path("fleet/mallory.key"))
    for action, words in COMMANDS.items():
        words = [fleet.path(word) if word in ("inv.c", "in", "never") else word for word in words]
        for who in (None, "mallory"):
            check.refused(f"{action} with {who or 'no'} key", fleet.as_(who, *words), 1, "does not let this user in")
        for role in ROLES:
            if role not in MAY[action]:
                part = "this key cannot go on" if action == "resume" else "this key may not do that"
                check.refused(f"{action} with a {role}'s key", fleet.as_(ROLES[role], *words), 1, part)
    check.true("nothing was written", not os.path.exists(fleet.path("never")))


# Subjects, and whom the servers let send to them.
SEND = {
    "$KV.muster_jobs.evil": ["submitter"],
    "$KV.muster_jobs.target": ["submitter"],
    "$KV.muster_jobs.target.epoch.2": ["submitter"],
    "$KV.muster_jobs.target.cancel": ["submitter", "operator"],
    "muster.o.0123.0": ["submitter"],
    "muster.c.target.ask": ["worker"],
    "muster.c.target.why": ["worker"],
    "muster.i.target": ["worker"],
    "muster.r.target.0.0": ["worker"],
    "$KV.muster_workers.0123": ["worker"],
    "$JS.API.DIRECT.GET.MR_target.muster.r.target.0.0": ["submitter"],
    "$JS.API.STREAM.MSG.GET.MR_target": ["submitter"],
    "$JS.API.DIRECT.GET.MUSTER_OBJ.muster.o.0123.0": ["worker"],
    "$JS.API.STREAM.CREATE.MR_evil": ["submitter"],
    "$JS.API.STREAM.UPDATE.MR_target": ["submitter"],
    "$JS.API.STREAM.PURGE.MR_target": ["submitter"],
    "$JS.API.STREAM.DELETE.MR_target": ["submitter", "operator"],
    "$JS.API.STREAM.PURGE.KV_muster_jobs": ["submitter", "operator"],
    "$JS.API.STREAM.PURGE.KV_muster_workers": [],
    "$JS.API.STREAM.DELETE.KV_muster_jobs": [],
    "$JS.API.STREAM.DELETE.MUSTER_OBJ": [],
    "$JS.API.STREAM.UPDATE.KV_muster_jobs": [],
    "$JS.API.STREAM.NAMES": [],
    "$JS.API.CONSUMER.CREATE.KV_muster_jobs": [],
    "$JS.API.CONSUMER.CREATE.MR_target": [],
    "$JS.API.CONSUMER.DURABLE.CREATE.MR_target.x": [],
    "$JS.API.STREAM.SNAPSHOT.MR_target": [],
    "$JS.ACK.MR_target.x": [],
    "$SYS.REQ.SERVER.PING": [],
    "_INBOX.muster.x": [],
    "anything": [],
}
HEAR = {
    "muster.c.*.*": ["submitter"],
    "muster.i.*": ["submitter"],
    "muster.wake": ["worker"],
    ">": [], "muster.>": [], "_INBOX.>": [], "_INBOX.*.>": [], "muster.r.>": [], "muster.o.>": [], "$KV.>": [], "$JS.>": [], "$SYS.>": [],
}


def the_servers_refuse(check, fleet):
    """By any client: each subject with the key of each role that may not, and the ones that it may where that does no harm."""
    for key in (None, Key()):
        try:
            fleet.raw(key=key).pub("anything")
            check.true("nobody is let in without a key that the server knows", False)
        except Denied as denied:
            check.contains("nobody is let in without a key that the server knows", str(denied), "Authorization Violation")

    def is_refused(act, subject):
        try:
            act(subject)
            return False
        except Denied as denied:
            return subject in str(denied) and "Permissions Violation" in str(denied)

    for role, name in ROLES.items():
        with fleet.raw(name) as raw:
            other = "_INBOX." + fleet.public("two" if name != "two" else "one")
            for subject, may in {**SEND, other + ".x": []}.items():
                if role not in may:
                    check.true(f"{role} may not send to {subject}", is_refused(raw.pub, subject))
            for subject, may in {**HEAR, other + ".>": []}.items():
                check.equal(f"{role} may not listen to {subject}", is_refused(raw.sub, subject), role not in may)
            check.true(f"{role} has an inbox", not is_refused(raw.sub, f"_INBOX.{fleet.public(name)}.>"))
    with fleet.raw("alice") as raw:
        check.equal("nothing of that was stored", [stored(raw, key) for key in ("evil", "target.cancel", "target.epoch.2")], [None] * 3)


def answers_write_nothing(check, fleet):
    """A request names where its answer goes: also to a subject that the asker may not send to."""
    want = "$KV.muster_jobs.target.cancel"
    with fleet.raw("one") as worker, fleet.raw("eye") as viewer, fleet.raw("alice") as alice:
        for raw in (worker, viewer):
            raw.pub("$JS.API.INFO", b"", want)
            raw.pub("$JS.API.STREAM.INFO.KV_muster_jobs", b"", want)
            raw.pub("$JS.API.DIRECT.GET.KV_muster_jobs.$KV.muster_jobs.target", b"", want)
        viewer.pub("muster.c.target.ping", b"", want)
        worker.pub("muster.i.target", b"0 1", want)
        worker.pub("muster.c.target.ask", b"1 claim 1 0000000000000077 0 1", want)
        worker.pub("$KV.muster_workers.0000000000000077", b"1", want)
        # What was sent before is answered before.
        check.equal("the submitter answers", viewer.ask("muster.c.target.ping")[1], b"here")
        worker.ask("muster.i.target", b"0 1")
        viewer.ask("$JS.API.INFO")
        check.equal("no answer has cancelled the job", stored(alice, "target.cancel"), None)


def a_submitter_answers_inboxes_alone(check):
    """Also where the servers know no roles."""
    with Fleet(check) as fleet:
        fleet.server()
        fleet.input(1000)
        job = fleet.submit("out", "--name", "target")
        until("the job", lambda: fleet.jobs()["jobs"])
        with Raw(fleet.servers[0].port) as raw:
            raw.pub("muster.c.target.ping", b"", "$KV.muster_jobs.target.cancel")
            check.equal("the submitter answers", raw.ask("muster.c.target.ping")[1], b"here")
            check.equal("and does not write for others", stored(raw, "target.cancel"), None)
        end(job)


def a_job_that_others_want(check, fleet):
    """One that is fed while others try."""
    job = fleet.submit("out", "--name", "target", "--through")
    until("the job", lambda: [j["name"] for j in fleet.jobs()["jobs"]] == ["target"])
    nobody_else_can(check, fleet)
    the_servers_refuse(check, fleet)
    answers_write_nothing(check, fleet)
    check.equal("the job is as it was", [(j["name"], j["state"], j["submitters"]) for j in fleet.jobs()["jobs"]], [("target", "running", 1)])
    worker = fleet.secured_worker("one", words=("--once",))
    fleet.ended_well("and ends well", job, "out")
    check.equal("the worker too", worker.wait(timeout=60), 0)


# Signatures.

def whom_a_worker_trusts(check, fleet):
    words = ["worker", "--cluster", fleet.url, *fleet.tls, "--key", fleet.key("one"), "--devices", "cpu", "--once"]
    elsewhere = [word.replace("127.0.0.1", "0.0.0.0") for word in words]
    check.refused("nobody is named", fleet.muster(*elsewhere), 2, "needs to know whose jobs to run", "--trust any")
    fleet.write("slip", "# keys\nUABC me\n")
    check.refused("a file that is not there", fleet.muster(*words, "--trust", fleet.path("gone")), 1, "cannot read whom to trust")
    check.refused("a file with a slip", fleet.muster(*words, "--trust", fleet.path("slip")), 2, "'UABC' in " + fleet.path("slip"))
    check.refused("a key with a slip", fleet.muster(*words, "--trust", fleet.public("alice") + ",UABC"), 2, "'UABC' in --trust")
    fleet.url, url = elsewhere[2], fleet.url
    anybody = fleet.secured_worker("one", "any", log="anybody")
    until("one that trusts all", lambda: "working" in fleet.messages("anybody"))
    fleet.url = url
    end(anybody)


def who_is_not_trusted_is_refused(check, fleet):
    fleet.write("few", f"# whom this worker trusts\n\n{fleet.public('alice')} alice\n")
    worker = fleet.secured_worker("two", fleet.path("few"), log="refusing")
    job = fleet.submit("out", "--name", "bobs", name="bob")
    said = f"refused job bobs: it is signed by {fleet.public('bob')}, which it does not trust; add that key to its --trust file"
    until("the submitter hears", lambda: said in fleet.messages("out.messages"))
    check.contains("and is told whose worker", fleet.messages("out.messages"), "muster: worker " + os.uname().nodename)
    check.contains("the worker says so", fleet.messages("refusing"), "bobs: refused: it is signed by " + fleet.public("bob"))
    check.equal("nothing is run", [(j["delivered"], j["state"]) for j in fleet.jobs()["jobs"]], [(0, "running")])
    check.equal("bob stops it", fleet.as_("bob", "jobs", "cancel", "bobs").code, 0)
    job.wait(timeout=60)
    with open(fleet.path("few"), "a", encoding="ascii") as file:
        file.write(fleet.public("bob") + " bob\n")
    run = fleet.map("out", name="bob")
    check.equal("who is added counts from the next job on", (run.code, run.err), (0, ""))
    fleet.same("bob's job", "out")
    end(worker)


def put(raw, subject, content):
    """Stored, in the place of what was there."""
    answer = json.loads(raw.ask(subject, content)[1])
    if "error" in answer:
        raise Denied(answer)


def signed(text, key):
    """As `key` would sign it."""
    digest = __import__("hashlib").sha256(text).digest()
    return text + f"signed {key.public} {key.sign(b'muster job 1'.join([bytes(1), bytes(3)]) + digest).hex()}\n".encode()


def what_was_changed_is_refused(check, fleet):
    """A client that can write at the servers puts another description in the place of a signed one."""
    job = fleet.submit("out", "--name", "base", "--through")
    until("the job", lambda: fleet.jobs()["jobs"])
    other = fleet.submit("out2", "--name", "other", "--through")
    until("another one", lambda: len(fleet.jobs()["jobs"]) == 2)
    with fleet.raw("alice") as raw:
        base, others = stored(raw, "base"), stored(raw, "other")
        end(job)
        end(other)
        text, line = base[:base.index(b"signed ")], base[base.index(b"signed "):]
        alice, bob, mallory = (Key(fleet.key(name)) for name in ("alice", "bob", "mallory"))
        check.equal("the test signs as Muster does", signed(text, alice), base)
        bundle = re.search(rb"kernel ([0-9a-f]{64}) ", text).group(1).decode()
        out = fleet.path("out").encode()

        def changed(old, new):
            check.true(f"{old} is there", old in text)
            return text.replace(old, new) + line

        their_own = f"it is signed by {mallory.public}, which it does not trust"
        not_of_it = f"its signature is not {alice.public}'s of what it says"
        variants = {
            "an argument": (changed(b" 03000000\n", b" 04000000\n"), not_of_it),
            "the output": (changed(out + b"\npart", out + b"2\npart").replace(b"/.out.base", b"/.out2.base"), not_of_it),
            "the input": (changed(fleet.path("in").encode(), fleet.path("of").encode()), not_of_it),
            "the kernel": (changed(bundle.encode(), bundle[::-1].encode()), not_of_it),
            "the items": (changed(b"\nitems 400000", b"\nitems 399999"), not_of_it),
            "the way": (changed(b"through 1", b"through 0"), not_of_it),
            "another job's signature": (text + others[others.index(b"signed "):], not_of_it),
            "another job": (others, "what is stored as job 'base' is another one's description"),
            "no signature": (text, "it is not signed"),
            "a second end": (text + b"end\n" + line, not_of_it),
            "another's name": (text + line.replace(alice.public.encode(), bob.public.encode()),
                                     f"its signature is not {bob.public}'s of what it says"),
            "a key that nobody trusts": (signed(text, mallory), their_own),
            "a signature with a slip": (text + line.replace(line[70:72], b"zz", 1), "has a wrong form"),
        }
        check.equal("the other one is removed", fleet.as_("op", "jobs", "cancel", "other").code, 0)
        for what, (content, part) in variants.items():
            put(raw, "$KV.muster_jobs.base", content)
            fleet.write("tampered", "")
            worker = fleet.secured_worker("one", log="tampered")
            until(what, lambda: "base: " in fleet.messages("tampered"))
            check.contains(f"{what} was changed", fleet.messages("tampered"), part)
            end(worker)
        put(raw, "$KV.muster_jobs.base", base)
        raw.ask("$JS.API.STREAM.PURGE.MUSTER_OBJ", json.dumps({"filter": f"muster.o.{bundle}.*"}).encode())
        put(raw, f"muster.o.{bundle}.0", os.urandom(int(re.search(rb"kernel [0-9a-f]+ (\d+)", text).group(1))))
        fleet.write("tampered", "")
        worker = fleet.secured_worker("one", log="tampered")
        until("the bundle", lambda: "base: " in fleet.messages("tampered"))
        check.contains("the bundle was changed", fleet.messages("tampered"), "an object is not what its hash says")
        end(worker)
    check.equal("nothing has run", [j["delivered"] for j in fleet.jobs()["jobs"]], [0])
    check.equal("the job is removed", fleet.as_("op", "jobs", "cancel", "base").code, 0)


def those_who_are_refused_take_no_places(check, fleet):
    """A worker runs at most 32 jobs at a time; more than these are stored that it does not trust."""
    names = [f"waste{number}" for number in range(40)]
    with fleet.raw("alice") as raw:
        for name in names:
            put(raw, "$KV.muster_jobs." + name, b"muster-job 1\nend\n")
        worker = fleet.secured_worker("one", log="wasted")
        until("a worker that is full", lambda: fleet.messages("wasted").count("refused: it is not signed") >= 32)
        job = fleet.submit("out", "--name", "wanted")
        fleet.ended_well("a job after them", job, "out")
        raw.ask("$JS.API.STREAM.PURGE.KV_muster_jobs", b'{"filter":"$KV.muster_jobs.*"}')
        worker.terminate()
        code = worker.wait(timeout=60)
        check.equal(f"the worker leaves; {fleet.messages('wasted')[-1500:]}", code, -15)


def a_path_of_another_form_is_refused(check, fleet):
    """Also from somebody trusted: machines write into a job's own file, and into no other."""
    fleet.write("diary", bytes(1600000))
    job = fleet.submit("out", "--name", "paths")
    until("the job", lambda: fleet.jobs()["jobs"])
    with fleet.raw("alice") as raw:
        text = stored(raw, "paths")
        end(job)
        text = text[:text.index(b"signed ")]
        text = re.sub(rb"part [^\n]*", b"part " + fleet.path("diary").encode(), text)
        put(raw, "$KV.muster_jobs.paths", signed(text, Key(fleet.key("alice"))))
        worker = fleet.secured_worker("one", log="paths")
        until("a word", lambda: "paths: " in fleet.messages("paths"))
        check.contains("another file", fleet.messages("paths"), "contradicts itself")
        end(worker)
        check.equal("cancelling removes nothing else", fleet.as_("alice", "jobs", "cancel", "paths").code != 0, True)
        check.equal("the file is as it was", fleet.read("diary"), bytes(1600000))
        raw.ask("$JS.API.STREAM.PURGE.KV_muster_jobs", b"{}")
        raw.ask("$JS.API.STREAM.DELETE.MR_paths")
    for name in os.listdir(fleet.folder):
        if name.endswith(".part"):
            os.remove(fleet.path(name))


def main():
    check = Check()
    a_submitter_answers_inboxes_alone(check)
    with Secured(check) as fleet:
        fleet.environment.pop("MUSTER_ISOLATE")
        fleet.input()
        fleet.secure()
        keys_and_configuration(check, fleet)
        the_document_says_what_is_written(check, fleet)
        # Somebody has to be the first to make what all share.
        check.refused("nobody has begun", fleet.as_("eye", "jobs"), 1, "have no muster_jobs yet", "let a submitter connect once")
        check.equal("a submitter comes first", fleet.as_("alice", "jobs").code, 0)
        bad_keys_are_named(check, fleet)
        others_certificates_are_refused(check, fleet)
        the_right_keys_do_the_whole_job(check, fleet)
        slow = fleet.secured_worker("two", rate=RATE)
        a_job_is_stopped_and_resumed(check, fleet, slow)
        end(slow)
        a_job_that_others_want(check, fleet)
        whom_a_worker_trusts(check, fleet)
        who_is_not_trusted_is_refused(check, fleet)
        what_was_changed_is_refused(check, fleet)
        those_who_are_refused_take_no_places(check, fleet)
        a_path_of_another_form_is_refused(check, fleet)
    check.finish()


if __name__ == "__main__":
    main()
