"""Passive-aggressive steps on a matrix W = W₀ + BᵀKC of low rank, W₀ fixed, and its compression."""

import numpy as np

from cython cimport floating
from similia.linalg.clones cimport void_clones


def low_rank_pass(
    floating[:, ::1] B,
    floating[:, ::1] C,
    floating[:, ::1] K,
    floating[:, ::1] N,
    Py_ssize_t used,
    Py_ssize_t t,
    Py_ssize_t start,
    const floating[::1] base,
    const floating[:, ::1] Q,
    const floating[:, ::1] P,
    double aggressiveness,
):
    """Learn the triplets from row `start` on; stop if a step needs a term and there is no room.

    The steps are those of `updates.oasis`, each of which adds one term to the first `used` ones:

        W += tau q pᵀ,    tau = min(C, loss / (|q|²|p|²)),    loss = max(0, 1 - qᵀWp)

    `base` holds qᵀW₀p for each row, `N` gathers the moment Σ t·ΔW in the same terms, and `t` counts
    the triplets before row 0. Returns the terms in use, the number of updates and the next row.
    """
    cdef floating[::1] right = np.empty(len(B), np.asarray(B).dtype)
    cdef Py_ssize_t[3] place = [used, 0, start]
    with nogil:
        _learn[floating](B, C, K, N, t, base, Q, P, aggressiveness, right, place)
    return place[0], place[1], place[2]


cdef void_clones _learn(
    floating[:, ::1] B,
    floating[:, ::1] C,
    floating[:, ::1] K,
    floating[:, ::1] N,
    Py_ssize_t t,
    const floating[::1] base,
    const floating[:, ::1] Q,
    const floating[:, ::1] P,
    double aggressiveness,
    floating[::1] right,
    Py_ssize_t* place,
) noexcept nogil:
    """Learn from row place[2] on, and set `place` to the terms in use, updates and the next row."""
    cdef Py_ssize_t i, j, k, l, used = place[0], start = place[2]
    cdef double s, weight, loss, norm2, tau
    for i in range(start, Q.shape[0]):
        for k in range(used):
            right[k] = _dot(C, k, P, i)
        s = base[i]
        for j in range(used):
            weight = 0.0
            for k in range(used):
                weight += K[j, k] * right[k]
            s += weight * _dot(B, j, Q, i)
        loss, norm2 = 1.0 - s, _dot(Q, i, Q, i) * <double>_dot(P, i, P, i)
        if loss > 0.0 and norm2 > 0.0:
            if used == B.shape[0]:
                place[0], place[2] = used, i
                return
            tau = min(aggressiveness, loss / norm2)
            for l in range(Q.shape[1]):
                B[used, l] = Q[i, l]
            for l in range(P.shape[1]):
                C[used, l] = P[i, l]
            K[used, used], N[used, used] = <floating>tau, <floating>((t + i + 1) * tau)
            used += 1
            place[1] += 1
    place[0], place[2] = used, Q.shape[0]


cdef inline floating _dot(
    const floating[:, ::1] A, Py_ssize_t i, const floating[:, ::1] B, Py_ssize_t j
) noexcept nogil:
    """Inner product of row i of A and row j of B."""
    cdef floating total = 0
    cdef Py_ssize_t l
    for l in range(A.shape[1]):
        total += A[i, l] * B[j, l]
    return total


def compressed(B, C, cores, keep):
    """Fewer rows B′, C′ and cores K′ with B′ᵀK′C′ ≈ BᵀKC for each K of `cores`.

    The rows of B′ and C′ are orthonormal and span the strongest directions of all the matrices
    together. If these need at most len(B) - 1 directions on either side, nothing is lost but
    rounding; else the `keep` strongest remain, the best choice for a single matrix (Eckart and
    Young).
    """
    left, R = np.linalg.qr(B.T.astype(np.float64))
    right, S = np.linalg.qr(C.T.astype(np.float64))
    middles = [R @ K @ S.T for K in cores]
    U, u_values, _ = np.linalg.svd(np.hstack(middles), full_matrices=False)
    _, v_values, Vt = np.linalg.svd(np.vstack(middles), full_matrices=False)
    resolution = np.finfo(B.dtype).eps * len(B)
    needed = max(int(np.count_nonzero(s > resolution * s[0])) for s in (u_values, v_values))
    size = max(1, needed if needed < len(B) else keep)
    U, V = U[:, :size], Vt[:size].T
    kept = [(U.T @ M @ V).astype(B.dtype) for M in middles]
    return (left @ U).T.astype(B.dtype), (right @ V).T.astype(B.dtype), kept
