// Rows of features as they come, embedded in one pass, side by side in the lanes of registers:
//
//     row[lane][k] ──turned──► lanes[k][lane] ──scaled, wrapped──► the same place ──► d² to some landmarks at once
//
// A row that comes alone is measured from landmarks in lanes instead. Every sum runs over the features in their order
// either way, as in columns.h, so not a bit shows how many rows came together.
#include "binding.h"
#include "columns.h"
#include "online.h"
#include "terms.h"

namespace ldmaps {
namespace {

// Landmarks whose sums stay in registers, of which points of a narrow instruction set take two each.
template <class Real>
constexpr Index AT_ONCE = sizeof(Beside<Real>) > WIDE_BYTES ? 4 : 8;

// How rows become what `Metric.prepare` makes of them, and are measured: see `measure_points` in online.h. What counts
// are sizes of scaled features that are not NaN and within the limit.
template <class Given, class Real, class Term>
class RowLanes {
public:
    static constexpr Index PER_PASS = SIDE_BY_SIDE;

    // Factors of features are applied first; periods are empty where none repeats. Landmarks are columns.
    RowLanes(Matrix<const Given> rows, Row<const double> factors, Row<const double> period, double limit,
             Matrix<const Real> landmarks, Term term)
        : end_(rows.data() + rows.size()),
          factors_(factors),
          period_(period),
          landmarks_(landmarks),
          term_(term),
          limit_(static_cast<Real>(std::min(limit, double(std::numeric_limits<Real>::max())))),
          is_scaled_(std::any_of(factors.data(), factors.data() + size(), [](double x) { return x != 1.0; })),
          lanes_(room() * SIDE_BY_SIDE),
          chosen_(room() * SIDE_BY_SIDE, Real(0)) {
        if (double(limit_) > limit) limit_ = std::nextafter(limit_, Real(0));
    }

    // Turn up to SIDE_BY_SIDE rows, scale and wrap them; lanes beyond the last repeat it.
    bool prepare(const Given* rows, Index count) {
        const Real* begins[SIDE_BY_SIDE];
        const Real* upcoming = lanes_.data();
        // Quartets of short rows reach into the next one.
        const Given* last = rows + (count - 1) * size();
        if (!std::is_same_v<Given, Real> || end_ - last < QUARTET) {
            for (Index i = 0; i < count; ++i) {
                const Given* row = rows + i * size();
                Real* to = chosen_.data() + i * room();
                for (Index k = 0; k < size(); ++k) {
                    to[k] = std::is_same_v<Given, Real> ? Real(row[k]) : scaled(double(row[k]), k);
                }
            }
            for (Index i = 0; i < SIDE_BY_SIDE; ++i) begins[i] = chosen_.data() + std::min(i, count - 1) * room();
        } else if constexpr (std::is_same_v<Given, Real>) {
            for (Index i = 0; i < SIDE_BY_SIDE; ++i) begins[i] = rows + std::min(i, count - 1) * size();
            upcoming = rows + SIDE_BY_SIDE * size();
        }
        turn_rows(begins, room(), upcoming, lanes_.data());
        return settle<SIDE_BY_SIDE>(lanes_.data());
    }

    // Write d² of the prepared rows to landmarks `begin` to before `stop`.
    void measure_some(Index begin, Index stop, Real (*squares)[SIDE_BY_SIDE]) const {
        Index j = begin;
        for (; j + AT_ONCE<Real> <= stop; j += AT_ONCE<Real>) add_up<AT_ONCE<Real>>(j, squares + (j - begin));
        if (j + 4 <= stop) add_up<4>(j, squares + (j - begin)), j += 4;
        if (j + 2 <= stop) add_up<2>(j, squares + (j - begin)), j += 2;
        if (j < stop) add_up<1>(j, squares + (j - begin));
    }

    // Write d² of one row to all landmarks.
    bool measure_alone(const Given* row, Real* squares) {
        for (Index k = 0; k < size(); ++k) {
            lanes_[k] = std::is_same_v<Given, Real> ? Real(row[k]) : scaled(double(row[k]), k);
        }
        if (!settle<1>(lanes_.data())) return false;
        const Index n_landmarks = landmarks_.shape(1), shape[2] = {1, n_landmarks};
        fill_from_columns<Real>(lanes_.matrix(size(), 1), 0, 1, landmarks_, 0, n_landmarks, {squares, shape}, term_);
        return true;
    }

private:
    Index size() const { return factors_.size(); }
    Index room() const { return std::max(size(), QUARTET); }
    Real scaled(double x, Index k) const { return static_cast<Real>(x * factors_[k]); }

    // Scale features, unless they were when their precision changed, and wrap them. Returns whether all are sound.
    template <Index N>
    bool settle(Real* lanes) const {
        using Side = std::conditional_t<N == 1, Real, Beside<Real>>;
        constexpr Index step = Index(sizeof(Side) / sizeof(Real));
        bool is_within = true;
        for (Index lane = 0; lane < N; lane += step) {
            // Of sizes above 0 the bits are in the same order, and those of NaN are above all.
            using Whole = std::conditional_t<N == 1, Signed<Real>, Vector<Signed<Real>, sizeof(Side)>>;
            Whole most = {};
            for (Index k = 0; k < size(); ++k) {
                Real* own = lanes + k * N + lane;
                if (std::is_same_v<Given, Real> && is_scaled_) {
#pragma omp simd
                    for (Index e = 0; e < step; ++e) own[e] = static_cast<Real>(double(own[e]) * factors_[k]);
                }
                Whole bits;
                const Side size = magnitude(side_at<Side>(own));
                std::memcpy(&bits, &size, sizeof bits);
                most = most > bits ? most : bits;
                if (period_.size()) wrap<step>(own, period_[k]);
            }
            Real largest[step];
            std::memcpy(largest, &most, sizeof most);
            for (Index e = 0; e < step; ++e) is_within &= largest[e] <= limit_;
        }
        return is_within;
    }

    // Bring numbers to within half a period of 0.
    template <Index N>
    static void wrap(Real* own, double length) {
        const double half = 0.5 * length;
        Index n_beyond = 0, n_far = 0;
#pragma omp simd reduction(+ : n_beyond, n_far)
        for (Index e = 0; e < N; ++e) {
            n_beyond += std::abs(own[e]) > half;
            n_far += std::abs(own[e]) >= 2.0 * length;
        }
        if (!(length > 0.0) || n_beyond == 0) return;
        for (Index e = 0; e < N; ++e) {
            double x = own[e];
            // Less than two periods: what is left is exact.
            x = n_far > 0 ? std::fmod(x, length) : x >= length ? x - length : x <= -length ? x + length : x;
            own[e] = static_cast<Real>(x - (x > half ? length : x < -half ? -length : 0.0));
        }
    }

    template <Index Count>
    void add_up(Index j, Real (*squares)[SIDE_BY_SIDE]) const {
        using Side = Beside<Real>;
        const Index n_landmarks = landmarks_.shape(1), n_features = size();
        for (Index lane = 0; lane < SIDE_BY_SIDE; lane += BESIDE<Real>) {
            const Real* landmark = landmarks_.data() + j;
            const Real* own = lanes_.data() + lane;
            Side sums[Count] = {};
            for (Index k = 0; k < n_features; ++k, landmark += n_landmarks, own += SIDE_BY_SIDE) {
                const Side x = load<Side>(own);
                const auto add = term_.at(k);
#pragma GCC unroll 8
                for (Index e = 0; e < Count; ++e) sums[e] = add(sums[e], x, spread<Side>(landmark[e]));
            }
#pragma GCC unroll 8
            for (Index e = 0; e < Count; ++e) store(sums[e], squares[e] + lane);
        }
    }

    const Given* end_;
    Row<const double> factors_, period_;
    Matrix<const Real> landmarks_;
    Term term_;
    Real limit_;
    bool is_scaled_;
    Scratch<Real> lanes_, chosen_;
};

// Embed rows as they come by Euclidean distances, after each feature is multiplied by its factor. Returns whether all
// could be: no product is above the limit or not a number.
template <class Given, class Real>
bool embed_euclidean(Matrix<const Given> rows, Row<const double> factors, double limit, Matrix<const Real> landmarks,
                     Real rate, Row<const Real> weights, Matrix<const Real> coefficients, Matrix<Real> coordinates,
                     Row<Index> nearest, Row<Real> lowest) {
    return embed_points<Real>(RowLanes<Given, Real, AddSquare<Real>>(rows, factors, {}, limit, landmarks, {}),
                              rows.data(), rows.shape(0), rows.shape(1),
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
    RowLanes<Given, Real, AddSquare<Real>> measuring(rows, factors, {}, limit, landmarks, {});
    return write_squares<Real>(measuring, rows.data(), rows.shape(1), squared);
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
    return embed_points<Real>(
        RowLanes<Given, Real, AddShorterSquare<Real>>(rows, factors, period, limit, landmarks, {rounded.data()}),
        rows.data(), rows.shape(0), rows.shape(1), {rate, weights, coefficients, coordinates, nearest, lowest});
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
    RowLanes<Given, Real, AddShorterSquare<Real>> measuring(rows, factors, period, limit, landmarks, {rounded.data()});
    return write_squares<Real>(measuring, rows.data(), rows.shape(1), squared);
}
KERNEL_OF(periodic_squares, "rows[n,f=1..] factors[f] period[f] limit landmarks[f,m=1..] squared[n,m]",
          form(periodic_squares<float, float>), form(periodic_squares<double, double>),
          form(periodic_squares<float, double>), form(periodic_squares<double, float>))

}  // namespace
}  // namespace ldmaps
