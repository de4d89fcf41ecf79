// The best superposition of one pair of frames, where it is needed itself and not only the distance; in float64.
#pragma once

#include <utility>

#include "array.h"
#include "fused.h"

namespace ldmaps {

using Matrix3 = double[3][3];

// Of a 3×3 matrix with rows abc, def, ghi: its cofactors, |M|², |cof M|² and det M. Whatever Mᵀ exchanges is rounded
// alike, and every product of the determinant takes one factor of each row and column, so grading carries over.
template <class Real>
struct Invariants {
    Real c00, c01, c02, c10, c11, c12, c20, c21, c22, square, cofactors, det;

    Invariants(Real a, Real b, Real c, Real d, Real e, Real f, Real g, Real h, Real i) {
        const Real cg = c * g, bd = b * d, fh = f * h, bf = b * f, dh = d * h;
        c00 = fused(e, i, -fh), c11 = fused(a, i, -cg), c22 = fused(a, e, -bd);
        c01 = fused(f, g, -(d * i)), c10 = fused(h, c, -(b * i));
        c02 = fused(-g, e, dh), c20 = fused(-c, e, bf);
        c12 = fused(b, g, -(a * h)), c21 = fused(d, c, -(a * f));
        square = sum_of_squares(a, e, i, b, d, c, g, f, h);
        cofactors = sum_of_squares(c00, c11, c22, c01, c10, c02, c20, c12, c21);
        det = fused(a, c00, fused(-i, bd, fused(-e, cg, bf * g + dh * c)));
    }
    static Real sum_of_squares(Real x, Real y, Real z, Real p, Real pt, Real q, Real qt, Real r, Real rt) {
        const Real off = ((p * p + pt * pt) + (q * q + qt * qt)) + (r * r + rt * rt);
        return fused(x, x, fused(y, y, fused(z, z, off)));
    }
};

inline double product_of_columns(const Matrix3& u, int p, int q) {
    return u[0][p] * u[0][q] + u[1][p] * u[1][q] + u[2][p] * u[2][q];
}

// Turn the columns of u to right angles from the right, and write to v by what rotation. One-sided Jacobi: the lengths
// of the columns become the singular values, each to nearly full relative accuracy, and no case is ill-conditioned.
inline void orthogonal_columns(Matrix3& u, Matrix3& v) {
    for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 3; ++j) v[i][j] = i == j ? 1.0 : 0.0;
    }
    for (int sweep = 0; sweep < 30; ++sweep) {
        bool turned = false;
        for (int p = 0; p < 2; ++p) {
            for (int q = p + 1; q < 3; ++q) {
                const double pp = product_of_columns(u, p, p), qq = product_of_columns(u, q, q);
                const double pq = product_of_columns(u, p, q);
                if (std::abs(pq) <= 1e-16 * std::sqrt(pp * qq) || pq == 0.0) continue;
                turned = true;
                const double tau = (qq - pp) / (2.0 * pq);
                const double t = std::copysign(1.0, tau) / (std::abs(tau) + std::sqrt(1.0 + tau * tau));
                const double cosine = 1.0 / std::sqrt(1.0 + t * t), sine = cosine * t;
                for (Matrix3* matrix : {&u, &v}) {
                    for (int i = 0; i < 3; ++i) {
                        double* row = (*matrix)[i];
                        const double x = row[p], y = row[q];
                        row[p] = cosine * x - sine * y;
                        row[q] = sine * x + cosine * y;
                    }
                }
            }
        }
        if (!turned) break;
    }
}

inline double column_length(const Matrix3& u, int p) { return std::sqrt(product_of_columns(u, p, p)); }

// A coordinate of the cross product of two columns.
inline double cross_of_columns(const Matrix3& axes, int p, int q, int i) {
    const int j = (i + 1) % 3, k = (i + 2) % 3;
    return axes[j][p] * axes[k][q] - axes[k][p] * axes[j][q];
}

// Write the proper rotation R that maximises tr(Rᵀ M); M is destroyed.
//
// R is the sum of u_p v_pᵀ over M's singular vectors. Third axes as cross products make it proper and turn the shortest
// axis over where that is needed; nothing is ill-conditioned, and where R is not unique one of the best is taken,
// always the same.
inline void best_rotation(Matrix3& m, Matrix3& rotation) {
    Matrix3 v;
    orthogonal_columns(m, v);
    double lengths[3];
    int last = 0;
    for (int p = 0; p < 3; ++p) {
        lengths[p] = column_length(m, p);
        if (lengths[p] < lengths[last]) last = p;
    }
    int p = (last + 1) % 3, q = (last + 2) % 3;
    if (lengths[p] < lengths[q]) std::swap(p, q);
    const double first = lengths[p], second = lengths[q];
    for (int i = 0; i < 3; ++i) {
        m[i][p] = first > 0.0 ? m[i][p] / first : (i == 0 ? 1.0 : 0.0);
        m[i][q] /= second;
    }
    if (second <= 1e-14 * first) {
        // Atoms on a line leave the turn about that line open.
        int least = 0;
        for (int i = 1; i < 3; ++i) {
            if (std::abs(m[i][p]) < std::abs(m[least][p])) least = i;
        }
        const double along = m[least][p], size = std::sqrt(1.0 - along * along);
        for (int i = 0; i < 3; ++i) m[i][q] = ((i == least ? 1.0 : 0.0) - along * m[i][p]) / size;
    }
    for (int i = 0; i < 3; ++i) {
        const double left = cross_of_columns(m, p, q, i);
        for (int j = 0; j < 3; ++j) {
            rotation[i][j] = m[i][p] * v[j][p] + m[i][q] * v[j][q] + left * cross_of_columns(v, p, q, j);
        }
    }
}

// The weighted mean position of some atoms, relative to the first of them for accuracy.
inline void write_centre(Matrix<const double> frame, Row<const Index> atoms, Row<const double> weights,
                         double (&centre)[3]) {
    for (int axis = 0; axis < 3; ++axis) {
        const double origin = frame(atoms[0], axis);
        double total = 0.0;
        for (Index a = 0; a < atoms.size(); ++a) total += weights[a] * (frame(atoms[a], axis) - origin);
        centre[axis] = origin + total;
    }
}

}  // namespace ldmaps
