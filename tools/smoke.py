"""Use an installed ldmaps as a newcomer would: ``tools/package.py`` runs this in an empty environment.

It runs with ``python -I`` in an empty folder. Its only argument is the folder of the sources, of which nothing may be
taken. It tries what an installation can break (files that ship, commands, declared dependencies); whether
results are right is what the tests say.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np

#: What the package must not need: each is an extra.
EXTRAS = (
    "matplotlib",
    "mdtraj",
    "MDAnalysis",
    "pyarrow",
    "dask",
    "zarr",
    "openmm",
    "redis",
    "starlette",
    "ot",
)


def command(*arguments: str) -> str:
    """Run ``ldmaps`` as the installation put it there, and return what it printed."""
    script = Path(sysconfig.get_path("scripts")) / ("ldmaps.exe" if sys.platform == "win32" else "ldmaps")
    done = subprocess.run([script, *arguments], capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, f"ldmaps {' '.join(arguments)} ended with {done.returncode}\n{done.stderr}"
    return done.stdout


def check_installation(sources: Path) -> None:
    """See that the package is the installed one, complete and without extras."""
    import ldmaps

    home = Path(ldmaps.__file__).resolve()
    assert sources.resolve() not in home.parents, f"{home} is in the sources"
    assert version("ldmaps") == ldmaps.__version__
    assert files("ldmaps").joinpath("py.typed").is_file()
    lent = [name for name in EXTRAS if find_spec(name)]
    assert not lent, f"an empty environment has {', '.join(lent)}"
    for outside in ("tests", "reproduction", "benchmarks", "tools"):
        assert find_spec(outside) is None, f"the installation brought the package {outside}"


def check_estimators() -> None:
    """Load bundled data, fit both maps, embed new points."""
    from ldmaps import DiffusionMap, LandmarkDiffusionMap
    from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll

    molecule = alanine_dipeptide(stride=50)
    assert molecule.frames.shape[1:] == (22, 3)
    assert c24h50(stride=50).frames.shape[1:] == (24, 3)
    model = LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=40).fit(molecule.frames[:400])
    assert np.isfinite(model.transform(molecule.frames[400:])).all()
    points = swiss_roll(300, random_state=0).points
    exact = DiffusionMap(2, epsilon="connected").fit(points)
    assert np.allclose(exact.transform(points), exact.embedding_)


def check_commands() -> None:
    """Fit, describe, embed and show a table with the commands, and read their model in Python."""
    from ldmaps import __version__, load

    assert command("--version").strip().endswith(__version__)
    rows = np.random.default_rng(0).normal(size=(200, 3))
    np.savetxt("rows.csv", rows, delimiter=",", header="a,b,c", comments="")
    command("fit", "rows.csv", "-o", "map.ldm", "-m", "20", "--n-components", "2", "--quiet")
    assert "20" in command("info", "map.ldm")
    command("embed", "map.ldm", "rows.csv", "-o", "psi.csv", "--quiet")
    with open("psi.csv", newline="", encoding="utf-8") as table:
        written = list(csv.DictReader(table))
    embedded = np.array([[float(row["psi2"]), float(row["psi3"])] for row in written])
    assert np.allclose(embedded, load("map.ldm").transform(rows))
    command("report", "map.ldm", "-o", "map.html", "--quiet")
    assert "<script" in Path("map.html").read_text(encoding="utf-8")


if __name__ == "__main__":
    check_installation(Path(sys.argv[1]))
    check_commands()
    check_estimators()
    print(
        f"smoke test passed: ldmaps {version('ldmaps')}, Python {sys.version.split()[0]}, numpy {np.__version__}"
    )
