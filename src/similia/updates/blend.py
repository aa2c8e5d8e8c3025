"""Blend: what lists of items that people chose from say about a similarity that is a sum of parts.

A list is a choice. Each item with a gain is chosen over every item of the list with a smaller one:

    P(i) = slip/n + (1 - slip) softmax(l)_i,

where l are the total scores of i and of the n - 1 items it was chosen over, and a share `slip` of
all choices says nothing. In the scores a list has the gradient g and the information H; with C, the
sum of the parts' covariances of these scores, every part k with features X_k moves by the same two,

    a = (I + HC)⁻¹ g,    B = (I + HC)⁻¹ H:    μ_k += Σ_k X_kᵀ a,    Σ_k -= Σ_k X_kᵀ B X_k Σ_k,

for a pair these are two numbers, the step and the gain. Gaussians with one part and the margin 1 in
place of the choice are AROMA and AROW.

.. [Herbster1998] M. Herbster, M. K. Warmuth, "Tracking the Best Expert", Machine Learning 32, 1998.
"""

from functools import partial

import numpy as np

from similia.linalg.blas import add_cross_products, products, row_products
from similia.linalg.compiled import compiled
from similia.linalg.downdates import downdate, eliminate_row
from similia.linalg.threads import side_by_side

#: share of choices that say nothing: in lists, where τ allows for noise too, and between two items
SLIP, SLIP_OF_PAIRS = 0.02, 0.1
#: values of τ, how much the base explains, in units of 1/(its deviation among the items of a list)
GRID = np.array([0.0, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0])
#: prior mean and variance of the weight of a nuisance: later places are examined less
NUISANCE = (-0.5, 1.0)

#: models of what the views' weights are: learnt, the base alone, and as they started
LEARNT, BASE, STARTED = range(3)
#: beliefs in these before any feedback. Views that could be noisy copies of the base start with a
#: weight of zero, so little is at stake; what was learnt from lists must prove itself
BELIEFS = np.array([0.2, 0.1, 0.7])
LOG_BELIEFS = np.log(BELIEFS)

#: largest variance of a score: beyond it, rounding would swallow what the other items say
WIDEST = 1e12

#: places in the `totals` of weights, and in those of W
LISTS, EVIDENCE, SQUARES, CLUSTERED, SPREAD, OF_START = range(6)
W_EVIDENCE, W_COUNTED, BEHIND, W_SQUARES, W_CLUSTERED, W_PROVED, RESTARTS = range(7)
#: stakes of bets that W turns more orders from wrong to right than from right to wrong
STAKES = np.array([0.25, 0.5])
#: log weight of a scale that is out of the running: finite, so that it can be saved
OUT = -1e9


# -- weights of views ----------------------------------------------------------------------------


@compiled
def solve(A, x, L, inverse):
    """Replace x by A⁻¹x for a small A > 0; A⁻¹ goes to `inverse` unless that is empty.

    L is room for the Cholesky factor. Only the lower triangle of A is read.
    """
    n = len(x)
    for j in range(n):
        total = A[j, j]
        for k in range(j):
            total -= L[j, k] * L[j, k]
        L[j, j] = np.sqrt(max(total, 1e-300))
        for i in range(j + 1, n):
            total = A[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            L[i, j] = total / L[j, j]
    solve_factored(L, x)
    for c in range(len(inverse)):
        column = inverse[:, c]
        for i in range(n):
            column[i] = 1.0 if i == c else 0.0
        solve_factored(L, column)


@compiled
def solve_factored(L, y):
    """Replace y by (LLᵀ)⁻¹y."""
    n = len(y)
    for i in range(n):
        for k in range(i):
            y[i] -= L[i, k] * y[k]
        y[i] /= L[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            y[i] -= L[k, i] * y[k]
        y[i] /= L[i, i]


@compiled
def log_sum(x):
    """Logarithm of Σ exp(x)."""
    top, total = x[0], 0.0
    for value in x:
        top = max(top, value)
    for value in x:
        total += np.exp(value - top)
    return top + np.log(total)


@compiled
def choices(gains):
    """Number of items in a list that were chosen over another one."""
    found, least = 0, gains.min()
    for gain in gains:
        found += gain > least
    return found


@compiled
def add_choices(scores, gains, weight, g, H):
    """Add the gradient and the information of a list's choices to g and H; return log P."""
    n, total = len(scores), 0.0
    p, least = np.empty(n), gains.min()
    for i in range(n):
        if not gains[i] > least:
            continue
        top, size = scores[i], 1
        for j in range(n):
            if gains[j] < gains[i]:
                top, size = max(top, scores[j]), size + 1
        norm = 0.0
        for j in range(n):
            p[j] = np.exp(scores[j] - top) if gains[j] < gains[i] or j == i else 0.0
            norm += p[j]
        for j in range(n):
            p[j] /= norm
        likelihood = SLIP / size + (1 - SLIP) * p[i]
        real = weight * (1 - SLIP) * p[i] / likelihood
        total += weight * np.log(likelihood)
        g[i] += real
        for j in range(n):
            if p[j] == 0.0:
                continue
            g[j] -= real * p[j]
            H[j, j] += real * p[j]
            for k in range(n):
                H[j, k] -= real * p[j] * p[k]
    return total


@compiled
def add_moments(scores, gains, weight, y, p, mean, g, H):
    """Add Yᵀg and YᵀHY of a list's choices, for rows y of features; return log P.

    YᵀHY is the covariance of the rows under each choice's probabilities: no n × n matrix is made.
    `p` and `mean` are room for probabilities and for their mean row.
    """
    n, d, total = len(scores), y.shape[1], 0.0
    least = gains.min()
    for i in range(n):
        if not gains[i] > least:
            continue
        top, size = scores[i], 1
        for j in range(n):
            if gains[j] < gains[i]:
                top, size = max(top, scores[j]), size + 1
        norm = 0.0
        for j in range(n):
            p[j] = 0.0
            if gains[j] < gains[i] or j == i:
                p[j] = np.exp(scores[j] - top) if scores[j] < top else 1.0
            norm += p[j]
        mean[:] = 0.0
        for j in range(n):
            p[j] /= norm
            for v in range(d):
                mean[v] += p[j] * y[j, v]
        likelihood = SLIP / size + (1 - SLIP) * p[i]
        real = weight * (1 - SLIP) * p[i] / likelihood
        total += weight * np.log(likelihood)
        for v in range(d):
            g[v] += real * (y[i, v] - mean[v])
            for w in range(v + 1):
                second = 0.0
                for j in range(n):
                    second += p[j] * (y[j, v] - mean[v]) * (y[j, w] - mean[w])
                H[v, w] += real * second
                if w < v:
                    H[w, v] += real * second
    return total


@compiled
def solve_weights(P, e, information, natural, phi, room, mean, covariance):
    """Posterior mean of some weights, and their covariance unless it is empty."""
    (A, L), counted = room, 1.0 / phi
    for v in range(len(mean)):
        mean[v] = e[v] + natural[v] * counted
        for w in range(v + 1):  # the rest of A is not read
            A[v, w] = P[v, w] + information[v, w] * counted
    solve(A, mean, L, covariance)


@compiled
def weigh_lists(lists, state, prior, fading, offsets, others):
    """Learn weights of views from lists, one after the other.

    For each τ of the grid (δ, γ) is a Gaussian: P is a choice among τ(s₀ + δᵀs) + γᵀν, with s the
    views and ν the nuisances. Beside it stand the same with δ = 0, the base, and with δ as it
    started; these learn γ alone. What the weights made of each list before they learnt it goes to
    `offsets`, the mean scores, and to `others`, the covariance of the scores of each list, row by
    row. If `others` is empty neither is wanted.
    """
    starts, features, nuisance, gains, weights, clusters = lists
    information, natural, likelihood, totals, cluster = state
    K, V, k = len(GRID), len(prior[0]), nuisance.shape[1]
    p, none, longest, told = V + k, np.zeros((0, 0)), 0, len(others) > 0
    for t in range(len(weights)):
        longest = max(longest, starts[t + 1] - starts[t])
    logs, shares = np.zeros((3, K)), np.zeros((3, K))
    trust, totals_of_list = np.zeros(3), np.zeros(3)
    room, room_of_base = (np.zeros((p, p)), np.zeros((p, p))), (np.zeros((k, k)), np.zeros((k, k)))
    P, H, covariance, mixed = np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p))
    mean, e, g, scale, mean_row = (
        np.zeros((3, K, p)),
        np.zeros(p),
        np.zeros(p),
        np.zeros(p),
        np.zeros(p),
    )
    base, rows, moved = np.zeros(longest), np.zeros((longest, p)), np.zeros((longest, p))
    scores, chances = np.zeros((3, K, longest)), np.zeros(longest)
    e[:V], P[:V, :V] = prior[0], prior[1]
    mean[STARTED, :, :V] = prior[2]
    for v in range(V, p):
        P[v, v], e[v] = 1 / NUISANCE[1], NUISANCE[0] / NUISANCE[1]
    place = 0
    for t in range(len(weights)):
        begin, end = starts[t], starts[t + 1]
        n = end - begin
        gain, x, y = gains[begin:end], base[:n], rows[:n]
        count = choices(gain)
        totals[LISTS] += count > 0
        for v in range(V + 1):  # only differences matter, and large common parts would round
            centre = 0.0
            for j in range(n):
                centre += features[begin + j, v] / n
            squares = 0.0
            for j in range(n):
                value = features[begin + j, v] - centre
                squares += value * value
                if v == 0:
                    x[j] = value
                else:
                    y[j, v - 1] = value
            if count and v == 0:
                totals[SPREAD] += squares / n
        for j in range(n):
            for v in range(k):
                y[j, V + v] = nuisance[begin + j, v]
        deviation = np.sqrt(max(totals[SPREAD] / max(totals[LISTS], 1.0), 1e-12))
        phi = max(1.0, totals[CLUSTERED] / max(totals[SQUARES], 1e-12))
        for m in range(3):
            for c in range(K):
                logs[m, c] = likelihood[m, c] / phi
            norm = log_sum(logs[m])
            for c in range(K):
                logs[m, c] -= norm
                shares[m, c] = np.exp(logs[m, c]) if told else 0.0
        # -- the scores before learning: a mixture over τ, and over blend and base by their trust
        trust[LEARNT], trust[STARTED] = totals[EVIDENCE] / phi, totals[OF_START] / phi
        trust[BASE] = 0.0
        for m in range(3):
            trust[m] += LOG_BELIEFS[m]
        norm = log_sum(trust)
        for m in range(3):
            trust[m] = np.exp(trust[m] - norm)
        mixed[:] = 0.0
        offsets[begin:end] = 0.0
        for c in range(K):
            tau = GRID[c] / deviation
            for v in range(p):
                scale[v] = tau if v < V else 1.0
            counts = told and shares[0, c] >= 1e-3
            wanted = covariance if counts else none
            own = information[0, c], natural[0, c]
            solve_weights(P, e, *own, phi, room, mean[0, c], wanted)
            for m in range(BASE if k else 3, 3):  # these have weights of nuisances alone
                own = information[m, c, V:, V:], natural[m, c, V:]
                solve_weights(P[V:, V:], e[V:], *own, phi, room_of_base, mean[m, c, V:], none)
            for m in range(3):
                share = shares[m, c] * trust[m]
                for j in range(n):
                    total = tau * x[j]
                    for v in range(p):
                        total += mean[m, c, v] * scale[v] * y[j, v]
                    scores[m, c, j] = total
                    offsets[begin + j] += share * total
            if counts:
                for v in range(p):
                    for w in range(p):
                        mixed[v, w] += shares[0, c] * scale[v] * scale[w] * covariance[v, w]
        if told:
            C = others[place : place + n * n].reshape(n, n)
            place += n * n
            for i in range(n):
                for v in range(p):
                    moved[i, v] = 0.0
                    for w in range(p):
                        moved[i, v] += y[i, w] * mixed[w, v]
                for j in range(n):
                    C[i, j] = 0.0
                    for v in range(p):
                        C[i, j] += moved[i, v] * y[j, v]
            for c in range(K):
                if shares[0, c] >= 1e-3:
                    for i in range(n):
                        apart = shares[0, c] * (scores[0, c, i] - offsets[begin + i])
                        for j in range(n):
                            C[i, j] += apart * (scores[0, c, j] - offsets[begin + j])
        if not count:
            continue
        # -- learn
        if fading < 1.0:
            information *= fading
            natural *= fading
            likelihood *= fading
            totals[EVIDENCE] *= fading
            totals[OF_START] *= fading
        for m in range(3):
            free = 0 if m == LEARNT else V
            for c in range(K):
                tau = GRID[c] / deviation
                g[:], H[:] = 0.0, 0.0
                given = scores[m, c, :n], gain, weights[t]
                rooms = mean_row[free:], g[free:], H[free:, free:]
                log_p = add_moments(*given, y[:, free:], chances, *rooms)
                logs[m, c] += log_p
                likelihood[m, c] += log_p
                for v in range(free, p):
                    left = tau if v < V else 1.0
                    natural[m, c, v] += left * g[v]
                    for w in range(free, p):
                        total = left * (tau if w < V else 1.0) * H[v, w]
                        information[m, c, v, w] += total
                        natural[m, c, v] += total * mean[m, c, w]
            totals_of_list[m] = log_sum(logs[m])
        totals[OF_START] += totals_of_list[STARTED] - totals_of_list[BASE]
        gained = totals_of_list[LEARNT] - totals_of_list[BASE]
        totals[EVIDENCE] += gained
        totals[SQUARES] += gained * gained
        before = cluster[clusters[t]]
        totals[CLUSTERED] += (before + gained) ** 2 - before**2
        cluster[clusters[t]] = before + gained


# -- memory --------------------------------------------------------------------------------------


@compiled
def remember_lists(lists, rows, offsets, others, state, scales):
    """Learn an item-space vector for the query of each list, one after the other.

    m ~ N(0, v I) for each query and each prior variance v of `scales`. The total score of an item p
    is its offset plus mᵀp, the total covariance that of the offsets plus v times the items' inner
    products. Directions that a list says nothing about keep v; one number for all of them takes the
    mean of the information over what it says something about.

    Where items are so long that a score could be anything, the step is that of a variance of
    `WIDEST`.

    Evidence for a query's own memory is what it adds to repeats of the query; for that of its
    neighbours, weighted by `kernel`, what it adds to the query's first list. In `totals` scales mix
    by what each had in evidence before the list.
    """
    starts, gains, weights, slots, fresh, left, near_starts, near_slots, kernel = lists
    vectors, variances, met, weight, evidence, totals = state
    gained, logs, place = np.zeros(len(scales)), np.zeros(len(scales)), 0
    for t in range(len(weights)):
        begin, end = starts[t], starts[t + 1]
        n, slot = end - begin, slots[t]
        gain = gains[begin:end]
        C = others[place : place + n * n].reshape(n, n)
        place += n * n
        if fresh[t]:
            vectors[:, slot], met[slot], weight[slot] = 0.0, 0, 0.0
            variances[:, slot] = scales
        elif left[t] < 1.0:
            vectors[:, slot] *= left[t]
            variances[:, slot] = scales - left[t] * (scales - variances[:, slot])
        if not choices(gain):
            continue
        R = rows[begin:end]
        inner, eye = (R @ R.T).astype(np.float64), np.eye(n)
        plain = add_choices(offsets[begin:end], gain, weights[t], np.zeros(n), np.zeros((n, n)))
        kind = 0 if met[slot] else 1
        for c in range(len(scales)):
            g, H = np.zeros(n), np.zeros((n, n))
            scores = offsets[begin:end] + (R @ vectors[c, slot]).astype(np.float64)
            found = add_choices(scores, gain, weights[t], g, H)
            if not met[slot]:
                near = np.zeros(R.shape[1], R.dtype)
                for i in range(near_starts[t], near_starts[t + 1]):
                    near += kernel[i] * vectors[c, near_slots[i]]
                scores = offsets[begin:end] + (R @ near).astype(np.float64)
                found = add_choices(scores, gain, weights[t], np.zeros(n), np.zeros((n, n)))
            gained[c] = found - plain
            v = variances[c, slot]
            covariance, part = C + v * inner, 1.0
            widest = np.diag(covariance).max()
            if widest > WIDEST:
                part = WIDEST / widest
                covariance *= part
            a = np.linalg.solve(eye + H @ covariance, g)
            step = (part * v * a).astype(R.dtype)
            for i in range(n):
                for d in range(R.shape[1]):
                    vectors[c, slot, d] += step[i] * R[i, d]
            seen = H @ inner
            total = np.trace(seen)
            if total > 0.0:
                variances[c, slot] = v / (1.0 + v * np.sum(seen * seen.T) / total)
        for c in range(len(scales)):  # what repeats say of a scale counts for neighbours too
            logs[c] = evidence[0, c] + (evidence[1, c] if kind else 0.0)
        totals[kind] += log_sum(logs + gained) - log_sum(logs)
        evidence[kind] += gained
        met[slot] += 1
        weight[slot] += min(weights[t], 1.0)


@compiled
def decided_pairs(starts, gains, trusted):
    """Each item of a trusted list above each one of a smaller gain: lists, and the two items.

    If no item has a gain, "none of these", all are below something else: -1.
    """
    most = 0
    for t in range(len(trusted)):
        most += trusted[t] * (starts[t + 1] - starts[t]) ** 2
    found, total = np.empty((3, most), np.intp), 0
    for t in range(len(trusted)):
        if not trusted[t]:
            continue
        begin, end = starts[t], starts[t + 1]
        nothing = gains[begin:end].max() == 0.0
        for i in range(begin, begin + 1 if nothing else end):
            for j in range(begin, end):
                if nothing or gains[i] > gains[j]:
                    found[0, total], found[1, total], found[2, total] = t, i, j
                    if nothing:
                        found[1, total] = -1
                    total += 1
    return found[0, :total], found[1, :total], found[2, :total]


# -- W -------------------------------------------------------------------------------------------


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
