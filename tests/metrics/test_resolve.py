import numpy as np
import pytest

from ldmaps import metrics
from ldmaps.errors import InvalidInputError
from ldmaps.metrics import METRICS, Euclidean, Function, Metric, Periodic, resolve_metric


def test_table_names_every_metric_by_its_own_name():
    assert set(METRICS) == {
        "euclidean",
        "standardized",
        "rmsd",
        "hamming",
        "earth_mover",
        "periodic",
        "features",
        "precomputed",
        "affinity",
        "function",
    }
    for name, kind in METRICS.items():
        assert kind.name == name
        assert issubclass(kind, Metric)
        assert kind.__name__ in metrics.__all__


@pytest.mark.parametrize("name", sorted(set(METRICS) - {"function", "features"}))
def test_a_name_gives_the_metric_with_its_defaults(name):
    assert type(resolve_metric(name)) is METRICS[name]


def test_an_instance_is_returned_as_it_is():
    metric = Periodic(360.0)
    assert resolve_metric(metric) is metric


def test_a_callable_becomes_a_function_metric():
    metric = resolve_metric(np.dot)
    assert isinstance(metric, Function)
    assert metric.function is np.dot


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("euclidian", "euclidean"),
        ("Euclidean", "euclidean"),
        ("RMSD", "rmsd"),
        ("earth-mover", "earth_mover"),
        ("precompute", "precomputed"),
    ],
)
def test_an_unknown_name_suggests_the_closest(name, suggestion):
    with pytest.raises(InvalidInputError, match=f"Did you mean '{suggestion}'"):
        resolve_metric(name)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(InvalidInputError, match="unknown metric 'qqq'") as caught:
        resolve_metric("qqq")
    message = str(caught.value)
    assert all(repr(name) in message for name in METRICS if name not in ("function", "features"))
    assert "Did you mean" not in message


def test_the_name_function_needs_a_function():
    with pytest.raises(InvalidInputError, match="pass the function"):
        resolve_metric("function")


def test_a_class_is_not_an_instance():
    with pytest.raises(InvalidInputError, match=r"pass an instance, Euclidean\("):
        resolve_metric(Euclidean)


@pytest.mark.parametrize("wrong", [None, 3, ["euclidean"]])
def test_refuses_anything_else(wrong):
    with pytest.raises(InvalidInputError, match="must be a name"):
        resolve_metric(wrong)
