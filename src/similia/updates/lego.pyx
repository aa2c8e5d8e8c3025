"""LEGO: LogDet-regularized steps on a Mahalanobis distance [Jain2008]."""

import numpy as np

from similia.linalg.blas import add_cross_products, products
from similia.linalg.downdates import downdate

from cython cimport floating
from libc.math cimport fabs, hypot, sqrt
from similia.linalg.downdates cimport eliminate


def lego_pass(A, moment, t, Z, targets, eta):
    """Learn a block of pairs with differences Z: change A, gather `moment`, count updates.

    Each step solves min over B ≻ 0 of D_logdet(B, A) + η/2 (zᵀBz - y)², y the target, ŷ = zᵀAz:

        A -= c Az zᵀA,   c = η(ȳ - y)ȳ/ŷ,   ȳ = [ηyŷ - 1 + √((ηyŷ - 1)² + 4ηŷ²)] / (2ηŷ)

    where ȳ = zᵀBz is the distance after the step. `targets` has two columns, the lowest and the
    highest squared distance that needs no step. Cost: 4 d² flops a pair, in matrix products.
    """
    (ZA,) = products((Z, A))
    (H,) = products((ZA, Z.T))
    c = np.zeros(H.shape[0], dtype=A.dtype)
    least = 1e4 * np.finfo(A.dtype).tiny  # below, a distance is rounding, and 1/ŷ no number
    _lego_walk(H, np.asarray(targets, np.float64), eta, c, least)
    rows = np.flatnonzero(c)
    if len(rows):
        moved = ZA[rows]
        downdate(A, moved, H[rows], c[rows], rows)
        if moment.size:
            add_cross_products((moment, moved, moved, -c[rows] * (t + 1 + rows)))
    return len(rows)


def _lego_walk(
    floating[:, ::1] H, const double[:, :] targets, double eta, floating[::1] c, double least
):
    cdef Py_ssize_t t
    cdef double distance, target, half, root, after
    with nogil:
        for t in range(c.shape[0]):
            eliminate[floating](H, c, t, t, t)
            distance = H[t, t]
            target = min(max(distance, targets[t, 0]), targets[t, 1])
            if distance > least and target != distance:
                half = eta * target * distance - 1.0
                root = hypot(half, 2.0 * sqrt(eta) * distance)
                # The same number either way, without subtracting numbers of similar size.
                if half >= 0.0:
                    after = (half + root) / (2.0 * eta * distance)
                else:
                    after = 2.0 * distance / (root - half)
                # Again the same number, as ȳ = ŷ - cŷ²: take the larger of the two differences,
                # which rounding affects less.
                if fabs(after - target) > fabs(distance - after):
                    c[t] = <floating>(eta * (after - target) * (after / distance))
                else:
                    c[t] = <floating>((1.0 - after / distance) / distance)
