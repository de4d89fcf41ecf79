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
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS, places_in_spectrum
from ldmaps.embedded_rows import coordinate_names, place_of
from ldmaps.validation.harmonics import find_harmonics
from ldmaps.validation.resampling import (
    REPRODUCIBLE,
    Blocks,
    FittedModes,
    cut_blocks,
    matched,
    reproduced,
    resampled_modes,
    resampled_multiplicities,
)
from ldmaps.validation.states import find_states

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
PLAIN = ("lag", "unit", "kind", "n_resamples", "n_blocks", "block_length", "are_long_enough", "n_states")
NEEDED = (
    *("eigenvalues", "errors", "intervals", "cosine", "group_cosine", "groups", "r2", "follows"),
    "landmark_errors",
)
#: Below this λ₂ a walk forgets in one step where it was: the kernel is three times as wide as the data.
NO_STRUCTURE = 0.1
#: A replica disagrees when a coordinate's mean in it is so many standard errors from that in the others.
DISAGREES = 4.0

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
    """What resampling the training points says of p modes: a map's coordinates (psi2 is mode 0), then leading others.

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
        How well earlier coordinates predict the mode within metastable states (held out); 0 for modes that tell
        states apart.
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
    n_states : int
        Metastable states that the first ``n_states - 1`` modes tell apart; 1 where there are none.
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
    n_states: int = 1
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

    def _place(self, mode: int | str) -> int:
        """Return the place of a mode that is given by name or place."""
        return place_of(mode, coordinate_names(len(self.eigenvalues)))

    @property
    def is_reproducible(self) -> NDArray[np.bool_]:
        """Whether each mode is reproducible, alone or in its group; shape (p,)."""
        return self.group_cosine >= REPRODUCIBLE

    def reproducibility(self, mode: int | str) -> str:
        """Return "reproducible", "mixes with psi4" or "noise" of a ``mode``, such as "psi2", or its place from 0."""
        mode = self._place(mode)
        if not self.is_reproducible[mode]:
            return "noise"
        others = [other for other in np.flatnonzero(self.groups == self.groups[mode]) if other != mode]
        return f"mixes with {names_of(others)}" if others else "reproducible"

    def timescale(self, mode: int | str) -> str:
        """Return "slow", "fast" or "unknown" of a ``mode``, such as "psi2"; for points without time ""."""
        mode = self._place(mode)
        if self.times is None or self.correlations is None:
            return ""
        time, error, n_independent = self.times[mode]
        if n_independent * time / (time + error) < FEW_INDEPENDENT:
            return "unknown"
        # Where even the slowest has forgotten all from one frame to the next, nothing is slow.
        least = max(SLOW * self.correlations[-1], FORGOTTEN)
        return "slow" if self.correlations[mode] >= least else "fast"

    def of_map(self, eigenvalues: NDArray[np.float64], spectrum: NDArray[np.float64]) -> Sampling:
        """Return the same for a map with coordinates of these ``eigenvalues``, which are among its ``spectrum``.

        The spectrum, largest first, may have been solved more exactly: errors are then around its values. Coordinates
        psi2, psi3, ... become modes 0, 1, ..., whether harmonics are between them or not.
        """
        judged = len(self.eigenvalues)
        count = min(len(spectrum), judged)
        shift = np.zeros(judged)
        shift[:count] = spectrum[:count] - self.eigenvalues[:count]
        places = places_in_spectrum(eigenvalues, spectrum)
        places = places[places < judged]
        shifted = replace(
            self, eigenvalues=self.eigenvalues + shift, intervals=self.intervals + shift[:, None]
        )
        return shifted._in_order(np.concatenate([places, np.setdiff1d(np.arange(judged), places)]))

    def _in_order(self, order: NDArray[np.intp]) -> Sampling:
        """Return the same with the modes in another order."""
        by_mode = ("eigenvalues", "errors", "intervals", "cosine", "group_cosine", "groups", "r2")
        parts: dict[str, Any] = {name: getattr(self, name)[order] for name in by_mode}
        parts["follows"] = self.follows[np.ix_(order, order)]
        parts["landmark_errors"] = self.landmark_errors[:, order]
        if self.times is not None:
            parts["times"] = self.times[order]
        if self.correlations is not None:  # the last is that of the slowest combination
            parts["correlations"] = self.correlations[np.append(order, len(order))]
        if self.replicas is not None:
            parts["replicas"] = self.replicas[:, order]
        return replace(self, **parts)


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
    n_landmarks, n_known = len(fitted.vectors), int((fitted.eigenvalues > 1e-6).sum()) - 1
    # Nearly as many modes as landmarks would span all there is, and be called reproducible for that.
    count = max(1, min(MAX_GAP_COMPONENTS, len(fitted.eigenvalues) - 2, n_known, n_landmarks // 3))
    psi = fitted.vectors[:, 1 : count + 1]
    runs = runs_of(len(cells), order.files)
    times = [correlation_time(column[cells], runs) for column in psi.T] if order.has_time else []
    kind = ("time" if order.has_time else "rows") if resample == "auto" else resample
    longest = max((time.time for time in times), default=0.5)
    surely = max((time.upper for time in times), default=0.5)
    blocks = cut_blocks(len(cells), kind, correlation_time=surely, files=order.files, rng=rng)
    drawn = resampled_multiplicities(cells, weights, len(psi), blocks, n_resamples, rng)
    # One mode more than is judged: the last may change places with it.
    values, vectors = resampled_modes(fitted, drawn, min(count + 1, len(fitted.eigenvalues) - 1), n_threads)
    multiplicities = np.bincount(cells, weights, len(psi)).astype(np.float64)
    states = find_states(fitted.eigenvalues[1:], psi, multiplicities)
    matches = matched(fitted.measure, psi, vectors)
    r2, follows = find_harmonics(psi, multiplicities, states)
    cosine, groups, group_cosine = reproduced(matches, states.count - 1, np.asarray(follows.any(axis=1)))
    lengths = np.sqrt(multiplicities @ psi**2)
    places = matches.places
    signs = np.sign(np.take_along_axis(matches.correlations, places[:, :, None], axis=2))[:, :, 0]
    own = np.take_along_axis(vectors, places[:, None], axis=2) * signs[:, None]
    landmark_errors = blocks.inflation * np.sqrt(np.mean((own - psi / lengths) ** 2, axis=0))
    errors = blocks.inflation * values[:, :count].std(axis=0, ddof=1)
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
        n_states=states.count,
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
