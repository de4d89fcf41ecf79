"""What PLUMED would compute of an exported map, by an interpreter of its manual (tests/plumed_interpreter.py)."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax", reason="the interpreter differentiates with JAX")
from plumed_interpreter import Plumed, read_references, read_xyz, write_forces

from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import InvalidInputError, LdmapsWarning
from ldmaps.export import check_export, export_map
from ldmaps.export.hills import hills_of
from ldmaps.export.plumed import coded_serial, filled
from ldmaps.metrics.base import squared_matrix

#: Many of these maps change in transitions alone, which an export warns of; tests/export/test_hills.py has its test.
pytestmark = pytest.mark.filterwarnings("ignore:.*within one hill width:ldmaps.errors.LdmapsWarning")

#: Eight characters per place leave errors of 5e-7 Å.
ROUNDING = 2e-6


@pytest.fixture(scope="module", params=["plain", "weighted", "aligned"])
def model(request):
    return request.getfixturevalue(request.param)


def in_system(frames, atoms):
    """Return frames of a larger system, with the map's atoms at such places."""
    system = np.zeros((len(frames), max(atoms) + 1, 3))
    system[:, atoms] = frames
    return system


def test_coordinates_and_forces_of_real_frames(model, frames, tmp_path):
    atoms = np.random.default_rng(3).permutation(40)[:22]  # among others, and in another order
    folder = export_map(model, tmp_path / "out", "plumed", atoms=atoms)
    some = frames[::100]
    found, forces = Plumed(folder / "check.dat").drive(in_system(some, atoms))
    psi, gradient = model.transform_with_gradient(some)
    for column, name in enumerate(["psi2", "psi3"]):
        assert np.abs(found[name] - psi[:, column]).max() < ROUNDING * np.ptp(psi[:, column])
    expected = in_system(-gradient.sum(axis=1), atoms)
    assert np.abs(forces - expected).max() < 10 * ROUNDING * np.abs(expected).max()


def test_away_is_below_the_wall_inside_the_domain_and_finite_far_away(model, frames, tmp_path):
    folder = export_map(model, tmp_path / "out", "plumed", atoms=range(22))
    plumed = Plumed(folder / "check.dat")
    inside = model.coverage(frames).inside
    wall = next(given for _, name, given in Plumed(folder / "plumed.dat").actions if name == "UPPER_WALLS")
    far = np.concatenate([frames[inside][::150], 30 * frames[:1]])
    found, _ = plumed.drive(far)
    assert found["away"][:-1].max() < float(wall["AT"]) < found["away"][-1]
    assert np.isfinite(found["psi2"]).all()
    squared = squared_matrix(model.metric_, model.embedder_.prepare(far), model.embedder_.landmarks)
    assert (found["away"] <= squared.min(axis=1) * (1 + ROUNDING)).all()


def test_the_wall_costs_four_kt_a_tenth_beyond_the_domain(model, frames, tmp_path):
    """A distance of 1.1 times the reach is a squared distance of 1.21 times its square."""
    folder = export_map(model, tmp_path / "out", "plumed", atoms=range(22))
    wall = next(given for _, name, given in Plumed(folder / "plumed.dat").actions if name == "UPPER_WALLS")
    text = (folder / "plumed.dat").read_text()
    kept = [line for line in text.splitlines() if not line.startswith(("metad", "PRINT"))]
    (folder / "wall.dat").write_text("\n".join([*kept, "PRINT ARG=away,wall.bias FILE=COLVAR FMT=%.12g\n"]))
    found, _ = Plumed(folder / "wall.dat").drive(np.stack([frames[0], 1.5 * frames[0], 3 * frames[0]]))
    beyond = np.maximum(found["away"] / float(wall["AT"]) - 1, 0)
    assert beyond[-1] > 0.1
    np.testing.assert_allclose(found["wall.bias"], 4 * 2.494339 * (beyond / 0.21) ** 2, rtol=1e-4)


def test_the_check_finds_the_map_and_a_wrong_order_of_atoms(model, tmp_path):
    folder = export_map(model, tmp_path / "out", "plumed", atoms=np.arange(22)[::-1])
    frames = read_xyz(folder / "check.xyz")
    plumed = Plumed(folder / "check.dat")
    _, forces = plumed.drive(frames)
    write_forces(folder / "forces.xyz", forces)
    agreements = check_export([folder / "COLVAR", folder / "forces.xyz"])
    assert list(agreements) == ["psi2", "psi3", "forces"]
    assert max(agreements.values()) < 10 * ROUNDING

    plumed.drive(np.roll(frames, 1, axis=1))
    with pytest.raises(InvalidInputError, match="psi. is .* in row .*numbers its atoms differently"):
        check_export([folder / "COLVAR"])
    plumed.drive(frames)
    write_forces(folder / "forces.xyz", -forces)
    with pytest.raises(InvalidInputError, match="^forces is "):
        check_export([folder / "COLVAR", folder / "forces.xyz"])


def test_a_map_of_columns(periodic, angles, frames, tmp_path):
    """Angles cross ±π here, and the map is asked at both sides."""
    text = "phi: TORSION ATOMS=5,7,9,15\npsi: TORSION ATOMS=7,9,15,17\n"
    folder = export_map(periodic, tmp_path / "out", "plumed", names=["phi", "psi"], define_columns=text)
    (folder / "check.dat").write_text(
        "INCLUDE FILE=map.dat\nPRINT ARG=phi,psi,psi2,psi3,away FILE=COLVAR FMT=%.12g\n"
    )
    some = np.unique([*range(0, len(frames), 30), *np.argsort(angles, axis=0)[[0, -1]].ravel()])
    found, _ = Plumed(folder / "check.dat").drive(frames[some])
    theirs = np.stack([found["phi"], found["psi"]], axis=1)
    assert np.allclose(theirs, angles[some], atol=1e-5)
    landmarks = periodic.metric_.places(periodic.embedder_.landmarks).values
    assert np.abs(theirs[:, None] - landmarks).max() > np.pi
    psi = periodic.transform(theirs)
    squared = squared_matrix(
        periodic.metric_, periodic.embedder_.prepare(theirs), periodic.embedder_.landmarks
    )
    h = periodic.embedder_.bandwidth
    assert np.allclose(found["away"], -2 * h * np.log(np.exp(-squared / (2 * h)).sum(axis=1)), rtol=1e-9)
    for column, name in enumerate(["psi2", "psi3"]):
        assert np.abs(found[name] - psi[:, column]).max() < 1e-9 * np.ptp(psi[:, column])


def test_the_example_prints_what_its_check_reads_under_the_engines_names(frames, tmp_path):
    """README's own command finds the columns p and q, which the table calls otherwise; of three, one never varies."""
    pairs = ((4, 16), (5, 17))
    distances = np.stack([np.linalg.norm(frames[:, a] - frames[:, b], axis=1) for a, b in pairs], axis=1)
    table = np.column_stack([distances[:, 0], np.full(len(frames), 7.0), distances[:, 1]])
    model = LandmarkDiffusionMap(2, metric="standardized", n_landmarks=6, extension="distilled").fit(table)
    model.source_ = {"kind": "table", "columns": ["near", "room", "far"]}
    names, text = ["p", "t", "q"], "p: DISTANCE ATOMS=5,17\nq: DISTANCE ATOMS=6,18"
    folder = export_map(model, tmp_path / "out", "plumed", names=names, define_columns=text)
    Plumed(folder / "plumed.dat").drive(frames[::50])
    readme = (folder / "README.md").read_text()
    assert "ldmaps export map.ldm --check COLVAR --names p,t,q\n" in readme
    assert max(check_export([folder / "COLVAR"], model=model, names=names).values()) < 1e-6
    with pytest.raises(InvalidInputError, match="has no column near"):
        check_export([folder / "COLVAR"], model=model)


def test_a_map_of_columns_on_one_scale(frames, tmp_path):
    """Of three columns one never varies, so that it needs no name in the formula."""
    pairs = ((4, 16), (5, 17))
    distances = np.stack([np.linalg.norm(frames[:, a] - frames[:, b], axis=1) for a, b in pairs], axis=1)
    table = np.column_stack([distances[:, 0], np.full(len(frames), 7.0), distances[:, 1]])
    model = LandmarkDiffusionMap(2, metric="standardized", n_landmarks=6, extension="distilled").fit(table)
    text = "a: DISTANCE ATOMS=5,17\nc: DISTANCE ATOMS=6,18"
    folder = export_map(model, tmp_path / "out", "plumed", names=["a", "b", "c"], define_columns=text)
    (folder / "check.dat").write_text(
        "INCLUDE FILE=map.dat\nPRINT ARG=psi2,psi3,away FILE=COLVAR FMT=%.12g\n"
    )
    found, _ = Plumed(folder / "check.dat").drive(frames[::50])
    psi = model.transform(table[::50])
    for column, name in enumerate(["psi2", "psi3"]):
        assert np.abs(found[name] - psi[:, column]).max() < 1e-9 * np.ptp(psi[:, column])


def test_a_map_of_columns_is_finite_far_away(tmp_path, frames):
    model = LandmarkDiffusionMap(2, n_landmarks=5, extension="distilled")
    model.fit(frames[:, 8, :2] + frames[:, 14, :2])
    folder = export_map(
        model,
        tmp_path / "out",
        "plumed",
        names=["a", "b"],
        define_columns="a: DISTANCE ATOMS=1,2\nb: DISTANCE ATOMS=1,3",
    )
    (folder / "check.dat").write_text(
        "INCLUDE FILE=map.dat\nPRINT ARG=psi2,psi3,away FILE=COLVAR FMT=%.12g\n"
    )
    places = np.zeros((2, 3, 3))
    places[:, 1, 0], places[:, 2, 1] = [0.1, 1000.0], [0.2, 500.0]
    found, _ = Plumed(folder / "check.dat").drive(places)
    psi = model.transform(np.array([[0.1, 0.2], [1000.0, 500.0]]))
    assert np.allclose(found["psi2"], psi[:, 0], rtol=1e-9)


def test_the_example_uses_what_plumed_knows(plain, tmp_path):
    folder = export_map(plain, tmp_path / "out", "plumed", atoms=range(22))
    actions = {name: given for _, name, given in Plumed(folder / "plumed.dat").actions}
    psi = plain.transform(plain.metric_.structures(plain.embedder_.landmarks, 22))[:, 0]
    grid = actions["METAD"]
    assert float(grid["GRID_MIN"]) < plain.embedder_.coefficients[0].min()
    assert float(grid["GRID_MAX"]) > plain.embedder_.coefficients[0].max()
    assert np.isclose(float(grid["SIGMA"]), hills_of(plain).widths[0], rtol=1e-3)
    assert float(grid["GRID_MIN"]) < psi.min()
    assert psi.max() < float(grid["GRID_MAX"])
    assert set(actions["PRINT"]["ARG"].split(",")) == {"psi2", "psi3", "away", "metad.bias", "wall.bias"}


def test_natural_units_take_numbers_as_they_are(frames, plain, tmp_path):
    folder = export_map(plain, tmp_path / "out", "plumed", atoms=range(22), units="lj")
    plumed = Plumed(folder / "check.dat")
    assert plumed.natural
    found, _ = plumed.drive(10 * frames[::200])  # what a file in σ was read as Å of
    psi = plain.transform(frames[::200])
    assert np.abs(found["psi2"] - psi[:, 0]).max() < ROUNDING * np.ptp(psi[:, 0])


def test_atoms_beyond_99999(plain, tmp_path):
    atoms = np.arange(22) + 99_990
    folder = export_map(plain, tmp_path / "out", "plumed", atoms=atoms)
    assert read_references(folder / "map.pdb", False)[0].serials == list(atoms + 1)
    assert [coded_serial(n) for n in (99_999, 100_000, 100_036, 43_770_015)] == [
        "99999",
        "A0000",
        "A0010",
        "ZZZZZ",
    ]
    with pytest.raises(InvalidInputError, match="43770016 does not fit"):
        coded_serial(43_770_016)


def test_digits_fill_the_column():
    assert [filled(value) for value in (0.0, 1.23456789, 12.3456789, 99999.96, 9.99999999)] == [
        "0.000000",
        "1.234568",
        "12.34568",
        "99999.96",
        "10.00000",
    ]


def test_atoms_far_apart_in_the_list_are_named(frames, tmp_path):
    from export.conftest import fitted

    from ldmaps.metrics import RMSD

    spread = frames.copy()
    spread[:, 11:] += [2.0, 0, 0]
    model = fitted(RMSD(), spread)
    with pytest.warns(
        LdmapsWarning, match=r"up to \d.* nm apart; PLUMED makes molecules whole in this order"
    ):
        folder = export_map(model, tmp_path / "out", "plumed", atoms=range(22))
    assert "a periodic box must be wider than twice that" in (folder / "README.md").read_text()
