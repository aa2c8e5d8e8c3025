"""DefiniteBoost: steps along one constraint, and the loop over rank-one ones [Tsuda2005].

A constraint tr(WC) ≤ 0, with the eigenvalues of C between λmin < 0 < λmax, is met by moving
log W along -C. By Golden and Thompson's inequality and Lemma 2.1, with r = tr(WC),

    tr exp(log W - αC) ≤ e^(-αλmax) (r - λmin)/(λmax - λmin) + e^(-αλmin) (λmax - r)/(λmax - λmin).

References
----------
.. [Tsuda2005] K. Tsuda, G. Rätsch, M. K. Warmuth, "Matrix Exponentiated Gradient Updates for
   On-line Learning and Bregman Projection", JMLR 6, 2005.
"""

from typing import Any, NamedTuple

import numpy as np

from similia.linalg.bound import add_square, gemm
from similia.linalg.compiled import compiled
from similia.linalg.eigen_update import eigen_step

#: share of the largest eigenvalue of W below which another one does not show in it
NEGLIGIBLE = 1e-18
#: pairs for each entry of W up to which W is not worth making
FEW = 0.1
#: side of the squares in which a matrix is transposed
TILE = 32
#: what a pass records of each step
RECORDED = ("constraint", "value", "step", "dual", "dual_bound", "violation", "gap")


class RankOneTerms(NamedTuple):
    """Constraints sign·zᵀWz ≤ shift; z = e_first - e_second, or a row of `Z` where that has any."""

    Z: Any
    first: Any
    second: Any
    signs: Any
    shifts: Any


@compiled
def approximate_step(r, lam_min, lam_max):
    """Give argmin over α of that bound: log[(1 - r/λmin)/(1 - r/λmax)] / (λmax - λmin).

    The paper's (4.6) is this only for λmin = -λmax; elsewhere it takes logarithms of negative
    numbers. Positive where r is; infinite at r = λmax, where W is all in one eigenspace of C.
    """
    return (np.log1p(-r / lam_min) - np.log1p(-r / lam_max)) / (lam_max - lam_min)


@compiled
def guaranteed_progress(r, lam_min, lam_max):
    """Give -log of that minimum, -log ρ(r) ≥ 0: the least rise of the dual (Theorem 4.1)."""
    high, low = lam_max / (lam_max - lam_min), lam_min / (lam_max - lam_min)
    return low * np.log1p(-r / lam_min) - high * np.log1p(-r / lam_max)


@compiled
def promised_progress(step, r, lam_min, lam_max):
    """Give -log of that bound at a step, which is no longer than `approximate_step`.

    The bound is convex in the step and 1 at zero, so this is not negative, either.
    """
    width = lam_max - lam_min
    high, low = (r - lam_min) / width, (lam_max - r) / width
    return -np.log(np.exp(-step * lam_max) * high + np.exp(-step * lam_min) * low)


@compiled
def asks_for(r, alpha, cap, nearest):
    """Give how much a constraint of value r asks for a step, where α is its dual variable.

    That is the amount by which it is violated, unless α is at its cap; and, if W is to be the
    nearest, the amount by which it is met too well although it has pushed: then an earlier step was
    too long.
    """
    if r > 0.0:
        return r if alpha < cap else 0.0
    return -r if nearest and alpha > 0.0 else r


@compiled
def screen_pairs(W, first, second, signs, shifts, out):
    """Put signs (W_aa + W_bb - 2 W_ab) - shifts into out."""
    diagonal = _diagonal(W)
    for j in range(len(out)):
        a, b = first[j], second[j]
        out[j] = signs[j] * (diagonal[a] + diagonal[b] - 2.0 * W[a, b]) - shifts[j]


@compiled
def scatter_pairs(W, first, second, places, out):
    """Put W_aa + W_bb - 2 W_ab into out, each at its place."""
    diagonal = _diagonal(W)
    for j in range(len(places)):
        a, b = first[j], second[j]
        out[places[j]] = diagonal[a] + diagonal[b] - 2.0 * W[a, b]


@compiled
def screen_few_pairs(F, first, second, signs, shifts, out):
    """As `screen_pairs` for W = FFᵀ, from |F_a - F_b|²: less work than W itself for few pairs."""
    for j in range(len(out)):
        left, right = F[first[j]], F[second[j]]
        square = 0.0
        for i in range(F.shape[1]):
            square += (left[i] - right[i]) ** 2
        out[j] = signs[j] * square - shifts[j]


@compiled
def transposed(B):
    """Copy of Bᵀ, in squares that stay in the cache."""
    F = np.empty((B.shape[1], B.shape[0]))
    for top in range(0, B.shape[0], TILE):
        for left in range(0, B.shape[1], TILE):
            for i in range(top, min(top + TILE, B.shape[0])):
                for c in range(left, min(left + TILE, B.shape[1])):
                    F[c, i] = B[i, c]
    return F


@compiled
def _diagonal(W):
    diagonal = np.empty(len(W))
    for i in range(len(W)):
        diagonal[i] = W[i, i]
    return diagonal


@compiled
def add_pairs(M, first, second, weights):
    """Add Σ weights (e_a - e_b)(e_a - e_b)ᵀ to M."""
    for j in range(len(weights)):
        a, b, weight = first[j], second[j], weights[j]
        if weight != 0.0 and a != b:
            M[a, a] += weight
            M[b, b] += weight
            M[a, b] -= weight
            M[b, a] -= weight


@compiled
def boost_pass(values, rows, work, alpha, terms, low, high, tol, nearest, cap, records):
    """Project onto the most violated constraint, again and again; give how many steps were taken.

    Stops early where nothing is left to do. `values` and `rows` are the eigenpairs of log W, which
    are changed, as is `alpha`; `low` and `high` hold the eigenvalues of each C_j between them. For
    each step a row of `records` is filled as `RECORDED` says, with dual value and its bound
    counted from where the pass began. With `nearest`, constraints that have pushed and are met too
    well count as violated by so much, and are let go, by negative steps, down to α_j = 0. No α_j
    goes beyond `cap`, which is infinite where all constraints must be met.
    """
    d, n = len(values), len(alpha)
    W, B, r = np.empty((d, d)), np.empty((d, d)), np.empty(n)
    parts = np.empty((n if terms.Z.size else 0, d))
    dual = bound = 0.0
    for t in range(len(records)):
        k = _factor(values, rows, B)
        _screen(W, B[:k], terms, parts, r)
        j, most, violation, slack, pushed, total = 0, -np.inf, 0.0, 0.0, 0.0, 0.0
        for i in range(n):
            violation = max(violation, r[i])
            slack += max(r[i], 0.0)
            total += alpha[i]
            pushed += alpha[i] * r[i]
            asked = asks_for(r[i], alpha[i], cap, nearest)
            if asked > most:
                j, most = i, asked
        if most <= tol:
            return t
        top = max(high[j], r[j] * (1.0 + 1e-9))
        step = max(approximate_step(r[j], low[j], top), -alpha[j])
        capped = step >= cap - alpha[j]
        step = cap - alpha[j] if capped else step
        z = _components(rows, terms, j)
        eigen_step(values, rows, z, -step * terms.signs[j], work)
        alpha[j] = cap if capped else alpha[j] + step
        dual -= _normalize(values) + step * terms.shifts[j]
        if capped:
            bound += promised_progress(step, r[j], low[j], top)
        elif r[j] > 0.0:
            bound += guaranteed_progress(r[j], low[j], top)
        records[t, 0], records[t, 1], records[t, 2] = j, r[j], step
        records[t, 3], records[t, 4], records[t, 5] = dual, bound, violation
        allowed = cap * slack if np.isfinite(cap) else violation * total
        records[t, 6] = allowed - pushed
    return len(records)


@compiled
def _factor(values, rows, B):
    """Put rows with W = BᵀB into B, only those that show in W; give their number."""
    largest, k = np.max(values), 0
    for i in range(len(values)):
        w = np.exp(values[i] - largest)
        if w > NEGLIGIBLE:
            scale = np.sqrt(w * np.exp(largest))
            for c in range(rows.shape[1]):
                B[k, c] = scale * rows[i, c]
            k += 1
    return k


@compiled
def _screen(W, B, terms, parts, r):
    """Put the values of all constraints into r."""
    if terms.Z.size:
        out = parts[:, : len(B)]
        gemm(False, terms.Z, True, B, 0.0, out)
        for j in range(len(r)):
            square = 0.0
            for i in range(len(B)):
                square += out[j, i] * out[j, i]
            r[j] = terms.signs[j] * square - terms.shifts[j]
        return
    if len(r) < FEW * W.size:
        screen_few_pairs(transposed(B), terms.first, terms.second, terms.signs, terms.shifts, r)
        return
    W[:] = 0.0
    add_square(W, 1.0, B)
    screen_pairs(W, terms.first, terms.second, terms.signs, terms.shifts, r)


@compiled
def _components(rows, terms, j):
    if terms.Z.size:
        return rows @ terms.Z[j]
    return rows[:, terms.first[j]] - rows[:, terms.second[j]]


@compiled
def _normalize(values):
    """Subtract from the eigenvalues of log W what its trace has too much; give that."""
    largest, total = np.max(values), 0.0
    for i in range(len(values)):
        total += np.exp(values[i] - largest)
    change = largest + np.log(total)
    for i in range(len(values)):
        values[i] -= change
    return change
