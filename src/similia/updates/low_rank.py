"""Passive-aggressive steps on a matrix W = W₀ + BᵀKC of low rank, W₀ fixed, and its compression."""

import numpy as np

from similia.linalg.compiled import compiled


@compiled
def low_rank_pass(B, C, K, N, used, t, start, base, Q, P, aggressiveness):
    """Learn the triplets from row `start` on; stop if a step needs a term and there is no room.

    The steps are those of `updates.oasis`, each of which adds one term to the first `used` ones:

        W += tau q pᵀ,    tau = min(C, loss / (|q|²|p|²)),    loss = max(0, 1 - qᵀWp)

    `base` holds qᵀW₀p for each row, `N` gathers the moment Σ t·ΔW in the same terms, and `t` counts
    the triplets before row 0. Returns the terms in use, the number of updates and the next row.
    """
    updates = 0
    right = np.empty(len(B), B.dtype)
    for i in range(start, len(Q)):
        q, p = Q[i], P[i]
        for k in range(used):
            right[k] = np.dot(C[k], p)
        s = base[i]
        for j in range(used):
            weight = 0.0
            for k in range(used):
                weight += K[j, k] * right[k]
            s += weight * np.dot(B[j], q)
        loss, norm2 = 1.0 - s, np.dot(q, q) * np.dot(p, p)
        if not (loss > 0.0 and norm2 > 0.0):
            continue
        if used == len(B):
            return used, updates, i
        tau = min(aggressiveness, loss / norm2)
        B[used], C[used] = q, p
        K[used, used], N[used, used] = tau, (t + i + 1) * tau
        used += 1
        updates += 1
    return used, updates, len(Q)


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
