"""Matrices that are to be found again: a kernel, an embedding of objects, a density matrix."""

from functools import lru_cache
from typing import Any

import numpy as np

from experiments.datasets import load_gyrb, load_zappos
from experiments.problems.base import Problem

TESTED = 20_000


def gyrb(seed: int, *, kernel: str = "spectrum3", apart: float = 1.0) -> Problem:
    """Rows of a kernel of trace one over 52 proteins, half of them with a known genus.

    "composition" is poor on purpose: the cosine of the counts of the four bases in the gene.
    `apart` below 1 moves the means of the genera so far together, and leaves all else as it is.
    """
    poor = kernel == "composition"
    data = load_gyrb() if poor else load_gyrb(kernel)
    order = np.random.default_rng(seed).permutation(len(data.y))
    train, test = np.array_split(order, 2)
    K = _composition(data.dna) if poor else data.K
    K = _moved_together(K, data.y, apart) if apart < 1.0 else K
    target = K / np.trace(K)
    return Problem(train, data.y[train], test, data.y[test], "kernel", target)


def _moved_together(K: Any, y: Any, apart: float) -> Any:
    """Kernel of the same points, with each class's mean that much nearer to the mean of all."""
    values, vectors = np.linalg.eigh(K)
    points = vectors * np.sqrt(np.maximum(values, 0.0))
    center = points.mean(axis=0)
    for c in np.unique(y):
        points[y == c] -= (1.0 - apart) * (points[y == c].mean(axis=0) - center)
    return points @ points.T


def zappos(seed: int, *, n_triplets: int) -> Problem:
    """Triplets that people gave for 85 shoes, some to learn from and 20,000 others to predict."""
    features, triplets = _shoes()
    order = np.random.default_rng(seed).permutation(len(triplets))
    test, train = triplets[order[:TESTED]], triplets[order[TESTED:][:n_triplets]]
    return Problem(train, np.ones(len(train)), test, np.ones(len(test)), "triplets", features)


def quantum_state(
    seed: int, *, rank: int = 1, qubits: int = 3, shots: int = 100, n_measured: int = 10_000
) -> Problem:
    """Random density matrix, and how often measurements along random vectors said yes.

    Each vector x, uniform on the sphere, is measured `shots` times on copies of the state ρ; a yes
    has the probability xᴴρx. The test part is ρ.
    """
    rng, d = np.random.default_rng(seed), 2**qubits
    factor = _complex_normal(rng, (d, rank))
    state = factor @ factor.conj().T
    state /= np.trace(state).real
    vectors = _complex_normal(rng, (n_measured, d))
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    chances = ((vectors.conj() @ state) * vectors).sum(axis=1).real
    share = rng.binomial(shots, np.clip(chances, 0.0, 1.0)) / shots
    return Problem(vectors, share, state, None, "state")


def _composition(genes: Any) -> Any:
    counts = np.array([[gene.count(base) for base in "ACGT"] for gene in map(str, genes)])
    unit = counts / np.linalg.norm(counts, axis=1)[:, None]
    return unit @ unit.T


def _complex_normal(rng: np.random.Generator, shape: tuple[int, int]) -> Any:
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


@lru_cache(maxsize=1)
def _shoes() -> Any:
    data = load_zappos()
    return data.X.astype(np.float64), data.triplets
