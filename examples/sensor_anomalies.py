"""A machine's sensors as a stream: alarms at records that are unlike all its normal operation.

Eight channels of a made-up compressor follow a cycle whose shape depends on the load, so
that normal records lie on a two-dimensional surface, with noise and slow drift on top. A
diffusion map is fitted to normal operation. Then a stream comes with faults of four
kinds, and whatever lies outside the map's domain raises an alarm:

    spike          one channel jumps for 1 to 3 records
    stuck          one channel stays at its last value
    phase slip     one channel lags behind the cycle; every value by itself is normal
    new regime     the machine runs at a load it was never seen at

Two simpler detectors watch the same stream: a threshold on the channels' z-scores, and
scikit-learn's IsolationForest. All three have the same budget of false alarms, set on
normal records that no detector was fitted to, and the same rule for alarms to begin and end.

    pip install ".[plot]"
    python examples/sensor_anomalies.py --output sensor_anomalies.png
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from ldmaps import LandmarkDiffusionMap
from ldmaps.absorbing import absorb
from ldmaps.extension import Coverage
from ldmaps.landmarks import KMedoids
from ldmaps.regions import OutOfDomain, Region, RegionTracker
from ldmaps.streaming import Reservoir, StreamEmbedder

CHANNELS = ("suction", "discharge", "temperature", "flow", "current", "torque", "vibration", "valve")
KINDS = ("spike", "stuck", "phase slip", "new regime")
PERIOD = 50  # records in a cycle, on average
NOISE = 0.02  # of a channel's range
DRIFT = 0.02
BUDGET = 0.002  # share of normal records that may raise an alarm
LEAVE_AFTER = 5  # normal records in a row that end an alarm
GRACE = 5  # records after an event in which an alarm still counts as its own
FAR_LOAD = (1.25, 1.45)  # normal operation has loads from 0 to 1


# -- the machine --------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """What the machine does: phase of the cycle and load, one value a record."""

    phase: NDArray[np.float64]
    load: NDArray[np.float64]

    def channels(self, lag: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the channels without noise, (n, 8); ``lag`` (n, 8) sets channels back in the cycle."""
        phase = self.phase[:, None] - (0.0 if lag is None else lag)
        shape = np.arange(len(CHANNELS))
        first, second = np.cos(phase - 0.7 * shape), np.cos(2 * phase + 1.1 * shape)
        load = self.load[:, None]
        mixed = (0.75 + 0.25 * load) * first + 0.35 * (1.0 - 0.6 * load) * second
        return np.asarray(0.5 + 0.35 * mixed + 0.12 * np.cos(1.9 * shape) * (load - 0.5))


def operate(n: int, rng: np.random.Generator) -> Operation:
    """Run for ``n`` records: the speed varies a little, the load wanders between 0 and 1."""
    speed = 2 * np.pi / PERIOD * (1.0 + 0.1 * _wander(n, 400, rng))
    phase = rng.random() * 2 * np.pi + np.cumsum(speed)
    return Operation(phase, 0.5 + 0.5 * np.sin(1.5 * _wander(n, 600, rng)))


def measure(values: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Add noise, and the drift of the room's temperature, which every channel feels in its own way."""
    drift = _wander(len(values), 500, rng)[:, None] * np.sin(2.3 * np.arange(len(CHANNELS)) + 0.4)
    return np.asarray(values + NOISE * rng.standard_normal(values.shape) + DRIFT * drift)


def _wander(n: int, memory: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return a random walk that is pulled back to 0, of variance 1."""
    from scipy.signal import lfilter

    keep = np.exp(-1.0 / memory)
    shocks = np.sqrt(1.0 - keep**2) * rng.standard_normal(n)
    shocks[0] = rng.standard_normal()
    return np.asarray(lfilter([1.0], [1.0, -keep], shocks))


@dataclass(frozen=True)
class Fault:
    """Records ``start`` to ``stop`` - 1 are not normal."""

    kind: str
    start: int
    stop: int


def faulty_stream(n: int, per_kind: int, rng: np.random.Generator) -> tuple[NDArray[np.float64], list[Fault]]:
    """Return a stream of normal operation with ``per_kind`` faults of each kind, well apart."""
    machine = operate(n, rng)
    load, lag = machine.load.copy(), np.zeros((n, len(CHANNELS)))
    order = rng.permutation(np.repeat(KINDS, per_kind))
    room = n // (len(order) + 1)
    faults = []
    for place, kind in enumerate(order.tolist(), start=1):
        length = int(rng.integers(1, 4) if kind == "spike" else rng.integers(room // 4, room // 2))
        start = place * room + int(rng.integers(-room // 8, room // 8))
        faults.append(Fault(kind, start, start + length))
    for fault in faults:
        rows = slice(fault.start, fault.stop)
        channel = int(rng.integers(len(CHANNELS)))
        if fault.kind == "new regime":
            load[rows] = rng.uniform(*FAR_LOAD)
        elif fault.kind == "phase slip":
            lag[rows, channel] = rng.uniform(0.6, 1.2)
    values = measure(Operation(machine.phase, load).channels(lag), rng)
    for fault in faults:
        rows = slice(fault.start, fault.stop)
        channel = int(rng.integers(len(CHANNELS)))
        if fault.kind == "stuck":
            values[rows, channel] = values[fault.start, channel]
        elif fault.kind == "spike":
            values[rows, channel] += rng.choice([-1.0, 1.0]) * rng.uniform(0.15, 0.4)
    return values, faults


# -- three detectors ------------------------------------------------------------------


class Score(Region):
    """Records whose score, in the place of the distance, is above a threshold."""

    kind = "score"
    required = ("threshold",)

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def masks(
        self, coordinates: NDArray[Any], coverage: Coverage
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """See :class:`Region`."""
        above = np.asarray(coverage.distance) >= self.threshold
        return above, above


def alarms_of_score(scores: NDArray[np.float64], normal: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the records in alarm, from scores and the scores of normal records that set the threshold."""
    region = Score(float(np.quantile(normal, 1.0 - BUDGET)))
    tracker = RegionTracker({"alarm": region}, leave_after=LEAVE_AFTER)
    n = len(scores)
    coverage = Coverage(scores, np.zeros(n, dtype=bool), np.zeros(n, dtype=np.intp))
    labels, _ = tracker.update(np.zeros((n, 1)), coverage, np.arange(n), None)
    return np.asarray(labels == 0)


@dataclass(frozen=True)
class Watched:
    """What the map's stream gave."""

    coordinates: NDArray[np.float64]
    distance: NDArray[np.float64]
    alarms: NDArray[np.bool_]
    threshold: float
    n_events: int
    reservoir: Reservoir


def watch(model: LandmarkDiffusionMap, stream: NDArray[np.float64], normal: NDArray[np.float64]) -> Watched:
    """Stream records through the map; alarms are those outside its domain and beyond the threshold."""
    coverage = model.coverage(normal)
    outside = np.where(coverage.inside, 0.0, coverage.distance)
    threshold = float(np.quantile(outside, 1.0 - BUDGET))
    tracker = RegionTracker({"alarm": OutOfDomain(farther_than=threshold)}, leave_after=LEAVE_AFTER)
    reservoir = Reservoir(2000)
    parts: list[Any] = []
    StreamEmbedder(model, tracker=tracker).run(stream, [parts.append, reservoir])
    return Watched(
        np.concatenate([part.coordinates for part in parts]),
        np.concatenate([part.coverage.distance for part in parts]),
        np.concatenate([part.regions for part in parts]) == 0,
        threshold,
        sum(event.kind == "enter" for part in parts for event in part.events),
        reservoir,
    )


def fit_map(training: NDArray[np.float64], n_landmarks: int) -> LandmarkDiffusionMap:
    """Fit a map whose domain reaches as far as normal records scatter.

    A landmark's domain is a ball of √ε at least, so √ε is the distance to the nearest
    landmark that only a small share of normal records exceeds. A third of the
    records is held out to tell.
    """
    fitted, held = training[: len(training) * 2 // 3], training[len(training) * 2 // 3 :]
    choice = KMedoids(n_landmarks, max_iter=5)
    first = LandmarkDiffusionMap(2, epsilon="coifman", landmarks=choice).fit(fitted)
    reach = float(np.quantile(first.coverage(held).distance, 1.0 - BUDGET))
    return LandmarkDiffusionMap(2, epsilon=first.epsilon_ * reach**2, landmarks=choice).fit(training)


# -- how good they are --------------------------------------------------------------


@dataclass(frozen=True)
class Marks:
    """Precision and recall of one detector.

    ``events`` and ``records`` map each kind, and "all", to the share found; precision is
    about alarms (by event) and records in alarm (by record) and has no kind.
    """

    events: dict[str, float]
    records: dict[str, float]
    event_precision: float
    record_precision: float
    false_share: float


def judge(alarms: NDArray[np.bool_], faults: list[Fault]) -> Marks:
    """Hold alarms against the faults that were put in."""
    n = len(alarms)
    faulty, allowed = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    noticed: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    hit: dict[str, list[int]] = {kind: [0, 0] for kind in KINDS}
    for fault in faults:
        faulty[fault.start : fault.stop] = True
        # An alarm outlasts its event by the records that must be normal before it ends.
        allowed[fault.start : fault.stop + GRACE] = True
        noticed[fault.kind].append(bool(alarms[fault.start : fault.stop + GRACE].any()))
        hit[fault.kind][0] += int(alarms[fault.start : fault.stop].sum())
        hit[fault.kind][1] += fault.stop - fault.start
    edges = np.flatnonzero(np.diff(np.concatenate([[False], alarms, [False]]).astype(int)))
    runs = edges.reshape(-1, 2)
    right = sum(bool(allowed[start:stop].any()) for start, stop in runs)
    events = {kind: float(np.mean(noticed[kind])) for kind in KINDS}
    events["all"] = float(np.mean([value for kind in KINDS for value in noticed[kind]]))
    records = {kind: hit[kind][0] / hit[kind][1] for kind in KINDS}
    records["all"] = float((alarms & faulty).sum() / faulty.sum())
    return Marks(
        events,
        records,
        right / len(runs) if len(runs) else 1.0,
        float((alarms & allowed).sum() / alarms.sum()) if alarms.any() else 1.0,
        float((alarms & ~allowed).sum() / (~allowed).sum()),
    )


def table(marks: Mapping[str, Marks]) -> str:
    """Return the marks of all detectors as text."""
    width = max(map(len, marks))
    columns = [*KINDS, "all"]
    lines = []
    for title, of in (("by event", "events"), ("by record", "records")):
        lines.append(f"{title:<{width}}  " + "  ".join(f"{name:>10}" for name in [*columns, "precision"]))
        for name, mark in marks.items():
            recall = getattr(mark, of)
            precision = mark.event_precision if of == "events" else mark.record_precision
            shares = [*(recall[column] for column in columns), precision]
            lines.append(f"{name:<{width}}  " + "  ".join(f"{share:>10.1%}" for share in shares))
        lines.append("")
    lines.append(
        "false alarms, share of normal records: "
        + ", ".join(f"{name} {mark.false_share:.2%}" for name, mark in marks.items())
    )
    return "\n".join(lines)


# -- the whole ------------------------------------------------------------------------


@dataclass(frozen=True)
class Learned:
    """What absorbing new regimes changed; pairs are shares of records in alarm, before and after."""

    n_landmarks: int
    moved: float
    regimes: tuple[float, float]
    others: tuple[float, float]


@dataclass(frozen=True)
class Outcome:
    """All that the table and the figure show."""

    marks: dict[str, Marks]
    watched: Watched
    faults: list[Fault]
    model: LandmarkDiffusionMap
    learned: Learned


def run(n_normal: int = 20_000, n_stream: int = 40_000, per_kind: int = 25, seed: int = 0) -> Outcome:
    """Fit, stream, judge, and let the map learn some of the new regimes."""
    rng = np.random.default_rng(seed)
    training = measure(operate(n_normal, rng).channels(), rng)
    validation = measure(operate(n_normal, rng).channels(), rng)
    stream, faults = faulty_stream(n_stream, per_kind, rng)

    model = fit_map(training, min(800, n_normal // 10))
    watched = watch(model, stream, validation)
    centre, spread = training.mean(axis=0), training.std(axis=0)
    forest = IsolationForest(n_estimators=200, random_state=seed).fit(training)

    def worst_z(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.abs((values - centre) / spread).max(axis=1))

    def isolation(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-forest.score_samples(values))

    marks = {
        "diffusion map": judge(watched.alarms, faults),
        "z-score": judge(alarms_of_score(worst_z(stream), worst_z(validation)), faults),
        "isolation forest": judge(alarms_of_score(isolation(stream), isolation(validation)), faults),
    }
    learned = learn_regimes(model, watched, stream, faults, validation)
    return Outcome(marks, watched, faults, model, learned)


def learn_regimes(
    model: LandmarkDiffusionMap,
    watched: Watched,
    stream: NDArray[np.float64],
    faults: list[Fault],
    validation: NDArray[np.float64],
) -> Learned:
    """Absorb the new regimes of the first half, as if an operator had found them harmless, and watch again."""
    regimes = [fault for fault in faults if fault.kind == "new regime"]
    half = len(regimes) // 2
    absorbed = np.concatenate([stream[fault.start : fault.stop] for fault in regimes[:half]])
    grown = absorb(model, absorbed, disconnected="leave")
    again = watch(grown, stream, validation)
    rows = np.concatenate([np.arange(fault.start, fault.stop) for fault in regimes[half:]])
    others = [fault for fault in faults if fault.kind != "new regime"]
    other_rows = np.concatenate([np.arange(fault.start, fault.stop) for fault in others])
    return Learned(
        grown.absorption_.n_new_landmarks,
        grown.absorption_.z,
        (float(watched.alarms[rows].mean()), float(again.alarms[rows].mean())),
        (float(watched.alarms[other_rows].mean()), float(again.alarms[other_rows].mean())),
    )


# -- the figure -------------------------------------------------------------------------

COLOURS = {"spike": "#c1272d", "stuck": "#e08e0b", "phase slip": "#7b3f9e", "new regime": "#1f77b4"}
DETECTORS = ("#1b6e53", "#b0b0b0", "#6f7f95")


def draw(outcome: Outcome, path: str) -> None:
    """Draw a stretch of the stream, the map, and the recall of each detector."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    watched, faults = outcome.watched, outcome.faults
    figure = plt.figure(figsize=(11, 7.2), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1, 1.25])
    _draw_stretch(figure.add_subplot(grid[0, :]), watched, faults)
    _draw_map(figure.add_subplot(grid[1, 0]), watched, faults)
    _draw_recall(figure.add_subplot(grid[1, 1]), outcome.marks)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_stretch(ax: Any, watched: Watched, faults: list[Fault]) -> None:
    """Draw the distance over the first stretch that holds every kind of fault."""
    seen: set[str] = set()
    for stop, fault in enumerate(faults, start=1):
        seen.add(fault.kind)
        if len(seen) == len(KINDS) and stop >= 8:
            break
    last = min(len(watched.distance), faults[stop - 1].stop + 150)
    first = max(0, faults[0].start - 150)
    rows = np.arange(first, last)
    ax.plot(rows, watched.distance[first:last], color="0.25", linewidth=0.6)
    limit = max(watched.threshold, 1.0)
    ax.axhline(limit, color="0.25", linewidth=0.8, linestyle="--")
    named: set[str] = set()
    for fault in faults[:stop]:
        label = fault.kind if fault.kind not in named else None
        named.add(fault.kind)
        # A spike of three records would be thinner than a line.
        middle, half = (fault.start + fault.stop) / 2, max(fault.stop - fault.start, 8) / 2
        ax.axvspan(
            middle - half, middle + half, color=COLOURS[fault.kind], alpha=0.3, linewidth=0, label=label
        )
    bar = np.where(watched.alarms[first:last], -0.12, np.nan)
    ax.plot(rows, bar, color="black", linewidth=4, solid_capstyle="butt", label="alarm")
    ax.set(xlim=(first, last), ylim=(-0.3, None), xlabel="record", ylabel="distance to the map [√ε]")
    ax.set_title(
        "A stretch of the stream: distance of each record from the nearest landmark", loc="left", fontsize=10
    )
    ax.legend(ncols=5, fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 0.99), borderpad=0)
    ax.spines[["top", "right"]].set_visible(False)


def _draw_map(ax: Any, watched: Watched, faults: list[Fault]) -> None:
    normal = np.ones(len(watched.distance), dtype=bool)
    for fault in faults:
        normal[fault.start : fault.stop] = False
    thinned = np.flatnonzero(normal)[:: max(1, int(normal.sum() / 6000))]
    ax.scatter(*watched.coordinates[thinned].T, s=1.5, color="0.75", linewidths=0, label="normal")
    for kind in reversed(KINDS):
        rows = np.concatenate([np.arange(f.start, f.stop) for f in faults if f.kind == kind])
        rows = rows[:: max(1, len(rows) // 600)]
        size = 14 if kind == "spike" else 5
        ax.scatter(
            *watched.coordinates[rows].T, s=size, color=COLOURS[kind], linewidths=0, label=kind, alpha=0.7
        )
    ax.set(xlabel="ψ₂", ylabel="ψ₃", xticks=[], yticks=[], aspect="equal")
    ax.set_title("The coordinates follow the cycle; most faults look normal there", loc="left", fontsize=10)
    ax.legend(fontsize=8, frameon=False, markerscale=2.5, loc="center")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_recall(ax: Any, marks: Mapping[str, Marks]) -> None:
    groups = [*KINDS, "all"]
    width = 0.27
    for place, (name, mark) in enumerate(marks.items()):
        at = np.arange(len(groups)) + (place - 1) * width
        by_event, by_record = ([100 * of[group] for group in groups] for of in (mark.events, mark.records))
        ax.bar(at, by_event, width * 0.92, color=DETECTORS[place], alpha=0.28)
        ax.bar(
            at,
            by_record,
            width * 0.92,
            color=DETECTORS[place],
            label=f"{name} ({mark.false_share:.1%} false)",
        )
        for x, share in zip(at, by_record, strict=True):
            inside = share > 12
            ax.text(
                x,
                share - 1.5 if inside else share + 1,
                f"{share:.0f}",
                ha="center",
                va="top" if inside else "bottom",
                color="white" if inside else "black",
                fontsize=7,
            )
    ax.set_xticks(np.arange(len(groups)), groups)
    ax.set(ylim=(0, 103), ylabel="recall [%]")
    ax.set_title("Recall by record, and in light colours by event", loc="left", fontsize=10)
    ax.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.09), ncols=3)
    ax.spines[["top", "right"]].set_visible(False)


def main(arguments: list[str] | None = None) -> Outcome:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--output", default="sensor_anomalies.png", help="figure to write (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed is another machine's life")
    parser.add_argument("--quick", action="store_true", help="a short stream, for a first look")
    options = parser.parse_args(arguments)
    sizes = {"n_normal": 5000, "n_stream": 8000, "per_kind": 5} if options.quick else {}
    outcome = run(seed=options.seed, **sizes)
    watched, learned = outcome.watched, outcome.learned
    print(
        f"{len(watched.distance)} records with {len(outcome.faults)} faults; a map of "
        f"{outcome.model.embedder_.n_landmarks} landmarks, sqrt(epsilon) = {outcome.model.epsilon_**0.5:.3f}\n"
    )
    print(table(outcome.marks))
    print(
        f"\nnew regimes of the first half absorbed ({learned.n_landmarks} landmarks more; old coordinates moved by "
        f"{learned.moved:.2g} %):\n  records of later new regimes in alarm {learned.regimes[0]:.1%} before, "
        f"{learned.regimes[1]:.1%} after\n  records of the other faults in alarm {learned.others[0]:.1%} before, "
        f"{learned.others[1]:.1%} after"
    )
    draw(outcome, options.output)
    print(f"\n{options.output} written")
    return outcome


if __name__ == "__main__":
    main()
