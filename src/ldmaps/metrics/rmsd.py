"""Root-mean-square deviation of molecular frames after the best superposition.

d²(a, b) = min over proper rotations R and shifts v of Σ_i w_i |R a_i + v − b_i|² / Σ_i w_i
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ldmaps import kernels
from ldmaps.errors import InvalidInputError
from ldmaps.metrics.base import Array, DirectStep, Metric, Places, Points, SquaresGradient
from ldmaps.metrics.rmsd_frames import (
    RMSDPoints,
    WeighedAtoms,
    from_panels,
    new_panels,
    padded,
    resolve_atoms,
    to_panels,
)
from ldmaps.point_faults import as_float_array, check_stored_names, stored_array

#: A stored frame's squared norm may be off by this share: far more than rounding, and less than any other frame's.
_NORM_ROOM = 1e-2


class RMSD(Metric):
    """Root-mean-square deviation, minimised over rotations and translations.

    Parameters
    ----------
    weights : array-like of shape (atoms,), optional
        How much each atom counts, in the superposition and in the mean alike; for example masses. Atoms of weight 0
        are left out. By default all count equally. Light atoms that spin freely (methyl hydrogens) can hide slow
        motions in an unweighted RMSD.
    superpose_on : array-like of int, optional
        Indices of at least three atoms that alone determine the superposition (with their weights); the deviation is
        then measured over all atoms. This shows how the rest moves relative to a part, and is tens of times slower.
        The result is no longer a true metric, and where the chosen atoms lie on a line the superposition is not
        unique.

    See Also
    --------
    Features : internal coordinates, which need no superposition.

    Notes
    -----
    Frames are ``(n, atoms, 3)`` or ``(n, 3·atoms)``, in any unit of length, which is then the unit of the distance.
    Errors of d² are a few roundings of the squared radii of gyration in the precision used, for every pair of
    structures (mirror images and atoms in a plane or on a line included). ``weights`` and ``superpose_on`` must not be
    changed in place once the metric has been used.

    References
    ----------
    D. L. Theobald, "Rapid calculation of RMSDs using a quaternion-based characteristic polynomial", Acta
    Crystallographica A61, 478-480 (2005).

    Examples
    --------
    >>> import numpy as np
    >>> triangle = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]])
    >>> turned = triangle[:, [1, 0, 2]] * [1, 1, -1] + 5
    >>> (RMSD().pairwise([triangle], [turned, 2 * triangle]).round(4) + 0.0).tolist()
    [[0.0, 0.6667]]
    """

    name = "rmsd"
    takes_frames = True
    has_structures = True
    has_units = True

    def __init__(self, weights: ArrayLike | None = None, superpose_on: ArrayLike | None = None) -> None:
        self.weights = weights
        self.superpose_on = superpose_on
        self._resolved: tuple[Any, Any, int, WeighedAtoms] | None = None

    @property
    def is_true_metric(self) -> bool:  # type: ignore[override]
        """Whether d obeys the triangle inequality: not when only some atoms are superposed."""
        return self.superpose_on is None

    def prepare(self, X: ArrayLike, dtype: DTypeLike | None = None) -> RMSDPoints:
        """Validate frames, then centre, weigh and pack them."""
        frames = self.as_given(X)
        atoms = self.weighed_atoms(frames.shape[1])
        kind = frames.dtype if dtype is None else np.dtype(dtype)
        if kind.char not in "fd":
            raise InvalidInputError(f"dtype must be float32 or float64, got {kind}")
        # What is not finite shows in a frame's norm, where every atom has a share in it.
        if atoms.fitted is not None or len(atoms.kept) < frames.shape[1]:
            as_float_array(X, ndim=(2, 3))
        packed = _pack(frames, atoms, kind)
        if packed is None:
            as_float_array(X, ndim=(2, 3))  # says which value is not finite
            raise InvalidInputError(
                f"coordinates up to {np.abs(frames).max():.3g} overflow when they are squared in {kind}; "
                "use a larger unit of length, or float64"
            )
        return packed

    def as_given(self, X: ArrayLike) -> NDArray[Any]:
        """Return frames ``X``, of whatever type and layout, as (n, atoms, 3)."""
        # Not converted to the map's precision yet: far from the origin that would round the structure away.
        frames = as_float_array(X, ndim=(2, 3), finite=False)
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
        return np.require(frames, requirements=("C", "A"))

    def squared_block(self, a: Points, rows: slice, b: Points, cols: slice, out: NDArray[Any]) -> None:
        """Write d² of a tile of pairs to ``out``; trusts its input."""
        a, b = cast(RMSDPoints, a), cast(RMSDPoints, b)
        i, i_end, j, j_end = rows.start, rows.stop, cols.start, cols.stop
        if a.fit_panels is None:
            kernels.squared_rmsd(a.panels, a.moments, i, i_end, b.panels, b.moments, j, j_end, out)
        else:
            kernels.squared_rmsd_aligned(
                a.panels, a.fit_panels, a.moments, i, i_end, b.panels, b.fit_panels, b.moments, j, j_end, out
            )

    def check_training(self, points: Points) -> None:
        """See :meth:`Metric.check_training`."""
        if cast(RMSDPoints, points).n_atoms == 1:
            raise InvalidInputError(
                "RMSD after superposition is always zero for a single atom; select at least two atoms (three for a "
                "useful map)"
            )

    def direct_step(
        self, landmarks: Points, rate: float, weights: Array, coefficients: Array
    ) -> DirectStep | None:
        """Return a way to embed frames as they come, or None where some atoms alone are superposed."""
        b, settings, n_atoms = cast(RMSDPoints, landmarks), self.weights, self._n_atoms_of(landmarks)
        # Who inherits this may prepare or measure otherwise.
        if type(self) is not RMSD or self.superpose_on is not None or b.fit_panels is not None:
            return None
        kept, root_weights = self.weighed_atoms(n_atoms)[:2]
        if len(kept) != b.n_atoms:
            return None
        left = kept, root_weights, b.panels, b.moments
        step = rate, weights, coefficients

        def is_as_made() -> bool:
            return self.weights is settings and self.superpose_on is None

        def embed(X: Array, coordinates: Array, nearest: NDArray[np.intp], lowest: Array) -> bool:
            return is_as_made() and kernels.embed_rmsd(X, *left, *step, coordinates, nearest, lowest)

        def measure(X: Array, squared: Array) -> bool:
            return is_as_made() and kernels.rmsd_squares(X, *left, squared)

        def differentiate(
            X: Array, coordinates: Array, nearest: NDArray[np.intp], lowest: Array, gradient: Array
        ) -> bool:
            filled = coordinates, nearest, lowest, gradient
            return is_as_made() and kernels.embed_rmsd_with_gradient(X, *left, *step, *filled)

        return DirectStep((n_atoms, 3), embed, measure, differentiate)

    def group_distance_sums(
        self, points: Points, bounds: NDArray[np.intp], weights: Array, sums: Array
    ) -> None:
        """Write Σ_j w_j d(x_i, x_j) over each frame's own group to ``sums``."""
        points = cast(RMSDPoints, points)
        if points.fit_panels is None:
            kernels.rmsd_group_sums(points.panels, points.moments, bounds, weights, sums)
        else:
            super().group_distance_sums(points, bounds, weights, sums)

    def squares_gradient(self, landmarks: Points) -> SquaresGradient:
        """Return an object that sums up gradients of d² to these landmarks."""
        assert isinstance(landmarks, RMSDPoints)
        kept, root_weights, fitted, root_fit_weights = self.weighed_atoms(self._n_atoms_of(landmarks))
        panels, moments, weights = landmarks.panels, landmarks.moments, root_weights**2
        if fitted is not None and root_fit_weights is not None:
            frames = from_panels(panels, np.arange(len(landmarks))).reshape(len(landmarks), -1, 3)
            fit_weights = np.zeros(len(kept))
            fit_weights[np.searchsorted(kept, fitted)] = root_fit_weights**2
            frames = np.ascontiguousarray(frames / root_weights[:, None])

        def add_up(X: Array, squared: Array, shares: Array, gradient: Array) -> None:
            x, by_atom = X.reshape(len(X), -1, 3), gradient.reshape(*shares.shape[:2], -1, 3)
            if fitted is None:  # ∂d²/∂x_a = 2 w_a (x_a − R_j z_ja)
                kernels.rmsd_gradients(x, kept, weights, panels, moments, squared, shares, by_atom)
            else:
                gradient[:] = 0
                kernels.aligned_gradients(x, kept, weights, fit_weights, frames, shares, by_atom)

        return add_up

    def places(self, points: Points) -> Places:
        """Return frames, centred and turned to their own axes; atoms that do not count are at the origin."""
        n_atoms = self._n_atoms_of(points)
        kept, root_weights = self.weighed_atoms(n_atoms)[:2]
        values, scales = np.zeros((len(points), n_atoms, 3)), np.zeros((n_atoms, 3))
        values[:, kept] = self.structures(points, n_atoms)
        scales[kept] = root_weights[:, None]
        return Places(values.reshape(len(points), -1), scales.ravel())

    def _n_atoms_of(self, points: Points) -> int:
        """Return how many atoms frames had: prepared ones only know how many of them have a weight."""
        return cast(RMSDPoints, points).n_atoms if self.weights is None else np.size(self.weights)

    def made_up(self, n_points: int, n_features: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return frames that move along three directions and jitter: comparing them takes what it usually does."""
        centre, *directions = rng.normal(size=(4, n_features // 3, 3))
        motion = np.tensordot(rng.normal(scale=0.25, size=(n_points, 3)), directions, axes=1)
        return np.asarray(centre + motion + rng.normal(scale=0.05, size=motion.shape))

    def check_compatible(self, a: Points, b: Points) -> None:
        """Raise :class:`InvalidInputError` when the frames differ in atoms, precision or alignment."""
        for points in (a, b):
            if not isinstance(points, RMSDPoints):
                raise InvalidInputError(
                    f"RMSD compares frames prepared by RMSD.prepare, got {type(points).__name__}; "
                    "prepare them first"
                )
        a, b = cast(RMSDPoints, a), cast(RMSDPoints, b)
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

    def structures(self, points: Points, n_atoms: int) -> NDArray[np.float64]:
        """Return prepared ``points`` as they were before they were weighed and scaled, in the unit of the frames.

        They are centred, and turned to their own axes, of shape (n, atoms with a weight, 3); :meth:`weighed_atoms`
        says which of the ``n_atoms`` of the frames these are.
        """
        arrays = self.export_points(points)
        frames = arrays["coordinates"].astype(np.float64)
        if "fit_coordinates" not in arrays:
            frames *= arrays["moments"][kernels.SCALE].astype(np.float64)[:, None, None]
        structures: NDArray[np.float64] = frames / self.weighed_atoms(n_atoms).root_weights[None, :, None]
        return structures

    # -- model files ------------------------------------------------------
    def parameters(self) -> dict[str, Any]:
        """Return the weights and the atoms to superpose_on, as arrays or None."""
        return {
            "weights": None if self.weights is None else np.asarray(self.weights),
            "superpose_on": None if self.superpose_on is None else np.asarray(self.superpose_on),
        }

    def export_points(self, points: Points) -> dict[str, NDArray[Any]]:
        """Return the prepared coordinates, one frame after the other, and their moments."""
        assert isinstance(points, RMSDPoints)
        everyone = np.arange(len(points))
        arrays = {
            "coordinates": from_panels(points.panels, everyone).reshape(len(points), -1, 3),
            "moments": points.moments[:, : len(points)].copy(),
        }
        if points.fit_panels is not None:
            arrays["fit_coordinates"] = from_panels(points.fit_panels, everyone).reshape(len(points), -1, 3)
            # The panels are float64 whatever was asked for, so the precision needs a carrier.
            arrays["precision"] = np.zeros(0, points.dtype)
        return arrays

    def import_points(self, arrays: Mapping[str, NDArray[Any]]) -> RMSDPoints:
        """Rebuild points from :meth:`export_points`, bit by bit."""
        is_aligned = self.superpose_on is not None
        names = ("coordinates", "moments", "fit_coordinates", "precision")
        check_stored_names(arrays, names if is_aligned else names[:2])
        coordinates = stored_array(arrays, "coordinates", (None, None, 3))
        n = len(coordinates)
        given = stored_array(arrays, "moments", (1 if is_aligned else kernels.MOMENTS, n))
        if given.dtype != coordinates.dtype or (given < 0).any():
            raise InvalidInputError("the frames' moments must not be negative, in the coordinates' precision")
        _check_norms(coordinates, given[0], None if is_aligned else given[kernels.SCALE])
        moments = np.zeros((len(given), padded(n, coordinates.dtype)), coordinates.dtype)
        moments[:, :n] = given
        panels = to_panels(coordinates.reshape(n, -1))
        if not is_aligned:
            return RMSDPoints(n, coordinates.dtype, panels, moments)
        fit = stored_array(arrays, "fit_coordinates", (n, None, 3))
        if not fit.dtype == coordinates.dtype == np.float64:
            raise InvalidInputError("frames with an alignment subset are stored in float64")
        precision = stored_array(arrays, "precision", (0,)).dtype
        return RMSDPoints(n, precision, panels, moments, to_panels(fit.reshape(n, -1)))

    def joined(self, first: Points, second: Points) -> RMSDPoints:
        """Return the frames of both, those of ``second`` last."""
        arrays, more = self.export_points(first), self.export_points(second)
        # Moments are one column per frame, everything else is one row.
        return self.import_points(
            {name: np.concatenate([arrays[name], more[name]], axis=int(name == "moments")) for name in arrays}
        )

    # -- weights and alignment --------------------------------------------
    def weighed_atoms(self, n_atoms: int) -> WeighedAtoms:
        """Return which of ``n_atoms`` atoms count and how much; remembered, as streams prepare frame by frame."""
        kept = self._resolved
        if (
            kept is None
            or kept[0] is not self.weights
            or kept[1] is not self.superpose_on
            or kept[2] != n_atoms
        ):
            kept = (
                self.weights,
                self.superpose_on,
                n_atoms,
                resolve_atoms(self.weights, self.superpose_on, n_atoms),
            )
            self._resolved = kept
        return kept[3]


def _check_norms(coordinates: NDArray[Any], squared_norms: Array, scales: Array | None) -> None:
    """Raise unless stored frames are as long as their moments say: G = s²|x|², with s above 0, or 1 without any."""
    lengths = (coordinates.reshape(len(coordinates), -1).astype(np.float64) ** 2).sum(axis=1)
    if scales is not None:
        lengths *= scales.astype(np.float64) ** 2
    room = _NORM_ROOM * squared_norms + float(np.finfo(coordinates.dtype).tiny)
    fits = np.abs(lengths - squared_norms) <= room
    if not fits.all() or (scales is not None and not (scales > 0).all()):
        raise InvalidInputError("the frames' moments are not those of their coordinates")


def _pack(frames: NDArray[Any], atoms: WeighedAtoms, dtype: np.dtype[Any]) -> RMSDPoints | None:
    """Return frames, prepared, or None where a squared norm is not finite in the precision asked for."""
    n = len(frames)
    depth = 3 * len(atoms.kept)
    if atoms.fitted is None:
        panels = new_panels(n, depth, dtype)
        fit_panels = None
        moments = np.zeros((kernels.MOMENTS, padded(n, dtype)), dtype)
        finite = kernels.prepare_frames(frames, atoms.kept, atoms.root_weights, panels, moments)
    else:
        # Where the superposition is not the best one for the whole, nothing bounds the growth of
        # rounding errors, so this path is float64 throughout; only d² is rounded.
        double = np.dtype(np.float64)
        panels = new_panels(n, depth, double)
        fit_panels = new_panels(n, 3 * len(atoms.fitted), double)
        moments = np.zeros((1, padded(n, double)))
        finite = kernels.prepare_aligned_frames(
            frames,
            atoms.kept,
            atoms.root_weights,
            atoms.fitted,
            atoms.root_fit_weights,
            panels,
            fit_panels,
            moments[0],
            float(np.finfo(dtype).max) / 4.0,  # no d² is larger than four times the larger squared norm
        )
    return RMSDPoints(n, dtype, panels, moments, fit_panels) if finite else None
