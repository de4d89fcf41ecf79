"""Mutants that nobody chose: one operator, comparison, number or name of the library changed, by seed.

A seed decides which places of a package are broken and how, so a survivor is found again by the seed that ``make
mutants`` prints. What means the same as before belongs into tools/mutants.toml, as an entry with ``equivalent``.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Change", "changes", "sample", "tests_of"]

#: What an operator or a comparison becomes.
_OPERATORS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Add: ("-",),
    ast.Sub: ("+",),
    ast.Mult: ("/",),
    ast.Div: ("*",),
    ast.FloorDiv: ("*",),
    ast.Mod: ("+",),
    ast.Pow: ("*",),
    ast.Lt: ("<=", ">"),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<"),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
}
#: What a function becomes.
_NAMES = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Change:
    """One place of a file and what takes its place: ``text[start:end]`` becomes ``new``."""

    file: str
    line: int
    start: int
    end: int
    new: str

    def applied(self, text: str) -> str:
        """Return the file's text with the change in it."""
        return text[: self.start] + self.new + text[self.end :]

    def describe(self, text: str) -> str:
        """Return the line before and after."""
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.end)
        before = text[first:last].strip()
        after = (text[first : self.start] + self.new + text[self.end : last]).strip()
        return f"line {self.line}: {before}  ->  {after}"


def changes(file: str, text: str) -> list[Change]:
    """Return every change that could be made in a file of Python, in the order of the text."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    data = text.encode()

    def place(line: int, column: int) -> int:
        return len(data[: starts[line - 1] + column].decode())  # columns of ast count bytes

    found = []
    for node in _nodes(ast.parse(text)):
        for left, right, news in _spots(node):
            start = place(left[0], left[1])
            end = place(right[0], right[1])
            kept = text[start:end]
            for new in news:
                trimmed = _replaced(kept, new)
                if trimmed is not None:
                    found.append(Change(file, left[0], start, end, trimmed))
    return sorted(set(found), key=lambda change: (change.start, change.end, change.new))


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Go over what runs: no annotations, docstrings, ``raise`` or tables of exported names."""
    skipped: tuple[type[ast.AST], ...] = (ast.Raise, ast.Import, ast.ImportFrom, ast.JoinedStr)
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        yield node
        for name, value in ast.iter_fields(node):
            if name in {"annotation", "returns", "decorator_list", "type_comment"}:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, skipped):
                    stack.append(child)


_Place = tuple[int, int]


def _begin(node: ast.expr) -> _Place:
    return node.lineno, node.col_offset


def _finish(node: ast.expr) -> _Place:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _spots(node: ast.AST) -> Iterator[tuple[_Place, _Place, Sequence[str]]]:
    """Yield where a node can be changed, and into what; an operator lies between its operands."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        yield _finish(node.left), _begin(node.right), _OPERATORS[type(node.op)]
    elif isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            yield _finish(left), _begin(right), _OPERATORS.get(type(operator), ())
    elif isinstance(node, ast.BoolOp):
        new = ("or",) if isinstance(node.op, ast.And) else ("and",)
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield _finish(left), _begin(right), new
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _begin(node), _begin(node.operand), ("",)
    elif (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and node.value is not bool(node.value)
    ):
        yield _begin(node), _finish(node), _numbers(node.value)
    elif isinstance(node, ast.Name | ast.Attribute):
        name = node.id if isinstance(node, ast.Name) else node.attr
        if name in _NAMES:
            last = _finish(node)
            yield (last[0], last[1] - len(name)), last, (_NAMES[name],)


def _numbers(value: float) -> tuple[str, ...]:
    if isinstance(value, int):
        return (str(value + 1),)
    return (repr(value * 1.5 if value else 1.0),)


def _replaced(kept: str, new: str) -> str | None:
    """Put ``new`` where the operator stands in ``kept``; None where parentheses or comments lie between."""
    if not new:
        return kept.removeprefix("not").lstrip()
    old = kept.strip()
    if any(sign in old for sign in "()#\\\n"):
        return None
    return kept.replace(old, new)


def sample(source: Path, package: str, count: int, seed: int) -> list[Change]:
    """Draw changes of a package, files weighted by how many changes each allows."""
    folder = source / "ldmaps"
    files = sorted((folder / package).rglob("*.py")) if package else sorted(folder.glob("*.py"))
    every = [
        change
        for path in files
        for change in changes(path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8"))
    ]
    return random.Random(f"{seed} {package}").sample(every, min(count, len(every)))


def tests_of(file: str, tests: Path) -> tuple[str, ...]:
    """Return the tests that must notice a change of a file: its own first, then those of its package."""
    path = Path(file)
    own = [found for found in sorted(tests.rglob(f"test_{path.stem}.py")) if path.parent.name in found.parts]
    folder = tests / path.parts[0]
    named = [found.relative_to(tests).as_posix() for found in own]
    if folder.is_dir():
        return (*named, path.parts[0])
    top = sorted(found.relative_to(tests).as_posix() for found in tests.glob("test_*.py"))
    return (*(name for name in top if name == f"test_{path.stem}.py"), *top)
