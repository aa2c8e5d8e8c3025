"""Memory: what was said about a query, for that query and its neighbours."""

from dataclasses import dataclass
from typing import Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.linalg.near_rows import NearRows
from similia.similarity.weights import trust
from similia.updates.blend import remember_lists

#: prior variances of what is remembered, in typical gaps: candidates side by side
SCALES = np.array([0.25, 1.0, 4.0])
#: memory ranks once doing without it is so many times less likely: wrongly one time in so many
DOUBT = 100.0
#: neighbours are queries of at least this cosine, and closer than all but one in so many pairs
NEAR, RARE = 0.5, 1000
#: queries that are looked up one by one
FEW = 32
#: remembered queries from which on neighbours are found by sketches
MANY = 4096
#: kinds of evidence
OWN, NEIGHBORS = 0, 1
#: decisions kept of one query, and passes over them
KEPT, SWEEPS = 20, 5
#: margin with which a decision is obeyed, in typical gaps of the base
MARGIN = 0.1


def unit_rows(X: Array) -> Array:
    """X with rows of length 1; rows of zeros stay."""
    found: Array = X / np.maximum(np.linalg.norm(X, axis=-1, keepdims=True), 1e-30)
    return found


@dataclass(eq=False)
class Memory:
    """An item-space vector m_u for each remembered query u, and people's decisions about it.

    m(q) = Σ_u κ(q, u) m_u is added to the query's own vector, so an index of items stays as it is.
    Decisions of trusted people are obeyed on their own query whatever else was learnt: as ranking
    needs a query's vector, the smallest change to it that obeys them all, the newest last.
    """

    keys: NDArray[np.uint64]
    #: remembered queries, of length 1
    queries: Array
    #: m_u by prior scale
    vectors: Array
    variances: NDArray[np.float64]
    met: NDArray[np.int64]
    #: when each was judged last, for eviction
    times: NDArray[np.int64]
    #: log-likelihood ratio of each scale against forgetting: of a query's own memory on its
    #: repeats, and of its neighbours' memory on its first search
    evidence: NDArray[np.float64]
    #: cosine c beyond which queries are neighbours, with κ = ((cos - c)/(1 - c))²
    near: float
    #: key, scores of all views and vector of (better - worse) for each decision, oldest first
    decided: NDArray[np.uint64]
    decided_features: NDArray[np.float64]
    decided_vectors: Array

    @classmethod
    def start(cls, queries: Array, n: int, n_views: int) -> Self:
        """An empty memory; `queries` are a sample, which says how close two usually are."""
        K, dtype, m = len(SCALES), queries.dtype, queries.shape[1]
        unit = unit_rows(queries)
        cosines = (unit @ unit.T)[np.triu_indices(len(unit), 1)]
        close = float(np.quantile(cosines, 1 - 1 / RARE)) if len(cosines) else NEAR
        return cls(
            np.zeros(0, np.uint64),
            np.zeros((0, m), dtype),
            np.zeros((K, 0, n), dtype),
            np.zeros((K, 0)),
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
            np.zeros((2, K)),
            min(max(NEAR, close), 0.999),
            np.zeros(0, np.uint64),
            np.zeros((0, n_views)),
            np.zeros((0, n), dtype),
        )

    @property
    def trust(self) -> float:
        """Probability that remembering a query ranks it better than forgetting."""
        return trust(self._evidence(OWN), 1 / (1 + DOUBT))

    def _evidence(self, kind: int) -> float:
        return float(np.logaddexp.reduce(self.evidence[kind]) - np.log(len(SCALES)))

    # -- learning ------------------------------------------------------------------------------

    def learn(
        self,
        starts: Indices,
        gains: Array,
        weights: Array,
        keys: NDArray[np.uint64],
        queries: Array,
        rows: Array,
        offsets: Array,
        others: Array,
        budget: int,
        times: Indices,
        fading: float,
    ) -> None:
        """Learn lists of items with these `rows`, given the total scores of the other parts.

        What is known of a query fades with the lists since its last one.
        """
        slots, fresh, ages = self._slots(keys, budget, times)
        units = unit_rows(queries)
        kernel = self._kernel(keys, queries, self.keys, self.queries)
        of_block = self._kernel(keys, queries, keys, units)
        for t in np.flatnonzero(fresh):  # until then the slot is empty, or another query's
            self.keys[slots[t]], self.queries[slots[t]] = keys[t], units[t]
            kernel[t:, slots[t]] = of_block[t:, t]
        if self in _sketches:
            _sketches[self].change(slots[fresh])
        remember_lists(
            (starts, gains, weights, slots, fresh, fading**ages, kernel),
            rows,
            offsets,
            others,
            (self.vectors, self.variances, self.met, self.evidence),
            SCALES,
        )

    def _slots(
        self, keys: NDArray[np.uint64], budget: int, times: Indices
    ) -> tuple[Indices, NDArray[np.bool_], Indices]:
        """Where each query is remembered, if in place of another, and since when it was not met."""
        known = {key: slot for slot, key in enumerate(self.keys.tolist())}
        new = len(set(keys.tolist()) - known.keys())
        self.reserve(max(len(known), min(len(known) + new, budget)), len(self.decided))
        slots, fresh = np.empty(len(keys), np.intp), np.zeros(len(keys), bool)
        owners, ages = self.keys.tolist(), np.zeros(len(keys), np.intp)
        for t, key in enumerate(keys.tolist()):
            if key not in known:
                slot = len(known)
                if slot == len(self.keys):
                    slot = int(np.argmin(self.times))
                    del known[owners[slot]]
                known[key], owners[slot], fresh[t] = slot, key, True
            slots[t] = slot = known[key]
            ages[t] = times[t] - self.times[slot]
            self.times[slot] = times[t]
        return slots, fresh, ages

    def reserve(self, n_queries: int, n_decisions: int) -> None:
        """Make room for so many queries and decisions in all."""
        n = n_queries - len(self.keys), n_decisions - len(self.decided)
        for name, value in list(vars(self).items()):
            added = n[name.startswith("decided")]
            if added and name not in ("evidence", "near"):
                room = [(0, 0)] * value.ndim
                room[name in ("vectors", "variances")] = (0, added)
                setattr(self, name, np.pad(value, room))

    def decide(
        self, keys: NDArray[np.uint64], features: Array, vectors: Array, budget: int
    ) -> None:
        """Take down decisions, in order; of each query only the last `KEPT` stay."""
        self.decided = np.concatenate([self.decided, keys])
        order = np.argsort(self.decided[::-1], kind="stable")  # by key, the newest first
        ordered = self.decided[::-1][order]
        first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        age = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
        kept = np.sort(len(order) - 1 - order[age < KEPT])[-budget:]
        self.decided = self.decided[kept]
        self.decided_features = np.vstack([self.decided_features, features])[kept]
        self.decided_vectors = np.vstack([self.decided_vectors, vectors])[kept]

    # -- ranking -------------------------------------------------------------------------------

    def _shares(self, kind: int) -> Array:
        """Shares of the scales when ranking: all zero until memory has proved itself."""
        evidence = self.evidence[kind]
        shares: Array = np.exp(evidence - np.logaddexp.reduce(evidence))
        return shares * (self._evidence(kind) >= np.log(DOUBT))

    def _means(self, kind: int, slots: Indices) -> Array:
        """m_u of some remembered queries to rank with: the mean over the scales."""
        shares = self._shares(kind).astype(self.vectors.dtype)
        found: Array = np.tensordot(shares, self.vectors[:, slots], 1)
        return found

    def _places(self, keys: NDArray[np.uint64]) -> Indices:
        """Where queries are remembered, or -1."""
        if len(keys) < FEW:
            found = [np.flatnonzero(self.keys == key) for key in keys]
            return np.array([places[0] if len(places) else -1 for places in found], np.intp)
        known = {key: slot for slot, key in enumerate(self.keys.tolist())}
        return np.array([known.get(key, -1) for key in keys.tolist()], np.intp)

    def decided_rows(self, keys: NDArray[np.uint64]) -> Indices:
        """Which of these queries someone has decided about."""
        if len(keys) < FEW:
            return np.array([t for t, key in enumerate(keys) if (self.decided == key).any()], int)
        return np.flatnonzero(np.isin(keys, self.decided))

    def _kernel(
        self,
        keys: NDArray[np.uint64],
        queries: Array,
        other_keys: NDArray[np.uint64],
        units: Array,
    ) -> Array:
        """κ of queries and others of length 1: how close they are, and 0 for a query itself."""
        cosines = unit_rows(queries) @ units.T
        kernel = self._closeness(cosines)
        kernel[keys[:, None] == other_keys] = 0.0
        return kernel

    def recalled(self, keys: NDArray[np.uint64], queries: Array) -> Array:
        """m(q) for each query: its own memory, or else, by κ, that of its neighbours."""
        found = np.zeros((len(queries), self.vectors.shape[-1]), self.vectors.dtype)
        slots = self._places(keys)
        own, new = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
        if len(own) and self._shares(OWN).any():
            found[own] = self._means(OWN, slots[own])
        if len(new) and self._shares(NEIGHBORS).any():
            for t in new:
                near, kernel = self._neighbors(queries[t])
                found[t] = kernel @ self._means(NEIGHBORS, near)
        return found

    def _neighbors(self, query: Array) -> tuple[Indices, Array]:
        """Where the neighbours of a query that is not remembered are, and κ of each."""
        unit, limit = unit_rows(query), self.near
        if len(self.keys) < MANY:
            cosines = self.queries @ unit
            near = np.flatnonzero(cosines > limit)
            cosines = cosines[near]
        else:
            if self not in _sketches:
                _sketches[self] = NearRows(self.queries, limit)
            near, cosines = _sketches[self].find(self.queries, unit, limit)
        return near, self._closeness(cosines)

    def _closeness(self, cosines: Array) -> Array:
        kernel: Array = (np.maximum(cosines - self.near, 0) / (1 - self.near)) ** 2
        return kernel

    def variances_of(self, keys: NDArray[np.uint64]) -> Array:
        """Variance of what is remembered in any direction, as far as memory is trusted."""
        shares = np.exp(self.evidence[OWN] - np.logaddexp.reduce(self.evidence[OWN])) * self.trust
        known = {key: slot for slot, key in enumerate(self.keys.tolist())}
        prior = float(shares @ SCALES)
        found = [
            float(shares @ self.variances[:, known[key]]) if key in known else prior
            for key in keys.tolist()
        ]
        return np.array(found)

    def behind(self, key: np.uint64, query: Array, item: Array) -> list[tuple[int, float]]:
        """Last judgement of each remembered query that moves this item, and by how much."""
        slots, kind = np.flatnonzero(self.keys == key), OWN
        kernel = np.ones(len(slots))
        if not len(slots):
            kind, (slots, kernel) = NEIGHBORS, self._neighbors(query)
        moved = kernel * (self._means(kind, slots) @ item)
        order = [i for i in np.argsort(-np.abs(moved)) if moved[i]]
        return [(int(self.times[slots[i]]), float(moved[i])) for i in order]

    def obey(self, key: int, weights: Array, vector: Array) -> Array:
        """Smallest change to a query's vector after which its decisions hold, the newest last."""
        own = self.decided == np.uint64(key)
        features, vectors = self.decided_features[own], self.decided_vectors[own]
        lengths = np.vecdot(vectors, vectors)
        gaps = features @ weights
        for _ in range(SWEEPS):
            moved = False
            for x, gap, length in zip(vectors, gaps, lengths, strict=True):
                short = MARGIN - gap - x @ vector
                if short > 0 and length > 1e-12:
                    vector, moved = vector + short * 1.0001 / length * x, True
            if not moved:
                break
        return vector


#: sketches of the queries that a memory holds, made when they are first needed
_sketches: WeakKeyDictionary[Memory, NearRows] = WeakKeyDictionary()
