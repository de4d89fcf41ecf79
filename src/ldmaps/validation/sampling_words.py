"""What a map's sampling says, in words: lines below a fit, rows of a table, notes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.spectrum import reason_for_kept, spectral_gap
from ldmaps.text_layout import aligned, wrapped
from ldmaps.time_units import readable_unit
from ldmaps.validation.coordinate_choice import gap_within_errors, n_considered
from ldmaps.validation.sampling import DISAGREES, NO_STRUCTURE, Sampling, names_of

#: Coordinates that a map does not keep, of which a table says why.
_REJECTED = 4
#: And most that it keeps.
_LISTED = 10
#: Where the table of a summary has the number of independent samples, and most decimals of a number in it.
_SAMPLES, _MOST_DECIMALS = 5, 7


def sampling_lines(
    sampling: Sampling, n_components: int, files: list[str] | None = None, setting: int | str = "gap"
) -> list[str]:
    """Return a table of the coordinates as lines, how its errors were found, and what a user must know of the run."""
    judged = _judged(sampling, n_components)
    table = aligned(summary_rows(sampling, judged, n_components), numbers=[_SAMPLES])
    lines, more = [], n_components - _LISTED
    if more > 0:
        lines.append(f"and {more:,} more coordinate{'s' * (more > 1)}")
    lines += _reasons(sampling, judged, n_components, setting)
    lines.append(f"standard errors: {_drawn(sampling)}")
    lines += [f"warning: {note}" for note in sampling_notes(sampling, n_components, files)]
    return [*table, *wrapped(lines)]


def _judged(sampling: Sampling, n_components: int) -> list[int]:
    """Return the modes that a summary lists: the coordinates, and the leading modes that were not kept."""
    n_judged = len(sampling.eigenvalues)
    kept = range(min(n_components, n_judged, _LISTED))
    return [*kept, *range(n_components, min(n_components + _REJECTED, n_judged))]


def summary_rows(sampling: Sampling, judged: list[int], n_components: int) -> list[list[str]]:
    """Return a table of modes: two rows of headings, then one row each."""
    rows = [
        ["", "", "repro-", "", "", "indep.", ""],
        ["", "eigenvalue", "ducible", "correlation time", "speed", "samples", "kept"],
    ]
    for mode in judged:
        word = sampling.reproducibility(mode).split()[0]  # of "mixes with psi4" the first
        rows.append(
            [
                f"psi{mode + 2}",
                with_error(float(sampling.eigenvalues[mode]), float(sampling.errors[mode])),
                {"reproducible": "yes", "noise": "no"}.get(word, word),
                *_correlation_time(sampling, mode),
                "yes" if mode < n_components else "no",
            ]
        )
    return rows if sampling.times is not None else [[*row[:3], row[-1]] for row in rows]


def _reasons(sampling: Sampling, judged: list[int], n_components: int, setting: int | str) -> list[str]:
    """Return why coordinates were kept and others were not, and which are reproducible only together."""
    kept = [mode for mode in judged if mode < n_components]
    rejected = [mode for mode in judged if mode >= n_components]
    why = ["as many as were asked for"] if setting != "gap" else []
    if setting == "gap" and sampling.n_states > 1:
        separating = names_of(range(min(sampling.n_states - 1, n_components)))
        why.append(
            f"{separating} separate{'s' * (sampling.n_states == 2)} {sampling.n_states} metastable states"
        )
        kept = kept[sampling.n_states - 1 :]
    why += _phrases(sampling, kept)
    if setting == "gap" and n_components == 2 and 1 in kept and _doubt(sampling, 1):
        why[-1] += " (at least two are kept)"
    behind = "behind the largest drop of the eigenvalues" if setting == "gap" else "more than were asked for"
    groups = {str(sampling.groups[mode]): mode for mode in judged if sampling.is_reproducible[mode]}
    mixed = [names_of(np.flatnonzero(sampling.groups == sampling.groups[mode])) for mode in groups.values()]
    parts = {
        "kept": "; ".join(why),
        "not kept": "; ".join(_phrases(sampling, rejected, behind)),
        "mixes": "; ".join(f"{names} are reproducible only together" for names in mixed if "," in names),
    }
    return [f"{key}: {text}" for key, text in parts.items() if text]


def _phrases(sampling: Sampling, modes: list[int], otherwise: str = "") -> list[str]:
    """Return what is to be said against ``modes``, those with the same doubt together."""
    by_doubt: dict[tuple[str, str], list[int]] = {}
    for mode in modes:
        doubt = _doubt(sampling, mode)
        one, many = (doubt, doubt.replace("is ", "are ").replace("follows", "follow"))
        if not doubt and otherwise:
            one, many = f"is {otherwise}", f"are {otherwise}"
        if one:
            by_doubt.setdefault((one, many), []).append(mode)
    return [f"{names_of(group)} {words[len(group) > 1]}" for words, group in by_doubt.items()]


def with_error(value: float, error: float, digits: int = 1) -> str:
    """Return a number and its error, with as many decimals as the first digits of the error need.

    >>> with_error(0.999832, 0.0000412), with_error(78.4, 20.8, digits=2), with_error(7112.0, 1806.0, digits=2)
    ('0.99983 ± 0.00004', '78 ± 21', '7,112 ± 1,806')
    >>> with_error(0.9999999987, 2.1e-9)
    '1.0000000 ± 2e-09'
    """
    if not 0.0 < error < math.inf:
        return f"{value:,.4g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(error)))
    if decimals > _MOST_DECIMALS:
        return f"{value:.{_MOST_DECIMALS}f} ± {error:.0e}"
    return f"{value:,.{decimals}f} ± {error:,.{decimals}f}"


def _correlation_time(sampling: Sampling, mode: int) -> tuple[str, str, str]:
    """Return the correlation time, how slow that is, and the number of independent samples that it leaves."""
    if sampling.times is None:
        return "", "", ""
    time, error, independent = sampling.times[mode]
    factor, unit = readable_unit(sampling.unit, time)
    return (
        f"{with_error(factor * time, factor * error, 2)} {unit}",
        sampling.timescale(mode),
        f"{independent:,.0f}",
    )


def why_kept(
    spectrum: NDArray[np.float64], n_kept: int, setting: int | str, sampling: Sampling | None
) -> str:
    """Say in a few words why so many coordinates were kept: by states, by the gap, and by what resamples say."""
    if setting != "gap" or sampling is None or len(spectrum) <= n_kept:
        return reason_for_kept(spectrum, n_kept, setting)
    judged, count = len(sampling.eigenvalues), f"{n_kept} coordinate{'s' * (n_kept > 1)}"
    considered = n_considered(spectrum, sampling)
    # Coordinates come first, then the others: those of them that were considered, too.
    rest = range(n_kept, judged)
    left_out = [mode for mode in rest if sampling.eigenvalues[mode] >= spectrum[considered - 1]]
    doubtful = left_out or [mode for mode in range(min(n_kept, judged)) if _doubt(sampling, mode)]
    doubts = "; ".join(f"psi{mode + 2} {doubt}" for mode in doubtful if (doubt := _doubt(sampling, mode)))
    if sampling.n_states > 1:
        told = names_of(range(sampling.n_states - 1))
        separate = f"separate{'s' * (sampling.n_states == 2)} {sampling.n_states} metastable states"
        reason = f"{count}; {told} {separate}"
    elif considered > gap_within_errors(spectrum, sampling) and left_out:
        reason = f"{count}, all that are neither harmonics nor noise"
    elif left_out:  # the coordinates behind a doubtful one go with it
        return f"{n_kept} of the {considered} coordinates before the largest drop" + (
            f": {doubts}" if doubts else ""
        )
    else:
        reason = reason_for_kept(spectrum, max(n_kept, spectral_gap(spectrum)), setting)
    return f"{reason}; {doubts or 'all reproducible'}"


def _doubt(sampling: Sampling, mode: int) -> str:
    """Return why a coordinate is not one to count, if so."""
    followed = _followed(sampling, mode)
    if not sampling.is_reproducible[mode]:
        return "is noise"
    return f"follows {followed}" if followed else ""


def _drawn(sampling: Sampling) -> str:
    what = {
        "time": f"blocks of {_block_length(sampling)}",
        "files": "files",
        "rows": "rows" if sampling.block_length < 1.5 else "random groups of rows",
    }[sampling.kind]
    return f"{sampling.n_resamples} resamples of {sampling.n_blocks:,} {what}"


def _block_length(sampling: Sampling) -> str:
    factor, unit = readable_unit(sampling.unit, sampling.block_length)
    length = float(f"{factor * sampling.block_length:.3g}")
    return f"{length:,.0f} {unit}" if length >= 100 else f"{length:g} {unit}"


def _followed(sampling: Sampling, mode: int) -> str:
    return names_of(np.flatnonzero(sampling.follows[mode]))


def sampling_notes(sampling: Sampling, n_components: int, files: list[str] | None = None) -> list[str]:
    """Return what a user must know: no structure, a run too short, files that disagree."""
    notes = []
    if sampling.eigenvalues[0] < NO_STRUCTURE:
        notes.append(
            f"no structure at this epsilon: the first eigenvalue is {sampling.eigenvalues[0]:.2g}, so that all points "
            "look alike; use a smaller epsilon, or other features"
        )
    if not sampling.are_long_enough:
        notes.append(
            f"the run is too short: its {sampling.n_blocks} blocks of {_block_length(sampling)} are "
            "correlated with each other, so all errors above are too small; sample longer"
        )
    table = sampling.replicas
    if table is not None:
        worst = np.abs(table[:, :n_components]).max(axis=1)
        names = [
            f"{files[place] if files and place < len(files) else f'file {place + 1}'} ({worst[place]:.1f})"
            for place in np.flatnonzero(worst > DISAGREES)
        ]
        if names:
            notes.append(
                f"files whose mean differs from that of the others, in standard errors: {', '.join(names[:4])}"
            )
    return notes


def coordinate_rows(sampling: Sampling, n_components: int) -> list[list[str]]:
    """Return a table, a heading first: λ ± error, reproducible, correlation time, follows, of each coordinate."""
    rows = [
        ["", "eigenvalue", "95 % interval", "reproducible?", "correlation time", "timescale", "follows (R²)"]
    ]
    for mode in range(min(n_components, len(sampling.eigenvalues))):
        low, high = sampling.intervals[mode]
        time = "–"
        if sampling.times is not None:
            time = f"{with_error(float(sampling.times[mode, 0]), float(sampling.times[mode, 1]), 2)} {sampling.unit}"
        rows.append(
            [
                f"psi{mode + 2}",
                with_error(float(sampling.eigenvalues[mode]), float(sampling.errors[mode])),
                f"{low:.4f} to {high:.4f}",
                f"{sampling.reproducibility(mode)} ({sampling.cosine[mode]:.2f})",
                time,
                sampling.timescale(mode) or "–",
                f"{_followed(sampling, mode)} ({sampling.r2[mode]:.3f})"
                if sampling.follows[mode].any()
                else "–",
            ]
        )
    return rows


def sampling_facts(
    sampling: Sampling, n_components: int, files: list[str] | None = None, setting: int | str = "gap"
) -> dict[str, Any]:
    """Return all numbers and verdicts of the kept coordinates as JSON values."""
    coordinates = [
        {
            "name": f"psi{mode + 2}",
            "eigenvalue": float(sampling.eigenvalues[mode]),
            "error": float(sampling.errors[mode]),
            "interval": sampling.intervals[mode].tolist(),
            "reproducibility": sampling.reproducibility(mode),
            "cosine": float(sampling.cosine[mode]),
            "follows": [f"psi{other + 2}" for other in np.flatnonzero(sampling.follows[mode])],
            "r2": float(sampling.r2[mode]),
            "timescale": sampling.timescale(mode) or None,
            "correlation_time": None if sampling.times is None else float(sampling.times[mode, 0]),
            "correlation_time_error": None if sampling.times is None else float(sampling.times[mode, 1]),
            "n_independent": None if sampling.times is None else float(sampling.times[mode, 2]),
            "autocorrelation": None if sampling.correlations is None else float(sampling.correlations[mode]),
        }
        for mode in range(min(n_components, len(sampling.eigenvalues)))
    ]
    return {
        **sampling.header(),
        "coordinates": coordinates,
        "slowest_autocorrelation": None
        if sampling.correlations is None
        else float(sampling.correlations[-1]),
        "replicas": None if sampling.replicas is None else sampling.replicas[:, :n_components].tolist(),
        "lines": sampling_lines(sampling, n_components, files, setting),
    }


def replica_rows(sampling: Sampling, n_components: int, files: list[str]) -> list[list[Any]]:
    """Return a table, a heading first: by how many standard errors each file's means are off those of the others."""
    if sampling.replicas is None:
        return []
    k = min(n_components, sampling.replicas.shape[1])
    rows: list[list[Any]] = [["", *(f"psi{mode + 2}" for mode in range(k)), ""]]
    for place, values in enumerate(sampling.replicas[:, :k]):
        name = files[place] if place < len(files) else f"file {place + 1}"
        verdict = "disagrees" if np.abs(values).max() > DISAGREES else ""
        rows.append([name, *(f"{value:+.1f}" for value in values), verdict])
    return rows
