"""A map that learns on in River's pipelines: one record in, its coordinates out.

`RiverDiffusionMap` has River's two methods. Records outside the map's domain collect in a
bounded reservoir; every so many of them, the map absorbs what is in reach. The stream
below runs round a cycle, which the map learns first; then the cycle gets a branch. Its
first records are far from the map, the later ones no more: by then they are part of it.

    pip install . river
    python examples/river_adapter.py
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from river import preprocessing
from river.base import Transformer
from sklearn.base import clone

from ldmaps import LandmarkDiffusionMap
from ldmaps.absorbing import absorb
from ldmaps.errors import InvalidInputError
from ldmaps.extension import Coverage
from ldmaps.streaming import Reservoir

NAMES = ("x", "y", "z")
CYCLE, BRANCH = 2000, 200  # records of the stream


class RiverDiffusionMap(Transformer):
    """A landmark diffusion map with River's ``transform_one`` and ``learn_one``.

    Memory is bounded by ``max_landmarks`` and ``capacity``, whatever the length of the stream.

    Parameters
    ----------
    model : LandmarkDiffusionMap
        Fitted: where to start from. Not fitted: its settings are used to fit the first
        ``warm_up`` records, and n_components must be a number. The extension must be
        "nystrom". Left as it is.
    features : sequence of str, optional
        Keys of a record in the order of the model's columns. By default the names that
        the model was fitted with, or the keys of the first record.
    absorb_every : int
        Outside records that are waited for. Fewer learn sooner and solve more often.
    warm_up : int
        Records for the first fit of a model that is not fitted.
    max_landmarks : int
        When so many are reached, nothing more is learned.
    capacity : int
        Most outside records that are kept.
    seed : int
        Seeds the reservoir.

    Attributes
    ----------
    map_ : LandmarkDiffusionMap or None
        The map as it is now; None while warming up.
    n_absorbed_ : int
        How often it absorbed anything.

    Notes
    -----
    What is absorbed is normal from then on: a fault that lasts for ``absorb_every``
    records, and is within the walk's reach, becomes part of the map.
    """

    def __init__(
        self,
        model: LandmarkDiffusionMap,
        *,
        features: Sequence[str] | None = None,
        absorb_every: int = 100,
        warm_up: int = 500,
        max_landmarks: int = 2000,
        capacity: int = 1000,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.features = features
        self.absorb_every = absorb_every
        self.warm_up = warm_up
        self.max_landmarks = max_landmarks
        self.capacity = capacity
        self.seed = seed
        self.map_ = model if hasattr(model, "embedder_") else None
        self.n_absorbed_ = 0
        names = features if features is not None else getattr(model, "feature_names_in_", None)
        self._names = None if names is None else tuple(names)
        self._reservoir = Reservoir(capacity, seed)
        self._first: list[NDArray[np.float64]] = []
        self._waiting = 0

    def transform_one(self, x: Mapping[Any, Any]) -> dict[str, float]:
        """Return the record's coordinates ``psi2``, ``psi3``, …, and ``distance``; zeros while warming up.

        Beyond the domain coordinates are extrapolated and tell no novelty; the distance
        to the nearest landmark, in √ε, does.
        """
        point = self._point(x)
        if self.map_ is None:
            psi, distance = [0.0] * self.model.n_components, 0.0
        else:
            coordinates, coverage = _placed(self.map_, point)
            psi, distance = coordinates[0].tolist(), float(coverage.distance[0])
        return {f"psi{place}": value for place, value in enumerate(psi, 2)} | {"distance": distance}

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Take note of a record, and let the map grow when enough have come from outside."""
        point = self._point(x)
        if self.map_ is None:
            self._first.append(point)
            if len(self._first) >= self.warm_up:
                self.map_ = clone(self.model).fit(np.concatenate(self._first))
                self._first = []
            return
        _, coverage = _placed(self.map_, point)
        if coverage.inside[0]:
            self._reservoir.count(coverage.nearest)
            return
        self._reservoir.offer(point)
        self._waiting += 1
        if self._waiting >= self.absorb_every:
            self._waiting = 0
            self._absorb()

    def _absorb(self) -> None:
        assert self.map_ is not None
        if len(self.map_.multiplicities_) >= self.max_landmarks:
            return
        reservoir = self._reservoir
        grown = absorb(
            self.map_,
            reservoir.points,
            reservoir.weights,
            counts=reservoir.counts,
            max_landmarks=self.max_landmarks,
            disconnected="leave",
        )
        absorbed = grown.absorption_.absorbed
        if absorbed.any():
            self.map_ = grown
            self.n_absorbed_ += 1
            reservoir.remove(absorbed)

    def _point(self, x: Mapping[Any, Any]) -> NDArray[np.float64]:
        if self._names is None:
            self._names = tuple(x)
        try:
            return np.array([[float(x[name]) for name in self._names]])
        except KeyError as error:
            raise InvalidInputError(
                f"the record has no {error.args[0]!r}; the map needs {', '.join(map(str, self._names))}, "
                f"got {', '.join(map(str, x))}"
            ) from None


def _placed(model: LandmarkDiffusionMap, point: NDArray[np.float64]) -> tuple[NDArray[Any], Coverage]:
    """Return coordinates and coverage of a point, in one go and without scikit-learn's checks of names."""
    embedder = model.embedder_
    extended = embedder.extend(embedder.prepare(point), 1)
    return extended.coordinates, embedder.coverage_of(extended)


# -- a stream with something new ----------------------------------------------------


class Outcome(NamedTuple):
    """Share of records farther than √ε from every landmark, by where in the stream; and the map in the end."""

    cycle: float
    first_of_branch: float
    last_of_branch: float
    online: RiverDiffusionMap


def points(seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a noisy cycle, and a branch of it that comes later."""
    rng = np.random.default_rng(seed)
    angle = rng.random(CYCLE + BRANCH) * 2 * np.pi
    cycle = np.column_stack([np.cos(angle), np.sin(angle), np.cos(2 * angle)])
    cycle += rng.normal(0, 0.03, cycle.shape)
    return cycle[:CYCLE], cycle[CYCLE:] * [1.6, 1.6, 1.0]


def run(seed: int = 0) -> Outcome:
    """Let a pipeline place and learn the whole stream."""
    online = RiverDiffusionMap(
        LandmarkDiffusionMap(2, epsilon=0.1, n_landmarks=60), warm_up=400, absorb_every=30
    )
    pipeline = preprocessing.StandardScaler() | online
    novel = []
    for point in np.concatenate(points(seed)).tolist():
        record = dict(zip(NAMES, point, strict=True))
        novel.append(pipeline.transform_one(record)["distance"] > 1)
        pipeline.learn_one(record)
    shares = (
        np.mean(novel[rows]) for rows in (slice(400, CYCLE), slice(CYCLE, CYCLE + 30), slice(-30, None))
    )
    return Outcome(*map(float, shares), online)


def main(arguments: list[str] | None = None) -> Outcome:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="another seed is another stream")
    outcome = run(parser.parse_args(arguments).seed)
    print(
        f"{CYCLE} records of a cycle, then {BRANCH} of a branch; absorbed {outcome.online.n_absorbed_} times\n"
        f"farther than sqrt(epsilon) from the map: {outcome.cycle:.1%} of the cycle, "
        f"{outcome.first_of_branch:.0%} of the branch's first 30 records, {outcome.last_of_branch:.0%} of its last 30"
    )
    return outcome


if __name__ == "__main__":
    main()
