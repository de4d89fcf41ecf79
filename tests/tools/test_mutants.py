"""The list of mutants stays true to the sources, and its runner tells the noticed from the unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import mutants, random_mutants

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = mutants.read_mutants()


def test_every_snippet_stands_in_the_sources_once():
    for mutant in MUTANTS:
        changed = mutant.applied(ROOT / "src")
        assert mutant.new != mutant.old, mutant.name
        assert ".." not in mutant.file, "only the sources of the package are copied"
        if mutant.file.endswith(".py"):
            compile(changed, mutant.file, "exec")


def test_every_test_that_is_named_exists():
    for mutant in MUTANTS:
        for test in mutant.tests:
            path, _, name = test.partition("::")
            text = (ROOT / "tests" / path).read_text()
            assert not name or f"def {name.partition('[')[0].rpartition('::')[2]}(" in text, (
                mutant.name,
                test,
            )


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


@pytest.mark.slow
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


def test_every_kind_of_place_is_changed_and_the_rest_left_alone():
    text = (
        'def f(é: int = 1) -> "1 + 1":\n'
        '    """1 + 1."""\n'
        "    if not (é < 2 and True):\n"
        '        raise ValueError(f"{1 + 1}")\n'
        "    return np.max(é) * 0.5\n"
    )
    changed = {change.describe(text) for change in random_mutants.changes("f.py", text)}
    assert changed == {
        'line 1: def f(é: int = 1) -> "1 + 1":  ->  def f(é: int = 2) -> "1 + 1":',
        "line 3: if not (é < 2 and True):  ->  if (é < 2 and True):",
        "line 3: if not (é < 2 and True):  ->  if not (é <= 2 and True):",
        "line 3: if not (é < 2 and True):  ->  if not (é > 2 and True):",
        "line 3: if not (é < 2 and True):  ->  if not (é < 3 and True):",
        "line 3: if not (é < 2 and True):  ->  if not (é < 2 or True):",
        "line 5: return np.max(é) * 0.5  ->  return np.min(é) * 0.5",
        "line 5: return np.max(é) * 0.5  ->  return np.max(é) / 0.5",
        "line 5: return np.max(é) * 0.5  ->  return np.max(é) * 0.75",
    }


def test_a_seed_draws_the_same_mutants_of_every_package_again():
    drawn = mutants.drawn_mutants(1, seed=3)
    assert drawn == mutants.drawn_mutants(1, seed=3) != mutants.drawn_mutants(1, seed=4)
    assert {"maps", "streaming", "metrics"} <= {mutant.file.partition("/")[0] for mutant in drawn}
    for mutant in drawn:
        compile(mutant.applied(ROOT / "src"), mutant.file, "exec")
        assert mutant.new != mutant.old
        assert all((ROOT / "tests" / test).exists() for test in mutant.tests)


@pytest.mark.slow
def test_the_drawn_are_judged_by_the_tests_of_their_package(project):
    drawn = mutants.drawn_mutants(9, seed=0, root=project)
    with mutants.copied(project / "src") as copy:
        results = {mutant.name: mutants.verdict(mutant, copy, project) for mutant in drawn}
    assert results.pop("line 3: return width * height * unit  ->  return width * height / unit") == "survived"
    assert list(results.values()) == ["killed", "killed"]


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
