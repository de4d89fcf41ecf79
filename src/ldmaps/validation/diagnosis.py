"""Whether a map shows the data or a few of its points.

A coordinate is carried by about n_l = (Σ_j c_j ψ_lj²)² / Σ_j c_j ψ_lj⁴ points, its participation ratio, with c scaled
to add up to the number of points: N where all count alike, 1 where a single point stands out. And the bandwidth of a
connected walk is decided by the last edge of the minimum spanning tree, which may lead to one broken frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.diffusion.walk import OUTLIER_SHARE, RAISED
from ldmaps.errors import Named, OutlierWarning

#: Points that make up this much of Σ_j c_j ψ_lj² carry coordinate l.
CARRIED = 0.8
#: A coordinate is doubtful when so few points carry it: this share of them, at least one, at most ten. (The ratio n_l
#: itself would not do: a few points at the fringe of a broad coordinate lower it as well.)
FEW_SHARE, MOST_FEW = 0.03, 10
#: Most points that a message names.
MOST_NAMED = 5

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Diagnosis:
    """How many points a map rests on."""

    participation: _Array  # (k,): effective number of points that carry each coordinate
    #: For each coordinate (from 0) that is carried by suspiciously few points: these training points, the
    #: heaviest first. Landmarks stand for their cells
    carriers: dict[int, NDArray[np.intp]]
    #: Training points that ε was raised for: at most 1 % of all (but one), more than √10 times farther from
    #: the others than the hops that join 99 %; empty where there are none, or where ε was not found by
    #: connecting
    isolated: NDArray[np.intp]
    epsilon_without: float  # ε without them; NaN where there are none
    #: Training points that took no part in the fit: outliers that were dropped, and points of weight 0
    left_out: NDArray[np.intp]
    n_points: int  # how many points took part

    def warning(self, epsilon: float, place: Callable[[int], str]) -> OutlierWarning | None:
        """Return what to tell the user, or None if all is well."""
        parts = [
            f"psi{number + 2} is supported by only {self.participation[number]:.1f} of {self.n_points:,} points, "
            f"mostly {named_points(points, place)}"
            for number, points in self.carriers.items()
        ]
        if len(self.isolated):
            parts.append(
                f"epsilon = {epsilon:.4g} would be {self.epsilon_without:.4g}, {epsilon / self.epsilon_without:.0f} "
                f"times smaller, without {named_points(self.isolated, place)}"
            )
        if not parts:
            return None
        suspects = set(self.isolated.tolist()).union(*(points.tolist() for points in self.carriers.values()))
        share = math.ceil(1000.0 * (len(suspects) + 1e-9) / self.n_points) / 1000.0
        return OutlierWarning(
            f"{'; '.join(parts)}. The map may describe little besides these points. Inspect them; if they are "
            "artefacts, drop them with ",
            Named("outliers", share),
            ". If they are genuine, sample that region more or use a larger epsilon",
        )


def diagnose(
    coordinates: NDArray[Any],
    multiplicities: _Array,
    landmark_indices: NDArray[np.intp],
    used: NDArray[np.intp] | None,
    bandwidth: Bandwidth,
    n_training: int,
) -> Diagnosis:
    """Find out how many points carry each coordinate, and which decide ε."""
    n_points = n_training if used is None else len(used)
    participation = participation_ratios(coordinates, multiplicities, n_points)
    carriers = {
        number: landmark_indices[carrying]
        for number, carrying in handfuls(coordinates, multiplicities, n_points).items()
    }
    isolated, epsilon_without = np.empty(0, dtype=np.intp), math.nan
    tree = bandwidth.tree
    if tree is not None and tree.connecting_epsilon == bandwidth.epsilon:
        most = max(1, int(OUTLIER_SHARE * n_points))
        reach = RAISED * tree.epsilon_joining(n_points - most)
        if tree.connecting_epsilon > reach > 0:
            isolated = np.flatnonzero(~tree.in_largest_component(reach))
            isolated = isolated if used is None else used[isolated]
            epsilon_without = tree.epsilon_joining(n_points - len(isolated))
    left_out = np.empty(0, np.intp) if used is None else np.setdiff1d(np.arange(n_training), used)
    return Diagnosis(participation, carriers, isolated, epsilon_without, left_out, n_points)


def handfuls(coordinates: NDArray[Any], multiplicities: _Array, n_points: int) -> dict[int, NDArray[np.intp]]:
    """Return, for each coordinate that suspiciously few points carry, the landmarks that do."""
    most = min(max(1, int(FEW_SHARE * n_points)), MOST_FEW)
    found = {}
    for number, coordinate in enumerate(coordinates.T):
        parts = multiplicities * np.asarray(coordinate, dtype=np.float64) ** 2
        order = np.argsort(parts)[::-1]
        # The fewest that make up most of it, the heaviest first.
        carrying = order[: np.searchsorted(np.cumsum(parts[order]), CARRIED * parts.sum()) + 1]
        if multiplicities[carrying].sum() * (n_points / multiplicities.sum()) < most + 0.5:
            found[number] = carrying
    return found


def participation_ratios(coordinates: NDArray[Any], multiplicities: _Array, n_points: int) -> _Array:
    """Return the effective number of points, of ``n_points``, that carry each coordinate; shape (k,).

    >>> participation_ratios(np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 5.0]]), np.ones(3), 3)
    array([3., 1.])
    """
    weights = multiplicities * (n_points / multiplicities.sum())
    squares = np.asarray(coordinates, dtype=np.float64) ** 2
    return np.asarray((weights @ squares) ** 2 / (weights @ squares**2))


def named_points(points: NDArray[np.intp], place: Callable[[int], str]) -> str:
    """Return the first few points by name, and how many more there are."""
    named = ", ".join(place(int(point)) for point in points[:MOST_NAMED])
    return named + (f" and {len(points) - MOST_NAMED} more" if len(points) > MOST_NAMED else "")
