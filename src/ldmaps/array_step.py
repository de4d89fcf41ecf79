"""The online step w(x)·B in the array API standard: one function for numpy, torch, JAX and CuPy arrays.

    y(x) = Σ_j s_j e_j B_j / Σ_j s_j e_j        with  e_j = exp(−d_j²/(2h))

It is written with operations that these libraries share and can differentiate, so that gradients, batches and devices
are theirs. On a processor, prefer ``transform``, which is compiled; this is for maps inside of other programs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.array_distances import minimum, squared_distances
from ldmaps.errors import GradientError, InvalidInputError

__all__ = ["ArrayStep"]


@dataclass(frozen=True, eq=False)  # hashed by identity, as jax.jit hashes what it compiles
class ArrayStep:
    """Embeds points that are arrays of any library: ``step(X)`` is what ``model.transform(X)`` gives.

    ``X`` is of shape (n, features), or (n, atoms, 3) or (n, 3·atoms) for frames, of floating-point numbers in the unit
    of the map. The result, (n, k), is of the library, device and precision of ``X``. Points are not checked. Arrays of
    numpy need its version 2 for Features.

    Attributes
    ----------
    distance : str
        How d² is computed: "columns", "features", "rmsd" or "aligned".
    constants : mapping of str to array
        The numbers of the map: numpy arrays, or arrays of one library after :meth:`converted`.

    Examples
    --------
    >>> import numpy as np
    >>> from ldmaps import LandmarkDiffusionMap
    >>> from ldmaps.array_step import ArrayStep
    >>> from ldmaps.datasets import swiss_roll
    >>> roll = swiss_roll(500, random_state=0).points
    >>> model = LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(roll)
    >>> bool(np.abs(ArrayStep.of(model)(roll) - model.transform(roll)).max() < 1e-6)
    True
    """

    distance: str
    constants: Mapping[str, Any]

    @classmethod
    def of(cls, model: Any) -> ArrayStep:
        """Return the step of a fitted map ``model`` with a metric that has a gradient, in float64."""
        if not hasattr(model, "embedder_"):
            raise InvalidInputError(f"only a fitted map has an online step, got {model!r}; call fit first")
        embedder, metric, landmarks = model.embedder_, model.metric_, model.embedder_.landmarks
        factors = None
        if metric.has_local_scales:
            metric, factors, landmarks = metric.plain, landmarks.factors, landmarks.plain
        if not metric.is_differentiable:
            raise GradientError(
                f"the metric {metric!r} has no gradient, so it is not available for other array libraries; fit the map "
                "with RMSD, Features, Euclidean, StandardizedEuclidean or Periodic"
            )
        if not metric.has_structures:
            distance, constants = "columns", _columns(metric, landmarks)
        elif getattr(metric, "kinds", None):
            distance, constants = "features", _features(metric, landmarks)
        else:
            distance, constants = _frames(metric, landmarks, int(model.n_features_in_) // 3)
        if factors is not None:
            constants["log_factors"] = np.log(factors)
        constants["coefficients"] = embedder.coefficients.T.astype(np.float64)
        constants["source_weights"] = embedder.source_weights.astype(np.float64)
        constants["rate"] = np.asarray(0.5 / embedder.bandwidth)
        return cls(distance, constants)

    def converted(self, convert: Callable[[NDArray[Any]], Any]) -> ArrayStep:
        """Return the same step with each constant as ``convert`` returns it, such as ``jax.numpy.asarray``."""
        return ArrayStep(self.distance, {name: convert(value) for name, value in self.constants.items()})

    def __call__(self, X: Any) -> Any:
        """Embed points ``X``."""
        xp = _namespace(X)
        known = {name: _like(X, value, xp) for name, value in self.constants.items()}
        squared = squared_distances(xp, X, self.distance, known)
        # The nearest landmark's d² cancels; without it, far from all landmarks every weight would be 0.
        weights = known["source_weights"] * xp.exp(known["rate"] * (minimum(xp, squared) - squared))
        return (weights @ known["coefficients"]) / xp.sum(weights, axis=-1, keepdims=True)


# -- the numbers of a map, in numpy --------------------------------------------------------------


def _columns(metric: Any, landmarks: Any) -> dict[str, Any]:
    places, scales = metric.places(landmarks)
    periods = np.broadcast_to(np.asarray(getattr(metric, "period", 0.0), np.float64), scales.shape)
    return {"places": places, "scales": scales, **_periods(periods)}


def _features(metric: Any, landmarks: Any) -> dict[str, Any]:
    scales = np.asarray(metric.parameters()["scales"], np.float64)
    kinds = np.asarray(metric.kinds)
    constants: dict[str, Any] = {
        "places": landmarks.values.astype(np.float64) / scales,
        "scales": scales,
        **_periods(np.where(kinds == "dihedral", 2 * math.pi, 0.0)),
    }
    for kind in dict.fromkeys(metric.kinds):  # in the order of their columns
        atoms = [members for members, its_kind in zip(metric.atoms, kinds, strict=True) if its_kind == kind]
        constants[f"atoms_{kind}"] = np.asarray(atoms, dtype=np.int64)
    return constants


def _periods(periods: NDArray[np.float64]) -> dict[str, Any]:
    """Return periods of columns, 0 for those that have none, and what to divide by to count turns."""
    return {"periods": periods.copy(), "turn_lengths": np.where(periods > 0, periods, 1.0)}


def _frames(metric: Any, landmarks: Any, n_atoms: int) -> tuple[str, dict[str, Any]]:
    kept, roots, fitted, fit_roots = metric.weighed_atoms(n_atoms)
    weights, fit_weights = np.zeros(n_atoms), np.zeros(n_atoms)
    weights[kept] = roots**2
    fit_weights[kept if fitted is None else fitted] = (roots if fitted is None else fit_roots) ** 2
    structures = np.zeros((len(landmarks), n_atoms, 3))
    structures[:, kept] = metric.structures(landmarks, n_atoms)
    structures -= np.einsum("a,jax->jx", fit_weights, structures)[:, None]
    by_axis = structures.transpose(2, 1, 0)  # (3, atoms, M)
    return "rmsd" if fitted is None else "aligned", {
        "weights": weights,
        "fit_weights": fit_weights,
        "weighted": by_axis * weights[:, None],
        "fit_weighted": by_axis * fit_weights[:, None],
        "norms": np.einsum("a,jax->j", weights, structures**2),
    }


# -- array libraries ----------------------------------------------------------------------------


def _namespace(X: Any) -> Any:
    """Return the functions of the library that an array is of."""
    if hasattr(X, "__array_namespace__"):
        return X.__array_namespace__()
    return import_module(type(X).__module__.partition(".")[0])  # torch; numpy before version 2


def _like(X: Any, constant: Any, xp: Any) -> Any:
    """Return a constant in the precision of X, and as an array of its library and on its device."""
    if not isinstance(constant, np.ndarray):
        return constant  # somebody has converted it
    is_index = constant.dtype.kind == "i"
    if xp.__name__ in ("numpy", "jax.numpy"):  # which take arrays of numpy; while JAX traces, X has no device
        return constant if is_index else constant.astype(X.dtype)
    return xp.asarray(constant, dtype=None if is_index else X.dtype, device=X.device)
