"""The batch problem of POLA, solved: the metric nearest to the start that satisfies every pair."""

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, optimize

from experiments.contenders.tuples import PAIRS, Stream
from experiments.contenders.vectors import Vectors
from experiments.problems import Problem


class Solution(NamedTuple):
    """A factor L of the metric LᵀL and its threshold, and what is known about them.

    `largest` is the largest loss of a pair. `lower` and `upper` enclose the least value of the
    objective: the dual value, and the value of (LᵀL, b)/(1 - largest), which satisfies every pair.
    """

    L: Any
    b: float
    largest: float
    lower: float
    upper: float
    evaluations: int

    @property
    def gap(self) -> float:
        """Relative width of the enclosure; 1 as long as no metric is known to satisfy all pairs."""
        return 1.0 - self.lower / self.upper


def nearest_metric(Z: Any, y: Any, *, tolerance: float = 0.01, evaluations: int = 1000) -> Solution:
    """Minimize ½|A|² + ½(b - 1)² over A ⪰ 0, b ≥ 1 with y(zᵀAz - b) + 1 ≤ 0 for every row z of Z.

    That is the projection of POLA's start, A = 0 and b = 1, on what satisfies all pairs. Its dual
    is to maximize a smooth concave function of one variable α ≥ 0 for each pair,

        g(α) = ½|A|² + ½(b - 1)² + Σ α (y(zᵀAz - b) + 1),   ∂g/∂α = y(zᵀAz - b) + 1,
        A = (-Σ α y zzᵀ)₊,   b = 1 + (Σ α y)₊,

    which L-BFGS-B does until the gap is at most `tolerance`, or for so many `evaluations`.
    """
    Z, y = np.asarray(Z, dtype=np.float64), np.asarray(y, dtype=np.float64)
    _, lengths, V = linalg.svd(Z, full_matrices=False)
    V = V[lengths > 1e-9 * lengths[0]]  # A has no part outside of the span of Z
    Z = Z @ V.T
    unit = 1.0 / float(np.mean(np.vecdot(Z, Z)) ** 2)  # of α, as steps begin with 1
    best = Solution(V[:0], 1.0, np.inf, 0.0, np.inf, 0)

    def negative_dual(scaled: Any) -> tuple[float, Any]:
        nonlocal best
        alpha = unit * scaled
        values, vectors = linalg.eigh((Z.T * (-alpha * y)) @ Z, driver="evd")
        kept = values > 0.0
        L, b = (vectors[:, kept] * np.sqrt(values[kept])).T, 1.0 + max(float(alpha @ y), 0.0)
        losses = y * (np.square(Z @ L.T).sum(axis=1) - b) + 1.0
        A2, largest = float(np.square(values[kept]).sum()), max(float(losses.max()), 0.0)
        dual = 0.5 * A2 + 0.5 * (b - 1.0) ** 2 + float(alpha @ losses)
        upper, room = np.inf, 1.0 - largest
        if room > 0.0:
            upper = 0.5 * A2 / room**2 + 0.5 * (b / room - 1.0) ** 2
        if upper <= best.upper:
            best = Solution(L @ V, b, largest, best.lower, upper, best.evaluations)
        best = best._replace(lower=max(dual, best.lower), evaluations=best.evaluations + 1)
        return -dual, -unit * losses

    def stop_if_certain(intermediate_result: Any) -> None:
        if best.gap <= tolerance:
            raise StopIteration

    optimize.minimize(
        negative_dual, np.zeros(len(y)), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * len(y),
        callback=stop_if_certain,
        options={"maxfun": evaluations, "maxiter": evaluations, "maxcor": 50, "ftol": 0, "gtol": 0},
    )  # fmt: skip
    return best


class NearestMetric(Stream):
    """The solution for the first pairs of the stream that POLA is taught with."""

    stepwise = False

    def __init__(self, problem: Problem, seed: int, *, n_pairs: int, tolerance: float) -> None:
        super().__init__(problem, PAIRS["uniform"](problem.y_train), seed)
        self.n_pairs, self.tolerance = n_pairs, tolerance

    def learn_to(self, step: int) -> None:
        pairs, signs = (values[: self.n_pairs] for values in self._drawn(0))
        Z = self.X[pairs[:, 0]] - self.X[pairs[:, 1]]
        found = nearest_metric(Z, signs, tolerance=self.tolerance)
        self.components = found.L.astype(self.X.dtype)
        # By Theorem 1 no more than R D/β² passes are needed: D = |A|² + (b - 1)², R = max |z|⁴ + 1.
        distance = 2.0 * found.upper
        passes = (float(np.vecdot(Z, Z).max()) ** 2 + 1.0) * distance / 0.1**2
        self.note = (
            f"gap {100 * found.gap:.2g} %, largest loss {found.largest:.1g}, "
            f"{found.evaluations} evaluations, D = {distance:.2g}, passes at most {passes:.1g}"
        )

    def scorers(self) -> dict[str, Any]:
        return {"last": Vectors("l2", self.components)}
