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
    before, last = "line 3: if not (é < 2 and True):  ->  if ", "line 5: return np.max(é) * 0.5  ->  return "
    assert changed == {
        'line 1: def f(é: int = 1) -> "1 + 1":  ->  def f(é: int = 2) -> "1 + 1":',
        *(f"{before}{new}:" for new in ("(é < 2 and True)", "not (é <= 2 and True)", "not (é > 2 and True)")),
        *(f"{before}{new}:" for new in ("not (é < 3 and True)", "not (é < 2 or True)", "True", "False")),
        *(f"{before}{new}:" for new in ("not ((é < 2))", "not ((True))", "not (é < 2 and False)")),
        *(f"{last}{new}" for new in ("np.min(é) * 0.5", "np.max(é) / 0.5", "np.max(é) * 0.75")),
        *(f"{last}{new}" for new in ("np.max(é)", "(0.5)", "é * 0.5")),
    }


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("save(x, allow_pickle=False)\n", {"save(x, allow_pickle=True)", "save(x)", "pass"}),
        ("y = a if b else c\n", {"y = a", "y = c"}),
        ("y = x[i]\n", {"y = x"}),
        ("y = max(*a, b)\n", {"y = min(*a, b)", "y = max(*a)"}),
        ("y = max(a, b)\n", {"y = min(a, b)", "y = max(a)", "y = a", "y = b"}),
        ("y += -z\n", {"pass", "y += z"}),
        ("y = [a, b, c]\n", {"y = [a, b]"}),
        ("y = float(x)\n", set()),
        ("if a:\n    pass\nelif b:\n    pass\n", {"if True:", "if False:", "elif True:", "elif False:"}),
    ],
)
def test_whole_expressions_give_way_to_a_part(text, changed):
    every = random_mutants.changes("f.py", text)
    assert {change.describe(text).partition("  ->  ")[2] for change in every} == changed
    for change in every:
        compile(change.applied(text), "f.py", "exec")


@pytest.fixture
def drawn_somewhere(monkeypatch):
    """No test is run to see which lines it reaches."""
    monkeypatch.setattr(mutants, "note_reached", lambda drawn, record, root: record.touch())


@pytest.mark.usefixtures("drawn_somewhere")
def test_a_seed_draws_the_same_mutants_again():
    drawn = mutants.drawn_mutants(25, seed=3, only="streaming/")
    assert drawn == mutants.drawn_mutants(25, seed=3, only="streaming/")
    assert drawn != mutants.drawn_mutants(25, seed=4, only="streaming/")
    assert {mutant.file.partition("/")[0] for mutant in drawn} == {"streaming"}
    for mutant in drawn:
        compile(mutant.applied(ROOT / "src"), mutant.file, "exec")
        assert mutant.new != mutant.old
        assert all((ROOT / "tests" / test).exists() for test in mutant.tests)  # none reaches it


def probes_of(text, line):
    """Return the lines before which a probe for a line comes."""
    folder = {"f.py": text}
    change = random_mutants.Change("f.py", line, 0, 0, "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_mutants.Path, "rglob", lambda self, pattern: [self / name for name in folder])
        patch.setattr(random_mutants.Path, "read_text", lambda self, encoding: folder[self.name])
        probed = random_mutants.probed(random_mutants.Path("src"), [change])["f.py"]
    compile(probed, "f.py", "exec")
    lines = probed.splitlines()
    return [lines[at + 1].strip() for at, one in enumerate(lines) if '__import__("reached").note(0)' in one]


def test_probes_stand_where_a_line_is_run():
    text = (
        "LIMIT = 3\n"  # 1
        "def f(x, y=2):\n"  # 2
        '    """Say."""\n'
        "    if x:\n"
        "        return x + 1\n"  # 5
        "    elif x < LIMIT:\n"  # 6
        "        y = (\n"
        "            x * 2\n"  # 8
        "        )\n"
        "    return y\n"
    )
    assert probes_of(text, 1) == ["if x:"]  # a constant counts where it is used
    assert probes_of(text, 2) == ["if x:"]  # and a default where its function begins
    assert probes_of(text, 5) == ["return x + 1"]
    assert probes_of(text, 6) == ["if x:"]  # nothing can stand before elif
    assert probes_of(text, 8) == ["y = ("]


def test_tests_that_reach_a_line_judge_it_the_shortest_first(tmp_path):
    (tmp_path / "tests").mkdir()
    record = tmp_path / "reached.tsv"
    lines = [
        "0\ttests/test_b.py::test_long (call)",
        "0\ttests/test_b.py::test_short[a b] (call)",
        "0\ttests/test_area.py::test_own (call)",
        "0\ttests/test_c.py::test_first (setup)",  # a fixture, which others use as well
        "0\ttests/test_b.py::test_red (call)",
        "0\t",
        "1\ttests/test_b.py::test_endless (call)",
        *(f"tests/test_b.py::test_{name}\t{time}\tpassed" for name, time in (("long", 5), ("short[a b]", 1))),
        "tests/test_area.py::test_own\t9\tpassed",
        "tests/test_b.py::test_red\t0\tfailed",
        *(f"tests/test_c.py::test_{name}\t2\tpassed" for name in ("first", "second")),
        f"tests/test_b.py::test_endless\t{mutants.BUDGET + 1}\tpassed",
    ]
    record.write_text("\n".join(lines) + "\n")
    found = mutants.tests_by_probe(record, ["area.py", "b.py", "c.py"], tmp_path / "tests")
    c = ["test_c.py::test_first", "test_c.py::test_second"]
    assert found[0] == ("test_area.py::test_own", "test_b.py::test_short[a b]", *c, "test_b.py::test_long")
    assert found[1] == found[2] == ()  # too long, and nobody: those of the package, which has none here


@pytest.mark.slow
def test_the_drawn_are_judged_by_the_tests_that_reach_them(project):
    (project / "tests" / "test_elsewhere.py").write_text("def test_nothing():\n    pass\n")
    drawn = mutants.drawn_mutants(99, seed=0, root=project)
    assert {mutant.tests for mutant in drawn} == {("test_area.py::test_area",)}
    with mutants.copied(project / "src") as copy:
        results = {mutant.name: mutants.verdict(mutant, copy, project) for mutant in drawn}
    line = "line 3: return width * height * unit  ->  return "
    survivors = {f"{line}width * height / unit", f"{line}(width * height)"}
    assert {name for name, result in results.items() if result == "survived"} == survivors
    assert "killed" in results.values()


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
