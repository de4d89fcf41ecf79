from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    pytest.importorskip("mdtraj", reason="mdtraj reads the trajectories")
    from written_trajectories import write_all

    return write_all(tmp_path_factory.mktemp("trajectories"))
