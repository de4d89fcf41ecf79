import numpy as np
from landmarks.contract import CountedSelectorContract, run
from point_sets import sheet
from scipy.stats import chisquare

from ldmaps.landmarks import Uniform


class TestUniformContract(CountedSelectorContract):
    def make_counted(self, n_landmarks):
        return Uniform(n_landmarks)


def test_every_point_is_drawn_equally_often():
    X = sheet(12, 0)
    counts = np.zeros(12)
    for seed in range(800):
        counts[run(Uniform(4), X, epsilon=1.0, seed=seed).indices] += 1
    assert counts.sum() == 3200
    # Draws without replacement spread less than independent ones, so the test is on the safe side.
    assert chisquare(counts).pvalue > 0.01


def test_weights_do_not_change_the_draw():
    X = sheet(60, 0)
    weights = np.random.default_rng(0).random(60) + 0.01
    np.testing.assert_array_equal(run(Uniform(10), X, weights=weights).indices, run(Uniform(10), X).indices)
