"""Matrix exponentiated gradient as printed [Tsuda2005, Algorithm 1], one instance at a time."""

import numpy as np


def start(d, dtype=float):
    """G₀ = log W₁ for W₁ = I/d."""
    return -np.log(d) * np.eye(d, dtype=dtype)


def matrix(G, normalized=True):
    """W = exp(G)/tr exp(G), or exp(G) alone (3.4)."""
    values, V = np.linalg.eigh(G)
    weights = np.exp(values - values.max()) if normalized else np.exp(values)
    if normalized:
        weights /= weights.sum()
    return (V * weights) @ V.conj().T


def sym(X):
    return (X + X.conj().T) / 2


def meg_step(G, X, y, eta, normalized=True):
    """Predict tr(WX), suffer the squared loss, move G; return the new G and the loss."""
    error = np.trace(matrix(G, normalized) @ X).real - y
    return G - 2 * eta * error * sym(X), error**2


def implicit_step(G, X, y, eta, normalized=True):
    """(3.3) under the von Neumann divergence: the gradient is that at the new W.

    e = tr(W'X) - y with W' = exp(G - 2ηe sym(X)), by bisection between 0 and the error at W.
    """
    error = np.trace(matrix(G, normalized) @ X).real - y
    low, high = min(error, 0.0), max(error, 0.0)
    for _ in range(200):
        e = (low + high) / 2
        after = np.trace(matrix(G - 2 * eta * e * sym(X), normalized) @ X).real - y
        low, high = (e, high) if after > e else (low, e)
    return G - 2 * eta * e * sym(X), error**2


class MEG:
    """The matrix after each distance, from a learner's own start, with a fixed step size."""

    parameters = {"eta": 0.01}

    def __init__(self, learner, X):
        self.trace, self.eta = learner.trace_, learner.eta
        self.G = np.log(np.diag(learner.A_) / self.trace) * np.eye(len(learner.A_))

    @property
    def A_(self):
        return self.trace * matrix(self.G)

    def learn(self, v, distance):
        # In the paper's units: the instance is scaled by the trace, the matrix has trace one.
        self.G, _ = meg_step(self.G, self.trace * np.outer(v, v), distance**2, self.eta)
