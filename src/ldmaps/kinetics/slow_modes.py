"""Slow modes: the combinations of the walk's modes whose autocorrelation at a lag is largest.

    C_τ b = λ (C₀ + ρ) b,    t = −τ / ln λ

(VAC: Noé & Nüske 2013; tICA where the functions are features.) How many modes of the walk are combined, and the ridge
ρ, are those whose slowest combinations keep most of their autocorrelation in blocks of time that they were not fitted
to (McGibbon & Pande 2015; squares of it, as in VAMP-2: Wu & Noé 2020). Errors come from drawing blocks of time again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from ldmaps.correlation_times import FEW_INDEPENDENT
from ldmaps.diffusion.spectrum import fix_signs
from ldmaps.errors import AccuracyWarning, InvalidInputError, Named
from ldmaps.fit.function_record import FunctionRecord
from ldmaps.kinetics.blocks import Blocks, Resamples, check_enough, folds, total
from ldmaps.kinetics.lagged_sums import LaggedPairs, LaggedSums
from ldmaps.kinetics.time_series import TimeSeries
from ldmaps.kinetics.walk_modes import evaluate, walk_modes
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.maps.function_map import FunctionMap
from ldmaps.settings import check_whole
from ldmaps.threads import single_threaded_blas
from ldmaps.user_warnings import warn

#: Lags at which time scales are estimated, in units of the one that was asked for.
MULTIPLES = (1, 2, 3, 5)
#: Numbers of the walk's modes that are tried, and ridges, in units of the mean variance of a function. The slowest
#: functions are smooth, and a pass over the frames costs with the square of the largest number.
N_COMBINED = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50)
RIDGES = (0.0, 1e-4, 1e-3, 1e-2)
#: Modes that are judged, and that are kept at most, where their number is not given.
MOST_KEPT = 5
#: Directions whose variance is a smaller share of the largest are left out: functions are nearly dependent.
RANK_TOLERANCE = 1e-10
#: Least score: below it, modes are noise.
LEAST_SCORE = 0.02
#: Blocks that are drawn again are this many time scales long, if enough blocks are left.
BLOCK_TIMES = 3.0
#: Where predicted and found autocorrelations differ by more standard errors, a mode is not Markovian at the lag.
CK_LIMIT = 3.0

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Choice:
    """How many modes of the walk are combined, with which ridge, and the score that this has where it is held out."""

    n_combined: int
    ridge: float
    score: float


@dataclass(frozen=True)
class Combinations:
    """The slowest combinations of functions."""

    autocorrelations: _Array  # (m,): λ, the largest first
    vectors: _Array  # (p, m): b, of unit variance


def slow_modes(
    model: DiffusionEstimator,
    X: Any,
    *,
    lag: float,
    n_modes: int | None = None,
    runs: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> FunctionMap:
    """Learn the slowest functions on a map from frames in the order of time.

    Parameters
    ----------
    model : DiffusionMap or LandmarkDiffusionMap
        The map, fitted.
    X : array-like of shape (n, features), or (n, atoms, 3) for frames
        Frames in the order of time, equally spaced; trajectories and tables as for ``model.transform``, of which each
        file is a run of its own. They are read once.
    lag : float
        Time over which slowness is measured: in ps for trajectories with times, in the unit of the time column for
        tables (s), in rows elsewhere. Short against the time scales of interest, long enough that these no longer
        depend on it: ``record_.facts["implied"]`` lists them at 1, 2, 3 and 5 times the lag.
    n_modes : int, optional
        How many modes; by default those whose time scale exceeds the lag, from 1 to 5.
    runs : array-like of shape (n,), optional
        Of an array: a number for each row, the same for all rows of one run. No pair of frames is taken across runs.
    sample_weight : array-like of shape (n,), optional
        How much a pair that begins at each row counts, such as the inverse of a bias.

    Returns
    -------
    FunctionMap
        With coordinates slow1, slow2, ... of mean 0 and variance 1 over the frames.

    See Also
    --------
    committor : the chance to reach one set before another.
    passage_time : the mean time to reach a set.

    Examples
    --------
    >>> import numpy as np
    >>> from ldmaps import LandmarkDiffusionMap
    >>> rng, x = np.random.default_rng(0), np.zeros((20000, 1))
    >>> for step in range(1, len(x)):
    ...     x[step] = 0.9 * x[step - 1] + 0.44 * rng.normal()
    >>> model = LandmarkDiffusionMap(n_components=2, epsilon=0.2, n_landmarks=60).fit(x)
    >>> slow = model.slow_modes(x, lag=3, n_modes=1)
    >>> bool(8 < slow.timescales_[0] < 11)  # -1 / ln 0.9 = 9.5
    True
    """
    if n_modes is not None:
        check_whole("n_modes", n_modes, 1)
    series = TimeSeries(model, X, runs, sample_weight)
    step = series.in_rows(lag)
    modes = walk_modes(model, max(N_COMBINED))
    pairs = LaggedPairs([step * multiple for multiple in MULTIPLES])
    n_frames = 0
    for stretch in series:
        functions = evaluate(modes, stretch.points, model.n_threads)
        pairs.add(functions, stretch.weights, begins_run=stretch.begins_run)
        n_frames += len(functions)
    blocks = list(pairs.blocks)
    sums = total(blocks)
    _check_pairs(blocks, sums, step, n_frames, series)
    with single_threaded_blas():  # many small eigenproblems, on which threads lose more than they gain
        choice, scores = choose(blocks, n_modes)
        found = slowest(sums, choice)
        kept = _count(found, n_modes)
        _check_slow(found, choice, series.in_units(step))
        facts, times = _time_scales(pairs.blocks, choice, kept, step)
    facts |= {"lag": float(lag), "unit": series.unit, "n_frames": n_frames}
    facts |= {"n_combined": choice.n_combined, "ridge": choice.ridge, "score": choice.score}
    facts["scores"] = [[one.n_combined, one.ridge, one.score] for one in scores]
    facts = {name: _in_units(series, name, value) for name, value in facts.items()}
    n_independent = n_frames / (2.0 * times[0])
    facts["n_independent"] = n_independent
    mean = sums.mean()[: choice.n_combined]
    combination = found.vectors[:, :kept]
    coefficients = modes.coefficients(np.concatenate([-(mean @ combination)[None], combination]))
    names = [f"slow{number}" for number in range(1, kept + 1)]
    record = FunctionRecord.of("slow modes", names, facts, _lines(facts, names))
    _warn_about(n_independent, times[0], series)
    return FunctionMap.learned(
        model, fix_signs(coefficients), record, found.autocorrelations[:kept], found.autocorrelations
    )


# -- the eigenproblem ----------------------------------------------------------------


def slowest(sums: LaggedSums, choice: Choice, place: int = 0, most: int = 2 * MOST_KEPT) -> Combinations:
    """Return the slowest combinations of the functions that a choice allows, at one of the lags."""
    covariances = sums.leading(choice.n_combined + 1).covariances(place)
    if covariances is None:
        return Combinations(np.empty(0), np.empty((choice.n_combined, 0)))
    instant, lagged = covariances
    damped = instant + choice.ridge * np.trace(instant) / len(instant) * np.eye(len(instant))
    candidates = _generalised(lagged, damped)[1][:, :most]
    # The ridge decides which combinations are looked at; their autocorrelations are those of the data.
    values, mixed = _generalised(candidates.T @ lagged @ candidates, candidates.T @ instant @ candidates)
    return Combinations(np.clip(values, -1.0, 1.0), candidates @ mixed)


def _generalised(lagged: _Array, instant: _Array) -> tuple[_Array, _Array]:
    """Solve C_τ b = λ C₀ b, the largest λ first, with bᵀC₀b = 1."""
    lengths, turns = scipy.linalg.eigh(instant)
    keep = lengths > RANK_TOLERANCE * max(float(lengths[-1]), 0.0)
    white = turns[:, keep] / np.sqrt(lengths[keep])
    values, mixed = scipy.linalg.eigh(white.T @ lagged @ white)
    return values[::-1], white @ mixed[:, ::-1]


# -- choosing how much to combine -----------------------------------------------------


def choose(blocks: list[LaggedSums], n_modes: int | None) -> tuple[Choice, list[Choice]]:
    """Return the simplest choice whose score is as good as the best where it is held out, and all that were tried."""
    n_modes_of_walk = blocks[0].instant.shape[1] - 1
    n_judged = MOST_KEPT if n_modes is None else n_modes
    sizes = sorted({min(size, n_modes_of_walk) for size in N_COMBINED})
    split = list(folds(blocks))
    tried, scores = [], []
    for size in sizes:
        if n_modes is not None and size < min(n_modes, n_modes_of_walk):
            continue
        for ridge in RIDGES if size > 1 else RIDGES[:1]:
            choice = Choice(size, ridge, 0.0)
            by_fold = np.array([held_out_score(fitted, held, choice, n_judged) for fitted, held in split])
            scores.append(by_fold)
            tried.append(replace(choice, score=float(by_fold.mean())))
    return tried[_simplest(np.array(scores))], tried


def _simplest(scores: _Array) -> int:
    """Return the first choice that is worse than the best by no more than the standard error of the difference."""
    # Scores are (choices, folds), the choices that combine fewest first.
    behind = scores[np.argmax(scores.mean(axis=1))] - scores
    errors = behind.std(axis=1) / np.sqrt(max(scores.shape[1] - 1, 1))
    return int(np.argmax(behind.mean(axis=1) <= errors))


def held_out_score(fitted: LaggedSums, held: LaggedSums, choice: Choice, n_judged: int) -> float:
    """Return the squared autocorrelations that the slowest combinations of some data have in others, summed."""
    covariances = held.leading(choice.n_combined + 1).covariances()
    vectors = slowest(fitted, choice).vectors[:, :n_judged]
    if covariances is None or not vectors.shape[1]:
        return 0.0
    instant, lagged = (vectors.T @ matrix @ vectors for matrix in covariances)
    values = _generalised(lagged, instant)[0]
    return float((values * np.abs(values)).sum())


def _count(found: Combinations, n_modes: int | None) -> int:
    """Return how many modes are kept: as many as were asked for, or those that outlast the lag."""
    available = int(found.vectors.shape[1])
    if n_modes is None:
        lasting = int((found.autocorrelations > math.exp(-1.0)).sum())
        return max(1, min(MOST_KEPT, lasting, available))
    if n_modes > available:
        raise InvalidInputError(
            Named("n_modes", n_modes),
            f" is more than the {available} independent functions that the map has; lower it, or fit a map with more "
            "landmarks",
        )
    return n_modes


# -- time scales and their errors ------------------------------------------------------


def _time_scales(
    blocks: Blocks[LaggedSums], choice: Choice, kept: int, step: int
) -> tuple[dict[str, Any], _Array]:
    """Return what is known of time scales, in rows, with errors; and the time scales at the lag."""
    every = total(list(blocks))
    slowest_time = _times(slowest(every, choice).autocorrelations[:1], step)[0]
    drawn = [
        block.leading(choice.n_combined + 1)
        for block in blocks.at_least(BLOCK_TIMES * min(slowest_time, 1e9))
    ]
    resamples = Resamples.of(drawn)
    leading = every.leading(choice.n_combined + 1)
    vectors = slowest(leading, choice).vectors[:, :kept]
    estimates = _estimates(leading, choice, vectors, kept, step)
    again = list(_resampled(drawn, resamples, choice, vectors, kept, step))
    facts: dict[str, Any] = {}
    logs = {
        name: resamples.errors(np.array([np.log(one[name]) for one in again]))
        for name in ("implied", "psi2_timescale")
    }
    implied = estimates["implied"]
    spread = np.exp(resamples.width * logs["implied"])
    facts["timescales"] = implied[0]
    facts["timescale_errors"] = implied[0] * logs["implied"][0]
    facts["timescale_intervals"] = np.stack([implied[0] / spread[0], implied[0] * spread[0]], axis=1)
    facts["lags"] = np.array([float(multiple * step) for multiple in MULTIPLES])
    facts["implied"], facts["implied_low"], facts["implied_high"] = (
        implied,
        implied / spread,
        implied * spread,
    )
    facts["psi2_timescale"] = float(estimates["psi2_timescale"])
    gained = np.log([one["implied"][0, 0] / one["psi2_timescale"] for one in again])
    gain = np.log(implied[0, 0] / estimates["psi2_timescale"])
    facts["slower_than_psi2"] = bool(gain > resamples.width * resamples.errors(gained))
    facts["predicted"], facts["autocorrelations"] = estimates["predicted"], estimates["found"]
    facts["prediction_errors"] = resamples.errors(
        np.array([one["found"] - one["predicted"] for one in again])
    )
    return facts, implied[0]


def _resampled(
    drawn: list[LaggedSums], resamples: Resamples, choice: Choice, vectors: _Array, kept: int, step: int
) -> Iterator[dict[str, Any]]:
    for counts in resamples.counts:
        yield _estimates(total(drawn, counts), choice, vectors, kept, step)


def _estimates(sums: LaggedSums, choice: Choice, vectors: _Array, kept: int, step: int) -> dict[str, Any]:
    """Return all that is estimated from sums: time scales by lag, ψ₂'s, and autocorrelations of given modes."""
    implied = np.full((len(MULTIPLES), kept), np.nan)
    found, predicted = (np.full((len(MULTIPLES), kept), np.nan) for _ in range(2))
    psi2 = np.nan
    for place, multiple in enumerate(MULTIPLES):
        values = slowest(sums, choice, place).autocorrelations[:kept]
        implied[place, : len(values)] = _times(values, step * multiple)
        covariances = sums.covariances(place)
        if covariances is None:
            continue
        instant, lagged = covariances
        found[place] = np.diag(vectors.T @ lagged @ vectors) / np.diag(vectors.T @ instant @ vectors)
        predicted[place] = found[0] ** multiple
        if place == 0:
            psi2 = float(_times(np.array([lagged[0, 0] / instant[0, 0]]), step)[0])
    return {"implied": implied, "found": found, "predicted": predicted, "psi2_timescale": psi2}


def _times(autocorrelations: _Array, lag: float) -> _Array:
    """Return −τ/ln λ; NaN where λ is not between 0 and 1."""
    is_decay = (autocorrelations > 0) & (autocorrelations < 1)
    return np.where(is_decay, -lag / np.log(np.where(is_decay, autocorrelations, 0.5)), np.nan)


#: Facts that are times in rows until they get a unit.
_TIMES = frozenset(
    [
        "timescales",
        "timescale_errors",
        "timescale_intervals",
        "lags",
        "implied",
        "implied_low",
        "implied_high",
        "psi2_timescale",
    ]
)


def _in_units(series: TimeSeries, name: str, value: Any) -> Any:
    return value * series.in_units(1.0) if name in _TIMES else value


# -- words ----------------------------------------------------------------------------


def _lines(facts: dict[str, Any], names: list[str]) -> list[str]:
    """Return what was found in words."""
    unit = facts["unit"]
    lines = []
    for place, name in enumerate(names):
        low, high = facts["timescale_intervals"][place]
        lines.append(
            f"{name}: time scale {facts['timescales'][place]:.3g} {unit} (95 % interval {low:.3g} to {high:.3g})"
        )
    lines.append(
        f"lag {facts['lag']:g} {unit}; {facts['n_combined']} modes of the walk combined with ridge "
        f"{facts['ridge']:g}, chosen on held-out blocks of time (score {facts['score']:.3f})"
    )
    if not facts["slower_than_psi2"]:
        lines.append(
            f"slow1 is not measurably slower than psi2, whose time scale is {facts['psi2_timescale']:.3g} {unit}"
        )
    off = np.abs(facts["autocorrelations"] - facts["predicted"])[1:] / np.maximum(
        facts["prediction_errors"][1:], 1e-12
    )
    doubtful = [
        name
        for name, worst in zip(names, np.nanmax(off, axis=0, initial=0.0), strict=True)
        if worst > CK_LIMIT
    ]
    if doubtful:
        lines.append(
            f"Chapman-Kolmogorov check: {', '.join(doubtful)} decays differently from what the lag predicts; "
            "time scales depend on the lag, use a longer one"
        )
    else:
        lines.append(f"Chapman-Kolmogorov check passed up to {MULTIPLES[-1]} lags")
    last = zip(names, facts["autocorrelations"][-1], facts["predicted"][-1], strict=True)
    lines[-1] += f"; autocorrelation after {MULTIPLES[-1]} lags, found (predicted): " + ", ".join(
        f"{name} {found:.3f} ({predicted:.3f})" for name, found, predicted in last
    )
    return lines


def _check_pairs(
    blocks: list[LaggedSums], sums: LaggedSums, step: int, n_frames: int, series: TimeSeries
) -> None:
    """Raise where there are too few pairs to choose, judge and resample."""
    if not sums.instant[-1, 0, 0] > 0:
        longest = series.in_units(step * MULTIPLES[-1])
        raise InvalidInputError(
            "no run is long enough for ",
            Named("lag", series.in_units(step)),
            f": time scales are compared over 5 lags, so runs must be longer than {longest:g} {series.unit}; use a "
            "shorter lag or longer runs",
        )
    check_enough(blocks, n_frames, series.item)


def _check_slow(found: Combinations, choice: Choice, lag: float) -> None:
    """Raise where nothing that was fitted to some blocks of time is correlated in the others."""
    if choice.score < LEAST_SCORE or not found.autocorrelations[0] > 0:
        raise InvalidInputError(
            f"no function on this map outlasts the lag: the squared autocorrelation after {lag:g} is "
            f"{choice.score:.2g} on held-out blocks of time, and {LEAST_SCORE:g} is needed; use a shorter lag, or "
            "check that the rows are in the order of time"
        )


def _warn_about(n_independent: float, slowest_time: float, series: TimeSeries) -> None:
    if n_independent < FEW_INDEPENDENT:
        warn(
            AccuracyWarning(
                f"too few transitions: the data are {2 * n_independent:.3g} times as long as the slowest time scale, "
                f"{series.in_units(slowest_time):.3g} {series.unit}, and at least {2 * FEW_INDEPENDENT:.0f} times are "
                "needed; time scales and their errors are unreliable until there are more data"
            )
        )
