#!/usr/bin/env python3
"""muster devices with OpenCL drivers: the same silicon once, and an OpenCL that is broken costs nothing but itself."""
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import Check  # noqa: E402

# GPUs of the machine that the test runs on are hidden, from NVIDIA's OpenCL too.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

def listing(check, *arguments, environment=None):
    run = check.run("devices", "--json", *arguments, environment=environment)
    check.equal("exit code", run.code, 0)
    answer = json.loads(run.out)
    return answer["devices"], {report["name"]: report for report in answer["backends"]}


def ids(devices):
    return [device["id"] for device in devices]


def same_silicon(check):
    """A processor that OpenCL drives too, as PoCL does."""
    everything, _ = listing(check, "--all")
    doubles = [device for device in everything if device["same_as"]]
    if not any(device["backend"] == "opencl" and device["kind"] == "cpu" for device in everything):
        print("not tested: the same silicon twice, without an OpenCL driver of the processor")
        return
    check.true("OpenCL has the processor too", doubles)
    devices, reports = listing(check)
    check.true("it is hidden", not set(ids(doubles)) & set(ids(devices)), str(ids(devices)))
    check.contains("and that is said", reports["opencl"]["hidden"], "the same silicon as cpu:0")
    check.equal("it is of a kind", doubles[0]["kind"], "cpu")
    named, _ = listing(check, "--devices", "opencl")
    check.equal("a backend that is named hides nothing", ids(named)[:1], ["opencl:0"])
    named, _ = listing(check, "--devices", "cpu,opencl:0")
    check.equal("nor is a device that is named", ids(named)[-1], "opencl:0")
    if "slice" in named[-1]["capabilities"]:
        cut, _ = listing(check, "--slices", "opencl:0=1")
        check.true("nor is one that is to be cut", "opencl:0/0" in ids(cut) and "cpu:0" in ids(cut), str(ids(cut)))
    text = check.run("devices", "--all")
    check.contains("a person sees it as well", text.out, "SAME AS")


def broken(check):
    with tempfile.TemporaryDirectory() as folder:
        empty = {"OCL_ICD_VENDORS": folder}
        check_without(check, "no driver", empty)
        with open(os.path.join(folder, "missing.icd"), "w") as file:
            file.write("/nonexistent/libdriver.so\n")
        check_without(check, "a driver that is missing", empty)
        for name in ["libOpenCL.so.1", "libOpenCL.so"]:
            with open(os.path.join(folder, name), "w") as file:
                file.write("no library\n")
        check_without(check, "a loader that does not load", {"LD_LIBRARY_PATH": folder})


def check_without(check, what, environment):
    devices, reports = listing(check, environment=environment)
    check.true(f"{what}: the rest works", "cpu:0" in ids(devices))
    check.equal(f"{what}: is no fault", reports["opencl"]["status"], "MUSTER_E_NOT_FOUND")
    check.contains(f"{what}: is said", reports["opencl"]["message"], "OpenCL")
    check.equal(f"{what}: nothing on stderr", check.run("devices", environment=environment).err, "")
    run = check.run("devices", "--devices", "opencl", environment=environment)
    check.refused(f"{what}: asked for by name", run, 2, "OpenCL", "install")


def another_vendors_gpu(check, folder):
    """A GPU that no other backend has is no double."""
    environment = {"LD_LIBRARY_PATH": folder, "DOUBLE_NVIDIA": "0:3b:0"}
    devices, _ = listing(check, environment=environment)
    gpus = [device for device in devices if device["backend"] == "opencl"]
    check.equal("listed", ids(gpus)[:1], ["opencl:0"])
    check.equal("by its PCI address", gpus[0]["pci"], "0000:3b:00.0")
    check.equal("as what it is", (gpus[0]["kind"], gpus[0]["same_as"]), ("gpu", None))


check = Check()
broken(check)
report = listing(check, "--all")[1]["opencl"]
if report["status"] != "MUSTER_OK":
    print(f"skipped: {report['message']}")
    sys.exit(77)
same_silicon(check)
if os.environ.get("OPENCL_DOUBLE"):
    another_vendors_gpu(check, os.environ["OPENCL_DOUBLE"])
check.finish()
