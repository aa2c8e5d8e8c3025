"""The toy learner of `tests/toy.py`, one pair at a time."""

import numpy as np


def toy_step(A, v, y, eta, project=True):
    """A gradient step of max(0, y(vᵀAv - 2) + 1), then the nearest A ⪰ 0."""
    if y * (v @ A @ v - 2.0) + 1.0 <= 0.0:
        return A
    A = A - eta * y * np.outer(v, v)
    if not project:
        return A
    values, vectors = np.linalg.eigh(A)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


class Toy:
    def __init__(self, learner, X):
        self.A_, self.eta = learner.A_, learner.eta

    def learn(self, v, y):
        self.A_ = toy_step(self.A_, v, y, self.eta)
