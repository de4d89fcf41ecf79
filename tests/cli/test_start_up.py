"""Commands that embed load what embeds, and nothing that only fits."""

from __future__ import annotations

import json
import os
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


@pytest.mark.parametrize("moment", ["while it is loaded", "while options are read"])
def test_an_interrupt_before_the_command_runs_is_one_line(moment):
    code = "import sys\n"
    if moment == "while it is loaded":
        code += (
            "class Interrupting:\n"
            "    def find_spec(self, name, *rest):\n"
            "        if name == 'ldmaps.cli': raise KeyboardInterrupt\n"
            "sys.meta_path.insert(0, Interrupting())\n"
        )
    else:
        code += "import ldmaps.cli\ndef parse(argv): raise KeyboardInterrupt\nldmaps.cli.parse = parse\n"
    code += "from ldmaps.__main__ import main\nsys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr == "ldmaps: interrupted; no partial output was left\n"


def test_a_wrong_instruction_set_or_a_damaged_extension_is_no_internal_error(saved, tmp_path):
    table = str(tmp_path / "table.ldm")
    asked = {**os.environ, "LDMAPS_INSTRUCTION_SET": "z80"}
    info = [sys.executable, "-m", "ldmaps", "info", table]
    done = subprocess.run(info, capture_output=True, text=True, env=asked)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "ldmaps: error: ldmaps is not installed as it should be: LDMAPS_INSTRUCTION_SET is"
    )
    assert "internal error" not in done.stderr
    # What the loader raises for a file that is cut off or of another system.
    code = (
        "import sys, ldmaps.cli.info\n"
        "def run(arguments): raise ImportError('kernel.so: file too short', name='k', path='kernel.so')\n"
        "ldmaps.cli.info.run = run\n"
        "from ldmaps.cli import main\n"
        "sys.exit(main(['info', sys.argv[1]]))"
    )
    done = subprocess.run([sys.executable, "-c", code, table], capture_output=True, text=True)
    assert done.returncode == 1
    assert "file too short; install it again with pip install --force-reinstall ldmaps" in done.stderr
