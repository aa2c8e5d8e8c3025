"""Filtering by the distance to the relevant documents seen so far, while it is learnt."""

from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array, Indices, Matrix, Scorer
from similia.filtering.protocol import OnlineFilter
from similia.linalg.blas import quadratic_forms
from similia.linalg.blocks import RowStore, dense_rows, row_of
from similia.validation import Rule, none, one_of, positive_integer


class ThresholdedMetric(Scorer, Protocol):
    """Learner of distances from pairs that also learns where "similar" ends."""

    @property
    def threshold_(self) -> float:
        """Squared distance up to which two points are similar."""
        ...

    def learn(self, X: Matrix, pairs: ArrayLike, y: ArrayLike) -> Any:
        """Learn pairs of rows, similar (+1) or dissimilar (-1), in order."""
        ...


@runtime_checkable
class MatrixMetric(Protocol):
    """Learner of (x-z)ᵀA(x-z), of which A is known."""

    A_: Array
    n_components: int | None
    average: bool
    n_seen_: int
    n_updates_: int

    def metric_matrix(self) -> Array | None:
        """A of the squared distances in use; None if they are not of that form."""
        ...


_thresholded = Rule(
    "a learner of distances with learn, pairwise_score and threshold_",
    lambda v: {"learn", "pairwise_score", "threshold_"} <= set(dir(type(v))),
)


class RelevanceFilter(OnlineFilter):
    """Relevant is what is near to something relevant, under a distance learnt along the way.

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
        Which relevant documents a new one is paired with: the nearest, all of them, or that many of
        the nearest; the nearest come first.
    budget : positive integer or None
        Most relevant documents kept; the oldest goes first. Memory and time for a document are
        proportional to it.

    Attributes
    ----------
    relevant_ : array or CSR array of shape (n_kept, n_features)
        The relevant documents kept, oldest first.

    Notes
    -----
    The paper does not say which pairs are learnt. The default teaches the pair that decided the
    prediction, so that the loss of the learner is the margin loss of the filter itself.

    With A the learner's matrix and k non-zeros in a document of d features, distances to n kept
    documents cost kd + nk, and nk² (dense: nd²) more after A has changed, for zᵀAz. Pairs are
    taught as dense rows; with "all", as many as documents are kept.

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
        "learner": _thresholded,
        "pairs": one_of("nearest", "all") | positive_integer,
        "budget": positive_integer | none,
    }
    _kept: "KeptDocuments | None" = None

    def __init__(
        self,
        learner: ThresholdedMetric,
        *,
        pairs: str | int = "nearest",
        budget: int | None = None,
    ) -> None:
        self.learner = learner
        self.pairs = pairs
        self.budget = budget

    @property
    def relevant_(self) -> Matrix:
        """The relevant documents kept, oldest first."""
        if self._kept is None:
            raise AttributeError(f"{self._owner}: relevant_ exists after learn or run, not before.")
        return self._kept.rows.copy()

    def _begin(self, X: Matrix) -> None:
        # Without pairs: the learner starts if it has not yet, and refuses what it cannot take.
        self.learner.learn(X[:1], np.empty((0, 2), dtype=np.intp), np.empty(0, dtype=np.int8))
        if self._kept is None:
            self._kept = KeptDocuments(X)

    def _visit(self, X: Matrix, i: int, relevant: bool | None = None) -> bool:
        kept, said = self._kept, False
        if kept is not None and len(kept):
            distances = kept.squared_distances(self.learner, X, i)
            said = bool(distances.min() <= self.learner.threshold_)
            if relevant is not None:
                self._teach(dense_rows(kept.rows, self._chosen(distances)), X, i, relevant)
        if kept is not None and relevant:
            kept.append(row_of(X, i))
            if self.budget is not None and len(kept) > self.budget:
                kept.remove_first()
        return said

    def _teach(self, partners: Array, X: Matrix, i: int, relevant: bool) -> None:
        """Teach the pairs of row i with its partners, as dense rows.

        A learner of d² numbers spends less on a row of d than on finding out that it is sparse.
        """
        n = len(partners)
        pairs = np.column_stack([np.full(n, n), np.arange(n)])
        y = np.full(n, 1 if relevant else -1, dtype=np.int8)
        self.learner.learn(np.concatenate([partners, dense_rows(X, [i])]), pairs, y)

    def _chosen(self, distances: Array) -> Indices:
        if self.pairs == "nearest":
            return np.array([distances.argmin()])
        order = distances.argsort(kind="stable")
        return order if isinstance(self.pairs, str) else order[: self.pairs]


class KeptDocuments(RowStore):
    """Documents z with their squared distances to a new one under a learner.

    For a learner of (x-z)ᵀA(x-z) that is xᵀAx - 2zᵀAx + zᵀAz, where zᵀAz is kept until the learner
    changes. Others are asked for their `pairwise_score`.
    """

    def __init__(self, like: Matrix) -> None:
        """Start without documents, in the form of the rows `like`."""
        super().__init__(like)
        self._learner: ThresholdedMetric | None = None
        self._metric: MatrixMetric | None = None
        self._state: Array | None = None
        self._version: tuple[int | None, ...] = ()
        self._A: Array | None = None
        self._own = np.empty(0)  # zᵀAz of the first documents kept

    def remove_first(self) -> None:
        """Remove the oldest document."""
        super().remove_first()
        self._own = self._own[1:]

    def squared_distances(self, learner: ThresholdedMetric, X: Matrix, i: int) -> Array:
        """Squared distances of row i of X to all documents."""
        Z, A = self.rows, self._matrix(learner)
        if A is None:
            return np.asarray(-learner.pairwise_score(X[i : i + 1], Z)[0])
        if len(self._own) < len(self):
            new = Z[len(self._own) :].astype(A.dtype, copy=False)
            self._own = np.concatenate([self._own, quadratic_forms(A, new)])
        x = row_of(X, i)
        Ax = x.values @ A[x.places]
        return np.maximum(Ax[x.places] @ x.values - 2 * (Z @ Ax) + self._own, 0.0)

    def _matrix(self, learner: ThresholdedMetric) -> Array | None:
        """The learner's matrix, fetched again only if the learner has changed."""
        if learner is not self._learner:
            self._learner, self._state = learner, None
            self._metric = learner if isinstance(learner, MatrixMetric) else None
        metric = self._metric
        if metric is None:
            return None
        # The array changes in place with every update, an average with every pair.
        seen = metric.n_seen_ if metric.average else None
        version = (metric.n_updates_, seen, metric.n_components)
        if metric.A_ is not self._state or version != self._version:
            self._state, self._version = metric.A_, version
            self._A = metric.metric_matrix()
            self._own = np.empty(0, dtype=np.float64 if self._A is None else self._A.dtype)
        return self._A
