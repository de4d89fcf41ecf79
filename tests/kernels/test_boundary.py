"""A kernel says which argument it does not take, and why; what it takes it trusts."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from ldmaps import kernels


def arguments(real=np.float64, **changes):
    """Return what ``extend`` takes for 3 points, 5 landmarks and 2 coordinates, with some of it replaced."""
    sound = {
        "squared": np.ones((3, 5), real),
        "rate": 0.5,
        "weights": np.ones(5, real),
        "coefficients": np.ones((2, 5), real),
        "coordinates": np.zeros((3, 2), real),
        "nearest": np.zeros(3, np.int64),
        "lowest": np.zeros(3, real),
    }
    return list({**sound, **changes}.values())


def odd(values):
    """Return a copy that begins at an odd byte."""
    copy = np.empty(values.nbytes + 1, np.uint8)[1:].view(values.dtype)
    copy[:] = values
    return copy


def read_only(values):
    values.flags.writeable = False
    return values


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_both_precisions_are_taken(real):
    coordinates = np.zeros((3, 2), real)
    kernels.extend(*arguments(real, coordinates=coordinates))
    assert (coordinates == 1).all()


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("weights", np.ones(5, np.float32), "of float64 with 1 dimension, got float32 with 1 dimension"),
        ("nearest", np.zeros(3, np.int32), "int64 with 1 dimension that can be written to, got int32"),
        ("nearest", np.zeros(3, np.uint64), "got uint64"),
        ("weights", np.ones(5, np.complex128), "got elements of a type that no kernel takes"),
        ("weights", np.ones(5, ">f8"), "got elements of a type that no kernel takes"),
        ("weights", np.ones((5, 1)), "with 1 dimension, got float64 with 2 dimensions"),
        ("weights", np.ones(10)[::2], "C-contiguous array of float64 .* dimension, not contiguous"),
        ("coefficients", np.asfortranarray(np.ones((2, 5))), "2 dimensions, not contiguous"),
        (
            "coordinates",
            read_only(np.zeros((3, 2))),
            "can be written to, got float64 with 2 dimensions, read-only",
        ),
        ("lowest", odd(np.zeros(3)), "can be written to, got float64 with 1 dimension, not aligned"),
        ("lowest", [0.0, 0.0, 0.0], "got list"),
        ("lowest", None, "got NoneType"),
        ("rate", "0.5", "a number of type float64, got str"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_given(name, value, fault):
    with pytest.raises(TypeError, match=f"^{name} must be .*{fault}"):
        kernels.extend(*arguments(**{name: value}))


def test_a_read_only_array_can_be_read():
    kernels.extend(*arguments(weights=read_only(np.ones(5))))


def test_an_array_at_an_odd_byte_is_read_as_any_other():
    """As messages between processes leave them."""
    weights = np.linspace(0.5, 1.0, 5)
    plain, other = np.zeros((3, 2)), np.zeros((3, 2))
    assert not odd(weights).flags.aligned
    kernels.extend(*arguments(weights=weights, coordinates=plain))
    kernels.extend(*arguments(weights=odd(weights), coordinates=other))
    np.testing.assert_array_equal(other, plain)


@pytest.mark.parametrize(
    ("name", "value", "wanted", "got"),
    [
        ("weights", np.ones(4), "5", "4"),
        ("coefficients", np.ones((2, 6)), "2, 5", "2, 6"),
        ("coordinates", np.ones((3, 3)), "3, 2", "3, 3"),
        ("nearest", np.zeros(0, np.int64), "3", "0"),
    ],
)
def test_a_wrong_shape_is_named_with_the_right_one(name, value, wanted, got):
    with pytest.raises(ValueError, match=rf"^{name} must have shape \({wanted}\), got \({got}\)$"):
        kernels.extend(*arguments(**{name: value}))


@pytest.mark.parametrize("weights", [np.ones(5), np.ones(4), np.ones(5, np.float32), odd(np.ones(5))])
def test_arrays_are_let_go_of_whether_they_fit_or_not(weights):
    given = arguments(weights=weights)
    before = sys.getrefcount(weights)
    with contextlib.suppress(TypeError, ValueError):
        kernels.extend(*given)
    assert sys.getrefcount(weights) == before


def test_other_threads_run_meanwhile():
    squared = np.ones((2000, 4000))
    inside, done = threading.Event(), threading.Event()

    def work():
        inside.set()
        for _ in range(10):
            kernels.gaussian(squared, 1e-9)
        inside.clear()
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    turns = 0
    while not done.is_set():
        turns += inside.is_set()
        time.sleep(0.001)
    thread.join()
    # Between two of the ten calls there is a turn too, whoever holds the lock.
    assert turns > 20


# Python ends while threads are inside kernels, and takes its time over it: they come back meanwhile.
ENDING = """
import sys, threading, time, types
import numpy as np
from ldmaps import kernels

class Slow:
    def __del__(self, sleep=time.sleep):
        sleep(1.0)

sys.modules["slow"] = types.ModuleType("slow")
sys.modules["slow"].slow = Slow()
squared, is_inside = np.ones((400, 1000)), threading.Event()

def work():
    while True:
        is_inside.set()
        kernels.gaussian(squared, 1e-9)

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
is_inside.wait()
"""


def test_threads_that_come_back_while_python_ends_end_nothing_else():
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_arguments_are_counted():
    with pytest.raises(TypeError, match="^extend takes 7 arguments, got 8$"):
        kernels.extend(*arguments(), 1)
    with pytest.raises(TypeError, match="^extend takes 7 arguments, got 6$"):
        kernels.extend(*arguments()[:-1])


def test_a_kernel_says_what_it_takes():
    assert kernels.gaussian.__doc__ == "squared[n,m] rate"
