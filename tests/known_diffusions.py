"""Diffusions in two dimensions whose slow modes, committors and passage times are known: simulated, and on a grid."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse
import scipy.sparse.linalg


@dataclass(frozen=True)
class Runs:
    """Frames of several runs, one behind the other, and which run each is of."""

    points: np.ndarray  # (n, 2)
    runs: np.ndarray  # (n,)


class Diffusion:
    """dx = −D ∇V/kT dt + √(2D) dW, with the potential in units of kT and D by coordinate."""

    def __init__(self, potential, box, diffusion=(1.0, 1.0), cells=100):
        self.potential = potential
        self.diffusion = np.asarray(diffusion, dtype=float)
        self.box = box
        self.axes = [np.linspace(low, high, cells) for low, high in box]
        self.grid = np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1).reshape(-1, 2)

    def force(self, x, step=1e-5):
        """Return −∇V, by differences."""
        slopes = [
            (self.potential(x + shift) - self.potential(x - shift)) / (2 * step) for shift in step * np.eye(2)
        ]
        return -np.stack(slopes, axis=-1)

    @cached_property
    def density(self):
        values = self.potential(self.grid)
        weights = np.exp(-(values - values.min()))
        return weights / weights.sum()

    @cached_property
    def generator(self):
        """Rates between neighbouring cells, D/h² exp(−ΔV/2): finite volumes, with the density above at rest."""
        n = len(self.axes[0])
        values = self.potential(self.grid).reshape(n, n)
        places = np.arange(n * n).reshape(n, n)
        rows, columns, rates = [], [], []
        for axis in range(2):
            width = self.axes[axis][1] - self.axes[axis][0]
            here, there = (places.take(range(start, start + n - 1), axis=axis).ravel() for start in (0, 1))
            step = values.ravel()[there] - values.ravel()[here]
            for start, stop, rise in ((here, there, step), (there, here, -step)):
                rows.append(start)
                columns.append(stop)
                rates.append(self.diffusion[axis] / width**2 * np.exp(-0.5 * np.clip(rise, -60, 60)))
        matrix = scipy.sparse.csr_matrix(
            (np.concatenate(rates), (np.concatenate(rows), np.concatenate(columns))), shape=(n * n, n * n)
        )
        return matrix - scipy.sparse.diags(np.asarray(matrix.sum(axis=1)).ravel())

    def timescales(self, count=3):
        """Return the longest time scales, and their eigenfunctions on the grid."""
        root = np.sqrt(self.density)
        likely = root > 1e-12
        symmetric = scipy.sparse.diags(root[likely]) @ self.generator[likely][:, likely]
        symmetric = symmetric @ scipy.sparse.diags(1 / root[likely])
        values, vectors = scipy.sparse.linalg.eigsh(
            -0.5 * (symmetric + symmetric.T), k=count + 1, sigma=-1e-3, which="LM"
        )
        order = np.argsort(values)[1:]
        functions = np.zeros((len(root), count))
        functions[likely] = vectors[:, order] / root[likely, None]
        return 1 / values[order], functions

    def committor(self, source, target):
        """Return the chance to reach the target first, on the grid."""
        between = ~(source | target)
        matrix = self.generator.tocsc()
        chance = target.astype(float)
        chance[between] = scipy.sparse.linalg.spsolve(
            matrix[between][:, between], -matrix[between][:, target] @ np.ones(target.sum())
        )
        return chance

    def passage_times(self, target):
        """Return the mean time until the target, on the grid."""
        times = np.zeros(len(target))
        matrix = self.generator.tocsc()[~target][:, ~target]
        times[~target] = scipy.sparse.linalg.spsolve(matrix, -np.ones((~target).sum()))
        return times

    def simulate(self, n_runs, n_frames, spacing, step, seed=0):
        """Return runs that begin at equilibrium."""
        rng = np.random.default_rng(seed)
        x = self.grid[rng.choice(len(self.grid), n_runs, p=self.density)]
        x = x + rng.uniform(-0.5, 0.5, x.shape) * [axis[1] - axis[0] for axis in self.axes]
        n_steps = round(spacing / step)
        kicks = np.sqrt(2 * self.diffusion * step)
        frames = np.empty((n_frames, n_runs, 2))
        for frame in range(n_frames):
            frames[frame] = x
            for _ in range(n_steps):
                x = x + self.diffusion * self.force(x) * step + kicks * rng.normal(size=x.shape)
        return Runs(frames.transpose(1, 0, 2).reshape(-1, 2), np.repeat(np.arange(n_runs), n_frames))


def mueller_brown(temperature=20.0):
    """Return the Müller–Brown potential at kT = 20, where mobility is 1."""
    heights = np.array([-200.0, -100.0, -170.0, 15.0])
    a, b, c = (
        np.array([-1.0, -1.0, -6.5, 0.7]),
        np.array([0.0, 0.0, 11.0, 0.6]),
        np.array([-10, -10, -6.5, 0.7]),
    )
    centres = np.array([[1.0, 0.0], [0.0, 0.5], [-0.5, 1.5], [-1.0, 1.0]])

    def potential(x):
        away = x[..., None, :] - centres
        shape = a * away[..., 0] ** 2 + b * away[..., 0] * away[..., 1] + c * away[..., 1] ** 2
        return (heights * np.exp(shape)).sum(axis=-1) / temperature

    return Diffusion(potential, [(-1.7, 1.3), (-0.5, 2.2)], diffusion=(temperature, temperature))


def double_well(diffusion):
    """Return two wells along x at ±1 that a curved valley joins."""

    def potential(x):
        return 2.5 * (x[..., 0] ** 2 - 1) ** 2 + 2.0 * (x[..., 1] - 0.8 * x[..., 0]) ** 2

    return Diffusion(potential, [(-2.0, 2.0), (-3.0, 3.0)], diffusion=diffusion)


def ornstein_uhlenbeck(n_rows, times, seed=0):
    """Return rows of independent Gaussian processes with these correlation times, in rows."""
    rng = np.random.default_rng(seed)
    decay = np.exp(-1 / np.asarray(times, dtype=float))
    kicks = rng.normal(size=(n_rows, len(decay))) * np.sqrt(1 - decay**2)
    rows = np.empty_like(kicks)
    rows[0] = rng.normal(size=len(decay))
    for row in range(1, n_rows):
        rows[row] = decay * rows[row - 1] + kicks[row]
    return rows
