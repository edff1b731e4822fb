#!/usr/bin/env python3
"""muster map --cluster: one machine's bytes from several, by files on shared storage and through the servers; jobs, once, detached."""
import os
import signal
import struct
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from fleet import Fleet, free_port, until  # noqa: E402
from lib.check import Check  # noqa: E402


def results_are_the_same(check, fleet):
    for words in [(), ("--through", "--grain", "77777"), ("--grain", "1000000")]:
        run = fleet.map("out", *words)
        check.equal(f"map {words}", (run.code, run.err), (0, ""))
        fleet.same(f"map {words}", "out")
    check.equal("nothing of the jobs is left", fleet.jobs()["jobs"], [])
    run = fleet.map("out", "--report")
    for part in ["WORKER", "ITEMS/S", f"{len(fleet.want) // 4} items in", "0 machines lost"]:
        check.contains("the report", run.err, part)


def other_inputs(check, fleet):
    """A .npy file, records after some bytes, tables and values; what is in the way of the output stays until the end."""
    header = b"{'descr': '<u4', 'fortran_order': False, 'shape': (50, 100), }"
    header += b" " * (64 - (len(header) + 11) % 64) + b"\n"
    fleet.write("in.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<5000I", *range(5000)))
    run = fleet.map("out.npy", source="in.npy")
    check.equal("a .npy file", (run.code, run.err), (0, ""))
    out = fleet.read("out.npy")
    check.contains("its shape", out[:128].decode("latin-1"), "(50, 100)")
    check.equal("its numbers", struct.unpack("<5000I", out[-20000:]), tuple(3 * i + 7 for i in range(5000)))
    fleet.write("skipped", b"12345" + fleet.read("in"))
    run = fleet.map("out", "--skip", "5", source="skipped")
    check.equal("bytes before the first record", (run.code, run.err), (0, ""))
    fleet.same("bytes before the first record", "out")
    fleet.write("table.c", "MUSTER_KERNEL void table(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL uint8_t *out, "
                "MUSTER_GLOBAL const uint8_t *t, uint32_t by) { out[i] = t[(in[i] + by) % 256u]; }\n")
    fleet.write("t", bytes((i * 7 + 1) % 256 for i in range(256)))
    fleet.write("few", fleet.read("in")[:100000])
    run = fleet.map("out", "--table", "t=" + fleet.path("t"), "--through", kernel="table.c", source="few")
    want = bytes(((b + 3) % 256 * 7 + 1) % 256 for b in fleet.read("few"))
    check.equal("a table", (run.code, run.err, fleet.read("out") == want), (0, "", True))


def a_job_is_seen(check, fleet):
    slow = fleet.submit("slow", "--name", "slow")
    until("the job", lambda: [job["name"] for job in fleet.jobs()["jobs"]] == ["slow"])
    job = fleet.jobs()["jobs"][0]
    check.equal("its state", (job["state"], job["items"], job["submitters"]), ("running", len(fleet.want) // 4, 1))
    check.contains("jobs show", fleet.muster("jobs", "show", "slow", "--cluster", fleet.url).out, "slow: running")
    check.contains("jobs list", fleet.muster("jobs", "list", "--cluster", fleet.url).out, "WHAT")
    check.refused("a second of that name", fleet.map("other", "--name", "slow"), 1, "has a job 'slow' already")
    check.equal("cancel", fleet.muster("jobs", "cancel", "slow", "--cluster", fleet.url).code, 0)
    check.equal("a job that is cancelled fails", slow.wait(timeout=60), 1)
    check.contains("and says so", fleet.messages("slow.messages"), "cancelled")
    check.equal("nothing is left of it", [n for n in os.listdir(fleet.folder) if n in ("slow", "other") or n.endswith(".part")], [])
    check.equal("jobs show of one that is over", fleet.muster("jobs", "show", "slow", "--cluster", fleet.url).code, 1)


def without_a_terminal(check, fleet):
    run = fleet.map("out", "--detach", "--name", "away")
    check.equal("the job's name", (run.code, run.out, run.err), (0, "away\n", ""))
    check.equal("jobs watch ends with the job", fleet.muster("jobs", "watch", "away", "--cluster", fleet.url).code, 0)
    until("the output", lambda: os.path.exists(fleet.path("out.log")) and b"items in" in fleet.read("out.log"))
    fleet.same("detached", "out")


def an_interrupt_leaves_nothing(check, fleet):
    process = fleet.submit("never", "--name", "never")
    until("the job", lambda: fleet.jobs()["jobs"])
    process.send_signal(signal.SIGINT)
    check.equal("it dies of the signal", process.wait(timeout=60), -signal.SIGINT)
    check.contains("what it says", fleet.messages("never.messages"), "ended by SIGINT")
    check.equal("nothing is left", ([n for n in os.listdir(fleet.folder) if n == "never" or n.endswith(".part")], fleet.jobs()["jobs"]),
                ([], []))


def workers_come_and_go(check, fleet, workers):
    """Told to stop they end well; --once ends when there is nothing left."""
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    check.equal("they die of the signal", [worker.wait(timeout=60) for worker in workers], [-signal.SIGTERM] * len(workers))
    check.equal("and are not listed any more", fleet.jobs()["machines"], [])
    job = fleet.submit("out", "--name", "late")
    once = fleet.worker(words=("--once",))
    fleet.ended_well("a worker that came after the job", job, "out")
    check.equal("--once", once.wait(timeout=60), 0)


def kernels_run_in_helpers(check, fleet):
    isolated = fleet.worker(words=("--once",), environment={"MUSTER_ISOLATE": "all"})
    job = fleet.submit("out", "--name", "helped")
    fleet.ended_well("in a helper", job, "out")
    isolated.wait(timeout=60)


def one_machine_is_a_cluster_too(check, fleet):
    place = ["--folder", fleet.path("up")]
    port = str(free_port())
    up = fleet.muster("cluster", "up", *place, "--port", port, "--workers", "1")
    check.equal("up prints the address", (up.code, up.out, up.err), (0, f"nats://127.0.0.1:{port}\n", ""))
    check.refused("up again", fleet.muster("cluster", "up", *place, "--port", port), 1, "listens at 127.0.0.1:" + port + " already")
    fleet.url, url = up.out.strip(), fleet.url
    run = fleet.map("out")
    check.equal("a map there", (run.code, run.err), (0, ""))
    fleet.same("a map there", "out")
    down = fleet.muster("cluster", "down", *place)
    check.equal("down", (down.code, down.out, down.err), (0, "", ""))
    check.refused("nobody is there any more", fleet.muster("jobs", "--cluster", fleet.url), 1, "no nats-server answers")
    check.equal("nothing runs", [name for name in os.listdir(fleet.path("up")) if name.endswith(".pid")], [])
    fleet.url = url
    check.refused("two servers", fleet.muster("cluster", "up", *place, "--servers", "2"), 2, "--servers is 1 or 3")
    check.refused("nothing to do", fleet.muster("cluster"), 2, "cluster needs up, down, config or key")


def main():
    check = Check()
    with Fleet(check) as fleet:
        fleet.server()
        fleet.input()
        workers = [fleet.worker(), fleet.worker(rate=2e6)]
        until("two workers", lambda: len(fleet.jobs()["machines"]) == 2)
        results_are_the_same(check, fleet)
        other_inputs(check, fleet)
        without_a_terminal(check, fleet)
        workers_come_and_go(check, fleet, workers)
        kernels_run_in_helpers(check, fleet)
        one_machine_is_a_cluster_too(check, fleet)
        workers = [fleet.worker(rate=2e4)]
        a_job_is_seen(check, fleet)
        an_interrupt_leaves_nothing(check, fleet)
    check.finish()


if __name__ == "__main__":
    main()
