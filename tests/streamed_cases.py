"""Eigenproblems that the streamed solver is held against the stored one on."""

import numpy as np
from scipy.linalg import subspace_angles

from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.diffusion.pairwise import gaussian_kernel
from ldmaps.diffusion.spectrum import solve_spectrum
from ldmaps.diffusion.streamed_kernel import StreamedKernel
from ldmaps.metrics import RMSD, Euclidean, Periodic
from ldmaps.metrics.base import squared_matrix


def kernel_of(X, epsilon, metric=None):
    metric = Euclidean() if metric is None else metric
    return StreamedKernel(metric, metric.prepare(X), epsilon)


def roll(n=900, dtype=np.float64, epsilon=4.0):
    return kernel_of(swiss_roll(n).points.astype(dtype), epsilon)


def peptide(n=700, dtype=np.float32):
    data = alanine_dipeptide()
    frames = data.frames[:: len(data.frames) // n][:n].astype(dtype)
    return kernel_of(frames, 3e-3, RMSD(weights=data.masses))


def torus(n=600):
    return kernel_of(np.random.default_rng(0).uniform(-np.pi, np.pi, (n, 2)) ** 3 / 10, 0.3, Periodic())


def ring(n=240):
    """Equally spaced on a circle: every eigenvalue but two is there twice, exactly."""
    angle = 2 * np.pi * np.arange(n) / n
    return kernel_of(np.column_stack([np.cos(angle), np.sin(angle)]), 0.02)


def oval(n=240):
    """A ring a thousandth longer than wide: pairs of eigenvalues that differ in the fourth digit."""
    angle = 2 * np.pi * np.arange(n) / n
    return kernel_of(np.column_stack([1.001 * np.cos(angle), np.sin(angle)]), 0.02)


def chain(n=500):
    """A long line: λ₂ = 0.9997 and eigenvalues that crowd below it."""
    return kernel_of(np.linspace(0.0, 1.0, n)[:, None] ** 1.1, 5e-5)


CASES = {
    "roll": roll,
    "single roll": lambda: roll(dtype=np.float32),
    "peptide": peptide,
    "double peptide": lambda: peptide(500, np.float64),
    "torus": torus,
    "ring": ring,
    "oval": oval,
    "chain": chain,
}


def random_weights(n, seed=0):
    return np.random.default_rng(seed).gamma(0.7, size=n) + 0.05


def random_start(kernel, width, seed=1):
    return np.random.default_rng(seed).normal(size=(len(kernel), width))


def stored_spectrum(kernel, weights, count, alpha=0.0):
    """The reference: the same entries, stored, and solved in float64."""
    matrix = gaussian_kernel(squared_matrix(kernel.metric, kernel.points), kernel.epsilon)
    return solve_spectrum(matrix.astype(np.float64), weights, count, alpha=alpha)


def symmetric_vectors(spectrum, weights):
    """u = √(C D) ψ, of length 1: orthonormal, so that angles can be measured."""
    vectors = spectrum.vectors * np.sqrt(weights * spectrum.degrees)[:, None]
    return vectors / np.linalg.norm(vectors, axis=0)


def sines(exact, found, weights):
    """Sine of the angle between each exact vector and the one found."""
    u, v = symmetric_vectors(exact, weights), symmetric_vectors(found, weights)
    return np.linalg.norm(v - u * (u * v).sum(axis=0), axis=0)


def widest_angle(exact, found, weights):
    """Sine of the largest angle between the two subspaces."""
    return np.sin(subspace_angles(symmetric_vectors(exact, weights), symmetric_vectors(found, weights)).max())
