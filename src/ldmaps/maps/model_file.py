"""Model files: a zip of plain arrays and one JSON header; never pickle.

    map.ldm ── header.json   format and library version, metric, units, ε, settings
            ├─ landmark arrays, as the metric exports them
            ├─ eigenvalues, landmark_embedding (λᵗψ), multiplicities, source_weights, coefficients …
            └─ embedding     of the training points (optional)

The format's version has a major and a minor number. A reader takes every file of
its own major version; what a newer minor version adds may be left unread.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps._version import __version__
from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.errors import InvalidInputError, LdmapsError, ModelFileError
from ldmaps.extension.embedder import Embedder
from ldmaps.files import written_whole
from ldmaps.landmarks import SELECTORS, LandmarkSelector
from ldmaps.maps.diffusion_map import DiffusionMap
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.maps.tolerance import Certificate
from ldmaps.maps.training_record import TrainingRecord
from ldmaps.metrics import METRICS, Metric, resolve_metric

__all__ = ["FORMAT_VERSION", "load", "read_header", "save_model"]

FORMAT_NAME = "ldmaps model"
FORMAT_VERSION = (1, 1)
_HEADER = "header.json"
#: What reading flipped, missing or foreign bytes can raise in zipfile, zlib, json and numpy.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    NotImplementedError,
    RuntimeError,
    MemoryError,
)
_ESTIMATORS: dict[str, type[DiffusionEstimator]] = {
    estimator.__name__: estimator for estimator in (DiffusionMap, LandmarkDiffusionMap)
}
_FITTED_ARRAYS = ("eigenvalues_", "spectrum_", "landmark_embedding_", "landmark_indices_", "multiplicities_")
_EMBEDDER_ARRAYS = ("source_weights", "coefficients", "squared_radii")
_CURVE_ARRAYS = ("curve_epsilons", "curve_sums", "curve_slopes")


def save_model(
    model: DiffusionEstimator, path: str | os.PathLike[str], *, include_embedding: bool = True
) -> None:
    """Write a fitted estimator; see :meth:`ldmaps.maps.estimator.DiffusionEstimator.save`."""
    embedder, bandwidth = model.embedder_, model.bandwidth_
    arrays: dict[str, NDArray[Any]] = {name: np.asarray(getattr(model, name)) for name in _FITTED_ARRAYS}
    arrays |= {f"embedder/{name}": np.asarray(getattr(embedder, name)) for name in _EMBEDDER_ARRAYS}
    arrays |= {f"bandwidth/{name}": getattr(bandwidth, name) for name in _CURVE_ARRAYS}
    exported = embedder.metric.export_points(embedder.landmarks)
    arrays |= {f"landmarks/{name}": array for name, array in exported.items()}
    if include_embedding and hasattr(model, "embedding_"):
        arrays["embedding_"] = model.embedding_
        record = getattr(model, "training_", None)
        if record is not None:
            arrays |= {f"training/{name}": array for name, array in record.arrays().items()}
    names = getattr(model, "feature_names_in_", None)
    certificate = getattr(model, "certificate_", None)
    header = {
        "format": FORMAT_NAME,
        "format_version": list(FORMAT_VERSION),
        "library_version": __version__,
        "estimator": type(model).__name__,
        "settings": {key: _encode(value) for key, value in model.get_params(deep=False).items()},
        "metric": _encode(embedder.metric),
        "units": model.units_,
        "source": getattr(model, "source_", None),
        "epsilon": embedder.epsilon,
        "interpolation_bandwidth": embedder.bandwidth,
        "bandwidth": {"rule": bandwidth.rule, "dimension": bandwidth.dimension},
        "certificate": None if certificate is None else dataclasses.asdict(certificate),
        "n_components": model.n_components_,
        "n_landmarks": embedder.n_landmarks,
        "n_features_in": model.n_features_in_,
        "feature_names_in": None if names is None else [str(name) for name in names],
    }
    text = json.dumps(header, indent=2, ensure_ascii=False, allow_nan=False)
    with written_whole(path) as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_HEADER, text)
        for name, array in arrays.items():
            # C order always: some readers take Fortran-ordered data for C-ordered without a word.
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(array, order="C"), allow_pickle=False)
            archive.writestr(f"{name}.npy", buffer.getvalue())


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return a model file's header without its arrays."""
    with _open(path) as archive:
        return _header(archive, path)


def load(path: str | os.PathLike[str], *, metric: Any = None) -> Any:
    """Read a model file.

    Parameters
    ----------
    path : path-like
    metric : callable or Metric, optional
        Needed only for a map that was fitted with a Python function as metric: a
        file cannot carry code, so the function must be passed again.

    Returns
    -------
    DiffusionMap or LandmarkDiffusionMap
        Fitted, as it was saved. ``embedding_`` is there if it was stored; what only
        :meth:`fit` needs (kept distances, the points' cells) is not.
    """
    try:
        with _open(path) as archive:
            header = _header(archive, path)
            arrays = {
                name.removesuffix(".npy"): _array(archive, name)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
        return _rebuild(header, arrays, metric)
    except (LdmapsError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except _DAMAGE as error:
        raise ModelFileError(
            f"{path} is damaged ({type(error).__name__}: {error}); save the model again"
        ) from error


def _open(path: str | os.PathLike[str]) -> zipfile.ZipFile:
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no model file {str(path)!r}; check the path")
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise ModelFileError(
            f"{path} is not an ldmaps model file, or is cut off ({error}); expected what model.save(path) writes"
        ) from error


def _header(archive: zipfile.ZipFile, path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        header = json.loads(archive.read(_HEADER))
    except (KeyError, ValueError) as error:
        raise ModelFileError(
            f"{path} is a zip file but not an ldmaps model (no readable {_HEADER})"
        ) from error
    except _DAMAGE as error:
        raise ModelFileError(f"{path} is damaged ({error}); save the model again") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT_NAME:
        raise ModelFileError(f"{path} is not an ldmaps model: its header does not say so")
    version = header.get("format_version")
    if not (
        isinstance(version, list) and len(version) == 2 and all(isinstance(part, int) for part in version)
    ):
        raise ModelFileError(f"{path} has no readable format version, got {version!r}")
    if version[0] > FORMAT_VERSION[0]:
        raise ModelFileError(
            f"{path} has format version {version[0]}.{version[1]} (written by ldmaps "
            f"{header.get('library_version')}), but ldmaps {__version__} reads only up to {FORMAT_VERSION[0]}.x; "
            "upgrade ldmaps"
        )
    return header


def _array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    # Read to the end: the checksum of a member is compared only there.
    array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
    return array


def _rebuild(
    header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], metric: Any
) -> DiffusionEstimator:
    if header["estimator"] not in _ESTIMATORS:
        raise ModelFileError(
            f"the file holds a {header['estimator']!r}, which this version of ldmaps does not know"
        )
    estimator_class = _ESTIMATORS[header["estimator"]]
    known = _decode(header["metric"]) if metric is None else resolve_metric(metric)
    if metric is not None and known.name != header["metric"]["__metric__"]:
        raise InvalidInputError(
            f"the model was fitted with metric {header['metric']['__metric__']!r}, but load was given {known!r}"
        )
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(estimator_class).parameters.items()
    }
    settings = {
        key: known if key == "metric" and isinstance(value, dict) else _decode(value, defaults.get(key))
        for key, value in header["settings"].items()
        if key in defaults
    }
    model = estimator_class(**settings)
    prefix = "landmarks/"
    landmarks = known.import_points(
        {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    )
    embedder_arrays = {name: arrays[f"embedder/{name}"] for name in _EMBEDDER_ARRAYS}
    for name in _FITTED_ARRAYS:
        setattr(model, name, arrays[name])
    n_landmarks, n_components = len(landmarks), int(header["n_components"])
    shapes = {
        "embedder/coefficients": (n_components, n_landmarks),
        "embedder/source_weights": (n_landmarks,),
        "embedder/squared_radii": (n_landmarks,),
        "eigenvalues_": (n_components,),
        "landmark_embedding_": (n_landmarks, n_components),
        "landmark_indices_": (n_landmarks,),
        "multiplicities_": (n_landmarks,),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise ModelFileError(
                f"array {name} has shape {arrays[name].shape}, expected {shape}; the file is damaged"
            )
    epsilon = float(header["epsilon"])
    # Without the entry the weights have the bandwidth of the map.
    interpolation = float(header.get("interpolation_bandwidth", epsilon))
    model.embedder_ = Embedder(known, landmarks, epsilon, **embedder_arrays, bandwidth=interpolation)
    model.metric_ = known
    model.epsilon_ = epsilon
    model.n_components_ = n_components
    model.n_features_in_ = int(header["n_features_in"])
    model.units_ = header["units"]
    model.source_ = header.get("source")
    if header["feature_names_in"] is not None:
        model.feature_names_in_ = np.asarray(header["feature_names_in"], dtype=object)
    bandwidth = header["bandwidth"]
    epsilons, sums, slopes = (arrays[f"bandwidth/{name}"] for name in _CURVE_ARRAYS)
    model.bandwidth_ = Bandwidth(epsilon, bandwidth["rule"], bandwidth["dimension"], epsilons, sums, slopes)
    if isinstance(model, LandmarkDiffusionMap):
        certificate = header.get("certificate")
        model.certificate_ = None if certificate is None else Certificate(**certificate)
    if "embedding_" in arrays:
        model.embedding_ = arrays["embedding_"]
    recorded = {name[9:]: array for name, array in arrays.items() if name.startswith("training/")}
    model.training_ = TrainingRecord.from_arrays(recorded)
    return model


# -- settings as JSON ---------------------------------------------------------


def _encode(value: Any) -> Any:
    if isinstance(value, Metric):
        return {
            "__metric__": value.name,
            "parameters": {key: _encode(entry) for key, entry in value.parameters().items()},
        }
    if isinstance(value, LandmarkSelector):
        return {
            "__selector__": value.name,
            "settings": {key: _encode(entry) for key, entry in vars(value).items()},
        }
    if isinstance(value, np.ndarray):
        return {"__array__": value.tolist(), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return _encode(value.item())
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple, range)):
        return [_encode(entry) for entry in value]
    # A function or a generator's state is not data: its name is kept for the reader, and the default comes back.
    return {"__text__": repr(value)}


def _decode(value: Any, default: Any = None) -> Any:
    if isinstance(value, list):
        return [_decode(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "__metric__" in value:
        if value["__metric__"] not in METRICS:
            raise ModelFileError(
                f"the file uses metric {value['__metric__']!r}, which this ldmaps does not know"
            )
        parameters = {key: _decode(entry) for key, entry in value["parameters"].items()}
        return METRICS[value["__metric__"]].from_parameters(parameters)
    if "__selector__" in value:
        if value["__selector__"] not in SELECTORS:
            return default
        return SELECTORS[value["__selector__"]](
            **{key: _decode(entry) for key, entry in value["settings"].items()}
        )
    if "__array__" in value:
        return np.asarray(value["__array__"], dtype=np.dtype(value["dtype"]))
    return default
