"""An upper confidence bound of Z, the root mean square of ζ (eqn Z_error), from errors of held-out points.

A bound of the mean of s = ζ² is wanted, most of which a few points may carry: Student's bound with Hall's correction
for skewness for what was seen, and E[s | s > m]/n for what was not, m being the largest of the n squares, because the
next point is worse than all with a probability of about 1/n. How much worse, the tail shows: ln(s/u) of the k squares
above u has a mean of about γ where P(s > x) falls as x^(-1/γ) (Hill), with a standard error of γ/√k. No error exceeds
R, so E[s | s > m] = m + ∫_m^R (x/m)^(-1/γ) dx.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

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
