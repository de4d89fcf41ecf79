"""The Python that pages show, to be run as it is printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def python_blocks(page: str) -> list[str]:
    """Return the blocks of Python of a page, such as "docs/howto/detectors.md"."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run_block(page: str, number: int, **names: Any) -> dict[str, Any]:
    """Run one block of a page with some names known; return all names afterwards."""
    exec(compile(python_blocks(page)[number], page, "exec"), names)
    return names
