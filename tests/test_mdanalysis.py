"""The analysis for MDAnalysis gives what the estimator gives, whoever reads the frames."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
from page_examples import run_block

from ldmaps import LandmarkDiffusionMap, load
from ldmaps.datasets import alanine_dipeptide
from ldmaps.errors import AtomOrderWarning, InvalidInputError

mda = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed")
datafiles = pytest.importorskip("MDAnalysisTests.datafiles", reason="pip install MDAnalysisTests")

from MDAnalysis.analysis.base import AnalysisBase  # noqa: E402

from ldmaps.mdanalysis import LandmarkDiffusionMapAnalysis  # noqa: E402

SETTINGS = {"n_components": 2, "n_landmarks": 25}

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis.*"),
    pytest.mark.filterwarnings("ignore:.*DCDReader currently makes independent timesteps.*"),
]


@pytest.fixture
def universe():
    return mda.Universe(datafiles.PSF, datafiles.DCD)


@pytest.fixture
def analysis(universe):
    return LandmarkDiffusionMapAnalysis(universe, "name CA", **SETTINGS)


@pytest.fixture(scope="module")
def estimator():
    """The map that scikit-learn's interface gives for the same frames."""
    atoms = mda.Universe(datafiles.PSF, datafiles.DCD).select_atoms("name CA")
    return LandmarkDiffusionMap(metric="rmsd", **SETTINGS).fit(atoms)


def test_the_map_is_that_of_the_estimator(analysis, estimator):
    found = analysis.run()
    assert isinstance(found, AnalysisBase)
    np.testing.assert_allclose(found.results.coordinates, estimator.embedding_, atol=1e-5)
    np.testing.assert_allclose(found.results.eigenvalues, estimator.eigenvalues_, atol=1e-5)
    assert found.results.inside.all()
    assert found.model.units_ == "nm"
    assert found.model.source_["atom_labels"] == estimator.source_["atom_labels"]
    np.testing.assert_array_equal(found.frames, np.arange(98))


@pytest.mark.parametrize(
    "backend", ["serial", "multiprocessing", pytest.param("dask", marks=pytest.mark.slow)]
)
def test_backends_give_the_same_map(backend, analysis, estimator):
    analysis.run()  # so that results of an earlier run are in the way
    workers = {} if backend == "serial" else {"n_workers": 2}
    found = analysis.run(backend=backend, **workers)
    np.testing.assert_allclose(found.results.coordinates, estimator.embedding_, atol=1e-5)
    assert set(found.results) == {"coordinates", "eigenvalues", "inside", "distance"}


def test_backends_are_declared_as_they_are():
    assert LandmarkDiffusionMapAnalysis.get_supported_backends() == ("serial", "multiprocessing", "dask")
    assert LandmarkDiffusionMapAnalysis._analysis_algorithm_is_parallelizable


@pytest.mark.parametrize("run", [{"start": 5, "stop": 90, "step": 7}, {"frames": [3, 50, 4]}])
def test_frames_of_a_run_are_embedded_in_a_map(run, universe, estimator, tmp_path):
    estimator.save(tmp_path / "map.ldm")
    analysis = LandmarkDiffusionMapAnalysis(universe, "name CA", model=load(tmp_path / "map.ldm")).run(**run)
    numbers = run.get("frames", range(5, 90, 7))
    np.testing.assert_array_equal(analysis.frames, numbers)
    np.testing.assert_allclose(analysis.times, np.asarray(numbers) + 1.0, rtol=1e-5)
    np.testing.assert_allclose(analysis.results.coordinates, estimator.embedding_[numbers], atol=1e-5)


def test_atoms_of_a_given_map_are_chosen_as_in_its_fit(analysis, universe):
    model = analysis.run().model
    again = LandmarkDiffusionMapAnalysis(universe, model=model).run(stop=4)
    np.testing.assert_allclose(again.results.coordinates, analysis.results.coordinates[:4], atol=1e-5)


def test_universes_in_memory(universe, estimator):
    universe.transfer_to_memory()
    found = LandmarkDiffusionMapAnalysis(universe, "name CA", **SETTINGS).run()
    np.testing.assert_allclose(found.results.coordinates, estimator.embedding_, atol=1e-5)


def test_several_files_are_one_trajectory(estimator):
    universe = mda.Universe(datafiles.PSF, [datafiles.DCD, datafiles.DCD])
    found = LandmarkDiffusionMapAnalysis(universe, "name CA", model=estimator).run()
    expected = np.concatenate([estimator.embedding_, estimator.embedding_])
    np.testing.assert_allclose(found.results.coordinates, expected, atol=1e-5)


def calphas_alone(universe, order):
    """Return a universe in memory of the Cα alone, in another order."""
    atoms = universe.select_atoms("name CA")[order]
    frames = np.array([atoms.positions for _ in universe.trajectory])
    alone = mda.Universe.empty(len(atoms), len(atoms), atom_resindex=np.arange(len(atoms)), trajectory=True)
    for name in ("names", "resnames", "resids"):
        alone.add_TopologyAttr(name, getattr(atoms, name))
    return alone.load_new(frames)


def test_several_universes_make_one_map(universe):
    """They may have other atoms besides, and the same in another order."""
    order = np.random.default_rng(0).permutation(len(universe.select_atoms("name CA")))
    groups = [universe.select_atoms("name CA"), calphas_alone(universe, order).atoms]
    with pytest.warns(AtomOrderWarning, match="atom group 1 has the model's atoms in another order"):
        model = LandmarkDiffusionMap(metric="rmsd", **SETTINGS).fit(groups)
    assert model.source_["files"] == ["atom group 0", "atom group 1"]
    twice = mda.Universe(datafiles.PSF, [datafiles.DCD, datafiles.DCD]).select_atoms("name CA")
    expected = LandmarkDiffusionMap(metric="rmsd", **SETTINGS).fit(twice)
    np.testing.assert_allclose(model.embedding_, expected.embedding_, atol=1e-5)
    with pytest.warns(AtomOrderWarning):
        np.testing.assert_allclose(model.transform(groups), model.embedding_, atol=1e-5)
    found = LandmarkDiffusionMapAnalysis(universe, "name CA", model=model).run(stop=5)
    np.testing.assert_allclose(found.results.coordinates, model.embedding_[:5], atol=1e-5)


@pytest.mark.parametrize(
    ("select", "message"),
    [("name CB", "atom group 1 has .* atoms"), (None, "also holds a ndarray; pass data of one kind")],
)
def test_several_universes_of_other_atoms_are_refused(select, message, universe):
    other = np.zeros((3, 4, 3)) if select is None else universe.select_atoms(select)
    with pytest.raises(InvalidInputError, match=message):
        LandmarkDiffusionMap(metric="rmsd", **SETTINGS).fit([universe.select_atoms("name CA"), other])


def test_molecules_that_the_box_has_split_are_joined():
    frames = 10 * alanine_dipeptide().frames[:60]
    bonds = [(atom, atom + 1) for atom in range(21)]
    universe = mda.Universe.empty(22, trajectory=True)
    universe.add_TopologyAttr("bonds", bonds)
    split = frames - frames.mean(axis=1, keepdims=True)
    split[:, :11, 0] += 30.0
    universe.load_new(split, dimensions=np.tile([30.0, 30, 30, 90, 90, 90], (60, 1)))
    found = LandmarkDiffusionMapAnalysis(universe, **SETTINGS).run()
    whole = LandmarkDiffusionMap(metric="rmsd", **SETTINGS).fit(0.1 * frames)
    np.testing.assert_allclose(found.model.epsilon_, whole.epsilon_, rtol=1e-3)
    kept = LandmarkDiffusionMapAnalysis(universe, periodic="keep", **SETTINGS).run()
    assert abs(kept.model.epsilon_ / whole.epsilon_ - 1) > 0.01


def test_a_map_and_settings_of_a_fit_exclude_each_other(universe, estimator):
    with pytest.raises(
        InvalidInputError, match="n_landmarks: settings of a fit, but model= is fitted already"
    ):
        LandmarkDiffusionMapAnalysis(universe, "name CA", model=estimator, n_landmarks=3)
    with pytest.raises(InvalidInputError, match="must be a fitted map"):
        LandmarkDiffusionMapAnalysis(universe, "name CA", model=LandmarkDiffusionMap())
    with pytest.raises(InvalidInputError, match="choose the same atoms with select"):
        LandmarkDiffusionMapAnalysis(universe, "name CB", model=estimator)


def test_metadata_of_the_mdakit_are_those_of_the_package():
    yaml = pytest.importorskip("yaml")
    root = Path(__file__).parents[1]
    stated = yaml.safe_load((root / "tools" / "mdakit.yaml").read_text())
    known = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert stated["python_requires"] == known["requires-python"]
    assert f"MDAnalysis{stated['mdanalysis_requires']}" in known["optional-dependencies"]["mdanalysis"]
    assert (stated["project_name"], stated["license"]) == (known["name"], known["license"])
    assert (stated["description"], stated["keywords"]) == (known["description"], known["keywords"])
    assert stated["publications"] == [known["urls"]["Paper"]]
    assert f"Development Status :: 4 - {stated['development_status']}" in known["classifiers"]
    assert stated["import_name"] == LandmarkDiffusionMapAnalysis.__module__


def test_the_example_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_block("docs/guide/packages.md", "MDAnalysis", 0)
    assert names["psi"].shape == (80, 2)
    assert len(names["rest"].frames) == 18
    assert load("closing.ldm").n_components_ == 2
