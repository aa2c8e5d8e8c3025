"""Bregman projections onto constraints: which comes next, what is known after each, when to stop.

A projection onto constraint j raises the dual h (`constraints.dual`) along α_j. If constraints may
be violated, at a price of C Σ max(0, tr(W C_j)), the dual is the same under α ≤ C.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from similia.constraints.base import ALL, Constraints, RankOne, Selection
from similia.constraints.dual import DualPoint, ascend
from similia.constraints.oracle import ConstraintOracle
from similia.contract import Array, Indices
from similia.linalg.gibbs import GibbsState
from similia.linalg.roots import decreasing_bracket, decreasing_root
from similia.linalg.spectral import hermitian_part
from similia.progress import Advance
from similia.updates import definite_boost as compiled

#: |tr(WC)| after an exact projection, relative to the range of C's eigenvalues
EXACT_TOLERANCE = 1e-13
#: features below which a step is too short to share among processors
PARALLEL_FEATURES = 256
#: smallest eigenvalue that may be zero but for rounding, relative to the constraint's size
EIGENVALUE_ROUNDING = 1e-10
#: distance kept from eigenvalues at which a step would be infinite
EDGE_DISTANCE = 1e-9
#: steps that compiled code takes between two attempts to prove infeasibility
PASS_STEPS = 32
#: constraints screened together when they are visited in order
SCREENED_TOGETHER = 64


class Certificate(NamedTuple):
    """Proof that no W meets all constraints: Σ weights_j C_j is positive definite.

    If tr(W C_j) ≤ 0 for all j, then Σ weights_j tr(W C_j) ≤ 0, yet it is at least `smallest`.

    Attributes
    ----------
    weights : array of shape (n_constraints,), non-negative with sum one
    smallest : float, the smallest eigenvalue less what rounding may have added to it
    """

    weights: Array
    smallest: float


#: a constraint, its value, and violation and gap, NaN unless all constraints were seen
Chosen: TypeAlias = tuple[int, float, float, float]
#: chooses the next constraint at the current W, or None if nothing is left to do
Choice: TypeAlias = Callable[["Projections"], Chosen | None]


@dataclass(eq=False)
class Projections:
    """A dual point α with its W, moved by projections, and its history."""

    constraints: Constraints
    log_start: Array
    alpha: Array
    tol: float  # the violation that counts as none
    cap: float = np.inf  # of each α_j: the price of a violation, infinite if none is allowed
    nearest: bool = True  # release constraints that were pushed too far

    def __post_init__(self) -> None:
        self.total = float(self.alpha.sum())
        self.lowest = float(np.linalg.eigvalsh(self.log_start)[0])
        self.state = GibbsState(self.log_start - self.constraints.combination(self.alpha))
        self.dual_bound = self.first_dual = self.dual
        self.history: dict[str, list[Any]] = {name: [] for name in compiled.RECORDED}
        self._set_bounds()

    @property
    def dual(self) -> float:
        """h(α), a lower bound of Δ(W, W₀) over all W that meet the constraints."""
        return -self.state.log_trace

    def _set_bounds(self) -> None:
        low, high = self.constraints.bounds()
        # Any interval that holds the eigenvalues will do. It must reach below zero: a constraint
        # that can only just be met would have an infinite step.
        self._low, self._high, self._least = np.minimum(low, -self.tol), high, low
        self._impossible = np.flatnonzero(low > EIGENVALUE_ROUNDING * np.maximum(high, -low))

    def grow(self) -> None:
        """Make room for constraints that an oracle has added."""
        missing = len(self.constraints) - len(self.alpha)
        if missing:
            self.alpha = np.append(self.alpha, np.zeros(missing))
            self._set_bounds()

    # -- steps ---------------------------------------------------------------------------------

    def step(self, choice: Choice, exact: bool) -> int:
        """Project onto the chosen constraint; return 1, or 0 if none is left."""
        chosen = choice(self)
        if chosen is not None:
            self._project(*chosen[:2], exact)
            self.record(violation=chosen[2], gap=chosen[3])
        return int(chosen is not None)

    def _project(self, j: int, r: float, exact: bool) -> None:
        """Move along constraint j, whose value is r, keeping 0 ≤ α_j ≤ cap."""
        low, high = self._low[j], max(self._high[j], r * (1.0 + EDGE_DISTANCE))
        longest = step = float(compiled.approximate_step(r, low, high))
        term = self.constraints.rank_one(j)
        direction = self.constraints.matrix(j) if term is None else term
        if exact and (self._least[j] < 0.0 or self.cap < np.inf):
            step = self._exact_step(j, r, step, direction)
        room = self.cap - float(self.alpha[j])
        capped = step >= room
        step = room if capped else max(step, -float(self.alpha[j]))
        if isinstance(direction, RankOne):
            self.state.add_rank_one(direction.z, -step * direction.sign)
            self.state.add_identity(step * direction.shift)
        else:
            self.state.add_matrix(direction, -step)
        self.alpha[j] = self.cap if capped else self.alpha[j] + step
        self.total += step
        if r > 0.0 and capped and step < longest:
            self.dual_bound += float(compiled.promised_progress(step, r, low, high))
        elif r > 0.0:
            self.dual_bound += float(compiled.guaranteed_progress(r, low, high))
        self.record(constraint=j, value=r, step=step, dual=self.dual, dual_bound=self.dual_bound)

    def _exact_step(self, j: int, r: float, guess: float, direction: RankOne | Array) -> float:
        """Step after which tr(WC_j) = 0, or α_j is at an end if that comes first."""
        if isinstance(direction, RankOne):
            line, sign, shift = self.state.rank_one_line(direction.z), *direction[1:]
        else:
            line, sign, shift = self.state.matrix_line(direction), 1.0, 0.0
        way = 1.0 if r > 0.0 else -1.0

        def remaining(length: float) -> tuple[float, float]:
            """Value of the constraint after a step, signed so that it falls with the length."""
            _, slope, curvature = line(-way * length * sign)
            return way * (sign * slope - shift), -curvature

        longest = float(self.cap - self.alpha[j] if r > 0.0 else self.alpha[j])
        low, high = decreasing_bracket(lambda x: remaining(x)[0], abs(guess), longest)
        if low == high:
            return way * longest
        tol = EXACT_TOLERANCE * (self._high[j] - self._low[j])
        return way * decreasing_root(remaining, low, high, abs(guess), tol)

    def terms(self) -> compiled.RankOneTerms | None:
        """The constraints for `run_pass`; None if it cannot take them or processors do better."""
        plain = len(self.log_start) < PARALLEL_FEATURES and not np.iscomplexobj(self.state.rows)
        return self.constraints.terms() if plain else None

    def run_pass(self, terms: compiled.RankOneTerms, steps: int) -> int:
        """Run at most `steps` projections onto the most violated constraint; return the count."""
        records = np.empty((steps, len(compiled.RECORDED)))
        dual, state = self.dual, self.state
        taken = compiled.boost_pass(
            state.values, state.rows, state.workspace(), self.alpha, terms,
            self._low, self._high, self.tol, self.nearest, self.cap, records,
        )  # fmt: skip
        records = records[:taken]
        if taken:
            state.log_trace = -(dual + records[-1, 3])
            state.changed(taken)
        records[:, 3] += dual
        records[:, 4] += self.dual_bound
        for name, column in zip(compiled.RECORDED, records.T, strict=True):
            self.history[name] += (column.astype(int) if name == "constraint" else column).tolist()
        self.dual_bound = self.history["dual_bound"][-1] if taken else self.dual_bound
        self.total = float(self.alpha.sum())
        return int(taken)

    def take(self, point: DualPoint) -> None:
        """Move to a point that was found otherwise."""
        self.alpha, self.state = point.alpha, point.state
        self.total = float(self.alpha.sum())

    def record(self, **entries: float) -> None:
        """Add to the history."""
        for name, entry in entries.items():
            self.history[name].append(entry)

    # -- knowledge -----------------------------------------------------------------------------

    def gap(self, r: Array) -> tuple[float, float]:
        """Violation v and gap: Σ α_j (v - r_j) or, with a price, Σ (C max(0, r_j) - α_j r_j)."""
        violation = max(0.0, float(r.max())) if len(r) else 0.0
        used = np.flatnonzero(self.alpha)
        if self.cap == np.inf:
            return violation, float(self.alpha[used] @ (violation - r[used]))
        # Two sums without negative terms lose nothing to rounding.
        met_too_well = float(self.alpha[used] @ np.maximum(-r[used], 0.0))
        return violation, float((self.cap - self.alpha) @ np.maximum(r, 0.0)) + met_too_well

    def urgency(self, r: Array, which: Selection = ALL) -> Array:
        """How much each constraint asks for a step; see `updates.definite_boost.asks_for`."""
        alpha = self.alpha[which]
        asked = r if self.cap == np.inf else np.where(alpha < self.cap, r, np.minimum(r, 0.0))
        return np.where((alpha > 0.0) & (r < 0.0), -r, asked) if self.nearest else asked

    def result(self) -> dict[str, Any]:
        """Attributes of the solution at α, recomputed: steps leave rounding behind."""
        state = GibbsState(self.log_start - self.constraints.combination(self.alpha))
        W = hermitian_part(state.matrix())
        r = self.constraints.values(W)
        violation, gap = self.gap(r)
        slack, divergence = np.maximum(r, 0.0), -state.log_trace - float(self.alpha @ r)
        paid = self.cap * float(slack.sum()) if self.cap < np.inf else 0.0
        # Names without entries only if there are no others.
        recorded = {name: entries for name, entries in self.history.items() if entries}
        return {
            "W_": W,
            "alpha_": self.alpha,
            "slack_": slack,
            "violation_": violation,
            "dual_": -state.log_trace,
            "divergence_": divergence,
            "objective_": divergence + paid,
            "gap_": gap,
            "n_iter_": len(self.history["dual"]),
            "iteration_bound_": self.iteration_bound(),
            "history_": {name: np.array(each) for name, each in (recorded or self.history).items()},
        }

    def iteration_bound(self) -> float:
        """Upper bound of the number of steps at constraints violated by `tol` (Corollary 4.2).

        Each raises h by at least -log ρ(tol), unless it ends at the cap. If some W meets all
        constraints, h is below max Δ(W, W₀) = -log λmin(W₀); with a price, below what W₀ pays.
        """
        can = self._high > self.tol
        if not can.any():
            return 0.0
        progress = compiled.guaranteed_progress(self.tol, self._low[can], self._high[can])
        highest = -self.lowest
        if self.cap < np.inf:
            r = self.constraints.state_values(GibbsState(self.log_start))
            highest = self.cap * float(np.maximum(r, 0.0).sum())
        with np.errstate(divide="ignore"):  # too little to be seen in double precision: no bound
            return float((highest - self.first_dual) / progress.min())

    def certificate(self) -> Certificate | None:
        """Proof, by one constraint or by α/Σα, that no W meets all; none is sought with a price."""
        if self.cap < np.inf:
            return None
        if len(self._impossible):
            weights = np.zeros(len(self.alpha))
            weights[self._impossible[0]] = 1.0
        # Σ α_j C_j = log W₀ - G, so its smallest eigenvalue is at least this.
        elif self.total > 0.0 and self.lowest - self.state.largest > 0.0:
            weights = self.alpha / self.alpha.sum()
        else:
            return None
        values = np.linalg.eigvalsh(self.constraints.combination(weights))
        low, high = self.constraints.bounds()
        size = float(weights @ np.maximum(np.abs(low), np.abs(high)))
        smallest = float(values[0]) - len(values) * np.finfo(np.float64).eps * size
        return Certificate(weights, smallest) if smallest > 0.0 else None


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
    if compiled.asks_for(r[j], run.alpha[j], run.cap, run.nearest) <= run.tol:
        return None
    return j, float(r[j]), *run.gap(r)


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
            which = self.order[self.place : self.place + SCREENED_TOGETHER]
            r = run.constraints.state_values(run.state, which)
            asking = np.flatnonzero(run.urgency(r, which) > run.tol)
            if len(asking):
                i = int(asking[0])
                self.place += i + 1
                return int(which[i]), float(r[i]), np.nan, np.nan
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
            return j, float(r[j]), *run.gap(r)
    return most_violated(run)


def solve_in_turn(
    run: Projections, choice: Choice, exact: bool, max_iter: int, advance: Advance
) -> str:
    """Project onto one chosen constraint after another; return the status."""
    terms = run.terms() if choice is most_violated and not exact else None
    taken, most = 0, 1 if terms is None else PASS_STEPS
    while taken < max_iter:
        if run.certificate() is not None:
            return "infeasible"
        steps = min(most, max_iter - taken)
        done = run.step(choice, exact) if terms is None else run.run_pass(terms, steps)
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
