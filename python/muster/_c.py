"""The C interface as ctypes: structs, constants and functions, under the names they have in C.

tests/python/test_layout.py compiles a program against the headers and compares every size, offset, constant and parameter
with what is here.
"""
import ctypes
from ctypes import (CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint16, c_uint32,
                    c_uint64, c_void_p)
from typing import Any

NEVER_NS = 2**64 - 1
ITEMS_UNKNOWN = 2**64 - 1


class Sized(ctypes.Structure):
    """A struct whose first member is its own size."""

    def __init__(self, **members: Any) -> None:
        super().__init__(ctypes.sizeof(self), **members)


class Handle(ctypes.Structure):
    _fields_ = [("index", c_uint32), ("generation", c_uint32)]


# Handles are told apart by their types in C.
class muster_device(Handle): pass
class muster_stream(Handle): pass
class muster_block(Handle): pass
class muster_data(Handle): pass
class muster_lease(Handle): pass
class muster_task(Handle): pass


class muster_error(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("status", c_int), ("driver_code", c_int), ("device", c_char * 24),
                ("text", c_char * 232), ("fix", c_char * 128)]


class muster_range(ctypes.Structure):
    _fields_ = [("begin", c_uint64), ("end", c_uint64)]


log_function = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class muster_options(Sized):
    _fields_ = [("size", c_size_t), ("allocator", c_void_p), ("log", log_function), ("log_user", c_void_p),
                ("log_level", c_int), ("devices", c_char_p), ("sim", c_char_p), ("backend_paths", c_char_p),
                ("backends", c_void_p), ("backend_count", c_size_t), ("streams_max", c_uint32), ("cpu_workers", c_uint32),
                ("memory_limit", c_uint64), ("poll_ns", c_uint64), ("close_ns", c_uint64), ("slices", c_char_p),
                ("kept_bytes", c_uint64), ("no_live", c_uint32), ("isolate", c_char_p), ("untrusted", c_uint32)]


class muster_device_info(Sized):
    _fields_ = [("size", c_size_t), ("id", c_char * 24), ("name", c_char * 96), ("backend", c_char * 16),
                ("parent", c_char * 24), ("pci", c_char * 16), ("domain", c_uint32), ("compute", c_uint16 * 2),
                ("cores", c_uint32), ("copy_engines", c_uint32), ("numa_node", c_int32), ("capabilities", c_uint32),
                ("priority_least", c_int32), ("priority_greatest", c_int32), ("streams_max", c_uint32), ("forms", c_uint32),
                ("memory_total", c_uint64), ("weight", c_double), ("kind", c_int), ("same_as", c_char * 24),
                ("uuid", c_char * 48)]


class muster_device_load(Sized):
    _fields_ = [("size", c_size_t), ("memory_free", c_uint64), ("memory_total", c_uint64), ("memory_used", c_uint64),
                ("memory_reserved", c_uint64), ("memory_unreclaimed", c_uint64), ("streams_active", c_uint32),
                ("streams_acquired", c_uint32), ("queue_depth", c_uint64), ("bytes_in_flight", c_uint64),
                ("dispatched", c_uint64), ("completed", c_uint64), ("failed", c_uint64), ("items_per_s", c_double),
                ("bytes_per_s", c_double), ("health", c_int), ("utilisation", c_double), ("temperature_c", c_double),
                ("sampled_ns", c_uint64)]


class muster_backend_report(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char * 16), ("path", c_char * 128), ("device_count", c_uint32),
                ("hidden_count", c_uint32), ("hidden", c_char * 128), ("error", muster_error)]


kernel_function = CFUNCTYPE(c_int, c_uint64, c_uint64, POINTER(c_void_p))


class muster_kernel_form(Sized):
    _fields_ = [("size", c_size_t), ("kind", c_int), ("function", kernel_function), ("code", c_void_p),
                ("code_bytes", c_size_t), ("entry", c_char_p), ("threads", c_uint32), ("compute", c_uint16 * 2),
                ("file", c_char_p), ("apart", c_void_p), ("written", c_uint32)]


class muster_kernel_parameter(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char * 64), ("type", c_char * 96), ("is_block", c_int), ("is_const", c_int),
                ("bytes", c_size_t)]


class muster_partial(Sized):
    _fields_ = [("size", c_size_t), ("type", c_char * 96), ("bytes", c_size_t), ("block_items", c_uint64),
                ("lanes", c_uint32), ("field_count", c_uint32)]


class muster_partial_field(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char * 64), ("type", c_char * 16), ("offset", c_size_t),
                ("bytes", c_size_t), ("count", c_uint64), ("is_array", c_int)]


class muster_arg(Sized):
    _fields_ = [("size", c_size_t), ("kind", c_int), ("in_", c_void_p), ("out", c_void_p), ("bytes", c_size_t),
                ("data", muster_data), ("halo", c_uint64), ("block", muster_block), ("offset", c_uint64),
                ("element", c_int), ("border", c_int), ("width", c_uint32), ("height", c_uint32), ("depth", c_uint32),
                ("chroma_width", c_uint32), ("chroma_height", c_uint32)]


class muster_run_options(Sized):
    _fields_ = [("size", c_size_t), ("devices", c_char_p), ("unit_items", c_uint64), ("window", c_uint64),
                ("depth", c_uint32), ("tries", c_uint32), ("timeout_ns", c_uint64), ("unordered", c_int),
                ("no_copies", c_int), ("policy", c_char_p), ("window_bytes", c_uint64), ("kept_max", c_uint32),
                ("account", c_int), ("unit_multiple", c_uint64), ("affinity", c_uint64), ("user_policy", c_void_p),
                ("everyone", c_int), ("multiple_is_for_speed", c_int)]


class muster_result(Sized):
    _fields_ = [("size", c_size_t), ("range", muster_range), ("outputs", POINTER(c_void_p)), ("output_count", c_size_t),
                ("output_bytes", POINTER(c_size_t)), ("statuses", POINTER(c_int)), ("supplied", c_void_p),
                ("job", c_void_p), ("buffer", c_uint32)]


sink_function = CFUNCTYPE(c_int, c_void_p, POINTER(muster_result))
source_function = CFUNCTYPE(c_int64, c_void_p, c_uint64, c_uint64, c_void_p, c_size_t)


class muster_job_desc(Sized):
    _fields_ = [("size", c_size_t), ("kernel", c_void_p), ("items", c_uint64), ("args", POINTER(muster_arg)),
                ("arg_count", c_size_t), ("sink", sink_function), ("sink_user", c_void_p),
                ("options", POINTER(muster_run_options)), ("source", source_function), ("source_user", c_void_p),
                ("source_calls", c_uint32), ("each_status", c_void_p), ("pipeline", c_void_p), ("input", c_void_p),
                ("output", c_void_p), ("result", c_void_p), ("result_bytes", c_size_t)]


class muster_progress(Sized):
    _fields_ = [("size", c_size_t), ("items", c_uint64), ("delivered", c_uint64), ("elapsed_ns", c_uint64),
                ("remaining_ns", c_uint64), ("items_per_s", c_double), ("is_over", c_int), ("waits_for", c_char * 128)]


class muster_job_device(Sized):
    _fields_ = [("size", c_size_t), ("id", c_char * 24), ("items", c_uint64), ("units", c_uint64), ("retries", c_uint64),
                ("late", c_uint64), ("busy_ns", c_uint64), ("items_per_s", c_double), ("health", c_int),
                ("shortage", c_char * 128), ("faster_without", c_double)]


MUSTER_JOB_FAILED_MAX = 64


class muster_report(Sized):
    _fields_ = [("size", c_size_t), ("devices", POINTER(muster_job_device)), ("device_capacity", c_size_t),
                ("device_count", c_size_t), ("status", c_int), ("items", c_uint64), ("delivered", c_uint64),
                ("units", c_uint64), ("retries", c_uint64), ("makespan_ns", c_uint64), ("bound_ns", c_uint64),
                ("startup_ns", c_uint64), ("transfer_ns", c_uint64), ("overhead_ns", c_uint64), ("starved_ns", c_uint64),
                ("tail_ns", c_uint64), ("failed", muster_range * MUSTER_JOB_FAILED_MAX), ("failed_count", c_size_t),
                ("failed_items", c_uint64), ("schedule", c_int), ("schedule_reason", c_char * 208),
                ("own_mathematics", c_uint32)]


class muster_hints(Sized):
    _fields_ = [("size", c_size_t), ("min_free", c_uint64), ("min_cc", c_uint16 * 2), ("backends", c_char_p),
                ("devices", c_char_p), ("affinity", c_uint64), ("items", c_uint64), ("bytes", c_uint64)]


MUSTER_DECISION_DEVICES_MAX = 16


class decision_device(ctypes.Structure):
    _fields_ = [("device", muster_device), ("refusal", c_int), ("score", c_double)]


class muster_decision(Sized):
    _fields_ = [("size", c_size_t), ("number", c_uint64), ("time_ns", c_uint64), ("policy", c_char * 24),
                ("chosen", c_int32), ("device_count", c_uint32),
                ("devices", decision_device * MUSTER_DECISION_DEVICES_MAX)]


task_function = CFUNCTYPE(c_int, c_void_p)
done_function = CFUNCTYPE(None, c_void_p, muster_task, c_int)


class muster_task_access(Sized):
    _fields_ = [("size", c_size_t), ("data", muster_data), ("mode", c_uint32)]


class muster_native(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("device", muster_device), ("backend", c_char_p), ("stream", c_void_p), ("count", c_size_t),
                ("pointers", POINTER(c_void_p)), ("bytes", POINTER(c_uint64)), ("pitches", POINTER(c_uint64)),
                ("rows", POINTER(c_uint64))]


enqueue_function = CFUNCTYPE(c_int, c_void_p, POINTER(muster_native))


class muster_body(Sized):
    _fields_ = [("size", c_size_t), ("backend", c_char_p), ("enqueue", enqueue_function)]


begin_function = CFUNCTYPE(None, c_void_p, c_void_p, c_uint64)
combine_function = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p, c_uint64)


class muster_reduction(Sized):
    _fields_ = [("size", c_size_t), ("user", c_void_p), ("begin", begin_function), ("combine", combine_function)]


class muster_graph_change(Sized):
    _fields_ = [("size", c_size_t), ("from_", muster_data), ("to", muster_data)]


class muster_task_desc(Sized):
    _fields_ = [("size", c_size_t), ("fn", task_function), ("user", c_void_p), ("after", POINTER(muster_task)),
                ("after_count", c_size_t), ("done", done_function), ("kernel", c_void_p), ("args", POINTER(muster_arg)),
                ("arg_count", c_size_t), ("items", c_uint64), ("hints", POINTER(muster_hints)), ("timeout_ns", c_uint64),
                ("is_awaited", c_int), ("name", c_char_p), ("accesses", POINTER(muster_task_access)),
                ("access_count", c_size_t), ("bodies", POINTER(muster_body)), ("body_count", c_size_t),
                ("priority", c_int32), ("resident", c_void_p), ("steps", c_void_p), ("step_count", c_size_t)]


class muster_trace_event(Sized):
    _fields_ = [("size", c_size_t), ("kind", c_int), ("outcome", c_int), ("begin_ns", c_uint64), ("end_ns", c_uint64),
                ("range", muster_range), ("bytes", c_uint64), ("device", c_uint32), ("job", c_uint32),
                ("thread", c_uint32), ("status", c_int), ("is_retry", c_int), ("is_copy", c_int), ("name", c_char * 48)]


class muster_trace_options(Sized):
    _fields_ = [("size", c_size_t), ("capacity", c_uint64)]


event_function = CFUNCTYPE(None, c_void_p, POINTER(muster_trace_event))


class muster_counters(Sized):
    _fields_ = [("size", c_size_t)] + [(name, c_uint64) for name in (
        "jobs_started", "jobs_done", "jobs_failed", "units_started", "units_done", "units_late", "units_failed",
        "items_delivered", "bytes_delivered", "launches", "launches_done", "launches_failed", "bytes_in", "bytes_out",
        "data_loads", "kernels_built", "tasks_submitted", "tasks_ended", "picks", "devices", "devices_lost",
        "trace_events", "trace_dropped", "opening")]


class muster_simulation_options(Sized):
    _fields_ = [("size", c_size_t), ("seed", c_uint64), ("allocator", c_void_p), ("event", event_function),
                ("event_user", c_void_p), ("check", c_int), ("everyone", c_int), ("runs", c_uint32)]


class muster_simulation_device(Sized):
    _fields_ = [("size", c_size_t), ("id", c_char * 24), ("name", c_char * 64), ("refused", c_char_p),
                ("items", c_uint64), ("units", c_uint64), ("retries", c_uint64), ("busy_ns", c_uint64),
                ("health", c_char_p), ("faster_without", c_double)]


class muster_simulation_job(Sized):
    _fields_ = [("size", c_size_t), ("weight", c_double), ("status", c_int), ("items", c_uint64), ("items_delivered", c_uint64),
                ("end_ns", c_uint64), ("busy_ns", c_uint64)]


MUSTER_SIMULATION_FAILED_MAX = 64


class muster_simulation(Sized):
    _fields_ = [("size", c_size_t), ("seed", c_uint64), ("status", c_int), ("makespan_ns", c_uint64),
                ("bound_ns", c_uint64), ("ratio", c_double), ("units", c_uint64), ("items_delivered", c_uint64),
                ("lost", c_uint64), ("duplicated", c_uint64), ("out_of_order", c_uint64), ("retries", c_uint64),
                ("window_max", c_uint64), ("failed", muster_range * MUSTER_SIMULATION_FAILED_MAX),
                ("failed_count", c_size_t), ("devices", POINTER(POINTER(muster_simulation_device))),
                ("device_count", c_size_t), ("broken", c_char_p), ("jobs", POINTER(POINTER(muster_simulation_job))),
                ("job_count", c_size_t), ("claims", c_uint64), ("adopted", c_uint64), ("missing", c_uint64),
                ("workers_lost", c_uint64), ("resumes", c_uint64)]


class muster_graph_simulation_device(Sized):
    _fields_ = [("size", c_size_t), ("id", c_char * 24), ("name", c_char * 64), ("tasks", c_uint64),
                ("busy_ns", c_uint64), ("bytes_in", c_uint64), ("bytes_out", c_uint64), ("health", c_char_p)]


class muster_graph_simulation(Sized):
    _fields_ = [("size", c_size_t), ("seed", c_uint64), ("status", c_int), ("makespan_ns", c_uint64),
                ("critical_path_ns", c_uint64), ("area_ns", c_uint64), ("bound_ns", c_uint64), ("ratio", c_double),
                ("tasks", c_uint64), ("ended", c_uint64), ("failed", c_uint64), ("cancelled", c_uint64),
                ("moved", c_uint64), ("copies", c_uint64), ("copied_bytes", c_uint64), ("evictions", c_uint64),
                ("written_back_bytes", c_uint64), ("wrong", c_uint64),
                ("devices", POINTER(POINTER(muster_graph_simulation_device))), ("device_count", c_size_t),
                ("broken", c_char_p)]


MUSTER_ARGS_MAX = 16
MUSTER_ARG_IN, MUSTER_ARG_OUT, MUSTER_ARG_INOUT, MUSTER_ARG_VALUE, MUSTER_ARG_ALL, MUSTER_ARG_FIRST, MUSTER_ARG_SOURCE = range(1, 8)
MUSTER_ARG_DEVICE_IN, MUSTER_ARG_DEVICE_OUT, MUSTER_ARG_DEVICE_INOUT = range(8, 11)
MUSTER_ARG_GRID, MUSTER_ARG_PICTURES, MUSTER_ARG_ACCESS, MUSTER_ARG_PITCH = range(11, 15)
MUSTER_READ, MUSTER_WRITE, MUSTER_READ_WRITE, MUSTER_COMMUTE, MUSTER_REDUCE, MUSTER_TOKEN = range(1, 7)
MUSTER_ACCESSES_MAX, MUSTER_REDUCE_PARTS = 16, 8
MUSTER_ELEMENT_UNKNOWN, MUSTER_ELEMENT_INT8, MUSTER_ELEMENT_INT16, MUSTER_ELEMENT_INT32, MUSTER_ELEMENT_INT64 = range(5)
MUSTER_ELEMENT_FLOAT, MUSTER_ELEMENT_DOUBLE = 5, 6
MUSTER_BORDER_ZERO, MUSTER_BORDER_CLAMP, MUSTER_BORDER_WRAP = range(3)
MUSTER_KERNEL_FUNCTION, MUSTER_KERNEL_PORTABLE = 1, 2
MUSTER_LOG_ERROR, MUSTER_LOG_WARNING, MUSTER_LOG_INFO, MUSTER_LOG_DEBUG = range(1, 5)
MUSTER_TRACE_UNIT, MUSTER_TRACE_DELIVERY, MUSTER_TRACE_JOB, MUSTER_TRACE_TASK = range(1, 5)
MUSTER_TRACE_DEVICE_LOST, MUSTER_TRACE_DEVICE_HUNG = 7, 8
MUSTER_TRACE_DONE, MUSTER_TRACE_LATE, MUSTER_TRACE_FAILED, MUSTER_TRACE_LOST = range(4)
MUSTER_CAN_WAIT_VALUE, MUSTER_CAN_STREAM_MEMORY, MUSTER_CAN_GRAPHS, MUSTER_CAN_SLICE = 1, 2, 4, 8
MUSTER_CAN_PRIORITIES, MUSTER_CAN_USE_HOST_MEMORY, MUSTER_CAN_RUN_IN_PIECES, MUSTER_CAN_DOUBLE = 32, 64, 128, 256
MUSTER_CAN_USE_SHARED_MEMORY = 512

# Each function: what it returns and takes. Pointers to the runtime, kernels, jobs and graphs are opaque; the comment-like names
# beside c_void_p would only repeat the headers.
runtime = kernel = job = graph = c_void_p
error = POINTER(muster_error)
FUNCTIONS = {
    "muster_version": (c_char_p, []),
    "muster_status_name": (c_char_p, [c_int]),
    "muster_status_message": (c_char_p, [c_int]),
    "muster_health_name": (c_char_p, [c_int]),
    "muster_device_kind_name": (c_char_p, [c_int]),
    "muster_refusal_name": (c_char_p, [c_int]),
    "muster_size_parse": (c_int, [c_char_p, POINTER(c_uint64), error]),
    "muster_open": (c_int, [POINTER(runtime), POINTER(muster_options), error]),
    "muster_close": (c_int, [runtime, error]),
    "muster_trim": (None, [runtime]),
    "muster_device_list": (c_int, [runtime, POINTER(muster_device), c_size_t, POINTER(c_size_t), error]),
    "muster_device_find": (c_int, [runtime, c_char_p, POINTER(muster_device), error]),
    "muster_device_info": (c_int, [runtime, muster_device, POINTER(muster_device_info), error]),
    "muster_device_load": (c_int, [runtime, muster_device, POINTER(muster_device_load), error]),
    "muster_device_slice": (c_int, [runtime, muster_device, POINTER(c_uint32), c_size_t, POINTER(muster_device), error]),
    "muster_backend_list": (c_int, [runtime, POINTER(muster_backend_report), c_size_t, POINTER(c_size_t), error]),
    "muster_stream_default": (c_int, [runtime, muster_device, POINTER(muster_stream), error]),
    "muster_block_declare": (c_int, [runtime, muster_device, c_uint64, c_void_p, c_uint64, POINTER(muster_block), error]),
    "muster_block_free": (c_int, [runtime, muster_stream, muster_block, error]),
    "muster_data_create": (c_int, [runtime, c_void_p, c_uint64, c_uint32, POINTER(muster_data), error]),
    "muster_data_part": (c_int, [runtime, muster_data, c_uint64, c_uint64, POINTER(muster_data), error]),
    "muster_data_tile": (c_int, [runtime, muster_data, c_uint64, c_uint64, c_uint64, c_uint64, c_uint64, POINTER(muster_data),
                                 error]),
    "muster_data_reduction": (c_int, [runtime, muster_data, POINTER(muster_reduction), error]),
    "muster_data_acquire": (c_int, [runtime, muster_data, c_int, c_uint64, POINTER(c_void_p), error]),
    "muster_data_release": (c_int, [runtime, muster_data, error]),
    "muster_data_invalidate": (c_int, [runtime, muster_data, error]),
    "muster_data_destroy": (c_int, [runtime, muster_data, error]),
    "muster_kernel_load_files": (c_int, [runtime, POINTER(c_char_p), c_size_t, c_char_p, POINTER(kernel), error]),
    "muster_kernel_from": (c_int, [runtime, c_char_p, POINTER(muster_kernel_form), c_size_t, POINTER(kernel), error]),
    "muster_kernel_parameter": (c_int, [kernel, c_size_t, POINTER(muster_kernel_parameter), error]),
    "muster_kernel_partial": (c_int, [kernel, POINTER(muster_partial), error]),
    "muster_kernel_partial_field": (c_int, [kernel, c_size_t, POINTER(muster_partial_field), error]),
    "muster_kernel_destroy": (None, [kernel]),
    "muster_start": (c_int, [runtime, POINTER(muster_job_desc), POINTER(job), error]),
    "muster_job_wait_for": (c_int, [job, c_uint64, POINTER(muster_report), error]),
    "muster_job_devices": (c_int, [job, POINTER(muster_job_device), c_size_t, POINTER(c_size_t), error]),
    "muster_job_cancel": (None, [job]),
    "muster_job_progress": (c_int, [job, POINTER(muster_progress), error]),
    "muster_job_report": (c_int, [job, POINTER(muster_report), error]),
    "muster_job_destroy": (None, [job]),
    "muster_submit": (c_int, [runtime, POINTER(muster_task_desc), c_size_t, POINTER(muster_task), error]),
    "muster_wait": (c_int, [runtime, POINTER(muster_task), c_size_t, c_uint64, error]),
    "muster_cancel": (c_int, [runtime, muster_task, error]),
    "muster_graph_begin": (c_int, [runtime, error]),
    "muster_graph_end": (c_int, [runtime, POINTER(graph), error]),
    "muster_graph_run": (c_int, [runtime, graph, POINTER(muster_graph_change), c_size_t, POINTER(muster_task), error]),
    "muster_graph_destroy": (None, [graph]),
    "muster_policy_named": (c_void_p, [c_char_p]),
    "muster_pick": (c_int, [runtime, c_void_p, POINTER(muster_hints), POINTER(muster_lease), POINTER(muster_device), error]),
    "muster_lease_release": (c_int, [runtime, muster_lease, error]),
    "muster_explain": (c_int, [runtime, POINTER(muster_decision), c_size_t, POINTER(c_size_t), error]),
    "muster_trace_start": (c_int, [runtime, POINTER(muster_trace_options), error]),
    "muster_trace_stop": (c_int, [runtime, c_char_p, error]),
    "muster_trace_events": (c_int, [runtime, event_function, c_void_p, POINTER(c_uint64), error]),
    "muster_counters": (c_int, [runtime, POINTER(muster_counters), error]),
    "muster_simulate": (c_int, [c_char_p, c_size_t, POINTER(muster_simulation_options), POINTER(POINTER(muster_simulation)),
                                error]),
    "muster_simulation_destroy": (None, [POINTER(muster_simulation)]),
}
