"""Functions with fewer landmarks: as near to their teacher as promised, on points that nothing was chosen by."""

import numpy as np
import pytest

import ldmaps
from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import InvalidInputError, ToleranceError

#: In percent.
TOLERANCE = 3.0


def drawn(seed, n=4000):
    return np.random.default_rng(seed).uniform(-1, 1, size=(n, 2))


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(n_components=2, epsilon=0.05, n_landmarks=120).fit(drawn(0))


@pytest.fixture(scope="module")
def committor(model):
    points = drawn(0)
    return model.committor(points, source=points[:, 0] < -0.8, target=points[:, 0] > 0.8)


@pytest.fixture(scope="module")
def student(committor):
    return committor.distil(drawn(1), tolerance=TOLERANCE)


def test_new_points_are_as_near_to_the_teacher_as_promised(committor, student):
    points = drawn(2, 20_000)
    errors = 100 * np.abs(student.transform(points) - committor.transform(points))[:, 0]
    errors = np.sort(errors / np.ptp(committor.transform(drawn(1))))[: int(0.99 * len(errors))]
    certificate = student.certificate_
    assert np.sqrt((errors**2).mean()) <= certificate.upper_bound <= TOLERANCE
    assert certificate.reference == "teacher"
    assert student.embedder_.n_landmarks == certificate.n_landmarks <= 30
    assert "distilled from 120 onto" in student.record_.lines[-1]


def test_a_distilled_committor_stays_between_0_and_1(student):
    everywhere = np.random.default_rng(0).uniform(-5, 5, size=(3000, 2))
    assert student.transform(everywhere).min() >= 0
    assert student.transform(everywhere).max() <= 1


def test_bounds_hold_where_free_coefficients_would_not(committor):
    # Few landmarks of a step: least squares overshoots.
    sharp = committor.distil(drawn(1), n_landmarks=6)
    found = sharp.transform(drawn(2))
    assert 0 <= found.min() < found.max() <= 1
    assert np.corrcoef(found[:, 0], committor.transform(drawn(2))[:, 0])[0, 1] > 0.98


def test_it_is_a_map(committor, student, tmp_path):
    assert student.coordinate_names_ == ["q"]
    student.save(tmp_path / "q.ldm")
    loaded = ldmaps.load(tmp_path / "q.ldm")
    np.testing.assert_array_equal(loaded.transform(drawn(2, 50)), student.transform(drawn(2, 50)))
    assert loaded.certificate_ == student.certificate_
    points, step = drawn(3, 10), 1e-5
    for axis in range(2):
        shift = step * np.eye(2)[axis]
        differences = (student.transform(points + shift) - student.transform(points - shift)) / (2 * step)
        np.testing.assert_allclose(student.gradient(points)[:, :, axis], differences, atol=1e-6)


def test_several_functions_at_once_without_bounds(model):
    points = drawn(0)
    values = model.function(points, 5 + 10 * points[:, 0], name="x")
    few = values.distil(points, n_landmarks=15)
    new = drawn(2)
    error = few.transform(new) - values.transform(new)
    assert np.sqrt((error**2).mean()) < 0.01 * 20
    assert few.certificate_ is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "give a tolerance or n_landmarks, one of the two"),
        ({"tolerance": 1.0, "n_landmarks": 5}, "one of the two"),
        ({"n_landmarks": 4000}, "must be below the 4000 frames"),
    ],
)
def test_what_cannot_be_done_is_said(committor, settings, message):
    with pytest.raises(InvalidInputError, match=message):
        committor.distil(drawn(1), **settings)


def test_frames_that_resemble_each_other_certify_nothing(committor):
    rng = np.random.default_rng(0)
    walk = np.clip(np.cumsum(0.01 * rng.normal(size=(2000, 2)), axis=0), -1, 1)
    with pytest.raises(ToleranceError, match="independent samples"):
        committor.distil(walk, tolerance=1.0)
