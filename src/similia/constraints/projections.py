"""Bregman projections onto single constraints, and what is known after each.

A projection onto constraint j raises the dual h (`constraints.dual`) along α_j. If constraints may
be violated, at a price of C Σ max(0, tr(W C_j)), the dual is the same under α ≤ C.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from similia.constraints.base import ALL, Constraints, RankOne, Selection
from similia.constraints.dual import DualPoint
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

#: |tr(WC)| after an exact projection, relative to the range of C's eigenvalues
EXACT = 1e-13
#: features below which a step is too short to share among processors
SMALL = 256
#: smallest eigenvalue that may be zero but for rounding, relative to the constraint's size
ROUNDING = 1e-10
#: distance kept from eigenvalues at which a step would be infinite
EDGE = 1e-9


class Certificate(NamedTuple):
    """Proof that no W meets all constraints: Σ weights_j C_j is positive definite.

    If tr(W C_j) ≤ 0 for all j, then Σ weights_j tr(W C_j) ≤ 0, yet it is at least `smallest`.

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
    """A constraint and its value; violation and gap are NaN unless all constraints were seen."""

    j: int
    value: float
    violation: float = np.nan
    gap: float = np.nan


#: chooses the next constraint at the current W, or None if nothing is left to do
Choice: TypeAlias = Callable[["Projections"], Chosen | None]


class Projections:
    """A dual point α with its W, moved by projections, and its history.

    `tol` is the violation that counts as none; `cap` bounds each α_j: the price of a violation,
    infinite if none is allowed. With `nearest`, constraints that were pushed too far are released.
    """

    def __init__(
        self,
        constraints: Constraints,
        log_start: Array,
        alpha: Array,
        tol: float,
        cap: float = np.inf,
        nearest: bool = True,
    ) -> None:
        self.constraints, self.log_start, self.alpha = constraints, log_start, alpha
        self.tol, self.cap, self.nearest = tol, cap, nearest
        self.total = float(alpha.sum())
        self.lowest = float(np.linalg.eigvalsh(log_start)[0])
        self.state = GibbsState(log_start - constraints.combination(alpha))
        self.dual_bound = self.first_dual = self.dual
        self.history: dict[str, list[Any]] = {name: [] for name in RECORDED}
        self._set_bounds()

    @property
    def dual(self) -> float:
        """h(α), a lower bound of Δ(W, W₀) over all W that meet the constraints."""
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
        """Project onto the chosen constraint; return 1, or 0 if none is left."""
        chosen = choice(self)
        if chosen is None:
            return 0
        self.project(chosen.j, chosen.value, exact)
        self.record(violation=chosen.violation, gap=chosen.gap)
        return 1

    def project(self, j: int, r: float, exact: bool) -> None:
        """Move along constraint j, whose value is r, keeping 0 ≤ α_j ≤ cap."""
        low, high = self._low[j], max(self._high[j], r * (1.0 + EDGE))
        longest = step = float(approximate_step(r, low, high))
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
        if r > 0.0:
            self.dual_bound += float(
                promised_progress(step, r, low, high)
                if capped and step < longest
                else guaranteed_progress(r, low, high)
            )
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
        tol = EXACT * (self._high[j] - self._low[j])
        return way * decreasing_root(remaining, low, high, abs(guess), tol)

    def terms(self) -> RankOneTerms | None:
        """The constraints for `run_pass`, if their kind and size gain by it.

        With many features a step is better shared among processors.
        """
        plain = len(self.log_start) < SMALL and not np.iscomplexobj(self.state.rows)
        return self.constraints.terms() if plain else None

    def run_pass(self, terms: RankOneTerms, steps: int) -> int:
        """Run at most `steps` projections onto the most violated constraint; return the count."""
        records = np.empty((steps, len(RECORDED)))
        dual, state = self.dual, self.state
        taken = boost_pass(
            state.values, state.rows, state.workspace(), self.alpha, terms,
            self._low, self._high, self.tol, self.nearest, self.cap, records,
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
        """Violation v = max(0, max r_j) and gap, from all values r.

        The gap is Σ α_j (v - r_j), or Σ (C max(0, r_j) - α_j r_j) if violations have a price.
        """
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
        history = {name: np.array(entries) for name, entries in (recorded or self.history).items()}
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
            "history_": history,
        }

    def iteration_bound(self) -> float:
        """Upper bound of the number of steps at constraints violated by `tol` (Corollary 4.2).

        Each raises h by at least -log ρ(tol), unless it ends at the cap. As long as some W meets
        all constraints, h stays below max Δ(W, W₀) = -log λmin(W₀); if violations have a price, it
        stays below what W₀ itself would pay.
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
        """Proof that no W meets all constraints, if one constraint or α/Σα is such a proof.

        There is nothing to prove if constraints may be violated.
        """
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
