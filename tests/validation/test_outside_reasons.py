"""What accounts for a point's distance: parts that add up to d², and the names of the largest."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from ldmaps import LandmarkDiffusionMap, inputs
from ldmaps.metrics import RMSD, Features, Hamming, Periodic, StandardizedEuclidean
from ldmaps.validation.outside_reasons import contributions, reasons

RNG = np.random.default_rng(0)
ROWS = RNG.uniform(size=(60, 3)) * [1.0, 100.0, 1.0]
FRAMES = RNG.normal(size=(1, 6, 3)) + 0.3 * RNG.uniform(size=(60, 6, 3))


def fitted(metric, X, epsilon):
    return LandmarkDiffusionMap(2, epsilon, metric, landmarks=np.arange(20)).fit(X)


@pytest.mark.parametrize(
    ("metric", "X", "epsilon"),
    [
        ("euclidean", ROWS, 1e4),
        (StandardizedEuclidean([1.0, 50.0, np.inf]), ROWS, 4.0),
        (Periodic([2.0, 300.0, 0.7]), ROWS, 1e4),
        (RMSD(), FRAMES, 0.2),
        (RMSD(weights=[1, 2, 0, 1, 5, 1]), FRAMES, 0.2),
        (Features(6, dihedrals=[[0, 1, 2, 3]], distances=[[0, 5], [1, 4]]), FRAMES, 9.0),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, np.ndarray) else "",
)
def test_parts_add_up_to_the_squared_distance(metric, X, epsilon):
    model = fitted(metric, X, epsilon)
    for landmark in (0, 7):
        parts = contributions(model.embedder_, X[33], landmark)
        squared = model.metric_.pairwise(X[33:34], X[landmark : landmark + 1])[0, 0] ** 2
        assert parts.sum() == pytest.approx(squared, rel=1e-6)
        assert (parts >= 0).all()


def test_frames_superposed_on_some_atoms_have_no_parts():
    # Moving one of these turns the whole frame, so that no atom accounts for d² by itself.
    model = fitted(RMSD(superpose_on=[0, 1, 2, 3]), FRAMES, 0.4)
    assert reasons(model, FRAMES[33], 7) == ()


def test_columns_are_those_of_the_definition():
    model = fitted(StandardizedEuclidean([1.0, 50.0, np.inf]), ROWS, 4.0)
    expected = ((ROWS[33] - ROWS[7]) / [1.0, 50.0, np.inf]) ** 2
    np.testing.assert_allclose(contributions(model.embedder_, ROWS[33], 7), expected, atol=1e-12)


def test_atoms_are_compared_after_superposition():
    model = fitted(RMSD(), FRAMES, 0.2)
    frame, other = (frame - frame.mean(axis=0) for frame in (FRAMES[33], FRAMES[7]))
    turn, _ = Rotation.align_vectors(frame, other)
    expected = ((frame - turn.apply(other)) ** 2).sum(axis=1) / 6
    np.testing.assert_allclose(contributions(model.embedder_, FRAMES[33], 7), expected, rtol=1e-4, atol=1e-7)


def test_the_largest_are_named_first_and_small_ones_not():
    model = fitted("euclidean", ROWS, 1e4)
    point = ROWS[7] + [3.0, 4.0, 0.1]
    assert reasons(model, point, 7) == (("column 1", 0.6397), ("column 0", 0.3599))
    model.source_ = {"columns": ["flow", "load", "temp"]}
    assert [name for name, _ in reasons(model, point, 7)] == ["load", "flow"]


def test_a_metric_without_a_gradient_and_a_point_on_a_landmark_have_no_reasons():
    rows = RNG.integers(0, 3, size=(60, 8))
    model = LandmarkDiffusionMap(2, 9.0, Hamming(), landmarks=np.arange(20)).fit(rows)
    assert reasons(model, rows[40], 3) == ()
    assert reasons(fitted("euclidean", ROWS, 1e4), ROWS[7], 7) == ()


def test_a_column_of_windows_counts_with_all_its_lags(tmp_path):
    rows = np.column_stack([np.sin(np.arange(300) / 6), np.cos(np.arange(300) / 6)])
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="pressure,flow", comments="")
    model = LandmarkDiffusionMap(2, 1.0, n_landmarks=40).fit(
        inputs.open_files(tmp_path / "rows.csv", window=4)
    )
    point, landmark = rows[9:13].copy(), model.embedder_.landmarks.values[7].reshape(4, 2)
    point[:, 1] += 5.0
    parts = ((point - landmark) ** 2).sum(axis=0)
    (first, share), *others = reasons(model, point.ravel(), 7)
    assert first == "flow"
    assert share == pytest.approx(parts[1] / parts.sum(), abs=1e-4)
    assert {name for name, _ in others} <= {"pressure"}
