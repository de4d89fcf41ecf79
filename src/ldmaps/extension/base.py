"""The Extension seam: how points between landmarks get coordinates.

    solved map (the teacher), landmarks, training points ──► Extension.fit ──► OnlineStep (B, s, h) ──► Embedder

Every extension ends as the numbers of one online step, w(x)·B, so what is chosen here costs a stream nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.spectrum import Spectrum
from ldmaps.diffusion.walk import Walk
from ldmaps.extension.embedder import OnlineStep
from ldmaps.landmarks.base import Landmarks


class Teacher(Protocol):
    """A solved map that an extension takes coordinates from."""

    @property
    def walk(self) -> Walk:
        """The training points and the walk's settings."""

    @property
    def spectrum(self) -> Spectrum:
        """Its k eigenpairs."""

    def coordinates(self, wanted: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return λᵗψ at some training points, of shape (len(wanted), k)."""


class Extension(ABC):
    """A way to choose the numbers of the online step.

    A new one is a file that subclasses this and a line in the table of :mod:`ldmaps.extension`;
    ``tests/extension/contract.py`` is the suite it must pass.
    """

    #: Key in the extension table.
    name: ClassVar[str]
    #: Whether the teacher is the finest map of all training points that can be had (the exact one, if it can be
    #: solved) instead of the landmarks' own M×M eigenproblem.
    learns_from_reference: ClassVar[bool]

    @abstractmethod
    def fit(
        self,
        teacher: Teacher,
        landmarks: Landmarks,
        usable: NDArray[np.intp],
        rng: np.random.Generator,
        *,
        may_move: bool = True,
    ) -> OnlineStep:
        """Choose B, s and h.

        Parameters
        ----------
        teacher : Teacher
            The landmarks' own map, or the reference if ``learns_from_reference``.
        landmarks : Landmarks
            With indices into the teacher's training points.
        usable : ndarray of int
            Which training points may be fitted to.
        rng : Generator
            Draws whatever is drawn at random.
        may_move : bool
            Whether landmarks may be moved off the points they were chosen at.
        """

    def draws(self, n_landmarks: int, *, is_differentiable: bool = True) -> int:
        """Return how many draws of ``n_landmarks`` are worth trying, by whether the metric ``is_differentiable``."""
        # The best by ``held_out_z`` is kept.
        return 1
