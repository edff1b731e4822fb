#include "probe.h"

#include "inventory.h"
#include "probe_arrays.h"
#include "probe_grid.h"
#include "probe_reduction.h"
#include "value.h"

#include <dlfcn.h>
#include <muster/backend.h>
#include <muster/bundle.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A video of the smallest size that has all parts: what a kernel of frames is given. */
#define WIDTH 8u
#define HEIGHT 4u
#define LUMA (WIDTH * HEIGHT)
#define FRAME (LUMA + 2u * (WIDTH / 2u) * (HEIGHT / 2u))
#define FRAMES 8u

const char *probe_kind_name(enum probe_kind kind)
{
    static const char *const names[] = {
#define PROBE_WORD(kind, name) name,
        PROBE_KINDS(PROBE_WORD)
#undef PROBE_WORD
    };
    return names[kind];
}

bool probe_has(const struct probe_report *report, enum probe_kind kind)
{
    for (size_t i = 0; i < report->finding_count; i++)
        if (report->findings[i].kind == kind)
            return true;
    return false;
}

void probe_find(struct probe_report *report, enum probe_kind kind, const char *parameter,
                int64_t item, int64_t element, const char *fix, const char *format, ...)
{
    for (size_t i = 0; i < report->finding_count; i++)
        if (report->findings[i].kind == kind &&
            strcmp(report->findings[i].parameter, parameter) == 0)
            return;
    if (report->finding_count == PROBE_FINDINGS_MAX)
        return;
    struct probe_finding *finding = &report->findings[report->finding_count];
    *finding = (struct probe_finding){ .kind = kind, .item = item, .element = element };
    snprintf(finding->parameter, sizeof finding->parameter, "%s", parameter);
    snprintf(finding->fix, sizeof finding->fix, "%s", fix);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
    report->finding_count++;
}

/*
 * One mistake shows in several ways: items that share an element also read what others wrote, and
 * leave their own unwritten. Of these the first that applies to a parameter is told.
 */
static void drop_consequences(struct probe_report *report)
{
    static const enum probe_kind ranks[] = { PROBE_SHARED_WRITE, PROBE_ORDER, PROBE_FOREIGN_WRITE,
                                             PROBE_UNSET_READ, PROBE_UNWRITTEN };
    size_t kept = 0;
    for (size_t i = 0; i < report->finding_count; i++) {
        const struct probe_finding *finding = &report->findings[i];
        size_t rank = 0;
        while (rank < sizeof ranks / sizeof *ranks && ranks[rank] != finding->kind)
            rank++;
        bool is_dropped = false;
        for (size_t k = 0; k < report->finding_count && rank < sizeof ranks / sizeof *ranks; k++)
            for (size_t above = 0; above < rank; above++)
                is_dropped |= report->findings[k].kind == ranks[above] &&
                              strcmp(report->findings[k].parameter, finding->parameter) == 0;
        if (!is_dropped)
            report->findings[kept++] = *finding;
    }
    report->finding_count = kept;
}

/* Options that name a parameter. */

static bool is_named(const struct probe_words *words, const char *name, const char **value)
{
    for (size_t i = 0; i < words->count; i++) {
        size_t bytes = strcspn(words->words[i], "=");
        if (strlen(name) != bytes || memcmp(words->words[i], name, bytes) != 0)
            continue;
        if (value)
            *value = words->words[i] + bytes + (words->words[i][bytes] == '=');
        return true;
    }
    return false;
}

/* Parameters. */

static bool has_word(const char *type, const char *word)
{
    size_t bytes = strlen(word);
    for (const char *at = type; *at;) {
        size_t length = strcspn(at, " ");
        if (length == bytes && memcmp(at, word, bytes) == 0)
            return true;
        at += length + (at[length] == ' ');
    }
    return false;
}

static void set_type(struct probe_array *array, const char *type)
{
    static const char *const signed_types[] = { "int8_t",  "int16_t", "int32_t",
                                                "int64_t", "int",     "char" };
    static const char *const unsigned_types[] = { "uint8_t", "uint16_t", "uint32_t", "uint64_t",
                                                  "unsigned" };
    for (size_t i = 0; i < sizeof signed_types / sizeof *signed_types; i++)
        if (has_word(type, signed_types[i])) {
            array->type = PROBE_INTEGER;
            array->is_signed = true;
        }
    for (size_t i = 0; i < sizeof unsigned_types / sizeof *unsigned_types; i++)
        if (has_word(type, unsigned_types[i]))
            array->type = PROBE_INTEGER;
    if (has_word(type, "float"))
        array->type = PROBE_FLOAT;
    if (has_word(type, "double"))
        array->type = PROBE_DOUBLE;
}

/* What Muster itself knows of a video, as `muster map` gives it to a kernel. */
static bool find_fact(const char *name, uint64_t *number)
{
    static const struct {
        const char *name;
        uint64_t number;
    } facts[] = { { "width", WIDTH }, { "height", HEIGHT }, { "chroma_width", WIDTH / 2 },
                  { "luma", LUMA },   { "frame", FRAME },   { "chroma_height", HEIGHT / 2 } };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        if (strcmp(name, facts[i].name) == 0) {
            *number = facts[i].number;
            return true;
        }
    return false;
}

static bool is_count(const char *name)
{
    static const char *const names[] = { "items", "n", "count", "total", "size", "length" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool set_value(struct probe *probe, size_t index,
                      const struct muster_kernel_parameter *parameter, struct muster_error *err)
{
    const char *text;
    uint64_t number = 3;
    size_t bytes;
    if (probe->has_grid && index == probe->cell) {
        memcpy(probe->values[index], &probe->first, sizeof probe->first);
        return true;
    }
    if (!value_is_type(parameter->type, &bytes))
        return true; /* a struct: all zeros */
    if (is_named(&probe->options->arguments, parameter->name, &text))
        return value_read(parameter->name, parameter->type, text, probe->values[index], err) ==
               MUSTER_OK;
    if (has_word(parameter->type, "float") || has_word(parameter->type, "double"))
        return value_read(parameter->name, parameter->type, "1.5", probe->values[index], err) ==
               MUSTER_OK;
    if (strcmp(parameter->name, "first") == 0)
        number = 0;
    else if (is_count(parameter->name))
        number = probe->items;
    else
        find_fact(parameter->name, &number);
    return value_set(parameter->name, parameter->type, number, probe->values[index], err) ==
           MUSTER_OK;
}

static bool set_array(struct probe *probe, size_t index,
                      const struct muster_kernel_parameter *parameter, struct muster_error *err)
{
    struct probe_array *array = &probe->arrays[index];
    const char *text;
    *array = (struct probe_array){ .is_const = parameter->is_const, .bytes = array->bytes };
    snprintf(array->name, sizeof array->name, "%s", parameter->name);
    set_type(array, parameter->type);
    array->is_inout = !array->is_const && is_named(&probe->options->inout, array->name, NULL);
    array->is_whole = array->is_const && is_named(&probe->options->whole, array->name, NULL);
    if (!is_named(&probe->options->elements, array->name, &text))
        return true;
    char *end;
    array->per_item = strtoull(text, &end, 10);
    if (*end == '\0' && array->per_item > 0 && array->per_item < (uint64_t)1 << 20)
        return true;
    muster_error_fill(err, MUSTER_E_INVALID, 0, "write --elements NAME=NUMBER",
                      "--elements takes how many elements an item has, not '%.40s'", text);
    return false;
}

/* Every option that names a parameter must name one that there is. */
static bool check_names(const struct probe *probe, const struct muster_kernel *kernel,
                        const struct probe_words *words, const char *option, bool is_block,
                        struct muster_error *err)
{
    struct muster_kernel_parameter parameter = { .size = sizeof parameter };
    for (size_t i = 0; i < words->count; i++) {
        bool is_there = false;
        for (size_t k = 0; k < probe->count; k++)
            is_there |=
                muster_kernel_parameter(kernel, k, &parameter, NULL) == MUSTER_OK &&
                (parameter.is_block != 0) == is_block &&
                is_named(&(struct probe_words){ &words->words[i], 1 }, parameter.name, NULL);
        if (!is_there) {
            muster_error_fill(err, MUSTER_E_INVALID, 0, "name a parameter of the kernel",
                              "%s %.60s names no %s of kernel %s", option, words->words[i],
                              is_block ? "pointer" : "value", probe->entry);
            return false;
        }
    }
    return true;
}

static bool set_parameters(struct probe *probe, const struct muster_kernel *kernel,
                           struct muster_error *err)
{
    struct muster_kernel_parameter parameter = { .size = sizeof parameter };
    for (size_t i = 0; i < probe->count; i++) {
        if (muster_kernel_parameter(kernel, i, &parameter, err) != MUSTER_OK)
            return false;
        probe->is_block[i] = parameter.is_block;
        if (!(parameter.is_block ? set_array(probe, i, &parameter, err)
                                 : set_value(probe, i, &parameter, err)))
            return false;
    }
    const struct probe_options *options = probe->options;
    return check_names(probe, kernel, &options->arguments, "--arg", false, err) &&
           check_names(probe, kernel, &options->elements, "--elements", true, err) &&
           check_names(probe, kernel, &options->inout, "--inout", true, err) &&
           check_names(probe, kernel, &options->whole, "--whole", true, err);
}

/* Code. */

static void add_form(struct probe_report *report, enum muster_kernel_kind kind,
                     const uint16_t compute[2], muster_status status,
                     const struct muster_error *error)
{
    struct probe_form *form = &report->forms[report->form_count++];
    *form = (struct probe_form){ .kind = kind, .status = status };
    if (compute)
        memcpy(form->compute, compute, sizeof form->compute);
    if (status != MUSTER_OK)
        snprintf(form->why, sizeof form->why, "%s", error->text);
    /* What this machine has no compiler for is no mistake of the kernel's. */
    if (status != MUSTER_OK && status != MUSTER_E_NOT_SUPPORTED)
        probe_find(report, PROBE_REFUSED, "", -1, -1, error->fix, "%s", error->text);
}

static void log_line(void *user, enum muster_log_level level, const char *text)
{
    (void)user, (void)level;
    fprintf(stderr, "muster: %s\n", text);
}

/* The shared object of what is run; NULL: there is none. */
static const struct muster_kernel_form *find_object(const struct probe *probe,
                                                    const struct muster_bundle *bundle)
{
    const struct muster_kernel_form *form;
    for (size_t i = 0; (form = muster_bundle_form(bundle, i)); i++)
        if (form->kind == MUSTER_KERNEL_SHARED_OBJECT && strcmp(form->entry, probe->symbol) == 0)
            return form;
    return NULL;
}

/* Compiles to every form, and gives the shared object's bytes; NULL: that cannot be. */
static const struct muster_kernel_form *compile(struct probe *probe, struct muster_bundle *bundle)
{
    static const uint16_t computes[][2] = { { 8, 0 }, { 9, 0 } };
    struct probe_report *report = probe->report;
    struct muster_error error;
    muster_status status;
    muster_bundle_log(bundle, log_line, NULL);
    status = muster_bundle_build(bundle, MUSTER_KERNEL_SHARED_OBJECT, NULL, &error);
    add_form(report, MUSTER_KERNEL_SHARED_OBJECT, NULL, status, &error);
    if (status != MUSTER_OK) {
        report->error = error;
        return NULL;
    }
    /* Warnings of the same source are told once. */
    if (!probe->options->is_verbose)
        muster_bundle_log(bundle, NULL, NULL);
    status = muster_bundle_build(bundle, MUSTER_KERNEL_OPENCL, NULL, &error);
    add_form(report, MUSTER_KERNEL_OPENCL, NULL, status, &error);
    if (!probe->options->no_cuda) {
        status = muster_bundle_build(bundle, MUSTER_KERNEL_PTX, computes[0], &error);
        add_form(report, MUSTER_KERNEL_PTX, computes[0], status, &error);
    }
    for (size_t i = 0; i < sizeof computes / sizeof *computes && !probe->options->no_cuda; i++) {
        status = muster_bundle_build(bundle, MUSTER_KERNEL_CUBIN, computes[i], &error);
        add_form(report, MUSTER_KERNEL_CUBIN, computes[i], status, &error);
    }
    return find_object(probe, bundle);
}

static void *find_symbol(void *library, const char *prefix, const char *entry)
{
    char name[192];
    snprintf(name, sizeof name, "%s%s", prefix, entry);
    return dlsym(library, name);
}

/* NULL: the system refuses. */
static void *open_object(const struct muster_kernel_form *form)
{
    char path[64];
    int file = memfd_create("kernel", MFD_CLOEXEC);
    bool is_there =
        file >= 0 && write(file, form->code, form->code_bytes) == (ssize_t)form->code_bytes;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    void *library = is_there ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    /* Open as long as the library is: another file of this number would be taken for the same library. */
    if (file >= 0 && !library)
        close(file);
    return library;
}

static void say_not_loaded(struct probe *probe, const void *library)
{
    muster_error_fill(&probe->report->error, MUSTER_E_IO, 0, NULL,
                      "the compiled kernel cannot be loaded: %s",
                      library ? "it lacks a function" : "the system refuses");
}

static bool load(struct probe *probe, const struct muster_kernel_form *form)
{
    void *library = open_object(form);
    void *function = library ? find_symbol(library, "", probe->symbol) : NULL;
    void *apart = library ? find_symbol(library, "muster_apart_", probe->symbol) : NULL;
    const uint32_t *bytes = library ? find_symbol(library, "muster_bytes_", probe->symbol) : NULL;
    if (!function || !apart || !bytes) {
        say_not_loaded(probe, library);
        return false;
    }
    memcpy(&probe->function, &function, sizeof function);
    memcpy(&probe->apart, &apart, sizeof apart);
    for (size_t i = 0; i < probe->count; i++) {
        probe->arrays[i].bytes = bytes[i] > 0 ? bytes[i] : 1;
        probe->value_bytes[i] = bytes[i];
    }
    return true;
}

/* How it all goes. */

static void tell_uses(struct probe *probe)
{
    struct probe_report *report = probe->report;
    report->use_count = 0;
    for (size_t i = 0; i < probe->count; i++) {
        const struct probe_array *array = &probe->arrays[i];
        bool is_partial = probe->partial_bytes > 0 && i + 1 == probe->count;
        if (!probe->is_block[i] || is_partial)
            continue;
        struct probe_use *use = &report->uses[report->use_count++];
        snprintf(use->name, sizeof use->name, "%s", array->name);
        snprintf(use->use, sizeof use->use, "%s",
                 array->is_whole   ? "MUSTER_ALL"
                 : array->is_const ? "MUSTER_IN"
                 : array->is_inout ? "MUSTER_INOUT"
                                   : "MUSTER_OUT");
        use->elements = array->is_whole ? 0 : array->per_item;
        use->halo = array->is_whole ? 0 : array->halo;
        if (probe->has_grid && array->is_near && !array->is_whole && probe->cells > use->halo)
            use->halo = probe->cells;
    }
}

/* Whether the arrays were too small for what the items want, rather than the kernel wrong. */
static bool is_too_small(const struct probe *probe)
{
    const struct probe_fault *fault = &probe->fault;
    return fault->signal != 0 && fault->array && fault->element >= 0 && !probe->is_guarded;
}

/* A kernel whose items have many elements is given fewer items. */
static bool try_sizes(struct probe *probe, const struct muster_kernel *kernel)
{
    static const struct {
        uint64_t items;
        size_t before, after;
    } sizes[] = { { 64, (size_t)64 << 10, (size_t)256 << 10 },
                  { 16, (size_t)1 << 20, (size_t)4 << 20 },
                  { 4, (size_t)1 << 20, (size_t)16 << 20 } };
    struct probe_report *report = probe->report;
    size_t known = report->finding_count;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bool is_last = i + 1 == sizeof sizes / sizeof *sizes;
        probe->items = probe->options->items > 0 ? probe->options->items : sizes[i].items;
        if (!probe_grid_set(probe))
            return false;
        if (probe->group > 1 && !probe->has_grid)
            probe->items = (probe->items + probe->group - 1) / probe->group * probe->group;
        if (probe->group > 1 && !probe->has_grid && probe->items < FRAMES * probe->group)
            probe->items = FRAMES * probe->group;
        report->finding_count = known;
        probe->fault.signal = 0;
        if (!set_parameters(probe, kernel, &report->error))
            return false;
        if (!probe_arrays_open(probe, sizes[i].before, sizes[i].after)) {
            muster_error_fill(&report->error, MUSTER_E_NO_MEMORY, 0, "free memory of the process",
                              "no memory for the kernel's arrays");
            return false;
        }
        bool is_done = probe_items(probe);
        tell_uses(probe);
        if (is_done || is_last || !is_too_small(probe))
            return is_done;
        probe_arrays_close(probe);
    }
    return false;
}

/* Kernels of frames ask for facts that only a video has. */
static uint64_t find_group(const struct probe *probe, const struct muster_kernel *kernel)
{
    struct muster_kernel_parameter parameter = { .size = sizeof parameter };
    bool has_frame = false, has_all = true;
    uint64_t number;
    for (size_t i = 0; i < probe->count; i++) {
        if (muster_kernel_parameter(kernel, i, &parameter, NULL) != MUSTER_OK ||
            parameter.is_block || !find_fact(parameter.name, &number))
            continue;
        has_frame |= strcmp(parameter.name, "frame") == 0;
        has_all &= !is_named(&probe->options->arguments, parameter.name, NULL);
    }
    return has_frame && has_all ? FRAME : 1;
}

/* Its portable source, which every kernel that is checked has. */
static const struct muster_kernel_form *find_source(const struct muster_bundle *bundle)
{
    const struct muster_kernel_form *form;
    size_t i = 0;
    while ((form = muster_bundle_form(bundle, i)) && form->kind != MUSTER_KERNEL_PORTABLE)
        i++;
    return form;
}

/* Whether the source has the text anywhere. */
static bool is_in_source(const struct muster_bundle *bundle, const char *text)
{
    const struct muster_kernel_form *form = find_source(bundle);
    return form && memmem(form->code, form->code_bytes, text, strlen(text));
}

/* What the kernel takes; of cells also what its source says of them. */
static void count_parameters(struct probe *probe, const struct muster_kernel *kernel,
                             const struct muster_bundle *bundle)
{
    struct muster_kernel_parameter parameter = { .size = sizeof parameter };
    while (probe->count < MUSTER_ARGS_MAX &&
           muster_kernel_parameter(kernel, probe->count, &parameter, NULL) == MUSTER_OK) {
        if (strcmp(parameter.type, "struct muster_cell") == 0 ||
            strcmp(parameter.type, "const struct muster_cell") == 0) {
            probe->has_grid = true;
            probe->cell = probe->count;
            /* Then results may depend on the halo. */
            probe->reads_reach = is_in_source(bundle, ".reach");
            probe->has_depth = is_in_source(bundle, "muster_near_3d");
        }
        probe->count++;
    }
}

/* The kernel that keeps what each item of a reduction makes, in a bundle of its own and loaded. */
struct map_kernel {
    struct muster_bundle *bundle;
    struct muster_kernel *kernel;
    char symbol[160];
};

static muster_status make_map(struct probe *probe, struct muster *m,
                              const struct muster_kernel *kernel,
                              const struct muster_bundle *bundle,
                              const struct muster_partial *partial, struct map_kernel *map,
                              struct muster_error *err)
{
    const struct muster_kernel_form *given = find_source(bundle);
    char *text = probe_reduction_source(given, kernel, partial);
    if (!text)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory to check a kernel");
    snprintf(map->symbol, sizeof map->symbol, PROBE_MAP_PREFIX "%s", probe->entry);
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = text,
                                             .code_bytes = strlen(text),
                                             .entry = map->symbol,
                                             .file = given->file };
    muster_status status = muster_bundle_create(&map->bundle, err);
    if (status == MUSTER_OK)
        status = muster_bundle_add_form(map->bundle, &form, err);
    if (status == MUSTER_OK)
        status = muster_bundle_build(map->bundle, MUSTER_KERNEL_SHARED_OBJECT, NULL, err);
    if (status == MUSTER_OK)
        status = muster_kernel_from(m, probe->entry, &form, 1, &map->kernel, err);
    free(text);
    return status;
}

static void check_loaded(struct probe *probe, struct muster *m, struct muster_kernel *kernel,
                         const struct muster_kernel *reduction, const struct probe_joins *joins)
{
    struct probe_report *report = probe->report;
    probe->group = probe->has_grid ? 1 : find_group(probe, kernel);
    probe_catch_faults();
    bool is_done = try_sizes(probe, kernel);
    if (is_done && joins)
        probe_reduction_joins(probe, reduction, joins);
    drop_consequences(report);
    if (is_done && report->finding_count == 0)
        probe_devices(probe, m, kernel);
    probe_arrays_close(probe);
}

/* Items of a reduction share a partial, so each is run by a kernel that gives it one of its own. */
static void check_reduction(struct probe *probe, struct muster *m, struct muster_kernel *kernel,
                            struct muster_bundle *bundle, const struct muster_partial *partial,
                            const struct muster_kernel_form *object)
{
    struct map_kernel map = { .bundle = NULL };
    struct probe_joins joins;
    void *library = open_object(object);
    void *fold = library ? find_symbol(library, "muster_fold_", probe->entry) : NULL;
    void *folded = library ? find_symbol(library, "muster_folded_", probe->entry) : NULL;
    memcpy(&joins.fold, &fold, sizeof fold);
    memcpy(&joins.folded, &folded, sizeof folded);
    probe->partial_bytes = partial->bytes;
    probe->fields = probe_reduction_fields(kernel, partial->bytes);
    if (!fold || !folded) {
        say_not_loaded(probe, library);
        return;
    }
    muster_status status = make_map(probe, m, kernel, bundle, partial, &map, &probe->report->error);
    if (status == MUSTER_OK) {
        probe->report->error.status = MUSTER_OK;
        probe->symbol = map.symbol;
        probe->count = 0;
        count_parameters(probe, map.kernel, bundle);
        object = find_object(probe, map.bundle);
        if (object && load(probe, object))
            check_loaded(probe, m, map.kernel, kernel, &joins);
    }
    muster_kernel_destroy(map.kernel);
    muster_bundle_destroy(map.bundle);
}

static void check(struct probe *probe, struct muster *m, struct muster_kernel *kernel,
                  struct muster_bundle *bundle)
{
    struct probe_report *report = probe->report;
    struct muster_partial partial = { .size = sizeof partial };
    bool is_reduction = muster_kernel_partial(kernel, &partial, NULL) == MUSTER_OK;
    count_parameters(probe, kernel, bundle);
    probe_doing(probe, "compiling kernel %s", probe->entry);
    atomic_store_explicit(&report->is_compiling, true, memory_order_relaxed);
    const struct muster_kernel_form *object = compile(probe, bundle);
    /* First the step, so that the time it took does not count against what follows. */
    probe_doing(probe, "loading kernel %s", probe->entry);
    atomic_store_explicit(&report->is_compiling, false, memory_order_release);
    if (object && is_reduction)
        check_reduction(probe, m, kernel, bundle, &partial, object);
    else if (object && load(probe, object))
        check_loaded(probe, m, kernel, NULL, NULL);
}

/* Devices that are named and not there are no mistake of the kernel's. */
static muster_status find_any(struct muster *m, struct muster_error *err)
{
    muster_device device;
    size_t count = 0;
    muster_status status = muster_device_list(m, &device, 1, &count, err);
    if (status == MUSTER_E_CAPACITY || (status == MUSTER_OK && count > 0))
        return MUSTER_OK;
    if (status != MUSTER_OK && status != MUSTER_E_NOT_FOUND)
        return status;
    if (err)
        err->status = MUSTER_E_NO_DEVICE;
    return status == MUSTER_OK ? muster_error_fill(err, MUSTER_E_NO_DEVICE, 0, NULL,
                                                   "no device can be used on this machine")
                               : MUSTER_E_NO_DEVICE;
}

/*
 * Opens the devices that are asked for, else all: also those that are the same silicon as another's,
 * such as OpenCL on the CPU, since they compile in their own way.
 */
static muster_status open_devices(const struct probe_options *options, struct muster **m,
                                  struct muster_error *err)
{
    struct muster_options opening = MUSTER_OPTIONS_INIT;
    struct inventory inventory;
    char names[512] = "";
    bool has_hidden = false;
    opening.devices = options->devices;
    /* A driver that a kernel takes down costs that device, and not the check; the variable may say otherwise. */
    opening.isolate = getenv("MUSTER_ISOLATE") ? NULL : "all";
    if (options->is_verbose) {
        opening.log = log_line;
        opening.log_level = MUSTER_LOG_INFO;
    }
    muster_status status = muster_open(m, &opening, err);
    if (status == MUSTER_OK)
        status = find_any(*m, err);
    if (status != MUSTER_OK || options->devices || getenv("MUSTER_DEVICES"))
        return status;
    status = inventory_init(&inventory, *m, err);
    if (status != MUSTER_OK)
        return status;
    for (size_t i = 0; i < inventory.backend_count; i++) {
        const struct muster_backend_report *backend = &inventory.backends[i];
        size_t length = strlen(names);
        has_hidden |= backend->hidden_count > 0;
        if (backend->device_count + backend->hidden_count > 0)
            snprintf(names + length, sizeof names - length, "%s%s", length > 0 ? "," : "",
                     backend->name);
    }
    inventory_deinit(&inventory);
    if (!has_hidden)
        return MUSTER_OK;
    muster_close(*m, NULL);
    *m = NULL;
    opening.devices = names;
    return muster_open(m, &opening, err);
}

void probe_kernel(const struct probe_options *options, struct probe_report *report)
{
    struct probe *probe = calloc(1, sizeof *probe);
    struct muster *m = NULL;
    struct muster_kernel *kernel = NULL;
    struct muster_bundle *bundle = NULL;
    struct muster_error error;
    muster_status status;
    if (!probe) {
        muster_error_fill(&report->error, MUSTER_E_NO_MEMORY, 0, NULL,
                          "no memory to check a kernel");
        return;
    }
    *probe = (struct probe){ .options = options,
                             .report = report,
                             .entry = options->entry,
                             .symbol = options->entry,
                             .random = options->seed,
                             .group = 1 };
    probe_doing(probe, "opening devices");
    atomic_store_explicit(&report->is_compiling, true, memory_order_relaxed);
    status = open_devices(options, &m, &error);
    if (status == MUSTER_OK)
        status = muster_bundle_create(&bundle, &error);
    if (status == MUSTER_OK)
        status = muster_bundle_add_file(bundle, options->file, options->entry, &error);
    if (status == MUSTER_OK)
        status = muster_kernel_load(m, options->file, options->entry, &kernel, &error);
    /* Calls that succeed may have written there too. */
    if (status == MUSTER_OK)
        check(probe, m, kernel, bundle);
    else
        report->error = error;
    muster_kernel_destroy(kernel);
    muster_bundle_destroy(bundle);
    if (m)
        muster_close(m, NULL);
    free(probe->fields);
    free(probe);
    report->is_done = true;
}
