"""Gradients of the online step, against differences of it and against automatic differentiation from outside."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from point_sets import angles, sheet

from ldmaps import DiffusionMap, LandmarkDiffusionMap, kernels
from ldmaps.datasets import alanine_dipeptide
from ldmaps.errors import GradientError
from ldmaps.extension.domain import excess_with_gradient
from ldmaps.extension.embedder import Embedder, OnlineStep
from ldmaps.metrics import RMSD, EarthMover, Euclidean, Features, Hamming, Periodic

#: Small made-up data, on which the diagnosis of a fit is right and beside the point.
pytestmark = pytest.mark.filterwarnings("ignore::ldmaps.errors.OutlierWarning")

N_ATOMS = 6


def frames(n, seed, n_atoms=N_ATOMS, dtype=np.float64):
    """Frames of a floppy molecule, turned and moved at random."""
    rng = np.random.default_rng(seed)
    shape = np.random.default_rng(99).normal(size=(n_atoms, 3)) * [1.0, 0.7, 0.4]
    bend = rng.uniform(-1, 1, size=n)
    moved = shape + 0.5 * bend[:, None, None] * np.roll(shape, 1, axis=0)
    moved += 0.08 * rng.normal(size=(n, n_atoms, 3))
    turns = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
    turns *= np.linalg.det(turns)[:, None, None]
    return (moved @ turns + rng.normal(size=(n, 1, 3))).astype(dtype)


def wide(n, seed, dtype=np.float64):
    """More features than are kept by columns."""
    rng = np.random.default_rng(7)
    lift = rng.normal(size=(3, 40))
    return (sheet(n, seed) @ lift).astype(dtype)


WEIGHTS = np.array([1.0, 3.0, 0.0, 2.0, 0.5, 12.0])
#: name → metric, points, ε
KINDS = {
    "euclidean": (Euclidean(), sheet, 0.1),
    "euclidean, many features": (Euclidean(), wide, 3.0),
    "periodic": (Periodic(), angles, 0.3),
    "periodic, degrees": (Periodic([360.0, 180.0]), lambda *a: np.degrees(angles(*a)) * [1, 0.5], 700.0),
    "rmsd": (RMSD(), frames, 0.05),
    "rmsd, weights": (RMSD(WEIGHTS), frames, 0.05),
    "rmsd, align": (RMSD(superpose_on=[0, 1, 3, 5]), frames, 0.05),
    "rmsd, weights and align": (RMSD(WEIGHTS, superpose_on=[0, 2, 3, 4, 5]), frames, 0.05),
}
_fitted = {}


def fitted(kind, dtype=np.float64, **settings):
    """Return a map of a kind; fitted once for all tests."""
    key = kind, np.dtype(dtype), tuple(settings.items())
    if key not in _fitted:
        metric, points, epsilon = KINDS[kind]
        settings = {"n_landmarks": 40, "extension": "nystrom"} | settings
        model = LandmarkDiffusionMap(3, epsilon, metric=metric, n_threads=1, random_state=0, **settings)
        _fitted[key] = model.fit(np.asarray(points(300, 1), dtype=dtype))
    return _fitted[key]


def fresh(kind, n=5, dtype=np.float64):
    return np.asarray(KINDS[kind][1](n, 2), dtype=dtype)


def online_step(source_weights, coefficients, bandwidth):
    return OnlineStep(coefficients=coefficients, source_weights=source_weights, bandwidth=bandwidth)


def differences(function, X, step):
    """Return central differences of a function (n, …) → (n, k), point by point, of shape (n, k, …)."""
    flat = X.reshape(len(X), -1)
    columns = []
    for feature in range(flat.shape[1]):
        there, back = flat.copy(), flat.copy()
        there[:, feature] += step
        back[:, feature] -= step
        columns.append((function(there.reshape(X.shape)) - function(back.reshape(X.shape))) / (2 * step))
    stacked = np.stack(columns, axis=-1)
    return stacked.reshape(*stacked.shape[:2], *X.shape[1:])


def assert_close(found, wanted, relative):
    """Within a share of the largest entry of each point's gradient."""
    axes = tuple(range(1, wanted.ndim))
    scale = np.abs(wanted).max(axis=axes, keepdims=True)
    assert np.isfinite(found).all()
    assert (np.abs(found - wanted) <= relative * scale).all(), (np.abs(found - wanted) / scale).max()


# -- against differences -------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_what_central_differences_tend_to(kind):
    model, X = fitted(kind), fresh(kind)
    step = 1e-4 * np.sqrt(model.epsilon_)
    found = model.gradient(X)
    assert found.shape == (5, 3, *X.shape[1:])
    assert_close(found, differences(model.transform, X, step), 1e-6)


@pytest.mark.parametrize("kind", ["euclidean", "rmsd, weights"])
@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 0.5},
        {"alpha": 1.0, "diffusion_time": 2.0},
        {"diffusion_time": 1.5},
        {"extension": "distilled"},
        {"extension": "distilled", "diffusion_time": 1.0, "alpha": 1.0},
    ],
    ids=str,
)
def test_all_settings_and_both_extensions_have_gradients(kind, settings):
    model, X = fitted(kind, **settings), fresh(kind)
    step = 1e-4 * np.sqrt(model.epsilon_)
    assert_close(model.gradient(X), differences(model.transform, X, step), 1e-6)


def test_exact_map_has_gradients():
    model = DiffusionMap(2, 0.1, n_threads=1).fit(sheet(150, 1))
    X = sheet(4, 2)
    assert_close(model.gradient(X), differences(model.transform, X, 1e-5), 1e-6)


def test_more_landmarks_than_one_block_holds():
    molecule = alanine_dipeptide(stride=40)
    X = molecule.frames.astype(np.float64)
    model = LandmarkDiffusionMap(2, 1.36e-3, metric=RMSD(molecule.masses), n_landmarks=300).fit(X)
    some = X[5:8]
    assert_close(model.gradient(some), differences(model.transform, some, 1e-6), 1e-6)


# -- against automatic differentiation --------------------------------------------------


def jax_squares(jax, metric, x, z):
    """d² from x to all landmarks in terms of JAX alone; the rotation of RMSD is differentiated like all else."""
    jnp = jax.numpy
    if isinstance(metric, Euclidean):
        return ((x - z) ** 2).sum(axis=1)
    if isinstance(metric, Periodic):
        period = jnp.asarray(metric.period)
        difference = x - z
        return ((difference - period * jnp.round(difference / period)) ** 2).sum(axis=1)
    weights = np.ones(N_ATOMS) if metric.weights is None else metric.weights
    fit = np.zeros(N_ATOMS)
    aligned = slice(None) if metric.superpose_on is None else metric.superpose_on
    fit[aligned] = weights[aligned]
    weights, fit = weights / weights.sum(), fit / fit.sum()

    def square(z):
        moved, target = x - fit @ x, z - fit @ z
        left, _, right = jnp.linalg.svd((fit[:, None] * moved).T @ target)
        turn = left @ jnp.diag(jnp.array([1, 1, jnp.linalg.det(left @ right)])) @ right
        return weights @ ((moved - target @ turn.T) ** 2).sum(axis=1)

    return jax.vmap(square)(z)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_equals_automatic_differentiation(kind):
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    with jax.enable_x64(True):
        model, X = fitted(kind, extension="distilled"), fresh(kind, 20)
        embedder = model.embedder_
        z = embedder.metric.places(embedder.landmarks).values.reshape(-1, *X.shape[1:])
        weights = jnp.asarray(embedder.source_weights)

        def value(x):
            squares = jax_squares(jax, embedder.metric, x, jnp.asarray(z))
            shares = jax.nn.softmax(-squares / (2 * embedder.bandwidth) + jnp.log(weights))
            return jnp.asarray(embedder.coefficients) @ shares

        # Compiling well takes longer than the few calls do.
        jacobian = jax.jit(jax.jacrev(value), compiler_options={"xla_backend_optimization_level": 0})
        wanted = np.stack([jacobian(jnp.asarray(x)) for x in X])
        assert_close(model.gradient(X), wanted, 1e-9)


# -- superpositions ------------------------------------------------------------------------


def square_and_gradient(metric, x, z, dtype=np.float64):
    """Return d²(x, z) and its gradient by x for a single pair."""
    landmarks, points = metric.prepare(z[None], dtype), metric.prepare(x[None], dtype)
    squared = np.empty((1, 1), dtype)
    metric.squared_block(points, slice(0, 1), landmarks, slice(0, 1), squared)
    gradient = np.full((1, 1, x.size), np.nan, dtype)
    X = x.reshape(1, -1).astype(np.float64)
    metric.squares_gradient(landmarks)(X, squared, np.ones((1, 1, 1), dtype), gradient)
    return squared[0, 0], gradient.reshape(x.shape)


def svd_gradient(x, z, weights=None):
    """∂d²/∂x by the envelope theorem with the rotation from an SVD."""
    weights = np.ones(len(x)) if weights is None else weights
    weights = weights / weights.sum()
    x, z = x - weights @ x, z - weights @ z
    left, _, right = np.linalg.svd((weights[:, None] * x).T @ z)
    turn = left @ np.diag([1, 1, np.linalg.det(left @ right)]) @ right
    return 2 * weights[:, None] * (x - z @ turn.T)


def pairs():
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, 7, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turn *= np.linalg.det(turn)
    flat = x * [1, 1, 0]
    line = x * [1, 0, 0]
    two = rng.normal(size=(2, 2, 3))
    almost_mirror = x * [1, 1, -1] + 1e-3 * rng.normal(size=x.shape)
    return {
        "random": (x, z),
        "the same": (x, x @ turn.T + 4.0),
        "nearly the same": (x, x @ turn.T + 1e-5 * z),
        "half a turn": (x, x * [-1, -1, 1]),
        "mirror image": (x, x * [1, 1, -1]),
        "nearly a mirror image": (x, almost_mirror @ turn.T),
        "planar": (flat, flat @ turn.T + 0.1 * z),
        "both planar": (flat, (flat + 0.1 * z * [1, 1, 0]) @ turn.T),
        "line and molecule": (line @ turn.T, z),
        "nearly on a line": (line + 1e-6 * x, (line + 1e-6 * z) @ turn.T),
        "far from the origin": (x + 1e5, z - 1e5),
        "large": (1e8 * x, 1e8 * z),
        "tiny": (1e-8 * x, 1e-8 * z),
        "two atoms": (two[0], two[1]),
        "two atoms, opposite": (two[0], -two[0]),
    }


def assert_subgradient(x, z, squared, gradient):
    """No force, no torque, and the right slope along x itself: d² = G_x + G_z − 2 max tr(RᵀM), M linear in x."""
    x, z = x - x.mean(axis=0), z - z.mean(axis=0)
    rounding = 1e-13 * (np.abs(x).max() + np.abs(z).max())
    assert np.abs(gradient.sum(axis=0)).max() <= rounding
    assert np.abs(np.cross(x, gradient).sum(axis=0)).max() <= rounding * np.abs(x).max()
    slope = squared + ((x**2).sum() - (z**2).sum()) / len(x)
    assert abs((gradient * x).sum() - slope) <= 10 * rounding * (np.abs(x).max() + np.abs(z).max())


@pytest.mark.parametrize("case", [case for case in pairs() if case != "far from the origin"])
def test_gradient_of_one_distance_is_a_subgradient(case):
    x, z = pairs()[case]
    assert_subgradient(x, z, *square_and_gradient(RMSD(), x, z))


#: Whatever turns about the line superposes them as well.
NOT_UNIQUE = "line and molecule"


@pytest.mark.parametrize("case", [case for case in pairs() if case != NOT_UNIQUE])
def test_gradient_of_one_distance(case):
    x, z = pairs()[case]
    gradient = square_and_gradient(RMSD(), x, z)[1]
    scale = np.abs(x - x.mean(axis=0)).max() + np.abs(z - z.mean(axis=0)).max()
    loss = 1e-11 if case == "far from the origin" else 1e-13  # the input itself has lost five digits
    worst = {"nearly a mirror image": 1e-11, "nearly on a line": 1e-7}.get(case, loss)
    assert np.abs(gradient - svd_gradient(x, z)).max() <= worst * scale


@pytest.mark.parametrize(
    "case", [case for case in pairs() if case not in (NOT_UNIQUE, "far from the origin")]
)
def test_gradient_of_one_distance_in_single_precision(case):
    x, z = pairs()[case]
    gradient = square_and_gradient(RMSD(), x, z, np.float32)[1]
    scale = np.abs(x - x.mean(axis=0)).max() + np.abs(z - z.mean(axis=0)).max()
    worst = 1e-2 if case in ("nearly a mirror image", "nearly on a line") else 2e-6
    assert gradient.dtype == np.float32
    assert np.abs(gradient - svd_gradient(x, z)).max() <= worst * scale


@pytest.mark.parametrize(
    ("seed", "gap"),
    [*itertools.product(range(5), [0.3, 1e-2, 1e-4, 1e-6]), *((seed, 0.0) for seed in range(100))],
)
def test_superposition_that_is_hardly_unique(seed, gap):
    """Of M = Σ x zᵀ, s2 + s3 = gap: the rotation about one axis is determined ever less."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    centred = np.linalg.qr(basis - basis.mean(axis=0))[0][:, :3]
    sizes = np.array([1.0, 0.5, 0.5 - gap])
    x, z = centred * np.sqrt(sizes), centred * np.sqrt(sizes) * [1, 1, -1]
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turn *= np.linalg.det(turn)
    x = x @ turn
    squared, gradient = square_and_gradient(RMSD(), x, z)
    assert_subgradient(x, z, squared, gradient)
    if gap > 1e-5:
        assert np.abs(gradient - svd_gradient(x, z)).max() < 1e-14 / gap


@pytest.mark.parametrize("root", [5.0, 0.0, -5.0])
def test_a_root_without_a_newton_step_is_not_certain(root):
    """M = diag(3, 4, 0) makes the step's denominator 0 there: the step is infinite, and so may q be, above 0."""
    matrices, certain = np.diag([3.0, 4.0, 0.0]).reshape(9, 1), np.array([np.nan])
    kernels.quick_rotations(matrices, np.array([root]), certain)
    assert certain == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_root_between_the_two_largest_leads_to_the_same_rotation(dtype):
    # Of a mirrored octahedron, lambda is known; between it and the next root is a place, where the quartic's slope
    # is 0, from which a step of Newton has no bounds.
    octahedron, scale = np.concatenate([np.eye(3), -np.eye(3)]), np.array([1.0, 0.5, -0.45])
    metric, frame = RMSD(), (octahedron * scale).reshape(1, -1)
    add_up = metric.squares_gradient(metric.prepare(octahedron[None], dtype))

    def gradient(root):
        squared = np.array([[np.mean(frame**2) * 3 + 1.0 - 2.0 * root]], dtype)
        out = np.empty((1, 1, 18), dtype)
        add_up(frame, squared, np.ones((1, 1, 1), dtype), out)
        return out

    largest, next_one = scale @ [1, 1, 1] / 3, scale @ [1, -1, -1] / 3
    values = scale / 3
    flat = np.roots([1.0, 0.0, -(values @ values), -2.0 * values.prod()])
    (between,) = flat[(flat > next_one) & (flat < largest)]
    sides = np.geomspace(1e-17, 1e-2, 300)
    for beside in np.concatenate([-sides, [0.0], sides]):
        found = gradient(between + beside)
        np.testing.assert_allclose(found, gradient(largest), atol=1e-6)


def test_weights_of_one_distance():
    rng = np.random.default_rng(4)
    x, z = rng.normal(size=(2, 6, 3))
    gradient = square_and_gradient(RMSD(WEIGHTS), x, z)[1]
    np.testing.assert_allclose(gradient, svd_gradient(x, z, WEIGHTS), atol=1e-13)
    assert (gradient[2] == 0).all()


def test_one_atom_has_no_gradient_but_zero():
    x, z = np.array([[1.0, 2.0, 3.0]]), np.array([[0.0, 0.0, 5.0]])
    assert (square_and_gradient(RMSD(), x, z)[1] == 0).all()


@pytest.mark.parametrize("axis", range(3))
def test_atoms_exactly_on_a_line(axis):
    """M has one singular value that is not 0, so two axes of the superposition must be made up."""
    x, z = np.zeros((2, 4, 3))
    x[:, axis], z[:, (axis + 1) % 3] = [1.0, 2.0, 4.0, 7.0], [-2.0, -4.0, -8.0, -14.0]
    for metric, origin in ((RMSD(), 3.5), (RMSD(superpose_on=[0, 1, 2]), 7 / 3)):
        squared, gradient = square_and_gradient(metric, x, z)
        along = x[:, axis] - origin  # from where x is centred; z is twice as long
        assert squared == pytest.approx((along**2).mean())
        assert np.isfinite(gradient).all()
        assert (gradient * x).sum() == pytest.approx(-2 * (along**2).mean())


def test_aligned_atoms_on_a_line_give_a_finite_gradient():
    rng = np.random.default_rng(5)
    x, z = rng.normal(size=(2, 6, 3))
    for frame in (x, z):
        frame[:3] = np.arange(3)[:, None] * frame[0]
    gradient = square_and_gradient(RMSD(superpose_on=[0, 1, 2]), x, z)[1]
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).max() < 1e3


# -- invariances ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "rmsd" in kind])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rigid_motions_change_nothing(kind, dtype):
    model, X = fitted(kind, dtype), fresh(kind, 20)
    gradient = model.gradient(X).astype(np.float64)
    room = 50 * np.finfo(dtype).eps * np.abs(gradient).max() * N_ATOMS
    forces = gradient.sum(axis=2)
    torques = np.cross((X - X.mean(axis=1, keepdims=True))[:, None], gradient).sum(axis=2)
    assert np.abs(forces).max() <= room
    assert np.abs(torques).max() <= room * np.abs(X - X.mean(axis=1, keepdims=True)).max()


def test_gradient_turns_with_the_frame():
    model, X = fitted("rmsd, weights"), fresh("rmsd, weights")
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    turn *= np.linalg.det(turn)
    np.testing.assert_allclose(model.gradient(X @ turn + 3.0), model.gradient(X) @ turn, atol=1e-11)


def test_whole_periods_change_nothing():
    model, X = fitted("periodic"), fresh("periodic")
    shift = 2 * np.pi * np.array([3, -1])
    np.testing.assert_allclose(model.gradient(X + shift), model.gradient(X), rtol=1e-10, atol=1e-12)


# -- far away, few, and in what form ------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["euclidean", "euclidean, many features", "rmsd", "rmsd, weights and align"])
def test_far_outside_the_gradient_is_finite_and_flagged(kind, dtype):
    model, X = fitted(kind, dtype), 1e3 * fresh(kind)
    coordinates, gradient = model.transform_with_gradient(X.astype(dtype))
    assert np.isfinite(coordinates).all()
    assert np.isfinite(gradient).all()
    assert not model.coverage(X.astype(dtype)).inside.any()


def test_between_two_landmarks_where_all_kernels_underflow():
    z = np.array([[0.0, 1.0], [0.0, -1.0]])
    embedder = Embedder.build(
        Euclidean(),
        Euclidean().prepare(z),
        1.0,
        online_step(np.ones(2), np.array([[1.0], [-1.0]]), 1.0),
        np.ones(2),
    )
    x = np.array([[1e4, 0.3]])  # y = tanh(x₂), however far along the first axis
    np.testing.assert_allclose(embedder.gradient(x)[0, 0], [0.0, 1 / np.cosh(0.3) ** 2], rtol=1e-7, atol=1e-7)
    assert not embedder.coverage_of(embedder.extend(embedder.prepare(x))).inside[0]


@pytest.mark.parametrize("kind", ["euclidean", "periodic", "rmsd", "rmsd, align"])
def test_map_of_one_landmark_is_flat(kind):
    embedder = fitted(kind).embedder_
    alone = Embedder.build(
        embedder.metric,
        embedder.landmarks.take(np.array([3])),
        embedder.epsilon,
        online_step(np.ones(1), np.array([[2.0, -1.0]]), embedder.epsilon),
        np.ones(1),
    )
    extended, gradient = alone.extend_with_gradient(fresh(kind))
    assert (extended.coordinates == [2.0, -1.0]).all()
    assert (gradient == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_single_precision_agrees_with_double(kind):
    X = fresh(kind, 30)
    double, single = fitted(kind), fitted(kind, np.float32)
    embedder = double.embedder_
    # The same landmarks and coefficients, rounded.
    frames_or_rows = np.asarray(KINDS[kind][1](300, 1), dtype=np.float32)[double.landmark_indices_]
    rounded = Embedder.build(
        embedder.metric,
        embedder.metric.prepare(frames_or_rows),
        embedder.epsilon,
        online_step(embedder.source_weights, embedder.coefficients.T, embedder.bandwidth),
        embedder.squared_radii,
    )
    gradient = rounded.gradient(X.astype(np.float32))
    assert gradient.dtype == single.gradient(X.astype(np.float32)).dtype == np.float32
    assert_close(gradient.astype(np.float64), double.gradient(X), 1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_transform_and_cuts_change_nothing(kind):
    model, X = fitted(kind), fresh(kind, 700)
    coordinates, gradient = model.transform_with_gradient(X)
    assert (coordinates == model.transform(X)).all()
    parts = [model.gradient(X[i : i + 1]) for i in range(0, 700, 100)]
    tolerance = 1e-9 * np.abs(gradient).max()  # wide features: a matrix product rounds as it is cut
    np.testing.assert_allclose(np.concatenate(parts), gradient[::100], rtol=0, atol=tolerance)
    for n_threads in (1, 3):
        assert (model.embedder_.gradient(X, n_threads) == gradient).all()


def test_flat_frames_have_flat_gradients():
    model, X = fitted("rmsd"), fresh("rmsd")
    flat = model.gradient(X.reshape(len(X), -1))
    assert flat.shape == (5, 3, 3 * N_ATOMS)
    assert (flat.reshape(5, 3, N_ATOMS, 3) == model.gradient(X)).all()


def test_trajectories_are_differentiated_chunk_by_chunk():
    mdtraj = pytest.importorskip("mdtraj")
    molecule = alanine_dipeptide(stride=100)
    topology = mdtraj.Topology()
    chain = topology.add_chain()
    residue = topology.add_residue("ALA", chain)
    for name, element in zip(molecule.atom_names, molecule.elements, strict=True):
        topology.add_atom(name, mdtraj.element.get_by_symbol(element), residue)
    trajectory = mdtraj.Trajectory(molecule.frames, topology)
    model = LandmarkDiffusionMap(2, metric=RMSD(molecule.masses), n_landmarks=30).fit(trajectory)
    coordinates, gradient = model.transform_with_gradient(trajectory)
    assert gradient.shape == (len(molecule.frames), 2, 22, 3)
    assert (coordinates == model.transform(trajectory)).all()


def test_model_is_pickled_after_its_gradient_was_asked_for():
    model, X = fitted("rmsd"), fresh("rmsd")
    gradient = model.gradient(X)
    assert (pickle.loads(pickle.dumps(model)).gradient(X) == gradient).all()


# -- refusals -------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", [Hamming(), EarthMover(), "precomputed", lambda x, y: abs(x - y).sum()])
def test_metrics_without_gradient_say_so(metric):
    if isinstance(metric, EarthMover):
        pytest.importorskip("ot")
    X = np.random.default_rng(0).random((30, 3))
    if isinstance(metric, str):
        X = np.abs(X[:, :1] - X[:, :1].T)
    model = DiffusionMap(1, 1.0, metric=metric).fit(X)
    with pytest.raises(
        GradientError,
        match=r"the metric .* has no gradient.*need Euclidean, StandardizedEuclidean, Periodic, RMSD or Features",
    ):
        model.gradient(X[:2])


def test_gradient_of_an_unfitted_map():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        LandmarkDiffusionMap(2).gradient(np.zeros((2, 3)))


def test_ordinary_superpositions_take_the_quick_way():
    """A mistake in the quick way would not show in a gradient: lanes that do not pass its checks are found again."""
    rng = np.random.default_rng(6)
    count = 64
    wanted = np.einsum("ai,jak->jik", rng.normal(size=(4, 3)), rng.normal(size=(count, 4, 3)))
    left, sizes, right = np.linalg.svd(wanted)
    sign = np.linalg.det(left @ right)
    sizes[:, 2] *= sign
    matrices, certain = wanted.reshape(count, 9).T.copy(), np.empty(count)
    root = sizes.sum(axis=1) * (1 + 1e-6)  # as rounded as float32 has it
    kernels.quick_rotations(matrices, root, certain)
    left[:, :, 2] *= sign[:, None]
    q = (sizes[:, 0] + sizes[:, 1]) * (sizes[:, 1] + sizes[:, 2]) * (sizes[:, 0] + sizes[:, 2])
    clear = q > 2 * kernels.SMALLEST_Q * (sizes**2).sum(axis=1) ** 1.5
    assert clear.sum() > 50
    assert (certain[clear] == 1).all()
    np.testing.assert_allclose(matrices.T.reshape(-1, 3, 3)[clear], (left @ right)[clear], atol=1e-9)


def test_the_border_of_the_domain_belongs_to_it():
    step = online_step(np.ones(2), np.array([[1.0], [-1.0]]), 4.0)
    landmarks = Euclidean().prepare(np.array([[0.0], [1e4]]))
    embedder = Embedder.build(Euclidean(), landmarks, 4.0, step, np.ones(2))
    excess, gradient = excess_with_gradient(embedder, np.array([[2.0], [2.5]]))  # √ε is 2
    assert excess[0] == 0
    assert gradient[0, 0] == 0
    assert excess[1] > 0
    assert gradient[1, 0] > 0


@pytest.mark.parametrize(
    ("metric", "dtype", "factor"),
    [
        (Features(6, dihedrals=[[0, 1, 2, 3]], angles=[[3, 4, 5]]), np.float32, 1e-45),
        (Features(6, distances=[[0, 1]], contacts=[[1, 5]]), np.float32, 1e13),
        (RMSD(superpose_on=[0, 1, 2, 3]), np.float64, 1e150),
        (RMSD(), np.float64, 1e150),
    ],
)
def test_gradients_are_finite_for_atoms_that_coincide_or_are_far_away(metric, dtype, factor):
    frames = np.random.default_rng(0).normal(size=(100, 6, 3)).astype(dtype)
    model = LandmarkDiffusionMap(2, "connected", metric, n_landmarks=20).fit(frames)
    assert np.isfinite(model.gradient(factor * frames[:5])).all()
    assert model.gradient(frames[:5]).any()
