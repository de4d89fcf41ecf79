"""
Choosing the bandwidth: ε
=========================

The bandwidth ε is a squared distance. No setting changes the map more. Choose a rule or give a number:

- ``epsilon="bulk"``, the default, is the ε at which a typical point has 0.5 % of all points within √ε. Any half of
  the data gives the same.
- ``epsilon="connected"``, the paper's, is the smallest ε at which hops of √ε reach every point.
- ``epsilon="coifman"`` is the ε at which the sum of all kernel entries grows most steeply with ε, on logarithmic axes.
- A number is used as it is.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from ldmaps import DiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import DisconnectedError, LdmapsWarning

roll = swiss_roll(4000)

# %%
# Too small: the data are disconnected
# ------------------------------------
#
# If the random walk cannot get from one part of the data to another, the map cannot say how they relate. This is an error,
# and its message names an ε that works.

try:
    DiffusionMap(n_components=2, epsilon=0.01).fit(roll.points)
except DisconnectedError as error:
    print(error)

# %%
# Too large: short cuts
# ---------------------
#
# The layers of this roll are 6 apart. Once the walker can hop across, the coordinates follow space instead of the roll.

figure, panels = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
for axes, epsilon in zip(panels, [1.5, "bulk", 8.0], strict=True):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LdmapsWarning)  # of a walk that hardly moves
        model = DiffusionMap(n_components=2, epsilon=epsilon).fit(roll.points)
    axes.scatter(roll.arc_length, model.embedding_[:, 0] / abs(model.embedding_[:, 0]).max(), s=4)
    axes.set(xlabel="position along the roll", title=f"ε = {model.epsilon_:.3g}")
panels[0].set_ylabel("ψ₂")
plt.show()

# %%
# Along the roll ψ₂ should go one way, from end to end. In the last panel it turns back.
#
# One bad point can decide ε
# --------------------------
#
# The connected ε must reach the most isolated point. The default excludes such points from the fit, with a
# warning; they still receive coordinates. ``diagnosis_`` lists them, and reports how many points support each coordinate.

with warnings.catch_warnings():
    warnings.simplefilter("ignore", LdmapsWarning)
    broken = np.concatenate([roll.points, [[100.0, 0.0, 0.0]]])
    for rule in ("connected", "bulk"):
        model = DiffusionMap(n_components=2, epsilon=rule).fit(broken)
        print(f"{rule}: ε = {model.epsilon_:.3g}, left out: {model.diagnosis_.left_out}")
        print(f"points that carry each coordinate: {model.diagnosis_.participation.round()} of {len(broken)}")
