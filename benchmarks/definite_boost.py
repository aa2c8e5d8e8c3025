"""Speed of DefiniteBoost and of the semidefinite program, against plain NumPy and solvers."""

import time
from functools import partial

import numpy as np

from benchmarks import conic
from benchmarks.timing import seconds, table
from similia import (
    ConstraintOracle,
    DistanceConstraints,
    RankOneConstraints,
    minimize_max_constraint,
)
from similia.constraints.projections import Projections, most_violated
from similia.linalg.threads import single_blas_thread
from tests.reference.definite_boost import approximate_step, density

SCREENED = 1_000_000


def bounded_distances(d, seed=0):
    """Pairs of d objects with the distances of a known kernel matrix, to within 1 %."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(d, 10))
    X /= np.linalg.norm(X)
    pairs = rng.integers(d, size=(4 * d, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    distances = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    sense = np.repeat(["<=", ">="], len(pairs))
    bounds = np.concatenate([1.01 * distances, 0.99 * distances])
    return DistanceConstraints(np.tile(pairs, (2, 1)), bounds, sense, n_objects=d)


def starts(d):
    """log W₀ with all eigenvalues equal, and with no two equal."""
    A = np.random.default_rng(1).normal(size=(d, d))
    spread = (A + A.T) / np.sqrt(2 * d)
    return {
        "I/d": -np.log(d) * np.eye(d),
        "all different": spread - density(spread)[1] * np.eye(d),
    }


def run_of(constraints, log_start):
    return Projections(constraints, log_start, np.zeros(len(constraints)), 1e-12, nearest=False)


def take(run, steps):
    """Take the given number of steps, if positive, as `DefiniteBoost(nearest=False)` does."""
    terms = run.terms()
    with single_blas_thread():
        if terms is not None:
            run.run_pass(terms, max(steps, 0))
            return
        for _ in range(steps):
            run.step(most_violated, False)


def plain_steps(constraints, log_start, steps):
    """Algorithm 2 as printed, with the corrected step and all constraints screened at once."""
    G, d = log_start.copy(), len(log_start)
    W = density(G)[0]
    a, b = constraints.first, constraints.second
    low, high = constraints.bounds()
    for _ in range(steps):
        r = constraints.signs * (W[a, a] + W[b, b] - 2 * W[a, b]) - constraints.shifts
        j = int(r.argmax())
        G = G - approximate_step(r[j], low[j], high[j]) * constraints.matrix(j)
        W = density(G)[0]
    return W.reshape(d, d)


def boost_steps():
    rows = []
    for d in (52, 200, 500, 1000):
        constraints = bounded_distances(d)
        few = {52: 100, 200: 20, 500: 5, 1000: 2}[d]
        for name, log_start in starts(d).items():
            run = run_of(constraints, log_start)
            # Timed midway: at the start all eigenvalues may be equal, which makes both fast.
            take(run, 500)
            middle = log_start - constraints.combination(run.alpha)
            with single_blas_thread():
                times = seconds(
                    {
                        "ours": partial(take, run, 4 * few),
                        "plain": partial(plain_steps, constraints, middle, few),
                    }
                )
            take(run, 1000 - len(run.history["dual"]))
            # The plain state after the same steps; its own choices differ in ties.
            W, _ = density(log_start - constraints.combination(run.alpha))
            error = np.abs(run.state.matrix() - W).max() / np.abs(W).max()
            ours, plain = times["ours"] / (4 * few), times["plain"] / few
            rows.append([d, name, ours * 1e3, plain * 1e3, plain / ours, f"{error:.0e}"])
    table(
        "DefiniteBoost, about 8 d distances, most violated first: a step, with its screening",
        ["d", "W₀", "ms", "ms by eigh", "× eigh", "error of W after ≥ 1,000 steps"],
        rows,
    )


def boost_screening():
    rows = []
    for d in (52, 200, 1000, 3000):
        pairs = np.random.default_rng(0).integers(d, size=(SCREENED, 2))
        constraints = DistanceConstraints(pairs, 0.1, n_objects=d)
        W = np.full((d, d), 1.0 / d**2)
        # Bytes of pairs, signs, bounds and results; copying half as many moves all of them once.
        half = np.ones((4 + 4 + 8 + 8 + 8) * SCREENED // 16)
        other = np.empty_like(half)
        a, b = pairs.T
        times = seconds(
            {
                "ours": lambda c=constraints, W=W: c.values(W),
                "pass": lambda o=other, h=half: np.copyto(o, h),
                "numpy": lambda W=W, a=a, b=b: W[a, a] + W[b, b] - 2 * W[a, b],
            },
            repeats=15,
        )
        rows.append(
            [d, times["ours"] * 1e3, times["ours"] / times["pass"], times["numpy"] / times["ours"]]
        )
    table(
        "Screening 10⁶ constraints on pairs of d objects in random order",
        ["d", "ms", "memory passes", "× NumPy"],
        rows,
    )


def semidefinite(sizes=(10, 20, 50, 100, 200, 400), n=2000):
    """SCS factors sparsely for small d and densely for large d; the faster one counts.

    A solver that exceeds the time limit at one size is not tried at larger ones.
    """
    rows, given_up = [], set()
    for d in sizes:
        ours = conic.solved("similia", d, n)
        cells = [d, ours["seconds"], f"{ours['accuracy']:.4f}"]
        scs = [conic.solved("scs", d, n)] if d <= 100 else []
        scs += [conic.solved("scs-dense", d, n)] if d >= 50 else []
        clarabel = [] if "Clarabel" in given_up else [conic.solved("clarabel", d, n)]
        for name, each in (("SCS", scs), ("Clarabel", clarabel)):
            if not each:
                cells += ["not tried", "", ""]
                continue
            done = [other for other in each if not isinstance(other, str)]
            if not done:
                late = each[0] == f"more than {conic.LIMIT}"
                given_up.add(name)
                more = f"> {conic.LIMIT / ours['seconds']:.0f}" if late else ""
                cells += [each[0], "", more]
            else:
                best = min(done, key=lambda other: other["seconds"])
                ratio = best["seconds"] / ours["seconds"]
                cells += [best["seconds"], f"{best['accuracy']:.4f}", ratio]
        rows.append(cells)
    table(
        f"min θ over {n} rank-one constraints to 1e-2 of the first bracket, one processor: seconds",
        ["d", "ours", "accuracy", "SCS", "accuracy", "× ours", "Clarabel", "accuracy", "× ours"],
        rows,
    )


def semidefinite_oracle(sizes=(20, 50, 100), n=2000):
    """The same programme where a function names constraints, one or twenty a question."""
    rows = []
    for d in sizes:
        Z = conic.vectors(d, n)

        def named(W, count, Z=Z):
            values = np.vecdot(Z @ W, Z)
            worst = np.argpartition(-values, count)[:count]
            return [(int(j), (Z[j], "<=", 0.0)) for j in worst[np.argsort(-values[worst])]]

        found, spent = {}, {}
        for count in (0, 1, 20):
            start = time.process_time()
            known = (
                ConstraintOracle(d, partial(named, count=count))
                if count
                else RankOneConstraints(Z, 0.0)
            )
            found[count] = minimize_max_constraint(known, tol=1e-2)
            spent[count] = time.process_time() - start
        cells = [f"{found[k].n_queries} / {found[k].n_iter}" for k in (1, 20)]
        rows.append([d, spent[0], spent[1], cells[0], spent[20], cells[1]])
    table(
        f"min θ over {n} rank-one constraints that an oracle names: seconds of processor time",
        ["d", "listed", "one named", "questions / screenings", "twenty", "questions / screenings"],
        rows,
    )


ALL = [boost_steps, boost_screening, semidefinite, semidefinite_oracle]
