"""The mean first-passage time: how long it takes on average to reach a set.

With s(t) = min(t + τ, first entry after t into the target B),

    m(x) = 0 in B,    m(x_t) = ⟨m(x_s) + s − t⟩ elsewhere
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import AccuracyWarning
from ldmaps.fit.function_record import FunctionRecord
from ldmaps.kinetics.galerkin import Followed, Solved, facts_and_choice, follow, solve, warn_of_few_passages
from ldmaps.kinetics.sets import FrameSet
from ldmaps.kinetics.time_series import TimeSeries, one_of
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.maps.function_map import FunctionMap
from ldmaps.user_warnings import warn

#: A ridge acts as a rate of loss per lag, which would make times too short where transitions are rarer than that.
NO_RIDGE = (0.0,)
#: Largest share of frames whose time may come out below 0.
MOST_CUT = 0.5


def passage_time(
    model: DiffusionEstimator,
    X: Any,
    *,
    target: Any,
    lag: float,
    source: Any = None,
    name: str = "mfpt",
    runs: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> FunctionMap:
    """Learn the mean time to reach a target from frames in the order of time.

    Parameters
    ----------
    model : DiffusionMap or LandmarkDiffusionMap
        The map, fitted.
    X, runs, sample_weight
        See :func:`~ldmaps.kinetics.slow_modes`.
    target : array-like of bool, shape (n,), or Region
        Where processes end: which frames, or a region of the map.
    lag : float
        How long frames are followed, in the unit of times or else in rows.
    source : array-like of bool, shape (n,), or Region, optional
        Frames whose mean passage time, and the rate that is one over it, is reported with errors.
    name : str
        What the coordinate is called.

    Returns
    -------
    FunctionMap
        With one coordinate of 0 or more, in the unit of the lag; with ``source`` also ``mean_time_``, ``rate_`` and
        their 95 % intervals ``mean_time_interval_`` and ``rate_interval_``.

    See Also
    --------
    committor : the chance to reach one set before another.
    """
    series = TimeSeries(model, X, runs, sample_weight)
    rows = series.in_rows(lag)
    end = FrameSet("target", target, model)
    begin = [] if source is None else [FrameSet("source", source, model)]
    followed = follow(model, series, rows, [end], end, begin)
    warn_of_few_passages(followed, [end], end)
    unit = series.in_units(1.0)
    at_sets, bounds = np.zeros(len(followed.frames)), (0.0, math.inf)
    solved = solve(model, followed, lambda sums: unit * sums.durations, at_sets, bounds, NO_RIDGE)
    _warn_of_no_time(solved.values[followed.between], name)
    facts, choice = facts_and_choice(series, lag, followed, solved, end)
    lines = [
        f"mean first-passage time {name} to target ({100 * facts['target_share']:.3g} % of the {series.item}), "
        f"in {series.unit}",
        choice,
    ]
    if source is not None:
        facts |= _from_source(followed, solved)
        lines.insert(1, _source_line(facts, series.unit))
    record = FunctionRecord.of("passage time", [name], facts, lines)
    return FunctionMap.learned(model, solved.coefficients[:, None], record)


def _warn_of_no_time(values: NDArray[np.float64], name: str) -> None:
    """Warn if most times outside the target came out below 0 and were cut there."""
    share = float((values <= 0).mean())
    if share > MOST_CUT:
        warn(
            AccuracyWarning(
                f"{name} is negative for {100 * share:.0f} % of what is outside the target, so it is reported as "
                "unknown: weights or starts of runs are too far from equilibrium; leave out sample_weight, or "
                "give weights that make the data an equilibrium sample"
            )
        )


def _from_source(followed: Followed, solved: Solved) -> dict[str, Any]:
    """Return the mean time from the source and the rate that is one over it, with 95 % intervals; NaN if unknown."""
    chosen = followed.inside["source"]
    means = np.average(
        np.concatenate([solved.values[None], solved.resampled])[:, chosen],
        axis=1,
        weights=followed.weights[chosen],
    )
    means[~(means > 0)] = np.nan
    if not followed.passages[0]:  # then times are no more than what smooth functions make of them
        means[:] = np.nan
    mean, spread = float(means[0]), np.nan
    if np.isfinite(means).any():
        error = max(float(solved.resamples.errors(np.log(means[1:]))), followed.least_error)
        spread = float(np.exp(solved.resamples.width * error))
    return {
        "mean_time": mean,
        "mean_time_interval": [mean / spread, mean * spread],
        "rate": 1 / mean,
        "rate_interval": [1 / (mean * spread), spread / mean],
    }


def _source_line(facts: dict[str, Any], unit: str) -> str:
    if not math.isfinite(facts["mean_time"]):
        return "from source: unknown, for no transition was seen, or times came out below 0"
    low, high = facts["mean_time_interval"]
    return (
        f"from source: {facts['mean_time']:.3g} {unit} (95 % interval {low:.3g} to {high:.3g}), "
        f"rate {facts['rate']:.3g} per {one_of(unit)}"
    )
