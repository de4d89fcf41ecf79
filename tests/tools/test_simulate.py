"""Streams in simulated worlds keep what they promise, and the simulator finds what breaks a promise."""

import pytest

from tools import simulate


def test_six_hundred_worlds():
    """Each seed a world; ``make simulate`` goes through a hundred thousand."""
    done, happened, failures = simulate.worlds(range(600))
    assert not failures
    assert done == 600
    assert min(happened.values()) > 5, "a kind of fault hardly ever happens"
    assert len(happened) == 15


@pytest.mark.parametrize("bug", simulate.PLANTED)
def test_planted_bugs_are_found(bug):
    with simulate.planted(bug) as unsynced:
        done, _, failures = simulate.worlds(range(10_000), unsynced, stop_at=1)
    assert failures, f"not found in {done} worlds"


def test_a_seed_replays_a_failure_with_the_fewest_faults(capsys):
    with simulate.planted("outputs not cut back"):
        _, _, (failure,) = simulate.worlds(range(10_000), stop_at=1)
        seed = int(failure.partition(":")[0].removeprefix("seed "))
        assert simulate.main(["--seed", str(seed)]) == 1
    assert failure in capsys.readouterr().out
    assert simulate.main(["--seed", str(seed)]) == 0
