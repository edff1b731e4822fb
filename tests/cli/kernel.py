#!/usr/bin/env python3
"""`muster kernel build` and `muster kernel list`: what is put into a bundle, and what is said of what cannot be."""
import json
import os
import stat
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import ROOT, Check  # noqa: E402

SAXPY = os.path.join(ROOT, "examples", "kernels", "saxpy.c")
SIFT = os.path.join(ROOT, "examples", "kernels", "sift.c")
BUILD_OPTIONS = ["--output", "--entry", "--arch", "--no-source", "--no-object", "--no-opencl", "--no-cuda", "--json"]


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def forms(run):
    return [(form["kernel"], form["form"], form["compute"]) for form in json.loads(run.out)["forms"]]


def building(check, folder, environment):
    out = os.path.join(folder, "out.bundle")
    run = check.run("kernel", "build", SAXPY, "-o", out, "--no-cuda", "--json", environment=environment)
    check.equal("build", (run.code, run.err), (0, ""))
    expected = [("saxpy", "shared object", None), ("saxpy", "OpenCL C", None), ("saxpy", "portable", None)]
    check.equal("build --json: forms", forms(run), expected)
    check.equal("build --json: the file", json.loads(run.out)["file"], out)
    check.equal("build --json: nothing left out", json.loads(run.out)["left_out"], [])
    check.equal("list --json: the same", forms(check.run("kernel", "list", out, "--json")), expected)
    listed = check.run("kernel", "list", out)
    check.equal("list", (listed.code, listed.err), (0, ""))
    check.equal("list: a line for each and a head", len(listed.out.splitlines()), 4)
    check.contains("list: names the form", listed.out, "shared object")
    check.true("only the bundle is left there", os.listdir(folder) == ["out.bundle"] or
               sorted(os.listdir(folder)) == ["cache", "out.bundle"], str(os.listdir(folder)))

    run = check.run("kernel", "build", SAXPY, SIFT, "--output", out, "--entry", "sift", environment=environment)
    check.refused("a file without the entry", run, 2, "no kernel sift")
    run = check.run("kernel", "build", SAXPY, SIFT, "--output", out, "--no-cuda", "--no-object", "--no-opencl", "--json",
                    environment=environment)
    check.equal("two kernels in one bundle", forms(run), [("saxpy", "portable", None), ("sift", "portable", None)])
    again = os.path.join(folder, "again.bundle")
    run = check.run("kernel", "build", out, "-o", again, "--entry", "sift", "--no-cuda", "--no-source", "--json",
                    environment=environment)
    check.equal("a bundle from a bundle", forms(run), [("sift", "shared object", None), ("sift", "OpenCL C", None)])


def without_compilers(check, folder, environment):
    out = os.path.join(folder, "bare.bundle")
    bare = dict(environment, MUSTER_CC="/nonexistent/cc")
    run = check.run("kernel", "build", SAXPY, "-o", out, "--no-cuda", "--json", environment=bare)
    check.equal("without a compiler", run.code, 0)
    check.equal("without a compiler: forms", forms(run), [("saxpy", "OpenCL C", None), ("saxpy", "portable", None)])
    left = json.loads(run.out)["left_out"]
    check.equal("without a compiler: what is left out", [one["form"] for one in left], ["shared object"])
    check.contains("without a compiler: told", run.err, "left out shared object: MUSTER_CC is /nonexistent/cc")
    run = check.run("kernel", "build", SAXPY, "-o", out, "--no-cuda", environment={"MUSTER_CC": "/bin/true", "MUSTER_CACHE": ""})
    check.refused("a compiler that makes nothing", run, 2, "/bin/true", "no shared object", "MUSTER_CC")
    run = check.run("kernel", "build", SAXPY, "-o", out, "--no-source", "--no-cuda", "--no-opencl", "--no-object",
                    environment=environment)
    check.refused("nothing left", run, 2, "nothing is left")
    run = check.run("kernel", "build", SAXPY, "-o", out, "--arch", "1.0", environment=environment)
    check.equal("an architecture nobody compiles for", (run.code, run.out), (1, ""))
    check.contains("an architecture nobody compiles for", run.err, "NVRTC")


def refusals(check, folder, environment):
    out = os.path.join(folder, "never.bundle")
    wrong = write(folder, "wrong.c", "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL int *x)\n{\n    x[i] = nowhere;\n}\n")
    run = check.run("kernel", "build", wrong, "-o", out, "--no-cuda", environment=environment)
    check.refused("the compiler's words", run, 2, "wrong.c:3:", "error", "nowhere", "fix:")
    shape = write(folder, "shape.c", "MUSTER_KERNEL void f(uint64_t i, int *x) { }\n")
    check.refused("a parameter of the wrong shape", check.run("kernel", "list", shape), 2, "shape.c:1:", "MUSTER_GLOBAL")
    empty = write(folder, "empty.bundle", "")
    check.refused("an empty file", check.run("kernel", "list", empty), 2, "is empty")
    check.refused("no file", check.run("kernel", "list", os.path.join(folder, "none")), 2, "No such file")
    good = os.path.join(folder, "good.bundle")
    check.run("kernel", "build", SAXPY, "-o", good, "--no-cuda", "--no-object", environment=environment)
    with open(good, "rb") as file:
        content = file.read()
    for name, damaged in [("cut", content[:-1]), ("short", content[:20]),
                          ("flipped", content[:200] + bytes([content[200] ^ 1]) + content[201:])]:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(damaged)
        check.refused(f"a bundle that is {name}", check.run("kernel", "list", path), 2, "damaged bundle", "fix:")
    run = check.run("kernel", "build", SAXPY, "-o", "/nonexistent/out", "--no-cuda", "--no-object", environment=environment)
    check.refused("nowhere to write", run, 1, "/nonexistent/out could not be written")
    for name in ["noise.cubin", "noise.fatbin", "noise.ptx", "noise.cl", "noise.cu", "noise.c", "noise.so"]:
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(b"\x01\x00noise" * 100)
        run = check.run("kernel", "build", path, "--entry", "f", "-o", out, environment=environment)
        check.refused(f"{name}", run, 2, name, "fix:")
    check.true("nothing was written", not os.path.exists(out))


def places(check, folder, environment):
    """What is there already is replaced only if it is a file, and a link stays one."""
    build = ["kernel", "build", SAXPY, "--no-cuda", "--no-object", "-o"]
    pipe, link, target = (os.path.join(folder, name) for name in ["pipe", "link", "target"])
    os.mkfifo(pipe)
    check.refused("a pipe", check.run(*build, pipe, environment=environment), 1, "is not a regular file and cannot be replaced")
    check.true("it is still one", stat.S_ISFIFO(os.stat(pipe).st_mode))
    os.symlink(target, link)
    write(folder, "target", "before")
    check.equal("through a link", check.run(*build, link, environment=environment).code, 0)
    check.true("the link is still one", os.path.islink(link))
    check.equal("its target is a bundle", check.run("kernel", "list", target).code, 0)
    check.refused("a folder", check.run(*build, folder, environment=environment), 1, "directory")
    check.equal("nothing else is left", sorted(os.listdir(folder)), ["link", "pipe", "target"])


def usage(check):
    for arguments, part in [([], "build, check or list"), (["frobnicate"], "'kernel frobnicate'"), (["build"], "FILE"),
                            (["build", SAXPY], "--output"), (["list"], "FILE"), (["list", "a", "b"], "'b'"),
                            (["build", SAXPY, "-o"], "needs a value"), (["build", SAXPY, "-x"], "-x"),
                            (["build", SAXPY, "-o", "x", "--arch", "nine"], "'nine'"),
                            (["build", SAXPY, "-o", "x", "--arch", "9.0,"], "'9.0,'"),
                            (["build", SAXPY, "-o", "x", "--output", "y"], "twice")]:
        check.refused(f"kernel {arguments}", check.run("kernel", *arguments), 2, part, "--help")
    for name in [["kernel"], ["kernel", "build"], ["kernel", "list"]]:
        run = check.run(*name, "--help")
        check.equal(f"{name} --help", (run.code, run.err), (0, ""))
        check.contains(f"{name} --help", run.out, "Usage: muster " + " ".join(name))
    check.equal("help kernel", check.run("help", "kernel"), check.run("kernel", "--help"))
    check.equal("help kernel build", check.run("help", "kernel", "build"), check.run("kernel", "build", "--help"))
    check.refused("help kernel frobnicate", check.run("help", "kernel", "frobnicate"), 2, "'kernel frobnicate'")
    with open(os.path.join(ROOT, "docs", "man", "muster.1")) as file:
        page = file.read().replace("\\-", "-")
    text = check.run("kernel", "build", "--help").out
    for option in BUILD_OPTIONS:
        check.contains("help has the option", text, f"  {option}")
        check.contains("the manual has the option", page, option)
    check.contains("the manual has the subcommand", page, "muster kernel list")


check = Check()
with tempfile.TemporaryDirectory() as top:
    settings = {"MUSTER_CACHE": os.path.join(top, "cache")}
    for number, part in enumerate([building, without_compilers, refusals, places]):
        place = os.path.join(top, str(number))
        os.mkdir(place)
        part(check, place, settings)
usage(check)
check.finish()
