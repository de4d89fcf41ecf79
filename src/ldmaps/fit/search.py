"""Fitting maps of more and more landmarks until one meets a tolerance.

The reference has seen the held-out points, as it should: its extension to any place is what a landmark map stands for.
Points that were left out as isolated judge too, as often as they come: no promise to new points may select among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.walk import Walk, landmark_groups
from ldmaps.errors import AccuracyWarning, Named
from ldmaps.extension import Embedder, Extension, OnlineStep
from ldmaps.fit.certify import SHARE, Attempt, Certified, Refused, meet_tolerance
from ldmaps.fit.confidence_bound import MIN_CERTIFYING, HeldOutErrors
from ldmaps.fit.hold_out import HeldOut, Strays, independent_block
from ldmaps.fit.landmark_fit import LandmarkFit
from ldmaps.fit.select import select
from ldmaps.fit.solve import SolvedMap, solve
from ldmaps.landmarks import LandmarkSelector
from ldmaps.landmarks.base import assign
from ldmaps.settings import NamedLimit
from ldmaps.user_warnings import warn
from ldmaps.validation.diagnosis import participation_ratios
from ldmaps.validation.fidelity import point_errors

#: Most landmarks that a tolerance may ask for: their normal equations take half a gigabyte.
MOST_CERTIFIED = 8000
#: Of the points that carry a coordinate, at most this part may be among the worst, which a tolerance is not about: a
#: state that few points visit must not be left out of the promise.
WORST_OF_CARRYING = 0.4
#: Fewest draws of the same number of landmarks before more of them are tried.
MIN_DRAWS = 2


@dataclass(frozen=True)
class ToleranceSearch:
    """The maps that a tolerance is looked for among."""

    extension: Extension
    reference: SolvedMap  # what Z compares with, in as many coordinates as the map has
    held: HeldOut
    selector: LandmarkSelector
    n_eigenvalues: Callable[[int], int]  # how many eigenpairs to solve for over so many landmarks
    seed: int
    left_out: Strays | None = None  # points that took no part in the walk, but that new points may be like

    def run(self, tolerance: float, n_tried: int = 0) -> Certified[LandmarkFit] | Refused:
        """Return the fit with the fewest landmarks that meet the tolerance, certified, or why there is none."""
        unseen = self._hardly_seen(tolerance, n_tried)
        if unseen is not None:
            return unseen
        most = min(len(self.held.fitted) // 2, MOST_CERTIFIED)
        fewest = min(most, max(4, len(self._modes) + 2))
        bounds = self.reference.solution.error_bound
        found = meet_tolerance(
            self._attempt,
            self._draws,
            tolerance,
            "exact" if self.reference.is_exact else "landmarks",
            fewest=fewest,
            most=most,
            share=self._share,
            reference_error=0.0 if bounds is None else float(np.linalg.norm(bounds)),
            n_tried=n_tried,
        )
        if isinstance(found, Refused):
            return found
        return replace(found, fit=found.fit.with_domain_for(self.held.fitted, self._unseen))

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
        reference, n_certifying, carrying = self.reference, len(self.held.certify), self._carrying
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

    @cached_property
    def _carrying(self) -> NDArray[np.float64]:
        """About how many of the points that certify carry each coordinate."""
        reference = self.reference
        return participation_ratios(
            reference.own_coordinates, reference.multiplicities, len(self.held.certify)
        )

    @property
    def _share(self) -> float:
        """Share of new points that the tolerance is about: 99 %, or more if few points carry a coordinate."""
        carrying = float(self._carrying.min()) / len(self.held.certify)
        return max(SHARE, 1.0 - WORST_OF_CARRYING * carrying)

    def _draws(self, n_landmarks: int) -> int:
        """Return how many draws of so many landmarks to try before more of them."""
        is_differentiable = self.reference.walk.metric.is_differentiable
        return max(MIN_DRAWS, self.extension.draws(n_landmarks, is_differentiable=is_differentiable))

    def _attempt(self, n_landmarks: int, draw: int) -> Attempt[LandmarkFit]:
        """Fit a map of so many landmarks and judge it on the held-out points."""
        fit = self._fit(n_landmarks, np.random.default_rng([self.seed, n_landmarks, draw]))
        if fit is None:
            nothing = HeldOutErrors.independent(np.full(1, np.inf))
            return Attempt(None, nothing, nothing)
        squares = self._squared_errors(fit.embedder)
        search, certify = self._places(self.held.search), self._places(self.held.certify)
        searching = self._errors(squares, search, self.held.block)
        weights = self._weights[certify]
        # Errors that stay alike longer than rows do count as one; too few of these make one block, which has no bound.
        block = independent_block(weights / weights.mean() * squares[certify], self.held.block)
        certifying = self._errors(squares, certify, block or len(weights))
        return Attempt(fit, searching, certifying, self._largest_square(fit.step))

    def _errors(self, squares: NDArray[np.float64], places: NDArray[np.intp], block: int) -> HeldOutErrors:
        """Return the errors of some of the points that judge, so many consecutive ones of which make a block."""
        return HeldOutErrors(squares[places], self._weights[places], np.arange(len(places)) // block)

    def _places(self, held: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where some held-out members and the strays between them are among the points that judge, in order."""
        members = np.flatnonzero(np.isin(self._unseen, held))
        if self._strays is None:
            return members
        strays = np.flatnonzero(np.isin(self._strays.after, held))
        rows = np.concatenate([self._unseen[members], self._strays.after[strays]])
        # Stable: a stray comes after the member that it follows.
        return np.concatenate([members, len(self._unseen) + strays])[np.argsort(rows, kind="stable")]

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
        falls_apart = landmark_groups(squared, radii, walk.epsilon, obeys_triangle=is_metric) is not None
        if falls_apart and walk.n_groups == 1:
            return None
        solved = solve(walk, self.n_eigenvalues(len(landmarks.indices)), landmarks, squared=squared.copy())
        solved = solved.taking(self._modes[self._modes < len(solved.spectrum.eigenvalues)])
        step = self.extension.fit(solved, landmarks, self.held.fitted, rng)
        return LandmarkFit.of(walk, landmarks, step, solved)

    @property
    def _modes(self) -> NDArray[np.intp]:
        """Which modes of a walk are the coordinates."""
        modes = self.reference.modes
        return np.arange(len(self.reference.spectrum.eigenvalues)) if modes is None else modes

    @cached_property
    def _fitted_walk(self) -> Walk:
        return self.reference.walk.take(self.held.fitted)

    @cached_property
    def _unseen(self) -> NDArray[np.intp]:
        return np.concatenate([self.held.search, self.held.certify])

    @cached_property
    def _strays(self) -> Strays | None:
        """The points that were left out and judge together with those held out around them; None if there are none."""
        return None if self.left_out is None else self.left_out.among(self.held)

    @cached_property
    def _weights(self) -> NDArray[np.float64]:
        """The weights of the points that judge: those held out, then the strays."""
        weights = self.reference.walk.weights[self._unseen]
        return weights if self._strays is None else np.concatenate([weights, self._strays.weights])

    @cached_property
    def _targets(self) -> NDArray[np.float64]:
        targets = self.reference.coordinates(self._unseen)
        if self._strays is None:
            return targets
        extended = self.reference.embedder().extend(self._strays.points, self.reference.walk.n_threads)
        return np.concatenate([targets, extended.coordinates])

    @cached_property
    def _ranges(self) -> NDArray[np.float64]:
        return np.asarray(np.ptp(self.reference.own_coordinates, axis=0))

    def _squared_errors(self, embedder: Embedder) -> NDArray[np.float64]:
        """Return ζ² in percent² of the points that judge: those held out, the search's first, then the strays."""
        walk = self.reference.walk
        embedded = embedder.extend(walk.points.take(self._unseen), walk.n_threads).coordinates
        if self._strays is not None:
            extended = embedder.extend(self._strays.points, walk.n_threads)
            embedded = np.concatenate([embedded, extended.coordinates])
        # What was learned from the reference has its order and signs already.
        is_matched = self.extension.learns_from_reference
        return point_errors(self._targets, embedded, ranges=self._ranges, matched=is_matched) ** 2

    def _largest_square(self, step: OnlineStep) -> float:
        """Return what ζ² in percent² cannot exceed anywhere: both maps average over their coefficients."""
        own = np.abs(self.reference.own_coordinates / self.reference.spectrum.eigenvalues).max(axis=0)
        reach = np.abs(step.coefficients).max(axis=0) + own
        return float(1e4 * ((reach / self._ranges) ** 2).sum())
