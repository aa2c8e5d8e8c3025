"""Finite sets of constraints: by vectors, by matrices, and unions of sets."""

import copy
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from similia.constraints.base import ALL, Constraints, RankOne, Selection, bounds_of, check_numbers
from similia.contract import Array, Indices, Matrix
from similia.linalg.blas import products
from similia.linalg.blocks import dense, row_blocks
from similia.linalg.gibbs import GibbsState
from similia.linalg.spectral import hermitian_part
from similia.safety.bounds import check_entries
from similia.updates.definite_boost import RankOneTerms

AnyMatrix: TypeAlias = ArrayLike | sparse.sparray
GivenConstraints: TypeAlias = Constraints | Sequence[Constraints]
#: rows of Z multiplied at a time, which bounds the memory of a screening
SCREENED_ROWS = 4096
#: attributes of a set that have one entry or row for each constraint
PER_CONSTRAINT = {"Z", "signs", "_flat", "shifts", "_lowest", "_highest"}
#: departure from Hermitian symmetry that counts as rounding, relative to the largest entry
SYMMETRY_ROUNDING = 1e-10


class RankOneConstraints(Constraints):
    """Constraints zᴴWz ≤ shift, or ≥, for vectors z: C_j = ±(zzᴴ - shift I).

    Parameters
    ----------
    Z : real or complex array of shape (n_constraints, n_features)
    shifts : number or array of shape (n_constraints,)
    sense : {"<=", ">="} or array of these of shape (n_constraints,)

    Examples
    --------
    >>> import numpy as np
    >>> from similia import RankOneConstraints
    >>> constraints = RankOneConstraints(np.eye(3), [0.1, 0.5, 0.2], ["<=", ">=", "<="])
    >>> constraints.values(np.eye(3) / 3).round(2)
    array([0.23, 0.17, 0.13])
    """

    def __init__(self, Z: ArrayLike, shifts: ArrayLike, sense: ArrayLike = "<=") -> None:
        owner = "RankOneConstraints"
        check_entries(owner, "Z", Z)
        given = np.asarray(Z)
        words = "an array of numbers of shape (n_constraints, n_features)"
        check_numbers(f"{owner}: Z", given, words, given.ndim == 2 and given.shape[1] > 0, "fiuc")
        self.dtype = np.dtype(np.complex128 if given.dtype.kind == "c" else np.float64)
        self.Z = np.ascontiguousarray(given, dtype=self.dtype)
        self.n_features = self.Z.shape[1]
        bounds = bounds_of(f"{owner}: shifts", shifts, len(self.Z))
        self._set_rank_one(owner, np.vecdot(self.Z, self.Z).real, bounds, sense)

    def _values(self, W: Array, which: Selection) -> Array:
        Z = self.Z[which]
        out = np.empty(len(Z))
        for block in row_blocks(len(Z), SCREENED_ROWS):
            # zᴴWz = (Wᵀz̄)·z, row by row; the transpose of a Hermitian W is its conjugate.
            out[block] = np.vecdot(_product(Z[block].conj(), W).conj(), Z[block]).real
        return self.signs[which] * out

    def state_values(self, state: GibbsState, which: Selection = ALL) -> Array:
        """As `values`, at the W of a state: zᴴWz = |conj(B) z|² if W = Bᵀ conj(B)."""
        Z, B = self.Z[which], state.factor()
        out = np.empty(len(Z))
        for block in row_blocks(len(Z), SCREENED_ROWS):
            parts = _product(Z[block], B.conj().T)
            out[block] = np.vecdot(parts, parts).real
        return self.signs[which] * out - self.shifts[which]

    def _combination(self, weights: Array) -> Array:
        used = np.flatnonzero(weights)
        Z, signed = self.Z[used], (weights * self.signs)[used]
        if (signed > 0).all() or (signed < 0).all():
            # A factor times itself: half the work, and exactly symmetric.
            half = np.sqrt(np.abs(signed))[:, None] * Z
            M = half.T @ half.conj()
            return M if len(signed) == 0 or signed[0] > 0 else -M
        return hermitian_part((signed[:, None] * Z).T @ Z.conj())

    def terms(self) -> RankOneTerms | None:
        """All constraints as arrays for compiled loops, if they are real."""
        if self.dtype.kind == "c":
            return None
        none = np.zeros(0, np.uint32)
        return RankOneTerms(self.Z, none, none, self.signs, self.shifts)

    def rank_one(self, j: int) -> RankOne:
        """Constraint j."""
        return RankOne(self.Z[j], float(self.signs[j]), float(self.shifts[j]))


class MatrixConstraints(Constraints):
    """Constraints tr(W C_j) ≤ shift_j for symmetric or Hermitian matrices, dense or sparse.

    Parameters
    ----------
    matrices : array of shape (n_constraints, n_features, n_features), or sequence of matrices
        The C_j. If any matrix of a sequence is sparse, all are stored sparse.
    shifts : number or array of shape (n_constraints,)

    Examples
    --------
    >>> import numpy as np
    >>> from similia import MatrixConstraints
    >>> MatrixConstraints([np.diag([1.0, -1.0]), np.eye(2)], [0.0, 0.5]).values(np.eye(2) / 2)
    array([0. , 0.5])
    """

    def __init__(self, matrices: Iterable[AnyMatrix], shifts: ArrayLike = 0.0) -> None:
        owner = "MatrixConstraints"
        each = [_checked(owner, j, C) for j, C in enumerate(matrices)]
        if not each:
            raise ValueError(f"{owner}: matrices must not be empty.")
        shapes = {C.shape for C in each}
        if len(shapes) > 1:
            raise ValueError(f"{owner}: matrices must be of one shape, got {sorted(shapes)}.")
        self.n_features = each[0].shape[0]
        self.dtype = np.result_type(np.float64, *(C.dtype for C in each))
        self.shifts = bounds_of(f"{owner}: shifts", shifts, len(each))
        extremes = np.array([_extreme_eigenvalues(C) for C in each])
        self._lowest, self._highest = extremes[:, 0].copy(), extremes[:, 1].copy()
        self._flat = _stacked([C.reshape(1, -1) for C in each])

    def _values(self, W: Array, which: Selection) -> Array:
        # tr(WC) = Σ W_ab C_ba = Σ W_ab conj(C_ab).
        return np.asarray((self._flat[which].conj() @ np.asarray(W).ravel()).real)

    def _combination(self, weights: Array) -> Array:
        M = np.asarray(self._flat.T @ weights).reshape(self.n_features, self.n_features)
        return hermitian_part(M)

    def matrix(self, j: int) -> Array:
        """C_j, dense."""
        C = np.array(dense(self._flat[[j]])).reshape(self.n_features, -1)
        C[np.diag_indices_from(C)] -= self.shifts[j]
        return C


Single: TypeAlias = RankOneConstraints | MatrixConstraints


class UnionConstraints(Constraints):
    """The constraints of several sets, on matrices W of one size, in their order."""

    def __init__(self, parts: Sequence[Constraints]) -> None:
        owner = "UnionConstraints"
        if not parts or not all(isinstance(one, Constraints) and one.finite for one in parts):
            got = f"got {[type(part).__name__ for part in parts]!r:.80}"
            raise ValueError(
                f"{owner}: parts must be one or more finite sets of constraints, {got}."
            )
        sizes = {part.n_features for part in parts}
        if len(sizes) > 1:
            raise ValueError(f"{owner}: parts must have one n_features, got {sorted(sizes)}.")
        self.n_features = parts[0].n_features
        self.dtype = np.result_type(*(part.dtype for part in parts))
        ends = np.cumsum([0, *(len(part) for part in parts)])
        self._hold(parts, parts, [np.arange(a, b) for a, b in pairwise(ends)])

    def _hold_none(self) -> None:
        self._hold([], [], [])

    def _append(self, single: Single) -> None:
        """Take in a set of one constraint; each class is screened at once."""
        parts, places = [part for part, _ in self._parts], [mine for _, mine in self._parts]
        kinds = [type(part) for part in parts]
        last = np.array([len(self)])
        if type(single) in kinds:
            at = kinds.index(type(single))
            parts[at], places[at] = _joined([parts[at], single]), np.append(places[at], last)
        else:
            parts, places = [*parts, single], [*places, last]
        self._hold([self, single], parts, places)

    def _hold(
        self, sets: Sequence[Constraints], parts: Sequence[Constraints], places: Sequence[Indices]
    ) -> None:
        """Hold the constraints of `sets`, regrouped as `parts`; `places` are their numbers."""
        self.shifts = np.concatenate([np.zeros(0), *(one.shifts for one in sets)])
        self._lowest = np.concatenate([np.zeros(0), *(one._lowest for one in sets)])
        self._highest = np.concatenate([np.zeros(0), *(one._highest for one in sets)])
        self._parts = list(zip(parts, places, strict=True))
        self._where = np.zeros((len(self), 2), dtype=np.intp)
        for number, (_, mine) in enumerate(self._parts):
            self._where[mine, 0] = number
            self._where[mine, 1] = np.arange(len(mine))

    def _values(self, W: Array, which: Selection) -> Array:
        numbers, rows = self._where[which].T
        out = np.empty(len(rows))
        for number, (part, _) in enumerate(self._parts):
            mine = numbers == number
            out[mine] = part._values(W, rows[mine])
        return out

    def state_values(self, state: GibbsState, which: Selection = ALL) -> Array:
        """As `values`, at the W of a state; a single part may do with a factor."""
        if len(self._parts) != 1:
            return super().state_values(state, which)
        only = self._parts[0][0]
        return only.state_values(state, which) + only.shifts[which] - self.shifts[which]

    def _combination(self, weights: Array) -> Array:
        M = np.zeros((self.n_features, self.n_features), dtype=self.dtype)
        for part, places in self._parts:
            M += part._combination(weights[places])
        return M

    def _place(self, j: int) -> tuple[Constraints, int]:
        number, row = self._where[j].tolist()
        return self._parts[number][0], row

    def terms(self) -> RankOneTerms | None:
        """All constraints as arrays for compiled loops, if all parts are of one such kind."""
        known = [terms for part, _ in self._parts if (terms := part.terms()) is not None]
        kinds = {len(terms.Z) > 0 for terms in known}
        if len(known) < len(self._parts) or len(kinds) != 1:
            return None
        joined = RankOneTerms(*(np.concatenate(arrays) for arrays in zip(*known, strict=True)))
        return joined._replace(shifts=self.shifts)

    def rank_one(self, j: int) -> RankOne | None:
        """Constraint j as a rank-one term, or None if it is not of that form."""
        part, i = self._place(j)
        term = part.rank_one(i)
        return None if term is None else term._replace(shift=float(self.shifts[j]))

    def matrix(self, j: int) -> Array:
        """C_j, dense."""
        part, i = self._place(j)
        C = part.matrix(i)
        C[np.diag_indices_from(C)] += part.shifts[i] - self.shifts[j]
        return C


def as_constraints(owner: str, given: GivenConstraints) -> Constraints:
    """One set of constraints, from one or several."""
    if isinstance(given, Constraints):
        return given
    if isinstance(given, list | tuple) and all(isinstance(part, Constraints) for part in given):
        return UnionConstraints(given)
    raise ValueError(
        f"{owner}: constraints must be DistanceConstraints, RankOneConstraints, MatrixConstraints, "
        f"a list of such sets, or a ConstraintOracle, got {type(given).__name__}."
    )


def _product(A: Array, B: Array) -> Array:
    """A B; on all processors if real."""
    return A @ B if np.iscomplexobj(A) or np.iscomplexobj(B) else products((A, B))[0]


def _checked(owner: str, j: int, given: AnyMatrix) -> Matrix:
    check_entries(owner, f"matrix {j}", given)
    C = sparse.csr_array(given) if sparse.issparse(given) else np.asarray(given)
    entries = C.data if sparse.issparse(C) else C
    if C.ndim != 2 or C.shape[0] != C.shape[1] or C.shape[0] < 1 or C.dtype.kind not in "fiuc":
        got = f"got shape {C.shape} and dtype {C.dtype} for number {j}"
        raise ValueError(f"{owner}: matrices must be square arrays of numbers, {got}.")
    if not np.isfinite(entries).all():
        found = f"there is NaN or infinity in number {j}"
        raise ValueError(f"{owner}: matrices must be finite, but {found}.")
    if abs(C - C.conj().T).max() > SYMMETRY_ROUNDING * max(abs(C).max(), np.finfo(float).tiny):
        advice = "pass (C + Cᵀ)/2, which has the same tr(WC)"
        rule = "matrices must be symmetric or Hermitian"
        raise ValueError(f"{owner}: {rule}, but number {j} is not; {advice}.")
    return C


def _extreme_eigenvalues(C: Matrix) -> tuple[float, float]:
    """Least and greatest eigenvalue; of a sparse matrix, from its nonempty rows."""
    rest: list[float] = []
    if sparse.issparse(C):
        rows = np.unique(C.nonzero()[0])
        rest = [0.0] if len(rows) < C.shape[0] else []
        C = C[rows][:, rows].toarray()
    values = [*linalg.eigvalsh(C), *rest] if C.size else rest
    return float(min(values)), float(max(values))


def _joined(sets: Sequence[Constraints]) -> Constraints:
    """Several sets of one class as one, without checking them again."""
    both = copy.copy(sets[0])
    both.dtype = np.result_type(*(one.dtype for one in sets))
    for name in PER_CONSTRAINT & set(vars(both)):
        setattr(both, name, _stacked([vars(one)[name] for one in sets]))
    return both


def _stacked(rows: Sequence[Matrix]) -> Matrix:
    """Rows as one matrix of at least double precision, sparse if any of them is."""
    if any(sparse.issparse(part) for part in rows):
        both = sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in rows]))
    else:
        both = np.concatenate(rows)
    return both.astype(np.result_type(np.float64, both.dtype), copy=False)
