"""DefiniteBoost: steps along one constraint, and the loop over rank-one ones [Tsuda2005].

A constraint tr(WC) ≤ 0, with the eigenvalues of C between λmin < 0 < λmax, is met by moving
log W along -C. By Golden and Thompson's inequality and Lemma 2.1, with r = tr(WC),

    tr exp(log W - αC) ≤ e^(-αλmax) (r - λmin)/(λmax - λmin) + e^(-αλmin) (λmax - r)/(λmax - λmin).

References
----------
.. [Tsuda2005] K. Tsuda, G. Rätsch, M. K. Warmuth, "Matrix Exponentiated Gradient Updates for
   On-line Learning and Bregman Projection", JMLR 6, 2005.
"""

from collections import namedtuple

import numpy as np

from libc.math cimport INFINITY, exp, isfinite, log, log1p, sqrt
from similia.linalg.bound cimport add_half, mirror, multiply
from similia.linalg.eigen_update cimport Work, step_eigenpairs

cdef double NEGLIGIBLE = 1e-18  # share of the largest eigenvalue of W below which none is visible
FEW = 0.1  #: pairs, as a share of the entries of W, up to which forming W does not pay
#: columns of the records that a pass keeps of each step
RECORDED = ("constraint", "value", "step", "dual", "dual_bound", "violation", "gap")

cdef enum:
    TILE = 32  # side of the squares in which a matrix is transposed

#: Constraints sign·zᵀWz ≤ shift; z = e_first - e_second, or a row of `Z` if it has any.
RankOneTerms = namedtuple("RankOneTerms", "Z first second signs shifts", module=__name__)


@np.errstate(divide="ignore", invalid="ignore")
def approximate_step(r, lam_min, lam_max):
    """Argmin over α of that bound: log[(1 - r/λmin)/(1 - r/λmax)] / (λmax - λmin).

    The paper's (4.6) agrees only for λmin = -λmax; otherwise it takes logarithms of negative
    numbers. Positive where r is; infinite at r = λmax, where W is in a single eigenspace of C.
    """
    return (np.log1p(-r / lam_min) - np.log1p(-r / lam_max)) / (lam_max - lam_min)


@np.errstate(divide="ignore", invalid="ignore")
def guaranteed_progress(r, lam_min, lam_max):
    """-log of that minimum, -log ρ(r) ≥ 0: the least rise of the dual (Theorem 4.1)."""
    high, low = lam_max / (lam_max - lam_min), lam_min / (lam_max - lam_min)
    return low * np.log1p(-r / lam_min) - high * np.log1p(-r / lam_max)


cdef double _step(double r, double low, double high) noexcept nogil:
    return (log1p(-r / low) - log1p(-r / high)) / (high - low)


cdef double _guaranteed(double r, double low, double high) noexcept nogil:
    return (low * log1p(-r / low) - high * log1p(-r / high)) / (high - low)


def promised_progress(double step, double r, double lam_min, double lam_max):
    """-log of that bound at a step of at most `approximate_step`: by convexity, not negative."""
    return _promised(step, r, lam_min, lam_max)


cdef double _promised(double step, double r, double lam_min, double lam_max) noexcept nogil:
    cdef double width = lam_max - lam_min, high = (r - lam_min) / width, low = (lam_max - r) / width
    return -log(exp(-step * lam_max) * high + exp(-step * lam_min) * low)


def asks_for(double r, double alpha, double cap, bint nearest):
    """How much a constraint of value r with the dual variable α asks for a step.

    Its violation, unless α is at its cap; with `nearest`, its slack while α > 0, as an earlier step
    was then too long.
    """
    return _asks_for(r, alpha, cap, nearest)


cdef inline double _asks_for(double r, double alpha, double cap, bint nearest) noexcept nogil:
    if r > 0.0:
        return r if alpha < cap else 0.0
    return -r if nearest and alpha > 0.0 else r


def screen_pairs(
    const double[:, :] W,
    const unsigned int[:] first,
    const unsigned int[:] second,
    const double[:] signs,
    const double[:] shifts,
    double[:] out,
):
    """Set out to signs (W_aa + W_bb - 2 W_ab) - shifts."""
    with nogil:
        _screen_pairs(W, first, second, signs, shifts, out)


cdef void _screen_pairs(
    const double[:, :] W,
    const unsigned int[:] first,
    const unsigned int[:] second,
    const double[:] signs,
    const double[:] shifts,
    double[:] out,
) noexcept nogil:
    cdef Py_ssize_t j, a, b
    for j in range(out.shape[0]):
        a, b = first[j], second[j]
        out[j] = signs[j] * (W[a, a] + W[b, b] - 2.0 * W[a, b]) - shifts[j]


def screen_few_pairs(
    const double[:, ::1] F,
    const unsigned int[:] first,
    const unsigned int[:] second,
    const double[:] signs,
    const double[:] shifts,
    double[:] out,
):
    """Like `screen_pairs` for W = FFᵀ, from |F_a - F_b|²: for few pairs less work than W itself."""
    with nogil:
        _screen_few_pairs(F, first, second, signs, shifts, out)


cdef void _screen_few_pairs(
    const double[:, ::1] F,
    const unsigned int[:] first,
    const unsigned int[:] second,
    const double[:] signs,
    const double[:] shifts,
    double[:] out,
) noexcept nogil:
    cdef Py_ssize_t j, a, b, i
    cdef double square
    for j in range(out.shape[0]):
        a, b, square = first[j], second[j], 0.0
        for i in range(F.shape[1]):
            square += (F[a, i] - F[b, i]) * (F[a, i] - F[b, i])
        out[j] = signs[j] * square - shifts[j]


def transposed(const double[:, ::1] B):
    """Copy of Bᵀ, in squares that stay in the cache."""
    F = np.empty((B.shape[1], B.shape[0]))
    cdef double[:, ::1] into = F
    with nogil:
        _transpose(B, into)
    return F


cdef void _transpose(const double[:, ::1] B, double[:, ::1] F) noexcept nogil:
    cdef Py_ssize_t top, left, i, c, rows = B.shape[0], columns = B.shape[1]
    for top in range((rows + TILE - 1) // TILE):
        for left in range((columns + TILE - 1) // TILE):
            for i in range(top * TILE, min((top + 1) * TILE, rows)):
                for c in range(left * TILE, min((left + 1) * TILE, columns)):
                    F[c, i] = B[i, c]


def add_pairs(
    double[:, :] M,
    const unsigned int[:] first,
    const unsigned int[:] second,
    const double[:] weights,
):
    """Add Σ weights (e_a - e_b)(e_a - e_b)ᵀ to M."""
    cdef Py_ssize_t j, a, b
    cdef double weight
    with nogil:
        for j in range(weights.shape[0]):
            a, b, weight = first[j], second[j], weights[j]
            if weight != 0.0 and a != b:
                M[a, a] += weight
                M[b, b] += weight
                M[a, b] -= weight
                M[b, a] -= weight


cdef class _Terms:
    """`RankOneTerms` for compiled code, and memory for their values."""

    cdef const double[:, ::1] Z
    cdef const unsigned int[:] first, second
    cdef const double[:] signs, shifts
    cdef double[::1] r, z
    cdef double[:, ::1] W, B, F, parts
    cdef bint given  # rows of Z, not pairs

    def __cinit__(self, terms, Py_ssize_t d):
        n = len(terms.signs)
        self.Z, self.first, self.second, self.signs, self.shifts = terms
        self.given = terms.Z.size > 0
        self.r, self.z = np.empty(n), np.empty(d)
        self.W, self.B = np.empty((2, d, d))
        self.F = np.empty((0 if self.given else d, d))
        self.parts = np.empty((n if self.given else 0, d))


def boost_pass(
    double[::1] values,
    double[:, ::1] rows,
    work,
    double[::1] alpha,
    terms,
    const double[:] low,
    const double[:] high,
    double tol,
    bint nearest,
    double cap,
    double[:, ::1] records,
):
    """Run at most len(records) projections, each on the most violated constraint; return the count.

    Changes `alpha` and the eigenpairs of log W; `low` and `high` bound the eigenvalues of each C_j.
    Every step fills a row of `records` (see `RECORDED`), with dual value and its bound counted from
    the beginning of the pass. With `nearest`, slack is relaxed by negative steps, down to α_j = 0.
    No α_j exceeds `cap`, which is infinite if all constraints must be met.
    """
    cdef _Terms these = _Terms(terms, values.shape[0])
    cdef Work space = Work(work)
    cdef const double[:] signs = these.signs, shifts = these.shifts
    cdef double[::1] r = these.r, z = these.z
    cdef Py_ssize_t d = values.shape[0], n = alpha.shape[0], t, i, j, k, a, b, taken = 0
    cdef double dual = 0.0, bound = 0.0, most, violation, slack, pushed, total, asked, top, step
    cdef bint capped
    with nogil:
        for t in range(records.shape[0]):
            k = _factor(values, rows, these.B)
            _screen(these, k)
            j, most, violation, slack, pushed, total = 0, -INFINITY, 0.0, 0.0, 0.0, 0.0
            for i in range(n):
                violation = max(violation, r[i])
                slack += max(r[i], 0.0)
                total += alpha[i]
                pushed += alpha[i] * r[i]
                asked = _asks_for(r[i], alpha[i], cap, nearest)
                if asked > most:
                    j, most = i, asked
            if most <= tol:
                break
            top = max(high[j], r[j] * (1.0 + 1e-9))
            step = max(_step(r[j], low[j], top), -alpha[j])
            capped = step >= cap - alpha[j]
            step = cap - alpha[j] if capped else step
            for i in range(d):
                if these.given:
                    z[i] = 0.0
                    for k in range(d):
                        z[i] += rows[i, k] * these.Z[j, k]
                else:
                    a, b = these.first[j], these.second[j]
                    z[i] = rows[i, a] - rows[i, b]
            step_eigenpairs(values, rows, z, -step * signs[j], space)
            alpha[j] = cap if capped else alpha[j] + step
            dual -= _normalize(values) + step * shifts[j]
            if capped:
                bound += _promised(step, r[j], low[j], top)
            elif r[j] > 0.0:
                bound += _guaranteed(r[j], low[j], top)
            records[t, 0], records[t, 1], records[t, 2] = j, r[j], step
            records[t, 3], records[t, 4], records[t, 5] = dual, bound, violation
            records[t, 6] = (cap * slack if isfinite(cap) else violation * total) - pushed
            taken = t + 1
    return taken


cdef Py_ssize_t _factor(
    const double[::1] values, const double[:, ::1] rows, double[:, ::1] B
) noexcept nogil:
    """Set rows of B so that W = BᵀB, for visible eigenvalues only; return their number."""
    cdef Py_ssize_t i, c, k = 0
    cdef double largest = values[0], w, scale
    for i in range(values.shape[0]):
        largest = max(largest, values[i])
    for i in range(values.shape[0]):
        w = exp(values[i] - largest)
        if w > NEGLIGIBLE:
            scale = sqrt(w * exp(largest))
            for c in range(rows.shape[1]):
                B[k, c] = scale * rows[i, c]
            k += 1
    return k


cdef void _screen(_Terms terms, Py_ssize_t k) noexcept nogil:
    """Set r to the values of all constraints, from the first k rows of B."""
    cdef Py_ssize_t i, j, d = terms.W.shape[0]
    cdef double square
    cdef double[:, ::1] W = terms.W
    if terms.given:
        multiply[double](False, terms.Z, True, terms.B[:k], 0.0, terms.parts[:, :k])
        for j in range(terms.r.shape[0]):
            square = 0.0
            for i in range(k):
                square += terms.parts[j, i] * terms.parts[j, i]
            terms.r[j] = terms.signs[j] * square - terms.shifts[j]
        return
    if terms.r.shape[0] < 0.1 * d * d:  # FEW
        _transpose(terms.B, terms.F)
        for i in range(d):
            for j in range(k, d):
                terms.F[i, j] = 0.0
        _screen_few_pairs(
            terms.F, terms.first, terms.second, terms.signs, terms.shifts, terms.r
        )
        return
    for i in range(d):
        for j in range(d):
            W[i, j] = 0.0
    add_half[double](W, 1.0, terms.B[:k])
    mirror[double](W)
    _screen_pairs(W, terms.first, terms.second, terms.signs, terms.shifts, terms.r)


cdef double _normalize(double[::1] values) noexcept nogil:
    """Shift the eigenvalues of log W so that W has trace one; return the shift."""
    cdef Py_ssize_t i
    cdef double largest = values[0], total = 0.0, change
    for i in range(values.shape[0]):
        largest = max(largest, values[i])
    for i in range(values.shape[0]):
        total += exp(values[i] - largest)
    change = largest + log(total)
    for i in range(values.shape[0]):
        values[i] -= change
    return change
