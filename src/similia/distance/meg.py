"""MEG: matrix exponentiated gradient, for metrics, kernels over objects and density matrices."""

from collections.abc import Iterator
from itertools import pairwise, starmap
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from sklearn.utils.validation import check_is_fitted

from similia.base import Learner
from similia.contract import Array, Indices, Matrix
from similia.distance.base import SINGLE_ROUNDING
from similia.distance.bounds import FEEDBACK_KINDS, BoundedDistance
from similia.distance.feedback import GivenInstances, checked_instances, checked_labels
from similia.distance.regret import checked_comparison, loss_bound, total_loss, tuned_eta
from similia.linalg.blas import row_products
from similia.linalg.blocks import difference_of_rows, row_blocks
from similia.linalg.eigen_update import SHARED, orthogonality_defect, orthogonalize
from similia.linalg.spectral import (
    from_eigenpairs,
    hermitian_part,
    log_trace_exp,
    null_threshold,
    psd_factor,
    von_neumann_divergence,
)
from similia.linalg.threads import single_blas_thread
from similia.parameters import parameter
from similia.progress import progress
from similia.safety.whole import all_or_nothing
from similia.updates.meg import MEGSetting, gathered, meg_matrix_pass, meg_pass
from similia.validation import (
    Rule,
    array,
    boolean,
    check_hermitian,
    check_parameters,
    check_tuples,
    non_negative,
    none,
    one_of,
    positive,
    positive_integer,
)

#: instances between two checks of the eigenvectors
CHECK_INTERVAL = 512
#: departure from orthogonality, for each eigenvector, that is corrected
MAX_DEFECT = 1e-13
#: eta="auto" is this over the square of an instance's range: Lemma 3.2 with c = 6
AUTO_RATE = 1.5


class MEG(BoundedDistance):
    """Positive definite matrix learnt from distances by matrix exponentiated gradient steps.

    A pair with difference z and distance y is an instance X = zzᵀ with label y² for tr(AX) = zᵀAz,
    its *squared* distance. With A = s·W, s the trace, each instance moves log W along the
    gradient of the squared loss (ŷ - y²)², ŷ = tr(AX), and keeps the trace of A:

        W <- exp(log W - 2η(ŷ - y²) s X) / Z,  Z such that tr W = 1          [Tsuda2005, (3.5)]

    Three kinds of matrices are learnt in this way:

    - a metric over features: ``learn(X, pairs, distances)``, or `fit` with classes;
    - a kernel over objects of which only distances are known:
      ``MEG(n_objects=...).learn(None, pairs, distances)``; then ``pairwise_distance(None)``
      has all distances, and `embedding` turns objects into points;
    - any matrix that is measured: ``learn_matrices(instances, y)`` takes tr(AX) = y for
      general X, and learns density matrices with ``field="complex"``.

    Attributes
    ----------
    A_, K_ : array of shape (n, n)
        The matrix, as a metric over features and as a kernel over objects; float64 or complex128
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
        Instances learnt from, and those of them that changed the state.

    Notes
    -----
    The eigendecomposition of log W follows each rank-one instance (`linalg.eigen_update`): O(n²)
    and one matrix product over the eigenvectors that change, without a new eigendecomposition. The
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

    eta: str | float = parameter(
        default="auto",
        rule=one_of("auto") | positive,
        doc='Larger eta follows each instance more closely. "auto" is 1.5/ρ² for each instance, '
        "with ρ the range of the eigenvalues of s·X (s|z|² for a pair): the total loss is at most "
        "four times that of any other matrix, plus 2/3 ρ² times its divergence from the start. If "
        "a matrix explains all distances, 2/ρ² is better, the largest eta that has a bound; for "
        'noisy ones, a smaller eta. Without `normalized`, "auto" is 1/(ρ(ŷ + y²)), which does not '
        "overshoot where z is an eigenvector.",
    )
    normalized: bool = parameter(
        default=True,
        rule=boolean,
        doc="Keep the trace (3.5), or learn it too (3.4, for which no bound is proven).",
    )
    update: str = parameter(
        default="explicit",
        rule=one_of("explicit", "implicit"),
        doc="Take the gradient before the step, as the paper does, or after it (3.2 and 3.3): the "
        "exact minimum of the divergence from W plus η times the loss, which never overshoots, "
        "however large eta is. No bound is proven for it. A step costs some more O(n²), an "
        "instance of rank above one an eigendecomposition for each trial.",
    )
    start: str | Array = parameter(
        default="identity",
        rule=one_of("identity") | array,
        doc="A before the first instance, up to its trace: the Euclidean distance, or a positive "
        "definite array of shape (n, n), Hermitian if `field` is complex. The nearer it is to the "
        "matrix that explains the feedback, the smaller the total loss.",
    )
    trace: str | float = parameter(
        default="auto",
        rule=one_of("auto") | positive,
        doc='Trace of A; without `normalized`, the initial one. "auto" is that of `start`. '
        "Distances can be met only if it is large enough: for n objects, the sum of all n² squared "
        "distances divided by 2n.",
    )
    feedback: str = parameter(
        default="distances",
        rule=FEEDBACK_KINDS,
        doc="What `learn` takes for a pair: its distance (not squared), or +1 (similar) and -1.",
    )
    n_objects: int | None = parameter(
        default=None,
        rule=none | positive_integer,
        doc="Size of the kernel matrix where there are no features (``X=None``).",
    )
    field: str = parameter(
        default="real",
        rule=one_of("real", "complex"),
        doc="Whether A is real symmetric or complex Hermitian. Features are real in either case.",
    )
    average: bool = parameter(
        default=False,
        rule=boolean,
        doc="Measure with the mean of the states, for one more matrix product per instance.",
    )

    divergence = "von_neumann"
    merges = False
    _why_not_merged = (
        "a step is as long as its bound allows, so that none can make up for those of other parts"
    )
    _fragile: ClassVar = ("log_eigenvalues_", "eigenvectors_", "moment_")  # steps may overflow
    _state: ClassVar = (
        *Learner._state,
        *("log_eigenvalues_", "eigenvectors_", "trace_", "total_loss_", "range_", "bounds_"),
    )

    # -- learning ------------------------------------------------------------------------------

    def learn(self, X: Matrix | None, pairs: ArrayLike, y: ArrayLike) -> Self:
        """Learn from pairs of rows, or of objects if X is None, as other distances do."""
        self._check_parameters()
        return super().learn(self._objects() if X is None else X, pairs, y)

    def learn_matrices(self, instances: GivenInstances, y: ArrayLike) -> Self:
        """Learn from measurements tr(AX) = y of any instance matrices X, in order.

        Parameters
        ----------
        instances : array of shape (n, d), array of shape (n, d, d), or sequence of n matrices
            Rows x that stand for X = xxᴴ (fast: as pairs), dense or CSR; or matrices, dense or
            sparse, of which the Hermitian part counts. A matrix of rank above six costs a new
            eigendecomposition.
        y : array of shape (n,)
        """
        self._check_parameters()
        where, size = f"{self._owner}.learn_matrices", vars(self).get("n_features_in_")
        values, n, d = checked_instances(where, instances, size, self.field == "complex")
        targets = np.column_stack(2 * [checked_labels(where, y, n)])
        bar = progress(self._owner, n, enabled=self.verbose)
        with all_or_nothing(self), single_blas_thread(), bar as advance:
            if size is None:
                self.n_features_in_ = d
                self._init_state(sparse.csr_array((1, d)))
            self._walk(values.__getitem__, targets, advance)
        return self

    def _init_metric(self, X: Matrix) -> None:
        values, self.eigenvectors_ = self._start(X.shape[1])
        self.log_eigenvalues_ = np.log(values) - np.log(values.sum())
        self.trace_ = float(values.sum() if isinstance(self.trace, str) else self.trace)
        self.total_loss_ = self.range_ = 0.0

    def _start(self, d: int) -> tuple[Array, Array]:
        """Eigenvalues, and eigenvectors as rows, of the matrix before learning, up to its trace."""
        kinds, dtype = ("fiuc", np.complex128) if self.field == "complex" else ("fiu", np.float64)
        if isinstance(self.start, str):
            return np.ones(d), np.eye(d, dtype=dtype)
        check_hermitian(self._owner, self.start, d, kinds, SINGLE_ROUNDING)
        values, vectors = linalg.eigh(hermitian_part(self.start.astype(dtype)))
        if not values[0] > null_threshold(values):
            raise ValueError(
                f"{self._owner}: start must be positive definite, got eigenvalues from "
                f"{values[0]:.3g} to {values[-1]:.3g}; add a small multiple of the identity."
            )
        return values, np.ascontiguousarray(vectors.T)

    def _start_squares(self, X: Matrix, pairs: Indices) -> Array:
        if isinstance(self.start, str):
            return self.trace_ / X.shape[1] * super()._start_squares(X, pairs)
        Z = self._differences(X, pairs)
        return row_products(np.asarray(Z @ self.A_.real), Z)

    def _differences(self, X: Matrix, pairs: Indices) -> Matrix:
        return difference_of_rows(X, pairs[:, 0], pairs[:, 1], np.float64)

    def _blocks(self, n: int) -> Iterator[slice]:
        """Cut n instances so that drift is checked after the same ones, whatever the pieces."""
        size = CHECK_INTERVAL if len(self.log_eigenvalues_) < SHARED else 32
        cuts = [0, *range(size - self.n_seen_ % size, n, size), n] if n else []
        return starmap(slice, pairwise(cuts))

    def _learn_block(self, Z: Matrix | list[Matrix], targets: Array) -> int:
        learn = meg_matrix_pass if isinstance(Z, list) else meg_pass
        setting = MEGSetting(
            *self._rate(), self.trace_, bool(self.normalized), self.update == "implicit"
        )
        rows = self.eigenvectors_.view(np.float64)
        size = rows.shape[1] if self.average else 0
        total, before = np.zeros((size, size)), self.A_ if size else None
        updates, loss, largest = learn(self.log_eigenvalues_, rows, total, Z, targets, setting)
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
        due = (self.n_seen_ + len(targets)) % CHECK_INTERVAL == 0
        if due and orthogonality_defect(self.eigenvectors_) > MAX_DEFECT * len(rows):
            orthogonalize(self.eigenvectors_)
        return updates

    def _rate(self) -> tuple[float, bool]:
        """Step size η and False, or the factor of `step_size` and True."""
        if isinstance(self.eta, str):
            return (AUTO_RATE if self.normalized else 1.0), True
        return float(self.eta), False

    def _log_values(self) -> Array:
        """Eigenvalues of log W."""
        values = self.log_eigenvalues_
        return values - log_trace_exp(values) if self.normalized else values

    # -- using ---------------------------------------------------------------------------------

    @property
    def W_(self) -> Array:
        """The paper's matrix: exp(G), divided by its trace if `normalized`."""
        return from_eigenpairs(np.exp(self._log_values()), self.eigenvectors_.T)

    @property
    def A_(self) -> Array:  # type: ignore[override]
        """The matrix whose quadratic form is the squared distance."""
        return self.trace_ * self.W_

    @property
    def K_(self) -> Array:
        """A under its name as a kernel matrix over objects."""
        return self.A_

    @property
    def components_(self) -> Array:
        """L with A = LᵀL (its real part, which is all that real vectors see), largest first."""
        if self.average or self.field == "complex":
            return psd_factor(self._scoring_state().real, self.n_components)
        check_is_fitted(self)
        order = np.argsort(-self.log_eigenvalues_)[: self.n_components]
        weights = self.trace_ * np.exp(self._log_values()[order])
        return np.sqrt(weights)[:, None] * self.eigenvectors_[order]

    def _factor(self) -> Array:
        return self.components_

    def embedding(self, n_components: int | None = None) -> Array:
        """Centered points, one for each object, whose distances are the learnt ones.

        Their dimensions are ordered by how much they contribute to all squared distances together
        (classical scaling); `n_components` of them are kept, or all.
        """
        K = self._scoring_state().real
        words = f"an integer between 1 and {len(K)}"
        rule = none | Rule(words, lambda n: positive_integer.holds(n) and n <= len(K))
        given = {"n_components": n_components}
        check_parameters(f"{self._owner}.embedding", {"n_components": rule}, given)
        K = K - K.mean(axis=0)
        return psd_factor(K - K.mean(axis=1, keepdims=True))[:n_components].T

    def loss_bound(self, U: ArrayLike, loss: float = 0.0) -> float:
        """Upper bound of `total_loss_`, given one matrix to compare with [Tsuda2005, Lemma 3.2].

        With c such that η = 2c/(ρ²(2 + c)), for any U ⪰ 0 with the trace of A,

            total_loss_ ≤ (1 + c/2) loss(U) + (1/2 + 1/c) ρ² Δ(U/s, W₁)

        where W₁ is the start, scaled to trace one. Infinite where eta is too large (η ρ² > 2).

        Parameters
        ----------
        U : array of shape (n, n)
            The true matrix, if there is one.
        loss : number
            Its own loss on the same instances, `comparison_loss`; zero if it explains them.
        """
        check_is_fitted(self)
        where = f"{self._owner}.loss_bound"
        U = checked_comparison(where, U, self.n_features_in_, self.trace_)
        check_parameters(where, {"loss": non_negative}, {"loss": loss})
        if not self.normalized:
            raise ValueError(f"{where}: normalized must be True, as no other bound is proven.")
        if self.update != "explicit":
            raise ValueError(
                f'{where}: update must be "explicit", as no other bound is proven, '
                f"got {self.update!r}."
            )
        rate, relative = self._rate()
        rate = rate if relative else rate * self.range_**2
        values, rows = self._start(len(U))
        start = from_eigenpairs(values / values.sum(), rows.T)
        divergence = von_neumann_divergence(U / self.trace_, start)
        return loss_bound(rate, self.range_, divergence, loss)

    tuned_eta = staticmethod(tuned_eta)

    def comparison_loss(
        self, U: ArrayLike, X: Matrix | None, pairs: ArrayLike, y: ArrayLike
    ) -> float:
        """Total loss Σ (zᵀUz - y²)² of one matrix on given distances, for `loss_bound`.

        With ``eta="auto"`` each counts (range_/ρ)² times, as the bound requires.
        """
        X, where = self._checked(X), f"{self._owner}.comparison_loss"
        U = checked_comparison(where, U, self.n_features_in_, self.trace_)
        pairs = check_tuples(where, "pairs", pairs, (X.shape[0],) * 2)
        labels = checked_labels(where, y, len(pairs)) ** 2
        cuts = row_blocks(len(pairs), CHECK_INTERVAL)
        blocks = ((self._differences(X, pairs[block]), labels[block]) for block in cuts)
        return total_loss(U, blocks, self.range_ / self.trace_ if self._rate()[1] else None)

    def _objects(self) -> Matrix:
        """One-hot vectors of the objects, over which the metric is the kernel."""
        size = vars(self).get("n_features_in_", self.n_objects)
        if size is None:
            raise ValueError(
                f"{self._owner}.learn: n_objects must be a positive integer where X is None, "
                "got None."
            )
        return sparse.eye_array(size, format="csr")

    def _checked(self, X: Matrix | None) -> Matrix:
        check_is_fitted(self)
        return super()._checked(self._objects() if X is None else X)
