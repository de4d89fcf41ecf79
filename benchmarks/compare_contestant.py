"""One package, one data set, one process: its eigenvalues, coordinates, time and memory.

    python benchmarks/compare_contestant.py NAME DATA.npz OUT.npz

``compare.py`` starts it, with the interpreter of the environment that holds the package, so nothing but the standard
library and numpy may be imported before the package itself.
"""

from __future__ import annotations

import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

warnings.simplefilter("ignore")

#: Coordinates that are compared, and landmarks where a package has any.
N_COORDINATES, N_LANDMARKS = 3, 400


class Contestant:
    """A package under one interface; ε is ours, exp(−d²/2ε), and every subclass converts it."""

    package = ""

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def fit(self, points: np.ndarray) -> None:
        raise NotImplementedError

    def eigenvalues(self) -> np.ndarray:
        """Return λ of the walk, without the trivial 1; empty where the package does not tell."""
        return np.empty(0)

    def coordinates(self) -> np.ndarray:
        raise NotImplementedError

    def transform(self, points: np.ndarray) -> np.ndarray | None:
        """Embed new points; None where the package cannot."""
        return None


class Ldmaps(Contestant):
    package = "ldmaps"

    def model(self):
        from ldmaps import DiffusionMap

        return DiffusionMap(N_COORDINATES, self.epsilon, metric=self.metric())

    def metric(self):
        return "euclidean"

    def fit(self, points):
        self.fitted = self.model().fit(points)

    def eigenvalues(self):
        return self.fitted.eigenvalues_

    def coordinates(self):
        return self.fitted.embedding_

    def transform(self, points):
        return self.fitted.transform(points)


class LdmapsLandmarks(Ldmaps):
    extension = "nystrom"

    def model(self):
        from ldmaps import LandmarkDiffusionMap

        return LandmarkDiffusionMap(
            N_COORDINATES, self.epsilon, n_landmarks=N_LANDMARKS, extension=self.extension
        )


class LdmapsDistilled(LdmapsLandmarks):
    extension = "distilled"


class LdmapsFrames(Ldmaps):
    def metric(self):
        return "rmsd"


class PyDiffMap(Contestant):
    """Kernel exp(−d²/4ε'); eigenvalues are those of the generator, (λ − 1)/ε'; coordinates ψ/√(−μ)."""

    package = "pydiffmap"
    n_neighbours: int | None = 64

    def fit(self, points):
        from pydiffmap.diffusion_map import DiffusionMap

        self.fitted = DiffusionMap.from_sklearn(
            n_evecs=N_COORDINATES,
            epsilon=self.epsilon / 2,
            alpha=0.0,
            k=self.n_neighbours or len(points),
        )
        self.fitted.fit(points)

    def eigenvalues(self):
        return 1 + self.epsilon / 2 * self.fitted.evals

    def coordinates(self):
        return self.fitted.dmap

    def transform(self, points):
        return np.asarray(self.fitted.transform(points))


class PyDiffMapWhole(PyDiffMap):
    n_neighbours = None


class Datafold(Contestant):
    """Kernel exp(−d²/2ε), as ours; the trivial pair is counted."""

    package = "datafold"

    def fit(self, points):
        from datafold.dynfold import DiffusionMaps
        from datafold.pcfold import GaussianKernel

        kernel = GaussianKernel(epsilon=self.epsilon)
        self.fitted = DiffusionMaps(kernel, n_eigenpairs=N_COORDINATES + 1, alpha=0)
        self.own = np.asarray(self.fitted.fit_transform(points))

    def eigenvalues(self):
        return np.real(self.fitted.eigenvalues_)[1:]

    def coordinates(self):
        return self.own[:, 1:]

    def transform(self, points):
        return np.asarray(self.fitted.transform(points))[:, 1:]


class Roseland(Datafold):
    """Landmarks drawn at random; two hops, so its singular values squared stand beside λ of another walk."""

    def fit(self, points):
        from datafold.dynfold import Roseland
        from datafold.pcfold import GaussianKernel

        chosen = np.random.default_rng(0).choice(len(points), N_LANDMARKS, replace=False)
        kernel = GaussianKernel(epsilon=self.epsilon)
        self.fitted = Roseland(kernel, n_svdtriplet=N_COORDINATES + 1, landmarks=points[chosen], alpha=0)
        self.own = np.asarray(self.fitted.fit_transform(points))

    def eigenvalues(self):
        return np.empty(0)


class SpectralEmbedding(Contestant):
    """Kernel exp(−γd²) without its diagonal; no eigenvalues, no new points."""

    package = "scikit-learn"

    def fit(self, points):
        from sklearn.manifold import SpectralEmbedding

        model = SpectralEmbedding(
            N_COORDINATES, affinity="rbf", gamma=1 / (2 * self.epsilon), random_state=0, eigen_solver="arpack"
        )
        self.own = model.fit_transform(points)

    def coordinates(self):
        return self.own


class MDAnalysisMap(Contestant):
    """Kernel exp(−d²/ε'), frames in Å; no superposition unless its metric is replaced, as here."""

    package = "MDAnalysis"

    def fit(self, points):
        import MDAnalysis
        from MDAnalysis.analysis.diffusionmap import DiffusionMap
        from MDAnalysis.analysis.rms import rmsd

        universe = MDAnalysis.Universe.empty(points.shape[1], trajectory=True)
        universe.load_new(10 * points, order="fac")

        def superposed(a, b, weights=None):
            return rmsd(a, b, weights=weights, superposition=True)

        self.fitted = DiffusionMap(universe, epsilon=200 * self.epsilon, metric=superposed).run()

    def eigenvalues(self):
        return np.real(self.fitted.eigenvalues)[1 : N_COORDINATES + 1]

    def coordinates(self):
        return np.real(self.fitted.transform(N_COORDINATES, 0))


class MDAnalysisColumns(MDAnalysisMap):
    """Eigenvectors sorted by column, as numpy returns them."""

    def coordinates(self):
        order = np.argsort(np.real(self.fitted._eigenvals))[::-1]
        vectors = np.linalg.eig(self.fitted._diff)[1]
        return np.real(vectors[:, order[1 : N_COORDINATES + 1]])


CONTESTANTS: dict[str, type[Contestant]] = {
    kind.__name__: kind
    for kind in (
        Ldmaps,
        LdmapsLandmarks,
        LdmapsDistilled,
        LdmapsFrames,
        PyDiffMap,
        PyDiffMapWhole,
        Datafold,
        Roseland,
        SpectralEmbedding,
        MDAnalysisMap,
        MDAnalysisColumns,
    )
}


def resident(field: str) -> int:
    """Return VmRSS (now) or VmHWM (highest so far) of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def main(name: str, data: str, out: str) -> None:
    arrays = np.load(data)
    points, new, epsilon = arrays["points"], arrays["new"], float(arrays["epsilon"])
    warm_up = CONTESTANTS[name](4 * epsilon)  # imports and compiles; half of the points need a wider kernel
    warm_up.fit(points[::2])
    warm_up.transform(new[:10])
    del warm_up
    contestant = CONTESTANTS[name](epsilon)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the highest begins again here
    start = time.process_time()
    contestant.fit(points)
    results = {
        "fit_seconds": time.process_time() - start,
        "memory": max(0, resident("VmHWM") - before),
        "eigenvalues": contestant.eigenvalues(),
        "coordinates": contestant.coordinates(),
        "version": version(contestant.package),
    }
    embedded = contestant.transform(new)
    if embedded is not None:
        seconds = []
        for _ in range(5):
            start = time.process_time()
            contestant.transform(new)
            seconds.append(time.process_time() - start)
        results |= {
            "new": embedded,
            "new_seconds": min(seconds) / len(new),
            # All but one: pyDiffMap recognises the very array it was fitted on and returns what it kept.
            "again": contestant.transform(points[:-1]),
        }
    np.savez(out, **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
