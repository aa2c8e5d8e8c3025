"""Memory: what was said about a query, for that query and its neighbours."""

from dataclasses import dataclass
from typing import Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.linalg.growing import Rooms
from similia.linalg.near_rows import NearRows
from similia.similarity.weights import raised, trust
from similia.updates.blend_memory import remember_lists

#: prior variances of what is remembered, in typical gaps: candidates side by side
SCALES = np.array([0.25, 1.0, 4.0, 16.0])
#: belief in what is remembered of a query, and of its neighbours, before any evidence
BELIEF = 0.1
#: the same of a query that a trusted person has decided about
DECIDED_BELIEF = 0.5
#: neighbours are queries of at least this cosine, and closer than all but one in so many pairs
NEAR, RARE = 0.5, 1000
#: queries that are looked up one by one
FEW = 32
#: remembered queries from which on neighbours are found by sketches
MANY = 4096
#: kinds of evidence, and a query's own memory where someone has decided about it
OWN, NEIGHBORS, DECIDED = 0, 1, 2
#: lists and decisions kept of one query, and passes over these; older ones are only remembered
LISTS, KEPT, SWEEPS = 10, 100, 5
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
    #: sum of the weights of its lists: of ties it is small
    weight: NDArray[np.float64]
    #: when each was judged last, for eviction
    times: NDArray[np.int64]
    #: log-likelihood ratio of each scale against forgetting: of a query's own memory on its
    #: repeats, and of its neighbours' memory on its first search
    evidence: NDArray[np.float64]
    #: the same of the scales together: each list counts by their mixture before it
    totals: NDArray[np.float64]
    #: cosine c beyond which queries are neighbours, with κ = (cos - c)/(1 - c)
    near: float
    #: key, list, scores of all views and vector of (better - worse) for each decision, oldest first
    decided: NDArray[np.uint64]
    decided_times: NDArray[np.int64]
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
            np.zeros(0),
            np.zeros(0, np.int64),
            np.zeros((2, K)),
            np.zeros(2),
            min(max(NEAR, close), 0.999),
            np.zeros(0, np.uint64),
            np.zeros(0, np.int64),
            np.zeros((0, n_views)),
            np.zeros((0, n), dtype),
        )

    @property
    def trust(self) -> float:
        """Probability that remembering a query ranks it better than forgetting."""
        return trust(self.totals[OWN], BELIEF)

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
        near = self._near_in_turn(keys, units, slots, fresh)
        for t in np.flatnonzero(fresh):  # until then the slot is empty, or another query's
            self.keys[slots[t]], self.queries[slots[t]] = keys[t], units[t]
        aside = _aside(self)
        if aside.sketches is not None:
            aside.sketches.change(slots[fresh])
        vectors = aside.rooms.whole("vectors", self.vectors)
        variances = aside.rooms.whole("variances", self.variances)
        remember_lists(
            (starts, gains, weights, slots, fresh, fading**ages, *near),
            rows,
            offsets,
            others,
            (vectors, variances, self.met, self.weight, self.evidence, self.totals),
            SCALES,
        )

    def _near_in_turn(
        self,
        keys: NDArray[np.uint64],
        units: Array,
        slots: Indices,
        fresh: NDArray[np.bool_],
    ) -> tuple[Indices, Indices, Array]:
        """Neighbours of each query at its turn: where each one's begin, their slots, and κ.

        Only of queries that are not met yet. From its turn on, a new query takes its slot over.
        """
        T, n = len(keys), len(self.keys)
        news = np.flatnonzero(fresh)
        begun, replaced = np.full(n, T), np.full(len(news), T)
        for i in range(len(news) - 1, -1, -1):  # next turn at which the slot changes hands
            replaced[i] = begun[slots[news[i]]]
            begun[slots[news[i]]] = news[i]
        # Who took a slot over may not be met by its first list, if that decides nothing.
        asked = np.flatnonzero((self.met[slots] == 0) | (begun[slots] <= np.arange(T)))
        if len(asked) < FEW:
            found = [self._near(units[t]) for t in asked]
            turns = np.repeat(asked, [len(near) for near, _ in found])
            near = np.concatenate([near for near, _ in found] or [news])
            cosines = np.concatenate([c for _, c in found] or [np.zeros(0, units.dtype)])
        else:
            products = units[asked] @ self.queries.T
            turns, near = np.nonzero(products > self.near)
            cosines, turns = products[turns, near], asked[turns]
        old = (turns < begun[near]) & (keys[turns] != self.keys[near])
        products = units[asked] @ units[news].T
        among, of = np.nonzero(products > self.near)
        later, earlier = asked[among], news[of]
        own = (earlier <= later) & (later < replaced[of]) & (keys[later] != keys[earlier])
        turns = np.concatenate([turns[old], later[own]])
        near = np.concatenate([near[old], slots[earlier[own]]])
        cosines = np.concatenate([cosines[old], products[among[own], of[own]]])
        order = np.argsort(turns, kind="stable")
        starts = np.searchsorted(turns[order], np.arange(T + 1))
        return starts, near[order], self._closeness(cosines[order])

    def _slots(
        self, keys: NDArray[np.uint64], budget: int, times: Indices
    ) -> tuple[Indices, NDArray[np.bool_], Indices]:
        """Where each query is remembered, if in place of another, and since when it was not met."""
        known = _aside(self).known(self.keys)
        new = len(set(keys.tolist()) - known.keys())
        self.reserve(max(len(known), min(len(known) + new, budget)), len(self.decided), budget)
        slots, fresh = np.empty(len(keys), np.intp), np.zeros(len(keys), bool)
        owners: dict[int, int] = {}
        ages = np.zeros(len(keys), np.intp)
        for t, key in enumerate(keys.tolist()):
            if key not in known:
                slot = len(known)
                if slot == len(self.keys):
                    slot = int(np.argmin(self.times))
                    del known[owners.get(slot, int(self.keys[slot]))]
                known[key], owners[slot], fresh[t] = slot, key, True
            slots[t] = slot = known[key]
            ages[t] = times[t] - self.times[slot]
            self.times[slot] = times[t]
        return slots, fresh, ages

    def reserve(self, n_queries: int, n_decisions: int, most: int = 0) -> None:
        """Make room for so many queries and decisions in all; later perhaps for so many queries."""
        n, rooms = (n_queries, n_decisions), _aside(self).rooms
        old = len(self.keys), len(self.decided)
        for name, value in list(vars(self).items()):
            kind = name.startswith("decided")
            if n[kind] > old[kind] and name not in ("evidence", "totals", "near"):
                axis = int(name in ("vectors", "variances"))
                setattr(self, name, rooms.grown(name, value, axis, n[kind], most))

    def decide(
        self,
        keys: NDArray[np.uint64],
        times: Indices,
        features: Array,
        vectors: Array,
        budget: int,
    ) -> None:
        """Take down decisions, in order; of each query only those of the last lists stay.

        People err: to obey whatever was ever said about a query would rank its other items worse.
        """
        rooms, total = _aside(self).rooms, len(self.decided) + len(keys)
        added = {
            "decided": keys,
            "decided_times": times.astype(np.int64),
            "decided_features": features,
            "decided_vectors": vectors,
        }
        few = len(keys) < FEW and all(
            (self.decided == key).sum() + len(keys) <= LISTS for key in np.unique(keys)
        )
        for name, rows in added.items():
            dropped = max(total - budget, 0) if few else 0
            setattr(self, name, rooms.appended(name, getattr(self, name), rows, dropped))
        if few:
            return
        order = np.argsort(self.decided[::-1], kind="stable")  # by key, the newest first
        ordered = self.decided[::-1][order]
        first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        counts = np.diff(np.append(first, len(order)))
        age = np.arange(len(order)) - np.repeat(first, counts)
        times = self.decided_times[::-1][order]
        lists = np.cumsum(np.concatenate([[False], times[1:] != times[:-1]]))
        lists -= np.repeat(lists[first], counts)
        kept = np.sort(len(order) - 1 - order[(age < KEPT) & (lists < LISTS)])[-budget:]
        for name in added:
            value = getattr(self, name)
            whole = kept[-1] - kept[0] == len(kept) - 1  # only the oldest are dropped
            setattr(self, name, value[kept[0] : kept[-1] + 1] if whole else value[kept])

    # -- ranking -------------------------------------------------------------------------------

    def shares(self, kind: int) -> Array:
        """Shares of the scales when ranking: memory ranks as far as evidence has raised trust.

        What is remembered of decisions ranks as far as it is trusted.
        """
        own, near = self.evidence
        logs = own + near if kind == NEIGHBORS else own
        found: Array = np.exp(logs - np.logaddexp.reduce(logs))
        if kind == DECIDED:
            return found * trust(self.totals[OWN], DECIDED_BELIEF)
        return found * raised(self.totals[kind], BELIEF)

    def _means(self, shares: Array, slots: Indices) -> Array:
        """m_u of some remembered queries to rank with: the mean over the scales."""
        shares = shares.astype(self.vectors.dtype)
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
        return np.flatnonzero(np.isin(keys, self.decided, kind="sort"))

    def recalled(self, keys: NDArray[np.uint64], queries: Array, shares: Array) -> Array:
        """m(q) for each query: its own memory, or else, by κ, that of its neighbours.

        `shares` are those of the scales, for each kind of memory.
        """
        found = np.zeros((len(queries), self.vectors.shape[-1]), self.vectors.dtype)
        slots = self._places(keys)
        own, new = np.flatnonzero(slots >= 0), np.flatnonzero(slots < 0)
        decided = np.zeros(len(keys), bool)
        decided[self.decided_rows(keys)] = True
        for kind, rows in ((OWN, own[~decided[own]]), (DECIDED, own[decided[own]])):
            if len(rows) and shares[kind].any():
                found[rows] = self._means(shares[kind], slots[rows])
        if len(new) and shares[NEIGHBORS].any():
            for t in new:
                near, kernel = self._neighbors(queries[t])
                found[t] = kernel @ self._means(shares[NEIGHBORS], near)
        return found

    def _neighbors(self, query: Array) -> tuple[Indices, Array]:
        """Where the neighbours of a query that is not remembered are, and κ of each."""
        near, cosines = self._near(unit_rows(query))
        return near, self._closeness(cosines)

    def _near(self, unit: Array) -> tuple[Indices, Array]:
        """Where queries near this one of length 1 are, and their cosines."""
        if len(self.keys) < MANY:
            cosines = self.queries @ unit
            near = np.flatnonzero(cosines > self.near)
            return near, cosines[near]
        aside = _aside(self)
        if aside.sketches is None:
            aside.sketches = NearRows(self.queries, self.near)
        found: tuple[Indices, Array] = aside.sketches.find(self.queries, unit, self.near)
        return found

    def _closeness(self, cosines: Array) -> Array:
        kernel: Array = np.maximum(cosines - self.near, 0) / (1 - self.near)
        return kernel

    def expected_weights(self, keys: NDArray[np.uint64]) -> Array:
        """What the next answer about each query is likely to weigh, from those before it.

        A tie is two lists of almost no weight.
        """
        slots = self._places(keys)
        met, weight = (np.append(array, 0)[slots] for array in (self.met, self.weight))
        found: Array = (weight + 1) / ((weight + met) / 2 + 2)
        return found

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

    def behind(
        self, key: np.uint64, query: Array, item: Array, shares: Array
    ) -> list[tuple[int, float]]:
        """Last judgement of each remembered query that moves this item, and by how much."""
        slots, kind = np.flatnonzero(self.keys == key), OWN
        kernel = np.ones(len(slots))
        if not len(slots):
            kind, (slots, kernel) = NEIGHBORS, self._neighbors(query)
        elif (self.decided == key).any():
            kind = DECIDED
        moved = kernel * (self._means(shares[kind], slots) @ item)
        order = [i for i in np.argsort(-np.abs(moved)) if moved[i]]
        return [(int(self.times[slots[i]]), float(moved[i])) for i in order]

    def obey(self, key: int, weights: Array, vector: Array) -> Array:
        """Smallest change to a query's vector after which its decisions hold, the newest last."""
        own = np.flatnonzero(self.decided == np.uint64(key))
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


class Aside:
    """What a memory keeps to be fast, and could compute again."""

    def __init__(self) -> None:
        self.rooms = Rooms()
        #: of the queries
        self.sketches: NearRows | None = None
        self._known: dict[int, int] = {}

    def known(self, keys: NDArray[np.uint64]) -> dict[int, int]:
        """Slots by key, to be kept up to date."""
        if len(self._known) != len(keys):
            self._known = {key: slot for slot, key in enumerate(keys.tolist())}
        return self._known


_asides: WeakKeyDictionary[Memory, Aside] = WeakKeyDictionary()


def _aside(memory: Memory) -> Aside:
    if memory not in _asides:
        _asides[memory] = Aside()
    return _asides[memory]
