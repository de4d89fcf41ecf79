"""``ldmaps fit`` says by what it compares frames, and whether the other way shows a slower motion."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from ldmaps.cli import fit, main
from ldmaps.errors import InvalidInputError

mdtraj = pytest.importorskip("mdtraj")

N_FRAMES, SLOW = 1500, (1, 2, 3, 4)


def beads():
    """A stiff chain but for two torsions: one of two states that change every 50 frames, one that turns freely."""
    rng = np.random.default_rng(0)
    state = np.cumsum(rng.uniform(size=N_FRAMES) < 0.02) % 2
    torsions = np.full((N_FRAMES, 4), np.pi)
    torsions[:, 1] = np.where(state, 1.2, -1.2) + 0.1 * rng.normal(size=N_FRAMES)
    torsions[:, 3] = rng.uniform(-np.pi, np.pi, N_FRAMES)
    frames = np.zeros((N_FRAMES, 7, 3))
    frames[:, 1, 0], frames[:, 2] = 0.38, [0.5, 0.36, 0.0]
    for bead in range(3, 7):
        a, b, c = frames[:, bead - 3], frames[:, bead - 2], frames[:, bead - 1]
        along = (c - b) / np.linalg.norm(c - b, axis=1, keepdims=True)
        across = np.cross(b - a, along)
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        turn, bend = torsions[:, bead - 3, None], 1.9
        side = np.cos(turn) * np.cross(across, along) + np.sin(turn) * across
        frames[:, bead] = c + 0.38 * (-np.cos(bend) * along + np.sin(bend) * side)
    return frames + 0.01 * rng.normal(size=frames.shape), state


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    folder, (frames, state) = tmp_path_factory.mktemp("beads"), beads()
    topology = mdtraj.Topology()
    residue = topology.add_residue("CHN", topology.add_chain())
    atoms = [topology.add_atom(f"B{n}", mdtraj.element.virtual, residue) for n in range(frames.shape[1])]
    for left, right in itertools.pairwise(atoms):
        topology.add_bond(left, right)
    trajectory = mdtraj.Trajectory(frames.astype(np.float32), topology)
    trajectory[0].save_pdb(str(folder / "top.pdb"))
    trajectory.save_xtc(str(folder / "run.xtc"))
    return [
        "fit",
        str(folder / "run.xtc"),
        "-t",
        str(folder / "top.pdb"),
        "-m",
        "60",
        "--n-components",
        "2",
        "--epsilon",
        "connected",
    ], state


def line_of(arguments, tmp_path, capsys, *options):
    assert main([*arguments, "-o", str(tmp_path / "map.ldm"), "-f", *options]) == 0
    said = capsys.readouterr().err.replace("\n    ", " ")  # long lines are wrapped
    return next(line for line in said.splitlines() if line.startswith("representation: "))


def test_a_fit_tries_the_other_representation(chain, tmp_path, capsys):
    line = line_of(chain[0], tmp_path, capsys)
    assert line.startswith("representation: RMSD of 7 atoms; dihedrals ")
    assert line.count(" ps") + line.count("none") == 2
    assert "tested on 300 frames)" in line
    line = line_of(chain[0], tmp_path, capsys, "--features", "dihedrals")
    assert line.startswith("representation: 4 dihedrals; RMSD ")
    assert main([*chain[0], "-o", str(tmp_path / "map.ldm"), "-f", "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["representation"].startswith("representation: RMSD of 7 atoms")


def test_what_is_remembered_is_the_time_of_the_slowest_motion(chain, tmp_path):
    from ldmaps.cli import parse
    from ldmaps.correlation_times import correlation_time
    from ldmaps.metrics import Features

    arguments = parse([*chain[0], "-o", str(tmp_path / "map.ldm")])
    time, error, unit = fit._remembers(arguments, Features(7, dihedrals=[SLOW]), 5, 30)
    assert unit == "ps"
    expected = correlation_time(chain[1][::5].astype(float), [slice(0, N_FRAMES // 5)])
    assert time == pytest.approx(5 * expected.time, abs=10 * expected.error)
    assert error > 0


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (
            (10.0, 1.0, "ps"),
            (40.0, 5.0, "ps"),
            "would resolve a slower motion "
            "(longest reproducible correlation time: 40.0 ± 5.0 ps, compared with 10.0 ± 1.0 ps;",
        ),
        (
            (10.0, 1.0, "ps"),
            (14.0, 0.1, "ps"),
            "would not resolve a slower motion "
            "(longest reproducible correlation time: 14.00 ± 0.10 ps, compared with 10.0 ± 1.0 ps;",
        ),
        (
            (10.0, 9.0, "ps"),
            (20.0, 9.0, "ps"),
            "may resolve a slower motion, but within two standard errors "
            "(longest reproducible correlation time: 20.0 ± 9.0 ps, compared with 10.0 ± 9.0 ps;",
        ),
        (
            None,
            (9.0, 1.0, "ps"),
            "would resolve a slower motion (longest reproducible correlation time: 9.0 ± 1.0 ps, compared with none;",
        ),
        (
            (9.0, 1.0, "ps"),
            None,
            "would not resolve a slower motion "
            "(longest reproducible correlation time: none, compared with 9.0 ± 1.0 ps;",
        ),
    ],
)
def test_slower_is_half_as_long_again_and_beyond_two_errors(
    chain, tmp_path, capsys, monkeypatch, ours, theirs, said
):
    found = iter([ours, theirs])
    monkeypatch.setattr(fit, "_remembers", lambda *_: next(found))
    line = line_of(chain[0], tmp_path, capsys)
    assert f"; dihedrals {said}" in line
    assert line.endswith("try it, --features dihedrals") == said.startswith("would resolve")


def test_a_trial_that_fails_leaves_the_map(chain, tmp_path, capsys, monkeypatch):
    def fail(*_):
        raise InvalidInputError("no such luck")

    monkeypatch.setattr(fit, "_remembers", fail)
    assert line_of(chain[0], tmp_path, capsys).endswith("dihedrals could not be compared (no such luck)")
    monkeypatch.setattr(fit, "said_of_representation", fail)
    assert main([*chain[0], "-o", str(tmp_path / "map.ldm"), "-f", "-q"]) == 0  # nobody would hear of it


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--stop", "900"], "RMSD of 7 atoms; dihedrals not compared (needs at least 1,000 frames"),
        (
            ["--select", "index 0 to 2"],
            "RMSD of 3 atoms; dihedrals were not compared, because these atoms have no torsions",
        ),
    ],
)
def test_what_was_not_tried_is_said(chain, tmp_path, capsys, options, said):
    assert f"representation: {said}" in line_of(chain[0], tmp_path, capsys, *options)
