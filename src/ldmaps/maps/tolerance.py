"""A tolerance instead of a number of landmarks: search, then certify on points that chose nothing.

Where the bound of Z misses the tolerance, M grows, and the confidence asked for with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named, ToleranceError

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
) -> tuple[_Fit, Certificate]:
    """Find the fewest landmarks that meet a tolerance, and certify them, after so many certificates were tried."""
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
            raise _refusal(tolerance, best, searched[best], attempts[best].search, n_tried)
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
            held_out_z, n_certifying = math.sqrt(float(made.certify.mean())), len(made.certify)
            facts = tolerance, held_out_z, promised[count], confidence, n_certifying, count
            return made.fit, Certificate(*facts, reference, reference_error)
        if count >= most:
            best = min(promised, key=promised.__getitem__)
            raise _refusal(tolerance, best, promised[best], attempts[best].certify, n_tried)
        growth = min(max(LEAST_GROWTH, promised[count] / tolerance), MOST_GROWTH)
        count = min(most, math.ceil(growth * count))


def _refusal(
    tolerance: float, n_landmarks: int, bound: float, squares: NDArray[np.float64], n_tried: int
) -> ToleranceError:
    """Return the error for a bound that is too high; it tells where few points are to blame."""
    running = np.cumsum(np.sort(squares)[::-1])
    n_carrying = int(np.searchsorted(running, 0.5 * running[-1])) + 1
    reason = ""
    if n_carrying < FEW_CARRYING:
        reason = f"half of the squared error is that of {n_carrying} of them, which says little about the next as bad"
    return ToleranceError(tolerance, bound, n_landmarks, len(squares), reason, n_tried)


# Z is the root mean square of ζ (eqn Z_error), so a bound of the mean of s = ζ² is wanted, most of which a few points
# may carry: Student's bound with Hall's correction for skewness for what was seen, and E[s | s > m]/n for what was not,
# m being the largest of the n squares, because the next point is worse than all with a probability of about 1/n. How
# much worse, the tail shows: ln(s/u) of the k squares above u has a mean of about γ where P(s > x) falls as x^(-1/γ)
# (Hill), with a standard error of γ/√k. No error exceeds R, so E[s | s > m] = m + ∫_m^R (x/m)^(-1/γ) dx.

#: Share of the squares that make the tail, fewest of them, and standard errors added to γ. A fixed number: asking for
#: more as confidence rises would widen the bound without end, for a tail that is an assumption anyway.
TAIL_SHARE, MIN_TAIL, TAIL_MARGIN = 0.05, 15, 1.0


def upper_bound(squares: NDArray[np.float64], confidence: float, largest: float, block: int = 1) -> float:
    """Return an upper confidence bound of √(mean of ``squares``) over points of the same kind."""
    # Squares of frames close in time, so many consecutive ones, resemble each other: the larger bound of both counts.
    means = squares.reshape(-1, block).mean(axis=1)
    return math.sqrt(
        max(seen_bound(part, confidence) + unseen_tail(part, largest) for part in (squares, means))
    )


def seen_bound(squares: NDArray[np.float64], confidence: float) -> float:
    """Return Student's bound of the mean with Hall's correction for skewness (J. R. Stat. Soc. B 54, 221 (1992))."""
    n = len(squares)
    mean, deviation = float(squares.mean()), float(squares.std(ddof=1))
    if deviation == 0:
        return mean
    normal = NormalDist().inv_cdf(confidence)
    skewness = max(0.0, float(((squares - mean) ** 3).mean()) / deviation**3)
    # Hall's monotone transformation t + a t² + a² t³/3 + b of the Studentised mean, turned round.
    a = skewness / (3.0 * math.sqrt(n))
    b = skewness / (6.0 * math.sqrt(n))
    lower = (float(np.cbrt(1.0 + 3.0 * a * (-normal - b))) - 1.0) / a if a > 0 else -normal
    return mean - lower * deviation / math.sqrt(n)


def unseen_tail(squares: NDArray[np.float64], largest: float) -> float:
    """Return what squares above all that were seen add to the mean, estimated from the tail."""
    n = len(squares)
    k = min(max(MIN_TAIL, int(TAIL_SHARE * n)), n - 1)
    ordered = np.sort(squares)[::-1]
    highest, threshold = float(ordered[0]), float(ordered[k])
    if threshold <= 0:
        return 0.0 if highest <= 0 else largest / n
    # Hill's estimate of γ, and so many standard errors.
    index = float(np.log(ordered[:k] / threshold).mean()) * (1.0 + TAIL_MARGIN / math.sqrt(k))
    if index <= 0 or highest >= largest:
        return highest / n
    power, reach = 1.0 - 1.0 / index, math.log(largest / highest)
    beyond = math.expm1(power * reach) / power if power else reach
    return highest * (1.0 + beyond) / n
