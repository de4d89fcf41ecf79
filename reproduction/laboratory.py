"""Where pieces are named, made and kept, and what they share: data, folds, bandwidths, exact maps.

    data set ──► 5 folds ──► exact map (once a fold and ε; the expensive part)
                   │              │
                   └► landmarks ──┴──► errors ζ, Z  ·  embeddings  ·  parity  ·  timings

How a kind of piece is computed stands in the file of what it is: ``exact_maps``,
``landmark_maps``, or the figure that alone needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduction.data_sets import DataSet, load_data
from reproduction.pieces import Arrays, Piece, Store
from reproduction.plan import CONNECTED, DataPlan, Plan, Width

__all__ = ["Laboratory", "Maker", "Method"]


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


class Laboratory:
    """Makes pieces, each at most once.

    Parameters
    ----------
    plan : Plan
    store : Store
    makers : mapping
        How each kind of piece is computed.
    n_threads : int or None
        For everything but timings, which run on one.
    """

    def __init__(
        self, plan: Plan, store: Store, makers: Mapping[str, Maker], n_threads: int | None = None
    ) -> None:
        self.plan = plan
        self.store = store
        self.makers = dict(makers)
        self.n_threads = n_threads

    def get(self, piece: Piece) -> Arrays:
        """Return a piece, from the store or fresh."""
        return self.store.get(piece, lambda missing: self.makers[missing.kind](self, missing))

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
        return self._exact_beside(self.piece("exact", data, fold, variant), width.key)

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

    def _beside(self, piece: Piece, kind: str, **settings: Any) -> Piece:
        """Name another piece of the same fold."""
        same = {name: piece[name] for name in ("data", "n_points", "stride", "variant", "fold")}
        return Piece.of(kind, **same, **settings)

    def _exact_beside(self, piece: Piece, width_key: str) -> Piece:
        """Name an exact map of the same fold: with many modes where Figure 4 needs them, else the coordinates."""
        plan = self.plan.of(piece["data"])
        usual = piece["variant"] in ("", "masses")
        expanded = piece["fold"] == 0 and width_key == CONNECTED.key and usual
        n_modes = plan.n_modes if expanded else plan.n_components
        return self._beside(piece, "exact", width=width_key, n_modes=n_modes)

    def _landmarks_beside(self, piece: Piece, method: Method) -> Piece:
        """Name the landmarks of a method; medoids do not depend on ε, trees do."""
        if not method.selector.startswith("kmedoids"):
            return self._beside(piece, "landmarks", selector=method.selector, m=None, width=piece["width"])
        count = method.m
        if isinstance(count, str):
            count = len(self.landmarks_of(piece, Method(count)))
        return self._beside(piece, "landmarks", selector=method.selector, m=count, width="any")

    # -- what pieces are made of --------------------------------------------------

    def data(self, piece: Piece) -> DataSet:
        """Return the points a piece is about."""
        return load_data(piece["data"], piece["variant"], piece["n_points"], piece["stride"], self.plan.seed)

    def split(self, piece: Piece) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return indices of training and test points, each in rising order."""
        parts = np.array_split(self.data(piece).order, 5)
        test = parts.pop(piece["fold"])
        return np.sort(np.concatenate(parts)), np.sort(test)

    def n_components(self, piece: Piece) -> int:
        """Return k."""
        return self.plan.of(piece["data"]).n_components

    def width(self, piece: Piece) -> Width:
        """Return the bandwidth as it was asked for."""
        return next(width for width in self.plan.of(piece["data"]).widths if width.key == piece["width"])

    def epsilon(self, piece: Piece) -> float:
        """Return the bandwidth as a number."""
        width = self.width(piece)
        if width.value is not None:
            return width.value
        connected = self.get(self._exact_beside(piece, CONNECTED.key))
        return float(connected["epsilon"]) * width.factor

    def exact_of(self, piece: Piece) -> Arrays:
        """Return the exact map that a piece is judged by."""
        return self.get(self._exact_beside(piece, piece["width"]))

    def landmarks_of(self, piece: Piece, method: Method) -> NDArray[np.intp]:
        """Return which training points a method takes as landmarks."""
        return self.get(self._landmarks_beside(piece, method))["indices"]

    def rng(self, piece: Piece) -> np.random.Generator:
        """Return the generator of everything random in a fold."""
        return np.random.default_rng([self.plan.seed, piece["fold"]])


#: Computes one kind of piece.
Maker = Callable[[Laboratory, Piece], Arrays]
