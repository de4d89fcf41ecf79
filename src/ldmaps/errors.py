"""Every exception and warning that ldmaps defines; those about an argument are also a :class:`ValueError`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Named:
    """A setting that a message names, alone or with a value, so that a command line can call it by its option.

    Attributes
    ----------
    setting : str
        As Python spells it.
    value : object
        None where the message names the setting alone; ``...`` for any value.
    function : str
        Which takes it, where that is not plain.

    Examples
    --------
    >>> print(Named("n_landmarks"), Named("n_landmarks", 400), Named("epsilon", "connected"), Named("outliers", ...))
    n_landmarks n_landmarks=400 epsilon="connected" outliers=...
    """

    setting: str
    value: Any = None
    function: str = ""

    def __str__(self) -> str:
        if self.function:
            return f"{self.function}(..., {Named(self.setting, self.value)})"
        if self.value is None:
            return self.setting
        if self.value is ...:
            return f"{self.setting}=..."
        if isinstance(self.value, str):
            return f'{self.setting}="{self.value}"'
        value = f"{self.value:g}" if isinstance(self.value, float) else repr(self.value)
        return f"{self.setting}={value}"


class Message:
    """What exceptions and warnings have in common: a text in parts, some of which name settings."""

    args: tuple[Any, ...]  # the parts: as these, exceptions travel between processes

    @property
    def parts(self) -> tuple[Any, ...]:
        """Text, and :class:`Named` where it names a setting."""
        return self.args

    @property
    def setting(self) -> str | None:
        """The first setting that is named, which most often is at fault."""
        return next((part.setting for part in self.parts if isinstance(part, Named)), None)

    @property
    def value(self) -> Any:
        """Its value, where the message gives one."""
        return next((part.value for part in self.parts if isinstance(part, Named)), None)

    def worded(self, word: Callable[[Named], str]) -> str:
        """Return the text with settings as ``word`` spells them.

        Parameters
        ----------
        word : callable
            Takes a :class:`Named` and returns text.
        """
        return "".join(word(part) if isinstance(part, Named) else str(part) for part in self.parts)

    def __str__(self) -> str:
        return self.worded(str)


class LdmapsError(Message, Exception):
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
    accepted_epsilon : float
        Smallest bandwidth that the same fit accepts. Where landmarks stand in for the points, that of these
        landmarks; more landmarks need less.
    joining_epsilon : float
        Smallest bandwidth at which hops of √ε join all groups.
    """

    def __init__(
        self,
        component_sizes: Sequence[int],
        epsilon: float,
        joining_epsilon: float,
        reach: float = 1.0,
        counted: str = "points",
        accepted_epsilon: float | None = None,
        rule: str = "",
    ) -> None:
        accepted = joining_epsilon / reach**2 if accepted_epsilon is None else accepted_epsilon
        # Exceptions travel between processes as their args, so args are all that is needed to make them again.
        super().__init__(component_sizes, epsilon, joining_epsilon, reach, counted, accepted, rule)
        self.component_sizes = tuple(sorted(map(int, component_sizes), reverse=True))
        self.epsilon, self.joining_epsilon = float(epsilon), float(joining_epsilon)
        self.accepted_epsilon = float(accepted)
        self.reach, self.counted, self.rule = float(reach), counted, rule

    @property
    def parts(self) -> tuple[Any, ...]:
        """The text."""
        sizes = self.component_sizes
        shown = ", ".join(map(str, sizes[:8])) + (", ..." if len(sizes) > 8 else "")
        hop = "sqrt(epsilon)" if self.reach == 1.0 else f"{self.reach:.2g}*sqrt(epsilon)"
        are_landmarks = self.counted == "landmarks"
        more = "use more landmarks, which need a smaller epsilon, " if are_landmarks else ""
        # The rule that has just failed is no remedy.
        joined = () if self.rule == "connected" else ("use ", Named("epsilon", "connected"), ", ")
        return (
            f"at epsilon = {self.epsilon:.6g} the graph of {self.counted} closer than {hop} falls into "
            f"{len(sizes)} components (sizes in {self.counted}: {shown}), so no single diffusion map spans the data. "
            f"Pass a larger epsilon (the smallest that is accepted is {self.accepted_epsilon:.9g}; at "
            f"{self.joining_epsilon:.9g} hops of sqrt(epsilon) join all {self.counted}), ",
            more,
            *joined,
            "or fit each component separately.",
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
        Lowest upper bound of Z of ``share`` of new points that was reached, in percent; infinite where there was none.
    n_landmarks : int
        Landmarks of that map; 0 where none were tried.
    n_held_out : int
        Points it was measured on; few make the bound wide.
    n_tried : int
        Certificates that were tried; each next one is asked for with more confidence.
    share : float
        Share of new points, those with the smallest errors, that the tolerance is about.
    """

    def __init__(
        self,
        tolerance: float,
        best_bound: float = math.inf,
        n_landmarks: int = 0,
        n_held_out: int = 0,
        reason: str | tuple[Any, ...] = "",
        n_tried: int = 0,
        share: float = 0.99,
    ) -> None:
        super().__init__(tolerance, best_bound, n_landmarks, n_held_out, reason, n_tried, share)
        self.share = share
        self.tolerance, self.best_bound = tolerance, best_bound
        self.n_landmarks, self.n_held_out, self.n_tried = n_landmarks, n_held_out, n_tried
        self._reason = reason if isinstance(reason, tuple) else (reason,)

    @property
    def reason(self) -> str:
        """Why there is no bound, or why it is wide; empty where only Z is too large."""
        return "".join(map(str, self._reason))

    @property
    def parts(self) -> tuple[Any, ...]:
        """The text."""
        refusal = Named("tolerance", float(self.tolerance)), " percent cannot be certified"
        if not self.n_landmarks:
            return *refusal, ": ", *self._reason
        return (
            *refusal,
            f"; the lowest upper bound of the error Z of {100 * self.share:.4g} % of new points was "
            f"{self.best_bound:.3g} percent, with {self.n_landmarks} "
            f"landmarks, measured on {self.n_held_out} held-out points{'; ' if self.reason else ''}{self.reason}. "
            "Raise the tolerance, fit to more points, or use fewer components or a larger epsilon.",
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


class LdmapsWarning(Message, UserWarning):
    """Base class of all ldmaps warnings."""


class ShortFileWarning(LdmapsWarning):
    """A trajectory file holds fewer frames than it says."""


class AtomOrderWarning(LdmapsWarning):
    """A file has a model's atoms in another order; they were matched by name."""


class SpectrumWarning(LdmapsWarning):
    """The spectrum makes the asked-for coordinates doubtful (near-degenerate or near-zero eigenvalues)."""


class BandwidthWarning(LdmapsWarning):
    """The bandwidth that a rule gives cannot be used, and another was taken."""


class DisconnectedWarning(LdmapsWarning):
    """The data fall into groups without a transition between them; the first coordinates tell these apart."""


class OutlierWarning(LdmapsWarning):
    """A few points decide the bandwidth, or carry a coordinate alone."""


class AccuracyWarning(LdmapsWarning):
    """A result was computed outside the range where its derivation holds."""


class ConvergenceWarning(LdmapsWarning):
    """An iteration ended before its result met the tolerance; the result comes with the bounds it reached."""


class OutsideDomainWarning(LdmapsWarning):
    """Hardly any of new points are inside a map, or a biased simulation spends most of its time outside."""


def one_line(error: object, most: int | None = None) -> str:
    """Return the text of an error or warning in one line.

    Parameters
    ----------
    error : object
        Whose text; an empty one is replaced by the name of its class.
    most : int, optional
        Most characters; all by default.

    Examples
    --------
    >>> one_line(ValueError("much   space")), one_line(TimeoutError())
    ('much space', 'TimeoutError')
    """
    text = " ".join(str(error).split()) or type(error).__name__
    return text if most is None or len(text) <= most else f"{text[: most - 3]}..."


#: What users may catch or filter: every error and warning that is defined here.
__all__ = [
    name
    for name, value in vars().items()
    if getattr(value, "__module__", "") == __name__
    and isinstance(value, type)
    and issubclass(value, Exception)
]
