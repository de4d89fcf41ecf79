"""Both estimators are good scikit-learn citizens."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.landmarks import KMedoids
from ldmaps.metrics import RMSD


def all_checks():
    for estimator in (DiffusionMap(n_components=2), LandmarkDiffusionMap(n_components=2)):
        name = type(estimator).__name__
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            checks = list(estimator_checks_generator(estimator))
        for subject, check in checks:
            label = getattr(check, "func", check).__name__
            yield pytest.param(subject, check, id=f"{name}-{label}")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::ldmaps.errors.DisconnectedWarning")  # blobs that no hop joins
@pytest.mark.parametrize(("estimator", "check"), list(all_checks()))
def test_check_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def roll():
    return swiss_roll(600, random_state=0)


@pytest.mark.parametrize("make", [DiffusionMap, LandmarkDiffusionMap])
def test_works_as_a_step_of_a_searched_pipeline(make, roll):
    pipeline = make_pipeline(StandardScaler(), make(n_components=2), KNeighborsRegressor())
    name = make.__name__.lower()
    search = GridSearchCV(pipeline, {f"{name}__epsilon": [0.3, 0.6], f"{name}__n_components": [1, 3]}, cv=3)
    search.fit(roll.points, roll.position)
    assert search.best_params_[f"{name}__n_components"] == 3
    assert search.best_score_ > 0.75


def test_names_and_containers_of_the_output(roll):
    frame = pd.DataFrame(roll.points, columns=["x", "y", "z"])
    model = LandmarkDiffusionMap(2, 9.0, n_landmarks=50).set_output(transform="pandas")
    out = model.fit_transform(frame)
    assert list(out.columns) == ["psi2", "psi3"]
    assert list(model.get_feature_names_out()) == list(out.columns)
    assert list(model.feature_names_in_) == ["x", "y", "z"]
    assert isinstance(model.transform(frame), pd.DataFrame)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame.rename(columns={"x": "w"}))


def test_clone_keeps_settings_and_forgets_the_fit():
    frames = np.random.default_rng(0).normal(size=(60, 4, 3))
    model = LandmarkDiffusionMap(2, metric=RMSD(weights=[1.0, 2.0, 3.0, 4.0]), landmarks=KMedoids(30)).fit(
        frames
    )
    copy = clone(model)
    assert not hasattr(copy, "embedding_")
    assert copy.landmarks.n_landmarks == 30
    assert isinstance(copy.metric, RMSD)
    assert repr(copy) == repr(model).partition("\n  2 coordinates")[0]


def test_fit_leaves_its_arguments_alone(roll):
    points = roll.points.copy()
    weights = np.ones(len(points))
    selector = KMedoids(init="random")
    LandmarkDiffusionMap(2, 9.0, landmarks=selector, n_landmarks=40).fit(points, sample_weight=weights)
    np.testing.assert_array_equal(points, roll.points)
    assert (weights == 1.0).all()
    assert selector.n_landmarks is None
