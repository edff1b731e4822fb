/*
 * A Cholesky factorization in tiles, as 19_cholesky.c, in C++: tasks say which tiles they read and
 * update, and nothing else says what goes after what. The tiles are written in plain loops here.
 */
#include <cmath>
#include <cstdio>
#include <muster/muster.hpp>
#include <vector>

constexpr size_t side = 256, tile = 32, tiles = side / tile;

static void potrf(const muster::native &at)
{
    const auto a = at.tile<double>(0);
    for (size_t j = 0; j < tile; j++)
        for (size_t i = j; i < tile; i++) {
            double sum = a[i][j];
            for (size_t k = 0; k < j; k++)
                sum -= a[i][k] * a[j][k];
            if (i == j && sum <= 0)
                throw muster::error(MUSTER_E_FAILED, "the matrix is not positive definite");
            a[i][j] = i == j ? std::sqrt(sum) : sum / a[j][j];
        }
}

static void trsm(const muster::native &at)
{
    const auto diagonal = at.tile<const double>(0);
    const auto a = at.tile<double>(1);
    for (size_t i = 0; i < tile; i++)
        for (size_t j = 0; j < tile; j++) {
            double sum = a[i][j];
            for (size_t k = 0; k < j; k++)
                sum -= a[i][k] * diagonal[j][k];
            a[i][j] = sum / diagonal[j][j];
        }
}

/* The last of the accesses -= the first x the second, transposed; of a diagonal tile both are one. */
static void gemm(const muster::native &at)
{
    const size_t last = at.count() - 1;
    const auto a = at.tile<const double>(0), b = at.tile<const double>(last - 1);
    const auto c = at.tile<double>(last);
    for (size_t i = 0; i < tile; i++)
        for (size_t j = 0; j < tile; j++)
            for (size_t k = 0; k < tile; k++)
                c[i][j] -= a[i][k] * b[j][k];
}

static muster::task_options named(const char *name, std::int32_t priority)
{
    muster::task_options how;
    how.name = name;
    how.priority = priority;
    return how;
}

static void factorize(muster::runtime &m, std::vector<double> &matrix)
{
    using muster::read, muster::update;
    const muster::data whole = m.make_data(matrix);
    std::vector<std::vector<muster::data>> t(tiles);
    for (size_t i = 0; i < tiles; i++)
        for (size_t j = 0; j <= i; j++)
            t[i].push_back(whole.tile(i * tile, tile, j * tile * sizeof(double),
                                      tile * sizeof(double), side * sizeof(double)));
    for (size_t k = 0; k < tiles; k++) {
        m.submit({ update(t[k][k]) }, potrf, {}, named("potrf", 2)).detach();
        for (size_t i = k + 1; i < tiles; i++)
            m.submit({ read(t[k][k]), update(t[i][k]) }, trsm, {}, named("trsm", 1)).detach();
        for (size_t i = k + 1; i < tiles; i++) {
            m.submit({ read(t[i][k]), update(t[i][i]) }, gemm, {}, named("syrk", 0)).detach();
            for (size_t j = k + 1; j < i; j++)
                m.submit({ read(t[i][k]), read(t[j][k]), update(t[i][j]) }, gemm, {},
                         named("gemm", 0))
                    .detach();
        }
    }
    for (auto &row : t)
        for (muster::data &one : row)
            one.close(); /* waits, brings it home, and says what failed */
}

int main()
try {
    std::vector<double> matrix(side * side);
    for (size_t i = 0; i < side; i++)
        for (size_t j = 0; j < side; j++)
            matrix[i * side + j] =
                i == j ? double(side) : 1.0 / (1.0 + std::abs(double(i) - double(j)));
    const std::vector<double> original = matrix;
    muster::runtime m;
    factorize(m, matrix);
    double worst = 0;
    for (size_t i = 0; i < side; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = 0;
            for (size_t k = 0; k <= j; k++)
                sum += matrix[i * side + k] * matrix[j * side + k];
            worst = std::fmax(worst, std::abs(sum - original[i * side + j]));
        }
    std::printf("%zu x %zu in tiles of %zu: largest error %.1e\n", side, side, tile, worst);
    return worst > 1e-9;
} catch (const muster::error &failed) {
    std::fprintf(stderr, "%s\n", failed.what());
    return 1;
}
