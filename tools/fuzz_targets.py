"""What is attacked: one function per target, each carries out one attempt and lets foreign exceptions out."""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import math
import os
import socket
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_damage import Random, altered, altered_archive, spoiled
from fuzz_world import World

from ldmaps import load
from ldmaps.absorbing import absorb
from ldmaps.cli import main as command
from ldmaps.errors import InvalidInputError, LdmapsError
from ldmaps.inputs import open_files
from ldmaps.inputs.frame_formats import FRAME_FORMATS
from ldmaps.maps.model_file import read_header
from ldmaps.regions import load_regions
from ldmaps.streaming import GrowingTrajectory
from ldmaps.streaming.checkpoint import Checkpoint
from ldmaps.streaming.reservoir import read_outside
from ldmaps.streaming.sources.tables import open_decoder

__all__ = ["TARGETS", "Target"]


def model_bytes(world: World, rng: Random, folder: Path) -> None:
    """Damage the bytes of a model file: refused, or as it was."""
    path = folder / "map.ldm"
    path.write_bytes(spoiled(rng, world.model_file.read_bytes()))
    with contextlib.suppress(LdmapsError):
        read_header(path)
    try:
        model = load(path)
    except LdmapsError:
        return
    same = model.transform(world.points[:5]) == world.model.transform(world.points[:5])
    assert same.all(), "a damaged file gave another map"


def model_content(world: World, rng: Random, folder: Path) -> None:
    """Sign a model file with hostile content: refused, or a map that gives numbers."""
    path = folder / "map.ldm"
    sound, points = world.any_model(rng)
    altered_archive(rng, sound, path)
    status, out, err = run_command("info", str(path), *(["--json"] if rng.random() < 0.3 else []))
    assert status in (0, 1), err
    for text in (out, err):
        assert text.replace("\n", "").isprintable(), f"raw control characters: {text!r}"
    try:
        model = load(path)
        if model.n_features_in_ != math.prod(points.shape[1:]):  # scikit-learn's own check refuses our points
            return
        values = model.transform(points[:20])
        assert np.isfinite(model.transform(points[:1])).all(), "one point without coordinates"
        coverage = model.coverage(points[:20])
        if model.metric_.is_differentiable:
            assert np.isfinite(model.gradient(points[:5])).all(), "gradients that are not finite"
    except LdmapsError:
        return
    assert np.isfinite(values).all(), "coordinates that are not finite"
    assert np.isfinite(coverage.distance).all(), "distances that are not finite"


def regions(world: World, rng: Random, folder: Path) -> None:
    """Read a regions file, hostile as text or as content."""
    content: Any = {
        "regions": {
            "a": {"kind": "box", "psi2": [-0.1, None], "margin": 0.01},
            "b": {"kind": "ball", "centre": {"psi2": 0.0, "psi3": 0.1}, "radius": 0.1},
            "c": {"kind": "polygon", "vertices": [[0, 0], [1, 0], [1, 1]], "axes": ["psi2", "psi3"]},
            "d": {"kind": "out_of_domain"},
        },
        "basins": {"n_basins": 2, "enter": 0.7, "leave": 0.5, "names": ["x", "y"]},
    }
    toml = '[regions.a]\nkind = "box"\npsi2 = [-0.1, 0.2]\n[regions.b]\nkind = "out_of_domain"\n[basins]\n'
    match int(rng.integers(4)):
        case 0:
            path, data = folder / "r.toml", spoiled(rng, toml.encode())
        case 1:
            path, data = folder / "r.json", spoiled(rng, json.dumps(content).encode())
        case 2:
            deep = b"[" * int(rng.integers(1, 200_000))
            path, data = (
                folder / f"r.{rng.choice(['json', 'toml'])}",
                b"regions = " * int(rng.integers(2)) + deep,
            )
        case _:
            for _ in range(int(rng.integers(1, 4))):
                content = altered(rng, content)
            path, data = folder / "r.json", json.dumps(content).encode()
    path.write_bytes(data)
    try:
        loaded = load_regions(path, world.model)
    except LdmapsError:
        return
    embedder = world.model.embedder_
    extended = embedder.extend(embedder.prepare(world.points[:50]), 1)
    for region in loaded.values():
        entering, staying = region.masks(extended.coordinates, embedder.coverage_of(extended))
        assert entering.shape == staying.shape == (50,)


def outside(world: World, rng: Random, folder: Path) -> None:
    """Absorb what a stream left outside: damaged bytes, or signed with hostile content."""
    path = folder / "outside.npz"
    if rng.random() < 0.5:
        path.write_bytes(spoiled(rng, world.outside_file.read_bytes()))
    else:
        altered_archive(rng, world.outside_file, path)
    try:
        read = read_outside(path, world.model)
        if len(read["points"]):
            absorb(world.model, read["points"], read["weights"], counts=read["counts"], disconnected="leave")
    except LdmapsError:
        return


def checkpoint(world: World, rng: Random, folder: Path) -> None:
    """Go on from a checkpoint: damaged bytes, or signed with hostile content."""
    text = (world.folder / "c").read_text()
    moved: Any = dict(world.checkpoint)
    sinks = [
        {**sink, "name": sink["name"].replace(str(world.folder), str(folder))} for sink in moved["sinks"]
    ]
    moved["sinks"] = sinks
    (folder / "psi.csv").write_bytes(world.output)
    if rng.random() < 0.3:
        (folder / "c").write_bytes(spoiled(rng, text.encode()))
    else:
        for _ in range(int(rng.integers(1, 3))):
            moved = altered(rng, moved)
        if not isinstance(moved, dict):
            moved = {"model": moved}
        known = {
            name: value
            for name, value in moved.items()
            if name not in ("format", "version", "library_version")
        }
        with Checkpoint(folder / "c") as written:
            written.write(**known)
    with contextlib.suppress(LdmapsError):
        world.stream(folder)


def decoders(world: World, rng: Random, folder: Path) -> None:
    """Decode CSV, NDJSON and npy cut anywhere: the same records however cut, and those that were written."""
    form = str(rng.choice(["csv", "ndjson", "npy"]))
    rows = rng.normal(size=(int(rng.integers(1, 30)), 3)) * 10.0 ** rng.integers(-300, 300)
    oracle: dict[int, list[float]] = {}
    if form == "npy":
        stream = io.BytesIO()
        np.save(stream, rows)
        data = stream.getvalue()
        if rng.random() < 0.7:
            data = spoiled(rng, data)
        else:
            oracle = dict(enumerate(rows.tolist()))
    else:
        lines = []
        for number, row in enumerate(rows.tolist()):
            line = (json.dumps(row) if form == "ndjson" else ",".join(map(repr, row))).encode()
            if rng.random() < 0.2:
                line = spoiled(rng, line).replace(b"\n", b"").replace(b"\r", b"")
                lines.append(line if line.strip() and not line.strip().startswith(b"#") else b"x")
            else:
                oracle[number] = row
                lines.append(line)
        # A spoiled first line of a CSV may pass for its header.
        if form == "csv" and 0 not in oracle:
            oracle = {}
        data = b"\n".join(lines) + b"\n" * int(rng.integers(2))
    whole, cut = decoded(form, data, []), decoded(form, data, rng.integers(0, len(data) + 1, 8).tolist())
    assert whole == cut, "records depend on where the bytes were cut"
    read, rejected, error = whole
    for number, values in oracle.items():
        assert error or number in rejected or read.get(number) == values, f"record {number} is not as written"
    if error is None and form != "npy" and oracle:
        assert set(read) | set(rejected) == set(range(len(rows))), "a record was lost"
        assert not set(oracle) & set(rejected), "a sound record was refused"


def decoded(form: str, data: bytes, cuts: list[int]) -> tuple[dict[int, list[float]], list[int], str | None]:
    """Return the records by number, the numbers of those refused, and the error that ended it."""
    decoder = open_decoder(form, {"n_features": 3, "takes_frames": False})
    read: dict[int, list[float]] = {}
    rejected: list[int] = []

    def drain() -> None:
        while decoder.ready:
            taken = decoder.take(7)
            rejected.extend(one.number for one in taken.rejected)
            for number, point in zip(taken.numbers.tolist(), taken.points, strict=True):
                # A record that is not finite is refused later, by the engine.
                read[number] = [0.0 if math.isnan(value) else float(value) for value in np.ravel(point)]

    edges = [0, *sorted(cuts), len(data)]
    try:
        for begin, end in itertools.pairwise(edges):
            decoder.feed(data[begin:end], 0.0)
            drain()
        decoder.finish()
        drain()
    except InvalidInputError as error:
        # Before it, more or fewer of the records may have been taken; that is the reader's business.
        return {}, [], type(error).__name__
    return read, rejected, None


def tables(world: World, rng: Random, folder: Path) -> None:
    """Read a finished text table that is damaged, packed or not: refused, or rows of finite numbers."""
    separator = str(rng.choice([",", ";", "\t", " "]))
    rows = rng.normal(size=(int(rng.integers(1, 40)), 3)) * 10.0 ** rng.integers(-300, 300)
    lines = [separator.join(("time", "a", "b"))] * int(rng.integers(2))
    lines += [separator.join(map(repr, row)) for row in rows.tolist()]
    data = spoiled(rng, "\n".join(lines).encode())
    packed = bool(rng.random() < 0.3)
    if packed:
        data = gzip.compress(data)
        if rng.random() < 0.5:
            data = spoiled(rng, data)
    path = folder / f"rows.{rng.choice(['csv', 'tsv', 'txt'])}{'.gz' * packed}"
    path.write_bytes(data)
    try:
        points = open_files(path, missing=str(rng.choice(["drop", "error"]))).read()
    except LdmapsError:
        return
    assert np.isfinite(points.frames).all(), "numbers that are not finite"


def trajectories(world: World, rng: Random, folder: Path) -> None:
    """Read a damaged trajectory, finished and while it grows: refused or rejected, and no sound frame lost."""
    ending = str(rng.choice(["xtc", "trr", "dcd"]))
    sound, top = world.trajectories[ending], world.folder / "run.pdb"
    form = FRAME_FORMATS[ending.upper()]()
    form.read_header(sound)
    starts = form.index(lambda byte, count: sound[byte : byte + count], len(sound)).starts
    path, damaged = folder / f"run.{ending}", int(rng.integers(1, len(starts) - 1))
    is_word = bool(rng.random() < 0.6)
    data = bytearray(sound)
    if is_word:  # one bit of a frame, or one word
        place = int(starts[damaged]) + 4 * int(rng.integers((starts[damaged + 1] - starts[damaged]) // 4))
        flips = rng.bytes(4) if rng.random() < 0.5 else (1 << int(rng.integers(32))).to_bytes(4)
        data[place : place + 4] = bytes(one ^ other for one, other in zip(data[place:], flips, strict=False))
    path.write_bytes(data if is_word else spoiled(rng, sound))
    warnings.simplefilter("ignore")  # of numbers that are not finite
    with contextlib.suppress(LdmapsError):
        open_files(path, top=top).read()
    source = GrowingTrajectory(path, top=top, idle_end=0.0)
    read: dict[int, Any] = {}
    rejected: list[Any] = []
    try:
        source.open()
        while (part := source.poll(7, 0.0)) is not None:
            rejected += part.rejected
            read.update(zip(part.numbers.tolist(), part.points, strict=True))
    except LdmapsError:
        assert not is_word, "sound frames were lost"
        return
    finally:
        source.close()
    if is_word:
        block, *_ = form.decode(sound, starts, None)
        others = [number for number in range(len(starts)) if number != damaged]
        are_there = (number in read and (read[number] == block[number]).all() for number in others)
        assert len(rejected) <= 1 and all(are_there), "sound frames are not as written"  # noqa: PT018


def arguments(world: World, rng: Random, folder: Path) -> None:
    """Give the command line anything: usage errors and messages, never an internal error."""
    words = [
        *(
            "--json",
            "--quiet",
            "--force",
            "-o",
            str(folder / "o.csv"),
            str(folder / "o.ldm"),
            "--stride",
            "0",
            "-1",
        ),
        *(
            "--start",
            "5",
            "--select",
            "name CA",
            "-t",
            str(world.input),
            "--columns",
            "1,2",
            "x",
            "",
            "\x1b[2J",
            "nan",
        ),
        *(
            "--epsilon",
            "1e400",
            "connected",
            "--landmarks",
            "10",
            "--n-components",
            "gap",
            "--metric",
            "rmsd",
            "euclidean",
        ),
        *(
            "--alpha",
            "2",
            "--tolerance",
            "1e-9",
            "--threads",
            "1",
            "999999999999",
            "--checkpoint",
            str(folder / "c"),
        ),
        *(
            "--regions",
            str(world.outside_file),
            "--max-batch",
            "--max-delay",
            "inf",
            "--outside",
            str(folder / "u.npz"),
        ),
        *(
            str(world.model_file),
            str(world.input),
            str(world.outside_file),
            str(folder),
            "/nowhere/x.csv",
            "\udcff",
        ),
    ]
    name = str(
        rng.choice(["fit", "embed", "info", "stream", "absorb", "plan", "report", "completion", "nothing"])
    )
    sound = {
        "fit": [str(world.input), "-o", str(folder / "m.ldm")],
        "embed": [str(world.model_file), str(world.input), "-o", str(folder / "e.csv")],
        "stream": [str(world.model_file), str(world.input), "-o", str(folder / "s.csv")],
        "absorb": [str(world.model_file), str(world.outside_file), "-o", str(folder / "a.ldm")],
        "report": [str(world.model_file), "-o", str(folder / "r.html")],
        "info": [str(world.model_file)],
    }.get(name, [])
    given = [name, *sound]
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(1, len(given) + 1))
        given[place : place + int(rng.integers(2))] = [words[int(rng.integers(len(words)))]]
    with contextlib.chdir(folder):  # any word may be taken for an output
        status, _, err = run_command(*given)
    assert status in (0, 1, 2), f"{given} ended with {status}: {err}"
    assert "Traceback" not in err
    assert err.replace("\n", "").replace("\t", "").isprintable(), f"raw control characters: {err!r}"


def run_command(*given: str) -> tuple[int, str, str]:
    """Run the command in this process, with nothing on stdin; return its status and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    before = sys.stdin
    with open(os.devnull) as nothing, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        sys.stdin = nothing
        try:
            status = command(given)
        finally:
            sys.stdin = before
    return status, out.getvalue(), err.getvalue()


def live_page(world: World, rng: Random, folder: Path) -> None:
    """Send the live page requests, handshakes and frames: whatever comes, the next visitor is served."""
    here = f"127.0.0.1:{world.page.port}"
    upgrade = (
        f"GET /stream HTTP/1.1\r\nHost: {here}\r\nOrigin: http://{here}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    ).encode()
    greeting = json.dumps(altered(rng, {"token": "", "have": "x"})).encode()
    frame = (
        bytes([0x80 | int(rng.choice([1, 1, 2, 8, 9, 15])), 0x80 | min(len(greeting), 125)])
        + bytes(4)
        + greeting[:125]
    )
    data = upgrade + frame
    if rng.random() < 0.7:
        data = spoiled(rng, data)
    with (
        socket.create_connection(("127.0.0.1", world.page.port), timeout=5) as one,
        contextlib.suppress(OSError),
    ):
        one.sendall(data)
        one.settimeout(0.05)
        one.recv(65536)
    with socket.create_connection(("127.0.0.1", world.page.port), timeout=5) as visitor:
        visitor.sendall(f"GET / HTTP/1.1\r\nHost: {here}\r\nConnection: close\r\n\r\n".encode())
        answer = visitor.recv(64)
    assert answer.startswith(b"HTTP/1.1 200"), f"the page answers {answer!r}"


Target = Callable[[World, Random, Path], None]
TARGETS: tuple[Target, ...] = (
    model_bytes,
    model_content,
    regions,
    outside,
    checkpoint,
    decoders,
    tables,
    trajectories,
    arguments,
    live_page,
)
