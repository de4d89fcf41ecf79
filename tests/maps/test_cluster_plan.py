from __future__ import annotations

import json

import pytest

from ldmaps.cli import main
from ldmaps.cluster.reading import ROW_BYTES
from ldmaps.errors import InvalidInputError
from ldmaps.maps import cluster_plan
from ldmaps.maps.cluster_plan import plan_on_workers


@pytest.fixture
def same_machine(monkeypatch):
    """Let all plans of a test have the same measured speeds."""
    from ldmaps.maps import planning

    measured = {}

    def once(metric, n_points, n_features, n_landmarks, n_coordinates, kind, n_threads):
        key = n_points, n_features, n_landmarks, n_threads
        if key not in measured:
            measured[key] = measure(metric, n_points, n_features, n_landmarks, n_coordinates, kind, n_threads)
        return measured[key]

    measure = planning.measure
    monkeypatch.setattr(planning, "measure", once)


def test_workers_share_the_computing_and_nothing_else(same_machine):
    piece = 625_000 * (3 * 4 + ROW_BYTES)  # 160 of them: as many for each of eight workers
    one, eight = (
        plan_on_workers(10**8, 3, n_landmarks=400, epsilon=1.0, n_workers=n, piece=piece) for n in (1, 8)
    )
    assert one.computing_seconds == pytest.approx(8 * eight.computing_seconds)
    assert one.here_seconds == pytest.approx(eight.here_seconds)
    assert one.scheduling_seconds == eight.scheduling_seconds > 0
    for planned in (one, eight):
        slower = max(planned.computing_seconds, planned.scheduling_seconds)
        assert planned.fit_seconds == pytest.approx(planned.here_seconds + slower)
    # Labels and coordinates are shared out, pieces in work are not.
    kept = 10**8 * (4 + 2 * 4)
    assert one.worker_bytes - eight.worker_bytes == pytest.approx(kept * 7 / 8)
    # Each worker gets the landmarks for the assignment, and for the embedding.
    assert eight.traffic_bytes - one.traffic_bytes == pytest.approx(7 * 2 * 400 * 12)


def test_the_bracket_of_the_connected_rule_is_counted(same_machine):
    given, bracketed = (
        plan_on_workers(10**7, 3, n_landmarks=400, epsilon=rule, n_workers=4) for rule in (1.0, "connected")
    )
    compared = cluster_plan.FIRST * 3 + 2 * cluster_plan.FARTHEST * 3
    embedding = given.transform_seconds - 10**7 * 12 / cluster_plan.READING_RATE / 4
    reading = 3 * 10**7 * 12 / cluster_plan.READING_RATE / 4
    expected = given.computing_seconds + embedding * compared / 400 + reading
    assert bracketed.computing_seconds == pytest.approx(expected)


def test_what_workers_do_with_a_point_adds_up(same_machine):
    from ldmaps.maps.planning import plan

    here = plan(50_000, 22, "rmsd", 400, epsilon=1.0, n_threads=1)
    on_workers = plan_on_workers(10**6, 22, "rmsd", 400, epsilon=1.0, n_workers=5, n_threads=2)
    preparing = here.steps["preparation"] / 50_000
    reading = 22 * 12 / cluster_plan.READING_RATE
    # Read for the sample, the assignment and the embedding, prepared for the last two.
    per_point = 3 * reading + preparing + here.assignment_seconds + here.seconds_per_point
    assert on_workers.computing_seconds == pytest.approx(10**5 * per_point)
    assert on_workers.transform_seconds == pytest.approx(10**5 * (reading + here.seconds_per_point))
    assert here.assignment_seconds > 0


def test_assignment_is_planned_by_the_speed_of_distances(same_machine, monkeypatch):
    from dataclasses import replace

    from ldmaps.maps import planning

    measure = planning.measure

    def twice_as_slow(*arguments):
        machine = measure(*arguments)
        return replace(machine, speeds={**machine.speeds, "distances": 2 * machine.speeds["distances"]})

    plain = planning.plan(50_000, 22, "rmsd", 400, epsilon=1.0, n_threads=1)
    monkeypatch.setattr(planning, "measure", twice_as_slow)
    slow = planning.plan(50_000, 22, "rmsd", 400, epsilon=1.0, n_threads=1)
    assert slow.assignment_seconds == pytest.approx(2 * plain.assignment_seconds)
    assert slow.seconds_per_point == plain.seconds_per_point


def test_larger_pieces_are_fewer_tasks_and_more_memory(same_machine):
    small, large = (
        plan_on_workers(10**8, 22, "rmsd", 400, epsilon=1.0, n_workers=64, piece=piece)
        for piece in ("32MB", "256MB")
    )
    assert small.scheduling_seconds == pytest.approx(8 * large.scheduling_seconds, rel=1e-3)
    held = large.worker_bytes - small.worker_bytes
    assert held == pytest.approx(cluster_plan.PIECES_HELD * 224e6)
    with pytest.raises(InvalidInputError, match="piece must be a size such as"):
        plan_on_workers(1000, 3, n_workers=2, piece="large")


def test_it_says_where_more_workers_do_not_help(same_machine):
    many = plan_on_workers(10**8, 3, n_landmarks=400, epsilon=1.0, n_workers=10**5)
    assert "The scheduler is the limit: more than" in str(many)
    assert "scheduler is the limit" not in str(
        plan_on_workers(10**8, 3, n_landmarks=400, epsilon=1.0, n_workers=2)
    )


def test_numbers_of_workers_are_checked():
    with pytest.raises(InvalidInputError, match="n_workers must be a whole number of at least 1, got 0"):
        plan_on_workers(1000, 3, n_workers=0)


def test_the_command(capsys):
    assert (
        main(["plan", "1000000000", "22", "--metric", "rmsd", "--epsilon", "0.002", "--workers", "64"]) == 0
    )
    text = capsys.readouterr().out
    assert text.startswith(
        "fit of 1,000,000,000 points to 400 landmarks on 64 workers of a thread each: about"
    )
    assert "over the network" in text
    command = ["plan", "1000000", "3", "--workers", "2", "--threads", "4", "--json"]
    assert main(command) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["n_threads"] == 4
    assert main([*command, "--piece", "1MB"]) == 0
    assert json.loads(capsys.readouterr().out)["scheduling_seconds"] > 10 * planned["scheduling_seconds"]
