"""Fitting maps of more and more landmarks until one meets a tolerance.

The search compares maps at the points that were held out for it and, while a fit follows these little, at those that
were fitted to: what is to be foreseen is a bound that a hundredth of the points decides, and a few hundred tell little
of it. A fit of p numbers to n values has squared errors at other points (1 − p/n)⁻² times those at its own (generalised
cross-validation: Golub, Heath and Wahba, Technometrics 21, 215 (1979)), and more where the few points that decide are
followed more closely than others, which the points held out for the search show. The certificate rests on points that
none of this has seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.walk import Walk, landmark_groups
from ldmaps.errors import AccuracyWarning, Named
from ldmaps.extension import Extension, OnlineStep
from ldmaps.fit.certify import SHARE, Attempt, Certified, Refused, meet_tolerance
from ldmaps.fit.confidence_bound import MIN_CERTIFYING, HeldOutErrors
from ldmaps.fit.hold_out import HeldOut, Strays
from ldmaps.fit.judges import Judges
from ldmaps.fit.landmark_fit import LandmarkFit
from ldmaps.fit.select import select
from ldmaps.fit.solve import SolvedMap, solve
from ldmaps.landmarks import LandmarkSelector
from ldmaps.landmarks.base import assign
from ldmaps.settings import NamedLimit
from ldmaps.user_warnings import warn
from ldmaps.validation.diagnosis import participation_ratios

#: Most landmarks that a tolerance may ask for: their normal equations take half a gigabyte.
MOST_CERTIFIED = 8000
#: Of the points that carry a coordinate, at most this part may be among the worst, which a tolerance is not about: a
#: state that few points visit must not be left out of the promise.
WORST_OF_CARRYING = 0.4
#: Fitted points take part in the search while p/n is at most this.
MOST_FOLLOWED = 0.25
#: Fewest draws of the same number of landmarks before more of them are tried.
MIN_DRAWS = 3


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

    def run(
        self, tolerance: float, n_tried: int = 0, *, fewest: int = 4, may_grow: bool = True
    ) -> Certified[LandmarkFit] | Refused:
        """Return the fit with the fewest landmarks that meet the tolerance, certified, or why there is none.

        Parameters are those of :func:`~ldmaps.fit.certify.meet_tolerance`.
        """
        unseen = self._hardly_seen(tolerance, n_tried)
        if unseen is not None:
            return unseen
        most = min(len(self.held.fitted) // 2, MOST_CERTIFIED)
        fewest = min(most, max(fewest, len(self._modes) + 2))
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
            may_grow=may_grow,
        )
        if isinstance(found, Refused):
            return found
        held_out = np.concatenate([self.held.search, self.held.certify])
        return replace(found, fit=found.fit.with_domain_for(self.held.fitted, held_out))

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
        search, fitted, certify = self._judges
        # What was learned from the reference has its order and signs already.
        is_matched = self.extension.learns_from_reference
        squares = search.squares(fit.embedder, is_matched=is_matched)
        # Errors that stay alike longer than rows do count as one.
        block = search.independent_block(squares) or search.block
        searching = search.errors(squares, block)
        followed = self._n_chosen(fit.step) / len(self.held.fitted)
        if followed <= MOST_FOLLOWED:
            seen = fitted.squares(fit.embedder, is_matched=is_matched) / (1.0 - followed) ** 2
            searching = searching.and_those(searching.raised(fitted.errors(seen, block), self._share))
        squares = certify.squares(fit.embedder, is_matched=is_matched)
        # Too few of these make one block, which has no bound.
        certifying = certify.errors(squares, certify.independent_block(squares) or len(certify))
        return Attempt(fit, searching, certifying, self._largest_square(fit.step))

    def _n_chosen(self, step: OnlineStep) -> float:
        """Return how many numbers for each coordinate a fit has chosen: B, and a share of what all coordinates have."""
        n_landmarks, k = step.coefficients.shape
        walk, n_features = self.reference.walk, 0
        if step.moved is not None:
            n_features = int(np.count_nonzero(walk.metric.places(walk.points.take(np.arange(1))).scales))
        return float(n_landmarks * (1.0 + (1.0 + n_features) / k))

    @cached_property
    def _judges(self) -> tuple[Judges, Judges, Judges]:
        """The points that the search looks at, those that it may look at, and those that certify."""
        held = self.held
        search, fitted, certify = (
            Judges.of(self.reference, members, self.left_out, held.block)
            for members in (held.search, held.fitted, held.certify)
        )
        return search, fitted, certify

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
    def _ranges(self) -> NDArray[np.float64]:
        return np.asarray(np.ptp(self.reference.own_coordinates, axis=0))

    def _largest_square(self, step: OnlineStep) -> float:
        """Return what ζ² in percent² cannot exceed anywhere: both maps average over their coefficients."""
        own = np.abs(self.reference.own_coordinates / self.reference.spectrum.eigenvalues).max(axis=0)
        reach = np.abs(step.coefficients).max(axis=0) + own
        return float(1e4 * ((reach / self._ranges) ** 2).sum())
