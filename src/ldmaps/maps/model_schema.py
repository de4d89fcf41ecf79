"""What a model file may hold: dtype, shape and range of every array, type and range of every entry of the header.

A file comes from anywhere, and what is in it goes to kernels that check nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import partial
from typing import Any, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.errors import ModelFileError
from ldmaps.extension.calibration import Calibration, kept_ranks
from ldmaps.fit.certify import Certificate
from ldmaps.fit.fitted_map import Solution
from ldmaps.fit.function_record import KINDS, is_name
from ldmaps.inputs.windows import Windows
from ldmaps.settings import LANDMARK_FIT

_FLOATS = ("float32", "float64")


@dataclass(frozen=True)
class _Array:
    """A rule for an array."""

    shape: tuple[str, ...]  # names of the sizes; arrays that share a name share the size
    dtypes: tuple[str, ...] = ("float64",)
    low: float = -math.inf  # every value lies between them, both included
    high: float = math.inf
    above: float = -math.inf  # every value is larger


#: Rounding room for eigenvalues, which lie in [-1, 1].
_ONE = 1.0 + 1e-6
#: Coordinates are far below this: a landmark weighs at least 1e-130, so that |ψ| ≤ 1e65 by ψᵀCψ = 1. Fourth powers of
#: them are numbers.
_FARTHEST = 1e70
#: By the part of a map that has each, and its name there.
ARRAYS = {
    "eigenvalues_": _Array(("k",), low=-_ONE, high=_ONE),
    "spectrum_": _Array(("computed",), low=-_ONE, high=_ONE),
    "landmark_embedding_": _Array(("M", "k"), _FLOATS, low=-_FARTHEST, high=_FARTHEST),
    "landmark_indices_": _Array(("M",), ("int64",), low=0),
    "multiplicities_": _Array(("M",), above=0.0),
    "embedder/source_weights": _Array(("M",), _FLOATS, above=0.0, high=1.0),
    "embedder/coefficients": _Array(("k", "M"), _FLOATS),
    "embedder/squared_radii": _Array(("M",), low=0.0),
    "bandwidth/curve_epsilons": _Array(("grid",), above=0.0),
    "bandwidth/curve_sums": _Array(("grid",), low=0.0),
    "bandwidth/curve_slopes": _Array(("grid",)),
    "embedding_": _Array(("N", "k"), _FLOATS, low=-_FARTHEST, high=_FARTHEST),
    "training/rows": _Array(("n",), ("int64",), low=0),
    "training/distance": _Array(("n",), ("float32",), low=0.0),
    "training/nearest": _Array(("n",), ("int32",), low=0),
    "training/weights": _Array(("n",), ("float32",), low=0.0),
    "training/frames": _Array(("n",), ("int64",), low=0),
    "training/times": _Array(("n",), ("float64",)),
    "training/files": _Array(("n",), ("int32",), low=0),
    "medoids/squared": _Array(("pairs",), ("float32",), low=0.0),
    "medoids/weights": _Array(("m",), above=0.0),
    "calibration/scores": _Array(("c",), low=0.0),
    "sampling/eigenvalues": _Array(("p",), low=-_ONE, high=_ONE),
    "sampling/errors": _Array(("p",), low=0.0),
    "sampling/intervals": _Array(("p", "two")),
    "sampling/cosine": _Array(("p",), low=0.0, high=_ONE),
    "sampling/group_cosine": _Array(("p",), low=0.0, high=_ONE),
    "sampling/groups": _Array(("p",), ("int32",), low=0),
    "sampling/r2": _Array(("p",), high=1.0),
    "sampling/follows": _Array(("p", "p"), ("int32",), low=0, high=1),
    "sampling/landmark_errors": _Array(("M", "p"), low=0.0),
    "sampling/times": _Array(("p", "three"), low=0.0),
    "sampling/correlations": _Array(("p and one",)),
    "sampling/replicas": _Array(("replicas", "p")),
}
#: What a file may lack, and what one of functions may lack beside that: they need not be eigenvectors.
_OPTIONAL = ("embedding_", "training/", "calibration/", "sampling/", "medoids/")
_OPTIONAL_OF_FUNCTIONS = ("eigenvalues_", "spectrum_")
#: The class of maps whose coordinates are functions that were learned on another map.
FUNCTIONS = "FunctionMap"
#: The metric itself checks these when it takes them in.
_POINTS = ("landmarks/", "representatives/")


def _damaged(what: str) -> ModelFileError:
    return ModelFileError(f"{what}; the file is damaged")


def check_arrays(arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> None:
    """Raise :class:`~ldmaps.errors.ModelFileError` unless every array is as a map's must be, and as its header says."""
    n_landmarks, n_components = header["n_landmarks"], header["n_components"]
    strangers = [name for name in arrays if name not in ARRAYS and not name.startswith(_POINTS)]
    if strangers:
        raise ModelFileError(
            f"the file holds an array {strangers[0]!r}, which is not part of the model format"
        )
    sizes = {"M": n_landmarks, "k": n_components, "two": 2, "three": 3}
    if "sampling/eigenvalues" in arrays:
        sizes["p and one"] = arrays["sampling/eigenvalues"].size + 1
    optional = _OPTIONAL if header.get("record") is None else (*_OPTIONAL, *_OPTIONAL_OF_FUNCTIONS)
    for name, rule in ARRAYS.items():
        if name in arrays:
            _check_array(name, arrays[name], rule, sizes)
        elif not name.startswith(optional):
            raise ModelFileError(
                f"the file lacks the array {name!r}, so it holds no map; save the model again"
            )
    if ("eigenvalues_" in arrays) != ("spectrum_" in arrays):
        raise _damaged("the file has only one of the arrays 'eigenvalues_' and 'spectrum_'")
    if "spectrum_" in arrays and len(arrays["spectrum_"]) < n_components:
        raise _damaged(
            f"array 'spectrum_' has {len(arrays['spectrum_'])} eigenvalues for {n_components} coordinates"
        )
    if "training/rows" not in arrays and any(name.startswith("training/") for name in arrays):
        raise ModelFileError(
            "the file describes training points but lacks their numbers ('training/rows'); it is damaged"
        )
    _check_training_rows(arrays)
    weights, nearest = arrays["embedder/source_weights"], arrays.get("training/nearest")
    if weights.dtype != arrays["embedder/coefficients"].dtype:
        raise _damaged("source weights and coefficients differ in precision")
    if weights.max() != 1.0:
        raise ModelFileError(
            "no landmark of the file has source weight 1, the largest there is; it is damaged"
        )
    if nearest is not None and nearest.size and nearest.max() >= n_landmarks:
        raise ModelFileError(f"the file names landmark {nearest.max()}, but has {n_landmarks} of them")
    _check_widths(header, weights.dtype)
    _check_medoids(arrays)
    _check_calibration(header, arrays)


def _check_training_rows(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise unless what is said of training points is of points that the file holds, in their order."""
    rows, embedding = arrays.get("training/rows"), arrays.get("embedding_")
    if rows is None:
        return
    if embedding is None:
        raise ModelFileError(
            "the file describes training points but lacks their coordinates ('embedding_'); it is damaged"
        )
    if rows.size and (rows.max() >= len(embedding) or (np.diff(rows) <= 0).any()):
        raise _damaged(
            f"array 'training/rows' must be places of the {len(embedding)} points of 'embedding_' in rising order"
        )


def _check_medoids(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise where a file does not hold one distance for each pair of medoids."""
    squared, weights = arrays.get("medoids/squared"), arrays.get("medoids/weights")
    if squared is None and weights is None:
        return
    if squared is None or weights is None or len(squared) != len(weights) * (len(weights) - 1) // 2:
        raise _damaged("the file does not hold one distance for each pair of medoids")


def _check_calibration(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise where a file holds half a calibration, or scores that are not in order."""
    told, scores = header.get("calibration"), arrays.get("calibration/scores")
    if told is None and scores is None:
        return
    if told is None or scores is None:
        raise ModelFileError("the file lacks a part of its calibration; it is damaged")
    if len(scores) != len(kept_ranks(told["n_points"])) or (np.diff(scores) < 0).any():
        raise ModelFileError("the scores of the file's calibration are not in order; it is damaged")


def _check_widths(header: Mapping[str, Any], dtype: np.dtype[Any]) -> None:
    """Raise where ε or h, or one over it, is no number in the precision that distances have."""
    limits = np.finfo(dtype)
    for name in ("epsilon", "interpolation_bandwidth"):
        if not 10.0 * float(limits.tiny) <= header[name] <= float(limits.max) / 10.0:
            raise _damaged(
                f"the header's {name!r} is {header[name]!r:.100}, too small or too large for a map in {dtype}"
            )


def _check_array(name: str, array: NDArray[Any], rule: _Array, sizes: dict[str, int]) -> None:
    if array.dtype.name not in rule.dtypes:
        raise _damaged(f"array {name!r} holds {array.dtype.name}, expected {' or '.join(rule.dtypes)}")
    if array.ndim == len(rule.shape):
        for place, size in zip(rule.shape, array.shape, strict=True):
            sizes.setdefault(place, size)
    expected = tuple(sizes.get(place) for place in rule.shape)
    if array.shape != expected:
        raise _damaged(f"array {name!r} has shape {array.shape}, expected {expected}")
    low, high, above = np.array([rule.low, rule.high, rule.above])  # which single precision may not reach
    fine = (array >= low) & (array <= high) & (array > above)
    if array.dtype.kind == "f":  # of larger numbers, sums of products are infinite
        fine &= np.abs(array) <= math.sqrt(np.finfo(array.dtype).max)
    if not fine.all():
        value = array[~fine][0]
        ranges = {"at least": rule.low, "above": rule.above, "at most": rule.high}
        limits = " and ".join(f"{words} {limit:g}" for words, limit in ranges.items() if math.isfinite(limit))
        what = f"array {name!r} holds {value}, but all its values must be finite and squares of them too"
        raise _damaged(f"{what}, {limits}" if limits else what)


# -- the header ---------------------------------------------------------------


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value < 2**31


def _is_finite(value: Any) -> bool:
    # A JSON integer may be longer than any float.
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_positive(value: Any) -> bool:
    # Beyond these a squared distance divided by it, or its inverse, is infinite.
    return _is_finite(value) and 1e-200 <= value <= 1e200


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_record(cls: type, names: tuple[str, ...], value: Any) -> bool:
    """Say whether a value has the fields of a dataclass, all or the named ones, each of its type.

    Fields with a default may be missing: earlier versions did not have them.
    """
    hints = get_type_hints(cls)
    rules = {field.name: field.default for field in fields(cls) if not names or field.name in names}
    needed = {name for name, default in rules.items() if default is MISSING}
    is_whole = _is_object(value) and needed <= set(value) <= set(rules)
    return is_whole and all(_fits(hints[name], value[name], rules[name]) for name in value)


def _fits(hint: Any, value: Any, default: Any) -> bool:
    """Say whether a JSON value stands for one of a type; counts are above 0 unless that is the default."""
    choices = get_args(hint)
    if type(None) in choices:
        return value is None or _fits(choices[0], value, default)
    if hint is str:
        return _is_text(value)
    if hint is int:
        return _is_count(value) or (type(value) is int and value == default)
    if hint is float:
        return _is_finite(value)
    return isinstance(value, list) and all(_is_finite(entry) and entry >= 0 for entry in value)


def _is_sampling(value: Any) -> bool:
    numbers, counts = ("lag", "block_length"), ("n_resamples", "n_blocks")
    return (
        _is_object(value)
        # Older files do not have the number of states.
        and {"n_states"} | set(value) == {*numbers, *counts, "unit", "kind", "are_long_enough", "n_states"}
        and _is_count(value.get("n_states", 1))
        and all(_is_finite(value[name]) and value[name] >= 0 for name in numbers)
        and all(_is_count(value[name]) for name in counts)
        and value["unit"] in ("ps", "s", "frames", "rows")
        and value["kind"] in ("time", "files", "rows")
        and type(value["are_long_enough"]) is bool
    )


def _is_certificate(value: Any) -> bool:
    """Say whether these are a certificate's numbers; files before format 3.2 have but a bound of Z of all points."""
    return _is_record(Certificate, (), value) and 0 < value.get("share", 1.0) <= 1


def _is_calibration(value: Any) -> bool:
    return (
        _is_record(Calibration, ("n_points", "n_independent", "interval"), value)
        and 0 < value["n_independent"] <= value["n_points"]
        and (value["interval"] is None or _is_positive(value["interval"]))
    )


def _is_function_record(value: Any) -> bool:
    """Say whether this is what is known of functions that were learned on a map."""
    return (
        _is_object(value)
        and set(value) == {"kind", "names", "facts", "lines"}
        and value["kind"] in KINDS
        and isinstance(value["names"], list)
        and all(map(is_name, value["names"]))
        and len(set(value["names"])) == len(value["names"])
        and _are_names(value["lines"])
        and _is_object(value["facts"])
        and all(_is_fact(fact) for fact in value["facts"].values())
    )


def _is_fact(value: Any, depth: int = 0) -> bool:
    """Say whether this is a number, a text, nothing, or lists of them."""
    if isinstance(value, list):
        return depth < 3 and all(_is_fact(one, depth + 1) for one in value)
    return value is None or isinstance(value, bool) or _is_text(value) or _is_finite(value)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(_is_text(name) for name in value)


def _are_places(value: Any, count: int, most: float = math.inf) -> bool:
    """Say whether this is a list of so many places, each below ``most``."""
    return (
        isinstance(value, list)
        and len(value) == count
        and all(type(place) is int and 0 <= place < most for place in value)
    )


def _is_source(value: Any) -> bool:
    """Say whether this is what a table or a trajectory says about itself; what it does not say may be missing."""
    if not _is_object(value):
        return False
    texts, lists = (
        ("kind", "select", "units", "time", "missing"),
        ("files", "columns", "constant", "atom_names", "atom_labels", "elements"),
    )
    if not all(value.get(name) is None or _is_text(value[name]) for name in texts):
        return False
    if not all(value.get(name) is None or _are_names(value[name]) for name in lists):
        return False
    if value.get("kind") != "frames":
        kept = value.get("windows")
        return kept is None or (
            _is_record(Windows, (), kept) and kept["length"] > 1 and (kept["gap"] or 1) > 0
        )
    n_atoms, bonds, places = value.get("n_atoms"), value.get("bonds"), value.get("atom_indices")
    return (
        _is_count(n_atoms)
        and all(len(value.get(name) or [None] * n_atoms) == n_atoms for name in lists[3:])
        and (bonds is None or isinstance(bonds, list))
        and all(_are_places(bond, 2, n_atoms) for bond in bonds or ())
        and (places is None or _are_places(places, n_atoms))
    )


def _are_settings(value: Any) -> bool:
    """Say whether the settings that a fitted map goes on using are numbers it can use; fit checks the others."""
    names = ("alpha", "diffusion_time")
    return _is_object(value) and all(LANDMARK_FIT[name].holds(value.get(name, 0)) for name in names)


#: What must hold of each entry, and in words.
_HEADER: dict[str, tuple[Callable[[Any], bool], str]] = {
    "estimator": (_is_text, "a name"),
    "library_version": (_is_text, "a version"),
    "settings": (_are_settings, "an estimator's settings"),
    "metric": (lambda value: _is_object(value) and _is_text(value.get("__metric__")), "a metric"),
    "units": (_is_text, "text"),
    "source": (_is_source, "what a table or a trajectory says about itself"),
    "epsilon": (_is_positive, "a positive number"),
    "interpolation_bandwidth": (_is_positive, "a positive number"),
    "bandwidth": (partial(_is_record, Bandwidth, ("rule", "dimension")), "a rule and a dimension"),
    "certificate": (_is_certificate, "a certificate's numbers"),
    "solution": (partial(_is_record, Solution, ()), "how the map was solved"),
    "sampling": (_is_sampling, "how points were resampled"),
    "calibration": (_is_calibration, "how the map was calibrated"),
    "record": (_is_function_record, "what is known of functions"),
    "n_components": (_is_count, "a count"),
    "n_landmarks": (_is_count, "a count"),
    "n_features_in": (_is_count, "a count"),
    "feature_names_in": (_are_names, "a list of names"),
}
#: Entries that files before format 3.2 may lack, and those that may be null.
_MAY_BE_MISSING = ("solution", "sampling", "calibration", "record")
_MAY_BE_NULL = ("units", "source", "certificate", "feature_names_in", *_MAY_BE_MISSING)


def check_header(header: Mapping[str, Any]) -> None:
    """Raise :class:`~ldmaps.errors.ModelFileError` unless every entry is as a map's must be; others are ignored."""
    for name, (holds, words) in _HEADER.items():
        if name not in header and name not in _MAY_BE_MISSING:
            raise _damaged(f"the header lacks {name!r}")
        value = header.get(name)
        if not (holds(value) or (value is None and name in _MAY_BE_NULL)):
            raise _damaged(f"the header's {name!r} is {value!r:.100}, expected {words}")
    record = header.get("record")
    if (record is not None) != (header["estimator"] == FUNCTIONS):
        raise _damaged(
            f"a file of a {header['estimator']:.100} must {'not ' * (record is not None)}describe functions"
        )
    if record is not None and len(record["names"]) != header["n_components"]:
        raise _damaged(f"the header names {len(record['names'])} functions of {header['n_components']}")
    names = header["feature_names_in"]
    if names is not None and len(names) != header["n_features_in"]:
        raise _damaged(f"the header names {len(names)} features of {header['n_features_in']}")
    windows = (header["source"] or {}).get("windows")
    if windows and windows["length"] * (windows["width"] or 0) != header["n_features_in"]:
        raise _damaged(
            f"windows of {windows['length']} rows of {windows['width']} columns are not the {header['n_features_in']} "
            "features that the header counts"
        )
