/*
 * muster.hpp: failures as exceptions and values, owners, views and arguments.
 */
#include "support.hpp"

#include <array>
#include <string>
#include <type_traits>

/* Owners can be moved and not copied, and neither that nor their end throws. */
template <class T>
constexpr bool is_owner =
    std::is_nothrow_move_constructible_v<T> &&std::is_nothrow_move_assignable_v<T>
        &&std::is_nothrow_destructible_v<T> && !std::is_copy_constructible_v<T> &&
    !std::is_copy_assignable_v<T>;
static_assert(is_owner<muster::runtime> && is_owner<muster::kernel> && is_owner<muster::job>);
static_assert(is_owner<muster::task> && is_owner<muster::pipeline> && is_owner<muster::data>);
static_assert(is_owner<muster::stream> && is_owner<muster::block> && is_owner<muster::lease>);
static_assert(is_owner<muster::pinned<int>> && is_owner<muster::kept>);
static_assert(std::is_nothrow_copy_constructible_v<muster::error>);

static void a_failure_is_thrown_with_text_and_fix()
{
    muster::runtime m = open_for_test();
    CHECK_THROWS(muster::error, m.load("/nonexistent/kernel.c"), {
        CHECK(caught.status() == MUSTER_E_NOT_FOUND);
        CHECK(std::strcmp(caught.name(), "MUSTER_E_NOT_FOUND") == 0);
        CHECK(std::strstr(caught.text(), "/nonexistent/kernel.c"));
        CHECK(std::strstr(caught.what(), caught.text()) == caught.what());
        CHECK(caught.discards() == MUSTER_DISCARD_REQUEST);
        CHECK(caught.driver_code() == caught.get().driver_code);
    });
    CHECK_THROWS(muster::error, m.find("cpu:77"), {
        CHECK(caught.status() == MUSTER_E_NOT_FOUND);
        CHECK(std::strstr(caught.text(), "cpu:77") || std::strstr(caught.device(), "cpu:77"));
        CHECK(caught.fix()[0] != '\0');
        CHECK(std::string(caught.what()) == std::string(caught.text()) + "\n" + caught.fix());
    });
}

static void the_same_failure_is_a_value()
{
    muster::runtime m = open_for_test();
    muster::result<muster::kernel> tried = m.try_load("/nonexistent/kernel.c");
    CHECK(!tried);
    CHECK(tried.status() == MUSTER_E_NOT_FOUND && tried.error().status == MUSTER_E_NOT_FOUND);
    CHECK(std::strstr(tried.error().text, "/nonexistent/kernel.c"));
    CHECK(tried.thrown() == nullptr);
    CHECK_THROWS(muster::error, tried.value(), CHECK(caught.status() == MUSTER_E_NOT_FOUND));
    muster::result<muster_device> found = m.try_find("cpu:0");
    CHECK(found && found.status() == MUSTER_OK);
    CHECK(std::strcmp(m.info(*found).id, "cpu:0") == 0);
    muster::options how;
    how.sim = "not JSON {";
    CHECK_THROWS(muster::error, muster::runtime(how),
                 CHECK(caught.status() == MUSTER_E_PARSE || caught.status() == MUSTER_E_NOT_FOUND));
    CHECK(!muster::runtime::try_open(how));
}

static void an_error_without_words_has_its_meaning()
{
    const muster::error plain(MUSTER_E_BUSY);
    CHECK(std::strcmp(plain.what(), muster_status_message(MUSTER_E_BUSY)) == 0);
    const muster::error full(MUSTER_E_INVALID, "asked", "help");
    CHECK(std::strcmp(full.what(), "asked\nhelp") == 0);
    /* Longer texts than there is room for are cut off, and terminated. */
    const std::string longer(1000, 'x');
    const muster::error cut(MUSTER_E_INVALID, longer.c_str(), longer.c_str());
    CHECK(std::strlen(cut.text()) == sizeof cut.get().text - 1);
    CHECK(std::strlen(cut.what()) == sizeof cut.get().text - 1 + 1 + sizeof cut.get().fix - 1);
}

static void owners_give_back_what_they_have()
{
    muster::runtime m = open_for_test();
    const muster_device device = m.find("cpu:0");
    {
        muster::stream one = m.acquire(device);
        muster::stream two = std::move(one);
        CHECK(!one && two);
        CHECK(m.load_of(device).streams_acquired == 1);
        muster::block block = two.allocate(4096);
        CHECK(m.load_of(device).memory_used >= 4096 && block.bytes() == 4096);
        two = m.acquire(device);
        CHECK(m.load_of(device).streams_acquired == 1);
        /* The block's own stream is gone by now; it is freed all the same. */
        const muster_block handle = block;
        block.reset();
        muster::sized<struct muster_block_info> info;
        CHECK(muster_block_info(m.get(), handle, &info, nullptr) == MUSTER_E_STALE);
    }
    CHECK(m.load_of(device).streams_acquired == 0);
    muster_lease picked;
    {
        muster::hints wanted;
        wanted.devices = "cpu:0";
        const muster::lease lease = m.pick(wanted);
        CHECK(lease.device().index == device.index);
        picked = lease;
    }
    CHECK(muster_lease_release(m.get(), picked, nullptr) == MUSTER_E_STALE);
    const std::vector<int> table(100, 3);
    muster_data handle;
    {
        muster::data shared = m.share(table);
        shared.invalidate();
        handle = shared;
    }
    CHECK(muster_data_invalidate(m.get(), handle, nullptr) == MUSTER_E_STALE);
    muster::pinned<double> pinned = m.allocate_pinned<double>(device, 10);
    CHECK(pinned.size() == 10 && pinned[9] == 0.0);
    muster::pinned<double> moved = std::move(pinned);
    CHECK(pinned.data() == nullptr && moved.end() - moved.begin() == 10);
    CHECK(m.try_allocate_pinned<double>(device, SIZE_MAX / 4).status() == MUSTER_E_TOO_LARGE);
    moved = {};
}

static void a_runtime_closes_once()
{
    muster::runtime m = open_for_test();
    muster::runtime other = std::move(m);
    CHECK(!m.get() && other.get());
    CHECK(other.devices().size() == 2);
    other.close();
    CHECK(!other.get());
    other = open_for_test();
    CHECK(other.count().jobs_started == 0);
}

static void a_stream_runs_a_kernel()
{
    muster::runtime m = open_for_test();
    const muster::kernel linear = make_linear(m);
    muster::stream stream = m.acquire(m.find("cpu:0"));
    const std::vector<float> x = counted(100);
    std::array<float, 100> y = {};
    const muster::block in = stream.allocate(400), out = stream.allocate(400);
    stream.copy_in(in, x);
    stream.launch(linear, 100, { muster::reads(in), muster::writes(out) });
    stream.copy_out(y, out);
    stream.wait();
    for (size_t i = 0; i < y.size(); i++)
        CHECK(y[i] == 2 * x[i] + 1);
    CHECK_THROWS(muster::error, stream.copy_out(y, out, 8),
                 CHECK(caught.status() == MUSTER_E_INVALID));
}

static void arguments_know_their_items()
{
    int plain[3] = {};
    const std::array<double, 4> fixed = {};
    std::vector<unsigned char> bytes(5);
    const muster::span<int> view(plain);
    const muster::span<const int> constant = view;
    CHECK(view.size() == 3 && constant.data() == plain && !view.empty());
    CHECK(muster::in(plain).items() == 3 && muster::in(fixed).items() == 4);
    CHECK(muster::out(bytes).items() == 5 && muster::inout(view).items() == 3);
    CHECK(muster::in(plain, 2).items() == 2 && muster::out(plain, 1).items() == 1);
    CHECK(muster::in(plain).get().element == MUSTER_ELEMENT_INT32);
    CHECK(muster::in(fixed).get().in == fixed.data() && muster::in(fixed).get().bytes == 8);
    CHECK(muster::in(plain).get().out == nullptr && muster::out(plain).get().in == nullptr);
    CHECK(muster::inout(plain).get().in == plain && muster::inout(plain).get().out == plain);
    CHECK(muster::in_halo(plain, 2, MUSTER_BORDER_CLAMP).get().halo == 2);
    CHECK(muster::in(plain).halo(1).get().border == MUSTER_BORDER_ZERO);
    CHECK(muster::grid(3, 4).items() == 12 && muster::grid(3, 4, 5).items() == 60);
    CHECK(muster::pictures(3, 4).get().kind == MUSTER_ARG_PICTURES);
    CHECK(muster::first().get().kind == MUSTER_ARG_FIRST);
    CHECK(muster::supplied<float>().halo(7).get().halo == 7);
    CHECK(muster::device_in<float>({ 1, 2 }).at(16).get().offset == 16);
    CHECK(muster::device_out<float>({ 1, 2 }).get().block.generation == 2);
    CHECK(muster::device_inout<char>({ 1, 2 }).get().bytes == 1);
    /* A small value is copied at once; a large one is borrowed. */
    int small = 7;
    const muster::arg kept = muster::value(small);
    const muster::arg copy = kept;
    small = 8;
    CHECK(*static_cast<const int *>(copy.get().in) == 7 && copy.get().bytes == sizeof(int));
    const std::array<double, 8> large = {};
    CHECK(muster::value(large).get().in == &large);
}

static void arrays_are_checked_before_a_job_starts()
{
    muster::runtime m = open_for_test();
    const muster::kernel linear = make_linear(m);
    const std::vector<float> x = counted(100);
    std::vector<float> y(99);
    CHECK_THROWS(muster::error, m.for_each(linear, { muster::in(x), muster::out(y) }), {
        CHECK(caught.status() == MUSTER_E_INVALID);
        CHECK(std::strcmp(caught.text(), "argument 1 has 99 items, argument 0 has 100") == 0);
        CHECK(caught.fix()[0] != '\0');
    });
    CHECK_THROWS(
        muster::error, m.for_each(linear, 100, { muster::in(x), muster::out(y) }),
        CHECK(std::strcmp(caught.text(), "argument 1 has 99 items, the call is for 100") == 0));
    m.for_each(linear, 99, { muster::in(x), muster::out(y) });
    CHECK(y[98] == 197);
    CHECK(m.try_for_each(linear, {}).status() == MUSTER_E_INVALID);
    const std::vector<muster::arg> many(17, muster::in(x));
    CHECK(m.try_for_each(linear, many).status() == MUSTER_E_INVALID);
    CHECK(m.try_start(muster::work(linear, many)).status() == MUSTER_E_INVALID);
    std::vector<muster_status> each(98);
    CHECK(m.try_start(muster::work(linear, 99, { muster::in(x), muster::out(y) }).each_status(each))
              .status() == MUSTER_E_INVALID);
    CHECK(m.count().jobs_started == 1);
}

int main(int argc, char **argv)
{
    static const test tests[] = {
        TEST(a_failure_is_thrown_with_text_and_fix),
        TEST(the_same_failure_is_a_value),
        TEST(an_error_without_words_has_its_meaning),
        TEST(owners_give_back_what_they_have),
        TEST(a_runtime_closes_once),
        TEST(a_stream_runs_a_kernel),
        TEST(arguments_know_their_items),
        TEST(arrays_are_checked_before_a_job_starts),
    };
    return test_main(argc, argv, tests);
}
