"""What is wrong with points, in the same words wherever they come in: arrays, files, streams, simulations, models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps.errors import InvalidInputError


def wrong_width(
    shape: Sequence[int], width: int, *, takes_frames: bool = False, counted: str = "numbers"
) -> str | None:
    """Return in which way points of a shape are not those of a map, whose have ``width`` numbers; None if they are."""
    if math.prod(shape) == width:
        return None
    are_frames = len(shape) == 2
    needed = f"{width // 3}" if takes_frames else f"{width}"
    if are_frames != takes_frames:
        needed += f" atoms ({width} numbers)" if takes_frames else " numbers"
    got = f"{shape[0]} atoms" if are_frames else f"{math.prod(shape)} {counted}"
    return f"{got}, but the map takes {needed}"


def not_finite(
    points: NDArray[Any], item: str = "point", numbers: Sequence[int] | NDArray[Any] | None = None
) -> str | None:
    """Return which point is the first with NaN or an infinite value, and how many have one; None if all are finite."""
    finite = np.isfinite(points)
    if finite.all():
        return None
    bad = np.flatnonzero(~finite.reshape(len(points), -1).all(axis=1))
    number = bad[0] if numbers is None else numbers[bad[0]]
    _, place = bad_value(points[bad[0]])
    return f"{item} {number} ({place}) holds NaN or an infinite value ({len(bad)} of {len(points)} here do)"


def bad_value(point: NDArray[Any]) -> tuple[Any, str]:
    """Return the first value of a point that is not finite, and where it is."""
    values = point.reshape(-1)
    place = int(np.flatnonzero(~np.isfinite(values))[0])
    return values[place], f"atom {place // 3}" if point.ndim == 2 else f"column {place + 1}"


def check_unmasked(values: Any, name: str = "points") -> None:
    """Raise for values that are masked: numpy would go on with what stands under the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        count = int(np.ma.getmaskarray(values).sum())
        raise InvalidInputError(
            f"{count} values of {name} are masked; leave out those rows, or fill them in first (values.filled(...))"
        )


def check_real(values: Any, name: str = "points") -> None:
    """Raise for what would become numbers in silence: complex numbers, which lose a part, dates, masked values."""
    check_unmasked(values, name)
    types: Any
    if hasattr(values, "columns"):  # a data frame
        types = values.dtypes
    else:
        try:
            array = np.asarray(values)
        except ValueError:
            return  # not an array, which the caller reports
        types = [array.dtype]
        if array.dtype.kind == "O":
            types += [one.dtype for one in array.flat if isinstance(one, (np.datetime64, np.timedelta64))]
    for dtype in types:
        kind = getattr(dtype, "kind", "")
        if kind == "c":
            # As scikit-learn begins it, whose checks look for that.
            raise InvalidInputError(
                f"Complex data not supported: {name} must be real numbers, got complex numbers ({dtype}); pass their "
                "real and imaginary parts as two features"
            )
        if kind in ("m", "M"):
            raise InvalidInputError(
                f"{name} must be real numbers, got values of type {dtype}; encode them as numbers first, "
                "in a unit of your choice"
            )


def as_float_array(
    X: ArrayLike, dtype: DTypeLike | None = None, *, ndim: tuple[int, ...] = (2,), finite: bool = True
) -> NDArray[Any]:
    """Return ``X`` as a float32 or float64 array of one of the given ranks, or raise."""
    # Where ``finite`` is false, NaN and infinite values are let through.
    check_unmasked(X)
    array = np.asarray(X)
    check_real(array)
    if array.dtype.kind in "USV":
        raise InvalidInputError(
            f"points must be real numbers, got values of type {array.dtype}; encode them as numbers first"
        )
    if array.dtype.kind == "O":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"points must be real numbers, but the array holds objects that are not ({error}); "
                "encode them as numbers first"
            ) from error
    if dtype is None:
        dtype = np.float32 if array.dtype == np.float32 else np.float64
    array = np.require(array, dtype, "A")  # kernels take nothing that stands at an odd byte
    if array.ndim not in ndim:
        ranks = " or ".join(f"{rank}-dimensional" for rank in ndim)
        hint = "; reshape a single point to (1, features)" if array.ndim == 1 else ""
        raise InvalidInputError(f"points must be a {ranks} array, got shape {array.shape}{hint}")
    if array.shape[0] == 0 or array.size == 0:
        raise InvalidInputError(f"points must not be empty, got shape {array.shape}")
    fault = not_finite(array) if finite else None
    if fault is not None:
        raise InvalidInputError(f"points must be finite, but {fault}; remove or repair those")
    return array


def stored_array(
    arrays: Mapping[str, NDArray[Any]], name: str, shape: tuple[int | None, ...], kinds: str = "f"
) -> NDArray[Any]:
    """Return one of a model file's arrays, or raise unless shape and kind of numbers fit and all are finite."""
    if name not in arrays:
        raise InvalidInputError(f"the array {name!r} is missing")
    array = arrays[name]
    fits = array.ndim == len(shape) and all(
        size in (None, actual) for size, actual in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype.kind not in kinds or not np.isfinite(array).all():
        expected = ", ".join("any" if size is None else str(size) for size in shape)
        raise InvalidInputError(
            f"the array {name!r} of shape {array.shape} and type {array.dtype} must have shape ({expected}) and hold "
            "finite numbers"
        )
    return array


def check_stored_names(arrays: Mapping[str, NDArray[Any]], names: tuple[str, ...]) -> None:
    """Raise unless a model file's arrays are exactly the named ones."""
    if set(arrays) != set(names):
        raise InvalidInputError(f"expected the arrays {', '.join(names)}, got {', '.join(arrays) or 'none'}")
