"""Products of Gaussian densities over vectors and matrices.

Learners that share a start each multiplied it by a likelihood of their own. Their product has the
sum of their natural parameters, less the start where it was counted too often.
"""

import numpy as np
from scipy import linalg


def merged_diagonal(start, parts):
    """Mean and variances of the product, from those of the start and of the parts.

    1/Σ = Σᵢ 1/Σᵢ - (k-1)/Σ₀,    W/Σ = Σᵢ Wᵢ/Σᵢ - (k-1) W₀/Σ₀, entry by entry: exact.
    """
    # A variance that was rounded to zero becomes the smallest that can be inverted.
    tiny = np.finfo(start[1].dtype).tiny ** 0.5
    precision = natural = 0.0
    for count, mean, variance in _counted(start, parts):
        part = count / np.maximum(variance, tiny)
        precision, natural = precision + part, natural + mean * part
    return natural / precision, 1.0 / precision


def merged_full(start, parts):
    """Mean vector and covariance matrix of the product: likewise for vectors, exact."""
    terms = [(count * _inverse(A), mean) for count, mean, A in _counted(start, parts)]
    covariance = _inverse(sum(B for B, _ in terms))
    mean = covariance @ sum(B @ mean for B, mean in terms)
    return mean.astype(start[0].dtype), covariance.astype(start[0].dtype)


def merged_factored(start, parts):
    """Mean W and factors Λ, Ω close to the product, from (W, Λ, Ω) of the start and the parts.

    The exact product has the precision P = Σᵢ Λᵢ⁻¹⊗Ωᵢ⁻¹ - (k-1) Λ₀⁻¹⊗Ω₀⁻¹, which has no factors.
    Adding factor by factor, Λ⁻¹ = Σᵢ Λᵢ⁻¹ - (k-1) Λ₀⁻¹ and likewise Ω⁻¹ and θ = Λ⁻¹WΩ⁻¹, is an
    approximation whose mean has a good direction but is too short, as it counts P up to k² times
    instead of k. So the mean is rescaled by ⟨θ, W⟩/⟨W, P(W)⟩, the best under the exact product.
    """
    terms = [(n, W, _inverse(Lam), _inverse(Om)) for n, W, Lam, Om in _counted(start, parts)]
    theta = sum(n * L @ W @ R for n, W, L, R in terms)
    Lambda = _inverse(sum(n * L for n, _, L, _ in terms))
    Omega = _inverse(sum(n * R for n, _, _, R in terms))
    W = Lambda @ theta @ Omega
    curvature = sum(n * np.sum(W * (L @ W @ R)) for n, _, L, R in terms)
    if curvature > 0:
        W *= np.sum(theta * W) / curvature
    return tuple(A.astype(start[0].dtype, copy=False) for A in (W, Lambda, Omega))


def _counted(start, parts):
    """The start, counted -(k-1) times, and the parts, counted once."""
    return [(1.0 - len(parts), *start), *((1.0, *part) for part in parts)]


def _inverse(A):
    inverse = linalg.inv(np.asarray(A, dtype=np.float64))
    return (inverse + inverse.T) / 2
