"""OASIS: the passive-aggressive baseline for bilinear similarities."""

from typing import Any, ClassVar

from similia.contract import Array
from similia.similarity.base import BilinearSimilarity
from similia.updates.oasis import oasis_pass
from similia.validation import positive


class OASIS(BilinearSimilarity):
    """Bilinear similarity learnt from triplets by passive-aggressive steps.

    A triplet (query q, better and worse item with difference p) moves W just far enough to score
    the better item one above the worse, but no step is longer than C:

        W += tau q pᵀ,   tau = min(C, loss / (|q|²|p|²)),   loss = max(0, 1 - qᵀWp)  [Chechik2010]

    Parameters
    ----------
    C : positive number
        Larger C follows each triplet more closely.
    prior : {"identity", "zero"} or array of shape (n_features, n_item_features)
        Where W starts: the similarity that the user already has, zero, or a matrix.
    prior_scale : "auto" or positive number
        Factor of the prior against the margin 1. "auto" makes the typical gap between two items
        (root mean square) equal the margin, and is reported as `prior_scale_`. A smaller one learns
        faster and forgets the prior sooner: right where the prior is poor. The paper starts from 1.
    average : bool
        Score with the mean of the states over the stream instead of the last one.
    sampler : {"uniform", "balanced", "hard"} or function (y, n, rng, score) -> triplets
        How `fit` and `partial_fit` draw triplets from labels.
    n_triplets : int
        How many they draw at each call.
    random_state : int, RandomState or None
        Seed of that drawing.
    verbose : bool
        Show a progress bar.

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

    _rules: ClassVar = {**BilinearSimilarity._rules, "C": positive}

    def __init__(
        self,
        *,
        C: float = 0.1,
        prior: str | Array = "identity",
        prior_scale: Any = "auto",
        average: bool = True,
        sampler: Any = "uniform",
        n_triplets: int = 50_000,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.prior = prior
        self.prior_scale = prior_scale
        self.average = average
        self.sampler = sampler
        self.n_triplets = n_triplets
        self.random_state = random_state
        self.verbose = verbose

    def _learn_block(self, Q: Any, P: Any) -> int:
        return oasis_pass(self.W_, self.moment_, self.n_seen_, Q, P, float(self.C))
