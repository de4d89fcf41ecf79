"""A minute of what ``make fuzz`` does for ten, and that its limits and replays work."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tools import fuzz

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip(
    "starlette", reason="one target is the live page: pip install starlette uvicorn websockets"
)


@pytest.mark.slow
def test_a_quarter_of_a_minute_of_hostile_input_finds_nothing():
    command = [sys.executable, str(ROOT / "tools" / "fuzz.py"), "--seconds", "15", "--seed", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for target in fuzz.TARGETS:
        assert f"{target.__name__} " in done.stdout


class Nowhere:
    def __init__(self, folder):
        self.folder = folder


def test_an_attempt_is_decided_by_its_seed_and_number(tmp_path):
    drawn = []

    def target(world, rng, folder):
        drawn.append(rng.integers(2**60))

    for seed, number in ((1, 2), (1, 2), (1, 3), (2, 2)):
        assert fuzz.attempt(Nowhere(tmp_path), target, seed, number) is None
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 3


def test_foreign_errors_and_slow_attempts_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "PATIENCE", 0.1)

    def foreign(world, rng, folder):
        raise KeyError("mark")

    def slow(world, rng, folder):
        time.sleep(60)

    assert isinstance(fuzz.attempt(Nowhere(tmp_path), foreign, 0, 0), KeyError)
    if hasattr(fuzz.signal, "setitimer"):
        assert isinstance(fuzz.attempt(Nowhere(tmp_path), slow, 0, 0), fuzz.TooSlowError)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the limit is set through /proc")
def test_memory_is_bounded():
    code = (
        "import sys; sys.path.insert(0, 'tools')\n"
        "import fuzz, numpy as np\n"
        "fuzz.bound_memory(1 << 28)\n"
        "try:\n    np.ones(1 << 27)\nexcept MemoryError:\n    print('bounded')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "bounded"


def test_what_is_damaged_differs_and_what_is_altered_stays_json():
    import json

    from tools.fuzz_damage import altered, spoiled

    rng = np.random.default_rng(0)
    data = bytes(range(200))
    assert sum(spoiled(rng, data) != data for _ in range(50)) > 40
    value = {"a": [1, {"b": 2}], "c": "d"}
    made = [altered(rng, value) for _ in range(50)]
    assert sum(one != value for one in made) > 40
    for one in made:
        json.dumps(one)
