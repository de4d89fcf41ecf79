"""A map as input of PLUMED or Colvars, so that any engine can compute, bias and print its coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.export.comparison import check_export as check_export
    from ldmaps.export.folder import export_map as export_map

load_on_first_use(__name__, {"comparison": "check_export", "folder": "export_map"})
