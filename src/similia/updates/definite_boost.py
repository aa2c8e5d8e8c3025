"""DefiniteBoost: steps along one constraint, and the loop over rank-one ones [Tsuda2005].

A constraint tr(WC) ≤ 0, with the eigenvalues of C between λmin < 0 < λmax, is met by moving
log W along -C. By Golden and Thompson's inequality and Lemma 2.1, with r = tr(WC),

    tr exp(log W - αC) ≤ e^(-αλmax) (r - λmin)/(λmax - λmin) + e^(-αλmin) (λmax - r)/(λmax - λmin).

References
----------
.. [Tsuda2005] K. Tsuda, G. Rätsch, M. K. Warmuth, "Matrix Exponentiated Gradient Updates for
   On-line Learning and Bregman Projection", JMLR 6, 2005.
"""

from typing import NamedTuple

import numpy as np

from similia.contract import Array
from similia.linalg.bound_by_numba import add_square, gemm
from similia.linalg.compiled import compiled
from similia.linalg.eigen_update import eigen_step

NEGLIGIBLE = 1e-18  #: share of the largest eigenvalue of W below which another is not visible in it
FEW = 0.1  #: pairs, as a share of the entries of W, up to which forming W does not pay
TILE = 32  #: side of the squares in which a matrix is transposed
#: columns of the records that a pass keeps of each step
RECORDED = ("constraint", "value", "step", "dual", "dual_bound", "violation", "gap")


class RankOneTerms(NamedTuple):
    """Constraints sign·zᵀWz ≤ shift; z = e_first - e_second, or a row of `Z` if it has any."""

    Z: Array
    first: Array
    second: Array
    signs: Array
    shifts: Array


@compiled
def approximate_step(r, lam_min, lam_max):
    """Argmin over α of that bound: log[(1 - r/λmin)/(1 - r/λmax)] / (λmax - λmin).

    The paper's (4.6) agrees only for λmin = -λmax; otherwise it takes logarithms of negative
    numbers. Positive where r is; infinite at r = λmax, where W is in a single eigenspace of C.
    """
    return (np.log1p(-r / lam_min) - np.log1p(-r / lam_max)) / (lam_max - lam_min)


@compiled
def guaranteed_progress(r, lam_min, lam_max):
    """-log of that minimum, -log ρ(r) ≥ 0: the least rise of the dual (Theorem 4.1)."""
    high, low = lam_max / (lam_max - lam_min), lam_min / (lam_max - lam_min)
    return low * np.log1p(-r / lam_min) - high * np.log1p(-r / lam_max)


@compiled
def promised_progress(step, r, lam_min, lam_max):
    """-log of that bound at a step of at most `approximate_step`: by convexity, not negative."""
    width = lam_max - lam_min
    high, low = (r - lam_min) / width, (lam_max - r) / width
    return -np.log(np.exp(-step * lam_max) * high + np.exp(-step * lam_min) * low)


@compiled
def asks_for(r, alpha, cap, nearest):
    """How much a constraint of value r with the dual variable α asks for a step.

    Its violation, unless α is at its cap; with `nearest`, its slack while α > 0, as an earlier step
    was then too long.
    """
    if r > 0.0:
        return r if alpha < cap else 0.0
    return -r if nearest and alpha > 0.0 else r


@compiled
def screen_pairs(W, first, second, signs, shifts, out):
    """Set out to signs (W_aa + W_bb - 2 W_ab) - shifts."""
    diagonal = np.diag(W)
    for j in range(len(out)):
        a, b = first[j], second[j]
        out[j] = signs[j] * (diagonal[a] + diagonal[b] - 2.0 * W[a, b]) - shifts[j]


@compiled
def scatter_pairs(W, first, second, places, out):
    """Set out[places] to W_aa + W_bb - 2 W_ab."""
    diagonal = np.diag(W)
    for j in range(len(places)):
        a, b = first[j], second[j]
        out[places[j]] = diagonal[a] + diagonal[b] - 2.0 * W[a, b]


@compiled
def screen_few_pairs(F, first, second, signs, shifts, out):
    """Like `screen_pairs` for W = FFᵀ, from |F_a - F_b|²: for few pairs less work than W itself."""
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
    """Run at most len(records) projections, each on the most violated constraint; return the count.

    Changes `alpha` and the eigenpairs of log W; `low` and `high` bound the eigenvalues of each C_j.
    Every step fills a row of `records` (see `RECORDED`), with dual value and its bound counted from
    the beginning of the pass. With `nearest`, slack is relaxed by negative steps, down to α_j = 0.
    No α_j exceeds `cap`, which is infinite if all constraints must be met.
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
        if terms.Z.size:
            z = rows @ terms.Z[j]
        else:
            z = rows[:, terms.first[j]] - rows[:, terms.second[j]]
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
    """Set rows of B so that W = BᵀB, for visible eigenvalues only; return their number."""
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
    """Set r to the values of all constraints."""
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
def _normalize(values):
    """Shift the eigenvalues of log W so that W has trace one; return the shift."""
    largest, total = np.max(values), 0.0
    for i in range(len(values)):
        total += np.exp(values[i] - largest)
    change = largest + np.log(total)
    for i in range(len(values)):
        values[i] -= change
    return change
