"""What committors and passage times share: one pass over the frames, the choice of functions, errors, and the map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import AccuracyWarning, InvalidInputError
from ldmaps.kinetics.blocks import Resamples, check_enough, folds, total
from ldmaps.kinetics.bounded_fit import bounded_fit
from ldmaps.kinetics.frame_sample import FrameSample
from ldmaps.kinetics.outcomes import Outcomes
from ldmaps.kinetics.sets import FrameSet, check_apart
from ldmaps.kinetics.stopped_sums import StoppedPairs, StoppedSums
from ldmaps.kinetics.time_series import TimeSeries
from ldmaps.kinetics.walk_modes import WalkModes, evaluate, landmark_weights, walk_modes
from ldmaps.maps.estimator import DiffusionEstimator
from ldmaps.threads import single_threaded_blas
from ldmaps.user_warnings import warn

#: Numbers of functions that are tried, and ridges, in units of the mean variance of a function.
N_COMBINED = (2, 3, 5, 8, 12, 20, 30, 50, 75)
RIDGES = (0.0, 1e-5, 1e-4, 1e-3)
#: Fewer passages say little.
FEW_PASSAGES = 10
#: Frames at which errors are measured.
_JUDGED = 2000

_Array = NDArray[np.float64]
_Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Choice:
    """How many functions are combined, with which ridge, and the loss that this has where it is held out."""

    n_combined: int
    ridge: float
    losses: _Array  # (folds,)

    @property
    def loss(self) -> float:
        """The mean over folds."""
        return float(self.losses.mean())

    def is_worse(self, other: Choice) -> bool:
        """Whether the loss is higher than that of another on the same folds, by more than two standard errors."""
        more = self.losses - other.losses
        return bool(more.mean() > 2.0 * more.std() / np.sqrt(max(len(more) - 1, 1)))


@dataclass(frozen=True)
class Followed:
    """Frames that were followed until they reach a set, or for a lag."""

    modes: WalkModes
    blocks: list[StoppedSums]
    n_frames: int
    frames: NDArray[Any]  # some of the frames, as they come
    functions: _Array  # (n, 1 + p): at these
    inside: dict[str, _Mask]  # which of these are in each set
    between: _Mask  # (n,): which of these are in none that frames stop at
    weights: _Array  # (n,): how much each of these counts
    outcomes: Outcomes  # where frames outside all sets went

    @property
    def passages(self) -> tuple[int, int]:
        """How often the target, and the other set, was reached."""
        return sum(one.n_arrivals for one in self.blocks), sum(one.n_returns for one in self.blocks)

    def share(self, place: FrameSet) -> float:
        """Return the share of the frames that are in a set."""
        return float(np.average(self.inside[place.name], weights=self.weights))

    @property
    def least_error(self) -> float:
        """The least relative error of a rate: of few events, that of their number, which blocks cannot show."""
        most = max(self.passages)
        return most**-0.5 if 0 < most < FEW_PASSAGES else 0.0


def follow(
    model: DiffusionEstimator,
    series: TimeSeries,
    lag: int,
    stops: list[FrameSet],
    target: FrameSet,
    passed: list[FrameSet],
    narrowing: float = 1.0,
) -> Followed:
    """Read all frames once; they stop at the sets ``stops``, of which ``target`` is one, not at those of ``passed``.

    Functions have kernels ``narrowing`` times as wide as the map's.
    """
    every = [*stops, *passed]
    modes = walk_modes(model, narrowing=narrowing)
    pairs, sample = StoppedPairs(lag, len(stops)), FrameSample()
    outcomes, n_frames = Outcomes(), 0
    for stretch in series:
        functions = evaluate(modes, stretch.points, model.n_threads)
        where: tuple[Any, ...] = ()
        if any(one.is_region for one in every):
            projected = model.embedder_.project(stretch.points, model.n_threads)
            where = projected.coordinates, projected.coverage
        masks = {one.name: one.holds(stretch.rows, *where) for one in every}
        if len(every) == 2:
            check_apart(masks[every[0].name], masks[every[1].name])
        stopped = np.logical_or.reduce([masks[one.name] for one in stops])
        pairs.add(
            functions,
            stopped,
            masks[target.name],
            stretch.weights,
            begins_run=stretch.begins_run,
            leaves=masks[passed[0].name] if passed else None,
        )
        weights = np.ones(len(stopped)) if stretch.weights is None else stretch.weights
        if len(stops) == 2:
            outcomes.add(stretch.points, stopped, masks[target.name], weights, begins_run=stretch.begins_run)
        sample.add(stretch.first_row, stretch.points, functions, weights, *masks.values())
        n_frames += len(stopped)
    for one in every:
        one.check_length(n_frames)
    frames, at_frames, weights, *columns = sample.columns()
    inside = {one.name: column for one, column in zip(every, columns, strict=True)}
    between = ~np.logical_or.reduce([inside[one.name] for one in stops])
    followed = Followed(
        modes, list(pairs.blocks), n_frames, frames, at_frames, inside, between, weights, outcomes
    )
    _check(followed, series)
    return followed


def _check(followed: Followed, series: TimeSeries) -> None:
    for name, mask in followed.inside.items():
        if not mask.any():
            raise InvalidInputError(f"no {series.item} are in {name}; choose a larger set")
    sums = total(followed.blocks)
    if not followed.between.any() or not sums.gram[0, 0] > 0:
        raise InvalidInputError(
            f"all {series.item} are in a set, or runs are shorter than the lag; choose smaller sets or a shorter lag"
        )
    check_enough(followed.blocks, followed.n_frames, series.item)


def warn_of_few_passages(followed: Followed, stops: list[FrameSet], target: FrameSet) -> None:
    """Warn if a set is reached so seldom that nothing is certain."""
    counts = followed.passages[: len(stops)]
    if min(counts) < FEW_PASSAGES:
        others = [one.name for one in stops if one is not target]
        name = [target.name, *others][int(np.argmin(counts))]
        warn(
            AccuracyWarning(
                f"too few transitions: {name} is reached {min(counts)} times, and {FEW_PASSAGES} are needed; results "
                "and their errors are unreliable until there are more data"
            )
        )


def choose(
    blocks: list[StoppedSums],
    wanted: Callable[[StoppedSums], _Array],
    ridges: tuple[float, ...] = RIDGES,
) -> Choice:
    """Return how many functions, and which ridge, have the lowest loss on blocks of time that are held out."""
    size = len(blocks[0].arrivals)
    split, tried = list(folds(blocks)), []
    for count in sorted({min(count, size) for count in N_COMBINED}):
        for ridge in ridges:
            losses = []
            for fitted, held in split:
                fitted, held = fitted.leading(count), held.leading(count)
                losses.append(held.loss(fitted.solve(wanted(fitted), ridge), wanted(held)))
            tried.append(Choice(count, ridge, np.array(losses)))
    return min(tried, key=lambda one: one.loss)


@dataclass(frozen=True)
class Solved:
    """A function that solves a Galerkin equation, with its errors."""

    choice: Choice
    values: _Array  # (n,): at the frames that were kept
    coefficients: _Array  # (M,): B of the map
    errors: _Array  # (M,): standard errors of the function at the landmarks
    resampled: _Array  # (resamples, n): the same function from blocks that were drawn again
    resamples: Resamples
    misfit: float  # root mean square of w·B minus the values, over the frames
    combinations: list[tuple[StoppedSums, _Array]]  # sums and b: of all frames, and then of each resample


@single_threaded_blas()  # many small problems, on which threads lose more than they gain
def solve(
    model: DiffusionEstimator,
    followed: Followed,
    wanted: Callable[[StoppedSums], _Array],
    at_sets: _Array,
    bounds: tuple[float, float],
    ridges: tuple[float, ...] = RIDGES,
) -> Solved:
    """Solve for a function with values ``at_sets``, (n,), at frames in a set, between ``bounds`` everywhere."""
    choice = choose(followed.blocks, wanted, ridges)
    blocks = [block.leading(choice.n_combined) for block in followed.blocks]
    between, functions = followed.between, followed.functions[:, : choice.n_combined]

    def of(sums: StoppedSums) -> tuple[_Array, _Array]:
        """Return b, and the function at the frames."""
        combination = sums.solve(wanted(sums), choice.ridge)
        return combination, np.where(between, np.clip(functions @ combination, *bounds), at_sets)

    every = total(blocks)
    combination, values = of(every)
    resamples = Resamples.of(blocks)
    drawn = [total(blocks, counts) for counts in resamples.counts]
    again = [of(sums) for sums in drawn]
    at_landmarks = np.array([followed.modes.coefficients(one[:, None])[:, 0] for one, _ in again])
    start = np.clip(followed.modes.coefficients(combination[:, None])[:, 0], *bounds)
    own = landmark_weights(followed.modes.embedder, followed.frames, model.n_threads)
    coefficients = bounded_fit(own, values, followed.weights, start, *bounds)
    misfit = np.average((own @ coefficients - values) ** 2, weights=followed.weights)
    return Solved(
        choice,
        values,
        coefficients,
        resamples.errors(np.clip(at_landmarks, *bounds)),
        np.array([value for _, value in again]),
        resamples,
        float(np.sqrt(misfit)),
        [(every, combination), *zip(drawn, (one for one, _ in again), strict=True)],
    )


def facts_and_choice(
    series: TimeSeries, lag: float, followed: Followed, solved: Solved, target: FrameSet
) -> tuple[dict[str, Any], str]:
    """Return the facts that records of committors and passage times share, and a line that words the choice."""
    choice = solved.choice
    facts = {
        "lag": float(lag),
        "unit": series.unit,
        "n_frames": followed.n_frames,
        "n_combined": choice.n_combined,
        "ridge": choice.ridge,
        "misfit": solved.misfit,
        "landmark_errors": solved.errors,
        "target_share": followed.share(target),
    }
    line = (
        f"lag {lag:g} {series.unit}; {choice.n_combined} functions combined with ridge {choice.ridge:g}, chosen on "
        f"held-out blocks of time; the map differs from their combination by {solved.misfit:.2g}"
    )
    return facts, line
