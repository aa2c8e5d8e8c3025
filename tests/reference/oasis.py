"""OASIS as printed [Chechik2010, Algorithm 1], one triplet at a time."""

import numpy as np


def oasis_step(W, q, p, C):
    """Move W to the nearest matrix that meets the margin, by at most C along the gradient."""
    V = np.outer(q, p)
    loss = max(0.0, 1.0 - q @ W @ p)
    norm2 = np.sum(V**2)
    if loss == 0.0 or norm2 == 0.0:
        return W
    return W + min(C, loss / norm2) * V


class OASIS:
    """W after each triplet, from a learner's own start."""

    def __init__(self, learner, X):
        self.W_, self.C = learner.W_, learner.C

    def learn(self, q, p):
        self.W_ = oasis_step(self.W_, q, p, self.C)
