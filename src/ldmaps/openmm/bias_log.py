"""A file of the variables, the bias and the domain verdict of a biased run, one line per report."""

from __future__ import annotations

import csv
import warnings
from collections import deque
from pathlib import Path
from typing import IO, Any

from numpy.typing import ArrayLike

from ldmaps.embedded_rows import coordinate_names
from ldmaps.errors import InvalidInputError, OutsideDomainWarning
from ldmaps.files import written_whole
from ldmaps.openmm.atoms import FrameReporter
from ldmaps.settings import is_whole_number

#: Reports over which the share outside the domain is taken.
WATCHED = 200


class BiasLog(FrameReporter):
    """An OpenMM reporter that writes step, time, coordinates, bias and domain verdict as CSV.

    Columns: ``step``, ``time`` (ps), ``psi2``, ``psi3`` …, ``bias_kJ_mol``, ``distance``
    (to the nearest landmark, in √ε) and ``inside`` (1 or 0).

    Parameters
    ----------
    path : path-like
        Grows while the run goes on. A file that exists is continued if ``append``,
        and refused otherwise.
    model : LandmarkDiffusionMap, DiffusionMap or path
        A fitted map of frames, or its file.
    report_interval : int
        Steps between two lines.
    bias : openmm.app.Metadynamics or set of int, optional
        The run, or the force groups whose energy is the bias. By default the column is
        empty.
    atoms, ignore_names
        As for :class:`~ldmaps.openmm.LandmarkReporter`.
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
            raise InvalidInputError(
                f"there is no folder {str(self.path.parent)!r} to write the log to; make it first"
            )
        self.bias_groups = _groups(bias)
        self._header = [
            "step",
            "time",
            *coordinate_names(self._model.n_components_),
            "bias_kJ_mol",
            "distance",
            "inside",
        ]
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
        """Write a line.

        Parameters
        ----------
        simulation : openmm.app.Simulation
            The run.
        state : openmm.State
            Where the run is, with positions.
        """
        placed = self._model.embedder_.place(self._frame(simulation, state), 1)
        coverage = placed.coverage
        bias = ""
        if self.bias_groups is not None:
            energy = simulation.context.getState(energy=True, groups=self.bias_groups).getPotentialEnergy()
            bias = f"{energy._value:.6g}"
        inside = bool(coverage.inside[0])
        self._write(
            [
                simulation.currentStep,
                f"{state.getTime()._value:.6g}",
                *(f"{value:.8g}" for value in placed.coordinates[0]),
                bias,
                f"{coverage.distance[0]:.5g}",
                int(inside),
            ]
        )
        self._verdicts.append(inside)
        if not self._warned and len(self._verdicts) == WATCHED and sum(self._verdicts) < WATCHED / 2:
            self._warned = True
            warnings.warn(
                f"{WATCHED - sum(self._verdicts)} of the last {WATCHED} frames were outside the map's domain, where "
                "its coordinates are extrapolated; add a domain_wall, or absorb the new frames into the map",
                OutsideDomainWarning,
                stacklevel=2,
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
        steps = [_step_of(line, self.path) for line in kept[1:]]
        begin = max((at for at in range(1, len(steps)) if steps[at] <= steps[at - 1]), default=0)
        if steps and steps[begin] < step:
            count = begin + sum(earlier < step for earlier in steps[begin:])
            kept = kept[: 1 + count]
        if len(kept) < len(lines):
            with written_whole(self.path) as stream:
                stream.writelines(kept)


def _step_of(line: bytes, path: Path) -> int:
    try:
        return int(line.partition(b",")[0])
    except ValueError:
        raise InvalidInputError(
            f"{str(path)!r} holds the line {line.decode(errors='replace').strip()!r}, which does not begin with a "
            "step; remove it, or log to another path"
        ) from None


def _groups(bias: Any) -> set[int] | None:
    """Return the force groups whose energy is the bias, or raise."""
    if bias is None:
        return None
    if hasattr(bias, "_force"):  # Metadynamics gives its force a group of its own, which it keeps to itself
        return {bias._force.getForceGroup()}
    if isinstance(bias, (set, frozenset)) and all(is_whole_number(one) and 0 <= one < 32 for one in bias):
        return {int(one) for one in bias}
    raise InvalidInputError(
        f"bias must be the Metadynamics run, or a set of force groups from 0 to 31, got {bias!r}; for a force of "
        "your own: force.setForceGroup(7) and bias={7}"
    )
