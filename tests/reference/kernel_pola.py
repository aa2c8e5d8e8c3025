"""POLA in the feature space of a kernel, on explicit feature vectors [ShalevShwartz2004]."""

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels

from tests.reference.pola import POLA


class KernelPOLA(POLA):
    """POLA on explicit feature vectors: rows of a square root of the kernel matrix."""

    def __init__(self, learner, X):
        super().__init__(learner, X)
        K = pairwise_kernels(X, metric=learner.kernel, **(learner.kernel_params or {}))
        values, vectors = np.linalg.eigh(K)
        self.points = vectors * np.sqrt(np.maximum(values, 0.0))
        self.A_ = learner.start_ * np.eye(len(X))

    def pairwise_score(self):
        gaps = self.points[:, None] - self.points
        return -np.einsum("ijk,kl,ijl->ij", gaps, self.A_, gaps)
