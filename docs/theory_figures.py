"""Draw the figures of ``background/theory.md``: ``python docs/theory_figures.py``."""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide
from ldmaps.demo.figure import backbone_dihedrals
from ldmaps.errors import LdmapsWarning
from ldmaps.metrics import RMSD
from ldmaps.validation import nrmse

IMAGES = Path(__file__).resolve().parent / "images"
STRIDE = 5


def draw_kernel(frames: np.ndarray, phi: np.ndarray, psi: np.ndarray, epsilon: float) -> None:
    """Draw what one frame is connected with at three bandwidths."""
    start = int(np.argmin((phi + 75) ** 2 + (psi + 15) ** 2))
    metric = RMSD()
    squared = metric.pairwise(frames, frames[start : start + 1])[:, 0] ** 2
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", sharey=True)
    for axes, factor in zip(panels, (1 / 16, 1, 64), strict=True):
        weights = np.exp(-squared / (2 * factor * epsilon))
        order = np.argsort(weights)
        dots = axes.scatter(phi[order], psi[order], c=weights[order], s=4, cmap="viridis", vmin=0, vmax=1)
        axes.plot(phi[start], psi[start], "+", color="tab:red", markersize=12)
        neighbours = weights.sum() - 1
        axes.set(
            xlabel="dihedral φ (degrees)",
            title=f"ε = {factor * epsilon:.1e} nm²: {neighbours:,.0f} neighbours",
        )
    panels[0].set_ylabel("dihedral ψ (degrees)")
    figure.colorbar(dots, ax=panels, label="weight A")
    figure.savefig(IMAGES / "theory_kernel.png", dpi=110)


def draw_coordinates(model: DiffusionMap, phi: np.ndarray, psi: np.ndarray) -> None:
    """Draw the spectrum, and the first coordinates over the dihedrals."""
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", width_ratios=[0.8, 1, 1])
    values = np.concatenate([[1.0], model.spectrum_[:8]])
    panels[0].plot(np.arange(1, len(values) + 1), values, "o-")
    panels[0].set(xlabel="number", ylabel="eigenvalue λ", title="spectrum of the random walk")
    for axes, column, name in zip(panels[1:], model.embedding_.T[:2], ("ψ₂", "ψ₃"), strict=False):
        bound = np.abs(column).max()
        dots = axes.scatter(phi, psi, c=column, s=4, cmap="coolwarm", vmin=-bound, vmax=bound)
        axes.set(xlabel="dihedral φ (degrees)", title=f"diffusion coordinate {name}")
        figure.colorbar(dots, ax=axes)
    panels[1].set_ylabel("dihedral ψ (degrees)")
    figure.savefig(IMAGES / "theory_coordinates.png", dpi=110)


def draw_landmarks(frames: np.ndarray, phi: np.ndarray, psi: np.ndarray, exact: DiffusionMap) -> None:
    """Draw landmarks as large as the frames they stand for, and the error against their number."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    held, fitted = np.arange(len(frames)) % 4 == 0, np.arange(len(frames)) % 4 != 0
    epsilon = 4 * exact.epsilon_  # so that as few as 20 landmarks are connected
    reference = DiffusionMap(2, epsilon, RMSD()).fit(frames[fitted])
    truth, ranges = reference.transform(frames[held]), np.ptp(reference.embedding_, axis=0)
    numbers = (20, 40, 80, 160, 320)
    for extension, marker in (("nystrom", "o-"), ("distilled", "s-")):
        errors = []
        for number in numbers:
            model = LandmarkDiffusionMap(
                2, epsilon, RMSD(), n_landmarks=number, extension=extension, calibration=0, random_state=0
            ).fit(frames[fitted])
            errors.append(nrmse(truth, model.transform(frames[held]), ranges=ranges))
            if (extension, number) == ("nystrom", 80):
                at = np.flatnonzero(fitted)[model.landmark_indices_]
                left.scatter(phi, psi, s=2, c="0.85")
                left.scatter(phi[at], psi[at], s=model.multiplicities_, alpha=0.6)
        right.loglog(
            numbers, errors, marker, label={"nystrom": "Nyström", "distilled": "distilled"}[extension]
        )
        print(extension, dict(zip(numbers, np.round(errors, 3).tolist(), strict=True)))
    left.set(
        xlabel="dihedral φ (degrees)",
        ylabel="dihedral ψ (degrees)",
        title="80 landmarks and their multiplicities",
    )
    right.set_xticks(numbers, map(str, numbers))
    right.minorticks_off()
    right.set(xlabel="landmarks M", ylabel="Z of held-out frames (%)", title="error against the exact map")
    right.legend()
    figure.savefig(IMAGES / "theory_landmarks.png", dpi=110)


def main() -> None:
    """Draw all figures."""
    molecule = alanine_dipeptide(stride=STRIDE)
    frames = molecule.frames[:, molecule.heavy_atoms]
    phi, psi = backbone_dihedrals(molecule)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)
        exact = DiffusionMap(8, "bulk", RMSD()).fit(frames)
        print(exact)
        draw_kernel(frames, phi, psi, exact.epsilon_)
        draw_coordinates(exact, phi, psi)
        draw_landmarks(frames, phi, psi, exact)


if __name__ == "__main__":
    main()
