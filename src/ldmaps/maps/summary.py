"""What a fitted map says of itself in a terminal or a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

from ldmaps.text_layout import wrapped

#: Coordinates whose numbers are listed.
_LISTED = 6


def summary_lines(model: Any) -> list[str]:
    """Return lines about a fitted map: size, bandwidth, spectrum, why so many coordinates, what is promised."""
    import numpy as np

    from ldmaps.diffusion.spectrum import places_in_spectrum
    from ldmaps.validation.sampling_words import sampling_lines, why_kept

    record = model.map_.record
    if record is not None:
        names = ", ".join(record.names)
        return wrapped(
            [f"{record.kind} ({names}) on {model.embedder_.n_landmarks:,} landmarks", *record.lines]
        )
    k = model.n_components_
    count = f"{len(model.embedding_):,}" if hasattr(model, "embedding_") else "unsaved"
    n_landmarks = f"{model.embedder_.n_landmarks:,}"
    unit, features = model.metric_.distance_unit(model.units_), model.metric_.describe()
    squared = f" {unit}²" if unit else ""
    is_exact = type(model).__name__ == "DiffusionMap"
    how = "by the exact map" if is_exact else f"from {n_landmarks} landmarks"
    first = f"{k} coordinate{'s' * (k > 1)} of {count} points {how}"
    coordinates: list[str] = []
    lines: list[str] = []
    if model.sampling_ is not None:
        files = (model.source_ or {}).get("files")
        coordinates = sampling_lines(model.sampling_, k, files, model.n_components)
    else:
        leading = " ".join(f"{value:.4f}" for value in model.eigenvalues_[:_LISTED]) + " ..." * (k > _LISTED)
        others = np.delete(model.spectrum_, places_in_spectrum(model.eigenvalues_, model.spectrum_))
        following = " ".join(f"{value:.4f}" for value in others[:3])
        lines.append(f"eigenvalues: {leading} | {following}")
        lines.append(f"kept: {why_kept(model.spectrum_, k, model.n_components, None)}")
    used = "all points" if is_exact else n_landmarks
    lines.append(f"landmarks: {used}; epsilon {model.epsilon_:.6g}{squared} ({model.bandwidth_.rule})")
    if features:
        lines.append(f"compared by: {features}")
    diagnosis = model.diagnosis_
    if diagnosis is not None:
        carried = ", ".join(f"{number:,.0f}" for number in diagnosis.participation[:_LISTED])
        left_out = len(diagnosis.left_out)
        lines.append(
            f"points that support each coordinate: {carried}{', ...' * (k > _LISTED)} of {diagnosis.n_points:,}"
            + (f"; {left_out:,} point{'s' * (left_out > 1)} left out as outliers" if left_out else "")
        )
    certificate = getattr(model, "certificate_", None)
    if certificate is not None:
        lines.append(f"accuracy: {certificate}")
    if model.embedder_.calibration is not None:
        lines.append(f"alarms: {model.embedder_.calibration}")
    return [first, *coordinates, *wrapped(lines)]


def summary_html(model: Any) -> str:
    """Return the same as a small block for notebooks."""
    lines = "\n".join(escape(line) for line in summary_lines(model))
    return f"<div><b>{escape(type(model).__name__)}</b>, fitted<pre>{lines}</pre></div>"
