/*
 * The live page: what a runtime shows in it is what it tells its own callers; who looks believes nothing
 * of it; what dead processes leave goes; where it cannot be made the runtime does without.
 */
#include "jobs_support.h"

#include "base/random.h"
#include "observe/live.h"
#include "observe/live_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

int __real_posix_fallocate(int file, off_t offset, off_t bytes);
int __wrap_posix_fallocate(int file, off_t offset, off_t bytes);
int __real_flock(int file, int how);
int __wrap_flock(int file, int how);

static char runtime_folder[64], folder[96];
static int disk_error;     /* what posix_fallocate is to say */
static int sweeps_to_come; /* this many files are removed just before they are locked */
static char warned[512];   /* what the runtime logged last */

int __wrap_posix_fallocate(int file, off_t offset, off_t bytes)
{
    return disk_error ? disk_error : __real_posix_fallocate(file, offset, bytes);
}

static void each_file(void (*call)(const char *path))
{
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            call(path);
    }
    if (entries)
        closedir(entries);
}

static void remove_file(const char *path)
{
    unlink(path);
}

static int file_count;
static struct stat file_facts;

static void count_file(const char *path)
{
    file_count++;
    CHECK_EQUAL(0, stat(path, &file_facts));
}

static int count_files(void)
{
    file_count = 0;
    each_file(count_file);
    return file_count;
}

int __wrap_flock(int file, int how)
{
    if ((how & LOCK_EX) && sweeps_to_come > 0) {
        sweeps_to_come--;
        each_file(remove_file);
    }
    return __real_flock(file, how);
}

static void keep_warning(void *user, enum muster_log_level level, const char *text)
{
    (void)user;
    (void)level;
    snprintf(warned, sizeof warned, "%s", text);
}

/* A place of its own for each test, which nobody else looks at. */
static void make_place(void)
{
    snprintf(runtime_folder, sizeof runtime_folder, "/tmp/muster-test-XXXXXX");
    CHECK(mkdtemp(runtime_folder));
    snprintf(folder, sizeof folder, "%s/muster", runtime_folder);
    setenv("XDG_RUNTIME_DIR", runtime_folder, 1);
    setenv("MUSTER_LIVE", folder, 1);
    warned[0] = '\0';
}

static void remove_place(void)
{
    each_file(remove_file);
    rmdir(folder);
    unlink(folder);
    CHECK_EQUAL(0, rmdir(runtime_folder));
}

#define TWO_DEVICES "[{\"count\": 2, \"items_per_s\": 4e6}]"

static struct muster *open_two(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = TWO_DEVICES;
    options.devices = "sim";
    options.log = keep_warning;
    return open_with(options);
}

/* This process's only runtime, as others see it; its place in the look. */
static struct muster_live *look_at(size_t *at, struct muster_live_runtime *runtime)
{
    struct muster_live *live;
    MUST(muster_live_look(&live, &problem));
    *runtime = (struct muster_live_runtime){ .size = sizeof *runtime };
    for (*at = 0; muster_live_runtime(live, *at, runtime, NULL) == MUSTER_OK; (*at)++)
        if (runtime->pid == (uint64_t)getpid())
            return live;
    runtime->pid = 0;
    return live;
}

static bool is_seen(void)
{
    size_t at;
    struct muster_live_runtime runtime;
    muster_live_destroy(look_at(&at, &runtime));
    return runtime.pid != 0;
}

static muster_status nothing(void *user)
{
    (void)user;
    return MUSTER_OK;
}

static struct muster_kernel *make_kernel(struct muster *m)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = compute };
    struct muster_kernel *kernel;
    MUST(muster_kernel_from(m, "comp\033[31mute", &form, 1, &kernel, &problem));
    return kernel;
}

static void what_is_shown_is_what_is_told(void)
{
    make_place();
    struct muster *m = open_two();
    struct muster_kernel *kernel = make_kernel(m);
    struct account account;
    account_init(&account, 40000);
    struct muster_job_device told[2] = { { .size = sizeof told[0] }, { .size = sizeof told[0] } };
    struct muster_report report = { .size = sizeof report, .devices = told, .device_capacity = 2 };
    MUST(muster_for(m, kernel, account.items, account.args, 3, NULL, &report, &problem));
    struct muster_task_desc task = { .size = sizeof task, .fn = nothing };
    for (int i = 0; i < 500; i++)
        MUST(muster_submit(m, &task, 1, NULL, &problem));
    MUST(muster_wait(m, NULL, 0, UINT64_MAX, &problem));

    struct muster_counters counters = { .size = sizeof counters };
    MUST(muster_counters(m, &counters, &problem));
    size_t at;
    struct muster_live_runtime runtime;
    struct muster_live *live = look_at(&at, &runtime);
    CHECK_EQUAL((uint64_t)getpid(), runtime.pid);
    CHECK(strcmp(runtime.version, MUSTER_VERSION_STRING) == 0);
    CHECK(strcmp(runtime.program, "unit_live") == 0);
    CHECK_EQUAL(2, runtime.devices);
    CHECK_EQUAL(1, runtime.jobs);
    CHECK_EQUAL(1, runtime.jobs_started);
    CHECK_EQUAL(1, runtime.jobs_done);
    CHECK_EQUAL(counters.units_started, runtime.units_started);
    CHECK_EQUAL(counters.units_done, runtime.units_done);
    CHECK_EQUAL(counters.units_late, runtime.units_late);
    CHECK_EQUAL(counters.items_delivered, runtime.items_delivered);
    CHECK_EQUAL(500, runtime.tasks_submitted);
    CHECK_EQUAL(500, runtime.tasks_ended);

    struct muster_live_job job = { .size = sizeof job };
    MUST(muster_live_job(live, at, 0, &job, &problem));
    CHECK(strcmp(job.name, "comp?[31mute") == 0);
    CHECK_EQUAL(MUSTER_LIVE_DONE, job.state);
    CHECK_EQUAL(account.items, job.items);
    CHECK_EQUAL(account.items, job.delivered);
    CHECK_EQUAL(report.units, job.units);
    CHECK_EQUAL(report.makespan_ns, job.makespan_ns);
    CHECK_EQUAL(report.makespan_ns, job.elapsed_ns);
    CHECK_EQUAL(report.bound_ns, job.bound_ns);
    CHECK_EQUAL(report.tail_ns, job.tail_ns);
    CHECK_EQUAL(0, job.running);
    CHECK_EQUAL(2, job.lanes);
    for (size_t i = 0; i < 2; i++) {
        struct muster_live_lane lane = { .size = sizeof lane };
        struct muster_live_device device = { .size = sizeof device };
        MUST(muster_live_lane(live, at, 0, i, &lane, &problem));
        CHECK(strcmp(lane.device, told[i].id) == 0);
        CHECK_EQUAL(told[i].items, lane.items);
        CHECK_EQUAL(told[i].units, lane.units);
        CHECK_EQUAL(told[i].busy_ns, lane.busy_ns);
        MUST(muster_live_device(live, at, i, &device, &problem));
        struct muster_device_load load = load_of(m, find(m, told[i].id));
        CHECK_EQUAL(load.completed, device.completed);
        CHECK_EQUAL(load.dispatched, device.dispatched);
        CHECK_EQUAL(0, device.queue_depth);
        CHECK((device.busy_ns > 0) == (device.dispatched > 0));
        CHECK(device.busy_ns <= SECOND * 3600);
    }
    struct muster_live_lane none = { .size = sizeof none };
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_live_lane(live, at, 0, 2, &none, &problem));
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_live_lane(live, at, 1, 0, &none, &problem));
    muster_live_destroy(live);
    account_deinit(&account);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
    CHECK(!is_seen());
    CHECK_EQUAL(0, count_files());
    remove_place();
}

/* True: it was seen with both lanes while its devices had work. */
static bool is_seen_at_work(void)
{
    make_place();
    struct muster *m = open_two();
    struct muster_kernel *kernel = make_kernel(m);
    struct account account;
    account_init(&account, 2000000);
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = kernel,
                                    .items = account.items,
                                    .args = account.args,
                                    .arg_count = 3 };
    struct muster_job *job;
    MUST(muster_start(m, &desc, &job, &problem));
    uint64_t delivered = 0, busy_ns = 0;
    bool has_worked = false;
    struct muster_live_job seen = { .size = sizeof seen };
    do {
        size_t at;
        struct muster_live_runtime runtime;
        struct muster_live *live = look_at(&at, &runtime);
        struct muster_live_device device = { .size = sizeof device };
        MUST(muster_live_job(live, at, 0, &seen, &problem));
        MUST(muster_live_device(live, at, 0, &device, &problem));
        /* Nothing ever goes back. */
        CHECK(seen.delivered >= delivered && device.busy_ns >= busy_ns);
        CHECK(seen.delivered <= account.items);
        delivered = seen.delivered;
        busy_ns = device.busy_ns;
        has_worked = has_worked || (seen.running > 0 && device.queue_depth > 0 && seen.lanes == 2);
        muster_live_destroy(live);
    } while (seen.state == MUSTER_LIVE_RUNNING);
    CHECK_EQUAL(MUSTER_LIVE_DONE, seen.state);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    account_deinit(&account);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
    remove_place();
    return has_worked;
}

/* On a busy machine a whole job can pass between two looks. */
static void a_running_job_is_seen_at_work(void)
{
    bool has_been = false;
    for (int again = 0; again < 20 && !has_been; again++)
        has_been = is_seen_at_work();
    CHECK(has_been);
}

static void a_lost_device_is_seen(void)
{
    make_place();
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim =
        "[{\"items_per_s\": 4e6}, {\"items_per_s\": 4e6, \"faults\": [{\"kind\": \"lost\","
        " \"at_launch\": 3}]}]";
    options.devices = "sim";
    struct muster *m = open_with(options);
    struct muster_kernel *kernel = make_kernel(m);
    struct account account;
    account_init(&account, 400000);
    size_t at;
    struct muster_live_runtime runtime;
    struct muster_live *live = NULL;
    /* On a busy machine the first device may do all before the second comes to its third launch. */
    for (int again = 0; again < 20 && (!live || runtime.devices_lost == 0); again++) {
        muster_live_destroy(live);
        MUST(muster_for(m, kernel, account.items, account.args, 3, NULL, NULL, &problem));
        live = look_at(&at, &runtime);
    }
    struct muster_live_device device = { .size = sizeof device };
    struct muster_live_lane lane = { .size = sizeof lane };
    CHECK_EQUAL(1, runtime.devices_lost);
    MUST(muster_live_device(live, at, 1, &device, &problem));
    CHECK_EQUAL(MUSTER_HEALTH_LOST, device.health);
    MUST(muster_live_lane(live, at, 0, 1, &lane, &problem));
    CHECK_EQUAL(MUSTER_HEALTH_LOST, lane.health);
    MUST(muster_live_lane(live, at, 0, 0, &lane, &problem));
    CHECK_EQUAL(MUSTER_HEALTH_OK, lane.health);
    muster_live_destroy(live);
    account_deinit(&account);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
    remove_place();
}

static void a_device_that_hangs_is_seen_and_a_runtime_that_is_abandoned_is_not(void)
{
    make_place();
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim =
        "[{\"items_per_s\": 4e6}, {\"items_per_s\": 4e6, \"faults\": [{\"kind\": \"hang\","
        " \"at_launch\": 3}]}]";
    options.devices = "sim";
    options.close_ns = 50 * MS;
    options.log = keep_warning;
    struct muster *m = open_with(options);
    struct muster_kernel *kernel = make_kernel(m);
    static struct account account; /* its arrays stay: the device may still use them */
    account_init(&account, 400000);
    /* All is delivered, though not by the one that hangs. */
    struct muster_run_options how = { .size = sizeof how, .timeout_ns = test_patience(50 * MS) };
    size_t at;
    struct muster_live_runtime runtime;
    struct muster_live *live = NULL;
    struct muster_live_device device = { .size = sizeof device };
    struct muster_live_job job = { .size = sizeof job };
    /* On a busy machine the first device may do all before the second comes to its third launch. */
    for (int again = 0; again < 20 && !device.is_hung; again++) {
        muster_live_destroy(live);
        muster_status status =
            muster_for(m, kernel, account.items, account.args, 3, &how, NULL, &problem);
        CHECK(status == MUSTER_OK || status == MUSTER_E_DEVICE_HUNG);
        live = look_at(&at, &runtime);
        MUST(muster_live_device(live, at, 1, &device, &problem));
    }
    CHECK_EQUAL(1, device.is_hung);
    CHECK_EQUAL(MUSTER_HEALTH_SUSPECT, device.health);
    MUST(muster_live_device(live, at, 0, &device, &problem));
    CHECK_EQUAL(0, device.is_hung);
    MUST(muster_live_job(live, at, 0, &job, &problem));
    CHECK_EQUAL(account.items, job.delivered);
    CHECK(job.state != MUSTER_LIVE_RUNNING);
    CHECK_EQUAL(0, runtime.devices_lost);
    muster_live_destroy(live);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
    CHECK(!is_seen());
    CHECK_EQUAL(0, count_files());
    remove_place();
}

static void it_can_be_turned_off(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    make_place();
    options.no_live = 1;
    struct muster *m = open_with(options);
    CHECK(!is_seen());
    CHECK_EQUAL(0, count_files());
    MUST(muster_close(m, &problem));
    static const char *const words[] = { "0", "no", "off" };
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        setenv("MUSTER_LIVE", words[i], 1);
        m = open_two();
        CHECK(!is_seen());
        MUST(muster_close(m, &problem));
    }
    setenv("MUSTER_LIVE", "1", 1);
    m = open_two();
    CHECK(is_seen());
    MUST(muster_close(m, &problem));
    remove_place();
}

/* Other processes may be in the usual places; this one is found there all the same. */
static void it_lies_in_the_users_runtime_folder_or_else_in_tmp(void)
{
    char usual[64], long_path[2000] = "/";
    make_place();
    unsetenv("MUSTER_LIVE");
    struct muster *m = open_two();
    CHECK_EQUAL(1, count_files());
    CHECK(is_seen());
    /* From a session that has another runtime folder, or none. */
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    CHECK(!is_seen());
    MUST(muster_close(m, &problem));
    m = open_two();
    setenv("XDG_RUNTIME_DIR", runtime_folder, 1);
    CHECK_EQUAL(0, count_files());
    CHECK(is_seen());
    MUST(muster_close(m, &problem));
    /* One that others may write to is nobody's place. */
    CHECK_EQUAL(0, chmod(runtime_folder, 0777));
    m = open_two();
    CHECK_EQUAL(0, count_files());
    CHECK(is_seen());
    snprintf(usual, sizeof usual, "/tmp/muster-%u", (unsigned)geteuid());
    CHECK_EQUAL(0, access(usual, F_OK));
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, chmod(runtime_folder, 0700));
    memset(long_path + 1, 'x', sizeof long_path - 2);
    setenv("MUSTER_LIVE", long_path, 1);
    m = open_two();
    CHECK(strstr(warned, "too long"));
    CHECK(!is_seen());
    MUST(muster_close(m, &problem));
    remove_place();
}

static void only_the_user_may_read_it(void)
{
    struct stat facts;
    make_place();
    mode_t before = umask(0);
    struct muster *m = open_two();
    umask(before);
    CHECK_EQUAL(0, stat(folder, &facts));
    CHECK_EQUAL(0700, facts.st_mode & 07777);
    CHECK_EQUAL(1, count_files());
    CHECK_EQUAL(0600, file_facts.st_mode & 07777);
    CHECK_EQUAL(sizeof(struct live_page), (size_t)file_facts.st_size);
    /* All of it has its place on the disk. */
    CHECK(file_facts.st_blocks * 512 >= file_facts.st_size);
    MUST(muster_close(m, &problem));
    remove_place();
}

/* The runtime opens, says why nobody sees it, and leaves what it found alone. */
static void open_unseen(const char *words)
{
    warned[0] = '\0';
    struct muster *m = open_two();
    if (!strstr(warned, words))
        test_fail(__FILE__, __LINE__, "\"%s\" is not in \"%s\"", words, warned);
    CHECK(!is_seen());
    MUST(muster_close(m, &problem));
}

static void a_folder_that_is_not_private_is_refused(void)
{
    struct muster_live_info info = { .size = sizeof info };
    struct muster_live *live;
    char other[96];
    make_place();
    CHECK_EQUAL(0, mkdir(folder, 0700));
    CHECK_EQUAL(0, chmod(folder, 0750));
    open_unseen("other users may enter it");
    MUST(muster_live_look(&live, &problem));
    MUST(muster_live_info(live, &info, &problem));
    CHECK_EQUAL(1, info.refused);
    CHECK(strstr(info.why, "other users may enter it"));
    muster_live_destroy(live);
    CHECK_EQUAL(0, rmdir(folder));
    /* A link to a folder that is in order. */
    snprintf(other, sizeof other, "%s/other", runtime_folder);
    CHECK_EQUAL(0, mkdir(other, 0700));
    CHECK_EQUAL(0, symlink(other, folder));
    open_unseen("cannot use the folder");
    CHECK_EQUAL(0, unlink(folder));
    if (geteuid() == 0) {
        CHECK_EQUAL(0, mkdir(folder, 0700));
        CHECK_EQUAL(0, chown(folder, 65534, 65534));
        open_unseen("it belongs to another user");
        CHECK_EQUAL(0, rmdir(folder));
    }
    CHECK_EQUAL(0, rmdir(other));
    /* A file in its place. */
    close(open(folder, O_CREAT | O_WRONLY, 0600));
    open_unseen("cannot use the folder");
    remove_place();
}

static void a_full_disk_is_no_signal(void)
{
    make_place();
    disk_error = ENOSPC;
    open_unseen("No space left on device");
    disk_error = 0;
    CHECK_EQUAL(0, count_files());
    remove_place();
}

static void what_is_swept_before_it_is_locked_is_made_again(void)
{
    make_place();
    sweeps_to_come = 3;
    struct muster *m = open_two();
    CHECK_EQUAL(0, sweeps_to_come);
    CHECK(is_seen());
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, count_files());
    remove_place();
}

static void put_file(const char *name, const void *bytes, size_t size, int *file)
{
    char path[160];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    *file = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    CHECK(*file >= 0);
    CHECK_EQUAL((ssize_t)size, write(*file, bytes, size));
}

static void who_looks_sweeps_what_nobody_holds(void)
{
    struct muster_live_info info = { .size = sizeof info };
    struct muster_live *live;
    int dead, held, foreign, open_to_all;
    make_place();
    CHECK_EQUAL(0, mkdir(folder, 0700));
    put_file("4000000-1", "x", 1, &dead);
    put_file("4000000-2", "rubbish, and held", 17, &held);
    CHECK_EQUAL(0, flock(held, LOCK_EX | LOCK_NB));
    put_file("notes.txt", "x", 1, &foreign);
    put_file("4000000-3", "x", 1, &open_to_all);
    CHECK_EQUAL(0, fchmod(open_to_all, 0644));
    MUST(muster_live_look(&live, &problem));
    MUST(muster_live_info(live, &info, &problem));
    CHECK_EQUAL(0, info.runtimes);
    CHECK_EQUAL(1, info.swept);
    CHECK_EQUAL(2, info.refused);
    CHECK_EQUAL(3, count_files());
    muster_live_destroy(live);
    /* One who opens sweeps too. */
    close(held);
    struct muster *m = open_two();
    CHECK_EQUAL(3, count_files());
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(2, count_files());
    close(dead);
    close(foreign);
    close(open_to_all);
    remove_place();
}

static void a_killed_process_is_gone_though_its_child_lives(void)
{
    int ready[2], end[2];
    char byte;
    make_place();
    CHECK_EQUAL(0, pipe(ready));
    CHECK_EQUAL(0, pipe(end));
    pid_t parent = fork();
    if (parent == 0) {
        struct muster *m;
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.devices = "cpu";
        if (muster_open(&m, &options, NULL) != MUSTER_OK)
            _exit(1);
        close(end[1]);
        if (fork() == 0) {
            /* Stays when its parent is dead, but not for ever. */
            alarm(300);
            (void)!write(ready[1], "x", 1);
            (void)!read(end[0], &byte, 1);
            _exit(0);
        }
        alarm(300);
        pause();
        _exit(0);
    }
    CHECK_EQUAL(1, read(ready[0], &byte, 1));
    CHECK_EQUAL(1, count_files());
    struct muster_live *live;
    struct muster_live_info info = { .size = sizeof info };
    MUST(muster_live_look(&live, &problem));
    MUST(muster_live_info(live, &info, &problem));
    CHECK_EQUAL(1, info.runtimes);
    CHECK_EQUAL(0, info.swept);
    muster_live_destroy(live);
    kill(parent, SIGKILL);
    CHECK_EQUAL(parent, waitpid(parent, NULL, 0));
    MUST(muster_live_look(&live, &problem));
    MUST(muster_live_info(live, &info, &problem));
    CHECK_EQUAL(0, info.runtimes);
    CHECK_EQUAL(1, info.swept);
    CHECK_EQUAL(0, count_files());
    muster_live_destroy(live);
    close(end[1]);
    close(end[0]);
    close(ready[0]);
    close(ready[1]);
    remove_place();
}

static void a_child_does_not_take_the_page_along(void)
{
    make_place();
    struct muster *m = open_two();
    pid_t child = fork();
    if (child == 0) {
        struct muster_counters counters = { .size = sizeof counters };
        bool is_refused = muster_counters(m, &counters, NULL) == MUSTER_E_FORKED &&
                          muster_close(m, NULL) == MUSTER_E_FORKED;
        _exit(is_refused ? 0 : 1);
    }
    int status;
    CHECK_EQUAL(child, waitpid(child, &status, 0));
    CHECK_EQUAL(0, status);
    CHECK(is_seen());
    MUST(muster_close(m, &problem));
    remove_place();
}

static void places_go_to_the_job_that_is_over_longest(void)
{
    static struct live live;
    live = (struct live){ .page = NULL };
    for (uint32_t i = 0; i < LIVE_JOBS; i++)
        CHECK_EQUAL(i, live_take_place(&live));
    CHECK_EQUAL(LIVE_JOBS, live_take_place(&live));
    CHECK_EQUAL(1, live.jobs_unseen);
    live_leave_place(&live, LIVE_JOBS, 5);
    CHECK_EQUAL(0, live.jobs_unseen);
    live_leave_place(&live, 7, 20);
    live_leave_place(&live, 3, 10);
    CHECK_EQUAL(3, live_take_place(&live));
    live_leave_place(&live, 3, 30);
    CHECK_EQUAL(7, live_take_place(&live));
    CHECK_EQUAL(3, live_take_place(&live));
    CHECK_EQUAL(LIVE_JOBS, live_take_place(&live));
}

/* Pages that are made up. */

static bool read_memory(void *user, uint64_t offset, void *to, size_t bytes)
{
    if (offset > sizeof(struct live_page) || bytes > sizeof(struct live_page) - offset)
        return false;
    memcpy(to, (const char *)user + offset, bytes);
    return true;
}

static struct live_page page; /* all zeros before each test that uses it */
static struct seen_runtime seen;

static void make_page(void)
{
    memset((void *)&page, 0, sizeof page);
    page.magic = LIVE_MAGIC;
    page.facts = (struct live_facts){ .layout = LIVE_LAYOUT, .bytes = sizeof page, .pid = 42 };
    page.totals.devices = 2;
    struct live_device device = { .id = "sim:0", .health = 0, .items_per_s = 5 };
    live_put(page.devices[0].words, &device, LIVE_WORDS(live_device));
    live_put(page.devices[1].words, &device, LIVE_WORDS(live_device));
    struct live_job job = {
        .number = 3, .items = 10, .delivered = 5, .lanes = 2, .started_ns = 100
    };
    live_put(page.jobs[4].words, &job, LIVE_WORDS(live_job));
    struct live_lane lane = { .job = 3, .device = "sim:0", .items = 5 };
    live_put(page.jobs[4].lanes[0].words, &lane, LIVE_WORDS(live_lane));
    live_put(page.jobs[4].lanes[1].words, &lane, LIVE_WORDS(live_lane));
}

static const char *read_page(uint64_t bytes)
{
    const struct live_source source = { read_memory, (void *)&page, bytes };
    memset(&seen, 0, sizeof seen);
    return live_read(&source, 1000, &seen);
}

static void only_pages_of_this_layout_are_read(void)
{
    make_page();
    CHECK(read_page(sizeof page) == NULL);
    CHECK_EQUAL(42, seen.figures.pid);
    CHECK_EQUAL(2, seen.figures.devices);
    CHECK_EQUAL(1, seen.figures.jobs);
    CHECK_EQUAL(2, seen.jobs[0].lanes);
    CHECK_EQUAL(900, seen.jobs[0].elapsed_ns);
    /* One that is being made is nothing wrong. */
    page.magic = 0;
    CHECK(strcmp(read_page(sizeof page), "") == 0);
    CHECK(strcmp(read_page(0), "") == 0);
    page.magic = LIVE_MAGIC + 1;
    CHECK(strstr(read_page(sizeof page), "no page"));
    page.magic = LIVE_MAGIC;
    page.facts.layout++;
    CHECK(strstr(read_page(sizeof page), "layout"));
    page.facts.layout--;
    page.facts.bytes--;
    CHECK(strstr(read_page(sizeof page), "size"));
    page.facts.bytes++;
    CHECK(strstr(read_page(sizeof page - 1), "size"));
}

static void records_that_are_being_written_are_not_read(void)
{
    make_page();
    page.devices[0].words[0]++;
    CHECK(read_page(sizeof page) == NULL);
    CHECK_EQUAL(1, seen.figures.devices);
    make_page();
    page.jobs[4].words[0]++;
    CHECK(read_page(sizeof page) == NULL);
    CHECK_EQUAL(0, seen.figures.jobs);
    /* A lane that is another job's by now. */
    make_page();
    struct live_lane lane = { .job = 9 };
    live_put(page.jobs[4].lanes[1].words, &lane, LIVE_WORDS(live_lane));
    CHECK(read_page(sizeof page) == NULL);
    CHECK_EQUAL(1, seen.jobs[0].lanes);
}

static void what_cannot_be_is_made_into_what_can(void)
{
    make_page();
    struct live_device device = { .health = 77,
                                  .items_per_s = -1,
                                  .bytes_per_s = 0.0 / 0.0,
                                  .busy_ns = UINT64_MAX,
                                  .busy_since_ns = 1,
                                  .utilisation = 1.0 / 0.0,
                                  .temperature_c = -1e9 };
    memset(device.id, 'x', sizeof device.id);
    memcpy(device.name, "a\033[2Jb\x9b\xc2\x9b\xe2\x80\xae\xc3\xa9", 15);
    live_put(page.devices[0].words, &device, LIVE_WORDS(live_device));
    struct live_job job = { .number = 3,
                            .items = 10,
                            .delivered = 50,
                            .state = 99,
                            .status = -5000,
                            .lanes = UINT64_MAX,
                            .started_ns = 5000 };
    live_put(page.jobs[4].words, &job, LIVE_WORDS(live_job));
    page.totals.devices = UINT64_MAX;
    page.tasks.submitted = 3;
    page.tasks.ended = 4;
    CHECK(read_page(sizeof page) == NULL);
    const struct muster_live_device *found = &seen.devices[0];
    CHECK_EQUAL(2, seen.figures.devices);
    CHECK_EQUAL(3, seen.figures.tasks_ended);
    CHECK_EQUAL(23, strlen(found->id));
    CHECK(strcmp(found->name, "a?[2Jb?????\xc3\xa9") == 0 ||
          strcmp(found->name, "a?[2Jb??????\xc3\xa9") == 0);
    CHECK_EQUAL(MUSTER_HEALTH_SUSPECT, found->health);
    CHECK(found->items_per_s == 0 && found->bytes_per_s == 0);
    CHECK(found->utilisation == -1 && found->temperature_c == -300);
    CHECK_EQUAL(UINT64_MAX, found->busy_ns);
    CHECK_EQUAL(10, seen.jobs[0].delivered);
    CHECK_EQUAL(MUSTER_LIVE_FAILED, seen.jobs[0].state);
    CHECK_EQUAL(MUSTER_E_INTERNAL, seen.jobs[0].status);
    CHECK_EQUAL(0, seen.jobs[0].elapsed_ns);
    CHECK_EQUAL(2, seen.jobs[0].lanes);
}

/* A writer that never rests: each record has the same number in all its words. */
static _Atomic bool must_stop;
static struct live_page *shared;

static void *write_records(void *argument)
{
    (void)argument;
    for (uint64_t i = 1; !atomic_load(&must_stop); i++) {
        struct live_lane lane = { .job = 1,
                                  .health = 0,
                                  .items = i,
                                  .units = i,
                                  .retries = i,
                                  .late = i,
                                  .running = i,
                                  .busy_ns = i };
        live_put(shared->jobs[0].lanes[0].words, &lane, LIVE_WORDS(live_lane));
    }
    return NULL;
}

static bool read_file(void *user, uint64_t offset, void *to, size_t bytes)
{
    return platform_live_read(*(int *)user, offset, to, bytes);
}

static void records_are_read_whole_or_not_at_all(void)
{
    struct live live;
    pthread_t writer;
    uint64_t whole = 0, last = 0;
    make_place();
    MUST(live_open(&live, 1, &problem));
    shared = live.page;
    struct live_job job = { .number = 1, .lanes = 1 };
    live_put(shared->jobs[0].words, &job, LIVE_WORDS(live_job));
    atomic_store(&must_stop, false);
    CHECK_EQUAL(0, pthread_create(&writer, NULL, write_records, NULL));
    const struct live_source source = { read_file, &live.file.file, sizeof page };
    const unsigned least = test_repetitions(2000);
    while (whole < least) {
        CHECK(live_read(&source, 10, &seen) == NULL);
        if (seen.jobs[0].lanes == 0)
            continue;
        const struct muster_live_lane *lane = &seen.lanes[0][0];
        CHECK(lane->items >= last);
        CHECK(lane->items == lane->units && lane->items == lane->retries &&
              lane->items == lane->late && lane->items == lane->running &&
              lane->items == lane->busy_ns);
        last = lane->items;
        whole++;
    }
    atomic_store(&must_stop, true);
    pthread_join(writer, NULL);
    live_close(&live);
    remove_place();
}

/*
 * Spans whose ends are shown late, and readers in between: what they count never goes back, and is ahead
 * of the device by no more than the longest delay, however many spans there are.
 */
static void busy_time_never_goes_back(void)
{
    const uint64_t delay_max = 50;
    struct random random;
    random_init(&random, test_seed());
    struct live_busy shown = { 0 };
    uint64_t now = 1, busy = 0, counted = 0;
    for (unsigned span = 0; span < test_repetitions(20000); span++) {
        uint64_t begin = now += 1 + random_next(&random) % 100;
        now += random_next(&random) % delay_max;
        live_busy_show(&shown, busy, begin, now);
        for (unsigned look = 0; look < 3; look++) {
            uint64_t read = shown.busy_ns + (now > shown.since_ns ? now - shown.since_ns : 0);
            CHECK(read >= counted && read <= busy + (now - begin) + delay_max);
            counted = read;
            now += random_next(&random) % 100;
            /* Something else of the device has changed. */
            live_busy_show(&shown, busy, begin, now);
        }
        /* It ended some time ago, and readers counted on until now. */
        uint64_t read = shown.busy_ns + (now > shown.since_ns ? now - shown.since_ns : 0);
        uint64_t late = random_next(&random) % delay_max;
        busy += now - begin > late ? now - begin - late : 0;
        live_busy_show(&shown, busy, 0, now);
        CHECK(shown.busy_ns >= read && shown.busy_ns >= busy && shown.busy_ns <= busy + delay_max);
        counted = shown.busy_ns;
    }
}

static void any_page_can_be_read(void)
{
    struct random random;
    random_init(&random, test_seed());
    for (unsigned round = 0; round < test_repetitions(2000); round++) {
        make_page();
        for (uint64_t i = random_next(&random) % 200; i > 0; i--) {
            /* Where numbers stand, and anywhere. */
            uint64_t at =
                random_next(&random) %
                (random_next(&random) % 2 ? sizeof page : offsetof(struct live_page, devices[3]));
            uint64_t value = random_next(&random);
            memcpy((char *)&page + at, &value,
                   random_next(&random) % 2 && at + 8 <= sizeof page ? 8 : 1);
        }
        page.magic = LIVE_MAGIC;
        page.facts.layout = LIVE_LAYOUT;
        page.facts.bytes = sizeof page;
        CHECK(read_page(sizeof page) == NULL);
        CHECK(seen.figures.devices <= LIVE_DEVICES && seen.figures.jobs <= LIVE_JOBS);
        for (size_t i = 0; i < seen.figures.jobs; i++)
            CHECK(seen.jobs[i].lanes <= LIVE_LANES && memchr(seen.jobs[i].name, 0, 64) &&
                  (i == 0 || seen.jobs[i].number >= seen.jobs[i - 1].number));
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_is_shown_is_what_is_told),
        TEST(a_running_job_is_seen_at_work),
        TEST(a_lost_device_is_seen),
        TEST(a_device_that_hangs_is_seen_and_a_runtime_that_is_abandoned_is_not),
        TEST(it_can_be_turned_off),
        TEST(it_lies_in_the_users_runtime_folder_or_else_in_tmp),
        TEST(only_the_user_may_read_it),
        TEST(a_folder_that_is_not_private_is_refused),
        TEST(a_full_disk_is_no_signal),
        TEST(what_is_swept_before_it_is_locked_is_made_again),
        TEST(who_looks_sweeps_what_nobody_holds),
        TEST(a_killed_process_is_gone_though_its_child_lives),
        TEST(a_child_does_not_take_the_page_along),
        TEST(places_go_to_the_job_that_is_over_longest),
        TEST(only_pages_of_this_layout_are_read),
        TEST(records_that_are_being_written_are_not_read),
        TEST(what_cannot_be_is_made_into_what_can),
        TEST(records_are_read_whole_or_not_at_all),
        TEST(busy_time_never_goes_back),
        TEST(any_page_can_be_read),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
