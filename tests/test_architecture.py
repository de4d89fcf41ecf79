"""Rules of the house that no linter checks; ``make lint`` checks the layers (pyproject.toml, importlinter)."""

import ast
import doctest
import graphlib
import importlib
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from public_names import is_installed, public_names

import ldmaps

PACKAGE = Path(ldmaps.__file__).parent
ROOT = Path(__file__).parent.parent


def module_name(path):
    parts = ("ldmaps", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in SOURCES.items()}


def running_nodes(node):
    """Yield every node below one, late imports included, but not what only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from running_nodes(child)


def imports_of(name):
    """Yield (module, imported name or None) of our own modules, as they are written."""
    for node in running_nodes(TREES[name]):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            if node.module.partition(".")[0] == "ldmaps":
                yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.startswith("ldmaps."))


def lazy_homes(package):
    """Return the module that defines each name which a package loads on first use."""
    for node in ast.walk(TREES[package]):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "load_on_first_use":
            names = ast.literal_eval(node.args[1])
            return {name: f"{package}.{home}" for home in names if home for name in names[home].split()}
    return {}


LAZY = {name: lazy_homes(name) for name in TREES if SOURCES[name].name == "__init__.py"}


def test_no_name_that_loads_on_first_use_is_that_of_a_module():
    """Importing the module would put it where users expect the function."""
    for package, homes in LAZY.items():
        assert not {name for name in homes if f"{package}.{name}" in TREES}, package


def test_no_module_imports_itself_through_others():
    graph = {}
    for name in TREES:
        graph[name] = set()
        for module, imported in imports_of(name):
            home = f"{module}.{imported}"
            home = home if home in TREES else LAZY.get(module, {}).get(imported, module)
            # Importing a module imports the packages that hold it first, if they do not hold the importer as well.
            parts = home.split(".")
            packages = (".".join(parts[:end]) for end in range(1, len(parts)))
            graph[name] |= {
                home,
                *(package for package in packages if not f"{name}.".startswith(f"{package}.")),
            }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail("modules import each other in a ring: " + " <- ".join(error.args[1]))


#: Doors to other packages, and the modules that may import each, all of them on first use.
DOORS = {
    "ldmaps.anndata": set(),
    "ldmaps.array_distances": {"ldmaps.array_step"},
    "ldmaps.array_step": {"ldmaps.torch"},
    "ldmaps.mdanalysis": set(),
    "ldmaps.novelty_detector": {"ldmaps"},
    "ldmaps.torch": {"ldmaps.export.folder"},  # model.export(): only when it is asked for torch
}


@pytest.mark.parametrize("door", DOORS)
def test_nothing_imports_a_door(door):
    """So that a door costs nothing to those who use another, and can be deleted."""
    assert door in TREES
    importing = {
        name
        for name in TREES
        for module, imported in imports_of(name)
        if door in (module, f"{module}.{imported}")
    }
    lazily = {package for package, homes in LAZY.items() if door in homes.values()}
    assert importing | lazily <= DOORS[door]


# -- private names ------------------------------------------------------------------


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def test_no_private_name_is_imported_from_another_module():
    """A private module belongs to the package that holds it."""
    breaches = []
    for name in TREES:
        inside = name if SOURCES[name].name == "__init__.py" else name.rpartition(".")[0]
        for module, imported in imports_of(name):
            path = module.split(".")
            if imported is not None:
                path.append(imported)
            for place, part in enumerate(path):
                holder = ".".join(path[:place])
                is_ours = ".".join(path[: place + 1]) in TREES and f"{inside}.".startswith(f"{holder}.")
                if is_private(part) and not is_ours:
                    breaches.append(f"{name} imports {'.'.join(path)}")
    assert breaches == []


def private_names_made(tree):
    """Return private attributes, methods and functions that a module makes."""
    made = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            made.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            made.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made.add(node.id)
    return {name for name in made if is_private(name)}


#: Private names of other packages that one of ours happens to use as well.
NOT_OURS = {f"ldmaps.cli.{name}": {"_actions"} for name in ("completion", "session", "help")}  # argparse's
NOT_OURS["ldmaps.openmm.biased_runs"] = {"_force"}  # OpenMM's, of its Metadynamics


def test_no_private_attribute_of_another_module_is_used():
    made = {name: private_names_made(tree) for name, tree in TREES.items()}
    breaches = []
    for name, tree in TREES.items():
        foreign = set().union(*(names for other, names in made.items() if other != name))
        foreign -= made[name] | NOT_OURS.get(name, set())
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Attribute)
                and node.attr in foreign
                and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
                and not (isinstance(node.value, ast.Call) and getattr(node.value.func, "id", "") == "super")
            ):
                breaches.append(f"{name}, line {node.lineno}: {ast.unparse(node)}")
    assert breaches == []


#: It lists loops by the metric that calls them, for a compiler that goes together with it.
ASKS_FOR_LOOPS = "ldmaps.maps.expected_loops"


def test_nobody_asks_which_metric_it_has():
    """Callers read attributes of the seam; ``isinstance`` of a concrete metric belongs into ``metrics/``."""
    from ldmaps.metrics import METRICS
    from ldmaps.metrics.precomputed import StoredSquares

    concrete = {metric.__name__ for metric in (*METRICS.values(), StoredSquares)}
    questions = []
    for name, tree in TREES.items():
        if name.startswith("ldmaps.metrics") or name == ASKS_FOR_LOOPS:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
                asked = node.args[1]
            elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node):
                asked = node
            else:
                continue
            named = {getattr(part, "id", getattr(part, "attr", "")) for part in ast.walk(asked)}
            if named & concrete:
                questions.append(f"{name}, line {node.lineno}: {ast.unparse(node)}")
    assert questions == []


# -- the map of the house ---------------------------------------------------------------


def table_of_the_house():
    """Return the packages and files in the first column of CONTRIBUTING's table, from top to bottom."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", text, re.MULTILINE)
    return [place for row in rows for place in re.findall(r"`([^`]+)`", row)]


#: What streams and files may ask of ``os`` itself: names and numbers, nothing that reaches the world.
HARMLESS = re.compile(
    r"os\.(O_\w+|SEEK_\w+|W_OK|PathLike|fspath|name|path\.(abspath|dirname|join|split|samestat))"
)
WORLDLY = {"fcntl", "select", "shutil", "signal", "socket", "subprocess", "tempfile", "time"}


def worldly_calls(name):
    """Yield what a module uses of the world in other ways than through the door."""
    for node in running_nodes(TREES[name]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in WORLDLY)
        elif isinstance(node, ast.ImportFrom) and node.module in {*WORLDLY, "os", "os.path"}:
            yield node.module
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield "open()"
        elif isinstance(node, ast.Attribute):
            text = ast.unparse(node)
            if text.startswith("os.") and text != "os.path" and not HARMLESS.fullmatch(text):
                yield text


def test_streams_and_files_reach_the_world_through_one_door():
    """So that a simulated world (tools/simulate.py) can stand in the place of the real one."""
    allowed = {
        "ldmaps.streaming.running": {"signal"},  # numbers of signals
        "ldmaps.streaming.sources.imd": {"signal", "socket"},  # what imdclient does to both is put right
    }
    names = [name for name in TREES if name == "ldmaps.files" or name.startswith("ldmaps.streaming")]
    assert len(names) > 20
    breaches = {name: set(worldly_calls(name)) - allowed.get(name, set()) for name in names}
    assert not {name: found for name, found in breaches.items() if found}


def test_every_module_is_in_one_row_of_the_table_in_contributing():
    places = table_of_the_house()
    assert [place for place in places if not (PACKAGE / place).exists()] == []
    for path in SOURCES.values():
        relative = path.relative_to(PACKAGE).as_posix()
        if relative == "__init__.py":
            continue
        holding = [
            place
            for place in places
            if relative == place or (place.endswith("/") and relative.startswith(place))
        ]
        assert len(holding) == 1, f"{relative} is in the rows {holding}"


def test_the_table_is_in_the_order_of_the_layers():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    floor = {name.strip(" ()"): place for place, layer in enumerate(layers) for name in layer.split("|")}
    floors = [floor[place.removesuffix("/").removesuffix(".py")] for place in table_of_the_house()]
    assert floors == sorted(floors)


# -- public names ---------------------------------------------------------------------------


PUBLIC = public_names()


def test_a_public_name_is_listed_once():
    counts = Counter(name for names in PUBLIC.values() for name in names)
    assert [name for name, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_what_the_package_exports(module):
    if not is_installed(module):
        pytest.skip(f"{module} needs a package that is not installed")
    exported = {name for name in importlib.import_module(module).__all__ if name != "__version__"}
    elsewhere = set() if module == "ldmaps" else exported & set(PUBLIC["ldmaps"])
    assert set(PUBLIC[module]) == exported - elsewhere
    for name in exported:
        namespace = {}
        exec(f"from {module} import {name}", namespace)
        assert namespace[name] is not None


def test_every_package_that_exports_names_is_listed():
    exporting = {
        name
        for name in TREES
        if name.count(".") <= 1
        and SOURCES[name].name == "__init__.py"
        and getattr(importlib.import_module(name), "__all__", None)
    }
    assert exporting <= set(PUBLIC)


def examples():
    """Yield the Python that users read: examples, code in the documentation, and docstrings."""
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield path.name, path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in re.findall(
            r"^```python\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            yield path.name, block
    for name, path in SOURCES.items():
        for example in doctest.DocTestParser().get_examples(path.read_text(encoding="utf-8")):
            yield name, example.source


def test_examples_import_public_names_alone():
    breaches = []
    for name, code in examples():
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "ldmaps":
                names = PUBLIC.get(node.module, ())
                breaches += [
                    f"{name}: from {node.module} import {alias.name}"
                    for alias in node.names
                    if alias.name not in names
                ]
            elif isinstance(node, ast.Import):
                modules = {alias.name for alias in node.names if alias.name.partition(".")[0] == "ldmaps"}
                breaches += [f"{name}: import {module}" for module in sorted(modules - set(PUBLIC))]
    assert breaches == []
