"""Every setting of a fit, said once: what it may be, what it is by default, and its option on the command line."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

from ldmaps.errors import InvalidInputError, Named


def is_whole_number(value: object) -> bool:
    """Say whether a setting is a whole number, 3.0 included and True not."""
    if isinstance(value, Integral):  # which may be longer than any float
        return not isinstance(value, bool)
    return isinstance(value, Real) and float(value).is_integer()


@dataclass(frozen=True)
class Limits:
    """What solving a map over all points may take: an exact map, or one to distil from.

    Parameters
    ----------
    memory : float
        Most bytes for solving it, in addition to the points. Above it (N > 31,000 in single precision by default)
        the kernel is not stored, but computed again in each pass over all pairs of points.
    max_passes : int or None
        Passes over all N²/2 pairs that this may take; molecules take two or three, spectra that crowd below 1 ten or
        more. None allows 50 for an exact map; for a map to distil from 20, or as many as stay below 10¹¹ pairs (2 for
        300,000 points). 0, for distilled maps only, learns from a map of many more landmarks instead, whose error is
        bounded by residuals at 2,000 points.
    resume : path or None
        A file in which the passes keep their state, once per minute: an interrupted fit with the same data and
        settings resumes where it stopped. Model files do not store it.

    Examples
    --------
    >>> from ldmaps import DiffusionMap, Limits
    >>> model = DiffusionMap(limits=Limits(memory=16e9, resume="passes.npz"))
    """

    memory: float = 4e9
    max_passes: int | None = None
    resume: str | os.PathLike[str] | None = None


class NamedLimit(Named):
    """A field of :class:`Limits` that a message names.

    >>> print(NamedLimit("memory", ...))
    limits=Limits(memory=...)
    """

    def __str__(self) -> str:
        return f"limits=Limits({super().__str__()})"


@dataclass(frozen=True)
class Setting:
    """One setting."""

    name: str  # as the estimators' argument
    default: Any  # of that argument
    #: What a value must be, in words; empty where others check it, as more than type and range decides.
    rule: str = ""
    #: int for whole numbers, float for numbers, a class whose attributes are settings (``parts``), object for others
    kind: type = object
    low: float = -math.inf  # between these a number lies, both included
    high: float = math.inf
    above: float = -math.inf  # the same, not included
    below: float = math.inf
    words: tuple[str, ...] = ()  # names that stand for something else than a number
    may_be_none: bool = False
    parts: tuple[Setting, ...] = ()
    #: With which the command line sets it, such as "--n-landmarks" and "-m"; empty where it does not
    option: str = ""
    letter: str = ""
    metavar: str | None = None  # what ``--help`` calls the value
    help: str = ""  # what ``--help`` says

    def holds(self, value: Any) -> bool:
        """Say whether type and range are right; of a value that has parts, its type."""
        if value is None:
            return self.may_be_none
        if self.parts:
            return isinstance(value, self.kind)
        if isinstance(value, str):
            return value in self.words
        if self.kind is object or isinstance(value, bool) or not isinstance(value, Real):
            return False
        try:
            number = float(value)
        except OverflowError:  # an integer of a file may be longer than any float
            return False
        is_inside = self.low <= number <= self.high and self.above < number < self.below
        return is_inside and (self.kind is float or number.is_integer())

    def check(self, value: Any) -> Any:
        """Return the value, or raise."""
        if self.rule and not self.holds(value):
            raise InvalidInputError(Named(self.name), f" must be {self.rule}, got {value!r}")
        if value is not None:
            for part in self.parts:
                part.check(getattr(value, part.name))
        return value

    def shown(self, usage: str, help: str) -> Setting:
        """Return the setting as the command line has it: its option and what the value is called, and the help."""
        option, *metavar = usage.split()
        return replace(self, option=option, metavar=metavar[0] if metavar else None, help=help)

    @property
    def argument(self) -> str:
        """What argparse calls the option's value."""
        return self.option.removeprefix("--").replace("-", "_")


_COMMON = (
    Setting(
        "metric",
        "euclidean",
        words=(
            "rmsd",
            "euclidean",
            "standardized",
            "hamming",
            "earth_mover",
            "periodic",
            "precomputed",
            "affinity",
        ),
    ).shown(
        "--metric NAME",
        "distance: rmsd (the default for trajectories), standardized (for tables with column names), euclidean "
        "(otherwise), hamming, earth_mover, periodic, precomputed or affinity",
    ),
    Setting(
        "epsilon",
        "bulk",
        '"bulk", "local", "connected", "coifman" or a positive number',
        float,
        above=0,
        words=("bulk", "local", "connected", "coifman"),
    ).shown(
        "--epsilon E",
        "bandwidth, a squared distance: a number, 'bulk' (a typical point reaches 0.5 %% of all points; the "
        "default), 'local' (each point has its own, by the distance to its neighbours), 'connected' (the smallest "
        "that connects all points, as in the paper) or 'coifman'",
    ),
    Setting(
        "outliers",
        0.0,
        "the share of points that may be left out, from 0 (none) to below 0.5 (0.01 leaves out at most 1 %)",
        float,
        low=0,
        below=0.5,
    ).shown(
        "--outliers SHARE",
        "leave out up to this share of the points where they are far from all others: 0.01 is 1 %% (0)",
    ),
    Setting("n_components", "gap", '"gap" or a whole number of at least 1', int, low=1, words=("gap",)).shown(
        "--n-components K",
        "number of coordinates, or 'gap' (those before the largest drop of the spectrum, at least two)",
    ),
)
_OF_LANDMARKS = (
    Setting("landmarks", "kmedoids", words=("kmedoids", "pst", "uniform", "farthest")).shown(
        "--landmarks", "how landmarks are selected (kmedoids)"
    ),
    Setting(
        "n_landmarks", None, "a whole number of at least 2", int, low=2, may_be_none=True, letter="-m"
    ).shown("--n-landmarks M", "number of landmarks, unless --tolerance is given (400)"),
    Setting(
        "tolerance",
        None,
        "a positive number, Z of 99 % of new points in percent",
        float,
        above=0,
        may_be_none=True,
    ).shown(
        "--tolerance Z",
        "find the fewest landmarks that keep Z of 99 %% of new points below this; 1 is a good choice",
    ),
    Setting(
        "extension", "auto", '"auto" or one of "distilled", "nystrom"', words=("auto", "distilled", "nystrom")
    ).shown(
        "--extension",
        "how new points are projected onto the map (distilled with --tolerance, else nystrom)",
    ),
    Setting(
        "calibration",
        0.2,
        "the fraction of points held out for calibration, from 0 (none) to 0.5",
        float,
        low=0,
        high=0.5,
    ).shown(
        "--calibration SHARE",
        "fraction of points held out to calibrate the p-values of alarms (0.2; 0 disables)",
    ),
)
_OF_EXACT_MAPS = (
    Setting("keep_distances", False),
    Setting(
        "solver",
        "auto",
        '"auto", "stored", "sparse", "streamed"',
        words=("auto", "stored", "sparse", "streamed"),
    ),
)
_OF_LIMITS = (
    Setting("memory", 4e9, "a number of bytes of at least 0", float, low=0),
    Setting("max_passes", None, "a whole number of at least 0", int, low=0, may_be_none=True).shown(
        "--max-passes P",
        "maximum number of passes over all pairs of points when the N x N matrix does not fit into memory; 0 "
        "learns from a map with many more landmarks instead (20, fewer above 100,000 points)",
    ),
    Setting("resume", None).shown(
        "--resume FILE", "save the state of the passes to FILE; run the same command again to resume"
    ),
)
_FURTHER = (
    Setting(
        "alpha", 0.0, "between 0 (density kept, the paper's) and 1 (removed)", float, low=0, high=1
    ).shown("--alpha A", "density normalisation, 0 to 1 (0)"),
    Setting("diffusion_time", 0.0, "0 (the paper's diffusion time) or more", float, low=0).shown(
        "--diffusion-time T", "diffusion time t: scale coordinates by lambda^t (0)"
    ),
    Setting(
        "limits",
        None,
        "an ldmaps.Limits, such as Limits(memory=8e9), or None",
        Limits,
        may_be_none=True,
        parts=_OF_LIMITS,
    ),
    # scikit-learn takes more than numbers, and says what.
    Setting("random_state", 0, kind=int, low=0, high=2**32 - 1).shown(
        "--random-state N", "seed of all random choices (0)"
    ),
    Setting(
        "n_threads", None, "a whole number of at least 1, or None for all", int, low=1, may_be_none=True
    ).shown("--threads N", "threads to use (all cores)"),
    Setting("verbose", False),
)


def _table(settings: Iterable[Setting]) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


#: Fields of :class:`Limits`.
LIMITS = _table(_OF_LIMITS)
#: Settings of :class:`~ldmaps.LandmarkDiffusionMap`, in the order in which ``--help`` lists and a fit checks them.
LANDMARK_FIT = _table([*_COMMON, *_OF_LANDMARKS, *_FURTHER])
#: Those of :class:`~ldmaps.DiffusionMap`.
EXACT_FIT = _table([*_COMMON, *_OF_EXACT_MAPS, *_FURTHER])
# An exact map that is not stored takes a pass; only a distilled one can learn from a map of landmarks instead.
_ONE_PASS = replace(LIMITS["max_passes"], rule="a whole number of at least 1", low=1)
EXACT_FIT["limits"] = replace(EXACT_FIT["limits"], parts=tuple((LIMITS | {"max_passes": _ONE_PASS}).values()))


def check_whole(name: str, value: Any, least: int, most: float = math.inf) -> int:
    """Return a setting of something else than a fit, a whole number, or raise."""
    if not is_whole_number(value) or not least <= value <= most:
        limits = f"of at least {least}" if most == math.inf else f"from {least} to {most}"
        raise InvalidInputError(Named(name), f" must be a whole number {limits}, got {value!r}")
    return int(value)


def check_seconds(name: str, value: Any, *, above: bool = False) -> None:
    """Raise unless a setting is a number of seconds of at least 0, or above it; None, where it is left out, passes."""
    if value is not None and not (isinstance(value, Real) and float(value) >= 0 and (value or not above)):
        rule = "above" if above else "of at least"
        raise InvalidInputError(Named(name), f" must be a number of seconds {rule} 0, got {value!r}")


def check_settings(described: Mapping[str, Setting], values: Mapping[str, Any]) -> None:
    """Raise unless each value is one its setting may have."""
    for name, setting in described.items():
        if name in values:
            setting.check(values[name])


_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?)?b?", re.IGNORECASE)


def size_in_bytes(name: str, size: object) -> int:
    """Return a size given as a number of bytes or with a unit ("64MB", "1.5 GiB"), or raise."""
    n_bytes = 0.0
    if isinstance(size, str):
        if match := _SIZE.fullmatch(size.strip()):
            n_bytes = float(match[1]) * _UNITS[(match[2] or "").lower()]
    elif is_whole_number(size):
        n_bytes = float(size)  # type: ignore[arg-type]
    if not 1 <= n_bytes < 1 << 50:
        raise InvalidInputError(f'{name} must be a size such as "64MB", or a number of bytes, got {size!r}')
    return int(n_bytes)
