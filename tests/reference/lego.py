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
