"""Training data in blocks: checked here as far as that needs none of their numbers; workers do the rest."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from ldmaps.cluster.arrays import rows_in_blocks
from ldmaps.cluster.points import BlockedPoints, Blocks, Column
from ldmaps.errors import InvalidInputError
from ldmaps.fit.data import Data, Origin, check_frames_taken, check_sample_weight
from ldmaps.fit.fitted_map import MAX_RECORDED, thinned_rows
from ldmaps.inputs.opening import is_dask_array
from ldmaps.metrics import Metric


def prepare_blocked_data(
    estimator: BaseEstimator, metric: Metric, X: Any, sample_weight: ArrayLike | None
) -> Data:
    """Return training data in blocks, of which only weights that were given are N numbers in this process."""
    units = facts = None
    if is_dask_array(X):
        blocks = Blocks.of_array(rows_in_blocks(X))
    else:
        blocks, units, facts = X.blocks, X.units, {**X.facts(), "n_points": len(X.blocks)}
        sample_weight = X.weights() if sample_weight is None else sample_weight
    if len(blocks) < 2:
        raise InvalidInputError(
            f"got {len(blocks)} samples: a diffusion map needs at least two different points; pass more data"
        )
    if len(blocks.shape) == 2:
        check_frames_taken(metric, blocks.shape)
    estimator.n_features_in_ = math.prod(blocks.shape)
    estimator.__dict__.pop("feature_names_in_", None)
    points = BlockedPoints(
        metric, blocks, recorded=partial(thinned_rows, len(blocks)), most_here=MAX_RECORDED
    )
    weights = np.broadcast_to(1.0, (len(blocks),))  # one number in memory
    if sample_weight is not None:
        weights = check_sample_weight(sample_weight, len(blocks))
    frames = None if blocks.pieces is None else Column(blocks.numbers)
    files = None if blocks.pieces is None or blocks.pieces[-1].file == 0 else Column(blocks.files)
    origin = Origin(frames=frames, files=files, units=units, facts=facts)
    return Data(metric, points, weights, estimator.n_features_in_, origin)
