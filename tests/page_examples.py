"""The Python that pages show, to be run as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def python_blocks(page: str, section: str | None = None) -> list[str]:
    """Return the blocks of Python of a page, such as "docs/guide/packages.md", or of one of its sections.

    A section begins with the heading ``## section`` and ends before the next one of that rank.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    if section is not None:
        heading = f"\n## {section}\n"
        assert text.count(heading) == 1, f"{page} has no single section {section}"
        text = text.partition(heading)[2].partition("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run_block(page: str, section: str, number: int, **names: Any) -> dict[str, Any]:
    """Run one block of a section with some names known; return all names afterwards."""
    exec(compile(python_blocks(page, section)[number], page, "exec"), names)
    return names
