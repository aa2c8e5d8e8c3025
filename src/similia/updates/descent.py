"""Steps down a gradient."""

import numpy as np

from similia.linalg.compiled import compiled

BETA_1, BETA_2 = 0.9, 0.999


def adam_step(M, G, first, second, t, rate):
    """Move M against G by Adam, in place; `first` and `second` are its moments, t counts from 1.

        m += (1-β₁)(g - m),   v += (1-β₂)(g² - v),   M -= rate m̂/(√v̂ + ε)        [Kingma2015]

    with m̂ = m/(1-β₁ᵗ), v̂ = v/(1-β₂ᵗ). Here ε is a share of the root mean square of √v̂, the root of
    the rounding unit: free of units, and gradients that are rounding alone move nothing.
    """
    _adam(*(A.reshape(-1) for A in (M, G, first, second)), t, rate, np.finfo(M.dtype).eps ** 0.5)


@compiled
def _adam(M, G, first, second, t, rate, share):
    total = 0.0
    for i in range(len(M)):
        first[i] += (1.0 - BETA_1) * (G[i] - first[i])
        second[i] += (1.0 - BETA_2) * (G[i] * G[i] - second[i])
        total += second[i]
    if total == 0.0:
        return
    least = share * np.sqrt(total / len(M))
    scale = rate * np.sqrt(1.0 - BETA_2**t) / (1.0 - BETA_1**t)
    for i in range(len(M)):
        M[i] -= scale * first[i] / (np.sqrt(second[i]) + least)
