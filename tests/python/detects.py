#!/usr/bin/env python3
"""Breaks a copy of the Python package in one place at a time, and expects a test of this folder to turn red.

    tests/python/detects.py LIBRARY

scripts/mutate breaks C sources only. Each test is run with nothing broken first. Exits 1 if a break was not noticed.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The test that must notice, the file, what stands there once, and what instead.
BREAKS = [
    ("test_calls.py::test_the_same_call_again_with_other_arrays_and_numbers", "plans.py",
     "if array.size != items or not flags.c_contiguous:", "if not flags.c_contiguous:"),
    ("test_calls.py::test_the_same_call_again_with_other_arrays_and_numbers", "plans.py",
     "pack(memory, place, given[which])", "pass"),
    ("test_calls.py::test_map_changes_nothing_and_gives_a_new_array", "plans.py", "made = given[which].copy()", "made = given[which]"),
    ("test_calls.py::test_a_file_that_has_changed_is_read_again", "kernels.py",
     "known[0] == [_state_of(path) for path in known[1]]", "True"),
    ("test_calls.py::test_a_buffer_is_given_back", "arrays.py", "            _release(ctypes.byref(self))", "            pass"),
    ("test_calls.py::test_what_a_function_raises_is_raised_by_the_call", "functions.py", "self.thrown.append(failure)", "pass"),
    ("test_streams.py::test_the_iterable_is_advanced_by_the_consumer_and_not_far_ahead", "streams.py",
     "is_full = taken - received >= ahead", "is_full = False"),
    ("test_streams.py::test_a_frame_may_be_reused_by_who_made_it", "streams.py",
     "            copy(to, source, min(wanted, items) * item_bytes)", "            pass"),
    ("test_streams.py::test_what_the_iterable_raises_comes_after_the_results_before_it", "streams.py",
     "if isinstance(thrown, (KeyboardInterrupt, SystemExit)):", "if True:"),
    ("test_streams.py::test_neighbours_across_frames", "streams.py", "ahead = max(ahead, 1 + -(-halo // frame_items))", "pass"),
    ("test_streams.py::test_a_stream_that_loses_its_only_device_says_so_at_once", "streams.py", "job.is_ending", "job.is_over"),
    ("test_streams.py::test_an_exception_in_the_stream_ends_the_job_while_the_exception_is_kept", "streams.py",
     "    finally:\n        feed.end()\n        job.abandon()", "    finally:\n        pass"),
    ("test_rest.py::test_ctrl_c_ends_a_wait_within_a_tenth_of_a_second", "jobs.py", "TICK_NS = 10_000_000", "TICK_NS = 5_000_000_000"),
    ("test_rest.py::test_a_task_keeps_what_it_needs_and_gives_it_back", "tasks.py", "        self._call = None\n        if", "        _kept.append(self)\n        if"),
    ("test_rest.py::test_a_wait_has_a_limit_and_a_task_can_be_cancelled", "tasks.py",
     "        _wait_outside(tasks, timeout)", "        _wait_within(tasks, timeout)"),
    ("test_rest.py::test_a_program_that_ends_with_work_under_way_ends", "jobs.py", "                self.stop()", "                pass"),
    ("test_rest.py::test_the_library_is_found_beside_the_package", "_library.py", "list(package.parents)[:3]", "()"),
    ("test_flow.py::test_ctrl_c_ends_waits_for_data_within_a_tenth_of_a_second", "data.py",
     "if limit == 0 or not runtime.unfinished:", "if True:"),
    ("test_flow.py::test_arguments_are_checked", "data.py", "made.flags.writeable = is_written", "pass"),
    ("test_flow.py::test_a_product_in_tiles", "data.py", "            strides[0] = pitch", "            pass"),
    ("test_flow.py::test_a_closed_handle_is_stale_and_parts_go_with_the_whole", "data.py", "            part.close()", "            pass"),
    ("test_flow.py::test_an_exception_names_its_task_and_cancels_what_needs_the_data", "tasks.py",
     "    if task._thrown is not None:", "    if False:"),
    ("test_flow.py::test_an_exception_names_its_task_and_cancels_what_needs_the_data", "tasks.py",
     "self._uses.note_failure(self._thrown)", "pass"),
    ("test_flow.py::test_a_wait_for_all_raises_what_nobody_has_heard_of", "tasks.py", "if status and runtime.failed is None:", "if False:"),
    ("test_flow.py::test_a_wait_for_all_raises_what_nobody_has_heard_of", "tasks.py", "            self.runtime.failed = None", "            pass"),
    ("test_flow.py::test_arrays_stay_as_long_as_tasks_may_touch_them", "runtime.py", "self.finished.pop(0).close()", "pass"),
    ("test_flow.py::test_what_a_function_of_a_graph_raises_is_raised_by_the_wait_for_the_run", "graphs.py",
     "one.thrown.append((failure, one.name))", "pass"),
    ("test_flow.py::test_a_program_that_ends_with_data_in_use_ends", "runtime.py", "            held.release()", "            pass"),
    ("test_layout.py::test_every_size_offset_and_constant_is_that_of_the_headers", "_c.py",
     '("depth", c_uint32), ("tries", c_uint32)', '("depth", c_uint64), ("tries", c_uint32)'),
    ("test_layout.py::test_every_member_is_there_in_its_order", "_c.py",
     '("depth", c_uint32), ("tries", c_uint32)', '("tries", c_uint32), ("depth", c_uint32)'),
    ("test_layout.py::test_every_function_takes_and_gives_what_the_headers_say", "_c.py",
     '"muster_cancel": (c_int, [runtime, muster_task, error])', '"muster_cancel": (c_int, [runtime, muster_stream, error])'),
    ("test_layout.py::test_the_statuses_are_those_of_the_header", "errors.py", "    DRIVER = -15", "    DRIVER = -16"),
]


def passes(copy, test, library):
    environment = {**os.environ, "MUSTER_LIBRARY": library, "PYTHONDONTWRITEBYTECODE": "1", "MUSTER_CACHE": str(copy / "cache")}
    try:
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(copy / "tests/python" / test)],
                              env=environment, capture_output=True, text=True, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return False, "does not end"
    return done.returncode == 0, done.stdout


def main():
    library, missed = str(pathlib.Path(sys.argv[1]).resolve()), 0
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for part in ("tests/python", "python", "include", "examples"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        for test in dict.fromkeys(test for test, *_ in BREAKS):
            good, said = passes(copy, test, library)
            if not good:
                sys.exit(f"{test} fails with nothing broken\n{said}")
        for test, name, old, new in BREAKS:
            path = copy / "python" / "muster" / name
            text = path.read_text()
            if text.count(old) != 1:
                sys.exit(f"{name} has {text.count(old)} times, not once: {old}")
            path.write_text(text.replace(old, new))
            good, _ = passes(copy, test, library)
            path.write_text(text)
            missed += good
            print(f"{'NOT NOTICED' if good else 'noticed'} by {test}: {name}: {old.splitlines()[0].strip()}", flush=True)
    sys.exit(1 if missed else 0)


main()
