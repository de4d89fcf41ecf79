"""The documents keep their promises: examples run, links lead somewhere, named functions exist."""

from __future__ import annotations

import ast
import json
import re
import shlex
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
from page_examples import python_blocks

from ldmaps.cli import parse
from tools import page_numbers, quotes

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for folder in (".", "start", "guide", "background", "reference")
    for path in (ROOT / "docs" / folder).glob("*.md")
)
DOCUMENTS = [ROOT / "README.md", *PAGES]
GALLERY = sorted((ROOT / "docs" / "gallery").glob("*/plot_*.py"))


def test_the_readme_example_prints_what_the_readme_says(tmp_path, monkeypatch, capsys):
    (example,) = python_blocks("README.md")
    assert len(example.strip().splitlines()) <= 14
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    text = DOCUMENTS[0].read_text(encoding="utf-8")
    (said,) = re.findall(r"^The map has (\d+) landmarks, and ([\d.]+) % of", text, re.MULTILINE)
    assert f" points from {said[0]} landmarks\n" in printed
    (inside,) = re.findall(r"^([\d.]+)% of the new frames are inside the map$", printed, re.MULTILINE)
    # To three frames: rounding decides at the border.
    assert float(inside) == pytest.approx(float(said[1]), abs=0.3)
    assert (tmp_path / "alanine.ldm").stat().st_size > 0


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "docs/accuracy.md",
        "docs/guide/settings.md",
        "docs/gallery/understand/plot_5_tolerance.py",
        "src/ldmaps/cli/fit.py",
        "src/ldmaps/maps/landmark_diffusion_map.py",
        "src/ldmaps/settings.py",
    ],
)
def test_what_a_tolerance_promises_is_said_in_the_same_words(path):
    """The certificate's own are tested where it is (tests/fit/test_certify.py)."""
    text = re.sub(r"[\s%]+", " ", (ROOT / path).read_text(encoding="utf-8"))
    assert "the fewest landmarks that keep Z of 99 of new points below " in text


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    targets = re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8"))
    missing = [
        target
        for target in targets
        if not re.match(r"https?:", target) and not _leads_somewhere(path, target)
    ]
    assert not missing


def _leads_somewhere(path: Path, target: str) -> bool:
    """Say whether a link has a file, or a script or package that ``make docs`` makes a page of."""
    if (path.parent / target).exists():
        return True
    _, folder, name = (path.parent / target).resolve().relative_to(ROOT).parts
    if folder == "api":
        return f"## `{name}`" in (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    return (
        ROOT / "docs" / "gallery" / folder / (f"{name}.py" if name != "index" else "GALLERY_HEADER.rst")
    ).exists()


def _command_lines(path: Path) -> list[list[str]]:
    """Return the commands of ldmaps in a page's blocks of code, as a shell would split them."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:console|sh|)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = []
    for line in lines:
        match = re.match(r"^(?:\$ )?(?:[^#|]*\| )?(ldmaps [a-z]+ .*)", line)
        if match and "..." not in match[1] and "$(" not in match[1]:
            words = shlex.split(match[1], comments=True)
            ends = [place for place, word in enumerate(words) if word in ("|", "&&", ">", "&")]
            found.append(words[1 : min(ends, default=len(words))])
    return found


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_of_the_pages_are_understood(path, capsys):
    for words in _command_lines(path):
        with suppress(SystemExit):  # of --help
            parse(words)
        assert capsys.readouterr().err == "", words


def test_there_are_commands_to_check():
    assert sum(len(_command_lines(path)) for path in DOCUMENTS) > 30


@pytest.mark.slow
def test_quotes_are_what_is_printed(tmp_path):
    pytest.importorskip("mdtraj")
    pytest.importorskip("MDAnalysisTests")
    quotes.make_files(tmp_path)
    for path in quotes.pages():
        text = path.read_text(encoding="utf-8")
        new = quotes.quoted(text, tmp_path)
        changed = "\n".join(quotes.differences(text, new))
        assert not changed, f"{path.relative_to(ROOT)} (make quotes writes it again):\n{changed}"


def test_numbers_of_the_pages_are_those_of_the_file():
    stored = page_numbers.known()
    assert page_numbers.ROOT / "paper" / "paper.md" in page_numbers.pages()
    for path in page_numbers.pages():
        text = path.read_text(encoding="utf-8")
        assert text == page_numbers.filled(text, stored), (
            f"{path.relative_to(ROOT)}: make numbers writes it again"
        )


def test_no_page_cites_a_commit_that_nobody_has():
    cited = [path for path in (ROOT / "docs").rglob("*.md") if "-dirty" in path.read_text(encoding="utf-8")]
    assert not cited
    assert "-dirty" not in page_numbers.STORE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_table_of_the_readme_is_what_the_demo_prints():
    printed = page_numbers.comparison.table(page_numbers.comparison.run())
    table = json.loads(page_numbers.STORE.read_text(encoding="utf-8"))["demo.table"].strip("`\n")
    # Fits differ a little from processor to processor; the last three columns are times of a machine.
    both = [
        re.sub(r" +[\d.]+ s +[\d,]+ +[\d.]+×$", "", text, flags=re.MULTILINE) for text in (table, printed)
    ]
    assert not quotes.differences(*both)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "section"),
    [
        ("guide/settings", None),
        ("guide/inputs", "Weights of a biased simulation"),
        ("guide/packages", "Write a metric"),
        ("guide/extending", "Share or deploy a model"),
        ("guide/streams", "Follow a running simulation"),
        ("start/tables", None),
    ],
)
def test_examples_of_the_guides_run(page, section, tmp_path, monkeypatch):
    blocks = python_blocks(f"docs/{page}.md", section)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "guide"}  # the blocks of a page go on from one another
    for block in blocks:
        exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_pages_of_the_gallery_are_scripts_with_a_title(path):
    code = compile(path.read_text(encoding="utf-8"), str(path), "exec")
    title, line = str(code.co_consts[0]).strip().splitlines()[:2]
    assert line == "=" * len(title)


@pytest.mark.slow
@pytest.mark.parametrize(
    "stem", ["plot_4_coverage", "plot_4_dihedrals", "plot_trajectory_in_python"]
)  # the others run in make docs
def test_pages_of_the_gallery_run(stem):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    (path,) = (path for path in GALLERY if path.stem == stem)
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "gallery"})
    plt.close("all")


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
    return (ROOT / "docs" / "background" / "theory.md").read_text(encoding="utf-8")


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


def _string_literals() -> str:
    """Return all strings of the package, a line each; what a message fills in is left out."""
    lines = []
    for path in sorted((ROOT / "src" / "ldmaps").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                lines.append("…".join(part.value for part in node.values if isinstance(part, ast.Constant)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                lines.append(node.value)
    return "\n".join(lines)


def test_troubleshooting_quotes_messages_that_exist():
    text = (ROOT / "docs" / "guide" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| ")]
    quoted = [quote for row in rows for quote in re.findall(r'"([^"]+)"', row)]
    assert len(quoted) > 30
    literals = _string_literals()
    for quote in quoted:
        pieces = [piece.strip() for piece in re.split(r"…|\d[\d,.]*|[()]", quote)]
        assert any(len(piece) > 5 for piece in pieces), quote
        assert all(piece in literals for piece in pieces if len(piece) > 3), quote
