"""What a step of a fit takes, in units that do not depend on the machine.

    memory  = the highest of the steps, each with what is held meanwhile
    seconds = Σ over kinds of work (how often it is done) × (what it takes on this machine)

The cost of a step stands in the step's own file and is computed from the same sizes, so
that no other module has to know how the step works. :mod:`ldmaps.maps.planning` adds costs up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

__all__ = ["Cost", "DataSize"]


@dataclass(frozen=True)
class DataSize:
    """How much there is to work on.

    Attributes
    ----------
    n_points : int
    n_features : int
        Features of each point; the coordinates of all atoms for frames.
    point_bytes : float
        Memory of one prepared point.
    block_bytes : float
        What is added to it when others are compared with it in blocks.
    itemsize : int
        Bytes of a distance.
    """

    n_points: int
    n_features: int
    point_bytes: float
    block_bytes: float
    itemsize: int

    def of(self, n_points: int) -> DataSize:
        """Return the size of some of the points."""
        return replace(self, n_points=n_points)

    @property
    def points_bytes(self) -> float:
        """Memory of all prepared points."""
        return self.n_points * self.point_bytes

    @property
    def compared_bytes(self) -> float:
        """Memory of all prepared points once they are compared in blocks."""
        return self.n_points * (self.point_bytes + self.block_bytes)

    @property
    def matrix_bytes(self) -> float:
        """Memory of the distances between all of them."""
        return float(self.n_points) ** 2 * self.itemsize


@dataclass(frozen=True)
class Cost:
    """Work and memory of a step; the sum of two is one after the other.

    Attributes
    ----------
    distances : float
        Measured in blocks, on all threads.
    row_distances, rows : float
        Measured row after row on one thread, and in how many rows.
    tree_points : float
        Points joined by a spatial tree.
    landmark_shares : float
        Points embedded, times the landmarks.
    exponentials : float
        Entries of a kernel.
    weights : float
        Normalised weights w_j(x), kept.
    kernel_bytes : float
        Bytes of a stored kernel, for each product with a vector.
    multiplications : float
        In products of matrices.
    new_bytes : float
        Bytes that are written for the first time, which the system hands out page by page.
    overhead : float
        Seconds that do not depend on the machine's arithmetic.
    memory : float
        Bytes held while the step runs, at their highest.
    """

    distances: float = 0.0
    row_distances: float = 0.0
    rows: float = 0.0
    tree_points: float = 0.0
    landmark_shares: float = 0.0
    exponentials: float = 0.0
    weights: float = 0.0
    kernel_bytes: float = 0.0
    multiplications: float = 0.0
    new_bytes: float = 0.0
    overhead: float = 0.0
    memory: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        work = {name: getattr(self, name) + getattr(other, name) for name in KINDS_OF_WORK}
        return Cost(**work, memory=max(self.memory, other.memory))

    def times(self, count: float) -> Cost:
        """Return the cost of doing this ``count`` times, one after the other."""
        return Cost(**{name: count * getattr(self, name) for name in KINDS_OF_WORK}, memory=self.memory)

    def holding(self, n_bytes: float) -> Cost:
        """Return the cost while ``n_bytes`` more are held."""
        return replace(self, memory=self.memory + n_bytes)

    def seconds(self, speeds: Mapping[str, float]) -> float:
        """Return the time on a machine on which one of each kind of work takes ``speeds[kind]`` seconds."""
        return float(sum(getattr(self, kind) * speeds[kind] for kind in KINDS_OF_WORK))


#: All but the memory.
KINDS_OF_WORK = tuple(field.name for field in fields(Cost) if field.name != "memory")
