/*
 * muster.hpp: tasks that say which data they read and write, on the host and on simulated devices,
 * beside a plain loop.
 */
#include "support.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>
#include <string>

/* The host, simulated devices, both, and devices of little memory. */
static const char *const places[][2] = {
    { "cpu", nullptr },
    { "cpu,sim", R"([{"count": 2, "items_per_s": 1e8}])" },
    { "sim", R"([{"count": 2, "items_per_s": 1e8}])" },
    { "sim", R"([{"count": 2, "items_per_s": 1e8, "memory": 65536}])" },
};

static muster::runtime open_at(const char *const (&place)[2])
{
    muster::options how;
    how.devices = place[0];
    how.sim = place[1];
    return muster::runtime(how);
}

/* A square matrix and its tiles. */
struct matrix {
    static constexpr size_t size = 64, side = 16, count = size / side;
    std::vector<double> items;
    muster::data whole;
    std::vector<muster::data> tiles;

    matrix(muster::runtime &m, std::vector<double> from)
        : items(std::move(from)), whole(m.make_data(items))
    {
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j < count; j++)
                tiles.push_back(whole.tile(i * side, side, j * side * sizeof(double),
                                           side * sizeof(double), size * sizeof(double)));
    }
    muster_data at(size_t i, size_t j) const
    {
        return tiles[i * count + j];
    }
};

static std::vector<double> random_items(unsigned seed)
{
    std::mt19937 numbers(seed);
    std::uniform_real_distribution<double> between(0, 1);
    std::vector<double> made(matrix::size * matrix::size);
    for (double &one : made)
        one = between(numbers);
    return made;
}

static void gemm(const muster::native &at)
{
    const auto a = at.tile<const double>(0), b = at.tile<const double>(1);
    const auto c = at.tile<double>(2);
    CHECK(a.rows() == matrix::side && c.columns() == matrix::side && at.count() == 3);
    for (size_t i = 0; i < c.rows(); i++)
        for (size_t j = 0; j < c.columns(); j++)
            for (size_t k = 0; k < a.columns(); k++)
                c[i][j] += a[i][k] * b[k][j];
}

static void a_product_in_tiles()
{
    for (const auto &place : places) {
        muster::runtime m = open_at(place);
        matrix a(m, random_items(1)), b(m, random_items(2)),
            c(m, std::vector<double>(matrix::size * matrix::size));
        for (size_t i = 0; i < matrix::count; i++)
            for (size_t j = 0; j < matrix::count; j++)
                for (size_t k = 0; k < matrix::count; k++)
                    m.submit({ muster::read(a.at(i, k)), muster::read(b.at(k, j)),
                               muster::update(c.at(i, j)) },
                             gemm)
                        .detach();
        const auto seen = c.whole.acquire<const double>();
        CHECK(seen.size() == c.items.size());
        for (size_t i = 0; i < matrix::size; i++)
            for (size_t j = 0; j < matrix::size; j++) {
                double sum = 0;
                for (size_t k = 0; k < matrix::size; k++)
                    sum += a.items[i * matrix::size + k] * b.items[k * matrix::size + j];
                CHECK(std::abs(seen[i * matrix::size + j] - sum) < 1e-9);
            }
        /* A tile on the host: rows as far apart as the caller's. */
        const auto tile = c.tiles[5].acquire<const double>();
        CHECK(tile.tile().rows() == matrix::side &&
              tile.tile()[1].data() == tile.data() + matrix::size);
    }
}

/* Strips of one array that is relaxed into another, with the cells around them as parts. */
struct stencil {
    static constexpr size_t each = 32, strips = 6, size = each * strips + 2;
    std::vector<double> cells[2];
    muster::data whole[2];
    std::vector<muster::data> inner[2], around[2];

    explicit stencil(muster::runtime &m, double first)
    {
        for (int a = 0; a < 2; a++) {
            for (size_t i = 0; i < size; i++)
                cells[a].push_back(first + static_cast<double>(i % 13));
            whole[a] = m.make_data(cells[a]);
            for (size_t s = 0; s < strips; s++) {
                inner[a].push_back(
                    whole[a].part((1 + s * each) * sizeof(double), each * sizeof(double)));
                around[a].push_back(
                    whole[a].part(s * each * sizeof(double), (each + 2) * sizeof(double)));
            }
        }
    }
    stencil(const stencil &) = delete;
    stencil &operator=(const stencil &) = delete;
    void two_steps(muster::runtime &m)
    {
        for (int step = 0; step < 2; step++)
            for (size_t s = 0; s < strips; s++) {
                muster::task_options how;
                how.name = "relax";
                m.submit(
                     { muster::read(around[step][s]), muster::write(inner[1 - step][s]) },
                     [](const muster::native &at) {
                         const auto from = at.array<const double>(0);
                         const auto to = at.array<double>(1);
                         for (size_t i = 0; i < to.size(); i++)
                             to[i] = 0.5 * from[i] + 0.25 * (from[i + 1] + from[i + 2]);
                     },
                     {}, how)
                    .detach();
            }
    }
    static void model_steps(std::vector<double> (&model)[2], int steps)
    {
        for (int step = 0; step < steps; step++)
            for (size_t i = 1; i + 1 < size; i++)
                model[1 - step % 2][i] = 0.5 * model[step % 2][i - 1] +
                                         0.25 * (model[step % 2][i] + model[step % 2][i + 1]);
    }
};

static void a_stencil_with_parts_and_a_sum()
{
    for (const auto &place : places) {
        muster::runtime m = open_at(place);
        stencil field(m, 1);
        std::vector<double> model[2] = { field.cells[0], field.cells[1] };
        for (int i = 0; i < 8; i++)
            field.two_steps(m);
        stencil::model_steps(model, 16);
        double total = 100, expected = 100;
        {
            muster::data sum = m.make_data(muster::span<double>(&total, 1));
            sum.reduction(0.0, [](double a, double b) { return a + b; });
            CHECK(sum.try_reduction(0.0, [](double a, double) { return a; }).status() ==
                  MUSTER_E_BUSY);
            for (const muster::data &strip : field.inner[0])
                m.submit({ muster::read(strip), muster::reduce(sum) },
                         [](const muster::native &at) {
                             for (double one : at.array<const double>(0))
                                 at.array<double>(1)[0] += one;
                         })
                    .detach();
            double least = 50;
            muster::data low = m.make_data(muster::span<double>(&least, 1));
            low.reduction(1e9, [](double a, double b) { return a < b ? a : b; });
            for (const muster::data &strip : field.inner[0])
                m.submit({ muster::read(strip), muster::reduce(low) },
                         [](const muster::native &at) {
                             double &to = at.array<double>(1)[0];
                             for (double one : at.array<const double>(0))
                                 to = one < to ? one : to;
                         })
                    .detach();
            sum.close();
            CHECK(!sum);
            low.close();
            CHECK(least == *std::min_element(model[0].begin() + 1, model[0].end() - 1));
        }
        CHECK(field.whole[1].try_close().status() == MUSTER_E_BUSY); /* its parts */
        for (size_t i = 1; i + 1 < stencil::size; i++)
            expected += model[0][i];
        CHECK(std::abs(total - expected) < 1e-9);
        const auto seen = field.whole[0].acquire<const double>();
        CHECK(std::equal(seen.begin(), seen.end(), model[0].begin()));
    }
}

static void a_graph_is_run_again_and_with_other_data()
{
    for (size_t place = 0; place < 2; place++) {
        muster::runtime m = open_at(places[place]);
        stencil field(m, 1), other(m, 5);
        std::vector<double> model[2] = { field.cells[0], field.cells[1] },
                            other_model[2] = { other.cells[0], other.cells[1] };
        std::vector<muster_graph_change> changes;
        for (int a = 0; a < 2; a++)
            for (size_t s = 0; s < stencil::strips; s++) {
                changes.push_back(muster::change(field.inner[a][s], other.inner[a][s]));
                changes.push_back(muster::change(field.around[a][s], other.around[a][s]));
            }
        {
            muster::graph graph = m.record([&] { field.two_steps(m); });
            CHECK(field.cells[1] == model[1]); /* nothing has run */
            for (int i = 0; i < 3; i++) {
                graph.run().detach();
                field.two_steps(m);
            }
            graph.run(changes).wait();
            muster::graph moved = std::move(graph);
            moved.run().wait();
        }
        stencil::model_steps(model, 14);
        stencil::model_steps(other_model, 2);
        const auto seen = field.whole[0].acquire<const double>();
        CHECK(std::equal(seen.begin(), seen.end(), model[0].begin()));
        const auto others = other.whole[0].acquire<const double>();
        CHECK(std::equal(others.begin(), others.end(), other_model[0].begin()));
    }
}

static void what_a_graph_throws_is_thrown_by_the_wait_for_its_run()
{
    muster::runtime m = open_at(places[0]);
    std::vector<int> items(4);
    const muster::data data = m.make_data(items);
    std::atomic<bool> is_wrong{ false };
    muster::task_options how;
    how.name = "halve";
    auto held = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = held;
    {
        muster::graph graph = m.record([&] {
            m.submit(
                 { muster::update(data) },
                 [&is_wrong, held = std::move(held)](const muster::native &) {
                     if (is_wrong)
                         throw own_exception("odd");
                 },
                 {}, how)
                .detach();
            m.submit({ muster::update(data) }, [&] { items[0]++; }).detach();
        });
        graph.run().wait();
        is_wrong = true;
        muster::task run = graph.run();
        const muster::result<void> ended = run.try_wait();
        CHECK(!ended && ended.thrown() && std::strstr(ended.error().text, "'halve'"));
        CHECK_THROWS(own_exception, std::rethrow_exception(ended.thrown()),
                     CHECK(std::strcmp(caught.what(), "odd") == 0));
        is_wrong = false;
        CHECK(items[0] == 1 && !watch.expired());
    }
    CHECK(watch.expired());
    CHECK_THROWS(own_exception, m.record([&]() {
        m.submit({ muster::update(data) }, [] {}).detach();
        throw own_exception("while recording");
    }),
                 CHECK(std::strcmp(caught.what(), "while recording") == 0));
    CHECK(m.try_record([] {}).status() == MUSTER_E_INVALID);
    m.submit({ muster::write(data) }, [] {}).wait(); /* not recorded any more */
}

static void kernels_are_given_accesses()
{
    for (const auto &place : places) {
        muster::runtime m = open_at(place);
        const muster::kernel saxpy = m.load(KERNELS "/saxpy.c", "saxpy");
        std::vector<float> x = counted(1000), y(1000, 1.0f);
        {
            const muster::data dx = m.make_data(x), dy = m.make_data(y);
            for (int i = 0; i < 2; i++)
                m.submit({ muster::read(dx), muster::update(dy) }, saxpy, 1000,
                         { muster::value(2.0f), muster::accessed(0), muster::accessed(1) })
                    .detach();
        }
        for (size_t i = 0; i < y.size(); i++)
            CHECK(y[i] == 4 * x[i] + 1);
    }
}

static void a_failure_names_its_task_and_cancels_what_needs_the_data()
{
    for (const auto &place : places) {
        muster::runtime m = open_at(place);
        std::vector<int> items(8), others(8);
        muster::data a = m.make_data(items), b = m.make_data(others);
        std::atomic<int> calls{ 0 };
        muster::task_options how;
        how.name = "breaks";
        muster::task bad = m.submit(
            { muster::write(a) },
            [&](const muster::native &) {
                calls++;
                throw own_exception("no");
            },
            {}, how);
        how.name = "needs";
        muster::task needs = m.submit(
            { muster::read(a), muster::write(b) },
            [](const muster::native &at) { at.array<int>(1)[0] = 1; }, {}, how);
        CHECK_THROWS(own_exception, bad.wait(), CHECK(std::strcmp(caught.what(), "no") == 0));
        CHECK(calls == 1);
        CHECK_THROWS(muster::error, needs.wait(),
                     CHECK(caught.status() == MUSTER_E_CANCELLED &&
                           std::strstr(caught.text(), "'needs'") &&
                           std::strstr(caught.text(), "'breaks'")));
        CHECK(!b.try_acquire<const int>());
        CHECK(std::strstr(b.try_acquire<int>().error().text, "'breaks'"));
        m.submit({ muster::write(a) }, [](const muster::native &at) {
             for (int &one : at.array<int>(0))
                 one = 3;
         }).wait();
        CHECK(a.acquire<const int>()[7] == 3);
        CHECK(!b.try_close() && !b);
    }
}

static void sizes_tokens_and_bodies_of_several_backends()
{
    for (const auto &place : places) {
        muster::runtime m = open_at(place);
        const muster::data size = m.make_data(64 * sizeof(int)), order = m.make_token();
        muster::data copy = m.make_data(64 * sizeof(int));
        std::vector<int> said;
        std::atomic<int> on_cpu{ 0 }, on_sim{ 0 };
        auto fill = [](const muster::native &at) {
            for (int &one : at.array<int>(0))
                one = 7;
        };
        m.submit({ muster::write(size) },
                 muster::bodies()
                     .on("cpu", [&](const muster::native &at) { on_cpu++, fill(at); })
                     .on("sim",
                         [&](const muster::native &at) -> muster_status {
                             on_sim++;
                             fill(at);
                             return std::strcmp(at.backend(), "sim") == 0 ? MUSTER_OK
                                                                          : MUSTER_E_FAILED;
                         }))
            .wait();
        CHECK(on_cpu + on_sim == 1);
        m.submit({ muster::read(size), muster::write(copy) }, [](const muster::native &at) {
             for (size_t i = 0; i < 64; i++)
                 at.array<int>(1)[i] = at.array<const int>(0)[i] + static_cast<int>(i);
         }).detach();
        for (int i = 0; i < 20; i++)
            m.submit({ muster::token(order) }, [&said, i] { said.push_back(i); }).detach();
        m.wait_all();
        const auto seen = copy.acquire<int>();
        CHECK(seen.size() == 64 && seen[63] == 70);
        CHECK(said.size() == 20 && said[19] == 19);
        CHECK(copy.try_acquire<const int>(MUSTER_READ_WRITE).status() == MUSTER_E_INVALID);
        CHECK(copy.try_acquire<int>(MUSTER_WRITE, std::chrono::milliseconds(5)).status() ==
              MUSTER_E_TIMEOUT);
        CHECK(m.try_submit({ muster::read(size) }, muster::bodies().on("cuda", fill)).status() ==
              MUSTER_E_NO_DEVICE);
        CHECK_THROWS(muster::error,
                     m.submit({ muster::read(size) },
                              [](const muster::native &at) { (void)at.array<int>(1); })
                         .wait(),
                     CHECK(caught.status() == MUSTER_E_INVALID));
    }
}

static void what_is_closed_is_stale()
{
    muster::runtime m = open_at(places[0]);
    std::vector<int> items(8);
    muster::data data = m.make_data(items);
    const muster_data old = data.get();
    m.submit({ muster::write(data) }, [] {}).wait();
    data.close();
    CHECK(m.try_submit({ muster::read(old) }, [] {}).status() == MUSTER_E_STALE);
    muster::data again = m.make_data(items);
    CHECK(!again.try_part(32, 4) && !again.try_tile(0, 2, 0, 8, 64));
    auto held = std::make_shared<int>(1);
    const std::weak_ptr<int> watch = held;
    m.submit({ muster::read(again) }, [held = std::move(held)](const muster::native &) {}).wait();
    again.close(); /* tasks with accesses have ended, and their lambdas are gone with them */
    m.wait_all();
    CHECK(watch.expired());
}

static void random_graphs_are_a_serial_run()
{
    for (const auto &place : places) {
        muster::runtime m = open_at(place);
        for (unsigned seed = 0; seed < 8; seed++) {
            std::mt19937 numbers(seed);
            std::vector<unsigned> items[3];
            std::vector<std::vector<unsigned>> model;
            std::vector<muster::data> wholes, parts;
            const size_t cuts[][2] = { { 0, 48 }, { 0, 16 }, { 16, 48 }, { 8, 24 }, { 40, 48 } };
            for (auto &one : items) {
                one.assign(48, static_cast<unsigned>(numbers()));
                model.push_back(one);
                wholes.push_back(m.make_data(one));
                for (const auto &cut : cuts)
                    parts.push_back(wholes.back().part(cut[0] * sizeof(unsigned),
                                                       (cut[1] - cut[0]) * sizeof(unsigned)));
            }
            for (unsigned t = 0; t < 60; t++) {
                const size_t a = numbers() % 3, b = (a + 1 + numbers() % 2) % 3,
                             cut_a = numbers() % 5, cut_b = numbers() % 5;
                const bool is_write = numbers() % 3 == 0;
                m.submit({ muster::read(parts[a * 5 + cut_a]),
                           is_write ? muster::write(parts[b * 5 + cut_b])
                                    : muster::update(parts[b * 5 + cut_b]) },
                         [t, is_write](const muster::native &at) {
                             unsigned sum = t;
                             for (unsigned one : at.array<const unsigned>(0))
                                 sum = sum * 31 + one;
                             for (unsigned &one : at.array<unsigned>(1))
                                 one = (is_write ? 0 : one * 3) + sum;
                         })
                    .detach();
                unsigned sum = t;
                for (size_t i = cuts[cut_a][0]; i < cuts[cut_a][1]; i++)
                    sum = sum * 31 + model[a][i];
                for (size_t i = cuts[cut_b][0]; i < cuts[cut_b][1]; i++)
                    model[b][i] = (is_write ? 0 : model[b][i] * 3) + sum;
            }
            parts.clear();
            wholes.clear();
            for (size_t n = 0; n < 3; n++)
                CHECK(items[n] == model[n]);
        }
    }
}

int main(int argc, char **argv)
{
    static const test tests[] = {
        TEST(a_product_in_tiles),
        TEST(a_stencil_with_parts_and_a_sum),
        TEST(a_graph_is_run_again_and_with_other_data),
        TEST(what_a_graph_throws_is_thrown_by_the_wait_for_its_run),
        TEST(kernels_are_given_accesses),
        TEST(a_failure_names_its_task_and_cancels_what_needs_the_data),
        TEST(sizes_tokens_and_bodies_of_several_backends),
        TEST(what_is_closed_is_stale),
        TEST(random_graphs_are_a_serial_run),
    };
    return test_main(argc, argv, tests);
}
