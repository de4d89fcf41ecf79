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
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
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
from ldmaps.maps.fitted_map import FittedMap
from ldmaps.maps.tolerance import Certificate
from ldmaps.maps.training_record import TrainingRecord
from ldmaps.metrics import METRICS, Metric, resolve_metric

__all__ = ["FORMAT_VERSION", "NOT_DATA", "Description", "read_header", "read_model", "write_model"]

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
_MAP_ARRAYS = ("eigenvalues", "spectrum", "landmark_embedding", "landmark_indices", "multiplicities")
_EMBEDDER_ARRAYS = ("source_weights", "coefficients", "squared_radii")
#: A setting that a file names but does not hold, such as a function: the estimator's default stands for it.
NOT_DATA = object()
_CURVE_ARRAYS = ("curve_epsilons", "curve_sums", "curve_slopes")


@dataclass(frozen=True)
class Description:
    """What a file says of the estimator that a map was fitted with.

    Attributes
    ----------
    estimator : str
        Name of its class.
    settings : mapping
        Its parameters.
    n_features_in : int
    feature_names_in : list of str or None
    """

    estimator: str
    settings: Mapping[str, Any]
    n_features_in: int
    feature_names_in: list[str] | None


def write_model(path: str | os.PathLike[str], fitted: FittedMap, description: Description) -> None:
    """Write a fitted map and the settings it was fitted with; whole or not at all."""
    embedder, bandwidth = fitted.embedder, fitted.bandwidth
    arrays: dict[str, NDArray[Any]] = {f"{name}_": np.asarray(getattr(fitted, name)) for name in _MAP_ARRAYS}
    arrays |= {f"embedder/{name}": np.asarray(getattr(embedder, name)) for name in _EMBEDDER_ARRAYS}
    arrays |= {f"bandwidth/{name}": getattr(bandwidth, name) for name in _CURVE_ARRAYS}
    exported = embedder.metric.export_points(embedder.landmarks)
    arrays |= {f"landmarks/{name}": array for name, array in exported.items()}
    if fitted.embedding is not None:
        arrays["embedding_"] = fitted.embedding
    if fitted.embedding is not None and fitted.training is not None:
        arrays |= {f"training/{name}": array for name, array in fitted.training.arrays().items()}
    certificate = fitted.certificate
    header = {
        "format": FORMAT_NAME,
        "format_version": list(FORMAT_VERSION),
        "library_version": __version__,
        "estimator": description.estimator,
        "settings": {key: _encode(value) for key, value in description.settings.items()},
        "metric": _encode(embedder.metric),
        "units": fitted.units,
        "source": fitted.source,
        "epsilon": embedder.epsilon,
        "interpolation_bandwidth": embedder.bandwidth,
        "bandwidth": {"rule": bandwidth.rule, "dimension": bandwidth.dimension},
        "certificate": None if certificate is None else dataclasses.asdict(certificate),
        "n_components": embedder.n_components,
        "n_landmarks": embedder.n_landmarks,
        "n_features_in": description.n_features_in,
        "feature_names_in": description.feature_names_in,
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


def read_model(path: str | os.PathLike[str], *, metric: Any = None) -> tuple[FittedMap, Description]:
    """Read a fitted map and what is said of its estimator; see :func:`ldmaps.load`."""
    try:
        with _open(path) as archive:
            header = _header(archive, path)
            arrays = {
                name.removesuffix(".npy"): _array(archive, name)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
        used = _metric(header, metric)
        return _fitted_map(header, arrays, used), _description(header, used)
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


def _metric(header: Mapping[str, Any], given: Any) -> Metric:
    """Return the file's metric, or the given one where a file cannot carry it."""
    if given is None:
        stored: Metric = _decode(header["metric"])
        return stored
    metric = resolve_metric(given)
    if metric.name != header["metric"]["__metric__"]:
        raise InvalidInputError(
            f"the model was fitted with metric {header['metric']['__metric__']!r}, but load was given {metric!r}"
        )
    return metric


def _description(header: Mapping[str, Any], metric: Metric) -> Description:
    settings = {
        key: metric if key == "metric" and isinstance(value, dict) else _decode(value)
        for key, value in header["settings"].items()
    }
    return Description(
        header["estimator"], settings, int(header["n_features_in"]), header["feature_names_in"]
    )


def _fitted_map(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], metric: Metric) -> FittedMap:
    landmarks = metric.import_points(_members(arrays, "landmarks/"))
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
    embedder = Embedder(
        metric,
        landmarks,
        epsilon,
        **{name: arrays[f"embedder/{name}"] for name in _EMBEDDER_ARRAYS},
        # Without the entry the weights have the bandwidth of the map.
        bandwidth=float(header.get("interpolation_bandwidth", epsilon)),
    )
    rule = header["bandwidth"]
    curve: dict[str, Any] = {name: arrays[f"bandwidth/{name}"] for name in _CURVE_ARRAYS}
    own: dict[str, Any] = {name: arrays[f"{name}_"] for name in _MAP_ARRAYS}
    certificate = header.get("certificate")
    return FittedMap(
        embedder=embedder,
        bandwidth=Bandwidth(epsilon, rule["rule"], rule["dimension"], **curve),
        **own,
        units=header["units"],
        source=header.get("source"),
        training=TrainingRecord.from_arrays(_members(arrays, "training/")),
        embedding=arrays.get("embedding_"),
        certificate=None if certificate is None else Certificate(**certificate),
    )


def _members(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


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


def _decode(value: Any) -> Any:
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
            return NOT_DATA
        return SELECTORS[value["__selector__"]](
            **{key: _decode(entry) for key, entry in value["settings"].items()}
        )
    if "__array__" in value:
        return np.asarray(value["__array__"], dtype=np.dtype(value["dtype"]))
    return NOT_DATA
