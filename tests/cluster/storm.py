#!/usr/bin/env python3
"""Random mixtures of all that can happen to a fleet, each from a seed: workers killed, added, stopped and continued, servers killed and
restarted, submitters killed and resumed or followed by a second one. The output is one machine's each time.

    storm.py PATH-OF-MUSTER [--seed N] [--runs N] [--servers 1|3] [--items N]

Prints each run's seed, what was done, and its longest stall: how long nothing was delivered.
"""
import argparse
import os
import random
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
from fleet import Fleet  # noqa: E402
from lib.check import Check  # noqa: E402

LIMIT_S = 180


class Storm:
    def __init__(self, fleet, seed, name):
        self.fleet, self.name = fleet, name
        self.draw = random.Random(seed)
        self.workers, self.stopped = [], []
        self.done = []

    def add(self):
        self.workers.append(self.fleet.worker(rate=self.draw.choice([1e4, 2e4, 4e4, 8e4])))

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

    def resume(self):
        """Also while the last one lives: then it leaves."""
        if self.draw.random() < 0.6:
            self.submitter.kill()
            self.submitter.wait()
        self.submitter = self.fleet.start("jobs", "resume", self.name, "--report", "--cluster", self.fleet.url, *self.fleet.replicas,
                                          log="out.messages")

    def run(self):
        for _ in range(3):
            self.add()
        self.submitter = self.fleet.submit("out", "--name", self.name, "--report", *self.draw.choice([(), ("--through",)]),
                                           "--grain", str(self.draw.choice([300, 1000, 3000])))
        end = time.monotonic() + LIMIT_S
        acts = [self.kill, self.stop, self.go_on, self.leave, self.server, self.servers, self.resume]
        while self.submitter.poll() is None and time.monotonic() < end:
            try:
                self.submitter.wait(self.draw.uniform(0.3, 2))
            except subprocess.TimeoutExpired:
                if time.monotonic() < end - LIMIT_S / 2:
                    act = self.draw.choice(acts)
                    self.done.append(act.__name__)
                    act()
                else:
                    self.go_on()
        self.go_on()
        for worker in self.workers:
            worker.kill()
        return self.submitter.poll()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("muster")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--items", type=int, default=400000)
    asked = parser.parse_args()
    sys.argv = [sys.argv[0], asked.muster]
    check = Check()
    for seed in range(asked.seed, asked.seed + asked.runs):
        with Fleet(check) as fleet:
            fleet.server(asked.servers)
            fleet.input(asked.items, seed)
            storm = Storm(fleet, seed, f"storm{seed}")
            began = time.monotonic()
            code = storm.run()
            said = fleet.messages("out.messages")
            # The job was over before it could be taken.
            code = 0 if "has no job" in said and os.path.exists(fleet.path("out")) else code
            good = check.equal(f"seed {seed}: exit code after {storm.done}; {said[-300:]}", code, 0)
            if good:
                fleet.same(f"seed {seed}: after {storm.done}", "out")
            else:
                fleet.tell()
            stalls = [float(ms) for ms in re.findall(r"longest stall (\d+) ms", said)]
            print(f"seed {seed}: {time.monotonic() - began:.1f} s, longest stall {max(stalls, default=0):.0f} ms, {' '.join(storm.done)}",
                  flush=True)
    check.finish()


if __name__ == "__main__":
    main()
