/*
 * A pipeline with its edges, as a table for people and as a graph for Graphviz.
 */
#include "base/text.h"
#include "core/pipeline.h"

#include <string.h>

static const char *const kind_names[] = {
    [MUSTER_EDGE_EVENT] = "event",     [MUSTER_EDGE_ENQUEUE] = "enqueue",
    [MUSTER_EDGE_ARRIVAL] = "arrival", [MUSTER_EDGE_RULE] = "host rule",
    [MUSTER_EDGE_GATE] = "gate",
};

static const char *const kind_colours[] = {
    [MUSTER_EDGE_EVENT] = "#1f77b4",   [MUSTER_EDGE_ENQUEUE] = "#7f7f7f",
    [MUSTER_EDGE_ARRIVAL] = "#2ca02c", [MUSTER_EDGE_RULE] = "#ff7f0e",
    [MUSTER_EDGE_GATE] = "#d62728",
};

static const char *const hazard_words[] = {
    [PIPE_READ_AFTER_WRITE] = "reads what it wrote",
    [PIPE_WRITE_AFTER_READ] = "overwrites what it read",
    [PIPE_WRITE_AFTER_WRITE] = "overwrites what it wrote",
    [PIPE_STATE] = "carries its state on",
    [PIPE_ADDED] = "added",
    [PIPE_ISSUED] = "its record must have been issued",
};

/* Events of the step, one for each unit that a lane holds, or the counter that is a gate. */
static uint32_t instances(const struct pipe_declaration *declaration, const struct pipe_edge *edge)
{
    switch (edge->kind) {
    case MUSTER_EDGE_EVENT:
    case MUSTER_EDGE_ARRIVAL:
        return pipe_depth(declaration);
    case MUSTER_EDGE_GATE:
        return 1;
    default:
        return 0;
    }
}

static const char *guarded(const struct pipe_declaration *declaration, const struct pipe_edge *edge)
{
    return edge->buffer == PIPE_NONE ? "-" : declaration->buffers[edge->buffer].name;
}

static int wider(int width, const char *text)
{
    int length = (int)strlen(text);
    return length > width ? length : width;
}

static void put_buffers(struct text_room *room, const struct pipe_declaration *declaration)
{
    int width = 0;
    for (uint32_t b = 0; b < declaration->buffer_count; b++)
        width = wider(width, declaration->buffers[b].name);
    text_put(room, "buffers\n");
    for (uint32_t b = 0; b < declaration->buffer_count; b++) {
        const struct pipe_buffer *buffer = &declaration->buffers[b];
        text_put(room, "  %-*s  %-6s  ", width, buffer->name, buffer->is_host ? "host" : "device");
        if (buffer->is_unshared)
            text_put(room, "one for each unit");
        else
            text_put(room, "%u slot%s", buffer->slots, buffer->slots == 1 ? "" : "s");
        text_put(room, "%s%s%s\n", buffer->is_input ? ", input" : "",
                 buffer->is_output ? ", output" : "", buffer->is_carried ? ", carried" : "");
    }
}

static void put_streams(struct text_room *room, const struct pipe_declaration *declaration)
{
    int width = wider(0, "host");
    for (uint32_t i = 0; i < declaration->stream_count; i++)
        width = wider(width, declaration->streams[i]);
    text_put(room, "streams\n");
    for (uint32_t i = 0; i < declaration->stream_count; i++) {
        text_put(room, "  %-*s ", width, declaration->streams[i]);
        for (uint32_t s = 0; s < declaration->stage_count; s++)
            if (declaration->stages[s].stream == i)
                text_put(room, " %s", declaration->stages[s].name);
        text_put(room, "\n");
    }
    text_put(room, "  %-*s ", width, "host");
    for (uint32_t step = 0; step < declaration->stage_count + 2; step++)
        if (pipe_is_host(declaration, step))
            text_put(room, " %s", pipe_step_name(declaration, step));
    text_put(room, "\nsegments\n ");
    for (uint32_t step = 0; step < declaration->stage_count + 2; step++) {
        bool begins = step > 0 && pipe_is_host(declaration, step - 1);
        text_put(room, "%s %s", begins ? " |" : "", pipe_step_name(declaration, step));
    }
    text_put(room, "\n");
}

static void put_edges(struct text_room *room, const struct pipe_declaration *declaration,
                      const struct pipe_plan *plan)
{
    int from = wider(0, "from"), to = wider(0, "to"), buffer = wider(0, "guards");
    int hazard = wider(0, "because it");
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        const struct pipe_edge *edge = &plan->edges[i];
        from = wider(from, pipe_step_name(declaration, edge->from));
        to = wider(to, pipe_step_name(declaration, edge->to));
        buffer = wider(buffer, guarded(declaration, edge));
        hazard = wider(hazard, hazard_words[edge->hazard]);
    }
    text_put(room, "edges\n  %3s  %-*s  %-*s  %11s  %-*s  %-9s  %-*s  %9s  %s\n", "no.", from,
             "from", to, "to", "units later", buffer, "guards", "kind", hazard, "because it",
             "instances", "alias of");
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        const struct pipe_edge *edge = &plan->edges[i];
        text_put(room, "  %3u  %-*s  %-*s  %11u  %-*s  %-9s  %-*s  %9u  ", i + 1, from,
                 pipe_step_name(declaration, edge->from), to, pipe_step_name(declaration, edge->to),
                 edge->distance, buffer, guarded(declaration, edge), kind_names[edge->kind], hazard,
                 hazard_words[edge->hazard], instances(declaration, edge));
        if (edge->alias == PIPE_NONE)
            text_put(room, "-\n");
        else
            text_put(room, "%u\n", edge->alias + 1);
    }
    if (plan->edge_count == 0)
        text_put(room, "  none\n");
}

static void put_text(struct text_room *room, const struct pipe_declaration *declaration,
                     const struct pipe_plan *plan)
{
    put_buffers(room, declaration);
    put_streams(room, declaration);
    put_edges(room, declaration, plan);
    text_put(room, "schedule\n  %s: %s\n", pipe_schedule_name(plan->schedule), plan->reason);
}

/* A string of DOT's: quotes and backslashes of a name would end or change it. */
static void put_quoted(struct text_room *room, const char *text)
{
    text_put(room, "\"");
    for (; *text; text++)
        text_put(room, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
    text_put(room, "\"");
}

static void put_cluster(struct text_room *room, const struct pipe_declaration *declaration,
                        uint32_t number, uint32_t stream, const char *name)
{
    text_put(room, "    subgraph cluster_%u {\n        label=", number);
    put_quoted(room, name);
    text_put(room, ";\n        color=\"#c7c7c7\";\n");
    for (uint32_t step = 0; step < declaration->stage_count + 2; step++) {
        bool is_host = pipe_is_host(declaration, step);
        if (is_host ? stream != PIPE_HOST : declaration->stages[step - 1].stream != stream)
            continue;
        text_put(room, "        s%u [label=", step);
        put_quoted(room, pipe_step_name(declaration, step));
        text_put(room, "%s];\n", is_host ? ", style=rounded" : "");
    }
    text_put(room, "    }\n");
}

static void put_dot(struct text_room *room, const struct pipe_declaration *declaration,
                    const struct pipe_plan *plan)
{
    text_put(room, "digraph pipeline {\n    rankdir=LR;\n    node [shape=box, fontname=\"sans\"];\n"
                   "    edge [fontname=\"sans\", fontsize=10];\n    labelloc=t;\n    label=");
    put_quoted(room, pipe_schedule_name(plan->schedule));
    text_put(room, ";\n");
    for (uint32_t i = 0; i < declaration->stream_count; i++)
        put_cluster(room, declaration, i, i, declaration->streams[i]);
    put_cluster(room, declaration, declaration->stream_count, PIPE_HOST, "host");
    /* The way of a unit, which also lays the steps out in their order. */
    for (uint32_t step = 1; step < declaration->stage_count + 2; step++)
        text_put(room, "    s%u -> s%u [style=invis, weight=10];\n", step - 1, step);
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        const struct pipe_edge *edge = &plan->edges[i];
        text_put(room, "    s%u -> s%u [color=\"%s\", fontcolor=\"%s\", ", edge->from, edge->to,
                 kind_colours[edge->kind], kind_colours[edge->kind]);
        text_put(room, "style=%s, constraint=%s, label=", edge->distance > 0 ? "dashed" : "solid",
                 edge->distance > 0 ? "false" : "true");
        put_quoted(room, edge->buffer == PIPE_NONE ? kind_names[edge->kind]
                                                   : declaration->buffers[edge->buffer].name);
        if (edge->distance > 0)
            text_put(room, ", headlabel=\"+%u\"", edge->distance);
        text_put(room, ", tooltip=\"%s\"];\n", kind_names[edge->kind]);
    }
    text_put(room, "}\n");
}

size_t pipe_print(const struct pipe_declaration *declaration, const struct pipe_plan *plan,
                  enum muster_print_format format, char *text, size_t capacity)
{
    struct text_room room = { text, capacity, 0 };
    if (capacity > 0)
        text[0] = '\0';
    if (format == MUSTER_PRINT_DOT)
        put_dot(&room, declaration, plan);
    else
        put_text(&room, declaration, plan);
    return room.length;
}
