"""How a map is fitted: one file a stage, values in, values out. Begin with :mod:`ldmaps.fit.fit_map`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.fit.certify import Certificate as Certificate

load_on_first_use(__name__, {"certify": "Certificate"})
