"""DefiniteBoost as printed [Tsuda2005, Algorithm 2], with the step of Appendix E in place of (4.6).

(4.6) takes the logarithm of a negative number where -λmin ≠ λmax; minimising the bound of
Appendix E, from which it is said to follow, gives the formula below.
"""

import numpy as np
from scipy.optimize import minimize_scalar


def density(G):
    """W = exp(G)/tr exp(G), and log tr exp(G)."""
    values, vectors = np.linalg.eigh(G)
    c = values.max()
    w = np.exp(values - c)
    return (vectors * (w / w.sum())) @ vectors.conj().T, c + np.log(w.sum())


def logarithm(W):
    values, vectors = np.linalg.eigh(W)
    return (vectors * np.log(values)) @ vectors.conj().T


def value(W, C):
    """tr(WC), real for Hermitian matrices."""
    return float(np.real(np.trace(W @ C)))


def approximate_step(r, lam_min, lam_max):
    return np.log((1 - r / lam_min) / (1 - r / lam_max)) / (lam_max - lam_min)


def exact_step(G, C, longest=1e6):
    """argmin over α ≥ 0 of log tr exp(G - αC), by a solver that knows only values."""
    found = minimize_scalar(
        lambda a: density(G - a * C)[1], bounds=(0, longest), method="bounded",
        options={"xatol": 1e-12, "maxiter": 1000},
    )  # fmt: skip
    return found.x


def log_rho(r, lam_min, lam_max):
    """Logarithm of the factor by which the bound of Theorem 4.1 falls in one step."""
    width = lam_max - lam_min
    return (
        lam_max / width * np.log1p(-r / lam_max) - lam_min / width * np.log1p(-r / lam_min)
    )  # fmt: skip


def definite_boost(W1, matrices, eps, max_iter=1000, step=approximate_step):
    """Take the most violated constraint until none is violated by more than eps.

    Gives W, the dual variables, and for each step (constraint, r, α, dual value, its bound).
    """
    G, W = logarithm(W1), W1
    alpha, bound, steps = np.zeros(len(matrices)), 0.0, []
    for _ in range(max_iter):
        r = np.array([value(W, C) for C in matrices])
        j = int(r.argmax())
        if r[j] <= eps:
            break
        spectrum = np.linalg.eigvalsh(matrices[j])
        a = step(r[j], spectrum[0], spectrum[-1])
        alpha[j] += a
        G = G - a * matrices[j]
        W, log_trace = density(G)
        bound -= log_rho(r[j], spectrum[0], spectrum[-1])
        steps.append((j, r[j], a, -log_trace, bound))
    return W, alpha, steps


def dual_value(W1, matrices, alpha):
    """h(α) = -log tr exp(log W1 - Σ α_j C_j)                                            (4.9)"""
    total = sum((a * C for a, C in zip(alpha, matrices, strict=True)), np.zeros_like(W1))
    return -density(logarithm(W1) - total)[1]
