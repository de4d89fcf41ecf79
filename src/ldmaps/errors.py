"""Every exception and warning that ldmaps defines.

All exceptions derive from :class:`LdmapsError`; those about an argument are
also :class:`ValueError`, so code written against scikit-learn keeps working.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = [
    "AccuracyWarning",
    "AtomOrderWarning",
    "BadRecordError",
    "BandwidthWarning",
    "CheckpointError",
    "ClusterError",
    "ConvergenceWarning",
    "DisconnectedError",
    "GradientError",
    "InvalidInputError",
    "LdmapsError",
    "LdmapsWarning",
    "ModelFileError",
    "OutlierWarning",
    "OutsideDomainWarning",
    "ShortFileWarning",
    "SinkError",
    "SourceError",
    "SpectrumWarning",
    "StreamStalledError",
    "ToleranceError",
    "one_line",
]


class LdmapsError(Exception):
    """Base class of all ldmaps exceptions."""


class InvalidInputError(LdmapsError, ValueError):
    """Data or a parameter break a rule; the message gives value, rule and remedy."""


class ClusterError(LdmapsError):
    """A Dask cluster failed and did not recover; nothing was written."""


class DisconnectedError(InvalidInputError):
    """The data fall into groups too far apart for hops of the random walk, so no single map spans them.

    Attributes
    ----------
    component_sizes : tuple of int
        Number of points (or landmarks) in each group, largest first.
    epsilon : float
        Bandwidth that was tried.
    joining_epsilon : float
        Smallest bandwidth at which hops of √ε join all groups, which a fit accepts.
        Where landmarks stand in for the points, that of these landmarks; more
        landmarks need less.
    """

    def __init__(
        self,
        component_sizes: Sequence[int],
        epsilon: float,
        joining_epsilon: float,
        reach: float = 1.0,
        counted: str = "points",
    ) -> None:
        # Exceptions travel between processes as their args, so args are all that is needed to make them again.
        super().__init__(component_sizes, epsilon, joining_epsilon, reach, counted)
        self.component_sizes = tuple(sorted((int(size) for size in component_sizes), reverse=True))
        self.epsilon = float(epsilon)
        self.joining_epsilon = float(joining_epsilon)
        self.reach = float(reach)
        self.counted = counted

    def __str__(self) -> str:
        shown = ", ".join(str(size) for size in self.component_sizes[:8])
        if len(self.component_sizes) > 8:
            shown += ", ..."
        hop = "sqrt(epsilon)" if self.reach == 1.0 else f"{self.reach:.2g}*sqrt(epsilon)"
        landmarks = self.counted != "points"
        remedy = (
            f"{self.joining_epsilon:.9g} joins these landmarks in hops of sqrt(epsilon), and more landmarks need less"
            if landmarks
            else f"{self.joining_epsilon:.9g} is the smallest that joins them in hops of sqrt(epsilon)"
        )
        more = "use more landmarks, " if landmarks else ""
        return (
            f"at epsilon = {self.epsilon:.6g} the graph of {self.counted} closer than {hop} falls into "
            f"{len(self.component_sizes)} components (sizes in {self.counted}: {shown}), so no single diffusion map "
            f"spans the data; epsilon = {remedy}. Pass a larger epsilon, {more}"
            'use epsilon="connected", or fit each component separately.'
        )


class GradientError(InvalidInputError):
    """A map has no gradient, because its metric has none."""


class ToleranceError(LdmapsError, ValueError):
    """No number of landmarks that was allowed can be certified to meet the tolerance.

    Attributes
    ----------
    tolerance : float
        What was asked for, in percent.
    best_bound : float
        Lowest upper bound of Z that was reached, in percent; infinite where there was none.
    n_landmarks : int
        Landmarks of that map; 0 where none were tried.
    n_held_out : int
        Points it was measured on; few make the bound wide.
    reason : str
        Why there is no bound, or why it is wide; empty where only Z is too large.
    """

    def __init__(
        self,
        tolerance: float,
        best_bound: float = math.inf,
        n_landmarks: int = 0,
        n_held_out: int = 0,
        reason: str = "",
    ) -> None:
        super().__init__(tolerance, best_bound, n_landmarks, n_held_out, reason)
        self.tolerance = tolerance
        self.best_bound = best_bound
        self.n_landmarks = n_landmarks
        self.n_held_out = n_held_out
        self.reason = reason

    def __str__(self) -> str:
        refusal = f"tolerance={self.tolerance:g} percent cannot be certified"
        if not self.n_landmarks:
            return f"{refusal}: {self.reason}"
        return (
            f"{refusal}; the best upper bound of Z was {self.best_bound:.3g} percent, with {self.n_landmarks} "
            f"landmarks, measured on {self.n_held_out} held-out points{'; ' if self.reason else ''}{self.reason}. "
            "Raise the tolerance, fit to more points, or use fewer components or a larger epsilon."
        )


class ModelFileError(LdmapsError, ValueError):
    """A model file is damaged, foreign, or written by a newer format."""


class SourceError(LdmapsError):
    """A stream cannot continue: its file shrank, its server is gone, or records were removed before they were read."""


class StreamStalledError(SourceError):
    """A source delivered nothing for longer than allowed."""


class SinkError(LdmapsError):
    """A sink could not take records; those of the other sinks are safe."""


class BadRecordError(LdmapsError, ValueError):
    """A record cannot be embedded, and ``bad_records="raise"`` was set."""


class CheckpointError(LdmapsError, ValueError):
    """A checkpoint is damaged, in use, or belongs to another model, source or output."""


class LdmapsWarning(UserWarning):
    """Base class of all ldmaps warnings."""


class ShortFileWarning(LdmapsWarning):
    """A trajectory file holds fewer frames than it says."""


class AtomOrderWarning(LdmapsWarning):
    """A file has a model's atoms in another order; they were matched by name."""


class SpectrumWarning(LdmapsWarning):
    """The spectrum makes the asked-for coordinates doubtful (near-degenerate or near-zero eigenvalues)."""


class BandwidthWarning(LdmapsWarning):
    """The bandwidth that a rule gives cannot be used, and another was taken."""


class OutlierWarning(LdmapsWarning):
    """A few points decide the bandwidth, or carry a coordinate alone."""


class AccuracyWarning(LdmapsWarning):
    """A result was computed outside the range where its derivation holds."""


class ConvergenceWarning(LdmapsWarning):
    """An iteration ended before its result met the tolerance; the result comes with the bounds it reached."""


class OutsideDomainWarning(LdmapsWarning):
    """A biased simulation spends most of its time where its map is not valid."""


def one_line(error: object, most: int | None = None) -> str:
    """Return the text of an error or warning in one line of at most ``most`` characters.

    Parameters
    ----------
    error : object
        Whose text; an empty one is replaced by the name of its class.
    most : int, optional
        Most characters; all by default.

    Returns
    -------
    str
        Without line breaks.

    Examples
    --------
    >>> one_line(ValueError("much   space")), one_line(TimeoutError())
    ('much space', 'TimeoutError')
    """
    return " ".join(str(error).split())[:most] or type(error).__name__
