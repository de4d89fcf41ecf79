"""MDAnalysis' own tests of an analysis, run with ours: which frames are read, by how many workers, and the bar."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ldmaps import LandmarkDiffusionMap

mda = pytest.importorskip("MDAnalysis", reason="MDAnalysis is not installed")
pytest.importorskip("MDAnalysisTests.datafiles", reason="pip install MDAnalysisTests")

from MDAnalysisTests.analysis import test_base as theirs  # noqa: E402
from MDAnalysisTests.analysis.test_base import (  # noqa: E402
    test_frame_fail,  # noqa: F401
    test_instance_serial_backend,  # noqa: F401
    test_progressbar_multiprocessing,  # noqa: F401
    test_reset_n_parts_to_n_frames,  # noqa: F401
    test_start_stop_step_parallel,  # noqa: F401
    test_verbose,  # noqa: F401
    test_verbose_progressbar,  # noqa: F401
    test_verbose_progressbar_run,  # noqa: F401
    test_verbose_progressbar_run_with_kwargs,  # noqa: F401
    test_warn_nparts_nworkers,  # noqa: F401
    u,  # noqa: F401
)
from MDAnalysisTests.datafiles import DCD, PSF  # noqa: E402

from ldmaps.mdanalysis import LandmarkDiffusionMapAnalysis  # noqa: E402

#: What MDAnalysis itself warns of, and what these tests do with processes.
pytestmark = pytest.mark.filterwarnings("ignore")


@cache
def known():
    """A map of the trajectory that these tests read, and the coordinates of its frames."""
    model = LandmarkDiffusionMap(3, metric="rmsd", n_landmarks=25)
    return model.fit(mda.Universe(PSF, DCD).select_atoms("name CA")), model.embedding_


class FrameAnalysis(LandmarkDiffusionMapAnalysis):
    """Finds by their coordinates which frames it was given."""

    def __init__(self, reader, **settings):
        universe = mda.Universe(PSF)
        universe.trajectory = reader
        super().__init__(universe, "name CA", model=known()[0], **settings)

    @property
    def found_frames(self):
        distances = np.abs(self.results.coordinates[:, None] - known()[1]).max(axis=2)
        assert (distances.min(axis=1) < 1e-5).all()
        return distances.argmin(axis=1)


@pytest.fixture(autouse=True)
def ours_in_place_of_theirs(monkeypatch):
    monkeypatch.setattr(theirs, "FrameAnalysis", FrameAnalysis)


@pytest.fixture(
    params=[
        pytest.param(
            {"backend": backend} if backend == "serial" else {"backend": backend, "n_workers": 2},
            id=backend,
            marks=[] if backend == "serial" else [pytest.mark.slow],
        )
        for backend in LandmarkDiffusionMapAnalysis.get_supported_backends()
    ]
)
def client_FrameAnalysis(request):
    return request.param
