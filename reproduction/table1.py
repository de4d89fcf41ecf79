"""Table 1: errors of PST and k-medoids landmark maps over five folds, beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reproduction.laboratory import Laboratory, Method
from reproduction.pieces import Piece
from reproduction.plan import CONNECTED, DataPlan, Width
from reproduction.printed import TABLE_1, PrintedRow
from reproduction.tables import Table, mean_and_spread, number, percent, times

__all__ = ["NAME", "TITLE", "Line", "lines", "pieces", "write"]

NAME = "table1"
TITLE = "Table 1: accuracy"
#: The Swiss roll is looked at twice: at its smallest connected ε, and at the ε that the paper prints.
PRINTED_WIDTH = Width(value=1.0)
TREES = ("adopting", "literal")


@dataclass(frozen=True)
class Line:
    """One line of the table: means and standard deviations over folds, in percent."""

    data: DataPlan
    width: Width
    method: Method
    epsilon: float
    m: tuple[float, float]
    share: float
    z_train: tuple[float, float]
    z_test: tuple[float, float]
    n_folds: int
    distilled_train: tuple[float, float]
    distilled_test: tuple[float, float]
    distilled_folds: int
    #: Plain Z over distilled Z on test points, geometric mean over the folds that have both.
    gain: float
    printed: PrintedRow | None


def blocks(lab: Laboratory) -> list[tuple[DataPlan, Width]]:
    """Return data sets and bandwidths in the table's order."""
    pairs = []
    for data in lab.plan.sets:
        pairs.append((data, CONNECTED))
        if PRINTED_WIDTH in data.widths:
            pairs.append((data, PRINTED_WIDTH))
    return pairs


def methods(data: DataPlan, width: Width) -> list[Method]:
    """Return a block's lines."""
    # Half of all points whatever ε is: seen once, the literal tree is not grown again for another ε.
    trees = TREES if width == CONNECTED else TREES[:1]
    return [Method(tree) for tree in trees] + [Method("kmedoids", m) for m in data.table_landmarks]


def pieces(lab: Laboratory) -> Iterator[Piece]:
    """Yield what the table is made of: a fold of every set before the next, and Nyström before distilling."""
    for wanted in (True, False):
        own = [block for block in blocks(lab) if (block[1] == CONNECTED) == wanted]
        for extension in ("nystrom", "distilled"):
            for fold in range(lab.plan.n_folds):
                for data, width in own:
                    for method in methods(data, width):
                        limit = (
                            distilled_folds(lab, data, method)
                            if extension == "distilled"
                            else lab.plan.n_folds
                        )
                        if fold < min(limit, folds_of(lab, width)):
                            yield lab.errors(data, fold, Method(method.selector, method.m, extension), width)


def folds_of(lab: Laboratory, width: Width) -> int:
    """Return how many folds a block has."""
    return lab.plan.n_folds if width == CONNECTED else lab.plan.waterfall_folds


def distilled_folds(lab: Laboratory, data: DataPlan, method: Method) -> int:
    """Return how many folds are distilled: all, one where M²N is large, none for half of all points."""
    if method.selector == "literal":
        return 0
    expected = int(TABLE_1[data.key].tree.n_landmarks) if method.m is None else int(method.m)
    if expected > lab.plan.distilled_ceiling and not lab.plan.reduced:
        return 0
    return lab.plan.n_folds if expected <= lab.plan.distilled_limit else 1


def lines(lab: Laboratory) -> list[Line]:
    """Average over folds; lines of which no piece is finished are left out."""
    averages = []
    for data, width in blocks(lab):
        printed = TABLE_1[data.key]
        for method in methods(data, width):
            by_fold = _finished(lab, data, width, method)
            if not by_fold:
                continue
            plain = list(by_fold.values())
            fitted = _finished(lab, data, width, Method(method.selector, method.m, "distilled"))
            distilled = list(fitted.values())
            ratios = [by_fold[fold]["z_test"] / fitted[fold]["z_test"] for fold in fitted if fold in by_fold]
            count = mean_and_spread(entry["m"] for entry in plain)
            epsilons = [
                float(lab.get(lab.exact(data, fold, width))["epsilon"])
                for fold in range(lab.plan.n_folds)
                if lab.store.has(lab.exact(data, fold, width))
            ]
            n_train = data.n_points * 0.8
            beside = printed.tree if method.m is None else _row_for(printed.medoids, int(method.m))
            if lab.plan.reduced:
                beside = None
            averages.append(
                Line(
                    data,
                    width,
                    method,
                    mean_and_spread(epsilons)[0],
                    count,
                    count[0] / n_train,
                    mean_and_spread(entry["z_train"] for entry in plain),
                    mean_and_spread(entry["z_test"] for entry in plain),
                    len(plain),
                    mean_and_spread(entry["z_train"] for entry in distilled),
                    mean_and_spread(entry["z_test"] for entry in distilled),
                    len(distilled),
                    math.exp(mean_and_spread(map(math.log, ratios))[0]) if ratios else math.nan,
                    beside,
                )
            )
    return averages


def _finished(lab: Laboratory, data: DataPlan, width: Width, method: Method) -> dict[int, dict[str, float]]:
    """Return the errors of the folds that are finished."""
    entries = {}
    for fold in range(lab.plan.n_folds):
        piece = lab.errors(data, fold, method, width)
        if lab.store.has(piece):
            entries[fold] = {name: float(value) for name, value in lab.get(piece).items()}
    return entries


def _row_for(rows: tuple[PrintedRow, ...], m: int) -> PrintedRow | None:
    return next((row for row in rows if row.n_landmarks == m), None)


def title_of(line: Line) -> str:
    """Name a line's landmarks."""
    return {"adopting": "PST, adopting", "literal": "PST, literal"}.get(line.method.selector, "k-medoids")


def write(lab: Laboratory, folder: Path, remark: str) -> str:
    """Write the table; return its part of the page."""
    averages = lines(lab)
    csv_table = Table(
        (
            *("data", "epsilon", "epsilon_rule", "landmarks", "M", "M_sd", "M_over_N"),
            *("Z_train", "Z_train_sd", "Z_test", "Z_test_sd", "folds"),
            *(
                "paper_epsilon",
                "paper_M",
                "paper_Z_train",
                "paper_Z_train_sd",
                "paper_Z_test",
                "paper_Z_test_sd",
            ),
            *("paper_over_ours_Z_test", "distilled_Z_train", "distilled_Z_train_sd"),
            *("distilled_Z_test", "distilled_Z_test_sd", "distilled_folds"),
        )
    )
    text = [_introduction(lab)]
    for data, width in blocks(lab):
        block = [line for line in averages if line.data is data and line.width == width]
        if not block:
            text.append(f"*{plain_title(data)}, ε {width.key}: not computed yet.*")
            continue
        printed = TABLE_1[data.key]
        n_train = int(data.n_points * 0.8)
        unit = f" {data.unit}" if data.unit else ""
        rule = "smallest connected" if width == CONNECTED else "as the paper prints"
        tree = next((line.printed for line in block if line.method.m is None and line.printed), None)
        text.append(
            f"**{plain_title(data)}**, N = {n_train:,}, k = {data.n_components}, "
            f"{_folds(max(line.n_folds for line in block))}, ε = {block[0].epsilon:.3g}{unit} ({rule}; paper "
            f"{printed.epsilon:.3g}{unit}"
            + (f", {number(tree.n_landmarks)} landmarks by PST)" if tree else ")")
        )
        page_table = Table(("landmarks", "M", "Z", "paper's Z", "paper / ours"))
        for line in block:
            beside = line.printed
            ratio = beside.z_test / line.z_test[0] if beside else None
            page_table.rows.append(
                (
                    title_of(line),
                    number(round(line.m[0])),
                    _with_spread(line.z_test, percent),
                    f"{beside.z_test}" if beside else None,
                    printed_over_ours(beside.z_test, line.z_test) if beside else None,
                )
            )
            csv_table.rows.append(
                (
                    *(data.key, line.epsilon, width.key, title_of(line), *line.m, line.share),
                    *(*line.z_train, *line.z_test, line.n_folds),
                    *(printed.epsilon, *(beside or (None,) * 5), ratio),
                    *(*line.distilled_train, *line.distilled_test, line.distilled_folds),
                )
            )
        text.append(page_table.markdown())
    csv_table.write_csv(folder / "table1.csv", remark)
    return "\n\n".join(text)


def plain_title(data: DataPlan) -> str:
    """Return a data set's name without mathematical notation."""
    return {"c24h50": "C₂₄H₅₀", "alanine_dipeptide": "Alanine dipeptide"}.get(data.key, data.title)


def _introduction(lab: Laboratory) -> str:
    return (
        "Z of test points in percent (eqn Z_error), mean (standard deviation) over folds, judged against the exact "
        "map's Nyström extension. *Paper / ours* has in brackets what one standard deviation of ours makes of it. "
        "For C₂₄H₅₀ the draw of landmarks decides as much as M does: [averages over draws, and distilled "
        "maps](../accuracy.md#the-papers-table-1). [All numbers](table1.csv)."
    )


def printed_over_ours(printed: float, ours: tuple[float, float]) -> str:
    """Return how many times as large a printed error is, with what one standard deviation of ours makes of it.

    >>> printed_over_ours(3.0, (6.0, 4.0)), printed_over_ours(3.0, (2.0, float("nan")))
    ('0.5 (0.3–1.5)', '1.5')
    """
    mean, spread = ours
    if math.isnan(spread):
        return times(printed / mean)
    highest = times(printed / (mean - spread)) if spread < mean else "∞"
    return f"{times(printed / mean)} ({times(printed / (mean + spread))}–{highest})"


def _folds(count: int) -> str:
    return f"{count} fold" if count == 1 else f"{count} folds"


def _with_spread(pair: tuple[float, float], form: object) -> str:
    write_one = form if callable(form) else str
    mean, spread = pair
    return f"{write_one(mean)}" if math.isnan(spread) else f"{write_one(mean)} ({write_one(spread)})"
