"""Extending a fitted map by points that it does not cover, without its training points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.absorbing.absorption import Absorption as Absorption
    from ldmaps.absorbing.absorption import absorb as absorb
    from ldmaps.absorbing.landmark_cover import UnreachableError as UnreachableError

load_on_first_use(__name__, {"absorption": "Absorption absorb", "landmark_cover": "UnreachableError"})
