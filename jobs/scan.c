#include "scan_function.h"
#include "scan_state.h"

#include <stdio.h>
#include <stdlib.h>

_Static_assert(SCAN_ITEM_BYTES == SCAN_ITEM, "the kernel takes items of the stated size");

muster_status scan_no_memory(struct muster_error *err, const char *what)
{
    if (err) {
        *err = (struct muster_error){ .size = sizeof *err, .status = MUSTER_E_NO_MEMORY };
        snprintf(err->text, sizeof err->text, "no host memory for %s", what);
    }
    return MUSTER_E_NO_MEMORY;
}

static bool pass_on(void *user, const struct finder_hit *hit)
{
    struct scan *scan = user;
    return scan->options.hit(scan->options.user, scan->input, &scan->finder, hit);
}

static muster_status stop(struct scan *scan, enum finder_result why)
{
    if (why == FINDER_NO_MEMORY)
        return MUSTER_E_NO_MEMORY;
    scan->is_stopped = true;
    return MUSTER_E_CANCELLED;
}

static muster_status end_input(struct scan *scan)
{
    bool goes_on = scan->input->is_unread ||
                   scan->options.end(scan->options.user, scan->input, scan->finder.count);
    scan->input = NULL;
    finder_begin(&scan->finder);
    return goes_on ? MUSTER_OK : stop(scan, FINDER_STOPPED);
}

static struct input *next_input(struct scan *scan)
{
    return scan->is_far ? texts_next(&scan->texts) : inputs_next(&scan->inputs);
}

muster_status scan_settle(struct scan *scan, uint64_t begin, uint64_t end, const uint8_t *text,
                          const uint64_t *marks)
{
    muster_status status = MUSTER_OK;
    /* An input may end where this text does, and with it what lies in the next. */
    while (status == MUSTER_OK && scan->position < end &&
           (scan->input || (scan->input = next_input(scan)))) {
        uint64_t from = scan->position;
        uint64_t input_end = atomic_load_explicit(&scan->input->end, memory_order_relaxed);
        uint64_t to = input_end < end ? input_end : end;
        enum finder_result found =
            finder_take(&scan->finder, text + (from - begin), (size_t)(to - from), marks,
                        (size_t)(from - begin), to == input_end);
        if (found != FINDER_GOES_ON)
            return stop(scan, found);
        scan->position = to;
        if (scan->options.is_first_only && scan->finder.count > 0) {
            atomic_store_explicit(&scan->input->is_enough, true, memory_order_relaxed);
            /* Who reads here ends the input there; on many machines it is read already. */
            if (scan->is_far)
                scan->position = to = input_end;
        }
        if (to == input_end) {
            /* Behind each there is a newline that is not its own. */
            scan->position++;
            status = end_input(scan);
        }
    }
    return status;
}

/* The sink: text with its marks, which may be of several inputs. */
static muster_status settle(void *user, const struct muster_result *result)
{
    return scan_settle(user, result->range.begin * SCAN_ITEM, result->range.end * SCAN_ITEM,
                       result->supplied, result->outputs[0]);
}

static muster_status make_kernel(struct scan *scan, struct muster_error *err)
{
    const struct muster_kernel_form forms[] = {
        { .size = sizeof *forms, .kind = MUSTER_KERNEL_FUNCTION, .function = scan_function },
        { .size = sizeof *forms,
          .kind = MUSTER_KERNEL_PORTABLE,
          .code = scan_kernel_source,
          .code_bytes = strlen(scan_kernel_source),
          .entry = "scan",
          .file = "scan_kernel.c" }
    };
    return muster_kernel_from(scan->m, "scan", forms, 2, &scan->kernel, err);
}

uint32_t scan_flags(const struct scan_options *options)
{
    /* A word that does not stand as it is to may be followed by one that does. */
    bool is_by_line = options->want != FINDER_MATCHES && !options->is_word && !options->is_whole;
    return (is_by_line ? SCAN_BY_LINE : 0) | (options->is_folded ? SCAN_FOLD : 0);
}

static muster_status start_job(struct scan *scan, struct muster_error *err)
{
    const uint32_t flags = scan_flags(&scan->options);
    struct muster_run_options run = scan->options.run;
    run.size = sizeof run;
    run.unordered = 0;
    const struct muster_arg args[] = { { MUSTER_ARG_OF(MUSTER_ARG_SOURCE), .bytes = SCAN_ITEM },
                                       MUSTER_ALL(scan->data),
                                       MUSTER_VALUE(flags),
                                       { MUSTER_ARG_OF(MUSTER_ARG_OUT),
                                         .bytes = SCAN_ITEM_MARKS * sizeof(uint64_t) } };
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .kernel = scan->kernel,
                                          .items = MUSTER_ITEMS_UNKNOWN,
                                          .args = args,
                                          .arg_count = sizeof args / sizeof *args,
                                          .source = inputs_read,
                                          .source_user = &scan->inputs,
                                          .source_calls = inputs_calls(&scan->inputs),
                                          .sink = settle,
                                          .sink_user = scan,
                                          .options = &run };
    return muster_start(scan->m, &desc, &scan->job, err);
}

muster_status scan_begin(struct scan *scan, struct words *words, struct muster_error *err)
{
    /* Where every line is wanted nobody looks for words. */
    const struct words none = { 0 };
    const struct scan_options *options = &scan->options;
    if (options->is_folded)
        words_fold(words);
    words_sort(words);
    bool has_all_lines = words->has_empty && options->want != FINDER_MATCHES &&
                         !options->has_places && !options->is_word && !options->is_whole;
    if (!automaton_init(&scan->automaton, has_all_lines ? &none : words, options->is_folded))
        return scan_no_memory(err, "the automaton of the words");
    scan->finder = (struct finder){ .want = options->want,
                                    .is_numbered = options->is_numbered,
                                    .is_word = options->is_word,
                                    .is_whole = options->is_whole,
                                    .is_inverted = options->is_inverted,
                                    .is_first_only = options->is_first_only,
                                    .has_empty = words->has_empty,
                                    .automaton = &scan->automaton,
                                    .patience = FINDER_PATIENCE,
                                    .hit = pass_on,
                                    .user = scan };
    finder_begin(&scan->finder);
    return MUSTER_OK;
}

static muster_status set_up(struct scan *scan, struct words *words, struct muster_error *err)
{
    const struct scan_options *options = &scan->options;
    muster_status status = scan_begin(scan, words, err);
    if (status != MUSTER_OK)
        return status;
    const struct inputs_options reading = { options->tree, SCAN_ITEM, options->is_unpacked };
    if (!inputs_init(&scan->inputs, scan->m, &reading))
        return scan_no_memory(err, "the list of inputs");
    scan->inputs.trouble = scan->options.trouble;
    scan->inputs.user = scan->options.user;
    scan->inputs.output = scan->options.output;
    status = muster_data_create(scan->m, scan->automaton.memory, scan->automaton.bytes, 0,
                                &scan->data, err);
    scan->has_data = status == MUSTER_OK;
    if (status == MUSTER_OK)
        status = make_kernel(scan, err);
    return status == MUSTER_OK ? start_job(scan, err) : status;
}

void scan_share(void)
{
    muster_helper_function("muster.scan", scan_function);
}

muster_status scan_start(struct muster *m, struct words *words, const struct scan_options *options,
                         struct scan **out, struct muster_error *err)
{
    struct scan *scan = calloc(1, sizeof *scan);
    if (!scan)
        return scan_no_memory(err, "a scan");
    scan->m = m;
    scan->options = *options;
    muster_status status = set_up(scan, words, err);
    if (status == MUSTER_OK)
        *out = scan;
    else
        scan_destroy(scan);
    return status;
}

muster_status scan_wait(struct scan *scan, struct muster_report *report, struct muster_error *err)
{
    muster_status status = muster_job_wait(scan->job, report, err);
    return scan->is_stopped ? MUSTER_E_CANCELLED : status;
}

struct muster_job *scan_job(const struct scan *scan)
{
    return scan->job;
}

void scan_destroy(struct scan *scan)
{
    if (!scan)
        return;
    muster_job_destroy(scan->job);
    muster_kernel_destroy(scan->kernel);
    /* A device that hangs may still read the automaton: it stays then, as the device's memory does. */
    bool is_free = !scan->has_data || muster_data_destroy(scan->m, scan->data, NULL) == MUSTER_OK;
    finder_deinit(&scan->finder);
    if (scan->is_far)
        scan_leave_cluster(scan);
    else
        inputs_deinit(&scan->inputs);
    if (is_free)
        automaton_deinit(&scan->automaton);
    free(scan);
}
