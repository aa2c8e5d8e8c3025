"""What to ask a person: comparisons that would teach most, and random ones for exams."""

import secrets
from collections.abc import Sequence

import numpy as np

from similia.contract import Indices
from similia.service.fold import State
from similia.service.log import Log
from similia.service.ranking import asked_row, best, query_vector
from similia.service.records import JUDGEMENTS, Query, Question, query_key, whole

#: queries that questions are about, of the last judgements
RECENT = 200
#: one question in so many is random
RANDOM = 5
#: items of a query that are compared
DEPTH = 10


def questions(
    state: State, log: Log, n: int, judge: str | None, pool: Sequence[Query] = ()
) -> list[Question]:
    """Questions about queries of the pool and those met before; else about items as queries."""
    if state.layout is None or state.shelf is None or len(state.shelf) < 3:
        return []
    rng = np.random.default_rng(secrets.randbits(64))
    found = []
    queries = _queries(state, log, rng, judge, pool)
    for place in range(n):
        query = queries[place % len(queries)]
        own = state.shelf.row(query.item) if query.item is not None else None
        vector = query_vector(state, asked_row(state, query))
        rows, _ = best(state.shelf, vector, DEPTH, [] if own is None else [own])
        if len(rows) < 2:
            continue
        chance = state.learner is None or rng.integers(RANDOM) == 0
        left, right = _random(rows, rng) if chance else _instructive(state, query, rows, rng)
        source = "random" if chance else "suggested"
        ids = state.shelf.id(left), state.shelf.id(right)
        found.append(Question(secrets.token_hex(8), query, *ids, source))
    return found


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


def _random(rows: Indices, rng: np.random.Generator) -> tuple[int, int]:
    left, right = rng.choice(rows, 2, replace=False)
    return int(left), int(right)


def _instructive(
    state: State, query: Query, rows: Indices, rng: np.random.Generator
) -> tuple[int, int]:
    """The pair whose present order is most likely to be wrong, and by much."""
    assert state.learner is not None
    assert state.layout is not None
    assert state.shelf is not None
    row = asked_row(state, query)
    sides = state.layout.sides(row[None], state.shelf.matrix[rows])
    one, other = np.triu_indices(len(rows), 1)
    candidates = np.column_stack([np.zeros_like(one), one, other])
    chosen = state.learner.suggest(sides[0], candidates, 1, items=sides[1])[0]
    pair = rows[candidates[chosen, 1:]]
    left, right = pair if rng.integers(2) else pair[::-1]
    return int(left), int(right)
