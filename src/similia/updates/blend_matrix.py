"""Blend's W, learnt from pairs, and the evidence for it.

.. [Herbster1998] M. Herbster, M. K. Warmuth, "Tracking the Best Expert", Machine Learning 32, 1998.
"""

from functools import partial

import numpy as np

from similia.linalg.blas import add_cross_products, products, row_products
from similia.linalg.compiled import compiled
from similia.linalg.downdates import downdate, eliminate_row
from similia.linalg.threads import side_by_side
from similia.updates.blend import choices, log_sum

#: share of choices between two items that say nothing
SLIP_OF_PAIRS = 0.1
#: places in the `totals`
W_EVIDENCE, W_COUNTED, BEHIND, W_SQUARES, W_CLUSTERED, W_PROVED, RESTARTS = range(7)
#: stakes of bets that W turns more orders from wrong to right than from right to wrong
STAKES = np.array([0.25, 0.5])
#: log weight of a scale that is out of the running: finite, so that it can be saved
OUT = -1e9


@compiled
def pairs_of_lists(starts, gains, offsets, others):
    """Each choice of a list as one pair: the item chosen, and the nearest one it was chosen over.

    Given that one of the two was chosen, the rest of the list has no say; neighbours were seen in
    the most similar circumstances. Returns the lists, the two items, and the means and variances of
    the margins before learning.
    """
    total = 0
    for t in range(len(starts) - 1):
        total += choices(gains[starts[t] : starts[t + 1]])
    lists, pairs = np.empty(total, np.intp), np.empty((total, 2), np.intp)
    margins, variances = np.empty(total), np.empty(total)
    k = place = 0
    for t in range(len(starts) - 1):
        begin, n = starts[t], starts[t + 1] - starts[t]
        C = others[place : place + n * n].reshape(n, n)
        place += n * n
        for i in range(n):
            nearest = -1
            for j in range(n):
                lower = gains[begin + j] < gains[begin + i]
                if lower and (nearest < 0 or abs(j - i) < abs(nearest - i)):
                    nearest = j
            if nearest >= 0:
                lists[k], pairs[k, 0], pairs[k, 1] = t, begin + i, begin + nearest
                margins[k] = offsets[begin + i] - offsets[begin + nearest]
                variances[k] = C[i, i] + C[nearest, nearest] - 2 * C[i, nearest]
                k += 1
    return lists, pairs, margins, variances


@compiled
def step_and_gain(s, v):
    """Log-likelihood of a pair with margin N(s, v), its slope in s, and minus its curvature.

    σ(s/√(1 + πv/8)) stands for the mean of the logistic function, so that all are closed forms.
    """
    scale = 1.0 / np.sqrt(1.0 + np.pi * v / 8.0)
    q = 1.0 / (1.0 + np.exp(-min(max(scale * s, -500.0), 500.0)))
    likelihood = SLIP_OF_PAIRS / 2 + (1 - SLIP_OF_PAIRS) * q
    slope = (1 - SLIP_OF_PAIRS) * q * (1 - q) * scale / likelihood
    curvature = (1 - SLIP_OF_PAIRS) * q * (1 - q) * (1 - 2 * q) * scale * scale / likelihood
    return np.log(likelihood), slope, max(slope * slope - curvature, 0.0)


def matrix_pass(states, Q, P, offsets, others, weights, gained):
    """Learn W ~ N(W, Λ ⊗ Ω) from a block of pairs, for several (W, Λ, Ω) side by side.

    The updates are those of one pair at a time. The total margin of a pair is its offset plus qᵀWp,
    the total variance `others` plus ab with a = qᵀΛq and b = pᵀΩp. With their step g and gain h,

        W += g Λq pᵀΩ,    Ω -= ah/(m - (m-1)abh) Ωp pᵀΩ,    Λ -= bh/(n - (n-1)abh) Λq qᵀΛ,

    AROMA's (12) to (14), where h = 1/(r + ab). A pair of weight 0 is only scored: log P with W
    minus log P without it goes to `gained[i, 0]` for state i and every pair, and to `gained[i, 1]`
    1 if W turned the order from wrong to right, -1 from right to wrong.
    """
    moved = products(
        *[pair for W, Lambda, Omega in states for pair in ((Q, W), (Q, Lambda), (P, Omega))]
    )
    QW, QL, PO = moved[::3], moved[1::3], moved[2::3]
    crossed = products(*[(A, Q.T) for A in QL], *[(A, P.T) for A in PO])
    tasks, terms, work = [], [], 0
    for i, (W, Lambda, Omega) in enumerate(states):
        (m, n), scores = W.shape, row_products(QW[i], P)
        H, G = crossed[i], crossed[len(states) + i]
        steps, taken = np.zeros((3, len(weights)), W.dtype), np.empty(len(weights), np.intp)
        given = offsets, others, weights, (m, n)
        count = _matrix_walk(H, G, scores, *given, steps, taken, gained[i])
        if count:
            taken = taken[:count]
            left, right = QL[i][taken], PO[i][taken]
            alpha, c_Lambda, c_Omega = steps[:, :count]
            tasks.append(partial(downdate, Lambda, left, H, c_Lambda, taken))
            tasks.append(partial(downdate, Omega, right, G, c_Omega, taken))
            work += count * (m * m + n * n)
            terms.append((W, left, right, alpha))
    side_by_side(tasks, work)
    add_cross_products(*terms)


@compiled
def _matrix_walk(H, G, s, offsets, others, weights, sizes, steps, taken, gained):
    """Walk over a block in order; rows learnt from move to the front of H and G."""
    m, n = sizes
    alpha, c_Lambda, c_Omega = steps[0], steps[1], steps[2]
    k = np.intp(0)  # a literal 0 would be a type of its own, and compile all twice
    for t in range(len(s)):
        eliminate_row(H, c_Lambda, k, t, t)
        eliminate_row(G, c_Omega, k, t, t)
        a, b = max(H[k, t], 0.0), max(G[k, t], 0.0)
        plain, _, _ = step_and_gain(offsets[t], others[t])
        log_p, g, h = step_and_gain(offsets[t] + s[t], others[t] + a * b)
        gained[0, t] = log_p - plain
        gained[1, t] = (np.sign(offsets[t] + s[t]) - np.sign(offsets[t])) / 2
        g, h = weights[t] * g, min(weights[t] * h, 0.99 / max(a * b, 1e-300))
        if g * a * b > 0.0:
            alpha[k] = g
            c_Omega[k] = a * h / (m - (m - 1) * a * b * h)
            c_Lambda[k] = b * h / (n - (n - 1) * a * b * h)
            for u in range(t + 1, len(s)):
                s[u] += alpha[k] * H[k, u] * G[k, u]
            taken[k] = t
            k += 1
    return k


@compiled
def W_evidence(likelihood, bets):
    """Evidence for W: half of the stake is on its likelihood, half is spread over the bets."""
    return np.logaddexp(likelihood, log_sum(bets.ravel()) - np.log(bets.size)) - np.log(2.0)


@compiled
def count_evidence(gained, counted, clusters, logs, sums, bets, totals, cluster, heard, limits):
    """Count what W gained, judgement by judgement; return where it fell behind by `alarm`, or -1.

    Scales mix by their gains on what W had not learnt from; a fixed share of 1/(n + 1) lets another
    scale win later [Herbster1998]_. The more is known, the larger the scale that suits: one that
    trails a larger one by `hopeless` drops out. What W lost counts once for each query until it is
    made up for, as one person who insists is no change of taste. Beside the likelihood each scale
    bets on the orders that it turns: a large W is too sure of itself, but can be right. W has
    proved itself from `proof` on, and until nothing is left of its evidence: between the two a
    search does not flicker.
    """
    proof, hopeless, alarm = limits
    K, n = gained.shape[0], gained.shape[2]
    for t in range(n):
        total = log_sum(logs + gained[:, 0, t])
        if not heard[clusters[t]]:
            heard[clusters[t]] = True
            totals[BEHIND] -= total
            if totals[BEHIND] > alarm:
                return t
            if totals[BEHIND] <= 0.0:
                totals[BEHIND] = 0.0
                heard[:] = False
        if not counted[t]:
            continue
        totals[W_EVIDENCE] += total
        totals[W_COUNTED] += 1.0
        totals[W_SQUARES] += total * total
        before = cluster[clusters[t]]
        totals[W_CLUSTERED] += (before + total) ** 2 - before * before
        cluster[clusters[t]] = before + total
        effect = max(1.0, totals[W_CLUSTERED] / max(totals[W_SQUARES], 1e-12))
        for c in range(K):
            for b in range(len(STAKES) if logs[c] > OUT else 0):
                bets[c, b] += np.log(1.0 + STAKES[b] * gained[c, 1, t])
        evidence = W_evidence(totals[W_EVIDENCE] / effect, bets / effect)
        if evidence >= proof:
            totals[W_PROVED] = 1.0
        elif evidence <= 0.0:
            totals[W_PROVED] = 0.0
        share, running = 1.0 / (totals[W_COUNTED] + 1.0), 0
        for c in range(K):
            if logs[c] > OUT:
                sums[c] += gained[c, 0, t]
                running += 1
        best = K - 1
        for c in range(K - 1, -1, -1):
            if logs[c] > OUT:
                mixed = (1 - share) * np.exp(logs[c] + gained[c, 0, t] - total) + share / running
                logs[c] = np.log(mixed)
                if sums[c] < sums[best] - hopeless:
                    logs[c] = OUT
                elif sums[c] > sums[best]:
                    best = c
        norm = log_sum(logs)
        for c in range(K):
            logs[c] -= norm if logs[c] > OUT else 0.0
    return -1
