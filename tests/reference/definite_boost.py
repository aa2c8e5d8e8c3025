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


def bound_of_appendix_e(a, r, lam_min, lam_max):
    """What tr exp(log W - aC) is at most, for tr W = 1 and tr(WC) = r."""
    high, low = np.exp(-a * lam_max), np.exp(-a * lam_min)
    return (high * (r - lam_min) + low * (lam_max - r)) / (lam_max - lam_min)


def definite_boost(W1, matrices, eps, max_iter=1000, step=approximate_step, cap=np.inf):
    """Take the most violated constraint until none is violated by more than eps.

    Gives W, the dual variables, and for each step (constraint, r, α, dual value, its bound). With a
    cap, no dual variable goes beyond, and those that are there are left alone: soft constraints.
    """
    G, W = logarithm(W1), W1
    alpha, bound, steps = np.zeros(len(matrices)), 0.0, []
    for _ in range(max_iter):
        r = np.array([value(W, C) for C in matrices])
        j = int(np.where(alpha < cap, r, -np.inf).argmax())
        if r[j] <= eps or alpha[j] >= cap:
            break
        spectrum = np.linalg.eigvalsh(matrices[j])
        # Any interval that holds the eigenvalues will do; a step needs one that reaches below 0.
        low, high = min(spectrum[0], -eps), spectrum[-1]
        a = step(r[j], low, high)
        capped = a >= cap - alpha[j]
        a = cap - alpha[j] if capped else a
        alpha[j] = cap if capped else alpha[j] + a
        G = G - a * matrices[j]
        W, log_trace = density(G)
        if capped:
            bound -= np.log(bound_of_appendix_e(a, r[j], low, high))
        else:
            bound -= log_rho(r[j], low, high)
        steps.append((j, r[j], a, -log_trace, bound))
    return W, alpha, steps


def soft_objective(W, W1, matrices, price):
    """Δ(W, W1) + price · Σ max(0, tr(W C_j))."""
    slack = sum(max(0.0, value(W, C)) for C in matrices)
    return value(W, logarithm(W) - logarithm(W1)) + price * slack


def dual_value(W1, matrices, alpha):
    """h(α) = -log tr exp(log W1 - Σ α_j C_j)                                            (4.9)"""
    total = sum((a * C for a, C in zip(alpha, matrices, strict=True)), np.zeros_like(W1))
    return -density(logarithm(W1) - total)[1]
