"""One command measures every page: what counts as measured, what resumes, and that no page is older than a release."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from benchmarks import evidence, harness
from benchmarks.evidence import Benchmark, Measured

CHANGELOG = (evidence.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
QUICK = Benchmark(
    "quick",
    "?",
    {},
    ('-c \'open("a", "a").write("1")\'', "-c 'import sys; sys.exit(int(open(\"status\").read()))'"),
)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Put a repository of one commit in the place of the project."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "code.py").write_text("1\n")
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    monkeypatch.setattr(harness, "ROOT", tmp_path)
    monkeypatch.setattr(harness, "CODE", ("src",))
    monkeypatch.setattr(evidence, "ROOT", tmp_path)
    monkeypatch.setattr(evidence, "STORE", tmp_path / "evidence.json")
    return tmp_path


def test_a_benchmark_is_current_until_the_code_changes(tree):
    (tree / "status").write_text("0")
    evidence.run(QUICK, {})
    measured = evidence.read_store()["quick"]
    assert measured.is_whole
    assert measured.is_current
    (tree / "page.md").write_text("changed")
    assert measured.is_current
    assert "dirty" not in harness.commit()
    (tree / "src" / "code.py").write_text("2\n")
    assert not measured.is_current
    assert harness.commit().endswith("-dirty")


def test_an_interrupted_benchmark_is_not_current_and_resumes(tree, capfd):
    (tree / "status").write_text("3")
    resuming = Benchmark("quick", "?", {}, QUICK.commands, "--again")
    with pytest.raises(subprocess.CalledProcessError):
        evidence.run(resuming, {})
    store = evidence.read_store()
    assert not store["quick"].is_whole
    assert not store["quick"].is_current
    assert "--again" in capfd.readouterr().out
    (tree / "status").write_text("0")
    evidence.run(resuming, store)
    assert evidence.read_store()["quick"].is_whole
    assert "--again" not in capfd.readouterr().out


def test_those_that_time_nothing_run_at_once_and_the_others_alone(tree, monkeypatch):
    order, counted, running = [], threading.Barrier(2, timeout=60), []

    def run(benchmark, store, *, full, threads):
        running.append(benchmark.name)
        if benchmark.times:
            assert running == [benchmark.name]
            assert threads is None
        else:
            counted.wait()  # the other one runs as well
            assert threads == 1
        running.remove(benchmark.name)
        order.append(benchmark.name)
        if benchmark.name == "b":
            raise subprocess.CalledProcessError(1, "b")

    monkeypatch.setattr(evidence, "run", run)
    wanted = [
        Benchmark("clock", "?", {}, (), times=True),
        Benchmark("a", "?", {}, ()),
        Benchmark("b", "?", {}, ()),
    ]
    assert evidence.run_all(wanted, {}, 2, 1.0, full=False) == ["b"]
    assert order[-1] == "clock"
    assert sorted(order) == ["a", "b", "clock"]
    assert evidence.run_all(wanted, {}, 2, -1.0, full=False) == []
    assert len(order) == 3


def test_full_runs_the_longer_commands(tree):
    (tree / "status").write_text("0")
    longer = Benchmark("quick", "?", {}, QUICK.commands, full=('-c \'open("b", "a").write("1")\'',))
    evidence.run(longer, {}, full=True)
    assert (tree / "b").exists()
    assert not (tree / "a").exists()


def test_uncommitted_code_is_not_measured(tree, monkeypatch):
    (tree / "src" / "code.py").write_text("2\n")
    monkeypatch.setattr(sys, "argv", ["evidence"])
    with pytest.raises(SystemExit, match="uncommitted changes in src"):
        evidence.main()


def test_every_page_of_a_benchmark_is_there():
    store = {"speed": Measured("abc1234", "0.1.0", "2026-11-18", "a machine", 754.0, True)}
    table = evidence.table(store, evidence.DOCS)
    assert "abc1234 | 13 min |" in table
    assert table.count("\n") == len(evidence.BENCHMARKS) + 1


def test_scripts_of_the_benchmarks_exist():
    for benchmark in evidence.BENCHMARKS:
        for command in benchmark.commands:
            script = command.split()[0]
            assert script == "-m" or (evidence.ROOT / script).exists(), command


def test_no_page_is_older_than_the_release_before_the_last():
    assert evidence.stale(evidence.read_store(), CHANGELOG) == [], "run `make evidence`"


@pytest.mark.parametrize(
    ("changelog", "measured", "expected"),
    [
        ("## [Unreleased]\n\n- New.\n\n## [0.2.0] - today\n## [0.1.0] - before\n", {"speed": "0.1.0"}, []),
        ("## [Unreleased]\n\n- New.\n\n## [0.3.0]\n## [0.2.0]\n## [0.1.0]\n", {"speed": "0.1.0"}, ["speed"]),
        ("## [Unreleased]\n\n## [0.1.0]\n", {"speed": "0.1.0"}, ["all but speed"]),
        ("## [0.1.0]\n", {"speed": "0.1.0"}, ["all but speed"]),
    ],
)
def test_a_release_needs_every_page_and_none_that_is_two_releases_old(changelog, measured, expected):
    store = {
        name: Measured("abc1234", version, "2026-11-18", "a machine", 1.0, True)
        for name, version in measured.items()
    }
    others = [benchmark.name for benchmark in evidence.BENCHMARKS if benchmark.name != "speed"]
    assert evidence.stale(store, changelog) == (others if expected == ["all but speed"] else expected)


def test_the_page_on_accuracy_has_the_words_that_a_run_would_write():
    """The benchmark writes the whole page; a sentence mended on the page alone would be lost."""
    prose = (evidence.ROOT / "benchmarks" / "prose" / "accuracy.md").read_text(encoding="utf-8")
    assert prose in (evidence.DOCS / "accuracy.md").read_text(encoding="utf-8")
