#!/usr/bin/env python3
"""Random mixtures of all that can happen to a fleet, each from a seed: workers of unequal speed killed, added, stopped and
continued, one of them cut off from the network and joined again, servers killed and restarted, submitters killed and resumed, followed by
a second one, or without room for the output; in some runs a record crashes its kernel. The output is one machine's each time, or
the record is named.

    storm.py PATH-OF-MUSTER [--seed N] [--runs N] [--servers 1|3] [--workers N] [--items N]

Prints each run's seed, what was done, and its longest stall: how long nothing was delivered, of submitters that lived to say it.
"""
import argparse
import os
import random
import re
import resource
import signal
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from fleet import Fleet, Network, until  # noqa: E402
from lib.check import Check  # noqa: E402

LIMIT_S = 240
RATES = [1e4, 2e4, 4e4, 8e4]
# One record in this many runs crashes its kernel.
POISON_EVERY = 8
GRAINS = [300, 1000, 3000]
# More than a submitter's messages, less than its output.
ROOM_BYTES = 200000
POISON = ("MUSTER_KERNEL void poison(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out, uint32_t by)\n"
          "{ if (in[i] == 12345u) out[i] = *(volatile uint32_t *)0; else out[i] = in[i] * by + 7u; }\n")


class Storm:
    def __init__(self, fleet, seed, name, workers):
        self.fleet, self.name, self.count = fleet, name, workers
        self.draw = random.Random(seed)
        self.workers, self.stopped, self.submitters = [], [], []
        self.apart = None
        self.is_cut = False
        self.done = []
        self.poison = None
        self.grain = self.draw.choice(GRAINS)
        if self.draw.randrange(POISON_EVERY) == 0:
            self.put_poison()

    def put_poison(self):
        content = bytearray(self.fleet.read("in"))
        self.poison = self.draw.randrange(len(content) // 4)
        content[4 * self.poison:4 * self.poison + 4] = (12345).to_bytes(4, "little")
        self.fleet.write("in", bytes(content))
        self.fleet.write("inv.c", POISON)

    # A crash stays in its helper.
    def add(self, apart=False):
        environment = {"MUSTER_ISOLATE": "all"} if self.poison is not None else None
        worker = self.fleet.worker(rate=None if environment else self.draw.choice(RATES), environment=environment, apart=apart)
        self.workers.append(worker)
        return worker

    def kill(self):
        if len(self.workers) > 1:
            worker = self.workers.pop(self.draw.randrange(len(self.workers)))
            worker.kill()
            worker.wait()
            self.add()

    def stop(self):
        worker = self.draw.choice(self.workers)
        if worker not in self.stopped:
            worker.send_signal(signal.SIGSTOP)
            self.stopped.append(worker)

    def go_on(self):
        for worker in self.stopped:
            worker.send_signal(signal.SIGCONT)
        self.stopped.clear()

    def leave(self):
        worker = self.draw.choice(self.workers)
        if len(self.workers) > 1 and worker not in self.stopped:
            worker.send_signal(signal.SIGTERM)
            self.workers.remove(worker)
            self.add()

    def cut(self):
        """The network of one worker, until this is drawn again."""
        if self.fleet.network:
            (self.fleet.network.join if self.is_cut else self.fleet.network.cut)()
            self.is_cut = not self.is_cut

    def server(self):
        server = self.draw.choice(self.fleet.servers)
        server.kill()
        time.sleep(self.draw.random())
        server.start()
        server.wait()

    def servers(self):
        for server in self.fleet.servers:
            server.kill()
        for server in self.fleet.servers:
            server.start()
        for server in self.fleet.servers:
            server.wait()

    def follow(self):
        self.submitters.append(self.fleet.start("jobs", "resume", self.name, "--report", "--cluster", self.fleet.url,
                                                *self.fleet.replicas, log="out.messages"))

    def resume(self):
        """Also while the last one lives: then one of them leaves."""
        if self.draw.random() < 0.6:
            for submitter in self.submitters:
                submitter.kill()
                submitter.wait()
        self.follow()

    def full(self):
        """The submitter's disk: what it writes from now on finds no room. It says so and leaves the job as it is."""
        for submitter in self.submitters:
            if submitter.poll() is None:
                resource.prlimit(submitter.pid, resource.RLIMIT_FSIZE, (ROOM_BYTES, ROOM_BYTES))

    def ended(self, seconds):
        """The code of the submitter that has ended the job; None: it goes on. One that found no room is followed."""
        deadline = time.monotonic() + seconds
        while True:
            codes = [submitter.poll() for submitter in self.submitters]
            if 0 in codes:
                return 0
            if None not in codes:
                if "make room" not in (self.fleet.messages("out.messages").splitlines() or [""])[-1]:
                    return codes[-1]
                self.follow()
            if time.monotonic() >= deadline:
                return None
            try:
                self.submitters[-1].wait(0.1)
            except subprocess.TimeoutExpired:
                pass

    def begin(self):
        for _ in range(self.count - 1):
            self.add()
        self.apart = self.add(apart=self.fleet.network is not None)
        words = self.draw.choice([(), ("--through",)])
        self.submitters.append(self.fleet.submit("out", "--name", self.name, "--report", *words, "--grain", str(self.grain)))
        until("the job", lambda: self.submitters[0].poll() is not None or self.fleet.delivered(self.name) is not None)

    def run(self):
        self.begin()
        end = time.monotonic() + LIMIT_S
        acts = [self.kill, self.stop, self.go_on, self.leave, self.server, self.servers, self.resume, self.full]
        if self.fleet.network:
            acts.append(self.cut)
        code = None
        while code is None and time.monotonic() < end:
            code = self.ended(self.draw.uniform(0.3, 2))
            if code is None and time.monotonic() < end - LIMIT_S / 2:
                act = self.draw.choice(acts)
                self.done.append(act.__name__)
                act()
            elif code is None:
                self.calm()
        self.calm()
        for process in [*self.workers, *(self.submitters if code is not None else [])]:
            process.kill()
        return code

    def calm(self):
        self.go_on()
        if self.is_cut:
            self.cut()


def judge(check, fleet, storm, seed, code):
    said = fleet.messages("out.messages")
    # The job was over before it could be taken.
    code = 0 if "has no job" in said and os.path.exists(fleet.path("out")) else code
    what = f"seed {seed}: after {storm.done}"
    if storm.poison is not None:
        begin = storm.poison // storm.grain * storm.grain
        good = check.equal(f"{what}: exit code; {said[-300:]}", code, 1)
        # A submitter that was killed when it had said so, or one that came too late, finds no job any more.
        good = good and check.contains(what, said, f"items {begin} to ")
        check.true(f"{what}: no output", not os.path.exists(fleet.path("out")))
    else:
        good = check.equal(f"{what}: exit code; {said[-300:]}", code, 0)
        if good:
            fleet.same(what, "out")
    # Of nothing else than what was done to them, and what the runs' ends say.
    ends = {process.poll() for process in fleet.processes} - {None, 0, 1, -signal.SIGKILL, -signal.SIGTERM}
    good = check.equal(f"{what}: how processes ended", ends, set()) and good
    if not good:
        fleet.tell()
    return max([float(ms) for ms in re.findall(r"longest stall (\d+) ms", said)], default=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("muster")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--items", type=int, default=1000000)
    asked = parser.parse_args()
    sys.argv = [sys.argv[0], asked.muster]
    check = Check()
    stalls, times = [], []
    for seed in range(asked.seed, asked.seed + asked.runs):
        with Fleet(check) as fleet:
            fleet.server(asked.servers, network=Network.make())
            fleet.input(asked.items, seed)
            storm = Storm(fleet, seed, f"storm{seed}", asked.workers)
            began = time.monotonic()
            code = storm.run()
            stalls.append(judge(check, fleet, storm, seed, code))
            times.append(time.monotonic() - began)
            print(f"seed {seed}: {times[-1]:.1f} s, longest stall {stalls[-1]:.0f} ms, "
                  f"{'poison, ' if storm.poison is not None else ''}{' '.join(storm.done)}", flush=True)
    print(f"{asked.runs} runs with {asked.servers} servers and {asked.workers} workers: {statistics.median(times):.1f} s in the middle, "
          f"{max(times):.1f} s at most; longest stalls {statistics.median(stalls):.0f} ms in the middle, {max(stalls):.0f} ms at most")
    check.finish()


if __name__ == "__main__":
    main()
