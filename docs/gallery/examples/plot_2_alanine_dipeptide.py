"""
Alanine dipeptide: basins and free energy
=========================================

20 ns of alanine dipeptide in water, 22 atoms. The distance is the mass-weighted RMSD after the best superposition.
"""

import matplotlib.pyplot as plt
import numpy as np

from ldmaps import LandmarkDiffusionMap
from ldmaps.analysis import free_energy_surface
from ldmaps.datasets import alanine_dipeptide
from ldmaps.metrics import RMSD
from ldmaps.regions import find_basins

molecule = alanine_dipeptide(stride=2)
model = LandmarkDiffusionMap(2, metric=RMSD(weights=molecule.masses), n_landmarks=300)
model.fit(molecule.frames)
print(f"ε = {model.epsilon_:.2e} nm², λ = {model.eigenvalues_.round(3)}")

# %%
# What the coordinates mean
# -------------------------
#
# Chemists look at the dihedrals φ and ψ. The map was not given them.


def dihedral(frames, atoms):
    """Return an angle of four atoms in degrees."""
    a, b, c = (frames[:, atoms[i + 1]] - frames[:, atoms[i]] for i in range(3))
    normal, other = np.cross(a, b), np.cross(b, c)
    sine = np.einsum("ij,ij->i", np.cross(normal, other), b) / np.linalg.norm(b, axis=1)
    return np.degrees(np.arctan2(sine, np.einsum("ij,ij->i", normal, other)))


names = list(zip(molecule.residue_numbers.tolist(), molecule.atom_names, strict=True))
chain = [names.index(key) for key in [(1, "C"), (2, "N"), (2, "CA"), (2, "C"), (3, "N")]]
phi, psi = dihedral(molecule.frames, chain[:4]), dihedral(molecule.frames, chain[1:])

figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharex=True, sharey=True)
for axes, angle, label in zip(panels, [psi, phi], ["ψ / °", "φ / °"], strict=True):
    dots = axes.scatter(*model.embedding_.T, c=angle, s=3, cmap="twilight")
    axes.set_xlabel("ψ₂")
    figure.colorbar(dots, label=label)
panels[0].set_ylabel("ψ₃")
plt.show()

# %%
# ψ₂ separates the right-handed helix (ψ ≈ −40°) from the extended forms; ψ₃ follows φ.
#
# Basins and free energy
# ----------------------

basins = find_basins(model, 2)
surface = free_energy_surface(model.embedding_)
figure, axes = plt.subplots(figsize=(5.6, 4.2), layout="constrained")
image = axes.contourf(*surface.centres(), surface.energy.T, levels=np.arange(0, 7), cmap="viridis")
axes.set(xlabel="ψ₂", ylabel="ψ₃")
figure.colorbar(image, label="free energy, k_B T")
plt.show()
for name, population in zip(basins.names, basins.populations, strict=True):
    print(f"{name}: {population:.0%}")
