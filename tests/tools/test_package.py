"""The check of wheel and sdist notices what is missing, what does not belong, and metadata that differ."""

from __future__ import annotations

import email
import io
import sys
import tarfile
import zipfile

import pytest

from tools import package

FILES = {"ldmaps/__init__.py", "ldmaps/py.typed", "ldmaps/datasets/data/frames.npz"}
KERNELS = {"ldmaps/kernels/_baseline.abi3.so", "ldmaps/kernels/_x86_64_v3.cpython-311-x86_64-linux-gnu.so"}
MODULES = {"_baseline", "_x86_64_v3"}
METADATA = """\
Metadata-Version: 2.4
Name: thing
Version: 1.2
Requires-Python: >=3.11
License-Expression: MIT
Description-Content-Type: text/markdown
Classifier: Typing :: Typed
Provides-Extra: plot
Requires-Dist: numpy>=1.26
Requires-Dist: matplotlib>=3.8; extra == 'plot'

Words.
"""
THING = {
    "name": "thing",
    "requires-python": ">=3.11",
    "license": "MIT",
    "classifiers": ["Typing :: Typed"],
    "dependencies": ["numpy>=1.26"],
    "optional-dependencies": {"plot": ["matplotlib>=3.8"]},
}


def test_a_complete_wheel_has_no_faults():
    assert package.wheel_faults([*FILES, *KERNELS, "ldmaps-1.dist-info/METADATA"], FILES, MODULES) == []
    windows = ["ldmaps/kernels/_baseline.pyd", "ldmaps/kernels/_x86_64_v3.cp311-win_amd64.pyd"]
    assert package.wheel_faults([*FILES, *windows], FILES, MODULES) == []


def test_a_data_file_that_a_wheel_lacks_is_named():
    (fault,) = package.wheel_faults((FILES | KERNELS) - {"ldmaps/datasets/data/frames.npz"}, FILES, MODULES)
    assert fault == "the wheel lacks ldmaps/datasets/data/frames.npz"


def test_kernels_that_a_wheel_lacks_are_named():
    (fault,) = package.wheel_faults(FILES | {"ldmaps/kernels/_x86_64_v3.abi3.so"}, FILES, MODULES)
    assert fault == "the wheel lacks the kernels of _baseline"


def test_a_module_for_each_instruction_set_of_the_machine():
    assert package.kernel_modules("arm64") == {"_processor", "_baseline"}
    assert package.kernel_modules("x86_64") == package.kernel_modules("AMD64") > {"_baseline", "_x86_64_v3"}


@pytest.mark.parametrize(
    "stray", ["tests/test_a.py", "reproduction/__init__.py", "ldmaps/old.py", "ldmaps/kernels/array.h"]
)
def test_what_is_no_part_of_the_package_is_named(stray):
    (fault,) = package.wheel_faults([*FILES, *KERNELS, stray], FILES, MODULES)
    assert fault.startswith(f"the wheel holds {stray}")


def test_the_package_is_all_files_of_the_sources_but_what_is_compiled_and_caches(tmp_path):
    folder = tmp_path / "src" / "ldmaps"
    (folder / "__pycache__").mkdir(parents=True)
    for name in ("__init__.py", "page.html", "__pycache__/a.pyc", "a.cpp", "a.h", "_a.abi3.so", "_a.pyd"):
        (folder / name).write_text("")
    assert package.package_files(tmp_path) == {"ldmaps/__init__.py", "ldmaps/page.html"}
    real = package.package_files()
    assert "ldmaps/py.typed" in real
    assert "ldmaps/datasets/data/c24h50/frames.npz" in real
    assert "ldmaps/analysis/live/assets/live.html" in real


def sdist_names(**changes):
    names = {*package.IN_SDIST, *(f"{folder}/file.py" for folder in package.IN_SDIST_FOLDERS)}
    return [f"thing-1.2/{name}" for name in (names | changes.get("more", set())) - changes.get("less", set())]


def test_a_complete_sdist_has_no_faults():
    assert package.sdist_faults(sdist_names()) == []


def test_what_an_sdist_lacks_is_named():
    assert package.sdist_faults(sdist_names(less={"LICENSE"})) == ["the sdist lacks LICENSE"]
    assert package.sdist_faults(sdist_names(less={"tests/file.py"})) == ["the sdist has nothing below tests"]


@pytest.mark.parametrize(
    "stray", [".venv/bin/python", "docs/_build/index.html", ".ci/run", "src/ldmaps/a.pyc", "src/ldmaps/a.so"]
)
def test_what_an_sdist_should_not_hold_is_named(stray):
    assert package.sdist_faults(sdist_names(more={stray})) == [f"the sdist holds {stray}"]


def test_metadata_that_agree_have_no_faults():
    assert package.metadata_faults(email.message_from_string(METADATA), THING, "1.2") == []


@pytest.mark.parametrize(
    ("line", "other", "named"),
    [
        ("Name: thing", "Name: other", "Name"),
        ("Version: 1.2", "Version: 1.3", "Version"),
        (">=3.11", ">=3.9", "Requires-Python"),
        ("MIT", "BSD-3-Clause", "License-Expression"),
        ("text/markdown", "text/plain", "Description-Content-Type"),
        ("Typing :: Typed", "Topic :: Other", "Classifier"),
        ("Provides-Extra: plot", "Provides-Extra: pictures", "Provides-Extra"),
        ("numpy>=1.26", "numpy", "Requires-Dist"),
    ],
)
def test_metadata_that_differ_are_named(line, other, named):
    changed = email.message_from_string(METADATA.replace(line, other))
    (fault,) = package.metadata_faults(changed, THING, "1.2")
    assert fault.startswith(f"{named} is ")


def test_all_files_are_read(tmp_path):
    (tmp_path / "src" / "ldmaps").mkdir(parents=True)
    (tmp_path / "src" / "ldmaps" / "__init__.py").write_text("")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "thing"\nrequires-python = ">=3.11"\nlicense = "MIT"\nclassifiers = ["Typing :: Typed"]\n'
        'dependencies = ["numpy>=1.26"]\n[project.optional-dependencies]\nplot = ["matplotlib>=3.8"]\n'
    )
    wheel, sdist = tmp_path / "thing-1.2-py3-none-any.whl", tmp_path / "thing-1.2.tar.gz"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("thing-1.2.dist-info/METADATA", METADATA)
        archive.mkdir("ldmaps")
        archive.writestr("ldmaps/stray.py", "")
        for module in package.kernel_modules():
            archive.writestr(f"ldmaps/kernels/{module}.abi3.so", "")
    with tarfile.open(sdist, "w:gz") as archive:
        for name in sdist_names(more={".venv/pyvenv.cfg"}):
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    assert package.faults_inside([wheel], sdist, tmp_path) == [
        "the sdist holds .venv/pyvenv.cfg",
        "the wheel lacks ldmaps/__init__.py",
        "the wheel holds ldmaps/stray.py, which is no part of the package",
    ]


def test_a_folder_with_files_is_not_built_into(tmp_path, capsys):
    (tmp_path / "older.whl").write_text("")
    assert package.main(["--output", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["older.whl"]


def test_a_python_that_there_is_not_is_named(capsys):
    assert package.version_of("no-python-at-all") == (0, 0)
    assert package.version_of(sys.executable) == sys.version_info[:2]
    assert package.main(["--pythons", sys.executable, "no-python-at-all"]) == 2
    assert "no-python-at-all cannot be run" in capsys.readouterr().err
