"""A file that too few lines are run of fails."""

from __future__ import annotations

import json

import pytest

from tools import coverage_floor


@pytest.fixture
def report(tmp_path):
    def write(**shares):
        files = {
            f"src/ldmaps/{name}.py": {"summary": {"percent_covered": share}, "missing_lines": [3, 7]}
            for name, share in shares.items()
        }
        path = tmp_path / "coverage.json"
        path.write_text(json.dumps({"files": files}))
        return str(path)

    return write


def test_files_at_the_limit_pass(report, capsys):
    assert coverage_floor.main([report(archive=90.0, files=100.0)]) == 0
    assert "2 of 2 files at 90 % or more" in capsys.readouterr().out


def test_one_file_below_the_limit_fails_whatever_the_others(report, capsys):
    assert coverage_floor.main([report(archive=89.9, files=100.0)]) == 1
    printed = capsys.readouterr()
    assert "src/ldmaps/archive.py 89.9 % (lines not run: 3, 7)" in printed.err
    assert "1 of 2 files" in printed.out


def test_the_worst_comes_first():
    assert list(coverage_floor.below({"a": 80.0, "b": 10.0, "c": 95.0})) == ["b", "a"]


def test_another_limit(report):
    assert coverage_floor.main([report(archive=60.0), "--limit", "60"]) == 0


def test_a_report_about_nothing_is_an_error(report, capsys):
    assert coverage_floor.main([report()]) == 2
    assert "names no file of the package" in capsys.readouterr().err
