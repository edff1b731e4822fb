/*
 * A program that has OpenCL code of its own: a kernel and a buffer, on the queue of a stream of
 * Muster's and beside Muster's own copies.
 *
 *     y = 1, 2, 3, ...    copied in by Muster
 *     y = y + x           the program's kernel, with a buffer x of the program's own
 *     y                   copied out by Muster, after the kernel
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <muster/interop_opencl.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 100000u

static const char source[] = "kernel void add(global uint *y, global const uint *x)\n"
                             "{\n"
                             "    y[get_global_id(0)] += x[get_global_id(0)];\n"
                             "}\n";

static struct muster_error problem;
static cl_int code;

static void must(int is_good, const char *what)
{
    if (is_good)
        return;
    fprintf(stderr, "%s failed: %s (%d)\n", what, problem.text, (int)code);
    exit(1);
}

#define MUSTER(call) must((call) == MUSTER_OK, #call)
#define OPENCL(call) must((code = (call)) == CL_SUCCESS, #call)

/* The kernel is built in the context of Muster's queue. */
static cl_kernel build(cl_context context, cl_device_id device)
{
    const char *text = source;
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &code);
    must(program != NULL, "clCreateProgramWithSource");
    OPENCL(clBuildProgram(program, 1, &device, "", NULL, NULL));
    cl_kernel kernel = clCreateKernel(program, "add", &code);
    must(kernel != NULL, "clCreateKernel");
    clReleaseProgram(program);
    return kernel;
}

int main(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster *m;
    muster_device device;
    muster_stream stream;
    muster_block y, x;
    options.devices = "opencl"; /* also where another backend has the same silicon */
    MUSTER(muster_open(&m, &options, &problem));
    muster_status status = muster_device_find(m, "opencl:0", &device, &problem);
    if (status == MUSTER_E_NOT_FOUND) {
        printf("%s\n", problem.text);
        muster_close(m, NULL);
        return 77;
    }
    must(status == MUSTER_OK, "muster_device_find");
    MUSTER(muster_stream_acquire(m, device, 0, &stream, &problem));
    MUSTER(muster_block_allocate(m, stream, COUNT * sizeof(cl_uint), &y, &problem));

    cl_command_queue queue = NULL;
    cl_context context;
    cl_device_id id;
    cl_mem y_buffer = NULL;
    MUSTER(muster_opencl_queue(m, stream, &queue, &problem));
    MUSTER(muster_opencl_buffer(m, y, &y_buffer, &problem));
    OPENCL(muster_opencl_context(queue, &context, &id));
    cl_kernel kernel = build(context, id);

    cl_uint *host = malloc(COUNT * sizeof *host);
    must(host != NULL, "malloc");
    for (cl_uint i = 0; i < COUNT; i++)
        host[i] = 2 * i;
    cl_mem x_buffer =
        clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, COUNT * sizeof *host, host, &code);
    must(x_buffer != NULL, "clCreateBuffer");
    MUSTER(muster_opencl_declare(m, device, x_buffer, COUNT * sizeof *host, &x, &problem));
    for (cl_uint i = 0; i < COUNT; i++)
        host[i] = i + 1;
    MUSTER(muster_copy_in(m, stream, y, 0, host, COUNT * sizeof *host, &problem));

    const struct muster_use uses[] = { { sizeof *uses, y, MUSTER_READS_WRITES },
                                       { sizeof *uses, x, MUSTER_READS } };
    const size_t global = COUNT;
    MUSTER(muster_block_begin(m, stream, uses, 2, &problem));
    OPENCL(clSetKernelArg(kernel, 0, sizeof y_buffer, &y_buffer));
    OPENCL(clSetKernelArg(kernel, 1, sizeof x_buffer, &x_buffer));
    OPENCL(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &global, NULL, 0, NULL, NULL));
    MUSTER(muster_block_end(m, stream, uses, 2, &problem));

    MUSTER(muster_copy_out(m, stream, host, y, 0, COUNT * sizeof *host, &problem));
    MUSTER(muster_stream_wait(m, stream, UINT64_MAX, &problem));
    for (cl_uint i = 0; i < COUNT; i++)
        must(host[i] == 3 * i + 1, "the sum");
    printf("%u sums on opencl:0, the last is %u\n", COUNT, (unsigned)host[COUNT - 1]);

    free(host);
    clReleaseKernel(kernel);
    MUSTER(muster_block_free(m, stream, x, &problem));
    MUSTER(muster_block_free(m, stream, y, &problem));
    MUSTER(muster_stream_release(m, stream, &problem));
    clReleaseMemObject(x_buffer);
    MUSTER(muster_close(m, &problem));
    return 0;
}
