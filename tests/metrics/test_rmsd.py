"""RMSD against superposition by singular values in extended precision, and against mdtraj.

Not checked here: speed (benchmarks/rmsd.py).
"""

import re

import numpy as np
import pytest
from metrics.contract import MetricContract, squared_block

from ldmaps.errors import InvalidInputError
from ldmaps.metrics import RMSD
from ldmaps.metrics.rmsd_frames import RMSDPoints

#: Largest error of d², in epsilons of (G_a + G_b)/Σw, whatever the structures.
EPSILONS = 8.0
DTYPES = [np.float32, np.float64]


# -- the oracle ---------------------------------------------------------------


def rotations(n, rng):
    q = rng.normal(size=(n, 4))
    w, x, y, z = (q / np.linalg.norm(q, axis=1, keepdims=True)).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def singular_vectors(m):
    """Return U, s and V of stacked 3×3 matrices, s descending: one-sided Jacobi in extended precision.

    numpy's SVD computes in float64, where the best rotation of mirror-like pairs has lost
    ten roundings already; it serves as a check.
    """
    u = m.copy()
    v = np.broadcast_to(np.eye(3, dtype=m.dtype), m.shape).copy()
    for _ in range(12):
        for p, q in ((0, 1), (0, 2), (1, 2)):
            pp, qq, pq = ((u[..., x] * u[..., y]).sum(-1) for x, y in ((p, p), (q, q), (p, q)))
            angle = np.where(pq == 0, 0, np.arctan2(2 * pq, pp - qq) / 2)
            c, s = np.cos(angle)[..., None], np.sin(angle)[..., None]
            for x in (u, v):
                x[..., p], x[..., q] = c * x[..., p] + s * x[..., q], c * x[..., q] - s * x[..., p]
    lengths = np.sqrt((u**2).sum(-2))
    order = np.argsort(-lengths, axis=-1)
    lengths = np.take_along_axis(lengths, order, -1)
    u, v = (np.take_along_axis(x, order[..., None, :], -1) for x in (u, v))
    checked = np.linalg.svd(m.astype(float), compute_uv=False)
    np.testing.assert_allclose(lengths.astype(float), checked, rtol=0, atol=1e-14 * checked.max())
    return u, lengths, v


def superposed(a, b, weights=None, superpose_on=None):
    """Return d² between all frames of a and b, and G_a + G_b, in extended precision."""
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    w = np.ones(a.shape[1]) if weights is None else np.asarray(weights)
    w = w.astype(np.longdouble) / w.astype(np.longdouble).sum()
    fit = np.zeros_like(w)
    chosen = slice(None) if superpose_on is None else np.asarray(superpose_on)
    fit[chosen] = w[chosen]
    fit /= fit.sum()
    a = a - np.einsum("k,nki->ni", fit, a)[:, None]
    b = b - np.einsum("k,nki->ni", fit, b)[:, None]
    norms = np.einsum("k,nki->n", w, a**2)[:, None] + np.einsum("k,nki->n", w, b**2)
    u, s, v = singular_vectors(np.einsum("nki,mkj->nmij", a * fit[:, None], b))
    if superpose_on is None:
        # The sign of the determinant, from directions that are at right angles.
        sign = np.sign((np.cross(u[..., 0], u[..., 1]) * u[..., 2]).sum(-1))
        sign *= np.sign((np.cross(v[..., 0], v[..., 1]) * v[..., 2]).sum(-1))
        trace = s[..., 0] + s[..., 1] + sign * s[..., 2]
    else:
        u = u / s[..., None, :]
        u[..., 2] = np.cross(u[..., 0], u[..., 1])
        v[..., 2] = np.cross(v[..., 0], v[..., 1])
        products = np.einsum("nki,mkj->nmij", a * w[:, None], b)
        trace = (u * (products @ v)).sum((-1, -2))
    return np.maximum(norms - 2 * trace, 0), norms


def block(a, b, dtype, **settings):
    metric = RMSD(**settings)
    return squared_block(metric, metric.prepare(a, dtype), metric.prepare(b, dtype))


def errors_in_epsilons(x, dtype, **settings):
    squared = block(x, x, dtype, **settings)
    assert np.isfinite(squared).all()
    assert (squared >= 0).all()
    wanted, norms = superposed(x, x, settings.get("weights"))
    return float((np.abs(squared - wanted) / (norms * np.finfo(dtype).eps)).max())


# -- structures ---------------------------------------------------------------


def mirrored(x):
    """Return x with every second frame reflected."""
    x = x.copy()
    x[::2, :, 0] *= -1
    return x


def similar(rng, n, atoms):
    return rng.normal(size=(atoms, 3)) + 0.05 * rng.normal(size=(n, atoms, 3))


def near_tetrahedra(rng, n, atoms):
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    noise = 10.0 ** rng.uniform(-17, 0, size=(n, 1, 1)) * rng.normal(size=(n, atoms, 3))
    return mirrored(np.resize(corners, (atoms, 3)) + noise)


STRUCTURES = {
    "similar": similar,
    "identical": lambda rng, n, atoms: np.repeat(rng.normal(size=(1, atoms, 3)), n, axis=0),
    "dissimilar": lambda rng, n, atoms: rng.normal(size=(n, atoms, 3)),
    "chains": lambda rng, n, atoms: np.cumsum(rng.normal(size=(n, atoms, 3)), axis=1),
    "planar": lambda rng, n, atoms: rng.normal(size=(n, atoms, 3)) * [1, 1, 0],
    "collinear": lambda rng, n, atoms: rng.normal(size=(n, atoms, 3)) * [1, 0, 0],
    "nearly planar": lambda rng, n, atoms: mirrored(similar(rng, n, atoms) * [1, 1, 1e-4]),
    "nearly collinear": lambda rng, n, atoms: rng.normal(size=(n, atoms, 3)) * [1, 1e-3, 1e-4],
    "elongated": lambda rng, n, atoms: rng.normal(size=(n, atoms, 3)) * [1, 0.05, 0.03],
    "mirror images": lambda rng, n, atoms: mirrored(similar(rng, n, atoms)),
    "exact mirror images": lambda rng, n, atoms: mirrored(
        np.repeat(rng.normal(size=(1, atoms, 3)), n, axis=0)
    ),
    "degenerate mirror images": near_tetrahedra,
    "far away": lambda rng, n, atoms: similar(rng, n, atoms) + np.array([1e4, -2e4, 3e4]),
    "in metres": lambda rng, n, atoms: 1e-10 * similar(rng, n, atoms),
    "huge": lambda rng, n, atoms: 1e12 * rng.normal(size=(n, atoms, 3)),
    "of all sizes": lambda rng, n, atoms: (
        10.0 ** rng.uniform(-3, 3, size=(n, 1, 1)) * rng.normal(size=(n, atoms, 3))
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", STRUCTURES)
def test_error_is_a_few_roundings_for_every_kind_of_structure(kind, dtype):
    for seed, atoms in enumerate([2, 3, 4, 5, 8, 22, 24, 63, 64, 65, 130, 500]):
        rng = np.random.default_rng(seed)
        x = STRUCTURES[kind](rng, 26, atoms)
        turned = x @ rotations(26, rng) if kind != "far away" else x
        assert errors_in_epsilons(turned, dtype) <= EPSILONS, f"{atoms} atoms"


@pytest.mark.parametrize("dtype", DTYPES)
def test_error_stays_bounded_over_a_sweep_of_shapes(dtype):
    # Small molecules of random flatness and handedness meet every near-degenerate case sooner or later.
    for seed in range(30):
        rng = np.random.default_rng(seed)
        atoms = int(rng.integers(3, 12))
        axes = 10.0 ** rng.uniform(-6, 0, size=3) * (rng.random(3) < 0.9)
        axes[0] = 1.0
        shape = rng.normal(size=(atoms, 3)) * axes
        noise = 10.0 ** rng.uniform(-8, 0.5, size=(40, 1, 1)) * rng.normal(size=(40, atoms, 3)) * axes
        x = mirrored(shape + noise) @ rotations(40, rng) + 10 * rng.normal(size=(40, 1, 3))
        assert errors_in_epsilons(x, dtype) <= EPSILONS, f"seed {seed}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_triple_root_is_found(dtype):
    # s = (1, 1, −1)/3: three of the four roots coincide, so no iteration on the quartic is accurate.
    tetrahedron = np.array([[1.0, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    squared = block(tetrahedron[None], -tetrahedron[None], dtype)
    np.testing.assert_allclose(squared, [[4.0]], rtol=8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_mirror_images_differ_but_turned_copies_do_not(dtype):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1, 9, 3))
    turned = x @ rotations(1, rng) + 3.0
    reflected = x * [1, 1, -1]
    assert block(x, turned, dtype)[0, 0] <= 16 * np.finfo(dtype).eps * superposed(x, x)[1][0, 0]
    assert block(x, reflected, dtype)[0, 0] > 0.01


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_atom_is_at_distance_zero(dtype):
    x = np.random.default_rng(0).normal(size=(5, 1, 3))
    assert not block(x, x, dtype).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_frames_without_extent(dtype):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4, 3))
    x[1] = x[1, 0]
    squared = block(x, x, dtype)
    wanted, norms = superposed(x, x)
    np.testing.assert_allclose(squared, wanted.astype(float), atol=8 * np.finfo(dtype).eps * norms.max())
    assert squared[1, 1] == 0


# -- invariants ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["similar", "dissimilar", "mirror images", "degenerate mirror images"])
def test_is_symmetric_to_the_last_bit(kind, dtype):
    for atoms in (4, 22, 100):
        x = STRUCTURES[kind](np.random.default_rng(1), 70, atoms)
        squared = block(x, x, dtype)
        np.testing.assert_array_equal(squared, squared.T)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cuts_do_not_change_a_bit(dtype):
    rng = np.random.default_rng(2)
    metric = RMSD()
    x = np.concatenate([STRUCTURES["dissimilar"](rng, 60, 8), near_tetrahedra(rng, 60, 8)])
    points = metric.prepare(x, dtype)
    whole = squared_block(metric, points, points)
    for rows, cols in (
        (slice(0, 1), slice(0, 120)),
        (slice(31, 97), slice(13, 14)),
        (slice(119, 120), slice(119, 120)),
        (slice(5, 22), slice(3, 118)),
        (slice(40, 120), slice(1, 7)),
    ):
        np.testing.assert_array_equal(squared_block(metric, points, points, rows, cols), whole[rows, cols])
    one = squared_block(metric, metric.prepare(x[77:78], dtype), points)
    np.testing.assert_array_equal(one[0], whole[77])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 4, 5, 8, 9, 21])
@pytest.mark.parametrize("weights", [None, [0, 1, 2, 0, 1, 3, 1, 0]], ids=["all atoms", "some atoms"])
def test_a_frame_is_prepared_alike_whatever_comes_with_it(weights, n, dtype):
    rng = np.random.default_rng(n)
    x = np.concatenate([STRUCTURES["dissimilar"](rng, n, 8), near_tetrahedra(rng, n, 8)])[
        rng.permutation(2 * n)
    ]
    x[rng.integers(2 * n), :, 2] = 0
    metric = RMSD(weights)
    together = metric.export_points(metric.prepare(x, dtype))
    one_by_one = [metric.export_points(metric.prepare(frame[None], dtype)) for frame in x]
    for name, axis in (("coordinates", 0), ("moments", 1)):
        np.testing.assert_array_equal(
            together[name], np.concatenate([one[name] for one in one_by_one], axis=axis)
        )


@pytest.mark.parametrize("kept", ["read-only", "at an odd byte", "transposed"])
@pytest.mark.parametrize("given", DTYPES)
def test_frames_are_read_wherever_they_stand(given, kept):
    x = np.random.default_rng(0).normal(size=(11, 7, 3)).astype(given)
    if kept == "read-only":
        y = x.copy()
        y.flags.writeable = False
    elif kept == "at an odd byte":
        y = np.frombuffer(b"?" + x.tobytes(), dtype=given, offset=1).reshape(x.shape)
        assert not y.flags.aligned
    else:
        y = x.transpose(2, 1, 0).copy().transpose(2, 1, 0)
    np.testing.assert_array_equal(RMSD().prepare(y).panels, RMSD().prepare(x).panels)


@pytest.mark.parametrize("n_atoms", [3, 22])
@pytest.mark.parametrize(
    "extents", [(1, 1, 1), (1, 0.3, 0.1), (1, 1, 1e-6), (1, 1, 0), (1, 1e-7, 1e-7), (1, 0, 0)]
)
def test_frames_stand_in_their_own_axes_to_rounding(extents, n_atoms):
    rng = np.random.default_rng(7)
    x = (rng.normal(size=(300, n_atoms, 3)) * extents) @ rotations(300, rng)
    frames = RMSD().export_points(RMSD().prepare(x))["coordinates"]
    covariance = np.einsum("nki,nkj->nij", frames, frames)
    moments = np.diagonal(covariance, axis1=1, axis2=2)
    np.testing.assert_allclose(moments.sum(axis=1), 1, rtol=1e-14)
    off = covariance - moments[:, :, None] * np.eye(3)
    assert np.abs(off).max() < 8 * np.finfo(float).eps
    assert (np.diff(moments, axis=1) < 8 * np.finfo(float).eps).all()


def test_an_offset_leaves_every_bit_where_differences_are_exact():
    x = np.random.default_rng(9).integers(-1000, 1000, (9, 22, 3)) / 256
    near, far = (RMSD().export_points(RMSD().prepare(x + offset)) for offset in (0.0, 2.0**40))
    np.testing.assert_array_equal(far["coordinates"], near["coordinates"])
    np.testing.assert_array_equal(far["moments"], near["moments"])


@pytest.mark.parametrize("thickness", [1e-70, 1e-81, 1e-100, 1e-170])
def test_extents_whose_squares_underflow_are_kept(thickness):
    x = np.random.default_rng(8).normal(size=(9, 12, 3)) * [1, thickness, thickness]
    structures = RMSD().structures(RMSD().prepare(x), 12)
    centred = x - x.mean(axis=1, keepdims=True)
    along, across = centred[:, :, :1], centred[:, :, 1:] / thickness
    # The long axis takes up what goes along with it.
    across -= along * ((along * across).sum(axis=1) / (along**2).sum(axis=1))[:, None]
    wanted = (across**2).sum(axis=(1, 2))
    np.testing.assert_allclose(((structures[:, :, 1:] / thickness) ** 2).sum(axis=(1, 2)), wanted, rtol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
def test_does_not_change_with_rotation_and_translation(dtype):
    rng = np.random.default_rng(5)
    x = rng.normal(size=(30, 10, 3))
    moved = x @ rotations(30, rng) + 5 * rng.normal(size=(30, 1, 3))
    _, norms = superposed(x, x)
    atol = 2 * EPSILONS * np.finfo(dtype).eps * float(norms.max())
    np.testing.assert_allclose(block(moved, moved, dtype), block(x, x, dtype), rtol=0, atol=atol)


def test_offset_costs_single_precision_nothing():
    rng = np.random.default_rng(6)
    x = similar(rng, 20, 22)
    offset = np.array([2.0**14, -(2.0**15), 2.0**13])
    near, far = block(x, x, np.float32), block(x + offset, x + offset, np.float32)
    np.testing.assert_allclose(far, near, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["similar", "dissimilar", "mirror images"])
def test_triangle_inequality(kind):
    x = STRUCTURES[kind](np.random.default_rng(7), 40, 6)
    d = np.sqrt(block(x, x, np.float64))
    assert (d[:, None] <= d[:, :, None] + d[None] + 1e-7).all()


def test_agrees_with_mdtraj():
    mdtraj = pytest.importorskip("mdtraj")
    rng = np.random.default_rng(8)
    for atoms in (5, 22, 100):
        x = rng.normal(size=(atoms, 3)) + 0.4 * rng.normal(size=(50, atoms, 3))
        trajectory = mdtraj.Trajectory(x.astype(np.float32), None)
        wanted = np.stack([mdtraj.rmsd(trajectory, trajectory, i, parallel=False) for i in range(10)])
        got = np.sqrt(block(x[:10].astype(np.float32), x.astype(np.float32), np.float32))
        off_diagonal = ~np.eye(10, 50, dtype=bool)
        np.testing.assert_allclose(got[off_diagonal], wanted[off_diagonal], rtol=2e-5)


# -- weights ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_enter_fit_and_mean(dtype):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        weights = rng.choice([1.008, 12.011, 14.007, 15.999], size=22)
        x = mirrored(similar(rng, 30, 22) * 3)
        assert errors_in_epsilons(x, dtype, weights=weights) <= EPSILONS


def test_whole_weights_are_repeated_atoms():
    rng = np.random.default_rng(9)
    x = rng.normal(size=(12, 6, 3))
    counts = np.array([1, 3, 0, 2, 1, 5])
    repeated = np.repeat(x, counts, axis=1)
    np.testing.assert_allclose(
        block(x, x, np.float64, weights=counts), block(repeated, repeated, np.float64), atol=1e-14
    )


def test_atoms_without_weight_are_dropped():
    rng = np.random.default_rng(10)
    x = rng.normal(size=(12, 6, 3))
    metric = RMSD(weights=[1, 0, 1, 1, 0, 2])
    points = metric.prepare(x)
    assert points.n_atoms == 4
    kept = x[:, [0, 2, 3, 5]]
    np.testing.assert_array_equal(
        squared_block(metric, points, points), block(kept, kept, np.float64, weights=[1, 1, 1, 2])
    )


def test_only_ratios_of_weights_matter():
    x = np.random.default_rng(11).normal(size=(8, 5, 3))
    weights = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    wanted = block(x, x, np.float64, weights=weights)
    for factor in (1e-300, 1e300, 2.0):
        np.testing.assert_allclose(block(x, x, np.float64, weights=factor * weights), wanted, atol=1e-14)
    np.testing.assert_array_equal(block(x, x, np.float64, weights=np.ones(5)), block(x, x, np.float64))


# -- superpose_on --------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weights", [None, np.arange(9) % 4 + 0.5])
def test_alignment_on_some_atoms(dtype, weights):
    rng = np.random.default_rng(12)
    superpose_on = [7, 1, 2, 5]
    for x in (rng.normal(size=(25, 9, 3)), mirrored(similar(rng, 25, 9)), similar(rng, 25, 9) + 1e4):
        got = block(x, x, dtype, weights=weights, superpose_on=superpose_on)
        wanted, norms = superposed(x, x, weights, superpose_on)
        atol = float(norms.max()) * (1e-10 if dtype == np.float64 else 1e-6)
        np.testing.assert_allclose(got, wanted.astype(float), rtol=0, atol=atol)


def test_alignment_on_all_atoms_is_plain_rmsd():
    x = np.random.default_rng(13).normal(size=(20, 7, 3))
    got = block(x, x, np.float64, superpose_on=np.arange(7))
    np.testing.assert_allclose(got, block(x, x, np.float64), atol=1e-13)


def test_alignment_on_a_line_is_finite_and_fits_the_line():
    rng = np.random.default_rng(14)
    x = rng.normal(size=(6, 5, 3))
    x[:, :3] = np.outer([-1.0, 0.0, 1.0], [1, 0, 0])
    squared = block(x, x, np.float64, superpose_on=[0, 1, 2])
    assert np.isfinite(squared).all()
    assert (squared >= 0).all()
    x[:, :3] = 0
    assert np.isfinite(block(x, x, np.float64, superpose_on=[0, 1, 2])).all()


def test_only_full_alignment_is_a_true_metric():
    assert RMSD().is_true_metric
    assert RMSD(weights=[1.0]).is_true_metric
    assert not RMSD(superpose_on=[0, 1, 2]).is_true_metric


# -- the seam -----------------------------------------------------------------


class RMSDContract(MetricContract):
    zero_epsilons = 32.0
    single_tolerance = 1e-5

    def make_metric(self):
        return RMSD()

    def make_data(self, n, rng):
        return rng.normal(size=(n, 9, 3))

    def test_pairwise_returns_distances(self, rng):
        metric = self.make_metric()
        data = self.make_data(6, rng)
        points = metric.prepare(data)
        wanted = np.sqrt(squared_block(metric, points, points))
        np.fill_diagonal(wanted, 0)  # a block cannot know that a point meets itself; pairwise does
        np.testing.assert_allclose(metric.pairwise(data), wanted, rtol=1e-14)


class TestPlain(RMSDContract):
    pass


class TestFlat(RMSDContract):
    def make_data(self, n, rng):
        return rng.normal(size=(n, 27))

    def make_narrow(self, data):
        return data[:, :-3]


class TestWeighted(RMSDContract):
    def make_metric(self):
        return RMSD(weights=[1.0, 12, 14, 0, 16, 1, 1, 12, 0])

    def make_narrow(self, data):
        return None


class TestAligned(RMSDContract):
    zero_epsilons = 64.0

    def make_metric(self):
        return RMSD(superpose_on=[0, 3, 4, 8])

    def make_narrow(self, data):
        return np.concatenate([data, data], axis=1)


class TestManyAtoms(RMSDContract):
    def make_data(self, n, rng):
        return rng.normal(size=(n, 150, 3))


def test_flat_frames_are_frames():
    x = np.random.default_rng(15).normal(size=(5, 4, 3))
    np.testing.assert_array_equal(block(x.reshape(5, 12), x, np.float64), block(x, x, np.float64))


def test_stores_its_arguments_untouched():
    weights, superpose_on = [1.0, 2.0, 3.0], [0, 1, 2]
    metric = RMSD(weights=weights, superpose_on=superpose_on)
    assert metric.weights is weights
    assert metric.superpose_on is superpose_on
    assert repr(RMSD()) == "RMSD()"


def test_changed_settings_are_noticed():
    x = np.random.default_rng(16).normal(size=(4, 3, 3))
    metric = RMSD()
    metric.prepare(x)
    metric.weights = [1.0, 2.0, 5.0]
    points = metric.prepare(x)
    np.testing.assert_array_equal(
        squared_block(metric, points, points), block(x, x, np.float64, weights=[1.0, 2.0, 5.0])
    )


@pytest.mark.parametrize(
    "settings",
    [{}, {"weights": [1.0, 4.0, 0.0, 2.0, 0.5, 3.0, 1.0]}, {"superpose_on": [0, 2, 3, 5]}],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_structures_are_the_frames_again(settings, dtype):
    frames = (np.random.default_rng(4).normal(size=(9, 7, 3)) * 3.0 + 50.0).astype(dtype)
    metric = RMSD(**settings)
    atoms = metric.weighed_atoms(7).kept
    structures = metric.structures(metric.prepare(frames), 7)
    assert structures.shape == (9, len(atoms), 3)
    assert structures.dtype == np.float64
    between = np.diag(RMSD().pairwise(frames[:, atoms].astype(np.float64), structures))
    np.testing.assert_allclose(between, 0.0, atol=1e-5 if dtype == np.float32 else 1e-7)


# -- errors -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "shape", "message"),
    [
        ({}, (2, 4), r"divisible by 3, got shape \(2, 4\).*pass \(n, atoms, 3\)"),
        ({}, (2, 5, 2), r"\(n, atoms, 3\), got \(2, 5, 2\)"),
        ({"weights": [1.0, 2.0]}, (2, 3, 3), r"got shape \(2,\) for frames of 3 atoms"),
        ({"weights": 2.0}, (2, 3, 3), r"one value per atom, got shape \(\)"),
        ({"weights": [1.0, -2.0, 1.0]}, (2, 3, 3), r"not negative, got -2.0 for atom 1"),
        ({"weights": [1.0, 2.0, np.nan]}, (2, 3, 3), r"finite and not negative, got nan for atom 2"),
        ({"weights": [0.0, 0.0, 0.0]}, (2, 3, 3), r"all 3 weights are 0"),
        ({"weights": ["C", "H", "H"]}, (2, 3, 3), r"weights must be numbers"),
        ({"superpose_on": [0, 1, 3]}, (2, 3, 3), r"index 3, but frames have 3 atoms; .* between 0 and 2"),
        ({"superpose_on": [0, 1, -1]}, (2, 3, 3), r"index -1"),
        ({"superpose_on": [0, 1, 2, 1]}, (2, 3, 3), r"atom 1 more than once"),
        ({"superpose_on": [0, 1]}, (2, 3, 3), r"at least 3 atoms .* got 2"),
        ({"superpose_on": [0, 1, 2], "weights": [1, 1, 0]}, (2, 3, 3), r"at least 3 atoms with a weight"),
        ({"superpose_on": [True, True, True]}, (2, 3, 3), r"atom indices, got bool .*numpy.flatnonzero"),
        ({"superpose_on": [0.0, 1.0, 2.0]}, (2, 3, 3), r"atom indices, got float64"),
        ({"superpose_on": "backbone"}, (2, 3, 3), r"superpose_on must be numbers"),
    ],
)
def test_explains_what_is_wrong(settings, shape, message):
    metric = RMSD(**settings)
    with pytest.raises(InvalidInputError, match=message):
        metric.prepare(np.random.default_rng(0).normal(size=shape))


def test_refuses_other_precisions():
    with pytest.raises(InvalidInputError, match="float32 or float64, got float16"):
        RMSD().prepare(np.zeros((1, 2, 3)), np.float16)


@pytest.mark.parametrize("settings", [{}, {"superpose_on": [0, 1, 2]}])
def test_refuses_coordinates_whose_squares_overflow(settings):
    x = 1e200 * np.random.default_rng(0).normal(size=(2, 4, 3))
    with pytest.raises(InvalidInputError, match="overflow when they are squared in float64"):
        RMSD(**settings).prepare(x)


@pytest.mark.parametrize("settings", [{}, {"superpose_on": [0, 1, 2]}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_distance_overflows_for_no_pair_that_is_accepted(settings, dtype):
    """The squared norms of two frames may both be numbers when their d² is none."""
    metric, x = RMSD(**settings), np.random.default_rng(0).normal(size=(2, 4, 3))
    x[1] *= -1  # a mirror image is as far as can be
    largest = float(np.sqrt(np.finfo(dtype).max))
    taken = []
    for factor in np.geomspace(0.1, 4, 30):
        try:
            points = metric.prepare((factor * largest * x).astype(dtype))
        except InvalidInputError:
            continue
        taken.append(factor)
        out = np.empty((2, 2), dtype)
        metric.squared_block(points, slice(0, 2), points, slice(0, 2), out)
        assert np.isfinite(out).all()
        assert out[0, 1] > 0
    assert taken
    assert max(taken) < 4


def test_refuses_frames_that_cannot_be_compared():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 5, 3))
    metric = RMSD()
    a = metric.prepare(x)
    assert isinstance(a, RMSDPoints)
    metric.check_compatible(a, a)
    with pytest.raises(InvalidInputError, match="frames of 5 and of 4 atoms"):
        metric.check_compatible(a, metric.prepare(x[:, :4]))
    with pytest.raises(InvalidInputError, match="prepared in float64 and in float32"):
        metric.check_compatible(a, metric.prepare(x, np.float32))
    with pytest.raises(InvalidInputError, match="superposed on None and on 3 atoms"):
        metric.check_compatible(a, RMSD(superpose_on=[0, 1, 2]).prepare(x))


# -- distances that are rounding only -------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"superpose_on": [0, 1, 2, 3]}], ids=["plain", "aligned"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_atoms", [5, 22, 100, 700])
def test_a_frame_is_at_distance_zero_from_itself_and_its_copies(n_atoms, dtype, settings):
    rng = np.random.default_rng(n_atoms)
    chain = np.cumsum(rng.normal(size=(n_atoms, 3)), axis=0)
    frames = np.concatenate([np.cumsum(rng.normal(size=(40, n_atoms, 3)), axis=1), [chain, chain, chain]])
    metric = RMSD(**settings)
    points = metric.prepare(frames.astype(dtype))
    squared = squared_block(metric, points, points)
    assert not np.diag(squared).any()
    assert not squared[-3:, -3:].any()
    assert (squared[:40, :40][~np.eye(40, dtype=bool)] > 0).all()


def test_small_distances_above_rounding_stay():
    chain = np.cumsum(np.random.default_rng(0).normal(size=(22, 3)), axis=0)
    moved = chain.copy()
    moved[0] += 1e-5
    points = RMSD().prepare(np.stack([chain, moved]))
    squared = squared_block(RMSD(), points, points)
    assert 0 < squared[0, 1] < 1e-10


@pytest.mark.parametrize(
    "kind", ["plain", "flat", "a list", "an atom without weight", "aligned", "to float32"]
)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [1, 21])
def test_a_value_that_is_not_finite_is_found_wherever_it_stands(kind, bad, n):
    frames = np.random.default_rng(0).normal(size=(n, 5, 3))
    weights = {"an atom without weight": [1, 1, 1, 1, 0]}.get(kind)
    metric = RMSD(weights, superpose_on=[0, 1, 2] if kind == "aligned" else None)
    for frame, atom, axis in [(0, 0, 0), (n - 1, 4, 2), (n // 2, 2, 1)]:
        broken = frames.copy()
        broken[frame, atom, axis] = bad
        place = f"point {frame} (atom {atom})"
        if kind == "flat":
            broken, place = broken.reshape(n, -1), f"point {frame} (column {3 * atom + axis + 1})"
        with pytest.raises(InvalidInputError, match=rf"{re.escape(place)} holds NaN .*\(1 of {n} here do\)"):
            metric.prepare(
                broken.tolist() if kind == "a list" else broken, np.float32 if kind == "to float32" else None
            )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 5, 16, 19])
def test_padding_of_prepared_frames_is_zero(dtype, n):
    points = RMSD().prepare(np.random.default_rng(0).normal(size=(n, 4, 3)), dtype)
    lanes = points.panels.shape[2]
    frames = points.panels.transpose(0, 2, 1).reshape(-1, 12)
    assert len(frames) == -(-n // lanes) * lanes
    assert np.isfinite(frames).all()
    assert (frames[n:] == 0).all()
    taken = points.take(np.arange(n)[::-1].copy())
    assert (taken.panels.transpose(0, 2, 1).reshape(-1, 12)[n:] == 0).all()
