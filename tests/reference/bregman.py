"""Bregman divergences between matrices: D(B, A) = F(B) - F(A) - tr((B - A) ∇F(A)).

Each is non-negative, zero only for B = A, convex in B, and has the gradient ∇F(B) - ∇F(A) there.
Matrices are symmetric or Hermitian. Updates minimize one of them beside a loss, which tests check.
"""

import numpy as np
from scipy import linalg

from similia.linalg.spectral import null_threshold, von_neumann_divergence

__all__ = ["frobenius_divergence", "logdet_divergence", "von_neumann_divergence"]


def frobenius_divergence(B, A):
    """|B - A|²_F, from F(W) = tr(W²), ∇F(W) = 2W."""
    return float(np.linalg.norm(B - A) ** 2)


def logdet_divergence(B, A):
    """tr(BA⁻¹) - log det(BA⁻¹) - n, from F(W) = -log det W, ∇F(W) = -W⁻¹.

    A ≻ 0, B ⪰ 0; infinite where B is singular. No congruence changes it: D(MBMᴴ, MAMᴴ) = D(B, A).
    """
    try:
        L = linalg.cholesky(A, lower=True)
    except linalg.LinAlgError:
        raise ValueError("logdet_divergence: A must be positive definite.") from None
    half = linalg.solve_triangular(L, B, lower=True)
    ratios = linalg.eigvalsh(linalg.solve_triangular(L, half.conj().T, lower=True))
    if ratios[0] <= null_threshold(ratios):
        return np.inf
    # Term by term non-negative, so that no large numbers cancel.
    return float(np.sum(np.maximum((ratios - 1.0) - np.log(ratios), 0.0)))
