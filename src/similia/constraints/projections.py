"""Bregman projections onto one constraint after another, and what is known after each.

The problem is min Δ(W, W₀) subject to tr(W C_j) ≤ 0, tr W = 1, with the von Neumann divergence Δ.
Its dual (4.2) is max over α ≥ 0 of

    h(α) = -log tr exp(G(α)),    G(α) = log W₀ - Σ α_j C_j,    ∂h/∂α_j = r_j = tr(W C_j),

W = exp(G(α))/tr exp(G(α)). A projection onto constraint j is an ascent of h along α_j. Where
constraints may be violated, at a price of C Σ max(0, tr(W C_j)), the dual is the same with α ≤ C.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from similia.constraints import Constraints
from similia.constraints.ascent import DualPoint
from similia.contract import Array
from similia.linalg.gibbs import GibbsState
from similia.linalg.roots import decreasing_bracket, decreasing_root
from similia.linalg.spectral import hermitian_part
from similia.updates.definite_boost import (
    RECORDED,
    RankOneTerms,
    approximate_step,
    boost_pass,
    guaranteed_progress,
    promised_progress,
)

#: |tr(WC)| after an exact projection, as a share of the range of C's eigenvalues
EXACT = 1e-13
#: features up to which a step is not worth sharing out among processors
SMALL = 256
#: share of a constraint's size below which its smallest eigenvalue may be zero
ROUNDING = 1e-10
#: distance kept from eigenvalues where a step would be infinite
EDGE = 1e-9


class Certificate(NamedTuple):
    """Proof that no W meets all constraints: Σ weights_j C_j has a smallest eigenvalue above zero.

    For tr(W C_j) ≤ 0 for all j gives Σ weights_j tr(W C_j) ≤ 0, but that is at least `smallest`.

    Attributes
    ----------
    weights : array of shape (n_constraints,)
        Non-negative, with sum one.
    smallest : float
        The smallest eigenvalue, less what rounding may have added to it.
    """

    weights: Array
    smallest: float


class Chosen(NamedTuple):
    """A constraint with its value; violation and gap where all constraints were looked at."""

    j: int
    value: float
    violation: float
    gap: float


class Choice(Protocol):
    """Gives the next constraint to project onto, or None where nothing is left to do."""

    def next(self, run: "Projections") -> Chosen | None:
        """Look at the constraints at the present W."""


class Result(NamedTuple):
    """W with dual value, divergence from the start, slacks max(0, tr(W C_j)), violation and gap."""

    W: Array
    dual: float
    divergence: float
    slack: Array
    violation: float
    gap: float


class Projections:
    """A dual point α with its W, moved by projections, and the history of that.

    Parameters
    ----------
    constraints : Constraints
    log_start : array of shape (n_features, n_features)
        log W₀.
    alpha : array of shape (n_constraints,)
        Where to begin.
    tol : float
        Violation that counts as none.
    cap : float
        Most that an α_j may be: the price of violating a constraint, infinite where none may be.
    """

    def __init__(
        self,
        constraints: Constraints,
        log_start: Array,
        alpha: Array,
        tol: float,
        cap: float = np.inf,
    ) -> None:
        self.constraints, self.log_start, self.tol = constraints, log_start, tol
        self.alpha, self.cap = alpha, cap
        self.total = float(alpha.sum())
        self.lowest = float(np.linalg.eigvalsh(log_start)[0])
        self.state = GibbsState(log_start - constraints.combination(alpha))
        self.dual_bound = self.first_dual = self.dual
        self.history: dict[str, list[Any]] = {name: [] for name in RECORDED}
        self._set_bounds()

    def terms(self) -> RankOneTerms | None:
        """Give the constraints for `run_pass`, if they are of a kind and size that gains by it.

        With many features a step is better shared out among processors.
        """
        plain = len(self.log_start) < SMALL and not np.iscomplexobj(self.state.rows)
        return self.constraints.terms() if plain else None

    @property
    def dual(self) -> float:
        """h(α), which no Δ(W, W₀) of a W that meets all constraints can be below."""
        return -self.state.log_trace

    def _set_bounds(self) -> None:
        low, high = self.constraints.bounds()
        # Any interval that holds the eigenvalues will do. It must reach below zero: a constraint
        # that can only just be met would have an infinite step.
        self._low, self._high = np.minimum(low, -self.tol), high
        self._least = low
        self._impossible = np.flatnonzero(low > ROUNDING * np.maximum(high, -low))

    def grow(self) -> None:
        """Make room for constraints that an oracle has added."""
        missing = len(self.constraints) - len(self.alpha)
        if missing:
            self.alpha = np.append(self.alpha, np.zeros(missing))
            self._set_bounds()

    # -- steps ---------------------------------------------------------------------------------

    def step(self, choice: Choice, exact: bool) -> int:
        """Project onto the constraint that is chosen; give 0 if none is left to choose, else 1."""
        chosen = choice.next(self)
        if chosen is None:
            return 0
        self.project(chosen.j, chosen.value, exact)
        self.record(violation=chosen.violation, gap=chosen.gap)
        return 1

    def project(self, j: int, r: float, exact: bool) -> None:
        """Move along constraint j, whose value is r, but not to a negative α_j."""
        low, high = self._low[j], max(self._high[j], r * (1.0 + EDGE))
        step = float(approximate_step(r, low, high))
        term = self.constraints.rank_one(j)
        matrix = None if term is not None else self.constraints.matrix(j)
        if exact and (self._least[j] < 0.0 or self.cap < np.inf):
            step = self._exact_step(j, r, step, term, matrix)
        room = self.cap - float(self.alpha[j])
        capped = step >= room
        step = room if capped else max(step, -float(self.alpha[j]))
        if term is not None:
            self.state.add_rank_one(term.z, -step * term.sign)
            self.state.add_identity(step * term.shift)
        else:
            self.state.add_matrix(matrix, -step)
        self.alpha[j] = self.cap if capped else self.alpha[j] + step
        self.total += step
        if r > 0.0:
            longest = float(approximate_step(r, low, high))
            self.dual_bound += float(
                promised_progress(step, r, low, high)
                if capped and step < longest
                else guaranteed_progress(r, low, high)
            )
        self.record(constraint=j, value=r, step=step, dual=self.dual, dual_bound=self.dual_bound)

    def run_pass(self, terms: RankOneTerms, steps: int, nearest: bool) -> int:
        """Project up to so many times onto the most violated constraint; give how many times."""
        records = np.empty((steps, len(RECORDED)))
        dual, state = self.dual, self.state
        taken = int(
            boost_pass(
                state.values, state.rows, state.workspace(), self.alpha, terms,
                self._low, self._high, self.tol, nearest, self.cap, records,
            )
        )  # fmt: skip
        records = records[:taken]
        if taken:
            state.log_trace = -(dual + records[-1, 3])
            state.changed(taken)
        records[:, 3] += dual
        records[:, 4] += self.dual_bound
        for name, column in zip(RECORDED, records.T, strict=True):
            self.history[name] += (column.astype(int) if name == "constraint" else column).tolist()
        self.dual_bound = self.history["dual_bound"][-1] if taken else self.dual_bound
        self.total = float(self.alpha.sum())
        return taken

    def _exact_step(self, j: int, r: float, guess: float, term: Any, matrix: Any) -> float:
        """Give the step after which tr(WC_j) = 0, or α_j at its end if that comes first."""
        if term is not None:
            line, sign, shift = self.state.rank_one_line(term.z), term.sign, term.shift
        else:
            line, sign, shift = self.state.matrix_line(matrix), 1.0, 0.0
        direction = 1.0 if r > 0.0 else -1.0

        def remaining(length: float) -> tuple[float, float]:
            """Value of the constraint after a step, turned so that it falls with the length."""
            _, slope, curvature = line(-direction * length * sign)
            return direction * (sign * slope - shift), -curvature

        longest = float(self.cap - self.alpha[j] if r > 0.0 else self.alpha[j])
        low, high = decreasing_bracket(lambda x: remaining(x)[0], abs(guess), longest)
        if low == high:
            return direction * longest
        tol = EXACT * (self._high[j] - self._low[j])
        return direction * decreasing_root(remaining, low, high, abs(guess), tol)

    def record(self, **entries: Any) -> None:
        """Add to the history."""
        for name, entry in entries.items():
            self.history[name].append(entry)

    def move_to(self, point: DualPoint) -> None:
        """Stand at a point that was found otherwise, and note it in the history."""
        self.take(point)
        violation, gap = self.gap(point.values)
        self.record(dual=self.dual, violation=violation, gap=gap)

    def take(self, point: DualPoint) -> None:
        """Stand at a point that was found otherwise."""
        self.alpha, self.state = point.alpha, point.state
        self.total = float(self.alpha.sum())

    def history_arrays(self) -> dict[str, Array]:
        """Give the history, an array for each of what it records."""
        arrays = {name: np.array(entries) for name, entries in self.history.items()}
        recorded = {name: array for name, array in arrays.items() if len(array)}
        return recorded or arrays

    # -- what is known -------------------------------------------------------------------------

    def gap(self, r: Array) -> tuple[float, float]:
        """Give violation v = max(0, max r_j) and gap, from all values r.

        The gap is Σ α_j (v - r_j), or Σ (C max(0, r_j) - α_j r_j) where violations have a price.
        """
        violation = max(0.0, float(r.max())) if len(r) else 0.0
        used = np.flatnonzero(self.alpha)
        if self.cap == np.inf:
            return violation, float(self.alpha[used] @ (violation - r[used]))
        # Both sums are of terms that are not negative, so that nothing is lost to rounding.
        met_too_well = float(self.alpha[used] @ np.maximum(-r[used], 0.0))
        return violation, float((self.cap - self.alpha) @ np.maximum(r, 0.0)) + met_too_well

    def urgency(self, r: Array, nearest: bool, which: Any = slice(None)) -> Array:
        """Give how much each constraint asks for a step; see `updates.definite_boost.asks_for`."""
        alpha = self.alpha[which]
        asked = r if self.cap == np.inf else np.where(alpha < self.cap, r, np.minimum(r, 0.0))
        return np.where((alpha > 0.0) & (r < 0.0), -r, asked) if nearest else asked

    def settled(self, r: Array, nearest: bool) -> bool:
        """Say whether no constraint, given all values, asks for a step."""
        return not (self.urgency(r, nearest) > self.tol).any()

    def result(self) -> "Result":
        """Give what belongs to α, computed afresh: steps leave rounding behind."""
        state = GibbsState(self.log_start - self.constraints.combination(self.alpha))
        W = hermitian_part(state.matrix())
        r = self.constraints.values(W)
        violation, gap = self.gap(r)
        dual = -state.log_trace
        divergence = dual - float(self.alpha @ r)
        return Result(W, dual, divergence, np.maximum(r, 0.0), violation, gap)

    def iteration_bound(self) -> float:
        """Give a bound on the steps at constraints violated by `tol` (Corollary 4.2).

        Each raises h by -log ρ(tol) at least, unless it ends at the cap. h stays below
        max Δ(W, W₀) = -log λmin(W₀) as long as some W meets all constraints; and, where violations
        have a price, below what W₀ itself would have to pay.
        """
        can = self._high > self.tol
        if not can.any():
            return 0.0
        progress = guaranteed_progress(self.tol, self._low[can], self._high[can])
        highest = -self.lowest
        if self.cap < np.inf:
            r = self.constraints.state_values(GibbsState(self.log_start))
            highest = self.cap * float(np.maximum(r, 0.0).sum())
        return float((highest - self.first_dual) / progress.min())

    def certificate(self) -> Certificate | None:
        """Give a proof that no W meets all constraints, where one of them or α/Σα is one.

        There is nothing to prove where constraints may be violated.
        """
        if self.cap < np.inf:
            return None
        if len(self._impossible):
            weights = np.zeros(len(self.alpha))
            weights[self._impossible[0]] = 1.0
            return verified(self.constraints, weights)
        # Σ α_j C_j = log W₀ - G, so its smallest eigenvalue is at least this.
        if self.total <= 0.0 or self.lowest - self.state.largest <= 0.0:
            return None
        return verified(self.constraints, self.alpha / self.alpha.sum())


def verified(constraints: Constraints, weights: Array) -> Certificate | None:
    """Give the certificate with these weights if it is one, looking at nothing else."""
    values = np.linalg.eigvalsh(constraints.combination(weights))
    low, high = constraints.bounds()
    size = float(weights @ np.maximum(np.abs(low), np.abs(high)))
    rounding = len(values) * np.finfo(np.float64).eps * size
    smallest = float(values[0]) - rounding
    return Certificate(weights, smallest) if smallest > 0.0 else None
