/*
 * The C interface for muster.hpp. A namespace and a struct of one scope cannot have one name, so here
 * the runtime's struct is called muster_runtime; for the linker nothing changes. Included by muster.hpp.
 */
#ifndef MUSTER_CPP_C_HPP
#define MUSTER_CPP_C_HPP

#if defined(MUSTER_STATUS_H) && !defined(MUSTER_RUNTIME_IS_RENAMED)
#error                                                                                             \
    "include <muster/muster.hpp> before the C headers of Muster: it names their struct muster again"
#endif
#define MUSTER_RUNTIME_IS_RENAMED

#include <cstddef>
#include <cstdint>
#include <stddef.h>
#include <stdint.h>

#define muster muster_runtime
#include <muster/backend.h>
#include <muster/muster.h>
#undef muster

#endif
