"""The suite every extension must pass.

Subclass :class:`ExtensionContract` in a test file, say how the extension is made, and
pytest runs all of it. What is checked is what the rest of the library relies on: the
shape of what ``fit`` returns, that it may be used as any other online step, and that
nothing but its arguments decides the result.
"""

import numpy as np
import pytest
from point_sets import sheet

from ldmaps.diffusion.walk import Walk
from ldmaps.extension import EXTENSIONS, OnlineStep, resolve_extension
from ldmaps.fit.landmark_fit import LandmarkFit
from ldmaps.fit.solve import solve
from ldmaps.landmarks import KMedoids
from ldmaps.metrics import Euclidean
from ldmaps.validation.fidelity import nrmse

N_POINTS, N_LANDMARKS, N_COMPONENTS = 300, 40, 2
EPSILON = 0.05


def a_walk(*, weights=None, alpha=0.0, time=0.0, dtype=np.float64, n_threads=None):
    points = Euclidean().prepare(sheet(N_POINTS, 0).astype(dtype))
    weights = np.ones(N_POINTS) if weights is None else weights
    return Walk(Euclidean(), points, weights, EPSILON, alpha, time, n_threads)


def landmarks_of(walk, count=N_LANDMARKS):
    rng = np.random.default_rng(0)
    return KMedoids(count).select(walk, rng)


class ExtensionContract:
    """Checks that hold for every extension."""

    def make(self):
        """Return the extension."""
        raise NotImplementedError

    def fitted(self, walk, landmarks=None, seed=0, usable=None):
        """Fit to the teacher that the extension asks for."""
        extension = self.make()
        landmarks = landmarks_of(walk) if landmarks is None else landmarks
        of = None if extension.learns_from_reference else landmarks
        teacher = solve(walk, N_COMPONENTS, of)
        usable = np.arange(len(walk.points)) if usable is None else usable
        step = extension.fit(teacher, landmarks, usable, np.random.default_rng(seed))
        solved = None if extension.learns_from_reference else teacher
        return step, LandmarkFit.of(walk, landmarks, step, solved).embedder

    def test_is_in_the_table(self):
        extension = self.make()
        assert EXTENSIONS[extension.name] is type(extension)
        assert type(resolve_extension(extension.name, for_tolerance=False)) is type(extension)
        assert isinstance(extension.learns_from_reference, bool)
        assert extension.draws(1) >= 1
        assert extension.draws(10**6) >= 1

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_gives_the_numbers_of_the_online_step(self, dtype):
        step, embedder = self.fitted(a_walk(dtype=dtype))
        assert isinstance(step, OnlineStep)
        assert step.coefficients.shape == (N_LANDMARKS, N_COMPONENTS)
        assert step.source_weights.shape == (N_LANDMARKS,)
        assert np.isfinite(step.coefficients).all()
        assert (step.source_weights > 0).all()
        assert np.isfinite(step.bandwidth)
        assert step.bandwidth > 0
        assert np.isnan(step.held_out_z) or step.held_out_z >= 0
        assert embedder.coefficients.dtype == dtype

    @pytest.mark.parametrize(("alpha", "time"), [(0.0, 0.0), (0.5, 1.0), (1.0, 2.0)])
    def test_training_points_come_out_near_where_the_exact_map_has_them(self, alpha, time):
        weights = np.random.default_rng(3).uniform(0.5, 2.0, N_POINTS)
        walk = a_walk(weights=weights, alpha=alpha, time=time)
        _, embedder = self.fitted(walk)
        exact = solve(walk, N_COMPONENTS).own_coordinates
        assert nrmse(exact, embedder.extend(walk.points).coordinates) < 12.0

    @pytest.mark.parametrize("alpha", [0.0, 1.0])
    def test_all_points_as_landmarks_give_the_exact_map(self, alpha):
        walk = a_walk(alpha=alpha)
        _, embedder = self.fitted(walk, landmarks_of(walk, N_POINTS))
        exact = solve(walk, N_COMPONENTS)
        new = walk.metric.prepare(sheet(50, 1))
        np.testing.assert_allclose(
            embedder.extend(new).coordinates, exact.embedder().extend(new).coordinates, atol=1e-8
        )

    def test_a_batch_equals_its_points_one_by_one(self):
        _, embedder = self.fitted(a_walk())
        new = sheet(30, 1)
        batch = embedder.extend(embedder.prepare(new)).coordinates
        np.testing.assert_allclose([embedder.embed_one(x) for x in new], batch, rtol=1e-10, atol=1e-15)

    def test_points_far_away_stay_in_the_hull_of_the_coefficients(self):
        step, embedder = self.fitted(a_walk())
        far = embedder.extend(embedder.prepare(sheet(30, 1) + 100.0)).coordinates
        assert (far >= step.coefficients.min(axis=0) - 1e-12).all()
        assert (far <= step.coefficients.max(axis=0) + 1e-12).all()

    def test_the_seed_decides_and_threads_do_not(self):
        one, again, threaded = (self.fitted(a_walk(n_threads=threads))[0] for threads in (1, 1, 2))
        for other in (again, threaded):
            np.testing.assert_array_equal(one.coefficients, other.coefficients)
            np.testing.assert_array_equal(one.source_weights, other.source_weights)
            assert one.bandwidth == other.bandwidth

    def test_a_common_factor_of_the_weights_only_scales(self):
        once, twice = (
            self.fitted(a_walk(weights=np.full(N_POINTS, factor)))[1].extend(a_walk().points).coordinates
            for factor in (1.0, 4.0)
        )
        assert nrmse(once, 2.0 * twice) < 0.1

    def test_changes_nothing_it_is_given(self):
        walk = a_walk()
        landmarks, usable = landmarks_of(walk), np.arange(N_POINTS)
        before = landmarks.indices.copy(), landmarks.multiplicities.copy(), walk.weights.copy()
        self.fitted(walk, landmarks, usable=usable)
        for array, copy in zip(
            (landmarks.indices, landmarks.multiplicities, walk.weights), before, strict=True
        ):
            np.testing.assert_array_equal(array, copy)
        np.testing.assert_array_equal(usable, np.arange(N_POINTS))
