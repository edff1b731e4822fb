/*
 * All devices together beside every device alone and all but one: is the whole ever slower than a part
 * of it? 24 rows of work that nobody has tuned anything for (together_rows.h), units and all else left
 * to Muster.
 *
 *     together [--devices CPU,GPU] [--slices N,...] [--rows 1,5-8] [--repetitions N] [--seconds SCALE]
 *              [--limit S] [--muster FILE] [--folder DIR] [--json FILE] [--full] [--quick]
 *     together --list | --pairs
 *
 * GPU is used whole and, in other rows, cut into slices: cuda:0 where there is one, else a simulated
 * device. A row is made as long as its length says by the rates that its devices have shown alone.
 * Every subset is run once; then those that were near the best take turns with all devices, with --full
 * all of them. The ratio is that of all devices to the best subset, of the same turn.
 */
#include "together_work.h"

#include <math.h>
#include <signal.h>

#define SUBSETS_MAX 16
#define DEVICES_MAX 8
#define TARGET 1.02
#define TARGET_SHORT 1.10 /* of the first runs of a row that is short */
#define SHORT_S 0.050
#define SHORT_RUNS 2
#define SUM_TARGET 0.95
/* A subset that is expected to take this many times as long as the best device is not run. */
#define PREDICTED_SLOW 4
/* Subsets that took so much longer than the best one in their first run are not run again. */
#define NEAR 1.25
#define LONG_S 1.0
#define CONTENDERS_MAX 3
#define CONTENDERS_MAX_LONG 1
#define CONTENDERS_MAX_MAP 2 /* each run begins with the start of a process and its drivers */
/* First runs need not be longer. */
#define FIRST_S 0.25
/* Items that `muster map` can read and write in a second, at most, of a file and of a pipe. */
#define FILE_RATE 1e9
#define PIPE_RATE 4e8
#define ITEMS_MIN 4096
#define PART_MIN 512
/* A row that its first runs show to be so far from its length is made longer or shorter, once. */
#define LENGTH_OFF 1.5
#define LENGTH_CHANGE_MAX 8.0
#define ARRAY_BYTES_MAX (UINT64_C(2) << 30)

static struct bench bench = { .name = "together", .repetitions = 5 };

static struct options {
    char devices[128];
    const char *slices, *rows, *muster, *folder, *json;
    double scale, limit_s;
    bool is_full, is_quick, is_list, is_pairs;
} options = { .slices = "16,32,84", .scale = 1, .limit_s = 140 };

static struct machine {
    char cpu[24], gpu[24], slices[128], sim[512], folder[300], command[512];
    bool is_simulated;
    struct muster *m;
    int opened; /* for which rows; -1: none */
} machine = { .opened = -1 };

struct subset {
    char devices[DEVICES_MAX * 25];
    uint32_t members; /* bits */
    uint64_t items;   /* that it runs; times are scaled to all of them */
    bool is_predicted, is_contender;
    double first_s, seconds[REPETITIONS_MAX];
};

/* A row while it is measured. The last subset is all devices. */
struct measurement {
    struct work work;
    char ids[DEVICES_MAX][25];
    double rates[DEVICES_MAX];          /* alone, items a second */
    uint64_t done[DEVICES_MAX];         /* items of the runs with all devices */
    char shortage[DEVICES_MAX][128];    /* as the last report has it */
    double faster_without[DEVICES_MAX]; /* likewise */
    int device_count, subset_count, runs;
    double target_s;
    uint64_t items;
    bool is_apart; /* its devices share nothing */
    struct subset subsets[SUBSETS_MAX];
};

/* What is said of a row. */
struct judgement {
    const struct subset *best;
    struct sample best_s, all_s, ratio, sum;
    double early, target;
    bool has_early;
    const char *verdict;
};

/* An interval that holds the target says nothing. */
static const char is_met[] = "met", is_noisy[] = "noisy", is_missed[] = "MISSED";

static struct subset *all_of(struct measurement *row)
{
    return &row->subsets[row->subset_count - 1];
}

/* Devices. */

static void describe_sim(const struct row *row)
{
    static const double rates[] = { [NONE] = 8e8, [SOME] = 3e8, [HEAVY] = 2e6 };
    snprintf(machine.sim, sizeof machine.sim,
             "[{\"name\":\"simulated\",\"items_per_s\":%.0f,\"launch_ns\":5000,\"cores\":132,"
             "\"slices\":true,\"h2d_bytes_per_s\":2e10,\"d2h_bytes_per_s\":2e10}]",
             rates[row->level[ARITHMETIC]]);
}

static void open_machine(const struct row *row)
{
    bool is_cut = row->level[DEVICES] != CPU_GPU;
    int wanted = is_cut + (machine.is_simulated ? 2 * row->level[ARITHMETIC] : 0);
    if (machine.opened == wanted)
        return;
    muster_close(machine.m, NULL);
    struct muster_options opening = MUSTER_OPTIONS_INIT;
    char devices[64];
    snprintf(devices, sizeof devices, "cpu,%.*s", (int)strcspn(machine.gpu, ":"), machine.gpu);
    describe_sim(row);
    opening.devices = devices;
    opening.sim = machine.is_simulated ? machine.sim : NULL;
    opening.slices = is_cut ? machine.slices : NULL;
    if (muster_open(&machine.m, &opening, &work_problem) != MUSTER_OK)
        stop(&bench, work_problem.text);
    machine.opened = wanted;
}

/* Whether there is a device of this name; a runtime of its own looks. */
static bool is_there(const char *id)
{
    struct muster *m;
    muster_device device;
    if (muster_open(&m, NULL, &work_problem) != MUSTER_OK)
        stop(&bench, work_problem.text);
    bool is_found = muster_device_find(m, id, &device, &work_problem) == MUSTER_OK;
    muster_close(m, NULL);
    return is_found;
}

static void find_machine(void)
{
    if (!options.devices[0])
        snprintf(options.devices, sizeof options.devices, "cpu:0,%s",
                 is_there("cuda:0") ? "cuda:0" : "sim:0");
    const char *comma = strchr(options.devices, ',');
    if (!comma)
        stop(&bench, "--devices takes two: the processors, and a device to be used beside them");
    snprintf(machine.cpu, sizeof machine.cpu, "%.*s", (int)(comma - options.devices),
             options.devices);
    snprintf(machine.gpu, sizeof machine.gpu, "%.23s", comma + 1);
    snprintf(machine.slices, sizeof machine.slices, "%s=%s", machine.gpu, options.slices);
    machine.is_simulated = strncmp(machine.gpu, "sim:", 4) == 0;
}

/* The devices of the row. False: there is one missing, and work_problem says so. */
static bool find_devices(struct measurement *row)
{
    int level = row->work.row->level[DEVICES];
    if (level != SLICES)
        snprintf(row->ids[row->device_count++], sizeof row->ids[0], "%s", machine.cpu);
    if (level == CPU_GPU)
        snprintf(row->ids[row->device_count++], sizeof row->ids[0], "%s", machine.gpu);
    int slices = 1;
    for (const char *at = options.slices; (at = strchr(at, ',')); at++)
        slices++;
    for (int i = 0; i < slices && level != CPU_GPU && row->device_count < DEVICES_MAX; i++)
        snprintf(row->ids[row->device_count++], sizeof row->ids[0], "%.20s/%d", machine.gpu, i);
    muster_device device;
    for (int i = 0; i < row->device_count; i++)
        if (muster_device_find(machine.m, row->ids[i], &device, &work_problem) != MUSTER_OK)
            return false;
    return true;
}

static void add_subset(struct measurement *row, uint32_t members)
{
    struct subset subset = { .members = members };
    size_t filled = 0;
    for (int i = 0; i < row->device_count; i++)
        if (members >> i & 1)
            filled += (size_t)snprintf(subset.devices + filled, sizeof subset.devices - filled,
                                       "%s%s", filled > 0 ? "," : "", row->ids[i]);
    row->subsets[row->subset_count++] = subset;
}

static void find_subsets(struct measurement *row)
{
    uint32_t all = (1u << row->device_count) - 1;
    for (int i = 0; i < row->device_count; i++)
        add_subset(row, 1u << i);
    for (int i = 0; i < row->device_count && row->device_count > 2; i++)
        add_subset(row, all & ~(1u << i));
    add_subset(row, all);
}

/*
 * Slices that arithmetic limits have no use for the link that they share. Simulated ones do not use the
 * processors either, as long as they look results up.
 */
static bool shares_nothing(const struct row *row)
{
    int devices = row->level[DEVICES];
    return row->level[ARITHMETIC] == HEAVY && row->level[ITEMS] == UNIFORM &&
           row->level[FORM] != MAP &&
           (devices == SLICES || (devices == CPU_SLICES && machine.is_simulated));
}

/* How long, and how many rounds. */

static double target_seconds(const struct row *row)
{
    static const double seconds[] = { [MS_8] = 0.008, [MS_40] = 0.040, [MS_250] = 0.25, [S_2] = 2 };
    return seconds[row->level[LENGTH]] * options.scale;
}

/* Heavy is more in long rows on a real GPU, since their words must fit into memory. */
static uint32_t choose_rounds(const struct row *row)
{
    static const uint32_t heavy[] = {
        [MS_8] = 1000, [MS_40] = 4000, [MS_250] = 16000, [S_2] = 32000
    };
    switch (row->level[ARITHMETIC]) {
    case NONE:
        return row->level[ITEMS] == UNEVEN ? COST_MEAN : 0;
    case SOME:
        return 64;
    default:
        return options.is_quick ? 200 : machine.is_simulated ? 4000 : heavy[row->level[LENGTH]];
    }
}

/*
 * What these devices might reach. The processors and what they feed, and devices on one link, are taken
 * to add nothing to each other; slices that arithmetic limits add up.
 */
static double rate_of(const struct measurement *row, uint32_t members)
{
    double greatest = 0, slices = 0;
    for (int i = 0; i < row->device_count; i++) {
        if (!(members >> i & 1))
            continue;
        greatest = fmax(greatest, row->rates[i]);
        slices += strcmp(row->ids[i], machine.cpu) == 0 ? 0 : row->rates[i];
    }
    return is_level(&row->work, ARITHMETIC, HEAVY) ? fmax(greatest, slices) : greatest;
}

/*
 * What the device reaches alone: jobs of growing size until one is long enough. The first warms it up,
 * and the last is run twice, since a thread that is late now would make the device look slow for good.
 */
static void calibrate(struct measurement *row, int device)
{
    struct outcome outcome;
    double enough_s = fmin(row->target_s / 2, FIRST_S / 2);
    uint64_t items = ITEMS_MIN;
    for (bool is_warm = false;; items *= is_warm ? 4 : 1, is_warm = true) {
        if (items > words.items)
            words_fill(&row->work, items);
        work_run_here(&row->work, row->ids[device], items, &outcome);
        if (is_warm && (outcome.seconds >= enough_s || items * 4 > words.capacity))
            break;
    }
    double first_s = outcome.seconds;
    work_run_here(&row->work, row->ids[device], items, &outcome);
    row->rates[device] = (double)items / fmin(first_s, outcome.seconds);
}

static void set_items(struct measurement *row, double items)
{
    const struct work *work = &row->work;
    bool is_map = is_level(work, FORM, MAP);
    items = fmax(items, ITEMS_MIN);
    if (is_map || is_level(work, FROM, ARRAY))
        items = fmin(items, (double)words.capacity);
    row->items = (uint64_t)items / BATCH * BATCH;
    words_fill(work, row->items);
    if (is_map)
        work_write_files(work, row->items);
}

static void choose_items(struct measurement *row)
{
    for (int i = 0; i < row->device_count; i++)
        calibrate(row, i);
    double rate = rate_of(row, UINT32_MAX);
    if (is_level(&row->work, FORM, MAP))
        rate = fmin(rate, is_level(&row->work, FROM, ARRAY) ? FILE_RATE : PIPE_RATE);
    set_items(row, rate * row->target_s);
}

/* Runs. */

/* The time that all items would have taken. */
static double run_subset(struct measurement *row, const struct subset *subset,
                         struct outcome *outcome)
{
    work_run(&row->work, subset->devices, subset->items, outcome);
    return outcome->seconds * (double)row->items / (double)subset->items;
}

/* So many of the items that the run takes no longer than this; a file has all of them. */
static uint64_t part_of(const struct measurement *row, const struct subset *subset, double most_s)
{
    double part = most_s * rate_of(row, subset->members) / (double)row->items;
    if (is_level(&row->work, FORM, MAP) || part >= 1)
        return row->items;
    uint64_t items = (uint64_t)(part * (double)row->items) / BATCH * BATCH;
    return items < PART_MIN ? PART_MIN : items;
}

/* The first run of each subset but the whole; the least time. */
static double run_first(struct measurement *row)
{
    struct outcome outcome;
    double greatest = 0, least = INFINITY;
    /* The command compiles the kernel of its file once, and finds it compiled from then on. */
    if (is_level(&row->work, FORM, MAP))
        work_run(&row->work, all_of(row)->devices, row->items, &outcome);
    for (int i = 0; i < row->device_count; i++)
        greatest = fmax(greatest, row->rates[i]);
    for (int i = 0; i + 1 < row->subset_count; i++) {
        struct subset *subset = &row->subsets[i];
        double rate = rate_of(row, subset->members);
        subset->is_predicted = !options.is_full && rate * PREDICTED_SLOW < greatest;
        subset->items = part_of(row, subset, FIRST_S);
        subset->first_s =
            subset->is_predicted ? (double)row->items / rate : run_subset(row, subset, &outcome);
        least = fmin(least, subset->first_s);
    }
    return least;
}

static void correct_length(struct measurement *row, double least_s)
{
    double change = row->target_s / least_s;
    change = fmin(fmax(change, 1 / LENGTH_CHANGE_MAX), LENGTH_CHANGE_MAX);
    if (change < LENGTH_OFF && change > 1 / LENGTH_OFF)
        return;
    uint64_t before = row->items;
    set_items(row, (double)before * change);
    for (int i = 0; i + 1 < row->subset_count; i++)
        row->subsets[i].first_s *= (double)row->items / (double)before;
}

static struct subset *find_next(struct measurement *row)
{
    struct subset *next = NULL;
    for (int i = 0; i + 1 < row->subset_count; i++) {
        struct subset *subset = &row->subsets[i];
        if (!subset->is_contender && (!next || subset->first_s < next->first_s))
            next = subset;
    }
    return next;
}

/* Who is run again, and how many items. */
static void choose_contenders(struct measurement *row)
{
    int most = row->target_s >= LONG_S           ? CONTENDERS_MAX_LONG
               : is_level(&row->work, FORM, MAP) ? CONTENDERS_MAX_MAP
                                                 : CONTENDERS_MAX;
    double least = find_next(row)->first_s;
    for (int taken = 0; options.is_full || taken < most; taken++) {
        struct subset *next = find_next(row);
        if (!next || (!options.is_full && next->first_s > least * NEAR))
            break;
        next->is_contender = true;
        next->items = row->items;
    }
    /* The rates alone that are to be added up are measured in the same turns. */
    for (int i = 0; i < row->device_count && row->is_apart; i++) {
        struct subset *subset = &row->subsets[i];
        if (!subset->is_contender) {
            subset->is_contender = true;
            subset->items = part_of(row, subset, row->target_s);
        }
    }
    all_of(row)->items = row->items;
    all_of(row)->is_contender = true;
}

static void count_done(struct measurement *row, const struct outcome *outcome)
{
    for (int i = 0; i < row->device_count; i++)
        for (size_t d = 0; d < outcome->device_count; d++) {
            const struct muster_job_device *device = &outcome->devices[d];
            if (strcmp(device->id, row->ids[i]) != 0)
                continue;
            row->done[i] += device->items;
            memcpy(row->shortage[i], device->shortage, sizeof device->shortage);
            row->faster_without[i] = device->faster_without;
        }
}

/*
 * In turn, each turn beginning with another subset. When the row's time is over there are only as many
 * turns as must be, unless they are short.
 */
static void take_turns(struct measurement *row, int runs, uint64_t until_ns)
{
    struct outcome outcome;
    bool is_limited = row->target_s >= SHORT_S || is_level(&row->work, FORM, MAP);
    int least = runs - bench.repetitions + REPETITIONS_MIN;
    for (row->runs = 0; row->runs < runs; row->runs++) {
        if (is_limited && row->runs >= least && clock_ns() > until_ns)
            break;
        for (int i = 0; i < row->subset_count; i++) {
            struct subset *subset = &row->subsets[(i + row->runs) % row->subset_count];
            if (!subset->is_contender)
                continue;
            subset->seconds[row->runs] = run_subset(row, subset, &outcome);
            if (subset == all_of(row))
                count_done(row, &outcome);
        }
    }
}

/* Judging. */

static struct sample sample_of(const double *values, int from, int to)
{
    double sorted[REPETITIONS_MAX];
    memcpy(sorted, values + from, (size_t)(to - from) * sizeof *values);
    return summarise(sorted, to - from);
}

static struct judgement judge(struct measurement *row, int early)
{
    struct judgement said = { .target = TARGET };
    const struct subset *all = all_of(row);
    double ratios[REPETITIONS_MAX], sums[REPETITIONS_MAX];
    said.all_s = sample_of(all->seconds, early, row->runs);
    for (int i = 0; i + 1 < row->subset_count; i++) {
        const struct subset *subset = &row->subsets[i];
        struct sample sample = sample_of(subset->seconds, early, row->runs);
        if (subset->is_contender && (!said.best || sample.median < said.best_s.median)) {
            said.best = subset;
            said.best_s = sample;
        }
    }
    for (int r = 0; r < row->runs; r++) {
        double rates = 0;
        for (int i = 0; i < row->device_count; i++)
            rates += row->is_apart || row->subsets[i].is_contender ? 1 / row->subsets[i].seconds[r]
                                                                   : 1 / row->subsets[i].first_s;
        ratios[r] = all->seconds[r] / said.best->seconds[r];
        sums[r] = 1 / (all->seconds[r] * rates);
    }
    said.ratio = sample_of(ratios, early, row->runs);
    said.sum = sample_of(sums, early, row->runs);
    bool is_short = said.all_s.median < SHORT_S;
    said.has_early = is_short && early > 0;
    if (said.has_early)
        said.early = sample_of(ratios, 0, early).least;
    /* Each process of `muster map` is a first run. */
    if (is_short && is_level(&row->work, FORM, MAP))
        said.target = TARGET_SHORT;
    if (said.ratio.least > said.target || (said.has_early && said.early > TARGET_SHORT) ||
        (row->is_apart && said.sum.greatest < SUM_TARGET))
        said.verdict = is_missed;
    else if (said.ratio.median > said.target || (row->is_apart && said.sum.median < SUM_TARGET))
        said.verdict = is_noisy;
    else
        said.verdict = is_met;
    return said;
}

/* Printing. */

static const char *length_text(double seconds, char *text, size_t room)
{
    snprintf(text, room, seconds < 0.1 ? "%.2f ms" : "%.0f ms", seconds * 1e3);
    return text;
}

static void say_shares(const struct measurement *row, char *text, size_t room)
{
    size_t filled = 0;
    uint64_t sum = 0;
    for (int i = 0; i < row->device_count; i++)
        sum += row->done[i];
    for (int i = 0; i < row->device_count; i++)
        filled += (size_t)snprintf(text + filled, room - filled, "%s%s %.1f %%", i > 0 ? ", " : "",
                                   row->ids[i], 100.0 * (double)row->done[i] / (double)sum);
}

/* Devices that did nothing or were left out, and why, as the report has it. */
static void say_left_out(const struct measurement *row, char *text, size_t room)
{
    size_t filled = 0;
    text[0] = 0;
    for (int i = 0; i < row->device_count; i++)
        if (row->faster_without[i] > 0)
            filled +=
                (size_t)snprintf(text + filled, room - filled, "%s%s: %.2f times faster without",
                                 filled > 0 ? ", " : "", row->ids[i], row->faster_without[i]);
        else if (row->done[i] == 0)
            filled +=
                (size_t)snprintf(text + filled, room - filled, "%s%s%s%s", filled > 0 ? ", " : "",
                                 row->ids[i], row->shortage[i][0] ? ": " : "", row->shortage[i]);
    for (char *at = text; (at = strpbrk(at, "\"\\"));) /* it goes into JSON as it is */
        *at = '\'';
}

static void say_others(struct measurement *row, char *text, size_t room)
{
    size_t filled = 0;
    for (int i = 0; i + 1 < row->subset_count; i++) {
        const struct subset *subset = &row->subsets[i];
        char length[32];
        filled += (size_t)snprintf(
            text + filled, room - filled, "%s%s %s%s", i > 0 ? "; " : "", subset->devices,
            subset->is_predicted && !subset->is_contender ? "about " : "",
            length_text(subset->is_contender ? sample_of(subset->seconds, 0, row->runs).median
                                             : subset->first_s,
                        length, sizeof length));
    }
}

static void print_row(struct measurement *row, int number, const struct judgement *said)
{
    char what[128], best[32], all[32], shares[256], left_out[DEVICES_MAX * 160], others[1024],
        early[32] = "";
    row_words(row->work.row, what, sizeof what);
    say_shares(row, shares, sizeof shares);
    say_left_out(row, left_out, sizeof left_out);
    say_others(row, others, sizeof others);
    if (said->has_early)
        snprintf(early, sizeof early, " (at first %.2f)", said->early);
    printf("%2d  %s  %9s  %9s  %5.3f (%.3f-%.3f)  <= %.2f  %-6s  %4.2f%s%s\n", number, what,
           length_text(said->best_s.median, best, sizeof best),
           length_text(said->all_s.median, all, sizeof all), said->ratio.median, said->ratio.least,
           said->ratio.greatest, said->target, said->verdict, said->sum.median,
           row->is_apart ? "" : "-", early);
    printf("      best %s; %s%s%s; %.1f MiB, %u rounds, %d runs\n", said->best->devices, shares,
           left_out[0] ? "; left out: " : "", left_out, (double)(row->items * WORD) / (1 << 20),
           row->work.rounds, row->runs);
    printf("      %s\n", others);
    char plain[128];
    size_t filled = 0;
    for (int f = 0; f < FACTORS; f++)
        filled += (size_t)snprintf(plain + filled, sizeof plain - filled, "%s%s", f > 0 ? ", " : "",
                                   row_word(row->work.row, (enum factor)f));
    row_begin(&bench, plain);
    row_number(&bench, "row", number);
    row_number(&bench, "items", (double)row->items);
    row_number(&bench, "rounds", row->work.rounds);
    row_number(&bench, "runs", row->runs);
    row_text(&bench, "best", said->best->devices);
    row_sample(&bench, "best_s", said->best_s);
    row_sample(&bench, "all_s", said->all_s);
    row_sample(&bench, "ratio", said->ratio);
    row_number(&bench, "target", said->target);
    if (said->has_early)
        row_number(&bench, "early_ratio", said->early);
    row_sample(&bench, "of_sum", said->sum);
    if (row->is_apart)
        row_number(&bench, "of_sum_target", SUM_TARGET);
    row_text(&bench, "shares", shares);
    row_text(&bench, "left_out", left_out);
    row_text(&bench, "subsets", others);
    row_text(&bench, "verdict", said->verdict);
    row_end(&bench);
}

/* Its verdict, or NULL: a device is missing, which is said. */
static const char *measure(int number, uint64_t until_ns)
{
    static struct measurement row;
    row = (struct measurement){ .target_s = target_seconds(&rows[number - 1]) };
    struct work *work = &row.work;
    open_machine(&rows[number - 1]);
    *work = (struct work){ .bench = &bench,
                           .row = &rows[number - 1],
                           .m = machine.m,
                           .command = machine.command,
                           .folder = machine.folder,
                           .rounds = choose_rounds(&rows[number - 1]) };
    work->sim = machine.is_simulated ? machine.sim : NULL;
    work->slices = is_level(work, DEVICES, CPU_GPU) ? NULL : machine.slices;
    if (!find_devices(&row)) {
        printf("%2d  not measured: %s\n", number, work_problem.text);
        return NULL;
    }
    row.is_apart = shares_nothing(work->row);
    work_open(work);
    find_subsets(&row);
    choose_items(&row);
    correct_length(&row, run_first(&row));
    choose_contenders(&row);
    int early = row.target_s < SHORT_S && !is_level(work, FORM, MAP) ? SHORT_RUNS : 0;
    take_turns(&row, bench.repetitions + early, until_ns);
    struct judgement said = judge(&row, early);
    print_row(&row, number, &said);
    work_close(work);
    return said.verdict;
}

/* Options. */

static bool is_wanted(int number)
{
    /* One of each form and of each set of devices. */
    if (!options.rows && options.is_quick)
        return number == 3 || number == 6 || number == 13 || number == 18;
    if (!options.rows)
        return true;
    for (const char *at = options.rows; *at;) {
        char *end;
        long first = strtol(at, &end, 10), last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        if (number >= first && number <= last)
            return true;
        at = *end == ',' ? end + 1 : end + strlen(end);
    }
    return false;
}

static bool read_option(const char *name, const char *value)
{
    if (strcmp(name, "--devices") == 0)
        snprintf(options.devices, sizeof options.devices, "%s", value);
    else if (strcmp(name, "--slices") == 0)
        options.slices = value;
    else if (strcmp(name, "--rows") == 0)
        options.rows = value;
    else if (strcmp(name, "--repetitions") == 0)
        bench.repetitions = atoi(value);
    else if (strcmp(name, "--seconds") == 0)
        options.scale = strtod(value, NULL);
    else if (strcmp(name, "--limit") == 0)
        options.limit_s = strtod(value, NULL);
    else if (strcmp(name, "--muster") == 0)
        options.muster = value;
    else if (strcmp(name, "--folder") == 0)
        options.folder = value;
    else if (strcmp(name, "--json") == 0)
        options.json = value;
    else
        return false;
    return true;
}

static bool read_options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0)
            options.is_full = true;
        else if (strcmp(argv[i], "--quick") == 0)
            options.is_quick = true;
        else if (strcmp(argv[i], "--list") == 0)
            options.is_list = true;
        else if (strcmp(argv[i], "--pairs") == 0)
            options.is_pairs = true;
        else if (i + 1 == argc || !read_option(argv[i], argv[i + 1]))
            return false;
        else
            i++;
    }
    if (options.is_quick) {
        bench.repetitions = REPETITIONS_MIN;
        options.scale = 0.1;
    }
    return options.scale > 0 && bench.repetitions >= REPETITIONS_MIN &&
           bench.repetitions <= REPETITIONS_MAX - SHORT_RUNS;
}

static int check_pairs(void)
{
    size_t pairs, fewest = 0, unused;
    size_t missing = missing_pairs(rows, ROWS, &pairs, stderr);
    /* No table of fewer rows than the two factors with the most levels have pairs can have them all. */
    for (int f = 0; f < FACTORS; f++)
        for (int g = f + 1; g < FACTORS; g++)
            if ((size_t)factors[f].count * factors[g].count > fewest)
                fewest = (size_t)factors[f].count * factors[g].count;
    bool is_noticed = missing_pairs(rows, fewest - 1, &unused, NULL) > 0;
    printf("%d rows have %zu of %zu pairs%s\n", ROWS, pairs - missing, pairs,
           is_noticed ? "" : "; the check does not notice that there are too few rows");
    return missing > 0 || !is_noticed;
}

static int list_rows(void)
{
    for (int i = 0; i < ROWS; i++) {
        char what[128];
        row_words(&rows[i], what, sizeof what);
        printf("%2d  %s\n", i + 1, what);
    }
    return 0;
}

/* Files, the command, memory. */

static void make_room(void)
{
    const char *own = options.folder;
    if (!own)
        own = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : getenv("TMPDIR");
    snprintf(machine.folder, sizeof machine.folder, "%.200s/together-XXXXXX", own ? own : "/tmp");
    if (!mkdtemp(machine.folder))
        stop(&bench, "there is no folder for files; --folder says where to make one");
    if (options.muster) {
        snprintf(machine.command, sizeof machine.command, "%s", options.muster);
    } else {
        char self[400] = "";
        if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
            stop(&bench, "this program cannot find itself; --muster says where the command is");
        *strrchr(self, '/') = 0;
        snprintf(machine.command, sizeof machine.command, "%s/../muster", self);
    }
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE),
             bytes = memory / 32;
    bytes = bytes < ARRAY_BYTES_MAX ? bytes : ARRAY_BYTES_MAX;
    words_reserve(&bench, (bytes > PERIOD * WORD ? bytes : PERIOD * WORD) / WORD);
}

static void leave(void)
{
    static const char *const names[] = { "in", "out", "together.c" };
    char path[512];
    if (!machine.folder[0])
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", machine.folder, names[i]);
        unlink(path);
    }
    rmdir(machine.folder);
}

/* About how long a row takes: its first runs, its turns, and what processes need to start. */
static double need_seconds(const struct row *row)
{
    static const int subsets[] = { [CPU_GPU] = 3, [SLICES] = 7, [CPU_SLICES] = 9 };
    double target = target_seconds(row);
    int others = target >= LONG_S ? CONTENDERS_MAX_LONG : CONTENDERS_MAX_MAP;
    if (shares_nothing(row))
        others += subsets[row->level[DEVICES]] / 2; /* the devices alone */
    int firsts = subsets[row->level[DEVICES]], turns = bench.repetitions * (1 + others);
    double start_s = row->level[FORM] == MAP ? 0.4 : 0.02;
    return firsts * (fmin(target, FIRST_S) + start_s) + turns * (target + start_s);
}

/* Of the time that is left, what a row may use. */
static uint64_t row_until_ns(int number, uint64_t end_ns)
{
    double sum = 0;
    for (int i = number; i <= ROWS; i++)
        sum += is_wanted(i) ? need_seconds(&rows[i - 1]) : 0;
    uint64_t now_ns = clock_ns();
    double left_ns = now_ns < end_ns ? (double)(end_ns - now_ns) : 0;
    return now_ns + (uint64_t)(left_ns * need_seconds(&rows[number - 1]) / sum);
}

int main(int argc, char **argv)
{
    if (!read_options(argc, argv)) {
        fprintf(
            stderr,
            "usage: together [--devices CPU,GPU] [--slices N,...] [--rows 1,5-8] [--repetitions "
            "N] [--seconds SCALE] [--limit S]\n"
            "                [--muster FILE] [--folder DIR] [--json FILE] [--full] [--quick]\n"
            "       together --list | --pairs\n");
        return 2;
    }
    if (options.is_list)
        return list_rows();
    if (options.is_pairs)
        return check_pairs();
    /* Which devices there are is this program's to say. */
    unsetenv("MUSTER_SIM");
    unsetenv("MUSTER_SLICES");
    unsetenv("MUSTER_DEVICES");
    signal(SIGPIPE, SIG_IGN);
    /* Threads inherit it: a simulated device is not to be late by 50 us whenever it has finished. */
    prctl(PR_SET_TIMERSLACK, 1000ul);
    bench_open(&bench, options.json);
    find_machine();
    make_room();
    atexit(leave);
    uint64_t begin_ns = clock_ns(), end_ns = begin_ns + (uint64_t)(options.limit_s * 1e9);
    int met = 0, noisy = 0, missed = 0;
    printf(
        "%s together, and %s in slices of %s: the time with all devices beside that of the best "
        "subset in the same turn, median (least-greatest) of %d turns\n"
        "With 5 turns least and greatest hold the true median with 94 %%. missed: the least is "
        "above "
        "the target; noisy: the median is, the least is not.\n"
        "of sum: of the sum of the rates alone; >= %.2f where devices share nothing, else marked "
        "with -. at first: the least ratio of the first two runs, <= %.2f.\n\n",
        options.devices, machine.gpu, options.slices, bench.repetitions, SUM_TARGET, TARGET_SHORT);
    printf("%-61s %10s  %9s  %-19s  target   %-6s  of sum\n", "row", "best", "all", "ratio", "");
    for (int number = 1; number <= ROWS; number++) {
        if (!is_wanted(number))
            continue;
        const char *said = measure(number, row_until_ns(number, end_ns));
        met += said == is_met;
        noisy += said == is_noisy;
        missed += said == is_missed;
    }
    printf("\n%d rows: %d met, %d noisy, %d missed; %.0f s\n", met + noisy + missed, met, noisy,
           missed, (double)(clock_ns() - begin_ns) / 1e9);
    muster_close(machine.m, NULL);
    if (met + noisy + missed == 0)
        stop(&bench, "nothing was measured");
    return bench_end(&bench);
}
