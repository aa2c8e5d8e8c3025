"""Passive-aggressive steps on a matrix of low rank: W = W₀ + Bᵀ K C, W₀ fixed."""

import numpy as np

from similia.linalg.compiled import compiled


@compiled
def low_rank_pass(B, C, K, N, used, t, start, base, Q, P, aggressiveness):
    """Learn the triplets from row `start` on; stop where a step needs a term and there is no room.

    The steps are those of `updates.oasis`, each of which adds one term to the first `used` ones:

        W += tau q pᵀ,    tau = min(C, loss / (|q|²|p|²)),    loss = max(0, 1 - qᵀWp)

    `base` holds qᵀW₀p for each row, `N` gathers the moment Σ t·ΔW in the same terms, and `t` is the
    number of triplets seen before row 0. Gives the terms in use, the number of updates, and the row
    to go on with.
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
