"""Fail where a file of the package is covered by less than its share: ``make coverage``.

A total hides files that nobody tests behind those that everybody does, so the limit holds for each file. It reads what
``coverage json`` wrote.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["below", "main", "shares"]

#: Percent of its lines that the tests of a file must run.
LIMIT = 90.0


def shares(report: dict[str, Any]) -> dict[str, float]:
    """Return percent of lines run for each file."""
    return {
        name.replace("\\", "/"): entry["summary"]["percent_covered"]
        for name, entry in report["files"].items()
    }


def below(covered: dict[str, float], limit: float = LIMIT) -> dict[str, float]:
    """Return the files below a limit, the worst first."""
    return dict(
        sorted(((name, share) for name, share in covered.items() if share < limit), key=lambda item: item[1])
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the files below the limit and their missing lines; return the exit status."""
    parser = argparse.ArgumentParser(description="Fail where a file is covered by less than its share.")
    parser.add_argument("report", type=Path, help="what `coverage json` wrote")
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"percent of a file's lines ({LIMIT:g})")
    arguments = parser.parse_args(argv)
    report = json.loads(arguments.report.read_text(encoding="utf-8"))
    covered = shares(report)
    if not covered:
        print(f"coverage: {arguments.report} names no file of the package", file=sys.stderr)
        return 2
    failing = below(covered, arguments.limit)
    for name, share in failing.items():
        missing = ", ".join(str(line) for line in report["files"][name]["missing_lines"])
        print(f"coverage: {name} {share:.1f} % (lines not run: {missing})", file=sys.stderr)
    print(f"coverage: {len(covered) - len(failing)} of {len(covered)} files at {arguments.limit:g} % or more")
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
