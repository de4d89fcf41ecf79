"""An interrupted reproduction goes on where it stopped, and never takes another setting's piece for its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

from reproduction.pieces import Piece, Store
from reproduction.plan import reduced_plan
from reproduction.run import laboratory, main, run


def tiny_plan(seed=0):
    plan = reduced_plan(seed)
    roll = replace(
        plan.of("swiss_roll"),
        n_points=250,
        table_landmarks=(40, 80),
        waterfall_landmarks=(40, 80),
        parity_landmarks=(80,),
        timing_landmarks=(20, 80),
        n_modes=10,
        widths=plan.of("swiss_roll").widths[:1],
        sparse_widths=(),
    )
    return replace(plan, sets=(roll,), variants=())


@pytest.fixture(autouse=True)
def _needs_matplotlib():
    pytest.importorskip("matplotlib", reason="the figures are drawn with it")


@pytest.mark.slow
def test_a_killed_run_keeps_what_was_finished(tmp_path):
    command = [sys.executable, "-m", "reproduction", "--reduced", "--only", "figure2,figure4"]
    process = subprocess.Popen(
        [*command, "--output", str(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    cache = tmp_path / "cache"
    deadline = time.monotonic() + 600
    while not list(cache.glob("*.npz")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in cache.glob("*.npz")}
    assert kept
    lab = laboratory(reduced_plan(), cache)
    run(lab, tmp_path, ["figure2"])
    assert not set(kept) & {piece.file_name(lab.store.context) for piece in lab.store.computed}
    for name, changed in kept.items():
        assert (cache / name).stat().st_mtime_ns == changed


@pytest.mark.slow
def test_a_finished_run_computes_nothing_again(tmp_path, monkeypatch):
    first = laboratory(tiny_plan(), tmp_path / "cache")
    page = run(first, tmp_path).read_text(encoding="utf-8")
    assert first.store.computed
    again = laboratory(tiny_plan(), tmp_path / "cache")
    for kind in again.makers:
        monkeypatch.setitem(
            again.makers, kind, lambda _, piece: pytest.fail(f"{piece.label} was computed again")
        )
    assert run(again, tmp_path).read_text(encoding="utf-8") == page


def test_an_interrupted_piece_leaves_no_file(tmp_path):
    lab = laboratory(tiny_plan(), tmp_path / "cache")
    original = lab.makers["errors"]
    calls = []

    def interrupted(lab, piece):
        calls.append(piece)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(lab, piece)

    lab.makers["errors"] = interrupted
    with pytest.raises(KeyboardInterrupt):
        run(lab, tmp_path, ["table1"])
    assert not lab.store.has(calls[1])
    assert not list((tmp_path / "cache").glob(".*.part"))
    later = laboratory(tiny_plan(), tmp_path / "cache")
    run(later, tmp_path, ["table1"])
    assert calls[0] not in later.store.computed
    assert calls[1] in later.store.computed


def test_the_page_names_what_is_missing(tmp_path):
    lab = laboratory(tiny_plan(), tmp_path / "cache")
    page = run(lab, tmp_path, ["figure2"]).read_text(encoding="utf-8")
    assert "**Not finished:** Table 1 (0 of" in page
    assert "figure2.png" in page
    only_written = run(laboratory(tiny_plan(), tmp_path / "cache"), tmp_path, compute=False)
    assert only_written.read_text(encoding="utf-8") == page


def test_a_spoilt_piece_is_computed_again(tmp_path):
    store = Store(tmp_path, {"seed": 0}, {"commit": "a"})
    piece = Piece.of("numbers", data="none", fold=0)
    store.get(piece, lambda _: {"x": np.arange(3)})
    path = tmp_path / piece.file_name({"seed": 0})
    path.write_bytes(path.read_bytes()[:40])
    again = Store(tmp_path, {"seed": 0}, {"commit": "b"})
    assert np.array_equal(again.get(piece, lambda _: {"x": np.arange(4)})["x"], np.arange(4))
    fresh = Store(tmp_path, {"seed": 0}, {"commit": "c"})
    assert len(fresh.get(piece, lambda _: pytest.fail("was computed again"))["x"]) == 4
    assert fresh.makers() == [{"commit": "b"}]


def test_other_settings_are_other_pieces():
    piece = Piece.of("errors", data="c24h50", fold=0, method=("kmedoids", 50, "nystrom"))
    names = {
        piece.file_name({"seed": 0}),
        piece.file_name({"seed": 1}),
        Piece.of("errors", data="c24h50", fold=1, method=("kmedoids", 50, "nystrom")).file_name({"seed": 0}),
        Piece.of("errors", data="c24h50", fold=0, method=("kmedoids", 51, "nystrom")).file_name({"seed": 0}),
    }
    assert len(names) == 4
    same = Piece.of("errors", method=("kmedoids", 50, "nystrom"), fold=0, data="c24h50")
    assert same.file_name({"seed": 0}) in names


def test_a_result_that_does_not_exist_is_named(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--only", "table1,figure9"])
    assert stopped.value.code == 2
    assert "'figure9' is no result; known are table1, figure2" in capsys.readouterr().err


def test_without_matplotlib_the_command_says_what_to_install(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["--reduced", "--output", str(tmp_path)]) == 1
    assert "pip install matplotlib" in capsys.readouterr().err
