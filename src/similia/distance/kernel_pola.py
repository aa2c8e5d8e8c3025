"""POLA in the feature space of a kernel."""

import copy
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics.pairwise import kernel_metrics, pairwise_kernels

from similia.contract import Array
from similia.distance.passes import BatchDistance
from similia.linalg.blocks import dense, row_blocks, rows_of
from similia.linalg.gram_schmidt import coordinates, grown_basis
from similia.validation import function, mapping, none, one_of, positive, positive_integer

#: random points from whose kernel scales are estimated
SAMPLE = 50


class KernelPOLA(BatchDistance):
    """Pseudo-metric and threshold in the feature space of a kernel, learnt from pairs.

    The steps are those of `POLA` on feature vectors φ(x), of which a kernel gives inner products
    alone. An orthonormal basis of the φ(x) seen so far is grown by Gram–Schmidt; in its coordinates
    the kernel algorithm is the plain one [ShalevShwartz2004]. With a linear kernel it is `POLA`.

    Parameters
    ----------
    kernel : name of a scikit-learn kernel, "precomputed" or function (x, z) -> number
        With "precomputed" the rows of X are those of the kernel matrix: of one fixed set of points
        among themselves while learning, of other points against that set afterwards.
    kernel_params : dict or None
        Parameters of a named kernel, such as ``{"gamma": 0.1}``.
    tol : positive number
        A point joins the basis if this share of its squared length, or more, lies outside.
    budget : int or None
        Most points in the basis; beyond it, feature vectors count as far as the basis reaches. The
        state takes about 24 budget² bytes, and a step that much memory traffic a few times over.
    gamma : number of at least 0
        0 satisfies each pair in full; a larger number makes smaller steps, for judgements that
        contradict each other: try 10 where classes are many.
    start : {"identity", "zero"}
        The metric before the first pair: the distance of feature vectors, or nothing.
    start_scale : positive number
        With "identity", the mean squared distance of random points before the first pair. The
        margin is 1, so the larger it is, the fewer pairs are in need of a step.
    unit : "auto" or positive number
        Length that counts as 1, for it matters how |v|⁴ compares with 1. "auto" takes the root
        mean square distance of random feature vectors.
    threshold_rate : positive number
        How readily b moves, against A; 1 in the paper.
    beta : positive number or None
        With a number, `fit` and `fit_pairs` go through their pairs again and again, until none of
        them has a loss above it.
    max_passes : int
        Most passes they make then.
    average : bool
        Measure with the mean of the states over the stream instead of the last one.
    sampler : {"balanced", "uniform"} or function (y, n, rng) -> (pairs, signs)
        How `fit` and `partial_fit` draw pairs from labels.
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
    basis_ : array of shape (n_basis, n_features), or (n_basis,) with a precomputed kernel
        Points of the basis, or their numbers.
    factor_ : array of shape (n_basis, n_basis)
        F, lower triangular, with FFᵀ the kernel matrix of the basis.
    A_ : array of shape (n_basis, n_basis)
        The metric in the coordinates F⁻¹k(x) of φ(x).
    b_ : float
        Threshold of the squared distances under `A_`.
    A_average_, b_average_ : array of the same shape, float
        Means of the states over the stream, with ``average=True``.
    threshold_ : float
        The one of the two thresholds that goes with the distances.
    components_ : array of shape (n_basis or n_components, n_basis)
        L with A = LᵀL.
    unit_ : float
        The unit of length in use.
    total_loss_ : float
        Sum of ℓ² over the stream.
    n_passes_, largest_loss_ : int, float
        Passes that were made with `beta` or by `fit_pairs`, and the largest loss of a pair under
        `A_` and `b_` at their end.
    n_basis_, n_seen_, n_updates_ : int

    Notes
    -----
    A pair costs 2 n_basis kernel values and O(n_basis²) beside them. Joining others' learners needs
    kernel values between their points, so it is refused with a precomputed kernel.

    References
    ----------
    .. [ShalevShwartz2004] S. Shalev-Shwartz, Y. Singer, A. Ng, "Online and Batch Learning of
       Pseudo-Metrics", ICML 2004, section 3.3.

    Examples
    --------
    Two rings, one within the other:

    >>> from sklearn.datasets import make_circles
    >>> from similia import KernelPOLA
    >>> X, y = make_circles(200, factor=0.5, noise=0.05, random_state=0)
    >>> learner = KernelPOLA(budget=50, n_pairs=2000, random_state=0).fit(X, y)
    >>> learner.transform(X).shape
    (200, 50)
    """

    _rules: ClassVar = {
        **BatchDistance._rules,
        "kernel": one_of(*sorted(kernel_metrics()), "precomputed") | function,
        "kernel_params": none | mapping,
        "tol": positive,
        "budget": none | positive_integer,
        "start": one_of("identity", "zero"),
    }
    _state: ClassVar = (*BatchDistance._state, "n_basis_", "basis_", "factor_", "start_")

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        kernel_params: dict[str, Any] | None = None,
        tol: float = 1e-10,
        budget: int | None = 500,
        gamma: float = 1.0,
        start: str = "identity",
        start_scale: float = 30.0,
        unit: Any = "auto",
        threshold_rate: float = 0.01,
        beta: float | None = None,
        max_passes: int = 100,
        average: bool = True,
        sampler: Any = "balanced",
        n_pairs: int = 10_000,
        n_components: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.tol = tol
        self.budget = budget
        self.gamma = gamma
        self.start = start
        self.start_scale = start_scale
        self.unit = unit
        self.threshold_rate = threshold_rate
        self.beta = beta
        self.max_passes = max_passes
        self.average = average
        self.sampler = sampler
        self.n_pairs = n_pairs
        self.n_components = n_components
        self.random_state = random_state
        self.verbose = verbose

    # -- the kernel ----------------------------------------------------------------------------

    @property
    def _precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    def _values(self, X: Any, Z: Any) -> Array:
        """Give k(x, z) for all rows; with a precomputed kernel Z are numbers of points."""
        if self._precomputed:
            K = dense(X)[:, Z]
        elif not X.shape[0] or not Z.shape[0]:
            return np.zeros((X.shape[0], Z.shape[0]))
        else:
            X, Z = X.astype(np.float64), Z.astype(np.float64)  # or what is left is rounding
            if callable(self.kernel):
                X, Z = dense(X), dense(Z)
            elif sparse.issparse(X):
                X.sum_duplicates()  # two entries for one place would be squared one by one
                Z = sparse.csr_array(Z)
            K = pairwise_kernels(X, Z, metric=self.kernel, **(self.kernel_params or {}))
        if not np.isfinite(K).all():
            raise ValueError(
                f"{self._owner}: kernel must give finite numbers, but it gives NaN or infinity."
            )
        return np.asarray(K, dtype=np.float64)

    def _squares(self, X: Any, points: NDArray[np.intp]) -> Array:
        """Give k(x, x) for each row."""
        if self._precomputed:
            squares = dense(X)[np.arange(len(points)), points].astype(np.float64)
        else:
            few = (X[block] for block in row_blocks(X.shape[0], 16))  # 16 values for each wanted
            squares = np.concatenate([np.diag(self._values(x, x)) for x in few] or [np.zeros(0)])
        if (squares < 0).any():
            raise ValueError(
                f"{self._owner}: kernel must be positive semidefinite, "
                f"but it gives {squares.min():.3g} for a point with itself."
            )
        return squares

    # -- learning ------------------------------------------------------------------------------

    def _init_state(self, X: Any) -> None:
        self._check_square(X)
        points = (0,) if self._precomputed else (0, X.shape[1])
        self.n_basis_ = 0
        self.basis_ = np.zeros(points, np.intp if self._precomputed else X.dtype)
        self.factor_ = np.zeros((0, 0))
        super()._init_state(X)

    def _check_square(self, X: Any) -> None:
        if self._precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"{self._owner}: X must be a square kernel matrix while learning, "
                f"got one of shape {X.shape}."
            )

    def _start(self, X: Any, typical: float) -> tuple[Array, float]:
        scale = self.start_scale if self.start == "identity" else 0.0
        self.start_ = float(scale / typical)
        return np.zeros((0, 0), X.dtype), scale

    def _random_squares(self, X: Any) -> Array:
        rows = np.random.default_rng(0).integers(X.shape[0], size=SAMPLE)
        points = rows_of(X, rows, X.dtype)
        sound = np.isfinite(dense(points)).all(axis=1)
        K = self._values(points[sound], rows[sound] if self._precomputed else points[sound])
        lengths = np.diag(K)
        squares = (lengths[:, None] + lengths - 2 * K)[np.triu_indices(len(K), 1)]
        return squares[squares > 0]

    def _learn(self, X: Any, pairs: NDArray[np.intp], y: Array, advance: Any) -> None:
        """Learn as always, but on copies: a kernel may fail half-way."""
        self._check_square(X)
        with self._all_or_nothing():
            self.A_, self.moment_ = self.A_.copy(), self.moment_.copy()
            super()._learn(X, pairs, y, advance)

    def _differences(self, X: Any, pairs: NDArray[np.intp]) -> Any:
        C = self._grow(rows_of(X, pairs.ravel(), X.dtype), pairs.ravel())
        return np.ascontiguousarray(C[::2] - C[1::2], dtype=self.A_.dtype)

    def _grow(self, X: Any, points: NDArray[np.intp]) -> Array:
        """Let the rows of X join the basis one after the other; give their coordinates."""

        def products(some: Any, others: Any) -> Array:
            return self._values(X[some], points[others] if self._precomputed else X[others])

        room = np.inf if self.budget is None else self.budget - self.n_basis_
        # A precomputed kernel may be rounded, and what is left of a vector then is not real.
        tol = max(self.tol, 100 * np.finfo(X.dtype).eps) if self._precomputed else self.tol
        K, squares = self._values(X, self.basis_), self._squares(X, points)
        factor, newcomers, C = grown_basis(self.factor_, K, squares, products, tol, room)
        if len(newcomers):
            joined = points[newcomers] if self._precomputed else dense(X[newcomers])
            self.factor_ = factor
            self.basis_ = np.concatenate([self.basis_, joined])
            self.n_basis_ = len(factor)
            self.A_ = self._padded(self.A_, self.start_)
            if self.average:
                self.moment_ = self._padded(self.moment_, 0.0)
        return C

    def _padded(self, M: Array, diagonal: float) -> Array:
        """Give M with the directions that joined since, for which nothing was learnt."""
        padded = np.eye(self.n_basis_, dtype=M.dtype) * M.dtype.type(diagonal)
        padded[: len(M), : len(M)] = M
        return padded

    def _mapped(self, X: Any) -> Any:
        return coordinates(self.factor_, self._values(X, self.basis_)).astype(self.A_.dtype)

    # -- merging and saving --------------------------------------------------------------------

    def metric_matrix(self) -> None:
        """None: `A_` is for coordinates in the basis, not for the features."""

    def query_matrix(self) -> None:
        """Give None: vectors are products of kernel values, not of the features."""

    def merge(self, parts: Sequence[Self]) -> Self:
        """Join learners that each went on from this one, in a basis of all their points.

        Parameters
        ----------
        parts : sequence of learners
            Each began as a copy of this learner (``copy.deepcopy``) and learnt its own share.

        Returns
        -------
        A new learner of the same class; this one and the parts are left alone.
        """
        if not parts or any(type(part) is not type(self) for part in parts):
            return super().merge(parts)  # which says what is wrong
        if self._precomputed:
            raise ValueError(
                f"{self._owner}.merge: kernel must be a name or a function, got 'precomputed'; "
                "the kernel between the points of different parts is not known."
            )
        union = copy.deepcopy(self)
        for part in parts:
            union._grow(part.basis_, np.arange(part.n_basis_))
        return super(KernelPOLA, self._lifted(union)).merge([part._lifted(union) for part in parts])

    def _lifted(self, union: Self) -> Self:
        """Give a copy in another basis, which reaches at least as far."""
        lifted = copy.deepcopy(self)
        C = coordinates(union.factor_, union._values(self.basis_, union.basis_))
        T = coordinates(self.factor_, C.T).T  # the directions of this basis, in those of the other
        for name in ("n_basis_", "basis_", "factor_"):
            setattr(lifted, name, getattr(union, name))
        learnt = T.T @ (self.A_ - self.start_ * np.eye(self.n_basis_)) @ T
        lifted.A_ = (learnt + self.start_ * np.eye(union.n_basis_)).astype(self.A_.dtype)
        if self.average:
            lifted.moment_ = (T.T @ self.moment_ @ T).astype(self.A_.dtype)
        return lifted

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        m = self.n_basis_
        basis = (m,) if self._precomputed else (m, self.n_features_in_)
        return {
            "A_": (m, m),
            "moment_": (m, m) if self.average else (0, 0),
            "factor_": (m, m),
            "basis_": basis,
        }

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags
