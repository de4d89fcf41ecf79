"""Kinds of trajectories to try promises on: consecutive rows of one run, and fresh rows of other runs.

Each kind is a stationary process that is run by many walkers at once. A seed takes one walker's run to learn from; its
fresh points are rows of all other walkers, far apart in time, so none of them took part in anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.signal import lfilter

#: Runs of each kind.
N_WALKERS = 48

Array = np.ndarray


@dataclass(frozen=True)
class Trajectories:
    """A stationary process: ``run(n_walkers, n_rows, memory, rng)`` returns (walkers, rows, features).

    ``memory`` is about how many rows the process remembers.
    """

    name: str
    run: Callable[[int, int, float, np.random.Generator], Array]
    n_components: int = 2

    def draw(self, n_rows: int, n_fresh: int, memory: float, seed: int) -> tuple[Array, Array]:
        """Return the rows of one walker in order, and fresh rows of the others.

        Every so many seeds, one for each walker, begin new runs.
        """
        runs = _runs(self.name, n_rows, memory, seed // N_WALKERS)
        others = np.delete(runs, seed % N_WALKERS, axis=0)
        every = max(1, others.shape[0] * n_rows // n_fresh)
        return runs[seed % N_WALKERS], others[:, :: max(1, every)].reshape(-1, runs.shape[2])[:n_fresh]


@lru_cache(maxsize=4)
def _runs(name: str, n_rows: int, memory: float, ensemble: int) -> Array:
    kind = next(kind for kind in KINDS if kind.name == name)
    drawn = [len(name), int(10 * memory), *([ensemble] if ensemble else [])]
    return kind.run(N_WALKERS, n_rows, memory, np.random.default_rng(drawn))


# -- linear processes ---------------------------------------------------------------


def relaxing(n_walkers: int, n_rows: int, times: Array, rng: np.random.Generator) -> Array:
    """Ornstein–Uhlenbeck processes of unit variance with these correlation times, in rows."""
    columns = []
    for time in np.asarray(times, dtype=float):
        a = np.exp(-1.0 / time)
        noise = rng.normal(size=(n_walkers, n_rows))
        noise[:, 1:] *= np.sqrt(1 - a**2)
        columns.append(lfilter([1.0], [1.0, -a], noise, axis=1))
    return np.stack(columns, axis=2)


def plane(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    return relaxing(n_walkers, n_rows, [memory, memory], rng) * [2.0, 1.0]


def several_times(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    """Three directions; the slowest is not the widest."""
    return relaxing(n_walkers, n_rows, [memory, memory / 4, memory / 16], rng) * [1.0, 1.5, 1.0]


def five_dimensions(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    return relaxing(n_walkers, n_rows, [memory, memory, *([memory / 3] * 3)], rng) * [2.0, 1.4, 0.8, 0.8, 0.8]


def on_a_roll(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    """Diffusion over a Swiss roll, rolled up from a rectangle by the normal distribution function."""
    from scipy.special import ndtr

    u = ndtr(relaxing(n_walkers, n_rows, [memory, memory / 2], rng))
    angle = 1.5 * np.pi * (1 + 2 * u[..., 0])
    return np.stack([angle * np.cos(angle), 21 * u[..., 1], angle * np.sin(angle)], axis=2)


def ring(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    """Diffusion around a ring with some width; its first modes forget in ``memory`` rows."""
    steps = rng.normal(scale=np.sqrt(2.0 / memory), size=(n_walkers, n_rows))
    steps[:, 0] = rng.uniform(0, 2 * np.pi, n_walkers)
    angle = np.cumsum(steps, axis=1)
    radius = 3 + 0.3 * relaxing(n_walkers, n_rows, [max(1.0, memory / 10)], rng)[..., 0]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=2)


# -- Langevin dynamics in a potential --------------------------------------------------


def langevin(
    force: Callable[[Array], Array],
    start: Array,
    n_rows: int,
    every: int,
    step: float,
    temperature: float,
    rng: np.random.Generator,
    burn_in: int,
) -> Array:
    """Overdamped Langevin dynamics of all walkers; a row is kept every so many steps."""
    x, rows = start.astype(float), []
    kick = np.sqrt(2.0 * temperature * step)
    for number in range(burn_in + n_rows * every):
        x = x + step * force(x) + kick * rng.normal(size=x.shape)
        if number >= burn_in and (number - burn_in) % every == 0:
            rows.append(x)
    return np.stack(rows, axis=1)


def muller_brown_force(x: Array) -> Array:
    height = np.array([-200.0, -100.0, -170.0, 15.0])
    a, b, c = np.array([[-1, -1, -6.5, 0.7], [0, 0, 11, 0.6], [-10, -10, -6.5, 0.7]])
    dx, dy = x[:, :1] - [1, 0, -0.5, -1], x[:, 1:] - [0, 0.5, 1.5, 1]
    value = height * np.exp(a * dx**2 + b * dx * dy + c * dy**2)
    slope = np.stack([(value * (2 * a * dx + b * dy)).sum(1), (value * (b * dx + 2 * c * dy)).sum(1)], axis=1)
    return np.clip(-slope, -2000, 2000)


def muller_brown(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    """Basins of the Müller–Brown surface at kT = 40; a row every 1/memory of what the slowest motion takes."""
    start = np.array([[-0.5, 1.4], [0.6, 0.0]])[rng.integers(2, size=n_walkers)]
    every = max(1, round(300 / memory))
    return langevin(muller_brown_force, start, n_rows, every, 1e-4, 40.0, rng, 8000)


def double_well(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    """Two wells 2.5 kT deep, and a harmonic direction."""

    def force(x: Array) -> Array:
        return np.stack([-10.0 * x[:, 0] * (x[:, 0] ** 2 - 1), -8.0 * x[:, 1]], axis=1)

    start = np.stack([rng.choice([-1.0, 1.0], n_walkers), np.zeros(n_walkers)], axis=1)
    return langevin(force, start, n_rows, max(1, round(240 / memory)), 0.01, 1.0, rng, 2000)


def three_wells(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    """Three wells of unequal depth in a plane."""
    centres = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 1.8]])
    depths = np.array([4.0, 3.5, 3.0])

    def force(x: Array) -> Array:
        away = x[:, None] - centres
        wells = depths * np.exp(-2.0 * (away**2).sum(axis=2))
        return -(4.0 * wells[:, :, None] * away).sum(axis=1) - 0.6 * (x - [1.0, 0.6])

    start = centres[rng.integers(3, size=n_walkers)]
    return langevin(force, start, n_rows, max(1, round(300 / memory)), 0.01, 1.0, rng, 3000)


def jumping_wells(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    """Four separate wells with 45, 30, 20 and 5 % of the rows: jumps forget the well in ``memory`` rows."""
    jumps = rng.random((n_walkers, n_rows)) < 1.0 / memory
    jumps[:, 0] = True
    last = np.maximum.accumulate(np.where(jumps, np.arange(n_rows), 0), axis=1)
    drawn = rng.choice(4, (n_walkers, n_rows), p=[0.45, 0.3, 0.2, 0.05])
    well = np.take_along_axis(drawn, last, axis=1)
    centres = np.array([[0.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 6.0, 0.0], [3.0, 3.0, 5.0]])
    widths = np.array([1.0, 0.7, 1.2, 0.6])
    shake = relaxing(n_walkers, n_rows, [max(1.0, memory / 10)] * 3, rng)
    return centres[well] + widths[well][..., None] * shake


def tilted_well(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    """Two wells of unequal depth along one of five directions."""

    def force(x: Array) -> Array:
        slow = -8.0 * x[:, 0] * (x[:, 0] ** 2 - 1) - 0.5
        return np.column_stack(
            [slow, *(-stiff * x[:, place] for place, stiff in enumerate((6, 10, 14, 18), 1))]
        )

    start = np.zeros((n_walkers, 5))
    start[:, 0] = rng.choice([-1.0, 1.0], n_walkers)
    return langevin(force, start, n_rows, max(1, round(200 / memory)), 0.01, 1.0, rng, 3000)


# -- windows of a series -----------------------------------------------------------------


def lorenz(n_walkers: int, n_steps: int, rng: np.random.Generator, step: float = 0.02) -> Array:
    """States of the Lorenz system, after it has forgotten where it began."""

    def slope(x: Array) -> Array:
        return np.stack(
            [10 * (x[1] - x[0]), x[0] * (28 - x[2]) - x[1], x[0] * x[1] - 8 / 3 * x[2]],
        )

    x, rows = rng.normal(size=(3, n_walkers)) + np.array([[0.0], [0.0], [25.0]]), []
    for number in range(1500 + n_steps):
        k1 = slope(x)
        k2 = slope(x + 0.5 * step * k1)
        k3 = slope(x + 0.5 * step * k2)
        k4 = slope(x + step * k3)
        x = x + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        if number >= 1500:
            rows.append(x)
    return np.stack(rows, axis=0).transpose(2, 0, 1)


def lorenz_states(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    every = max(1, round(20 / memory))
    states = lorenz(n_walkers, n_rows * every, rng, 0.02 * min(1.0, 20 / memory))
    return states[:, ::every]


def lorenz_windows(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    """Windows of eight values of the first coordinate, shifted from row to row."""
    every = max(1, round(20 / memory))
    series = lorenz(n_walkers, n_rows * every + 40, rng, 0.02 * min(1.0, 20 / memory))[:, :, 0]
    lags = np.arange(8) * 4
    starts = np.arange(n_rows) * every
    return series[:, starts[:, None] + lags]


def oscillator_windows(n_walkers: int, n_rows: int, memory: float, rng: np.random.Generator) -> Array:
    """Windows of six values of a noisy, damped oscillation (an autoregressive process of second order)."""
    damping = np.exp(-1.0 / memory)
    period = max(8.0, memory)
    noise = rng.normal(size=(n_walkers, 400 + 20 * int(memory) + n_rows))
    series = lfilter([1.0], [1.0, -2 * damping * np.cos(2 * np.pi / period), damping**2], noise, axis=1)
    series = series[:, -(n_rows + 20) :] / series.std()
    starts, lags = np.arange(n_rows), np.arange(6) * max(1, int(period / 8)) % 20
    return series[:, starts[:, None] + np.sort(lags)]


KINDS = (
    Trajectories("Ornstein–Uhlenbeck, 2-D", plane),
    Trajectories("Ornstein–Uhlenbeck, three times", several_times),
    Trajectories("Ornstein–Uhlenbeck, 5-D", five_dimensions),
    Trajectories("diffusion on a Swiss roll", on_a_roll),
    Trajectories("diffusion around a ring", ring),
    Trajectories("Müller–Brown, Langevin", muller_brown),
    Trajectories("double well", double_well),
    Trajectories("three wells", three_wells),
    Trajectories("Lorenz system", lorenz_states),
    Trajectories("Lorenz, windows of eight", lorenz_windows),
    Trajectories("damped oscillator, windows of six", oscillator_windows),
    Trajectories("four unequal wells, jumps", jumping_wells, 3),
    Trajectories("tilted double well, 5-D", tilted_well),
)
