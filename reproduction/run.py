"""One command for the whole reproduction: ``python -m reproduction``.

    plan ──► pieces, in the order of the results ──► CSV, figures, page

The page is written again after every result, so that an interrupted run leaves
what it has; the next run goes on from the pieces that are finished.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ldmaps._version import __version__
from ldmaps.analysis.plot import import_pyplot
from ldmaps.errors import LdmapsError
from ldmaps.progress import Progress, stage
from reproduction import choices, figure2, page, parity, speedup, table1, table_s, waterfalls
from reproduction.exact_maps import make_exact
from reproduction.laboratory import Laboratory, Maker
from reproduction.landmark_maps import make_draws, make_embeddings, make_errors, make_landmarks
from reproduction.page import Result
from reproduction.pieces import Piece, Store
from reproduction.plan import Plan, full_plan, reduced_plan
from reproduction.printed import TABLE_1
from reproduction.provenance import made_by

__all__ = ["RESULTS", "laboratory", "main", "run"]

#: In the order in which they are computed: what matters most comes first.
RESULTS: tuple[Result, ...] = (table1, figure2, speedup, parity, choices, waterfalls, table_s)

#: How each kind of piece is computed.
MAKERS: dict[str, Maker] = {
    "exact": make_exact,
    "landmarks": make_landmarks,
    "errors": make_errors,
    "draws": make_draws,
    "embeddings": make_embeddings,
    "parity": parity.make_parity,
    "timing": speedup.make_timing,
}

_log = logging.getLogger("reproduction")


def laboratory(plan: Plan, cache: Path, n_threads: int | None = None) -> Laboratory:
    """Return where a plan's pieces are made and kept."""
    context = {"seed": plan.seed, "ldmaps": __version__}
    return Laboratory(plan, Store(cache, context, made_by()), MAKERS, n_threads)


def run(
    lab: Laboratory,
    output: Path,
    only: Iterable[str] = (),
    *,
    compute: bool = True,
    progress: Progress | None = None,
) -> Path:
    """Compute what is not finished yet, write tables, figures and page; return the page's path.

    Parameters
    ----------
    output : Path
        Folder for the results.
    only : iterable of str
        Names of results to compute; all by default.
    compute : bool
        False writes the page from what is finished.
    """
    wanted = [result for result in RESULTS if not only or result.NAME in set(only)]
    output.mkdir(parents=True, exist_ok=True)
    written: dict[str, tuple[int, str]] = {}
    if compute:
        _compute(lab, wanted, output, progress or Progress(show=False), written)
    return page.write(lab, RESULTS, output, written)


def _compute(
    lab: Laboratory,
    wanted: Sequence[Result],
    output: Path,
    progress: Progress,
    written: dict[str, tuple[int, str]],
) -> None:
    waiting: list[tuple[Result, list[Piece]]] = []
    counted: set[Piece] = set()
    total = 0
    for result in wanted:
        own = [piece for piece in result.pieces(lab) if not lab.store.has(piece)]
        total += sum(_cost(lab, piece) for piece in own if piece not in counted)
        counted.update(own)
        waiting.append((result, own))
    counted.clear()
    with progress.stage("paper", max(total, 1), "s of work") as bar:
        for result, own in waiting:
            for piece in own:
                if piece in counted:
                    continue
                counted.add(piece)
                bar.name = f"{result.NAME}: {piece.kind} {piece['data']} fold {piece['fold'] + 1}"
                bar.advance(0)
                start = time.perf_counter()
                # A stage of its own catches the ticks of the loops inside, which count rows.
                with stage(piece.kind):
                    lab.get(piece)
                bar.advance(_cost(lab, piece))
                _log.info(
                    "%s: %s (%.1f s; %d of %d s of work)",
                    *(result.NAME, piece.label, time.perf_counter() - start, bar.done, total),
                )
            page.write(lab, RESULTS, output, written)


def _cost(lab: Laboratory, piece: Piece) -> int:
    """Guess a piece's seconds, for the bar."""
    n = 0.8 * piece["n_points"]
    pairs = (n / 20_000) ** 2
    if piece.kind != "errors":
        return max(1, int(20 * pairs))
    selector, m, extension = piece["method"]
    if selector == "literal" or m == "literal":
        m = n / 2
    elif not isinstance(m, int):
        m = TABLE_1[piece["data"]].tree.n_landmarks * n / 16_000
    shared = 10 * pairs / 5  # of the exact map, which the first of some five errors makes
    if extension == "distilled":
        return max(1, int(shared + 15 * (n / 20_000) * (m / 2500) ** 2 + (8 if m <= 600 else 0)))
    return max(1, int(shared + 15 * (m / 8000) ** 2 + n * m * 2e-8))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the reproduction from command-line arguments; return the exit status."""
    arguments = _parser().parse_args(argv)
    plan = reduced_plan(arguments.seed) if arguments.reduced else full_plan(arguments.seed)
    if arguments.folds:
        n_folds, n_waterfalls = (
            min(arguments.folds, known) for known in (plan.n_folds, plan.waterfall_folds)
        )
        plan = replace(plan, n_folds=n_folds, waterfall_folds=n_waterfalls)
    output = arguments.output or Path("paper-reduced" if arguments.reduced else "paper")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    progress = Progress(show=None)
    level = _log.level
    if not progress.visible:  # a log file gets lines, a terminal the bar
        _log.addHandler(handler)
        _log.setLevel(logging.INFO)
    start = time.perf_counter()
    try:
        import_pyplot()  # before an hour's work, not after it
        lab = laboratory(plan, arguments.cache or output / "cache", arguments.threads)
        written = run(lab, output, arguments.only, compute=not arguments.page_only, progress=progress)
    except LdmapsError as error:
        print(f"reproduction: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("reproduction: interrupted; what is finished is kept, run again to go on", file=sys.stderr)
        return 130
    finally:
        _log.removeHandler(handler)
        _log.setLevel(level)
    made = len(lab.store.computed)
    print(f"{written}: {made} pieces computed in {time.perf_counter() - start:.0f} s")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m reproduction",
        description="Compute the paper's tables and figures again. "
        "Takes up to an hour on two cores; can be interrupted and run again.",
    )
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where results go (default: paper, or paper-reduced)"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="FOLDER",
        help="where finished pieces are kept (default: cache in the output folder)",
    )
    parser.add_argument(
        "--reduced", action="store_true", help="about a thousand points of each set: under a minute"
    )
    parser.add_argument(
        "--only",
        type=_names,
        default=(),
        metavar="NAMES",
        help=f"some results, separated by commas: {', '.join(result.NAME for result in RESULTS)}",
    )
    parser.add_argument(
        "--folds", type=int, help="folds of Table 1 to do, at most (default: 5; one takes ten minutes)"
    )
    parser.add_argument("--page-only", action="store_true", help="compute nothing, write what is finished")
    parser.add_argument("--seed", type=int, default=0, help="seed of data, folds and landmarks (default: 0)")
    parser.add_argument("--threads", type=int, help="threads (default: every core); timings always use one")
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    names_of_results = [result.NAME for result in RESULTS]
    for name in names:
        if name not in names_of_results:
            raise argparse.ArgumentTypeError(
                f"{name!r} is no result; known are {', '.join(names_of_results)}"
            )
    return names


if __name__ == "__main__":
    sys.exit(main())
