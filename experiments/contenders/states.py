"""Contenders for a density matrix, given measurements along vectors, each with its share of yes."""

from typing import Any

import numpy as np

from experiments.problems import Problem
from similia import MEG


class OnlineState:
    """MEG, one measurement after another; a decaying rate is eta/√(1 + t/100) after t of them."""

    stepwise = True
    note = ""

    def __init__(
        self, problem: Problem, seed: int, *, eta: float, average: bool = False, decay: bool = False
    ) -> None:
        self.vectors, self.shares = problem.X_train, problem.y_train
        self.eta, self.decay, self.seen = eta, decay, 0
        self.learner = MEG(field="complex", trace=1.0, eta=eta, average=average)

    def learn_to(self, step: int) -> None:
        while self.seen < step:
            stop = step
            if self.decay:
                stop = min(step, self.seen + 100 - self.seen % 100)
                begun = self.seen // 100
                self.learner.set_params(eta=float(self.eta / np.sqrt(1.0 + begun)))
            block = slice(self.seen, stop)
            self.learner.learn_matrices(self.vectors[block], self.shares[block])
            self.seen = stop

    @property
    def state(self) -> Any:
        return self.learner.A_average_ if self.learner.average else self.learner.W_


class LinearInversion:
    """Least squares over all measurements so far, then the nearest density matrix.

    The projection is that of J. Smolin, J. Gambetta, G. Smith, "Efficient method for computing the
    maximum-likelihood quantum state from measurements with additive Gaussian noise", PRL 108, 2012.
    """

    stepwise = True
    note = ""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.vectors, self.shares = problem.X_train, problem.y_train

    def learn_to(self, step: int) -> None:
        vectors, d = self.vectors[:step], self.vectors.shape[1]
        # xᴴρx = Σ conj(x_i) x_j ρ_ij, real for Hermitian ρ; least squares of least norm are such.
        products = (vectors.conj()[:, :, None] * vectors[:, None, :]).reshape(len(vectors), -1)
        both = np.hstack([products.real, -products.imag])
        found = np.linalg.lstsq(both, self.shares[:step], rcond=None)[0]
        rho = (found[: d * d] + 1j * found[d * d :]).reshape(d, d)
        self.state = nearest_state(0.5 * (rho + rho.conj().T))


def nearest_state(H: Any) -> Any:
    """Density matrix nearest to a Hermitian one: its eigenvalues onto the simplex."""
    values, vectors = np.linalg.eigh(H)
    falling = values[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, len(values) + 1)
    kept = np.maximum(values - excess[np.flatnonzero(falling > excess)[-1]], 0.0)
    return (vectors * kept) @ vectors.conj().T
