"""The replica example, reduced: it escapes, counts right, and draws."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("openmm", reason="openmm is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

EXAMPLE = "replica_reset"


@pytest.mark.slow
def test_a_reduced_run(example, tmp_path, capsys):
    picture = tmp_path / "escapes.png"
    replicas = example.main(["--quick", "--seed", "3", "--output", str(picture)])
    printed = capsys.readouterr().out
    assert "basins: extended" in printed
    assert "per ns" in printed
    assert "out of the map's domain" in printed
    assert picture.read_bytes().startswith(b"\x89PNG")

    assert len(replicas) == 2
    escapes = [escape for replica in replicas for escape in replica.escapes]
    assert escapes  # about seven are expected; none at all once in a thousand runs
    for replica in replicas:
        assert 20_000 <= replica.steps_done <= 20_000 + example.SETTLING
        finished = sum(escape.waited for escape in replica.escapes)
        assert replica.waited == pytest.approx(finished + (replica.unfinished or 0.0))
        assert 0 < replica.waited < 20_000 * example.TIME_STEP
        basin = replica.reporter.tracker.regions[example.START]
        for escape in replica.escapes:
            assert escape.waited > 0
            outside = basin.membership(escape.way_out) < basin.leave
            assert outside[-example.GONE_AFTER :].all()  # out, and for long enough
            assert len(outside) == example.TRAIL
            assert not outside.all()  # the way out begins in the basin


def test_rate_interval_covers_as_it_says(example):
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(2000):
        waits = rng.exponential(1 / 0.5, 60).cumsum()
        n = int((waits < 20.0).sum())
        _, low, high = example.rate_of(n, 20.0)
        covered.append(low <= 0.5 <= high)
    assert 0.94 < np.mean(covered) <= 0.99
    assert example.rate_of(0, 10.0)[:2] == (0.0, 0.0)
