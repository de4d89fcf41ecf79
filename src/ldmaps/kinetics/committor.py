"""The committor: the chance to reach one set before another.

With s(t) = min(t + τ, first entry after t into the source A or the target B),

    q(x) = 0 in A,    q(x) = 1 in B,    q(x_t) = ⟨q(x_s)⟩ elsewhere
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import AccuracyWarning
from ldmaps.fit.function_record import FunctionRecord
from ldmaps.kinetics.galerkin import Followed, Solved, facts_and_choice, follow, solve, warn_of_few_passages
from ldmaps.kinetics.outcomes import Level
from ldmaps.kinetics.sets import FrameSet
from ldmaps.kinetics.time_series import TimeSeries, one_of
from ldmaps.kinetics.walk_committor import walk_committor
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.maps.function_map import FunctionMap
from ldmaps.user_warnings import warn

#: Quantities that come with 95 % intervals, as logarithms vary alike above and below.
_FLOWS = ("flux", "rate", "back_rate")
#: Widths of the kernel that are tried in turn, in units of the map's squared one, while the committor is too smooth and
#: narrower ones help.
NARROWINGS = (1.0, 1 / 4, 1 / 16)
#: Largest root mean square by which a map may differ from the combination of functions that solves the equation.
MOST_MISFIT = 0.02


@dataclass(frozen=True)
class Attempt:
    """A committor with kernels of some width."""

    narrowing: float
    followed: Followed
    solved: Solved
    levels: list[Level]

    @property
    def n_off(self) -> int:
        """At how many levels frames went elsewhere than the committor has it."""
        return sum(one.is_off for one in self.levels)

    @property
    def is_steep_enough(self) -> bool:
        """Whether nothing speaks for narrower kernels."""
        return self.n_off == 0 and self.solved.misfit <= MOST_MISFIT

    def is_better(self, other: Attempt) -> bool:
        """Whether it is off at fewer levels, or follows its functions twice as well, and no worse where held out."""
        gains = (self.n_off, 2.0 * self.solved.misfit) < (other.n_off, other.solved.misfit)
        return gains and not self.solved.choice.is_worse(other.solved.choice)


def committor(
    model: DiffusionEstimator,
    X: Any,
    *,
    source: Any,
    target: Any,
    lag: float | None = None,
    name: str = "q",
    runs: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> FunctionMap:
    """Learn the chance to reach a target before a source from frames in the order of time.

    Parameters
    ----------
    model : DiffusionMap or LandmarkDiffusionMap
        The map, fitted.
    X, runs, sample_weight
        See :func:`~ldmaps.kinetics.slow_modes`.
    source, target : array-like of bool, shape (n,), or Region
        Where processes begin and end: which frames, or a region of the map, such as
        ``find_basins(model).regions["basin 1"]``. They must not overlap.
    lag : float, optional
        How long frames are followed, in the unit of times or else in rows. Short lags use the data best; the result
        should not depend on it. Frames are read once, and once more for each narrower kernel that is tried where the
        committor is too steep for the map's. Without a lag, for points that are not in the order of time, the committor
        is that of the random walk over the landmarks (α = ½), which has no rate and no error; ``X`` may be None then,
        if both sets are regions.
    name : str
        What the coordinate is called.

    Returns
    -------
    FunctionMap
        With one coordinate between 0 and 1. ``rate_`` is how often the target is reached while the source was the last
        set, ``flux_`` how often in all, with 95 % intervals ``rate_interval_`` and ``flux_interval_``.

    See Also
    --------
    passage_time : the mean time to reach a set.
    slow_modes : the slowest functions on a map.

    Examples
    --------
    >>> import numpy as np
    >>> from ldmaps import LandmarkDiffusionMap
    >>> rng, x = np.random.default_rng(0), np.zeros((20000, 1))
    >>> for step in range(1, len(x)):
    ...     x[step] = 0.9 * x[step - 1] + 0.44 * rng.normal()
    >>> model = LandmarkDiffusionMap(n_components=2, epsilon=0.2, n_landmarks=60).fit(x)
    >>> q = model.committor(x, source=x[:, 0] < -1, target=x[:, 0] > 1, lag=2)
    >>> bool(0.45 < q.transform([[0.0]])[0, 0] < 0.55)
    True
    """
    if lag is None:
        return walk_committor(model, X, source, target, name)
    series = TimeSeries(model, X, runs, sample_weight)
    rows = series.in_rows(lag)
    begin, end = FrameSet("source", source, model), FrameSet("target", target, model)
    best = _attempt(model, series, rows, begin, end, NARROWINGS[0])
    warn_of_few_passages(best.followed, [begin, end], end)
    for narrowing in NARROWINGS[1:]:
        if best.is_steep_enough:
            break
        narrower = _attempt(model, series, rows, begin, end, narrowing)
        if not narrower.is_better(best):
            break
        best = narrower
    followed, solved, levels = best.followed, best.solved, best.levels
    between = followed.between
    errors = solved.resamples.errors(solved.resampled)[between]
    weights = followed.weights
    middle = (solved.values[between] > 0.1) & (solved.values[between] < 0.9)
    halfway = (solved.values > 0.45) & (solved.values < 0.55) & between
    facts, choice = facts_and_choice(series, lag, followed, solved, end)
    facts |= {
        "narrowing": best.narrowing,
        "error": _root_mean_square(errors, weights[between]),
        "middle_error": _root_mean_square(errors[middle], weights[between][middle]),
        "levels": [[one.value, one.arrived, one.error, one.visits] for one in levels],
        "source_share": followed.share(begin),
        "halfway_share": float(np.average(halfway, weights=weights)),
    }
    facts |= _rates(followed, solved, series)
    lines = [
        f"committor {name} from source ({100 * facts['source_share']:.3g} % of the {series.item}) to target "
        f"({100 * facts['target_share']:.3g} %)",
        f"standard error {facts['error']:.2g} between the sets, root mean square, and "
        f"{facts['middle_error']:.2g} where it is 0.1 to 0.9; "
        f"{100 * facts['halfway_share']:.2g} % of the {series.item} have a value of 0.45 to 0.55",
        choice,
    ]
    if best.narrowing != 1.0:
        lines.append(
            f"kernels have {best.narrowing:g} of the map's squared width, for which {name} is too steep"
        )
    lines[2:2] = [_level_line(name, levels), *_rate_lines(facts, series.unit)]
    _warn_of_levels(name, levels)
    record = FunctionRecord.of("committor", [name], facts, lines)
    bandwidth = followed.modes.embedder.bandwidth
    return FunctionMap.learned(model, solved.coefficients[:, None], record, bandwidth=bandwidth)


def _attempt(
    model: DiffusionEstimator, series: TimeSeries, lag: int, begin: FrameSet, end: FrameSet, narrowing: float
) -> Attempt:
    followed = follow(model, series, lag, [begin, end], end, [], narrowing)
    at_target = followed.inside["target"].astype(np.float64)
    solved = solve(model, followed, lambda sums: sums.arrivals, at_target, (0.0, 1.0))
    return Attempt(narrowing, followed, solved, _levels(model, followed, solved))


def _root_mean_square(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.average(values**2, weights=weights))) if weights.sum() > 0 else np.nan


def _levels(model: DiffusionEstimator, followed: Followed, solved: Solved) -> list[Level]:
    """Compare the committor of the map with where frames went."""
    embedder = followed.modes.embedder
    row = np.ascontiguousarray(solved.coefficients[None], dtype=embedder.coefficients.dtype)
    learned = replace(embedder, coefficients=row)

    def values_at(points: NDArray[Any]) -> NDArray[np.float64]:
        found = learned.extend(learned.prepare(points), model.n_threads).coordinates
        return np.asarray(found[:, 0], dtype=np.float64)

    return followed.outcomes.levels(values_at)


def _level_line(name: str, levels: list[Level]) -> str:
    told = ", ".join(f"{one.value:.2f}: {one.arrived:.2f} ({one.visits:.0f} visits)" for one in levels)
    return f"mean {name} of frames, and the share of them that reached the target first: {told or 'none at 0.1 to 0.9'}"


def _warn_of_levels(name: str, levels: list[Level]) -> None:
    """Warn if frames went elsewhere than the committor has it."""
    off = [one for one in levels if one.is_off]
    if off:
        worst = max(off, key=lambda one: abs(one.arrived - one.value))
        warn(
            AccuracyWarning(
                f"{name} is off between the sets: where it is {worst.value:.2f} on average, {worst.arrived:.2f} of the "
                f"frames reach the target first ({worst.visits:.0f} independent visits, which vary by "
                f"{worst.error:.2f}); take a longer lag, fit the map with more landmarks or a smaller epsilon, so that "
                f"{name} can be steeper, or check it with runs from there"
            )
        )


def _rates(followed: Followed, solved: Solved, series: TimeSeries) -> dict[str, Any]:
    """Return the reactive flux and the rates both ways, per unit of time, with 95 % intervals."""
    per_unit = 1.0 / series.in_units(1.0)

    flux = np.array([sums.flux(combination) * per_unit for sums, combination in solved.combinations])
    share = np.array([sums.mean_committor(combination) for sums, combination in solved.combinations])
    with np.errstate(invalid="ignore", divide="ignore"):
        flows = np.stack([flux, flux / (1.0 - share), flux / share], axis=1)
        # Without a transition, what joins the sets is no more than that the functions are smooth.
        flows[~(any(followed.passages) & np.isfinite(flows) & (flows > 0))] = np.nan
        logs = np.log(flows[1:])
    spread = np.full(len(_FLOWS), np.nan)
    if np.isfinite(logs).any():
        errors = np.maximum(solved.resamples.errors(logs), followed.least_error)
        spread = np.exp(solved.resamples.width * errors)
    found = flows[0].tolist()
    facts: dict[str, Any] = dict(zip(_FLOWS, found, strict=True))
    for name, value, factor in zip(_FLOWS, found, spread, strict=True):
        facts[f"{name}_interval"] = [value / factor, value * factor]
    return facts


def _rate_lines(facts: dict[str, Any], unit: str) -> list[str]:
    def told(name: str) -> str:
        if not np.isfinite(facts[name]):
            return "unknown: no transition was seen"
        low, high = facts[f"{name}_interval"]
        return f"{facts[name]:.3g} per {one_of(unit)} (95 % interval {low:.3g} to {high:.3g})"

    return [
        f"rate from source to target {told('rate')}, back {told('back_rate')}",
        f"reactive flux {told('flux')}: transitions one way",
    ]
