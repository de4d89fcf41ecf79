"""Draw ``images/report.png``, the picture of a report: ``python docs/report_picture.py``.

Needs Chromium, which the tests drive the same way.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import alanine_dipeptide
from ldmaps.demo.figure import dihedral
from ldmaps.metrics import RMSD
from ldmaps.views import write_report

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from headless_browser import Browser, find_browser  # noqa: E402


def main() -> None:
    """Fit the map, write its report, and photograph it."""
    molecule = alanine_dipeptide()
    model = LandmarkDiffusionMap(2, metric=RMSD(weights=molecule.masses), n_landmarks=400, verbose=True)
    model.fit(molecule.frames)
    names = list(zip(molecule.residue_names, molecule.atom_names, strict=True))
    phi = [names.index(key) for key in (("ACE", "C"), ("ALA", "N"), ("ALA", "CA"), ("ALA", "C"))]
    browser = find_browser()
    if browser is None:
        sys.exit("no Chromium on PATH; install one, or name it with LDMAPS_BROWSER")
    with tempfile.TemporaryDirectory() as folder, Browser(browser, timeout=120) as chromium:
        path = Path(folder) / "report.html"
        write_report(
            model,
            path,
            title="Alanine dipeptide in water",
            times=molecule.times,
            columns={"φ (°)": dihedral(molecule.frames, phi)},
            errors=model.error_estimate(molecule.frames),
            molecule=molecule,
        )
        page = chromium.open(path.as_uri(), width=1400, height=1060)
        page.choose("colour", "φ (°)")
        page.hover(400, 700)
        (HERE / "images" / "report.png").write_bytes(page.screenshot())
        print(page.problems() or "images/report.png")


if __name__ == "__main__":
    main()
