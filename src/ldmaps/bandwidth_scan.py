"""How a map changes with its bandwidth: the landmarks' eigenproblem, solved again at other ε with the same cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import gaussian_kernel
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS, solve_spectrum, spectral_gap
from ldmaps.diffusion.walk import Walk, landmark_groups
from ldmaps.errors import InvalidInputError, Named
from ldmaps.fit.resample import coarse_walk
from ldmaps.metrics.base import squared_matrix
from ldmaps.validation.diagnosis import participation_ratios
from ldmaps.validation.error_estimate import can_be_rows

#: ε in units of the map's own.
FACTORS = 2.0 ** np.arange(-4, 5)
#: Fewest landmarks whose own eigenproblem is a map to compare with.
FEWEST_LANDMARKS = 30


@dataclass(frozen=True)
class BandwidthScan:
    """Landmark maps at several ε, the map's own among them; NaN and 0 if the landmarks are disconnected there."""

    epsilons: NDArray[np.float64]  # (n,)
    eigenvalues: NDArray[np.float64]  # (n, p): λ, largest first
    n_components: NDArray[np.intp]  # (n,): coordinates before the largest drop of the spectrum
    participation: NDArray[np.float64]  # (n,): how many points support ψ₂ (participation ratio)
    #: (n,): smallest cosine between the span of the first k coordinates and that of the map's own ε
    similarity: NDArray[np.float64]
    own: int  # which ε is the map's

    def facts(self) -> list[dict[str, Any]]:
        """Return the same for JSON."""
        columns = (self.epsilons, self.eigenvalues, self.n_components, self.participation, self.similarity)
        return [
            {
                "epsilon": float(epsilon),
                "eigenvalues": values.tolist() if k else None,
                "n_components": int(k),
                "participation": float(participation) if k else None,
                "similarity": float(similarity) if np.isfinite(similarity) else None,
            }
            for epsilon, values, k, participation, similarity in zip(*columns, strict=True)
        ]

    def lines(self) -> list[str]:
        """Return a table to print, one line per ε."""
        shown = range(min(4, self.eigenvalues.shape[1]))
        names = [f"lambda{mode + 2}" for mode in shown]
        lines = [
            f"{'epsilon':>12}" + "".join(f"{name:>9}" for name in names) + "   k  support psi2  similarity"
        ]
        for place, (epsilon, values) in enumerate(zip(self.epsilons, self.eigenvalues, strict=True)):
            text, k = "  landmarks are disconnected", self.n_components[place]
            if k:
                text = "".join(f"{values[mode]:9.4f}" for mode in shown)
                text += f"{k:4d}{self.participation[place]:14.0f}{self.similarity[place]:12.3f}"
            lines.append(f"{epsilon:12.5g}{text}" + "  <- this map" * (place == self.own))
        return lines


def scan_bandwidth(model: Any) -> BandwidthScan:
    """Solve a fitted map's walk at ε from a sixteenth to sixteen times its own, over at most a thousand points."""
    count = model.n_components_
    walk, squared = _walk_to_scan(model)
    n_modes = min(MAX_GAP_COMPONENTS + 1, len(squared) - 1)
    epsilons = np.asarray(FACTORS * walk.epsilon, dtype=np.float64)
    maps = [_solved(walk, float(epsilon), squared.copy(), n_modes) for epsilon in epsilons]
    own = int(np.flatnonzero(FACTORS == 1.0)[0])
    ours = maps[own]
    values = np.full((len(maps), n_modes), np.nan)
    k, (participation, similarity) = np.zeros(len(maps), dtype=np.intp), np.full((2, len(maps)), np.nan)
    total = round(float(walk.weights.sum()))
    lengths = np.sqrt(walk.weights)[:, None]
    for place, found in enumerate(maps):
        if found is None:
            continue
        values[place], vectors = found
        k[place] = spectral_gap(values[place])
        participation[place] = participation_ratios(vectors[:, :1], walk.weights, total)[0]
        if ours is not None:
            spans = (lengths * vectors[:, :count], lengths * ours[1][:, :count])
            similarity[place] = np.cos(scipy.linalg.subspace_angles(*spans)[0])
    return BandwidthScan(epsilons, values, k, participation, similarity, own)


@dataclass(frozen=True)
class _Scanned:
    """Points that stand for those which the map was fitted to."""

    weights: NDArray[np.float64]
    epsilon: float
    alpha: float


def _walk_to_scan(model: Any) -> tuple[_Scanned, NDArray[Any]]:
    """Return what to solve and its d²: the medoids that a map has kept, or its landmarks; of many, 400 medoids."""
    embedder = model.embedder_
    alpha = model.alpha if hasattr(model, "alpha") else model.fit_settings["alpha"]
    medoids = model.map_.medoids
    if medoids is not None:
        return _Scanned(medoids.weights, embedder.epsilon, alpha), medoids.matrix()
    if not can_be_rows(embedder.landmarks):
        raise InvalidInputError(
            "a bandwidth scan needs the distances between landmarks, which a map of precomputed distances loaded from "
            "a file does not store; scan the map in the process that fitted it"
        )
    if embedder.n_landmarks < FEWEST_LANDMARKS:
        raise InvalidInputError(
            f"a bandwidth scan needs a map with at least {FEWEST_LANDMARKS} landmarks, or one that was fitted to a "
            f"tolerance by this version of ldmaps; this one has {embedder.n_landmarks}. Fit a map for the scan with ",
            Named("n_landmarks", 400),
        )
    walk = coarse_walk(
        Walk(embedder.metric, embedder.landmarks, model.multiplicities_, embedder.epsilon, alpha)
    ).walk
    return _Scanned(walk.weights, walk.epsilon, walk.alpha), squared_matrix(walk.metric, walk.points)


def _solved(
    walk: _Scanned, epsilon: float, squared: NDArray[Any], n_modes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return eigenvalues and vectors, or None where the kernel between groups of landmarks is zero to rounding."""
    if landmark_groups(squared, np.zeros(len(squared)), epsilon, obeys_triangle=False) is not None:
        return None
    gaussian_kernel(squared, epsilon)
    found = solve_spectrum(squared, walk.weights, n_modes, alpha=walk.alpha)
    return found.eigenvalues, found.vectors
