"""The Swiss roll: a flat strip rolled up in three dimensions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.settings import check_whole

_INNER_END = 1.5 * math.pi
_HEIGHT = 21.0


@dataclass(frozen=True, eq=False, repr=False)
class SwissRoll:
    """Points on a Swiss roll, with the coordinates that unroll it.

    Attributes
    ----------
    points : ndarray of shape (n, 3), float64
        (t cos t, h, t sin t), plus noise where asked for.
    position : ndarray of shape (n,), float64
        t, the angle along the spiral, in [3π/2, 9π/2).
    height : ndarray of shape (n,), float64
        h, the position across the strip, in [0, 21).
    """

    points: NDArray[np.float64]
    position: NDArray[np.float64]
    height: NDArray[np.float64]

    @property
    def arc_length(self) -> NDArray[np.float64]:
        """Distance along the strip from its inner end, shape (n,)."""
        return _spiral_length(self.position) - _spiral_length(np.float64(_INNER_END))

    @property
    def unrolled(self) -> NDArray[np.float64]:
        """The flat strip, (arc length, height), shape (n, 2): distances here are geodesic, but for noise."""
        return np.column_stack([self.arc_length, self.height])

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        return f"SwissRoll({len(self)} points)"


def swiss_roll(
    n_points: int = 20_000, *, noise: float = 0.0, random_state: int | np.random.Generator | None = 0
) -> SwissRoll:
    """Sample the Swiss roll of the Isomap data set.

    x = (t cos t, h, t sin t) with t = (3π/2)(1 + 2u) and h = 21 v, where u and v are
    uniform on [0, 1). Uniform in t, so the density on the strip falls as 1/√(1 + t²)
    from the inner end to the outer.

    Parameters
    ----------
    n_points : int, default=20_000
        As many as the Isomap set has. More bring neighbours closer, and need a smaller bandwidth.
    noise : float, default=0.0
        Standard deviation of Gaussian noise on every point. The turns are 2π apart; more than a little bridges them.
    random_state : int, numpy Generator or None, default=0
        The same integer gives the same points, and, without noise, a smaller set is the beginning of a larger
        one. None draws fresh points on every call.

    Examples
    --------
    >>> from ldmaps.datasets import swiss_roll
    >>> roll = swiss_roll(1000)
    >>> roll.points.shape
    (1000, 3)
    >>> bool((roll.height < 21).all())
    True
    """
    count = check_whole("n_points", n_points, 1)
    given: object = noise
    if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= float(given) < math.inf:
        raise InvalidInputError(
            f"noise must be a finite number that is not negative, got {noise!r}; pass 0 for none"
        )
    rng = np.random.default_rng(random_state)
    # One row per point, so that a longer draw from the same seed starts with a shorter one.
    u, v = rng.random((count, 2)).T
    position = _INNER_END * (1 + 2 * u)
    height = _HEIGHT * v
    points = np.column_stack([position * np.cos(position), height, position * np.sin(position)])
    if noise:
        points += noise * rng.standard_normal(points.shape)
    return SwissRoll(points=points, position=position, height=height)


def _spiral_length(t: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    # (t cos t, t sin t) has the speed √(1 + t²), whose integral this is.
    return np.asarray(0.5 * (t * np.sqrt(1 + t * t) + np.arcsinh(t)), dtype=np.float64)
