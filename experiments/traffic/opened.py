"""Real clicks: learn from what people opened, judge by what another person saved.

Each person is left out in turn; contenders learn from all others' lists in the order of the log and
put what the person had seen of each list in order. Places start anew on each page of ten, as people
look again; `pages=False` counts them through.
"""

import csv
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from experiments.datasets.clicks import PAGE, SearchLog, load_lisp
from experiments.traffic.contenders import chosen_setting
from experiments.traffic.rankers import PRIOR
from experiments.traffic.results import FOLDER
from experiments.traffic.world import SHOWN
from similia import Blend, Impressions, Views
from similia.contract import Array, Indices
from similia.progress import progress

PATH = FOLDER / "opened.csv"
COLUMNS = ("contender", "person", "lists", "ndcg", "ndcg weighted")


class Lists(NamedTuple):
    """What was seen: one row for each item on a page that was looked at, list by list."""

    list: Indices
    person: Indices
    query: Indices
    item: Indices
    #: score that ranked, from 0 to 1 over all items of the list
    score: Array
    #: place from 0, and on its own page
    rank: Indices
    place: Indices
    opened: NDArray[np.bool_]
    saved: NDArray[np.bool_]

    def of(self, rows: Any) -> "Lists":
        return Lists(*(given[rows] for given in self))


class Learner(Protocol):
    def learn(self, lists: Lists) -> None: ...

    def scores(self, lists: Lists) -> Array: ...


def seen_lists(log: SearchLog) -> tuple[Lists, Array]:
    """What was seen, and the scores of all items for all queries, (n_queries, n_items)."""
    query, item, person = (
        np.unique(names, return_inverse=True)[1] for names in (log.query, log.doc, log.user)
    )
    scores = np.zeros((query.max() + 1, item.max() + 1), dtype=np.float32)
    scores[query, item] = log.bm25
    starts = np.flatnonzero(np.diff(log.list, prepend=-1))
    low, high = (reach.reduceat(log.bm25, starts)[log.list] for reach in (np.minimum, np.maximum))
    scaled = (log.bm25 - low) / np.maximum(high - low, 1e-9)
    place = (log.rank - 1) % PAGE
    columns = log.list, person, query, item, scaled, log.rank - 1, place, log.opened, log.saved
    return Lists(*columns).of(log.seen), scores


class LoggedOrder:
    def learn(self, lists: Lists) -> None:
        pass

    def scores(self, lists: Lists) -> Array:
        return -lists.rank.astype(float)


class Rates:
    """Clicks over expected clicks by place, of pairs and of items."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.pairs, self.items = np.zeros((2, *shape)), np.zeros((2, shape[1]))

    def learn(self, lists: Lists) -> None:
        looks = np.maximum(np.bincount(lists.place, minlength=PAGE), 1)
        chance = (np.bincount(lists.place, lists.opened, PAGE) / looks)[lists.place]
        for row, given in enumerate((lists.opened, chance)):
            np.add.at(self.pairs[row], (lists.query, lists.item), given)
            np.add.at(self.items[row], lists.item, given)

    def of(self, lists: Lists, *, without: bool) -> tuple[Array, Array]:
        """Log rates of items and pairs; `without` what the rows themselves say."""
        found = []
        for counts in (self.items[:, lists.item], self.pairs[:, lists.query, lists.item]):
            own = np.zeros_like(counts)
            if without:
                looks = np.maximum(np.bincount(lists.place, minlength=PAGE), 1)
                own[0] = lists.opened
                own[1] = (np.bincount(lists.place, lists.opened, PAGE) / looks)[lists.place]
            counts = np.maximum(counts - own, 0.0)
            found.append(np.log((counts[0] + PRIOR) / (counts[1] + PRIOR)))
        return found[0], found[1]


class Table:
    """Scores from 0 to 1 and the rates of pairs, or of items whatever was asked."""

    def __init__(self, shape: tuple[int, int], boost: float, *, items: bool) -> None:
        self.rates, self.boost, self.by_item = Rates(shape), boost, items

    def learn(self, lists: Lists) -> None:
        self.rates.learn(lists)

    def scores(self, lists: Lists) -> Array:
        items, pairs = self.rates.of(lists, without=False)
        return lists.score + self.boost * (items if self.by_item else pairs)


class Bandit:
    """LinUCB's ridge regression without its bonus: nothing more is shown, so nothing to explore.

    Rates among the features are those of all other lists.
    """

    def __init__(self, shape: tuple[int, int], ridge: float) -> None:
        self.rates, self.ridge, self.weights = Rates(shape), ridge, np.zeros(5)

    def learn(self, lists: Lists) -> None:
        self.rates.learn(lists)
        X = self._features(lists, without=True)
        prior = self.ridge * np.array([0.25, 0.0, 0.0, 0.0, 0.0])
        A = X.T @ X + self.ridge * np.eye(X.shape[1])
        self.weights = np.linalg.solve(A, X.T @ lists.opened + prior)

    def scores(self, lists: Lists) -> Array:
        weights = np.array([1.0, 1.0, 1.0, 1.0, 0.0]) * self.weights  # places are left out
        return self._features(lists, without=False) @ weights

    def _features(self, lists: Lists, *, without: bool) -> Array:
        rates = self.rates.of(lists, without=without)
        one = np.ones(len(lists.list))
        return np.column_stack([lists.score, *rates, one, np.log1p(lists.place)])


class Ours:
    """Blend; the base is the score that ranked, as an inner product."""

    def __init__(self, scores: Array, *, pages: bool = True) -> None:
        self.blend, self.pages = Blend(), pages
        self.queries, self.items = factored(scores)

    def learn(self, lists: Lists) -> None:
        group = lists.list * (PAGE * PAGE) + (lists.rank // PAGE if self.pages else 0)
        feedback = Impressions.from_rows(
            lists.query,
            lists.item,
            lists.opened.astype(float),
            impression=group,
            position=(lists.place if self.pages else lists.rank) + 1,
        )
        self.blend.learn(self.queries, feedback, items=self.items)

    def scores(self, lists: Lists) -> Array:
        queries, row = np.unique(lists.query, return_inverse=True)
        return self.blend.pairwise_score(self.queries[queries], self.items)[row, lists.item]


def factored(scores: Array) -> tuple[Views, Views]:
    """Queries and items whose inner products are the scores.

    Items are orthogonal, so the cosine of two queries is that of their rows of scores.
    """
    square, U = np.linalg.eigh((scores @ scores.T).astype(float))
    kept = square > 1e-6 * square[-1]
    Q = U[:, kept] * np.sqrt(square[kept])
    Z = scores.T @ (U[:, kept] / np.sqrt(square[kept]))
    return Views(score=Q.astype(np.float32)), Views(score=Z.astype(np.float32))


def contenders(scores: Array) -> dict[str, Callable[[], Learner]]:
    boost = chosen_setting("click table")["boost"]
    ridge = chosen_setting("LinUCB")["ridge"]
    return {
        "logged order": LoggedOrder,
        "click table": lambda: Table(scores.shape, boost, items=False),
        "click table of items": lambda: Table(scores.shape, boost, items=True),
        "LinUCB": lambda: Bandit(scores.shape, ridge),
        "Blend": lambda: Ours(scores),
        "Blend, places counted through": lambda: Ours(scores, pages=False),
    }


def run(only: list[str] = ()) -> None:
    """Append the rows of contenders that have none."""
    lists, scores = seen_lists(load_lisp())
    done = {row["contender"] for row in read()}
    made = contenders(scores)
    wanted = [name for name in only or made if name not in done]
    people = np.unique(lists.person)
    with progress("clicks", len(wanted) * len(people)) as advance:
        for name in wanted:
            rows = []
            for person in people:
                rows += _rows(name, made[name](), lists, person)
                advance(1)
            _append(rows)


def _rows(name: str, learner: Learner, lists: Lists, person: int) -> Iterator[dict[str, Any]]:
    others, own = lists.of(lists.person != person), lists.of(lists.person == person)
    learner.learn(others)
    scores = learner.scores(own)
    plain, weighted = [], []
    for each in np.unique(own.list[own.saved]):
        rows = own.list == each
        order = np.argsort(-scores[rows], kind="stable")
        plain.append(ndcg(own.saved[rows][order].astype(float)))
        weighted.append(ndcg((own.saved[rows] / looks(others)[own.place[rows]])[order]))
    if plain:
        yield {
            "contender": name,
            "person": person,
            "lists": len(plain),
            "ndcg": f"{np.mean(plain):.5f}",
            "ndcg weighted": f"{np.mean(weighted):.5f}",
        }


def looks(lists: Lists) -> Array:
    """How much is opened at each place of a page, relative to the first."""
    opened = np.bincount(lists.place, lists.opened, PAGE) / np.bincount(lists.place, minlength=PAGE)
    return opened / opened[0]


def ndcg(gains: Array) -> float:
    """nDCG@10 of gains in the order of a ranking."""
    discount = 1 / np.log2(np.arange(2, min(len(gains), SHOWN) + 2))
    return float(gains[:SHOWN] @ discount / (np.sort(gains)[::-1][:SHOWN] @ discount))


def read() -> list[dict[str, Any]]:
    if not PATH.exists():
        return []
    with PATH.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    return [
        {
            **row,
            "person": int(row["person"]),
            "ndcg": float(row["ndcg"]),
            "ndcg weighted": float(row["ndcg weighted"]),
        }
        for row in rows
    ]


def _append(rows: list[dict[str, Any]]) -> None:
    new = not PATH.exists()
    PATH.parent.mkdir(parents=True, exist_ok=True)
    with PATH.open("a", newline="") as stream:
        table = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        if new:
            table.writeheader()
        table.writerows(rows)
