"""AROMA as printed [Crammer2012], one triplet at a time.

q is the query, p = better - worse; a state is replaced, never changed in place.
"""

import numpy as np


def diagonal_step(W, Sigma, q, p, r, threshold=1.0):
    """Algorithm 1: (5) and (6). The paper's update condition is qᵀWp < 1."""
    s = q @ W @ p
    if not s < threshold:
        return W, Sigma
    x = np.outer(q, p)
    v = np.sum(x * Sigma * x)
    alpha = max(0.0, 1.0 - s) / (v + r)
    return W + alpha * Sigma * x, Sigma - (Sigma * x) * (x * Sigma) / (v + r)


def diagonal_analysed_step(W, Sigma, q, p, r, threshold=1.0):
    """The form that Theorem 1 covers: θ += qpᵀ, 1/Σ += (qpᵀ)²/r, W = Σ⊙θ."""
    s = q @ W @ p
    if not s < threshold:
        return W, Sigma
    x = np.outer(q, p)
    theta = W / Sigma + x
    Sigma = 1.0 / (1.0 / Sigma + x**2 / r)
    return Sigma * theta, Sigma


def factored_step(W, Lambda, Omega, q, p, r, threshold=1.0):
    """Algorithm 2: (12), (13) and (14), all with the matrices before the update."""
    m, n = W.shape
    s = q @ W @ p
    if not s < threshold:
        return W, Lambda, Omega
    a = q @ Lambda @ q
    b = p @ Omega @ p
    new_W = W + (1.0 - s) / (r + a * b) * np.outer(Lambda @ q, p @ Omega)
    new_Omega = Omega - a / (m * r + a * b) * np.outer(Omega @ p, p @ Omega)
    new_Lambda = Lambda - b / (n * r + a * b) * np.outer(Lambda @ q, q @ Lambda)
    return new_W, new_Lambda, new_Omega


def factored_new_factors_step(W, Lambda, Omega, q, p, r, threshold=1.0):
    """The form before Theorem 2: Λ⁻¹WΩ⁻¹ with the *new* factors grows by (1-s)/(r+ab) qpᵀ."""
    s, a, b = q @ W @ p, q @ Lambda @ q, p @ Omega @ p
    return _with_new_factors(W, Lambda, Omega, q, p, r, threshold, (1.0 - s) / (r + a * b))


def factored_analysed_step(W, Lambda, Omega, q, p, r, threshold=1.0):
    """The form that the proof of Theorem 2 covers: Λ⁻¹WΩ⁻¹ grows by qpᵀ itself."""
    return _with_new_factors(W, Lambda, Omega, q, p, r, threshold, 1.0)


def _with_new_factors(W, Lambda, Omega, q, p, r, threshold, length):
    if not q @ W @ p < threshold:
        return W, Lambda, Omega
    theta = np.linalg.solve(Lambda, W) @ np.linalg.inv(Omega) + length * np.outer(q, p)
    _, new_Lambda, new_Omega = factored_step(W, Lambda, Omega, q, p, r, np.inf)
    return new_Lambda @ theta @ new_Omega, new_Lambda, new_Omega


THRESHOLDS = {"margin": 1.0, "mistake": np.nextafter(0.0, 1.0)}


class FactoredAROMA:
    """W, Λ and Ω after each triplet, from a learner's own start."""

    def __init__(self, learner, X):
        self.W_, self.Lambda_, self.Omega_ = learner.W_, learner.Lambda_, learner.Omega_
        self.r = 1.0 if learner.r == "auto" else learner.r
        self.threshold = THRESHOLDS[learner.update_on]

    def learn(self, q, p):
        state = (self.W_, self.Lambda_, self.Omega_)
        self.W_, self.Lambda_, self.Omega_ = factored_step(*state, q, p, self.r, self.threshold)


class DiagonalAROMA:
    """W and Σ after each triplet, from a learner's own start."""

    def __init__(self, learner, X):
        self.W_, self.Sigma_ = learner.W_, learner.Sigma_
        self.r = 1.0 if learner.r == "auto" else learner.r
        self.threshold = THRESHOLDS[learner.update_on]

    def learn(self, q, p):
        self.W_, self.Sigma_ = diagonal_step(self.W_, self.Sigma_, q, p, self.r, self.threshold)
