"""The online step for any array library gives the coordinates and gradients of the map."""

from __future__ import annotations

import numpy as np
import pytest
from page_examples import run_block
from point_sets import angles, sheet

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.array_step import ArrayStep
from ldmaps.errors import GradientError, InvalidInputError
from ldmaps.metrics import RMSD, Features, Hamming, Periodic, StandardizedEuclidean

pytestmark = [
    #: Small made-up data, on which the diagnosis of a fit is right and beside the point.
    pytest.mark.filterwarnings("ignore::ldmaps.errors.OutlierWarning"),
    pytest.mark.filterwarnings("ignore::ldmaps.errors.BandwidthWarning"),
]

N_ATOMS = 6
#: For JAX: compiling well takes longer than the few calls do.
QUICKLY = {"compiler_options": {"xla_backend_optimization_level": 0}}
PAGE = ("docs/guide/packages.md", "torch and JAX arrays, with gradients")


def frames(n, seed):
    """Frames of a floppy molecule, turned and moved at random."""
    rng = np.random.default_rng(seed)
    shape = np.random.default_rng(99).normal(size=(N_ATOMS, 3)) * [1.0, 0.7, 0.4]
    bend = rng.uniform(-1, 1, size=n)
    moved = shape + 0.5 * bend[:, None, None] * np.roll(shape, 1, axis=0)
    moved += 0.08 * rng.normal(size=(n, N_ATOMS, 3))
    turns = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
    turns *= np.linalg.det(turns)[:, None, None]
    return moved @ turns + rng.normal(size=(n, 1, 3))


INTERNAL = Features(
    N_ATOMS,
    dihedrals=[[0, 1, 2, 3], [2, 3, 4, 5]],
    angles=[[0, 1, 2]],
    distances=[[0, 5], [1, 4]],
    contacts=[[0, 4]],
)
#: name → metric, points, ε
KINDS = {
    "euclidean": ("euclidean", sheet, 0.1),
    "standardized": (StandardizedEuclidean([1.0, 2.0, 0.5]), sheet, 0.1),
    "periodic": (Periodic([2 * np.pi, np.pi]), angles, 0.3),
    "rmsd": ("rmsd", frames, 0.05),
    "rmsd, weights": (RMSD([1.0, 3.0, 0.0, 2.0, 0.5, 12.0]), frames, 0.05),
    "rmsd, align": (RMSD([1.0, 3.0, 0.0, 2.0, 0.5, 12.0], superpose_on=[0, 2, 3, 4, 5]), frames, 0.05),
    "features": (INTERNAL, frames, 1.0),
    "euclidean, local": ("euclidean", sheet, "local"),
    "rmsd, local": ("rmsd", frames, "local"),
}
_fitted = {}


def fitted(kind, **settings):
    key = kind, *settings
    if key not in _fitted:
        metric, points, epsilon = KINDS[kind]
        model = LandmarkDiffusionMap(3, epsilon, metric=metric, n_landmarks=30, n_threads=1, **settings)
        _fitted[key] = model.fit(points(200, 1))
    return _fitted[key]


def new_points(kind, n=4):
    return KINDS[kind][1](n, 2)


def assert_gradients_agree(found, model, X):
    wanted = model.gradient(X)
    np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_arrays_get_the_coordinates_of_transform(kind):
    model, X = fitted(kind), new_points(kind)
    step = ArrayStep.of(model)
    np.testing.assert_allclose(step(X), model.transform(X), atol=1e-6)
    np.testing.assert_allclose(step(X.reshape(len(X), -1)), step(X), atol=1e-12)
    single = step(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, model.transform(X), atol=1e-3)


def test_distilled_maps_and_those_from_files(tmp_path):
    from ldmaps import load

    model, X = fitted("rmsd", extension="distilled"), new_points("rmsd")
    model.save(tmp_path / "map.ldm")
    np.testing.assert_allclose(ArrayStep.of(load(tmp_path / "map.ldm"))(X), model.transform(X), atol=1e-6)


def test_exact_maps_and_functions_on_maps():
    points = sheet(200, 1)
    exact = DiffusionMap(3, 0.1).fit(points)
    function = fitted("euclidean").function(points, points[:, 0], name="x")
    for model in (exact, function):
        np.testing.assert_allclose(ArrayStep.of(model)(points), model.transform(points), atol=1e-6)


def test_points_far_from_all_landmarks_are_finite():
    model = fitted("euclidean")
    far = np.full((1, 3), 1e4)
    np.testing.assert_allclose(ArrayStep.of(model)(far), model.transform(far), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_jax_differentiates_and_compiles_the_step(kind):
    jax = pytest.importorskip("jax")
    model, X = fitted(kind), new_points(kind)
    with jax.enable_x64(True):
        step, points = ArrayStep.of(model), jax.numpy.asarray(X)
        found = jax.jit(step, **QUICKLY)(points)
        assert isinstance(found, jax.Array)
        np.testing.assert_allclose(found, model.transform(X), atol=1e-6)
        jacobian = jax.jit(jax.vmap(jax.jacrev(lambda x: step(x[None])[0])), **QUICKLY)(points)
        assert_gradients_agree(np.asarray(jacobian), model, X)


TETRAHEDRON = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])


def degenerate_frames(kind, rng):
    """Frames whose quaternion matrices to landmarks have equal eigenvalues; all superpositions are unique."""
    if kind == "plane":  # the smaller eigenvalues are nearly equal
        return np.array([[0.0, 0, 0], [1, 0, 0], [0.3, 0.9, 0]]) + 0.2 * rng.normal(size=(80, 3, 3))
    if kind == "line":  # each eigenvalue is double; turns about the line change nothing
        along = np.cumsum(1.0 + 0.3 * rng.normal(size=(80, 4)), axis=1)
        return along[:, :, None] * np.array([0.6, 0.0, 0.8])
    others = 2.0 * rng.normal(
        size=(80, 2, 3)
    )  # a tetrahedron on itself: the three smaller eigenvalues are equal
    return np.concatenate([np.broadcast_to(TETRAHEDRON, (80, 4, 3)), others], axis=1)


def gradients_by_jax(step, X):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        return jax.jit(jax.vmap(jax.jacrev(lambda x: step(x[None])[0])), **QUICKLY)(jax.numpy.asarray(X))


def gradients_by_torch(step, X):
    torch = pytest.importorskip("torch")
    return torch.func.vmap(torch.func.jacrev(lambda x: step(x[None])[0]))(torch.tensor(X)).numpy()


@pytest.mark.parametrize("gradients", [gradients_by_jax, gradients_by_torch])
@pytest.mark.parametrize("kind", ["plane", "line", "tetrahedron"])
def test_gradients_where_eigenvalues_are_equal(kind, gradients):
    """At landmarks too, where all of d² is rounding."""
    X = degenerate_frames(kind, np.random.default_rng(0))
    metric = RMSD(superpose_on=[0, 1, 2, 3]) if kind == "tetrahedron" else "rmsd"
    model = LandmarkDiffusionMap(2, "connected", metric=metric, n_landmarks=20, n_threads=1).fit(X)
    some = X[np.concatenate([model.landmark_indices_[:2], [5, 6]])]
    step = ArrayStep.of(model)
    np.testing.assert_allclose(step(some), model.transform(some), atol=1e-6)
    assert_gradients_agree(np.asarray(gradients(step, some)), model, some)


@pytest.mark.parametrize("gradients", [gradients_by_jax, gradients_by_torch])
def test_gradients_are_finite_where_superpositions_are_not_unique(gradients):
    """Atoms on a line determine no superposition of those beside it."""
    rng = np.random.default_rng(0)
    X = np.concatenate([degenerate_frames("line", rng), rng.normal(size=(80, 2, 3))], axis=1)
    metric = RMSD(superpose_on=[0, 1, 2, 3])
    model = LandmarkDiffusionMap(2, "connected", metric=metric, n_landmarks=20, n_threads=1).fit(X)
    step = ArrayStep.of(model)
    assert np.isfinite(step(X)).all()
    assert np.isfinite(np.asarray(gradients(step, X[:3]))).all()


@pytest.mark.parametrize("kind", ["euclidean, local", "rmsd, local"])
def test_gradients_at_landmarks_with_factors_of_their_own(kind):
    model = fitted(kind)
    some = KINDS[kind][1](200, 1)[model.landmark_indices_[:3]]
    assert_gradients_agree(np.asarray(gradients_by_jax(ArrayStep.of(model), some)), model, some)


def test_constants_may_be_converted_once():
    jax = pytest.importorskip("jax")
    model, X = fitted("features"), new_points("features")
    with jax.enable_x64(True):
        step = ArrayStep.of(model).converted(jax.numpy.asarray)
        assert all(isinstance(value, jax.Array) for value in step.constants.values())
        np.testing.assert_allclose(step(jax.numpy.asarray(X)), model.transform(X), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_standard_alone_is_enough(kind):
    strict = pytest.importorskip("array_api_strict")
    model, X = fitted(kind), new_points(kind)
    found = ArrayStep.of(model)(strict.asarray(X))
    np.testing.assert_allclose(np.asarray(found), model.transform(X), atol=1e-6)


def test_maps_without_a_gradient_and_what_is_no_map_are_refused():
    rows = np.random.default_rng(0).integers(0, 2, size=(60, 12)).astype(float)
    model = LandmarkDiffusionMap(2, 4.0, metric=Hamming(), n_landmarks=20).fit(rows)
    with pytest.raises(
        GradientError, match="has no gradient, so it is not available for other array libraries"
    ):
        ArrayStep.of(model)
    with pytest.raises(InvalidInputError, match="only a fitted map"):
        ArrayStep.of(LandmarkDiffusionMap())


def test_the_example_of_the_page_for_jax():
    pytest.importorskip("jax")
    names = run_block(*PAGE, 0)
    wanted = names["model"].transform(names["frames"])
    np.testing.assert_allclose(names["psi"], wanted, atol=1e-3 * np.ptp(wanted))
    assert names["pull"].shape == (22, 3)


# -- torch, where it is installed --------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_torch_differentiates_the_module(kind):
    torch = pytest.importorskip("torch")
    from ldmaps.torch import LandmarkMap

    model, X = fitted(kind), new_points(kind)
    module, points = LandmarkMap(model), torch.tensor(X)
    np.testing.assert_allclose(module(points).numpy(), model.transform(X), atol=1e-6)
    np.testing.assert_allclose(ArrayStep.of(model)(points).numpy(), model.transform(X), atol=1e-6)
    assert torch.autograd.gradcheck(module, (points[:2].requires_grad_(),))
    jacobian = torch.func.vmap(torch.func.jacrev(lambda x: module(x[None])[0]))(torch.tensor(X))
    assert_gradients_agree(jacobian.numpy(), model, X)
    single = module.float()(points.detach().float())
    assert single.dtype == torch.float32


@pytest.mark.filterwarnings("ignore")  # of torch.export itself
@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_program_embeds_any_number_of_points(kind, tmp_path):
    torch = pytest.importorskip("torch")
    model = fitted(kind)
    path = model.export(tmp_path / "map.pt2", to="torch")
    program = torch.export.load(path).module()
    for n in (1, 5):
        X = new_points(kind, n)
        np.testing.assert_allclose(program(torch.tensor(X)).numpy(), model.transform(X), atol=1e-6)
    with pytest.raises(InvalidInputError, match="leave out units"):
        model.export(tmp_path / "map.pt2", to="torch", units="real")


def test_exports_to_torch_name_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(
        InvalidInputError, match="written with torch, which cannot be imported.*pip install torch"
    ):
        fitted("euclidean").export(tmp_path / "map.pt2", to="torch")


@pytest.mark.filterwarnings("ignore")
def test_the_example_of_the_page_for_torch(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    known = run_block(*PAGE, 0)
    names = run_block(*PAGE, 1, model=known["model"], frames=known["frames"])
    assert torch.isfinite(names["x"].grad).all()
    assert (tmp_path / "map.pt2").exists()
