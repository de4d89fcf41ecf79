"""What made a result: commit, versions, processor."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version

from benchmarks.harness import commit
from ldmaps._version import __version__

__all__ = ["describe", "made_by"]

PACKAGES = ("numpy", "scipy", "scikit-learn")


def made_by() -> dict[str, str]:
    """Return what is stored with every piece."""
    return {
        "ldmaps": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
        "processor": _processor(),
    }


def describe(maker: Mapping[str, str], seed: int) -> str:
    """Say in a line what made something.

    >>> describe({"ldmaps": "1.0", "commit": "abc", "python": "3.11"}, seed=0)
    'seed 0; ldmaps 1.0, commit abc, python 3.11'
    """
    return f"seed {seed}; " + ", ".join(f"{name} {value}" for name, value in maker.items())


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()
