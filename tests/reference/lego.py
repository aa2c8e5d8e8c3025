"""LEGO [Jain2008], one pair at a time."""

import numpy as np


def lego_step(A, z, y, eta):
    """Move A for the pair with difference z towards the squared distance y."""
    before = z @ A @ z
    if before == 0.0:
        return A
    b = eta * y * before - 1.0
    after = (b + np.sqrt(b**2 + 4.0 * eta * before**2)) / (2.0 * eta * before)
    gain = eta * (after - y)
    return A - gain / (1.0 + gain * before) * np.outer(A @ z, z @ A)


class LEGO:
    """A after each pair, from a learner's own start; a pair within its bound needs no step."""

    def __init__(self, learner, X):
        self.A_, self.eta = learner.A_, learner.eta
        self.near, self.far = learner.bounds_**2

    def learn(self, z, y):
        distance = z @ self.A_ @ z
        if y > 0 and distance > self.near:
            self.A_ = lego_step(self.A_, z, self.near, self.eta)
        elif y < 0 and distance < self.far:
            self.A_ = lego_step(self.A_, z, self.far, self.eta)
