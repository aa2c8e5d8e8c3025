"""SGD-QN with the correction of its erratum [Bordes2010], one example at a time."""

import numpy as np

from tests.reference.slnd import CURVATURES_AT_ZERO, SLOPES


class BinarySGDQN:
    """State of one classifier: weights w, gains B, and what the next gain is measured against."""

    def __init__(self, d, gain, alpha, skip, slope):
        self.w, self.B, self.v = np.zeros(d), np.full(d, gain), np.zeros(d)
        self.alpha, self.skip, self.slope = alpha, skip, slope
        self.count, self.update_B = skip, False

    def gradient(self, w, x, y):
        return self.alpha * w + y * self.slope(y * (w @ x)) * x

    def learn(self, x, y):
        if self.update_B:
            difference = self.gradient(self.w, x, y) - self.gradient(self.v, x, y)
            gap = self.w - self.v
            r = np.where(gap == 0, self.alpha, difference / np.where(gap == 0, 1.0, gap))
            r = np.clip(r, self.alpha, 100 * self.alpha)
            self.B = 1.0 / (1.0 / self.B + self.skip * r)
            self.update_B = False
        step = y * self.slope(y * (self.w @ x)) * self.B * x
        self.count -= 1
        if self.count <= 0:
            self.count, self.update_B = self.skip, True
            self.v = self.w.copy()
            self.w = self.w - self.skip * self.alpha * self.B * self.w
        self.w = self.w - step


class SGDQN:
    """Every class against the rest; the first example sets the gain at the start."""

    def __init__(self, learner, X):
        self.classes, self.rule = learner.classes_, (learner.alpha, learner.skip)
        self.w_ = self.B_ = self.v_ = np.zeros((len(self.classes), X.shape[1] + 1))
        self.binary = None

    def learn(self, x, label):
        x = np.append(x, 1.0)
        if self.binary is None:
            rule = (1.0 / (CURVATURES_AT_ZERO["logistic"] * (x @ x)), *self.rule)
            self.binary = [BinarySGDQN(len(x), *rule, SLOPES["logistic"]) for _ in self.classes]
        for own, one in zip(self.classes, self.binary, strict=True):
            one.learn(x, 1.0 if own == label else -1.0)
        self.w_ = np.array([one.w for one in self.binary])
        self.B_ = np.array([one.B for one in self.binary])
        self.v_ = np.array([one.v for one in self.binary])
