"""The sensor example runs, and its numbers are what it says they are."""

from itertools import pairwise

import numpy as np
import pytest

EXAMPLE = "sensor_anomalies"


@pytest.mark.slow
def test_it_runs_from_the_command_line_and_the_map_finds_more_than_the_others(example, tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (pip install matplotlib)")
    outcome = example.main(["--quick", "--output", str(tmp_path / "figure.png")])
    assert (tmp_path / "figure.png").stat().st_size > 20_000
    printed = capsys.readouterr().out
    assert "8000 records with 20 faults" in printed
    assert "precision" in printed
    ours = outcome.marks["diffusion map"]
    for name in ("z-score", "isolation forest"):
        assert ours.records["all"] > outcome.marks[name].records["all"]
    assert ours.false_share < 0.03
    assert ours.record_precision > 0.85
    assert outcome.learned.regimes[1] < 0.5 * outcome.learned.regimes[0]
    assert outcome.learned.others[1] > 0.8 * outcome.learned.others[0]


def test_faults_do_not_overlap_and_are_in_the_stream(example):
    rng = np.random.default_rng(0)
    values, faults = example.faulty_stream(6000, 4, rng)
    assert sorted(fault.kind for fault in faults) == sorted(np.repeat(example.KINDS, 4).tolist())
    assert all(first.stop < second.start for first, second in pairwise(faults))
    assert np.isfinite(values).all()
    for fault in faults:
        if fault.kind == "stuck":
            part = values[fault.start : fault.stop]
            assert (part == part[0]).all(axis=0).sum() == 1


def test_the_marks_of_alarms_worked_out_by_hand(example):
    faults = [
        example.Fault("spike", 10, 12),
        example.Fault("stuck", 30, 40),
        example.Fault("phase slip", 60, 70),
        example.Fault("new regime", 80, 90),
    ]
    alarms = np.zeros(120, dtype=bool)
    alarms[[11, 12, 13]] = True  # one of the spike's two records, and two in the grace after it
    alarms[35:40] = True  # half of the stuck sensor
    alarms[100:103] = True  # nothing there
    marks = example.judge(alarms, faults)
    assert marks.events == {"spike": 1.0, "stuck": 1.0, "phase slip": 0.0, "new regime": 0.0, "all": 0.5}
    assert marks.records == {
        "spike": 0.5,
        "stuck": 0.5,
        "phase slip": 0.0,
        "new regime": 0.0,
        "all": pytest.approx(6 / 32),
    }
    assert marks.event_precision == pytest.approx(2 / 3)
    assert marks.record_precision == pytest.approx(8 / 11)
    assert marks.false_share == pytest.approx(3 / (120 - 32 - 20))


def test_the_budget_is_kept_on_the_records_it_was_set_on(example):
    normal = np.random.default_rng(0).random(20_000)
    alarms = example.alarms_of_score(normal, normal)
    # Each alarm lasts for LEAVE_AFTER records at most beyond the record that raised it.
    assert example.BUDGET * 0.9 < alarms.mean() < example.BUDGET * (example.LEAVE_AFTER + 1)
