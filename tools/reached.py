"""What a probe of tools/random_mutants.py calls, and a plugin of pytest that writes how long tests take.

Lines go to the file that LDMAPS_REACHED names, from every process that a test starts: "probe, test" and "test, seconds,
outcome", with tabs between.
"""

from __future__ import annotations

import os
from typing import Any

_noted: set[tuple[int, str]] = set()


def note(*probes: int) -> None:
    """Note that the test under way has come by."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    for probe in probes:
        if (probe, test) not in _noted:
            _noted.add((probe, test))
            _write(f"{probe}\t{test}")


def pytest_runtest_logreport(report: Any) -> None:
    """Write how long a part of a test took, in the process that collects the reports."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        _write(f"{report.nodeid}\t{report.duration:.3f}\t{report.outcome}")


def _write(line: str) -> None:
    descriptor = os.open(os.environ["LDMAPS_REACHED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)
