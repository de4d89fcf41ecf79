"""Model files: a fitted map and its settings as an :mod:`ldmaps.archive` (docs/reference/model_file.md).

A reader takes every file of its own major version and of those before it down to :data:`OLDEST_MAJOR`; what a newer
minor version adds to the header is left unread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ldmaps._version import __version__
from ldmaps.archive import ArchiveError, read_archive, read_archive_header, write_archive
from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.errors import InvalidInputError, ModelFileError
from ldmaps.extension.calibration import Calibration
from ldmaps.extension.embedder import Embedder
from ldmaps.fit.certify import Certificate
from ldmaps.fit.fitted_map import FittedMap, Medoids, Solution, TrainingRecord
from ldmaps.fit.function_record import FunctionRecord
from ldmaps.landmarks import SELECTORS, LandmarkSelector
from ldmaps.maps.learned_attributes import LearnedAttributes
from ldmaps.maps.model_schema import ARRAYS, FUNCTIONS, check_arrays, check_header
from ldmaps.metrics import STORED_METRICS, Metric, resolve_metric
from ldmaps.metrics.base import Points
from ldmaps.settings import Limits

FORMAT_NAME = "ldmaps model"
FORMAT_VERSION = (3, 2)
#: Files of this major version are read too: they lack nothing but representatives of moved landmarks.
OLDEST_MAJOR = 2
#: Classes whose maps a file may hold; :func:`ldmaps.load` makes them.
ESTIMATORS = ("DiffusionMap", "LandmarkDiffusionMap", FUNCTIONS)
#: A setting that a file names but does not hold, such as a function: the estimator's default stands for it.
NOT_DATA = object()
#: Fields of limits that a file holds: a path to write to is a matter of one machine, and no file may name it.
_STORED_LIMITS = ("memory", "max_passes")
#: Types that arrays among the settings may have.
_NUMBERS = tuple(np.dtype(code).name for code in "?bBhHiIqQefd")
_Record = TypeVar("_Record")


class StoredMap(LearnedAttributes):
    """A map as its file holds it: all that embedding, streams and regions ask of a model."""

    # It has a fitted estimator's attributes but is none, so it does not load scikit-learn, which takes longer than all
    # the rest of a command.

    def __init__(
        self,
        fitted: FittedMap,
        estimator: str,
        fit_settings: Mapping[str, Any],
        n_features_in: int,
        feature_names_in: Any,
    ) -> None:
        self.map_ = fitted
        self.estimator = estimator  # name of the class that it was fitted with, and its parameters
        self.fit_settings = fit_settings
        self.n_features_in_ = n_features_in
        if feature_names_in is not None:
            self.feature_names_in_ = np.asarray(feature_names_in, dtype=object)


def write_model(path: str | os.PathLike[str], model: StoredMap) -> None:
    """Write a fitted map and the settings it was fitted with; whole or not at all."""
    fitted, names = model.map_, getattr(model, "feature_names_in_", None)
    embedder, bandwidth = fitted.embedder, fitted.bandwidth
    training = None if fitted.embedding is None else fitted.training
    owners: dict[str, Any] = {"": fitted, "embedder": embedder, "bandwidth": bandwidth, "training": training}
    owners["sampling"] = None if fitted.sampling is None else SimpleNamespace(**fitted.sampling.arrays())
    owners["calibration"], owners["medoids"] = embedder.calibration, fitted.medoids
    arrays: dict[str, NDArray[Any]] = {}
    for name in ARRAYS:
        part, _, own = name.rpartition("/")
        value = getattr(owners[part], own.removesuffix("_"), None)
        if value is not None:
            arrays[name] = np.asarray(value)
    points = {"landmarks": embedder.landmarks}
    if fitted.representatives is not None:
        points["representatives"] = fitted.representatives
    for kind, those in points.items():
        exported = embedder.metric.export_points(those)
        arrays |= {f"{kind}/{name}": array for name, array in exported.items()}
    header = {
        "format": FORMAT_NAME,
        "format_version": list(FORMAT_VERSION),
        "library_version": __version__,
        "estimator": model.estimator,
        "settings": _encode_all(model.fit_settings),
        "metric": _encode(embedder.metric),
        "units": fitted.units,
        "source": fitted.source,
        "epsilon": embedder.epsilon,
        "interpolation_bandwidth": embedder.bandwidth,
        "bandwidth": {"rule": bandwidth.rule, "dimension": bandwidth.dimension},
        "certificate": _encode_record(fitted.certificate),
        "solution": _encode_record(fitted.solution),
        "sampling": None if fitted.sampling is None else fitted.sampling.header(),
        "calibration": None if embedder.calibration is None else embedder.calibration.header(),
        "record": None if fitted.record is None else _encode_all(vars(fitted.record)),
        "n_components": embedder.n_components,
        "n_landmarks": embedder.n_landmarks,
        "n_features_in": model.n_features_in_,
        "feature_names_in": None if names is None else [str(name) for name in names],
    }
    write_archive(path, header, arrays)


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a model file's header without its arrays."""
    with _model_file_errors(path):
        header = read_archive_header(path)
        _check_kind(header, path)
        check_header(header)
        return header


def read_model(path: str | os.PathLike[str], *, metric: Any = None) -> StoredMap:
    """Read a fitted map and what is said of its estimator; see :func:`ldmaps.load`."""
    with _model_file_errors(path):
        header, arrays = read_archive(path)
        _check_kind(header, path)
        check_header(header)
        check_arrays(arrays, header)
        used = _metric(header, metric)
        settings = {
            key: used if key == "metric" and isinstance(value, dict) else _decode(value)
            for key, value in header["settings"].items()
        }
        stored = StoredMap(
            _fitted_map(header, arrays, used),
            header["estimator"],
            settings,
            header["n_features_in"],
            header["feature_names_in"],
        )
    if stored.estimator not in ESTIMATORS:
        raise ModelFileError(
            f"the file holds a {stored.estimator!r}, which this version of ldmaps does not know"
        )
    return stored


@contextmanager
def _model_file_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say "model file" where the container says "file", and that it may be saved again."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no model file {str(path)!r}; check the path") from None
    except ArchiveError as error:
        raise ModelFileError(f"{error}; expected a file that ldmaps fit or model.save(path) wrote") from error


def _check_kind(header: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    if header.get("format") != FORMAT_NAME:
        raise ModelFileError(f"{path} is not an ldmaps model: its header does not name this format")
    version = header.get("format_version")
    if not (isinstance(version, list) and len(version) == 2 and all(type(part) is int for part in version)):
        raise ModelFileError(f"{path} has no readable format version, got {version!r:.100}")
    if not OLDEST_MAJOR <= version[0] <= FORMAT_VERSION[0]:
        newer = version[0] > FORMAT_VERSION[0]
        raise ModelFileError(
            f"{path} has format version {version[0]}.{version[1]} (written by ldmaps "
            f"{header.get('library_version')!s:.40}), but ldmaps {__version__} reads {OLDEST_MAJOR}.x to "
            f"{FORMAT_VERSION[0]}.x; " + ("upgrade ldmaps" if newer else "fit and save the map again")
        )


def _metric(header: Mapping[str, Any], given: Any) -> Metric:
    """Return the file's metric, or the given one where a file cannot carry it."""
    if given is None:
        return _decode_metric(header["metric"])
    metric = resolve_metric(given)
    if metric.name != header["metric"]["__metric__"]:
        raise InvalidInputError(
            f"the model was fitted with metric {header['metric']['__metric__']!r}, but load was given {metric!r}"
        )
    return metric


def _fitted_map(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], metric: Metric) -> FittedMap:
    landmarks = _points(header, arrays, metric, "landmarks")
    representatives = None
    if any(name.startswith("representatives/") for name in arrays):
        representatives = _points(header, arrays, metric, "representatives")
        try:
            metric.check_compatible(representatives, landmarks)
        except InvalidInputError as error:
            raise ModelFileError(
                f"representatives and landmarks do not go together ({error}); the file is damaged"
            ) from error
    epsilon, rule, told = float(header["epsilon"]), header["bandwidth"], header.get("calibration")
    scores, curve, training, medoids = (
        _members(arrays, f"{name}/") for name in ("calibration", "bandwidth", "training", "medoids")
    )
    own: dict[str, Any] = {name[:-1]: array for name, array in arrays.items() if "/" not in name}
    embedder = Embedder(
        metric,
        landmarks,
        epsilon,
        **_members(arrays, "embedder/"),
        bandwidth=float(header["interpolation_bandwidth"]),
        calibration=None if told is None else Calibration(**scores, **told),
    )
    solution = _decode_record(Solution, header.get("solution"))
    bound = None if solution is None else solution.error_bound
    if bound is not None and len(bound) != header["n_components"]:
        raise ModelFileError(
            f"the file has error bounds for {len(bound)} of {header['n_components']} coordinates; it is damaged"
        )
    return FittedMap(
        embedder=embedder,
        bandwidth=Bandwidth(epsilon, **rule, **curve),
        **({"eigenvalues": None, "spectrum": None} | own),
        representatives=representatives,
        units=header["units"],
        source=header["source"],
        training=TrainingRecord(**training) if training else None,
        medoids=Medoids(**medoids) if medoids else None,
        certificate=_decode_record(Certificate, header["certificate"]),
        solution=solution,
        sampling=_sampling(header.get("sampling"), _members(arrays, "sampling/")),
        record=_record(header.get("record")),
    )


def _record(header: Mapping[str, Any] | None) -> FunctionRecord | None:
    """Return what a file says of functions that were learned on a map; the schema has checked it."""
    if header is None:
        return None
    return FunctionRecord(header["kind"], tuple(header["names"]), header["facts"], tuple(header["lines"]))


def _sampling(header: Mapping[str, Any] | None, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return what a file says of its sampling, None where it says nothing."""
    if header is None and not arrays:
        return None
    from ldmaps.validation.sampling import NEEDED, Sampling  # which takes longer to import than files to read

    if header is None or not set(NEEDED) <= set(arrays):
        raise ModelFileError("the file holds only a part of the resampling results; it is damaged")
    return Sampling.from_parts(arrays, header)


def _points(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], metric: Metric, name: str
) -> Points:
    """Return the landmarks, or what stands for each of them."""
    try:
        points = metric.import_points(_members(arrays, f"{name}/"))
    except (InvalidInputError, KeyError, ValueError, TypeError) as error:
        raise ModelFileError(f"the {name} cannot be read ({error}); the file is damaged") from error
    dtype = arrays["embedder/coefficients"].dtype
    if len(points) != header["n_landmarks"] or points.dtype != dtype:
        raise ModelFileError(
            f"the file holds {len(points)} {name} of {points.dtype}, expected {header['n_landmarks']} of {dtype}; "
            "it is damaged"
        )
    return points


def _encode_record(record: Any) -> dict[str, Any] | None:
    """Return a dataclass of numbers, text and arrays as JSON."""
    if record is None:
        return None
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in vars(record).items()
    }


def _decode_record(cls: type[_Record], value: Mapping[str, Any] | None) -> _Record | None:
    """Return the dataclass of :func:`_encode_record`; the schema has checked it."""
    if value is None:
        return None
    known = {name: np.array(one, np.float64) if isinstance(one, list) else one for name, one in value.items()}
    return cls(**known)


def _members(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


# -- settings as JSON ---------------------------------------------------------


def _encode_all(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _encode(value) for name, value in settings.items()}


def _encode(value: Any) -> Any:
    if isinstance(value, Metric):
        return {"__metric__": value.name, "parameters": _encode_all(value.parameters())}
    if isinstance(value, LandmarkSelector):
        return {"__selector__": value.name, "settings": _encode_all(vars(value))}
    if isinstance(value, Limits):
        return {"__limits__": {name: _encode(getattr(value, name)) for name in _STORED_LIMITS}}
    if isinstance(value, np.ndarray):
        # JSON has no infinity, which leaves a feature out of StandardizedEuclidean: as text, which numpy reads back.
        listed = value if value.dtype.kind != "f" else np.where(np.isinf(value), "inf", value.astype(object))
        return {"__array__": listed.tolist(), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return _encode(value.item())
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple, range)):
        return [_encode(entry) for entry in value]
    if isinstance(value, dict):
        return _encode_all(value)
    # A function or a generator's state is not data: its name is kept for the reader, and the default comes back.
    return {"__text__": repr(value)}


def _decode(value: Any) -> Any:
    """Return a setting; whatever is not as :func:`_encode` writes it raises."""
    if isinstance(value, list):
        return [_decode(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "__metric__" in value:
        return _decode_metric(value)
    if "__selector__" in value:
        if value["__selector__"] not in SELECTORS:
            return NOT_DATA
        selector = SELECTORS[value["__selector__"]]
        return _built(lambda known: selector(**known), value.get("settings"))
    if "__limits__" in value:
        return _built(_stored_limits, value["__limits__"])
    if "__array__" in value:
        return _decode_array(value)
    return NOT_DATA


def _stored_limits(fields: dict[str, Any]) -> Limits:
    return Limits(**{name: value for name, value in fields.items() if name in _STORED_LIMITS})


def _decode_metric(value: Mapping[str, Any]) -> Metric:
    name = value["__metric__"]
    if not isinstance(name, str) or name not in STORED_METRICS:
        raise ModelFileError(f"the file uses metric {name!r:.100}, which this ldmaps does not know")
    metric: Metric = _built(STORED_METRICS[name].from_parameters, value.get("parameters"))
    return metric


def _built(make: Callable[[dict[str, Any]], Any], settings: Any) -> Any:
    """Make a metric, a selector or limits from their settings, or say that they are none of theirs."""
    if not isinstance(settings, dict):
        raise ModelFileError(
            f"the file gives settings as {settings!r:.100}, expected an object; it is damaged"
        )
    decoded = {key: _decode(entry) for key, entry in settings.items()}
    try:
        return make(decoded)
    except InvalidInputError:
        raise
    except (TypeError, ValueError, KeyError) as error:
        raise ModelFileError(f"the file's settings do not fit ({error}); it is damaged") from error


def _decode_array(value: Mapping[str, Any]) -> NDArray[Any]:
    code = value.get("dtype")
    if code not in _NUMBERS:  # the name of another may stand for a type of any size
        raise ModelFileError(f"the file holds a setting of type {code!r:.100}; it is damaged")
    try:
        return np.asarray(value["__array__"], dtype=code)
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise ModelFileError(
            f"the file holds a setting that is not an array ({error}); it is damaged"
        ) from error
