"""What the first judgement and the first ranking need, loaded before them."""

import time

import numpy as np

from similia.linalg.threads import single_blas_thread
from similia.service.engine import ranking
from similia.service.engine.fold import LISTS_PER_BLOCK, Fold
from similia.service.judging.questions import suggested
from similia.service.log.log import Row
from similia.service.log.records import (
    Clicks,
    Configured,
    Grades,
    Item,
    NoneOfThese,
    Put,
    Query,
    Record,
    TenantSettings,
    Tie,
    Triplet,
    View,
    encoded,
)

N_ITEMS = 16
#: what tenants look like: one view, or several and a field
SHAPES = (
    [View("vectors", 4)],
    [View("vectors", 4), View("words", 3), View("price", 1, compared=False)],
)


def warm_up() -> float:
    """Learn and rank in tenants that are nowhere stored; seconds it took."""
    start = time.perf_counter()
    with single_blas_thread():
        for views in SHAPES:
            _rehearse(views)
    return time.perf_counter() - start


def _rehearse(views: list[View]) -> None:
    fold = Fold()
    for seq, record in enumerate(_records(views), 1):
        fold.feed(Row(seq, seq, "", encoded(record), None, None, None, None, b""))
    state, query = fold.state(), Query(item="i0")
    for explain in (False, True):
        ranking.ranked(state, query, 5, "live", items=None, explain=explain, row_of=_no_row)
    assert state.learner is not None
    suggested(state, state.learner, [query], 2, np.random.default_rng(0))


def _no_row(seq: int) -> Row | None:
    """No log is behind a rehearsal."""
    return None


def _records(views: list[View]) -> list[Record]:
    """A block of judgements of all kinds, and a few more."""
    rng = np.random.default_rng(0)
    items = [
        Item(
            id=f"i{i}", vectors={view.name: rng.normal(size=view.width).tolist() for view in views}
        )
        for i in range(N_ITEMS)
    ]
    records: list[Record] = [Configured(settings=TenantSettings(views=views)), Put(items=items)]
    for number in range(LISTS_PER_BLOCK + 8):
        query = Query(item=f"i{number % N_ITEMS}")
        one, other, third = (f"i{(number + step) % N_ITEMS}" for step in (1, 3, 5))
        if number < 8:
            records += [
                Tie(query=query, items=(one, other)),
                NoneOfThese(query=query, shown=[one, other]),
                Grades(query=query, grades={one: 2.0, other: 1.0, third: 0.0}),
                Clicks(query=query, shown=[one, other, third], clicked=[other]),
            ]
        records.append(Triplet(query=query, better=one, worse=other))
    return records
