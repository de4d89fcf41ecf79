// Graphs that join points by their distances: connectivity and spanning trees, a row at a time.
#include "binding.h"
#include "rows.h"

namespace ldmaps {
namespace {

// Say whether hops lead from the first point to every other; between i and j they reach sqrt(cutoff) + r_i + r_j.
template <class Real>
bool all_within_hops(Matrix<const Real> squared, double cutoff, Row<const double> radii) {
    const Index n = squared.shape(0);
    expect(n > 0, "squared must have a row");
    const double hop = std::sqrt(cutoff);
    const Scratch<Index> unseen(n), waiting(n, 0);
    Index n_unseen = n - 1, n_waiting = 1;
    for (Index place = 0; place < n_unseen; ++place) unseen[place] = place + 1;
    while (n_waiting > 0 && n_unseen > 0) {
        const Index here = waiting[--n_waiting];
        const Row<const Real> row = squared[here];
        Index kept = 0;
        for (Index place = 0; place < n_unseen; ++place) {
            const Index other = unseen[place];
            const double both = radii[here] + radii[other];
            if (row[other] <= cutoff + both * (2.0 * hop + both))
                waiting[n_waiting++] = other;
            else
                unseen[kept++] = other;
        }
        n_unseen = kept;
    }
    return n_unseen == 0;
}
KERNEL(all_within_hops, "squared[n,n] cutoff radii[n]")

// Say whether hops of d² <= cutoff along the entries of a symmetric CSR matrix lead from the first row to all.
template <class Real, class Place>
bool reaches_all(Row<const Place> starts, Row<const Place> columns, Row<const Real> squares, double cutoff) {
    const Index n = starts.size() - 1;
    expect(n > 0, "starts must have two entries or more");
    const Scratch<bool> seen(n, false);
    const Scratch<Index> waiting(n, 0);
    seen[0] = true;
    Index n_waiting = 1, n_seen = 1;
    while (n_waiting > 0 && n_seen < n) {
        const Index here = waiting[--n_waiting];
        expect_range("starts", starts[here], starts[here + 1], squares.size());
        for (Index place = starts[here]; place < starts[here + 1]; ++place) {
            const Index other = columns[place];
            if (squares[place] <= cutoff && !seen[other]) {
                seen[other] = true;
                waiting[n_waiting++] = other;
                ++n_seen;
            }
        }
    }
    return n_seen == n;
}
KERNEL_OF(reaches_all, "starts columns[e] squares[e] cutoff", form(reaches_all<float, std::int32_t>),
          form(reaches_all<double, std::int32_t>), form(reaches_all<float, std::int64_t>),
          form(reaches_all<double, std::int64_t>))

// One step of Prim's algorithm: compare a new tree point's row of d² with the shortest edge of each outside point, and
// return the outside point that is nearest to the tree.
template <class Real>
Index attach_nearest(Row<const Real> row, Index origin, Row<Real> best, Row<Index> parent, Row<const bool> reached) {
    Index closest = -1;
    Real lowest = std::numeric_limits<Real>::infinity();
    for (Index j = 0; j < row.size(); ++j) {
        if (reached[j]) continue;
        if (row[j] < best[j]) best[j] = row[j], parent[j] = origin;
        if (best[j] < lowest) lowest = best[j], closest = j;
    }
    return closest;
}
KERNEL(attach_nearest, "row[n] origin best[n] parent[n] reached[n]")

// Write the minimum spanning tree of a block of d²: the parent and the edge of each point but the first.
template <class Real>
void block_tree(Matrix<const Real> squared, Row<Index> parents, Row<Real> lengths) {
    const Index n = squared.shape(0);
    expect(n > 0, "squared must have a row");
    const Scratch<Index> outside(n);
    for (Index j = 0; j < n; ++j) parents[j] = 0, lengths[j] = squared(0, j), outside[j] = j;
    Index n_outside = n - 1;
    outside[0] = outside[n_outside];
    while (n_outside > 0) {
        Index closest = 0;
        for (Index place = 1; place < n_outside; ++place) {
            if (lengths[outside[place]] < lengths[outside[closest]]) closest = place;
        }
        const Index newest = outside[closest];
        outside[closest] = outside[--n_outside];
        const Row<const Real> row = squared[newest];
        for (Index place = 0; place < n_outside; ++place) {
            const Index other = outside[place];
            if (row[other] < lengths[other]) lengths[other] = row[other], parents[other] = newest;
        }
    }
}
KERNEL(block_tree, "squared[n,n] parents[n] lengths[n]")

// Count a new tree point as neighbour of each outside point within d² = squared_radius, and keep one neighbour drawn
// uniformly. Reservoir sampling: the n-th neighbour replaces the kept one with probability 1/n.
template <class Real>
void count_edges(Row<const Real> row, Index origin, Real squared_radius, Row<Index> degree, Row<Index> parent,
                 Row<const double> draws) {
    for (Index start = 0; start < row.size(); start += BLOCK) {
        const Row<const Real> part = row.slice(start, start + BLOCK);
        const Real* squares = part.data();
        Signed<Real> any = 0;
        for (Index j = 0; j < part.size(); ++j) any |= squares[j] <= squared_radius;
        if (!any) continue;
        Index *degrees = degree.data() + start, *parents = parent.data() + start;
        const double* drawn = draws.data() + start;
#pragma omp simd
        for (Index j = 0; j < part.size(); ++j) {
            const bool is_near = squares[j] <= squared_radius;
            degrees[j] += is_near;
            const bool is_kept = is_near && drawn[j] * static_cast<double>(degrees[j]) < 1.0;
            parents[j] = is_kept ? origin : parents[j];
        }
    }
}
KERNEL(count_edges, "row[n] origin squared_radius degree[n] parent[n] draws[n]")

// The point in which the running total of `degree` passes `target`.
Index pick_by_degree(Row<const Index> degree, Index target) {
    expect(degree.size() > 0, "degree must have an entry");
    Index total = 0;
    for (Index j = 0; j < degree.size(); ++j) {
        total += degree[j];
        if (total > target) return j;
    }
    return degree.size() - 1;
}
KERNEL_OF(pick_by_degree, "degree target", form(pick_by_degree))

}  // namespace
}  // namespace ldmaps
