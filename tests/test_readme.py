"""The documents keep their promises: examples run, links lead somewhere, named functions exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _python_blocks(path: Path) -> list[str]:
    return re.findall(
        r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )


def test_the_readme_example_runs(tmp_path, monkeypatch, capsys):
    (example,) = _python_blocks(DOCUMENTS[0])
    assert len(example.strip().splitlines()) <= 14
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out
    assert (tmp_path / "alanine.ldm").stat().st_size > 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    targets = re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8"))
    missing = [
        target
        for target in targets
        if not re.match(r"https?:", target) and not (path.parent / target).exists()
    ]
    assert not missing


def test_the_table_of_equations_names_what_exists():
    rows = re.findall(r"^\| (?:eqn|algorithm) [^|]*\|([^|]*)\|([^|]*)\|", _method(), flags=re.MULTILINE)
    assert len(rows) > 10
    for functions, tests in rows:
        names = re.findall(r"`([\w.]+)`", functions)
        assert names
        for name in names:
            module, *attributes = _split(name)
            value = import_module(module)
            for attribute in attributes:
                value = getattr(value, attribute)
        for test in re.findall(r"`([\w./]+)`", tests):
            assert (ROOT / "tests" / test).exists(), test


def _method() -> str:
    return (ROOT / "docs" / "method.md").read_text(encoding="utf-8")


def _split(name: str) -> list[str]:
    """Return the module ``ldmaps.…`` that holds a dotted name of the table, and the attributes after it."""
    parts = name.split(".")
    for end in range(len(parts), -1, -1):
        module = ".".join(["ldmaps", *parts[:end]])
        try:
            import_module(module)
        except ModuleNotFoundError:
            continue
        return [module, *parts[end:]]
    raise AssertionError(f"no module of ldmaps holds {name}")
