"""What is optional can be deleted: without such a package, all that does not need it still works."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ldmaps

#: Packages and modules that may be deleted, and the commands that need each.
NEEDED_BY = {
    "absorbing": ["absorb"],
    "cluster": [],
    "streaming": ["stream", "watch", "absorb"],
    "analysis": ["report", "plot", "basins", "correlate", "frames", "watch", "demo"],
    "regions": ["report", "basins", "frames", "stream", "watch", "absorb"],
    "export": ["export"],
    "kinetics": ["kinetics"],
    "openmm": [],
    "planning": ["plan"],
    "demo": ["demo"],
    "datasets": ["demo"],
    "anndata.py": [],
    "array_distances.py": [],
    "array_step.py": [],
    "mdanalysis.py": [],
    "novelty_detector.py": [],
    "torch.py": [],
}

#: What is deleted together: what works without all that no command needs works without any part of it.
NO_COMMAND = "all that no command needs"
DELETED = {
    **{package: [package] for package, commands in NEEDED_BY.items() if commands},
    NO_COMMAND: [package for package, commands in NEEDED_BY.items() if not commands],
}

#: A command line of every command, in an order in which each finds the files that it reads.
COMMAND_LINES = {
    "fit": "fit table.csv -o map.ldm --n-landmarks 40 --epsilon 0.3 --n-components 2",
    "info": "info map.ldm --scan",
    "embed": "embed map.ldm table.csv -o psi.csv",
    "plan": "plan table.csv --n-landmarks 20",
    "correlate": "correlate map.ldm --data table.csv",
    "basins": "basins map.ldm -o basins.toml",
    "plot": "plot map.ldm --kind spectrum -o spectrum.svg",
    "report": "report map.ldm -o map.html",
    "kinetics": "kinetics map.ldm table.csv --learn observable --values table.csv:x -o x.ldm",
    "export": "export map.ldm --to plumed -o for_plumed",
    "stream": "stream map.ldm new.csv -o streamed.csv --outside outside.npz",
    "absorb": "absorb map.ldm outside.npz -o larger.ldm --disconnected leave",
    "completion": "completion bash",
    "frames": "frames map.ldm traj.xtc --basin 1 -o basin.xtc",
    "watch": "watch map.ldm new.csv",
    "demo": "demo",
}
#: These take a trajectory, a port or a minute, and so are run only where they must end with a message.
ONLY_REFUSED = ("frames", "watch", "demo")

#: Does the rest in a child process per package: so what takes seconds to import is imported once.
CODE = """
import contextlib, io, json, os, sys, traceback
import matplotlib.pyplot, numpy as np, scipy.optimize, scipy.sparse.linalg, scipy.spatial, sklearn.base
import sklearn.utils.validation

def fit_save_and_load():
    import ldmaps

    points = np.loadtxt("table.csv", delimiter=",", skiprows=1)
    landmarks = ldmaps.LandmarkDiffusionMap(2, 0.3, n_landmarks=40)
    streamed = ldmaps.DiffusionMap(2, 0.3, solver="streamed")
    for model in (landmarks, streamed, ldmaps.DiffusionMap(2, 0.3)):
        model.fit(points).save("saved.ldm")
        found = ldmaps.load("saved.ldm").transform(points[:7])
        np.testing.assert_allclose(found, model.transform(points[:7]), atol=1e-9)
    return ldmaps.__file__

def run(line):
    from ldmaps.cli import main

    printed, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        status = main(line.split())
    return status, said.getvalue()

def report(folder, lines):
    os.chdir(folder)
    sys.path.insert(0, folder)
    try:
        facts = {"used": fit_save_and_load(), "lines": {name: run(line) for name, line in lines.items()}}
    except BaseException:
        facts = {"failed": traceback.format_exc()}
    with open("report.json", "w") as stream:
        json.dump(facts, stream)

for folder, lines in json.loads(sys.argv[1]).items():
    child = os.fork()
    if not child:
        report(folder, lines)
        os._exit(0)
    os.waitpid(child, 0)
"""


def command_lines(needing):
    """Return what to run without what some commands need: help of everything, and a command line of each command."""
    helped = {f"help of {name}": f"{name} --help" for name in COMMAND_LINES}
    lines = {
        name: line for name, line in COMMAND_LINES.items() if name in needing or name not in ONLY_REFUSED
    }
    return {"help": "--help", **helped, **lines}


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Return what fits and commands did with a copy of ldmaps that lacks packages, by their name in DELETED."""
    source = Path(ldmaps.__file__).parent
    rng = np.random.default_rng(0)
    along = np.concatenate([rng.normal(place, 0.5, 100) for place in (-1.5, 1.5)])
    table = np.column_stack([along, rng.normal(0.0, 0.5, 200)])
    outside = np.column_stack([rng.normal(4.0, 0.3, 20), np.zeros(20)])
    folders = {name: tmp_path_factory.mktemp("without") for name in DELETED}
    for deleted, folder in folders.items():
        for name, rows in (("table", table), ("new", np.concatenate([table, outside]))):
            np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header="x,y", comments="")
        # With the bytecode, which stays valid because times are copied as well.
        shutil.copytree(source, folder / "ldmaps")
        for package in DELETED[deleted]:
            unwanted = folder / "ldmaps" / package
            if package.endswith(".py"):
                unwanted.unlink()
            else:
                shutil.rmtree(unwanted)
    work = {str(folder): command_lines(NEEDED_BY.get(deleted, [])) for deleted, folder in folders.items()}
    subprocess.run([sys.executable, "-c", CODE, json.dumps(work)], check=True)
    return {deleted: json.loads((folder / "report.json").read_text()) for deleted, folder in folders.items()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
@pytest.mark.parametrize("deleted", DELETED)
def test_all_but_what_needs_it_works_without_a_package(deleted, reports):
    report = reports[deleted]
    assert "failed" not in report, report["failed"]
    for package in DELETED[deleted]:
        assert not (Path(report["used"]).parent / package).exists()
    for name, (status, said) in report["lines"].items():
        if name not in NEEDED_BY.get(deleted, []):
            assert status == 0, f"{name}: {said}"
            continue
        assert status == 1, f"{name}: {said}"
        assert f"needs the package ldmaps.{deleted}, which is missing" in said
        assert len(said.splitlines()) == 1


def test_every_command_is_in_the_table():
    from ldmaps.cli import COMMANDS

    assert set(COMMAND_LINES) == set(COMMANDS)
    assert {name for needing in NEEDED_BY.values() for name in needing} <= set(COMMANDS)
