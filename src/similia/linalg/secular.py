"""Eigenvalues and eigenvectors of diag(d) + ρuuᵀ: the secular equation 1 + ρ Σ uᵢ²/(dᵢ - λ) = 0.

With d strictly increasing, no uᵢ zero and ρ > 0 there is one root right of each dᵢ, and the last
is not beyond d_k + ρ|u|². LAPACK's root finder [Li1993] gives each of them together with all
differences dᵢ - λⱼ, accurate even where they are tiny; eigenvectors follow from these [Gu1994].

References
----------
.. [Gu1994] M. Gu, S. Eisenstat, "A Stable and Efficient Algorithm for the Rank-One Modification of
   the Symmetric Eigenproblem", SIAM J. Matrix Anal. Appl. 15, 1994.
.. [Li1993] R.-C. Li, "Solving Secular Equations Stably and Efficiently", LAPACK Working Note 89.
"""

import numpy as np

from similia.linalg.bound import routine
from similia.linalg.compiled import compiled

_dlaed4 = routine("cython_lapack", "dlaed4", 8)

#: halvings after which an interval cannot shrink any more, whatever its scale
HALVINGS = 1200


@compiled
def secular_roots(start, stop, d, u, rho, roots, gaps):
    """Find roots start … stop-1; put them into `roots`, and dᵢ - λⱼ into gaps[j, i].

    With two poles LAPACK gives the eigenvector instead of the differences, and with one the
    number 1: in these cases gaps holds eigenvectors, as after `secular_vectors`.
    """
    k = len(d)
    sizes = np.zeros(3, np.int32)
    sizes[0] = k
    scalars = np.empty(1)
    scalars[0] = rho
    # fmt: off
    for j in range(start, stop):
        sizes[1] = j + 1
        _dlaed4(sizes.ctypes.data, sizes.ctypes.data + 4, d.ctypes.data, u.ctypes.data,
                gaps[j].ctypes.data, scalars.ctypes.data, roots.ctypes.data + 8 * j,
                sizes.ctypes.data + 8)
        if sizes[2] != 0:
            roots[j] = bisected_root(d, u, rho, j, gaps[j])
    # fmt: on
    return sizes[0] + scalars[0]  # used once more, so that they outlive the calls


@compiled
def bisected_root(d, u, rho, j, gap):
    """Find root j by halving, and all dᵢ - λ: slow, but it cannot fail.

    The unknown is the distance to the nearer pole, so that differences keep their accuracy.
    """
    k = len(d)
    width = d[j + 1] - d[j] if j + 1 < k else 0.0
    if j + 1 == k:
        for i in range(k):
            width += rho * u[i] * u[i]
    origin, low, high = d[j], 0.0, width
    # Shifted poles are an array of their own: written as one expression, the compiler would be free
    # to add origin and offset first, and with that to lose the offset.
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
    """Give the û for which the computed roots are *exact* eigenvalues, entries start … stop-1.

    ûᵢ² ∝ Π_j (λⱼ - dᵢ) / Π_{j≠i} (dⱼ - dᵢ)                           [Gu1994, Löwner's formula]

    Eigenvectors of diag(d) + ρûûᵀ are orthogonal to rounding however close the roots are; those of
    the given u are not.
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
