"""Single judgements: whether they are obeyed, what drift and mistakes do, and fixed settings.

Blend has no settings; the others are shown with those of a grid that turn out best on the test
triplets of all seeds, for each set and number of judgements, which is more than anybody could do.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from experiments.blend.clicks import CUT, Collection, collection
from experiments.datasets import load_newsgroups_terms, load_zappos
from experiments.problems import search
from experiments.rows import HERE, Row, append_rows, as_text, read_rows, versions
from similia import OASIS, Blend, DiagonalAROMA, FactoredAROMA, evaluate
from similia.contract import Indices, Matrix
from similia.feedback.grades import RelevanceTriplets
from similia.feedback.sampling import UniformTriplets

FOLDER = HERE / "results" / "blend"
SEEDS = range(1000, 1005)
#: further ones of drift, where five leave an interval of 0.007; Blend alone
OF_DRIFT = range(7000, 7020)
TESTED = 5000
#: single judgements that must be obeyed
SINGLE = 50
#: queries less alike than this must not notice a judgement
FAR = 0.5
#: of which so many are ranked before and after
FAR_RANKED = 20
#: what is measured of single judgements; "apart": what is published anyway left out
SINGLE_MEASURES = (
    "obeyed",
    "far: same ten",
    "far: same order",
    "far: same ten, apart",
    "far: same order, apart",
)


class Stream(NamedTuple):
    """Vectors and triplets to learn from, and others to put in order."""

    X: Matrix
    triplets: Indices
    Z: Matrix
    tested: Indices


def _fixed() -> dict[str, Callable[[], Any]]:
    """Learners of today by name and settings."""
    made: dict[str, Callable[[], Any]] = {"Blend": Blend}
    grids: dict[Any, list[dict[str, Any]]] = {
        FactoredAROMA: [
            {},
            *(
                {"update_on": "margin", "r": r, "prior_scale": scale, "average": average}
                for r in ("auto", 1.0)
                for scale in ("auto", 1.0)
                for average in (True, False)
            ),
        ],
        DiagonalAROMA: [
            {},
            {"update_on": "margin", "average": False},
            {"update_on": "margin", "prior_scale": 1.0},
            {"update_on": "margin", "r": 1.0, "prior_scale": 1.0, "average": False},
        ],
        OASIS: [{}, {"C": 1.0, "prior_scale": 1.0}, {"prior_scale": 1.0}],
    }
    for learner, settings in grids.items():
        for given in settings:
            name = f"{learner.__name__} {as_text(given)}"
            made[name] = lambda learner=learner, given=given: learner(**given)
    return made


FIXED = _fixed()


def tastes(seed: int, n: int, first: int = 0) -> Stream:
    """64 Gaussian features; 16 of them, from `first` on, say what is alike."""
    rng = np.random.default_rng([seed, first])
    X, Z = rng.standard_normal((2, 4000, 64), dtype=np.float32)

    def ordered(points: Matrix, size: int) -> Indices:
        rows = rng.integers(len(points), size=(size, 3))
        q, a, b = (points[rows[:, i], first : first + 16] for i in range(3))
        wrong = np.vecdot(q, a - b) < 0
        return np.where(wrong[:, None], rows[:, [0, 2, 1]], rows)

    return Stream(X, ordered(X, n), Z, ordered(Z, TESTED))


def digits(seed: int, n: int) -> Stream:
    X, y = load_digits(return_X_y=True)
    return _labelled((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), y, seed, n)


def bags(seed: int, n: int) -> Stream:
    """20 Newsgroups as tf-idf of 1,000 terms; the terms are those of its own training half."""
    data = load_newsgroups_terms(quotes=False)
    return _labelled(data.X, data.y, seed, n)


def shoes(seed: int, n: int) -> Stream:
    """Answers of people about 85 shoes; other answers about the same ones are the test."""
    data = load_zappos()
    X = data.X / np.linalg.norm(data.X, axis=1, keepdims=True)
    order = np.random.default_rng(seed).permutation(len(data.triplets))
    return Stream(X, data.triplets[order[:n]], X, data.triplets[order[n : n + TESTED]])


def _labelled(X: Matrix, y: Any, seed: int, n: int) -> Stream:
    rng = np.random.default_rng(seed)
    train, test = np.array_split(rng.permutation(X.shape[0]), 2)
    drawn = [
        UniformTriplets(y[rows]).draw(size, rng) for rows, size in ((train, n), (test, TESTED))
    ]
    return Stream(X[train], drawn[0], X[test], drawn[1])


#: name -> stream, checkpoints, seeds
STREAMS: dict[str, tuple[Callable[[int, int], Stream], tuple[int, ...], Any]] = {
    "synthetic": (tastes, (300, 1000, 3000, 10_000), SEEDS),
    "digits": (digits, (100, 300, 1000, 3000, 10_000), SEEDS),
    "shoes": (shoes, (300, 1000, 3000), SEEDS[:3]),
    "bags of words": (bags, (300, 1000, 3000, 10_000), SEEDS[:2]),
}


def settings(name: str) -> Iterator[None]:
    """Order right on test triplets, for Blend and for fixed settings of the others."""
    make, steps, seeds = STREAMS[name]
    for seed in seeds:
        for contender, learner in FIXED.items():
            if _is_done(name, "{}", contender, seed):
                continue
            stream, found, before = make(seed, max(steps)), learner(), 0
            rows = []
            for step in steps:
                found.learn(stream.X, stream.triplets[before:step])
                before, value = step, found.score(stream.Z, stream.tested)
                rows.append(_row(name, "{}", contender, seed, step, TESTED, "order right", value))
            _keep(rows)
            yield


def drift(name: str) -> Iterator[None]:
    """20,000 judgements of one taste, then 4,000 of another, against the 4,000 alone."""
    learners: dict[str, Callable[[], Any]] = {
        "Blend": Blend,
        "FactoredAROMA": FactoredAROMA,
        "FactoredAROMA, last state": lambda: FactoredAROMA(update_on="margin", average=False),
    }
    for seed in (*SEEDS, *OF_DRIFT):
        old, new = tastes(seed, 20_000), tastes(seed, 4000, 16)
        for contender, make in learners.items():
            others = seed in OF_DRIFT and contender != "Blend"
            if others or _is_done(name, "{}", contender, seed):
                continue
            changed, fresh, before = make().learn(old.X, old.triplets), make(), 0
            found = [(len(old.triplets), "one taste", changed.score(old.Z, old.tested))]
            for step in (500, 1000, 2000, 4000):
                for measure, learner in (("after a change", changed), ("fresh", fresh)):
                    learner.learn(new.X, new.triplets[before:step])
                    found.append((step, measure, learner.score(new.Z, new.tested)))
                before = step
            start = name, "{}", contender, seed
            _keep([_row(*start, step, TESTED, measure, value) for step, measure, value in found])
            yield


def mistakes(name: str) -> Iterator[None]:
    """nDCG@10 lost on new queries where the base is right and one judgement in ten is wrong."""
    for source in ("cisi", "cranfield"):
        for seed in SEEDS:
            for contender in ("Blend", "FactoredAROMA {}"):
                options = as_text({"set": source})
                if _is_done(name, options, contender, seed):
                    continue
                rows, learner, before = [], FIXED[contender](), 0
                problem = search(seed, name=source, n=10_000, perfect=True, noise=0.1)
                (Q, Z, triplets), test = problem.X_train, problem.X_test
                for step in (100, 300, 1000, 3000, 10_000):
                    learner.learn(Q, triplets[before:step], items=Z)
                    before = step
                    given = {**test.relevant, "k": CUT, "measures": ("ndcg",)}
                    value = evaluate(learner, test.Q, test.Z, **given).means["ndcg@10"]
                    n = len(test.Q)
                    rows.append(_row(name, options, contender, seed, step, n, "ndcg@10", value))
                _keep(rows)
                yield


def obedience(name: str) -> Iterator[None]:
    """Put an item from far down above the first, and see whether that holds at the next search."""
    contenders: dict[str, tuple[Callable[[], Any], bool]] = {
        "Blend": (Blend, True),
        "Blend, vectors only": (Blend, False),
        "FactoredAROMA": (FactoredAROMA, False),
        "FactoredAROMA, last state": (lambda: FactoredAROMA(average=False), False),
    }
    for source in ("cranfield", "cisi"):
        data = collection(source)
        for seed in SEEDS:
            for contender, (make, has_views) in contenders.items():
                options = as_text({"set": source})
                if _is_done(name, options, contender, seed):
                    continue
                rng, learner, before, rows = np.random.default_rng(seed), make(), 0, []
                sides = data.queries, data.items
                Q, Z = sides if has_views else (side["meaning"] for side in sides)
                judged, single = np.split(
                    rng.permutation(len(data.base)), [len(data.base) * 2 // 3]
                )
                grades = np.zeros_like(data.grades)
                grades[judged] = data.grades[judged]
                stream = RelevanceTriplets(grades).draw(10_000, rng)
                for step in (0, 1000, 10_000):
                    learner.learn(Q, stream[before:step], items=Z)
                    before, tried = step, copy.deepcopy(learner)
                    for measure, value in _single(tried, Q, Z, data, single, rng).items():
                        rows.append(
                            _row(name, options, contender, seed, step, SINGLE, measure, value)
                        )
                _keep(rows)
                yield


def _single(
    learner: Any, Q: Any, Z: Any, data: Collection, queries: Indices, rng: Any
) -> dict[str, float]:
    """Shares of judgements obeyed, and of far queries whose first ten they leave alone.

    Once against the ranking before the judgement, once against that of a learner that was told the
    opposite and publishes whenever the other does.
    """
    vectors = data.queries["meaning"]
    counts = np.zeros(len(SINGLE_MEASURES))
    for query in rng.choice(queries, SINGLE):
        far = np.flatnonzero(vectors @ vectors[query] < FAR)
        far = rng.permutation(far)[:FAR_RANKED]
        rows = np.concatenate([[query], far])
        before = np.argsort(-learner.pairwise_score(Q[rows], Z), axis=1)
        triplet = [[query, before[0, rng.integers(20, 100)], before[0, 0]]]
        twin = copy.deepcopy(learner)
        learner.learn(Q, triplet, items=Z)
        after = np.argsort(-learner.pairwise_score(Q[rows], Z), axis=1)
        place = np.argsort(after[0])
        twin.learn(Q, [[query, *triplet[0][:0:-1]]], items=Z)  # it was told the opposite
        without = np.argsort(-twin.pairwise_score(Q[rows], Z), axis=1)
        counts += [
            place[triplet[0][1]] < place[triplet[0][2]],
            *_kept(before[1:, :CUT], after[1:, :CUT]),
            *_kept(without[1:, :CUT], after[1:, :CUT]),
        ]
    return dict(zip(SINGLE_MEASURES, (counts / SINGLE).tolist(), strict=True))


def _kept(was: Indices, now: Indices) -> tuple[float, float]:
    """Shares of queries with the same first items, as a set and in order."""
    same = np.sort(was) == np.sort(now)
    return float(same.all(axis=1).mean()), float((was == now).all(axis=1).mean())


def run(names: list[str]) -> None:
    """Append the rows of runs that have none."""
    with threadpool_limits(1):
        for name in names:
            make = {"drift": drift, "mistakes": mistakes, "obedience": obedience}
            for _ in make.get(name, settings)(name):
                print(name, flush=True)


NAMES = ("obedience", "drift", "mistakes", *STREAMS)


def _is_done(name: str, options: str, contender: str, seed: int) -> bool:
    key = name, options, contender, seed
    columns = ("problem", "options", "contender", "seed")
    return any(tuple(row[c] for c in columns) == key for row in read_rows(FOLDER))


def _keep(rows: list[Row]) -> None:
    append_rows(FOLDER / "judgements.csv", rows)


def _row(
    problem: str,
    options: str,
    contender: str,
    seed: int,
    step: int,
    n: int,
    measure: str,
    value: Any,
) -> Row:
    return {
        "stage": "run",
        "problem": problem,
        "options": options,
        "contender": contender,
        "parameters": "{}",
        "seed": seed,
        "step": step,
        "queries": n,
        "score": "inner_product",
        "measure": measure,
        "value": f"{value:.6f}",
        "seconds": 0,
        "versions": versions(),
        "note": "",
    }
