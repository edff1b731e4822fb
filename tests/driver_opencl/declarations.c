/*
 * Compiled, never run: what src/backend/opencl/driver.h declares is what CL/cl.h declares, number by
 * number and signature by signature. Empty where there is no CL/cl.h.
 */
#if defined(__has_include)
#if __has_include(<CL/cl.h>)
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#define OPENCL_TYPES_GIVEN
typedef cl_platform_id opencl_platform;
typedef cl_device_id opencl_device_id;
typedef cl_context opencl_context;
typedef cl_command_queue opencl_queue;
typedef cl_mem opencl_buffer;
typedef cl_event opencl_event;
typedef cl_program opencl_program;
typedef cl_kernel opencl_kernel_object;
typedef cl_int opencl_int;
typedef cl_uint opencl_uint;
typedef cl_ulong opencl_ulong;
#include "backend/opencl/driver.h"

#define SAME_NUMBER(name, value)                                                                   \
    _Static_assert((long long)(value) == (long long)CL_##name, "CL_" #name);
OPENCL_CONSTANTS(SAME_NUMBER)
_Static_assert(OPENCL_DEVICE_TYPE_ALL == CL_DEVICE_TYPE_ALL, "CL_DEVICE_TYPE_ALL");

#define SAME_SIGNATURE(result, name, parameters)                                                   \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name),                                 \
                                                __typeof__(((struct opencl_driver *)0)->name)),    \
                   #name);
OPENCL_FUNCTIONS(SAME_SIGNATURE)
OPENCL_OPTIONAL_FUNCTIONS(SAME_SIGNATURE)
#endif
#endif

typedef int opencl_declarations_compared; /* a file must not be empty */
