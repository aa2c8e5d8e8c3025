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


class AROW:
    """Weights and covariances of every class after each example; the last feature is 1."""

    def __init__(self, learner, X):
        n, d = len(learner.classes_), X.shape[1] + 1
        self.classes, self.r = learner.classes_, learner.r
        self.w_, self.Sigma_ = np.zeros((n, d)), np.tile(np.eye(d), (n, 1, 1))

    def learn(self, x, label):
        x = np.append(x, 1.0)
        steps = [
            arow_step(w, Sigma, x, 1.0 if label == own else -1.0, self.r)
            for w, Sigma, own in zip(self.w_, self.Sigma_, self.classes, strict=True)
        ]
        self.w_ = np.array([w for w, _ in steps])
        self.Sigma_ = np.array([Sigma for _, Sigma in steps])
