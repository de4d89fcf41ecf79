"""Docstrings describe every parameter that a public function, class or method takes, and no other."""

from __future__ import annotations

import importlib
import inspect
import re

import pytest
from public_names import is_installed, public_names


def sections(docstring):
    """Return the lines of each numpydoc section by its heading; what stands before the first has none."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    starts = [
        number
        for number, line in enumerate(lines[1:])
        if re.fullmatch(r"-{3,}", line) and re.match(r"\S", lines[number])
    ]
    return {
        lines[start]: lines[start + 2 : end]
        for start, end in zip(starts, [*starts[1:], len(lines)][: len(starts)], strict=True)
    }


def described(lines):
    """Return the entries of a section that have a description: names stand at the margin, text is indented."""
    texts: dict[str, str] = {}
    names: list[str] = []
    for line in lines:
        if re.match(r"\S", line):
            names = [name.strip(" *`") for name in line.split(" : ")[0].split(",")]
            texts |= dict.fromkeys(names, "")
        for name in names:
            if line.startswith(" "):
                texts[name] += line.strip()
    return texts


def parameters(function):
    """Return the parameters that a caller gives; a field of a dataclass that begins with "_" is not one."""
    found = inspect.signature(function).parameters
    return [name for name in found if name not in ("self", "cls") and not name.startswith("_")]


def complaints(function, docstrings):
    """Return what the docstrings lack or invent. The first counts that has a section of parameters, or no need of one.

    Those of a method are its own, then those of the methods it overrides. A class that holds results may
    describe its fields as attributes. A method whose text names every parameter ``so`` needs no section.
    """
    taken = parameters(function)
    for text in docstrings:
        found = sections(text)
        lines = found.get("Parameters")
        if lines is None and inspect.isclass(function):
            lines = found.get("Attributes")
        if lines is None:
            if inspect.isfunction(function) and set(taken) <= set(re.findall(r"``(\w+)``", text or "")):
                return []
            continue
        texts = described(lines)
        lacking = [f"{name} is not described" for name in taken if not texts.get(name)]
        invented = [
            f"{name} is not a parameter" for name in texts if name not in taken and "Parameters" in found
        ]
        return lacking + invented
    return [f"{name} is not described" for name in taken]


def methods(cls):
    """Yield the public methods that ldmaps defines, each with its docstring and those of what it overrides."""
    for name in dir(cls):
        if name.startswith("_"):
            continue
        overridden = [vars(base)[name] for base in cls.__mro__ if name in vars(base)]
        functions = [getattr(each, "__func__", each) for each in overridden]
        if inspect.isfunction(functions[0]) and functions[0].__module__.startswith("ldmaps"):
            yield name, functions[0], [function.__doc__ for function in functions]


def public_callables():
    """Yield (label, callable, docstrings) of every public function, class and method."""
    for module, names in public_names().items():
        if not is_installed(module):
            continue
        for name in names:
            thing = getattr(importlib.import_module(module), name)
            if inspect.isfunction(thing):
                yield f"{module}.{name}", thing, [thing.__doc__]
            elif inspect.isclass(thing) and not issubclass(thing, BaseException):
                yield f"{module}.{name}", thing, [thing.__doc__]
                for method, function, docstrings in methods(thing):
                    yield f"{module}.{name}.{method}", function, docstrings


PUBLIC = {label: (function, docstrings) for label, function, docstrings in public_callables()}


def test_every_kind_is_found():
    assert {"ldmaps.load", "ldmaps.LandmarkDiffusionMap", "ldmaps.LandmarkDiffusionMap.fit"} <= set(PUBLIC)
    assert len(PUBLIC) > 400


@pytest.mark.parametrize("label", PUBLIC)
def test_every_parameter_is_described(label):
    assert complaints(*PUBLIC[label]) == []


# -- the check itself -----------------------------------------------------------------------


def complete(points, *, rate=1.0, **settings):
    """Do something.

    Parameters
    ----------
    points, rate : array
        What both are.
    **settings
        More.

    Returns
    -------
    invented : float
        Not a parameter.
    """


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", []),
        ("points, rate", "points", ["rate is not described"]),
        ("points, rate", "points, rates", ["rate is not described", "rates is not a parameter"]),
        ("    More.\n", "", ["settings is not described"]),
        ("Parameters\n----------", "Arguments", ["points is not described", "rate is not described"]),
    ],
)
def test_what_is_missing_or_invented_is_named(old, new, expected):
    text = inspect.cleandoc(complete.__doc__)  # as the compiler of Python 3.13 leaves it
    assert complaints(complete, [text.replace(old, new)])[: max(1, len(expected))] == expected


def test_a_sentence_that_names_every_parameter_needs_no_section():
    assert complaints(complete, ["Do something to ``points`` at a ``rate``, with more ``settings``."]) == []
    lacking = complaints(complete, ["Do something to ``points`` at a rate, with more ``settings``."])
    assert "rate is not described" in lacking


def test_a_method_may_leave_its_parameters_to_the_one_it_overrides():
    assert complaints(complete, ["Do the same.", complete.__doc__]) == []
    assert complaints(complete, ["Do the same.", None]) == [
        "points is not described",
        "rate is not described",
        "settings is not described",
    ]
