"""How a map changes with its bandwidth: the landmarks' eigenproblem, solved again at other ε.

Landmarks and their multiplicities stay, so that each step is the landmark map that a fit with these landmarks and that
ε gives, for M² exponentials and one small eigenproblem.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.diffusion.connectivity import check_landmarks_connected
from ldmaps.diffusion.pairwise import gaussian_kernel
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS, solve_spectrum, spectral_gap
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import DisconnectedError, InvalidInputError, Named
from ldmaps.maps.map_sampling import few_landmarks
from ldmaps.metrics.squared_matrix import squared_matrix
from ldmaps.quality.diagnosis import participation_ratios
from ldmaps.quality.error_estimate import can_be_rows

#: ε in units of the map's own.
FACTORS = 2.0 ** np.arange(-4, 5)
#: Fewest landmarks whose own eigenproblem is a map to compare with.
FEWEST_LANDMARKS = 30


@dataclass(frozen=True)
class BandwidthScan:
    """Landmark maps at several ε, the map's own among them; NaN and 0 where the landmarks fall apart.

    Attributes
    ----------
    epsilons : ndarray of shape (n,)
    eigenvalues : ndarray of shape (n, p)
        λ, largest first.
    n_components : ndarray of int, shape (n,)
        Coordinates before the largest drop of the spectrum.
    carried : ndarray of shape (n,)
        How many points carry ψ₂ (participation ratio).
    likeness : ndarray of shape (n,)
        Smallest cosine between the span of the first k coordinates and that of the map's own ε; 1 where it is the same.
    own : int
        Which ε is the map's.
    """

    epsilons: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    n_components: NDArray[np.intp]
    carried: NDArray[np.float64]
    likeness: NDArray[np.float64]
    own: int

    def facts(self) -> list[dict[str, Any]]:
        """Return the same for JSON."""
        columns = (self.epsilons, self.eigenvalues, self.n_components, self.carried, self.likeness)
        return [
            {
                "epsilon": float(epsilon),
                "eigenvalues": values.tolist() if k else None,
                "n_components": int(k),
                "carried": float(carried) if k else None,
                "likeness": float(likeness) if np.isfinite(likeness) else None,
            }
            for epsilon, values, k, carried, likeness in zip(*columns, strict=True)
        ]

    def lines(self) -> list[str]:
        """Return a table to print, one line per ε."""
        shown = range(min(4, self.eigenvalues.shape[1]))
        names = [f"lambda{mode + 2}" for mode in shown]
        lines = [f"{'epsilon':>12}" + "".join(f"{name:>9}" for name in names) + "   k  carry psi2  likeness"]
        for place, (epsilon, values) in enumerate(zip(self.epsilons, self.eigenvalues, strict=True)):
            text = f"{epsilon:12.5g}"
            if self.n_components[place]:
                text += "".join(f"{values[mode]:9.4f}" for mode in shown)
                text += (
                    f"{self.n_components[place]:4d}{self.carried[place]:12.0f}{self.likeness[place]:10.3f}"
                )
            else:
                text += "  the landmarks fall apart"
            lines.append(text + ("  <- this map" if place == self.own else ""))
        return lines


def scan_bandwidth(model: Any) -> BandwidthScan:
    """Solve a map's landmarks at ε from a sixteenth to sixteen times its own.

    Parameters
    ----------
    model : LandmarkDiffusionMap, DiffusionMap or what :func:`ldmaps.load` returns
        Fitted. Of more than 1,000 landmarks 400 medoids stand for all.

    Returns
    -------
    BandwidthScan
    """
    embedder, count = model.embedder_, model.n_components_
    if embedder.n_landmarks < FEWEST_LANDMARKS or not can_be_rows(embedder.landmarks):
        raise InvalidInputError(
            f"a scan of epsilon solves the landmarks' own map again, which needs {FEWEST_LANDMARKS} landmarks with "
            f"distances between them; this map has {embedder.n_landmarks}. Fit one with ",
            Named("n_landmarks", 400),
        )
    alpha = model.description.settings["alpha"] if hasattr(model, "description") else model.alpha
    walk, _ = few_landmarks(
        Walk(embedder.metric, embedder.landmarks, model.multiplicities_, embedder.epsilon, alpha)
    )
    squared = squared_matrix(walk.metric, walk.points)
    n_modes = min(MAX_GAP_COMPONENTS + 1, len(squared) - 1)
    epsilons = np.asarray(FACTORS * walk.epsilon, dtype=np.float64)
    maps = [_solved(replace(walk, epsilon=float(epsilon)), squared.copy(), n_modes) for epsilon in epsilons]
    own = int(np.flatnonzero(FACTORS == 1.0)[0])
    ours = maps[own]
    values = np.full((len(maps), n_modes), np.nan)
    k, carried, likeness = (
        np.zeros(len(maps), dtype=np.intp),
        np.full(len(maps), np.nan),
        np.full(len(maps), np.nan),
    )
    lengths = np.sqrt(walk.weights)[:, None]
    for place, found in enumerate(maps):
        if found is None:
            continue
        values[place], vectors = found
        k[place] = spectral_gap(values[place])
        carried[place] = participation_ratios(vectors[:, :1], walk.weights, round(float(walk.weights.sum())))[
            0
        ]
        if ours is not None:
            spans = (lengths * vectors[:, :count], lengths * ours[1][:, :count])
            likeness[place] = np.cos(scipy.linalg.subspace_angles(*spans)[0])
    return BandwidthScan(epsilons, values, k, carried, likeness, own)


def _solved(
    walk: Walk, squared: NDArray[Any], n_modes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return eigenvalues and vectors, or None where the kernel between groups of landmarks is zero to rounding."""
    try:
        check_landmarks_connected(squared, np.zeros(len(squared)), walk.epsilon, obeys_triangle=False)
    except DisconnectedError:
        return None
    gaussian_kernel(squared, walk.epsilon)
    found = solve_spectrum(squared, walk.weights, n_modes, alpha=walk.alpha)
    return found.eigenvalues, found.vectors
