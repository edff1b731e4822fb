/*
 * muster.hpp: jobs, reductions, pipelines and tasks by lambdas, and exceptions that leave these.
 */
#include "support.hpp"

#include <atomic>
#include <memory>
#include <new>
#include <thread>

static void a_range_on_all_devices()
{
    muster::runtime m = open_for_test();
    const muster::kernel saxpy = m.load(KERNELS "/saxpy.c", "saxpy");
    const std::vector<float> x = counted(100000);
    std::vector<float> y(x.size(), 1.0f);
    muster::report told;
    muster::run_options how;
    how.unit_items = 1000;
    m.for_each(saxpy, { muster::value(2.0f), muster::in(x), muster::inout(y) }, how, &told);
    for (size_t i = 0; i < y.size(); i++)
        CHECK(y[i] == 2 * x[i] + 1);
    CHECK(told.delivered == x.size() && told.units >= 1 && told.device_count == 2);
    /* A type that is not the kernel's is refused, as in C. */
    const double a = 2;
    CHECK(m.try_for_each(saxpy, { muster::value(a), muster::in(x), muster::inout(y) }).status() ==
          MUSTER_E_INVALID);
}

static void an_ordered_map_with_a_shared_table()
{
    muster::runtime m = open_for_test();
    const muster::kernel look_up =
        m.function("look_up", [](uint64_t begin, uint64_t end, muster::kernel_args a) {
            const unsigned *in = a.array<const unsigned>(0), *table = a.array<const unsigned>(1);
            unsigned *out = a.array<unsigned>(2);
            for (uint64_t i = begin; i < end; i++) {
                if (in[i] >= 16)
                    return static_cast<muster_status>(MUSTER_E_FAILED);
                out[i] = table[in[i]];
            }
            return static_cast<muster_status>(MUSTER_OK);
        });
    std::vector<unsigned> table(16), in(2000), out(2000);
    for (unsigned i = 0; i < 16; i++)
        table[i] = i * i;
    for (unsigned i = 0; i < 2000; i++)
        in[i] = i % 16;
    in[777] = 16;
    const muster::data shared = m.share(table);
    std::vector<muster_status> each(in.size());
    CHECK_THROWS(
        muster::error,
        m.for_each_status(look_up, { muster::in(in), muster::all(shared), muster::out(out) }, each),
        CHECK(caught.status() == MUSTER_E_FAILED));
    for (size_t i = 0; i < in.size(); i++) {
        CHECK(each[i] == (i == 777 ? MUSTER_E_FAILED : MUSTER_OK));
        CHECK(i == 777 || out[i] == table[in[i]]);
    }
    in[777] = 3;
    m.for_each_status(look_up, { muster::in(in), muster::all(shared), muster::out(out) }, each);
    CHECK(out[777] == 9 && each[777] == MUSTER_OK);
}

static void a_reduction()
{
    muster::runtime m = open_for_test();
    const muster::kernel sum = m.load(KERNELS "/sum.c", "sum");
    const std::vector<float> x = counted(10000);
    const double expected = 10000.0 * 9999.0 / 2;
    CHECK(m.reduce<double>(sum, { muster::in(x) }) == expected);
    CHECK(m.reduce<double>(sum, 5, { muster::in(x) }) == 10.0);
    CHECK(m.reduce<double>(sum, 0, { muster::in(x) }) == 0.0);
    muster::result<float> tried = m.try_reduce<float>(sum, { muster::in(x) });
    CHECK(!tried && tried.status() == MUSTER_E_INVALID);
    double into = 0;
    muster::job job = m.start(muster::work(sum, { muster::in(x) }).into(into));
    job.wait();
    CHECK(into == expected);
}

static void a_source_and_a_sink()
{
    muster::runtime m = open_for_test();
    const muster::kernel linear = make_linear(m);
    const uint64_t total = 10000;
    std::vector<float> seen;
    uint64_t next = 0;
    muster::run_options how;
    how.unit_items = 128;
    /* Both own something that can only be moved. */
    auto ours = std::make_unique<uint64_t>(0);
    auto factor = std::make_unique<float>(1.0f);
    muster::job job = m.start(
        muster::work(linear, MUSTER_ITEMS_UNKNOWN,
                     { muster::supplied<float>(), muster::out_to_sink<float>() })
            .source<float>([given = std::move(ours)](uint64_t begin, muster::span<float> to) {
                CHECK(begin == *given);
                uint64_t count = 0;
                for (; count < to.size() && *given < total; count++)
                    to[count] = static_cast<float>((*given)++);
                return count;
            })
            .sink([&, by = std::move(factor)](const muster::unit_result &result) {
                CHECK(result.begin() == next && result.items() == result.output<float>().size());
                CHECK(result.supplied<float>().size() == result.items());
                CHECK(result.statuses().empty());
                next = result.end();
                for (float y : result.output<float>())
                    seen.push_back(*by * y);
            })
            .with(how));
    job.wait();
    CHECK(seen.size() == total && next == total);
    for (size_t i = 0; i < seen.size(); i++)
        CHECK(seen[i] == 2 * static_cast<float>(i) + 1);
    CHECK(job.progress().delivered == total && job.progress().is_over);
    uint64_t items = 0;
    for (const muster::job_device &device : job.devices())
        items += device.items;
    CHECK(items == total);
}

static muster::work linear_work(const muster::kernel &linear, const std::vector<float> &x,
                                std::vector<float> &y)
{
    muster::run_options how;
    how.unit_items = 64;
    return muster::work(linear, { muster::in(x), muster::out(y) }).with(how);
}

static void an_exception_of_a_sink_is_thrown_by_the_wait()
{
    muster::runtime m = open_for_test();
    const muster::kernel linear = make_linear(m);
    const std::vector<float> x = counted(4096);
    std::vector<float> y(x.size());
    muster::job job = m.start(linear_work(linear, x, y).sink([](const muster::unit_result &result) {
        if (result.begin() >= 1024)
            throw own_exception("the sink is full");
    }));
    CHECK_THROWS(own_exception, job.wait(),
                 CHECK(std::strcmp(caught.what(), "the sink is full") == 0));
    /* As a value: nothing is thrown, the status and the exception are there. */
    job = m.start(linear_work(linear, x, y).sink([](const muster::unit_result &) {
        throw muster::error(MUSTER_E_IO, "the disk is full");
    }));
    const muster::result<void> tried = job.try_wait();
    CHECK(!tried && tried.status() == MUSTER_E_IO && tried.thrown());
    CHECK_THROWS(muster::error, std::rethrow_exception(tried.thrown()),
                 CHECK(std::strcmp(caught.text(), "the disk is full") == 0));
    job = m.start(linear_work(linear, x, y).sink([](const muster::unit_result &) {
        throw std::bad_alloc();
    }));
    CHECK(job.try_wait().status() == MUSTER_E_NO_MEMORY);
    /* A status that is returned is an error of Muster's. */
    job = m.start(linear_work(linear, x, y).sink([](const muster::unit_result &) -> muster_status {
        return MUSTER_E_IO;
    }));
    CHECK_THROWS(muster::error, job.wait(), CHECK(caught.status() == MUSTER_E_IO));
}

static void an_exception_of_a_source_is_thrown_by_the_wait()
{
    muster::runtime m = open_for_test();
    const muster::kernel linear = make_linear(m);
    std::vector<float> y(1000);
    muster::job job =
        m.start(muster::work(linear, 1000, { muster::supplied<float>(), muster::out(y) })
                    .source<float>([](uint64_t, muster::span<float>) -> int64_t {
                        throw own_exception("the camera is gone");
                    }));
    CHECK_THROWS(own_exception, job.wait(),
                 CHECK(std::strcmp(caught.what(), "the camera is gone") == 0));
}

static void an_exception_of_a_kernel_is_thrown_by_the_call()
{
    muster::runtime m = open_for_test();
    const muster::kernel wrong =
        m.function("wrong", [](uint64_t begin, uint64_t end, muster::kernel_args a) {
            for (uint64_t i = begin; i < end; i++)
                if (a.array<const float>(0)[i] == 50.0f)
                    throw own_exception("50");
        });
    const std::vector<float> x = counted(100);
    CHECK_THROWS(own_exception, m.for_each(wrong, { muster::in(x) }),
                 CHECK(std::strcmp(caught.what(), "50") == 0));
    muster::task task = m.submit(wrong, { muster::in(x) });
    CHECK_THROWS(own_exception, task.wait(), CHECK(std::strcmp(caught.what(), "50") == 0));
    m.for_each(wrong, 50, { muster::in(x) });
}

static void a_job_that_goes_is_cancelled()
{
    muster::runtime m = open_for_test();
    const muster::kernel linear = make_linear(m);
    std::atomic<unsigned> calls{ 0 };
    {
        /* It never ends by itself. */
        const muster::job job =
            m.start(muster::work(linear, MUSTER_ITEMS_UNKNOWN,
                                 { muster::supplied<float>(), muster::out_to_sink<float>() })
                        .source<float>([&](uint64_t, muster::span<float> to) {
                            calls++;
                            return static_cast<int64_t>(to.size());
                        }));
        while (calls == 0)
            std::this_thread::yield();
    }
    const unsigned before = calls;
    std::this_thread::yield();
    CHECK(calls == before);
    CHECK(m.count().jobs_failed == 1);
}

static void results_can_be_kept()
{
    muster::runtime m = open_for_test();
    const muster::kernel linear = make_linear(m);
    const std::vector<float> x = counted(256);
    muster::run_options how;
    how.unit_items = 64;
    how.kept_max = 4;
    std::vector<muster::kept> kept;
    muster::job job =
        m.start(muster::work(linear, { muster::in(x), muster::out_to_sink<float>() })
                    .sink([&](const muster::unit_result &result) { kept.push_back(result.keep()); })
                    .with(how));
    job.wait();
    CHECK(!kept.empty());
    for (const muster::kept &one : kept) {
        const muster::unit_result result(one.get());
        CHECK(result.output<float>()[0] == 2 * static_cast<float>(result.begin()) + 1);
    }
    kept.clear();
}

static void tasks_one_after_the_other()
{
    muster::runtime m = open_for_test();
    std::vector<int> order;
    muster::task load = m.submit([&] { order.push_back(1); });
    muster::task solve =
        m.submit([&]() -> muster_status { return order.push_back(2), MUSTER_OK; }, { load });
    muster::task show = m.submit([&] { order.push_back(3); }, { load, solve });
    show.wait();
    CHECK((order == std::vector<int>{ 1, 2, 3 }));
    const muster::kernel linear = make_linear(m);
    const std::vector<float> x = counted(1000);
    std::vector<float> y(x.size());
    muster::task kernel = m.submit(linear, { muster::in(x), muster::out(y) }, { show });
    kernel.wait();
    CHECK(y[999] == 1999);
    m.wait_all();
}

static void an_exception_of_a_task_is_thrown_by_the_wait()
{
    muster::runtime m = open_for_test();
    muster::task first = m.submit([] { throw own_exception("no such file"); });
    muster::task second = m.submit([] {}, { first });
    CHECK_THROWS(own_exception, first.wait(),
                 CHECK(std::strcmp(caught.what(), "no such file") == 0));
    CHECK_THROWS(muster::error, second.wait(), CHECK(caught.status() == MUSTER_E_CANCELLED));
    muster::task third = m.submit([] { throw muster::error(MUSTER_E_IO, "mine"); });
    CHECK(third.try_wait().status() == MUSTER_E_IO);
    muster::task fourth = m.submit([]() -> muster_status { return MUSTER_E_PARSE; });
    CHECK_THROWS(muster::error, fourth.wait(), CHECK(caught.status() == MUSTER_E_PARSE));
}

static void what_a_task_holds_goes_when_it_has_ended()
{
    muster::runtime m = open_for_test();
    auto held = std::make_shared<int>(1);
    std::weak_ptr<int> watch = held;
    muster::task task = m.submit([held = std::move(held)] { CHECK(*held == 1); });
    task.wait();
    CHECK(watch.expired());
    /* Also of one that never ran, and the destructor waits for one that runs. */
    held = std::make_shared<int>(2);
    watch = held;
    std::atomic<bool> has_run{ false };
    {
        muster::task failing = m.submit([]() -> muster_status { return MUSTER_E_FAILED; });
        muster::task never = m.submit([held = std::move(held)] {}, { failing });
        muster::task slow = m.submit([&] { has_run = true; });
        m.submit([] {}).detach();
    }
    CHECK(has_run);
    m.close();
    CHECK(watch.expired());
}

enum { IN, D_IN, D_OUT, OUT };

static void a_pipeline_of_three_stages()
{
    constexpr size_t width = 640, height = 200;
    muster::runtime m = open_for_test();
    const muster::kernel blur = m.load(KERNELS "/blur.c", "blur");
    const muster::pipeline pipeline = m.make_pipeline(
        { muster::host_buffer("in", width), muster::device_buffer("d_in", width),
          muster::device_buffer("d_out", width), muster::host_buffer("out", width) },
        { muster::stage::copy("up", "h2d", muster::bits(IN), muster::bits(D_IN)),
          muster::stage("blur", "compute", muster::bits(D_IN), muster::bits(D_OUT), blur),
          muster::stage::copy("down", "d2h", muster::bits(D_OUT), muster::bits(OUT)) });
    CHECK(pipeline.print().find("blur") != std::string::npos);
    CHECK(pipeline.print(MUSTER_SCHEDULE_AUTO, MUSTER_PRINT_DOT).find("digraph") !=
          std::string::npos);
    std::vector<unsigned char> picture(width * height), blurred(width * height);
    for (size_t i = 0; i < picture.size(); i++)
        picture[i] = static_cast<unsigned char>(i * 7 % 251);
    muster::job job = m.start(muster::work(pipeline, height).input(picture).output(blurred));
    job.wait();
    for (size_t i = 0; i < picture.size(); i++) {
        const size_t x = i % width;
        const unsigned left = picture[x > 0 ? i - 1 : i],
                       right = picture[x + 1 < width ? i + 1 : i];
        CHECK(blurred[i] == (left + 2u * picture[i] + right) / 4u);
    }
    CHECK(m.try_pipeline({}, {}).status() == MUSTER_E_INVALID);
}

static void stages_that_are_lambdas()
{
    muster::runtime m = open_for_test();
    const muster::kernel linear = make_linear(m);
    std::atomic<bool> is_wrong{ false };
    const muster::pipeline pipeline = m.make_pipeline(
        { muster::host_buffer("in", sizeof(float)), muster::device_buffer("d_in", sizeof(float)),
          muster::device_buffer("d_out", sizeof(float)), muster::host_buffer("mid", sizeof(float)),
          muster::host_buffer("out", sizeof(float)) },
        { muster::stage::copy("up", "h2d", muster::bits(IN), muster::bits(D_IN)),
          muster::stage(
              "linear", "compute", muster::bits(D_IN), muster::bits(D_OUT),
              [&linear](muster::unit unit) {
                  unit.launch(linear, unit.items(), { MUSTER_VIEW(D_IN), MUSTER_VIEW(D_OUT) });
              })
              .launches(linear),
          muster::stage::copy("down", "d2h", muster::bits(D_OUT), muster::bits(3)),
          muster::stage("add", "host", muster::bits(3), muster::bits(4), [&](muster::unit unit) {
              if (is_wrong && unit.begin() >= 512)
                  throw own_exception("wrong units");
              const auto from = unit.host<const float>(3);
              const auto to = unit.host<float>(4);
              CHECK(from.size() == unit.items());
              for (size_t i = 0; i < from.size(); i++)
                  to[i] = from[i] + 1;
          }) });
    const std::vector<float> x = counted(2048);
    std::vector<float> y(x.size());
    muster::run_options how;
    how.unit_items = 128;
    muster::job job = m.start(muster::work(pipeline, x.size()).input(x).output(y).with(how));
    job.wait();
    for (size_t i = 0; i < y.size(); i++)
        CHECK(y[i] == 2 * x[i] + 2);
    is_wrong = true;
    job = m.start(muster::work(pipeline, x.size()).input(x).output(y).with(how));
    CHECK_THROWS(own_exception, job.wait(), CHECK(std::strcmp(caught.what(), "wrong units") == 0));
    is_wrong = false;
    job = m.start(muster::work(pipeline, x.size()).input(x).output(y).with(how));
    job.wait();
}

int main(int argc, char **argv)
{
    static const test tests[] = {
        TEST(a_range_on_all_devices),
        TEST(an_ordered_map_with_a_shared_table),
        TEST(a_reduction),
        TEST(a_source_and_a_sink),
        TEST(an_exception_of_a_sink_is_thrown_by_the_wait),
        TEST(an_exception_of_a_source_is_thrown_by_the_wait),
        TEST(an_exception_of_a_kernel_is_thrown_by_the_call),
        TEST(a_job_that_goes_is_cancelled),
        TEST(results_can_be_kept),
        TEST(tasks_one_after_the_other),
        TEST(an_exception_of_a_task_is_thrown_by_the_wait),
        TEST(what_a_task_holds_goes_when_it_has_ended),
        TEST(a_pipeline_of_three_stages),
        TEST(stages_that_are_lambdas),
    };
    return test_main(argc, argv, tests);
}
