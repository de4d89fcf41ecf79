"""A tolerance instead of a number of landmarks: search, then certify on points that chose nothing.

The tolerance bounds Z of 99 % of new points: the root mean square of ζ over all of them but the worst 1 %. The fewest
landmarks that seem to keep it are found by points of the search, and only then certified, on other points. If that
fails, more landmarks are tried only if they lower the error, with more confidence asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from ldmaps.errors import ToleranceError
from ldmaps.fit.confidence_bound import MIN_CERTIFYING, HeldOutErrors, bound_z, bound_z_of_all, bound_zeta

#: Probability with which a certificate holds.
CONFIDENCE = 0.95
#: Fewer independent blocks than this are mentioned.
MANY_INDEPENDENT = 100
#: A refusal mentions how many points carry half of the squared error where they are fewer than this.
FEW_CARRYING = 10
#: Share of new points that a tolerance is about, at least.
SHARE = 0.99
#: The search asks for this confidence of a bound by as many points as will certify: more than they will be asked for,
#: by about one standard error of their mean, so that the candidate it finds is likely to be certified.
SEARCH_CONFIDENCE = 0.998
#: Numbers of landmarks that are tried grow by this factor, or by one; the search first goes so many of them at a time.
STEP, STRIDE = 1.2, 4
#: Landmarks are drawn again, before more are tried, if the bound of those drawn exceeds the tolerance by at most this
#: factor.
NEAR_MISS = 1.5
#: The search gives up after so many numbers of landmarks in succession that do not lower the bound to this part of what
#: it was.
PATIENCE, WORTHWHILE = 4, 0.9
#: The same after a missed certificate, from where numbers are tried one after the other: up to three times as many.
PATIENCE_AFTER_MISS = 6
#: Fewer landmarks than were found to meet the tolerance are tried until so many numbers in succession do not.
VAIN = 2
#: After a missed certificate, a bound that is lower by less than this factor is not worth another.
LOWER = 0.95


@dataclass(frozen=True)
class Certificate:
    """What a map promises about points it has not seen. Each promise holds with probability ``confidence``.

    Attributes
    ----------
    tolerance, held_out_z : float
        Z in percent that was asked for, and Z of all held-out points that took no part in any choice.
    upper_bound, share : float
        Z of this share of unseen points from the same source, 0.99 or more, is below this, the reference's error
        included. The others are those with the largest errors.
    confidence : float
        Probability with which this holds.
    n_held_out, n_landmarks : int
        Points that the bounds rest on, and M, the fewest that were found to do.
    reference : str
        What the held-out points were compared with: "exact", the map of all points that were searched with, or
        "landmarks", one of many more landmarks.
    reference_error : float
        Z of the reference itself against the exact map is at most this.
    zeta_bound : float or None
        At least ``share`` of unseen points have an error ζ, compared with the reference, below this; None if there were
        too few held-out points to say.
    upper_bound_of_all : float or None
        Z of all unseen points is below this if errors beyond those seen fall off as the largest of them do, an
        assumption that the other bounds do not need.
    n_independent : int
        How many independent blocks of held-out points the bound rests on: consecutive rows whose errors are alike count
        as one. 0 in files of earlier versions.
    covered : float
        Share of the training points that the certificate covers: all but those that the setting ``outliers`` dropped.
        Points that the rule for ε left out as isolated count among the held-out ones, so that new points like them are
        among those promised; in files of earlier versions they do not.
    n_searched : int
        With how many of the training points landmarks were searched for, where these were a sample; 0 for all.
    """

    tolerance: float
    held_out_z: float
    upper_bound: float
    confidence: float
    n_held_out: int
    n_landmarks: int
    reference: str
    reference_error: float
    # Files of format 3.1 and older have none of these; their bound is that of all points.
    share: float = 1.0
    zeta_bound: float | None = None
    upper_bound_of_all: float | None = None
    n_independent: int = 0
    covered: float = 1.0
    n_searched: int = 0

    def __str__(self) -> str:
        points = f"{100 * self.share:.4g} % of new points"
        largest = "" if self.zeta_bound is None else f", their largest error below {self.zeta_bound:.3g} %"
        of_all = (
            ""
            if self.upper_bound_of_all is None
            else f", of all new points probably below {self.upper_bound_of_all:.3g} %"
        )
        text = (
            f"Z of {points} is below {self.upper_bound:.3g} %{largest}, with {100 * self.confidence:.0f} % confidence; "
            f"Z of all {self.n_held_out:,} held-out points{self._blocks} is {self.held_out_z:.3g} %{of_all}"
        )
        if self.covered < 1.0:
            text += (
                f"; points like the {100 * (1 - self.covered):.2g} % of the training points that were left out as "
                "outliers are not covered"
            )
        if self.n_searched:
            text += f"; errors are relative to the map of a sample of {self.n_searched:,} of the points"
        return text

    @property
    def _blocks(self) -> str:
        """In how many blocks, where these are few because rows remember each other."""
        is_worth_saying = 0 < self.n_independent < min(MANY_INDEPENDENT, self.n_held_out)
        return f" in {self.n_independent} independent blocks" if is_worth_saying else ""


@dataclass(frozen=True)
class Refused:
    """Why no number of landmarks that was allowed can be certified to keep the tolerance."""

    tolerance: float
    best_bound: float = math.inf  # lowest upper bound of Z that was reached, in percent
    n_landmarks: int = 0  # of that map; 0 where none were tried
    n_held_out: int = 0  # points that it was measured on
    reason: str | tuple[Any, ...] = ""
    n_tried: int = 0  # certificates that were tried; each next one is asked for with more confidence
    epsilon: float = math.nan  # what the rule for ε gave
    share: float = SHARE  # of new points, that the tolerance is about

    def error(self) -> ToleranceError:
        """Return what to raise."""
        return ToleranceError(
            self.tolerance,
            self.best_bound,
            self.n_landmarks,
            self.n_held_out,
            self.reason,
            self.n_tried,
            self.share,
        )


_Fit = TypeVar("_Fit")


@dataclass(frozen=True)
class Certified(Generic[_Fit]):
    """A map that keeps the tolerance, and what it promises."""

    fit: _Fit
    certificate: Certificate


@dataclass(frozen=True)
class Attempt(Generic[_Fit]):
    """A map with some number of landmarks, and its errors at both sets of held-out points."""

    fit: _Fit | None  # None if so few landmarks make no map
    search: HeldOutErrors
    certify: HeldOutErrors
    largest: float = math.inf  # what no square of these can exceed

    def searched(self, share: float) -> float:
        """Return a bound of Z to search by."""
        if self.fit is None:
            return math.inf
        return bound_z(self.search, share, SEARCH_CONFIDENCE, len(self.certify.squares))

    def certified(self, share: float, confidence: float) -> float:
        """Return an upper confidence bound of Z of a share of unseen points."""
        return math.inf if self.fit is None else bound_z(self.certify, share, confidence)


def meet_tolerance(
    attempt: Callable[[int, int], Attempt[_Fit]],
    draws: Callable[[int], int],
    tolerance: float,
    reference: str,
    *,
    fewest: int,
    most: int,
    share: float = SHARE,
    reference_error: float = 0.0,
    confidence: float = CONFIDENCE,
    n_tried: int = 0,
    may_grow: bool = True,
) -> Certified[_Fit] | Refused:
    """Find the fewest landmarks that meet a tolerance, and certify them, after so many certificates were tried.

    ``attempt(count, draw)`` fits a map of so many landmarks; ``draws(count)`` says how many draws of them are worth it.
    ``may_grow`` says whether more landmarks are tried after a certificate that was missed.
    """
    if reference_error >= tolerance:
        return Refused(
            tolerance,
            reason=f"the map that errors are measured against is only known to be within {reference_error:.3g} "
            "percent of the exact map itself; raise the tolerance or the memory that limits allows",
            n_tried=n_tried,
        )
    tried = _Tried(attempt, draws, share, reference_error)
    counts = _numbers_of_landmarks(fewest, most)
    place = _first_that_meets(tried, counts, tolerance)
    if place is None:
        best = tried.best()
        return _refused(tolerance, best, tried.bounds[best], tried.kept[best].search, n_tried, share)
    promised: dict[int, float] = {}
    target = tolerance
    while place is not None:
        count = counts[place]
        made = tried.best_of_all_draws(count)
        n_tried += 1
        doubt = (1.0 - confidence) / 2.0**n_tried  # those of all that are tried add up to what was asked for
        promised[count] = made.certified(share, 1.0 - doubt) + reference_error
        if made.fit is not None and promised[count] <= tolerance:
            within = bound_zeta(made.certify, share, 1.0 - doubt)
            certificate = Certificate(
                tolerance=tolerance,
                held_out_z=math.sqrt(made.certify.mean(made.certify.squares)),
                upper_bound=promised[count],
                confidence=confidence,
                n_held_out=len(made.certify.squares),
                n_landmarks=count,
                reference=reference,
                reference_error=reference_error,
                share=share,
                zeta_bound=within if math.isfinite(within) else None,
                upper_bound_of_all=bound_z_of_all(made.certify, 1.0 - doubt, made.largest) + reference_error,
                n_independent=made.certify.n_blocks,
            )
            return Certified(made.fit, certificate)
        if not may_grow:
            break
        # As much lower in the search as it was missed by.
        target = min(target, tried.bounds[count]) * min(LOWER, tolerance / promised[count])
        place = _next_that_meets(tried, counts, place, target)
    best = min(promised, key=promised.__getitem__)
    return _refused(tolerance, best, promised[best], tried.kept[best].certify, n_tried, share)


def _numbers_of_landmarks(fewest: int, most: int) -> list[int]:
    """Return the numbers of landmarks that may be tried.

    Few and fixed ones: how a fit is rounded then moves the result to a neighbouring number at most.

    >>> _numbers_of_landmarks(4, 30)
    [4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 29, 30]
    """
    counts = [min(fewest, most)]
    while counts[-1] < most:
        counts.append(min(most, max(counts[-1] + 1, round(STEP * counts[-1]))))
    return counts


@dataclass
class _Tried(Generic[_Fit]):
    """The maps that a search has tried: of each number of landmarks the best draw, by points of the search."""

    attempt: Callable[[int, int], Attempt[_Fit]]
    draws: Callable[[int], int]
    share: float
    reference_error: float
    kept: dict[int, Attempt[_Fit]] = field(default_factory=dict)
    bounds: dict[int, float] = field(default_factory=dict)
    n_drawn: dict[int, int] = field(default_factory=dict)

    def meets(self, count: int, target: float) -> bool:
        """Say whether a map of so many landmarks has a bound below the target; near misses are drawn again."""
        self._draw_while(count, lambda bound: target < bound <= NEAR_MISS * target)
        return self.bounds[count] <= target

    def best_of_all_draws(self, count: int) -> Attempt[_Fit]:
        """Return the best of as many draws of so many landmarks as are worth it."""
        self._draw_while(count, lambda bound: True)
        return self.kept[count]

    def best(self) -> int:
        """Return the number of landmarks with the lowest bound."""
        return min(self.bounds, key=self.bounds.__getitem__)

    def _draw_while(self, count: int, is_worth_it: Callable[[float], bool]) -> None:
        while count not in self.kept or (
            self.n_drawn[count] < self.draws(count) and is_worth_it(self.bounds[count])
        ):
            draw = self.n_drawn.get(count, 0)
            made = self.attempt(count, draw)
            bound = made.searched(self.share) + self.reference_error
            self.n_drawn[count] = draw + 1
            if count not in self.kept or bound < self.bounds[count]:
                self.kept[count], self.bounds[count] = made, bound


@dataclass
class _Patience:
    """Whether more landmarks still lower the bound."""

    lowest: float = math.inf
    most: int = PATIENCE
    n_in_vain: int = 0

    def see(self, bound: float) -> None:
        """Take in the bound of the next number of landmarks."""
        if bound <= WORTHWHILE * self.lowest:
            self.lowest, self.n_in_vain = bound, 0
        else:
            self.n_in_vain += 1

    @property
    def is_over(self) -> bool:
        return self.n_in_vain >= self.most


def _first_that_meets(tried: _Tried[_Fit], counts: list[int], tolerance: float) -> int | None:
    """Return the place of the fewest landmarks that meet the tolerance in the search; None if none do."""
    place, below, patience = 0, -1, _Patience()
    while not tried.meets(counts[place], tolerance):
        patience.see(tried.bounds[counts[place]])
        if place == len(counts) - 1 or patience.is_over:
            return None
        below, place = place, min(place + STRIDE, len(counts) - 1)
    while place - below > 1:
        middle = (below + place) // 2
        if tried.meets(counts[middle], tolerance):
            place = middle
        else:
            below = middle
    return _fewer_that_meet(tried, counts, place, tolerance)


def _fewer_that_meet(tried: _Tried[_Fit], counts: list[int], place: int, tolerance: float) -> int:
    """Return the place of still fewer landmarks that meet the tolerance, where luck has misled halving; or this one."""
    n_in_vain, fewer = 0, place - 1
    while fewer >= 0 and n_in_vain < VAIN:
        if tried.meets(counts[fewer], tolerance):
            place, n_in_vain = fewer, 0
        else:
            n_in_vain += 1
        fewer -= 1
    return place


def _next_that_meets(tried: _Tried[_Fit], counts: list[int], place: int, target: float) -> int | None:
    """Return the place of the fewest further landmarks that meet a lower target in the search; None if none do."""
    patience = _Patience(tried.bounds[counts[place]], PATIENCE_AFTER_MISS)
    while place < len(counts) - 1 and not patience.is_over:
        place += 1
        if tried.meets(counts[place], target):
            return place
        patience.see(tried.bounds[counts[place]])
    return None


def _refused(
    tolerance: float, n_landmarks: int, bound: float, errors: HeldOutErrors, n_tried: int, share: float
) -> Refused:
    """Return the refusal of a bound that is too high; it says where few points are to blame."""
    squares = errors.clipped(share)
    running = np.cumsum(np.sort(squares)[::-1])
    n_carrying = int(np.searchsorted(running, 0.5 * running[-1])) + 1
    reason = ""
    if math.isinf(bound):
        reason = (
            "the errors of consecutive points are so strongly correlated that all held-out points amount to fewer than "
            f"{MIN_CERTIFYING} independent samples, too few for a bound"
        )
    elif n_carrying < FEW_CARRYING:
        reason = (
            f"half of the squared error comes from {n_carrying} of them, too few to bound rare large errors"
        )
    return Refused(tolerance, bound, n_landmarks, len(squares), reason, n_tried, share=share)
