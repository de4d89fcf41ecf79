// Spanning trees of points by their distances.
#include <limits>

#include "binding.h"

namespace ldmaps {
namespace {

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

}  // namespace
}  // namespace ldmaps
