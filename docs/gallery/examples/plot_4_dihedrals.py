"""
Dihedral angles: a metric that wraps
====================================

Angles of 359° and 1° are two degrees apart. ``metric="periodic"`` measures them so.
"""

import matplotlib.pyplot as plt
import numpy as np

from ldmaps import LandmarkDiffusionMap
from ldmaps.metrics import Periodic

# %%
# Synthetic data: two dihedrals of a molecule with four states of different populations.

rng = np.random.default_rng(0)
centres = np.array([[-60, -45], [-70, 140], [175, 160], [60, 45]], dtype=float)
shares = [0.4, 0.35, 0.2, 0.05]
state = rng.choice(4, 4000, p=shares)
angles = centres[state] + rng.normal(scale=28, size=(4000, 2))
angles = (angles + 180) % 360 - 180

model = LandmarkDiffusionMap(3, 900.0, metric=Periodic(period=360.0), n_landmarks=200).fit(angles)

figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained", sharey=True)
for number, axes in enumerate(panels):
    dots = axes.scatter(*angles.T, c=model.embedding_[:, number], s=4)
    axes.set(
        xlabel="φ / °", title=f"ψ{number + 2}, λ = {model.eigenvalues_[number]:.3f}", xticks=[-180, 0, 180]
    )
panels[0].set(ylabel="ψ / °", yticks=[-180, 0, 180])
plt.show()

# %%
# The edge of the picture cuts the state at φ = 175° in two. The map does not: both halves have one colour.
