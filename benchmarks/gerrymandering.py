"""Speed of neighborhood gerrymandering: against plain NumPy, against the products that distances
need, as the data grow, and against NCA and LMNN, with their errors.
"""

import time
import warnings
from functools import partial

import numpy as np
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

from benchmarks.timing import seconds, table
from experiments.datasets import load_isolet
from experiments.peers.call import PYTHON, fit_peer, metric_learner
from similia import NeighborhoodGerrymandering
from similia.linalg.blas import panels, products
from similia.linalg.bound import gemm
from similia.linalg.threads import side_by_side, single_blas_thread
from similia.neighbors.maps import MAX_AUTO_COMPONENTS, Map, Maps
from similia.neighbors.sides import LabelledSides
from similia.neighbors.training import MapDescent, Objective, Schedule
from tests.reference.gerrymandering import descent_step

D, R, BATCH = 617, 26, 256


def problem(n, k, n_database=None, dtype="float32"):
    """Gaussian classes of Isolet's size, sorted, and the maps to start from."""
    rng = np.random.default_rng(0)
    y = np.sort(np.arange(n) % R)
    X = (rng.normal(size=(R, D))[y] * 0.3 + rng.normal(size=(n, D))).astype(dtype) / np.sqrt(D)
    X = X.astype(dtype)
    objective = Objective(1.0 - np.eye(R), k, ties=False, regularizer="joint", penalty=1e-4)
    return LabelledSides(X, y, X, y, np.arange(n)), objective, n_database


def epoch(sides, objective, n_database=None):
    zero = np.zeros(D, sides.X.dtype)
    maps = Maps(*(Map(np.eye(D, dtype=zero.dtype), zero) for _ in range(2)))
    schedule = Schedule(batch_size=BATCH, n_database=n_database)
    descent = MapDescent(maps, (), 0, objective, schedule)
    return descent.epoch(sides, lambda step: 0.01, np.random.default_rng(0), lambda n: None)


def plain(sides, objective, n_queries):
    """The transcription, on the first queries of one batch."""
    U, V = np.eye(D, dtype=sides.X.dtype), np.eye(D, dtype=sides.X.dtype)
    rows = np.random.default_rng(0).permutation(len(sides.y))[:n_queries]
    given = sides.X[rows], sides.y[rows], rows, sides.X, sides.y
    descent_step(U, V, *given, objective.cost, objective.k, False, 1.0, 1e4, "joint", 0.01)


def distance_products(sides):
    """What an epoch's distances need: queries and items mapped, then all inner products."""
    M = np.eye(D, dtype=sides.X.dtype)
    with single_blas_thread():
        for start in range(0, len(sides.y), BATCH):
            A, B = products((sides.X[start : start + BATCH], M), (sides.X, M))
            out = np.empty((len(A), len(B)), A.dtype)
            ends = panels(len(A), 8)
            side_by_side([partial(gemm, False, A[a:b], True, B, 0.0, out[a:b]) for a, b in ends])


def gerrymandering_epoch():
    rows = []
    for k in (3, 5, 9):
        sides, objective, _ = problem(6238, k)
        times = seconds(
            {
                "ours": lambda s=sides, o=objective: epoch(s, o),
                "gemm": lambda s=sides: distance_products(s),
                "plain 4": lambda s=sides, o=objective: plain(s, o, 4),
                "plain 16": lambda s=sides, o=objective: plain(s, o, 16),
            },
            repeats=3,
        )
        # A batch costs the same for few queries, apart from what each of them costs.
        query = (times["plain 16"] - times["plain 4"]) / 12
        naive = 6238 * query + -(-6238 // BATCH) * (times["plain 4"] - 4 * query)
        ratio = times["ours"] / times["gemm"]
        rows.append([k, times["ours"], naive, naive / times["ours"], ratio])
    table(
        "Gerrymandering: an epoch, 6,238 points, d = p = 617, 26 classes, batches of 256, float32",
        ["k", "seconds", "plain NumPy", "× plain NumPy", "time over its distances' GEMMs"],
        rows,
    )


def gerrymandering_growth():
    rows = []
    for n in (3_000, 6_000, 12_000, 24_000):
        sampled = problem(n, 3, n_database=2_000)
        runs = {"sampled": lambda s=sampled: epoch(*s)}
        if n <= 12_000:
            whole = problem(n, 3)
            runs["whole"] = lambda w=whole: epoch(*w)
        times = seconds(runs, repeats=1)
        per_point = [
            1e6 * times[name] / n if name in times else "" for name in ("sampled", "whole")
        ]
        rows.append([n, times["sampled"], per_point[0], times.get("whole", ""), per_point[1]])
    table(
        "Gerrymandering: growth with the number of points, k = 3, d = p = 617",
        ["points", "s, 2,000 items a step", "µs a point", "s, all items", "µs a point"],
        rows,
    )


def gerrymandering_width():
    """Steps on 784 features: images as wide as the data, and of the default width."""
    rng, d, rows = np.random.default_rng(0), 784, []
    objective = Objective(1.0 - np.eye(10), 5, ties=False, regularizer="joint", penalty=1e-4)
    for n in (2_500, 5_000, 10_000):
        y = np.sort(np.arange(n) % 10)
        X = (rng.normal(size=(10, d))[y] * 0.3 + rng.normal(size=(n, d))) / np.sqrt(d)
        sides = LabelledSides(X.astype("float32"), y, X.astype("float32"), y, np.arange(n))
        order = rng.permutation(n)

        def steps(p, sides=sides, order=order):
            zero = np.zeros(d, np.float32)
            maps = Maps(*(Map(np.eye(p, d, dtype=np.float32), zero) for _ in range(2)))
            descent = MapDescent(maps, (), 0, objective, Schedule())
            with single_blas_thread():
                for some in np.split(order[: 3 * BATCH], 3):
                    descent._step(sides.with_queries(some), 1e-3)

        times = seconds({p: partial(steps, p) for p in (d, MAX_AUTO_COMPONENTS)}, repeats=3)
        whole, short = ((times[p] / 3) * -(-n // BATCH) for p in (d, MAX_AUTO_COMPONENTS))
        rows.append([n, whole, short, whole / short])
    table(
        f"Gerrymandering: an epoch by the width of images, d = 784, batches of {BATCH}, float32",
        ["points", "s, p = 784", f"s, p = {MAX_AUTO_COMPONENTS}", "ratio"],
        rows,
    )


def gerrymandering_rivals():
    """Isolet, 100 principal components, official test speakers: errors of k votes, and seconds."""
    data = load_isolet()
    reduce = PCA(100, random_state=0).fit(data.X[data.train])
    X, X_test = (reduce.transform(data.X[rows]) for rows in (data.train, ~data.train))
    y, y_test = data.y[data.train], data.y[~data.train]

    def nca(n, **parameters):
        rows = np.random.default_rng(0).permutation(len(y))[:n]
        learner = NeighborhoodComponentsAnalysis(max_iter=30, random_state=0, **parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return (learner.fit(X[rows], y[rows]).components_,) * 2

    def ours(**parameters):
        learner = NeighborhoodGerrymandering(random_state=0, **parameters).fit(X, y)
        return learner.U_, learner.V_

    def metric_learn(name, n, **parameters):
        rows = np.random.default_rng(0).permutation(len(y))[:n]
        return (fit_peer(name, X[rows].astype(float), y[rows], parameters, 0, 100),) * 2

    forms = {"early_stopping": True, "asymmetric": True}
    ours(max_iter=1)  # compiles, before the clock starts
    contenders = {
        "Euclidean": lambda: (np.eye(100),) * 2,
        "ours, as it comes": ours,
        "ours, symmetric": lambda: ours(**{**forms, "asymmetric": False}),
        "ours, asymmetric": lambda: ours(**forms),
        "ours, asymmetric, 1,000 items a step": lambda: ours(**forms, n_database=1000),
        "NCA of scikit-learn, 3,000 points, 30 iterations": lambda: nca(3000),
        "the same from LDA, 25 directions": lambda: nca(3000, init="lda", n_components=25),
        "NCA of scikit-learn, all points, 30 iterations": lambda: nca(len(y)),
    }
    if PYTHON.exists():
        contenders["NCA of metric-learn, 1,000 points, 30 iterations"] = lambda: metric_learn(
            "NCA", 1000, max_iter=30
        )
        contenders["LMNN of metric-learn, 1,000 points, 30 iterations"] = lambda: metric_learn(
            "LMNN", 1000, max_iter=30, min_iter=5
        )
        # Its first step, 1e-7, is so short that it hardly moves; too long ones are halved.
        contenders["LMNN, 3,000 points, 60 iterations, learn_rate=1e-4"] = lambda: metric_learn(
            "LMNN", 3000, max_iter=60, learn_rate=1e-4
        )
        metric_learner()  # starts its process, before the clock does
    rows = []
    for name, learn in contenders.items():
        begun = time.perf_counter()
        U, V = learn()
        spent = time.perf_counter() - begun
        center = X.mean(axis=0)
        errors = []
        for k in (1, 3, 5, 9):
            votes = KNeighborsClassifier(k, algorithm="brute").fit((X - center) @ V.T, y)
            errors.append(f"{100 * (1 - votes.score((X_test - center) @ U.T, y_test)):.1f}")
        rows.append([name, spent, *errors])
    table(
        "Gerrymandering, Isolet on 100 principal components: seconds, test error in %",
        ["contender", "seconds", "1-NN", "3-NN", "5-NN", "9-NN"],
        rows,
    )


ALL = [gerrymandering_epoch, gerrymandering_growth, gerrymandering_width, gerrymandering_rivals]
