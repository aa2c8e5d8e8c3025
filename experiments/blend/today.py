"""What users do today with the same log: each has settings, chosen on searches that it kept back.

Doing nothing is the first setting of all. Whoever learns for all queries is validated on the lists
of a third of them, whoever only changes queries that were judged on the last list of each, fixed
weights, which learn nothing, on all lists. The measure is DCG of the clicks, each divided by the
probability that its place was looked at: nobody outside a simulation knows that, and of five
measures it chose best for fixed weights, on seeds 0 to 3.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.blend.clicks import SHOWN, Collection, Log
from experiments.peers.call import rank_lists, train_adapter
from similia.contract import Array, Indices

#: rows of queries -> scores of all items
Scorer = Callable[[Indices], Array]
Setting = dict[str, Any]
#: items of the base that LambdaMART puts in a new order
RERANKED = 100
#: triplets that the adapter learns from, at most
MOST = 4000


def rocchio(data: Collection, log: Log, setting: Setting, rng: Any) -> Scorer:
    """Query moved towards the mean of what was clicked and away from that of what was not."""
    Q, Z = data.queries["meaning"], data.items["meaning"]

    def scores(rows: Indices) -> Array:
        moved = Q[rows].copy()
        for vector, (good, bad) in zip(moved, _judged(log, rows), strict=True):
            if len(good):
                vector += setting["clicked"] * Z[good].mean(axis=0)
            if len(bad):
                vector -= setting["passed"] * Z[bad].mean(axis=0)
        return moved @ Z.T

    return scores


def qdrant(data: Collection, log: Log, setting: Setting, rng: Any) -> Scorer:
    """Strategies of Qdrant's recommendations; the query itself is the first positive example.

    average_vector: search with 2 avg(positives) - avg(negatives). best_score: that of the best
    positive example, or minus the square of that of the best negative one if it is higher.
    sum_scores: positives minus negatives. See qdrant.tech/documentation/concepts/explore.
    """
    Q, Z = data.queries["meaning"], data.items["meaning"]

    def scores(rows: Indices) -> Array:
        found = data.base[rows].copy()
        for i, (good, bad) in enumerate(_judged(log, rows)):
            if not len(good):
                continue
            positives = np.vstack([Q[rows[i]][None], Z[good]])
            negatives = Z[bad] if setting["negatives"] else Z[:0]
            if setting["strategy"] == "average_vector":
                vector = positives.mean(axis=0)
                if len(negatives):
                    vector = 2 * vector - negatives.mean(axis=0)
                found[i] = Z @ vector
                continue
            ours, theirs = Z @ positives.T, Z @ negatives.T
            if setting["strategy"] == "sum_scores":
                found[i] = ours.sum(axis=1) - theirs.sum(axis=1)
            else:
                best = ours.max(axis=1)
                worst = theirs.max(axis=1, initial=-np.inf)
                found[i] = np.where(best > worst, best, -(worst**2))
        return found

    return scores


def hybrid(data: Collection, log: Log, setting: Setting, rng: Any) -> Scorer:
    """Fixed weights of all views, each measured in its typical gap."""
    gaps = _gaps(data)

    def scores(rows: Indices) -> Array:
        return data.base[rows] / gaps["meaning"] + sum(
            weight / gaps[name] * data.scores[name][rows]
            for name, weight in setting.items()
            if weight
        )

    return scores


def adapter(data: Collection, log: Log, setting: Setting, rng: Any) -> Scorer:
    """Linear map of queries, trained in torch by Adam on the hinge loss of triplets."""
    Q, Z = data.queries["meaning"], data.items["meaning"]
    triplets = rng.permutation(log.triplets(rng))[:MOST]
    if not len(triplets):
        return lambda rows: data.base[rows]
    W, _ = train_adapter(Q, Z, triplets, {"margin": 0.1, "seed": 0, **setting})
    return lambda rows: Q[rows] @ W @ Z.T


def lambdamart(data: Collection, log: Log, setting: Setting, rng: Any) -> Scorer:
    """Trees of lightgbm over the views put the base's first hundred in order."""
    some = log.part(log.gains.any(axis=1))
    arrays = {
        "X": _features(data, some.queries, some.shown),
        "y": some.gains.ravel(),
        "sizes": np.full(len(some.queries), SHOWN),
        "places": np.tile(np.arange(SHOWN), len(some.queries)),
    }

    def scores(rows: Indices) -> Array:
        first = np.argpartition(-data.base[rows], RERANKED, axis=1)[:, :RERANKED]
        others = _features(data, rows, first)
        learnt = rank_lists({**arrays, "others": others}, setting).reshape(first.shape)
        found = data.base[rows] - np.ptp(data.base) - np.ptp(learnt)
        np.put_along_axis(found, first, (learnt - learnt.min()).astype(found.dtype), axis=1)
        return found

    return scores if len(some.queries) else lambda rows: data.base[rows]


#: name -> contender, which lists validate it, and its settings
TODAY: dict[str, tuple[Callable[..., Scorer], str, list[Setting]]] = {
    "Rocchio": (
        rocchio,
        "last",
        [{"clicked": a, "passed": b} for a in (0.1, 0.25, 0.5, 1.0) for b in (0.0, 0.25)],
    ),
    "Qdrant": (
        qdrant,
        "last",
        [
            {"strategy": name, "negatives": given}
            for name in ("average_vector", "best_score", "sum_scores")
            for given in (False, True)
        ],
    ),
    "hybrid": (
        hybrid,
        "all",
        [
            {"words": a, "bm25": b, "length": c}
            for a in (0.0, 0.5, 1.0, 2.0)
            for b in (0.0, 0.5, 1.0, 2.0)
            for c in (-0.3, 0.0, 0.3)
        ],
    ),
    "adapter": (
        adapter,
        "held out",
        [{"lr": rate, "epochs": n} for rate in (1e-4, 1e-3) for n in (1, 5)],
    ),
    "LambdaMART": (
        lambdamart,
        "held out",
        [
            {"num_leaves": leaves, "learning_rate": 0.1, "rounds": rounds}
            for leaves in (3, 7)
            for rounds in (20, 100)
        ],
    ),
}


def tuned(name: str, data: Collection, log: Log, seed: int) -> tuple[Scorer, Setting | None]:
    """Choose a setting on a part of the log, then learn from all of it."""
    make, lists, settings = TODAY[name]
    kept = {
        "all": lambda: np.ones(len(log.queries), bool),
        "last": lambda: _last_lists(log),
        "held out": lambda: _queries_held_out(log, seed),
    }[lists]()
    valid = log.part(kept & log.gains.any(axis=1))
    best, chosen = _clicks_found(lambda rows: data.base[rows], valid), None
    for setting in settings if len(valid.queries) else []:
        scorer = make(data, log.part(~kept), setting, np.random.default_rng(seed))
        value = _clicks_found(scorer, valid)
        if value > best:
            best, chosen = value, setting
    if chosen is None:
        return lambda rows: data.base[rows], None
    return make(data, log, chosen, np.random.default_rng(seed)), chosen


def _queries_held_out(log: Log, seed: int) -> Any:
    asked = np.unique(log.queries)
    held = np.random.default_rng([seed, 1]).permutation(asked)[: max(1, len(asked) // 3)]
    return np.isin(log.queries, held)


def _last_lists(log: Log) -> Any:
    """The last list of every query that has several."""
    _, last, counts = np.unique(log.queries[::-1], return_index=True, return_counts=True)
    kept = np.zeros(len(log.queries), bool)
    kept[len(kept) - 1 - last[counts > 1]] = True
    return kept


def _clicks_found(scorer: Scorer, log: Log) -> float:
    """Mean DCG of the clicks in lists that are put in a new order."""
    if not len(log.queries):
        return 0.0
    asked, place = np.unique(log.queries, return_inverse=True)
    scores = np.take_along_axis(scorer(asked)[place], log.shown, axis=1)
    gains, discount = log.gains / log.examined, 1 / np.log2(np.arange(2, SHOWN + 2))
    order = np.argsort(-scores, axis=1, kind="stable")
    return float(np.mean(np.take_along_axis(gains, order, axis=1) @ discount))


def _judged(log: Log, rows: Indices) -> list[tuple[Indices, Indices]]:
    """Items clicked for each query, and items that were passed over above a click."""
    lists: dict[int, list[int]] = {}
    for i, query in enumerate(log.queries):
        lists.setdefault(int(query), []).append(i)
    found = []
    for query in rows:
        good: set[int] = set()
        bad: set[int] = set()
        for i in lists.get(int(query), []):
            clicked = np.flatnonzero(log.gains[i] > 0)
            good.update(log.shown[i, clicked].tolist())
            if len(clicked):
                bad.update(log.shown[i, : clicked[-1]].tolist())
        found.append((np.array(sorted(good), np.intp), np.array(sorted(bad - good), np.intp)))
    return found


def _features(data: Collection, rows: Indices, items: Indices) -> Array:
    return np.column_stack(
        [scores[rows[:, None], items].ravel() for scores in data.scores.values()]
    )


def _gaps(data: Collection) -> dict[str, float]:
    rng = np.random.default_rng(0)
    m, n = data.base.shape
    q, a, b = (rng.integers(size, size=4000) for size in (m, n, n))
    return {
        name: float((scores[q, a] - scores[q, b]).std()) for name, scores in data.scores.items()
    }
