"""OASIS: the passive-aggressive baseline for bilinear similarities."""

from typing import Any

from similia.contract import Matrix
from similia.parameters import parameter
from similia.similarity.base import BilinearSimilarity
from similia.updates.oasis import oasis_pass
from similia.validation import positive


class OASIS(BilinearSimilarity):
    """Bilinear similarity learnt from triplets by passive-aggressive steps.

    A triplet (query q, better and worse item with difference p) moves W just far enough to score
    the better item one above the worse, but no step is longer than C:

        W += tau q pᵀ,   tau = min(C, loss / (|q|²|p|²)),   loss = max(0, 1 - qᵀWp)  [Chechik2010]

    Attributes
    ----------
    W_ : array of shape (n_features, n_item_features)
    W_average_ : array of the same shape
        Mean of the states over the stream, with ``average=True``.
    prior_scale_ : float
    n_seen_, n_updates_ : int
        Triplets learnt from, and those of them that changed W.

    Notes
    -----
    A triplet of sparse rows with k_q and k_p non-zeros costs k_q k_p, of dense rows 4 mn flops in
    matrix products over blocks; the states are those of the one-at-a-time form up to rounding.

    References
    ----------
    .. [Chechik2010] G. Chechik, V. Sharma, U. Shalit, S. Bengio, "Large Scale Online Learning of
       Image Similarity Through Ranking", JMLR 11, 2010.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from similia import OASIS
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = OASIS(n_triplets=2000, random_state=0).fit(X, y)
    >>> scores = learner.triplet_scores(X, [[0, 1, 149], [149, 148, 0]])
    >>> bool((scores > 0).all())
    True
    """

    C: float = parameter(
        default=0.1, rule=positive, doc="Larger C follows each triplet more closely."
    )

    def _learn_block(self, Q: Matrix, P: Matrix) -> int:
        return oasis_pass(self.W_, self.moment_, self.n_seen_, Q, P, float(self.C))

    def _bolder(self, n: int) -> dict[str, Any]:
        return {"C": float(self.C) * n}

    def _steps_to_merge(self) -> int:
        return 6 * sum(self.W_.shape)
