"""AROMA: a distribution over bilinear similarities, learnt from triplets."""

from collections.abc import Sequence
from typing import ClassVar, Self

import numpy as np

from similia.contract import Array, Matrix, State
from similia.linalg.blas import bilinear_forms, products, row_products
from similia.linalg.blocks import squared
from similia.linalg.gaussian import merged_diagonal, merged_factored
from similia.linalg.spectral import psd_factor
from similia.parameters import parameter
from similia.similarity.gaussian import THRESHOLDS, GaussianSimilarity
from similia.updates.aroma import diagonal_pass, factored_pass
from similia.validation import one_of


class FactoredAROMA(GaussianSimilarity):
    """Bilinear similarity with a matrix-variate Gaussian over W, its covariance Ω ⊗ Λ factored.

    Λ holds how uncertain the directions of queries still are, Ω those of items. A triplet (query q,
    better and worse item with difference p) that scores s = qᵀWp < 1 moves, all with the matrices
    before the update, a = qᵀΛq and b = pᵀΩp,

        W += (1-s)/(r+ab) Λq pᵀΩ                                               [Crammer2012, 12]
        Ω -= a/(mr+ab) Ωp pᵀΩ,   Λ -= b/(nr+ab) Λq qᵀΛ                         [Crammer2012, 13, 14]

    Attributes
    ----------
    W_ : array of shape (n_features, n_item_features)
        Mean of the distribution, after the last triplet.
    W_average_ : array of the same shape
        Mean of those means over the stream, with ``average=True``.
    Lambda_, Omega_ : arrays of shape (n_features, n_features), (n_item_features, n_item_features)
        Covariance of queries' and items' directions.
    prior_scale_ : float
    n_seen_, n_updates_ : int
        Triplets learnt from, and those of them that changed the state.

    Notes
    -----
    A triplet costs 2 mn flops (m = n) for its score and 10 mn more if it is learnt from, in matrix
    products over blocks of triplets: the states are those of the one-at-a-time form up to rounding.
    Memory is the state, mn + m² + n², and a block.

    The paper's Theorem 2 is about ``update_on="mistake"`` with ``prior="zero"`` and a number for r;
    its experiments are with ``update_on="margin"``.

    References
    ----------
    .. [Crammer2012] K. Crammer, G. Chechik, "Adaptive Regularization for Weight Matrices",
       ICML 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from similia import FactoredAROMA
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = FactoredAROMA(n_triplets=2000, random_state=0).fit(X, y)
    >>> score, std = learner.pairwise_score(X[:1], X[:2], return_std=True)
    >>> score.shape, bool((std > 0).all())
    ((1, 2), True)
    """

    _state: ClassVar = (*GaussianSimilarity._state, "Lambda_", "Omega_")

    def _init_state(self, X: Matrix, Z: Matrix) -> None:
        super()._init_state(X, Z)
        of_queries, of_items = map(self.W_.dtype.type, self._start_variances(X, Z))
        self.Lambda_ = of_queries * np.eye(X.shape[1], dtype=self.W_.dtype)
        self.Omega_ = of_items * np.eye(Z.shape[1], dtype=self.W_.dtype)

    def _learn_block(self, Q: Matrix, P: Matrix) -> int:
        state = (self.W_, self.Lambda_, self.Omega_, self.moment_, self.n_seen_)
        return factored_pass(*state, Q, P, self._noise, THRESHOLDS[self.update_on])

    def _variances(self, Q: Matrix, Z: Matrix) -> Array:
        QL, ZO = products((Q, self.Lambda_), (Z, self.Omega_))
        return np.outer(row_products(QL, Q), row_products(ZO, Z))

    def _row_variances(self, Q: Matrix, P: Matrix) -> Array:
        QL, PO = products((Q, self.Lambda_), (P, self.Omega_))
        return row_products(QL, Q) * row_products(PO, P)

    def _draw(self, rng: np.random.RandomState) -> Array:
        noise = rng.standard_normal(self.W_.shape).astype(self.W_.dtype)
        return psd_factor(self.Lambda_).T @ noise @ psd_factor(self.Omega_)

    def _merged_state(self, parts: Sequence[Self]) -> State:
        states = [(part.W_, part.Lambda_, part.Omega_) for part in (self, *parts)]
        W, Lambda, Omega = merged_factored(states[0], states[1:])
        return {"W_": W, "Lambda_": Lambda, "Omega_": Omega}


class DiagonalAROMA(GaussianSimilarity):
    """Bilinear similarity with an independent Gaussian over each entry of W.

    A triplet (query q, better and worse item with difference p) that scores s = qᵀWp < 1 moves,
    with x = qpᵀ and v = Σ_kl x²Σ before the update,

        W += (1-s)/(v+r) Σ⊙x,   Σ -= (Σ⊙x)²/(v+r)                              [Crammer2012, 5, 6]

    Attributes
    ----------
    W_ : array of shape (n_features, n_item_features)
        Mean of the distribution, after the last triplet.
    W_average_ : array of the same shape
        Mean of those means over the stream, with ``average=True``.
    Sigma_ : array of the same shape
        Variance of each entry of W.
    prior_scale_ : float
    n_seen_, n_updates_ : int
        Triplets learnt from, and those of them that changed the state.

    Notes
    -----
    A triplet of sparse rows with k_q and k_p non-zeros costs k_q k_p; dense rows cost one pass
    over W and Σ. Memory is the state, 2mn, and a block of rows.

    The paper states Theorem 1 for the printed update, but random sequences with large r violate it;
    it holds for ``update="analysed"``, ``update_on="margin"``, ``prior="zero"`` and a number for r.

    References
    ----------
    .. [Crammer2012] K. Crammer, G. Chechik, "Adaptive Regularization for Weight Matrices",
       ICML 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from similia import DiagonalAROMA
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = DiagonalAROMA(n_triplets=2000, random_state=0).fit(X, y)
    >>> learner.n_seen_, learner.Sigma_.shape
    (2000, (4, 4))
    """

    update: str = parameter(
        default="printed",
        rule=one_of("printed", "analysed"),
        doc="The update above, or the one that the paper's Theorem 1 covers: W = Σ⊙θ with θ += x, "
        "1/Σ += x²/r. See the notes.",
    )

    _state: ClassVar = (*GaussianSimilarity._state, "Sigma_")
    _block = 256

    def _init_state(self, X: Matrix, Z: Matrix) -> None:
        super()._init_state(X, Z)
        of_queries, of_items = self._start_variances(X, Z)
        self.Sigma_ = np.full_like(self.W_, of_queries * of_items)

    def _learn_block(self, Q: Matrix, P: Matrix) -> int:
        state = (self.W_, self.Sigma_, self.moment_, self.n_seen_)
        rule = (self._noise, THRESHOLDS[self.update_on], self.update == "analysed")
        return diagonal_pass(*state, Q, P, *rule)

    def _variances(self, Q: Matrix, Z: Matrix) -> Array:
        return np.asarray((squared(Z) @ (squared(Q) @ self.Sigma_).T).T)

    def _row_variances(self, Q: Matrix, P: Matrix) -> Array:
        return bilinear_forms(self.Sigma_, squared(Q), squared(P))

    def _draw(self, rng: np.random.RandomState) -> Array:
        return np.sqrt(self.Sigma_) * rng.standard_normal(self.W_.shape).astype(self.W_.dtype)

    def _merged_state(self, parts: Sequence[Self]) -> State:
        W, Sigma = merged_diagonal(
            (self.W_, self.Sigma_), [(part.W_, part.Sigma_) for part in parts]
        )
        return {"W_": W, "Sigma_": Sigma}
