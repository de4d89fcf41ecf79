"""MOL2 files of several molecules, poses of a docking for one: each is a frame."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError


def mol2_models(path: str) -> Iterator[NDArray[np.float32]]:
    """Yield coordinates in nm, (atoms, 3), of every molecule; raise where one has other atoms than the first."""
    first: list[str] = []
    with open(path, encoding="utf-8", errors="replace") as file:
        sections = "\n".join(line.strip() for line in file).split("@<TRIPOS>")
    for number, atoms in enumerate(section for section in sections if section.startswith("ATOM\n")):
        rows = [line.split() for line in atoms.splitlines()[1:] if line and not line.startswith("#")]
        names = [row[1] for row in rows]
        first = first or names
        if names != first:
            raise InvalidInputError(
                f"molecule {number} of {path} (from 0) has other atoms than the first, {len(names)} and {len(first)}; "
                "frames are of one molecule: write a file for each kind"
            )
        yield np.array([row[2:5] for row in rows], dtype=np.float32) * np.float32(0.1)
