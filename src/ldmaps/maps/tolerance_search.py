"""Fitting maps of more and more landmarks until one meets a tolerance.

training points ──┬── fitted:   landmarks are chosen among these, coefficients fitted to these
└── held out: judged against the reference, as if the reference had not seen them either
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.walk import Walk
from ldmaps.errors import DisconnectedError, InvalidInputError
from ldmaps.extension import Embedder, Extension
from ldmaps.landmarks import Landmarks, resolve_selector
from ldmaps.landmarks.base import assign
from ldmaps.maps.landmark_fit import LandmarkFit
from ldmaps.maps.solved_map import SolvedMap, solve
from ldmaps.maps.tolerance import Attempt, Certificate, HeldOut, meet_tolerance
from ldmaps.quality.fidelity import zeta

__all__ = ["ToleranceSearch", "check_number_is_free", "landmark_range"]

#: Most landmarks that a tolerance may ask for: their normal equations take half a gigabyte.
MOST_LANDMARKS = 8000

#: Chooses so many landmarks of a walk; returns them and, if that took them, the d² between them.
Select = Callable[[int, Walk, np.random.Generator], tuple[Landmarks, NDArray[Any] | None]]


@dataclass(frozen=True)
class ToleranceSearch:
    """The maps that a tolerance is looked for among.

    Attributes
    ----------
    extension : Extension
    reference : SolvedMap
        What Z compares with, in as many coordinates as the map has.
    held : HeldOut
    select : callable
    n_eigenvalues : callable
        How many eigenpairs to solve for over so many landmarks.
    seed : int
    """

    extension: Extension
    reference: SolvedMap
    held: HeldOut
    select: Select
    n_eigenvalues: Callable[[int], int]
    seed: int

    def run(self, tolerance: float) -> tuple[LandmarkFit, Certificate]:
        """Return the fit with the fewest landmarks that meet the tolerance, and its certificate."""
        fewest, most = landmark_range(len(self.held.fitted), self._n_components)
        kind = "exact" if self.reference.is_exact else "landmarks"
        return meet_tolerance(self._attempt, tolerance, kind, fewest=fewest, most=most)

    def _attempt(self, n_landmarks: int) -> Attempt[LandmarkFit]:
        """Fit a map of so many landmarks and judge it on the held-out points."""
        rng = np.random.default_rng([self.seed, n_landmarks])
        best: LandmarkFit | None = None
        for _ in range(self.extension.draws(n_landmarks)):
            fit = self._fit(n_landmarks, rng)
            if best is None or (fit is not None and fit.step.held_out_z < best.step.held_out_z):
                best = fit
        if best is None:
            nothing = np.full(1, np.inf)
            return Attempt(None, nothing, nothing)
        squares = self._squared_errors(best.embedder)
        n_search = len(self.held.search)
        return Attempt(best, squares[:n_search], squares[n_search:])

    def _fit(self, n_landmarks: int, rng: np.random.Generator) -> LandmarkFit | None:
        """Fit a map of so many landmarks; None where their walk falls apart."""
        walk = self.reference.walk
        selected, squared = self.select(n_landmarks, self._fitted_walk, rng)
        indices = self.held.fitted[selected.indices]
        landmarks = assign(walk, indices)
        if self.extension.learns_from_reference:
            step = self.extension.fit(self.reference, landmarks, self.held.fitted, rng)
            return LandmarkFit.of(walk, landmarks, step, None)
        try:
            solved = solve(walk, self.n_eigenvalues(len(indices)), landmarks, squared=squared)
        except DisconnectedError:
            return None
        step = self.extension.fit(solved.leading(self._n_components), landmarks, self.held.fitted, rng)
        return LandmarkFit.of(walk, landmarks, step, solved)

    @property
    def _n_components(self) -> int:
        return len(self.reference.spectrum.eigenvalues)

    @cached_property
    def _fitted_walk(self) -> Walk:
        return self.reference.walk.take(self.held.fitted)

    @cached_property
    def _unseen(self) -> NDArray[np.intp]:
        return np.concatenate([self.held.search, self.held.certify])

    @cached_property
    def _targets(self) -> NDArray[np.float64]:
        return self.reference.coordinates_as_unseen(self._unseen)

    @cached_property
    def _ranges(self) -> NDArray[np.float64]:
        return np.asarray(np.ptp(self.reference.own_coordinates, axis=0))

    def _squared_errors(self, embedder: Embedder) -> NDArray[np.float64]:
        """Return ζ² in percent² of the held-out points, those of the search first, counted by their weights."""
        walk = self.reference.walk
        embedded = embedder.extend(walk.points.take(self._unseen), walk.n_threads).coordinates
        weights = walk.weights[self._unseen]
        # What was learned from the reference has its order and signs already.
        errors = zeta(
            self._targets, embedded, ranges=self._ranges, aligned=self.extension.learns_from_reference
        )
        return np.asarray(weights / weights.mean() * errors**2)


def check_number_is_free(landmarks: Any, n_landmarks: int | None, tolerance: float) -> None:
    """Raise when the number of landmarks that a tolerance should find is set already."""
    if n_landmarks is not None:
        raise InvalidInputError(
            f"tolerance={tolerance!r} finds the number of landmarks, so n_landmarks={n_landmarks!r} "
            "cannot be set as well; leave one of them out"
        )
    selector = resolve_selector(landmarks, None, 0)
    if selector.is_automatic or selector.n_landmarks:
        raise InvalidInputError(
            f"{selector!r} fixes the number of landmarks, so no tolerance can choose it; "
            'use landmarks="kmedoids" without a number, or leave tolerance out'
        )


def landmark_range(n_fitted: int, n_components: int) -> tuple[int, int]:
    """Return the fewest and the most landmarks that are tried."""
    most = min(n_fitted // 2, MOST_LANDMARKS)
    return min(most, max(8, 2 * n_components + 2)), most
