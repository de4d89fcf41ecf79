"""One frame that cannot be made whole is rejected alone; a stream of which none can be is refused."""

from __future__ import annotations

import numpy as np
import pytest
from written_trajectories import mdtraj_trajectory

from ldmaps.errors import InvalidInputError
from ldmaps.inputs.frame_blocks import block_of
from ldmaps.streaming.sources.chosen_atoms import ChosenAtoms

pytest.importorskip("mdtraj", reason="mdtraj names the atoms")
BOX = 2.5 * np.eye(3)


@pytest.fixture(scope="module")
def trajectory():
    return mdtraj_trajectory(1000)[:4]


@pytest.fixture
def chosen(trajectory):
    """Atoms without bonds: only in a box that is large beside the molecule is it clear that it is whole."""
    topology = trajectory.topology.copy()
    topology._bonds = []
    return ChosenAtoms("the stream", top=topology)


def boxes(*is_small):
    return np.stack([0.6 * np.eye(3) if small else BOX for small in is_small])


def test_a_frame_in_the_middle_is_rejected_alone(chosen, trajectory):
    numbers = np.arange(10, 14)
    chunk, good, rejected = chosen.take(
        block_of(trajectory.xyz, None, boxes(False, False, True, False)), numbers
    )
    np.testing.assert_array_equal(good, [True, True, False, True])
    assert [one.number for one in rejected] == [12]
    assert "the stream" in rejected[0].reason
    frames = [trajectory.xyz[row : row + 1] for row in (0, 1, 3)]
    alone = [chosen.take(block_of(one, None, BOX[None]), numbers[:1])[0].frames for one in frames]
    np.testing.assert_array_equal(chunk.frames, np.concatenate(alone))
    np.testing.assert_array_equal(chunk.numbers, [10, 11, 13])


def test_a_stream_without_one_good_frame_is_refused(chosen, trajectory):
    with pytest.raises(InvalidInputError, match="the stream"):
        chosen.take(block_of(trajectory.xyz, None, boxes(True, True, True, True)), np.arange(4))


def test_bad_frames_after_good_ones_are_only_rejected(chosen, trajectory):
    assert chosen.take(block_of(trajectory.xyz[:1], None, BOX[None]), np.arange(1))[2] == ()
    chunk, good, rejected = chosen.take(
        block_of(trajectory.xyz[1:3], None, boxes(True, True)), np.arange(1, 3)
    )
    assert chunk.frames.shape == (0, chosen.n_atoms, 3)
    assert not good.any()
    assert [one.number for one in rejected] == [1, 2]


def test_atoms_without_a_topology(trajectory):
    chosen = ChosenAtoms("the stream", n_atoms=22)
    assert (chosen.n_to_read, chosen.to_read, chosen.can_repair) == (22, None, False)
    assert list(chosen) == []
    chunk, _, _ = chosen.take(block_of(trajectory.xyz), np.arange(4))
    np.testing.assert_array_equal(chunk.frames, trajectory.xyz)
    assert ChosenAtoms("the stream", model_facts={"takes_frames": True, "n_features": 66}).n_atoms == 22
    with pytest.raises(InvalidInputError, match="the stream has 21 atoms per frame, but 22 were expected"):
        chosen.check_count(21)
    chosen.check_count(22)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "the stream: how many atoms a frame has is not known; give a topology"),
        ({"select": "name CA", "n_atoms": 22}, "to choose the atoms 'name CA' give a topology"),
        (
            {"n_atoms": 21, "model_facts": {"n_features": 66}},
            "the stream has 21 atoms, but the map takes 66 numbers; choose the atoms",
        ),
    ],
)
def test_atoms_that_cannot_be_the_maps(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        ChosenAtoms("the stream", **settings)
