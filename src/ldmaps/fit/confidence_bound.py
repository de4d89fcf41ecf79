"""Upper confidence bounds of the errors of new points, from the errors ζ (eqn zeta_error) of held-out points.

    ζ of a share   at least 99 % of new points have an error below this: an order statistic, whatever the errors'
                   distribution
    Z of a share   the root mean square of ζ over all new points but the worst 1 %; what a tolerance asks for
    Z of all       the same over all new points (eqn Z_error); this one needs an assumption about the errors' tail

The worst errors are at rare points between basins, ten to fifty times the typical error. The mean of s = ζ² over all
points is therefore known badly: bounds of it differ severalfold between two draws of the same number of points, and
those that assume nothing exceed it fortyfold (benchmarks/error_bounds.py). Without the worst 1 %, Student's bound with
Hall's correction for skewness does.

The tail of Z of all: the next point is worse than all n with a probability of about 1/n, and adds E[s | s > m]/n, m
being the largest of the n squares. How much worse, the tail shows: ln(s/u) of the k squares above u has a mean of about
γ where P(s > x) falls as x^(-1/γ) (Hill), with a standard error of γ/√k. No error exceeds R, so
E[s | s > m] = m + ∫_m^R (x/m)^(-1/γ) dx.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

#: Fewest independent points that a bound may rest on.
MIN_CERTIFYING = 30
#: Share of the squares that make the tail, fewest of them, and standard errors added to γ. A fixed number: asking for
#: more as confidence rises would widen the bound without end, for a tail that is an assumption anyway.
TAIL_SHARE, MIN_TAIL, TAIL_MARGIN = 0.05, 15, 1.0

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class HeldOutErrors:
    """Squared errors of points that took no part in a fit, in blocks that are independent of each other."""

    squares: _Array  # (n,): ζ² in percent²
    weights: _Array  # (n,): how much each point counts; only their ratios matter
    blocks: NDArray[np.intp]  # (n,): number of the block that each point belongs to

    @classmethod
    def independent(cls, squares: _Array) -> HeldOutErrors:
        """Return the errors of points that count alike and are independent of each other."""
        return cls(squares, np.ones(len(squares)), np.arange(len(squares)))

    def and_those(self, others: HeldOutErrors) -> HeldOutErrors:
        """Return these errors and others, whose blocks are others too."""
        after = int(self.blocks.max()) + 1
        return HeldOutErrors(
            np.concatenate([self.squares, others.squares]),
            np.concatenate([self.weights, others.weights]),
            np.concatenate([self.blocks, others.blocks + after]),
        )

    def raised(self, others: HeldOutErrors, share: float) -> HeldOutErrors:
        """Return other errors, times what makes their mean one standard error less than these' where it is still less.

        Means are those of this share of the points and, for the others, where the worst begin.
        """
        means = self.block_values(self.clipped(share))
        error = float(means.std(ddof=1)) / math.sqrt(len(means)) if len(means) > 1 else math.inf
        lowest, mean = float(means.mean()) - error, others.mean(others.clipped(share))
        return others if lowest <= mean else replace(others, squares=others.squares * (lowest / mean))

    def clipped(self, share: float) -> _Array:
        """Return the squares, the worst of them lowered to the threshold of this ``share`` of the points.

        They are not left out, because the threshold itself is not known well.
        """
        return np.minimum(self.squares, self.threshold(share))

    @property
    def n_blocks(self) -> int:
        """How many independent blocks there are."""
        return len(self._numbered[0])

    def mean(self, values: _Array) -> float:
        """Return the weighted mean of one value per point."""
        return float(np.average(values, weights=self.weights))

    def block_values(self, values: _Array) -> _Array:
        """Return one number per block; their plain mean is the weighted mean of the values, their scatter its error.

        Blocks of equal weight give their means.
        """
        mean, (found, block) = self.mean(values), self._numbered
        sums = np.bincount(block, self.weights * (values - mean))
        return np.asarray(mean + sums * (len(found) / self.weights.sum()))

    def threshold(self, share: float) -> float:
        """Return the smallest of the squares that less than 1 - ``share`` of the points exceed."""
        ordered, above = self._above
        return float(ordered[np.flatnonzero(above < 1.0 - share)[-1]])

    @cached_property
    def _numbered(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        found, block = np.unique(self.blocks, return_inverse=True)
        return found, block

    @cached_property
    def _above(self) -> tuple[_Array, _Array]:
        """The squares, largest first, and the share of the points before each of them."""
        order = np.argsort(self.squares)[::-1]
        before = np.cumsum(self.weights[order]) - self.weights[order]
        return self.squares[order], before / self.weights.sum()

    def n_independent(self, is_large: NDArray[np.bool_]) -> float:
        """Return how many independent points would tell the share of large errors as well as these do."""
        most = float(self.weights.sum() ** 2 / (self.weights**2).sum())
        values = is_large.astype(np.float64)
        share, per_block = self.mean(values), self.block_values(values)
        variance = float(per_block.var(ddof=1)) / len(per_block) if len(per_block) > 1 else math.inf
        if variance == 0:
            return most
        # One more, so that n points in blocks of one count as n.
        return min(most, share * (1.0 - share) / variance + 1.0)


def bound_zeta(errors: HeldOutErrors, share: float, confidence: float) -> float:
    """Return what ζ of at least this share of new points does not exceed; infinite if points are too few to say."""
    from scipy.special import betaincinv  # late: model files need the certificate without it

    ordered, above = errors._above
    n = errors.n_independent(errors.squares >= errors.threshold(share))
    candidates = np.flatnonzero(above < 1.0 - share)
    # Clopper and Pearson's bound of the share of points that exceed each candidate (Biometrika 26, 404 (1934)).
    exceeding = betaincinv(n * above[candidates] + 1.0, n * (1.0 - above[candidates]), confidence)
    meeting = candidates[exceeding <= 1.0 - share]
    return math.sqrt(ordered[meeting[-1]]) if len(meeting) else math.inf


def bound_z(errors: HeldOutErrors, share: float, confidence: float, n_points: int | None = None) -> float:
    """Return an upper confidence bound of Z of this share of new points: all but those with the largest errors.

    ``n_points`` gives the bound that so many points like these are likely to have.
    """
    clipped = errors.clipped(share)
    blocks = errors.block_values(clipped)
    n = len(blocks) if n_points is None else max(2, round(len(blocks) * n_points / len(clipped)))
    return math.sqrt(bound_mean(blocks, confidence, n))


def bound_z_of_all(errors: HeldOutErrors, confidence: float, largest: float) -> float:
    """Return an upper confidence bound of Z of all new points, if the tail of their errors is like that of these.

    ``largest`` is what no square can exceed.
    """
    # Errors of a block resemble each other: the larger bound of both counts.
    relative = errors.weights / errors.weights.mean()
    parts = (relative * errors.squares, errors.block_values(errors.squares))
    largest *= float(relative.max())
    return math.sqrt(max(bound_mean(part, confidence) + unseen_tail(part, largest) for part in parts))


def bound_mean(values: _Array, confidence: float, n: int | None = None) -> float:
    """Return Student's bound of the mean with Hall's correction for skewness (J. R. Stat. Soc. B 54, 221 (1992)).

    ``n`` is how many values like these it should be the bound of, by default as many as they are.
    """
    from scipy.special import stdtrit

    n = len(values) if n is None else n
    mean, deviation = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else math.inf
    if deviation == 0 or not math.isfinite(deviation):
        return mean + deviation
    quantile = float(stdtrit(n - 1, confidence))
    skewness = max(0.0, float(((values - mean) ** 3).mean()) / deviation**3)
    # Hall's monotone transformation t + a t² + a² t³/3 + b of the Studentised mean, turned round.
    a = skewness / (3.0 * math.sqrt(n))
    b = skewness / (6.0 * math.sqrt(n))
    lower = (float(np.cbrt(1.0 + 3.0 * a * (-quantile - b))) - 1.0) / a if a > 0 else -quantile
    return mean - lower * deviation / math.sqrt(n)


def unseen_tail(squares: _Array, largest: float) -> float:
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
