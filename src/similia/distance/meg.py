"""MEG: matrix exponentiated gradient, for metrics, kernels over objects and density matrices."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from similia.contract import Array
from similia.distance.instances import checked_instances, checked_labels
from similia.distance.loss_bound import BoundedLoss
from similia.linalg.blocks import difference_of_rows
from similia.linalg.eigen_update import SHARED
from similia.linalg.threads import single_blas_thread
from similia.progress import progress
from similia.updates.meg import MEGSetting, gathered, meg_matrix_pass, meg_pass
from similia.validation import boolean, one_of, pair_of_numbers, positive

#: instances after which the eigenvectors are looked at
CHECKED = 512
#: a distance whose fourth power is finite with room to spare
FAR = 1e70


class MEG(BoundedLoss):
    """Positive definite matrix learnt from distances by matrix exponentiated gradient steps.

    A pair with difference z and distance y is an instance X = zzᵀ with label y² for tr(AX) = zᵀAz,
    its *squared* distance. With A = s·W, s the trace, each instance moves log W along the
    gradient of the squared loss (ŷ - y²)², ŷ = tr(AX), and keeps the trace of A:

        W <- exp(log W - 2η(ŷ - y²) s X) / Z,  Z such that tr W = 1          [Tsuda2005, (3.5)]

    There are three things to learn a matrix of, in the same way:

    - a metric over features: ``learn(X, pairs, distances)``, or `fit` with classes;
    - a kernel matrix over objects of which nothing is known but distances:
      ``MEG(n_objects=...).learn(None, pairs, distances)``; then ``pairwise_distance(None)``
      has all distances, and `embedding` gives points;
    - any matrix that is measured: ``learn_matrices(instances, y)``, which takes tr(AX) = y for
      general X, and density matrices with ``field="complex"``.

    Parameters
    ----------
    eta : "auto" or positive number
        Larger eta follows each instance more closely. "auto" is 1.5/ρ² for each instance, with ρ
        the range of the eigenvalues of s·X, which is s|z|² for a pair. The total loss is then at
        most four times that of any other matrix, plus 2/3 ρ² times its divergence from the start
        (`loss_bound`). If a matrix explains all distances, 2/ρ² is better, the largest eta that
        has a bound; if they are noisy, a smaller one is. Without `normalized` "auto" is
        1/(ρ(ŷ + y²)), which does not overshoot where z is an eigenvector.
    normalized : bool
        Keep the trace (3.5), or let it be learnt too (3.4, for which no bound is proven).
    start : "identity" or array of shape (n, n)
        A before the first instance, up to its trace: the Euclidean distance, or a symmetric (with
        ``field="complex"``, Hermitian) positive definite matrix. The nearer it is to the one that
        is sought, the less is lost on the way: the bound grows with the divergence between them.
    trace : "auto" or positive number
        Trace of A; without `normalized`, where it starts. "auto" is that of `start`.
        Distances can only be met with one that is large enough: for n objects, the sum of all n²
        squared distances divided by 2n.
    feedback : {"distances", "labels"}
        What `learn` is given for a pair: its distance (not squared); or +1 (similar) and -1.
    bounds : "auto" or (number, number)
        With labels, and for `fit`, which draws them from classes: similar pairs should be no
        farther apart than the first distance, dissimilar ones no closer than the second; pairs
        that are so already need no step. "auto" takes the 5th and 95th percentile of the
        distances of random pairs at the start.
    n_objects : int or None
        Size of the kernel matrix where there are no features (``X=None``).
    field : {"real", "complex"}
        Whether A is real symmetric or complex Hermitian. Features are real in either case.
    average : bool
        Measure with the mean of the matrices over the stream instead of the last one. That costs
        one more matrix product for each instance.
    sampler : {"balanced", "uniform"} or function (y, n, rng) -> (pairs, signs)
        How `fit` and `partial_fit` draw pairs from classes.
    n_pairs : int
        How many they draw at each call.
    n_components : int or None
        Directions that distances and `transform` keep, those of the largest eigenvalues; None: all.
    random_state : int, RandomState or None
        Seed of that drawing.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    A_, K_ : array of shape (n, n)
        The matrix, under the name for features and under that for objects; float64 or complex128
        whatever the precision of the data.
    W_ : array of the same shape
        A divided by `trace_`: the paper's matrix, of trace one if `normalized`.
    A_average_ : array of the same shape
        Mean of the states over the stream, with ``average=True``.
    log_eigenvalues_, eigenvectors_ : arrays of shape (n,) and (n, n)
        Eigenvalues of log W, up to a common number if `normalized`, and eigenvectors as rows.
    total_loss_ : float
        Sum of (ŷ - y²)² so far, each before its step.
    range_ : float
        Largest ρ of an instance so far.
    trace_ : float
    bounds_ : array of shape (2,)
    n_seen_, n_updates_ : int

    Notes
    -----
    The eigendecomposition of log W follows each rank-one instance (`linalg.eigen_update`): O(n²)
    and one matrix product over the eigenvectors that change, and no new eigendecomposition. The
    paper has X = zzᵀ/2, so that its tr(WX) is *half* of the squared distance: its η is four times
    ours, and its losses a quarter.

    References
    ----------
    .. [Tsuda2005] K. Tsuda, G. Rätsch, M. Warmuth, "Matrix Exponentiated Gradient Updates for
       On-line Learning and Bregman Projection", JMLR 6, 2005.

    Examples
    --------
    Distances between points that are never seen:

    >>> import numpy as np
    >>> from similia import MEG
    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal(size=(20, 2))
    >>> distance = np.linalg.norm(points[:, None] - points, axis=2)
    >>> pairs = rng.integers(20, size=(5000, 2))
    >>> trace = (distance**2).sum() / 40
    >>> learner = MEG(n_objects=20, trace=trace).learn(None, pairs, distance[tuple(pairs.T)])
    >>> bool(np.abs(learner.pairwise_distance(None) - distance).mean() < 0.1)
    True
    >>> learner.embedding(2).shape
    (20, 2)
    """

    _rules: ClassVar = {
        **BoundedLoss._rules,
        "eta": one_of("auto") | positive,
        "normalized": boolean,
        "feedback": one_of("distances", "labels"),
        "bounds": one_of("auto") | pair_of_numbers,
    }
    _state: ClassVar = (*BoundedLoss._state, "bounds_")

    def __init__(
        self,
        *,
        eta: Any = "auto",
        normalized: bool = True,
        start: Any = "identity",
        trace: Any = "auto",
        feedback: str = "distances",
        bounds: Any = "auto",
        n_objects: int | None = None,
        field: str = "real",
        average: bool = False,
        sampler: Any = "balanced",
        n_pairs: int = 50_000,
        n_components: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.eta = eta
        self.normalized = normalized
        self.start = start
        self.trace = trace
        self.feedback = feedback
        self.bounds = bounds
        self.n_objects = n_objects
        self.field = field
        self.average = average
        self.sampler = sampler
        self.n_pairs = n_pairs
        self.n_components = n_components
        self.random_state = random_state
        self.verbose = verbose

    # -- learning ------------------------------------------------------------------------------

    def learn(self, X: Any, pairs: Any, y: Any) -> Self:
        """Learn from pairs and their distances, in order; pieces give the same as the whole.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features), or None
            Without it, learn a kernel matrix over `n_objects` objects.
        pairs : integer array of shape (n_pairs, 2)
            Rows of `X`, or objects, that are compared.
        y : array of shape (n_pairs,)
            Distances (not squared); or +1 and -1, see `feedback`.

        Returns
        -------
        The learner itself. On an error nothing has changed.
        """
        self._check_parameters()
        with self._all_or_nothing():
            return super().learn(self._objects() if X is None else X, pairs, y)

    def learn_matrices(self, instances: Any, y: Any) -> Self:
        """Learn from measurements tr(AX) = y of any instance matrices X, in order.

        Parameters
        ----------
        instances : array of shape (n, d), array of shape (n, d, d), or sequence of n matrices
            Rows x that stand for X = xxᴴ (fast: as pairs), dense or CSR; or matrices, dense or
            sparse, of which the Hermitian part counts. A matrix of rank above six costs a new
            eigendecomposition.
        y : array of shape (n,)

        Returns
        -------
        The learner itself. On an error nothing has changed.
        """
        self._check_parameters()
        where, fitted = f"{self._owner}.learn_matrices", self.__sklearn_is_fitted__()
        size = self.n_features_in_ if fitted else None
        instances = checked_instances(where, instances, size, self.field == "complex")
        matrices = isinstance(instances, list)
        y = checked_labels(where, y, len(instances) if matrices else instances.shape[0])
        follow = meg_matrix_pass if matrices else meg_pass
        with self._all_or_nothing(), progress(self._owner, len(y), enabled=self.verbose) as advance:
            if not fitted:
                self.n_features_in_ = (instances[0] if matrices else instances).shape[1]
                self._init_state(sparse.csr_array((1, self.n_features_in_)))
            targets = np.column_stack([y, y])
            self._walk(lambda b: self._follow(follow, instances[b], targets[b]), len(y), advance)
        return self

    def _init_state(self, X: Any) -> None:
        super()._init_state(X)
        bounds = self._typical_bounds(X) if isinstance(self.bounds, str) else self.bounds
        self.bounds_ = np.asarray(bounds, dtype=np.float64)

    def _checked_feedback(self, where: str, y: Array) -> Array:
        if self.feedback == "labels":
            return super()._checked_feedback(where, y)
        if y.ndim != 1 or y.dtype.kind not in "fiu" or not ((y >= 0) & (y <= FAR)).all():
            raise ValueError(f"{where}: y must be an array of distances between 0 and {FAR:.0e}.")
        return np.column_stack([y, y]).astype(np.float64) ** 2

    def _feedback_of_signs(self, signs: Array) -> Array:
        near, far = self.bounds_**2
        similar = signs > 0
        return np.column_stack([np.where(similar, 0.0, far), np.where(similar, near, np.inf)])

    def _learn(self, X: Any, pairs: Any, y: Array, advance: Any) -> None:
        targets = y if y.ndim == 2 else self._feedback_of_signs(y)

        def learn(block: slice) -> int:
            Z = difference_of_rows(X, pairs[block, 0], pairs[block, 1], np.float64)
            return self._learn_block(Z, targets[block])

        self._walk(learn, len(pairs), advance)

    def _walk(self, learn: Callable[[slice], int], n: int, advance: Any) -> None:
        """Learn blocks of n instances on a copy of the state, which is kept if all goes well."""
        with self._all_or_nothing(), single_blas_thread():
            for name in ("log_eigenvalues_", "eigenvectors_", "moment_"):
                setattr(self, name, getattr(self, name).copy())
            for block in self._blocks(n):
                self.n_updates_ += learn(block)
                self.n_seen_ += block.stop - block.start
                if self.n_seen_ % CHECKED == 0:
                    self._check_drift()
                advance(block.stop - block.start)

    def _blocks(self, n: int) -> Iterator[slice]:
        """Cut n instances so that drift is checked after the same ones, whatever the pieces."""
        largest = CHECKED if len(self.log_eigenvalues_) < SHARED else 32
        start, stop, seen = 0, 0, self.n_seen_
        while stop < n:
            start, stop = stop, min(n, stop + largest - (seen + stop) % largest)
            yield slice(start, stop)

    def _learn_block(self, Z: Any, y: Array) -> int:
        return self._follow(meg_pass, Z, y)

    def _follow(self, learn: Any, instances: Any, targets: Array) -> int:
        """Change the state by a pass over instances; count the updates."""
        setting = MEGSetting(*self._rate(), self.trace_, bool(self.normalized))
        rows = self.eigenvectors_.view(np.float64)
        size = rows.shape[1] if self.average else 0
        total, before = np.zeros((size, size)), self.A_ if size else None
        updates, loss, largest = learn(
            self.log_eigenvalues_, rows, total, instances, targets, setting
        )
        if not np.isfinite(loss):
            raise ValueError(
                f"{self._owner}: eta must be small enough for finite predictions, got "
                f"{self.eta!r}; they overflow after {self.n_seen_} instances."
            )
        self.total_loss_ += float(loss)
        self.range_ = max(self.range_, float(largest))
        if before is not None:
            states = self.trace_ * gathered(total, len(rows))
            seen = self.n_seen_ + 1
            self.moment_ += (seen + len(targets)) * self.A_ - seen * before - states
        return int(updates)
