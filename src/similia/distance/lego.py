"""LEGO: online LogDet metric learning."""

from typing import Any

import numpy as np

from similia.contract import Array, Matrix
from similia.distance.bounds import BoundedDistance
from similia.parameters import parameter
from similia.updates.lego import lego_pass
from similia.validation import positive


class LEGO(BoundedDistance):
    """Mahalanobis distance learnt from pairs by LogDet-regularised steps.

    A pair with difference z and target y for its squared distance ŷ = zᵀAz moves A to

        argmin over B ≻ 0 of D_logdet(B, A) + η/2 (zᵀBz - y)²,

    which is a rank-one change of A and keeps it positive definite without a projection [Jain2008].

    Attributes
    ----------
    A_ : array of shape (n_features, n_features)
    A_average_ : array of the same shape
        Mean of the states over the stream, with ``average=True``.
    components_ : array of shape (n_features or n_components, n_features)
        L with A = LᵀL.
    bounds_ : array of shape (2,)
        The distances in use.
    n_seen_, n_updates_ : int
        Pairs learnt from, and those of them that changed A.

    Notes
    -----
    A pair costs 4 d² flops in matrix products over blocks; the states are those of the
    one-at-a-time form up to rounding.

    References
    ----------
    .. [Jain2008] P. Jain, B. Kulis, I. Dhillon, K. Grauman, "Online Metric Learning and Fast
       Similarity Search", NIPS 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from similia import LEGO
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = LEGO(n_pairs=2000, random_state=0).fit(X, y)
    >>> distance = learner.pairwise_distance(X[[0, 1, 149]])
    >>> bool(distance[0, 1] < distance[0, 2])
    True
    """

    eta: float = parameter(
        default=0.1, rule=positive, doc="Larger eta follows each pair more closely."
    )

    divergence = "logdet"

    def _targets_of_signs(self, signs: Array) -> Array:
        if self.feedback == "labels":
            return super()._targets_of_signs(signs)
        return self._targets(np.where(signs > 0, self.bounds_[0], self.bounds_[1]))

    def _learn_block(self, Z: Matrix, targets: Array) -> int:
        return lego_pass(self.A_, self.moment_, self.n_seen_, Z, targets, float(self.eta))

    def _bolder(self, n: int) -> dict[str, Any]:
        return {"eta": float(self.eta) * n}
