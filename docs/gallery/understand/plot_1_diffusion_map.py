"""
What a diffusion map is
=======================

Points in many dimensions often lie near a surface of few: a molecule has hundreds of coordinates, but only some
slow motions. A diffusion map finds coordinates along that surface. It lets a walker hop at random between points,
near ones more often than far ones, and asks which differences between places take the walker longest to forget.

The Swiss roll is the textbook case: a flat sheet, rolled up in three dimensions.
"""

# %%
# Fit and look
# ------------
#
# A walker hops from x to y with a probability proportional to exp(−d(x, y)²/2ε). The number ε sets how far it hops.
# Here it is given as a number; the next page is about choosing it.

import matplotlib.pyplot as plt
import numpy as np

from ldmaps import DiffusionMap
from ldmaps.datasets import swiss_roll

roll = swiss_roll(4000)
model = DiffusionMap(n_components=2, epsilon=2.0).fit(roll.points)

figure = plt.figure(figsize=(9, 4), layout="constrained")
left = figure.add_subplot(1, 2, 1, projection="3d")
left.scatter(*roll.points.T, c=model.embedding_[:, 0], s=6)
left.set_title("points, coloured by ψ₂")
right = figure.add_subplot(1, 2, 2)
right.scatter(roll.arc_length, roll.height, c=model.embedding_[:, 0], s=6)
right.set(xlabel="position along the roll", ylabel="position across", title="the sheet, unrolled")
plt.show()

# %%
# ψ₂ follows the roll, not the straight line through it: two layers that are close in space are far apart for a walker who
# must stay on the points.
#
# Eigenvalues: how slow each coordinate is
# ----------------------------------------
#
# Each coordinate belongs to an eigenvalue λ of the walk. Differences along it shrink by the factor λ with each hop, so λ close
# to 1 means slow. The trivial pair, λ₁ = 1 with a constant ψ₁, is left out: the first coordinate is called ψ₂.

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.plot(np.arange(2, 2 + len(model.spectrum_)), model.spectrum_, "o-")
axes.set(xlabel="number of the eigenvalue", ylabel="λ")
plt.show()

# %%
# New points
# ----------
#
# ``transform`` projects points that were not in the fit. Each becomes a weighted mean over the
# points of the fit (Nyström's extension), so an exact map compares it with all N of them. Landmark maps, two pages on,
# compare it with a few hundred.

new = swiss_roll(5, random_state=1).points
print(model.transform(new).round(4))
