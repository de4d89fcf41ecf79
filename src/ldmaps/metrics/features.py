"""Frames compared by their internal coordinates: a torus and a plane side by side.

What is not periodic has a period that nothing reaches.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps import kernels
from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import LARGEST, Array, DirectStep, Metric, Points, SquaresGradient
from ldmaps.metrics.euclidean import ColumnPoints
from ldmaps.metrics.feature_choice import KINDS, checked_atoms, chosen_features
from ldmaps.metrics.periodic import Periodic
from ldmaps.metrics.rmsd_frames import WeighedAtoms, resolve_atoms
from ldmaps.point_faults import as_float_array, check_stored_names, stored_array

#: Distance in nm at which a contact is half one, and the power with which it falls: 1/(1 + (r/r0)⁶).
CONTACT_RADIUS, CONTACT_POWER = 0.8, 6
#: Beside angles and contacts, 0.1 nm counts as much as 1 rad or a whole contact.
SCALE_OF_DISTANCES = 10.0
#: Of features that are not periodic; no difference comes near it, in single precision either.
NO_PERIOD = LARGEST
#: Scaled distances above this would be taken the shorter way round that period, or overflow when they are squared.
LARGEST_SCALED = NO_PERIOD / 2
#: Frames whose features are computed at once.
_BLOCK = 512


class FeaturePoints(ColumnPoints):
    """Features of frames, and the frames, which are not copied; points that were moved have none."""

    def __init__(self, columns: NDArray[Any], frames: NDArray[Any] | None = None) -> None:
        super().__init__(columns)
        self.frames = frames

    def take(self, indices: NDArray[np.intp] | slice) -> Self:
        """Return the points at ``indices``, in that order, as a copy."""
        taken = super().take(indices)
        taken.frames = None if self.frames is None else np.array(self.frames[indices])
        return taken


def _frames_of(points: Points) -> NDArray[Any] | None:
    return getattr(points, "frames", None)


class FeatureGroup(NamedTuple):
    """Features of one kind."""

    kind: str
    atoms: NDArray[np.intp]
    first: int  # column of the first

    @property
    def columns(self) -> slice:
        """Which columns they are."""
        return slice(self.first, self.first + len(self.atoms))


class _Resolved(NamedTuple):
    """Settings, checked."""

    groups: list[FeatureGroup]
    scales: NDArray[np.float64]  # (F,)
    period: NDArray[np.float64]  # (F,), of scaled features
    largest: float  # that a scaled feature may be


class Features(Periodic):
    """Distance of frames by internal coordinates: d² = Σ_k (s_k t_k)², t_k being how far feature k differs.

    Neither translation nor rotation changes a feature, so nothing is superposed: what a far part of a chain does, does
    not hide a torsion. Dihedrals are compared the shorter way round.

    Parameters
    ----------
    n_atoms : int
        Atoms of a frame.
    dihedrals : array-like of int, shape (any, 4), optional
        Atoms of each, counted from 0; in radians, with the sign of IUPAC.
    angles : array-like of int, shape (any, 3), optional
        The second atom is the vertex; in radians.
    distances : array-like of int, shape (any, 2), optional
        In the unit of the frames, nm where they come from files. No periodic image is taken: inputs have made
        molecules whole.
    contacts : array-like of int, shape (any, 2), optional
        1/(1 + (r/0.8)⁶), 1 where two atoms touch and 0 where they are apart, for r in nm.
    scales : array-like of shape (features,), optional
        How much each feature counts, in the order of the arguments above. By default 1, and 10 for distances beside
        other features, so that 0.1 nm counts as much as 1 rad.
    names : sequence of str, optional
        What each is called.

    See Also
    --------
    RMSD : superposed atoms.

    Examples
    --------
    >>> import numpy as np
    >>> from ldmaps.metrics import Features
    >>> frame = np.array([[1.0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 1]])
    >>> Features(4, dihedrals=[[0, 1, 2, 3]], distances=[[0, 3]]).values(frame[None]).round(4)
    array([[-1.5708,  1.7321]])
    """

    name = "features"
    takes_frames = True
    has_structures = True

    def __init__(
        self,
        n_atoms: int,
        *,
        dihedrals: ArrayLike | None = None,
        angles: ArrayLike | None = None,
        distances: ArrayLike | None = None,
        contacts: ArrayLike | None = None,
        scales: ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.dihedrals = dihedrals
        self.angles = angles
        self.distances = distances
        self.contacts = contacts
        self.scales = scales
        self.names = names

    @classmethod
    def of(cls, source: Any, what: str) -> Self:
        """Return features of a source's frames, chosen by the names and bonds of its atoms.

        Parameters
        ----------
        source : FrameSource or Atoms
            What :func:`ldmaps.inputs.open_files` returned, or its ``atoms``.
        what : str
            "dihedrals" (φ, ψ, ω of proteins; all torsions of bonded atoms other than hydrogen in other molecules),
            "chi" (those of side chains), "distances" (between all Cα, or all atoms other than hydrogen), "contacts"
            (the same, at least three atoms apart), "angles" (of bonded atoms other than hydrogen), several with commas
            between them, or a file with a feature per line: its kind, its atoms by label ("ALA2-CA") or number from 0,
            and perhaps ``scale=2``.
        """
        atoms = getattr(source, "atoms", source)
        if not getattr(atoms, "names", None):
            raise InvalidInputError(
                "features are chosen by the names of atoms, and these have none; give a topology, or the indices of "
                "atoms: Features(n_atoms, dihedrals=[[0, 1, 2, 3]])"
            )
        chosen = cls(len(atoms.names), **chosen_features(atoms, what))
        given, chosen.scales = np.asarray(chosen.scales), None
        usual = chosen._resolved.scales
        return cls(**{**chosen.parameters(), "scales": np.where(np.isnan(given), usual, given)})

    @property
    def kinds(self) -> list[str]:
        """What each feature is: "dihedral", "angle", "distance" or "contact"."""
        return [group.kind for group in self._resolved.groups for _ in group.atoms]

    @property
    def atoms(self) -> list[tuple[int, ...]]:
        """Atoms of each feature, counted from 0."""
        return [tuple(atoms) for group in self._resolved.groups for atoms in group.atoms.tolist()]

    @property
    def period(self) -> NDArray[np.float64]:  # type: ignore[override]
        """Period of each feature times its scale; huge where there is none."""
        return self._resolved.period

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self._resolved.scales)

    def distance_unit(self, units: str | None) -> str | None:
        """Return the unit of d where frames are in ``units``."""
        kinds = set(self.kinds)
        if not (self._resolved.scales == 1).all() or (len(kinds) > 1 and kinds != {"dihedral", "angle"}):
            return None
        return {"distance": units, "contact": None}.get(kinds.pop(), "rad")

    def describe(self) -> str:
        """Return how many features of which kinds these are: "18 dihedrals, 3 distances times 10"."""
        told, all_scales = [], self._resolved.scales
        for group in self._resolved.groups:
            count, scales = len(group.atoms), set(all_scales[group.columns].tolist())
            scale = (
                "" if scales == {1.0} else f" times {scales.pop():g}" if len(scales) == 1 else " with scales"
            )
            told.append(f"{count:,} {group.kind}{'' if count == 1 else 's'}{scale}")
        return ", ".join(told)

    def values(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the features of frames ``X`` in nm, (n, atoms, 3) or (n, 3·atoms), not scaled: (n, features)."""
        return self._values(self._frames(X))

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> FeaturePoints:
        """Validate frames and compute their features."""
        frames = self._frames(X)
        kind = frames.dtype if dtype is None else np.dtype(dtype)
        if kind.char not in "fd":
            raise InvalidInputError(f"dtype must be float32 or float64, got {kind}")
        columns = np.empty((self.n_features, len(frames)), kind)
        # What lies between frames and columns stays in cache. No torsion is beyond half a period.
        for begin in range(0, len(frames), _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            scaled = self._values(frames[rows]) * self._resolved.scales
            if not (math.isfinite(scaled.sum()) and scaled.max() <= self._resolved.largest):
                as_float_array(X, ndim=(2, 3))  # says which value is not finite
                self._refuse_far_atoms(frames[rows], scaled, begin)
            columns[:, rows] = scaled.T
        return FeaturePoints(columns, frames)

    def _refuse_far_atoms(self, frames: NDArray[Any], scaled: NDArray[np.float64], begin: int) -> None:
        """Raise, naming the first of some frames whose features are too large; ``begin`` is the number of the first."""
        frame = int(np.flatnonzero(~(scaled <= self._resolved.largest).all(axis=1))[0])
        atom = int(np.abs(frames[frame]).max(axis=1).argmax())
        raise InvalidInputError(
            f"frame {begin + frame} has features that are not finite or exceed {LARGEST_SCALED:g}: its atom {atom} is "
            f"at {np.abs(frames[frame, atom]).max():.3g}. The simulation has probably become unstable there; leave "
            "such frames out, or use a larger unit of length"
        )

    def as_given(self, X: ArrayLike) -> NDArray[Any]:
        """Return frames ``X``, of whatever type and layout, as (n, atoms, 3)."""
        return self._frames(X)

    def direct_step(
        self, landmarks: Points, rate: float, weights: Array, coefficients: Array
    ) -> DirectStep | None:
        """Return a way to embed frames as they come, whose features stay in cache."""
        if type(self) is not Features:
            return None  # who inherits this may prepare or measure otherwise
        _, scales, period, largest = self._resolved
        columns = cast(ColumnPoints, landmarks).columns
        left = scales, period, min(largest, sys.float_info.max), columns
        step = rate, weights, coefficients

        def in_blocks(X: Array, work: Callable[[slice, Array], bool]) -> bool:
            if len(X) <= _BLOCK:
                return work(slice(None), self._values(X))
            starts = range(0, len(X), _BLOCK)
            blocks = (slice(start, min(start + _BLOCK, len(X))) for start in starts)
            return all(work(rows, self._values(X[rows])) for rows in blocks)

        def embed(X: Array, coordinates: Array, nearest: NDArray[np.intp], lowest: Array) -> bool:
            def work(rows: slice, values: Array) -> bool:
                out = coordinates[rows], nearest[rows], lowest[rows]
                return bool(kernels.embed_periodic(values, *left, *step, *out))

            return in_blocks(X, work)

        def measure(X: Array, squared: Array) -> bool:
            return in_blocks(
                X, lambda rows, values: bool(kernels.periodic_squares(values, *left, squared[rows]))
            )

        n_components, n_landmarks = coefficients.shape
        add_up = self._gradient_sums(landmarks)

        def differentiate(
            X: Array, coordinates: Array, nearest: NDArray[np.intp], lowest: Array, gradient: Array
        ) -> bool:
            def work(rows: slice, values: Array) -> bool:
                squared = np.empty((len(values), n_landmarks), columns.dtype)
                if not kernels.periodic_squares(values, *left, squared):
                    return False
                here, low, slopes = coordinates[rows], lowest[rows], gradient[rows]
                kernels.extend(squared, *step, here, nearest[rows], low)
                shares = np.empty((len(values), n_components, n_landmarks), columns.dtype)
                kernels.fill_shares(squared, low, *step, here, shares)
                add_up(X[rows], values, shares, slopes)
                kernels.clear_not_finite(slopes.reshape(len(values), n_components, -1))
                return True

            return in_blocks(X, work)

        return DirectStep((self.n_atoms, 3), embed, measure, differentiate)

    def squares_gradient(self, landmarks: Points) -> SquaresGradient:
        """Return an object that sums up gradients of d² to these landmarks."""
        sums = self._gradient_sums(landmarks)

        def add_up(X: Array, squared: Array, shares: Array, gradient: Array) -> None:
            frames = np.ascontiguousarray(X.reshape(len(X), -1, 3))
            sums(frames, self._values(frames), shares, gradient.reshape(*shares.shape[:2], -1, 3))

        return add_up

    def _gradient_sums(self, landmarks: Points) -> Callable[[Array, Array, Array, Array], None]:
        """Return what takes frames, their features and shares, and writes Σ_j g_cj ∂d_j²/∂x, (n, k, atoms, 3)."""
        groups, scales, period, _ = self._resolved
        columns = np.ascontiguousarray(cast(ColumnPoints, landmarks).columns, np.float64)
        factors, are_scaled = scales.astype(landmarks.dtype), bool((scales != 1).any())
        n_features = len(scales)

        def add_up(frames: Array, values: Array, shares: Array, by_atom: Array) -> None:
            by_value = np.empty((len(values), shares.shape[1], n_features), by_atom.dtype)
            scaled = values * scales if are_scaled else values
            kernels.vector_gradients(columns, scaled, period, shares, by_value)
            if are_scaled:
                by_value *= factors
            by_atom.fill(0)
            frames = np.asarray(frames, np.float64)
            for kind, atoms, first in groups:
                if kind == "contact":  # s' = −6 (r/r0)⁶ s²/r, and s²(r/r0)⁶ = s(1 − s)
                    contact = values[:, first:]
                    r = CONTACT_RADIUS * (1 / contact - 1) ** (1 / CONTACT_POWER)
                    slope = -CONTACT_POWER * contact * (1 - contact) / np.maximum(r, np.finfo(float).tiny)
                    by_value[:, :, first:] *= slope[:, None].astype(by_atom.dtype)
                kernels.add_internal_gradients(frames, atoms, first, by_value, by_atom)

        return add_up

    def of_places(self) -> Metric:
        """Return the metric of the features alone, which landmarks are moved in: no frame may have such features."""
        return Periodic(self.period)

    def structures(self, points: Points, n_atoms: int) -> NDArray[np.float64]:
        """Return the frames that ``points`` are features of, centred, of ``n_atoms`` atoms."""
        frames = _frames_of(points)
        if frames is None:
            raise InvalidInputError(
                "optimised landmarks have no corresponding structure; use the frames that they represent"
            )
        centred = frames.astype(np.float64)
        centred -= centred.mean(axis=1, keepdims=True)
        return centred

    def weighed_atoms(self, n_atoms: int) -> WeighedAtoms:
        """Return all ``n_atoms`` atoms, of equal weight."""
        return resolve_atoms(None, None, n_atoms)

    def made_up(self, n_points: int, n_features: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return frames of atoms that jitter around places of their own."""
        return rng.normal(size=(self.n_atoms, 3)) + rng.normal(scale=0.3, size=(n_points, self.n_atoms, 3))

    def parameters(self) -> dict[str, Any]:
        """Return the atoms of all features, their scales and names."""
        resolved = self._resolved
        lists = {f"{group.kind}s": group.atoms for group in resolved.groups}
        names = None if self.names is None else list(self.names)
        return {"n_atoms": int(self.n_atoms), **lists, "scales": resolved.scales, "names": names}

    def export_points(self, points: Points) -> dict[str, NDArray[Any]]:
        """Return the features as rows, and the frames if the points have some."""
        frames = _frames_of(points)
        return {**super().export_points(points), **({} if frames is None else {"frames": frames})}

    def import_points(self, arrays: Mapping[str, NDArray[Any]]) -> FeaturePoints:
        """Rebuild points from rows."""
        has_frames = "frames" in arrays
        check_stored_names(arrays, ("values", "frames") if has_frames else ("values",))
        values = stored_array(arrays, "values", (None, self.n_features))
        frames = stored_array(arrays, "frames", (len(values), self.n_atoms, 3)) if has_frames else None
        return FeaturePoints(super().prepare(values).columns, frames)

    def joined(self, first: Points, second: Points) -> Points:
        """Return the points of both; with their frames if all have one."""
        if _frames_of(first) is None or _frames_of(second) is None:
            first, second = (
                self.import_points(super(Features, self).export_points(p)) for p in (first, second)
            )
        return super().joined(first, second)

    def __repr__(self) -> str:
        return f"Features({self.n_atoms}, {self.describe()})"

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_resolved"}

    def _frames(self, X: ArrayLike) -> NDArray[Any]:
        """Return frames as (n, atoms, 3), or raise where they are none of these atoms."""
        frames = as_float_array(X, ndim=(2, 3), finite=False)
        shape = frames.shape[1:]
        if math.prod(shape) != 3 * self.n_atoms or (len(shape) == 2 and shape[1] != 3):
            raise InvalidInputError(
                f"frames must have shape (n, {self.n_atoms}, 3) or (n, {3 * self.n_atoms}), got {frames.shape}, and "
                "so cannot be compared; choose the atoms that the features were defined for"
            )
        return np.ascontiguousarray(frames.reshape(len(frames), -1, 3))

    def _values(self, frames: NDArray[Any]) -> NDArray[np.float64]:
        """Return features, not scaled; trusts its input."""
        values = np.empty((len(frames), self.n_features))
        for _, atoms, first in self._resolved.groups:
            kernels.internal_coordinates(frames, atoms, first, values)
        self._soften(values)
        return values

    def _soften(self, values: NDArray[np.float64]) -> None:
        """Make contacts, which come last, of the distances in their columns."""
        kind, _, first = self._resolved.groups[-1]
        if kind == "contact":
            values[:, first:] = 1 / (1 + (values[:, first:] / CONTACT_RADIUS) ** CONTACT_POWER)

    @cached_property
    def _resolved(self) -> _Resolved:
        """Check the settings, which must not be changed afterwards."""
        if not isinstance(self.n_atoms, (int, np.integer)) or self.n_atoms < 1:
            raise InvalidInputError(f"n_atoms must be a whole number of at least 1, got {self.n_atoms!r}")
        groups, count = [], 0
        for kind in KINDS:
            given = getattr(self, f"{kind}s")
            if given is not None and np.size(given):
                groups.append(FeatureGroup(kind, checked_atoms(kind, np.asarray(given), self.n_atoms), count))
                count += len(groups[-1].atoms)
        if not groups:
            raise InvalidInputError(
                "no feature is defined; give some of dihedrals, angles, distances and contacts"
            )
        scales = np.ones(count)
        for group in groups:
            if group.kind == "distance" and len(groups) > 1:
                scales[group.columns] = SCALE_OF_DISTANCES
        if self.scales is not None:
            scales = np.asarray(self.scales, np.float64)
        if scales.shape != (count,) or not (np.isfinite(scales).all() and (scales > 0).all()):
            raise InvalidInputError(
                f"scales must be {count} positive numbers, one per feature, got {self.scales!r}"
            )
        if self.names is not None and len(self.names) != count:
            raise InvalidInputError(f"names must be {count}, one per feature, got {len(self.names)}")
        period = np.full(count, NO_PERIOD)
        for group in groups:
            if group.kind == "dihedral":
                period[group.columns] = 2 * math.pi * scales[group.columns]
        has_distances = any(group.kind == "distance" for group in groups)
        return _Resolved(groups, scales, period, LARGEST_SCALED if has_distances else math.inf)
