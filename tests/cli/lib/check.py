"""Runs the muster command and counts what holds. A test is a script that is given the path of the command.

    check = Check()
    run = check.run("partition", "--total", "1", "--devices", "1")
    check.equal("one unit", run.out, "...")
    check.finish()
"""
import json
import os
import subprocess
import sys
import traceback
from collections import namedtuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TIME_LIMIT_S = 120

Run = namedtuple("Run", "code out err")


def clean_environment(**extra):
    """The caller's environment without what would change the answers of the command."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    kept.update(extra)
    return kept


class Check:
    def __init__(self):
        if len(sys.argv) != 2:
            sys.exit(f"usage: {sys.argv[0]} PATH-OF-MUSTER")
        self.muster = sys.argv[1]
        self.passed = self.failed = 0

    def is_sanitized(self):
        """Such a command is slow, and needs more of everything."""
        with open(self.muster, "rb") as program:
            text = program.read()
        return b"__asan_init" in text or b"__tsan_init" in text

    def run(self, *arguments, environment=None, **options):
        """The command's exit code and what it wrote, as bytes decoded strictly: it must write UTF-8."""
        options.setdefault("stdout", subprocess.PIPE)
        done = subprocess.run(
            [self.muster, *arguments], stderr=subprocess.PIPE, env=clean_environment(**(environment or {})),
            timeout=TIME_LIMIT_S, **options)
        return Run(done.returncode, (done.stdout or b"").decode(), done.stderr.decode())

    def start(self, *arguments):
        return subprocess.Popen([self.muster, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=clean_environment())

    def true(self, what, holds, detail=""):
        if holds:
            self.passed += 1
            return True
        self.failed += 1
        print(f"FAILED: {what}{': ' if detail else ''}{detail}")
        caller = [frame for frame in traceback.extract_stack() if frame.filename != __file__][-1]
        print(f"    at {caller.filename}:{caller.lineno}")
        return False

    def equal(self, what, actual, expected):
        return self.true(what, actual == expected, f"got {str(actual)[:400]!r}, expected {str(expected)[:400]!r}")

    def contains(self, what, text, part):
        return self.true(what, part in text, f"{part!r} is not in {text[:400]!r}")

    def refused(self, what, run, code, *parts):
        """Exit code, a message of the usual form that has all the parts, and on stdout nothing, or with --json the failure."""
        self.equal(f"{what}: exit code", run.code, code)
        if run.out.startswith('{"status":'):
            failure = json.loads(run.out)
            self.equal(f"{what}: the failure as JSON", list(failure), ["status", "text", "fix"])
            self.contains(f"{what}: its text", run.err, failure["text"][:200])
        else:
            self.equal(f"{what}: stdout", run.out, "")
        self.true(f"{what}: form of the message", run.err.startswith("muster: ") and run.err.endswith("\n"), run.err)
        for part in parts:
            self.contains(f"{what}: message", run.err, part)

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed or not self.passed else 0)
