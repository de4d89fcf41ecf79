"""What was tried to get more out of M landmarks, on reduced data, judged by held-out points.

    python benchmarks/distilling_ideas.py      (minutes; writes docs/accuracy/ideas.csv)

Plain numpy on stored distances, apart from the library, so that ideas that were not
taken up can be measured without living there.
"""

from __future__ import annotations

import csv
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize, nnls

from ldmaps import DiffusionMap
from ldmaps.datasets import alanine_dipeptide, c24h50, swiss_roll
from ldmaps.diffusion.walk import Walk
from ldmaps.landmarks import FarthestPoint, KMedoids, Uniform
from ldmaps.landmarks.base import assign
from ldmaps.metrics import RMSD, Euclidean
from ldmaps.metrics.base import squared_matrix
from ldmaps.metrics.precomputed import StoredPoints, StoredSquares
from ldmaps.validation.fidelity import nrmse

OUT = Path(__file__).resolve().parents[1] / "docs" / "accuracy"
SEEDS = (0, 1, 2)
WIDTHS = (1.0, 1.5, 2.0, 3.0)
RIDGE, TUNING_RIDGE, MOVE_PENALTY = 1e-6, 1e-4, 0.1


class Case:
    """A reduced data set with its exact map and all distances."""

    def __init__(self, name: str, X: np.ndarray, metric: Any, k: int, m: int) -> None:
        self.name, self.m = f"{name}, M = {m}", m
        X = X[np.random.default_rng(0).permutation(len(X))]
        n = 4 * len(X) // 5
        exact = DiffusionMap(k, "connected", metric).fit(X[:n])
        train, test = metric.prepare(X[:n]), metric.prepare(X[n:])
        self.metric, self.train, self.test = metric, train, test
        self.epsilon, self.eigenvalues = exact.epsilon_, exact.eigenvalues_
        self.squares = squared_matrix(metric, train).astype(np.float32)
        self.test_squares = squared_matrix(metric, test, train).astype(np.float32)
        self.y, self.y_test = exact.embedding_.astype(float), exact.transform(X[n:]).astype(float)
        self.span = np.ptp(self.y, axis=0)
        self.density = np.exp(-self.squares / (2 * self.epsilon)).sum(axis=1).astype(float)

    def select(
        self, selector: Any, seed: int, squares: np.ndarray | None = None, weights: Any = None
    ) -> np.ndarray:
        squares = self.squares if squares is None else squares
        return selector.select(self.walk(squares, weights), np.random.default_rng(seed)).indices

    def multiplicities(self, chosen: np.ndarray) -> np.ndarray:
        return assign(self.walk(self.squares), chosen).multiplicities

    def walk(self, squares: np.ndarray, weights: Any = None) -> Walk:
        weights = np.ones(len(squares)) if weights is None else weights
        return Walk(StoredSquares(), StoredPoints(squares), weights, self.epsilon)

    def z(self, weights: np.ndarray, coefficients: np.ndarray) -> float:
        return nrmse(self.y_test, weights @ coefficients, ranges=self.span, matched=True)

    # -- the online step ------------------------------------------------------

    def weights(self, squares: np.ndarray, rate: Any, log_weights: np.ndarray) -> np.ndarray:
        exponent = log_weights - squares.astype(float) * rate
        exponent -= exponent.max(axis=1, keepdims=True)
        found = np.exp(exponent)
        return found / found.sum(axis=1, keepdims=True)

    def solve(self, weights: np.ndarray, chosen: np.ndarray, ridge: float) -> np.ndarray:
        start = self.y[chosen] / self.eigenvalues
        gram = weights.T @ weights
        gram.flat[:: len(gram) + 1] += ridge * np.trace(gram) / len(gram)
        return start + cho_solve(cho_factor(gram), weights.T @ (self.y - weights @ start))

    def fitted(self, chosen: np.ndarray, c: np.ndarray, widths: tuple[float, ...] = WIDTHS) -> float:
        """Z of least squares at the width of lowest error on a part of the training points."""
        return self.best_width(chosen, c, widths)[1]

    def best_width(self, chosen: np.ndarray, c: np.ndarray, widths: tuple[float, ...]) -> tuple[float, float]:
        part = np.arange(len(self.y)) % 5 == 0
        lowest = math.inf
        for width in widths:
            rate = 0.5 / (width * self.epsilon)
            weights = self.weights(self.squares[:, chosen], rate, np.log(c))
            start, y = self.y[chosen] / self.eigenvalues, self.y
            gram = weights[~part].T @ weights[~part]
            gram.flat[:: len(gram) + 1] += RIDGE * np.trace(gram) / len(gram)
            half = start + cho_solve(cho_factor(gram), weights[~part].T @ (y - weights @ start)[~part])
            error = nrmse(y[part], weights[part] @ half, ranges=self.span, matched=True)
            if error < lowest:
                lowest, best = error, width
        rate = 0.5 / (best * self.epsilon)
        coefficients = self.solve(self.weights(self.squares[:, chosen], rate, np.log(c)), chosen, RIDGE)
        return best, self.z(self.weights(self.test_squares[:, chosen], rate, np.log(c)), coefficients)

    def tuned(self, chosen: np.ndarray, c: np.ndarray, each: bool, moves: bool = False) -> float:
        """Z with log s and the rate, one for all landmarks or one each, tuned by variable projection; then moved."""
        m, width = len(chosen), self.best_width(chosen, c, WIDTHS)[0]
        unit = 2 * width * self.epsilon
        squares = self.squares[:, chosen].astype(float) / unit
        test = self.test_squares[:, chosen].astype(float) / unit
        start = np.concatenate([np.log(c / c.max()), np.zeros(m if each else 1)])
        options = {"maxiter": 100, "ftol": 1e-5}
        found = minimize(
            lambda parameters: self.loss(chosen, squares, parameters)[:2],
            start,
            jac=True,
            method="L-BFGS-B",
            options=options,
        ).x
        if moves:
            size = len(start)
            places = self.metric.places(self.train.take(chosen))
            counting = places.scales > 0
            # As far as the weights reach.
            units = np.sqrt(0.5 * unit / np.exp(found[m:]).mean()) / places.scales[counting]
            gradients = self.metric.squares_gradient(self.train)

            def moved(parameters: np.ndarray) -> np.ndarray:
                values = places.values.copy()
                values[:, counting] += parameters[size:].reshape(m, -1) * units
                return values

            def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
                values = moved(parameters)
                points = self.metric.prepare(values, self.train.dtype)
                found = squared_matrix(self.metric, self.train, points)
                error, gradient, by_square = self.loss(chosen, found.astype(float) / unit, parameters[:size])
                by_place = np.empty((m, 1, len(counting)), found.dtype)
                shares = np.ascontiguousarray(by_square.T[:, None] / unit, dtype=found.dtype)
                gradients(values, np.ascontiguousarray(found.T), shares, by_place)
                moves = parameters[size:]
                by_move = (by_place[:, 0, counting] * units).ravel() + 2 * MOVE_PENALTY / m * moves
                return error + MOVE_PENALTY / m * moves @ moves, np.concatenate([gradient, by_move])

            start = np.concatenate([found, np.zeros(m * int(counting.sum()))])
            found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
            points = self.metric.prepare(moved(found), self.train.dtype)
            squares, test = (
                squared_matrix(self.metric, them, points).astype(float) / unit
                for them in (self.train, self.test)
            )
            found = found[:size]
        rate = np.exp(found[m:])
        coefficients = self.solve(self.weights(squares, rate, found[:m]), chosen, 1e-5)
        return self.z(self.weights(test, rate, found[:m]), coefficients)

    def loss(
        self, chosen: np.ndarray, squares: np.ndarray, parameters: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Log of the squared error, what the ridge takes included; its gradient, also by d²."""
        m = len(chosen)
        rate = np.exp(parameters[m:])
        weights = self.weights(squares, rate, parameters[:m])
        start = self.y[chosen] / self.eigenvalues / self.span
        coefficients = self.solve(weights, chosen, TUNING_RIDGE) / self.span
        missing = self.y / self.span - weights @ coefficients
        ridge = TUNING_RIDGE / m * ((coefficients - start) ** 2).sum()
        error = (missing**2).sum() + ridge * (weights**2).sum()
        by_weight = (2 / error) * (ridge * weights - missing @ coefficients.T)
        shares = weights * (by_weight - (weights * by_weight).sum(axis=1)[:, None])
        by_rate = (
            -(shares * squares).sum(axis=0) * rate if len(rate) > 1 else -(shares * squares).sum() * rate
        )
        return math.log(error), np.concatenate([shares.sum(axis=0), by_rate]), -shares * rate

    # -- ideas ----------------------------------------------------------------

    def nystrom(self, chosen: np.ndarray, c: np.ndarray) -> float:
        kernel = np.exp(-self.squares[np.ix_(chosen, chosen)].astype(float) / (2 * self.epsilon))
        degrees = kernel @ c
        scale = np.sqrt(c / degrees)
        values, vectors = np.linalg.eigh(scale[:, None] * kernel * scale)
        k = self.y.shape[1]
        values, vectors = values[::-1][1 : k + 1], vectors[:, ::-1][:, 1 : k + 1]
        psi = vectors / np.sqrt(c * degrees)[:, None]
        psi /= np.sqrt(c @ psi**2)
        weights = self.weights(self.test_squares[:, chosen], 0.5 / self.epsilon, np.log(c))
        return nrmse(self.y_test, weights @ (psi / values), ranges=self.span)

    def reference_values(self, chosen: np.ndarray, c: np.ndarray) -> float:
        weights = self.weights(self.test_squares[:, chosen], 0.5 / self.epsilon, np.log(c))
        return self.z(weights, self.y[chosen] / self.eigenvalues)

    def quadrature(self, chosen: np.ndarray) -> np.ndarray:
        """Weights s ≥ 0 for which Σ_j A(x, z_j) s_j is nearest to the density of all points."""
        kernel = np.exp(-self.squares[:, chosen].astype(float) / (2 * self.epsilon)) / self.density[:, None]
        gram = kernel.T @ kernel
        gram.flat[:: len(gram) + 1] += 1e-8 * np.trace(gram) / len(gram)
        lower = np.linalg.cholesky(gram)
        found = nnls(lower.T, np.linalg.solve(lower, kernel.sum(axis=0)), maxiter=100 * len(gram))[0]
        return np.maximum(found, 1e-3)

    def mixed(self, share: float) -> np.ndarray:
        """Squared distances plus a share of those in diffusion space, both of mean 1."""
        scaled = self.y / self.span
        norms = (scaled**2).sum(axis=1)
        diffusion = (norms[:, None] + norms - 2 * scaled @ scaled.T).clip(0).astype(np.float32)
        return self.squares / self.squares.mean() + np.float32(share) * diffusion / diffusion.mean()

    def greedy(self, seed: int) -> np.ndarray:
        """Start from medoids of half the number, then add points where the residual of the fit is largest."""
        chosen = self.select(KMedoids(self.m // 2), seed)
        while len(chosen) < self.m:
            c = self.multiplicities(chosen)
            weights = self.weights(self.squares[:, chosen], 0.5 / self.epsilon, np.log(c))
            missing = (self.y - weights @ self.solve(weights, chosen, RIDGE)) / self.span
            loss = (missing**2).sum(axis=1)
            loss[chosen] = -1.0
            for _ in range(min(max(1, self.m // 10), self.m - len(chosen))):
                worst = int(np.argmax(loss))
                chosen = np.append(chosen, worst)
                loss[self.squares[worst] < self.epsilon] = 0.0  # one new landmark a neighbourhood and round
                loss[worst] = -1.0
        return np.sort(chosen)


def measure(case: Case, seed: int) -> dict[str, float]:
    medoids = case.select(KMedoids(case.m), seed)
    c = case.multiplicities(medoids)
    found = {
        "Nyström (the paper)": case.nystrom(medoids, c),
        "Nyström's B from the reference, no fit": case.reference_values(medoids, c),
        "least squares at ε": case.fitted(medoids, c, (1.0,)),
        "… at the best of four widths": case.fitted(medoids, c),
        "… and s, width tuned (taken where landmarks cannot be moved)": case.tuned(medoids, c, each=False),
        "… and landmarks moved (**taken**)": case.tuned(medoids, c, each=False, moves=True),
        "s, a width for each landmark tuned": case.tuned(medoids, c, each=True),
        "… and landmarks moved": case.tuned(medoids, c, each=True, moves=True),
        "best width, all s = 1": case.fitted(medoids, np.ones(case.m)),
        "best width, quadrature weights": case.fitted(medoids, case.quadrature(medoids)),
    }
    for name, chosen in {
        "best width, uniform landmarks": case.select(Uniform(case.m), seed),
        "best width, farthest points": case.select(FarthestPoint(case.m), seed),
        "best width, medoids of density^-½": case.select(KMedoids(case.m), seed, weights=case.density**-0.5),
        "best width, medoids of input + diffusion distance": case.select(
            KMedoids(case.m), seed, case.mixed(1.0)
        ),
        "best width, greedy on the residual": case.greedy(seed),
    }.items():
        found[name] = case.fitted(chosen, case.multiplicities(chosen))
    tempered = case.select(KMedoids(case.m), seed, weights=case.density**-0.5)
    found["tuned, medoids of density^-½"] = case.tuned(tempered, case.multiplicities(tempered), each=False)
    return found


def main() -> None:
    alanine = alanine_dipeptide(stride=6)
    masses = RMSD(weights=alanine.masses)
    cases = [
        Case("Swiss roll", swiss_roll(5000).points, Euclidean(), 2, 60),
        Case("Swiss roll", swiss_roll(5000).points, Euclidean(), 2, 200),
        Case("C24H50", c24h50(stride=2).frames, RMSD(), 4, 30),
        Case("C24H50", c24h50(stride=2).frames, RMSD(), 4, 100),
        Case("alanine", alanine.frames, masses, 2, 20),
        Case("alanine", alanine.frames, masses, 2, 100),
    ]
    results = {case.name: [measure(case, seed) for seed in SEEDS] for case in cases}
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / "ideas.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["data", "idea", "seed", "z_test"])
        for name, runs in results.items():
            for seed, run in zip(SEEDS, runs, strict=True):
                writer.writerows([name, idea, seed, f"{z:.5g}"] for idea, z in run.items())
    lines = ["| idea | " + " | ".join(results) + " |", "|---|" + "---|" * len(results)]
    for idea in results[cases[0].name][0]:
        cells = [f"{statistics.median(run[idea] for run in runs):.3g}" for runs in results.values()]
        lines.append(f"| {idea} | " + " | ".join(cells) + " |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
