"""A diffusion map that learns on, for River's pipelines: one record in, its coordinates out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from ldmaps.errors import InvalidInputError
from ldmaps.maps.absorbing import absorb
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.settings import is_whole_number
from ldmaps.streaming.reservoir import Reservoir

if TYPE_CHECKING:
    _Base: Any = object
else:
    try:
        from river.base import Transformer as _Base
    except ImportError:  # the two methods are all that River's conventions ask for
        _Base = object

__all__ = ["RiverDiffusionMap"]


class RiverDiffusionMap(_Base):
    """A landmark diffusion map with River's ``transform_one`` and ``learn_one``.

    Records outside the map's domain collect in a bounded reservoir; every
    ``absorb_every`` of them, the map absorbs what is in reach. Memory is bounded by
    ``max_landmarks`` and ``capacity`` whatever the length of the stream.

    Parameters
    ----------
    model : LandmarkDiffusionMap
        Fitted: where to start from. Not fitted: its settings are used to fit the first
        ``warm_up`` records, and n_components must be a number. The extension must be
        "nystrom". Left as it is.
    features : sequence of str, optional
        Keys of a record in the order of the model's columns. By default the names that
        the model was fitted with, or the keys of the first record for one not yet fitted.
    absorb_every : int
        Outside records that are waited for. Fewer learn sooner and solve more often.
    warm_up : int
        Records for the first fit of a model that is not fitted.
    max_landmarks : int
        When so many are reached, nothing more is learned.
    capacity : int
        Most outside records that are kept.
    with_distance : bool
        Whether ``transform_one`` also gives the distance to the nearest landmark, in √ε.
        Beyond the domain coordinates are extrapolated and tell no novelty; the distance does.
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

    Examples
    --------
    >>> from ldmaps import LandmarkDiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> roll = swiss_roll(1000).points
    >>> fitted = LandmarkDiffusionMap(2, epsilon=4.0, n_landmarks=100).fit(roll)
    >>> online = RiverDiffusionMap(fitted, features=["x", "y", "z"])
    >>> sorted(online.transform_one({"x": 5.0, "y": 3.0, "z": 1.0}))
    ['distance', 'psi2', 'psi3']
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
        with_distance: bool = True,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.features = features
        self.absorb_every = absorb_every
        self.warm_up = warm_up
        self.max_landmarks = max_landmarks
        self.capacity = capacity
        self.with_distance = with_distance
        self.seed = seed
        self._check()
        fitted = hasattr(model, "embedder_")
        self.map_: LandmarkDiffusionMap | None = model if fitted else None
        self.n_absorbed_ = 0
        self._names = self._known_names()
        self._reservoir = Reservoir(int(capacity), int(seed))
        self._first: list[NDArray[np.float64]] = []
        self._waiting = 0

    def transform_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return the record's coordinates ``psi2``, ``psi3``, …, and ``distance``; zeros while warming up."""
        point = self._point(x)
        if self.map_ is None:
            count, values, distance = int(self.model.n_components), None, 0.0
        else:
            extended = self.map_.embedder_.extend(self.map_.embedder_.prepare(point[None]), 1)
            count, values = self.map_.n_components_, extended.coordinates[0]
            distance = float(self.map_.embedder_.coverage_of(extended).distance[0])
        named = {f"psi{place + 2}": 0.0 if values is None else float(values[place]) for place in range(count)}
        return named | ({"distance": distance} if self.with_distance else {})

    def learn_one(self, x: Mapping[Any, Any]) -> None:
        """Take note of a record, and let the map grow when enough have come from outside."""
        point = self._point(x)
        if self.map_ is None:
            self._warm_up(point)
            return
        embedder = self.map_.embedder_
        coverage = embedder.coverage_of(embedder.extend(embedder.prepare(point[None]), 1))
        if coverage.inside[0]:
            self._reservoir.count(coverage.nearest)
            return
        self._reservoir.offer(point[None])
        self._waiting += 1
        if self._waiting >= self.absorb_every:
            self._waiting = 0
            self._absorb()

    # -- inside -----------------------------------------------------------------

    def _absorb(self) -> None:
        assert self.map_ is not None
        if self.map_.embedder_.n_landmarks >= self.max_landmarks:
            return
        kept = self._reservoir
        grown = absorb(
            self.map_,
            kept.points,
            kept.weights,
            counts=kept.counts,
            max_landmarks=self.max_landmarks,
            disconnected="leave",
        )
        absorbed = grown.absorption_.absorbed
        if absorbed.any():
            self.map_ = grown
            self.n_absorbed_ += 1
            kept.remove(absorbed)

    def _warm_up(self, point: NDArray[np.float64]) -> None:
        self._first.append(point)
        if len(self._first) >= self.warm_up:
            self.map_ = clone(self.model).fit(np.stack(self._first))
            self._first = []

    def _point(self, x: Mapping[Any, Any]) -> NDArray[np.float64]:
        if self._names is None:
            self._names = tuple(x)
        try:
            point = np.array([x[name] for name in self._names], dtype=np.float64)
        except KeyError as error:
            raise InvalidInputError(
                f"the record has no {error.args[0]!r}; the map needs {', '.join(map(str, self._names))}, "
                f"got {', '.join(map(str, x))}"
            ) from None
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"the record's values must be numbers: {error}") from error
        if not np.isfinite(point).all():
            bad = [name for name, value in zip(self._names, point, strict=True) if not np.isfinite(value)]
            raise InvalidInputError(f"the record's {bad[0]!r} is {x[bad[0]]}; leave such records out")
        return point

    def _known_names(self) -> tuple[Any, ...] | None:
        if self.features is not None:
            names: tuple[Any, ...] | None = tuple(self.features)
        else:
            given = getattr(self.model, "feature_names_in_", None)
            names = None if given is None else tuple(given)
        if self.map_ is None:
            return names
        wanted = self.map_.n_features_in_
        if names is None or len(names) != wanted:
            raise InvalidInputError(
                f"features must name the {wanted} columns that the model was fitted on, in their order, "
                f"got {None if names is None else list(names)}"
            )
        return names

    def _check(self) -> None:
        if not isinstance(self.model, LandmarkDiffusionMap):
            raise InvalidInputError(
                f"model must be a LandmarkDiffusionMap, fitted or not, got {type(self.model).__name__}"
            )
        if self.model.extension_ != "nystrom":
            raise InvalidInputError(
                'a distilled map cannot learn on; use extension="nystrom" and n_landmarks in place of tolerance'
            )
        if not hasattr(self.model, "embedder_") and not is_whole_number(self.model.n_components):
            raise InvalidInputError(
                f"a model that is not fitted yet needs a number of n_components, so that records have the same keys "
                f"from the beginning; got {self.model.n_components!r}"
            )
        for name in ("absorb_every", "warm_up", "max_landmarks"):
            value = getattr(self, name)
            if not is_whole_number(value) or value < 1:
                raise InvalidInputError(f"{name} must be a whole number of at least 1, got {value!r}")
