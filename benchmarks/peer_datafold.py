"""datafold behind a pipe: it needs an older scikit-learn than ours, so it runs in its own environment.

Reads one JSON command per line: {"fit": path of an .npy, "epsilon": e}, {"time": repeats}; answers in JSON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np
from datafold.dynfold import DiffusionMaps, Roseland
from datafold.pcfold import GaussianKernel

warnings.simplefilter("ignore")


def main() -> None:
    models = {}
    points = np.empty((0, 0))
    for line in sys.stdin:
        command = json.loads(line)
        if "fit" in command:
            points = np.load(command["fit"])
            epsilon = 2.0 * command["epsilon"]
            # datafold's Gaussian is exp(−d²/(2ε')), as ours; the cut-off makes its matrices sparse.
            kernel = GaussianKernel(epsilon=command["epsilon"], distance={"cut_off": command["cut_off"]})
            models = {"DiffusionMaps": DiffusionMaps(kernel, n_eigenpairs=3)}
            dense = GaussianKernel(epsilon=command["epsilon"])
            models["Roseland"] = Roseland(dense, n_svdtriplet=3, landmarks=command["landmarks"])
            failed = []
            for name, model in list(models.items()):
                try:
                    model.fit(points)
                    model.transform(points[:1])
                except Exception as error:
                    failed.append(f"{name}: {error}")
                    del models[name]
            print(json.dumps({"models": sorted(models), "failed": failed, "epsilon": epsilon}), flush=True)
        else:
            best = {}
            for name, model in models.items():
                seconds = []
                for repeat in range(command["time"]):
                    x = points[repeat : repeat + 1]
                    start = time.perf_counter()
                    model.transform(x)
                    seconds.append(time.perf_counter() - start)
                best[name] = sorted(seconds)[len(seconds) // 2]
            print(json.dumps(best), flush=True)


if __name__ == "__main__":
    main()
