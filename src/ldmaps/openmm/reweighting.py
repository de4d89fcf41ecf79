"""Weights that undo the bias of a metadynamics run, for ``fit(sample_weight=)``.

A frame drawn under the bias V(s) counts exp(V(s)/kT) times. That is exact for frames drawn after the bias
has been frozen: OpenMM adds to it in ``metadynamics.step`` and not in ``simulation.step``. Frames from
before are weighted by the bias at the end, which is what OpenMM stores; leave out those from before it had
filled the basins.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import AccuracyWarning, InvalidInputError
from ldmaps.openmm.atoms import number_in_unit

#: Molar gas constant in kJ/mol/K.
GAS_CONSTANT = 8.31446261815324e-3
#: Fewer frames than this, by the spread of their weights, do not make a map.
FEWEST_EFFECTIVE = 50
_BIAS_FILE = re.compile(r"bias_(\d+)_(\d+)\.npy")


def metadynamics_weights(
    values: ArrayLike,
    bias: Any,
    variables: Sequence[Any] | None = None,
    temperature: Any = None,
) -> NDArray[np.float64]:
    """Return the weight of each frame of a metadynamics run in the unbiased ensemble.

    Parameters
    ----------
    values : array-like of shape (n,) or (n, variables)
        The biased variables of each frame, such as ``model.transform(frames)[:, :2]``.
    bias : openmm.app.Metadynamics, path or ndarray
        The run; the directory that it wrote its bias to (``biasDir``, the files of all
        walkers are added up); or the bias on the grid, in kJ/mol, as OpenMM lays it out.
    variables : sequence of openmm.app.BiasVariable, optional
        In the run's order; taken from ``bias`` where it is the run itself.
    temperature : float or Quantity, optional
        In K; taken from ``bias`` where it is the run itself.

    Returns
    -------
    ndarray of shape (n,)
        With a mean of 1. Exact for frames from after the last bump, which
        ``simulation.step`` samples.

    Warns
    -----
    AccuracyWarning
        When the weights rest on fewer than 50 effective frames, (Σw)²/Σw².
    """
    from openmm import unit

    if hasattr(bias, "variables") and hasattr(bias, "getFreeEnergy"):
        variables = bias.variables if variables is None else variables
        temperature = bias.temperature if temperature is None else temperature
        free_energy = np.asarray(bias.getFreeEnergy()._value)
        # F = −(T + ΔT)/ΔT · V with T + ΔT = biasFactor · T
        grid = -free_energy * (bias.biasFactor - 1.0) / bias.biasFactor
    elif isinstance(bias, (str, Path)):
        grid = stored_bias(bias)
    else:
        grid = np.asarray(bias, dtype=np.float64)
    if variables is None or temperature is None:
        raise InvalidInputError(
            "a bias from files or an array knows neither its variables nor its temperature; pass variables= "
            "(those of the run, in its order) and temperature="
        )
    kelvin = number_in_unit("temperature", temperature, unit.kelvin, positive=True)
    energies = bias_at(values, grid, variables)
    logarithms = energies / (GAS_CONSTANT * kelvin)
    weights: NDArray[np.float64] = np.exp(logarithms - logarithms.max())
    weights /= weights.mean()
    effective = effective_number(weights)
    if effective < FEWEST_EFFECTIVE:
        warnings.warn(
            f"the weights of {len(weights)} frames rest on {effective:.1f} of them; run longer, leave out the frames "
            "from before the bias had filled the basins, or raise the bias factor",
            AccuracyWarning,
            stacklevel=2,
        )
    return weights


def effective_number(weights: ArrayLike) -> float:
    """Return (Σw)²/Σw², the number of equally weighted frames that weighted ones amount to.

    Parameters
    ----------
    weights : array-like of shape (n,)
        Of the frames.

    Examples
    --------
    >>> effective_number([1, 1, 1, 1]), effective_number([1, 0, 0, 0])
    (4.0, 1.0)
    """
    values = np.asarray(weights, dtype=np.float64)
    return float(values.sum() ** 2 / (values**2).sum())


def stored_bias(directory: str | Path) -> NDArray[np.float64]:
    """Return the bias in kJ/mol that runs have written to a directory: the newest file of each, added up."""
    newest: dict[str, tuple[int, Path]] = {}
    for path in Path(directory).iterdir() if Path(directory).is_dir() else ():
        match = _BIAS_FILE.fullmatch(path.name)
        if match and (match[1] not in newest or newest[match[1]][0] < int(match[2])):
            newest[match[1]] = int(match[2]), path
    if not newest:
        raise InvalidInputError(
            f"there is no bias_*.npy in {str(directory)!r}; pass what was biasDir of the Metadynamics run"
        )
    parts = [np.load(path, allow_pickle=False) for _, path in newest.values()]
    if len({part.shape for part in parts}) > 1:
        raise InvalidInputError(
            f"the files in {str(directory)!r} have grids of {sorted({part.shape for part in parts})} points; "
            "keep runs of other variables in other directories"
        )
    total: NDArray[np.float64] = np.sum(parts, axis=0)
    return total


def bias_at(values: ArrayLike, grid: NDArray[np.float64], variables: Sequence[Any]) -> NDArray[np.float64]:
    """Return the bias in kJ/mol at values of the variables, interpolated on OpenMM's grid as OpenMM does."""
    from scipy.interpolate import RegularGridInterpolator

    points = np.asarray(values, dtype=np.float64)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2 or points.shape[1] != len(variables):
        raise InvalidInputError(
            f"values must have one column per variable, ({len(variables)}), got shape {np.shape(values)}; pass those "
            "of the biased coordinates alone"
        )
    if not np.isfinite(points).all():
        raise InvalidInputError("values must be finite; some are NaN or infinite")
    wanted = tuple(variable.gridWidth for variable in reversed(variables))
    if grid.shape != wanted:
        raise InvalidInputError(
            f"the bias has a grid of {grid.shape}, but the variables one of {wanted}; pass the variables of the run, "
            "in its order"
        )
    axes = [np.linspace(variable.minValue, variable.maxValue, variable.gridWidth) for variable in variables]
    for place, variable in enumerate(variables):
        if variable.periodic:
            length = variable.maxValue - variable.minValue
            points = points.copy()
            points[:, place] = variable.minValue + np.mod(points[:, place] - variable.minValue, length)
    method = "cubic" if min(grid.shape) >= 4 else "linear"
    table = RegularGridInterpolator(axes, grid.T, method=method, bounds_error=False, fill_value=0.0)
    result: NDArray[np.float64] = table(points)
    return result
