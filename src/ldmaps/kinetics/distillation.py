"""Functions on a map with fewer landmarks, certified against the functions that they were learned from.

Distillation does not care what it learns from. Frames with the functions at them stand in for the reference map of a
fit, as if these were its eigenvectors, and all the rest is that of a fit with a tolerance: the search for the fewest
landmarks on frames that are held out, and a certificate on others, in blocks longer than the frames' memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.correlation_times import longest_memory
from ldmaps.diffusion.spectrum import Spectrum
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import InvalidInputError, Named
from ldmaps.extension import Distilled, Embedder
from ldmaps.extension.base import Teacher
from ldmaps.extension.calibration import watched_distances
from ldmaps.extension.distilled import Distillation
from ldmaps.fit.certify import Certificate, Refused
from ldmaps.fit.fitted_map import Solution
from ldmaps.fit.hold_out import Memory, TooFewIndependent, hold_out
from ldmaps.fit.landmark_fit import LandmarkFit
from ldmaps.fit.row_memory import row_memory
from ldmaps.fit.search import ToleranceSearch
from ldmaps.fit.select import select
from ldmaps.fit.solve import SolvedMap
from ldmaps.kinetics.bounded_fit import bounded_fit
from ldmaps.kinetics.frame_sample import FrameSample
from ldmaps.kinetics.time_series import TimeSeries
from ldmaps.kinetics.walk_modes import landmark_weights
from ldmaps.landmarks import KMedoids
from ldmaps.landmarks.base import Landmarks
from ldmaps.maps.function_map import FunctionMap
from ldmaps.metrics.base import Points
from ldmaps.settings import check_whole

#: Between which values functions of a kind stay; others may have any.
BOUNDS = {"committor": (0.0, 1.0), "passage time": (0.0, np.inf)}


class BoundedDistilled(Distilled):
    """Distilled coefficients that keep functions between bounds."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def fit(
        self,
        teacher: Teacher,
        landmarks: Landmarks,
        usable: NDArray[np.intp],
        rng: np.random.Generator,
        *,
        may_move: bool = True,
    ) -> Distillation:
        """Fit the online step, and then its coefficients once more between the bounds."""
        step = super().fit(teacher, landmarks, usable, rng, may_move=may_move)
        if self.low <= step.coefficients.min() and step.coefficients.max() <= self.high:
            return step
        walk, rows = teacher.walk, usable[:: max(1, len(usable) // (20 * len(landmarks.indices) + 2000))]
        places = walk.points.take(landmarks.indices) if step.moved is None else step.moved.points
        embedder = Embedder.build(walk.metric, places, walk.epsilon, step, np.zeros(len(places)))
        weights = landmark_weights(embedder, walk.points.take(rows), walk.n_threads, prepared=True)
        start = np.clip(step.coefficients, self.low, self.high)
        columns = [
            bounded_fit(weights, values, walk.weights[rows], first, self.low, self.high)
            for values, first in zip(teacher.coordinates(rows).T, start.T, strict=True)
        ]
        return replace(step, coefficients=np.stack(columns, axis=1))


def distil(
    teacher: FunctionMap,
    X: Any,
    *,
    tolerance: float | None = None,
    n_landmarks: int | None = None,
    random_state: int = 0,
) -> FunctionMap:
    """Return functions on a map as a map with fewer landmarks, which embeds as many times quicker.

    Parameters
    ----------
    teacher : FunctionMap
        What to learn from.
    X : array-like of shape (n, features), or (n, atoms, 3) for frames
        Frames to learn from, of which at most 20,000 are used; trajectories and tables as for ``model.transform``.
    tolerance : float, optional
        Z in percent: how far, in root mean square over 99 % of new frames, values may be from the teacher's, in percent
        of their range. The fewest landmarks that keep it are found, and certified on frames that chose nothing.
    n_landmarks : int, optional
        Instead of a tolerance: how many, without a certificate.
    random_state : int
        Seed of all that is drawn at random.

    Returns
    -------
    FunctionMap
        Of the same names and facts, with ``certificate_`` where a tolerance was given.
    """
    if (tolerance is None) == (n_landmarks is None):
        raise InvalidInputError(
            "give a ", Named("tolerance"), " or ", Named("n_landmarks"), ", one of the two"
        )
    rng, sample = np.random.default_rng(random_state), FrameSample()
    for stretch in TimeSeries(teacher, X, in_time=False):
        sample.add(stretch.first_row, stretch.points)
    reference = _reference(teacher, sample.columns()[0])
    bounds = BOUNDS.get(teacher.record_.kind)
    extension = Distilled() if bounds is None else BoundedDistilled(*bounds)
    if tolerance is None:
        count = check_whole("n_landmarks", n_landmarks, 2)
        if count >= len(reference.walk.points):
            raise InvalidInputError(
                Named("n_landmarks", count),
                f" must be below the {len(reference.walk.points)} frames to learn from",
            )
        every = np.arange(len(reference.walk.points))
        chosen = select(KMedoids(count), reference.walk, rng).landmarks
        step = extension.fit(reference, chosen, every, rng)
        return _student(teacher, LandmarkFit.of(reference.walk, chosen, step, None), step, None)
    fit, certificate = _certified(reference, extension, float(tolerance), rng, random_state)
    return _student(teacher, fit, fit.step, certificate)


def _reference(teacher: FunctionMap, frames: NDArray[Any]) -> SolvedMap:
    """Return frames with the functions in place of eigenvectors."""
    embedder = teacher.embedder_
    points: Points = embedder.prepare(frames)
    values = np.asarray(embedder.extend(points, teacher.n_threads).coordinates, dtype=np.float64)
    n, k = values.shape
    if n < 100 or not (np.ptp(values, axis=0) > 0).all():
        raise InvalidInputError(
            f"{n} frames do not show how the function varies; give at least 100, of all parts of the map"
        )
    walk = Walk(
        metric=embedder.metric,
        points=points,
        weights=np.ones(n),
        epsilon=embedder.epsilon,
        n_threads=teacher.n_threads,
    )
    spectrum = Spectrum(eigenvalues=np.ones(k), vectors=values, source_weights=np.ones(n), degrees=np.ones(n))
    solution = Solution("landmarks", error_bound=np.zeros(k))
    return SolvedMap(walk, np.arange(n), points, np.ones(n), np.zeros(n), spectrum, solution)


def _certified(
    reference: SolvedMap, extension: Distilled, tolerance: float, rng: np.random.Generator, seed: int
) -> tuple[LandmarkFit, Certificate]:
    walk = reference.walk
    watched, runs = watched_distances(walk.metric, walk.points, None, rng, walk.n_threads)
    columns = [*watched.T, *reference.own_coordinates.T]
    one_run = [slice(0, len(walk.points))]
    time = max(
        longest_memory(column, runs if len(column) == len(watched) and place < watched.shape[1] else one_run)
        for place, column in enumerate(columns)
    )
    held = hold_out(
        len(walk.points), Memory(time, row_memory(walk.metric, walk.points, rng, walk.n_threads)), rng
    )
    if isinstance(held, TooFewIndependent):
        raise held.error(tolerance)
    search = ToleranceSearch(extension, reference, held, KMedoids(), lambda count: count, seed)
    found = search.run(tolerance)
    if isinstance(found, Refused):
        raise found.error()
    return found.fit, replace(found.certificate, reference="teacher")


def _student(
    teacher: FunctionMap, fit: LandmarkFit, step: Any, certificate: Certificate | None
) -> FunctionMap:
    embedder, base = fit.embedder, teacher.map_
    count = embedder.n_landmarks
    line = f"distilled from {teacher.embedder_.n_landmarks:,} onto {count:,} landmarks"
    line += f": {certificate}" if certificate is not None else f"; held-out error Z {step.held_out_z:.3g} %"
    facts = dict(teacher.record_.facts)
    facts |= {"distilled_from": teacher.embedder_.n_landmarks, "held_out_z": float(step.held_out_z)}
    facts.pop("landmark_errors", None)  # at landmarks that are no more
    record = replace(teacher.record_, facts=facts, lines=(*teacher.record_.lines, line))
    points = embedder.landmarks
    fitted = replace(
        base,
        embedder=embedder,
        landmark_indices=fit.landmarks.indices,
        landmark_embedding=embedder.extend(points, teacher.n_threads).coordinates,
        multiplicities=np.bincount(fit.landmarks.assignment, minlength=count).astype(np.float64),
        representatives=None,
        record=record,
        certificate=certificate,
    )
    found = FunctionMap(n_threads=teacher.n_threads)
    found.n_features_in_ = teacher.n_features_in_
    if hasattr(teacher, "feature_names_in_"):
        found.feature_names_in_ = teacher.feature_names_in_
    return found.adopt(fitted)
