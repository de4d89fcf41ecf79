"""Rules for the kernel bandwidth ε, a squared length: hops of the random walk reach about √ε (eqn dmap_kernel)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import kernel_curve, rank_distances, squared_tile
from ldmaps.diffusion.walk import REACH, Groups, SpanningTree, connecting_tree, minimum_spanning_tree
from ldmaps.errors import BandwidthWarning, InvalidInputError, Named
from ldmaps.metrics.base import Metric, Points
from ldmaps.settings import LANDMARK_FIT
from ldmaps.user_warnings import warn

#: Share of the other points, and at least how many of them, within √ε of a typical point by the rule "bulk".
BULK_SHARE, BULK_NEIGHBOURS = 0.005, 20
#: Rules other than "connected" look at no more points than this: their averages hardly move beyond.
SAMPLED_POINTS = 4000
#: Of these, so many are the typical points of the rule "bulk", drawn from so many times as many by weight.
BULK_ROWS, BULK_POOL = 1000, 25
#: Of so many points the rule "local" finds the bandwidth; others take it from these.
LOCAL_ROWS = 2000
#: Bandwidths of the log-log rule's curve.
COIFMAN_GRID = 96


@dataclass(frozen=True)
class Bandwidth:
    """A bandwidth and how it was found."""

    epsilon: float
    rule: str  # "bulk", "local", "connected", "coifman" or "given"
    #: of the manifold, estimated by the log-log rule: twice the steepest slope of ln S against ln ε
    dimension: float | None = None
    #: the log-log rule's curve: grid of ε, S(ε) = Σ_ij A_ij, and d ln S/d ln ε
    curve_epsilons: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    curve_sums: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    curve_slopes: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    tree: SpanningTree | None = field(default=None, repr=False)
    #: of points in blocks that are too many for a spanning tree, the exact ε of "connected" lies between this and
    #: ``epsilon``, which joins all points
    lower_bound: float | None = None


def choose_bandwidth(
    rule: Any,
    metric: Metric,
    points: Points,
    weights: NDArray[np.float64],
    rng: np.random.Generator,
    n_threads: int | None = None,
) -> Bandwidth:
    """Return ε by rule (docs/background/theory.md says what each looks at), or check the number given."""
    LANDMARK_FIT["epsilon"].check(rule)
    if rule in ("bulk", "local"):
        squares = _reached(metric, points, weights, n_threads)
        _check_distinct(float(np.median(squares)) if len(squares) else 0.0, len(points))
        # Own bandwidths make the unit of "local" arbitrary; a dense and a sparse half have no stable median.
        typical = np.median(squares) if rule == "bulk" else np.exp(np.log(squares).mean())
        return Bandwidth(float(typical), rule)
    if rule == "connected":
        return _connected(metric, points, n_threads)
    if rule == "coifman":
        bandwidth = _coifman(metric, points, weights, rng, n_threads)
        # Of more points the tree would cost more than the rule; a walk in pieces is then the fit's error.
        if len(points) > SAMPLED_POINTS:
            return bandwidth
        tree = minimum_spanning_tree(metric, points)
        return replace(_held_together(bandwidth, tree, tree.connecting_epsilon), tree=tree)
    return Bandwidth(float(rule), "given")


def leave_out_outliers(
    rule: Any,
    metric: Metric,
    points: Points,
    weights: NDArray[np.float64],
    share: float,
    rng: np.random.Generator,
    n_threads: int | None = None,
) -> tuple[Bandwidth, NDArray[np.bool_]]:
    """Return ε, with the tree of the points that stay, and which these are when the most isolated share may go."""
    # Those that stay are the largest group joined by hops of √ε, or of longer ones if that keeps the others' share.
    n_points = len(points)
    tree = minimum_spanning_tree(metric, points)
    joining = tree.epsilon_joining(n_points - int(share * n_points))
    if rule == "connected":
        _check_distinct(joining, n_points)
        bandwidth = Bandwidth(joining, "connected")
    elif rule == "coifman":
        bandwidth = _held_together(_coifman(metric, points, weights, rng, n_threads), tree, joining)
    else:
        bandwidth = choose_bandwidth(rule, metric, points, weights, rng, n_threads)
    hop = max(bandwidth.epsilon, joining)
    if hop > REACH**2 * bandwidth.epsilon:
        groups = Groups.of(tree, bandwidth.epsilon, REACH, accepted=joining / REACH**2 * (1.0 + 1e-9))
        raise replace(groups, joining_epsilon=joining).error(rule)
    stay = tree.in_largest_component(hop)
    return replace(bandwidth, tree=tree.among(stay)), stay


def _held_together(bandwidth: Bandwidth, tree: SpanningTree, joining: float) -> Bandwidth:
    """Return a rule's bandwidth, raised with a warning to the smallest that joins what ε = ``joining`` does."""
    if REACH**2 * bandwidth.epsilon >= joining:
        return bandwidth
    accepted = joining / REACH**2 * (1.0 + 1e-9)  # room for rounding
    sizes = tree.component_sizes(REACH**2 * bandwidth.epsilon)
    shown = ", ".join(str(size) for size in sizes[:8]) + (", ..." if len(sizes) > 8 else "")
    warn(
        BandwidthWarning(
            f"the log-log rule (Coifman) gives epsilon = {bandwidth.epsilon:.6g}, which leaves the data in "
            f"{len(sizes)} disconnected components (sizes: {shown}); using epsilon = {accepted:.6g}, the smallest "
            "value that connects them. If the small components are artefacts, drop them with ",
            Named("outliers", ...),
        )
    )
    return replace(bandwidth, epsilon=accepted)


def _connected(metric: Metric, points: Points, n_threads: int | None) -> Bandwidth:
    tree = connecting_tree(metric, points, n_threads)
    _check_distinct(tree.connecting_epsilon, len(points))
    return Bandwidth(tree.connecting_epsilon, "connected", tree=tree)


def _check_distinct(epsilon: float, n_points: int) -> None:
    if not epsilon > 0:
        raise InvalidInputError(
            f"all {n_points} points coincide, so epsilon cannot be chosen and there is no motion to map; "
            "check that the data vary (and, for RMSD, that frames differ by more than a rotation)"
        )


@dataclass(frozen=True)
class _Drawn:
    """Points that stand for all, drawn by weight in random order, and how many neighbours the rule "bulk" counts."""

    indices: NDArray[np.intp]
    rank: float


def _drawn(n_points: int, weights: NDArray[np.float64]) -> _Drawn:
    """Draw points by weight: a weight is so many copies."""
    # Weights that are all large say no more than smaller ones.
    weights = weights / max(1.0, float(weights.min()))
    n_copies = max(n_points, round(float(weights.sum())))
    count = min(SAMPLED_POINTS, n_copies)
    share = max(BULK_SHARE, min(BULK_NEIGHBOURS / (n_copies - 1), 0.5))
    # A generator of its own: the landmarks are those that any other ε gives.
    pool = np.random.default_rng(0).choice(n_points, min(n_points, BULK_POOL * SAMPLED_POINTS), replace=False)
    heights = np.cumsum(weights[pool])
    drawn = pool[np.searchsorted(heights, heights[-1] * (np.arange(count) + 0.5) / count)]
    return _Drawn(np.random.default_rng(1).permutation(drawn), max(1.0, share * (count - 1)))


def _reached(
    metric: Metric, points: Points, weights: NDArray[np.float64], n_threads: int | None
) -> NDArray[np.float64]:
    """Return d² from typical points within which 0.5 % of the others are, where they are no copies."""
    drawn = _drawn(len(points), weights)
    n_rows = min(BULK_ROWS, len(drawn.indices))
    squares = rank_distances(metric, points.take(drawn.indices), n_rows, drawn.rank, n_threads)
    return np.asarray(squares[np.isfinite(squares)])


def local_bandwidths(
    metric: Metric, points: Points, weights: NDArray[np.float64], n_threads: int | None = None
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return at most 2,000 points, and the bandwidth of each: the ε of the rule "bulk" if all were as dense as here.

    That is its squared distance to the k-th neighbour, k being 0.5 % of all points, and at least 20.
    """
    drawn = _drawn(len(points), weights)
    n_rows = min(LOCAL_ROWS, len(drawn.indices))
    squares = rank_distances(metric, points.take(drawn.indices), n_rows, drawn.rank, n_threads)
    is_known = np.isfinite(squares)
    _check_distinct(float(is_known.any()), len(points))
    return drawn.indices[:n_rows][is_known], squares[is_known]


def _coifman(
    metric: Metric,
    points: Points,
    weights: NDArray[np.float64],
    rng: np.random.Generator,
    n_threads: int | None,
) -> Bandwidth:
    if len(points) > SAMPLED_POINTS:
        sample = np.sort(rng.choice(len(points), SAMPLED_POINTS, replace=False))
        points, weights = points.take(sample), weights[sample]
    weights = weights / weights.sum()
    # A handful of rows brackets the distances: a grid from far below the closest pair to beyond the widest.
    block = squared_tile(metric, points, slice(0, min(64, len(points))), points)
    positive = block[block > 0]
    if positive.size == 0:
        raise InvalidInputError(
            f"the {len(block)} sampled points all coincide, so the log-log rule cannot find a length scale; "
            "pass epsilon as a number"
        )
    low, high = np.log(float(positive.min())) - 2.0, np.log(float(positive.max())) + 2.0
    grid = np.exp(np.linspace(low, high, COIFMAN_GRID))
    sums, slopes = kernel_curve(metric, points, weights, grid, n_threads)
    peak, shift = int(np.argmax(slopes)), 0.0
    if 0 < peak < len(grid) - 1:
        # The vertex of the parabola through the three highest slopes.
        before, top, after = slopes[peak - 1 : peak + 2]
        bend = before - 2.0 * top + after
        shift = 0.5 * (before - after) / bend if bend < 0 else 0.0
    step = np.log(grid[1] / grid[0])
    epsilon = float(np.exp(np.log(grid[peak]) + shift * step))
    return Bandwidth(epsilon, "coifman", 2.0 * float(slopes[peak]), grid, sums, slopes)
