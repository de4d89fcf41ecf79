"""Every compiled loop: ``compiled.rows.distance_sums(...)``.

    from ldmaps import compiled

A module of this folder loads at its first use, because numba takes a second to
load and ``import ldmaps`` must not wait for it. Nothing outside this folder
imports numba, and nothing in it imports the rest of the package: the folder's
files are all that decides what is compiled, and :mod:`ldmaps.compiled.jit` keeps
compiled code on disk only as long as none of them changes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = frozenset(
    {
        "blocks",
        "cells",
        "euclidean",
        "euclidean_scans",
        "features",
        "gradient_aligned",
        "gradient_features",
        "gradient_rmsd",
        "gradient_shares",
        "graphs",
        "perturbation",
        "products",
        "rmsd_aligned",
        "rmsd_blocks",
        "rmsd_frames",
        "rows",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
