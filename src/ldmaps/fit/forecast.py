"""About how long the stages of a fit take, so that one bar shows all of it. ``ldmaps plan`` measures instead.

Only ratios matter once the first stage has ended: the bar goes by how long that took. Numbers are of one core.
"""

from __future__ import annotations

from ldmaps.fit.data import Data
from ldmaps.fit.recipe import Recipe, searched_points
from ldmaps.landmarks.base import DEFAULT_LANDMARKS

#: Seconds per squared distance: for any two points, for each number of a point, and for a metric that is slow.
PER_PAIR, PER_NUMBER, PER_SLOW_PAIR = 2e-9, 2e-10, 5e-6
#: Points that a rule for ε looks at, and seconds per entry of a stored kernel that its eigenvectors take.
OF_BANDWIDTH, PER_ENTRY = 1000, 1e-8
#: Passes over all pairs that a map of typical data takes where its kernel is not stored, and what more a pair takes.
USUAL_PASSES, PER_STREAMED_PAIR = 3, 1e-9
#: Seconds to solve and resample a landmark map, and per point to distil or search for landmarks.
EIGENPROBLEM, RESAMPLING, PER_TAUGHT = 0.5, 0.4, 8e-4


def expected_seconds(recipe: Recipe, data: Data) -> dict[str, float]:
    """Return about how many seconds each stage takes, in the order in which they come."""
    n_all, n_points = len(data.points), len(data.members)
    if recipe.kind == "tolerance":
        settings = recipe.settings
        here = searched_points(n_points, settings.tolerance, settings.limits)
        n_points = here if data.points.are_here else min(n_points, recipe.most_gathered)
    pair = PER_SLOW_PAIR if data.metric.is_slow else PER_PAIR + PER_NUMBER * data.n_features
    bandwidth = {"bandwidth": OF_BANDWIDTH * n_points * pair}
    resampling = {"resampling": RESAMPLING if recipe.needs_resampling else 0.0}
    is_stored = float(n_points) ** 2 * data.points.dtype.itemsize <= recipe.settings.limits.memory
    over_pairs = float(n_points) ** 2 * pair
    stored = {"distances": over_pairs if is_stored else 0.0}
    connectivity = {"connectivity": 0.0 if is_stored else over_pairs}
    solving = float(n_points) ** 2 * (PER_ENTRY if is_stored else USUAL_PASSES * (pair + PER_STREAMED_PAIR))
    if recipe.kind == "exact":
        return {**bandwidth, **stored, **connectivity, "eigenvectors": solving, **resampling}
    m = DEFAULT_LANDMARKS if recipe.selector is None else recipe.selector.n_landmarks or DEFAULT_LANDMARKS
    embedding = {"embedding": n_all * m * pair}
    if not recipe.is_taught:
        return {
            **bandwidth,
            "landmarks": n_points * m * pair,
            "eigenproblem": EIGENPROBLEM,
            **resampling,
            **embedding,
        }
    taught = "search" if recipe.kind == "tolerance" else "distillation"
    return {
        **stored,
        **bandwidth,
        **connectivity,
        "reference map": solving,
        **resampling,
        taught: n_points * PER_TAUGHT,
        **embedding,
    }
