"""Memory: what was said of the items of a query, and decisions about them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.linalg.blas import products
from similia.updates.blend import (
    TIES,
    TRUST,
    obey_bonuses,
    obey_vector,
    places_of,
    remembered_of,
    take_slots,
)

#: items of a query that are remembered; of others the one of which least is known goes
PAIRS_A_QUERY = 128
#: lists whose decisions about a query are obeyed, decisions of these, and sweeps over them
LISTS, KEPT, SWEEPS = 10, 100, 5
#: margin with which a decision is obeyed, in units of the base
MARGIN_OF_DECISIONS = 0.1
#: variance of what is remembered of a pair before anything was said
VARIANCE = 1.0
#: answers about a query that what is known of all queries counts for
PRIOR = 2

Keys = NDArray[np.uint64]


@dataclass(eq=False)
class Memory:
    """What was observed of pairs of queries and items; a decision is obeyed by itself.

    Arrays have room for more queries than there are, at most for the budget. A query's vector says
    nearly the same to an index that knows inner products alone.
    """

    #: remembered queries, when they were judged last, and how many lists were about them, in all
    #: and by weight
    keys: Keys
    times: NDArray[np.int64]
    told: NDArray[np.float64]
    #: items of these queries, and what was observed of the pair
    items: Keys
    pairs: NDArray[np.float64]
    vectors: Array
    #: a and A of a(I - AAᵀ), how a query's vector varies before any feedback
    stretch: float
    common: Array
    #: query, list, items, scores of all views and vector of (better - worse) for each decision
    decided: Keys
    decided_times: NDArray[np.int64]
    decided_items: Keys
    decided_features: NDArray[np.float64]
    decided_vectors: Array
    #: number of remembered queries, of decisions so far, and for how many of these there is room
    counts: NDArray[np.int64]

    @classmethod
    def start(cls, n: int, stretch: float, common: Array, n_views: int) -> Self:
        """An empty memory of items of n features."""
        real = common.dtype
        return cls(
            keys=np.zeros(0, np.uint64),
            times=np.zeros(0, np.int64),
            told=np.zeros((0, 2)),
            items=np.zeros((0, PAIRS_A_QUERY), np.uint64),
            pairs=np.zeros((0, PAIRS_A_QUERY, TIES + 1)),
            vectors=np.zeros((0, n), real),
            stretch=stretch,
            common=common,
            decided=np.zeros(0, np.uint64),
            decided_times=np.zeros(0, np.int64),
            decided_items=np.zeros((0, 2), np.uint64),
            decided_features=np.zeros((0, n_views)),
            decided_vectors=np.zeros((0, n), real),
            counts=np.zeros(3, np.int64),
        )

    # -- learning ------------------------------------------------------------------------------

    def take(
        self, keys: Keys, budget: int, times: Indices
    ) -> tuple[Indices, NDArray[np.bool_], Indices]:
        """Where each query is remembered, if in place of another, and since when it was not met."""
        slots, fresh = np.full(len(keys), -1, np.intp), np.zeros(len(keys), bool)
        ages = np.zeros(len(keys), np.intp)
        if budget:
            n = int(self.counts[0])
            new = len(np.unique(keys[self.places(keys) < 0]))
            self.reserve(max(n, min(n + new, budget)), len(self.decided))
            self.counts[0] = take_slots(
                self.keys, self.times, n, budget, keys, times.astype(np.int64), slots, fresh, ages
            )
        return slots, fresh, ages

    def reserve(self, n_queries: int, n_decisions: int) -> None:
        """Make room for so many queries and decisions; the room doubles, so copies are rare."""
        for name, value in list(vars(self).items()):
            if name in ("stretch", "common", "counts"):
                continue
            wanted = n_decisions if name.startswith("decided") else n_queries
            if wanted > len(value):
                larger = np.zeros((_room(wanted), *value.shape[1:]), value.dtype)
                larger[: len(value)] = value
                setattr(self, name, larger)

    def spread(self, rows: Array) -> Array:
        """Rows of items times the covariance of a query's vector before any feedback."""
        along = products((rows, self.common))[0]
        found: Array = rows - products((along, self.common.T))[0]
        return rows.dtype.type(self.stretch) * found

    def tie(self, slots: Indices, items: Keys) -> None:
        """Note that people could not tell these items from another."""
        for slot, item in zip(slots.tolist(), items, strict=True):
            if slot >= 0:
                self.pairs[slot, self.items[slot] == item, TIES] = 1.0

    def decide(
        self, keys: Keys, times: Indices, items: Keys, features: Array, vectors: Array, budget: int
    ) -> None:
        """Take down decisions, in order, in place of the oldest."""
        n, room = self.counts[1:].tolist()
        if room != budget:
            self._make_room(budget)
            n = int(self.counts[1])
        numbers = n + np.arange(len(keys))[-budget:]
        self.reserve(0, min(int(n) + len(keys), budget))
        places, last = numbers % budget, slice(len(keys) - len(numbers), None)
        self.decided[places], self.decided_times[places] = keys[last], times[last]
        self.decided_items[places] = items[last]
        self.decided_features[places] = features[last]
        self.decided_vectors[places] = vectors[last]
        self.counts[1] = n + len(keys)

    def _make_room(self, budget: int) -> None:
        """Move the last decisions to where they are with another budget."""
        order = self._order(np.arange(len(self.decided)))[-budget:]
        for name in (name for name in vars(self) if name.startswith("decided")):
            kept = getattr(self, name)[order]
            setattr(self, name, np.zeros((_room(len(kept)), *kept.shape[1:]), kept.dtype))
            getattr(self, name)[: len(kept)] = kept
        self.counts[1:] = len(order), budget

    def _order(self, places: Indices) -> Indices:
        """Places of decisions, the oldest first."""
        n, room = self.counts[1:].tolist()
        places = places[places < min(n, max(room, 1))]
        found: Indices = places[np.argsort((places - n) % max(room, 1), kind="stable")]
        return found

    def merged(self, parts: Sequence["Memory"], later: Sequence[int], budget: int) -> "Memory":
        """What the parts remember, a query as by the part that was told most of it since this one.

        `later` is how many lists all parts have learnt beyond each, so that ages stay.
        """
        every = [
            (-told, -seen, key, part, slot, seen)
            for part, lag in zip(parts, later, strict=True)
            for key, slot, told, seen in part._queries(lag)
        ]
        best: dict[int, tuple[Any, ...]] = {}
        for query in sorted(every, key=lambda query: query[:3]):
            best.setdefault(query[2], query)
        kept = sorted(best.values(), key=lambda query: (query[5], query[2]))[-budget or len(best) :]
        found = type(self).start(
            self.vectors.shape[1], self.stretch, self.common, self.decided_features.shape[1]
        )
        found.reserve(len(kept), 0)
        for place, (_, _, key, part, slot, seen) in enumerate(kept):
            found.keys[place], found.times[place] = key, seen
            for name in ("told", "items", "pairs", "vectors"):
                getattr(found, name)[place] = getattr(part, name)[slot]
        found.counts[0] = len(kept)
        told = [self._decided(len(self.decided), min(later))]
        for part, lag in zip(parts, later, strict=True):
            told.append(part._decided(int(part.counts[1] - self.counts[1]), lag))
        keys, times, items, features, rows = map(np.concatenate, zip(*told, strict=True))
        order = np.lexsort((items[:, 1], items[:, 0], keys, times))
        if budget and len(order):
            decisions = keys[order], times[order], items[order], features[order], rows[order]
            found.decide(*decisions, budget)
        return found

    def _queries(self, lag: int) -> Iterator[tuple[int, int, float, int]]:
        """Key, place, how much was told, and when last, of each query."""
        n = int(self.counts[0])
        told = self.told[:n].sum(axis=1) + np.abs(self.pairs[:n]).sum(axis=(1, 2))
        seen = (self.times[:n] + lag).tolist()
        return zip(self.keys[:n].tolist(), range(n), told.tolist(), seen, strict=True)

    def _decided(self, n_last: int, lag: int) -> tuple[Array, ...]:
        """The last decisions in the order of `decide`."""
        places = self._order(np.arange(len(self.decided)))
        places = places[max(len(places) - n_last, 0) :]
        return (
            self.decided[places],
            self.decided_times[places] + lag,
            self.decided_items[places],
            self.decided_features[places],
            self.decided_vectors[places],
        )

    # -- ranking -------------------------------------------------------------------------------

    def places(self, keys: Keys) -> Indices:
        """Where queries are remembered, or -1."""
        found = np.full(len(keys), -1, np.intp)
        places_of(self.keys, int(self.counts[0]), keys, found)
        return found

    def decisions(self, key: np.uint64) -> Indices:
        """Places of the decisions about a query that are obeyed, the oldest first.

        People err: to obey whatever was ever said about a query would rank its other items worse.
        """
        own = self._order(np.flatnonzero(self.decided == key))[-KEPT:]
        times = np.unique(self.decided_times[own])[-LISTS:]
        return own[np.isin(self.decided_times[own], times)]

    def remembered(self, slot: int, ranks: Array) -> tuple[Keys, Array]:
        """Items of a query, and what is added to their scores."""
        known = np.flatnonzero(self.items[slot])
        return self.items[slot, known], remembered_of(self.pairs[slot, known], ranks)

    def bonuses(
        self, key: np.uint64, slot: int, ranks: Array, weights: Array, moved: Array
    ) -> tuple[Keys, Array, Array]:
        """Items of a query, what is remembered of them, and what obeys decisions beyond that.

        `moved` is what W adds to the query's vector.
        """
        items, found = np.zeros(0, np.uint64), np.zeros(0)
        if slot >= 0:
            items, found = self.remembered(slot, ranks)
        own = self.decisions(key) if len(self.decided) else np.zeros(0, np.intp)
        if not len(own):
            return items, found, np.zeros(len(items))
        gaps = self.decided_features[own] @ weights + self.decided_vectors[own] @ moved
        every = np.union1d(items, self.decided_items[own].ravel())
        every = every[every != 0]
        before = np.zeros(len(every))
        before[np.searchsorted(every, items)] = found
        better, worse = np.searchsorted(every, self.decided_items[own]).T
        better[self.decided_items[own, 0] == 0] = -1
        after = before.copy()
        obey_bonuses(after, better, worse, gaps, MARGIN_OF_DECISIONS, SWEEPS)
        return every, before, after - before

    def behind(self, key: Keys, item: Keys) -> dict[str, int]:
        """When a query was judged last, and when a decision about one of its items was taken."""
        found, slot = {}, int(self.places(key)[0])
        if slot >= 0:
            found["memory"] = int(self.times[slot])
        own = self.decisions(key[0])
        own = own[(self.decided_items[own] == item).any(axis=1)]
        if len(own):
            found["decisions"] = int(self.decided_times[own].max())
        return found

    def recall(self, vectors: Array, keys: Keys, ranks: Array, weights: Array) -> None:
        """Add what is remembered to what W adds to queries, and obey decisions."""
        slots, real = self.places(keys), vectors.dtype.type
        known = slots >= 0
        vectors[known] += real(ranks[TRUST]) * self.vectors[slots[known]]
        if len(self.decided):
            for vector, key in zip(vectors, keys, strict=True):
                own = self.decisions(key)
                if len(own):
                    gaps = self.decided_features[own] @ weights
                    better = self.decided_vectors[own]
                    obey_vector(vector, better, gaps, MARGIN_OF_DECISIONS, SWEEPS)

    def variances(self, keys: Keys, items: Keys) -> Array:
        """Variance of what is remembered of pairs."""
        slots, found = self.places(keys), np.full(len(keys), VARIANCE)
        for t in np.flatnonzero(slots >= 0):
            pair = self.pairs[slots[t], self.items[slots[t]] == items[t], :TIES]
            found[t] /= 1 + np.abs(pair).sum()
        return found

    def told_apart(self, keys: Keys, items: Keys) -> Array:
        """How likely people are to tell two items apart, for queries and two items each.

        It is the share of such answers about the query, begun with that about all queries, and half
        as much for each item that was in a tie: it is often one of many that are all alike.
        """
        slots = self.places(keys)
        answers = self.told.mean(axis=1)  # a tie is two lists of almost no weight
        share = (self.told[:, 1].sum() + 1) / (answers.sum() + 2)
        own, weight = (np.append(array, 0.0)[slots] for array in (answers, self.told[:, 1]))
        tied = np.zeros(len(keys))
        for t in np.flatnonzero(slots >= 0):
            for item in items[t]:
                tied[t] += self.pairs[slots[t], self.items[slots[t]] == item, TIES].sum()
        found: Array = (weight + PRIOR * share) / (own + PRIOR) * 0.5**tied
        return found


def _room(n: int) -> int:
    """The next power of two; none for nothing."""
    return 1 << (n - 1).bit_length() if n else 0
