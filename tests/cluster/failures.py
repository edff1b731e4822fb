#!/usr/bin/env python3
"""What dies, stops and comes back: workers, the server, submitters; each time the output is one machine's, byte for byte."""
import os
import resource
import signal
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from fleet import Disk, Fleet, Network, until  # noqa: E402
from lib.check import Check  # noqa: E402

# This many items a second and worker: a job takes some seconds, and what is done to it hits its middle.
RATE = 8e4


def a_worker_is_killed_and_one_added(check, fleet):
    victim = fleet.worker(rate=RATE)
    job = fleet.submit("out", "--name", "killed", "--report")
    fleet.until_begun("killed", 1)
    victim.kill()
    other = fleet.worker(rate=RATE)
    fleet.ended_well("a worker killed, one added", job, "out")
    check.contains("the report knows of it", fleet.messages("out.messages"), "1 machines lost")
    return other


def a_worker_is_stopped_and_goes_on(check, fleet, worker):
    job = fleet.submit("out", "--name", "stopped", "--through")
    fleet.until_begun("stopped")
    worker.send_signal(signal.SIGSTOP)
    zombie = fleet.delivered("stopped") or 0
    other = fleet.worker(rate=RATE)
    until("items without the one that is stopped", lambda: (fleet.delivered("stopped") or 1 << 60) > zombie)
    worker.send_signal(signal.SIGCONT)
    fleet.ended_well("a worker stopped and continued", job, "out")
    return other


def the_network_of_a_worker_is_cut(check, fleet):
    """Nothing that it sends arrives, and it is not told: its grains are run by others, and it works again when the network is joined."""
    if not fleet.network:
        return
    apart = fleet.worker(rate=RATE / 4, apart=True)
    job = fleet.submit("out", "--name", "cut", "--report")
    fleet.until_begun("cut")
    fleet.network.cut()
    other = fleet.worker(rate=RATE)
    before = fleet.delivered("cut") or 0
    until("items without the one that is cut off", lambda: (fleet.delivered("cut") or 1 << 60) > before)
    fleet.network.join()
    fleet.ended_well("a network cut and joined", job, "out")
    other.kill()
    run = fleet.map("out")
    check.equal("it works again", (run.code, run.err), (0, ""))
    fleet.same("it works again", "out")
    apart.kill()


def there_is_no_room_to_begin_with(check, fleet):
    disk = Disk.make(fleet.folder, "256k")
    if not disk:
        return
    try:
        run = fleet.map(os.path.join("disk", "out"))
        check.refused("a full disk", run, 1, "No space left on device", "make room")
        check.equal("nothing is left there", (os.listdir(disk.path), fleet.jobs()["jobs"]), ([], []))
    finally:
        disk.remove()


def without_workers(fleet, does):
    """What is done while no worker of the fleet does anything: the job that it submits does not end meanwhile."""
    stopped = [process for process in fleet.processes if process.poll() is None]
    for worker in stopped:
        worker.send_signal(signal.SIGSTOP)
    does()
    for worker in stopped:
        worker.send_signal(signal.SIGCONT)


def the_room_of_the_submitter_ends(check, fleet):
    """What the submitter writes finds no room: the job stays, and ends well for one that has room."""
    jobs = []

    def submit():
        jobs.append(fleet.submit("out", "--name", "full", "--through"))
        until("the job", lambda: fleet.delivered("full") is not None)
        resource.prlimit(jobs[0].pid, resource.RLIMIT_FSIZE, (1000, 1000))
    without_workers(fleet, submit)
    check.equal("it ends", jobs[0].wait(timeout=60), 1)
    said = fleet.messages("out.messages")
    check.contains("and says why", said, "writing the output failed: File too large")
    check.contains("and what to do", said, "make room, then: muster jobs resume")
    check.equal("the job waits", [(j["name"], j["state"]) for j in fleet.jobs()["jobs"]], [("full", "waiting")])
    fleet.write("out.messages", "")
    fleet.ended_well("the submitter without room resumed", fleet.start("jobs", "resume", "full", "--cluster", fleet.url), "out")


def a_worker_has_no_room(check, fleet):
    """Where a machine cannot write the output, its results go through the servers."""
    limited = fleet.worker(rate=RATE, file_limit=100000)
    fleet.write("workers", "")
    run = fleet.map("out")
    check.equal("a worker without room", (run.code, run.err), (0, ""))
    fleet.same("a worker without room", "out")
    check.contains("it says so", fleet.messages("workers"), "writing the output failed: File too large")
    limited.kill()


def a_worker_takes_its_time_to_leave(check, fleet):
    """Longer than the second after which a command says what it waits for: it stores what it holds, and dies of the signal."""
    slow = fleet.worker(rate=RATE / 8)
    job = fleet.submit("out", "--name", "leave", "--grain", "20000")
    fleet.until_begun("leave")
    slow.send_signal(signal.SIGTERM)
    check.equal("it dies of the signal", slow.wait(timeout=60), -signal.SIGTERM)
    other = fleet.worker(rate=RATE)
    fleet.ended_well("a worker that left", job, "out")
    other.kill()


def the_server_is_killed_and_restarted(check, fleet):
    job = fleet.submit("out", "--name", "server")
    fleet.until_begun("server")
    fleet.servers[0].kill()
    fleet.servers[0].start()
    fleet.servers[0].wait()
    fleet.ended_well("the server killed and restarted", job, "out")


def the_submitter_is_killed_and_resumed(check, fleet):
    job = fleet.submit("out", "--name", "resumed")
    # With sanitizers what is asked meanwhile takes so long that the job would be over.
    deaths = 1 if check.is_sanitized() else 2
    for _ in range(deaths):
        before = fleet.delivered("resumed") or 0
        until("more items", lambda seen=before: (fleet.delivered("resumed") or 0) > seen)
        job.kill()
        job.wait()
        check.equal("a job that waits", [(j["name"], j["state"]) for j in fleet.jobs()["jobs"]], [("resumed", "waiting")])
        job = fleet.start("jobs", "resume", "resumed", "--cluster", fleet.url, log="out.messages")
        until("it is fed again", lambda: [j["state"] for j in fleet.jobs()["jobs"]] in (["running"], []))
    if deaths == 2:
        check.equal("its third submitter", fleet.jobs()["jobs"][0]["submitters"], 3)
    fleet.ended_well("the submitter killed and resumed", job, "out")


def of_two_submitters_the_newer_stays(check, fleet):
    older = fleet.submit("out", "--name", "two")
    fleet.until_begun("two")
    newer = fleet.start("jobs", "resume", "two", "--cluster", fleet.url, log="newer.messages")
    check.equal("the older one leaves", older.wait(timeout=60), 1)
    check.contains("and says why", fleet.messages("out.messages"), "another submitter has taken the job")
    fleet.write("out.messages", "")
    fleet.ended_well("two submitters", newer, "out")


def what_is_in_its_place_is_done(check, fleet):
    """A submitter that died after it had put the output in its place, and before it could remove the job."""
    job = fleet.submit("out", "--name", "placed")
    fleet.until_begun("placed")
    job.kill()
    job.wait()
    note = b"1024 0"  # all grains, of 391 records each
    fleet.store("$KV.muster_jobs.placed.epoch.1", note)
    os.remove(fleet.path(".out.placed.part"))
    fleet.write("out", fleet.want)
    run = fleet.muster("jobs", "resume", "placed", "--cluster", fleet.url)
    check.equal("resume", (run.code, run.err), (0, ""))
    check.equal("the job is gone", fleet.jobs()["jobs"], [])
    fleet.same("what was in its place", "out")


def what_is_over_is_not_resumed(check, fleet):
    """A submitter notes the end before it removes anything: a submitter that comes then finds no job."""
    job = fleet.submit("out2", "--name", "over")
    until("the job", lambda: fleet.delivered("over") is not None)
    job.kill()
    job.wait()
    fleet.store("$KV.muster_jobs.over.epoch.2", b"10 0000000000000001 over")
    run = fleet.muster("jobs", "resume", "over", "--cluster", fleet.url)
    check.refused("a job whose end is noted", run, 1, "has no job 'over': it is over")
    check.equal("cancel", fleet.muster("jobs", "cancel", "over", "--cluster", fleet.url).code, 0)
    check.equal("the job is gone", fleet.jobs()["jobs"], [])


def a_job_is_removed_under_its_submitter(check, fleet):
    job = fleet.submit("out2", "--name", "removed")
    until("the job", lambda: fleet.delivered("removed") is not None)
    fleet.store("$JS.API.STREAM.PURGE.KV_muster_jobs", b'{"filter":"$KV.muster_jobs.removed"}')
    check.equal("it ends", job.wait(timeout=60), 1)
    check.contains("and says why", fleet.messages("out2.messages"), "the job was cancelled")


def what_nobody_feeds_can_be_cancelled(check, fleet):
    job = fleet.submit("gone", "--name", "gone")
    fleet.until_begun("gone")
    job.kill()
    job.wait()
    check.equal("cancel", fleet.muster("jobs", "cancel", "gone", "--cluster", fleet.url).code, 0)
    check.equal("nothing is left", ([n for n in os.listdir(fleet.folder) if n == "gone" or n.endswith(".part")], fleet.jobs()["jobs"]),
                ([], []))


def a_poison_record_is_named(check, fleet):
    """A record that fails everywhere fails the job, which names its grain; nothing is left."""
    fleet.write("poison.c", "MUSTER_KERNEL void poison(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out,"
                " uint32_t by)\n{ if (in[i] == 12345u) out[i] = *(volatile uint32_t *)0; else out[i] = in[i] * by + 7u; }\n")
    content = bytearray(fleet.read("in")[:200000])
    content[4 * 33333:4 * 33333 + 4] = (12345).to_bytes(4, "little")
    fleet.write("poisoned", bytes(content))
    helped = fleet.worker(environment={"MUSTER_ISOLATE": "all"}, words=("--once",))
    run = fleet.map("out2", "--grain", "1000", kernel="poison.c", source="poisoned")
    check.equal("the job fails", run.code, 1)
    check.contains("its grain is named", run.err, "items 33000 to 34000 failed")
    check.equal("nothing is left", [n for n in os.listdir(fleet.folder) if n == "out2" or n.endswith(".part")], [])
    check.equal("the worker lives on", helped.wait(timeout=60), 0)


def main():
    check = Check()
    with Fleet(check) as fleet:
        fleet.server(network=Network.make())
        fleet.input()
        the_network_of_a_worker_is_cut(check, fleet)
        there_is_no_room_to_begin_with(check, fleet)
        a_worker_has_no_room(check, fleet)
        a_worker_takes_its_time_to_leave(check, fleet)
        worker = a_worker_is_killed_and_one_added(check, fleet)
        other = a_worker_is_stopped_and_goes_on(check, fleet, worker)
        the_server_is_killed_and_restarted(check, fleet)
        the_room_of_the_submitter_ends(check, fleet)
        the_submitter_is_killed_and_resumed(check, fleet)
        of_two_submitters_the_newer_stays(check, fleet)
        what_is_in_its_place_is_done(check, fleet)
        what_nobody_feeds_can_be_cancelled(check, fleet)
        without_workers(fleet, lambda: what_is_over_is_not_resumed(check, fleet))
        without_workers(fleet, lambda: a_job_is_removed_under_its_submitter(check, fleet))
        for process in (worker, other):
            process.kill()
        a_poison_record_is_named(check, fleet)
    check.finish()


if __name__ == "__main__":
    main()
