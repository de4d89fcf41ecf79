"""
A tolerance instead of a number of landmarks
============================================

How many landmarks are enough? Say how far the map may be from the exact one, in percent of the coordinates' ranges, and
``fit`` finds the fewest landmarks that keep Z of 99 % of new points below this.
"""

import matplotlib.pyplot as plt
import numpy as np

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.validation import point_errors

points, new = swiss_roll(3000).points, swiss_roll(2000, random_state=1).points
model = LandmarkDiffusionMap(n_components=2, epsilon=2.0, tolerance=1.0).fit(points)
print(f"M = {len(model.landmark_indices_)} landmarks")
print(model.certificate_)

# %%
# What the certificate says
# -------------------------
#
# Some points were held out: 40 % of them to find M, the others to judge the result, once. ``upper_bound`` is what Z of
# 99 % of new points does not exceed with a confidence of 95 %, ``zeta_bound`` what the error of none of these 99 % does.
# The worst 1 % are left out because a few rare points may have most of the error, and nobody can bound what was
# not seen; ``upper_bound_of_all`` tries to, by assuming a tail.
#
# Here the exact map is cheap, so we can look at the errors of 2,000 fresh points.

exact = DiffusionMap(n_components=2, epsilon=2.0).fit(points)
errors = point_errors(exact.transform(new), model.transform(new), ranges=np.ptp(exact.embedding_, axis=0))
best = np.sort(errors)[: int(0.99 * len(errors))]
print(
    f"Z of fresh points: {np.sqrt(np.mean(errors**2)):.2f} %; of 99 % of them: {np.sqrt(np.mean(best**2)):.2f} %"
)

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.hist(errors, bins=60)
axes.axvline(1.0, color="C1", label="tolerance (for the root mean square)")
axes.axvline(model.certificate_.zeta_bound, color="C2", label="99 % of new points are below")
axes.set(xlabel="error ζ of a point, %", ylabel="points")
axes.legend()
plt.show()

# %%
# Single points may exceed the tolerance: it bounds their root mean square. ``model.error_estimate``
# estimates the error of each point, without the exact map (:doc:`/error_estimates`).
