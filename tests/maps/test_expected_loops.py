"""The lists of loops that a first fit has compiled beforehand are those that fits call."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from numba.core import event

from ldmaps import DiffusionMap, LandmarkDiffusionMap, compiled
from ldmaps.compiled import ahead, on_disk
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.maps import diffusion_map, landmark_diffusion_map
from ldmaps.metrics import RMSD

ROLL = swiss_roll(1500).points
WIDE = np.random.default_rng(0).normal(size=(1500, 40))
FRAMES = alanine_dipeptide(stride=20).frames
#: Called while points are prepared, before it is known which loops follow.
EARLY = {"rmsd_frames.prepare_frames"}
#: Called or not as the data are.
SOMETIMES = {"graphs.block_tree"}

FITS = {
    "landmarks, 3 features": (LandmarkDiffusionMap(2, n_landmarks=60), ROLL),
    "landmarks, 3 features, single": (LandmarkDiffusionMap(2, n_landmarks=60), ROLL.astype(np.float32)),
    "landmarks, 12 features": (LandmarkDiffusionMap(2, n_landmarks=60), WIDE[:, :12]),
    "tolerance, 12 features": (LandmarkDiffusionMap(2, tolerance=20.0), WIDE[:, :12]),
    "landmarks, 40 features": (LandmarkDiffusionMap(2, n_landmarks=60), WIDE),
    "landmarks, 40 features, single": (LandmarkDiffusionMap(2, n_landmarks=60), WIDE.astype(np.float32)),
    "spanning tree, 3 features": (LandmarkDiffusionMap(2, landmarks="pst"), ROLL),
    "tolerance, 3 features": (LandmarkDiffusionMap(2, tolerance=5.0), ROLL),
    "exact, 3 features": (DiffusionMap(2), ROLL),
    "landmarks, frames": (LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=60), FRAMES),
    "landmarks, double frames": (
        LandmarkDiffusionMap(2, metric="rmsd", n_landmarks=60),
        FRAMES.astype(np.float64),
    ),
    "spanning tree, frames": (LandmarkDiffusionMap(2, metric="rmsd", landmarks="pst"), FRAMES),
    "tolerance, frames": (LandmarkDiffusionMap(2, metric="rmsd", tolerance=5.0), FRAMES),
    "exact, frames": (DiffusionMap(2, metric="rmsd"), FRAMES),
}


@pytest.fixture
def asked(monkeypatch):
    """The loops that are asked for from now on, but not by other loops: those of the fit itself."""
    depth, loops = [0], []

    class Depth(event.Listener):
        def on_start(self, event):
            depth[0] += 1

        def on_end(self, event):
            depth[0] -= 1

    load = on_disk.CodeOnDisk.load_overload

    def noted(self, sig, target_context):
        if not depth[0]:
            loops.append((self._loop, sig))
        return load(self, sig, target_context)

    monkeypatch.setattr(on_disk.CodeOnDisk, "load_overload", noted)
    for path in Path(compiled.__file__).parent.glob("*.py"):
        for loop in vars(import_module(f"ldmaps.compiled.{path.stem}")).values():
            if isinstance(getattr(loop, "_cache", None), on_disk.CodeOnDisk):
                loop._reset_overloads()  # so that each is asked for again
    with event.install_listener("numba:compile", Depth()):
        yield loops


@pytest.mark.parametrize("name", FITS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fit_calls_the_loops_that_are_expected_and_no_others(name, asked, monkeypatch):
    expected = []
    for module in (diffusion_map, landmark_diffusion_map):
        monkeypatch.setattr(module, "expect", expected.extend)
    model, X = FITS[name]
    model.fit(X)
    called = {loop for loop in asked if loop[0] not in EARLY | SOMETIMES}
    assert {tuple(ahead._Loop.parse(text)) for text in expected} == called


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_metrics_that_the_lists_do_not_know_expect_nothing(monkeypatch):
    expected = []
    for module in (diffusion_map, landmark_diffusion_map):
        monkeypatch.setattr(module, "expect", expected.extend)
    few = FRAMES[:200]
    LandmarkDiffusionMap(2, metric=RMSD(align=[1, 4, 5, 6, 8]), n_landmarks=30).fit(few)
    LandmarkDiffusionMap(2, metric="periodic", n_landmarks=30).fit(ROLL[:200])
    DiffusionMap(2, metric="hamming").fit(np.random.default_rng(0).integers(0, 2, (60, 20)))
    assert expected == []
