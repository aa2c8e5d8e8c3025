"""POLA [ShalevShwartz2004, Fig. 1], one pair at a time, with b ≥ 1 from the start."""

import numpy as np


def pola_loss(A, b, v, y):
    return max(0.0, y * (v @ A @ v - b) + 1.0)


def pola_step(A, b, v, y, gamma=0.0):
    """Give A and b after the pair with difference v, similar (y = 1) or not (y = -1)."""
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
