"""Finished pieces of the work, each written whole, so that an interrupted run goes on where it stopped.

    Piece(kind, settings) ──► in memory? ──► on disk? ──► compute, write whole, keep

A piece is a set of arrays. Its file's name holds a digest of its settings, so a
result made with other settings is never taken for it, and what made it (commit,
versions, when) is stored with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ldmaps.files import written_whole

__all__ = ["Piece", "Store"]

#: Raised when what the pieces hold changes its meaning, so that older files are computed again.
FORMAT = 1
_MADE_BY = "_made_by"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Piece:
    """A result by name: what kind, of what, with which settings.

    >>> Piece.of("medoids", data="c24h50", fold=0, m=50).label
    'medoids c24h50 fold=0 m=50'
    """

    kind: str
    settings: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, kind: str, **settings: Any) -> Piece:
        """Name a piece; settings must be numbers, text, None or tuples of these."""
        return cls(kind, tuple(sorted(settings.items())))

    def __getitem__(self, name: str) -> Any:
        return dict(self.settings)[name]

    @property
    def label(self) -> str:
        """Name in a few words."""
        words = [str(value) if name == "data" else f"{name}={value}" for name, value in self.settings]
        return " ".join([self.kind, *words])

    def file_name(self, context: Mapping[str, Any]) -> str:
        """Return the name of the file that holds it, given all that is the same for every piece of a run."""
        text = json.dumps([FORMAT, self.kind, self.settings, sorted(context.items())], default=str)
        return f"{self.kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz"


class Store:
    """Pieces in memory and on disk.

    Parameters
    ----------
    folder : Path
        Where files go; created when the first piece is finished.
    context : mapping
        Settings that every piece depends on.
    made_by : mapping
        What is written into each file: commit, versions.
    """

    def __init__(self, folder: Path, context: Mapping[str, Any], made_by: Mapping[str, str]) -> None:
        self.folder = folder
        self.context = dict(context)
        self.made_by = dict(made_by)
        self.computed: list[Piece] = []
        self._memory: dict[Piece, Arrays] = {}
        self._makers: dict[Piece, dict[str, str]] = {}

    def has(self, piece: Piece) -> bool:
        """Say whether a piece is finished."""
        return piece in self._memory or self._path(piece).exists()

    def get(self, piece: Piece, compute: Callable[[Piece], Arrays]) -> Arrays:
        """Return a piece, computed only if it is nowhere yet."""
        if piece not in self._memory:
            arrays = self._read(piece)
            if arrays is None:
                arrays = compute(piece)
                self._write(piece, arrays)
                self.computed.append(piece)
                self._makers[piece] = self.made_by
            self._memory[piece] = arrays
        return self._memory[piece]

    def makers(self, pieces: Iterable[Piece] | None = None) -> list[dict[str, str]]:
        """Return what made some pieces, or all that were used, each maker once."""
        seen: list[dict[str, str]] = []
        for piece in self._makers if pieces is None else pieces:
            maker = self._makers[piece]
            if maker not in seen:
                seen.append(maker)
        return seen

    def _path(self, piece: Piece) -> Path:
        return self.folder / piece.file_name(self.context)

    def _read(self, piece: Piece) -> Arrays | None:
        path = self._path(piece)
        try:
            # Opened here, so that it is closed also when it is no archive.
            with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        except FileNotFoundError:
            return None
        except (BadZipFile, ValueError, OSError, EOFError):
            return None  # spoilt from outside: computed again and replaced
        self._makers[piece] = json.loads(str(arrays.pop(_MADE_BY)))
        return arrays

    def _write(self, piece: Piece, arrays: Arrays) -> None:
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            # Large, and made again by one command: not for version control.
            (self.folder / ".gitignore").write_text("*\n", encoding="utf-8")
        note = {_MADE_BY: np.array(json.dumps(self.made_by))}
        with written_whole(self._path(piece)) as stream:
            np.savez_compressed(stream, **arrays, **note)  # type: ignore[arg-type]
