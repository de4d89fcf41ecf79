"""The tracker against a state machine that takes one record at a time, and against being cut anywhere."""

from __future__ import annotations

import json
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldmaps.errors import InvalidInputError
from ldmaps.extension.calibration import Calibration
from ldmaps.extension.embedder import Coverage
from ldmaps.regions import Alarm, Ball, Box, Event, OutOfDomain, RegionTracker

REGIONS = {
    "lost": OutOfDomain(farther_than=1.5),
    "left": Box({"psi2": (None, -0.5)}, margin=0.4),
    "right": Box({"psi2": (0.2, None)}, margin=0.5),
    "spot": Ball({"psi2": 0.5}, 0.3, margin=0.2),
}


def naive(regions, coordinates, coverage, numbers, times, enter_after, leave_after, dwell_every):
    """One record at a time, as the rules are told in the docs."""
    inside = dict.fromkeys(regions, False)
    coming = dict.fromkeys(regions, 0)
    going = dict.fromkeys(regions, 0)
    since = dict.fromkeys(regions, 0)
    labels, events = [], []
    for i in range(len(coordinates)):
        one = Coverage(*(part[i : i + 1] for part in coverage[:3]))
        now = {"leave": [], "enter": [], "dwell": []}
        for name, region in regions.items():
            entering, staying = (bool(mask[0]) for mask in region.masks(coordinates[i : i + 1], one))
            if inside[name]:
                since[name] += 1
                going[name] = 0 if staying else going[name] + 1
                if going[name] == leave_after:
                    inside[name] = False
                    coming[name] = 0
                    now["leave"].append((name, since[name]))
                elif dwell_every and since[name] % dwell_every == 0:
                    now["dwell"].append((name, since[name]))
            else:
                coming[name] = coming[name] + 1 if entering else 0
                if coming[name] == enter_after:
                    inside[name] = True
                    going[name] = since[name] = 0
                    now["enter"].append((name, 0))
        labels.append(next((place for place, name in enumerate(regions) if inside[name]), -1))
        time = None if times is None else float(times[i])
        events += [Event(kind, name, int(numbers[i]), time, n) for kind in now for name, n in now[kind]]
    return np.array(labels), tuple(events)


@st.composite
def streams(draw):
    n = draw(st.integers(1, 60))
    seed = draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    # A walk that lingers, so that runs of every length come up.
    x = np.clip(np.cumsum(rng.normal(0, draw(st.sampled_from([0.1, 0.3, 1.0])), n)), -1, 1)[:, None]
    distance = np.abs(rng.normal(0.8, 0.6, n))
    coverage = Coverage(distance, distance <= 1, np.zeros(n, dtype=np.intp), np.exp(-distance))
    numbers = np.cumsum(rng.integers(1, 3, n))
    times = None if draw(st.booleans()) else np.arange(n) * 0.5
    cuts = draw(st.lists(st.integers(0, n), max_size=6))
    rules = {
        "enter_after": draw(st.integers(1, 4)),
        "leave_after": draw(st.integers(1, 4)),
        "dwell_every": draw(st.sampled_from([None, 1, 2, 5])),
    }
    return x, coverage, numbers, times, cuts, rules


def because(distance):
    """Return reasons that tell which record they are of."""
    return lambda row: (("distance", float(distance[row])),)


def pieces(stream):
    x, coverage, numbers, times, cuts, _ = stream
    edges = [0, *sorted(cuts), len(x)]
    for a, b in pairwise(edges):
        part = Coverage(*(values[a:b] for values in coverage))
        yield x[a:b], part, numbers[a:b], None if times is None else times[a:b]


@settings(max_examples=300, deadline=None)
@given(streams())
def test_same_as_one_record_at_a_time(stream):
    x, coverage, numbers, times, _, rules = stream
    labels, events = RegionTracker(REGIONS, **rules).update(x, coverage, numbers, times)
    expected_labels, expected_events = naive(REGIONS, x, coverage, numbers, times, **rules)
    np.testing.assert_array_equal(labels, expected_labels)
    assert tuple(Event(*list(vars(event).values())[:5]) for event in events) == expected_events


@settings(max_examples=300, deadline=None)
@given(streams(), st.booleans())
def test_any_cut_gives_the_same_also_over_a_restart(stream, restart):
    x, coverage, numbers, times, _, rules = stream
    regions = {
        **REGIONS,
        "alarm": Alarm(1.2, release=0.7, hold=2),
        "adapting": Alarm(1.2, release=0.7, hold=2, rate=0.1, step=0.3),
    }
    whole = because(coverage.distance)
    labels, events = RegionTracker(regions, **rules).update(x, coverage, numbers, times, whole)
    tracker = RegionTracker(regions, **rules)
    cut_labels, cut_events = [], []
    for piece in pieces(stream):
        if restart:
            state = json.loads(json.dumps(tracker.state(), allow_nan=False))
            tracker = RegionTracker(regions, **rules)
            tracker.restore(state)
        some_labels, some_events = tracker.update(*piece, because(piece[1].distance))
        cut_labels.append(some_labels)
        cut_events += some_events
    np.testing.assert_array_equal(np.concatenate(cut_labels), labels)
    assert tuple(cut_events) == events


def everywhere(n: int) -> Coverage:
    return Coverage(np.zeros(n), np.ones(n, dtype=bool), np.zeros(n, dtype=np.intp))


def follow(x, **rules):
    tracker = RegionTracker({"in": Box({"psi2": (0.0, 1.0)}, margin=0.5)}, **rules)
    points = np.array(x, dtype=float)[:, None]
    labels, events = tracker.update(points, everywhere(len(x)), np.arange(len(x)), None)
    return labels.tolist(), [(event.kind, event.number, event.duration) for event in events]


def test_margin_keeps_a_jittering_point_inside():
    labels, events = follow([-0.2, 0.1, -0.2, 0.1, -0.4, -0.6, -0.2])
    assert labels == [-1, 0, 0, 0, 0, -1, -1]  # the last stays out: it is only within the margin
    assert events == [("enter", 1, 0), ("leave", 5, 4)]


def test_records_in_a_row():
    labels, events = follow([0.5, -9, 0.5, 0.5, -9, 0.5, -9, -9], enter_after=2, leave_after=2)
    assert labels == [-1, -1, -1, 0, 0, 0, 0, -1]
    assert events == [("enter", 3, 0), ("leave", 7, 4)]


def test_dwelling():
    _, events = follow([0.5] * 7 + [-9], dwell_every=3)
    assert events == [("enter", 0, 0), ("dwell", 3, 3), ("dwell", 6, 6), ("leave", 7, 7)]


def test_one_is_left_before_the_other_is_entered_and_the_first_counts():
    tracker = RegionTracker(
        {"b": Box({"psi2": (1, 3)}), "a": Box({"psi2": (0, 0.9)}), "c": Box({"psi2": (2, 3)})}
    )
    x = np.array([[0.5], [1.5], [2.5]])
    labels, events = tracker.update(x, everywhere(3), [10, 11, 12], [1.0, 2.0, 3.0])
    assert labels.tolist() == [1, 0, 0]
    assert [(event.kind, event.region, event.number, event.time) for event in events] == [
        ("enter", "a", 10, 1.0),
        ("leave", "a", 11, 2.0),
        ("enter", "b", 11, 2.0),
        ("enter", "c", 12, 3.0),
    ]
    assert tracker.inside == ("b", "c")
    tracker.reset()
    assert tracker.inside == ()


def test_no_records_change_nothing():
    tracker = RegionTracker(REGIONS)
    before = tracker.state()
    labels, events = tracker.update(np.empty((0, 2)), everywhere(0), np.empty(0), None)
    assert len(labels) == 0
    assert events == ()
    assert tracker.state() == before


def test_what_cannot_be_restored():
    tracker = RegionTracker(REGIONS)
    with pytest.raises(InvalidInputError, match="not those of the checkpoint"):
        tracker.restore(RegionTracker(REGIONS, leave_after=2).state())
    moved = {**REGIONS, "spot": Ball({"psi2": 0.6}, 0.3, margin=0.2)}
    with pytest.raises(InvalidInputError, match="not those of the checkpoint"):
        tracker.restore(RegionTracker(moved).state())
    for wrong in (None, {}, {"regions": tracker.state()["regions"]}):
        with pytest.raises(InvalidInputError, match="not the state of a tracker"):
            tracker.restore(wrong)


def test_faulty_settings():
    with pytest.raises(InvalidInputError, match="at least one region"):
        RegionTracker({})
    for name in ("enter_after", "leave_after", "dwell_every"):
        for value in (0, 1.5, True):
            with pytest.raises(InvalidInputError, match=f"{name} must be a whole number"):
                RegionTracker(REGIONS, **{name: value})


# -- alarms -----------------------------------------------------------------------


def told(distances, alarm, batch=None, **settings):
    """Return the events of records at these distances."""
    tracker, events = RegionTracker({"alarm": alarm}, **settings), []
    n = len(distances)
    distances = np.asarray(distances, float)
    for start in range(0, n, batch or n):
        part = distances[start : start + (batch or n)]
        coverage = Coverage(part, part < 1, np.zeros(len(part), np.intp), np.exp(-part))
        rows = np.arange(start, start + len(part))
        events += tracker.update(np.zeros((len(part), 1)), coverage, rows, 10.0 * rows, because(part))[1]
    return events


@pytest.mark.parametrize("batch", [1, 3, 99])
def test_an_event_has_a_beginning_an_end_a_peak_a_p_and_reasons(batch):
    far = [0.1, 2.1, 0.5, 3.0, 2.9, 0.2, 0.3, 0.2, 0.1, 2.5]
    first, last, again = told(far, Alarm(2.0, release=1.0, hold=3), batch)
    assert first == Event(
        "enter", "alarm", 1, 10.0, 0, 1, 10.0, 2.1, float(np.exp(-2.1)), (("distance", 2.1),)
    )
    assert last == Event(
        "leave", "alarm", 7, 70.0, 6, 1, 10.0, 3.0, float(np.exp(-3.0)), (("distance", 3.0),)
    )
    assert (again.kind, again.began, again.peak) == ("enter", 9, 2.5)
    assert last.as_dict()["why"] == {"distance": 3.0}
    assert "3 sqrt(epsilon) from the map, p = 0.05; distance" in str(last)


def test_an_event_of_a_map_that_is_not_calibrated_has_no_p():
    """Its p-values are NaN, which JSON does not have."""
    tracker, far = RegionTracker({"alarm": Alarm(2.0)}), np.array([3.0])
    coverage = Coverage(far, far < 1, np.zeros(1, np.intp), np.array([np.nan]))
    (event,) = tracker.update(np.zeros((1, 1)), coverage, np.arange(1), np.zeros(1), because(far))[1]
    assert event.p is None
    assert "p =" not in str(event)


def test_seven_episodes_are_seven_alarms_though_their_records_come_and_go():
    rng = np.random.default_rng(0)
    distance = np.abs(rng.normal(size=7000)) * 0.3
    for start in range(500, 7000, 1000):
        distance[start : start + 60] = rng.uniform(0.5, 4.0, 60)  # one in eight beyond 3.5, some ordinary
    events = told(distance, Alarm(3.5, release=1.0, hold=10))
    assert [event.kind for event in events] == ["enter", "leave"] * 7
    flickering = told(distance, Alarm(3.5, hold=1))
    assert len(flickering) > 50


def test_an_adapting_alarm_follows_drift_and_a_fixed_one_cries_on():
    rng = np.random.default_rng(1)
    distance = np.abs(rng.normal(size=60_000)) + np.linspace(0, 6, 60_000)
    fixed = Alarm(3.29, release=2.6, hold=5, rate=1e-3)
    adapting = Alarm(3.29, release=2.6, hold=5, rate=1e-3, step=0.25)
    in_alarm = [
        sum(event.duration for event in told(distance, alarm) if event.kind == "leave")
        for alarm in (fixed, adapting)
    ]
    begun = [event.began for event in told(distance, adapting) if event.kind == "enter"]
    assert told(distance, fixed)[-1].kind == "enter"  # and never left again
    assert in_alarm[1] < 0.05 * len(distance)
    assert len(begun) < 0.005 * len(distance)


def test_an_adapting_alarm_keeps_the_rate_where_nothing_drifts():
    distance = np.abs(np.random.default_rng(2).normal(size=200_000))
    begun = [
        e for e in told(distance, Alarm(2.5, release=2.0, hold=1, rate=1e-3, step=0.2)) if e.kind == "enter"
    ]
    # Its first threshold belongs to a rate of 0.012; a fixed one would have begun about 2,400 events.
    assert 0.6e-3 < len(begun) / len(distance) < 1.4e-3


def test_an_adapting_alarm_ends_its_events_where_tails_are_long():
    # The threshold comes down between events; the margin below it is wider than the bulk of these scores.
    distance = np.abs(np.random.default_rng(3).standard_t(2, size=100_000))
    middle, release, threshold = np.quantile(distance, [0.5, 0.99, 0.999])
    step = 0.3 * (threshold - middle)
    alarm = Alarm(float(threshold), release=float(release), hold=5, rate=1e-3, step=float(step))
    ended = [event.duration for event in told(distance, alarm) if event.kind == "leave"]
    assert len(ended) > 20
    assert sum(ended) < 0.03 * len(distance)


def test_what_came_back_was_no_drift():
    quiet = np.full(300, 0.5)
    event = np.concatenate([quiet, np.full(400, 5.0), quiet, [3.2], quiet])
    kept = told(event, Alarm(3.0, release=2.0, hold=5, rate=1e-3, step=0.1))
    assert [one.kind for one in kept] == ["enter", "leave", "enter", "leave"]
    assert kept[1].duration == 405 - 1


@pytest.mark.parametrize(
    "settings", [{"rate": 0.0}, {"rate": 1.0}, {"step": 0.1}, {"hold": 0}, {"release": -1}]
)
def test_alarms_that_make_no_sense_are_refused(settings):
    with pytest.raises(InvalidInputError):
        Alarm(2.0, **settings)


def test_an_alarm_holds_as_long_as_high_scores_do_but_not_for_rare_records():
    known = Calibration.of(np.arange(1.0, 1000.0), 99.9)
    model = SimpleNamespace(source_=None, embedder_=SimpleNamespace(calibration=known))
    alarm = Alarm.of(model, 0.015, adapt=True)
    # ν = n/10: three times ten records in a row, but at most a fifth of the 66 from one rare record to the next.
    assert alarm.hold == 13
    # p = (1 + 99.9 F)/100.9 <= 0.015 where F <= 0.0051: of 999 scores, 5 are farther. p <= 0.5 where 494 are.
    assert alarm.threshold == 994.0
    assert alarm.step == pytest.approx(0.1 * (994.0 - 505.0))


def test_a_threshold_moves_by_its_step_and_by_a_hundredth_of_it_while_an_event_lasts():
    tracker = RegionTracker({"alarm": Alarm(1.0, release=0.5, hold=2, rate=0.1, step=0.2)})
    distance, levels = np.array([0.9, 2.0, 2.0, 1.0, 0.9, 2.0]), []
    for row in range(len(distance)):
        one = Coverage(distance[row : row + 1], np.array([True]), np.zeros(1, np.intp))
        tracker.update(np.zeros((1, 1)), one, [row], None)
        levels.append(tracker.state()["inside"]["alarm"][5])
    # Before, at the beginning, in the event, twice in its margin, again.
    moves = np.array([-0.1, 1 - 0.1, 0.01 - 0.1, -0.1, -0.1, 0.01 - 0.1])
    assert levels == pytest.approx(1.0 + 0.2 * np.cumsum(moves))
