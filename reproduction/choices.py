"""What the reproduction's own choices do to the numbers: atoms and weights, and modes that mix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from reproduction.laboratory import Laboratory, Method
from reproduction.pieces import Piece
from reproduction.plan import CONNECTED, DataPlan
from reproduction.table1 import methods, plain_title
from reproduction.tables import Table, mean_and_spread, percent

__all__ = ["NAME", "TITLE", "pieces", "write"]

NAME = "choices"
TITLE = "What differs from the paper, and why"

VARIANTS = {
    "masses": "all atoms, weighted by mass",
    "equal": "all atoms, equal weights",
    "heavy": "heavy atoms, equal weights",
}


def _methods(data: DataPlan) -> list[Method]:
    middle = data.table_landmarks[len(data.table_landmarks) // 2]
    return [Method("adopting"), Method("kmedoids", middle)]


def pieces(lab: Laboratory) -> Iterator[Piece]:
    """Yield what the comparisons are made of."""
    for key, variant in lab.plan.variants:
        data = lab.plan.of(key)
        for method in _methods(data):
            yield lab.errors(data, 0, method, CONNECTED, variant)
            yield lab.draws(data, 0, method, variant)
    for data in lab.plan.sets:
        for fold in range(lab.plan.waterfall_folds):
            for method in _seeds(data):
                yield lab.errors(data, fold, method)


def _seeds(data: DataPlan) -> tuple[Method, Method]:
    middle = data.table_landmarks[len(data.table_landmarks) // 2]
    return Method("kmedoids", middle), Method("kmedoids from random seeds", middle)


def write(lab: Laboratory, folder: Path, remark: str) -> str:
    """Write the comparisons; return their part of the page."""
    return "\n\n".join([_seeding(lab), _atoms(lab, folder, remark), _mixing(lab, folder, remark)])


def _seeding(lab: Laboratory) -> str:
    table = Table(("data", "M", "Z test from spread seeds, %", "from random seeds, %", "by PST (its M), %"))
    for data in lab.plan.sets:
        pairs = [
            [lab.errors(data, fold, method) for method in (*_seeds(data), Method("adopting"))]
            for fold in range(lab.plan.waterfall_folds)
        ]
        finished = [pair for pair in pairs if all(lab.store.has(piece) for piece in pair)]
        if not finished:
            continue
        spread, random, tree = (
            mean_and_spread(float(lab.get(pair[place])["z_test"]) for pair in finished)[0]
            for place in range(3)
        )
        tree_m = mean_and_spread(float(lab.get(pair[2])["m"]) for pair in finished)[0]
        table.rows.append(
            (
                plain_title(data),
                f"{_seeds(data)[0].m:,}",
                percent(spread),
                percent(random),
                f"{percent(tree)} ({tree_m:,.0f})",
            )
        )
    text = (
        "**K-medoids.** Seeds are drawn far from each other (k-means++) where the paper draws them uniformly. It "
        f"found PST the more accurate beside medoids from such seeds ({lab.plan.waterfall_folds} folds):"
    )
    return f"{text}\n\n{table.markdown()}" if table.rows else text


def _atoms(lab: Laboratory, folder: Path, remark: str) -> str:
    csv_table = Table(
        (
            *("data", "rmsd", "k", "epsilon", "lambda2", "lambda3", "lambda4", "lambda5", "lambda6"),
            *("tree_M", "tree_Z_train", "tree_Z_test", "medoids_M", "medoids_Z_train", "medoids_Z_test"),
            *("tree_Z_train_draws", "medoids_Z_train_draws"),
        )
    )
    for key, variant in lab.plan.variants:
        data = lab.plan.of(key)
        wanted = [lab.errors(data, 0, method, CONNECTED, variant) for method in _methods(data)]
        wanted += [lab.draws(data, 0, method, variant) for method in _methods(data)]
        if not all(lab.store.has(piece) for piece in wanted):
            continue
        exact = lab.get(lab.exact(data, 0, CONNECTED, variant))
        tree, medoids, tree_draws, medoid_draws = (lab.get(piece) for piece in wanted)
        values = [float(value) for value in exact["spectrum"][:5]]
        csv_table.rows.append(
            (
                *(key, VARIANTS[variant], data.n_components, float(exact["epsilon"]), *values),
                *(int(tree["m"]), float(tree["z_train"]), float(tree["z_test"])),
                *(int(medoids["m"]), float(medoids["z_train"]), float(medoids["z_test"])),
                *(" ".join(f"{z:.4g}" for z in draws["z_train"]) for draws in (tree_draws, medoid_draws)),
            )
        )
    if not csv_table.rows:
        return "*Atoms and weights: not computed yet.*"
    csv_table.write_csv(folder / "atoms_and_weights.csv", remark)
    return "\n\n".join(
        [
            "**Which atoms, which weights.** The program that the paper used for distances superimposes and "
            "averages with mass weights by default, and so does every result on this page: [what it "
            "changes](../background/theory.md#which-rmsd), [numbers](atoms_and_weights.csv). For C₂₄H₅₀, whose united "
            "atoms are nearly equal in mass, hardly anything.",
        ]
    )


def _mixing(lab: Laboratory, folder: Path, remark: str) -> str:
    mixed: list[str] = []
    csv_table = Table(("data", "landmarks", "M", "Z_train", "Z_train_rotated", "folds_reordered", "folds"))
    for data in lab.plan.sets:
        for method in methods(data, CONNECTED):
            entries = [
                lab.get(piece)
                for piece in (lab.errors(data, fold, method) for fold in range(lab.plan.n_folds))
                if lab.store.has(piece)
            ]
            if not entries:
                continue
            m, plain, rotated = (
                mean_and_spread(float(entry[name]) for entry in entries)[0]
                for name in ("m", "z_train", "z_rotated")
            )
            reordered = sum(bool(entry["reordered"]) for entry in entries)
            title = {"adopting": "PST, adopting", "literal": "PST, literal"}.get(method.selector, "k-medoids")
            if method.selector == "adopting":
                mixed.append(f"PST on {plain_title(data)}, Z {percent(plain)} → {percent(rotated)} %")
            csv_table.rows.append((data.key, title, m, plain, rotated, reordered, len(entries)))
    if not mixed:
        return ""
    csv_table.write_csv(folder / "mixing.csv", remark)
    return "\n\n".join(
        [
            "**Order, sign and mixing of modes.** Before ζ is computed, columns are matched to the exact map's by "
            "the largest total |cosine| over the training points. The paper does not say how it did this. Modes of "
            "nearly equal λ also mix; a rotation within the k dimensions, used nowhere else, shows how much of Z "
            f"that is: {'; '.join(mixed)} ([numbers](mixing.csv)).",
        ]
    )
