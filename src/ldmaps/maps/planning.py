"""What a fit will cost, before it begins: fits of n, 2n, 4n ... points say, each stage extrapolated as c + a·N + b·N².

What small fits cannot show is which map all points would be distilled from (:func:`_reference`), and that some stages
look at no more than so many points.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from timeit import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import get_tags

from ldmaps.diffusion.bandwidth import SAMPLED_POINTS
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS
from ldmaps.errors import DisconnectedError, InvalidInputError, LdmapsError, LdmapsWarning, ToleranceError
from ldmaps.extension import resolve_extension
from ldmaps.extension.distilled import settled_rows
from ldmaps.inputs import as_source
from ldmaps.landmarks import Given, resolve_selector
from ldmaps.landmarks.base import DEFAULT_LANDMARKS
from ldmaps.landmarks.given import check_indices
from ldmaps.landmarks.k_medoids import sample_size
from ldmaps.maps.exact_map import fits_in_passes, reference_passes, reference_size
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.maps.stage_meter import (
    OUTSIDE,
    StageMeter,
    as_bytes,
    as_duration,
    free_bytes,
    give_back,
    law,
    resident_bytes,
)
from ldmaps.metrics import resolve_metric
from ldmaps.progress import Progress, reporting, stage
from ldmaps.settings import check_whole

#: Seconds that fits of some of the points take in all, about.
BUDGET = 10.0
#: Points of the first of these fits: at least, and per landmark; the same for slow metrics; and in units of a sample
#: inside the fit. With fewer, stages take other ways than they do with many.
FEWEST, PER_LANDMARK, FEWEST_SLOW, PER_LANDMARK_SLOW, BEYOND_SAMPLE = 2500, 4, 500, 2, 1.25
#: A fit that takes longer than this, in seconds, gets advice.
PATIENCE = 3600.0
#: Points that are embedded to see how long one takes.
EMBEDDED = 1000


@dataclass(frozen=True)
class Plan:
    """Predicted cost of a landmark map."""

    n_points: int  # N and M; M as the largest trial found it
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
        rows = [("stage", "time", "memory")]
        rows += [(name, as_duration(t), as_bytes(self.memory[name])) for name, t in self.steps.items()]
        rows += [("all", as_duration(self.fit_seconds), as_bytes(self.peak_bytes))]
        width = max(len(row[0]) for row in rows)
        return "\n".join(
            [
                f"fit of {self.n_points:,} points to {self.n_landmarks:,} landmarks, by fits of {tried}:",
                *(f"  {name:<{width}}  {seconds:>8}  {memory:>8}" for name, seconds, memory in rows),
                f"then {as_duration(self.seconds_per_point)} per point in batches, "
                f"{as_duration(self.latency_seconds)} for one alone",
                self.verdict,
            ]
        )

    @property
    def verdict(self) -> str:
        """Whether to begin, in a sentence or two, and with which points otherwise."""
        reasons = _against(self.fit_seconds, self.peak_bytes)
        if not reasons:
            return f"Go ahead: this machine has {as_bytes(free_bytes())} of memory left."
        if self.stride > 1:
            reasons.append(f"One point in {self.stride} would do.")
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
        As for the estimator.
    n : int, optional
        How many points the fit will have, where ``data`` are a sample.
    dtype : float32 or float64
        Precision of points that are made up.

    Returns
    -------
    Plan
        Time and memory, in all and for each stage, and what a new point takes.

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
    if n_features_or_atoms is not None:
        return plan_made_up(model, data, n_features_or_atoms, dtype)
    source = as_source(data)
    points = np.asarray(data if source is None else source.read().frames)
    if points.ndim < 2:
        raise InvalidInputError(
            f"data must be points of shape (n, features) or (n, atoms, 3), got shape {points.shape}; to plan with "
            "points that are made up, give their number and n_features_or_atoms"
        )
    return plan_fit(model, points, len(points) if n is None else n)


def plan_fit(model: LandmarkDiffusionMap, points: NDArray[Any], n: int) -> Plan:
    """Predict what a model's fit takes of ``n`` points, of which these are all or a random part."""
    check_whole("n", n, 1)
    is_pairwise, rng = get_tags(model).input_tags.pairwise, np.random.default_rng(0)

    def some(count: int) -> NDArray[Any]:
        chosen = np.sort(rng.choice(len(points), count, replace=False))
        return points[np.ix_(chosen, chosen)] if is_pairwise else points[chosen]

    return _planned(model, some, len(points), n, 4 if points.dtype == np.float32 else 8, points.nbytes)


def plan_made_up(model: LandmarkDiffusionMap, n: Any, n_features_or_atoms: Any, dtype: Any) -> Plan:
    """Predict what a model's fit takes of ``n`` random points."""
    check_whole("n", n, 1)
    check_whole("n_features_or_atoms", n_features_or_atoms, 1)
    kind = np.dtype(dtype)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InvalidInputError(f"dtype must be float32 or float64, got {dtype!r}")
    metric, rng = resolve_metric(model.metric), np.random.default_rng(0)
    width = n_features_or_atoms * (3 if metric.takes_frames else 1)
    return _planned(model, lambda size: metric.made_up(size, width, rng).astype(kind), n, n, kind.itemsize)


class _Trial(NamedTuple):
    """A fit of some of the points."""

    n_points: int
    meter: StageMeter
    n_landmarks: int
    seconds_per_point: float
    latency: float


def _planned(
    model: LandmarkDiffusionMap,
    some: Callable[[int], NDArray[Any]],
    n_there: int,
    n: int,
    itemsize: int,
    held: float = 0.0,
) -> Plan:
    """Fit some of the points, twice as many each time until that takes too long, and extrapolate."""
    selector = resolve_selector(model.landmarks, model.n_landmarks, min(DEFAULT_LANDMARKS, n))
    given = check_indices(selector.indices, n) if isinstance(selector, Given) else None
    m = selector.n_landmarks or DEFAULT_LANDMARKS if given is None else len(given)
    extension = resolve_extension(model.extension, for_tolerance=model.tolerance is not None)
    is_taught = extension.learns_from_reference or model.tolerance is not None
    n_reference, passes = _reference(model, n, m, itemsize) if is_taught else (n, 0)
    is_sampled = n_reference < n and not passes

    def fit_of(count: int, epsilon: float | str = model.epsilon) -> LandmarkDiffusionMap:
        """Return a model that does with fewer points what the one planned does with all."""
        alike: LandmarkDiffusionMap = clone(model).set_params(epsilon=epsilon, resume=None, verbose=False)
        if count < n and n_reference < n:
            # What fits into memory, and how many passes there is time for, is decided by N.
            stored = min(n_reference, count - 1) if is_sampled else count - 1
            alike.set_params(max_passes=passes, memory_limit=itemsize * (stored + 0.5) ** 2)
        if count < n and given is not None:
            alike.set_params(landmarks=np.linspace(0, count - 1, m).astype(int))
        return alike

    most = min(n_there, n)
    is_slow = resolve_metric(model.metric).is_slow
    least = max(FEWEST_SLOW, PER_LANDMARK_SLOW * m) if is_slow else max(FEWEST, PER_LANDMARK * m)
    samples = n_reference if is_sampled else 0, SAMPLED_POINTS if model.epsilon == "coifman" else 0
    count = min(most, max(least, int(BEYOND_SAMPLE * max(samples))))
    # The first fit loads and compiles what the others use, and brings the allocator into their state.
    with suppress(LdmapsError):  # the fits to come tell what is wrong
        _tried(fit_of(count // 2).set_params(tolerance=None, extension=extension.name), some(count // 2))
    give_back()
    before = resident_bytes()
    epsilon, trials, spent = model.epsilon, [], 0.0
    while True:
        began = time.perf_counter()
        try:
            with stage(f"fit of {count:,} points"):
                trials.append(_tried(fit_of(count, epsilon), some(count)))
        except ToleranceError:
            if count == most:  # fewer certify less
                raise
        except DisconnectedError as error:
            if count == n or isinstance(epsilon, str):
                raise
            epsilon = max(1.1 * float(epsilon), error.joining_epsilon)  # fewer are farther apart
            continue
        last = time.perf_counter() - began
        spent += last
        following = min(2 * count, most)
        if count == most or (len(trials) > 1 and spent + last * (following / count) ** 2 > BUDGET):
            break
        count = following
    # Noise in what a process holds, taken for a quadratic term, would be gigabytes; so there is one where one must be.
    is_pairwise = get_tags(model).input_tags.pairwise
    has_matrix = is_pairwise or (is_taught and n_reference == n) or (selector.is_automatic and given is None)
    # k-medoids look at no more points than this, and assign the others; least squares at no more than that; and the
    # eigenproblem is one of landmarks.
    settled = {"landmarks": sample_size(m), "distillation": settled_rows(m), "eigenproblem": m}
    if model.epsilon in ("bulk", "coifman"):
        settled["bandwidth"] = SAMPLED_POINTS
    return _extrapolated(trials[-3:], n, before, held, 2 if has_matrix else 1, settled)


def _reference(model: LandmarkDiffusionMap, n: int, m: int, itemsize: int) -> tuple[int, int]:
    """Return of how many points the map to learn from is, and in how many passes it is solved; n and 0 if stored."""
    metric = resolve_metric(model.metric)
    size = reference_size(metric, n, m, itemsize, model.memory_limit)
    if size == n or not fits_in_passes(n, MAX_GAP_COMPONENTS + 1, model.memory_limit):
        return size, 0
    return size, reference_passes(metric, n, model.alpha, model.max_passes)


def _tried(model: LandmarkDiffusionMap, points: NDArray[Any]) -> _Trial:
    """Fit, and embed some of the points."""
    give_back()
    with warnings.catch_warnings(), StageMeter() as meter, reporting(meter):
        warnings.simplefilter("ignore", LdmapsWarning)  # what is wrong with some points may be right with all
        model.fit(points)
    few = points[:EMBEDDED]
    with reporting(Progress(show=False)), stage("embedding"):
        per_point = statistics.median(repeat(lambda: model.transform(few), repeat=3, number=1)) / len(few)
        latency = statistics.median(repeat(lambda: model.transform(few[:1]), repeat=20, number=1))
    # Those that lie apart and are left out are a matter of these points, not of all.
    n_landmarks = model.n_landmarks or model.embedder_.n_landmarks
    return _Trial(len(points), meter, n_landmarks, per_point, latency)


def _extrapolated(
    trials: list[_Trial], n: int, before: float, held: float, degree: int, settled: dict[str, int]
) -> Plan:
    """Return what a fit of n points takes, by the laws of its stages; memory is of this degree."""
    sizes, meters, last = [trial.n_points for trial in trials], [trial.meter for trial in trials], trials[-1]
    peaks = [max(0.0, max(meter.memory.values()) - before) for meter in meters]

    def costs_of(count: int) -> tuple[dict[str, float], dict[str, float]]:
        """Return seconds and bytes of each stage."""
        seconds, memory = {}, {}
        for name in sorted(last.meter.seconds, key=lambda name: name != OUTSIDE):
            clock, work, highest = (
                [getattr(meter, kind).get(name, 0.0) for meter in meters]
                for kind in ("seconds", "work", "memory")
            )
            added = [max(0.0, there - before) for there in highest]
            if count == last.n_points:
                seconds[name], more = clock[-1], added[-1]
            else:
                enough = min(count, max(settled.get(name, count), last.n_points))
                # Time on processors grows by the law whatever else they do; how much of it passes at once is a ratio.
                pace = statistics.median(c / w if w else 1.0 for c, w in zip(clock, work, strict=True))
                assigned = count - enough if name == "landmarks" else 0
                growth = law(sizes, work, degree=1 if name in (OUTSIDE, "embedding") else 2)
                seconds[name] = pace * growth(enough) + assigned * last.seconds_per_point
                # Memory that an earlier stage has freed may be the process's still: no stage holds more than the fit.
                more = min(law(sizes, added, degree=degree)(count), law(sizes, peaks, degree=degree)(count))
            memory[name] = before - held + more if before else 0.0
        return seconds, memory

    for stride in (digit * 10**power for power in range(9) for digit in (1, 2, 5)):
        seconds, memory = costs_of(n // stride)
        is_fine = not _against(sum(seconds.values()), max(memory.values()))
        if is_fine or n // stride < 2 * last.n_points:
            break
    seconds, memory = costs_of(n)
    costs = sum(seconds.values()), max(memory.values()), seconds, memory
    return Plan(n, last.n_landmarks, tuple(sizes), *costs, last.seconds_per_point, last.latency, stride)


def _against(seconds: float, n_bytes: float) -> list[str]:
    """Return what speaks against a fit, in sentences."""
    reasons = []
    if seconds > PATIENCE:
        reasons.append(f"{as_duration(seconds)} is long.")
    if n_bytes > resident_bytes() + free_bytes():
        reasons.append(f"This machine has only {as_bytes(free_bytes())} of memory left.")
    return reasons
