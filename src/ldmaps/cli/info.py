"""``ldmaps info``: print what a model file holds."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ldmaps.cli.options import add_common, options
from ldmaps.cli.session import printable, write_json
from ldmaps.errors import InvalidInputError, ModelFileError

if TYPE_CHECKING:
    from ldmaps.maps.model_file import StoredMap

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
        --scan       solve the landmarks at other bandwidths, too: eigenvalues, number of coordinates and likeness of
                     the map
    """
    options(parser, table)
    add_common(parser, quiet=False, force=False, threads=False)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    facts, lines = facts_of(arguments.model), []
    if arguments.scan:
        from ldmaps.maps.bandwidth_scan import scan_bandwidth
        from ldmaps.maps.model_file import read_model

        scan = scan_bandwidth(read_model(arguments.model))
        facts["scan"], lines = scan.facts(), ["", *scan.lines()]
    if arguments.json:
        write_json(facts)
    else:
        print("\n".join([printable(as_text(arguments.model, facts)), *lines]))


def facts_of(path: str) -> dict[str, Any]:
    """Return the header of a model file together with the numbers people ask for."""
    from ldmaps.maps.model_file import read_header

    facts = read_header(path)
    model = _read_or_none(path)
    if model is not None:
        facts["eigenvalues"] = [float(value) for value in model.eigenvalues_]
        facts["spectrum"] = [float(value) for value in model.spectrum_]
        facts["total_weight"] = float(model.multiplicities_.sum())
        facts["has_embedding"] = hasattr(model, "embedding_")
        known = model.embedder_.calibration
        facts["alarms"] = "not calibrated" if known is None else str(known)
        if model.sampling_ is not None:
            from ldmaps.quality.sampling_words import sampling_facts

            files = (model.source_ or {}).get("files")
            facts["sampling"] = sampling_facts(model.sampling_, model.n_components_, files)
    return facts


def _read_or_none(path: str) -> StoredMap | None:
    """Read the model's arrays; a map with a Python function as metric has a header only."""
    from ldmaps.maps.model_file import read_model

    try:
        return read_model(path)
    except ModelFileError:
        raise
    except InvalidInputError:
        return None


def as_text(path: str, facts: dict[str, Any]) -> str:
    """Lay the facts out for reading."""
    units, source = facts.get("units"), facts.get("source") or {}
    metric, parameters = facts["metric"]["__metric__"], facts["metric"].get("parameters", {})
    squared = f" {units}²" if units and metric != "features" else ""
    if metric == "features":
        lists = {
            kind: value
            for kind, value in parameters.items()
            if kind.endswith("s") and isinstance(value, dict)
        }
        metric += ": " + ", ".join(
            f"{len(value['__array__']):,} {kind}" for kind, value in lists.items() if kind != "scales"
        )
    weighted = parameters.get("weights") is not None
    settings = facts["settings"]
    rows = [
        (
            "model",
            f"{path}: {facts['estimator']}, ldmaps {facts['library_version']}, format "
            f"{'.'.join(map(str, facts['format_version']))}",
        ),
        ("metric", metric + (" with weights" if weighted else "")),
        ("epsilon", f"{facts['epsilon']:.6g}{squared} ({facts['bandwidth']['rule']})"),
        ("landmarks", f"{facts['n_landmarks']:,}" + _chosen_by(settings.get("landmarks"))),
    ]
    if "total_weight" in facts:
        rows.append(("points", f"{facts['total_weight']:,.10g} (sum of multiplicities)"))
    rows.append(("coordinates", f"{facts['n_components']} (psi2 to psi{facts['n_components'] + 1})"))
    if "spectrum" in facts:
        rows.append(("spectrum", _spectrum(facts["eigenvalues"], facts["spectrum"])))
    for place, line in enumerate((facts.get("sampling") or {}).get("lines", [])):
        rows.append(("" if place else "sampling", line))
    if "alarms" in facts:
        rows.append(("alarms", facts["alarms"]))
    solution = facts.get("solution")
    if solution is not None:
        is_exact = facts["estimator"] == "DiffusionMap"
        rows.append(("solved" if is_exact else "learned of", _solved(solution)))
    if facts["n_components"] and settings.get("alpha"):
        rows.append(("alpha", f"{settings['alpha']:g}"))
    if settings.get("t"):
        rows.append(("time", f"{settings['t']:g}"))
    if source.get("kind") == "frames":
        chosen = f", selected by {source['select']!r}" if source.get("select") else ""
        rows.append(("atoms", f"{source['n_atoms']}{chosen}"))
        labels = source.get("atom_labels")
        if labels:
            rows.append(("", ", ".join(labels[:6]) + (", ..." if len(labels) > 6 else "")))
    else:
        rows.append(("features", f"{facts['n_features_in']}"))
        columns = source.get("columns")
        if columns:
            rows.append(("", ", ".join(columns[:8]) + (", ..." if len(columns) > 8 else "")))
    if source.get("windows"):
        from ldmaps.inputs.windows import Windows

        rows.append(("windows", str(Windows.stored(source))))
    files = source.get("files")
    if files:
        rows.append(
            ("fitted on", ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else ""))
        )
    # A line break within a name would pass for a row of its own.
    return "\n".join(f"{name:<12}{' '.join(value.split())}" for name, value in rows)


def _solved(solution: dict[str, Any]) -> str:
    """Say how a map, or the one it was learned from, was solved, and how far that can be from exact."""
    if solution["n_passes"]:
        way = f"exact map in {solution['n_passes']} passes over all pairs"
    elif solution["solver"] == "landmarks":
        way = "map of more landmarks"
    else:
        return f"exact map by the {solution['solver']} kernel"
    if solution["error_bound"] is None:
        return f"{way}; its errors have no bound"
    bound = ", ".join(f"{error:.2g}" for error in solution["error_bound"])
    return f"{way}; errors of the coordinates at most {bound} % of their ranges"


def _spectrum(kept: list[float], spectrum: list[float]) -> str:
    import numpy as np

    from ldmaps.diffusion.spectrum import places_in_spectrum

    others = np.delete(spectrum, places_in_spectrum(kept, spectrum))
    slower = int((others > min(kept)).sum())
    note = (
        f" ({slower} slower than the fastest coordinate belong{'s' if slower == 1 else ''} to none)"
        if slower
        else ""
    )
    return " | ".join(" ".join(f"{value:.4f}" for value in part) for part in (kept, others[:4])) + note


def _chosen_by(landmarks: Any) -> str:
    if isinstance(landmarks, str):
        return f" ({landmarks})"
    if isinstance(landmarks, dict) and "__selector__" in landmarks:
        return f" ({landmarks['__selector__']})"
    return " (given)"
