// Bookkeeping of Voronoi cells; each loop reads the points once.
#include <limits>

#include "binding.h"

namespace ldmaps {
namespace {

// Write all points to `order`: the members of some cells, cell after cell, each cell's as they stand, then the others.
// `bounds` is filled with where each of the cells begins and the last one ends; there are `n_cells` in all.
void members_by_cell(Row<const Index> assignment, Row<const Index> cells, Index n_cells, Row<Index> order,
                     Row<Index> bounds) {
    const Index n = assignment.size(), count = cells.size();
    const Scratch<Index> slots(n_cells, count), following(count + 1, 0);
    for (Index slot = 0; slot < count; ++slot) slots[cells[slot]] = slot;
    for (Index point = 0; point < n; ++point) ++following[slots[assignment[point]]];
    Index total = 0;
    for (Index slot = 0; slot <= count; ++slot) {
        bounds[slot] = total;
        total += following[slot];
        following[slot] = bounds[slot];
    }
    for (Index point = 0; point < n; ++point) order[following[slots[assignment[point]]]++] = point;
}
KERNEL_OF(members_by_cell, "assignment[n] cells[m] n_cells order[n] bounds[m+1]", form(members_by_cell))

// Replace the landmark of each cell by the member with the lowest sum (the first among equals), unless that is not
// below `gain` times the landmark's own.
void best_of_cells(Row<const Index> order, Row<const Index> bounds, Row<const double> sums, double gain,
                   Row<Index> landmarks) {
    constexpr double INFINITE = std::numeric_limits<double>::infinity();
    for (Index cell = 0; cell < landmarks.size(); ++cell) {
        expect_range("bounds", bounds[cell], bounds[cell + 1], order.size());
        double lowest = INFINITE, own = INFINITE;
        Index winner = -1;
        for (Index member = bounds[cell]; member < bounds[cell + 1]; ++member) {
            if (order[member] == landmarks[cell]) own = sums[member];
            if (sums[member] < lowest) lowest = sums[member], winner = order[member];
        }
        if (lowest < gain * own) landmarks[cell] = winner;
    }
}
KERNEL_OF(best_of_cells, "order[n] bounds[m+1] sums[n] gain landmarks[m]", form(best_of_cells))

// Add the weights of points to their cells, and widen these to the farthest d² of a point of positive weight. `weights`
// without an entry stand for ones.
template <class Real>
void count_cells(Row<const Index> assignment, Row<const Real> squared, Row<const double> weights,
                 Row<double> multiplicities, Row<double> radii) {
    const bool is_weighted = weights.size() > 0;
    if (is_weighted) expect_shape("weights", weights, assignment.size());
    double *counts = multiplicities.data(), *widths = radii.data();
    for (Index point = 0; point < assignment.size(); ++point) {
        const Index cell = assignment[point];
        const double weight = is_weighted ? weights[point] : 1.0, square = squared[point];
        counts[cell] += weight;
        if (weight > 0.0 && square > widths[cell]) widths[cell] = square;
    }
}
KERNEL(count_cells, "assignment[n] squared[n] weights multiplicities[m] radii[m]")

}  // namespace
}  // namespace ldmaps
