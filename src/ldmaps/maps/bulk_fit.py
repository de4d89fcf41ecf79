"""Fits by the rule "bulk": what lies apart is left out, and said.

The rule's ε is that of a typical point. A fit that meets groups of points which the walk at that ε does not
reach raises :class:`~ldmaps.errors.DisconnectedError`. Small groups are left out and the fit is done again; for
large ones, or many small ones, ε is raised. So it is, to that of the rule "connected", where a tolerance cannot be
certified: of few points, those between basins have hardly a neighbour within √ε, and no other point predicts them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from ldmaps.diffusion.bandwidth import Bandwidth
from ldmaps.errors import BandwidthWarning, DisconnectedError, Named, OutlierWarning, ToleranceError
from ldmaps.maps.training import Training
from ldmaps.quality.diagnosis import named_points

#: Hops of so many √ε join large groups when ε is raised for them.
JOINED_HOP = 3.0
#: Most points that are left out, as a share of all (one in any case), and most fits.
MOST_LEFT_OUT, MOST_FITS = 0.05, 40
#: What ε is raised by at first, and more each time after; how closely the smallest that does is then found, so that
#: disjoint parts of the data still have much the same.
FIRST_RAISE, RAISED_WITHIN = 1.2, 1.1

Result = TypeVar("Result")


def fit_bulk(
    fit: Callable[[Training], Result], choose: Callable[[str, Training], Bandwidth], training: Training
) -> Result:
    """Return what ``fit`` makes of the points that belong together; warn of those left out and of a raised ε."""
    whole, refused = training, None
    fitted, training, rule_epsilon = _joined(fit, whole, whole)
    if isinstance(fitted, ToleranceError):
        refused = fitted
        narrow = training.bandwidth or choose("bulk", training)
        wide = choose("connected", replace(training, bandwidth=None))
        if wide.epsilon <= narrow.epsilon:
            raise refused
        rule_epsilon = narrow.epsilon if rule_epsilon is None else rule_epsilon
        training = replace(training, bandwidth=wide, n_tried=refused.n_tried)
        fitted, training, _ = _joined(fit, whole, training)
        if isinstance(fitted, ToleranceError):
            raise min(refused, fitted, key=lambda each: each.best_bound)
    _tell(whole, training, rule_epsilon, refused)
    return fitted


def _joined(
    fit: Callable[[Training], Result], whole: Training, training: Training
) -> tuple[Result | ToleranceError, Training, float | None]:
    """Return a fit in one piece (or why its tolerance is refused), its training, and ε of the first in pieces."""
    first, too_small, raised = None, 0.0, FIRST_RAISE
    found: tuple[Result | ToleranceError, Training] | None = None
    for n_fits in range(1, MOST_FITS + 1):
        try:
            found = _fitted(fit, training), training
        except DisconnectedError as error:
            if n_fits == MOST_FITS and found is None:
                raise
            first = error.epsilon if first is None else first
            n_left = len(whole.used) - len(training.used)
            most = max(1.0, MOST_LEFT_OUT * len(whole.used))
            if error.outside is not None and n_left + len(error.outside) <= most:
                training = training.without(error.outside, Bandwidth(error.epsilon, "bulk"), error.remaining)
                continue
            joining = 0.0 if error.outside is not None else error.joining_epsilon / JOINED_HOP**2
            too_small = max(error.epsilon, joining)
            if found is None:
                training = replace(whole, bandwidth=Bandwidth(max(raised * error.epsilon, joining), "bulk"))
                raised *= FIRST_RAISE
                continue
        bandwidth = found[1].bandwidth
        if bandwidth is None or not 0.0 < too_small * RAISED_WITHIN < bandwidth.epsilon:
            break
        training = replace(whole, bandwidth=Bandwidth((too_small * bandwidth.epsilon) ** 0.5, "bulk"))
    assert found is not None
    return *found, first


def _fitted(fit: Callable[[Training], Result], training: Training) -> Result | ToleranceError:
    try:
        return fit(training)
    except ToleranceError as refused:
        return refused


def _tell(
    whole: Training, training: Training, rule_epsilon: float | None, refused: ToleranceError | None
) -> None:
    """Warn where the walk is not over all points, or not at the rule's ε."""
    if rule_epsilon is None or training.bandwidth is None:
        return
    epsilon = training.bandwidth.epsilon
    if epsilon > rule_epsilon:
        if refused is None:
            trouble, remedy = "the data fall into groups that no hop joins", "Fit each group separately"
        else:
            trouble = f"{len(whole.used):,} points are too few to certify a tolerance of {refused.tolerance:g} percent"
            remedy = "Fit to more points, or raise the tolerance,"
        warnings.warn(
            f"at epsilon = {rule_epsilon:.6g}, which reaches 0.5 % of the points from a typical one, {trouble}; "
            f"{epsilon:.6g} is taken instead, which joins them. {remedy} to see finer structure",
            BandwidthWarning,
            stacklevel=5,
        )
    left_out = whole.used[whole.weights[whole.used] != training.weights[whole.used]]
    if len(left_out):
        share = 100 * len(left_out) / len(whole.used)
        warnings.warn(
            OutlierWarning(
                f"{len(left_out):,} of {len(whole.used):,} points ({share:.2g} %) lie apart from all others and are "
                f"left out of the walk: {named_points(left_out, whole.place)}. They are embedded all the same; "
                "diagnosis_.left_out lists them. To keep them, use ",
                Named("epsilon", "connected"),
            ),
            stacklevel=5,
        )
