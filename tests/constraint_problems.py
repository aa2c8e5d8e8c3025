"""Small random sets of constraints, with answers that are known by construction."""

import numpy as np
from hypothesis import strategies as st

from similia import ConstraintOracle

CHOICES = ["most_violated", "cyclic", "random", "all"]
WAYS = [(choice, projection) for choice in CHOICES for projection in ("approximate", "exact")]
SEEDS = st.integers(0, 2**32 - 1)


def density(rng, d, kind="real", floor=0.05):
    """A positive definite matrix of trace one."""
    A = rng.normal(size=(d, d)) + (1j * rng.normal(size=(d, d)) if kind == "complex" else 0.0)
    W = A @ A.conj().T + floor * d * np.eye(d)
    return W / np.trace(W).real


def hermitian(rng, d, kind="real", scale=1.0):
    A = rng.normal(size=(d, d)) + (1j * rng.normal(size=(d, d)) if kind == "complex" else 0.0)
    return scale * (A + A.conj().T) / np.sqrt(d)


def met_by(rng, U, n, margin=0.05, scale=1.0):
    """Random matrices with tr(U C_j) = -margin·scale: constraints that U meets."""
    d, kind = len(U), "complex" if np.iscomplexobj(U) else "real"
    matrices = []
    for _ in range(n):
        C = hermitian(rng, d, kind, scale)
        matrices.append(C - (np.trace(U @ C).real + margin * scale) * np.eye(d))
    return np.array(matrices)


def impossible(rng, d, n, margin=0.1):
    """Random matrices of which a convex combination is positive definite, and that combination."""
    matrices = np.array([hermitian(rng, d) for _ in range(n)])
    p = rng.dirichlet(np.ones(n))
    lowest = np.linalg.eigvalsh(np.tensordot(p, matrices, 1))[0]
    return matrices + (margin - lowest) * np.eye(d), p


def distances_of(K, pairs):
    a, b = np.asarray(pairs).T
    return np.sqrt(np.maximum(K[a, a] + K[b, b] - 2.0 * K[a, b], 0.0))


def near_and_far(rng, d, n, slack=0.1, K=None):
    """Pairs of objects with bounds that a kernel matrix meets; pairs, distances, senses, kernel."""
    K = density(rng, d) if K is None else K
    pairs = np.array([rng.choice(d, size=2, replace=False) for _ in range(n)])
    distances = distances_of(K, pairs)
    near = rng.random(n) < 0.5
    bounds = distances * np.where(near, 1.0 + slack, 1.0 - slack)
    return pairs, bounds, np.where(near, "<=", ">="), K


def oracle_of(constraints, strict=False):
    """An oracle that names the worst of given constraints; with `strict`, only if it is violated.

    It names rank-one constraints as vectors and others as matrices.
    """

    def find(W):
        r = constraints.values(W)
        j = int(r.argmax())
        if strict and r[j] <= 0:
            return None
        term = constraints.rank_one(j)
        if term is None:
            return j, constraints.matrix(j)
        return j, (term.z, "<=" if term.sign > 0 else ">=", term.sign * term.shift)

    return ConstraintOracle(constraints.n_features, find, constraints.dtype)
