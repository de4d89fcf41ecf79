"""
Landmarks: the same map from M points instead of N
==================================================

An exact map compares every point with every other, and each new point with all of them. A landmark map keeps M
representatives, each weighted by how many points it stands for. It costs M² to solve, N·M to fit, and M per new point.
"""

# %%
# Where landmarks lie
# -------------------

import time

import matplotlib.pyplot as plt
import numpy as np

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.validation import nrmse

roll = swiss_roll(4000)
points, new = roll.points, swiss_roll(2000, random_state=1).points
exact = DiffusionMap(n_components=2, epsilon=3.2).fit(points)

figure, panels = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
for axes, kind in zip(panels, ["kmedoids", "pst", "uniform"], strict=True):
    count = None if kind == "pst" else 300
    model = LandmarkDiffusionMap(2, 3.2, landmarks=kind, n_landmarks=count).fit(points)
    axes.scatter(roll.arc_length, roll.height, s=2, color="0.8")
    chosen = model.landmark_indices_
    axes.scatter(
        roll.arc_length[chosen], roll.height[chosen], s=2 * np.sqrt(model.multiplicities_), color="C1"
    )
    axes.set(title=f"{kind}: M = {len(chosen)}", xlabel="along the roll")
panels[0].set_ylabel("across")
plt.show()

# %%
# ``kmedoids`` (the default) puts landmarks at the centres of M cells. ``pst``, the paper's pruned spanning tree, finds
# its own M so that every point is within √ε of a landmark. ``uniform`` draws landmarks at random, and leaves holes.
#
# How close to the exact map
# --------------------------
#
# Z is the root mean square deviation from the exact map in percent of its range, here on points that neither map has
# seen. ``extension="nystrom"`` is the paper's formula. ``extension="distilled"`` fits the coefficients of the same formula
# to the exact map: the cost per point is the same.

truth = exact.transform(new)
ranges = np.ptp(exact.embedding_, axis=0)
counts = [200, 400, 800, 1600]
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
for extension in ("nystrom", "distilled"):
    errors = []
    for count in counts:
        model = LandmarkDiffusionMap(2, 3.2, n_landmarks=count, extension=extension).fit(points)
        errors.append(nrmse(truth, model.transform(new), ranges=ranges))
    axes.loglog(counts, errors, "o-", label=extension)
axes.set(xlabel="landmarks M", ylabel="Z on new points, %")
axes.legend()
plt.show()

# %%
# What it saves
# -------------


def seconds(call):
    call()  # once untimed
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


slow = seconds(lambda: exact.transform(new))
quick = seconds(lambda: model.transform(new))
print(f"N = 4,000: {1e6 * slow / 2000:.1f} µs per point; M = {counts[-1]:,}: {1e6 * quick / 2000:.1f} µs")
