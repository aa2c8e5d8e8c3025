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
    mean, variance = start
    extra = len(parts) - 1
    # A variance that was rounded to zero becomes the smallest that can be inverted.
    tiny = np.finfo(variance.dtype).tiny ** 0.5
    precision = -extra / np.maximum(variance, tiny)
    natural = mean * precision
    for part_mean, part_variance in parts:
        part_precision = 1.0 / np.maximum(part_variance, tiny)
        precision = precision + part_precision
        natural = natural + part_mean * part_precision
    return natural / precision, 1.0 / precision


def merged_full(start, parts):
    """Mean vector and covariance matrix of the product: likewise for vectors, exact."""
    weights = [-(len(parts) - 1.0), *[1.0] * len(parts)]
    precisions = [w * _inverse(A) for w, (_, A) in zip(weights, (start, *parts), strict=True)]
    natural = sum(B @ mean for B, (mean, _) in zip(precisions, (start, *parts), strict=True))
    covariance = _inverse(sum(precisions))
    dtype = start[0].dtype
    return (covariance @ natural).astype(dtype), covariance.astype(dtype)


def merged_factored(start, parts):
    """Mean W and factors Λ, Ω close to the product, from (W, Λ, Ω) of the start and the parts.

    The exact product has the precision P = Σᵢ Λᵢ⁻¹⊗Ωᵢ⁻¹ - (k-1) Λ₀⁻¹⊗Ω₀⁻¹, which has no factors.
    Adding factor by factor, Λ⁻¹ = Σᵢ Λᵢ⁻¹ - (k-1) Λ₀⁻¹ and likewise Ω⁻¹ and θ = Λ⁻¹WΩ⁻¹, is an
    approximation whose mean has a good direction but is too short, as it counts P up to k² times
    instead of k. So the mean is rescaled by ⟨θ, W⟩/⟨W, P(W)⟩, the best under the exact product.
    """
    weights = [-(len(parts) - 1.0), *[1.0] * len(parts)]
    left = [_inverse(Lambda) for _, Lambda, _ in (start, *parts)]
    right = [_inverse(Omega) for _, _, Omega in (start, *parts)]
    means = [W for W, _, _ in (start, *parts)]
    theta = sum(w * L @ W @ R for w, L, W, R in zip(weights, left, means, right, strict=True))
    Lambda = _inverse(sum(w * L for w, L in zip(weights, left, strict=True)))
    Omega = _inverse(sum(w * R for w, R in zip(weights, right, strict=True)))
    W = Lambda @ theta @ Omega
    curvature = sum(
        w * np.sum(W * (L @ W @ R)) for w, L, R in zip(weights, left, right, strict=True)
    )
    if curvature > 0:
        W *= np.sum(theta * W) / curvature
    return tuple(A.astype(start[0].dtype, copy=False) for A in (W, Lambda, Omega))


def _inverse(A):
    inverse = linalg.inv(np.asarray(A, dtype=np.float64))
    return (inverse + inverse.T) / 2
