/*
 * A program that has CUDA code of its own: a stream, memory from cudaMalloc and a call of cuBLAS,
 * beside a kernel that Muster runs on the same memory. Muster orders what was declared; between
 * its streams and the program's one line each way does.
 *
 *     y = a x        a kernel file, run by Muster on a stream of Muster's
 *     y = y + 2 x    cuBLAS, on a stream of the program's own
 *     y = y + y      cuBLAS, on the stream of Muster's
 */
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <muster/interop_cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT (1u << 20)

static const char source[] =
    "MUSTER_KERNEL void scale(uint64_t i, float a, MUSTER_GLOBAL const float *x,\n"
    "                         MUSTER_GLOBAL float *y)\n"
    "{\n"
    "    y[i] = a * x[i];\n"
    "}\n";

static struct muster_error problem;

static void must(int is_good, const char *what)
{
    if (is_good)
        return;
    fprintf(stderr, "%s failed: %s\n", what, problem.text);
    exit(1);
}

#define MUSTER(call) must((call) == MUSTER_OK, #call)
#define CUDA(call) must((call) == 0, #call)

int main(void)
{
    struct muster *m;
    muster_device device;
    muster_stream stream;
    MUSTER(muster_open(&m, NULL, &problem));
    if (muster_device_find(m, "cuda:0", &device, &problem) != MUSTER_OK) {
        printf("no CUDA device here: %s\n", problem.text);
        muster_close(m, NULL);
        return 0;
    }
    MUSTER(muster_stream_acquire(m, device, 0, &stream, &problem));

    /* What such a program already has. */
    float *host = malloc(COUNT * sizeof *host), *x, *y;
    must(host != NULL, "malloc");
    for (unsigned i = 0; i < COUNT; i++)
        host[i] = (float)(i % 1000);
    cudaStream_t own;
    cublasHandle_t blas;
    CUDA(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
    CUDA(cublasCreate(&blas));
    CUDA(cudaMalloc((void **)&x, COUNT * sizeof *x));
    CUDA(cudaMalloc((void **)&y, COUNT * sizeof *y));
    CUDA(cudaMemcpyAsync(x, host, COUNT * sizeof *x, cudaMemcpyHostToDevice, own));

    /* Muster gets to know of the memory and runs a kernel on it, behind the copy. */
    muster_block block_x, block_y;
    CUstream theirs = NULL;
    MUSTER(muster_cuda_declare(m, device, (CUdeviceptr)x, COUNT * sizeof *x, &block_x, &problem));
    MUSTER(muster_cuda_declare(m, device, (CUdeviceptr)y, COUNT * sizeof *y, &block_y, &problem));
    MUSTER(muster_cuda_stream(m, stream, &theirs, &problem));
    CUDA(muster_cuda_order(own, theirs));
    struct muster_kernel *kernel;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = "scale" };
    MUSTER(muster_kernel_from(m, "scale", &form, 1, &kernel, &problem));
    const float a = 3;
    const struct muster_operand args[] = { MUSTER_SCALAR(a), MUSTER_BLOCK_READ(block_x),
                                           MUSTER_BLOCK_WRITE(block_y) };
    MUSTER(muster_launch(m, stream, kernel, 0, COUNT, args, 3, NULL, &problem));

    /* cuBLAS on the program's stream, behind the kernel. */
    const float two = 2, one = 1;
    CUDA(muster_cuda_order(theirs, own));
    CUDA(cublasSetStream(blas, own));
    CUDA(cublasSaxpy(blas, COUNT, &two, x, 1, y, 1));
    CUDA(muster_cuda_order(own, theirs));

    /* cuBLAS on Muster's stream: begin and end tell Muster what it touches. */
    const struct muster_use use = MUSTER_USE(block_y, MUSTER_READS_WRITES);
    CUdeviceptr address = 0;
    MUSTER(muster_cuda_address(m, block_y, &address, &problem));
    MUSTER(muster_block_begin(m, stream, &use, 1, &problem));
    CUDA(cublasSetStream(blas, theirs));
    CUDA(cublasSaxpy(blas, COUNT, &one, (float *)address, 1, (float *)address, 1));
    MUSTER(muster_block_end(m, stream, &use, 1, &problem));

    float *result = malloc(COUNT * sizeof *result);
    must(result != NULL, "malloc");
    MUSTER(muster_copy_out(m, stream, result, block_y, 0, COUNT * sizeof *result, &problem));
    MUSTER(muster_stream_wait(m, stream, UINT64_MAX, &problem));
    unsigned wrong = 0;
    for (unsigned i = 0; i < COUNT; i++)
        wrong += result[i] != 10 * host[i];
    printf("%u items through a kernel of Muster's and two calls of cuBLAS: %u wrong\n", COUNT,
           wrong);
    cublasDestroy(blas);
    cudaFree(x);
    cudaFree(y);
    free(result);
    free(host);
    MUSTER(muster_close(m, &problem));
    return wrong > 0;
}
