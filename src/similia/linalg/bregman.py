"""Bregman divergences between matrices: D(B, A) = F(B) - F(A) - tr((B - A) ∇F(A)).

Each is non-negative, zero only for B = A, convex in B, and has the gradient ∇F(B) - ∇F(A) there.
Matrices are symmetric or Hermitian.
"""

import numpy as np
from scipy import linalg
from scipy.special import kl_div

from similia.linalg.spectral import null_threshold


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


def von_neumann_divergence(B, A):
    """tr(B log B - B log A - B + A), from F(W) = tr(W log W - W), ∇F(W) = log W.

    A, B ⪰ 0; infinite where B has a component in the null space of A. For trace one it is the
    quantum relative entropy, for diagonal matrices that of Kullback and Leibler [Tsuda2005, 2.4].
    """
    (b, Q), (a, R) = linalg.eigh(B), linalg.eigh(A)
    for name, values in (("B", b), ("A", a)):
        if values[0] < -null_threshold(values):
            rule = f"{name} must be positive semidefinite, got an eigenvalue of {values[0]:.3g}"
            raise ValueError(f"von_neumann_divergence: {rule}.")
    b, a = (np.where(v > null_threshold(v), v, 0.0) for v in (b, a))
    overlap = np.abs(Q.conj().T @ R) ** 2
    outside = a == 0.0
    if (b @ overlap[:, outside]).sum() > null_threshold(b):
        return np.inf
    # Rows and columns of the overlap have sum one, so this is a mean of scalar divergences.
    return float(np.sum(overlap[:, ~outside] * kl_div(b[:, None], a[~outside])))
