#!/usr/bin/env python3
"""What is said when there is no cluster, no library, no room, or a job that is not for many machines; and that the rest goes on."""
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from fleet import Fleet, free_port, until  # noqa: E402
from lib.check import Check  # noqa: E402


def nothing_is_left(check, fleet, what):
    check.equal(f"{what}: no output", [n for n in os.listdir(fleet.folder) if n == "out" or n.endswith(".part")], [])


def without_servers(check, fleet):
    fleet.url = f"nats://127.0.0.1:{free_port()}"
    run = fleet.map("out")
    check.refused("no server", run, 1, "no nats-server answers at " + fleet.url, "muster cluster up")
    nothing_is_left(check, fleet, "no server")
    check.refused("jobs", fleet.muster("jobs", "--cluster", fleet.url), 1, "no nats-server answers")
    check.refused("no address", fleet.muster("jobs"), 2, "no cluster: give --cluster")
    check.refused("a bad address", fleet.muster("jobs", "--cluster", "nats://host:port:port"), 2, "is no address of a cluster")
    run = fleet.muster("jobs", "--cluster", "nats://user:secret@127.0.0.1:1")
    check.equal("a password is not shown", (run.code, "secret" in run.err), (1, False))


def without_the_library(check, fleet):
    gone = {"MUSTER_CLUSTER_LIBRARY": fleet.path("gone.so")}
    run = fleet.muster(*fleet.words("out"), environment=gone)
    check.refused("no library", run, 1, "many machines need libmuster-cluster.so", "libnats")
    run = fleet.muster("map", "-k", fleet.path("inv.c"), "-i", fleet.path("in"), "-o", fleet.path("out"), "--arg", "by=3", "-q",
                       environment=gone)
    check.equal("one machine needs none", (run.code, run.err), (0, ""))
    os.remove(fleet.path("out"))
    fleet.write("not-it.so", "no library")
    run = fleet.muster("jobs", "--cluster", fleet.url, environment={"MUSTER_CLUSTER_LIBRARY": fleet.path("not-it.so")})
    check.refused("something else", run, 1, "many machines need libmuster-cluster.so")
    needed = subprocess.run(["readelf", "-d", check.muster], capture_output=True, text=True, check=True).stdout
    check.true("the command needs only libc", "nats" not in needed and "crypto" not in needed, needed)


def without_a_store(check, fleet):
    port = free_port()
    server = subprocess.Popen(["nats-server", "-a", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL)
    try:
        url = f"nats://127.0.0.1:{port}"
        until("the server", lambda: "no nats-server" not in fleet.muster("jobs", "--cluster", url).err, 20)
        check.refused("no JetStream", fleet.muster("jobs", "--cluster", url), 2, "runs without JetStream", "--jetstream")
    finally:
        server.kill()
        server.wait()


def what_is_not_for_many_machines(check, fleet):
    fleet.write("first.c", "MUSTER_KERNEL void first(uint64_t i, uint64_t first, MUSTER_GLOBAL const uint32_t *in, "
                "MUSTER_GLOBAL uint32_t *out, uint32_t by) { out[i] = in[i] * by + (uint32_t)first; }\n")
    fleet.write("broken.c", "MUSTER_KERNEL void broken(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out, "
                "uint32_t by) { out[i] = in[i] * nothing; }\n")
    fleet.write("empty", b"")
    fleet.write("film", b"YUV4MPEG2 W2 H2 F25:1\nFRAME\n" + bytes(6))
    for what, words, options, part in [
            ("the first item's number", (), {"kernel": "first.c"}, "MUSTER_ARG_FIRST"),
            ("neighbours", ("--halo", "1"), {}, "without neighbours"),
            ("a rest", ("--rest", "keep"), {}, "without --rest"),
            ("an empty input", (), {"source": "empty"}, "nothing to share out"),
            ("devices", ("--devices", "cpu"), {}, "--devices is for one machine"),
            ("a window", ("--window", "1MiB"), {}, "--window is for one machine"),
            ("a trace", ("--trace", fleet.path("trace")), {}, "--trace is for one machine"),
            ("a bad name", ("--name", "a.b"), {}, "a name that can be one"),
            ("grains of nothing", ("--grain", "0"), {}, "--grain cannot be 0"),
            ("replicas", ("--replicas", "2"), {}, "--replicas is 1, 3 or 5"),
            ("a grain that is no message", ("--through", "--grain", "400000"), {}, "does not fit into a message")]:
        run = fleet.map("out", *words, **options)
        check.refused(what, run, 1 if "message" in part else 2, part)
        nothing_is_left(check, fleet, what)
    run = fleet.muster("map", "--cluster", fleet.url, "-k", fleet.path("inv.c"), "-i", fleet.path("in"), "-o", "-", "--arg", "by=3")
    check.refused("standard output", run, 2, "without standard input and output")
    run = fleet.muster("map", "-k", fleet.path("inv.c"), "-i", fleet.path("in"), "-o", fleet.path("out"), "--arg", "by=3", "--detach")
    check.refused("--detach alone", run, 2, "--detach goes with --cluster")
    check.refused("no such job", fleet.muster("jobs", "cancel", "nobody", "--cluster", fleet.url), 1, "has no job 'nobody'")
    check.refused("no such job to resume", fleet.muster("jobs", "resume", "nobody", "--cluster", fleet.url), 1, "has no job 'nobody'")
    check.refused("no such part", fleet.muster("jobs", "lst"), 2, "did you mean list?")
    run = fleet.muster("map", "--cluster", fleet.url, "-k", fleet.path("inv.c"), "-i", fleet.path("in"), "-o",
                       "/dev/full", "--arg", "by=3")
    check.refused("a device as output", run, 2, "the output of a fleet is a file")
    check.equal("nothing of all that is left", fleet.jobs()["jobs"], [])


def a_kernel_that_does_not_compile(check, fleet):
    worker = fleet.worker(words=("--once",))
    run = fleet.map("out", kernel="broken.c")
    check.equal("the job fails", run.code, 1)
    check.contains("the machine's words", run.err, "nothing")
    nothing_is_left(check, fleet, "a broken kernel")
    check.equal("the worker lives on", worker.wait(timeout=60), 0)


def a_full_store(check, fleet):
    """The servers have less room than the job's results: it goes on as results leave, or is refused by name."""
    fleet.servers[0].kill()
    fleet.servers.clear()
    os.makedirs(fleet.path("small"))
    fleet.folder, folder = fleet.path("small"), fleet.folder
    fleet.server(limit="100KB")
    fleet.folder = folder
    fleet.write("t", os.urandom(300000))
    fleet.write("table.c", "MUSTER_KERNEL void table(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out, "
                "MUSTER_GLOBAL const uint32_t *t, uint32_t by) { out[i] = t[in[i] % 1000u] + by; }\n")
    run = fleet.map("out", "--table", "t=" + fleet.path("t"), kernel="table.c")
    check.refused("no room for a table", run, 1, "have no room left", "max_file_store")
    nothing_is_left(check, fleet, "no room for a table")


def main():
    check = Check()
    with Fleet(check) as fleet:
        fleet.input()
        without_servers(check, fleet)
        without_the_library(check, fleet)
        without_a_store(check, fleet)
        fleet.server()
        what_is_not_for_many_machines(check, fleet)
        a_kernel_that_does_not_compile(check, fleet)
        a_full_store(check, fleet)
    check.finish()


if __name__ == "__main__":
    main()
