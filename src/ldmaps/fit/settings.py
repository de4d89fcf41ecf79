"""The settings of a fit as one value, so that no stage asks an estimator."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ldmaps.errors import InvalidInputError, Named
from ldmaps.settings import Limits


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


def seed_of(random_state: Any) -> int:
    """Return one number for scikit-learn's ``random_state``; all of a fit's random choices follow from it."""
    try:
        return int(check_random_state(random_state).randint(2**31))
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            Named("random_state", random_state),
            " is no seed; pass None, a whole number from 0 to 4294967295, or a numpy.random.RandomState",
        ) from error


@dataclass(frozen=True)
class Seeds:
    """A seed for each stage of a fit, so that what one stage draws changes nothing in another.

    A stage that is repeated, such as choosing landmarks at another ε, draws the same again.
    """

    sample: np.random.SeedSequence  # the part of data in blocks that a tolerance is searched with
    bandwidth: np.random.SeedSequence  # the sample that a rule for ε looks at
    calibrate: np.random.SeedSequence  # rows that no landmark is chosen from
    certify: np.random.SeedSequence  # points that a tolerance holds out
    select: np.random.SeedSequence  # landmarks
    medoids: np.random.SeedSequence  # points that stand for more than can be solved
    solve: np.random.SeedSequence  # where eigensolvers begin, and rows that tell which is best
    residuals: np.random.SeedSequence  # rows that an error is measured at
    step: np.random.SeedSequence  # what an extension learns from

    @classmethod
    def spawn(cls, seed: int) -> Seeds:
        """Return a seed for each stage that follow from one number and are independent of each other."""
        return cls(*np.random.SeedSequence(seed).spawn(len(fields(cls))))
