"""Free energy over two coordinates of a map, from the density of its points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import InvalidInputError

__all__ = ["FreeEnergy", "free_energy_profile", "free_energy_surface"]

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
        """Return the cells' middles along x and y."""
        n = len(self.energy)
        steps = (np.arange(n) + 0.5) / n
        x, y = (self.low[axis] + steps * (self.high[axis] - self.low[axis]) for axis in (0, 1))
        return x, y


def free_energy_surface(
    points: ArrayLike, weights: ArrayLike | None = None, *, cells: int | None = None, smoothing: float = 1.2
) -> FreeEnergy:
    """Return −ln p of points over the plane.

    Parameters
    ----------
    points : array-like of shape (n, 2)
    weights : array-like of shape (n,), optional
        Multiplicities of the points.
    cells : int, optional
        Cells a side; by default as many as the number of points feeds, 32 to 96.
    smoothing : float
        Width of the Gaussian that counts are smoothed with, in cells; where points are
        few it is 2.5 times that. More hides noise and fills valleys.

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
    masses = np.ones(len(coordinates)) if weights is None else np.asarray(weights, dtype=np.float64)
    n = int(np.clip(np.sqrt(len(coordinates)), 32, 96)) if cells is None else int(cells)
    low, high = coordinates.min(axis=0), coordinates.max(axis=0)
    # Room for the smoothing's reach; a coordinate that does not vary gets a width from its size.
    margin = 0.05 * (high - low) + 1e-9 * np.maximum(np.abs(high), 1e-9)
    low, high = low - margin, high + margin
    counts = np.histogram2d(
        coordinates[:, 0], coordinates[:, 1], bins=n, range=np.column_stack([low, high]), weights=masses
    )[0]
    # A kernel's width is a matter of the point it stands on (Abramson's estimator, with two widths): so lone points
    # make no holes, and crowds no halo.
    single, wider = float(masses.mean()), _WIDER * smoothing
    fed = gaussian_filter(counts, smoothing, mode="constant") * 4 * np.pi * smoothing**2 / single
    crowd = counts / (1.0 + (_FEW / np.maximum(fed, 1e-12)) ** 4)
    lone = gaussian_filter(counts - crowd, wider, mode="constant")
    smooth = gaussian_filter(crowd, smoothing, mode="constant") + lone
    near = distance_transform_edt(~((counts > 0) & (fed > _FEW))) <= _FRINGE
    filled = near | (lone > _EMPTY * single / max(1.0, 2 * np.pi * wider**2))
    filled |= counts > 0
    energy = np.full_like(smooth, np.nan)
    energy[filled] = np.log(smooth.max() / smooth[filled])
    return FreeEnergy(energy, low, high)


def free_energy_profile(
    values: ArrayLike, weights: ArrayLike | None = None, *, cells: int = 80, smoothing: float = 1.2
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the middles of cells along one coordinate and −ln p there, 0 at its lowest, NaN where no points are.

    Parameters
    ----------
    values : array-like of shape (n,)
    weights : array-like of shape (n,), optional
    cells : int
    smoothing : float
        Width of the Gaussian that counts are smoothed with, in cells.
    """
    from scipy.ndimage import gaussian_filter1d

    along = np.asarray(values, dtype=np.float64)
    counts, edges = np.histogram(along, bins=cells, weights=None if weights is None else np.asarray(weights))
    smooth = gaussian_filter1d(counts.astype(np.float64), smoothing, mode="nearest")
    energy = np.full(cells, np.nan)
    filled = counts > 0
    energy[filled] = np.log(smooth[filled].max() / smooth[filled])
    return 0.5 * (edges[:-1] + edges[1:]), energy
