"""What a fit will cost, before it is begun.

    memory of fit = interpreter and imports + points, raw and prepared + the highest of the steps
    time of fit   = Σ over steps (how often each kind of work is done) × (what it takes on this machine)

Every step says itself how often it does what, and what it holds meanwhile
(:mod:`ldmaps.costs`); what each kind of work takes is measured with the loops that will
do it (:mod:`ldmaps.maps.machine`). Here both are only put together.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldmaps.costs import Cost
from ldmaps.errors import InvalidInputError
from ldmaps.extension import Nystrom
from ldmaps.maps.fit_steps import FitSettings, fit_steps
from ldmaps.maps.machine import Machine, measure

__all__ = ["PROGRAM_BYTES", "Plan", "Remedy", "as_bytes", "as_duration", "plan"]

#: Bytes of the interpreter, of all that a fit imports, and of its compiled loops. In the first fit of all, which
#: compiles them, 100 to 150 MB more.
PROGRAM_BYTES = 3.0e8
#: A fit that takes longer than this, in seconds, or more than this share of the machine's memory, gets advice.
PATIENCE, MEMORY_SHARE = 3600.0, 0.9


@dataclass(frozen=True)
class Remedy:
    """A change of one setting that makes a fit cheaper, and its cost then.

    Attributes
    ----------
    setting : {"epsilon", "extension", "max_passes", "stride"}
        "stride" learns from every so-many-th point.
    value : str or int
    fit_seconds, peak_bytes : float
    """

    setting: str
    value: str | int
    fit_seconds: float
    peak_bytes: float


def _as_argument(setting: str, value: object) -> str:
    if setting == "stride":
        return f"every {value}th point"
    return f'{setting}="{value}"' if isinstance(value, str) else f"{setting}={value}"


@dataclass(frozen=True)
class Plan:
    """Predicted cost of a landmark map.

    Attributes
    ----------
    n_points, n_landmarks : int
        N and M; M is a guess where the fit finds it.
    reference_points : int
        Points of the map that is distilled from: N, fewer where neither memory nor passes
        allow that, 0 for Nyström.
    peak_bytes : float
        Memory of the process at its highest: interpreter, imports, points and the fit.
    fit_seconds : float
        Without reading the points.
    seconds_per_point : float
        For points embedded in large batches, preparation included.
    assignment_seconds : float
        For a point, in large batches, to be given to its nearest landmark.
    latency_seconds : float
        For a point embedded by itself.
    steps : dict of str to float
        Seconds of each step of the fit.
    memory : dict of str to float
        Bytes of the process while each step runs, at their highest.
    remedies : tuple of Remedy
        What to change where the fit would take hours or more memory than there is.
    """

    n_points: int
    n_landmarks: int
    reference_points: int
    peak_bytes: float
    fit_seconds: float
    seconds_per_point: float
    assignment_seconds: float
    latency_seconds: float
    steps: dict[str, float]
    memory: dict[str, float]
    remedies: tuple[Remedy, ...] = ()

    def __str__(self) -> str:
        return self.describe()

    def describe(self, option: Callable[[str, object], str] = _as_argument) -> str:
        """Say it in words; ``option`` spells a setting and its value."""
        steps = ", ".join(f"{name} {as_duration(seconds)}" for name, seconds in self.steps.items() if seconds)
        highest = max(self.memory, key=lambda name: self.memory[name])
        text = (
            f"fit of {self.n_points:,} points to {self.n_landmarks:,} landmarks: about {as_duration(self.fit_seconds)} "
            f"({steps}) and {as_bytes(self.peak_bytes)} (most during: {highest}); then "
            f"{as_duration(self.seconds_per_point)} per point in batches, {as_duration(self.latency_seconds)} for one "
            "alone"
        )
        if not self.complaint:
            return text
        lines = [f"{text}\n{self.complaint} Cheaper:" if self.remedies else f"{text}\n{self.complaint}"]
        for remedy in self.remedies:
            cost = f"{as_duration(remedy.fit_seconds)} and {as_bytes(remedy.peak_bytes)}"
            lines.append(f"{option(remedy.setting, remedy.value)}: {cost}")
        return "\n  ".join(lines)

    @property
    def complaint(self) -> str:
        """What is wrong with the fit as planned, if anything, in a sentence."""
        reasons = []
        if self.fit_seconds > PATIENCE:
            slowest = max(self.steps, key=lambda name: self.steps[name])
            share = self.steps[slowest] / self.fit_seconds
            reasons.append(
                f"{as_duration(self.fit_seconds)} is long, {100 * share:.0f} % of it for: {slowest}."
            )
        if self.peak_bytes > MEMORY_SHARE * _machine_memory():
            reasons.append(f"This machine has only {as_bytes(_machine_memory())}.")
        return " ".join(reasons)


def plan(
    n: int,
    n_features_or_atoms: int,
    metric: Any = "euclidean",
    n_landmarks: int | None = None,
    *,
    landmarks: Any = "kmedoids",
    tolerance: float | None = None,
    extension: str = "auto",
    epsilon: float | str = "connected",
    outliers: float = 0.0,
    n_components: int | str = 2,
    dtype: Any = np.float32,
    memory_limit: float = 4e9,
    max_passes: int | None = None,
    n_threads: int | None = None,
) -> Plan:
    """Predict memory and time of :class:`~ldmaps.LandmarkDiffusionMap` on this machine.

    Parameters
    ----------
    n : int
        Number of training points N.
    n_features_or_atoms : int
        Features of a point, or atoms of a frame for metrics that take frames. Ignored
        for "precomputed".
    metric : str, Metric or callable
        As for the estimator. A function is called on points of standard normal features.
    n_landmarks : int or None
        M; None is the estimator's default.
    landmarks : str or LandmarkSelector
        As for the estimator; "pst" is taken to find 400.
    tolerance : float or None
        As for the estimator; it is taken to need 60 landmarks.
    extension : str
        As for the estimator.
    epsilon : {"connected", "coifman"} or float
        As for the estimator; "connected" often costs more than the rest of a fit.
    outliers : float
        As for the estimator.
    n_components : int or "gap"
        As for the estimator.
    dtype : float32 or float64
        Precision of the data.
    memory_limit : float
        As for the estimator.
    max_passes : int or None
        As for the estimator.
    n_threads : int or None
        As for the estimator.

    Returns
    -------
    Plan
        Peak memory, time of the fit and of a new point, and cheaper settings.

    Notes
    -----
    The aim is a factor of two, and 1.5 for memory above 200 MB. The
    number of iterations (of k-medoids and of the eigensolver) depends on the data; a
    typical one is assumed. Other work on the machine affects the measurement.

    Examples
    --------
    >>> import ldmaps
    >>> cost = ldmaps.plan(100_000, 22, "rmsd", 200, extension="distilled")
    >>> cost.reference_points, cost.peak_bytes < 2e9
    (100000, True)
    """
    kind = np.dtype(dtype)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InvalidInputError(f"dtype must be float32 or float64, got {dtype!r}")
    settings = FitSettings.checked(
        n,
        n_features_or_atoms,
        metric,
        n_landmarks=n_landmarks,
        landmarks=landmarks,
        tolerance=tolerance,
        extension=extension,
        epsilon=epsilon,
        outliers=outliers,
        n_components=n_components,
        itemsize=kind.itemsize,
        memory_limit=memory_limit,
        max_passes=max_passes,
        n_threads=n_threads,
    )
    machine = measure(
        settings.metric,
        settings.n_points,
        settings.n_features,
        settings.n_landmarks,
        settings.n_coordinates,
        kind,
        n_threads,
    )
    planned = _planned(settings, machine)
    if planned.complaint:
        planned = replace(planned, remedies=tuple(_remedies(settings, machine, planned)))
    return planned


# -- sums ---------------------------------------------------------------------------


def _planned(settings: FitSettings, machine: Machine) -> Plan:
    n, m = settings.n_points, settings.n_landmarks
    data = machine.data_size(n, settings.n_features, settings.itemsize)
    raw = n * machine.raw_bytes
    # Raw and prepared points, weights and which of them count: there until the end.
    held = PROGRAM_BYTES + raw * (1.0 + machine.prepared_share) + n * (8 + 8)
    costs = {"preparation": Cost(overhead=n * machine.preparing)} | fit_steps(settings, data)
    steps = {name: cost.seconds(machine.speeds) for name, cost in costs.items()}
    memory = {name: held + cost.memory for name, cost in costs.items()}
    memory["preparation"] = PROGRAM_BYTES + raw * (1.0 + machine.preparing_share)
    return Plan(
        n_points=n,
        n_landmarks=m,
        reference_points=settings.reference_points,
        peak_bytes=max(memory.values()),
        fit_seconds=sum(steps.values()),
        seconds_per_point=m * machine.speeds["landmark_shares"] + machine.preparing,
        assignment_seconds=m * machine.speeds["distances"],
        latency_seconds=machine.latency,
        steps=steps,
        memory=memory,
    )


# -- what to do instead --------------------------------------------------------------


def _remedies(settings: FitSettings, machine: Machine, planned: Plan) -> Iterator[Remedy]:
    """Yield changes that help, each by itself."""
    changes: list[tuple[str, str | int, FitSettings]] = []
    if settings.epsilon == "connected" and not settings.outliers:
        changes.append(("epsilon", "coifman", replace(settings, epsilon="coifman")))
    if settings.extension.learns_from_reference and not settings.has_tolerance:
        changes.append(("extension", Nystrom.name, replace(settings, extension=Nystrom())))
    if settings.reference_passes:
        changes.append(("max_passes", 0, replace(settings, max_passes=0)))
    stride = _sufficient_stride(settings, machine)
    if stride > 1:
        changes.append(("stride", stride, replace(settings, n_points=settings.n_points // stride)))
    for setting, value, changed in changes:
        other = _planned(changed, machine)
        is_quicker = planned.fit_seconds > PATIENCE and other.fit_seconds < 0.8 * planned.fit_seconds
        is_smaller = other.peak_bytes < 0.8 * planned.peak_bytes
        if is_quicker or is_smaller:
            yield Remedy(setting, value, other.fit_seconds, other.peak_bytes)


def _sufficient_stride(settings: FitSettings, machine: Machine) -> int:
    """Return the smallest round stride with which there is nothing to complain of, or the largest that leaves a map."""
    sufficient = 1
    for stride in (digit * 10**power for power in range(12) for digit in (1, 2, 5)):
        n_points = settings.n_points // stride
        if n_points < max(3, 2 * settings.n_landmarks):
            break
        sufficient = stride
        if not _planned(replace(settings, n_points=n_points), machine).complaint:
            break
    return sufficient


def _machine_memory() -> float:
    """Return the bytes of memory of this machine, infinity where unknown."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf


# -- words ---------------------------------------------------------------------------


def as_duration(seconds: float) -> str:
    """Write a time with a unit that suits it.

    >>> as_duration(3e-6), as_duration(0.25), as_duration(90), as_duration(7200), as_duration(4.7e6)
    ('3 µs', '250 ms', '1.5 min', '2 h', '1,300 h')
    """
    for length, unit in ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms")):
        if seconds >= length:
            return f"{_two_digits(seconds / length)} {unit}"
    return f"{_two_digits(1e6 * seconds)} µs"


def as_bytes(count: float) -> str:
    """Write an amount of memory.

    >>> as_bytes(3.04e8), as_bytes(1.27e9), as_bytes(6.4e11)
    ('300 MB', '1.3 GB', '640 GB')
    """
    return f"{_two_digits(count / 1e6)} MB" if count < 1e9 else f"{_two_digits(count / 1e9)} GB"


def _two_digits(value: float) -> str:
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:.2g}"
