"""Landmarks, the numbers of their online step, and the embedder that both make."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.walk import Walk
from ldmaps.extension.embedder import Embedder, OnlineStep
from ldmaps.fit.solve import SolvedMap
from ldmaps.landmarks import Landmarks
from ldmaps.landmarks.base import assign
from ldmaps.metrics.base import Points

#: Share of the points that were not fitted to that lie inside the domain of a map, at least.
INSIDE_SHARE = 0.995


@dataclass(frozen=True)
class LandmarkFit:
    """Landmarks and the map over them."""

    #: with the cells of where the embedder measures from; their indices are the training points that are the
    #: landmarks, or stand for them where the step has moved them
    landmarks: Landmarks
    step: OnlineStep  # what the extension chose
    embedder: Embedder
    solved: SolvedMap | None  # the landmarks' own eigenproblem, where the extension learns from it
    scale: float = 1.0  # of the coordinates, relative to those that were solved for

    @classmethod
    def of(cls, walk: Walk, landmarks: Landmarks, step: OnlineStep, solved: SolvedMap | None) -> LandmarkFit:
        """Put the parts together; landmarks that the step has moved get the cells of their new places."""
        if step.moved is not None:
            points = step.moved.points
            landmarks = assign(walk, step.moved.representatives, points)
        else:
            points = walk.points.take(landmarks.indices) if solved is None else solved.points
        embedder = Embedder.build(walk.metric, points, walk.epsilon, step, landmarks.squared_radii)
        return cls(landmarks, step, embedder, solved)

    def with_domain_for(self, fitted: NDArray[np.intp], held: NDArray[np.intp]) -> LandmarkFit:
        """Return the fit with cells that reach far enough for new points, as held-out points show.

        Many small cells end at the farthest of the few points that each was fitted to, and many new points lie just
        beyond. All radii grow by one factor, so that a new point is inside with about the same probability however many
        landmarks there are.
        """
        landmarks, epsilon = self.landmarks, self.embedder.epsilon
        cells, squared = landmarks.assignment, np.asarray(landmarks.squared_distances, dtype=np.float64)
        reached = np.full(len(landmarks.indices), epsilon)
        np.maximum.at(reached, cells[fitted], squared[fitted])
        beyond = np.sort(squared[held] / reached[cells[held]])
        # The rank among n + 1 points that a new one has with this probability at most (Vovk, Gammerman & Shafer 2005).
        rank = min(len(held), math.ceil(INSIDE_SHARE * (len(held) + 1)))
        growth = max(1.0, float(beyond[rank - 1]))
        radii = np.maximum(self.embedder.squared_radii, growth * reached)
        return replace(self, embedder=replace(self.embedder, squared_radii=radii))

    def scaled(self, factor: float) -> LandmarkFit:
        """Return the fit with all coordinates times a factor."""
        coefficients = self.embedder.coefficients
        embedder = replace(self.embedder, coefficients=(factor * coefficients).astype(coefficients.dtype))
        return replace(self, embedder=embedder, scale=factor * self.scale)

    def landmark_embedding(self, points: Points, n_threads: int | None) -> NDArray[Any]:
        """Return the coordinates of the points at the landmarks' indices: their own eigenvectors' if there are any."""
        if self.solved is None:
            return self.embedder.extend(points, n_threads).coordinates
        own = self.scale * self.solved.own_coordinates[:, : self.embedder.n_components]
        return own.astype(points.dtype)
