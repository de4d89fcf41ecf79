"""How far points are beyond a map's domain, smoothly: what a wall around the domain is made of.

Landmark j reaches to r_j (the radii of :class:`~ldmaps.extension.embedder.Coverage`). With u_j = d_j² − r_j²

    U(x) = −2τ ln Σ_j exp(−u_j/(2τ)) ≤ min_j u_j,        excess = √(U + ε) − √ε  where U > 0, else 0.

A softness τ rounds places where two landmarks are equally near, and moves the border outwards by τ ln(M)/√ε at most.
Inside, the map's own estimate of how often a place was visited is ρ(x) = Σ_j c_j exp(−d_j²/(2ε)).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.extension.embedder import Embedder

#: τ in units of ε.
SOFTNESS = 0.05
#: Width of a Gaussian bump of metadynamics, as a share of the range that the landmarks span.
BUMP_SHARE = 1 / 30


def excess_with_gradient(
    embedder: Embedder, X: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how far points are beyond the domain, in the metric's units, and the gradient of that."""
    squared = embedder.squares(X)
    within = squared <= embedder.squared_radii
    # Inside, where a simulation is nearly always, U ≤ min u ≤ 0 and nothing else need be known.
    if within.any() if len(X) == 1 else within.any(axis=1).all():
        return np.zeros(len(X)), np.zeros(X.shape)
    smooth, shares, totals = _smallest_beyond(embedder, squared)
    distance = np.sqrt(np.maximum(smooth, 0.0) + embedder.epsilon)
    excess = distance - math.sqrt(embedder.epsilon)
    outside = smooth > 0
    shares *= (outside / (2.0 * distance * totals))[:, None]
    if not outside.any():
        return excess, np.zeros(X.shape)
    return excess, _summed(embedder, X, squared, shares)


def excess_of_squares(embedder: Embedder, squared: NDArray[np.float64]) -> float:
    """Return how far a point is beyond the domain, in the metric's units, from its d² to all landmarks, (M,)."""
    smooth = float(_smallest_beyond(embedder, squared[None])[0][0])
    return math.sqrt(max(smooth, 0.0) + embedder.epsilon) - math.sqrt(embedder.epsilon)


def _smallest_beyond(
    embedder: Embedder, squared: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return U, (n,), of d², (n, M); the share of each landmark relative to the nearest, and the sum of shares."""
    beyond = squared.astype(np.float64) - embedder.squared_radii
    rate = 0.5 / (SOFTNESS * embedder.epsilon)
    lowest = beyond.min(axis=1, keepdims=True)
    shares = np.exp(rate * (lowest - beyond))
    totals = shares.sum(axis=1)
    return lowest[:, 0] - np.log(totals) / rate, shares, totals


def log_density_with_gradient(
    embedder: Embedder, multiplicities: NDArray[np.float64], X: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ln ρ(x) and its gradient; finite however far a point is."""
    squared = embedder.squares(X)
    rate = 0.5 / embedder.epsilon
    exponents = np.log(multiplicities) - rate * squared.astype(np.float64)
    highest = exponents.max(axis=1, keepdims=True)
    shares = np.exp(exponents - highest)
    totals = shares.sum(axis=1, keepdims=True)
    shares *= -rate / totals
    return (highest + np.log(totals))[:, 0], _summed(embedder, X, squared, shares)


def _summed(
    embedder: Embedder, X: NDArray[np.float64], squared: NDArray[Any], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return Σ_j g_j ∂d_j²/∂x for one set of shares, of the shape of ``X``."""
    gradient: NDArray[Any] = np.empty((len(X), 1, X[0].size), squared.dtype)
    embedder.squares_gradient(
        np.require(X.reshape(len(X), -1), np.float64, ("C", "A")),
        squared,
        np.ascontiguousarray(shares[:, None], dtype=squared.dtype),
        gradient,
    )
    return gradient.reshape(X.shape).astype(np.float64)
