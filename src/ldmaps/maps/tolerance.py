"""A tolerance instead of a number of landmarks: search, then certify on points that chose nothing.

    held out ──┬── search:  double M until Z is met, then bisect
               └── certify: an upper confidence bound of Z for the M found;
                            where it misses, M grows and the confidence asked for with it

Z is the root mean square of ζ (eqn Z_error), so a bound of the mean of ζ² is wanted
(:mod:`ldmaps.maps.confidence_bound`). Z is a distance, so what separates the reference from
the exact map is added to what separates the map from the reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named, ToleranceError
from ldmaps.maps.confidence_bound import seen_bound, upper_bound

__all__ = [
    "Attempt",
    "Certificate",
    "HeldOut",
    "hold_out",
    "meet_tolerance",
    "n_held_out",
]

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
    tolerance : float
        Z in percent that was asked for.
    held_out_z : float
        Z in percent on held-out points that took no part in any choice.
    upper_bound : float
        Z of unseen points from the same source is below this with the given confidence,
        the reference's own error included.
    confidence : float
        Probability with which the bound holds.
    n_held_out : int
        Number of points that the bound rests on.
    n_landmarks : int
        M, the fewest that were found to do.
    reference : str
        What the held-out points were compared with: "exact", the map of all training
        points, or "landmarks", a map of many more landmarks.
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


_Fit = TypeVar("_Fit")


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


def n_held_out(n_points: int) -> int:
    """Return how many points are held out."""
    return min(MAX_HELD_OUT, int(HELD_OUT_SHARE * n_points))


def hold_out(n_points: int, rng: np.random.Generator) -> HeldOut:
    """Draw the points to hold out, in blocks of consecutive ones."""
    count = n_held_out(n_points)
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
) -> tuple[_Fit, Certificate]:
    """Find the fewest landmarks that meet a tolerance, and certify them."""
    if reference_error >= tolerance:
        raise ToleranceError(
            tolerance,
            reason=f"the map that errors are measured against is only known to be within {reference_error:.3g} "
            "percent of the exact map itself; raise the tolerance or memory_limit",
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
            raise _refusal(tolerance, best, searched[best], attempts[best].search)
        below, count = count, min(2 * count, most)
    while below is not None and count > max(below + 1, RESOLUTION * below):
        middle = min(count - 1, max(below + 1, round(math.sqrt(below * count))))
        if bound(middle) <= tolerance:
            count = middle
        else:
            below = middle

    doubt = 1.0 - confidence
    promised: dict[int, float] = {}
    while True:
        doubt /= 2.0  # the doubts of all certificates that are tried add up to what was asked for
        bound(count)
        made = attempts[count]
        promised[count] = made.certified(1.0 - doubt) + reference_error
        if made.fit is not None and promised[count] <= tolerance:
            held_out_z = math.sqrt(float(made.certify.mean()))
            return made.fit, Certificate(
                tolerance,
                held_out_z,
                promised[count],
                confidence,
                len(made.certify),
                count,
                reference,
                reference_error,
            )
        if count >= most:
            best = min(promised, key=promised.__getitem__)
            raise _refusal(tolerance, best, promised[best], attempts[best].certify)
        growth = min(max(LEAST_GROWTH, promised[count] / tolerance), MOST_GROWTH)
        count = min(most, math.ceil(growth * count))


def _refusal(
    tolerance: float, n_landmarks: int, bound: float, squares: NDArray[np.float64]
) -> ToleranceError:
    """Return the error for a bound that is too high; it tells where few points are to blame."""
    running = np.cumsum(np.sort(squares)[::-1])
    n_carrying = int(np.searchsorted(running, 0.5 * running[-1])) + 1
    reason = ""
    if n_carrying < FEW_CARRYING:
        reason = f"half of the squared error is that of {n_carrying} of them, which says little about the next as bad"
    return ToleranceError(tolerance, bound, n_landmarks, len(squares), reason)
