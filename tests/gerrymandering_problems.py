"""A quick learner by gerrymandering, and points for it."""

import numpy as np

from similia import NeighborhoodGerrymandering

QUICK = {"max_iter": 3, "random_state": 0}


def quick(**parameters):
    return NeighborhoodGerrymandering(**{**QUICK, **parameters})


def clusters(rng, n=120, d=6, noise=3.0):
    """Three classes in two of the directions, loud noise in the others."""
    y = np.arange(n) % 3
    X = rng.normal(size=(n, d)) * noise
    X[:, :2] = rng.normal(size=(n, 2)) * 0.5 + 2.0 * np.eye(3)[y][:, :2]
    return X, y
