"""Mutants that nobody chose: one operator, number, condition, argument, index or call of the library changed, by seed.

A seed decides which places are broken and how, so a survivor is found again by the seed that ``make mutants`` prints.
What means the same as before belongs into tools/mutants.toml, as an entry with ``equivalent``. Probes that note who
comes by (:func:`probed`) tell which tests reach a place.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Change", "changes", "probed", "sample", "tests_of"]

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

    def code_of(node: ast.expr) -> str:
        code = text[place(*_begin(node)) : place(*_finish(node))]
        return code if isinstance(node, _ALONE) else f"({code})"

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
        for old, instead in _replacements(node):
            start, end = place(*_begin(old)), place(*_finish(old))
            new = instead if isinstance(instead, str) else code_of(instead)
            found.append(Change(file, old.lineno, start, end, new))
        for first, last in _left_out(node):
            before = text[: place(*first)].rstrip()
            if before.endswith(","):
                found.append(Change(file, first[0], len(before) - 1, place(*last), ""))
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
#: Calls that mostly mean the same as their argument.
_CONVERSIONS = {
    "array",
    "asarray",
    "ascontiguousarray",
    "bool",
    "dict",
    "float",
    "frozenset",
    "int",
    "iter",
    "len",
    "list",
}
_CONVERSIONS |= {"set", "str", "tuple"}
#: What needs no parentheses wherever it stands.
_ALONE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.List, ast.Dict)


def _begin(node: ast.expr | ast.stmt) -> _Place:
    return node.lineno, node.col_offset


def _finish(node: ast.expr | ast.stmt) -> _Place:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _replacements(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.expr | str]]:
    """Yield what can stand for a whole expression or statement: a part of it, True, False, or nothing at all."""
    if isinstance(node, ast.If) and not isinstance(node.test, ast.Constant):
        yield node.test, "True"
        yield node.test, "False"
    elif isinstance(node, ast.IfExp):
        yield node, node.body
        yield node, node.orelse
    elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
        yield node, node.values[0]
        yield node, node.values[1]
    elif isinstance(node, ast.BinOp):
        yield node, node.left
        yield node, node.right
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node, node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield node, str(not node.value)
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        yield node, node.value
    elif isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        is_starred = any(isinstance(one, ast.Starred) for one in node.args)
        if name in _NAMES and len(node.args) == 2 and not node.keywords and not is_starred:
            yield node, node.args[0]
            yield node, node.args[1]
        if len(node.args) == 1 and not node.keywords and not is_starred and name not in _CONVERSIONS:
            yield node, node.args[0]
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield node, "pass"


def _left_out(node: ast.AST) -> Iterator[tuple[_Place, _Place]]:
    """Yield line, begin and end of what can be left out of a list: arguments of calls, elements of lists and tuples."""
    if isinstance(node, ast.Call):
        for named in node.keywords:
            if named.arg is not None:
                yield (named.lineno, named.col_offset), _finish(named.value)
        for one in node.args[1:]:
            yield _begin(one), _finish(one)
    elif isinstance(node, ast.List | ast.Tuple) and isinstance(node.ctx, ast.Load):
        for one in node.elts[2:]:
            yield _begin(one), _finish(one)


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


def sample(source: Path, count: int, seed: int, only: str = "") -> list[Change]:
    """Draw changes of the library, files weighted by how many changes each allows."""
    folder = source / "ldmaps"
    every = []
    for path in sorted(folder.rglob("*.py")):
        file = path.relative_to(folder).as_posix()
        every += changes(file, path.read_text(encoding="utf-8")) if only in file else []
    return random.Random(seed).sample(every, min(count, len(every)))


def tests_of(file: str, tests: Path) -> tuple[str, ...]:
    """Return the tests that must notice a change of a file if none is known to reach it: its own, and its package's."""
    path = Path(file)
    own = [found for found in sorted(tests.rglob(f"test_{path.stem}.py")) if path.parent.name in found.parts]
    folder = tests / path.parts[0]
    named = [found.relative_to(tests).as_posix() for found in own]
    if folder.is_dir():
        return (*named, path.parts[0])
    top = sorted(found.relative_to(tests).as_posix() for found in tests.glob("test_*.py"))
    return (*(name for name in top if name == f"test_{path.stem}.py"), *top)


def probed(source: Path, drawn: Sequence[Change]) -> dict[str, str]:
    """Return files with a probe, ``reached.note(number)``, wherever a change is run; a constant's where it is used."""
    trees, texts = {}, {}
    for path in sorted((source / "ldmaps").rglob("*.py")):
        file = path.relative_to(source / "ldmaps").as_posix()
        texts[file] = path.read_text(encoding="utf-8")
        trees[file] = ast.parse(texts[file])
    probes: dict[str, dict[int, set[int]]] = {}
    for number, change in enumerate(drawn):
        lines = _statements_at(trees[change.file], texts[change.file], change.line)
        if lines.runs is not None:
            probes.setdefault(change.file, {}).setdefault(lines.runs, set()).add(number)
        for name in lines.names:
            for file, tree in trees.items():
                for line in _uses(tree, texts[file], name) if name in texts[file] else ():
                    probes.setdefault(file, {}).setdefault(line, set()).add(number)
    return {file: _with_probes(texts[file], found) for file, found in probes.items()}


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class _Reached:
    """Where a line is reached: the line of the statement that runs it, or the names that it gives something to."""

    runs: int | None
    names: tuple[str, ...] = ()


def _statements_at(tree: ast.Module, text: str, line: int) -> _Reached:
    found, names = None, tuple[str, ...]()
    stack: list[tuple[ast.stmt, bool]] = [(one, False) for one in tree.body]
    while stack:
        node, is_inside = stack.pop()
        if not _first_line(node) <= line <= (node.end_lineno or line):
            continue
        if is_inside and _is_alone(node, text):
            found = _first_line(node)
        if not is_inside:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = tuple(one.id for one in targets if isinstance(one, ast.Name))
        if isinstance(node, _FUNCTIONS):
            if not is_inside and line < node.body[0].lineno:
                return _Reached(_begun(node))  # a default
            is_inside = True
        stack = [(one, is_inside) for one in _inner(node)]
    return _Reached(found) if found is not None else _Reached(None, names)


def _uses(tree: ast.Module, text: str, name: str) -> set[int]:
    """Return the lines of statements in functions that use a name, or an attribute of that name."""
    lines = set()
    for function in ast.walk(tree):
        if not isinstance(function, _FUNCTIONS):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Name | ast.Attribute) and name in (
                getattr(node, "id", ""),
                getattr(node, "attr", ""),
            ):
                lines.add(_statements_at(tree, text, node.lineno).runs or _begun(function))
    return lines


def _inner(node: ast.stmt) -> Iterator[ast.stmt]:
    for name in ("body", "orelse", "finalbody"):
        yield from getattr(node, name, [])
    for case in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
        yield from case.body


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _begun(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the line of a function's first statement after its docstring."""
    is_said = ast.get_docstring(function) is not None and len(function.body) > 1
    return _first_line(function.body[1 if is_said else 0])


def _is_alone(node: ast.stmt, text: str) -> bool:
    """Say whether a probe can stand before a statement: it begins its line, and is no ``elif``."""
    line = text.splitlines()[_first_line(node) - 1]
    return not line[: node.col_offset].strip() and not line.lstrip().startswith("elif")


def _with_probes(text: str, probes: dict[int, set[int]]) -> str:
    lines = []
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if number in probes:
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(
                f'{indent}__import__("reached").note({", ".join(map(str, sorted(probes[number])))})\n'
            )
        lines.append(line)
    return "".join(lines)
