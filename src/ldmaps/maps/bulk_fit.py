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
#: What ε is raised by at first, so that disjoint parts of the data still have much the same; more each time after.
FIRST_RAISE = 1.2

Result = TypeVar("Result")


def fit_bulk(
    fit: Callable[[Training], Result], choose: Callable[[str, Training], Bandwidth], training: Training
) -> Result:
    """Return what ``fit`` makes of the points that belong together; warn of those left out and of a raised ε."""
    whole, rule_epsilon, n_fits, raised = training, None, 1, FIRST_RAISE
    refused: ToleranceError | None = None
    while True:
        try:
            fitted = fit(training)
            break
        except DisconnectedError as error:
            if n_fits == MOST_FITS:
                raise
            rule_epsilon = error.epsilon if rule_epsilon is None else rule_epsilon
            n_left = len(whole.used) - len(training.used)
            most = max(1.0, MOST_LEFT_OUT * len(whole.used))
            if error.outside is not None and n_left + len(error.outside) <= most:
                bandwidth = Bandwidth(error.epsilon, "bulk")
                training = training.without(error.outside, bandwidth, error.remaining)
            else:
                joining = 0.0 if error.outside is not None else error.joining_epsilon / JOINED_HOP**2
                training = replace(whole, bandwidth=Bandwidth(max(raised * error.epsilon, joining), "bulk"))
                raised *= FIRST_RAISE
            n_fits += 1
        except ToleranceError as error:
            if refused is not None:
                raise min(refused, error, key=lambda each: each.best_bound) from None
            narrow = training.bandwidth or choose("bulk", training)
            wide = choose("connected", replace(training, bandwidth=None))
            if wide.epsilon <= narrow.epsilon:
                raise
            refused, rule_epsilon = error, narrow.epsilon if rule_epsilon is None else rule_epsilon
            training = replace(training, bandwidth=wide, n_tried=error.n_tried)
    _tell(whole, training, rule_epsilon, refused)
    return fitted


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
