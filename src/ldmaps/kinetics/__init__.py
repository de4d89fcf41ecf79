"""Functions on a map that are maps themselves: slow modes, committors, passage times, observables."""

from __future__ import annotations

from ldmaps.kinetics.committor import committor
from ldmaps.kinetics.distillation import distil
from ldmaps.kinetics.observable import function
from ldmaps.kinetics.passage_time import passage_time
from ldmaps.kinetics.slow_modes import slow_modes
from ldmaps.maps.function_map import FunctionMap

__all__ = ["FunctionMap", "committor", "distil", "function", "passage_time", "slow_modes"]
