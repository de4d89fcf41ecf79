"""A map as a detector: scikit-learn's interface for outliers, and the attributes that PyOD's detectors have.

The score of a point is its distance to the nearest landmark in units of √ε; with ``contamination``, that to as many
landmarks as stand for more points than the outliers are. scikit-learn counts what is ordinary (``score_samples`` is
minus the score), PyOD what is unusual (``decision_scores_`` is the score).
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from ldmaps.diffusion.walk import minimum_spanning_tree
from ldmaps.errors import DisconnectedWarning, InvalidInputError, OutlierWarning
from ldmaps.extension.calibration import FEWEST_HELD, Calibration
from ldmaps.extension.share_distance import share_distances
from ldmaps.fit.data import array_shape
from ldmaps.inputs.opening import as_source
from ldmaps.inputs.source import PointSource
from ldmaps.landmarks.base import DEFAULT_LANDMARKS
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap

#: Share of points like the training data that are called outliers if nobody says how many.
DEFAULT_SHARE = 0.05
#: Share of the points that calibrate, and the one for small data sets, of which the usual share would be too few.
CALIBRATING, CALIBRATING_FEW = 0.2, 0.5


class NoveltyDetector(OutlierMixin, BaseEstimator):
    """Detect points that are farther from a map's landmarks than the training data are.

    Fit it to data without outliers, if there are such, or say with ``contamination`` how many there are: a training
    point that is far from all others may become a landmark, and then nothing near it is detected.

    Parameters
    ----------
    estimator : LandmarkDiffusionMap or DiffusionMap, optional
        The map, which is cloned and fitted. By default a :class:`~ldmaps.LandmarkDiffusionMap` with 400 landmarks, or
        half as many as points if these are fewer, and with one bandwidth for all, however far groups are apart. Without
        ``contamination``, a map with local bandwidths scores by distances in local units, and one whose landmarks are
        all its points gives every training point the score 0.
    contamination : float, optional
        Share of the training points that are outliers, above 0 and at most 0.5: that many of them are beyond the
        threshold. Use it if the training data contain outliers. The score is then the distance within which landmarks
        stand for that share of the training points, so that even outliers which are all alike are far from it.
    alarm_rate : float or str, optional
        Share of the points *like the training data* that may be called outliers, or a number per unit of time, such as
        "1/day", if the training data have times. The threshold comes from points that no landmark was chosen from
        (conformal p-values). By default 0.05; without at least 200 points, or with a map that is not calibrated, that
        share of the training points.

    Attributes
    ----------
    map_ : LandmarkDiffusionMap or DiffusionMap
        The fitted map.
    offset_ : float
        ``decision_function`` is ``score_samples`` minus this.
    threshold_ : float
        Points with a larger score are outliers.
    decision_scores_ : ndarray of shape (N,)
        Scores of the training points.
    labels_ : ndarray of shape (N,)
        1 for training points that are outliers, 0 for the others (``predict`` returns -1 and 1).

    See Also
    --------
    LandmarkDiffusionMap : the map that it fits; ``coverage`` has distances and p-values.
    ldmaps.regions.Alarm : the same decision on a stream.

    Examples
    --------
    >>> import numpy as np
    >>> from ldmaps import NoveltyDetector
    >>> points = np.random.default_rng(0).normal(size=(1000, 3))
    >>> detector = NoveltyDetector(alarm_rate=0.01).fit(points)
    >>> detector.predict([[0.0, 0.0, 0.0], [9.0, 9.0, 9.0]])
    array([ 1, -1])
    >>> detector.p_values([[9.0, 9.0, 9.0]]) <= 0.01
    array([ True])
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        contamination: float | None = None,
        alarm_rate: float | str | None = None,
    ) -> None:
        self.estimator = estimator
        self.contamination = contamination
        self.alarm_rate = alarm_rate

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Fit the map, and find the threshold.

        Parameters
        ----------
        X : array-like of shape (N, features), or what the map's ``fit`` takes
            The training points.
        y : ignored
            Here because scikit-learn's pipelines pass it.
        """
        self._check_settings()
        model = _default_map(X) if self.estimator is None else clone(self.estimator)
        with warnings.catch_warnings():
            # Isolated training points, and groups of them, are what a detector is for: ``labels_`` has them.
            warnings.simplefilter("ignore", OutlierWarning)
            warnings.simplefilter("ignore", DisconnectedWarning)
            self.map_ = model.fit(X)
            if self.estimator is None and self.contamination is None and self.map_.metric_.has_local_scales:
                # In local units, what is far from everything seems near. Scores depend on no other ε.
                self.map_ = clone(model).set_params(epsilon=self._joining_epsilon(X)).fit(X)
        self.n_features_in_: int = self.map_.n_features_in_
        if hasattr(self.map_, "feature_names_in_"):
            self.feature_names_in_ = self.map_.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_  # of an earlier fit
        self.decision_scores_ = self._scores(X)
        self.threshold_ = self._threshold()
        self.offset_ = -self.threshold_
        self.labels_ = (self.decision_scores_ > self.threshold_).astype(int)
        return self

    def score_samples(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return minus the scores of points ``X``, which are distances in √ε: the lower, the more unusual."""
        return -self._scores(X)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return how far points ``X`` are within the threshold: below 0 for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int_]:
        """Return -1 for those of the points ``X`` that are outliers, 1 for the others."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def p_values(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return conformal p-values of points ``X``: a share α at most of data like the training data has p ≤ α."""
        check_is_fitted(self)
        self._calibration()
        return np.asarray(self.map_.coverage(X).p_value)

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return pseudo-probabilities that points ``X`` are ordinary and outliers, (n, 2), as PyOD's "linear" does.

        Scores are scaled so that those of the training points range from 0 to 1. :meth:`p_values` are calibrated.
        """
        check_is_fitted(self)
        lowest, highest = self.decision_scores_.min(), self.decision_scores_.max()
        width = highest - lowest
        share = np.clip((self._scores(X) - lowest) / (width if width > 0 else 1.0), 0.0, 1.0)
        return np.column_stack([1.0 - share, share])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.input_tags = self.estimator.__sklearn_tags__().input_tags
        return tags

    def _check_settings(self) -> None:
        share = self.contamination
        if share is None:
            return
        if self.alarm_rate is not None:
            raise InvalidInputError(
                f"contamination={share!r} and alarm_rate={self.alarm_rate!r} are two thresholds; give contamination if "
                "the training data contain outliers, alarm_rate if they contain none"
            )
        is_number = isinstance(share, (int, float, np.number)) and not isinstance(share, bool)
        if not (is_number and 0 < share <= 0.5):
            raise InvalidInputError(
                f"contamination must be the share of the training points that are outliers, above 0 and at most 0.5, "
                f"got {share!r}"
            )

    def _threshold(self) -> float:
        if self.contamination is None and (self.alarm_rate is not None or self._is_calibrated):
            calibration = self._calibration()
            is_of_frames = (self.map_.source_ or {}).get("kind") == "frames"
            if self.alarm_rate is None:
                rate = max(DEFAULT_SHARE, calibration.least_rate)
            else:
                rate = calibration.rate_of(self.alarm_rate, frames=is_of_frames)
            return calibration.threshold(rate)
        share = DEFAULT_SHARE if self.contamination is None else float(self.contamination)
        return float(np.quantile(self.decision_scores_, 1.0 - share))

    def _scores(self, X: ArrayLike) -> NDArray[np.float64]:
        check_is_fitted(self)
        model = self.map_
        if self.contamination is None:
            return np.asarray(model.coverage(X).distance, dtype=np.float64)
        return self._share_distances(X, float(self.contamination))

    def _share_distances(self, X: ArrayLike, share: float) -> NDArray[np.float64]:
        model = self.map_
        given = model.checked_points(X)
        blocks = (chunk.frames for chunk in given) if isinstance(given, PointSource) else [given]
        settings = model.multiplicities_, share, model.n_threads
        return np.concatenate(
            [share_distances(model.embedder_, model.embedder_.prepare(block), *settings) for block in blocks]
        )

    def _joining_epsilon(self, X: ArrayLike) -> float:
        """Return a bandwidth by which points reach their landmarks and these each other, however far groups are."""
        embedder: Any = self.map_.embedder_
        joining = minimum_spanning_tree(embedder.metric.plain, embedder.landmarks.plain).connecting_epsilon
        farthest = float(self._share_distances(X, 0.0).max())
        return float(1.01 * max(joining, embedder.epsilon * farthest**2))

    @property
    def _is_calibrated(self) -> bool:
        return self.map_.embedder_.calibration is not None

    def _calibration(self) -> Calibration:
        """Return the map's calibration, or raise."""
        calibration: Calibration | None = self.map_.embedder_.calibration
        if calibration is None:
            raise InvalidInputError(
                "the map is not calibrated, so alarm rates and p-values are not known; fit at least 200 points with "
                "the default estimator, or give contamination= for a threshold"
            )
        return calibration


def _default_map(X: Any) -> LandmarkDiffusionMap:
    """Return a map with more points than landmarks, so that the distances of training points tell something."""
    source = as_source(X)
    n_points = source.n_frames if source is not None else next(iter(array_shape(X)), None)
    if n_points is None:  # a stream of unknown length, or what the map's own checks will explain
        return LandmarkDiffusionMap()
    is_small = CALIBRATING * n_points < FEWEST_HELD
    return LandmarkDiffusionMap(
        n_landmarks=min(DEFAULT_LANDMARKS, max(2, n_points // 2)),
        calibration=CALIBRATING_FEW if is_small else CALIBRATING,
    )
