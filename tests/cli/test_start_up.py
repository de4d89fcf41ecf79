"""Commands that embed load what embeds, and nothing that only fits."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap

#: scikit-learn takes scipy.stats and pandas along: more time and memory than all the rest of such a command.
NOT_NEEDED = (
    "sklearn",
    "pandas",
    "scipy.stats",
    "scipy.sparse",
    "scipy.spatial",
    "scipy.optimize",
    "scipy.special",
)
RUN = """
import json, sys
from ldmaps.cli import main
status = main(sys.argv[1:])
print(json.dumps({"status": status, "modules": sorted(sys.modules)}), file=sys.stderr)
"""


@pytest.fixture
def saved(tmp_path):
    rng = np.random.default_rng(0)
    frames = rng.normal(size=(60, 4, 3))
    # As ldmaps fit does by default: the file holds what resampling said.
    LandmarkDiffusionMap("gap", 9.0, n_landmarks=10).fit(rng.normal(size=(60, 3))).save(
        tmp_path / "table.ldm"
    )
    LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=10).fit(frames).save(tmp_path / "frames.ldm")
    np.savetxt(tmp_path / "rows.csv", rng.normal(size=(20, 3)), delimiter=",")
    np.savetxt(tmp_path / "frames.csv", frames[:20].reshape(20, 12), delimiter=",")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["info", "table.ldm"],
        ["info", "frames.ldm"],
        ["embed", "table.ldm", "rows.csv", "-o", "psi.csv"],
        ["embed", "frames.ldm", "frames.csv", "-o", "psi.csv"],
        ["stream", "table.ldm", "rows.csv", "-o", "psi.csv"],
        ["stream", "frames.ldm", "frames.csv", "-o", "psi.csv"],
    ],
    ids=" ".join,
)
def test_a_command_that_embeds_loads_no_estimator(saved, command):
    done = subprocess.run([sys.executable, "-c", RUN, *command], cwd=saved, capture_output=True, check=True)
    report = json.loads(done.stderr.splitlines()[-1])
    assert report["status"] == 0
    assert not [name for name in report["modules"] if name.startswith(NOT_NEEDED)]
