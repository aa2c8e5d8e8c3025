"""SLND: a pass against memory traffic and the printed form; time to an accuracy against others."""

import multiprocessing
import os
import queue
import time
import warnings
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

import numpy as np
from numba import njit
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier

from benchmarks.timing import seconds, table
from benchmarks.workloads import unit_vectors
from experiments.contenders.sgd_qn import SGDQN
from experiments.datasets import load_caltech101, load_isolet, load_mnist
from similia import SGDOneVsRest, SLNDClassifier
from similia.linalg import threads
from similia.linalg.blocks import aligned_zeros
from similia.linear import passes as linear_passes
from similia.linear.examples import Examples, TrainingSplit
from similia.linear.frames import Descent, Scaling, StepFrame
from similia.linear.passes import Passes
from similia.losses import LOSSES
from similia.updates.balanced import LINEAR

N = 100_000


@njit(nogil=True, cache=True, fastmath=True)
def read_rows(U, out):
    """Read every entry once."""
    total = U.dtype.type(0.0)
    for i in range(len(U)):
        for k in range(U.shape[1]):
            total += U[i, k]
    out[0] = total


@njit(nogil=True, cache=True, fastmath=True)
def printed_pass(w, X, X_star, visits, signs, eta):
    """The printed update (11) in d dimensions with x* made beforehand (10), logistic loss."""
    for t in range(len(visits)):
        x, x_star = X[visits[t]], X_star[visits[t]]
        score = w.dtype.type(0.0)
        for j in range(len(w)):
            score += w[j] * x[j]
        step = w.dtype.type(eta * signs[t] / (1.0 + np.exp(signs[t] * score)))
        for j in range(len(w)):
            w[j] += step * x_star[j]


@njit(nogil=True, cache=True, fastmath=True)
def read_visited(U, visits, out):
    """The same in an order of visits."""
    total = U.dtype.type(0.0)
    for i in visits:
        for k in range(U.shape[1]):
            total += U[i, k]
    out[0] = total


def visited_traffic(U, order):
    """Read 2N rows in random order, shared out among the processors."""
    parts = np.array_split(order, 4)
    threads.side_by_side([partial(read_visited, U, part, np.zeros(1, U.dtype)) for part in parts])


def traffic(U):
    """Read as many rows as a balanced pass visits, 2N, shared out among the processors."""
    half = len(U) // 2
    parts = [U[:half], U[half:], U[:half], U[half:]]
    threads.side_by_side([partial(read_rows, part, np.zeros(1, U.dtype)) for part in parts])


def projected_rows(n, k):
    """Rows of a length as after whitening, in memory as `fit` keeps them."""
    U = aligned_zeros((n, k), np.float32)
    U[:] = unit_vectors(n, k) * np.float32(2 * k**0.5)
    return U


def balanced(U, y, average=False):
    """A function that makes one balanced pass over projected rows."""
    examples, (n, k) = Examples("benchmark", U, y, intercept=False), U.shape
    split = TrainingSplit(examples, np.arange(n), np.arange(0))
    descent = Descent(LOSSES["logistic"], LINEAR, n, True, True, None)
    w = np.zeros((examples.n_vectors, k), U.dtype)
    scaling = Scaling(np.eye(k, dtype=U.dtype), 1.0 / k, 1.0)
    frame = StepFrame(slice(0, len(w)), scaling, descent, w, average)
    frame.kept = U
    run = Passes(split, descent, w, w[: len(w) * average], 0, frames=[frame])

    def again():
        run.number = run.n_seen = 0
        run.make(np.random.default_rng(0))

    return again


@contextmanager
def one_processor():
    """Let nothing be shared out: neither the classes of a pass nor the work of a task."""
    both = [patch.object(module, "processors", lambda: 1) for module in (threads, linear_passes)]
    with both[0], both[1]:
        yield


def slnd_pass():
    """One balanced pass over stored projections, float32."""
    rows = []
    for k in (256, 512, 1024):
        U = projected_rows(N, k)
        order = np.random.default_rng(0).permutation(np.tile(np.arange(N), 2))
        for classes in (10, 100, 1000):
            run = balanced(U, np.arange(N) % classes)

            def on_one(run=run):
                with one_processor():
                    run()

            limits = {"limit": partial(traffic, U), "visited": partial(visited_traffic, U, order)}
            times = seconds({"ours": run, "one": on_one, **limits}, repeats=9)
            ours = times["ours"]
            rows.append(
                [
                    k,
                    classes,
                    ours,
                    f"{times['limit'] / ours:.0%}",
                    f"{times['visited'] / ours:.0%}",
                    times["one"] / ours,
                ]
            )
    table(
        f"SLND, one balanced pass, N = {N:,}, float32",
        ["k", "classes", "seconds", "of reading 2N rows", "in random order", "× one processor"],
        rows,
    )


def slnd_printed():
    """A visit in k dimensions against one of the printed form in d, both compiled, one thread."""
    d, n, rows = 4096, 10_000, []
    X = unit_vectors(n, d)
    signs = np.where(np.arange(2 * n) % 2 == 0, 1, -1).astype(np.float32)
    visits = np.random.default_rng(0).integers(n, size=2 * n)
    w = np.zeros(d, np.float32)
    for k in (256, 512, 1024):
        U = projected_rows(n, k)
        run = balanced(U, np.arange(n) % 10)

        def ours(run=run):
            with one_processor():
                run()

        printed = partial(printed_pass, w, X, X, visits, signs, np.float32(1e-3))
        times = seconds({"ours": ours, "printed": printed}, repeats=3)
        ratio = times["printed"] / times["ours"]
        rows.append([k, times["ours"] / (2 * n) * 1e6, ratio, d / (2 * k)])
    table(
        f"SLND, a visit in k dimensions against the printed one in d = {d:,}",
        ["k", "µs", "× printed", "d / 2k"],
        rows,
    )


def slnd_full():
    """Learning from all examples: how `fit` grows with classes, without the eigendecomposition."""
    rows = []
    n, d = 20_000, 1024
    X = unit_vectors(n, d)
    for classes in (10, 100, 1000):
        y = np.arange(n) % classes
        made = {}
        for passes in (1, 3):
            for sampling in ("full", "balanced"):
                learner = SLNDClassifier(
                    rank=256, max_iter=passes, sampling=sampling, random_state=0
                )
                made[sampling, passes] = partial(learner.fit, X, y)
        times = seconds(made, repeats=1)
        rows.append(
            [
                classes,
                *(times[s, 1] for s in ("full", "balanced")),
                *((times[s, 3] - times[s, 1]) / 2 for s in ("full", "balanced")),
            ]
        )
    table(
        f"SLND, fit on N = {n:,}, d = {d:,}, k = 256, float32: seconds",
        ["classes", "first pass, full", "balanced", "each further pass, full", "balanced"],
        rows,
    )


def training_halves(name):
    """Rows of the training part, cut in two: to learn from, and to judge by."""
    if name == "Caltech-101":
        data = load_caltech101("fisher")
        X, y = data.X.astype(np.float32), data.y
    else:
        data = load_isolet() if name == "Isolet" else load_mnist()
        X, y = data.X[data.train].astype(np.float32), data.y[data.train]
    order = np.random.default_rng(0).permutation(len(y))[:12_000]
    some, others = order[: 4 * len(order) // 5], order[4 * len(order) // 5 :]
    return X[some], y[some], X[others], y[others]


PASSES = (1, 2, 5, 10, 20)
ALPHAS = (1e-6, 1e-5, 1e-4)
ITERATIONS = {"lbfgs": (5, 10, 30, 100), "saga": (1, 5, 20), "newton-cholesky": (2, 4, 8)}

#: seconds after which a fit is stopped
LIMIT = 30


def contenders(X, y, others, truth):
    """Triples (name, numbers of passes or iterations, their makers)."""
    for cls in (SLNDClassifier, SGDOneVsRest, SGDQN):
        for sampling in ("balanced", "full"):
            name = f"{cls.__name__}, {sampling}"
            yield name, PASSES, [partial(cls, sampling=sampling, max_iter=p) for p in PASSES]
    averaged = partial(SGDClassifier, loss="log_loss", average=True, tol=None)
    found = {a: fitted(partial(averaged, alpha=a, max_iter=2), X, y, others, truth) for a in ALPHAS}
    alpha = max(found, key=lambda a: found[a][1])
    makers = [partial(averaged, alpha=alpha, max_iter=p) for p in PASSES]
    yield f"SGDClassifier, alpha = {alpha:g}", PASSES, makers
    for solver, iterations in ITERATIONS.items():
        makers = [partial(LogisticRegression, solver=solver, max_iter=i) for i in iterations]
        if solver == "newton-cholesky":
            # Of all classes at once its Hessian would have (classes × features)² entries.
            makers = [partial(one_vs_rest, make) for make in makers]
        yield f"LogisticRegression, {solver}", iterations, makers


def one_vs_rest(make, random_state):
    return OneVsRestClassifier(make(random_state=random_state))


def fitted(make, X, y, others, truth):
    """Seconds and accuracy of a fit, in a process of its own that is stopped after `LIMIT`."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()

    def run():
        warnings.simplefilter("ignore")
        make(random_state=0).fit(X[:200], y[:200])  # compile
        start = time.perf_counter()
        learner = make(random_state=0).fit(X, y)
        answers.put((time.perf_counter() - start, learner.score(others, truth)))

    process = context.Process(target=run)
    process.start()
    try:
        return answers.get(timeout=LIMIT)
    except queue.Empty:
        return float("inf"), 0.0
    finally:
        process.terminate()
        process.join()


def curve_of(numbers, makers, *data):
    """Triples (number, seconds, accuracy), up to the first fit that takes too long."""
    curve = []
    for number, make in zip(numbers, makers, strict=True):
        spent, accuracy = fitted(make, *data)
        if spent == float("inf"):
            break
        curve.append((number, spent, accuracy))
    return curve


def slnd_accuracy(names=("Isolet", "MNIST", "Caltech-101")):
    """Seconds to 99 % of the best accuracy that SGD reaches in the same one-vs-rest scheme."""
    if "SIMILIA_DATA" not in os.environ:
        print("\nslnd_accuracy needs the data that SIMILIA_DATA names; left out.")
        return
    for name in names:
        data = training_halves(name)
        curves = {}
        for contender, numbers, makers in contenders(*data):
            curves[contender] = curve_of(numbers, makers, *data), len(numbers)
        rows = []
        for contender, (curve, full) in curves.items():
            sampling = "balanced" if contender.endswith("balanced") else "full"
            goal = 0.99 * max(a for _, _, a in curves[f"SGDOneVsRest, {sampling}"][0])
            cut = f"(over {LIMIT} s)" if len(curve) < full else ""
            if not curve:
                rows.append([contender, cut, "–", "–", "–", "–", "–"])
                continue
            number, spent, best = max(curve, key=lambda point: point[2])
            reached = next((point for point in curve if point[2] >= goal), None)
            first = curve[0]
            level = ["never", "never"] if reached is None else reached[:2]
            rows.append(
                [contender, f"{best:.1%} {cut}".strip(), f"{number} ({spent:.2f} s)",
                 f"{first[2]:.1%}", f"{first[0]} ({first[1]:.2f} s)", *level]
            )  # fmt: skip
        table(
            f"{name}, {len(data[1]):,} training rows, accuracy on {len(data[3]):,} others of them",
            ["learner", "best", "in", "shortest", "in", "number to 99 %", "seconds"],
            rows,
        )


def sgd_qn_classes():
    """A fit of one pass over all examples: SGD-QN, which has gains for each class, and SGD."""
    rng, n, d, rows = np.random.default_rng(0), 2_000, 256, []
    for classes in (10, 100, 200, 1000):
        y = np.arange(n) % classes
        X = rng.normal(size=(classes, d))[y] + rng.normal(size=(n, d))
        learners = {cls: cls(max_iter=1, random_state=0) for cls in (SGDQN, SGDOneVsRest)}
        runs = {
            cls: partial(learner.fit, X.astype(np.float32), y) for cls, learner in learners.items()
        }
        times = seconds(runs, repeats=5)
        ratio = times[SGDQN] / times[SGDOneVsRest]
        rows.append([classes, 1e3 * times[SGDQN], 1e3 * times[SGDOneVsRest], ratio])
    table(
        f"SGD-QN against SGD, one pass over all examples, N = {n:,}, d = {d}, float32: ms",
        ["classes", "SGD-QN", "SGD", "ratio"],
        rows,
    )


ALL = [slnd_pass, slnd_printed, slnd_full, slnd_accuracy, sgd_qn_classes]
