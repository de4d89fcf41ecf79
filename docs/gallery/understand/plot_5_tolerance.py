"""
A tolerance instead of a number of landmarks
============================================

How many landmarks are enough? Set how far the map may be from the exact one, in percent of the coordinates' ranges, and
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
# What the certificate guarantees
# -------------------------------
#
# Half of the points were held out: 40 % of these to find M, the others to certify the result. With 95 % confidence,
# ``upper_bound`` is an upper bound of Z for 99 % of new points, and ``zeta_bound`` of the error of each of these points.
# The worst 1 % are left out because a few rare points may have most of the error, which cannot be bounded if they were
# not seen. ``upper_bound_of_all`` includes them, and assumes how the tail of the errors continues.
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
