"""From a model file to the estimator that it was saved from."""

from __future__ import annotations

import inspect
import os
from typing import Any

from ldmaps.maps.diffusion_map import DiffusionMap
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.maps.function_map import FunctionMap
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.maps.model_file import NOT_DATA, read_model

_ESTIMATORS: dict[str, type[DiffusionEstimator]] = {
    estimator.__name__: estimator for estimator in (DiffusionMap, LandmarkDiffusionMap, FunctionMap)
}


def load(path: str | os.PathLike[str], *, metric: Any = None) -> Any:
    """Read a model file.

    Parameters
    ----------
    path : path-like
        A file that ``save`` or ``ldmaps fit`` wrote.
    metric : callable or Metric, optional
        Needed only for a map that was fitted with a Python function as metric: a file cannot carry code, so the
        function must be passed again.

    Returns
    -------
    DiffusionMap, LandmarkDiffusionMap or FunctionMap
        Fitted, as it was saved. ``embedding_`` is there if it was stored; what only :meth:`fit` needs (kept
        distances, the points' cells) is not.

    See Also
    --------
    LandmarkDiffusionMap.save : write the file.

    Examples
    --------
    >>> import os, tempfile
    >>> from ldmaps import LandmarkDiffusionMap, load
    >>> from ldmaps.datasets import swiss_roll
    >>> path = os.path.join(tempfile.mkdtemp(), "roll.ldm")
    >>> LandmarkDiffusionMap(2, 9.0, n_landmarks=50).fit(swiss_roll(300).points).save(path)
    >>> load(path).n_components_
    2
    """
    stored = read_model(path, metric=metric)
    estimator = _ESTIMATORS[stored.estimator]
    known = inspect.signature(estimator).parameters
    settings = {name: value for name, value in stored.fit_settings.items() if name in known}
    model = estimator(**{name: value for name, value in settings.items() if value is not NOT_DATA})
    model.n_features_in_ = stored.n_features_in_
    if hasattr(stored, "feature_names_in_"):
        model.feature_names_in_ = stored.feature_names_in_
    return model.adopt(stored.map_)
