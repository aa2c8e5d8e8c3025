"""POLA: two projections for each pair [ShalevShwartz2004]."""

import numpy as np

from similia.linalg.blas import products, row_products
from similia.linalg.blocks import dense
from similia.linalg.lanczos import SMALL

from cython cimport floating
from similia.linalg.bound cimport add_weighted
from similia.linalg.clones cimport void_clones
from similia.linalg.lanczos cimport Space, find_negative

#: rank-one terms that are added to A together, and the same for small A
PENDING, PENDING_SMALL = 48, 12
#: residual of the eigenvector that is removed, relative to the size of A
TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 2e-6}


def pola_pass(A, threshold, moment, t, Z, y, losses, rho, slack):
    """Learn a block of pairs with differences Z: change A and b, count updates.

    `threshold` holds b and Σ_t t·Δb_t, as `moment` does for A; `losses` is set to each pair's loss
    before its step. A pair with ℓ > 0 moves (A, b) to the nearest point that satisfies it, and from
    there to the nearest with A ⪰ 0 and b ≥ 1. The squared distance between two points is
    |ΔA|² + Δb²/ρ (in the paper ρ = 1), and `slack`, σ, shortens steps (in the paper γ):

        ℓ = max(0, y(vᵀAv - b) + 1),   α = ℓ / (|v|⁴ + ρ + σ)
        A <- A - yα vvᵀ - λuuᵀ,        b <- max(b + yρα, 1)

    where λ < 0 and u are the one negative eigenvalue that a similar pair (y = 1) can cause, and
    its eigenvector. Two equal points change nothing. Cost: 2 d² flops a pair in matrix products,
    and for a similar pair that moves A some thirty products Aq.
    """
    (ZA,) = products((Z, A))
    distances = np.asarray(row_products(ZA, Z))
    Z = np.ascontiguousarray(dense(Z), dtype=A.dtype)
    (G,) = products((Z, Z.T))
    rho, slack, tol = float(rho), float(slack), TOLERANCE[A.dtype]
    y = np.ascontiguousarray(y, np.float64)
    return _pola_walk(A, threshold, moment, t, Z, G, distances, y, losses, rho, slack, tol)


def _pola_walk(
    floating[:, ::1] A,
    double[::1] threshold,
    floating[:, ::1] moment,
    Py_ssize_t t,
    const floating[:, ::1] Z,
    const floating[:, ::1] G,
    floating[::1] distances,
    const double[::1] y,
    double[::1] losses,
    double rho,
    double slack,
    double tol,
):
    cdef Py_ssize_t n = A.shape[0], room = PENDING if n > SMALL else PENDING_SMALL
    cdef Py_ssize_t i, j, k, pending = 0, updates = 0
    cdef bint averaged = moment.shape[0] > 0
    cdef double square, b, loss, alpha, eigenvalue
    dtype = np.asarray(A).dtype
    cdef floating[:, ::1] R = np.empty((room, n), dtype), scaled = np.empty((room, n), dtype)
    cdef floating[::1] c = np.empty(room, dtype), timed = np.empty(room, dtype)
    cdef floating[::1] u = np.empty(n, dtype)
    cdef Space space = Space(n, sizeof(floating))
    with nogil:
        for i in range(y.shape[0]):
            square, b = G[i, i], threshold[0]
            loss = max(0.0, y[i] * (distances[i] - b) + 1.0)
            if loss == 0.0 or square == 0.0:
                continue
            losses[i] = loss
            updates += 1
            alpha = loss / (square * square + rho + slack)
            threshold[0] = max(b + y[i] * rho * alpha, 1.0)
            threshold[1] += (t + i + 1) * (threshold[0] - b)
            if y[i] > 0:
                eigenvalue = find_negative[floating](space, A, R, c, pending, Z[i], alpha, tol, u)
                if eigenvalue < 0.0:
                    for k in range(n):
                        R[pending, k] = u[k]
                    c[pending] = <floating>(-eigenvalue)
                    timed[pending] = c[pending] * (t + i + 1)
                    pending += 1
                    _subtract_reaches[floating](distances, Z, u, i + 1, eigenvalue)
            for k in range(n):
                R[pending, k] = Z[i, k]
            c[pending] = <floating>(-y[i] * alpha)
            timed[pending] = c[pending] * (t + i + 1)
            pending += 1
            for j in range(i + 1, y.shape[0]):
                distances[j] -= <floating>(y[i] * alpha * G[i, j] * G[i, j])
            if pending >= room - 1:
                add_weighted[floating](A, c, R, pending, scaled)
                if averaged:
                    add_weighted[floating](moment, timed, R, pending, scaled)
                pending = 0
        add_weighted[floating](A, c, R, pending, scaled)
        if averaged:
            add_weighted[floating](moment, timed, R, pending, scaled)
    return updates


cdef void_clones _subtract_reaches(
    floating[::1] distances,
    const floating[:, ::1] Z,
    const floating[::1] u,
    Py_ssize_t first,
    double eigenvalue,
) noexcept nogil:
    """distances[j] -= λ(z_jᵀu)² for the pairs from `first` on."""
    cdef Py_ssize_t j, k
    cdef floating reach
    for j in range(first, Z.shape[0]):
        reach = 0
        for k in range(Z.shape[1]):
            reach += Z[j, k] * u[k]
        distances[j] -= <floating>(eigenvalue * reach * reach)
