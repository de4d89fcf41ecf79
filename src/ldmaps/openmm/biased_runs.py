"""Biased runs: a file of variables, bias and domain verdict, and weights that undo the bias of metadynamics."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ldmaps.errors import AccuracyWarning, InvalidInputError, OutsideDomainWarning
from ldmaps.files import written_whole
from ldmaps.openmm.atoms import FrameReporter, number_in_unit
from ldmaps.settings import is_whole_number
from ldmaps.user_warnings import warn

#: Reports over which the share outside the domain is taken.
WATCHED = 200
#: Molar gas constant in kJ/mol/K.
GAS_CONSTANT = 8.31446261815324e-3
#: Fewer frames than this, by the spread of their weights, do not make a map.
FEWEST_EFFECTIVE = 50
_BIAS_FILE = re.compile(r"bias_(\d+)_(\d+)\.npy")


class BiasLog(FrameReporter):
    """An OpenMM reporter that writes step, time, coordinates, bias and domain verdict as CSV.

    Columns: ``step``, ``time`` (ps), ``psi2``, ``psi3`` …, ``bias_kJ_mol``, ``distance``
    (to the nearest landmark, in √ε) and ``inside`` (1 or 0).

    Parameters
    ----------
    path : path-like
        Grows while the run goes on. A file that exists is continued if ``append``, and refused otherwise.
    model : LandmarkDiffusionMap, DiffusionMap or path
        A fitted map of frames, or its file.
    report_interval : int
        Steps between two lines.
    bias : openmm.app.Metadynamics or set of int, optional
        The run, or the force groups whose energy is the bias. By default the column is empty.
    atoms, ignore_names
        See :class:`~ldmaps.openmm.LandmarkReporter`.
    append : bool
        Whether to continue a file of an earlier part of the run. Lines of steps that a
        run started from an older checkpoint takes again are dropped first. A run that
        starts before all of the earlier ones is appended to them.

    Warns
    -----
    OutsideDomainWarning
        Once, when more than half of the last 200 reports were outside the map's domain.
    """

    def __init__(
        self,
        path: str | Path,
        model: Any,
        report_interval: int,
        *,
        bias: Any = None,
        atoms: ArrayLike | None = None,
        ignore_names: bool = False,
        append: bool = False,
    ) -> None:
        super().__init__(model, report_interval, atoms, ignore_names)
        self.path = Path(path)
        if not self.path.absolute().parent.is_dir():
            folder = str(self.path.parent)
            raise InvalidInputError(f"there is no folder {folder!r} to write the log to; make it first")
        self._bias_energy = _energy_of(bias)
        self._header = ["step", "time", *self._model.coordinate_names_, "bias_kJ_mol", "distance", "inside"]
        self._continues = self.path.exists()
        if self._continues and not append:
            raise InvalidInputError(
                f"{str(self.path)!r} exists already; pass append=True to continue it, or another path"
            )
        if self._continues:
            with self.path.open(newline="") as stream:
                header = next(csv.reader(stream), [])
            if header != self._header:
                raise InvalidInputError(
                    f"{str(self.path)!r} has the columns {header}, not {self._header}: it was written by another run"
                )
        self._stream: IO[str] | None = None
        self._last_step = -1
        self._verdicts: deque[bool] = deque(maxlen=WATCHED)
        self._warned = False

    def report(self, simulation: Any, state: Any) -> None:
        """Write a line about a ``simulation``, the run, at ``state``, which has its positions."""
        projected, bias = self._model.embedder_.project(self._frame(simulation, state), 1), ""
        if self._bias_energy is not None:
            bias = f"{self._bias_energy(simulation.context):.6g}"
        inside, distance = bool(projected.coverage.inside[0]), f"{projected.coverage.distance[0]:.5g}"
        coordinates = [f"{value:.8g}" for value in projected.coordinates[0]]
        time = f"{state.getTime()._value:.6g}"
        self._write([simulation.currentStep, time, *coordinates, bias, distance, int(inside)])
        self._verdicts.append(inside)
        if not self._warned and len(self._verdicts) == WATCHED and sum(self._verdicts) < WATCHED / 2:
            self._warned = True
            warn(
                OutsideDomainWarning(
                    f"{WATCHED - sum(self._verdicts)} of the last {WATCHED} frames were outside the map's domain, "
                    "where its coordinates are extrapolated; add a boundary_restraint, or absorb the new frames into "
                    "the map"
                )
            )

    def close(self) -> None:
        """Close the file; a later report opens it again."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _write(self, row: list[Any]) -> None:
        if row[0] <= self._last_step:  # the simulation went back to a checkpoint
            self.close()
        if self._stream is None:
            if self._continues:
                self._cut_back(row[0])
            self._stream = self.path.open("a", newline="")
            if not self._continues:
                csv.writer(self._stream).writerow(self._header)
                self._continues = True
        csv.writer(self._stream).writerow(row)
        self._stream.flush()
        self._last_step = row[0]

    def _cut_back(self, step: int) -> None:
        """Drop the lines from ``step`` on of the last run in the file, and a line that a crash left unfinished."""
        lines = self.path.read_bytes().splitlines(keepends=True)
        kept = lines if lines[-1].endswith(b"\n") else lines[:-1]
        begun = [line.partition(b",")[0] for line in kept[1:]]
        bad = next((line for line, step in zip(kept[1:], begun, strict=True) if not step.isdigit()), None)
        if bad is not None:
            raise InvalidInputError(
                f"{str(self.path)!r} holds the line {bad.decode(errors='replace').strip()!r}, which does not begin "
                "with a step; remove it, or log to another path"
            )
        steps = [int(step) for step in begun]
        begin = max((at for at in range(1, len(steps)) if steps[at] <= steps[at - 1]), default=0)
        if steps and steps[begin] < step:
            count = begin + sum(earlier < step for earlier in steps[begin:])
            kept = kept[: 1 + count]
        if len(kept) < len(lines):
            with written_whole(self.path) as stream:
                stream.writelines(kept)


def _energy_of(bias: Any) -> Callable[[Any], float] | None:
    """Return what computes the energy of the bias in a context, in kJ/mol; or raise."""
    if bias is None:
        return None
    if hasattr(bias, "bias_energy"):  # MapMetadynamics, whose force has a restraint in it, too
        return cast(Callable[[Any], float], bias.bias_energy)
    groups = _groups(bias)
    return lambda context: float(context.getState(energy=True, groups=groups).getPotentialEnergy()._value)


def _groups(bias: Any) -> set[int]:
    """Return the force groups whose energy is the bias, or raise."""
    if hasattr(bias, "_force"):  # Metadynamics gives its force a group of its own, which it keeps to itself
        return {bias._force.getForceGroup()}
    if isinstance(bias, (set, frozenset)) and all(is_whole_number(one) and 0 <= one < 32 for one in bias):
        return {int(one) for one in bias}
    raise InvalidInputError(
        f"bias must be the Metadynamics run, or a set of force groups from 0 to 31, got {bias!r}; for a force of "
        "your own: force.setForceGroup(7) and bias={7}"
    )


def metadynamics_weights(
    values: ArrayLike, bias: Any, variables: Sequence[Any] | None = None, temperature: Any = None
) -> NDArray[np.float64]:
    """Return the weight of each frame of a metadynamics run in the unbiased ensemble.

    A frame drawn under the bias V(s) counts exp(V(s)/kT) times. That is exact for frames from after the last bump,
    which ``simulation.step`` samples. Frames from before are weighted by the bias at the end; leave out those from
    before it had filled the basins.

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
        With a mean of 1.

    Warns
    -----
    AccuracyWarning
        When the weights rest on fewer than 50 effective frames, (Σw)²/Σw².

    See Also
    --------
    effective_sample_size : how much the weights are worth.

    References
    ----------
    G. Bussi and A. Laio, "Using metadynamics to explore complex free-energy landscapes", Nature Reviews Physics 2,
    200-212 (2020).
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
            "a bias read from files or given as an array has no variables and no temperature; pass variables= "
            "(those of the run, in its order) and temperature="
        )
    kelvin = number_in_unit("temperature", temperature, unit.kelvin, positive=True)
    logarithms = bias_at(values, grid, variables) / (GAS_CONSTANT * kelvin)
    weights: NDArray[np.float64] = np.exp(logarithms - logarithms.max())
    weights /= weights.mean()
    effective = effective_sample_size(weights)
    if effective < FEWEST_EFFECTIVE:
        warn(
            AccuracyWarning(
                f"the effective sample size is only {effective:.1f} of {len(weights):,} frames; run longer, discard "
                "the frames from before the bias had filled the basins, or raise the bias factor"
            )
        )
    return weights


def effective_sample_size(weights: ArrayLike) -> float:
    """Return (Σw)²/Σw², the number of equally weighted frames that weighted ones amount to.

    Parameters
    ----------
    weights : array-like of shape (n,)
        Of the frames.

    Returns
    -------
    float
        Between 1 and n.

    Examples
    --------
    >>> effective_sample_size([1.0, 1.0, 1.0, 1.0])
    4.0
    >>> effective_sample_size([1.0, 0.0, 0.0, 0.0])
    1.0
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
    shapes = sorted({part.shape for part in parts})
    if len(shapes) > 1:
        raise InvalidInputError(
            f"the files in {str(directory)!r} have grids of {shapes} points; keep runs of other variables in other "
            "directories"
        )
    return np.asarray(np.sum(parts, axis=0))


def bias_at(values: ArrayLike, grid: NDArray[np.float64], variables: Sequence[Any]) -> NDArray[np.float64]:
    """Return the bias in kJ/mol at values of the variables, interpolated on OpenMM's grid as OpenMM does."""
    from scipy.interpolate import RegularGridInterpolator

    points = np.array(values, dtype=np.float64)
    points = points[:, None] if points.ndim == 1 else points
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
            points[:, place] = variable.minValue + np.mod(points[:, place] - variable.minValue, length)
    method = "cubic" if min(grid.shape) >= 4 else "linear"
    table = RegularGridInterpolator(axes, grid.T, method=method, bounds_error=False, fill_value=0.0)
    return np.asarray(table(points))
