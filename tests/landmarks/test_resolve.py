import numpy as np
import pytest
from landmarks.contract import run
from point_sets import sheet

from ldmaps.errors import InvalidInputError
from ldmaps.landmarks import (
    FarthestPoint,
    FixedLandmarks,
    KMedoids,
    LandmarkSelector,
    PrunedSpanningTree,
    Uniform,
    resolve_selector,
)

COUNTED = {"kmedoids": KMedoids, "uniform": Uniform, "farthest": FarthestPoint}


@pytest.mark.parametrize("name", COUNTED)
def test_name_with_its_number(name):
    selector = resolve_selector(name, 7, 400)
    assert type(selector) is COUNTED[name]
    assert selector.n_landmarks == 7
    assert resolve_selector(name, None, 400).n_landmarks == 400


def test_name_of_the_spanning_tree():
    selector = resolve_selector("pst", None, 400)
    assert type(selector) is PrunedSpanningTree
    assert selector.growth == "adopting"


@pytest.mark.parametrize("make", COUNTED.values())
def test_selector_keeps_its_own_number(make):
    assert resolve_selector(make(12), None, 400).n_landmarks == 12
    assert resolve_selector(make(12), 12, 400).n_landmarks == 12
    with pytest.raises(
        InvalidInputError,
        match=rf"n_landmarks=13 contradicts {make.__name__}\(n_landmarks=12.*set it in one place",
    ):
        resolve_selector(make(12), 13, 400)


@pytest.mark.parametrize("make", COUNTED.values())
def test_selector_without_a_number_is_left_alone(make):
    original = make()
    assert resolve_selector(original, 9, 400).n_landmarks == 9
    assert resolve_selector(original, None, 30).n_landmarks == 30
    assert original.n_landmarks is None


def test_settings_survive():
    selector = resolve_selector(KMedoids(init="random", max_iter=3), 8, 400)
    assert (selector.init, selector.max_iter, selector.n_landmarks) == ("random", 3, 8)
    assert resolve_selector(PrunedSpanningTree(growth="literal"), None, 400).growth == "literal"


@pytest.mark.parametrize(
    "indices", [[4, 2, 9], (4, 2, 9), np.array([4, 2, 9])], ids=["list", "tuple", "array"]
)
def test_indices_become_given_landmarks(indices):
    selector = resolve_selector(indices, None, 400)
    assert isinstance(selector, FixedLandmarks)
    assert run(selector, sheet(20, 0)).indices.tolist() == [4, 2, 9]
    assert isinstance(resolve_selector(range(2, 9), None, 400), FixedLandmarks)


@pytest.mark.parametrize(
    "landmarks", ["pst", PrunedSpanningTree(), [0, 3, 5]], ids=["name", "selector", "indices"]
)
def test_number_where_the_method_decides(landmarks):
    with pytest.raises(
        InvalidInputError,
        match="fixes the number of landmarks itself, so n_landmarks=3 cannot be met; leave it out",
    ):
        resolve_selector(landmarks, 3, 400)


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(InvalidInputError, match='landmarks="k-medoids" is not known') as caught:
        resolve_selector("k-medoids", 5, 400)
    for name in ("pst", "kmedoids", "uniform", "farthest"):
        assert f'"{name}"' in str(caught.value)


@pytest.mark.parametrize(
    "landmarks", [None, 5, 2.5, KMedoids, {"kmedoids"}, object()], ids=lambda value: type(value).__name__
)
def test_neither_name_nor_selector_nor_indices(landmarks):
    with pytest.raises(
        InvalidInputError, match="must be a name, a selector or an array of indices, got "
    ) as caught:
        resolve_selector(landmarks, None, 400)
    assert type(landmarks).__name__ in str(caught.value)


def test_own_selector_passes_through():
    class FirstTwo(LandmarkSelector):
        name = "first two"
        is_automatic = True

        def select(self, walk, rng):
            return FixedLandmarks([0, 1]).select(walk, rng)

    selector = resolve_selector(FirstTwo(), None, 400)
    assert run(selector, sheet(20, 0)).indices.tolist() == [0, 1]
