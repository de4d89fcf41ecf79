"""
A stream of sensor readings
===========================

Three sensors of a machine follow one cycle. A map of normal operation places each reading as it arrives, and says when
one is unlike everything the map was fitted on. ``examples/sensor_anomalies.py`` in the repository does the same at full
length, with four kinds of faults and two other detectors for comparison.
"""

import matplotlib.pyplot as plt
import numpy as np

from ldmaps import LandmarkDiffusionMap
from ldmaps.streaming import StreamEmbedder


def readings(n, seed):
    """Return readings of three sensors, and the phase of the cycle."""
    rng = np.random.default_rng(seed)
    phase = np.cumsum(rng.normal(2 * np.pi / 60, 0.01, size=n))
    clean = np.column_stack([np.sin(phase), np.cos(phase), np.sin(2 * phase)])
    return clean + rng.normal(scale=0.03, size=(n, 3)), phase


normal, phase = readings(5000, 0)
model = LandmarkDiffusionMap(2, 0.01, n_landmarks=300).fit(normal)

# %%
# After 600 readings one sensor sticks for a while. Its value alone is always normal.

stream, _ = readings(1000, 1)
stream[600:640, 2] = stream[599, 2]

coordinates, inside = [], []
for batch in StreamEmbedder(model).stream(stream):
    coordinates.append(batch.coordinates)
    inside.append(batch.coverage.inside)
coordinates, inside = np.concatenate(coordinates), np.concatenate(inside)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.scatter(*model.embedding_.T, c=phase % (2 * np.pi), cmap="twilight", s=4)
left.set(xlabel="ψ₂", ylabel="ψ₃", title="normal operation, by phase")
right.plot(stream[:, 2], color="0.6")
right.plot(
    np.flatnonzero(~inside), stream[~inside, 2], "o", markersize=3, color="C3", label="outside the map"
)
right.set(xlim=(540, 700), xlabel="reading", title="third sensor")
right.legend()
plt.show()
stuck = np.zeros(1000, dtype=bool)
stuck[600:640] = True
print(f"outside: {(~inside & stuck).sum()} of 40 stuck readings, {(~inside & ~stuck).sum()} of 960 others")
