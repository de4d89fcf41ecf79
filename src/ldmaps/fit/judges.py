"""Points at which maps are compared with their reference: members of its walk, and strays among them.

The reference has seen the held-out points, as it should: its extension to any place is what a landmark map stands for.
Points that were left out as isolated judge too, as often as they come: no promise to new points may select among them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ldmaps.extension import Embedder
from ldmaps.fit.confidence_bound import HeldOutErrors
from ldmaps.fit.hold_out import Strays, independent_block
from ldmaps.fit.solve import SolvedMap
from ldmaps.validation.fidelity import point_errors


@dataclass(frozen=True)
class Judges:
    """Some points, in the order of rows, and where the reference has them."""

    reference: SolvedMap
    members: NDArray[np.intp]
    strays: Strays | None
    block: int  # how many consecutive members were held out together

    @classmethod
    def of(cls, reference: SolvedMap, members: NDArray[np.intp], strays: Strays | None, block: int) -> Judges:
        """Return these members and those of the strays that follow one of them."""
        return cls(reference, members, None if strays is None else strays.among(members), block)

    def __len__(self) -> int:
        return len(self.weights)

    def squares(self, embedder: Embedder, *, is_matched: bool) -> NDArray[np.float64]:
        """Return ζ² in percent²; ``is_matched`` says that the map has the reference's order and signs of columns."""
        walk = self.reference.walk
        embedded = embedder.extend(walk.points.take(self.members), walk.n_threads).coordinates
        if self.strays is not None:
            extended = embedder.extend(self.strays.points, walk.n_threads)
            embedded = np.concatenate([embedded, extended.coordinates])
        ranges = np.ptp(self.reference.own_coordinates, axis=0)
        return np.asarray(
            point_errors(self._targets, embedded[self._order], ranges=ranges, matched=is_matched) ** 2
        )

    def independent_block(self, squares: NDArray[np.float64]) -> int | None:
        """Return how many consecutive ones of these squares make a block; None if there are too few such blocks."""
        return independent_block(self.weights / self.weights.mean() * squares, self.block)

    def errors(self, squares: NDArray[np.float64], block: int) -> HeldOutErrors:
        """Return these squares in blocks of so many consecutive ones."""
        return HeldOutErrors(squares, self.weights, np.arange(len(squares)) // block)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """How much each point counts."""
        weights = self.reference.walk.weights[self.members]
        if self.strays is not None:
            weights = np.concatenate([weights, self.strays.weights])
        return np.asarray(weights[self._order])

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        if self.strays is None:
            return np.arange(len(self.members))
        # Stable: a stray comes after the member that it follows.
        return np.argsort(np.concatenate([self.members, self.strays.after]), kind="stable")

    @cached_property
    def _targets(self) -> NDArray[np.float64]:
        targets = self.reference.coordinates(self.members)
        if self.strays is not None:
            walk = self.reference.walk
            extended = self.reference.embedder().extend(self.strays.points, walk.n_threads)
            targets = np.concatenate([targets, extended.coordinates])
        return np.asarray(targets[self._order])
