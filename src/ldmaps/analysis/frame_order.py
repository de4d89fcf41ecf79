"""Frames in order along a coordinate, each near its neighbours: a path through the data.

The coordinate's range is cut into n intervals of equal width. One frame is taken from each interval that has some, so
values rise, and of all ways to take them from the candidates the one with the least sum of squared distances between
neighbours is found by dynamic programming:

    cost(x in interval i) = min over y in interval i−1 of cost(y) + d²(x, y)

Candidates are first a sample of each interval, then the frames nearest to the neighbours on the path so found.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.embedded_rows import place_of
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.frame_blocks import block_of
from ldmaps.inputs.frame_writer import open_frame_writer
from ldmaps.inputs.source import FrameChunk, PointSource, joined_chunks
from ldmaps.inputs.trajectory_files import TrajectoryFiles
from ldmaps.maps.embed_chunks import embed_chunks
from ldmaps.metrics.base import squared_matrix
from ldmaps.progress import is_shown, stage
from ldmaps.settings import check_whole

#: Most candidates per interval, and most bytes of all of them.
MOST_CANDIDATES, MOST_BYTES = 100, 256 << 20
#: Times that candidates are sought near the path before.
N_ROUNDS = 2


@dataclass(frozen=True)
class FramesAlong:
    """Frames in order along a coordinate; made by :func:`frames_along`.

    Attributes
    ----------
    coordinate : str
        Its name.
    values : ndarray of shape (n,)
        The coordinate at each frame; they rise.
    steps : ndarray of shape (n - 1,)
        Distance of each frame from the one before, by the map's metric and in its unit.
    files : tuple of str
        Paths of the trajectory files; empty for an array.
    file_of, numbers : ndarray of int, shape (n,)
        Which file each frame is of, and which frame of it, counted from 0; the row of an array.
    n_empty : int
        Intervals of the coordinate that hold no frame inside the map.
    """

    coordinate: str
    values: NDArray[np.float64]
    steps: NDArray[np.float64]
    files: tuple[str, ...]
    file_of: NDArray[np.int64]
    numbers: NDArray[np.int64]
    n_empty: int
    _source: TrajectoryFiles | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        """The value of each frame, as text."""
        return tuple(f"{self.coordinate} = {value:.6g}" for value in self.values)

    def summary(self, unit: str | None = None) -> list[str]:
        """Return what was found, in words; ``unit`` is that of distances."""
        count, gap = len(self.values), int(np.argmax(self.steps)) if len(self.steps) else 0
        lines = [f"{self.coordinate} from {self.values[0]:.4g} to {self.values[-1]:.4g}"]
        if count > 1:
            of_unit = f" {unit}" if unit else ""
            lines.append(
                f"neighbours are {np.median(self.steps):.3g}{of_unit} apart (median), at most "
                f"{self.steps[gap]:.3g}{of_unit}: frames {gap + 1} and {gap + 2}"
            )
        if self.n_empty:
            lines.append(
                f"{self.n_empty} of {count + self.n_empty} intervals of {self.coordinate} hold no frame inside the "
                "map, so there are fewer frames"
            )
        return lines

    def write(self, path: str, *, atoms: str | None = None) -> NDArray[np.float64] | None:
        """Write the frames in their order to an XTC, TRR, DCD or PDB file, each superposed on the one before.

        Molecules are made whole as they were for the map, and superposed by the map's atoms. No box is written: it
        would turn with the frames.

        Parameters
        ----------
        path : str
            An existing file is replaced, completely or not at all.
        atoms : str, optional
            Atoms to write, in mdtraj's selection language; by default the molecules that the map's atoms are of.

        Returns
        -------
        ndarray of shape (n,) or None
            Times of the frames in ps, where the files have them.
        """
        source = self._source
        if source is None:
            raise InvalidInputError(
                "only frames of trajectory files can be written, and these are not; open the files with "
                "ldmaps.inputs.open_files, or take the rows that numbers gives from your array"
            )
        wanted = source.atoms_of_molecules() if atoms is None else source.atoms_selected_by(atoms)
        fitted = source.selected_atoms
        needed = np.union1d(wanted, fitted)
        frames, times = self._read(source.of_atoms(needed))
        turned = superposed_in_turn(frames, np.searchsorted(needed, fitted))
        kept = turned[:, np.searchsorted(needed, wanted)]
        with open_frame_writer(path, source.of_atoms(wanted).topology()) as writer:
            writer.write(block_of(kept, times), np.arange(len(kept), dtype=np.int64))
            writer.remarks += self.rows(times)
        return times

    def rows(self, times: NDArray[np.float64] | None = None) -> list[str]:
        """Return a line per frame: its value, where it is from, and its time if ``times``, in ps, are given."""
        lines = []
        for row, (place, number) in enumerate(zip(self.file_of, self.numbers, strict=True)):
            time = "" if times is None else f" ({times[row]:.10g} ps)"
            file = f" of {self.files[place]}" if self.files else ""
            lines.append(f"{row + 1}: {self.labels[row]}, frame {number}{file}{time}")
        return lines

    def _read(self, source: TrajectoryFiles) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return the frames in their order, whole, and their times if all have one."""
        frames = np.empty((len(self.numbers), *source.shape))
        times = np.full(len(self.numbers), np.nan)
        for place, file in enumerate(self.files):
            rows = np.flatnonzero(self.file_of == place)
            rows = rows[np.argsort(self.numbers[rows])]
            for chunk in source.chunks_at(file, self.numbers[rows]):
                these = rows[np.searchsorted(self.numbers[rows], chunk.numbers)]
                frames[these] = chunk.frames
                if chunk.times is not None:
                    times[these] = chunk.times
        return frames, times if np.isfinite(times).all() else None


@dataclass(frozen=True)
class _Rows:
    """What is known of every point: its value, and where it is from."""

    values: NDArray[np.float64]
    is_eligible: NDArray[np.bool_]
    file_of: NDArray[np.int64]
    numbers: NDArray[np.int64]
    weights: NDArray[np.float64]


def frames_along(
    model: Any,
    X: Any,
    coordinate: int | str = 0,
    n_frames: int = 40,
    *,
    sample_weight: ArrayLike | None = None,
) -> FramesAlong:
    """Return real frames in order along a coordinate of a map, each near its neighbours.

    Parameters
    ----------
    model : LandmarkDiffusionMap, DiffusionMap or FunctionMap
        A fitted map; a map of distances that are given as numbers has none between frames.
    X : array-like of shape (n, features), or (n, atoms, 3) for frames
        Where to take frames from; trajectories and tables as for ``model.transform``. Files are read several times.
    coordinate : int or str
        Its name, such as "psi2", "slow1" or "q", or its place from 0.
    n_frames : int
        Into how many intervals the coordinate's range is cut. There are fewer frames where intervals are empty.
    sample_weight : array-like of shape (n,), optional
        Candidates are drawn in proportion to it; frames of weight 0 are left out. By default the weights that files
        were opened with.

    Returns
    -------
    FramesAlong
        With ``values`` that rise, and ``write``.

    Examples
    --------
    >>> import ldmaps
    >>> from ldmaps.analysis import frames_along
    >>> from ldmaps.datasets import swiss_roll
    >>> roll = swiss_roll(2000).points
    >>> model = ldmaps.LandmarkDiffusionMap(n_components=2, epsilon=4.0, n_landmarks=200).fit(roll)
    >>> path = frames_along(model, roll, "psi2", 30)
    >>> bool((path.values[1:] > path.values[:-1]).all())
    True
    """
    place = place_of(coordinate, model.coordinate_names_)
    check_whole("n_frames", n_frames, 2)
    metric = model.metric_
    if metric.takes_distances:
        raise InvalidInputError(
            "the map was fitted on distances, so that those between frames are not known; fit it on the points "
            "themselves to order frames along a coordinate"
        )
    points = model.checked_points(X)
    rows = _all_rows(model, points, place, sample_weight)
    layers = _layers(rows, n_frames, model.coordinate_names_[place])
    per_layer = _n_candidates(points, n_frames)
    candidates = [_drawn(rows.weights, layer, per_layer) for layer in layers]
    path, steps = _shortest(model, points, candidates)
    for _ in range(N_ROUNDS if len(layers) > 1 else 0):
        nearer = _near_path(model, points, path, layers, per_layer)
        path, steps = _shortest(model, points, nearer)
    files = points.files if isinstance(points, PointSource) else ()
    return FramesAlong(
        model.coordinate_names_[place],
        rows.values[path],
        steps,
        files,
        rows.file_of[path],
        rows.numbers[path],
        n_frames - len(layers),
        points if isinstance(points, TrajectoryFiles) else None,
    )


# -- the points ---------------------------------------------------------------


def _chunks(points: PointSource | NDArray[Any]) -> PointSource | list[FrameChunk]:
    """Return points in chunks."""
    if isinstance(points, PointSource):
        return points
    return [FrameChunk(points, np.arange(len(points)), None, "")]


def _all_rows(
    model: Any, points: PointSource | NDArray[Any], place: int, sample_weight: ArrayLike | None
) -> _Rows:
    """Embed all points and return what is known of each."""
    source = points if isinstance(points, PointSource) else None
    values, inside = [], []
    origins: list[FrameChunk] = []
    with stage("embedding", source.n_frames if source is not None and is_shown() else None, _item(points)):
        for chunk, projected in embed_chunks(model.embedder_, _chunks(points), model.n_threads):
            values.append(projected.coordinates[:, place].astype(np.float64))
            inside.append(projected.coverage.inside)
            of = 0 if source is None or not source.files else source.files.index(chunk.file)
            nothing = np.empty((len(chunk), 0))
            origins.append(replace(chunk, frames=nothing, files=np.full(len(chunk), of, np.int32)))
    if not values:
        raise InvalidInputError("there are no frames to take; check start, stop and the files")
    files = np.concatenate([origin.files for origin in origins if origin.files is not None])
    origin = replace(joined_chunks(origins), files=files)
    if sample_weight is None and source is not None and source.weights is not None:
        weights = source.weights.of(origin, source.files)
    else:
        weights = np.ones(len(origin)) if sample_weight is None else np.asarray(sample_weight, np.float64)
    if weights.shape != (len(origin),) or not np.isfinite(weights).all() or (weights < 0).any():
        raise InvalidInputError(
            f"sample_weight must be one finite number of 0 or more for each of {len(origin):,} {_item(points)}, got "
            f"shape {weights.shape}"
        )
    eligible = np.concatenate(inside) & (weights > 0)
    if not eligible.any():
        raise InvalidInputError(
            f"none of the {len(origin):,} {_item(points)} has a weight and is inside the map; check atoms and units, "
            "and what ldmaps embed writes of them"
        )
    return _Rows(np.concatenate(values), eligible, files.astype(np.int64), origin.numbers, weights)


def _item(points: PointSource | NDArray[Any]) -> str:
    """Return what points are called."""
    return points.item if isinstance(points, PointSource) else "rows"


def _taken(points: PointSource | NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
    """Return points by their rows over all files, which ascend."""
    if not isinstance(points, PointSource):
        return np.asarray(points[rows])
    parts, first = [], 0
    for chunk in points:
        wanted = rows[(rows >= first) & (rows < first + len(chunk))] - first
        if len(wanted):
            parts.append(np.array(chunk.frames[wanted]))
        first += len(chunk)
    return np.concatenate(parts)


# -- intervals and candidates -------------------------------------------------


def _layers(rows: _Rows, n_frames: int, name: str) -> list[NDArray[np.intp]]:
    """Return the eligible rows of each interval that has some, in the order of the coordinate."""
    eligible = np.flatnonzero(rows.is_eligible)
    values = rows.values[eligible]
    low, high = values.min(), values.max()
    if not low < high:
        raise InvalidInputError(
            f"{name} is {low:.4g} at all frames inside the map, so they have no order; choose another coordinate"
        )
    interval = np.minimum(((values - low) / (high - low) * n_frames).astype(np.intp), n_frames - 1)
    order = np.argsort(interval, kind="stable")
    borders = np.flatnonzero(np.diff(interval[order])) + 1
    return np.split(eligible[order], borders)


def _n_candidates(points: PointSource | NDArray[Any], n_frames: int) -> int:
    """Return how many candidates an interval may have."""
    shape = points.shape if isinstance(points, PointSource) else points.shape[1:]
    return int(np.clip(MOST_BYTES // (8 * n_frames * int(np.prod(shape))), 8, MOST_CANDIDATES))


def _drawn(weights: NDArray[np.float64], layer: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Return rows of an interval evenly spread over its weight."""
    if len(layer) <= most:
        return layer
    above = np.cumsum(weights[layer])
    places = np.searchsorted(above, (np.arange(most) + 0.5) / most * above[-1])
    found: NDArray[np.intp] = layer[np.unique(np.minimum(places, len(layer) - 1))]
    return found


def _near_path(
    model: Any,
    points: PointSource | NDArray[Any],
    path: NDArray[np.intp],
    layers: list[NDArray[np.intp]],
    most: int,
) -> list[NDArray[np.intp]]:
    """Return the rows of each interval nearest to the path's frames in the intervals beside it."""
    metric = model.metric_
    order = np.argsort(path)
    on_path = metric.prepare(_taken(points, path[order])[np.argsort(order)])
    n_rows = 1 + max(int(layer.max()) for layer in layers)
    layer_of = np.full(n_rows, -1)
    for number, layer in enumerate(layers):
        layer_of[layer] = number
    far, first = np.full(n_rows, np.inf), 0
    with stage("searching near the path", None, _item(points)):
        for chunk in _chunks(points):
            mine = layer_of[first : first + len(chunk)]
            chosen = np.flatnonzero(mine >= 0)
            if len(chosen):
                squared = squared_matrix(
                    metric, metric.prepare(chunk.frames[chosen], on_path.dtype), on_path, model.n_threads
                )
                before, after = np.maximum(mine[chosen] - 1, 0), np.minimum(mine[chosen] + 1, len(path) - 1)
                here = np.arange(len(chosen))
                sums = squared[here, before].astype(np.float64) + squared[here, after]
                # An end has one neighbour.
                is_end = (mine[chosen] == 0) | (mine[chosen] == len(path) - 1)
                far[first + chosen] = np.where(is_end, sums - squared[here, mine[chosen]], sums)
            first += len(chunk)
    found = []
    for number, layer in enumerate(layers):
        nearest = layer[np.argsort(far[layer], kind="stable")[: most - 1]]
        found.append(np.union1d(nearest, path[number]))  # the path itself stays, so that none is worse
    return found


# -- the path -----------------------------------------------------------------


def _shortest(
    model: Any, points: PointSource | NDArray[Any], candidates: list[NDArray[np.intp]]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return a row of each list with the least sum of d² between neighbours, and the distances."""
    rows = np.unique(np.concatenate(candidates))
    prepared = model.metric_.prepare(_taken(points, rows))
    layers = [prepared.take(np.searchsorted(rows, layer)) for layer in candidates]
    cost, came_from, between = np.zeros(len(candidates[0])), [], []
    for left, right in itertools.pairwise(layers):
        squared = squared_matrix(model.metric_, left, right, model.n_threads).astype(np.float64)
        reached = cost[:, None] + squared
        came_from.append(reached.argmin(axis=0))
        between.append(squared)
        cost = reached.min(axis=0)
    places = [int(cost.argmin())]
    for back in reversed(came_from):
        places.append(int(back[places[-1]]))
    places.reverse()
    pairs = zip(between, places[:-1], places[1:], strict=True)
    steps = np.sqrt([squared[before, after] for squared, before, after in pairs])
    path = np.array([layer[at] for layer, at in zip(candidates, places, strict=True)], dtype=np.intp)
    return path, steps


def superposed_in_turn(frames: NDArray[np.float64], atoms: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return frames each turned and moved onto the one before by some of their atoms (Kabsch)."""
    turned = np.array(frames, dtype=np.float64)
    for row in range(1, len(turned)):
        target = turned[row - 1, atoms]
        mine = turned[row, atoms]
        to, origin = target.mean(axis=0), mine.mean(axis=0)
        u, _, vt = np.linalg.svd((mine - origin).T @ (target - to))
        u[:, 2] *= np.sign(np.linalg.det(u @ vt))  # no reflection
        turned[row] = (turned[row] - origin) @ (u @ vt) + to
    return turned
