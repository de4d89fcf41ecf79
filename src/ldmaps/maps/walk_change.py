r"""What new points change in a map: the walk over its landmarks, before and after.

    old landmarks, c  ──► modes before ─┐
                                        ├──► the difference, in old coordinates
    all landmarks, c' ──► modes after ──┘

Both are the paper's M×M problem, turned to the old coordinates. With Nyström's extension the map is
its modes before, so the new map is the modes after. A distilled map knows more than its landmarks' walk does;
it keeps that, and is fitted once more to what it said plus the difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.connectivity import REACH, minimum_spanning_tree
from ldmaps.diffusion.spectrum import MAX_GAP_COMPONENTS, Spectrum
from ldmaps.diffusion.walk import Walk
from ldmaps.extension import EXTENSIONS, Embedder, OnlineStep
from ldmaps.extension.least_squares import Problem, Rows, Setting
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.maps.solved_map import solve
from ldmaps.metrics.base import Points
from ldmaps.quality.fidelity import Turn, in_common, turn_modes
from ldmaps.threads import single_threaded_blas

__all__ = ["Change", "TurnedWalk"]

#: Share of any coordinate that the walk over a distilled map's landmarks may lack and still tell what changes; and for
#: each landmark, since a few agree with anything by chance.
LACKING, LACKING_PER_LANDMARK = 0.15, 0.003
#: Ridge of the fit of a distilled map, in units of the mean diagonal of its normal equations.
RIDGE = 1e-3
#: Weight of a new landmark for its mass beside that of old ones: with as much it would change old places around it.
NEW_WEIGHT = 0.1

_Array = NDArray[np.float64]


@dataclass(frozen=True)
class TurnedWalk:
    """Modes of a walk over landmarks, and how coordinates are made of them."""

    walk: Walk
    spectrum: Spectrum
    turn: Turn

    @classmethod
    def of(cls, walk: Walk, count: int, old: _Array, weights: _Array) -> TurnedWalk:
        """Solve the walk and turn its modes to the coordinates of its first landmarks."""
        spectrum = solve(walk, min(count, len(walk.points) - 1), is_known_connected=True).spectrum
        powers = _powers(spectrum, walk.time)
        growth = float(np.sqrt(walk.weights.sum() / weights.sum()))
        modes = spectrum.vectors[: len(old)] * powers
        return cls(walk, spectrum, turn_modes(old, modes, spectrum.eigenvalues, weights, powers, growth))

    @property
    def eigenvalues(self) -> _Array:
        """λ of each coordinate; of a mixture, the mean by the parts' squares."""
        parts = self.turn.mixture**2
        return np.asarray(self.spectrum.eigenvalues @ parts / parts.sum(axis=0))

    def coordinates(self, power: float | None = None) -> _Array:
        """Return ΨΛᵖ of the landmarks as turned: coordinates for t, Nyström's coefficients for t − 1."""
        powers = _powers(self.spectrum, self.walk.time if power is None else power)
        return np.asarray((self.spectrum.vectors * powers) @ self.turn.mixture + self.turn.shift)

    def step(self) -> OnlineStep:
        """Return Nyström's online step."""
        coefficients = self.coordinates(self.walk.time - 1.0)
        weights = self.spectrum.source_weights
        return OnlineStep(coefficients=coefficients, source_weights=weights, bandwidth=self.walk.epsilon)

    def at(self, points: Points) -> _Array:
        """Return coordinates of any points."""
        walk, radii = self.walk, np.zeros(len(self.walk.points))
        embedder = Embedder.build(walk.metric, walk.points, walk.epsilon, self.step(), radii)
        return embedder.extend(points, walk.n_threads).coordinates.astype(np.float64)


def _powers(spectrum: Spectrum, power: float) -> _Array:
    # Modes beyond those asked for may have eigenvalues of zero, which no power but 0 bears.
    values = np.maximum(spectrum.eigenvalues, np.finfo(np.float64).tiny)
    return np.asarray(np.where(spectrum.eigenvalues > 0, values**power, 0.0))


@dataclass(frozen=True)
class Change:
    """Modes before, unless the map is just these, and after."""

    before: TurnedWalk | None
    after: TurnedWalk
    carried: _Array  # (k, k'): what part of new coordinates a part of old ones is
    #: whether the walk before has the old coordinates; otherwise it cannot tell what changes, and they stay
    is_resolved: bool

    @classmethod
    def of(
        cls, model: LandmarkDiffusionMap, landmarks: Points, weights: _Array, n_further: int, *, align: bool
    ) -> Change:
        """Solve both walks; over landmarks that a distilled map has too far apart for ε, at a larger one."""
        embedder, epsilon, k = model.embedder_, model.epsilon_, model.n_components_
        is_distilled = EXTENSIONS[model.extension_].learns_from_reference
        if is_distilled:
            tree = minimum_spanning_tree(model.metric_, landmarks)
            epsilon = max(epsilon, tree.connecting_epsilon / REACH**2)
        walk = Walk(model.metric_, landmarks, weights, epsilon, model.alpha, model.t, model.n_threads)
        old = embedder.extend(embedder.landmarks, model.n_threads).coordinates.astype(np.float64)
        old_weights = model.multiplicities_
        # A few modes more than asked for: an old coordinate may stand behind new ones now.
        count = k + n_further + MAX_GAP_COMPONENTS
        after, before, is_resolved = TurnedWalk.of(walk, count, old, old_weights), None, True
        if is_distilled:
            known = replace(walk, points=embedder.landmarks, weights=old_weights)
            before = TurnedWalk.of(known, count, old, old_weights)
            lacking = 1.0 - float(in_common(old, before.coordinates(), old_weights).min())
            is_resolved = lacking <= min(LACKING, LACKING_PER_LANDMARK * len(old))
        mixture, shift, carried = after.turn.mixture, after.turn.shift, np.eye(k)
        scale, every = float(np.sqrt(weights.sum() / old_weights.sum())), np.eye(len(mixture))
        if not align:
            carried, scale = np.asarray(np.linalg.pinv(mixture)[:, :k]), 1.0
            mixture, shift = every[:, :k], np.zeros(k)
        free = np.setdiff1d(np.arange(len(mixture)), np.abs(mixture).argmax(axis=0))[:n_further]
        turn = Turn(np.column_stack([mixture, scale * every[:, free]]), np.pad(shift, (0, len(free))))
        carried = np.pad(carried, ((0, 0), (0, len(free))))
        return cls(before, replace(after, turn=turn), carried, is_resolved)

    def step(self, model: LandmarkDiffusionMap, taken: Points, mass: _Array) -> OnlineStep:
        """Return the new online step, Nyström's or fitted to old places and the points taken in."""
        before, embedder, landmarks = self.before, model.embedder_, self.after.walk.points
        if before is None:
            return self.after.step()

        def wanted(points: Points) -> tuple[_Array, _Array]:
            said = embedder.extend(points, model.n_threads).coordinates.astype(np.float64)
            changed = self.after.at(points) + (said - before.at(points)) @ self.carried
            return said, changed

        n_old, old_weights = embedder.n_landmarks, before.walk.weights
        said, baseline = wanted(landmarks)
        baseline[:n_old] += (embedder.coefficients.T - said[:n_old]) @ self.carried
        rows = model.metric_.joined(model.map_.landmark_points, taken)
        targets, row_weights = wanted(rows)[1], np.concatenate([old_weights, mass])
        share = NEW_WEIGHT * np.median(embedder.source_weights / old_weights)
        source_weights = np.concatenate([embedder.source_weights, share * self.after.walk.weights[n_old:]])
        span = np.ptp(targets, axis=0)
        span[span == 0] = 1.0
        problem = Problem(model.metric_, landmarks, baseline / span, model.n_threads)
        data = Rows(rows, targets / span, row_weights / row_weights.mean(), np.arange(len(rows)))
        with single_threaded_blas():
            equations = problem.equations(data, Setting(embedder.bandwidth, np.log(source_weights)))
            coefficients = equations.solve(problem.baseline, RIDGE) * span
        if not self.is_resolved:
            k = embedder.n_components
            coefficients[:n_old, :k], coefficients[n_old:, :k] = embedder.coefficients.T, said[n_old:]
        return OnlineStep(
            coefficients=coefficients, source_weights=source_weights, bandwidth=embedder.bandwidth
        )

    def spectrum(self, old: _Array) -> tuple[_Array, _Array]:
        """Return the eigenvalues of the coordinates, and all; a walk over few landmarks has a clock of its own."""
        own, every = self.after.eigenvalues, self.after.spectrum.eigenvalues
        if self.before is not None:
            pace = np.log(old).sum() / np.log(self.before.eigenvalues).sum()
            own, every = np.maximum(own, 0.0) ** pace, np.maximum(every, 0.0) ** pace
        if not self.is_resolved:
            own[: len(old)] = old
        return own, every
