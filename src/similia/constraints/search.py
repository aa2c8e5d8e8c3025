"""Searches for W: which constraint comes next, and when to stop."""

import numpy as np

from similia.constraints.dual import DualPoint, ascend
from similia.constraints.oracle import ConstraintOracle
from similia.constraints.projections import Choice, Chosen, Projections
from similia.contract import Indices
from similia.progress import Advance
from similia.updates.definite_boost import asks_for

#: steps that compiled code takes between two attempts to prove infeasibility
PASS = 32
#: constraints screened together when they are visited in order
AHEAD = 64


def most_violated(run: Projections) -> Chosen | None:
    """The constraint that asks most, after screening all."""
    r = run.constraints.state_values(run.state)
    if not len(r):
        return None
    used = np.flatnonzero(run.alpha)
    violated = r
    if run.cap < np.inf:
        violated = r.copy()
        violated[used[run.alpha[used] >= run.cap]] = -np.inf
    j = int(violated.argmax())
    if run.nearest and len(used):
        # The largest urgency, without a pass over those that never pushed.
        k = int(used[r[used].argmin()])
        j = k if -r[k] > violated[j] else j
    if asks_for(r[j], run.alpha[j], run.cap, run.nearest) <= run.tol:
        return None
    return Chosen(j, float(r[j]), *run.gap(r))


class InTurn:
    """The next constraint that asks for a step, in the given order or in random ones."""

    def __init__(self, rng: np.random.Generator | None = None) -> None:
        self.rng = rng
        self.order: Indices = np.zeros(0, dtype=np.intp)
        self.place = 0

    def __call__(self, run: Projections) -> Chosen | None:
        """Move on until one asks, or all have been seen at the current W."""
        seen, n = 0, len(run.alpha)
        while seen < n:
            if self.place >= len(self.order):
                self.order = np.arange(n) if self.rng is None else self.rng.permutation(n)
                self.place = 0
            which = self.order[self.place : self.place + AHEAD]
            r = run.constraints.state_values(run.state, which)
            asking = np.flatnonzero(run.urgency(r, which) > run.tol)
            if len(asking):
                i = int(asking[0])
                self.place += i + 1
                return Chosen(int(which[i]), float(r[i]))
            self.place += len(which)
            seen += len(which)
        # A new random order may have begun in between, and some constraints not been seen.
        return most_violated(run) if self.rng is not None else None


def asked(run: Projections) -> Chosen | None:
    """The constraint that an oracle names; if it asks for nothing, one named before."""
    oracle = run.constraints
    assert isinstance(oracle, ConstraintOracle)
    j = oracle.search(run.state.matrix())
    run.grow()
    if j is not None:
        r = oracle.state_values(run.state)
        if r[j] > run.tol:
            return Chosen(j, float(r[j]), *run.gap(r))
    return most_violated(run)


def solve_in_turn(
    run: Projections, choice: Choice, exact: bool, max_iter: int, advance: Advance
) -> str:
    """Project onto one chosen constraint after another; return the status."""
    compiled = run.terms() if choice is most_violated and not exact else None
    taken, most = 0, 1 if compiled is None else PASS
    while taken < max_iter:
        if run.certificate() is not None:
            return "infeasible"
        steps = min(most, max_iter - taken)
        done = run.step(choice, exact) if compiled is None else run.run_pass(compiled, steps)
        taken += done
        advance(done)
        if done < steps:
            return "solved"
    return "solved" if choice(run) is None else "max_iter"


def solve_together(run: Projections, max_iter: int, advance: Advance) -> str:
    """Ascend the dual in all variables; return the status."""
    status = "stalled"

    def enough(point: DualPoint) -> bool:
        nonlocal status
        run.take(point)
        violation, gap = run.gap(point.values)
        run.record(dual=run.dual, violation=violation, gap=gap)
        advance(1)
        if run.certificate() is not None:
            status = "infeasible"
        elif not (run.urgency(point.values) > run.tol).any():
            status = "solved"
        elif len(run.history["dual"]) >= max_iter:
            status = "max_iter"
        return status != "stalled"

    run.take(ascend(run.constraints, run.log_start, run.alpha, enough, run.cap))
    return status
