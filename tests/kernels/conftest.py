"""Kernels as compiled for each instruction set that this processor runs."""

from importlib import import_module

import pytest

from ldmaps.kernels import INSTRUCTION_SETS


@pytest.fixture(params=INSTRUCTION_SETS)
def kernels(request):
    """The module of one instruction set."""
    return import_module(f"ldmaps.kernels._{request.param}")
