"""Predict what a fit will cost, from fits of n, 2n, 4n ... points: each stage is extrapolated by its law."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from timeit import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from ldmaps.errors import DisconnectedError, InvalidInputError, LdmapsError, LdmapsWarning, ToleranceError
from ldmaps.extension import resolve_extension
from ldmaps.fit.recipe import reference_passes, reference_size, searched_points
from ldmaps.inputs import as_source
from ldmaps.landmarks import FixedLandmarks, Uniform, resolve_selector
from ldmaps.landmarks.base import DEFAULT_LANDMARKS
from ldmaps.landmarks.fixed import check_indices
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.metrics import resolve_metric
from ldmaps.planning.stage_meter import OUTSIDE, StageMeter, free_bytes, give_back, law, resident_bytes
from ldmaps.progress import Progress, reporting, stage
from ldmaps.settings import LANDMARK_FIT, Limits, check_whole

#: Seconds that fits of some of the points take in all, about.
BUDGET = 10.0
#: Points of the first of these fits: at least, and per landmark; for slow metrics; and in units of the sample that a
#: map is distilled from. With fewer, stages take other ways than they do with many.
FEWEST, FEWEST_SLOW, BEYOND_SAMPLE = (2500, 4), (500, 2), 1.25
#: Of fewer points there is nothing to plan.
FEWEST_POINTS = 10
#: A fit that takes longer than this, in seconds, gets advice.
PATIENCE = 3600.0
#: Stages that see all points, also where a tolerance is searched with a sample of them.
OF_ALL = (OUTSIDE, "embedding")
#: Stages whose time grows with N. Between two short trials, noise would otherwise be taken for a square of N.
LINEAR = (OUTSIDE, "resampling", "embedding")
#: Points that are embedded to see how long one takes.
EMBEDDED = 1000
#: Units of times and of memory.
_SECONDS = {"h": 3600.0, "min": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6}
_BYTES = {"GB": 1e9, "MB": 1e6}


@dataclass(frozen=True)
class Plan:
    """Predicted cost of a landmark map."""

    n_points: int  # N and M; M as the largest trial found it, if the fit is to find it
    n_landmarks: int
    #: points of the fits that this was extrapolated from; N itself where that took seconds
    tried: tuple[int, ...]
    fit_seconds: float  # without reading the points
    peak_bytes: float  # memory of the process at its highest: what it holds now, the points and the fit
    steps: dict[str, float]  # seconds of each stage of the fit
    memory: dict[str, float]  # bytes of the process while each stage runs, at their highest
    seconds_per_point: float  # for points embedded in batches
    latency_seconds: float  # for a point embedded by itself
    stride: int  # one point in so many makes a fit of less than an hour that this machine has the memory for

    def __str__(self) -> str:
        tried = " and ".join(", ".join(f"{n:,}" for n in self.tried).rsplit(", ", 1))
        basis = "measured" if self.n_points in self.tried else f"extrapolated from fits of {tried} points"
        rows = [("stage", "time", "memory")]
        rows += [(name, _written(t), _written(self.memory[name], _BYTES)) for name, t in self.steps.items()]
        rows += [("all", _written(self.fit_seconds), _written(self.peak_bytes, _BYTES))]
        width = max(len(row[0]) for row in rows)
        return "\n".join(
            [
                f"cost of fitting {self.n_points:,} points with {self.n_landmarks:,} landmarks ({basis}):",
                *(f"  {name:<{width}}  {seconds:>8}  {memory:>8}" for name, seconds, memory in rows),
                f"embedding new points: {_written(self.seconds_per_point)} per point in batches, "
                f"{_written(self.latency_seconds)} for a single point",
                self.verdict,
            ]
        )

    @property
    def verdict(self) -> str:
        """Whether to begin, in a sentence or two, and with which points otherwise."""
        reasons = _against(self.fit_seconds, self.peak_bytes)
        if not reasons:
            return f"Go ahead: this machine has {_written(free_bytes(), _BYTES)} of memory left."
        if self.stride > 1:
            reasons.append(f"Fit one point in {self.stride} instead.")
        return " ".join(reasons)


def plan(
    data: ArrayLike,
    n_features_or_atoms: int | None = None,
    metric: Any = "euclidean",
    n_landmarks: int | None = None,
    *,
    n: int | None = None,
    dtype: Any = np.float32,
    **settings: Any,
) -> Plan:
    """Predict memory and time of :class:`~ldmaps.LandmarkDiffusionMap`, from fits of some of the points.

    Parameters
    ----------
    data : array-like or int
        Points to learn from, all or a sample of them; or how many there will be.
    n_features_or_atoms : int, optional
        Where ``data`` is a number: features of a point, or atoms of a frame. Points are then made up at random; yours
        are better, because where they crowd decides how long a bandwidth or landmarks take to find.
    metric, n_landmarks, settings
        See the estimator.
    n : int, optional
        How many points the fit will have, where ``data`` are a sample.
    dtype : float32 or float64
        Precision of points that are made up.

    Returns
    -------
    Plan
        Time and memory, in all and for each stage, and what a new point takes.

    See Also
    --------
    LandmarkDiffusionMap : the fit that is planned.

    Notes
    -----
    This takes ten seconds, or as long as the fit, if that is less. The aim is a factor of two, and 1.5 for memory,
    up to thirty times the points that were tried; other work on the machine affects it.

    Examples
    --------
    >>> import ldmaps
    >>> from ldmaps.datasets import swiss_roll
    >>> cost = ldmaps.plan(swiss_roll(1000).points, n_landmarks=50, epsilon=4.0)
    >>> list(cost.steps)
    ['preparation', 'bandwidth', 'landmarks', 'eigenproblem', 'resampling', 'embedding']
    """
    model = LandmarkDiffusionMap(metric=metric, n_landmarks=n_landmarks, **settings)
    rng = np.random.default_rng(0)
    if n_features_or_atoms is not None:
        count = check_whole("n", data, FEWEST_POINTS)
        width = check_whole("n_features_or_atoms", n_features_or_atoms, 1)
        kind = np.dtype(dtype)
        if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise InvalidInputError(f"dtype must be float32 or float64, got {dtype!r}")
        maker = resolve_metric(metric)
        width *= 3 if maker.takes_frames else 1
        return _planned(
            model, lambda size: maker.made_up(size, width, rng).astype(kind), count, count, kind.itemsize
        )
    source = as_source(data)
    points = np.asarray(data if source is None else source.read().frames)
    if points.ndim < 2:
        raise InvalidInputError(
            f"data must be points of shape (n, features) or (n, atoms, 3), got shape {points.shape}; to plan with "
            "random points, pass their number and n_features_or_atoms"
        )
    if len(points) < FEWEST_POINTS:
        raise InvalidInputError(
            f"a plan is extrapolated from fits of some of the points, so it needs at least {FEWEST_POINTS} of them, "
            f"got {len(points)}; pass more data"
        )
    n = check_whole("n", len(points) if n is None else n, FEWEST_POINTS)
    is_pairwise = resolve_metric(metric).takes_distances

    def some(count: int) -> NDArray[Any]:
        chosen = np.sort(rng.choice(len(points), count, replace=False))
        return points[np.ix_(chosen, chosen)] if is_pairwise else points[chosen]

    itemsize = 4 if points.dtype == np.float32 else 8
    held = 0.0 if isinstance(data, np.memmap) else points.nbytes
    return _planned(model, some, min(len(points), n), n, itemsize, held)


class _Trial(NamedTuple):
    """A fit of some of the points."""

    n_points: int
    costs: Mapping[str, Sequence[float]]  # of each stage, as the meter gives them
    n_landmarks: int
    per_point: tuple[float, float]  # seconds in batches, and alone


def _planned(
    model: LandmarkDiffusionMap,
    some: Callable[[int], NDArray[Any]],
    most: int,
    n: int,
    itemsize: int,
    held: float = 0.0,
) -> Plan:
    """Fit some of the points, twice as many each time until that takes too long, and extrapolate."""
    metric = resolve_metric(model.metric)
    selector = resolve_selector(model.landmarks, model.n_landmarks, min(DEFAULT_LANDMARKS, n))
    changes: dict[str, Any] = {"verbose": False}
    limits: Limits = LANDMARK_FIT["limits"].check(model.limits) or Limits()
    limits = replace(limits, resume=None)  # the file is the fit's own
    if isinstance(selector, FixedLandmarks):  # drawing as many costs as little
        selector = changes["landmarks"] = Uniform(len(check_indices(selector.indices, n)))
    m = selector.n_landmarks or DEFAULT_LANDMARKS
    extension = resolve_extension(model.extension, for_tolerance=model.tolerance is not None)
    is_taught = extension.learns_from_reference or model.tolerance is not None
    searched = searched_points(n, model.tolerance, limits)
    size = reference_size(metric, searched, m, itemsize, limits.memory) if is_taught else n
    least, per_landmark = FEWEST_SLOW if metric.is_slow else FEWEST
    if size < searched:
        passes = reference_passes(metric, searched, model.alpha, limits.max_passes)
        limits = replace(limits, max_passes=passes)
        least = max(least, 0 if passes else int(BEYOND_SAMPLE * size))

    def trial(count: int) -> _Trial:
        """Do with fewer points what the fit does with all."""
        memory = limits.memory
        if count < searched and size < searched:  # which kernel is too large to be stored is decided by N
            memory = itemsize * (min(size, count - 1) + 0.5) ** 2
        changed = clone(model).set_params(**changes, limits=replace(limits, memory=memory))
        return _tried(changed, some(count))

    count = min(most, max(least, per_landmark * m))
    with suppress(LdmapsError):  # loads what the others use, and brings the allocator into their state
        trial(count // 2)
    give_back()
    before = resident_bytes()
    trials, spent = [], 0.0
    while True:
        began = time.perf_counter()
        try:
            with stage(f"fit of {count:,} points"):
                trials.append(trial(count))
        except ToleranceError:
            if count == most:  # fewer certify less
                raise
        except DisconnectedError as error:
            epsilon = changes.get("epsilon", model.epsilon)
            if count == n or isinstance(epsilon, str):
                raise
            changes["epsilon"] = max(1.1 * float(epsilon), error.joining_epsilon)  # fewer are farther apart
            continue
        last = time.perf_counter() - began
        spent += last
        if count == most or (len(trials) > 1 and spent + 4 * last > BUDGET):
            break
        count = min(2 * count, most)
    # Noise in what a process holds, taken for a quadratic term, would be gigabytes; so there is one where one must be.
    has_matrix = (is_taught and size == searched) or metric.takes_distances or selector.is_automatic
    plan = _extrapolated(trials[-3:], n, searched, before, held, 2 if has_matrix else 1)
    is_found = selector.is_automatic or model.tolerance is not None
    # With fewer points, more of the landmarks may be isolated and left out.
    return plan if is_found else replace(plan, n_landmarks=min(m, n))


def _tried(model: LandmarkDiffusionMap, points: NDArray[Any]) -> _Trial:
    """Fit, and embed some of the points."""
    give_back()
    with warnings.catch_warnings(), StageMeter() as meter, reporting(meter):
        warnings.simplefilter("ignore", LdmapsWarning)  # what is wrong with some points may be right with all
        model.fit(points)
    sample = points[:EMBEDDED]
    with reporting(Progress(show=False)), stage("embedding"):
        # The least of several times: what else runs on the machine only ever adds to them.
        batch = min(repeat(lambda: model.transform(sample), repeat=9, number=1)) / len(sample)
        alone = min(repeat(lambda: model.transform(sample[:1]), repeat=50, number=1))
    return _Trial(len(points), meter.costs, model.embedder_.n_landmarks, (batch, alone))


def _extrapolated(
    trials: list[_Trial], n: int, searched: int, before: float, held: float, degree: int
) -> Plan:
    """Return what a fit of n points takes, by the laws of its stages; memory is of this degree."""
    sizes, last = [trial.n_points for trial in trials], trials[-1]
    names = list(last.costs)
    measured = [[trial.costs.get(name, (0.0, 0.0, 0.0)) for trial in trials] for name in names]
    clock, work, memory = np.moveaxis(np.array(measured), 2, 0)  # (stages, trials) each
    # Time on processors grows by the law whatever else they do; how much of it passes at once is a ratio.
    pace = np.median(np.divide(clock, work, out=np.ones_like(clock), where=work > 0), axis=1)
    times = [
        law(sizes, row, degree=1 if name in LINEAR else 2) for name, row in zip(names, work, strict=True)
    ]
    room = [law(sizes, np.maximum(row - before, 0.0), degree=degree) for row in memory]

    def costs_of(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return seconds and bytes of each stage."""
        # A sample is searched for a tolerance; all points are embedded.
        counts = [count if name in OF_ALL else min(count, searched) for name in names]
        n_bytes = max(before - held, 0.0) + np.array(
            [grown(n) for grown, n in zip(room, counts, strict=True)]
        )
        return pace * [grown(n) for grown, n in zip(times, counts, strict=True)], n_bytes

    for stride in (digit * 10**power for power in range(9) for digit in (1, 2, 5)):
        seconds, n_bytes = costs_of(n // stride)
        if n // stride < 2 * last.n_points or not _against(seconds.sum(), n_bytes.max()):
            break
    steps, most = (dict(zip(names, costs.tolist(), strict=True)) for costs in costs_of(n))
    return Plan(
        n_points=n,
        n_landmarks=last.n_landmarks,
        tried=tuple(sizes),
        fit_seconds=sum(steps.values()),
        peak_bytes=max(most.values()),
        steps=steps,
        memory=most,
        seconds_per_point=last.per_point[0],
        latency_seconds=last.per_point[1],
        stride=stride,
    )


def _against(seconds: float, n_bytes: float) -> list[str]:
    """Return what speaks against a fit, in sentences."""
    reasons = []
    if seconds > PATIENCE:
        reasons.append(f"The fit would take {_written(seconds)}.")
    if n_bytes > resident_bytes() + free_bytes():
        reasons.append(f"This machine has only {_written(free_bytes(), _BYTES)} of memory left.")
    return reasons


def _written(amount: float, units: Mapping[str, float] = _SECONDS) -> str:
    """Write an amount in the largest unit that it reaches: "3 µs", "1.5 min", "1,300 h", "300 MB"."""
    unit = next((name for name, size in units.items() if amount >= size), list(units)[-1])
    return f"{float(f'{amount / units[unit]:.2g}'):,.12g} {unit}"
