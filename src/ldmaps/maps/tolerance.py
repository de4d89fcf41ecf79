"""A tolerance instead of a number of landmarks: search, then certify on points that chose nothing.

    held out ──┬── search:  double M until Z is met, then bisect
               └── certify: an upper confidence bound of Z for the M found;
                            where it misses, M grows and the confidence asked for with it

Z is the root mean square of ζ (eqn Z_error), so a bound of the mean of ζ² is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, ToleranceError

__all__ = [
    "Attempt",
    "Certificate",
    "HeldOut",
    "check_tolerance",
    "hold_out",
    "meet_tolerance",
    "n_held_out",
    "numbers_tried",
    "upper_bound",
]

#: Probability with which a certificate holds.
CONFIDENCE = 0.95
#: Share of the points held out, the most of them, and which part of those is for the search.
HELD_OUT_SHARE, MAX_HELD_OUT, SEARCH_PART = 0.3, 6000, 0.4
#: Fewest points that a bound may rest on.
MIN_CERTIFYING = 30
#: Bisection ends when the numbers of landmarks that miss and meet the tolerance are within this factor.
RESOLUTION = 1.1
#: Growth after a certificate was missed by a hair.
GROWTH = 1.15


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
        Z of unseen points from the same source is below this with the given confidence.
    confidence : float
    n_held_out : int
        Number of points that the bound rests on.
    n_landmarks : int
        M, the fewest that were found to do.
    reference : str
        What Z compares with: "exact", Nyström over all training points, or "landmarks",
        a landmark map with many more of them where all points would not fit into memory.
    """

    tolerance: float
    held_out_z: float
    upper_bound: float
    confidence: float
    n_held_out: int
    n_landmarks: int
    reference: str


@dataclass(frozen=True)
class HeldOut:
    """Which points are fitted to, which guide the search, and which certify."""

    fitted: NDArray[np.intp]
    search: NDArray[np.intp]
    certify: NDArray[np.intp]


_Fit = TypeVar("_Fit")


@dataclass(frozen=True)
class Attempt(Generic[_Fit]):
    """A map with some number of landmarks: the fit, and ζ² in percent² of both sets of held-out points."""

    fit: _Fit | None
    search: NDArray[np.float64]
    certify: NDArray[np.float64]


def check_tolerance(tolerance: object) -> float:
    """Return the tolerance as a float, or raise."""
    if (
        isinstance(tolerance, bool)
        or not isinstance(tolerance, (int, float, np.number))
        or not 0 < float(tolerance) < math.inf
    ):
        raise InvalidInputError(
            f"tolerance must be a positive number, Z on unseen points in percent, got {tolerance!r}"
        )
    return float(tolerance)


def n_held_out(n_points: int) -> int:
    """Return how many points are held out."""
    return min(MAX_HELD_OUT, int(HELD_OUT_SHARE * n_points))


def hold_out(n_points: int, rng: np.random.Generator) -> HeldOut:
    """Draw the points to hold out."""
    count = n_held_out(n_points)
    n_search = int(SEARCH_PART * count)
    if count - n_search < MIN_CERTIFYING:
        needed = math.ceil(MIN_CERTIFYING / (1 - SEARCH_PART) / HELD_OUT_SHARE) + 1
        raise InvalidInputError(
            f"a tolerance needs at least {needed} points with positive weight to hold some of them out, "
            f"got {n_points}; pass n_landmarks instead"
        )
    order = rng.permutation(n_points)
    return HeldOut(np.sort(order[count:]), np.sort(order[:n_search]), np.sort(order[n_search:count]))


def upper_bound(squares: NDArray[np.float64], confidence: float) -> float:
    """Return an upper confidence bound of √(mean of ``squares``).

    Student's bound of the mean with Hall's correction for skewness (J. R. Stat. Soc. B
    54, 221 (1992)): a few points far worse than the rest, which ζ² always has, make the
    plain bound too low.

    >>> import numpy as np
    >>> round(upper_bound(np.random.default_rng(0).exponential(size=1000), 0.95), 1)
    1.0
    """
    n = len(squares)
    mean, deviation = float(squares.mean()), float(squares.std(ddof=1))
    if deviation == 0:
        return math.sqrt(mean)
    normal = NormalDist().inv_cdf(confidence)
    skewness = max(0.0, float(((squares - mean) ** 3).mean()) / deviation**3)
    # Hall's monotone transformation t + a t² + a² t³/3 + b of the Studentised mean, turned round.
    a = skewness / (3.0 * math.sqrt(n))
    b = skewness / (6.0 * math.sqrt(n))
    if a > 0:
        inside = 1.0 + 3.0 * a * (-normal - b)
        lower = (math.copysign(abs(inside) ** (1 / 3), inside) - 1.0) / a
    else:
        lower = -normal
    return math.sqrt(mean - lower * deviation / math.sqrt(n))


def meet_tolerance(
    attempt: Callable[[int], Attempt[_Fit]],
    tolerance: float,
    reference: str,
    *,
    fewest: int,
    most: int,
    confidence: float = CONFIDENCE,
) -> tuple[_Fit, Certificate]:
    """Find the fewest landmarks that meet a tolerance, and certify them.

    Parameters
    ----------
    attempt : callable
        Fits a map with the number of landmarks it is given. ``fit=None`` says that so
        few make no map.
    fewest, most : int
        Range of M.
    """
    tried: dict[int, tuple[Attempt[_Fit], float]] = {}

    def bound(count: int) -> float:
        if count not in tried:
            made = attempt(count)
            tried[count] = made, math.inf if made.fit is None else upper_bound(made.search, confidence)
        return tried[count][1]

    below, count = None, min(fewest, most)
    while bound(count) > tolerance:
        if count == most:
            raise _failure(tried, tolerance)
        below, count = count, min(2 * count, most)
    while below is not None and count > max(below + 1, RESOLUTION * below):
        middle = min(count - 1, max(below + 1, round(math.sqrt(below * count))))
        if bound(middle) <= tolerance:
            count = middle
        else:
            below = middle

    doubt = 1.0 - confidence
    while True:
        doubt /= 2.0  # the doubts of all certificates that are tried add up to what was asked for
        bound(count)
        made = tried[count][0]
        if made.fit is not None:
            promised = upper_bound(made.certify, 1.0 - doubt)
            if promised <= tolerance:
                held_out_z = math.sqrt(float(made.certify.mean()))
                return made.fit, Certificate(
                    tolerance, held_out_z, promised, confidence, len(made.certify), count, reference
                )
        if count >= most:
            raise _failure(tried, tolerance)
        count = min(most, math.ceil(GROWTH * count))


def numbers_tried(enough: int, *, fewest: int, most: int) -> list[int]:
    """Return which numbers of landmarks the search tries where ``enough`` or more meet the tolerance.

    >>> numbers_tried(20, fewest=8, most=1000)
    [8, 16, 32, 23, 19, 21, 20]
    """
    tried = []

    def attempt(count: int) -> Attempt[int]:
        tried.append(count)
        squares = np.full(2, 0.0 if count >= enough else 4.0)
        return Attempt(count, squares, squares)

    meet_tolerance(attempt, 1.0, "", fewest=fewest, most=most)
    return tried


def _failure(tried: dict[int, tuple[Attempt[_Fit], float]], tolerance: float) -> ToleranceError:
    best = min(tried, key=lambda count: tried[count][1])
    made, bound = tried[best]
    return ToleranceError(tolerance, bound, best, len(made.search))
