"""The settings of a fit as one value, so that no stage asks an estimator."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state


@dataclass(frozen=True)
class Limits:
    """What solving a map over all points may take."""

    memory: float = 4e9  # most bytes in addition to the points; above it the kernel is not stored
    max_passes: int | None = (
        None  # most passes over all pairs where the kernel is not stored; None is the default
    )
    resume: str | os.PathLike[str] | None = None  # a file in which these passes keep their state


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """What an estimator was constructed with; checked one by one, not against each other."""

    is_exact: bool  # whether the map is over all points, or over landmarks
    n_components: int | str
    epsilon: float | str
    outliers: float
    alpha: float
    time: float  # diffusion time t
    n_threads: int | None
    seed: int
    limits: Limits
    calibration: float
    # Of maps over landmarks:
    landmarks: Any = None
    n_landmarks: int | None = None
    tolerance: float | None = None
    extension: str = "auto"
    # Of exact maps:
    solver: str = "auto"
    keep_distances: bool = False

    @property
    def may_leave_out(self) -> bool:
        """Whether points that lie apart may be left out: the rule "bulk" says so."""
        return self.epsilon == "bulk"


def seed_of(random_state: Any) -> int:
    """Return one number for scikit-learn's ``random_state``; all of a fit's random choices follow from it."""
    return int(check_random_state(random_state).randint(2**31))


class Seeds:
    """A random generator for each stage of a fit."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._main = np.random.default_rng(seed)

    def _fresh(self) -> np.random.Generator:
        self._main = np.random.default_rng(self._seed)
        return self._main

    @property
    def sample(self) -> np.random.Generator:
        """Draws the part of data in blocks that a tolerance is searched with."""
        return self._main

    @property
    def bandwidth(self) -> np.random.Generator:
        """Draws the sample that a rule for ε looks at."""
        return self._main

    @property
    def calibrate(self) -> np.random.Generator:
        """Draws the rows that no landmark is chosen from."""
        return np.random.default_rng(self._seed)

    @property
    def certify(self) -> np.random.Generator:
        """Draws the points that a tolerance holds out."""
        return self._fresh()

    @property
    def select(self) -> np.random.Generator:
        """Chooses landmarks."""
        return self._fresh()

    @property
    def solve(self) -> np.random.Generator:
        """Draws where eigensolvers begin, and the rows that they look at."""
        return self._main

    @property
    def step(self) -> np.random.Generator:
        """Draws what an extension learns from."""
        return self._main
