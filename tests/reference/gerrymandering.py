"""Neighborhood gerrymandering as in the notes: all sets of neighbors, one query at a time.

[Trivedi notes, 6-10, 13, 14], with the true gradient of the regularizer (docs/errata.md).
"""

from itertools import combinations

import numpy as np


def similarity(U, V, x, Z, h):
    """S(x, h), the negated sum of squared distances (6)."""
    return -sum(np.sum((U @ x - V @ Z[i]) ** 2) for i in h)


def loss_of_set(cost, labels, h, ties):
    """Δ(y, h), given the row of y: a tie counts as its worst class, or as its best one."""
    votes = np.bincount(labels[list(h)], minlength=len(cost))
    winners = np.flatnonzero(votes == votes.max())
    return cost[winners].min() if ties else cost[winners].max()


def best_sets(U, V, x, Z, labels, own, cost, k, ties):
    """Give (value, h) of targeted (13) and loss-augmented (14) inference, by trying all sets."""
    right = rival = (-np.inf, None)
    rows = [i for i in range(len(Z)) if i != own]
    for h in combinations(rows, k):
        value, Delta = similarity(U, V, x, Z, h), loss_of_set(cost, labels, h, ties)
        if Delta == 0 and value > right[0]:
            right = (value, h)
        if value + Delta > rival[0]:
            rival = (value + Delta, h)
    return right, rival


def loss_and_gradients(U, V, x, Z, right, rival):
    """L (7) and its gradients by U and V, from the two sets (9, 10)."""
    L, G_U, G_V = rival[0] - right[0], np.zeros_like(U), np.zeros_like(V)
    for sign, (_, h) in ((1, right), (-1, rival)):
        for i in h:
            gap = U @ x - V @ Z[i]
            G_U += 2 * sign * np.outer(gap, x)
            G_V -= 2 * sign * np.outer(gap, Z[i])
    return L, G_U, G_V


def greedy_sets(distances, labels, own, cost, k, ties):
    """The same two sets by the greedy method, in plain NumPy: for data of some size."""
    order = np.argsort(distances, kind="stable")
    order = order[order != own]
    found = []
    for augmented in (False, True):
        best = (-np.inf, None)
        for c in range(len(cost)) if augmented else np.flatnonzero(cost == 0):
            mine = order[labels[order] == c]
            others = order[labels[order] != c]
            for n in range(1, min(k, len(mine)) + 1):
                h, votes = list(mine[:n]), np.zeros(len(cost), dtype=int)
                for i in others:
                    if len(h) == k:
                        break
                    r = labels[i]
                    strict = cost[r] < cost[c] if augmented and ties else False
                    strict = cost[r] > 0 if not augmented and not ties else strict
                    if votes[r] < n - strict:
                        votes[r] += 1
                        h.append(i)
                value = -distances[h].sum() + (cost[c] if augmented else 0)
                if len(h) == k and value > best[0]:
                    best = (value, tuple(h))
        found.append(best)
    return found


def regularizer(name, U, V):
    """Give the value and the gradients by U and V."""
    if name == "joint":  # ‖W‖² of (5)
        value = np.sum((U.T @ U) ** 2) + 2 * np.sum((U.T @ V) ** 2) + np.sum((V.T @ V) ** 2)
        S = U @ U.T + V @ V.T
        return value, 4 * S @ U, 4 * S @ V
    if name == "separate":
        value = np.sum((U.T @ U) ** 2) + np.sum((V.T @ V) ** 2)
        return value, 4 * U @ U.T @ U, 4 * V @ V.T @ V
    return np.sum(U**2) + np.sum(V**2), 2 * U, 2 * V


def descent_step(U, V, X, y, own, Z, labels, cost, k, ties, C, n, name, rate):
    """One step on a mini-batch, down the gradient of (8) divided by C n, query by query."""
    G_U, G_V, total = np.zeros_like(U), np.zeros_like(V), 0.0
    moved = Z @ V.T
    for x, label, i in zip(X, y, own, strict=True):
        distances = np.sum((U @ x - moved) ** 2, axis=1)
        right, rival = greedy_sets(distances, labels, i, cost[label], k, ties)
        if right[1] is None:
            continue
        L, G_x, G_z = loss_and_gradients(U, V, x, Z, right, rival)
        total, G_U, G_V = total + L, G_U + G_x, G_V + G_z
    _, R_U, R_V = regularizer(name, U, V)
    U = U - rate * (G_U / len(X) + R_U / (C * n))
    V = V - rate * (G_V / len(X) + R_V / (C * n))
    return U, V, total
