"""The mean first-passage time: how long it takes on average to reach a set.

With s(t) = min(t + τ, first entry after t into the target B),

    m(x) = 0 in B,    m(x_t) = ⟨m(x_s) + s − t⟩ elsewhere
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ldmaps.fit.function_record import FunctionRecord
from ldmaps.kinetics.galerkin import follow, solve
from ldmaps.kinetics.sets import FrameSet
from ldmaps.kinetics.time_series import TimeSeries
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.maps.function_map import FunctionMap


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
    unit = series.in_units(1.0)
    solved = solve(
        model, followed, lambda sums: unit * sums.durations, np.zeros(len(followed.frames)), (0.0, math.inf)
    )
    facts: dict[str, Any] = {
        "lag": float(lag),
        "unit": series.unit,
        "n_frames": followed.n_frames,
        "n_combined": solved.choice.n_combined,
        "ridge": solved.choice.ridge,
        "misfit": solved.misfit,
        "landmark_errors": solved.errors,
        "target_share": float(np.average(followed.inside["target"], weights=followed.weights)),
    }
    lines = [
        f"mean first-passage time {name} to target ({100 * facts['target_share']:.3g} % of the {series.item}), "
        f"in {series.unit}",
        f"lag {lag:g} {series.unit}; {solved.choice.n_combined} functions combined with ridge {solved.choice.ridge:g}, "
        f"chosen on held-out blocks of time; the map differs from their combination by {solved.misfit:.2g}",
    ]
    if source is not None:
        chosen = followed.inside["source"]
        weights = followed.weights[chosen]
        mean = float(np.average(solved.values[chosen], weights=weights))
        again = np.log(np.average(solved.resampled[:, chosen], axis=1, weights=weights))
        spread = math.exp(solved.resamples.width * float(solved.resamples.errors(again)))
        facts["mean_time"], facts["mean_time_interval"] = mean, [mean / spread, mean * spread]
        facts["rate"], facts["rate_interval"] = 1 / mean, [1 / (mean * spread), spread / mean]
        lines.insert(
            1,
            f"from source: {mean:.3g} {series.unit} (95 % interval {mean / spread:.3g} to {mean * spread:.3g}), "
            f"rate {1 / mean:.3g} per {series.unit}",
        )
    record = FunctionRecord.of("passage time", [name], facts, lines)
    return FunctionMap.learned(model, solved.coefficients[:, None], record)
