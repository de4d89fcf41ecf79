"""Build wheel and sdist, look inside, and try both in empty environments: ``make package``.

What a user downloads is not the working tree: a data file that the build leaves out, a test that it takes along or a
dependency that nobody declared shows only in the installed package. So both files are installed outside of the sources,
with what they declare and nothing else, and ``tools/smoke.py`` uses them as a user would.
"""

from __future__ import annotations

import argparse
import email
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Sequence
from email.message import Message
from pathlib import Path, PurePosixPath
from typing import Any

__all__ = ["build", "main", "metadata_faults", "sdist_faults", "try_out", "wheel_faults"]

ROOT = Path(__file__).resolve().parent.parent
SMOKE = Path(__file__).with_name("smoke.py")
#: What Python and numba leave beside the sources.
LEFTOVERS = (".pyc", ".nbi", ".nbc")
#: What whoever builds from the sdist needs, or needs to know.
IN_SDIST = ("LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "Makefile", "pyproject.toml")
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
    """Return the files of the package in the sources, as a wheel names them."""
    source = root / "src"
    return {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and path.suffix not in LEFTOVERS and not path.parent.name.endswith(".egg-info")
    }


def wheel_faults(names: Iterable[str], expected: set[str]) -> list[str]:
    """Say what a wheel lacks, and what it holds beside the package and its metadata."""
    inside = {name for name in names if not PurePosixPath(name).parts[0].endswith(".dist-info")}
    faults = [f"the wheel lacks {name}" for name in sorted(expected - inside)]
    return faults + [
        f"the wheel holds {name}, which is no part of the package" for name in sorted(inside - expected)
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


def build(folder: Path, root: Path = ROOT) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it; return (wheel, sdist)."""
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(folder), str(root)], check=True, stdout=sys.stderr
    )
    (wheel,) = folder.glob("*.whl")
    (sdist,) = folder.glob("*.tar.gz")
    return wheel, sdist


def faults_inside(wheel: Path, sdist: Path, root: Path = ROOT) -> list[str]:
    """Say what is wrong with the contents of the two files."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (described,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(described))
    with tarfile.open(sdist) as archive:
        members = [member.name for member in archive.getmembers() if member.isfile()]
    version = wheel.name.split("-")[1]
    faults = wheel_faults(names, package_files(root)) + sdist_faults(members)
    return faults + metadata_faults(metadata, project, version)


def try_out(archive: Path, folder: Path) -> None:
    """Install a wheel or an sdist into a new environment below a folder, and run the smoke test there."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(archive)], check=True, stdout=sys.stderr)
    subprocess.run([python, "-m", "pip", "check"], check=True, stdout=sys.stderr)
    work = folder / "work"
    work.mkdir()
    # -I: neither this folder nor PYTHONPATH may lend the environment what it lacks.
    subprocess.run([python, "-I", str(SMOKE), str(ROOT)], check=True, cwd=work)


def main(argv: Sequence[str] | None = None) -> int:
    """Build, check and try; return the exit status."""
    parser = argparse.ArgumentParser(
        description="Build wheel and sdist, look inside, try both in empty environments."
    )
    parser.add_argument("--output", type=Path, help="folder that keeps the two files (default: thrown away)")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="ldmaps-package-") as temporary:
        folder = arguments.output or Path(temporary) / "dist"
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            print(f"package: {folder} is not empty; name an empty folder, or clear it", file=sys.stderr)
            return 2
        wheel, sdist = build(folder)
        # Twine renders the README as an index would, and knows which fields one refuses.
        subprocess.run([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist], check=True)
        faults = faults_inside(wheel, sdist)
        print("\n".join(f"package: {fault}" for fault in faults), file=sys.stderr, end="\n" if faults else "")
        if faults:
            return 1
        for archive in (wheel, sdist):
            print(f"package: {archive.name}, {archive.stat().st_size / 1e6:.1f} MB", flush=True)
            try_out(archive, Path(temporary) / archive.suffix.strip("."))
    return 0


if __name__ == "__main__":
    sys.exit(main())
