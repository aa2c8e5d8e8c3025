"""Speed of POLA: against a full eigendecomposition, against ARPACK's Lanczos method, and how the
cost of a step grows with the dimension and with the basis of a kernel.
"""

import numpy as np
from scipy.linalg.blas import dsymv
from scipy.sparse.linalg import LinearOperator, eigsh
from threadpoolctl import threadpool_limits

from benchmarks.timing import seconds, table
from benchmarks.workloads import clustered
from similia import POLA, KernelPOLA
from similia.feedback.sampling import BalancedPairs
from tests.reference.pola import pola_loss, pola_step

PAPER = {"gamma": 0.0, "start": "zero", "unit": 1.0, "threshold_rate": 1.0, "average": False}


def judged(n, d, n_pairs, dtype="float64"):
    X, y = clustered(n, d, dtype)
    return X, *BalancedPairs(y).draw(n_pairs, np.random.default_rng(1))


def naive(A, b, V, signs):
    """The printed algorithm: a full eigendecomposition for each similar pair that moves A."""
    for v, sign in zip(V, signs, strict=True):
        A, b = pola_step(A, b, v, sign)


def naive_lanczos(A, b, V, signs):
    """The same with ARPACK's smallest eigenpair, started at v: the best that SciPy offers."""
    A, n = A.copy(), len(A)
    for v, sign in zip(V, signs, strict=True):
        loss = pola_loss(A, b, v, sign)
        if loss == 0.0:
            continue
        alpha = loss / ((v @ v) ** 2 + 1.0)
        A -= sign * alpha * np.outer(v, v)
        b = max(1.0, b + sign * alpha)
        if sign == 1:
            product = LinearOperator((n, n), matvec=A.__matmul__, dtype=A.dtype)
            value, u = eigsh(product, k=1, which="SA", v0=v, tol=1e-10)
            if value[0] < 0.0:
                A -= value[0] * np.outer(u[:, 0], u[:, 0])


def pola_dense():
    """Mid-stream: 512 pairs, from a state that has seen 1,000."""
    rows = []
    for d in (100, 200, 400, 784, 2000):
        X, pairs, signs = judged(3000, d, 1512)
        few = {100: 200, 200: 200, 400: 60, 784: 30, 2000: 6}[d]
        before = POLA(**PAPER).learn(X, pairs[:1000], signs[:1000])
        state = before.get_state()
        A, b = before.A_.copy(), before.b_
        V = X[pairs[1000:, 0]] - X[pairs[1000:, 1]]

        def ours(state=state, X=X, pairs=pairs, signs=signs):
            learner = POLA(**PAPER).set_state({**state, "A_": state["A_"].copy()})
            return learner.learn(X, pairs[1000:], signs[1000:])

        def others(run, A=A, b=b, V=V, signs=signs, few=few):
            with threadpool_limits(1):
                run(A, b, V[:few], signs[1000 : 1000 + few])

        times = seconds(
            {
                "ours": ours,
                "eigh": lambda others=others: others(naive),
                "arpack": lambda others=others: others(naive_lanczos),
                "product": lambda A=A, v=V[0]: [dsymv(1.0, A.T, v) for _ in range(30)],
            },
            repeats=3,
        )
        learner = ours()
        updates = learner.n_updates_ - before.n_updates_
        per_pair = times["ours"] / 512
        rows.append(
            [
                d,
                f"{updates / 512:.0%}",
                per_pair * 1e6,
                times["ours"] / updates / d**2 * 1e9,
                times["ours"] / updates / (times["product"] / 30),
                times["eigh"] / few / per_pair,
                times["arpack"] / few / per_pair,
            ]
        )
    table(
        "POLA, dense, float64, through `learn`, one thread for the others",
        ["d", "updating", "µs a pair", "ns an update / d²", "in products Av", "× eigh", "× ARPACK"],
        rows,
    )


def pola_kernel():
    """KernelPOLA with a full basis: time per pair, and how much of it is kernel values."""
    rows = []
    X, pairs, signs = judged(4000, 100, 6000)
    for size in (250, 500, 1000):
        learner = KernelPOLA(kernel="rbf", budget=size, gamma=0.0, average=False)
        learner.learn(X, pairs[:2000], signs[:2000])
        assert learner.n_basis_ == size
        points = X[pairs[2000:2256].ravel()]
        times = seconds(
            {
                "ours": lambda learner=learner: learner.learn(
                    X, pairs[2000:2256], signs[2000:2256]
                ),
                "kernel": lambda learner=learner, p=points: learner._kernel.values(
                    p, learner.basis_
                ),
            },
            repeats=3,
        )
        per_pair = times["ours"] / 256
        kernel = times["kernel"] / 256
        rows.append([size, per_pair * 1e6, kernel * 1e6, (per_pair - kernel) / size**2 * 1e9])
    table(
        "KernelPOLA, rbf kernel, 100 features",
        ["basis", "µs a pair", "µs of kernel values", "ns beside them / basis²"],
        rows,
    )


ALL = [pola_dense, pola_kernel]
