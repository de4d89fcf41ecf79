"""Landmarks, landmark maps over them, and how far those are from the exact map of the same fold."""

from __future__ import annotations

import math
import time

import numpy as np
from scipy.linalg import orthogonal_procrustes

from ldmaps import LandmarkDiffusionMap
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import DisconnectedError
from ldmaps.extension import Distilled, Embedder
from ldmaps.fit.landmark_fit import LandmarkFit
from ldmaps.landmarks import KMedoids, LandmarkSelector, PrunedSpanningTree
from ldmaps.landmarks.base import assign
from ldmaps.metrics.base import Points
from ldmaps.validation.fidelity import column_matching, nrmse, point_errors
from reproduction.exact_maps import solved_map
from reproduction.laboratory import Laboratory, Method
from reproduction.pieces import Arrays, Piece

__all__ = ["make_draws", "make_embeddings", "make_errors", "make_landmarks", "nystrom_map"]


def make_landmarks(lab: Laboratory, piece: Piece) -> Arrays:
    """Choose landmarks among a fold's training points."""
    data = lab.data(piece)
    points = data.metric.prepare(data.points[lab.split(piece)[0]])
    selector = _selector(piece["selector"], piece["m"])
    epsilon = math.nan if piece["selector"].startswith("kmedoids") else lab.epsilon(piece)
    walk = Walk(data.metric, points, np.ones(len(points)), epsilon, n_threads=lab.n_threads)
    start = time.perf_counter()
    landmarks = selector.select(walk, lab.rng(piece))
    return {"indices": landmarks.indices, "seconds": np.array(time.perf_counter() - start)}


def make_errors(lab: Laboratory, piece: Piece) -> Arrays:
    """Hold one landmark map against the exact one."""
    method = Method(*piece["method"])
    lab.exact_of(piece)
    n_landmarks = len(lab.landmarks_of(piece, method))
    start = time.perf_counter()
    try:
        both = _beside_exact(lab, piece, method)
    except DisconnectedError:
        # So few landmarks that the walk over them falls apart: there is no map, and so no error to give.
        return _no_map(n_landmarks)
    seconds = time.perf_counter() - start
    truth, train = both["truth"], both["train"]
    ranges = np.ptp(truth, axis=0)
    scaled = truth / ranges, train / ranges
    turn = orthogonal_procrustes(scaled[1], scaled[0])[0]
    return {
        "m": both["m"],
        "z_train": np.array(nrmse(truth, train, matched=True)),
        "z_test": np.array(nrmse(both["new_truth"], both["test"], matched=True)),
        "largest": np.array(point_errors(truth, train, matched=True).max()),
        "largest_test": np.array(point_errors(both["new_truth"], both["test"], matched=True).max()),
        "z_rotated": np.array(nrmse(scaled[0], scaled[1] @ turn, ranges=np.ones(len(ranges)), matched=True)),
        "reordered": np.array((both["order"] != np.arange(len(ranges))).any()),
        "seconds": np.array(seconds),
    }


def make_draws(lab: Laboratory, piece: Piece) -> Arrays:
    """Return Z of the training points for several draws of landmarks in one fold."""
    data, exact, k = lab.data(piece), lab.exact_of(piece), lab.n_components(piece)
    train = data.points[lab.split(piece)[0]]
    method = Method(*piece["method"])
    errors = []
    for draw in range(piece["draws"]):
        model = LandmarkDiffusionMap(
            k,
            float(exact["epsilon"]),
            data.metric,
            landmarks=_selector(method.selector, int(method.m) if method.m is not None else None),
            extension=method.extension,
            random_state=draw,
            n_threads=lab.n_threads,
        ).fit(train)
        errors.append(nrmse(exact["train"][:, :k], model.embedding_))
    return {"z_train": np.array(errors)}


def make_embeddings(lab: Laboratory, piece: Piece) -> Arrays:
    """Return both maps' coordinates of every point, and ζ of each."""
    both = _beside_exact(lab, piece, Method(*piece["method"]))
    data = lab.data(piece)
    train, test = lab.split(piece)
    if len(data.position):
        both["position"], both["new_position"] = data.position[train], data.position[test]
    both["zeta"] = point_errors(both["truth"], both["train"], matched=True)
    both["new_zeta"] = point_errors(both["new_truth"], both["test"], matched=True)
    return both


def nystrom_map(lab: Laboratory, piece: Piece, method: Method) -> LandmarkDiffusionMap:
    """Fit the paper's landmark map over a method's landmarks, at the exact map's ε."""
    data = lab.data(piece)
    return LandmarkDiffusionMap(
        lab.n_components(piece),
        float(lab.exact_of(piece)["epsilon"]),
        data.metric,
        landmarks=lab.landmarks_of(piece, method),
        extension="nystrom",
        n_threads=lab.n_threads,
    ).fit(data.points[lab.split(piece)[0]])


def _distilled_map(lab: Laboratory, piece: Piece, points: Points, method: Method) -> Embedder:
    """Distil the fold's exact map into a method's landmarks."""
    exact = solved_map(lab, piece, points)
    walk = exact.walk
    indices = lab.landmarks_of(piece, method)
    landmarks = assign(walk, indices)
    step = Distilled().fit(exact, landmarks, np.arange(len(points)), lab.rng(piece))
    return LandmarkFit.of(walk, landmarks, step, None).embedder


def _beside_exact(lab: Laboratory, piece: Piece, method: Method) -> Arrays:
    """Return true and landmark coordinates of training and test points, order and signs matched."""
    data, exact, k = lab.data(piece), lab.exact_of(piece), lab.n_components(piece)
    train, test = lab.split(piece)
    if method.extension == "nystrom":
        model = nystrom_map(lab, piece, method)
        embedder, embedding = model.embedder_, model.embedding_
    else:
        points = data.metric.prepare(data.points[train])
        embedder = _distilled_map(lab, piece, points, method)
        embedding = embedder.extend(points, lab.n_threads).coordinates
    new = embedder.extend(embedder.prepare(data.points[test]), lab.n_threads).coordinates
    truth = exact["train"][:, :k]
    # The training points decide order and signs, for the test points too.
    order, signs = column_matching(truth, embedding)
    return {
        "truth": truth,
        "new_truth": exact["test"],
        "train": embedding[:, order] * signs,
        "test": new[:, order] * signs,
        "order": order,
        "m": np.array(embedder.n_landmarks),
    }


def _selector(name: str, m: int | None) -> LandmarkSelector:
    if name.startswith("kmedoids"):
        return KMedoids(m, init="k-means++" if name == "kmedoids" else "random")
    return PrunedSpanningTree(growth=name)


def _no_map(n_landmarks: int) -> Arrays:
    missing = np.array(math.nan)
    names = ("z_train", "z_test", "largest", "largest_test", "z_rotated", "seconds")
    return {"m": np.array(n_landmarks), "reordered": np.array(False), **dict.fromkeys(names, missing)}
