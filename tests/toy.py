"""A toy learner, and mutants of it that the common checks must kill."""

import numpy as np

from similia.distance.base import MahalanobisDistance
from similia.linalg.blocks import dense
from similia.parameters import parameter
from similia.validation import positive
from tests.reference.toy import toy_step


class Toy(MahalanobisDistance):
    """Mahalanobis distance by projected gradient steps of the hinge loss."""

    eta: float = parameter(default=0.01, rule=positive, doc="Length of a step.")

    divergence = "frobenius"
    #: what mutants change
    sign = 1.0
    factor = 1.0
    project = True
    last = None
    moment = 1.0
    delay = 0

    def _learn_block(self, Z, y):
        updates = 0
        for i, (v, label) in enumerate(zip(dense(Z)[: self.last], y, strict=False)):
            step = self.sign * self.factor * self.eta
            A = toy_step(self.A_, v, label, step, self.project)
            if self.average:
                time = self.n_seen_ + i + 1 - self.delay
                self.moment_ += self.moment * time * (A - self.A_)
            updates += not np.array_equal(A, self.A_)
            self.A_[:] = A
        return updates


class OppositeSign(Toy):
    sign = -1.0


class DoubledStep(Toy):
    factor = 2.0


class NoProjection(Toy):
    project = False


class TruncatedBlock(Toy):
    last = -1


class IgnoredMoment(Toy):
    moment = 0.0


class LateTime(Toy):
    delay = 1


MUTANTS = [OppositeSign, DoubledStep, NoProjection, TruncatedBlock, IgnoredMoment, LateTime]
