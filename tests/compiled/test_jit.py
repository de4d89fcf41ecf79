"""Compiled code on disk: kept while nothing changes, never used once anything has."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ldmaps
from ldmaps.compiled import jit, on_disk

#: Calls a loop of ``blocks.py`` that calls one of ``rows.py``.
PROGRAM = """
import json
import numpy as np
from ldmaps import compiled
loop = compiled.blocks.nearest_in_rows
index, lowest = np.empty(1, np.intp), np.empty(1)
loop(np.array([[3.0, 1.0, 2.0]]), index, lowest)
stats = loop.stats
print(json.dumps([lowest[0], sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), stats.cache_path]))
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the compiled loops, which may be edited."""
    here, copy = Path(ldmaps.__file__).parent, tmp_path / "path" / "ldmaps"
    shutil.copytree(here / "compiled", copy / "compiled", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("__init__.py", "_lazy.py", "_version.py"):
        shutil.copy(here / name, copy / name)
    return copy


def run(package, **environment):
    """Return the lowest value, the hits and misses of the cache, and its folder."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**variables, "PYTHONPATH": str(package.parent), **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout)


def edit(path, before, after):
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1
    path.write_text(text.replace(before, after), encoding="utf-8")


def test_a_helper_edited_in_another_file_does_not_run_stale(package, tmp_path):
    folder = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run(package, **folder)[:3] == [1.0, 0, 1]
    lowest, hits, misses, path = run(package, **folder)
    assert [lowest, hits, misses] == [1.0, 1, 0]
    assert Path(path).is_relative_to(tmp_path / "cache")
    edit(package / "compiled" / "rows.py", "low = min(low, row[j])", "low = max(low, row[j])")
    assert run(package, **folder)[:3] == [3.0, 0, 1]
    assert run(package, **folder)[:3] == [3.0, 1, 0]


def test_a_new_version_compiles_anew(package):
    assert run(package)[:3] == [1.0, 0, 1]
    edit(package / "_version.py", ldmaps.__version__, "99.0")
    lowest, hits, misses, path = run(package)
    assert [lowest, hits, misses] == [1.0, 0, 1]
    assert Path(path) == package / "compiled" / "__pycache__"


def test_without_a_folder_to_write_to_loops_are_compiled_in_every_process(package):
    # A file in the folder's place: permissions would not stop root.
    (package / "compiled" / "__pycache__").write_text("")
    nowhere = str(package / "_version.py" / "nowhere")
    home = {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "NUMBA_CACHE_DIR": nowhere}
    assert run(package, **home, PYTHONDONTWRITEBYTECODE="1") == [1.0, 0, 1, None]


def add_one(x):
    return x + 1


def test_a_numba_that_keeps_code_in_another_way_gets_no_cache(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    assert jit.compiled(add_one).stats.cache_path is not None

    class Renamed:
        def __init__(self, *_):
            raise AttributeError("_index_name")

    monkeypatch.setattr(on_disk, "_Files", Renamed)
    loop = jit.compiled(add_one)
    assert loop.stats.cache_path is None
    assert loop(1) == 2


def test_options_reach_the_compiler(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    loop = jit.compiled(fastmath=jit.REDUCE)(add_one)
    assert loop.targetoptions["fastmath"] == jit.REDUCE
    assert loop.targetoptions["nogil"] is True


def counted(loop):
    """Return the hits and misses of a loop's cache."""
    return sum(loop.stats.cache_hits.values()), sum(loop.stats.cache_misses.values())


def test_each_type_of_argument_has_a_file_of_its_own_and_there_is_no_index(monkeypatch, tmp_path):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    loop = jit.compiled(add_one)
    assert (loop(1), loop(1.5)) == (2, 2.5)
    files = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert len(files) == 2
    assert all(name.endswith(".nbc") for name in files)
    again = jit.compiled(add_one)
    assert (again(1.5), again(1)) == (2.5, 2)
    assert counted(again) == (2, 0)


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "other version"])
def test_a_file_that_cannot_be_read_is_compiled_anew(monkeypatch, tmp_path, damage):
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    jit.compiled(add_one)(1)
    (path,) = tmp_path.rglob("*.nbc")
    whole = path.read_bytes()
    if damage == "other version":
        # Of another version of numba nothing but the head may be read: its code may not even be unpickled.
        head = pickle.dumps(("0.1", None))
        path.write_bytes(head + b"not a pickle")
    else:
        path.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "text": b"hello"}[damage])
    loop = jit.compiled(add_one)
    assert loop(1) == 2
    assert counted(loop) == (0, 1)
    loop = jit.compiled(add_one)
    assert loop(1) == 2
    assert counted(loop) == (1, 0)
