"""Importing the package stays light."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ("numpy", "scipy", "sklearn", "mdtraj", "MDAnalysis", "dask", "matplotlib", "pandas", "openmm", "ot")


def test_importing_ldmaps_loads_nothing_heavy():
    code = "import sys, json, ldmaps; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    assert "ldmaps" in loaded
    assert not [name for name in loaded if name.split(".")[0] in HEAVY or name.startswith("ldmaps.kernels")]


def test_fitting_loads_no_md_or_plotting_package():
    code = (
        "import sys, json, numpy as np; from ldmaps import LandmarkDiffusionMap;"
        "LandmarkDiffusionMap(2, metric='rmsd').fit(np.random.default_rng(0).normal(size=(30, 4, 3)));"
        "print(json.dumps(sorted(sys.modules)))"
    )
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    unwanted = {"mdtraj", "MDAnalysis", "dask", "matplotlib", "openmm", "ot", "torch", "jax", "anndata"}
    assert not [name for name in loaded if name.split(".")[0] in unwanted]
    doors = {
        f"ldmaps.{name}" for name in ("anndata", "array_step", "mdanalysis", "novelty_detector", "torch")
    }
    assert doors.isdisjoint(loaded)


def test_a_fit_needs_no_folder_no_process_and_no_clean_path(tmp_path):
    """It compiles nothing, so that it has no cache to lose."""
    code = (
        "import sys, pathlib; sys.path.insert(0, pathlib.Path('.'))\n"
        "import numpy as np; from ldmaps import LandmarkDiffusionMap\n"
        "def audit(event, args):\n"
        "    written = event == 'open' and isinstance(args[1], str) and set(args[1]) & set('wax+')\n"
        "    if written or event in ('subprocess.Popen', 'os.posix_spawn', 'os.fork', 'os.mkdir'):\n"
        "        print(event, args)\n"
        "sys.dont_write_bytecode = True; sys.addaudithook(audit)\n"
        "LandmarkDiffusionMap(2, metric='rmsd').fit(np.random.default_rng(0).normal(size=(30, 4, 3)))"
    )
    surroundings = {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent", "NUMBA_OPT": "0"}
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, env=surroundings, cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_public_names_are_listed_and_there():
    import ldmaps

    assert set(ldmaps.__all__) <= set(dir(ldmaps))
    for name in ldmaps.__all__:
        assert getattr(ldmaps, name) is not None
