"""
Branching data, as in single-cell biology
=========================================

Cells that differentiate lie on a tree in the space of gene expression. Diffusion maps became popular there because their
coordinates follow the branches. The data here are synthetic: three branches in 50 dimensions, with noise.
"""

import matplotlib.pyplot as plt
import numpy as np

from ldmaps import LandmarkDiffusionMap

rng = np.random.default_rng(0)
directions, _ = np.linalg.qr(rng.normal(size=(50, 4)))
progress = rng.beta(1.2, 1.2, size=3000)
branch = rng.integers(0, 3, size=3000)
trunk = np.minimum(progress, 0.4)[:, None] * directions[:, 0]
arm = np.maximum(progress - 0.4, 0)[:, None] * directions.T[1 + branch]
cells = 20 * (trunk + arm) + rng.normal(scale=0.4, size=(3000, 50))

# %%
# ``alpha=1`` removes the sampling density: how many cells were caught at a stage should not shape the map.

model = LandmarkDiffusionMap(3, "coifman", n_landmarks=400, alpha=1.0).fit(cells)

figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharex=True, sharey=True)
panels[0].scatter(*model.embedding_[:, :2].T, c=branch, s=5, cmap="Set2")
panels[0].set(xlabel="ψ₂", ylabel="ψ₃", title="branch")
panels[1].scatter(*model.embedding_[:, :2].T, c=progress, s=5)
panels[1].set(xlabel="ψ₂", title="progress")
plt.show()

# %%
# New cells are placed on the same map, without another fit:

print(model.transform(cells[:3]).round(3))
