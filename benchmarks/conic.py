"""The trace-one semidefinite programme by general conic solvers, in a process that can be stopped.

``python -m benchmarks.conic scs 100 2000`` solves one problem and prints what it took as JSON. Both
solvers are called directly, with the problem in the form that suits them best, so that no time is
spent in modelling; it is the dual one: max t over p ≥ 0 with Σp = 1 and Σ p_j C_j - tI ⪰ 0.
"""

import json
import subprocess
import sys
import time

import numpy as np
from scipy import sparse

#: seconds after which a solver is stopped
LIMIT = 300


def vectors(d, n, seed=0):
    """Rows z with entries N(0, 1): the values zᵀWz of W = I/d are about one."""
    return np.random.default_rng(seed).normal(size=(n, d))


def solved(solver, d, n):
    """Run a solver in a process of its own; give seconds and accuracy, or None after LIMIT."""
    command = [sys.executable, "-m", "benchmarks.conic", solver, str(d), str(n)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT + 60)
    except subprocess.TimeoutExpired:
        return None
    found = json.loads(run.stdout) if run.returncode == 0 and run.stdout else None
    return found if found and found["seconds"] <= LIMIT else None


def _triangle(d):
    """Rows and columns of the entries of a symmetric matrix, and their scale in both solvers."""
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


def _with_scs(Z):
    import scs

    n, d = Z.shape
    order = _triangle(d)
    A, b, c = _problem(Z, order)
    dense = {"linear_solver": scs.LinearSolver.CPU_DENSE} if hasattr(scs, "LinearSolver") else {}
    start = time.perf_counter()
    solver = scs.SCS(
        {"A": sparse.csc_matrix(A), "b": b, "c": c}, {"z": 1, "l": n, "s": [d]},
        eps_abs=1e-3, eps_rel=1e-3, verbose=False, time_limit_secs=LIMIT, **dense,
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
    """What p and W prove, made feasible first: width of the bracket over that at the start."""
    p = np.maximum(p, 0.0)
    values, Q = np.linalg.eigh(W)
    values = np.maximum(values, 0.0)
    W = (Q * (values / values.sum())) @ Q.T
    upper = np.vecdot(Z @ W, Z).max()
    lower = np.linalg.eigvalsh((Z.T * (p / p.sum())) @ Z)[0]
    first = (Z**2).sum(1).max() / Z.shape[1] - np.linalg.eigvalsh(Z.T @ Z / len(Z))[0]
    return float((upper - lower) / first)


if __name__ == "__main__":
    name, d, n = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    Z = vectors(d, n)
    seconds, p, W = {"scs": _with_scs, "clarabel": _with_clarabel}[name](Z)
    print(json.dumps({"seconds": seconds, "accuracy": accuracy(Z, p, W)}))
