"""SGD-QN with the correction of its erratum [Bordes2010], one example at a time."""

import numpy as np


class SGDQN:
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
