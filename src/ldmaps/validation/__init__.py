"""How good a map is: fidelity to another map, perturbation theory, error estimates, and what it does not cover."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ldmaps._lazy import load_on_first_use

if TYPE_CHECKING:
    from ldmaps.validation.error_estimate import ErrorEstimate as ErrorEstimate
    from ldmaps.validation.fidelity import match_columns as match_columns
    from ldmaps.validation.fidelity import nrmse as nrmse
    from ldmaps.validation.fidelity import point_errors as point_errors
    from ldmaps.validation.perturbation import Perturbation as Perturbation
    from ldmaps.validation.perturbation import predict_errors as predict_errors
    from ldmaps.validation.sampling import Sampling as Sampling

load_on_first_use(
    __name__,
    {
        "error_estimate": "ErrorEstimate",
        "fidelity": "match_columns nrmse point_errors",
        "perturbation": "Perturbation predict_errors",
        "sampling": "Sampling",
    },
)
