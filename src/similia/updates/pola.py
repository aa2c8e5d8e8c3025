"""POLA: two projections for each pair [ShalevShwartz2004]."""

import numpy as np

from similia.linalg.blas import products, row_products
from similia.linalg.blocks import dense
from similia.linalg.bound_by_numba import add_squares
from similia.linalg.compiled import compiled, overwrite
from similia.linalg.lanczos import SMALL, negative_eigenpair

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
    return _pola_walk(A, threshold, moment, t, Z, G, distances, y, losses, rho, slack, tol)


@compiled
def _pola_walk(A, threshold, moment, t, Z, G, distances, y, losses, rho, slack, tol):
    room = PENDING if len(A) > SMALL else PENDING_SMALL
    R = np.empty((room, A.shape[0]), A.dtype)
    c, times = np.empty(room, A.dtype), np.empty(room, A.dtype)
    pending = updates = 0
    for i in range(len(y)):
        v, square = Z[i], float(G[i, i])
        b = threshold[0]
        loss = max(0.0, y[i] * (distances[i] - b) + 1.0)
        if loss == 0.0 or square == 0.0:
            continue
        losses[i] = loss
        updates += 1
        alpha = loss / (square * square + rho + slack)
        threshold[0] = max(b + y[i] * rho * alpha, 1.0)
        threshold[1] += (t + i + 1) * (threshold[0] - b)
        if y[i] > 0:
            eigenvalue, u = negative_eigenpair(A, R[:pending], c[:pending], v, alpha, tol)
            if eigenvalue < 0.0:
                overwrite(R[pending], u)
                c[pending], times[pending] = -eigenvalue, t + i + 1
                pending += 1
                for j in range(i + 1, len(y)):
                    reach = np.dot(Z[j], u)
                    distances[j] -= eigenvalue * reach * reach
        overwrite(R[pending], v)
        c[pending], times[pending] = -y[i] * alpha, t + i + 1
        pending += 1
        for j in range(i + 1, len(y)):
            distances[j] -= y[i] * alpha * G[i, j] * G[i, j]
        if pending >= room - 1:
            add_squares(A, c[:pending], R[:pending])
            if moment.size:
                add_squares(moment, c[:pending] * times[:pending], R[:pending])
            pending = 0
    add_squares(A, c[:pending], R[:pending])
    if moment.size:
        add_squares(moment, c[:pending] * times[:pending], R[:pending])
    return updates
