"""Eigenvalues and eigenvectors of diag(d) + ρuuᵀ: the secular equation 1 + ρ Σ uᵢ²/(dᵢ - λ) = 0.

After deflation d is strictly increasing, no uᵢ is zero and ρ > 0: there is one root right of each
dᵢ, the last at most d_k + ρ|u|². LAPACK's root finder [Li1993] finds each with all differences
dᵢ - λⱼ, accurate even where they are tiny; eigenvectors follow from these [Gu1994].

References
----------
.. [Gu1994] M. Gu, S. Eisenstat, "A Stable and Efficient Algorithm for the Rank-One Modification of
   the Symmetric Eigenproblem", SIAM J. Matrix Anal. Appl. 15, 1994.
.. [Li1993] R.-C. Li, "Solving Secular Equations Stably and Efficiently", LAPACK Working Note 89.
"""

import numpy as np

from similia.linalg.bound_by_numba import held, routine
from similia.linalg.compiled import compiled

_dlaed4 = routine("cython_lapack", "dlaed4", 8)

HALVINGS = 1200  #: halvings after which an interval cannot shrink any more, whatever its scale
#: a change below this multiple of the matrix's norm is rounding; LAPACK's choice in dlaed2
ROUNDING = 8.0 * np.finfo(np.float64).eps
TINY = np.finfo(np.float64).tiny  #: numbers without a reciprocal count as zero


@compiled
def deflate(values, rows, z, rho, places, poles, weights):
    """Select the eigenpairs that ρzzᵀ changes; return their number k, a scale and a strength.

    `z` are the components in the eigenvectors `rows`. The first k `places` are set to the pairs
    that change, `poles` to their eigenvalues over the scale, which has the sign of ρ (increasing,
    well apart, at most 1), `weights` to their components, scaled to length one. The strength
    takes the place of |ρ|.

    A pair stays if its component is zero up to rounding. Where two eigenvalues agree, a plane
    rotation of their vectors leaves one of them without a component, so `values` and `rows` change
    here already. `rows` may be empty if only eigenvalues are wanted.
    """
    n = len(values)
    largest, norm = 0.0, 0.0
    for i in range(n):
        largest = max(largest, abs(z[i]))
        norm = max(norm, abs(values[i]))
    if largest < TINY:
        return 0, 1.0, 0.0
    square = 0.0
    for i in range(n):
        square += (z[i] / largest) * (z[i] / largest)
    length = largest * np.sqrt(square)
    strength = abs(rho) * length * length
    norm = max(norm, strength)
    if strength <= ROUNDING * norm or norm < TINY:
        return 0, 1.0, 0.0
    negligible = ROUNDING * norm
    sign = 1.0 if rho > 0.0 else -1.0
    k = 0
    order = _ascending(values)
    for j in range(n):
        i = order[j if rho > 0.0 else n - 1 - j]
        pole, weight = sign * values[i], z[i] / length
        if strength * abs(weight) <= negligible:
            continue
        if k > 0:
            # Turn the previous one out of the term, if that leaves no more than rounding behind.
            both = np.hypot(weight, weights[k - 1])
            c, s, previous = weight / both, weights[k - 1] / both, poles[k - 1]
            if abs((pole - previous) * c * s) <= negligible:
                k -= 1
                values[places[k]] = sign * (previous * c * c + pole * s * s)
                pole = previous * s * s + pole * c * c
                weight = both
                if rows.size:
                    _rotate(rows[places[k]], rows[i], c, s)
        places[k], poles[k], weights[k] = i, pole, weight
        k += 1
    for j in range(k):
        poles[j] /= norm
    return k, sign * norm, strength / norm


@compiled
def _ascending(values):
    """Places of the values in ascending order; fast if nearly sorted, as usual."""
    n = len(values)
    order, falling = np.empty(n, np.intp), values[0] > values[n - 1]
    for j in range(n):
        i = n - 1 - j if falling else j
        place = j
        while place > 0 and values[order[place - 1]] > values[i]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i
    return order


@compiled
def _rotate(p, q, c, s):
    """Replace the pair (p, q) of rows by (cp - sq, sp + cq)."""
    for i in range(len(p)):
        p[i], q[i] = c * p[i] - s * q[i], s * p[i] + c * q[i]


@compiled
def secular_roots(start, stop, d, u, rho, roots, gaps):
    """Set roots start … stop-1, and gaps[j, i] to dᵢ - λⱼ.

    With at most two poles LAPACK returns eigenvectors instead, as after `secular_vectors`.
    """
    size, strength = held(np.int32(len(d))), held(rho)
    poles, weights = d.ctypes.data, u.ctypes.data
    info = np.empty(1, np.int32)
    for j in range(start, stop):
        gap, root = gaps[j].ctypes.data, roots.ctypes.data + 8 * j
        place = held(np.int32(j + 1))
        _dlaed4(size, place, poles, weights, gap, strength, root, info.ctypes.data)
        if info[0] != 0:
            roots[j] = bisected_root(d, u, rho, j, gaps[j])


@compiled
def bisected_root(d, u, rho, j, gap):
    """Root j, by halving its distance to the nearer pole, and gap = d - λ: slow but sure."""
    k = len(d)
    width = d[j + 1] - d[j] if j + 1 < k else 0.0
    if j + 1 == k:
        for i in range(k):
            width += rho * u[i] * u[i]
    origin, low, high = d[j], 0.0, width
    # An array of its own: in one expression, the compiler would be free to add origin and offset
    # first, which loses the offset.
    shifted = d - origin
    if j + 1 < k and _secular(shifted, u, rho, 0.5 * width) < 0.0:
        origin, low, high = d[j + 1], -width, 0.0
        shifted = d - origin
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if _secular(shifted, u, rho, middle) < 0.0:
            low = middle
        else:
            high = middle
    offset = low if high == 0.0 else high
    for i in range(k):
        gap[i] = shifted[i] - offset
    return origin + offset


@compiled
def _secular(shifted, u, rho, offset):
    total = 1.0
    for i in range(len(u)):
        total += rho * u[i] * u[i] / (shifted[i] - offset)
    return total


@compiled
def exact_weights(start, stop, d, u, gaps, weights):
    """Set entries start … stop-1 of the û for which the computed roots are *exact* eigenvalues.

    ûᵢ² ∝ Π_j (λⱼ - dᵢ) / Π_{j≠i} (dⱼ - dᵢ)                           [Gu1994, Löwner's formula]

    Eigenvectors for û are orthogonal to rounding, however close the roots; those for u are not.
    """
    for i in range(start, stop):
        weights[i] = 1.0
    for j in range(len(d)):
        gap, pole = gaps[j], d[j]
        for i in range(start, min(j, stop)):
            weights[i] *= gap[i] / (d[i] - pole)
        if start <= j < stop:
            weights[j] *= gap[j]
        for i in range(max(j + 1, start), stop):
            weights[i] *= gap[i] / (d[i] - pole)
    for i in range(start, stop):
        weights[i] = np.copysign(np.sqrt(abs(weights[i])), u[i])


@compiled
def secular_vectors(start, stop, weights, gaps):
    """Turn rows start … stop-1 of the differences into eigenvectors ∝ ûᵢ / (dᵢ - λⱼ)."""
    for j in range(start, stop):
        row = gaps[j]
        square = 0.0
        for i in range(len(weights)):
            entry = weights[i] / row[i]
            row[i] = entry
            square += entry * entry
        scale = 1.0 / np.sqrt(square)
        for i in range(len(weights)):
            row[i] *= scale
