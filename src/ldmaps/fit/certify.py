"""A tolerance instead of a number of landmarks: search, then certify on points that chose nothing.

Where the bound of Z misses the tolerance, M grows, and the confidence asked for with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named, ToleranceError
from ldmaps.fit.confidence_bound import seen_bound, upper_bound

#: Probability with which a certificate holds.
CONFIDENCE = 0.95
#: Share of the points held out, the most of them, and which part of those is for the search.
HELD_OUT_SHARE, MAX_HELD_OUT, SEARCH_PART = 0.5, 20_000, 0.4
#: Points are held out in so many blocks of consecutive ones, or a few more: frames close in time resemble each other,
#: and those beside a frame that was fitted to would not tell how unseen ones fare.
HELD_OUT_BLOCKS = 200
#: Fewest points that a bound may rest on.
MIN_CERTIFYING = 30
#: A refusal mentions how many points carry half of the squared error where they are fewer than this.
FEW_CARRYING = 10
#: Bisection ends when the numbers of landmarks that miss and meet the tolerance are within this factor.
RESOLUTION = 1.1
#: Growth after a missed certificate: as far as it was missed, within these factors.
LEAST_GROWTH, MOST_GROWTH = 1.25, 2.0


@dataclass(frozen=True)
class Certificate:
    """What a map promises about points it has not seen.

    Attributes
    ----------
    tolerance, held_out_z : float
        Z in percent that was asked for, and on held-out points that took no part in any choice.
    upper_bound, confidence : float
        Z of unseen points from the same source is below this with this probability, the reference's error included.
    n_held_out, n_landmarks : int
        Points that the bound rests on, and M, the fewest that were found to do.
    reference : str
        What the held-out points were compared with: "exact", the map of all training points, or "landmarks", one of
        many more landmarks.
    reference_error : float
        Z of the reference itself against the exact map is at most this.
    """

    tolerance: float
    held_out_z: float
    upper_bound: float
    confidence: float
    n_held_out: int
    n_landmarks: int
    reference: str
    reference_error: float


@dataclass(frozen=True)
class HeldOut:
    """Which points are fitted to, which guide the search, and which certify."""

    fitted: NDArray[np.intp]
    search: NDArray[np.intp]
    certify: NDArray[np.intp]
    block: int = 1  # how many consecutive points of ``search`` and ``certify`` were held out together


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

    def error(self) -> ToleranceError:
        """Return what to raise."""
        return ToleranceError(
            self.tolerance, self.best_bound, self.n_landmarks, self.n_held_out, self.reason, self.n_tried
        )


_Fit = TypeVar("_Fit")


@dataclass(frozen=True)
class Certified(Generic[_Fit]):
    """A map that keeps the tolerance, and what it promises."""

    fit: _Fit
    certificate: Certificate


@dataclass(frozen=True)
class Attempt(Generic[_Fit]):
    """A map with some number of landmarks, and how it fares."""

    fit: _Fit | None  # none where so few landmarks make no map
    search: NDArray[np.float64]  # ζ² in percent² of both sets of held-out points, counted by their weights
    certify: NDArray[np.float64]
    largest: float = math.inf  # what none of these can exceed
    block: int = 1  # how many consecutive points were held out together

    def searched(self, confidence: float) -> float:
        """Return a bound of Z to search by: rough, since the fewer points of the search tell the tail badly."""
        return math.inf if self.fit is None else math.sqrt(seen_bound(self.search, confidence))

    def certified(self, confidence: float) -> float:
        """Return an upper confidence bound of Z of unseen points."""
        if self.fit is None:
            return math.inf
        return upper_bound(self.certify, confidence, self.largest, self.block)


def hold_out(n_points: int, rng: np.random.Generator) -> HeldOut:
    """Draw the points to hold out, in blocks of consecutive ones."""
    count = min(MAX_HELD_OUT, int(HELD_OUT_SHARE * n_points))
    block = max(1, count // HELD_OUT_BLOCKS)
    n_blocks = count // block
    n_search = int(SEARCH_PART * n_blocks)
    if (n_blocks - n_search) * block < MIN_CERTIFYING:
        needed = math.ceil(MIN_CERTIFYING / (1 - SEARCH_PART) / HELD_OUT_SHARE) + 1
        raise InvalidInputError(
            f"a tolerance needs at least {needed} points with positive weight to hold some of them out, "
            f"got {n_points}; pass ",
            Named("n_landmarks"),
            " instead",
        )
    drawn = rng.permutation(n_points // block)[:n_blocks]
    search, certify = (
        (np.sort(part)[:, None] * block + np.arange(block)).ravel()
        for part in (drawn[:n_search], drawn[n_search:])
    )
    fitted = np.setdiff1d(np.arange(n_points), np.concatenate([search, certify]))
    return HeldOut(fitted, search, certify, block)


def meet_tolerance(
    attempt: Callable[[int], Attempt[_Fit]],
    tolerance: float,
    reference: str,
    *,
    fewest: int,
    most: int,
    reference_error: float = 0.0,
    confidence: float = CONFIDENCE,
    n_tried: int = 0,
) -> Certified[_Fit] | Refused:
    """Find the fewest landmarks that meet a tolerance, and certify them, after so many certificates were tried."""
    if reference_error >= tolerance:
        return Refused(
            tolerance,
            reason=f"the reference map that errors are measured against is itself only known to {reference_error:.3g} "
            "percent; raise the tolerance, or memory_limit",
            n_tried=n_tried,
        )
    attempts: dict[int, Attempt[_Fit]] = {}
    searched: dict[int, float] = {}

    def bound(count: int) -> float:
        if count not in attempts:
            attempts[count] = attempt(count)
            searched[count] = attempts[count].searched(confidence) + reference_error
        return searched[count]

    below, count = None, min(fewest, most)
    while bound(count) > tolerance:
        if count == most:
            best = min(searched, key=searched.__getitem__)
            return _refused(tolerance, best, searched[best], attempts[best].search, n_tried)
        below, count = count, min(2 * count, most)
    while below is not None and count > max(below + 1, RESOLUTION * below):
        middle = min(count - 1, max(below + 1, round(math.sqrt(below * count))))
        if bound(middle) <= tolerance:
            count = middle
        else:
            below = middle

    promised: dict[int, float] = {}
    while True:
        n_tried += 1
        doubt = (1.0 - confidence) / 2.0**n_tried  # those of all that are tried add up to what was asked for
        bound(count)
        made = attempts[count]
        promised[count] = made.certified(1.0 - doubt) + reference_error
        if made.fit is not None and promised[count] <= tolerance:
            certificate = Certificate(
                tolerance=tolerance,
                held_out_z=math.sqrt(float(made.certify.mean())),
                upper_bound=promised[count],
                confidence=confidence,
                n_held_out=len(made.certify),
                n_landmarks=count,
                reference=reference,
                reference_error=reference_error,
            )
            return Certified(made.fit, certificate)
        if count >= most:
            best = min(promised, key=promised.__getitem__)
            return _refused(tolerance, best, promised[best], attempts[best].certify, n_tried)
        growth = min(max(LEAST_GROWTH, promised[count] / tolerance), MOST_GROWTH)
        count = min(most, math.ceil(growth * count))


def _refused(
    tolerance: float, n_landmarks: int, bound: float, squares: NDArray[np.float64], n_tried: int
) -> Refused:
    """Return the refusal of a bound that is too high; it says where few points are to blame."""
    running = np.cumsum(np.sort(squares)[::-1])
    n_carrying = int(np.searchsorted(running, 0.5 * running[-1])) + 1
    reason = ""
    if n_carrying < FEW_CARRYING:
        reason = (
            f"half of the squared error comes from {n_carrying} of them, too few to bound rare large errors"
        )
    return Refused(tolerance, bound, n_landmarks, len(squares), reason, n_tried)
