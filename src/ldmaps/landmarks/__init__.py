"""Choosing landmarks: one file per method, and the table of their names."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ldmaps.errors import InvalidInputError, Named
from ldmaps.landmarks.base import Landmarks, LandmarkSelector, assign
from ldmaps.landmarks.farthest_point import FarthestPoint
from ldmaps.landmarks.fixed import FixedLandmarks
from ldmaps.landmarks.k_medoids import KMedoids
from ldmaps.landmarks.spanning_tree import PrunedSpanningTree
from ldmaps.landmarks.uniform import Uniform

__all__ = [
    "FarthestPoint",
    "FixedLandmarks",
    "KMedoids",
    "LandmarkSelector",
    "Landmarks",
    "PrunedSpanningTree",
    "Uniform",
    "assign",
]

SELECTORS: dict[str, type[LandmarkSelector]] = {
    selector.name: selector for selector in (PrunedSpanningTree, KMedoids, Uniform, FarthestPoint)
}


def resolve_selector(landmarks: Any, n_landmarks: int | None, default_count: int) -> LandmarkSelector:
    """Return the selector meant by ``landmarks``: a name, a selector, of which a copy is returned, or indices.

    The estimator's ``n_landmarks`` must not contradict the selector's own; ``default_count`` holds without either.
    """
    if isinstance(landmarks, str):
        if landmarks not in SELECTORS:
            names = ", ".join(f'"{name}"' for name in SELECTORS)
            raise InvalidInputError(
                Named("landmarks", landmarks), f" is not known; use {names}, a selector or an index array"
            )
        selector = SELECTORS[landmarks]()
    elif isinstance(landmarks, LandmarkSelector):
        selector = copy.copy(landmarks)
    elif isinstance(landmarks, (np.ndarray, list, tuple, range)):
        selector = FixedLandmarks(np.asarray(landmarks))
    else:
        raise InvalidInputError(
            Named("landmarks"),
            f" must be a name, a selector or an array of indices, got {type(landmarks).__name__}",
        )
    if selector.is_automatic:
        if n_landmarks is not None:
            raise InvalidInputError(
                f"{selector!r} fixes the number of landmarks itself, so ",
                Named("n_landmarks", n_landmarks),
                " cannot be met; leave it out, or use ",
                Named("landmarks", "kmedoids"),
            )
        return selector
    if selector.n_landmarks is None:
        selector.n_landmarks = default_count if n_landmarks is None else n_landmarks
    elif n_landmarks is not None and n_landmarks != selector.n_landmarks:
        raise InvalidInputError(
            Named("n_landmarks", n_landmarks), f" contradicts {selector!r}; set it in one place"
        )
    return selector
