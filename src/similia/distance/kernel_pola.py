"""POLA in the feature space of a kernel."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.linalg import solve_triangular
from sklearn.metrics.pairwise import kernel_metrics, pairwise_kernels

from similia.contract import Array, Indices, Matrix
from similia.distance.pola import POLA
from similia.linalg.blocks import dense, row_blocks, rows_of
from similia.linalg.threads import single_blas_thread
from similia.parameters import parameter
from similia.progress import Advance
from similia.validation import function, mapping, none, one_of, positive, positive_integer

#: random points from whose kernel scales are estimated
SCALE_POINTS = 50


class KernelPOLA(POLA):
    """Pseudo-metric and threshold in the feature space of a kernel, learnt from pairs.

    The steps are those of `POLA` on feature vectors φ(x), known only by their inner products. An
    orthonormal basis of the φ(x) seen so far grows by Gram–Schmidt; in its coordinates the kernel
    algorithm is the plain one (section 3.3 of the paper). With a linear kernel it is `POLA`.

    Attributes
    ----------
    basis_ : array of shape (n_basis, n_features), or (n_basis,) with a precomputed kernel
        Points of the basis, or their numbers.
    factor_ : array of shape (n_basis, n_basis)
        F, lower triangular, with FFᵀ the kernel matrix of the basis.
    A_ : array of shape (n_basis, n_basis)
        The metric in the coordinates F⁻¹k(x) of φ(x).
    n_basis_ : int
    start_ : float
        Diagonal of `A_` in a direction that has just joined.
    A_average_, components_, b_, b_average_, threshold_, unit_, total_loss_, share_, n_passes_, \
largest_loss_, n_seen_, n_updates_
        As in `POLA`, for this `A_`.

    Notes
    -----
    A pair costs 2 n_basis kernel values and O(n_basis²) beside them. Merging needs kernel values
    between the points of different learners, and so is refused with a precomputed kernel.

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

    kernel: str | Callable[..., float] = parameter(
        default="rbf",
        rule=one_of(*sorted(kernel_metrics()), "precomputed") | function,
        doc='A kernel of scikit-learn, or a function of two vectors. With "precomputed", rows of X '
        "are those of the kernel matrix: of one fixed set of points among themselves while "
        "learning, of other points against that set afterwards.",
    )
    kernel_params: dict[str, Any] | None = parameter(
        default=None,
        rule=none | mapping,
        doc='Parameters of a named kernel, such as ``{"gamma": 0.1}``.',
    )
    start: str | Array = parameter(
        default="identity",
        rule=one_of("identity", "zero"),
        doc="The metric before the first pair: the distance of feature vectors, or none.",
    )
    tol: float = parameter(
        default=1e-10,
        rule=positive,
        doc="A point joins the basis if this share of its squared length, or more, lies outside.",
    )
    budget: int | None = parameter(
        default=500,
        rule=none | positive_integer,
        doc="Largest size of the basis; beyond it, feature vectors count as far as the basis "
        "reaches. The state takes about 24 budget² bytes, and a step that much memory traffic a "
        "few times over.",
    )

    _state: ClassVar = (*POLA._state, "n_basis_", "basis_", "factor_", "start_")
    _fragile: ClassVar = ("A_", "moment_")  # a kernel may fail half-way

    # -- the kernel ----------------------------------------------------------------------------

    @property
    def _precomputed(self) -> bool:
        """Whether rows hold the values themselves."""
        return self.kernel == "precomputed"

    def _points(self, X: Matrix, numbers: Indices) -> Matrix:
        """Rows of X, whose numbers are given, as points to compare with."""
        return numbers if self._precomputed else X

    def _values(self, X: Matrix, points: Matrix) -> Array:
        """Values k(x, z) for all rows x and points z, in double precision."""
        if self._precomputed:
            K = dense(X)[:, points]
        elif not X.shape[0] or not points.shape[0]:
            return np.zeros((X.shape[0], points.shape[0]))
        else:
            some: Any = X.astype(np.float64)  # in single precision only rounding would be left
            others: Any = points.astype(np.float64)
            if callable(self.kernel):
                some, others = dense(some), dense(others)
            elif sparse.issparse(X):
                some.sum_duplicates()  # two entries for one place would be squared one by one
                others = sparse.csr_array(others)
            K = pairwise_kernels(some, others, metric=self.kernel, **(self.kernel_params or {}))
        if not np.isfinite(K).all():
            raise ValueError(f"{self._owner}: kernel must be finite, got NaN or infinity.")
        return np.asarray(K, dtype=np.float64)

    def _squares(self, X: Matrix, numbers: Indices) -> Array:
        """Values k(x, x) for each row."""
        blocks = row_blocks(len(numbers), 16)  # 16 values for each wanted
        found = [np.diag(self._values(X[b], self._points(X[b], numbers[b]))) for b in blocks]
        squares = np.concatenate([np.zeros(0), *found])
        if (squares < 0).any():
            raise ValueError(
                f"{self._owner}: kernel must be positive semidefinite, got {squares.min():.3g} for "
                "a point with itself."
            )
        return squares

    # -- learning ------------------------------------------------------------------------------

    def _init_metric(self, X: Matrix) -> None:
        self._check_square(X)
        self.basis_ = self._points(np.zeros((0, X.shape[1]), X.dtype), np.zeros(0, np.intp))
        self.n_basis_, self.factor_ = 0, np.zeros((0, 0))
        super()._init_metric(X)

    def _start_shapes(self, d: int) -> list[tuple[int, ...]]:
        return [(SCALE_POINTS, d)]  # A grows with the basis; points that say what is typical do not

    def _check_square(self, X: Matrix) -> None:
        if self._precomputed and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"{self._owner}: X must be a square kernel matrix while learning, "
                f"got shape {X.shape}."
            )

    def _start(self, X: Matrix, typical: float) -> tuple[Array, float]:
        scale = self.start_scale if self.start == "identity" else 0.0
        self.start_ = float(scale / typical)
        return np.zeros((0, 0), X.dtype), scale

    def _first_metric(self, A: Array) -> Array:
        return np.eye(self.n_basis_, dtype=self.A_.dtype) * self.A_.dtype.type(self.start_)

    def _random_squares(self, X: Matrix) -> Array:
        rows = np.random.default_rng(0).integers(X.shape[0], size=SCALE_POINTS)
        points = rows_of(X, rows, X.dtype)
        sound = np.isfinite(dense(points)).all(axis=1)
        K = self._values(points[sound], self._points(points[sound], rows[sound]))
        lengths = np.diag(K)
        squares = (lengths[:, None] + lengths - 2 * K)[np.triu_indices(len(K), 1)]
        return squares[squares > 0]

    def _learn(self, X: Matrix, pairs: Indices, targets: Array, advance: Advance) -> None:
        self._check_square(X)
        super()._learn(X, pairs, targets, advance)

    def _differences(self, X: Matrix, pairs: Indices) -> Matrix:
        C = self._grow(rows_of(X, pairs.ravel(), X.dtype), pairs.ravel())
        return np.ascontiguousarray(C[::2] - C[1::2], dtype=self.A_.dtype)

    def _grow(self, X: Matrix, numbers: Indices) -> Array:
        """Let rows, whose numbers are given, join the basis in turn; return their coordinates."""

        def products(some: Indices, others: Indices) -> Array:
            return self._values(X[some], self._points(X[others], numbers[others]))

        room = np.inf if self.budget is None else self.budget - self.n_basis_
        # A precomputed kernel may be rounded, and then so is the rest of a vector.
        tol = max(self.tol, 100 * np.finfo(X.dtype).eps) if self._precomputed else self.tol
        K, squares = self._values(X, self.basis_), self._squares(X, numbers)
        factor, newcomers, C = grown_basis(self.factor_, K, squares, products, tol, room)
        if len(newcomers):
            joined = dense(self._points(X[newcomers], numbers[newcomers]))
            self.n_basis_, self.factor_ = len(factor), factor
            self.basis_ = np.concatenate([self.basis_, joined])
            self.A_ = self._padded(self.A_, self.start_)
            if self.average:
                self.moment_ = self._padded(self.moment_, 0.0)
        return C

    def _padded(self, M: Array, diagonal: float) -> Array:
        """M with the directions that have joined since, in which nothing is learnt yet."""
        padded = np.eye(self.n_basis_, dtype=M.dtype) * M.dtype.type(diagonal)
        padded[: len(M), : len(M)] = M
        return padded

    # -- using ---------------------------------------------------------------------------------

    def _mapped(self, X: Matrix) -> Matrix:
        K = self._values(X, self.basis_)
        return coordinates(self.factor_, K).astype(self.A_.dtype)

    @property
    def _n_features_out(self) -> int:
        return min(self.n_components or self.n_basis_, self.n_basis_)

    def metric_matrix(self) -> None:
        """None: `A_` is for coordinates in the basis, not for the features."""

    def query_matrix(self) -> None:
        """None: vectors are products of kernel values, not of the features."""

    # -- merging and saving --------------------------------------------------------------------

    def merge(
        self, parts: Sequence[Self], marks: Callable[[Self], ArrayLike] | None = None
    ) -> Self:
        """Merge learners that each continued from this one, in a basis of all their points."""
        if not parts or any(type(part) is not type(self) for part in parts):
            return super().merge(parts)  # which raises
        if self._precomputed:
            raise ValueError(
                f"{self._owner}.merge: kernel must be a name or a function, got 'precomputed'; "
                "the kernel between the points of different parts is not known."
            )
        union = copy.deepcopy(self)
        with single_blas_thread():
            for part in parts:
                union._grow(part.basis_, np.arange(part.n_basis_))
            lifted = [part._lifted(union) for part in parts]
            return super(KernelPOLA, self._lifted(union)).merge(lifted, marks)

    def _lifted(self, union: Self) -> Self:
        """Copy in another basis, which reaches at least as far."""
        lifted = copy.deepcopy(self)
        C = coordinates(union.factor_, self._values(self.basis_, union.basis_))
        T = coordinates(self.factor_, C.T).T  # directions of this basis, in those of the other
        lifted.n_basis_, lifted.basis_, lifted.factor_ = union.n_basis_, union.basis_, union.factor_
        learnt = T.T @ (self.A_ - self.start_ * np.eye(self.n_basis_)) @ T
        lifted.A_ = (learnt + self.start_ * np.eye(union.n_basis_)).astype(self.A_.dtype)
        if self.average:
            lifted.moment_ = (T.T @ self.moment_ @ T).astype(self.A_.dtype)
        return lifted

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        m = self.n_basis_
        basis = (m,) if self._precomputed else (m, self.n_features_in_)
        moment = (m, m) if self.average else (0, 0)
        return {"A_": (m, m), "moment_": moment, "factor_": (m, m), "basis_": basis}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._precomputed
        return tags


# -- Gram–Schmidt on vectors known only by their inner products: φ_1 … φ_m with the Gram matrix
# K = FFᵀ, F lower triangular, have the orthonormal basis Q = F⁻¹(φ_1 … φ_m), and any φ has the
# coordinates F⁻¹k in it, k_i = ⟨φ_i, φ⟩ --------------------------------------------------------


def coordinates(F: Array, K: Array) -> Array:
    """Coordinates, as rows, of vectors with inner products K (vectors × basis)."""
    if not len(F):
        return np.zeros((len(K), 0))
    return solve_triangular(F, K.T, lower=True, check_finite=False).T


def grown_basis(
    F: Array,
    K: Array,
    squares: Array,
    products: Callable[[Indices, Indices], Array],
    tol: float,
    room: float,
) -> tuple[Array, Indices, Array]:
    """The factor F of a basis grown by vectors in turn, the vectors that joined, all coordinates.

    Of n vectors, K (n, m) are the inner products with the m of the basis, squares (n,) those with
    themselves, and products(some, others) those among each other, computed only where needed. A
    vector joins if its squared distance to the span exceeds `tol` times its own square, while there
    is room. Its coordinates are zero in the directions that join after it.
    """
    C = coordinates(F, K)
    left = squares - (C**2).sum(axis=1)
    candidates = np.flatnonzero(left > tol * squares) if room > 0 else np.arange(0)
    if not len(candidates):
        return F, candidates, C
    rest = products(candidates, candidates) - C[candidates] @ C[candidates].T
    columns: dict[int, Array] = {}
    for i, candidate in enumerate(candidates):
        if len(columns) < room and rest[i, i] > tol * squares[candidate]:
            columns[i] = rest[:, i] / np.sqrt(rest[i, i])
            rest -= np.outer(columns[i], columns[i])
    joined = list(columns)
    newcomers = candidates[joined]
    m, g = len(F), len(newcomers)
    grown = np.zeros((m + g, m + g))
    grown[:m, :m] = F
    grown[m:, :m] = C[newcomers]
    grown[m:, m:] = np.tril(np.array(list(columns.values())).T[joined])
    added = products(np.arange(len(K)), newcomers) - C @ C[newcomers].T
    added = coordinates(grown[m:, m:], added)
    added[np.arange(len(K))[:, None] < newcomers] = 0.0
    return grown, newcomers, np.hstack([C, added])
