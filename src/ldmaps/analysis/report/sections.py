"""The page's words: headline numbers, charts with captions, and the summary table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from ldmaps.analysis.basin_table import BasinTable, basin_rows
from ldmaps.analysis.free_energy import free_energy_profile
from ldmaps.analysis.report import charts
from ldmaps.analysis.report.charts import format_number
from ldmaps.analysis.report.contents import Contents
from ldmaps.bandwidth_scan import scan_bandwidth
from ldmaps.diffusion.spectrum import places_in_spectrum
from ldmaps.errors import InvalidInputError
from ldmaps.validation.sampling_words import coordinate_rows, replica_rows, sampling_notes, why_kept

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


def display_names(model: Any) -> list[str]:
    """Return what a map's coordinates are called on the page: ψ₂, ψ₃, ..., or the names of functions."""
    if model.map_.record is not None:
        return list(model.map_.record.names)
    return [coordinate_name(index) for index in range(model.n_components_)]


def _percent(share: float) -> str:
    """Write a share; only all is 100 %."""
    return "100 %" if share == 1 else f"{min(99.99, 100 * share):.4g} %"


def _with_unit(model: Any, value: float, digits: int, power: str = "²") -> str:
    unit = model.metric_.distance_unit(model.units_)
    return f"{format_number(value, digits)} {unit}{power}" if unit else format_number(value, digits)


def _is_exact(model: Any) -> bool:
    return type(model).__name__ == "DiffusionMap"


def _estimator_name(model: Any) -> str:
    if model.map_.record is not None:
        return f"{model.map_.record.kind.capitalize()} on a diffusion map"
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
        (_with_unit(model, model.epsilon_, 3), f"bandwidth ε, {_rule(model)}"),
    ]
    if contents.inside is not None and len(contents.inside):
        entries.append((_percent(contents.inside.mean()), "inside the map"))
    entries += _z_values(contents)[:1]
    return "".join(f"<div><dd>{escape(value)}</dd><dt>{escape(name)}</dt></div>" for value, name in entries)


def _z_values(contents: Contents) -> list[tuple[str, str]]:
    """Return every statement there is about Z, the strongest first."""
    model, statements = contents.model, []
    certificate = getattr(model, "certificate_", None)
    if certificate is not None:
        confidence = f"certified, {100 * certificate.confidence:g} % confidence"
        points = f"for {100 * certificate.share:.4g} % of new points"
        if certificate.covered < 1.0:
            points += (
                f" like the {100 * certificate.covered:.3g} % of the training points that were not left out"
            )
        statements.append((f"Z ≤ {certificate.upper_bound:.3g} %", f"{points}, {confidence}"))
        if certificate.zeta_bound is not None:
            statements.append((f"ζ ≤ {certificate.zeta_bound:.3g} %", f"{points}, {confidence}"))
    z = _estimated_z(contents)
    if z is not None:
        statements.append((f"{z:.3g} %", "estimated error Z"))
    distillation = getattr(model, "distillation_", None)
    if distillation is not None and np.isfinite(distillation.held_out_z):
        statements.append((f"{distillation.held_out_z:.3g} %", "held-out error Z while distilling"))
    return statements


def _estimated_z(contents: Contents) -> float | None:
    errors = contents.points.errors
    return None if errors is None or not len(errors) else float(np.sqrt(np.nanmean(errors**2)))


def _rule(model: Any) -> str:
    rule = str(model.bandwidth_.rule)
    return {"coifman": "log-log rule", "given": "as given"}.get(rule, rule)


def _card(heading: str, body: str, caption: str = "", *, wide: bool = False) -> str:
    words = f"<p class='caption'>{escape(caption)}</p>" if caption else ""
    text = f"<section class='card{' wide' * wide}'><h2>{escape(heading)}</h2>{body}{words}</section>"
    return re.sub(r"\bpsi(\d+)\b", lambda match: coordinate_name(int(match[1]) - 2), text)


def cards(contents: Contents) -> str:
    """Return the cards with small charts."""
    model = contents.model
    k, sampling, names = model.n_components_, getattr(model, "sampling_", None), display_names(model)
    found = (
        [_spectrum_card(model), _bandwidth_card(model)]
        if model.map_.record is None
        else _function_cards(model)
    )
    points, weights = contents.points.density(model)
    # Blocks as long as resamples take them, where points have a time.
    n_blocks = 5 if sampling is None or sampling.kind != "time" else min(sampling.n_blocks, MOST_BLOCKS)
    for place in range(min(k, MAX_PROFILES)):
        name = names[place]
        chart = charts.profile_chart(free_energy_profile(points[:, place], weights, blocks=n_blocks), name)
        text = (
            f"−ln p along {name} with its standard error over {n_blocks} blocks of the points in their order; no error "
            "where only one block has been."
        )
        found.append(_card(f"Free energy along {name}", chart, text))
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
        chart = charts.histogram_chart(distance, contents.points.weights, label, words, (1.0, "√ε"))
        found.append(_card("Distance to landmarks", chart, text))
    errors, z = contents.points.errors, _estimated_z(contents)
    if errors is not None and z is not None:
        words = f"Histogram of estimated errors; root mean square {z:.3g} percent"
        mark = (z, f"Z = {z:.2g} %")
        chart = charts.histogram_chart(errors[np.isfinite(errors)], None, "ζ (% of range)", words, mark)
        text = "Estimated distance of the points from where the exact map puts them."
        found.append(_card("Estimated error", chart, text))
    if contents.follows:
        rows = [["", *names]]
        rows += [[name, *(f"{value:.2f}" for value in row)] for name, row in contents.follows.items()]
        text = (
            "Spearman's rank correlation, from −1 to 1; for angles the circular one, from 0 to 1. ldmaps correlate "
            "adds "
            "radius of gyration, end-to-end distance and RMSD."
        )
        found.append(_card("What the coordinates follow", _table(rows), text, wide=k > MAX_NARROW))
    if sampling is not None:
        found.append(_sampling_card(model, sampling))
    if contents.basins is not None:
        found.append(_basin_card(contents.basins))
    return "".join(found)


def _spectrum_card(model: Any) -> str:
    k, sampling = model.n_components_, getattr(model, "sampling_", None)
    places = places_in_spectrum(model.eigenvalues_, model.spectrum_)
    # Of the coordinates first; the chart has them in the order of eigenvalues.
    intervals = () if sampling is None else sampling.intervals[np.argsort(-sampling.eigenvalues)]
    chart = charts.spectrum_chart(model.spectrum_, places, intervals)
    text = f"Non-trivial eigenvalues, filled where kept: {why_kept(model.spectrum_, k, model.n_components, sampling)}."
    text += " Bars are 95 % intervals." if sampling is not None else ""
    return _card("Spectrum", chart, text)


def _function_cards(model: Any) -> list[str]:
    """Return what is known of functions that were learned on a map."""
    record = model.map_.record
    heading = {"slow modes": "Slow modes", "committor": "Committor", "passage time": "Passage time"}
    lines = "".join(f"<p>{escape(line)}</p>" for line in record.lines)
    found = [_card(heading.get(record.kind, "Observable"), lines, wide=True)]
    if record.kind == "slow modes":
        text = (
            "Implied time scales with 95 % intervals. They should not depend on the lag; below the dashed line "
            "they are shorter than the lag and cannot be determined."
        )
        found.append(_card("Time scales", charts.timescales_chart(record.facts, record.names), text))
    return found


def _sampling_card(model: Any, sampling: Any) -> str:
    """Return what resampling says of each coordinate, and of files that disagree."""
    k, files = model.n_components_, list((getattr(model, "source_", None) or {}).get("files") or [])
    replicas = replica_rows(sampling, k, files)
    body = _table(coordinate_rows(sampling, k), turns=True) + (_table(replicas) if replicas else "")
    caption = [
        f"Standard errors are from {sampling.n_resamples} resamples of blocks of points. In brackets: correlation of "
        f"the "
        "coordinate with that of a resample (5 % quantile)",
        "the lower table: difference of each file's mean from that of the others, in standard errors"
        if replicas
        else "",
        *sampling_notes(sampling, k, files),
    ]
    return _card("Error bars of the coordinates", body, f"{'; '.join(filter(None, caption))}.", wide=True)


def _basin_card(basins: BasinTable) -> str:
    caption = (
        "Population: points in a core count fully, others by membership; core: membership of at least 0.7. A "
        "transition is counted when another core is "
        f"entered, and dwell is the mean time until then. Crispness {basins.basins.crispness:.2f} (1 is perfect). "
    ) + " ".join(basins.notes)
    return _card("Basins", _table(basin_rows(basins), turns=True), caption.strip(), wide=True)


def _table(rows: list[list[str]], *, turns: bool = False) -> str:
    """Return rows of text, a heading first and names in the first column; on a phone, a wide one may turn."""
    columns = [column for column in zip(*rows, strict=True) if set(column[1:]) != {"–"}]
    told = list(zip(*columns, strict=True))
    # Two or three columns fit a phone.
    return _html(told, "broad") + _html(columns, "narrow") if turns else _html(told)


def _html(rows: Sequence[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th scope='col'>{escape(cell)}</th>" for cell in rows[0])
    body = "".join(
        f"<tr><th scope='row'>{escape(name)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for name, *cells in rows[1:]
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class='scroll {kind}'>{table}</div>"


def _bandwidth_card(model: Any) -> str:
    bandwidth, unit = model.bandwidth_, model.metric_.distance_unit(model.units_)
    axis = f"ε ({unit}²)" if unit else "ε"
    if len(bandwidth.curve_epsilons) > 2:
        text = f"Log-log rule: ε where ln Σ A rises most steeply; dimension about {bandwidth.dimension:.2g}."
        return _card("Bandwidth", charts.bandwidth_chart(bandwidth, axis), text)
    words = {
        "bulk": "A typical point has 0.5 % of all points within √ε.",
        "local": "Each point has its own bandwidth, whose root reaches 0.5 % of all points; ε is the geometric mean.",
        "connected": "The smallest ε at which hops of at most √ε connect all points.",
        "given": "ε was given as a number when the map was fitted.",
    }.get(bandwidth.rule, f"Rule: {bandwidth.rule}.")
    root = _with_unit(model, float(np.sqrt(bandwidth.epsilon)), 3, power="")
    value = _with_unit(model, bandwidth.epsilon, 4)
    body = (
        f"<div class='figures'><div><b>{escape(value)}</b><span>ε</span></div>"
        f"<div><b>{escape(root)}</b><span>√ε, the distance of a typical step</span></div></div>"
    )
    try:
        scan = scan_bandwidth(model)
    except InvalidInputError:  # a few landmarks, or distances that no file holds
        return _card("Bandwidth", body, words)
    alike = scan.epsilons[(scan.similarity > ALIKE) & (scan.n_components > 0)]
    if len(alike):
        low, high = (format_number(float(one), 3) for one in (alike.min(), alike.max()))
        words += (
            f" The curves are λ₂ to λ₅ of the landmarks at other ε; from {low} to {high} the map hardly changes "
            f"(cosine above {ALIKE:g})."
        )
    return _card("Bandwidth", body + charts.scan_chart(scan, axis), words)


def summary(contents: Contents) -> str:
    """Return all numbers as two tables."""
    model, metric, sizes = contents.model, contents.model.metric_, np.asarray(contents.model.multiplicities_)
    k, source, inside = model.n_components_, model.source_ or {}, contents.inside
    distance, n = contents.points.distance, contents.points.total
    farthest = "" if distance is None or not len(distance) else f"{float(np.nanmax(distance)):.3g} √ε"
    names = display_names(model)
    spread = [format_number(float(size)) for size in (sizes.min(), np.median(sizes), sizes.max())]
    files = [str(name) for name in source.get("files") or ()]
    selector = getattr(model, "landmarks", None)
    selector = getattr(selector, "name", selector)
    chosen = ", every point" if _is_exact(model) else f" ({selector})" if isinstance(selector, str) else ""
    selected = f", selected by “{source['select']}”" if source.get("select") else ""
    rows = {
        "Estimator": _estimator_name(model),
        f"{contents.points.what.capitalize()}, N": n and format_number(n),
        "Metric": metric.name + "; weights for each atom" * (getattr(metric, "weights", None) is not None),
        "Bandwidth ε": f"{_with_unit(model, model.epsilon_, 6)} ({_rule(model)})",
        "Dimension by the log-log rule": model.bandwidth_.dimension and f"{model.bandwidth_.dimension:.3g}",
        "Landmarks, M": f"{format_number(len(sizes))}{chosen}",
        "Multiplicity (smallest, median, largest)": sizes.max() > sizes.min() and ", ".join(spread),
        "Extension": hasattr(model, "extension") and model.extension_,
        "Coordinates, k": f"{k} ({names[0]}{f' to {names[-1]}' if k > 1 else ''})",
        **(_walk_rows(model) if model.map_.record is None else {}),
        "Points inside the map": inside is not None and len(inside) and _percent(inside.mean()),
        "Largest distance to a landmark": farthest,
        **{f"Z, {name}".replace("error Z", "error"): value for value, name in _z_values(contents)},
        "Atoms": source.get("n_atoms") and f"{source['n_atoms']:,}{selected}",
        "Fitted on": ", ".join(files[:4]) + (f" and {len(files) - 4} more" if len(files) > 4 else ""),
        "Structures": contents.structures and contents.structures.note,
    }
    lines = [
        f"<tr><th scope='row'>{escape(name)}</th><td>{escape(value)}</td></tr>"
        for name, value in rows.items()
        if value
    ]
    half = (len(lines) + 1) // 2
    return "".join(f"<table><tbody>{''.join(part)}</tbody></table>" for part in (lines[:half], lines[half:]))


def _walk_rows(model: Any) -> dict[str, Any]:
    """Return what the summary tells of the random walk."""
    places, k = places_in_spectrum(model.eigenvalues_, model.spectrum_), model.n_components_
    kept, following = (
        " ".join(f"{value:.4f}" for value in part)
        for part in (model.eigenvalues_, np.delete(model.spectrum_, places)[:4])
    )
    is_leading = len(model.spectrum_) > k == int(places.max()) + 1
    return {
        "Eigenvalues, kept | next": f"{kept} | {following}" if following else kept,
        "Drop after the last kept": is_leading and f"{model.spectrum_[k - 1] - model.spectrum_[k]:.4f}",
        "Density normalisation α": model.alpha and f"{model.alpha:g}",
        "Diffusion time t": model.diffusion_time and f"{model.diffusion_time:g}",
    }
