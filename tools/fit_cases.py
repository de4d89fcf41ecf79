"""Fits that between them pass every way in which a map can be fitted, on small data: for tools/compare_fits.py.

A case is a name and a function that returns a fitted map. It uses the public interface alone, so that the same cases
run before and after a change of what is inside. Fits that must fail are cases too: their error is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.landmarks import PrunedSpanningTree

__all__ = ["Case", "all_cases"]

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A fit, and new points to ask the fitted map about."""

    name: str
    fit: Callable[[], Any]
    new: Callable[[], Array]


@dataclass(frozen=True)
class Data:
    """Training points, new points like them, and the metric they are for."""

    X: Array
    new: Array
    metric: str = "euclidean"


# -- data -----------------------------------------------------------------------


def generator(seed: int) -> np.random.Generator:
    """Return a generator of its own for each data set, so that none depends on the others."""
    return np.random.default_rng(seed)


def shifted(X: Array, seed: int = 99) -> Array:
    """Return a few points near those of a data set and one far from all."""
    near = X[:: max(1, len(X) // 7)][:7]
    noise = generator(seed).standard_normal(near.shape) * 0.05 * X.std(axis=0)
    return np.concatenate([near + noise, X[:1] + 20 * X.std()]).astype(X.dtype)


def points(X: Array) -> Data:
    """Return points for the Euclidean metric."""
    return Data(X, shifted(X))


@cache
def roll(n_points: int = 1200) -> Data:
    """Return a Swiss roll."""
    return points(swiss_roll(n_points).points)


@cache
def frames(n_frames: int = 800, stride: int = 30) -> Data:
    """Return the heavy atoms of alanine dipeptide; with a stride of 1 the frames are consecutive."""
    molecule = alanine_dipeptide(stride=stride)
    X = molecule.frames[: n_frames + 8, molecule.heavy_atoms]
    return Data(X[:-8], X[-8:], "rmsd")


@cache
def angles(n_points: int = 900) -> Data:
    """Return pairs of angles in three basins, one of which crosses ±π."""
    rng = generator(1)
    centres = np.array([[-1.2, 2.6], [-1.3, -0.6], [1.0, 3.1]])
    X = centres[rng.choice(3, n_points, p=[0.5, 0.35, 0.15])] + 0.45 * rng.standard_normal((n_points, 2))
    X = np.mod(X + np.pi, 2 * np.pi) - np.pi
    return Data(X, X[:8] + 0.01, "periodic")


@cache
def distances(n_points: int = 700) -> Data:
    """Return the distances between points of a curved sheet."""
    rng = generator(2)
    u, v = rng.random(n_points + 8) ** 1.5, rng.random(n_points + 8)
    sheet = np.column_stack([np.cos(3 * u), np.sin(3 * u), v])
    squared = ((sheet[:, None] - sheet[None]) ** 2).sum(axis=2)
    every = np.sqrt(squared)[:, :n_points]
    return Data(every[:n_points], every[n_points:], "precomputed")


@cache
def roll_with_outliers() -> Data:
    """Return a roll after nine points that are far from it and from each other."""
    rng = generator(3)
    far = 60 * rng.standard_normal((9, 3)) + 150 * np.sign(rng.standard_normal((9, 3)))
    return points(np.concatenate([far, swiss_roll(1200, random_state=1).points]))


@cache
def two_halves() -> Data:
    """Return two rolls so far apart that the usual bandwidth does not join them."""
    first, second = swiss_roll(600, random_state=2).points, swiss_roll(600, random_state=3).points
    return points(np.concatenate([first, second + np.array([0.0, 60.0, 0.0])]))


@cache
def student(degrees: float, n_points: int = 2000) -> Data:
    """Return noise of Student's distribution in three dimensions; 1 is Cauchy's."""
    return points(generator(4).standard_t(degrees, size=(n_points, 3)))


@cache
def random_walk(n_steps: int = 600) -> Data:
    """Return a random walk: each point is near the one before."""
    return points(np.cumsum(generator(5).standard_normal((n_steps, 3)), axis=0))


@cache
def repeated_rows() -> Data:
    """Return a roll of which a third of the points stands three times, and one point fifty times."""
    X = swiss_roll(500, random_state=4).points
    again = np.concatenate([np.repeat(np.arange(170), 2), np.full(49, 200)])
    return points(generator(6).permutation(np.concatenate([X, X[again]])))


@cache
def gaussian(n_points: int, n_features: int = 10) -> Data:
    """Return normal noise, as smooth as data can be."""
    return points(generator(7).standard_normal((n_points, n_features)))


@cache
def chain() -> Data:
    """Return frames of a chain of 24 atoms."""
    X = c24h50(stride=16).frames
    return Data(X[:600], X[600:608], "rmsd")


def weights(n_points: int) -> Array:
    """Return positive weights, every ninth of which is zero."""
    drawn = generator(8).uniform(0.2, 3.0, n_points)
    drawn[::9] = 0.0
    return drawn


# -- fits ------------------------------------------------------------------------


def exact(data: Data, n_components: int | str = "gap", **settings: Any) -> Any:
    """Return the exact map of data."""
    return DiffusionMap(n_components, metric=data.metric, n_threads=1, **settings).fit(data.X)


def landmark(data: Data, n_components: int | str = "gap", **settings: Any) -> Any:
    """Return the landmark map of data."""
    return LandmarkDiffusionMap(n_components, metric=data.metric, n_threads=1, **settings).fit(data.X)


def weighted(model: type, data: Data, **settings: Any) -> Any:
    """Return the map of data with weights, of which some are zero."""
    estimator = model(metric=data.metric, n_threads=1, **settings)
    return estimator.fit(data.X, sample_weight=weights(len(data.X)))


def blocks(data: Data, n_components: int | str = "gap", *, weighted: bool = False, **settings: Any) -> Any:
    """Return the landmark map of data in blocks, on Dask's threads."""
    import dask
    import dask.array as da

    X = da.from_array(data.X, chunks=(300, *data.X.shape[1:]))
    sample_weight = weights(len(data.X)) if weighted else None
    estimator = LandmarkDiffusionMap(n_components, metric=data.metric, n_threads=1, **settings)
    with dask.config.set(scheduler="threads", num_workers=1):
        return estimator.fit(X, sample_weight=sample_weight)


def refitted(data: Data, first: float | str, then: float | str, **settings: Any) -> Any:
    """Return the exact map at one bandwidth, from the distances that were kept of a fit at another."""
    estimator = DiffusionMap(epsilon=first, metric=data.metric, keep_distances=True, n_threads=1, **settings)
    return estimator.fit(data.X).refit(then)


def tables(data: Data, *, in_order: bool, **settings: Any) -> Any:
    """Return the landmark map of two tables with a column of times, in the order of time or not."""
    from ldmaps.inputs import open_files

    n_points = len(data.X)
    times = 0.5 * np.arange(n_points)
    rows = np.arange(n_points) if in_order else generator(9).permutation(n_points)
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"part{number}.csv" for number in (1, 2)]
        for path, part in zip(paths, np.array_split(rows, 2), strict=True):
            columns = np.column_stack([times[part], data.X[part]])
            np.savetxt(path, columns, delimiter=",", header="time,x,y,z", comments="", fmt="%.17g")
        source: Any = open_files(paths)
        return LandmarkDiffusionMap(n_threads=1, **settings).fit(source)


#: How a map can be made, on every metric.
RECIPES: dict[str, Callable[[Data], Any]] = {
    "exact stored": partial(exact, solver="stored"),
    "exact sparse": partial(exact, solver="sparse"),
    "exact streamed": partial(exact, solver="streamed"),
    "exact streamed, 3 coordinates": partial(exact, n_components=3, solver="streamed"),
    "nystrom": landmark,
    "nystrom, 150 landmarks": partial(landmark, n_components=3, n_landmarks=150),
    "nystrom, uniform": partial(landmark, landmarks="uniform", n_landmarks=200),
    "nystrom, farthest": partial(landmark, landmarks="farthest", n_landmarks=200),
    "nystrom, given": lambda data: landmark(data, landmarks=np.arange(0, len(data.X), 4)),
    "pst, adopting": partial(landmark, landmarks="pst"),
    "pst, literal": partial(landmark, landmarks=PrunedSpanningTree(growth="literal")),
    "distilled": partial(landmark, extension="distilled", n_landmarks=60),
    "distilled, given": lambda data: landmark(
        data, 3, extension="distilled", landmarks=np.arange(0, len(data.X), 12)
    ),
    "distilled, uniform": partial(landmark, extension="distilled", landmarks="uniform", n_landmarks=60),
    "tolerance 5": partial(landmark, n_components=2, tolerance=5.0),
    "tolerance 5, nystrom": partial(landmark, n_components=2, tolerance=5.0, extension="nystrom"),
    "tolerance that no map meets": partial(landmark, n_components=2, tolerance=1e-4),
    "blocks": blocks,
    "blocks, uniform": partial(blocks, n_components=3, landmarks="uniform", n_landmarks=200),
    "blocks, farthest": partial(blocks, n_components=3, landmarks="farthest", n_landmarks=200),
    "blocks, given": lambda data: blocks(data, 3, landmarks=np.arange(0, len(data.X), 4)),
    "blocks, pst": partial(blocks, n_components=3, landmarks="pst"),
    "blocks, distilled": partial(blocks, n_components=3, extension="distilled", n_landmarks=60),
    "blocks, tolerance 5": partial(blocks, n_components=2, tolerance=5.0),
    "blocks, weights with zeros": partial(blocks, n_components=3, weighted=True),
}

METRICS: dict[str, Callable[[], Data]] = {
    "euclidean": roll,
    "rmsd": frames,
    "periodic": angles,
    "precomputed": distances,
}

#: Data that are hard in some way, each fitted in the ways of HARD_RECIPES.
HARD: dict[str, Callable[[], Data]] = {
    "roll with 9 outliers": roll_with_outliers,
    "two halves": two_halves,
    "t(2.5)": partial(student, 2.5),
    "t(1.5)": partial(student, 1.5, 1000),
    "Cauchy": partial(student, 1.0, 600),
    "repeated rows": repeated_rows,
    "random walk": random_walk,
}

HARD_RECIPES: dict[str, Callable[[Data], Any]] = {
    "exact": exact,
    "nystrom": landmark,
    "nystrom, uniform": partial(landmark, landmarks="uniform", n_landmarks=200),
    "nystrom, given": lambda data: landmark(data, 3, landmarks=np.arange(0, len(data.X), 4)),
    "nystrom, connected": partial(landmark, n_components=3, epsilon="connected"),
    "nystrom, outliers=0.02": partial(landmark, n_components=3, outliers=0.02),
    "pst": partial(landmark, n_components=3, landmarks="pst"),
    "distilled": partial(landmark, n_components=3, extension="distilled", n_landmarks=60),
    "blocks": partial(blocks, n_components=3),
}

#: Single fits, each for a setting or a size that the tables above leave out.
SINGLE: dict[str, tuple[Callable[[], Data], Callable[[Data], Any]]] = {
    # the default fit of noise of 2,000 points, whose figures the design quotes
    "t(1.5), 2000 points": (partial(student, 1.5), landmark),
    "Cauchy, 2000 points": (partial(student, 1.0), landmark),
    # bandwidths
    "exact, epsilon=4": (roll, partial(exact, epsilon=4.0)),
    "exact, epsilon connected": (roll, partial(exact, epsilon="connected")),
    "exact, epsilon connected, rmsd": (frames, partial(exact, epsilon="connected")),
    "exact, epsilon coifman": (roll, partial(exact, epsilon="coifman")),
    "exact, epsilon too small": (roll, partial(exact, epsilon=0.05)),
    "exact sparse, epsilon too small": (roll, partial(exact, epsilon=0.05, solver="sparse")),
    "exact streamed, epsilon too small": (roll, partial(exact, epsilon=0.05, solver="streamed")),
    "nystrom, epsilon=4": (roll, partial(landmark, epsilon=4.0)),
    "nystrom, epsilon connected": (roll, partial(landmark, epsilon="connected")),
    "nystrom, epsilon connected, rmsd": (frames, partial(landmark, epsilon="connected")),
    "nystrom, epsilon coifman": (roll, partial(landmark, epsilon="coifman")),
    "nystrom, epsilon coifman, periodic": (angles, partial(landmark, epsilon="coifman")),
    "nystrom, epsilon too small": (roll, partial(landmark, epsilon=0.05)),
    "nystrom, epsilon connected, 20 landmarks": (
        roll,
        partial(landmark, n_components=2, epsilon="connected", n_landmarks=20),
    ),
    "nystrom, bulk, 20 landmarks": (roll, partial(landmark, n_components=2, n_landmarks=20)),
    "pst, epsilon too small": (roll, partial(landmark, epsilon=0.05, landmarks="pst")),
    "pst, epsilon=8": (roll, partial(landmark, epsilon=8.0, landmarks="pst")),
    "distilled, epsilon too small": (
        roll,
        partial(landmark, epsilon=0.05, extension="distilled", n_landmarks=60),
    ),
    "tolerance, epsilon too small": (roll, partial(landmark, epsilon=0.05, tolerance=5.0)),
    "tolerance 2, epsilon connected": (
        roll,
        partial(landmark, n_components=2, epsilon="connected", tolerance=2.0),
    ),
    "tolerance 1, 3000 points": (partial(roll, 3000), partial(landmark, n_components=2, tolerance=1.0)),
    "tolerance 5, roll with 9 outliers": (
        roll_with_outliers,
        partial(landmark, n_components=2, tolerance=5.0),
    ),
    "tolerance 5, two halves": (two_halves, partial(landmark, n_components=2, tolerance=5.0)),
    "tolerance 5, t(2.5)": (partial(student, 2.5), partial(landmark, n_components=2, tolerance=5.0)),
    "tolerance 5, random walk": (random_walk, partial(landmark, n_components=2, tolerance=5.0)),
    "tolerance 5, gap": (roll, partial(landmark, tolerance=5.0)),
    "tolerance 5, weights with zeros": (
        roll,
        partial(weighted, LandmarkDiffusionMap, n_components=2, tolerance=5.0),
    ),
    # the other settings of a walk
    "exact, outliers=0.02": (roll, partial(exact, outliers=0.02)),
    "exact, outliers=0.02, connected": (
        roll_with_outliers,
        partial(exact, outliers=0.02, epsilon="connected"),
    ),
    "exact, alpha=0.5": (roll, partial(exact, alpha=0.5)),
    "exact, t=1": (roll, partial(exact, diffusion_time=1.0)),
    "exact, 4 coordinates": (roll, partial(exact, n_components=4)),
    "exact sparse, 3000 points": (partial(roll, 3000), partial(exact, epsilon=0.5, solver="sparse")),
    "exact auto, 3000 points": (partial(roll, 3000), partial(exact, epsilon=0.5)),
    "exact streamed, alpha=1, t=2": (roll, partial(exact, solver="streamed", alpha=1.0, diffusion_time=2.0)),
    "exact, weights with zeros": (roll, partial(weighted, DiffusionMap)),
    "exact streamed, weights with zeros": (roll, partial(weighted, DiffusionMap, solver="streamed")),
    "nystrom, outliers=0.02": (roll, partial(landmark, outliers=0.02)),
    "nystrom, outliers=0.02, connected": (
        roll_with_outliers,
        partial(landmark, outliers=0.02, epsilon="connected"),
    ),
    "nystrom, outliers=0.02, blocks": (roll_with_outliers, partial(blocks, outliers=0.02)),
    "nystrom, alpha=0.5": (roll, partial(landmark, alpha=0.5)),
    "nystrom, t=1": (roll, partial(landmark, diffusion_time=1.0)),
    "nystrom, 4 coordinates": (roll, partial(landmark, n_components=4)),
    "nystrom, calibration=0": (roll, partial(landmark, calibration=0.0)),
    "nystrom, calibration=0.5": (roll, partial(landmark, calibration=0.5)),
    "nystrom, seed 7": (roll, partial(landmark, random_state=7)),
    "nystrom, float32": (
        lambda: Data(roll().X.astype(np.float32), roll().new.astype(np.float32)),
        landmark,
    ),
    "nystrom, weights with zeros": (roll, partial(weighted, LandmarkDiffusionMap)),
    "nystrom, weights with zeros, rmsd": (frames, partial(weighted, LandmarkDiffusionMap)),
    "nystrom, 3000 points": (partial(roll, 3000), landmark),
    "nystrom, as many landmarks as points": (roll, partial(landmark, n_landmarks=1200)),
    "pst, weights with zeros": (roll, partial(weighted, LandmarkDiffusionMap, landmarks="pst")),
    "distilled, weights with zeros": (
        roll,
        partial(weighted, LandmarkDiffusionMap, extension="distilled", n_landmarks=60),
    ),
    "distilled, alpha=0.5, t=1": (
        roll,
        partial(landmark, extension="distilled", n_landmarks=60, alpha=0.5, diffusion_time=1.0),
    ),
    "distilled, default number": (roll, partial(landmark, extension="distilled")),
    # frames in the order of time
    "consecutive frames": (partial(frames, 800, 1), landmark),
    "consecutive frames, exact": (partial(frames, 500, 1), exact),
    "consecutive frames, 3 coordinates, uniform": (
        partial(frames, 800, 1),
        partial(landmark, n_components=3, landmarks="uniform"),
    ),
    "chain": (chain, landmark),
    "two tables with times": (random_walk, partial(tables, in_order=True)),
    "two tables with times, tolerance 5": (
        roll,
        partial(tables, in_order=True, n_components=2, tolerance=5.0),
    ),
    "two tables with times out of order": (roll, partial(tables, in_order=False)),
    # many features, and few points
    "gaussian, 2000 points": (partial(gaussian, 2000), landmark),
    "120 points": (partial(roll, 120), landmark),
    "120 points, exact": (partial(roll, 120), exact),
    "120 points, 30 landmarks": (partial(roll, 120), partial(landmark, n_landmarks=30)),
    "120 points, distilled": (partial(roll, 120), partial(landmark, extension="distilled", n_landmarks=30)),
    "120 points, tolerance": (partial(roll, 120), partial(landmark, n_components=2, tolerance=10.0)),
    "120 points, pst": (partial(roll, 120), partial(landmark, landmarks="pst")),
    "30 points": (partial(roll, 30), landmark),
    "30 points, exact": (partial(roll, 30), exact),
    "30 points, 10 landmarks": (partial(roll, 30), partial(landmark, n_landmarks=10)),
    "30 points, tolerance": (partial(roll, 30), partial(landmark, tolerance=10.0)),
    "30 points, 40 coordinates": (partial(roll, 30), partial(landmark, n_components=40)),
    "3 points": (partial(gaussian, 3), landmark),
    "2 points": (partial(gaussian, 2), landmark),
    "one point many times": (lambda: points(np.ones((50, 3))), landmark),
    "one point many times, exact": (lambda: points(np.ones((50, 3))), exact),
    # another bandwidth from kept distances
    "refit at 4": (roll, partial(refitted, first="bulk", then=4.0)),
    "refit at connected": (roll, partial(refitted, first=4.0, then="connected")),
    "refit at bulk": (roll, partial(refitted, first=4.0, then="bulk")),
    "refit at bulk, roll with 9 outliers": (
        roll_with_outliers,
        partial(refitted, first="connected", then="bulk"),
    ),
    "refit at 0.01, rmsd": (frames, partial(refitted, first="connected", then=0.01, n_components=3)),
}


def all_cases() -> Iterator[Case]:
    """Yield every case, under a name of its own."""
    for group, data, recipes in (("", METRICS, RECIPES), ("hard: ", HARD, HARD_RECIPES)):
        for data_name, make in data.items():
            for recipe_name, recipe in recipes.items():
                yield case_of(f"{group}{data_name}: {recipe_name}", make, recipe)
    for name, (make, recipe) in SINGLE.items():
        yield case_of(f"single: {name}", make, recipe)


def case_of(name: str, make: Callable[[], Data], recipe: Callable[[Data], Any]) -> Case:
    """Return the case of one way to fit one data set, which is made when it is needed."""
    return Case(name, lambda: recipe(make()), lambda: make().new)
