"""Absorbing points: what must not change, what must come out, and what the old coordinates do."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import ldmaps
from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.absorbing import UnreachableError, absorb
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.errors import AccuracyWarning, DisconnectedError, InvalidInputError
from ldmaps.metrics import RMSD
from ldmaps.streaming.reservoir import Reservoir
from ldmaps.validation.fidelity import match_columns, nrmse

EPSILON = 4.0


@pytest.fixture(scope="module")
def roll():
    return swiss_roll(2000)


@pytest.fixture(scope="module")
def known(roll):
    """All but the outer end of the roll."""
    return roll.position < 13.0


@pytest.fixture(scope="module")
def model(roll, known):
    return LandmarkDiffusionMap(2, epsilon=EPSILON, n_landmarks=200).fit(roll.points[known])


@pytest.fixture(scope="module")
def grown(model, roll, known):
    return absorb(model, roll.points[~known])


def test_absorbing_nothing_changes_nothing(model, roll):
    new = absorb(model, np.empty((0, 3)))
    assert new is not model
    np.testing.assert_array_equal(new.transform(roll.points), model.transform(roll.points))
    assert new.absorption_.z == 0.0
    assert new.absorption_.n_new_landmarks == 0


def test_the_old_model_is_left_as_it_was(roll, known):
    model = LandmarkDiffusionMap(2, epsilon=EPSILON, n_landmarks=60).fit(roll.points[known])
    before = pickle.dumps(model.embedder_.metric.export_points(model.embedder_.landmarks))
    arrays = [model.multiplicities_.copy(), model.embedder_.squared_radii.copy(), model.embedding_.copy()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        absorb(model, roll.points[~known])
    assert pickle.dumps(model.embedder_.metric.export_points(model.embedder_.landmarks)) == before
    for old, now in zip(
        arrays, [model.multiplicities_, model.embedder_.squared_radii, model.embedding_], strict=True
    ):
        np.testing.assert_array_equal(old, now)


def test_everything_absorbed_is_inside_and_nothing_that_was_inside_is_lost(model, grown, roll):
    assert not model.coverage(roll.points).inside.all()
    assert grown.coverage(roll.points).inside.all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_domain_never_shrinks_even_where_cells_are_wide(seed):
    # Few landmarks: cells far wider than √ε, whose margins a new landmark takes over.
    rng = np.random.default_rng(seed)
    strip = rng.random((800, 2)) * [8.0, 3.0]
    model = LandmarkDiffusionMap(1, epsilon=0.5, n_landmarks=8).fit(strip)
    beyond = rng.random((300, 2)) * [4.0, 3.0] + [8.0, 0.0]
    new = absorb(model, beyond)
    assert (model.embedder_.squared_radii > 0.5).any()
    probes = rng.random((5000, 2)) * [14.0, 5.0] - [1.0, 1.0]
    was, is_now = model.coverage(probes).inside, new.coverage(probes).inside
    assert is_now[was].all()
    assert new.coverage(beyond).inside.all()


def test_the_mass_is_conserved(model, roll, known):
    new_points = roll.points[~known]
    weights = np.random.default_rng(0).random(len(new_points)) + 0.1
    new = absorb(model, new_points, weights, counts=[3, 0, 4])
    assert new.multiplicities_.sum() == pytest.approx(model.multiplicities_.sum() + weights.sum() + 7)
    old = slice(0, len(model.multiplicities_))
    assert (new.multiplicities_[old] >= model.multiplicities_).all()
    assert (new.multiplicities_ > 0).all()


def test_points_inside_only_add_to_the_multiplicities(model, roll, known):
    new = absorb(model, roll.points[known][:100])
    assert new.absorption_.n_new_landmarks == 0
    assert new.multiplicities_.sum() == pytest.approx(model.multiplicities_.sum() + 100)
    assert new.absorption_.z < 5


@pytest.mark.parametrize(("alpha", "t"), [(0.0, 0.0), (1.0, 2.0)])
def test_with_every_point_a_landmark_it_is_the_exact_map_of_all_points(alpha, t):
    """The one case with an answer in closed form: nothing is approximated, so nothing may differ."""
    points = swiss_roll(700).points
    part = points[:, 1] < 14.0
    settings = {"epsilon": EPSILON, "alpha": alpha, "diffusion_time": t}
    old = LandmarkDiffusionMap(3, n_landmarks=int(part.sum()), **settings).fit(points[part])
    # The exact map's domain reaches √ε, so only points farther out become landmarks of their own.
    far = points[~part][~old.coverage(points[~part]).inside]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        new = absorb(old, far, spacing=1e-6, keep_coordinates=False)
    everything = np.concatenate([points[part], far])
    exact = DiffusionMap(3, **settings).fit(everything)
    np.testing.assert_allclose(new.eigenvalues_, exact.eigenvalues_, rtol=1e-9)
    ours = new.transform(points)
    np.testing.assert_allclose(
        match_columns(exact.transform(points), ours), exact.transform(points), atol=1e-8
    )
    np.testing.assert_allclose(new.multiplicities_, 1.0)


@pytest.mark.parametrize("capacity", [150, 5000])
def test_the_map_comes_close_to_one_fitted_to_everything(model, roll, known, capacity):
    exact = DiffusionMap(2, epsilon=EPSILON).fit(roll.points).embedding_
    fitted = LandmarkDiffusionMap(2, epsilon=EPSILON, n_landmarks=200).fit(roll.points).embedding_
    coverage = model.coverage(roll.points[~known])
    reservoir = Reservoir(capacity)
    reservoir.offer(roll.points[~known][~coverage.inside])
    reservoir.count(coverage.nearest[coverage.inside])
    assert (reservoir.seen > len(reservoir)) == (capacity == 150)
    new = absorb(model, reservoir.points, reservoir.weights, counts=reservoir.counts, keep_coordinates=False)
    before = nrmse(exact, model.transform(roll.points))
    after = nrmse(exact, new.transform(roll.points))
    assert before > 20
    assert after < 4
    assert after < nrmse(exact, fitted) + 2.5


def test_old_points_move_little_and_the_residual_says_how_much(model, grown, roll, known):
    moved = nrmse(model.embedding_, grown.transform(roll.points[known]), matched=True)
    assert moved < 0.5
    assert grown.absorption_.z == pytest.approx(moved, rel=0.5)
    raw = absorb(model, roll.points[~known], keep_coordinates=False)
    unaligned = nrmse(model.embedding_, raw.transform(roll.points[known]), matched=True)
    assert moved < 0.1 * unaligned
    assert raw.absorption_.z == pytest.approx(unaligned, rel=0.1)
    assert (grown.absorption_.in_common > 0.9).all()


def test_the_move_is_measured_on_old_points_where_they_are_known(model, roll, known, tmp_path):
    new_points, old_points = roll.points[~known], roll.points[known]
    kept = absorb(model, new_points)
    spans = np.ptp(model.embedding_, axis=0)
    true = 100 * np.sqrt(((kept.transform(old_points) - model.embedding_) ** 2).mean(axis=0)) / spans
    assert kept.absorption_.measured_on == "points"
    np.testing.assert_allclose(kept.absorption_.moved, true, rtol=1e-6)
    model.save(tmp_path / "map.ldm")
    read = ldmaps.load(tmp_path / "map.ldm")
    assert absorb(read, new_points).absorption_.measured_on == "landmarks"
    given = absorb(read, new_points, old_points=old_points).absorption_
    assert given.measured_on == "points"
    np.testing.assert_allclose(given.moved, kept.absorption_.moved, rtol=1e-6)
    with pytest.raises(InvalidInputError, match="old_points must be at least 2 points .* got 1"):
        absorb(read, new_points, old_points=old_points[:1])


def test_points_that_close_a_ring_are_absorbed_with_a_warning():
    """The old coordinates are those of an arc; with its gap closed, the slow motions go around a ring."""
    rng = np.random.default_rng(1)
    angle = rng.uniform(0, 2 * np.pi, 1500)
    ring = 3 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(0, 0.1, (1500, 2))
    gap = angle < 1.0
    model = LandmarkDiffusionMap(2, epsilon=0.1, n_landmarks=150, random_state=1).fit(ring[~gap])
    with pytest.warns(AccuracyWarning, match=r"differ by Z = 1\d % .* close a ring; fit again"):
        new = absorb(model, ring[gap])
    exact = DiffusionMap(2, epsilon=0.1).fit(ring).embedding_
    ours = np.column_stack([new.transform(ring), np.ones(len(ring))])
    nearest = ours @ np.linalg.lstsq(ours, exact, rcond=None)[0]
    assert new.absorption_.apart == pytest.approx(nrmse(exact, nearest, matched=True), rel=0.15)


def test_coordinates_keep_the_signs_of_the_old_ones(model, roll, known):
    flipped = pickle.loads(pickle.dumps(model))
    flipped.landmark_embedding_ = model.landmark_embedding_ * [1, -1]
    embedder = model.embedder_
    flipped.embedder_ = replace(embedder, coefficients=embedder.coefficients * [[1], [-1]])
    first = absorb(model, roll.points[~known]).transform(roll.points)
    second = absorb(flipped, roll.points[~known]).transform(roll.points)
    np.testing.assert_allclose(second, first * [1, -1], atol=1e-12)


def test_the_result_extends_to_its_own_landmarks(grown):
    """The alignment's shift and turn must be in the coefficients as they are in the coordinates."""
    embedder = grown.embedder_
    values = embedder.extend(embedder.landmarks).coordinates
    np.testing.assert_allclose(values, grown.landmark_embedding_, atol=1e-9 * np.abs(values).max())


def test_old_landmarks_keep_their_places(model, grown):
    count = model.embedder_.n_landmarks
    np.testing.assert_array_equal(grown.landmark_indices_[:count], model.landmark_indices_)
    assert len(np.unique(grown.landmark_indices_)) == grown.embedder_.n_landmarks
    assert (grown.landmark_indices_[count:] >= len(model.embedding_)).all()


def test_it_saves_and_loads_and_absorbs_again(model, roll, known, tmp_path):
    model.save(tmp_path / "old.ldm", include_embedding=False)
    order = np.argsort(roll.position)
    beyond = roll.points[order][np.sort(roll.position) >= 13.0]
    half = len(beyond) // 2
    first = absorb(ldmaps.load(tmp_path / "old.ldm"), beyond[:half])
    first.save(tmp_path / "new.ldm")
    again = ldmaps.load(tmp_path / "new.ldm")
    assert type(again) is LandmarkDiffusionMap
    np.testing.assert_array_equal(again.transform(roll.points), first.transform(roll.points))
    second = absorb(again, beyond[half:])
    assert second.coverage(roll.points).inside.all()
    assert second.multiplicities_.sum() == pytest.approx(len(roll))
    exact = DiffusionMap(2, epsilon=EPSILON).fit(roll.points).embedding_
    assert np.abs(np.corrcoef(exact[:, 0], second.transform(roll.points)[:, 0])[0, 1]) > 0.99


def test_float32_stays_float32(roll, known):
    model = LandmarkDiffusionMap(2, epsilon=EPSILON, n_landmarks=200).fit(
        roll.points[known].astype(np.float32)
    )
    new = absorb(model, roll.points[~known])
    assert new.transform(roll.points.astype(np.float32)).dtype == np.float32
    assert new.landmark_embedding_.dtype == np.float32


@pytest.mark.parametrize("aligned_atoms", [None, [3, 4, 6]])
def test_an_alanine_basin_that_was_held_out(aligned_atoms):
    molecule = alanine_dipeptide(stride=25)
    frames = molecule.frames[:, molecule.heavy_atoms]
    psi = dihedral(frames[:, [3, 4, 6, 8]])
    metric = RMSD(superpose_on=aligned_atoms) if aligned_atoms else "rmsd"
    exact = DiffusionMap(1, epsilon="connected", metric=metric).fit(frames)
    # αR: without its core the map has no end on that side, and its rim still leads there.
    core = (psi > -1.2) & (psi < -0.2)
    assert 0.1 < core.mean() < 0.4
    model = LandmarkDiffusionMap(1, epsilon=exact.epsilon_, metric=metric, n_landmarks=150).fit(frames[~core])
    before = model.coverage(frames[core])
    assert 0.2 < before.inside.mean() < 0.8
    reservoir = Reservoir(1000)
    reservoir.offer(frames[core][~before.inside])
    reservoir.count(before.nearest[before.inside])
    new = absorb(model, reservoir.points, reservoir.weights, counts=reservoir.counts, keep_coordinates=False)
    turned = Rotation.random(random_state=1).apply(frames.reshape(-1, 3)).reshape(frames.shape)
    assert new.coverage(turned).inside.all()
    assert nrmse(exact.embedding_, model.transform(frames)) > 15
    assert nrmse(exact.embedding_, new.transform(frames)) < 2
    # Old points hardly move: the map had the way there, only not the place.
    assert absorb(model, reservoir.points, counts=reservoir.counts).absorption_.z < 2
    # Without counting those inside, the basin would be too light.
    light = absorb(model, reservoir.points, reservoir.weights, keep_coordinates=False)
    assert nrmse(exact.embedding_, light.transform(frames)) > 5


def dihedral(four):
    a, b, c = (np.diff(four, axis=1)[:, place] for place in range(3))
    first, second = np.cross(a, b), np.cross(b, c)
    return np.arctan2(
        (np.cross(first, second) * b).sum(1) / np.linalg.norm(b, axis=1), (first * second).sum(1)
    )


@pytest.mark.parametrize("metric", ["hamming", "periodic", "earth_mover"])
def test_other_metrics(metric):
    rng = np.random.default_rng(0)
    if metric == "hamming":
        place = rng.random(400)
        points = (np.linspace(0, 1, 60) < place[:, None]).astype(float)
        epsilon = 0.005
    elif metric == "periodic":
        place = rng.random(400)
        points, epsilon = np.column_stack([4.0 * place - np.pi, 0.1 * rng.random(400)]), 0.05
    else:
        place = rng.random(400)
        points = np.exp(-(((np.arange(40) - 5 - 30 * place[:, None]) / 2) ** 2))
        epsilon = 4.0
    model = LandmarkDiffusionMap(1, epsilon=epsilon, metric=metric, n_landmarks=40).fit(points[place < 0.8])
    assert not model.coverage(points).inside.all()
    new = absorb(model, points)
    assert new.coverage(points).inside.all()
    assert np.abs(np.corrcoef(np.argsort(np.argsort(place)), new.transform(points)[:, 0])[0, 1]) > 0.9


# -- landmarks -----------------------------------------------------------------


def test_spacing_sets_how_many_landmarks(model, roll, known):
    new_points = roll.points[~known]
    counts = [absorb(model, new_points, spacing=s).absorption_.n_new_landmarks for s in (1.0, 0.5, 0.25)]
    assert counts[0] < counts[1] < counts[2]
    # The default is as dense as the map.
    default = absorb(model, new_points).absorption_.n_new_landmarks
    assert counts[0] <= default < counts[2]


def test_every_outside_point_is_within_the_spacing_of_a_landmark(model, roll, known):
    new = absorb(model, roll.points[~known], spacing=0.5)
    outside = roll.points[~model.coverage(roll.points).inside]
    assert new.coverage(outside).distance.max() <= 0.5 * (1 + 1e-6)


def test_the_number_of_landmarks_can_be_bounded(model, roll, known):
    new = absorb(model, roll.points[~known], max_landmarks=225)
    assert new.embedder_.n_landmarks == 225
    assert new.coverage(roll.points).inside.all()
    with pytest.raises(
        InvalidInputError, match="has 225 landmarks, so max_landmarks=225 leaves none for the"
    ):
        absorb(new, roll.points[~known] + [0, 9.0, 0], max_landmarks=225)


# -- connectivity ----------------------------------------------------------------


def test_points_out_of_reach_are_an_error_that_counts_them(model, roll, known):
    rng = np.random.default_rng(0)
    far = np.concatenate([rng.normal([100, 0, 0], 0.1, (30, 3)), rng.normal([0, 100, 0], 0.1, (12, 3))])
    with pytest.raises(
        DisconnectedError, match=r"42 of \d+ points are not connected to the map, in groups of 30, 12:"
    ) as caught:
        absorb(model, np.concatenate([roll.points[~known], far]))
    assert caught.value.n_points == len(far) + (~known).sum()
    assert f"absorbs the other {(~known).sum()};" in str(caught.value)
    away = model.coverage(far).distance
    assert f"{away.min():.3g} to {away.max():.3g} sqrt(epsilon) from the nearest landmark" in str(
        caught.value
    )
    assert isinstance(caught.value, UnreachableError)
    assert caught.value.component_sizes == (30, 12)
    assert 'disconnected="leave"' in str(caught.value)
    assert f"epsilon={caught.value.joining_epsilon:.6g} connects them" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    # The message's ε is enough to hop there.
    assert np.sqrt(caught.value.joining_epsilon) == pytest.approx(
        np.linalg.norm(far[:30, None] - roll.points[known], axis=2).min(), rel=0.1
    )


def test_what_can_be_reached_is_absorbed_and_the_rest_left(model, roll, known, grown):
    far = np.random.default_rng(0).normal([100, 0, 0], 0.1, (30, 3))
    given = np.concatenate([far, roll.points[~known]])
    new = absorb(model, given, disconnected="leave")
    np.testing.assert_array_equal(new.absorption_.absorbed, np.arange(len(given)) >= 30)
    np.testing.assert_allclose(new.transform(roll.points), grown.transform(roll.points), atol=1e-9)
    assert not new.coverage(far).inside.any()
    none = absorb(model, far, disconnected="leave")
    assert not none.absorption_.absorbed.any()
    np.testing.assert_array_equal(none.transform(roll.points), model.transform(roll.points))


def test_a_bridge_that_comes_later_makes_them_reachable(model):
    edge = np.array([9 * np.pi / 2, 10.0, 0.0]) * [0, 1, 0] + [0, 0, 14.1]
    steps = np.linspace(0, 60, 21)[:, None]
    bridge = edge + steps * [0, 0, 1.0]
    with pytest.raises(UnreachableError):
        absorb(model, bridge[-3:])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        assert absorb(model, bridge).absorption_.absorbed.all()


# -- modes -----------------------------------------------------------------------


def two_wells(n, seed, place):
    return np.random.default_rng(seed).normal(place, [0.6, 0.2], (n, 2))


def test_a_new_slow_mode_does_not_take_an_old_coordinates_place():
    """Two wells make ψ₂. A third, hardly connected well brings a slower mode: ψ₂ must stay what it was."""
    path = np.column_stack([np.linspace(0, 4, 60), np.zeros(60)])
    old_points = np.concatenate([two_wells(400, 0, [0, 0]), two_wells(400, 1, [4, 0]), path])
    model = LandmarkDiffusionMap(1, epsilon=0.1, n_landmarks=120).fit(old_points)
    ladder = np.column_stack([np.full(12, 2.0), np.linspace(0.4, 5.6, 12)])
    third = np.concatenate([two_wells(400, 2, [2, 6]), ladder])
    with pytest.warns(
        AccuracyWarning, match="1 of the slowest modes of the extended map .* new_components=1"
    ):
        new = absorb(model, third)
    assert new.absorption_.modes.tolist() == [1]
    assert new.absorption_.in_common[0] > 0.9
    assert np.corrcoef(model.embedding_[:, 0], new.transform(old_points)[:, 0])[0, 1] > 0.95
    # ψ₂ of the third well is between those of the two; the added coordinate sets it apart.
    wider = absorb(model, third, new_components=1)
    assert wider.n_components_ == 2
    assert wider.absorption_.modes.tolist() == [1, 0]
    np.testing.assert_allclose(wider.transform(old_points)[:, :1], new.transform(old_points), atol=1e-9)
    added_old, added_new = wider.transform(old_points)[:, 1], wider.transform(two_wells(400, 2, [2, 6]))[:, 1]
    assert added_old.max() < added_new.min() or added_new.max() < added_old.min()


# -- distilled maps and tolerances -------------------------------------------------


@pytest.fixture(scope="module")
def distilled(roll, known):
    """As many landmarks as the walk over them needs to tell what changes."""
    settings = {"epsilon": EPSILON, "n_landmarks": 300, "extension": "distilled"}
    return LandmarkDiffusionMap(2, **settings).fit(roll.points[known])


@pytest.fixture(scope="module")
def frames():
    """Alanine dipeptide's heavy atoms, and which frames are in the core of αR."""
    molecule = alanine_dipeptide(stride=10)
    frames = molecule.frames[:, molecule.heavy_atoms]
    psi = dihedral(frames[:, [3, 4, 6, 8]])
    return frames, (psi > -1.2) & (psi < -0.2)


@pytest.fixture(scope="module", params=[{"n_landmarks": 50, "extension": "distilled"}, {"tolerance": 5.0}])
def tiny(request, frames):
    """Maps whose few landmarks were moved off the data."""
    points, core = frames
    model = LandmarkDiffusionMap(1, "connected", "rmsd", **request.param).fit(points[~core])
    assert model.map_.representatives is not None
    return model


def test_absorbing_nothing_leaves_a_distilled_map_as_it_is(distilled, tiny, roll, frames):
    for model, points in ((distilled, roll.points), (tiny, frames[0])):
        new = absorb(model, points[:0])
        np.testing.assert_array_equal(new.transform(points), model.transform(points))


def test_all_of_the_training_points_again_change_nothing(distilled, roll, known):
    """Every multiplicity doubles, or nearly (a landmark's own cell decides): so do both walks."""
    counts = distilled.multiplicities_
    one = roll.points[known][:1]
    new = absorb(distilled, one, weights=[1e-6], counts=counts)
    assert new.multiplicities_.sum() == pytest.approx(2 * known.sum())
    moved = nrmse(distilled.embedding_, new.transform(roll.points[known]), matched=True)
    assert moved < 0.01
    np.testing.assert_allclose(-np.log(new.eigenvalues_), -np.log(distilled.eigenvalues_), rtol=0.02)


def test_a_distilled_map_comes_close_to_one_fitted_to_everything(distilled, roll, known):
    exact = DiffusionMap(2, epsilon=EPSILON).fit(roll.points)
    new = absorb(distilled, roll.points[~known], keep_coordinates=False)
    assert new.coverage(roll.points).inside.all()
    assert nrmse(exact.embedding_, distilled.transform(roll.points)) > 20
    assert nrmse(exact.embedding_, new.transform(roll.points)) < 5
    np.testing.assert_allclose(-np.log(new.eigenvalues_), -np.log(exact.eigenvalues_), rtol=0.1)
    assert new.multiplicities_.sum() == pytest.approx(len(roll))
    assert new.extension_ == "distilled"


def test_a_distilled_map_keeps_old_points_and_goes_on_from_there(distilled, model, roll, known):
    new = absorb(distilled, roll.points[~known])
    moved = nrmse(distilled.embedding_, new.transform(roll.points[known]), matched=True)
    assert moved < 1
    assert new.absorption_.z == pytest.approx(moved, rel=0.5)
    assert new.embedder_.bandwidth == distilled.embedder_.bandwidth
    for column in range(2):
        assert (
            np.corrcoef(distilled.embedding_[:, column], new.transform(roll.points[known])[:, column])[0, 1]
            > 0.9
        )


def test_few_moved_landmarks_take_in_a_basin_and_leave_old_frames_alone(tiny, frames):
    points, core = frames
    exact = DiffusionMap(1, epsilon=tiny.epsilon_, metric="rmsd").fit(points)
    new = absorb(tiny, points[core])
    assert new.coverage(points).inside.all()
    assert new.multiplicities_.sum() == pytest.approx(len(points))
    assert nrmse(tiny.embedding_, new.transform(points[~core]), matched=True) < 2
    assert new.certificate_ is None
    # The old coordinate's scale and origin, so only the shape can be compared.
    slope, shift = np.polyfit(new.transform(points)[:, 0], exact.embedding_[:, 0], 1)
    fitted = slope * new.transform(points) + shift
    assert nrmse(exact.embedding_, fitted, matched=True) < 1.5
    np.testing.assert_allclose(
        new.landmark_embedding_, new.transform(landmark_frames(new, points)), atol=1e-5
    )


def landmark_frames(model, points):
    """The frames that landmarks are or stand for."""
    return model.metric_.structures(model.map_.landmark_points, points.shape[1])


def test_distilled_maps_are_saved_and_absorb_again(tiny, frames, tmp_path):
    points, core = frames
    half = np.flatnonzero(core)[::2]
    rest = np.flatnonzero(core)[1::2]
    tiny.save(tmp_path / "old.ldm")
    first = absorb(ldmaps.load(tmp_path / "old.ldm"), points[half])
    first.save(tmp_path / "new.ldm")
    again = ldmaps.load(tmp_path / "new.ldm")
    np.testing.assert_array_equal(again.transform(points), first.transform(points))
    second = absorb(again, points[rest])
    assert second.coverage(points).inside.all()
    assert second.multiplicities_.sum() == pytest.approx(len(points))
    assert nrmse(tiny.embedding_, second.transform(points[~core]), matched=True) < 2


@pytest.mark.parametrize("edge", [12.5, 13.0])
def test_a_map_too_coarse_to_tell_what_changes_says_so_and_stays(roll, edge):
    """A few landmarks follow the roll, but the walk over them jumps between its sheets."""
    known = roll.position < edge
    model = LandmarkDiffusionMap(2, epsilon=EPSILON, tolerance=10.0, random_state=3).fit(roll.points[known])
    assert model.embedder_.n_landmarks < 30
    with pytest.warns(AccuracyWarning, match="overlaps by less than half with every eigenvector"):
        new = absorb(model, roll.points[~known])
    assert new.coverage(roll.points).inside.all()
    assert nrmse(model.embedding_, new.transform(roll.points[known]), matched=True) < 1
    np.testing.assert_array_equal(new.eigenvalues_, model.eigenvalues_)


def test_the_clock_of_a_walk_over_few_landmarks_is_set_right(tiny, frames):
    """Twice the mass everywhere changes no eigenvalue, though the walk over the landmarks has others."""
    points, core = frames
    new = absorb(tiny, points[~core][:1], weights=[1e-6], counts=tiny.multiplicities_)
    np.testing.assert_allclose(new.eigenvalues_, tiny.eigenvalues_, rtol=1e-5)
    assert nrmse(tiny.embedding_, new.transform(points[~core]), matched=True) < 0.01


def test_points_beyond_wide_cells_are_within_reach_of_the_points_there():
    """Landmarks stand for cells wider than a hop: what is near a cell's border is near training points."""
    rng = np.random.default_rng(0)
    strip = rng.random((3000, 2)) * [30.0, 1.0]
    model = LandmarkDiffusionMap(1, epsilon=0.1, tolerance=5.0).fit(strip)
    beyond = rng.random((100, 2)) * [2.0, 1.0] + [30.0, 0.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        assert absorb(model, beyond).coverage(beyond).inside.all()
    with pytest.raises(UnreachableError, match="100 of 100 points are not connected to the map"):
        absorb(model, beyond + np.array([30.0, 0.0]))


# -- what is refused -----------------------------------------------------------


def test_what_is_refused(model, roll, known):
    points = roll.points
    with pytest.raises(InvalidInputError, match="takes a LandmarkDiffusionMap, got DiffusionMap"):
        absorb(DiffusionMap(1, epsilon=EPSILON).fit(points[:300]), points)
    matrix = np.linalg.norm(points[:200, None] - points[:200], axis=2)
    precomputed = LandmarkDiffusionMap(1, metric="precomputed", n_landmarks=50).fit(matrix)
    with pytest.raises(InvalidInputError, match="precomputed distances cannot absorb"):
        absorb(precomputed, matrix)
    for weights in (np.zeros(5), np.ones(4), [1, 1, 1, 1, np.nan], [1, 1, 1, 1, 1e31], [1, 1, 1, 1, 1e-31]):
        with pytest.raises(InvalidInputError, match="weights must be 5 numbers between 1e-30 and 1e.30"):
            absorb(model, points[:5], weights)
    for counts in (np.ones(201), [-1], [[1]], [np.inf]):
        with pytest.raises(InvalidInputError, match="counts must be .* up to 200 landmarks"):
            absorb(model, points[:5], counts=counts)
    for setting, message in (
        ({"spacing": 1.5}, "spacing must be"),
        ({"max_landmarks": 1}, "max_landmarks must be"),
        ({"disconnected": "drop"}, "disconnected must be"),
        ({"new_components": -1}, "new_components must be"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            absorb(model, points[:5], **setting)
    with pytest.raises(ValueError, match="features"):
        absorb(model, np.zeros((4, 2)))


@pytest.mark.parametrize("kind", ["model", "distilled"])
def test_new_points_continue_the_coordinates_across_the_border(kind, roll, known, request):
    """The roll is one strip: along it the first coordinate of the new end goes on without a jump, and further."""
    old = request.getfixturevalue(kind)
    new = absorb(old, roll.points[~known])
    order = np.argsort(roll.position)
    along, values = roll.position[order], new.transform(roll.points[order])[:, 0]
    steps = [np.median(values[(along >= at) & (along < at + 0.25)]) for at in np.arange(12.0, 13.75, 0.25)]
    jumps = np.diff(steps)
    assert (np.sign(jumps) == np.sign(jumps[0])).all()
    assert np.abs(jumps).max() < 0.1 * np.ptp(values)


@pytest.mark.filterwarnings("ignore::ldmaps.errors.AccuracyWarning")
@pytest.mark.parametrize("edge", [11.0, 12.0])
def test_new_points_begin_where_the_old_coordinates_end(edge, roll):
    """Much of the roll is new, so the walk has other modes; yet one cubic fits both sides of the border."""
    known = roll.position < edge
    new = absorb(
        LandmarkDiffusionMap(2, epsilon=EPSILON, n_landmarks=200).fit(roll.points[known]), roll.points[~known]
    )
    values, along = new.transform(roll.points)[:, 0], roll.position
    there = np.abs(along - edge) < 1
    left = values[there] - np.polyval(np.polyfit(along[there], values[there], 3), along[there])
    assert left.std() < 0.03 * np.ptp(values)


def test_a_coordinate_that_the_walk_has_lost_stays_what_it_is_at_the_border(roll, known):
    settings = {"epsilon": EPSILON, "n_landmarks": 200, "alpha": 1.0, "random_state": 2}
    model = LandmarkDiffusionMap(2, **settings).fit(roll.points[known])
    with pytest.warns(AccuracyWarning, match="overlaps by less than half with every eigenvector"):
        new = absorb(model, roll.points[~known])
    values, along = new.transform(roll.points)[:, 0], roll.position
    before, after = (np.median(values[(along > at) & (along < at + 0.1)]) for at in (12.9, 13.0))
    assert abs(after - before) < 0.02 * np.ptp(values)
