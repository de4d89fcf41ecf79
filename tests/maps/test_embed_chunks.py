"""Points in chunks get the places that they get all at once, whoever reads them."""

import threading
from dataclasses import replace

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import InvalidInputError
from ldmaps.inputs.source import FrameChunk, PointSource
from ldmaps.maps.embed_chunks import embed_chunks

ROLL = swiss_roll(400).points


class _Chunks(PointSource):
    """Rows in memory as a file would bring them."""

    def __init__(self, rows, size, reads_ahead):
        self.rows, self.size, self.reads_ahead = rows, size, reads_ahead
        self.files = ("roll.csv",)

    @property
    def shape(self):
        return self.rows.shape[1:]

    def facts(self):
        return {}

    def __iter__(self):
        for begin in range(0, len(self.rows), self.size):
            rows = self.rows[begin : begin + self.size]
            yield FrameChunk(rows, np.arange(begin, begin + len(rows)), None, "roll.csv")


@pytest.fixture(scope="module")
def model():
    return LandmarkDiffusionMap(2, 30.0, n_landmarks=40).fit(ROLL)


@pytest.mark.parametrize("reads_ahead", [False, True])
def test_chunks_are_placed_as_all_points_at_once(model, reads_ahead):
    source = _Chunks(ROLL, 150, reads_ahead)
    pairs = list(embed_chunks(model.embedder_, source, 1))
    assert [chunk.numbers[0] for chunk, _ in pairs] == [0, 150, 300]
    np.testing.assert_array_equal(
        np.concatenate([placed.coordinates for _, placed in pairs]), model.transform(ROLL)
    )
    whole = model.coverage(ROLL)
    for part, values in zip(model.coverage(source), whole, strict=True):
        np.testing.assert_array_equal(part, values)
    np.testing.assert_array_equal(model.transform(source), model.transform(ROLL))
    for part, values in zip(
        model.transform_with_gradient(source), model.transform_with_gradient(ROLL), strict=True
    ):
        np.testing.assert_array_equal(part, values)


@pytest.mark.parametrize("reads_ahead", [False, True])
def test_the_row_that_is_not_finite_is_named_by_file_and_number(model, reads_ahead):
    rows = ROLL.copy()
    rows[333, 1] = np.nan
    with pytest.raises(InvalidInputError, match=r"roll.csv: row 333 \(column 2\) holds NaN"):
        model.transform(_Chunks(rows, 150, reads_ahead))


def test_a_caller_who_stops_ends_all_threads(model):
    before = threading.active_count()
    embedded = embed_chunks(model.embedder_, _Chunks(ROLL, 10, reads_ahead=True), 1)
    next(embedded)
    assert threading.active_count() > before
    embedded.close()
    assert threading.active_count() == before


def test_a_source_of_other_width_or_without_rows_is_refused(model):
    with pytest.raises(InvalidInputError, match=r"roll.csv has 2 numbers, but the map takes 3"):
        model.transform(_Chunks(ROLL[:, :2], 10, reads_ahead=False))
    with pytest.raises(InvalidInputError, match=r"there are no frames in roll.csv"):
        model.transform(_Chunks(ROLL[:0], 10, reads_ahead=False))


def test_a_rule_of_the_metric_is_told_in_its_own_words():
    histograms = np.random.default_rng(0).random((60, 4))
    model = LandmarkDiffusionMap(2, 4.0, "earth_mover", n_landmarks=20).fit(histograms)
    source = _Chunks(histograms, 30, reads_ahead=False)
    bad = replace(next(iter(source)), frames=-histograms[:1], numbers=np.arange(1))
    with pytest.raises(InvalidInputError) as told:
        model.transform(-histograms[:1])
    with pytest.raises(InvalidInputError) as in_chunks:
        list(embed_chunks(model.embedder_, [bad]))
    assert str(told.value) == str(in_chunks.value)
