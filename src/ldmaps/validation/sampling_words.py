"""What a map's sampling says, in words: lines below a fit, rows of a table, notes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.diffusion.spectrum import reason_for_kept, spectral_gap
from ldmaps.validation.coordinate_choice import gap_within_errors, n_considered
from ldmaps.validation.sampling import DISAGREES, NO_STRUCTURE, Sampling, names_of

#: Coordinates that lines name.
_LISTED = 4


def sampling_lines(sampling: Sampling, n_components: int, files: list[str] | None = None) -> list[str]:
    """Return two lines about the kept coordinates, and one more where something must be said."""
    k = min(n_components, len(sampling.eigenvalues), _LISTED)
    values = ", ".join(f"{sampling.eigenvalues[i]:.3g} ± {sampling.errors[i]:.1g}" for i in range(k))
    drawn = _drawn(sampling)
    lines = [f"eigenvalues ± standard error, {drawn}: {values}"]
    lines.append("; ".join(_coordinate(sampling, mode) for mode in range(k)))
    notes = sampling_notes(sampling, n_components, files)
    return [*lines, "; ".join(notes)] if notes else lines


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
        tells = f"tell{'s' * (sampling.n_states == 2)} {sampling.n_states} metastable states apart"
        reason = f"{count}; {told} {tells}"
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
        "time": f"blocks of {sampling.block_length:.3g} {sampling.unit}",
        "files": "files",
        "rows": "rows" if sampling.block_length < 1.5 else "random groups of rows",
    }[sampling.kind]
    return f"{sampling.n_blocks:,} {what} drawn {sampling.n_resamples} times"


def _coordinate(sampling: Sampling, mode: int) -> str:
    followed = _followed(sampling, mode)
    parts = [sampling.reproducibility(mode), *([f"follows {followed}"] if followed else [])]
    timescale = sampling.timescale(mode)
    if timescale and sampling.times is not None:
        time, error, independent = sampling.times[mode]
        parts.append(
            f"{timescale} ({time:.3g} ± {error:.2g} {sampling.unit}, {independent:,.0f} independent samples)"
        )
    return f"psi{mode + 2} " + ", ".join(parts)


def _followed(sampling: Sampling, mode: int) -> str:
    return names_of(np.flatnonzero(sampling.follows[mode]))


def sampling_notes(sampling: Sampling, n_components: int, files: list[str] | None = None) -> list[str]:
    """Return what a user must know: no structure, a run too short, files that disagree."""
    notes = []
    if sampling.eigenvalues[0] < NO_STRUCTURE:
        notes.append(
            f"no structure at this epsilon: lambda2 = {sampling.eigenvalues[0]:.2g}, so one step of the walk forgets "
            "where it was; lower epsilon, or choose other features"
        )
    if not sampling.are_long_enough:
        notes.append(
            f"the run is too short: {sampling.n_blocks} blocks of {sampling.block_length:.3g} {sampling.unit} still "
            "remember each other, so these errors are too small; sample longer"
        )
    table = sampling.replicas
    if table is not None:
        worst = np.abs(table[:, :n_components]).max(axis=1)
        names = [
            f"{files[place] if files and place < len(files) else f'file {place + 1}'} ({worst[place]:.1f})"
            for place in np.flatnonzero(worst > DISAGREES)
        ]
        if names:
            notes.append(f"files that disagree with the others, in standard errors: {', '.join(names[:4])}")
    return notes


def coordinate_rows(sampling: Sampling, n_components: int) -> list[list[str]]:
    """Return a table, a heading first: λ ± error, reproducible, correlation time, follows, of each coordinate."""
    rows = [["", "λ ± error", "95 %", "again in resamples", "correlation time", "timescale", "follows (R²)"]]
    for mode in range(min(n_components, len(sampling.eigenvalues))):
        low, high = sampling.intervals[mode]
        time = "–"
        if sampling.times is not None:
            time = f"{sampling.times[mode, 0]:.3g} ± {sampling.times[mode, 1]:.2g} {sampling.unit}"
        rows.append(
            [
                f"psi{mode + 2}",
                f"{sampling.eigenvalues[mode]:.4f} ± {sampling.errors[mode]:.1g}",
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


def sampling_facts(sampling: Sampling, n_components: int, files: list[str] | None = None) -> dict[str, Any]:
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
        "lines": sampling_lines(sampling, n_components, files),
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
