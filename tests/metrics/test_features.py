"""Internal coordinates: agreement with mdtraj, gradients, choice by names and bonds, model files and streams."""

from __future__ import annotations

import numpy as np
import pytest
from metrics.contract import MetricContract, squared_block

from ldmaps import LandmarkDiffusionMap, load
from ldmaps.errors import InvalidInputError
from ldmaps.inputs import Atoms
from ldmaps.metrics import Features, Periodic, resolve_metric
from ldmaps.metrics.features import CONTACT_RADIUS
from ldmaps.streaming import StreamEmbedder

DIHEDRALS = [[0, 1, 2, 3], [4, 2, 0, 5], [1, 2, 3, 4]]
ANGLES = [[0, 1, 2], [5, 0, 3]]
DISTANCES = [[0, 5], [2, 4]]
CONTACTS = [[1, 5]]


def mixed(**settings):
    return Features(6, dihedrals=DIHEDRALS, angles=ANGLES, distances=DISTANCES, contacts=CONTACTS, **settings)


def frames_of(n, rng, n_atoms=6):
    return 0.3 * rng.normal(size=(n, n_atoms, 3))


class FeaturesContract(MetricContract):
    single_tolerance = 1e-4

    def make_data(self, n, rng):
        return frames_of(n, rng)

    def make_narrow(self, data):
        return None


class TestDihedrals(FeaturesContract):
    def make_metric(self):
        return Features(6, dihedrals=DIHEDRALS)


class TestMixed(FeaturesContract):
    def make_metric(self):
        return mixed(names=[f"f{k}" for k in range(8)])


def atoms_of(*labels, bonds=(), elements=None):
    names = tuple(label.rpartition("-")[2] for label in labels)
    return Atoms(names, labels, None, elements, np.array(bonds, dtype=np.intp).reshape(-1, 2))


# -- the numbers ----------------------------------------------------------------


def test_values_are_those_of_mdtraj():
    md = pytest.importorskip("mdtraj")
    topology = md.Topology()
    residue = topology.add_residue("X", topology.add_chain())
    for _ in range(6):
        topology.add_atom("C", md.element.carbon, residue)
    frames = frames_of(200, np.random.default_rng(0)).astype(np.float32)
    trajectory = md.Trajectory(frames, topology)
    values = mixed().values(frames)
    expected = [
        md.compute_dihedrals(trajectory, DIHEDRALS, periodic=False),
        md.compute_angles(trajectory, ANGLES, periodic=False),
        md.compute_distances(trajectory, DISTANCES, periodic=False),
    ]
    apart = np.abs(values[:, :7] - np.concatenate(expected, axis=1))
    assert np.minimum(apart, np.abs(apart - 2 * np.pi)).max() < 3e-6  # mdtraj computes in single precision
    r = np.linalg.norm(frames[:, 1].astype(float) - frames[:, 5], axis=1)
    np.testing.assert_allclose(values[:, 7], 1 / (1 + (r / CONTACT_RADIUS) ** 6), rtol=1e-12)


def test_squares_are_those_of_a_naive_loop():
    rng = np.random.default_rng(1)
    scales = rng.uniform(0.5, 3, size=8)
    metric = mixed(scales=scales)
    frames = frames_of(9, rng)
    values = metric.values(frames)
    a = metric.prepare(frames)
    squared = squared_block(metric, a, a)
    for i in range(9):
        for j in range(9):
            apart = np.abs(values[i] - values[j])
            apart[:3] = np.minimum(apart[:3], 2 * np.pi - apart[:3])
            assert squared[i, j] == pytest.approx(((scales * apart) ** 2).sum(), rel=1e-12, abs=1e-15)


def test_nothing_depends_on_where_a_molecule_is_or_how_it_is_turned():
    rng = np.random.default_rng(2)
    frames = frames_of(5, rng)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    turn *= np.sign(np.linalg.det(turn))
    np.testing.assert_allclose(mixed().values(frames @ turn + 5.0), mixed().values(frames), atol=1e-9)
    mirrored = mixed().values(-frames)
    np.testing.assert_allclose(mirrored[:, :3], -mixed().values(frames)[:, :3], atol=1e-9)  # dihedrals see it
    np.testing.assert_allclose(mirrored[:, 3:], mixed().values(frames)[:, 3:], atol=1e-9)


def test_atoms_on_a_line_have_finite_features():
    line = np.zeros((1, 6, 3))
    line[0, :, 0] = np.arange(6)
    assert np.isfinite(mixed().values(line)).all()
    assert np.isfinite(mixed().values(np.zeros((1, 6, 3)))).all()


def test_distances_beside_other_features_count_ten_times():
    together, alone = mixed(), Features(6, distances=DISTANCES)
    assert together.parameters()["scales"].tolist() == [1.0] * 5 + [10.0] * 2 + [1.0]
    assert alone.parameters()["scales"].tolist() == [1.0, 1.0]
    assert (together.distance_unit("nm"), alone.distance_unit("nm")) == (None, "nm")
    assert Features(6, dihedrals=DIHEDRALS).distance_unit("nm") == "rad"
    assert together.describe() == "3 dihedrals, 2 angles, 2 distances times 10, 1 contact"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_are_central_differences(dtype):
    rng = np.random.default_rng(3)
    metric = mixed(scales=rng.uniform(0.5, 2.0, size=8))
    landmarks = metric.prepare(frames_of(5, rng), dtype)
    frames = frames_of(3, rng)
    shares = rng.normal(size=(3, 2, 5)).astype(dtype)
    gradient = np.full((3, 2, 18), np.nan, dtype)
    metric.squares_gradient(landmarks)(frames.reshape(3, -1), np.empty((3, 5), dtype), shares, gradient)
    exact = metric.import_points(
        {name: v.astype(float) for name, v in metric.export_points(landmarks).items()}
    )

    def sums(x):
        return np.einsum("nkm,nm->nk", shares, squared_block(metric, metric.prepare(x), exact))

    numeric = np.empty((3, 2, 18))
    for place, step in enumerate(1e-6 * np.eye(18).reshape(18, 6, 3)):
        numeric[:, :, place] = (sums(frames + step) - sums(frames - step)) / 2e-6
    tolerance = 1e-6 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(gradient, numeric, rtol=tolerance, atol=tolerance * np.abs(numeric).max())


# -- which ones -------------------------------------------------------------------


def peptide():
    """Return ACE-ALA-LYS without most hydrogens, and a water."""
    labels = "ACE1-CH3 ACE1-C ACE1-O ALA2-N ALA2-H ALA2-CA ALA2-CB ALA2-C ALA2-O LYS3-N LYS3-CA LYS3-C"
    labels += " LYS3-CB LYS3-CG LYS3-CD LYS3-CE LYS3-NZ HOH4-O HOH4-H1"
    bonds = [
        (0, 1),
        (1, 2),
        (1, 3),
        (3, 4),
        (3, 5),
        (5, 6),
        (5, 7),
        (7, 8),
        (7, 9),
        (9, 10),
        (10, 11),
        (10, 12),
    ]
    bonds += [(12, 13), (13, 14), (14, 15), (15, 16), (17, 18)]
    return atoms_of(*labels.split(), bonds=bonds, elements=tuple("CCONHCCCONCCCCCCNOH"))


def test_backbone_and_side_chains_are_found_by_name():
    found = Features.of(peptide(), "dihedrals")
    assert dict(zip(found.names, found.atoms, strict=True)) == {
        "phi ALA2": (1, 3, 5, 7),
        "psi ALA2": (3, 5, 7, 9),
        "omega LYS3": (5, 7, 9, 10),
        "phi LYS3": (7, 9, 10, 11),
    }
    gap = peptide()
    cut = Atoms(gap.names, gap.labels, None, gap.elements, np.delete(gap.bonds, 8, axis=0))
    assert Features.of(cut, "dihedrals").names[:1] == ["phi ALA2"]  # C and N of ALA2 and LYS3 are not bonded
    assert not any("LYS3" in name for name in Features.of(cut, "dihedrals").names if "omega" in name)
    sides = Features.of(peptide(), "chi")
    assert sides.names == ["chi1 LYS3", "chi2 LYS3", "chi3 LYS3", "chi4 LYS3"]
    assert sides.atoms[3] == (13, 14, 15, 16)
    pairs = Features.of(peptide(), "distances")
    assert pairs.atoms == [(5, 10)]


@pytest.mark.parametrize("word", ["dihedrals", "chi"])
def test_a_protein_has_the_torsions_that_mdtraj_finds(word):
    md = pytest.importorskip("mdtraj")
    files = pytest.importorskip("MDAnalysisTests.datafiles")
    topology = md.load_topology(files.PDB_small)
    import ldmaps.inputs

    found = Features.of(ldmaps.inputs.open_files(files.PDB_small), word)
    kinds = ("phi", "psi", "omega") if word == "dihedrals" else [f"chi{number}" for number in range(1, 6)]
    expected = [getattr(md.geometry.dihedral, f"indices_{kind}")(topology) for kind in kinds]
    assert sorted(found.atoms) == sorted(map(tuple, np.concatenate(expected).tolist()))


def test_other_molecules_have_all_torsions_of_bonded_heavy_atoms():
    chain = atoms_of(*(f"BEA{n}-B" for n in range(5)), bonds=[(0, 1), (1, 2), (2, 3), (3, 4)])
    assert Features.of(chain, "dihedrals").atoms == [(0, 1, 2, 3), (1, 2, 3, 4)]
    assert Features.of(chain, "angles").atoms == [(0, 1, 2), (1, 2, 3), (2, 3, 4)]
    assert Features.of(chain, "distances").n_features == 10
    assert Features.of(chain, "contacts").atoms == [(0, 3), (0, 4), (1, 4)]
    ring = atoms_of(*(f"LIG1-C{n}" for n in range(4)), bonds=[(0, 1), (1, 2), (2, 3), (3, 0)])
    assert Features.of(ring, "dihedrals").n_features == 4
    # Hydrogens are left out, by name where elements are unknown.
    labels = ["LIG1-C1", "LIG1-C2", "LIG1-C3", "LIG1-C4", "LIG1-H1", "LIG1-1H2"]
    ligand = atoms_of(*labels, bonds=[(0, 1), (1, 2), (2, 3), (0, 4), (3, 5)])
    assert Features.of(ligand, "dihedrals").atoms == [(0, 1, 2, 3)]
    both = Features.of(ligand, "dihedrals,distances")
    assert both.describe() == "1 dihedral, 6 distances times 10"


def test_a_file_lists_any_features(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text(
        "# a remark\n\ndistance ala2-ca LYS3-CA scale=4\nDihedral ACE1-C ALA2-N ALA2-CA ALA2-C  # phi\n"
        "angles 0 1 2\ncontact ALA2-CB LYS3-CB\n"
    )
    found = Features.of(peptide(), str(path))
    assert found.kinds == ["dihedral", "angle", "distance", "contact"]
    assert found.atoms == [(1, 3, 5, 7), (0, 1, 2), (5, 10), (6, 12)]
    assert found.parameters()["scales"].tolist() == [1.0, 1.0, 4.0, 1.0]
    assert found.names[2] == "distance ALA2-CA LYS3-CA"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("torsion 0 1 2 3", r"line 1: a feature is a kind and its atoms \(dihedral, angle"),
        ("distance 0 1 2", "line 1: a feature is a kind"),
        ("distance 0 ALA2-CX", "line 1: there is no atom ALA2-CX; .*similar are ALA2-"),
        ("distance 0 19", "there is no atom 19; .* counted from 0 to 18"),
        ("distance 0 1 scale=x", "scale=x must be scale= and a positive number"),
    ],
)
def test_mistakes_in_a_file_are_explained(tmp_path, text, message):
    path = tmp_path / "mine.txt"
    path.write_text(text + "\n")
    with pytest.raises(InvalidInputError, match=message):
        Features.of(peptide(), str(path))


def test_what_cannot_be_chosen_is_explained(tmp_path):
    with pytest.raises(
        InvalidInputError, match=r"no features 'dihedral', nor a file.*Did you mean 'dihedrals'"
    ):
        Features.of(peptide(), "dihedral")
    with pytest.raises(
        InvalidInputError, match=r"the 3 atoms have no dihedrals, and the topology has no bonds"
    ):
        Features.of(atoms_of("A1-B", "A2-B", "A3-B"), "dihedrals")
    with pytest.raises(InvalidInputError, match="these have none; give a topology"):
        Features.of(Atoms((), (), None), "dihedrals")
    many = atoms_of(*(f"BEA{n}-B" for n in range(500)))
    with pytest.raises(InvalidInputError, match="124,750 features of 500 atoms, but at most 100,000"):
        Features.of(many, "distances")
    (tmp_path / "same.txt").write_text("distance A1-B A2-B\n")
    with pytest.raises(InvalidInputError, match="several atoms are called A1-B"):
        Features.of(atoms_of("A1-B", "A1-B", "A2-B"), str(tmp_path / "same.txt"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "no feature is defined"),
        (
            {"dihedrals": [[0, 1, 2]]},
            r"dihedrals must be a list of 4 atom indices each, got int64 .*\(1, 3\)",
        ),
        ({"distances": [[0, 6]]}, "distances name atom 6, but frames have 6 atoms"),
        ({"angles": [[0, 1, 0]]}, r"angle 0, \[0, 1, 0\], contains the same atom twice"),
        ({"distances": [[0, 1]], "scales": [0.0]}, "scales must be 1 positive numbers"),
        ({"distances": [[0, 1]], "names": ["a", "b"]}, "names must be 1, one per feature, got 2"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        Features(6, **settings).prepare(np.zeros((1, 6, 3)))


def test_frames_of_other_atoms_are_refused():
    with pytest.raises(InvalidInputError, match=r"must have shape \(n, 6, 3\) or \(n, 18\), got \(2, 5, 3\)"):
        mixed().prepare(np.zeros((2, 5, 3)))
    with pytest.raises(InvalidInputError, match="the metric 'features' has no default: pass Features.of"):
        resolve_metric("features")


# -- maps -----------------------------------------------------------------------


def flapping_chain():
    """Return frames of six atoms with two states of a torsion, whose end is anywhere; and the states."""
    rng = np.random.default_rng(5)
    state = rng.choice([-1.0, 1.0], size=400)
    angle = state + 0.3 * rng.normal(size=400)
    frames = np.zeros((400, 6, 3))
    frames[:, 0] = [0, 0.1, 0]
    frames[:, 2] = [0.1, 0, 0]
    frames[:, 3] = frames[:, 2] + 0.1 * np.stack([0 * angle, np.cos(angle), np.sin(angle)], axis=1)
    frames[:, 4:] = rng.normal(size=(400, 2, 3))
    return frames.astype(np.float32), state


@pytest.mark.parametrize("extension", ["nystrom", "distilled"])
def test_a_map_is_fitted_saved_and_used_from_frames(tmp_path, extension):
    frames, state = flapping_chain()
    metric = Features(6, dihedrals=[[0, 1, 2, 3]])
    model = LandmarkDiffusionMap(
        2, epsilon="connected", metric=metric, n_landmarks=15, extension=extension
    ).fit(frames)
    alone = LandmarkDiffusionMap(
        2, epsilon="connected", metric=Periodic(), n_landmarks=15, extension=extension
    )
    alone.fit(metric.values(frames).astype(np.float32))
    np.testing.assert_allclose(model.transform(frames), alone.transform(metric.values(frames)), atol=1e-4)
    # The first coordinate tells the states from each other, though most atoms are elsewhere each time.
    assert np.abs(np.mean(np.sign(model.transform(frames)[:, 0]) * state)) == 1.0
    model.save(tmp_path / "map.ldm")
    again = load(tmp_path / "map.ldm")
    assert again.metric_.parameters().keys() == metric.parameters().keys()
    np.testing.assert_array_equal(again.transform(frames), model.transform(frames))
    # The landmarks' structures come along.
    points = again.map_.landmark_points
    shapes = again.metric_.structures(points, 6)
    chosen = frames[again.landmark_indices_].astype(float)
    np.testing.assert_allclose(shapes, chosen - chosen.mean(axis=1, keepdims=True), atol=1e-6)
    assert np.isfinite(model.gradient(frames[:3])).all()


def test_points_that_were_moved_have_no_frames_and_can_be_joined():
    metric = mixed()
    points = metric.prepare(frames_of(4, np.random.default_rng(0)))
    moved = metric.of_places().prepare(metric.places(points).values + 0.1)
    with pytest.raises(InvalidInputError, match="optimised landmarks have no corresponding structure"):
        metric.structures(moved, 6)
    assert len(metric.joined(points, moved)) == 8
    assert metric.joined(points, points).frames.shape == (8, 6, 3)


def test_gradients_are_those_of_jax():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    rng = np.random.default_rng(7)
    metric = Features(6, dihedrals=DIHEDRALS, angles=ANGLES)
    landmark, frame = frames_of(1, rng), frames_of(1, rng)

    def features(x):
        found = []
        for i, j, k, m in DIHEDRALS:
            b1, b2, b3 = x[j] - x[i], x[k] - x[j], x[m] - x[k]
            left, right = jnp.cross(b1, b2), jnp.cross(b2, b3)
            found.append(jnp.arctan2(jnp.linalg.norm(b2) * (b1 @ right), left @ right))
        for i, j, k in ANGLES:
            u, v = x[i] - x[j], x[k] - x[j]
            found.append(jnp.arccos(u @ v / (jnp.linalg.norm(u) * jnp.linalg.norm(v))))
        return jnp.stack(found)

    def squared(x):
        apart = features(x) - features(landmark[0])
        apart = jnp.concatenate([(apart[:3] + jnp.pi) % (2 * jnp.pi) - jnp.pi, apart[3:]])
        return (apart**2).sum()

    with jax.enable_x64(True):
        expected = np.asarray(jax.grad(squared)(jnp.asarray(frame[0])))
    gradient = np.empty((1, 1, 18))
    sums = metric.squares_gradient(metric.prepare(landmark))
    sums(frame.reshape(1, -1), np.empty((1, 1)), np.ones((1, 1, 1)), gradient)
    np.testing.assert_allclose(gradient.reshape(6, 3), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("far", [1e15, 1e20, 1e30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_frame_with_an_atom_far_away_is_refused_by_every_way_in(dtype, far):
    # As a run that became unstable writes it: finite, but its squares are not.
    rng = np.random.default_rng(0)
    model = LandmarkDiffusionMap(2, "connected", mixed(), n_landmarks=20).fit(
        frames_of(200, rng).astype(dtype)
    )
    frames = frames_of(3, rng).astype(dtype)
    frames[1, 5] = far
    for given in (frames, frames[1:2]):
        with pytest.raises(InvalidInputError, match=r"frame . has features .* its atom 5 is at 1e\+"):
            model.transform(given)
    assert model.embedder_.project_directly(frames[:1]) is not None
    assert model.embedder_.project_directly(frames) is None
    assert model.embedder_.quick_point(frames[1:2]) is None
    engine = StreamEmbedder(model)
    engine.run(frames, [lambda embedded: None])
    assert (engine.summary.records, engine.summary.rejected) == (2, 1)


def test_angles_alone_take_atoms_that_are_far_away():
    frames = frames_of(2, np.random.default_rng(0)).astype(np.float32)
    frames[1, 5] = 1e15
    assert np.isfinite(Features(6, dihedrals=DIHEDRALS, angles=ANGLES).pairwise(frames)).all()
