// Rows of features as they come, embedded in one pass: a tile of them is scaled, wrapped and turned into columns, and
// measured from the landmarks while it is in cache.
#include "binding.h"
#include "columns.h"
#include "online.h"
#include "terms.h"

namespace ldmaps {
namespace {

// Rows of one tile: whole registers of points side by side, and enough of them to be worth a call.
constexpr Index TILE_ROWS = 64;
static_assert(TILE_ROWS % SIDE_BY_SIDE == 0, "tiles are cut into points side by side");

// Landmarks in columns, and how rows become columns as `Metric.prepare` makes them.
template <class Given, class Real>
struct RowsAsColumns {
    Row<const double> factors;  // of features, applied first
    Row<const double> period;   // empty where none repeats
    double limit;               // the largest size of a scaled feature
    Matrix<const Real> landmarks;

    // Write a tile of rows to columns, the last row again where the tile is not full. Returns whether all sizes are
    // within the limit.
    bool turn(const Given* rows, Index count, Matrix<Real> columns) const {
        const Index n_features = factors.size();
        bool is_within = true;
        for (Index k = 0; k < n_features; ++k) {
            const double factor = factors[k], length = period.size() ? period[k] : 0.0, half = 0.5 * length;
            Real* column = columns[k].data();
            for (Index i = 0; i < count; ++i) {
                double x = static_cast<Real>(double(rows[i * n_features + k]) * factor);
                const double size = std::abs(x);
                is_within &= size <= limit;  // which NaN is not
                if (length > 0.0 && size > half) {
                    x = std::fmod(x, length);
                    x -= x > half ? length : x < -half ? -length : 0.0;
                }
                column[i] = static_cast<Real>(x);
            }
            std::fill(column + count, column + columns.shape(1), column[count - 1]);
        }
        return is_within;
    }

    // Measure rows as they come, tile by tile. `few(block, first, last)` takes points side by side where landmarks are
    // few, and `many(squares, first)` rows of d². Returns whether all features are within the limit.
    template <class Term, class Few, class Many>
    bool measure(Matrix<const Given> rows, Term term, Few few, Many many) const {
        const Index n_rows = rows.shape(0), n_features = rows.shape(1), n_landmarks = landmarks.shape(1);
        const Index whole = (n_rows + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE * SIDE_BY_SIDE,
                    tile = std::min(TILE_ROWS, whole);
        const bool is_few = n_landmarks <= FEW;
        const Scratch<Real> memory(tile * n_features), squares(is_few ? 0 : tile * n_landmarks);
        const Matrix<Real> columns = memory.matrix(n_features, tile);
        SideBySide<Real> block;
        for (Index first = 0; first < n_rows; first += tile) {
            const Index count = std::min(tile, n_rows - first);
            if (!turn(rows[first].data(), count, columns)) return false;
            if (is_few) {
                for (Index start = 0; start < count; start += SIDE_BY_SIDE) {
                    measure_few(columns, start, term, block);
                    few(block, first + start, first + std::min(count, start + SIDE_BY_SIDE));
                }
            } else {
                const Matrix<Real> out = squares.matrix(count, n_landmarks);
                fill_from_columns<Real>(columns, 0, count, landmarks, 0, n_landmarks, out, term);
                many(Matrix<const Real>(out), first);
            }
        }
        return true;
    }

private:
    // The same sums as `fill_from_columns` makes, feature by feature.
    template <class Term>
    void measure_few(Matrix<const Real> columns, Index start, Term term, SideBySide<Real>& block) const {
        for (Index j = 0; j < landmarks.shape(1); ++j) {
            alignas(64) Real sums[SIDE_BY_SIDE] = {};
            for (Index k = 0; k < columns.shape(0); ++k) {
                const auto add = term.at(k);
                const Real y = landmarks(k, j);
                const Real* x = columns[k].data() + start;
#pragma omp simd
                for (Index lane = 0; lane < SIDE_BY_SIDE; ++lane) sums[lane] = add(sums[lane], x[lane], y);
            }
            std::copy_n(sums, SIDE_BY_SIDE, block.squares[j]);
        }
    }
};

template <class Given, class Real, class Term>
bool embed_rows(Matrix<const Given> rows, const RowsAsColumns<Given, Real>& as_columns, Term term,
                const Online<Real>& online) {
    return as_columns.measure(
        rows, term, [&](SideBySide<Real>& block, Index first, Index last) { block.embed(first, last, online); },
        [&](Matrix<const Real> squares, Index first) { extend_rows<Real>(squares, first, online); });
}

template <class Given, class Real, class Term>
bool write_squares(Matrix<const Given> rows, const RowsAsColumns<Given, Real>& as_columns, Term term,
                   Matrix<Real> squared) {
    const Index n_landmarks = squared.shape(1);
    return as_columns.measure(
        rows, term,
        [&](const SideBySide<Real>& block, Index first, Index last) {
            for (Index i = first; i < last; ++i) {
                for (Index j = 0; j < n_landmarks; ++j) squared(i, j) = block.squares[j][i - first];
            }
        },
        [&](Matrix<const Real> squares, Index first) {
            std::copy_n(squares.data(), squares.size(), squared[first].data());
        });
}

// Embed rows as they come by Euclidean distances, after each feature is multiplied by its factor. Returns whether all
// could be: no product is above the limit or not a number.
template <class Given, class Real>
bool embed_euclidean(Matrix<const Given> rows, Row<const double> factors, double limit, Matrix<const Real> landmarks,
                     Real rate, Row<const Real> weights, Matrix<const Real> coefficients, Matrix<Real> coordinates,
                     Row<Index> nearest, Row<Real> lowest) {
    return embed_rows<Given, Real>(rows, {factors, {}, limit, landmarks}, AddSquare<Real>{},
                                   {rate, weights, coefficients, coordinates, nearest, lowest});
}
KERNEL_OF(
    embed_euclidean,
    "rows[n,f=1..] factors[f] limit landmarks[f,m=1..] rate weights[m] coefficients[k,m] coordinates[n,k] nearest[n] "
    "lowest[n]",
    form(embed_euclidean<float, float>), form(embed_euclidean<double, double>), form(embed_euclidean<float, double>),
    form(embed_euclidean<double, float>))

// Write d² of rows as they come, exactly as they are embedded by. Returns as `embed_euclidean` does.
template <class Given, class Real>
bool euclidean_squares(Matrix<const Given> rows, Row<const double> factors, double limit, Matrix<const Real> landmarks,
                       Matrix<Real> squared) {
    return write_squares<Given, Real>(rows, {factors, {}, limit, landmarks}, AddSquare<Real>{}, squared);
}
KERNEL_OF(euclidean_squares, "rows[n,f=1..] factors[f] limit landmarks[f,m=1..] squared[n,m]",
          form(euclidean_squares<float, float>), form(euclidean_squares<double, double>),
          form(euclidean_squares<float, double>), form(euclidean_squares<double, float>))

// Periods in the precision of the landmarks.
template <class Real>
Scratch<Real> rounded_periods(Row<const double> period) {
    Scratch<Real> rounded(period.size());
    for (Index k = 0; k < period.size(); ++k) rounded[k] = static_cast<Real>(period[k]);
    return rounded;
}

// The same with differences taken the shorter way round; features may lie many periods away.
template <class Given, class Real>
bool embed_periodic(Matrix<const Given> rows, Row<const double> factors, Row<const double> period, double limit,
                    Matrix<const Real> landmarks, Real rate, Row<const Real> weights, Matrix<const Real> coefficients,
                    Matrix<Real> coordinates, Row<Index> nearest, Row<Real> lowest) {
    const Scratch<Real> rounded = rounded_periods<Real>(period);
    return embed_rows<Given, Real>(rows, {factors, period, limit, landmarks}, AddShorterSquare<Real>{rounded.data()},
                                   {rate, weights, coefficients, coordinates, nearest, lowest});
}
KERNEL_OF(embed_periodic,
          "rows[n,f=1..] factors[f] period[f] limit landmarks[f,m=1..] rate weights[m] coefficients[k,m] "
          "coordinates[n,k] nearest[n] lowest[n]",
          form(embed_periodic<float, float>), form(embed_periodic<double, double>), form(embed_periodic<float, double>),
          form(embed_periodic<double, float>))

// Write d² of rows as they come, exactly as they are embedded by. Returns as `embed_periodic` does.
template <class Given, class Real>
bool periodic_squares(Matrix<const Given> rows, Row<const double> factors, Row<const double> period, double limit,
                      Matrix<const Real> landmarks, Matrix<Real> squared) {
    const Scratch<Real> rounded = rounded_periods<Real>(period);
    return write_squares<Given, Real>(rows, {factors, period, limit, landmarks}, AddShorterSquare<Real>{rounded.data()},
                                      squared);
}
KERNEL_OF(periodic_squares, "rows[n,f=1..] factors[f] period[f] limit landmarks[f,m=1..] squared[n,m]",
          form(periodic_squares<float, float>), form(periodic_squares<double, double>),
          form(periodic_squares<float, double>), form(periodic_squares<double, float>))

}  // namespace
}  // namespace ldmaps
