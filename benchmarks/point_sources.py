"""Kinds of points to try promises on: endless sources and trajectories, half of them heavy-tailed.

A source draws as many points as are wanted to learn from, and fresh ones of the same kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.metrics import RMSD, Features, Periodic


@dataclass(frozen=True)
class Source:
    """Where points are from: ``draw(n_old, n_fresh, rng)`` returns as many of both, or fewer."""

    name: str
    is_heavy: bool
    draw: Callable[[int, int, np.random.Generator], tuple[np.ndarray, np.ndarray]]
    metric: Any = "euclidean"
    epsilon: float | str = "connected"
    n_components: int = 2
    #: Whether nobody looked at it while the constants of bounds were settled.
    is_blind: bool = False


# -- ways to draw -------------------------------------------------------------------


def endless(points: Callable[[int, np.random.Generator], np.ndarray]):
    def draw(n_old: int, n_fresh: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        both = points(n_old + n_fresh, rng)
        return both[:n_old], both[n_old:]

    return draw


def shuffled(frames: np.ndarray):
    """Draw frames at random: no two are neighbours in time but by chance."""

    def draw(n_old: int, n_fresh: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        order = rng.permutation(len(frames))
        n_old = min(n_old, 4 * len(frames) // 5)
        return frames[order[:n_old]], frames[order[n_old : n_old + n_fresh]]

    return draw


def in_order(frames: np.ndarray):
    """Draw every other tenth of a stretch of the trajectory; the tenths between are the fresh frames."""

    def draw(n_old: int, n_fresh: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        length = min(2 * n_old, len(frames))
        start = rng.integers(len(frames) - length + 1)
        tenths = np.array_split(np.arange(start, start + length), 20)
        old, fresh = (np.concatenate(tenths[first::2]) for first in (0, 1))
        return frames[old], frames[rng.permutation(fresh)[:n_fresh]]

    return draw


# -- clouds -------------------------------------------------------------------------


def torus(n: int, rng: np.random.Generator) -> np.ndarray:
    u, v = rng.uniform(0, 2 * np.pi, (2, n))
    return np.column_stack([(3 + np.cos(v)) * np.cos(u), (3 + np.cos(v)) * np.sin(u), 1.5 * np.sin(v)])


def noisy_roll(n: int, rng: np.random.Generator) -> np.ndarray:
    points: np.ndarray = swiss_roll(n, random_state=rng).points + rng.normal(scale=0.3, size=(n, 3))
    return points


def basins(n: int, rng: np.random.Generator) -> np.ndarray:
    """Two unequal basins and the way between them, in five dimensions."""
    centre = np.where(rng.random(n) < 0.7, -2.0, 2.0)
    between = rng.random(n) < 0.125
    centre[between] = rng.uniform(-2, 2, between.sum())
    X = 0.3 * rng.normal(size=(n, 5))
    X[:, 0] += centre
    return X


def branch(n: int, rng: np.random.Generator) -> np.ndarray:
    """The two basins, and a branch off them that 2 % of the points are on."""
    X = basins(n, rng)
    rare = rng.random(n) < 0.02
    X[rare, 1] += rng.uniform(0, 3, rare.sum())
    return X


def filament(n: int, rng: np.random.Generator) -> np.ndarray:
    """A line along which density falls as a power."""
    return np.column_stack([rng.pareto(2.0, n), 0.1 * rng.normal(size=(n, 2))])


# -- never looked at while constants were settled ------------------------------------


def tree(n: int, rng: np.random.Generator) -> np.ndarray:
    """A trunk and three branches of unequal length in 20 dimensions."""
    along = rng.random(n)
    branch = rng.choice(4, n, p=[0.4, 0.25, 0.2, 0.15])
    X = 0.05 * rng.normal(size=(n, 20))
    for number, (start, length) in enumerate(((0.0, 3.0), (3.0, 2.0), (3.0, 1.5), (1.5, 1.0))):
        own = branch == number
        X[own, 0] += start if number else 0.0
        X[own, number] += length * along[own]
    return X


def moebius(n: int, rng: np.random.Generator) -> np.ndarray:
    u, v = rng.uniform(0, 2 * np.pi, n), rng.uniform(-0.5, 0.5, n)
    r = 2 + v * np.cos(u / 2)
    return np.column_stack([r * np.cos(u), r * np.sin(u), v * np.sin(u / 2)])


def swirl(n: int, rng: np.random.Generator) -> np.ndarray:
    """A spiral in the plane with Cauchy noise, cut at ten times its width."""
    t = 3 * np.pi * np.sqrt(rng.random(n))
    noise = np.clip(0.05 * rng.standard_cauchy((n, 2)), -0.5, 0.5)
    return np.column_stack([t * np.cos(t), t * np.sin(t)]) / 3 + noise


def cells(n: int, rng: np.random.Generator) -> np.ndarray:
    """Counts of 50 genes along a path of cells, and 2 % of a rare kind; depth varies as in a real experiment."""
    along = rng.random(n)
    centres = np.linspace(0, 1, 50)
    activity = 0.2 + 3.0 * np.exp(-(((along[:, None] - centres) / 0.2) ** 2))
    rare = rng.random(n) < 0.02
    activity[np.ix_(rare, np.arange(10))] += 4.0
    depth = rng.lognormal(0.0, 0.3, n)[:, None]
    counts = rng.poisson(rng.gamma(4.0, 5.0 * depth * activity / 4.0))
    return np.log1p(counts / counts.sum(axis=1, keepdims=True) * 500.0)


@cache
def barrier_crossings(n: int = 400_000, every: int = 20) -> np.ndarray:
    """Overdamped Langevin dynamics on Müller and Brown's surface (Theor. Chim. Acta 53, 75 (1979)), frames in order."""
    heights, centres = (
        np.array([-200.0, -100.0, -170.0, 15.0]),
        np.array([[1, 0], [0, 0.5], [-0.5, 1.5], [-1, 1]]),
    )
    a, b, c = np.array([-1, -1, -6.5, 0.7]), np.array([0, 0, 11, 0.6]), np.array([-10, -10, -6.5, 0.7])
    rng = np.random.default_rng(0)
    step, heat = 1e-4, 15.0
    kicks = np.sqrt(2 * heat * step) * rng.normal(size=(n, 2))
    position, path = np.array([-0.5, 1.5]), np.empty((n // every, 2))
    for number in range(n):
        x, y = (position - centres).T
        part = heights * np.exp(a * x * x + b * x * y + c * y * y)
        force = -np.array([part @ (2 * a * x + b * y), part @ (b * x + 2 * c * y)])
        position = position + step * force + kicks[number]
        if number % every == 0:
            path[number // every] = position
    return path


def digits() -> np.ndarray:
    from sklearn.datasets import load_digits

    images: np.ndarray = load_digits().data
    return images


def blind_sources() -> list[Source]:
    return [
        Source("handwritten digits", False, shuffled(digits()), is_blind=True),
        Source("tree in 20-D", False, endless(tree), is_blind=True),
        Source("Möbius strip", False, endless(moebius), is_blind=True),
        Source("swirl with Cauchy noise", True, endless(swirl), is_blind=True),
        Source("counts of cells with a rare kind", True, endless(cells), is_blind=True),
        Source("Müller–Brown surface, in order", True, in_order(barrier_crossings()), is_blind=True),
    ]


# -- all ----------------------------------------------------------------------------


def sources() -> list[Source]:
    alanine, chain = alanine_dipeptide(), c24h50()
    fours = [[4, 6, 8, 14], [6, 8, 14, 16]]
    backbone = Features(alanine.n_atoms, dihedrals=fours).values(alanine.frames)
    along = [list(range(i, i + 4)) for i in range(21)]
    torsions = Features(chain.n_atoms, dihedrals=along).values(chain.frames)
    alanine_rmsd, chain_rmsd = RMSD(weights=alanine.masses), RMSD(weights=chain.masses)
    return [
        Source(
            "Swiss roll",
            False,
            endless(lambda n, rng: swiss_roll(n, random_state=rng).points),
            epsilon=9.0,
        ),
        Source("Swiss roll with noise 0.3", False, endless(noisy_roll), epsilon=9.0),
        Source("torus", False, endless(torus), epsilon=0.5),
        Source("alanine dipeptide", False, shuffled(alanine.frames), alanine_rmsd, 5e-3),
        Source("alanine dipeptide, frames in order", False, in_order(alanine.frames), alanine_rmsd, 5e-3),
        Source("C24H50", False, shuffled(chain.frames), chain_rmsd, 6e-2),
        Source("C24H50, 21 dihedrals", False, shuffled(torsions), Periodic()),
        Source("alanine dipeptide, φ and ψ", True, shuffled(backbone), Periodic()),
        Source("two basins in 5-D, one coordinate", True, endless(basins), epsilon=0.4, n_components=1),
        Source("two basins in 5-D", True, endless(basins), epsilon=0.4),
        Source(
            "basins with a rare branch, one coordinate", True, endless(branch), epsilon=0.4, n_components=1
        ),
        Source("basins with a rare branch", True, endless(branch), epsilon=0.4),
        Source("Student's t, 3 degrees of freedom", True, endless(lambda n, rng: rng.standard_t(3, (n, 3)))),
        Source("filament of Pareto density", True, endless(filament)),
        Source("log-normal cloud", True, endless(lambda n, rng: np.exp(rng.normal(scale=0.8, size=(n, 2))))),
        *blind_sources(),
    ]
