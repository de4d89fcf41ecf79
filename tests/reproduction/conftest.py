from __future__ import annotations

from types import SimpleNamespace

import pytest

from reproduction.plan import reduced_plan
from reproduction.run import laboratory, run


@pytest.fixture(scope="session")
def reproduction(tmp_path_factory):
    """The whole reduced run: under a minute on two cores."""
    pytest.importorskip("matplotlib", reason="the figures are drawn with it")
    folder = tmp_path_factory.mktemp("paper")
    lab = laboratory(reduced_plan(), folder / "cache")
    page = run(lab, folder)
    return SimpleNamespace(lab=lab, folder=folder, page=page.read_text(encoding="utf-8"))
