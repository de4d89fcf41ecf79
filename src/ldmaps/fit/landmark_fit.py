"""Landmarks, the numbers of their online step, and the embedder that both make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ldmaps.diffusion.walk import Walk
from ldmaps.extension.embedder import Embedder, OnlineStep
from ldmaps.fit.solve import SolvedMap
from ldmaps.landmarks import Landmarks
from ldmaps.landmarks.base import assign
from ldmaps.metrics.base import Points


@dataclass(frozen=True)
class LandmarkFit:
    """Landmarks and the map over them."""

    #: with the cells of where the embedder measures from; their indices are the training points that are the
    #: landmarks, or stand for them where the step has moved them
    landmarks: Landmarks
    step: OnlineStep  # what the extension chose
    embedder: Embedder
    solved: SolvedMap | None  # the landmarks' own eigenproblem, where the extension learns from it

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

    def landmark_embedding(self, points: Points, n_threads: int | None) -> NDArray[Any]:
        """Return the coordinates of the points at the landmarks' indices: their own eigenvectors' if there are any."""
        if self.solved is None:
            return self.embedder.extend(points, n_threads).coordinates
        own = self.solved.own_coordinates[:, : self.embedder.n_components]
        return own.astype(points.dtype)
