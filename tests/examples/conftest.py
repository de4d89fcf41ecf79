"""Examples are scripts, not a package: they are loaded from their files."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def example(request):
    """The example that the test module names in ``EXAMPLE``."""
    name = request.module.EXAMPLE
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]
