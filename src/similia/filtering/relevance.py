"""Filtering by a learnt distance to the relevant documents seen so far."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from similia.contract import Array, Indices, Matrix, Scorer
from similia.filtering.protocol import OnlineFilter
from similia.linalg.blas import quadratic_forms
from similia.validation import Rule, none, one_of, positive_integer


class ThresholdedMetric(Scorer, Protocol):
    """Learner of distances from pairs that also learns where "similar" ends."""

    @property
    def threshold_(self) -> float:
        """Squared distance up to which two points are similar."""

    def learn(self, X: Matrix, pairs: ArrayLike, y: ArrayLike) -> object:
        """Learn pairs of rows, similar (+1) or dissimilar (-1), in order."""


@runtime_checkable
class MatrixMetric(Protocol):
    """Learner of (x-z)ᵀA(x-z) that exposes A."""

    A_: Array
    n_components: int | None
    average: bool
    n_seen_: int
    n_updates_: int

    def metric_matrix(self) -> Array | None:
        """A of the squared distances in use; None if they are not of that form."""


_thresholded = Rule(
    "a learner of distances with learn, pairwise_score and threshold_",
    lambda v: {"learn", "pairwise_score", "threshold_"} <= set(dir(type(v))),
)


class RelevanceFilter(OnlineFilter):
    """A document is relevant if it is near a relevant one, by a distance learnt along the way.

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
        self, learner: ThresholdedMetric, *, pairs: str | int = "nearest", budget: int | None = None
    ) -> None:
        self.learner, self.pairs, self.budget = learner, pairs, budget

    @property
    def relevant_(self) -> Matrix:
        """The relevant documents kept, oldest first."""
        if self._kept is None:
            raise AttributeError(f"{self._owner}: relevant_ exists after learn or run, not before.")
        return self._kept.rows.copy()

    def _begin(self, X: Matrix) -> None:
        # Without pairs: the learner starts if it has not yet, and refuses what it cannot take.
        self.learner.learn(X[:1], [], [])
        if self._kept is None:
            self._kept = KeptDocuments(X)

    def _visit(self, X: Matrix, i: int, relevant: bool | None = None) -> bool:
        kept, said = self._kept, False
        if kept is not None and kept.rows.shape[0]:
            distances = kept.squared_distances(self.learner, X, i)
            said = bool(distances.min() <= self.learner.threshold_)
            if relevant is not None:
                partners = dense_rows(kept.rows, self._chosen(distances))
                self._teach(partners, dense_rows(X, [i]), relevant)
        if kept is not None and relevant:
            kept.append(X, i, self.budget)
        return said

    def _teach(self, partners: Array, x: Array, relevant: bool) -> None:
        """Teach the pairs of x with its partners.

        Rows are dense: a learner of d² numbers would spend more on finding out that they are not.
        """
        n = len(partners)
        pairs = np.column_stack([np.full(n, n), np.arange(n)])
        self.learner.learn(np.concatenate([partners, x]), pairs, np.full(n, 1 if relevant else -1))

    def _chosen(self, distances: Array) -> Indices:
        if self.pairs == "nearest":
            return np.array([distances.argmin()])
        order = distances.argsort(kind="stable")
        return order if isinstance(self.pairs, str) else order[: self.pairs]


class KeptDocuments:
    """Documents z with their squared distances to a new one under a learner.

    For a learner of (x-z)ᵀA(x-z) that is xᵀAx - 2zᵀAx + zᵀAz, where zᵀAz is kept until the learner
    changes. Others are asked for their `pairwise_score`.
    """

    _learner: ThresholdedMetric | None = None
    _metric: MatrixMetric | None = None
    _state: Array | None = None
    _version: tuple[int | None, ...] = ()
    _A: Array | None = None
    _own: Array = np.empty(0)  # zᵀAz of the first documents kept

    def __init__(self, like: Matrix) -> None:
        """Start without documents, in the form of the rows `like`."""
        self.rows = like[:0].copy()

    def append(self, X: Matrix, i: int, budget: int | None) -> None:
        """Keep row i of X as well; beyond the budget, forget the oldest document."""
        Z = self.rows
        first = 0 if budget is None else max(0, Z.shape[0] + 1 - budget)
        self._own = self._own[first:]
        if isinstance(Z, np.ndarray):
            self.rows = np.concatenate([Z[first:], X[i : i + 1]])
            return
        places, values = row_of(X, i)
        starts = np.append(Z.indptr, Z.indptr[-1] + len(values))[first:]
        data = np.concatenate([Z.data[starts[0] :], values])
        indices = np.concatenate([Z.indices[starts[0] :], places])
        shape = (len(starts) - 1, Z.shape[1])
        self.rows = sparse.csr_array((data, indices, starts - starts[0]), shape=shape)

    def squared_distances(self, learner: ThresholdedMetric, X: Matrix, i: int) -> Array:
        """Squared distances of row i of X to all documents."""
        Z, A = self.rows, self._matrix(learner)
        if A is None:
            return np.asarray(-learner.pairwise_score(X[i : i + 1], Z)[0])
        if len(self._own) < Z.shape[0]:
            new = Z[len(self._own) :].astype(A.dtype, copy=False)
            self._own = np.concatenate([self._own, quadratic_forms(A, new)])
        places, values = row_of(X, i)
        Ax = values @ A[places]
        return np.maximum(Ax[places] @ values - 2 * (Z @ Ax) + self._own, 0.0)

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


def row_of(X: Matrix, i: int) -> tuple[Any, Array]:
    """Places and values of the entries of row i, not copied; all places of a dense row."""
    if isinstance(X, np.ndarray):
        return slice(None), X[i]
    entries = slice(X.indptr[i], X.indptr[i + 1])
    return X.indices[entries], X.data[entries]


def dense_rows(X: Matrix, indices: Sequence[int] | Indices) -> Array:
    """Rows of an array or CSR matrix, as a new dense array."""
    rows = np.zeros((len(indices), X.shape[1]), X.dtype)
    for row, i in zip(rows, indices, strict=True):  # for a few rows faster than scipy's indexing
        places, values = row_of(X, i)
        row[places] = values
    return rows
