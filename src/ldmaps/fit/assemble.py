"""Putting a fit together: all training points are embedded, alarms calibrated, doubts said, and the map is made."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.pairwise import Extended, local_factors
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import BandwidthWarning, DisconnectedWarning, Named, OutlierWarning
from ldmaps.extension import Distillation
from ldmaps.extension.calibration import FEWEST_HELD, calibrate_by_others, is_worth_it, memory_of
from ldmaps.extension.embedder import Embedder
from ldmaps.fit.certify import Refused
from ldmaps.fit.coordinates import Judged
from ldmaps.fit.data import Data, KnownTimes
from ldmaps.fit.decide import Chosen
from ldmaps.fit.fitted_map import FittedMap, TrainingRecord, thinned_rows
from ldmaps.fit.hold_out import HeldOut
from ldmaps.fit.landmark_fit import LandmarkFit
from ldmaps.fit.online import Online
from ldmaps.fit.recipe import MOST_BLOCKED, Recipe
from ldmaps.fit.resample import ResampledMap
from ldmaps.fit.select import CalibrationRows
from ldmaps.fit.settings import Seeds
from ldmaps.fit.solve import SolvedMap
from ldmaps.landmarks.base import PointsElsewhere, assign
from ldmaps.metrics.local_scales import LocalPoints, LocalScales
from ldmaps.progress import stage
from ldmaps.user_warnings import warn
from ldmaps.validation.diagnosis import diagnose, named_points
from ldmaps.validation.error_estimate import Reference, sample_reference

#: Most groups whose sizes a message lists.
MOST_LISTED = 8


@dataclass(frozen=True)
class Fit:
    """A fitted map, and what of its training data later questions need; only the map goes into files."""

    map: FittedMap
    resampled: ResampledMap | None  # to resample the training points
    reference: Reference | None = None  # to estimate errors of new points
    #: the data, and the d² between their members, to fit again at another ε without computing them again
    kept_distances: tuple[Data, NDArray[Any]] | None = None


@dataclass(frozen=True)
class _Embedded:
    """All rows of the training data on the map."""

    embedding: Any  # (N, k)
    labels: Any  # (N,): landmark of each row
    distance: NDArray[Any]  # of the rows asked for, in units of √ε
    nearest: NDArray[np.intp]  # landmark of the recorded rows


def assemble(
    recipe: Recipe,
    everything: Data,
    all_data: Data,
    chosen: Chosen,
    kept: SolvedMap,
    online: Online,
    judged: Judged,
    seeds: Seeds,
) -> Fit:
    """Make the fitted map.

    ``everything`` are all data, of which a search may have seen a sample, and ``whole`` those that ε was decided with.
    """
    if online.fit is None:
        fit = _exact(recipe, chosen, kept, judged, seeds)
        squared = chosen.all_squared
        return fit if squared is None else replace(fit, kept_distances=(all_data, squared))
    if online.certificate is not None:
        certificate = replace(
            online.certificate,
            covered=_share_judged(everything, all_data),
            n_searched=0 if chosen.data.sampled_rows is None else len(chosen.data.members),
        )
        online = replace(online, certificate=certificate)
    return _over_landmarks(recipe, everything, chosen, kept, online, judged, seeds)


def _share_judged(everything: Data, all_data: Data) -> float:
    """Return which share of the points of positive weight the setting ``outliers`` did not drop."""
    given = everything.weights if all_data.sampled_rows is None else everything.weights[all_data.sampled_rows]
    return float(np.count_nonzero(all_data.weights) / np.count_nonzero(given))


def _exact(recipe: Recipe, chosen: Chosen, kept: SolvedMap, judged: Judged, seeds: Seeds) -> Fit:
    """Make the exact map: members keep their own coordinates, and points of weight 0 are embedded."""
    data, walk, settings = chosen.data, chosen.walk, recipe.settings
    embedder = kept.embedder()
    own = kept.own_coordinates.astype(walk.points.dtype)
    embedding = own
    if not data.uses_all:
        embedding = np.empty((len(data.points), embedder.n_components), dtype=own.dtype)
        embedding[data.used] = own
        rest = np.setdiff1d(np.arange(len(data.points)), data.used)
        embedding[rest] = embedder.extend(data.points.take(rest), settings.n_threads).coordinates
    recorded = thinned_rows(len(embedding), data.used)
    fitted = FittedMap(
        embedder=embedder,
        bandwidth=chosen.bandwidth,
        eigenvalues=kept.spectrum.eigenvalues,
        spectrum=kept.all_eigenvalues,
        landmark_indices=data.used,
        landmark_embedding=own,
        multiplicities=walk.weights,
        units=data.origin.units,
        source=data.origin.facts,
        training=_record(data, recorded, data.known_times(None)),
        embedding=embedding,
        groups=_group_of_each(chosen, len(data.points)),
        solution=kept.solution,
    )
    return Fit(_diagnosed(recipe, data, fitted, judged, seeds), judged.resampled)


def _over_landmarks(
    recipe: Recipe,
    everything: Data,
    chosen: Chosen,
    kept: SolvedMap,
    online: Online,
    judged: Judged,
    seeds: Seeds,
) -> Fit:
    """Make the map over landmarks."""
    data, n_threads = chosen.data, recipe.settings.n_threads
    fit, certificate = cast(LandmarkFit, online.fit), online.certificate
    calibration = _calibration_rows(recipe, everything, chosen, online.held, seeds)
    medoids = None
    if recipe.is_taught:
        medoids = None if judged.resampled is None else judged.resampled.medoids()
        judged = judged.of_landmarks(fit.landmarks.indices)
    if data.sampled_rows is not None:
        if not data.stride:
            judged = Judged(None)
        data, fit = _on_everything(everything, data, fit)
    landmarks = fit.landmarks
    known = data.known_times(landmarks)
    rows = data.rows_of(landmarks.indices)
    recorded = thinned_rows(len(data.points), rows)
    scored = np.arange(0) if calibration is None else calibration.scored
    asked = np.union1d(recorded, scored)
    with stage("embedding", len(data.points)):
        embedded = _embed_all(data, fit, asked, recorded, n_threads)
    embedder = fit.embedder
    if calibration is not None:
        found = calibration.calibration(embedded.distance[np.searchsorted(asked, scored)], known)
        if certificate is not None or is_worth_it(found):
            embedder = replace(embedder, calibration=found)
    shown = data.members.take(landmarks.indices)
    # Landmarks that a tolerance found have a walk of their own unless they learn from the reference.
    solved = fit.solved if online.held is not None and fit.solved is not None else kept
    fitted = FittedMap(
        embedder=embedder,
        bandwidth=chosen.bandwidth,
        eigenvalues=solved.spectrum.eigenvalues,
        spectrum=solved.all_eigenvalues,
        landmark_indices=rows,
        landmark_embedding=fit.landmark_embedding(shown, n_threads),
        multiplicities=landmarks.multiplicities,
        representatives=None if fit.step.moved is None else shown,
        units=data.origin.units,
        source=data.origin.facts,
        training=_record(
            data,
            recorded,
            known,
            distance=embedded.distance[np.searchsorted(asked, recorded)],
            nearest=embedded.nearest,
        ),
        embedding=embedded.embedding,
        labels=embedded.labels,
        groups=_group_of_each(chosen, len(data.points)),
        distillation=fit.step if isinstance(fit.step, Distillation) else None,
        certificate=certificate,
        medoids=medoids,
        solution=kept.solution if recipe.extension.learns_from_reference else None,
    )
    reference = sample_reference(data.members, data.member_weights, landmarks, data.n_features)
    return Fit(_diagnosed(recipe, data, fitted, judged, seeds), judged.resampled, reference)


def _group_of_each(chosen: Chosen, n_points: int) -> NDArray[np.intp] | None:
    """Return the group of each row, -1 for those that took no part; None where all are one group."""
    data = chosen.data
    if chosen.groups is None or (data.sampled_rows is not None and not data.stride):
        return None
    groups = np.full(n_points, -1, dtype=np.intp)
    groups[data.used if data.sampled_rows is None else data.sampled_rows[data.used]] = chosen.groups
    return groups


def _calibration_rows(
    recipe: Recipe, everything: Data, chosen: Chosen, held: HeldOut | None, seeds: Seeds
) -> CalibrationRows | None:
    """Return the rows by which alarms are calibrated; a tolerance has held some out anyway."""
    data, settings = chosen.data, recipe.settings
    if held is None:
        return chosen.calibration
    is_enough = settings.calibration * len(data.points) >= FEWEST_HELD
    if not is_enough or (data.sampled_rows is not None and not data.stride):
        return None
    is_held = np.zeros(len(data.points), dtype=bool)
    is_held[data.rows_of(np.concatenate([held.search, held.certify]))] = True
    if data.sampled_rows is not None:  # rows between two that are held out are like them
        places = np.searchsorted(data.sampled_rows, np.arange(len(everything.points)), side="right") - 1
        is_held = is_held[np.maximum(places, 0)]
    time = memory_of(
        everything.metric,
        everything.points,
        everything.origin.files,
        np.random.default_rng(seeds.calibrate),
        settings.n_threads,
    )
    return CalibrationRows(is_held, time)


def _on_everything(everything: Data, sample: Data, fit: LandmarkFit) -> tuple[Data, LandmarkFit]:
    """Return all data, without what was left out of a sample of them, and the fit with the cells of all."""
    rows = cast(NDArray[np.intp], sample.sampled_rows)
    left_out = rows[(sample.weights == 0) & (np.asarray(everything.weights[rows]) > 0)]
    data = everything.without(everything.members_at(left_out)) if len(left_out) else everything
    indices = data.members_at(rows[sample.rows_of(fit.landmarks.indices)])
    places = None if fit.step.moved is None else fit.embedder.landmarks
    if sample.metric.has_local_scales:
        data = _in_local_units(data, sample, cast(LocalPoints, fit.embedder.landmarks))
    walk = Walk(data.metric, data.members, data.member_weights, fit.embedder.epsilon)
    landmarks = assign(walk, indices, places)
    radii = np.maximum(landmarks.squared_radii, fit.embedder.squared_radii)
    # ψᵀCψ = 1 over all points, not over the sample.
    fit = fit.scaled(math.sqrt(sample.member_weights.sum() / data.member_weights.sum()))
    return data, replace(fit, landmarks=landmarks, embedder=replace(fit.embedder, squared_radii=radii))


def _in_local_units(data: Data, sample: Data, landmarks: LocalPoints) -> Data:
    """Return all data with distances in local units; points beyond the sample take their factors from landmarks."""
    metric = cast(LocalScales, sample.metric)
    factors = local_factors(
        metric.plain, data.points, landmarks.plain, cast(NDArray[np.float64], landmarks.factors)
    )
    factors[sample.sampled_rows] = cast(LocalPoints, sample.points).factors
    return data.with_local_scales(factors)


def _embed_all(
    data: Data, fit: LandmarkFit, asked: NDArray[Any], recorded: NDArray[Any], n_threads: int | None
) -> _Embedded:
    """Embed all rows, in this process or where they are."""
    points, embedder, landmarks = data.points, fit.embedder, fit.landmarks
    if not points.are_here:
        embedding, labels, squared = cast(PointsElsewhere, points).embed_all(embedder, landmarks, asked)
        judged = Extended(len(asked), 0, embedder.landmarks.dtype)
        judged.squared_distance = squared
        judged.nearest[:] = 0  # by which a point is inside or not, which nobody asks here
        distance = embedder.coverage_of(judged).distance
        return _Embedded(embedding, labels, distance, landmarks.cells_of_rows(recorded))
    extended = embedder.extend(points, n_threads)
    labels, distance = extended.nearest, embedder.coverage_of(extended).distance
    labels[data.used] = landmarks.assignment
    return _Embedded(extended.coordinates, labels, distance[asked], labels[recorded])


def _record(
    data: Data, rows: NDArray[np.int64], known: KnownTimes | None, **measured: NDArray[Any]
) -> TrainingRecord:
    """Return where some points are from, and what was measured of them, for looking at the map."""
    columns = {"frames": data.origin.frames, "files": data.origin.files}
    if not data.weights.min() == data.weights.max() == 1.0:
        columns["weights"] = data.weights
    measured |= {name: column[rows] for name, column in columns.items() if column is not None}
    if known is not None:
        measured["times"] = known.at(rows)
    return TrainingRecord.of(rows, **measured)


def _diagnosed(recipe: Recipe, data: Data, fitted: FittedMap, judged: Judged, seeds: Seeds) -> FittedMap:
    """Return the map with what is to be said of it, and warn when a few points decide it."""
    diagnosis = diagnose(
        fitted.landmark_embedding,
        fitted.multiplicities,
        fitted.landmark_indices,
        None if data.uses_all else data.used,
        fitted.bandwidth,
        len(data.points),
    )
    warning = diagnosis.warning(fitted.bandwidth.epsilon, data.origin.name)
    if warning is not None:
        warn(warning)
    sampling = judged.sampling
    if sampling is not None and fitted.eigenvalues is not None and fitted.spectrum is not None:
        sampling = sampling.of_map(fitted.eigenvalues, fitted.spectrum)
    return replace(
        fitted,
        diagnosis=diagnosis,
        embedder=_calibrated_by_others(recipe, data, fitted.embedder, seeds),
        sampling=sampling,
    )


def _calibrated_by_others(recipe: Recipe, data: Data, embedder: Embedder, seeds: Seeds) -> Embedder:
    """Return the embedder with a calibration if all members are landmarks: each is compared with the others."""
    settings = recipe.settings
    is_every = embedder.n_landmarks == len(data.members)
    # Distances are kept to try other settings, each of which would compute this again.
    if embedder.calibration is not None or settings.keep_distances or not (settings.calibration and is_every):
        return embedder
    rng, points = np.random.default_rng(seeds.calibrate), data.members.brought(MOST_BLOCKED)
    files = None if data.origin.files is None else data.origin.files[data.used]
    time = memory_of(data.metric, points, files, rng, settings.n_threads)
    known = data.known_times(None)
    calibration = calibrate_by_others(
        data.metric,
        points,
        embedder.epsilon,
        time,
        np.empty(0) if known is None else known.steps,
        rng,
        settings.n_threads,
    )
    return replace(embedder, calibration=calibration)


def _listed(sizes: NDArray[np.intp]) -> str:
    """Return numbers in words: "2,480, 1,480 and 40"; of many the largest."""
    shown = [f"{size:,}" for size in sizes[:MOST_LISTED].tolist()]
    if len(sizes) > MOST_LISTED:
        return f"{', '.join(shown)}, ..."
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def warn_about_walk(all_data: Data, chosen: Chosen, refusals: list[Refused]) -> None:
    """Warn where the walk is not over all points, or not at the ε of the rule "bulk"."""
    epsilon = chosen.bandwidth.epsilon
    rule_epsilon = refusals[0].epsilon if refusals else chosen.rule_epsilon
    if epsilon > rule_epsilon:
        if refusals:
            tolerance = refusals[0].tolerance
            trouble = (
                f"{len(all_data.used):,} points are too few to certify a tolerance of {tolerance:g} percent"
            )
            remedy = "Fit to more points, or raise the tolerance,"
        else:
            trouble, remedy = "the data fall into disconnected groups", "Fit each group separately"
        warn(
            BandwidthWarning(
                f"at the default bandwidth (epsilon = {rule_epsilon:.6g}) {trouble}; using epsilon = {epsilon:.6g}, "
                f"which connects them but resolves less detail. {remedy} to see finer structure"
            )
        )
    if chosen.groups is not None:
        sizes = np.bincount(chosen.groups)
        item = "frames" if all_data.metric.takes_frames else "points"
        warn(
            DisconnectedWarning(
                f"{len(sizes)} groups without a transition between them: {_listed(sizes)} {item}. The first "
                f"{'coordinate separates' if len(sizes) == 2 else f'{len(sizes) - 1} coordinates separate'} them, and "
                "groups_ has the group of each point. Rates between them cannot be estimated: sample transitions, or "
                "fit each group separately to see more of its structure"
            )
        )
    left_out = all_data.used[chosen.data.weights[all_data.used] == 0]
    if len(left_out):
        share = 100 * len(left_out) / len(all_data.used)
        warn(
            OutlierWarning(
                f"{len(left_out):,} of {len(all_data.used):,} points ({share:.2g} %) are isolated at this bandwidth "
                f"and "
                f"were excluded from the fit: {named_points(left_out, all_data.origin.name)}. They still receive "
                "coordinates; diagnosis_.left_out lists them. To include them, use ",
                Named("epsilon", "connected"),
            )
        )
