"""The method on real data: exact and landmark maps of alanine dipeptide, side by side.

25,001 frames ──► 80 % ──► ε ──► exact map over all N                      (the truth)
│       └──► landmark maps: PST, k-medoids, distilled  (what one would use)
└ 20 % held out ──► streamed into every map ──► table on stdout, figure
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldmaps.datasets import alanine_dipeptide
from ldmaps.datasets.molecules import MolecularFrames
from ldmaps.errors import InvalidInputError, ToleranceError
from ldmaps.extension.embedder import Embedder
from ldmaps.fit.certify import Certificate
from ldmaps.maps.diffusion_map import DiffusionMap
from ldmaps.maps.landmark_diffusion_map import LandmarkDiffusionMap
from ldmaps.metrics import RMSD
from ldmaps.validation.fidelity import column_matching, nrmse, point_errors

#: Coordinates kept, as in the paper, and eigenvalues shown.
N_COMPONENTS = 2
N_EIGENVALUES = 6
TRAINING_SHARE = 0.8
N_MEDOIDS = 400
#: Z in percent that the distilled map keeps on unseen frames.
TOLERANCE = 1.0


@dataclass(frozen=True)
class Mapped:
    """One map, its coordinates in order and signs of the exact map, and how it did; Z and ζ are in percent."""

    name: str
    n_landmarks: int
    multiplicities: NDArray[np.float64]
    spectrum: NDArray[np.float64]
    landmarks: NDArray[Any]
    training: NDArray[Any]
    held_out: NDArray[Any]
    fit_seconds: float
    frames_per_second: float
    z_training: float
    z_held_out: float
    zeta_held_out: NDArray[np.float64]


@dataclass(frozen=True)
class Demonstration:
    """Everything that the table and the figure show; ``distilled`` is None where frames are too few to certify it."""

    molecule: MolecularFrames
    training: NDArray[np.intp]
    held_out: NDArray[np.intp]
    epsilon: float
    exact: Mapped
    landmark_maps: tuple[Mapped, ...]
    distilled: Mapped | None
    certificate: Certificate | None

    @property
    def approximations(self) -> tuple[Mapped, ...]:
        """All maps except the exact one."""
        return self.landmark_maps if self.distilled is None else (*self.landmark_maps, self.distilled)


# -- the run -------------------------------------------------------------------


def run(*, stride: int = 1, seed: int = 0, n_medoids: int = N_MEDOIDS) -> Demonstration:
    """Fit all maps on a random 80 % of every ``stride``-th frame and stream the rest into them."""
    molecule = alanine_dipeptide(stride=stride)
    order = np.random.default_rng(seed).permutation(len(molecule))
    n_training = int(TRAINING_SHARE * len(molecule))
    # In time order, as a simulation would deliver them.
    training, held_out = np.sort(order[:n_training]), np.sort(order[n_training:])
    old, new = molecule.frames[training], molecule.frames[held_out]
    metric = RMSD(weights=molecule.masses)

    with _stage(f"exact map: {n_training:,} × {n_training:,} distances and eigenvectors") as clock:
        # One eigenvalue more than coordinates is always solved for.
        full = DiffusionMap(N_EIGENVALUES - 1, metric=metric).fit(old)
    # More eigenvalues are shown than coordinates used; the full Nyström is timed with the latter alone.
    full_embedder = replace(full.embedder_, coefficients=full.embedder_.coefficients[:N_COMPONENTS].copy())
    with _stage(f"full Nyström: {len(new):,} held-out frames against all {n_training:,}"):
        coordinates, rate = _in_batch(full_embedder, new, repeats=2)
    first = np.arange(N_COMPONENTS), np.ones(N_COMPONENTS, dtype=np.int8)
    exact = _mapped("exact", full, clock[0], rate, coordinates, first, None)

    settings: dict[str, Any] = {"metric": metric, "random_state": seed}
    medoids = {"landmarks": "kmedoids", "n_landmarks": min(n_medoids, n_training // 2)}
    kinds: dict[str, dict[str, Any]] = {"PST": {"landmarks": "pst"}, "k-medoids": medoids}
    models = {name: LandmarkDiffusionMap(N_COMPONENTS, **kind, **settings) for name, kind in kinds.items()}
    maps = tuple(_judge(name, model, old, new, exact) for name, model in models.items())
    with_tolerance = LandmarkDiffusionMap(N_COMPONENTS, tolerance=TOLERANCE, **settings)
    try:
        distilled = _judge("distilled", with_tolerance, old, new, exact)
        certificate = with_tolerance.certificate_
    except (ToleranceError, InvalidInputError) as error:
        # With --stride there may be too few frames to hold any out for a certificate.
        _say(f"    no distilled map: {error}")
        distilled, certificate = None, None
    return Demonstration(molecule, training, held_out, full.epsilon_, exact, maps, distilled, certificate)


def _judge(
    name: str, model: LandmarkDiffusionMap, old: NDArray[Any], new: NDArray[Any], exact: Mapped
) -> Mapped:
    with _stage(f"landmark map, {name}: choose landmarks, solve, embed the training frames") as clock:
        model.fit(old)
    with _stage(f"landmark map, {name}: stream {len(new):,} held-out frames"):
        batch, rate = _in_batch(model.embedder_, new, repeats=5)
        stream = np.stack([model.embedder_.embed_one(frame) for frame in new])
    if not np.allclose(stream, batch, rtol=1e-3, atol=1e-3 * float(np.ptp(batch))):
        raise RuntimeError(
            "frames embedded one by one differ from the same frames in a batch; please report this"
        )
    # The training frames decide order and signs; the held-out ones are compared as they are.
    return _mapped(
        name, model, clock[0], rate, stream, column_matching(exact.training, model.embedding_), exact
    )


def _mapped(
    name: str,
    model: Any,
    seconds: float,
    rate: float,
    held_out: Any,
    alike: tuple[Any, Any],
    exact: Mapped | None,
) -> Mapped:
    places, signs = alike
    training, held_out = model.embedding_[:, places] * signs, held_out[:, places] * signs
    z_training = z_held_out = 0.0
    errors = np.zeros(len(held_out))
    if exact is not None:
        z_training = nrmse(exact.training, training, matched=True)
        z_held_out = nrmse(exact.held_out, held_out, matched=True)
        errors = point_errors(exact.held_out, held_out, matched=True)
    return Mapped(
        name=name,
        n_landmarks=model.embedder_.n_landmarks,
        multiplicities=model.multiplicities_,
        spectrum=model.spectrum_[:N_EIGENVALUES],
        landmarks=model.landmark_embedding_[:, places] * signs,
        training=training,
        held_out=held_out,
        fit_seconds=seconds,
        frames_per_second=rate,
        z_training=z_training,
        z_held_out=z_held_out,
        zeta_held_out=errors,
    )


def _in_batch(embedder: Embedder, frames: NDArray[Any], repeats: int) -> tuple[NDArray[Any], float]:
    """Embed all frames at once; return the coordinates and the best rate of a few runs."""
    best = math.inf
    for _ in range(repeats):
        start = time.perf_counter()
        coordinates = embedder.project(frames).coordinates
        best = min(best, time.perf_counter() - start)
    return coordinates, len(frames) / best


@contextmanager
def _stage(text: str) -> Iterator[list[float]]:
    """Say what begins and the time it took, which is also the yielded list's only entry afterwards."""
    _say(f"{text} ...")
    seconds: list[float] = []
    start = time.perf_counter()
    yield seconds
    seconds.append(time.perf_counter() - start)
    _say(f"    {seconds[0]:.1f} s")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- the table -----------------------------------------------------------------


def table(demonstration: Demonstration) -> str:
    """Return the report that the demo prints."""
    n, exact = len(demonstration.training), demonstration.exact
    lines = [
        f"{demonstration.molecule.name}, {demonstration.molecule.n_atoms} atoms, mass-weighted RMSD",
        f"frames   N = {n:,} to learn from, {len(demonstration.held_out):,} held out and streamed",
        f"ε        {demonstration.epsilon:.3e} nm², reaches 0.5 % of the frames from a typical one "
        f"(√ε = {math.sqrt(demonstration.epsilon):.4f} nm)",
        "",
    ]
    header = (
        f"{'map':<11}{'M':>7}{'λ2':>8}{'λ3':>7}{'λ4':>7}{'Z train':>10}{'Z test':>9}"
        f"{'fit':>9}{'frames/s':>11}{'speed-up':>10}"
    )
    lines += [header, "─" * len(header)]
    for entry in (exact, *demonstration.approximations):
        is_exact = entry is exact
        lines.append(
            f"{entry.name:<11}{entry.n_landmarks:>7,}"
            f"{entry.spectrum[0]:>8.4f}{entry.spectrum[1]:>7.3f}{entry.spectrum[2]:>7.3f}"
            + (f"{'–':>10}{'–':>9}" if is_exact else f"{entry.z_training:>8.2f} %{entry.z_held_out:>7.2f} %")
            + f"{entry.fit_seconds:>7.1f} s{entry.frames_per_second:>11,.0f}"
            + f"{entry.frames_per_second / exact.frames_per_second:>9.1f}×"
        )
    lines.append("")
    certificate = demonstration.certificate
    if certificate is not None:
        lines.append(
            f"distilled  tolerance={certificate.tolerance:g}: the fewest landmarks that keep Z of "
            f"{100 * certificate.share:.4g} % of new points below {certificate.tolerance:g} %,\n           certified "
            f"with {100 * certificate.confidence:.0f} % confidence on {certificate.n_held_out:,} of the N"
        )
    lines += [
        "Z          deviation from the exact map, root mean square, in percent of its range",
        "frames/s   held-out frames embedded in one batch; speed-up over the exact map",
    ]
    return "\n".join(lines)
