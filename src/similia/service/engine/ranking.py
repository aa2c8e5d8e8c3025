"""Ranking by a frozen state: exact search among all items, or some items put in order."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from similia.linalg.threads import processors, side_by_side
from similia.service.answers import Ranked, Ranking
from similia.service.catalogue.approximate import CANDIDATES_EACH, MIN_CANDIDATES, Approximate
from similia.service.catalogue.external import ExternalItems
from similia.service.catalogue.items import Items, ItemSnapshot, Layout
from similia.service.catalogue.texts import ItemTexts
from similia.service.engine.fold import FrozenState
from similia.service.errors import Invalid, Unavailable
from similia.service.log.limits import MAX_RANKED
from similia.service.log.records import Packed, Query, Vector, packed, unpacked
from similia.service.log.rows import Row
from similia.stores import VectorsById

#: pieces of the items for each processor
PIECES_EACH = 2

#: row of the log, by its number
RowOfLog: TypeAlias = Callable[[int], Row | None]


def revision(state: FrozenState, model: str) -> str:
    """Revision of a ranking."""
    return f"{model}-{state.seq}"


def query_row(
    state: FrozenState, query: Query, vectors: Packed | None = None
) -> NDArray[np.float32] | None:
    """Row of a query, from its vectors or its item; None if the item is gone."""
    assert state.layout is not None
    assert state.snapshot is not None
    if vectors or query.vectors:
        return state.layout.query_row(unpacked(vectors or packed(query.vectors)))
    ids, rows = state.snapshot.newest([query.item] if query.item is not None else [])
    return rows[0] if ids else None


def asked_row(state: FrozenState, query: Query) -> NDArray[np.float32]:
    """Row of a query; raises Invalid if there is none."""
    row = query_row(state, query)
    if row is None:
        raise Invalid(f"query: item must be the id of an item, got {query.item!r:.80}.")
    return row


def query_vector(
    state: FrozenState, row: NDArray[np.float32], *, remembered: bool = True
) -> NDArray[np.float32]:
    """Vector whose inner products with rows of items are nearly their scores.

    If nothing is `remembered` in it, they are exactly the scores less `bonus`.
    """
    layout = state.layout
    assert layout is not None
    if state.learner is None:
        found = np.zeros(layout.width, np.float32)
        found[layout.places[layout.base]] = row[layout.places[layout.base]]
        return found
    queries = layout.queries(row[None])
    vectors = state.learner.query_vectors_checked(queries, remembered=remembered)
    return np.asarray(vectors, np.float32)[0]


def vectors(state: FrozenState, query: Query, model: str) -> tuple[dict[str, list[float]], str]:
    """Vectors by view, to search elsewhere with."""
    assert state.layout is not None
    assert state.snapshot is not None
    row = asked_row(state, query)
    return state.layout.split(query_vector(state, row)), revision(state, model)


class Bonus(NamedTuple):
    """What is remembered of single items for a query: added to the scores of these rows."""

    rows: NDArray[np.intp]
    amounts: NDArray[np.float32]

    def of(self, rows: NDArray[np.intp]) -> NDArray[np.float32]:
        """Amounts for some rows; 0 where nothing is remembered."""
        found = np.zeros(len(rows), np.float32)
        if len(self.rows):
            order = np.argsort(self.rows)
            places = np.searchsorted(self.rows[order], rows).clip(max=len(order) - 1)
            known = self.rows[order[places]] == rows
            found[known] = self.amounts[order[places[known]]]
        return found


NO_BONUS = Bonus(np.zeros(0, np.intp), np.zeros(0, np.float32))


def bonus(state: FrozenState, row: NDArray[np.float32]) -> Bonus:
    """What is remembered of single items for a query."""
    learner, layout, snapshot = state.learner, state.layout, state.snapshot
    if learner is None or layout is None or snapshot is None:
        return NO_BONUS
    ((items, amounts),) = learner.boosts_checked(layout.queries(row[None]))
    if not amounts.any():
        return NO_BONUS
    order = np.argsort(items)
    items, amounts = items[order], amounts[order]
    keys = snapshot.rows.keys(
        len(snapshot.matrix), lambda new: learner.item_keys(layout.items(new))
    )
    rows = np.flatnonzero(np.isin(keys, items, kind="sort"))  # as NumPy 2.0 may fail otherwise
    found = amounts[np.searchsorted(items, keys[rows])]
    return Bonus(rows, found.astype(np.float32))


def _bonus_of(
    state: FrozenState, row: NDArray[np.float32], found: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Amounts for rows that may come from a store."""
    amounts = np.zeros(len(found), np.float32)
    if state.learner is not None and state.layout is not None and len(found):
        asked, items = state.layout.queries(row[None]), state.layout.items(found)
        ((places, own),) = state.learner.boosts_checked(asked, items)
        amounts[places] += own.astype(np.float32)
    return amounts


def products(matrix: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Inner products of all rows with a vector, on all processors."""
    n = len(matrix)
    found = np.empty(n, np.float32)
    size = max(1, -(-n // (PIECES_EACH * processors())))
    tasks = [
        partial(np.dot, matrix[part], vector, found[part])
        for part in (slice(start, start + size) for start in range(0, n, size))
    ]
    side_by_side(tasks, matrix.size)
    return found


def best(
    snapshot: ItemSnapshot,
    vector: NDArray[np.float32],
    k: int,
    without: Sequence[int] = (),
    approximate: Approximate | None = None,
    known: Bonus = NO_BONUS,
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Rows and scores of the k best living items; ties go to the earlier row."""
    k = min(k, len(snapshot) - len(without))
    if k <= 0:
        return np.zeros(0, np.intp), np.zeros(0, np.float32)
    rows = None
    if approximate is not None:
        rows = approximate.candidates(snapshot, vector, k + len(without))
    if rows is None:
        scores = products(snapshot.matrix, vector)
        scores[known.rows] += known.amounts
        scores[snapshot.dead] = -np.inf
        scores[list(without)] = -np.inf
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        rows = np.flatnonzero(scores >= least)
        found = scores[rows]
    else:
        rows = rows[~np.isin(rows, without)]
        found = snapshot.matrix[rows] @ vector + known.of(rows)
    order = np.argsort(-found, kind="stable")[:k]
    return rows[order], found[order]


def ranked(
    state: FrozenState,
    query: Query,
    k: int,
    model: str,
    *,
    items: Sequence[str] | None,
    explain: bool,
    row_of: RowOfLog,
    approximate: Approximate | None = None,
    store: ExternalItems | None = None,
) -> Ranking:
    """The k best items, or some items in order; with a store, those that it has."""
    layout, snapshot = state.layout, state.snapshot
    assert layout is not None
    assert snapshot is not None
    row = asked_row(state, query)
    vector = query_vector(state, row, remembered=False)
    wanted, there = None, None
    if items is not None:
        if len(items) > MAX_RANKED:
            raise Invalid(f"rank: items must be at most {MAX_RANKED}, got {len(items)}.")
        wanted = list(dict.fromkeys(items))
        there = None if store is None else store.vectors(wanted)
    elif store is not None:
        base = query_vector(state, row)[layout.places[layout.base]]
        there = store.nearest(base, max(MIN_CANDIDATES, CANDIDATES_EACH * (k + 1)))
        wanted = [id for id in there if id != query.item]
    if wanted is not None:
        names, found = _rows(state, wanted, there)
        scores = found @ vector + _bonus_of(state, row, found)
        order = np.argsort(-scores, kind="stable")[:k]
        names, found, scores = [names[i] for i in order], found[order], scores[order]
    else:
        own = [] if query.vectors or query.item is None else [snapshot.rows.place.get(query.item)]
        out = [place for place in own if place is not None and place < len(snapshot.matrix)]
        places, scores = best(snapshot, vector, k, out, approximate, bonus(state, row))
        names = [snapshot.rows.ids[place] for place in places.tolist()]
        found = snapshot.matrix[places]
    deviations = _deviations(state, row, found)
    results = [
        Ranked(id=name, score=float(score), std=std)
        for name, score, std in zip(names, scores, deviations, strict=True)
    ]
    if explain and state.learner is not None and results:
        results = _explained(state, row, found, results, row_of)
    return Ranking(revision(state, model), state.seq, model, results)


def ranked_by_words(
    state: FrozenState,
    known: Items | None,
    texts: ItemTexts,
    text: str,
    k: int,
    items: Sequence[str] | None,
) -> Ranking:
    """The k items, among all or some, whose texts match a text best."""
    if known is None:
        raise Invalid("query: there are no items yet; put some first.")
    found = texts.best(known, text, k if items is None else len(known))
    wanted = None if items is None else set(items)
    kept = [(id, score) for id, score in found if wanted is None or id in wanted]
    results = [Ranked(id=id, score=score) for id, score in kept[:k]]
    return Ranking(revision(state, "text"), state.seq, "text", results)


def _rows(
    state: FrozenState, ids: list[str], there: VectorsById | None
) -> tuple[list[str], NDArray[np.float32]]:
    """Rows of items: as in the log, with the base view of the store."""
    layout, snapshot = state.layout, state.snapshot
    assert layout is not None
    assert snapshot is not None
    known, rows = snapshot.newest(ids)
    if there is None:
        return known, rows
    place = dict(zip(known, rows, strict=True))
    names = [id for id in ids if id in place or id in there]
    found = np.zeros((len(names), layout.width), np.float32)
    for row, id in zip(found, names, strict=True):
        if id in place:
            row[:] = place[id]
        if id in there:
            row[layout.places[layout.base]] = _fitting(layout, id, there[id])
    return names, found


def _fitting(layout: Layout, id: str, vector: Vector) -> Vector:
    """A vector of the store; raises Unavailable if the learner expects another kind."""
    place = layout.places[layout.base]
    if vector.shape != (place.stop - place.start,) or not np.isfinite(vector).all():
        raise Unavailable(
            f"items_at: vectors must be {place.stop - place.start} finite numbers, as those "
            f"learnt from, got others for {id!r:.80}; mend them there."
        )
    return vector


def _deviations(
    state: FrozenState, row: NDArray[np.float32], found: NDArray[np.float32]
) -> list[float | None]:
    """Standard deviation of each score's gap to the best (for the best, to the second)."""
    n = len(found)
    if state.learner is None or state.layout is None or n < 2:
        return [None] * n
    triplets = np.zeros((n, 3), np.intp)
    triplets[:, 2] = np.arange(n)
    triplets[0, 2] = 1
    asked, items = state.layout.queries(row[None]), state.layout.items(found)
    return state.learner.deviations(asked, items, triplets).tolist()


def _explained(
    state: FrozenState,
    row: NDArray[np.float32],
    found: NDArray[np.float32],
    results: list[Ranked],
    row_of: RowOfLog,
) -> list[Ranked]:
    assert state.learner is not None
    assert state.layout is not None
    told = state.learner.explain(state.layout.queries(row[None]), state.layout.items(found))[0]
    answer = []
    for result, why in zip(results, told, strict=True):
        behind = []
        for number, amount in why.judgements[:10]:
            logged = row_of(state.row_of(number))
            if logged is not None and logged.id is not None:
                behind.append((logged.id, amount))
        answer.append(Ranked(result.id, result.score, result.std, why.parts, behind))
    return answer
