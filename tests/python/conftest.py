"""What all tests of the Python package share. MUSTER_LIBRARY names the library under test (tests/python/CMakeLists.txt)."""
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "python"))

import muster  # noqa: E402

KERNELS = ROOT / "examples" / "kernels"
SQUARE = "MUSTER_KERNEL void square(uint64_t i, MUSTER_GLOBAL const float *x, MUSTER_GLOBAL float *y) { y[i] = x[i] * x[i]; }"
# Seconds for each item, so that a job lasts as long as a test wants.
SLOW = """MUSTER_KERNEL void slow(uint64_t i, uint32_t rounds, MUSTER_GLOBAL const uint32_t *x, MUSTER_GLOBAL uint32_t *y)
{
    uint32_t value = x[i], k;
    for (k = 0; k < rounds; k++) value = value * 1664525u + 1013904223u;
    y[i] = value;
}
"""


@pytest.fixture
def runtime():
    with muster.Runtime() as made:
        yield made


@pytest.fixture
def two():
    """The processor and a simulated device."""
    with muster.Runtime(sim='[{"items_per_s":1e8}]') as made:
        yield made
