"""The page's words: headline numbers, charts with captions, and the summary table."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from ldmaps.diffusion.spectrum import places_in_spectrum
from ldmaps.errors import InvalidInputError
from ldmaps.maps.bandwidth_scan import scan_bandwidth
from ldmaps.quality.sampling_words import coordinate_rows, replica_rows, sampling_notes, why_kept
from ldmaps.views.basin_table import BasinTable, basin_rows
from ldmaps.views.free_energy import free_energy_profile
from ldmaps.views.report.charts import (
    bandwidth_chart,
    format_number,
    histogram_chart,
    profile_chart,
    scan_chart,
    spectrum_chart,
)
from ldmaps.views.report.contents import Contents

__all__ = ["charts", "coordinate_name", "facts", "subtitle", "summary"]

#: Coordinates that get a free-energy profile.
MAX_PROFILES = 3
#: Most blocks that errors of profiles are taken from.
MOST_BLOCKS = 100
#: Maps whose spans have at least this cosine are much the same.
ALIKE = 0.95
#: Coordinates whose correlations fit a card of ordinary width.
MAX_NARROW = 3

_SUBSCRIPT = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def coordinate_name(index: int) -> str:
    """Return what a coordinate is called.

    >>> coordinate_name(0)
    'ψ₂'
    """
    return "ψ" + str(index + 2).translate(_SUBSCRIPT)


def _percent(share: float) -> str:
    """Write a share; only all is 100 %."""
    return "100 %" if share == 1 else f"{min(99.99, 100 * share):.4g} %"


def _squared_unit(model: Any) -> str:
    unit = model.metric_.distance_unit(model.units_)
    return f"{unit}²" if unit else ""


def _is_exact(model: Any) -> bool:
    return type(model).__name__ == "DiffusionMap"


def _estimator_name(model: Any) -> str:
    return "Exact diffusion map" if _is_exact(model) else "Landmark diffusion map"


def subtitle(contents: Contents) -> str:
    """Return estimator and metric in a line."""
    model = contents.model
    metric = model.metric_.name.replace("_", " ").replace("rmsd", "RMSD").replace("euclidean", "Euclidean")
    weighted = " with weights" if getattr(model.metric_, "weights", None) is not None else ""
    return f"{_estimator_name(model)} · {metric} distance{weighted}"


def facts(contents: Contents) -> str:
    """Return the headline numbers as a list of terms."""
    model = contents.model
    count = contents.points.total or float(model.multiplicities_.sum())
    entries = [
        (format_number(count), contents.points.what if contents.points.total else "total weight"),
        *([] if _is_exact(model) else [(format_number(len(model.multiplicities_)), "landmarks")]),
        (str(model.n_components_), "coordinate" if model.n_components_ == 1 else "coordinates"),
        (
            f"{format_number(model.epsilon_, 3)} {_squared_unit(model)}".strip(),
            f"bandwidth ε, {_rule(model)}",
        ),
    ]
    if contents.inside is not None and len(contents.inside):
        entries.append((_percent(contents.inside.mean()), "inside the map"))
    statements = _z_values(contents)
    if statements:
        entries.append(statements[0])
    return "".join(f"<div><dd>{escape(value)}</dd><dt>{escape(name)}</dt></div>" for value, name in entries)


def _z_values(contents: Contents) -> list[tuple[str, str]]:
    """Return every statement there is about Z, the strongest first."""
    model, statements = contents.model, []
    certificate = getattr(model, "certificate_", None)
    if certificate is not None:
        statements.append(
            (
                f"Z ≤ {certificate.upper_bound:.3g} %",
                f"certified, {100 * certificate.confidence:g} % confidence",
            )
        )
    errors = contents.points.errors
    if errors is not None and len(errors):
        z = float(np.sqrt(np.nanmean(errors**2)))
        statements.append((f"{z:.3g} %", "estimated error Z"))
    distillation = getattr(model, "distillation_", None)
    if distillation is not None and np.isfinite(distillation.held_out_z):
        statements.append((f"{distillation.held_out_z:.3g} %", "held-out error Z while distilling"))
    return statements


def _rule(model: Any) -> str:
    return {"coifman": "log-log rule", "given": "as given"}.get(
        model.bandwidth_.rule, str(model.bandwidth_.rule)
    )


def _card(heading: str, body: str, caption: str = "", *, wide: bool = False) -> str:
    words = f"<p class='caption'>{escape(caption)}</p>" if caption else ""
    return f"<section class='card{' wide' * wide}'><h2>{escape(heading)}</h2>{body}{words}</section>"


def charts(contents: Contents) -> str:
    """Return the cards with small charts."""
    model = contents.model
    k, sampling = model.n_components_, getattr(model, "sampling_", None)
    cards = [
        _card(
            "Spectrum",
            spectrum_chart(
                model.spectrum_,
                places_in_spectrum(model.eigenvalues_, model.spectrum_),
                None if sampling is None else sampling.intervals,
            ),
            "Non-trivial eigenvalues, filled where kept: "
            f"{why_kept(model.spectrum_, k, model.n_components, sampling)}."
            + (" Bars are 95 % intervals." if sampling is not None else ""),
        ),
        _bandwidth_card(model),
    ]
    points, weights = contents.density()
    # Blocks as long as resamples take them, where points have a time.
    n_blocks = 5 if sampling is None or sampling.kind != "time" else min(sampling.n_blocks, MOST_BLOCKS)
    for place in range(min(k, MAX_PROFILES)):
        name = coordinate_name(place)
        cards.append(
            _card(
                f"Free energy along {name}",
                profile_chart(free_energy_profile(points[:, place], weights, blocks=n_blocks), name),
                f"−ln p along {name} with its standard error over {n_blocks} blocks of the points in their order; no "
                "error where only one block has been.",
            )
        )
    distance = contents.points.distance
    if distance is not None and len(distance) and np.nanmax(distance) > 0:
        text = f"Median {float(np.median(distance)):.2g} √ε, largest {float(np.nanmax(distance)):.2g} √ε."
        if contents.inside is not None:
            text += (
                f" {_percent(contents.inside.mean())} of the points are inside the map: no farther from their "
                "landmark than the training points around it."
            )
        words = f"Histogram of distances to the nearest landmark. {text}"
        label = "distance to nearest landmark (√ε)"
        chart = histogram_chart(distance, contents.points.weights, label, words, [(1.0, "√ε")])
        cards.append(_card("Distance to landmarks", chart, text))
    errors = contents.points.errors
    if errors is not None and len(errors):
        z = float(np.sqrt(np.nanmean(errors**2)))
        chart = histogram_chart(
            errors[np.isfinite(errors)],
            None,
            "ζ (% of range)",
            f"Histogram of estimated errors; root mean square {z:.3g} percent",
            [(z, f"Z = {z:.2g} %")],
        )
        cards.append(
            _card(
                "Estimated error",
                chart,
                "Estimated distance of the points from where the exact map puts them.",
            )
        )
    if contents.follows:
        rows = [["", *(coordinate_name(place) for place in range(k))]]
        rows += [[name, *(f"{value:.2f}" for value in row)] for name, row in contents.follows.items()]
        text = (
            "Spearman's rank correlation, from −1 to 1; of angles the circular one, from 0 to 1. ldmaps correlate adds "
            "radius of gyration, end-to-end distance and RMSD."
        )
        cards.append(_card("What the coordinates follow", _table(rows), text, wide=k > MAX_NARROW))
    if sampling is not None:
        cards.append(_sampling_card(model, sampling))
    if contents.basins is not None:
        cards.append(_basin_card(contents.basins))
    return "".join(cards)


def _sampling_card(model: Any, sampling: Any) -> str:
    """Return what resampling says of each coordinate, and of files that disagree."""
    k, files = model.n_components_, list((getattr(model, "source_", None) or {}).get("files") or [])
    body = _table(coordinate_rows(sampling, k))
    replicas = replica_rows(sampling, k, files)
    if replicas:
        body += _table(replicas)
    caption = "; ".join(
        [
            f"Blocks of the points were drawn again {sampling.n_resamples} times. In brackets: correlation of the "
            "coordinate with that of a resample (5 % quantile)",
            *(
                ["below, by how many standard errors each file's means are off those of the others"]
                * bool(replicas)
            ),
            *sampling_notes(sampling, k, files),
        ]
    )
    return _card("How sure the coordinates are", body, f"{caption}.", wide=True)


def _basin_card(basins: BasinTable) -> str:
    caption = (
        "Population by membership; core: where it is at least 0.7. A transition is counted when another core is "
        f"entered, and dwell is the mean time until then. Crispness {basins.basins.crispness:.2f} (1 is perfect). "
    ) + " ".join(basins.notes)
    rows = basin_rows(basins)
    # On a phone a basin is a column: two or three of them fit.
    both = _table(rows, "broad") + _table([list(row) for row in zip(*rows, strict=True)], "narrow")
    return _card("Basins", both, caption.strip(), wide=True)


def _table(rows: list[list[str]], kind: str = "") -> str:
    """Return rows of text, a heading first and names in the first column, as a table."""
    head = "".join(f"<th scope='col'>{escape(cell)}</th>" for cell in rows[0])
    body = "".join(
        f"<tr><th scope='row'>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for name, *cells in rows[1:]
    )
    return (
        f"<div class='scroll {kind}'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _bandwidth_card(model: Any) -> str:
    bandwidth, unit = model.bandwidth_, _squared_unit(model)
    if len(bandwidth.curve_epsilons) > 2:
        chart = bandwidth_chart(bandwidth.curve_epsilons, bandwidth.curve_slopes, bandwidth.epsilon, unit)
        return _card(
            "Bandwidth",
            chart,
            f"Log-log rule: ε where ln Σ A rises most steeply; dimension about {bandwidth.dimension:.2g}.",
        )
    words = {
        "bulk": "√ε reaches 0.5 % of the points from a typical one.",
        "connected": "The smallest ε at which every point can be reached from every other in hops of at most √ε.",
        "given": "Given as a number when the map was fitted.",
    }.get(bandwidth.rule, f"Rule: {bandwidth.rule}.")
    root = f"{format_number(float(np.sqrt(bandwidth.epsilon)), 3)} {unit.removesuffix('²')}".strip()
    value = f"{format_number(bandwidth.epsilon, 4)} {unit}".strip()
    body = (
        f"<div class='figures'><div><b>{escape(value)}</b><span>ε</span></div>"
        f"<div><b>{escape(root)}</b><span>√ε, the reach of a hop</span></div></div>"
    )
    try:
        scan = scan_bandwidth(model)
    except InvalidInputError:  # a few landmarks, or distances that no file holds
        return _card("Bandwidth", body, words)
    alike = scan.epsilons[(scan.likeness > ALIKE) & (scan.n_components > 0)]
    if len(alike):
        words += (
            f" The curves are λ₂ to λ₅ of the landmarks at other ε; from {format_number(float(alike.min()), 3)} to "
            f"{format_number(float(alike.max()), 3)} the map is much the same (cosine above {ALIKE:g})."
        )
    return _card("Bandwidth", body + scan_chart(scan, unit), words)


def summary(contents: Contents) -> str:
    """Return all numbers as two tables."""
    model = contents.model
    unit = _squared_unit(model)
    metric = model.metric_
    rows: list[tuple[str, str]] = [("Estimator", _estimator_name(model))]
    if contents.points.total:
        rows.append((f"{contents.points.what.capitalize()}, N", format_number(contents.points.total)))
    weights = "; weights a atom" if getattr(metric, "weights", None) is not None else ""
    rows.append(("Metric", metric.name + weights.replace("a atom", "for each atom")))
    rows.append(("Bandwidth ε", f"{format_number(model.epsilon_, 6)} {unit}".strip() + f" ({_rule(model)})"))
    if model.bandwidth_.dimension is not None:
        rows.append(("Dimension by the log-log rule", f"{model.bandwidth_.dimension:.3g}"))
    sizes = np.asarray(model.multiplicities_)
    how = ", every point" if _is_exact(model) else _selector(model)
    rows.append(("Landmarks, M", format_number(len(sizes)) + how))
    if len(sizes) and sizes.max() > sizes.min():
        rows.append(
            (
                "Multiplicity (smallest, median, largest)",
                f"{format_number(float(sizes.min()))}, {format_number(float(np.median(sizes)))}, "
                f"{format_number(float(sizes.max()))}",
            )
        )
    if hasattr(model, "extension"):
        rows.append(("Extension", model.extension_))
    k = model.n_components_
    names = f"{coordinate_name(0)} to {coordinate_name(k - 1)}" if k > 1 else coordinate_name(0)
    rows.append(("Coordinates, k", f"{k} ({names})"))
    places = places_in_spectrum(model.eigenvalues_, model.spectrum_)
    parts = (model.eigenvalues_, np.delete(model.spectrum_, places)[:4])
    texts = [" ".join(f"{value:.4f}" for value in part) for part in parts if len(part)]
    rows.append(("Eigenvalues, kept | next", " | ".join(texts)))
    if len(model.spectrum_) > k == int(places.max()) + 1:
        rows.append(("Drop after the last kept", f"{float(model.spectrum_[k - 1] - model.spectrum_[k]):.4f}"))
    if model.alpha:
        rows.append(("Density normalisation α", f"{model.alpha:g}"))
    if model.t:
        rows.append(("Diffusion time t", f"{model.t:g}"))
    distance = contents.points.distance
    if distance is not None and len(distance):
        if contents.inside is not None:
            rows.append(("Points inside the map", _percent(contents.inside.mean())))
        rows.append(("Largest distance to a landmark", f"{float(np.nanmax(distance)):.3g} √ε"))
    rows += [(f"Z, {name}".replace("error Z", "error"), value) for value, name in _z_values(contents)]
    source = getattr(model, "source_", None) or {}
    if source.get("n_atoms"):
        selected = f", selected by “{source['select']}”" if source.get("select") else ""
        rows.append(("Atoms", f"{source['n_atoms']:,}{selected}"))
    if source.get("files"):
        names_of = [str(name) for name in source["files"]]
        rows.append(
            (
                "Fitted on",
                ", ".join(names_of[:4]) + (f" and {len(names_of) - 4} more" if len(names_of) > 4 else ""),
            )
        )
    if contents.structures is not None:
        rows.append(("Structures", contents.structures.note))
    lines = [f"<tr><th scope='row'>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in rows]
    half = (len(lines) + 1) // 2
    return "".join(f"<table><tbody>{''.join(part)}</tbody></table>" for part in (lines[:half], lines[half:]))


def _selector(model: Any) -> str:
    selector = getattr(model, "landmarks", None)
    if isinstance(selector, str):
        return f" ({selector})"
    name = getattr(selector, "name", None)
    return f" ({name})" if isinstance(name, str) else ""
