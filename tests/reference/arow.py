"""AROW as printed [Crammer2009], one example at a time."""

import numpy as np


def arow_step(w, Sigma, x, y, r):
    """Equation (4) with a full covariance."""
    margin = y * (x @ w)
    if margin >= 1.0:
        return w, Sigma
    v = x @ Sigma @ x
    beta = 1.0 / (v + r)
    alpha = (1.0 - margin) * beta
    return w + alpha * y * (Sigma @ x), Sigma - beta * np.outer(Sigma @ x, x @ Sigma)


def arow_diagonal_step(w, sigma, x, y, r):
    """The same with the diagonal of the covariance alone."""
    margin = y * (x @ w)
    if margin >= 1.0:
        return w, sigma
    v = np.sum(x * sigma * x)
    return w + (1.0 - margin) / (v + r) * y * sigma * x, sigma - (sigma * x) ** 2 / (v + r)
