#!/usr/bin/env python3
"""What the command says of machines with and without NVIDIA's libraries, on the driver of tests/driver."""
import ctypes
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
from lib.check import Check  # noqa: E402

DRIVERS = os.environ["TEST_DRIVERS"]
# What hides GPUs of this machine would hide those of the tests' driver.
os.environ.pop("CUDA_VISIBLE_DEVICES", None)


def report(check, folder, setting=""):
    environment = {"LD_LIBRARY_PATH": os.path.join(DRIVERS, folder), "TEST_CUDA": setting}
    run = check.run("devices", "--json", environment=environment)
    check.equal(f"{folder} {setting}: exit code", run.code, 0)
    answer = json.loads(run.out)
    cuda = [device for device in answer["devices"] if device["backend"] == "cuda"]
    return cuda, next(entry for entry in answer["backends"] if entry["name"] == "cuda")


def has_library(name):
    try:
        ctypes.CDLL(name)
        return True
    except OSError:
        return False


def machines(check):
    devices, backend = report(check, "full", "devices=2")
    check.equal("two GPUs", [device["id"] for device in devices], ["cuda:0", "cuda:1"])
    check.equal("their size", [device["cores"] for device in devices], [132, 132])
    check.equal("compute capability", devices[0]["compute"], [9, 0])
    check.equal("busy, as NVML says", devices[0]["utilisation"], 0.37)
    check.equal("warm, as NVML says", devices[0]["temperature_c"], 41)
    check.equal("usable", backend["status"], "MUSTER_OK")

    devices, backend = report(check, "bare")
    check.equal("a GPU without NVML and NVRTC", [device["id"] for device in devices], ["cuda:0"])
    if has_library("libnvidia-ml.so.1"):
        print("not tested: that nobody says how busy a GPU is, since this machine has NVML")
    else:
        check.true("nobody says how busy", not devices[0]["utilisation"] or devices[0]["utilisation"] < 0)

    devices, backend = report(check, "full", "init=100")
    check.equal("no GPU", (devices, backend["status"]), ([], "MUSTER_E_NOT_FOUND"))
    devices, backend = report(check, "full", "init=803")
    check.equal("a driver that does not fit its kernel module", devices, [])
    check.contains("it says so", json.dumps(backend), "driver")

    devices, backend = report(check, "old", "version=11000")
    check.equal("a driver that is too old", devices, [])
    check.contains("what there is", json.dumps(backend), "11.0")
    check.contains("what is wanted", json.dumps(backend), " is wanted")


def without_a_driver(check):
    if has_library("libcuda.so.1"):
        print("not tested: a machine without libcuda, since this one has it")
        return
    devices, backend = report(check, "none")
    check.equal("no driver", (devices, backend["status"]), ([], "MUSTER_E_NOT_FOUND"))
    check.contains("which library", json.dumps(backend), "libcuda.so.1")


def leases(check):
    """By UUID, whatever number the GPU has; under its address, which every backend knows it by."""
    see = 'echo "$CUDA_VISIBLE_DEVICES $MUSTER_DEVICES $MUSTER_LEASE ${MUSTER_SLICES-whole}"'
    with tempfile.TemporaryDirectory() as folder:
        environment = {"LD_LIBRARY_PATH": os.path.join(DRIVERS, "full"), "TEST_CUDA": "devices=2", "MUSTER_LEASES": folder}

        def see_within(*hints, command=("sh", "-c", see), **extra):
            return check.run("exec", *hints, "--", *command, environment={**environment, **extra})

        first = "GPU-11111111-1111-1111-1111-111111111111 cuda:0 0000:3b:00.0"
        second = "GPU-12121212-1212-1212-1212-121212121212 cuda:0 0000:3c:00.0"
        check.equal("a GPU before the processor", see_within().out, f"{first} whole\n")
        check.equal("the second", see_within("--device", "cuda:1").out, f"{second} whole\n")
        within = (check.muster, "exec", "--backend", "cuda", "--", "sh", "-c", see)
        # The tests' driver shows both GPUs still, of which the inner one may have number 0 only: the outer's.
        run = see_within("--device", "cuda:0", command=within)
        check.equal("within a lease there is no other", run.code, 3)
        check.contains("and it says why", run.err, "leased to what this runs in")
        check.equal("slices go along under the new number",
                    see_within("--device", "cuda:1", MUSTER_SLICES="cuda:0=8;cuda:1=16,32").out,
                    f"{second} cuda:0=16,32\n")


def main():
    check = Check()
    machines(check)
    leases(check)
    without_a_driver(check)
    check.finish()


main()
