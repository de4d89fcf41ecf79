"""
Coverage: is a new point where the map was learned?
===================================================

A map gives coordinates to any point, even to one unlike everything it was fitted on. ``coverage`` identifies such points:
it returns the distance to the nearest landmark in units of √ε, and whether the point is inside the map's domain.
"""

import matplotlib.pyplot as plt
import numpy as np

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll

roll = swiss_roll(4000)
model = LandmarkDiffusionMap(2, 2.0, n_landmarks=400).fit(roll.points)

# %%
# A slice through the roll
# ------------------------
#
# We ask about a grid of points in the plane that cuts the roll in half.

x = np.linspace(-16, 18, 160)
z = np.linspace(-16, 18, 160)
middle = np.median(roll.points[:, 1])
grid = np.array([[a, middle, b] for b in z for a in x])
coverage = model.coverage(grid)

figure, axes = plt.subplots(figsize=(5.6, 4.6), layout="constrained")
image = axes.pcolormesh(x, z, coverage.distance.reshape(160, 160), cmap="Greys", vmax=4)
axes.contour(x, z, coverage.inside.reshape(160, 160), levels=[0.5], colors="C1")
near = abs(roll.points[:, 1] - middle) < 1
axes.scatter(roll.points[near, 0], roll.points[near, 2], s=4, color="C0")
axes.set(xlabel="x", ylabel="z", aspect="equal")
figure.colorbar(image, label="distance to the nearest landmark, √ε")
plt.show()

# %%
# Inside the orange line a point is no farther from its nearest landmark than √ε, or than the farthest point that this
# landmark stands for. In a stream, points outside are what to look at first: a new state of a molecule, a broken sensor, a
# wrong unit. ``ldmaps.absorbing.absorb`` learns from them (:doc:`/guide/extending`).
