"""Memory: what was said about a query, for that query and its neighbours."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.linalg.blas import products
from similia.linalg.growing import Rooms
from similia.linalg.near_rows import NearRows
from similia.similarity.ties import marks_of_ties
from similia.similarity.weights import Ranking, pieces, raised, trust
from similia.updates.blend import log_sum
from similia.updates.blend_memory import (
    DECIDED,
    NEIGHBORS,
    OWN,
    meet,
    recall_queries,
    remember_lists,
)

#: prior variances of what is remembered, in typical gaps: candidates side by side
SCALES = np.array([0.75, 2.25, 6.75, 20.25])
#: belief in what is remembered of a query, and of its neighbours, before any evidence
BELIEF = 0.1
#: the same of a query that a trusted person has decided about
DECIDED_BELIEF = 0.5
#: neighbours are queries of at least this cosine, and closer than all but one in so many pairs
NEAR, RARE = 0.5, 1000
#: queries that are looked up one by one
FEW = 32
#: lists and decisions kept of one query, and passes over these; older ones are only remembered
LISTS, KEPT, SWEEPS = 10, 100, 5
#: fields that do not grow
FIXED = "evidence", "totals", "near", "stretch", "common"
#: margin with which a decision is obeyed, in typical gaps of the base
MARGIN = 0.1
#: answers about a query that what is known of all queries counts for
PRIOR = 2


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
    #: items that were in a tie, as bits of their marks
    alike: NDArray[np.uint64]
    #: when each was judged last, for eviction
    times: NDArray[np.int64]
    #: log-likelihood ratio of each scale against forgetting: of a query's own memory on its
    #: repeats, and of its neighbours' memory on its first search
    evidence: NDArray[np.float64]
    #: the same of the scales together: each list counts by their mixture before it
    totals: NDArray[np.float64]
    #: cosine c beyond which queries are neighbours, with κ = (cos - c)/(1 - c)
    near: float
    #: a and A of a(I - AAᵀ), how m_u varies before any feedback, times its prior variance
    stretch: float
    common: Array
    #: key, list, scores of all views and vector of (better - worse) for each decision, oldest first
    decided: NDArray[np.uint64]
    decided_times: NDArray[np.int64]
    decided_features: NDArray[np.float64]
    decided_vectors: Array

    @classmethod
    def start(cls, queries: Array, stretch: float, common: Array, n_views: int) -> Self:
        """An empty memory; `queries` are a sample, which says how close two usually are."""
        K, dtype, m, n = len(SCALES), queries.dtype, queries.shape[1], len(common)
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
            np.zeros(0, np.uint64),
            np.zeros(0, np.int64),
            np.zeros((2, K)),
            np.zeros(2),
            min(max(NEAR, close), 0.999),
            stretch,
            common,
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
        stops: Sequence[int] = (),
    ) -> list[NDArray[np.float64]]:
        """Learn lists of items with these `rows`, given the total scores of the other parts.

        What is known of a query fades with the lists since its last one. Returns the shares of the
        scales before the lists at `stops`, increasing places.
        """
        slots, fresh, ages = self._slots(keys, budget, times)
        self.keys[slots[fresh]] = keys[fresh]  # of several, the last owner's
        aside = _aside(self)
        vectors = aside.rooms.whole("vectors", self.vectors)
        variances = aside.rooms.whole("variances", self.variances)
        left, units, kept = fading**ages, unit_rows(queries), aside.near.kept(self.queries)
        spread, marks = self.spread(rows), marks_of_ties(starts, weights, rows)
        then: list[NDArray[np.float64]] = []
        for lists, places in pieces(starts, stops):
            own = starts[lists.start : lists.stop + 1]
            remember_lists(
                (
                    *(own, gains, weights[lists], marks[lists]),
                    *(slots[lists], fresh[lists], left[lists]),
                ),
                rows,
                spread,
                offsets,
                others[places],
                (
                    *(vectors, variances, self.met, self.weight, self.alike),
                    *(self.evidence, self.totals),
                ),
                (units[lists], self.queries, kept, float(self.near)),
                SCALES,
            )
            if len(then) < len(stops):
                then.append(self.shares())
        return then

    def spread(self, rows: Array) -> Array:
        """Rows of items, or of their differences, times the prior covariance of m_u."""
        along = products((rows, self.common))[0]
        found: Array = rows - products((along, self.common.T))[0]
        return rows.dtype.type(self.stretch) * found

    def _slots(
        self, keys: NDArray[np.uint64], budget: int, times: Indices
    ) -> tuple[Indices, NDArray[np.bool_], Indices]:
        """Where each query is remembered, if in place of another, and since when it was not met."""
        known = _aside(self).known(self.keys)
        new = len(set(keys.tolist()) - known.keys())
        self.reserve(max(len(known), min(len(known) + new, budget)), len(self.decided), budget)
        slots, fresh = np.empty(len(keys), np.intp), np.zeros(len(keys), bool)
        owners: dict[int, int] = {}
        ages, met = np.empty(len(keys), np.intp), 0
        for t, key in enumerate(keys.tolist()):
            slot = known.get(key, -1)
            if slot < 0:
                slot = len(known)
                if slot == len(self.keys):
                    meet(self.times, slots[met:t], times[met:t], ages[met:t])
                    met, slot = t, int(np.argmin(self.times))
                    del known[owners.get(slot, int(self.keys[slot]))]
                known[key], owners[slot], fresh[t] = slot, key, True
            slots[t] = slot
        meet(self.times, slots[met:], times[met:], ages[met:])
        return slots, fresh, ages

    def reserve(self, n_queries: int, n_decisions: int, most: int = 0) -> None:
        """Make room for so many queries and decisions in all; later perhaps for so many queries."""
        n, rooms = (n_queries, n_decisions), _aside(self).rooms
        old = len(self.keys), len(self.decided)
        for name, value in list(vars(self).items()):
            kind = name.startswith("decided")
            if n[kind] > old[kind] and name not in FIXED:
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

    def shares(self) -> NDArray[np.float64]:
        """Shares of the scales when ranking, for each kind of memory.

        Memory ranks as far as evidence has raised trust, and what is remembered of decisions as
        far as it is trusted.
        """
        own, near = self.evidence
        found = np.empty((3, len(own)))
        for kind, logs in ((OWN, own), (NEIGHBORS, own + near)):
            found[kind] = np.exp(logs - log_sum(logs))
        found[DECIDED] = found[OWN] * trust(self.totals[OWN], DECIDED_BELIEF)
        for kind in (OWN, NEIGHBORS):
            found[kind] *= raised(self.totals[kind], BELIEF)
        return found

    def _means(self, shares: Array, slots: Indices) -> Array:
        """m_u of some remembered queries to rank with: the mean over the scales."""
        vectors = self.vectors[:, slots]
        found: Array = shares.astype(vectors.dtype) @ vectors.reshape(len(shares), -1)
        return found.reshape(vectors.shape[1:])

    def _places(self, keys: NDArray[np.uint64]) -> Indices:
        """Where queries are remembered, or -1."""
        known = _aside(self).known(self.keys)
        return np.array([known.get(key, -1) for key in keys.tolist()], np.intp)

    def remembers(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Which of these queries were judged and are not forgotten."""
        found: NDArray[np.bool_] = self._places(keys) >= 0
        return found

    def recall(
        self,
        vectors: Array,
        keys: NDArray[np.uint64],
        queries: Array,
        shares: NDArray[np.float64],
        ranking: Ranking,
        *,
        sweeps: int = SWEEPS,
    ) -> None:
        """Add m(q) to vectors, divide by the strength of the base, and obey what was decided.

        `shares` are those of the scales, for each kind of memory. Without sweeps nothing is obeyed.
        """
        aside, slots = _aside(self), self._places(keys)
        sketched = (slots < 0).any() and shares[NEIGHBORS].any()
        kept = aside.near.kept(self.queries if sketched else self.queries[:0])
        recall_queries(
            vectors,
            (queries, keys, slots),
            (aside.rooms.whole("vectors", self.vectors), self.queries, kept, float(self.near)),
            (self.decided, self.decided_features, self.decided_vectors),
            shares,
            (ranking.weights, ranking.strength, MARGIN),
            sweeps,
        )

    def _neighbors(self, query: Array) -> tuple[Indices, Array]:
        """Where the neighbours of a query that is not remembered are, and κ of each."""
        unit = unit_rows(query)
        near, cosines = _aside(self).near.find(self.queries, unit, float(self.near))
        return near, (cosines - self.near) / (1 - self.near)

    def told_apart(self, keys: NDArray[np.uint64], marks: NDArray[np.uint64]) -> Array:
        """How likely people are to tell two items apart, for queries and marks of both items.

        It is the share of such answers about the query, begun with that about all queries, and half
        as much for each item that was in a tie: it is often one of many that are all alike.
        """
        slots, unknown = self._places(keys), np.uint64(0)
        answers = (self.met + self.weight) / 2  # a tie is two lists of almost no weight
        share = (self.weight.sum() + 1) / (answers.sum() + 2)
        own, weight = (np.append(array, 0.0)[slots] for array in (answers, self.weight))
        tied = (np.append(self.alike, unknown)[slots, None] & marks != 0).sum(axis=1)
        found: Array = (weight + PRIOR * share) / (own + PRIOR) * 0.5**tied
        return found

    def variances_of(self, keys: NDArray[np.uint64]) -> Array:
        """Variance of what is remembered in any direction, as far as memory is trusted."""
        shares = np.exp(self.evidence[OWN] - np.logaddexp.reduce(self.evidence[OWN])) * self.trust
        known = np.append(self.variances, SCALES[:, None], axis=1)  # -1 is the prior
        found: Array = shares @ known[:, self._places(keys)]
        return found

    def behind(
        self, key: np.uint64, query: Array, item: Array, shares: Array
    ) -> list[tuple[int, float]]:
        """Last judgement of each remembered query that moves this item, and by how much."""
        slots, kernel, kind = self._places(np.array([key])), np.ones(1), OWN
        if slots[0] < 0:
            kind, (slots, kernel) = NEIGHBORS, self._neighbors(query)
        elif (self.decided == key).any():
            kind = DECIDED
        moved = kernel * (self._means(shares[kind], slots) @ item)
        order = [i for i in np.argsort(-np.abs(moved)) if moved[i]]
        return [(int(self.times[slots[i]]), float(moved[i])) for i in order]


class Aside:
    """What a memory keeps to be fast, and could compute again."""

    def __init__(self) -> None:
        self.rooms = Rooms()
        #: finds neighbours among the queries
        self.near = NearRows()
        self._known: dict[int, int] = {}

    def known(self, keys: NDArray[np.uint64]) -> dict[int, int]:
        """Slots by key, to be kept up to date."""
        if len(self._known) != len(keys):
            self._known = {key: slot for slot, key in enumerate(keys.tolist())}
        return self._known


_asides: WeakKeyDictionary[Memory, Aside] = WeakKeyDictionary()


def _aside(memory: Memory) -> Aside:
    found = _asides.get(memory)
    if found is None:
        found = _asides[memory] = Aside()
    return found
