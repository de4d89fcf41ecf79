"""What the real PLUMED computes of exported maps, where there is one: PLUMED_KERNEL, or plumed on the PATH.

Without it, tests/export/test_plumed.py has an interpreter of PLUMED's manual.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax", reason="the module that reads xyz files differentiates with JAX")
from plumed_interpreter import read_xyz, write_forces

from benchmarks.plumed_maps import N_KINDS, computed, differences, exported, kernel, kinds, printed
from ldmaps.export import check_export

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        kernel() is None,
        reason="set PLUMED_KERNEL to the path of libplumedKernel.so to run exports in PLUMED",
    ),
    # Of fits to few frames.
    pytest.mark.filterwarnings("ignore::ldmaps.errors.LdmapsWarning"),
]
#: Eight characters per place in a reference file leave this of coordinates and forces.
ROUNDING = 1e-5


@pytest.fixture(scope="module")
def maps():
    """Return maps of all kinds, the benchmark's."""
    return kinds()


@pytest.mark.parametrize("place", range(N_KINDS))
def test_coordinates_and_forces(maps, place, tmp_path):
    kind = maps[place]
    found = max(differences(kernel(), kind, tmp_path, every=10))
    assert found < (ROUNDING if (tmp_path / "map.pdb").exists() else 1e-9), kind.name


def test_the_check_of_the_folder(maps, tmp_path):
    """README's own check, whose frames are in the numbering of the export."""
    folder = exported(maps[0], tmp_path)
    write_forces(
        folder / "forces.xyz",
        computed(kernel(), folder / "check.dat", read_xyz(folder / "check.xyz"))["forces"],
    )
    assert max(check_export([folder / "COLVAR", folder / "forces.xyz"]).values()) < ROUNDING


def test_the_wall_costs_four_kt_a_tenth_beyond_the_domain(maps, tmp_path):
    folder = exported(maps[0], tmp_path)
    text = (folder / "plumed.dat").read_text()
    reach = float(text.partition(" AT=")[2].split()[0])
    kept = [line for line in text.splitlines() if not line.startswith(("metad", "PRINT"))]
    (folder / "wall.dat").write_text("\n".join([*kept, "PRINT ARG=away,wall.bias FILE=WALL FMT=%.12g\n"]))
    frames = maps[0].frames[:1] * np.array([1.0, 1.5, 3.0])[:, None, None]
    computed(kernel(), folder / "wall.dat", frames)
    found = printed(folder / "WALL")
    beyond = np.maximum(found["away"] / reach - 1, 0)
    assert beyond[0] == 0
    assert beyond[-1] > 0.1
    np.testing.assert_allclose(found["wall.bias"], 4 * 2.494339 * (beyond / 0.21) ** 2, rtol=1e-4)


def test_columns_under_the_engines_names(maps, tmp_path):
    """The example prints what its check reads, and hills of its run push."""
    kind = maps[-1]
    folder = exported(kind, tmp_path)
    computed(kernel(), folder / "plumed.dat", kind.frames, rounds=2)
    assert (
        max(check_export([folder / "COLVAR"], model=kind.model, names=kind.export["names"]).values()) < 1e-6
    )
    assert printed(folder / "COLVAR")["metad.bias"].max() > 0
    assert (folder / "HILLS").exists()
