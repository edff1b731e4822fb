/*
 * Graphs: many small launches given to the driver as one. A stream keeps a few executable graphs of
 * kernels that it launches again and again in batches; their parameters are changed before each use,
 * which the driver promises not to let launches feel that were given before.
 *
 * To make one costs more than the launches it holds: the first batch is given launch by launch, and
 * so is whatever the driver does not want as a graph. Slices have none: the nodes of a graph run in
 * the context of their function, which is the whole GPU's, whatever stream the graph is launched on.
 */
#include "backend/cuda/state.h"
#include "base/allocator.h"

#define LARGE CUDA_GRAPH_NODES_MAX
#define SMALL 8
/* Launches that need no order: this many of a graph may run beside each other. */
#define CHAINS 4
_Static_assert(SMALL < LARGE && LARGE % SMALL == 0 && CHAINS < SMALL, "sizes of graphs");

bool cuda_graphs_exist(const struct cuda_driver *driver)
{
    return driver->graph_create && driver->graph_add_kernel && driver->graph_instantiate &&
           driver->graph_set_kernel && driver->graph_launch && driver->graph_exec_destroy &&
           driver->graph_destroy;
}

static void dismantle(const struct cuda_driver *driver, struct cuda_graph *graph)
{
    if (graph->exec)
        driver->graph_exec_destroy(graph->exec);
    if (graph->graph)
        driver->graph_destroy(graph->graph);
    graph->exec = NULL;
    graph->graph = NULL;
}

void cuda_graphs_free(struct cuda_domain *domain, struct cuda_queue *queue)
{
    if (!queue->graphs)
        return;
    for (size_t i = 0; i < CUDA_GRAPHS_OF_QUEUE; i++)
        dismantle(&domain->backend->driver, &queue->graphs[i]);
    allocator_give(domain->backend->services->allocator, queue->graphs, CUDA_GRAPHS_OF_QUEUE,
                   sizeof *queue->graphs);
    queue->graphs = NULL;
}

/* The place of a graph of this shape; takes the one that was used least recently. NULL: no memory. */
static struct cuda_graph *find(struct cuda_queue *queue, const struct cuda_kernel *kernel,
                               uint32_t size, bool is_ordered)
{
    const struct cuda_backend *backend = queue->device->domain->backend;
    if (!queue->graphs)
        queue->graphs = allocator_take(backend->services->allocator, CUDA_GRAPHS_OF_QUEUE,
                                       sizeof *queue->graphs);
    if (!queue->graphs)
        return NULL;
    struct cuda_graph *oldest = queue->graphs;
    for (size_t i = 0; i < CUDA_GRAPHS_OF_QUEUE; i++) {
        struct cuda_graph *graph = &queue->graphs[i];
        if (graph->kernel == kernel->number && graph->size == size &&
            graph->is_ordered == is_ordered)
            return graph;
        if (graph->used_at < oldest->used_at)
            oldest = graph;
    }
    dismantle(&backend->driver, oldest);
    *oldest =
        (struct cuda_graph){ .kernel = kernel->number, .size = size, .is_ordered = is_ordered };
    return oldest;
}

static cuda_kernel_node describe(const struct cuda_kernel *kernel,
                                 const struct muster_launch_desc *launch,
                                 struct cuda_parameters *parameters)
{
    cuda_parameters_set(parameters, launch);
    return (cuda_kernel_node){ .function = kernel->function,
                               .grid = { cuda_blocks_for(kernel, launch->items), 1, 1 },
                               .block = { kernel->threads, 1, 1 },
                               .parameters = parameters->pointers };
}

static cuda_result build(const struct cuda_driver *driver, struct cuda_graph *graph,
                         const struct cuda_kernel *kernel,
                         const struct muster_launch_desc *launches)
{
    size_t chains = graph->is_ordered ? 1 : CHAINS;
    struct cuda_parameters parameters;
    cuda_result result = driver->graph_create(&graph->graph, 0);
    for (size_t i = 0; i < graph->size && result == CUDA_SUCCESS_; i++) {
        const cuda_kernel_node node = describe(kernel, &launches[i], &parameters);
        bool has_before = i >= chains;
        result = driver->graph_add_kernel(&graph->nodes[i], graph->graph,
                                          has_before ? &graph->nodes[i - chains] : NULL, has_before,
                                          &node);
    }
    if (result == CUDA_SUCCESS_)
        result = driver->graph_instantiate(&graph->exec, graph->graph, 0);
    if (result != CUDA_SUCCESS_)
        dismantle(driver, graph);
    return result;
}

static cuda_result update(const struct cuda_driver *driver, struct cuda_graph *graph,
                          const struct cuda_kernel *kernel,
                          const struct muster_launch_desc *launches)
{
    struct cuda_parameters parameters;
    cuda_result result = CUDA_SUCCESS_;
    for (size_t i = 0; i < graph->size && result == CUDA_SUCCESS_; i++) {
        const cuda_kernel_node node = describe(kernel, &launches[i], &parameters);
        result = driver->graph_set_kernel(graph->exec, graph->nodes[i], &node);
    }
    return result;
}

static bool is_any_ordered(const struct muster_launch_desc *launches, size_t count)
{
    size_t i = 0;
    while (i < count && (launches[i].flags & MUSTER_LAUNCH_UNORDERED))
        i++;
    return i < count;
}

size_t cuda_graph_launch(struct cuda_queue *queue, const struct cuda_kernel *kernel,
                         const struct muster_launch_desc *launches, size_t count,
                         cuda_result *result)
{
    const struct cuda_driver *driver = &queue->device->domain->backend->driver;
    uint32_t size = count >= LARGE ? LARGE : SMALL;
    if (count < SMALL || queue->refuses_graphs || queue->device->green ||
        !(queue->device->domain->info.capabilities & MUSTER_CAN_GRAPHS))
        return 0;
    struct cuda_graph *graph = find(queue, kernel, size, is_any_ordered(launches, size));
    if (!graph)
        return 0;
    graph->used_at = ++queue->graph_uses;
    cuda_result answer = CUDA_NOT_READY;
    if (graph->exec)
        answer = update(driver, graph, kernel, launches);
    else if (graph->uses++ > 0)
        answer = build(driver, graph, kernel, launches);
    if (answer == CUDA_SUCCESS_)
        answer = driver->graph_launch(graph->exec, queue->handle);
    if (answer == CUDA_SUCCESS_ || cuda_driver_is_loss(answer)) {
        *result = answer;
        return size;
    }
    /* Refused: nothing of it was given, and this stream asks no more. */
    queue->refuses_graphs = answer != CUDA_NOT_READY;
    for (size_t i = 0; i < size && *result == CUDA_SUCCESS_; i++)
        *result = cuda_launch_one(queue, kernel, &launches[i]);
    return size;
}
