"""Blend's weights of views, learnt from lists."""

import numpy as np

from similia.linalg.compiled import compiled
from similia.updates.blend import SLIP, choices, log_sum

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

#: places in the `totals`
LISTS, EVIDENCE, SQUARES, CLUSTERED, SPREAD, OF_START = range(6)


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

    Where there are neither views nor nuisances the models are one and the same, and so are their
    sums.
    """
    starts, features, nuisance, gains, weights, clusters = lists
    information, natural, likelihood, totals, cluster = state
    K, V, k = len(GRID), len(prior[0]), nuisance.shape[1]
    p, none, longest, told = V + k, np.zeros((0, 0)), 0, len(others) > 0
    models = 3 if p else 1
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
        for m in range(models):
            top, total = likelihood[m].max() / phi, 0.0
            for c in range(K):
                logs[m, c] = likelihood[m, c] / phi - top
                shares[m, c] = np.exp(logs[m, c])
                total += shares[m, c]
            norm = np.log(total)
            for c in range(K):
                logs[m, c] -= norm
                shares[m, c] = shares[m, c] / total if told else 0.0
        # -- the scores before learning: a mixture over τ, and over blend and base by their trust
        trust[0] = 1.0
        if models > 1:
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
            if p:
                own = information[0, c], natural[0, c]
                solve_weights(P, e, *own, phi, room, mean[0, c], wanted)
            for m in range(BASE if k else 3, 3):  # these have weights of nuisances alone
                own = information[m, c, V:, V:], natural[m, c, V:]
                solve_weights(P[V:, V:], e[V:], *own, phi, room_of_base, mean[m, c, V:], none)
            for m in range(models):
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
        for m in range(models):
            free = 0 if m == LEARNT else V
            own_rows, rooms = y[:, free:], (chances, mean_row[free:], g[free:], H[free:, free:])
            for c in range(K):
                tau = GRID[c] / deviation
                g[:], H[:] = 0.0, 0.0
                log_p = add_moments(scores[m, c, :n], gain, weights[t], own_rows, *rooms)
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
        for m in range(models, 3):
            likelihood[m], totals_of_list[m] = likelihood[0], totals_of_list[0]
        totals[OF_START] += totals_of_list[STARTED] - totals_of_list[BASE]
        gained = totals_of_list[LEARNT] - totals_of_list[BASE]
        totals[EVIDENCE] += gained
        totals[SQUARES] += gained * gained
        before = cluster[clusters[t]]
        totals[CLUSTERED] += (before + gained) ** 2 - before**2
        cluster[clusters[t]] = before + gained
