"""Redis streams: every entry once, in order, over broken connections and restarts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from polling import drain, in_background, joined
from redis_server import RedisServer

from ldmaps import LandmarkDiffusionMap
from ldmaps.errors import InvalidInputError, LdmapsWarning, SinkError, SourceError
from ldmaps.extension.embedder import Coverage
from ldmaps.regions import Event
from ldmaps.streaming.records import Embedded
from ldmaps.streaming.sinks.redis import RedisSink
from ldmaps.streaming.sources.redis import RedisSource
from ldmaps.streaming.stream_embedder import StreamEmbedder

ROWS = np.random.default_rng(8).normal(size=(300, 3))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def server(shared):
    shared.client.flushall()
    return shared


@pytest.fixture
def own_server(tmp_path, request):
    """One to be killed; with the parameter True it finds its data again."""
    server = RedisServer(tmp_path, keeps=getattr(request, "param", False))
    try:
        server.start()
        yield server
    finally:
        server.kill()


def add(client, rows, stream="in", **settings):
    pipeline = client.pipeline(transaction=False)
    for row in rows:
        pipeline.xadd(stream, {"x": json.dumps(row.tolist())}, **settings)
    pipeline.execute()


def embedded_of(records, scale=1.0, events=(), regions=None):
    """Put records on a map of two coordinates, by hand."""
    count = len(records)
    coverage = Coverage(np.full(count, 0.5), np.ones(count, dtype=bool), np.arange(count))
    labels = np.full(count, -1) if regions is None else np.asarray(regions)
    return Embedded(records, scale * records.points[:, :2], coverage, labels, tuple(events))


def poll_often(source):
    for _ in range(200):
        source.poll(60, 0.1)


# -- source -------------------------------------------------------------------


def test_entries_in_order_then_idle(server):
    add(server.client, ROWS)
    parts = drain(RedisSource(server.url("in"), idle_end=0.0), most=64)
    points, numbers, times = joined(parts)
    np.testing.assert_array_equal(points, ROWS)
    np.testing.assert_array_equal(numbers, np.arange(len(ROWS)))
    assert times is None
    assert [len(part) for part in parts] == [64, 64, 64, 64, 44]


def test_entries_as_they_are_added(server):
    with in_background(lambda: [add(server.client, ROWS[k : k + 7]) for k in range(0, 300, 7)] and None):
        points, numbers, _ = joined(drain(RedisSource(server.url("in")), most=50, enough=300))
    np.testing.assert_array_equal(points, ROWS)
    np.testing.assert_array_equal(numbers, np.arange(300))


def test_the_three_forms_of_an_entry(server):
    client = server.client
    client.xadd("in", {"x": "[1, 2.5, -3]", "time": "7.5"})
    client.xadd("in", {"x": np.array([1, 2.5, -3], dtype="<f4").tobytes(), "dtype": "float32"})
    client.xadd("in", {"x": np.array([1, 2.5, -3], dtype="<f8").tobytes(), "dtype": "<f8"})
    client.xadd("in", {"c": "-3", "a": "1", "b": "2.5", "other": "?"})
    facts = {"kind": "table", "columns": ["a", "b", "c"]}
    points, _, times = joined(drain(RedisSource(server.url("in"), model_facts=facts, idle_end=0.0)))
    np.testing.assert_array_equal(points, np.tile([1, 2.5, -3], (4, 1)))
    np.testing.assert_array_equal(times, [7.5, np.nan, np.nan, np.nan])


def test_frames_may_be_nested(server):
    server.client.xadd("in", {"x": "[[1,2,3],[4,5,6]]"})
    server.client.xadd("in", {"x": "[[1,2,3]]"})
    facts = {"kind": "frames", "n_atoms": 2}
    (part,) = drain(RedisSource(server.url("in"), model_facts=facts, idle_end=0.0))
    assert part.points.tolist() == [[1, 2, 3, 4, 5, 6]]
    assert part.rejected[0].reason == "3 numbers, but the map takes 6"


BAD = [
    ({"y": "1"}, "there is no field 'a'"),
    ({"x": "[1,2"}, "x is not JSON"),
    ({"x": "7"}, "not a list"),
    ({"x": '[1,2,"u"]'}, "is not a number"),
    ({"x": "[1,2]"}, "2 numbers, but the map takes 3"),
    ({"x": b"\0" * 10, "dtype": "float32"}, "10 bytes are not a whole number of float32"),
    ({"x": b"\0" * 12, "dtype": "int32"}, "the dtype 'int32'"),
    ({"x": b"\xff\xfe"}, "x is not JSON"),
    ({"a": "1", "b": "2", "c": "high"}, "c: 'high' is not a number"),
    ({"x": "[1,2,3]", "time": "noon"}, "the time 'noon' is neither a number nor a date"),
    ({"x": "[[[1]]]"}, "shape"),
]


def test_malformed_entries_are_rejected_with_the_reason(server):
    good = {"x": "[1,2,3]"}
    server.client.xadd("in", good)
    for fields, _ in BAD:
        server.client.xadd("in", fields)
    server.client.xadd("in", good)
    facts = {"columns": ["a", "b", "c"]}
    (part,) = drain(RedisSource(server.url("in"), model_facts=facts, idle_end=0.0), most=100)
    assert part.numbers.tolist() == [0, len(BAD) + 1]
    for number, (rejected, (_, reason)) in enumerate(zip(part.rejected, BAD, strict=True), 1):
        assert rejected.number == number
        assert reason in rejected.reason
        assert rejected.raw


def test_empty_fields_are_missing_values_as_in_a_table(server):
    for cell in ("1.5", "", " NA ", "nan"):
        server.client.xadd("in", {"a": "1", "b": "2", "c": cell})
    facts = {"columns": ["a", "b", "c"]}
    (part,) = drain(RedisSource(server.url("in"), model_facts=facts, idle_end=0.0))
    assert not part.rejected
    np.testing.assert_array_equal(part.points[:, 2], [1.5, np.nan, np.nan, np.nan])


def test_going_on_from_a_position(server):
    add(server.client, ROWS)
    parts = drain(RedisSource(server.url("in"), idle_end=0.0), most=40)
    for part in parts[:-1]:
        kept = json.loads(json.dumps(part.position))
        points, numbers, _ = joined(
            drain(RedisSource(server.url("in"), idle_end=0.0), position=kept, most=90)
        )
        done = int(part.numbers[-1]) + 1
        np.testing.assert_array_equal(points, ROWS[done:])
        np.testing.assert_array_equal(numbers, np.arange(done, 300))


def test_only_what_is_new(server):
    add(server.client, ROWS[:10])
    source = RedisSource(server.url("in"), start="new")
    source.open()
    try:
        assert len(source.poll(100, 0.0)) == 0
        add(server.client, ROWS[10:12])
        part = source.poll(100, 1.0)
    finally:
        source.close()
    np.testing.assert_array_equal(part.points, ROWS[10:12])
    assert part.numbers.tolist() == [0, 1]


def test_a_stream_that_does_not_exist_yet_is_waited_for(server):
    source = RedisSource(server.url("in"))
    source.open()
    try:
        assert len(source.poll(10, 0.0)) == 0
        add(server.client, ROWS[:2])
        assert len(source.poll(10, 1.0)) == 2
    finally:
        source.close()


@pytest.mark.parametrize("how", ["trimmed", "deleted"])
def test_entries_that_were_removed_unread_are_an_error(server, how):
    add(server.client, ROWS[:100])
    position = drain(RedisSource(server.url("in")), most=20, enough=20)[-1].position
    # What was read may go.
    server.client.xtrim("in", maxlen=80, approximate=False)
    rest = drain(RedisSource(server.url("in"), idle_end=0.0), position=position, most=1000)
    assert joined(rest)[1].tolist() == list(range(20, 100))
    if how == "trimmed":
        server.client.xtrim("in", maxlen=70, approximate=False)
    else:
        server.client.xdel("in", *[entry for entry, _ in server.client.xrange("in", count=15)[5:]])
    source = RedisSource(server.url("in"), idle_end=0.0)
    with pytest.raises(SourceError, match="entries after .* were removed before they were read"):
        drain(source, position=position, most=1000)
    source = RedisSource(server.url("in"), idle_end=0.0, gaps="warn")
    with pytest.warns(LdmapsWarning, match="10 entries"):
        rest = drain(source, position=position, most=1000)
    assert len(joined(rest)[0]) == 70
    assert joined(rest)[1][-1] == 99


def test_a_reader_that_is_too_slow_learns_what_it_lost(server):
    add(server.client, ROWS[:50])
    source = RedisSource(server.url("in"))
    source.open()
    try:
        assert len(source.poll(10, 0.0)) == 10
        add(server.client, ROWS[50:90], maxlen=30, approximate=False)
        with pytest.raises(SourceError, match="50 entries after"):
            source.poll(10, 0.0)
    finally:
        source.close()


def test_an_already_trimmed_stream_begins_with_what_is_there(server):
    add(server.client, ROWS[:50], maxlen=30, approximate=False)
    points, numbers, _ = joined(drain(RedisSource(server.url("in"), idle_end=0.0), most=7))
    np.testing.assert_array_equal(points, ROWS[20:50])
    assert numbers.tolist() == list(range(30))


@pytest.mark.parametrize("again", [0, 5])
def test_a_stream_that_began_anew_is_an_error(server, again):
    add(server.client, ROWS[:10])
    position = drain(RedisSource(server.url("in")), enough=10)[-1].position
    server.client.delete("in")
    add(server.client, ROWS[:again])
    with pytest.raises(SourceError, match="is not the stream that was read" if again else "it is gone"):
        drain(RedisSource(server.url("in")), position=position)


def test_no_server_is_an_error_at_once(tmp_path):
    unstarted = RedisServer(tmp_path)
    with pytest.raises(SourceError, match="cannot be reached"):
        drain(RedisSource(unstarted.url("in")))


def test_a_key_that_is_no_stream_is_an_error(server):
    server.client.set("in", "text")
    with pytest.raises(SourceError, match="refuses the command"):
        drain(RedisSource(server.url("in")))


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6379/0/a",
        "redis://localhost",
        "redis://localhost/0",
        "redis:///0/a",
        "http://localhost/0/a",
    ],
)
def test_wrong_addresses(url):
    with pytest.raises(InvalidInputError, match="redis://HOST:PORT/DATABASE/STREAM"):
        RedisSource(url)


def test_the_database_may_be_left_out():
    assert RedisSource("redis://localhost/in").name == RedisSource("redis://localhost/0/in").name


def test_a_password_is_not_shown():
    assert RedisSource("redis://me:secret@localhost:6379/0/in").name == "redis://localhost:6379/0/in"
    with pytest.raises(InvalidInputError) as caught:
        RedisSource("redis://me:secret@localhost:6379/0")
    assert "secret" not in str(caught.value)


# -- broken connections ---------------------------------------------------------


@pytest.mark.parametrize("own_server", [True], indirect=True)
def test_a_server_that_is_killed_and_comes_back_loses_nothing(own_server):
    add(own_server.client, ROWS[:100])
    source = RedisSource(own_server.url("in"), give_up_after=60.0)
    source.open()
    try:
        parts = [source.poll(60, 1.0)]
        own_server.kill()
        assert len(source.poll(60, 0.05)) == 0
        assert len(source.poll(60, 0.05)) == 0
        own_server.start()
        add(own_server.client, ROWS[100:])
        for _ in range(100):
            parts.append(source.poll(60, 1.0))
            if sum(map(len, parts)) >= len(ROWS):
                break
    finally:
        source.close()
    points, numbers, _ = joined([part for part in parts if len(part)])
    np.testing.assert_array_equal(points, ROWS)
    np.testing.assert_array_equal(numbers, np.arange(len(ROWS)))


def test_a_server_that_comes_back_empty_is_an_error(own_server):
    add(own_server.client, ROWS[:100])
    source = RedisSource(own_server.url("in"), give_up_after=60.0)
    source.open()
    try:
        assert len(source.poll(60, 1.0)) == 60
        own_server.kill()
        own_server.start()
        with pytest.raises(SourceError, match="it is gone"):
            poll_often(source)
    finally:
        source.close()


def test_a_server_that_stays_away_is_given_up(own_server):
    add(own_server.client, ROWS[:10])
    source = RedisSource(own_server.url("in"), give_up_after=0.2)
    source.open()
    try:
        assert len(source.poll(60, 1.0)) == 10
        own_server.kill()
        with pytest.raises(SourceError, match="could not be restored within 0.2 s"):
            poll_often(source)
    finally:
        source.close()


# -- sink -----------------------------------------------------------------------


def test_results_are_entries_by_number(server):
    add(server.client, ROWS[:5])
    (part,) = drain(RedisSource(server.url("in"), idle_end=0.0))
    events = [Event("enter", "left", 2, None, 0), Event("leave", "right", 2, None, 9)]
    sink = RedisSink(server.url("out"), regions=("left", "right"))
    sink.write(embedded_of(part, events=events, regions=[-1, 1, 0, -1, -1]))
    run = sink.flush()["run"]
    sink.close()
    entries = server.client.xrange("out")
    assert [entry for entry, _ in entries] == [f"{n}-{run}".encode() for n in range(1, 6)]
    fields = entries[2][1]
    assert json.loads(fields[b"psi"]) == ROWS[2, :2].tolist()
    assert (fields[b"number"], fields[b"inside"], fields[b"nearest"]) == (b"2", b"1", b"2")
    assert fields[b"distance"] == b"0.5"
    assert [fields[b"region"] for _, fields in entries] == [b"", b"right", b"left", b"", b""]
    assert json.loads(fields[b"events"]) == [
        {"kind": "enter", "region": "left", "duration": 0},
        {"kind": "leave", "region": "right", "duration": 9},
    ]
    assert b"events" not in entries[1][1]


def test_the_output_is_bounded(server):
    add(server.client, ROWS)
    sink = RedisSink(server.url("out"), maxlen=20)
    for part in drain(RedisSource(server.url("in"), idle_end=0.0), most=50):
        sink.write(embedded_of(part))
    sink.close()
    # Redis trims whole blocks, of a hundred entries by default.
    assert 20 <= server.client.xlen("out") < 200


def test_a_restart_from_any_checkpoint_adds_every_result_once(server):
    add(server.client, ROWS)
    rng = np.random.default_rng(1)
    position, mark, checkpoints = None, None, 0
    for _ in range(100):
        # A run that stops somewhere; its checkpoint is older than what it wrote.
        source, sink = RedisSource(server.url("in"), idle_end=0.0), RedisSink(server.url("out"))
        sink.rewind(mark)
        most = int(rng.integers(5, 40))
        parts = drain(source, position=position, most=most, enough=3 * most)
        marks = []
        for part in parts:
            sink.write(embedded_of(part))
            marks.append(sink.flush())
        sink.close()
        if len(parts) < 3:
            break
        chosen = int(rng.integers(0, 2))
        position, mark = parts[chosen].position, marks[chosen]
        checkpoints += 1
    assert checkpoints > 3
    entries = server.client.xrange("out")
    assert [int(fields[b"number"]) for _, fields in entries] == list(range(len(ROWS)))
    written = np.array([json.loads(fields[b"psi"]) for _, fields in entries])
    np.testing.assert_array_equal(written, ROWS[:, :2])


@pytest.mark.parametrize(
    ("how", "begun"),
    [
        ("another run", False),  # once begun, it is the other run that is refused
        ("another writer", False),
        ("another writer", True),
        ("trimmed", False),
        ("trimmed", True),
    ],
)
def test_a_stream_with_entries_of_others_is_refused(server, how, begun):
    """Its server would refuse our identifiers, which must not pass for repetitions."""
    add(server.client, ROWS[:5])
    (part,) = drain(RedisSource(server.url("in"), idle_end=0.0))
    sink = RedisSink(server.url("out"))
    if begun:
        sink.write(embedded_of(part.take(part.numbers < 2)))
    if how == "another run":
        other = RedisSink(server.url("out"))
        other.write(embedded_of(part))
        other.close()
    elif how == "another writer":
        server.client.xadd("out", {"x": "1"})
    else:
        server.client.xadd("out", {"number": "700"}, id="701-0")
        server.client.xtrim("out", maxlen=0, approximate=False)
    before = server.client.xlen("out")
    with pytest.raises(SinkError, match="entries of another writer"):
        sink.write(embedded_of(part.take(part.numbers >= 2)))
    sink.close()
    assert server.client.xlen("out") == before


def test_output_to_the_input_is_refused(server):
    model = LandmarkDiffusionMap(2, n_landmarks=30, epsilon=4.0).fit(ROWS)
    add(server.client, ROWS[:5])
    source = RedisSource(server.url("in"), model_facts=model.source_, idle_end=0.0)
    with pytest.raises(SinkError, match="entries of another writer"):
        StreamEmbedder(model).run(source, [RedisSink(server.url("in"))])
    assert server.client.xlen("in") == 5


def test_a_stream_that_only_has_a_consumer_group_is_new(server):
    server.client.xgroup_create("out", "readers", mkstream=True)
    add(server.client, ROWS[:5])
    (part,) = drain(RedisSource(server.url("in"), idle_end=0.0))
    sink = RedisSink(server.url("out"))
    sink.write(embedded_of(part))
    sink.close()
    assert server.client.xlen("out") == 5


def test_results_that_were_trimmed_are_still_repetitions(server):
    add(server.client, ROWS[:50])
    (part,) = drain(RedisSource(server.url("in"), idle_end=0.0), most=50)
    sink = RedisSink(server.url("out"))
    mark = sink.flush()
    sink.write(embedded_of(part))
    sink.close()
    server.client.xtrim("out", maxlen=10, approximate=False)
    assert server.client.xlen("out") == 10
    again = RedisSink(server.url("out"))
    again.rewind(mark)
    again.write(embedded_of(part))
    again.close()
    assert server.client.xlen("out") == 10


@pytest.mark.parametrize("how", ["deleted", "restarted", "restarted between runs", "lost in part"])
def test_results_that_the_server_lost_are_an_error(own_server, how):
    add(own_server.client, ROWS[:30])
    parts = drain(RedisSource(own_server.url("in"), idle_end=0.0), most=10)
    sink = RedisSink(own_server.url("out"), give_up_after=60.0)
    try:
        sink.write(embedded_of(parts[0]))
        mark = sink.flush()
        if how == "deleted":
            own_server.client.delete("out")
        else:
            own_server.kill()
            own_server.start()
        if how == "lost in part":
            own_server.client.xadd("out", {"number": "3"}, id=f"4-{mark['run']}")
        lost = pytest.raises(SinkError, match="has lost results: those up to record 9")
        if how == "restarted between runs":
            sink.close()
            sink = RedisSink(own_server.url("out"))
            with lost:
                sink.rewind(mark)
        else:
            with lost:
                sink.write(embedded_of(parts[1]))
        # Not begun again: a restart would not notice what is missing.
        assert own_server.client.xlen("out") == (how == "lost in part")
    finally:
        sink.close()


@pytest.mark.parametrize("own_server", [True], indirect=True)
def test_a_sink_waits_for_its_server_and_adds_every_result_once(own_server):
    add(own_server.client, ROWS)
    parts = drain(RedisSource(own_server.url("in"), idle_end=0.0), most=60)
    sink = RedisSink(own_server.url("out"), give_up_after=60.0)
    try:
        sink.write(embedded_of(parts[0]))
        own_server.kill()
        with in_background(own_server.start):
            for part in parts[1:]:
                sink.write(embedded_of(part))
    finally:
        sink.close()
    numbers = [int(fields[b"number"]) for _, fields in own_server.client.xrange("out")]
    assert numbers == list(range(len(ROWS)))


def test_a_sink_gives_up_too(own_server):
    add(own_server.client, ROWS[:5])
    (part,) = drain(RedisSource(own_server.url("in"), idle_end=0.0))
    sink = RedisSink(own_server.url("out"), give_up_after=0.2)
    try:
        sink.write(embedded_of(part))
        own_server.kill()
        with pytest.raises(SinkError, match="could not be restored within"):
            sink.write(embedded_of(part))
    finally:
        sink.close()


# -- with the engine ------------------------------------------------------------


def test_a_run_that_breaks_off_and_is_started_again_adds_every_result_once(server, tmp_path):
    model = LandmarkDiffusionMap(2, n_landmarks=30, epsilon=4.0).fit(ROWS)
    add(server.client, ROWS)
    broken = 0

    class Breaks:
        def __init__(self, after):
            self.left = after

        def __call__(self, embedded):
            self.left -= len(embedded)
            if self.left < 0:
                raise OSError("no more")

    for after in (70, 100, 10_000):
        engine = StreamEmbedder(model, max_batch=16)
        source = RedisSource(server.url("in"), model_facts=model.source_, idle_end=0.0)
        sinks = [RedisSink(server.url("out")), Breaks(after)]
        try:
            engine.run(source, sinks, checkpoint=tmp_path / "checkpoint", checkpoint_every=0.0)
        except SinkError:
            broken += 1
    assert broken == 2
    entries = server.client.xrange("out")
    assert [int(fields[b"number"]) for _, fields in entries] == list(range(len(ROWS)))
    written = np.array([json.loads(fields[b"psi"]) for _, fields in entries])
    expected = model.transform(ROWS)
    np.testing.assert_allclose(written, expected, atol=1e-4 * np.abs(expected).max())


def test_a_connection_that_is_down_is_not_the_end_of_the_stream(server, monkeypatch):
    """However short idle_end is: nobody knows what was added meanwhile."""
    add(server.client, ROWS[:10])
    source = RedisSource(server.url("in"), idle_end=0.0)
    source.open()
    try:
        with monkeypatch.context() as broken:
            broken.setattr(source._connection, "attempt", lambda work: (False, None))
            assert len(source.poll(100, 0.0)) == 0
        assert len(source.poll(100, 0.0)) == 10
        assert source.poll(100, 0.0) is None
    finally:
        source.close()


def test_entries_deleted_in_the_middle_are_told_before_any_gets_a_wrong_number(server):
    add(server.client, ROWS[:200])
    position = drain(RedisSource(server.url("in")), most=20, enough=20)[-1].position
    server.client.xdel("in", *[entry for entry, _ in server.client.xrange("in")[150:155]])
    source = RedisSource(server.url("in"), idle_end=0.0)
    source.open(position)
    try:
        with pytest.raises(SourceError, match=r"were removed before they were read \(XDEL\)"):
            source.poll(10, 0.0)
    finally:
        source.close()


def test_what_was_deleted_before_a_stream_is_read_is_no_loss(server):
    add(server.client, ROWS[:20])
    server.client.xdel("in", *[entry for entry, _ in server.client.xrange("in")[5:8]])
    parts = drain(RedisSource(server.url("in"), idle_end=0.0), most=6)
    assert joined(parts)[1].tolist() == list(range(17))
    rest = drain(RedisSource(server.url("in"), idle_end=0.0), position=parts[0].position, most=100)
    assert joined(rest)[1].tolist() == list(range(6, 17))


def test_a_stream_made_again_with_the_same_identifiers_is_noticed(server):
    for number, row in enumerate(ROWS[:10], 1):
        server.client.xadd("in", {"x": json.dumps(row.tolist())}, id=f"{number}-0")
    position = drain(RedisSource(server.url("in"), idle_end=0.0), most=100)[-1].position
    server.client.delete("in")
    for number, row in enumerate(ROWS[50:60], 1):
        server.client.xadd("in", {"x": json.dumps(row.tolist())}, id=f"{number}-0")
    source = RedisSource(server.url("in"), idle_end=0.0)
    with pytest.raises(SourceError, match="that entry is another one"):
        source.open(json.loads(json.dumps(position)))
    source.close()
