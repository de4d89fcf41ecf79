"""Distances between points, one file per metric, behind the seam of :mod:`ldmaps.metrics.base`."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from ldmaps.errors import InvalidInputError
from ldmaps.metrics.affinity import Affinity
from ldmaps.metrics.base import Metric, Points
from ldmaps.metrics.earth_mover import EarthMover
from ldmaps.metrics.euclidean import Euclidean
from ldmaps.metrics.features import Features
from ldmaps.metrics.function import Function
from ldmaps.metrics.hamming import Hamming
from ldmaps.metrics.local_scales import LocalScales
from ldmaps.metrics.periodic import Periodic
from ldmaps.metrics.precomputed import Precomputed
from ldmaps.metrics.rmsd import RMSD
from ldmaps.metrics.standardized import StandardizedEuclidean

__all__ = [
    "RMSD",
    "Affinity",
    "EarthMover",
    "Euclidean",
    "Features",
    "Function",
    "Hamming",
    "Metric",
    "Periodic",
    "Points",
    "Precomputed",
    "StandardizedEuclidean",
]

#: The name of each metric, as users and model files spell it.
METRICS: dict[str, type[Metric]] = {
    metric.name: metric
    for metric in (
        Euclidean,
        StandardizedEuclidean,
        RMSD,
        Hamming,
        EarthMover,
        Periodic,
        Features,
        Precomputed,
        Affinity,
        Function,
    )
}
#: Those that model files may name: also what a fit has made of a metric.
STORED_METRICS: dict[str, type[Metric]] = METRICS | {LocalScales.name: LocalScales}
#: What those that have no default are made of.
_MADE_OF = {
    Function.name: "pass the function f(x, y) itself",
    Features.name: 'pass Features.of(source, "dihedrals"), or Features(n_atoms, dihedrals=...)',
}


def resolve_metric(metric: Metric | str | Callable[..., Any]) -> Metric:
    """Return the metric meant by ``metric``: itself, that of a name with its defaults, or one of a function f(x, y)."""
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        if metric in _MADE_OF:
            raise InvalidInputError(f"the metric {metric!r} has no default: {_MADE_OF[metric]}")
        if metric in METRICS:
            return METRICS[metric]()
        names = [name for name in METRICS if name not in _MADE_OF]
        close = get_close_matches(metric.lower().replace("-", "_"), names, n=1, cutoff=0.4)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InvalidInputError(
            f"unknown metric {metric!r}: known are {', '.join(map(repr, names))}, or pass a Metric "
            f"or a function f(x, y) -> float.{hint}"
        )
    if isinstance(metric, type) and issubclass(metric, Metric):
        raise InvalidInputError(f"metric is a class: pass an instance, {metric.__name__}(...)")
    if callable(metric):
        function: Callable[..., Any] = metric
        return Function(function)
    raise InvalidInputError(
        "metric must be a name, a Metric or a function f(x, y) -> float, "
        f"got {metric!r} of type {type(metric).__name__}"
    )
