"""POLA [ShalevShwartz2004, Fig. 1], one pair at a time, with b ≥ 1 from the start."""

import numpy as np


def pola_loss(A, b, v, y):
    return max(0.0, y * (v @ A @ v - b) + 1.0)


def pola_step(A, b, v, y, gamma=0.0):
    """A and b after the pair with difference v, similar (y = 1) or not (y = -1)."""
    loss = pola_loss(A, b, v, y)
    if loss == 0.0:
        return A, b
    alpha = loss / ((v @ v) ** 2 + 1.0 + gamma)
    A, b = A - y * alpha * np.outer(v, v), b + y * alpha
    if y == 1:
        values, vectors = np.linalg.eigh(A)
        if values[0] < 0.0:
            A = A - values[0] * np.outer(vectors[:, 0], vectors[:, 0])
    return A, max(b, 1.0)


class POLA:
    """A and b after each pair, in the units of the data: ρ = rate·unit⁴ for the paper's 1."""

    def __init__(self, learner, X):
        self.A_, self.b_ = learner.A_, learner.b_
        self.rho = learner.threshold_rate * learner.unit_**4
        self.slack = learner.gamma * learner.unit_**4

    def learn(self, v, y):
        loss = pola_loss(self.A_, self.b_, v, y)
        if loss == 0.0 or not v.any():
            return
        # The printed step, with b measured in units of √ρ: one point of the (A, b/√ρ) space.
        alpha = loss / ((v @ v) ** 2 + self.rho + self.slack)
        A = self.A_ - y * alpha * np.outer(v, v)
        values, vectors = np.linalg.eigh(A)
        self.A_ = (vectors * np.maximum(values, 0.0)) @ vectors.T
        self.b_ = max(self.b_ + y * self.rho * alpha, 1.0)
