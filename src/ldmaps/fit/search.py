"""Fitting maps of more and more landmarks until one meets a tolerance.

The reference has seen the held-out points, as it should: its extension to any place is what a landmark map stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.walk import Walk, landmark_groups
from ldmaps.errors import AccuracyWarning, Named
from ldmaps.extension import Embedder, Extension, OnlineStep
from ldmaps.fit.certify import MIN_CERTIFYING, Attempt, Certified, HeldOut, Refused, meet_tolerance
from ldmaps.fit.landmark_fit import LandmarkFit
from ldmaps.fit.select import select
from ldmaps.fit.solve import SolvedMap, solve
from ldmaps.landmarks import LandmarkSelector
from ldmaps.landmarks.base import assign
from ldmaps.quality.diagnosis import participation_ratios
from ldmaps.quality.fidelity import zeta
from ldmaps.settings import NamedLimit
from ldmaps.user_warnings import warn

#: Most landmarks that a tolerance may ask for: their normal equations take half a gigabyte.
MOST_CERTIFIED = 8000


@dataclass(frozen=True)
class ToleranceSearch:
    """The maps that a tolerance is looked for among."""

    extension: Extension
    reference: SolvedMap  # what Z compares with, in as many coordinates as the map has
    held: HeldOut
    selector: LandmarkSelector
    n_eigenvalues: Callable[[int], int]  # how many eigenpairs to solve for over so many landmarks
    seed: int

    def run(self, tolerance: float, n_tried: int = 0) -> Certified[LandmarkFit] | Refused:
        """Return the fit with the fewest landmarks that meet the tolerance, certified, or why there is none."""
        unseen = self._hardly_seen(tolerance, n_tried)
        if unseen is not None:
            return unseen
        most = min(len(self.held.fitted) // 2, MOST_CERTIFIED)
        fewest = min(most, max(4, self._n_components + 2))
        bounds = self.reference.solution.error_bound
        return meet_tolerance(
            self._attempt,
            tolerance,
            "exact" if self.reference.is_exact else "landmarks",
            fewest=fewest,
            most=most,
            reference_error=0.0 if bounds is None else float(np.linalg.norm(bounds)),
            n_tried=n_tried,
        )

    def warn_if_unbounded(self, tolerance: float, n_landmarks: int) -> bool:
        """Say whether the reference's own error has no bound, so that there is no certificate; warn if so."""
        if self.reference.solution.error_bound is not None:
            return False
        n_solved, n_points = len(self.reference.indices), len(self.reference.walk.points)
        warn(
            AccuracyWarning(
                f"tolerance={tolerance:g} was not certified: {n_landmarks} landmarks meet it compared with a map of "
                f"{n_solved:,} of the {n_points:,} points, but the error of that map compared with the exact map of "
                "all points is not known; allow more passes with ",
                NamedLimit("max_passes", ...),
                " or more memory with ",
                NamedLimit("memory", ...),
                ", or check error_estimate",
            )
        )
        return True

    def _hardly_seen(self, tolerance: float, n_tried: int) -> Refused | None:
        """Return a refusal when so few points carry a coordinate that those which certify hardly see it."""
        # Their errors then tell little about the next point of that kind, however small they are.
        reference, n_certifying = self.reference, len(self.held.certify)
        carrying = participation_ratios(reference.own_coordinates, reference.multiplicities, n_certifying)
        fewest = int(np.argmin(carrying))
        if carrying[fewest] >= MIN_CERTIFYING:
            return None
        n_points, n_seen = len(reference.walk.points), float(carrying[fewest])
        return Refused(
            tolerance,
            n_held_out=n_certifying,
            n_tried=n_tried,
            reason=(
                f"psi{fewest + 2} is supported by only {n_seen * n_points / n_certifying:.1f} of {n_points} points, "
                f"so by about {n_seen:.1f} of the {n_certifying} certification points; at least {MIN_CERTIFYING} are "
                "needed to bound its error. Fit to more points, use fewer components or a larger epsilon, drop "
                "outliers with ",
                Named("outliers", 0.01),
                ", or pass ",
                Named("n_landmarks"),
                " instead",
            ),
        )

    def _attempt(self, n_landmarks: int) -> Attempt[LandmarkFit]:
        """Fit a map of so many landmarks and judge it on the held-out points."""
        rng = np.random.default_rng([self.seed, n_landmarks])
        best: LandmarkFit | None = None
        is_differentiable = self.reference.walk.metric.is_differentiable
        for _ in range(self.extension.draws(n_landmarks, is_differentiable=is_differentiable)):
            fit = self._fit(n_landmarks, rng)
            if best is None or (fit is not None and fit.step.held_out_z < best.step.held_out_z):
                best = fit
        if best is None:
            nothing = np.full(1, np.inf)
            return Attempt(None, nothing, nothing)
        squares, largest = self._squared_errors(best.embedder), self._largest_square(best.step)
        search, certify = (slice(0, len(self.held.search)), slice(len(self.held.search), None))
        counted = [self._relative_weights(part) for part in (search, certify)]
        return Attempt(
            best,
            counted[0] * squares[search],
            counted[1] * squares[certify],
            largest * float(max(weights.max() for weights in counted)),
            self.held.block,
        )

    def _fit(self, n_landmarks: int, rng: np.random.Generator) -> LandmarkFit | None:
        """Fit a map of so many landmarks; None where their walk falls apart."""
        walk = self.reference.walk
        selection = select(self.selector.of_size(n_landmarks), self._fitted_walk, rng)
        landmarks = assign(walk, self.held.fitted[selection.landmarks.indices])
        if self.extension.learns_from_reference:
            step = self.extension.fit(self.reference, landmarks, self.held.fitted, rng)
            return LandmarkFit.of(walk, landmarks, step, None)
        squared = selection.distances(self._fitted_walk)
        radii, is_metric = landmarks.squared_radii, walk.metric.is_true_metric
        if landmark_groups(squared, radii, walk.epsilon, obeys_triangle=is_metric) is not None:
            return None
        solved = solve(walk, self.n_eigenvalues(len(landmarks.indices)), landmarks, squared=squared.copy())
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
        return self.reference.coordinates(self._unseen)

    @cached_property
    def _ranges(self) -> NDArray[np.float64]:
        return np.asarray(np.ptp(self.reference.own_coordinates, axis=0))

    def _relative_weights(self, part: slice) -> NDArray[np.float64]:
        """Return the weights of some of the held-out points, 1 on average."""
        weights = self.reference.walk.weights[self._unseen[part]]
        return np.asarray(weights / weights.mean())

    def _squared_errors(self, embedder: Embedder) -> NDArray[np.float64]:
        """Return ζ² in percent² of the held-out points, those of the search first."""
        walk = self.reference.walk
        embedded = embedder.extend(walk.points.take(self._unseen), walk.n_threads).coordinates
        # What was learned from the reference has its order and signs already.
        aligned = self.extension.learns_from_reference
        return zeta(self._targets, embedded, ranges=self._ranges, aligned=aligned) ** 2

    def _largest_square(self, step: OnlineStep) -> float:
        """Return what ζ² in percent² cannot exceed anywhere: both maps average over their coefficients."""
        own = np.abs(self.reference.own_coordinates / self.reference.spectrum.eigenvalues).max(axis=0)
        reach = np.abs(step.coefficients).max(axis=0) + own
        return float(1e4 * ((reach / self._ranges) ** 2).sum())
