"""What is damaged: a map and sound files of every kind that a run leaves."""

from __future__ import annotations

import warnings
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from fuzz_damage import Random

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.archive import read_archive
from ldmaps.metrics import RMSD, EarthMover, Features, Periodic, StandardizedEuclidean
from ldmaps.streaming import OutputFile, StreamEmbedder
from ldmaps.streaming.checkpoint import Checkpoint
from ldmaps.streaming.reservoir import OutsideFile

__all__ = ["World"]


class World:
    """Sound files of every kind to damage, and a page to talk to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        angle = rng.uniform(0, 3, 200)
        self.points = np.column_stack([np.cos(angle), np.sin(angle), 0.05 * rng.normal(size=200)])
        self.model = LandmarkDiffusionMap(2, "connected", n_landmarks=25).fit(self.points)
        self.model_file = folder / "map.ldm"
        self.model.save(self.model_file)
        self.header, self.arrays = read_archive(self.model_file)
        self.input = folder / "input.csv"
        np.savetxt(self.input, self.points, delimiter=",")
        self.outside_file = folder / "outside.npz"
        reservoir = OutsideFile(self.outside_file, self.model, capacity=20)
        reservoir.offer(self.points[:30] + np.array([0.0, 0.0, 0.4]))
        reservoir.count([0, 1, 1, 3])
        reservoir.flush()
        reservoir.close()
        self.checkpoint = self._checkpoint()
        self.kinds = self._kinds()
        self._page: Any = None
        self._trajectory: Any = None

    def _kinds(self) -> list[tuple[Any, Any, Any, str]]:
        """Metric, points, precision and extension of the maps whose files are forged: all there are."""
        rng = np.random.default_rng(2)
        histograms = rng.random((60, 5)) + 0.1
        frames = rng.normal(size=(60, 6, 3))
        apart = np.linalg.norm(self.points[:60, None] - self.points[None, :60], axis=2)
        transport = EarthMover(ground_distance=np.abs(np.subtract.outer(range(5), range(5))))
        transport.pairwise(histograms[:2])  # its package takes long to load
        metrics: list[tuple[Any, Any]] = [
            ("euclidean", self.points),
            ("euclidean", rng.normal(size=(60, 40))),
            (Periodic(2 * np.pi), 2 * self.points),
            (Periodic([6.0, 7.0, 8.0]), 2 * self.points),
            ("hamming", rng.integers(0, 2, (60, 8)).astype(float)),
            ("earth_mover", histograms),
            (EarthMover(positions=[0.0, 1.0, 3.0, 4.0, 9.0]), histograms),
            (transport, histograms[:20]),
            (RMSD(weights=[1.0, 2.0, 3.0, 1.0, 0.0, 1.0]), frames),
            (RMSD(superpose_on=[0, 1, 2]), frames),
            ("precomputed", apart),
            (StandardizedEuclidean("standard"), self.points * [1.0, 100.0, 1e-3]),
            (StandardizedEuclidean([1.0, np.inf, 2.0]), self.points),
            (Features(6, dihedrals=[[0, 1, 2, 3], [1, 2, 3, 4]], distances=[[0, 5]]), frames),
            (Features(6, angles=[[0, 1, 2]], contacts=[[0, 5], [1, 4]]), frames),
        ]
        return [
            (*pair, dtype, extension)
            for pair in metrics
            for dtype in (np.float64, np.float32)
            for extension in ("nystrom", "distilled", "exact")
        ]

    def any_model(self, rng: Random) -> tuple[Path, Any]:
        """Return the file of a map of some kind, fitted when it is first drawn, and points that it takes."""
        number = int(rng.integers(len(self.kinds)))
        metric, points, dtype, extension = self.kinds[number]
        path, given = self.folder / f"kind{number}.ldm", np.asarray(points, dtype=dtype)
        if not path.exists():
            model: Any = DiffusionMap(2, "connected", metric, alpha=0.5)
            if extension != "exact":
                model = LandmarkDiffusionMap(2, "connected", metric, n_landmarks=12, extension=extension)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(given).save(path)
        return path, given

    def _checkpoint(self) -> dict[str, Any]:
        """Return what a checkpoint holds in the middle of a stream with every kind of durable sink."""
        self.stream(self.folder, max_records=100)
        with Checkpoint(self.folder / "c") as checkpoint:
            content = checkpoint.read()
        assert content is not None
        self.output = (self.folder / "psi.csv").read_bytes()
        return content

    def stream(self, folder: Path, **settings: Any) -> None:
        """Run a stream in a folder, or go on with one."""
        engine = StreamEmbedder(self.model, max_batch=20, n_threads=1)
        sinks = [OutputFile(folder / "psi.csv"), OutsideFile(folder / "o.npz", self.model, overwrite=True)]
        engine.run(self.input, sinks, checkpoint=folder / "c", checkpoint_every=0.0, **settings)

    @property
    def trajectory(self) -> Any:
        """Frames with the names of their atoms; they are in frames.xtc from the first use on."""
        if self._trajectory is None:
            import mdtraj

            from ldmaps.datasets import alanine_dipeptide

            molecule = alanine_dipeptide(stride=1000)
            topology = mdtraj.Topology()
            residue = topology.add_residue("ALA", topology.add_chain())
            for name in molecule.atom_names:
                topology.add_atom(name, mdtraj.element.carbon, residue)
            self._trajectory = mdtraj.Trajectory(molecule.frames, topology)
            self._trajectory.save_xtc(str(self.folder / "frames.xtc"))
        return self._trajectory

    @property
    def page(self) -> Any:
        """A live page, served from its first use on."""
        if self._page is None:
            from ldmaps.analysis import LivePage

            self._page = LivePage(self.model)
            self._page.__enter__()
        return self._page

    @cached_property
    def trajectories(self) -> dict[str, bytes]:
        """Trajectories of twelve atoms, by the endings of their names, and the topology as "pdb"."""
        import mdtraj

        topology = mdtraj.Topology()
        residue = topology.add_residue("ARG", topology.add_chain())
        for _ in range(12):
            topology.add_atom("Ar", mdtraj.element.argon, residue)
        xyz = np.random.default_rng(1).normal(size=(20, 12, 3)).astype(np.float32)
        for ending in ("xtc", "trr", "dcd"):
            mdtraj.Trajectory(xyz, topology).save(str(self.folder / f"run.{ending}"))
        mdtraj.Trajectory(xyz[:1], topology).save(str(self.folder / "run.pdb"))
        return {one: (self.folder / f"run.{one}").read_bytes() for one in ("xtc", "trr", "dcd", "pdb")}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._page is not None:
            self._page.__exit__(None, None, None)
