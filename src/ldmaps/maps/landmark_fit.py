"""The two steps that all landmark fits share: choosing landmarks, and the map over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.walk import Walk
from ldmaps.extension import Embedder, OnlineStep
from ldmaps.landmarks import Given, Landmarks, LandmarkSelector
from ldmaps.landmarks.base import assign
from ldmaps.landmarks.grouping import group_neighbours
from ldmaps.maps.solved_map import SolvedMap
from ldmaps.progress import stage

__all__ = ["LandmarkFit", "select_landmarks"]


def select_landmarks(
    selector: LandmarkSelector, walk: Walk, rng: np.random.Generator
) -> tuple[Landmarks, NDArray[Any] | None]:
    """Choose landmarks, neighbours side by side; return them and, if that took them, the d² between them."""
    with stage("landmarks", unit="rows"):
        landmarks = selector.select(walk, rng)
        # The user's order is the user's, and all points stay as they came.
        if isinstance(selector, Given) or len(landmarks.indices) == len(walk.points):
            return landmarks, None
        return group_neighbours(landmarks, walk)


@dataclass(frozen=True)
class LandmarkFit:
    """Landmarks and the map over them.

    Attributes
    ----------
    landmarks : Landmarks
        With the cells of where the embedder measures from; their indices are the training
        points that are the landmarks, or stand for them where the step has moved them.
    step : OnlineStep
        What the extension chose.
    embedder : Embedder
    solved : SolvedMap or None
        The landmarks' own eigenproblem, where the extension learns from it.
    """

    landmarks: Landmarks
    step: OnlineStep
    embedder: Embedder
    solved: SolvedMap | None

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

    def landmark_embedding(self, extended: NDArray[Any]) -> NDArray[Any]:
        """Return the landmarks' coordinates: from their own eigenvectors where there are any, else as extended."""
        if self.solved is None:
            return extended
        own = self.solved.own_coordinates[:, : self.embedder.n_components]
        return own.astype(extended.dtype)
