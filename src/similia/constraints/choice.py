"""Which constraint to project onto next."""

from typing import Any

import numpy as np

from similia.constraints import ConstraintOracle
from similia.constraints.projections import Chosen, Projections
from similia.updates.definite_boost import asks_for

#: constraints looked at together by those who go through them in order
AHEAD = 64


class MostViolated:
    """The constraint that asks most, after screening all of them."""

    def __init__(self, nearest: bool) -> None:
        self.nearest = nearest

    def next(self, run: Projections) -> Chosen | None:
        """Look at all constraints."""
        r = run.constraints.state_values(run.state)
        if not len(r):
            return None
        used = np.flatnonzero(run.alpha)
        violated = r
        if run.cap < np.inf:
            violated = r.copy()
            violated[used[run.alpha[used] >= run.cap]] = -np.inf
        j = int(violated.argmax())
        if self.nearest and len(used):
            # The same as the largest urgency of all, without a pass over those that never pushed.
            k = int(used[r[used].argmin()])
            j = k if -r[k] > violated[j] else j
        if asks_for(r[j], run.alpha[j], run.cap, self.nearest) <= run.tol:
            return None
        return Chosen(j, float(r[j]), *run.gap(r))


class InTurn:
    """The next constraint that asks for a step, in the given order or in random ones."""

    def __init__(self, nearest: bool, rng: np.random.Generator | None = None) -> None:
        self.nearest, self.rng = nearest, rng
        self.order: Any = np.zeros(0, dtype=np.intp)
        self.place = 0

    def next(self, run: Projections) -> Chosen | None:
        """Go on until one asks, or all have been seen at the present W."""
        seen = 0
        while seen < len(run.alpha):
            if self.place >= len(self.order):
                self._start_again(len(run.alpha))
            which = self.order[self.place : self.place + AHEAD]
            r = run.constraints.state_values(run.state, which)
            asking = np.flatnonzero(run.urgency(r, self.nearest, which) > run.tol)
            if len(asking):
                i = int(asking[0])
                self.place += i + 1
                return Chosen(int(which[i]), float(r[i]), np.nan, np.nan)
            self.place += len(which)
            seen += len(which)
        # Random orders may have begun anew in between, so that some were not seen.
        return MostViolated(self.nearest).next(run) if self.rng is not None else None

    def _start_again(self, n: int) -> None:
        self.order = np.arange(n) if self.rng is None else self.rng.permutation(n)
        self.place = 0


class Asked:
    """The constraint that an oracle names; if that asks for nothing, one that it named before."""

    def __init__(self, nearest: bool) -> None:
        self.known = MostViolated(nearest)

    def next(self, run: Projections) -> Chosen | None:
        """Ask the oracle, then look at those it has named before."""
        oracle = run.constraints
        assert isinstance(oracle, ConstraintOracle)
        j = oracle.search(run.state.matrix())
        run.grow()
        if j is not None:
            r = oracle.state_values(run.state)
            if r[j] > run.tol:
                return Chosen(j, float(r[j]), *run.gap(r))
        return self.known.next(run)
