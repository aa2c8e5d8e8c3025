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


class SLNDClassifier:
    """The defaults on a stream: the Hessian of the first 1, 2, 4, … examples, all its eigenpairs.

    Beyond the paper: eigenvalues are damped, steps shrink, and none overshoots its own example.
    """

    def __init__(self, learner, X):
        self.classes, self.rows = learner.classes_, []
        self.damping = 3.0 if learner.damping == "auto" else learner.damping
        self.w_ = np.zeros((len(self.classes), X.shape[1] + 1))

    def learn(self, x, label):
        x, t = np.append(x, 1.0), len(self.rows)
        self.rows.append(x)
        known = max(1, 2 ** int(np.ceil(np.log2(t + 1))) // 2)
        moment = sum(np.outer(row, row) for row in self.rows[:known]) / known
        values, vectors = np.linalg.eigh(moment)
        values, vectors = values[values > 1e-12], vectors[:, values > 1e-12]
        # The mean variance of the features; the last one is the intercept.
        mean, energy = moment[:-1, -1], np.trace(moment)
        variances = np.diag(moment)[:-1] - mean**2
        typical = max(variances.sum(), np.finfo(float).eps * energy) / (len(x) - 1)
        damped = values + self.damping * typical
        steepest = CURVATURES_AT_ZERO["logistic"]
        inverse = vectors @ np.diag(1.0 / (steepest * damped)) @ vectors.T
        horizon = max(1.0, sum(values / damped))
        eta = 1.0 / horizon / np.sqrt(1.0 + t / horizon)
        eta = min(eta, 1.0 / (steepest * (x @ inverse @ x)))
        signs = np.where(self.classes == label, 1.0, -1.0)
        steps = [
            slnd_step(w, x, y, eta, inverse, "logistic")
            for w, y in zip(self.w_, signs, strict=True)
        ]
        self.w_ = np.array(steps)
