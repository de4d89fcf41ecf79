"""
A tolerance instead of a number of landmarks
============================================

How many landmarks are enough? Say how far the map may be from the exact one on unseen points, in percent of the
coordinates' ranges, and ``fit`` finds the fewest landmarks that keep it.
"""

import matplotlib.pyplot as plt
import numpy as np

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.quality import zeta

points, new = swiss_roll(3000).points, swiss_roll(2000, random_state=1).points
model = LandmarkDiffusionMap(n_components=2, epsilon=2.0, tolerance=1.0).fit(points)
print(f"M = {len(model.landmark_indices_)} landmarks")
print(model.certificate_)

# %%
# What the certificate says
# -------------------------
#
# Some points were held out: half of them to find M, the others to judge the result, once. ``held_out_z`` is what was
# measured on the second half, ``upper_bound`` what Z of unseen points does not exceed with a confidence of 95 %.
#
# Here the exact map is cheap, so we can look at the errors of 2,000 fresh points.

exact = DiffusionMap(n_components=2, epsilon=2.0).fit(points)
errors = zeta(exact.transform(new), model.transform(new), ranges=np.ptp(exact.embedding_, axis=0))
print(f"Z of fresh points: {np.sqrt(np.mean(errors**2)):.2f} %")

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.hist(errors, bins=60)
axes.axvline(1.0, color="C1", label="tolerance (for the root mean square)")
axes.set(xlabel="error ζ of a point, %", ylabel="points")
axes.legend()
plt.show()

# %%
# Single points may exceed the tolerance: it bounds their root mean square. ``model.error_estimate``
# estimates the error of each point, without the exact map (:doc:`/error_estimates`).
