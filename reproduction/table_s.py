"""Table S: ways to choose landmarks and to extend the map, at equal M."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reproduction.laboratory import Laboratory, Method
from reproduction.pieces import Piece
from reproduction.plan import DataPlan
from reproduction.speedup import speed_ups, timing
from reproduction.table1 import distilled_folds, plain_title
from reproduction.tables import Table, mean_and_spread, number, percent

__all__ = ["NAME", "TITLE", "Contestant", "contestants", "pieces", "write"]

NAME = "table_s"
TITLE = "Table S: PST, k-medoids and distilled maps at equal M"
#: Timed in turns; k-medoids and distilled maps of the same M run the same loop over as many landmarks.
TIMED = (Method("adopting"), Method("literal"), Method("kmedoids", "adopting"), Method("kmedoids", "literal"))


class Contestant(NamedTuple):
    """A line of the table."""

    group: str
    title: str
    method: Method


#: Two groups of equal M: as many landmarks as the adopting tree has, and as many as the literal one.
LINES = (
    Contestant("adopting", "PST, adopting", Method("adopting")),
    Contestant("adopting", "k-medoids", Method("kmedoids", "adopting")),
    Contestant("adopting", "PST, adopting, distilled", Method("adopting", None, "distilled")),
    Contestant("adopting", "k-medoids, distilled", Method("kmedoids", "adopting", "distilled")),
    Contestant("literal", "PST, literal", Method("literal")),
    Contestant("literal", "k-medoids", Method("kmedoids", "literal")),
)

#: Columns of the page: ways to choose landmarks and to extend the map.
COLUMNS = ("PST", "k-medoids", "PST, distilled", "k-medoids, distilled")


def contestants(lab: Laboratory, data: DataPlan, line: Contestant) -> list[Piece]:
    """Return a line's pieces, a fold each."""
    n_folds = lab.plan.n_folds
    if line.method.extension == "distilled":
        n_folds = distilled_folds(lab, data, Method("adopting"))
    elif line.group == "literal" and line.method.selector == "kmedoids":
        n_folds = lab.plan.waterfall_folds
    return [lab.errors(data, fold, line.method) for fold in range(n_folds)]


def pieces(lab: Laboratory) -> Iterator[Piece]:
    """Yield what the table is made of."""
    for line in LINES:
        for data in lab.plan.sets:
            yield from contestants(lab, data, line)
    for data in lab.plan.sets:
        yield timing(lab, data, TIMED)


def write(lab: Laboratory, folder: Path, remark: str) -> str:
    """Write the table; return its part of the page."""
    page_table = Table(("data", "tree", "M", *COLUMNS))
    csv_table = Table(
        (
            *(
                "data",
                "landmarks",
                "extension",
                "M",
                "N_over_M",
                "Z_train",
                "Z_train_sd",
                "Z_test",
                "Z_test_sd",
            ),
            *("speed_up", "folds"),
        )
    )
    for data in lab.plan.sets:
        piece = timing(lab, data, TIMED)
        fast = speed_ups(data, lab.get(piece)).median if lab.store.has(piece) else None
        beside: dict[str, dict[str, str]] = {}
        for line in LINES:
            entries = [lab.get(entry) for entry in contestants(lab, data, line) if lab.store.has(entry)]
            if not entries:
                continue
            m = mean_and_spread(float(entry["m"]) for entry in entries)[0]
            train = mean_and_spread(float(entry["z_train"]) for entry in entries)
            test = mean_and_spread(float(entry["z_test"]) for entry in entries)
            timed = TIMED.index(Method(line.method.selector, line.method.m))
            gain = None if fast is None else float(fast[timed])
            per = 0.8 * data.n_points / m
            spread = "" if len(entries) == 1 else f" ({percent(test[1])})"
            found = beside.setdefault(line.group, {"M": number(round(m))})
            found[line.title.replace(f", {line.group}", "")] = percent(test[0]) + spread
            csv_table.rows.append(
                (
                    *(data.key, line.title.partition(", dist")[0], line.method.extension, m, per),
                    *(*train, *test, gain, len(entries)),
                )
            )
        page_table.rows += [
            (plain_title(data), tree, found["M"], *(found.get(name) for name in COLUMNS))
            for tree, found in beside.items()
        ]
    if not page_table.rows:
        return "*Not computed yet.*"
    csv_table.write_csv(folder / "table_s.csv", remark)
    return "\n\n".join(
        [
            "Z of test points in percent at the smallest connected ε, with as many landmarks as the tree found; "
            "mean (standard deviation) over folds. [All numbers, and speed-ups](table_s.csv).",
            page_table.markdown(),
        ]
    )
