"""The exact map is the same whoever solves it, within the memory it may take, and says how exact it is."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from streamed_cases import random_weights

from ldmaps import DiffusionMap, LandmarkDiffusionMap, Limits, load
from ldmaps.cli.info import as_text, facts_of
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.diffusion import solver_state, streamed_kernel
from ldmaps.diffusion.solver_choice import streamed_room
from ldmaps.errors import CheckpointError, ConvergenceWarning, InvalidInputError, OutlierWarning
from ldmaps.fit import reference
from ldmaps.metrics import RMSD, Periodic
from ldmaps.validation.fidelity import match_columns, nrmse

ROLL = swiss_roll(900, random_state=1).points


def peptide(n=700):
    data = alanine_dipeptide()
    return data.frames[:: len(data.frames) // n][:n], RMSD(weights=data.masses)


def oval(n=400):
    """Nearly a circle: pairs of eigenvalues that differ in the fourth digit."""
    angle = 2 * np.pi * np.arange(n) / n
    return np.column_stack([1.001 * np.cos(angle), np.sin(angle)])


def chain(n=800):
    """A long line: λ₂ = 0.9997 and eigenvalues that crowd below it."""
    return np.linspace(0.0, 1.0, n)[:, None] ** 1.1


DATA = {
    "roll": lambda: (ROLL, "euclidean", 4.0),
    "single roll": lambda: (ROLL.astype(np.float32), "euclidean", "connected"),
    "peptide": lambda: (*peptide(), "connected"),
    "angles": lambda: (np.random.default_rng(0).uniform(-np.pi, np.pi, (600, 2)) ** 3 / 10, Periodic(), 0.3),
    "oval": lambda: (oval(), "euclidean", 0.02),
    "chain": lambda: (chain(), "euclidean", 3e-5),
}


@pytest.fixture(autouse=True)
def small_bands(monkeypatch):
    """Bands so small that a few hundred points have several, and few medoids to begin with."""
    monkeypatch.setattr(streamed_kernel, "MIN_BAND_ROWS", 32)
    monkeypatch.setattr(reference, "MIN_START", 60)


# -- the same map ------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "weighted"), [(0.0, False), (0.5, True), (1.0, True)])
@pytest.mark.parametrize("name", DATA)
def test_streamed_map_is_the_stored_one(name, alpha, weighted):
    X, metric, epsilon = DATA[name]()
    weights = random_weights(len(X)) if weighted else None
    stored, streamed = (
        DiffusionMap(3, epsilon, metric, alpha=alpha, diffusion_time=1.0, solver=solver).fit(
            X, sample_weight=weights
        )
        for solver in ("stored", "streamed")
    )
    solution = streamed.solution_
    assert solution.solver == "streamed"
    assert solution.n_passes >= (2 if alpha else 1)
    assert streamed.epsilon_ == pytest.approx(stored.epsilon_, rel=1e-6)
    np.testing.assert_allclose(streamed.eigenvalues_, stored.eigenvalues_, rtol=1e-5)
    np.testing.assert_allclose(streamed.spectrum_, stored.spectrum_, atol=0.02)
    assert nrmse(stored.embedding_, streamed.embedding_) <= np.linalg.norm(solution.error_bound) + 1e-3
    assert solution.error_bound.max() < 0.2
    new = X[:20] * np.asarray(1.001, dtype=X.dtype)
    scale = np.abs(stored.embedding_).max()
    np.testing.assert_allclose(
        match_columns(stored.transform(new), streamed.transform(new)),
        stored.transform(new),
        atol=5e-3 * scale,
    )


def test_exactly_degenerate_coordinates_span_the_same_plane():
    angle = 2 * np.pi * np.arange(300) / 300
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    stored, streamed = (DiffusionMap(2, 0.02, solver=solver).fit(ring) for solver in ("stored", "streamed"))
    assert np.sin(subspace_angles(stored.embedding_, streamed.embedding_).max()) < 1e-2


def test_gap_is_found_by_the_streamed_solver_too():
    stored, streamed = (
        DiffusionMap("gap", 4.0, solver=solver).fit(ROLL) for solver in ("stored", "streamed")
    )
    assert streamed.n_components_ == stored.n_components_
    assert len(streamed.spectrum_) == len(stored.spectrum_)
    assert len(streamed.solution_.error_bound) == streamed.n_components_


@pytest.mark.parametrize("n", [3, 5, 20])
def test_few_points(n):
    X = np.random.default_rng(0).normal(size=(n, 2))
    stored, streamed = (DiffusionMap(1, 4.0, solver=solver).fit(X) for solver in ("stored", "streamed"))
    np.testing.assert_allclose(streamed.eigenvalues_, stored.eigenvalues_, rtol=1e-9)


def test_points_of_weight_zero_are_embedded():
    weights = np.ones(len(ROLL))
    weights[::5] = 0.0
    stored, streamed = (
        DiffusionMap(2, 4.0, solver=solver).fit(ROLL, sample_weight=weights)
        for solver in ("stored", "streamed")
    )
    assert nrmse(stored.embedding_, streamed.embedding_) < 0.1


def test_results_do_not_depend_on_threads():
    one, three = (DiffusionMap(2, 4.0, solver="streamed", n_threads=n).fit(ROLL) for n in (1, 3))
    np.testing.assert_array_equal(one.embedding_, three.embedding_)


def test_broken_frames_are_still_named():
    X = np.concatenate([ROLL, [[500.0, 0.0, 0.0]]])
    with pytest.warns(OutlierWarning, match="point 900"):
        DiffusionMap(2, "connected", solver="streamed").fit(X)


# -- who solves it -------------------------------------------------------------------


def test_molecules_above_the_limit_are_streamed_and_sheets_sparse():
    frames, metric = peptide(1200)
    model = DiffusionMap(2, "connected", metric, limits=Limits(memory=4.5e6), n_threads=1).fit(frames)
    assert model.solution_.solver == "streamed"
    assert DiffusionMap(2, "connected", metric).fit(frames).solution_.solver == "stored"
    X = swiss_roll(3000).points
    assert DiffusionMap(2, 0.5, limits=Limits(memory=2e7)).fit(X).solution_.solver == "sparse"
    assert DiffusionMap(2, 30.0, limits=Limits(memory=2e7)).fit(X).solution_.solver == "streamed"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "dense"}, r'solver must be "auto", "stored", "sparse", "streamed", got \'dense\''),
        (
            {"solver": "streamed", "keep_distances": True},
            'keep_distances=True requires the stored kernel, .*"streamed"',
        ),
        (
            {"solver": "stored", "limits": Limits(memory=1e6)},
            'solver="stored" takes about .* only 0.001 GB are allowed',
        ),
        ({"solver": "stored", "keep_distances": True, "limits": Limits(memory=1e7)}, "takes about 0.014 GB"),
        ({"solver": "sparse", "limits": Limits(memory=1e6)}, 'solver="sparse" takes about'),
        (
            {"solver": "streamed", "limits": Limits(memory=1e5)},
            r"streamed solver needs .* only 0.0001 GB are allowed; allow more with limits=Limits\(memory=\.\.\.\)",
        ),
        (
            {"solver": "streamed", "limits": Limits(max_passes=0)},
            "max_passes must be a whole number of at least 1, got 0",
        ),
    ],
)
def test_settings_that_cannot_be_kept(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        DiffusionMap(2, 40.0, **settings).fit(ROLL)


# -- how exact it is -------------------------------------------------------------------


def test_passes_that_do_not_suffice_are_warned_of():
    model = DiffusionMap(3, 3e-5, solver="streamed", limits=Limits(max_passes=1))
    with pytest.warns(ConvergenceWarning, match=r"after 1 passes .* bounded by .*; allow more passes"):
        model.fit(chain())
    assert model.solution_.n_passes == 1
    assert model.solution_.error_bound is None, "nothing can be said after so few"


def test_files_and_info_tell_how_exact_a_map_is(tmp_path):
    path = str(tmp_path / "map.ldm")
    model = DiffusionMap(2, 4.0, solver="streamed").fit(ROLL)
    model.save(path)
    again = load(path)
    assert again.solution_.n_passes == model.solution_.n_passes
    np.testing.assert_array_equal(again.solution_.error_bound, model.solution_.error_bound)
    bound = ", ".join(f"{error:.2g}" for error in model.solution_.error_bound)
    text = " ".join(as_text(path, facts_of(path)).split())
    assert (
        f"{model.solution_.n_passes} passes over all pairs; errors of the coordinates at most {bound} %"
        in text
    )
    DiffusionMap(2, 4.0).fit(ROLL).save(path)
    assert "solved      exact map (stored kernel)" in as_text(path, facts_of(path))
    settings = {"n_components": 2, "epsilon": 16.0, "n_landmarks": 60, "extension": "distilled"}
    learned = LandmarkDiffusionMap(**settings, limits=Limits(memory=3e6, max_passes=0)).fit(ROLL)
    learned.save(path)
    assert learned.solution_.error_bound.shape == (2,)
    assert "reference   map with more landmarks; errors of the coordinates at most" in as_text(
        path, facts_of(path)
    )
    settings["extension"] = "nystrom"
    assert LandmarkDiffusionMap(**settings).fit(ROLL).solution_ is None


# -- interrupted ------------------------------------------------------------------------


@pytest.fixture
def written_always(monkeypatch):
    monkeypatch.setattr(solver_state, "INTERVAL", 0.0)
    monkeypatch.setattr(solver_state, "MAX_SHARE", 1e9)


def test_interrupted_fits_go_on(tmp_path, monkeypatch, written_always):
    frames, metric = peptide()
    settings = {"metric": metric, "solver": "streamed", "n_threads": 1}
    whole = DiffusionMap(2, 3e-3, **settings).fit(frames)
    product, done = streamed_kernel.StreamedKernel.band_product, []

    def counted(self, band, vectors):
        done.append(band.start)
        if len(done) == 14:
            raise KeyboardInterrupt
        return product(self, band, vectors)

    monkeypatch.setattr(streamed_kernel.StreamedKernel, "band_product", counted)
    model = DiffusionMap(2, 3e-3, limits=Limits(resume=tmp_path / "state.npz"), **settings)
    with pytest.raises(KeyboardInterrupt):
        model.fit(frames)
    before = len(done)
    model.fit(frames)
    np.testing.assert_array_equal(model.embedding_, whole.embedding_)
    done_at_once = []
    monkeypatch.setattr(
        streamed_kernel.StreamedKernel,
        "band_product",
        lambda self, band, vectors: done_at_once.append(0) or product(self, band, vectors),
    )
    DiffusionMap(2, 3e-3, **settings).fit(frames)
    assert len(done) - before == len(done_at_once) - (before - 1), "bands that were done are done again"


def test_files_of_other_data_are_refused(tmp_path):
    path = tmp_path / "state.npz"
    DiffusionMap(2, 4.0, solver="streamed", limits=Limits(resume=path)).fit(ROLL)
    kept = path.read_bytes()
    with pytest.raises(CheckpointError, match="another eigenproblem: other points"):
        DiffusionMap(2, 4.0, solver="streamed", limits=Limits(resume=path)).fit(ROLL[::-1])
    assert path.read_bytes() == kept


# -- memory -----------------------------------------------------------------------------

LIMITED = """
import resource, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
from ldmaps import DiffusionMap, Limits
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.metrics import RMSD

solver, kind, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
if kind == "frames":
    data = alanine_dipeptide()
    X, metric, epsilon = data.frames[:12_000], RMSD(weights=data.masses), 3e-3
else:
    X, metric, epsilon = swiss_roll(12_000).points.astype(np.float32), "euclidean", float(kind)
settings = {"metric": metric, "solver": solver, "n_threads": 2}
for other in ("stored", "sparse", "streamed"):  # compiles, and starts the threads
    DiffusionMap(2, 4 * epsilon, metric=metric, solver=other, n_threads=2).fit(X[:1500])
with ThreadPoolExecutor(2) as pool:  # OpenBLAS takes a buffer for each thread that is in it at the same time
    list(pool.map(lambda _: np.ones((1000, 1000)) @ np.ones((1000, 1000)), range(8)))
pages = int(open("/proc/self/statm").read().split()[0])
prepared = 3 * X.nbytes
resource.setrlimit(resource.RLIMIT_AS, (int(pages * resource.getpagesize() + prepared + limit),) * 2)
keeps = 1e12 if sys.argv[4] == "unlimited" else limit
model = DiffusionMap(2, epsilon, limits=Limits(memory=keeps), **settings).fit(X)
print(model.solution_.solver)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits a process as Linux does")
@pytest.mark.parametrize(
    ("solver", "kind", "limit", "outcome"),
    [
        # no pair of frames is negligible
        pytest.param("auto", "frames", 100e6, "streamed", marks=pytest.mark.slow),
        pytest.param("auto", "10.0", 100e6, "streamed", marks=pytest.mark.slow),
        pytest.param("auto", "0.2", 100e6, "sparse", marks=pytest.mark.slow),
        pytest.param("auto", "10.0", 700e6, "stored", marks=pytest.mark.slow),
        ("streamed", "10.0", 30e6, "streamed"),  # blocks as narrow as there is room for
        pytest.param("stored", "frames", 100e6, "MemoryError", marks=pytest.mark.slow),  # the limit is real
    ],
)
def test_memory_limit_is_kept(solver, kind, limit, outcome):
    """12,000 points, whose kernel takes 576 MB, in a process that is given no more than the limit."""
    kept = "unlimited" if outcome == "MemoryError" else "kept"
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), solver, kind, str(limit), kept],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if outcome == "MemoryError":
        assert "MemoryError" in run.stderr
    else:
        assert run.stdout.strip() == outcome, run.stderr


def test_bases_are_as_large_as_memory_allows(monkeypatch):
    """A slow spectrum fills whatever room there is."""
    given = {}
    solve = reference.solve_streamed
    monkeypatch.setattr(
        reference,
        "solve_streamed",
        lambda *args, **settings: given.update(settings) or solve(*args, **settings),
    )
    DiffusionMap(2, 3e-5, solver="streamed", limits=Limits(memory=4e6), n_threads=1).fit(chain())
    assert (given["max_vectors"], given["n_threads"]) == streamed_room(800, 3, 32, 16, 4e6, 1)
    assert given["max_vectors"] < 150
