"""Data flow: tasks that say what they read and write, beside what NumPy makes of the same steps one after the other."""
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref

import muster
import numpy as np
import pytest
from conftest import KERNELS, ROOT

SAXPY = KERNELS / "saxpy.c"
PLACES = {
    "cpu": {"devices": "cpu"},
    "both": {"devices": "cpu,sim", "sim": '[{"count": 2, "items_per_s": 1e8}]'},
    "sim": {"devices": "sim", "sim": '[{"count": 3, "items_per_s": 1e8}]'},
    "small": {"devices": "sim", "sim": '[{"count": 2, "items_per_s": 1e8, "memory": 65536}]'},
}


@pytest.fixture(params=list(PLACES))
def anywhere(request):
    """The host, and simulated devices with memory of their own, of which one kind has little."""
    with muster.Runtime(**PLACES[request.param]) as made:
        yield made


@pytest.fixture
def host():
    with muster.Runtime(devices="cpu", cpu_workers=2) as made:
        yield made


def tiles_of(data, side):
    rows, columns = data.shape
    return [[data[i:i + side, j:j + side] for j in range(0, columns, side)] for i in range(0, rows, side)]


def multiply(a, b, c):
    c += a @ b


def test_a_product_in_tiles(anywhere):
    size, side = 96, 32
    numbers = np.random.default_rng(1)
    a, b, c = numbers.random((size, size)), numbers.random((size, size)), np.zeros((size, size))
    with anywhere.data(a) as whole_a, anywhere.data(b) as whole_b, anywhere.data(c) as whole_c:
        ta, tb, tc = (tiles_of(whole, side) for whole in (whole_a, whole_b, whole_c))
        for i in range(size // side):
            for j in range(size // side):
                for k in range(size // side):
                    anywhere.submit(multiply, ta[i][k], tb[k][j], muster.inout(tc[i][j]))
        with whole_c.acquire("r") as seen:
            assert seen.shape == c.shape and not seen.flags.writeable and np.allclose(seen, a @ b)
    assert np.allclose(c, a @ b)
    anywhere.wait()


def factor(a):
    a[:] = np.linalg.cholesky(a)


def solve(diagonal, a):
    a[:] = np.linalg.solve(diagonal, a.T).T


def update(left, right, a):
    a -= left @ right.T


def test_a_cholesky_factorization_in_tiles(anywhere):
    size, side = 80, 16
    count = size // side
    a = np.random.default_rng(2).random((size, size))
    a = a @ a.T + size * np.eye(size)
    expected = np.linalg.cholesky(a)
    with anywhere.data(a) as whole:
        t = tiles_of(whole, side)
        for k in range(count):
            anywhere.submit(factor, muster.inout(t[k][k]), name="potrf", priority=2)
            for i in range(k + 1, count):
                anywhere.submit(solve, t[k][k], t[i][k], updates=t[i][k], name="trsm", priority=1)
            for i in range(k + 1, count):
                for j in range(k + 1, i + 1):
                    # Of a tile on the diagonal both that are read are one.
                    anywhere.submit(update, t[i][k], t[j][k], t[i][j], updates=[t[i][j]], name="gemm")
        anywhere.wait()
    assert np.allclose(np.tril(a), expected)


def relax(around, strip):
    strip[:] = 0.5 * around[:-2] + 0.25 * (around[1:-1] + around[2:])


def make_stencil(runtime, cells, strips):
    each = (len(cells[0]) - 2) // strips
    wholes = [runtime.data(one) for one in cells]
    inner = [[whole[1 + s * each:1 + (s + 1) * each] for s in range(strips)] for whole in wholes]
    around = [[whole[s * each:(s + 1) * each + 2] for s in range(strips)] for whole in wholes]
    return wholes, inner, around


def two_steps(runtime, inner, around):
    for step in range(2):
        for s, _ in enumerate(inner[0]):
            runtime.submit(relax, around[step][s], muster.out(inner[1 - step][s]), name="relax")


def model_of(cells, steps):
    model = [one.copy() for one in cells]
    for step in range(steps):
        relax(model[step % 2], model[1 - step % 2][1:-1])
    return model


def test_a_stencil_whose_halos_are_parts_and_a_sum(anywhere):
    cells = [np.arange(258, dtype=np.float64) % 17, np.zeros(258)]
    cells[1][[0, -1]] = cells[0][[0, -1]]
    expected = model_of(cells, 20)
    wholes, inner, around = make_stencil(anywhere, cells, 8)
    for _ in range(10):
        two_steps(anywhere, inner, around)
    total = np.full(1, 1000.0)
    with anywhere.data(total, reduction="sum") as sums:
        for strip in inner[0]:
            anywhere.submit(lambda strip, to: to.__iadd__(strip.sum()), strip, sums, reduces=sums)
    for whole in wholes:
        whole.close()
    assert np.array_equal(cells[0], expected[0]) and np.array_equal(cells[1], expected[1])
    assert np.isclose(total[0], 1000 + cells[0][1:-1].sum())


@pytest.mark.parametrize("places", ["cpu", "both"])
def test_a_recorded_graph_is_the_same_tasks_again(places):
    with muster.Runtime(**PLACES[places]) as runtime:
        cells = [np.arange(66, dtype=np.float64), np.zeros(66)]
        other = [one.copy() + 1 for one in cells]
        expected, expected_other = model_of(cells, 14), model_of(other, 2)
        wholes, inner, around = make_stencil(runtime, cells, 4)
        _, other_inner, other_around = make_stencil(runtime, other, 4)
        before = cells[0].copy()
        with runtime.record() as graph:
            two_steps(runtime, inner, around)
        assert np.array_equal(cells[0], before)
        for _ in range(3):
            graph.run()
            two_steps(runtime, inner, around)  # between runs, in order with them
        changes = {old: new for olds, news in ((inner, other_inner), (around, other_around))
                   for a in range(2) for old, new in zip(olds[a], news[a])}
        graph.run(changes).wait()
        assert graph.run().wait() is None
        for whole in [*wholes, other_inner[0][0].whole, other_inner[1][0].whole]:
            whole.close()
        assert np.array_equal(cells[0], expected[0]) and np.array_equal(other[0], expected_other[0])
        graph.close()
        with pytest.raises(muster.Error) as caught:
            graph.run()
        assert caught.value.status is muster.Status.STALE


def test_a_recorded_task_is_not_waited_for_and_a_broken_block_records_nothing(host):
    data = host.data(np.zeros(4))
    with host.record() as graph:
        task = host.submit(lambda x: x.fill(1), muster.out(data))
        with pytest.raises(muster.Error) as caught:
            task.wait()
        assert caught.value.status is muster.Status.ORDER
        with pytest.raises(muster.Error):
            host.submit(SAXPY, 1.0, data, data, updates=data)  # graphs have no kernels
    graph.run().wait()
    with pytest.raises(ZeroDivisionError):
        with host.record() as broken:
            host.submit(lambda x: x.fill(2), muster.out(data))
            raise ZeroDivisionError
    with pytest.raises(muster.Error):
        broken.run()
    with data.acquire() as seen:
        assert (seen == 1).all()


def test_what_a_function_of_a_graph_raises_is_raised_by_the_wait_for_the_run(host):
    data = host.data(np.zeros(4))
    is_bad = []
    with host.record() as graph:
        host.submit(lambda x: 1 // (0 if is_bad else 1), muster.inout(data), name="divide")
        host.submit(lambda x: x.__iadd__(1), muster.inout(data), name="add")
    graph.run().wait()
    is_bad.append(1)
    run = graph.run()
    with pytest.raises(ZeroDivisionError) as caught:
        run.wait()
    assert "divide" in caught.value.__notes__[0]
    with pytest.raises(muster.Error):
        data.acquire("r")
    is_bad.clear()
    with data.acquire("w") as seen:
        seen[:] = 5
    graph.run()
    with data.acquire("r") as seen:
        assert (seen == 6).all()


def test_kernels_are_given_data(anywhere):
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    with anywhere.data(x) as dx, anywhere.data(y) as dy:
        anywhere.submit(SAXPY, 2.0, dx, dy)  # the source says that x is only read
        anywhere.submit(SAXPY, 3.0, muster.in_(dx[500:]), dy[:500])
        with dy.acquire("r") as seen:
            assert np.array_equal(seen[:500], 2 * x[:500] + 1 + 3 * x[500:])
            assert np.array_equal(seen[500:], 2 * x[500:] + 1)
        with pytest.raises(muster.InvalidError, match="only read"):
            anywhere.submit(SAXPY, 2.0, dx, dy, reads=[dx, dy])
        with pytest.raises(muster.InvalidError, match="different numbers"):
            anywhere.submit(SAXPY, 2.0, dx[:10], dy)
        with pytest.raises(muster.InvalidError, match="make it data"):
            anywhere.submit(SAXPY, 2.0, x, dy, updates=dy)
        with anywhere.data(np.zeros(1000, np.int32)) as whole_numbers, pytest.raises(muster.InvalidError, match="type int32"):
            anywhere.submit(SAXPY, 2.0, whole_numbers, dy)


ROWS = """MUSTER_KERNEL void rows(uint64_t row, MUSTER_GLOBAL uint8_t *tile, uint64_t pitch, uint32_t columns)
{
    for (uint32_t i = 0; i < columns; i++) tile[row * pitch + i] = (uint8_t)(tile[row * pitch + i] + row + 1);
}
"""


def test_a_kernel_on_a_tile_is_told_the_distance_of_its_rows(anywhere):
    picture = np.zeros((8, 16), np.uint8)
    with anywhere.data(picture) as data:
        tile = data[2:5, 4:10]
        with pytest.raises(muster.InvalidError, match="how many items"):
            anywhere.submit(ROWS, tile, muster.pitch(tile), 6)
        for _ in range(3):
            anywhere.submit(ROWS, tile, muster.pitch(tile), 6, items=3)
    expected = np.zeros_like(picture)
    expected[2:5, 4:10] = 3 * np.arange(1, 4)[:, None]
    assert np.array_equal(picture, expected)


def test_parts_are_cut_as_arrays_are(host):
    array = np.arange(6 * 8 * 2, dtype=np.int32).reshape(6, 8, 2)
    with host.data(array) as data:
        for index in (slice(1, 4), (slice(2, 5), slice(3, 7)), (slice(None), slice(1, 2)), 3, (2, slice(1, 5)), (slice(2, 4), 5),
                      (4, 6), -1, (slice(0, 6), slice(0, 8))):
            part = data[index]
            seen = host.submit(lambda x: x.copy(), part).wait()
            wanted = array[index]
            assert np.array_equal(seen.reshape(wanted.shape), wanted), index
        inside = data[1:5][1:3]
        assert np.array_equal(host.submit(lambda x: x.copy(), inside).wait(), array[2:4])
        assert np.array_equal(host.submit(lambda x: x.copy(), data.part(8, 12)).wait(), array.reshape(-1)[2:5])
        tile = data.tile(1, 2, 8, 16, 64)
        with tile.acquire("rw") as seen:
            assert np.array_equal(seen, array[1:3].reshape(2, 16)[:, 2:6])
            seen[:] = 0
        assert (array[1:3].reshape(2, 16)[:, 2:6] == 0).all()
        for wrong in (slice(3, 3), slice(0, 4, 2), (0, 0, 0)):
            with pytest.raises(muster.InvalidError):
                data[wrong]
        with pytest.raises(IndexError):
            data[6]
        with pytest.raises(muster.InvalidError):
            data.part(380, 8)
        with pytest.raises(muster.InvalidError):
            data.part(-4, 8)


def test_data_of_a_size_alone_and_tokens(anywhere):
    with anywhere.data(shape=(4, 8), dtype=np.float32) as made, anywhere.data(nbytes=64) as plain, anywhere.token() as order:
        anywhere.submit(lambda x: x.fill(2), muster.out(made))
        anywhere.submit(lambda x, y: y.fill(int(x.sum())), made, muster.out(plain))
        said = []
        for i in range(10):
            anywhere.submit(said.append, i, updates=order)
        with made.acquire("rw") as seen:
            assert seen.shape == (4, 8) and seen.dtype == np.float32 and (seen == 2).all()
            seen += 1
        assert anywhere.submit(lambda x: float(x.sum()), made).wait() == 96
        with plain.acquire() as seen:
            assert seen.dtype == np.uint8 and (seen == 64).all()
        with order.acquire("rw") as nothing:
            assert nothing is None and said == list(range(10))
    with pytest.raises(muster.InvalidError, match="nbytes= or shape="):
        anywhere.data()


def test_reductions_have_the_same_bits_each_time(anywhere):
    values = np.random.default_rng(3).random(200)

    def run():
        total, least = np.zeros(1), np.full(2, 7.0)
        counts = np.zeros(4, np.int64)
        with anywhere.data(total, reduction="sum") as sums, anywhere.data(least, reduction="min") as lows, \
                anywhere.data(counts, reduction=(lambda to: to.fill(0), lambda into, other: np.add(into, other, out=into))) as kinds:
            for i, value in enumerate(values):
                anywhere.submit(lambda to, v=value: to.__iadd__(v), sums, reduces=sums)
                anywhere.submit(lambda to, v=value: np.minimum(to, v, out=to), lows, reduces=[lows])
                anywhere.submit(lambda to, i=i: to.__setitem__(i % 4, to[i % 4] + 1), kinds, reduces=kinds)
        return total[0], least.min(), counts

    first = run()
    assert np.isclose(first[0], values.sum()) and first[1] == values.min() and (first[2] == 50).all()
    assert run()[0] == first[0]
    with anywhere.data(np.zeros(1)) as data, pytest.raises(muster.Error, match="reduction"):
        anywhere.submit(lambda to: None, data, reduces=data)


def test_commuting_tasks_take_turns(anywhere):
    counter = np.zeros(1, np.int64)
    with anywhere.data(counter) as data:
        for i in range(50):
            anywhere.submit(lambda x, i=i: x.__iadd__(i), data, commutes=data)
    assert counter[0] == sum(range(50))


def test_an_exception_names_its_task_and_cancels_what_needs_the_data(anywhere):
    a, b, c = (anywhere.data(np.zeros(8)) for _ in range(3))
    calls = []
    bad = anywhere.submit(lambda x: calls.append(1) or 1 // 0, muster.out(a), name="breaks")
    needs = anywhere.submit(lambda x, y: y.fill(1), a, muster.out(b), name="needs")
    other = anywhere.submit(lambda x: x.fill(3), muster.out(c), name="other")
    with pytest.raises(ZeroDivisionError) as caught:
        bad.wait()
    assert any("'breaks'" in note for note in caught.value.__notes__) and len(calls) == 1
    with pytest.raises(muster.Error) as cancelled:
        needs.wait()
    assert cancelled.value.status is muster.Status.CANCELLED
    assert "'needs'" in cancelled.value.text and "'breaks'" in cancelled.value.text
    other.wait()
    with pytest.raises(muster.Error, match="'breaks'") as spoiled:
        b.acquire("r")
    with pytest.raises(muster.Error, match="'breaks'") as spoiled:
        a.acquire("r")
    assert isinstance(spoiled.value.__cause__, ZeroDivisionError)
    # What is written as a whole is good again.
    anywhere.submit(lambda x: x.fill(4), muster.out(a))
    with a.acquire("r") as seen:
        assert (seen == 4).all()
    with pytest.raises(muster.Error):
        b.close()
    assert not b.is_open


def test_a_wait_for_all_raises_what_nobody_has_heard_of(host):
    data = host.data(np.zeros(1))
    host.submit(lambda x: [][1], muster.out(data), name="breaks")
    with pytest.raises(IndexError):
        host.wait()
    host.wait()
    task = host.submit(lambda x: [][1], muster.out(data))
    with pytest.raises(IndexError):
        task.wait()
    host.wait()


def test_arguments_are_checked(host):
    array = np.zeros(4)
    data, fixed = host.data(array), host.data(b"1234")
    with pytest.raises(muster.InvalidError, match="read-only"):
        host.submit(lambda x: None, muster.out(fixed))
    with pytest.raises(muster.InvalidError, match="read-only"):
        fixed.acquire("rw")
    with pytest.raises(muster.InvalidError, match="takes data"):
        host.submit(lambda: None, reads=[array])
    with pytest.raises(muster.InvalidError, match="unknown mode"):
        data.acquire("x")
    with pytest.raises(muster.InvalidError, match="commutes and reduces"):
        host.submit(lambda: None, commutes=data, reduces=data)
    with pytest.raises(muster.InvalidError, match="no reduction"):
        data.reduction("product")
    with muster.Runtime(devices="cpu") as other, pytest.raises(muster.InvalidError, match="another runtime"):
        other.submit(lambda x: None, data)
    with pytest.raises(muster.InvalidError, match="not contiguous"):
        host.data(np.zeros((4, 4))[:, :2])
    # A function that is given no way to write what it only reads.
    with pytest.raises(ValueError, match="read-only"):
        host.submit(lambda x: x.fill(1), data).wait()
    # Data is read by whom it is given to, and is after its writer.
    host.submit(lambda x: x.fill(9), muster.out(data))
    assert host.submit(lambda x: x.sum(), data).wait() == 36


def test_a_closed_handle_is_stale_and_parts_go_with_the_whole(host):
    array = np.zeros(8)
    data = host.data(array)
    part = data[2:4]
    host.submit(lambda x: x.fill(1), muster.out(part))
    data.close()
    data.close()
    assert array.sum() == 2 and not part.is_open
    for gone in (data, part):
        with pytest.raises(muster.Error) as caught:
            gone.acquire("r")
        assert caught.value.status is muster.Status.STALE and caught.value.text
        with pytest.raises(muster.Error) as caught:
            host.submit(lambda x: None, gone)
        assert caught.value.status is muster.Status.STALE


def test_arrays_stay_as_long_as_tasks_may_touch_them(anywhere):
    class Array(np.ndarray):
        pass

    gate = threading.Event()
    array = np.zeros(64).view(Array)
    seen = weakref.ref(array)
    data = anywhere.data(array)
    task = anywhere.submit(lambda x: gate.wait(20) and x.fill(1), muster.inout(data))
    later = anywhere.submit(lambda x: float(x.sum()), data[8:16])
    del array, data
    gc.collect()
    assert seen() is not None
    gate.set()
    task.wait()
    assert later.wait() == 8
    for _ in range(400):
        gc.collect()
        anywhere.wait()
        if seen() is None:
            break
        time.sleep(0.01)
    assert seen() is None


def test_an_acquire_has_its_place_and_a_limit(anywhere):
    array = np.zeros(4)
    gate = threading.Event()
    with anywhere.data(array) as data:
        anywhere.submit(lambda x: gate.wait(20) and x.fill(1), muster.inout(data))
        with pytest.raises(TimeoutError):
            data.acquire("r", timeout=0.02)
        with pytest.raises(TimeoutError):
            data.acquire("r", timeout=0)
        threading.Timer(0.05, gate.set).start()
        with data.acquire("rw") as seen:
            late = anywhere.submit(lambda x: x.__iadd__(1), muster.inout(data))
            assert (seen == 1).all()
            seen += 1
            assert late.status is None
        late.wait()
        held = data.acquire("r")
        assert (held.array == 3).all()
        held.release()
        held.release()
        task = anywhere.submit(lambda x: data.acquire("r"), data)
        with pytest.raises(muster.Error) as caught:
            task.wait()
        assert caught.value.status is muster.Status.ORDER
    assert (array == 3).all()


def test_random_graphs_give_the_bytes_of_a_serial_run(anywhere):
    for seed in range(12):
        numbers = random.Random(seed)
        arrays = [np.arange(48, dtype=np.int64) * (n + 1) for n in range(3)]
        model = [one.copy() for one in arrays]
        wholes = [anywhere.data(one) for one in arrays]
        cuts = [slice(None), slice(0, 16), slice(16, 48), slice(8, 24), slice(40, 48)]
        parts = [[(model[n], cut, whole if cut == slice(None) else whole[cut]) for cut in cuts] for n, whole in enumerate(wholes)]
        for t in range(40):
            first, second = numbers.sample(range(3), 2)
            value = numbers.randrange(1, 100)
            a, cut_a, read = numbers.choice(parts[first])
            b, cut_b, changed = numbers.choice(parts[second])
            mode = numbers.choice(["updates", "updates", "commutes", "out"])

            def step(x, y, value=value, is_out=mode == "out"):
                y[:] = (x.sum() if is_out else y * 3 + x.sum()) + value

            if mode == "out":
                anywhere.submit(step, read, muster.out(changed), name=f"t{t}")
            elif mode == "updates":
                anywhere.submit(step, read, muster.inout(changed), name=f"t{t}", priority=numbers.randrange(-4, 4))
            else:
                # Of commuting tasks the order does not matter to this one.
                def step(x, y, value=value):
                    y += value
                anywhere.submit(step, read, changed, commutes=changed)
            step(a[cut_a], b[cut_b])
            if numbers.random() < 0.1:
                with wholes[first].acquire("rw") as seen:
                    seen += 1
                model[first] += 1
        for whole in wholes:
            whole.close()
        for one, expected in zip(arrays, model):
            assert np.array_equal(one, expected), seed


INTERRUPTED = """
import sys, time, threading
sys.path.insert(0, sys.argv[1])
import muster, numpy as np
array = np.zeros(4)
data = muster.data(array)
gate = threading.Event()
with muster.record() as graph:
    muster.submit(lambda x: gate.wait(60), muster.inout(data))
def blocked():
    gate.clear()
    return muster.submit(lambda x: gate.wait(60) and x.__iadd__(1), muster.inout(data))
def wait_for_a_run():
    gate.clear()
    graph.run().wait()
calls = {"acquire": lambda: blocked() and data.acquire("rw"), "task": lambda: blocked().wait(), "all": lambda: blocked() and muster.wait(),
         "run": wait_for_a_run, "close": lambda: blocked() and data.close()}
for line in sys.stdin:
    print("begins", flush=True)
    try:
        calls[line.strip()]()
        print("was not interrupted", flush=True)
    except KeyboardInterrupt:
        print("%.6f" % time.monotonic(), flush=True)
    gate.set()
    muster.wait()
# An acquire that was given up holds up nobody, and nor does a close.
muster.submit(lambda x: x.fill(7), muster.out(data))
data.close()
print("good" if (array == 7).all() else array, flush=True)
"""


def test_ctrl_c_ends_waits_for_data_within_a_tenth_of_a_second():
    """On a machine where others are busy too, one time out of five must do."""
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(ROOT / "python")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        for name in ("acquire", "task", "all", "run", "close"):
            took = []
            while not took or (took[-1] >= 0.1 and len(took) < 5):
                process.stdin.write(name + "\n")
                process.stdin.flush()
                assert process.stdout.readline() == "begins\n"
                time.sleep(0.1)
                begin = time.monotonic()
                process.send_signal(signal.SIGINT)
                took.append(float(process.stdout.readline()) - begin)
            assert 0 <= took[-1] < 0.1, (name, took)
        process.stdin.close()
        assert process.stdout.readline() == "good\n"
        assert process.wait(30) == 0


def test_a_program_that_ends_with_data_in_use_ends():
    code = f"""
import sys
sys.path.insert(0, {str(ROOT / 'python')!r})
import muster, numpy as np
data = muster.data(np.zeros(4))
part = data[1:2]
held = data.acquire("rw")
task = muster.submit(lambda x: x.fill(1), muster.out(data))
with muster.record() as graph:
    muster.submit(lambda x: x.fill(1), muster.out(part))
graph.run()
print("end")
"""
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and done.stdout == "end\n", done.stderr


def test_without_numpy():
    code = f"""
import sys
sys.modules["numpy"] = None
sys.path.insert(0, {str(ROOT / 'python')!r})
import array, muster
numbers = array.array("i", range(12))
with muster.data(numbers) as data:
    def double(x):
        for i in range(len(x)):
            x[i] *= 2
    muster.submit(double, muster.inout(data[2:4]))
    tile = data.tile(0, 3, 0, 4, 16)
    def rows(x):
        for row in x:
            row[0] = -1
    muster.submit(rows, muster.inout(tile))
    with data.acquire("r") as seen:
        print(list(seen))
"""
    done = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "[-1, 1, 4, 6, -1, 5, 6, 7, -1, 9, 10, 11]\n", done.stderr


def test_the_example():
    done = subprocess.run([sys.executable, str(ROOT / "examples" / "23_tiles.py")], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, timeout=120)
    assert done.returncode == 0 and "256 x 256 in tiles of 32: largest error" in done.stdout, done.stderr
