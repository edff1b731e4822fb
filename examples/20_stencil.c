/*
 * A stencil whose strips exchange halos by saying so: a task updates the cells of its strip and reads
 * those around them, as parts of one array. Strips that do not touch run at the same time; a sum of all cells
 * is a reduction, whose bits do not depend on who ran when. The steps are recorded once and run again.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

#define CELLS 4096
#define STRIPS 16
#define EACH (CELLS / STRIPS)
#define STEPS 100 /* an even number: two are recorded */

static float cells[2][CELLS + 2]; /* one more at each end, which stays as it is */

/* to = the mean of from's neighbours */
static muster_status relax(void *user, const struct muster_native *native)
{
    const float *from = native->pointers[0];
    float *to = native->pointers[1];
    (void)user;
    for (int i = 0; i < EACH; i++)
        to[i] = 0.5f * from[i] + 0.25f * (from[i + 2] + from[i + 1]);
    return MUSTER_OK;
}

static muster_status add(void *user, const struct muster_native *native)
{
    const float *strip = native->pointers[0];
    double *sum = native->pointers[1];
    (void)user;
    for (int i = 0; i < EACH; i++)
        *sum += (double)strip[i];
    return MUSTER_OK;
}

static void begin_sum(void *user, void *to, uint64_t bytes)
{
    (void)user;
    (void)bytes;
    *(double *)to = 0;
}

static void combine_sums(void *user, void *into, const void *from, uint64_t bytes)
{
    (void)user;
    (void)bytes;
    *(double *)into += *(const double *)from;
}

struct field {
    muster_data whole[2], strips[2][STRIPS], around[2][STRIPS], sum;
};

static muster_status make(struct muster *m, struct field *field, double *sum,
                          struct muster_error *err)
{
    const struct muster_reduction reduction = { sizeof reduction, NULL, begin_sum, combine_sums };
    muster_status status = muster_data_create(m, sum, sizeof *sum, 0, &field->sum, err);
    if (status == MUSTER_OK)
        status = muster_data_reduction(m, field->sum, &reduction, err);
    for (int a = 0; a < 2 && status == MUSTER_OK; a++)
        status = muster_data_create(m, cells[a], sizeof cells[a], 0, &field->whole[a], err);
    for (uint64_t i = 0; i < 2 * STRIPS && status == MUSTER_OK; i++) {
        uint64_t a = i % 2, s = i / 2;
        status = muster_data_part(m, field->whole[a], (1 + s * EACH) * sizeof(float),
                                  EACH * sizeof(float), &field->strips[a][s], err);
        if (status == MUSTER_OK)
            status = muster_data_part(m, field->whole[a], s * EACH * sizeof(float),
                                      (EACH + 2) * sizeof(float), &field->around[a][s], err);
    }
    return status;
}

static muster_status submit(struct muster *m,
                            muster_status (*body)(void *, const struct muster_native *),
                            muster_data read, muster_data write, enum muster_mode mode,
                            struct muster_error *err)
{
    const struct muster_body form = { sizeof form, "cpu", body };
    const struct muster_task_access accesses[] = { MUSTER_ACCESS(read, MUSTER_READ),
                                                   MUSTER_ACCESS(write, mode) };
    const struct muster_task_desc task = { .size = sizeof task,
                                           .accesses = accesses,
                                           .access_count = 2,
                                           .bodies = &form,
                                           .body_count = 1 };
    return muster_submit(m, &task, 1, NULL, err);
}

/* Two steps, there and back. */
static muster_status record(struct muster *m, const struct field *field, struct muster_graph **out,
                            struct muster_error *err)
{
    muster_status status = muster_graph_begin(m, err);
    if (status != MUSTER_OK)
        return status;
    for (int i = 0; i < 2 * STRIPS && status == MUSTER_OK; i++)
        status = submit(m, relax, field->around[i / STRIPS][i % STRIPS],
                        field->strips[1 - i / STRIPS][i % STRIPS], MUSTER_WRITE, err);
    muster_status ended = muster_graph_end(m, out, err);
    return status == MUSTER_OK ? ended : status;
}

static muster_status run(struct muster *m, double *sum, struct muster_error *err)
{
    struct field field;
    struct muster_graph *graph = NULL;
    muster_status status = make(m, &field, sum, err);
    if (status == MUSTER_OK)
        status = record(m, &field, &graph, err);
    for (int step = 0; step < STEPS && status == MUSTER_OK; step += 2)
        status = muster_graph_run(m, graph, NULL, 0, NULL, err);
    for (int s = 0; s < STRIPS && status == MUSTER_OK; s++)
        status = submit(m, add, field.strips[0][s], field.sum, MUSTER_REDUCE, err);
    if (status == MUSTER_OK)
        status = muster_data_invalidate(m, field.sum, err); /* waits, and brings it home */
    if (status == MUSTER_OK)
        status = muster_wait(m, NULL, 0, UINT64_MAX, err);
    muster_graph_destroy(graph);
    return status; /* muster_close forgets the data */
}

int main(void)
{
    struct muster *m = NULL;
    struct muster_error err;
    double sum = 0, expected = 0;
    static float model[2][CELLS + 2];
    for (int i = 1; i <= CELLS; i++)
        cells[0][i] = model[0][i] = (float)(i % 100);
    for (int step = 0; step < STEPS; step++)
        for (int i = 1; i <= CELLS; i++)
            model[1 - step % 2][i] = 0.5f * model[step % 2][i - 1] +
                                     0.25f * (model[step % 2][i + 1] + model[step % 2][i]);
    for (int i = 1; i <= CELLS; i++)
        expected += (double)model[0][i];
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK)
        status = run(m, &sum, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    printf("%d cells, %d steps: sum %.3f, expected %.3f\n", CELLS, STEPS, sum, expected);
    return status != MUSTER_OK || sum < expected - 1e-6 * expected ||
           sum > expected + 1e-6 * expected;
}
