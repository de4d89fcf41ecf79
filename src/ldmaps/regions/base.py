"""What a region of a map is: something that a stream can enter and leave.

Masks are computed element by element, so they do not depend on how a stream is cut into batches.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ldmaps.embedded_rows import column_of
from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage

#: Largest value of a region: its square, and sums of a few of them, are still numbers.
LARGEST = 1e150

#: Entering and staying, one boolean per point each.
Masks = tuple[NDArray[np.bool_], NDArray[np.bool_]]


class Region(ABC):
    """A part of the map.

    Attributes
    ----------
    kind : str
        What it is called in files. Its settings there are the arguments of the class, and attributes of the region.
    explains : bool
        Whether its events say how far away the stream went and why.
    hold : int or None
        Records in a row that must be beyond its margin before it is left; None leaves that to the tracker.
    step : float
        Above 0 where it adapts to drift, as only :class:`~ldmaps.regions.alarm.Alarm` does.
    coordinates : sequence of str
        Names of the coordinates that it looks at, such as psi2 or slow1.
    columns : sequence of int
        Their columns, once they are known: psi2 is the first of a map of eigenvectors; where a function's own name is,
        such as q, :meth:`check_model` finds out.
    """

    kind: ClassVar[str]
    coordinates: Sequence[str] = ()
    columns: Sequence[int] = ()
    explains: bool = False
    hold: int | None = None
    step: float = 0.0

    @abstractmethod
    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """Say which points lie in the region, and which are beyond its border by no more than the margin.

        ``coordinates`` are ψ as ``transform`` returns them, ``coverage`` that of the same points. Points that enter
        also stay: one that jitters on the border does not enter and leave.
        """

    def as_dict(self) -> dict[str, Any]:
        """Return the region as JSON values, with its ``kind``, from which :meth:`from_dict` makes an equal one."""
        return {"kind": self.kind, **{name: _as_json(getattr(self, name)) for name in self._settings()}}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Self:
        """Return the region that JSON values describe.

        Parameters
        ----------
        facts : mapping
            What :meth:`as_dict` returned, or a table of a regions file.
        """
        given, settings = {key: value for key, value in facts.items() if key != "kind"}, cls._settings()
        missing = sorted(name for name, is_needed in settings.items() if is_needed and name not in given)
        unknown = sorted(set(given) - set(settings))
        if missing:
            raise InvalidInputError(f"a {cls.kind} needs {' and '.join(missing)}")
        if unknown:
            names = ", ".join(sorted(settings)) or "no settings"
            raise InvalidInputError(f"a {cls.kind} has no {unknown[0]!r}; it has {names}")
        return cls(**given)

    @classmethod
    def _settings(cls) -> dict[str, bool]:
        """Return the arguments of the class, and whether each must be given."""
        return {name: one.default is one.empty for name, one in inspect.signature(cls).parameters.items()}

    def check_model(self, model: Any) -> None:
        """Raise when the region does not fit a map, such as when the map lacks one of its coordinates.

        Parameters
        ----------
        model : LandmarkDiffusionMap or DiffusionMap
            The map, fitted.
        """
        if not self.coordinates:
            return
        names = list(model.coordinate_names_)
        for name in self.coordinates:
            if name not in names:
                known = f"{names[0]} to {names[-1]}" if len(names) > 1 else names[0]
                raise InvalidInputError(
                    f"{name} is not a coordinate of this map, which has {len(names)} ({known}); "
                    "name another one, or fit the map with more components"
                )
        places = [names.index(name) for name in self.coordinates]
        if self.columns and list(self.columns) != places:
            raise InvalidInputError(
                f"{self!r} was used on another map, where its coordinates are in other columns; make another region "
                "for this map"
            )
        self.columns = places

    def _look_at(self, names: Sequence[str]) -> None:
        """Note which coordinates it looks at."""
        places = [column_of(name) for name in names]
        self.coordinates = list(names)
        self.columns = [] if None in places else [place for place in places if place is not None]

    def _columns_of(self, coordinates: NDArray[Any]) -> list[NDArray[np.float64]]:
        """Return the coordinates that it looks at, in double precision."""
        if not self.columns:
            raise InvalidInputError(
                f"where {', '.join(self.coordinates)} are among the coordinates is known to their map; call "
                "check_model(model) of the region first"
            )
        return [column(coordinates, place) for place in self.columns]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.as_dict() == self.as_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        facts = {key: value for key, value in self.as_dict().items() if key != "kind"}
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in facts.items())})"


def _as_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return (
        dict(value) if isinstance(value, dict) else list(value) if isinstance(value, (list, tuple)) else value
    )


def column(coordinates: NDArray[Any], place: int) -> NDArray[np.float64]:
    """Return one coordinate in double precision."""
    return np.asarray(coordinates[:, place], dtype=np.float64)


def finite(what: str, value: Any) -> float:
    """Return a value as float, or raise."""
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    # Compared rather than asked with isfinite: an integer of a file may be longer than any float.
    if not is_number or not -LARGEST <= value <= LARGEST:
        rule = f"at most {LARGEST:g}" if is_number and abs(value) > LARGEST else "a finite number"
        raise InvalidInputError(f"{what} must be {rule}, got {value!r:.80}")
    return float(value)


def not_negative(what: str, value: Any) -> float:
    """Return a value of 0 or more as float, or raise."""
    number = finite(what, value)
    if number < 0:
        raise InvalidInputError(f"{what} must be 0 or more, got {value!r}")
    return number
