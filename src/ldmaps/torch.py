"""A map as a module of torch: coordinates that networks take in, losses differentiate and ``torch.export`` writes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from ldmaps.array_step import ArrayStep
from ldmaps.files import written_whole

__all__ = ["LandmarkMap", "export_program"]


class LandmarkMap(torch.nn.Module):
    """The online step of a fitted map: ``module(X)`` is what ``model.transform(X)`` gives, with torch's gradients.

    Its numbers are buffers, in float64 at first: they follow ``to(device)``, ``float()`` and ``state_dict()``, and no
    optimiser changes them. ``X`` has the precision and device of the module.

    Parameters
    ----------
    model : LandmarkDiffusionMap or DiffusionMap
        A fitted map by RMSD, Features, Euclidean, StandardizedEuclidean or Periodic.

    Examples
    --------
    >>> import torch
    >>> from ldmaps import LandmarkDiffusionMap
    >>> from ldmaps.datasets import swiss_roll
    >>> from ldmaps.torch import LandmarkMap
    >>> roll = swiss_roll(500, random_state=0).points
    >>> module = LandmarkMap(LandmarkDiffusionMap(2, 9.0, n_landmarks=40).fit(roll))
    >>> x = torch.tensor(roll[:5], requires_grad=True)
    >>> module(x).sum().backward()
    >>> x.grad.shape
    torch.Size([5, 3])
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        step = ArrayStep.of(model)
        self.distance = step.distance
        self.point_shape = (
            (int(model.n_features_in_) // 3, 3)
            if model.metric_.takes_frames
            else (int(model.n_features_in_),)
        )
        self._names = tuple(step.constants)
        for name, constant in step.constants.items():
            self.register_buffer(name, torch.as_tensor(constant.copy()))

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the coordinates, (n, k), of points ``X``, (n, features), or (n, atoms, 3) for frames."""
        coordinates: torch.Tensor = ArrayStep(
            self.distance, {name: getattr(self, name) for name in self._names}
        )(X)
        return coordinates


def export_program(model: Any, path: str | os.PathLike[str], *, dtype: torch.dtype = torch.float64) -> Path:
    """Write a map as a program that ``torch.export.load`` reads without ldmaps; return its path.

    Parameters
    ----------
    model : LandmarkDiffusionMap or DiffusionMap
        A fitted map, as for :class:`LandmarkMap`.
    path : path-like
        Where to write, by custom with the suffix ``.pt2``; a file of that name is replaced.
    dtype : torch.dtype
        Precision of its input, numbers and output.
    """
    module = LandmarkMap(model).to(dtype)
    # Two points: torch takes a batch of one for a constant.
    example = torch.zeros((2, *module.point_shape), dtype=dtype)
    points = torch.export.Dim("n_points", min=1)
    program = torch.export.export(module, (example,), dynamic_shapes={"X": {0: points}})
    with written_whole(path) as stream:
        torch.export.save(program, stream)
    return Path(path)
