// Gradients: sums over landmarks z_j of shares g_cj times the gradient of d²(x, z_j) by x, for a few sets c of shares.
#include "binding.h"
#include "frame_lanes.h"

namespace ldmaps {
namespace {

// Landmarks that are differentiated together: their panels, which are read twice, stay in the L1 cache.
constexpr Index TOGETHER = 64;
// Below this share of |M|³, q determines R to fewer than about twelve digits.
constexpr double SMALLEST_Q = 1e-3;
CONSTANT(SMALLEST_Q)
// Largest error of R that may come from lambda: after a step t that of lambda is t²(lambda² + y)/(2q), and R's |M|²/q
// times as large.
constexpr double LARGEST_ERROR = 1e-8;

// Write -rate·w_j (B_cj - y_c) for rows of d² whose lowest entries and coordinates are known: what each landmark adds
// to the gradient of the online step.
template <class Real>
void fill_shares(Matrix<const Real> squared, Row<const Real> lowest, Real rate, Row<const Real> weights,
                 Matrix<const Real> coefficients, Matrix<const Real> coordinates, Cube<Real> shares) {
    const Index n_points = squared.shape(0), n_landmarks = squared.shape(1), n_sets = coefficients.shape(0);
    const Scratch<Real> memory(n_landmarks);
    Real* kernel = memory.data();
    const Real* factors = weights.data();
    for (Index i = 0; i < n_points; ++i) {
        const Real* row = squared[i].data();
        const Real low = lowest[i];
        double total = 0.0;
#pragma omp simd reduction(+ : total)
        for (Index j = 0; j < n_landmarks; ++j) {
            kernel[j] = exp_negative(-rate * (row[j] - low)) * factors[j];
            total += kernel[j];
        }
        // At least the nearest landmark's weight, which is positive.
        const Real factor = static_cast<Real>(-rate / total);
        for (Index c = 0; c < n_sets; ++c) {
            const Real* own = coefficients[c].data();
            const Real coordinate = coordinates(i, c);
            Real* out = shares(i, c).data();
#pragma omp simd
            for (Index j = 0; j < n_landmarks; ++j) out[j] = factor * kernel[j] * (own[j] - coordinate);
        }
    }
}
KERNEL(fill_shares, "squared[n,m] lowest[n] rate weights[m] coefficients[k,m] coordinates[n,k] shares[n,k,m]")

// Make gradients 0 that are not finite throughout.
template <class Real>
void clear_not_finite(Cube<Real> gradient) {
    const Index size = gradient.shape(2), n_rows = gradient.shape(0) * gradient.shape(1);
    for (Index i = 0; i < n_rows; ++i) {
        Real *row = gradient.data() + i * size, nothing = 0;
#pragma omp simd reduction(+ : nothing)
        for (Index p = 0; p < size; ++p) nothing += row[p] * Real(0);
        if (nothing != Real(0)) std::fill_n(row, size, Real(0));
    }
}
KERNEL(clear_not_finite, "gradient[n,k,f]")

// Write the sum of g_cj 2(x - z_j), taken the shorter way round where a feature is periodic: `period` is 0 where it
// does not repeat.
template <class Real>
void vector_gradients(Matrix<const double> columns, Matrix<const double> points, Row<const double> period,
                      Cube<const Real> shares, Cube<Real> gradient) {
    const Index features = columns.shape(0), n_landmarks = columns.shape(1);
    const Index n_points = shares.shape(0), n_sets = shares.shape(1);
    const Scratch<double> memory(n_landmarks);
    double* difference = memory.data();
    for (Index i = 0; i < n_points; ++i) {
        for (Index f = 0; f < features; ++f) {
            const double length = period[f], inverse = length > 0.0 ? 1.0 / length : 0.0, x = points(i, f);
            const double* column = columns[f].data();
#pragma omp simd
            for (Index j = 0; j < n_landmarks; ++j) {
                const double t = x - column[j];
                difference[j] = fused(-length, std::nearbyint(t * inverse), t);
            }
            for (Index c = 0; c < n_sets; ++c) {
                gradient(i, c, f) =
                    static_cast<Real>(2.0 * sum_over(n_landmarks, weighted_terms(shares(i, c).data(), difference)));
            }
        }
    }
}
KERNEL(vector_gradients, "columns[f,m] points[n,f] period[f] shares[n,k,m] gradient[n,k,f]")

// -- RMSD ------------------------------------------------------------------------------------------------------------
//
// With x near R z the superposition of a landmark z on the frame x, R need not be differentiated (it minimises d²), and
// for atoms weighed by w_a with sum 1
//
//     gradient of d² by x_a = 2 w_a (x_a - R z_a),      x and z centred.
//
// R is the proper rotation nearest to M = sum of w_a x_a z_aᵀ. With signed singular values s of M and their elementary
// symmetric functions lambda, y, det M, every s_i satisfies s³ - lambda s² + y s - det M = 0, and so (compare both
// sides on each singular vector)
//
//     R = [(lambda² - y) M + lambda cof M - M Mᵀ M] / q,      q = y lambda - det M = (s1+s2)(s2+s3)(s1+s3).
//
// M Rᵀ is symmetric whatever lambda is, so the gradient exerts no torque even where lambda is rounded. Where q is small
// beside s1³ (mirror-like pairs, atoms on a line) R comes from singular vectors instead; where R is not unique, any of
// the best gives a subgradient.

// Replace matrices, entries of which are `stride` apart, by their rotations; `certain` is not positive where one must
// be found another way. `root` is lambda as the distances have it.
template <class Real>
void write_rotations(Real* m, Index stride, const double* root, double* certain, Index count) {
#pragma omp simd
    for (Index j = 0; j < count; ++j) {
        Matrix3 own, gram;  // M, and MᵀM
#pragma GCC unroll 9
        for (int p = 0; p < 9; ++p) own[p / 3][p % 3] = m[p * stride + j];
        const auto product = [](const double (&x)[3], double p, double q, double r) {
            return fused(x[0], p, fused(x[1], q, x[2] * r));
        };
#pragma GCC unroll 9
        for (int p = 0; p < 9; ++p) {
            const double left[3] = {own[0][p / 3], own[1][p / 3], own[2][p / 3]};
            gram[p / 3][p % 3] = product(left, own[0][p % 3], own[1][p % 3], own[2][p % 3]);
        }
        const Invariants<double> known(own[0][0], own[0][1], own[0][2], own[1][0], own[1][1], own[1][2], own[2][0],
                                       own[2][1], own[2][2]);
        const double cofactor[9] = {known.c00, known.c01, known.c02, known.c10, known.c11,
                                    known.c12, known.c20, known.c21, known.c22};
        const double det = known.det, square = known.square, cofactors = known.cofactors;
        // One step of Newton on y² - |cof M|² - 2 lambda det M with lambda² = |M|² + 2y, which a step t keeps exactly.
        double lambda = root[j];
        double y = 0.5 * fused(lambda, lambda, -square);
        const double t = 0.5 * fused(-2.0 * det, lambda, fused(y, y, -cofactors)) / fused(y, lambda, -det);
        y = fused(-t, lambda - 0.5 * t, y);
        lambda -= t;
        const double q = fused(y, lambda, -det), r = 1.0 / q;
        const double u = (square + y) * r, v = lambda * r;
#pragma GCC unroll 9
        for (int p = 0; p < 9; ++p) {
            const auto &row = own[p / 3], &column = gram[p % 3];  // MᵀM is symmetric
            const double cubic = product(row, column[0], column[1], column[2]);
            m[p * stride + j] = static_cast<Real>(fused(u, row[p % 3], v * cofactor[p]) - r * cubic);
        }
        // Comparisons that NaN fails. Where q was next to nothing, the step may be longer than lambda itself, or lead
        // to a lower root, where the curvature is negative.
        const bool is_large = q * q > SMALLEST_Q * SMALLEST_Q * square * square * square && q > 0.0;
        const double curvature = fused(lambda, lambda, y);
        const bool is_near = t * t < square && curvature > 0.0;
        const bool is_exact = is_near && t * t * curvature * square < LARGEST_ERROR * q * q;
        certain[j] = is_large && is_exact ? 1.0 : 0.0;
    }
}

// Write the sums over landmarks of rotations, times factors, and `Atoms` atoms from `z` on of their panels.
template <int Atoms, class Real>
void add_turned(const Real (&m)[9][TOGETHER], const Real* z, Index panel_size, Index n_panels, double* sums) {
    constexpr Index lanes = PANEL_LANES<Real>;
    Lanes<Real> parts[Atoms][3] = {};
    for (Index j = 0; j < n_panels * lanes; j += LANES<Real>) {
        const Real* panel = z + j / lanes * panel_size + j % lanes;
        for (int axis = 0; axis < 3; ++axis) {
            const Lanes<Real> column[3] = {load<Lanes<Real>>(m[axis] + j), load<Lanes<Real>>(m[3 + axis] + j),
                                           load<Lanes<Real>>(m[6 + axis] + j)};
#pragma GCC unroll 4
            for (int atom = 0; atom < Atoms; ++atom) {
                const auto x = load<Lanes<Real>>(panel + (3 * atom + axis) * lanes);
#pragma GCC unroll 3
                for (int row = 0; row < 3; ++row) parts[atom][row] = fused(column[row], x, parts[atom][row]);
            }
        }
    }
    for (int p = 0; p < 3 * Atoms; ++p) sums[p] += sum_of<Real, LANES_BYTES>(parts[p / 3][p % 3]);
}

// Write the gradients of frames superposed on landmarks, which are given as distances take them (see panels.h).
//
// `weights` of the atoms `kept` sum to 1. The gradient by atoms without a weight is 0.
template <class Real>
void rmsd_gradients(Cube<const double> frames, Row<const Index> kept, Row<const double> weights,
                    Cube<const Real> panels, Matrix<const Real> moments, Matrix<const Real> squared,
                    Cube<const Real> shares, Array<Real, 4> gradient) {
    constexpr Index lanes = PANEL_LANES<Real>;
    const Index n_landmarks = shares.shape(2), n_sets = shares.shape(1), n_atoms = kept.size(), depth = 3 * n_atoms;
    const Scratch<double> x(depth), sum_memory(n_sets * depth), totals(n_sets);
    const Scratch<Real> unit(depth);
    const Matrix<double> sums = sum_memory.matrix(n_sets, depth);
    WorkOf<Real> work;
    alignas(64) Real scaled[9][TOGETHER];
    double root[TOGETHER], certain[TOGETHER], centre[3];
    if (n_atoms < frames.shape(1)) gradient.fill(Real(0));
    for (Index n = 0; n < frames.shape(0); ++n) {
        write_centre(frames[n], kept, weights, centre);
        double norm = 0.0;
        for (Index p = 0; p < depth; ++p) {
            x[p] = std::sqrt(weights[p / 3]) * (frames(n, kept[p / 3], p % 3) - centre[p % 3]);
            norm += x[p] * x[p];
        }
        const double size = norm > 0.0 ? std::sqrt(norm) : 1.0;
        for (Index p = 0; p < depth; ++p) unit[p] = static_cast<Real>(x[p] / size);
        totals.row().fill(0.0);
        sum_memory.row().fill(0.0);
        for (Index start = 0; start < n_landmarks; start += TOGETHER) {
            const Index panel = start / lanes, n_panels = std::min(TOGETHER / lanes, panels.shape(0) - panel);
            const Index count = std::min(n_landmarks - start, TOGETHER);
            fill_sums<Real>(unit.matrix(1, depth), 1, panels, panel, n_panels, work);
            for (Index j = 0; j < count; ++j) {
                // Lambda of frames of norm 1, from d² = G_x + G_z - 2 s_x s_z lambda.
                root[j] = 0.5 * (norm + moments(SQUARED_NORM, start + j) - squared(n, start + j)) /
                          (size * moments(SCALE, start + j));
            }
            write_rotations(work.rows[0], WorkOf<Real>::WIDTH, root, certain, count);
            for (Index j = 0; j < count; ++j) {
                if (certain[j] > 0.0) continue;
                const Real* z = panels[panel + j / lanes].data() + j % lanes;
                Matrix3 m = {}, rotation;
                for (Index p = 0; p < depth; p += 3) {
                    for (int q = 0; q < 9; ++q) m[q / 3][q % 3] += x[p + q / 3] / size * z[(p + q % 3) * lanes];
                }
                best_rotation(m, rotation);
                for (int p = 0; p < 9; ++p) work.rows[p][j] = static_cast<Real>(rotation[p / 3][p % 3]);
            }
            for (Index c = 0; c < n_sets; ++c) {
                const Row<const Real> part = shares(n, c).slice(start, start + count);
                totals[c] += sum_over(count, plain_terms(part.data()));
                Real factors[TOGETHER] = {};
                for (Index j = 0; j < count; ++j) factors[j] = moments(SCALE, start + j) * part[j];
                for (int p = 0; p < 9; ++p) {
#pragma omp simd
                    for (Index j = 0; j < n_panels * lanes; ++j) scaled[p][j] = factors[j] * work.rows[p][j];
                }
                const Real* z = panels[panel].data();
                Index a = 0;
                for (; a + 4 <= n_atoms; a += 4) {
                    add_turned<4>(scaled, z + 3 * a * lanes, depth * lanes, n_panels, sums[c].data() + 3 * a);
                }
                for (; a < n_atoms; ++a) {
                    add_turned<1>(scaled, z + 3 * a * lanes, depth * lanes, n_panels, sums[c].data() + 3 * a);
                }
            }
        }
        for (Index c = 0; c < n_sets; ++c) {
            for (Index p = 0; p < depth; ++p) {
                const double change = totals[c] * x[p] - sums(c, p);
                gradient(n, c, kept[p / 3], p % 3) = static_cast<Real>(2.0 * std::sqrt(weights[p / 3]) * change);
            }
        }
    }
}
KERNEL(rmsd_gradients,
       "frames[n,a,3] kept[e=1..]=0..a-1 weights[e] panels[m/l,3*e,l=PANEL_BYTES/itemsize] moments[MOMENTS,m/l*l] "
       "squared[n,m] shares[n,k,m] gradient[n,k,a,3]")

// Frames whose gradients are computed at once.
constexpr Index BATCH = 16;

// Embed frames as they come, exactly as `embed_rmsd` does, and write the gradient of each coordinate; 0 where that is
// not finite. Returns as `embed_rmsd` does.
template <class Given, class Real>
bool embed_rmsd_with_gradient(Cube<const Given> frames, Row<const Index> kept, Row<const double> root_weights,
                              Cube<const Real> panels, Matrix<const Real> moments, Real rate, Row<const Real> weights,
                              Matrix<const Real> coefficients, Matrix<Real> coordinates, Row<Index> nearest,
                              Row<Real> lowest, Array<Real, 4> gradient) {
    const Index n_frames = frames.shape(0), n_atoms = frames.shape(1), n_sets = coefficients.shape(0),
                n_landmarks = weights.size(), most = std::min(n_frames, BATCH), size = 3 * n_atoms;
    FrameLanes<Given, Real> measuring(n_atoms, kept, root_weights, panels, moments);
    const Online<Real> online{rate, weights, coefficients, coordinates, nearest, lowest};
    const Scratch<double> atom_weights(kept.size()), exact(std::is_same_v<Given, double> ? 0 : most * size);
    const Scratch<Real> squares(most * n_landmarks), shares(most * n_sets * n_landmarks);
    for (Index k = 0; k < kept.size(); ++k) atom_weights[k] = root_weights[k] * root_weights[k];
    for (Index first = 0; first < n_frames; first += BATCH) {
        const Index count = std::min(BATCH, n_frames - first);
        const Index frame_shape[3] = {count, n_atoms, 3}, share_shape[3] = {count, n_sets, n_landmarks},
                    gradient_shape[4] = {count, n_sets, n_atoms, 3}, row_shape[3] = {count, n_sets, size};
        const Given* given = frames.data() + first * size;
        const Matrix<Real> squared = squares.matrix(count, n_landmarks);
        if (!write_squares<Real>(measuring, given, size, squared)) return false;
        extend_rows<Real>(squared, first, online);
        const Matrix<const Real> own_coordinates(coordinates.data() + first * n_sets, share_shape);
        const Cube<Real> own_shares(shares.data(), share_shape);
        fill_shares<Real>(squared, lowest.slice(first, first + count), rate, weights, coefficients, own_coordinates,
                          own_shares);
        const double* numbers = exact.data();
        if constexpr (std::is_same_v<Given, double>) {
            numbers = given;
        } else {
            std::copy_n(given, count * size, exact.data());
        }
        Real* slopes = gradient.data() + first * n_sets * size;
        rmsd_gradients<Real>({numbers, frame_shape}, kept, atom_weights.row(), panels, moments, squared, own_shares,
                             {slopes, gradient_shape});
        clear_not_finite<Real>({slopes, row_shape});
    }
    return true;
}
KERNEL_OF(embed_rmsd_with_gradient,
          "frames[n,a,3] kept[e=1..]=0..a-1 root_weights[e] panels[m/l,3*e,l=PANEL_BYTES/itemsize] "
          "moments[MOMENTS,m/l*l] rate weights[m=1..] coefficients[k,m] coordinates[n,k] nearest[n] lowest[n] "
          "gradient[n,k,a,3]",
          form(embed_rmsd_with_gradient<float, float>), form(embed_rmsd_with_gradient<double, double>),
          form(embed_rmsd_with_gradient<float, double>), form(embed_rmsd_with_gradient<double, float>))

// -- RMSD where only some atoms determine the superposition ----------------------------------------------------------

// Write u with d tr(Rᵀ M)/dx_a = f_a u × (R z_a) for a superposed atom; 0 where R is not unique.
//
// R depends on the fitted atoms through N = sum of f x zᵀ: a change dN turns R by the rotation vector w of
// (tr S - S) w = v(dN Rᵀ), S = N Rᵀ, where v(D) is the vector of D - Dᵀ; and tr(Rᵀ M) then changes by v(M Rᵀ)·w.
inline void write_turning(const Matrix3& fit, const Matrix3& whole, const Matrix3& rotation, double (&u)[3]) {
    Matrix3 s = {}, p = {};
    for (int q = 0; q < 27; ++q) {
        const int row = q / 9, column = q / 3 % 3, axis = q % 3;
        s[row][column] += fit[row][axis] * rotation[column][axis];
        p[row][column] += whole[row][axis] * rotation[column][axis];
    }
    const double trace = s[0][0] + s[1][1] + s[2][2];
    const double d = -0.5 * (s[0][1] + s[1][0]), e = -0.5 * (s[0][2] + s[2][0]), f = -0.5 * (s[1][2] + s[2][1]);
    const Invariants<double> of(trace - s[0][0], d, e, d, trace - s[1][1], f, e, f, trace - s[2][2]);
    const double v[3] = {p[2][1] - p[1][2], p[0][2] - p[2][0], p[1][0] - p[0][1]};
    const double inverse = of.det > 1e-12 * trace * trace * trace ? 1.0 / of.det : 0.0;
    u[0] = (of.c00 * v[0] + of.c01 * v[1] + of.c02 * v[2]) * inverse;
    u[1] = (of.c10 * v[0] + of.c11 * v[1] + of.c12 * v[2]) * inverse;
    u[2] = (of.c20 * v[0] + of.c21 * v[1] + of.c22 * v[2]) * inverse;
}

// Write the gradients where only some atoms determine the superposition. `weights` and `fit_weights` of the atoms
// `kept` each sum to 1 (0 for atoms that are not superposed); `landmarks` are moved so that the superposed atoms'
// weighted mean is 0. `gradient` is zero for atoms without a weight, which are not written.
template <class Real>
void aligned_gradients(Cube<const double> frames, Row<const Index> kept, Row<const double> weights,
                       Row<const double> fit_weights, Cube<const double> landmarks, Cube<const Real> shares,
                       Array<Real, 4> gradient) {
    const Index n_atoms = kept.size(), n_sets = shares.shape(1);
    const Scratch<double> x_memory(n_atoms * 3), sum_memory(n_sets * n_atoms * 3);
    const Matrix<double> x = x_memory.matrix(n_atoms, 3), sums = sum_memory.matrix(n_sets, n_atoms * 3);
    double centre[3];
    for (Index n = 0; n < frames.shape(0); ++n) {
        write_centre(frames[n], kept, fit_weights, centre);
        for (Index p = 0; p < 3 * n_atoms; ++p) x_memory[p] = frames(n, kept[p / 3], p % 3) - centre[p % 3];
        sum_memory.row().fill(0.0);
        for (Index j = 0; j < landmarks.shape(0); ++j) {
            const Matrix<const double> z = landmarks[j];
            Matrix3 fit = {}, whole = {}, matrix, rotation;
            for (Index a = 0; a < n_atoms; ++a) {
                for (int p = 0; p < 9; ++p) {
                    const double product = x(a, p / 3) * z(a, p % 3);
                    fit[p / 3][p % 3] += fit_weights[a] * product;
                    whole[p / 3][p % 3] += weights[a] * product;
                }
            }
            std::copy(&fit[0][0], &fit[0][0] + 9, &matrix[0][0]);
            best_rotation(matrix, rotation);
            double u[3];
            write_turning(fit, whole, rotation, u);
            for (Index a = 0; a < n_atoms; ++a) {
                double turned[3];
                for (int axis = 0; axis < 3; ++axis) {
                    turned[axis] =
                        rotation[axis][0] * z(a, 0) + rotation[axis][1] * z(a, 1) + rotation[axis][2] * z(a, 2);
                }
                for (int axis = 0; axis < 3; ++axis) {
                    const int next = (axis + 1) % 3, other = (axis + 2) % 3;
                    const double by_turning = u[next] * turned[other] - u[other] * turned[next];
                    const double change = weights[a] * (x(a, axis) - turned[axis]) - fit_weights[a] * by_turning;
                    for (Index c = 0; c < n_sets; ++c) sums(c, 3 * a + axis) += shares(n, c, j) * change;
                }
            }
        }
        for (Index c = 0; c < n_sets; ++c) {
            for (int axis = 0; axis < 3; ++axis) {
                double total = 0.0;
                for (Index a = 0; a < n_atoms; ++a) total += sums(c, 3 * a + axis);
                // Superposed atoms move the centre as well.
                for (Index a = 0; a < n_atoms; ++a) {
                    gradient(n, c, kept[a], axis) =
                        static_cast<Real>(2.0 * (sums(c, 3 * a + axis) - fit_weights[a] * total));
                }
            }
        }
    }
}
KERNEL(aligned_gradients,
       "frames[n,a,3] kept[e=1..]=0..a-1 weights[e] fit_weights[e] landmarks[m,e,3] shares[n,k,m] gradient[n,k,a,3]")

// The quick way to rotations by itself: what it gets wrong and notices does not show in a gradient.
void quick_rotations(Matrix<double> matrices, Row<const double> root, Row<double> certain) {
    write_rotations(matrices.data(), root.size(), root.data(), certain.data(), root.size());
}
KERNEL_OF(quick_rotations, "matrices[9,n] root[n] certain[n]", form(quick_rotations))

}  // namespace
}  // namespace ldmaps
