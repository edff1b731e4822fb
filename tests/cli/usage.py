#!/usr/bin/env python3
"""Help, version and mistakes; and that manual and help know the same options."""
import json
import os
import re
import sys

sys.dont_write_bytecode = True
from lib.check import ROOT, Check  # noqa: E402

SUBCOMMANDS = {"devices": {"--all", "--devices", "--slices", "--json"}, "partition": {"--total", "--devices", "--json"},
               "exec": {"--policy", "--min-free", "--min-cc", "--backend", "--devices", "--wait", "--from", "--joblog", "--resume",
                        "--resume-failed", "--jobs", "--keep-order", "--halt", "--dry-run", "--list", "--json"},
               "bench": {"--quick", "--devices", "--everyone", "--json"}, "version": {"--json"},
               "top": {"--once", "--sort", "--interval", "--json"}, "serve": {"--listen", "--token-file", "--host", "--json"},
               "sim": {"--seed", "--json", "--trace", "--timeline", "--everyone", "--runs"}, "help": set()}


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
        check.equal(f"{words} --help: a blank after each option's letter", re.findall(r"^  --\S+, -\w\w.*", text, re.MULTILINE), [])
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
    for arguments, meant in [(["sacn"], "scan"), (["help", "devcies"], "devices"), (["kernel", "biuld"], "build"), (["map", "--evryone"], "--everyone"),
                             (["exec", "--form", "x"], "--from"), (["pick", "--polcy=x"], "--policy")]:
        check.refused(f"{arguments}: a slip", check.run(*arguments), 2, f"did you mean {meant}?")
    for arguments in [["frobnicate", "--json"], ["map", "--frobnicate", "--json"], ["scan", "--json", "--unit", "much", "x"],
                      ["pick", "--devices", "nope", "--json"], ["devices", "--json", "--devices", "sim:77"]]:
        run = check.run(*arguments)
        failure = json.loads(run.out)
        check.equal(f"{arguments}: a failure as JSON", (list(failure), run.out.count("\n")), (["status", "text", "fix"], 1))
        check.true(f"{arguments}: its status", failure["status"].startswith("MUSTER_E_") and failure["text"] and failure["fix"], run.out)
        check.contains(f"{arguments}: stderr says the same", run.err, failure["text"])
    check.equal("other commands' words are theirs", check.run("exec", "--devices", "nope", "--", "true", "--json").out, "")
    run = check.run("bad\x1b[31mname")
    check.true("words cannot steer the terminal", "\x1b" not in run.err, repr(run.err))


def documents(check):
    page = read("docs", "man", "muster.1").replace("\\-", "-")
    for name, options in SUBCOMMANDS.items():
        check.contains("the manual has the subcommand", page, f"muster {name}")
        for option in options:
            check.contains("the manual has the option", page, option)
    for name in ["map", "reduce", "scan"]:
        check.contains("the manual has the subcommand", page, f"muster {name}")
        options = re.findall(r"^  (--[a-z0-9-]+)", check.run(name, "--help").out, re.MULTILINE)
        check.true(f"{name} has options", len(options) > 10, str(options))
        for option in options:
            check.contains(f"the manual has the option of {name}", page, option)
    for variable in ["MUSTER_SIM", "MUSTER_DEVICES", "MUSTER_LEASES", "MUSTER_SLICES", "MUSTER_BACKENDS", "MUSTER_POOL_MB_PER_STREAM", "MUSTER_CC", "MUSTER_CACHE"]:
        check.contains("the manual has the variable", page, variable)
    check.contains("the manual's version", page, f"muster {version_of_header()}")


check = Check()
help_texts(check)
versions(check)
mistakes(check)
documents(check)
check.finish()
