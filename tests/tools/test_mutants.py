"""The list of mutants stays true to the sources, and its runner tells the noticed from the unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import mutants

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = mutants.read_mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_snippet_stands_in_the_sources_once(mutant):
    changed = mutant.applied(ROOT / "src")
    assert mutant.new != mutant.old
    if mutant.file.endswith(".py"):
        compile(changed, mutant.file, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_test_that_is_named_exists(mutant):
    for test in mutant.tests:
        path, _, name = test.partition("::")
        text = (ROOT / "tests" / path).read_text()
        assert not name or f"def {name.partition('[')[0].rpartition('::')[2]}(" in text, test


@pytest.fixture
def project(tmp_path):
    """A package of one function, and tests that notice only one of its two lines."""
    (tmp_path / "src" / "ldmaps").mkdir(parents=True)
    (tmp_path / "tests").mkdir()
    (tmp_path / "src" / "ldmaps" / "__init__.py").write_text(
        "def area(width, height):\n    unit = 1\n    return width * height * unit\n"
    )
    (tmp_path / "tests" / "test_area.py").write_text(
        "from ldmaps import area\n\ndef test_area():\n    assert area(2, 3) == 6\n"
    )
    return tmp_path


def mutant(old, new, equivalent=""):
    return mutants.Mutant("tiny", "__init__.py", old, new, ("test_area.py",), equivalent)


def test_the_noticed_are_told_from_the_unnoticed_and_the_sources_stay(project):
    original = (project / "src" / "ldmaps" / "__init__.py").read_text()
    with mutants.copied(project / "src") as copy:
        assert mutants.run_tests(copy, ["test_area.py"], project)[0] == 0
        assert mutants.verdict(mutant("width * height", "width + height"), copy, project) == "killed"
        assert mutants.verdict(mutant("width * height", "height * width"), copy, project) == "survived"
        assert mutants.verdict(mutant("width * height", "width /", ""), copy, project) == "killed"
        assert (copy / "ldmaps" / "__init__.py").read_text() == original
        assert mutants.verdict(mutant("unit = 1", "unit = 1.0", "the same number"), copy) == "equivalent"
    assert (project / "src" / "ldmaps" / "__init__.py").read_text() == original


def test_a_snippet_that_is_gone_or_not_alone_is_an_error(project):
    for old, times in (("depth", 0), ("width", 2)):
        with pytest.raises(mutants.MutantError, match=f"stands {times} times"):
            mutant(old, "x").applied(project / "src")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('name = "a"\nfile = "b"\nold = "c"', "needs name, file, old and new"),
        ('name = "a"\nfile = "b"\nold = "c"\nnew = "d"', "name the tests"),
        ('name = "a"\nfile = "b"\nold = "c"\nnew = "d"\ntests = ["t"]\nequivalent = "e"', "name the tests"),
    ],
)
def test_incomplete_entries_are_refused(tmp_path, entry, message):
    path = tmp_path / "list.toml"
    path.write_text(f"[[mutant]]\n{entry}\n")
    with pytest.raises(mutants.MutantError, match=message):
        mutants.read_mutants(path)
