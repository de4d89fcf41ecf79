"""How sure a map is of itself: errors of eigenvalues and coordinates, which are reproducible, new and slow.

All is read off the landmarks' M×M eigenproblem and the cells of the training points; a coordinate's course in time is
that of its value at each point's landmark, whose correlation times are right to 5 %. What this leaves out: other
landmarks, and another ε. The yardstick for slow coordinates is the slowest combination of the 30 leading modes: on
held-out frames it is as slow as that of all 400 weights w(x) (0.959 against 0.960 after 4 ps of alanine dipeptide).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from ldmaps.correlation_times import (
    FEW_INDEPENDENT,
    autocorrelation,
    correlation_time,
    held_out_correlation,
    lagged_pairs,
    runs_of,
)
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS, spectral_gap
from ldmaps.quality.resampling import (
    REPRODUCIBLE,
    Blocks,
    FittedModes,
    cut_blocks,
    matched,
    reproduced,
    resampled_modes,
    resampled_multiplicities,
)

#: How often blocks are drawn in a fit, which gives standard errors to 10 %, and on request.
N_RESAMPLES, MANY_RESAMPLES = 50, 200
#: Share of what the intervals must cover.
CONFIDENCE = 0.95
#: Modes that the yardstick combines, and most pairs of points it is fitted to.
YARDSTICK_MODES, YARDSTICK_PAIRS = 30, 20_000
#: A coordinate is slow when it keeps this share of the autocorrelation that the slowest combination has.
SLOW = 0.5
#: At the lag; below this nothing is slow.
FORGOTTEN = 0.1
#: What a file holds of it: besides arrays, and which arrays at least.
PLAIN = ("lag", "unit", "kind", "n_resamples", "n_blocks", "block_length", "are_long_enough")
NEEDED = (
    *("eigenvalues", "errors", "intervals", "cosine", "group_cosine", "groups", "r2", "follows"),
    "landmark_errors",
)
#: Below this λ₂ a walk forgets in one step where it was: the kernel is three times as wide as the data.
NO_STRUCTURE = 0.1
#: A replica disagrees when a coordinate's mean in it is so many standard errors from that in the others.
DISAGREES = 4.0
#: A mode that earlier ones predict so well is a harmonic of them.
HARMONIC = 0.95
#: Widths of the weights by which that is judged, in standard deviations of the earlier modes.
WIDTHS = (0.1, 0.2, 0.4)
#: Most landmarks that are looked at for it.
MOST_LANDMARKS = 300

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Order:
    """In which order training points are."""

    has_time: bool  # whether they follow each other in time; otherwise every point stands alone
    files: NDArray[np.int32] | None = None  # (N,): which of several files each is from
    spacing: float = 1.0  # time between consecutive points, in ``unit``
    unit: str = "rows"  # or "ps", "s", "frames"


@dataclass(frozen=True, repr=False)
class Sampling:
    """What resampling the training points says of a map's leading p modes; coordinate psi2 is mode 0.

    Attributes
    ----------
    eigenvalues, errors : ndarray of shape (p,)
        λ and its standard error.
    intervals : ndarray of shape (p, 2)
        95 % intervals of λ for these landmarks: λ ± t·error, t of Student's distribution for the number of blocks.
    cosine, group_cosine : ndarray of shape (p,)
        5 % quantiles over resamples: absolute correlation of the mode with its match, and the smallest cosine between
        the spans of its group and of the group's matches.
    groups : ndarray of int, shape (p,)
        Modes of the same number are only defined together.
    r2 : ndarray of shape (p,)
        How well earlier coordinates predict the mode (held out).
    follows : ndarray of bool, shape (p, p)
        ``follows[i, j]``: mode i is a function of mode j (and of others in the row).
    landmark_errors : ndarray of shape (M, p)
        Standard error of each mode at each landmark, in units of ψ.
    times : ndarray of shape (p, 3) or None
        Correlation time, its standard error (both in ``unit``), and the number of independent samples.
    correlations : ndarray of shape (p + 1,) or None
        Autocorrelation of each mode at ``lag``, and last that of the slowest combination on held-out points.
    lag, block_length : float
        In ``unit``.
    unit : {"ps", "s", "frames", "rows"}
        Of time.
    kind : {"time", "files", "rows"}
        What was drawn: stretches of time, whole files, or single points.
    n_resamples, n_blocks : int
        How often blocks were drawn, and how many there are.
    are_long_enough : bool
        Whether blocks are several correlation times long; if not, all errors are too small.
    replicas : ndarray of shape (files, p) or None
        By how many standard errors each file's mean of a mode is off that of the others.
    blocks : Blocks or None
        Which block each training point of positive weight is in; not kept in files.
    """

    eigenvalues: NDArray[np.float64]
    errors: NDArray[np.float64]
    intervals: NDArray[np.float64]
    cosine: NDArray[np.float64]
    group_cosine: NDArray[np.float64]
    groups: NDArray[np.int32]
    r2: NDArray[np.float64]
    follows: NDArray[np.bool_]
    landmark_errors: NDArray[np.float64]
    times: NDArray[np.float64] | None
    correlations: NDArray[np.float64] | None
    lag: float
    unit: str
    kind: str
    n_resamples: int
    n_blocks: int
    block_length: float
    are_long_enough: bool
    replicas: NDArray[np.float64] | None = None
    blocks: Blocks | None = None

    def __repr__(self) -> str:
        values = zip(self.eigenvalues, self.errors, strict=True)
        shown = ", ".join(f"{value:.4g} ± {error:.1g}" for value, error in values)
        drawn = (
            f"{self.n_blocks:,} blocks of {self.block_length:.3g} {self.unit} drawn {self.n_resamples} times"
        )
        return f"Sampling(eigenvalues {shown}; {drawn})"

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a model file stores as arrays."""
        parts = {name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return {**parts, "follows": self.follows.astype(np.int32)}

    def header(self) -> dict[str, Any]:
        """Return what a model file stores as plain values."""
        return {name: getattr(self, name) for name in PLAIN}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Rebuild what :meth:`arrays` and :meth:`header` gave, from the ``arrays`` and ``header`` of a model file."""
        parts = {name: arrays.get(name) for name in ("times", "correlations", "replicas")}
        return cls(**{**parts, **arrays, **header, "follows": arrays["follows"].astype(np.bool_)})

    @property
    def is_reproducible(self) -> NDArray[np.bool_]:
        """Whether each mode is reproducible, alone or in its group; shape (p,)."""
        return self.group_cosine >= REPRODUCIBLE

    def status(self, mode: int) -> str:
        """Return "reproducible", "mixes with psi4" or "noise" of a ``mode``, 0 for psi2."""
        if not self.is_reproducible[mode]:
            return "noise"
        others = [other for other in np.flatnonzero(self.groups == self.groups[mode]) if other != mode]
        return f"mixes with {names_of(others)}" if others else "reproducible"

    def pace(self, mode: int) -> str:
        """Return "slow", "fast", "cannot tell" or, for points without time, "" of a ``mode``, 0 for psi2."""
        if self.times is None or self.correlations is None:
            return ""
        if self.times[mode, 2] < FEW_INDEPENDENT:
            return "cannot tell"
        # Where even the slowest has forgotten all from one frame to the next, nothing is slow.
        least = max(SLOW * self.correlations[-1], FORGOTTEN)
        return "slow" if self.correlations[mode] >= least else "fast"

    def around(self, eigenvalues: NDArray[np.float64]) -> Sampling:
        """Return the same errors around ``eigenvalues``, largest first, that were solved more exactly."""
        count = min(len(eigenvalues), len(self.eigenvalues))
        shift = np.zeros(len(self.eigenvalues))
        shift[:count] = eigenvalues[:count] - self.eigenvalues[:count]
        return replace(self, eigenvalues=self.eigenvalues + shift, intervals=self.intervals + shift[:, None])


def names_of(modes: Any) -> str:
    """Return how coordinates are called, with commas between them."""
    return ", ".join(f"psi{int(mode) + 2}" for mode in modes)


def judge_sampling(
    fitted: FittedModes,
    cells: NDArray[np.intp],
    weights: _Array,
    order: Order,
    *,
    resample: str = "auto",
    n_resamples: int = N_RESAMPLES,
    lag: float | None = None,
    n_threads: int | None = None,
) -> Sampling:
    """Resample the training points of a landmark map, given the landmark of each and its weight, which is positive."""
    # "auto" draws stretches of time where points have one, and rows elsewhere; "time" says that they have one. The lag
    # is in the order's unit, by default the longest correlation time of a mode.
    rng = np.random.default_rng(0)
    if resample == "time":
        order = replace(order, has_time=True)
    count = min(MAX_GAP_COMPONENTS, len(fitted.eigenvalues) - 2, int((fitted.eigenvalues > 1e-6).sum()) - 1)
    count = max(count, 1)
    psi = fitted.vectors[:, 1 : count + 1]
    runs = runs_of(len(cells), order.files)
    times = [correlation_time(column[cells], runs) for column in psi.T] if order.has_time else []
    kind = ("time" if order.has_time else "rows") if resample == "auto" else resample
    longest = max((time.time for time in times), default=0.5)
    blocks = cut_blocks(len(cells), kind, correlation_time=longest, files=order.files, rng=rng)
    drawn = resampled_multiplicities(cells, weights, len(psi), blocks, n_resamples, rng)
    # One mode more than is judged: the last may change places with it.
    values, vectors = resampled_modes(fitted, drawn, min(count + 1, len(fitted.eigenvalues) - 1), n_threads)
    places, correlations = matched(fitted.measure, psi, vectors)
    cosine, groups, group_cosine = reproduced(places, correlations)
    multiplicities = np.bincount(cells, weights, len(psi)).astype(np.float64)
    lengths = np.sqrt(multiplicities @ psi**2)
    signs = np.sign(np.take_along_axis(correlations, places[:, :, None], axis=2))[:, :, 0]
    own = np.take_along_axis(vectors, places[:, None], axis=2) * signs[:, None]
    landmark_errors = blocks.inflation * np.sqrt(np.mean((own - psi / lengths) ** 2, axis=0))
    errors = blocks.inflation * values[:, :count].std(axis=0, ddof=1)
    r2, follows = find_harmonics(psi, multiplicities)
    reach = float(scipy.special.stdtrit(max(blocks.count - 1, 1), 0.5 * (1.0 + CONFIDENCE))) * errors
    lam = fitted.eigenvalues[1 : count + 1]
    steps, ours = _yardstick(fitted, cells, runs, longest, lag, order, count)
    return Sampling(
        eigenvalues=lam,
        errors=errors,
        intervals=np.stack([lam - reach, lam + reach], axis=1),
        cosine=cosine,
        group_cosine=group_cosine,
        groups=groups,
        r2=r2,
        follows=follows,
        landmark_errors=landmark_errors,
        times=np.array(times) * [order.spacing, order.spacing, 1.0] if times else None,
        correlations=ours,
        lag=steps * order.spacing,
        unit=order.unit,
        kind=kind,
        n_resamples=len(drawn),
        n_blocks=blocks.count,
        block_length=blocks.length * order.spacing,
        are_long_enough=bool(blocks.are_long_enough),
        replicas=_replicas(psi[cells], weights, order.files, blocks),
        blocks=blocks,
    )


def _yardstick(
    fitted: FittedModes,
    cells: NDArray[np.intp],
    runs: list[slice],
    longest: float,
    lag: float | None,
    order: Order,
    count: int,
) -> tuple[int, _Array | None]:
    """Return the lag in points, and autocorrelations of the modes and of the slowest combination of more of them."""
    if not order.has_time:
        return 0, None
    steps = max(1, round(longest if lag is None else lag / order.spacing))
    steps = min(steps, max(1, max(run.stop - run.start for run in runs) // 3))
    functions = fitted.vectors[:, 1 : YARDSTICK_MODES + 1]
    own = [autocorrelation(column[cells], runs, steps)[-1] for column in functions[:, :count].T]
    firsts, folds = lagged_pairs(runs, steps, YARDSTICK_PAIRS)
    best = np.nan
    if len(firsts) > 4 * functions.shape[1] and len(np.unique(folds)) > 1:
        best = held_out_correlation(functions[cells[firsts]], functions[cells[firsts + steps]], folds)
    # No combination can be slower than the best: a mode alone is one, too.
    return steps, np.array([*own, max(best, *own) if np.isfinite(best) else max(own)])


def _replicas(
    values: _Array, weights: _Array, files: NDArray[np.int32] | None, blocks: Blocks
) -> _Array | None:
    """Return how far each file's means are from those of all others, in standard errors by blocks within files."""
    if files is None or blocks.kind != "time":
        return None
    numbers, places = np.unique(files, return_inverse=True)
    count = len(numbers)
    if count < 2 or blocks.count < 2 * count:
        return None
    totals = np.bincount(places, weights, count)
    sums = np.stack([np.bincount(places, weights * column, count) for column in values.T], axis=1)
    means = sums / totals[:, None]
    spread = weights[:, None] * (values - means[places])
    by_block = np.stack([np.bincount(blocks.labels, column, blocks.count) for column in spread.T], axis=1)
    # Var of a file's mean is that of one unit of weight, over its weight; blocks lose a degree of freedom per file.
    scale = blocks.count / (blocks.count - count) * blocks.inflation**2
    unit = scale * (by_block**2).sum(axis=0) / weights.sum()
    others = (sums.sum(axis=0) - sums) / (weights.sum() - totals)[:, None]
    variance = unit * (1.0 / totals + 1.0 / (weights.sum() - totals))[:, None]
    return np.asarray((means - others) / np.sqrt(np.maximum(variance, 1e-300)))


def held_out_r2(predictors: _Array, values: _Array, weights: _Array) -> float:
    """Return how much of a mode's variance local linear fits to all other points predict, at the best width."""
    # Local linear regression as Dsilva, Talmon, Coifman & Kevrekidis (2018) have it.
    n, d = predictors.shape
    mean = weights @ predictors / weights.sum()
    scaled = (predictors - mean) / np.sqrt(weights @ (predictors - mean) ** 2 / weights.sum())
    squared = ((scaled[:, None] - scaled[None]) ** 2).sum(axis=2)
    design = np.column_stack([np.ones(n), scaled])
    products = (design[:, :, None] * design[:, None]).reshape(n, -1)
    centred = values - weights @ values / weights.sum()
    total = weights @ centred**2
    best = -np.inf
    for width in WIDTHS:
        # Where nobody is near, all others count a little: the fit is then that of all.
        near = (np.exp(-squared / (2.0 * width**2)) + 1e-9) * weights
        np.fill_diagonal(near, 0.0)
        moments = (near @ products).reshape(n, d + 1, d + 1)
        ridge = 1e-8 * np.trace(moments, axis1=1, axis2=2)[:, None, None] * np.eye(d + 1)
        slopes = np.linalg.solve(moments + ridge, (near @ (design * centred[:, None]))[:, :, None])[:, :, 0]
        errors = centred - (design * slopes).sum(axis=1)
        best = max(best, 1.0 - float(weights @ errors**2) / float(total))
    return best


def find_harmonics(modes: _Array, weights: _Array) -> tuple[_Array, NDArray[np.bool_]]:
    """Return R² of each mode as a function of earlier ones that are new, and which it follows, (p, p)."""
    if len(modes) > MOST_LANDMARKS:
        rows = np.linspace(0, len(modes) - 1, MOST_LANDMARKS).round().astype(np.intp)
        modes, weights = modes[rows], weights[rows]
    count = modes.shape[1]
    r2, new, follows = np.zeros(count), [0], np.zeros((count, count), dtype=np.bool_)
    for place in range(1, count):
        r2[place] = held_out_r2(modes[:, new], modes[:, place], weights)
        if r2[place] < HARMONIC:
            new.append(place)
            continue
        # The fewest that suffice: one alone, if one does.
        alone = [held_out_r2(modes[:, [other]], modes[:, place], weights) for other in new]
        best = int(np.argmax(alone))
        follows[place, new[best] if alone[best] >= HARMONIC else new] = True
    return r2, follows


def coordinates_kept(spectrum: _Array, sampling: Sampling) -> int:
    """Return how many coordinates to keep: those before the largest drop, no noise, harmonic or half group last."""
    # At least two, as :func:`~ldmaps.diffusion.spectrum.spectral_gap` has it.
    kept = spectral_gap(spectrum)
    least = min(kept, 2)
    groups = [np.flatnonzero(sampling.groups == number).tolist() for number in np.unique(sampling.groups)]
    while kept > least and not _is_worth(sampling, kept - 1):
        kept -= 1
    for _ in groups:  # a group that is completed may cut into the next
        kept = max([kept, *(group[-1] + 1 for group in groups if group[0] < kept <= group[-1])])
    return min(kept, len(spectrum))


def _is_worth(sampling: Sampling, mode: int) -> bool:
    """Say whether a mode, or the group it is in, is reproducible and shows something new."""
    if mode >= len(sampling.groups):
        return False
    members = sampling.groups == sampling.groups[mode]
    return bool(sampling.is_reproducible[mode] and not sampling.follows[members].any(axis=1).all())
