"""Kernels that are not compiled, are of other sources, or that nothing runs give an error that says what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ldmaps import kernels
from ldmaps.kernels._sources import checksum

FOLDER = Path(kernels.__file__).parent


def load(root, **environment):
    """Import a copy of the kernels; return what INSTRUCTION_SET is and what was said."""
    code = "from ldmaps import kernels; print(kernels.INSTRUCTION_SET)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "LDMAPS_INSTRUCTION_SET": "", "PYTHONPATH": str(root), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == (done.stderr == ""), done.stderr
    return done.stdout.strip(), done.stderr.strip().rpartition("\n")[2]


@pytest.fixture
def copy(tmp_path):
    (tmp_path / "ldmaps").mkdir()
    (tmp_path / "ldmaps" / "__init__.py").write_text("")
    shutil.copytree(FOLDER, tmp_path / "ldmaps" / "kernels")
    return tmp_path / "ldmaps" / "kernels"


def test_the_best_is_loaded_or_the_one_asked_for(copy):
    assert load(copy.parents[1]) == (kernels.INSTRUCTION_SETS[-1], "")
    for name in kernels.INSTRUCTION_SETS:
        assert load(copy.parents[1], LDMAPS_INSTRUCTION_SET=name) == (name, "")


@pytest.mark.parametrize("name", ["sse9", "_baseline", "../baseline"])
def test_an_instruction_set_that_there_is_not(copy, name):
    _, error = load(copy.parents[1], LDMAPS_INSTRUCTION_SET=name)
    runnable = " or ".join(kernels.INSTRUCTION_SETS)
    assert error == f"ImportError: LDMAPS_INSTRUCTION_SET is {name!r}, but this processor runs {runnable}"


def test_kernels_that_are_not_compiled(copy):
    for module in (*copy.glob("_baseline*.so"), *copy.glob("_baseline*.pyd")):
        module.unlink()
    _, error = load(copy.parents[1], LDMAPS_INSTRUCTION_SET="baseline")
    assert error.startswith(f"ImportError: {copy} has no _baseline compiled for this Python")
    for module in (*copy.glob("_*.so"), *copy.glob("_*.pyd")):
        module.unlink()
    _, error = load(copy.parents[1])
    assert error.startswith(f"ImportError: {copy} has no _processor compiled for this Python")
    assert "make install" in error


needs_sources = pytest.mark.skipif(
    checksum(str(FOLDER)) is None, reason="an installed package has no C++ sources"
)


@needs_sources
@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "binding.cpp").write_text("// edited\n"),
        lambda folder: (folder / "array.h").unlink(),
        lambda folder: (folder / "new.cpp").write_text(""),
        lambda folder: (folder / "rows.h").rename(folder / "row.h"),
    ],
    ids=["edited", "gone", "new", "renamed"],
)
def test_kernels_of_other_sources(copy, change):
    change(copy)
    _, error = load(copy.parents[1])
    assert error.startswith(f"ImportError: the C++ sources in {copy} have changed since ldmaps.kernels._")
    assert "make install" in error


@needs_sources
def test_only_the_module_that_is_loaded_must_be_new(copy):
    """Of two instruction sets one may be compiled and the other not yet, when a build was interrupted."""
    if len(kernels.INSTRUCTION_SETS) == 1:
        pytest.skip("this processor runs the baseline alone")
    best = kernels.INSTRUCTION_SETS[-1]
    (module,) = (path for path in copy.iterdir() if path.name.startswith(f"_{best}."))
    module.write_bytes(module.read_bytes().replace(checksum(str(FOLDER)).encode(), b"00000000"))
    assert load(copy.parents[1], LDMAPS_INSTRUCTION_SET="baseline") == ("baseline", "")
    assert f"have changed since ldmaps.kernels._{best} was compiled" in load(copy.parents[1])[1]


def test_an_installed_package_has_no_sources_to_compare_with(copy):
    for source in (*copy.glob("*.cpp"), *copy.glob("*.h")):
        source.unlink()
    assert load(copy.parents[1]) == (kernels.INSTRUCTION_SETS[-1], "")
