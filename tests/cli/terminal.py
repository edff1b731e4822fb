#!/usr/bin/env python3
"""Nothing that a name or a message brings along steers the terminal: file names, kernel names, device names, words of compilers."""
import json
import os
import re
import pty
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import TIME_LIMIT_S, Check, clean_environment  # noqa: E402

# An escape sequence, delete, C1 as UTF-8 and as a byte, a forged message, a return over what was there before.
EVIL = [b"a\x1b[31mb", b"a\x7fb", "a\u009b31mb".encode(), b"a\x9b31mb", b"a\nmuster: all is well\nb", b"a\rb", b"a\x08\x08b"]
SCALE = "MUSTER_KERNEL void scale(uint64_t i, MUSTER_GLOBAL float *x) { x[i] *= 2; }\n"


def run(check, *arguments, **environment):
    done = subprocess.run([os.fsencode(check.muster), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=TIME_LIMIT_S, env=clean_environment(**environment))
    return done.returncode, done.stdout, done.stderr


def clean(check, what, text, lines=None):
    """UTF-8 without a control character but the newlines that end its lines."""
    try:
        characters = text.decode()
    except UnicodeDecodeError as error:
        check.true(f"{what}: UTF-8", False, str(error))
        return
    # The colours of what scan finds are its own.
    characters = re.sub("\x1b\\[(35|36|32|01;31)?m\x1b\\[K", "", characters)
    wrong = [c for c in characters if ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160]
    check.true(f"{what}: no control characters", not wrong, repr(characters[:300]))
    check.true(f"{what}: nothing forged", "\nmuster: all is well" not in characters, repr(characters[:300]))
    if lines is not None:
        check.equal(f"{what}: lines", characters.count("\n"), lines)


def refused(check, what, *arguments, lines=None, **environment):
    code, out, err = run(check, *arguments, **environment)
    check.true(f"{what}: refused", code in (1, 2, 3), str(code))
    check.equal(f"{what}: stdout", out, b"")
    clean(check, what, err, lines)


def command_line(check, evil):
    refused(check, "an unknown command", evil, lines=2)
    refused(check, "an unknown policy", b"pick", b"--policy", evil)
    refused(check, "an unknown option", b"map", b"--" + evil, lines=2)
    refused(check, "an unknown backend", b"devices", b"--backend", evil)
    refused(check, "an unknown device", b"map", b"--kernel", b"x", b"--devices", evil)
    refused(check, "a number", b"partition", b"--total", evil, b"--devices", b"1")


def files(check, evil, folder):
    path = os.path.join(os.fsencode(folder), evil)
    for arguments in [[b"kernel", b"list"], [b"sim"], [b"scan", b"-e", b"x"], [b"kernel", b"build", b"-o", b"/dev/null"]]:
        refused(check, f"{arguments[0]}: no such file", *arguments, path)
    with open(path + b".c", "w") as file:
        file.write(SCALE)
    code, out, err = run(check, b"kernel", b"list", path + b".c")
    check.equal("kernel list", code, 0)
    clean(check, "kernel list", out + err)
    with open(path + b".bad", "w") as file:
        file.write("{")
    refused(check, "a scenario that is none", b"sim", path + b".bad")
    # What the compiler says names the file, and shows its line.
    with open(path + b".c", "wb") as file:
        file.write(SCALE.replace("x[i] *= 2;", "x[i] = nowhere; /* ").encode() + evil.replace(b"\n", b"") + b" */ }\n")
    refused(check, "a compiler's words", b"kernel", b"build", b"--no-cuda", b"-o", b"/dev/null", path + b".c")
    # Of a source that is refused the message shows a piece.
    with open(path + b".c", "wb") as file:
        file.write(b"#pragma " + evil.replace(b"\n", b" \\\n ") + b"\n" + SCALE.encode())
    refused(check, "a directive that is shown", b"kernel", b"list", path + b".c")
    with open(path + b".c", "w") as file:
        file.write(SCALE)
    _, out, err = run(check, b"kernel", b"build", b"--no-cuda", b"-o", b"/dev/null", path + b".c", MUSTER_CC=path)
    check.contains("a compiler that is none", err, b"MUSTER_CC")
    clean(check, "a compiler that is none", out + err)


def names(check, evil):
    name = evil.decode(errors="surrogateescape").encode("utf-8", "replace").decode()
    scenario = {"devices": [{"name": name, "items_per_s": 1e6}], "job": {"items": 100}}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "scenario")
        with open(path, "w") as file:
            json.dump(scenario, file)
        for more in [[], ["--json"]]:
            code, out, err = run(check, "sim", path, *more)
            # A scenario's names have no C0 controls at all.
            check.true("sim with such a name", code in (0, 2), str(code))
            clean(check, f"sim {more}", out + err)
            if more and code == 0:
                check.equal("sim: JSON has the name as it is", json.loads(out)["devices"][0]["name"], name)
        for more in [[], ["--json"]]:
            code, out, err = run(check, "devices", "--backend", "sim", *more, MUSTER_SIM=json.dumps(scenario["devices"]))
            check.true("devices with such a name", code in (0, 2), str(code))
            clean(check, f"devices {more}", out + err)


def scanning(check, evil, folder):
    """grep's answers byte for byte where nobody looks; on a terminal the names are made safe."""
    paths = [os.path.join(os.fsencode(folder), evil + end) for end in (b".1", b".2")]
    for path in paths:
        with open(path, "w") as file:
            file.write("needle\n")
    arguments = [b"scan", b"-e", b"needle", *paths]
    code, out, err = run(check, *arguments)
    check.equal("scan: as grep has it", (code, out, err), (0, b"".join(path + b":needle\n" for path in paths), b""))
    for more in [[], [b"-c"]]:
        control, terminal = pty.openpty()
        subprocess.run([os.fsencode(check.muster), *arguments, *more], stdin=subprocess.DEVNULL, stdout=terminal,
                       timeout=TIME_LIMIT_S, env=clean_environment(), check=True)
        os.close(terminal)
        clean(check, f"scan {more} on a terminal", os.read(control, 65536).replace(b"\r\n", b"\n"), 2)
        os.close(control)


def leases(check, evil):
    """What holds a device is told to other users, in the words of its own command line."""
    argument = evil.replace(b"\0", b"")
    sim = json.dumps([{"name": "one", "items_per_s": 1e6}])
    with tempfile.TemporaryDirectory() as folder:
        environment = {"MUSTER_LEASES": folder, "MUSTER_SIM": sim}
        holder = subprocess.Popen([os.fsencode(check.muster), b"exec", b"--device", b"sim:0", b"--", b"sh", b"-c",
                                   b"echo held; read x", argument], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env=clean_environment(**environment))
        check.equal("the device is held", holder.stdout.readline(), b"held\n")
        refused(check, "a leased device", b"exec", b"--device", b"sim:0", b"--", b"true", **environment)
        for more in [[], [b"--json"]]:
            code, out, err = run(check, b"exec", b"--list", *more, **environment)
            check.equal("exec --list", code, 0)
            clean(check, f"exec --list {more}", out + err)
        holder.communicate(b"\n", timeout=TIME_LIMIT_S)


def main():
    check = Check()
    for evil in EVIL:
        command_line(check, evil)
        names(check, evil)
        with tempfile.TemporaryDirectory() as folder:
            files(check, evil, folder)
            scanning(check, evil, folder)
    for evil in EVIL[2:5]:
        leases(check, evil)
    check.finish()


if __name__ == "__main__":
    main()
