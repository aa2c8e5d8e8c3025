"""The trace-one semidefinite program, by similia and by conic solvers, in separate processes.

``python -m benchmarks.conic scs 100 2000`` solves one problem on one processor, so that waiting
threads do not blur the comparison, and prints time and accuracy as JSON. The solvers are called
directly, without a modelling layer, on the form that suits them best, the dual:
max t over p ≥ 0 with Σp = 1 and Σ p_j C_j - tI ⪰ 0.
"""

import json
import os
import resource
import subprocess
import sys
import time
from functools import partial

import numpy as np
from scipy import sparse

#: limits of seconds and bytes for a solver
LIMIT, MEMORY = 120, 14 * 2**30


def vectors(d, n, seed=0):
    """Rows z with N(0, 1) entries; zᵀWz is about one at W = I/d."""
    return np.random.default_rng(seed).normal(size=(n, d))


def solved(solver, d, n):
    """Run a solver in its own process; return seconds and accuracy, or a word for its failure."""
    command = [sys.executable, "-m", "benchmarks.conic", solver, str(d), str(n)]
    one = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}
    how = {"capture_output": True, "text": True, "env": {**os.environ, **one}}
    try:
        run = subprocess.run(command, timeout=LIMIT + 60, **how)
    except subprocess.TimeoutExpired:
        return f"more than {LIMIT}"
    if run.returncode or not run.stdout:
        return f"needs more than {MEMORY >> 30} GB" if "lloc" in run.stderr else "failed"
    found = json.loads(run.stdout)
    return found if found["seconds"] <= LIMIT else f"more than {LIMIT}"


def _triangle(d):
    """Rows and columns of the lower triangle, and the scale of its entries in both solvers."""
    columns, rows = np.triu_indices(d)
    return rows, columns, np.where(rows == columns, 1.0, np.sqrt(2.0))


def _problem(Z, order):
    n = len(Z)
    rows, columns, scale = order
    entries = (Z[:, rows] * Z[:, columns] * scale).T
    identity = np.where(rows == columns, 1.0, 0.0)
    A = sparse.vstack(
        [
            sparse.csc_array(np.append(np.ones(n), 0.0)[None]),
            sparse.hstack([-sparse.eye_array(n), sparse.csc_array((n, 1))]),
            sparse.hstack([sparse.csc_array(-entries), sparse.csc_array(identity[:, None])]),
        ],
        format="csc",
    )
    return A, np.append(1.0, np.zeros(A.shape[0] - 1)), np.append(np.zeros(n), -1.0)


def _with_similia(Z):
    from similia import RankOneConstraints, minimize_max_constraint

    constraints = RankOneConstraints(Z, 0.0)
    minimize_max_constraint(constraints, tol=0.5)  # compiled before the clock
    start = time.perf_counter()
    found = minimize_max_constraint(RankOneConstraints(Z, 0.0), tol=1e-2)
    return time.perf_counter() - start, found.weights, found.W


def _with_scs(Z, dense=False):
    import scs

    n, d = Z.shape
    order = _triangle(d)
    A, b, c = _problem(Z, order)
    inner = {"linear_solver": scs.LinearSolver.CPU_DENSE} if dense else {}
    start = time.perf_counter()
    solver = scs.SCS(
        {"A": sparse.csc_matrix(A), "b": b, "c": c}, {"z": 1, "l": n, "s": [d]},
        eps_abs=1e-3, eps_rel=1e-3, verbose=False, time_limit_secs=LIMIT, **inner,
    )  # fmt: skip
    solution = solver.solve()
    return time.perf_counter() - start, solution["x"][:n], _matrix(solution["y"][1 + n :], order, d)


def _with_clarabel(Z):
    import clarabel

    n, d = Z.shape
    columns, rows, scale = _triangle(d)  # the upper triangle, column by column
    order = np.lexsort((rows, columns))
    order = rows[order], columns[order], scale[order]
    A, b, c = _problem(Z, order)
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(n), clarabel.PSDTriangleConeT(d)]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.time_limit = False, LIMIT
    settings.tol_gap_abs = settings.tol_gap_rel = 1e-3
    start = time.perf_counter()
    P = sparse.csc_matrix((n + 1, n + 1))
    solution = clarabel.DefaultSolver(P, c, sparse.csc_matrix(A), b, cones, settings).solve()
    x, z = np.array(solution.x), np.array(solution.z)
    return time.perf_counter() - start, x[:n], _matrix(z[1 + n :], order, d)


def _matrix(entries, order, d):
    rows, columns, scale = order
    W = np.zeros((d, d))
    W[rows, columns] = W[columns, rows] = entries / scale
    return W


def accuracy(Z, p, W):
    """Width of the bracket that p and W prove, once made feasible, relative to the first one."""
    p = np.maximum(p, 0.0)
    values, Q = np.linalg.eigh(W)
    values = np.maximum(values, 0.0)
    W = (Q * (values / values.sum())) @ Q.T
    upper = np.vecdot(Z @ W, Z).max()
    lower = np.linalg.eigvalsh((Z.T * (p / p.sum())) @ Z)[0]
    first = (Z**2).sum(1).max() / Z.shape[1] - np.linalg.eigvalsh(Z.T @ Z / len(Z))[0]
    return float((upper - lower) / first)


SOLVERS = {
    "similia": _with_similia,
    "scs": _with_scs,
    "scs-dense": partial(_with_scs, dense=True),
    "clarabel": _with_clarabel,
}

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    name, d, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    Z = vectors(d, n)
    seconds, p, W = SOLVERS[name](Z)
    print(json.dumps({"seconds": seconds, "accuracy": accuracy(Z, p, W)}))
