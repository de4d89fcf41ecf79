"""The binding layer by itself: references, strides and threads.

Not tested: a free-threaded Python, where the module makes Python take the GIL (see ``binding.h``).
"""

from __future__ import annotations

import contextlib
import sys
import threading

import numpy as np
import pytest

from ldmaps import kernels


def arguments(rng=None):
    """Return what ``extend`` takes for 3 points, 5 landmarks and 2 coordinates."""
    rng = rng or np.random.default_rng(0)
    return {
        "squared": rng.random((3, 5)),
        "rate": 0.5,
        "weights": rng.random(5) + 0.5,
        "coefficients": rng.random((2, 5)),
        "coordinates": np.zeros((3, 2)),
        "nearest": np.zeros(3, np.int64),
        "lowest": np.zeros(3),
    }


def odd_byte(values):
    """Return a copy that begins at an odd byte."""
    copy = np.empty(values.nbytes + 1, np.uint8)[1:].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


INDICES, RADII, TEXT = np.array([0, 4, 2]), np.ones(5), b"1,2\n3,4\n"
#: Calls that are taken, and ones that are refused at each of the places where a call can be.
CALLS = {
    "taken": (kernels.extend, list(arguments().values())),
    "a tuple returned": (kernels.read_rows, [TEXT, 0, 44, False, 99, np.array([0, 1]), np.empty((4, 2))]),
    "an array copied, at an odd byte": (
        kernels.extend,
        list({**arguments(), "weights": odd_byte(np.ones(5))}.values()),
    ),
    "wrong number": (kernels.extend, list(arguments().values())[:-1]),
    "wrong type": (kernels.extend, list({**arguments(), "lowest": np.zeros(3, np.float32)}.values())),
    "wrong type behind a copy": (
        kernels.extend,
        list({**arguments(), "weights": odd_byte(np.ones(5)), "lowest": None}.values()),
    ),
    "wrong number of type": (kernels.extend, list({**arguments(), "rate": "fast"}.values())),
    "wrong size": (kernels.extend, list({**arguments(), "lowest": np.zeros(4)}.values())),
    "wrong whole number": (kernels.read_rows, [TEXT, 99, 44, False, 99, np.array([0]), np.empty((4, 1))]),
    "wrong element": (
        kernels.judge,
        [np.ones(3), INDICES + 1, RADII, 1.0, 1.0, np.ones(3), np.ones(3, bool)],
    ),
    "wrong in the kernel": (
        kernels.write_rows,
        [
            np.ones((1, 1)),
            np.array([17]),
            b"",
            np.array([0, 0]),
            b"abc",
            np.array([1, 2, 3]),
            np.empty(2, np.uint8),
        ],
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_no_reference_is_kept(case):
    kernel, given = CALLS[case]
    before = [sys.getrefcount(one) for one in given]
    for _ in range(10):
        with contextlib.suppress(TypeError, ValueError):
            kernel(*given)
    assert [sys.getrefcount(one) for one in given] == before


@pytest.mark.parametrize("case", CALLS)
def test_no_object_is_left_behind(case):
    """A call that left one object would leave thousands here; other parts of Python come and go by a few."""
    kernel, given = CALLS[case]

    def many():
        for _ in range(3000):
            with contextlib.suppress(TypeError, ValueError):
                kernel(*given)

    many()
    before = sys.getallocatedblocks()
    many()
    assert sys.getallocatedblocks() - before < 1000


@pytest.mark.parametrize(
    "view",
    [
        lambda values: np.lib.stride_tricks.as_strided(values[:1], strides=(-7, 8)),
        lambda values: np.broadcast_to(values[0], (1, 5)),
        lambda values: np.repeat(values, 3, axis=0)[1::9],
        lambda values: np.asfortranarray(values[:1]),
        lambda values: odd_byte(values[:1]),
    ],
    ids=["an axis of one", "broadcast", "one of a slice", "Fortran", "odd byte"],
)
def test_strides_that_lead_to_the_same_bytes_are_taken(view):
    """Along an axis of one element no stride matters, so numpy calls such an array contiguous."""
    given = arguments()
    coefficients = given["coefficients"] = given["coefficients"][:1].copy()
    results = []
    for seen in (coefficients, view(coefficients)):
        assert seen.shape == (1, 5)
        given["coefficients"], given["coordinates"] = seen, np.zeros((3, 1))
        kernels.extend(given["squared"].copy(), *list(given.values())[1:])
        results.append(given["coordinates"])
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    "view",
    [
        lambda values: np.repeat(values, 2, axis=1)[:, ::2],
        lambda values: values[:, ::-1],
        lambda values: values[::-1],
        lambda values: np.asfortranarray(values),
        lambda values: np.broadcast_to(values[:, :1], values.shape),
        lambda values: np.hstack([values, values])[:, :5],
    ],
    ids=["every other", "backwards", "rows backwards", "Fortran", "broadcast", "part of rows"],
)
def test_strides_that_lead_elsewhere_are_refused(view):
    given = arguments()
    given["coefficients"] = view(given["coefficients"])
    assert given["coefficients"].shape == (2, 5)
    with pytest.raises(TypeError, match="^coefficients must be .* not contiguous$"):
        kernels.extend(*given.values())


def test_threads_get_their_own_results_and_their_own_errors():
    """Half of the calls are refused, for reasons that only their own thread has."""
    expected = arguments()
    shared = {name: expected[name] for name in ("weights", "coefficients")}
    kernels.extend(expected["squared"].copy(), *list(expected.values())[1:])
    faults, start = [], threading.Barrier(8)

    def work(number):
        start.wait()
        for turn in range(300):
            given = {**arguments(), **shared}
            size = 10 * number + turn % 7 + 4
            is_wrong = turn % 2
            if is_wrong:
                given["lowest"] = np.zeros(size)
            try:
                kernels.extend(*given.values())
                is_right = not is_wrong and np.array_equal(given["coordinates"], expected["coordinates"])
            except ValueError as error:
                is_right = is_wrong and str(error) == f"lowest must have shape (3), got ({size})"
            if not is_right:
                faults.append((number, turn))

    before = [sys.getrefcount(one) for one in shared.values()]
    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert [sys.getrefcount(one) for one in shared.values()] == before
