"""Data sets, folds, and what every table and figure is made of: exact maps, landmarks, errors, timings.

    data set ──► 5 folds ──► exact map (once a fold and ε; the expensive part)
                   │              │
                   └► landmarks ──┴──► errors ζ, Z  ·  embeddings  ·  parity  ·  timings

An exact map is reduced to its eigenpairs as soon as it is solved. They are all that
Nyström, distilling and the expansions need, so the N×N kernel lives for one piece only.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes

from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.diffusion.spectrum import Spectrum
from ldmaps.diffusion.walk import Walk
from ldmaps.errors import AccuracyWarning, DisconnectedError
from ldmaps.extension import Distilled, OnlineStep
from ldmaps.extension.embedder import Embedder
from ldmaps.landmarks import KMedoids, PrunedSpanningTree
from ldmaps.landmarks.base import Landmarks, LandmarkSelector, assign
from ldmaps.maps.diffusion_map import DiffusionMap
from ldmaps.maps.fitted_map import FittedMap
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.maps.solved_map import SolvedMap
from ldmaps.metrics import RMSD, Euclidean
from ldmaps.metrics.base import Metric, Points
from ldmaps.quality.fidelity import alignment, rms_error, zeta
from ldmaps.quality.perturbation import predict_errors
from ldmaps.threads import single_threaded_blas
from reproduction.pieces import Arrays, Piece, Store
from reproduction.plan import CONNECTED, DataPlan, Plan, Width

__all__ = ["DataSet", "Laboratory", "Method"]

#: Eigenvalues kept of every exact map, to show the gap (or its absence) behind the k-th.
SHOWN_EIGENVALUES = 6
#: Points drawn in a parity plot for each M.
PARITY_POINTS = 400


@dataclass(frozen=True)
class DataSet:
    """Points in the order of the folds' permutation, and how to measure distances between them."""

    points: NDArray[Any]
    metric: Metric
    order: NDArray[np.intp]
    #: Position along the Swiss roll's spiral; empty for molecules.
    position: NDArray[np.float64]


@dataclass(frozen=True)
class Method:
    """A way to get a landmark map.

    Attributes
    ----------
    selector : {"adopting", "literal", "kmedoids", "kmedoids from random seeds"}
        The two readings of the pruned spanning tree, or k-medoids.
    m : int or {"adopting", "literal"} or None
        Number of medoids; a tree's name asks for as many as that tree has. None for trees.
    extension : {"nystrom", "distilled"}
    """

    selector: str
    m: int | str | None = None
    extension: str = "nystrom"

    @property
    def key(self) -> tuple[str, int | str | None, str]:
        """Name that cached results are filed under."""
        return (self.selector, self.m, self.extension)


@lru_cache(maxsize=2)
def load_data(key: str, variant: str, n_points: int, stride: int, seed: int) -> DataSet:
    """Load a data set; ``variant`` says which atoms count and how much."""
    order = np.random.default_rng(seed).permutation(n_points)
    if key == "swiss_roll":
        roll = swiss_roll(n_points, random_state=seed)
        return DataSet(roll.points, Euclidean(), order, roll.position)
    molecule = c24h50(stride=stride) if key == "c24h50" else alanine_dipeptide(stride=stride)
    frames = molecule.frames[:n_points]
    if variant == "heavy":
        frames = np.ascontiguousarray(frames[:, molecule.heavy_atoms])
    metric = RMSD(weights=molecule.masses) if variant == "masses" else RMSD()
    return DataSet(frames, metric, order, np.empty(0))


class Laboratory:
    """Makes pieces, each at most once.

    Parameters
    ----------
    plan : Plan
    store : Store
    n_threads : int or None
        For everything but timings, which run on one.
    """

    def __init__(self, plan: Plan, store: Store, n_threads: int | None = None) -> None:
        self.plan = plan
        self.store = store
        self.n_threads = n_threads
        self._makers: dict[str, Callable[[Piece], Arrays]] = {
            "exact": self._make_exact,
            "landmarks": self._make_landmarks,
            "errors": self._make_errors,
            "draws": self._make_draws,
            "embeddings": self._make_embeddings,
            "parity": self._make_parity,
            "timing": self._make_timing,
        }

    def get(self, piece: Piece) -> Arrays:
        """Return a piece, from the store or fresh."""
        return self.store.get(piece, self._makers[piece.kind])

    # -- names ------------------------------------------------------------------

    def piece(self, kind: str, data: DataPlan, fold: int, variant: str = "", **settings: Any) -> Piece:
        """Name a piece of one fold of a data set; molecules are weighed by mass unless told otherwise."""
        return Piece.of(
            kind,
            data=data.key,
            n_points=data.n_points,
            stride=data.stride,
            variant=variant or ("" if data.key == "swiss_roll" else "masses"),
            fold=fold,
            **settings,
        )

    def exact(self, data: DataPlan, fold: int, width: Width = CONNECTED, variant: str = "") -> Piece:
        """Name an exact map."""
        named = self.piece("exact", data, fold, variant)
        return self._related(named, "exact", width=width.key, n_modes=self._n_modes(named, width.key))

    def errors(
        self, data: DataPlan, fold: int, method: Method, width: Width = CONNECTED, variant: str = ""
    ) -> Piece:
        """Name the errors of one landmark map."""
        return self.piece("errors", data, fold, variant, width=width.key, method=method.key)

    def draws(self, data: DataPlan, fold: int, method: Method, variant: str) -> Piece:
        """Name the errors of one method for several draws of landmarks."""
        return self.piece(
            "draws", data, fold, variant, width=CONNECTED.key, method=method.key, draws=self.plan.draws
        )

    # -- the pieces they are made of -----------------------------------------------

    def data(self, piece: Piece) -> DataSet:
        """Return the points a piece is about."""
        return load_data(piece["data"], piece["variant"], piece["n_points"], piece["stride"], self.plan.seed)

    def split(self, piece: Piece) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return indices of training and test points, each in rising order."""
        parts = np.array_split(self.data(piece).order, 5)
        test = parts.pop(piece["fold"])
        return np.sort(np.concatenate(parts)), np.sort(test)

    def _related(self, piece: Piece, kind: str, **settings: Any) -> Piece:
        """Name another piece of the same fold."""
        same = {name: piece[name] for name in ("data", "n_points", "stride", "variant", "fold")}
        return Piece.of(kind, **same, **settings)

    def _width(self, piece: Piece) -> Width:
        return next(width for width in self.plan.of(piece["data"]).widths if width.key == piece["width"])

    def _epsilon(self, piece: Piece) -> float:
        width = self._width(piece)
        if width.value is not None:
            return width.value
        base = self._exact_of(piece, CONNECTED)
        return float(base["epsilon"]) * width.factor

    def _exact_of(self, piece: Piece, width: Width | None = None) -> Arrays:
        """Return the exact map that a piece is judged by."""
        key = piece["width"] if width is None else width.key
        return self.get(self._related(piece, "exact", width=key, n_modes=self._n_modes(piece, key)))

    def _n_modes(self, piece: Piece, width_key: str) -> int:
        """Return how many modes an exact map keeps: many where Figure 4 needs them, else the coordinates."""
        plan = self.plan.of(piece["data"])
        usual = piece["variant"] in ("", "masses")
        needed = piece["fold"] == 0 and width_key == CONNECTED.key and usual
        return plan.n_modes if needed else plan.n_components

    def _make_exact(self, piece: Piece) -> Arrays:
        plan, data = self.plan.of(piece["data"]), self.data(piece)
        train, test = self.split(piece)
        width = self._width(piece)
        rule: float | str = "connected" if width == CONNECTED else self._epsilon(piece)
        k = plan.n_components
        # The estimator solves for one eigenvalue more than it keeps.
        kept = max(piece["n_modes"], SHOWN_EIGENVALUES - 1)
        start = time.perf_counter()
        model = DiffusionMap(
            kept, rule, data.metric, sparse=width in plan.sparse_widths, n_threads=self.n_threads
        )
        model.fit(data.points[train])
        seconds = time.perf_counter() - start
        wanted = piece["n_modes"]
        return {
            "epsilon": np.array(model.epsilon_),
            "eigenvalues": model.eigenvalues_[:wanted],
            "spectrum": model.spectrum_[:SHOWN_EIGENVALUES],
            "train": model.embedding_[:, :wanted],
            "test": model.transform(data.points[test])[:, :k],
            "seconds": np.array(seconds),
        }

    def _landmarks(self, piece: Piece, method: Method) -> Piece:
        """Name the landmarks of a method; medoids do not depend on ε, trees do."""
        if method.selector.startswith("kmedoids"):
            count = method.m
            if isinstance(count, str):
                tree = self._landmarks(piece, Method(count))
                count = len(self.get(tree)["indices"])
            return self._related(piece, "landmarks", selector=method.selector, m=count, width="any")
        return self._related(piece, "landmarks", selector=method.selector, m=None, width=piece["width"])

    def _make_landmarks(self, piece: Piece) -> Arrays:
        data = self.data(piece)
        points = data.metric.prepare(data.points[self.split(piece)[0]])
        selector = _selector(piece["selector"], piece["m"])
        epsilon = math.nan if piece["selector"].startswith("kmedoids") else self._epsilon(piece)
        start = time.perf_counter()
        chosen = selector.select(
            points,
            data.metric,
            epsilon=epsilon,
            weights=np.ones(len(points)),
            rng=self._rng(piece),
            n_threads=self.n_threads,
        )
        return {"indices": chosen.indices, "seconds": np.array(time.perf_counter() - start)}

    def _rng(self, piece: Piece) -> np.random.Generator:
        return np.random.default_rng([self.plan.seed, piece["fold"]])

    # -- landmark maps ---------------------------------------------------------------

    def _map(self, piece: Piece, method: Method) -> tuple[Embedder, NDArray[Any], Landmarks]:
        """Return a landmark map, its coordinates of the training points, and its landmarks."""
        plan, data = self.plan.of(piece["data"]), self.data(piece)
        train = data.points[self.split(piece)[0]]
        indices = self.get(self._landmarks(piece, method))["indices"]
        epsilon = float(self._exact_of(piece)["epsilon"])
        if method.extension == "nystrom":
            model = LandmarkDiffusionMap(
                plan.n_components,
                epsilon,
                data.metric,
                landmarks=indices,
                extension="nystrom",
                n_threads=self.n_threads,
            ).fit(train)
            landmarks = Landmarks(
                model.landmark_indices_, model.multiplicities_, model.labels_, np.zeros(len(train))
            )
            return model.embedder_, model.embedding_, landmarks
        points = data.metric.prepare(train)
        chosen = assign(points, data.metric, indices, np.ones(len(points)), self.n_threads)
        embedder = self._distilled(piece, points, chosen)
        return embedder, embedder.extend(points, self.n_threads).coordinates, chosen

    def _solved(self, piece: Piece, points: Points) -> SolvedMap:
        """Return the exact map as what landmarks are distilled from, without solving it again."""
        exact, k = self._exact_of(piece), self.plan.of(piece["data"]).n_components
        ones, zeros = np.ones(len(points)), np.zeros(len(points))
        # Degrees serve only to leave points out, which distilling does not do.
        spectrum = Spectrum(exact["eigenvalues"][:k], exact["train"][:, :k].astype(np.float64), ones, ones)
        walk = Walk(self.data(piece).metric, points, ones, float(exact["epsilon"]), n_threads=self.n_threads)
        return SolvedMap(walk, np.arange(len(points)), points, ones, zeros, spectrum)

    def _distilled(self, piece: Piece, points: Points, landmarks: Landmarks) -> Embedder:
        reference = self._solved(piece, points)
        step = Distilled().fit(reference, landmarks, np.arange(len(points)), self._rng(piece))
        walk = reference.walk
        return Embedder.build(
            walk.metric, points.take(landmarks.indices), walk.epsilon, step, landmarks.squared_radii
        )

    def _compared(self, piece: Piece, method: Method) -> dict[str, NDArray[Any]]:
        """Return true and landmark coordinates of training and test points, order and signs matched."""
        k = self.plan.of(piece["data"]).n_components
        data, exact = self.data(piece), self._exact_of(piece)
        test = self.split(piece)[1]
        embedder, train, landmarks = self._map(piece, method)
        new = embedder.extend(embedder.prepare(data.points[test]), self.n_threads).coordinates
        truth, new_truth = exact["train"][:, :k], exact["test"]
        # The training points decide order and signs, for the test points too.
        order, signs = alignment(truth, train)
        return {
            "truth": truth,
            "new_truth": new_truth,
            "train": train[:, order] * signs,
            "test": new[:, order] * signs,
            "order": order,
            "m": np.array(len(landmarks.indices)),
        }

    def _make_errors(self, piece: Piece) -> Arrays:
        method = Method(*piece["method"])
        self._exact_of(piece)
        landmarks = self.get(self._landmarks(piece, method))["indices"]
        start = time.perf_counter()
        try:
            found = self._compared(piece, method)
        except DisconnectedError:
            # So few landmarks that the walk over them falls apart: there is no map, and so no error to give.
            return _no_map(len(landmarks))
        seconds = time.perf_counter() - start
        truth, train = found["truth"], found["train"]
        ranges = np.ptp(truth, axis=0)
        scaled = truth / ranges, train / ranges
        turn = orthogonal_procrustes(scaled[1], scaled[0])[0]
        return {
            "m": found["m"],
            "z_train": np.array(rms_error(truth, train, aligned=True)),
            "z_test": np.array(rms_error(found["new_truth"], found["test"], aligned=True)),
            "largest": np.array(zeta(truth, train, aligned=True).max()),
            "largest_test": np.array(zeta(found["new_truth"], found["test"], aligned=True).max()),
            "z_rotated": np.array(
                rms_error(scaled[0], scaled[1] @ turn, ranges=np.ones(len(ranges)), aligned=True)
            ),
            "reordered": np.array((found["order"] != np.arange(len(ranges))).any()),
            "seconds": np.array(seconds),
        }

    def _make_draws(self, piece: Piece) -> Arrays:
        """Return Z of the training points for several draws of landmarks in one fold."""
        plan, data, exact = self.plan.of(piece["data"]), self.data(piece), self._exact_of(piece)
        train = data.points[self.split(piece)[0]]
        method = Method(*piece["method"])
        found = []
        for draw in range(piece["draws"]):
            model = LandmarkDiffusionMap(
                plan.n_components,
                float(exact["epsilon"]),
                data.metric,
                landmarks=_selector(method.selector, int(method.m) if method.m is not None else None),
                extension=method.extension,
                random_state=draw,
                n_threads=self.n_threads,
            ).fit(train)
            found.append(rms_error(exact["train"][:, : plan.n_components], model.embedding_))
        return {"z_train": np.array(found)}

    def _make_embeddings(self, piece: Piece) -> Arrays:
        found = self._compared(piece, Method(*piece["method"]))
        data = self.data(piece)
        train, test = self.split(piece)
        if len(data.position):
            found["position"], found["new_position"] = data.position[train], data.position[test]
        found["zeta"] = zeta(found["truth"], found["train"], aligned=True)
        found["new_zeta"] = zeta(found["new_truth"], found["test"], aligned=True)
        return found

    # -- expansions --------------------------------------------------------------------

    def _make_parity(self, piece: Piece) -> Arrays:
        """Compare predicted with true δψ of all training points for one M."""
        plan, data = self.plan.of(piece["data"]), self.data(piece)
        k = plan.n_components
        train = data.points[self.split(piece)[0]]
        exact = _as_estimator(self._exact_of(piece), data.metric, train)
        indices = self.get(self._landmarks(piece, Method("kmedoids", piece["m"])))["indices"]
        model = LandmarkDiffusionMap(
            k, exact.epsilon_, data.metric, landmarks=indices, extension="nystrom", n_threads=self.n_threads
        ).fit(train)
        truth = exact.embedding_[:, :k].astype(np.float64)
        order, signs = alignment(truth, model.embedding_)
        moved = model.landmark_embedding_[model.labels_]
        measured = {
            "point": np.linalg.norm(model.embedding_[:, order] * signs - truth, axis=1),
            "landmark": np.linalg.norm(moved[:, order] * signs - truth, axis=1),
        }
        shown = np.sort(self._rng(piece).permutation(len(train))[:PARITY_POINTS])
        result: Arrays = {}
        for name in ("paper", "biorthogonal"):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", AccuracyWarning)
                found = predict_errors(exact, model, train, method=name, n_threads=self.n_threads)
            for place, predicted in (("point", found.sigma), ("landmark", found.sigma_at_landmarks)):
                true = measured[place]
                result[f"{name}_{place}_ratio"] = np.array(_rms(predicted) / _rms(true))
                result[f"{name}_{place}_correlation"] = np.array(_log_correlation(predicted, true))
                result[f"{name}_{place}"] = predicted[shown]
                result[f"true_{place}"] = true[shown]
            result["distance"] = np.array(found.rms_distance)
            result[f"z_{name}"] = np.array(found.rms_zeta)
        result["z"] = np.array(rms_error(truth, model.embedding_))
        return result

    # -- timings -----------------------------------------------------------------------

    def _make_timing(self, piece: Piece) -> Arrays:
        """Time Nyström over all N points and landmark maps, in turns, on one thread.

        Distances, kernel and product are the same compiled loops for both, and
        preparing the new points counts for both.
        """
        plan, data = self.plan.of(piece["data"]), self.data(piece)
        exact = self._exact_of(piece)
        train, test = self.split(piece)
        points = data.metric.prepare(data.points[train])
        k = plan.n_components
        coefficients = exact["train"][:, :k].astype(np.float64) / exact["eigenvalues"][:k]
        ones, epsilon = np.ones(len(points)), float(exact["epsilon"])

        def embedder_of(indices: NDArray[np.intp], weights: NDArray[np.float64]) -> Embedder:
            # Which numbers the coefficients are does not change the time: those of the exact map save solving.
            step = OnlineStep(coefficients=coefficients[indices], source_weights=weights, bandwidth=epsilon)
            return Embedder.build(data.metric, points.take(indices), epsilon, step, np.zeros(len(indices)))

        full = embedder_of(np.arange(len(points)), ones)
        embedders = []
        for key in piece["methods"]:
            indices = self.get(self._landmarks(piece, Method(*key)))["indices"]
            cells = assign(points, data.metric, indices, ones, self.n_threads)
            embedders.append(embedder_of(indices, cells.multiplicities))
        new = data.points[test]
        rounds: int = self.plan.timing_rounds
        seconds = np.empty((rounds, 1 + len(embedders)))
        with single_threaded_blas():
            for embedder in (full, *embedders):
                embedder.extend(embedder.prepare(new[:64]), 1)  # compiles, if nothing has yet
            for turn in range(rounds):
                for place, embedder in enumerate((full, *embedders)):
                    seconds[turn, place] = _seconds_to_embed(embedder, new, self.plan.timing_seconds)
        return {
            "m": np.array([embedder.n_landmarks for embedder in embedders]),
            "n": np.array(len(points)),
            "n_new": np.array(len(new)),
            "full": seconds[:, 0],
            "landmark": seconds[:, 1:],
        }


def _seconds_to_embed(embedder: Embedder, new: NDArray[Any], shortest: float) -> float:
    """Return this thread's time on the processor for one batch: others on the machine do not count."""
    repeats, passed, start = 0, 0.0, time.thread_time()
    while passed < shortest:
        embedder.extend(embedder.prepare(new), 1)
        repeats += 1
        passed = time.thread_time() - start
    return passed / repeats


def _as_estimator(exact: Arrays, metric: Metric, train: NDArray[Any]) -> DiffusionMap:
    """Return a fitted exact map from its eigenpairs; the kernel is not made again."""
    epsilon, vectors, eigenvalues = float(exact["epsilon"]), exact["train"], exact["eigenvalues"]
    points = metric.prepare(train)
    ones, zeros, everyone = np.ones(len(points)), np.zeros(len(points)), np.arange(len(points))
    walk = Walk(metric, points, ones, epsilon)
    solved = SolvedMap(walk, everyone, points, ones, zeros, Spectrum(eigenvalues, vectors, ones, ones))
    return DiffusionMap(len(eigenvalues), epsilon, metric).adopt(
        FittedMap(
            embedder=solved.embedder(),
            bandwidth=Bandwidth(epsilon, "given"),
            eigenvalues=eigenvalues,
            spectrum=eigenvalues,
            landmark_indices=everyone,
            landmark_embedding=vectors,
            multiplicities=ones,
            embedding=vectors,
        )
    )


def _selector(name: str, m: int | None) -> LandmarkSelector:
    if name.startswith("kmedoids"):
        return KMedoids(m, init="k-means++" if name == "kmedoids" else "random")
    return PrunedSpanningTree(growth=name)


def _no_map(n_landmarks: int) -> Arrays:
    missing = np.array(math.nan)
    names = ("z_train", "z_test", "largest", "largest_test", "z_rotated", "seconds")
    return {"m": np.array(n_landmarks), "reordered": np.array(False), **dict.fromkeys(names, missing)}


def _rms(values: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _log_correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    both = (a > 0) & (b > 0)
    return float(np.corrcoef(np.log(a[both]), np.log(b[both]))[0, 1])
