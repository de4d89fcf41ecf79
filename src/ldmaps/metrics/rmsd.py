"""Root-mean-square deviation of molecular frames after the best superposition.

    d²(a, b) = min over rotations R and shifts v of Σ_i w_i |R a_i + v − b_i|² / Σ_i w_i

R is proper: a molecule and its mirror image are different.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import Metric, Points, as_float_array

__all__ = ["RMSD", "RMSDPoints"]

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

#: Bytes of one panel row: a 256-bit register, which LLVM splits where registers are narrower.
PANEL_BYTES = 32
#: Bytes of a cache line, to which panels are aligned.
ALIGNMENT = 64


@cache
def _kernels() -> ModuleType:
    """Return the compiled loops; loading numba is put off until the first frames come."""
    from ldmaps.metrics import _rmsd_kernels

    return _rmsd_kernels


@cache
def _group_kernels() -> ModuleType:
    """Return the compiled loops over frames and groups of them."""
    from ldmaps.metrics import _rmsd_groups

    return _rmsd_groups


class _Atoms(NamedTuple):
    """Which atoms count and how much: weights as sqrt(w_i/Σw), so that norms need no division."""

    kept: NDArray[np.intp]
    root_weights: NDArray[np.float64]
    fitted: NDArray[np.intp] | None
    root_fit_weights: NDArray[np.float64] | None


class RMSDPoints(Points):
    """Frames, prepared: see :mod:`ldmaps.metrics._rmsd_kernels` for the layout.

    Attributes
    ----------
    panels : ndarray of shape (panels, 3·atoms, lanes)
        Centred and weighed coordinates, ``lanes`` frames to a panel; contiguous over frames.
    moments : ndarray of shape (3, panels·lanes) or (1, panels·lanes)
        Squared norm, norm and area of every frame; with ``align`` the squared norm alone.
    fit_panels : ndarray of shape (panels, 3·fitted atoms, lanes) or None
        The atoms that determine the superposition, with ``align``.
    """

    __slots__ = ("_length", "dtype", "fit_panels", "moments", "panels")

    def __init__(
        self,
        length: int,
        dtype: np.dtype[Any],
        panels: NDArray[Any],
        moments: NDArray[Any],
        fit_panels: NDArray[Any] | None = None,
    ) -> None:
        self._length = length
        self.dtype = dtype
        self.panels = panels
        self.moments = moments
        self.fit_panels = fit_panels

    def __len__(self) -> int:
        return self._length

    @property
    def n_atoms(self) -> int:
        """Number of atoms that have a weight."""
        return int(self.panels.shape[1]) // 3

    def take(self, indices: NDArray[np.intp] | slice) -> Self:
        """Return the frames at ``indices``, in that order, as a copy."""
        chosen = np.arange(self._length)[indices]
        moments = np.zeros((len(self.moments), _padded(len(chosen), self.panels.dtype)), self.moments.dtype)
        moments[:, : len(chosen)] = self.moments[:, chosen]
        fit_panels = None if self.fit_panels is None else _take_panels(self.fit_panels, chosen)
        return type(self)(len(chosen), self.dtype, _take_panels(self.panels, chosen), moments, fit_panels)


class RMSD(Metric):
    """Root-mean-square deviation, minimised over rotations and translations.

    Parameters
    ----------
    weights : array-like of shape (atoms,), optional
        How much each atom counts, in the superposition and in the mean alike; for
        example masses. Atoms of weight 0 are left out. By default all count equally.
        Light atoms that spin freely (methyl hydrogens) can hide slow motions in an
        unweighted RMSD.
    align : array-like of int, optional
        Indices of at least three atoms that alone determine the superposition (with
        their weights); the deviation is then measured over all atoms. This shows how
        the rest moves relative to a part, and is tens of times slower. The result is
        no longer a true metric, and where the chosen atoms lie on a line the
        superposition is not unique.

    Notes
    -----
    Frames are ``(n, atoms, 3)`` or ``(n, 3·atoms)``, in any unit of length, which is
    then the unit of the distance. Errors of d² are a few roundings of the squared
    radii of gyration in the precision used, for every pair of structures (mirror
    images and atoms in a plane or on a line included). ``weights`` and ``align``
    must not be changed in place once the metric has been used.

    Examples
    --------
    >>> import numpy as np
    >>> triangle = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    >>> turned = triangle[:, [1, 0, 2]] * [1, 1, -1] + 5
    >>> metric = RMSD()
    >>> a, b = metric.prepare(triangle[None]), metric.prepare(np.stack([turned, 2 * triangle]))
    >>> out = np.empty((1, 2))
    >>> metric.squared_block(a, slice(0, 1), b, slice(0, 2), out)
    >>> print(np.sqrt(out).round(4) + 0.0)
    [[0.     0.6667]]
    """

    name = "rmsd"
    takes_frames = True

    def __init__(self, weights: ArrayLike | None = None, align: ArrayLike | None = None) -> None:
        self.weights = weights
        self.align = align
        self._resolved: tuple[Any, Any, int, _Atoms] | None = None

    @property
    def is_true_metric(self) -> bool:  # type: ignore[override]
        """Whether d obeys the triangle inequality: not when only some atoms are superposed."""
        return self.align is None

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> RMSDPoints:
        """Validate frames, then centre, weigh and pack them.

        Parameters
        ----------
        X : array-like of shape (n, atoms, 3) or (n, 3·atoms)
        dtype : float32 or float64, optional
            Precision of the distances. By default float32 stays float32 and
            everything else becomes float64. Centring is done in float64 always.
        """
        # Not converted to ``dtype`` yet: far from the origin that would round the structure away.
        frames = X if _is_plainly_finite(X) else as_float_array(X, ndim=(2, 3))
        if frames.ndim == 2:
            if frames.shape[1] % 3:
                raise InvalidInputError(
                    f"flat frames hold x, y, z of every atom, so their length must be divisible by 3, "
                    f"got shape {frames.shape}; pass (n, atoms, 3) or (n, 3·atoms), "
                    "or use another metric for other features"
                )
            frames = frames.reshape(len(frames), -1, 3)
        elif frames.shape[2] != 3:
            raise InvalidInputError(
                f"frames must have shape (n, atoms, 3), got {frames.shape}; the last axis is x, y, z"
            )
        atoms = self._atoms(frames.shape[1])
        kind = frames.dtype if dtype is None else np.dtype(dtype)
        if kind.char not in "fd":
            raise InvalidInputError(f"dtype must be float32 or float64, got {kind}")
        return _pack(np.ascontiguousarray(frames), atoms, kind)

    def squared_block(self, a: Points, rows: slice, b: Points, cols: slice, out: NDArray[Any]) -> None:
        """Write d² of a tile of pairs to ``out``; trusts its input."""
        self._squared_block(a, rows, b, cols, out)

    @staticmethod
    def _squared_block(a: Any, rows: slice, b: Any, cols: slice, out: NDArray[Any]) -> None:
        i, i_end, j, j_end = rows.start, rows.stop, cols.start, cols.stop
        if a.fit_panels is None:
            _kernels().squared_block(a.panels, a.moments, i, i_end, b.panels, b.moments, j, j_end, out)
        else:
            _kernels().aligned_squared_block(
                a.panels, a.fit_panels, a.moments, i, i_end, b.panels, b.fit_panels, b.moments, j, j_end, out
            )

    def group_distance_sums(
        self,
        points: Points,
        bounds: NDArray[np.intp],
        weights: NDArray[np.float64],
        sums: NDArray[np.float64],
    ) -> None:
        """Write Σ_j w_j d(x_i, x_j) over each frame's own group to ``sums``."""
        assert isinstance(points, RMSDPoints)
        if points.fit_panels is None:
            _group_kernels().group_distance_sums(points.panels, points.moments, bounds, weights, sums)
        else:
            super().group_distance_sums(points, bounds, weights, sums)

    def check_compatible(self, a: Points, b: Points) -> None:
        """Raise :class:`InvalidInputError` when the frames differ in atoms, precision or alignment."""
        if (
            type(a) is type(b) is RMSDPoints
            and a.fit_panels is b.fit_panels is None
            and a.panels.shape[1] == b.panels.shape[1]
            and a.dtype is b.dtype
        ):
            return  # the rest is for those who need an explanation
        for points in (a, b):
            if not isinstance(points, RMSDPoints):
                raise InvalidInputError(
                    f"RMSD compares frames prepared by RMSD.prepare, got {type(points).__name__}; "
                    "prepare them first"
                )
        assert isinstance(a, RMSDPoints)
        assert isinstance(b, RMSDPoints)
        if a.n_atoms != b.n_atoms:
            raise InvalidInputError(
                f"frames of {a.n_atoms} and of {b.n_atoms} atoms cannot be compared; "
                "select the same atoms, in the same order, from both"
            )
        fitted = [None if points.fit_panels is None else points.fit_panels.shape[1] // 3 for points in (a, b)]
        if fitted[0] != fitted[1]:
            raise InvalidInputError(
                f"frames were prepared to be superposed on {fitted[0]} and on {fitted[1]} atoms; "
                "prepare both with the same metric"
            )
        if a.dtype != b.dtype:
            raise InvalidInputError(
                f"frames were prepared in {a.dtype} and in {b.dtype}; pass the same dtype to prepare for both"
            )

    # -- model files ------------------------------------------------------
    def parameters(self) -> dict[str, Any]:
        """Return the weights and the atoms to align, as arrays or None."""
        return {
            "weights": None if self.weights is None else np.asarray(self.weights),
            "align": None if self.align is None else np.asarray(self.align),
        }

    def export_points(self, points: Points) -> dict[str, NDArray[Any]]:
        """Return the prepared coordinates, one frame after the other, and their moments."""
        assert isinstance(points, RMSDPoints)
        everyone = np.arange(len(points))
        arrays = {
            "coordinates": _from_panels(points.panels, everyone).reshape(len(points), -1, 3),
            "moments": points.moments[:, : len(points)].copy(),
        }
        if points.fit_panels is not None:
            arrays["fit_coordinates"] = _from_panels(points.fit_panels, everyone).reshape(len(points), -1, 3)
            # The panels are float64 whatever was asked for, so the precision needs a carrier.
            arrays["precision"] = np.zeros(0, points.dtype)
        return arrays

    def import_points(self, arrays: Mapping[str, NDArray[Any]]) -> RMSDPoints:
        """Rebuild points from :meth:`export_points`, bit by bit."""
        coordinates = arrays["coordinates"]
        n = len(coordinates)
        moments = np.zeros((len(arrays["moments"]), _padded(n, coordinates.dtype)), coordinates.dtype)
        moments[:, :n] = arrays["moments"]
        fit = arrays.get("fit_coordinates")
        return RMSDPoints(
            n,
            coordinates.dtype if fit is None else arrays["precision"].dtype,
            _to_panels(coordinates.reshape(n, -1)),
            moments,
            None if fit is None else _to_panels(fit.reshape(n, -1)),
        )

    # -- weights and alignment --------------------------------------------
    def _atoms(self, n_atoms: int) -> _Atoms:
        """Return the validated weights; kept, because a stream prepares one frame at a time."""
        known = self._resolved
        if known is None or known[0] is not self.weights or known[1] is not self.align or known[2] != n_atoms:
            known = (self.weights, self.align, n_atoms, _resolve_atoms(self.weights, self.align, n_atoms))
            self._resolved = known
        return known[3]


def _resolve_atoms(weights: ArrayLike | None, align: ArrayLike | None, n_atoms: int) -> _Atoms:
    if weights is None:
        values = np.ones(n_atoms)
    else:
        values = _numbers("weights", weights).astype(np.float64)
        if values.shape != (n_atoms,):
            raise InvalidInputError(
                f"weights must have one value per atom, got shape {values.shape} for frames of "
                f"{n_atoms} atoms; select the same atoms for both"
            )
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if len(bad):
            raise InvalidInputError(
                f"weights must be finite and not negative, got {values[bad[0]]} for atom {bad[0]}; "
                "use 0 to leave an atom out"
            )
        if not values.any():
            raise InvalidInputError(
                f"all {n_atoms} weights are 0, so no atom is left; give some atom a weight"
            )
    values = values / values.max()  # so that no sum overflows
    kept = np.flatnonzero(values > 0)
    root_weights = np.sqrt(values[kept] / values.sum())
    if align is None:
        return _Atoms(kept, root_weights, None, None)

    fitted = _numbers("align", align)
    if fitted.dtype.kind not in "iu" or fitted.ndim != 1:
        raise InvalidInputError(
            f"align must be a list of atom indices, got {fitted.dtype} values of shape {fitted.shape}; "
            "turn a mask into indices with numpy.flatnonzero"
        )
    outside = fitted[(fitted < 0) | (fitted >= n_atoms)]
    if len(outside):
        raise InvalidInputError(
            f"align holds the index {outside[0]}, but frames have {n_atoms} atoms; "
            f"indices must lie between 0 and {n_atoms - 1}"
        )
    fitted = fitted.astype(np.intp)
    found, counts = np.unique(fitted, return_counts=True)
    if (counts > 1).any():
        raise InvalidInputError(
            f"align names atom {found[counts > 1][0]} more than once; "
            "name every atom once and use weights instead"
        )
    fitted = fitted[values[fitted] > 0]
    if len(fitted) < 3:
        raise InvalidInputError(
            "align must name at least 3 atoms with a weight to determine a superposition, "
            f"got {len(fitted)}; add atoms to align or give those atoms weights"
        )
    return _Atoms(kept, root_weights, fitted, np.sqrt(values[fitted] / values[fitted].sum()))


def _numbers(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InvalidInputError(f"{name} must be numbers, got values of type {array.dtype}")
    return array


# -- panels ---------------------------------------------------------------


def _lanes(dtype: np.dtype[Any]) -> int:
    """Return how many frames one panel holds."""
    return PANEL_BYTES // dtype.itemsize


def _padded(n: int, dtype: np.dtype[Any]) -> int:
    """Return ``n`` rounded up to whole panels."""
    lanes = _lanes(dtype)
    return -(-n // lanes) * lanes


def _zero_panels(n: int, depth: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return panels for ``n`` frames; zeros, so that the padding of the last one is harmless."""
    lanes = _lanes(dtype)
    count = -(-n // lanes)
    if count == 1:
        return np.zeros((1, depth, lanes), dtype)
    # Aligned, because a register that straddles two cache lines loads at half the speed.
    size = count * depth * lanes
    raw = np.zeros(size + ALIGNMENT // dtype.itemsize, dtype)
    start = -raw.ctypes.data % ALIGNMENT // dtype.itemsize
    return raw[start : start + size].reshape(count, depth, lanes)


def _to_panels(frames: NDArray[Any]) -> NDArray[Any]:
    n, depth = frames.shape
    panels = _zero_panels(n, depth, frames.dtype)
    lanes = panels.shape[2]
    whole = n // lanes
    panels[:whole] = frames[: whole * lanes].reshape(whole, lanes, depth).transpose(0, 2, 1)
    if n % lanes:
        panels[-1, :, : n % lanes] = frames[whole * lanes :].T
    return panels


def _take_panels(panels: NDArray[Any], indices: NDArray[np.intp]) -> NDArray[Any]:
    taken = _zero_panels(len(indices), panels.shape[1], panels.dtype)
    _group_kernels().take_frames(panels, indices, taken)
    return taken


def _from_panels(panels: NDArray[Any], indices: NDArray[np.intp]) -> NDArray[Any]:
    lanes = panels.shape[2]
    frames: NDArray[Any] = panels[indices // lanes, :, indices % lanes]
    return frames


def _is_plainly_finite(X: ArrayLike) -> TypeGuard[NDArray[Any]]:
    """Say whether X is an array of a few finite frames, by one product.

    One streamed frame must not cost more to check than to embed. What this cannot
    vouch for takes the slow way, which gives the reasons.
    """
    return (
        type(X) is np.ndarray
        and X.ndim == 3
        and 0 < X.size <= 3000
        and (X.dtype is _SINGLE or X.dtype is _DOUBLE)
        and X.flags.c_contiguous
        and math.isfinite(np.vdot(X, X))  # unlike dot, silent on overflow
    )


def _pack(frames: NDArray[Any], atoms: _Atoms, dtype: np.dtype[Any]) -> RMSDPoints:
    kernels = _kernels()
    n = len(frames)
    depth = 3 * len(atoms.kept)
    if atoms.fitted is None:
        panels = _zero_panels(n, depth, dtype)
        fit_panels = None
        moments = np.zeros((kernels.MOMENTS, _padded(n, dtype)), dtype)
        finite = kernels.prepare_frames(frames, atoms.kept, atoms.root_weights, panels, moments)
    else:
        # Where the superposition is not the best one for the whole, nothing bounds the growth of
        # rounding errors, so this path is float64 throughout; only d² is rounded.
        double = np.dtype(np.float64)
        panels = _zero_panels(n, depth, double)
        fit_panels = _zero_panels(n, 3 * len(atoms.fitted), double)
        moments = np.zeros((1, _padded(n, double)))
        finite = kernels.prepare_aligned_frames(
            frames,
            atoms.kept,
            atoms.root_weights,
            atoms.fitted,
            atoms.root_fit_weights,
            panels,
            fit_panels,
            moments[0],
        )
    if not finite:
        raise InvalidInputError(
            f"coordinates up to {np.abs(frames).max():.3g} overflow when they are squared in {dtype}; "
            "use a larger unit of length, or float64"
        )
    return RMSDPoints(n, dtype, panels, moments, fit_panels)
