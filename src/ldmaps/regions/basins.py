"""Metastable basins, learned from the landmarks of a map (PCCA+: Deuflhard & Weber 2005, Röblitz & Weber 2013).

The slow eigenvectors of the random walk are nearly constant in each metastable set, so in the coordinates
(1, ψ₂, …, ψ_b) the landmarks of b sets gather around the corners of a simplex. Basins are memberships

    χ_j(x) = a_0j + Σ_l a_lj ψ_l+1(x),    Σ_j χ_j = 1,    χ_j ≥ 0 on the landmarks.

The first guess has its corners at landmarks (inner simplex). Then A is optimised for the crispest memberships that
are feasible and leave every basin a landmark that clearly belongs to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.diffusion.spectrum import places_in_spectrum
from ldmaps.errors import InvalidInputError, Named
from ldmaps.extension.embedder import Coverage
from ldmaps.regions.base import Masks, Region, finite
from ldmaps.settings import is_whole_number
from ldmaps.validation.states import corners_of, find_states, relaxation_rates

#: Most basins to look for by default where there are no metastable states.
MOST_BASINS = 8
#: Most basins whose memberships are optimised: the search has (b-1)² unknowns.
MOST_OPTIMISED = 6


class Basin(Region):
    """One learned basin: where the membership a₀ + a₁ψ₂ + a₂ψ₃ + … is high; eigenvalues recognise its map."""

    kind = "basin"

    def __init__(
        self,
        coefficients: Sequence[float],
        eigenvalues: Sequence[float],
        *,
        enter: float = 0.7,
        leave: float = 0.5,
    ) -> None:
        self.coefficients = [finite("a coefficient of a basin", value) for value in coefficients]
        self.eigenvalues = [finite("an eigenvalue of a basin", value) for value in eigenvalues]
        if not 2 <= len(self.coefficients) <= len(self.eigenvalues) + 1:
            raise InvalidInputError(
                f"a basin has a constant and one coefficient per coordinate, got {len(self.coefficients)} coefficients "
                f"and {len(self.eigenvalues)} eigenvalues"
            )
        self.enter, self.leave = _thresholds(enter, leave)

    def membership(self, coordinates: NDArray[Any]) -> NDArray[np.float64]:
        """Return the membership of each point; beyond the landmarks it may be below 0 or above 1."""
        # Summed by column, not by a matrix product, whose rounding depends on the batch. One point alone,
        # as it comes from a simulation, is quicker in plain numbers, and rounds the same.
        psi = coordinates[0].tolist() if len(coordinates) == 1 else coordinates.T.astype(np.float64)
        total = self.coefficients[0]
        for coefficient, values in zip(self.coefficients[1:], psi, strict=False):
            total = total + coefficient * values
        return np.atleast_1d(total)

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        membership = self.membership(coordinates)
        return membership >= self.enter, membership >= self.leave

    def check_model(self, model: Any) -> None:
        """Raise when the map is not the one the basin was learned from."""
        now, then = np.asarray(getattr(model, "eigenvalues_", ()), dtype=np.float64), self.eigenvalues
        if len(now) != len(then) or not np.allclose(now, then, rtol=1e-6, atol=0):
            raise InvalidInputError(
                f"the basin was learned from another map, with eigenvalues {_excerpt(then)} where this one "
                f"has {_excerpt(now)}; learn basins from this map"
            )


@dataclass(frozen=True)
class Basins:
    """All learned basins of a map.

    Attributes
    ----------
    regions : dict of str to Basin
        For a :class:`~ldmaps.regions.tracker.RegionTracker`, most populated first.
    crispness : float
        How nearly the memberships are 0 or 1, averaged over basins and weighted by
        multiplicity; 1 is perfect, 1/b says nothing.
    min_chi : float
        Lowest membership of the inner simplex, before it was made feasible: near 0
        where b basins describe the map well, clearly negative where they do not.
    populations : ndarray of shape (b,)
        Share of the training points in each basin, Σ_i c_i χ_j(i) / Σ_i c_i.
    """

    regions: dict[str, Basin]
    crispness: float
    min_chi: float
    populations: NDArray[np.float64]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the basins."""
        return tuple(self.regions)

    def memberships(self, coordinates: ArrayLike) -> NDArray[np.float64]:
        """Return χ, the membership of points in every basin, shape (n, b); rows sum to 1.

        Parameters
        ----------
        coordinates : ndarray of shape (n, k)
            As ``transform`` returns them.
        """
        points = np.asarray(coordinates)
        return np.stack([basin.membership(points) for basin in self.regions.values()], axis=1)

    def labels(self, coordinates: ArrayLike) -> NDArray[np.intp]:
        """Return the basin of highest membership of each point, as indices in ``names``.

        Parameters
        ----------
        coordinates : ndarray of shape (n, k)
            As ``transform`` returns them.
        """
        labels: NDArray[np.intp] = np.argmax(self.memberships(coordinates), axis=1)
        return labels


def find_basins(
    model: Any,
    n_basins: int | None = None,
    *,
    enter: float = 0.7,
    leave: float = 0.5,
    names: Sequence[str] | None = None,
) -> Basins:
    """Find the metastable basins of a fitted map.

    Parameters
    ----------
    model : LandmarkDiffusionMap or DiffusionMap
        The map, fitted.
    n_basins : int, optional
        b, up to ``n_components_ + 1``. By default as many as there are metastable states:
        coordinates are nearly constant within each, and the walk relaxes at least three
        times faster within them than between them. Where there are none, the b at which
        the walk's timescales -1/ln λ drop most from λ_b to λ_{b+1}. In both cases the
        next lower number if a basin could not be entered.
    enter, leave : float
        Membership from which a basin is entered, and below which it is left. With
        ``leave`` of 0.5 or more, no record can be in two basins.
    names : sequence of str, optional
        One per basin, most populated first; "basin 1", "basin 2", … by default.

    Returns
    -------
    Basins
        Regions, names, populations and crispness.

    See Also
    --------
    region_labels : which basin each point is in.
    count_transitions : transitions and dwell times.
    representatives : a landmark per basin.

    References
    ----------
    S. Röblitz and M. Weber, "Fuzzy spectral clustering by PCCA+", Advances in Data Analysis and Classification 7,
    147-179 (2013).

    Examples
    --------
    >>> import numpy as np
    >>> from ldmaps import LandmarkDiffusionMap
    >>> rng = np.random.default_rng(0)
    >>> wells = np.concatenate([rng.normal(-2, 0.5, (600, 2)), rng.normal(2, 0.5, (300, 2))])
    >>> model = LandmarkDiffusionMap(2, 0.5, n_landmarks=100).fit(wells)
    >>> find_basins(model, 2, names=["left", "right"]).populations.round(2).tolist()
    [0.67, 0.33]
    """
    high, _ = _thresholds(enter, leave)
    if not hasattr(model, "eigenvalues_"):
        raise InvalidInputError(
            f"basins are found by slow modes, and {', '.join(model.coordinate_names_)} has no time scale; use the map "
            "that it was learned on, or draw a region with bounds"
        )
    k = int(model.n_components_)
    if n_basins is not None and not (is_whole_number(n_basins) and 2 <= n_basins <= k + 1):
        raise InvalidInputError(
            f"n_basins must be a whole number from 2 to {k + 1} for a map of {k} coordinates, got {n_basins!r}; "
            "for more basins, fit a map with more coordinates (n_components)"
        )
    b = _number_of_basins(model) if n_basins is None else int(n_basins)
    fit = _fit(model, b)
    while n_basins is None and b > 2 and fit.lowest_peak < high:
        b -= 1
        fit = _fit(model, b)
    if fit.lowest_peak < high:
        raise InvalidInputError(
            f"the map does not resolve {b} basins: the membership of one of them never exceeds {fit.lowest_peak:.2f}, "
            f"so no frame would be in its core at {high:g}; ask for fewer basins, or lower ",
            Named("enter", ...),
        )
    eigenvalues = np.asarray(model.eigenvalues_, dtype=np.float64).tolist()
    return Basins(
        {
            name: Basin(column, eigenvalues, enter=enter, leave=leave)
            for name, column in zip(_names(names, b), fit.coefficients.T.tolist(), strict=True)
        },
        fit.crispness,
        fit.min_chi,
        fit.populations,
    )


def representatives(model: Any, regions: Mapping[str, Region]) -> dict[str, int]:
    """Return the landmark in the middle of each region, counted from 0, by the region's name.

    Among the landmarks in a region it is the one nearest to their mean, weighted by
    multiplicity, in the coordinates ψ, which are all of the same length and so need no scale.

    Parameters
    ----------
    model : LandmarkDiffusionMap or DiffusionMap
        The map, fitted.
    regions : mapping of str to Region
        Such as ``find_basins(model).regions``.

    Returns
    -------
    dict of str to int
        Numbers of landmarks; ``model.landmark_indices_`` has the training points.

    See Also
    --------
    find_basins : the metastable states of a map.
    """
    psi = np.asarray(model.landmark_embedding_, dtype=np.float64)
    weights = np.asarray(model.multiplicities_, dtype=np.float64)
    at_home = Coverage(np.zeros(len(psi)), np.ones(len(psi), dtype=bool), np.arange(len(psi)))
    middles = {}
    for name, region in regions.items():
        region.check_model(model)
        members = np.flatnonzero(region.masks(psi, at_home)[0])
        if not len(members):
            raise InvalidInputError(
                f"no landmark lies in the region {name!r}, so it has no representative; leave it out"
            )
        mean = np.average(psi[members], axis=0, weights=weights[members])
        middles[name] = int(members[np.argmin(((psi[members] - mean) ** 2).sum(axis=1))])
    return middles


class _Fit(NamedTuple):
    """Memberships of b basins, most populated first; ``coefficients`` is A, (b, b), for ψ as it is."""

    coefficients: NDArray[np.float64]
    populations: NDArray[np.float64]
    crispness: float
    min_chi: float
    lowest_peak: float


def _fit(model: Any, b: int) -> _Fit:
    psi = np.asarray(model.landmark_embedding_, dtype=np.float64)[:, : b - 1]
    weights = np.asarray(model.multiplicities_, dtype=np.float64)
    # Eigenvectors come at any scale; of order 1 they make one tolerance fit all.
    scale = np.abs(psi).max(axis=0)
    X = np.column_stack([np.ones(len(psi)), psi / scale])
    A = _inner_simplex(X)
    min_chi = float((X @ A).min())
    A = _feasible(A[1:, 1:], X)
    if 2 < b <= MOST_OPTIMISED:  # of two, feasibility leaves no choice
        A = _crispest(A, X, weights)
    chi = X @ A
    populations = weights @ chi / weights.sum()
    order = np.argsort(-populations, kind="stable")
    return _Fit(
        np.vstack([A[:1], A[1:] / scale[:, None]])[:, order],
        populations[order],
        _crispness(chi, weights),
        min_chi,
        float(chi.max(axis=0).min()),
    )


def _number_of_basins(model: Any) -> int:
    """Return how many metastable states the map has, or into how many sets it falls most clearly."""
    k, sampling = int(model.n_components_), getattr(model, "sampling_", None)
    n_states = 1 if sampling is None else int(sampling.n_states)
    kept = np.asarray(model.eigenvalues_, dtype=np.float64)
    spectrum = np.asarray(getattr(model, "spectrum_", kept), dtype=np.float64)
    if n_states == 1:
        # The leading modes: a fit leaves out harmonics, and absorbing may leave slower modes between coordinates.
        is_leading = places_in_spectrum(kept, spectrum) == np.arange(k)
        n_leading = k if is_leading.all() else int(np.argmin(is_leading))
        psi = np.asarray(model.landmark_embedding_, dtype=np.float64)[:, :n_leading]
        n_states = find_states(spectrum, psi, np.asarray(model.multiplicities_, dtype=np.float64)).count
    if n_states > 1:
        return min(n_states, k + 1)
    # One eigenvalue more than the basins use, to see the drop after them.
    rates = relaxation_rates(spectrum[: min(k, MOST_BASINS - 1) + 1])
    return 2 if len(rates) < 2 else int(np.argmax(rates[1:] / rates[:-1])) + 2


def _inner_simplex(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return A that is 1 for each basin at its own corner, corners being the outermost landmarks."""
    corners = corners_of(X[:, 1:])
    if corners is None:
        raise InvalidInputError(
            f"the landmarks do not span {X.shape[1]} basins; ask for fewer, or use more landmarks"
        )
    return np.asarray(np.linalg.inv(X[corners]), dtype=np.float64)


def _feasible(inner: NDArray[np.float64], X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Complete the (b-1)×(b-1) free part of A so that memberships are not negative and sum to 1."""
    b = X.shape[1]
    A = np.empty((b, b))
    A[1:, 1:] = inner
    A[1:, 0] = -inner.sum(axis=1)
    A[0] = -(X[:, 1:] @ A[1:]).min(axis=0)
    A /= A[0].sum()
    return A


def _crispest(
    A: NDArray[np.float64], X: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the feasible A of crispest memberships, found by a simplex search from a first guess."""
    from scipy.optimize import minimize

    b = len(A)

    def goal(chi: NDArray[np.float64]) -> float:
        # By crispness alone, the search would sacrifice a superfluous basin for the others.
        return _crispness(chi, weights) * float(chi.max(axis=0).min())

    def fuzziness(inner: NDArray[np.float64]) -> float:
        return -goal(X @ _feasible(inner.reshape(b - 1, b - 1), X))

    optimum = minimize(
        fuzziness,
        A[1:, 1:].ravel(),
        method="Nelder-Mead",
        options={"maxfev": 400 * (b - 1) ** 2, "xatol": 1e-6, "fatol": 1e-9},
    )
    better = _feasible(optimum.x.reshape(b - 1, b - 1), X)
    return better if np.isfinite(better).all() and -optimum.fun >= goal(X @ A) else A


def _crispness(chi: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    totals = weights @ chi
    if not np.isfinite(totals).all() or (totals <= 0).any():
        return 0.0
    return float(np.mean(weights @ chi**2 / totals))


def _thresholds(enter: Any, leave: Any) -> tuple[float, float]:
    high, low = finite("enter", enter), finite("leave", leave)
    if not 0.0 < low <= high <= 1.0:
        raise InvalidInputError(
            f"a basin needs memberships 0 < leave <= enter <= 1, got enter={enter!r} and leave={leave!r}"
        )
    return high, low


def _names(names: Sequence[str] | None, b: int) -> list[str]:
    if names is None:
        return [f"basin {number}" for number in range(1, b + 1)]
    is_list = isinstance(names, Sequence) and not isinstance(names, str)
    if not (is_list and all(isinstance(name, str) for name in names) and len(names) == len({*names}) == b):
        raise InvalidInputError(f"names must be {b} different names, one per basin, got {names!r}")
    return list(names)


def _excerpt(values: Any) -> str:
    return ", ".join(f"{value:.4g}" for value in list(values)[:4]) + (", ..." if len(values) > 4 else "")
