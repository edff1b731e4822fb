#include "binding.h"

#include <muster/backend.h>
#include <stdio.h>
#include <string.h>

#define FIRST "first"
#define LIST_BYTES 120

/* What is bound, while it is. */
struct making {
    struct binding *binding;
    const struct binding_options *options;
    struct muster_kernel_parameter parameters[MUSTER_ARGS_MAX];
    size_t count;
    /* Which parameter each file is for; `count`: not met yet. */
    size_t inputs[MUSTER_ARGS_MAX], outputs[MUSTER_ARGS_MAX];
    size_t input_count, output_count;
    bool is_used[MUSTER_ARGS_MAX];
    struct muster_error *err;
};

/* Arguments. */

static size_t name_bytes(const char *argument)
{
    return strcspn(argument, "=");
}

static bool has_name(const char *argument, const char *name)
{
    size_t bytes = name_bytes(argument);
    return strlen(name) == bytes && memcmp(argument, name, bytes) == 0;
}

static const struct binding_fact *find_fact(const struct binding_options *options, const char *name,
                                            size_t bytes)
{
    for (size_t i = 0; i < options->fact_count; i++)
        if (strlen(options->facts[i].name) == bytes &&
            memcmp(options->facts[i].name, name, bytes) == 0)
            return &options->facts[i];
    return NULL;
}

static bool is_first(const char *name, size_t bytes)
{
    return bytes == strlen(FIRST) && memcmp(name, FIRST, bytes) == 0;
}

/* No name twice, and none that Muster knows better. */
static muster_status check_arguments(const struct binding_options *options,
                                     struct muster_error *err)
{
    if (options->argument_count > MUSTER_ARGS_MAX)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "%zu values are given, and a kernel takes at most %d arguments",
                                 options->argument_count, MUSTER_ARGS_MAX);
    for (size_t i = 0; i < options->argument_count; i++) {
        const char *argument = options->arguments[i];
        size_t bytes = name_bytes(argument);
        bool has_value = argument[bytes] == '=';
        if (bytes == 0)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "write --arg gain=3",
                                     "the argument '%.60s' has no name", argument);
        if (has_value && (is_first(argument, bytes) || find_fact(options, argument, bytes)))
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "leave it out",
                                     "%.*s is set by Muster itself", (int)bytes, argument);
        for (size_t k = 0; k < i; k++)
            if (name_bytes(options->arguments[k]) == bytes &&
                memcmp(options->arguments[k], argument, bytes) == 0)
                return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                         "the argument %.*s is given twice",
                                         bytes < 60 ? (int)bytes : 60, argument);
    }
    return MUSTER_OK;
}

/* Adds a name to a list of them, as far as there is room. */
static void add_name(char list[LIST_BYTES], const char *name)
{
    size_t used = strlen(list);
    snprintf(list + used, LIST_BYTES - used, "%s%.40s", used > 0 ? ", " : "", name);
}

/* Values. */

static void set_value(struct making *making, size_t index, size_t bytes)
{
    making->binding->args[index] =
        (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_VALUE), .in = making->binding->values[index],
                             .bytes = bytes };
}

static muster_status set_fact(struct making *making, size_t index, const char *type,
                              const struct binding_fact *fact)
{
    size_t bytes;
    if (fact->is_unknown)
        return muster_error_fill(making->err, MUSTER_E_INVALID, 0, "give a file as input",
                                 "the kernel needs %s, which is unknown for this input",
                                 fact->name);
    muster_status status =
        value_set(fact->name, type, fact->number, making->binding->values[index], making->err);
    value_is_type(type, &bytes);
    set_value(making, index, bytes);
    return status;
}

static muster_status set_first(struct making *making, size_t index, const char *type)
{
    making->binding->args[index] = (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_FIRST) };
    if (strcmp(type, "uint64_t") == 0 || strcmp(type, "const uint64_t") == 0)
        return MUSTER_OK;
    return muster_error_fill(making->err, MUSTER_E_INVALID, 0, "make it a uint64_t",
                             FIRST " is the number of the first item, and cannot be a %.63s", type);
}

/* What only a video has. */
static bool is_of_video(const char *name)
{
    static const char *const names[] = { "width", "height", "chroma_width", "chroma_height",
                                         "luma",  "frame",  "bits" };
    size_t i = 0;
    while (i < sizeof names / sizeof *names && strcmp(names[i], name) != 0)
        i++;
    return i < sizeof names / sizeof *names;
}

static muster_status is_missing(const struct making *making, const char *name, const char *type)
{
    char known[LIST_BYTES] = "";
    add_name(known, FIRST);
    for (size_t i = 0; i < making->options->fact_count; i++)
        add_name(known, making->options->facts[i].name);
    if (making->options->input_is && is_of_video(name))
        return muster_error_fill(
            making->err, MUSTER_E_INVALID, 0,
            "give the right input, or the value with --arg NAME=VALUE",
            "the kernel needs %.40s (%.40s), which is unknown: the input is %s", name, type,
            making->options->input_is);
    return muster_error_fill(making->err, MUSTER_E_INVALID, 0, "give it with --arg NAME=VALUE",
                             "the kernel needs a value for %.40s (%.40s); Muster itself sets %s",
                             name, type, known);
}

static muster_status bind_value(struct making *making, size_t index)
{
    const struct binding_options *options = making->options;
    const struct muster_kernel_parameter *parameter = &making->parameters[index];
    const char *name = parameter->name, *type = parameter->type;
    size_t bytes, i = 0;
    if (is_first(name, strlen(name)))
        return set_first(making, index, type);
    const struct binding_fact *fact = find_fact(options, name, strlen(name));
    if (fact)
        return set_fact(making, index, type, fact);
    while (i < options->argument_count && !has_name(options->arguments[i], name))
        i++;
    if (i == options->argument_count)
        return is_missing(making, name, type);
    making->is_used[i] = true;
    const char *equals = options->arguments[i] + name_bytes(options->arguments[i]);
    if (*equals == '\0')
        return muster_error_fill(making->err, MUSTER_E_INVALID, 0, "write --arg NAME=VALUE",
                                 "the argument %.60s has no value", name);
    muster_status status =
        value_read(name, type, equals + 1, making->binding->values[index], making->err);
    value_is_type(type, &bytes);
    set_value(making, index, bytes);
    return status;
}

/* Every value was wanted. */
static muster_status check_used(const struct making *making)
{
    for (size_t i = 0; i < making->options->argument_count; i++) {
        const char *argument = making->options->arguments[i];
        char names[LIST_BYTES] = "";
        if (making->is_used[i])
            continue;
        for (size_t k = 0; k < making->count; k++)
            if (!making->parameters[k].is_block)
                add_name(names, making->parameters[k].name);
        size_t bytes = name_bytes(argument);
        return muster_error_fill(making->err, MUSTER_E_INVALID, 0, NULL,
                                 "the kernel has no value '%.*s'; it has %s",
                                 bytes < 60 ? (int)bytes : 60, argument, names[0] ? names : "none");
    }
    return MUSTER_OK;
}

/* Items. */

/* A size that was asked for is a whole number of elements, where these are known. */
static muster_status check_item(const struct making *making, size_t bytes, size_t parameter)
{
    const struct muster_kernel_parameter *pointer = &making->parameters[parameter];
    if (bytes == 0)
        return muster_error_fill(making->err, MUSTER_E_INVALID, 0, "give --item and --out-item",
                                 "the size of an item is unknown: %.40s is a %.63s", pointer->name,
                                 pointer->type);
    if (pointer->bytes > 0 && bytes % pointer->bytes != 0)
        return muster_error_fill(making->err, MUSTER_E_INVALID, 0, NULL,
                                 "an item of %zu bytes is no whole number of what %.40s points to, "
                                 "%zu bytes each",
                                 bytes, pointer->name, pointer->bytes);
    return MUSTER_OK;
}

static muster_status find_sizes(struct making *making)
{
    struct binding *binding = making->binding;
    size_t in = making->parameters[making->inputs[0]].bytes,
           out = making->parameters[making->outputs[0]].bytes;
    binding->item_bytes = making->options->item_bytes;
    binding->out_item_bytes = making->options->out_item_bytes;
    if (binding->item_bytes == 0)
        binding->item_bytes = in;
    /* As many elements come out of an item as are in it. */
    if (binding->out_item_bytes == 0)
        binding->out_item_bytes =
            in > 0 && out > 0 ? binding->item_bytes / in * out : binding->item_bytes;
    muster_status status = check_item(making, binding->item_bytes, making->inputs[0]);
    return status == MUSTER_OK ? check_item(making, binding->out_item_bytes, making->outputs[0])
                               : status;
}

static bool is_named(const struct binding_file *file, const char *name)
{
    return file->name && strlen(name) == file->name_bytes &&
           memcmp(file->name, name, file->name_bytes) == 0;
}

/* The file of that name, else the first without one that has no parameter yet; `count`: there is none. */
static size_t find_file(const struct binding_file *files, size_t count, const size_t *taken,
                        size_t none, const char *name)
{
    size_t i = 0;
    while (files && i < count && !is_named(&files[i], name))
        i++;
    if (files && i < count)
        return i;
    for (i = 0; i < count && ((files && files[i].name) || taken[i] != none); i++)
        ;
    return i;
}

static muster_status bind_pointer(struct making *making, size_t index)
{
    const struct binding_options *options = making->options;
    const struct muster_kernel_parameter *parameter = &making->parameters[index];
    bool is_input = parameter->is_const;
    for (size_t i = 0; i < options->table_count; i++)
        if (is_named(&options->tables[i], parameter->name)) {
            if (!is_input)
                return muster_error_fill(making->err, MUSTER_E_INVALID, 0, "make it const",
                                         "the kernel may write the table %.60s, which is read-only",
                                         parameter->name);
            making->binding->args[index] = (struct muster_arg)MUSTER_ALL(options->tables[i].data);
            return MUSTER_OK;
        }
    size_t count = is_input ? making->input_count : making->output_count;
    size_t *taken = is_input ? making->inputs : making->outputs;
    size_t file = find_file(is_input ? options->inputs : options->outputs, count, taken,
                            making->count, parameter->name);
    if (file == count)
        return muster_error_fill(making->err, MUSTER_E_INVALID, 0,
                                 is_input ? "give it with --in NAME=FILE or --table NAME=FILE"
                                          : "give it with --out NAME=FILE",
                                 "the kernel's pointer %.60s is %s, and %zu %s%s given",
                                 parameter->name, is_input ? "an input" : "an output", count,
                                 is_input ? "input" : "output", count == 1 ? " is" : "s are");
    taken[file] = index;
    return MUSTER_OK;
}

/* An input but the first has as large items as it points to. */
static void set_arrays(struct making *making)
{
    struct binding *binding = making->binding;
    binding->input_count = making->input_count;
    binding->output_count = making->output_count;
    for (size_t i = 0; i < making->input_count; i++) {
        size_t at = binding->inputs[i] = making->inputs[i];
        if (i == 0)
            binding->args[at] = (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_SOURCE),
                                                     .bytes = binding->item_bytes };
        else
            binding->args[at] = (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_IN),
                                                     .in = making->options->inputs[i].memory,
                                                     .bytes = making->parameters[at].bytes };
    }
    for (size_t i = 0; i < making->output_count; i++) {
        size_t at = binding->outputs[i] = making->outputs[i];
        binding->args[at] = (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_OUT),
                                                 .bytes = i == 0 ? binding->out_item_bytes
                                                                 : making->parameters[at].bytes };
    }
}

/* Every file has its parameter, and one whose items have a size. */
static muster_status check_files(const struct making *making)
{
    const struct binding_options *options = making->options;
    for (size_t i = 0; i < making->input_count + making->output_count; i++) {
        bool is_input = i < making->input_count;
        size_t file = is_input ? i : i - making->input_count;
        size_t at = is_input ? making->inputs[file] : making->outputs[file];
        const struct binding_file *given =
            options->inputs ? is_input ? &options->inputs[file] : &options->outputs[file] : NULL;
        if (at == making->count)
            return muster_error_fill(
                making->err, MUSTER_E_INVALID, 0,
                "inputs are MUSTER_GLOBAL const pointers, outputs pointers without const",
                "the kernel has no %s: that is a pointer %s const%s%.*s",
                is_input ? "input" : "output", is_input ? "to" : "without",
                given && given->name ? ", called " : "",
                given && given->name ? (int)given->name_bytes : 0,
                given && given->name ? given->name : "");
        if (file > 0 && making->parameters[at].bytes == 0)
            return check_item(making, 0, at);
    }
    for (size_t i = 0; i < options->table_count; i++) {
        size_t k = 0;
        while (k < making->count && !(making->parameters[k].is_block &&
                                      is_named(&options->tables[i], making->parameters[k].name)))
            k++;
        if (k == making->count)
            return muster_error_fill(making->err, MUSTER_E_INVALID, 0, NULL,
                                     "the kernel has no pointer called %.*s for a table",
                                     (int)options->tables[i].name_bytes, options->tables[i].name);
    }
    return MUSTER_OK;
}

static muster_status bind_cell(struct making *making, size_t index)
{
    if (making->options->grid.kind == 0)
        return muster_error_fill(making->err, MUSTER_E_INVALID, 0,
                                 "give --grid WIDTHxHEIGHT, or a video or .npy file",
                                 "the kernel takes cells, and the size of the grid is unknown");
    making->binding->args[index] = making->options->grid;
    return MUSTER_OK;
}

static muster_status bind_by_name(struct making *making)
{
    const struct binding_options *options = making->options;
    muster_status status = MUSTER_OK;
    bool has_cell = false;
    making->input_count = options->inputs ? options->input_count : 1;
    making->output_count = options->inputs ? options->output_count : 1;
    for (size_t i = 0; i < MUSTER_ARGS_MAX; i++)
        making->inputs[i] = making->outputs[i] = making->count;
    for (size_t i = 0; i < making->count && status == MUSTER_OK; i++) {
        const struct muster_kernel_parameter *parameter = &making->parameters[i];
        bool is_cell = !parameter->is_block && strstr(parameter->type, "struct muster_cell");
        has_cell = has_cell || is_cell;
        status = parameter->is_block ? bind_pointer(making, i)
                 : is_cell           ? bind_cell(making, i)
                                     : bind_value(making, i);
        snprintf(making->binding->types[i], sizeof making->binding->types[i], "%s",
                 parameter->type);
    }
    if (status == MUSTER_OK && options->is_grid_asked && !has_cell)
        status = muster_error_fill(making->err, MUSTER_E_INVALID, 0,
                                   "give the kernel a parameter struct muster_cell",
                                   "a grid is given, and the kernel takes no cells");
    if (status == MUSTER_OK)
        status = check_files(making);
    if (status == MUSTER_OK)
        status = check_used(making);
    if (status == MUSTER_OK)
        status = find_sizes(making);
    if (status == MUSTER_OK)
        set_arrays(making);
    making->binding->count = making->count;
    return status;
}

/* Without a source that says what the kernel takes. */

/* "name=type:value", or the name of what Muster knows. */
static muster_status bind_typed(struct making *making, size_t index, const char *argument)
{
    size_t bytes = name_bytes(argument), type_bytes;
    char type[32];
    if (argument[bytes] == '\0' && is_first(argument, bytes))
        return set_first(making, index, "uint64_t");
    const struct binding_fact *fact = find_fact(making->options, argument, bytes);
    if (fact)
        return set_fact(making, index, "uint64_t", fact);
    const char *colon = argument[bytes] == '=' ? strchr(argument + bytes, ':') : NULL;
    snprintf(type, sizeof type, "%.*s", colon ? (int)(colon - argument - (ptrdiff_t)bytes - 1) : 0,
             argument + bytes + (colon ? 1 : 0));
    if (!colon || !value_is_type(type, &type_bytes))
        return muster_error_fill(making->err, MUSTER_E_INVALID, 0,
                                 "write --arg gain=float:1.5; types are " VALUE_TYPES,
                                 "without portable source '%.60s' needs a type", argument);
    set_value(making, index, type_bytes);
    return value_read(argument, type, colon + 1, making->binding->values[index], making->err);
}

static muster_status bind_by_order(struct making *making)
{
    const struct binding_options *options = making->options;
    muster_status status = MUSTER_OK;
    making->count = options->argument_count + 2;
    making->inputs[0] = 0;
    making->outputs[0] = 1;
    making->input_count = making->output_count = 1;
    if (options->input_count > 1 || options->output_count > 1 || options->table_count > 0)
        return muster_error_fill(
            making->err, MUSTER_E_INVALID, 0, "give a portable form first",
            "without portable source it is unknown which file belongs to which pointer");
    if (options->item_bytes == 0)
        return muster_error_fill(making->err, MUSTER_E_INVALID, 0, "give --item",
                                 "without portable source the size of an item is unknown");
    if (making->count > MUSTER_ARGS_MAX)
        return muster_error_fill(making->err, MUSTER_E_INVALID, 0, NULL,
                                 "a kernel takes at most %d arguments", MUSTER_ARGS_MAX);
    for (size_t i = 0; i < options->argument_count && status == MUSTER_OK; i++)
        status = bind_typed(making, i + 2, options->arguments[i]);
    making->binding->item_bytes = options->item_bytes;
    making->binding->out_item_bytes =
        options->out_item_bytes > 0 ? options->out_item_bytes : options->item_bytes;
    set_arrays(making);
    making->binding->count = making->count;
    return status;
}

muster_status binding_init(struct binding *binding, const struct muster_kernel *kernel,
                           const struct binding_options *options, struct muster_error *err)
{
    struct making making = { .binding = binding, .options = options, .err = err };
    *binding = (struct binding){ .count = 0 };
    muster_status status = check_arguments(options, err);
    if (status != MUSTER_OK)
        return status;
    for (; making.count < MUSTER_ARGS_MAX; making.count++) {
        struct muster_kernel_parameter *parameter = &making.parameters[making.count];
        parameter->size = sizeof *parameter;
        status = muster_kernel_parameter(kernel, making.count, parameter, err);
        if (status != MUSTER_OK)
            break;
    }
    if (status == MUSTER_E_NOT_SUPPORTED)
        return bind_by_order(&making);
    if (status != MUSTER_OK && status != MUSTER_E_NOT_FOUND)
        return status;
    return bind_by_name(&making);
}

size_t binding_item_bytes(const struct muster_kernel *kernel, size_t asked)
{
    struct muster_kernel_parameter parameter = { .size = sizeof parameter };
    for (size_t i = 0; asked == 0; i++) {
        if (muster_kernel_parameter(kernel, i, &parameter, NULL) != MUSTER_OK)
            return 1;
        if (parameter.is_block && parameter.is_const)
            asked = parameter.bytes > 0 ? parameter.bytes : 1;
    }
    return asked;
}
