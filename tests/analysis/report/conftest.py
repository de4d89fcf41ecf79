from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.analysis import write_report
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.metrics import RMSD


@pytest.fixture(scope="session")
def molecule():
    return alanine_dipeptide(stride=50)


@pytest.fixture(scope="session")
def molecule_map(molecule):
    model = LandmarkDiffusionMap(3, metric=RMSD(weights=molecule.masses), n_landmarks=60, extension="nystrom")
    model.fit(molecule.frames)
    model.units_ = "nm"
    model.training_ = replace(
        model.training_, frames=50 * np.arange(len(molecule)), times=molecule.times.astype(np.float64)
    )
    return model


@pytest.fixture(scope="session")
def roll():
    return swiss_roll(1500, random_state=0)


@pytest.fixture(scope="session")
def roll_map(roll):
    return LandmarkDiffusionMap(2, "coifman", n_landmarks=120, extension="nystrom").fit(roll.points)


@pytest.fixture(scope="session")
def molecule_page(molecule, molecule_map, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "alanine.html"
    zeta = np.linspace(0.01, 0.5, len(molecule))
    columns = {"end to end": molecule.frames[:, 0, 0], "half": np.arange(len(molecule)) % 2}
    write_report(
        molecule_map, path, title="Alanine <dipeptide>", columns=columns, errors=zeta, molecule=molecule
    )
    return path
