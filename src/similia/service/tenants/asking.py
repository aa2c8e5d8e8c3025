"""What to ask a person: comparisons that would teach most, and random ones for exams."""

import secrets
from collections.abc import Sequence
from itertools import cycle, islice

import numpy as np

from similia.contract import Indices
from similia.service.answers import Question
from similia.service.engine.fold import State
from similia.service.engine.ranking import asked_row, best, query_vector
from similia.service.log.log import Log
from similia.service.log.records import JUDGEMENTS, Query, query_key, whole
from similia.similarity.blend import Blend
from similia.trust.split import held_out

#: queries that questions are about, of the last judgements
RECENT = 200
#: one question in so many is random
RANDOM = 5
#: items of a query that are compared
DEPTH = 20
#: comparisons that the most instructive ones are chosen from, how many there are for each, and
#: how many are about one query
CANDIDATES, CHOICE, EACH = 1200, 100, 16


def questions(
    state: State, log: Log, n: int, judge: str | None, pool: Sequence[Query], share: float
) -> list[Question]:
    """Questions about queries of the pool and those met before; else about items as queries.

    A `share` of the queries is held out for exams: only random questions are about them.
    """
    if state.layout is None or state.shelf is None or len(state.shelf) < 3:
        return []
    rng = np.random.default_rng(secrets.randbits(64))
    known = _queries(state, log, rng, judge, pool)
    held = held_out(np.array([query_key(query) for query in known], object), share)
    taught = [query for query, apart in zip(known, held, strict=True) if not apart]
    exams = [query for query, apart in zip(known, held, strict=True) if apart]
    if state.learner is None or not taught:
        return _random(state, known, n, rng)
    by_chance = int((rng.integers(RANDOM, size=n) == 0).sum())
    found = _random(state, exams or known, by_chance, rng)
    found += suggested(state, state.learner, taught, n - by_chance, rng)
    return [found[place] for place in rng.permutation(len(found))]


def _random(state: State, queries: list[Query], n: int, rng: np.random.Generator) -> list[Question]:
    found = []
    for query in islice(cycle(queries), n):
        rows = _first(state, query)
        if len(rows) > 1:
            pair = rng.choice(rows, 2, replace=False)
            found.append(_question(state, query, pair, "random", rng))
    return found


def suggested(
    state: State, learner: Blend, queries: list[Query], n: int, rng: np.random.Generator
) -> list[Question]:
    """The comparisons that would teach most, of some drawn at random from what ranks first."""
    assert state.layout is not None
    assert state.shelf is not None
    if n == 0:
        return []
    drawn = min(CANDIDATES, CHOICE * n)
    asked = queries[: max(1, drawn // EACH)]
    each = -(-drawn // len(asked))
    candidates = []
    for place, query in enumerate(asked):
        rows = _first(state, query)
        one, other = np.triu_indices(len(rows), 1)
        some = rng.permutation(len(one))[:each]
        candidates += [(place, rows[one[i]], rows[other[i]]) for i in some]
    if not candidates:
        return []
    triplets = np.array(candidates, np.intp)
    shown, places = np.unique(triplets[:, 1:], return_inverse=True)
    sides = state.layout.sides(
        np.stack([asked_row(state, query) for query in asked]), state.shelf.matrix[shown]
    )
    local = np.column_stack([triplets[:, 0], places.reshape(-1, 2)])
    chosen = learner.suggest(sides[0], local, min(n, len(local)), items=sides[1])
    return [
        _question(state, asked[query], np.array(pair), "suggested", rng)
        for query, *pair in triplets[chosen].tolist()
    ]


def _first(state: State, query: Query) -> Indices:
    """Rows of the items that rank first for a query, but for itself."""
    assert state.shelf is not None
    own = state.shelf.row(query.item) if query.item is not None else None
    vector = query_vector(state, asked_row(state, query))
    return best(state.shelf, vector, DEPTH, [] if own is None else [own])[0]


def _question(
    state: State, query: Query, pair: Indices, source: str, rng: np.random.Generator
) -> Question:
    """The sides are random."""
    assert state.shelf is not None
    left, right = (state.shelf.id(int(row)) for row in rng.permutation(pair))
    return Question(secrets.token_hex(8), query, left, right, source)


def _queries(
    state: State,
    log: Log,
    rng: np.random.Generator,
    judge: str | None,
    pool: Sequence[Query],
) -> list[Query]:
    assert state.shelf is not None
    known = {query_key(query): query for query in pool}
    mine = set()
    for row, _ in log.search(max(0, log.last - RECENT), RECENT):
        record = whole(row.body)
        if isinstance(record, JUDGEMENTS) and row.query is not None:
            query = record.query
            if query.vectors or (query.item and state.shelf.row(query.item) is not None):
                known[row.query] = query
            if judge is not None and row.judge == judge:
                mine.add(row.query)
    found = [query for key, query in known.items() if key not in mine] or list(known.values())
    if not found:
        rows = state.shelf.some(RECENT)
        found = [Query(item=state.shelf.id(row)) for row in rows.tolist()]
    return [found[i] for i in rng.permutation(len(found))]
