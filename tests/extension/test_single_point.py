"""One point takes a quick way, which must give and refuse exactly what the way of all others does."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from ldmaps import LandmarkDiffusionMap
from ldmaps.diffusion.pairwise import SCANNED_LANDMARKS
from ldmaps.errors import InvalidInputError
from ldmaps.extension import Embedder, OnlineStep
from ldmaps.metrics import RMSD, Euclidean, Features, Hamming, Periodic
from ldmaps.metrics.base import DirectStep

RNG = np.random.default_rng(0)


def built(metric, landmarks, dtype=None):
    points = metric.prepare(landmarks, dtype)
    step = OnlineStep(
        coefficients=RNG.normal(size=(len(points), 2)),
        source_weights=RNG.uniform(0.5, 1.0, len(points)),
        bandwidth=0.7,
    )
    return Embedder.build(metric, points, 1.0, step, np.ones(len(points)))


def together(embedder, X):
    """Embed as a batch does: at least two points, or the quick way might be taken."""
    return embedder.project(np.concatenate([X, X])).coordinates[: len(X)]


def euclidean(n_landmarks=100, n_features=3, dtype=np.float64):
    return built(Euclidean(), RNG.normal(size=(n_landmarks, n_features)), dtype)


def rmsd(n_landmarks=100, n_atoms=7, dtype=np.float64, **settings):
    return built(RMSD(**settings), RNG.normal(size=(n_landmarks, n_atoms, 3)), dtype)


KINDS = {
    "dihedrals": {"dihedrals": [[0, 1, 2, 3], [3, 4, 5, 6]]},
    "all kinds": {
        "dihedrals": [[0, 1, 2, 3]],
        "angles": [[2, 3, 4]],
        "distances": [[0, 6]],
        "contacts": [[1, 5], [0, 4]],
        "scales": [1.0, 2.0, 10.0, 1.0, 0.5],
    },
}


def features(n_landmarks=100, dtype=np.float64, kinds="all kinds"):
    return built(Features(7, **KINDS[kinds]), RNG.normal(size=(n_landmarks, 7, 3)), dtype)


EMBEDDERS = {
    "euclidean": euclidean(),
    "rmsd": rmsd(),
    "features": features(),
    "torsions": features(kinds="dihedrals"),
}
every_embedder = pytest.mark.parametrize("embedder", EMBEDDERS.values(), ids=EMBEDDERS)


def shape_of(embedder):
    return (7, 3) if embedder.metric.takes_frames else (3,)


# -- the same numbers -----------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_landmarks", [1, 5, 16, 17, 100])
@pytest.mark.parametrize("n_features", [1, 2, 3, 4, 9, 32])
def test_one_point_has_the_bits_of_the_batch(n_features, n_landmarks, dtype):
    embedder = euclidean(n_landmarks, n_features, dtype)
    X = RNG.normal(size=(20, n_features)).astype(dtype)
    wanted = together(embedder, X)
    for x, row in zip(X, wanted, strict=True):
        np.testing.assert_array_equal(embedder.quick_point(x[None]), row)
        np.testing.assert_array_equal(embedder.embed_one(x), row)


@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_landmarks", [3, 16, 17, 101])
@pytest.mark.parametrize("weights", [None, np.arange(1.0, 8.0)], ids=["alike", "weighed"])
def test_one_frame_has_the_bits_of_the_batch(weights, n_landmarks, dtype, given):
    embedder = rmsd(n_landmarks, dtype=dtype, weights=weights)
    X = RNG.normal(size=(20, 7, 3)).astype(given)
    wanted = together(embedder, X)
    for x, row in zip(X, wanted, strict=True):
        np.testing.assert_array_equal(embedder.quick_point(x[None]), row)
        np.testing.assert_array_equal(embedder.embed_one(x), row)


@pytest.mark.parametrize("given", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kinds", KINDS)
def test_features_of_one_frame_have_the_bits_of_the_batch(kinds, dtype, given):
    embedder = features(17, dtype, kinds)
    X = RNG.normal(size=(20, 7, 3)).astype(given)
    for x, row in zip(X, together(embedder, X), strict=True):
        np.testing.assert_array_equal(embedder.quick_point(x[None]), row)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("period", [2 * np.pi, [1.0, 2.5]], ids=["one", "each"])
def test_one_row_of_angles_has_the_bits_of_the_batch(period, dtype):
    embedder = built(Periodic(period), RNG.normal(size=(30, 2)), dtype)
    X = 9 * RNG.normal(size=(20, 2)).astype(dtype)
    for x, row in zip(X, together(embedder, X), strict=True):
        np.testing.assert_array_equal(embedder.quick_point(x[None]), row)
    assert embedder.quick_point(np.full((1, 2), np.nan, dtype)) is None
    embedder.metric.period = 3.0
    assert embedder.quick_point(X[:1]) is None


@pytest.mark.parametrize(
    ("embedder", "shape"),
    [
        (euclidean(n_landmarks=1100, n_features=600), (600,)),
        (euclidean(n_landmarks=SCANNED_LANDMARKS), (3,)),
        (rmsd(superpose_on=[0, 1, 2, 3]), (7, 3)),
        (rmsd(), (21,)),
        (built(Hamming(), RNG.normal(size=(30, 2))), (2,)),
    ],
    ids=["many features", "many landmarks", "aligned", "flat frames", "no quick way"],
)
def test_what_has_no_quick_way_is_prepared(embedder, shape):
    X = RNG.normal(size=(5, *shape))
    assert embedder.quick_point(X[:1]) is None
    alone = [embedder.project(x[None]).coordinates[0] for x in X]
    np.testing.assert_array_equal([embedder.embed_one(x) for x in X], alone)


def test_who_inherits_is_asked():
    class Doubled(Euclidean):
        def squared_block(self, a, rows, b, cols, out):
            super().squared_block(a, rows, b, cols, out)
            out *= 2

    class Aligned(RMSD):
        def prepare(self, X, dtype=None):
            return super().prepare(np.asarray(X)[:, ::-1], dtype)

    class Halved(Periodic):
        def squared_block(self, a, rows, b, cols, out):
            super().squared_block(a, rows, b, cols, out)
            out /= 2

    class Mirrored(Features):
        def prepare(self, X, dtype=None):
            return super().prepare(np.asarray(X)[:, ::-1], dtype)

    for metric, landmarks in (
        (Doubled(), RNG.normal(size=(30, 3))),
        (Aligned(), RNG.normal(size=(30, 7, 3))),
        (Halved(), RNG.normal(size=(30, 3))),
        (Mirrored(7, **KINDS["all kinds"]), RNG.normal(size=(30, 7, 3))),
    ):
        embedder = built(metric, landmarks)
        X = RNG.normal(size=(5, *landmarks.shape[1:]))
        np.testing.assert_array_equal([embedder.embed_one(x) for x in X], together(embedder, X))


# -- the same refusals ------------------------------------------------------------


FORMS = {
    "a list": lambda x: x.tolist(),
    "whole numbers": lambda x: np.round(100 * x).astype(int),
    "the other precision": lambda x: x.astype(np.float32),
    "swapped bytes": lambda x: x.astype(x.dtype.newbyteorder()),
    "objects": lambda x: x.astype(object),
    "masked": lambda x: np.ma.masked_array(x, mask=np.zeros(x.shape, bool)),
    "every second": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "at an odd byte": lambda x: np.frombuffer(b"?" + x.tobytes(), offset=1).reshape(x.shape),
    "backwards": lambda x: x[..., ::-1].copy()[..., ::-1],
}


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


@pytest.mark.parametrize("form", [*FORMS.values(), read_only], ids=[*FORMS, "read-only"])
@every_embedder
def test_every_form_of_a_point_is_taken(embedder, form):
    x = RNG.normal(size=shape_of(embedder))
    given = form(x)
    np.testing.assert_array_equal(embedder.embed_one(given), together(embedder, np.asarray(form(x))[None])[0])


@pytest.mark.parametrize("form", [FORMS["every second"], FORMS["backwards"]])
def test_points_in_another_layout_are_copied(form):
    # Kernels take only what is contiguous.
    assert euclidean().quick_point(form(np.ones((1, 3)))) is None


def refusal(call, *arguments):
    """Return what an error says, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of casts, before the error
        try:
            call(*arguments)
        except (ValueError, TypeError) as error:
            return type(error), str(error)
    return None


def broken(shape, value, place):
    x = np.ones(shape)
    x[place] = value
    return x


LARGEST = np.finfo(np.float64).max
BAD = {
    "NaN": lambda shape: broken(shape, np.nan, 0),
    "the last is NaN": lambda shape: broken(shape, np.nan, -1),
    "infinite": lambda shape: broken(shape, np.inf, 0),
    "the last is minus infinity": lambda shape: broken(shape, -np.inf, -1),
    "squares overflow": lambda shape: broken(shape, 1e200, -1),
    "sums of squares overflow": lambda shape: np.resize([1.0, -1.0], shape) * np.sqrt(LARGEST / 8),
    "too narrow": lambda shape: np.ones((*shape[:-1], 2)),
    "one dimension more": lambda shape: np.ones((2, *shape)),
    "a number": lambda shape: np.float64(1.0),
    "nothing": lambda shape: np.ones(0),
    "text": lambda shape: np.full(shape, "a"),
    "complex": lambda shape: np.full(shape, 1j),
    "objects": lambda shape: np.full(shape, None),
}


@pytest.mark.parametrize("make", BAD.values(), ids=BAD)
@every_embedder
def test_a_bad_point_is_refused_in_the_same_words(embedder, make):
    x = make(shape_of(embedder))
    wanted = refusal(lambda: embedder.extend(embedder.prepare(np.asarray(x)[None])))
    # No size of a frame is too large for its torsions.
    assert wanted is not None or (embedder is EMBEDDERS["torsions"] and np.isfinite(x).all())
    assert refusal(embedder.embed_one, x) == wanted


def test_atoms_that_do_not_fit_are_refused_in_the_same_words():
    embedder = rmsd()
    with pytest.raises(InvalidInputError, match="frames of 6 and of 7 atoms"):
        embedder.embed_one(np.ones((6, 3)))
    embedder.embed_one(RNG.normal(size=(7, 3)))
    embedder.metric.weights = np.ones(5)
    with pytest.raises(InvalidInputError, match="one value per atom"):
        embedder.embed_one(np.ones((7, 3)))
    embedder.metric.weights = [1, 1, 1, 1, 1, 1, 0]
    with pytest.raises(InvalidInputError, match="frames of 6 and of 7 atoms"):
        embedder.embed_one(np.ones((7, 3)))
    embedder.metric.weights, embedder.metric.superpose_on = None, [0, 1, 2]
    with pytest.raises(InvalidInputError, match="superposed"):
        embedder.embed_one(np.ones((7, 3)))
    embedder = rmsd(superpose_on=[0, 1, 2, 3])
    embedder.metric.superpose_on = None
    with pytest.raises(InvalidInputError, match="superposed"):
        embedder.embed_one(np.ones((7, 3)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_are_as_large_as_the_slow_way_allows(dtype):
    """Near the limit both ways must agree, wherever the landmarks are."""
    limit = float(np.finfo(dtype).max) ** 0.5 / 4
    for place in (0.0, 0.2 * limit, 0.55 * limit):
        embedder = built(Euclidean(), np.full((3, 3), place) + np.eye(3), dtype)
        for size in (0.01, 0.1, 0.3, 0.5, 0.57, 0.6, 1.0, 2.0):
            for x in (np.full(3, size * limit, dtype), np.full(3, -size * limit, dtype)):
                wanted = refusal(together, embedder, x[None])
                assert refusal(embedder.embed_one, x) == wanted
                if wanted is None:
                    np.testing.assert_array_equal(embedder.embed_one(x), together(embedder, x[None])[0])


# -- nothing shared -------------------------------------------------------------------


@every_embedder
def test_results_stay_and_points_are_not_touched(embedder):
    X = RNG.normal(size=(10, *shape_of(embedder)))
    before = X.copy()
    results = [embedder.embed_one(x) for x in X]
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(results, together(embedder, X))
    results[0][:] = np.nan
    np.testing.assert_array_equal(embedder.embed_one(X[0]), together(embedder, X[:1])[0])


def test_a_call_inside_a_call_has_scratch_of_its_own():
    class Nested(Euclidean):
        depth = 0

        def direct_step(self, landmarks, rate, weights, coefficients):
            def embed(X, coordinates, nearest, lowest):
                coordinates[...] = 1.0 + self.depth
                if self.depth == 0:
                    self.depth = 1
                    assert embedder.quick_point(X)[0] == 2.0
                    self.depth = 0
                np.testing.assert_array_equal(coordinates, 1.0 + self.depth)
                return True

            return DirectStep((3,), embed, lambda X, squared: False)

    embedder = built(Nested(), RNG.normal(size=(30, 3)))
    X = RNG.normal(size=(1, 3))
    first = embedder.quick_point(X)
    np.testing.assert_array_equal(embedder.quick_point(X), first)


@pytest.mark.parametrize(
    "embedder", [euclidean(1500), rmsd(600), features(600)], ids=["euclidean", "rmsd", "features"]
)
def test_threads_may_embed_at_once(embedder):
    X = RNG.normal(size=(64, *shape_of(embedder)))
    wanted, wrong = together(embedder, X), []

    def work(first):
        for turn in range(300):
            at = (first + turn) % len(X)
            if not np.array_equal(embedder.embed_one(X[at]), wanted[at]):
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(7 * first,)) for first in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@every_embedder
def test_copies_make_their_own(embedder):
    x = RNG.normal(size=shape_of(embedder))
    wanted = embedder.embed_one(x)
    for other in (pickle.loads(pickle.dumps(embedder)), copy.deepcopy(embedder), copy.copy(embedder)):
        assert "quick_point" not in vars(other)
        np.testing.assert_array_equal(other.quick_point(x[None]), wanted)
    halved = replace(embedder, coefficients=embedder.coefficients / 2)
    np.testing.assert_array_equal(halved.embed_one(x), wanted / 2)


# -- transform ----------------------------------------------------------------------------


POINTS, FRAMES = RNG.normal(size=(150, 3)), RNG.normal(size=(1, 7, 3)) + 0.3 * RNG.normal(size=(150, 7, 3))


@pytest.fixture(scope="module")
def models():
    return (
        (LandmarkDiffusionMap(2, n_landmarks=30).fit(POINTS), POINTS),
        (LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=30).fit(FRAMES), FRAMES),
    )


def test_transform_of_one_row_has_the_bits_of_the_batch(models):
    for model, X in models:
        whole = model.transform(X[:40])
        np.testing.assert_array_equal(np.concatenate([model.transform(x[None]) for x in X[:40]]), whole)


def test_transform_refuses_one_row_in_the_same_words(models):
    for model, X in models:
        for make in BAD.values():
            rows = np.asarray(make(X.shape[1:]))[None]
            wanted = refusal(lambda rows=rows, model=model: model._projected(rows).coordinates)
            assert wanted is not None
            assert refusal(model.transform, rows) == wanted
        with pytest.raises(ValueError, match="scalar array"):
            model.transform(np.array(1.0))


def test_transform_of_one_row_without_a_map_says_so():
    with pytest.raises(NotFittedError):
        LandmarkDiffusionMap(2).transform(POINTS[:1])


def test_transform_of_one_row_minds_names_and_containers():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    model = LandmarkDiffusionMap(2, n_landmarks=30).fit(pandas.DataFrame(POINTS, columns=["a", "b", "c"]))
    with pytest.warns(UserWarning, match="feature names"):
        model.transform(POINTS[:1])
    model = LandmarkDiffusionMap(2, n_landmarks=30).fit(POINTS).set_output(transform="pandas")
    assert isinstance(model.transform(POINTS[:1]), pandas.DataFrame)
