import warnings

import numpy as np
import pytest
from metrics.contract import MetricContract
from scipy.spatial.distance import cdist
from sklearn.preprocessing import RobustScaler, StandardScaler

from ldmaps import DiffusionMap, LandmarkDiffusionMap, load
from ldmaps.cli import main
from ldmaps.errors import InvalidInputError
from ldmaps.metrics import Euclidean, StandardizedEuclidean

UNITS = np.array([1e5, 1.0, 1e-3, 20.0])


def sensors(n, seed=0):
    """Four columns in units of their own."""
    rng = np.random.default_rng(seed)
    return rng.normal([1.0, 0.0, 3.0, 0.0], size=(n, 4)) * UNITS


class TestScaled(MetricContract):
    def make_metric(self):
        return StandardizedEuclidean([100.0, 0.5, 2.0])

    def make_data(self, n, rng):
        return rng.normal(size=(n, 3)) * [100.0, 0.5, 2.0]

    def make_narrow(self, data):
        return None


class TestManyFeatures(MetricContract):
    cut_epsilons = 500.0  # as of the Euclidean distance

    def make_metric(self):
        return StandardizedEuclidean(np.linspace(0.5, 2.0, 40))

    def make_data(self, n, rng):
        return rng.normal(size=(n, 40))

    def make_narrow(self, data):
        return None


@pytest.mark.parametrize(("rule", "scaler"), [("standard", StandardScaler()), ("robust", RobustScaler())])
def test_scales_are_those_of_scikit_learn(rule, scaler):
    X = sensors(401)
    learned = StandardizedEuclidean(rule).learned(X, np.ones(len(X)))
    wanted = cdist(scaler.fit_transform(X), scaler.transform(X))
    factor = 1.3489795003921634 if rule == "robust" else 1.0  # quartiles of a normal distribution
    np.testing.assert_allclose(learned.pairwise(X), wanted * factor, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("rule", ["standard", "robust"])
def test_a_weight_counts_like_repeated_points(rule):
    X, times = sensors(41), np.random.default_rng(1).integers(1, 5, 41)
    weighted = StandardizedEuclidean(rule).learned(X, times.astype(float)).scale
    repeated = StandardizedEuclidean(rule).learned(np.repeat(X, times, axis=0), np.ones(times.sum())).scale
    np.testing.assert_allclose(weighted, repeated, rtol=1e-12)


def test_what_never_varies_does_not_count():
    X = np.c_[sensors(50), np.full(50, 101300.1, np.float64)]
    learned = StandardizedEuclidean().learned(X, np.ones(50))
    assert np.isinf(learned.scale).tolist() == [False] * 4 + [True]
    moved = X.copy()
    moved[:, 4] += 5
    np.testing.assert_array_equal(learned.pairwise(X, moved), learned.pairwise(X))


def test_a_column_of_mostly_one_value_has_a_robust_scale_too():
    X = np.c_[sensors(40), np.r_[np.zeros(35), np.arange(1.0, 6.0)]]
    robust, standard = (
        StandardizedEuclidean(rule).learned(X, np.ones(40)).scale for rule in ("robust", "standard")
    )
    assert robust[4] == standard[4]
    assert (robust[:4] != standard[:4]).all()


@pytest.mark.parametrize("estimator", [LandmarkDiffusionMap(2, n_landmarks=50), DiffusionMap(2)])
def test_a_map_is_that_of_points_scaled_by_hand(estimator, tmp_path):
    X, new = sensors(300), sensors(20, seed=1)
    by_hand = StandardScaler().fit(X)
    wanted = (
        estimator.set_params(metric="euclidean").fit(by_hand.transform(X)).transform(by_hand.transform(new))
    )
    model = estimator.set_params(metric=StandardizedEuclidean()).fit(X)
    np.testing.assert_allclose(np.abs(model.transform(new)), np.abs(wanted), rtol=1e-6, atol=1e-9)
    model.save(tmp_path / "map.ldm")
    np.testing.assert_array_equal(load(tmp_path / "map.ldm").transform(new), model.transform(new))
    assert model.metric.scale == "standard"  # settings stay as they were given


def test_gradients_are_in_the_columns_own_units():
    X = sensors(200)
    model = LandmarkDiffusionMap(2, n_landmarks=40, metric=StandardizedEuclidean()).fit(X)
    at = X[:3]
    gradient = model.transform_with_gradient(at)[1]
    for column in range(4):
        step = np.zeros(4)
        step[column] = 1e-5 * UNITS[column]
        central = (model.transform(at + step) - model.transform(at - step)) / (2 * step[column])
        np.testing.assert_allclose(gradient[:, :, column] * UNITS[column], central * UNITS[column], atol=1e-7)


def test_landmarks_can_be_moved():
    X = sensors(600)
    model = LandmarkDiffusionMap(
        2, n_landmarks=12, metric=StandardizedEuclidean(), extension="distilled"
    ).fit(X)
    by_hand = StandardScaler().fit(X)
    plain = LandmarkDiffusionMap(2, n_landmarks=12, extension="distilled").fit(by_hand.transform(X))
    assert model.distillation_.held_out_z == pytest.approx(plain.distillation_.held_out_z, rel=0.05)


def test_scales_that_are_none_are_refused():
    with pytest.raises(InvalidInputError, match="positive number for each of the 2 features"):
        StandardizedEuclidean([1.0, 0.0]).prepare([[1.0, 2.0]])
    with pytest.raises(InvalidInputError, match="found when a map is fitted"):
        StandardizedEuclidean().prepare([[1.0, 2.0]])
    with pytest.raises(InvalidInputError, match="'standard' or 'robust'"):
        LandmarkDiffusionMap(metric=StandardizedEuclidean("minmax")).fit(sensors(20))


# -- on the command line ----------------------------------------------------------------


def fitted(tmp_path, monkeypatch, capfd, *options, header="pressure,flow,load,temperature"):
    monkeypatch.chdir(tmp_path)
    np.savetxt("sensors.csv", sensors(200), delimiter=",", header=header, comments="")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where pressure is all that counts, few points carry the rest
        assert main(["fit", "sensors.csv", "-m", "30", "-o", "map.ldm", "-f", *options]) == 0
    return load("map.ldm"), capfd.readouterr().err


def test_named_columns_are_scaled_and_it_is_said(tmp_path, monkeypatch, capfd):
    model, said = fitted(tmp_path, monkeypatch, capfd)
    assert isinstance(model.metric_, StandardizedEuclidean)
    np.testing.assert_allclose(model.metric_.scale, sensors(200).std(axis=0))
    assert "scale: columns standardised" in said
    assert main(["embed", "map.ldm", "sensors.csv", "-o", "psi.csv", "-q"]) == 0
    psi = np.genfromtxt("psi.csv", delimiter=",", names=True, dtype=None, encoding=None)
    np.testing.assert_allclose(psi["psi2"], model.transform(sensors(200))[:, 0], rtol=1e-5)


@pytest.mark.parametrize("options", [["--scale", "none"], ["--metric", "euclidean"]])
def test_a_column_that_drowns_the_others_is_named(tmp_path, monkeypatch, capfd, options):
    model, said = fitted(tmp_path, monkeypatch, capfd, *options)
    assert type(model.metric_) is Euclidean
    assert (
        "warning: column pressure contributes 100.0% of the squared distance and dominates the map; consider --scale"
        in " ".join(said.split())
    )


def test_arrays_without_names_are_taken_as_they_are(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    np.save("points.npy", sensors(200) / UNITS)
    assert main(["fit", "points.npy", "-m", "30", "-o", "map.ldm"]) == 0
    assert type(load("map.ldm").metric_) is Euclidean
    assert "scale" not in capfd.readouterr().err


def test_a_scale_of_angles_is_refused(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    np.save("points.npy", sensors(20))
    assert main(["fit", "points.npy", "--metric", "periodic", "--scale", "robust", "-o", "map.ldm"]) == 1
    assert "--scale belongs to --metric euclidean" in capfd.readouterr().err


def test_a_map_of_a_feature_that_never_varies_is_saved(tmp_path):
    """Its scale is infinite, which JSON has no number for."""
    points = np.random.default_rng(0).normal(size=(60, 3))
    points[:, 1] = 5.0
    model = LandmarkDiffusionMap(2, "connected", StandardizedEuclidean(), n_landmarks=12).fit(points)
    model.save(tmp_path / "map.ldm")
    again = load(tmp_path / "map.ldm")
    np.testing.assert_array_equal(again.metric_.scale, model.metric_.scale)
    assert np.isinf(again.metric_.scale[1])
    np.testing.assert_array_equal(again.transform(points), model.transform(points))
