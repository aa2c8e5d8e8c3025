"""SLND as printed [BelHajAli2013], in d dimensions, one sample at a time."""

import numpy as np

SLOPES = {
    "logistic": lambda x: -1.0 / (1.0 + np.exp(x)),
    "hinge": lambda x: -1.0 / (2.0 + x) if x > 0 else -1.0 + 1.0 / (2.0 - x),
    "squared": lambda x: -0.5 * (1.0 - x),
}
CURVATURES_AT_ZERO = {"logistic": 0.25, "hinge": 0.25, "squared": 0.5}


def hessian(X, loss):
    """Equation (7), averaged over the rows, at w = 0."""
    return CURVATURES_AT_ZERO[loss] * sum(np.outer(x, x) for x in X) / len(X)


def low_rank_inverse(H, k):
    """Equation (8): P is d × k (the paper prints m × k)."""
    values, vectors = np.linalg.eigh(H)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    return vectors @ np.diag(1.0 / values) @ vectors.T


def slnd_step(w, x, y, eta, inverse, loss):
    """Equation (11) with x* of (10)."""
    x_star = inverse @ x
    return w - eta * y * SLOPES[loss](y * (w @ x)) * x_star


def theorem_step(w, X, y, i, inverse, loss, epsilon):
    """The step η of (23) for visiting sample i, from p, π, e and Π as printed."""
    p = np.array([-SLOPES[loss](y_j * (w @ x_j)) for x_j, y_j in zip(X, y, strict=True)])
    pi = np.array([p[i] * X[i] @ inverse @ x for x in X])
    e = sum(p * y * y[i] * pi)
    Pi = sum(pi**2)
    return 2 * (1 - epsilon) * e / (CURVATURES_AT_ZERO[loss] * Pi)


def risk(w, X, y, loss):
    """Equation (4)."""
    value = {
        "logistic": lambda x: np.log1p(np.exp(-x)),
        "hinge": lambda x: max(0.0, -x) - np.log(2.0 + abs(x)),
        "squared": lambda x: 0.25 * (1.0 - x) ** 2,
    }[loss]
    return np.mean([value(y_j * (w @ x_j)) for x_j, y_j in zip(X, y, strict=True)])
