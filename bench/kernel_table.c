/*
 * Fourteen portable kernels, each one file of examples/kernels, beside the same loops by hand.
 *
 *     kernel_table [--quick 1] [--devices cuda:N] [--rows NAME,NAME...] [--repetitions N] [--json FILE]
 *
 * On processors: muster_for (reductions: muster_reduce), start to end, over arrays in plain memory, beside
 * gcc's OpenMP in bench/kernel_table/openmp.c, the same kernel file in a loop with the same prelude, with
 * -O3 -march=native -ffp-contract=off and what else changes no bits. They take turns. With --devices cuda:N: launches on that device, of
 * data that is there, beside bench/kernel_table/cuda.cu, the same bodies by nvcc with --fmad=false, one
 * thread for each item; reductions are jobs from start to end beside a launch. A second column has no bar: the
 * best version by hand with the device's own mathematics, hand.c and hand.cu, with other bits.
 *
 * Every result is compared bit by bit with a serial loop in this program: that of the first device, of
 * every other that the machine has, of all together, and in units of an odd size. A difference fails the
 * bench. The serial loop itself is compared with other algorithms (bench/kernel_table/truth.h). Sums by
 * OpenMP and by CUDA are in an order of their own, so theirs are not compared.
 */
#include "jobs.h"
#include "kernel_table/cuda.h"
#include "kernel_table/data.h"
#include "kernel_table/truth.h"

#include <muster/reduce.h>

#define PAUSE_US 10000
/* A run that is shorter says little about a loop. */
#define RUN_NS_MIN 500000.0
#define TARGET_CPU 1.05
#define TARGET_CUDA 1.1
#define ODD_UNIT 1009

struct table {
    struct bench bench;
    struct muster *cpu, *all; /* processors alone, and every device there is */
    const char *device;       /* a CUDA device to be measured; NULL: processors */
    bool is_quick;
    char others[REPORT_DEVICES_MAX][24], together[REPORT_DEVICES_MAX * 24];
    size_t other_count;
};

struct subject {
    struct table *table;
    struct table_row *row;
    uint64_t items;
    char expected[TABLE_RESULT_MAX], result[TABLE_RESULT_MAX];
};

/* A kernel and the tables that it sees whole, in one of the runtimes. */
struct loaded {
    struct muster *m;
    struct muster_kernel *kernel;
    struct muster_arg args[TABLE_ARGUMENTS_MAX];
};

static void load(const struct subject *of, struct muster *m, struct loaded *loaded)
{
    const struct bench *bench = &of->table->bench;
    const struct table_row *row = of->row;
    struct muster_error err;
    char path[512];
    /* Built elsewhere, it finds them from the folder that it is started in. */
    snprintf(path, sizeof path, "%s/%s.c",
             access(MUSTER_EXAMPLE_KERNELS, R_OK) == 0 ? MUSTER_EXAMPLE_KERNELS
                                                       : "examples/kernels",
             row->entry);
    *loaded = (struct loaded){ .m = m };
    if (muster_kernel_load(m, path, row->entry, &loaded->kernel, &err) != MUSTER_OK)
        stop(bench, err.text);
    static const enum muster_arg_kind kinds[] = {
        [TABLE_VALUE] = MUSTER_ARG_VALUE, [TABLE_FIRST] = MUSTER_ARG_FIRST,
        [TABLE_IN] = MUSTER_ARG_IN,       [TABLE_OUT] = MUSTER_ARG_OUT,
        [TABLE_INOUT] = MUSTER_ARG_INOUT, [TABLE_ALL] = MUSTER_ARG_ALL,
    };
    for (size_t k = 0; k < row->count; k++) {
        const struct table_argument *argument = &row->arguments[k];
        struct muster_arg *arg = &loaded->args[k];
        *arg = (struct muster_arg){ MUSTER_ARG_OF(kinds[argument->use]) };
        if (argument->use == TABLE_ALL) {
            if (muster_data_create(m, argument->memory, argument->bytes, 0, &arg->data, &err) !=
                MUSTER_OK)
                stop(bench, err.text);
        } else if (argument->use != TABLE_FIRST) {
            arg->bytes = argument->item_bytes;
            arg->in = argument->memory ? argument->memory : (const void *)&argument->value;
            if (argument->use == TABLE_OUT)
                arg->in = NULL;
            if (table_is_written(argument))
                arg->out = argument->memory;
        }
    }
}

static void unload(const struct subject *of, struct loaded *loaded)
{
    for (size_t k = 0; k < of->row->count; k++)
        if (loaded->args[k].kind == MUSTER_ARG_ALL)
            muster_data_destroy(loaded->m, loaded->args[k].data, NULL);
    muster_kernel_destroy(loaded->kernel);
}

static void run_ours(struct subject *of, const struct loaded *loaded, const char *devices,
                     uint64_t unit_items)
{
    const struct muster_run_options options = { .size = sizeof options,
                                                .devices = devices,
                                                .unit_items = unit_items };
    struct muster_error err;
    muster_status status =
        of->row->result_bytes > 0
            ? muster_reduce(loaded->m, loaded->kernel, of->items, loaded->args, of->row->count,
                            of->result, of->row->result_bytes, &options, NULL, &err)
            : muster_for(loaded->m, loaded->kernel, of->items, loaded->args, of->row->count,
                         &options, NULL, &err);
    if (status != MUSTER_OK)
        stop(&of->table->bench, err.text);
}

static bool is_right(const struct subject *of)
{
    return table_is_equal(of->row, of->result, of->expected);
}

/* On every other device, on all together, and in units of another size: the same bits. */
static bool check_elsewhere(struct subject *of)
{
    struct table *table = of->table;
    struct loaded loaded;
    bool is_equal = true;
    load(of, table->all, &loaded);
    for (size_t i = 0; i < table->other_count + 2; i++) {
        const char *devices = i < table->other_count ? table->others[i] : table->together;
        /* The last time in small units, but not in so many that it takes long. */
        uint64_t unit = i > table->other_count ? of->items / 100 + ODD_UNIT : 0;
        table_reset(of->row);
        memset(of->result, 0xa5, sizeof of->result);
        run_ours(of, &loaded, devices, unit);
        if (is_right(of))
            continue;
        is_equal = false;
        printf("%s: other bits on %s, units of %llu (0: chosen)\n", of->row->what, devices,
               (unsigned long long)unit);
    }
    unload(of, &loaded);
    return is_equal;
}

/* What all threads of the process have used of the processors so far. */
static double processor_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* `busy`: processor time of ours / of the peer's, 0 where it was not measured. */
static void report(struct subject *of, const char *peer_name, double target, double *ours_ns,
                   double *peer_ns, double *hand_ns, double busy, bool is_equal, bool is_peer_equal,
                   bool is_hand_near)
{
    static double ratios[REPETITIONS_MAX];
    struct bench *bench = &of->table->bench;
    const char *bits = !is_equal || (!is_peer_equal && !of->row->is_own_order) ? "DIFFER"
                       : of->row->is_own_order && peer_ns ? "equal; the peer's order is its own"
                                                          : "equal";
    struct sample peer = { 0 }, ratio = { 0 };
    if (peer_ns) {
        for (int r = 0; r < bench->repetitions; r++)
            ratios[r] = ours_ns[r] / peer_ns[r];
        ratio = summarise(ratios, bench->repetitions);
        peer = summarise(peer_ns, bench->repetitions);
    }
    struct sample ours = summarise(ours_ns, bench->repetitions), hand = { 0 };
    if (hand_ns)
        hand = summarise(hand_ns, bench->repetitions);
    if (of->table->is_quick) {
        printf("%-22s %9llu %s%s\n", of->row->what, (unsigned long long)of->items, bits,
               is_hand_near ? "" : "; BY HAND WRONG");
        return;
    }
    printf("%-22s %9llu %8.3f (%.3f-%.3f)  ", of->row->what, (unsigned long long)of->items,
           ours.median / 1e6, ours.least / 1e6, ours.greatest / 1e6);
    if (peer_ns)
        printf("%8.3f (%.3f-%.3f)  %6.3f (%.3f-%.3f)  %-6s ", peer.median / 1e6, peer.least / 1e6,
               peer.greatest / 1e6, ratio.median, ratio.least, ratio.greatest,
               verdict(ratio.median <= target));
    else
        printf("no peer  ");
    if (busy > 0)
        printf("%6.3f  ", busy);
    /* No bar: it has other bits, and often another algorithm. */
    if (hand_ns)
        printf("%8.3f %6.2f%s  ", hand.median / 1e6, ours.median / hand.median,
               is_hand_near ? "" : " WRONG");
    printf("%s\n", bits);
    row_begin(bench, of->row->what);
    row_text(bench, "kernel", of->row->entry);
    row_number(bench, "items", (double)of->items);
    row_text(bench, "device", of->table->device ? of->table->device : "cpu");
    row_sample(bench, "ours_ns", ours);
    if (peer_ns) {
        row_text(bench, "peer", peer_name);
        row_sample(bench, "peer_ns", peer);
        row_sample(bench, "ratio", ratio);
        if (busy > 0)
            row_number(bench, "processor_time_ratio", busy);
        row_number(bench, "target", target);
        row_text(bench, "verdict", verdict(ratio.median <= target));
    }
    row_text(bench, "bits", bits);
    if (hand_ns) {
        row_sample(bench, "hand_ns", hand);
        row_number(bench, "ours_to_hand", ours.median / hand.median);
        row_text(bench, "hand_result", is_hand_near ? "near" : "WRONG");
    }
    row_end(bench);
}

static bool measure_cpu(struct subject *of)
{
    static double hand[REPETITIONS_MAX];
    static double ours[REPETITIONS_MAX], peer[REPETITIONS_MAX], ours_busy[REPETITIONS_MAX],
        peer_busy[REPETITIONS_MAX];
    const struct bench *bench = &of->table->bench;
    void *args[TABLE_ARGUMENTS_MAX];
    struct loaded loaded;
    bool is_equal = true, is_peer_equal = true, is_hand_near = true;
    load(of, of->table->cpu, &loaded);
    table_bind(of->row, args);
    for (int r = -1; r < bench->repetitions; r++) { /* the first is a warm-up */
        for (int turn = 0; turn < 3; turn++) {
            bool is_ours = turn < 2 && (turn + r) % 2 == 0, is_hand = turn == 2;
            table_reset(of->row);
            memset(of->result, 0xa5, sizeof of->result);
            /* OpenMP's threads spin for a while after a loop. */
            usleep(of->table->is_quick ? 0 : PAUSE_US);
            double busy_ns = processor_ns();
            uint64_t begin_ns = clock_ns();
            if (is_ours)
                run_ours(of, &loaded, NULL, 0);
            else
                (is_hand ? of->row->hand : of->row->openmp)(of->items, args, of->result);
            double ns = (double)(clock_ns() - begin_ns);
            if (is_hand) {
                is_hand_near = is_hand_near && table_is_near(of->row, of->result, of->expected);
                hand[r > 0 ? r : 0] = ns;
                continue;
            }
            if (ns < RUN_NS_MIN && !of->table->is_quick)
                stop(bench, "a run was too short to say anything");
            bool *is_good = is_ours ? &is_equal : &is_peer_equal;
            *is_good = *is_good && is_right(of);
            busy_ns = processor_ns() - busy_ns;
            if (r >= 0) {
                (is_ours ? ours : peer)[r] = ns;
                (is_ours ? ours_busy : peer_busy)[r] = busy_ns;
            }
        }
    }
    unload(of, &loaded);
    is_equal = check_elsewhere(of) && is_equal;
    double busy = summarise(ours_busy, bench->repetitions).median /
                  summarise(peer_busy, bench->repetitions).median;
    report(of, "OpenMP", TARGET_CPU, ours, peer, hand, busy, is_equal, is_peer_equal, is_hand_near);
    return is_equal && is_hand_near && (is_peer_equal || of->row->is_own_order);
}

static bool measure_cuda(struct subject *of, struct table_cuda *cuda)
{
    static double ours[REPETITIONS_MAX], peer[REPETITIONS_MAX], hand[REPETITIONS_MAX];
    struct loaded loaded;
    bool is_peer_equal = true, is_hand_near = true;
    load(of, of->table->all, &loaded);
    bool is_equal =
        table_cuda_measure(cuda, &of->table->bench, of->row, of->items, loaded.kernel, loaded.args,
                           of->expected, ours, peer, hand, &is_peer_equal, &is_hand_near);
    unload(of, &loaded);
    is_equal = check_elsewhere(of) && is_equal;
    report(of, "CUDA C++", TARGET_CUDA, ours, cuda->module ? peer : NULL,
           cuda->by_hand ? hand : NULL, 0, is_equal, is_peer_equal, is_hand_near);
    return is_equal && (is_peer_equal || of->row->is_own_order);
}

/* Every device that is not a processor, and all with the processors. */
static void list_devices(struct table *table)
{
    muster_device devices[REPORT_DEVICES_MAX];
    size_t count = 0, used = 0;
    struct muster_error err;
    if (muster_device_list(table->all, devices, REPORT_DEVICES_MAX, &count, &err) != MUSTER_OK)
        stop(&table->bench, err.text);
    for (size_t i = 0; i < count; i++) {
        struct muster_device_info info = { .size = sizeof info };
        if (muster_device_info(table->all, devices[i], &info, &err) != MUSTER_OK)
            stop(&table->bench, err.text);
        used += (size_t)snprintf(table->together + used, sizeof table->together - used, "%s%s",
                                 used > 0 ? "," : "", info.id);
        if (strncmp(info.id, "cpu:", 4) != 0)
            snprintf(table->others[table->other_count++], sizeof *table->others, "%s", info.id);
    }
}

/* Every kind of device that the machine has; OpenCL's only if they are asked for by name. */
static struct muster *open_all(const struct bench *bench)
{
    static const char *const kinds[] = { "cpu,cuda,opencl", "cpu,cuda", "cpu,opencl" };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster *m;
    size_t count;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        options.devices = kinds[i];
        if (muster_open(&m, &options, NULL) != MUSTER_OK)
            continue;
        /* What is asked for and not there is found when devices are looked for. */
        if (muster_device_list(m, NULL, 0, &count, NULL) != MUSTER_E_NOT_FOUND)
            return m;
        muster_close(m, NULL);
    }
    return open_runtime(bench, "cpu", NULL);
}

/* Whether the name is one of a list with commas; NULL: all are. */
static bool is_listed(const char *list, const char *name)
{
    size_t bytes = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, bytes) == 0 && (at[bytes] == ',' || at[bytes] == '\0'))
            return true;
    return !list;
}

int main(int argc, char **argv)
{
    static struct table table;
    static struct subject of;
    struct table_cuda cuda;
    const char *rows = NULL;
    bool is_equal = true;
    int kept = 1;
    /* Else OpenMP's threads spin where they wait, and that counts as processor time. */
    if (!getenv("OMP_WAIT_POLICY") && setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execv("/proc/self/exe", argv);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--quick") == 0) {
            table.is_quick = atoi(argv[i + 1]) != 0;
        } else if (strcmp(argv[i], "--devices") == 0) {
            table.device = argv[i + 1];
        } else if (strcmp(argv[i], "--rows") == 0) {
            rows = argv[i + 1];
        } else {
            argv[kept++] = argv[i];
            argv[kept++] = argv[i + 1];
        }
    }
    bench_begin(&table.bench, "kernel_table", 11, argc % 2 == 0 ? argc : kept, argv);
    if (table.is_quick)
        table.bench.repetitions = REPETITIONS_MIN;
    table.cpu = open_runtime(&table.bench, "cpu", NULL);
    table.all = open_all(&table.bench);
    list_devices(&table);
    if (table.device)
        table_cuda_open(&cuda, &table.bench, table.all, table.device);
    if (table.is_quick)
        printf("bits compared on: %s; too few items to say what they cost\n", table.together);
    else
        printf(
            "bits also compared on: %s\nms, median (least-greatest) of %d; target: ours / peer <= "
            "%.2f;\nby hand: the best version with the device's own mathematics, other bits, no "
            "bar; "
            "then ours / that\n\n%-22s %9s %-24s %-24s  %-28s %s  by hand  bits\n",
            table.together, table.bench.repetitions, table.device ? TARGET_CUDA : TARGET_CPU, "",
            "items", table.device ? table.device : "      cpu",
            table.device ? "      CUDA C++" : "      OpenMP", "ratio",
            table.device ? "" : "processor time");
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if (!is_listed(rows, table_rows[i].entry))
            continue;
        of.table = &table;
        of.row = &table_rows[i];
        of.items = table.is_quick ? of.row->quick : of.row->items;
        table_open(of.row, &table.bench, of.items, of.expected);
        if (!truth_is_told(of.row, of.items, of.expected)) {
            printf("%s: the kernel itself is wrong\n", of.row->what);
            is_equal = false;
        }
        is_equal = (table.device ? measure_cuda(&of, &cuda) : measure_cpu(&of)) && is_equal;
        table_close(of.row);
    }
    if (table.device)
        table_cuda_close(&cuda);
    muster_close(table.all, NULL);
    muster_close(table.cpu, NULL);
    int code = bench_end(&table.bench);
    return is_equal ? code : 1;
}
