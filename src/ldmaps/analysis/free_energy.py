"""Free energy over one or two coordinates of a map, from the density of its points."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.settings import check_whole

#: Points with fewer neighbours than this are smeared out more widely than the rest, by this factor.
_FEW, _WIDER = 5.0, 2.5
#: Such points show to where their density is this share of their peak; the others to so many cells from them.
_EMPTY, _FRINGE = 0.5, 1.5


@dataclass(frozen=True)
class FreeEnergy:
    """−ln p on a grid, in units of k_BT, 0 at its lowest.

    Attributes
    ----------
    energy : ndarray of shape (cells, cells)
        First index along x, second along y; NaN where there are no points.
    low, high : ndarray of shape (2,)
        Corners of the grid.
    """

    energy: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @property
    def highest(self) -> float:
        """Largest free energy that was sampled."""
        return float(np.nanmax(self.energy))

    def centres(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the cells' middles along x and along y, each of shape (cells,)."""
        steps = (np.arange(len(self.energy))[:, None] + 0.5) / len(self.energy)
        x, y = (self.low + steps * (self.high - self.low)).T
        return x, y


@dataclass(frozen=True)
class FreeEnergyProfile:
    """−ln p along one coordinate, in units of k_BT, 0 at its lowest.

    Attributes
    ----------
    centres : ndarray of shape (cells,)
        The cells' middles.
    energy : ndarray of shape (cells,)
        NaN where there are no points.
    error : ndarray of shape (cells,)
        Standard error of −ln p; NaN where all points are in one block.
    """

    centres: NDArray[np.float64]
    energy: NDArray[np.float64]
    error: NDArray[np.float64]


def free_energy_surface(
    points: ArrayLike, weights: ArrayLike | None = None, *, cells: int | None = None, smoothing: float = 1.2
) -> FreeEnergy:
    """Return −ln p of points over the plane, up to what the sample can show: ln n for n points of equal weight.

    Parameters
    ----------
    points : array-like of shape (n, 2)
        Two coordinates of each point.
    weights : array-like of shape (n,), optional
        Multiplicities of the points.
    cells : int, optional
        Cells per side; by default 32 to 96, growing with the number of points.
    smoothing : float
        Width of the Gaussian that counts are smoothed with, in cells; 2.5 times that where points are few. More
        hides noise and fills valleys.

    Returns
    -------
    FreeEnergy
        The grid and −ln p in k_BT.

    See Also
    --------
    free_energy_profile : along one coordinate, with errors.

    Examples
    --------
    >>> points = np.random.default_rng(0).normal(size=(5000, 2))
    >>> surface = free_energy_surface(points)
    >>> float(np.nanmin(surface.energy)), surface.energy.shape
    (0.0, (70, 70))
    """
    from scipy.ndimage import distance_transform_edt, gaussian_filter

    coordinates = np.asarray(points, dtype=np.float64)
    if coordinates.ndim != 2 or coordinates.shape[1] != 2 or not len(coordinates):
        raise InvalidInputError(
            f"a free-energy surface needs points of shape (n, 2), got {coordinates.shape}"
        )
    n = int(np.clip(np.sqrt(len(coordinates)), 32, 96)) if cells is None else int(cells)
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    # Room for the smoothing's reach; a coordinate that does not vary gets a width from its size.
    margin = 0.05 * (high - low) + 1e-9 * np.maximum(np.abs(high), 1e-9)
    low, high = low - margin, high + margin
    coordinates, masses = _of_some_weight(coordinates, weights)
    counted = partial(np.histogram2d, *coordinates.T, bins=n, range=np.column_stack([low, high]))
    points_in = counted()[0]
    mass_in = points_in if weights is None else counted(weights=masses)[0]
    # A kernel's width is a matter of the point it stands on (Abramson's estimator, with two widths): so lone points
    # make no holes, and crowds no halo. How many points there are decides it, not what they weigh.
    wider = _WIDER * smoothing
    narrow, wide = (partial(gaussian_filter, sigma=width, mode="constant") for width in (smoothing, wider))
    fed = narrow(points_in) * 4 * np.pi * smoothing**2
    crowded = 1.0 / (1.0 + (_FEW / np.maximum(fed, 1e-12)) ** 4)
    smooth = narrow(crowded * mass_in) + wide((1.0 - crowded) * mass_in)
    # One point's density at its own place; its weight is that of the points around.
    weight_near_by = wide(mass_in) / np.maximum(wide(points_in), 1e-300)
    smooth = np.maximum(smooth, weight_near_by / max(1.0, 2 * np.pi * smoothing**2))
    filled = distance_transform_edt(~((points_in > 0) & (fed > _FEW))) <= _FRINGE
    filled |= wide((1.0 - crowded) * points_in) > _EMPTY / max(1.0, 2 * np.pi * wider**2)
    filled |= points_in > 0
    energy = np.full_like(smooth, np.nan)
    energy[filled] = np.log(smooth.max() / smooth[filled])
    return FreeEnergy(energy, low, high)


def free_energy_profile(
    values: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    cells: int | None = None,
    smoothing: float = 1.2,
    blocks: int = 5,
) -> FreeEnergyProfile:
    """Return −ln p of values along one coordinate, with its error; for n values of equal weight at most ln n.

    The error is a jackknife: −ln p is computed without each block of the values, in the order given, in turn.

    Parameters
    ----------
    values : array-like of shape (n,)
        One coordinate of each point, in the order of time.
    weights : array-like of shape (n,), optional
        Multiplicities of the values.
    cells : int, optional
        By default 24 to 80, growing with the number of values.
    smoothing : float
        Width of the Gaussian that counts are smoothed with, in cells; 0 leaves them as they are.
    blocks : int
        How many. More make the error steadier, but too small where they are shorter than the correlation time.

    Returns
    -------
    FreeEnergyProfile
        Positions, −ln p and its error in k_BT.

    See Also
    --------
    free_energy_surface : over two coordinates.

    Examples
    --------
    >>> profile = free_energy_profile(np.random.default_rng(0).normal(size=5000))
    >>> float(np.nanmin(profile.energy)), bool(np.nanmin(profile.error) < 0.1)
    (0.0, True)
    """
    from scipy.ndimage import gaussian_filter1d

    along = np.asarray(values, dtype=np.float64)
    if along.ndim != 1 or not len(along):
        raise InvalidInputError(f"a free-energy profile needs values of shape (n,), got {along.shape}")
    check_whole("blocks", blocks, 2)
    along, masses = _of_some_weight(along, weights)
    n = int(np.clip(np.sqrt(len(along)), 24, 80)) if cells is None else int(cells)
    edges = np.histogram_bin_edges(along, bins=n)
    parts = np.array_split(np.arange(len(along)), min(int(blocks), len(along)))
    counts = np.stack([np.histogram(along[part], edges)[0] for part in parts])
    sums = np.stack([np.histogram(along[part], edges, weights=masses[part])[0] for part in parts])
    smooth = gaussian_filter1d(sums, smoothing, axis=1, mode="nearest") if smoothing else sums
    total = smooth.sum(axis=0)
    filled = counts.sum(axis=0) > 0
    energy, error = np.full(n, np.nan), np.full(n, np.nan)
    energy[filled] = np.log(total[filled].max() / total[filled])
    # Not rarer than one point of the weight there: smoothing heaps counts up at the ends.
    one = sums.sum(axis=0)[filled] / counts.sum(axis=0)[filled]
    energy[filled] = np.minimum(energy[filled], np.log(masses.sum() / one))
    # Where a single block has been, nothing is known of what another would say.
    several = (counts > 0).sum(axis=0) > 1
    if several.any():
        without = total - smooth
        free = np.log(sums.sum() - sums.sum(axis=1, keepdims=True)) - np.log(without[:, several])
        share = (len(parts) - 1) / len(parts)
        error[several] = np.sqrt(share * ((free - free.mean(axis=0)) ** 2).sum(axis=0))
    return FreeEnergyProfile(0.5 * (edges[:-1] + edges[1:]), energy, error)


def _of_some_weight(
    points: NDArray[np.float64], weights: ArrayLike | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return points and weights without those of weight 0: where there are no others, −ln p would be infinite."""
    masses = np.ones(len(points)) if weights is None else np.asarray(weights, dtype=np.float64)
    counts = masses > 0
    return points[counts], masses[counts]
