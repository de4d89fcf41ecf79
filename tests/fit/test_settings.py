"""Seeds of a fit: one for each stage, all from one number."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np

from ldmaps.fit.settings import Seeds, seed_of


def streams(seed):
    return np.array(
        [np.random.default_rng(each).integers(2**63, size=4) for each in astuple(Seeds.spawn(seed))]
    )


def test_no_two_stages_draw_the_same():
    drawn = streams(0)
    assert len(np.unique(drawn)) == drawn.size


def test_one_number_decides_them_all():
    np.testing.assert_array_equal(streams(7), streams(7))
    assert not np.isin(streams(7), streams(8)).any()


def test_a_random_state_of_scikit_learn_is_one_number():
    assert seed_of(3) == seed_of(3) != seed_of(4)
    state = np.random.RandomState(3)
    assert seed_of(state) != seed_of(state)
