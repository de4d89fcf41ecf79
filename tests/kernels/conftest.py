"""Kernels as compiled for each instruction set that this processor runs."""

from importlib import import_module

import pytest

from ldmaps.kernels import _baseline

#: From the plainest; a processor that runs one runs those before it.
SETS = ["baseline", "x86_64_v3", "x86_64_v4"]
RUN_HERE = SETS[: SETS.index(_baseline.best_instruction_set()) + 1]


@pytest.fixture(params=RUN_HERE)
def kernels(request):
    """The module of one instruction set."""
    return import_module(f"ldmaps.kernels._{request.param}")
