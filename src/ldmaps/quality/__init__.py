"""How good a map is: fidelity to another map, perturbation theory, error estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.quality.error_estimate import ErrorEstimate
    from ldmaps.quality.fidelity import align, alignment, rms_error, zeta
    from ldmaps.quality.perturbation import Perturbation, predict_errors
    from ldmaps.quality.sampling import Sampling

__all__ = [
    "ErrorEstimate",
    "Perturbation",
    "Sampling",
    "align",
    "alignment",
    "predict_errors",
    "rms_error",
    "zeta",
]

__getattr__, __dir__ = load_on_first_use(
    __name__,
    {
        "ErrorEstimate": "error_estimate",
        "Perturbation": "perturbation",
        "Sampling": "sampling",
        "align": "fidelity",
        "alignment": "fidelity",
        "predict_errors": "perturbation",
        "rms_error": "fidelity",
        "zeta": "fidelity",
    },
)
