"""Filtering by the distance to the relevant documents seen so far, while it is learnt."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from similia.filtering.kept import KeptDocuments
from similia.filtering.protocol import OnlineFilter
from similia.linalg.rows import dense_rows, row_of
from similia.validation import Rule, none, one_of, positive_integer

Array = NDArray[Any]

_THRESHOLDED = Rule(
    "a learner of distances with learn, pairwise_score and threshold_",
    lambda v: all(
        hasattr(v, name) or hasattr(type(v), name)
        for name in ("learn", "pairwise_score", "threshold_")
    ),
)


class RelevanceFilter(OnlineFilter):
    """Relevant is what is near to something relevant, under a distance that is learnt meanwhile.

    A document x is called relevant if min_z d²(x, z) <= b over the relevant documents z seen so
    far, with the learner's distance d and threshold b; before the first one, nothing is. Then its
    label y = ±1 is revealed, and the learner is taught pairs (x, z) with that label: similar if x
    is relevant, dissimilar if not [ShalevShwartz2004, section 7].

    Parameters
    ----------
    learner : learner of distances
        With ``learn(X, pairs, y)``, ``pairwise_score(Q, Z)`` (minus the squared distance) and
        ``threshold_``, as POLA has. It is taught in place, and may have learnt before.
    pairs : "nearest", "all" or positive integer
        With which of the relevant documents a new one is paired: the nearest, all of them, or so
        many of the nearest; the nearest come first.
    budget : positive integer or None
        Most relevant documents kept; the oldest goes first. Memory and time for a document are
        proportional to it.

    Attributes
    ----------
    relevant_ : array or CSR array of shape (n_kept, n_features)
        The relevant documents kept, oldest first.

    Notes
    -----
    The paper does not say which pairs are learnt. The default teaches the pair that the prediction
    was made by, so that the loss of the learner is the margin loss of the filter itself.

    With A the learner's matrix and k non-zeros in a document of d features, distances to n kept
    documents cost kd + nk, and nk² (dense: nd²) more after A has changed, for zᵀAz. The pairs are
    taught as dense rows, with "all" so many as documents are kept.

    References
    ----------
    .. [ShalevShwartz2004] S. Shalev-Shwartz, Y. Singer, A. Ng, "Online and Batch Learning of
       Pseudo-Metrics", ICML 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from similia import POLA, RelevanceFilter
    >>> rng = np.random.default_rng(0)
    >>> relevant = rng.random(400) < 0.2
    >>> X = 0.3 * rng.normal(size=(400, 10))
    >>> X[:, 0] += np.where(relevant, 1.0, -1.0)
    >>> learner = POLA(start="zero", unit=1, threshold_rate=1, average=False)
    >>> documents = RelevanceFilter(learner)
    >>> early = documents.run(X[:200], relevant[:200])
    >>> late = documents.run(X[200:], relevant[200:])
    >>> bool(late.equalized_error < early.equalized_error)
    True
    """

    _rules: ClassVar = {
        "learner": _THRESHOLDED,
        "pairs": one_of("nearest", "all") | positive_integer,
        "budget": positive_integer | none,
    }

    def __init__(self, learner: Any, *, pairs: Any = "nearest", budget: int | None = None) -> None:
        self.learner = learner
        self.pairs = pairs
        self.budget = budget

    @property
    def relevant_(self) -> Any:
        """The relevant documents kept, oldest first."""
        if not hasattr(self, "_kept"):
            raise AttributeError(
                f"{self._owner}: relevant_ is there after learn or run, not before."
            )
        return self._kept.rows.copy()

    def _begin(self, X: Any) -> None:
        # No pairs: the learner refuses what it does not like, and starts if it has not yet.
        self.learner.learn(X[:1], np.empty((0, 2), dtype=np.intp), np.empty(0, dtype=np.int8))
        if not hasattr(self, "_kept"):
            self._kept = KeptDocuments(X)

    def _judged(self, X: Any, i: int) -> tuple[bool, Array]:
        if not len(getattr(self, "_kept", ())):
            return False, np.empty(0)
        distances = self._kept.squared_distances(self.learner, X, i)
        return bool(distances.min() <= self.learner.threshold_), distances

    def _learn_row(self, X: Any, i: int, relevant: bool, evidence: Array | None = None) -> None:
        distances = self._judged(X, i)[1] if evidence is None else evidence
        if len(distances):
            # Dense, for a learner of d² numbers spends less on a row of d than on finding out that
            # it is sparse.
            partners = dense_rows(self._kept.rows, self._chosen(distances))
            n = len(partners)
            pairs = np.column_stack([np.full(n, n), np.arange(n)])
            y = np.full(n, 1 if relevant else -1, dtype=np.int8)
            self.learner.learn(np.concatenate([partners, dense_rows(X, [i])]), pairs, y)
        if relevant:
            self._kept.append(row_of(X, i))
            if self.budget is not None and len(self._kept) > self.budget:
                self._kept.remove_first()

    def _chosen(self, distances: Array) -> NDArray[np.intp]:
        if self.pairs == "nearest":
            return np.array([distances.argmin()])
        order = distances.argsort(kind="stable")
        return order if self.pairs == "all" else order[: self.pairs]
