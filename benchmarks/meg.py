"""Speed of MEG: updates of an eigendecomposition against a new eigendecomposition for each step.

All contenders run the BLAS on one thread: with more, `eigh` is up to a hundred times slower on busy
processors and hardly faster on idle ones.
"""

import copy
import time

import numpy as np

from benchmarks.timing import seconds, table
from similia import MEG
from similia.linalg.threads import single_blas_thread
from tests.reference.meg import matrix, meg_step, start

#: η of the paper's experiment, with our scaling of X
ETA = 0.5
#: matrix size: steps per timing, ours and naive
SIZES = {52: (4000, 200), 200: (500, 30), 500: (60, 4), 1000: (20, 3)}


def distances(d, n, seed=0):
    """Pairs of d objects in eight dimensions, and their distances, scaled to trace one."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(d, 8))
    points /= np.linalg.norm(points - points.mean(axis=0))
    pairs = rng.integers(d, size=(n, 2))
    pairs[:, 1] = (pairs[:, 0] + 1 + pairs[:, 1] % (d - 1)) % d
    return pairs, np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)


def started(d, **parameters):
    return MEG(n_objects=d, trace=1.0, eta=ETA, **parameters).learn(None, [], [])


def spread_out(d):
    """A learner whose eigenvalues all differ, so that every step changes all eigenvectors."""
    rng = np.random.default_rng(1)
    G = rng.normal(size=(d, d)) / np.sqrt(d)
    learner = started(d)
    learner.log_eigenvalues_, vectors = np.linalg.eigh(G + G.T)
    learner.eigenvectors_ = np.ascontiguousarray(vectors.T)
    return learner, G + G.T


def naive(G, pairs, y):
    """Algorithm 1 as printed: an eigendecomposition and W itself for each step."""
    for (a, b), distance in zip(pairs, y, strict=True):
        x = np.zeros(len(G))
        x[a], x[b] = 1.0, -1.0
        G, _ = meg_step(G, np.outer(x, x), distance**2, ETA)
    return G


def lean(G, pairs, y):
    """The same with an eigendecomposition and nothing else of order d³."""
    G = G.copy()
    for (a, b), distance in zip(pairs, y, strict=True):
        values, V = np.linalg.eigh(G)
        weights = np.exp(values - values.max())
        error = weights @ (V[a] - V[b]) ** 2 / weights.sum() - distance**2
        G[[a, b], [a, b]] -= 2.0 * ETA * error
        G[[a, b], [b, a]] += 2.0 * ETA * error
    return G


@single_blas_thread()
def meg_steps():
    """One step, mid-stream."""
    rows = []
    for d, (n, few) in SIZES.items():
        pairs, y = distances(d, n)
        learner, G = spread_out(d)
        times = seconds(
            {
                "ours": lambda p=pairs, y=y, m=learner: copy.deepcopy(m).learn(None, p, y),
                "averaged": lambda p=pairs, y=y, m=learner: (
                    copy.deepcopy(m)
                    .set_params(average=True)
                    .set_state({**m.get_state(), "moment_": np.zeros_like(m.A_)})
                    .learn(None, p, y)
                ),
                "start": lambda p=pairs, y=y, d=d: started(d).learn(None, p, y),
                "naive": lambda p=pairs[:few], y=y[:few], G=G: naive(G, p, y),
                "lean": lambda p=pairs[:few], y=y[:few], G=G: lean(G, p, y),
            },
            repeats=5,
        )
        ours, plain = times["ours"] / n, times["naive"] / few
        rows.append(
            [
                d,
                ours * 1e6,
                times["averaged"] / n * 1e6,
                times["start"] / n * 1e6,
                plain * 1e6,
                plain / ours,
                times["lean"] / few / ours,
            ]
        )
    table(
        "MEG, one distance between two of d objects, through `learn`",
        ["d", "µs", "µs averaged", "µs from the start", "naive µs", "× naive", "× eigh alone"],
        rows,
    )


@single_blas_thread()
def meg_states():
    """Agreement of the states after a thousand steps of both; the naive form is slow."""
    rows = []
    for d in SIZES:
        pairs, y = distances(d, 1000)
        started(d).learn(None, pairs[:2], y[:2])  # compiles
        begin = time.perf_counter()
        learner = started(d).learn(None, pairs, y)
        between = time.perf_counter()
        W = matrix(naive(start(d), pairs, y))
        end = time.perf_counter()
        difference = np.abs(learner.W_ - W).max() / np.abs(W).max()
        ratio = (end - between) / (between - begin)
        rows.append([d, f"{difference:.1e}", between - begin, end - between, ratio])
    table(
        "MEG after the first 1,000 distances",
        ["d", "difference of W, relative", "s", "naive s", "× naive"],
        rows,
    )


@single_blas_thread()
def meg_objects():
    """200,000 steps at d = 52 in one call, with a progress bar on a terminal."""
    pairs, y = distances(52, 200_000)
    started(52).learn(None, pairs[:2], y[:2])  # compiles
    begin = time.perf_counter()
    learner = started(52, verbose=True).learn(None, pairs, y)
    ours = time.perf_counter() - begin
    begin = time.perf_counter()
    naive(start(52), pairs[:2000], y[:2000])
    plain = (time.perf_counter() - begin) * 100
    points = learner.pairwise_distance(None)[tuple(pairs.T)]
    table(
        "MEG, 200,000 distances between 52 objects",
        ["s", "µs a step", "naive s (from 2,000 steps)", "× naive", "total loss", "largest error"],
        [
            [
                ours,
                ours * 5,
                plain,
                plain / ours,
                f"{learner.total_loss_:.3f}",
                f"{np.abs(points - y).max() / y.max():.1%}",
            ]
        ],
    )


ALL = [meg_steps, meg_states, meg_objects]
