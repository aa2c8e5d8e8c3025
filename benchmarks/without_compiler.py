"""Learning with the loops as plain Python, against compiled: what a form without numba would cost.

``python -m benchmarks.without_compiler``. Loops run through the interpreter; products, triangular
solutions and eigenvectors, which compiled code asks of BLAS and LAPACK, are asked of NumPy instead.
"""

import json
import os
import subprocess
import sys
from time import process_time

import numpy as np

LEARNERS = ("FactoredAROMA", "Blend", "POLA")
SIZES = (16, 64, 128)
COMPILED, PLAIN = 2000, 100  #: judgements learnt: seconds in the one form, minutes in the other


def _without_bindings():
    """Replace what only compiled code can call."""
    from similia.linalg import bound

    def gemm(transpose_A, A, transpose_B, B, beta, C):
        product = (A.T if transpose_A else A) @ (B.T if transpose_B else B)
        C[:] = product + beta * C if beta else product

    def solve_unit_lower(L, B):
        B[:] = np.linalg.solve(np.tril(L, -1) + np.eye(len(L), dtype=L.dtype), B)

    def add_squares(A, c, R):
        A += (R.T * c) @ R

    bound.gemm, bound.solve_unit_lower, bound.add_squares = gemm, solve_unit_lower, add_squares

    from similia.linalg import lanczos

    def negative_eigenpair(A, R, c, v, alpha, tol):
        values, vectors = np.linalg.eigh(A + (R.T * c) @ R - alpha * np.outer(v, v))
        return min(values[0], 0.0), vectors[:, 0]

    lanczos.negative_eigenpair = negative_eigenpair


def _measure(n):
    """Microseconds of a judgement, by learner and number of features."""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        _without_bindings()
    import similia

    rng = np.random.default_rng(0)
    found = {}
    for size in SIZES:
        X = rng.normal(size=(200, size)).astype(np.float32)
        triplets = rng.integers(200, size=(n, 3))
        for name in LEARNERS:
            told = (triplets[:, :2], rng.choice([-1, 1], n)) if name == "POLA" else (triplets,)
            new = getattr(similia, name)
            new().learn(X, *(part[:10] for part in told))  # compiles, or at least imports
            learner, start = new(), process_time()
            learner.learn(X, *told)
            found[f"{name} {size}"] = (process_time() - start) / n * 1e6
    return found


def main():
    """Print the table."""
    figures = {}
    for form, n in (("0", COMPILED), ("1", PLAIN)):
        words = [sys.executable, "-W", "ignore", "-m", "benchmarks.without_compiler", str(n)]
        environment = {**os.environ, "NUMBA_DISABLE_JIT": form, "OPENBLAS_NUM_THREADS": "1"}
        done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True)
        figures[form] = json.loads(done.stdout)
    print("| learner | features | compiled, µs | plain Python, µs | ratio |")
    print("| --- | --- | --- | --- | --- |")
    for case, quick in figures["0"].items():
        name, size = case.split()
        slow = figures["1"][case]
        print(f"| {name} | {size} | {quick:.0f} | {slow:.0f} | {slow / quick:.0f} |")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(_measure(int(sys.argv[1]))))
    else:
        main()
