"""The alarm: points farther from the map than points like the training data are, more rarely than promised."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError, Named
from ldmaps.extension.embedder import Coverage
from ldmaps.regions.base import Masks, Region, finite, not_negative
from ldmaps.settings import check_whole

#: An event ends after so many ordinary records in a row, or after so many times as long as high scores stay high, but
#: not so many that records which are only a little rare would make it last: those that so many times the rate exceed
#: are not ordinary, and this share of quiet times is to be without any.
LEAST_HOLD, HOLD_TIMES, RELEASE, QUIET = 5, 3.0, 10.0, 0.8
#: Of the way from a typical score to the threshold, what an event moves an adapting threshold when it begins,
#: and the part of that by which it does so with every further record: long events are taken for drift in the end.
STEP, PART_OF_STEP = 0.1, 0.01


class Alarm(Region):
    """Points beyond a distance from the nearest landmark; :meth:`of` takes it from a map's calibration.

    Parameters
    ----------
    threshold : float
        In √ε. Farther points enter.
    release : float, optional
        Nearer points are ordinary again; by default the threshold.
    hold : int
        Ordinary records in a row that end an event.
    rate : float, optional
        Share of the records that enter, which ``threshold`` stands for.
    step : float
        Above 0, the threshold follows slow drift (adaptive conformal inference): an event raises it by ``step`` when
        it begins, and every record lowers it by ``rate · step``, so that events stay as rare as promised in the
        long run. While an event lasts, each of its records raises it by a hundredth of ``step``, which is taken back
        if the stream returns to where it was.

    See Also
    --------
    RegionTracker : follows a stream through alarms and regions.

    Examples
    --------
    >>> from ldmaps import LandmarkDiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> model = LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(swiss_roll(2000, random_state=0).points)
    >>> alarm = Alarm.of(model, rate=0.01)
    >>> bool(alarm.release < alarm.threshold), alarm.hold
    (True, 5)
    """

    kind = "alarm"
    explains = True

    def __init__(
        self,
        threshold: float,
        *,
        release: float | None = None,
        hold: int = LEAST_HOLD,
        rate: float | None = None,
        step: float = 0.0,
    ) -> None:
        self.threshold = not_negative("threshold", threshold)
        self.release = min(self.threshold, not_negative("release", threshold if release is None else release))
        self.hold = check_whole("hold", hold, 1)
        self.rate = None if rate is None else finite("rate", rate)
        self.step = not_negative("step", step)
        if self.rate is not None and not 0 < self.rate < 1:
            raise InvalidInputError(f"the rate of an alarm must be between 0 and 1, got {rate!r}")
        if self.step and self.rate is None:
            raise InvalidInputError(
                "an adaptive alarm threshold needs the alarm rate that it should keep; pass rate="
            )

    @classmethod
    def of(cls, model: Any, rate: str | float | None = None, *, adapt: bool = False) -> Alarm:
        """Return the alarm that a map's calibration promises.

        Parameters
        ----------
        model : LandmarkDiffusionMap or DiffusionMap
            The map, fitted or loaded.
        rate : float or str, optional
            Share of the records, of data like the training data, that raise it: 0.0001, or where the training data
            have times a number per unit of time: "1/day", "2/ns". By default 0.001, or the least that the
            calibration can promise.
        adapt : bool
            Whether the threshold follows slow drift.
        """
        known = model.embedder_.calibration
        if known is None:
            raise InvalidInputError(
                "this map is not calibrated, so the rate of alarms cannot be controlled; fit it again to at least 500 "
                "points in memory, with the default landmarks or a tolerance, and with ",
                Named("calibration", 0.2),
            )
        frames = (model.source_ or {}).get("kind") == "frames"
        share = known.rate_of(rate, frames=frames)
        threshold = known.threshold(share)
        long = math.ceil(HOLD_TIMES * known.n_points / known.n_independent)
        hold = max(LEAST_HOLD, min(long, int((1 - QUIET) / share)))
        release = known.threshold(max(share, min(RELEASE * share, (1 - QUIET) / hold)))
        step = STEP * (threshold - known.threshold(0.5)) if adapt else 0.0
        if adapt and not step > 0:
            raise InvalidInputError(
                "all calibration distances are identical, so no threshold can adapt to drift; leave out ",
                Named("adapt"),
            )
        return cls(threshold, release=release, hold=hold, rate=share, step=step)

    def masks(self, coordinates: NDArray[Any], coverage: Coverage) -> Masks:
        """See :meth:`Region.masks`."""
        distance = np.asarray(coverage.distance)
        return distance > self.threshold, distance > self.release
