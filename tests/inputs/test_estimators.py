"""Estimators take trajectories as they take arrays, and know units and atoms."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from written_trajectories import STRIDE, mdtraj_trajectory

import ldmaps
from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide
from ldmaps.errors import AtomOrderWarning, InvalidInputError
from ldmaps.inputs import FrameChunk, FrameSource
from ldmaps.inputs.frame_blocks import block_of
from ldmaps.inputs.opening import as_source

MOLECULE = alanine_dipeptide(stride=STRIDE)
HEAVY = {"select": "not element H"}


@pytest.fixture(scope="module")
def model(files):
    source = ldmaps.inputs.open_files(files["trr"], top=files["top"], **HEAVY)
    return LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=40).fit(source)


def test_a_source_is_as_good_as_its_array(model):
    same = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=40).fit(
        MOLECULE.frames[:, MOLECULE.heavy_atoms]
    )
    np.testing.assert_allclose(model.embedding_, same.embedding_, atol=1e-5)
    assert model.units_ == "nm"
    assert same.units_ is None
    assert same.source_ is None
    assert model.source_["n_atoms"] == 10
    assert model.source_["n_points"] == len(MOLECULE)
    assert model.source_["select"] == "not element H"


@pytest.mark.parametrize("make", [DiffusionMap, LandmarkDiffusionMap])
def test_both_estimators_take_sources(files, make):
    source = ldmaps.inputs.open_files(files["trr"], top=files["top"], stride=2, **HEAVY)
    fitted = make(2, metric="rmsd").fit(source)
    np.testing.assert_allclose(fitted.transform(source), fitted.embedding_, atol=1e-5)


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_transform_does_not_depend_on_chunks(files, model, chunk):
    source = ldmaps.inputs.open_files(files["trr"], top=files["top"], chunk=chunk, **HEAVY)
    np.testing.assert_allclose(model.transform(source), model.embedding_, atol=1e-6)
    coverage = model.coverage(source)
    assert coverage.inside.all()
    assert len(coverage.nearest) == len(MOLECULE)


def test_frames_know_their_file(files):
    both = ldmaps.inputs.open_files([files["trr"], files["h5"]], top=files["top"], start=90, chunk=7, **HEAVY)
    record = LandmarkDiffusionMap(2, metric="rmsd").fit(both).training_
    n = len(MOLECULE) - 90
    np.testing.assert_array_equal(record.files, np.repeat([0, 1], n))
    np.testing.assert_array_equal(record.frames, [*range(90, 90 + n)] * 2)
    np.testing.assert_allclose(record.times, np.tile(MOLECULE.times[90:], 2), rtol=1e-6)


def test_source_survives_saving(model, tmp_path):
    model.save(tmp_path / "map.ldm")
    again = ldmaps.load(tmp_path / "map.ldm")
    assert again.source_ == model.source_
    assert again.units_ == "nm"


def test_mdtraj_trajectories(model):
    trajectory = mdtraj_trajectory().atom_slice(MOLECULE.heavy_atoms)
    np.testing.assert_allclose(model.transform(trajectory), model.embedding_, atol=1e-5)
    assert (
        LandmarkDiffusionMap(2, metric="rmsd").fit(trajectory).source_["atom_names"]
        == model.source_["atom_names"]
    )


def test_mdanalysis_groups_are_converted_to_nanometres(model, files):
    mda = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = mda.Universe(str(files["top"]), str(files["trr"]))
        universe.trajectory[3]
        group = universe.select_atoms("not element H")
        np.testing.assert_allclose(model.transform(group), model.embedding_, atol=1e-5)
        assert universe.trajectory.frame == 3
        whole = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=40).fit(universe)
    assert whole.units_ == "nm"
    assert whole.source_["n_atoms"] == 22
    np.testing.assert_allclose(
        model.transform(universe), model.embedding_, atol=1e-5
    )  # its selection applies
    with pytest.raises(
        InvalidInputError, match=r"has 4 atoms, but the map takes 10 \(selected by 'not element H'\)"
    ):
        model.transform(universe.select_atoms("name C*")[:4])


@pytest.mark.parametrize("periodic", ["whole", "keep"])
def test_groups_keep_their_order(files, periodic):
    """Also where molecules are read along to be made whole, and where a stream asks which atoms to read."""
    mda = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed")
    from ldmaps.streaming.sources.chosen_atoms import ChosenAtoms

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = mda.Universe(str(files["top"]), str(files["trr"]))
        for order in (np.arange(22)[::-1], np.array([7, 3, 12]), np.array([5, 5, 2])):
            group = universe.atoms[order]
            source = ldmaps.inputs.open_files(group, periodic=periodic, stop=3)
            np.testing.assert_allclose(source.read().frames, MOLECULE.frames[:3, order], atol=1e-5)
            chosen = ChosenAtoms("the stream", top=group, periodic=periodic)
            frames = MOLECULE.frames[:3] if chosen.to_read is None else MOLECULE.frames[:3, chosen.to_read]
            taken, good, _ = chosen.take(block_of(frames), np.arange(3))
            assert good.all()
            np.testing.assert_array_equal(taken.frames, MOLECULE.frames[:3, order])


def test_atoms_in_another_order_are_matched_by_name(model, files):
    import mdtraj

    shuffled = mdtraj.load(str(files["h5"])).atom_slice(MOLECULE.heavy_atoms)
    expected = model.transform(shuffled)
    shuffled.xyz[:, [1, 2]] = shuffled.xyz[:, [2, 1]]
    carbon, oxygen = shuffled.topology.atom(1), shuffled.topology.atom(2)
    carbon.name, oxygen.name = oxygen.name, carbon.name
    with pytest.warns(
        AtomOrderWarning, match=r"atom 1 of the model, ACE1-C, is atom 2 of the selection there"
    ):
        np.testing.assert_array_equal(model.transform(shuffled), expected)
    with pytest.warns(AtomOrderWarning):
        moved = model.gradient(shuffled)
    assert moved.shape == (*expected.shape, 10, 3)
    oxygen.name = "CX"
    with pytest.raises(
        InvalidInputError, match="atom 1 of the trajectory is ACE1-O, but ACE1-C in the frames"
    ):
        model.transform(shuffled)


def test_a_source_of_ones_own(model):
    class Replayed(FrameSource):
        n_atoms = 10

        def __iter__(self):
            frames = MOLECULE.frames[:, MOLECULE.heavy_atoms]
            for number in range(5):
                yield FrameChunk(frames[number : number + 1], np.array([number]), None, "")

    np.testing.assert_allclose(model.transform(Replayed()), model.embedding_[:5], atol=1e-5)


def test_frames_with_nan_are_named(model):
    trajectory = mdtraj_trajectory().atom_slice(MOLECULE.heavy_atoms)
    trajectory.xyz[7, 2, 1] = np.nan
    for use in (model.transform, LandmarkDiffusionMap(2, metric="rmsd").fit):
        with pytest.raises(InvalidInputError, match=r"frame 7 \(atom 2\) holds NaN"):
            use(trajectory)


def test_metrics_that_take_no_frames_say_so(files):
    source = ldmaps.inputs.open_files(files["xtc"], top=files["top"])
    with pytest.raises(InvalidInputError, match='use metric="rmsd"'):
        LandmarkDiffusionMap(2).fit(source)


# -- what people pass that looks like frames ------------------------------------------------------


def test_a_list_of_mdtraj_trajectories_is_read_one_after_the_other(model):
    whole = mdtraj_trajectory()
    parts = [whole[:60], whole[60:]]
    fitted = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=40).fit(
        [part.atom_slice(MOLECULE.heavy_atoms) for part in parts]
    )
    np.testing.assert_allclose(fitted.embedding_, model.embedding_, atol=1e-5)
    np.testing.assert_array_equal(fitted.training_.files, np.repeat([0, 1], [60, len(MOLECULE) - 60]))
    assert fitted.source_["files"] == ["trajectory 0", "trajectory 1"]


def test_a_list_of_trajectories_of_other_atoms_is_refused():
    whole = mdtraj_trajectory()
    with pytest.raises(InvalidInputError, match="trajectory 1 of the list has 10 atoms"):
        LandmarkDiffusionMap(metric="rmsd").fit([whole, whole.atom_slice(MOLECULE.heavy_atoms)])
    with pytest.raises(InvalidInputError, match="also holds a ndarray"):
        LandmarkDiffusionMap(metric="rmsd").fit([whole, whole.xyz])


@pytest.mark.parametrize("lengths", [(60, 20), (40, 40)])
def test_a_list_of_arrays_is_refused_with_the_remedy(model, lengths):
    arrays = [MOLECULE.frames[:length, MOLECULE.heavy_atoms] for length in lengths]
    for method in (LandmarkDiffusionMap(metric="rmsd").fit, model.transform):
        with pytest.raises(
            InvalidInputError, match=r"list of 2 arrays of shapes \(\d+, 10, 3\).*concatenate"
        ):
            method(arrays)
    with pytest.raises(InvalidInputError, match=r"numpy.concatenate"):
        DiffusionMap().fit([np.zeros((5, 2)), np.zeros((6, 2))])


def test_a_list_of_points_or_frames_is_still_an_array(model):
    frames = list(MOLECULE.frames[:20, MOLECULE.heavy_atoms])
    np.testing.assert_array_equal(model.transform(frames), model.transform(np.stack(frames)))
    points = [np.array([x, x % 3]) for x in range(12)]
    assert len(DiffusionMap(1).fit(points).embedding_) == 12


def test_mdanalysis_readers_are_refused_with_the_remedy(files):
    mdanalysis = pytest.importorskip("MDAnalysis", reason="its trajectories are what is passed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = mdanalysis.Universe(str(files["top"]), str(files["trr"]))
    steps = universe.trajectory
    for X in (steps, steps[::10], steps[[1, 5, 9]]):
        with pytest.raises(
            InvalidInputError, match=r"same memory; .*ldmaps.inputs.open_files\(u.select_atoms"
        ):
            LandmarkDiffusionMap(metric="rmsd").fit(X)


def test_frames_that_share_their_memory_are_refused_with_the_remedy(files):
    mdanalysis = pytest.importorskip("MDAnalysis", reason="it reads every frame into the same array")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        universe = mdanalysis.Universe(str(files["top"]), str(files["trr"]))
    count = len(universe.trajectory)
    frames = [step.positions for step in universe.trajectory]
    for X in (frames, tuple(frames)):
        with pytest.raises(
            InvalidInputError, match=rf"all {count} frames .* same memory.*ts\.positions\.copy\(\)"
        ):
            LandmarkDiffusionMap(metric="rmsd").fit(X)
    assert as_source([step.positions.copy() for step in universe.trajectory]) is None
    # Frames of one array are next to each other, not in the same place; a frame may stand in a list twice.
    assert as_source(list(MOLECULE.frames[:5])) is None
    assert as_source([MOLECULE.frames[0], MOLECULE.frames[0], MOLECULE.frames[1]]) is None


def test_the_remedy_for_periodic_images_is_one_that_fit_has():
    trajectory = mdtraj_trajectory(box=0.5).atom_slice([0, 8, 15])
    with pytest.raises(InvalidInputError, match=r"ldmaps\.inputs\.open_files\(\.\.\., periodic=\"keep\"\)"):
        LandmarkDiffusionMap(metric="rmsd").fit(trajectory)
    kept = ldmaps.inputs.open_files(trajectory, periodic="keep")
    assert LandmarkDiffusionMap(2, metric="rmsd").fit(kept).n_components_ == 2


def test_transform_takes_the_selection_of_the_fit(files, model):
    whole = mdtraj_trajectory()
    np.testing.assert_allclose(model.transform(whole), model.embedding_, atol=1e-5)
    np.testing.assert_allclose(
        model.transform(whole.atom_slice(MOLECULE.heavy_atoms)), model.embedding_, atol=1e-5
    )
    assert model.coverage(whole).inside.all()
