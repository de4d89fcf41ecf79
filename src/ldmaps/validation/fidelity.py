"""How well one embedding reproduces another: ζ(i), Z, and the alignment they need."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from ldmaps.errors import InvalidInputError
from ldmaps.point_faults import not_finite

#: Modes whose rates −log λ differ by less than this share may turn among themselves, so they may be turned back.
NEAR_DEGENERATE = 0.05
#: A coordinate with less than this share of its variance in common with its old self is a different one.
SAME_SHARE = 0.5

_Array = NDArray[np.float64]


def column_matching(
    reference: ArrayLike, embedding: ArrayLike
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the order and the signs of columns that best match ``embedding`` to ``reference``, both (n, k).

    Eigenvectors are defined up to sign, and near-degenerate ones may come in another order. Columns are matched one to
    one so that the total of ``|cosine|`` between matched columns is largest.

    Returns
    -------
    order : ndarray of int, shape (k,)
        ``embedding[:, order[l]]`` goes with ``reference[:, l]``.
    signs : ndarray of shape (k,)
        +1 or -1 for each column after ordering.
    """
    reference, embedding = _matching_pair(reference, embedding)
    lengths = np.linalg.norm(reference, axis=0)[:, None] * np.linalg.norm(embedding, axis=0)
    cosine = np.divide(reference.T @ embedding, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    _, order = linear_sum_assignment(-np.abs(cosine))
    signs = np.where(cosine[np.arange(len(order)), order] < 0, -1.0, 1.0)
    return order.astype(np.intp), signs


def match_columns(reference: ArrayLike, embedding: ArrayLike) -> NDArray[Any]:
    """Return ``embedding`` with columns ordered and signed as in ``reference``, both (n, k) coordinates of points.

    Examples
    --------
    >>> import numpy as np
    >>> reference = np.array([[1.0, 0.0], [0.0, 2.0], [-1.0, 1.0]])
    >>> bool(np.array_equal(match_columns(reference, -reference[:, ::-1]), reference))
    True
    """
    order, signs = column_matching(reference, embedding)
    return np.asarray(np.asarray(embedding)[:, order] * signs)


def point_errors(
    reference: ArrayLike, embedding: ArrayLike, *, ranges: ArrayLike | None = None, matched: bool = False
) -> NDArray[np.float64]:
    """Return ζ(i), the normalised deviation of each point in percent (eqn zeta_error).

    Parameters
    ----------
    reference, embedding : array-like of shape (n, k)
        True and approximate coordinates of the same points.
    ranges : array-like of shape (k,), optional
        max − min of each true coordinate, by default that of ``reference``. Pass the training set's for test points.
    matched : bool
        True compares columns as they stand; by default :func:`match_columns` first matches their order and signs.

    Returns
    -------
    ndarray of shape (n,)
        In percent of the ranges.

    See Also
    --------
    nrmse : their root mean square.

    References
    ----------
    A. W. Long and A. L. Ferguson, "Landmark diffusion maps (L-dMaps)", Applied and Computational Harmonic Analysis 47,
    190-211 (2019).

    Examples
    --------
    >>> import numpy as np
    >>> reference = np.array([[0.0], [1.0], [2.0]])
    >>> point_errors(reference, [[0.0], [1.0], [1.8]]).round(6).tolist()
    [0.0, 0.0, 10.0]
    """
    reference, embedding = _matching_pair(reference, embedding)
    if not matched:
        embedding = match_columns(reference, embedding)
    spans = np.ptp(reference, axis=0) if ranges is None else np.asarray(ranges, dtype=np.float64)
    if spans.shape != (reference.shape[1],) or not (spans > 0).all():
        raise InvalidInputError(
            f"every coordinate of the reference needs a positive range to normalise by, got {spans}; "
            "give at least two different points, or pass ranges="
        )
    return np.asarray(100.0 * np.sqrt((((embedding - reference) / spans) ** 2).sum(axis=1)))


def nrmse(
    reference: ArrayLike, embedding: ArrayLike, *, ranges: ArrayLike | None = None, matched: bool = False
) -> float:
    """Return Z, the root mean square of ζ(i) in percent (eqn Z_error).

    Parameters
    ----------
    reference, embedding, ranges, matched
        See :func:`point_errors`.

    Returns
    -------
    float
        In percent of the ranges.

    See Also
    --------
    point_errors : the error of each point.

    Examples
    --------
    >>> import numpy as np
    >>> reference = np.array([[0.0], [1.0], [2.0]])
    >>> round(nrmse(reference, [[0.0], [1.0], [1.8]]), 2)
    5.77
    """
    return float(np.sqrt(np.mean(point_errors(reference, embedding, ranges=ranges, matched=matched) ** 2)))


class Turn(NamedTuple):
    """How modes are brought closest to the coordinates of an earlier map: ``modes @ mixture + shift``."""

    mixture: _Array
    shift: _Array


def turn_modes(
    reference: _Array, modes: _Array, eigenvalues: _Array, weights: _Array, lengths: _Array, growth: float
) -> Turn:
    """Match each of k coordinates to one of K modes, wherever it stands in the spectrum; trusts its input."""
    # Order and sign are undone as in :func:`column_matching`, turns among modes of nearly equal rates, scale and
    # origin besides: none of them is news about the data.
    share = weights / weights.sum()
    centre, new_centre = share @ reference, share @ modes
    old, new = reference - centre, modes - new_centre
    spread = np.sqrt(share @ old**2)[:, None] * lengths
    overlap = np.divide((old.T * share) @ new, spread, out=np.zeros_like(spread), where=spread > 0)
    order = linear_sum_assignment(-np.abs(overlap))[1]
    rates = -np.log(np.clip(eigenvalues, np.finfo(np.float64).tiny, 1.0))
    borders = np.flatnonzero(np.diff(rates) >= NEAR_DEGENERATE * rates[1:]) + 1
    mixture = np.zeros((len(eigenvalues), len(centre)))
    for group in np.split(np.arange(len(eigenvalues)), borders):
        columns = np.flatnonzero(np.isin(order, group))
        if len(columns):
            # Orthonormal columns nearest to the overlaps: a sign for a mode of its own, a turn among equals.
            left, _, right = np.linalg.svd(overlap[np.ix_(columns, group)].T, full_matrices=False)
            mixture[np.ix_(group, columns)] = left @ right
    turned = new @ mixture
    is_same = in_common(reference, turned, weights) >= SAME_SHARE
    scale = np.divide(
        share @ (old * turned), share @ turned**2, out=np.full(len(centre), growth), where=is_same
    )
    return Turn(mixture * scale, centre - scale * (new_centre @ mixture))


def in_common(reference: NDArray[Any], embedding: NDArray[Any], weights: _Array) -> _Array:
    """Return the squared correlation of matching columns: the share of the variance that is the same."""
    share = weights / weights.sum()
    first, second = (
        np.asarray(values, dtype=np.float64) - share @ np.asarray(values, dtype=np.float64)
        for values in (reference, embedding)
    )
    lengths = (share @ first**2) * (share @ second**2)
    squares = (share @ (first * second)) ** 2
    return np.asarray(np.divide(squares, lengths, out=np.zeros_like(lengths), where=lengths > 0))


def _matching_pair(reference: ArrayLike, embedding: ArrayLike) -> tuple[_Array, _Array]:
    first, second = np.asarray(reference, dtype=np.float64), np.asarray(embedding, dtype=np.float64)
    if first.ndim != 2 or first.shape != second.shape or first.shape[0] == 0:
        raise InvalidInputError(
            f"embeddings must be two (n, k) arrays of the same shape, got {first.shape} and {second.shape}"
        )
    for array in (first, second):
        fault = not_finite(array)
        if fault is not None:
            raise InvalidInputError(
                f"embeddings must be finite, but {fault}; leave out points that could not be embedded"
            )
    return first, second
