"""The folder of compiled loops loads as it is used."""

import subprocess
import sys

import pytest

from ldmaps import compiled


def test_a_module_loads_when_it_is_named():
    code = (
        "import sys; from ldmaps import compiled; assert 'numba' not in sys.modules;"
        "compiled.layout.BLOCK; assert 'numba' not in sys.modules;"
        "compiled.rows; assert 'numba' in sys.modules and 'ldmaps.compiled.xtc' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_what_is_not_there_is_no_attribute():
    assert not hasattr(compiled, "no_such_loops")
    with pytest.raises(AttributeError, match=r"'ldmaps\.compiled' has no attribute 'no_such_loops'"):
        compiled.no_such_loops  # noqa: B018


def test_a_missing_compiler_is_not_taken_for_a_missing_module():
    code = (
        "import sys; sys.modules['numba'] = None; from ldmaps import compiled\n"
        "try: compiled.xtc\n"
        "except ModuleNotFoundError as error: assert error.name == 'numba'\n"
        "else: raise AssertionError"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
