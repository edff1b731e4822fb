#!/usr/bin/env python3
"""Completions of bash, zsh and fish: subcommands, options, values after a blank and after =, device ids, files, and the line of
another command. What a shell offers is compared with what the command's own tables have."""
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from lib.check import ROOT, Check, clean_environment  # noqa: E402

FOLDER = os.path.join(ROOT, "cli", "completion")
SIM = '[{"items_per_s": 1e6, "count": 2}]'


def environment(check, folder):
    """The command under its own name, and simulated devices for ids that are the same everywhere."""
    return clean_environment(PATH=f"{folder}/bin:{os.environ['PATH']}", MUSTER_SIM=SIM, MUSTER_DEVICES="", HOME=folder, TERM="xterm",
                             LC_ALL="C", ZDOTDIR=folder, XDG_CONFIG_HOME=folder, XDG_DATA_HOME=folder)


def bash(check, folder, line):
    """bash cuts words at = and : too, and replaces only the last of them."""
    words = re.findall(r"[=:]+|[^\s=:]+", line)
    if line[-1].isspace() or line[-1] in "=:":
        words.append("")
    script = ('source "$0"; COMP_LINE=$1; COMP_POINT=${#1}; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
              '_muster; printf "%s\\n" "${COMPREPLY[@]}"')
    done = subprocess.run(["bash", "-c", script, os.path.join(FOLDER, "muster.bash"), line, *words], cwd=folder,
                          env=environment(check, folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=True)
    found = {word for word in done.stdout.decode().split("\n") if word}
    kept = re.sub(r"[^=:]*$", "", line.split(" ")[-1])
    return {kept + word for word in found}


def zsh(check, folder, line):
    """A real zsh on a terminal: the line after a tab, put between marks and printed. For what has one answer."""
    control, terminal = pty.openpty()
    process = subprocess.Popen(["zsh", "-f", "-i"], cwd=folder, env=environment(check, folder), stdin=terminal, stdout=terminal,
                               stderr=terminal, start_new_session=True)
    os.close(terminal)
    seen = b""

    def wait_for(mark):
        nonlocal seen
        end = time.monotonic() + 30
        while mark not in seen and time.monotonic() < end and select.select([control], [], [], 5)[0]:
            seen += os.read(control, 65536)
        return mark in seen

    os.write(control, f"PS1=; fpath=({FOLDER} $fpath); autoload -Uz compinit; compinit -u -D; print rea''dy\n".encode())
    found = set()
    if wait_for(b"ready\r\n"):
        os.write(control, line.encode() + b"\t\x01print -r -- '<\x05>' do''ne\n")
        if wait_for(b"done\r\n"):
            completed = seen[:seen.rindex(b"done\r\n")].rsplit(b"\r\n", 1)[-1]
            match = re.search(rb"<(.*)> $", completed)
            found = {match[1].decode()[len(line) - len(line.split(" ")[-1]):].rstrip(" ")} if match else {repr(completed)}
    process.kill()
    process.wait()
    os.close(control)
    return found


def fish(check, folder, line):
    done = subprocess.run(["fish", "--no-config", "-c", f"source {FOLDER}/muster.fish; complete -C {line!r}"], cwd=folder,
                          env=environment(check, folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=True)
    return {word.split("\t")[0] for word in done.stdout.decode().splitlines()}


def options_of(check, *command):
    return set(re.findall(r"^  (--[a-z0-9-]+)", check.run(*command, "--help").out, re.MULTILINE))


def compare(check, folder, name, complete):
    commands = set(re.findall(r"^  ([a-z]+) ", check.run("--help").out, re.MULTILINE))
    policies = {"adaptive", "round-robin", "least-loaded", "weighted", "earliest-finish", "sticky"}
    ids = {"sim", "sim:0", "sim:1"}
    cases = [
        ("muster sca", {"scan"}),
        ("muster map --no", {"--no-speculation"}),
        ("muster scan --files-with", {"--files-with-matches", "--files-without-match"}),
        ("muster pick --policy ", policies),
        ("muster map --policy=cl", {"--policy=claim"}),
        ("muster scan --devices sim", ids),
        ("muster scan --devices=sim:", {"--devices=sim:0", "--devices=sim:1"}),
        ("muster exec --devices cpu:0,si", {"cpu:0," + word for word in ids}),
        ("muster scan --color=al", {"--color=always"}),
        ("muster kernel ch", {"check"}),
        ("muster help expl", {"explain"}),
        ("muster scan foo some", {"some file.txt"}),
        ("muster map --kernel some", {"some file.txt"}),
        ("muster pick --min-free ", set()),
    ]
    if name == "zsh":
        cases = [("muster sca", {"scan"}), ("muster scan foo some", {"some file.txt"})]
        cases += [("muster scan --devices=sim:0,sim:", {"--devices=sim:0,sim:"}), ("muster exec -- muste", {"muster"})]
    else:
        cases += [("muster ", commands | ({"--help", "--version", "--isolate", "--untrusted"})), ("muster scan --", options_of(check, "scan")),
                  ("muster kernel check --", options_of(check, "kernel", "check")), ("muster exec -- ca", None)]
    for line, expected in cases:
        actual = {word.replace("\\ ", " ") for word in complete(check, folder, line)}
        if expected is None:
            check.true(f"{name}: {line!r} is another command's line", {"cat"} <= actual, str(sorted(actual))[:300])
        else:
            check.equal(f"{name}: {line!r}", sorted(actual), sorted(expected))


def installed(check):
    """Each in the place where its shell looks."""
    with open(os.path.join(ROOT, "cmake", "install.cmake")) as file:
        rules = file.read()
    for place in ["bash-completion/completions RENAME muster", "zsh/site-functions", "fish/vendor_completions.d"]:
        check.contains("installed", rules, place)


check = Check()
with tempfile.TemporaryDirectory() as folder:
    os.mkdir(os.path.join(folder, "bin"))
    os.symlink(os.path.abspath(check.muster), os.path.join(folder, "bin", "muster"))
    with open(os.path.join(folder, "some file.txt"), "w"):
        pass
    compare(check, folder, "bash", bash)
    for name, complete in [("zsh", zsh), ("fish", fish)]:
        if check.is_sanitized():
            continue  # The command is the same as for bash.
        if shutil.which(name):
            compare(check, folder, name, complete)
        else:
            print(f"not tested: {name}, which is not installed")
installed(check)
check.finish()
