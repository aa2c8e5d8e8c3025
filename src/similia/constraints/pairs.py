"""Constraints on distances of pairs, of objects or of feature vectors."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from similia.constraints.base import ALL, Constraints, RankOne, Selection, bounds_of
from similia.contract import Array, Matrix
from similia.linalg.blas import panels
from similia.linalg.blocks import dense, difference_of_rows, row_blocks
from similia.linalg.gibbs import GibbsState
from similia.linalg.threads import processors, side_by_side
from similia.updates import definite_boost as compiled
from similia.validation import (
    check_magnitude,
    check_parameters,
    check_tuples,
    checked_matrix,
    positive_integer,
    tuple_array,
)

#: pairs below which a screening is not shared among processors
PARALLEL_PAIRS = 100_000
#: rows of differences held at a time
DIFFERENCE_ROWS = 2048
Screen: TypeAlias = Callable[..., None]


class DistanceConstraints(Constraints):
    """Pairs whose distance is to be at most, or at least, a given bound.

    Without `X`, W is a kernel matrix over objects and the squared distance of objects a and b is
    W_aa + W_bb - 2 W_ab. With `X`, W is a metric over features and the squared distance of rows
    x, z is (x-z)ᵀW(x-z). Either way it is zᵀWz, and tr W = 1 sets the scale: for a trace of τ,
    divide the distances by √τ and multiply W by τ.

    Parameters
    ----------
    pairs : integer array of shape (n_constraints, 2)
        Objects, or rows of `X`.
    distances : number or array of shape (n_constraints,)
        The bounds; distances, not their squares.
    sense : {"<=", ">="} or array of these of shape (n_constraints,)
    X : array or CSR matrix of shape (n_samples, n_features), or None
    n_objects : int or None
        Without `X`, the number of objects; None means one more than the largest index.

    Notes
    -----
    The paper's C_j is half of ours, (zzᵀ)/2 - γI with z = e_a - e_b, and its dual variables are
    twice ours. Screening reads three entries of W per pair of objects; over features it multiplies
    blocks of differences by W or forms XWXᵀ.

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
        pairs: ArrayLike,
        distances: ArrayLike,
        sense: ArrayLike = "<=",
        *,
        X: Matrix | None = None,
        n_objects: int | None = None,
    ) -> None:
        owner = "DistanceConstraints"
        self.X = None
        if X is not None:
            if n_objects is not None:
                raise ValueError(f"{owner}: n_objects must be None if X is given, got {n_objects}.")
            self.X = checked_matrix(owner, "X", X, dtype=np.float64, ensure_all_finite=False)
            check_magnitude(owner, "X", self.X)
            n_objects = self.X.shape[0]
        elif n_objects is None:
            given = tuple_array(owner, "pairs", pairs)
            if given.size == 0 or given.dtype.kind not in "iu":
                raise ValueError(f"{owner}: n_objects must be given if there are no pairs.")
            n_objects = int(given.max()) + 1
        else:
            check_parameters(owner, {"n_objects": positive_integer}, {"n_objects": n_objects})
        n = self.n_objects = int(n_objects)
        rows = check_tuples(owner, "pairs", pairs, (n, n))
        # Half of a machine word: there are many pairs, and never as many objects.
        self.first, self.second = (np.ascontiguousarray(column, np.uint32) for column in rows.T)
        self.n_features = n if self.X is None else self.X.shape[1]
        bounds = bounds_of(f"{owner}: distances", distances, len(rows))
        if (bounds < 0.0).any():
            raise ValueError(f"{owner}: distances must be at least 0, got {bounds.min()}.")
        self._set_rank_one(owner, self._squared_lengths(), bounds**2, sense)

    def _squared_lengths(self) -> Array:
        if self.X is None:
            return np.where(self.first == self.second, 0.0, 2.0)
        out = np.empty(len(self.first))
        for block in row_blocks(len(out), DIFFERENCE_ROWS):
            Z = self._differences(block)
            out[block] = np.vecdot(Z, Z)
        return out

    def _differences(self, which: Selection) -> Array:
        Z = dense(difference_of_rows(self.X, self.first[which], self.second[which], np.float64))
        return np.ascontiguousarray(Z)

    def values(self, W: Array, which: Selection = ALL) -> Array:
        """tr(W C_j) of all constraints, or of some."""
        W = np.asarray(W).real  # the imaginary part does not show in real differences
        signs, shifts = self.signs[which], self.shifts[which]
        n, (N, d) = len(signs), W.shape if self.X is None else self.X.shape
        if self.X is None or N * (N + d) < n * d:
            K = W if self.X is None else dense(self.X @ W) @ dense(self.X).T
            return self._screened(compiled.screen_pairs, np.ascontiguousarray(K), which, n)
        out, places = np.empty(n), np.arange(len(self.first))[which]
        for block in row_blocks(n, DIFFERENCE_ROWS):
            Z = self._differences(places[block])
            out[block] = np.vecdot(Z @ W, Z)
        return signs * out - shifts

    def state_values(self, state: GibbsState, which: Selection = ALL) -> Array:
        """As `values`, at the W of a state: few pairs are differences of columns of its factor."""
        B, signs = state.factor(), self.signs[which]
        n, d = len(signs), self.n_features
        if self.X is None and not np.iscomplexobj(B) and n < compiled.FEW * d**2:
            columns = compiled.transposed(B)
            return self._screened(compiled.screen_few_pairs, columns, which, n * len(B))
        if n >= d:
            return self.values(B.T @ B.conj(), which)
        if self.X is None:
            parts = B.T[self.first[which]] - B.T[self.second[which]]
        else:
            parts = self._differences(np.arange(len(self))[which]) @ B.T
        return signs * np.vecdot(parts, parts).real - self.shifts[which]

    def _screened(self, screen: Screen, W: Array, which: Selection, work: int) -> Array:
        """Values of pairs of objects by compiled code; much work is shared among processors."""
        arrays = [a[which] for a in (self.first, self.second, self.signs, self.shifts)]
        arrays.append(out := np.empty(len(arrays[0])))
        parts = panels(len(out), processors() if work >= PARALLEL_PAIRS else 1)
        each = [[array[start:stop] for array in arrays] for start, stop in parts]
        side_by_side([partial(screen, W, *part) for part in each])
        return out

    def _values(self, W: Array, which: Selection) -> Array:
        return self.values(W, which) + self.shifts[which]

    def _combination(self, weights: Array) -> Array:
        L = np.zeros((self.n_objects, self.n_objects))
        compiled.add_pairs(L, self.first, self.second, weights * self.signs)
        if self.X is None:
            return L
        half = self.X.T @ (sparse.csr_array(L) if sparse.issparse(self.X) else L)
        M = dense(half @ self.X)
        return 0.5 * (M + M.T)

    def terms(self) -> compiled.RankOneTerms | None:
        """All constraints as arrays for compiled loops, if they are on objects."""
        if self.X is not None:
            return None
        none = np.zeros((0, self.n_features))
        return compiled.RankOneTerms(none, self.first, self.second, self.signs, self.shifts)

    def rank_one(self, j: int) -> RankOne:
        """Constraint j."""
        if self.X is None:
            z = np.zeros(self.n_features)
            z[self.first[j]] += 1.0
            z[self.second[j]] -= 1.0
        else:
            z = self._differences(slice(j, j + 1))[0]
        return RankOne(z, float(self.signs[j]), float(self.shifts[j]))
