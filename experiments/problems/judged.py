"""Search over frozen vectors: judgements of some queries to learn from, other queries to rank for.

Queries are dealt into five parts: seed s tests on part s mod 5, validates on the next and learns
from the other three, so that five seeds test every query once.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from experiments.datasets import load_newsgroups_embeddings, load_retrieval
from experiments.problems.base import Problem
from similia.feedback.grades import RelevanceTriplets
from similia.feedback.sampling import TRIPLET_SAMPLERS

PARTS = 5
SHOWN = 50  # results that a person looks at, where feedback is on what was shown
STREAM = 10_000
VALIDATED = 2000


class Feedback(NamedTuple):
    """What an adapter learns from: vectors of queries and items, and triplets of their rows."""

    Q: Any
    Z: Any
    triplets: Any


class Ranking(NamedTuple):
    """What it is measured on: unseen queries, all items, and what `similia.evaluate` asks for."""

    Q: Any
    Z: Any
    relevant: dict[str, Any]


def search(
    seed: int,
    *,
    name: str,
    n: int,
    worse: str = "any",
    noise: float = 0.0,
    n_queries: int | None = None,
    perfect: bool = False,
) -> Problem:
    """Cranfield or CISI with sentence vectors, n triplets of training queries.

    Worse items are "any" that were not judged relevant, or, as better ones then, among the first
    50 that the base has "shown". A share of `noise` is turned round; `n_queries` limits how many
    training queries were judged; in a `perfect` set the base's first ten are what is relevant.
    """
    Q, Z, relevance = _collection(name)
    ranked = np.argsort(-(Q @ Z.T), axis=1, kind="stable")
    if perfect:
        relevance = _marked(ranked[:, :10], relevance.shape)
    judged = np.flatnonzero(np.diff(relevance.indptr))
    parts = np.array_split(np.random.default_rng(seed // PARTS).permutation(judged), PARTS)
    test, valid, *rest = (parts[(seed + i) % PARTS] for i in range(PARTS))
    train = np.sort(np.concatenate(rest))
    if n_queries is not None:
        train = np.random.default_rng([seed, 1]).permutation(train)[:n_queries]
    triplets = _source(relevance, ranked, train, worse).draw(
        STREAM, np.random.default_rng([seed, 2])
    )
    return _problem(
        Feedback(Q, Z, noisy(triplets, noise, seed)[:n]),
        *(Ranking(Q[rows], Z, {"relevance": relevance[rows]}) for rows in (test, valid)),
    )


def newsgroups_search(
    seed: int, *, n: int, noise: float = 0.0, as_many_items: bool = False
) -> Problem:
    """20 Newsgroups with sentence vectors, n triplets of labelled training messages.

    A fifth of the test messages are queries, all others of them are ranked; validation is on some
    of the training messages, which are not learnt from. They are 2,000 items to validation queries;
    with `as_many_items` others of training join them, until they are as many as for a test query.
    """
    X, y, in_train = _messages()
    test = np.array_split(
        np.random.default_rng(seed // PARTS).permutation(np.flatnonzero(~in_train)), PARTS
    )
    test = [test[(seed + i) % PARTS] for i in range(PARTS)]
    rows = np.random.default_rng([seed, 1]).permutation(np.flatnonzero(in_train))
    train = rows[VALIDATED:]
    pool = rows[: sum(map(len, test)) if as_many_items else VALIDATED]
    triplets = TRIPLET_SAMPLERS["uniform"](y[train]).draw(STREAM, np.random.default_rng([seed, 2]))
    return _problem(
        Feedback(X[train], X[train], noisy(triplets, noise, seed)[:n]),
        _by_label(X, y, np.concatenate(test), len(test[0])),
        _by_label(X, y, pool, VALIDATED // 4),
    )


def noisy(triplets: Any, share: float, seed: int) -> Any:
    """Turn round a share of the triplets, chosen at random."""
    wrong = np.random.default_rng([seed, 3]).random(len(triplets)) < share
    return np.where(wrong[:, None], triplets[:, [0, 2, 1]], triplets)


def _problem(feedback: Feedback, test: Ranking, valid: Ranking) -> Problem:
    return Problem(feedback, None, test, None, "search", valid)


def _by_label(X: Any, y: Any, rows: Any, n_queries: int) -> Ranking:
    first = rows[:n_queries]
    return Ranking(X[first], X[rows], {"labels": (y[first], y[rows]), "exclude_self": True})


def _source(relevance: Any, ranked: Any, train: Any, worse: str) -> Any:
    kept = np.zeros(relevance.shape[0])
    kept[train] = 1.0
    if worse == "any":
        given = sparse.csr_array(relevance.multiply(kept[:, None]))
        given.eliminate_zeros()
        return RelevanceTriplets(given)
    # What was shown has an entry, and its grade is added to a constant that keeps zeros stored.
    shown = _marked(ranked[:, :SHOWN], relevance.shape).multiply(kept[:, None])
    given = sparse.csr_array(shown + relevance.multiply(shown))
    given.eliminate_zeros()
    return RelevanceTriplets(given, unjudged="ignore")


def _marked(columns: Any, shape: tuple[int, int]) -> Any:
    rows = np.repeat(np.arange(shape[0]), columns.shape[1])
    return sparse.csr_array((np.ones(len(rows)), (rows, columns.ravel())), shape=shape)


@lru_cache(maxsize=2)
def _collection(name: str) -> tuple[Any, Any, Any]:
    data = load_retrieval(name)
    return _unit(data.queries), _unit(data.docs), data.relevance


@lru_cache(maxsize=1)
def _messages() -> tuple[Any, Any, Any]:
    data = load_newsgroups_embeddings()
    return _unit(data.X), data.y, data.train


def _unit(X: Any) -> Any:
    """Rows scaled to unit length; a row of zeros stays as it is."""
    lengths = np.linalg.norm(X, axis=1)[:, None]
    return (X / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)
