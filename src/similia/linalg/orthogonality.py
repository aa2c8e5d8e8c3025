"""Orthonormal rows that rounding has worn: how far they are off, and putting them right."""

import numpy as np
from scipy import linalg

#: defect from which Newton's iteration is not sure to converge
FAR = 0.5
#: defect at which no iteration makes it better, for each of n rows
ROUNDING = 4.0 * np.finfo(np.float64).eps
#: Newton's iterations; each squares the defect, so from FAR seven reach rounding
NEWTON = 10


def orthogonality_defect(rows):
    """Estimate |RRᴴ - I|_F for a square R from one vector of signs, by two products with it.

    The square of the estimate has the right expectation over the signs; they are always the same
    ones, so that a computation can be repeated.
    """
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=len(rows))
    return float(np.linalg.norm(rows @ (rows.conj().T @ signs) - signs))


def orthogonalize(rows):
    """Replace R by the orthonormal rows nearest to it; give the estimated defect before.

    Newton-Schulz, R <- R + (I - RRᴴ)R/2, converges to the polar factor, that is argmin |R - U|_F
    over unitary U, where R is nearly that already. Rows that are far off are replaced by those
    of a QR factorisation: orthonormal, and in the order of the rows.
    """
    first = orthogonality_defect(rows)
    if not first < FAR:
        rows[:] = _orthonormal_rows(rows)
    for _ in range(NEWTON):
        if orthogonality_defect(rows) <= ROUNDING * len(rows):
            break
        error = -(rows @ rows.conj().T)
        error[np.diag_indices_from(error)] += 1.0
        rows += 0.5 * (error @ rows)
    return first


def _orthonormal_rows(rows):
    Q, R = linalg.qr(rows.T)
    signs = np.diagonal(R) / np.maximum(np.abs(np.diagonal(R)), np.finfo(np.float64).tiny)
    return (Q * np.where(np.abs(signs) > 0.0, signs, 1.0)).T
