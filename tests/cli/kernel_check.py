#!/usr/bin/env python3
"""`muster kernel check`: fifteen wrong kernels, each named, and fifteen right ones, none named."""
import concurrent.futures
import json
import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import ROOT, Check  # noqa: E402

HEAD = "#include <muster_kernel.h>\n"
FLOATS = "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *out)\n"
WORDS = "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out)\n"
EXAMPLES = os.path.join(ROOT, "examples", "kernels")

# Each with what is found, the text that must be said of it, and options.
WRONG = {
    "histogram": (WORDS.replace("*out", "*counts") + "{ counts[in[i]]++; }",
                  "shared-write", "both write element", []),
    "sum into one element": (FLOATS + "{ out[0] += in[i]; }", "shared-write", "element 0 of out", []),
    "shifted by one": (FLOATS + "{ out[i + 1] = in[i]; }", "foreign-write", "item 0 writes element 1 of out", []),
    "reversed": (WORDS.replace("*out)", "*out, uint32_t n)") + "{ out[n - 1 - i] = in[i]; }",
                 "foreign-write", "item 0 writes element 63 of out", []),
    "some unwritten": (WORDS + "{ if (i != 17) out[i] = in[i]; }",
                       "unwritten", "item 17 does not write element 17 of out", []),
    "half of each item": (WORDS + "{ out[2 * i + 1] = in[i]; }", "unwritten", "element 0 of out", []),
    "read before it is written": (FLOATS + "{ out[i] += in[i]; }", "read-before-write", "item 0 reads out", []),
    "running sum": (FLOATS + "{ out[i] = in[i] + (i > 0 ? out[i - 1] : 0.0f); }",
                    "order", "item 1 reads element 0 of out", []),
    "neighbour without a halo": (FLOATS + "{ out[i] = in[i] + in[i + 1]; }", "neighbour", "element 1 of in", []),
    "one beyond the end, of no effect": (FLOATS + "{ float x = in[i + 1]; out[i] = in[i]; if (x > 1e30f) out[i] = 1; }",
                                         "outside", "item 63 reads element 64 of in, beyond its end", []),
    "a const that is written": (FLOATS + "{ *(MUSTER_GLOBAL float *)(in + i) = 1.0f; out[i] = 2.0f; }",
                                "const-write", "item 0 writes element 0 of in", []),
    "a variable between items": ("static uint32_t calls;\n" + WORDS + "{ out[i] = in[i] + calls++; }",
                                 "state", "another result when it is run again", []),
    "a division by zero": (WORDS + "{ out[i] = in[i] / (uint32_t)(i - i / 5 * 5); }", "crash", "item 0 divides by zero", []),
    "a loop without an end": (WORDS + "{ uint32_t k = in[i]; while (k != 0) k = k * 3u | 1u; out[i] = k; }",
                              "endless", "item 0 of kernel f alone does not end", ["--time-limit", "1"]),
    "an address of its own": (WORDS + "{ out[i] = *(MUSTER_GLOBAL uint32_t *)(uint64_t)(in[i] * 8u); }",
                              "crash", "outside all arrays", []),
}

# Each with options.
RIGHT = {
    "scale": (FLOATS + "{ out[i] = in[i] * 3.0f; }", []),
    "saxpy": (open(os.path.join(EXAMPLES, "saxpy.c")).read(), ["--inout", "y", "-a", "a=2"]),
    "rows": (open(os.path.join(EXAMPLES, "delta.c")).read(), []),
    "frames": (open(os.path.join(EXAMPLES, "edges.c")).read(), []),
    "only a result": (open(os.path.join(EXAMPLES, "mandelbrot.c")).read(), ["-a", "width=16", "-a", "height=4"]),
    "a table": ("MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const uint8_t *in, MUSTER_GLOBAL const uint16_t *table,\n"
                "                     MUSTER_GLOBAL uint16_t *out)\n{ out[i] = table[in[i]]; }", []),
    "neighbours with a halo": (FLOATS + "{ out[i] = (*(in + i - 1) + in[i] + in[i + 1]) / 3.0f; }", ["--halo", "1"]),
    "three elements an item": ("MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const uint8_t *rgb, MUSTER_GLOBAL uint8_t *grey)\n"
                               "{ grey[i] = (uint8_t)((rgb[3 * i] + 2 * rgb[3 * i + 1] + rgb[3 * i + 2]) / 4); }", []),
    "conditional update": (FLOATS.replace("*out", "*x") + "{ if (in[i] > 0.0f) x[i] = in[i]; }", ["--inout", "x"]),
    "two results": ("MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *low,\n"
                    "                     MUSTER_GLOBAL uint32_t *bits)\n"
                    "{ low[i] = muster_min(in[i], 0.5f); bits[i] = muster_float_bits(in[i]); }", []),
    "structs": ("struct point { float x, y; uint8_t tag; };\n"
                "MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const struct point *in, MUSTER_GLOBAL struct point *out)\n"
                "{ struct point p = in[i]; out[i].x = p.y; out[i].y = p.x; out[i].tag = p.tag; }", []),
    "matrix times vector": ("MUSTER_KERNEL void f(uint64_t row, MUSTER_GLOBAL const float *matrix, MUSTER_GLOBAL const float *x,\n"
                            "                     MUSTER_GLOBAL float *y, uint32_t n)\n"
                            "{ float sum = 0; for (uint32_t k = 0; k < n; k++) sum += matrix[row * n + k] * x[k]; y[row] = sum; }",
                            ["-a", "n=5"]),
    "random numbers": ("MUSTER_KERNEL void f(uint64_t i, uint64_t seed, MUSTER_GLOBAL float *out)\n"
                       "{ out[i] = muster_random_float(seed, i); }", []),
    "an array of its own": (WORDS + "{ uint32_t own[8]; for (uint32_t k = 0; k < 8; k++) own[k] = in[i] >> k;\n"
                            "  uint32_t sum = 0; for (uint32_t k = 0; k < 8; k++) sum += own[(k + i) % 8]; out[i] = sum; }", []),
    "bounds of its own": (FLOATS.replace("*out)", "*out, uint64_t items)") +
                          "{ out[i] = in[i] / (float)items + (i + 1 < items ? 1.0f : 0.0f); }", []),
}


CELLS = "MUSTER_KERNEL void f(uint64_t i, struct muster_cell at, MUSTER_GLOBAL const int32_t *in, MUSTER_GLOBAL int32_t *out)\n"
NEAR = "muster_near(in, i, at, %s)"
SUM = ("MUSTER_KERNEL void f(uint64_t i, MUSTER_GLOBAL const float *x, MUSTER_PARTIAL float *all) { *all += x[i]; }\n"
       "MUSTER_COMBINE void f_combine(MUSTER_PARTIAL float *into, MUSTER_PARTIAL const float *from) { *into += *from; }")

# Grids and reductions, as above.
WRONG_MORE = {
    "cells without a halo": (CELLS + f"{{ out[i] = {NEAR % '1, 0'}; }}", "neighbour", "beyond the halo of 0", []),
    "a function reads further": ("static int32_t get(MUSTER_GLOBAL const int32_t *a, uint64_t i, struct muster_cell at, int32_t d)\n"
                                 "{ return muster_near(a, i, at, d, 0); }\n" + CELLS + "{ out[i] = get(in, i, at, -3); }",
                                 "neighbour", "beyond the halo of 2", ["--halo", "2"]),
    "rows further away": (CELLS + f"{{ out[i] = {NEAR % '0, -2'}; }}", "neighbour", "beyond its own range", ["--halo", "1"]),
    "a distance that data choose": (CELLS + f"{{ out[i] = {NEAR % 'in[i], 0'}; }}", "neighbour", "beyond the halo of 1", ["--halo", "1"]),
    "a plane that is none": (CELLS + "{ out[i] = muster_near_3d(in, i, at, 0, 0, 1); }", "neighbour", "element 64 of in",
                             ["--halo", "1", "--grid", "8x8"]),
    "beside pictures": (CELLS + f"{{ out[i] = {NEAR % '0, 1'} + {NEAR % '2, 0'}; }}", "neighbour", "beyond the halo of 1",
                        ["--halo", "1", "--pictures"]),
    "a cell that is another's": (CELLS + "{ if (at.x > 0) out[i - 1] = in[i]; }", "foreign-write", "element 0 of out", []),
    "the next of a sum": (SUM.replace("x[i];", "x[i + 1];"), "neighbour", "element 1 of x", []),
    "no identity": (SUM.replace("+= *from", "*= *from"), "identity", "changes its result", []),
    "the last one": (SUM.replace("+=", "="), "order", "in the other order", []),
    "sums in turn": (SUM.replace("*into += *from", "*into = *from - *into"), "order", "in the other order", []),
}
RIGHT_MORE = {
    "Jacobi": (CELLS + "{ out[i] = %s + %s + %s + %s; }" % tuple(NEAR % at for at in ["0, -1", "-1, 0", "1, 0", "0, 1"]),
               ["--halo", "1"]),
    "a volume": (CELLS + f"{{ out[i] = 4 * in[i] - {NEAR % '-1, 0'} - {NEAR % '0, 1'} - muster_near_3d(in, i, at, 0, 0, -1)\n"
                 "- muster_near_3d(in, i, at, 0, 0, 1); }", ["--halo", "1"]),
    "pictures": (CELLS + f"{{ out[i] = {NEAR % '1, 1'} - {NEAR % '-1, -1'} + (int32_t)at.plane; }}", ["--halo", "1", "--pictures"]),
    "of a radius": (CELLS.replace("cell at,", "cell at, int32_t r,") +
                    "{ int32_t s = 0; for (int32_t y = -r; y <= r; y++) for (int32_t x = -r; x <= r; x++)\n"
                    "  s += muster_near(in, i, at, x, y); out[i] = s; }", ["--halo", "2", "-a", "r=2"]),
    "a sum": (SUM, []),
    "places": (open(os.path.join(EXAMPLES, "extremes.c")).read(), []),
    "the ten largest": (open(os.path.join(EXAMPLES, "top.c")).read(), []),
}


def write(folder, name, text):
    path = os.path.join(folder, name.replace(" ", "_").replace(",", "") + ".c")
    with open(path, "w") as file:
        file.write(text if text.startswith(("#", "/*")) else HEAD + text)
    return path


def run_all(check, folder, environment, kernels):
    """All of them, two at a time."""
    def one(name):
        path = write(folder, name, kernels[name][0] + "\n")
        return name, check.run("kernel", "check", path, "--json", "--devices", "cpu", "--no-cuda", *kernels[name][-1],
                               environment=environment)
    # Sanitizers see the same code in every third.
    names = list(kernels)[::3] if check.is_sanitized() else list(kernels)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(pool.map(one, names))


def wrong(check, folder, environment):
    check.equal("fifteen wrong kernels", len(WRONG), 15)
    kernels = {**WRONG, **WRONG_MORE}
    for name, run in run_all(check, folder, environment, kernels).items():
        kind, text = kernels[name][1:3]
        if not check.equal(f"{name}: exit code", run.code, 1):
            print(run.out, run.err)
            continue
        findings = json.loads(run.out)["kernels"][0]["findings"]
        check.true(f"{name}: {kind}", kind in [one["kind"] for one in findings], str(findings))
        check.true(f"{name}: the text", any(text in one["text"] for one in findings if one["kind"] == kind), str(findings))
        check.true(f"{name}: what to do", all(one["fix"] for one in findings), str(findings))


def right(check, folder, environment):
    for name, run in run_all(check, folder, environment, {**RIGHT, **RIGHT_MORE}).items():
        check.equal(f"{name}: exit code", run.code, 0)
        kernel = json.loads(run.out)["kernels"][0] if run.out else {}
        check.equal(f"{name}: nothing is named", (kernel.get("status"), kernel.get("findings")), ("ok", []))
        check.equal(f"{name}: ran on the device", [one["id"] for one in kernel.get("devices", [])], ["cpu:0"])
    check.equal("fifteen right kernels", len(RIGHT), 15)


def uses(check, folder, environment):
    """How each parameter is to be passed is found out."""
    def of(name, *options):
        path = write(folder, name, RIGHT[name][0] + "\n")
        run = check.run("kernel", "check", path, "--json", "--devices", "cpu", "--no-cuda", *RIGHT[name][1], *options,
                        environment=environment)
        return {one["name"]: (one["use"], one["elements"], one["halo"]) for one in json.loads(run.out)["kernels"][0]["parameters"]}
    check.equal("a table", of("a table"), {"in": ("MUSTER_IN", 1, 0), "table": ("MUSTER_ALL", 0, 0), "out": ("MUSTER_OUT", 1, 0)})
    check.equal("rows", of("rows"), {"in": ("MUSTER_IN", 256, 0), "out": ("MUSTER_OUT", 256, 0)})
    check.equal("a halo", of("neighbours with a halo")["in"], ("MUSTER_IN", 1, 1))
    check.equal("read and written", of("saxpy")["y"], ("MUSTER_INOUT", 1, 0))
    check.equal("of one's own saying", of("scale", "--elements", "in=2", "--items", "8")["in"], ("MUSTER_IN", 2, 0))


def text(check, folder, environment):
    path = write(folder, "two", "MUSTER_KERNEL void good(uint64_t i, MUSTER_GLOBAL float *out) { out[i] = 1.0f; }\n"
                 "MUSTER_KERNEL void bad(uint64_t i, MUSTER_GLOBAL float *out) { out[i + 1] = 1.0f; }\n")
    run = check.run("kernel", "check", path, "--devices", "cpu", environment=environment)
    check.equal("two kernels: exit code", run.code, 1)
    check.contains("two kernels: the good one", run.out, "kernel good: nothing wrong was found")
    check.contains("two kernels: the bad one", run.out, "wrong: item 0 writes element 1 of out, which belongs to item 1\n    fix: ")
    run = check.run("kernel", "check", path, "--devices", "cpu", "--entry", "good", environment=environment)
    check.equal("one of two", (run.code, "bad" in run.out), (0, False))
    # A warning of the compiler's is shown, once; the kernel is right for all that.
    path = write(folder, "warned", FLOATS + "{ float unused; out[i] = in[i]; }\n")
    for turn in ["compiled", "found in the cache"]:
        run = check.run("kernel", "check", path, "--devices", "cpu", environment=environment)
        check.equal(f"a warning, {turn}", (run.code, run.err.count("unused variable")), (0, 1))


def devices_that_differ(check, folder, environment):
    found = json.loads(check.run("devices", "--all", "--json").out)["devices"]
    if not any(device["backend"] == "opencl" for device in found):
        print("no OpenCL here: devices are not compared")
        return
    path = write(folder, "differs", "#ifdef __OPENCL_VERSION__\n#define GAIN 2.0f\n#else\n#define GAIN 3.0f\n#endif\n" +
                 FLOATS + "{ out[i] = in[i] * GAIN; }\n")
    run = check.run("kernel", "check", path, "--json", "--no-cuda", environment=environment)
    findings = json.loads(run.out)["kernels"][0]["findings"]
    check.equal("devices differ", (run.code, [one["kind"] for one in findings]), (1, ["devices-differ"]))
    check.contains("devices differ: which", findings[0]["text"], "opencl:")
    # What the C compiler takes and OpenCL's does not is a bad file.
    path = write(folder, "refused_there", FLOATS + "{ static float seen; seen = in[i]; out[i] = seen; }\n")
    run = check.run("kernel", "check", path, "--json", "--no-cuda", environment=environment)
    findings = json.loads(run.out)["kernels"][0]["findings"]
    check.equal("a driver's refusal", (run.code, [one["kind"] for one in findings]), (2, ["refused"]))
    check.contains("a driver's refusal: which", findings[0]["text"], "opencl:")


def refusals(check, folder, environment):
    cases = [("exp", FLOATS + "{ out[i] = exp(in[i]); }", ["exp.c:3:", "'exp'", "fix:"]),
             ("drand48", FLOATS + "{ out[i] = in[i] + (float)drand48(); }", ["drand48.c:3:", "'drand48'", "muster_random"]),
             ("misspelt", FLOATS + "{ out[i] = muster_squrt(in[i]); }", ["'muster_squrt'", "did you mean muster_sqrt?"]),
             ("compiler", FLOATS + "{ out[i] = nowhere; }", ["compiler.c:3:", "nowhere", "fix:"])]
    for name, source, parts in cases:
        run = check.run("kernel", "check", write(folder, name, source + "\n"), "--devices", "cpu", "--no-cuda", environment=environment)
        check.equal(f"{name}: exit code", run.code, 2)
        for part in parts:
            check.contains(f"{name}: message", run.err, part)
    path = write(folder, "fine", FLOATS + "{ out[i] = in[i]; }\n")
    for options, part in [(["--arg", "x=1"], "names no value"), (["--inout", "nobody"], "names no pointer"),
                          (["--elements", "in=none"], "--elements"), (["--items", "1"], "--items"), (["--halo", "99"], "--halo"),
                          (["--time-limit", "0"], "--time-limit"), (["--grid", "8"], "--grid takes"),
                          (["--grid", "4x4x4", "--pictures"], "two dimensions"), (["--entry", "g"], "no kernel g"),
                          (["--log", "/nonexistent/log"], "--log")]:
        run = check.run("kernel", "check", path, "--devices", "cpu", "--no-cuda", *options, environment=environment)
        check.refused(f"{options}", run, 2, part)
    check.refused("no such file", check.run("kernel", "check", os.path.join(folder, "none.c")), 2, "No such file")
    cuda = os.path.join(folder, "only.cu")
    with open(cuda, "w") as file:
        file.write('extern "C" __global__ void f(unsigned long begin, unsigned long items) { }\n')
    check.refused("another form", check.run("kernel", "check", cuda), 2, "portable form")
    check.refused("no such device", check.run("kernel", "check", path, "--devices", "cpu:77", environment=environment), 3, "cpu:77")
    run = check.run("kernel", "check", path, "--devices", "cpu", environment=dict(environment, MUSTER_CC="/nonexistent/cc"))
    check.equal("without a C compiler", run.code, 1)
    check.contains("without a C compiler", run.err, "/nonexistent/cc")


def documents(check, folder, environment):
    """The kernels in the documents are right, with the options that they need."""
    options = {"saxpy": ["--inout", "y"], "smooth": ["--halo", "1"], "sharpen": ["--halo", "1"]}
    found = []
    for name in ["kernels.md", "cookbook.md"]:
        with open(os.path.join(ROOT, "docs", name)) as file:
            blocks = file.read().split("```")[1::2]
        for block in blocks:
            if not block.startswith("c\n#include <muster_kernel.h>"):
                continue
            entry = re.search(r"MUSTER_KERNEL void (\w+)", block).group(1)
            path = write(folder, f"{name[:-3]} {entry}", block[2:])
            run = check.run("kernel", "check", path, "--devices", "cpu", "--no-cuda", *options.get(entry, []), environment=environment)
            check.equal(f"{name}: {entry}", (run.code, run.err), (0, ""))
            found.append(entry)
    check.true("they were found", set(found) >= {"saxpy", "noise", "scale", "smooth", "dice"}, str(found))


def silent_before(check, folder, environment):
    """What `muster map` did without a word."""
    data = os.path.join(folder, "data")
    with open(data, "wb") as file:
        file.write(bytes(4000))
    for name, source in [("exp", FLOATS + "{ out[i] = exp(in[i]); }"), ("drand48", FLOATS + "{ out[i] = in[i] + (float)drand48(); }"),
                         ("misspelt", FLOATS + "{ out[i] = muster_squrt(in[i]); }")]:
        run = check.run("map", "-k", write(folder, name, source + "\n"), "-i", data, "-o", os.path.join(folder, "out"), "-q",
                        "--devices", "cpu", environment=environment)
        check.refused(f"map with {name}", run, 2, f"{name}.c:3:", "fix:")
    # Each ran with exit status 0, and wrote what the sizes of units made of it.
    for name, source, options, part in [
            ("histogram", WORDS + "{ out[in[i]]++; }", [], "data choose"), ("total", FLOATS + "{ out[0] += in[i]; }", [], "same element"),
            ("neighbour", FLOATS + "{ out[i] = in[i + 1]; }", [], "halo is 0"), ("strided", FLOATS + "{ out[i] = in[2 * i]; }", [], "an item has 1"),
            ("beyond", CELLS + f"{{ out[i] = {NEAR % '2, 0'}; }}", ["--grid", "10x100", "--halo", "1"], "2 cells away, and the halo is 1"),
            ("helper", WRONG_MORE["a function reads further"][0], ["--grid", "10x100"], "no argument has a halo")]:
        run = check.run("map", "-k", write(folder, name, source + "\n"), "-i", data, "-o", os.path.join(folder, "out"), "-q",
                        "--devices", "cpu", *options, environment=environment)
        check.refused(f"map with {name}", run, 2, part, "fix:")
    check.true("nothing was written", not os.path.exists(os.path.join(folder, "out")))


def logs(check, folder, environment):
    """All that a compiler says: -v, --log and MUSTER_LOG, also of `kernel build` and `map`."""
    bad = write(folder, "bad", FLOATS + "{\n    out[i] = nowhere;\n    out[i] = elsewhere;\n}\n")
    out = os.path.join(folder, "out")
    log = os.path.join(folder, "log")
    data = os.path.join(folder, "data")
    with open(data, "wb") as file:
        file.write(bytes(4000))
    build = ["kernel", "build", bad, "-o", out, "--no-cuda", "--no-opencl"]
    mapping = ["map", "-k", bad, "-i", data, "-o", out, "--devices", "cpu", "-q", "--unit", "10"]
    for name, command in [("build", build), ("map", mapping)]:
        if check.is_sanitized() and name == "build":
            continue
        run = check.run(*command, "-v", environment=environment)
        check.contains(f"{name} -v: the first error", run.err, "nowhere")
        check.contains(f"{name} -v: all of them", run.err, "elsewhere")
        check.equal(f"{name} -v: once for the device, not for each unit", run.err.count("bad.c:5:"), 1)
        for how in ["--log", "MUSTER_LOG"]:
            if os.path.exists(log):
                os.unlink(log)
            if how == "--log":
                check.run(*command, "--log", log, environment=environment)
            else:
                check.run(*command, environment=dict(environment, MUSTER_LOG=log))
            with open(log) as file:
                kept = file.read()
            check.true(f"{name} {how}: all of it", "nowhere" in kept and "elsewhere" in kept, kept)
            check.equal(f"{name} {how}: once", kept.count("bad.c:5:"), 1)


def usage(check):
    help_text = check.run("kernel", "check", "--help").out
    with open(os.path.join(ROOT, "docs", "man", "muster.1")) as file:
        page = file.read().replace("\\-", "-")
    for option in ["--entry", "--devices", "--arg", "--elements", "--inout", "--whole", "--halo", "--items", "--grid", "--pictures", "--seed",
                   "--time-limit", "--no-cuda", "--json", "--verbose", "--log"]:
        check.contains("help has the option", help_text, f"  {option}")
        check.contains("the manual has the option", page, option)
    check.contains("the manual has the subcommand", page, "muster kernel check")


check = Check()
with tempfile.TemporaryDirectory() as top:
    settings = {"MUSTER_CACHE": os.path.join(top, "cache")}
    parts = [wrong, right, text, devices_that_differ, refusals, silent_before, logs]
    for number, part in enumerate(parts if check.is_sanitized() else parts + [uses, documents]):
        place = os.path.join(top, str(number))
        os.mkdir(place)
        part(check, place, settings)
usage(check)
check.finish()
