"""Tasks, devices, picks, simulations, reports, traces, Ctrl-C and how the library is found."""
import html.parser
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import muster
import numpy as np
import pytest
from conftest import KERNELS, ROOT, SLOW, SQUARE

SAXPY = KERNELS / "saxpy.c"
LOST = ROOT / "examples" / "scenarios" / "loss.json"


def test_tasks_one_after_the_other(runtime):
    order = []
    first = runtime.submit(order.append, 1)
    second = runtime.submit(lambda: order.append(2) or "two", after=[first])
    third = runtime.submit(order.append, 3, after=[second])
    runtime.wait([first, second, third])
    assert order == [1, 2, 3] and second.wait() == "two" and third.status is muster.Status.OK


def test_a_kernel_as_a_task(runtime):
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    before = runtime.submit(lambda: y.fill(5))
    runtime.submit(SAXPY, 2.0, x, y, after=[before]).wait()
    assert np.array_equal(y, 2 * x + 5)


def test_what_a_task_raises_is_raised_by_the_wait_and_cancels_what_follows(runtime):
    bad = runtime.submit(lambda: 1 // 0)
    follower = runtime.submit(lambda: 1, after=[bad])
    with pytest.raises(ZeroDivisionError):
        bad.wait()
    with pytest.raises(muster.Error) as caught:
        follower.wait()
    assert caught.value.status is muster.Status.CANCELLED
    assert bad.status is muster.Status.FAILED


def test_a_task_keeps_what_it_needs_and_gives_it_back(runtime):
    import gc
    import weakref

    class Held:
        pass

    held = Held()
    seen = weakref.ref(held)
    gate = threading.Event()
    runtime.submit(lambda thing: gate.wait(10), held)
    del held
    gc.collect()
    assert seen() is not None
    gate.set()
    deadline = time.monotonic() + 10
    while seen() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.005)
    assert seen() is None


def test_a_wait_has_a_limit_and_a_task_can_be_cancelled(runtime):
    gate = threading.Event()
    # More than there are threads for: one who waits and helped would be held up by another.
    first = [runtime.submit(gate.wait, 5) for _ in range((os.cpu_count() or 1) + 2)]
    late = runtime.submit(lambda: 1, after=first)
    begin = time.monotonic()
    with pytest.raises(TimeoutError):
        late.wait(0.05)
    assert time.monotonic() - begin < 3
    assert late.cancel()
    gate.set()
    runtime.wait(first)
    with pytest.raises(muster.Error):
        late.wait()


def test_a_task_waits_for_tasks_of_its_own(runtime):
    def parent(depth):
        if depth == 0:
            return 1
        children = [runtime.submit(parent, depth - 1) for _ in range(2)]
        runtime.wait(children)
        return sum(child.wait() for child in children)

    assert runtime.submit(parent, 5).wait() == 32
    own = []
    own.append(runtime.submit(lambda: own[0].wait()))
    with pytest.raises(muster.Error) as caught:
        own[0].wait()
    assert caught.value.status is muster.Status.ORDER


def test_devices_and_their_load(two):
    found = two.devices()
    assert [one.id for one in found] == ["cpu:0", "sim:0"]
    assert found[0].kind == "cpu" and found[0].cores >= 1 and "double" in found[0].capabilities
    assert found[0].load().health == "ok" and found[0].load().memory_total > 0
    assert {one.name for one in two.backends()} >= {"cpu", "sim", "cuda"}
    assert well_formed(found._repr_html_())


def test_pick_counts_the_choice_and_explains_it(two):
    with two.pick("least-loaded") as one, two.pick("least-loaded") as other:
        assert {one.device.id, other.device.id} == {"cpu:0", "sim:0"}
    assert two.pick(backends="sim").device.id == "sim:0"
    with pytest.raises(muster.NoDeviceError) as caught:
        two.pick(min_free="900TiB")
    assert "cpu:0" in caught.value.text
    newest = two.explain(1)[0]
    assert newest.chosen is None and ("cpu:0", "min_free", 0.0) in newest.devices
    with pytest.raises(ValueError, match="unknown policy"):
        two.pick("best")


def test_simulate_gives_the_same_for_the_same_seed():
    one, again, other = (muster.simulate(LOST, seed=seed, timeline=True) for seed in (1, 1, 2))
    assert one.status is muster.Status.OK and one.lost == 0 and one.items_delivered == 1_000_000
    assert (one.makespan_s, one.events) == (again.makespan_s, again.events)
    assert one.makespan_s != other.makespan_s
    assert any(event.outcome == "lost" for event in one.events)
    page = one._repr_html_()
    assert well_formed(page) and "<svg" in page and one.devices[0].id in page
    with pytest.raises(ValueError, match="line|place|byte|items"):
        muster.simulate({"devices": [], "job": {"items": -1}})


class Checker(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.good = [], True

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        self.good &= bool(self.open) and self.open.pop() == tag


def well_formed(text):
    checker = Checker()
    checker.feed(text)
    return checker.good and not checker.open


def test_a_report_shows_a_table_and_a_timeline(two):
    x = np.arange(2_000_000, dtype=np.float32)
    report = two.for_(SQUARE, x, muster.out(x.copy()), timeline=True, everyone=True)
    page = report._repr_html_()
    assert well_formed(page) and page.count("<svg") == 2 and "<table" in page
    assert "cpu:0" in page and "sim:0" in page
    total = report.bound_s + sum(size for _, size in report.lost_s)
    assert abs(total - report.makespan_s) < 1e-6
    assert "items" in repr(report)
    covered = np.zeros(len(x), bool)
    for event in report.trace.events:
        if event.kind == "unit" and event.outcome == "done":
            covered[event.items.start:event.items.stop] = True
    assert covered.all()


def test_a_timeline_does_not_grow_with_the_job():
    from muster import html as pages
    spans = [pages.Span("cpu:0", k, k + 0.9, "done", f"items {k} to {k + 1}, done") for k in range(20_000)]
    assert len(pages.timeline(spans)) < 400_000
    two = [pages.Span("<a>", 0, 1, "done", "x"), pages.Span("b", 5, 6, "lost", "y")]
    assert "&lt;a&gt;" in pages.timeline(two) and pages.timeline(two).count("<rect") == 2


def test_a_trace_for_perfetto(runtime, tmp_path):
    import json
    with runtime.trace() as trace:
        runtime.map(SQUARE, np.arange(1000, dtype=np.float32))
        trace.save(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())
    assert any(event.kind == "unit" for event in trace.events)
    assert runtime.counters()["jobs_done"] == 1


def test_other_threads_run_while_a_call_waits(runtime):
    x = np.zeros(2, np.uint32)
    runtime.map(SLOW, 1, x)
    counted, done = [0], threading.Event()

    def count():
        while not done.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted[0]
    runtime.map(SLOW, 30_000_000, x)
    after = counted[0]
    done.set()
    thread.join()
    assert after - before >= 3


INTERRUPTED = """
import sys, time
sys.path.insert(0, sys.argv[1])
import muster, numpy as np
slow, square = sys.argv[2:]
x, y = np.zeros(16, np.uint32), np.zeros(16, np.uint32)
muster.map(slow, 1, x)
def endless():
    while True:
        yield x
def a_stream():
    for _ in muster.stream(slow, endless(), 30_000_000, ahead=2): pass
calls = {
    "for": lambda: muster.for_(slow, 30_000_000, x, muster.out(y)),
    "task": lambda: muster.submit(slow, 30_000_000, x, muster.out(y)).wait(),
    "stream": a_stream,
    "simulate": lambda: muster.simulate({"devices": [{"name": "d", "count": 100, "items_per_s": 1e6}], "job": {"items": 10**11, "unit": 1000}}),
}
for line in sys.stdin:
    print("begins", flush=True)
    try:
        calls[line.strip()]()
        print("was not interrupted", flush=True)
    except KeyboardInterrupt:
        print("%.6f" % time.monotonic(), flush=True)
# What is left of the interrupted calls disturbs nobody.
assert (muster.map(square, x) == 1).all()
print("good", flush=True)
import os
os._exit(0)
"""
ONE_MORE = "MUSTER_KERNEL void s(uint64_t i, MUSTER_GLOBAL const uint32_t *x, MUSTER_GLOBAL uint32_t *y) { y[i] = x[i] + 1; }"


def test_ctrl_c_ends_a_wait_within_a_tenth_of_a_second():
    """On a machine where others are busy too, one time out of five must do."""
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(ROOT / "python"), SLOW, ONE_MORE], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        for name in ("for", "task", "stream", "simulate"):
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


def run(code, **environment):
    kept = {name: value for name, value in os.environ.items() if name != "MUSTER_LIBRARY"}
    code = f"import sys; sys.dont_write_bytecode = True; sys.path.insert(0, {str(ROOT / 'python')!r})\n" + code
    return subprocess.run([sys.executable, "-c", code], env={**kept, **environment}, capture_output=True, text=True, check=False)


def test_a_library_that_is_not_there_is_named():
    done = run("import muster", MUSTER_LIBRARY="/nowhere/libmuster.so")
    assert done.returncode == 1 and "/nowhere/libmuster.so" in done.stderr and "MUSTER_LIBRARY" in done.stderr
    done = run("import muster", MUSTER_LIBRARY="libm.so.6")
    assert "libm.so.6 is no Muster of version" in done.stderr


def test_the_library_is_found_beside_the_package(tmp_path):
    import shutil
    shutil.copytree(ROOT / "python" / "muster", tmp_path / "lib/python3/dist-packages/muster")
    library = pathlib.Path(os.environ["MUSTER_LIBRARY"])
    for place in ("lib/python3/dist-packages/muster", "lib"):
        link = tmp_path / place / "libmuster.so.0.2"
        link.symlink_to(library)
        code = f"sys.path.insert(0, {str(tmp_path / 'lib/python3/dist-packages')!r})\nfrom muster._library import lib; print(lib._name)"
        assert run(code).stdout.strip() == str(link)
        link.unlink()


def test_without_numpy():
    code = """
sys.modules["numpy"] = None
import array, muster
square = %r
x = array.array("f", range(1000))
y = muster.map(square, x)
assert type(y) is array.array and y[30] == 900
assert [one[2] for one in muster.stream(square, [array.array("f", [0, k, k]) for k in range(5)])] == [0, 1, 4, 9, 16]
assert muster.reduce(%r, x) == 499500
assert muster.map(lambda a, b: b.__setitem__(slice(None), a), x) == x
""" % (SQUARE, str(KERNELS / "sum.c"))
    done = run(code, MUSTER_LIBRARY=os.environ["MUSTER_LIBRARY"])
    assert done.returncode == 0, done.stderr


def test_a_program_that_ends_with_work_under_way_ends():
    code = f"import muster, numpy as np\nx = np.zeros(64, np.uint32)\njob = muster.start({SLOW!r}, 20_000_000, x, muster.out(x.copy()))\n"
    # A stream whose source waits for its next frame.
    code += f"import itertools\nstream = muster.stream({SQUARE!r}, itertools.repeat(np.zeros(100, np.float32)), ahead=1)\nnext(stream)\nimport time; print(time.monotonic())\n"
    done = run(code, MUSTER_LIBRARY=os.environ["MUSTER_LIBRARY"])
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert time.monotonic() - float(done.stdout) < 4.5  # what has not returned after 5 s would be given up


@pytest.mark.skipif("TEST_DRIVERS" not in os.environ, reason="the tests' CUDA driver is not there")
def test_arrays_of_others_on_a_gpu():
    """On the driver of tests/driver; scripts/gpu-check runs the same on a real one."""
    drivers = os.environ["TEST_DRIVERS"]
    environment = {**os.environ, "LD_LIBRARY_PATH": f"{drivers}/full", "MUSTER_CACHE": f"{drivers}/cache", "TEST_CUDA": "devices=2"}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    script = str(ROOT / "tests" / "python" / "cuda_arrays.py")
    for number in ("0", "1"):
        done = subprocess.run([sys.executable, script, "--items", "20000", "--device", number], env=environment,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
