"""The three data sets of the paper: one generator and two trajectories that ship with the package.

Nothing here is downloaded at run time, and loading needs no molecular-dynamics package.
"""

from ldmaps.datasets.molecules import MolecularFrames, alanine_dipeptide, c24h50
from ldmaps.datasets.swiss_roll import SwissRoll, swiss_roll

__all__ = ["MolecularFrames", "SwissRoll", "alanine_dipeptide", "c24h50", "swiss_roll"]
