"""Blend: what lists of items that people chose from say about a similarity that is a sum of parts.

A list is a choice. Each item with a gain is chosen over every item of the list with a smaller one:

    P(i) = slip/n + (1 - slip) softmax(l)_i,

where l are the total scores of i and of the n - 1 items it was chosen over, and a share `slip` of
all choices says nothing. In the scores a list has the gradient g and the information H; with C, the
sum of the parts' covariances of these scores, every part k with features X_k moves by the same two,

    a = (I + HC)⁻¹ g,    B = (I + HC)⁻¹ H:    μ_k += Σ_k X_kᵀ a,    Σ_k -= Σ_k X_kᵀ B X_k Σ_k,

for a pair these are two numbers, the step and the gain. Gaussians with one part and the margin 1 in
place of the choice are AROMA and AROW.
"""

import numpy as np

from similia.linalg.compiled import compiled

#: share of choices in lists that say nothing; τ, the strength of the base, allows for noise too
SLIP = 0.02


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
