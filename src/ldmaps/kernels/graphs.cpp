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
KERNEL(attach_nearest, "row[n] origin=.. best[n] parent[n] reached[n]")

// Write the minimum spanning tree of a block of d²: the parent and the edge of each point but the first.
template <class Real>
void block_tree(Matrix<const Real> squared, Row<Index> parents, Row<Real> lengths) {
    const Index n = squared.shape(0);
    const Scratch<bool> reached(n, false);
    parents.fill(0);
    lengths.fill(std::numeric_limits<Real>::infinity());
    for (Index newest = 0; newest >= 0;
         newest = attach_nearest<Real>(squared[newest], newest, lengths, parents, reached.row())) {
        reached[newest] = true;
    }
}
KERNEL(block_tree, "squared[n=1..,n] parents[n] lengths[n]")

}  // namespace
}  // namespace ldmaps
