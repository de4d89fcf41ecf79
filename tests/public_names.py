"""The public names, as docs/reference/api.md lists them."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

#: Modules that cannot be imported without another package.
NEEDS = {"ldmaps.mdanalysis": "MDAnalysis", "ldmaps.torch": "torch"}
API = Path(__file__).parents[1] / "docs" / "reference" / "api.md"


def public_names() -> dict[str, list[str]]:
    """Return the names that docs/reference/api.md lists, by module."""
    listed: dict[str, list[str]] = {}
    module = ""
    for line in API.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"## `(ldmaps[\w.]*)`", line):
            module = heading[1]
            assert module not in listed
            listed[module] = []
        elif row := re.match(r"\| ((?:`\w+`(?:, )?)+) \|", line):
            listed[module] += re.findall(r"`(\w+)`", row[1])
    return listed


def is_installed(module: str) -> bool:
    """Say whether a public module has the package that it needs."""
    return module not in NEEDS or find_spec(NEEDS[module]) is not None
