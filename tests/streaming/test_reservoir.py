"""The reservoir keeps a uniform sample whatever the batching, and goes on from a checkpoint as if nothing had been."""

import json

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.errors import InvalidInputError
from ldmaps.extension.embedder import Coverage
from ldmaps.streaming import Embedded, Records
from ldmaps.streaming.reservoir import Reservoir
from ldmaps.streaming.stream_embedder import StreamEmbedder


def numbered(n, first=0):
    """Points that say which they are."""
    return np.column_stack([np.arange(first, first + n), np.zeros(n)])


def kept(reservoir):
    return reservoir.points[:, 0].astype(int).tolist()


def offered_in(cuts, n=500, capacity=20, seed=3):
    reservoir = Reservoir(capacity, seed)
    for part in np.split(numbered(n), cuts):
        reservoir.offer(part)
    return reservoir


@pytest.mark.parametrize("cuts", [[], [1], [19, 20, 21], list(range(1, 500)), [250, 250, 251]])
def test_the_sample_does_not_depend_on_the_batches(cuts):
    whole, cut = offered_in([]), offered_in(cuts)
    assert kept(cut) == kept(whole)
    np.testing.assert_array_equal(cut.numbers, whole.numbers)
    assert cut.seen == whole.seen == 500


def test_seeds_give_different_samples_and_the_same_seed_the_same():
    assert kept(offered_in([], seed=1)) == kept(offered_in([], seed=1))
    assert kept(offered_in([], seed=1)) != kept(offered_in([], seed=2))


def test_everything_is_kept_while_there_is_room_and_never_more_than_the_capacity():
    reservoir = Reservoir(8)
    reservoir.offer(numbered(5))
    assert kept(reservoir) == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(reservoir.weights, np.ones(5))
    reservoir.offer(numbered(100, first=5))
    assert len(reservoir) == 8
    assert reservoir.weights.sum() == pytest.approx(105)


def test_every_record_has_the_same_chance():
    # 2,000 seeds, 40 records, 10 kept: each count is binomial with mean 500 and standard deviation 19.4.
    counts = np.zeros(40)
    for seed in range(2000):
        reservoir = Reservoir(10, seed)
        reservoir.offer(numbered(25))
        reservoir.offer(numbered(15, first=25))
        counts[kept(reservoir)] += 1
    assert counts.sum() == 20_000
    assert np.abs(counts - 500).max() < 5 * 19.4


def test_the_sample_stays_uniform_after_records_were_taken_out():
    # Even records are taken out half way. Of the 30 left in all, each must have the same chance.
    counts, estimates = np.zeros(60), []
    for seed in range(2000):
        reservoir = Reservoir(10, seed)
        reservoir.offer(numbered(40))
        reservoir.remove(reservoir.points[:, 0] % 2 == 0)
        reservoir.offer(numbered(20, first=40)[1::2])
        counts[kept(reservoir)] += 1
        estimates.append(reservoir.seen)
    assert (counts[::2] == 0).all()
    odd = counts[1::2]
    spread = np.sqrt(odd.mean())
    assert np.abs(odd - odd.mean()).max() < 5 * spread
    assert np.mean(estimates) == pytest.approx(30, rel=0.02)


def test_taking_everything_out_starts_over():
    reservoir = offered_in([])
    reservoir.remove(np.ones(20, dtype=bool))
    assert (len(reservoir), reservoir.seen) == (0, 0.0)
    reservoir.offer(numbered(7))
    assert kept(reservoir) == list(range(7))


def test_a_restored_reservoir_goes_on_draw_by_draw():
    straight = offered_in([])
    before = Reservoir(20, 3)
    before.offer(numbered(200))
    state = json.loads(json.dumps(before.state()))
    after = Reservoir(20, 3)
    after.restore(state)
    after.offer(numbered(300, first=200))
    assert kept(after) == kept(straight)
    assert after.points.dtype == straight.points.dtype
    assert after.state() == straight.state()


@pytest.mark.parametrize(
    "points", [np.zeros((3, 4, 3), np.float32), np.zeros((3, 2)), np.zeros((3, 2), np.int16)]
)
def test_shape_and_type_survive_a_checkpoint(points):
    reservoir = Reservoir(2)
    reservoir.offer(points)
    other = Reservoir(2)
    other.restore(json.loads(json.dumps(reservoir.state())))
    assert (other.points.shape, other.points.dtype) == ((2, *points.shape[1:]), points.dtype)


def embedded(points, inside, first=0):
    n = len(points)
    coverage = Coverage(np.where(inside, 0.5, 2.0), np.asarray(inside), np.zeros(n, dtype=np.intp))
    records = Records(points, np.arange(first, first + n), None, np.zeros(n))
    return Embedded(records, np.zeros((n, 1)), coverage, np.full(n, -1, dtype=np.intp))


def test_as_a_sink_it_takes_what_is_outside_and_rewinds_to_a_mark():
    reservoir = Reservoir(10)
    assert reservoir.durable
    reservoir.write(embedded(numbered(6), [True, False, True, False, True, True]))
    assert kept(reservoir) == [1, 3]
    assert reservoir.numbers.tolist() == [1, 3]
    assert reservoir.counts.tolist() == [4]
    mark = json.loads(json.dumps(reservoir.flush()))
    reservoir.write(embedded(numbered(2, first=6), [False, False], first=6))
    assert kept(reservoir) == [1, 3, 6, 7]
    reservoir.rewind(mark)
    assert kept(reservoir) == [1, 3]
    assert reservoir.counts.tolist() == [4]
    reservoir.rewind(None)
    assert (len(reservoir), len(reservoir.counts)) == (0, 0)


def test_records_inside_are_counted_by_landmark():
    reservoir = Reservoir(2)
    reservoir.count([1, 1, 4])
    reservoir.count([0, 1])
    reservoir.count([5])
    assert reservoir.counts.tolist() == [1, 3, 0, 0, 1, 1]
    other = Reservoir(2)
    other.restore(json.loads(json.dumps(reservoir.state())))
    assert other.counts.tolist() == [1, 3, 0, 0, 1, 1]
    reservoir.remove(np.zeros(0, dtype=bool))
    assert len(reservoir.counts) == 0


def test_a_stream_that_is_taken_up_again_gives_the_reservoir_of_one_run(tmp_path):
    roll = swiss_roll(900)
    model = LandmarkDiffusionMap(1, epsilon=4.0, n_landmarks=60).fit(roll.points[roll.position < 11])
    table = tmp_path / "records.csv"
    np.savetxt(table, roll.points, delimiter=",", header="x,y,z", comments="")
    straight = Reservoir(40)
    StreamEmbedder(model).run(table, [straight])
    assert straight.seen > 40
    for most in (500, None):
        parts = Reservoir(40)
        StreamEmbedder(model, max_batch=64).run(
            table, [parts], checkpoint=tmp_path / "at.checkpoint", max_records=most
        )
    assert parts.state() == straight.state()


def test_it_does_not_keep_the_batches_alive():
    reservoir = Reservoir(2)
    batch = numbered(1000)
    reservoir.offer(batch)
    assert not np.shares_memory(reservoir.points, batch)
    small = numbered(1)
    other = Reservoir(2)
    other.offer(small)
    small[0, 0] = 99
    assert kept(other) == [0]


def test_what_is_refused():
    for bad in (0, 2.5, True):
        with pytest.raises(InvalidInputError, match="capacity must be"):
            Reservoir(bad)
    with pytest.raises(InvalidInputError, match="seed must be"):
        Reservoir(3, seed=-1)
    reservoir = Reservoir(3)
    reservoir.offer(numbered(2))
    with pytest.raises(InvalidInputError, match=r"holds points of shape \(2,\), got \(3,\)"):
        reservoir.offer(np.zeros((1, 3)))
    with pytest.raises(InvalidInputError, match="one bool for each of the 2"):
        reservoir.remove([0, 1])
    with pytest.raises(InvalidInputError, match="capacity 3 and seed 0, this one has 4"):
        Reservoir(4).restore(reservoir.state())
    with pytest.raises(InvalidInputError, match="not a reservoir's state"):
        Reservoir(3).restore({"capacity": 3, "seed": 0})
