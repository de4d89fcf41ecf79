"""What is wrong with points is said in the same words wherever they come in."""

from __future__ import annotations

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.source import FrameChunk, check_frames_finite
from ldmaps.metrics import Euclidean
from ldmaps.point_faults import bad_value, not_finite, wrong_width


@pytest.mark.parametrize(
    ("shape", "width", "takes_frames", "words"),
    [
        ((3,), 3, False, None),
        ((22, 3), 66, True, None),
        ((66,), 66, True, None),
        ((2,), 3, False, "2 numbers, but the map takes 3"),
        ((21, 3), 66, True, "21 atoms, but the map takes 22"),
        ((22, 3), 3, False, "22 atoms, but the map takes 3 numbers"),
        ((3,), 66, True, "3 numbers, but the map takes 22 atoms (66 numbers)"),
    ],
)
def test_wrong_width(shape, width, takes_frames, words):
    assert wrong_width(shape, width, takes_frames=takes_frames) == words


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_first_point_that_is_not_finite(value):
    rows = np.zeros((5, 3))
    assert not_finite(rows) is None
    rows[2, 1] = rows[4, 0] = rows[4, 2] = value
    words = "holds NaN or an infinite value (2 of 5 here do)"
    assert not_finite(rows) == f"point 2 (column 2) {words}"
    assert not_finite(rows, "row", np.arange(10, 15)) == f"row 12 (column 2) {words}"
    frames = np.zeros((5, 4, 3))
    frames[2, 3, 0] = frames[4, 0, 0] = value
    assert not_finite(frames, "frame") == f"frame 2 (atom 3) {words}"
    found, place = bad_value(frames[2])
    assert (str(found), place) == (str(value), "atom 3")


def test_arrays_and_files_say_the_same():
    rows = np.zeros((5, 3))
    rows[2, 1] = np.nan
    words = r"2 \(column 2\) holds NaN or an infinite value \(1 of 5 here do\); remove or repair those"
    with pytest.raises(InvalidInputError, match=f"points must be finite, but point {words}"):
        Euclidean().prepare(rows)
    with pytest.raises(InvalidInputError, match=f"run.npy: row {words}"):
        check_frames_finite(FrameChunk(rows, np.arange(5), None, "run.npy"))


def test_distances_have_no_width():
    points = np.random.default_rng(0).normal(size=(30, 2))
    distances = np.linalg.norm(points[:, None] - points, axis=2)
    model = LandmarkDiffusionMap(2, metric="precomputed", n_landmarks=10).fit(distances)
    assert (
        model.transform(distances[:4]).shape == model.transform(distances[:4, model.landmark_indices_]).shape
    )


def test_a_matrix_that_is_none_of_distances_is_not_fitted():
    with pytest.raises(InvalidInputError, match="distance of a point to itself must be 0"):
        LandmarkDiffusionMap(2, metric="precomputed", n_landmarks=10).fit(np.ones((30, 30)))
