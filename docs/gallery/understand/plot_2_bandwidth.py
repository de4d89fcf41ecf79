"""
Choosing the bandwidth: ε
=========================

The bandwidth ε is a squared distance. No setting changes the map more. Choose a rule or give a number:

- ``epsilon="connected"``, the default, is the smallest ε at which hops of √ε reach every point.
- ``epsilon="coifman"`` looks at how the sum of all kernel entries grows with ε, and takes the steepest place.
- A number is used as it is.
"""

import warnings

import matplotlib.pyplot as plt

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
for axes, epsilon in zip(panels, [2.0, "connected", 8.0], strict=True):
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
# The connected ε must reach the most isolated point. After every fit ``diagnosis_`` says which points decide it, and how
# many points carry each coordinate; a warning names them when they are few. ``outliers=0.01`` leaves out at most 1 %.

with warnings.catch_warnings():
    warnings.simplefilter("ignore", LdmapsWarning)
    plain = DiffusionMap(n_components=2).fit(roll.points)
    robust = DiffusionMap(n_components=2, outliers=0.01).fit(roll.points)
print(f"connected: ε = {plain.epsilon_:.2f}; without the most isolated 1 %: ε = {robust.epsilon_:.2f}")
print(f"points that carry each coordinate: {plain.diagnosis_.participation.round()} of {len(roll.points)}")
