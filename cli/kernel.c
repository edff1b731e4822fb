/*
 * `muster kernel`: makes one file of a kernel's forms, and shows what is in one.
 */
#include "bytes.h"
#include "command.h"
#include "interrupt.h"
#include "json.h"
#include "kernel_check.h"
#include "log.h"
#include "message.h"
#include "placement.h"
#include "suggest.h"
#include "table.h"

#include <muster/bundle.h>
#include <stdio.h>
#include <string.h>

#define FILES_MAX 64
#define ARCHS_MAX 16
/* Machine code for the data-centre devices of the last years; PTX for the first serves the rest. */
#define ARCHS_DEFAULT "8.0,9.0"

static const char *more_files[FILES_MAX - 1];
static struct arguments more = { more_files, 0, FILES_MAX - 1 };

/* What could not be made, and why. */
struct left_out {
    enum muster_kernel_kind kind;
    uint16_t compute[2];
    struct muster_error why;
};

struct building {
    struct muster_bundle *bundle; /* owns */
    uint16_t archs[ARCHS_MAX][2];
    size_t arch_count;
    struct left_out left_out[ARCHS_MAX + 3];
    size_t left_out_count;
};

/* Bad input is told from a machine that failed. */
static enum exit_code refuse(const struct muster_error *error)
{
    message_library(NULL, error);
    switch (error->status) {
    case MUSTER_E_PARSE:
    case MUSTER_E_NOT_FOUND:
    case MUSTER_E_INVALID:
    case MUSTER_E_VERSION:
        return EXIT_USAGE;
    default:
        return EXIT_FAILED;
    }
}

/* Printing. */

static void compute_text(const uint16_t compute[2], char *text, size_t bytes)
{
    if (compute[0] == 0)
        snprintf(text, bytes, "-");
    else
        snprintf(text, bytes, "%u.%u", compute[0], compute[1]);
}

enum { ENTRY_, KIND, COMPUTE, BYTES, COLUMN_COUNT };

static void form_row(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES])
{
    const struct muster_kernel_form *form = muster_bundle_form(rows, index);
    snprintf(cells[ENTRY_], TABLE_CELL_BYTES, "%s", form->entry);
    snprintf(cells[KIND], TABLE_CELL_BYTES, "%s", muster_kernel_kind_name(form->kind));
    compute_text(form->compute, cells[COMPUTE], TABLE_CELL_BYTES);
    bytes_format(form->code_bytes, cells[BYTES], TABLE_CELL_BYTES);
}

static void print_text(const struct muster_bundle *bundle, struct output *out)
{
    static const struct table_column columns[COLUMN_COUNT] = { [ENTRY_] = { .title = "KERNEL" },
                                                               [KIND] = { .title = "FORM" },
                                                               [COMPUTE] = { .title = "COMPUTE" },
                                                               [BYTES] = { .title = "SIZE",
                                                                           .right = true } };
    size_t count = 0;
    while (muster_bundle_form(bundle, count))
        count++;
    table_print(columns, COLUMN_COUNT, form_row, bundle, count, out);
}

static void json_compute(struct json *json, const uint16_t compute[2])
{
    if (compute[0] == 0) {
        json_null(json, "compute");
        return;
    }
    json_begin_array(json, "compute");
    json_number(json, NULL, compute[0]);
    json_number(json, NULL, compute[1]);
    json_end_array(json);
}

static void print_json(const struct building *building, const char *path, struct output *out)
{
    struct json json;
    const struct muster_kernel_form *form;
    json_init(&json, out);
    json_begin_object(&json, NULL);
    json_text(&json, "file", path);
    json_begin_array(&json, "forms");
    for (size_t i = 0; (form = muster_bundle_form(building->bundle, i)); i++) {
        json_begin_object(&json, NULL);
        json_text(&json, "kernel", form->entry);
        json_text(&json, "form", muster_kernel_kind_name(form->kind));
        json_compute(&json, form->compute);
        json_number(&json, "bytes", form->code_bytes);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_begin_array(&json, "left_out");
    for (size_t i = 0; i < building->left_out_count; i++) {
        const struct left_out *left = &building->left_out[i];
        json_begin_object(&json, NULL);
        json_text(&json, "form", muster_kernel_kind_name(left->kind));
        json_compute(&json, left->compute);
        json_text(&json, "why", left->why.text);
        json_text(&json, "fix", left->why.fix);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    output_text(out, "\n");
}

/* Building. */

enum { OUTPUT, ENTRY, ARCH, NO_SOURCE, NO_OBJECT, NO_OPENCL, NO_CUDA, JSON, LOG };

static const struct option build_options[] = {
    [OUTPUT] = { .name = "output",
                 .letter = 'o',
                 .kind = OPTION_TEXT,
                 .required = true,
                 .value = "OUT",
                 .help = "the bundle to write; also -o OUT" },
    [ENTRY] = { .name = "entry",
                .kind = OPTION_TEXT,
                .value = "NAME",
                .help = "only this kernel (all)" },
    [ARCH] = { .name = "arch",
               .kind = OPTION_TEXT,
               .value = "LIST",
               .help = "compute capabilities for CUDA (" ARCHS_DEFAULT ")" },
    [NO_SOURCE] = { .name = "no-source",
                    .kind = OPTION_FLAG,
                    .help = "leave source out of the bundle" },
    [NO_OBJECT] = { .name = "no-object", .kind = OPTION_FLAG, .help = "make no shared object" },
    [NO_OPENCL] = { .name = "no-opencl", .kind = OPTION_FLAG, .help = "make no OpenCL C" },
    [NO_CUDA] = { .name = "no-cuda", .kind = OPTION_FLAG, .help = "make no PTX and no cubins" },
    [JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print JSON" },
    LOG_OPTION_ROWS,
};

static bool read_archs(struct building *building, const char *list)
{
    for (const char *at = list;;) {
        const char *end = at + strcspn(at, ",");
        if (building->arch_count == ARCHS_MAX ||
            !placement_read_version(at, end, building->archs[building->arch_count]) ||
            building->archs[building->arch_count][0] == 0) {
            message_usage("kernel build", "--arch takes a list as in 8.0,9.0, not '%s'", list);
            return false;
        }
        building->arch_count++;
        if (*end == '\0')
            return true;
        at = end + 1;
    }
}

/*
 * Makes one form of all source. What this machine has no compiler for is noted and left out, unless
 * it was asked for by name. False after another failure, which has been reported.
 */
static bool make(struct building *building, enum muster_kernel_kind kind, const uint16_t compute[2],
                 bool is_asked, enum exit_code *code)
{
    struct left_out *left = &building->left_out[building->left_out_count];
    muster_status status = muster_bundle_build(building->bundle, kind, compute, &left->why);
    /* Not found: there is no source that becomes this. */
    if (status == MUSTER_OK || (status == MUSTER_E_NOT_FOUND && !is_asked))
        return true;
    if (status != MUSTER_E_NOT_SUPPORTED || is_asked) {
        *code = refuse(&left->why);
        return false;
    }
    left->kind = kind;
    left->compute[0] = compute ? compute[0] : 0;
    left->compute[1] = compute ? compute[1] : 0;
    building->left_out_count++;
    return true;
}

/* The oldest of the architectures, whose PTX runs on all newer ones. */
static const uint16_t *oldest_arch(const struct building *building)
{
    const uint16_t *oldest = building->archs[0];
    for (size_t i = 1; i < building->arch_count; i++) {
        const uint16_t *arch = building->archs[i];
        if (arch[0] < oldest[0] || (arch[0] == oldest[0] && arch[1] < oldest[1]))
            oldest = arch;
    }
    return oldest;
}

/* What is made last stands first, and is preferred. */
static bool make_all(struct building *building, const struct option_value *values,
                     enum exit_code *code)
{
    bool is_asked = values[ARCH].given;
    if (!values[NO_OPENCL].given && !make(building, MUSTER_KERNEL_OPENCL, NULL, false, code))
        return false;
    if (!values[NO_CUDA].given) {
        if (!make(building, MUSTER_KERNEL_PTX, oldest_arch(building), is_asked, code))
            return false;
        for (size_t i = building->arch_count; i-- > 0;)
            if (!make(building, MUSTER_KERNEL_CUBIN, building->archs[i], is_asked, code))
                return false;
    }
    return values[NO_OBJECT].given ||
           make(building, MUSTER_KERNEL_SHARED_OBJECT, NULL, false, code);
}

/* The same bundle without what needs a compiler. */
static muster_status drop_source(struct building *building, struct muster_error *error)
{
    struct muster_bundle *kept;
    const struct muster_kernel_form *form;
    muster_status status = muster_bundle_create(&kept, error);
    if (status != MUSTER_OK)
        return status;
    for (size_t i = 0; status == MUSTER_OK && (form = muster_bundle_form(building->bundle, i)); i++)
        if (form->kind != MUSTER_KERNEL_PORTABLE && form->kind != MUSTER_KERNEL_CUDA)
            status = muster_bundle_add_form(kept, form, error);
    if (status != MUSTER_OK) {
        muster_bundle_destroy(kept);
        return status;
    }
    muster_bundle_destroy(building->bundle);
    building->bundle = kept;
    return MUSTER_OK;
}

static muster_status add_files(struct building *building, const char *first, const char *entry,
                               struct muster_error *error)
{
    muster_status status = muster_bundle_add_file(building->bundle, first, entry, error);
    for (size_t i = 0; i < more.count && status == MUSTER_OK; i++)
        status = muster_bundle_add_file(building->bundle, more.words[i], entry, error);
    return status;
}

static enum exit_code fill_bundle(struct building *building, const struct option_value *values,
                                  const char *file)
{
    struct muster_error error;
    enum exit_code code = EXIT_DONE;
    const char *path = values[OUTPUT].text;
    if (add_files(building, file, values[ENTRY].text, &error) != MUSTER_OK)
        return refuse(&error);
    if (!make_all(building, values, &code))
        return code;
    if (values[NO_SOURCE].given && drop_source(building, &error) != MUSTER_OK)
        return refuse(&error);
    if (!muster_bundle_form(building->bundle, 0)) {
        message_error("nothing is left to put into %s", path);
        return EXIT_USAGE;
    }
    return muster_bundle_write(building->bundle, path, &error) == MUSTER_OK ? EXIT_DONE
                                                                            : refuse(&error);
}

static void tell_left_out(const struct building *building)
{
    char subject[64], compute[16];
    for (size_t i = 0; i < building->left_out_count; i++) {
        const struct left_out *left = &building->left_out[i];
        compute_text(left->compute, compute, sizeof compute);
        snprintf(subject, sizeof subject, "left out %s%s%s", muster_kernel_kind_name(left->kind),
                 left->compute[0] > 0 ? " for " : "", left->compute[0] > 0 ? compute : "");
        message_library(subject, &left->why);
    }
}

static enum exit_code build(const struct option_value *values, const char *file, struct output *out)
{
    static struct building building;
    struct muster_error error;
    if (!read_archs(&building, values[ARCH].given ? values[ARCH].text : ARCHS_DEFAULT))
        return EXIT_USAGE;
    if (!log_begin(values + LOG, "kernel build"))
        return EXIT_USAGE;
    if (muster_bundle_create(&building.bundle, &error) != MUSTER_OK)
        return refuse(&error);
    muster_bundle_log(building.bundle, log_line, NULL);
    enum exit_code code = fill_bundle(&building, values, file);
    if (code == EXIT_DONE) {
        if (values[JSON].given)
            print_json(&building, values[OUTPUT].text, out);
        else
            print_text(building.bundle, out);
        tell_left_out(&building);
    }
    muster_bundle_destroy(building.bundle);
    return code;
}

static enum exit_code run_build(const struct option_value *values, const char *file,
                                struct output *out)
{
    struct interrupt interrupt;
    /* A compiler within the process (NVRTC) puts handlers of its own in the place of ours. */
    if (!interrupt_begin(&interrupt))
        return EXIT_FAILED;
    enum exit_code code = build(values, file, out);
    interrupt_end(&interrupt);
    return code;
}

static const struct command command_build = {
    .name = "kernel build",
    .summary = "put all forms of a kernel into one file",
    .argument = "FILE...",
    .argument_required = true,
    .details =
        "Puts the files - portable source (.c), .cu, .cl, .ptx, cubins, shared objects, bundles -\n"
        "into one bundle. Source is also compiled: to a shared object for processors like this "
        "one,\n"
        "OpenCL C, a cubin for each compute capability, and PTX for the lowest. A form whose "
        "compiler\n"
        "is missing is left out, and standard error says so; if --arch asks for it, that is an "
        "error.\n"
        "Exit status: 0 written, 1 failed, 2 wrong usage, a bad file or a compiler's error.\n"
        "JSON: {\"file\",\"forms\":[{\"kernel\",\"form\",\"compute\",\"bytes\"}],\n"
        "\"left_out\":[{\"form\",\"compute\",\"why\",\"fix\"}]}\n",
    .options = build_options,
    .option_count = sizeof build_options / sizeof *build_options,
    .more = &more,
    .run = run_build,
};

/* Listing. */

enum { LIST_JSON };

static const struct option list_options[] = {
    [LIST_JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print JSON" },
};

static enum exit_code run_list(const struct option_value *values, const char *file,
                               struct output *out)
{
    static struct building building;
    struct muster_error error;
    if (muster_bundle_create(&building.bundle, &error) != MUSTER_OK)
        return refuse(&error);
    enum exit_code code = EXIT_DONE;
    if (muster_bundle_add_file(building.bundle, file, NULL, &error) != MUSTER_OK)
        code = refuse(&error);
    else if (values[LIST_JSON].given)
        print_json(&building, file, out);
    else
        print_text(building.bundle, out);
    muster_bundle_destroy(building.bundle);
    return code;
}

static const struct command command_list = {
    .name = "kernel list",
    .summary = "list the kernels of a file and their forms",
    .argument = "FILE",
    .argument_required = true,
    .details =
        "Lists the kernels of a bundle, or of any file that `muster kernel build` accepts and "
        "that\n"
        "names its kernels.\n"
        "JSON: "
        "{\"file\",\"forms\":[{\"kernel\",\"form\",\"compute\",\"bytes\"}],\"left_out\":[]}\n",
    .options = list_options,
    .option_count = sizeof list_options / sizeof *list_options,
    .run = run_list,
};

static const struct command *const parts[] = { &command_build, &command_kernel_check,
                                               &command_list };

static enum exit_code tell_unknown(const char *word)
{
    struct suggestion suggestion = { .name = NULL };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        suggest_offer(&suggestion, word, strlen(word), strchr(parts[i]->name, ' ') + 1);
    if (suggestion.name)
        message_usage("kernel", "there is no 'kernel %s'; did you mean %s?", word, suggestion.name);
    else
        message_usage("kernel",
                      *word ? "there is no 'kernel %s'" : "kernel needs build, check or list",
                      word);
    return EXIT_USAGE;
}

static enum exit_code dispatch(char *const *words, size_t count, struct output *out)
{
    const char *word = count > 0 ? words[0] : "";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        help_print(&command_kernel, out);
        return EXIT_DONE;
    }
    const struct command *part = command_part(&command_kernel, word);
    if (!part)
        return tell_unknown(word);
    return command_run(part, words + 1, count - 1, out);
}

const struct command command_kernel = {
    .name = "kernel",
    .summary = "bundle the forms of a kernel, check it, or list a bundle",
    .argument = "build | check | list",
    .argument_required = true,
    .details =
        "muster kernel build FILE... -o OUT   put all forms of a kernel into one file\n"
        "muster kernel check FILE             run a kernel on small data and report its mistakes\n"
        "muster kernel list FILE              list the kernels of a file and their forms\n"
        "\n"
        "`muster kernel build --help`, `... check --help` and `... list --help` describe the "
        "options.\n",
    .parts = parts,
    .part_count = sizeof parts / sizeof *parts,
    .dispatch = dispatch,
};
