"""
A trajectory in Python
======================

From a trajectory to named metastable states with error bars, and to a second run on the same map. Each cell uses the
results of the one before it; a notebook of this page is at its end. You need
``pip install ".[trajectory,mdanalysis,plot]"``.
"""

# %%
# Read a trajectory
# -----------------
#
# The first lines write example files: 16 ns of alanine dipeptide in water (``traj.xtc``), the 4 ns that follow
# (``new.xtc``) and their topology. With files of your own, set ``folder`` to where they are.

import subprocess
import sys
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())
subprocess.run([sys.executable, "-m", "ldmaps", "demo", "--files", folder, "--force", "--quiet"], check=True)

import MDAnalysis as mda

universe = mda.Universe(folder / "top.pdb", folder / "traj.xtc")
heavy = universe.select_atoms("not element H")
print(f"{universe.trajectory.n_frames:,} frames, {heavy.n_atoms} heavy atoms")

# %%
# The map compares frames by the RMSD of these atoms, after superposition. Methyl hydrogens rotate all the time and
# would hide the slow motions, so they are left out: :doc:`which atoms </guide/settings>`. MDAnalysis uses Å and
# ldmaps nm; ldmaps converts. ``mdtraj.load(...)`` objects and plain arrays of shape (frames, atoms, 3) work as well.
#
# Fit the map
# -----------
#
# ``tolerance=1`` asks for the fewest landmarks with which new frames lie within 1 % of where the exact diffusion map
# of all frames would put them. To choose the number yourself, set ``n_landmarks`` instead.

from ldmaps import LandmarkDiffusionMap

model = LandmarkDiffusionMap(metric="rmsd", tolerance=1.0, random_state=0).fit(heavy)
print(model)

# %%
# The table answers three questions about each coordinate. *Reproducible*: would another run of this length show it
# again? *Correlation time* and *samples*: how slow is it, and how many independent samples does the run contain?
# *Kept*: coordinates that only repeat an earlier one ("follow" it), or that are noise, are not kept; the lines below
# the table give the reason. Two coordinates are left here. :doc:`/guide/output` explains every line.
#
# Error bars
# ----------
#
# Standard errors come from resampling blocks of frames that are several correlation times long. A fit draws 50
# resamples; ask for more if you need accurate 95 % intervals.

sampling = model.resample(200)
for mode in range(model.n_components_):
    name, value, interval = f"psi{mode + 2}", sampling.eigenvalues[mode], sampling.intervals[mode]
    time, error, independent = sampling.times[mode]
    print(
        f"{name}: eigenvalue {value:.4f}, 95 % interval {interval[0]:.4f} to {interval[1]:.4f}; correlation time "
        f"{time:.1f} ± {error:.1f} {sampling.unit}, {independent:.0f} independent samples"
    )

# %%
# What the coordinates are
# ------------------------
#
# Colour the map by what you know of the molecule: here by its two backbone dihedrals.

import matplotlib.pyplot as plt
from MDAnalysis.analysis.dihedrals import Ramachandran

angles = Ramachandran(universe.select_atoms("resname ALA")).run().results.angles[:, 0]
psi = model.embedding_

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for axis, angle, name in zip(axes, angles.T, ("φ", "ψ"), strict=True):
    dots = axis.scatter(*psi.T, c=angle, s=3, cmap="twilight", vmin=-180, vmax=180)
    axis.set(xlabel="ψ₂", title=f"coloured by the dihedral {name}")
    figure.colorbar(dots, ax=axis, label=f"{name} (degrees)")
axes[0].set_ylabel("ψ₃")
plt.show()

# %%
# ψ₂ of the map follows the dihedral ψ, ψ₃ follows the dihedral φ. (The two ψ have nothing to do with each other:
# ψ₂, ψ₃, … are the usual names of diffusion coordinates, ψ₁ being constant.)
#
# Metastable states
# -----------------
#
# ``find_basins`` groups the landmarks by PCCA+. Frames whose membership of a basin is at least 0.7 are its core, and
# a transition is counted when the core of another basin is entered.

from ldmaps.regions import count_transitions, find_basins, region_labels

basins = find_basins(model, names=["extended", "helical"])
labels = region_labels(psi, basins.regions)
moves = count_transitions(labels, basins.names, times=model.training_.times)
for number, name in enumerate(basins.names):
    mean = angles[labels == number].mean(axis=0)
    print(
        f"{name}: {basins.populations[number]:.1%} of the frames, mean φ {mean[0]:.0f}°, ψ {mean[1]:.0f}°, "
        f"dwell time {moves.dwell[number]:.0f} ± {moves.error[number]:.0f} ps"
    )
print("transitions from row to column:", moves.counts.tolist())

# %%
# The free energy along ψ₂, with error bars over blocks of the run:

model.plot.profile("psi2")
plt.show()

# %%
# Frames of each state
# --------------------
#
# ``representatives`` gives the landmark in the middle of each basin, ``FramePicks`` the frames of a region, which it
# writes as a trajectory for your viewer, or to start simulations from.

import numpy as np

from ldmaps.inputs import open_files
from ldmaps.regions import representatives

source = open_files(folder / "traj.xtc", top=folder / "top.pdb", select="not element H")
for name, landmark in representatives(model, basins.regions).items():
    frame = int(model.landmark_indices_[landmark])
    print(
        f"{name}: the representative is frame {frame}, φ {angles[frame, 0]:.0f}°, ψ {angles[frame, 1]:.0f}°"
    )

from ldmaps.analysis import FramePicks

picks = FramePicks.in_region(model, source, basins.regions["helical"])
picks.write(folder / "helical.xtc", folder / "top.pdb")
print(f"helical.xtc: {np.sum(labels == 1):,} frames")

# %%
# A second run
# ------------
#
# New frames are projected onto the same map, each at the cost of a few distances. ``coverage`` reports whether a
# frame is like those that the map was fitted to: where ``inside`` is False, its coordinates are extrapolated.

replica = mda.Universe(folder / "top.pdb", folder / "new.xtc").select_atoms("not element H")
new = model.transform(replica)
print(f"{model.coverage(replica).inside.mean():.1%} of the new frames are inside the map")

shares = [np.mean(region_labels(new, basins.regions) == number) for number in range(2)]
print(
    "share of the new frames in the cores:",
    dict(zip(basins.names, np.round(shares, 3).tolist(), strict=True)),
)

figure, axis = plt.subplots(figsize=(5.5, 4), layout="constrained")
axis.scatter(*psi.T, s=3, c="0.8", label="first run")
axis.scatter(*new.T, s=3, c="tab:red", label="second run")
axis.set(xlabel="ψ₂", ylabel="ψ₃")
axis.legend(markerscale=4)
plt.show()

# %%
# Do the two runs agree? 4 ns with a correlation time of 80 ps contain about 25 independent samples, so the standard error
# of a population of 27 % is about 9 %: 23 % and 27 % do not differ. To fit several runs together, pass the files to
# ``open_files`` as a list; ``model.resample(blocks="files")`` then takes error bars from the spread between runs.
#
# Save the map
# ------------
#
# A model file holds no code and can be shared. Every command of ``ldmaps`` reads it, for example
# ``ldmaps report mine.ldm``, which writes :doc:`a page to explore </guide/report>`.

model.save(folder / "mine.ldm")
