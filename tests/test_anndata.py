"""Cells of an AnnData: what is read, what is written, and what scanpy and the command line make of it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from page_examples import run_block
from sklearn.decomposition import PCA

import ldmaps.inputs
from ldmaps import LandmarkDiffusionMap, load
from ldmaps.anndata import diffmap, project
from ldmaps.cli import main
from ldmaps.errors import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::ldmaps.errors.OutlierWarning")

SETTINGS = {"n_components": 3, "n_landmarks": 60}


def expression(n_cells=700, n_genes=30):
    """Cells along a branching path, in the space of genes."""
    rng = np.random.default_rng(0)
    along = rng.uniform(0, 3, n_cells)
    branch = rng.integers(0, 2, n_cells) * np.maximum(along - 1.5, 0)
    return np.column_stack([along, branch]) @ rng.normal(size=(2, n_genes)) + 0.1 * rng.normal(
        size=(n_cells, n_genes)
    )


def cells(X, make=None):
    """An AnnData, or an object with the same attributes where anndata is not installed."""
    analysis = PCA(5, random_state=0).fit(X)
    parts = {"X_pca": analysis.transform(X).astype(np.float32)}
    if make is None:
        return SimpleNamespace(X=X, obsm=parts, obs={}, uns={}, varm={"PCs": analysis.components_.T})
    adata = make(X, obsm=parts, varm={"PCs": analysis.components_.T})
    adata.uns["mean"] = analysis.mean_
    return adata


def test_coordinates_are_those_of_the_estimator():
    adata = cells(expression())
    model = diffmap(adata, **SETTINGS)
    wanted = LandmarkDiffusionMap(**SETTINGS).fit(adata.obsm["X_pca"])
    np.testing.assert_allclose(adata.obsm["X_ldmap"], wanted.transform(adata.obsm["X_pca"]), atol=1e-6)
    np.testing.assert_allclose(adata.uns["ldmap"]["eigenvalues"], wanted.eigenvalues_)
    assert adata.uns["ldmap"]["use_rep"] == "X_pca"
    assert adata.obs["ldmap_inside"].mean() > 0.9
    assert model.epsilon_ == adata.uns["ldmap"]["epsilon"]


def test_new_cells_are_projected_onto_the_map():
    adata = cells(expression())
    model = diffmap(adata, **SETTINGS)
    new = SimpleNamespace(
        obsm={"X_pca": np.concatenate([adata.obsm["X_pca"][:4], np.full((1, 5), 50)])}, obs={}, uns={}
    )
    project(new, model, key_added="map")
    np.testing.assert_allclose(new.obsm["X_map"][:4], adata.obsm["X_ldmap"][:4], atol=1e-6)
    assert new.obs["map_inside"].tolist() == [True] * 4 + [False]
    assert new.obs["map_p_value"][4] < 0.02


def test_maps_that_are_not_calibrated_have_no_p_values():
    adata = cells(expression(n_cells=80))
    diffmap(adata, n_components=2, n_landmarks=20)
    assert set(adata.obs) == {"ldmap_distance", "ldmap_inside"}


def test_the_matrix_itself_may_be_dense_but_not_sparse():
    adata = cells(expression())
    diffmap(adata, "X", **SETTINGS)
    adata.X = scipy.sparse.csr_matrix(adata.X)
    with pytest.raises(
        InvalidInputError, match=r"'X' is a sparse matrix of shape \(700, 30\).*scanpy.pp.pca"
    ):
        diffmap(adata, "X", **SETTINGS)


def test_what_is_missing_is_named():
    adata = cells(expression(n_cells=60))
    with pytest.raises(InvalidInputError, match=r"has no 'X_umap' \(there: 'X_pca'\); compute principal"):
        diffmap(adata, use_rep="X_umap")
    with pytest.raises(InvalidInputError, match="must be a fitted map.*ldmaps.anndata.diffmap"):
        project(adata, LandmarkDiffusionMap())


# -- anndata and h5py, where they are installed ------------------------------------------------------


@pytest.mark.filterwarnings("ignore")  # of anndata's own
def test_the_example_of_the_page_and_its_file(tmp_path, monkeypatch):
    anndata = pytest.importorskip("anndata")
    monkeypatch.chdir(tmp_path)
    adata = cells(expression(), anndata.AnnData)
    names = run_block("docs/guide/packages.md", "Single cells with AnnData", 0, adata=adata)
    new, reference = names["new"], names["reference"]
    assert new.obsm["X_ldmap"].shape == (100, 5)
    assert new.obs["ldmap_inside"].mean() > 0.8
    reference.write_h5ad("reference.h5ad")
    again = anndata.read_h5ad("reference.h5ad")
    np.testing.assert_array_equal(again.obsm["X_ldmap"], reference.obsm["X_ldmap"])
    np.testing.assert_array_equal(again.uns["ldmap"]["eigenvalues"], names["model"].eigenvalues_)


@pytest.mark.filterwarnings("ignore")  # of anndata's own
def test_cells_that_are_still_in_a_file(tmp_path):
    anndata = pytest.importorskip("anndata")
    adata = cells(expression(), anndata.AnnData)
    adata.X = scipy.sparse.csr_matrix(adata.X)
    adata.write_h5ad(tmp_path / "cells.h5ad")
    backed = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    diffmap(backed, **SETTINGS)
    diffmap(adata, **SETTINGS)
    np.testing.assert_array_equal(backed.obsm["X_ldmap"], adata.obsm["X_ldmap"])
    with pytest.raises(InvalidInputError, match="'X' is a sparse matrix of shape .*scanpy.pp.pca"):
        diffmap(backed, "X", **SETTINGS)
    backed.file.close()


@pytest.fixture
def h5ad(tmp_path):
    h5py = pytest.importorskip("h5py", reason="pip install h5py")
    adata = cells(expression())
    with h5py.File(tmp_path / "cells.h5ad", "w") as file:
        file["X"] = adata.X
        file["obsm/X_pca"] = adata.obsm["X_pca"]
    return tmp_path / "cells.h5ad", adata


def test_the_command_line_takes_principal_components_of_an_h5ad(h5ad, tmp_path):
    path, adata = h5ad
    model = str(tmp_path / "map.ldm")
    assert main(["fit", str(path), "-q", "--n-components", "3", "-m", "60", "-o", model]) == 0
    assert main(["embed", model, str(path), "-q", "-o", str(tmp_path / "psi.npy")]) == 0
    wanted = load(model).transform(adata.obsm["X_pca"])
    assert load(model).n_features_in_ == 5
    found = np.load(tmp_path / "psi.npy")
    np.testing.assert_allclose(found["psi2"], wanted[:, 0], atol=1e-6)


def test_another_array_of_an_h5ad_is_chosen_by_name(h5ad):
    path, adata = h5ad
    np.testing.assert_array_equal(ldmaps.inputs.open_files(path).read().frames, adata.obsm["X_pca"])
    np.testing.assert_allclose(ldmaps.inputs.open_files(path, array="X").read().frames, adata.X)
    with pytest.raises(
        InvalidInputError, match="has no array 'obsm/X_umap'; choose one of obsm/X_pca with array"
    ):
        ldmaps.inputs.open_files(path, array="obsm/X_umap")


def test_a_sparse_matrix_of_an_h5ad_is_refused_with_the_remedy(tmp_path):
    h5py = pytest.importorskip("h5py", reason="pip install h5py")
    with h5py.File(tmp_path / "raw.h5ad", "w") as file:
        file["X/data"] = np.ones(3)
    with pytest.raises(
        InvalidInputError, match="X as a sparse matrix.*principal components; store some with scanpy.pp.pca"
    ):
        ldmaps.inputs.open_files(tmp_path / "raw.h5ad")
    (tmp_path / "no.h5ad").write_bytes(b"not HDF5")
    with pytest.raises(InvalidInputError, match="no.h5ad cannot be read as an array"):
        ldmaps.inputs.open_files(tmp_path / "no.h5ad")


def test_h5py_is_named_where_it_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    (tmp_path / "cells.h5ad").write_bytes(b"x")
    with pytest.raises(InvalidInputError, match="cells.h5ad is read with h5py.*pip install h5py"):
        ldmaps.inputs.open_files(tmp_path / "cells.h5ad")
