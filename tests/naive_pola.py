"""Stand-ins for tests of what is built on learners of distances with a threshold."""

import numpy as np
from scipy import sparse


class NaivePOLA:
    """POLA as printed [ShalevShwartz2004], one pair at a time, with the interface of a learner.

    Two equal points change nothing. A `kernel` only declares that A does not apply to the vectors
    themselves, so that callers must use `pairwise_score`; it is always the linear one.
    """

    n_components = None

    def __init__(self, gamma=0.0, average=False, kernel=None):
        self.gamma = gamma
        self.average = average
        self.kernel = kernel

    def learn(self, X, pairs, y):
        if self.gamma < 0:
            raise ValueError(f"NaivePOLA: gamma must be a number of at least 0, got {self.gamma}.")
        X = X.toarray() if sparse.issparse(X) else X
        if not hasattr(self, "A_"):
            self.A_, self.b_ = np.zeros((X.shape[1],) * 2), 1.0
            self.n_seen_ = self.n_updates_ = 0
            self._sums = self.A_.copy(), 1.0
        if X.shape[1] != len(self.A_):
            raise ValueError(f"NaivePOLA: X must have {len(self.A_)} features, got {X.shape[1]}.")
        for (i, j), sign in zip(pairs, y, strict=True):
            self._step(X[i] - X[j], sign)
            self.n_seen_ += 1
            self._sums = self._sums[0] + self.A_, self._sums[1] + self.b_
        return self

    def _step(self, v, y):
        loss = max(0.0, y * (v @ self.A_ @ v - self.b_) + 1.0)
        if loss == 0.0 or not v.any():
            return
        self.n_updates_ += 1
        alpha = loss / ((v @ v) ** 2 + 1.0 + self.gamma)
        A = self.A_ - y * alpha * np.outer(v, v)
        values, vectors = np.linalg.eigh(A)
        if values[0] < 0.0:
            A -= values[0] * np.outer(vectors[:, 0], vectors[:, 0])
        self.A_[:] = A  # in place, as compiled learners do
        self.b_ = max(1.0, self.b_ + y * alpha)

    @property
    def A_average_(self):
        return self._sums[0] / (self.n_seen_ + 1)

    def metric_matrix(self):
        return None if self.kernel else self._scoring_matrix()

    def _scoring_matrix(self):
        return self.A_average_ if self.average else self.A_

    @property
    def threshold_(self):
        return self._sums[1] / (self.n_seen_ + 1) if self.average else self.b_

    def pairwise_score(self, Q, Z):
        Q, Z = (M.toarray() if sparse.issparse(M) else M for M in (Q, Z))
        V = Q[:, None] - Z[None]
        A = self._scoring_matrix()
        return -np.einsum("ijk,kl,ijl->ij", V, A, V)


class FixedDistance:
    """The Euclidean distance and a threshold of 1, whatever is learnt; it records its lessons."""

    threshold_ = 1.0

    def __init__(self):
        self.lessons = []

    def learn(self, X, pairs, y):
        for (i, j), sign in zip(pairs, y, strict=True):
            self.lessons.append((X[i].item(), X[j].item(), int(sign)))

    def pairwise_score(self, Q, Z):
        return -((Q[:, None] - Z[None]) ** 2).sum(axis=2)
