"""A kernel says which argument it does not take, and why; what it takes it trusts."""

from __future__ import annotations

import contextlib
import threading
import time
from array import array

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
    return {**sound, **changes}


def odd(values):
    """Return a copy that begins at an odd byte."""
    copy = np.empty(values.nbytes + 1, np.uint8)[1:].view(values.dtype)
    copy[:] = values
    return copy


def read_only(values):
    values.flags.writeable = False
    return values


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_both_precisions_are_taken_by_place_and_by_name(real):
    given = arguments(real)
    kernels.extend(**given)
    assert (given["coordinates"] == 1).all()
    given["squared"][:] = 1  # replaced by weights
    kernels.extend(*given.values())


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
        kernels.extend(**arguments(**{name: value}))


def test_a_read_only_array_can_be_read():
    kernels.extend(**arguments(weights=read_only(np.ones(5))))


def test_an_array_at_an_odd_byte_is_read_as_any_other():
    """As messages between processes leave them."""
    weights = np.linspace(0.5, 1.0, 5)
    plain, other = arguments(weights=weights), arguments(weights=odd(weights))
    assert not other["weights"].flags.aligned
    kernels.extend(**plain)
    kernels.extend(**other)
    np.testing.assert_array_equal(other["coordinates"], plain["coordinates"])


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
        kernels.extend(**arguments(**{name: value}))


@pytest.mark.parametrize(("typecode", "count"), [("d", 5), ("d", 4), ("f", 5)])
def test_arrays_are_let_go_of_whether_they_fit_or_not(typecode, count):
    weights = array(typecode, [1.0] * count)
    with contextlib.suppress(TypeError, ValueError):
        kernels.extend(**arguments(weights=weights))
    weights.append(1.0)  # BufferError while somebody holds it


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


# -- arguments that are held -----------------------------------------------------------------


def test_held_arguments_are_given_once():
    given = arguments()
    wanted = {name: np.copy(value) for name, value in given.items()}
    kernels.extend(**wanted)
    out = {name: given.pop(name) for name in ("coordinates", "lowest")}
    held = kernels.extend.hold(**given)
    held(*out.values())
    held(**out)
    for name, array_ in out.items():
        np.testing.assert_array_equal(array_, wanted[name])


def test_what_is_held_may_be_of_either_precision():
    given = arguments(np.float32)
    held = kernels.extend.hold(nearest=given.pop("nearest"), rate=given.pop("rate"))
    held(**given)
    held(**{name: value.astype(np.float64) for name, value in given.items()})
    with pytest.raises(TypeError, match="weights must be .* float32"):
        held(**{**given, "weights": np.ones(5)})


def test_a_held_array_lives_as_long_as_it_is_held():
    weights = array("d", [1.0] * 5)
    given = arguments(weights=weights)
    held = kernels.extend.hold(weights=weights)
    del given["weights"]
    held(**given)
    with pytest.raises(BufferError):
        weights.append(1.0)
    del held
    weights.append(1.0)


def test_arguments_that_there_are_not_are_refused():
    with pytest.raises(TypeError, match="extend takes no .* argument colour"):
        kernels.extend(**arguments(), colour=1)
    with pytest.raises(TypeError, match="extend takes fewer arguments"):
        kernels.extend(*arguments().values(), 1)
    with pytest.raises(TypeError, match="extend takes no .* argument squared"):
        kernels.extend(arguments()["squared"], **arguments())
    with pytest.raises(TypeError, match="lowest must be .* got nothing"):
        kernels.extend(*list(arguments().values())[:-1])
    with pytest.raises(TypeError, match="argument colour"):
        kernels.extend.hold(colour=1)
    with pytest.raises(TypeError, match="argument rate"):
        kernels.extend.hold(rate=1.0)(**arguments())
    with pytest.raises(TypeError, match="by name, and once"):
        kernels.extend.hold(1.0)


def test_a_kernel_says_what_it_takes():
    assert repr(kernels.gaussian) == "<kernel gaussian: squared rate>"
