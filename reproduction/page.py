"""The page that a referee could read: every result next to the paper's, what differs, and what made it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from ldmaps.files import written_whole
from reproduction import parity, speedup, table1
from reproduction.laboratory import Laboratory, Method
from reproduction.pieces import Piece
from reproduction.plan import CONNECTED
from reproduction.printed import CITATION, SPEED_UPS, TABLE_1
from reproduction.provenance import describe
from reproduction.tables import times

__all__ = ["Result", "write"]


class Result(Protocol):
    """A module that computes and writes one table or figure."""

    NAME: str
    TITLE: str

    def pieces(self, lab: Laboratory) -> Iterator[Piece]:
        """Yield what it is made of."""

    def write(self, lab: Laboratory, folder: Path, remark: str) -> str:
        """Write its files; return its part of the page."""


def write(
    lab: Laboratory,
    results: Sequence[Result],
    folder: Path,
    written: dict[str, tuple[int, str]] | None = None,
) -> Path:
    """Write all that is finished, and the page; say on it what is missing.

    Parameters
    ----------
    written : dict, optional
        Sections of earlier calls, with the number of pieces they were made of; a figure
        is drawn again only when there are more.
    """
    written = {} if written is None else written
    by_name = {result.NAME: result for result in results}
    sections, missing = [], []
    for name in ("table1", "figure2", "figure3", "figure4", "figure5", "table_s", "choices"):
        result = by_name[name]
        wanted = list(result.pieces(lab))
        finished = [piece for piece in wanted if lab.store.has(piece)]
        if len(finished) < len(wanted):
            missing.append(f"{result.TITLE.partition(':')[0]} ({len(finished)} of {len(wanted)} pieces)")
        for piece in finished:
            lab.get(piece)
        remark = "; ".join(describe(maker, lab.plan.seed) for maker in lab.store.makers(finished))
        count, body = written.get(name, (0, "*Not computed yet.*"))
        if finished and (count < len(finished) or name == "choices"):
            body = result.write(lab, folder, remark)
            written[name] = len(finished), body
        if name == "choices":
            body = "\n\n".join([_differences(lab), body])
        sections.append(f"## {result.TITLE}\n\n{body}")
    parts = [_head(lab, missing), _findings(lab), *sections, _provenance(lab)]
    target = folder / "README.md"
    with written_whole(target) as stream:
        stream.write(("\n\n".join(part for part in parts if part) + "\n").encode())
    return target


def _head(lab: Laboratory, missing: Sequence[str]) -> str:
    plan = lab.plan
    lines = [
        "# The paper, reproduced",
        f"{CITATION}.",
        "Every table and figure of its results, on data that ship with this package. `make paper` writes this page; "
        "`python -m reproduction --reduced` takes a minute.",
    ]
    if plan.reduced:
        lines.append(
            "**This is the reduced version**: fewer points, folds, landmarks and bandwidths. Its numbers "
            "show that everything runs, and are not to be compared with the paper's."
        )
    if missing:
        lines.append("**Not finished:** " + "; ".join(missing) + ". Run the command again to continue.")
    return "\n\n".join(lines)


# -- what was found ------------------------------------------------------------------


def _findings(lab: Laboratory) -> str:
    points = [*_accuracy(lab), *_trees_and_medoids(lab), *_speed(lab), *_prediction(lab)]
    return "## In short\n\n" + "\n".join(f"- {point}" for point in points) if points else ""


def _accuracy(lab: Laboratory) -> Iterator[str]:
    connected = [line for line in table1.lines(lab) if line.width == CONNECTED]
    compared = [line for line in connected if line.printed is not None and line.method.selector == "kmedoids"]
    if compared:
        ratios = [line.printed.z_test / line.z_test[0] for line in compared if line.printed]
        better = sum(ratio > 1 for ratio in ratios)
        yield (
            f"**Accuracy.** At the paper's M, our k-medoids maps have a lower Z than printed in {better} "
            f"of {len(ratios)} lines of Table 1; printed over ours is {times(min(ratios))} to "
            f"{times(max(ratios))}."
        )


def _trees_and_medoids(lab: Laboratory) -> Iterator[str]:
    verdicts = []
    for data in lab.plan.sets:
        wins = []
        for fold in range(lab.plan.n_folds):
            both = Method("adopting"), Method("kmedoids", "adopting")
            pair = [lab.errors(data, fold, method) for method in both]
            if all(lab.store.has(piece) for piece in pair):
                first, second = (float(lab.get(piece)["z_test"]) for piece in pair)
                wins.append((first < second, first / second))
        if wins:
            ratio = math.exp(float(np.mean([math.log(ratio) for _, ratio in wins])))
            won = sum(win for win, _ in wins)
            verdicts.append(f"{table1.plain_title(data)} {ratio:.2f} ({won} of {len(wins)})")
    if verdicts:
        yield (
            "**PST against k-medoids at equal M.** The paper finds PST the more accurate. We find Z(adopting "
            "PST)/Z(k-medoids), "
            "geometric mean (folds that PST wins): " + "; ".join(verdicts) + "."
        )


def _speed(lab: Laboratory) -> Iterator[str]:
    speed_ups = []
    for data in lab.plan.sets:
        piece = speedup.timing(lab, data, speedup.medoids(data))
        if not lab.store.has(piece):
            continue
        entry = speedup.speed_ups(data, lab.get(piece))
        m, printed = SPEED_UPS[data.key]
        speed_ups += [
            f"{table1.plain_title(data)} {times(float(entry.median[place]))}-fold at M = {m:,} "
            f"(N/M = {entry.n / m:.1f}; paper about {printed:.0f})"
            for place in np.flatnonzero(entry.m == m)
        ]
    if speed_ups:
        yield f"**Speed-up.** {'; '.join(speed_ups)}."


def _prediction(lab: Laboratory) -> Iterator[str]:
    predictions = parity.results(lab)
    if predictions:
        last = {data.key: (data, m, entry) for data, m, entry in predictions}
        ratios = "; ".join(
            f"{table1.plain_title(data)} {float(entry['biorthogonal_point_ratio']):.2f} "
            f"(paper's formula {float(entry['paper_point_ratio']):.2f})"
            for data, _, entry in last.values()
        )
        yield (
            "**Predicted errors** over measured ones, root mean square, at the largest M of Figure 4: "
            f"{ratios}."
        )


def _differences(lab: Laboratory) -> str:
    """Say what differs from the paper before the tables that show it."""
    lines = table1.lines(lab)
    text = [
        "**The data.** The paper's trajectories are not public. Ours ship with this package, with the same "
        "molecules, temperatures and numbers of frames: C₂₄H₅₀ with the same united-atom force field, but Langevin "
        "dynamics without explicit water; alanine dipeptide with Amber99SB-ILDN instead of OPLS-AA/L, 20 ns "
        "instead of 50 ns, in which the αL basin is not visited. The Swiss roll has the same formula and our seed.",
        "**The bandwidth** is the smallest connected ε, found exactly in every fold. The paper prints 1 for the "
        "Swiss roll, although its points, too, must be connected from about half of that on; Table 1 has both.",
    ]
    trees = [line for line in lines if line.method.m is None and line.width == CONNECTED]
    if trees:
        shares = "; ".join(
            f"{table1.plain_title(data)} "
            + ", ".join(
                f"{line.method.selector} {100 * line.share:.2f} %" for line in trees if line.data is data
            )
            + f", paper {100 * TABLE_1[data.key].share:.2f} %"
            for data in lab.plan.sets
        )
        text.append(
            "**The pruned spanning tree.** Algorithm 1 to the letter (*literal*) leaves about half of all points as "
            "landmarks; if a random node of the rim instead adopts all its neighbours (*adopting*, our default), "
            f"they are few. Both keep every point within √ε of a landmark. M/N: {shares}. The paper's trees were "
            "probably grown in a third way that the text does not describe."
        )
    text.append(_scatter(lines))
    return "\n\n".join(text)


def _scatter(lines: Sequence[table1.Line]) -> str:
    spreads = [
        100 * line.z_test[1] / line.z_test[0]
        for line in lines
        if line.data.key == "swiss_roll" and line.width == CONNECTED and not math.isnan(line.z_test[1])
    ]
    ours = f" (ours: {min(spreads):.0f} to {max(spreads):.0f} %)" if spreads else ""
    return (
        "**The scatter between folds.** The paper's standard deviations are as large as its means on the Swiss roll"
        f"{ours}. Exchanged or mixed modes in a few folds would give that; the text does not say."
    )


def _provenance(lab: Laboratory) -> str:
    makers = lab.store.makers()
    lines = ["## What made these numbers"]
    parts = [f"Seed {lab.plan.seed}"]
    for name in dict.fromkeys(name for maker in makers for name in maker):
        values = dict.fromkeys(maker[name] for maker in makers if name in maker)
        parts.append(f"{name} {', '.join(values)}")
    lines.append(
        f"{'; '.join(parts)}. Every CSV and figure says what made it. Timings are processor time of one thread, in "
        "interleaved turns."
    )
    return "\n\n".join(lines)
