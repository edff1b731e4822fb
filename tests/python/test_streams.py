"""Frames through a kernel: in order, lazily, with a bound, and whose exceptions come where."""
import gc
import itertools
import threading
import time

import muster
import numpy as np
import pytest
from conftest import KERNELS, SLOW, SQUARE

ADD = "MUSTER_KERNEL void add(uint64_t i, MUSTER_GLOBAL const int32_t *x, MUSTER_GLOBAL int32_t *y, int32_t by) { y[i] = x[i] + by; }"


def frames(count, shape=(6, 8), taken=None):
    for number in range(count):
        if taken is not None:
            taken.append((number, threading.get_ident()))
        yield np.full(shape, number, np.int32)


@pytest.mark.parametrize("ahead", [0, 1, 2, 50])
def test_results_come_once_each_and_in_order(two, ahead):
    seen = list(two.stream(ADD, frames(200), 7, ahead=ahead))
    assert len(seen) == 200
    assert all((one == number + 7).all() and one.shape == (6, 8) for number, one in enumerate(seen))


def test_the_iterable_is_advanced_by_the_consumer_and_not_far_ahead():
    taken = []
    slow = SLOW.replace("uint32_t *", "int32_t *")
    results = muster.stream(slow, frames(60, taken=taken), 20_000, ahead=5)
    assert taken == []
    for number, _ in enumerate(results):
        assert len(taken) <= number + 5
    assert len(taken) == 60 and {who for _, who in taken} == {threading.get_ident()}


def test_a_frame_may_be_reused_by_who_made_it():
    def reused():
        buffer = np.zeros(1000, np.int32)
        for number in range(200):
            buffer[:] = number
            yield buffer

    assert [int(one[999]) for one in muster.stream(ADD, reused(), 0)] == list(range(200))


def test_an_endless_iterable_is_left_in_the_middle():
    def endless():
        for number in itertools.count():
            yield np.full(64, number, np.int32)

    for number, one in enumerate(muster.stream(ADD, endless(), 0)):
        assert one[0] == number
        if number == 20:
            break
    gc.collect()
    m = muster.default()
    deadline = time.monotonic() + 20
    while m.abandoned and time.monotonic() < deadline:
        m.sweep()
    assert not m.abandoned and not m.jobs


def test_what_the_iterable_raises_comes_after_the_results_before_it():
    def fails():
        yield from frames(10)
        raise KeyError("camera")

    seen = []
    with pytest.raises(KeyError, match="camera"):
        for one in muster.stream(ADD, fails(), 0):
            seen.append(int(one[0, 0]))
    assert seen == list(range(10))


def test_an_exception_in_the_stream_ends_the_job_while_the_exception_is_kept(runtime):
    """As Ctrl-C raises one there: its traceback holds the stream."""
    results = runtime.stream(ADD, itertools.repeat(np.zeros(64, np.int32)), 0)
    next(results)
    with pytest.raises(KeyError) as kept:
        results.throw(KeyError("here"))
    deadline = time.monotonic() + 4
    left = [job() for job in list(runtime.jobs.values())]
    while any(job is not None and job.wait(0) == muster.Status.TIMEOUT for job in left) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert time.monotonic() < deadline and kept.value is not None


def test_a_frame_of_another_size_is_refused_by_number():
    def changes():
        yield from frames(3)
        yield np.zeros(7, np.int32)

    with pytest.raises(muster.InvalidError, match="frame 3"):
        list(muster.stream(ADD, changes(), 0))


def test_no_frames_give_no_results():
    assert list(muster.stream(ADD, [], 1)) == []


def test_what_the_consumer_raises_ends_the_stream():
    with pytest.raises(ZeroDivisionError):
        for one in muster.stream(ADD, frames(1000), 0):
            1 // int(one[0, 0])
    assert len(list(muster.stream(ADD, frames(5), 0))) == 5


def test_a_picture_knows_its_size():
    pictures = [np.random.default_rng(seed).integers(0, 256, (24, 32), dtype=np.uint8) for seed in range(5)]
    flat = [muster.map(KERNELS / "edges.c", one, 32, 24, 32 * 24, 32 * 24, unit_multiple=32 * 24) for one in pictures]
    for one, expected in zip(muster.stream(KERNELS / "edges.c", pictures), flat):
        assert one.shape == (24, 32) and np.array_equal(one, expected)


def test_rows_as_items_and_results_of_another_shape():
    source = """MUSTER_KERNEL void total(uint64_t i, MUSTER_GLOBAL const float *x, MUSTER_GLOBAL double *y)
{ y[2 * i] = x[2 * i] + x[2 * i + 1]; y[2 * i + 1] = -1; }"""
    given = [np.arange(20, dtype=np.float32).reshape(10, 2) + k for k in range(7)]
    made = list(muster.stream(source, given, items=10, like=np.empty((10, 2))))
    for one, frame in zip(made, given):
        assert one.dtype == np.float64 and np.array_equal(one[:, 0], frame.sum(axis=1)) and (one[:, 1] == -1).all()


def test_neighbours_across_frames():
    source = """MUSTER_KERNEL void smooth(uint64_t i, MUSTER_GLOBAL const float *x, MUSTER_GLOBAL float *y)
{ y[i] = x[(int64_t)i - 1] + x[i] + x[i + 1]; }"""
    samples = np.arange(1000, dtype=np.float32)
    made = np.concatenate(list(muster.stream(source, samples.reshape(50, 20), halo=1, border="clamp", ahead=1)))
    assert np.array_equal(made, np.convolve(np.pad(samples, 1, mode="edge"), np.ones(3, np.float32), "valid"))


def test_a_device_that_is_lost_in_the_middle_costs_nothing():
    with muster.Runtime(sim='[{"items_per_s":2e5,"faults":[{"kind":"lost","at_ms":20}]}]') as m:
        seen = [int(one[0]) for one in m.stream(ADD, frames(400, (100,)), 0)]
    assert seen == list(range(400))


def test_a_stream_that_loses_its_only_device_says_so_at_once():
    """And not after the 5 s that a source is waited for which has nobody to answer it."""
    begin, seen = 0.0, []
    with muster.Runtime(devices="sim", sim='[{"items_per_s":1e5,"faults":[{"kind":"lost","at_ms":60}]}]') as m:
        with pytest.raises(muster.Error, match="sim:0|device") as caught:
            for one in m.stream(ADD, frames(4000, (100,)), 0, ahead=3):
                seen.append(int(one[0]))
                begin = time.monotonic()
    assert caught.value.status is not muster.Status.DEVICE_HUNG
    assert seen == list(range(len(seen))) and seen and time.monotonic() - begin < 4.5


def test_a_stream_through_a_function():
    seen = list(muster.stream(lambda one, by: int(one.sum()) + by, frames(50, (3,)), 1, ahead=4))
    assert seen == [3 * number + 1 for number in range(50)]

    def fails(one):
        if one[0] == 5:
            raise KeyError("five")
        return int(one[0])

    seen = []
    with pytest.raises(KeyError, match="five"):
        for one in muster.stream(fails, frames(50, (3,)), ahead=3):
            seen.append(one)
    assert seen == [0, 1, 2, 3, 4]


def test_a_kernel_that_is_refused_is_told_by_the_first_result():
    with pytest.raises(ValueError):
        list(muster.stream(SQUARE, frames(3)))
    with pytest.raises(ValueError, match="takes 1 arguments beside"):
        list(muster.stream(ADD, frames(3)))


def test_memory_stays_flat():
    """scripts/python-check does it with 100,000 frames."""
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * 4096

    shape, count = (64, 1024), 2000
    first = 0
    for number, _ in enumerate(muster.stream(ADD, frames(count, shape), 0)):
        if number == 500:
            first = resident()
    # 1,500 frames of 256 KiB have passed meanwhile, 393 MB.
    assert resident() - first < 32 << 20
