"""Whether a tolerance is kept where the kernel cannot be stored: 40,000 points of a Swiss roll, all defaults.

    python benchmarks/above_the_limit.py

Prints what the certificate promised and Z of 4,000 fresh points against the true exact map.
"""

from __future__ import annotations

import numpy as np

from ldmaps import DiffusionMap, LandmarkDiffusionMap
from ldmaps.datasets import swiss_roll
from ldmaps.validation.fidelity import nrmse

N, FRESH, SEEDS = 40_000, 4000, 3


def main() -> None:
    for seed in range(SEEDS):
        points = swiss_roll(N + FRESH, random_state=seed).points.astype(np.float32)
        train, fresh = points[:N], points[N:]
        model = LandmarkDiffusionMap(2, tolerance=1.0).fit(train)
        exact = DiffusionMap(2, epsilon=model.epsilon_).fit(train)
        ranges = np.ptp(exact.embedding_.astype(np.float64), axis=0)
        z = nrmse(exact.transform(fresh), model.transform(fresh), ranges=ranges)
        promise = model.certificate_
        print(
            f"seed {seed}: {promise.n_landmarks} landmarks, held-out Z {promise.held_out_z:.3f} %, bound "
            f"{promise.upper_bound:.3f} %, fresh Z {z:.3f} %, reference {model.solution_.solver}",
            flush=True,
        )


if __name__ == "__main__":
    main()
