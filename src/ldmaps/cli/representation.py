"""Which representation of frames a fit has used, and whether the other one shows a slower motion."""

from __future__ import annotations

import argparse
import math
import warnings
from typing import TYPE_CHECKING, Any

from ldmaps.cli import options
from ldmaps.errors import InvalidInputError, LdmapsError, LdmapsWarning, one_line

if TYPE_CHECKING:
    from ldmaps.inputs import PointSource

#: The trial takes every so many-th frame, at most and at least so many, so that it costs a few percent of the fit.
STRIDE, MOST_FRAMES, FEWEST_FRAMES = 5, 1000, 200
#: With 60 landmarks nine torsions that turn freely hide a tenth that is slow; with 100 they do not.
N_LANDMARKS, N_RESAMPLES = 100, 10
#: A coordinate is slower that remembers so many times as long, beyond two standard errors.
SLOWER = 1.5


def said_of_representation(arguments: argparse.Namespace, source: PointSource, model: Any) -> str:
    """Say by what frames were compared, and whether dihedrals (or RMSD) would have shown a slower coordinate."""
    from ldmaps.metrics import RMSD, Features, Metric

    if len(source.shape) != 2:
        return ""
    n_frames, ours = model.diagnosis_.n_points, model.metric_
    used = f"representation: {ours.describe() or f'RMSD of {source.shape[0]} atoms'}"
    others, option = "RMSD", "leave out --features"
    other: Metric = RMSD()
    if arguments.features is None:
        others, option = "dihedrals", "--features dihedrals"
        try:
            other = Features.of(source, "dihedrals")
        except InvalidInputError:
            return f"{used}; there are no torsions that could be compared instead"
    if arguments.workers or arguments.scheduler or arguments.weights or n_frames < STRIDE * FEWEST_FRAMES:
        return f"{used}; {others} not tried, which takes {STRIDE * FEWEST_FRAMES:,} frames of equal weight, read here"
    stride = max(STRIDE, n_frames // MOST_FRAMES)
    n_landmarks = min(N_LANDMARKS, n_frames // stride // 10)
    try:
        known, tried = (_remembers(arguments, one, stride, n_landmarks) for one in (ours, other))
    except LdmapsError as error:  # the map is written already
        return f"{used}; {others} could not be tried ({one_line(error, 120)})"
    times = " against ".join("none" if one is None else f"{one[0]:,.3g} {one[2]}" for one in (tried, known))
    shown = f"(it remembers {times}, in {n_frames // stride:,} of the frames)"
    if tried is None or (known is not None and tried[0] <= _limit(*known[:2], tried[1])):
        return f"{used}; by {others} no coordinate would be slower {shown}"
    return f"{used}; by {others} a coordinate would be slower {shown}: try it, {option}"


def _limit(time: float, error: float, other_error: float) -> float:
    return max(SLOWER * time, time + 2 * math.hypot(error, other_error))


def _remembers(
    arguments: argparse.Namespace, metric: Any, stride: int, n_landmarks: int
) -> tuple[float, float, str] | None:
    """Return the correlation time of the slowest reproducible coordinate of some frames, its error and unit."""
    from ldmaps.inputs import open as open_points
    from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap

    settings = options.reading_settings(arguments)
    source: Any = open_points(arguments.inputs, **{**settings, "stride": stride * settings["stride"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)  # of a map that nobody sees
        # The share of points that "bulk" reaches is too few of these.
        model = LandmarkDiffusionMap(
            2, "connected", metric, n_landmarks=n_landmarks, landmarks="uniform", calibration=0
        ).fit(source)
        found = model.resample(N_RESAMPLES)
    good = found.is_reproducible.nonzero()[0]
    if found.times is None or not len(good):
        return None
    slowest = good[found.times[good, 0].argmax()]
    return float(found.times[slowest, 0]), float(found.times[slowest, 1]), found.unit
