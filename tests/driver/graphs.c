/*
 * Graphs of kernel nodes, and executable ones made of them. A launch takes the parameters of that
 * moment with it. Nodes that nothing orders are run from the last to the first, so that who left an
 * edge out sees it.
 */
#include "inside.h"

#include "image.h"

#include <stdlib.h>

#define NODES_MAX 256
#define DEPENDENCIES_MAX 4

typedef struct graph *CUgraph;
typedef struct graph *CUgraphExec;
typedef struct node *CUgraphNode;

struct node {
    struct graph *graph;
    struct launch *launch; /* owns */
    uint32_t before[DEPENDENCIES_MAX];
    uint32_t before_count;
};

/* Both kinds: an executable one is a copy that knows what it was made of. */
struct graph {
    struct object object;
    const struct graph *origin; /* NULL: not executable. Only compared. */
    uint32_t count;
    struct node nodes[NODES_MAX];
};

/* The layout is CUDA's. */
typedef struct {
    struct function *function;
    struct test_dimensions grid, block;
    unsigned shared_bytes;
    void **parameters, **extra;
    void *kernel;
    CUcontext context;
} CUDA_KERNEL_NODE_PARAMS;
_Static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 72, "the layout of CUDA");

static void free_nodes(struct graph *graph)
{
    for (uint32_t i = 0; i < graph->count; i++)
        free(graph->nodes[i].launch);
    free(graph);
}

void graph_end(struct object *object)
{
    object_remove(object);
    free_nodes((struct graph *)object);
}

static struct graph *copy_graph(const struct graph *graph)
{
    struct graph *copy = calloc(1, sizeof *copy);
    for (uint32_t i = 0; copy && i < graph->count; i++) {
        copy->nodes[i] = graph->nodes[i];
        copy->nodes[i].graph = copy;
        copy->nodes[i].launch = launch_copy(graph->nodes[i].launch);
        copy->count = i + 1;
        if (!copy->nodes[i].launch) {
            free_nodes(copy);
            copy = NULL;
        }
    }
    return copy;
}

static CUresult check(CUgraph graph, bool is_executable)
{
    if (!settings.has_graphs)
        return CUDA_ERROR_NOT_SUPPORTED;
    return IS(graph, KIND_GRAPH) && (graph->origin != NULL) == is_executable
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

API(cuGraphCreate, CUgraph *out, unsigned flags)
{
    BEGIN(CHECK_CONTEXT);
    if (!settings.has_graphs)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!out || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    object_add(&graph->object, KIND_GRAPH, context_current()->device);
    *out = graph;
    return CUDA_SUCCESS;
}

static CUresult make_launch(const CUDA_KERNEL_NODE_PARAMS *asked, struct launch **out)
{
    return asked ? launch_make(asked->function, &asked->grid, &asked->block, asked->shared_bytes,
                               asked->parameters, asked->extra, out)
                 : CUDA_ERROR_INVALID_VALUE;
}

API(cuGraphAddKernelNode_v2, CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
    size_t count, const CUDA_KERNEL_NODE_PARAMS *asked)
{
    BEGIN(CHECK_CONTEXT);
    CUresult result = check(graph, false);
    if (result != CUDA_SUCCESS)
        return result;
    if (graph->count == NODES_MAX || count > DEPENDENCIES_MAX || (count > 0 && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    struct node *node = &graph->nodes[graph->count];
    *node = (struct node){ .graph = graph, .before_count = (uint32_t)count };
    for (size_t i = 0; i < count; i++) {
        if (!dependencies[i] || dependencies[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
        node->before[i] = (uint32_t)(dependencies[i] - graph->nodes);
    }
    result = make_launch(asked, &node->launch);
    if (result == CUDA_SUCCESS) {
        graph->count++;
        *out = node;
    }
    return result;
}

API(cuGraphInstantiateWithFlags, CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    BEGIN(CHECK_CONTEXT);
    CUresult result = check(graph, false);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct graph *exec = copy_graph(graph);
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->origin = graph;
    object_add(&exec->object, KIND_GRAPH, context_current()->device);
    *out = exec;
    return CUDA_SUCCESS;
}

API(cuGraphExecKernelNodeSetParams_v2, CUgraphExec exec, CUgraphNode node,
    const CUDA_KERNEL_NODE_PARAMS *asked)
{
    BEGIN(CHECK_CONTEXT);
    CUresult result = check(exec, true);
    if (result != CUDA_SUCCESS)
        return result;
    if (!node || node->graph != exec->origin)
        return CUDA_ERROR_INVALID_VALUE;
    struct launch *launch;
    result = make_launch(asked, &launch);
    if (result != CUDA_SUCCESS)
        return result;
    struct node *mine = &exec->nodes[node - exec->origin->nodes];
    free(mine->launch);
    mine->launch = launch;
    return CUDA_SUCCESS;
}

static bool is_ready(const struct graph *graph, uint32_t at, const bool *is_done)
{
    const struct node *node = &graph->nodes[at];
    uint32_t i = 0;
    while (i < node->before_count && is_done[node->before[i]])
        i++;
    return !is_done[at] && i == node->before_count;
}

static void run_graph(void *payload)
{
    const struct graph *graph = payload;
    bool is_done[NODES_MAX] = { false };
    for (uint32_t done = 0; done < graph->count; done++) {
        uint32_t at = graph->count - 1;
        while (!is_ready(graph, at, is_done))
            at--;
        launch_run(graph->nodes[at].launch);
        is_done[at] = true;
    }
}

static void drop_graph(void *payload)
{
    free_nodes(payload);
}

API(cuGraphLaunch, CUgraphExec exec, CUstream handle)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    if (result == CUDA_SUCCESS)
        result = check(exec, true);
    if (result != CUDA_SUCCESS)
        return result;
    struct graph *taken = copy_graph(exec);
    if (!taken)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return stream_give_launch(stream, run_graph, drop_graph, taken);
}

API(cuGraphExecDestroy, CUgraphExec exec)
{
    BEGIN(CHECK_CONTEXT);
    if (!IS(exec, KIND_GRAPH) || !exec->origin)
        return CUDA_ERROR_INVALID_VALUE;
    graph_end(&exec->object);
    return CUDA_SUCCESS;
}

API(cuGraphDestroy, CUgraph graph)
{
    BEGIN(CHECK_CONTEXT);
    if (!IS(graph, KIND_GRAPH) || graph->origin)
        return CUDA_ERROR_INVALID_VALUE;
    graph_end(&graph->object);
    return CUDA_SUCCESS;
}
