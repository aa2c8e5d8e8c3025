"""Questions for people: the most instructive comparisons, and random ones for exams."""

import secrets
from collections.abc import Sequence
from itertools import cycle, islice

import numpy as np
from msgspec import structs

from similia.contract import Indices
from similia.service.answers import Question
from similia.service.engine.fold import FrozenState
from similia.service.engine.ranking import asked_row, best, query_vector
from similia.service.errors import Invalid
from similia.service.log.log import Log
from similia.service.log.provenance import is_held_out, question_id
from similia.service.log.records import JUDGEMENTS, Query, TenantSettings, query_key, readable
from similia.similarity.blend import Blend

#: last judgements whose queries are asked about, or items if there are none
N_RECENT = 200
RANDOM_ONE_IN = 5
#: items that rank first for a query are compared
N_COMPARED = 20
#: comparisons to choose from: at most, for each that is asked, and about one query
MAX_CHOICES, CHOICES_EACH, CHOICES_A_QUERY = 1200, 100, 16


def questions(
    state: FrozenState,
    log: Log,
    n: int,
    judge: str | None,
    pool: Sequence[Query],
    settings: TenantSettings,
    key: str = "",
) -> list[Question]:
    """Questions about queries of the pool and those met before; else about items as queries.

    Only random questions are about queries that are held out for exams. A `key` asks for a judge
    of its choice.
    """
    if state.layout is None or state.snapshot is None or len(state.snapshot) < 3:
        return []
    rng = np.random.default_rng(secrets.randbits(64))
    known = _queries(state, log, rng, judge, pool)
    held = [is_held_out(query_key(query), settings) for query in known]
    taught = [query for query, apart in zip(known, held, strict=True) if not apart]
    exams = [query for query, apart in zip(known, held, strict=True) if apart]
    if state.learner is None or not taught:
        found = _random(state, known, n, rng)
    else:
        by_chance = int((rng.integers(RANDOM_ONE_IN, size=n) == 0).sum())
        found = _random(state, exams or known, by_chance, rng)
        found += suggested(state, state.learner, taught, n - by_chance, rng)
        found = [found[place] for place in rng.permutation(len(found))]
    return [signed(question, judge, settings, key) for question in found]


def signed(
    question: Question, judge: str | None, settings: TenantSettings, key: str = ""
) -> Question:
    """The question, with an id that proves to whom it was asked."""
    pair = (question.left, question.right)
    id = question_id(settings, judge, question.query, pair, question.source, key)
    return structs.replace(question, id=id)


def _random(
    state: FrozenState, queries: list[Query], n: int, rng: np.random.Generator
) -> list[Question]:
    found = []
    for query in islice(cycle(queries), n):
        rows = _first(state, query)
        if len(rows) > 1:
            pair = rng.choice(rows, 2, replace=False)
            found.append(_question(state, query, pair, "random", rng))
    return found


def suggested(
    state: FrozenState, learner: Blend, queries: list[Query], n: int, rng: np.random.Generator
) -> list[Question]:
    """The comparisons that would teach most, of some drawn at random from what ranks first."""
    assert state.layout is not None
    assert state.snapshot is not None
    if n == 0:
        return []
    drawn = min(MAX_CHOICES, CHOICES_EACH * n)
    asked = queries[: max(1, drawn // CHOICES_A_QUERY)]
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
    queried = state.layout.queries(np.stack([asked_row(state, query) for query in asked]))
    items = state.layout.items(state.snapshot.matrix[shown])
    local = np.column_stack([triplets[:, 0], places.reshape(-1, 2)])
    chosen = learner.suggest(queried, local, min(n, len(local)), items=items)
    return [
        _question(state, asked[query], np.array(pair), "suggested", rng)
        for query, *pair in triplets[chosen].tolist()
    ]


def _first(state: FrozenState, query: Query) -> Indices:
    """Rows of the items that rank first for a query, except itself."""
    assert state.snapshot is not None
    own = state.snapshot.row(query.item) if query.item is not None else None
    vector = query_vector(state, asked_row(state, query))
    return best(state.snapshot, vector, N_COMPARED, [] if own is None else [own])[0]


def _question(
    state: FrozenState, query: Query, pair: Indices, source: str, rng: np.random.Generator
) -> Question:
    """The sides are random."""
    assert state.snapshot is not None
    left, right = (state.snapshot.rows.ids[row] for row in rng.permutation(pair))
    return Question("", query, left, right, source)


def _queries(
    state: FrozenState,
    log: Log,
    rng: np.random.Generator,
    judge: str | None,
    pool: Sequence[Query],
) -> list[Query]:
    assert state.snapshot is not None
    known = {query_key(query): query for query in pool}
    mine = set()
    for row, _ in log.search(max(0, log.last - N_RECENT), N_RECENT):
        record = readable(row.body)
        if isinstance(record, JUDGEMENTS) and row.query is not None:
            query = record.query
            if _is_rankable(state, query):
                known[row.query] = query
            if judge is not None and row.judge == judge:
                mine.add(row.query)
    found = [query for key, query in known.items() if key not in mine] or list(known.values())
    if not found:
        rows = state.snapshot.some(N_RECENT)
        found = [Query(item=state.snapshot.rows.ids[row]) for row in rows]
    return [found[i] for i in rng.permutation(len(found))]


def _is_rankable(state: FrozenState, query: Query) -> bool:
    """Whether items can be ranked for a query of the log, which may be of other views."""
    assert state.layout is not None
    assert state.snapshot is not None
    if query.vectors:
        try:
            state.layout.check_query(query.vectors)
        except Invalid:
            return False
        return True
    return query.item is not None and state.snapshot.row(query.item) is not None
