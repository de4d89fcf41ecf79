"""Every kernel refuses what breaks its signature, and writes nowhere but into the arrays it is given.

``make sanitize`` runs these calls with every address checked. ``LDMAPS_KERNEL_ROUNDS=100`` makes more of them.
"""

from __future__ import annotations

import os
from importlib import import_module

import numpy as np
import pytest
from kernel_signatures import (
    Guarded,
    Refused,
    Signature,
    broken_arguments,
    fits_type,
    sound_arguments,
)

from ldmaps.kernels import INSTRUCTION_SET

MODULE = import_module(f"ldmaps.kernels._{INSTRUCTION_SET}")
CONSTANTS = {name: int(value) for name, value in vars(MODULE).items() if isinstance(value, (int, float))}
#: Kernels with rules of their own, which no signature says; these too are a ValueError.
WITH_OWN_RULES = {"write_rows", "unpack_xtc_frames"}
ROUNDS = int(os.environ.get("LDMAPS_KERNEL_ROUNDS", "2"))


def must_be_taken(signature, arguments, forms):
    """Say whether a kernel must take arguments: the first form whose types fit has rules that they keep."""
    for types in forms:
        if all(map(fits_type, arguments, types, signature.arguments)):
            try:
                signature.check(arguments)
            except Refused:
                return False
            return True
    return False


def call(name, signature, arguments):
    """Call a kernel, which must take or refuse its arguments as its signature says."""
    is_sound = must_be_taken(signature, arguments, MODULE._types[name])
    error = None
    try:
        getattr(MODULE, name)(*arguments)
    except (TypeError, ValueError) as raised:
        error = raised
    may_refuse = not is_sound or (name in WITH_OWN_RULES and isinstance(error, ValueError))
    assert is_sound if error is None else may_refuse, (arguments, error)


@pytest.mark.parametrize("name", sorted(MODULE._types))
@pytest.mark.filterwarnings("ignore:Conversion of an array with ndim:DeprecationWarning")
def test_any_arguments_are_taken_or_refused_and_nothing_else_is_written(name):
    signature = Signature(getattr(MODULE, name).__doc__, CONSTANTS)
    rng = np.random.default_rng(list(name.encode()))
    for types in MODULE._types[name]:
        for _ in range(ROUNDS):
            guarded = Guarded()
            arguments = sound_arguments(signature, types, rng, guarded)
            call(name, signature, arguments)
            for changed in broken_arguments(signature, arguments, rng, guarded):
                call(name, signature, changed)
            assert guarded.are_intact()


def test_whole_numbers_that_overflow_a_range_are_refused():
    """r1 - r0, r0 + n and indices + 1 are beyond the largest number."""
    rows, norms = np.ones((4, 2)), np.ones(4)
    low, high = -(2**63), 2**63 - 1
    with pytest.raises(ValueError, match=f"r0 must lie within 0 and 4, got {low}"):
        MODULE.squared_euclidean_rows(rows, low, high, rows, 0, 4, np.ones((4, 4)))
    with pytest.raises(ValueError, match=f"r0 must be 0, got {high}"):
        MODULE.finish_gram(np.ones((4, 4)), norms, norms, 0.1, rows, high, rows, 0)
    with pytest.raises(ValueError, match=f"nearest must lie within 0 and 3, got {high} at place 1"):
        MODULE.judge(norms[:2], np.array([0, high]), norms, 1.0, 1.0, norms[:2], np.ones(2, bool))


@pytest.mark.parametrize("short", ["weights", "sums"])
def test_group_sums_need_a_weight_and_a_sum_for_every_frame(short):
    panels, moments = np.ones((2, 3, 4)), np.ones((3, 8))
    sizes = {"weights": 8, "sums": 8, short: 5}
    with pytest.raises(ValueError, match=r"sums must have shape \(.\), got \(.\)"):
        MODULE.rmsd_group_sums(panels, moments, np.array([0, 8]), *map(np.ones, sizes.values()))
    with pytest.raises(ValueError, match="bounds must lie within 0 and 5, got 8 at place 1"):
        MODULE.rmsd_group_sums(panels, moments, np.array([0, 8]), np.ones(5), np.ones(5))
