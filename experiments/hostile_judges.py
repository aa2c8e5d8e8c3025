"""What hostile judges can do: buy a promotion, and move a ranking.

    python -m experiments.hostile_judges [streams]

*Promotions.* Fifty judges answer exam questions; the challenger is no better than the champion, so
honest answers favour either as often. Hostile judges always favour the challenger, and answer as
much as is counted. The challenger comes back after each of five days. Printed is the share of
streams in which it is ever promoted, by what counts: every row that calls itself an exam's, as in
version 0.2; only answers to questions of the service, so many a day; and these without the judges
who favour it most. The test's level is 0.05.

*Rankings.* Judges compare items of small queries, hostile ones against the truth. Printed is the
share of honest comparisons on new queries that the model puts in the right order.
"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.service.engine.exams import FAVOURERS_ONE_IN, MAX_ANSWERS_A_DAY, MIN_JUDGES
from similia.service.engine.fold import Fold
from similia.service.log.records import (
    Configured,
    Item,
    Put,
    Query,
    Record,
    TenantSettings,
    Triplet,
    View,
    encoded,
)
from similia.service.log.rows import Row
from similia.trust.evidence import Evidence

LEVEL = 0.05
JUDGES, DAYS, HONEST_A_DAY, HOSTILE_ROWS = 50, 5, 20, 3000
SHARES = (0.01, 0.03, 0.10)
#: share of comparisons in which honest judges see no difference between the models
SAME = 0.5
#: how much better the challenger is where the test is to find it
GAIN = 0.15

WIDTH, ITEMS, TAUGHT = 6, 60, 1500


class Answers(NamedTuple):
    """Differences of one day, for or against the challenger, and whose they are."""

    differences: NDArray[np.float64]
    judges: NDArray[np.intp]


def day(rng: np.random.Generator, hostile: int, rows: int, gain: float = 0.0) -> Answers:
    """Answers of a day, of which each hostile judge gives so many."""
    honest = np.repeat(np.arange(hostile, JUDGES), HONEST_A_DAY)
    draws = rng.random(len(honest))
    said = np.where(draws < SAME, 0.0, np.where(draws < (1 + SAME + gain) / 2, 1.0, -1.0))
    theirs = np.repeat(np.arange(hostile), rows)
    return Answers(np.concatenate([np.ones(len(theirs)), said]), np.concatenate([theirs, honest]))


def without_favourers(found: Answers) -> Answers:
    """Answers without the judges who favour the challenger most, as in an exam."""
    sums = np.bincount(found.judges, found.differences, JUDGES)
    n = int((np.bincount(found.judges, minlength=JUDGES) > 0).sum())
    if n < MIN_JUDGES:
        return found
    left_out = np.argsort(-sums, kind="stable")[: -(-n // FAVOURERS_ONE_IN)]
    kept = ~np.isin(found.judges, left_out)
    return Answers(found.differences[kept], found.judges[kept])


def is_promoted(rng: np.random.Generator, hostile: int, rule: str, gain: float = 0.0) -> bool:
    """Whether a challenger is promoted on one of the days."""
    rows = HOSTILE_ROWS if rule == "every row" else MAX_ANSWERS_A_DAY
    evidence, so_far = Evidence(), Answers(np.zeros(0), np.zeros(0, np.intp))
    for _ in range(DAYS):
        new = day(rng, hostile, rows, gain)
        so_far = Answers(*map(np.concatenate, zip(so_far, new, strict=True)))
        counted = without_favourers(so_far) if rule == "without favourers" else so_far
        # Challenges of later days are about the same queries and some more.
        evidence = Evidence().after(1, list(map(str, range(len(counted[0])))), counted.differences)
        if evidence.value >= 1 / LEVEL:
            return True
    return False


def promotions(streams: int) -> Iterator[str]:
    """Lines of the first table."""
    yield f"{'hostile':>8} {'every row':>12} {'bounded':>12} {'without favourers':>18}"
    for share in (0.0, *SHARES):
        hostile = round(share * JUDGES + 0.49)
        found = []
        for rule in ("every row", "bounded", "without favourers"):
            rng = np.random.default_rng([5, hostile])
            bought = sum(is_promoted(rng, hostile, rule) for _ in range(streams))
            found.append(bought / streams)
        yield f"{share:>8.0%} {found[0]:>12.3f} {found[1]:>12.3f} {found[2]:>18.3f}"
    rng = np.random.default_rng(6)
    better = sum(is_promoted(rng, 0, "without favourers", GAIN) for _ in range(streams)) / streams
    yield f"one that is better by {GAIN}, without hostile judges or favourers: {better:.3f}"


def taught(seed: int, share: float) -> float:
    """Share of new comparisons in the right order, after judges of whom a share is hostile."""
    rng = np.random.default_rng([7, seed])
    views = [View("noise", WIDTH), View("truth", WIDTH)]
    rows = {view.name: rng.normal(size=(ITEMS, WIDTH)) for view in views}
    items = [
        Item(id=f"i{i}", vectors={name: each[i].tolist() for name, each in rows.items()})
        for i in range(ITEMS)
    ]
    records: list[Record] = [Configured(settings=TenantSettings(views=views)), Put(items=items)]
    for _ in range(TAUGHT):
        asked = rng.normal(size=(2, WIDTH))
        one, other = rng.choice(ITEMS, 2, replace=False)
        gap = (rows["truth"][one] - rows["truth"][other]) @ asked[1]
        if (gap < 0) ^ (rng.random() < share):
            one, other = other, one
        query = Query(vectors={"noise": asked[0].tolist(), "truth": asked[1].tolist()})
        records.append(Triplet(query=query, better=f"i{one}", worse=f"i{other}"))
    fold = Fold()
    for seq, record in enumerate(records, 1):
        fold.take(Row(seq, seq, "", encoded(record), None, None, None, None, b""))
    state = fold.state()
    assert state.learner is not None
    assert state.layout is not None
    assert state.snapshot is not None
    asked = rng.normal(size=(500, 2, WIDTH))
    queries = asked.reshape(500, -1).astype(np.float32)
    vectors = np.asarray(state.learner.query_vectors(state.layout.queries(queries)))
    pairs = np.array([rng.choice(ITEMS, 2, replace=False) for _ in range(500)])
    scores = vectors @ state.snapshot.matrix.T
    truth = asked[:, 1] @ rows["truth"].T
    take = np.arange(500)
    gaps = [each[take, pairs[:, 0]] - each[take, pairs[:, 1]] for each in (scores, truth)]
    return float((np.sign(gaps[0]) == np.sign(gaps[1])).mean())


def main() -> None:
    """Print both tables."""
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    sys.stdout.write("promotions of a challenger that is no better\n")
    for line in promotions(streams):
        sys.stdout.write(f"{line}\n")
    sys.stdout.write("\nnew comparisons in the right order\n")
    for share in (0.0, *SHARES):
        found = [taught(seed, share) for seed in range(5)]
        sys.stdout.write(f"{share:>8.0%} {np.mean(found):>8.3f}\n")


if __name__ == "__main__":
    main()
