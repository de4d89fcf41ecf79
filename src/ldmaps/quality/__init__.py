"""How good a map is: fidelity to another map, perturbation theory, error estimates, and what it does not cover."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.quality.error_estimate import ErrorEstimate as ErrorEstimate
    from ldmaps.quality.fidelity import align as align
    from ldmaps.quality.fidelity import alignment as alignment
    from ldmaps.quality.fidelity import rms_error as rms_error
    from ldmaps.quality.fidelity import zeta as zeta
    from ldmaps.quality.perturbation import Perturbation as Perturbation
    from ldmaps.quality.perturbation import predict_errors as predict_errors
    from ldmaps.quality.sampling import Sampling as Sampling

load_on_first_use(
    __name__,
    {
        "error_estimate": "ErrorEstimate",
        "fidelity": "align alignment rms_error zeta",
        "perturbation": "Perturbation predict_errors",
        "sampling": "Sampling",
    },
)
