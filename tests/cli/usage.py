#!/usr/bin/env python3
"""Help, version and mistakes; and that manual, completion and help know the same options."""
import json
import os
import re
import sys

sys.dont_write_bytecode = True
from lib.check import ROOT, Check  # noqa: E402

SUBCOMMANDS = {"devices": {"--all", "--devices", "--slices", "--json"}, "partition": {"--total", "--devices", "--json"},
               "exec": {"--policy", "--min-free", "--min-cc", "--backend", "--device", "--wait", "--list", "--json"},
               "bench": {"--quick", "--json"}, "version": {"--json"}, "sim": {"--seed", "--json", "--trace", "--timeline", "--everyone", "--runs"}, "help": set()}


def version_of_header():
    with open(os.path.join(ROOT, "include", "muster", "runtime.h")) as header:
        return re.search(r'MUSTER_VERSION_STRING "([^"]+)"', header.read()).group(1)


def read(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


def help_texts(check):
    everything = check.run("--help")
    check.equal("--help", (everything.code, everything.err), (0, ""))
    for same in [["-h"], ["help"]]:
        check.equal(f"{same} is --help", check.run(*same), everything)
    for name, options in SUBCOMMANDS.items():
        check.contains("--help lists it", everything.out, f"\n  {name} ")
        run = check.run(name, "--help")
        check.equal(f"{name} --help", (run.code, run.err), (0, ""))
        check.contains(f"{name} --help", run.out, f"Usage: muster {name}")
        listed = set(re.findall(r"^  (--[a-z-]+)", run.out, re.MULTILINE))
        check.equal(f"{name} --help: options", listed, options | {"--help"})
        for same in [[name, "-h"], ["help", name]]:
            check.equal(f"{same} is {name} --help", check.run(*same), run)
        check.true(f"{name} --help: a blank after each option",
                   all(line[23:24] == " " for line in run.out.splitlines() if line.startswith("  --")))
        check.true(f"{name} --help: fits a terminal", all(len(line) <= 100 for line in run.out.splitlines()))
    for words in [["pick"], ["explain"], ["kernel"], ["kernel", "build"], ["kernel", "list"],
                  ["map"], ["scan"]]:
        text = check.run(*words, "--help").out
        check.true(f"{words} --help: fits a terminal", text and all(len(line) <= 100 for line in text.splitlines()))
    run = check.run("partition", "--json", "--total", "5", "--help")
    check.equal("--help after options", run, check.run("partition", "--help"))


def versions(check):
    version = version_of_header()
    check.equal("version", check.run("version"), (0, f"muster {version}\n", ""))
    check.equal("--version", check.run("--version"), (0, f"muster {version}\n", ""))
    run = check.run("version", "--json")
    check.equal("version --json", run, (0, f'{{"version":"{version}","library":"{version}"}}\n', ""))
    check.equal("version --json reads back", json.loads(run.out), {"version": version, "library": version})


def mistakes(check):
    for arguments, parts in [([], ["subcommand"]), (["frobnicate"], ["'frobnicate'"]),
                             (["--frobnicate"], ["--frobnicate"]), ([""], ["''"]), (["help", "frobnicate"], ["'frobnicate'"]), (["Devices"], ["'Devices'"])]:
        check.refused(f"muster {arguments}", check.run(*arguments), 2, *parts, "muster --help")
    check.refused("help of two", check.run("help", "devices", "version"), 2, "'version'", "muster help --help")
    for name in ["devices", "version"]:
        for arguments, part in [(["--frobnicate"], "--frobnicate"), (["x"], "'x'"), (["--json", "--json"], "twice"),
                                (["--json=1"], "takes no value"), (["-x"], "-x"), ([""], "''")]:
            check.refused(f"{name} {arguments}", check.run(name, *arguments), 2, part, f"muster {name} --help")
    run = check.run("bad\x1b[31mname")
    check.true("words cannot steer the terminal", "\x1b" not in run.err, repr(run.err))


def documents(check):
    page = read("docs", "man", "muster.1").replace("\\-", "-")
    completion = read("cli", "completion", "muster.bash")
    for name, options in SUBCOMMANDS.items():
        check.contains("the manual has the subcommand", page, f"muster {name}")
        check.true("the completion has the subcommand", re.search(rf"\b{name}\b", completion) is not None, name)
        for option in options:
            check.contains("the manual has the option", page, option)
            check.contains("the completion has the option", completion, option)
    for name in ["map", "scan"]:
        check.contains("the manual has the subcommand", page, f"muster {name}")
        options = re.findall(r"^  (--[a-z0-9-]+)", check.run(name, "--help").out, re.MULTILINE)
        check.true(f"{name} has options", len(options) > 10, str(options))
        for option in options:
            check.contains(f"the manual has the option of {name}", page, option)
            check.contains(f"the completion has the option of {name}", completion, option)
    for variable in ["MUSTER_SIM", "MUSTER_DEVICES", "MUSTER_LEASES", "MUSTER_SLICES", "MUSTER_BACKENDS", "MUSTER_POOL_MB_PER_STREAM", "MUSTER_CC", "MUSTER_CACHE"]:
        check.contains("the manual has the variable", page, variable)
    check.contains("the manual's version", page, f"muster {version_of_header()}")


check = Check()
help_texts(check)
versions(check)
mistakes(check)
documents(check)
check.finish()
