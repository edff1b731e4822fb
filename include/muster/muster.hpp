/*
 * Muster for C++17: the C interface (muster.h) with owners, views, lambdas and exceptions. Header only;
 * a program links the same library. docs/cpp.md shows it at work.
 *
 *     muster::runtime m;
 *     muster::kernel saxpy = m.load("saxpy.c", "saxpy");
 *     m.for_each(saxpy, { muster::value(2.0f), muster::in(x), muster::inout(y) });
 *
 * - Owners (runtime, kernel, job, task, pipeline, data, acquired, graph, stream, block, lease, pinned,
 *   kept) can be moved and not copied. Destructors give back what they own and never throw. All but the runtime must go
 *   before their runtime; declared after it, they do.
 * - Failures: load() throws muster::error, and try_load() returns a result<kernel>, which has the value
 *   or the error. So it is for every call that can fail. The two are told apart by name, not by an
 *   argument or a policy of the whole program, so that one call can be looked at by itself and a
 *   library that wants values can be used by a program that wants exceptions. Each x() is
 *   try_x().value(), so both always do the same.
 * - Callbacks are lambdas. An exception that leaves one does not go through Muster: it is kept, the
 *   callback fails - with the status of a muster::error, MUSTER_E_NO_MEMORY for std::bad_alloc,
 *   MUSTER_E_FAILED for all others - and the call that waits for the work throws it again. try_wait()
 *   has it in result::thrown().
 * - Nothing is allocated that C would not allocate, but room for lambdas and the vectors that a few
 *   calls return.
 *
 * The structs and handles of the C interface are used as they are; get() gives what an owner has, for
 * calls that have no form here. Since the namespace has its name, `struct muster` is `muster_runtime`
 * where this header is included, which must be before muster.h.
 */
#ifndef MUSTER_MUSTER_HPP
#define MUSTER_MUSTER_HPP

#if !defined(__cplusplus) || __cplusplus < 201703L
#error "muster.hpp needs C++17; C++11 and C++14 can use muster.h"
#endif

#include <muster/cpp/args.hpp>
#include <muster/cpp/callback.hpp>
#include <muster/cpp/error.hpp>
#include <muster/cpp/flow.hpp>
#include <muster/cpp/job.hpp>
#include <muster/cpp/owners.hpp>
#include <muster/cpp/pipeline.hpp>
#include <muster/cpp/runtime.hpp>
#include <muster/cpp/span.hpp>
#include <muster/cpp/task.hpp>

#endif
