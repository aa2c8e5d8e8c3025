"""log tr exp along a line G + tC: value, slope and curvature, for choosing a step before taking it.

With W = exp(G)/tr exp(G), eigenvalues g and w of G and W, and C in the eigenvectors of G,

    d/dt log tr exp(G + tC) = tr(WC) = Σ w_a C_aa
    d²/dt² log tr exp(G + tC) = Σ_ab Φ_ab |C_ab|² - tr(WC)²,    Φ_ab = (w_a - w_b)/(g_a - g_b),

Φ_aa = w_a: the divided differences of the exponential function, all positive.
"""

import numpy as np

from similia.linalg.compiled import compiled
from similia.linalg.deflation import deflate
from similia.linalg.secular import secular_roots
from similia.linalg.spectral import gibbs_weights, log_trace_exp

#: gap of logarithms above which the difference of their exponentials loses no digits that matter
APART = 0.5


@compiled
def divided_difference(g, w, h, v):
    """Give (w - v)/(g - h) for w = exp(g), v = exp(h), also where they agree."""
    gap = abs(g - h)
    if gap > APART:
        return (w - v) / (g - h)
    larger = max(w, v)
    return larger if gap == 0.0 else larger * (-np.expm1(-gap) / gap)


def gibbs_line(values, vectors, C):
    """Value, slope and curvature at t = 0 of log tr exp(G + tC), from the eigenpairs of G."""
    M = vectors.conj().T @ C @ vectors
    w = gibbs_weights(values)
    squares = np.ascontiguousarray(M.real**2 + M.imag**2 if np.iscomplexobj(M) else M**2)
    slope = float(w @ M.diagonal().real)
    return log_trace_exp(values), slope, _weighted_sum(values, w, squares) - slope * slope


@compiled
def _weighted_sum(values, w, squares):
    total = 0.0
    for a in range(len(values)):
        total += w[a] * squares[a, a]
        for b in range(a):
            phi = divided_difference(values[a], w[a], values[b], w[b])
            total += 2.0 * phi * squares[a, b]
    return total


@compiled
def rank_one_gibbs_line(values, z, rho, work):
    """Value, slope and curvature of log tr exp(diag(values) + tzzᵀ) at t = ρ, in O(n²).

    `work` is `eigen_workspace` for as many eigenvalues. Components of z that rounding swallows
    beside ρ count as zero, so this is for ρ that change the eigenvalues visibly, or for ρ = 0.
    """
    n = len(values)
    g, length2 = values.copy(), 0.0
    for i in range(n):
        length2 += z[i] * z[i]
    # In the eigenvectors after the change, zzᵀ has entries whose squares are parts_a parts_b.
    parts = np.zeros(n)
    k, scale, strength = deflate(
        g, np.empty((0, 0)), z, rho, work.places, work.poles, work.weights
    )  # fmt: skip
    if k == 0:
        for i in range(n):
            parts[i] = z[i] * z[i]
    turn = work.turn[: k * k].reshape((k, k))
    weights = work.weights[:k]
    secular_roots(0, k, work.poles[:k], weights, strength, work.roots, turn)
    for j in range(k):
        total = 0.0
        for i in range(k):
            # With at most two poles `turn` holds eigenvectors, else differences of pole and root.
            total += weights[i] * turn[j, i] if k <= 2 else (weights[i] / turn[j, i]) ** 2
        part = total * total if k <= 2 else 1.0 / (strength * strength * total)
        g[work.places[j]] = scale * work.roots[j]
        parts[work.places[j]] = length2 * part
    top = np.max(g)
    w = np.exp(g - top)
    total = np.sum(w)
    w /= total
    slope, curvature = 0.0, 0.0
    for a in range(n):
        if parts[a] == 0.0:
            continue
        slope += w[a] * parts[a]
        curvature += w[a] * parts[a] * parts[a]
        for b in range(a):
            if parts[b] > 0.0:
                phi = divided_difference(g[a], w[a], g[b], w[b])
                curvature += 2.0 * phi * parts[a] * parts[b]
    return top + np.log(total), slope, curvature - slope * slope
