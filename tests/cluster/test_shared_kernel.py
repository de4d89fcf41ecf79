"""The exact solver's passes on worker processes."""

from __future__ import annotations

import os
import signal

import dask.array as da
import numpy as np
import pytest

from ldmaps import DiffusionMap
from ldmaps.cluster.shared_kernel import SharedKernel, add_bands, kernel_of
from ldmaps.datasets import alanine_dipeptide, swiss_roll
from ldmaps.diffusion.streamed_kernel import PartialProduct, StreamedKernel
from ldmaps.diffusion.walk import Walk
from ldmaps.metrics import RMSD, Euclidean
from ldmaps.validation import match_columns

POINTS = swiss_roll(3000).points
VECTORS = np.random.default_rng(0).normal(size=(3000, 4))


def kernels(points=POINTS, metric=None):
    metric = metric or Euclidean()
    settings = metric, metric.prepare(points), 4.0
    return StreamedKernel(*settings), SharedKernel(*settings)


@pytest.mark.parametrize("workers", [1, 2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_pass_is_the_same_on_processes(with_workers, workers):
    with_workers(workers)
    plain, shared = kernels()
    expected = plain.product(VECTORS, 1)
    scale = np.abs(expected).max()
    for _ in range(2):
        np.testing.assert_allclose(shared.product(VECTORS), expected, atol=1e-12 * scale)


def test_a_pass_goes_on_from_where_it_was(with_workers):
    with_workers(2)
    plain, shared = kernels()
    seen = []
    expected = plain.product(VECTORS, 1)
    partial = PartialProduct(np.zeros(VECTORS.shape))
    bands = shared.bands()
    partial.sums[bands[0].start :] += plain.band_product(bands[0], VECTORS)
    partial.n_bands = 1
    found = shared.product(VECTORS, partial=partial, on_band=lambda so_far: seen.append(so_far.n_bands))
    assert seen[-1] == len(bands)
    assert seen == sorted(set(seen))
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())


def test_an_exact_map_of_frames_is_the_same(with_workers):
    frames = alanine_dipeptide().frames[:1500]
    settings = {"n_components": 2, "metric": "rmsd", "epsilon": 0.003, "solver": "streamed"}
    plain = DiffusionMap(**settings).fit(frames)
    with_workers(2)
    found = DiffusionMap(**settings).fit(da.from_array(frames, chunks=(400, 22, 3)))
    np.testing.assert_allclose(found.eigenvalues_, plain.eigenvalues_, rtol=1e-5)
    aligned = match_columns(plain.embedding_, found.embedding_)
    np.testing.assert_allclose(aligned, plain.embedding_, atol=1e-3 * np.ptp(plain.embedding_, axis=0).max())


def test_without_a_client_the_kernel_is_the_plain_one():
    metric = Euclidean()
    walk = Walk(metric, metric.prepare(POINTS), np.ones(len(POINTS)), 4.0)
    assert type(kernel_of(walk)) is StreamedKernel


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_worker_killed_in_a_pass_changes_nothing(with_workers, workers):
    client = with_workers(workers)
    frames = np.concatenate([alanine_dipeptide().frames[:2000]] * 2)
    plain, shared = kernels(frames, RMSD())
    vectors = np.random.default_rng(0).normal(size=(len(frames), 2))
    expected = plain.product(vectors, 2)
    # Asked before the pass: in it a worker may be too busy to answer.
    process = next(iter(client.run(os.getpid).values()))
    killed = []

    def kill(so_far):
        if not killed:
            killed.append(process)
            os.kill(process, signal.SIGKILL)

    found = shared.product(vectors, on_band=kill)
    assert killed
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())
    client.wait_for_workers(workers, timeout=180)


def test_groups_of_bands_add_up_to_the_product():
    plain, _ = kernels()
    bands = plain.bands()
    total = np.zeros(VECTORS.shape)
    for group in (bands[:2], bands[2:]):
        total[group[0].start :] += add_bands(plain, group, VECTORS)
    expected = plain.product(VECTORS, 1)
    np.testing.assert_allclose(total, expected, atol=1e-12 * np.abs(expected).max())
