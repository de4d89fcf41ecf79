"""Blocks of sums: how many there are, what they hold, what is held out and drawn again."""

from dataclasses import dataclass

import numpy as np
import pytest

from ldmaps.kinetics.blocks import FEWEST_BLOCKS, MOST_BLOCKS, Blocks, Resamples, folds, total


@dataclass(frozen=True)
class Rows:
    n_rows: int
    those: tuple

    def plus(self, other):
        return Rows(self.n_rows + other.n_rows, self.those + other.those)


def filled(lengths, piece=1000):
    """Return blocks of runs of these lengths that come in pieces."""
    blocks, row = Blocks(), 0
    for length in lengths:
        for start in range(0, length, piece):
            size = min(piece, length - start)
            begins_run = start == 0
            for rows in blocks.pieces(size):
                count = rows.stop - rows.start
                blocks.add(Rows(count, tuple(range(row, row + count))), begins_run=begins_run)
                begins_run = False
                row += count
    return blocks


@pytest.mark.parametrize("lengths", [[100], [50_000], [500] * 40, [3] * 2000, [100_000, *[10] * 30]])
def test_blocks_hold_every_row_once_and_in_order(lengths):
    blocks = list(filled(lengths))
    assert len(blocks) <= MOST_BLOCKS
    assert [row for block in blocks for row in block.those] == list(range(sum(lengths)))


def test_blocks_do_not_depend_on_how_rows_come():
    one, other = (list(filled([20_000], piece)) for piece in (20_000, 77))
    assert one == other


def test_a_long_run_is_cut_into_many_blocks():
    assert len(filled([50_000])) >= MOST_BLOCKS // 3


def test_a_short_run_is_a_block_of_its_own():
    assert [block.n_rows for block in filled([30, 25, 20])] == [30, 25, 20]


def test_thousands_of_short_runs_fill_many_blocks():
    for length in (3, 6, 100):
        assert len(filled([length] * 3000)) >= 10


def test_longer_blocks_are_joined_as_far_as_enough_are_left():
    blocks = filled([20_000])
    assert min(block.n_rows for block in blocks.at_least(1500)[:-1]) >= 1500
    assert len(blocks.at_least(1e12)) >= FEWEST_BLOCKS
    assert total(blocks.at_least(1e12)) == total(list(blocks))


def test_each_block_is_held_out_once():
    blocks = list(filled([20_000]))
    held = [row for _, kept in folds(blocks) for row in kept.those]
    assert sorted(held) == list(range(20_000))
    for fitted, kept in folds(blocks):
        assert not set(fitted.those) & set(kept.those)
        assert len(fitted.those) + len(kept.those) == 20_000


def test_errors_of_a_mean_are_those_of_independent_blocks():
    values = np.random.default_rng(0).normal(size=(400, 12))  # 400 experiments with 12 blocks each
    resamples = Resamples(12, 400)
    errors = [resamples.errors((resamples.counts @ row) / 12) for row in values]
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(1 / np.sqrt(12), rel=0.05)


def test_what_few_draws_have_a_value_of_has_no_error():
    values = np.column_stack([np.arange(9.0), np.full(9, np.nan), [5.0, *[np.nan] * 8]])
    found = Resamples(12, 9).errors(values)
    assert found[0] == pytest.approx(np.std(np.arange(9.0)) * np.sqrt(12 / 11))
    assert np.isnan(found[1:]).all()
