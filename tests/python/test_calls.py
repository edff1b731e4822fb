"""for_, map and reduce: arguments, results, and what is refused with which words."""
import array
import concurrent.futures
import ctypes
import random
import sys
import threading
import time

import muster
import numpy as np
import pytest
from conftest import KERNELS, SLOW, SQUARE

SAXPY = KERNELS / "saxpy.c"
N = 100_003


@pytest.fixture
def x():
    return np.arange(N, dtype=np.float32)


def test_for_changes_the_array_in_its_place(x):
    y = np.ones(N, np.float32)
    report = muster.for_(SAXPY, 2.0, x, y)
    assert np.array_equal(y, 2 * x + 1)
    assert (report.status, report.items, report.delivered) == (muster.Status.OK, N, N)
    assert sum(one.items for one in report.devices) == N


def test_map_changes_nothing_and_gives_a_new_array(x):
    y = np.ones(N, np.float32)
    for a in (2.0, 3.0):
        made = muster.map(SAXPY, a, x, y)
        assert np.array_equal(made, np.float32(a) * x + 1) and np.array_equal(y, np.ones(N))


def test_map_makes_what_is_only_written_and_keeps_the_shape(x):
    made = muster.map(SQUARE, x[:N - 3].reshape(-1, 100))
    assert made.shape == (1000, 100) and made.dtype == np.float32
    assert np.array_equal(made.ravel(), x[:N - 3] ** 2)


def test_map_writes_into_out_without_a_copy(x):
    made = np.empty_like(x)
    assert muster.map(SQUARE, x, out=made) is made
    assert np.array_equal(made, x ** 2)


def test_the_same_call_again_with_other_arrays_and_numbers(x):
    """Later calls go by what the first one has left: nothing of it may stay."""
    for a in (1.0, -3.5, 7):
        for size in (N, 5, 1):
            y = np.full(size, a, np.float32)
            muster.for_(SAXPY, a, x[:size], y)
            assert np.array_equal(y, np.float32(a) * x[:size] + np.float32(a))
    kernel = muster.kernel(SAXPY)
    assert kernel.plans
    with pytest.raises(ValueError, match="different numbers of elements"):
        muster.for_(kernel, 2.0, x, x[:5].copy())
    with pytest.raises(ValueError, match="not contiguous"):
        muster.for_(kernel, 2.0, x[:20:2], x[:10].copy())
    locked = x[:10].copy()
    locked.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        muster.for_(kernel, 2.0, x[:10], locked)
    y = np.zeros(10, np.float32)
    muster.for_(kernel, 2.0, locked, y)
    assert np.array_equal(y, 2 * locked)


TYPES = {"float": np.float32, "double": np.float64, "int8_t": np.int8, "uint16_t": np.uint16, "int32_t": np.int32, "uint64_t": np.uint64}


def test_random_calls_give_what_numpy_gives():
    seed = random.randrange(2**32)
    print("seed", seed)
    dice = random.Random(seed)
    numbers = np.random.default_rng(seed)
    for _ in range(150):
        name, dtype = dice.choice(list(TYPES.items()))
        source = f"MUSTER_KERNEL void k(uint64_t i, {name} a, MUSTER_GLOBAL const {name} *x, MUSTER_GLOBAL {name} *y) {{ y[i] = ({name})(x[i] + a + y[i]); }}"
        shape = tuple(dice.choice([1, 2, 3, 17, 256]) for _ in range(dice.choice([1, 1, 2, 3])))
        x, y = (numbers.integers(0, 40, shape).astype(dtype) for _ in range(2))
        a = dice.randrange(40)
        expected = x + dtype(a) + y
        how = dice.choice(["for", "map", "out", "task", "bytes"])
        if how == "for":
            y = y.copy()
            muster.for_(source, a, x, y)
        elif how == "map":
            before = y.copy()
            made = muster.map(source, float(a) if name in ("float", "double") else a, x, y)
            assert np.array_equal(y, before) and made.shape == shape and made.dtype == dtype
            y = made
        elif how == "out":
            y = muster.map(source, a, x, y, out=np.empty_like(y))
        elif how == "task":
            muster.submit(source, dtype(a), x, y).wait()
        else:
            held = bytearray(y.tobytes())
            muster.for_(source, a, x.tobytes(), held)
            y = np.frombuffer(held, dtype).reshape(shape)
        assert np.array_equal(y, expected), (seed, name, shape, a, how)


def test_no_items_are_allowed():
    assert muster.map(SQUARE, np.empty(0, np.float32)).shape == (0,)
    assert muster.map(SQUARE, np.empty((3, 0), np.float32)).shape == (3, 0)


def test_several_results_are_a_tuple():
    source = """MUSTER_KERNEL void both(uint64_t i, MUSTER_GLOBAL const int32_t *x, MUSTER_GLOBAL int32_t *twice, MUSTER_GLOBAL double *half)
{ twice[i] = 2 * x[i]; half[i] = 0.5 * x[i]; }"""
    twice, half = muster.map(source, np.arange(100, dtype=np.int32))
    assert np.array_equal(twice, 2 * np.arange(100)) and half.dtype == np.float64
    assert np.array_equal(half, np.arange(100) / 2)


def test_items_of_several_elements():
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    source = """MUSTER_KERNEL void total(uint64_t i, MUSTER_GLOBAL const float *x, MUSTER_GLOBAL float *y)
{ y[i] = x[3 * i] + x[3 * i + 1] + x[3 * i + 2]; }"""
    assert np.array_equal(muster.map(source, rows, items=4), rows.sum(axis=1))
    with pytest.raises(muster.InvalidError, match="whole number"):
        muster.map(source, rows, items=5)


def test_buffers_without_numpy():
    x, y = array.array("f", range(1000)), array.array("f", bytes(4000))
    muster.for_(SAXPY, 3.0, x, y)
    assert y[999] == 2997
    y = bytearray(4000)
    muster.for_(SQUARE, x, muster.out(y))
    assert memoryview(y).cast("f")[30] == 900
    z = (ctypes.c_float * 1000)()
    muster.for_(SQUARE, bytes(x), muster.out(z), items=1000)
    assert z[31] == 961


def test_a_buffer_is_given_back():
    y = bytearray(4000)
    muster.for_(SQUARE, array.array("f", range(1000)), muster.out(y))
    y.append(1)  # BufferError while something holds it


def test_arrays_of_other_packages_by_dlpack():
    class Other:
        def __init__(self, made):
            self.made = made

        def __dlpack__(self, **options):
            return self.made.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.made.__dlpack_device__()

    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    muster.for_(SAXPY, 2.0, Other(x), Other(y))
    assert np.array_equal(y, 2 * x + 1)
    with pytest.raises(ValueError, match="not contiguous"):
        muster.for_(SAXPY, 2.0, Other(x[::2]), y[:500].copy())


def test_a_table_that_all_items_see():
    source = """MUSTER_KERNEL void look(uint64_t i, MUSTER_GLOBAL const uint8_t *x, MUSTER_GLOBAL const float *table, MUSTER_GLOBAL float *y)
{ y[i] = table[x[i]]; }"""
    x, table = np.arange(5000, dtype=np.uint8), np.linspace(0, 1, 256, dtype=np.float32)
    assert np.array_equal(muster.map(source, x, muster.all(table)), table[x])
    with muster.share(table) as shared:
        assert np.array_equal(muster.map(source, x, shared), table[x])
        table[:] = -table
        shared.changed()
        assert np.array_equal(muster.map(source, x, muster.all(shared)), table[x])


def test_neighbours_in_a_grid():
    picture = np.random.default_rng(7).random((40, 30), np.float32)
    source = """MUSTER_KERNEL void sum4(uint64_t i, struct muster_cell at, MUSTER_GLOBAL const float *in, MUSTER_GLOBAL float *out)
{ out[i] = muster_near(in, i, at, 0, -1) + muster_near(in, i, at, -1, 0) + muster_near(in, i, at, 1, 0) + muster_near(in, i, at, 0, 1); }"""
    p = np.pad(picture, 1, mode="edge")
    expected = p[:-2, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] + p[2:, 1:-1]
    made = muster.map(source, muster.grid(picture), muster.in_(picture, halo=1, border="clamp"))
    assert made.shape == picture.shape and np.array_equal(made, expected)


def test_the_first_item_of_a_unit():
    source = "MUSTER_KERNEL void number(uint64_t i, uint64_t first, MUSTER_GLOBAL uint64_t *y) { y[i] = first + i; }"
    y = np.zeros(N, np.uint64)
    muster.for_(source, muster.first, y)
    assert np.array_equal(y, np.arange(N))


def test_reductions():
    x = np.arange(N, dtype=np.float32)
    assert muster.reduce(KERNELS / "sum.c", x) == float(np.sum(x, dtype=np.float64))
    found = muster.reduce(KERNELS / "moments.c", x)
    assert found.count == N and abs(found.mean - x.mean(dtype=np.float64)) < 1e-6
    data = np.random.default_rng(3).integers(0, 256, 20000, dtype=np.uint8)
    assert np.array_equal(muster.reduce(KERNELS / "histogram.c", data).bins, np.bincount(data, minlength=256))
    with pytest.raises(ValueError):
        muster.reduce(SAXPY, 1.0, x, x)


def test_the_same_bits_with_a_device_that_is_lost(x):
    alone = muster.reduce(KERNELS / "sum.c", np.sin(x))
    with muster.Runtime(sim='[{"items_per_s":1e6,"faults":[{"kind":"lost","at_ms":1}]}]') as m:
        assert m.reduce(KERNELS / "sum.c", np.sin(x)) == alone
        assert np.array_equal(m.map(SQUARE, x), x ** 2)


def test_a_function_of_python_as_a_kernel(x):
    assert np.array_equal(muster.map(lambda part, y: np.sqrt(part, out=y), x), np.sqrt(x))
    y = np.zeros((50, 4))
    muster.for_(lambda a, b: np.copyto(b, a.sum(axis=1)[:, None]), np.ones((50, 3)), muster.out(y), items=50)
    assert (y == 3).all()


def test_what_a_function_raises_is_raised_by_the_call(x):
    def fails(part, y):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        muster.map(fails, x)
    assert np.array_equal(muster.map(SQUARE, x), x ** 2)


def test_a_status_for_each_item():
    def half(part, y):
        y[:] = part
        if (part == 13).any():
            raise muster.Error(muster.Status.FAILED, "unlucky")

    x, y, each = np.arange(64.0), np.zeros(64), np.ones(64, np.int32)
    with pytest.raises(muster.Error):
        muster.for_(half, x, muster.out(y), each_status=each)
    assert [i for i in range(64) if each[i]] == [13]
    assert np.array_equal(np.delete(y, 13), np.delete(x, 13))


@pytest.mark.parametrize("call, words", [
    (lambda x: muster.map(SQUARE, x.astype(np.float64)), "float.*double"),
    (lambda x: muster.map(SQUARE, x.astype(">f4")), "order"),
    (lambda x: muster.map(SQUARE), "takes 2 arguments"),
    (lambda x: muster.map(SQUARE, x, x, x), "takes 2 arguments"),
    (lambda x: muster.map(SQUARE, [1.0, 2.0]), "no array"),
    (lambda x: muster.map(SQUARE, x, out=(x, x)), "1 results"),
    (lambda x: muster.for_(SAXPY, "2", x, x), "float a is a number"),
    (lambda x: muster.for_(SAXPY, 2.0, 3, x), "int is no array"),
    (lambda x: muster.map("int x;\n", x), "0 kernels"),
    (lambda x: muster.map(SQUARE.replace("x[i] * x[i]", "exp(x[i])"), x), "muster_exp"),
    (lambda x: muster.map(SQUARE, x, policy="best"), "best"),
    (lambda x: muster.map(SQUARE, x, polcy="claim"), "polcy"),
    (lambda x: muster.map(SQUARE, x, unit_items=-1), "negative"),
    (lambda x: muster.map(SQUARE, muster.in_(x, halo=1, border="mirror")), "mirror"),
    (lambda x: muster.for_("MUSTER_KERNEL void k(uint64_t i, uint8_t a, MUSTER_GLOBAL float *y) { y[i] = a; }", 256, x), "between 0 and 255"),
])
def test_mistakes_are_refused_with_words(x, call, words):
    with pytest.raises(muster.InvalidError, match=words) as caught:
        call(x)
    assert isinstance(caught.value, ValueError) and caught.value.status in (muster.Status.INVALID, muster.Status.PARSE)
    assert str(caught.value).startswith(caught.value.text)


def test_an_error_carries_status_text_and_fix(x):
    with pytest.raises(muster.NotFoundError) as caught:
        muster.map(SQUARE, x, devices="cuda:7")
    assert caught.value.status is muster.Status.NOT_FOUND and "cuda:7" in caught.value.text and caught.value.fix
    with pytest.raises(LookupError):
        muster.kernel("nowhere.c")


def test_a_file_that_has_changed_is_read_again(tmp_path, x):
    path = tmp_path / "k.c"
    path.write_text(SQUARE)
    assert muster.map(path, x)[3] == 9
    assert muster.kernel(path) is muster.kernel(str(path))
    path.write_text(SQUARE.replace("x[i] * x[i]", "x[i] + 1"))
    assert muster.map(path, x)[3] == 4


def test_a_job_beside_the_program(two, x):
    y = np.zeros_like(x)
    with two.start(SQUARE, x, muster.out(y)) as job:
        report = job.wait()
    assert np.array_equal(y, x ** 2) and report.delivered == N
    assert job.wait() is report


def test_a_job_that_nobody_holds_is_cancelled_and_keeps_its_arrays(runtime):
    x = np.zeros(64, np.uint32)
    y = np.zeros(64, np.uint32)
    where = sys.getrefcount(y)
    runtime.map(SLOW, 1, x)
    runtime.start(SLOW, 60_000_000, x, muster.out(y))
    assert not runtime.abandoned or sys.getrefcount(y) > where
    deadline = time.monotonic() + 20
    while runtime.abandoned and time.monotonic() < deadline:
        runtime.sweep()
    assert not runtime.jobs and sys.getrefcount(y) == where


def test_a_job_from_several_threads(two, x):
    y = np.zeros_like(x)
    job = two.start(SQUARE, x, muster.out(y), devices="sim:0")
    seen, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            seen.append(job.progress().delivered)

    def wait():
        assert job.wait().delivered == N

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        looking = pool.submit(look)
        waiting = [pool.submit(wait) for _ in range(3)]
        for one in waiting:
            one.result(20)
        stop.set()
        looking.result(20)
    assert job.progress().is_over and job.is_over and seen == sorted(seen)


def test_a_closed_runtime_says_so(x):
    m = muster.Runtime()
    kernel = m.kernel(SQUARE)
    job, table = m.start(SQUARE, x, muster.out(x.copy())), m.share(x)
    m.close()
    m.close()
    table.close()
    with pytest.raises(muster.Error, match="closed"):
        job.wait()
    with pytest.raises(muster.Error, match="closed"):
        m.map(SQUARE, x)
    with pytest.raises(muster.InvalidError, match="another runtime"):
        muster.map(kernel, x)


def test_a_child_process_opens_its_own_runtime(x):
    import os
    muster.map(SQUARE, x)
    pid = os.fork()
    if pid == 0:
        good = False
        try:
            good = np.array_equal(muster.map(SQUARE, x), x ** 2)
        finally:
            muster.default().close()
            os._exit(0 if good else 1)
    assert os.waitpid(pid, 0)[1] == 0
