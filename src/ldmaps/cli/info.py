"""``ldmaps info``: print the contents of a model file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ldmaps.cli import options
from ldmaps.cli.session import printable, write_json
from ldmaps.errors import InvalidInputError, ModelFileError
from ldmaps.text_layout import wrapped

#: Columns of the names of facts.
_NAMES = 12

SHOWN = ""
EPILOG = """\
example:
  ldmaps info map.ldm --json
  ldmaps info map.ldm --scan      # how the map changes with epsilon
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    table = """
        model MODEL  file that ldmaps fit or model.save wrote
        --scan       also solve the map of the landmarks at other bandwidths, and print eigenvalues, number of
                     coordinates and similarity to this map
    """
    options.add(parser, table)
    options.add_common(parser, "quiet force threads seed")


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    facts, lines = facts_of(arguments.model), []
    if arguments.scan:
        from ldmaps.bandwidth_scan import scan_bandwidth
        from ldmaps.maps.model_file import read_model

        scan = scan_bandwidth(read_model(arguments.model))
        facts["scan"], lines = scan.facts(), ["", *scan.lines()]
    if arguments.json:
        write_json(facts)
    else:
        print("\n".join([printable(as_text(arguments.model, facts)), *lines]))


def facts_of(path: str) -> dict[str, Any]:
    """Return the header of a model file together with the numbers people ask for."""
    from ldmaps.maps.model_file import read_header, read_model
    from ldmaps.validation.sampling_words import sampling_facts

    facts = read_header(path)
    try:
        model = read_model(path)
    except ModelFileError:
        raise
    except InvalidInputError:  # a Python function is its metric: there is a header only
        return facts
    calibration = model.embedder_.calibration
    if model.map_.record is not None:
        facts["coordinates"], facts["function"] = (
            ", ".join(model.map_.record.names),
            [*model.map_.record.lines],
        )
    for name in ("eigenvalues", "spectrum"):  # a committor has none
        if hasattr(model, f"{name}_"):
            facts[name] = [float(value) for value in getattr(model, f"{name}_")]
    facts |= {
        "total_weight": float(model.multiplicities_.sum()),
        "has_embedding": hasattr(model, "embedding_"),
        "alarms": "not calibrated" if calibration is None else str(calibration),
    }
    if model.sampling_ is not None:
        files = (model.source_ or {}).get("files")
        facts["sampling"] = sampling_facts(
            model.sampling_, model.n_components_, files, facts["settings"].get("n_components", "gap")
        )
    return facts


def as_text(path: str, facts: dict[str, Any]) -> str:
    """Lay the facts out for reading."""
    from ldmaps.inputs.windows import Windows

    units, source, settings = facts.get("units"), facts.get("source") or {}, facts["settings"]
    metric, parameters = facts["metric"]["__metric__"], facts["metric"].get("parameters", {})
    squared = f" {units}²" if units and metric != "features" else ""
    if metric == "features":
        lists = (
            (kind, value) for kind, value in parameters.items() if kind.endswith("s") and kind != "scales"
        )
        counts = (f"{len(value['__array__']):,} {kind}" for kind, value in lists if isinstance(value, dict))
        metric += ": " + ", ".join(counts)
    version = ".".join(map(str, facts["format_version"]))
    k, solution, columns = facts["n_components"], facts.get("solution"), source.get("columns") or ()
    is_exact, of_frames = facts["estimator"] == "DiffusionMap", source.get("kind") == "frames"
    chosen = f", selected by {source['select']!r}" if source.get("select") else ""
    rows: list[tuple[str, Any]] = [
        ("model", f"{path}: {facts['estimator']}, ldmaps {facts['library_version']}, format {version}"),
        ("metric", metric + " with weights" * (parameters.get("weights") is not None)),
        ("epsilon", f"{facts['epsilon']:.6g}{squared} ({facts['bandwidth']['rule']})"),
        ("landmarks", f"{facts['n_landmarks']:,}{_chosen_by(settings.get('landmarks'))}"),
        ("points", "total_weight" in facts and f"{facts['total_weight']:,.10g} (sum of multiplicities)"),
        ("coordinates", f"{k} ({facts.get('coordinates') or _psi(k)})"),
        ("function", facts.get("function")),
        ("spectrum", "spectrum" in facts and _spectrum(facts["eigenvalues"], facts["spectrum"])),
        ("alarms", facts.get("alarms")),
        ("solved" if is_exact else "reference", solution is not None and _solved(solution)),
        ("alpha", k and settings.get("alpha") and f"{settings['alpha']:g}"),
        ("time", settings.get("diffusion_time") and f"{settings['diffusion_time']:g}"),
        ("atoms", of_frames and [f"{source['n_atoms']}{chosen}", *_some(source.get("atom_labels") or (), 6)]),
        ("features", not of_frames and [f"{facts['n_features_in']}", *_some(columns, 8)]),
        ("windows", source.get("windows") and str(Windows.stored(source))),
        ("fitted on", _some(source.get("files") or (), 3, " and {} more")),
    ]
    # A line break within a name would pass for a row of its own.
    lines = [
        f"{'' if place else name:<{_NAMES}}{' '.join(value.splitlines())}"
        for name, values in rows
        for place, value in enumerate([values] if isinstance(values, str) else values or [])
    ]
    lines = wrapped(lines, indent=" " * _NAMES)
    judged = (facts.get("sampling") or {}).get("lines")  # at the margin: the table needs the width
    return "\n".join([*lines, "", *judged] if judged else lines)


def _psi(k: int) -> str:
    return f"psi2 to psi{k + 1}"


def _some(names: Sequence[str], most: int, others: str = ", ...") -> list[str]:
    """Return the first names in a line, and that there are others; no line if there are none."""
    more = others.format(len(names) - most) if len(names) > most else ""
    return [", ".join(names[:most]) + more] if names else []


def _solved(solution: dict[str, Any]) -> str:
    """Say how a map, or the one it was learned from, was solved, and how far that can be from exact."""
    if solution["n_passes"]:
        way = f"exact map in {solution['n_passes']} passes over all pairs"
    elif solution["solver"] == "landmarks":
        way = "map with more landmarks"
    else:
        return f"exact map ({solution['solver']} kernel)"
    if solution["error_bound"] is None:
        return f"{way}; its errors are not bounded"
    bound = ", ".join(f"{error:.2g}" for error in solution["error_bound"])
    return f"{way}; errors of the coordinates at most {bound} % of their ranges"


def _spectrum(kept: list[float], spectrum: list[float]) -> str:
    import numpy as np

    from ldmaps.diffusion.spectrum import places_in_spectrum

    others = np.delete(spectrum, places_in_spectrum(kept, spectrum))
    slower = int((others > min(kept)).sum())
    note = (
        f" ({slower} slower mode{'s' * (slower > 1)} not used as coordinate{'s' * (slower > 1)})"
        if slower
        else ""
    )
    return " | ".join(" ".join(f"{value:.4f}" for value in part) for part in (kept, others[:4])) + note


def _chosen_by(landmarks: Any) -> str:
    if isinstance(landmarks, dict):
        landmarks = landmarks.get("__selector__")
    return f" ({landmarks if isinstance(landmarks, str) else 'given'})"
