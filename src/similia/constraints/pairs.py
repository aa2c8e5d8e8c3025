"""Constraints on distances of pairs, of objects or of feature vectors."""

from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from similia.constraints.base import Constraints, RankOne, rank_one_bounds
from similia.constraints.checks import per_constraint, signs_of
from similia.contract import Array
from similia.linalg.blas import panels
from similia.linalg.blocks import dense, difference_of_rows, row_blocks
from similia.linalg.threads import processors, side_by_side
from similia.updates.definite_boost import (
    FEW,
    RankOneTerms,
    add_pairs,
    scatter_pairs,
    screen_few_pairs,
    screen_pairs,
    transposed,
)
from similia.validation import check_magnitude, check_tuples

#: pairs below which a screening is neither sorted nor shared out
MANY = 100_000
#: objects from which on W does not stay in the cache, so that reading it in order pays
LARGE = 512
#: rows of differences held at a time
BLOCK = 2048


class DistanceConstraints(Constraints):
    """Pairs whose distance is to be at most, or at least, so much.

    Without `X`, W is a kernel matrix over objects and the squared distance of objects a and b is
    W_aa + W_bb - 2 W_ab. With it, W is a metric over features and the squared distance of rows x, z
    of `X` is (x-z)ᵀW(x-z). Either way it is zᵀWz, and tr W = 1 sets the scale: where the trace is
    to be τ, divide distances by √τ, and multiply W by τ.

    Parameters
    ----------
    pairs : integer array of shape (n_constraints, 2)
        Objects, or rows of `X`.
    distances : number or array of shape (n_constraints,)
        The bounds; distances, not their squares.
    sense : {"<=", ">="} or array of these of shape (n_constraints,)
        Whether a pair is to be at most or at least so far apart.
    X : array or CSR matrix of shape (n_samples, n_features), or None
        Feature vectors.
    n_objects : int or None
        Without `X`: the number of objects; one more than the largest index if None.

    Notes
    -----
    The paper takes for C_j half of the matrix zzᵀ with z = e_a - e_b, less γI; in these terms its γ
    is half of the square of a distance. Multiplying constraints by two divides dual variables by
    two, and changes nothing else.

    Screening n pairs of objects reads the pairs once and three entries of W for each, in
    the order in which W lies in memory if there are many. Over features
    it multiplies their differences by W in blocks, or, where that is less work, makes the matrix
    XWXᵀ and treats rows as objects.

    Examples
    --------
    >>> import numpy as np
    >>> from similia import DistanceConstraints
    >>> near = DistanceConstraints([[0, 1], [2, 3]], 0.5, n_objects=4)
    >>> near.values(np.eye(4) / 4)
    array([0.25, 0.25])
    """

    def __init__(
        self,
        pairs: Any,
        distances: Any,
        sense: Any = "<=",
        *,
        X: Any = None,
        n_objects: int | None = None,
    ) -> None:
        owner = "DistanceConstraints"
        self.X = None if X is None else self._checked_vectors(owner, X, n_objects)
        n = self._number_of_objects(owner, pairs, n_objects)
        rows = check_tuples(owner, "pairs", pairs, (n, n))
        # Unsigned: compiled code then need not ask whether an index counts from the end.
        kind = np.uint32 if n < 2**32 else np.uint64
        self.first, self.second = (np.ascontiguousarray(column, kind) for column in rows.T)
        self.n_objects = n
        self.n_features = n if self.X is None else self.X.shape[1]
        bounds = per_constraint(owner, "distances", distances, len(rows))
        if (bounds < 0.0).any():
            raise ValueError(f"{owner}: distances must be at least 0, got {bounds.min()}.")
        self.signs = signs_of(owner, sense, len(rows))
        self.shifts = self.signs * bounds**2
        squares = self._squared_lengths()
        self._lowest, self._highest = rank_one_bounds(squares, self.signs, self.n_features)
        self._sorted = self._in_order() if len(rows) >= MANY and n >= LARGE else None

    def _in_order(self) -> tuple[Array, Array, Array]:
        """Give the pairs as W is read, row by row, and the place of each among the constraints."""
        order = np.lexsort((self.second, self.first))
        return self.first[order], self.second[order], order.astype(np.uint64)

    @staticmethod
    def _checked_vectors(owner: str, X: Any, n_objects: int | None) -> Any:
        if n_objects is not None:
            raise ValueError(f"{owner}: n_objects must be None where X is given, got {n_objects}.")
        X = check_array(X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False)
        check_magnitude(owner, "X", X)
        return X

    def _number_of_objects(self, owner: str, pairs: Any, n_objects: int | None) -> int:
        if self.X is not None:
            return int(self.X.shape[0])
        if n_objects is None:
            given = np.asarray(pairs)
            if given.size == 0 or given.dtype.kind not in "iu":
                raise ValueError(f"{owner}: n_objects must be given where there are no pairs.")
            return int(given.max()) + 1
        if isinstance(n_objects, bool) or not isinstance(n_objects, int | np.integer):
            raise ValueError(f"{owner}: n_objects must be a positive integer, got {n_objects!r}.")
        if n_objects < 1:
            raise ValueError(f"{owner}: n_objects must be a positive integer, got {n_objects}.")
        return int(n_objects)

    def _squared_lengths(self) -> Array:
        if self.X is None:
            return np.where(self.first == self.second, 0.0, 2.0)
        out = np.empty(len(self.first))
        for block in row_blocks(len(out), BLOCK):
            Z = self._differences(block)
            out[block] = np.vecdot(Z, Z)
        return out

    def _differences(self, which: Any) -> Array:
        Z = dense(difference_of_rows(self.X, self.first[which], self.second[which], np.float64))
        return np.ascontiguousarray(Z)

    def values(self, W: Array, which: Any = slice(None)) -> Array:
        """Give tr(W C_j) for all constraints, or for those named by an index array or a slice."""
        W = np.asarray(W).real  # all that real differences see of a complex one
        first, second = self.first[which], self.second[which]
        signs, shifts = self.signs[which], self.shifts[which]
        n, (N, d) = len(first), W.shape if self.X is None else self.X.shape
        if self.X is None or N * (N + d) < n * d:
            K = W if self.X is None else dense(self.X @ W) @ dense(self.X).T
            K = np.ascontiguousarray(K)
            if self._sorted is None or n < len(self.first):
                return _shared_out(screen_pairs, K, first, second, signs, shifts)
            out = _scattered(K, *self._sorted)[which]
            out *= signs
            out -= shifts
            return out
        out = np.empty(n)
        places = np.arange(len(self.first))[which]
        for block in row_blocks(n, BLOCK):
            Z = self._differences(places[block])
            out[block] = np.vecdot(Z @ W, Z)
        return signs * out - shifts

    def state_values(self, state: Any, which: Any = slice(None)) -> Array:
        """As `values`, for a `GibbsState`: few pairs are differences of columns of its factor."""
        first, second = self.first[which], self.second[which]
        signs, shifts = self.signs[which], self.shifts[which]
        B = state.factor()
        if self.X is None and not np.iscomplexobj(B) and len(first) < FEW * self.n_features**2:
            return _shared_out(screen_few_pairs, transposed(B), first, second, signs, shifts)
        if len(first) >= self.n_features:
            return self.values(B.T @ B.conj(), which)
        if self.X is None:
            parts = B.T[first] - B.T[second]
        else:
            parts = self._differences(np.arange(len(self))[which]) @ B.T
        return signs * np.vecdot(parts, parts).real - shifts

    def _values(self, W: Array, which: Any) -> Array:
        return self.values(W, which) + self.shifts[which]

    def _combination(self, weights: Array) -> Array:
        L = np.zeros((self.n_objects, self.n_objects))
        add_pairs(L, self.first, self.second, weights * self.signs)
        if self.X is None:
            return L
        half = self.X.T @ (sparse.csr_array(L) if sparse.issparse(self.X) else L)
        M = dense(half @ self.X)
        return 0.5 * (M + M.T)

    def terms(self) -> RankOneTerms | None:
        """Give all constraints as arrays for compiled loops, if they are on objects."""
        if self.X is not None:
            return None
        none = np.zeros((0, self.n_features))
        return RankOneTerms(none, self.first, self.second, self.signs, self.shifts)

    def rank_one(self, j: int) -> RankOne:
        """Give constraint j as z, sign and shift."""
        if self.X is None:
            z = np.zeros(self.n_features)
            z[self.first[j]] += 1.0
            z[self.second[j]] -= 1.0
        else:
            z = self._differences(slice(j, j + 1))[0]
        return RankOne(z, float(self.signs[j]), float(self.shifts[j]))


def _shared_out(screen: Any, W: Array, *arrays: Array) -> Array:
    """Screen pairs, given as first, second, signs and shifts; many of them on all processors."""
    out = np.empty(len(arrays[0]))
    work = len(out) * (W.shape[1] if screen is screen_few_pairs else 1)
    parts = panels(len(out), 1 if work < MANY else processors())
    each = [[array[start:stop] for array in (*arrays, out)] for start, stop in parts]
    side_by_side([partial(screen, W, *part) for part in each])
    return out


def _scattered(W: Array, *arrays: Array) -> Array:
    """Give squared distances, of pairs that come in the order in which W lies in memory."""
    n = len(arrays[0])
    out = np.empty(n)
    each = [[a[start:stop] for a in arrays] for start, stop in panels(n, processors())]
    side_by_side([partial(scatter_pairs, W, *part, out) for part in each])
    return out
