/*
 * What the compiler of the tests (libnvrtc.so.13 in this folder) makes and the driver of the tests
 * loads: a shared object for the host that has, for each kernel NAME, a struct test_kernel called
 * test_kernel_NAME. As "PTX" the same image follows a line of text, which tells it from a cubin.
 */
#ifndef TEST_CUDA_IMAGE_H
#define TEST_CUDA_IMAGE_H

#define TEST_KERNEL_PREFIX "test_kernel_"
/* Then the version, 90 for PTX 9.0, a newline and the image. */
#define TEST_PTX_MARK "//muster-test-ptx "

struct test_dimensions {
    unsigned x, y, z;
};

struct test_kernel {
    unsigned long parameter_count;
    const unsigned long *sizes, *offsets;
    /* Runs the threads of blocks [begin, end), counted along x, then y, then z. */
    void (*run)(const struct test_dimensions *grid, const struct test_dimensions *block,
                unsigned long begin, unsigned long end, void **parameters);
};

#endif
