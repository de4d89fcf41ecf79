"""
A hydrocarbon chain that folds: C₂₄H₅₀
======================================

100 ns of n-tetracosane without solvent, 24 united atoms. The chain collapses and unfolds.
"""

import matplotlib.pyplot as plt
import numpy as np

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import c24h50
from ldmaps.metrics import RMSD

molecule = c24h50(stride=3)
frames = molecule.frames
model = LandmarkDiffusionMap(3, metric=RMSD(), n_landmarks=300, extension="distilled").fit(frames)

centred = frames - frames.mean(axis=1, keepdims=True)
gyration = np.sqrt((centred**2).sum(axis=2).mean(axis=1))
ends = np.linalg.norm(frames[:, -1] - frames[:, 0], axis=1)

figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharex=True, sharey=True)
for axes, value, label in zip(
    panels, [gyration, ends], ["radius of gyration, nm", "end-to-end distance, nm"], strict=True
):
    dots = axes.scatter(*model.embedding_[:, :2].T, c=value, s=4)
    axes.set_xlabel("ψ₂")
    figure.colorbar(dots, label=label)
panels[0].set_ylabel("ψ₃")
plt.show()

# %%
# ψ₂ follows the size of the chain. RMSD treats the two mirror images of a fold as different configurations, so later
# coordinates come in pairs.

from scipy.stats import spearmanr

for number, values in enumerate(model.embedding_.T, start=2):
    print(
        f"ψ{number}: rank correlation with the radius of gyration {spearmanr(values, gyration).statistic:+.2f}"
    )
