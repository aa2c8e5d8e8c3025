"""PAUM [Li2002, Algorithm 1], one example at a time."""

import numpy as np


def paum_step(w, b, x, y, R, eta, tau_positive, tau_negative):
    """Move by a step of the Perceptron unless y(wᵀx + b) exceeds the margin of y's class."""
    tau = tau_positive if y > 0 else tau_negative
    if y * (w @ x + b) > tau:
        return w, b
    return w + eta * y * x, b + eta * y * R**2


class PAUM:
    """Every class against the rest; R is the length of the longest example so far."""

    def __init__(self, learner, X):
        self.classes, self.R_ = learner.classes_, 0.0
        self.rule = (learner.eta, learner.tau_positive, learner.tau_negative)
        self.w_ = np.zeros((len(self.classes), X.shape[1] + 1))

    def learn(self, x, label):
        self.R_ = max(self.R_, np.linalg.norm(x))
        signs = np.where(self.classes == label, 1.0, -1.0)
        steps = [
            np.append(*paum_step(w[:-1], w[-1], x, y, self.R_, *self.rule))
            for w, y in zip(self.w_, signs, strict=True)
        ]
        self.w_ = np.array(steps)
